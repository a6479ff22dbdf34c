"""`fedtheory list` and `fedtheory explain`."""

from __future__ import annotations

import difflib
import inspect
import textwrap
from contextlib import suppress
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fedtheory.cli.common import emit, out_console, save

__all__ = ["explain", "find_statement", "list_things", "shipped_witnesses"]


def find_statement(name: str) -> Any:
    """A statement by id; the paper's prefix may be left out.

    Raises
    ------
    UnknownName
        With the nearest ids, or with all of that name where several papers have one.
    """
    from fedtheory.errors import UnknownName
    from fedtheory.theorems import all_statements, get

    same = [s for s in all_statements() if s.id.lower().split("/", 1)[-1] == name.lower()]
    if len(same) > 1:
        ids = [s.id for s in same]
        raise UnknownName(f"{name!r} is a statement of {len(ids)} papers: write {', '.join(ids[:-1])} or {ids[-1]}")
    if same:
        return same[0]
    for paper in () if "/" in name else dict.fromkeys(s.id.split("/")[0] for s in all_statements()):
        with suppress(UnknownName):
            return get(f"{paper}/{name}")  # an alias
    if "/" not in name:  # near ids without their papers, or short ids are always the nearest
        near = difflib.get_close_matches(name.lower(), {s.id.split("/", 1)[-1] for s in all_statements()}, n=3, cutoff=0.6)
        ids = [s.id for tail in near for s in all_statements() if s.id.split("/", 1)[-1] == tail][:4]
        hint = f"did you mean {' or '.join(map(repr, ids))}?" if ids else "see `fedtheory list`"
        raise UnknownName(f"unknown statement {name!r}: {hint}")
    return get(name)


def shipped_witnesses() -> list[Any]:
    """Witnesses that come with the package; none when it carries no such folder."""
    from fedtheory.verification.witness import builtin_witnesses

    try:
        papers = ("fedelasticnet", "fedmls", "efl", "elastic_aggregation")
        return [w for paper in papers for w in builtin_witnesses(paper)]
    except FileNotFoundError:
        return []


def list_things(what: str, as_json: bool, out: Path | None) -> None:
    """One kind of thing, as a table or JSON."""
    found = {
        "statements": _statements,
        "methods": _methods,
        "problems": _problems,
        "metrics": _metrics,
        "witnesses": _witnesses,
    }[what]()
    save(out, f"list-{what}", found)
    if as_json:
        emit(found)
    elif what == "statements":
        out_console().print(_statement_list(found))
    elif not found:
        out_console().print(f"no {what}")
    else:
        _print_plain(found)


def _statements() -> list[dict[str, Any]]:
    from fedtheory.theorems import all_statements

    return [
        {
            "id": s.id,
            "title": s.title,
            "source": s.source,
            "kind": s.kind,
            "scope": s.scope,
            "forms": [{"name": f.name, "wording": f.wording, "established": dict(f.established)} for f in s.forms],
        }
        for s in all_statements()
    ]


def _methods() -> list[dict[str, Any]]:
    from fedtheory import algorithms
    from fedtheory.cli.options import RENAMED, flag

    rows = []
    for name in algorithms.names():
        cls = algorithms.get(name)
        rows.append(
            {
                "name": name,
                "source": cls.source,
                "class": f"fedtheory.algorithms.{cls.__name__}",
                "options": {
                    flag(RENAMED.get(f.name, f.name)): "needed" if f.default is MISSING else str(f.default) for f in fields(cls)
                }
                | COMPUTED.get(name, {}),
            }
        )
    return rows


COMPUTED = {  # what the command line finds itself
    "fedmls": {f"--{name}": "from --epsilon" for name in ("lam", "D", "rounds")}
    | {"--radius": "least power of 2", "--lipschitz": "the problem's", "--epsilon": "0.2", "--noise": "0.0"},
    "subgradient": {"--step": "by theory", "--output": "average", "--radius": "least power of 2"},
}


def _problems() -> list[dict[str, Any]]:
    from fedtheory.cli.problems import PROBLEMS

    return [
        {"name": name, "about": p.about, "options": [f"--{t.replace('_', '-')}" for t in p.takes]} for name, p in PROBLEMS.items()
    ]


def _metrics() -> list[dict[str, Any]]:
    from fedtheory.simulation.simulate import METRICS

    return [{"name": name, "about": about} for name, about in METRICS.items()]


def _witnesses() -> list[dict[str, Any]]:
    return [
        {"name": w.name, "about": str(w).split("]: ", 1)[-1], "statement": w.statement, "form": w.form, "rule": w.rule}
        for w in shipped_witnesses()
    ]


