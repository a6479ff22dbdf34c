"""The figure of every kind of failure, and the columns that it is drawn from."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import stats

from fedtheory.errors import InvalidInput
from fedtheory.testing import (
    ConvergenceFailure,
    assert_bound_holds,
    assert_contraction,
    assert_rate,
    assert_reaches,
    figures,
)

T = np.arange(1, 101)
SEEDS = (1 / T)[:, None] * np.array([0.5, 1.0, 1.5])


def failure(call, *arguments, **options) -> ConvergenceFailure:
    with pytest.raises(ConvergenceFailure) as caught:
        call(*arguments, **options)
    return caught.value


def lines(figure) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The lines of a figure's first panel by what the legend calls them."""
    return {line.get_label(): line.get_data() for line in figure.axes[0].get_lines()}


def test_a_rate_is_drawn_beside_its_claim_and_its_fit():
    found = failure(assert_rate, SEEDS, -2, window=(10, 100), first_round=1)
    drawn = lines(found.plot())
    assert list(drawn) == ["measured", "claimed: x^-2", "fitted: x^-1"]
    np.testing.assert_allclose(drawn["measured"], (T, 1 / T))
    x, claimed = drawn["claimed: x^-2"]
    np.testing.assert_allclose(claimed * x**2, claimed[0] * x[0] ** 2)  # from where the window begins
    assert (x[0], x[-1]) == pytest.approx((10, 100)) and claimed[0] == pytest.approx(0.1)
    table = figures.columns(found.evidence)
    np.testing.assert_allclose([table["low"], table["high"]], [0.5 / T, 1.5 / T])


def test_a_factor_is_drawn_on_a_logarithmic_axis():
    figure = failure(assert_contraction, 0.9**T, 0.8, window=(1, 100), first_round=1).plot()
    assert figure.axes[0].get_yscale() == "log" and figure.axes[0].get_xscale() == "linear"
    x, claimed = lines(figure)["claimed: factor 0.8"]
    np.testing.assert_allclose(claimed, 0.9 * 0.8 ** (x - 1))
    assert "fitted: factor 0.9" in lines(figure)


def test_a_run_that_diverged_is_drawn_up_to_there():
    drawn = lines(failure(assert_rate, np.r_[1.0, 1 / T[:40], np.inf], -1, window=(5, 40)).plot())
    assert drawn["not finite from here on"][0][0] == 41 and len(drawn["measured"][0]) == 40


def test_the_entries_above_a_bound_are_marked():
    bound = np.where(T == 7, 0.1, 2 / T)
    found = failure(assert_bound_holds, 1 / T, bound)
    drawn = lines(found.plot())
    x, y = drawn["above it, or not shown below (1 of 100)"]
    assert (list(x), list(y)) == ([6], [pytest.approx(1 / 7)])
    np.testing.assert_allclose(drawn["bound"][1], bound)
    some = failure(assert_bound_holds, SEEDS, 1.01 / T, confidence=0.9)
    table = figures.columns(some.evidence)
    half = stats.t.isf(0.1 / 100, df=2) * 0.5 / T / np.sqrt(3)  # of the seeds 1/2, 1 and 3/2
    np.testing.assert_allclose([table["low"], table["high"]], [1 / T - half, 1 / T + half])


def test_a_target_is_drawn_with_its_limit(tmp_path):
    found = failure(assert_reaches, 1 / T, 1e-3, within=50)
    drawn = lines(found.plot(tmp_path / "new" / "mine.png"))
    assert drawn["target 0.001"][1] == [1e-3, 1e-3] and drawn["limit 50"][0] == [50, 50]
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == ["mine.csv", "mine.json", "mine.png"]


def test_too_few_points_are_drawn_too():
    for call, options in ((assert_rate, {"window": (3, 5)}), (assert_contraction, {"window": (3, 5)})):
        with pytest.raises(InvalidInput, match="usable") as caught:
            call(1 / T, -1 if call is assert_rate else 0.9, first_round=1, **options)
        drawn = lines(caught.value.plot())
        assert "measured" in drawn and caught.value.evidence["title"] == "No rate could be fitted."


def test_a_failure_crosses_processes():
    found = failure(assert_reaches, 1 / T, 1e-3, within=50)
    again = pickle.loads(pickle.dumps(found))
    assert (str(again), again.title) == (str(found), "Target not reached.") and "target 0.001" in lines(again.plot())


def test_titles_are_the_failures():
    for found in (failure(assert_rate, SEEDS, -2, window=(10, 100), first_round=1), failure(assert_reaches, 1 / T, 1e-3, within=50)):
        figure = found.plot()
        assert any(text.get_text() == found.title for text in figure.texts)


def test_a_target_far_below_the_curve_is_within_the_figure():
    axes = failure(assert_reaches, 2.0 ** np.arange(50), 1e-3, within=40).plot().axes[0]
    assert axes.get_ylim()[0] < 1e-3
