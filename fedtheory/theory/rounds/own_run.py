"""An authored statement about a run, on a run of anyone's: its quantities are worked out from the
server's models, and from what else of the method's states was handed over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from fedtheory.algorithms.base import begun
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.randomness import Stream
from fedtheory.theory.judge.case import Case
from fedtheory.theory.judge.comparison import horizons_up_to
from fedtheory.theory.judge.record import UNKNOWN, NotRecorded, OwnRun, Record, not_about_runs
from fedtheory.theory.judge.statement import Form, Sides
from fedtheory.theory.rounds.forms import reduced
from fedtheory.theory.rounds.judging import chosen
from fedtheory.theory.rounds.measured import RunQuantities
from fedtheory.theory.rounds.oracles import Path, everyone
from fedtheory.theory.rounds.problem_classes import not_shares
from fedtheory.theory.rounds.run_matches_claim import as_said, depends_on_the_horizon, others
from fedtheory.theory.rounds.undefined import Undefined

__all__ = ["Unseen", "own_run"]
SIDES = ("lhs", "rhs", "scale", "noise")


@contextmanager
def _recorded(view: RunQuantities, where: str) -> Iterator[list[Any]]:
    """Raise `NotRecorded` of values that need a memory that was not handed over."""
    told: list[Any] = []
    try:
        yield told
    except MissingCapability as error:
        raise (NotRecorded(str(error)) if UNKNOWN in str(error) else error) from error
    states = view.path.states
    known = all(np.isfinite(s.x).all() for s in states)
    if len(states[0]) > 1 and known and any(np.isnan(np.asarray(v, float)).any() for v in told):
        raise NotRecorded(f"{where}: {UNKNOWN}")


class Unseen:
    """The clients of a round that somebody else's code made, or that a proof is not about alone."""

    @property
    def results(self) -> Any:
        raise MissingCapability(
            "what the clients of a round did is not known of a run of one's own, nor looked at where a "
            "proof is walked along scenarios: only the states are"
        )


def own_run(setting: Any, form: Form, case: Case, record: Record) -> OwnRun:
    """The sides of a form on a recorded run, at every horizon that it has.

    A form about the end of a run is compared at all ends up to the last of a bound, and at about a
    dozen of a run. Where no run was handed over, two that nobody made stand for it: a right side
    that differs between them depends on the run.

    Raises
    ------
    InvalidInput
        A statement about a round; a problem outside its class; other cohorts than it is about.
    NotRecorded
        A bound that is made from what happens on the way, where no run was handed over.
    MissingCapability, NotCertified
        What a quantity needs.
    """
    statement, rounds, problem = setting.of_statement, record.rounds, case.problem
    where = f"{statement.id} [{form.name}]"
    if setting.scope != "run":
        raise InvalidInput(not_about_runs(f"{where} is about a {setting.scope.replace('-', ' ')}"))
    reason = setting.not_about(problem, case.sampling)
    reason = reason or not_shares(problem)  # whose server may have averaged by samples
    if reason is not None:
        raise InvalidInput(reason)
    everyone = Uniform(problem.num_clients)
    sampling = case.sampling or (everyone if setting.sampling is Uniform else setting.sampling)
    certain = isinstance(sampling, Full) or getattr(sampling, "size", None) == everyone.size
    start = record.start(case.x0)[0] if certain else record.common_start(case.x0)
    world = setting.world(problem)
    facts = setting.facts(world, sampling, rounds)
    setting = as_said(setting, facts, case.algorithm, case.local_solver, case.given)
    shorter = not depends_on_the_horizon(setting, world, sampling, rounds)
    if form.exact_only and not certain:
        why = "multiplies expectations, which runs do not give: take another form"
        raise InvalidInput(f"{where} {why}")
    bare, seen = record.models is None, list[RunQuantities]()

    def sides(run: Record, drawn: Any = None) -> Sides:
        seen.append(_view(setting, case, run, sampling, start, drawn))
        with _recorded(seen[-1], where) as told:
            if not bare:
                found = form.sides(seen[-1])  # type: ignore[misc]
                told.append(found.rhs - found.lhs)
                return found
            found = reduced(seen[-1], statement.on(seen[-1])[form.name])
            told.append(rhs := np.asarray(found.rhs, dtype=float))
            return Sides(np.zeros_like(rhs), rhs, np.abs(rhs), found.relation)

    moved = record
    if bare:
        step = np.random.default_rng(0).standard_normal((rounds + 1, 1, len(start)))
        step[0] = 0
        size = 1.0 + float(np.abs(start).max(initial=0.0))
        record, moved = (Record(start + v * step, rounds, {}) for v in (0.0, size))
    last = sides(record)
    _check_nothing_open(setting, where, last, lambda drawn: sides(record, drawn))
    if bare and not _same(last.rhs, sides(moved).rhs):
        why = "its right side is made from what happens on the way: hand the run over, run=models"
        raise NotRecorded(f"{where}: {why}")
    exact = certain or statement.form(form.name).pathwise or last.relation == "=="
    told: Any = exact, _left(form), statement.rule, {}, chosen(statement, form.name, seen[0])
    many, seeds = int(np.size(last.lhs)), record.seeds
    many = many // seeds if np.shape(last.lhs)[-1:] == (seeds,) else many
    if many > 1:  # the last so many rounds
        letter = "T" if seen[0].looked(many)[0] == "T" else "round"
        ends = np.arange(rounds + 1 - many, rounds + 1)
        return OwnRun(_shaped(last, many, seeds), ends, letter, *told)
    before = (range(1, rounds) if bare else horizons_up_to(rounds)) if shorter else ()
    found = [_shaped(s, 1, seeds) for s in (*(sides(record.until(t)) for t in before), last)]
    joined: Any = {name: np.concatenate([getattr(s, name) for s in found]) for name in SIDES}
    ends = np.array([*before, rounds])
    return OwnRun(replace(last, **joined, axes=(), terms=()), ends, "T", *told)


