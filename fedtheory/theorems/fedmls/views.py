"""What the statements about MOPES, MOLES, the exact proximal step and the orders of growth are judged on.

The same attributes stand for fractions, where the data are fractions, and for floats, where a run of the library is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fedtheory.theorems.fedmls import lines
from fedtheory.theorems.fedmls.lines import History, Run
from fedtheory.verification.setting import ClosedView

__all__ = [
    "ENOUGH", "EXACT_PROX", "FEDPROX", "FEWEST_COUNTS", "FLAT", "INSIDE", "LINEAR", "MANY_A_ROUND", "NATURAL", "ONE_A_ROUND",
    "OUTSIDE", "OUTSIDE_BALL", "PRINTED_COUNTS", "PROJECTED", "STEPS", "ConventionalView", "EnvelopeView", "MopesView", "OrdersView",
    "ProxView", "SameView", "column", "entry",
]  # fmt: skip

# what a form may need
STEPS, EXACT_PROX = "local training takes the T_k subgradient steps of line 4", "every local problem is solved exactly"
FLAT = "every local problem is solved exactly, its proximal term printed without the square"
PROJECTED, LINEAR = "projections onto X are exact", "projections onto X are Frank-Wolfe's, to a Wolfe gap of C/(4K)"
NATURAL = "C is the squared diameter of X"
INSIDE, OUTSIDE, OUTSIDE_BALL = "x_0 lies in X", "x_0 lies in X' and not in X", "x_0 lies outside X'"
ONE_A_ROUND = "one client, from x_0 = 0 with one step along a subgradient in a round"
MANY_A_ROUND = "one client, from x_0 = 0 with two or more steps along subgradients in a round"
FEDPROX = "FedProx from x_0 = 0 with the same step h in every round, its local problems solved exactly"
ENOUGH = "K(K+1) >= 16 ||x_0 - x*||^2 G^2/epsilon^2, epsilon = lambda G^2"
PRINTED_COUNTS = "K = ceil(6 G sqrt(2 D-tilde)/epsilon) >= 2"
FEWEST_COUNTS = "K >= 2 is the least with K(K+1) >= 36 G^2 D-tilde/epsilon^2"
LOCAL_FACT = {"sliding": STEPS, "exact": EXACT_PROX, "flat": FLAT}


def entry(value: Any) -> np.ndarray:
    """One number as a side (1, 1), fractions kept as they are."""
    out = np.empty((1, 1), dtype=object if isinstance(value, Fraction | int) else float)
    out[0, 0] = value
    return out


def column(values: list[Any]) -> np.ndarray:
    """Numbers as a side (n, 1)."""
    return np.concatenate([entry(v) for v in values])


class _OfARule(ClosedView):
    """A closed view of K rounds whose forms tell exact subgradients from noisy ones."""

    rule = "deterministic"
    horizon: ClassVar[str] = "K"
    K: int

    @property
    def horizons(self) -> np.ndarray:
        """(1,) K, the round that a bound on F(x_K) - F* is about."""
        return np.array([self.K])


@dataclass
class ProxView(_OfARule):
    """A run of FedMLS in which every local problem is solved: exactly, or to certified gaps.

    Attributes
    ----------
    lam, K, G_sq, distance_sq : lambda, K, G^2, ||x_0 - x*||^2
    excess : (1, 1) F(x_K) - F*
    psi : (K, 1) Psi(x_k, x'_k) - F*, k = 0..K-1 (x'_K is not needed)
    server_sq, client_sq : (K, 1) ||x* - z_k||^2 and mean_i ||x* - z'_k||^2
    gaps : (K - 1, 1) mean_i of the certified gaps of the local problems; zeros where they are solved exactly
    noise : absolute uncertainty of F*
    """

    lam: Any
    K: int
    G_sq: Any
    distance_sq: Any
    excess: np.ndarray
    psi: np.ndarray
    server_sq: np.ndarray
    client_sq: np.ndarray
    gaps: np.ndarray
    noise: Any = 0
    shown: dict[str, Any] = field(default_factory=dict)

    @property
    def facts(self) -> frozenset[str]:  # type: ignore[override]
        enough = self.K * (self.K + 1) * self.lam * self.lam * self.G_sq >= 16 * self.distance_sq
        return frozenset({ENOUGH} if enough else ())

    def printed_constants(self) -> dict[str, Any]:
        return self.shown

    @property
    def epsilon(self) -> Any:
        """The accuracy that lambda = epsilon/G^2 stands for."""
        return self.lam * self.G_sq

    @property
    def gap_total(self) -> Any:
        """2/(K(K+1)) sum_k k eta_k."""
        total = sum(((k * g for k, g in enumerate(self.gaps[:, 0], start=1))), self.lam * 0)
        return 2 * total / (self.K * (self.K + 1))

    def bound(self, start: Any = 8, penalty: Any = 1) -> np.ndarray:
        """start ||x_0 - x*||^2/(lambda K (K+1)) + penalty lambda G^2/2, and what the gaps cost."""
        first = start * self.distance_sq / (self.lam * self.K * (self.K + 1))
        return entry(first + penalty * self.lam * self.G_sq / 2 + self.gap_total)


def prox_view(run: Run) -> ProxView:
    """The view of a run in fractions, FedMLS on the interval X = X'."""
    clients, n = run.clients, len(run.clients)
    least, star = lines.least_on(clients, run.low, run.high, run.x0)
    path = lines.history(run)
    psi = [_psi(run, path, k) - least for k in range(run.rounds)]
    zeros = [Fraction(0)] * max(1, run.rounds - 1)
    return ProxView(
        run.lam, run.rounds, sum((lines.steepest(c, run.radius) ** 2 for c in clients), Fraction(0)) / n, (run.x0 - star) ** 2,
        entry(lines.excess(clients, path.x[-1], least)), column(psi), column([(star - z) ** 2 for z in path.z[: run.rounds]]),
        column([sum(((star - v) ** 2 for v in each), Fraction(0)) / n for each in path.z_client]), column(zeros),
    )  # fmt: skip


