"""The checks of one statement together: in a sentence, as a table, as a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedtheory.provenance import provenance
from fedtheory.theory.judge.case import Case
from fedtheory.theory.judge.check import Check
from fedtheory.theory.judge.comparison import comparison
from fedtheory.theory.judge.statement import Statement
from fedtheory.theory.judge.summary import as_html, as_rows, as_sentence, reasons_once

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Checks"]


class Checks(list[Check]):
    """Checks of one statement: they print as a sentence and a line each, and Jupyter shows them as a table.

    Parameters
    ----------
    checks : one a form
    statement : what was checked, where it is known
    again : callable(rounds) -> the checks of a shorter run, where there is one
    setup : what was run, in words
    case : what was run, where it is a problem of the user's
    """

    def __init__(
        self, checks: Iterable[Check] = (), statement: Statement | None = None,
        again: Callable[..., Iterable[Check]] | None = None, setup: str = "", case: Case | None = None,
    ) -> None:  # fmt: skip
        super().__init__(checks)
        self.statement, self.again, self.setup, self.case = statement, again, setup, case

    def __str__(self) -> str:
        reasons = reasons_once(self, self.statement)
        lines = [str(replace(check, reason=reason)) for check, reason in zip(self, reasons, strict=True)]
        return "\n".join([self.sentence, *lines])

    def _repr_html_(self) -> str:
        return as_html(self, self.statement)

    @property
    def sentence(self) -> str:
        """The finding in words: 'As printed it is false here: at T = 43 the left side is 0.53, the bound 0.12. ...'."""
        return as_sentence(self, self.statement)

    def rows(self) -> list[dict[str, Any]]:
        """One dict a check, for `pandas.DataFrame`; see `fedtheory.theory.judge.summary.as_rows`."""
        return as_rows(self)

    def plot(
        self,
        path: Path | str | None = None,
        *,
        size: str = "page",
        title: bool = True,
        forms: Iterable[str] | None = None,
        worst: bool | None = None,
        setup: str | None = None,
        on_progress: Callable[[], None] | None = None,
        rounds: int | Literal["auto"] | None = "auto",
        tell: Callable[[str], Any] | None = None,
    ) -> Figure:
        """Bound, as each form has it, against what was measured: over the rounds, or entry by entry where there is no horizon.

        Where nobody chose a horizon the picture goes on to 300 rounds, or as many as some ten seconds allow: exactly, or by the
        mean of seeded runs with its interval. The verdicts are those of before.

        Parameters
        ----------
        path : where to write FILE.png, FILE.pdf and FILE.csv, which has the data and from which `fedtheory draw` draws again;
            default nowhere
        size : 'page', 'neurips', 'icml', 'ieee' or 'slide' (`fedtheory.plotting.style.SIZES`)
        title : whether the finding stands above, and what was run
        forms, worst, setup, on_progress, rounds, tell : as of `compared`

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        UnknownName
            Another size.
        OSError
            A path where nothing can be written.
        """
        from fedtheory.plotting.bound_against_measured import draw  # matplotlib takes half a second to import
        from fedtheory.plotting.saved import write
        from fedtheory.plotting.style import house_style

        with house_style(size):
            data = self.compared(
                forms=forms, worst=worst, setup=setup, on_progress=on_progress, rounds=rounds, tell=tell
            )
            if path is not None:
                figure: Figure = write(data, path, {"provenance": provenance()}, size=size, title=title)[1]
                return figure
            return draw(data, title)

    compared = comparison

    @property
    def verdict(self) -> str:
        """Verdict of the repaired form where there is one, else of the first form."""
        repaired = [c for c in self if c.form == "repaired"] or list(self)
        for verdict in ("violated", "inconclusive", "not applicable"):
            if any(c.verdict == verdict for c in repaired):
                return verdict
        return "holds"
