"""The application that commands are added to, and what they share."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from fedtheory.cli.common import App, Group
from fedtheory.errors import InvalidInput

__all__ = [
    "ALL", "NO_TITLE_HELP", "ONE", "SHARED", "SIZE_HELP", "Address", "Engine", "FigureSize", "Participants", "Workers", "app",
    "examples", "refuse_look",
]  # fmt: skip

app = App(
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="The theory of federated optimisation, run and not believed.\n\nStart with `fedtheory list`, then "
    "`fedtheory explain theorem-3.1` and `fedtheory verify theorem-3.1 --problem diabetes`.\n\nA theorem of your own, in one Python "
    "file: `fedtheory verify mine.py`, and `list mine.py`, `explain mine.py`.",
)

ONE, ALL, SHARED = "With a statement", "Without one: the campaign", "On other processes"
_SAMPLE_HELP = "P: clients that take part in a round, drawn uniformly (default: all)."
Participants = Annotated[int | None, typer.Option("--participants", "-P", help=_SAMPLE_HELP)]
Engine = Annotated[
    Literal["local", "dask", "ray"],
    typer.Option(
        "--engine", help="Where the work is done: processes of this machine, or a cluster of Dask's or Ray's.", rich_help_panel=SHARED
    ),
]
_PROCESSES = typer.Option("--workers", min=1, help="Processes (default: the cores).", rich_help_panel=SHARED)
Workers = Annotated[int | None, _PROCESSES]
Address = Annotated[
    str | None,
    typer.Option(
        "--address", metavar="ADDRESS", rich_help_panel=SHARED,
        help="Of a cluster that runs: tcp://host:8786 or a scheduler file of Dask, auto or host:6379 of Ray. Without it one is started "
        "on this machine.",
    ),
]  # fmt: skip

FigureSize = Literal["page", "neurips", "icml", "ieee", "slide"]  # of `fedtheory.plotting.style.SIZES`, which takes long to import
SIZE_HELP = (
    "The figure's size: a page of 6.75 inches, the text of NeurIPS (5.5), a column of ICML (3.25) or of IEEE (3.5), a slide (10 x 5.6)."
)
NO_TITLE_HELP = "Leave out what stands above the figure, for a caption of your own."


def refuse_look(figure: bool, size: str, no_title: bool) -> None:
    """Raise `InvalidInput` for the look of a figure that is not drawn."""
    given = ["--size"] * (size != "page") + ["--no-title"] * no_title
    if given and not figure:
        raise InvalidInput(f"{' and '.join(given)}: only with --figure, whose look it is")


def examples(*lines: str) -> str:
    """The epilog of a help page."""
    return "**Examples**\n\n" + "\n\n".join(f"`{line}`" for line in lines)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        from fedtheory import __version__

        typer.echo(f"fedtheory {__version__}")
        raise typer.Exit
