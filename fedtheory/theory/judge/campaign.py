"""The theorem campaign: all statements on the instances of all papers, in parallel, with one row a form and rule.

`run` yields checks as they come, so that a progress bar moves and an interrupted campaign keeps what it has.
"""

from __future__ import annotations

import pickle
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from fedtheory.inputs import real_number, whole_number
from fedtheory.limits import must_end
from fedtheory.parallel import as_finished
from fedtheory.provenance import to_jsonable
from fedtheory.store.result_store import ResultStore
from fedtheory.theory.judge.check import AT_A_POINT, FREE, Check, judge_view, judge_worst
from fedtheory.theory.judge.registry import RegisteredPaper, all_statements, content_of, load_file, paper, papers
from fedtheory.theory.judge.search import SearchResult
from fedtheory.theory.judge.setting import Plan, Setting
from fedtheory.theory.judge.statement import KNOWN, Known, Statement, known

__all__ = [
    "Campaign", "Row", "SearchTask", "Task", "check_budget", "contents", "counts_known", "plan", "row_of", "run",
    "search_plan", "search_told", "summarise",
]  # fmt: skip


@dataclass(frozen=True)
class _Work:
    """A job for another process.

    Attributes
    ----------
    paper : the id of the paper whose setting does it
    only : ids of the statements it is about; empty for all of the paper's
    source : the file that the paper is from, which the other process reads; '' for installed papers
    """

    paper: str
    only: tuple[str, ...] = field(default=(), kw_only=True)
    source: str = field(default="", kw_only=True)

    @property
    def whose(self) -> tuple[Setting, list[Statement]]:
        """The setting, and the statements."""
        found = paper(self.paper)
        return found.setting, [s for s in found.statements if not self.only or s.id in self.only]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle apart what may be of classes that only the paper's file knows: they are pickled apart, to be read after it."""
        content: Any = {f.name: getattr(self, f.name) for f in fields(self)}
        if self.source:
            from joblib.externals.loky.backend.reduction import dumps  # as for what workers are sent

            content = bytes(dumps(content))
        return _unpickled, (type(self), self.paper, self.source, content)


def _unpickled(cls: type, id: str, source: str, content: Any) -> Any:
    if source and id not in [p.id for p in papers()]:
        load_file(source)
    return cls(**(pickle.loads(content) if isinstance(content, bytes) else content))


@dataclass(frozen=True)
class Task(_Work):
    """One unit of work: an instance, and the paper whose setting judges it."""

    instance: Any

    def __call__(self) -> list[Check]:
        """All statements of the paper that are about this instance."""
        setting, statements = self.whose
        return setting.check(self.instance, statements)


@dataclass(frozen=True)
class SearchTask(_Work):
    """One job of the search for counterexamples; ``violated``: also to forms that are on record as violated."""

    job: tuple[str, ...]
    budget: int
    seed: int
    violated: bool = False

    def __call__(self) -> list[SearchResult]:
        """All forms that the job is about."""
        setting, statements = self.whose
        return setting.run_search(self.job, statements, self.budget, self.seed, self.violated)


@dataclass
class Row:
    """All checks of one form under one rule.

    Attributes
    ----------
    verdict : over all instances: 'violated' if any is
    established : what is on record; `ok` is False where the two differ
    tightness_worst, tightness_median : over the instances where the bound is positive
    worst_case, worst_case_at : worst case/bound over all problems of the class at a point of the parameters, and that point
    proof : where a proof in words that it holds is cited; '' where none is
    """

    statement: str
    form: str
    rule: str
    established: str
    verdict: str
    instances: int
    violations: int
    inconclusive: int
    not_applicable: int
    evaluations: int
    tightness_worst: float
    tightness_median: float
    tightest: str
    worst_slack: float
    worst: str
    worst_where: dict[str, Any]
    modes: list[str]
    witness: str | None = None
    worst_case: float = float("nan")
    worst_case_at: str = ""
    proof: str = ""

    @property
    def ok(self) -> bool:
        """True if the verdict is the one on record ('open' records nothing)."""
        return self.established == "open" or self.verdict == self.established

    @property
    def claim(self) -> str:
        """The verdict on the claim, which is about some number where a constant is free."""
        if self.verdict == "violated" and FREE in self.worst_where:
            return "holds" if "proved" in self.modes else "inconclusive"
        return self.verdict

    @property
    def known(self) -> Known:
        """How the verdict is known, one of `fedtheory.theory.judge.statement.KNOWN`."""
        if self.claim != self.verdict:
            return "proved" if self.claim == "holds" else "open"
        proof = "" if self.established == "violated" else self.proof
        return known(self.verdict, self.modes, proof, refuted=self.witness is not None)

    def to_json(self) -> dict[str, Any]:
        """Give its fields, and what follows from them."""
        return {**asdict(self), "ok": self.ok, "known": self.known, "claim": self.claim}


