"""The sums of squares behind Theorems D and F: rounds of the true-gradient rule in symbols.

`FedElasticNetDyn` itself runs the rounds (`fedtheory.worst_cases.symbolic`), lambda_2 = 1 and beta = b.
The multipliers are put in, and what is left must be a sum of squares, or have pivots that are at
least 0 on the range that is claimed. docs/fedelasticnet_dynamics.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any

from fedtheory.algorithms import FedElasticNetDyn
from fedtheory.local import Exact
from fedtheory.rational import in_fractions
from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.gram import DEVIATION, MEAN, Quadratic, common, inner, own, square, value
from fedtheory.worst_cases.runs import OPTIMUM, Run
from fedtheory.worst_cases.symbolic import SymbolicClients, is_form, semidefinite, symbols

__all__ = ["cohorts_descend", "true_gradient_calms", "true_gradient_descends"]

METHOD = in_fractions(FedElasticNetDyn(1.0, 1.0, "true-gradient"))


def _known(run: Run, beta: Any, pull: str) -> dict[str, Quadratic]:
    """What is at least 0: between the points of a run but the optimum, and of the subgradient that pulls."""
    points = [p for name, p in run.points.items() if name != OPTIMUM]
    return Losses(beta).conditions(points) | {"s": run.conditions[f"{pull}, 0"]}


def _less(claim: Quadratic, known: Mapping[str, Quadratic], multipliers: Mapping[str, Any]) -> Quadratic:
    """A claim less multiples of what is at least 0."""
    return claim - Quadratic.total(number * known[name] for name, number in multipliers.items())


class _TwoRounds:
    """A round with everybody, and the next, from the model x0.

    d and d2 are the clients' moves, so that what they had stored is d + g + sigma of the first
    round. g and g2 are the gradients at the local models, which are what is stored, so that h is the
    mean of g. G0 is the gradient at x0, x1 the model and the gradient there after the first round.
    """

    def __init__(self, b: Any, clients: Any) -> None:
        run = Run(weights={"x": 1})
        x0, self.d, self.g, self.g2 = common("x"), own("d"), own("g0"), own("g1")
        at_x0 = run.gradient("G0", x0)
        stored = self.d + self.g + own("p0")
        first = SymbolicClients(run, Exact(), clients).after(METHOD, x=x0, stored=stored, h=stored.average, local=x0)
        run.gradient("G1", first.x)
        second = SymbolicClients(run, Exact(), clients, label=1).after(METHOD, **first._asdict())
        self.d2 = second.local - first.x
        self.slope, moved = square(at_x0.average), square(first.local - x0) - square(self.d2)
        self.energy_lost = square(first.h) - square(second.h) + moved
        self.known = _known(run, b, "p1")


@cache
def true_gradient_calms(half: int = 2) -> bool:
    """E = ||h||^2 + D^2 falls by D_2^2 + (1 - b/2) D^2 + (2/b - 1) ||h_2 - h||^2 for every b.

    The proof is in docs/fedelasticnet_dynamics.md. ``half``: the 2 of b/2.
    """
    b, N = symbols("b N")
    rounds = _TwoRounds(b, N)
    d, d2, w = rounds.d, rounds.d2, rounds.g - rounds.g2
    said = square(d2) + (1 - b / half) * square(d) + (2 / b - 1) * square(w.average)
    squares = b / 2 * square(d.average) + 2 / b * square((w - b / 2 * d).own_part)
    return _less(rounds.energy_lost - said, rounds.known, {"g0, g1": 2, "g1, g0": 2, "s": 2}) == squares


@cache
def true_gradient_descends(two: Any = 2, one: Any = 1) -> bool:
    """R(x0) + E/(2 - b) falls by ||grad R(x0)||^2/2 for every b < 2.

    Six multipliers, and pivots that are at least 0. ``two``: that of ||grad R||^2/2; ``one``: the
    factor of E.
    """
    b, N = symbols("b N")
    rounds, room = _TwoRounds(b, N), 2 - b
    falls = room * (value("G0") - value("G1")) + one * rounds.energy_lost
    multipliers = {
        "G0, g1": room * (5 - b) / (3 - b),
        "g0, G0": 2 * room / (3 - b),
        "g0, g1": 2 / (3 - b),
        "g1, g0": 2,
        "g1, G1": room,
        "s": 2,
    }
    left = _less(falls - room / two * rounds.slope, rounds.known, multipliers)
    order, cleared = ("G1", "p1", "G0", "d", "g1", "g0"), b * (3 - b) * left
    return is_form(left) and all(semidefinite(cleared, block, order, b, 0, 2) for block in (MEAN, DEVIATION))


def _round_of_a_cohort(p: Any, spread: Any, b: Any, participants: Any) -> tuple[Quadratic, Quadratic, dict[str, Quadratic]]:
    """A cohort's round: V - E V+, ||grad R||^2, and what is at least 0.

    V = 2 R(x) - mean (f(z) + <g, x - z>), and g is the gradient that is stored, taken at z. The new
    local models are where "g0" is the gradient, c is the expectation of the next model, of which E R
    is bounded by smoothness.
    """
    run = Run(p, spread, weights={"x": 1})
    x, g, z = common("x"), own("g"), common("x") + own("z")
    slope, run.points["z"] = square(run.gradient("G", x).average), Point("z", z, g)
    clients = SymbolicClients(run, Exact(), participants / p, participants)
    after = clients.after(METHOD, x=x, stored=g, h=g.average, local=z)
    c = run.expectation(after.x)
    run.gradient("Gc", c)
    before = 2 * value("G") - value("z") - inner(g, x - z)
    of_next = value("Gc") + b / 2 * run.square(after.x - c)
    kept = run.product(after.h, after.x) - run.product_of_each(after.stored, after.local).over_all
    expected = 2 * of_next - p * value("g0") - (1 - p) * value("z") - kept
    return before - expected, slope, _known(run, b, "p0")


@cache
def cohorts_descend(four: Any = 4) -> bool:
    """V = R + mean (f(x) - f(z) - <g, x - z>) falls by ||grad R||^2/4 in expectation, lambda_2 = 1.

    Of all cohorts of the share p = P/m, beta <= p/4. What four multipliers leave is linear in the
    spread, which is at most 1, and at most ((1 - p)/p)^2 where p >= 1/2. ``four``: that of p/4.
    """
    p, participants = symbols("p P")
    half = Fraction(1, 2)
    for spread, low, high in ((0, 0, 1), (1, 0, half), ((1 - p) ** 2 / p**2, half, 1)):
        lost, slope, known = _round_of_a_cohort(p, spread, p / four, participants)
        numbers = {"G, z": p, "g0, Gc": p, "G, Gc": 2 - p, "s": Fraction(3, 4)}
        left = _less(lost - Fraction(1, 4) * slope, known, numbers)
        order = ("Gc", "g0", "g", "p0", "G")
        if not is_form(left) or not all(semidefinite(p**2 * left, block, order, p, low, high) for block in (MEAN, DEVIATION)):
            return False
    return True
