"""The application that commands are added to, and what they share."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from fedtheory.cli.common import App, Group
from fedtheory.errors import InvalidInput

__all__ = [
    "ALL", "IMPLEMENTATION", "LOOK", "NETWORK", "NO_TITLE_HELP", "ONE", "PROBLEM", "RESULTS",
    "SHARED", "SIZE_HELP", "STUDIES", "TASKS", "THEOREM", "Address", "Engine", "FigureSize",
    "Participants", "Workers", "app", "examples", "refuse_look",
]

# What a user has, in the order of the help: the commands for it stand below.
TASKS = LOOK, THEOREM, IMPLEMENTATION, PROBLEM, NETWORK, STUDIES, RESULTS = (
    "I want to see what there is", "I have a theorem", "I have an implementation of a method",
    "I have a problem", "I have a network to train",
    "I ask what a paper's runs show, or its reviewers asked", "I have saved results",
)  # fmt: skip


class _ByTask(Group):
    """The commands in the order of the tasks."""

    def list_commands(self, ctx: Any) -> list[str]:
        def task(name: str) -> int:
            return TASKS.index(str(getattr(self.commands[name], "rich_help_panel", "")))

        return sorted(super().list_commands(ctx), key=task)


app = App(
    cls=_ByTask, no_args_is_help=True, add_completion=False, rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Don't take convergence theorems on faith: run them.\n\nStart with `fedtheory list`, then "
    "`fedtheory explain theorem-3.1` and `fedtheory verify theorem-3.1 --problem diabetes`. A "
    "theorem of your own is one Python file: `fedtheory verify mine.py`.",
    epilog="What a command takes: `fedtheory COMMAND --help`",
)

ONE, ALL, SHARED = "With a statement", "Without a statement: the campaign", "On other processes"
_SAMPLE_HELP = "P: clients in a round, drawn uniformly (default: all)."
Participants = Annotated[int | None, typer.Option("--participants", "-P", help=_SAMPLE_HELP)]
Engine = Annotated[
    Literal["local", "dask", "ray"],
    typer.Option(
        "--engine",
        help="Processes of this machine, or a cluster of Dask's or Ray's.",
        rich_help_panel=SHARED,
    ),
]
_PROCESSES = typer.Option(
    "--workers", min=1, metavar="N", help="Processes (default: the cores).", rich_help_panel=SHARED
)
Workers = Annotated[int | None, _PROCESSES]
Address = Annotated[
    str | None,
    typer.Option(
        "--address", metavar="ADDRESS", rich_help_panel=SHARED,
        help="A running cluster: tcp://host:8786 or a scheduler file of Dask, auto or host:6379 of "
        "Ray (default: one is started).",
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