def _print_plain(found: list[dict[str, Any]]) -> None:
    names = [k for k in ("name", "source", "about", "options") if k in found[0]]
    console, longest = out_console(), max(len(row["name"]) for row in found)
    if names == ["name", "about"] and console.width - longest < 40:  # no room for a column beside the names
        for row in found:
            console.print(Text(row["name"]), soft_wrap=True)
            console.print(Padding(Text(row["about"], "dim"), (0, 0, 0, 2)))
        return
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    for name in names:
        table.add_column(name, no_wrap=name == "name", overflow="fold")
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
        console.print("\n[in brackets]: may be left out, with its default", style="dim", markup=False)


_SHORT_RULES = {"true-gradient": "true-gr.", "deterministic": "exact", "stochastic": "noisy", "C-corrected": "C corr."}


def _record(form: dict[str, Any] | None) -> Text:
    from fedtheory.report.tables import NO_FORM, STYLES

    if form is None:
        return Text(NO_FORM, "dim")
    verdicts = form["established"]
    if len(set(verdicts.values())) == 1:
        (only,) = set(verdicts.values())
        rule = next(iter(verdicts))
        note = f"\n({_SHORT_RULES.get(rule, rule)})" if len(verdicts) == 1 and "any" not in verdicts else ""
        return Text(only + note, STYLES[only])
    return Text("\n").join(Text(f"{v}\n({_SHORT_RULES.get(rule, rule)})", STYLES[v]) for rule, v in verdicts.items())


def _statement_list(found: list[dict[str, Any]]) -> Table:
    from fedtheory.report.tables import NO_FORM, WORDED, WORDED_NOTE, by_paper

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    table.add_column("statement", no_wrap=True)
    table.add_column("title", ratio=1, overflow="fold")
    table.add_column("as printed", no_wrap=True)
    table.add_column("as repaired", no_wrap=True)
    table.add_column("more\nforms", justify="right", style="dim")
    for n, (paper, group) in enumerate(by_paper(found, lambda s: s["id"])):
        if n:
            table.add_row()
        table.add_row(Text(paper.name, "bold"), Text(f"ids begin with {group[0]['id'].split('/')[0]}/", "dim"))
        for s in group:
            forms = {f["name"]: f for f in s["forms"]}
            printed = next((f for f in s["forms"] if f["name"] == "printed" or f["wording"]), None)
            more = len([f for f in s["forms"] if f is not printed and f["name"] != "repaired"])
            mark = WORDED if printed is not None and printed["wording"] else ""
            records = (_record(printed), _record(forms.get("repaired")))
            if s["kind"] == "claim":
                records = (Text("claim, not\njudged", "dim"), Text(NO_FORM, "dim"))
            table.add_row(s["id"].split("/")[-1] + mark, s["title"], *records, str(more or ""))
    table.title = "Statements, and what is on record for each"
    table.title_justify, table.title_style = "left", "dim"
    table.caption, table.caption_justify, table.caption_style = WORDED_NOTE, "left", "dim"
    return table


def explain(name: str, as_json: bool, out: Path | None) -> None:
    """Everything there is to know about a statement."""
    from fedtheory.report.tables import rule_text
    from fedtheory.verification.statement import WORDINGS

    statement = find_statement(name)
    about = _about(statement)
    save(out, f"explain-{statement.id.replace('/', '-')}", about)
    if as_json:
        emit(about)
        return
    console = out_console()
    width = min(console.width, 120)

    def block(text: Any, indent: int = 4, style: str = "") -> None:
        more = {"initial_indent": " " * indent, "subsequent_indent": " " * (indent + 2), "break_on_hyphens": False}
        for line in textwrap.wrap(str(text), width, break_long_words="LaTeX" in str(text), **more):
            console.print(Text(line, style))

    console.print(Text(f"{statement.id}: {statement.title}", "bold"))
    block(f"{about['source']}; {about['kind']}, {about['scope_in_words']}", 2, "dim")
    for form in about["forms"]:
        console.print()
        recorded = ", ".join(f"{v}{'' if r == 'any' else f' ({rule_text(r)})'}" for r, v in form["established"].items())
        console.print(Text.assemble(("  ", ""), (form["name"], "bold"), f": on record as {recorded}"))
        if form["wording"]:
            block(f"({WORDINGS[form['wording']]})", 4, "dim")
        block(form["text"], 4, "cyan")
        if form["name"] in ("printed", "repaired") or form["wording"]:
            block(f"LaTeX: {form['latex']}", 4, "dim")
        if form["note"]:
            block(f"Note: {form['note']}")
        if form["threshold"] is not None:
            block(f"Claimed for lambda_2/beta > {form['threshold']:.6g}")
        if form["mutants"]:
            block(f"Rejects: {'; '.join(form['mutants'])}")
        for witness in form["witnesses"]:
            block(f"Witness: fedtheory replay {witness}")
    if about["assumptions"]:
        console.print("\n  Assumptions", style="bold")
        for assumption in about["assumptions"]:
            block(f"- {assumption}")
    if about["symbols"]:
        console.print("\n  Symbols", style="bold")
        for symbol, where in about["symbols"].items():
            block(f"{symbol}: {where}")
    if about["code"]:
        console.print()
        block(f"Code: {about['code']}", 2, "dim")
    console.print()
    if all(f.sides is None and f.symbolic is None for f in statement.forms):
        block("Nothing to run: it cannot be proved or refuted here", 2)
        return
    block(f"Try: {_try(statement)}", 2)


