"""The entries that a check compared: kept on a problem of the user's, for a picture; never in a
campaign."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedtheory.theory.judge.statement import Sides

__all__ = ["MOST", "Series", "horizons_of", "keeping", "kept_of", "with_horizon"]

MOST = 2000  # entries that are kept: the tightest half of them, others evenly, and two by `_chosen`
MOST_TERMS = 6
ROUNDING = 4 * 2.0**-52  # of the size of all terms

_keeping: ContextVar[bool] = ContextVar("fedtheory_keeping_series", default=False)


@dataclass(frozen=True)
class Series:
    """The two sides of a comparison, entry by entry; of scenarios (Monte Carlo) their means.

    Attributes
    ----------
    lhs, rhs, slack : (n,)
        What is measured, the bound, and (rhs - lhs)/(the size of all terms).
    floor : (n,)
        Up to here a side is 0 as far as rounding, and what is not known of the optimum, let one
        tell.
    violated : (n,) of bools
        The entries by which the check would be judged violated, had it no other.
    lhs_error, rhs_error, slack_error : (n,) or None
        Standard errors over scenarios, the last of rhs - lhs; None where nothing is random.
    quantile : what a standard error is multiplied with: the interval has the confidence of the
        check
    terms : (t, n) or None
        The terms of the right side, in the order in which they were added.
    index, axes : (n, k), and what each of the k axes that are longer than 1 counts ('' where that
        is not known)
    total : how many entries were compared; more than n where only some are kept
    horizon, at : the letter of the horizon ('T', 'tau', 'K', 't', 'round') and its value in every
        entry, (n,); '' and None where the entries are no horizons
    """

    lhs: np.ndarray
    rhs: np.ndarray
    slack: np.ndarray
    floor: np.ndarray
    violated: np.ndarray
    index: np.ndarray
    axes: tuple[str, ...]
    total: int
    lhs_error: np.ndarray | None = None
    rhs_error: np.ndarray | None = None
    slack_error: np.ndarray | None = None
    quantile: float = 0.0
    terms: np.ndarray | None = None
    horizon: str = ""
    at: np.ndarray | None = None

    @property
    def end(self) -> int:
        """Its last horizon; 0 where its entries are none."""
        return 0 if self.at is None else int(self.at.max())

    def along(self, horizons: np.ndarray, letter: str) -> Series:
        """The same, whose rows are these horizons."""
        several = len(horizons) > 1 and self.index.shape[1] > 0
        rows = self.index[:, 0] if several else np.zeros(len(self.lhs), dtype=int)
        return replace(self, horizon=letter, at=horizons[rows])

    def where(self, i: int) -> str:
        """The entry in words: 'T = 4', 'state 3, client 0'; '' where there is one only."""
        if self.at is not None:
            return f"{self.horizon} = {int(self.at[i])}"
        if self.total == 1:
            return ""
        return ", ".join(
            f"{axis or 'entry'} {int(k)}" for axis, k in zip(self.axes, self.index[i], strict=True)
        )


@contextmanager
def keeping() -> Iterator[None]:
    """Within it every check that is made keeps its `Series`."""
    token = _keeping.set(True)
    try:
        yield
    finally:
        _keeping.reset(token)


def kept_of(
    sides: Sides, violated: np.ndarray, quantile: float = 0.0, scenarios: bool = False
) -> Series | None:
    """The series of two sides; None outside `keeping`.

    Parameters
    ----------
    violated : (n,) of bools, the entries that violate the form as the check judges them
    scenarios : whether the last axis is one of equally likely runs, to be averaged
    """
    if not _keeping.get():
        return None
    shape = np.shape(sides.lhs)
    lhs, rhs, scale = (np.asarray(a, dtype=float) for a in (sides.lhs, sides.rhs, sides.scale))
    errors: dict[str, Any] = {}
    terms = _terms(sides, shape)
    if scenarios:
        count = shape[-1]
        errors = {
            f"{n}_error": v.std(axis=-1, ddof=1) / np.sqrt(count)
            for n, v in (("lhs", lhs), ("rhs", rhs), ("slack", rhs - lhs))
        }
        lhs, rhs, scale = lhs.mean(axis=-1), rhs.mean(axis=-1), scale.mean(axis=-1)
        terms, shape = None if terms is None else terms.mean(axis=-1), shape[:-1]
    size = int(np.prod(shape))
    exact = np.asarray(sides.lhs).dtype == object
    noise = np.asarray(sides.noise, dtype=float)
    noise = noise if noise.ndim == 0 or noise.shape == shape else np.asarray(noise.max())
    floor = 0 * scale if exact else noise + ROUNDING * scale
    flat = [
        np.broadcast_to(a, shape).reshape(size)
        for a in (lhs, rhs, scale, floor, violated.reshape(shape))
    ]
    slack = (flat[1] - flat[0]) / np.maximum(flat[2], np.finfo(float).tiny)
    chosen = _chosen(slack, flat[4])
    long = [i for i, n in enumerate(shape) if n > 1]
    index = (
        np.stack(np.unravel_index(chosen, shape), axis=1)[:, long] if long
        else np.zeros((size, 0), dtype=int)
    )
    axes = tuple(sides.axes[i] if len(sides.axes) == len(sides.lhs.shape) else "" for i in long)
    return Series(
        flat[0][chosen], flat[1][chosen], slack[chosen], flat[3][chosen], flat[4][chosen], index,
        axes, size, quantile=quantile,
        terms=None if terms is None else terms.reshape(len(terms), size)[:, chosen],
        **{name: value.reshape(size)[chosen] for name, value in errors.items()},
    )  # fmt: skip


def _terms(sides: Sides, shape: tuple[int, ...]) -> np.ndarray | None:
    """The terms of a bound, where there are several and not many."""
    if sides.relation != "<=" or not 3 <= len(sides.terms) <= MOST_TERMS + 1:
        return None
    return np.stack([np.broadcast_to(np.asarray(t, dtype=float), shape) for t in sides.terms[1:]])


def _chosen(slack: np.ndarray, violated: np.ndarray) -> np.ndarray:
    """The entries that are kept, in order: all of a few; of many the tightest half, others evenly.

    The first that is violated and the last that is not are kept too, so that words about where a
    form fails first, and whether it does from there on, stay true.
    """
    if len(slack) <= MOST:
        return np.arange(len(slack))
    order = np.argsort(slack, kind="stable")
    half = MOST // 2
    rest = order[half:][np.linspace(0, len(order) - half - 1, half).round().astype(int)]
    told = [np.flatnonzero(violated)[:1], np.flatnonzero(~violated)[-1:]]
    return np.unique(np.concatenate([order[:half], rest, *told]))


def horizons_of(view: Any, total: int) -> np.ndarray | None:
    """Give the horizons of so many entries: the view's ``horizons``, or those after the start."""
    every = np.asarray(getattr(view, "horizons", ()))
    later = every[every > 0]
    return next((values.astype(int) for values in (every, later) if total == len(values) > 0), None)


def with_horizon(series: Series, view: Any) -> Series:
    """The series with the horizon of every entry, where the view has some, or entries are rounds.

    Entries along more than one axis have no horizon.
    """
    if series.axes == ("round",):
        return replace(series, horizon="round", at=series.index[:, 0])
    values = horizons_of(view, series.total)
    if values is None or series.index.shape[1] > 1:
        return series
    return series.along(values, getattr(view, "horizon", "T"))
