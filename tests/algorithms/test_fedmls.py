"""FedMLS: rounds worked out by hand in fractions, mutants of every line that is easily got wrong, the switches, and bad input."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction as Q

import numpy as np
import pytest

from fedtheory import algorithms, errors, problems, simulate
from fedtheory.algorithms.fedmls import FedMLS, fedmls_parameters, fewest_rounds, local_steps, printed_rounds
from fedtheory.local import GradientSteps, SubgradientSliding
from fedtheory.participation.cohorts import Uniform
from fedtheory.problems.nonsmooth import LAD, L1Distance, MaxAffine

CENTERS = (3, 2, -1)
LINE = L1Distance(np.reshape(np.array(CENTERS, dtype=float), (3, 1)))  # f_i(x) = |x - c_i|
HAND = FedMLS(lam=2, D=8, rounds=2, radius=2, lipschitz=1, skip_last=False)


def close(actual, expected, **kw):
    np.testing.assert_allclose(np.asarray(actual, dtype=float), np.array(expected, dtype=float), **{"rtol": 1e-13, "atol": 1e-14} | kw)


def in_fractions(x0, lam, D, K, R, G=1, mutant="", average="averaged", server_projection=True):
    """Algorithm 1 on |x - c_i|, line by line in exact arithmetic, with named mistakes."""
    x = z = Q(x0)
    xl, zl = [x] * 3, [x] * 3
    out = []
    for k in range(1, K + 1):
        beta, gamma = Q(4) / (lam * k), Q(2, k + (2 if mutant == "gamma index" else 1))
        T = math.ceil(Q(4 * G**2) * lam**2 * K * k**2 / (2 * D))
        yl = [(1 - gamma) * a + gamma * b for a, b in zip(xl, zl, strict=True)]
        y = (1 - gamma) * x + gamma * z
        z = z - Q(k, 4) * (y - sum(yl) / 3)
        if server_projection:
            z = min(max(z, -R), R)
        x = (1 - gamma) * x + gamma * z
        for i, c in enumerate(CENTERS):
            u0 = u = average_u = zl[i]
            g = (yl[i] - y) / lam * (-1 if mutant == "sign of g" else 1)
            for t in range(1, T + 1):
                theta = Q(2 * (t + 1), t * (t + 3))
                step = 1 / ((1 + Q(t - (mutant == "t from 0"), 2)) * beta)
                u = u - step * ((u > c) - (u < c) + beta * (u - u0) + g)
                u = u if mutant == "no projection" else min(max(u, -R), R)
                average_u = (1 - theta) * average_u + theta * u
            zl[i] = u
            xl[i] = (1 - gamma) * xl[i] + gamma * (u if (average == "printed") != (mutant == "line 14") else average_u)
            if mutant == "average in z'":
                zl[i] = average_u
        out.append((x, z, tuple(xl), tuple(zl)))
    return out


def states(algorithm, x0, problem=LINE, **kw):
    return simulate(problem, algorithm, algorithm.rounds, x0=np.array(x0, dtype=float), keep_states=True, **kw).states[1:]


@pytest.fixture(params=["auto", "numpy"])
def solver(request):
    return SubgradientSliding(engine=request.param)


# --- by hand --------------------------------------------------------------------------------------
def test_two_rounds_by_hand(solver):
    # lambda = 2, K = 2, D~ = 8: T_1 = 4*4*2*1/16 = 2, T_2 = 8. Round 1: gamma = 1, beta = 2, y = y' = x_0 = 1, g = 0, so z_1 = x_1 = 1.
    # Clients at 3 and 2 have subgradient -1: 1 -> 1 + 1/3 = 4/3 -> 4/3 - (-1 + 2/3)/4 = 17/12; theta_2 = 3/5 gives the average
    # 2/5*4/3 + 3/5*17/12 = 83/60. The client at -1 has +1: 1 -> 2/3 -> 7/12, average 37/60.
    assert [HAND.steps(1), HAND.steps(2)] == [2, 8]
    one, two = states(HAND, [1], local_solver=solver)
    close(one.x, [[1]])
    close(one.z, [[1]])
    close(one.z_local, [[[Q(17, 12)], [Q(17, 12)], [Q(7, 12)]]])
    close(one.x_local, [[[Q(83, 60)], [Q(83, 60)], [Q(37, 60)]]])
    # Round 2: gamma = 2/3: y' = x'/3 + 2 z'/3 = 253/180, 253/180, 107/180 with mean 613/540; y = 1;
    # z_2 = 1 - 2/4 (1 - 613/540) = 1153/1080, x_2 = 1/3 + 2/3 z_2 = 1693/1620.
    close(two.z, [[Q(1153, 1080)]])
    close(two.x, [[Q(1693, 1620)]])


@pytest.mark.parametrize("average", ["averaged", "printed"])
@pytest.mark.parametrize("radius", [Q(5, 4), 4])  # the small ball cuts local steps and, with x_0 on its rim, the server
def test_rounds_in_exact_arithmetic(solver, average, radius):
    algorithm = FedMLS(2, 8, 4, float(radius), 1, average=average, skip_last=False)
    for got, (x, z, xl, zl) in zip(
        states(algorithm, [1], local_solver=solver), in_fractions(1, 2, 8, 4, radius, average=average), strict=True
    ):
        close(got.x, [[x]])
        close(got.z, [[z]])
        close(got.x_local[0, :, 0], xl)
        close(got.z_local[0, :, 0], zl)


@pytest.mark.parametrize("mutant", ["line 14", "no projection", "gamma index", "sign of g", "t from 0", "average in z'"])
def test_mutants_differ(solver, mutant):
    final = states(FedMLS(2, 8, 4, 1.25, 1, skip_last=False), [1], local_solver=solver)[-1]
    right, wrong = (in_fractions(1, 2, 8, 4, Q(5, 4), mutant=m)[-1] for m in ("", mutant))
    close(final.x, [[right[0]]])
    assert abs(float(final.x[0, 0]) - float(wrong[0])) > 1e-3


# --- steps and rounds in exact arithmetic ---------------------------------------------------------
def test_local_steps_where_floats_are_off_by_one():
    # 4 lambda^2 K k^2/(2 D) = 2 (1/10)^2 50 = 1 exactly; in floats 0.1**2 * 2 * 50 is 1.0000000000000002, whose ceiling is 2
    assert math.ceil(4 * 0.1**2 * 50 / 2) == 2
    assert local_steps(1, 0.1, 1, 50, 1) == 1 == local_steps(1, Q(1, 10), 1, 50, 1)
    off = [k for k in range(1, 601) if math.ceil(4 * 0.01**2 * 600 * k * k / 2) != local_steps(k, 0.01, 1, 600, 1)]
    assert len(off) > 10
    for k in off:
        assert local_steps(k, 0.01, 1, 600, 1) == -(-12 * k * k // 100)
    assert local_steps(3, 0.5, 2, 7, 3, 2) == math.ceil((4 * 9 + 4) * 0.25 * 7 * 9 / 4)
    assert local_steps(1, 1e-9, 1, 1, 1) == 1
    assert local_steps(1, Q(0.1), 1, 50, 1) == 2  # that binary fraction is a little more than 1/10


@pytest.mark.parametrize(("epsilon", "K", "total"), [(0.1, 60, 88_596), (0.03, 200, 967_292), (0.01, 600, 8_661_852)])
def test_theorem_2_counts(epsilon, K, total):
    assert fewest_rounds(epsilon, 1, 1) == K
    algorithm = fedmls_parameters(LINE, epsilon, 4.0, 1, lipschitz=1)
    assert (algorithm.rounds, algorithm.total_steps(skip_last=False)) == (K, total)
    assert algorithm.total_steps() == total - algorithm.steps(K)


@pytest.mark.parametrize("q", [Q(1), Q(1, 3), Q(17, 5), Q(100), Q(99_999, 1000), Q(2**60 + 1, 7)])
def test_rounds_are_the_least(q):
    K, printed = fewest_rounds(1, q, 1), printed_rounds(1, q, 1)
    assert K * (K + 1) >= 36 * q**2 > (K - 1) * K or K == 1
    assert printed**2 >= 72 * q**2 > (printed - 1) ** 2
    assert K <= printed


def test_rounds_of_perfect_squares():
    assert printed_rounds(Q(6), Q(1), Q(1)) == 2  # sqrt(2)
    assert [fewest_rounds(1, Q(g), 1) for g in (Q(1, 6), Q(1, 10))] == [1, 1]
    assert fewest_rounds(Q(36), Q(6), Q(1)) == 1  # K(K+1) >= 1
    assert fewest_rounds(Q(6), 1, Q(1)) == 1 and fewest_rounds(Q(3), 1, Q(1)) == 2  # K(K+1) >= 1 and >= 4


# --- switches -------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(5)
    return LAD(rng.standard_normal((4, 6, 3)), rng.standard_normal((4, 6)))


def short(problem, radius=3.0, rounds=6, **kw):
    return FedMLS(0.3, 1.0, rounds, radius, problem.lipschitz_rms(radius), **kw)


def test_the_first_round_stays(regression):
    one = simulate(regression, short(regression), 6, x0=[1.0, 0, -1], keep_states=True).states[1]
    close(one.x, [[1, 0, -1]])


def test_last_local_work_does_not_matter(regression):
    runs = [simulate(regression, short(regression, skip_last=s), 6).final for s in (True, False)]
    np.testing.assert_array_equal(runs[0].x, runs[1].x)
    assert np.abs(runs[0].z_local - runs[1].z_local).max() > 1e-3


def test_the_two_norms_are_one_algorithm(solver, regression):
    n, mean = regression.num_clients, replace(short(regression), sigma=0.5)
    mapped = replace(mean, norm="product", lam=n * mean.lam, D=n * mean.D, lipschitz=mean.lipschitz / 2, sigma=mean.sigma / 2)
    mixed = replace(mean, norm="product")
    kept = [simulate(regression, a, 6, keep_states=True, local_solver=solver) for a in (mean, mapped, mixed)]
    assert [mean.steps(k) for k in range(1, 7)] == [mapped.steps(k) for k in range(1, 7)]  # sqrt(n) = 2 is exact
    for a, b in zip(kept[0].states, kept[1].states, strict=True):
        for field in a._fields:
            close(getattr(a, field), getattr(b, field), rtol=1e-12, atol=1e-12)
    assert np.abs(kept[0].x - kept[2].x).max() > 1e-2


def test_server_projection():
    # two linear pulls to the same side: with no projection the server's momentum leaves the ball that holds every client
    problem = MaxAffine(np.array([[[-3.0]], [[-1.0]]]), np.zeros((2, 1)))
    on, off = (
        simulate(problem, FedMLS(2.0, 100, 12, 1.0, math.sqrt(5), server_projection=p), 12, x0=[0.9], keep_states=True)
        for p in (True, False)
    )
    largest = [max(float(np.abs(s.z).max()) for s in run.states) for run in (on, off)]
    assert largest[0] <= 1.0 < largest[1]
    assert all(np.abs(run.final.z_local).max() <= 1.0 for run in (on, off))


def test_what_travels(regression):
    seen = []
    algorithm = short(regression)
    simulate(regression, algorithm, 6, on_round=lambda t, old, new, clients: seen.append((old, clients.sent)))
    for k, (old, sent) in enumerate(seen, start=1):
        gamma = 2 / (k + 1)
        close(sent[0], (1 - gamma) * old.x_local + gamma * old.z_local)
        assert len(sent) == 1


def test_mini_batches_come_from_the_local_solver(regression):
    batches, whole = (SubgradientSliding(batch_size=b) for b in (2, None))
    runs = [simulate(regression, short(regression), 6, local_solver=replace(batches, engine=e)).x for e in ("numpy", "numba")]
    close(runs[0], runs[1], rtol=1e-12, atol=1e-12)
    assert np.abs(runs[0] - simulate(regression, short(regression), 6, local_solver=whole).x).max() > 1e-4


@pytest.mark.parametrize("dense", [True, False])
def test_scenarios_are_independent(regression, dense):
    x0 = np.random.default_rng(1).standard_normal((3, 3)) / 3
    options = dict(noise_std=0.2, sigma=0.2)
    whole = simulate(regression, short(regression, **options), 6, x0=x0, scenarios=3, seed=4, dense=dense)
    cut = simulate(regression, short(regression, **options), 6, x0=x0, scenarios=3, seed=4, chunk=1)
    close(whole.x, cut.x, rtol=1e-12, atol=1e-12)
    assert np.abs(whole.x[0] - simulate(regression, short(regression), 6, x0=x0[0]).x[0]).max() > 1e-4


@pytest.mark.parametrize("epsilon", [0.3, 0.1])
def test_theorem_2_delivers(regression, epsilon):
    problem = L1Distance(np.array([[0.5, 0.2], [-0.3, 0.4], [0.1, -0.6]]))  # the optimum is the coordinatewise median
    best, radius = np.array([0.1, 0.2]), 2.0
    for rounds in ("fewest", "printed"):
        algorithm = fedmls_parameters(problem, epsilon, radius, float(np.linalg.norm(best)), rounds=rounds)
        x = simulate(problem, algorithm, algorithm.rounds).x[0]
        assert 0 <= problem.objective(x) - problem.objective(best) <= epsilon


# --- bad input ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lam": 0.0}, "lam = 0.0: lambda must be a finite number > 0"),
        ({"lam": -1}, "lam = -1"),
        ({"lam": math.nan}, "lam = nan"),
        ({"D": 0}, "D = 0"),
        ({"rounds": 0}, "rounds = 0"),
        ({"rounds": 2.5}, "rounds = 2.5"),
        ({"radius": -2.0}, "radius = -2.0"),
        ({"lipschitz": math.inf}, "lipschitz = inf"),
        ({"sigma": -0.1}, "sigma = -0.1"),
        ({"noise_std": -0.1}, "noise_std is -0.1"),
        ({"average": "both"}, "average = 'both'"),
        ({"norm": "max"}, "norm = 'max'"),
    ],
)
def test_hyperparameters_out_of_range(change, words):
    with pytest.raises(errors.InvalidInput, match=words):
        replace(HAND, **change)


@pytest.mark.parametrize("epsilon", [0, -0.1, math.nan, math.inf, "small"])
def test_epsilon_out_of_range(epsilon):
    with pytest.raises(errors.InvalidInput, match=r"epsilon = .*must be a finite number > 0"):
        fedmls_parameters(LINE, epsilon, 4.0, 1.0)


def test_start_outside_the_ball():
    with pytest.raises(errors.InvalidInput, match=r"\|\|x_0\|\| = 2.5 is outside the ball of radius R = 2: enlarge"):
        simulate(LINE, HAND, 2, x0=[2.5])


def test_ball_without_the_optimum():
    problem = L1Distance(np.array([[5.0], [6.0], [7.0]]))
    with pytest.raises(errors.InvalidInput, match=r"holds no minimiser.*enlarge the radius"):
        fedmls_parameters(problem, 0.1, 4.0)
    with pytest.raises(errors.InvalidInput, match="outside the ball"):
        fedmls_parameters(problem, 0.1, 10.0, x0=[11.0])
    assert fedmls_parameters(problem, 0.5, 10.0).D == pytest.approx(36.0, rel=1e-6)


def test_no_lipschitz_constant():
    smooth = problems.random_quadratic(2, 3, 1)
    with pytest.raises(errors.MissingCapability, match="lipschitz"):
        fedmls_parameters(smooth, 0.1, 1.0, 1.0)


def test_rounds_and_cohorts_that_do_not_fit(regression):
    with pytest.raises(errors.InvalidInput, match="rounds = 5, but this FedMLS is made for K = 6"):
        simulate(regression, short(regression), 5)
    with pytest.raises(errors.InvalidInput, match=r"weights lie between 0.2 and 0.8.*weights='uniform'"):
        simulate(L1Distance([[1.0], [2.0]], weights=[0.2, 0.8]), HAND, 2)
    with pytest.raises(errors.InvalidInput, match="FedMLS needs every client"):
        simulate(regression, short(regression), 6, sampling=Uniform(2))


@pytest.mark.parametrize("algorithm", [FedMLS(1e3, 1e-3, 2000, 2.0, 1.0), FedMLS(1e-9, 1.0, 10**9, 2.0, 1.0)])
def test_hours_are_announced(algorithm):
    with pytest.raises(errors.InvalidInput, match=r"would take about [\d.,e+]+ (hours|days|years) here: .*allow_long=True"):
        simulate(LINE, algorithm, algorithm.rounds)


def test_registry():
    assert algorithms.get("fedmls") is FedMLS


# --- what FedMLS is compared with runs on nonsmooth problems --------------------------------------
@pytest.mark.parametrize("algorithm", [algorithms.FedAvg(), algorithms.FedProx(0.5)])
def test_local_subgradient_steps(regression, algorithm):
    run = simulate(regression, algorithm, 200, local_solver=GradientSteps(5, 0.02, decay=0.98))
    values = run.metrics["objective"][:, 0]
    assert values[-1] - regression.optimum_on_ball(5.0).value < 0.05 * (values[0] - regression.optimum_on_ball(5.0).value)
