"""The checks of one statement together: in a sentence, as a table, as a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fedtheory.errors import InvalidInput
from fedtheory.provenance import provenance
from fedtheory.theory.judge.case import Case
from fedtheory.theory.judge.check import Check
from fedtheory.theory.judge.comparison import comparison
from fedtheory.theory.judge.longer import ROUNDS
from fedtheory.theory.judge.statement import Form, Statement
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
        forms : names of the forms to draw; default the printed and the repaired one, or all where they are few
        worst : whether the worst case of all problems is drawn, where there is a programme for it; it takes a second or two; default
            where it has the same parameters
        setup : what was run, in words; default as `Statement.verify` says it
        on_progress : callable, after every shorter run
        rounds : up to which a picture goes on; None as far as was judged, "auto" 300 where nobody chose a horizon
        tell : callable(text), with how long that takes, where it takes seconds

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        InvalidInput
            Checks that `Statement.verify` did not make, or none that compared anything.
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

    def compared(
        self,
        *,
        forms: Iterable[str] | None = None,
        worst: bool | None = None,
        setup: str | None = None,
        on_progress: Callable[[], None] | None = None,
        rounds: int | Literal["auto"] | None = "auto",
        tell: Callable[[str], Any] | None = None,
    ) -> dict[str, Any]:
        """Give what `plot` draws, as plain values; parameters and errors as of `plot`."""
        if self.statement is None:
            raise InvalidInput("these checks do not know their statement, so there is nothing to draw: make them by Statement.verify")
        if rounds == "auto":
            chosen = self.case is None or self.case.rounds is not None or self.case.of_rounds
            rounds = None if chosen else ROUNDS
        return comparison(
            self, self.statement, self.again, forms=forms, worst=self._worst_belongs if worst is None else worst,
            setup=self.setup if setup is None else setup, on_progress=on_progress, rounds=rounds, tell=tell,
        )  # fmt: skip

    def _worst_belongs(self, form: Form) -> bool:
        """True if the worst case of a form has just the parameters of this case."""
        return self.case is not None and form.worst is not None and form.worst.belongs(self.case)

    @property
    def verdict(self) -> str:
        """Verdict of the repaired form where there is one, else of the first form."""
        repaired = [c for c in self if c.form == "repaired"] or list(self)
        for verdict in ("violated", "inconclusive", "not applicable"):
            if any(c.verdict == verdict for c in repaired):
                return verdict
        return "holds"
