"""A run that ends above its start, or stops making progress, is said to."""

import json

import numpy as np
import pytest
from command_line import call

from fedtheory.errors import InvalidInput
from fedtheory.rates import how_it_ended
from fedtheory.rates.endings import ending

T = np.arange(101)


@pytest.mark.parametrize("power", [0.3, 0.5, 1.0, 2.0])
def test_a_power_law_makes_progress(power):
    assert how_it_ended((1.0 + T) ** -power) == ""


def test_linear_convergence_down_to_the_floor_is_an_end():
    gaps = np.maximum(0.5**T, 1e-12) * (1 + 0.5 * (-1.0) ** T)
    assert how_it_ended(gaps, floor=2e-12) == ""
    assert "1.5e-12" in how_it_ended(gaps, floor=0), "without a floor the same run has stopped"


def test_the_words_name_the_numbers():
    above = how_it_ended([1.0, 0.5, 0.25, 2.0])
    assert above.startswith("It ends above where it began") and "2 after round 3" in above and "0.25, after round 2" in above
    wanders = how_it_ended(0.3 + 0.1 * np.cos(T) + 0.5 * (T == 0) - 0.3 * (T == 7))
    assert wanders.startswith("It does not converge in these rounds") and "after round 7" in wanders
    stalls = how_it_ended(0.3 + 0.7 * 0.93**T)
    assert stalls.startswith("It has all but stopped") and "over the last 50 rounds" in stalls


def test_the_least_fall_that_counts_as_progress():
    falls = np.where(T <= 50, 1.0, 0.91)
    falls[[0, -1]] = 2.0, 0.95  # it is not at rest
    assert "fell by only 9 %" in how_it_ended(falls)
    assert how_it_ended(np.where(T <= 50, falls, 0.89)) == ""


def test_the_mean_over_scenarios_is_judged():
    gaps = np.stack([2.0 - 0.01 * T, 1 + 0.1 * T], axis=1)
    assert how_it_ended(gaps[:, 0]) == "" and how_it_ended(gaps).startswith("It ends above")


@pytest.mark.parametrize("gaps", [[], [1.0, np.nan], [1.0, np.inf]])
def test_what_has_no_end_is_refused(gaps):
    with pytest.raises(InvalidInput, match="finite"):
        how_it_ended(gaps)


def test_run_says_it_and_so_do_its_files(tmp_path):
    compressed = ("run", "efl", "diabetes", "--compressor", "st:q=0.1", "--down-compressor", "st:q=0.1", "--out", tmp_path)
    result = call(*compressed, "--no-figures")
    assert "It does not converge in these rounds" in " ".join(result.stdout.split())
    assert json.loads(next(tmp_path.glob("run-efl-diabetes-*.json")).read_text())["ended"].startswith("It does not converge")
    fine = call("run", "scaffold", "diabetes", "--no-figures", "--out", tmp_path)
    assert "It " not in fine.stdout and json.loads((tmp_path / "run-scaffold-diabetes.json").read_text())["ended"] == ""


def test_what_counts_as_an_end_from_both_sides():
    """Rounds 0 to 50 are the first half of 101, and a tenth is asked of the second."""
    for after, moves in ((0.9, True), (0.901, False), (0.895, True)):
        gaps = np.where((T <= 50) | (T == 99), 2.0, 2 * after)
        assert (how_it_ended(gaps) == "") is moves
    assert "fell by only 9 %" in how_it_ended(np.where((T <= 50) | (T == 99), 0.02, 0.0182))
    early, late = np.ones(101), np.ones(101)
    early[50:], early[50], late[51], early[99] = 0.8, 0.5, 0.5, 0.9
    assert how_it_ended(early).startswith("It does not converge") and how_it_ended(late) == ""
    assert how_it_ended([1.0] * 4) == "" and how_it_ended([1.0] * 5).startswith("It does not conv")
    assert how_it_ended([1.0, 0.5, 1.0]) == "" and how_it_ended([1.0, 2.0]).startswith("It ends above")
    assert how_it_ended([1e-9, 2e-9], floor=2e-9) == "" == how_it_ended([3.0])


def test_a_run_at_rest_has_converged_beside_the_optimum():
    rests = 0.3 + 0.7 * 0.8**T
    assert ending(rests) == "rests"
    assert how_it_ended(rests) == (
        "It has converged beside the optimum, at F(x) - F* = 0.3, to four digits over the last 9 rounds."
    )
    assert how_it_ended(0.3 + 0.7 * 0.93**T).startswith("It has all but stopped"), "two digits stand"
    slow = 1 - 1e-9 * T
    assert ending(slow) == "stopped", "eight digits stand, and it goes on as it began"
    assert how_it_ended(np.full(101, 2.0)).startswith("It rests where it began, beside the optimum")
    assert ending(rests[:9]) == "moves" and ending(0.5**T, floor=1e-20) == "reached"


def test_drift_is_named_where_a_step_along_the_gradient_would_lower_f():
    rests = 0.3 + 0.7 * 0.8**T
    assert how_it_ended(rests, descent=0.02).endswith("0.3: local steps on unlike clients end there (drift).")
    varies = float(np.ptp(rests[-10:]))
    assert "drift" in how_it_ended(rests, descent=1001 * varies) and "drift" not in how_it_ended(rests, descent=999 * varies)


def test_run_names_drift_where_it_is(tmp_path):
    small = ("quadratic", "--clients", 3, "--dimension", 2, "--no-figures", "--out", tmp_path)
    drifts = " ".join(call("run", "fedavg", *small).stdout.split())
    assert "It has converged beside the optimum" in drifts and "local steps on unlike clients end there (drift)" in drifts
    weighed = call("run", "fedelasticnet-prox", *small, "--l1", 0.01, "--l2", 1, "--rounds", 200)
    rests = " ".join(weighed.stdout.split())
    assert "beside the optimum" in rests and "(drift)" not in rests
    assert "beside" not in call("run", "fedavg", *small, "--local-steps", 1).stdout
