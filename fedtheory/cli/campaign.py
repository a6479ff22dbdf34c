"""`fedtheory verify` without a statement: the campaign, its table, its files and its exit code."""

from __future__ import annotations

import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtheory.cli.common import (
    check_out,
    emit,
    err_console,
    note,
    progress,
    shipped_witnesses,
    warn_of_formulas,
    writing,
)
from fedtheory.cli.resumable import result_store_at
from fedtheory.errors import FedTheoryError

if TYPE_CHECKING:
    from fedtheory.store.result_store import ResultStore
    from fedtheory.theory.judge.registry import RegisteredPaper
    from fedtheory.theory.judge.witness import Witness

__all__ = ["CampaignOptions", "campaign_command", "default_workers", "peak_memory_mib"]


CELLS = "campaign.cells.sqlite"  # in the folder of a campaign, while it runs and where it was cut short


def default_workers() -> int:
    """Cores this process may use, at most 8."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(8, cores))


def peak_memory_mib() -> dict[str, float]:
    """Peak resident memory of this process and of its largest finished child; NaN where the system does not say."""
    try:
        import resource
    except ImportError:
        return {"main": math.nan, "largest_worker": math.nan}
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return {
        "main": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit,
        "largest_worker": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / unit,
    }


def replay_shipped(workers: int, papers: Sequence[RegisteredPaper] | None = None) -> list[tuple[str, Any]]:
    """(name, check) of every witness that comes with the papers; the error's text where one does not replay."""
    from fedtheory.parallel import as_finished

    about = None if papers is None else {s.id for p in papers for s in p.statements}
    shipped = [w for w in shipped_witnesses() if about is None or w.statement in about]
    out: dict[int, Any] = {}
    with progress("witnesses", len(shipped)) as advance:
        for i, result in as_finished(_replay_one, shipped, workers):
            out[i] = result
            advance()
    return [(witness.name, out[i]) for i, witness in enumerate(shipped)]


def _replay_one(witness: Any) -> Any:
    from fedtheory.theory.judge.replay import replay

    try:
        return replay(witness)
    except FedTheoryError as error:
        return str(error)


@dataclass(frozen=True)
class CampaignOptions:
    """The options of a campaign, by name.

    Attributes
    ----------
    out : folder
    budget : instances of the search; forms of one kind share a quarter; 0 for no search
    papers : the papers it is about, with the statements that are judged; None for all
    own : whether they are a user's that are being worked on: of a file, or of a package without
        witnesses. Then forms on record as violated are searched as well.
    """

    out: Path
    seed: int = 0
    quick: bool = False
    scale: float = 1.0
    long_runs: bool = True
    workers: int = 1
    budget: int = 1000
    details: bool = False
    json: bool = False
    papers: Sequence[RegisteredPaper] | None = None
    engine: str = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        """Raise `InvalidInput` for a search that cannot end, before the campaign begins."""
        from fedtheory.theory.judge.campaign import check_budget

        check_budget(self.budget)

    @property
    def size(self) -> tuple[float, bool]:
        """The battery's scale, and whether there are long runs."""
        return (0.1, False) if self.quick else (self.scale, self.long_runs)

    @property
    def own(self) -> bool:
        """True if the papers are a user's that are being worked on."""
        return self.papers is not None and any(p.file or not p.witnesses for p in self.papers)

    @property
    def here(self) -> float:
        """Seconds of small tasks done in this process: a paper of one's own often has no more."""
        return 4.0 if self.own else 0.0

    @property
    def statements(self) -> Sequence[Any]:
        """The statements that are judged."""
        from fedtheory.theory.judge.registry import all_statements

        return all_statements() if self.papers is None else [s for p in self.papers for s in p.statements]


