"""A nonsmooth convex F as a sum of kinks, maxima and distances: its value, and Fenchel dual bounds
over a ball, in enclosures.

The dual: every F here is max_s <P(s), x> - c(s) + ridge/2 ||x||^2 over multipliers s,

    max(low z, high z)  = max {u z : low <= u <= high}              z = a'x - b
    W max_j (a_j'x + b_j) = max {sum_j s_j (a_j'x + b_j) : s >= 0, sum_j s_j = W}
    w ||x - c||         = max {q'(x - c) : ||q|| <= w}

so that for any feasible multipliers, with P the sum of all slopes and r = ||x||,

    F* >= -c + min over 0 <= r <= R of  -r ||P|| + ridge r^2 / 2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.inputs import real_number
from fedtheory.optimum.intervals import ROUNDOFF, TINY, UP, Enclosure, Rows, dot, stack_sum

__all__ = ["Multipliers", "NonsmoothStructure", "check_gap", "check_radius", "into_ball"]

SHRINK = 1 - 2.0**-49
A_LITTLE = 1 + 2.0**-50  # covers a few roundings
WIDEST = 1e150  # of a ball


def check_radius(radius: Any, finite: bool = True) -> float:
    """radius as a float; `InvalidInput` unless it is > 0 (and finite, where asked)."""
    ok = isinstance(radius, int | float | np.integer | np.floating) and not isinstance(radius, bool) and radius > 0
    if not ok or (finite and not np.isfinite(radius)):
        raise InvalidInput(f"radius is {radius!r}: the ball needs a {'finite ' if finite else ''}number > 0")
    if finite and float(radius) > WIDEST:
        raise InvalidInput(
            f"radius is {float(radius)!r}: it must be at most {WIDEST:g}, so that its square is a float; rescale the data"
        )
    return float(radius)


def check_gap(gap: Any) -> float:
    """gap as a float; `InvalidInput` unless it is a finite number > 0."""
    return real_number("gap", gap, above=0, remedy="for example 1e-9")


def _nothing() -> Enclosure:
    return Enclosure.exact(np.zeros(0))


def _zero() -> Enclosure:
    return Enclosure.exact(0.0)


@dataclass(frozen=True)
class Multipliers:
    """u (m,) of the kinked terms, s (G, p) of the groups, q (c, d) of the distances, top (d,) of the largest coordinate."""

    u: np.ndarray
    s: np.ndarray
    q: np.ndarray
    top: np.ndarray


@dataclass(frozen=True)
class NonsmoothStructure:
    """F(x) = sum_j max(low_j z_j, high_j z_j) + sum_g W_g max_j (slopes_gj'x + intercepts_gj) +
    sum_c w_c ||x - centers_c||
    + top_weight max_i x_i + linear'x + ridge/2 ||x||^2,  z = rows x - offsets.

    Data are exact float64, coefficients are enclosures. rows (m, d), slopes (G, p, d), centers (c,
    d), linear (d,) or None; top_weight is 0 where there is no such term. low <= 0 <= high is not
    needed, low <= high is.
    """

    dim: int
    rows: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    offsets: np.ndarray = field(default_factory=lambda: np.zeros((0,)))
    low: Enclosure = field(default_factory=_nothing)
    high: Enclosure = field(default_factory=_nothing)
    slopes: np.ndarray = field(default_factory=lambda: np.zeros((0, 1, 0)))
    intercepts: np.ndarray = field(default_factory=lambda: np.zeros((0, 1)))
    group_weights: Enclosure = field(default_factory=_nothing)
    centers: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    center_weights: Enclosure = field(default_factory=_nothing)
    top_weight: Enclosure = field(default_factory=_zero)
    linear: Enclosure | None = None
    ridge: Enclosure = field(default_factory=_zero)

    @cached_property
    def _rows(self) -> Rows:
        return Rows(self.rows)

    @cached_property
    def _columns(self) -> Rows:
        return Rows(np.ascontiguousarray(self.rows.T))

    def value(self, x: np.ndarray) -> Enclosure:
        """An enclosure of F(x), x (d,) exact."""
        total = Enclosure.exact(0.0)
        if len(self.rows):
            z = self._rows.dot(x[None])[:, 0] - self.offsets
            total = total + (self.high * z.clip(0.0, np.inf) + self.low * z.clip(-np.inf, 0.0)).sum()
        if len(self.slopes):
            groups, pieces, _ = self.slopes.shape
            flat = dot(self.slopes.reshape(groups * pieces, self.dim), x[None])[:, 0] + self.intercepts.ravel()
            total = total + (self.group_weights * _largest(flat, groups, pieces)).sum()
        if len(self.centers):
            r = Enclosure.exact(x) - self.centers
            total = total + (self.center_weights * _root(Enclosure(*_transposed(r * r)).sum())).sum()
        if float(self.top_weight.mag) > 0:
            total = total + self.top_weight * float(x.max())
        if self.linear is not None:
            total = total + (self.linear * x).sum()
        return total + self.ridge * (Enclosure.exact(x) * x).sum() * 0.5

    def bound(self, m: Multipliers, radius: float) -> tuple[float, Enclosure]:
        """(a number that F* on the ball is not below, an enclosure of the slope P (d,));
        multipliers are made feasible first."""
        constant, slope = self.dual(m)
        return self.least(constant, slope, radius), slope

    def dual(self, m: Multipliers) -> tuple[Enclosure, Enclosure]:
        """Enclosures of the dual's constant -c and of its slope P (d,) at multipliers, which are made feasible first."""
        constant, slope = Enclosure.exact(0.0), Enclosure.exact(np.zeros(self.dim))
        if len(self.rows):
            u = np.clip(m.u, self.low.upper, self.high.lower)
            constant = constant - (Enclosure.exact(u) * self.offsets).sum()
            slope = slope + self._columns.dot(u[None])[:, 0]
        if len(self.slopes):
            s = stack_sum([_on_simplex(row, self.group_weights[g]) for g, row in enumerate(m.s)])
            constant = constant + (s * self.intercepts).sum().sum()
            slope = slope + (s[:, :, None] * self.slopes).sum().sum()
        if len(self.centers):
            most, pulls = self.center_weights.lower, m.q
            if into_ball(pulls, most) is not pulls:
                # those that are a little too large shrink alike, so that they still cancel
                pulls = into_ball(pulls * SHRINK, most)
            q = Enclosure.exact(pulls)
            constant = constant - (q * self.centers).sum().sum()
            slope = slope + q.sum()
        if float(self.top_weight.mag) > 0:
            slope = slope + _on_simplex(m.top, self.top_weight)
        if self.linear is not None:
            slope = slope + self.linear
        return constant, slope

    def least(self, constant: Enclosure, slope: Enclosure, radius: float) -> float:
        """A number that constant + <slope, x> + ridge/2 ||x||^2 is not below on the ball."""
        norm, ridge = _norm(slope), float(self.ridge.lower)
        size = float(norm.upper)
        if ridge > 0 and size < ridge * radius * (1 + 1e-12):
            # the minimum over all r >= 0, a bound whatever the radius; size^2 alone may underflow
            least = size / (2 * ridge) * size * A_LITTLE + (TINY if size else 0.0)
            drop = Enclosure.exact(least)
        else:
            drop = norm * radius - Enclosure.exact(radius) * radius * (ridge / 2)
        return float((constant - drop).lower)


def _transposed(numbers: Enclosure) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    shape = np.broadcast_shapes(np.shape(numbers.hi), np.shape(numbers.lo), np.shape(numbers.rad))
    high, low, radius = (np.broadcast_to(a, shape).T for a in (numbers.hi, numbers.lo, numbers.rad))
    return high, low, radius


def _largest(flat: Enclosure, groups: int, pieces: int) -> Enclosure:
    """Enclosures (G,) of the largest of each group's pieces."""
    parts = Enclosure(*(np.reshape(np.broadcast_to(a, (groups * pieces,)), (groups, pieces)) for a in (flat.hi, flat.lo, flat.rad)))
    first, every = parts.hi.argmax(axis=1), np.arange(groups)
    chosen = parts[every, first]
    above = (parts.upper.max(axis=1) - chosen.hi) - chosen.lo
    return Enclosure(chosen.hi, chosen.lo, np.maximum(chosen.rad, np.maximum(above, 0.0) * UP + ROUNDOFF * np.abs(chosen.lo)))


def _root(square: Enclosure) -> Enclosure:
    """Square roots of enclosed numbers >= 0."""
    r = np.sqrt(np.maximum(square.hi, 0.0))
    rest = square - Enclosure.exact(r) * r
    safe = np.where(r > 0, r, 1.0)
    step, miss = (rest.hi + rest.lo) / (2 * safe), rest.mag
    # |sqrt(r^2 + e) - r - e/(2r)| <= e^2/(2 r^3), and the radius of e passes through 1/r at most
    rad = (miss**2 / (2 * safe**3) + rest.rad / safe + 4 * ROUNDOFF * np.abs(step)) * UP + TINY
    near = np.sqrt(np.maximum(square.upper, 0.0)) * UP
    fine = (r > 0) & (rad < near)  # else the root is between 0 and near
    return Enclosure(np.where(fine, r, 0.0), np.where(fine, step, 0.0), np.where(fine, rad, near))


def _on_simplex(s: np.ndarray, weight: Enclosure) -> Enclosure:
    """s (p,) made >= 0 with the sum that is exactly `weight`: the largest entry takes what the others leave."""
    total = float(weight.hi)
    s = np.maximum(np.where(np.isfinite(s), s, 0.0), 0.0)
    s = s * (total / s.sum()) if s.sum() > 0 else np.full(len(s), total / len(s))
    j = int(s.argmax())
    others = Enclosure.exact(np.delete(s, j)).sum()
    rest = weight - others
    if float(rest.lower) < 0:  # only the largest entry could absorb it: put everything there
        s, rest = np.zeros_like(s), weight
    keep = np.arange(len(s)) != j
    return Enclosure(np.where(keep, s, rest.hi), np.where(keep, 0.0, rest.lo), np.where(keep, 0.0, rest.rad))


def _norm(numbers: Enclosure) -> Enclosure:
    """Enclosures of the Euclidean norms over the last axis."""
    largest = np.max(numbers.mag, axis=-1, initial=0.0)
    some, tiny = np.where((largest > 0) & np.isfinite(largest), largest, 1.0), TINY * (largest > 0)
    unit = 2.0 ** np.floor(np.log2(some))  # scaling is exact, unless it underflows
    each = unit[..., None]
    scaled = Enclosure(numbers.hi / each, numbers.lo / each, numbers.rad / each + tiny[..., None])
    root = _root(Enclosure(*_transposed(scaled * scaled)).sum())
    return Enclosure(root.hi * unit, root.lo * unit, root.rad * unit + tiny)


def into_ball(x: np.ndarray, radius: Any) -> np.ndarray:
    """x itself when ||x|| <= radius provably, else the nearest point in its direction that does.

    Each row of x (..., d) for itself, with radii (...).
    """
    x = np.asarray(x, dtype=float)
    while (outside := (size := _norm(Enclosure.exact(x)).upper) > radius).any():
        x = x * np.where(outside, radius / np.where(outside, size, 1.0) * SHRINK, 1.0)[..., None]
    return x
