"""Whole studies, `rates`, `reviews`, `experiment`, `bench`; and `draw`, which draws what any
command has saved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from fedtheory.cli.app import (
    NETWORK,
    NO_TITLE_HELP,
    PROBLEM,
    RESULTS,
    SIZE_HELP,
    STUDIES,
    Address,
    Engine,
    FigureSize,
    Workers,
    app,
    examples,
)
from fedtheory.cli.bench import FIGURES as BENCH_FIGURES
from fedtheory.cli.bench import TABLES as BENCH_TABLES
from fedtheory.cli.bench_options import Options
from fedtheory.cli.common import Folder, Json, Out, Seed
from fedtheory.cli.local_solvers import MEMORY_OPTIONS
from fedtheory.cli.options import of_fields, with_options

__all__: list[str] = []


@app.command(
    "rates", first=("epsilons", "quick", "workers", "engine", "seed", "json", "out"),
    rich_help_panel=STUDIES,
    epilog=examples(
        "fedtheory rates", "fedtheory rates --quick --out results",
        "fedtheory rates --epsilons 0.1,0.05,0.02,0.01 --no-figures",
    ),
)
def rates_command(
    epsilons: Annotated[str | None, Option(
        help="Four or more accuracies in [1e-4, 0.25], with commas (default: 9 to 0.001).",
    )] = None,
    quick: Annotated[bool, Option(
        "--quick", help="Five accuracies from 0.1 to 0.01, short runs.",
    )] = False,
    figures: Annotated[bool, Option(
        "--figures/--no-figures", help="Draw rates.png and rates.pdf.",
    )] = True,
    workers: Workers = None,
    engine: Engine = "local",
    address: Address = None,
    seed: Seed = 0,
    json: Json = False,
    out: Folder = Path("results"),
) -> None:
    """Count the rounds that FedMLS and others need for an accuracy.

    Slopes are fitted, and it is found where they cross.

    Five instances: two clients that pull apart, as a family with one problem for each epsilon and
    as one fixed problem; the Arjevani-Shamir chain, a lower bound for every method; a maximum split
    over two clients beside such a chain, on which one client alone gets nowhere and one subgradient
    a round needs 1/epsilon^2 rounds; and one fixed data set.

    FedMLS with Theorem 2's lambda, with lambda tuned and with exact local solves; FedDyn (consensus
    ADMM) and FedProx with exact local solves; FedAvg with 10 and 100 local steps, and the
    distributed subgradient method. All are tuned by one rule, which the tables state. Writes
    rates.json, rates.png and rates.pdf.

    Interrupted, it writes what is finished and exits with 130; the same command goes on from there,
    also after a kill."""
    from fedtheory.cli.campaign import default_workers
    from fedtheory.cli.rates import rates as measure

    where = (workers or default_workers(), (engine, address))
    raise typer.Exit(measure(epsilons, quick, figures, seed, json, out, *where))


@app.command(
    "reviews", first=("run", "json", "out"), rich_help_panel=STUDIES,
    epilog=examples(
        "fedtheory reviews", "fedtheory reviews fedelasticnet",
        "fedtheory reviews fedelasticnet R2.2", "fedtheory reviews fedelasticnet R2.2 --run",
        "fedtheory reviews fedelasticnet --json",
    ),
)
def reviews_command(
    paper: Annotated[str | None, Argument(
        help="A paper (`fedtheory list papers`); without one, the papers that have reviews.",
    )] = None,
    point: Annotated[str | None, Argument(
        help="One point in full, such as R2.2; or R2, all of a reviewer.",
    )] = None,
    run: Annotated[bool, Option(
        "--run", help="Also run the first command of the point, and end with its exit code.",
    )] = False,
    json: Json = False,
    out: Out = None,
) -> None:
    """Answer what the reviewers of a paper asked, point by point.

    The points are in our words: what settles each, the answer in a line, and the command that shows
    it. Verdicts are read from the record."""
    from fedtheory.cli import reviews as reviewing

    raise typer.Exit(reviewing.reviews(paper, point, run, json, out))


@app.command(
    "experiment", first=("full", "figures", "seed", "json", "out"), rich_help_panel=STUDIES,
    epilog=examples(
        "fedtheory experiment", "fedtheory experiment dimension",
        "fedtheory experiment compression --full",
        "fedtheory experiment tuning --json --no-figures",
    ),
)
def experiment_command(
    name: Annotated[str | None, Argument(
        help="An experiment; without one, all there are with their questions.",
    )] = None,
    full: Annotated[bool, Option(
        "--full", help="More instances, rounds and repetitions: minutes instead of seconds.",
    )] = False,
    figures: Annotated[bool, Option(
        "--figures/--no-figures", help="Draw NAME.png and NAME.pdf.",
    )] = True,
    seed: Seed = 0,
    json: Json = False,
    out: Folder = Path("results"),
) -> None:
    """Run an experiment about a paper: its table and its figure.

    The table and what it says are printed; NAME.json, NAME.png and NAME.pdf are written."""
    from fedtheory.cli import experiments as experimenting

    experimenting.experiment(name, full, figures, seed, json, out)


@app.command(
    "bench",
    first=(
        "quick", "data", "dataset", "split", "method", "rounds", "device", "seeds", "report", "out"
    ),
    rich_help_panel=NETWORK,
    epilog=examples(
        "fedtheory bench fedelasticnet-table2 --quick",
        "fedtheory bench fedelasticnet-table2 --data FOLDER --dataset mnist",
        "fedtheory bench fedelasticnet-table3 --report",
        "fedtheory bench fedelasticnet-table2 --data FOLDER --dataset mnist --split dirichlet-0.3",
        "fedtheory bench fedelasticnet-table3 --data FOLDER --dataset mnist,emnist-l --method "
        "feddyn,algorithm-3 --rounds 50",
        "fedtheory bench fedelasticnet-figure1 --data FOLDER --device cuda",
        "fedtheory bench fedelasticnet-table3 --data FOLDER --dataset mnist --method "
        "feddyn,algorithm-3 --l1 1e-5,1e-4 --seeds 0,1,2",
        "fedtheory bench fedelasticnet-figure3 --data FOLDER --dataset mnist --l1 1e-5,1e-4,1e-3 "
        "--seeds 0,1,2",
        "fedtheory bench fedelasticnet-table2 --quick --method fedprox,feddyn --local-solver adam "
        "--lr 0.001",
    ),
)
@with_options(MEMORY_OPTIONS)
@of_fields(Options, rest="memory")
def bench_command(
    table: Annotated[str, Argument(
        help=f"A table ({', '.join(BENCH_TABLES)}) or a figure ({', '.join(BENCH_FIGURES)}).",
    )],
    o: Options,
) -> None:
    """Train the networks of a paper's table, and compare the numbers.

    Our numbers stand beside the paper's, with their ratio, in the paper's settings. Every run keeps
    its whole state in OUT/runs, in a file that is named after all that is not the paper's:
    interrupted (Ctrl-C lets the round end) or killed, the same command goes on where it was and
    ends with the same numbers. Writes the table as Markdown and, with where everything comes from,
    as JSON; Figure 1 as PNG and PDF.

    --local-solver momentum and adam step as torch.optim's SGD(momentum=...) and Adam, with an empty
    memory in every round. SCAFFOLD, FedGATE and VRL-SGD divide by the step size and refuse them.

    Start with --quick, which needs no data. A data set that is missing or damaged is told before
    any work."""
    from fedtheory.cli import bench as benching

    benching.bench(table, o)


@app.command(
    "sweep",
    first=("example", "dry_run", "format", "workers", "engine", "address", "json", "out"),
    rich_help_panel=PROBLEM,
    epilog=examples(
        "fedtheory sweep --example > sweep.toml",
        "fedtheory sweep sweep.toml --dry-run",
        "fedtheory sweep sweep.toml --out results/sweep",
        "fedtheory sweep sweep.toml --engine dask --address tcp://10.0.0.7:8786 --format parquet",
    ),
)  # fmt: skip
def sweep_command(
    spec: Annotated[Path | None, Argument(
        metavar="SPEC.toml", help="What is varied, a TOML file.",
    )] = None,
    example: Annotated[bool, Option(
        "--example", help="Print a specification to begin with, and stop.",
    )] = False,
    dry_run: Annotated[bool, Option(
        "--dry-run", help="Check all, count the cells, and run none.",
    )] = False,
    format: Annotated[Literal["csv", "parquet"], Option(help="Format of the table.")] = "csv",
    figures: Annotated[bool, Option(
        "--figures/--no-figures", help="Draw sweep.png and sweep.pdf.",
    )] = True,
    workers: Workers = None,
    engine: Engine = "local",
    address: Address = None,
    json: Json = False,
    out: Folder = Path("results/sweep"),
) -> None:
    """Run all combinations of methods, settings, problems and seeds.

    One table and a figure come out. Every finished cell is kept in OUT/sweep.cells.sqlite, by what
    its numbers depend on: interrupted or killed, the same command goes on; with more values in the
    specification, it runs the new cells only. The table has the same bytes whatever the engine and
    the number of workers. A cell that diverges is a row that says so.

    The exit code is 1 where a cell failed, and 130 after an interrupt."""
    from fedtheory.cli.campaign import default_workers
    from fedtheory.cli.sweep import command
    from fedtheory.cli.sweep import spec as specification
    from fedtheory.errors import InvalidInput

    if example:
        typer.echo(specification.EXAMPLE, nl=False)
        return
    if spec is None:
        raise InvalidInput(
            "no specification: give a TOML file; `fedtheory sweep --example > sweep.toml` writes "
            "one to begin with"
        )
    o = command.SweepOptions(
        spec, out, workers or default_workers(), engine, address, format,
        figures, dry_run, json,
    )
    raise typer.Exit(command.sweep(o))


@app.command(
    "draw", first=("metric", "dpi", "json", "out"), rich_help_panel=RESULTS,
    epilog=examples(
        "fedtheory draw results/verify-theorem-3.1-diabetes.csv",
        "fedtheory draw results/figures/bound_vs_empirical.json --out redrawn --dpi 300",
        "fedtheory draw run-fedavg-digits.json run-scaffold-digits.json",
    ),
)
def draw_command(
    files: Annotated[list[Path], Argument(
        metavar="FILE...",
        help="Saved results: a CSV of `verify --figure`; a JSON beside a figure, or of `run`, "
        "`rates`, `solve`, `experiment` or a campaign of `verify`.",
    )],
    dpi: Annotated[int, Option(min=30, max=1200, metavar="N", help="Resolution of the PNG.")] = 130,
    size: Annotated[FigureSize, Option(help=f"Of a CSV of `verify`. {SIZE_HELP}")] = "page",
    no_title: Annotated[bool, Option(
        "--no-title", help=f"Of a CSV of `verify`. {NO_TITLE_HELP}",
    )] = False,
    metric: Annotated[Literal["suboptimality", "gradient_norm", "distance", "nonzeros", "entropy", "bits"] | None, Option(
        help="Of runs, the one metric to draw; of several runs the default is suboptimality, F(x) "
        "- F*.",
    )] = None,
    json: Json = False,
    out: Out = None,
) -> None:
    """Draw saved results again, from their data alone.

    Several runs on one problem are one picture. FILE.png and FILE.pdf go beside the file or to the
    folder of --out. Nothing is computed. A file that holds something else, or whose numbers cannot
    be, ends with one line that says so."""
    from fedtheory.cli.draw import draw

    draw(files, dpi, json, out, metric, size, not no_title)
