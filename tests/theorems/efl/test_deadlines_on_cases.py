"""Cases for sections 4.1 and 4.2, Corollary 1, Table 1: views by hand, limits from both sides."""

from __future__ import annotations

from fractions import Fraction as Q

import numpy as np
import pytest
from efl_on_a_problem import MAKE, case_of

from fedtheory import problems
from fedtheory.algorithms import EFL, FedAvg
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import LocalSGD
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.participation.irregular import Irregular, complete, inactive, windows
from fedtheory.theorems.efl import inactive_world
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.cases.theorem_1 import constants_on, view_of
from fedtheory.theorems.efl.corollary_1_world import CertifiedAbandonView
from fedtheory.theorems.efl.inactive_world import RULE
from fedtheory.theorems.efl.shift_world import shift_on
from fedtheory.theorems.efl.stability_world import ALIKE, MORE, ONE_STEP, SINGLE, UNSTABLE, WITHOUT

H, C, P = [[3 / 7, 5 / 3], [5 / 2, 6 / 5], [4 / 3, 7 / 4]], [[3 / 2, -2 / 3], [-5 / 4, 7 / 3], [2 / 5, -3.0]], [0.2, 0.3, 0.5]
PROBLEM = problems.Quadratic([np.diag(row) for row in H], C, P)
TURN = np.array([[0.6, -0.8], [0.8, 0.6]])
TURNED = problems.Quadratic([TURN @ np.diag(row) @ TURN.T for row in H], np.array(C) @ TURN.T, P)
FLAT = problems.Quadratic([[[2.0, 1.0], [1.0, 2.0]], [[1.0, 1.0], [1.0, 1.0]]], [[1.0, 2.0], [0.0, 0.0]])
IDLE, PARTLY = inactive(3, 2, [0.125, 0.4, 0.25]), Irregular(2, [[0, 0.25, 0.75], [0, 1, 0], [0, 0.125, 0.875]])
ONLY = inactive(3, 2, [0.0, 0.4, 0.0])
rng = np.random.default_rng(11)
ROWS, TARGETS = rng.normal(size=(3, 4, 2)), 3 * rng.normal(size=(3, 4))
SQUARES = problems.LeastSquares(list(ROWS), list(TARGETS), 0.25, np.array(P))
START = np.array([7 / 3, -5 / 2])


def case(sampling=None, problem=PROBLEM, algorithm=None, **how):
    return case_of(problem, algorithm or EFL(), sampling=sampling, **{"x0": START[: problem.dim], **how})


def refused(make, how, said, error=InvalidInput):
    with pytest.raises(error) as caught:
        make(None, case(**how))
    assert str(caught.value) == said


# --- numbers that are given -----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "sampling", "name", "limit", "taken"),
    [
        (MAKE["inactive"], IDLE, "gamma", "> 0", 0.5), (MAKE["inactive"], IDLE, "J", "> 0", 0.5),
        (MAKE["inactive"], IDLE, "C", "> 0", 0.5), (MAKE["inactive"], IDLE, "y", "> 0", 0.5),
        (MAKE["epochs"], None, "noise", ">= 0", 0), (MAKE["epochs"], None, "G", ">= 0", 100),
        (MAKE["rates"], None, "epsilon", "> 0", 0.25), (MAKE["rates"], None, "S", "> 0", 0.5),
        (MAKE["rates"], None, "delta", "> 0", 0.5), (MAKE["row"], None, "K", "> 0", 0.5), (MAKE["row"], None, "epsilon", "> 0", 2),
    ],
)  # fmt: skip
def test_limits_of_what_is_given(make, sampling, name, limit, taken):
    made = make(None, case(sampling, given={name: taken}))
    shown = made.view().printed_constants() if make is MAKE["row"] else made.data
    key = {"G": "G_sq", "K": "factor", "epsilon": "epsilon" if make is MAKE["row"] else "root"}.get(name, name)
    expected = taken**2 if key == "G_sq" else taken**0.5 if key == "root" else taken
    assert float(Q(shown[key])) == pytest.approx(expected)
    below = 0.0 if limit == "> 0" else -0.5
    refused(make, {"sampling": sampling, "given": {name: below}}, f"{name} = {below:g}: it must be {limit}")


