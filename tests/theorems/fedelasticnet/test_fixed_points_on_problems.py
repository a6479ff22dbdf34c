"""Fixed points of Algorithm 1 on problems of the package."""

from fedtheory.theory.judge.case import Plan
from fedtheory.theory.judge.registry import get, paper


def test_a_fixed_point_is_found_where_newtons_steps_only_halve_the_move():
    """On the campaign's first problem of the package it takes some 43 of them."""
    statement = get("fedelasticnet/algorithm-1-fixed-point")
    part = paper("fedelasticnet").setting.part(statement)
    [first] = [i for i in part.instances(Plan(0)) if i.name.endswith("problem 0 seed=0") and i.kind in statement.id]
    checks = part.check(first, [statement])
    assert [c.verdict for c in checks] == ["holds"] * len(statement.forms)
