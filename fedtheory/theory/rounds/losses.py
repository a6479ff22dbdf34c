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

from fedtheory.inputs import flag
from fedtheory.rational import objects
from fedtheory.theory.rounds.slopes import ZERO, Piece, Unbounded, clipped

NO_MINIMISER = (
    "a local objective has no minimiser: add curvature, or declare a class of problems that has one"
)

__all__ = ["OfPieces", "PieceTable", "Pieces", "SeparableLosses", "Unbounded", "fractions"]


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

    def constants(self, of: SeparableLosses) -> dict[str, Any]:
        """As `SeparableLosses.constants`."""
        h, _, m, a, delta, bent = self
        w, zero = of.weights[:, None], of.weights[0] * 0
        top, low = (
            np.maximum(abs(h + m), np.where(bent, abs(m), 0 * m)),
            m + np.where(bent, np.minimum(h, 0), h)
        )
        joint_low = np.maximum((w * low).sum(axis=0).min(), zero)
        steep = a + np.where(bent, abs(h) * delta, 0)
        bounded = bool(((m == 0) & (bent | (h == 0))).all())
        return {
            "beta": top.max(), "mu": np.maximum(low.min(), zero),
            "beta_F": (w * top).sum(axis=0).max(), "mu_F": joint_low,
            "G_sq": (steep * steep).sum(axis=-1).max() if bounded else None,
        }  # fmt: skip

    def joint(self, weights: Any) -> list[Piece]:
        """The weighted sum of the rows (N, d), a coordinate at a time, in fractions."""
        w = weights[:, None]
        h, c, m, a, delta = (fractions(part) for part in self[:5])
        rows = w * h, c, w * m, w * a, delta, self.bent
        return [
            _sum(zip(*(part[:, i] for part in rows), strict=True)) for i in range(self.shape[-1])
        ]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of each array."""
        found: tuple[int, ...] = self.c.shape
        return found

    @property
    def kinks(self) -> bool:
        """True if there is any l1 part."""
        return bool((self.a != 0).any())

    def minimise(
        self, linear: Any, curvature: Any, center: Any, l1: Any = 0, anchor: Any = None
    ) -> Any:
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
        falls = (
            hollow.any() and hollow & (far == 0) & (abs(linear) > self.h * self.delta + self.a + l1)
        )
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
            best, off = (
                (y, excess) if off is None
                else (np.where(nearer, y, best), np.where(nearer, excess, off))
            )
            if (off == 0).all():
                return best
        size = abs(linear) + abs(self.h) + abs(self.m * best) + abs(
            curvature * (best - center)
        ) + abs(self.h * self.c)
        if (off > (0 if best.dtype == object else 1e-6 * (1 + size))).any():
            raise Unbounded(NO_MINIMISER)
        return best

    def _lowest(
        self, candidates: Iterable[Any], linear: Any, curvature: Any, center: Any, l1: Any,
        anchor: Any, hollow: Any
    ) -> Iterator[tuple[Any, Any]]:
        """Give each candidate of `minimise`, and where it may be the minimiser: everywhere in
        convex entries, where its slope decides; in hollow ones where no other's value is less.

        Raises `Unbounded`: several of a hollow entry are as low as each other.
        """
        if not hollow.any():
            yield from ((y, True) for y in candidates)
            return
        # every coordinate by itself
        entries, seen = Pieces(*(part[..., None] for part in self)), []
        for y in candidates:
            value = (
                entries.value(y[..., None]) - linear * y
                + curvature * (y - center) * (y - center) / 2
            )
            seen.append((y, value + l1 * abs(y - anchor) if l1 else value))
        best, least = seen[0]
        for y, value in seen[1:]:
            best, least = np.where(value < least, y, best), np.minimum(value, least)
        near, found = (0 if best.dtype == object else 1e-9), []
        for y, value in seen:
            low = ~hollow | (value - least <= near * (abs(least) + abs(linear * best)))
            found.append((y, low))
            if (hollow & low & (abs(y - best) > near * (abs(y) + abs(best)))).any():
                raise Unbounded(
                    "a local objective that is not convex has several minimisers: "
                    "which one is not said"
                )
        yield from found


def _sum(rows: Iterable[tuple[Any, ...]]) -> Piece:
    """sum_k h_k phi(x - c_k) + ..., of which a row says whether it is bent."""
    curvature, slope, ramps = ZERO, ZERO, []
    for h, c, m, a, delta, bent in rows:
        curvature, slope = curvature + m, slope - m * c - a
        if not bent:
            curvature, slope = curvature + h, slope - h * c
        elif h:
            slope = slope - h * delta
            ramps.append((c - delta, c + delta, 2 * h * delta))
        if a:
            ramps.append((c, c, 2 * a))
    return Piece(slope, curvature, ZERO, tuple(ramps))


_nearest = np.frompyfunc(lambda p, x, wanted: clipped(wanted, *p.slopes(x)), 3, 1)
_value, _minimise = np.frompyfunc(Piece.value, 2, 1), np.frompyfunc(Piece.minimise, 6, 1)


class PieceTable:
    """Convex losses of any slope, entry by entry, in fractions; they are used as `Pieces` are.

    Attributes
    ----------
    each : object array (..., d) of `fedtheory.theory.rounds.slopes.Piece`
    """

    def __init__(self, each: Any) -> None:
        self.each = each if isinstance(each, np.ndarray) else objects(each)
        self.shape = self.each.shape

    def take(self, index: Any) -> PieceTable:
        """Rows by number."""
        return PieceTable(self.each[index])

    def value(self, y: Any) -> Any:
        """(..., d) -> (...)."""
        return _value(self.each, y).sum(axis=-1)

    def nearest(self, y: Any, g: Any) -> Any:
        """The subgradient at y that is nearest to g: (..., d) each."""
        return _nearest(self.each, y, g)

    def gradient(self, y: Any) -> Any:
        """The subgradient of least size at y: (..., d) -> (..., d)."""
        return self.nearest(y, 0 * y)

    def minimise(
        self, linear: Any, curvature: Any, center: Any, l1: Any = 0, anchor: Any = None
    ) -> Any:
        """As `Pieces.minimise`, with curvature > 0."""
        return _minimise(
            self.each, linear, curvature, center, l1, center if anchor is None else anchor
        )

    def joint(self, weights: Any) -> list[Piece]:
        """The weighted sum of the rows, a coordinate at a time."""
        columns = (self.each * weights[:, None]).T
        return [sum(column[1:], column[0]) for column in columns]

    def constants(self, of: SeparableLosses) -> dict[str, Any]:
        """As `SeparableLosses.constants`; beta and beta_F are None where a slope jumps."""
        pieces = self.each.ravel()
        ends: list[Any] = [v for p in pieces for v in p.limits]
        steep = (
            None if None in ends
            else np.reshape([abs(v) for v in ends], (*self.shape, 2)).max(axis=-1)
        )
        return {
            "beta": _largest(p.beta for p in pieces), "mu": min(p.curvature for p in pieces),
            "beta_F": _largest(f.beta for f in of.joint),
            "mu_F": min(f.curvature for f in of.joint),
            "G_sq": None if steep is None else (steep * steep).sum(axis=-1).max(),
        }  # fmt: skip


def _largest(values: Iterable[Any]) -> Any:
    """The largest of some numbers, None where one of them is not known."""
    known = list(values)
    return None if None in known else max(known)


class OfPieces:
    """Values and gradients of N clients' losses, which their pieces have row by row."""

    pieces: Any

    def values(self, x: Any) -> Any:
        """f_k(x): (..., d) -> (..., N)."""
        return self.pieces.value(x[..., None, :])

    def gradients(self, x: Any) -> Any:
        """grad f_k(x): (..., d) -> (..., N, d)."""
        return self.pieces.gradient(x[..., None, :])

    def gradients_each(self, y: Any) -> Any:
        """grad f_k(y_k): (..., N, d) -> (..., N, d)."""
        return self.pieces.gradient(y)


