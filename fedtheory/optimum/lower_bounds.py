"""Lower bounds on F* that hold in float64, rounding included.

F is the function of the data *as stored in float64* (weights, 1/n_k and ridge too), evaluated in
real arithmetic. A `Structure` encloses F(x) and grad F(x), and its Hessian in a matrix with a norm
bound; `lower_bounds` turns these into bounds:

non-negativity
    F >= 0 (least squares and Huber without ridge, whose minimum is always attained).
strong convexity
    F* >= F(x) - ||g||^2 / (2 ridge). With u_j = phi'(z_j) as dual point this is Fenchel duality:
    the duality gap is ||ridge x + A'Wu||^2 / (2 ridge), the same number.
strong convexity in the Newton metric
    y = x + Xu with X'HX >= (1 - delta) I for all points: F* >= F(x) - ||X'g||^2 / (2 (1 - delta)).
    X only has to be near the inverse Cholesky factor; delta is bounded from X'HX itself (Rump,
    "Verification of positive definiteness", BIT 46 (2006) has the idea), and delta < 1 proves that
    X and H are regular.
ball
    The same with a Hessian bound mu that is known only for ||u|| <= r. If ||X'g|| <= mu r / 2, then
    F(x + Xu) >= F(x) wherever ||u|| = r, hence outside by convexity: the minimiser exists and is
    inside. Logistic: phi'' changes by at most exp(|dz|), as |phi'''| <= phi''. Softmax: by exp(4
    max|dz|), as S = 1/2 sum_cd p_c p_d (e_c - e_d)(e_c - e_d)' and each p changes by at most exp(2
    max|dz|). Huber: the rows that stay inside the quadratic zone keep their curvature.
sublevel ball (Huber without ridge)
    F* >= F(x) - ||X'g|| R with ||u* || <= R from the linear growth of the loss.

When F does not change along some directions, the infimum over x + span(e_i, i in J) is the infimum
over all of R^d if the columns J of the data span the others *exactly*; `exact_columns` proves that
or gives up. Softmax also drops the last class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import scipy  # its linalg is loaded when first used

from fedtheory.optimum.intervals import TINY, UP, Enclosure, gamma, norm_up, two_product

__all__ = ["LowerBound", "Metric", "Structure", "exact_columns", "lower_bounds", "newton_metric"]


@dataclass(frozen=True)
class LowerBound:
    """A number that F* is proven not to be below, and the argument."""

    value: float
    name: str


@dataclass(frozen=True)
class Metric:
    """Coordinates y = x + scale * X u on the restricted coordinates, with ||X'HX - I|| <= delta."""

    scale: np.ndarray
    x_factor: np.ndarray
    delta: float

    @property
    def x_norm(self) -> float:
        return norm_up(self.x_factor)

    def dual_norm(self, g: Enclosure) -> float:
        """An upper bound of ||X' (scale * g)||."""
        xt, spread = self.x_factor.T, self.scale * (np.abs(g.lo) + g.rad) * UP
        mid = self.scale * g.hi
        entries = np.abs(xt @ mid) + np.abs(xt) @ (gamma(len(mid) + 2) * np.abs(mid) + spread)
        return norm_up(entries) * UP


def newton_metric(h: np.ndarray, error: Any) -> Metric | None:
    """The metric of a symmetric matrix h known up to a matrix E; None when h is not safely positive definite.

    error(scale) bounds ||diag(scale) E diag(scale)||_F.
    """
    m = len(h)
    diagonal = np.diag(h)
    if m and not (diagonal > 0).all():
        return None
    scale = 2.0 ** -np.round(np.log2(diagonal) / 2)  # powers of two: scaling is exact
    hs = h * scale * scale[:, None]
    try:
        factor = np.linalg.cholesky(hs)
    except np.linalg.LinAlgError:
        return None
    x = scipy.linalg.solve_triangular(factor, np.eye(m), lower=True).T
    x_sq = norm_up(x) ** 2 * UP
    delta = norm_up(x.T @ hs @ x - np.eye(m))
    delta += x_sq * (gamma(2 * m + 4) * norm_up(hs) + float(error(scale))) * UP + gamma(4)
    return Metric(scale, x, delta) if delta <= 0.5 else None


