"""Cases for EFL's statements on shifts: each number by hand, each refusal from both sides."""

from __future__ import annotations

from fractions import Fraction as Q

import numpy as np
import pytest
from efl_on_a_problem import MAKE, TWO, case_of

from fedtheory import problems
from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import GradientSteps, LocalSGD
from fedtheory.participation.irregular import Irregular, complete, windows
from fedtheory.participation.laws import JointLaw
from fedtheory.rational import simplest_each
from fedtheory.theorems.efl.after_shift_world import shifted_run
from fedtheory.theorems.efl.shift_world import shift_on
from fedtheory.theory.rounds.coefficients import RoundLaw
from fedtheory.theory.rounds.second_moments import oracles_of

H, C, P = [[3 / 7, 5 / 3], [5 / 2, 6 / 5], [4 / 3, 7 / 4]], [[3 / 2, -2 / 3], [-5 / 4, 7 / 3], [2 / 5, -3.0]], [0.2, 0.3, 0.5]
PROBLEM = problems.Quadratic([np.diag(row) for row in H], C, P)
ROWS = [[[0.1, 0.9], [0.25, 0.75], [0.5, 0.5]], [[0.2, 0.8], [0.4, 0.6], [0.125, 0.875]]]
CHANGES = Irregular(1, [np.array(rows) for rows in ROWS])  # odd rounds, even rounds
JOINT = JointLaw(np.array([[0, 1, 0], [1, 0, 1]]), np.array([0.5, 0.5]))
START = [7 / 3, -5 / 2]


def case(sampling=None, problem=PROBLEM, **how):
    return case_of(problem, EFL(), sampling=sampling, **{"x0": [7 / 3, -5 / 2][: problem.dim], **how})


def refused(what, error, how, said):
    with pytest.raises(error) as caught:
        what(None, case(**how))
    assert str(caught.value) == said


# --- what counts after a departure ----------------------------------------------------------------
def test_what_counts_round_by_round():
    """Scheme C, E = 1: the ratio of a client is its probability of being active in that round; client 1 comes last."""
    active = [[Q(9, 10), Q(1, 2), Q(3, 4)], [Q(4, 5), Q(7, 8), Q(3, 5)]]
    made = MAKE["departed"](None, case(CHANGES, rounds=5, given={"client": 1}))
    found = [[Q(v) for v in row] for row in made.data["mean_work"]]
    assert found == [active[t % 2] for t in range(5)] and made.label == "quadratic" and made.data["tau_0"] == 2
    gone = MAKE["departed"](None, case(windows(CHANGES, {1: (None, 4)}), rounds=5))
    rows = [[Q(v) for v in row] for row in gone.data["mean_work"]]
    assert rows[:3] == found[:3] and rows[3] == rows[4] and rows[3][:2] == active[0][:2]
    odd = np.array([0.123456789, 0.3456789, 0.7654321])
    thirds = Irregular(2, np.array([odd / odd.sum()] * 3))
    total = [Q(v) for v in MAKE["departed"](None, case(thirds, rounds=2)).data["mean_work"][0]]
    assert [float(v) for v in total] == pytest.approx([2 * (1 - odd[0] / odd.sum())] * 3, rel=1e-12)
    assert total[0] == 2 * (1 - Q(1, 1) * simplest_each(odd / odd.sum())[0] / simplest_each(odd / odd.sum()).sum())


def test_rounds_of_a_departure():
    for tau_0 in (0, 4):
        assert MAKE["departed"](None, case(rounds=5, given={"client": 1, "tau_0": tau_0})).data["tau_0"] == tau_0
    for tau_0 in (5, 6):
        refused(MAKE["departed"], InvalidInput, {"rounds": 5, "given": {"tau_0": tau_0}}, f"tau_0 = {tau_0}: it must be at most 4")