def _try(statement: Any) -> str:
    """A command that runs the statement."""
    from fedtheory.theorems import all_statements

    tail = statement.id.split("/")[-1]
    shared = len([s for s in all_statements() if s.id.split("/")[-1] == tail]) > 1
    name = statement.id if shared or statement.scope == "efl" else tail
    if statement.scope != "efl":
        usual = " --problem diabetes --participants 2"
        how = {"algebra": "", "fixed-point": " --problem diabetes", "fedmls": " --problem lad"}.get(statement.scope, usual)
        return f"fedtheory verify {name}{how}"
    kind = statement.forms[0].requires[0]
    if kind == "shift":
        return f"fedtheory verify {name} --problem breast-cancer --{'arrival' if 'arrival' in name else 'departure'} 2"
    if kind == "step":
        return f"fedtheory verify {name} --problem diabetes --clients 3 --inactive 0.3 --local-steps 2"
    if kind == "run":
        return f"fedtheory verify {name} --problem diabetes --inactive 0.3 --incomplete uniform"
    found = [w.name for w in shipped_witnesses() if w.statement == statement.id]
    return f"fedtheory replay {found[0]}" if found else "fedtheory verify --quick --details (it is about instances of its own kind)"


def _efl_scope(statement: Any) -> str:
    """What a statement of EFL is about."""
    from fedtheory.report.tables import paper_of

    if statement.kind == "claim":
        return "not provable here"
    return {
        "run": "about a run of EFL without compression",
        "step": "about one round of EFL from a given state",
        "shift": "about the optima before and after one client leaves or joins",
        "compression": "about one compressed message",
        "feedback": "about runs with compression and residuals",
        "elastic": "about runs with the elastic term",
        "limit": "about where runs end under each scheme",
        "rates": "about the orders of Table 1",
        "after-shift": "about the step size after the objective has moved",
        "departed": "about rounds after a client has left",
        "inactive": "about inactive clients",
        "abandon": "about keeping or abandoning an inactive client",
        "keep": "about keeping or abandoning an inactive client",
        "epochs": "about keeping or abandoning an inactive client",
        "incomplete": "about incomplete clients",
    }.get(statement.forms[0].requires[0], f"about {paper_of(statement.id).name}")


def _about(statement: Any) -> dict[str, Any]:
    from fedtheory.report.formulas import to_text

    scope = {
        "round": "about one round from a given state",
        "run": "about a run of T rounds",
        "fixed-point": "about a fixed point of Algorithm 1",
        "fedmls": "about a run of FedMLS with K rounds",
        "algebra": "no data enter",
    }
    witnesses = shipped_witnesses()
    first = statement.forms[0].sides or statement.forms[0].symbolic
    module = getattr(inspect.getmodule(first), "__name__", "")
    return {
        "id": statement.id,
        "title": statement.title,
        "source": statement.source,
        "kind": statement.kind,
        "scope": statement.scope,
        "scope_in_words": _efl_scope(statement) if statement.scope == "efl" else scope[statement.scope],
        "assumptions": list(statement.assumptions),
        "symbols": dict(statement.symbols),
        "code": module,
        "forms": [
            {
                "name": f.name,
                "wording": f.wording,
                "latex": f.latex,
                "text": to_text(f.latex),
                "note": f.note,
                "established": dict(f.established),
                "threshold": f.threshold,
                "mutants": [m.name for m in f.mutants],
                "witnesses": [w.name for w in witnesses if (w.statement, w.form) == (statement.id, f.name)],
            }
            for f in statement.forms
        ],
    }
