"""The worst case of FedMLS and MOPES at small K, against the theorems' bounds."""

from fractions import Fraction
from functools import cache
from typing import Any

from fedtheory.theory.judge.statement import Worst
from fedtheory.worst_cases import worst_case

ALONE = ("deterministic",)


@cache
def _worst(method: str, rounds: int, lam: Fraction, D: Fraction | None) -> Fraction:
    options: dict[str, Any] = {"lam": lam} if D is None else {"lam": lam, "D": D}
    return worst_case(method, rounds=rounds, **options).bound


def worst_share(method: str, rounds: int, lam: Fraction, start: Fraction, slack: Fraction, D: Fraction | None = None) -> Fraction:
    """Worst case/bound of (start ||x_0 - x*||^2 + slack D)/(lambda K (K+1)) + lambda G^2/2, with G = ||x_0 - x*|| = 1.

    Parameters
    ----------
    method : 'fedmls' on all of space, or 'mopes' for one loss over any closed convex set
    D : of T_k; None where local problems are solved

    Raises
    ------
    InvalidInput, NotCertified
        As `fedtheory.worst_cases.worst_case`.
    """
    return _worst(method, rounds, lam, D) / ((start + (0 if D is None else slack * D)) / (lam * rounds * (rounds + 1)) + lam / 2)


def worst_of(method: str, start: Fraction | int, slack: Fraction | int | None = None) -> Worst:
    """`worst_share` of a form without noise; ``slack`` None: local problems are solved."""
    where = "on all of space" if method == "fedmls" else "for one loss"
    if slack is None:
        K, lam, D, how = 5, Fraction(16, 38), None, "the local problems solved"  # 16/(K (K + 1) + 8)
    else:
        K, lam, D, how = 2, Fraction(5, 3), Fraction(1), "D = ||x_0 - x*||^2"
    at = f"K = {K}, lambda = {lam} ||x_0 - x*||/G, {how}, {where}"
    return Worst(at, lambda: worst_share(method, K, lam, Fraction(start), Fraction(slack or 0), D), ALONE)
