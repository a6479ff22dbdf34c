"""`fedtheory list`: statements, papers, methods, compressors, problems, and what else there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from fedtheory.cli.common import emit, in_file, out_console, paper_named, save, shipped_witnesses, statements_in
from fedtheory.errors import suggest
from fedtheory.report.stacked import NARROW, Stacked, items, plain_table

__all__ = ["KINDS", "about_form", "about_method", "about_statement", "list_things"]


def list_things(what: str, as_json: bool, out: Path | None) -> None:
    """One kind of thing, or the statements of a paper or of a Python file, as a table or JSON."""
    file, name = in_file(what)
    if file is not None:
        found = _statements([s for p in statements_in(file, name) for s in p.statements])
        what, save_as = "statements", f"list-{file.stem}"
    elif (paper := paper_named(what)) is not None:
        found = _statements(paper.statements)
        what, save_as = "statements", f"list-{paper.id}"
    elif what not in KINDS:
        raise suggest(what, KINDS, "kind of thing", "a paper's statements are PAPER/, a Python file's FILE.py")
    else:
        found, save_as = KINDS[what](), f"list-{what}"
    save(out, save_as, found)
    if as_json:
        emit(found)
    elif what == "statements":
        console = out_console()
        console.print(_statement_list(found, console.width))
    elif not found:
        out_console().print(f"no {what}")
    else:
        _print_plain(found)


def _statements(chosen: Sequence[Any] | None = None) -> list[dict[str, Any]]:
    from fedtheory.theory.judge.registry import all_statements

    return [
        about_statement(s) | {"forms": [about_form(f) for f in s.forms]}
        for s in (all_statements() if chosen is None else chosen)
    ]


def about_statement(s: Any) -> dict[str, Any]:
    """A statement, with what its setting says of it, but for its forms."""
    from fedtheory.theory.judge.registry import paper_of

    paper = paper_of(s)
    told = paper.setting.about(s)
    return {
        "id": s.id, "paper": paper.title, "title": s.title, "source": s.source, "kind": s.kind,
        "scope": s.scope, "scope_in_words": told.scope,
        "runs_on_a_problem": told.refusal is None, "why_not": told.refusal,
        "shown_by": s.shown_by, "asks": list(told.asks),
    }  # fmt: skip


def about_form(f: Any) -> dict[str, Any]:
    """A form, and what is on record of it."""
    return {
        "name": f.name, "wording": f.wording, "established": dict(f.established),
        "known": {rule: f.known(rule) for rule in f.established},
        "worst_case_at": "" if f.worst is None else f.worst.at,
    }  # fmt: skip


def _papers() -> list[dict[str, Any]]:
    from fedtheory.theory.judge.registry import papers

    rows = []
    for p in papers():
        runs = sum(p.setting.about(s).refusal is None for s in p.statements)
        count = f"{len(p.statements)} statements, {runs} of them on a problem of yours"
        row = {"name": p.id, "title": p.title, "about": f"{p.title}: {p.about}; {count}", "source": p.file or None}
        rows.append({**row, "statements": len(p.statements), "run_on_a_problem": runs})
    return rows


def _methods() -> list[dict[str, Any]]:
    from fedtheory import algorithms
    from fedtheory.central.plan import METHODS

    return [about_method(name) for name in (*algorithms.names(), *METHODS)]


def about_method(name: str) -> dict[str, Any]:
    """A method that `run` knows, with its options and their defaults."""
    from fedtheory import algorithms
    from fedtheory.central.plan import METHODS
    from fedtheory.cli.ball import BY_THEORY
    from fedtheory.cli.options import defaults_of, flag
    from fedtheory.theory.judge.registry import paper

    if name in METHODS:
        return _central(name)
    cls = algorithms.get(name)
    own = {flag(name): _default(default) for name, default in defaults_of(cls).items()}
    source = getattr(cls, "parameters_from", "")  # what the command line finds itself
    computed: Mapping[str, Any] = paper(source).computed if source else BY_THEORY
    return {
        "name": cls.name, "source": cls.source, "class": f"fedtheory.algorithms.{cls.__name__}",
        "options": own | dict(computed.get(cls.name, {})),
    }


def _compressors() -> list[dict[str, Any]]:
    """What --compressor takes, with its parameters."""
    from fedtheory import messages

    rows = []
    for cls in map(messages.get, messages.names()):
        own = [f.name for f in fields(cls) if f.init]
        taken = f"; takes {', '.join(own)}" if own else ""
        about = (cls.__doc__ or "").splitlines()[0].rstrip(".")
        rows.append({"name": cls.name, "about": about + taken, "class": f"fedtheory.messages.{cls.__name__}"})
    return rows


def _default(value: Any) -> str:
    return "needed" if value is MISSING else str(value)


def _central(name: str) -> dict[str, Any]:
    """A method that has all data in one place, or everybody in every round, over a convex set."""
    from fedtheory.central.plan import ACCURACY, METHODS

    own = {"--set": "ball", "--set-size": "1.0", "--epsilon": f"{ACCURACY:g}", "--lam": "from --epsilon", "--D": "from --epsilon"}
    more = {"--rounds": "from --epsilon", "--lipschitz": "the problem's", "--noise": "0.0", "--local-training": "sliding"}
    return {
        "name": name, "source": "Thekumparampil et al. 2020, over a convex set",
        "class": f"fedtheory.central.{METHODS[name].__name__}",
        "options": {**own, **more, **({"--allowance": "diameter^2"} if name == "moles" else {})},
    }  # fmt: skip


def _problems() -> list[dict[str, Any]]:
    from fedtheory.cli.problems import PROBLEMS

    return [
        {"name": name, "about": p.about, "options": [f"--{t.replace('_', '-')}" for t in p.takes]} for name, p in PROBLEMS.items()
    ]


def _metrics() -> list[dict[str, Any]]:
    from fedtheory.simulation.simulate import METRICS

    return [{"name": name, "about": about} for name, about in METRICS.items()]


def _witnesses() -> list[dict[str, Any]]:
    from fedtheory.theory.judge.registry import setting_of

    def about(w: Any) -> str:
        return setting_of(w.statement).summary(w).split("]: ", 1)[-1]

    return [
        {"name": w.name, "about": about(w), "statement": w.statement, "form": w.form, "rule": w.rule}
        for w in shipped_witnesses()
    ]


IN_BRACKETS = "[in brackets]: may be left out, with its default"
KINDS = {
    "statements": _statements,
    "papers": _papers,
    "methods": _methods,
    "problems": _problems,
    "compressors": _compressors,
    "metrics": _metrics,
    "witnesses": _witnesses,
}


def _print_plain(found: list[dict[str, Any]]) -> None:
    names = [k for k in ("name", "source", "about", "options") if found[0].get(k)]
    console, longest = out_console(), max(len(row["name"]) for row in found)
    if console.width - longest < 40 or ("options" in names and console.width < NARROW):  # no room beside the names
        _print_stacked(console, found)
        return
    table = plain_table(names, whole=(0,))
    for row in found:
        cells = []
        for name in names:
            value = row[name]
            if isinstance(value, dict):
                value = " ".join(k if v == "needed" else f"[{k} {v}]" for k, v in value.items())
            cells.append(Text(" ".join(value) if isinstance(value, list) else str(value)))
        table.add_row(*cells)
    console.print(table)
    if "options" in names and "class" in found[0]:
        console.print(f"\n{IN_BRACKETS}", style="dim", markup=False)


def _print_stacked(console: Any, found: list[dict[str, Any]]) -> None:
    """Names, with the rest below each."""
    table = Stacked([""])  # names are flush left, what belongs to them is indented
    for row in found:
        options = row.get("options", ())
        told = [k if v == "needed" else f"[{k} {v}]" for k, v in options.items()] if isinstance(options, dict) else options
        table.add_row(Text(row["name"], "bold"), below=[row.get("source", ""), row.get("about", ""), items(told, console.width)])
    console.print(table)
    if any(isinstance(row.get("options"), dict) for row in found):
        console.print(f"\n{IN_BRACKETS}", style="dim", markup=False)


def _record(form: dict[str, Any] | None, short: Mapping[str, str]) -> Text:
    from fedtheory.report.tables import NO_FORM, STYLES

    if form is None:
        return Text(NO_FORM, "dim")
    verdicts = form["established"]
    if len(set(verdicts.values())) == 1:
        (only,) = set(verdicts.values())
        rule = next(iter(verdicts))
        note = f"\n({short.get(rule, rule)})" if len(verdicts) == 1 and "any" not in verdicts else ""
        return Text(only + note, STYLES[only])
    return Text("\n").join(Text(f"{v}\n({short.get(rule, rule)})", STYLES[v]) for rule, v in verdicts.items())


def _statement_list(found: list[dict[str, Any]], width: int) -> Group:
    from fedtheory.report.tables import WORDED_NOTE
    from fedtheory.theory.judge.registry import by_paper

    narrow, headings = width < NARROW, ("as printed", "as repaired", "more\nforms")
    table: Table | Stacked = Stacked(("statement;\n  title", *headings), right=(3,))
    if not narrow:
        table = plain_table(("statement", "title", *headings), right=(4,), whole=(0, 2, 3, 4), wide=(1,))
    for n, (paper, group) in enumerate(by_paper(found, lambda s: s["id"])):
        called, ids = Text(paper.title, "bold"), Text(f"ids begin with {paper.id}/", "dim")
        if n:
            table.add_row("")
        table.add_row(*([Text.assemble(called, ": ", ids)] if narrow else [called, ids]))
        for s in group:
            identifier, title, cells = _statement_row(s, paper)
            if isinstance(table, Stacked):
                table.add_row(identifier, *cells, below=[title])
            else:
                table.add_row(identifier, title, *cells)
    heading = Text("Statements, and what is on record for each", "dim")
    return Group(heading, table, Text(WORDED_NOTE, "dim"))


def _statement_row(s: dict[str, Any], paper: Any) -> tuple[str, str, tuple[Any, ...]]:
    """The name, the title, and the cells of the printed and the repaired form and of how many more there are."""
    from fedtheory.report.tables import NO_FORM, WORDED

    forms = {f["name"]: f for f in s["forms"]}
    printed = next((f for f in s["forms"] if f["name"] == "printed" or f["wording"]), None)
    more = len([f for f in s["forms"] if f is not printed and f["name"] != "repaired"])
    mark = WORDED if printed is not None and printed["wording"] else ""
    records = (_record(printed, paper.rule_short), _record(forms.get("repaired"), paper.rule_short))
    if s["kind"] == "claim":
        records = (Text("claim, not\njudged", "dim"), Text(NO_FORM, "dim"))
    title = f"{s['title']}; measured by `{s['shown_by']}`" if s["shown_by"] else s["title"]
    return s["id"].split("/")[-1] + mark, title, (*records, str(more or ""))
