"""The search over FedMLS's runs: it finds what is false, comes back empty where nothing is, and repeats itself."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from cases import each
from lines_of_fedmls import both_sides, witness_of

from fedtheory import theorems
from fedtheory.errors import InvalidInput
from fedtheory.rational import to_file
from fedtheory.theorems.fedmls.lines import least_on
from fedtheory.theorems.fedmls.notation import ROUNDS
from fedtheory.theorems.fedmls.one_dimension import OneDimension, draw
from fedtheory.theorems.fedmls.runs import FedMLSRuns
from fedtheory.theory.judge.registry import all_statements, setting_of
from fedtheory.theory.judge.replay import replay
from fedtheory.theory.judge.search import Target
from fedtheory.theory.judge.statement import Sides

FORMS = [
    (s.id, f)
    for s in all_statements("fedmls/")
    if s.scope == "fedmls"
    for f in s.forms
    if f.sides is not None and f.established.get("deterministic") == "holds"
]


def search(statement, form="repaired", budget=400, seed=0, sides=None):
    about = theorems.get(statement)
    return setting_of(about).search(about, about.form(form), "deterministic", budget, seed, sides)


def test_every_form_is_searched_and_none_is_refuted():
    statements = [*all_statements("fedmls/")]
    assert ("lines",) in setting_of("fedmls/theorem-1").searches(statements)
    found = setting_of("fedmls/theorem-1").run_search(("lines",), statements, 4 * 160, 3)
    assert {(r.statement, r.form) for r in found} == {(s, f.name) for s, f in FORMS}
    assert all(r.empty and r.evaluations >= 10 and -1 < r.best <= 1e-9 for r in found)


def test_mutants_are_refuted():
    """By one search, whose instances they share."""
    mutants = [(theorems.get(id), form, m) for id, form in FORMS for m in form.mutants]
    assert {form.kind for _, form, _ in mutants} == {"lines"}
    targets = [Target(statement, form, "deterministic", m.sides) for statement, form, m in mutants]
    found = setting_of("fedmls/theorem-1").explore("lines", targets, 100, 0)
    assert not [(s.id, form.name, m.name) for (s, form, m), r in zip(mutants, found, strict=True) if r.empty]


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


@each("variant", ["repaired", "line 22 with grad f_i/N"])
@each("seed", range(8))
def test_the_float_run_is_the_rational_one(seed, variant):
    """Both sides of Theorem 1 on an instance in fractions, and by the library's FedMLS in floats."""
    fixed = {"rounds": 4, "lam": Fraction(1, 2), "D": Fraction(1), "variant": variant}
    run = OneDimension.of(to_file({**draw(np.random.default_rng(seed))[1], **fixed}))
    form = theorems.get("fedmls/theorem-1").form(variant)
    exact, floats = (form.sides(view) for view in (run.in_fractions(), run.in_floats()))
    assert exact.lhs.dtype == exact.rhs.dtype == object
    assert float(floats.lhs.squeeze()) == pytest.approx(float(exact.lhs.item()), abs=1e-9)
    assert float(floats.rhs.squeeze()) == pytest.approx(float(exact.rhs.item()), rel=1e-9)


def test_a_side_in_floats_proves_nothing_on_a_run_in_fractions():
    """kappa_l is a float: the form is refused there, and not judged by a number that is rounded."""
    witness = witness_of("line 14 as printed", [["1", "-1"]], [["0", "0"]], dict.fromkeys(("lam", "D", "radius", "x0"), "1"), 2)
    with pytest.raises(InvalidInput, match="no fraction: it proves nothing"):
        replay(witness)


def test_the_rounds_of_an_instance_are_read_off_its_numbers():
    """K(K+1) lambda^2 G^2 >= 36 D is what [fewer rounds] needs, 28 D what is left of it sharpened."""
    both = {"slopes": [["1", "-1"]], "offsets": [["0", "0"]], "D": "1", "radius": "1", "x0": "1", "rounds": 3}
    facts = {
        lam: {k for k, words in ROUNDS.items() if words in OneDimension.of({**both, "variant": "repaired", "lam": lam}).facts}
        for lam in ("3", "2", "8/5", "3/2")
    }  # 12 lambda^2 is 108, 48, 30.72 and 27; 9 lambda^2 is 81, 36, 23.04 and 20.25
    assert facts == {"3": {"printed", "fewest", "sharpened"}, "2": {"fewest", "sharpened"}, "8/5": {"sharpened"}, "3/2": set()}
    assert not OneDimension.of({**both, "variant": "repaired", "lam": "3", "D": "1/2"}).facts  # below ||x_0 - x*||^2


def test_a_violation_is_proved_from_the_data_of_its_instance():
    """A tenth of the bound is refuted: the search's instance, in floats, is the witness in fractions."""
    statement = theorems.get("fedmls/theorem-1")
    form = statement.form("repaired")
    wrong = replace(form, sides=lambda view: replace(form.sides(view), rhs=form.sides(view).rhs * Fraction(1, 10)))
    false = replace(statement, forms=(wrong,))
    found = setting_of(statement).search(false, wrong, "deterministic", 24, 2)
    assert found.witness is not None and found.witness.kind == "lines"
    lhs, rhs = Fraction(found.witness.lhs), Fraction(found.witness.rhs)
    run = OneDimension.of(found.witness.data)
    numbers = run.clients, run.lam, run.d, run.radius, run.x0, run.rounds, "repaired"
    assert (lhs, 10 * rhs) == both_sides(*numbers, run.copies) and lhs > rhs


def test_the_nearest_minimiser():
    flat = [[(Fraction(-1), Fraction(0)), (Fraction(0), Fraction(0)), (Fraction(1), Fraction(-1))]]  # 0 on [0, 1]
    for x0, nearest in ((-1, 0), (Fraction(1, 3), Fraction(1, 3)), (2, 1)):
        assert least_on(flat, -Fraction(3), Fraction(3), Fraction(x0)) == (0, nearest)


def test_a_file_that_claims_less_than_the_theorem_is_no_witness():
    ones = dict.fromkeys(("lam", "D", "radius", "x0"), "1")
    lhs, rhs = both_sides([[(Fraction(1), Fraction(0))]], *[Fraction(1)] * 4, 1)
    claimed = witness_of("repaired", [["1"]], [["0"]], ones, 1, lhs=str(lhs), rhs=str(rhs / 4))
    with pytest.raises(InvalidInput, match="not a witness"):
        replay(claimed)


def test_instances_are_short_fractions_and_told_in_full():
    made = FedMLSRuns.search_instance(np.random.default_rng(0))
    numbers = [Fraction(v) for name in ("slopes", "offsets") for row in made.data[name] for v in row]
    assert all(64 % v.denominator == 0 for v in (*numbers, Fraction(made.data["x0"])))
    assert made.to_json()["data"] == made.data and OneDimension.of(made.data).rounds == made.data["rounds"]


def test_bad_input():
    with pytest.raises(InvalidInput, match="budget is 0"):
        search("fedmls/theorem-1", budget=0)
    with pytest.raises(InvalidInput, match="no sides to compare"):
        search("fedmls/identities")
