"""Algorithm 3 where it does not converge, in exact fractions: stalls, cycles, repelling optima.

One client, L(x) = h x^2/2, one coordinate: a round is worked out here by hand and run with fractions; float64 follows.
"""

from __future__ import annotations

import itertools
from fractions import Fraction as F

import numpy as np
import pytest

from fedtheory import problems, simulate
from fedtheory.algorithms import FedElasticNetDyn
from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDynState
from fedtheory.clients.clients import Clients
from fedtheory.local import Exact
from fedtheory.participation.cohorts import Full


def one_round(theta: F, g: F, h: F, l1: F, l2: F, rule: str) -> tuple[F, F]:
    """(theta, g) -> (theta, g) after a round with m = P = 1."""
    v = g - h * theta  # minus the gradient of the smooth part at theta
    delta = (abs(v) > l1) * (v - l1 * ((v > 0) - (v < 0))) / (h + l2)
    y = theta + delta
    g = g - l2 * delta - l1 * ((delta > 0) - (delta < 0)) if rule == "sign" else h * y
    return y - g / l2, g


def library_round(theta: float, g: float, h: float, l1: float, l2: float, rule: str) -> tuple[float, float]:
    problem = problems.Quadratic([[[h]]], [[0.0]])
    x, stored = np.array([[theta]]), np.array([[[g]]])
    state = FedElasticNetDynState(x, stored, stored[:, 0], stored + 0)
    clients = Clients(problem, Full().enumerate(1), Exact(), x)
    new = FedElasticNetDyn(l1, l2, rule).round(state, clients)
    return float(new.x[0, 0]), float(new.stored[0, 0, 0])


@pytest.mark.parametrize("rule", ["sign", "true-gradient"])
def test_the_hand_written_round_is_the_librarys(rule):
    rng = np.random.default_rng(0)
    for _ in range(50):
        theta, g, h, l1, l2 = (F(int(n), 64) for n in rng.integers(1, 256, 5))
        theta, g = theta - 2, g - 2
        expected = one_round(theta, g, h, l1, l2, rule)
        found = library_round(*map(float, (theta, g, h, l1, l2)), rule)
        assert np.allclose(found, [float(e) for e in expected], rtol=1e-12, atol=1e-12)


def orbit(theta: F, g: F, l1: F, l2: F, rule: str, length: int) -> list[tuple[F, F]]:
    out = [(theta, g)]
    for _ in range(length):
        out.append(one_round(*out[-1], F(1), l1, l2, rule))
    return out


def test_the_sign_rule_cycles_although_lambda_2_is_above_27_beta():
    """lambda_2 = 1679/60 beta, lambda_1 = 1: an orbit of period 112 that never stalls; its mean is the optimum."""
    l2, g = F(1679, 60), F(30, 59)
    path = orbit(g - g / l2, g, F(1), l2, "sign", 112)
    assert l2 > 27
    assert path[112] == path[0]
    assert all(path[k] != path[0] for k in range(1, 112))
    gammas = [theta + g / l2 for theta, g in path[:112]]
    assert sum(gammas) == 0
    assert F(43, 1000) < sum(x * x / 2 for x in gammas) / 112 < F(44, 1000)


def test_a_short_cycle_of_the_sign_rule():
    l2, g = F(3, 4), F(2, 3)
    path = orbit(g - g / l2, g, F(1), l2, "sign", 4)
    assert path[4] == path[0] and path[2] != path[0] and path[1] != path[0]


@pytest.mark.parametrize("rule", ["sign", "true-gradient"])
@pytest.mark.parametrize("l2", [F(1, 4), F(2, 5), F(49, 100)])
def test_below_half_of_beta_both_rules_have_a_two_cycle_and_it_attracts(rule, l2):
    """gamma = +-lambda_1/(2 lambda_2 + beta), for every lambda_2 < beta/2."""
    gamma = F(1) / (2 * l2 + 1)
    path = orbit(gamma * (1 - 1 / l2), gamma, F(1), l2, rule, 2)
    assert path[1] == (-path[0][0], -path[0][1]) and path[2] == path[0]
    nearby = orbit(path[0][0] + F(1, 1000), path[0][1], F(1), l2, rule, 20)
    assert abs(nearby[20][0] - path[0][0]) < F(1, 10_000)


def test_above_half_of_beta_the_true_gradient_rule_converges_there():
    path = orbit(F(1), F(0), F(1), F(51, 100), "true-gradient", 60)
    float_path = [(1.0, 0.0)]
    for _ in range(2000):
        float_path.append(library_round(*float_path[-1], 1.0, 1.0, 0.51, "true-gradient"))
    assert abs(path[60][0]) < 1
    assert abs(float_path[-1][0]) < 1e-8


