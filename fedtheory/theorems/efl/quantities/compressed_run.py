"""Runs of EFL with compression, all clients complete, and Theorem 1's steps: in fractions over all signs of the noise.

The consistent form of Algorithm 1: D^k = R^k + x^k, R^k <- D^k - C(D^k), D^G = R^G + sum_k p^k C(D^k),
R^G <- D^G - C(D^G), w <- w + C(D^G).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.messages import compressors
from fedtheory.rational import fraction, integer, objects, table, text, vector
from fedtheory.theorems.efl.notation import BUILDERS
from fedtheory.theory.judge.setting import ClosedView

__all__ = ["CompressedView", "compressed_view", "gamma_under_compression", "steps_of"]

MOST = 4096  # paths of the noise


def gamma_under_compression(E: int, L: Any, mu: Any, delta: Any) -> Any:
    """gamma = max{4E/delta, 64L/mu}: Theorem 1's for all clients complete, its first entry divided by delta."""
    return max(4 * E / delta, 64 * L / mu)


def steps_of(E: int, mu: Any, gamma: Any, rounds: int) -> list[Any]:
    """eta_t = 16/(mu ((t + 1) E + gamma)), t = 0..rounds - 1: Theorem 1's, as S_t = E."""
    return [16 / (mu * ((t + 1) * E + gamma)) for t in range(rounds)]


@dataclass
class CompressedView(ClosedView):
    """A run of T rounds on P equally likely paths of the noise; one path where there is none.

    Attributes
    ----------
    weights : (N,) p^k
    E, gamma, L, mu, G_sq : of Theorem 1; G^2 is the largest E||g||^2 of this run
    delta, down : the factor of the clients' compressor, and of the server's; None where nothing is compressed
    sigma_sq, D : (N,)
    star : (d,) w*
    w, R, R_G : models (T + 1, P, d), residuals of the clients (T + 1, P, N, d) and of the server (T + 1, P, d)
    local : (T, E + 1, P, N, d) the clients' models within a round, the first one w_t
    sent : (T, P, N, d) what clients sent
    noise, noise_of_points : absolute error of squared distances, and of models, of what is known in floats
    """

    horizon: ClassVar[str] = "t"

    weights: np.ndarray
    E: int
    gamma: Any
    L: Any
    mu: Any
    G_sq: Any
    delta: Any
    down: Any
    sigma_sq: np.ndarray
    D: np.ndarray
    star: np.ndarray
    w: np.ndarray
    R: np.ndarray
    R_G: np.ndarray
    local: np.ndarray
    sent: np.ndarray
    noise: Any = 0
    noise_of_points: Any = 0

    @property
    def T(self) -> int:
        return len(self.local)

    @property
    def horizons(self) -> np.ndarray:
        """t = 1..T, of what is compared round by round."""
        return np.arange(1, self.T + 1)

    @cached_property
    def times(self) -> np.ndarray:
        """t = 0..T, in the arithmetic of the view."""
        return np.arange(self.T + 1) + 0 * self.mu

    @cached_property
    def y(self) -> np.ndarray:
        """t E + gamma, t = 0..T."""
        return self.times * self.E + self.gamma

    @cached_property
    def eta(self) -> np.ndarray:
        """eta_t, t = 0..T (the last one is not used by the run)."""
        return 16 / (self.mu * (self.y + self.E))

    def mean(self, x: np.ndarray, axis: int = 1) -> np.ndarray:
        """The expectation over paths of ||x||^2, the coordinates in the last axis of x."""
        squares = (x * x).sum(axis=-1)
        return squares.sum(axis=axis) / squares.shape[axis]

    def average(self, x: np.ndarray) -> np.ndarray:
        """sum_k p^k x_k over the last axis but one."""
        return (self.weights[:, None] * x).sum(axis=-2)

    @cached_property
    def v(self) -> np.ndarray:
        """v_t = w_t + R^G_t + sum_k p^k R^k_t (T + 1, P, d)."""
        return self.w + self.R_G + self.average(self.R)

    @cached_property
    def distance_sq(self) -> np.ndarray:
        """E||w_t - w*||^2 (T + 1,)."""
        return self.mean(self.w - self.star)

    @cached_property
    def virtual_sq(self) -> np.ndarray:
        """E||v_t - w*||^2 (T + 1,)."""
        return self.mean(self.v - self.star)

    @cached_property
    def apart_sq(self) -> np.ndarray:
        """E||w_t - v_t||^2 (T + 1,)."""
        return self.mean(self.w - self.v)

    # --- the constants ----------------------------------------------------------------------------
    @property
    def client_factor(self) -> Any:
        """4/delta of the clients, 1 where they send uncompressed."""
        return 1 if self.delta is None else 4 / self.delta

    @property
    def whole_factor(self) -> Any:
        """A = (4/delta)(4/delta of the server), without the factor of an uncompressed side."""
        return self.client_factor * (1 if self.down is None else 4 / self.down)

    @property
    def rho_sq(self) -> Any:
        """((A - 1) E G)^2: E||w_t - v_t||^2 <= rho^2 eta_t^2."""
        return (self.whole_factor - 1) ** 2 * self.E**2 * self.G_sq

    @property
    def squares(self) -> Any:
        """sum_{i < E} i^2."""
        return (self.E - 1) * self.E * (2 * self.E - 1) // 6

    @property
    def spread(self) -> Any:
        """sum_k p^k D_k."""
        return (self.weights * self.D).sum()

    @property
    def variance(self) -> Any:
        """sum_k (p^k)^2 sigma_k^2."""
        return (self.weights**2 * self.sigma_sq).sum()

    def B(self, residuals: Any = 1) -> Any:
        """E (sum p^2 sigma^2 + 6 L sum p D) + (2 + mu/(2L)) (G^2 sum_{i<E} i^2 + E rho^2)."""
        drift = self.squares * self.G_sq + residuals * self.E * self.rho_sq
        return self.E * (self.variance + 6 * self.L * self.spread) + (2 + self.mu / (2 * self.L)) * drift

    @property
    def off(self) -> Any:
        """(E - 1)^2 G^2 + rho^2: how far clients are from vbar_i in mean square, over eta_t^2."""
        return (self.E - 1) ** 2 * self.G_sq + self.rho_sq

    @cached_property
    def kept(self) -> np.ndarray:
        """(1 - eta_t mu)^E, t = 0..T - 1."""
        return (1 - self.eta[:-1] * self.mu) ** self.E

    # --- within a round ---------------------------------------------------------------------------
    @cached_property
    def inner(self) -> np.ndarray:
        """vbar_i = v_t + sum_k p^k (w_i^k - w_t), i = 0..E: (T, E + 1, P, d)."""
        return self.v[:-1, None] + self.average(self.local - self.w[:-1, None, :, None])

    def printed_constants(self) -> dict[str, Any]:
        names = ("E", "gamma", "L", "mu", "G_sq", "delta", "down")
        return {**{n: text(getattr(self, n)) for n in names}, "rounds": self.T, "eta_0": text(self.eta[0]), "rho^2": text(self.rho_sq)}


