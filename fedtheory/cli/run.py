"""`fedtheory run`: a method on a problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from fedtheory.arrays import to_numpy
from fedtheory.cli.common import (
    about_problem,
    emit,
    err_console,
    facts,
    out_console,
    problem_of,
    progress,
    sampling_of,
    save,
    slug,
)
from fedtheory.cli.local_solvers import local_kind, memory_arguments, own_steps, penalty, solver_of, whose
from fedtheory.cli.options import hyperparameters, make_algorithm, refuse_foreign
from fedtheory.devices import array_like
from fedtheory.errors import InvalidInput

__all__ = ["RunOptions", "run"]

if TYPE_CHECKING:
    from fedtheory.cli.run_kept import KeptRun
    from fedtheory.simulation.simulate import Resume, Trajectory
    from fedtheory.verification.request import Tuned

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
    """What the command line says; names as its options.

    Attributes
    ----------
    options : of the problem, of who takes part, and the hyperparameters
    solver : name, steps, lr, batch, epochs, decay, l1 of the local solver, and of `MEMORY_OPTIONS`
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
class _Made:
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
        """What is shown of every round: name and column title."""
        return RUN_METRICS if self.radius is None else {k: v for k, v in RUN_METRICS.items() if k != "gradient_norm"}


def _plain(value: Any) -> Any:
    """A hyperparameter as JSON has it; a compressor as it is written in Python."""
    return repr(value) if is_dataclass(value) else value


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
    for key, name in (("epochs", "--epochs"), ("decay", "--lr-decay"), ("l1", "--local-l1")):
        if given[key] is not None:
            raise InvalidInput(f"{name} does not apply to {whose(given, algorithm, kind)}: leave it out")
    memory_arguments(kind, given, whose(given, algorithm, kind))
    if not is_smooth(problem) and given["lr"] is None:
        raise InvalidInput(f"{problem.name} has no smoothness constant to take a step size from: give one with --local-lr")
    steps = STEPS if given["steps"] is None else given["steps"]
    if steps > 10_000:  # laws of as many steps are made below
        refuse_long(LocalSGD(steps, 1e-6, given["batch"], noise_std=options.get("noise") or 0.0))
    sampling = participation_of(problem, options, o.participants, steps, rounds)
    work = {**options, "local_lr": given["lr"], "batch_size": given["batch"]}

    def default() -> float:
        return step_size(algorithm, problem, penalty(algorithm), sampling, rounds)

    solver = local_sgd(problem, algorithm, work, sampling, rounds, default)
    refuse_long(solver)
    return sampling, solver


def run(o: RunOptions) -> int:
    """Run a method on a problem; the exit code. Interrupted, the rounds that were finished are what is shown and written."""
    from fedtheory.central.plan import METHODS
    from fedtheory.cli.central import refuse_set_options, run_central
    from fedtheory.rates.endings import how_it_ended
    from fedtheory.rates.fits import precision_floor

    if o.method in METHODS:
        return run_central(o)
    refuse_set_options(o.method, o.options)
    made = _make(o)
    stem = slug("run", made.algorithm.name, made.problem.name)
    kept = _kept(o, made, stem)
    trajectory = _simulated(o, made, kept)
    if trajectory.rounds < made.rounds:
        told = f"interrupted after round {trajectory.rounds} of {made.rounds}: what follows is up to there; the same command goes on"
        err_console().print(told, style="yellow")
    ended = how_it_ended(trajectory.metrics["suboptimality"], precision_floor(made.optimum))
    result = _result(o, made, trajectory, ended)
    code = 0 if result["complete"] else 130
    files = [save(o.out, stem, result)]
    if result["complete"]:
        kept.remove()
    if o.figures:
        from fedtheory.plotting.curves import draw_curves

        try:
            with progress("drawing"):
                files += draw_curves(trajectory, o.out / stem, f"{made.algorithm.name} on {made.problem.name}", ended)
        except KeyboardInterrupt:
            code = 130
            err_console().print("interrupted: the picture is left out", style="yellow")
    if o.json:
        emit({**result, "files": files})
    else:
        _show(o, made, trajectory, result, files)
    return code