def test_the_round_that_is_given():
    for tau_0 in (0, 4):
        assert MAKE["inactive"](None, case(IDLE, rounds=5, given={"tau_0": tau_0})).data["tau_0"] == tau_0
    for tau_0 in (5, 6):
        how = {"sampling": IDLE, "rounds": 5, "given": {"tau_0": tau_0}}
        refused(MAKE["inactive"], how, f"tau_0 = {tau_0}: it must be at most 4")
    how = {"sampling": windows(IDLE, {1: (None, 9)}), "rounds": 4}
    said = "client 1 is gone from round 9 of a run of 4: make the run longer, or use None (never)"
    refused(MAKE["inactive"], how, said)


def test_every_instance_has_the_problems_name():
    elastic = {"algorithm": EFL(lam=0.5), "given": {"u_0": np.ones((3, 2))}}
    for make, how in (
        (MAKE["inactive"], {"sampling": IDLE}), (MAKE["epochs"], {}), (MAKE["incomplete"], {"sampling": PARTLY}),
        (MAKE["abandon"], {"sampling": ONLY}), (MAKE["rates"], {}), (MAKE["units"], {}), (MAKE["stability"], elastic),
    ):  # fmt: skip
        assert make(None, case(**how)).label == "quadratic"


def test_the_smallest_condition_number():
    alike = problems.Quadratic([np.diag([1.5, 1.5])] * 3, C, P)
    assert MAKE["epochs"](None, case(complete(3, 2), alike)).data["kappa"] == "1"


def test_how_many_cases_are_gone_through(monkeypatch):
    """Two ways for clients 0 and 2 each, one for client 1."""
    monkeypatch.setattr(inactive_world, "MAX_CASES", 4)
    assert MAKE["incomplete"](None, case(PARTLY)).kind == "incomplete"
    monkeypatch.setattr(inactive_world, "MAX_CASES", 3)
    said = "4 cases of (s_1..s_N), at most 3 are gone through: take fewer clients"
    refused(MAKE["incomplete"], {"sampling": PARTLY}, said, MissingCapability)


def test_what_has_no_curvature_is_refused():
    only = inactive(2, 1, [0.0, 0.4])
    flat = "client 1 has mu_k = 0, the limit is > 0: add a ridge"
    refused(MAKE["abandon"], {"sampling": only, "problem": FLAT}, flat)
    refused(MAKE["rates"], {"problem": FLAT}, "client 1 has mu_k = 0, the limit is > 0: add a ridge")
    elastic = {"problem": FLAT, "algorithm": EFL(lam=0.5), "given": {"u_0": np.ones((2, 2))}}
    refused(MAKE["stability"], elastic, "client 1 has mu_k = 0, the limit is > 0: add a ridge")


# --- Corollary 1 ----------------------------------------------------------------------------------
def gradient(k, x):
    return ROWS[k].T @ (ROWS[k] @ x - TARGETS[k]) / 4 + 0.25 * x


def loss(k, x):
    return ((ROWS[k] @ x - TARGETS[k]) ** 2).sum() / 8 + (x**2).sum() / 8


def minimiser(weights):
    M = sum(w * (A.T @ A / 4 + np.eye(2) / 4) for w, A in zip(weights, ROWS))
    return np.linalg.solve(M, sum(w * A.T @ b / 4 for w, A, b in zip(weights, ROWS, TARGETS)))


