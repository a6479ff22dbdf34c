"""Exact E||x_t - x*||^2 of local SGD with irregular clients on quadratics, in floats or fractions.

A local step is a random affine map, so that a round takes the second moment of (x - x*, 1) to the
next one linearly. With P_k^s the mean map of s steps of client k, Y_k^s the second moment after
them, X = P - I and p_k the coefficient, which is read off the method's own round
(`fedtheory.theory.rounds.coefficients`),

    M+ = M + sum_ks E[p_k 1{s_k=s}] (X M + M X')
           + sum_ks E[p_k^2 1{s_k=s}] (Y - P M - M P' + M) + sum_{k!=l} E[p_k p_l ...] X_k M X_l'.

The same recursion gives the constants of EFL's Assumptions 3 and 4 as exact expectations:
E||g_i^k||^2 and E||g_i^k - grad F_k||^2 at all points of the virtual full-E trajectories of all
clients, active or not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.problems.base import Problem
from fedtheory.problems.linear import LeastSquares
from fedtheory.problems.quadratic import Quadratic
from fedtheory.theory.rounds.coefficients import RoundLaw
from fedtheory.theory.rounds.of_a_problem import quadratics_of

__all__ = ["Path", "QuadraticOracles", "is_exact", "oracles_of", "second_moments"]


def is_exact(values: np.ndarray) -> bool:
    """True if an array holds Fractions."""
    return values.dtype == object


def _number(like: np.ndarray, value: Any) -> Any:
    return Fraction(value) if is_exact(like) else float(value)


@dataclass(frozen=True, eq=False)
class QuadraticOracles:
    """F_k(w) = sum_j q_kj (w'H_kj w/2 - b_kj'w), and the stochastic gradients of its clients.

    Attributes
    ----------
    H, b, q : (N, J, d, d), (N, J, d), (N, J)
        A mini-batch is ``batch`` independent draws of j with probabilities q_k. In Fractions the
        H_kj must be diagonal.
    noise_sq : (N,)
        Variance of additive noise, spread evenly over the d coordinates.
    weights : (N,) p^k
    common : bool
        All clients draw the same j in a step (their q_k are equal, and there is no additive
        noise): their mini-batches are then correlated. Different clients' draws are independent
        otherwise.
    """

    H: np.ndarray
    b: np.ndarray
    q: np.ndarray
    weights: np.ndarray
    noise_sq: np.ndarray
    batch: int = 1
    common: bool = False

    def __post_init__(self) -> None:
        if self.common and ((self.q != self.q[0]).any() or (self.noise_sq != 0).any()):
            raise InvalidInput(
                "common draws need one law of j for all clients, and no additive noise, which each "
                "draws by itself"
            )
        if is_exact(self.H) and (self.H * (1 - np.eye(self.H.shape[-1], dtype=int)) != 0).any():
            raise InvalidInput(
                "exact quadratics must have diagonal Hessians: their eigenvalues are then fractions"
            )
        if not self.mu > 0:
            raise InvalidInput(
                f"the least curvature of a client is mu = {float(self.mu):.6g}: Theorem 1 needs "
                "mu > 0 (Assumption 2)"
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """N, J, d."""
        return self.H.shape[:3]

    @cached_property
    def mean_H(self) -> np.ndarray:
        return (self.q[..., None, None] * self.H).sum(axis=1)

    @cached_property
    def mean_b(self) -> np.ndarray:
        return (self.q[..., None] * self.b).sum(axis=1)

    @cached_property
    def _spectra(self) -> np.ndarray:
        if is_exact(self.H):
            return np.array([np.diag(h) for h in self.mean_H], dtype=object)
        return np.linalg.eigvalsh(self.mean_H)

    @cached_property
    def L(self) -> Any:
        """Smoothness: the largest eigenvalue over all clients (Assumption 1)."""
        return self._spectra.max()

    @cached_property
    def mu(self) -> Any:
        """Strong convexity: the least eigenvalue over all clients (Assumption 2)."""
        return self._spectra.min()

    def _solve(self, h: np.ndarray, b: np.ndarray) -> np.ndarray:
        if is_exact(h):
            return b / np.diagonal(h, axis1=-2, axis2=-1)
        return np.linalg.solve(h, b[..., None])[..., 0]

    @cached_property
    def star(self) -> np.ndarray:
        """w* = argmin sum_k p^k F_k."""
        w = self.weights
        return self._solve(
            (w[:, None, None] * self.mean_H).sum(axis=0), (w[:, None] * self.mean_b).sum(axis=0)
        )

    @cached_property
    def D(self) -> np.ndarray:
        """D_k = F_k(w*) - F_k^*, in closed form: (N,)."""
        g = self.gradient(np.broadcast_to(self.star, self.mean_b.shape))
        return (g * self._solve(self.mean_H, g)).sum(axis=-1) / 2

    def gradient(self, y: np.ndarray) -> np.ndarray:
        """grad F_k(y_k): (..., N, d) -> (..., N, d)."""
        return (self.mean_H * y[..., None, :]).sum(axis=-1) - self.mean_b

    @cached_property
    def lifted(self) -> np.ndarray:
        """A_kj with g_kj(w) = the first d rows of A_kj (w - w*, 1): (N, J, d + 1, d + 1)."""
        n, j, d = self.shape
        out = np.zeros((n, j, d + 1, d + 1), dtype=self.H.dtype) + _number(self.H, 0)
        out[..., :d, :d] = self.H
        out[..., :d, d] = (self.H * self.star).sum(axis=-1) - self.b
        return out

    def without(self, client: int) -> QuadraticOracles:
        """The same clients but one, their weights divided by their sum."""
        rest = [k for k in range(len(self.weights)) if k != client]
        own = {name: getattr(self, name)[rest] for name in ("H", "b", "q", "noise_sq")}
        return replace(self, **own, weights=self.weights[rest] / self.weights[rest].sum())


def oracles_of(
    problem: Problem, batch_size: int | None = None, noise_std: float = 0.0
) -> QuadraticOracles:
    """The oracles of a quadratic or least squares problem.

    Raises `MissingCapability`: losses that are not quadratic: their moments do not follow an affine
    recursion.
    """
    n, d = problem.num_clients, problem.dim
    noise = np.full(n, float(noise_std) ** 2)
    if isinstance(problem, LeastSquares) and batch_size is not None:
        a = problem.features
        H = a[..., :, None] * a[..., None, :] + problem.ridge * np.eye(d)
        b, q = a * problem.targets[..., None], problem.sample_weights
        return QuadraticOracles(H, b, q, problem.weights, noise, batch_size)
    if not isinstance(problem, LeastSquares | Quadratic) or batch_size is not None:
        raise MissingCapability(
            f"{type(problem).__name__}: exact moments need quadratic losses (mini-batches: "
            "LeastSquares)"
        )
    H, b = quadratics_of(problem)
    return QuadraticOracles(H[:, None], b[:, None], np.ones((n, 1)), problem.weights, noise)


class Path(NamedTuple):
    """A run in second moments."""

    distance_sq: np.ndarray  # (T + 1,) E||w_tau - w*||^2
    G_sq: Any  # sup of E||g||^2 over rounds, clients and all E virtual steps
    sigma_sq: np.ndarray  # (N,) the same of E||g - grad F_k||^2
    second_moment: np.ndarray  # of (w_T - w*, 1)


def _t(a: np.ndarray) -> np.ndarray:
    return np.swapaxes(a, -1, -2)


def _trace(a: np.ndarray) -> Any:
    """Trace of the first d rows and columns."""
    return np.diagonal(a, axis1=-2, axis2=-1)[..., :-1].sum(axis=-1)


def _round(
    oracles: QuadraticOracles, law: RoundLaw, eta: Any, M: np.ndarray
) -> tuple[np.ndarray, Any, np.ndarray]:
    n, j, d = oracles.shape
    A, q = oracles.lifted, oracles.q[..., None, None]
    mean = (q * A).sum(axis=1)
    unit = np.eye(d + 1, dtype=int) * _number(A, 1)
    step = unit - eta * mean
    spread = np.zeros((d + 1, d + 1), dtype=int) * _number(A, 0)
    spread[range(d), range(d)] = _number(A, 1)

    def noise(Y: np.ndarray, centred: np.ndarray) -> np.ndarray:
        add = (oracles.noise_sq * Y[:, -1, -1] / d)[:, None, None] * spread
        return (
            add
            if j == 1
            else add + ((q * (A @ Y[:, None] @ _t(A))).sum(axis=1) - centred) / oracles.batch
        )

    first, second = law.single
    Y, P = np.broadcast_to(M, (n, d + 1, d + 1)), np.broadcast_to(unit, (n, d + 1, d + 1))
    square, largest, moved = M * 0, M[0, 0] * 0, [P * 0]
    sigma = oracles.noise_sq * 0
    for s in range(1, law.E + 1):
        centred = mean @ Y @ _t(mean)
        extra = noise(Y, centred)
        variance = _trace(extra)
        largest = max(largest, (_trace(centred) + variance).max())
        sigma = np.maximum(sigma, variance)
        Y, P = step @ Y @ _t(step) + eta**2 * extra, step @ P
        moved.append(P - unit)
        mixed = P @ M
        square = square + (second[:, s, None, None] * (Y - mixed - _t(mixed) + M)).sum(axis=0)
    X = np.stack(moved, axis=1)  # (N, E + 1, d + 1, d + 1)
    drift = (first[:, :, None, None] * X).sum(axis=1)
    total = drift.sum(axis=0)
    if law.pairs is None:
        cross = total @ M @ total.T - (drift @ M @ _t(drift)).sum(axis=0)
    else:
        at = np.flatnonzero((first != 0).any(axis=0))  # fractions are slow to multiply by 0
        X, W = (
            X[:, at].reshape(-1, d + 1, d + 1),
            law.pairs[:, at][..., at].reshape(n * len(at), -1),
        )
        cross = (X @ M @ _t((W @ X.reshape(len(X), -1)).reshape(X.shape))).sum(axis=0)
    if oracles.common:
        cross = cross + _shared(oracles, law, mean, eta, M)
    mixed = total @ M
    new = M + mixed + mixed.T + square + cross
    return (new + new.T) / 2, largest, sigma  # rounding's antisymmetric part would grow


def _shared(
    oracles: QuadraticOracles, law: RoundLaw, mean: np.ndarray, eta: Any, M: np.ndarray
) -> np.ndarray:
    """Give what common draws add: sum_{k != l} E[p_k p_l Cov(y_k, y_l)] of where clients stop.

    The covariance of two clients that both work grows, C <- step_k C step_l' +
    eta^2 Cov_j(A_kj y_k, A_lj y_l), and is carried on by the mean map of the one that works longer.
    """
    n, E, A, q, W = (
        oracles.shape[0],
        law.E,
        oracles.lifted,
        oracles.q[0],
        law.joint[..., None, None],
    )
    step = np.eye(len(M), dtype=int) * _number(A, 1) - eta * mean
    Y, total = np.broadcast_to(M, (n, n, *M.shape)), M * 0  # E[y_k y_l'] after m steps of both
    C = Y * 0
    for m in range(1, E + 1):
        drawn = sum(q[j] * (A[:, None, j] @ Y @ _t(A[:, j])) for j in range(len(q))) - mean[
            :, None
        ] @ Y @ _t(mean)
        C, Y = (step[:, None] @ a @ _t(step) + eta**2 * drawn / oracles.batch for a in (C, Y))
        total, on = total + (W[:, m, :, m] * C).sum(axis=(0, 1)), C
        for s in range(m + 1, E + 1):
            on = step[:, None] @ on
            later = (W[:, s, :, m] * on).sum(axis=(0, 1))
            total = total + later + later.T
    return total


def _determined(
    oracles: QuadraticOracles, law: RoundLaw, eta: Any, z: np.ndarray
) -> tuple[np.ndarray, Any, Any]:
    """A round without any randomness: the vector itself."""
    d, (steps, p) = z.shape[0], law.fixed  # type: ignore[misc]
    slope, offset = oracles.lifted[:, 0, :d, :d], oracles.lifted[:, 0, :d, d]
    y, end, largest = np.broadcast_to(z, offset.shape), np.broadcast_to(z, offset.shape), z[0] * 0
    for i in range(law.E):
        g = (slope * y[:, None, :]).sum(axis=-1) + offset
        largest = max(largest, (g * g).sum(axis=-1).max())
        y = y - eta * g
        end = np.where((steps > i)[:, None], y, end)
    return z + (p[:, None] * (end - z)).sum(axis=0), largest, oracles.noise_sq


def second_moments(
    oracles: QuadraticOracles,
    laws: list[RoundLaw],
    etas: list[Any],
    w0: np.ndarray,
    moment: np.ndarray | None = None,
) -> Path:
    """Run rounds 0..T-1 from w0: laws and step sizes, one a round; in Fractions if the oracles are.

    moment : the second moment of (w - w*, 1), (d + 1, d + 1), that the run starts from in place
        of w0
    """

    def moment_of(z: np.ndarray) -> np.ndarray:
        lifted = np.append(z, _number(z, 1))
        return lifted[:, None] * lifted

    fixed = all(law.fixed is not None for law in {id(v): v for v in laws}.values())
    alone = oracles.shape[1] == 1 and (oracles.noise_sq == 0).all() and fixed and moment is None
    at = w0 - oracles.star  # the vector itself where nothing is random, else its second moment
    if not alone:
        at = moment_of(at) if moment is None else moment
    make, square = (_determined, lambda z: (z * z).sum()) if alone else (_round, _trace)
    largest, sigma, path = at.flat[0] * 0, oracles.noise_sq * 0, [square(at)]
    for law, eta in zip(laws, etas, strict=True):
        at, g, noise = make(oracles, law, eta, at)
        largest, sigma = max(largest, g), np.maximum(sigma, noise)
        path.append(square(at))
    return Path(np.array(path), largest, sigma, moment_of(at) if alone else at)