def exact_columns(rows: np.ndarray, candidates: np.ndarray) -> bool:
    """True if independent columns `candidates` of rows (n, d) provably span all others.

    Two proofs: there are only as many distinct non-zero rows as candidates; or every other column is a combination with
    short rational coefficients, checked in exact arithmetic.
    """
    distinct = np.unique(rows, axis=0)
    distinct = distinct[distinct.any(axis=1)]
    if len(distinct) <= len(candidates):
        return True
    others = np.setdiff1d(np.arange(rows.shape[1]), candidates)
    others = others[distinct[:, others].any(axis=0)]
    if len(others) == 0:
        return True
    nonzero = np.abs(distinct[distinct != 0])
    if nonzero.min() < 1e-140 or nonzero.max() > 1e140 or distinct.size * len(others) > 20_000_000:
        return False
    basis = distinct[:, candidates]
    fit = np.linalg.lstsq(basis, distinct[:, others], rcond=None)[0]
    for column, weights in zip(others, fit.T, strict=True):
        short = [Fraction(float(w)).limit_denominator(1000) for w in weights]
        common = int(np.lcm.reduce([s.denominator for s in short] or [1]))
        used = [i for i, s in enumerate(short) if s]
        if common > 10**6 or len(used) > 200:
            return False
        terms = [two_product(distinct[:, column], float(-common))]
        terms += [two_product(basis[:, i], float(int(short[i] * common))) for i in used]
        split = np.stack([part for pair in terms for part in pair], axis=1)
        # fsum rounds the exact sum once, so it is 0 only when the sum is
        if any(math.fsum(row) != 0.0 for row in split.tolist()):
            return False
    return True


