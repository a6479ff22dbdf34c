"""Words of a campaign on a form whose worst case over all problems is known at a point."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import pytest

from fedtheory.errors import NotCertified
from fedtheory.theorems import all_statements, get
from fedtheory.theory.judge.campaign import summarise
from fedtheory.theory.judge.check import AT_A_POINT, judge_worst
from fedtheory.theory.judge.statement import Worst


def judged(share, rules=()):
    """The checks and rows of a theorem whose only instance is the worst case."""
    theorem = get("fedelasticnet/theorem-3.1")
    form = replace(theorem.form("repaired"), worst=Worst("somewhere", share, rules))
    checks = judge_worst(theorem, form)
    return checks, {r.rule: r for r in summarise(checks, statements=[replace(theorem, forms=(form,))])}


@pytest.mark.parametrize("share", [F(1, 3), F(1)])
def test_a_share_of_at_most_1_is_no_instance(share):
    checks, rows = judged(lambda: share)
    assert [(c.rule, c.verdict, c.mode, c.tightness) for c in checks] == [
        (rule, "holds", AT_A_POINT, float(share)) for rule in ("sign", "true-gradient")
    ]
    for row in rows.values():
        assert (row.worst_case, row.worst_case_at, row.modes) == (float(share), "somewhere", [AT_A_POINT])
        assert row.instances == 0 and row.verdict == "not applicable" and row.tightness_worst != row.tightness_worst


def test_a_share_above_1_decides_nothing_and_is_seen():
    """The proved number is an upper bound of the worst case: above the bound it refutes nothing."""
    checks, rows = judged(lambda: F(6, 5), ("sign",))
    assert [(c.rule, c.verdict) for c in checks] == [("sign", "inconclusive")] and "1.2" in checks[0].reason
    assert rows["sign"].verdict == "inconclusive" and not rows["sign"].ok
    assert rows["true-gradient"].inconclusive == 0


def test_a_worst_case_that_is_not_certified_is_inconclusive():
    def none():
        raise NotCertified("the solver says no")

    checks, rows = judged(none)
    assert all(c.verdict == "inconclusive" and "the solver says no" in c.reason for c in checks)
    assert not rows["sign"].ok and rows["sign"].worst_case != rows["sign"].worst_case


def test_no_bound_is_below_the_worst_case_of_its_class():
    """Of one form a paper; a campaign judges all. A bound of half the size would be below one of them."""
    having = {s.id for s in all_statements() for f in s.forms if f.worst is not None}
    chosen = ("fedelasticnet/theorem-e", "fedmls/exact-prox", "efl/theorem-1")
    shares = [get(name).form("repaired").worst.share() for name in chosen]
    assert set(chosen) <= having and all(0 < share <= 1 for share in shares) and max(shares) > F(1, 2)