class _Run:
    """A campaign under way: what is known of it, at any time."""

    def __init__(self, o: CampaignOptions, cells: ResultStore) -> None:
        from fedtheory.theory.judge import campaign

        self.o, self.cells, self.start = o, cells, time.perf_counter()
        scale, long = o.size
        self.tasks = campaign.plan(o.seed, scale, long=long, only=o.papers)
        counts: dict[str, int] = {}
        for task in self.tasks:
            counts[task.instance.family] = counts.get(task.instance.family, 0) + 1
        settings = {
            "seed": o.seed, "scale": scale, "long_runs": long, "workers": o.workers,
            "instances_by_family": counts, "search_budget": o.budget,
            "statements": len(o.statements),
        }
        if o.papers is not None:
            settings["papers"] = [p.id for p in o.papers]
        self.result = campaign.Campaign(instances=len({t.instance.name for t in self.tasks}), settings=settings, complete=False)
        self.checks: list[Any] = []
        self.checked = False  # all instances; only search and studies are left
        self.replayed: list[tuple[str, Any]] = []
        self.proofs: list[Path] = []  # certificates of the papers asked for
        self.refuted: dict[str, Any] = {}  # file -> replayed check of what search and studies found, of the papers asked for
        self.studies: dict[str, Any] = {}
        self.parts: dict[str, float] = {}  # part of the work -> seconds

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Adds what happens within it to the seconds of a part."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.parts[part] = self.parts.get(part, 0.0) + time.perf_counter() - begun

    def go(self) -> None:
        """Everything but the figures; an interrupt leaves what is finished, and ``result.complete`` False."""
        from fedtheory.provenance import write_json
        from fedtheory.theory.judge import campaign

        o, result = self.o, self.result
        try:
            with self.timed("witnesses"):
                self.replayed = replay_shipped(o.workers, o.papers)
            with self.timed("instances"), progress("instances", len(self.tasks)) as advance:
                kept = (self.cells, {"seed": o.seed, "size": o.size})

                def done(*_: Any) -> None:
                    advance(known=self.cells.recalled)

                self.checks, result.complete = campaign.run(self.tasks, o.workers, done, o.here, kept)
            self.checked = result.complete
            if self.checked and o.budget:
                result.complete = False
                write_json(o.out / "campaign.json", self.record())  # so that nothing that goes wrong from here on loses it
                with self.timed("search"):
                    result.searches, result.complete = _search(o, self.cells)
                    self.refuted = _witness_files(o, result.searches)
            if result.complete and o.budget and o.papers is not None:
                result.complete = False
                result.complete = self._study()
        except KeyboardInterrupt:
            result.complete = False

    def _study(self) -> bool:
        """Tightness and necessity of the statements whose setting has such a study; whether it was finished."""
        from fedtheory.theory.judge.registry import setting_of

        with self.timed("studies"), progress("studies", len(self.o.statements)) as advance:
            for statement in self.o.statements:
                setting, checks = setting_of(statement), [c for c in self.checks if c.statement == statement.id]
                found = setting.study(statement, self.o.budget, self.o.seed, checks=checks)
                if found is not None:
                    self.studies[statement.id] = found
                    self.refuted |= _written(self.o, getattr(found, "witnesses", ()))
                    self.proofs += _certified(self.o, getattr(found, "certificates", ()))
                    self.result.searches += _with_record(_records(getattr(found, "searches", ())))
                advance()
        return True

    def _findings(self) -> dict[str, Any]:
        """Return what the reports say of the studies that have words for them."""
        told = {id: study.findings() for id, study in self.studies.items() if hasattr(study, "findings")}
        return {"findings": told} if told else {}

    def record(self) -> dict[str, Any]:
        """Everything for campaign.json."""
        from fedtheory.provenance import provenance
        from fedtheory.theory.judge import campaign

        o, result = self.o, self.result
        broken = {name: text for name, text in self.replayed if isinstance(text, str)}
        fine = [(name, check) for name, check in self.replayed if name not in broken] + list(self.refuted.items())
        result.rows = campaign.summarise(self.checks, fine, o.statements)
        studied = {(r.statement, r.form, r.rule): r for study in self.studies.values() for r in getattr(study, "rows", ())}
        for i, row in enumerate(result.rows):  # a study, which has these checks too, may find what they did not
            own = studied.get((row.statement, row.form, row.rule), row)
            if (row.verdict, own.verdict) != ("holds", "holds"):
                result.rows[i] = replace(own, witness=row.witness)
            elif own.known == "proved":
                result.rows[i] = replace(row, modes=sorted({*row.modes, "proved"}))
        rows = len(result.rows)
        if not result.complete or o.size[0] < 1:  # a form that met no instance that it is about has no verdict to compare
            result.rows = [r for r in result.rows if r.instances or r.inconclusive or (r.statement, r.form, r.rule) in studied]
        result.seconds = time.perf_counter() - self.start
        studies = {"studies": {id: study.to_json() for id, study in self.studies.items()}} if self.studies else {}
        return {
            **result.to_json(), **studies, **self._findings(),
            "checked": len({c.instance for c in self.checks if c.instance}),
            "comparisons": sum(c.count for c in self.checks),
            "witnesses": {
                "replayed": len(self.replayed) - len(broken) + len(self.refuted), "broken": broken
            },
            "forms_not_met": rows - len(result.rows), "memory_mib": peak_memory_mib(),
            "part_seconds": {part: round(seconds, 2) for part, seconds in self.parts.items()},
            "provenance": provenance(o.seed, "cpu"),
        }


def campaign_command(o: CampaignOptions) -> int:
    """Run everything, write everything; the exit code. What a campaign that was cut short has finished is not done again."""
    from fedtheory.parallel import stop_workers, use_engine

    check_out(o.out)
    for statement in o.statements if o.own else ():
        warn_of_formulas(statement)
    with writing(o.out), use_engine(o.engine, o.address, o.workers), result_store_at(o.out / CELLS) as cells:
        run = _Run(o, cells)
        run.go()
        final, files, stopped = _write(run, stop_workers)
        if run.result.complete and not stopped:
            cells.remove()
    return _told(run, final, files, stopped)


