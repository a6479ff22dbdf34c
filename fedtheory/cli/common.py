"""The parts that all commands share: where output goes, how errors read, the options' wording."""

from __future__ import annotations

import difflib
import json
import os
import shlex
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, overload

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from fedtheory.cli.help import HelpfulCommand, Topics
from fedtheory.errors import FedTheoryError, InvalidInput, UnknownName, suggest

if TYPE_CHECKING:
    from fedtheory.theory.judge.registry import RegisteredPaper

__all__ = [
    "SHIPPED", "Alone", "App", "Folder", "Group", "Json", "Out", "Seed", "about_problem", "as_typed", "block", "check_out",
    "emit", "err_console", "error_line", "facts", "find_statement", "in_file", "in_words",
    "must_take_files", "not_as_recorded", "note", "out_console", "paper_named", "paper_option", "problem_of", "progress",
    "refuse_no_participants", "sampling_of", "save", "shipped_witnesses", "short_path", "slug", "solver_rows",
    "statements_in", "warn_of_formulas", "with_ours", "writing", "wrote",
]


T = TypeVar("T")
SHIPPED = {"one-round": "theorems/one_round.py"}  # files of statements by their names


@contextmanager
def writing(out: Path, option: str = "--out") -> Iterator[None]:
    """Within it a folder that takes no files, which came by that option, ends in the error that says so."""
    try:
        yield
    except FedTheoryError:  # which says all of it, and may be an OSError as well
        raise
    except OSError as error:
        why = f"cannot be written to ({error.strerror})"
        raise FedTheoryError(f"{option} {out}: {why}: name another folder") from error


def check_out(out: Path | None) -> Path | None:
    """The folder as given, once it is known to take files, or to be makeable: a long run must not
    end with having nowhere to write."""
    if out is not None:
        must_take_files(out)
    return out


def must_take_files(folder: Path, option: str = "--out") -> None:
    """Refuse a folder that neither takes files nor can be made; ``option``: what named it."""
    near = (folder, *folder.absolute().parents)
    with writing(folder, option), tempfile.TemporaryFile(dir=next(p for p in near if p.exists())):
        pass


Json = Annotated[bool, typer.Option("--json", help="JSON on stdout, and nothing else there.")]
Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of everything random.")]
_OUT = typer.Option("--out", help="Folder to write results to.", file_okay=False, callback=check_out)
Out = Annotated[Path | None, _OUT]
Folder = Annotated[Path, _OUT]  # where results are always written


def out_console() -> Console:
    """Return the console of results, made when needed, so that a redirected stdout is seen."""
    return Console(highlight=False)


def err_console() -> Console:
    """Progress, warnings and errors."""
    return Console(stderr=True, highlight=False)


def note(text: str) -> None:
    """A grey line on stderr."""
    err_console().print(text, style="dim", markup=False, soft_wrap=True)


def error_line(message: object) -> None:
    """One red line on stderr."""
    err_console().print(f"error: {' '.join(str(message).split())}", style="bold red", markup=False, soft_wrap=True)


def wrote(files: Iterable[Path | str | None], more: str = "") -> None:
    """The line that names the files; none where there are none."""
    named = [str(file) for file in files if file is not None]
    if named:
        out_console().print(f"wrote {', '.join(named)}{more}", markup=False, soft_wrap=True)


def emit(value: Any) -> None:
    """A value as JSON on stdout."""
    from fedtheory.provenance import to_jsonable

    sys.stdout.write(json.dumps(to_jsonable(value), indent=1, allow_nan=False) + "\n")


@overload
def save(out: Path, name: str, value: Any) -> Path: ...
@overload
def save(out: Path | None, name: str, value: Any) -> Path | None: ...
def save(out: Path | None, name: str, value: Any) -> Path | None:
    """The value as <out>/<name>.json; None without a folder."""
    from fedtheory.provenance import write_json

    if out is None:
        return None
    with writing(out):
        return write_json(out / f"{name}.json", value)


