"""`fedtheory solve` and `run`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from fedtheory.arrays import to_numpy
from fedtheory.cli.common import emit, err_console, out_console, progress, save
from fedtheory.cli.options import make_algorithm
from fedtheory.cli.parts import about_problem, facts, problem_of, refuse_for_fedmls, sampling_of, slug, solver_rows
from fedtheory.devices import array_like
from fedtheory.errors import InvalidInput, MissingCapability

__all__ = ["run", "solve"]

RUN_METRICS = {  # and their column titles
    "suboptimality": "F(x) - F*",
    "gradient_norm": "||grad F||",
    "distance": "||x - x*||",
    "nonzeros": "nonzeros",
    "entropy": "bits/entry",
    "bits": "bits",
}


OWN_STEPS = {"fedmls": "sliding", "subgradient": "none"}  # methods with local steps of their own


def _optimum_rows(optimum: Any, gradient: str) -> list[tuple[str, Any]]:
    x = optimum.x
    shown = np.array2string(x if x.size <= 8 else x[:8], precision=6, separator=", ", max_line_width=10_000)
    return [
        ("optimal value", f"{optimum.value:.15g} (rounded up)"),
        ("proven lower bound", f"{optimum.lower_bound:.15g}"),
        ("relative gap", f"{optimum.gap:.3g}"),
        (gradient, f"{optimum.kkt_residual:.3g} at most"),
        ("certificate", optimum.certificate),
        ("found by", optimum.solver),
        *solver_rows(optimum),
        ("x*", shown if x.size <= 8 else f"{shown[:-1]}, ...] ({x.size} numbers; all with --json)"),
    ]


def _partition_rows(problem: Any) -> list[tuple[str, Any]]:
    part = getattr(problem, "partition", None)
    return [("partition", f"{part['name']}, sha256 {part['sha256'][:12]}...")] if part else []


def _solve_on_ball(problem: Any, radius: float | None, gap: float, seed: int, as_json: bool, out: Path | None) -> None:
    from fedtheory.cli.ball import facts_on_ball
    from fedtheory.optimum.on_ball import choose_radius
    from fedtheory.provenance import provenance

    with progress("certifying the optimum"):
        radius, radius_from = choose_radius(problem, radius)
        optimum = problem.optimum_on_ball(radius, gap)
    result = {
        "problem": about_problem(problem),
        "radius": radius,
        "radius_from": radius_from,
        "optimum": asdict(optimum),
        "constants": {
            "lipschitz": problem.lipschitz(radius),
            "lipschitz_exact": problem.lipschitz_exact(radius),
            "lipschitz_rms": problem.lipschitz_rms(radius),
            "mu_k": problem.strong_convexity(),
        },
        "provenance": provenance(seed),
    }
    path = save(out, slug("solve", problem.name), result)
    if as_json:
        emit(result)
        return
    console = out_console()
    console.print(f"[bold]{problem.name}[/bold]: {type(problem).__name__}, N = {problem.num_clients} clients, d = {problem.dim}")
    rows = _optimum_rows(optimum, "KKT residual") + facts_on_ball(problem, optimum, radius, radius_from)
    console.print(facts(rows + _partition_rows(problem)))
    if path:
        console.print(f"wrote {path}")


def solve(
    name: str | None, options: dict[str, Any], gap: float | None, seed: int, as_json: bool, out: Path | None
) -> None:
    """Print, and write on request, the certified optimum; on a ball where there is a radius or no smoothness."""
    from fedtheory.optimum.on_ball import is_smooth
    from fedtheory.provenance import provenance

    problem = problem_of(name, options, seed)
    if options.get("radius") is not None or not is_smooth(problem):
        _solve_on_ball(problem, options.get("radius"), 1e-9 if gap is None else gap, seed, as_json, out)
        return
    gap = 1e-12 if gap is None else gap
    with progress("certifying the optimum"):
        optimum = problem.optimum(gap)
    c = problem.constants()
    constants = {
        "beta": c.beta,
        "beta_joint": c.beta_joint,
        "mu": c.mu,
        "beta_k": c.beta_k,
        "mu_k": c.mu_k,
        "beta_k_exact": problem.smoothness_exact(),
        "dissimilarity_sq": c.dissimilarity_sq,
    }
    result = {
        "problem": about_problem(problem),
        "optimum": asdict(optimum),
        "constants": constants,
        "provenance": provenance(seed),
    }
    path = save(out, slug("solve", problem.name), result)
    if as_json:
        emit(result)
        return
    exact = "" if problem.smoothness_exact().all() else " (an upper bound)"
    console = out_console()
    console.print(f"[bold]{problem.name}[/bold]: {type(problem).__name__}, m = {problem.num_clients} clients, d = {problem.dim}")
    spread = f"{c.beta_k.min():.6g} to {c.beta_k.max():.6g}"
    rows = [
        *_optimum_rows(optimum, "||gradient|| at x*"),
        ("beta = max beta_k", f"{c.beta:.10g}{exact}; clients {spread}"),
        ("beta, mu of F", f"{c.beta_joint:.10g}, {c.mu:.10g}"),
        ("dissimilarity at x*", f"{c.dissimilarity_sq:.10g} (weighted mean of ||grad f_k(x*)||^2)"),
    ]
    console.print(facts(rows + _partition_rows(problem)))
    if path:
        console.print(f"wrote {path}")


def _plain(value: Any) -> Any:
    """A hyperparameter as JSON has it; a compressor as it is written in Python."""
    return repr(value) if is_dataclass(value) else value


def _takes_exact(algorithm: Any) -> bool:
    """Whether the method can do without gradient steps."""
    from fedtheory import local

    try:
        algorithm.check(local.Exact())
    except MissingCapability:
        return False
    return True


def _penalty(algorithm: Any) -> float:
    """What the method's quadratic penalty adds to the curvature of local work; EFL's elastic term is counted by `step_size`."""
    names = ("local_curvature", "l2", "mu", "alpha")
    return next((float(getattr(algorithm, name)) for name in names if hasattr(algorithm, name)), 0.0)


def _local_kind(o: dict[str, Any], problem: Any, algorithm: Any) -> str:
    """Which local solver: as asked for, else what the method trains with."""
    from fedtheory.optimum.on_ball import is_smooth

    own = OWN_STEPS.get(algorithm.name)
    if own and o["name"] is not None:
        raise InvalidInput(f"--local-solver {o['name']}: {algorithm.name} has local steps of its own; leave the option out")
    if own or o["name"]:
        return own or o["name"]
    if algorithm.name == "efl":
        return "local-sgd"
    return "exact" if is_smooth(problem) and _takes_exact(algorithm) else "gradient"


def _whose(o: dict[str, Any], algorithm: Any, kind: str) -> str:
    """Whose local work it is; a solver that was not asked for is told as the default."""
    default = ", by which the local problems are solved by default" if o["name"] is None else ""
    return algorithm.name if algorithm.name in OWN_STEPS else f"--local-solver {kind}{default}"


def _solver(o: dict[str, Any], problem: Any, algorithm: Any, kind: str) -> Any:
    """The local solver that the options name; without --local-lr its step size is 1/(beta + curvature of the penalty)."""
    from fedtheory import local
    from fedtheory.cli.participation import step_size
    from fedtheory.optimum.on_ball import is_smooth

    flags = {
        "steps": "--local-steps", "lr": "--local-lr", "batch": "--batch-size", "epochs": "--epochs",
        "decay": "--lr-decay", "l1": "--local-l1",
    }  # fmt: skip
    own, smooth = OWN_STEPS.get(algorithm.name), is_smooth(problem)
    some = ("steps", "lr", "decay", "l1")
    takes = {"exact": (), "none": (), "sliding": ("batch",), "gradient": some, "sgd": tuple(flags)}[kind]
    for key, flag in flags.items():
        if o[key] is not None and key not in takes:
            others = ("gradient or " if key in some else "") + "sgd" + (" in its place" if o["name"] else "")
            remedy = "leave it out" if own else f"add --local-solver {others}"
            raise InvalidInput(f"{flag} does not apply to {_whose(o, algorithm, kind)}: {remedy}")
    if kind in ("exact", "none"):
        return local.Exact()
    if kind == "sliding":
        return local.SubgradientSliding(batch_size=o["batch"])
    if o["lr"] is None and not smooth:
        raise InvalidInput(f"{problem.name} has no smoothness constant to take a step size from: give one with --local-lr")
    lr = o["lr"] if o["lr"] is not None else step_size(algorithm, problem, _penalty(algorithm))
    common = {"decay": 1.0 if o["decay"] is None else o["decay"], "l1": o["l1"] or "subgradient"}
    if kind == "gradient":
        return local.GradientSteps(5 if o["steps"] is None else o["steps"], lr, **common)
    steps = 5 if o["steps"] is None and o["epochs"] is None else o["steps"]
    return local.SGD(10 if o["batch"] is None else o["batch"], lr, epochs=o["epochs"], steps=steps, **common)


def _who_and_how(
    o: dict[str, Any],
    options: dict[str, Any],
    problem: Any,
    algorithm: Any,
    participants: int | None,
    rounds: int,
    refuse_long: Callable[[Any], None],
) -> tuple[Any, Any]:
    """The law of cohorts, and the local solver; ``refuse_long`` is asked about it before anything of its length is made."""
    from fedtheory.cli.participation import STEPS, local_sgd, participation_of, refuse_participation, step_size
    from fedtheory.local import LocalSGD
    from fedtheory.optimum.on_ball import is_smooth

    kind = _local_kind(o, problem, algorithm)
    if kind != "local-sgd":
        own = algorithm.name in OWN_STEPS
        remedy = "leave it out" if own else "clients that do part of the work need --local-solver local-sgd"
        refuse_participation(options, _whose(o, algorithm, kind), remedy, ("lr_schedule", "lr_delay"))
        sampling, solver = sampling_of(participants, problem), _solver(o, problem, algorithm, kind)
        refuse_long(solver)
        return sampling, solver
    for key, name in (("epochs", "--epochs"), ("decay", "--lr-decay"), ("l1", "--local-l1")):
        if o[key] is not None:
            raise InvalidInput(f"{name} does not apply to {_whose(o, algorithm, kind)}: leave it out")
    if not is_smooth(problem) and o["lr"] is None:
        raise InvalidInput(f"{problem.name} has no smoothness constant to take a step size from: give one with --local-lr")
    steps = STEPS if o["steps"] is None else o["steps"]
    if steps > 10_000:  # laws of as many steps are made below
        refuse_long(LocalSGD(steps, 1e-6, o["batch"], noise_std=options.get("noise") or 0.0))
    sampling = participation_of(problem, options, participants, steps, rounds)
    work = {**options, "local_lr": o["lr"], "batch_size": o["batch"]}

    def default() -> float:
        return step_size(algorithm, problem, _penalty(algorithm), sampling, rounds)

    solver = local_sgd(problem, algorithm, work, sampling, rounds, default)
    refuse_long(solver)
    return sampling, solver


def run(
    method: str,
    name: str | None,
    options: dict[str, Any],
    rounds: int | None,
    participants: int | None,
    scenarios: int,
    solver_options: dict[str, Any],
    figures: bool,
    seed: int,
    as_json: bool,
    out: Path,
    device: str | None = None,
    dtype: str | None = None,
) -> int:
    """Run a method on a problem; the exit code. Interrupted, the rounds that were finished are what is shown and written."""
    from fedtheory import algorithms
    from fedtheory.cli.ball import start_of, with_theory_step
    from fedtheory.cli.participation import participation_in_words
    from fedtheory.cli.time_limit import RoundClock, refuse_long_rounds
    from fedtheory.optimum.on_ball import choose_radius, is_smooth
    from fedtheory.provenance import provenance
    from fedtheory.rates.endings import how_it_ended
    from fedtheory.rates.fits import precision_floor
    from fedtheory.simulation.simulate import METRICS, Resume, Trajectory, simulate

    cls = algorithms.get(method)  # an unknown method is told before a problem is built
    like = array_like(device, dtype or "float64")  # and so is a device that is not there
    problem = problem_of(name, options, seed)
    x0, made, radius = start_of(options.get("start"), problem.dim), None, None
    if cls.name == "fedmls":
        refuse_for_fedmls(options, participants, problem)
        from fedtheory.theorems.fedmls.parameters import make_fedmls

        with progress("certifying the optimum"):
            made = make_fedmls(problem, options, x0, rounds or "fewest", solver_options["batch"])
        algorithm, rounds, radius = made.algorithm, int(made.algorithm.rounds), made.radius
    else:
        if options.get("noise") is not None and cls.name != "efl" and solver_options["name"] != "local-sgd":
            raise InvalidInput(f"--noise is for fedmls, and for others with --local-solver local-sgd, not for {method}")
        chosen = {**options, "allow_long": None}
        rounds = 100 if rounds is None else rounds
        if not is_smooth(problem):
            with progress("certifying the optimum"):
                radius, radius_from = choose_radius(problem, chosen.get("radius"), x0)
            # a method without a ball of its own is only compared with the optimum there
            chosen["radius"] = radius if "radius" in {f.name for f in fields(cls)} else None
            if cls.name == "subgradient" and chosen.get("step") is None:
                chosen = with_theory_step(problem, chosen, x0, rounds)
        algorithm = make_algorithm(method, problem, chosen)
    allow_long = made is not None or bool(options.get("allow_long"))  # FedMLS has seen to it by itself

    def refuse_long(solver: Any) -> None:
        refuse_long_rounds(solver, problem, rounds, participants, scenarios, allow_long, like)

    sampling, solver = _who_and_how(solver_options, options, problem, algorithm, participants, rounds, refuse_long)
    with progress("certifying the optimum"):
        optimum = problem.optimum() if radius is None else problem.optimum_on_ball(radius)
    titles = RUN_METRICS if radius is None else {k: v for k, v in RUN_METRICS.items() if k != "gradient_norm"}
    points = [np.broadcast_to(x0, (scenarios, problem.dim))] if radius is not None else []
    finished: list[Trajectory] = []  # the run up to its last round, for an interrupt

    def after_round(t: int, old: Any, new: Any, clients: Any) -> None:
        if radius is not None:
            points.append(np.array(to_numpy(new.x), dtype=float))
        clock(t)
        advance()

    def keep(done: Resume) -> None:
        final = done.state._replace(x=np.array(to_numpy(done.state.x)))  # the run overwrites its own
        finished[:] = [Trajectory(problem, algorithm, done.round_index, done.metrics or {}, final)]

    clock = RoundClock(rounds, allow_long)
    with progress("rounds", rounds) as advance:
        try:
            trajectory = simulate(
                problem,
                algorithm,
                rounds,
                x0,
                sampling=sampling,
                scenarios=scenarios,
                seed=seed,
                local_solver=solver,
                record=tuple(titles) if radius is None else ("objective", "nonzeros", "entropy", "bits"),
                like=like,
                on_round=after_round,
                in_place=True,
                checkpoint=keep,
            )
        except KeyboardInterrupt:
            if not finished:
                raise
            trajectory = finished[0]
            trajectory.provenance = provenance(seed)
    asked, rounds = rounds, trajectory.rounds
    if rounds < asked:
        err_console().print(f"interrupted after round {rounds} of {asked}: what follows is up to there", style="yellow")
    if radius is not None:  # measured against the optimum on the ball
        m, moved = trajectory.metrics, np.stack(points[: rounds + 1]) - optimum.x
        suboptimality, distance = m["objective"] - optimum.value, np.linalg.norm(moved, axis=-1)
        wire = {name: m[name] for name in ("nonzeros", "entropy", "bits")}
        trajectory.metrics = {"suboptimality": suboptimality, "distance": distance, **wire}
    ended = how_it_ended(trajectory.metrics["suboptimality"], precision_floor(optimum))
    result = {
        "method": algorithm.name,
        "source": algorithm.source,
        "hyperparameters": {f.name: _plain(getattr(algorithm, f.name)) for f in fields(algorithm)},
        "optimum": asdict(optimum),
        **({} if radius is None else {"radius": radius}),
        **({} if made is None else {"fedmls": made.to_json(made.algorithm.skip_last)}),
        "problem": about_problem(problem),
        "sampling": repr(sampling),
        "local_solver": repr(solver),
        "rounds": rounds,
        "complete": rounds == asked,
        "scenarios": scenarios,
        "ended": ended,
        "metrics": trajectory.metrics,
        "final_x": trajectory.x,
        "provenance": trajectory.provenance,
    }
    stem, code = slug("run", algorithm.name, problem.name), 0 if rounds == asked else 130
    files = [save(out, stem, result)]
    if figures:
        from fedtheory.plotting.curves import draw_curves

        try:
            with progress("drawing"):
                files += draw_curves(trajectory, out / stem, f"{algorithm.name} on {problem.name}", ended)
        except KeyboardInterrupt:
            code = 130
            err_console().print("interrupted: the picture is left out", style="yellow")
    if as_json:
        emit({**result, "files": files})
        return code
    console = out_console()
    settings = ", ".join(f"{k} = {v:.6g}" if isinstance(v, float) else f"{k} = {v}" for k, v in result["hyperparameters"].items())
    head = f"[bold]{algorithm.name}[/bold] ({algorithm.source}) on [bold]{problem.name}[/bold]: "
    if made is not None:
        console.print(head + f"N = {problem.num_clients}, d = {problem.dim}")
        console.print(facts(made.rows(made.algorithm.skip_last)))
    else:
        who = participation_in_words(problem, options, participants)
        sizes = f"m = {problem.num_clients}, {who}, d = {problem.dim}"
        trains = "" if algorithm.name == "subgradient" else f"; local solver {solver}"
        console.print(head + f"{sizes}{settings and ', '}{settings}{trains}")
        if options.get("arrival") or options.get("departure"):
            console.print("F and F* are those of all clients, whoever is there")
        if radius is not None:
            console.print(f"F* is the optimum on the ball of radius {radius:g} ({radius_from})")
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    table.add_column("round", justify="right")
    for title in titles.values():
        table.add_column(title, justify="right")
    for t in sorted({0, rounds, *(int(r) for r in np.geomspace(1, rounds, min(rounds, 10)).round())}):
        cells = [f"{trajectory.metrics[m][t].mean():.4g}" if t or m not in ("nonzeros", "entropy", "bits") else "" for m in titles]
        table.add_row(str(t), *cells)
    console.print(table)
    if ended:
        console.print(ended, style="bold yellow")
    over = f"means over {scenarios} scenarios; " if scenarios > 1 else ""
    console.print(f"{over}nonzeros: {METRICS['nonzeros']}; bits/entry: {METRICS['entropy']}; bits: {METRICS['bits']}", style="dim")
    console.print("wrote " + ", ".join(str(f) for f in files))
    return code
