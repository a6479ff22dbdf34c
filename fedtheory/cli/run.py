"""`fedtheory run`: a method on a problem."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.arrays import to_numpy
from fedtheory.cli.common import (
    about_problem,
    emit,
    err_console,
    facts,
    note,
    out_console,
    progress,
    save,
    writing,
    wrote,
)
from fedtheory.cli.local_solvers import own_steps, work_in_words
from fedtheory.cli.options import settings_of
from fedtheory.cli.resumable import only_writer_of
from fedtheory.cli.run_made import WIRE, Made, RunOptions, make, problem_for, run_name
from fedtheory.errors import diverged
from fedtheory.report.stacked import plain_table

__all__ = ["run"]

if TYPE_CHECKING:
    from fedtheory.simulation.simulate import Resume, Trajectory
    from fedtheory.store.checkpoints import RunCheckpoint

def _plain(value: Any) -> Any:
    """A hyperparameter as JSON has it; a compressor as it is written in Python."""
    return repr(value) if is_dataclass(value) else value


def run(o: RunOptions) -> int:
    """Run a method on a problem; the exit code. Interrupted, the rounds that were finished are what is shown and written."""
    from fedtheory.algorithms import get
    from fedtheory.central.plan import METHODS
    from fedtheory.cli.central import refuse_set_options, run_central

    if o.method in METHODS:
        return run_central(o)
    refuse_set_options(o.method, o.options)
    problem = problem_for(o)
    stem = run_name(get(o.method).name, problem.name, o.options)
    with only_writer_of(o.out, stem):  # before an optimum is looked for: a second process does no work
        return _ran(o, make(o, problem=problem), stem)


def _ran(o: RunOptions, made: Made, stem: str) -> int:
    from fedtheory.rates.endings import how_it_ended
    from fedtheory.rates.fits import precision_floor

    kept = _kept(o, made, stem)
    trajectory = _simulated(o, made, kept)
    if trajectory.rounds < made.rounds:
        told = f"interrupted after round {trajectory.rounds} of {made.rounds}: what follows is up to there; the same command goes on"
        err_console().print(told, style="yellow")
    gaps = trajectory.metrics["suboptimality"]
    if not (finite := np.isfinite(gaps)).all():  # of a model that still is
        round_index, scenario = (int(i) for i in np.argwhere(~finite)[0])
        raise diverged(round_index, None, scenario, "F(x) - F*")
    descent = _descent(made, trajectory)
    ended = how_it_ended(gaps, precision_floor(made.optimum), descent=descent)
    try:
        result = _result(o, made, trajectory, ended)
        files = [save(o.out, stem, result)]
    except MemoryError:
        kept.keep_last()
        raise
    code = 0 if result["complete"] else 130
    if result["complete"]:
        kept.remove()
    if o.figures:
        from fedtheory.plotting.curves import draw_curves, title_of, worth_a_panel

        try:
            with writing(o.out), progress("drawing"):
                panels = worth_a_panel(result["metrics"], result["hyperparameters"])
                shown = replace(trajectory, metrics={name: result["metrics"][name] for name in panels})
                files += draw_curves(shown, o.out / stem, title_of(result, gaps), ended, result["local_work"])
        except KeyboardInterrupt:
            code = 130
            err_console().print("interrupted: the picture is left out", style="yellow")
    if o.json:
        emit({**result, "files": files})
    else:
        _show(o, made, trajectory, result, files)
    return code


def _descent(made: Made, trajectory: Trajectory) -> float | None:
    """`how_it_ended`'s descent, where all that keeps a run from the optimum are local steps on
    unlike clients; None otherwise."""
    from fedtheory.algorithms import FedAvg, FedProx
    from fedtheory.local import GradientSteps
    from fedtheory.participation import Full

    algorithm, solver, problem = made.algorithm, made.solver, made.problem
    if not isinstance(algorithm, FedAvg | FedProx) or "gradient_norm" not in trajectory.metrics:
        return None
    server = np.ones(problem.num_clients) if algorithm.aggregation == "cohort" else np.asarray(problem.sample_counts, dtype=float)
    weighs_as_f = np.allclose(server / server.sum(), problem.weights / np.sum(problem.weights))
    steps = isinstance(solver, GradientSteps) and solver.steps > 1 and solver.one_size
    if not (weighs_as_f and steps and isinstance(made.sampling, Full)):
        return None
    return float(solver.lr * (trajectory.metrics["gradient_norm"][-1] ** 2).mean())


def _kept(o: RunOptions, made: Made, stem: str) -> RunCheckpoint:
    """The run's checkpoint. Its content: what was asked for, and the optimum, which no other problem has to the last bit."""
    from fedtheory.store.checkpoints import RunCheckpoint

    asked = {k: repr(v) for k, v in asdict(o).items() if k not in ("figures", "json", "out")}
    found = {"x": made.optimum.x, "value": made.optimum.value, "start": made.x0, "rounds": made.rounds}
    return RunCheckpoint(o.out / f"{stem}.ckpt", {**asked, **found}, note)


