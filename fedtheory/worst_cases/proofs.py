"""Closed forms that are proved for all numbers of clients and ranges of lambda_2: SymPy checks the sums of squares.

The family of a potential is written with symbols, the multipliers are put in, and what is left must be, entry by entry, a sum of
squares. The factors of the squares are then at least 0 on the range that is claimed: rational functions of lambda = lambda_2/beta
whose signs are decided by their zeros.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

from fedtheory.worst_cases.gram import Quadratic, Vector, own, square
from fedtheory.worst_cases.potentials import KAPPA, KAPPA_0, family_of

__all__ = ["feddyn_is_proved", "fedelasticnet_is_proved"]


def _vectors(lam: Any, l1: bool) -> tuple[Vector, ...]:
    """u, v, w, sigma, and lambda times a client's move."""
    u, v, w = own("g"), own("g+"), own("grad f(gamma)")
    sigma = own("s") if l1 else Vector()
    return u, v, w, sigma, u - v - sigma


def _multipliers(lam: Any, kappa_0: Any) -> dict[str, Any]:
    return {"*, local": 2 / lam, "local, *": 2 / lam - kappa_0, "local, gamma": kappa_0}


def _same(a: Quadratic, b: Quadratic) -> bool:
    """Whether two are the same expressions of the symbols."""
    import sympy as sp

    difference = a - b
    left = [*difference.gram.values(), *difference.values.values(), difference.constant]
    return all(sp.cancel(sp.together(sp.sympify(x))) == 0 for x in left)


def _at_least_0(expressions: list[Any], lam: Any, low: Any, high: Any) -> bool:
    """Whether rational functions of lambda are at least 0 between two numbers, or from one on."""
    import sympy as sp

    for expression in expressions:
        numerator, denominator = sp.fraction(sp.cancel(sp.together(expression)))
        ends = [low, *([] if high is None else [high])]
        roots = {root for part in (numerator, denominator) for root in sp.Poly(part, lam).real_roots()}
        inside = sorted((root for root in roots if root > low and (high is None or root < high)), key=float)
        marks = [low, *inside, high if high is not None else (inside[-1] if inside else low) + 2]
        tried = [(a + b) / 2 for a, b in pairwise(marks)]
        values = [sp.cancel(expression).subs(lam, x) for x in (*tried, *ends)]
        if any(sp.N(x, 40) < -sp.Float(10) ** -30 for x in values):
            return False
    return True


@cache
def feddyn_is_proved(doubled: int = 2, eight: int = 8) -> bool:
    """FedDyn, any N, P and lambda: the form is a sum of squares with the factors A, C, C - s and q of docs/worst_cases.md.

    That leaves A >= 0, C >= s and A C >= B^2, B = q (1 + lambda) - s. With the first closed form A = B = C, and B - s has the sign
    of the condition of its range; with the second C = s > 0 and A s = B^2. Where 2/lambda is the smaller one, q lies between 0,
    where A = C = s + lambda will do, and that q: what is asked of (q, K) is convex.
    ``doubled``, ``eight``: the numbers of kappa_0, (lambda + 2 s) and 8 lambda s.
    """
    import sympy as sp

    lam, K, q, s, share = sp.symbols("lambda K q s share", positive=True)
    u, v, w, _, move = _vectors(lam, False)
    family = family_of(lam, 1 - s, share, False)
    left = family.at({KAPPA_0: 2 * q, KAPPA: K / (lam**2 * share), **_multipliers(lam, 2 * q)})
    A, C, B = K - (1 - s) - q, 1 + s + 2 * lam - K - q * (1 + lam) ** 2, q * (1 + lam) - s
    means = K * square(u.average) + (C - s) * square(v.average) + q * square((lam * w - (1 + lam) * v).average)
    both = u + v
    apart = (
        A * square(u.own_part) + C * square(v.own_part) + B * (square(both.own_part) - square(u.own_part) - square(v.own_part))
        + q * square((lam * w + move - lam * v).own_part)
    )  # fmt: skip
    if not _same(left, (1 / lam**2) * (means + apart)):
        return False
    first = 2 * (doubled * s + lam) / (2 + lam) ** 2  # C = A = B
    K_first = sp.solve(sp.Eq(A.subs(q, first), C.subs(q, first)), K)[0]
    ok = all(sp.simplify((x - B).subs(K, K_first).subs(q, first)) == 0 for x in (A, C))
    room = lam * (1 + lam) - s * (2 + 2 * lam + lam**2)  # at least 0 on the first range
    ok &= sp.simplify((B - s).subs(q, first) * (2 + lam) ** 2 - 2 * room) == 0
    ok &= all(sp.expand(x.subs({q: 0, K: 1 + lam})) == s + lam for x in (A, C)) and B.subs(q, 0) == -s
    second = (sp.sqrt(s**2 * lam**4 + eight * lam * s * (1 + lam) ** 2) - s * lam**2) / (2 * (1 + lam) ** 2)  # C = s, A s = B^2
    K_second = sp.solve(sp.Eq(C, s), K)[0]
    rest = sp.expand((A * s - B**2).subs(K, K_second))
    quadratic = sp.Poly(rest, q)
    ok &= quadratic.degree() == 2 and sp.simplify(rest.subs(q, second)) == 0
    return bool(ok and sp.simplify(quadratic.coeff_monomial(q**2) + (1 + lam) ** 2) == 0)


