"""MOLES: MOPES with a linear minimisation oracle instead of a projection (Thekumparampil et al.
2020, arXiv 2010.01848).

The projection of each round is replaced by Frank-Wolfe steps with exact line search on 1/2
||u - target||^2 over X, from z_{k-1}, until the Wolfe gap max_s <u - target, u - s> is at most
C/(4K).

The paper's abstract states O(1/epsilon^2) calls of both oracles. The stopping rule and the
constants here are ours, as are the two statements that the tests check:

1. E F(x_K) - F(x) <= (10 ||x_0 - x||^2 + 8 D + 2 C)/(lambda K (K + 1)) + lambda G^2/2 for every x
   in X. Proof: in units of the round's objective the gap is eta_k = beta_k C/(4K) = C/(lambda K k).
   It enters the recursion of MOPES as Gamma_K sum_k k eta_k = 2 C/(lambda K (K+1)).
2. A round takes at most max(3, ceil(16 K Delta^2/C)) linear minimisations, Delta the diameter of X.
   Proof: h_j the suboptimality after j steps, g_j the gap. A step of length alpha gives
   h_{j+1} <= h_j - alpha g_j + alpha^2 Delta^2/2, so h_1 <= Delta^2/2, h_j <= 2 Delta^2/(j+2) for
   j >= 1 (Jaggi 2013, Theorem 1), and g_j <= Delta^2 for j >= 1. If g_j > g for m <= j <= J, then
   alpha = g/Delta^2 gives (J-m+1) g^2/(2 Delta^2) < h_m <= 2 Delta^2/(m+2), and the best m makes
   min_{j <= J} g_j <= 4 Delta^2/sqrt((J+2)(J+4)), J >= 2.

With C = Delta^2 that is at most 16 K^2 calls for K = O(G Delta/epsilon) rounds: the O(1/epsilon^2)
of the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtheory.algorithms.fedmls import exact_number
from fedtheory.arrays import Array, is_array
from fedtheory.central.mopes import MOPES, least_rounds, positive
from fedtheory.central.sets import ConstraintSet
from fedtheory.errors import InvalidInput, LocalSolveFailed, MissingCapability
from fedtheory.inputs import real_array, real_number, whole_number
from fedtheory.problems.base import Problem

__all__ = ["MOLES", "frank_wolfe_projection"]


def frank_wolfe_projection(
    constraint: ConstraintSet, target: Array, start: Array, gap: float, max_calls: int = 10**6
) -> tuple[Array, int, float]:
    """A point u of the set with <u - target, u - s> <= gap for all s in it, by Frank-Wolfe with exact line search.

    Returns
    -------
    u (d,), linear minimisations used, the gap reached

    Raises
    ------
    LocalSolveFailed
        The gap is not reached in max_calls (it may be below rounding).
    """
    checked = real_array("start", start), real_array("target", target)
    u, target = (start, target) if is_array(start) and is_array(target) else checked
    max_calls = whole_number("max_calls", max_calls)
    if gap != math.inf:
        gap = real_number("gap", gap, least=0)
    for calls in range(1, max_calls + 1):
        residual = u - target
        direction = constraint.linear_minimiser(residual) - u
        reached = -float(residual @ direction)
        if reached <= gap:
            return u, calls, max(reached, 0.0)
        u = u + min(1.0, reached / float(direction @ direction)) * direction
    raise LocalSolveFailed(f"Frank-Wolfe has a gap of {reached:.3g} after {max_calls} calls, above {gap:.3g}: raise C or use MOPES")


@dataclass(frozen=True)
class MOLES(MOPES):
    """MOreau envelope Linear minimisation oracle Efficient Subgradient method (Thekumparampil et
    al. 2020).

    Parameters
    ----------
    C : float > 0
        Allowance for the inexact projections: Frank-Wolfe stops at a Wolfe gap of C/(4K). The
        squared diameter is the natural choice.

    The others are those of `MOPES`.
    """

    C: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.C is None:
            raise InvalidInput("C is missing: the allowance for inexact projections, for example constraint.diameter**2")
        positive("C", self.C)

    @classmethod
    def for_accuracy(  # type: ignore[override]
        cls, epsilon: Any, lipschitz: Any, distance_sq: Any, diameter: Any, **options: Any
    ) -> MOLES:
        """lambda = epsilon/G^2, D = distance_sq, C = diameter^2 and the least K for which the bound is at most epsilon."""
        for name, value in (
            ("epsilon", epsilon), ("lipschitz", lipschitz), ("distance_sq", distance_sq),
            ("diameter", diameter),
        ):
            positive(name, value)
        epsilon, lipschitz, distance_sq = exact_number(epsilon), exact_number(lipschitz), exact_number(distance_sq)
        first = 8 if options.get("local_training") == "exact-prox" else 18
        allowance = first * distance_sq + 2 * exact_number(diameter) ** 2
        rounds = least_rounds(2 * lipschitz**2 * allowance / epsilon**2)
        allowed: Any = exact_number(diameter) ** 2
        return cls(
            lam=epsilon / lipschitz**2, D=distance_sq, rounds=rounds, lipschitz=lipschitz, C=allowed, **options
        )

    def lmo_limit(self, diameter: float) -> int:
        """The proved limit on linear minimisations a round."""
        return max(3, math.ceil(16 * self.rounds * exact_number(diameter) ** 2 / exact_number(self.C)))

    def _allowance(self, distance_sq: float) -> float:
        return super()._allowance(distance_sq) + 2 * float(self.C)  # type: ignore[arg-type]

    def _step(self, constraint: ConstraintSet, z: Array, target: Array) -> tuple[Array, int, float]:
        return frank_wolfe_projection(constraint, target, z, float(self.C) / (4 * self.rounds))  # type: ignore[arg-type]

    def _start(self, constraint: ConstraintSet, x0: Any) -> np.ndarray:
        """A start is believed to be feasible where it cannot be projected; the default is a vertex, from one oracle call."""
        try:
            return super()._start(constraint, x0)
        except MissingCapability:
            return constraint.linear_minimiser(np.ones(constraint.dim)) if x0 is None else np.array(real_array("x0", x0))

    def _check(self, problem: Problem, constraint: ConstraintSet) -> float:
        radius = super()._check(problem, constraint)
        constraint.linear_minimiser(np.zeros(constraint.dim))  # raises MissingCapability before any work
        return radius