def _make(o: RunOptions) -> _Made:
    """Problem, method, cohorts, local solver and optimum."""
    from fedtheory import algorithms
    from fedtheory.cli.ball import start_of
    from fedtheory.cli.time_limit import refuse_long_rounds

    cls = algorithms.get(o.method)  # an unknown method is told before a problem is built
    like = array_like(o.device, o.dtype or "float64")  # and so is a device that is not there
    problem = problem_of(o.problem, o.options, o.seed)
    x0 = start_of(o.options.get("start"), problem.dim)
    tuned = _tuned(o, cls, problem)
    if tuned is not None:
        made = _Made(problem, tuned.algorithm, x0, tuned.rounds, tuned.radius, "", tuned, like)
    else:
        made = _with_given_parameters(o, cls, problem, x0, like)
    allow_long = tuned is not None or bool(o.options.get("allow_long"))  # a theorem's parameters have seen to it themselves

    def refuse_long(solver: Any) -> None:
        refuse_long_rounds(solver, problem, made.rounds, o.participants, o.scenarios, allow_long, like)

    made.sampling, made.solver = _who_and_how(o, problem, made.algorithm, made.rounds, refuse_long)
    with progress("certifying the optimum"):
        made.optimum = problem.optimum() if made.radius is None else problem.optimum_on_ball(made.radius)
    return made


def _tuned(o: RunOptions, cls: Any, problem: Any) -> Tuned | None:
    """The method with a theorem's parameters, where its paper gives it some."""
    from fedtheory.cli.verify import CommandRequest
    from fedtheory.verification.registry import paper

    source = getattr(cls, "parameters_from", "")
    if not source:
        return None
    foreign = [name for name in (*hyperparameters(), "l2_over_beta") if o.options.get(name) is not None]
    refuse_foreign(cls.name, [name for name in foreign if name not in ("rounds", "radius", "allow_long")])
    request = CommandRequest(o.options, o.participants, o.rounds, scenarios=o.scenarios, seed=o.seed, made=problem)
    with progress("certifying the optimum"):
        return paper(source).setting.tuned(cls.name, request, o.rounds, o.solver["batch"])


def _with_given_parameters(o: RunOptions, cls: Any, problem: Any, x0: np.ndarray, like: Any) -> _Made:
    """The method with the hyperparameters given; on a nonsmooth problem with a ball, and the step that theory says."""
    from fedtheory.cli.ball import BY_THEORY, with_theory_step
    from fedtheory.optimum.on_ball import choose_radius, is_smooth

    if o.options.get("noise") is not None and cls.local_work != "local-sgd" and o.solver["name"] != "local-sgd":
        noisy = ", ".join(hyperparameters()["noise_std"].methods)
        raise InvalidInput(f"--noise is for {noisy}, and for others with --local-solver local-sgd, not for {o.method}")
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
    return _Made(problem, algorithm, x0, rounds, radius, radius_from, None, like)


def _kept(o: RunOptions, made: _Made, stem: str) -> KeptRun:
    """The run's checkpoint. Its content: what was asked for, and the optimum, which no other problem has to the last bit."""
    from fedtheory.cli.run_kept import KeptRun

    asked = {k: repr(v) for k, v in asdict(o).items() if k not in ("figures", "json", "out")}
    found = {"x": made.optimum.x, "value": made.optimum.value, "start": made.x0, "rounds": made.rounds}
    return KeptRun(o.out / f"{stem}.ckpt", {**asked, **found}, lambda line: err_console().print(line, style="dim", soft_wrap=True))


def _simulated(o: RunOptions, made: _Made, kept: KeptRun) -> Trajectory:
    """The run, or where it is interrupted its rounds up to there; on a ball it is measured against the optimum there."""
    from fedtheory.cli.time_limit import RoundClock
    from fedtheory.provenance import provenance
    from fedtheory.simulation.simulate import Trajectory, check_start, simulate

    problem, algorithm, x0, radius = made.problem, made.algorithm, made.x0, made.radius
    record = tuple(made.titles) if radius is None else ("objective", *WIRE)
    x = check_start(problem, x0, o.scenarios, made.like)
    past, points = kept.found(algorithm.init(x, problem.num_clients), x, record)
    if radius is not None and past is None:
        points = [np.broadcast_to(x0, (o.scenarios, problem.dim))]
    finished: list[Trajectory] = []  # the run up to its last round, for an interrupt
    last: list[Resume] = []

    def after_round(t: int, old: Any, new: Any, clients: Any) -> None:
        if radius is not None:
            points.append(np.array(to_numpy(new.x), dtype=float))
        clock(t - begun)
        advance()

    def keep(done: Resume) -> None:
        final = done.state._replace(x=np.array(to_numpy(done.state.x)))  # the run overwrites its own
        finished[:], last[:] = [Trajectory(problem, algorithm, done.round_index, done.metrics or {}, final)], [done]
        kept.keep(done, points)

    begun = 0 if past is None else past[0]
    clock = RoundClock(made.rounds - begun, made.tuned is not None or bool(o.options.get("allow_long")))
    with progress("rounds", made.rounds) as advance:
        if begun:
            advance(begun)
        try:
            trajectory = simulate(
                problem, algorithm, made.rounds, x0, sampling=made.sampling, scenarios=o.scenarios, seed=o.seed, resume=past,
                local_solver=made.solver, record=record, like=made.like, on_round=after_round, in_place=True, checkpoint=keep,
            )  # fmt: skip
        except KeyboardInterrupt:
            if not finished:
                raise
            trajectory = finished[0]
            trajectory.provenance = provenance(o.seed)
            kept.keep(last[0], points[: trajectory.rounds + 1], now=True)
    if radius is not None:
        m, moved = trajectory.metrics, np.stack(points[: trajectory.rounds + 1]) - made.optimum.x
        suboptimality, distance = m["objective"] - made.optimum.value, np.linalg.norm(moved, axis=-1)
        trajectory.metrics = {"suboptimality": suboptimality, "distance": distance, **{name: m[name] for name in WIRE}}
    return trajectory


