"""The page in a real browser: nothing overflows, nothing is logged, filters and links work, contrast, keyboard, print, no script.

The page is that of a small campaign that is run here, of one paper, and of the recorded verdicts of the statements with the widest
formulas of the others. It needs Chromium on the path, or its file in FEDTHEORY_CHROMIUM, and the extra 'test'.
"""

import os
import shutil

import pytest
from campaign_rows import record_of, recorded_rows

from fedtheory.report.html import html_report
from fedtheory.theory.judge import campaign
from fedtheory.theory.judge.registry import paper
from fedtheory.theory.judge.replay import builtin_witnesses, replay

CHROMIUM = os.environ.get("FEDTHEORY_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the path; FEDTHEORY_CHROMIUM may name its file")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install 'fedtheory[test]'")

WIDTHS = (400, 1400)
WIDE = (
    "fedelasticnet/eq-40", "fedelasticnet/theorem-3.1", "fedelasticnet/second-message", "fedelasticnet/table-1", "fedmls/theorem-1",
    "efl/theorem-1", "efl/corollary-1-epochs",
)  # fmt: skip
RUN = ("elastic-aggregation/sign", "elastic-aggregation/full-participation", "elastic-aggregation/moving-average")

OVERFLOWING = """() => {
  const width = document.documentElement.clientWidth, boxes = ".formula, .skip";
  const out = [...document.querySelectorAll("body *")].filter((e) => {
    const r = e.getBoundingClientRect();
    return r.width > 0 && (r.right > width + 1 || r.left < -1) && !e.closest(boxes);
  });
  const wide = [...document.querySelectorAll(boxes)].filter((e) => e.scrollWidth > e.clientWidth + 1);
  const cut = wide.filter((e) => getComputedStyle(e).overflowX !== "auto");
  return [document.documentElement.scrollWidth - width, ...[...out, ...cut].map((e) => e.tagName + "." + e.className)];
}"""
TRIMMED = """(kept) => {
  for (const e of document.querySelectorAll("math")) e.replaceWith("x = y");
  for (const e of document.querySelectorAll(".statement")) if (!kept.includes(e.id)) e.remove();
  const many = [".point", ".form", ".witness", ".proof li", ".worst li", "tr", "dd .tile", "dl dt", "dl dd"];
  for (const kind of many) for (const e of document.querySelectorAll(`${kind}:nth-of-type(n + 4)`)) e.remove();
  for (const e of document.querySelectorAll("a[href^='#']")) if (!document.getElementById(e.hash.slice(1))) e.href = "#provenance";
}"""  # axe looks at every letter of every formula: one statement of each kind is enough
SHOWN = "() => [...document.querySelectorAll('.statement')].filter((s) => !s.hidden).map((s) => s.id)"


