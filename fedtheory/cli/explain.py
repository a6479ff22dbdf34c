"""`fedtheory explain`: all that is known of a statement."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from rich.padding import Padding
from rich.text import Text

from fedtheory.cli.common import (
    block,
    emit,
    find_statement,
    in_file,
    in_words,
    out_console,
    paper_named,
    save,
    shipped_witnesses,
    statements_in,
    warn_of_formulas,
)

__all__ = ["explain"]


def explain(name: str, as_json: bool, out: Path | None) -> None:
    """Tell all there is to know about a statement, or each one of a paper or of a Python file."""
    file, inside = in_file(name)
    whose = [paper_named(name)] if file is None else statements_in(file, inside)
    chosen = [find_statement(name)] if whose == [None] else [s for p in whose if p is not None for s in p.statements]
    found = []
    for n, statement in enumerate(chosen):
        warn_of_formulas(statement)
        found.append(_about(statement))
        save(out, f"explain-{statement.id.replace('/', '-')}", found[-1])
        if not as_json:
            if n:
                out_console().print()
            _show(statement, found[-1])
    if as_json:
        emit(found if len(found) > 1 else found[0])


def _show(statement: Any, about: dict[str, Any]) -> None:
    from fedtheory.theory.judge.registry import rule_words
    from fedtheory.theory.judge.statement import WORDINGS

    console = out_console()

    def tell(text: Any, indent: int = 4, style: str = "") -> None:
        block(text, indent, 2, style, 120, break_long_words="LaTeX" in str(text))

    def section(title: str, lines: list[str]) -> None:
        if lines:
            console.print(f"\n  {title}", style="bold")
        for line in lines:
            tell(line)

    console.print(Text(f"{statement.id}: {statement.title}", "bold"))
    tell("; ".join(filter(None, (about["source"], f"{about['kind']}, {about['scope_in_words']}"))), 2, "dim")
    section("About", [f"{what}: {words}" for what, words in about["declares"].items()])
    for form in about["forms"]:
        console.print()
        recorded = ", ".join(f"{v}{'' if r == 'any' else f' ({rule_words(r, statement.id)})'}" for r, v in form["established"].items())
        console.print(Padding(Text.assemble((form["name"], "bold"), f": on record as {recorded}"), (0, 0, 0, 2), expand=False))
        if form["wording"]:
            tell(f"({WORDINGS[form['wording']]})", 4, "dim")
        tell(form["text"], 4, "cyan")
        if form["latex"] and (form["name"] in ("printed", "repaired") or form["wording"]):
            tell(f"LaTeX: {form['latex']}", 4, "dim")
        number = f"; fedtheory verify {statement.paper}/ has the number"
        for label, text in (
            ("Note: ", form["note"]),
            ("Worst case/bound: of all problems at ", form["worst_case_at"] and form["worst_case_at"] + number),
            ("Only where: ", "; ".join(form["conditions"])),
            ("", form["evidence"]),
            ("Wrong variants, which must be rejected: ", "; ".join(form["mutants"])),
            *(("Witness: fedtheory replay ", witness) for witness in form["witnesses"]),
        ):
            if text:
                tell(f"{label}{text}")
    section("Assumptions", [f"- {assumption}" for assumption in about["assumptions"]])
    section("Asks of a problem of yours", [f"- {asked}" for asked in about["asks"]])
    for title, key in (("May be given (--given NAME=VALUE)", "takes"), ("Symbols", "symbols")):
        section(title, [f"{name}: {words}" for name, words in about[key].items()])
    if about["code"]:
        console.print()
        tell(f"Code: {about['code']}", 2, "dim")
    console.print()
    if all(f.sides is None and f.symbolic is None for f in statement.forms):
        tell("Nothing to run: it cannot be proved or refuted here", 2)
        if about["shown_by"]:
            tell(f"What it is about is measured by: {about['shown_by']}", 2)
        return
    if about["why_not"]:
        tell(f"Not on a problem of yours: {about['why_not']}", 2)
    tell(f"Try: {_try(statement)}", 2)


def _try(statement: Any) -> str:
    """A command that runs the statement."""
    from fedtheory.theory.judge.registry import about_of, paper_of

    paper, name, example = paper_of(statement), in_words(statement), about_of(statement).example
    if example is not None:
        return f"fedtheory verify {name} {example}".rstrip()
    if found := shipped_witnesses(statement):
        return f"fedtheory replay {found[0].name}"
    return f"fedtheory verify {name if paper.file else f'{paper.id}/ --details'} (it is about instances of its own kind)"


def _about(statement: Any) -> dict[str, Any]:
    from fedtheory.cli.list import about_form, about_statement
    from fedtheory.report.formulas import shown
    from fedtheory.theory.judge.registry import about_of, paper_of

    told, witnesses = about_of(statement), shipped_witnesses(statement)
    first = statement.forms[0].sides or statement.forms[0].symbolic
    return about_statement(statement) | {
        "takes": dict(told.takes), "assumptions": list(statement.assumptions),
        "declares": dict(told.declares), "symbols": dict(told.symbols),
        "code": paper_of(statement).file or getattr(inspect.getmodule(first), "__name__", ""),
        "forms": [
            about_form(f) | {
                "latex": f.latex, "text": shown(f, statement.title), "note": f.note,
                "limits": dict(f.limits), "conditions": list(f.conditions), "evidence": f.evidence,
                "mutants": [m.name for m in f.mutants],
                "witnesses": [w.name for w in witnesses if w.form == f.name],
            }
            for f in statement.forms
        ],
    }  # fmt: skip
