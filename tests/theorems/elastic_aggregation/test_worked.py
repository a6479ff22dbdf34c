"""Statements on Elastic Aggregation, worked out a second time: sides, and conditions.

A bound that holds with room holds with a slightly wrong constant too, but does not give the numbers
of the second writing, `validation/references/worked_elastic_aggregation*.py`. It shares nothing
with the package, which must give its fractions exactly, on every instance that a form is about.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import worked_elastic_aggregation as worked
from cases import each

from fedtheory import theorems
from fedtheory.theory.judge.registry import setting_of

for file in sorted(Path(worked.__file__).parent.glob("worked_elastic_aggregation_*.py")):
    import_module(file.stem)
quantities = import_module("worked_elastic_aggregation_forms").quantities

BUILDERS = setting_of("elastic-aggregation/sign").builders
STATED = {
    (s.id.split("/")[1], f.name): f
    for s in theorems.all_statements("elastic-aggregation/")
    for f in s.forms
    if s.kind != "claim"  # of an experiment on networks: no sides
}
ASKED = {need: need for f in STATED.values() for need in f.needs}  # words -> Fact


@cache
def both(instance):
    """The package's view of an instance, and what the second writing works out of it."""
    kind, data = worked.INSTANCES[instance]
    return BUILDERS[kind](data), worked.KINDS[kind](data)


def about(form):
    """The instances that the form is about."""
    return [
        name for name, (kind, _) in worked.INSTANCES.items()
        if kind == form.kind and both(name)[0].applies(form) is None
    ]


def entries(a):
    """Of a number, a list of lists or an array."""
    return [Fraction(v) for v in np.asarray(a, dtype=object).ravel()]


def expected(sides, relation):
    """lhs, rhs and scale; those of an equality's sides are judged by their difference."""
    lhs, rhs, *parts = map(entries, sides)
    scale = [abs(a) + abs(b) + sum(p) for a, b, *p in zip(lhs, rhs, *parts, strict=True)]
    if relation == "<=":
        return lhs, rhs, scale
    return [abs(a - b) for a, b in zip(lhs, rhs, strict=True)], [0] * len(lhs), scale


@each("key", STATED)
def test_both_writings_of_a_form_agree(key):
    form = STATED[key]
    assert key in worked.FORMS, "write its two sides a second time"
    assert len(about(form)) > 1, "write instances that it is about, one with numbers all different"
    for instance in about(form):
        view, made = both(instance)
        sides = form.sides(view)
        found = tuple(map(entries, np.broadcast_arrays(sides.lhs, sides.rhs, sides.scale)))
        assert found == expected(worked.FORMS[key](made), sides.relation), instance


def test_nothing_is_written_of_what_is_not_stated():
    assert set(worked.FORMS) <= set(STATED)


@each(
    "instance", [n for n, (kind, _) in worked.INSTANCES.items() if kind != "labels"]
)
def test_what_the_sides_are_made_of(instance):
    view, made = both(instance)
    for name, numbers in quantities(made).items():
        found = getattr(view, name)
        assert entries(found(view.theta) if callable(found) else found) == entries(numbers), name


def test_the_minimiser_that_is_found_makes_the_mean_motion_0():
    """By cohorts and local steps, without M: at theta, and not beside it."""
    for instance in ("cohorts", "matrices", "one step", "pair"):
        clients = worked.work(instance)
        assert clients.motion() == [0] * clients.d
        assert entries(both(instance)[0].drift) == [0] * clients.d
        clients.c[-1][0] += Fraction(1, 10)
        clients.Deltas = [clients.Delta(C, clients.theta) for C in clients.cohorts]
        assert clients.motion()[0] != 0


# --- conditions ---------------------------------------------------------------------------------
@each(("words", "kind", "data", "holds"), worked.EDGES)
def test_a_condition_holds_up_to_its_limit(words, kind, data, holds):
    assert BUILDERS[kind](data).has(ASKED[words]) == holds


@pytest.mark.parametrize("instance", worked.FACTS)
def test_what_a_worked_instance_is(instance):
    (kind, _), (view, _) = worked.INSTANCES[instance], both(instance)
    asked = {need for f in STATED.values() if f.kind == kind for need in f.needs}
    assert {fact for fact in asked if view.has(fact)} == worked.FACTS[instance]


def test_every_condition_has_an_edge():
    """An instance on which it holds, and one on which it does not."""
    seen = {(words, holds) for words, _, _, holds in worked.EDGES}
    for instance, facts in worked.FACTS.items():
        kind = worked.INSTANCES[instance][0]
        seen |= {(n, n in facts) for f in STATED.values() if f.kind == kind for n in f.needs}
    assert {(words, holds) for words in ASKED for holds in (True, False)} - seen == set()
