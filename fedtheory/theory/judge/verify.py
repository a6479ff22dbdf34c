"""Checking a statement on a problem of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypedDict, Unpack

from fedtheory.errors import InvalidInput, suggest
from fedtheory.inputs import check_problem, check_unit, whole_number
from fedtheory.limits import must_fit
from fedtheory.local.objective import LocalSolver
from fedtheory.participation.cohorts import Sampling
from fedtheory.problems.base import Problem
from fedtheory.simulation.arguments import check_algorithm, check_local_solver, check_sampling
from fedtheory.simulation.simulate import check_start
from fedtheory.theory.judge.case import named
from fedtheory.theory.judge.check import CONFIDENCE, Check, judge_view, outside
from fedtheory.theory.judge.checks import Checks
from fedtheory.theory.judge.registry import about_of, get, paper_of, setting_of
from fedtheory.theory.judge.series import keeping
from fedtheory.theory.judge.setting import Case
from fedtheory.theory.judge.statement import Authored, Form, Statement
from fedtheory.theory.judge.view import DataInstance
from fedtheory.theory.judge.witness import Witness

__all__ = ["Options", "case_of", "check_given", "keep", "verify"]

Mode = Literal["auto", "exact", "monte-carlo"]


class Options(TypedDict, total=False):
    """Options of `verify` beside forms, for callers that hand them on."""

    sampling: Sampling | None
    local_solver: LocalSolver | None
    x0: Any
    rounds: int | None
    mode: Mode
    scenarios: int | None
    seed: int
    confidence: float
    given: Mapping[str, Any] | None
    on_progress: Callable[[int, int, int], None] | None
    on_stage: Callable[[list[Check]], None] | None


def verify(
    statement: Statement | Authored | str,
    problem: Problem,
    algorithm: Any = None,
    *,
    sampling: Sampling | None = None,
    local_solver: LocalSolver | None = None,
    x0: Any = None,
    rounds: int | None = None,
    mode: Mode = "auto",
    scenarios: int | None = None,
    seed: int = 0,
    forms: Iterable[str] | None = None,
    confidence: float = CONFIDENCE,
    given: Mapping[str, Any] | None = None,
    on_progress: Callable[[int, int, int], None] | None = None,
    on_stage: Callable[[list[Check]], None] | None = None,
) -> Checks:
    """Check a statement on a problem of yours.

    Parameters
    ----------
    statement : from `theorems.get`; of a `Paper` of yours; or an id, also 'FILE.py::NAME'
    algorithm : the method; None where the statement itself says which (`About.own_method`)
        Given there nevertheless, it must be that method, and its numbers are taken. None takes the
        limit of what varies `upto` one, and each number `among` several in turn: a form that fails
        of one of them fails, and holds if it does of all.
    sampling : default the statement's own, where it has one, else full participation
    local_solver : the local work, where the statement is about a method whose local work is chosen
        One that the statement is not judged with makes its forms 'not applicable' (`About.work`).
    x0 : (d,), default 0, where `simulate` and the command line start
        0 may be a point like no other, such as an optimum. One round of a method is then judged
        from seven others, too, that the seed draws around the optimum; one from any state before
        it has states that are drawn as it is.
    rounds : int
        Horizon T of statements about runs, and of one round how many come before it. The statement
        has a default.
    mode : 'exact' enumerates all cohorts; 'monte-carlo' takes runs; 'auto' takes exact where it is
        affordable.
    scenarios : int
        The most runs that Monte Carlo takes, by default as many as the paper's setting says
        (`Setting.scenarios`): 400 of a statement about a method.
    forms : names of forms, default all
    confidence : of one-sided statements by Monte Carlo; several numbers share its error probability
    given : dict name -> value
        What you set of the theorem itself, such as its constants; the paper's setting says what
        there is.
    on_progress : callable(done, stage, most)
        During Monte Carlo in stages, after every round; counted in rounds of one scenario.
    on_stage : callable(checks)
        Called there after every stage, with the checks so far: what an interrupt would otherwise
        lose.

    Returns
    -------
    Checks
        A list with one check a form. A form outside its assumptions is 'not applicable', with what
        is missing, as on a problem outside the declared class; a problem whose optimum cannot be
        certified makes all of them 'inconclusive'.

    Raises
    ------
    InvalidInput
        Another mode; a confidence outside (0, 1), counts that are no whole numbers; a problem, an
        algorithm, sampling or local solver of another kind; more cohorts, or paths of cohorts, than
        can be enumerated; cohorts larger than the number of clients; what the author's function
        raises, with file and line.
    UnknownName
        No such statement or form; something given that the setting does not know.
    """
    statement = get(statement)
    chosen = list(statement.forms) if forms is None else [statement.form(n) for n in forms]
    case = case_of(
        statement, problem, algorithm, sampling=sampling, local_solver=local_solver, x0=x0,
        rounds=rounds, mode=mode, scenarios=scenarios, seed=seed, confidence=confidence,
        given=given, on_progress=on_progress, on_stage=on_stage,
    )  # fmt: skip
    identities = [f for f in chosen if f.symbolic is not None]
    data = [f for f in chosen if f.symbolic is None]
    checks = [judge_view(statement, f, None) for f in identities]
    if data:
        with keeping():
            checks += _judged(statement, data, case)
    order = {f.name: i for i, f in enumerate(chosen)}
    again = partial(_again, statement, data, case) if data else None
    setup = [f"{problem.name}, N = {problem.num_clients}, d = {problem.dim}"]
    setup += [named(v) for v in (algorithm, sampling, local_solver) if v is not None]
    checks.sort(key=lambda c: order[c.form])
    return Checks(checks, statement, again, "; ".join(setup), case)


def _judged(statement: Statement, forms: Sequence[Form], case: Case) -> list[Check]:
    """One check a form."""
    try:
        case.check_solver(about_of(statement).work)
    except InvalidInput as error:
        name = case.problem.name
        return [outside(statement, f, f.rule_among(case.rule, "any"), error, name) for f in forms]
    return setting_of(statement).verify(statement, forms, case)


def _again(
    statement: Statement, every: Sequence[Form], case: Case, rounds: int,
    forms: Iterable[str] | None = None, scenarios: int | None = None,
) -> list[Any]:  # fmt: skip
    """The checks of a run of other rounds; of a method that is made for a number of rounds, of that
    method made for these.

    Parameters
    ----------
    forms : their names; default all
    scenarios : that are run together where the run is one of Monte Carlo, if the case has as many;
        default as the case has it
    """
    other = replace(case, rounds=rounds, on_progress=None, on_stage=None)
    if scenarios is not None:
        count = min(scenarios, case.scenarios)
        other = replace(other, scenarios=count, least=count)
    if case.of_rounds:
        other = replace(other, algorithm=replace(case.algorithm, rounds=rounds), rounds=None)
    chosen = every if forms is None else [f for f in every if f.name in set(forms)]
    with keeping():
        return _judged(statement, chosen, other)


def keep(
    statement: Statement | Authored | str, problem: Problem, algorithm: Any = None,
    form: str = "repaired", **options: Unpack[Options],
) -> Witness:
    """One form on a problem of yours as a witness that can be saved and replayed, whether it holds
    there or fails.

    Parameters
    ----------
    options : as of `verify`, but ``forms``

    Raises
    ------
    InvalidInput
        A form that is not judged in fractions on this problem, or whose assumptions fail there; and
        as `verify` raises it.
    """
    statement = get(statement)
    chosen = statement.form(form)
    case = case_of(statement, problem, algorithm, **options)
    setting = setting_of(statement)
    case.check_solver(setting.about(statement).work)
    instance = setting.instance(statement, chosen, case)
    if not isinstance(instance, DataInstance):
        why = "is not judged in fractions on this problem: there is nothing to keep"
        raise InvalidInput(f"{statement.id} [{form}] {why}")
    label = f"{statement.id}-{form}-on-{instance.label}"
    rule, kind, data = instance.view().rule, instance.kind, instance.data
    kept = Witness(statement.id, form, rule, kind, data, label=label)
    _, lhs, rhs, _ = setting.exact_check(statement, kept)
    return kept.claiming(lhs, rhs)


def check_given(statement: Statement, names: Iterable[str]) -> None:
    """Raise `InvalidInput`, or `UnknownName`, for the first of these names that cannot be given to
    the statement."""
    takes = about_of(statement).takes
    for name in names:
        if not takes:
            raise InvalidInput(
                f"given {name!r}: nothing can be given to {statement.id}; leave it out"
            )
        if name not in takes:
            raise suggest(
                name, list(takes), "given name",
                f"`fedtheory explain {statement.id}` says what can be given"
            )


def case_of(
    statement: Statement | Authored | str, problem: Problem, algorithm: Any,
    **options: Unpack[Options],
) -> Case:  # fmt: skip
    """Check what a user gives to a statement; options and errors as of `verify`, but ``forms``."""
    statement = get(statement)
    for name in options:
        if name not in Options.__annotations__:
            raise suggest(name, list(Options.__annotations__), "argument of verify")
    setting = setting_of(statement)
    asked: dict[str, Any] = {**options, "given": dict(options.get("given") or {})}
    if asked.get("scenarios") is None:
        asked["scenarios"] = setting.scenarios
    case = Case(problem, algorithm, **asked, x0_given=options.get("x0") is not None)
    if case.mode not in ("auto", "exact", "monte-carlo"):
        raise InvalidInput(f"mode = {case.mode!r}: use 'auto', 'exact' or 'monte-carlo'")
    own, of_a_file = setting.about(statement).own_method, bool(paper_of(statement).file)
    plain = (own or of_a_file) and callable(getattr(type(algorithm), "round", None))
    if not (plain or (own and algorithm is None)):
        check_algorithm(algorithm)
    check_problem(problem)
    check_sampling(case.sampling)
    check_local_solver(case.local_solver)
    if case.rounds is not None:
        whole_number("rounds", case.rounds, remedy="None leaves it to the statement")
    whole_number(
        "scenarios", case.scenarios, least=2,
        remedy="a mean needs at least two runs to have an error"
    )
    whole_number("seed", case.seed, least=0)
    confidence = check_unit("confidence", case.confidence)
    runs, length = (1 if case.mode == "exact" else case.scenarios), case.rounds or 1
    what = f"{runs:,} scenarios"
    if case.rounds is not None:
        what = f"{length:,} rounds, each in {what},"
    numbers = runs * (2.0 * problem.dim + length)  # each has a model, and a number of every round
    must_fit(what, numbers, "ask for fewer rounds or fewer scenarios")
    if case.sampling is not None:
        case.sampling.check(problem.num_clients)
    check_given(statement, case.given)
    return replace(case, confidence=confidence, x0=check_start(problem, case.x0, 1)[0])


Statement.verify = verify