def _signs(noise: np.ndarray, steps: int) -> np.ndarray:
    """All sign patterns of the clients that have noise (P, steps, N), 0 for the others. Raises
    `InvalidInput` for too many."""
    noisy = [k for k, row in enumerate(noise) if any(row)]
    if 2 ** (len(noisy) * steps) > MOST:
        raise InvalidInput(f"2^{len(noisy) * steps} paths of the noise: at most {MOST} are enumerated; take fewer rounds")
    out = np.zeros((2 ** (len(noisy) * steps), steps, len(noise)), dtype=object) + Fraction(0)
    for row, pattern in zip(out, itertools.product([1, -1], repeat=len(noisy) * steps), strict=True):
        row[:, noisy] = np.array(pattern, dtype=object).reshape(steps, len(noisy))
    return out


@BUILDERS.add("compressed")
def compressed_view(data: dict[str, Any]) -> CompressedView:
    """From weights, h, c, optional noise (N rows of d, gradients are off by +-n_k in every step), q
    of ST, down, w0, E and T.

    ``down`` : true where the server compresses with the same ST, false where it sends uncompressed
    """
    weights, w0, h, c = vector(data["weights"], "weights"), vector(data["w0"], "w0"), table(data["h"], "h"), table(data["c"], "c")
    n = table(data["noise"], "noise") if "noise" in data else 0 * c
    E, T, down, q = integer(data["E"], "E", 1, 20), integer(data["T"], "T", 1, 60), data["down"], fraction(data["q"], "q")
    if not h.shape == c.shape == n.shape or len(weights) != len(h) or w0.shape != h.shape[1:]:
        raise InvalidInput("weights, h, c, noise and w0 do not fit together: N weights, N rows of d, d numbers")
    if weights.min() <= 0 or weights.sum() != 1 or h.min() <= 0 or not isinstance(down, bool):
        raise InvalidInput("weights must be > 0 and sum to 1, curvatures > 0, and down true or false")
    st = compressors.ST(q)
    delta, L, mu = st.contraction_exact(h.shape[1]), h.max(), h.min()
    gamma = gamma_under_compression(E, L, mu, delta)
    signs, p = _signs(n, E * T), weights[:, None]
    P, shape = len(signs), (len(signs), *h.shape)
    w, R, R_G = np.stack([w0] * P), np.zeros(shape, dtype=object) + Fraction(0), np.stack([0 * w0] * P)
    kept: dict[str, list[np.ndarray]] = {"w": [w], "R": [R], "R_G": [R_G], "local": [], "sent": []}
    G_sq = Fraction(0)
    for t, eta in enumerate(steps_of(E, mu, gamma, T)):
        y = w[:, None] + 0 * R
        path = [y]
        for j in range(E):
            g = h * (y - c) + signs[:, t * E + j, :, None] * n
            G_sq = max(G_sq, *((g * g).sum(axis=-1).sum(axis=0) / P))
            y = y - eta * g
            path.append(y)
        message = R + y - w[:, None]
        sent = st.compress(message)
        R, to_all = message - sent, R_G + (p * sent).sum(axis=1)
        move = st.compress(to_all) if down else to_all
        R_G, w = to_all - move, w + move
        for name, value in (("w", w), ("R", R), ("R_G", R_G), ("local", np.stack(path)), ("sent", sent)):
            kept[name].append(value)
    star = (p * h * c).sum(axis=0) / (p * h).sum(axis=0)
    D = objects([(row * (star - at) ** 2).sum() / 2 for row, at in zip(h, c, strict=True)])
    stacked = {name: np.stack(values) for name, values in kept.items()}
    sigma_sq = (n**2).sum(axis=1)
    return CompressedView(
        weights, E, gamma, L, mu, G_sq, delta, delta if down else None, sigma_sq, D, star,
        **stacked,
    )
