"""FedElasticNet's main text: units, what pi e is enclosed by, and two worked numbers by pencil."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from fedelasticnet_worlds import BUILDERS
from mpmath import mp, mpf

from fedtheory.theorems import get
from fedtheory.theorems.fedelasticnet.statements.messages import PI_E, PI_E_ABOVE

NET = {"lambda1": "3/7", "lambda2": "5/2"}
MIXED = {
    **NET, "H": [["3", "1/2", "-2/3"], ["1/2", "5/2", "1/4"], ["-2/3", "1/4", "4/3"]],
    "q": ["3/2", "-7/3", "5/4"], "theta": ["2/3", "-5/4", "7/2"], "trial": ["-1/2", "4/3", "3"],
    "g": ["7/5", "-2/9", "4/3"],
}  # fmt: skip
THREE = {
    "H": [[["3", "1/2"], ["1/2", "5/2"]], [["2", "-2/3"], ["-2/3", "4/3"]], [["7/5", "0"], ["0", "1/3"]]],
    "q": [["3/2", "-7/3"], ["-5/4", "2"], ["2/9", "7/2"]], "theta": ["2/3", "-5/4"],
    "lambda1": "3/7", "lambda2": "233/2", "beta": "19/5", "counts": ["5", "2", "3"],
}  # fmt: skip
TWINS = {
    "X": [["1", "1"], ["2", "2"]], "y": ["4", "6"], "lambda1": "1", "lambda2": "2",
    "start": ["1", "-1/2"],
    "trial": ["1", "1/3"],
}  # fmt: skip


@pytest.mark.parametrize("with_l1", [True, False])
def test_in_other_units_everything_is_as_many_times_as_large(with_l1):
    """The gap of R, the minimiser and the second term are those of losses and parameters times 5/3."""
    view = BUILDERS["objective"](THREE)
    scaled = view.scaled(F(5, 3), with_l1)
    assert (scaled.star == view.star).all() and scaled.gap == F(5, 3) * view.gap and view.gap > 0
    at = [view.theta] * view.m
    assert (scaled.gradients(at) == F(5, 3) * view.gradients(at)).all()
    assert scaled.floor == view.floor * (
        F(5, 3) if with_l1 else F(3, 5)
    )  # lambda_1^2 over something like lambda_2
    one = BUILDERS["local"](MIXED)
    times = one.scaled(F(5, 3), with_l1)
    assert (
        times.lambda1 == one.lambda1 * (F(5, 3) if with_l1 else 1)
        and (times.pull == F(5, 3) * one.pull).all()
    )
    assert (times.delta == one.delta).all() == with_l1


def real(x: F) -> mpf:
    """A fraction to as many digits as mpmath has."""
    return mpf(x.numerator) / x.denominator


def test_pi_e_is_enclosed():
    mp.dps = 40
    low, high = real(PI_E), real(PI_E_ABOVE)
    assert low < mp.pi * mp.e < high < low * (1 + mpf(10) ** -4)


def test_two_entries_by_pencil():
    """(1) for twins: |y - X theta|^2 = (4 - 3.1)^2 + (6 - 6.2)^2 = 0.85, plus 3.1; the update of (4) from (1, -1/2):

    residuals 4 - 1/2 and 6 - 1, so X'r/2 = (3.5 + 10)/2 = 27/4 for both; (27/4 - 1) = (5/2 + 5/2 + 2) delta, delta = 23/28.
    """
    view = BUILDERS["regression"](TWINS)
    care, update = (get(f"fedelasticnet/{s}").form(f).sides(view).terms for s, f in (
        ("eq-1", "does not care which"), ("grouping-of-updates", "repaired"),
    ))  # fmt: skip
    assert np.ravel(care[0])[0] == F(85, 100) + F(31, 10)
    assert (
        F(27, 4) - 1 == 7 * F(23, 28) and [np.ravel(side)[0] for side in update] == [F(23, 28)] * 2
    )
