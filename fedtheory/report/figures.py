"""All figures of a verification, each as PNG and PDF with its data as JSON beside it.

Which figures there are, the papers say (`RegisteredPaper.shown`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from fedtheory.parallel import as_finished
from fedtheory.plotting.figure import Figure
from fedtheory.plotting.style import house_style, save
from fedtheory.provenance import provenance, write_json
from fedtheory.report import figures_verdicts
from fedtheory.store.result_store import ResultStore, digest_of
from fedtheory.theory.judge.registry import RegisteredPaper, content_of, load_file, paper
from fedtheory.theory.judge.registry import papers as known_papers
from fedtheory.untrusted import read_json

__all__ = ["FULL", "QUICK", "Effort", "computed", "draw_all", "draw_one", "figures_of"]

VERDICTS = "verdicts"  # the chart of a campaign, which is of no paper


@dataclass(frozen=True)
class Effort:
    """The effort spent on each figure, and the resolution of the PNG.

    Attributes
    ----------
    level : which of a figure's own efforts
    given : dict name of a figure -> keyword arguments of its ``compute``, in place of that
    """

    level: Literal["quick", "full"] = "quick"
    given: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    dpi: int = 160

    def of(self, figure: Figure) -> Mapping[str, Any]:
        """Keyword arguments of a figure's ``compute``."""
        return self.given.get(figure.name, figure.full if self.level == "full" else figure.quick)


QUICK = Effort()
FULL = Effort("full", dpi=300)


def figures_of(chosen: RegisteredPaper, what: str = "figures") -> tuple[Figure, ...]:
    """The figures of a paper, or with 'on_request' its experiments and what no campaign draws."""
    return tuple(replace(figure, paper=figure.paper or chosen.id) for figure in chosen.shown(what))


@dataclass(frozen=True)
class _Job:
    """One figure to draw, in words that another process understands.

    Attributes
    ----------
    paper, sources : the paper's id, and (id, file) of it where it is from a file; of `VERDICTS` '' and of all such papers
    campaign : of `VERDICTS`
    """

    name: str
    path: Path
    seed: int
    effort: Effort
    paper: str = ""
    sources: tuple[tuple[str, str], ...] = ()
    campaign: Mapping[str, Any] | None = None

    @property
    def content(self) -> list[Any]:
        """The content that the files depend on, for `fedtheory.store.result_store.ResultStore`. It is new each time
        for a chart of verdicts, and for code that may change unseen."""
        code = content_of(paper(self.paper)) if self.campaign is None else None
        code = uuid.uuid4().hex if code is None else code
        return ["figure", self.name, str(self.path.absolute()), self.seed, repr(self.effort), code]

    def __call__(self) -> list[Path]:
        """Compute, draw, write."""
        known = {p.id for p in known_papers()}
        for id, source in self.sources:
            if id not in known:
                load_file(source)
        if self.campaign is None:
            figure = next(f for f in figures_of(paper(self.paper)) if f.name == self.name)
            return draw_one(figure, self.path.parent, self.seed, self.effort)
        return draw_one(figures_verdicts.FIGURE, self.path.parent, self.seed, self.effort, figures_verdicts.compute(self.campaign))


def computed(figure: Figure, seed: int = 0, effort: Effort = QUICK, **given: Any) -> Any:
    """The data of one figure, computed in this process; ``given``: what the figure may take (`Figure.takes`)."""
    taken = {name: value for name, value in given.items() if name in figure.takes}
    return figure.compute(**({"seed": seed} if figure.seeded else {}), **taken, **effort.of(figure))


def draw_one(figure: Figure, folder: Path, seed: int = 0, effort: Effort = QUICK, data: Any = None) -> list[Path]:
    """One figure, computed (unless its data are given) and drawn in this process: its PNG, its PDF,
    and a JSON.

    The JSON has the data, where they come from, and the words that a page shows beside the picture:
    title, caption, paper, number.
    """
    data = computed(figure, seed, effort) if data is None else data
    with house_style():
        files = save(figure.draw(data), folder / figure.name, effort.dpi)
    words = {"figure": figure.name, "title": figure.title, "caption": figure.caption(data), "paper": figure.paper}
    content = {**words, "number": figure.number, "provenance": provenance(seed), "data": data}
    return [*files, write_json(folder / f"{figure.name}.json", content)]


def draw_all(
    out_dir: Path | str, campaign: Mapping[str, Any] | Path | str | None = None, seed: int = 0,
    progress: Callable[..., Any] | None = None, effort: Effort = QUICK,
    papers: Iterable[str] | None = None, workers: int = 1, cells: ResultStore | None = None,
) -> list[Path]:
    """Compute and draw every figure.

    Parameters
    ----------
    out_dir : folder, made if missing
    campaign : what `Campaign.to_json` returns, or the file it was written to; without it there is no chart of verdicts
    progress : callable(name)
        Called after each figure.
    papers : ids
        Only the figures of these papers; default all.
    workers : processes
    cells
        Where it is kept which figures are drawn, until all are; one whose files are still those is not drawn again.

    Returns
    -------
    list of Path
        PNG, PDF and JSON of each figure.

    Raises
    ------
    UnknownName
        No such paper.
    """
    out = Path(out_dir)
    if isinstance(campaign, Path | str):
        told: Mapping[str, Any] | None = read_json(campaign, what="a campaign")
    else:
        told = campaign
    chosen = known_papers() if papers is None else [paper(id) for id in papers]
    jobs = [
        _Job(f.name, out / f.name, seed, effort, p.id, ((p.id, p.file),) if p.file else ())
        for p in chosen
        for f in figures_of(p)
    ]
    if told is not None:
        sources = tuple((p.id, p.file) for p in known_papers() if p.file)
        jobs.append(_Job(VERDICTS, out / VERDICTS, seed, replace(effort, given={}), sources=sources, campaign=told))
    written: dict[int, list[Path]] = {}
    workers = min(workers, len(jobs))
    for i, files in as_finished(_one, jobs, workers) if cells is None else cells.compute(
        _one, jobs, [job.content for job in jobs], workers, again=_changed
    ):  # fmt: skip
        written[i] = [Path(file) for file, _ in files]
        if progress is not None:
            progress(jobs[i].name)
    return [file for i in sorted(written) for file in written[i]]


def _one(job: _Job) -> list[tuple[str, str]]:
    return [(str(file), digest_of(file)) for file in job()]


def _changed(files: list[tuple[str, str]]) -> bool:
    """True if one of the files is no longer what was written."""
    return any(not Path(file).is_file() or digest_of(Path(file)) != digest for file, digest in files)
