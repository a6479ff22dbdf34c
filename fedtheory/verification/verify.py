"""Checking a statement on a problem of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from fedtheory.errors import InvalidInput, suggest
from fedtheory.inputs import check_unit, whole_number
from fedtheory.local.objective import LocalSolver
from fedtheory.participation.cohorts import Sampling
from fedtheory.problems.base import Problem
from fedtheory.simulation.arguments import check_algorithm, check_local_solver, check_problem, check_sampling
from fedtheory.simulation.simulate import check_start
from fedtheory.verification.check import CONFIDENCE, Checks, judge_view
from fedtheory.verification.registry import get, setting_of
from fedtheory.verification.setting import Case
from fedtheory.verification.statement import Form, Statement
from fedtheory.verification.witness import Witness

__all__ = ["keep", "verify"]

_MORE = {
    "states": 32, "confidence": CONFIDENCE, "max_leaves": 50_000, "on_progress": None, "on_stage": None, "given": None,
}  # fmt: skip


_DEFAULTS = {
    "sampling": None, "local_solver": None, "x0": None, "rounds": None, "mode": "auto", "scenarios": 1000, "seed": 0,
}  # fmt: skip


def verify(
    statement: Statement | str,
    problem: Problem,
    algorithm: Any,
    *,
    sampling: Sampling | None = None,
    local_solver: LocalSolver | None = None,
    x0: Any = None,
    rounds: int | None = None,
    mode: Literal["auto", "exact", "monte-carlo"] = "auto",
    scenarios: int = 1000,
    seed: int = 0,
    forms: Iterable[str] | None = None,
    **more: Any,
) -> Checks:
    """Check a statement on a problem of yours.

    Parameters
    ----------
    statement : Statement, from `theorems.get`, or its id
    algorithm : the method; None where the statement itself says which (`Setting.own_method`)
    sampling : default full participation
    local_solver : the local work, where the statement is about a method whose local work is chosen
    x0 : (d,), default 0
    rounds : int
        Horizon T of statements about runs. The statement has a default.
    mode : 'exact' enumerates all cohorts; 'monte-carlo' takes runs; 'auto' takes exact where it is affordable.
    scenarios : int
        The most runs that Monte Carlo takes.
    forms : names of forms, default all
    states : int, default 32
        Statements about one round are checked at that many random states and at the states of a real run, in this order.
    confidence : default `CONFIDENCE`, of one-sided statements by Monte Carlo
    max_leaves : default 50,000, the most sequences of cohorts that are enumerated
    given : dict name -> value
        What you set of the theorem itself, such as its constants; the paper's setting says what there is.
    on_progress : callable(done, stage, most)
        During Monte Carlo in stages, after every round; counted in rounds of one scenario.
    on_stage : callable(checks)
        Called there after every stage, with the checks so far: what an interrupt would otherwise lose.

    Returns
    -------
    Checks
        One check a form. A form outside its assumptions is 'not applicable'; a problem whose optimum cannot be certified
        makes all of them 'inconclusive'.

    Raises
    ------
    InvalidInput
        Another mode; a confidence outside (0, 1), counts that are no whole numbers; a problem, an algorithm, sampling or local
        solver of another kind; more cohorts, or paths of cohorts, than can be enumerated; cohorts larger than the number of clients.
    UnknownName
        No such statement or form; something given that the setting does not know.
    """
    statement = get(statement) if isinstance(statement, str) else statement
    chosen = list(statement.forms) if forms is None else [statement.form(n) for n in forms]
    case = _case(statement, problem, algorithm, sampling, local_solver, x0, rounds, mode, scenarios, seed, more)
    identities = [f for f in chosen if f.symbolic is not None]
    data = [f for f in chosen if f.symbolic is None]
    checks = [judge_view(statement, f, None) for f in identities]
    if data:
        checks += setting_of(statement).verify(statement, data, case)
    return _in_order(statement, checks, chosen)


def keep(statement: Statement | str, problem: Problem, algorithm: Any, form: str = "repaired", **options: Any) -> Witness:
    """One form on a problem of yours as a witness that can be saved and replayed, whether it holds there or fails.

    Parameters
    ----------
    options : as of `verify`, but ``forms``

    Raises
    ------
    InvalidInput
        A form that is not judged in fractions on this problem, or whose assumptions fail there; and as `verify` raises it.
    """
    statement = get(statement) if isinstance(statement, str) else statement
    chosen = statement.form(form)
    named = {**_DEFAULTS, **{k: v for k, v in options.items() if k in _DEFAULTS}}
    case = _case(statement, problem, algorithm, **named, more={k: v for k, v in options.items() if k not in _DEFAULTS})
    return setting_of(statement).witness(statement, chosen, case)


def _case(
    statement: Statement, problem: Problem, algorithm: Any, sampling: Any, local_solver: Any, x0: Any, rounds: int | None, mode: str,
    scenarios: int, seed: int, more: dict[str, Any],
) -> Case:  # fmt: skip
    """What a user gave, checked."""
    if mode not in ("auto", "exact", "monte-carlo"):
        raise InvalidInput(f"mode = {mode!r}: use 'auto', 'exact' or 'monte-carlo'")
    for name in more:
        if name not in _MORE:
            raise suggest(name, list(_MORE), "argument of verify")
    more = {**_MORE, **more}
    setting = setting_of(statement)
    if not (algorithm is None and setting.own_method):
        check_algorithm(algorithm)
    check_problem(problem)
    check_sampling(sampling)
    check_local_solver(local_solver)
    if rounds is not None:
        whole_number("rounds", rounds, remedy="None leaves it to the statement")
    whole_number("scenarios", scenarios, least=2, remedy="a mean needs at least two runs to have an error")
    whole_number("states", more["states"], least=0), whole_number("max_leaves", more["max_leaves"])
    whole_number("seed", seed, least=0)
    more["confidence"] = check_unit("confidence", more["confidence"])
    if sampling is not None:
        sampling.check(problem.num_clients)
    given = dict(more.pop("given") or {})
    takes = setting.takes(statement)
    for name in given:
        if not takes:
            raise InvalidInput(f"given {name!r}: nothing can be given to {statement.id}; leave it out")
        if name not in takes:
            raise suggest(name, list(takes), "given name", f"`fedtheory explain {statement.id}` says what can be given")
    return Case(
        problem, algorithm, sampling, local_solver, check_start(problem, x0, 1)[0], rounds, mode, scenarios, seed=seed, given=given,
        **more,
    )  # fmt: skip


def _in_order(statement: Statement, checks: Iterable[Any], forms: Sequence[Form]) -> Checks:
    order = {f.name: i for i, f in enumerate(forms)}
    return Checks(sorted(checks, key=lambda c: order[c.form]), statement)


Statement.runner = staticmethod(verify)
