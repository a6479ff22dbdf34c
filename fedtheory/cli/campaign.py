"""`fedtheory verify` without a statement: the campaign, its table, its files and its exit code."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fedtheory.cli.common import check_out, emit, err_console, error_line, not_writable, out_console, progress
from fedtheory.cli.explain import shipped_witnesses
from fedtheory.errors import FedTheoryError

__all__ = ["campaign_command", "default_workers", "peak_memory_mib"]


def default_workers() -> int:
    """Cores this process may use, at most 8."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(8, cores))


def peak_memory_mib() -> dict[str, float]:
    """Peak resident memory of this process and of its largest finished child."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return {
        "main": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit,
        "largest_worker": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / unit,
    }


def replay_shipped(workers: int) -> list[tuple[str, Any]]:
    """(name, check) of every witness that comes with the package; the error's text where one does not replay."""
    from fedtheory.parallel import as_finished

    shipped = shipped_witnesses()
    out: dict[int, Any] = {}
    with progress("witnesses", len(shipped)) as advance:
        for i, result in as_finished(_replay_one, shipped, workers):
            out[i] = result
            advance()
    return [(witness.name, out[i]) for i, witness in enumerate(shipped)]


def _replay_one(witness: Any) -> Any:
    from fedtheory.verification.witness import replay

    try:
        return replay(witness)
    except FedTheoryError as error:
        return str(error)


def campaign_command(
    out: Path, seed: int, quick: bool, scale: float, long: bool, workers: int, budget: int, details: bool, json_out: bool
) -> int:
    """Run everything, write everything; the exit code."""
    from fedtheory.parallel import stop_workers
    from fedtheory.provenance import provenance, write_json
    from fedtheory.report.html import write_reports
    from fedtheory.verification import campaign

    check_out(out)
    start = time.perf_counter()
    scale, long = (0.1, False) if quick else (scale, long)
    tasks = campaign.plan(seed, scale, long=long)
    counts: dict[str, int] = {}
    for task in tasks:
        counts[task.instance.family] = counts.get(task.instance.family, 0) + 1
    settings = {
        "seed": seed, "scale": scale, "long_runs": long, "workers": workers, "instances_by_family": counts,
        "search_budget": budget, "statements": len(_statements()),
    }  # fmt: skip
    checked = False  # all instances; only the search is left
    result = campaign.Campaign(instances=len({t.instance.name for t in tasks}), settings=settings, complete=False)
    checks: list[Any] = []
    replayed: list[tuple[str, Any]] = []

    def record() -> dict[str, Any]:
        broken = {name: text for name, text in replayed if isinstance(text, str)}
        result.rows = campaign.summarise(checks, [(name, check) for name, check in replayed if name not in broken])
        rows = len(result.rows)
        if not result.complete or scale < 1:  # a form that met no instance that it is about has no verdict to compare
            result.rows = [r for r in result.rows if r.instances or r.inconclusive]
        missed = rows - len(result.rows)
        result.seconds = time.perf_counter() - start
        return {
            **result.to_json(),
            "checked": len({c.instance for c in checks if c.instance}),
            "comparisons": sum(c.count for c in checks),
            "witnesses": {"replayed": len(replayed) - len(broken), "broken": broken},
            "forms_not_met": missed,
            "memory_mib": peak_memory_mib(),
            "provenance": provenance(seed, "cpu"),
        }

    try:
        replayed = replay_shipped(workers)
        with progress("instances", len(tasks)) as advance:
            checks, result.complete = campaign.run(tasks, workers, on_task=lambda done, _: advance())
        checked = result.complete
        if checked and budget:
            result.complete = False
            write_json(out / "campaign.json", record())  # so that nothing that goes wrong from here on loses what is known
            result.searches, result.complete = _search(budget, seed, workers)
    except KeyboardInterrupt:
        result.complete = False
    if not result.complete:
        err_console().print("interrupted: writing what was checked so far", style="yellow")
    try:
        path = write_json(out / "campaign.json", record())
        drawn, stopped = _figures(out, path, seed, workers) if result.complete else ([], False)
        stop_workers()
        final = record()
        write_json(path, final)
        files = [path, *drawn, *write_reports(out, result.rows, final, drawn)]
    except OSError as error:
        raise not_writable(out, error) from error
    found = any(s["found"] for s in result.searches)
    code = 130 if stopped or not result.complete else int(not result.ok or found or bool(final["witnesses"]["broken"]))
    if json_out:
        emit({**final, "files": files, "exit_code": code})
        return code
    _show(result, final, files, details, checked)
    return code


