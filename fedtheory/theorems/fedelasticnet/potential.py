"""The constants of FedDyn's and FedElasticNet's potential in closed form, proved for all losses, N, P and lambda.

Both classes run a round in symbols (`fedtheory.worst_cases.symbolic`), with lambda = lambda_2/beta and
beta = 1. The multipliers are put in, and what is left must be, entry by entry, a sum of squares whose
factors are at least 0 on the range that is claimed. docs/worst_cases.md has the proofs.

That FedDyn's kappa_0 is the largest of its kind is shown by tables of inner products and values that
limits of instances have: inner products of gamma - theta* with the means of gradients are free
numbers, as gradients whose means are tiny and a model that is far away have any. On them the
interpolation conditions hold, the new stored gradients are as long as the old ones, so that kappa
does not matter, and the squared distance falls by exactly kappa_0 times the gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any

from fedtheory.algorithms import FedDyn, FedElasticNetDyn
from fedtheory.local import Exact
from fedtheory.rational import in_fractions
from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.gram import DEVIATION, MEAN, Quadratic, Vector, common, inner, own, square, value
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.runs import OPTIMUM, Run
from fedtheory.worst_cases.symbolic import SymbolicClients, Table, at_least_0, symbols

__all__ = ["family_of", "feddyn_is_best", "feddyn_is_proved", "feddyn_kappas", "fedelasticnet_is_proved"]

KAPPA_0, KAPPA = "kappa_0", "kappa"
GAMMA, STORED, NEW, AT_GAMMA, Z, PULL = "gamma", "g", "g0", "at gamma", "z", "p0"  # of vectors; those of gradients are points, too
FAR = "M"  # how far away z is; conditions at z hold from some M on


def family_of(l1: bool, lam: Any, spread: Any, share: Any, participants: Any) -> Family:
    """E V+ <= V - kappa_0 (R(gamma) - R*), V = ||gamma - theta*||^2 + kappa mean ||g_k - grad f_k(theta*)||^2.

    With f_k less its tangent at theta*, gradients at theta* are 0. With an l1 term the rule is the true
    gradient, the right side has the paper's last term, and of the subgradients p = lambda_1 s only
    <p_k, move of k> >= 0 is used.

    Parameters
    ----------
    l1 : whether there is an l1 term: FedElasticNet, else FedDyn
    lam, spread, share, participants : lambda_2/beta, (N - P)/(P (N - 1)), P/N and P, maybe symbols
    """
    run = Run(share, spread, weights={GAMMA: 1})
    run.optimum, run.points[OPTIMUM] = Vector(), Point(OPTIMUM, Vector(), Vector())
    gamma, stored = common(GAMMA), own(STORED)
    theta = gamma - (1 / lam) * stored.average
    clients = SymbolicClients(run, Exact(), participants / share, participants)
    if l1:
        method = in_fractions(FedElasticNetDyn(1.0, 1.0, "true-gradient"), {"l2": lam})
        after = clients.after(method, x=theta, stored=stored, h=stored.average)
    else:
        after = clients.after(in_fractions(FedDyn(1.0), {"alpha": lam}), x=theta, gradients=stored, h=stored.average)
    kept = after.stored if l1 else after.gradients
    run.gradient(AT_GAMMA, gamma)
    run.points[Z] = Point(Z, own(Z), stored)
    start = square(gamma) - run.square(after.x + (1 / lam) * after.h)
    terms = {
        KAPPA_0: value(OPTIMUM) - value(AT_GAMMA),
        KAPPA: square(stored) - run.product_of_each(kept, kept).over_all,
    }
    if l1:
        start = start - 2 * (1 / lam) * inner(gamma, own(PULL).average)
        terms["s"] = -run.conditions[f"{PULL}, 0"]
    terms |= {name: -condition for name, condition in Losses().conditions(list(run.points.values())).items()}
    return Family(start, terms, frozenset({KAPPA_0}))


def _multipliers(lam: Any, kappa_0: Any) -> dict[str, Any]:
    return {KAPPA_0: kappa_0, f"*, {NEW}": 2 / lam, f"{NEW}, *": 2 / lam - kappa_0, f"{NEW}, {AT_GAMMA}": kappa_0}


def _vectors(l1: bool) -> tuple[Vector, ...]:
    """u, v, w, sigma, and lambda times a client's move."""
    u, v, w, sigma = own(STORED), own(NEW), own(AT_GAMMA), own(PULL) if l1 else Vector()
    return u, v, w, sigma, u - v - sigma


