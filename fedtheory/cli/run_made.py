"""A run made from the options of `fedtheory run`; cells of `fedtheory sweep` are made likewise."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.cli.common import problem_of, progress, sampling_of, slug
from fedtheory.cli.local_solvers import (
    MEMORY_OPTIONS,
    SOLVER_OPTIONS,
    local_kind,
    memory_arguments,
    own_steps,
    penalty,
    solver_of,
    whose,
)
from fedtheory.cli.options import SET_OPTIONS, defaults_of, flag, hyperparameters, make_algorithm, refuse_foreign
from fedtheory.devices import array_like
from fedtheory.errors import InvalidInput
from fedtheory.inputs import whole_number

if TYPE_CHECKING:
    from fedtheory.theory.judge.request import Tuned

__all__ = ["RUN_METRICS", "WIRE", "Made", "RunOptions", "make", "options_from", "problem_for", "run_name"]

RUN_METRICS = {  # and their column titles
    "suboptimality": "F(x) - F*",
    "gradient_norm": "||grad F||",
    "distance": "||x - x*||",
    "nonzeros": "nonzeros",
    "entropy": "bits/entry",
    "bits": "bits",
}
WIRE = ("nonzeros", "entropy", "bits")  # what is sent: nothing before round 1


@dataclass(frozen=True)
class RunOptions:
    """The options of a run, by name.

    Attributes
    ----------
    options : of the problem, of who takes part, and the hyperparameters
    solver : `SOLVER_OPTIONS` and `MEMORY_OPTIONS`
    """

    method: str
    problem: str | None
    options: dict[str, Any]
    solver: dict[str, Any]
    rounds: int | None = None
    participants: int | None = None
    scenarios: int = 1
    figures: bool = True
    seed: int = 0
    json: bool = False
    out: Path = Path("results")
    device: str | None = None
    dtype: str | None = None


@dataclass
class Made:
    """A run that is made from them.

    Attributes
    ----------
    radius, radius_from : of the ball that it is about, and where it is from; None where there is none
    tuned : what a theorem says of it, or None
    like : an array of the namespace, device and type of the run, or None for NumPy's
    """

    problem: Any
    algorithm: Any
    x0: np.ndarray
    rounds: int
    radius: float | None
    radius_from: str
    tuned: Tuned | None
    like: Any
    sampling: Any = None
    solver: Any = None
    optimum: Any = None

    @property
    def titles(self) -> dict[str, str]:
        """The metrics shown of every round: name and column title."""
        return RUN_METRICS if self.radius is None else {k: v for k, v in RUN_METRICS.items() if k != "gradient_norm"}


LONGEST_NAME = 60  # characters of hyperparameters in a file's name
_OWN = ("method", "problem", "rounds", "participants", "scenarios", "figures", "seed", "json", "out", "device", "dtype")


def options_from(given: Mapping[str, Any]) -> RunOptions:
    """Make `RunOptions` of the parameters of the command `run`, given by name."""
    solver = {name: given[name] for name in (*SOLVER_OPTIONS, *(o.name for o in MEMORY_OPTIONS))}
    own = {name: given[name] for name in _OWN}
    rest = {k: v for k, v in given.items() if k not in own and k not in solver}
    return RunOptions(options=rest, solver=solver, **{**own, "out": own["out"] or Path("results")})


def _who_and_how(o: RunOptions, problem: Any, algorithm: Any, rounds: int, refuse_long: Callable[[Any], None]) -> tuple[Any, Any]:
    """The law of cohorts, and the local solver; ``refuse_long`` is asked about it before anything of its length is made."""
    from fedtheory.cli.participation import STEPS, local_sgd, participation_of, refuse_participation, step_size
    from fedtheory.local import LocalSGD
    from fedtheory.optimum.on_ball import is_smooth

    given, options = o.solver, o.options
    kind = local_kind(given, problem, algorithm)
    if kind != "local-sgd":
        remedy = "leave it out" if own_steps(algorithm) else "clients that do part of the work need --local-solver local-sgd"
        refuse_participation(options, whose(given, algorithm, kind), remedy, ("lr_schedule", "lr_delay"))
        sampling, solver = sampling_of(o.participants, problem), solver_of(given, problem, algorithm, kind)
        refuse_long(solver)
        return sampling, solver
    for name in ("epochs", "lr_decay", "local_l1"):
        if given[name] is not None:
            raise InvalidInput(f"{flag(name)} does not apply to {whose(given, algorithm, kind)}: leave it out")
    memory_arguments(kind, given, whose(given, algorithm, kind))
    if not is_smooth(problem) and given["local_lr"] is None:
        raise InvalidInput(f"{problem.name} has no smoothness constant to take a step size from: give one with --local-lr")
    steps = STEPS if given["local_steps"] is None else given["local_steps"]
    if steps > 10_000:  # laws of as many steps are made below
        refuse_long(LocalSGD(steps, 1e-6, given["batch_size"], noise_std=options.get("noise") or 0.0))
    sampling = participation_of(problem, options, o.participants, steps, rounds)
    work = {**options, **given}

    def default() -> float:
        return step_size(algorithm, problem, penalty(algorithm), sampling, rounds)

    solver = local_sgd(problem, algorithm, work, sampling, rounds, default)
    refuse_long(solver)
    return sampling, solver


def problem_for(o: RunOptions) -> Any:
    """The problem, once the method and the device are known to be there."""
    from fedtheory import algorithms
    from fedtheory.cli.problems import PROBLEMS

    if o.method in PROBLEMS and o.problem in algorithms.names():
        told = f"{o.method} is a problem, and {o.problem} a method"
        raise InvalidInput(f"{told}: `fedtheory run {o.problem} {o.method}`")
    algorithms.get(o.method)
    array_like(o.device, o.dtype or "float64")
    return problem_of(o.problem, o.options, o.seed)


def run_name(method: str, problem: str, options: Mapping[str, Any]) -> str:
    """A stem for the files of a run: method and problem, and every hyperparameter that is not the default, as in
    'run-feddyn-digits-alpha-0.1'; a long one is shortened to eight digits of its hash."""
    from fedtheory import algorithms

    usual = defaults_of(algorithms.get(method)) if method in algorithms.names() else {}
    names = (*hyperparameters(), "l2_over_beta", *(o.name for o in SET_OPTIONS))
    given = {n: options[n] for n in names if options.get(n) is not None and options[n] != usual.get(n)}
    told = "-".join(("" if v else "no_") + n if isinstance(v, bool) else f"{n}-{v}".removesuffix(".0") for n, v in given.items())
    told = told if len(told) <= LONGEST_NAME else hashlib.sha256(told.encode()).hexdigest()[:8]
    return slug("run", method, problem, *filter(None, [told]))


def make(o: RunOptions, solved: bool = True, problem: Any = None) -> Made:
    """Problem, method, cohorts, local solver and optimum; what is wrong with the options is told
    before an optimum is looked for.

    Parameters
    ----------
    solved : whether the optimum is found
    problem : the one that the options name, where it is there already
    """
    from fedtheory import algorithms
    from fedtheory.cli.ball import start_of
    from fedtheory.cli.time_limit import refuse_long_rounds
    from fedtheory.limits import unlimited
    from fedtheory.simulation.simulate import check_parts, check_size

    problem = problem_for(o) if problem is None else problem
    cls, like = algorithms.get(o.method), array_like(o.device, o.dtype or "float64")
    x0 = start_of(o.options.get("start"), problem.dim)
    for name, count in (("rounds", o.rounds), ("scenarios", o.scenarios)):
        if count is not None:
            whole_number(name, count)
    _refuse_early(o, cls, problem)
    tuned = _tuned(o, cls, problem)
    if tuned is not None:
        made = Made(problem, tuned.algorithm, x0, tuned.rounds, tuned.radius, "", tuned, like)
    else:
        made = _with_given_parameters(o, cls, problem, x0, like)
    allow_long = tuned is not None or bool(o.options.get("allow_long"))  # a theorem's parameters have seen to it themselves

    with unlimited() if tuned is not None else nullcontext():
        # on a ball all the server's points are kept, and once more less the optimum
        kept = len(made.titles) + (0 if made.radius is None else 2 * problem.dim)
        check_size(problem, None, made.rounds, o.scenarios, kept, 2 + (o.participants or problem.num_clients))

    def refuse_long(solver: Any) -> None:
        refuse_long_rounds(solver, problem, made.rounds, o.participants, o.scenarios, allow_long, like)

    made.sampling, made.solver = _who_and_how(o, problem, made.algorithm, made.rounds, refuse_long)
    check_parts(problem, made.algorithm, made.sampling, made.solver, made.rounds)
    if solved:
        with progress("certifying the optimum"):
            made.optimum = problem.optimum() if made.radius is None else problem.optimum_on_ball(made.radius)
    return made


def _refuse_early(o: RunOptions, cls: Any, problem: Any) -> None:
    """Make method, cohorts and local solver with 1 for each number that an optimum will say, and so
    raise what they raise."""
    from fedtheory.cli.ball import BY_THEORY
    from fedtheory.cli.time_limit import refuse_long_rounds
    from fedtheory.optimum.on_ball import is_smooth

    if cls.parameters_from:
        theirs = [name for name, h in hyperparameters().items() if cls.name in h.required]
        foreign = [name for name in (*hyperparameters(), "l2_over_beta") if o.options.get(name) is not None]
        refuse_foreign(cls.name, [name for name in foreign if name not in ("rounds", "radius", "allow_long")])
    else:
        theirs = ["step"] if cls.name in BY_THEORY else []
        if o.options.get("noise") is not None and cls.local_work != "local-sgd" and o.solver["local_solver"] != "local-sgd":
            noisy = ", ".join(hyperparameters()["noise_std"].methods)
            raise InvalidInput(f"--noise is for {noisy}, and for others with --local-solver local-sgd, not for {o.method}")
        if is_smooth(problem):
            return  # there is no optimum behind any number
    chosen = {name: o.options.get(name) for name in (*hyperparameters(), "l2_over_beta")} | {"allow_long": None}
    if cls.parameters_from:
        chosen |= {"epsilon": None}  # of the theorem, and no number of the method
    chosen["radius"] = 1 if "radius" in {f.name for f in fields(cls)} else None  # `choose_radius` looks at it before it solves
    chosen |= {name: 1 for name in theirs if chosen[name] is None}
    algorithm = make_algorithm(o.method, problem, chosen)
    rounds, allow_long = 100 if o.rounds is None else o.rounds, bool(o.options.get("allow_long"))

    def refuse_long(solver: Any) -> None:  # for its steps; too many rounds are told by what they fill
        refuse_long_rounds(solver, problem, min(rounds, 100), o.participants, o.scenarios, allow_long)

    _, solver = _who_and_how(o, problem, algorithm, rounds, refuse_long)
    solver.check(problem)
    algorithm.check(solver)


def _tuned(o: RunOptions, cls: Any, problem: Any) -> Tuned | None:
    """The method with a theorem's parameters, where its paper gives it some."""
    source = getattr(cls, "parameters_from", "")
    if not source:
        return None
    from fedtheory.cli.request import CommandRequest
    from fedtheory.theory.judge.registry import paper

    if (tuned := paper(source).tuned) is None:
        return None
    request = CommandRequest(o.options, o.participants, o.rounds, scenarios=o.scenarios, seed=o.seed, made=problem)
    with progress("certifying the optimum"):
        return tuned(cls.name, request, o.rounds, o.solver["batch_size"])


def _with_given_parameters(o: RunOptions, cls: Any, problem: Any, x0: np.ndarray, like: Any) -> Made:
    """The method with the hyperparameters given; on a nonsmooth problem with a ball, and the step that theory says."""
    from fedtheory.cli.ball import BY_THEORY, with_theory_step
    from fedtheory.optimum.on_ball import choose_radius, is_smooth

    chosen, radius, radius_from = {**o.options, "allow_long": None}, None, ""
    rounds = 100 if o.rounds is None else o.rounds
    if not is_smooth(problem):
        with progress("certifying the optimum"):
            radius, radius_from = choose_radius(problem, chosen.get("radius"), x0)
        # a method without a ball of its own is only compared with the optimum there
        chosen["radius"] = radius if "radius" in {f.name for f in fields(cls)} else None
        if cls.name in BY_THEORY and chosen.get("step") is None:
            chosen = with_theory_step(problem, chosen, x0, rounds)
    algorithm = make_algorithm(o.method, problem, chosen)
    return Made(problem, algorithm, x0, rounds, radius, radius_from, None, like)
