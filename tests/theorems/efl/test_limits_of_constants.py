"""Where a given constant stops being a bound, and a law stops being one: at the limit itself and just beyond it."""

from __future__ import annotations

from fractions import Fraction as Q

import numpy as np
import pytest

from fedtheory.errors import InvalidInput
from fedtheory.theorems.efl.quantities.compressed_participation import cases_of
from fedtheory.theorems.efl.quantities.exact_run import exact_oracles, laws_of, quadratic_run, round_laws
from fedtheory.theorems.efl.quantities.run import gamma_of, given_bounds, given_curvatures

TWO = {
    "weights": ["3/8", "5/8"], "h": [["3/7", "5/3"], ["5/2", "6/5"]], "c": [["3/2", "-2/3"], ["-5/4", "7/3"]],
    "noise": [["1/2", "2/3"], ["3/5", "1/3"]],
}  # fmt: skip
LAWS = [[["0", "1/2", "1/2"], ["1/3", "0", "2/3"]]]


def test_given_curvatures():
    assert given_curvatures({}, 2.5, 0.4) == (2.5, 0.4)
    assert given_curvatures({"L": 2.5, "mu": 0.4}, 2.5, 0.4) == (2.5, 0.4)
    assert given_curvatures({"L": 3.5, "mu": 0.3}, 2.5, 0.4) == (3.5, 0.3)
    assert given_curvatures({"L": 2.5 * (1 - 1e-13), "mu": 0.4 * (1 + 1e-13)}, 2.5, 0.4)[1] > 0.4  # rounding is let pass
    with pytest.raises(InvalidInput, match=r"L = 2.49\d+ is below a client's smoothness 2.5 .* give at least that"):
        given_curvatures({"L": 2.5 * (1 - 1e-11)}, 2.5, 0.4)
    for mu in (0.4 * (1 + 1e-11), 0.0, -1.0):
        with pytest.raises(InvalidInput, match=r"mu = .* is not in \(0, 0.4\]"):
            given_curvatures({"mu": mu}, 2.5, 0.4)


def test_given_bounds():
    assert given_bounds({}, 3) == (None, None)
    assert given_bounds({"G": 0}, 3)[0] == 0
    for given, expected in ((0.5, [0.5] * 3), ([0.5], [0.5] * 3), ([0, 1.5, 2], [0, 1.5, 2])):
        G, sigma_sq = given_bounds({"sigma_sq": given}, 3)
        assert G is None and sigma_sq.tolist() == expected
    for given in ([0.5, 0.5], -0.1, [[0.5, 0.5, 0.5]]):
        with pytest.raises(InvalidInput, match="one finite number >= 0, or one for each of the 3 clients"):
            given_bounds({"sigma_sq": given}, 3)
    with pytest.raises(InvalidInput):
        given_bounds({"G": -1e-9}, 3)


def test_a_round_in_which_nobody_is_active():
    with pytest.raises(InvalidInput, match=r"S_1 = E\[sum p s\] = 0"):
        gamma_of(3, Q(3), Q(5, 2), Q(3, 7), [Q(2), Q(0), Q(1)])
    assert gamma_of(3, Q(3), Q(5, 2), Q(3, 7), [Q(2), Q(1, 9)]) == 32 * 3 * 4 * Q(5, 2) / (Q(3, 7) * Q(1, 9))


def test_given_bounds_of_gradients_must_bound_them():
    oracles = exact_oracles(TWO)
    rounds = round_laws("C", laws_of(LAWS, 2), 2, oracles.weights)
    w0 = np.array([Q(7, 3), Q(-5, 2)], dtype=object)
    c = quadratic_run(oracles, rounds, w0).constants
    floats = [float(c.G_sq) ** 0.5, np.array([float(v) for v in c.sigma_sq])]
    made = quadratic_run(oracles, rounds, w0, given={"G": floats[0] * 1.25, "sigma_sq": floats[1]}).constants
    assert (made.G_sq, made.sigma_sq.tolist()) == ((floats[0] * 1.25) ** 2, floats[1].tolist())
    assert made.how["G_sq"] == made.how["sigma_sq"] == "given, and a bound" and "given" not in made.how["L, mu"]
    assert quadratic_run(oracles, rounds, w0, given={"L": 4.0}).constants.how["L, mu"] == "given, and bounds"
    with pytest.raises(InvalidInput, match=r"G = .* is no bound .*: the largest E\|\|g\|\|\^2 is .*: give a larger G"):
        quadratic_run(oracles, rounds, w0, given={"G": floats[0] * (1 - 1e-9)})
    with pytest.raises(InvalidInput, match=r"of client 1 is no bound .*: give at least that"):
        quadratic_run(oracles, rounds, w0, given={"sigma_sq": floats[1] * [1, 1 - 1e-9]})


def test_data_of_no_run():
    for change, said in (
        ({"weights": ["3/8", "1/2"]}, "weights sum to 7/8"), ({"weights": ["0", "1"]}, "must be > 0"),
        ({"weights": ["1"]}, "expected"), ({"c": [["1"], ["2"]]}, "expected"), ({"common": 1}, "write true"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=said):
            exact_oracles({**TWO, **change})
    for law in ([["1/2", "1/2"]], [["1"], ["1"]], [["-1/2", "3/2"], ["0", "1"]], [["1/2", "1/3"], ["0", "1"]]):
        with pytest.raises(InvalidInput):
            laws_of([law], 2)
    assert laws_of([[["0", "1"], ["1/2", "1/2"]]], 2)[0].shape == (2, 2)
    w = exact_oracles(TWO).weights
    kinds = round_laws("C", laws_of([LAWS[0], [["0", "0", "1"]] * 2], 2), 6, w, every=3)
    assert [kind is kinds[2] for kind in kinds] == [False, False, True, False, False, True]


def test_the_cases_of_one_round():
    """1296 = 6^4 cases are gone through, and not one more; who sends is who makes a step."""
    law = np.array([[Q(1, 6)] * 6] * 4, dtype=object)
    weights = np.array([Q(1, 4)] * 4, dtype=object)
    cases = cases_of("C", law, weights)
    assert len(cases.steps) == 1296 and set(cases.pi) == {Q(5, 6)} and sum(cases.chance) == 1
    five, fifth = np.array([*law, [Q(0)] * 4 + [Q(1, 2)] * 2], dtype=object), np.array([Q(1, 5)] * 5, dtype=object)
    with pytest.raises(InvalidInput, match="2592 cases in one round: at most 1296"):
        cases_of("C", five, fifth)
    with pytest.raises(InvalidInput, match="client 1 never sends anything"):
        _ = cases_of("C", np.array([[Q(0), Q(1)], [Q(1), Q(0)]], dtype=object), weights[:2] * 2).pi
