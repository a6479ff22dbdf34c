"""E[(X - 2)_+ Y] for X = sum p_tau^k and Y = sum p_tau^k s^k, the expectation of a product that EFL's Theorem 1 needs.

Clients are independent, so the joint law of what is needed is built client by client. Where all terms of X are multiples of one h
that is not too small (equal weights, sample counts), the value is exact. Otherwise each term is spread onto its two neighbours on a
fine grid with its mean kept. (X - 2)_+ is convex, so this can only enlarge the expectation: a certified upper bound. The noise of the
spread has E[noise_+] <= its standard deviation / 2, and changes nothing where it does not cross 2: the lower bound.
"""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from fedtheory.errors import InvalidInput

__all__ = ["Overlap", "overlap_of_complete", "overlap_of_sums"]

MAX_STATES = 20_000  # values of the sums in exact arithmetic
MAX_WORK = 1_000_000_000  # multiplications of an exact grid of floats
CELLS = 2**14  # of a grid that weights do not fit


class Overlap(NamedTuple):
    """An expectation, or a certified bracket of it."""

    value: Any
    lower: Any
    exact: bool

    @classmethod
    def none(cls, exact: bool) -> Overlap:
        zero = Fraction(0) if exact else 0.0
        return cls(zero, zero, True)

    def __truediv__(self, number: Any) -> Overlap:
        return Overlap(self.value / number, self.lower / number, self.exact)


def _too_many(states: int) -> InvalidInput:
    return InvalidInput(
        f"the sums take more than {states} values: use exact=False, whose bound is certified, or fewer clients"
    )


def _unit(values: np.ndarray, cells: float) -> float | None:
    """The largest h that all values are multiples of, up to rounding; None unless their largest has at most `cells` of it."""
    numerator, denominator = 0, 1
    for v in np.unique(values):
        near = Fraction(float(v)).limit_denominator(10**6)
        if abs(float(near) - v) > 1e-14 * v:
            return None
        denominator = math.lcm(denominator, near.denominator)
        numerator = math.gcd(numerator, near.numerator)
        if denominator > numerator * cells / v:
            return None
    return numerator / denominator


def _spread(values: np.ndarray, unit: float | None, cell: float) -> tuple[float, np.ndarray, np.ndarray]:
    """h, and for each value its multiple of h from below and the chance of the next, which keeps its mean."""
    if unit is not None:
        return unit, np.rint(values / unit), np.zeros_like(values)
    low = np.floor(values / cell)
    return cell, low, values / cell - low


def overlap_of_sums(terms: np.ndarray, chance: np.ndarray, gain: np.ndarray, exact: bool) -> Overlap:
    """X = sum of one of each client's terms (or 0), Y = sum of the gains of clients that have a term.

    Parameters
    ----------
    terms, chance : (N, L)
        Values and their probabilities; with the remaining probability a client adds 0 to both.
    gain : (N,)
    """
    used = np.where(chance > 0, terms, terms * 0)
    if used.max(axis=1).sum() <= 2:
        return Overlap.none(exact)
    if exact:
        return _sums_exactly(terms, chance, gain)
    top = used.max(axis=1).sum()
    most = MAX_WORK / (2 * np.count_nonzero(chance)) * used.max() / top
    unit = _unit(used[chance > 0], most)
    h, low, part = _spread(used, unit, top / CELLS)
    size = int((low + (part > 0)).max(axis=1).sum()) + 1
    mass, mean, reach = np.zeros(size), np.zeros(size), 1  # P(X = x) and E[Y; X = x]
    mass[0] = 1.0
    for k in range(len(terms)):
        rest = max(0.0, 1.0 - chance[k].sum())
        new_mass, new_mean, far = mass * rest, mean * rest, reach
        for at, up, q in zip(low[k].astype(int), part[k], chance[k]):
            for shift, chance_of in ((at, q * (1 - up)), (at + 1, q * up)):
                if chance_of > 0:
                    new_mass[shift : shift + reach] += chance_of * mass[:reach]
                    new_mean[shift : shift + reach] += chance_of * (mean[:reach] + gain[k] * mass[:reach])
                    far = max(far, shift + reach)
        mass, mean, reach = new_mass, new_mean, far
    x = np.arange(size) * h
    value = float((np.maximum(x - 2, 0) * mean).sum())
    if unit is not None:
        return Overlap(value, value, True)
    deviation = math.sqrt((part * (1 - part)).max(axis=1).sum()) * h
    near = np.abs(x - 2) <= 2 * len(terms) * h  # the noise is at most len(terms) * h: elsewhere it does not cross 2
    return Overlap(value, max(0.0, value - deviation / 2 * float(mean[near].sum())), False)


