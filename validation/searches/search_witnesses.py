"""Search for counterexamples: witnesses for what fails, and an empty search for what is on record as holding.

    python validation/search_witnesses.py                   # all of it, under 15 minutes on one core
    python validation/search_witnesses.py --what holds      # only the forms on record as holding or open
    python validation/search_witnesses.py --what violated --write-witnesses

Writes search_report.json next to this file: for every form and rule the budget in instances, the largest (lhs - rhs)/scale and the
largest lhs/rhs met, with the instance. Ctrl-C keeps what is done. Exits with 1 when a form on record as holding has a counterexample,
or a violated one has none.
"""

from __future__ import annotations

import re
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from fedtheory import theorems
from fedtheory.provenance import provenance, write_json
from fedtheory.theorems import all_statements
from fedtheory.theorems.fedelasticnet.search import SearchResult, default_shapes, search
from fedtheory.verification import witness as witnesses

HERE = Path(__file__).parent
SHIPPED = Path(theorems.__file__).parent / "fedelasticnet" / "witnesses"
console = Console()


def jobs(what: str, only: str) -> list[tuple[Any, Any, str, str]]:
    """(statement, form, rule, verdict on record) to search."""
    wanted = {"all": ("holds", "open", "violated"), "holds": ("holds", "open"), "violated": ("violated",)}[what]
    return [
        (s, f, rule, verdict)
        for s in all_statements()
        if s.scope in ("round", "run")
        for f in s.forms
        if f.sides is not None and re.search(only, f"{s.id} {f.name}")
        for rule, verdict in f.established.items()
        if verdict in wanted
    ]


def hunt(statement: Any, form: Any, rule: str, budget: int, seed: int, tries: int = 4) -> SearchResult:
    """Search with further seeds until a violation is proved."""
    for number in range(tries):
        result = search(statement, form, rule, budget, seed + number)
        if result.witness is not None:
            break
    return result


def record(result: SearchResult, verdict: str, seconds: float, runs: int) -> dict[str, Any]:
    row = {k: v for k, v in asdict(result).items() if k != "witness"}
    row |= {"on_record": verdict, "seconds": round(seconds, 2), "empty": result.empty, "seeds": runs}
    row["witness"] = result.witness.name if result.witness else None
    return row


def summary(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="Search for counterexamples", caption="best: largest (lhs - rhs)/scale; tightness: largest lhs/rhs")
    for name in ("statement", "form", "rule", "on record", "instances", "best", "tightness", "found"):
        table.add_column(name, justify="right" if name in ("instances", "best", "tightness") else "left")
    for r in rows:
        tight = "" if r["tightness"] != r["tightness"] else f"{r['tightness']:.4f}"
        found = r["witness"] or ("nothing" if r["empty"] else "not proved")
        table.add_row(
            r["statement"], r["form"], r["rule"], r["on_record"], str(r["evaluations"]), f"{r['best']:.2e}", tight, found
        )
    return table


def main(
    what: Annotated[str, typer.Option(help="all, holds or violated")] = "all",
    only: Annotated[str, typer.Option(help="regular expression for 'statement form'")] = ".",
    budget: Annotated[int, typer.Option(help="instances a form and rule on record as holding or open: one round")] = 10_000,
    run_budget: Annotated[int, typer.Option(help="the same for statements about runs")] = 2_000,
    hunt_budget: Annotated[int, typer.Option(help="instances a form and rule on record as violated, and seed")] = 12_000,
    seed: int = 0,
    write_witnesses: Annotated[bool, typer.Option("--write-witnesses", help="write the witnesses into the package")] = False,
    out: Path = HERE / "search_report.json",
) -> None:
    """Run the searches and write the report."""
    rows: list[dict[str, Any]] = []
    todo, failed, start = jobs(what, only), [], time.perf_counter()
    try:
        with Progress(console=console) as progress:
            task = progress.add_task("searching", total=len(todo))
            for statement, form, rule, verdict in todo:
                began = time.perf_counter()
                progress.update(task, description=f"{statement.id} [{form.name}, {rule}]".replace("[", r"\["))
                if verdict == "violated":
                    result = hunt(statement, form, rule, hunt_budget, seed)
                else:
                    result = search(statement, form, rule, budget if statement.scope == "round" else run_budget, seed)
                rows.append(record(result, verdict, time.perf_counter() - began, result.seed - seed + 1))
                if (verdict == "violated") == (result.witness is None) and (verdict != "open" or result.witness):
                    failed.append(f"{statement.id} [{form.name}, {rule}]: on record as {verdict}, best {result.best:.3g}")
                if result.witness is not None:
                    found_by = {"search": "differential evolution (SciPy), then greedy rounding", "seed": result.seed}
                    found_by |= {"budget": result.budget, "evaluations": result.evaluations, "shape": result.best_instance["shape"]}
                    where = SHIPPED if write_witnesses and verdict == "violated" else out.parent / "witnesses"
                    kept = where / f"{result.witness.name}.json"
                    worse = not result.witness.reachable and kept.exists() and witnesses.load(kept).reachable
                    if (write_witnesses or verdict != "violated") and not worse:
                        found = replace(result.witness, found_by=found_by, provenance=provenance(result.seed))
                        witnesses.save(found, kept)
                progress.advance(task)
    except KeyboardInterrupt:
        console.print("[yellow]interrupted: the report holds what was done")
    report = {
        "provenance": provenance(seed),
        "what": what,
        "seconds": round(time.perf_counter() - start, 1),
        "budget": {"one round": budget, "runs": run_budget, "violated, a seed": hunt_budget},
        "shapes": {
            f"{scope}, {'violated or open' if hunted else 'holds'}": [str(x) for x in default_shapes(scope, hunted)]
            for scope in ("round", "run")
            for hunted in (False, True)
        },
        "complete": len(rows) == len(todo),
        "results": rows,
    }
    write_json(out, report)
    console.print(summary(rows))
    console.print(f"{sum(r['evaluations'] for r in rows)} instances in {report['seconds']} s; report in {out.name}")
    for line in failed:
        console.print(f"[red]{line}", markup=True)
    raise typer.Exit(1 if failed else 0)


if __name__ == "__main__":
    typer.run(main)
