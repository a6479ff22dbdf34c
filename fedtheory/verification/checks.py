"""The checks of one statement together: in a sentence, as a table, as a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtheory.errors import InvalidInput
from fedtheory.provenance import provenance
from fedtheory.verification.check import Check
from fedtheory.verification.comparison import comparison
from fedtheory.verification.statement import Statement
from fedtheory.verification.summary import as_html, as_rows, as_sentence, reasons_once

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
    """

    def __init__(
        self, checks: Iterable[Check] = (), statement: Statement | None = None,
        again: Callable[[int], Iterable[Check]] | None = None, setup: str = "",
    ) -> None:  # fmt: skip
        super().__init__(checks)
        self.statement, self.again, self.setup = statement, again, setup

    def __str__(self) -> str:
        reasons = reasons_once(self, self.statement)
        lines = [str(replace(check, reason=reason)) for check, reason in zip(self, reasons, strict=True)]
        return "\n".join([self.sentence, *lines])

    def _repr_html_(self) -> str:
        return as_html(self, self.statement)

    @property
    def sentence(self) -> str:
        """What was found: 'As printed it is false here: at T = 43 the left side is 0.53, the bound 0.12. As repaired it holds ...'."""
        return as_sentence(self, self.statement)

    def rows(self) -> list[dict[str, Any]]:
        """One dict a check, for `pandas.DataFrame`; see `fedtheory.verification.summary.as_rows`."""
        return as_rows(self)

    def plot(
        self,
        path: Path | str | None = None,
        *,
        forms: Iterable[str] | None = None,
        worst: bool = True,
        setup: str | None = None,
        on_progress: Callable[[], None] | None = None,
    ) -> Figure:
        """Bound, as each form has it, against what was measured: over the horizon, or entry by entry where there is none.

        Parameters
        ----------
        path : where to write FILE.png, FILE.pdf and FILE.csv, which has the data and from which `fedtheory draw` draws again;
            default nowhere
        forms : names of the forms to draw; default the printed and the repaired one, or all where they are few
        worst : whether the worst case of all problems is drawn, where there is a programme for it; it takes a second or two
        setup : what was run, in words; default as `Statement.verify` says it
        on_progress : callable, after every shorter run

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        InvalidInput
            Checks that `Statement.verify` did not make, or none that compared anything.
        OSError
            A path where nothing can be written.
        """
        from fedtheory.plotting.bound_against_measured import draw  # matplotlib takes half a second to import
        from fedtheory.plotting.saved import write
        from fedtheory.plotting.style import house_style

        data = self.compared(forms=forms, worst=worst, setup=setup, on_progress=on_progress)
        if path is not None:
            figure: Figure = write(data, path, {"provenance": provenance()})[1]
            return figure
        with house_style():
            return draw(data)

    def compared(
        self,
        *,
        forms: Iterable[str] | None = None,
        worst: bool = True,
        setup: str | None = None,
        on_progress: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """What `plot` draws, as plain values; parameters and errors as of `plot`."""
        if self.statement is None:
            raise InvalidInput("these checks do not know their statement, so there is nothing to draw: make them by Statement.verify")
        told = self.setup if setup is None else setup
        return comparison(self, self.statement, self.again, forms=forms, worst=worst, setup=told, on_progress=on_progress)

    @property
    def verdict(self) -> str:
        """Verdict of the repaired form where there is one, else of the first form."""
        repaired = [c for c in self if c.form == "repaired"] or list(self)
        for verdict in ("violated", "inconclusive", "not applicable"):
            if any(c.verdict == verdict for c in repaired):
                return verdict
        return "holds"