# --- the step after a shift -----------------------------------------------------------------------
def test_the_local_work_after_a_shift():
    one = "the statement is about one local step"
    for solver, error, said in (
        (GradientSteps(1, 0.1), InvalidInput, f"local work by GradientSteps: {one}; use LocalSGD(1, 1.0)"),
        (LocalSGD(2, 1.0), InvalidInput, f"E = 2: {one} with Theorem 1's size; use LocalSGD(1, 1.0)"),
        (LocalSGD(1, lambda t: 0.1), InvalidInput, f"E = 1: {one} with Theorem 1's size; use LocalSGD(1, 1.0)"),
        (
            LocalSGD(1, 1.0, 2), MissingCapability,
            "the noise of mini-batches depends on the model: give sigma_sq, the noise of a coordinate",
        ),
    ):  # fmt: skip
        refused(MAKE["after-shift"], error, {"local_solver": solver}, said)
    assert MAKE["after-shift"](None, case(local_solver=LocalSGD(1, 1.0, 2), given={"sigma_sq": 0.25})).data["sigma_sq"] == "1/4"
    assert MAKE["after-shift"](None, case(local_solver=LocalSGD(1, 1.0))).data["sigma_sq"] == "0"


def test_who_moves_and_how_often():
    """The client that joins, though another one would be named; everybody else is there."""
    joins = case(windows(complete(3, 1), {0: (3, None)}), rounds=6)
    new = sum(p * h[0] for p, h in zip([Q(1, 5), Q(3, 10), Q(1, 2)], [[Q(3, 7)], [Q(5, 2)], [Q(4, 3)]]))
    assert new in [Q(v) for v in MAKE["after-shift"](None, joins).data["curvature"]]
    both = {"sampling": windows(complete(3, 1), {0: (3, 5)}), "rounds": 6}
    about = "the statement is about all clients active in every round, but for one move"
    refused(MAKE["after-shift"], InvalidInput, both, f"client 0 leaves in round 5: {about}")
    one = problems.Quadratic([[[1.0]]], [[2.0]])
    said = "N = 1 client: with nobody left there is no new objective, use at least two clients"
    refused(MAKE["after-shift"], InvalidInput, {"problem": one, "sampling": windows(complete(1, 1), {0: (1, None)})}, said)


def test_a_flat_client_has_no_step_after_a_shift():
    flat = problems.Quadratic([np.diag([1.0, 0.0]), np.diag([1.0, 2.0])], [[1.0, 2.0]] * 2)
    refused(MAKE["after-shift"], InvalidInput, {"problem": flat}, "client 0 has mu_k = 0, the limit is > 0: add a ridge")


def test_the_first_step_is_at_most_one_over_the_curvature():
    """Client 1 leaves two clients of curvature 1 = mu: 16/(1 + gamma) <= 1 from gamma = 15 on; of 2 from gamma = 31 on."""
    for h, least in ((1.0, 15), (2.0, 31)):
        how = {"problem": problems.Quadratic([[[h]], [[1.0]]], [[0.0], [1.0]]), "x0": [1.0]}
        assert MAKE["after-shift"](None, case(**how, given={"gamma": least})).data["gamma"] == str(least)
        said = "the first step 16/(mu (1 + gamma)) must be at most 1/L, use at least 16 L/mu"
        refused(MAKE["after-shift"], InvalidInput, {**how, "given": {"gamma": least - 0.5}}, f"gamma = {least - 0.5:g}: {said}")
    for gamma in (0, -1):
        refused(MAKE["after-shift"], InvalidInput, {"given": {"gamma": gamma}}, f"gamma = {gamma}: it must be > 0")
    tiny = {"problem": problems.Quadratic([[[1 / 64]], [[1.0]]], [[0.0], [1.0]]), "x0": [1.0], "given": {"gamma": 1}}
    with pytest.raises(InvalidInput, match="gamma = 1: the first step"):
        MAKE["after-shift"](None, case(**tiny))
    refused(MAKE["after-shift"], InvalidInput, {"given": {"sigma_sq": -0.5}}, "sigma_sq = -0.5: it must be >= 0")
    assert MAKE["after-shift"](None, case(given={"sigma_sq": 0})).label == "quadratic"