@cache
def fedelasticnet_is_proved(radicand: int = 13) -> bool:
    """The true-gradient rule, any N and P, from lambda = (1 + sqrt 13)/3 on: FedDyn's constants for one participant hold.

    ``radicand``: the 13.
    """
    import sympy as sp

    lam, rho, share = sp.symbols("lambda rho share", positive=True)
    u, v, w, sigma, move = _vectors(lam, True)
    turn, family = 2 + 2 * sp.sqrt(2), family_of(lam, rho, share, True)

    def left(q: Any, K: Any) -> Quadratic:
        return family.at({KAPPA_0: 2 * q, KAPPA: K / (lam**2 * share), "s": K / lam, **_multipliers(lam, 2 * q)})

    def with_both(q: Any, K: Any) -> Quadratic:
        """The squares of both ranges: the gradient at gamma, the cohort's spread, the stored gradient's mean."""
        return (
            q * square((lam * w - sigma - (1 + lam) * v).average) + K * square((u - sp.Rational(1, 2) * sigma).average)
            + (1 - rho) * square(move.own_part) + q * square((lam * w + move - lam * v).own_part)
        )  # fmt: skip

    q, K = 2 * lam / (2 + lam) ** 2, (2 + 3 * lam) / (2 + lam)
    a = q * (1 + lam)
    up_to = (
        with_both(q, K) + a * square((v + ((K / 2 - a) / a) * sigma).average) + (K / (4 * a) * (3 * a - K)) * square(sigma.average)
        + a * square((move + 2 * v + (K / (2 * a)) * sigma).own_part) + (K - K**2 / (4 * a)) * square(sigma.own_part)
    )  # fmt: skip
    ok = _same(left(q, K), (1 / lam**2) * up_to)
    low = (1 + sp.sqrt(radicand)) / 3
    ok = ok and _at_least_0([a, 3 * a - K, K - K**2 / (4 * a), 2 / lam - 2 * q], lam, low, turn)
    q, K, e = 1 / lam, lam / 2, 1 + 1 / lam
    first, last = lam / 2 - e, 3 * lam / 8 - e - (lam / 4 - e) ** 2 / (lam / 2 - e)
    beyond = (
        with_both(q, K) + first * square((v + ((lam / 4 - e) / first) * sigma).average) + last * square(sigma.average)
        + lam * square((v + sp.Rational(1, 2) * move + sp.Rational(1, 2) * sigma).own_part)
        + (lam / 4 - e) * square(move.own_part) + (lam / 4) * square(sigma.own_part)
    )  # fmt: skip
    return ok and _same(left(q, K), (1 / lam**2) * beyond) and _at_least_0([first, last, lam / 4 - e], lam, turn, None)