def _write(run: _Run, stop_workers: Callable[[], None]) -> tuple[dict[str, Any], list[Path], bool]:
    """The campaign's record, all files, and whether drawing was interrupted."""
    from fedtheory.provenance import write_json
    from fedtheory.report.html import write_reports

    o, result = run.o, run.result
    if not result.complete:
        err_console().print("interrupted: writing what was checked so far; the same command goes on from here", style="yellow")
    path = write_json(o.out / "campaign.json", run.record())
    with run.timed("figures"):
        drawn, stopped = _figures(run, path) if result.complete else ([], False)
    stop_workers()
    final = run.record()
    write_json(path, final)
    witnesses = [Path(file) for file in run.refuted]
    return final, [path, *witnesses, *run.proofs, *drawn, *write_reports(o.out, result.rows, final, drawn)], stopped


def _told(run: _Run, final: dict[str, Any], files: list[Path], stopped: bool) -> int:
    """The campaign as the terminal shows it, and its exit code."""
    from fedtheory.cli.campaign_told import show

    result, broken = run.result, final["witnesses"]["broken"]
    found = [s for s in result.searches if s["found"] and s.get("on_record", "holds") == "holds"]
    code = 130 if stopped or not result.complete else int(not result.ok or bool(found) or bool(broken))
    if run.o.json:
        emit({**final, "files": files, "exit_code": code})
    else:
        show(run, final, files)
    return code


def _search(o: CampaignOptions, cells: ResultStore) -> tuple[list[dict[str, Any]], bool]:
    """Search for counterexamples to every form that is not on record as violated.

    Of papers of one's own every form is searched, but for papers whose studies search themselves.
    Returns the searches that were finished, and whether they are all: False after an interrupt.
    """
    from fedtheory.theory.judge import campaign

    only = None if o.papers is None else [p for p in o.papers if not p.setting.study_searches]
    jobs = campaign.search_plan(o.budget, o.seed, only, violated=o.own)
    out: list[dict[str, Any]] = []
    complete = False
    try:
        with progress("search for counterexamples", len(jobs)) as advance:
            about = campaign.contents(jobs, {"budget": o.budget, "seed": o.seed, "violated": o.own})
            for _, records in cells.compute(campaign.search_told, jobs, about, o.workers, o.here):
                out += records if o.papers is None else _with_record(records)
                advance(known=cells.recalled)
        complete = True
    except KeyboardInterrupt:
        pass  # Ctrl-C ends the search: what was found is told, and that it is not complete
    return sorted(out, key=lambda r: (r["statement"], r["form"], r["rule"])), complete


def _records(results: Iterable[Any]) -> list[dict[str, Any]]:
    """`SearchResult`s for campaign.json."""
    return [{**asdict(r), "found": not r.empty} for r in results]


def _with_record(searches: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the findings of the searches, each with the verdict on record."""
    from fedtheory.theory.judge.registry import get

    return [{**s, "on_record": get(s["statement"]).form(s["form"]).established.get(s["rule"], "open")} for s in searches]


def _witness_files(o: CampaignOptions, searches: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The counterexamples that searches found to the papers asked for, written and replayed."""
    from fedtheory.theory.judge.witness import Witness

    return {} if o.papers is None else _written(o, [Witness(**found["witness"]) for found in searches if found["witness"]])


def _written(o: CampaignOptions, witnesses: Iterable[Witness]) -> dict[str, Any]:
    """Witnesses as files that `fedtheory replay` takes: name -> replayed check."""
    from fedtheory.theory.judge.replay import replay
    from fedtheory.theory.judge.replay import save as save_witness

    return {str(save_witness(w, o.out / "witnesses" / f"{w.name}.json")): replay(w) for w in witnesses}


def _certified(o: CampaignOptions, certificates: Iterable[Any]) -> list[Path]:
    """Certificates of statements as files that `fedtheory replay` takes."""
    from fedtheory.theory.studies.certificates import write

    asked = ((c, [str(c.question[k]) for k in ("statement", "form", "rule") if c.question[k] != "any"]) for c in certificates)
    names = ((c, "-".join([*words, *(f"best-{n}" for n in c.question.get("constants", {}))])) for c, words in asked)
    plain = ((c, re.sub(r"[^a-z0-9]+", "-", name.lower())) for c, name in names)
    return [write(o.out / "proofs" / f"{name}.json", c) for c, name in plain]


def _figures(run: _Run, campaign_json: Path) -> tuple[list[Path], bool]:
    """The figures' files, those of the studies first, and whether drawing them was interrupted."""
    try:
        from fedtheory.report.figures import draw_all
        from fedtheory.report.figures_verdicts import table
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        note("no figures: matplotlib is not installed")
        return [], False
    o, folder, files = run.o, run.o.out / "figures", list[Path]()
    try:
        with progress("figures") as advance:
            for figure in [f for study in run.studies.values() if hasattr(study, "figures") for f in study.figures()]:
                from fedtheory.report.figures import draw_one

                files += draw_one(figure, folder, o.seed)
                advance()
            only = None if o.papers is None else [p.id for p in o.papers]
            alone = bool(files) and len(o.statements) == 1  # of one statement the chart says nothing more
            chart = campaign_json if table(run.record()) and not alone else None
            files += draw_all(folder, chart, o.seed, lambda *_: advance(), papers=only, workers=o.workers, cells=run.cells)
            return files, False
    except KeyboardInterrupt:
        err_console().print("interrupted: the figures that were not drawn yet are left out", style="yellow")
        return files, True
