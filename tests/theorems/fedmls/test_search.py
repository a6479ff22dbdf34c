"""The search over FedMLS's runs: it finds what is false, comes back empty where nothing is, and repeats itself."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fedtheory import theorems
from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedmls.exact import evaluate, make_witness, minimum
from fedtheory.theorems.fedmls.search import Lines, draw, search, search_all
from fedtheory.theory.judge.registry import all_statements
from fedtheory.theory.judge.replay import replay
from fedtheory.theory.judge.statement import Sides

FORMS = [
    (s.id, f)
    for s in all_statements("fedmls/")
    if s.scope == "fedmls"
    for f in s.forms
    if f.sides is not None and f.established.get("deterministic") == "holds"
]


def test_every_form_is_searched_and_none_is_refuted():
    found = search_all(160, seed=3)
    assert {(r.statement, r.form) for r in found} == {(s, f.name) for s, f in FORMS}
    assert all(r.empty and r.evaluations >= 10 and -1 < r.best <= 1e-9 for r in found)


@pytest.mark.parametrize("statement, form", FORMS, ids=lambda v: getattr(v, "name", v))
def test_mutants_are_refuted(statement, form):
    for mutant in form.mutants:
        assert not search(statement, form, 150, sides=mutant.sides).empty, mutant.name


def _scaled(factor: float):
    def sides(view):
        plain: Sides = theorems.get("fedmls/theorem-1").form("repaired").sides(view)
        return replace(plain, rhs=factor * plain.rhs)

    return sides


def test_it_comes_near():
    """Half of Theorem 1's bound is refuted, which random instances alone seldom do."""
    assert not search("fedmls/theorem-1", sides=_scaled(0.5)).empty
    assert search("fedmls/theorem-1", sides=_scaled(1.0)).empty


def test_the_same_seed_gives_the_same():
    first, again, other = (search("fedmls/recursion", budget=30, seed=s) for s in (5, 5, 6))
    assert first == again and first.best != other.best


@pytest.mark.parametrize(("norm", "form"), [("mean", "repaired"), ("product", "line 22 with grad f_i/N")])
@pytest.mark.parametrize("seed", range(8))
def test_the_float_run_is_the_rational_one(seed, norm, form):
    """Both sides of Theorem 1 on the instance in fractions, by the second implementation."""
    fixed = {"rounds": 4, "lam": Fraction(1, 2), "D": Fraction(1), "parameters": "free", "average": "averaged", "norm": norm}
    lines = replace(draw(np.random.default_rng(seed)), **fixed)
    view = lines.view()
    sides = theorems.get("fedmls/theorem-1").form(form).sides(view)
    lhs, rhs = evaluate(lines.clients, lines.lam, lines.D, Fraction(1), lines.x0, lines.rounds, form)
    star = minimum(lines.clients, Fraction(1))[1], minimum(lines.clients, Fraction(1), near=lines.x0)[1]
    assert float(sides.lhs.squeeze()) == pytest.approx(float(lhs), abs=1e-9)
    if star[0] == star[1]:  # else the float run is judged with the minimiser nearest to x_0
        assert float(sides.rhs.squeeze()) == pytest.approx(float(rhs), rel=1e-9)
    else:
        assert float(sides.rhs.squeeze()) <= float(rhs) * (1 + 1e-9)


def test_the_nearest_minimiser():
    flat = [[(Fraction(-1), Fraction(0)), (Fraction(0), Fraction(0)), (Fraction(1), Fraction(-1))]]  # 0 on [0, 1]
    for x0, nearest in ((-1, 0), (Fraction(1, 3), Fraction(1, 3)), (2, 1)):
        assert minimum(flat, Fraction(3), near=Fraction(x0)) == (0, nearest)


def test_a_file_that_claims_less_than_the_theorem_is_no_witness():
    lines = Lines(((Fraction(1),),), ((Fraction(0),),), Fraction(1), Fraction(1), Fraction(1), 1, "free", "averaged", "mean")
    lhs, rhs = evaluate(lines.clients, lines.lam, lines.D, Fraction(1), lines.x0, 1, "repaired")
    ones = dict.fromkeys(("lam", "D", "radius", "x0"), "1")
    claimed = make_witness("repaired", [["1"]], [["0"]], ones, 1, lhs=str(lhs), rhs=str(rhs / 4))
    with pytest.raises(InvalidInput, match="not a witness"):
        replay(claimed)


def test_instances_are_short_fractions_and_told_in_full():
    lines = draw(np.random.default_rng(0))
    numbers = [*(v for row in lines.slopes + lines.offsets for v in row), lines.x0]
    assert all(64 % v.denominator == 0 for v in numbers)
    told = lines.to_json()
    assert told["slopes"] == [[str(v) for v in row] for row in lines.slopes] and told["rounds"] == lines.rounds


def test_bad_input():
    with pytest.raises(InvalidInput, match="budget = 0"):
        search_all(0)
    with pytest.raises(InvalidInput, match="nothing to search"):
        search("fedmls/theorem-1", "consensus G")
    with pytest.raises(InvalidInput, match="nothing to search"):
        search("fedelasticnet/theorem-3.1")
