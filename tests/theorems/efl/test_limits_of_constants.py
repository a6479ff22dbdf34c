"""Limits of given constants, and of laws: at the limit itself and just beyond it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as Q
from types import SimpleNamespace

import numpy as np
import pytest
from efl_on_a_problem import BUILDERS

from fedtheory import problems
from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput
from fedtheory.theorems.efl.compressed_paths import cases_of, play, signs_of
from fedtheory.theorems.efl.quantities.exact_run import quadratic_run, round_laws
from fedtheory.theorems.efl.quantities.run import FROZEN, gamma_of, given_bounds, given_curvatures
from fedtheory.theorems.efl.quantities.step import EQUAL, StepState, StepsView, reached
from fedtheory.theory.judge.statement import eq, le
from fedtheory.theory.rounds.coefficients import RoundLaw
from fedtheory.theory.rounds.irregular_run import COMMON, exact_oracles, laws_of
from fedtheory.theory.rounds.second_moments import oracles_of, second_moments

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
    for given in ({"G": -1e-9}, {"sigma_sq": "none"}):
        with pytest.raises(InvalidInput, match=f"^{next(iter(given))} "):
            given_bounds(given, 3)
    with pytest.raises(InvalidInput, match=r"^mu "):
        given_curvatures({"mu": "none"}, 2.5, 0.4)


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
    for curvature in ({"L": 4.0}, {"mu": 0.25}):
        assert quadratic_run(oracles, rounds, w0, given=curvature).constants.how["L, mu"] == "given, and bounds"
    with pytest.raises(InvalidInput, match=r"G = .* is no bound .*: the largest E\|\|g\|\|\^2 is .*: give a larger G"):
        quadratic_run(oracles, rounds, w0, given={"G": floats[0] * (1 - 1e-9)})
    with pytest.raises(InvalidInput, match=r"of client 1 is no bound .*: give at least that"):
        quadratic_run(oracles, rounds, w0, given={"sigma_sq": floats[1] * [1, 1 - 1e-9]})


def test_a_bound_that_is_attained_is_one():
    """From the clients' common minimum the gradients of the first step are the noise, 1/4."""
    oracles = exact_oracles({"weights": ["3/8", "5/8"], "h": [["3/7"], ["5/2"]], "c": [["2/3"]] * 2, "noise": [["1/4"]] * 2})
    rounds = round_laws("C", laws_of([[["0", "1"]] * 2], 2), 1, oracles.weights)
    c = quadratic_run(oracles, rounds, oracles.star, given={"G": 0.25, "sigma_sq": 0.0625}).constants
    assert c.G_sq == Q(1, 16) and c.sigma_sq.tolist() == [Q(1, 16)] * 2


