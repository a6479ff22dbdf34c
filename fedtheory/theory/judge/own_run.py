"""A statement on a run of anyone's code: its bound as an array, and whether it holds there.

Nothing is run here. What a statement needs of a run is in the server's models of all rounds, in the hyperparameters that they were
made with, and, for some statements, in what else the method keeps: its memories, by the names that they have in its state here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.inputs import whole_number
from fedtheory.local.objective import LocalSolver
from fedtheory.participation.cohorts import Sampling
from fedtheory.problems.base import Problem
from fedtheory.theory.judge.check import (
    CONFIDENCE,
    FREE,
    SAME_AT_START,
    Check,
    after_start,
    begins_as_one,
    judge,
    judge_statistical,
    outside,
)
from fedtheory.theory.judge.checks import Checks
from fedtheory.theory.judge.record import NotRecorded, OwnRun, Record, read_record
from fedtheory.theory.judge.registry import get, setting_of
from fedtheory.theory.judge.series import keeping
from fedtheory.theory.judge.statement import KNOWN, Form, Known, Sides, Statement
from fedtheory.theory.judge.verify import Options, case_of

__all__ = ["Bound", "bound", "check_run", "chosen_form"]


@dataclass(frozen=True, eq=False)
class Bound:
    """A statement's right side, horizon by horizon: `numpy.asarray` of it is ``values``.

    Attributes
    ----------
    values : (K,); (K, seeds) where it is made from a run with several seeds and differs between them
    horizons : (K,) the round that each of them is about
    letter : of the horizon, as the paper has it
    left : what is bounded, in words
    in_expectation : whether the bound is on the mean over everything random, and not on every run
    statement, form, rule : which formula it is
    latex : the formula
    assumptions : what the statement assumes, in words
    established : what is on record for this form under this rule: 'holds', 'violated' or 'open'
    known : how that is known, one of `fedtheory.theory.judge.statement.KNOWN`
    constants : what the statement's letters are here, by name; 'eta', where a theorem has step sizes
        of its own; and constants that are free
    """

    values: np.ndarray
    horizons: np.ndarray
    letter: str
    left: str
    in_expectation: bool
    statement: str
    form: str
    rule: str
    latex: str
    assumptions: tuple[str, ...]
    established: str
    known: Known
    constants: Mapping[str, Any]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype)

    def __len__(self) -> int:
        return len(self.values)

    def __str__(self) -> str:
        mean = "the mean of " if self.in_expectation else ""
        last = float(np.max(self.values[-1]))
        ends = f"{self.horizons[0]}..{self.horizons[-1]}" if len(self) > 1 else f"{self.horizons[0]}"
        return (
            f"{self.statement} [{self.form}, {KNOWN[self.known]}] bounds {mean}{self.left}, {self.letter} = {ends}; "
            f"at {self.letter} = {self.horizons[-1]} by {last:.6g}"
        )


def chosen_form(statement: Statement, name: str | None) -> Form:
    """The form of that name; without one the repaired form, else the printed one or what stands for it, else the first.

    Raises `UnknownName` for no such form, and `InvalidInput` for one that compares nothing on a run.
    """
    if name is None:
        names = {f.name: f for f in statement.forms}
        form = names.get("repaired") or statement.as_printed or statement.forms[0]
    else:
        form = statement.form(name)
    if form.sides is None:
        raise InvalidInput(f"{statement.id} [{form.name}] compares nothing on a run: it is an identity, or a claim in words")
    return form


def bound(
    statement: Statement | str,
    problem: Problem,
    algorithm: Any = None,
    rounds: int | None = None,
    *,
    form: str | None = None,
    run: Any = None,
    x0: Any = None,
    sampling: Sampling | None = None,
    local_solver: LocalSolver | None = None,
    given: Mapping[str, Any] | None = None,
) -> Bound:
    """A statement's right side for a run with these hyperparameters, whoever makes it: an array over the rounds.

    Parameters
    ----------
    statement : Statement, from `theorems.get`, or its id
    algorithm : the method with its hyperparameters, as this package has it; None where the statement itself says which
    rounds : the horizon T; default that of ``run``, or the method's own
    form : default the repaired one, else what is printed
    run : the run, as `read_record` takes it: where the bound is made from what happens on the way
    x0, sampling, local_solver, given : as of `fedtheory.theory.judge.verify.verify`

    Raises
    ------
    InvalidInput, MissingCapability
        An assumption that fails, with value and limit; a statement that is no bound on a run; a bound that needs what is not there.
    NotCertified
        An optimum that cannot be certified.
    UnknownName
        No such statement or form.
    """
    statement = get(statement)
    chosen = chosen_form(statement, form)
    if run is not None:
        record, sampling, local_solver = read_record(problem, run), *_what_it_knows(run, sampling, local_solver)
        if rounds is not None and rounds != record.rounds:
            raise InvalidInput(f"rounds = {rounds}, and the run has {record.rounds}: leave one of them out")
        x0 = record.models[0, 0] if x0 is None else x0  # type: ignore[index]
    else:
        rounds = getattr(algorithm, "rounds", None) if rounds is None else rounds
        record = Record(None, whole_number("rounds", rounds, remedy="the horizon of the bound"))
    how: Options = {"x0": x0, "sampling": sampling, "local_solver": local_solver, "given": given, "rounds": record.rounds}
    case = case_of(statement, problem, algorithm, **how)
    setting = setting_of(statement)
    case.check_solver(setting.about(statement).work, run=True)
    made = setting.own_run(statement, chosen, case, record)
    if made.sides.relation != "<=":
        raise InvalidInput(f"{statement.id} [{chosen.name}] is an equality: it has no bound; assert_statement compares its two sides")
    values = np.asarray(made.sides.rhs, dtype=float)
    values = np.array(np.broadcast_to(values, (len(made.horizons), values.shape[-1] if values.ndim > 1 else 1)))
    if not np.isfinite(values).all():
        k = int(np.argmin(np.isfinite(values).all(axis=1)))
        raise InvalidInput(f"{statement.id} [{chosen.name}]: the bound at {made.letter} = {made.horizons[k]} is not finite")
    if (values == values[:, :1]).all():
        values = values[:, 0]
    return Bound(
        values, made.horizons, made.letter, made.left, not made.exact, statement.id, chosen.name, made.rule, chosen.latex,
        statement.assumptions, chosen.established[made.rule], chosen.known(made.rule),
        {**made.constants, **made.where.get(FREE, {})},
    )  # fmt: skip


def _what_it_knows(run: Any, sampling: Any, local_solver: Any) -> tuple[Any, Any]:
    """The cohorts and the local work: as said, else as a `fedtheory.Trajectory` knows them."""
    known = getattr(run, "sampling", None), getattr(run, "local_solver", None)
    return (known[0] if sampling is None else sampling), (known[1] if local_solver is None else local_solver)


def check_run(
    statement: Statement | str,
    problem: Problem,
    algorithm: Any,
    run: Any,
    *,
    forms: Iterable[str] | None = None,
    confidence: float = CONFIDENCE,
    x0: Any = None,
    sampling: Sampling | None = None,
    local_solver: LocalSolver | None = None,
    given: Mapping[str, Any] | None = None,
) -> Checks:
    """A statement on a run of anyone's, one check a form; arguments and errors as of `bound`.

    A form whose assumptions fail, or that is no statement about a run, is 'not applicable'; one that needs what was not recorded, more
    seeds, or an optimum that cannot be certified is 'inconclusive'.

    Parameters
    ----------
    forms : names; default the one that `bound` takes
    confidence : of claims about a mean
    """
    statement = get(statement)
    sampling, local_solver = _what_it_knows(run, sampling, local_solver)
    chosen = [chosen_form(statement, None)] if forms is None else [chosen_form(statement, name) for name in forms]
    record = read_record(problem, run)
    if x0 is None and np.isfinite(record.models[0, 0]).all():  # type: ignore[index]
        x0 = record.models[0, 0]  # type: ignore[index]
    how: Options = {"x0": x0, "sampling": sampling, "local_solver": local_solver, "given": given, "rounds": record.rounds}
    how["confidence"] = confidence
    case = case_of(statement, problem, algorithm, **how)
    with keeping():
        found = [_checked(statement, f, case, record) for f in chosen]
    setup = f"a run of {record.rounds} rounds" + (f" with {record.seeds} seeds" if record.seeds > 1 else "") + f" on {problem!r}"
    return Checks(found, statement, None, setup)


def _checked(statement: Statement, form: Form, case: Any, record: Record) -> Check:
    """One form on the record."""
    setting, name = setting_of(statement), case.problem.name
    bad = np.argwhere(~np.isfinite(record.models))  # type: ignore[arg-type]
    try:
        if len(bad):
            where = f"the model of round {int(bad[0][0])}"
            raise NotRecorded(f"{where} is not finite: the run diverged")
        case.check_solver(setting.about(statement).work, run=True)
        made = setting.own_run(statement, form, case, record)
        if why := _differ(record) if made.exact else _too_few(record):
            raise NotRecorded(why)
    except (NotCertified, InvalidInput, MissingCapability) as error:
        return outside(statement, form, form.rule_among(case.rule, "any"), error, name)
    fields: dict[str, Any] = {"statement": statement.id, "form": form.name, "rule": made.rule, "instance": name}
    sides, fields["where"] = _filled(made), dict(made.where)
    if len(made.horizons) > 1 and made.horizons[0] == 0 and begins_as_one(sides):
        sides, fields["where"][SAME_AT_START] = after_start(sides), True
        made = replace(made, horizons=made.horizons[1:])
    if made.exact:
        return _placed(judge(sides, **fields), made)
    return _placed(judge_statistical(sides, case.confidence, **fields), made)


def _too_few(record: Record) -> str:
    """Why seeds say nothing of a mean; '' where they do."""
    models: Any = record.models
    if record.seeds < 2:
        return "the bound is on an expectation, and there is one seed: hand over (rounds + 1, seeds, d) of 30 independent seeds or more"
    if (models == models[:, :1]).all():
        return f"all {record.seeds} seeds are the same run, number for number: give each a seed of its own"
    return ""


def _differ(record: Record) -> str:
    """Why seeds of a run in which nothing is random say that something was; '' where they are alike, or start apart."""
    models: Any = record.models
    size = 1e-6 * max(float(np.abs(models).max()), np.finfo(float).tiny)
    if record.seeds < 2 or np.abs(models[0] - models[0, :1]).max() > size or np.abs(models - models[:, :1]).max() <= size:
        return ""
    return (
        f"the {record.seeds} seeds start alike and differ, and with all clients and full gradients nothing is random: say who took "
        "part (sampling=Uniform(P), ...), and what else was drawn"
    )


def _filled(made: OwnRun) -> Sides:
    """Sides whose arrays all have the shape (K, S)."""
    s = made.sides
    shape = np.broadcast_shapes(np.shape(s.lhs), np.shape(s.rhs), np.shape(s.scale), (len(made.horizons), 1))
    lhs, rhs, scale = (np.broadcast_to(np.asarray(v, dtype=float), shape) for v in (s.lhs, s.rhs, s.scale))
    noise = np.asarray(s.noise, dtype=float)
    return replace(s, lhs=lhs, rhs=rhs, scale=scale, noise=np.broadcast_to(noise, shape) if noise.ndim else noise, axes=())


def _placed(check: Check, made: OwnRun) -> Check:
    """The check with the horizon of its worst entry, and those of its series."""
    where = dict(check.where)
    index = where.pop("index", None)
    if index is not None:
        where[made.letter] = int(made.horizons[index[0]])
        if len(index) > 1 and made.sides.lhs.shape[-1] > 1:
            where["seed"] = int(index[1])
    series = check.series and check.series.along(made.horizons, made.letter)
    return replace(check, where=where, series=series)


Statement.bound = bound
