"""The right side of a bound, term by term, where a witness is rerun in fractions."""

import json
from fractions import Fraction
from types import SimpleNamespace

import pytest
from command_line import call

from fedtheory.theory.judge.registry import get, setting_of
from fedtheory.theory.judge.replay import builtin_witnesses, exact_check
from fedtheory.theory.judge.statement import eq, le
from fedtheory.theory.judge.substitution import right_side


def test_terms_of_theorem_3_1_by_hand():
    """kappa, kappa_0 and kappa' of beta = lambda_1 = 1e-6 and lambda_2 = 1/30000, and the three terms of (13) that they make."""
    shown = json.loads(call("replay", "fedelasticnet-theorem-3.1-printed-sign", "--json").stdout)
    values = [Fraction(t["value"]) for t in shown["terms"]]
    kappa_0, kappa_prime = (Fraction(shown["constants"][name]) for name in ("κ₀", "κ′"))
    inner = next(Fraction(v) for name, v in shown["constants"].items() if "sign" in name)
    l1, l2 = Fraction(1, 10**6), Fraction(1, 30000)
    assert values == [10000 / (3 * kappa_0), kappa_prime * l1**2 / kappa_0, -2 * l1 * inner / (3 * l2)]
    assert sum(values) == Fraction(shown["rhs"])
    told = " ".join(call("replay", "fedelasticnet-theorem-3.1-printed-sign").stdout.split())
    assert "term 1 391/1476 = 0.264905" in told and "4920000/391" in told


def test_what_fed_mls_bounds_with():
    told = call("replay", "fedmls-theorem-1-joint-g").stdout
    assert "K = 1; G^2 = 1/20; ||x_0 - x*||^2 = 1" in " ".join(told.split()).replace(", ", "; ")
    assert Fraction(10 + 8 * Fraction(1, 100)) / (14 * 2) + Fraction(1, 20) * 14 / 2 == Fraction(71, 100)


@pytest.mark.parametrize("paper", ["fedelasticnet", "efl", "elastic-aggregation"])
def test_terms_add_up_to_the_right_side_of_every_witness(paper):
    seen = 0
    for witness in builtin_witnesses(paper)[::4]:
        statement = get(witness.statement)
        form = statement.form(witness.form)
        _, lhs, rhs, _ = exact_check(witness)
        terms, _ = right_side(form, setting_of(statement).exact_view(statement, form, witness), lhs, rhs)
        assert not terms or sum(t.value for t in terms) == rhs
        seen += bool(terms)
    assert seen > 1 or paper == "elastic-aggregation"


def test_only_sums_have_terms():
    one, two = Fraction(1), Fraction(2)

    def parts(sides, lhs, rhs):
        return right_side(SimpleNamespace(sides_on=lambda view: sides, letters=None, sides=None), None, lhs, rhs)[0]

    assert [t.value for t in parts(le(one, one, two), one, one + two)] == [1, 2]
    assert parts(le(one, one, two), one, two) == parts(le(one, two), one, two) == parts(eq(one, two), one, two) == []
