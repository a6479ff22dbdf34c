"""The output of `fedtheory verify`: verdicts, refutations, progress, deviations from the record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.text import Text

from fedtheory.cli.common import error_line, out_console, paper_option, wrote

NAMED = 4  # files of one folder that are named one by one
LINE = 300  # characters of an instance that has no name

__all__ = ["show"]


def show(run: Any, record: dict[str, Any], files: Sequence[Path]) -> None:
    """Show a campaign under way or finished (``run``), its record for campaign.json, its files."""
    from fedtheory.report.tables import details_table, known_key, statement_table, table_key

    console, result = out_console(), run.result
    told = {id for id, study in run.studies.items() if getattr(study, "shows_forms", False)}  # it says all that there is
    rows = [r for r in result.rows if r.statement not in told]
    if rows or not told:
        console.print(statement_table(rows, console.width))
        console.print(f"\n{table_key(rows, console.width)}", style="dim")
    if run.o.details:
        console.print()
        console.print(details_table(result.rows, console.width))
    _show_refuted({file: check for file, check in run.refuted.items() if check.statement not in told})
    for n, study in enumerate(run.studies.values()):
        if n or rows or run.o.details:
            console.print()
        console.print(study if hasattr(study, "__rich__") or hasattr(study, "__rich_console__") else Text(str(study)))
    _show_replay([file for file, check in run.refuted.items() if check.statement in told])
    _show_proofs(run.proofs)
    if known := known_key(result.rows):
        console.print(f"\n{known}")
    _show_effort(run, record)
    _show_searches([s for s in result.searches if s["statement"] not in told], run.o.own)
    _show_files(files)
    _show_end(run, record)


def _show_refuted(refuted: dict[str, Any]) -> None:
    """The counterexamples that were found to the papers that were asked for, in fractions."""
    from fedtheory.theory.judge.registry import setting_of
    from fedtheory.theory.judge.replay import load

    for file, check in refuted.items():
        setting, witness = setting_of(check.statement), load(file)
        (lhs, rhs), sign = check.where.get("sides", (witness.lhs, witness.rhs)), "≠" if "sides" in check.where else ">"
        sides = f"{lhs} {sign} {rhs}" if len(lhs) + len(rhs) < 80 else f"{check.lhs:.12g} > {check.rhs:.12g}"
        out_console().print(Text.assemble(("\nrefuted ", "bold red"), f"{setting.summary(witness)}\n  {sides}; {file}"))


def _show_replay(files: Sequence[str]) -> None:
    """Print how to rerun the first of some counterexamples to the papers that were asked for."""
    from fedtheory.theory.judge.replay import load

    if not files:
        return
    option = paper_option(load(files[0]).statement)
    text = f"\nproved in fractions; to rerun it:\n  fedtheory replay {files[0]}{option}"
    out_console().print(text, soft_wrap=True)


def _show_proofs(files: Sequence[Path]) -> None:
    """Print how to check the first of some certificates of statements."""
    from fedtheory.theory.studies.certificates import load

    if not files:
        return
    option = paper_option(load(files[0]).question["statement"])
    text = f"\nproved; to check it without a solver:\n  fedtheory replay {files[0]}{option}"
    out_console().print(text, soft_wrap=True)


def _show_files(files: Sequence[Path]) -> None:
    """The files that were written; of a folder with many only how many there are."""
    folders: dict[Path, list[Path]] = {}
    for file in files:
        folders.setdefault(file.parent, []).append(file)
    counted = {folder: of for folder, of in folders.items() if folder.name == "figures" or len(of) > NAMED}
    more = [f"{len(of)} files{' of figures' * (folder.name == 'figures')} in {folder}" for folder, of in counted.items()]
    wrote([f for f in files if f.parent not in counted], f", and {', '.join(more)}" * bool(more))


def _show_effort(run: Any, record: dict[str, Any]) -> None:
    memory, workers, console = record["memory_mib"], run.o.workers, out_console()
    replayed = record["witnesses"]["replayed"]
    console.print(
        f"\n{record['checked']} of {run.result.instances} instances of the campaign judged, {record['comparisons']:,} comparisons, "
        f"{replayed} witness{'es' * (replayed != 1)} replayed"
    )
    several = workers > 1 and run.o.papers is None  # of a paper of one's own there may have been none
    largest = f", and {memory['largest_worker']:.0f} MiB in the largest of {workers} workers" if several else ""
    peak = "" if math.isnan(memory["main"]) else f", peak memory {memory['main']:.0f} MiB{largest}"
    parts = ", ".join(f"{part} {seconds:.0f} s" for part, seconds in record["part_seconds"].items() if seconds >= 0.5)
    console.print(f"{run.result.seconds:.0f} s{f' ({parts})' * bool(parts)}{peak}")


def _instance_of(found: dict[str, Any]) -> str:
    """One line on the instance on which a search found a form violated."""
    from fedtheory.theory.judge.registry import setting_of
    from fedtheory.theory.judge.witness import Witness

    if found.get("witness"):
        return setting_of(found["statement"]).summary(Witness(**found["witness"])).split("]: ", 1)[-1]
    at = found["best_instance"]
    line = at.get("name") or ", ".join(f"{name} = {value}" for name, value in at.items())
    return line if len(line) <= LINE else f"{line[: LINE - 3]}..."


def _show_searches(searches: Sequence[dict[str, Any]], own: bool) -> None:
    from fedtheory.report.tables import tried
    from fedtheory.theory.judge.registry import rule_words

    if not searches:
        return
    found = [s for s in searches if s["found"]]
    which = "forms" if own else "forms not on record as violated"
    out_console().print(f"counterexample search: {len(searches)} {which}, {tried(searches)}: {len(found) or 'none'} found")
    for s in found:
        if s.get("on_record", "holds") != "holds":
            continue  # the table has it
        rule = rule_words(s["rule"], s["statement"])
        error_line(f"counterexample to {s['statement']} [{s['form']}, {rule}]: {_instance_of(s)}")


def _show_end(run: Any, record: dict[str, Any]) -> None:
    """Say if everything is as recorded, and what is not."""
    from fedtheory.report.tables import disagreements
    from fedtheory.report.words import headline

    result, console = run.result, out_console()
    if result.complete and (missed := record["forms_not_met"]):
        console.print(f"{missed} forms met no instance that they are about in so small a campaign, and are left out")
    wrong = disagreements(result.rows, result.complete)
    for name, text in record["witnesses"]["broken"].items():
        error_line(f"the witness {name} does not replay: {text}")
    if not result.complete:
        error_line(f"incomplete: interrupted before all {'searches were finished' if run.checked else 'instances were checked'}")
    for line in wrong:
        error_line(f"not as recorded: {line}")
    if result.complete and not wrong:
        told = headline(result.rows, record).rstrip(".")
        console.print(told[0].lower() + told[1:], style="bold green")
