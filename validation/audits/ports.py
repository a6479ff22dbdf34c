"""The tables of docs/audit.md: what the audit, and a rate test, say of the ports in examples/ports.

python -m validation.audits.ports write   # run all of them, and put the tables into the page
python -m validation.audits.ports show    # only print them
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import typer

from examples.ports import scaffold
from examples.ports.reports import FALSE_ALARMS, READ, REPORTS, Report
from fedtheory.provenance import write_atomic
from fedtheory.testing import assert_rate, audit_algorithm
from fedtheory.testing.audit import METHODS, AuditReport
from fedtheory.testing.audit.adapters import Adapter, AdapterError
from fedtheory.testing.audit.battery import clients_of, everybody, optimum
from fedtheory.testing.audit.session import Session

__all__ = ["audited", "rate_test", "sections"]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "audit.md"
ROUNDS, FIRST = 40, 4
SHOWN = 2  # names of checks in a cell

HEADS = ("| report | what the code did | the audit | a rate test |", "|---|---|---|---|")
TITLES = {
    "fedavg": "FedAvg", "fedprox": "FedProx", "scaffold": "SCAFFOLD", "feddyn": "FedDyn",
    "fedadam": "FedAdam and FedYogi", "fedyogi": "FedAdam and FedYogi",
}  # fmt: skip

app = typer.Typer(add_completion=False, help=__doc__, rich_markup_mode=None)


@lru_cache(maxsize=64)
def audited(port: Callable[..., Any], method: str) -> AuditReport:
    """The audit of a port."""
    return audit_algorithm(port, method)


@lru_cache(maxsize=64)
def rate_test(port: Callable[..., Any], method: str) -> str:
    """'passes', or why not: F(x_t) - F* falls at least as fast as 1/t, with everybody taking part
    in every round.

    A method whose fixed point is the optimum is run on clients that differ. Any other one ends
    beside the optimum there; its clients share a minimiser, so that it ends in it.
    """
    known = METHODS[method]
    session = Session(Adapter(port), known, {}, None, 60.0, 0)
    clients = clients_of("squared", 0, shared_optimum=known.aim != "optimum")
    x, _ = optimum(clients, known.weighting)
    task = session.task(clients, everybody(ROUNDS), start=x + 1.0)
    try:
        models = session.call(task).models
    except AdapterError as error:
        return f"fails: {error.what}"
    share = np.array([c.num_examples if known.weighting == "examples" else 1 for c in clients], dtype=float)
    gaps = [sum(w * (c.value(y) - c.value(x)) for w, c in zip(share / share.sum(), clients, strict=True))
            for y in (task.start, *models.values())]  # fmt: skip
    try:
        assert_rate(np.abs(gaps), -1, window=(FIRST, ROUNDS), kind="at least as fast", floor=1e-15)
    except AssertionError as error:
        text = str(error)
        return (
            "fails: inconclusive"
            if "inconclusive" in text
            else "fails: it diverges"
            if gaps[-1] > gaps[0]
            else "fails: it stops"
        )
    return "passes"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _found(report: AuditReport) -> str:
    names = [f.check for f in report.failed]
    more = len(names) - SHOWN
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:SHOWN])} and {more} more"


def _said(report: AuditReport) -> str:
    """Say what the audit names, and what is the same from outside."""
    words = [" and ".join(m.words for m in found) for found in report.explanations]
    return ", or ".join(words) if words else "nothing that it knows"


def _link(report: Report) -> str:
    return f"[{report.repository} {report.number}]({report.url})"


def row(report: Report) -> str:
    """A line of a table."""
    found = audited(report.port, report.method)
    status = f"<br>{report.status}" if report.status else ""
    said = f"**{_said(found)}**<br>fails: {_found(found)}"
    cells = [f"{_link(report)}{status}", report.did, said, rate_test(report.port, report.method)]
    return "| " + " | ".join(_cell(c) for c in cells) + " |"


def _table(progress: Any) -> str:
    """A table for each method, and how many there are of what."""
    rows: dict[str, list[str]] = {}
    for report in progress(REPORTS):
        rows.setdefault(TITLES[report.method], []).append(row(report))
    blind = [r for r in REPORTS if rate_test(r.port, r.method) == "passes"]
    lines = textwrap.wrap(
        f"A rate test passes {len(blind)} of these {len(REPORTS)} ports. The audit fails "
        f"{sum(not audited(r.port, r.method).passed for r in REPORTS)} of them, and names the reported mistake in "
        f"{sum(named(r) for r in REPORTS)}.", 98)  # fmt: skip
    for title, body in rows.items():
        lines += ["", f"### {title}", "", *HEADS, *body]
    return "\n".join(lines)


def named(report: Report) -> bool:
    """Return whether the audit names the reported mistake, alone or among those that look alike."""
    return any(
        {m.name for m in found} == set(report.mistakes) for found in audited(report.port, report.method).explanations
    )


def _read() -> str:
    return "\n".join([*HEADS, *(row(report) for report in READ)])


def _alarms() -> str:
    lines = ["| report | why it is right | the audit |", "|---|---|---|"]
    for report in FALSE_ALARMS:
        passed = "passes" if audited(report.port, report.method).passed else "fails"
        lines.append("| " + " | ".join(_cell(c) for c in (_link(report), report.did, passed)) + " |")
    return "\n".join(lines)


def _output() -> str:
    """One report as the command prints it, its sentence in lines, without what does not apply."""
    typed = "examples/ports/scaffold.py:niid_bench_12"
    report = replace(audited(scaffold.niid_bench_12, "scaffold"), adapter=typed)
    sentence, _, table = str(report).partition("\n")
    left_out = tuple(f.check for f in report.findings if f.verdict == "does not apply")
    lines = [line for line in table.splitlines() if not line.startswith(left_out)]
    return "\n".join(["```text", *textwrap.wrap(sentence, 98), *lines, "```"])


def sections(progress: Any = iter) -> dict[str, str]:
    """Name of each generated part of the page -> its Markdown."""
    return {"output": _output(), "ports": _table(progress), "read": _read(), "alarms": _alarms()}


def page_with(text: str, parts: dict[str, str]) -> str:
    """The page with these parts between their lines `% begin NAME` and `% end NAME`."""
    for name, body in parts.items():
        text, count = re.subn(
            rf"(?<=% begin {name}\n\n).*?(?=\n\n% end {name})", lambda _, body=body: body, text, flags=re.S
        )
        if count != 1:
            raise typer.BadParameter(f"{PAGE.name} must have one part {name!r}, it has {count}")
    return text


@app.command()
def write() -> None:
    """Run all ports and put what is found into docs/audit.md."""
    text = PAGE.read_text()
    page_with(text, dict.fromkeys(("output", "ports", "read", "alarms"), ""))  # before any work starts
    write_atomic(PAGE, page_with(text, sections(_shown)))


@app.command()
def show() -> None:
    """Run all ports and print what is found."""
    print("\n\n".join(sections(_shown).values()))


def _shown(reports: Any) -> Any:
    for i, report in enumerate(reports, start=1):
        typer.echo(f"{i} of {len(reports)}: {report.port.__name__}", err=True)
        yield report


if __name__ == "__main__":
    app()
