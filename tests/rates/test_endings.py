"""A run that ends above its start, or stops making progress, is said to."""

import json

import numpy as np
import pytest
from command_line import call

from fedtheory.errors import InvalidInput
from fedtheory.rates import how_it_ended

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
    stalls = how_it_ended(0.3 + 0.7 * 0.8**T)
    assert stalls.startswith("It has all but stopped") and "over the last 50 rounds" in stalls


def test_the_least_fall_that_counts_as_progress():
    falls = np.where(T <= 50, 1.0, 0.91)
    falls[0] = 2.0
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
    assert json.loads((tmp_path / "run-efl-diabetes.json").read_text())["ended"].startswith("It does not converge")
    fine = call("run", "scaffold", "diabetes", "--no-figures", "--out", tmp_path)
    assert "It " not in fine.stdout and json.loads((tmp_path / "run-scaffold-diabetes.json").read_text())["ended"] == ""


def test_what_counts_as_an_end_from_both_sides():
    """Rounds 0 to 50 are the first half of 101, and a tenth is asked of the second."""
    for after, moves in ((0.9, True), (0.901, False), (0.895, True)):
        gaps = np.where(T <= 50, 2.0, 2 * after)
        assert (how_it_ended(gaps) == "") is moves
    assert "fell by only 9 %" in how_it_ended(np.where(T <= 50, 0.02, 0.0182))
    early, late = np.ones(101), np.ones(101)
    early[50:], early[50], late[51] = 0.8, 0.5, 0.5
    assert how_it_ended(early).startswith("It does not converge") and how_it_ended(late) == ""
    assert how_it_ended([1.0] * 4) == "" and how_it_ended([1.0] * 5).startswith("It does not conv")
    assert how_it_ended([1.0, 0.5, 1.0]) == "" and how_it_ended([1.0, 2.0]).startswith("It ends above")
    assert how_it_ended([1e-9, 2e-9], floor=2e-9) == "" == how_it_ended([3.0])
