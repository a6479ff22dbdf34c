"""Potentials that every round lowers: the best constants of a one-round bound, for a method with random cohorts.

Of FedDyn, and of FedElasticNet under the true-gradient rule, V = ||gamma - theta*||^2 + kappa C with C the mean over the clients
of ||g_k - grad f_k(theta*)||^2. The question is the largest kappa_0 with

    E V+ <= V - kappa_0 (R(gamma) - R*)                                       (FedDyn)
    E V+ <= V - kappa_0 (R(gamma) - R*) - (2/lambda_2) <gamma - theta*, mean_k lambda_1 s_k>     (FedElasticNet)

where s_k is the subgradient of the l1 norm at client k's move; the last term is the last one of the paper's Theorem B.6. P of N
clients are drawn without replacement. The mean of their models has the clients' mean as expectation, and as variance
(N - P)/(P (N - 1)) times the clients' variance; a stored gradient changes with probability P/N.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fedtheory.errors import InvalidInput
from fedtheory.inputs import whole_number
from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.gram import Vector, common, inner, own, square, value
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.programme import Solution, maximise

__all__ = ["Potential", "best_potential", "family_of", "feddyn_kappas", "potential_family"]

KAPPA_0, KAPPA = "kappa_0", "kappa"


@dataclass(frozen=True)
class Potential:
    """Constants of a potential, proved in fractions.

    Attributes
    ----------
    kappa_0, kappa : the proved constants, for beta = 1
    best : the solver's kappa_0, in floats, which lies above by what the rounding takes
    solution, family : multipliers with L D L', and the identity
    asked : what was asked, by name
    """

    kappa_0: Fraction
    kappa: Fraction
    best: float
    solution: Solution
    family: Family
    asked: Mapping[str, Any]


def potential_family(ratio: Fraction, clients: int, participants: int, l1: bool) -> Family:
    """The identity for lambda_2/beta = ``ratio``.

    Raises
    ------
    InvalidInput
        A ratio that is not above 0, no client, or more participants than clients.
    """
    whole_number("clients", clients), whole_number("participants", participants)
    if participants > clients:
        raise InvalidInput(f"participants = {participants} > clients = {clients}: at most all take part")
    if ratio <= 0:
        raise InvalidInput(f"lambda_2/beta = {ratio}: it must be above 0")
    N, P = clients, participants
    spread = Fraction(N - P, P * (N - 1)) if N > 1 else Fraction(0)
    return family_of(ratio, spread, Fraction(P, N), l1)


def family_of(ratio: Any, spread: Any, share: Any, l1: bool) -> Family:
    """The identity, in the arithmetic of the numbers: the spread (N - P)/(P (N - 1)) and the share P/N may be symbols.

    With f_k less its tangent at theta*, gradients at theta* are 0: the basis is gamma, the stored gradients g at z, those at
    the new local models and at gamma, and s where there is an l1 term. Of s only <s_k, move of k> >= 0 is used.
    """
    step = 1 / ratio
    gamma, stored, new, at_gamma = common("gamma"), own("g"), own("g+"), own("grad f(gamma)")
    pull = own("s") if l1 else Vector()
    theta = gamma - step * stored.average
    local = theta + step * (stored - new - pull)
    points = [Point("*", Vector(), Vector()), Point("z", own("z"), stored), Point("local", local, new), Point("gamma", gamma, at_gamma)]
    start = square(gamma) - square(local.average) - spread * square(local.own_part)
    terms = {KAPPA_0: value("*") - value("gamma"), KAPPA: share * (square(stored) - square(new))}
    if l1:
        start = start - 2 * step * inner(gamma, pull.average)
        terms["s"] = -inner(pull, local - theta)
    terms |= {name: -condition for name, condition in Losses().conditions(points).items()}
    return Family(start, terms)


def best_potential(ratio: Fraction | int, clients: int = 10, participants: int = 1, l1: bool = False) -> Potential:
    """The largest kappa_0, up to a part in ten million.

    Raises
    ------
    InvalidInput
        As `potential_family`.
    NotCertified
        No kappa_0 above 0 could be proved.
    """
    family = potential_family(Fraction(ratio), clients, participants, l1)
    asked = {"method": "fedelasticnet" if l1 else "feddyn", "ratio": Fraction(ratio), "clients": clients, "participants": participants}
    solution = maximise(family, KAPPA_0)
    numbers = solution.numbers
    return Potential(numbers.get(KAPPA_0, Fraction(0)), numbers.get(KAPPA, Fraction(0)), solution.best, solution, family, asked)


def feddyn_kappas(ratio: float, clients: int, participants: int) -> float:
    """kappa_0 of FedDyn in closed form: the largest of this kind, for beta = 1 (proof in docs/worst_cases.md).

    With s = 1 - (N - P)/(P (N - 1)) it is the least of 2/lambda and
    4 (lambda + 2 s)/(2 + lambda)^2 where s (2 + 2 lambda + lambda^2) <= lambda (1 + lambda), and else
    (sqrt(s^2 lambda^4 + 8 lambda s (1 + lambda)^2) - s lambda^2)/(1 + lambda)^2.
    """
    N, P = clients, participants
    s = 1 - (N - P) / (P * (N - 1)) if N > 1 else 1.0
    one = (1 + ratio) ** 2
    if s * (1 + one) <= ratio * (1 + ratio):
        found = 4 * (ratio + 2 * s) / (2 + ratio) ** 2
    else:
        found = ((s * s * ratio**4 + 8 * ratio * s * one) ** 0.5 - s * ratio**2) / one
    return min(2 / ratio, found)
