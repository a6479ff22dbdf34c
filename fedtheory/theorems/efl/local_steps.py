"""Local gradient steps of everybody on every loss: the identities behind the complete round, in symbols."""

from __future__ import annotations

from functools import cache
from typing import Any

from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.gram import Quadratic, Vector, common, inner, own, square, value
from fedtheory.worst_cases.symbolic import symbols

__all__ = ["local_steps_are_proved"]


@cache
def local_steps_are_proved(six: int = 6) -> bool:
    """A round of E local gradient steps of everybody, any E and weights: docs/worst_cases.md has
    both proofs and their letters.

    Of each the parts are identities in symbols: one local step, from any deviations, is a sum of
    squares; so is Young's inequality; sums of powers; and what they leave of the constant.
    ``six``: the number of the sum of the squares of 0..E - 1.
    """
    import sympy as sp

    L: Any
    q, eta, L, rest = symbols("q eta L rest")  # q = 1 - eta mu; L is L - mu, of the losses less mu/2 ||w - w*||^2
    t = 2 - rest
    x, apart, star = common("x"), own("d", mean_zero=True), own("g*", mean_zero=True)
    at_y, at_x, losses = own("g"), own("h"), Losses(L)
    points = {"*": Point("*", Vector(), star), "y": Point("y", x + apart, at_y), "x": Point("x", x, at_x)}
    turned, after = (at_y - star).own_part, square((q * x - eta * at_y).average)

    def pair(i: str, j: str) -> Quadratic:
        return losses.condition(points[i], points[j])

    distance = (
        q**2 * square(x) + eta * q * (L / rest * square(apart) - (t / L) * square(turned)) - after
        - 2 * eta * q * (pair("*", "y") + pair("y", "*"))
    )  # fmt: skip
    of_distance = (
        eta * (2 * q / L - eta) * square(at_y.average)
        + eta * q
        * (L / rest * square(apart) - 2 * inner(turned, apart) + (rest / L) * square(turned))
    )
    gap = (
        q**2 * square(x) - 2 * eta * q * (value("x") - value("*"))
        + eta * q * (L * square(apart) - (1 / L) * square(turned)) - after
        - 2 * eta * q * (pair("*", "y") + pair("y", "x"))
    )
    of_gap = eta * (q / L - eta) * square(at_y.average) + eta * q * L * square(apart - (1 / L) * (at_y - at_x))
    if distance != of_distance or gap != of_gap:
        return False
    L, rest = map(sp.sympify, (L, rest))
    a, u, v, i, E, s = sp.symbols("a u v i E s", positive=True)
    t = 2 - rest
    room = t * rest  # (1 + a) s <= room, so that what the drift takes is there
    zeros = (
        L / rest * u**2 - 2 * u * v + rest / L * v**2 - (sp.sqrt(L / rest) * u - sp.sqrt(rest / L) * v) ** 2,
        (1 + 1 / a) * u**2 + (1 + a) * v**2 - (u + v) ** 2 - (u / sp.sqrt(a) - sp.sqrt(a) * v) ** 2,
        sp.summation(i**2, (i, 0, E - 1)) - E * (E - 1) * (2 * E - 1) / six,
        sp.summation(i, (i, 1, E - 1)) - E * (E - 1) / 2,
        (1 + 1 / a).subs(a, room / s - 1) / rest - t / (room - s),
        (t / (room - s)).subs(s, t**2 / 2) - 6 / (12 - 9 * t),
        (1 + 1 / a).subs(a, 1 / s - 1) - 1 / (1 - s),
    )
    return all(sp.simplify(x) == 0 for x in zeros)