def test_bounds_of_an_abandoned_client_with_a_minimum_of_its_own(monkeypatch):
    """Client 1 is away with y = 2/5: rho = y p^a; Theorem 2 for that fraction, and what certified points leave open."""
    monkeypatch.setattr(given, "distance_off", lambda problem, found: 0.125)
    view = CertifiedAbandonView(SQUARES, 1, Q(2, 5))
    eigen = [np.linalg.eigvalsh(A.T @ A / 4 + np.eye(2) / 4) for A in ROWS]
    L, mu, rho = max(e[-1] for e in eigen), min(e[0] for e in eigen), 0.12
    full, part, rest = (minimiser(w) for w in ([0.2, 0.3, 0.5], [0.2, 0.18, 0.5], [0.2, 0.0, 0.5]))
    assert view.limit(Q(2, 5)) == pytest.approx(part, abs=1e-7) and view.limit(1) == pytest.approx(rest, abs=1e-7)
    gap = loss(1, part) - loss(1, minimiser([0, 1, 0]))
    assert view.bound(False) == pytest.approx(2 * L * rho**2 * gap / mu**2)
    assert view.bound(True) == pytest.approx(2 * L * rho**2 * gap / (mu**2 * (1 - rho) ** 2 + mu * L * rho * (2 - rho)))
    assert view.loss(START) == pytest.approx(sum(p * loss(k, START) for k, p in enumerate(P)))
    assert view.loss(START, True) == pytest.approx(0.2 * loss(0, START) + 0.5 * loss(2, START))
    size = np.linalg.norm
    ends = (full, part, rest)
    whole = max(size(sum(p * gradient(k, x) for k, p in enumerate(P))) for x in ends)
    others = max(size((0.2 * gradient(0, x) + 0.5 * gradient(2, x)) / 0.7) for x in ends)
    assert view.noise == pytest.approx(2 * 0.125 * (max(whole, others) + L * 0.125), rel=1e-6)
    own = (size(gradient(1, part)) + L * 0.125) * 0.125
    expected = 4 * 0.125 * (size(part - full) + 0.125) + 2 * L * (rho / mu) ** 2 * own
    assert view.noise_sq == pytest.approx(expected, rel=1e-6) and view.bias_sq == pytest.approx(((part - full) ** 2).sum(), rel=1e-6)


def test_one_round_with_the_client_and_without_it():
    """E = 2, T = 1, scheme C: w' = sum_k p^k y_k of two steps, client 1 away with y = 2/5; F(w') - F*, by both cases."""
    view = MAKE["keep"](None, case(ONLY, rounds=1)).view()
    h, c = np.array(H), np.array(C)
    star, others = (np.einsum("n,ni->i", w, h * c) / np.einsum("n,ni->i", w, h) for w in (np.array(P), np.array([0.2, 0, 0.5])))

    def after(weights, eta):
        y = START + 0 * c
        for _ in range(2):
            y = y - eta * h * (y - c)
        return START + np.array(weights) @ (y - START)

    def value(x):
        return sum(p * (a * ((x - at) ** 2 - (star - at) ** 2)).sum() / 2 for p, a, at in zip(P, h, c))

    kept, left = view.kept[0], view.abandoned[0]
    ways = [(0.6, after(P, kept.eta[0])), (0.4, after([0.2, 0, 0.5], kept.eta[0]))]
    alone = after([2 / 7, 0, 5 / 7], left.eta[0])
    assert view.loss_kept == pytest.approx(sum(p * value(w) for p, w in ways)) and view.loss_abandoned == pytest.approx(value(alone))
    assert view.own_kept == pytest.approx(sum(p * ((w - star) ** 2).sum() for p, w in ways))
    assert view.own_abandoned == pytest.approx(((alone - others) ** 2).sum())
    for found, B in ((view.f_1, left.B()), (view.f_1_sharp, left.B_sharp)):
        start = left.gamma**2 * ((START - others) ** 2).sum() + (32 / left.mu) ** 2 * float(B[0]) / float(left.S[0]) ** 2
        assert found == pytest.approx(start / (2 + left.gamma) ** 2)
    assert view.J == pytest.approx(min(kept.J, kept.J_printed)) and kept.J != kept.J_printed
    assert view.has(RULE) == (0.4 * view.J > view.f_1)


def test_where_all_minimise_alike_there_is_one_J():
    alike = problems.Quadratic([np.diag(row) for row in H], [[0.0, 0.0]] * 3, P)
    view = MAKE["keep"](None, case(ONLY, alike, rounds=1)).view()
    assert view.kept[0].smallest_D == 0 and view.J == float(view.kept[0].J)
    near = problems.Quadratic([np.diag(row) / 8 for row in H], C, P)
    view = MAKE["keep"](None, case(ONLY, near, rounds=1)).view()
    assert 0 < view.kept[0].smallest_D < 1 and view.J == view.kept[0].J_printed < view.kept[0].J


def test_both_runs_draw_the_mini_batches():
    view = MAKE["keep"](None, case(ONLY, SQUARES, rounds=2, local_solver=LocalSGD(2, 1.0, 1, 0.5))).view()
    assert view.kept[0].sigma_sq.min() > 0.25 and view.abandoned[0].sigma_sq.min() > 0.25
    said = "Quadratic has no samples to draw mini-batches from: use batch_size=None"
    refused(MAKE["keep"], {"sampling": ONLY, "local_solver": LocalSGD(2, 1.0, 1)}, said, MissingCapability)


