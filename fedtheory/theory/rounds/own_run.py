"""An authored statement about a run, on a run of anyone's: its quantities are worked out from the
server's models, and from what else of the method's states was handed over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.theory.judge.case import Case
from fedtheory.theory.judge.comparison import horizons_up_to
from fedtheory.theory.judge.record import (
    UNKNOWN,
    NotRecorded,
    OwnRun,
    Record,
    not_about_runs,
    rows_of,
)
from fedtheory.theory.judge.statement import Form, Sides
from fedtheory.theory.rounds.forms import reduced
from fedtheory.theory.rounds.measured import RunQuantities
from fedtheory.theory.rounds.oracles import Path
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
    """The clients of a round that somebody else's code made."""

    @property
    def results(self) -> Any:
        raise MissingCapability(
            "what the clients did in a round is not known of a run of one's own: only its states are"
        )


def own_run(setting: Any, form: Form, case: Case, record: Record) -> OwnRun:
    """The sides of a form on a recorded run, at every horizon that it has.

    A form about the end of a run is compared at all ends up to the last of a bound, and at about a dozen of a run.

    Raises
    ------
    InvalidInput
        A statement about a round; a problem outside its class; other cohorts than it is about.
    NotRecorded
        A bound that is made from what happens on the way, where no run was handed over.
    MissingCapability, NotCertified
        What a quantity needs.
    """
    statement = setting.of_statement
    where = f"{statement.id} [{form.name}]"
    if setting.scope != "run":
        raise InvalidInput(not_about_runs(f"{where} is about a {setting.scope.replace('-', ' ')}"))
    reason = setting.not_about(case.problem, case.sampling)
    reason = reason or not_shares(case.problem)  # the run was made by others, whose server may have averaged by samples
    if reason is not None:
        raise InvalidInput(reason)
    sampling = case.sampling or (setting.sampling if setting.sampling is not Uniform else Uniform(case.problem.num_clients))
    certain = isinstance(sampling, Full) or getattr(sampling, "size", None) == case.problem.num_clients
    start = record.start(case.x0)[0] if certain else record.common_start(case.x0)
    world = setting.world(case.problem)
    setting = as_said(setting, setting.facts(world, sampling, record.rounds), case.algorithm, case.local_solver, case.given)
    shorter = not depends_on_the_horizon(setting, world, sampling, record.rounds)
    if form.exact_only and not certain:
        raise InvalidInput(f"{where} multiplies expectations, which runs do not give: take another form")
    if record.models is None:
        return _bound_alone(setting, form, case, record, sampling, certain, start, shorter)

    seen: list[RunQuantities] = []

    def sides(rounds: int, drawn: Any = None) -> Sides:
        seen.append(_view(setting, case, record.until(rounds), sampling, start, drawn))
        with _recorded(seen[-1], where) as told:
            found = form.sides(seen[-1])  # type: ignore[misc]
            told.append(found.rhs - found.lhs)
        return found

    last = sides(record.rounds)
    _check_nothing_open(setting, where, last, lambda drawn: sides(record.rounds, drawn))
    exact = certain or setting.of_statement.form(form.name).pathwise or last.relation == "=="
    many = _rows(last, record.seeds)
    told = exact, _left(form), statement.rule
    if many > 1:
        shaped = _shaped(last, many, record.seeds)
        return OwnRun(shaped, _ends(record.rounds, many), _letter(seen[0], many), *told)
    horizons = [*(horizons_up_to(record.rounds) if shorter else ()), record.rounds]
    found = [_shaped(sides(t), 1, record.seeds) for t in horizons[:-1]] + [_shaped(last, 1, record.seeds)]
    joined: dict[str, Any] = {name: np.concatenate([getattr(s, name) for s in found]) for name in SIDES}
    return OwnRun(replace(last, **joined, axes=(), terms=()), np.array(horizons), "T", *told)


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


