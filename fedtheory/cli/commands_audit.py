"""`audit`: other people's code."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from typer import Argument, Option

from fedtheory.cli.app import IMPLEMENTATION, app, examples
from fedtheory.cli.common import Json, Out, Seed
from fedtheory.errors import InvalidInput

__all__: list[str] = []


@app.command(
    "audit",
    first=(
        "as_", "list_", "weighting", "option", "local", "built_in", "skip", "rtol", "json", "out"
    ),
    rich_help_panel=IMPLEMENTATION,
    epilog=examples(
        "fedtheory audit --list", "fedtheory audit mine.py:round --as fedprox",
        "fedtheory audit package.module:run --as scaffold --option gradient",
        "fedtheory audit mine.py:solve --as feddyn --local exact",
        "fedtheory audit mine.py:server_round --as fedadam --built-in beta1=0.9 --built-in "
        "beta2=0.99",
        "fedtheory audit mine.py:round --as fedavg --weighting uniform --skip convergence --json",
    ),
)
def audit_command(
    adapter: Annotated[str | None, Argument(
        metavar="MODULE:ADAPTER",
        help="FILE.py:NAME or MODULE:NAME of a function, round(state, clients, cohort, "
        "learning_rate, local_steps, ...) or run(...); the file is run.",
    )] = None,
    as_: Annotated[str | None, Option(
        "--as", metavar="METHOD", help="The method that it should be: scaffold, feddyn, ...",
    )] = None,
    weighting: Annotated[Literal["examples", "uniform", "all-examples"] | None, Option(
        help="A client's weight in the server's mean (default: that of --list).",
    )] = None,
    option: Annotated[Literal["difference", "gradient", "v-from-tau", "v-of-momentum"] | None, Option(
        help="SCAFFOLD's option II, difference (the default), or I, gradient; or FedAdam's v.",
    )] = None,
    local: Annotated[Literal["steps", "exact"], Option(
        help="Clients take gradient steps, or minimise to the end.",
    )] = "steps",
    built_in: Annotated[list[str] | None, Option(
        metavar="NAME=NUMBER", help="A setting that the adapter has built in.",
    )] = None,
    skip: Annotated[list[str] | None, Option(
        metavar="CHECK", help="A check that is left out.",
    )] = None,
    rtol: Annotated[float | None, Option(
        help="Tolerance (default 1e-9; 3e-4 in single precision).",
    )] = None,
    time_limit: Annotated[float, Option(help="Seconds that one check may take.")] = 30.0,
    list_: Annotated[bool, Option(
        "--list", help="The methods, what an adapter is handed, and the checks.",
    )] = False,
    seed: Seed = 0,
    json: Json = False,
    out: Out = None,
) -> None:
    """Hold an implementation to its method, and name the wrong line.

    An adapter is a function

    - `round(state, clients, cohort, learning_rate, local_steps, ...)` that gives the next state: a
      dict with the server's model `x` and what the method keeps; or

    - `run(start, clients, cohorts, learning_rate, local_steps, ...)` that gives the server's model
      after every round, or the last one.

    `clients[k]` has `gradient(x)`, `features`, `labels` and `num_examples`. The implementation is
    run on small problems beside a plain reference, and at certified optima. Where it differs, known
    mistakes are put into the reference until it gives the same numbers.

    Exits with 1 where a check fails."""
    from fedtheory.cli import audit as auditing

    if list_ or (adapter is None and as_ is None):
        raise typer.Exit(auditing.list_audits(json, out))
    if adapter is None or as_ is None:
        missing = "MODULE:ADAPTER" if adapter is None else "--as METHOD"
        raise InvalidInput(
            f"{missing} is missing: `fedtheory audit mine.py:round --as fedprox`; --list has the "
            "methods"
        )
    options = {
        "weighting": weighting, "option": option, "local": local, "skip": tuple(skip or ()),
        "rtol": rtol, "time_limit": time_limit, "seed": seed,
    }
    raise typer.Exit(auditing.audit(adapter, as_, options, built_in or [], json, out))