# --- Table 1 --------------------------------------------------------------------------------------
ALTERNATES = Irregular(1, [np.array([[0.1, 0.9], [0.25, 0.75], [0.5, 0.5]]), np.array([[0, 1.0], [0.25, 0.75], [0, 1.0]])])


def test_who_takes_part_of_round_1():
    assert MAKE["rates"](None, case(ALTERNATES)).data["S"] == "43/20"
    assert MAKE["rates"](None, case(Uniform(2), given={"G": 90})).data["S"] == "2"


def test_the_numbers_of_table_1_are_those_of_the_methods_scheme():
    """FedAvg has no scheme: C."""
    how = {"sampling": IDLE, "problem": SQUARES, "rounds": 3, "local_solver": LocalSGD(2, 1.0, 1), "x0": minimiser(P)}
    found = set()
    for algorithm, scheme in ((EFL(scheme="A"), "A"), (EFL(scheme="B"), "B"), (EFL(), "C"), (FedAvg(), "C")):
        c, of = constants_on(case(**how), scheme=scheme), case(algorithm=algorithm, **how)
        G, sigma = (float(Q(make(None, of).data[name])) for make, name in ((MAKE["rates"], "G"), (MAKE["units"], "sigma")))
        assert (G**2, sigma**2) == (pytest.approx(c.G_sq), pytest.approx(c.sigma_sq.max()))
        found.add((G, sigma))
    assert len(found) == 3


def test_a_measured_row():
    """Rounds until E||w_T - w*||^2 <= epsilon, a tie counts; G^2/(mu S epsilon) + L/(mu sqrt epsilon), S of round 1."""
    how = {"sampling": ALTERNATES, "rounds": 8}
    path = np.asarray(view_of("run", case(**how)).distance_sq, dtype=float)
    constants = view_of("run", case(**how)).constants
    for epsilon, needed in ((path[0] / 2, np.flatnonzero(path <= path[0] / 2)[0]), (path[3], np.flatnonzero(path <= path[3])[0])):
        view = MAKE["row"](None, case(**how, given={"epsilon": epsilon, "K": 3})).view()
        assert view.needed == needed > 0 and view.K == 3 and view.epsilon == pytest.approx(epsilon, rel=1e-14)
        assert view.S == pytest.approx(2.15)
        terms = constants.G_sq / (constants.mu * 2.15 * epsilon), constants.L / (constants.mu * epsilon**0.5)
        assert view.terms == pytest.approx(terms)
    assert MAKE["row"](None, case(**how)).view().epsilon == pytest.approx(path[0] / 2) and MAKE["row"](None, case(**how)).view().K == 1
    shown = MAKE["row"](None, case(**how)).view().printed_constants()
    assert (shown["factor"], shown["epsilon"]) == (1, pytest.approx(path[0] / 2)) and shown["S"] == pytest.approx(2.15)
    found = f"||w_0 - w*||^2 = {path[0]:.6g}, {path[-1]:.6g} after 8 rounds"
    for epsilon, what in (
        (path.min() / 2, "not reached: give a larger one, or more rounds"), (2 * path[0], "there at the start: give a smaller one")
    ):  # fmt: skip
        refused(MAKE["row"], {**how, "given": {"epsilon": epsilon}}, f"epsilon = {epsilon:.6g} is {what}; {found}")
    first = MAKE["row"](None, case(**how, given={"epsilon": float(np.mean(path[:2]))})).view()
    assert path[1] < path[0] and first.needed == 1
    said = "the run is sampled here: the rounds it needs are counted for quadratic losses and independent clients"
    refused(MAKE["row"], {"problem": problems.random_logistic(3, 2, ridge=0.5, seed=0), "rounds": 3}, said)


def test_units_do_not_ask_for_the_dissimilarity():
    logistic = problems.random_logistic(3, 2, ridge=0.5, seed=0)
    made = MAKE["units"](None, case(problem=logistic, given={"G": 50}))
    assert made.kind == "units" and made.data["clients"] == "3" and "delta" not in made.data


