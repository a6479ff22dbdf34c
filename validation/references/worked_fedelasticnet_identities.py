"""FedElasticNet's identities after (40), a round in which nobody moves, and Algorithm 1.

Worked out in fractions on the instance of `worked_fedelasticnet_theorems`, without the library.
"""

from __future__ import annotations

from fractions import Fraction as F
from math import sqrt

from worked_fedelasticnet_theorems import (
    BETA,
    COHORT_BEFORE,
    COHORTS,
    KAPPA,
    KAPPA_0,
    LAMBDA_1,
    LAMBDA_2,
    STARTS,
    D,
    M,
    Numbers,
    P,
    Vector,
    advance,
    dot,
    gradient,
    minimiser,
    minus,
    sq,
    start,
)

# --- identities -------------------------------------------------------------------------
# C and R(gamma) - R(theta*) in the chain after (41): any numbers will do
CHAIN_C, CHAIN_D = F(7), F(11)


def chain_after_41() -> dict[str, list[F]]:
    """Return what the chain says is equal: three factors of epsilon, two bounds, two kappa_0."""
    b, l2, core, share = BETA, LAMBDA_2, LAMBDA_2**2 - 25 * BETA**2, F(P, M)
    f = l2 * (l2 + b) / core
    return {
        "factor of epsilon": [
            KAPPA * 2 * b**2 * share + b / l2 + 1,
            (20 * (l2 + b) * b**2 + b * core + l2 * core) / (l2 * core),
            f * (1 - 5 * b**2 / l2**2),
        ],
        "bound": [
            f * (10 * CHAIN_C + 10 * b * CHAIN_D + 5 * LAMBDA_1**2 * D) / l2**2,
            KAPPA * share * CHAIN_C + KAPPA * b * share * CHAIN_D + KAPPA * share / 2 * LAMBDA_1**2 * D,
        ],
        "kappa_0": [2 / l2 - 5 * b * KAPPA * share, KAPPA_0],
    }


def repaired_constants(tau: F) -> dict[str, list[F]]:
    """a = 3 (l2 + b)/(l2 (l2^2 - c b^2)), c = 9 + 6 tau:
    3 (1 + b/l2 + 2 (1 + tau) b^2 a) = (l2^2 - 3 b^2) a, and
    2/l2 - 4 (1 + tau) b a - 2 b a = (2/l2) (l2^2 - c b l2 - 2 c b^2)/(l2^2 - c b^2)."""
    b, l2, c = BETA, LAMBDA_2, 9 + 6 * tau
    core = l2**2 - c * b**2
    a = 3 * (l2 + b) / (l2 * core)
    return {
        "a": [3 * (1 + b / l2 + 2 * (1 + tau) * b**2 * a), (l2**2 - 3 * b**2) * a],
        "kappa_0": [2 / l2 - 4 * (1 + tau) * b * a - 2 * b * a, 2 / l2 * (core - c * b * l2 - c * b**2) / core],
    }


# --- a round in which nobody moves ------------------------------------------------------
STILL_LAMBDA_1 = F(15)  # every slope is below it


def still_round() -> list[tuple[Vector, Vector]]:
    """(theta^t, theta - (h + 1/m sum (grad L_k(theta) - g_k))/l2), for each cohort."""
    state = advance(start(STARTS[0]), COHORT_BEFORE, "true-gradient", STILL_LAMBDA_1)
    out = []
    for cohort in COHORTS:
        change = [sum((gradient(k, state.theta)[i] - state.stored[k][i] for k in cohort), F(0)) / M for i in range(D)]
        formula = [a - (b + x) / LAMBDA_2 for a, b, x in zip(state.theta, state.h, change, strict=True)]
        out.append((advance(state, cohort, "true-gradient", STILL_LAMBDA_1).theta, formula))
    return out


# --- Algorithm 1 ------------------------------------------------------------------------
WEIGHTS = [F(1, 2), F(1, 3), F(1, 6)]  # n_k/n


class Proximal:
    """Everyone's move u_k of Algorithm 1 at theta, and s_k = -(grad L_k(theta + u_k) + l2
    u_k)/l1."""

    def __init__(self, theta: Vector) -> None:
        self.theta, zero = theta, [F(0)] * D
        self.points = [minimiser(k, zero, theta) for k in range(M)]
        self.moves = [minus(y, theta) for y in self.points]
        self.grad = [gradient(k, y) for k, y in enumerate(self.points)]
        self.here = [gradient(k, theta) for k in range(M)]
        pairs = zip(self.grad, self.moves, strict=True)
        self.lambda1_s = [[-g - LAMBDA_2 * u for g, u in zip(*pair, strict=True)] for pair in pairs]

    @staticmethod
    def weighted(vectors: list[Vector]) -> Vector:
        return [dot(WEIGHTS, list(column)) for column in zip(*vectors, strict=True)]


def fixed_point_equation(p: Proximal) -> Numbers:
    """max_i |sum_k w_k grad L_k(theta + u_k) + l1 sum_k w_k s_k|, which is 0 at a fixed point."""
    return max(abs(g + s) for g, s in zip(p.weighted(p.grad), p.weighted(p.lambda1_s), strict=True)), F(0)


def distance_to_stationarity(p: Proximal, share: float = 1.0) -> tuple[float, float]:
    """||grad R_w(theta)|| <= share b sum_k w_k ||u_k|| + l1 ||sum_k w_k s_k||: roots, so floats."""
    drift = sum(float(w) * sqrt(sq(u)) for w, u in zip(WEIGHTS, p.moves, strict=True))
    return sqrt(sq(p.weighted(p.here))), share * float(BETA) * drift + sqrt(sq(p.weighted(p.lambda1_s)))