class Structure:
    """The form of a problem that its certificates need; see the subclasses."""

    dim: int
    ridge: float = 0.0
    non_negative: bool = False  # F >= 0, and its minimum is attained if it is bounded below
    radius_law: str = "global"
    declared: str = ""  # what the bounds take from the user on trust

    def evaluate(self, x: np.ndarray) -> tuple[Enclosure, Enclosure]:
        """Enclosures of F(x), scalar, and grad F(x), (d,)."""
        raise NotImplementedError

    def enclose(self, x: np.ndarray) -> tuple[Enclosure, Enclosure]:
        """`evaluate`, kept for the last two points."""
        kept: list[tuple[np.ndarray, Any]] = self.__dict__.setdefault("_kept", [])
        for at, enclosed in kept:
            if np.array_equal(at, x):
                return enclosed
        with np.errstate(over="ignore", invalid="ignore"):
            enclosed = self.evaluate(x)
        kept[:] = [*kept[-1:], (x.copy(), enclosed)]
        return enclosed

    def hessian(
        self, x: np.ndarray, every_row: bool = False, quick: bool = False
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """H (d, d), the diagonal (d,) of a positive semidefinite majorant of its terms, and their
        relative error.

        every_row: with curvature 1 in place of phi'' (the Gram matrix). quick: for search
        directions; the error is not a bound.
        """
        raise NotImplementedError

    def span_rows(self) -> np.ndarray:
        """Rows (n, p) such that F depends on each coordinate block through rows @ x alone."""
        raise NotImplementedError

    def metric(self, x: np.ndarray, coordinates: np.ndarray, every_row: bool = False) -> Metric | None:
        """The Newton metric at x on the given coordinates."""
        h, majorant, relative = self.hessian(x, every_row)
        m = majorant[coordinates]
        return newton_metric(
            h[np.ix_(coordinates, coordinates)], lambda scale: relative * (m * scale**2).sum() * (1 + gamma(len(m) + 4))
        )

    @cached_property
    def coordinates(self) -> tuple[np.ndarray, bool]:
        """Coordinates J over which the infimum is that over R^d, and whether this is proven."""
        return self._independent(np.arange(self.dim), 1)

    def _independent(self, everything: np.ndarray, classes: int) -> tuple[np.ndarray, bool]:
        if self.ridge > 0:
            return everything, True
        rows = self.span_rows()
        h = self.gram()
        if newton_metric(h[0], lambda scale: h[2] * (h[1] * scale**2).sum() * 2) is not None:
            picked, proven = np.arange(rows.shape[1]), True
        else:
            size = np.abs(rows).max(axis=0, initial=0.0)
            scaled = rows / np.where(size > 0, size, 1.0)
            r, pivots = scipy.linalg.qr(np.unique(scaled, axis=0), mode="r", pivoting=True)
            steps = np.abs(np.diag(r))
            rank = int((steps > 1e-10 * max(steps.max(initial=0.0), 1e-300)).sum())
            picked = np.sort(pivots[:rank])
            sub = (h[0][np.ix_(picked, picked)], h[1][picked], h[2])
            proven = newton_metric(sub[0], lambda scale: sub[2] * (sub[1] * scale**2).sum() * 2) is not None
            proven = proven and exact_columns(rows, picked)
        # with classes, coordinate i*C + c; the last class is the reference
        kept = picked if classes == 1 else (picked[:, None] * classes + np.arange(classes - 1)).ravel()
        return kept, proven

    def gram(self) -> tuple[np.ndarray, np.ndarray, float]:
        """H, majorant and relative error of the matrix whose null space is F's."""
        return self.hessian(np.zeros(self.dim), every_row=True)

    def local_curvature(self, x: np.ndarray, coordinates: np.ndarray, metric: Metric, radius: float) -> float:
        """mu with Hessian >= mu in the metric for ||u|| <= radius; 0 when there is none."""
        return 1 - metric.delta

    def further_bounds(self, x: np.ndarray, value: Enclosure, gradient: Enclosure) -> list[LowerBound]:
        return []

    def separated(self, x: np.ndarray, quick: bool = False) -> bool:
        """True if x itself shows that F has no minimiser; quick: in plain float64."""
        return False

    def why_not(self, x: np.ndarray) -> str:
        """The likely reason why no bound was found."""
        return "no argument applies"


def _square(size: float) -> float:
    return size**2 * UP + (TINY if size > 0 else 0.0)


def lower_bounds(
    structure: Structure, x: np.ndarray, value: Enclosure, gradient: Enclosure, enough: float = 0.0
) -> list[LowerBound]:
    """Bounds on F* that can be proven at x, the best first; the costly ones only while the best is
    further than `enough` below F(x)."""
    found = []
    if structure.non_negative:
        found.append(LowerBound(0.0, "non-negativity"))
    if structure.ridge > 0:
        loss = _square(norm_up(gradient.mag)) / (2 * structure.ridge) * UP
        name = f"strong convexity, mu = ridge = {structure.ridge:.6g}{structure.declared}"
        found.append(LowerBound(float((value - loss).lower), name))
    if found and float((value - max(b.value for b in found)).upper) <= enough:
        return sorted(found, key=lambda b: -b.value)
    coordinates, proven = structure.coordinates
    where = "" if len(coordinates) == structure.dim else f" on {len(coordinates)} of {structure.dim} coordinates that span"
    if proven and len(coordinates) == 0:
        found.append(LowerBound(float(value.lower), "F is constant"))
    metric = structure.metric(x, coordinates) if proven and len(coordinates) else None
    if metric is not None:
        size = metric.dual_norm(gradient[coordinates])
        radius = 4 * size
        mu = structure.local_curvature(x, coordinates, metric, radius)
        if mu > 0 and (structure.radius_law == "global" or size <= mu * radius / 2 * (1 - 2.0**-40)):
            loss = _square(size) / (2 * mu) * UP
            name = "strong convexity in the Newton metric" if structure.radius_law == "global" else (
                f"ball of radius {radius:.3g} in the Newton metric ({structure.radius_law})"
            )
            found.append(LowerBound(float((value - loss).lower), name + where))
    found += structure.further_bounds(x, value, gradient)
    found = [b for b in found if np.isfinite(b.value)]
    return sorted(found, key=lambda b: -b.value)
