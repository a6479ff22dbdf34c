"""`fedtheory run mopes` and `fedtheory run moles`: the centralised relatives of FedMLS on a problem, over a convex set."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from fedtheory.cli.common import (
    about_problem,
    emit,
    err_console,
    facts,
    out_console,
    problem_of,
    progress,
    save,
    wrote,
)
from fedtheory.cli.options import SET_OPTIONS, flag, hyperparameters
from fedtheory.cli.run_made import run_name
from fedtheory.devices import array_like
from fedtheory.errors import InvalidInput
from fedtheory.report.stacked import plain_table

if TYPE_CHECKING:
    from fedtheory.central.mopes import CentralRun
    from fedtheory.central.plan import Planned

__all__ = ["planned", "refuse_set_options", "run_central"]

TAKES = ("lam", "D", "rounds", "radius", "lipschitz", "sigma", "noise_std", "local_training", "skip_last", "allow_long", "epsilon")
MINE = tuple(p.name for p in SET_OPTIONS)


def refuse_set_options(method: str, options: dict[str, Any]) -> None:
    """Options of a convex set mean nothing to the other methods."""
    for name in MINE:
        if options.get(name) is not None:
            raise InvalidInput(f"{flag(name)} {options[name]}: it is for mopes and moles, not for {method}; leave it out")


def planned(name: str, problem: Any, options: dict[str, Any], batch_size: int | None = None, rounds: int | None = None) -> Planned:
    """The run that the options ask for, made ready; its minimum over the set is certified."""
    from fedtheory.central import named_set, plan
    from fedtheory.central.named_sets import shape_of
    from fedtheory.cli.ball import start_of

    for other in [*hyperparameters(), "l2_over_beta"]:
        if options.get(other) is not None and other not in TAKES:
            flags = ", ".join(map(flag, (*TAKES, "noise", *MINE)))
            raise InvalidInput(f"{name} has no hyperparameter {flag(other)}: it takes {flags}")
    shape = shape_of(options.get("set_shape"))
    if options.get("set") == "nuclear-ball" and shape is None:
        raise InvalidInput("--set nuclear-ball: give the matrices' rows and columns with --set-shape, as in --set-shape 2x3")
    size = 1.0 if options.get("set_size") is None else options["set_size"]
    constraint = named_set(options.get("set") or "ball", problem.dim, size, shape, problem.num_clients)
    x0 = None
    if options.get("start") is not None:
        x0 = np.tile(start_of(options["start"], problem.dim), constraint.dim // problem.dim)
    kept = {k: options.get(k) for k in (*TAKES, "noise")} | {"C": options.get("allowance"), "batch_size": batch_size}
    return plan(problem, constraint, name, x0, **{**kept, "rounds": rounds if rounds is not None else kept["rounds"]})


def run_central(o: Any) -> int:
    """Run the method as the `fedtheory.cli.run.RunOptions` say; the exit code.

    Interrupted, the rounds that were finished are what is shown and written.
    """
    from fedtheory.cli.local_solvers import SOLVER_OPTIONS, memory_arguments
    from fedtheory.cli.participation import refuse_participation

    like = None if o.device is None and o.dtype in (None, "float64") else array_like(o.device, o.dtype or "float64")
    for name in (n for n in SOLVER_OPTIONS if n != "batch_size" and o.solver[n] is not None):
        raise InvalidInput(f"{flag(name)} {o.solver[name]}: {o.method} has local steps of its own; leave it out")
    memory_arguments("none", o.solver, o.method, own=True)
    if o.participants is not None:
        raise InvalidInput(f"--participants {o.participants}: {o.method} has everybody in every round; leave it out")
    if o.scenarios != 1:
        raise InvalidInput(f"--scenarios {o.scenarios}: {o.method} makes one run; take another --seed for another one")
    refuse_participation(o.options, o.method, "leave it out", ("lr_schedule", "lr_delay"))
    problem = problem_of(o.problem, o.options, o.seed)
    with progress("certifying the minimum over the set"):
        made = planned(o.method, problem, o.options, o.solver["batch_size"], o.rounds)
    values: list[float] = [made.method._value(made.problem, made.x0)]
    run = None
    with progress("rounds", int(made.method.rounds)) as advance:

        def after_round(k: int, value: float) -> None:
            values.append(value)
            advance()

        try:
            run = made.method.run(made.problem, made.constraint, made.x0, seed=o.seed, like=like, on_round=after_round)
        except KeyboardInterrupt:
            if len(values) == 1:
                raise
            told = f"interrupted after round {len(values) - 1} of {made.method.rounds}: what follows is up to there"
            err_console().print(told, style="yellow")
    return _tell(o, problem, made, run, np.array(values))


def _tell(o: Any, problem: Any, made: Planned, run: CentralRun | None, values: np.ndarray) -> int:
    from fedtheory.provenance import provenance

    excess = values - made.optimum.value
    stem = run_name(o.method, problem.name, o.options)
    result = {
        "method": o.method, "source": "Thekumparampil et al. 2020, arXiv 2010.01848",
        o.method: made.to_json(), "optimum": asdict(made.optimum),
        "problem": about_problem(problem), "rounds": len(values) - 1, "complete": run is not None,
        "metrics": {"objective": values, "suboptimality": excess, **_calls(run)},
        "final_x": None if run is None else run.x, "provenance": provenance(o.seed),
    }
    files = [save(o.out, stem, result)]
    if o.figures:
        with progress("drawing"):
            files += _draw(excess, made, o.out / stem, f"{o.method} on {problem.name}")
    if o.json:
        emit({**result, "files": files})
    else:
        console = out_console()
        sizes = f"N = {problem.num_clients}, d = {problem.dim}"
        console.print(f"[bold]{o.method}[/bold] ({result['source']}) on [bold]{problem.name}[/bold]: {sizes}")
        console.print(facts(made.rows()))
        console.print(_table(excess, run))
        reached = excess[-1]
        if run is not None:
            whose = "in expectation at most" if made.method.noise_std or made.method.batch_size else "at most"
            console.print(f"F(x_K) - F* = {reached:.6g}, {whose} {made.bound:.6g} by the bound; asked for was {made.epsilon:.6g}")
        wrote(files)
    return 0 if run is not None else 130


def _calls(run: CentralRun | None) -> dict[str, np.ndarray]:
    """Calls so far, (K + 1,) each."""
    if run is None:
        return {}
    return {"projections": run.projections, "linear_minimisations": run.lmo_calls, "subgradients": run.subgradient_calls}


def _table(excess: np.ndarray, run: CentralRun | None) -> Table:
    calls = _calls(run)
    table = plain_table(("round", "F(x) - F*", *(name.replace("_", " ") for name in calls)), right=range(2 + len(calls)))
    K = len(excess) - 1
    for t in sorted({0, K, *(int(r) for r in np.geomspace(1, max(K, 1), min(max(K, 1), 10)).round())}):
        table.add_row(str(t), f"{excess[t]:.4g}", *(f"{int(c[t]):,}" for c in calls.values()))
    return table


def _draw(excess: np.ndarray, made: Planned, stem: Path, title: str) -> list[Path]:
    """F(x_k) - F* over the rounds, and the bound of the last."""
    from fedtheory.plotting.style import COLOURS, headline, new_figure
    from fedtheory.plotting.style import save as save_figure

    figure, axes = new_figure(6.4, 4.2)
    axis, k = axes[0, 0], np.arange(len(excess))
    axis.plot(k, excess, color=COLOURS["first"])
    axis.plot([int(made.method.rounds)], [made.bound], "v", color=COLOURS["repaired"])
    axis.annotate("bound", (int(made.method.rounds), made.bound), xytext=(-6, 6), textcoords="offset points", ha="right")
    if (excess > 0).any():
        axis.set_yscale("log", nonpositive="mask")
    axis.set(xlabel="round", ylabel="F(x) − F*")
    headline(figure, title, f"over {made.constraint!r}")
    return save_figure(figure, stem)