# --- statements and files -------------------------------------------------------------------------
def find_statement(name: str) -> Any:
    """A statement by id; the paper's prefix may be left out, FILE.py::NAME reads the file first."""
    from fedtheory.theory.judge.registry import all_statements, get, papers

    file, name = in_file(name)
    if file is not None:
        return _only_one(file, name)
    same = [s for s in all_statements() if s.id.lower().split("/", 1)[-1] == name.lower()]
    if len(same) > 1:
        ids = [s.id for s in same]
        raise UnknownName(f"{name!r} is a statement of {len(ids)} papers: write {', '.join(ids[:-1])} or {ids[-1]}")
    if same:
        return same[0]
    for paper in () if "/" in name else papers():
        with suppress(UnknownName):
            return get(f"{paper.id}/{name}")  # an alias
    before, colon, own = name.rpartition(".py:")
    if meant := f"{before}.py::{own}" if colon else f"{name}.py" if _is_file(f"{name}.py") else "":
        raise UnknownName(f"unknown statement {name!r}: of a file write {meant}")
    if "/" not in name:  # near ids without their papers, or short ids are always the nearest
        near = difflib.get_close_matches(name.lower(), {s.id.split("/", 1)[-1] for s in all_statements()}, n=3, cutoff=0.6)
        ids = [s.id for tail in near for s in all_statements() if s.id.split("/", 1)[-1] == tail][:4]
        hint = f"did you mean {' or '.join(map(repr, ids))}?" if ids else "see `fedtheory list`"
        raise UnknownName(f"unknown statement {name!r}: {hint}")
    return get(name)


def in_file(name: str) -> tuple[Path | None, str]:
    """(FILE, NAME) of 'FILE.py::NAME' or 'FILE.py', or of a file that comes with the package, as 'one-round';
    (None, name) of what is no file."""
    file, _, inside = name.partition("::")
    if file in SHIPPED:
        return Path(__file__).parents[1] / SHIPPED[file], inside
    if file.endswith(".py") or (("::" in name or "/" in name) and Path(file).is_file()):
        return Path(file), inside
    return None, name


def with_ours(make: Callable[[], T]) -> T:
    """Make what asks for statements; where one is not known, once more with those of our files.

    A file runs only if the user names it, or if it comes with the package.
    """
    from fedtheory.theory.judge.registry import load_file

    try:
        return make()
    except UnknownName:
        for file in SHIPPED.values():
            load_file(Path(__file__).parents[1] / file)
        return make()


def paper_option(statement: str) -> str:
    """' --paper FILE.py' of a statement from a file that `with_ours` does not find; else ''."""
    from fedtheory.theory.judge.registry import paper_of

    paper = paper_of(statement)
    found = not paper.file or (paper.id in SHIPPED and Path(paper.file) == in_file(paper.id)[0])
    return "" if found else f" --paper {short_path(paper.file)}"


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except (OSError, ValueError):  # no path at all
        return False


def paper_named(name: str) -> RegisteredPaper | None:
    """The registered paper of 'PAPER/'; None for what does not end so."""
    from fedtheory.theory.judge.registry import paper

    return paper(name[:-1]) if name.endswith("/") and "/" not in name[:-1] else None


def statements_in(file: Path, name: str = "") -> list[RegisteredPaper]:
    """The papers of a file, each with all its statements or with the one of that name."""
    from fedtheory.theory.judge.registry import load_file

    papers = load_file(file)
    if not name:
        return papers
    of = [(p, s) for p in papers for s in p.statements]
    chosen = [(p, s) for p, s in of if name in (s.id, s.id.split("/", 1)[-1])]
    if not chosen:
        raise suggest(name, [s.id.split("/", 1)[-1] for _, s in of], f"statement of {file}")
    paper, statement = chosen[0]
    return [paper.only(statement)]


def _only_one(file: Path, name: str) -> Any:
    found = [s for p in statements_in(file, name) for s in p.statements]
    if len(found) > 1:
        names = [f"{file}::{s.id.split('/', 1)[-1]}" for s in found]
        raise InvalidInput(f"{file} has {len(names)} statements: write {', '.join(names[:-1])} or {names[-1]}")
    return found[0]


def in_words(statement: Any) -> str:
    """Write a statement as the command line does: its id, or FILE.py::NAME."""
    from fedtheory.theory.judge.registry import paper_of

    source = paper_of(statement).file
    return f"{short_path(source)}::{statement.id.split('/', 1)[-1]}" if source else statement.id


