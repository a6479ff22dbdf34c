"""Judgements of two sides, by hand: every tolerance from both sides, and the worst entry."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction as Q
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from fedtheory.theory.judge.check import Check, in_words, judge, judge_statistical, judge_view, judge_worst
from fedtheory.theory.judge.series import MOST, keeping, with_horizon
from fedtheory.theory.judge.statement import Form, Sides, Statement, Worst, le

TOLD = {"statement": "p/s", "form": "printed", "rule": "any"}


def sides(lhs, rhs, scale, noise=0.0, axes=(), relation="<="):
    made = (np.asarray(a) for a in (lhs, rhs, scale))
    return Sides(*made, relation, noise, axes, ())


def exact(*given, **more):
    return judge(sides(*given, **more), mode="exact", **TOLD)


def sampled(lhs, rhs, scale, noise=0.0, confidence=0.9, stages=1):
    made = sides(np.asarray(lhs, float), np.asarray(rhs, float), np.asarray(scale, float), noise)
    return judge_statistical(made, confidence, stages, mode="statistical", **TOLD)


def spread(mean, width):
    """Four scenarios of that mean whose standard error is ``width``."""
    return mean + width * math.sqrt(3) * np.array([-1.0, 1.0, -1.0, 1.0])


# --- floats that are known up to rounding ---------------------------------------------------------
@pytest.mark.parametrize("scale", [2.0, 2000.0])
def test_rounding_is_a_billionth_of_the_size(scale):
    for factor, verdict in ((0.96, "holds"), (1.04, "violated")):
        assert exact([1.0 + factor * 1e-9 * scale], [1.0], [scale]).verdict == verdict
    assert exact([0.0], [0.0], [0.0]).verdict == "holds"


def test_noise_is_added_to_it_entry_by_entry():
    assert exact([2.0, 0.0], [1.0, 0.0], [0.0, 0.0], noise=np.array([1.0, 0.0])).verdict == "holds"
    found = exact([2.0, 0.0], [1.0, 0.0], [0.0, 0.0], noise=np.array([0.99, 2.0]))
    assert found.verdict == "violated" and found.where["index"] == [0]


def test_the_worst_entry_is_the_least_by_its_size_and_noise():
    found = exact([0.0, 0.0], [1.0, 2.0], [1.0, 1.6], noise=np.array([3.0, 0.0]))
    assert found.where["index"] == [0] and found.slack == 0.25 and (found.lhs, found.rhs) == (0.0, 1.0)
    assert found.count == 2
    assert exact([0.0, 0.0], [1.0, 2.0], [1.0, 8.0]).where["index"] == [1]


def test_what_is_not_finite_is_named():
    for lhs, rhs in (([1.0, np.inf], [1.0, 1.0]), ([1.0, 1.0], [1.0, np.nan])):
        found = exact(lhs, rhs, [1.0, 1.0])
        assert found.verdict == "inconclusive" and found.reason == "a side is not finite (entry 1)"


def test_the_share_is_the_largest_where_the_bound_is_a_millionth_of_the_size():
    assert exact([0.25, 1.0, -1.0], [1.0, 2.0, 2.0], [2.0, 2.0, 2.0]).tightness == 0.5
    assert exact([1.05e-6], [2.1e-6], [2.0]).tightness == pytest.approx(0.5)
    for bound in (1.9e-6, 2e-6):
        assert math.isnan(exact([bound / 2], [bound], [2.0]).tightness)
    assert math.isnan(exact([1.0], [1.0], [1.0], relation="==").tightness)


def test_axes_are_told_where_every_one_has_a_name():
    assert exact([0.0], [1.0], [1.0], axes=("client",)).where == {"index": [0], "axes": ["client"]}
    assert "axes" not in exact([0.0], [1.0], [1.0], axes=("state", "client")).where
    assert exact(0.0, 1.0, 1.0).where == {"index": []}


# --- fractions ------------------------------------------------------------------------------------
def rational(lhs, rhs, scale):
    made = (np.array([Q(v) for v in part], dtype=object) for part in (lhs, rhs, scale))
    return judge(Sides(*made, "<=", 0, (), ()), mode="rational", **TOLD)


def test_a_whole_number_stands_beside_fractions():
    for lhs, terms, holds in ((2, (Q(3, 2), 1), True), (3, (Q(3, 2), 1), False), (Q(5, 2), (3,), True), (Q(7, 2), (3,), False)):
        check = judge(le(lhs, *terms), **TOLD)
        assert (check.verdict, check.mode) == ("holds" if holds else "violated", "rational")
    assert judge(le(np.array([1, 4]), np.array([Q(3, 2), Q(7, 2)])), **TOLD).verdict == "violated"


def test_fractions_leave_nothing_to_rounding():
    tiny = Q(1, 10**30)
    found = rational([0, 1 + tiny], [1, 1], [1, 5])
    assert found.verdict == "violated" and found.where["index"] == [1]
    assert found.slack == pytest.approx(-2e-31, abs=0)
    held = rational([0, 1], [0, 1], [0, 2])
    assert (held.verdict, held.slack, held.tightness) == ("holds", 0.0, 1.0)


def test_shares_of_fractions_need_a_bound_of_a_trillionth_of_the_largest_size():
    for factor, share in (("2.1", 0.5), ("1.9", -1.0)):
        r = Q(factor) / 10**12
        assert rational([-1, r / 2], [1, r], [2, 3 * r / 2]).tightness == pytest.approx(share)


# --- scenarios ------------------------------------------------------------------------------------
@pytest.mark.parametrize(("looks", "stages", "confidence"), [(1, 1, 0.9), (3, 1, 0.95), (2, 5, 0.99)])
def test_the_interval_is_students_and_its_error_is_shared(looks, stages, confidence):
    z = stats.t.ppf(1 - (1 - confidence) / (looks * stages), 3)
    for factor, verdict in ((0.98, "holds"), (1.02, "inconclusive")):
        rhs = np.array([spread(1.0, factor / z)] * looks)
        found = sampled(0 * rhs, rhs, 0 * rhs + 1, confidence=confidence, stages=stages)
        assert found.verdict == verdict and bool(found.reason) == (verdict == "inconclusive")
        assert found.standard_error == pytest.approx(factor / z) and found.count == looks
        assert (found.scenarios, found.confidence) == (4, confidence)
    for factor, verdict in ((0.98, "violated"), (1.02, "inconclusive")):
        rhs = np.array([spread(-1.0, factor / z)] * looks)
        assert sampled(0 * rhs, rhs, 0 * rhs + 1, confidence=confidence, stages=stages).verdict == verdict


def test_what_scenarios_are_given_for_rounding_and_noise():
    flat = np.ones((1, 4))
    for short, verdict in ((0.96, "holds"), (1.04, "violated")):
        assert sampled(short * 1e-9 * 8 * flat, 0 * flat, 8 * flat).verdict == verdict
    assert sampled(0.5 * flat, 0 * flat, 0 * flat, noise=0.5).verdict == "holds"  # just within
    assert sampled(0.5 * flat, 0 * flat, 0 * flat, noise=np.array([[0.1], [0.5]])).verdict == "holds"
    assert sampled(0.5 * flat, 0 * flat, 0 * flat, noise=0.49).verdict == "violated"
    assert sampled(0 * flat, 0.5 * flat, 0 * flat, noise=0.2).verdict == "holds"


def test_the_worst_horizon_is_the_least_by_its_size():
    both = np.ones((2, 4))
    held = sampled(0 * both, [[1.0] * 4, [0.5] * 4], [[4.0] * 4, [1.0] * 4])
    assert held.where["index"] == [0] and held.slack == 0.25 and (held.lhs, held.rhs) == (0, 1)
    failed = sampled([[1.0] * 4, [0.5] * 4], 0 * both, [[4.0] * 4, [1.0] * 4])
    assert failed.where["index"] == [1] and failed.slack == -0.5
    mixed = sampled(0 * both, [[1.0] * 4, spread(0.5, 9.0)], both)
    assert mixed.verdict == "inconclusive" and mixed.where["index"] == [1]


def test_the_share_of_scenarios_is_that_of_their_means():
    flat = np.ones(4)
    assert sampled([0.25 * flat, flat], [flat, 2 * flat], [2 * flat, 2 * flat]).tightness == 0.5
    assert sampled([0.25 * flat, -flat], [flat, 0 * flat], [2 * flat, 2 * flat]).tightness == 0.25
    assert sampled([1.05e-6 * flat], [2.1e-6 * flat], [2 * flat]).tightness == pytest.approx(0.5)
    for bound in (1.9e-6, 2e-6):
        assert math.isnan(sampled([bound / 2 * flat], [bound * flat], [2 * flat]).tightness)


def test_a_scenario_that_diverged_is_named():
    lost, one = np.zeros((2, 4)), np.ones((2, 4))
    lost[1, 2] = np.inf
    for left, right in ((lost, one), (0 * one, lost)):
        found = sampled(left, right, one)
        assert found.verdict == "inconclusive" and found.where["index"] == [1]
        assert "horizon 1, scenario 2" in found.reason
    wide = np.ones((3, 4))
    wide[1] = 1.7e308
    with np.errstate(over="ignore"):
        found = sampled(0 * wide, 0 * wide + 1, wide)
    assert found.verdict == "inconclusive" and "horizon 1," in found.reason


# --- words, views and worst cases -----------------------------------------------------------------
def test_a_place_in_words():
    assert in_words({"T": 4, "index": [2]}, 9) == "T = 4"
    assert in_words({"index": [2]}, 1) == in_words({"index": []}, 5) == ""
    assert in_words({"index": [3]}) == "entry 3 (counted from 0)"
    assert in_words({"index": [3]}, 7) == "entry 3 (counted from 0) of the 7 compared"
    assert in_words({"index": [0, 2], "axes": ["state", "cohort"], "cohort": [1, 4]}, 6) == (
        "state 0, cohort {1, 4} (counted from 0)"
    )
    assert in_words({"index": [0, 2], "axes": ["state", "cohort"]}, 6) == "state 0, cohort 2 (counted from 0)"


def test_defaults_and_strings_of_a_check():
    empty = Check("p/s", "printed", "any", "inconclusive", "exact", reason="nothing")
    assert (empty.standard_error, empty.count, empty.series) == (0.0, 0, None)
    assert str(empty) == "p/s [printed, any rule]: inconclusive (nothing)"
    held = replace(empty, verdict="holds", slack=0.5, series=None)
    assert str(held) == "p/s [printed, any rule]: holds (slack 0.5, exact)"
    full = replace(held, tightness=0.5, lhs=1.0, rhs=2.0)
    assert Check.from_json(full.to_json()) == full and "series" not in full.to_json()
    assert replace(full, series=object()) == full and "series" not in repr(full)
    sure = replace(full, confidence=0.9)
    assert Check.from_json(sure.to_json()) == sure


def made(**fields):
    return Form("printed", "a \\le b", None, {"any": "open"}, **fields)


def test_a_view_gives_its_rule_its_constants_and_its_place():
    statement = SimpleNamespace(id="p/s")
    view = SimpleNamespace(rule="sign", exact=True, printed_constants=lambda: {"kappa": 2},
                           locate=lambda where: where.update(T=7))
    found = judge_view(statement, made(), view, sides=lambda _: le(np.array([0.0]), np.array([1.0])))
    assert (found.rule, found.mode, found.where["kappa"], found.where["T"]) == ("sign", "exact", 2, 7)
    other = judge_view(statement, made(), view, rule="any", sides=lambda _: le(np.array([0.0]), np.array([1.0])))
    assert other.rule == "any"
    flat = SimpleNamespace(rule="sign", exact=False)
    runs = judge_view(statement, made(), flat, sides=lambda _: le(np.zeros((1, 4)), np.ones((1, 4))))
    assert runs.mode == "statistical"
    proved = judge_view(statement, made(symbolic=lambda: True, proves=True), None)
    assert (proved.rule, proved.mode, proved.verdict, proved.count) == ("any", "proved", "holds", 1)


@pytest.mark.parametrize(("share", "verdict"), [(Q(1), "holds"), (Q(3, 4), "holds"), (Q(5, 4), "inconclusive")])
def test_a_worst_case_beside_the_bound(share, verdict):
    statement = Statement("p/s", "title", "source", "round", (), assumptions=("none",))
    worst = Worst(at="everybody", share=lambda: share)
    [found] = judge_worst(statement, made(worst=worst))
    assert (found.verdict, found.tightness, found.lhs) == (verdict, float(share), float(share))
    assert (found.rhs, found.slack, found.count) == (1.0, float(1 - share), 1)


# --- what is kept for a picture -------------------------------------------------------------------
def kept(made):
    with keeping():
        return judge(made, mode="exact", **TOLD).series


def test_nothing_is_kept_without_being_asked():
    assert exact([0.0], [1.0], [1.0]).series is None


def test_the_terms_of_a_bound_are_kept_where_they_are_two_to_six():
    one = np.ones(2)
    assert kept(le(0 * one, one)).terms is None
    for count in (2, 6):
        np.testing.assert_array_equal(kept(le(0 * one, *[one] * count)).terms, np.ones((count, 2)))
    assert kept(le(0 * one, *[one] * 7)).terms is None
    equal = replace(le(0 * one, one, one), relation="==")
    assert kept(equal).terms is None


def test_up_to_where_a_side_is_nothing():
    unit, scale = 4 * 2.0**-52, np.array([1.0, 8.0])
    for noise, floor in ((0.5, 0.5), (np.array([0.25, 0.5]), [0.25, 0.5]), (np.array([[0.25, 0.5]]), 0.5)):
        one = kept(sides(np.zeros(2), np.ones(2), scale, noise)) if np.ndim(noise) < 2 else None
        if one is not None:
            np.testing.assert_allclose(one.floor, floor + unit * scale, rtol=1e-15)
    fractions = np.array([Q(1), Q(2)], dtype=object)
    with keeping():
        exactly = judge(Sides(fractions, fractions, fractions, "<=", 0, (), ()), mode="rational", **TOLD).series
    np.testing.assert_array_equal(exactly.floor, [0.0, 0.0])


def test_entries_are_named_by_the_axes_that_are_longer_than_one():
    grid = np.zeros((1, 2, 3))
    found = kept(sides(grid, grid + 1, grid + 1, axes=("state", "client", "coordinate")))
    assert found.axes == ("client", "coordinate") and found.index.shape == (6, 2) and found.total == 6
    assert found.where(5) == "client 1, coordinate 2"
    single = kept(sides([0.0], [1.0], [1.0]))
    assert single.where(0) == "" and single.index.shape == (1, 0) and single.quantile == 0.0


def test_scenarios_are_averaged_with_their_errors():
    lhs, rhs = np.array([spread(1.0, 0.5)]), np.array([spread(3.0, 0.5)])
    with keeping():
        found = judge_statistical(
            replace(le(lhs, rhs), axes=()), 0.9, mode="statistical", **TOLD
        ).series
    assert (found.lhs[0], found.rhs[0]) == pytest.approx((1.0, 3.0)) and found.total == 1
    assert found.lhs_error[0] == pytest.approx(0.5) and found.slack_error[0] == pytest.approx(0.0, abs=1e-12)
    assert found.quantile == pytest.approx(stats.t.ppf(0.9, 3))


def test_of_many_entries_the_tightest_half_is_kept_and_others_evenly():
    n = 10 * MOST
    assert MOST == 2000 and len(kept(sides(np.zeros(MOST), np.ones(MOST), np.ones(MOST))).lhs) == MOST
    slack = np.arange(n, dtype=float)[::-1].copy()
    slack[[7, 11]] = -5.0  # the first that fails lies among the loosest by place
    found = kept(sides(0 * slack, slack, 0 * slack + 1))
    at = found.index[:, 0]
    assert found.total == n and len(at) <= MOST + 2 and {7, 11, n - 1} <= set(at)
    order = np.argsort(slack, kind="stable")
    assert set(order[: MOST // 2]) <= set(at)
    rest = order[MOST // 2 :]
    evenly = rest[np.round(np.linspace(0, len(rest) - 1, MOST // 2)).astype(int)]
    assert set(evenly) <= set(at) <= set(evenly) | set(order[: MOST // 2]) | {7, n - 1}


def test_the_first_that_fails_and_the_last_that_holds_are_kept():
    n = 3 * MOST
    slack = np.full(n, -1.0)
    slack[:12], slack[9:13] = 1.0, (0.5, 0.6, 0.4, -1e-3)  # 11 holds last, 12 fails first
    at = kept(sides(0 * slack, slack, 0 * slack + 1)).index[:, 0]
    order = np.argsort(slack, kind="stable")
    rest = order[MOST // 2 :]
    evenly = rest[np.round(np.linspace(0, len(rest) - 1, MOST // 2)).astype(int)]
    assert not {11, 12} & set(evenly) and {11, 12} <= set(at) and len(at) == MOST + 2


def test_the_noise_of_scenarios_is_the_largest():
    flat = np.ones((1, 4))
    with keeping():
        given = sides(0 * flat, flat, 0 * flat, np.array([[0.1, 0.4, 0.2, 0.3]]))
        found = judge_statistical(given, 0.9, mode="statistical", **TOLD).series
    np.testing.assert_array_equal(found.floor, [0.4])


def test_horizons_come_from_the_view_where_there_is_one_for_each_entry():
    line = kept(sides(np.zeros(3), np.ones(3), np.ones(3)))
    rounds = kept(sides(np.zeros(3), np.ones(3), np.ones(3), axes=("round",)))
    assert with_horizon(rounds, SimpleNamespace()).where(2) == "round = 2"
    assert with_horizon(line, SimpleNamespace()) is line and line.where(2) == "entry 2"
    assert with_horizon(line, SimpleNamespace(horizons=[2, 4, 8])).where(2) == "T = 8"
    assert with_horizon(line, SimpleNamespace(horizons=[2, 4, 8], horizon="K")).where(0) == "K = 2"
    assert with_horizon(line, SimpleNamespace(horizons=[2, 4])) is line
    grid = kept(sides(np.zeros((2, 3)), np.ones((2, 3)), np.ones((2, 3))))
    assert with_horizon(grid, SimpleNamespace(horizons=range(6))) is grid
    single, pair = (kept(sides(np.zeros(k), np.ones(k), np.ones(k))) for k in (1, 2))
    assert with_horizon(single, SimpleNamespace(horizons=[5])).where(0) == "T = 5"
    assert pair.where(1) == "entry 1"
