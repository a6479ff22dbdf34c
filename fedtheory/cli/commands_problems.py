"""The commands about names, problems and runs: `list`, `explain`, `solve`, `run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from fedtheory.cli.app import LOOK, PROBLEM, Participants, app, examples
from fedtheory.cli.common import Folder, Json, Out, Seed
from fedtheory.cli.help import Topics
from fedtheory.cli.local_solvers import MEMORY_OPTIONS
from fedtheory.cli.options import (
    FEDMLS_OPTIONS,
    PROBLEM_OPTIONS,
    RADIUS,
    SET_OPTIONS,
    hyperparameter_options,
    with_options,
)
from fedtheory.cli.participation import LOCAL_OPTIONS, PARTICIPATION_OPTIONS
from fedtheory.cli.topics import method_topic

__all__: list[str] = []

_LOCAL = "Local steps"


@app.command(
    "list", first=("json", "out"), rich_help_panel=LOOK,
    epilog=examples(
        "fedtheory list", "fedtheory list problems", "fedtheory list statements --json",
        "fedtheory list fedmls/", "fedtheory list mine.py",
    ),
)
def list_command(
    what: Annotated[str, Argument(
        metavar="WHAT|PAPER/|FILE.py",
        help="statements (the default), papers, methods, compressors, problems, metrics or witnesses; or "
        "PAPER/ or FILE.py, whose statements they are; the file is run.",
    )] = "statements",
    json: Json = False,
    out: Out = None,
) -> None:
    """List statements with their verdicts, methods, problems and more.

    With --json every statement says whether it runs on a problem of yours, and if not why.

    FILE.py is run as Python, with all the rights that you have: name none that you have not
    read."""
    from fedtheory.cli import list as listing

    listing.list_things(what, json, out)


@app.command(
    "explain", first=("json", "out"), rich_help_panel=LOOK,
    epilog=examples(
        "fedtheory explain theorem-3.1", "fedtheory explain fedmls/theorem-1",
        "fedtheory explain eq-28 --json", "fedtheory explain mine.py::lemma-4",
    ),
)
def explain_command(
    statement: Annotated[str, Argument(
        help="A statement's id; the paper's name before the / may be left out. Or FILE.py::NAME, "
        "a file that is run.",
    )],
    json: Json = False,
    out: Out = None,
) -> None:
    """Explain a statement: what it says and assumes, and what holds.

    What it says as printed and as repaired, what it assumes, where its symbols live in the code,
    which wrong variants it rejects, and what is on record.

    FILE.py is run as Python, with all the rights that you have: name none that you have not
    read."""
    from fedtheory.cli import explain as explaining

    explaining.explain(statement, json, out)


@app.command(
    "solve",
    first=("data", "loss", "clients", "partition", "ridge", "radius", "gap", "seed", "json", "out"),
    rich_help_panel=PROBLEM,
    epilog=examples(
        "fedtheory solve diabetes",
        "fedtheory solve digits --partition dirichlet --clients 10 --ridge 0.1",
        "fedtheory solve lad --radius 3",
        "fedtheory solve --data a9a.bz2 --dimension 123 --loss logistic --clients 20 --ridge 0.01",
    )
)
@with_options(PROBLEM_OPTIONS, RADIUS)
def solve_command(
    problem: Annotated[str | None, Argument(
        help="A named problem (`fedtheory list problems`), or a file NAME.json.",
    )] = None,
    gap: Annotated[float | None, Option(
        help="Largest relative gap that counts as solved (default 1e-12; on a ball 1e-9).",
    )] = None,
    seed: Seed = 0,
    json: Json = False,
    out: Out = None,
    **options: Any,
) -> None:
    """Find the certified optimum of a problem, and its constants.

    A point, a proven lower bound on the optimal value, and the exact constants.

    A nonsmooth problem is solved on a ball (--radius), with its clients' Lipschitz constants there.

    A problem that is not convex, or that has no minimiser, ends with exit code 2."""
    from fedtheory.cli import solve as solving

    solving.solve(problem, options, gap, seed, json, out)


@app.command(
    "run",
    first=(
        "rounds", "participants", "scenarios", "local_solver", "local_steps", "local_lr", "data",
        "ridge", "seed", "out",
    ),
    topics=Topics("method", method_topic), rich_help_panel=PROBLEM,
    epilog=examples(
        "fedtheory run fedavg diabetes --local-solver gradient --rounds 50",
        "fedtheory run feddyn digits --alpha 0.5 --participants 2 --scenarios 50",
        "fedtheory run mopes lad --set simplex --epsilon 0.1",
        "fedtheory run fedelasticnet-dyn diabetes --l1 0.1 --l2-over-beta 30 --rounds 300",
        "fedtheory run scaffold quadratic --local-solver gradient --local-steps 5 --local-lr 0.1",
        "fedtheory run fedmls two-client-pull --epsilon 0.1 --radius 4",
        "fedtheory run fedmls lad --local-training exact-prox",
        "fedtheory run moles lad --set l1-ball --set-size 0.5",
        "fedtheory run fedavg lad --local-lr 0.01",
        "fedtheory run efl quadratic --inactive 0.3 --lr-schedule theorem --rounds 300",
        "fedtheory run efl diabetes --lam 0.01 --compressor st:q=0.1 --down-compressor st:q=0.1",
        "fedtheory run scaffold diabetes --compressor top-k:q=0.3 --control-compressor "
        "qsgd:levels=4",
        "fedtheory run fedavg breast-cancer --local-solver adam --local-lr 0.01 --epochs 2",
        "fedtheory run feddyn diabetes --alpha 1 --compressor scaled-sign",
    ),
)
@with_options(
    PROBLEM_OPTIONS, PARTICIPATION_OPTIONS, LOCAL_OPTIONS, MEMORY_OPTIONS, FEDMLS_OPTIONS,
    SET_OPTIONS, hyperparameter_options(),
)
def run_command(
    method: Annotated[str, Argument(help="A method (`fedtheory list methods`).")],
    problem: Annotated[str | None, Argument(
        help="A named problem (`fedtheory list problems`), or a file NAME.json.",
    )] = None,
    rounds: Annotated[int | None, Option(
        "--rounds", "-T",
        help="Rounds of communication (default 100; of fedmls what Theorem 2 needs).",
    )] = None,
    participants: Participants = None,
    scenarios: Annotated[int, Option(
        "--scenarios", "-S", help="Independent repetitions, run as one batch.",
    )] = 1,
    local_solver: Annotated[Literal["exact", "gradient", "sgd", "local-sgd", "momentum", "adam"] | None, Option(
        help="Solver of the local problems. Default: as the method trains, gradient steps or "
        "exact.",
    )] = None,
    local_steps: Annotated[int | None, Option(help="Local steps in a round (default 5, of scaffnew 1).")] = None,
    local_lr: Annotated[float | None, Option(
        help="Local step size (default: 1/(beta + the penalty's curvature); adam has none).",
    )] = None,
    local_l1: Annotated[Literal["subgradient", "prox"] | None, Option(
        rich_help_panel=_LOCAL, help="Steps on the l1 penalty (default subgradient).",
    )] = None,
    batch_size: Annotated[int | None, Option(
        rich_help_panel=_LOCAL,
        help="Mini-batch of sgd, momentum and adam (default 10), of local-sgd and fedmls (default "
        "all).",
    )] = None,
    epochs: Annotated[int | None, Option(
        rich_help_panel=_LOCAL, help="Epochs of sgd, momentum and adam, instead of --local-steps.",
    )] = None,
    lr_decay: Annotated[float | None, Option(
        rich_help_panel=_LOCAL, help="Factor on the step size after every round.",
    )] = None,
    figures: Annotated[bool, Option(
        "--figures/--no-figures", help="Draw the curves as PNG and PDF.",
    )] = True,
    device: Annotated[str | None, Option(
        rich_help_panel="Arrays",
        help="Run under torch on cpu, cuda or cuda:0 (default: under NumPy).",
    )] = None,
    dtype: Annotated[Literal["float64", "float32"], Option(
        rich_help_panel="Arrays", help="Precision of the run; F is judged in float64 anyhow.",
    )] = "float64",
    seed: Seed = 0,
    json: Json = False,
    out: Folder = Path("results"),
    **options: Any,
) -> None:
    """Run a method on a problem, and measure every round.

    What was measured is printed, drawn and written. Interrupted, the command does so for the rounds
    that were finished, and exits with 130; the same command goes on.

    The default local solver is what the method itself trains with (local-sgd of efl); else exact,
    and gradient where the problem is nonsmooth or the method needs gradient steps. momentum and
    adam step as torch.optim's SGD(momentum=...) and Adam, with an empty memory in every round;
    methods that divide by the step size refuse them.

    --set is of mopes and moles, with S of --set-size: ball is ||x|| <= S, box |x_i| <= S, simplex x
    >= 0 with sum S, l1-ball ||x||_1 <= S, nuclear-ball singular values that add up to at most S,
    and consensus one vector of norm at most S at every client, which is FedMLS."""
    given = {**locals(), **options}
    del given["options"]
    from fedtheory.cli import run as running
    from fedtheory.cli.run_made import options_from

    raise typer.Exit(running.run(options_from(given)))
