"""The constants of Theorems 1 and 2 of FedMLS, and the factors of their proofs."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import ceil, isqrt, sqrt
from typing import Any

import numpy as np

from fedtheory.theory import derived


def harmonic(n: Any) -> Any:
    """H_n, from scipy's digamma; of fractions the sum."""
    n = np.asarray(n)
    if n.dtype == object:
        terms = (Fraction(1, i) for i in range(1, int(n.max()) + 1))
        sums = list(accumulate(terms, initial=Fraction(0)))
        return np.array([sums[int(i)] for i in n.flat], dtype=object).reshape(n.shape)
    from scipy.special import digamma

    return digamma(np.asarray(n, dtype=float) + 1) + np.euler_gamma


def c_factor(steps: Any) -> Any:
    """c(T) = (T+1)(T+2)/(T(T+3)), decreasing, 3/2 at T = 1."""
    t = np.asarray(steps)
    t = t if t.dtype == object else t.astype(float)
    return (t + 1) * (t + 2) / (t * (t + 3))


def kappa(steps: Any) -> Any:
    """(T + H_T)/(T + 3), at most 1.0302444 (T = 33)."""
    t = np.asarray(steps, dtype=float)
    return (t + harmonic(t)) / (t + 3)


def kappa_noise(steps: Any) -> Any:
    """(T + 3/2 - H_{T+2})/(T + 3), below 1."""
    t = np.asarray(steps, dtype=float)
    return (t + 1.5 - harmonic(t + 2)) / (t + 3)


def kappa_last(steps: int, noise: bool = False) -> float:
    """kappa's counterpart when line 14 takes the last iterate.

    It is about (log T)/2 + 0.64, at most 4 up to T = 828.

    noise: that of `kappa_noise`, which is smaller, and at most 2 up to T = 26.
    """
    t = np.arange(1, steps + 1, dtype=float)
    error = 4 * (t + 1) / (t + 2 if noise else t)
    after = np.concatenate([np.cumsum(error[::-1])[::-1], [0.0]])  # after[j] = sum_{t > j} e_t
    # weight[j - 1] = sum_{t >= j} (t + 1)
    weight = np.concatenate([np.cumsum((t + 1)[::-1])[::-1], [0.0]])
    j = np.arange(1, steps)
    later = ((j + 1) * after[j] / (weight[j - 1] * weight[j])).sum()
    return float(steps / 8 * (after[0] / weight[0] + later))


def k_min(product: Fraction, slack: int | Fraction = 8) -> int:
    """Least K with K (K + 1) >= 2 (10 + slack) G^2 D/epsilon^2, in exact arithmetic.

    ``product`` is G^2 D/epsilon^2.
    """
    need = 2 * (10 + Fraction(slack)) * product
    # the least K with (2 K + 1)^2 >= 1 + 4 need
    return max(1, (isqrt(ceil(1 + 4 * need) - 1) + 1) // 2)


@dataclass(frozen=True)
class MLSConstants:
    """The constants of Theorems 1 and 2.

    Attributes
    ----------
    K : rounds; lam : lambda; D : D-tilde
    G_i, sigma_i : (N,) bounds of the subgradients on the closed ball, and noise levels
    distance_sq : ||x_0 - x*||^2
    steps : (K,) T_k
    reach_sq : (R + ||x_0||)^2, which no ||x_0 - u||^2 in the ball exceeds
    line_4 : G and sigma of T_k, where they are not the root mean squares of the G_i and sigma_i
    """

    K: int
    lam: float
    D: float
    G_i: np.ndarray
    sigma_i: np.ndarray
    distance_sq: float
    steps: np.ndarray
    reach_sq: float = float("inf")
    line_4: tuple[float, float] | None = None

    line_4_G_sq = derived(lambda q: q.G_sq if q.line_4 is None else q.line_4[0] ** 2, "G^2 of T_k")
    line_4_sigma_sq = derived(
        lambda q: q.sigma_sq if q.line_4 is None else q.line_4[1] ** 2, "sigma^2 of T_k"
    )
    N = derived(lambda q: len(q.G_i), "The number of clients")
    total_steps = derived(lambda q: float(q.steps.sum()), "sum_k T_k")
    G_sq = derived(
        lambda q: float(np.mean(q.G_i**2)), "Mean of G_i^2: the constant that the proof needs"
    )
    sigma_sq = derived(lambda q: float(np.mean(q.sigma_i**2)))
    joint_G_sq = derived(
        lambda q: q.G_sq / q.N,
        "||grad F||^2 of the joint F on R^{Nd}: mean of G_i^2 over N. The poster's reading",
    )

    def theorem_1(self, start: float = 10, slack: float = 8, G_sq: float | None = None) -> float:
        """(start ||x_0 - x*||^2 + slack D)/(lam K (K+1)) + G^2 lam/2."""
        G_sq = self.G_sq if G_sq is None else G_sq
        of_rounds = (start * self.distance_sq + slack * self.D) / (self.lam * self.K * (self.K + 1))
        return of_rounds + G_sq * self.lam / 2

    def excess_of_psi(self, distance_sq: float) -> float:
        """Bound of E Psi_K - Psi(u, u') after the steps T_k that were taken.

        ||u - x_0||^2 and ||u' - x_0||^2 are at most distance_sq.
        The training of round K does not enter x_K, so that it may be thought of as exact.
        """
        k = np.arange(1, self.K)
        t = self.steps[: self.K - 1]
        inner = k**2 * (self.G_sq * kappa(t) + self.sigma_sq * kappa_noise(t) / 2) / t
        start = 4 + 4 * c_factor(self.steps[0])
        total = start * distance_sq + 4 * self.lam**2 * float(inner.sum())
        return float(total / (self.lam * self.K * (self.K + 1)))

    def a_posteriori(self) -> float:
        """Theorem 1 with the steps T_k that were taken."""
        return self.excess_of_psi(self.distance_sq) + self.G_sq * self.lam / 2

    def large_k(self) -> float:
        """lam G^2/4 + G sqrt(lam e/2) + e, with e = `excess_of_psi` of any point of the ball."""
        e = self.excess_of_psi(self.reach_sq)
        return self.lam * self.G_sq / 4 + sqrt(self.G_sq * self.lam * e / 2) + e


@dataclass(frozen=True)
class LinesConstants(MLSConstants):
    """The same in fractions, of losses of which each has as many copies.

    Attributes
    ----------
    copies : (n,) how many clients have each of the G_i and sigma_i
    """

    copies: Any = ()

    N = derived(lambda q: int(sum(q.copies)), "The number of clients")
    G_sq = derived(lambda q: (q.G_i**2 * q.copies).sum() / Fraction(q.N), "Mean of G_i^2")
    sigma_sq = derived(lambda q: Fraction(0), "0: subgradients are exact")
