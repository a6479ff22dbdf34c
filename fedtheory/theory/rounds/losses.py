"""The losses of the exact engine: separable, piecewise quadratic, in fractions or in floats with
the same code.

    f_k(x) = sum_i h_ki phi(x_i - c_ki) + m_ki (x_i - c_ki)^2 / 2 + a_ki |x_i - c_ki|,

with phi Huber's function, r^2/2 for |r| <= delta_ki and delta_ki |r| - delta_ki^2/2 beyond
(r^2/2 everywhere where there is no delta_ki). Diagonal quadratics, Huber losses, strongly convex
mixtures and l1 distances are all of this form, and so are the worst functions of many a
convergence proof. With h_ki < -m_ki < 0 it is a double well: concave for |r| < delta_ki, convex
beyond. Minimisers are global: of a sum that is not convex all pieces are gone through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.inputs import flag

ZERO = Fraction(0)
NO_MINIMISER = "a local objective has no minimiser: add curvature, or declare a class of problems that has one"

__all__ = [
    "Pieces", "SeparableLosses", "Unbounded", "corners", "fractions", "minimisers", "minimum",
]  # fmt: skip


class Unbounded(InvalidInput):
    """A function has no minimiser, or none that can be computed here."""


def fractions(values: Any) -> np.ndarray:
    """Nested lists of numbers or strings as an object array of fractions; None stays None."""
    raw = np.asarray(values.tolist() if isinstance(values, np.ndarray) else values, dtype=object)
    return np.asarray(_as_fraction(raw), dtype=object)


_as_fraction = np.frompyfunc(lambda v: v if v is None or type(v) is Fraction else Fraction(v), 1, 1)


class Pieces(NamedTuple):
    """The pieces of losses, entry by entry: arrays of one shape (..., d). ``bent`` says where
    delta counts."""

    h: Any
    c: Any
    m: Any
    a: Any
    delta: Any
    bent: Any

    def take(self, index: Any) -> Pieces:
        """Rows by number."""
        return Pieces(*(part[index] for part in self))

    def value(self, y: Any) -> Any:
        """(..., d) -> (...)."""
        r = y - self.c
        out = (self.h + self.m) * r * r / 2
        if self.bent.any():
            size = abs(r)
            tail = self.h * (self.delta * size - self.delta * self.delta / 2) + self.m * r * r / 2
            out = np.where(self.bent & (size > self.delta), tail, out)
        if self.kinks:
            out = out + self.a * abs(r)
        return out.sum(axis=-1)

    def gradient(self, y: Any) -> Any:
        """(..., d) -> (..., d); the subgradient 0 at a kink."""
        r = y - self.c
        inner = r
        if self.bent.any():
            inner = np.where(self.bent, np.minimum(np.maximum(r, -self.delta), self.delta), r)
        out = self.h * inner + self.m * r
        return out + self.a * np.sign(r) if self.kinks else out

    @property
    def kinks(self) -> bool:
        """True if there is any l1 part."""
        return bool((self.a != 0).any())

    def minimise(self, linear: Any, curvature: Any, center: Any, l1: Any = 0, anchor: Any = None) -> Any:
        """argmin f(y) - <linear, y> + curvature/2 (y - center)^2 + l1 |y - anchor|, entry by
        entry.

        The minimiser is the stationary point of one piece, or a kink: all are tried, and the
        least value is it. A constant stays at the center.

        Raises `Unbounded`: some entry has no minimiser.
        """
        anchor = center if anchor is None else anchor
        below = self.h + self.m + curvature
        far = np.where(self.bent, self.m + curvature, below)
        hollow = self.bent & (below < 0)  # concave between two other pieces
        falls = hollow.any() and hollow & (far == 0) & (abs(linear) > self.h * self.delta + self.a + l1)
        if (far < 0).any() or np.any(falls):
            raise Unbounded("a local objective falls for ever: it has no minimiser")
        kinks, signs = self.kinks, (-1, 1)

        def candidates() -> Iterator[Any]:
            """The stationary points of the pieces, and the kinks."""
            for side in (0, *signs) if self.bent.any() else (0,):
                rise = self.m + curvature if side else below
                above = (self.m if side else self.h + self.m) * self.c + curvature * center + linear
                flat = rise <= 0
                for sign_a in signs if kinks else (0,):
                    for sign_l in signs if l1 else (0,):
                        end = above - sign_a * self.a if sign_a else above
                        end = end - sign_l * l1 if sign_l else end
                        end = end - side * self.h * self.delta if side else end
                        point = end / (np.where(flat, 1, rise) if flat.any() else rise)
                        yield np.where(flat, center + 0 * point, point) if flat.any() else point
            if kinks:
                yield self.c + 0 * point
            if l1:
                yield anchor + 0 * point

        def slope_at(y: Any) -> tuple[Any, Any]:
            """The size of the slope at y, and of the jump there."""
            slope = self.gradient(y) - linear + curvature * (y - center)
            slope = slope + l1 * np.sign(y - anchor) if l1 else slope
            jump = self.a * (y == self.c) if kinks else 0
            return abs(slope), jump + l1 * (y == anchor) if l1 else jump

        best: Any = None
        off: Any = None
        for y, low in self._lowest(candidates(), linear, curvature, center, l1, anchor, hollow):
            slope, jump = slope_at(y)
            excess = np.where(low, np.maximum(slope - jump, 0), np.inf)
            nearer = excess < (np.inf if off is None else off)
            best, off = (y, excess) if off is None else (np.where(nearer, y, best), np.where(nearer, excess, off))
            if (off == 0).all():
                return best
        size = abs(linear) + abs(self.h) + abs(self.m * best) + abs(curvature * (best - center)) + abs(self.h * self.c)
        if (off > (0 if best.dtype == object else 1e-6 * (1 + size))).any():
            raise Unbounded(NO_MINIMISER)
        return best

    def _lowest(
        self, candidates: Iterable[Any], linear: Any, curvature: Any, center: Any, l1: Any, anchor: Any, hollow: Any
    ) -> Iterator[tuple[Any, Any]]:
        """Give each candidate of `minimise`, and where it may be the minimiser: everywhere in convex
        entries, where its slope decides; in hollow ones where no other's value is less.

        Raises `Unbounded`: several of a hollow entry are as low as each other.
        """
        if not hollow.any():
            yield from ((y, True) for y in candidates)
            return
        entries, seen = Pieces(*(part[..., None] for part in self)), []  # every coordinate by itself
        for y in candidates:
            value = entries.value(y[..., None]) - linear * y + curvature * (y - center) * (y - center) / 2
            seen.append((y, value + l1 * abs(y - anchor) if l1 else value))
        best, least = seen[0]
        for y, value in seen[1:]:
            best, least = np.where(value < least, y, best), np.minimum(value, least)
        near, found = (0 if best.dtype == object else 1e-9), []
        for y, value in seen:
            low = ~hollow | (value - least <= near * (abs(least) + abs(linear * best)))
            found.append((y, low))
            if (hollow & low & (abs(y - best) > near * (abs(y) + abs(best)))).any():
                raise Unbounded("a local objective that is not convex has several minimisers: which one is not said")
        yield from found


def minimisers(h: Any, c: Any, m: Any, a: Any, delta: Any) -> tuple[Fraction | None, Fraction | None, bool]:
    """The global minimisers of sum_k h_k phi(x - c_k) + ... over one number x, in fractions.

    Where the sum is convex they are all of [low, high], and None stands for no end. Elsewhere the
    pieces are gone through, and low = high is one of them; the third entry says whether it is the
    only one (of convex sums it is True).

    Raises `Unbounded`: there is none.
    """
    return minimum(*_slopes(list(zip(h, c, m, a, delta, strict=True))))


def minimum(
    points: list[Fraction], pieces: list[tuple[Fraction, Fraction]]
) -> tuple[Fraction | None, Fraction | None, bool]:
    """Give the `minimisers` of a function whose slope has these corners and pieces."""
    (first, before), (last, after) = pieces[0], pieces[-1]  # curvature and slope at 0 far away
    if last < 0:
        raise Unbounded("F is not convex, and falls for ever: it has no least value")
    if last == 0 and (before > 0 or after < 0):
        raise Unbounded("F falls for ever in some direction: it has no minimiser")
    if not points:
        x = -before / first if first else None
        return x, x, True

    def slope(i: int, x: Fraction) -> Fraction:
        k, s = pieces[i]
        return k * x + s

    def value(i: int, x: Fraction) -> Fraction:  # in piece i, but for a constant
        k, s = pieces[i]
        at = points[max(i - 1, 0)]
        return heights[max(i - 1, 0)] + (x - at) * (k * (x + at) / 2 + s)

    still = [(i, x) for i, x in enumerate(points) if slope(i, x) <= 0 <= slope(i + 1, x)]
    for i, (k, s) in enumerate(pieces):
        falls = i == 0 or slope(i, points[i - 1]) < 0
        if k > 0 and falls and (i == len(points) or slope(i, points[i]) > 0):
            still.append((i, -s / k))
    where = [x for _, x in still]
    convex = all(k >= 0 for k, _ in pieces)
    if not convex:
        heights = [ZERO]
        for i in range(1, len(points)):
            heights.append(value(i, points[i]))
        values = {x: value(i, x) for i, x in still}
        least = min(values.values())
        where = [x for x in where if values[x] == least]
    low = None if pieces[0] == (0, 0) and points[0] in where else min(where)
    high = None if pieces[-1] == (0, 0) and points[-1] in where else max(where)
    return (low, high, True) if convex else (where[0], where[0], low == high is not None)


def _slopes(rows: list[tuple[Any, ...]]) -> tuple[list[Fraction], list[tuple[Fraction, Fraction]]]:
    """The `corners` of the slope of sum_k h_k phi(x - c_k) + ...."""
    curvature, slope, ramps = ZERO, ZERO, []
    for h, c, m, a, delta in rows:
        curvature, slope = curvature + m, slope - m * c - a
        if delta is None:
            curvature, slope = curvature + h, slope - h * c
        elif h:
            slope = slope - h * delta
            ramps.append((c - delta, c + delta, 2 * h * delta))
        if a:
            ramps.append((c, c, 2 * a))
    return corners(curvature, slope, ramps)


def corners(
    curvature: Fraction, slope: Fraction, ramps: Iterable[tuple[Fraction, Fraction, Fraction]]
) -> tuple[list[Fraction], list[tuple[Fraction, Fraction]]]:
    """Give the corners of a slope, in order, and its pieces between them: (k, s) stands for k x + s.

    It is curvature x + slope and the ramps (p, q, G), of which each rises by G from p to q, or
    jumps where these are one.
    """
    change: dict[Fraction, tuple[Fraction, Fraction]] = {}
    for p, q, g in ramps:
        rate = g / (q - p) if q != p else ZERO
        for x, k, s in ((p, rate, -rate * p), (q, -rate, rate * q)) if rate else ((p, ZERO, g),):
            before = change.get(x, (ZERO, ZERO))
            change[x] = before[0] + k, before[1] + s
    points, pieces = sorted(change), [(curvature, slope)]
    for x in points:
        k, s = change[x]
        pieces.append((pieces[-1][0] + k, pieces[-1][1] + s))
    return points, pieces


@dataclass(frozen=True)
class SeparableLosses:
    """N clients' losses and their weights (N,): all fractions, or all floats."""

    pieces: Pieces
    weights: Any

    @classmethod
    def of(cls, h: Any, c: Any, m: Any, a: Any, delta: Any, weights: Any, exact: bool = True) -> SeparableLosses:
        """From object arrays (N, d) of fractions (delta: None where there is none); floats
        unless ``exact``."""
        bent = np.array([[v is not None for v in row] for row in delta])
        delta = np.where(bent, delta, np.asarray(ZERO))
        kind = object if flag("exact", exact) else float
        h, c, m, a, delta = (np.asarray(v).astype(kind) for v in (h, c, m, a, delta))
        return cls(Pieces(h, c, m, a, delta, bent), np.asarray(weights).astype(kind))

    @property
    def exact(self) -> bool:
        return self.weights.dtype == object

    @property
    def num_clients(self) -> int:
        return self.pieces.c.shape[0]

    @property
    def dim(self) -> int:
        return self.pieces.c.shape[1]

    # --- what quantities are made of: points (..., d), or a point for each client (..., N, d) -----------------------------
    def values(self, x: Any) -> Any:
        """f_k(x): (..., d) -> (..., N)."""
        return self.pieces.value(x[..., None, :])

    def gradients(self, x: Any) -> Any:
        """grad f_k(x): (..., d) -> (..., N, d)."""
        return self.pieces.gradient(x[..., None, :])

    def gradients_each(self, y: Any) -> Any:
        """grad f_k(y_k): (..., N, d) -> (..., N, d)."""
        return self.pieces.gradient(y)

    # --- constants --------------------------------------------------------------------------------------------------------
    @cached_property
    def constants(self) -> dict[str, Any]:
        """beta, mu (of every client's loss), beta_F, mu_F (of F), G_sq (the largest squared
        subgradient; None: unbounded)."""
        p, zero = self.pieces, self.weights[0] * 0
        top, low = np.maximum(abs(p.h + p.m), np.where(p.bent, abs(p.m), 0 * p.m)), p.m + np.where(p.bent, np.minimum(p.h, 0), p.h)
        w = self.weights[:, None]
        joint_low = np.maximum((w * low).sum(axis=0).min(), zero)
        steep = p.a + np.where(p.bent, abs(p.h) * p.delta, 0)
        bounded = bool(((p.m == 0) & (p.bent | (p.h == 0))).all())
        return {
            "beta": top.max(), "mu": np.maximum(low.min(), zero),
            "beta_F": (w * top).sum(axis=0).max(), "mu_F": joint_low,
            "G_sq": (steep * steep).sum(axis=-1).max() if bounded else None,
        }  # fmt: skip

    @cached_property
    def _columns(self) -> list[tuple[Any, ...]]:
        """h, c, m, a, delta of every coordinate of F, in fractions, times the weights."""
        p, w = self.pieces, fractions(self.weights)
        h, c, m, a, delta = (fractions(v) for v in (p.h, p.c, p.m, p.a, p.delta))
        bounds = [[d if b else None for d, b in zip(*both, strict=True)] for both in zip(delta.T, p.bent.T, strict=True)]
        return [(w * h[:, i], c[:, i], w * m[:, i], w * a[:, i], bounds[i]) for i in range(self.dim)]

    def stationary(self) -> list[list[Fraction]]:
        """Of every coordinate the points where F's slope is 0 and changes its sign: local minimisers and maximisers."""
        out = []
        for column in self._columns:
            points, pieces = _slopes(list(zip(*column, strict=True)))
            edges = zip([None, *points], pieces, [*points, None], strict=True)
            zeros = [(low, -s / k, high) for low, (k, s), high in edges if k]
            out.append([x for low, x, high in zeros if (low is None or x >= low) and (high is None or x <= high)])
        return out

    @cached_property
    def _ends(self) -> list[tuple[Fraction | None, Fraction | None, bool]]:
        return [minimisers(*column) for column in self._columns]

    @property
    def unique(self) -> bool:
        """True if x* is one point: F is convex (where it has several, the nearest to the start is meant), or has one
        global minimiser."""
        return all(one for _, _, one in self._ends)

    def minimiser(self, near: Any) -> Any:
        """The minimiser of F nearest to a point (d,), computed in fractions; of a nonconvex F with several any of them.

        Raises `Unbounded`: F has none.
        """
        out = np.empty(self.dim, dtype=object)
        for i, (low, high, _) in enumerate(self._ends):
            x = Fraction(near[i])
            x = x if low is None else max(x, low)
            out[i] = x if high is None else min(x, high)
        return out if self.exact else out.astype(float)
