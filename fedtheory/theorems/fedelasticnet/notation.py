"""Symbols, rules, thresholds, notes and a short constructor for FedElasticNet's files."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

from fedtheory.local import Exact
from fedtheory.theory.judge.case import LocalWork
from fedtheory.theory.judge.statement import Sides
from fedtheory.theory.rounds.forms import Claimed, Wrong, wrong
from fedtheory.theory.rounds.forms import form as authored

__all__ = [
    "ALGORITHM_3", "CONVEX_SMOOTH", "EXACT", "LAST_SIGN", "MORE", "ONE", "PRINTED_THRESHOLD",
    "PROOF_OF_A", "PROOF_OF_B", "PROOF_OF_B6", "RATIO", "REPAIRED_THRESHOLD", "RULES", "SIGN_FAILS", "SIGN_NOTE",
    "SMOOTH", "START_NOTE", "STORED_GRADIENTS", "STRONGLY_CONVEX", "STRONGLY_CONVEX_CLIENTS", "SYMBOLS", "TENTH",
    "THEOREM_A_THRESHOLD", "THEOREM_B_THRESHOLD", "THEOREM_C_THRESHOLD", "THEOREM_E_THRESHOLD",
    "Share", "in_units_of", "nine_tenths", "part", "ratio_above", "tight", "total",
]  # fmt: skip

EXACT = LocalWork((Exact,), "the statement is about exact local solutions; leave local_solver out, or use Exact()")
SYMBOLS = {
    "m, P": "problem.num_clients, sampling.size",
    "beta": "problem.constants().beta = max_k beta_k",
    "lambda_1, lambda_2": "algorithm.l1, algorithm.l2",
    "theta^t": "state.x",
    "grad L_k(theta_k^t) as stored (g_k)": "state.stored[:, k]",
    "h^t": "state.h",
    "gamma^t": "state.x + state.h / algorithm.l2 (RoundLetters.gamma)",
    "theta_tilde_k^t": "RoundLetters.tilde[:, k]",
    "s_k^t": "RoundLetters.lambda1_s / lambda_1 (exact subgradient)",
    "C_t, epsilon_t": "RoundLetters.C, RoundLetters.epsilon",
    "R(gamma^{t-1}) - R(theta*)": "RoundLetters.D",
    "kappa, kappa_0": "ElasticConstants.printed",
}
Rule = Literal["sign", "true-gradient"]
RULES: tuple[Rule, ...] = ("sign", "true-gradient")  # of what Algorithm 3 stores
SIGN_FAILS = {"sign": "violated", "true-gradient": "holds"}

RATIO = "lambda_2/beta"
STRONGLY_CONVEX = "a strongly convex R"
STRONGLY_CONVEX_CLIENTS = "strongly convex clients"

PRINTED_THRESHOLD = 27.0  # Theorem B.1 asks lambda_2 > 27 beta
REPAIRED_THRESHOLD = (25 + 825**0.5) / 2  # kappa_0 > 0: 26.861...
THEOREM_A_THRESHOLD = (9 + 153**0.5) / 2  # 10.685...
THEOREM_B_THRESHOLD = (21 + 609**0.5) / 2  # 22.839... (tau = 2)
THEOREM_C_THRESHOLD = (21 + 693**0.5) / 2  # 23.662..., of strongly convex clients
THEOREM_E_THRESHOLD = (1 + 13**0.5) / 3  # 1.535...

Share = tuple[int, int]  # of a mutant: so much in place of 1
ONE, TENTH, MORE = (1, 1), (9, 10), (11, 10)


def in_units_of(lambda2: float, beta: float) -> str:
    """' = 30 beta': lambda_2 beside the smoothness; nothing where losses of no curvature have none."""
    return f" = {lambda2 / beta:.6g} beta" if beta > 0 else ""


ALGORITHM_3 = ("lambda_1 > 0 and lambda_2 > 0, as Algorithm 3 asks",)
SMOOTH = ("every L_k is beta-smooth", *ALGORITHM_3)
CONVEX_SMOOTH = ("every L_k is convex and beta-smooth", *ALGORITHM_3)
STORED_GRADIENTS = (
    "what is stored is the gradient at the new local model (true-gradient rule)"
)
SAMPLED = (*CONVEX_SMOOTH, "P of the m clients are drawn uniformly each round")

PROOF_OF_A = "docs/fedelasticnet.md#theorem-a-the-true-gradient-rule-has-no-l1-floor"
PROOF_OF_B = "docs/fedelasticnet.md#theorem-b-the-sign-rule-pays-for-its-zeros"
PROOF_OF_B6 = "docs/fedelasticnet.md#theorem-b6-holds-round-by-round-under-both-rules"

SIGN_NOTE = "sign(0) = 0 leaves out the subgradient at the zero coordinates"
START_NOTE = (
    "Algorithm 3 takes grad L_k(theta_k^0) = 0 as an input: read as g_k^0 = 0, what is stored, with theta_k^0 = theta^0; "
    "literally, theta_k^0 would be a minimiser of L_k"
)
LAST_SIGN = (
    r"-\tfrac{2\lambda_1}{\lambda_2}\langle\gamma^{t-1}-\theta_*,"
    r"\tfrac1m\sum_k\mathrm{sign}(\tilde\theta_k^t-\theta^{t-1})\rangle"
)


def ratio_above(l2: Any, beta: Any, limit: Any) -> dict[str, Any]:
    """Give the need that l2/beta is above a limit, with that number where it is finite."""
    met = l2 > Fraction(limit) * beta
    return {f"{RATIO} > {float(limit):.6g}": (met, l2 / beta) if beta != 0 else met}


def tight(
    name: str, sides: Callable[[], Sides], latex: str, *mutants: Wrong, less: str = "a tenth less",
    **more: Any,
) -> Claimed:  # fmt: skip
    """Make a form that holds, and not with a tenth less on its right side."""
    smaller = wrong(less, lambda: nine_tenths(sides()))
    return authored(name, sides, latex, smaller, *mutants, holds=True, **more)


def nine_tenths(sides: Sides) -> Sides:
    """The same with a tenth less on the right: what a bound that is attained must not survive."""
    return replace(sides, rhs=sides.rhs * 9 / 10)


def part(value: Any, share: Share) -> Any:
    """value * share, in fractions or floats."""
    return value * share[0] / share[1]


def total(terms: list[Any]) -> Any:
    """The sum of a list of terms."""
    return sum(terms[1:], terms[0])
