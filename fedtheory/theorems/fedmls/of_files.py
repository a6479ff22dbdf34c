"""Numbers of instances in fractions: read from files, drawn, and held as sides."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import fraction
from fedtheory.theorems.fedmls import lines
from fedtheory.theory import World

__all__ = [
    "OfRounds", "check_start", "clients_of", "column", "entry", "g_sq_of", "lam", "losses",
    "numbers_of", "quarter",
]


# --- as sides -------------------------------------------------------------------------------------
def entry(value: Any) -> np.ndarray:
    """One number as a side (1, 1), fractions kept as they are."""
    out = np.empty((1, 1), dtype=object if isinstance(value, Fraction | int) else float)
    out[0, 0] = value
    return out


def column(values: Sequence[Any]) -> np.ndarray:
    """Numbers as a side (n, 1)."""
    return np.concatenate([entry(v) for v in values])


# --- from the data of a file ----------------------------------------------------------------------
def numbers_of(data: dict[str, Any], *names: str, positive: Sequence[str] = ()) -> list[Fraction]:
    """Fractions of these names.

    Raises
    ------
    InvalidInput
        No fraction, or one that is not > 0 among the ``positive``.
    """
    out = [fraction(data[name], name) for name in names]
    for name, value in zip(names, out, strict=True):
        if name in positive and value <= 0:
            raise InvalidInput(f"{name} = {value}: it must be > 0")
    return out


def clients_of(data: dict[str, Any]) -> tuple[lines.Lines, ...]:
    """The losses, from slopes and offsets: a row of pieces for every client."""
    return lines.read_losses(data["slopes"], data["offsets"])


def g_sq_of(clients: Sequence[lines.Lines], radius: Fraction) -> Fraction:
    """G^2, the mean of the squared lengths of the longest subgradients on the ball."""
    return lines.mean([lines.steepest(c, radius) ** 2 for c in clients])


def check_start(x0: Fraction, radius: Fraction) -> None:
    """Raise `InvalidInput` for a start outside the ball."""
    if abs(x0) > radius:
        raise InvalidInput(f"x_0 = {x0} is outside the ball of radius {radius}: start inside")


# --- drawn ----------------------------------------------------------------------------------------
def quarter(rng: Any, most: int = 8) -> Fraction:
    """A multiple of 1/4 from -most/4 to most/4."""
    return Fraction(int(rng.integers(-most, most + 1)), 4)


def losses(rng: Any, clients: int) -> dict[str, Any]:
    """Slopes and offsets of one to three pieces for every client, the first slope not 0."""
    drawn = [_loss(rng, int(rng.integers(1, 4))) for _ in range(clients)]
    return {"slopes": [a for a, _ in drawn], "offsets": [b for _, b in drawn]}


def _loss(rng: Any, pieces: int) -> tuple[list[Fraction], list[Fraction]]:
    slopes = [quarter(rng, 12) for _ in range(pieces)]
    slopes[0] = slopes[0] or Fraction(1)
    return slopes, [quarter(rng, 4) for _ in range(pieces)]


def lam(rng: Any) -> Fraction:
    """A lambda from 1/64 to 8."""
    return Fraction(int(rng.integers(1, 33)), int(rng.choice([4, 16, 64])))


# --- worlds ---------------------------------------------------------------------------------------
class OfRounds(World):
    """Runs of K rounds, whose forms tell exact subgradients from noisy ones."""

    rule = "deterministic"
    horizon: ClassVar[str] = "K"
    searched = ("deterministic",)  # what is drawn is in fractions
    K: int

    @property
    def horizons(self) -> np.ndarray:
        """(1,) K, the round that a bound on F(x_K) - F* is about."""
        return np.array([self.K])