@dataclass(frozen=True)
class SeparableLosses(OfPieces):
    """N clients' losses and their weights (N,): all fractions, or all floats."""

    pieces: Pieces | PieceTable
    weights: Any

    @classmethod
    def of(
        cls, h: Any, c: Any, m: Any, a: Any, delta: Any, weights: Any, exact: bool = True
    ) -> SeparableLosses:
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
        return len(self.weights)

    @property
    def dim(self) -> int:
        return self.pieces.shape[-1]

    def excess(self, x: Any, star: Any) -> Any:
        """F(x) - F(star), in fractions: (..., d) and (d,) -> (...)."""
        joint = objects(self.joint)
        return (_value(joint, x) - _value(joint, star)).sum(axis=-1)

    # --- constants --------------------------------------------------------------------------------
    @cached_property
    def constants(self) -> dict[str, Any]:
        """beta, mu (of every client's loss), beta_F, mu_F (of F), G_sq (the largest squared
        subgradient; None: unbounded)."""
        return self.pieces.constants(self)

    @cached_property
    def joint(self) -> list[Piece]:
        """F, a coordinate at a time, in fractions."""
        return self.pieces.joint(fractions(self.weights))

    def stationary(self) -> list[list[Fraction]]:
        """Of every coordinate the points where F's slope is 0 and changes its sign: local
        minimisers and maximisers."""
        out = []
        for points, pieces in (f.corners for f in self.joint):
            edges = zip([None, *points], pieces, [*points, None], strict=True)
            zeros = [(low, -s / k, high) for low, (k, s), high in edges if k]
            out.append([
                x for low, x, high in zeros
                if (low is None or x >= low) and (high is None or x <= high)
            ])
        return out

    @cached_property
    def _ends(self) -> list[tuple[Fraction | None, Fraction | None, bool]]:
        return [f.least() for f in self.joint]

    @property
    def unique(self) -> bool:
        """True if x* is one point: F is convex (where it has several, the nearest to the start is
        meant), or has one global minimiser."""
        return all(one for _, _, one in self._ends)

    def minimiser(self, near: Any) -> Any:
        """The minimiser of F nearest to a point (d,), computed in fractions; of a nonconvex F with
        several any of them.

        Raises `Unbounded`: F has none.
        """
        out = np.empty(self.dim, dtype=object)
        for i, (low, high, _) in enumerate(self._ends):
            out[i] = clipped(Fraction(near[i]), low, high)
        return out if self.exact else out.astype(float)
