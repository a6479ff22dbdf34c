"""FedElasticNet's statements about one round share a declaration: from any state, under both rules."""

from collections.abc import Callable
from fractions import Fraction
from functools import wraps
from typing import Any

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.participation.cohorts import Uniform
from fedtheory.theorems.fedelasticnet import notation
from fedtheory.theorems.fedelasticnet.letters import BY_RULE
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.quantities import RoundLetters
from fedtheory.theory import SmoothConvex, above, method

__all__ = ["about_a_round", "letters", "ratio_above"]

NEAR = (
    0, 0, notation.THEOREM_E_THRESHOLD, notation.THEOREM_A_THRESHOLD, notation.THEOREM_B_THRESHOLD,
    notation.REPAIRED_THRESHOLD, notation.PRINTED_THRESHOLD, notation.PRINTED_THRESHOLD,
)  # fmt: skip

DECLARED: dict[str, Any] = {
    "about": method(
        FedElasticNetDyn,
        l1=above(0, usual=Fraction(1, 10)),
        l2=above(0, unit=lambda c: c.beta, usual=30, near=NEAR),
    ),
    "rules": {rule: {"rule": rule} for rule in notation.RULES},
    "letters": BY_RULE,
    "sampling": Uniform,
    "problems": SmoothConvex(clients=(1, 4), dimension=(1, 7)),
    "states": {
        "stored": "N d", "local": "N d", "h": lambda s: s["stored"].sum(axis=0) / len(s["stored"]),
    },
    "rounds": (0, 60),
    "assumptions": notation.SAMPLED,
    "symbols": notation.SYMBOLS,
}  # fmt: skip


def about_a_round(name: str, **more: Any) -> Callable[[Callable[[Any], Any]], Any]:
    """Declare a statement about one round; its function is given the paper's letters on it."""

    def declare(forms: Callable[[Any], Any]) -> Any:
        @wraps(forms)
        def of_round(q: Any) -> Any:
            return forms(letters(q))

        return FILE.statement(name, **DECLARED | more)(of_round)

    return declare


def letters(q: Any) -> Any:
    """Give the paper's letters on one round."""
    return q.once(RoundLetters)


def ratio_above(v: Any, limit: Any) -> dict[str, Any]:
    """Give the need that lambda_2/beta is above a limit."""
    return notation.ratio_above(v.lambda2, v.beta, limit)
