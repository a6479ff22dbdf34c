"""Quadratics and losses of linear predictions as the certificates see them: enclosures of F, its gradient and Hessian.

The problems make these in `structure()`; see `fedtheory.optimum.lower_bounds` for what is proven with them.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy  # its linalg is loaded when first used

from fedtheory.errors import NotCertified
from fedtheory.optimum.interface import LinearSamples
from fedtheory.optimum.intervals import (
    LIBRARY_ERROR,
    ROUNDOFF,
    TINY,
    UP,
    Enclosure,
    Rows,
    dot,
    gamma,
    norm_up,
    packed,
)
from fedtheory.optimum.lower_bounds import LowerBound, Metric, Structure, exact_columns, newton_metric

__all__ = ["HuberRows", "LogisticRows", "QuadraticForm", "RowLoss", "SoftmaxRows", "SquareRows"]


class QuadraticForm(Structure):
    """F(x) = sum_k w_k (x - c_k)' H_k (x - c_k) / 2, from H (N, d, d), c (N, d) and w (N,).

    Raises
    ------
    NotCertified
        F is not convex: names the most negative eigenvalue.
    """

    def __init__(self, hessians: np.ndarray, minimisers: np.ndarray, weights: np.ndarray) -> None:
        use = weights > 0
        self.h, self.c, self.w = hessians[use], minimisers[use], weights[use]
        self.dim = minimisers.shape[1]
        self._check()

    def evaluate(self, x: np.ndarray) -> tuple[Enclosure, Enclosure]:
        r = Enclosure.exact(np.broadcast_to(x, self.c.shape)) - self.c
        hr = Enclosure.exact(np.zeros_like(self.c))
        for i in range(self.dim):
            hr = hr + r[:, i : i + 1] * self.h[:, :, i]
        weighted = hr * self.w[:, None]
        value = (weighted * r).sum().sum() * 0.5
        return value, weighted.sum()

    def hessian(self, x: np.ndarray, every_row: bool = False, quick: bool = False) -> tuple[np.ndarray, np.ndarray, float]:
        h = np.einsum("n,nij->ij", self.w, self.h)
        # |E| <= gamma sum w|H_k|, whose norm is at most that of a diagonal of row sums
        majorant = np.einsum("n,nij->ij", self.w, np.abs(self.h))
        self._abs = majorant
        return h, np.diag(majorant).copy(), gamma(len(self.w) + 3)

    def metric(self, x: np.ndarray, coordinates: np.ndarray, every_row: bool = False) -> Metric | None:
        h, _, relative = self.hessian(x)
        picked = np.ix_(coordinates, coordinates)
        size = self._abs[picked]
        return newton_metric(h[picked], lambda s: relative * norm_up(size * s * s[:, None]) * UP)

    @cached_property
    def coordinates(self) -> tuple[np.ndarray, bool]:
        everything = np.arange(self.dim)
        if self.metric(np.zeros(self.dim), everything) is not None:
            return everything, True
        rows = self.span_rows()
        r, pivots = scipy.linalg.qr(rows, mode="r", pivoting=True)
        steps = np.abs(np.diag(r))
        rank = int((steps > 1e-10 * max(steps.max(initial=0.0), 1e-300)).sum()) if steps.any() else 0
        picked = np.sort(pivots[:rank])
        proven = self.metric(np.zeros(self.dim), picked) is not None and exact_columns(rows, picked)
        return picked, proven

    def span_rows(self) -> np.ndarray:
        return np.unique(self.h.reshape(-1, self.dim), axis=0)

    def _check(self) -> None:
        """Refuse a joint Hessian with a negative eigenvalue that is not rounding."""
        h = self.hessian(np.zeros(self.dim))[0]
        spectrum = np.linalg.eigvalsh(h)
        size = max(np.abs(spectrum).max(), float(np.linalg.norm(self._abs)))
        if spectrum[0] < -64 * self.dim * ROUNDOFF * size:
            raise NotCertified(
                f"F is not convex: the most negative eigenvalue of its Hessian is {spectrum[0]:.6g} (must be >= 0), "
                "so F is unbounded below and has no minimiser: add a ridge above that size or change the Hessians"
            )

    def why_not(self, x: np.ndarray) -> str:
        spectrum = np.linalg.eigvalsh(self.hessian(x)[0])
        return (
            f"the Hessian's eigenvalues go from {spectrum[0]:.3g} to {spectrum[-1]:.3g}, and "
            "float64 cannot tell the smallest from zero or a negative number, for which F may be "
            "unbounded below: add a ridge, or give singular Hessians that are exact in float64"
        )


class RowLoss(Structure):
    """F(x) = sum_j omega_j loss_j(a_j'W) + ridge/2 ||x||^2, W the (p, C) matrix of x (C = 1 for a margin or prediction)."""

    def __init__(self, problem: LinearSamples, targets: np.ndarray, classes: int = 1) -> None:
        omega = problem.weights[:, None] * problem.sample_weights
        keep = (problem.sample_weights > 0) & (problem.weights > 0)[:, None]
        self.a, self.b, self.omega_float = problem.features[keep], targets[keep], omega[keep]
        client = np.broadcast_to(problem.weights[:, None], keep.shape)[keep]
        self.omega = Enclosure.exact(client) * problem.sample_weights[keep]
        self.ridge, self.dim, self.classes = problem.ridge, problem.dim, classes
        self._rows = Rows(self.a)
        self._columns = list(packed(self.a))

    # a subclass gives loss and slope at predictions Z (n, C), and the curvature weights
    def losses(self, z: Enclosure) -> tuple[Enclosure, Enclosure]:
        """loss (n,) and slope (n, C)."""
        raise NotImplementedError

    def bends(self, z: Enclosure) -> tuple[np.ndarray, float]:
        """phi'' (n,), or p (n, C), and its relative error."""
        raise NotImplementedError

    def predict(self, x: np.ndarray, quick: bool = False) -> Enclosure:
        """Z = A W; quick: in plain float64 and with no radius, for search directions only."""
        if quick:
            return Enclosure.exact(self.a @ x.reshape(-1, self.classes))
        return self._rows.dot(x.reshape(-1, self.classes).T)

    def evaluate(self, x: np.ndarray) -> tuple[Enclosure, Enclosure]:
        loss, slope = self.losses(self.predict(x))
        point = Enclosure.exact(x)
        value = (loss * self.omega).sum() + (point * x).sum() * (self.ridge / 2)
        weighted = slope * self.omega[:, None]
        hi, lo, rad = grad = np.zeros((3, *x.reshape(-1, self.classes).shape))
        for columns, rows, entries in self._columns:
            some = (weighted[rows] * entries[:, :, None]).sum()
            hi[columns], lo[columns], rad[columns] = some.hi, some.lo, some.rad
        return value, Enclosure(*grad.reshape(3, -1)) + point * self.ridge

    def hessian(self, x: np.ndarray, every_row: bool = False, quick: bool = False) -> tuple[np.ndarray, np.ndarray, float]:
        bend, relative = (np.ones(len(self.a)), 0.0) if every_row else self.bends(self.predict(x, quick))
        kappa = self.omega_float * bend
        h = (self.a * kappa[:, None]).T @ self.a + self.ridge * np.eye(self.a.shape[1])
        return h, np.diag(h).copy(), relative + gamma(len(self.a) + 8)

    def span_rows(self) -> np.ndarray:
        return self.a

    @cached_property
    def coordinates(self) -> tuple[np.ndarray, bool]:
        return self._independent(np.arange(self.dim), self.classes)

    def reach(self, coordinates: np.ndarray, metric: Metric) -> np.ndarray:
        """Bounds (n,) of |dz_j| / ||u||, over all classes."""
        scale = np.zeros(self.dim)
        scale[coordinates] = metric.scale
        size = np.sqrt((self.a**2) @ (scale.reshape(-1, self.classes) ** 2)).max(axis=1)
        return size * metric.x_norm * (1 + gamma(4 * self.a.shape[1] + 16))


class SquareRows(RowLoss):
    non_negative = True

    def losses(self, z: Enclosure) -> tuple[Enclosure, Enclosure]:
        r = z - self.b[:, None]
        return (r * r)[:, 0] * 0.5, r

    def bends(self, z: Enclosure) -> tuple[np.ndarray, float]:
        return np.ones(len(self.a)), 0.0

    def why_not(self, x: np.ndarray) -> str:
        return (
            "the features are dependent up to rounding but not exactly, so that the exact minimiser is decided by rounding "
            "errors in the data: drop the dependent features or set ridge > 0"
        )


class HuberRows(RowLoss):
    non_negative = True
    radius_law = "inner rows"

    def __init__(self, problem: LinearSamples, targets: np.ndarray, delta: float) -> None:
        super().__init__(problem, targets)
        self.delta = delta

    def losses(self, z: Enclosure) -> tuple[Enclosure, Enclosure]:
        r = z - self.b[:, None]
        inside = r.clip(-self.delta, self.delta)
        return (inside * (r - inside * 0.5))[:, 0], inside

    def margins(self, z: Enclosure) -> np.ndarray:
        """delta - |r|, rounded down: how far each residual is inside the quadratic zone."""
        r = (z - self.b[:, None])[:, 0]
        return self.delta - np.maximum(r.upper, -r.lower) - 4 * ROUNDOFF * self.delta

    def bends(self, z: Enclosure) -> tuple[np.ndarray, float]:
        return (self.margins(z) > 1e-9 * self.delta).astype(float), 0.0

    def local_curvature(self, x: np.ndarray, coordinates: np.ndarray, metric: Metric, radius: float) -> float:
        margin = self.margins(self.predict(x))
        inner = margin > 1e-9 * self.delta
        stays = bool((self.reach(coordinates, metric)[inner] * radius * UP < margin[inner]).all())
        return 1 - metric.delta if stays else 0.0

    def further_bounds(self, x: np.ndarray, value: Enclosure, gradient: Enclosure) -> list[LowerBound]:
        # h(r) >= delta |r| - delta^2/2, so sum_j omega_j |a_j'(y - x)| <= 2 F(x)/delta + delta
        # sum_j omega_j on the sublevel set; and that sum is at least sqrt(min omega) ||Omega^(1/2)
        # A (y - x)||.
        coordinates, proven = self.coordinates
        metric = self.metric(x, coordinates, every_row=True) if self.ridge == 0 and proven else None
        if metric is None:
            return []
        growth = 2 * max(float(value.upper), 0.0) / self.delta + self.delta * float(self.omega.sum().upper)
        radius = growth / np.sqrt(float(self.omega.lower.min()) * (1 - metric.delta)) * UP
        loss = metric.dual_norm(gradient[coordinates]) * radius * UP
        return [LowerBound(float((value - loss).lower), f"sublevel ball of radius {radius:.3g} in the Gram metric")]

    def why_not(self, x: np.ndarray) -> str:
        if not self.coordinates[1]:
            return SquareRows.why_not(self, x)  # type: ignore[arg-type]
        inner = int((self.margins(self.predict(x)) > 0).sum())
        return (
            f"{inner} of {len(self.a)} residuals lie within delta = {self.delta:g} at the best point found, which is not the minimiser "
            "to that accuracy: raise delta or rescale the data, set ridge > 0, or take LAD, which is certified on a ball"
        )


class LogisticRows(RowLoss):
    radius_law = "logistic"

    def _margin(self, z: Enclosure) -> tuple[np.ndarray, np.ndarray]:
        """Rounded margins (n,) and a bound of their error."""
        return z.hi[:, 0] * self.b, (np.abs(z.lo) + z.rad)[:, 0] * UP

    def losses(self, z: Enclosure) -> tuple[Enclosure, Enclosure]:
        m, off = self._margin(z)
        t = np.exp(-np.abs(m))
        # |d log(1+t)/d log t| <= log(1+t), so the two library errors add; |phi'| <= 1
        # and <= exp(-m)
        tail = np.log1p(t)
        slope = np.where(m >= 0, t, 1.0) / (1 + t)
        rad = tail * (2 * LIBRARY_ERROR + 4 * ROUNDOFF) + off * (slope * (1 + 4 * LIBRARY_ERROR) + off)
        loss = Enclosure.exact(np.maximum(-m, 0.0)) + Enclosure(tail, np.zeros_like(tail), rad * UP + TINY)
        slope_rad = slope * 4 * LIBRARY_ERROR + off
        signed = -self.b * slope
        return loss, Enclosure(signed, np.zeros_like(signed), slope_rad * UP + TINY)[:, None]

    def bends(self, z: Enclosure) -> tuple[np.ndarray, float]:
        m, off = self._margin(z)
        t = np.exp(-np.abs(m))
        return t / (1 + t) ** 2, 8 * LIBRARY_ERROR + 4 * float(off.max(initial=0.0))

    def local_curvature(self, x: np.ndarray, coordinates: np.ndarray, metric: Metric, radius: float) -> float:
        shift = float(self.reach(coordinates, metric).max(initial=0.0)) * radius * UP
        return (1 - metric.delta) * float(np.exp(-shift)) * (1 - 4 * LIBRARY_ERROR)

    def separated(self, x: np.ndarray, quick: bool = False) -> bool:
        return self.ridge == 0 and bool((self.margins(self.predict(x, quick)).lower > 0).all())

    def margins(self, z: Enclosure) -> Enclosure:
        """Return how much each label's logit is ahead. Where all are positive at some x, F
        decreases along x for ever."""
        return z[:, 0] * self.b

    def differences(self) -> np.ndarray | None:
        """Rows whose products with x are the margins; None when there are too many."""
        return self.a * self.b[:, None]

    def why_not(self, x: np.ndarray) -> str:
        found = "are separable" if self.separated(x) else None
        if found is None and self.ridge == 0:
            found = _separate(self.differences())
        if found is not None:
            return (
                f"F has no minimiser: the data {found}, and along a direction on which all margins "
                "are >= 0 and some > 0 F decreases for ever: set ridge > 0"
            )
        return (
            "the Hessian at the best point found is singular to rounding (dependent features), or the data are separable and F has no "
            "minimiser: set ridge > 0 or drop dependent features"
        )


class SoftmaxRows(LogisticRows):
    radius_law = "softmax"

    def __init__(self, problem: LinearSamples, onehot: np.ndarray) -> None:
        """onehot (N, n, C): the labels."""
        super().__init__(problem, np.argmax(onehot, axis=2), onehot.shape[2])

    def _shifted(self, z: Enclosure) -> tuple[np.ndarray, Enclosure, np.ndarray, np.ndarray]:
        """Top class (n,), logits minus the top one, exp of these, and the error of their exponents, relative."""
        top = np.argmax(z.hi, axis=1)
        diff = z - z[np.arange(len(top)), top][:, None]
        e = np.exp(diff.hi)
        off = (np.abs(diff.lo) + diff.rad) * 2 + 2 * LIBRARY_ERROR
        return top, diff, e, off

    def losses(self, z: Enclosure) -> tuple[Enclosure, Enclosure]:
        n, c = z.hi.shape
        each = np.arange(n)
        top, diff, e, off = self._shifted(z)
        others = e.copy()
        others[each, top] = 0.0
        rest = others.sum(axis=1)
        tail = np.log1p(rest)
        spread = (others * (off + 2 * c * ROUNDOFF)).sum(axis=1) / (1 + rest) + tail * 2 * LIBRARY_ERROR
        zeros = np.zeros_like(tail)
        loss = Enclosure(tail, zeros, spread * 2 + TINY) + -diff[each, self.b]
        p = e / (1 + rest)[:, None]
        # each log-probability moves by at most its own exponent's error plus the mean error
        rad = p * (off + (p * off).sum(axis=1, keepdims=True) + 4 * c * ROUNDOFF + 2 * LIBRARY_ERROR) * 2
        enclosed = Enclosure(p, np.zeros_like(p), rad + TINY)
        onehot = np.zeros_like(p)
        onehot[each, self.b] = 1.0
        return loss, enclosed - onehot

    def bends(self, z: Enclosure) -> tuple[np.ndarray, float]:
        _, _, e, off = self._shifted(z)
        # twice the relative error of p, which enters squared; small p may carry more, but counts
        # with its own size
        error = float((off * np.where(e > 1e-300, 1.0, 0.0)).max(initial=0.0))
        return e / e.sum(axis=1, keepdims=True), 8 * error + 16 * LIBRARY_ERROR + 8 * self.classes * ROUNDOFF

    def hessian(self, x: np.ndarray, every_row: bool = False, quick: bool = False) -> tuple[np.ndarray, np.ndarray, float]:
        if every_row:  # one class's Gram matrix decides which features are independent
            return super().hessian(x, every_row=True)
        p, relative = self.bends(self.predict(x, quick))
        n, features, c = len(self.a), self.a.shape[1], self.classes
        wp = self.omega_float[:, None] * p
        blocks = np.empty((features, c, features, c))
        for k in range(c):
            for m in range(k, c):
                weight = wp[:, k] * ((1.0 - p[:, k]) if k == m else -p[:, m])
                blocks[:, k, :, m] = (self.a * weight[:, None]).T @ self.a
                blocks[:, m, :, k] = blocks[:, k, :, m].T
        h = blocks.reshape(self.dim, self.dim)
        h = (h + h.T) / 2 + self.ridge * np.eye(self.dim)
        majorant = 2 * ((self.a**2).T @ wp).ravel() + self.ridge
        return h, majorant, relative + gamma(n + 16)

    def local_curvature(self, x: np.ndarray, coordinates: np.ndarray, metric: Metric, radius: float) -> float:
        shift = 4 * float(self.reach(coordinates, metric).max(initial=0.0)) * radius * UP
        return (1 - metric.delta) * float(np.exp(-shift)) * (1 - 4 * LIBRARY_ERROR)

    def margins(self, z: Enclosure) -> Enclosure:
        each = np.arange(len(z.hi))
        lead = z[each, self.b][:, None] - z
        others = np.arange(self.classes)[None] != self.b[:, None]
        return lead[others]

    def differences(self) -> np.ndarray | None:
        n, p = self.a.shape
        if n * self.dim * self.classes > 300_000:
            return None
        rows = np.zeros((n, self.classes, p, self.classes))
        rows -= self.a[:, None, :, None] * np.eye(self.classes)[None, :, None, :]
        rows[np.arange(n), :, :, self.b] += self.a[:, None, :]
        rows = rows[np.arange(self.classes)[None] != self.b[:, None]]
        return rows.reshape(n * (self.classes - 1), -1)


def _separate(margins: np.ndarray | None) -> str | None:
    """'are separable' (proven), 'appear to be separable' (by a linear programme), or None."""
    if margins is None or margins.size > 300_000:
        return None
    from scipy.optimize import linprog

    n, d = margins.shape
    size = np.abs(margins).max(axis=0, initial=0.0)
    scaled = margins / np.where(size > 0, size, 1.0)
    # max sum t with t <= margins v and 0 <= t <= 1
    cost = np.append(np.zeros(d), -np.ones(n))
    bounds = [(None, None)] * d + [(0, 1)] * n
    found = linprog(cost, A_ub=np.hstack([-scaled, np.eye(n)]), b_ub=np.zeros(n), bounds=bounds)
    if found.x is None or -found.fun < 0.5:
        return None
    v = found.x[:d] / np.where(size > 0, size, 1.0)
    if (dot(margins, v[None]).lower > 0).all():
        return "are separable"
    least = float((margins @ v).min())
    return "appear to be separable or quasi-separable" if least >= -1e-6 else None
