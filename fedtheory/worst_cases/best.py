"""FedDyn's kappa_0 is the largest of its kind: instances, or limits of instances, on which no
potential has a larger one.

Inner products of gamma - theta* with the means of gradients are free numbers: gradients whose means
are tiny and a model that is far away have any. What is written down is therefore a table of inner
products and values that limits of instances have. On it the interpolation conditions hold, the new
stored gradients are as long as the old ones, so that kappa does not matter, and the squared
distance falls by exactly kappa_0 times the gap. Hence no kappa >= 0 allows a larger kappa_0. SymPy
evaluates the family of `potentials` on the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from fedtheory.worst_cases.gram import DEVIATION, MEAN, Quadratic
from fedtheory.worst_cases.potentials import KAPPA, KAPPA_0, family_of

__all__ = ["feddyn_is_best"]

U, V, W, Z, D = "g", "g+", "grad f(gamma)", "z", "gamma"
FAR = "M"  # how far away z is; conditions at z hold from some M on


class _Table:
    """Inner products (block, x, y) and values of losses."""

    def __init__(self, gram: Mapping[tuple[str, str, str], Any], values: Mapping[str, Any]) -> None:
        self.gram = {(block, *sorted((x, y))): number for (block, x, y), number in gram.items()}
        self.values = values

    def of(self, q: Quadratic) -> Any:
        """Return the value of a form on the table."""
        import sympy as sp

        total = q.constant
        for key, number in q.gram.items():
            total += number * self.gram.get(key, 0)
        for point, number in q.values.items():
            total += number * self.values.get(point, 0)
        return sp.cancel(sp.together(total))


def _table(lam: Any, M: Any, dev: Mapping[str, Any], mean: Mapping[str, Any], more: Any) -> _Table:
    """Gradients that are multiples of one vector in the deviations and of one in the means.

    The new local models have f = ||v||^2/2 and <v, y> = ||v||^2 + ``more``; f at gamma makes the
    condition of the local model and gamma an equation; <w, gamma - theta*> is what its condition
    asks.
    """
    import sympy as sp

    gram = {(block, x, y): of[x] * of[y] for block, of in ((DEVIATION, dev), (MEAN, mean)) for x in of for y in of}
    total = lambda x, y: sum((gram.get((block, x, y), 0) for block in (DEVIATION, MEAN)), sp.Integer(0))  # noqa: E731
    uv, uw = (gram.get((DEVIATION, U, x), 0) for x in (V, W))
    at_local = total(V, V) / 2 + more
    at_gamma = at_local - uw / lam + total(W, V) / lam - (total(V, V) - 2 * total(V, W) + total(W, W)) / 2
    gram[MEAN, D, V] = total(V, V) + more - uv / lam + total(V, V) / lam
    gram[MEAN, D, W] = at_gamma + total(W, W) / 2
    gram |= {(DEVIATION, U, Z): 2 * M, (DEVIATION, V, Z): -M, (DEVIATION, W, Z): -M}
    return _Table(gram, {"*": 0, "local": at_local, "gamma": at_gamma, "z": M})


@cache
def feddyn_is_best(doubled: int = 2, eight: int = 8) -> bool:
    """True if no potential of the kind has a larger kappa_0 than the closed form, for any N >= 2, P and lambda.

    Three tables bound it by 4 (lambda + 2 s)/(2 + lambda)^2, by the second closed form where B <= s, and by 2/lambda.
    ``doubled``, ``eight``: the numbers of kappa_0, (lambda + 2 s) and 8 lambda s.
    """
    import sympy as sp

    lam, s, share, M, b, k = sp.symbols("lambda s share M b kappa_0", positive=True)
    first = 4 * (lam + doubled * s) / (2 + lam) ** 2
    second = (sp.sqrt(s**2 * lam**4 + eight * lam * s * (1 + lam) ** 2) - s * lam**2) / (1 + lam) ** 2
    one, widest = sp.Integer(1), (2 + 2 * lam + lam**2) / (1 + lam)
    apart = {U: -one, V: one, W: (2 + lam) / lam}
    ok = _shows(_table(lam, M, apart, {}, 0), first, lam, s, share, M)
    # With b = B/s, between -1 and 1 on its range, A s = B^2 is linear in s, and kappa_0 = 2 s
    # (1 + b)/(1 + lambda).
    tilted = {U: one, V: -b, W: -((1 + lam) * b + 1) / lam}
    rest = sp.sqrt(1 - b**2)
    by_b = 2 * lam / (b**2 - 1 + (1 + b) * widest)
    value = 2 * by_b * (1 + b) / (1 + lam)
    ok = ok and _shows(_table(lam, M, tilted, {V: rest, W: (1 + lam) * rest / lam}, 0), value, lam, by_b, share, M)
    B = k / 2 * (1 + lam) - s
    relation = sp.Poly(sp.expand((2 * lam + s - k / 2 * (1 + (1 + lam) ** 2)) * s - B**2), k)
    ok = ok and sp.cancel(relation.as_expr().subs(s, by_b).subs(k, value)) == 0 and sp.simplify(relation.eval(second)) == 0
    return bool(ok) and _shows(_table(lam, M, {}, {}, one), 2 / lam, lam, s, share, M)


def _shows(table: _Table, kappa_0: Any, lam: Any, s: Any, share: Any, M: Any) -> bool:
    """True if the conditions hold on the table, kappa does not matter, and the distance falls by kappa_0 times the gap."""
    import sympy as sp

    family = family_of(lam, 1 - s, share, False)
    gap = -table.of(family.terms[KAPPA_0])
    if table.of(family.terms[KAPPA]) != 0 or sp.cancel(sp.together(table.of(family.start) - kappa_0 * gap)) != 0:
        return False
    for name, term in family.terms.items():
        if name in (KAPPA_0, KAPPA):
            continue
        left = -table.of(term)
        grows = sp.cancel(sp.diff(left, M))
        if not (grows in (1, 2) if "z" in name.split(", ") else left.is_nonnegative):
            return False
    return True
