"""`fedtheory verify STATEMENT --instance NAME`: one statement on one instance of the campaign, built again by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.text import Text

from fedtheory.cli.common import (
    emit,
    error_line,
    find_statement,
    not_as_recorded,
    out_console,
    progress,
    save,
    slug,
    wrote,
)
from fedtheory.cli.options import refuse_given
from fedtheory.errors import InvalidInput, suggest

__all__ = ["verify_instance"]


def verify_instance(
    name: str | None, instance: str, given: Mapping[str, Any], seed: int, size: tuple[float, bool], as_json: bool, out: Path | None
) -> int:
    """Judge a statement on the instance of that name; 1 when a form is violated that is on record as holding.

    Parameters
    ----------
    instance : as a report names it; what a check appends to it (how many rounds, how many scenarios) may follow
    given : options that an instance of the campaign leaves no room for
    size : the battery's scale, and whether it has long runs
    """
    if name is None or name.endswith("/"):
        raise InvalidInput(f"--instance {instance!r}: only with a statement, as in `fedtheory verify eq-28 --instance NAME`")
    refuse_given(given, "not with --instance, which is a problem of its own; leave it out, or leave --instance out")
    from fedtheory.theory.judge.checks import Checks

    statement = find_statement(name)
    with progress("building the instance"):
        found = _of_that_name(statement, instance, seed, size)
    with progress("checking"):
        checks = Checks(c for task in found for c in task() if c.statement == statement.id)
    return _tell(statement, instance, checks, seed, as_json, out)


def _of_that_name(statement: Any, name: str, seed: int, size: tuple[float, bool]) -> list[Any]:
    """The tasks of the statement's paper whose instance has the name: several where they differ in the rule only."""
    from fedtheory.theory.judge import campaign
    from fedtheory.theory.judge.registry import paper_of

    about = paper_of(statement).only(statement)
    kinds = {f.kind for f in statement.forms if f.sides is not None}
    tasks = [t for t in campaign.plan(seed, size[0], long=size[1], only=[about]) if getattr(t.instance, "kind", None) in {*kinds, None}]
    found = [t for t in tasks if name == t.instance.name or name.startswith(f"{t.instance.name} ")]
    if not found:
        hint = "give --seed, --scale, --quick as the campaign had them"
        raise suggest(name, list(dict.fromkeys(t.instance.name for t in tasks)), f"instance of {statement.id}", hint)
    longest = max(len(t.instance.name) for t in found)
    return [t for t in found if len(t.instance.name) == longest]


def _tell(statement: Any, name: str, checks: Any, seed: int, as_json: bool, out: Path | None) -> int:
    from fedtheory.provenance import provenance

    if not checks:
        raise InvalidInput(f"{statement.id}: no form of it is about {name!r}; the report names the instances on which it was judged")
    unexpected = not_as_recorded(statement, checks)
    result = {
        "statement": statement.id,
        "instance": name,
        "verdict": checks.verdict,
        "checks": [asdict(c) for c in checks],
        "as_recorded": not unexpected,
        "provenance": provenance(seed),
    }
    path = save(out, slug("verify", statement.id.split("/")[-1], name), result)
    if as_json:
        emit(result)
        return int(bool(unexpected))
    from fedtheory.report.tables import check_table
    from fedtheory.theory.judge.checks import Checks
    from fedtheory.theory.judge.registry import rule_words

    console = out_console()
    console.print(Text(f"{statement.id}: {statement.title}", "bold"))
    console.print(Text(f"on the campaign's instance {name}"))
    rules = list(dict.fromkeys(c.rule for c in checks))
    for rule in rules:
        console.print(Text(f"\n{rule_words(rule, statement.id)}" if len(rules) > 1 else "", "bold"))
        console.print(check_table(Checks(c for c in checks if c.rule == rule), console.width))
    for c in unexpected:
        error_line(f"{c.form}: violated, though it is on record as holding")
    wrote([path])
    return int(bool(unexpected))
