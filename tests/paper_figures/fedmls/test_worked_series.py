"""Series of rounds to epsilon, worked a second time: verdicts, the best of several, and where they
change places."""

from __future__ import annotations

import math

import pytest

from fedtheory.errors import InvalidInput
from fedtheory.rates import Slope, fit_slope
from paper_figures.fedmls.rates.series import Series, best_of, crossovers


@pytest.mark.parametrize(
    "ends, verdict",
    [
        ((-0.749, -0.6), "better than 1/eps"), ((-0.751, -0.749), "1/eps"),
        ((-1.89, -1.11), "between the two"), ((-1.91, -1.8), "1/eps^2"), ((-1.2, -1.09), "1/eps"),
        ((-0.75, -0.6), "1/eps"), ((-1.9, -1.2), "1/eps^2"), ((-1.8, -1.1), "1/eps"),
    ],
)  # fmt: skip
def test_what_a_series_says_of_its_slope(ends, verdict, monkeypatch):
    """Clear of both exponents by a tenth, better than -1 by a quarter."""
    epsilons = [1e-1, 1e-2, 1e-3, 1e-4]
    fitted = fit_slope(epsilons, [1 / e for e in epsilons], window=(1e-4, 1e-1))
    interval = {"slope": (ends[0] + ends[1]) / 2, "low": ends[0], "high": ends[1]}
    fitted = Slope(**{**vars(fitted), **interval, "standard_error": 1e-4, "dof": 2})
    monkeypatch.setattr("paper_figures.fedmls.rates.series.fit_slope", lambda *a, **k: fitted)
    assert (
        Series("i", "m", "l", "measured", "s", epsilons, [1 / e for e in epsilons]).fit["verdict"]
        == verdict
    )


def test_a_series_is_fitted_over_all_its_epsilons():
    epsilons = [1e-1, 1e-2, 1e-3, 1e-4, 1e-5]
    fit = Series("i", "m", "l", "measured", "s", epsilons, [3 / e for e in epsilons]).fit
    assert (fit["points"], fit["confidence"], fit["verdict"]) == (5, 0.95, "1/eps")


def test_a_series_of_three_points_has_no_slope():
    fit = Series(
        "i", "m", "l", "measured", "s", [0.1, 0.01, 0.001, 1e-4], [10.0, 100.0, 1000.0, math.inf]
    ).fit
    assert fit is None


def test_the_best_of_several_series_and_where_they_change_places():
    def series(label, rounds, role="measured", instance="i"):
        made = Series(instance, label, label, role, "s")
        for epsilon, r in zip([1.0, 0.1, 0.01], rounds, strict=True):
            made.add(epsilon, r, 10 * r, f"at {epsilon}")
        return made

    ours, other, limit = (
        series("a", [1, 8, 50]),
        series("b", [8, 1, 20]),
        series("c", [1, 1, 1], "lower bound"),
    )
    best = best_of("best", [ours, other])
    assert (best.epsilons, best.rounds, best.local_steps) == (
        [1.0, 0.1, 0.01],
        [1, 1, 20],
        [10, 10, 200],
    )
    assert best.details == ["a: at 1.0", "b: at 0.1", "b: at 0.01"] and best.role == "measured"
    theory, away = series("d", [1, 1, 1], "theory"), series("e", [1, 1, 1], instance="j")
    first, second = crossovers([ours, other, limit, theory, away], "a")
    assert first["at"] == pytest.approx([10**-0.5]) and second["at"] == pytest.approx([1.0])
    assert (first["smallest_epsilon"], first["ahead_at_smallest"]) == (0.01, "b")
    assert (first["largest_epsilon"], first["ahead_at_largest"]) == (1.0, "a")
    assert second["ahead_at_largest"] == "equal" and second["role"] == "lower bound"
    for wrong in ([], [ours, away]):
        with pytest.raises(InvalidInput, match="measured on the same instance"):
            best_of("best", wrong)


def test_series_are_compared_where_both_were_measured():
    ours, other, apart = (Series("i", name, name, "measured", "s") for name in "abc")
    for series, epsilons, rounds in (
        (ours, (1.0, 0.1, 0.01), (1, 4, 9)), (other, (10.0, 1.0, 0.01), (0, 4, 3)),
        (apart, (0.5,), (2,)),
    ):  # fmt: skip
        for epsilon, r in zip(epsilons, rounds, strict=True):
            series.add(epsilon, r, math.nan)
    (found,) = crossovers([ours, other, apart], "a")
    assert (found["smallest_epsilon"], found["largest_epsilon"]) == (0.01, 1.0)
    assert (found["ahead_at_smallest"], found["ahead_at_largest"]) == ("b", "a")


def test_local_steps_that_were_not_counted_have_no_slope():
    epsilons = [1e-1, 1e-2, 1e-3, 1e-4, 1e-5]
    steps = [3 / e for e in epsilons[:4]] + [math.nan]
    series = Series("i", "m", "l", "measured", "s", epsilons, [1 / e**2 for e in epsilons], steps)
    assert series.fit_local["points"] == 4 and series.fit_local["verdict"] == "1/eps"
    assert series.fit["points"] == 5 and series.fit["verdict"] == "1/eps^2"
