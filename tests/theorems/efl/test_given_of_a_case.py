"""Values read off a user's case for EFL's statements, by hand and at each limit."""

from __future__ import annotations

from fractions import Fraction as Q
from types import SimpleNamespace

import numpy as np
import pytest
from efl_on_a_problem import TWO, case_of

from fedtheory import problems
from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import LocalSGD
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.participation.irregular import Irregular, complete, windows
from fedtheory.participation.laws import JointLaw
from fedtheory.rational import simplest_each
from fedtheory.theorems.efl.cases import given

H, C = [[3 / 7, 5 / 3], [5 / 2, 6 / 5], [4 / 3, 7 / 4]], [[3 / 2, -2 / 3], [-5 / 4, 7 / 3], [2 / 5, -3.0]]
PROBLEM = problems.Quadratic([np.diag(row) for row in H], C, [0.2, 0.3, 0.5])
ONE = problems.Quadratic([[[1.0]]], [[2.0]])
A, B = [[0.1, 0.9], [0.25, 0.75], [0.5, 0.5]], [[0.1, 0.9], [0.75, 0.25], [0.5, 0.5]]


def case(sampling=None, problem=PROBLEM, algorithm=None, **how):
    return case_of(problem, algorithm or EFL(), sampling=sampling, **how)


def said(error):
    return str(error.value)


# --- numbers that are given -----------------------------------------------------------------------
def test_a_number_is_given_or_the_default_and_within_its_limits():
    assert given.given_number(case(given={"G": 0.1}), "G", 5) == Q(1, 10)
    assert given.given_number(case(), "G", 2 / 3) == given.given_number(case(), "G", lambda: Q(2, 3)) == Q(2, 3)
    for value, how, limit in ((0, {"above": 0}, "> 0"), (-0.25, {"least": 0}, ">= 0")):
        with pytest.raises(InvalidInput) as error:
            given.given_number(case(given={"G": value}), "G", **how)
        assert said(error) == f"G = {value:g}: it must be {limit}"
    assert given.given_number(case(given={"G": 0}), "G", least=0) == 0 < given.given_number(case(given={"G": 1e-9}), "G", above=0)
    with pytest.raises(InvalidInput) as error:
        given.given_number(case(), "noise")
    assert said(error) == "noise is not known here: give it (sum p^2 sigma^2 + 6 L sum p D)"
    with pytest.raises(InvalidInput, match=r"G = \[1, 2\]: give one number"):
        given.given_number(case(given={"G": [1, 2]}), "G")


def test_a_whole_number_is_given_or_the_default():
    assert given.given_whole(case(), "tau_0", 3) == 3 and given.given_whole(case(given={"tau_0": 5}), "tau_0", 3, most=5) == 5
    with pytest.raises(InvalidInput, match="tau_0 = 6: it must be at most 5"):
        given.given_whole(case(given={"tau_0": 6}), "tau_0", 3, most=5)
    for value in (-1, 0.5):
        with pytest.raises(InvalidInput, match=f"tau_0 is {value}: it must be an integer >= 0"):
            given.given_whole(case(given={"tau_0": value}), "tau_0", 3)


# --- which client ---------------------------------------------------------------------------------
def test_which_client():
    """Named, else the one that leaves, else the one that is inactive most often in round 1, else the last."""
    for client in (0, 2):
        assert given.client_of(case(given={"client": client})) == client
    for client in (3, 4):
        with pytest.raises(InvalidInput, match=f"client = {client}: it must be at most 2"):
            given.client_of(case(given={"client": client}))
    with pytest.raises(InvalidInput, match="client is -1: it must be an integer >= 0"):
        given.client_of(case(given={"client": -1}))
    assert given.client_of(case(windows(complete(3, 1), {1: (None, 5), 0: (2, None)}))) == 1
    with pytest.raises(InvalidInput) as error:
        given.client_of(case(windows(complete(3, 1), {0: (None, 4), 2: (None, 5)})))
    assert said(error) == "clients 0, 2 all leave: name one with client"
    assert given.client_of(case(Irregular(1, [np.array(B), np.array(A)]))) == 1
    assert given.client_of(case()) == given.client_of(case(complete(3, 2))) == 2
    assert given.client_of(case(problem=TWO)) == 1
    with pytest.raises(InvalidInput, match="N = 1 client: one that is inactive or leaves needs another that stays"):
        given.client_of(case(problem=ONE))


# --- all clients in every round -------------------------------------------------------------------
def test_full_participation_is_not_asked_for_its_steps():
    for sampling in (None, Full(), Uniform(3)):
        assert given.check_all_active(case(sampling)) is None
    for sampling in (None, Full()):
        assert given.check_all_active(case(sampling, local_solver=LocalSGD(3, 0.1))) is None
    for sampling, how in ((complete(3, 3), {}), (Uniform(3), {"local_solver": LocalSGD(3, 0.1)})):
        with pytest.raises(InvalidInput, match="E = 3: the statement is about one local step a round, the limit is 1"):
            given.check_all_active(case(sampling, **how))


