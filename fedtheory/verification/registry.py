"""The papers that are known, and the statements they bring.

A paper comes from the package, from another package by the entry point group ``fedtheory.papers``, or from a file that a
user names. Nothing here knows any of them by name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from fedtheory.errors import FedTheoryError, suggest
from fedtheory.verification.setting import Setting
from fedtheory.verification.statement import Statement

__all__ = [
    "ENTRY_POINTS", "Paper", "all_statements", "by_paper", "get", "paper", "paper_of", "papers", "register", "setting_of",
]  # fmt: skip

ENTRY_POINTS = "fedtheory.papers"


@dataclass(frozen=True, eq=False)
class Paper:
    """A paper whose statements are run.

    Attributes
    ----------
    id : what its statements' ids begin with
    name : as the headings say it
    about : one line on the paper
    statements : in the order of the paper
    setting : how they are judged
    printed : on what, or with what, "as printed" is judged
    rules : what the rules of a form are there; '' where there is one only
    aliases : dict other id -> id
    figures : the module with the paper's figures, a tuple ``FIGURES`` of `fedtheory.report.figures.Figure`; '' for none.
        A name, so that no figure is loaded before it is drawn.
    witnesses : the package whose folder ``witnesses`` holds the files that come with it; '' for none
    """

    id: str
    name: str
    about: str
    statements: tuple[Statement, ...]
    setting: Setting
    printed: str = "on the printed text"
    rules: str = ""
    aliases: Mapping[str, str] = field(default_factory=dict)
    figures: str = ""
    witnesses: str = ""


_PAPERS: dict[str, Paper] = {}
_STATEMENTS: dict[str, Statement] = {}
_ALIASES: dict[str, str] = {}
_LOADED: list[bool] = []


def register(paper: Paper) -> Paper:
    """Add a paper and its statements; the same paper twice is added once.

    Raises
    ------
    FedTheoryError
        Another paper of that id; a statement of another id than the paper's, twice the same one, or one without forms.
    """
    known = _PAPERS.get(paper.id)
    if known is paper:
        return paper
    if known is not None:
        raise FedTheoryError(f"two papers are called {paper.id!r}: {known.name} and {paper.name}; give one of them another id")
    ids = [s.id for s in paper.statements]
    for s in paper.statements:
        if s.paper != paper.id:
            raise FedTheoryError(f"statement {s.id} is not of paper {paper.id!r}: call it {paper.id}/{s.id.rpartition('/')[2]}")
        if ids.count(s.id) > 1:
            raise FedTheoryError(f"statement {s.id} is registered twice")
        if not s.forms:
            raise FedTheoryError(f"statement {s.id} has no form: there is nothing to judge")
    _PAPERS[paper.id] = paper
    paper.setting.paper = paper.id
    _STATEMENTS.update({s.id: s for s in paper.statements})
    _ALIASES.update(paper.aliases)
    return paper


def _load() -> None:
    """Register what installed packages bring, once. One that cannot be loaded is told, and the others are used."""
    if _LOADED:
        return
    _LOADED.append(True)  # before, as a paper may look up a statement while it is loaded
    for point in entry_points(group=ENTRY_POINTS):
        try:
            found = point.load()
            for paper in [found] if isinstance(found, Paper) else found:
                register(paper)
        except Exception as error:  # another package's code
            warnings.warn(f"the papers of {point.name} ({point.value}) are left out: {type(error).__name__}: {error}", stacklevel=2)


def papers() -> list[Paper]:
    """All papers, in the order in which they were registered."""
    _load()
    return list(_PAPERS.values())


def paper(id: str) -> Paper:
    """The paper of that id. Raises `UnknownName` with those that are known."""
    _load()
    if id not in _PAPERS:
        raise suggest(id, list(_PAPERS), "paper")
    return _PAPERS[id]


def paper_of(statement: str | Statement) -> Paper:
    """The paper of a statement, or of a statement's id."""
    return paper(statement.paper if isinstance(statement, Statement) else statement.partition("/")[0])


def setting_of(statement: str | Statement) -> Setting:
    """How a statement is judged."""
    return paper_of(statement).setting


def by_paper(items: Sequence[Any], statement: Callable[[Any], str]) -> list[tuple[Paper, list[Any]]]:
    """Items grouped by the paper of their statement, in order."""
    groups: dict[str, list[Any]] = {}
    for item in items:
        groups.setdefault(statement(item).partition("/")[0], []).append(item)
    return [(paper(id), group) for id, group in groups.items()]


def get(name: str) -> Statement:
    """The statement of that id, for example 'my-paper/theorem-3.1'.

    Raises
    ------
    UnknownName
        With the nearest ids.
    """
    _load()
    name = _ALIASES.get(name, name)
    if name not in _STATEMENTS:
        raise suggest(name, [*_STATEMENTS, *_ALIASES], "statement", "`fedtheory list` has all")
    return _STATEMENTS[name]


def all_statements(prefix: str = "") -> Sequence[Statement]:
    """All statements in the order of their papers, or those whose id starts with the prefix."""
    _load()
    return [s for s in _STATEMENTS.values() if s.id.startswith(prefix)]
