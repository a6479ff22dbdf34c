"""Other methods in fractions, on functions that are made to need many rounds: the claim that they need 1/epsilon^2 of them.

Nesterov's function F(x) = max_j x_j + (mu/2)||x||^2 in R^n, at one client: F* = -1/(2 mu n), and a method whose iterates lie in the
span of the subgradients returned, one a round and the first index at a tie, has F(x_k) >= 0 for k < n. With mu = 1/sqrt(n) it needs
n = 1/(4 epsilon^2) rounds.

The two clients that pull apart, f_1 = u + s|v - c| and f_2 = -u + 2 s_1 |u - c_1| + s|v - c| with 2 s_1 > 1: FedProx with a constant
step h, which solves its local problems, has c_1 - u_k >= min(c_1, h) and v_k <= s h k from 0. Proof: from u <= c_1 the first client
goes to u - h, and the second one no further than c_1, where its slope changes sign; so e' >= (e + h)/2 for e = c_1 - u. With
s = 2 epsilon it needs s_1 (c - 1/2)/(2 epsilon^2) rounds at least for F(x_k) <= epsilon < s_1 c_1, whatever h.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedmls.views import FEDPROX, MANY_A_ROUND, ONE_A_ROUND, ConventionalView, column
from fedtheory.verification.rational import fraction, integer

__all__ = ["conventional_of"]


def conventional_of(data: dict[str, Any]) -> ConventionalView:
    """From method, 'subgradient' or 'local-steps' with n, mu, step, rounds (and local), or 'fedprox' with the pull's numbers.

    Raises
    ------
    InvalidInput
        Another method; numbers out of range.
    """
    if data["method"] == "fedprox":
        return _fedprox(data)
    if data["method"] not in ("subgradient", "local-steps"):
        raise InvalidInput(f"method = {data['method']!r}: use 'subgradient', 'local-steps' or 'fedprox'")
    n, mu, step = integer(data["n"], "n", 1, 60), fraction(data["mu"], "mu"), fraction(data["step"], "step")
    local = integer(data.get("local", 1), "local", 1, 200)
    if mu <= 0 or step <= 0 or (data["method"] == "subgradient" and local != 1):
        raise InvalidInput(f"mu = {mu}, step = {step}, local = {local}: mu and step > 0; a subgradient method has local = 1")
    rounds = min(n, integer(data["rounds"], "rounds", 1, 60))
    x, values = [Fraction(0)] * n, []
    for k in range(rounds):
        values.append(max(x) + mu / 2 * sum(v * v for v in x))  # F(x_k), k < n
        if k == rounds - 1:
            break
        for _ in range(local):
            first = x.index(max(x))
            x = [v - step * (mu * v + (j == first)) for j, v in enumerate(x)]
    least = Fraction(1, 2 * n) / mu
    facts = {ONE_A_ROUND if local == 1 else MANY_A_ROUND}
    return ConventionalView(column([v + least for v in values]), column([least] * rounds), frozenset(facts))


def _fedprox(data: dict[str, Any]) -> ConventionalView:
    s, s1, c, c1, h = (fraction(data[name], name) for name in ("shallow", "slope", "second", "first", "step"))
    rounds = integer(data["rounds"], "rounds", 1, 200)
    if min(s, c, c1, h) <= 0 or 2 * s1 <= 1:
        raise InvalidInput(f"shallow = {s}, slope = {s1}, second = {c}, first = {c1}, step = {h}: all > 0, and the slope above 1/2")
    u = v = Fraction(0)
    excess, floor = [], []
    for k in range(rounds + 1):
        excess.append(s1 * abs(u - c1) + s * abs(v - c))
        floor.append(s1 * min(c1, h) + s * max(Fraction(0), c - s * h * k))
        v = v + _clip(c - v, s * h)  # both clients pull v towards c
        second = u + h + _clip(c1 - (u + h), 2 * s1 * h)  # -u pushes by h, the kink takes back up to 2 s_1 h
        u = ((u - h) + second) / 2
    return ConventionalView(column(excess), column(floor), frozenset({FEDPROX}))


def _clip(value: Fraction, most: Fraction) -> Fraction:
    return min(max(value, -most), most)