def idle_in(rounds):
    """Client 1 is inactive with probability 1/4 in these rounds."""
    return Irregular(1, lambda t: np.array([[0, 1], [0.25, 0.75] if t in rounds else [0, 1], [0, 1]], dtype=float))


def test_every_round_of_the_run_is_looked_at_and_no_other():
    assert given.check_all_active(case(idle_in([5]), rounds=4)) is None and given.check_all_active(case(idle_in([51]))) is None
    for when, rounds in ((1, 4), (4, 4), (50, None)):
        with pytest.raises(InvalidInput) as error:
            given.check_all_active(case(idle_in([when]), rounds=rounds))
        assert said(error) == (
            f"client 1 is inactive with probability 0.25 in round {when}, the limit is 0: the statement is about all clients active "
            "in every round; leave the participation out"
        )


def test_one_client_may_move_once():
    about = "the statement is about all clients active in every round, but for one move"
    leaves, comes, both = (windows(complete(3, 1), {1: window}) for window in ((None, 4), (3, None), (3, 6)))
    for sampling, arrives in ((leaves, False), (comes, True)):
        assert given.check_all_active(case(sampling, rounds=8), 1, arrives) is None
    for sampling, arrives, moves in (
        (comes, False, "comes back in round 3"), (both, False, "comes back in round 3"),
        (leaves, True, "leaves in round 4"), (both, True, "leaves in round 6"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput) as error:
            given.check_all_active(case(sampling, rounds=8), 1, arrives)
        assert said(error) == f"client 1 {moves}: {about}"
    with pytest.raises(InvalidInput, match="client 1 is not there in round 4"):
        given.check_all_active(case(leaves, rounds=8), 0)


# --- the problem ----------------------------------------------------------------------------------
@pytest.mark.parametrize("x", [[7.0, -5.0], [0.1, -0.3], [0.0, 0.0]], ids=["far", "near 0", "0"])
@pytest.mark.parametrize("residual", [0.0, 1e-3])
def test_how_far_a_certified_point_may_be_off(x, residual):
    """(||g|| + 1e-14 (the largest client's gradient at x and at 0 + L ||x||))/mu, L = 5/2 and mu = 3/7."""
    steepest = max(
        sum((h * (at - c)) ** 2 for h, c, at in zip(rows, centre, point)) ** 0.5
        for rows, centre in zip(H, C) for point in (x, [0.0, 0.0])
    )  # fmt: skip
    made_of = steepest + 5 / 2 * (x[0] ** 2 + x[1] ** 2) ** 0.5
    found = given.distance_off(PROBLEM, SimpleNamespace(x=np.array(x), kkt_residual=residual))
    assert found == pytest.approx((residual + 1e-14 * made_of) * 7 / 3, rel=1e-12, abs=0)


def test_weights_in_fractions():
    assert given.weights_of(PROBLEM).tolist() == [Q(1, 5), Q(3, 10), Q(1, 2)]
    odd = np.array([0.123456789, 0.3456789, 0.7654321])
    off = problems.Quadratic([np.diag(row) for row in H], C, odd / odd.sum())
    rough, found = simplest_each(off.weights), given.weights_of(off)
    assert rough.sum() != 1 and found.sum() == 1 and [a * rough[0] for a in found] == [a * found[0] for a in rough]
    none = problems.Quadratic([np.diag(row) for row in H], C, [0.5, 0.0, 0.5])
    with pytest.raises(InvalidInput) as error:
        given.weights_of(none)
    assert said(error) == "client 1 has p^k = 0, the limit is > 0: leave it out"


def test_hessians_and_linear_parts():
    rows, targets = np.array([[[1.0, 2.0], [0.5, -1.0]], [[-1.0, 0.5], [1.5, 1.0]]]), np.array([[1.0, -2.0], [3.0, 0.25]])
    gram, moment = given.quadratics_of(problems.LeastSquares(list(rows), list(targets), 0.25))
    for k in range(2):
        assert gram[k] == pytest.approx(rows[k].T @ rows[k] / 2 + 0.25 * np.eye(2))
        assert moment[k] == pytest.approx(rows[k].T @ targets[k] / 2)
    M = np.array([[[2.0, 1.0], [1.0, 3.0]], [[1.5, -0.5], [-0.5, 1.25]]])
    hessians, b = given.quadratics_of(problems.Quadratic(M, [[1.0, -2.0], [0.5, 4.0]]))
    assert hessians.tolist() == M.tolist() and b.tolist() == [[0.0, -5.0], [-1.25, 4.75]]
    with pytest.raises(MissingCapability, match=r"Logistic is no quadratic loss: use problems\.Quadratic or problems\.LeastSquares"):
        given.quadratics_of(problems.random_logistic(2, 2, ridge=0.5, seed=0))


def test_coordinates_in_fractions():
    h, c = given.coordinates_of(PROBLEM)
    assert h.tolist() == [[Q(3, 7), Q(5, 3)], [Q(5, 2), Q(6, 5)], [Q(4, 3), Q(7, 4)]]
    assert c.tolist() == [[Q(3, 2), Q(-2, 3)], [Q(-5, 4), Q(7, 3)], [Q(2, 5), -3]]
    axes = problems.LeastSquares([[[1.0, 0.0], [0.0, 2.0]]] * 2, [[3.0, -2.0], [1.0, 5.0]])
    h, c = given.coordinates_of(axes)
    assert h.tolist() == [[Q(1, 2), 2]] * 2 and c.tolist() == [[3, -1], [1, Q(5, 2)]]


def test_minimisers_of_quadratics_are_those_that_were_given():
    """h c/h need not round to c."""
    h, c = next((h / 7, c / 10) for h in range(1, 99) for c in range(1, 99) if h / 7 * (c / 10) / (h / 7) != c / 10)
    found = given.coordinates_of(problems.Quadratic([[[h]], [[2.0]]], [[c], [1.0]]))[1]
    assert found[0, 0] == Q(c).limit_denominator(10)


def test_when_coordinates_mix():
    def of(corner, off):
        return problems.Quadratic([np.diag([1.0, 1.0]), [[corner, off], [off, 1.0]]], [[0.0, 1.0]] * 2)

    for corner, off in ((1.0, 1e-12), (1.0, -1e-12), (4.0, 3.9e-12)):
        assert given.coordinates_of(of(corner, off))[0].tolist() == [[1, 1], [corner, 1]]
    for corner, off in ((1.0, 1.1e-12), (4.0, 4.1e-12), (4.0, -0.5)):
        with pytest.raises(MissingCapability, match=rf"the Hessian of client 1 has {off:g} at \(0, 1\), the limit is 0"):
            given.coordinates_of(of(corner, off))
    flat = problems.Quadratic([np.diag([2.0, 3.0]), np.diag([1.0, 0.0])], [[1.0, 2.0]] * 2)
    with pytest.raises(InvalidInput) as error:
        given.coordinates_of(flat)
    assert said(error) == "client 1 has the curvature 0, the limit is > 0: add a ridge"


def test_the_same_clients_with_other_weights():
    for weights in ([0.4, 0.0, 1.0], np.array([Q(2, 5), 0, 1], dtype=object)):
        other = given.reweighted(PROBLEM, np.asarray(weights))
        assert other.num_clients == 2 and other.weights.dtype == float and other.weights == pytest.approx([2 / 7, 5 / 7])
        assert other.minimisers.tolist() == [C[0], C[2]]


# --- the law --------------------------------------------------------------------------------------
def test_a_law_in_fractions():
    assert given.law_in_fractions(case(Irregular(1, A)), "A").tolist() == [
        [Q(1, 10), Q(9, 10)], [Q(1, 4), Q(3, 4)], [Q(1, 2), Q(1, 2)]
    ]  # fmt: skip
    odd = np.array([0.123456789, 0.3456789, 0.7654321])
    rows = np.array([odd / odd.sum()] * 3)
    rough, found = simplest_each(rows), given.law_in_fractions(case(Irregular(2, rows)), "A")
    assert rough[0].sum() != 1 and all(row.sum() == 1 for row in found)
    assert [a * rough[0, 0] for a in found[0]] == [a * found[0, 0] for a in rough[0]]


def test_one_law_in_all_rounds_of_the_run():
    def changes(when):
        return Irregular(1, lambda t: np.array(B if t == when else A))

    for when, rounds in ((4, 3), (51, None)):
        given.law_in_fractions(case(changes(when), rounds=rounds), "C")
    for when, rounds in ((2, 3), (3, 3), (50, None)):
        with pytest.raises(InvalidInput) as error:
            given.law_in_fractions(case(changes(when), rounds=rounds), "C")
        assert said(error) == f"the law of s^k is another one in round {when} than in round 1: the statement is about one law"


def test_clients_are_there_in_all_rounds_of_the_run():
    for window, when in (((2, None), 1), ((None, 3), 3), ((None, 5), 5)):
        with pytest.raises(InvalidInput, match=f"client 1 is not there in round {when}: the objective is fixed"):
            given.law_in_fractions(case(windows(Irregular(1, A), {1: window}), rounds=5), "C")
    given.law_in_fractions(case(windows(Irregular(1, A), {1: (None, 6)}), rounds=5), "C")
    with pytest.raises(InvalidInput, match="client 1 is gone from round 7 of a run of 5"):
        given.law_in_fractions(case(windows(Irregular(1, A), {1: (None, 7)}), rounds=5), "C")


@pytest.mark.parametrize("first", [True, False])
def test_clients_that_depend_on_each_other(first):
    """Both laws have rows of 1/2; a joint one in one round is enough, and matters under scheme A only."""
    joint = JointLaw(np.array([[0, 1, 0], [1, 0, 1]]), np.array([0.5, 0.5]))
    laws = [joint, np.full((3, 2), 0.5)] if first else [np.full((3, 2), 0.5), joint]
    how = case(Irregular(1, laws), rounds=2)
    for scheme in ("B", "C", "C-corrected"):
        assert given.law_in_fractions(how, scheme).tolist() == [[Q(1, 2)] * 2] * 3
    with pytest.raises(InvalidInput, match=f"clients that depend on each other in round {1 if first else 2}: under scheme A"):
        given.law_in_fractions(how, "A")