def _same(still: Any, moved: Any) -> bool:
    """True of right sides that are one but for rounding."""
    alike = still.shape == moved.shape
    return alike and np.allclose(still, moved, rtol=1e-9, atol=0, equal_nan=True)


def _left(form: Form) -> str:
    """The left side, as its formula has it."""
    left = form.latex.partition(r"\le")[0].strip()
    return left if left and left != form.latex.strip() else "the left side of its formula"


def _check_nothing_open(setting: Any, where: str, sides: Sides, again: Callable[[Any], Sides]) -> None:
    """Raise `NotRecorded` where the sides depend on a number that the statement leaves open, and that nobody said."""
    for name, drawn in others(setting):
        try:
            moved = again(drawn)
            same = all(np.array_equal(getattr(sides, side), getattr(moved, side), equal_nan=True) for side in ("lhs", "rhs"))
        except (Undefined, InvalidInput):
            same = False
        if not same:
            number = name.removeprefix("method.")
            of_work = "local_solver=GradientSteps(steps, lr) says it"
            own = "" if number == name else f"{setting.method.cls.__name__}({number}=...)"
            remedy = f"hand over the method with its {number}, {own}" if own else of_work
            raise NotRecorded(f"{where} depends on {number}, which the statement leaves open: {remedy}")


def _view(
    setting: Any, case: Case, record: Record, sampling: Any, start: np.ndarray, drawn: Any = None
) -> RunQuantities:
    """The quantities of a recorded run; drawn : of what is still open, default the first choice."""
    world, rounds, seeds = setting.world(case.problem), record.rounds, record.seeds
    world.start = start
    facts, _, algorithm = setting.resolved(world, sampling, drawn or setting.first_choice, rounds)
    unseen: Sequence[Any] = [Unseen()] * rounds
    path = Path(_states(algorithm, record, world), list(unseen))
    return RunQuantities(world, facts, path, np.full(seeds, 1 / seeds), algorithm, sampled=seeds > 1)


def _states(algorithm: Any, record: Record, world: Any) -> list[Any]:
    """The states of the run: of a memory that was not handed over only its start is a number."""
    x: Any = record.models[0]  # type: ignore[index]
    N = world.num_clients
    first = begun(
        algorithm, x, N, lambda: world.clients(everyone(N, len(x)), {}, x, Stream(0), 1)
    )
    told: dict[str, Any] = {"x": record.models}
    for name, v in zip(first._fields, first, strict=True):
        if name not in told and v is not None:
            told[name] = record.memory(name, v.shape[1:])
            if told[name] is None:
                told[name] = np.concatenate([v[None], np.full((record.rounds, *v.shape), np.nan)])
    each = [told.get(name) for name in first._fields]
    rounds = range(record.rounds + 1)
    return [type(first)(*(None if v is None else v[t] for v in each)) for t in rounds]


def _shaped(sides: Sides, many: int, seeds: int) -> Sides:
    """All arrays as (horizons, seeds)."""

    def rows(values: Any) -> np.ndarray:
        own = np.broadcast_to(values, np.shape(sides.lhs)).reshape(many, -1)
        return np.broadcast_to(own, (many, seeds))

    return sides.each(rows, axes=(), terms=())
