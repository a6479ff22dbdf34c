"""Random rounds of Algorithm 3: of every shape, and with a client that just does not move."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np

from fedtheory.theorems.fedelasticnet.drawn import drawn
from fedtheory.theorems.fedelasticnet.exact_witness import DiagonalWitness, instance_of
from fedtheory.theory.judge.registry import get, setting_of
from fedtheory.theory.judge.search import Target
from fedtheory.theory.judge.statement import le

RULES = ("sign", "true-gradient")


def many(kind, count=400):
    rng = np.random.default_rng(3)
    return [drawn(kind, rng) for _ in range(count)]


def test_rounds_are_from_any_state_or_after_cohorts():
    made = many("round")
    assert {m.rule for m in made} == set(RULES)
    assert 0.5 < np.mean(["state" in m.data for m in made]) < 0.7
    before = {len(m.data["cohorts"]) for m in made if "cohorts" in m.data}
    assert {0, 1, 2, 3} < before and max(before) > 20
    shapes = {(len(m.data["h"]), m.data["P"], len(m.data["h"][0])) for m in made}
    assert {(1, 1, 1), (2, 1, 1), (2, 2, 1), (3, 2, 2), (4, 1, 1)} < shapes
    for m in [m for m in made if len(m.data["h"][0]) >= 5][:20]:  # copies of one coordinate
        rows = [*m.data["h"], *m.data["c"], m.data["x0"], *m.data.get("state", {}).get("stored", [])]
        assert all(len(set(row)) == 1 for row in rows)
    assert all(isinstance(v, F) for m in made[:20] for v in m.view().epsilon)


def test_what_is_drawn_is_within_the_assumptions():
    at_the_edge = at_the_optimum = 0
    for made in many("round"):
        w = DiagonalWitness("", "", made.rule, **made.data)
        one = instance_of(w)
        ratio = one.lambda2 / one.losses.beta
        assert one.lambda1 > 0 and 0.02 < ratio <= F(1020)
        slopes = abs(one.losses.gradients(one.x0)).max(axis=(0, 2))
        at_the_edge += bool((one.lambda1 == slopes * (1 + F(1, 10**6))).any())
        at_the_optimum += bool((one.x0 == one.losses.theta_star).all())
    assert abs(at_the_edge / 400 - 0.1) < 0.08 and at_the_optimum > 20


def test_a_run_that_fails_on_its_way_is_proved_where_it_fails():
    """At the last horizon the form holds, and the witness is the run to the third one."""
    statement = get("fedelasticnet/theorem-3.1")
    setting = setting_of(statement).part(statement)

    def sides(v):
        third = np.array([F(int(t == 3)) for t in v.horizons])
        return le(third, 0 * third, F(1, 2) + 0 * third)

    wrong = replace(statement.form("repaired"), sides=sides)
    changed, rng = replace(statement, forms=(wrong,)), np.random.default_rng(3)
    instances = iter(lambda: setting.random_instance("theorem-3.1", rng), None)
    at = next(m for m in instances if m.rule == "sign" and 5 < m.data["rounds"] < 13)
    target = Target(changed, wrong, "sign", sides, margin_at=at)
    witness, excess = setting.proved(target)
    assert excess > 0 and witness.data["rounds"] == 3 and (witness.lhs, witness.rhs) == ("1", "1/2")
