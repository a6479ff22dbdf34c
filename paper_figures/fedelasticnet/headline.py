"""The finding on FedElasticNet, in one sentence."""

from __future__ import annotations

from typing import Any

from fedtheory.theory.judge.registry import get
from fedtheory.theory.judge.reviews import Clause, Rests

__all__ = ["HEADLINE"]

UNDONE = ("sign(0) = 0", "1/kappa_0 missing", "C_0 not squared", "expectation of the sign only", "anchor theta_k")
RULES = ("sign", "true-gradient")


def _repairs() -> dict[str, Any]:
    return {"repairs": len(UNDONE)}


def _conditions() -> dict[str, Any]:
    """The numbers that lambda_2/beta must exceed as printed, and in Theorem E."""
    printed = get("fedelasticnet/theorem-3.1").form("printed").limits["lambda_2/beta"]
    enough = get("fedelasticnet/theorem-e").form("repaired").limits["lambda_2/beta"]
    return {"printed": printed, "enough": enough, "factor": printed / enough}


HEADLINE = (
    Clause(
        "the printed sign rule can rest where nothing is optimal, and drive R away for ever on one client",
        (Rests("consistency", "stationary for R", "sign", "violated"), Rests("drift", "in words", "sign", "violated")),
    ),
    Clause(
        "without the l1 term, which is FedDyn, it converges for every lambda_2 > 0",
        (Rests("feddyn-every-lambda", "repaired", "any", "holds"),),
    ),
    Clause(
        "Theorem 3.1 is false as printed: {sizes}",
        (Rests("theorem-3.1", "printed", "sign", "violated"),),
        "fedelasticnet-theorem-3.1-printed-sign",
    ),
    Clause(
        "true after {repairs} repairs, each of them needed (the expectation over the whole inner product, under the "
        "true-gradient rule, from a random start)",
        (
            *(Rests("theorem-3.1", "repaired", rule, "holds") for rule in RULES),
            *(Rests("theorem-3.1", form, rule, "violated") for form in UNDONE for rule in RULES),
        ),
        numbers=_repairs,
    ),
    Clause(
        "the condition lambda_2 > {printed:g} beta, which only its appendix form prints, is {factor:.1f} times as strong as that "
        "of Theorem E, which has other constants and stores the true gradient, for which clients send a dense vector",
        (Rests("theorem-e", "repaired", "true-gradient", "holds"), Rests("theorem-e-proof", "repaired", "any", "holds")),
        numbers=_conditions,
    ),
)
