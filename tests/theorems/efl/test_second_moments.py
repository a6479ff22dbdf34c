"""The exact recursion of EFL's second moments, part by part: laws, pairs of clients, what a problem's oracles are, where runs start."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as Q
from math import comb

import numpy as np
import pytest

from fedtheory import problems
from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.theory.rounds.coefficients import RoundLaw
from fedtheory.theory.rounds.irregular_run import exact_oracles
from fedtheory.theory.rounds.second_moments import oracles_of, second_moments

TWO = {"weights": ["3/8", "5/8"], "h": [["3/7", "5/3"], ["5/2", "6/5"]], "c": [["3/2", "-2/3"], ["-5/4", "7/3"]]}
P, W0 = np.array([Q(3, 8), Q(5, 8)], dtype=object), np.array([Q(1, 9), Q(-1, 7)], dtype=object)


def law_of(rows, scheme="C", weights=P):
    return RoundLaw(EFL(scheme=scheme), np.array([[Q(v) for v in row] for row in rows], dtype=object), weights)


# --- laws -----------------------------------------------------------------------------------------
def test_the_only_case_of_a_law():
    """One case is sure: its steps and, under scheme C, E p^k/s. One choice leaves none."""
    steps, p = law_of([[0, 1, 0, 0], [0, 0, 1, 0]]).fixed
    assert steps.tolist() == [1, 2] and p.tolist() == [3 * Q(3, 8), 3 * Q(5, 8) / 2]
    choice = [0, Q(1, 3), Q(2, 3), 0]
    for rows in ([choice, choice], [choice, [0, 0, 1, 0]], [[0, 0, 1, 0], choice]):
        assert law_of(rows).fixed is None


def test_the_moments_of_one_client_and_its_steps():
    """Scheme A with two clients: n p^k over the number of complete ones, by both cases of the other one."""
    first, second = law_of([[Q(1, 4), Q(1, 4), Q(1, 2)], [Q(1, 6), Q(1, 2), Q(1, 3)]], "A").single
    for k, (own, other) in enumerate(((Q(1, 2), Q(1, 3)), (Q(1, 3), Q(1, 2)))):
        alone, both = 2 * P[k], P[k]
        assert first[k].tolist() == [0, 0, own * (other * both + (1 - other) * alone)]
        assert second[k].tolist() == [0, 0, own * (other * both**2 + (1 - other) * alone**2)]
    assert law_of([[0, 1]] * 2, "B").pairs is None


def by_numbers(c, k, m):
    """E[1/K^2; k and m are complete], K the number of complete clients: the others come in one after the other."""
    mass = [Q(1)]
    for other, own in enumerate(c):
        if other not in (k, m):
            mass = [a * (1 - own) + b * own for a, b in zip([*mass, 0], [0, *mass])]
    return c[k] * c[m] * sum(p / (2 + j) ** 2 for j, p in enumerate(mass))


def test_pairs_of_unequal_clients():
    n = 14
    c = [Q(1, 2) + Q(k, 40) for k in range(n)]
    weights = np.arange(1.0, 1 + n) / sum(range(1, 1 + n))
    pairs = RoundLaw(EFL(scheme="A"), np.array([[float(1 - v), float(v)] for v in c]), weights).pairs
    for k, m in ((0, 1), (3, 7), (11, 2)):
        expected = n**2 * weights[k] * weights[m] * float(by_numbers(c, k, m))
        assert pairs[k, 1, m, 1] == pytest.approx(expected, rel=1e-12)
    assert not pairs[:, 0].any() and not pairs[3, :, 3].any()


def test_pairs_of_equal_clients():
    n = 13
    weights, rows = np.arange(1.0, n + 1) / (n * (n + 1) / 2), np.tile([0.25, 0.0, 0.75], (n, 1))
    pairs, c = RoundLaw(EFL(scheme="A"), rows, weights).pairs, Q(3, 4)
    mean = c**2 * sum(comb(n - 2, j) * c**j * (1 - c) ** (n - 2 - j) / Q(2 + j) ** 2 for j in range(n - 1))
    assert mean == by_numbers([c] * n, 3, 7)
    for k, m in ((0, 1), (3, 7), (12, 2)):
        assert pairs[k, 2, m, 2] == pytest.approx(n**2 * float(mean) * weights[k] * weights[m], rel=1e-12)


# --- oracles --------------------------------------------------------------------------------------
def test_which_problems_have_oracles():
    rng = np.random.default_rng(3)
    squares = problems.LeastSquares(list(rng.normal(size=(2, 3, 2))), list(rng.normal(size=(2, 3))), 0.25)
    M = [[[2.0, 1.0], [1.0, 3.0]], [[1.5, -0.5], [-0.5, 1.25]]]
    quadratic, logistic = problems.Quadratic(M, [[1.0, -2.0], [0.5, 4.0]]), problems.random_logistic(2, 2, ridge=0.5, seed=0)
    assert (oracles_of(squares).shape, oracles_of(squares, 2).shape) == ((2, 1, 2), (2, 3, 2))
    assert (oracles_of(squares).batch, oracles_of(squares, 2).batch) == (1, 2)
    assert oracles_of(quadratic).b[:, 0].tolist() == [[0.0, -5.0], [-1.25, 4.75]]
    for problem, batch in ((quadratic, 2), (logistic, None), (logistic, 2)):
        with pytest.raises(MissingCapability, match=r"exact moments need quadratic losses \(mini-batches: LeastSquares\)"):
            oracles_of(problem, batch)


def test_draws_that_are_common():
    one = exact_oracles({**TWO, "noise": [["1/2", "2/3"], ["3/5", "1/3"]]})
    alike = one.q.copy()
    alike[:] = [Q(1, 3), Q(2, 3)]
    assert replace(one, q=alike, common=True).common
    odd = alike.copy()
    odd[1] = [Q(1, 2), Q(1, 2)]
    for more in ({"q": odd}, {"q": alike, "noise_sq": np.array([0, Q(1, 9)], dtype=object)}):
        with pytest.raises(InvalidInput, match="common draws need one law of j for all clients, and no additive noise"):
            replace(one, common=True, **more)


# --- runs -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("rows", [[[0, 0, 1]] * 2, [[0, Q(1, 3), Q(2, 3)], [0, 0, 1]]], ids=["one case", "several"])
def test_the_largest_gradient_of_flat_losses(rows):
    """h = 1/100 in one coordinate: gradients are far shorter than the distance; the first is the largest, mean by mean."""
    flat = exact_oracles({"weights": ["3/8", "5/8"], "h": [["1/100"], ["1/50"]], "c": [["1"], ["2"]]})
    path = second_moments(flat, [law_of(rows)], [Q(1, 5)], np.array([Q(30)], dtype=object))
    assert path.G_sq == max(Q(29, 100) ** 2, Q(28, 50) ** 2)


def test_additive_noise_of_norm_1_moves_a_run_that_is_determined_otherwise():
    """One step of all: (1 - eta h) of the distance, and eta^2 sum p_k^2 of the noise."""
    plain = exact_oracles(TWO)
    noisy = replace(plain, noise_sq=np.array([Q(1), Q(1)], dtype=object))
    law, eta = law_of([[0, 1]] * 2), Q(1, 5)
    moved = [second_moments(oracles, [law], [eta], W0) for oracles in (plain, noisy)]
    assert moved[1].distance_sq[1] - moved[0].distance_sq[1] == eta**2 * (P**2).sum()
    assert list(moved[1].sigma_sq) == [1, 1] and moved[1].G_sq == moved[0].G_sq + 1


@pytest.mark.parametrize("rows", [[[0, 0, 1]] * 2, [[0, Q(1, 3), Q(2, 3)], [Q(1, 4), 0, Q(3, 4)]]], ids=["one case", "several"])
def test_a_run_goes_on_from_a_second_moment(rows):
    oracles, law, etas = exact_oracles(TWO), law_of(rows), [Q(1, 5), Q(1, 6), Q(1, 7)]
    whole = second_moments(oracles, [law] * 3, etas, W0)
    head = second_moments(oracles, [law] * 2, etas[:2], W0)
    tail = second_moments(oracles, [law], etas[2:], W0 * 0, head.second_moment)
    assert [*head.distance_sq, tail.distance_sq[1]] == list(whole.distance_sq) and tail.distance_sq[0] == head.distance_sq[-1]
    assert tail.second_moment.tolist() == whole.second_moment.tolist()
    assert max(head.G_sq, tail.G_sq) == whole.G_sq


def test_there_are_as_many_laws_as_steps():
    oracles = exact_oracles(TWO)
    for rows in ([[0, 0, 1]] * 2, [[0, Q(1, 3), Q(2, 3)], [0, 0, 1]]):
        with pytest.raises(ValueError, match="zip"):
            second_moments(oracles, [law_of(rows)] * 2, [Q(1, 5)], W0)


def test_a_client_that_is_surely_idle_stays_where_it_is():
    """The other one makes two steps of 1 - eta h, and has the coefficient p^k under scheme C with s = E."""
    h, c, eta = [Q(5, 2), Q(6, 5)], [Q(-5, 4), Q(7, 3)], Q(1, 5)
    path = second_moments(exact_oracles(TWO), [law_of([[1, 0, 0], [0, 0, 1]])], [eta], W0)
    star = exact_oracles(TWO).star
    new = [w - Q(5, 8) * (1 - (1 - eta * a) ** 2) * (w - at) for w, a, at in zip(W0, h, c)]
    assert path.distance_sq[1] == sum((w - at) ** 2 for w, at in zip(new, star))


def test_one_round_that_leaves_a_choice_is_enough_for_the_recursion():
    """The first round with probability 1/2 each way, or twice each way for sure: the mean of both."""
    choice, sure = [[0, 1, 0], [0, Q(1, 2), Q(1, 2)]], [[0, 0, 1]] * 2
    ways = [[[0, 1, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 1]]]
    etas, oracles = [Q(1, 5), Q(1, 6)], exact_oracles(TWO)
    path = second_moments(oracles, [law_of(choice, "B"), law_of(sure, "B")], etas, W0)
    each = [second_moments(oracles, [law_of(rows, "B"), law_of(sure, "B")], etas, W0).distance_sq[2] for rows in ways]
    assert path.distance_sq[2] == sum(each) / 2


def test_draws_in_one_dimension_have_a_variance():
    """Signs of size 1/2 and 3/5: eta^2 sum p_k^2 of their squares after one step of all."""
    data = {"weights": ["3/8", "5/8"], "h": [["3/7"], ["5/2"]], "c": [["3/2"], ["-5/4"]]}
    plain, noisy = exact_oracles(data), exact_oracles({**data, "noise": [["1/2"], ["3/5"]]})
    law, w0 = law_of([[0, 1]] * 2), np.array([Q(1, 9)], dtype=object)
    found = [second_moments(oracles, [law], [Q(1, 5)], w0).distance_sq[1] for oracles in (plain, noisy)]
    assert found[1] - found[0] == Q(1, 25) * (P[0] ** 2 / 4 + P[1] ** 2 * Q(9, 25))