def test_data_of_no_run():
    for change, said in (
        ({"weights": ["3/8", "1/2"]}, "weights sum to 7/8"), ({"weights": ["0", "1"]}, "must be > 0"),
        ({"weights": ["1"]}, "expected"), ({"c": [["1"], ["2"]]}, "expected"), ({"common": 1}, "write true"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=said):
            exact_oracles({**TWO, **change})
    for law, said in (
        ([["1/2", "1/2"]], r"a law of shape \(1, 2\): expected \(2, E \+ 1\)"), ([["1"], ["1"]], r"a law of shape \(2, 1\)"),
        ([["-1/2", "3/2"], ["0", "1"]], "entries >= 0 that sum to 1"), ([["1/2", "1/3"], ["0", "1"]], "entries >= 0 that sum to 1"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=said):
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


def test_without_compression_all_paths_have_the_moments_of_the_recursion():
    """The mean over all paths, against the second moments of the same run: E||w_t - w*||^2 and the largest E||g||^2."""
    oracles = exact_oracles({**TWO, "noise": [["0", "0"], ["0", "0"]], "c": [["1/8", "-1/6"], ["1/7", "-1/9"]]})
    law, etas = laws_of([[["0", "1/2", "1/2"], ["1/3", "0", "2/3"]]], 2)[0], [Q(1, 5), Q(1, 7)]
    w0, h, c = np.array([Q(1, 9), Q(-1, 7)], dtype=object), oracles.mean_H.diagonal(axis1=1, axis2=2), oracles.mean_b
    for scheme in ("A", "B", "C", "C-corrected"):
        mass, G_sq, w, R, R_G, *_ = play(
            lambda y: h * y - c, cases_of(scheme, law, oracles.weights), None, None, oracles.weights, w0, etas, 2
        )
        expected = second_moments(oracles, [RoundLaw(EFL(scheme=scheme), law, oracles.weights)] * 2, etas, w0)
        found = [(((w[t] - oracles.star) ** 2).sum(axis=-1) * mass).sum() for t in range(3)]
        assert found == list(expected.distance_sq) and G_sq == expected.G_sq < 1
        assert not R.any() and not R_G.any() and sum(mass) == 1


def test_the_paths_that_are_gone_through():
    """At most 1296 of participation, at most 4096 of the noise: each at the limit and beyond it."""
    one, cases = np.ones(1), cases_of("C", np.full((1, 6), 1 / 6), np.ones(1))
    assert len(play(lambda y: 0 * y, cases, None, None, one, one, [1.0] * 4, 5)[0]) == 1296
    with pytest.raises(InvalidInput, match=r"6\^5 paths: at most 1296 are gone through; take fewer rounds"):
        play(lambda y: 0 * y, cases, None, None, one, one, [1.0] * 5, 5)
    noise = np.array([[Q(1)], [Q(0)], [Q(2)]], dtype=object)  # the second client has none
    signs = signs_of(noise, 2)
    assert signs.shape == (16, 2, 3) and not signs[:, :, 1].any() and len({tuple(row.ravel()) for row in signs}) == 16
    assert len(signs_of(noise, 6)) == 4096
    with pytest.raises(InvalidInput, match=r"2\^14 paths of the noise: at most 4096 are enumerated; take fewer rounds"):
        signs_of(noise, 7)


@pytest.mark.parametrize("kind", ["compressed", "compressed-partial"])
def test_a_side_that_sends_uncompressed_costs_nothing(kind):
    data = {**TWO, "q": "1/2", "down": True, "w0": ["7/3", "-5/2"], "T": 1}
    data = {k: v for k, v in data.items() if k != "noise"} | ({"E": 2} if kind == "compressed" else {"scheme": "C", "law": LAWS[0]})
    view = BUILDERS[kind](data)
    G, d, reach = view.G_sq, view.delta, view.E**2 * view.G_sq * (1 if kind == "compressed" else view.E**2)
    changes = ({}, {"down": None}, {"delta": None}, {"delta": None, "down": None})
    both, up, down, none = (replace(view, **change).rho_sq for change in changes)
    assert G > 0 and view.down == d == Q(1, 2) and none == 0
    if kind == "compressed":
        assert (both, up, down) == (63**2 * reach, 7**2 * reach, 7**2 * reach)
    else:  # 16/(5 delta) = 32/5, and 7 (32/5 + 1)
        assert (both, up, down) == (Q(32 + 7 * 37, 5) ** 2 * reach, Q(32, 5) ** 2 * reach, 7**2 * reach)


BEYOND = {
    "compressed": (
        {"E": 1, "T": 1},
        [{"E": 0}, {"E": 21}, {"T": 0}, {"T": 61}, {"noise": [["1", "2", "3"]] * 2}],
    ),
    "compressed-partial": (
        {"scheme": "C", "law": LAWS[0], "T": 1},
        [{"T": 0}, {"T": 21, "law": [["0", "1"]] * 2}, {"law": [["1"], ["1"]]}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BEYOND)
def test_runs_with_compression_at_their_limits(kind):
    more, beyond = BEYOND[kind]
    data = {name: TWO[name] for name in ("weights", "h", "c")} | {"q": "1/2", "down": False, "w0": ["7/3", "-5/2"], **more}
    assert BUILDERS[kind](data).T == 1
    shapes = [
        {"weights": ["1"]}, {"weights": ["3/8", "3/8", "1/4"]}, {"h": [["1"], ["1"]]}, {"c": [["1", "1"]]}, {"w0": ["1"]},
        {"w0": ["1", "2", "3"]},
    ]  # fmt: skip
    numbers = [
        {"weights": ["1", "0"]}, {"weights": ["5/4", "-1/4"]}, {"weights": ["3/8", "1/2"]}, {"h": [["1", "0"], ["1", "1"]]},
        {"h": [["1", "-1"], ["1", "1"]]},
    ]  # fmt: skip
    down = "true or false"
    fits, sums = "does not fit weights", "must be > 0|must sum to 1"
    cases = [(shapes, fits), (numbers, sums), ([{"down": 1}], down), (beyond, None)]
    for changes, said in cases:
        for change in changes:
            with pytest.raises(InvalidInput, match=said):
                BUILDERS[kind]({**data, **change})


def test_the_numbers_of_one_round():
    """Two clients, j = 2, E = 2, d = 2: 2^(2 * 2) paths, 2 and 3 steps that are possible, 2 clients, 3 points, 2 coordinates."""
    oracles = exact_oracles(TWO)
    law = RoundLaw(EFL(scheme="C"), laws_of([[["0", "1/2", "1/2"], ["1/3", "1/3", "1/3"]]], 2)[0], oracles.weights)
    for common, count in ((False, 16 * 6 * 12), (True, 4 * 6 * 12)):
        own = replace(oracles, common=common)
        for limit, said in ((count, None), (count - 1, f"at most {count - 1} fit")):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("fedtheory.theorems.efl.quantities.step.MAX_ENTRIES", limit)
                if said is None:
                    StepState(own, law, Q(1, 9), own.star, own.L, own.mu, 2)
                else:
                    with pytest.raises(InvalidInput, match=said):
                        StepState(own, law, Q(1, 9), own.star, own.L, own.mu, 2)


def test_the_oracles_of_a_problem():
    """Mini-batches of 2 from 3 samples, a ridge, additive noise: grad F_k, and E||g - grad F_k||^2 over all draws, one by one."""
    rng = np.random.default_rng(7)
    rows, targets, weights = rng.normal(size=(2, 3, 2)), rng.normal(size=(2, 3)), np.array([0.3, 0.7])
    problem = problems.LeastSquares(list(rows), list(targets), 0.25, weights)
    y, full = rng.normal(size=2), oracles_of(problem)
    H = np.einsum("nsi,nsj->nij", rows, rows) / 3 + 0.25 * np.eye(2)
    star = np.linalg.solve(np.einsum("n,nij->ij", weights, H), weights @ np.einsum("nsi,ns->ni", rows, targets) / 3)
    for oracles in (full, oracles_of(problem, 2, 0.6)):
        assert oracles.gradient(np.stack([y, y])) == pytest.approx(H @ y - np.einsum("nsi,ns->ni", rows, targets) / 3)
        assert oracles.star == pytest.approx(star) and oracles.weights.tolist() == weights.tolist()
        assert (oracles.L, oracles.mu) == pytest.approx((problem.beta_k.max(), problem.mu_k.min()))
    path = second_moments(oracles_of(problem, 2, 0.6), [RoundLaw(EFL(scheme="B"), np.array([[0.0, 1.0]] * 2), weights)], [0.1], y)
    each = rows * (np.einsum("nsd,d->ns", rows, y) - targets)[:, :, None]
    spread = ((each - each.mean(axis=1, keepdims=True)) ** 2).sum(axis=-1).mean(axis=1) / 2 + 0.36
    assert path.sigma_sq == pytest.approx(spread)
    mean = each.mean(axis=1) + 0.25 * y
    assert path.G_sq == pytest.approx(((mean**2).sum(axis=1) + spread).max())
    moved = ((y - 0.1 * weights @ mean - star) ** 2).sum() + 0.01 * (weights**2 * spread).sum()
    assert path.distance_sq[1] == pytest.approx(moved)
    h, c = rng.uniform(0.5, 2, (2, 2)), rng.normal(size=(2, 2))
    quadratic = oracles_of(problems.Quadratic([np.diag(row) for row in h], c, weights), noise_std=0.6)
    assert quadratic.noise_sq.tolist() == [0.36] * 2 and quadratic.gradient(np.stack([y, y])) == pytest.approx(h * (y - c))


# --- one run, written in two ways: the same second moments in fractions ---------------------------
def same(first, second, etas, scheme="C", law=LAWS[0], between=True):
    """between: the second moments between the coordinates, too."""
    found, start = [], np.array([Q(1, 9), Q(-1, 7)], dtype=object)
    for oracles in (first, second):
        path = second_moments(oracles, [RoundLaw(EFL(scheme=scheme), laws_of([law], 2)[0], oracles.weights)] * len(etas), etas, start)
        found.append((list(path.distance_sq), path.G_sq, list(path.sigma_sq), path.second_moment.tolist() if between else None))
    assert found[0] == found[1]


def test_additive_noise_is_spread_evenly_over_the_coordinates():
    signs = exact_oracles({**TWO, "noise": [["3/5", "3/5"], ["1/4", "1/4"]]})
    plain = exact_oracles({name: TWO[name] for name in ("weights", "h", "c")})
    assert plain.shape == (2, 1, 2)
    added = replace(plain, noise_sq=np.array([2 * Q(9, 25), 2 * Q(1, 16)], dtype=object))
    for scheme in ("A", "B", "C"):
        same(signs, added, [Q(1, 5), Q(1, 7)], scheme, between=False)


@pytest.mark.parametrize("common", [False, True])
def test_a_mini_batch_of_two_is_the_mean_of_two_draws(common):
    one = exact_oracles({**TWO, **({"common": True} if common else {})})
    b = one.b  # (N, 2, d): the pairs are ++, +-, -+ and --
    pairs = np.stack([(b[:, i] + b[:, j]) / 2 for i in (0, 1) for j in (0, 1)], axis=1)
    many = replace(one, H=np.repeat(one.H, 2, axis=1), b=pairs, q=np.repeat(one.q, 2, axis=1) / 2)
    for scheme in ("A", "C-corrected"):
        same(replace(one, batch=2), many, [Q(1, 5), Q(1, 7)], scheme)


@pytest.mark.parametrize("scheme", ["A", "B", "C", "C-corrected"])
def test_a_run_without_any_randomness_has_the_moments_of_one_with(scheme):
    """One draw, or the same one twice; clients that surely stop after one of three steps, and after all of them."""
    one = exact_oracles({name: TWO[name] for name in ("weights", "h", "c")})
    twice = replace(one, H=np.repeat(one.H, 2, axis=1), b=np.repeat(one.b, 2, axis=1), q=np.repeat(one.q, 2, axis=1) / 2)
    for law in ([["0", "1", "0", "0"], ["0", "0", "0", "1"]], [["0", "0", "0", "1"]] * 2):
        same(one, twice, [Q(1, 5), Q(1, 7)], scheme, law)
        same(replace(one, b=one.b / 100), replace(twice, b=twice.b / 100), [Q(1, 5)], scheme, law)


def test_the_first_gradients_are_short():
    """From w* the largest E||g||^2 and sigma_k^2 are those of the noise alone, however short it is."""
    oracles = exact_oracles({**TWO, "c": [["1/8", "1/6"]] * 2, "noise": [["1/20", "0"], ["0", "1/30"]]})
    law = RoundLaw(EFL(scheme="C"), laws_of([[["0", "1"]] * 2], 2)[0], oracles.weights)
    path = second_moments(oracles, [law], [Q(1, 5)], oracles.star)
    assert list(path.sigma_sq) == [Q(1, 400), Q(1, 900)] and path.G_sq == Q(1, 400)


def test_who_asks_for_what_in_a_run():
    plain = exact_oracles({name: TWO[name] for name in ("weights", "h", "c")})
    alike, two = {**TWO, "common": True}, [LAWS[0], [["0", "0", "1"]] * 2]
    data = {**TWO, "scheme": "C", "laws": two, "every": 2, "w0": ["1", "2"], "T": 5}
    view = BUILDERS["run"](data)
    kinds = [RoundLaw(EFL(scheme="C"), law, plain.weights).moments.sum_ps for law in laws_of(two, 2)]
    assert list(view.constants.S) == [kinds[t % 2] for t in range(5)] and view.horizons.tolist() == [4, 5] and view.rule == "C"
    assert not view.facts and BUILDERS["run"]({**data, "common": True}).facts == {COMMON}
    anchors = (Q(3, 4), np.array([[Q(5, 4), Q(1, 2)], [Q(1, 3), Q(3, 2)]]), np.array([[Q(3, 2), Q(-2)], [Q(1, 5), Q(3)]]))
    rounds, w0 = round_laws("B", laws_of([LAWS[0]], 2), 3, plain.weights), np.array([Q(1), Q(2)], dtype=object)
    whole = quadratic_run(exact_oracles(alike), rounds, w0, anchors=anchors)
    assert whole.constants.how["L, mu"] == "L + lambda max U, mu + lambda min U"
    assert whole.facts == {COMMON, FROZEN} and whole.horizons.tolist() == [0, 1, 2, 3] and whole.rule == "B"
    for change, said in (
        ({"every": 1}, "every = 1: "), ({"every": 2, "laws": two[:1]}, "every = 2 with 1 laws: give two"), ({"T": 0}, "T = 0: "),
        ({"T": 20_001}, "T = 20001: .* from 1 to 20000"), ({"w0": ["1"]}, "w0 has 1 entries, expected 2"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=said):
            BUILDERS["run"]({**data, **change})


def test_oracles_that_are_none():
    one = exact_oracles({**TWO, "common": True})
    shares = np.array([[Q(1, 2), Q(1, 2)], [Q(1, 3), Q(2, 3)]], dtype=object)
    for change, said in (
        ({"q": shares}, "one law of j"), ({"noise_sq": np.array([Q(0), Q(1)], dtype=object)}, "no additive noise"),
        ({"H": one.H + Q(1, 9)}, "diagonal Hessians"), ({"H": one.H * 0}, "mu = 0: Theorem 1 needs mu > 0"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=said):
            replace(one, **change)
    assert replace(one, common=False, q=shares).q is shares


def test_the_rounding_of_one_round():
    """Work out the rounding of squared distances, and of gaps eta ||g||^2/(2 mu).

    There g is off by L times a point's rounding.
    """
    exact = exact_oracles(TWO)
    floats = type(exact)(*(getattr(exact, name).astype(float) for name in ("H", "b", "q", "weights", "noise_sq")))
    law, w0, eta = np.array([[0, 0.5, 0.5], [1 / 3, 0, 2 / 3]]), np.array([7 / 3, -5 / 2]), 1 / 9
    state = StepState(floats, RoundLaw(EFL(scheme="C"), law, floats.weights), eta, w0, 2.5, 3 / 7, 2)
    steep = max(np.linalg.norm(g) for g in state.g_mean.reshape(-1, 2))
    moved = max(np.linalg.norm(w - w0) for w in state.w.reshape(-1, 2))
    size = 2.0**-52 * (abs(state.w).max() + abs(floats.star).max())
    far = np.linalg.norm(w0 - floats.star)
    rounding = 4 * size * (far + moved + size + eta * 2.5 * (steep + 2.5 * size) / (3 / 7))
    assert state.rounding == pytest.approx(rounding, rel=1e-9, abs=0)
    law = RoundLaw(EFL(scheme="C"), laws_of(LAWS, 2)[0], exact.weights)
    assert StepState(exact, law, Q(1, 9), exact.star, Q(5, 2), Q(3, 7), 2).rounding == 0


def test_the_states_of_a_sampled_run():
    """Each is where one of the cases of the round before it ends, and has its round's step size."""
    exact = exact_oracles(TWO)
    floats = type(exact)(*(getattr(exact, name).astype(float) for name in ("H", "b", "q", "weights", "noise_sq")))
    tables = [[0, 0.5, 0.5], [1 / 3, 0, 2 / 3]], [[0, 0, 1]] * 2
    laws = [RoundLaw(EFL(scheme="C"), np.array(law, dtype=float), floats.weights) for law in tables] * 2
    view, start = reached(floats, laws, np.array([7 / 3, -5 / 2]), np.random.default_rng(0)), [7 / 3, -5 / 2]
    S = [law.moments.sum_ps for law in laws]
    gamma = gamma_of(2, max(law.moments.theta for law in laws), floats.L, floats.mu, S)
    assert view.taus == [0, 1, 2, 3] and view.rule == "C" and view.states[0].w0.tolist() == start
    for tau, state in enumerate(view.states):
        assert state.eta == pytest.approx(32 / (floats.mu * ((tau + 1) * 2 + gamma) * S[tau])) and state.law is laws[tau]
        assert state.theta == 2
    for old, new in zip(view.states, view.states[1:]):
        assert np.isclose(old.wbar[:, :, -1], new.w0, rtol=1e-14).all(axis=-1).any()


def test_a_sampled_run_goes_where_it_is_likely_to_go():
    """All clients are active but for one chance in a thousand, and so it is with the first draw."""
    exact = exact_oracles(TWO)
    floats = type(exact)(*(getattr(exact, name).astype(float) for name in ("H", "b", "q", "weights", "noise_sq")))
    rare = replace(floats, q=np.array([[0.999, 0.001]] * 2))
    laws = [RoundLaw(EFL(scheme="C"), np.array([[0.001, 0.999]] * 2), floats.weights)] * 8
    view, w = reached(rare, laws, np.array([7 / 3, -5 / 2]), np.random.default_rng(0)), np.array([7 / 3, -5 / 2])
    for state in view.states:
        assert state.w0 == pytest.approx(w)
        w = w - state.eta * sum(p * (H[0] @ w - b[0]) for p, H, b in zip(rare.weights, rare.H, rare.b))


def test_what_the_rounds_of_a_run_say_together():
    law = {"law": [["0", "1/2", "1/2"], ["1/3", "0", "2/3"]], "scheme": "B", "tau": 3, "w0": ["7/3", "-5/2"]}
    view = BUILDERS["step"]({**TWO, **law})
    assert (view.taus, view.rule, view.printed_constants()["taus"]) == ([3], "B", [3])
    assert set(view.printed_constants()["constants"]["how"]) == {"G_sq, sigma_sq"}
    same, common = SimpleNamespace(needs=(EQUAL,)), SimpleNamespace(needs=(COMMON,))
    assert view.applies(same) == "E[p s]/p^k differs between clients" and view.applies(SimpleNamespace(needs=())) is None
    assert BUILDERS["step"]({**TWO, **law, "scheme": "C-corrected"}).applies(same) is None
    assert "independent" in view.applies(common) and BUILDERS["step"]({**TWO, **law, "common": True}).applies(common) is None
    pair = StepsView([SimpleNamespace(rounding=2e-9, far=1e-3), SimpleNamespace(rounding=1e-3, far=1.0)], [0, 1], "C")
    for make, relation in ((le, "<="), (eq, "==")):
        sides = pair.each(lambda state, make=make: make(np.array([state.far, 0.0]), np.array([2.0, state.far])))
        assert sides.relation == relation and len(sides.lhs) == 2 and list(sides.noise) == [2e-9] * 2


def test_a_round_of_too_many_cases_is_refused_however_many():
    """2^64 cases of who is active: a whole number of 64 bits would have none of them."""
    one = type(exact_oracles(TWO))(
        np.ones((64, 1, 1, 1)), np.zeros((64, 1, 1)), np.ones((64, 1)), np.full(64, 1 / 64), np.zeros(64)
    )
    with pytest.raises(InvalidInput, match=r"one round has 2\.36e\+21 numbers to enumerate"):
        StepState(one, RoundLaw(EFL(scheme="B"), np.full((64, 2), 0.5), one.weights), 0.1, np.zeros(1), 1.0, 1.0, 1.0)


def test_one_round_does_not_depend_on_the_coordinates():
    exact = exact_oracles(TWO)
    floats = type(exact)(*(getattr(exact, name).astype(float) for name in ("H", "b", "q", "weights", "noise_sq")))
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    turned = replace(floats, H=turn @ floats.H @ turn.T, b=floats.b @ turn.T)
    law, w0 = RoundLaw(EFL(scheme="C"), np.array([[0, 0.5, 0.5], [1 / 3, 0, 2 / 3]]), floats.weights), np.array([7 / 3, -5 / 2])
    plain, mixed = StepState(floats, law, 1 / 9, w0, 2.5, 3 / 7, 2), StepState(turned, law, 1 / 9, turn @ w0, 2.5, 3 / 7, 2)
    for name in ("sigma_sq", "G_sq", "drift_sq", "gap", "D", "start_sq"):
        assert getattr(mixed, name) == pytest.approx(getattr(plain, name)), name
    for name in ("w", "g_mean", "stopped", "wbar"):
        assert getattr(mixed, name) == pytest.approx(getattr(plain, name) @ turn.T), name
    assert mixed.gap_at(mixed.wbar) == pytest.approx(plain.gap_at(plain.wbar))
    assert plain.gap_at(w0)[0] == pytest.approx(((w0 - np.array([1.5, -2 / 3])) ** 2 * [3 / 7, 5 / 3]).sum() / 2)