def not_as_recorded(statement: Any, checks: Iterable[Any]) -> list[Any]:
    """The checks that refute forms which are on record as holding."""
    refuted = (c for c in checks if c.refutes)
    return [c for c in refuted if statement.form(c.form).established.get(c.rule, "open") == "holds"]


def warn_of_formulas(statement: Any) -> None:
    """A line on stderr for each form whose LaTeX cannot be read; nothing else depends on it.

    This package's own formulas are read by its tests.
    """
    from fedtheory.report.formulas import warnings_of
    from fedtheory.theory.judge.registry import is_ours, paper_of

    if is_ours(paper_of(statement)):
        return
    source = paper_of(statement).file
    for line in warnings_of(statement, short_path(source) if source else ""):
        err_console().print(Text(f"warning: {line}", "yellow"), soft_wrap=True)


def short_path(source: str) -> str:
    """A path from here where it is below, else as it is."""
    path = Path(source)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else source


def shipped_witnesses(statement: Any = None) -> list[Any]:
    """Witnesses that come with the papers, all or a statement's; none without such a folder."""
    from fedtheory.theory.judge.replay import builtin_witnesses

    try:
        if statement is None:
            return builtin_witnesses()
        return builtin_witnesses(statement.paper, statement.id)
    except FileNotFoundError:
        return []


# --- a problem ------------------------------------------------------------------------------------
def problem_of(name: str | None, options: Mapping[str, Any], seed: int) -> Any:
    """The named problem, or that of --data."""
    from fedtheory.cli.options import PROBLEM_OPTIONS
    from fedtheory.cli.problems import build

    return build(name, {p.name: options.get(p.name) for p in PROBLEM_OPTIONS}, seed)


def slug(*parts: str) -> str:
    """A file name of the parts."""
    return "-".join("".join(c if c.isalnum() or c in ".-" else "-" for c in p) for p in parts)


def block(text: Any, indent: int = 0, hang: int = 0, style: str = "", width: int = 110, **more: Any) -> None:
    """A paragraph on stdout, as wide as the terminal and at most so many columns.

    hang : how much further in its lines after the first begin
    more : as `textwrap.wrap` takes it
    """
    console = out_console()
    pads: dict[str, Any] = {"initial_indent": " " * indent, "subsequent_indent": " " * (indent + hang)}
    lines = textwrap.wrap(str(text), min(console.width, width), break_on_hyphens=False, **pads, **more)
    if lines:
        console.print(Text("\n".join(lines), style))


def facts(rows: Sequence[tuple[str, Any]]) -> Table:
    """Names and values in two columns."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(str(value)))
    return table


def about_problem(problem: Any) -> dict[str, Any]:
    """Return what a file says of the problem."""
    return {
        "name": problem.name, "class": type(problem).__name__, "clients": problem.num_clients,
        "dimension": problem.dim, "samples": [int(n) for n in problem.sample_counts],
        "partition": getattr(problem, "partition", None),
    }


def refuse_no_participants(participants: int | None, problem: Any) -> None:
    """Raise `InvalidInput`, by the option's name, for a cohort of no clients."""
    if participants is not None and participants < 1:
        raise InvalidInput(f"--participants {participants}: it must be an integer from 1 to m = {problem.num_clients}")


def sampling_of(participants: int | None, problem: Any) -> Any:
    """All clients, or cohorts of so many drawn uniformly."""
    from fedtheory.participation.cohorts import Full, Uniform

    refuse_no_participants(participants, problem)
    law = Full() if participants is None else Uniform(participants)
    law.check(problem.num_clients)
    return law


def solver_rows(optimum: Any) -> list[tuple[str, Any]]:
    """cvxpy's own value next to the polished one, and what it solved."""
    d, rows = optimum.details, []
    if optimum.solver_value is not None:
        off = optimum.solver_value - optimum.value
        which = f"{abs(off):.2g} {'above' if off > 0 else 'below'} the polished value" if off else "the polished value"
        rows.append(("value by cvxpy", f"{optimum.solver_value:.15g} ({which}), {d['conic']}"))
    if d.get("conic_form"):
        time = f", {d['conic_seconds']:.2g} s" if optimum.solver_value is not None else ""
        rows.append(("cone programme", f"{d['conic_form']}{time}"))
    return rows