# --- a run across a shift -------------------------------------------------------------------------
@pytest.mark.parametrize("arrives", [False, True])
def test_a_run_across_a_shift_has_each_rounds_own_law(arrives):
    """Client 1 is there in rounds 1 to 2, or from round 3 on; laws alternate; mini-batches of one and additive noise."""
    rng = np.random.default_rng(5)
    problem = problems.LeastSquares(list(rng.normal(size=(3, 4, 2))), list(rng.normal(size=(3, 4))), 0.5, np.array(P))
    law = windows(CHANGES, {1: (3, None) if arrives else (None, 3)})
    view = MAKE["restart"](None, case(law, problem, rounds=5, local_solver=LocalSGD(1, 1.0, 1, 0.6))).view()
    oracles, keep = oracles_of(problem, 1, 0.6), [0, 2]
    rest = oracles.without(1)

    def side(there, rounds):
        rows = [np.array(ROWS[(t + 1) % 2]) for t in rounds]
        return (oracles, [RoundLaw(EFL(scheme="C"), r, oracles.weights) for r in rows]) if there else (
            rest, [RoundLaw(EFL(scheme="C"), r[keep], rest.weights) for r in rows]
        )  # fmt: skip

    event = "arrival" if arrives else "departure"
    shift = shift_on(problem, event, 1)
    other = shifted_run(side(not arrives, (1, 2)), side(arrives, (3, 4, 5)), np.array(START), shift)
    for name in ("before", "before_kept", "fresh", "kept"):
        own, theirs = getattr(view, name), getattr(other, name)
        assert own.distance_sq == pytest.approx(theirs.distance_sq) and own.y == pytest.approx(theirs.y)
        assert own.constants.sigma_sq == pytest.approx(theirs.constants.sigma_sq) and own.constants.sigma_sq.min() > 0.36
    assert view.tau_0 == 2 and view.shift.event == event
    assert view.noise == pytest.approx(shift.noise + 1e-13 * (view.before.distance_sq[0] + shift.distance_sq), rel=1e-9, abs=0)
    assert len({tuple(leg.distance_sq) for leg in (view.fresh, view.kept)}) == 2


def test_where_the_rounds_of_a_run_are_cut():
    for rounds, given, tau_0 in ((2, {}, 1), (5, {}, 2), (6, {}, 3), (5, {"tau_0": 1}, 1), (5, {"tau_0": 4}, 4)):
        assert MAKE["restart"](None, case(rounds=rounds, given=given)).view().tau_0 == tau_0
    for tau_0, said in ((0, "tau_0 is 0: it must be an integer >= 1"), (5, "tau_0 = 5: it must be at most 4")):
        refused(MAKE["restart"], InvalidInput, {"rounds": 5, "given": {"tau_0": tau_0}}, said)
    assert MAKE["restart"](None, case(problem=TWO, rounds=3)).view().tau_0 == 1
    for problem, rounds in ((problems.Quadratic([[[1.0]]], [[2.0]]), 5), (PROBLEM, 1)):
        said = f"N = {problem.num_clients}, T = {rounds}: a shift needs two clients and a round before it and after it"
        refused(MAKE["restart"], InvalidInput, {"problem": problem, "rounds": rounds}, said)
    came, left = "arrival", "departure"
    for window, tau_0, event in (((4, None), 3, came), ((2, None), 1, came), ((None, 5), 4, left), ((1, 5), 4, left)):
        how = case(windows(complete(3, 1), {0: window}), rounds=6)
        view = MAKE["restart"](None, how).view()
        assert (view.tau_0, view.shift.event) == (tau_0, event)
    how = {"sampling": windows(complete(3, 1), {0: (4, None)}), "rounds": 6, "given": {"tau_0": 4}}
    refused(MAKE["restart"], InvalidInput, how, "tau_0 = 4, but client 0's window leaves 3 rounds before the arrival: give one of them")
    how = {"sampling": windows(complete(3, 1), {0: (4, None), 2: (None, 5)}), "rounds": 6}
    said = "several clients come or go: the statement is about one departure or one arrival, keep one window"
    refused(MAKE["restart"], InvalidInput, how, said)


@pytest.mark.parametrize("when", [1, 3, 4, 5])
def test_joint_laws_are_refused_in_every_round_of_the_run(when):
    law = Irregular(1, [JOINT if t == when else np.array(ROWS[0]) for t in range(1, 6)])
    if when == 5:
        assert MAKE["restart"](None, case(law, rounds=4)).view().tau_0 == 2
    else:
        said = "clients that depend on each other: exact second moments are for independent ones"
        refused(MAKE["restart"], MissingCapability, {"sampling": law, "rounds": 4}, said)