@pytest.mark.parametrize(("quartic", "grows"), [(F(1), True), (F(0), None), (F(-1), False)])
def test_at_equality_the_next_term_decides_whether_the_optimum_repels(quartic, grows):
    """L = x^2/2 + q x^4 near 0 and lambda_2 = L''(0)/2: nobody moves (delta = 0), so x -> x - 2 L'(x) = -x - 8 q x^3 under the
    true-gradient rule. q = 1 repels, q = 0 swings for ever, q = -1 (convex near 0) attracts."""
    l1, l2 = F(1), F(1, 2)

    def slope(x: F) -> F:
        return x + 4 * quartic * x**3

    theta, stored = F(1, 100), slope(F(1, 100))
    for _ in range(4):
        assert abs(stored - slope(theta)) <= l1  # so y = theta solves the local problem
        stored = slope(theta)
        before, theta = theta, theta - stored / l2
        assert theta == -before - 8 * quartic * before**3
        assert (abs(theta) > abs(before)) is (grows is True) and (abs(theta) < abs(before)) is (grows is False)


def test_at_equality_a_logistic_optimum_attracts():
    """log cosh(x/2) has L''(0) = 1/4; with lambda_2 = 1/8 the library's runs come nearer to 0 in every round."""
    problem = problems.Logistic([[[1.0], [-1.0]]], [[1.0, 1.0]])
    run = simulate(problem, FedElasticNetDyn(1.0, 0.125, "true-gradient"), 60, x0=[0.3], keep_states=True)
    sizes = [abs(float(state.x[0, 0])) for state in run.states]
    assert all(b < a for a, b in itertools.pairwise(sizes[:60])) and sizes[-1] < 0.27


def test_a_state_stalls_if_and_only_if_every_client_is_within_lambda_1_and_h_is_0():
    """The condition per client is needed: the joint one, max |dR| <= lambda_1 and h = 0, is not enough."""
    problem = problems.Quadratic([[[1.0]], [[1.0]]], [[-3.0], [3.0]])
    x = np.zeros((1, 1))
    zero = np.zeros((1, 2, 1))

    def moves(stored: np.ndarray, h: np.ndarray, l1: float) -> bool:
        state = FedElasticNetDynState(x, stored, h, zero)
        clients = Clients(problem, Full().enumerate(2), Exact(), x)
        new = FedElasticNetDyn(l1, 30.0).round(state, clients)
        return bool(np.abs(new.x - x).max() > 0 or np.abs(new.stored - stored).max() > 0)

    gradients = problem.gradient(x)  # 3 and -3, mean 0
    assert not moves(zero, x, 3.0)  # |g_k - grad L_k| = 3 <= lambda_1
    assert moves(zero, x, 2.0)  # joint condition holds (dR = 0), the clients' does not
    assert not moves(gradients, x, 0.5)
    assert moves(gradients + 0.25, x + 0.25, 0.5)  # within lambda_1, but h is not 0: theta drifts by -h/lambda_2


def test_a_run_that_never_moves():
    """Started at ||grad L_k|| <= lambda_1, the sign rule stays for ever, wherever the optimum is."""
    problem = problems.Quadratic([[[1.0, 0], [0, 0.5]]], [[0.0, 0.0]])
    run = simulate(problem, FedElasticNetDyn(1.0, 28.0), 50, x0=[0.9, -1.5])
    assert (run.x == [[0.9, -1.5]]).all()
    moved = simulate(problem, FedElasticNetDyn(1.0, 28.0, "true-gradient"), 50, x0=[0.9, -1.5])
    assert np.abs(moved.x).max() < 1.0


def test_identical_clients_with_full_participation_align_their_signs():
    """The mean of the sign vectors is +-1 wherever anything moves: nothing averages out, however many clients there are."""
    one = problems.random_quadratic(1, 3, seed=4, heterogeneity=0.0)
    problem = problems.Quadratic(np.repeat(one.hessians, 20, axis=0), np.repeat(one.minimisers, 20, axis=0))
    moved = []

    def look(t, old, new, clients):
        delta = clients.results[-1].y - clients.broadcast(old.x)
        signs = np.sign(delta).mean(axis=1)
        assert (np.abs(signs)[signs != 0] == 1).all()
        moved.append(bool((signs != 0).any()))

    for rule in ("sign", "true-gradient"):
        algorithm = FedElasticNetDyn(0.05, 3.0, rule)
        simulate(problem, algorithm, 20, x0=problem.minimisers[0] + 2, on_round=look)
    assert sum(moved) > 10


@pytest.mark.parametrize("n", [3, 10, 57, 400])
def test_cycles_for_arbitrarily_large_lambda_2(n):
    """Period 2N whenever u = (N - 2 lambda_2)(lambda_2 + 1) lies in (0, 1], from g = 1/(2 - u/(lambda_2 + 1)) (beta = lambda_1 = 1)."""
    l2 = F(n, 2) - F(1, 4 * n)  # N - 2 lambda_2 = 1/(2N)
    u = (n - 2 * l2) * (l2 + 1)
    assert 0 < u <= 1
    g = 1 / (2 - u / (l2 + 1))
    path = orbit(g - g / l2, g, F(1), l2, "sign", 2 * n)
    assert path[2 * n] == path[0] and all(path[k] != path[0] for k in range(1, 2 * n))