def small_campaign():
    """The rows of a campaign of some statements, run in this process, with their witnesses."""
    chosen = paper("elastic-aggregation")
    about = chosen.only(*(s for s in chosen.statements if s.id in RUN))
    tasks = campaign.plan(0, 0.02, long=False, only=[about])[:12]
    checks = [check for task in tasks for check in task()]
    replayed = [(w.name, replay(w)) for w in builtin_witnesses(chosen.id) if w.statement in RUN]
    return campaign.summarise(checks, replayed, about.statements)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    from PIL import Image

    folder = tmp_path_factory.mktemp("report")
    picture = folder / "elastic_aggregation.png"
    Image.new("RGB", (1300, 500), "white").save(picture)
    shipped = {(w.statement, w.form, w.rule): w.name for w in builtin_witnesses()}
    rows = [*recorded_rows(WIDE), *small_campaign()]
    for row in rows:
        row.witness = shipped.get((row.statement, row.form, row.rule))
    assert {r.verdict for r in rows if r.statement in RUN} >= {"holds", "violated"}
    file = folder / "report.html"
    file.write_text(html_report(rows, record_of(rows), [picture]), encoding="utf-8")
    return file.as_uri()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as session:
        found = session.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def opened(browser, address):
    """callable(width, ...) -> a page; in the end nothing was logged, and nothing asked of a network."""
    logged, asked, contexts = [], [], []

    def open_page(width=1400, **options):
        contexts.append(browser.new_context(viewport={"width": width, "height": 1000}, **options))
        page = contexts[-1].new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: logged.append(message.text))
        page.on("pageerror", lambda error: logged.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert logged == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_overflows(opened, width):
    page = opened(width)
    assert page.evaluate(OVERFLOWING) == [0]
    page.click("#expand")
    for fold in page.query_selector_all("details:not([open])"):
        fold.evaluate("(e) => { e.open = true; }")
    page.wait_for_timeout(200)
    assert page.evaluate(OVERFLOWING) == [0]
    wide = page.evaluate("() => [...document.querySelectorAll('.formula')].filter((e) => e.scrollWidth > e.clientWidth + 1).length")
    assert wide == 0 or width == 400, "at full width every formula fits"
    assert width != 400 or page.locator(".picture").count() == 1
    if width == 400:  # the picture, 1300 wide, is as wide as its box
        inside = "(e) => [e.scrollWidth - e.clientWidth, Math.round(e.querySelector('img').getBoundingClientRect().width) < 400]"
        assert page.locator(".picture").evaluate(inside) == [0, True]


def test_contrast_and_names(opened):
    """By axe, on a statement of each kind with its folds open; the contrast in the dark as well."""
    from axe_playwright_python.sync_playwright import Axe

    page = opened()
    page.click("#expand")
    page.evaluate(TRIMMED, ["fedmls-theorem-1", "fedelasticnet-table-1", "elastic-aggregation-sign"])
    for theme, only in (("light", None), ("dark", ["color-contrast"])):
        page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
        options = {"resultTypes": ["violations"], **({"runOnly": only} if only else {})}
        found = Axe().run(page, options=options).response["violations"]
        assert [(v["id"], v["nodes"][0]["html"][:120]) for v in found] == []


def test_filters_search_and_links(opened):
    page = opened()
    every = page.evaluate(SHOWN)
    assert len(every) == len(WIDE) + len(RUN) and "10 statements" in page.inner_text("#count")
    page.select_option("#state", "fails")
    fails = page.evaluate(SHOWN)
    assert 0 < len(fails) < len(every) and all("violated" in page.text_content(f"[id='{id}'] .verdicts") for id in fails)
    page.select_option("#paper", "fedmls")
    assert page.evaluate(SHOWN) == ["fedmls-theorem-1"] and not page.is_visible("#paper-efl")
    page.fill("#search", "no such words")
    assert page.evaluate(SHOWN) == [] and page.is_visible("#nothing")
    page.click("#clear")
    assert page.evaluate(SHOWN) == every
    page.fill("#search", "moving-average")
    assert page.evaluate(SHOWN) == ["elastic-aggregation-moving-average"]
    page.click(".tile[href='#efl-theorem-1']")  # a link shows what a filter hides
    page.wait_for_function("() => location.hash === '#efl-theorem-1'")
    assert page.is_visible("#efl-theorem-1 .witness >> nth=0") and page.evaluate(SHOWN) == every
    box = page.locator("#efl-theorem-1").bounding_box()
    assert -5 <= box["y"] < 300, "it is scrolled to, and not below the bar"
    targets = page.evaluate("() => [...document.querySelectorAll('a[href^=\"#\"]')].map((a) => a.getAttribute('href').slice(1))")
    assert all(page.evaluate("(ids) => ids.map((id) => Boolean(document.getElementById(id)))", targets))


def test_keyboard_theme_and_a_link_from_elsewhere(opened, browser, address):
    page = opened(color_scheme="dark")
    paper_colour = "() => getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper_colour)
    page.keyboard.press("/")
    assert page.evaluate("() => document.activeElement.id") == "search"
    page.keyboard.type("sign")
    assert len(page.evaluate(SHOWN)) < len(WIDE) + len(RUN)
    page.keyboard.press("Escape")
    assert len(page.evaluate(SHOWN)) == len(WIDE) + len(RUN)
    page.focus("#theme")
    page.keyboard.press("Enter")
    assert page.evaluate(paper_colour) != dark and page.inner_text("#theme") == "Dark"
    page.goto(address.replace(".html", ".html#fedelasticnet-theorem-3.1"))
    page.reload()
    assert page.is_visible("[id='fedelasticnet-theorem-3.1'] .witness >> nth=0")
    assert page.inner_text("#theme") == "Dark", "what was chosen is kept"


def test_without_script_and_on_paper(opened, tmp_path):
    page = opened(java_script_enabled=False)
    assert not page.is_visible(".controls") and not page.is_visible("#theme")
    assert page.is_visible("#fedmls-theorem-1 .formula >> nth=0") and not page.is_visible("#fedmls-theorem-1 .witness >> nth=0")
    page.click("#fedmls-theorem-1 details.more > summary")
    assert page.is_visible("#fedmls-theorem-1 .witness >> nth=0")
    page = opened(color_scheme="dark")
    page.emulate_media(media="print")
    assert not page.is_visible(".controls") and page.is_visible("#fedmls-theorem-1 .formula >> nth=0")
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.pdf()[:5] == b"%PDF-"
