"""The worst run of Algorithm 3 without its l1 term, which is FedDyn: over all convex, beta-smooth losses.

What is measured is the theorems' own: E R(mean over t < T of gamma^t) - R*, from g_k^0 = 0 and h^0 = 0. What is known of the start is
what their bounds ask: ||gamma^0 - theta*||^2 and C_0 = (1/m) sum_k ||grad L_k(theta*)||^2, each or as V_0. Everything is for beta = 1:
with losses beta L_k and lambda_2 = lambda beta the value is beta times this one. Where everybody takes part it is the same for
every m >= 2.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from typing import Any

from fedtheory.algorithms import FedDyn
from fedtheory.errors import InvalidInput
from fedtheory.inputs import whole_number
from fedtheory.local import Exact
from fedtheory.rational import in_fractions
from fedtheory.theorems.fedelasticnet.quantities import ElasticConstants
from fedtheory.theorems.one_round import best_kappas
from fedtheory.theory.judge.statement import Worst
from fedtheory.worst_cases.classes import Losses
from fedtheory.worst_cases.gram import Quadratic
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.page import Page
from fedtheory.worst_cases.programme import Solution, maximise
from fedtheory.worst_cases.runs import Run
from fedtheory.worst_cases.tree import Tree

__all__ = ["MOST_ROUNDS", "best_kappas", "excess_family", "feddyn_share", "worst_at", "worst_excess", "worst_share"]

BOUND = "minus the bound"
MOST_ROUNDS = 40  # half a minute of the solver

Limit = tuple[Any, Any, Any]  # (a, b, c): a ||gamma^0 - theta*||^2 + b C_0 <= c


def _round(page: Page, ratio: Fraction, run: Any, t: int, mean: Any, state: Any) -> tuple[Any, Any]:
    """The mean of gamma^0..gamma^t -> that of gamma^0..gamma^{t+1}, gamma = theta + h/lambda, by FedDyn's round.

    The state is theta and what the page keeps.
    """
    theta, kept = page(run, t, *((run.start, None) if state is None else state))
    gamma = theta + (1 / ratio) * kept.trace.vector(kept.of_method.h)
    return Fraction(1, t + 2) * ((t + 1) * mean + gamma), (theta, kept)


def excess_family(ratio: Fraction, rounds: int, limits: Iterable[Limit], clients: int = 2, participants: int = 2) -> Family:
    """bound - (E R(mean gamma) - R*) - sum of multiplier x condition, for lambda_2/beta = ``ratio``.

    Raises
    ------
    InvalidInput
        A ratio that is not above 0, more than `MOST_ROUNDS` rounds, or clients and participants that are too many.
    """
    whole_number("rounds", rounds)
    if ratio <= 0:
        raise InvalidInput(f"lambda_2/beta = {ratio}: it must be above 0")
    if rounds > MOST_ROUNDS:
        raise InvalidInput(f"{rounds} rounds: worst runs are computed of at most {MOST_ROUNDS}; take fewer")
    ratio, terms = Fraction(ratio), {BOUND: Quadratic(constant=Fraction(-1))}
    page = Page(in_fractions(FedDyn(1.0), {"alpha": ratio}), Exact(), clients, participants)
    run: Any = Run()
    if participants < clients:
        run = Tree(clients, participants)
        mean = run.walk(partial(_round, page, ratio), rounds - 1)[-1]
        distance = run.start.rows[0].inner(run.start.rows[0])
    else:
        mean, state = run.start, None
        for t in range(rounds - 1):
            mean, state = _round(page, ratio, run, t, mean, state)
        distance = run.square(run.start)
    start = -run.gap("mean", mean)
    for i, (a, b, c) in enumerate(limits):
        terms[f"start {i}"] = Fraction(a) * distance + Fraction(b) * run.heterogeneity() - Quadratic(constant=Fraction(c))
    terms |= {name: -condition for name, condition in dict(run.of_losses(Losses())).items()}
    found = Family(start, terms, frozenset({BOUND}))
    if participants == clients:
        return found
    return replace(found, start=run.blocks(found.start), terms={name: run.blocks(of) for name, of in found.terms.items()})


def worst_excess(
    ratio: Fraction, rounds: int, limits: Sequence[Limit], clients: int = 2, participants: int = 2
) -> tuple[Fraction, Solution]:
    """(a bound on E R(mean gamma) - R*, proved in fractions and at most a part in ten million above the worst run; its proof).

    Raises
    ------
    InvalidInput
        As `excess_family`.
    NotCertified
        No bound could be proved.
    """
    solution = maximise(excess_family(ratio, rounds, limits, clients, participants), BOUND)
    return -solution.numbers.get(BOUND, Fraction(0)), solution


@cache
def worst_share(kappas: tuple[Any, Any], ratio: Fraction, rounds: int) -> Fraction:
    """Worst case/bound of a theorem whose bound is V_0/(kappa_0 T) where lambda_1 = 0, over all losses with V_0 <= 1.

    Everybody takes part; ``kappas`` : kappa and kappa_0 for beta = 1, where m = P.

    Raises
    ------
    InvalidInput, NotCertified
        As `worst_excess`.
    """
    kappa, kappa_0 = kappas
    bound, _ = worst_excess(ratio, rounds, [(1, kappa, 1)])
    return bound * kappa_0 * rounds


def feddyn_share(ratio: int = 1, rounds: int = 8) -> Worst:
    """The same of the best potential that FedDyn has where everybody takes part."""

    def share() -> Fraction:
        kappa_0, kappa, _ = best_kappas(ratio, 2, 2)
        return worst_share((kappa, kappa_0), Fraction(ratio), rounds)

    return Worst(f"lambda_2 = {ratio} beta, everybody takes part, T = {rounds}", share)


def worst_at(kappas: Callable[[ElasticConstants], tuple[Any, Any]], ratio: int = 28, rounds: int = 8) -> Worst:
    """`worst_share` of a form; lambda_1 = 0 is where l1 floors and last terms are 0, and both rules the same method."""
    constants = ElasticConstants(Fraction(1), Fraction(1), Fraction(1), Fraction(0), Fraction(ratio))
    at = f"lambda_1 = 0, lambda_2 = {ratio} beta, everybody takes part, T = {rounds}"
    return Worst(at, lambda: worst_share(kappas(constants), Fraction(ratio), rounds))