# --- progress and errors --------------------------------------------------------------------------
GO_WITHOUT = " (--max-conic-entries 0 goes without it)"


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Any]:
    """A progress bar on stderr (a spinner without a total), or plain lines where that is no terminal; yields `Advance`."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    from fedtheory.limits import announcing
    from fedtheory.optimum.conic import announced
    from fedtheory.plain_progress import Lines, redraws

    console = err_console()
    say = partial(console.print, style="dim", markup=False, soft_wrap=True)
    if not redraws(console.file):
        with Lines(what, total) as lines, announcing(say), announced(lambda text: say(text + GO_WITHOUT)):
            yield Advance(lines.advance, say)
        return
    columns = [SpinnerColumn(), TextColumn("{task.description}")]
    if total is not None:
        columns += [BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(elapsed_when_finished=True)]
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        with announcing(say), announced(lambda text: say(text + GO_WITHOUT)):
            yield Advance(lambda n, k: bar.reset(task, completed=int(bar.tasks[0].completed) + n) if k else bar.advance(task, n), say)


_typed: ContextVar[tuple[str, ...]] = ContextVar("fedtheory_typed", default=())


def as_typed() -> str:
    """The command that is running, as it can be typed again; '' where none is."""
    return shlex.join(_typed.get())


def _with_value(args: list[str], option: str) -> list[str]:
    """The arguments, with an empty value for an option at the end or before another option."""
    bare = {i for i, after in enumerate([*args[1:], "-"]) if args[i] == option and after.startswith("-")} if args else set()
    return [f"{option}=" if i in bare else word for i, word in enumerate(args)]


class Advance:
    """advance(steps=1) moves the bar, `known` ones tell no time left; advance.say(text) writes a
    line above it, on any stderr."""

    def __init__(self, move: Callable[[int, bool], None], say: Callable[[str], None]) -> None:
        self.move, self.say = move, say

    def __call__(self, steps: int = 1, known: bool = False) -> None:
        self.move(steps, known)


class Command(HelpfulCommand):
    """A command whose errors name its options, not the library's arguments; ``--figure`` may stand without a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _typed.set(("fedtheory", ctx.info_name or "", *args))
        from fedtheory.cli.wording import check_digits

        check_digits(self.params, args)
        takes = any("--figure" in p.opts for p in self.params)
        return super().parse_args(ctx, _with_value(args, "--figure") if takes else args)

    def invoke(self, ctx: Any) -> Any:
        from fedtheory.cli.wording import here, running
        from fedtheory.limits import unlimited

        with running(self, ctx.params), unlimited() if ctx.params.get("allow_long") else nullcontext():
            try:
                return super().invoke(ctx)
            except FedTheoryError as error:
                error.in_cli_words = here(str(error))  # type: ignore[attr-defined]
                raise


class App(typer.Typer):
    """A `typer.Typer` of `Command`s."""

    def __call__(self, args: Sequence[str] | None = None, **options: Any) -> Any:
        """Run the command that the arguments name.

        It is made alone: to make all of them is a tenth of a start.
        """
        named, first = copy(self), (sys.argv[1:] if args is None else args)[:1]
        chosen = [c for c in self.registered_commands if c.name in first]
        named.registered_commands = chosen or self.registered_commands
        return super(App, named).__call__(args, **options)

    def command(
        self, *args: Any, first: tuple[str, ...] = (), topics: Topics | None = None, **options: Any
    ) -> Any:
        """As always; ``first`` and ``topics`` are those of `HelpfulCommand`."""
        kind = options.pop("cls", Command)
        made = type(kind.__name__, (kind,), {"first": first, "topics": topics}) if first else kind
        return super().command(*args, **{"cls": made, **options})


class Told:
    """Turns this package's errors into one line and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        from fedtheory.optimum.conic import announced

        os.environ["MPLBACKEND"] = "agg"  # pictures go to files: whatever it says, and be it nonsense, is not for them
        try:
            with announced(lambda text: note(text + GO_WITHOUT)):
                return super().invoke(ctx)  # type: ignore[misc]
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


class Group(Told, TyperGroup):
    """Commands below one name."""


class Alone(Told, Command):
    """A command that is the whole programme."""