# --- the elastic term's stability -----------------------------------------------------------------
def mixing(E, u=None, sampling=None, eta=0.125, **how):
    given = {"u_0": (np.array([[1.25, 0.5], [0.25, 1.5], [0.75, 0.125]]) if u is None else np.array(u)).tolist()}
    how = {"local_solver": LocalSGD(E, eta), **how}
    return MAKE["stability"](None, case(sampling, TURNED, EFL(lam=0.75), given=given, **how)).view()


def test_how_many_steps_and_whether_a_run_without_the_term_settles():
    for E, steps in ((1, ONE_STEP), (2, MORE), (3, MORE)):
        for eta, settles in ((0.125, True), (1.4, False)):
            known = {ONE_STEP: E == 1, MORE: E > 1, WITHOUT: settles, UNSTABLE: not settles, SINGLE: False, ALIKE: False}
            assert {fact: mixing(E, eta=eta).has(fact) for fact in known} == known and known[steps]
    assert mixing(1, sampling=Full(), local_solver=None).E == mixing(1, local_solver=None).E == 1


def test_a_coordinate_without_a_fisher_diagonal():
    """There V stays 0; a matrix of three rows: the margin is that of (w_1, w_2, V_1), lambda = 1 as any other."""
    view = mixing(1, [[1.25, 0.0], [0.25, 0.0], [0.75, 0.0]])
    mean = np.einsum("n,nij->ij", P, TURNED.hessians)
    u, U = np.array([1.25, 0.25, 0.75]), 2.25
    for lam in (0.75, 1.0):
        M = np.zeros((3, 3))
        M[:2, :2], M[0, 2] = np.eye(2) - 0.125 * mean - 0.125 * lam * np.diag([U, 0]), 0.125 * lam
        M[2, :2] = U * np.array([1 - 0.125 * lam * U, 0]) - 0.125 * np.einsum("n,nj->j", u, TURNED.hessians[:, 0])
        M[2, 2] = 0.125 * lam * U
        assert view.margin(lam) == pytest.approx([1 - abs(np.linalg.eigvals(M)).max()])


def test_every_round_is_looked_at():
    late = Irregular(1, lambda t: np.array([[0, 1], [0.25, 0.75] if t in (2, 51) else [0, 1], [0, 1]], dtype=float))
    assert mixing(1, sampling=Irregular(1, lambda t: late.laws(t + 49 if t > 1 else t)), rounds=1).E == 1
    with pytest.raises(InvalidInput, match="a client is inactive or incomplete"):
        mixing(1, sampling=late)
    assert mixing(1, sampling=Irregular(1, lambda t: late.laws(max(t, 3)))).E == 1
    for when in (1, 4, 5):
        law = Irregular(1, lambda t, when=when: np.array([[0, 1], [0.25, 0.75] if t == when else [0, 1], [0, 1]], dtype=float))
        if when == 5:
            assert mixing(1, sampling=law, rounds=4).E == 1
        else:
            with pytest.raises(InvalidInput, match="a client is inactive or incomplete"):
                mixing(1, sampling=law, rounds=4)


# --- Theorem 2 ------------------------------------------------------------------------------------
def test_samples_stand_for_weights_where_they_are_in_proportion(monkeypatch):
    def shift(weights):
        samples, targets = [ROWS[0][:3], np.concatenate(ROWS[1:])[:5]], [TARGETS[0][:3], TARGETS[1:].ravel()[:5]]
        return shift_on(problems.LeastSquares(samples, targets, 0.25, weights), "departure", 1)

    assert (shift("samples").n, shift("samples").n_a) == (8, 5)
    for weights in ([0.375 + 1e-7, 0.625 - 1e-7], [0.4, 0.6]):
        assert (shift(weights).n, shift(weights).n_a) == (pytest.approx(1), weights[1])
    monkeypatch.setattr(given, "distance_off", lambda problem, found: 0.125)
    view = shift("samples")
    assert view.noise == pytest.approx(2 * 0.25 * (view.distance_sq**0.5 + 0.25))
    with pytest.raises(InvalidInput, match="N = 1 client: with nobody left there is no new optimum, use at least two clients"):
        shift_on(problems.Quadratic([[[1.0]]], [[2.0]]), "departure", 0)
