"""Witnesses that a search found, with simpler numbers: the same claim, at least half as far from holding, found again alike."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from repository import ROOT

from fedtheory.rational import complexity
from fedtheory.theorems import get
from fedtheory.theory.judge import registry
from fedtheory.theory.judge.search import Tape, Target
from fedtheory.theory.judge.shrink import simpler
from fedtheory.theory.judge.statement import le


@pytest.fixture
def paper():
    (found,) = registry.load_file(ROOT / "examples" / "own_world.py")
    return found


def test_every_number_becomes_as_simple_as_it_may_be():
    data = {"a": ["355/113", "-7/9"], "n": 12, "of": {"b": "3/2"}, "kind": "st", "cohorts": [True, 3]}

    def keeps(d):
        if len(d["a"]) != 2 or len(d["cohorts"]) != 2:
            return False
        near, below = map(Fraction, d["a"])
        return abs(near - 3) < 1 and below < 0 and d["n"] > 4 and d["cohorts"][1] == 3

    small = simpler(data, keeps)
    assert small == {"a": ["3", "-1"], "n": 5, "of": {"b": "0"}, "kind": "st", "cohorts": [True, 3]}
    assert data["a"] == ["355/113", "-7/9"], "what was given is left as it is"


def test_an_entry_leaves_all_lists_of_its_length():
    data = {"h": ["1", "7/3", "5"], "c": ["0", "1", "9"], "start": ["1", "2"], "of": {"w": [["1"], ["2"], ["3"]]}}

    def keeps(d):
        clients = {len(d["h"]), len(d["c"]), len(d["of"]["w"])}
        return len(clients) == 1 and Fraction(7, 3) in map(Fraction, d["h"]) and len(d["start"]) == 2

    assert simpler(data, keeps) == {"h": ["7/3"], "c": ["0"], "start": ["0", "0"], "of": {"w": [["0"]]}}


def test_nothing_changes_where_nothing_may_and_trials_are_counted():
    data, asked = {"a": "22/7", "n": 9}, []
    assert simpler(data, lambda d: bool(asked.append(d))) == data and len(asked) > 5
    seen = len(asked)
    asked.clear()
    assert simpler(data, lambda d: bool(asked.append(d)), trials=seen - 2) == data and len(asked) == seen - 2


def size(data):
    return sum(complexity(Fraction(v)) for values in data.values() for v in values)


def test_a_counterexample_of_a_search_is_shrunk_and_still_proves_it(paper):
    statement, setting = paper.statements[0], paper.setting
    for seed in range(6):
        at = setting.random_instance("clients", Tape(np.random.default_rng([seed, 1]).random(64)))
        target = Target(statement, statement.form("printed"), "any", statement.form("printed").sides, margin_at=at)
        found, excess = setting.proved(target)
        if found is None:  # one client, or curvatures that do not matter
            assert at.view().mean_c == at.view().x_star and excess <= 0
            continue
        _, lhs, rhs, scale = setting.exact_check(statement, replace(found, data=at.data))
        check, small_lhs, small_rhs, small_scale = setting.exact_check(statement, found)
        assert check.verdict == "violated" and (found.lhs, found.rhs) == (str(small_lhs), str(small_rhs))
        assert excess == pytest.approx(float((lhs - rhs) / scale))
        assert 2 * (small_lhs - small_rhs) / small_scale >= (lhs - rhs) / scale
        assert size(found.data) < size(at.data) and set(found.data["x"]) == {"0"}, "the models do not matter there"
        assert setting.proved(target) == (found, excess) and "shrunk" in found.found_by["search"]


def test_what_no_view_is_made_from_is_no_violation(paper):
    statement, (found, _) = paper.statements[0], paper.setting.proved(_target(paper))
    assert paper.setting._violation(statement, found) > 0
    for data in ({"h": ["0"], "c": ["1"], "x": ["1"]}, {"h": ["1"]}, {"h": ["1"], "c": [["1"]], "x": ["1"]}):
        assert paper.setting._violation(statement, replace(found, data=data)) is None


def test_a_violation_in_floats_that_fractions_deny_is_not_found(paper, monkeypatch):
    """The form holds with equality; its sides in floats are pushed apart by what nothing bounds."""
    setting, statement = paper.setting, paper.statements[0]
    holds = replace(
        statement.form("printed"), established={"any": "holds"}, mutants=(),
        sides=lambda v: le(v.x_star, v.x_star, noise=0) if v.exact else le(v.x_star + 1, v.x_star),
    )  # fmt: skip
    changed = replace(statement, forms=(holds,))
    drawn = setting.random_instance

    class InFloats:
        def __init__(self, instance):
            self.instance, self.data, self.kind = instance, instance.data, instance.kind

        def view(self):
            seen = self.instance.view()
            object.__setattr__(seen, "exact", False)
            return seen

        def to_json(self):
            return self.data

    monkeypatch.setattr(setting, "random_instance", lambda kind, rng: InFloats(drawn(kind, rng)))
    [result] = setting.run_search(("clients",), [changed], 100, 0)
    assert result.best > 0.1 and result.witness is None
    assert result.exact_best == 0 and result.empty


def _target(paper):
    statement = paper.statements[0]
    for k in range(50):
        at = paper.setting.random_instance("clients", np.random.default_rng(k))
        if at.view().mean_c != at.view().x_star:
            return Target(statement, statement.form("printed"), "any", statement.form("printed").sides, margin_at=at)
    raise LookupError("no violation among fifty")


def test_a_search_of_the_packages_own_room_shrinks_what_it_finds():
    statement = get("elastic-aggregation/factors")
    setting = registry.setting_of(statement)
    found = setting.search(statement, statement.form("printed"), "any", 40, 3)
    _, lhs, rhs, _ = setting.exact_check(statement, found.witness)
    assert lhs > rhs and size_of(found.witness.data) <= size_of(found.best_instance["data"])


def size_of(value):
    if isinstance(value, dict | list):
        return sum(map(size_of, value.values() if isinstance(value, dict) else value))
    return len(str(value))


@pytest.mark.parametrize(
    "old, keeps, new",
    [
        ("900000", lambda x: x > 9, "10"),
        ("1/700", lambda x: 0 < x < Fraction(1, 9), "1/10"),
    ],
)
def test_a_power_of_ten_takes_the_place_of_a_large_number(old, keeps, new):
    assert simpler({"x": old}, lambda data: keeps(Fraction(data["x"]))) == {"x": new}
