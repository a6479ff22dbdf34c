"""`fedtheory reviews`: what reviewers of a paper asked, and what settles it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from rich.text import Text

from fedtheory.cli.common import block, emit, out_console, save
from fedtheory.errors import InvalidInput, suggest
from fedtheory.report.stacked import plain_table

__all__ = ["reviews"]

STYLES = {"statement": "green", "run": "green", "partly": "yellow", "opinion": "dim"}


def reviews(paper: str | None, point: str | None, run: bool, as_json: bool, out: Path | None) -> int:
    """List the papers with reviews, the points of one, or show one in full and run its command; the exit code.

    All points of a paper are also written as a page of Markdown, where a folder is given.
    """
    from fedtheory.theory.judge.registry import paper as known
    from fedtheory.theory.judge.registry import papers
    from fedtheory.theory.judge.reviews import told

    if paper is None:
        if run:
            raise InvalidInput("--run: say which point, as in `fedtheory reviews fedelasticnet R2.2 --run`")
        counts = [(p, len(p.shown("reviews"))) for p in papers()]
        rows = [{"name": p.id, "title": p.title, "points": n} for p, n in counts if n]
        _list(rows, as_json, out)
        return 0
    chosen = known(paper.removesuffix("/"))
    points = chosen.shown("reviews")
    if not points:
        having = ", ".join(p.id for p in papers() if p.shown("reviews"))
        raise InvalidInput(f"{chosen.id} has no reviews here; there are those of {having or 'no paper'}")
    found = [told(p, chosen.id) for p in points]
    if point is not None:
        wanted = point.upper()
        shown = [f for f in found if f["id"] == wanted or f["id"].startswith(f"{wanted}.")]
        if not shown:
            ids, what = [f["id"] for f in found], f"point of {chosen.id}'s reviews"
            raise suggest(point, ids, what, f"`fedtheory reviews {chosen.id}` has all")
        found = shown
    if run and (point is None or len(found) > 1):
        raise InvalidInput("--run: one point's command at a time, as in `fedtheory reviews fedelasticnet R2.2 --run`")
    if run and not found[0]["commands"]:
        raise InvalidInput(f"--run: {found[0]['id']} has no command: it is {_kind(found[0])}")
    save(out, f"{chosen.id}_reviews" + ("" if point is None else f"-{point.lower()}"), found)
    if point is None and out is not None:
        from fedtheory.provenance import write_atomic
        from fedtheory.report.reviews import page

        write_atomic(out / f"{chosen.id}_reviews.md", page(chosen).encode())
    if as_json:
        emit(found)
    elif point is None:
        _show_all(chosen, found)
    else:
        for n, one in enumerate(found):
            _show(one, first=n == 0)
    return _run(found[0]["commands"][0]) if run else 0


def _kind(point: dict[str, Any]) -> str:
    from fedtheory.theory.judge.reviews import KINDS

    return KINDS[point["kind"]]


def _list(rows: list[dict[str, Any]], as_json: bool, out: Path | None) -> None:
    save(out, "reviews", rows)
    if as_json:
        emit(rows)
        return
    table = plain_table(("paper", "title", "points"), right=(2,))
    for row in rows:
        table.add_row(row["name"], row["title"], str(row["points"]))
    console = out_console()
    console.print(table)
    console.print("\n`fedtheory reviews PAPER` goes through them", style="dim", markup=False)


def _show_all(paper: Any, points: list[dict[str, Any]]) -> None:
    from fedtheory.theory.judge.reviews import KINDS

    console = out_console()
    counts = Counter(p["kind"] for p in points)
    summary = ", ".join(f"{counts[k]} {words}" for k, words in KINDS.items() if counts[k])
    console.print(Text(f"{paper.title}: {len(points)} points of its reviews, in our words ({summary})", "bold"))
    reviewer = ""
    for p in points:
        if p["id"].split(".")[0] != reviewer:
            reviewer = p["id"].split(".")[0]
            console.print(f"\nReviewer {reviewer[1:]}", style="bold underline")
        block(f"{p['id']}  {p['asks']}", hang=6, style="bold")
        console.print(Text(f"      {_kind(p)}", STYLES[p["kind"]]))
        block(p["answer"], 6)
        for command in p["commands"][:1]:
            console.print(Text(f"      {command}", "cyan"), soft_wrap=True)
    console.print(f"\n`fedtheory reviews {paper.id} ID` shows one in full, --run runs its command", style="dim", markup=False)


def _show(p: dict[str, Any], first: bool) -> None:
    console = out_console()
    if not first:
        console.print()
    block(f"{p['id']}  {p['asks']}", hang=6, style="bold")
    console.print(Text(f"  {_kind(p)}", STYLES[p["kind"]]))
    block(p["answer"], 2)
    if p["more"]:
        block(p["more"], 2)
    if p["rests_on"]:
        console.print("\n  On record", style="bold")
        for r in p["rests_on"]:
            rule = "" if r["rule"] == "any" else f", {r['rule']} rule"
            changed = "" if r["verdict"] == r["as_written"] else f" (the answer was written for {r['as_written']!r}: read it with care)"
            block(f"{r['statement']} [{r['form']}{rule}]: {r['verdict']}{changed}", 4)
    if p["commands"]:
        console.print("\n  Shown by", style="bold")
        for command in p["commands"]:
            console.print(Text(f"    {command}", "cyan"), soft_wrap=True)


def _run(command: str) -> int:
    """The command in a process of its own, its output as it comes; its exit code."""
    console = out_console()
    console.print(Text(f"\n$ {command}", "bold"), soft_wrap=True)
    sys.stdout.flush()
    return subprocess.run([sys.executable, "-m", *shlex.split(command)], check=False).returncode
