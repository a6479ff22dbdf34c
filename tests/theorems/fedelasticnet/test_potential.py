"""FedDyn's kappa_0 in closed form, and that it is the largest of its kind: the tables that show it, in symbols and by hand."""

from __future__ import annotations

from fractions import Fraction as F

import pytest

from fedtheory.theorems.fedelasticnet.potential import KAPPA, KAPPA_0, family_of, feddyn_is_best, feddyn_kappas
from fedtheory.worst_cases.gram import Quadratic
from fedtheory.worst_cases.runs import spread
from fedtheory.worst_cases.symbolic import Symbolic, Table, symbols


@pytest.mark.parametrize(
    ("ratio", "clients", "participants", "kappa_0"),
    [
        (1, 2, 2, min(2, ((1 + 8 * 4) ** 0.5 - 1) / 4)), (1, 5, 1, 4 / 9), (8, 5, 1, 1 / 4),
        (2, 3, 2, min(1, ((F(9, 16) * 16 + 8 * 2 * F(3, 4) * 9) ** 0.5 - 3) / 9)),
        (1, 1, 1, min(2, ((1 + 8 * 4) ** 0.5 - 1) / 4)), (1, 2, 1, F(4, 9)),
        (2, 8, 2, F(11, 14)), (2, 6, 2, F(4, 5)), (2, 5, 2, (96.25**0.5 - 2.5) / 9),
    ],
)  # fmt: skip
def test_feddyns_closed_form_by_hand(ratio, clients, participants, kappa_0):
    """s = 1, 0, 0, 3/4, 1, 0, 4/7, 3/5 and 5/8: up to 3/5 the first formula holds for 2."""
    assert feddyn_kappas(ratio, clients, participants) == pytest.approx(float(kappa_0), rel=1e-12)


@pytest.mark.parametrize("l1", [False, True])
def test_the_identity_in_symbols_is_that_of_every_number(l1):
    """And N and P enter by their ratio and the spread alone."""
    lam, rho, share, P = symbols("lam rho share P")
    found = family_of(l1, lam, rho, share, P)
    for ratio, n, p in ((F(7, 4), 5, 2), (F(1, 3), 4, 3), (F(5), 3, 3), (F(2), 1, 1)):
        numbers = {"lam": ratio, "rho": spread(n, p), "share": F(p, n), "P": F(100)}

        def at(q, numbers=numbers):
            tables = ({key: c.at(**numbers) if isinstance(c, Symbolic) else c for key, c in of.items()} for of in (q.gram, q.values))
            return Quadratic(*({key: c for key, c in of.items() if c} for of in tables), q.constant)

        exact = family_of(l1, ratio, spread(n, p), F(p, n), F(p))
        assert at(found.start) == exact.start and found.terms.keys() == exact.terms.keys() and found.signed == exact.signed
        assert all(at(term) == exact.terms[name] for name, term in found.terms.items())


def test_no_potential_of_the_kind_has_a_larger_one():
    assert feddyn_is_best()


@pytest.mark.parametrize("numbers", [(3, 8), (2, 9)])
def test_other_numbers_are_noticed(numbers):
    assert not feddyn_is_best(*numbers)


def test_a_table_by_hand():
    """lambda = 1, s = 0, so one of many clients takes part: u = -1, v = 1, w = 3 among the deviations, f = 1/2 and 9/2.

    <v, gamma - theta*> = 1 + 1 + 1 = 3. The squared distance falls by 2 * 3 - (u - v)^2 = 2, and 4/9 times the gap 9/2 is 2.
    """
    M = F(10)
    gram = {("deviation", "g", "g"): 1, ("deviation", "g", "g0"): -1, ("deviation", "g0", "g0"): 1,
            ("deviation", "g", "at gamma"): -3, ("deviation", "g0", "at gamma"): 3,
            ("deviation", "at gamma", "at gamma"): 9, ("mean", "gamma", "g0"): 3, ("mean", "gamma", "at gamma"): 9,
            ("deviation", "g", "z"): 2 * M, ("deviation", "g0", "z"): -M, ("deviation", "at gamma", "z"): -M}  # fmt: skip
    table = Table(gram, {"*": 0, "g0": F(1, 2), "at gamma": F(9, 2), "z": M})
    family = family_of(False, F(1), F(1), F(1, 7), F(1))
    assert table.of(family.start) == 2 and -table.of(family.terms[KAPPA_0]) == F(9, 2)
    assert table.of(family.terms[KAPPA]) == 0
    assert all(table.of(term) <= 0 for name, term in family.terms.items() if name not in (KAPPA, KAPPA_0))


def _least_decrease(far):
    """By cvxpy, two clients apart, no symmetry: lambda = 1, one of them drawn, a gap of 1, stored gradients that do not shrink."""
    import cvxpy as cp
    import numpy as np

    names = ["d", *(f"{x}{k}" for x in "zuvw" for k in "12")]
    unit = dict(zip(names, np.eye(len(names)), strict=True))
    gram = cp.Variable((len(names),) * 2, PSD=True)
    inner = lambda a, b: cp.sum(cp.multiply(gram, (np.outer(a, b) + np.outer(b, a)) / 2))  # noqa: E731
    d, mean = unit["d"], (unit["u1"] + unit["u2"]) / 2
    conditions, after, gap, grown = [inner(d, d) <= far**2], 0, 0, 0
    for k in "12":
        z, u, v, w = (unit[x + k] for x in "zuvw")
        y, f = d - mean + u - v, cp.Variable(4)
        points = [(0 * d, 0 * d), (z, u), (y, v), (d, w)]
        for i, j in ((i, j) for i in range(4) for j in range(4) if i != j):
            (xi, gi), (xj, gj) = points[i], points[j]
            conditions.append(f[i] - f[j] - inner(gj, xi - xj) - inner(gi - gj, gi - gj) / 2 >= 0)
        after, gap, grown = after + inner(y, y) / 2, gap + (f[3] - f[0]) / 2, grown + inner(v, v) - inner(u, u)
    problem = cp.Problem(cp.Minimize(inner(d, d) - after), [*conditions, gap == 1, grown >= 0])
    return problem.solve(solver=cp.CLARABEL)


def test_instances_come_near_to_it():
    """The further the model is from the optimum, the nearer the least decrease of all instances comes to kappa_0 = 4/9."""
    near, far = _least_decrease(5), _least_decrease(50)
    assert near > far + 0.01 and 4 / 9 < far < 4 / 9 + 2e-4
