"""The outer recursion with the local problems solved, for all losses and every round, in symbols."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

from fedtheory.algorithms import FedMLS
from fedtheory.local import ExactProx
from fedtheory.rational import in_fractions
from fedtheory.worst_cases.classes import Losses
from fedtheory.worst_cases.gram import DEVIATION, MEAN, Quadratic, common, own, square, value
from fedtheory.worst_cases.runs import Run
from fedtheory.worst_cases.symbolic import SymbolicClients, is_form, semidefinite, symbols

__all__ = ["exact_prox_recursion_is_proved"]


@cache
def exact_prox_recursion_is_proved(four: Fraction | int = 4) -> bool:
    """On all of space, for every round k and lambda = 1: what three inequalities between losses leave
    is a form whose pivots are at least 0 for k >= 1.

    `FedMLS` runs the round from any x = a + mean x', z = b + mean z', x' and z'.
    ``four``: the number of 4/(k (k + 1)), which multiplies the squared distances.
    """
    k, N = symbols("k N")
    run, method = Run(smooth=False, weights={"x'": 1, "z'": 1}), FedMLS(1.0, 1.0, 1, math.inf, 1.0, local_training="exact-prox")
    x_own, z_own = own("x'"), own("z'")
    x, z = common("a") + x_own.average, common("b") + z_own.average
    run.gradient("at x'", x_own)
    clients = SymbolicClients(run, ExactProx(), N, round_index=k)
    after = clients.after(in_fractions(method, {"rounds": k + 1}), x=x, z=z, x_local=x_own, z_local=z_own)
    run.gradient("at x'+", after.x_local)
    share, half = 2 / (k + 1), Fraction(1, 2)
    psi = value("at x'") + half * square(x - x_own)
    psi_after = value("at x'+") + half * square(after.x - after.x_local)
    moved = square(z) - square(after.z) + square(z_own) - square(after.z_local)
    losses, points = Losses(None), run.points
    left = (
        (1 - share) * (psi - value("*")) - (psi_after - value("*")) + four / (k * (k + 1)) * moved
        - Quadratic.total(
            number * losses.condition(points[i], points[j])
            for number, i, j in ((share, "*", "g0"), (1 - share, "at x'", "at x'+"), (share, "g0", "at x'+"))
        )
    )  # fmt: skip
    blocks = {MEAN: ("a", "b", "g0"), DEVIATION: ("x'", "z'", "g0")}
    return is_form(left) and all(semidefinite(left, block, order, k, 1, None) for block, order in blocks.items())