def _bound_alone(
    setting: Any, form: Form, case: Case, record: Record, sampling: Any, certain: bool, start: np.ndarray, shorter: bool,
) -> OwnRun:  # fmt: skip
    """The right side, from two runs that nobody made: what differs between them depends on the run."""
    statement = setting.of_statement
    where = f"{statement.id} [{form.name}]"
    claimed = statement.form(form.name)
    noise = np.random.default_rng(0).standard_normal((record.rounds + 1, 1, len(start)))
    noise[0] = 0

    seen: list[RunQuantities] = []

    def right(scale: float, rounds: int, drawn: Any = None) -> tuple[Any, Any]:
        models = start + scale * noise[: rounds + 1]
        view = _view(setting, case, Record(models, rounds, {}), sampling, start, drawn)
        seen.append(view)
        with _recorded(view, where) as told:
            sides = reduced(view, statement.on(view)[form.name])
            told.append(sides.rhs)
        return sides, np.asarray(sides.rhs, dtype=float)

    size = 1.0 + float(np.abs(start).max(initial=0.0))
    sides, still = right(0.0, record.rounds)

    def bound_with(drawn: Any) -> Sides:
        return replace(sides, rhs=right(0.0, record.rounds, drawn)[1])

    _check_nothing_open(setting, where, replace(sides, rhs=still), bound_with)
    _, moved = right(size, record.rounds)
    alike = still.shape == moved.shape
    if not alike or not np.allclose(still, moved, rtol=1e-9, atol=0, equal_nan=True):
        why = "its right side is made from what happens on the way: hand the run over, run=models"
        raise NotRecorded(f"{where}: {why}")
    many = _rows(sides, 1)
    horizons = _ends(record.rounds, many) if many > 1 else np.arange(1 if shorter else record.rounds, record.rounds + 1)
    values = rows_of(still.reshape(-1)) if many > 1 else rows_of([right(0.0, int(t))[1] for t in horizons])
    bare = Sides(0 * values, values, np.abs(values), sides.relation)
    letter, exact = _letter(seen[0], many) if many > 1 else "T", certain or claimed.pathwise
    return OwnRun(bare, horizons, letter, exact, _left(form), statement.rule)


def _view(
    setting: Any, case: Case, record: Record, sampling: Any, start: np.ndarray, drawn: Any = None
) -> RunQuantities:
    """The quantities of a recorded run; drawn : of what is still open, default the first choice."""
    world, rounds, seeds = setting.world(case.problem), record.rounds, record.seeds
    world.start = start
    facts, _, algorithm = setting.resolved(world, sampling, drawn or setting.first_choice, rounds)
    unseen: Sequence[Any] = [Unseen()] * rounds
    path = Path(_states(algorithm, record, world.num_clients), list(unseen))
    return RunQuantities(world, facts, path, np.full(seeds, 1 / seeds), algorithm, sampled=seeds > 1)


def _states(algorithm: Any, record: Record, num_clients: int) -> list[Any]:
    """The states of the run: of a memory that was not handed over only its start is a number."""
    begun = algorithm.init(record.models[0], num_clients)  # type: ignore[index]
    told: dict[str, Any] = {"x": record.models}
    for name, v in zip(begun._fields, begun, strict=True):
        if name not in told and v is not None:
            told[name] = record.memory(name, v.shape[1:])
            if told[name] is None:
                told[name] = np.concatenate([v[None], np.full((record.rounds, *v.shape), np.nan)])
    each = [told.get(name) for name in begun._fields]
    rounds = range(record.rounds + 1)
    return [type(begun)(*(None if v is None else v[t] for v in each)) for t in rounds]


def _rows(sides: Sides, seeds: int) -> int:
    """The number of horizons that the sides are about."""
    return int(np.size(sides.lhs)) // seeds if np.shape(sides.lhs) and np.shape(sides.lhs)[-1] == seeds else int(np.size(sides.lhs))


def _letter(view: RunQuantities, many: int) -> str:
    """T, where the entries are horizons, else the round."""
    return "T" if view.looked(many)[0] == "T" else "round"


def _ends(rounds: int, many: int) -> np.ndarray:
    """The last so many rounds, which are what the entries of a run's quantities are about."""
    return np.arange(rounds + 1 - many, rounds + 1)


def _shaped(sides: Sides, many: int, seeds: int) -> Sides:
    """All arrays as (horizons, seeds)."""

    def rows(values: Any) -> np.ndarray:
        own = np.broadcast_to(values, np.shape(sides.lhs)).reshape(many, -1)
        return np.broadcast_to(own, (many, seeds))

    return sides.each(rows, axes=(), terms=())