def counts_known(rows: Sequence[Row]) -> dict[str, int]:
    """How many verdicts are known in each of the ways of `fedtheory.theory.judge.statement.KNOWN`."""
    return {name: sum(row.known == name for row in rows) for name in KNOWN}


@dataclass
class Campaign:
    """Rows, and what it took."""

    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0
    instances: int = 0
    complete: bool = True
    settings: dict[str, Any] = field(default_factory=dict)
    searches: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.complete and all(row.ok for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        names = ("ok", "complete", "seconds", "instances", "settings", "searches")
        told = {name: getattr(self, name) for name in names}
        return told | {"known": counts_known(self.rows), "rows": [r.to_json() for r in self.rows]}


def plan(
    seed: int = 0, scale: float = 1.0, long: bool = True,
    only: Sequence[RegisteredPaper] | None = None,
) -> list[Task]:  # fmt: skip
    """The tasks of a campaign, those of a paper in the order that its setting gives them; of all papers, or of some.

    One of ``only`` may have some of its paper's statements only: `Paper.only`.
    """
    whole_number("seed", seed, least=0)
    real_number("scale", scale, above=0)
    size = Plan(seed, scale, long)
    chosen = ((p, i) for p in (papers() if only is None else only) for i in p.setting.instances(size))
    return [Task(p.id, i, **_of(p)) for p, i in chosen if p.setting.concerns(i, p.statements)]


FASTEST_INSTANCE = 1e-5  # seconds that no instance of a search stays below


def check_budget(budget: int) -> None:
    """Raise `InvalidInput` for a search of so many instances a form that it cannot end."""
    must_end(f"a search of {budget:,} instances a form", budget * FASTEST_INSTANCE, "lower the budget")


def search_plan(
    budget: int, seed: int = 0, only: Sequence[RegisteredPaper] | None = None, violated: bool = False
) -> list[SearchTask]:
    """The jobs of a search of every form not on record as violated, or with ``violated`` of every form."""
    whole_number("budget", budget, remedy="it is the number of instances of the search")
    check_budget(budget)
    chosen = papers() if only is None else only
    return [SearchTask(p.id, job, budget, seed, violated, **_of(p)) for p in chosen for job in p.setting.searches(p.statements)]


def _of(chosen: RegisteredPaper) -> dict[str, Any]:
    """The ids of some of a paper's statements, and the file that the paper is from."""
    some = chosen.statements != paper(chosen.id).statements
    return {"only": tuple(s.id for s in chosen.statements) if some else (), "source": chosen.file}


def checks_told(task: Task) -> list[dict[str, Any]]:
    """A task done, as JSON can hold it."""
    return [check.to_json() for check in task()]


def search_told(task: SearchTask) -> list[dict[str, Any]]:
    """A job of a search done, as JSON can hold it."""
    return [{**to_jsonable(asdict(r)), "found": not r.empty} for r in task()]


def contents(tasks: Sequence[Task | SearchTask], about: dict[str, Any]) -> list[Any]:
    """Give what the result of each depends on, for `fedtheory.store.result_store.ResultStore`; ``about``: the arguments of `plan` or `search_plan`."""
    code = {id: content_of(paper(id)) for id in {t.paper for t in tasks}}
    once = uuid.uuid4().hex  # of a package whose code may change unseen, nothing is found again
    return [
        [type(t).__name__, about, t.paper, once if code[t.paper] is None else code[t.paper], t.only, i,
         t.job if isinstance(t, SearchTask) else t.instance.name]
        for i, t in enumerate(tasks)
    ]  # fmt: skip


def run(
    tasks: Sequence[Task],
    workers: int = 2,
    on_task: Callable[[int, list[Check]], None] | None = None,
    here: float = 0.0,
    kept: tuple[ResultStore, dict[str, Any]] | None = None,
) -> tuple[list[Check], bool]:
    """Run the tasks on `workers` processes, after ``here`` seconds of them in this one; prove the identities of the papers they
    are about, and their worst cases. ``kept``: where finished tasks are kept and found again, and what `plan` was called with.

    Returns
    -------
    checks, complete
        With KeyboardInterrupt the checks so far and False.
    """
    about = {(t.paper, t.only): t.whose[1] for t in tasks}
    forms = [(s, f) for some in about.values() for s in some for f in s.forms]
    checks = [judge_view(s, f, None) for s, f in forms if f.symbolic is not None]
    checks += [check for s, f in forms for check in judge_worst(s, f)]
    found: dict[int, list[Check]] = {}  # in the order of the tasks, so that ties are broken alike in every run
    complete = True
    try:
        if kept is None:
            finished = as_finished(checks_told, tasks, workers, here)
        else:
            finished = kept[0].compute(checks_told, tasks, contents(tasks, kept[1]), workers, here)
        for done, (i, told) in enumerate(finished, 1):
            found[i] = result = [Check.from_json(check) for check in told]
            if on_task is not None:
                on_task(done, result)
    except KeyboardInterrupt:
        complete = False
    return checks + [check for i in sorted(found) for check in found[i]], complete


def summarise(
    checks: Sequence[Check], witnesses: Sequence[tuple[str, Check]] = (), statements: Sequence[Any] | None = None
) -> list[Row]:
    """One row a statement, form and rule, in the statements' order; witnesses are (file, replayed check)."""
    groups: dict[tuple[str, str, str], list[Check]] = {}
    files: dict[tuple[str, str, str], str] = {}
    for file, check in [*(("", check) for check in checks), *witnesses]:
        key = (check.statement, check.form, check.rule)
        groups.setdefault(key, []).append(check)
        if file and check.verdict == "violated":
            files[key] = file
    return [
        row_of(key := (s.id, f.name, rule), established, groups.get(key, []), files.get(key), f.proof)
        for s in (all_statements() if statements is None else statements)
        for f in s.forms
        for rule, established in f.established.items()
    ]


def row_of(
    key: tuple[str, str, str], established: str, group: list[Check], witness: str | None,
    proof: str = "", failing: bool = False,
) -> Row:
    """Sum up the checks of one form under one rule; ``failing``: worst and modes of those that fail."""
    worst_of_all = [c for c in group if c.mode == AT_A_POINT]
    group = [c for c in group if c.mode != AT_A_POINT or c.verdict == "inconclusive"]
    counts: Counter[str] = Counter(c.verdict for c in group)
    worst_first = ("violated", "inconclusive", "holds", "not applicable")
    verdict = next((v for v in worst_first if counts[v]), worst_first[-1])
    judged = [c for c in group if c.verdict in ("holds", "violated")]
    signed = any("no_ratio" in c.where for c in judged)  # lhs/rhs says nothing of the form
    free = next(({FREE: c.where[FREE]} for c in judged if FREE in c.where), {})
    tight = [c for c in judged if np.isfinite(c.tightness) and not signed]
    shown = [c for c in judged if c.verdict == "violated" or not (failing and counts["violated"])]
    nothing = Check(*key, verdict="not applicable", mode="")
    worst = min(shown, key=lambda c: c.slack, default=nothing)
    tightest = max(tight, key=lambda c: c.tightness, default=nothing)
    return Row(
        *key, established, verdict, len(judged), counts["violated"], counts["inconclusive"],
        counts["not applicable"], sum(c.count for c in judged), tightest.tightness,
        float(np.median([c.tightness for c in tight])) if tight else float("nan"),
        tightest.instance, worst.slack, worst.instance, {**free, **worst.where},
        modes=sorted({c.mode for c in (*shown, *worst_of_all)}), witness=witness,
        worst_case=max((c.tightness for c in worst_of_all), default=float("nan")),
        worst_case_at="; ".join(c.where["point"] for c in worst_of_all), proof=proof,
    )  # fmt: skip
