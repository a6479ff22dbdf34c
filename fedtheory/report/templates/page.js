"use strict";
(() => {
  const root = document.documentElement, byId = (id) => document.getElementById(id);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  root.classList.add("js");

  // dark and light: what the reader chose, else what the system says
  const system = window.matchMedia("(prefers-color-scheme: dark)"), theme = byId("theme");
  const remembered = () => { try { return localStorage.getItem("fedtheory-theme"); } catch { return null; } };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const label = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
  if (["dark", "light"].includes(remembered())) root.dataset.theme = remembered();
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("fedtheory-theme", root.dataset.theme); } catch { /* a file may have no storage */ }
    label();
  });
  system.addEventListener("change", label);
  label();

  // filters and search
  const statements = all(".statement"), search = byId("search"), paper = byId("paper"), state = byId("state");
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const s of statements) {
      const ok = (!paper.value || s.closest(".paper").dataset.paper === paper.value)
        && (!state.value || (state.value === "alarm" ? s.dataset.ok === "0" : s.dataset.state === state.value))
        && words.every((w) => s.dataset.text.includes(w));
      s.hidden = !ok;
      shown += ok;
    }
    const filtered = shown < statements.length;
    for (const p of all(".paper")) {
      p.hidden = !all(".statement", p).some((s) => !s.hidden);
      for (const part of all(".points, .figures", p)) part.hidden = filtered && Boolean(state.value || words.length);
    }
    byId("count").textContent = filtered ? `${shown} of ${statements.length} statements` : `${shown} statement${shown === 1 ? "" : "s"}`;
    byId("nothing").hidden = shown > 0;
  };
  const clear = () => { search.value = paper.value = state.value = ""; filter(); };
  for (const control of [search, paper, state]) control.addEventListener("input", filter);
  byId("clear").addEventListener("click", clear);
  document.querySelector(".controls").addEventListener("submit", (event) => event.preventDefault());

  // folds
  const expand = byId("expand");
  expand.addEventListener("click", () => {
    const open = expand.getAttribute("aria-pressed") !== "true";
    for (const fold of all("#statements details")) fold.open = open;
    expand.setAttribute("aria-pressed", String(open));
    expand.textContent = open ? "Fold all" : "Expand all";
  });

  // a link to a part shows it and opens its fold
  const follow = () => {
    const part = byId(decodeURIComponent(location.hash.slice(1)));
    if (!part) return;
    if (part.hidden || part.closest("[hidden]")) clear();
    for (let node = part; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    const fold = part.matches(".statement") && part.querySelector("details.more");
    if (fold) fold.open = true;
    part.scrollIntoView({ behavior: "instant" });
  };
  window.addEventListener("hashchange", follow);

  // keyboard: / searches, Escape shows all; boxes that scroll can be reached
  document.addEventListener("keydown", (event) => {
    const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) { event.preventDefault(); search.focus(); }
    if (event.key === "Escape" && (typing || document.activeElement === document.body)) { clear(); document.activeElement.blur(); }
  });
  const mark = (entries) => {
    const seen = entries.filter((e) => e.isIntersecting).map((e) => [e.target, e.target.scrollWidth > e.target.clientWidth + 1]);
    for (const [box, wide] of seen) {
      if (wide) { box.tabIndex = 0; box.setAttribute("role", "group"); box.setAttribute("aria-label", "scrolls sideways"); }
      else if (box.hasAttribute("tabindex")) for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
    }
  };
  const watcher = new IntersectionObserver(mark), boxes = all(".formula");  // only what is in view is laid out
  const watch = () => { watcher.disconnect(); for (const box of boxes) watcher.observe(box); };
  let waiting = 0;
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(watch, 200); });

  filter();
  watch();
  if (location.hash) follow();
})();
