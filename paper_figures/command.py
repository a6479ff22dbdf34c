"""The command: list, compute and draw, or draw again."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fedtheory.cli.app import examples
from fedtheory.cli.common import Alone, App, Json, check_out, emit, err_console, note, out_console, problem_of, writing
from fedtheory.cli.resumable import only_writer_of
from fedtheory.errors import FedTheoryError, InvalidInput
from fedtheory.plotting.figure import Figure
from fedtheory.report.figures import FULL, QUICK, Effort, computed, draw_one
from fedtheory.report.redraw import draw_saved
from paper_figures import pictures
from paper_figures.known import chosen, known
from paper_figures.map import MAP

__all__ = ["app", "main"]

OUT = Path("results/paper")
CAMPAIGN = Path("results/campaign.json")
app = App(add_completion=False, rich_markup_mode="markdown", pretty_exceptions_enable=False)


class Runs:
    """Figures of one call: those with the same data share them.

    given : what figures may take (`Figure.takes`)
    """

    def __init__(self, out: Path, seed: int, effort: Effort, given: dict[str, Any]) -> None:
        self.out, self.seed, self.effort, self.given = out, seed, effort, given
        self._data: dict[str, Any] = {}

    def data(self, figure: Figure) -> Any:
        """Computed, or what an earlier figure has computed with the same function and effort."""
        key = (
            f"{figure.compute.__module__}.{figure.compute.__qualname__} "
            f"{sorted(self.effort.of(figure).items())}"
        )
        if key not in self._data:
            self._data[key] = computed(figure, self.seed, self.effort, **self.given)
        return self._data[key]

    def draw(self, figure: Figure) -> list[Path]:
        """Its PNG, PDF and JSON."""
        data = self.data(figure)
        with writing(self.out):
            return draw_one(figure, self.out, self.seed, self.effort, data)


@app.command(cls=Alone, epilog=examples(
    "python -m paper_figures --list",
    "python -m paper_figures efl_bits --quick",
    "python -m paper_figures efl_bits --redraw",
    "python -m paper_figures bound_vs_empirical --problem diabetes --quick",
    "python -m paper_figures --quick --out results/paper",
    "python -m paper_figures --docs",
))  # fmt: skip
def figures(
    names: Annotated[list[str] | None, typer.Argument(
        metavar="NAME", help="Figures and tables; without a name all.",
    )] = None,
    listed: Annotated[bool, typer.Option(
        "--list", help="What each is, and which of a paper's own numbers it answers.",
    )] = False,
    quick: Annotated[bool, typer.Option(
        "--quick", help="At the effort of `make verify`: seconds each.",
    )] = False,
    data: Annotated[Path | None, typer.Option(
        file_okay=False, exists=True, help="Folder with published data sets, for trained networks.",
    )] = None,
    out: Annotated[Path | None, typer.Option(
        file_okay=False, callback=check_out, help=f"Folder to write to; without it {OUT}.",
    )] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything random.")] = 0,
    again: Annotated[bool, typer.Option(
        "--redraw", help="Draw again from the JSON in --out; nothing is computed.",
    )] = False,
    docs: Annotated[bool, typer.Option(
        "--docs", help="Draw the pictures that docs/ keeps, into docs/ or --out.",
    )] = False,
    campaign: Annotated[Path | None, typer.Option(
        dir_okay=False, help=f"A campaign's JSON, for `verdicts`; without it {CAMPAIGN}, if there.",
    )] = None,
    problem: Annotated[str | None, typer.Option(
        help="A named problem (`fedtheory list problems`), or NAME.json, in place of a figure's "
        "own where it takes one.",
    )] = None,
    as_json: Json = False,
) -> None:
    """Every figure and table of the papers and of our documents: PNG, PDF, and JSON with the data
    and a caption.

    A picture whose computation fails does not keep the others from being drawn; Ctrl-C leaves what
    is finished.
    """
    if listed:
        _list(names or [], as_json)
        return
    if docs:
        if names or again or quick:
            raise InvalidInput(
                "--docs: its pictures have efforts of their own; leave out names, --redraw and "
                "--quick"
            )
        _docs(out or Path("docs"), seed, as_json)
        return
    out = out or OUT
    wanted = chosen(names or [])
    if again:
        wanted = wanted if names else [f for f in wanted if (out / f"{f.name}.json").exists()]
        if not wanted:
            raise InvalidInput(
                f"--redraw: no JSON of a figure in {out}; name a folder that has some, or leave "
                "out --redraw"
            )
        saved = {f.name: out / f"{f.name}.json" for f in wanted}
        _tell([(n, lambda p=p: draw_saved(p, dpi=FULL.dpi)[1]) for n, p in saved.items()], as_json)
        return
    given: dict[str, Any] = {
        "data": data, "keep": out / "kept",
        "campaign": campaign or (CAMPAIGN if CAMPAIGN.exists() else None),
    }
    given["progress"] = lambda words: note(f"  {words}")
    if problem is not None:
        foreign = [f.name for f in wanted if "problem" not in f.takes]
        if foreign:
            takers = ", ".join(f.name for f in known().values() if "problem" in f.takes)
            raise InvalidInput(
                f"--problem {problem}: {foreign[0]} has problems of its own; these take one: "
                f"{takers}"
            )
        given["problem"] = problem_of(problem, {}, seed)
    runs = Runs(out, seed, QUICK if quick else FULL, given)
    if not names:  # nothing to draw without a campaign
        wanted = [f for f in wanted if "campaign" not in f.takes or given["campaign"] is not None]
    with only_writer_of(out, "paper_figures"):
        _tell([(f.name, lambda f=f: runs.draw(f)) for f in wanted], as_json)


@contextmanager
def _timed(name: str, at: str) -> Iterator[None]:
    """One line a figure on stderr, with its seconds."""
    start = time.perf_counter()
    note(f"{at} {name} ...")
    yield
    note(f"{at} {name}: {time.perf_counter() - start:.1f} s")


def _tell(work: Sequence[tuple[str, Any]], as_json: bool) -> None:
    """Do all, one after the other; say what was written and what failed. Exit code 1 where
    something failed, 130 on Ctrl-C."""
    written: dict[str, list[Path]] = {}
    failed: dict[str, str] = {}
    code = 0
    for n, (name, do) in enumerate(work, start=1):
        try:
            with _timed(name, f"[{n}/{len(work)}]"):
                written[name] = do()
        except KeyboardInterrupt:
            err_console().print(
                f"interrupted in {name}: the {len(written)} before it are written", style="yellow",
                markup=False,
            )
            code = 130
            break
        except FedTheoryError as error:
            if len(work) == 1:
                raise
            failed[name] = str(error)
            err_console().print(
                f"{name} failed: {error}", style="bold red", markup=False, soft_wrap=True
            )
    if as_json:
        emit({"written": written, "failed": failed})
    else:
        for name, files in written.items():
            out_console().print(
                f"{name}: {', '.join(str(f) for f in files)}", markup=False, soft_wrap=True
            )
    if code or failed:
        raise typer.Exit(code or 1)


def _docs(out: Path, seed: int, as_json: bool) -> None:
    """The pictures of docs/, each at its own effort and resolution."""
    runs = Runs(out, seed, FULL, {"keep": None, "data": None, "progress": lambda words: None})
    _tell(
        [(p.file, lambda p=p: pictures.draw(p, known(), out, runs)) for p in pictures.PICTURES],
        as_json,
    )


def _list(names: Sequence[str], as_json: bool) -> None:
    """The map from the papers' numbers, then every figure with its title."""
    every = [f for f in chosen(list(names))]
    entries = [e for e in MAP if not names or set(e.names) & set(names)]
    if as_json:
        rows = [
            {"name": f.name, "title": _shows(f), "paper": f.paper, "number": f.number}
            for f in every
        ]
        emit({"map": [vars(e) for e in entries], "figures": rows})
        return
    console = out_console()
    for paper in dict.fromkeys(e.paper for e in entries):
        table = Table(
            "number", "what it shows", "here", title=f"{paper}: what it prints",
            title_justify="left", box=None,
        )
        for e in (e for e in entries if e.paper == paper):
            here = ", ".join((*e.names, *([e.command] if e.command else [])))
            table.add_row(
                e.number, e.shows, Text("; ".join(part for part in (here, e.why_not) if part))
            )
        console.print(table)
        console.print()
    table = Table(
        "name", "what it shows", title="Every figure: python -m paper_figures NAME",
        title_justify="left", box=None,
    )
    for figure in every:
        table.add_row(Text(figure.name), Text(_shows(figure)))
    console.print(table)


def _shows(figure: Figure) -> str:
    """A figure's title; the question of an experiment that has none."""
    return figure.title or getattr(figure, "question", "")


def main() -> None:
    """Entry point."""
    app(prog_name="python -m paper_figures")
