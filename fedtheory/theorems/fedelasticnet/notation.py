"""What the files of FedElasticNet's statements share: thresholds, notes, and short constructors."""

from __future__ import annotations

from typing import Any

from fedtheory.theorems.fedelasticnet import SYMBOLS
from fedtheory.verification.statement import Form, Mutant, Statement

__all__ = [
    "ALGORITHM_3", "BOTH_FAIL", "BOTH_HOLD", "CONVEX_SMOOTH", "LAST_S", "LAST_SIGN", "PRINTED_THRESHOLD",
    "REPAIRED_THRESHOLD", "SIGN_NOTE", "SMOOTH", "START_NOTE", "THEOREM_A_THRESHOLD", "THEOREM_B_THRESHOLD",
    "form", "statement", "total",
]  # fmt: skip

PRINTED_THRESHOLD = 27.0  # Theorem B.1 asks lambda_2 > 27 beta
REPAIRED_THRESHOLD = (25 + 825**0.5) / 2  # kappa_0 > 0: 26.861...
THEOREM_A_THRESHOLD = (9 + 153**0.5) / 2  # 10.685...
THEOREM_B_THRESHOLD = (21 + 609**0.5) / 2  # 22.839... (tau = 2)

BOTH_HOLD = {"sign": "holds", "true-gradient": "holds"}
BOTH_FAIL = {"sign": "violated", "true-gradient": "violated"}
ALGORITHM_3 = ("lambda_1 > 0 and lambda_2 > 0, as Algorithm 3 asks",)
SMOOTH = ("every L_k is beta-smooth", *ALGORITHM_3)
CONVEX_SMOOTH = ("every L_k is convex and beta-smooth", *ALGORITHM_3)
SAMPLED = (*CONVEX_SMOOTH, "P of the m clients are drawn uniformly each round")

SIGN_NOTE = "sign(0) = 0 leaves out the subgradient at the zero coordinates"
START_NOTE = (
    "Algorithm 3 takes grad L_k(theta_k^0) = 0 as an input: read as g_k^0 = 0, what is stored, with theta_k^0 = theta^0; "
    "literally, theta_k^0 would be a minimiser of L_k"
)
_LAST = r"-\tfrac{2\lambda_1}{\lambda_2}\langle\gamma^{t-1}-\theta_*,\tfrac1m\sum_k%s\rangle"
LAST_SIGN, LAST_S = _LAST % r"\mathrm{sign}(\tilde\theta_k^t-\theta^{t-1})", _LAST % "s_k^t"


def form(name: str, latex: str, sides: Any, established: dict[str, Any], *mutants: tuple[str, Any], **more: Any) -> Form:
    """A `Form` with its mutants as (name, sides) pairs."""
    return Form(name, latex, sides, established, mutants=tuple(Mutant(n, s) for n, s in mutants), **more)


def statement(id: str, title: str, source: str, *forms: Form, kind: str = "statement") -> Statement:
    """A one-round `Statement` about Algorithm 3 with uniform cohorts."""
    return Statement(f"fedelasticnet/{id}", title, source, "round", forms, SAMPLED, SYMBOLS, kind, PRINTED_THRESHOLD)


def total(terms: list[Any]) -> Any:
    """The sum of a list of terms."""
    return sum(terms[1:], terms[0])