@cache
def feddyn_is_proved(doubled: int = 2, eight: int = 8) -> bool:
    """FedDyn, any N, P and lambda: the form is a sum of squares with the factors A, C, C - s and q
    of docs/worst_cases.md.

    That leaves A >= 0, C >= s and A C >= B^2, B = q (1 + lambda) - s. With the first closed form
    A = B = C, and B - s has the sign of the condition of its range; with the second C = s > 0 and A
    s = B^2. Where 2/lambda is the smaller one, q lies between 0, where A = C = s + lambda will do,
    and that q: what is asked of (q, K) is convex.
    ``doubled``, ``eight``: the numbers of kappa_0, (lambda + 2 s) and 8 lambda s.
    """
    import sympy as sp

    lam, s, share, P, K, q = symbols("lambda s share P K q")
    u, v, w, _, move = _vectors(False)
    left = family_of(False, lam, 1 - s, share, P).at({KAPPA: K / (lam**2 * share), **_multipliers(lam, 2 * q)})
    A, C, B = K - (1 - s) - q, 1 + s + 2 * lam - K - q * (1 + lam) ** 2, q * (1 + lam) - s
    means = K * square(u.average) + (C - s) * square(v.average) + q * square((lam * w - (1 + lam) * v).average)
    both = u + v
    apart = (
        A * square(u.own_part) + C * square(v.own_part)
        + B * (square(both.own_part) - square(u.own_part) - square(v.own_part))
        + q * square((lam * w + move - lam * v).own_part)
    )
    if left != (1 / lam**2) * (means + apart):
        return False
    lam, s, K, q, A, C, B = map(sp.sympify, (lam, s, K, q, A, C, B))
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

    lam, rho, share, P = symbols("lambda rho share P")
    u, v, w, sigma, move = _vectors(True)
    turn, family = 2 + 2 * sp.sqrt(2), family_of(True, lam, rho, share, P)

    def left(q: Any, K: Any) -> Quadratic:
        return lam**2 * family.at({KAPPA: K / (lam**2 * share), "s": K / lam, **_multipliers(lam, 2 * q)})

    def with_both(q: Any, K: Any) -> Quadratic:
        """The squares of both ranges: the gradient at gamma, the cohort's spread, the stored gradient's mean."""
        return (
            q * square((lam * w - sigma - (1 + lam) * v).average)
            + K * square((u - half * sigma).average)
            + (1 - rho) * square(move.own_part) + q * square((lam * w + move - lam * v).own_part)
        )

    half = Fraction(1, 2)
    q, K = 2 * lam / (2 + lam) ** 2, (2 + 3 * lam) / (2 + lam)
    a = q * (1 + lam)
    up_to = (
        with_both(q, K) + a * square((v + ((K / 2 - a) / a) * sigma).average)
        + (K / (4 * a) * (3 * a - K)) * square(sigma.average)
        + a * square((move + 2 * v + (K / (2 * a)) * sigma).own_part)
        + (K - K**2 / (4 * a)) * square(sigma.own_part)
    )
    low = (1 + sp.sqrt(radicand)) / 3
    ok = left(q, K) == up_to
    ok = ok and at_least_0([a, 3 * a - K, K - K**2 / (4 * a), 2 / lam - 2 * q], lam, low, turn)
    q, K, e = 1 / lam, lam / 2, 1 + 1 / lam
    first, last = lam / 2 - e, 3 * lam / 8 - e - (lam / 4 - e) ** 2 / (lam / 2 - e)
    beyond = (
        with_both(q, K) + first * square((v + ((lam / 4 - e) / first) * sigma).average)
        + last * square(sigma.average)
        + lam * square((v + half * move + half * sigma).own_part)
        + (lam / 4 - e) * square(move.own_part) + (lam / 4) * square(sigma.own_part)
    )
    return ok and left(q, K) == beyond and at_least_0([first, last, lam / 4 - e], lam, turn, None)