def _result(o: RunOptions, made: _Made, trajectory: Trajectory, ended: str) -> dict[str, Any]:
    algorithm = made.algorithm
    return {
        "method": algorithm.name,
        "source": algorithm.source,
        "hyperparameters": {f.name: _plain(getattr(algorithm, f.name)) for f in fields(algorithm)},
        "optimum": asdict(made.optimum),
        **({} if made.radius is None else {"radius": made.radius}),
        **({} if made.tuned is None else {algorithm.name: dict(made.tuned.details)}),
        "problem": about_problem(made.problem),
        "sampling": repr(made.sampling),
        "local_solver": repr(made.solver),
        "rounds": trajectory.rounds,
        "complete": trajectory.rounds == made.rounds,
        "scenarios": o.scenarios,
        "ended": ended,
        "metrics": trajectory.metrics,
        "final_x": trajectory.x,
        "provenance": trajectory.provenance,
    }


def _show(o: RunOptions, made: _Made, trajectory: Trajectory, result: dict[str, Any], files: list[Path]) -> None:
    from fedtheory.simulation.simulate import METRICS

    console = out_console()
    _show_head(o, made, result)
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    table.add_column("round", justify="right")
    for title in made.titles.values():
        table.add_column(title, justify="right")
    rounds = trajectory.rounds
    for t in sorted({0, rounds, *(int(r) for r in np.geomspace(1, rounds, min(rounds, 10)).round())}):
        cells = [f"{trajectory.metrics[m][t].mean():.4g}" if t or m not in WIRE else "" for m in made.titles]
        table.add_row(str(t), *cells)
    console.print(table)
    if result["ended"]:
        console.print(result["ended"], style="bold yellow")
    over = f"means over {o.scenarios} scenarios; " if o.scenarios > 1 else ""
    console.print(f"{over}nonzeros: {METRICS['nonzeros']}; bits/entry: {METRICS['entropy']}; bits: {METRICS['bits']}", style="dim")
    console.print("wrote " + ", ".join(str(f) for f in files))


def _show_head(o: RunOptions, made: _Made, result: dict[str, Any]) -> None:
    """The method, the problem, and what was chosen."""
    from fedtheory.cli.participation import participation_in_words

    console, algorithm, problem = out_console(), made.algorithm, made.problem
    head = f"[bold]{algorithm.name}[/bold] ({algorithm.source}) on [bold]{problem.name}[/bold]: "
    if made.tuned is not None:
        console.print(head + f"N = {problem.num_clients}, d = {problem.dim}")
        console.print(facts(made.tuned.rows))
        return
    settings = ", ".join(f"{k} = {v:.6g}" if isinstance(v, float) else f"{k} = {v}" for k, v in result["hyperparameters"].items())
    sizes = f"m = {problem.num_clients}, {participation_in_words(problem, o.options, o.participants)}, d = {problem.dim}"
    trains = "" if own_steps(algorithm) == "none" else f"; local solver {made.solver}"
    console.print(head + f"{sizes}{settings and ', '}{settings}{trains}")
    if o.options.get("arrival") or o.options.get("departure"):
        console.print("F and F* are those of all clients, whoever is there")
    if made.radius is not None:
        console.print(f"F* is the optimum on the ball of radius {made.radius:g} ({made.radius_from})")
