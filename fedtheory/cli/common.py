"""What every command shares: where output goes, how errors read, and the options' wording."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

from fedtheory.errors import FedTheoryError

__all__ = ["App", "Group", "Json", "Out", "Seed", "check_out", "emit", "error_line", "not_writable", "out_console", "progress", "save"]


def not_writable(out: Path, error: OSError) -> FedTheoryError:
    """What to raise for an output folder."""
    return FedTheoryError(f"--out {out}: cannot be written to ({error.strerror}): name another folder")


def check_out(out: Path | None) -> Path | None:
    """The folder as given, once it is known to take files, or to be makeable: a long run must not end with having nowhere to write."""
    if out is not None:
        try:
            with tempfile.TemporaryFile(dir=next(p for p in (out, *out.absolute().parents) if p.exists())):
                pass
        except OSError as error:
            raise not_writable(out, error) from error
    return out


Json = Annotated[bool, typer.Option("--json", help="Machine-readable output on stdout, and nothing else there.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything random.")]
Out = Annotated[Path | None, typer.Option("--out", help="Folder to write results to.", file_okay=False, callback=check_out)]


def out_console() -> Console:
    """Where people read results (made when needed, so that a redirected stdout is seen)."""
    return Console(highlight=False)


def err_console() -> Console:
    """Progress, warnings and errors."""
    return Console(stderr=True, highlight=False)


def error_line(message: object) -> None:
    """One red line on stderr."""
    err_console().print(f"error: {' '.join(str(message).split())}", style="bold red", markup=False, soft_wrap=True)


def emit(value: Any) -> None:
    """A value as JSON on stdout."""
    from fedtheory.provenance import to_jsonable

    sys.stdout.write(json.dumps(to_jsonable(value), indent=1, allow_nan=False) + "\n")


def save(out: Path | None, name: str, value: Any) -> Path | None:
    """The value as <out>/<name>.json; None without a folder."""
    from fedtheory.provenance import write_json

    if out is None:
        return None
    try:
        return write_json(out / f"{name}.json", value)
    except OSError as error:
        raise not_writable(out, error) from error


GO_WITHOUT = " (--max-conic-entries 0 goes without it)"


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Any]:
    """A progress bar on stderr (a spinner without a total), silent when that is no terminal; yields `Advance`."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    from fedtheory.optimum.conic import announced

    columns = [SpinnerColumn(), TextColumn("{task.description}")]
    if total is not None:
        columns += [BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(elapsed_when_finished=True)]
    console = err_console()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        say = partial(console.print, style="dim", markup=False, soft_wrap=True)
        with announced(lambda text: say(text + GO_WITHOUT)):
            yield Advance(lambda steps: bar.update(task, advance=steps), say)


class Advance:
    """advance(steps=1) moves the bar; advance.say(text) writes a line above it, on any stderr."""

    def __init__(self, move: Callable[[int], None], say: Callable[[str], None]) -> None:
        self.move, self.say = move, say

    def __call__(self, steps: int = 1) -> None:
        self.move(steps)


class Command(TyperCommand):
    """A command whose errors name its options, not the library's arguments."""

    def invoke(self, ctx: Any) -> Any:
        from fedtheory.cli.wording import here, running

        with running(self, ctx.params):
            try:
                return super().invoke(ctx)
            except FedTheoryError as error:
                error.in_cli_words = here(str(error))  # type: ignore[attr-defined]
                raise


class App(typer.Typer):
    """A `typer.Typer` of `Command`s."""

    def command(self, *args: Any, **options: Any) -> Any:
        return super().command(*args, **{"cls": Command, **options})


class Group(TyperGroup):
    """Turns this package's errors into one line and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        from fedtheory.optimum.conic import announced

        try:
            with announced(lambda text: err_console().print(text + GO_WITHOUT, style="dim", markup=False, soft_wrap=True)):
                return super().invoke(ctx)
        except FedTheoryError as error:
            error_line(getattr(error, "in_cli_words", error))
            raise typer.Exit(2) from None
        except MemoryError as error:
            why = f" ({error})" if str(error) else ""
            error_line(f"not enough memory{why}: ask for a smaller problem, fewer rounds, scenarios or workers")
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            error_line("interrupted")
            raise typer.Exit(130) from None