def feddyn_kappas(ratio: float, clients: int, participants: int) -> float:
    """kappa_0 of FedDyn in closed form, for beta = 1 (`feddyn_is_proved`): for N >= 2 the largest of this kind.

    For one client it holds, too, and 2 (1 + 2 lambda)/(1 + lambda)^2, at most 2/lambda, is larger.
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


# --- it is the largest ----------------------------------------------------------------------------
def _table(lam: Any, M: Any, dev: Mapping[str, Any], mean: Mapping[str, Any], size: Any = 1, more: Any = 0) -> Table:
    """Gradients that are multiples of one vector in the deviations and of one in the means, with the squares 1 and ``size``.

    The new local models have f = ||v||^2/2 and <v, y> = ||v||^2 + ``more``; f at gamma makes the
    condition of the local model and gamma an equation; <w, gamma - theta*> is what its condition
    asks.
    """
    gram = {(DEVIATION, x, y): dev[x] * dev[y] for x in dev for y in dev}
    gram |= {(MEAN, x, y): size * mean[x] * mean[y] for x in mean for y in mean}

    def total(x: str, y: str) -> Any:
        return gram.get((DEVIATION, x, y), 0) + gram.get((MEAN, x, y), 0)

    uv, uw = (gram.get((DEVIATION, STORED, x), 0) for x in (NEW, AT_GAMMA))
    vv, vw, ww = total(NEW, NEW), total(NEW, AT_GAMMA), total(AT_GAMMA, AT_GAMMA)
    half = Fraction(1, 2)
    at_local = half * vv + more
    at_gamma = at_local - uw / lam + vw / lam - half * (vv - 2 * vw + ww)
    gram[MEAN, GAMMA, NEW] = vv + more - uv / lam + vv / lam
    gram[MEAN, GAMMA, AT_GAMMA] = at_gamma + half * ww
    gram |= {(DEVIATION, STORED, Z): 2 * M, (DEVIATION, NEW, Z): -M, (DEVIATION, AT_GAMMA, Z): -M}
    return Table(gram, {OPTIMUM: 0, NEW: at_local, AT_GAMMA: at_gamma, Z: M})


@cache
def feddyn_is_best(doubled: int = 2, eight: int = 8) -> bool:
    """True if no potential of the kind has a larger kappa_0 than the closed form, for any N >= 2, P and lambda.

    Three tables bound it by 4 (lambda + 2 s)/(2 + lambda)^2, by the second closed form where B <= s, and by 2/lambda.
    ``doubled``, ``eight``: the numbers of kappa_0, (lambda + 2 s) and 8 lambda s.
    """
    import sympy as sp

    lam, s, share, P, M, b = symbols("lambda s share P M b")
    first = 4 * (lam + doubled * s) / (2 + lam) ** 2
    one, widest = Fraction(1), (2 + 2 * lam + lam**2) / (1 + lam)
    apart = {STORED: -one, NEW: one, AT_GAMMA: (2 + lam) / lam}
    if not _shows(_table(lam, M, apart, {}), first, lam, s, share, P):
        return False
    # With b = B/s, between -1 and 1 on its range, A s = B^2 is linear in s, and kappa_0 = 2 s
    # (1 + b)/(1 + lambda). No sign below depends on that of b.
    tilted = {STORED: one, NEW: -b, AT_GAMMA: -((1 + lam) * b + 1) / lam}
    by_b = 2 * lam / (b**2 - 1 + (1 + b) * widest)
    value_of_b = 2 * by_b * (1 + b) / (1 + lam)
    if not _shows(_table(lam, M, tilted, {NEW: one, AT_GAMMA: (1 + lam) / lam}, 1 - b**2), value_of_b, lam, by_b, share, P):
        return False
    x, t, k = *map(sp.sympify, (lam, s)), sp.Symbol("kappa_0", positive=True)
    second = (sp.sqrt(t**2 * x**4 + eight * x * t * (1 + x) ** 2) - t * x**2) / (1 + x) ** 2
    B = k / 2 * (1 + x) - t
    relation = sp.Poly(sp.expand((2 * x + t - k / 2 * (1 + (1 + x) ** 2)) * t - B**2), k)
    ok = sp.cancel(relation.as_expr().subs(t, by_b).subs(k, value_of_b)) == 0 and sp.simplify(relation.eval(second)) == 0
    return bool(ok) and _shows(_table(lam, M, {}, {}, more=one), 2 / lam, lam, s, share, P)


def _shows(table: Table, kappa_0: Any, lam: Any, s: Any, share: Any, participants: Any) -> bool:
    """True if the conditions hold on the table, kappa does not matter, and the distance falls by kappa_0 times the gap."""
    import sympy as sp

    family = family_of(False, lam, 1 - s, share, participants)
    gap = -table.of(family.terms[KAPPA_0])
    if table.of(family.terms[KAPPA]) != 0 or table.of(family.start) != kappa_0 * gap:
        return False
    for name, term in family.terms.items():
        if name in (KAPPA_0, KAPPA):
            continue
        left = -table.of(term)
        if not (sp.diff(sp.sympify(left), sp.Symbol(FAR, positive=True)) in (1, 2) if Z in name.split(", ") else left >= 0):
            return False
    return True