def _simulated(o: RunOptions, made: Made, kept: RunCheckpoint) -> Trajectory:
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
            advance(begun, known=True)
        try:
            if past is not None and begun == made.rounds:  # what was cut short came after the rounds
                trajectory = Trajectory(problem, algorithm, begun, past[2], past[1], provenance=provenance(o.seed))
            else:
                trajectory = simulate(
                    problem, algorithm, made.rounds, x0, sampling=made.sampling,
                    scenarios=o.scenarios, seed=o.seed, resume=past, local_solver=made.solver,
                    record=record, like=made.like, on_round=after_round, in_place=True,
                    checkpoint=keep,
                )
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


def _result(o: RunOptions, made: Made, trajectory: Trajectory, ended: str) -> dict[str, Any]:
    from fedtheory.simulation.over_scenarios import WORDS, over_scenarios, too_many

    algorithm, summed = made.algorithm, {}
    metrics: dict[str, Any] = dict(trajectory.metrics)
    final: Any = trajectory.x
    if too_many(o.scenarios, *metrics.values(), final):
        with progress("summing up the scenarios", len(metrics)) as advance:
            for name, values in trajectory.metrics.items():
                metrics[name] = over_scenarios(values)
                advance()
            final = over_scenarios(final.T)
        summed = {"summed_up": f"metrics, of each round, and final_x, of each coordinate: {WORDS}, not every scenario's numbers"}
    return {
        "method": algorithm.name, "source": algorithm.source,
        "hyperparameters": {name: _plain(value) for name, value in settings_of(algorithm).items()},
        "optimum": asdict(made.optimum), **({} if made.radius is None else {"radius": made.radius}),
        **({} if made.tuned is None else {algorithm.name: dict(made.tuned.details)}),
        "problem": about_problem(made.problem), "sampling": repr(made.sampling),
        "local_solver": repr(made.solver), "local_work": work_in_words(algorithm, made.solver),
        "rounds": trajectory.rounds, "complete": trajectory.rounds == made.rounds,
        "scenarios": o.scenarios, "ended": ended, **summed, "metrics": metrics, "final_x": final,
        "provenance": trajectory.provenance,
    }


def _show(o: RunOptions, made: Made, trajectory: Trajectory, result: dict[str, Any], files: list[Path]) -> None:
    from fedtheory.simulation.simulate import METRICS

    console = out_console()
    _show_head(o, made, result)
    headings = ("round", *made.titles.values())
    table = plain_table(headings, right=range(len(headings)))
    rounds = trajectory.rounds
    for t in sorted({0, rounds, *(int(r) for r in np.geomspace(1, rounds, min(rounds, 10)).round())}):
        cells = [f"{trajectory.metrics[m][t].mean():.4g}" if t or m not in WIRE else "" for m in made.titles]
        table.add_row(str(t), *cells)
    console.print(table)
    if result["ended"]:
        console.print(result["ended"], style="bold yellow")
    over = f"means over {o.scenarios} scenarios; " if o.scenarios > 1 else ""
    console.print(f"{over}nonzeros: {METRICS['nonzeros']}; bits/entry: {METRICS['entropy']}; bits: {METRICS['bits']}", style="dim")
    if "summed_up" in result:
        console.print(f"the JSON holds {result['summed_up']}", style="dim")
    wrote(files)


def _show_head(o: RunOptions, made: Made, result: dict[str, Any]) -> None:
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
