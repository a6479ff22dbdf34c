"""Failures of this package's assertions: words, and the compared data, for a figure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rates.fits import not_finite

__all__ = ["DIVERGED", "ConvergenceFailure", "check_diverged", "fail", "picturing"]


DIVERGED = "lower the step size (below 2/beta for gradient steps), or cut the run off before that entry if the claim is about less"


class ConvergenceFailure(AssertionError):
    """Raised by the assertions of `fedtheory.testing`.

    Attributes
    ----------
    title : the first line: what kind of failure it is
    evidence : dict of what was compared: 'kind' ('rate', 'contraction', 'bound', 'reaching',
        'statement'), 'title', and arrays
    """

    def __init__(self, title: str, lines: list[str], hint: str, evidence: dict[str, Any] | None = None) -> None:
        super().__init__("\n".join([title, *(f"  {line}" for line in lines), f"  What to do: {hint}"]))
        self.title = title
        self.evidence = {"kind": "", "title": title, "lines": list(lines), **(evidence or {})}

    def __reduce__(self) -> tuple[Any, ...]:  # it crosses processes; what a statement was checked on does not
        kept = {k: v for k, v in self.evidence.items() if k != "checks"}
        return _restored, (str(self), self.title, kept)

    def plot(self, path: Path | str | None = None) -> Any:
        """The figure of what was compared; with a path FILE.png, and the data as FILE.csv and FILE.json, are written.

        Raises
        ------
        InvalidInput
            Nothing was compared, so that there is nothing to draw.
        OSError
            A path where nothing can be written.
        """
        from fedtheory.testing.figures import draw, write  # matplotlib takes half a second to import

        return draw(self.evidence) if path is None else write(self.evidence, path)


def _restored(text: str, title: str, evidence: dict[str, Any]) -> ConvergenceFailure:
    """A failure as another process raised it."""
    made = ConvergenceFailure(title, [], "")
    made.args, made.evidence = (text,), evidence
    return made


ConvergenceFailure.__module__ = "fedtheory.testing"  # where users find it, and what a traceback says


def fail(title: str, lines: list[str], hint: str, evidence: dict[str, Any] | None = None) -> NoReturn:
    """Raise `ConvergenceFailure`."""
    __tracebackhide__ = True
    raise ConvergenceFailure(title, lines, hint, evidence)


@contextmanager
def picturing(evidence: dict[str, Any]) -> Iterator[None]:
    """Within it an `InvalidInput`, such as too few points in a window, has the figure of what was handed in, too."""
    try:
        yield
    except InvalidInput as error:
        told = ConvergenceFailure("No rate could be fitted.", [str(error)], "", evidence)
        vars(error).update(evidence=told.evidence, plot=partial(ConvergenceFailure.plot, told))
        raise


def check_diverged(
    name: str, values: np.ndarray, axes: tuple[str, ...], claim: str, never: bool = False, evidence: dict[str, Any] | None = None
) -> None:
    """Fail as 'diverged' where an entry is not finite; axes: what the last axes count; never: +inf is meant."""
    __tracebackhide__ = True
    if bad := not_finite(name, values, axes, never):
        fail("Run diverged.", [bad, *([claim] if claim else [])], DIVERGED, evidence)