def _psi(run: Run, path: History, k: int) -> Fraction:
    """Psi(x_k, x'_k)."""
    n, x, own = len(run.clients), path.x[k], path.x_client[k]
    values = [lines.excess([c], v, Fraction(0)) for c, v in zip(run.clients, own, strict=True)]
    return sum(values, Fraction(0)) / n + sum(((x - v) ** 2 for v in own), Fraction(0)) / (2 * run.lam * n)


@dataclass
class MopesView(_OfARule):
    """A run of MOPES or MOLES.

    Attributes
    ----------
    lam, D, K, G_sq, distance_sq : lambda, D-tilde, K, G^2, ||x_0 - x*||^2
    excess : (1, S) F(x_K) - F*
    exact : whether the subgradients are
    C, diameter_sq : the allowance for inexact projections, and the squared diameter of X; None where projections are exact
    calls : (K, 1) linear minimisations of every round, or None
    """

    lam: Any
    D: Any
    K: int
    G_sq: Any
    distance_sq: Any
    excess: np.ndarray
    facts: frozenset[str] = frozenset()
    exact: bool = True
    noise: Any = 0
    C: Any = None
    diameter_sq: Any = None
    calls: np.ndarray | None = None
    shown: dict[str, Any] = field(default_factory=dict)

    @property
    def rule(self) -> str:  # type: ignore[override]
        return "deterministic" if self.exact else "stochastic"

    def printed_constants(self) -> dict[str, Any]:
        return self.shown

    def bound(self, start: Any = 10, slack: Any = 8, allowance: Any = 0, penalty: Any = 1) -> np.ndarray:
        """(start ||x_0 - x*||^2 + slack D + allowance C)/(lambda K (K+1)) + penalty lambda G^2/2, one for every scenario."""
        total = start * self.distance_sq + slack * self.D + (allowance * self.C if allowance else 0)
        value = total / (self.lam * self.K * (self.K + 1)) + penalty * self.lam * self.G_sq / 2
        return entry(value) if self.excess.dtype == object else np.full(self.excess.shape, float(value))

    def call_limit(self, factor: Any = 16) -> np.ndarray:
        """max(3, ceil(factor K diameter^2/C)), one for every round."""
        limit = max(3, -(-factor * self.K * Fraction(self.diameter_sq) // Fraction(self.C)))
        return np.full((self.K, 1), float(limit))


def mopes_view(run: Run) -> MopesView:
    """The view of a run in fractions, one loss on X = [low, high] in X' = [-radius, radius]."""
    least, star = lines.least_on(run.clients, run.low, run.high, run.x0)
    path = lines.history(run)
    where = OUTSIDE_BALL if abs(run.x0) > run.radius else INSIDE if run.low <= run.x0 <= run.high else OUTSIDE
    return MopesView(
        run.lam, run.d, run.rounds, run.g_sq, (run.x0 - star) ** 2, entry(lines.excess(run.clients, path.x[-1], least)),
        frozenset({PROJECTED, LOCAL_FACT[run.local], where}),
    )  # fmt: skip


@dataclass
class SameView(ClosedView):
    """FedMLS and MOPES on the consensus set, from the same data: x_0..x_K of each, in fractions.

    Attributes
    ----------
    run : FedMLS's, with the mean product's lambda, D-tilde and G^2
    """

    run: Run

    @cached_property
    def fedmls(self) -> np.ndarray:
        """(K + 1,) the server's models."""
        return self._array(lines.history(self.run).x)

    @cached_property
    def printed_line_14(self) -> np.ndarray:
        """(K + 1,) the same with the last iterate z' in line 14."""
        from dataclasses import replace

        return self._array(lines.history(replace(self.run, last=True)).x)

    def mopes(self, scale: int = 1, share: int = 1) -> np.ndarray:
        """(K + 1, N) MOPES's x_k with (scale lambda, scale D, G^2/scale), the clients' subgradients divided by ``share``."""
        r = self.run
        path = lines.product_mopes(r.clients, scale * r.lam, scale * r.d, r.radius, r.x0, r.rounds, r.g_sq / scale, share)
        return np.stack([self._array(x) for x in path])

    @property
    def clients(self) -> int:
        """N."""
        return len(self.run.clients)

    @staticmethod
    def _array(values: list[Fraction]) -> np.ndarray:
        out = np.empty(len(values), dtype=object)
        out[:] = values
        return out


@dataclass
class EnvelopeView(ClosedView):
    """Minimisers of Psi and of F, in fractions.

    Attributes
    ----------
    lam, G_sq : lambda, and (1/N) sum_i G_i^2
    psi_star, F_star : min Psi over x in X and x' in R^{Nd}, min F over X
    F_at : F at the x-part of Psi's minimiser
    """

    lam: Fraction
    G_sq: Fraction
    psi_star: Fraction
    F_star: Fraction
    F_at: Fraction


@dataclass
class ConventionalView(ClosedView):
    """A run of another method from 0, on a function made to need many rounds, in fractions.

    Attributes
    ----------
    excess : (K, 1) F(x_k) - F*, of the rounds that are looked at
    floor : (K, 1) what it is said not to fall below
    facts : which method it is
    """

    excess: np.ndarray
    floor: np.ndarray
    facts: frozenset[str] = frozenset()


@dataclass
class OrdersView(ClosedView):
    """Theorem 2's rounds and local steps for one accuracy, in fractions.

    Attributes
    ----------
    product : G^2 D-tilde/epsilon^2
    noise : sigma^2/G^2
    rounds : 'printed' (K = ceil(sqrt(72 product))) or 'fewest' (the least K with K(K+1) >= 36 product)
    K : that number
    total : sum_k T_k over k = 1..K
    """

    product: Fraction
    noise: Fraction
    rounds: str
    K: int
    total: int

    @property
    def facts(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset({PRINTED_COUNTS if self.rounds == "printed" else FEWEST_COUNTS})

    @property
    def unit(self) -> Fraction:
        """(4 G^2 + sigma^2) D-tilde/epsilon^2."""
        return (4 + self.noise) * self.product

    def entry(self, value: Any) -> np.ndarray:
        """A number as a side, in fractions."""
        return entry(Fraction(value))