def _sums_exactly(terms: np.ndarray, chance: np.ndarray, gain: np.ndarray) -> Overlap:
    states: dict[Fraction, tuple[Any, Any]] = {Fraction(0): (Fraction(1), Fraction(0))}
    for x, q, y in zip(terms, chance, gain):
        options = [(Fraction(0), 1 - q.sum(), Fraction(0)), *((a, b, y) for a, b in zip(x, q))]
        options = [o for o in options if o[1] > 0]
        after: dict[Fraction, list[Any]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
        for at, (mass, mean) in states.items():
            for step, prob, add in options:
                cell = after[at + step]
                cell[0] += prob * mass
                cell[1] += prob * (mean + add * mass)
            if len(after) > MAX_STATES:
                raise _too_many(MAX_STATES)
        states = {at: (cell[0], cell[1]) for at, cell in after.items()}
    value = sum(((at - 2) * mean for at, (_, mean) in states.items() if at > 2), Fraction(0))
    return Overlap(value, value, True)


def overlap_of_complete(
    chance: np.ndarray, weights: np.ndarray, max_steps: int, exact: bool, size: int | None = None
) -> Overlap:
    """Scheme A: X = n W / K, W the weight of the K complete clients of n, Y = E X.

    Parameters
    ----------
    chance : (n,)
        P(complete), independent.
    size : int or None
        Condition on K = size (with equal chances: a cohort drawn uniformly).
    """
    n = len(weights)
    most = n * weights[chance > 0].max() if (chance > 0).any() else 0
    if most <= 2:  # a mean of weights, n times
        return Overlap.none(exact)
    if exact:
        return _complete_exactly(chance, weights, max_steps, size)
    total = weights.sum()
    unit = _unit(weights, MAX_WORK / (2 * n * n) * weights.max() / total)
    h, low, part = _spread(weights, unit, total / CELLS)
    cells = int((low + (part > 0)).sum()) + 1
    law, reach = np.zeros((n + 1, cells)), 1
    law[0, 0] = 1.0
    for k in range(n):
        old, at = law[: k + 1, :reach].copy(), int(low[k])
        law[: k + 1, :reach] *= 1 - chance[k]
        for shift, q in ((at, chance[k] * (1 - part[k])), (at + 1, chance[k] * part[k])):
            if q > 0:
                law[1 : k + 2, shift : shift + old.shape[1]] += q * old
                reach = max(reach, shift + old.shape[1])
    counts = np.arange(1, n + 1)
    law = law[1:] if size is None else law[1:] * (counts == size)[:, None] / law[size].sum()
    x = n * h * np.arange(cells) / counts[:, None]
    value = max_steps * float((np.maximum(x - 2, 0) * x * law).sum())
    if unit is not None:
        return Overlap(value, value, True)
    # f(x) = (x - 2)_+^2 + 2 (x - 2)_+, so E f(x + noise) - f(x) <= variance + deviation, and 0 where the noise stays below 2
    deviation = (n * h / (2 * np.sqrt(counts)))[:, None]
    gap = (deviation**2 * (x > 2 - 2 * n * h) + deviation * (np.abs(x - 2) <= 2 * n * h)) * law
    return Overlap(value, max(0.0, value - max_steps * float(gap.sum())), False)


def _complete_exactly(chance: np.ndarray, weights: np.ndarray, max_steps: int, size: int | None) -> Overlap:
    states: dict[tuple[int, Fraction], Any] = {(0, Fraction(0)): Fraction(1)}
    for q, w in zip(chance, weights):
        after: dict[tuple[int, Fraction], Any] = defaultdict(Fraction)
        for (count, weight), mass in states.items():
            if q < 1:
                after[count, weight] += (1 - q) * mass
            if q > 0:
                after[count + 1, weight + w] += q * mass
            if len(after) > MAX_STATES:
                raise _too_many(MAX_STATES)
        states = dict(after)
    if size is not None:
        states = {at: mass for at, mass in states.items() if at[0] == size}
    total = sum(states.values()) if size is not None else Fraction(1)
    value = Fraction(0)
    for (count, weight), mass in states.items():
        x = len(weights) * weight / count if count else Fraction(0)
        if x > 2:
            value += (x - 2) * x * mass
    return Overlap(max_steps * value / total, max_steps * value / total, True)
