"""Search for counterexamples: witnesses for what fails, and an empty search for what is on record
as holding.

    python validation/searches/search_witnesses.py                               # the statements of all papers
    python validation/searches/search_witnesses.py --paper fedelasticnet         # of one; under 15 minutes on one core
    python validation/searches/search_witnesses.py --what holds                  # only the forms on record as holding or open
    python validation/searches/search_witnesses.py --what violated --write-witnesses

Writes search_report.json next to this file: for every form and rule the budget in instances, the
largest (lhs - rhs)/scale and the largest lhs/rhs met, with the instance. Ctrl-C keeps what is done.
Exits with 1 when a form on record as holding has a counterexample, or a violated one has none.
"""

from __future__ import annotations

import re
import time
from dataclasses import asdict, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from fedtheory.errors import InvalidInput
from fedtheory.provenance import provenance, write_json
from fedtheory.theorems import all_statements
from fedtheory.theory.judge import replay as witnesses
from fedtheory.theory.judge.registry import paper_of, setting_of
from fedtheory.theory.judge.search import SearchResult

HERE = Path(__file__).parent
console = Console()


def jobs(what: str, only: str, paper: str) -> list[tuple[Any, Any, str, str]]:
    """(statement, form, rule, verdict on record) to search, of one paper or of all."""
    wanted = {"all": ("holds", "open", "violated"), "holds": ("holds", "open"), "violated": ("violated",)}[what]
    return [
        (s, f, rule, verdict)
        for s in all_statements(f"{paper}/" if paper else "")
        for f in s.forms
        if f.sides is not None and re.search(only, f"{s.id} {f.name}")
        for rule, verdict in f.established.items()
        if verdict in wanted
    ]


def hunt(statement: Any, form: Any, rule: str, budget: int, seed: int, tries: int = 4) -> SearchResult:
    """Search with further seeds until a violation is proved."""
    for number in range(tries):
        result = setting_of(statement).search(statement, form, rule, budget, seed + number)
        if result.witness is not None:
            break
    return result


def shipped(statement: Any) -> Path:
    """Return where the witnesses of its paper lie."""
    return Path(str(resources.files(paper_of(statement).witnesses))) / "witnesses"


def keep(result: SearchResult, folder: Path) -> None:
    """Write the witness, unless there is one already from a real run and this one is from an
    arbitrary state."""
    witness, path = result.witness, folder / f"{result.witness.name}.json"
    if "state" in witness.data and path.exists() and "state" not in witnesses.load(path).data:
        return
    found_by = {**witness.found_by, "seed": result.seed, "budget": result.budget, "evaluations": result.evaluations}
    witnesses.save(replace(witness, found_by=found_by, provenance=provenance(result.seed)), path)


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
    paper: Annotated[str, typer.Option(help="the id of a paper (default: all papers)")] = "",
    budget: Annotated[int, typer.Option(help="instances a form and rule on record as holding or open: one round")] = 10_000,
    run_budget: Annotated[int, typer.Option(help="the same for statements about runs")] = 2_000,
    hunt_budget: Annotated[int, typer.Option(help="instances a form and rule on record as violated, and seed")] = 12_000,
    seed: int = 0,
    write_witnesses: Annotated[bool, typer.Option("--write-witnesses", help="write the witnesses into the package")] = False,
    out: Path = HERE / "search_report.json",
) -> None:
    """Run the searches and write the report."""
    rows: list[dict[str, Any]] = []
    todo, failed, left_out, start = jobs(what, only, paper), [], 0, time.perf_counter()
    try:
        with Progress(console=console) as progress:
            task = progress.add_task("searching", total=len(todo))
            for statement, form, rule, verdict in todo:
                began = time.perf_counter()
                progress.update(task, description=f"{statement.id} [{form.name}, {rule}]".replace("[", r"\["))
                instances = run_budget if statement.scope == "run" else budget
                try:
                    if verdict == "violated":
                        result = hunt(statement, form, rule, hunt_budget, seed)
                    else:
                        result = setting_of(statement).search(statement, form, rule, instances, seed)
                except InvalidInput as error:  # instances of this kind are not drawn at random
                    console.print(f"[dim]left out: {error}")
                    left_out += 1
                    progress.advance(task)
                    continue
                rows.append(record(result, verdict, time.perf_counter() - began, result.seed - seed + 1))
                if (verdict == "violated") == (result.witness is None) and (verdict != "open" or result.witness):
                    failed.append(f"{statement.id} [{form.name}, {rule}]: on record as {verdict}, best {result.best:.3g}")
                if result.witness is not None and (write_witnesses or verdict != "violated"):
                    keep(result, shipped(statement) if verdict == "violated" else out.parent / "witnesses")
                progress.advance(task)
    except KeyboardInterrupt:
        console.print("[yellow]interrupted: the report holds what was done")
    report = {
        "provenance": provenance(seed),
        "what": what,
        "seconds": round(time.perf_counter() - start, 1),
        "budget": {"one round": budget, "runs": run_budget, "violated, a seed": hunt_budget},
        "complete": len(rows) + left_out == len(todo),
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