def _statements() -> Sequence[Any]:
    from fedtheory.theorems import all_statements

    return all_statements()


def _search(budget: int, seed: int, workers: int) -> tuple[list[dict[str, Any]], bool]:
    """The witness search turned on every form not on record as violated; a quarter of the budget where forms share instances.

    Returns the searches that were finished, and whether they are all: False after an interrupt.
    """
    from fedtheory.parallel import as_finished
    from fedtheory.verification import search as efl_search

    jobs: list[tuple[str, ...]] = [("fedmls",), *((kind,) for kind in efl_search.kinds())]  # all forms of a kind at once
    jobs += [
        (s.id, f.name, rule)
        for s in _statements()
        for f in s.forms
        if s.scope in ("round", "run")
        for rule, verdict in f.established.items()
        if verdict != "violated"
    ]
    out: list[dict[str, Any]] = []
    complete = False
    try:
        with progress("search for counterexamples", len(jobs)) as advance:
            for _, records in as_finished(_search_one, [(job, budget, seed) for job in jobs], workers):
                out += records
                advance()
        complete = True
    except KeyboardInterrupt:
        pass  # what was found counts
    return sorted(out, key=lambda r: (r["statement"], r["form"], r["rule"])), complete


def _search_one(task: tuple[tuple[str, ...], int, int]) -> list[dict[str, Any]]:
    job, budget, seed = task
    from fedtheory.theorems.fedelasticnet import search as witness_search
    from fedtheory.theorems.fedmls import search as fedmls_search
    from fedtheory.verification import search as efl_search

    if job == ("fedmls",):
        found = fedmls_search.search_all(max(1, budget // 4), seed)
    elif len(job) == 1:
        found = efl_search.search_kind(job[0], max(1, budget // 4), seed)
    else:
        found = [witness_search.search(*job, budget=budget, seed=seed)]
    return [{**asdict(f), "found": not f.empty} for f in found]


def _figures(out: Path, campaign_json: Path, seed: int, workers: int) -> tuple[list[Path], bool]:
    """The figures' files, and whether drawing them was interrupted."""
    try:
        from fedtheory.report.figures import draw_all
    except ImportError:
        return [], False
    try:
        with progress("figures") as advance:
            return draw_all(out / "figures", campaign_json, seed, lambda *_: advance(), workers=workers), False
    except KeyboardInterrupt:
        err_console().print("interrupted: the figures are left out", style="yellow")
        return [], True


def _show(result: Any, record: dict[str, Any], files: Sequence[Path], details: bool, checked: bool) -> None:
    from fedtheory.report.tables import details_table, disagreements, rule_text, statement_table, table_key, tried

    console = out_console()
    console.print(statement_table(result.rows, console.width))
    console.print(f"\n{table_key(result.rows)}", style="dim")
    if details:
        console.print()
        console.print(details_table(result.rows, console.width))
    memory = record["memory_mib"]
    workers = result.settings["workers"]
    console.print(
        f"\n{record['checked']} of {result.instances} instances, {record['comparisons']:,} comparisons, "
        f"{record['witnesses']['replayed']} witnesses replayed"
    )
    largest = f", and {memory['largest_worker']:.0f} MiB in the largest of {workers} workers" if workers > 1 else ""
    console.print(f"{result.seconds:.0f} s, peak memory {memory['main']:.0f} MiB{largest}")
    if result.searches:
        found = [s for s in result.searches if s["found"]]
        console.print(
            f"counterexample search: {len(result.searches)} forms not on record as violated, {tried(result.searches)}: "
            f"{len(found) or 'none'} found"
        )
        for s in found:
            error_line(f"counterexample to {s['statement']} [{s['form']}, {rule_text(s['rule'])}]: {s['best_instance']}")
    figures = [f for f in files if f.parent.name == "figures"]
    more = f", and {len(figures)} files of figures in {figures[0].parent}" if figures else ""
    console.print("wrote " + ", ".join(str(f) for f in files if f not in figures) + more)
    if result.complete and (missed := record["forms_not_met"]):
        console.print(f"{missed} forms met no instance that they are about in so small a campaign, and are left out")
    wrong = disagreements(result.rows, result.complete)
    for name, text in record["witnesses"]["broken"].items():
        error_line(f"the witness {name} does not replay: {text}")
    if not result.complete:
        error_line(f"incomplete: interrupted before all {'searches were finished' if checked else 'instances were checked'}")
    for line in wrong:
        error_line(f"not as recorded: {line}")
    if result.complete and not wrong:
        console.print(f"all {len(result.rows)} verdicts are the recorded ones", style="bold green")

