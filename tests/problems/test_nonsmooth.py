"""Nonsmooth problems: subgradients, their selection at kinks, Lipschitz constants on a ball, and what the instances promise."""

import math
from functools import cache

import array_api_strict
import cvxpy as cp
import numpy as np
import pytest
import torch
from cases import each
from problem_makers import NONSMOOTH

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.problems import (
    LAD,
    ArjevaniShamir,
    EuclideanDistance,
    Hinge,
    L1Distance,
    LeastSquares,
    MaxAffine,
    MaximumAndChain,
    NesterovWorst,
    Quantile,
    TwoClientPull,
    random_hinge,
    random_lad,
    random_max_affine,
    random_quantile,
)
from fedtheory.problems.lipschitz import largest_slope, point_in_ball


@pytest.fixture(params=NONSMOOTH)
def problem(request):
    return NONSMOOTH[request.param]()


def _in_ball(problem, radius, count, seed=0):
    g = np.random.default_rng(seed)
    x = g.normal(size=(count, problem.dim))
    return x * (radius * g.random((count, 1)) ** (1 / problem.dim) / np.linalg.norm(x, axis=1, keepdims=True))


def _kinks(problem):
    """Points on the kinks: 0, centres, and solutions of as many kink equations as there are coordinates."""
    points = [np.zeros(problem.dim)]
    form = problem.nonsmooth_structure()
    if len(form.rows):
        g = np.random.default_rng(0)
        for _ in range(10):
            j = g.choice(len(form.rows), size=min(problem.dim, 2), replace=False)
            points.append(np.linalg.lstsq(form.rows[j], form.offsets[j], rcond=None)[0])
    points += list(form.centers)
    return np.array(points)


def test_subgradient_inequality(problem):
    x = np.concatenate([_in_ball(problem, 2.0, 40), _kinks(problem)])
    y = np.concatenate([_in_ball(problem, 3.0, 200, seed=1), _kinks(problem)])
    values, grads, others = problem.client_losses(x), problem.gradient(x), problem.client_losses(y)
    for k in range(problem.num_clients):
        planes = values[:, None, k] + np.einsum("bd,bcd->bc", grads[:, k], y[None] - x[:, None])
        scale = 1 + np.abs(others[:, k]).max() + np.abs(values[:, k]).max()
        assert (others[None, :, k] - planes).min() >= -1e-12 * scale


def test_gradient_is_the_difference_quotient_off_the_kinks(problem):
    x, step = _in_ball(problem, 1.0, 5, seed=3), 1e-6
    directions = np.eye(problem.dim) * step
    quotient = (problem.client_losses(x[:, None] + directions) - problem.client_losses(x[:, None] - directions)) / (2 * step)
    scale = np.abs(problem.gradient(x)).max()
    np.testing.assert_allclose(np.swapaxes(quotient, 1, 2), problem.gradient(x), atol=1e-7 * scale)


@pytest.mark.parametrize("radius", [0.2, 1.0, 5.0])
def test_lipschitz_bounds_every_sampled_subgradient(problem, radius):
    bound = problem.lipschitz(radius)
    kinks = _kinks(problem)
    x = np.concatenate([_in_ball(problem, radius, 3000), kinks[np.linalg.norm(kinks, axis=1) <= radius]])
    sampled = np.linalg.norm(problem.gradient(x), axis=-1).max(axis=0)
    assert (sampled <= bound * (1 + 1e-12)).all()
    assert problem.lipschitz_rms(radius) == pytest.approx(np.sqrt(np.mean(bound**2)), rel=1e-14)
    # and with it the values: |f_k(x) - f_k(y)| <= G_k ||x - y||
    y = _in_ball(problem, radius, len(x), seed=9)
    change = np.abs(problem.client_losses(x) - problem.client_losses(y))
    assert (change <= bound * np.linalg.norm(x - y, axis=1)[:, None] * (1 + 1e-9) + 1e-12).all()


ATTAINED = ["lad", "lad in the plane", "quantile", "hinge", "max of affine", "l1 distance", "euclidean", "pull", "chain"]


@pytest.mark.parametrize("name", ATTAINED)
@pytest.mark.parametrize("radius", [0.5, 3.0])
def test_exact_constants_are_attained(name, radius):
    problem = NONSMOOTH[name]()
    assert problem.lipschitz_exact(radius).all()
    g = np.random.default_rng(5)
    x = np.concatenate([_in_ball(problem, radius, 40_000), _in_ball(problem, radius * 0.01, 200)])
    sphere = g.normal(size=(40_000, problem.dim))  # outer cells may be slivers at the sphere
    x = np.concatenate([x, sphere * (radius / np.linalg.norm(sphere, axis=1, keepdims=True))])
    sampled = np.linalg.norm(problem.gradient(x), axis=-1).max(axis=0)
    np.testing.assert_allclose(sampled, problem.lipschitz(radius), rtol=1e-10)


def test_exact_constants_with_a_ridge_are_attained_where_said():
    problem, radius = random_hinge(3, 6, 3, ridge=0.4, seed=3), 6.0
    exact, bound = problem.lipschitz_exact(radius), problem.lipschitz(radius)
    assert exact.any()
    for k in np.nonzero(exact)[0]:
        # the steepest point is radius * g/||g||: from any start, alternate "go where the hinge part points"
        x = _in_ball(problem, radius, 2000, seed=7)
        for _ in range(5):
            g = problem.gradient(x)[:, k] - 0.4 * x
            size = np.linalg.norm(g, axis=1, keepdims=True)
            x = np.where(size > 0, radius * g / np.where(size > 0, size, 1), x)
        assert np.linalg.norm(problem.gradient(x)[:, k], axis=1).max() == pytest.approx(bound[k], rel=1e-12)


def test_nesterov_constant_is_attained():
    problem = NesterovWorst(5)
    at = np.zeros(5)
    at[0] = 2.0
    assert np.linalg.norm(problem.gradient(at)[0]) == pytest.approx(problem.lipschitz(2.0)[0], rel=1e-15)


@cache
def _every_sign_pattern():
    """Kinks in 1 to 3 dimensions, each with the slope of every sign pattern and how far from 0 its cell is."""
    g, made = np.random.default_rng(11), []
    for dim in (1, 2, 3):
        for whole in (False, True):
            rows = g.integers(-2, 3, size=(6, dim)).astype(float) if whole else g.normal(size=(6, dim))
            offsets = g.integers(-2, 3, size=6) + 0.3 if whole else g.normal(size=6)
            low, high = -g.random(6), g.random(6)
            signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 6)).reshape(6, -1).T
            cells = [(np.linalg.norm(np.where(s > 0, high, low) @ rows), _least_norm(rows * s[:, None], offsets * s)) for s in signs]
            made.append(((rows, offsets, low, high), cells))
    return made


@pytest.mark.parametrize("radius", [0.3, 1.0, 3.0, np.inf])
def test_cells_agree_with_trying_every_sign_pattern(radius):
    for kinks, cells in _every_sign_pattern():
        best = max(slope for slope, away in cells if away <= radius)
        size, exact = largest_slope(*kinks, radius)
        assert exact and size == pytest.approx(best, rel=1e-9)


def _least_norm(rows, rhs):
    """min ||x|| over rows x >= rhs by another route: cvxpy."""
    x = cp.Variable(rows.shape[1])
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x)), [rows @ x >= rhs])
    value = problem.solve(solver=cp.CLARABEL)
    return np.sqrt(max(value, 0.0)) if np.isfinite(value) else np.inf


def test_a_search_cut_short_still_bounds_and_says_so():
    problem = random_lad(1, 14, 4, seed=4)
    rows, offsets, ones = problem.features[0], problem.targets[0], np.full(14, 1 / 14)
    full, exact = largest_slope(rows, offsets, -ones, ones, 1.0, nodes=10**6)
    cut, cut_exact = largest_slope(rows, offsets, -ones, ones, 1.0, nodes=5)
    assert exact and not cut_exact and full <= cut <= np.linalg.norm(rows, axis=1).mean() * (1 + 1e-12)


def test_point_in_ball():
    rows, rhs = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([3.0, 4.0])
    np.testing.assert_allclose(point_in_ball(rows, rhs, 5.1), [3, 4], atol=1e-9)
    assert point_in_ball(rows, rhs, 4.9) is None
    assert point_in_ball(np.array([[1.0], [-1.0]]), np.array([1.0, 1.0]), np.inf) is None


def test_selection_at_kinks():
    assert LAD([[[2.0]]], [[4.0]]).gradient(np.array([2.0]))[0, 0] == 0
    assert Quantile([[[2.0]]], [[4.0]], 0.3).gradient(np.array([2.0]))[0, 0] == 0
    assert Hinge([[[2.0]]], [[1.0]]).gradient(np.array([0.5]))[0, 0] == 0
    assert MaxAffine([[[1.0], [-1.0]]], [[0.0, 0.0]]).gradient(np.array([0.0]))[0, 0] == 1
    np.testing.assert_array_equal(NesterovWorst(3).gradient(np.zeros(3))[0], [1, 0, 0])
    np.testing.assert_array_equal(EuclideanDistance([[1.0, 2.0]]).gradient(np.array([1.0, 2.0])), [[0, 0]])
    np.testing.assert_array_equal(L1Distance([[1.0, 2.0]]).gradient(np.array([1.0, 3.0])), [[0, 1]])


def test_values_by_hand():
    one = [[[1.0, 2.0], [3.0, -1.0]]]
    x = np.array([1.0, 1.0])  # predictions 3, 2
    assert LAD(one, [[1.0, 4.0]]).objective(x) == 2.0
    assert Quantile(one, [[1.0, 4.0]], 0.25).objective(x) == (0.75 * 2 + 0.25 * 2) / 2
    assert Hinge(one, [[1.0, -1.0]], 0.5).objective(x) == 3 / 2 + 0.5
    assert MaxAffine(one, [[0.0, 2.0]]).objective(x) == 4.0
    assert NesterovWorst(2, mu=1.0).objective(x) == 2.0
    pull = TwoClientPull(0.1)
    np.testing.assert_allclose(pull.client_losses(np.array([1.0, 0.0])), [1.2, -1 + np.sqrt(2) / 2 + 0.2], atol=3e-16)
    chain = ArjevaniShamir(2)
    np.testing.assert_allclose(
        chain.client_losses(np.array([1.0, 3, 4, 8])), [0.5 / np.sqrt(2) + 1 / np.sqrt(8), (2 + 4) / np.sqrt(8)], rtol=1e-15
    )


def test_two_client_pull_constants_and_runaway():
    problem = TwoClientPull(0.05)
    np.testing.assert_allclose(problem.lipschitz(4.0), [np.hypot(1, 0.1), np.hypot(1 + np.sqrt(2), 0.1)], rtol=1e-15)
    assert problem.lipschitz_exact(4.0).all() and problem.objective(problem.minimiser) == 0
    far = np.array([[-50.0, 1.0], [50.0, 1.0]])
    assert problem.client_losses(far)[0, 0] < -40  # client 1 alone runs to the left


def test_nesterov_resists_span_methods():
    problem = NesterovWorst.for_epsilon(0.1)
    assert problem.dim == 24
    x, target = np.zeros(24), problem.least_value(4.0)
    rng = np.random.default_rng(0)
    seen = []
    for _ in range(problem.dim - 1):
        seen.append(problem.gradient(x)[0])
        x = -rng.random(len(seen)) @ np.array(seen)  # whatever the combination
        assert problem.objective(x) - target > 0.1


def test_chain_reveals_one_coordinate_a_round():
    problem = ArjevaniShamir(4)
    for known in range(problem.dim):
        x = cp.Variable(problem.dim)
        best = cp.Problem(cp.Minimize(problem.cvxpy_objective(x)), [x[known:] == 0]).solve(solver=cp.CLARABEL)
        assert best == pytest.approx(problem.least_after(known), abs=1e-8)
    g = np.random.default_rng(0)
    for known in range(problem.dim - 1):
        x = np.zeros(problem.dim)
        x[:known] = g.random(known)
        for k in range(2):  # any local work: repeated subgradient steps of random size
            y = x.copy()
            for _ in range(50):
                y = y - g.random() * problem.gradient(y)[k]
            assert not y[known + 1 :].any()
    long = ArjevaniShamir.for_epsilon(0.01)
    assert long.least_after(long.dim - 1) > 0.01 >= ArjevaniShamir(long.length + 2).least_after(long.dim)


def test_minibatch_subgradients_are_unbiased_and_their_noise_is_bounded():
    for problem in (random_lad(3, 6, 2, seed=5), random_quantile(3, 6, 2, seed=5), random_hinge(3, 6, 2, ridge=0.2, seed=5)):
        y = np.random.default_rng(0).normal(size=(3, 4, 2))
        singles = np.stack([problem.client_batch_gradient(y, np.full((3, 4, 1), j)) for j in range(6)])
        full = problem.client_gradient(y)
        np.testing.assert_allclose(singles.mean(axis=0), full, atol=1e-14)
        noise_sq = ((singles - full) ** 2).sum(axis=-1).mean(axis=0)  # exact: every sample equally likely
        assert (noise_sq <= problem.batch_noise_sq(2.0, 1)[:, None] * (1 + 1e-12)).all()
        pairs = np.stack([
            problem.client_batch_gradient(y, np.broadcast_to([i, j], (3, 4, 2))) for i in range(6) for j in range(6)
        ])
        exact = ((pairs - full) ** 2).sum(axis=-1).mean(axis=0)
        np.testing.assert_allclose(exact, noise_sq / 2, rtol=1e-12)
        assert (exact <= problem.batch_noise_sq(2.0, 2)[:, None] * (1 + 1e-12)).all()


def test_namespaces_agree(problem):
    x = np.concatenate([_in_ball(problem, 2.0, 6), _kinks(problem)[:1]])
    for to in (torch.asarray, array_api_strict.asarray):
        other = to(x)
        np.testing.assert_allclose(np.asarray(problem.client_losses(other)), problem.client_losses(x), atol=1e-13)
        np.testing.assert_allclose(np.asarray(problem.gradient(other)), problem.gradient(x), atol=1e-13)


def test_subsets_keep_the_constants(problem):
    last = problem.num_clients - 1
    part = problem.subset(np.array([last, 0]))
    np.testing.assert_array_equal(part.lipschitz(2.0), problem.lipschitz(2.0)[[last, 0]])
    y = _in_ball(problem, 1.0, 3)
    np.testing.assert_allclose(part.client_losses(y), problem.client_losses(y)[:, [last, 0]], atol=1e-14)


def test_missing_capabilities(problem):
    for ask, named in ((problem.smoothness, "smoothness"), (lambda: problem.beta_k, "smoothness")):
        with pytest.raises(MissingCapability, match=named):
            ask()
    with pytest.raises(MissingCapability, match="client_hessian"):
        problem.full_hessian(np.zeros(problem.dim))


def test_problems_without_a_constant_say_so():
    smooth = LeastSquares([[[1.0]]], [[1.0]])
    for ask in (smooth.lipschitz, smooth.lipschitz_rms, smooth.lipschitz_exact):
        with pytest.raises(MissingCapability, match="capability 'lipschitz'"):
            ask(1.0)
    with pytest.raises(MissingCapability, match="nonsmooth_structure"):
        smooth.optimum_on_ball(1.0)
    with pytest.raises(MissingCapability, match="batch_noise_sq"):
        TwoClientPull(0.1).batch_noise_sq(1.0, 1)


BAD = {
    "tau": lambda: Quantile([[[1.0]]], [[1.0]], 1.0),
    "labels of client 1": lambda: Hinge([[[1.0]], [[1.0]]], [[1.0], [0.0]]),
    "ridge": lambda: Hinge([[[1.0]]], [[1.0]], -1.0),
    "slopes .* and offsets": lambda: MaxAffine(np.ones((2, 3, 4)), np.ones((2, 4))),
    r"slopes\[0, 0, 0\] is nan": lambda: MaxAffine([[[np.nan]]], [[0.0]]),
    "centers has shape": lambda: L1Distance(np.ones(3)),
    r"centers\[1, 0\] is inf": lambda: EuclideanDistance([[0.0], [np.inf]]),
    "epsilon is 0": lambda: TwoClientPull(0),
    "epsilon is -1": lambda: NesterovWorst.for_epsilon(-1),
    "epsilon is 0.6": lambda: NesterovWorst.for_epsilon(0.6),
    "epsilon is 0.5": lambda: ArjevaniShamir.for_epsilon(0.5),
    "n is 0": lambda: NesterovWorst(0),
    "mu is -1": lambda: NesterovWorst(3, mu=-1),
    "both must be even": lambda: ArjevaniShamir(3),
    "known is 6": lambda: ArjevaniShamir(4).least_after(6),
    "it must lie below 0.0625": lambda: MaximumAndChain.for_epsilon(0.07),
    "radius is 0": lambda: LAD([[[1.0]]], [[1.0]]).lipschitz(0),
    "radius is nan": lambda: LAD([[[1.0]]], [[1.0]]).lipschitz(float("nan")),
    "radius is inf": lambda: LAD([[[1.0]]], [[1.0]]).optimum_on_ball(float("inf")),
    "batch_size is 0": lambda: LAD([[[1.0]]], [[1.0]]).batch_noise_sq(1.0, 0),
    "unequal is 0.5": lambda: random_lad(unequal=0.5),
    "samples is 0": lambda: random_quantile(samples=0),
}


@each("message", BAD)
def test_bad_input(message):
    with pytest.raises(InvalidInput, match=message):
        BAD[message]()


def test_generators_are_seeded_and_unequal():
    first, again, other = (random_lad(5, 8, 2, seed=s, unequal=1000.0) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.features, again.features)
    assert np.abs(first.features - other.features).max() > 0.1
    g = first.lipschitz(2.0)
    assert g[-1] / g[0] > 200
    steep = random_max_affine(5, 6, 2, seed=1, unequal=1000.0).lipschitz(2.0)
    assert steep[-1] / steep[0] > 200


def test_the_plane_agrees_with_the_search_on_instances_with_ties(monkeypatch):
    from fedtheory.problems import lipschitz as cells

    g = np.random.default_rng(5)
    for trial in range(30):
        n, whole = int(g.integers(1, 10)), trial % 2
        rows = g.integers(-2, 3, size=(n, 2)).astype(float) if whole else g.normal(size=(n, 2))
        offsets = g.integers(-2, 3, size=n).astype(float) if whole else g.normal(size=n)
        low, high = -g.random(n), g.random(n)
        for radius in (0.3, 1.0, 3.0):  # with integers, lines that only touch the circle
            monkeypatch.setattr(cells, "PLANE", 4000)
            plane = largest_slope(rows, offsets, low, high, radius)
            monkeypatch.setattr(cells, "PLANE", 0)
            searched = largest_slope(rows, offsets, low, high, radius, nodes=10**6)
            assert plane[1] and searched[1] and plane[0] == pytest.approx(searched[0], rel=1e-12)


def test_a_maximum_and_a_chain_are_revealed_slowly():
    problem = MaximumAndChain(3, 2, 2)
    p, m, n, rng = math.sqrt(0.5), problem.share, problem.count, np.random.default_rng(0)
    assert (m, n, problem.dim) == (3, 6, 10)
    assert problem.objective(problem.minimiser) == pytest.approx(-p / math.sqrt(6), rel=1e-15) == problem.least_value
    assert np.linalg.norm(problem.minimiser) == pytest.approx(math.sqrt(2), rel=1e-15)
    assert problem.optimum_on_ball(2.0).value == pytest.approx(problem.least_value, abs=1e-9)
    seen, x = [], np.zeros(problem.dim)
    for _ in range(m - 1):  # one subgradient of each client a round, whatever the combination
        seen += list(problem.gradient(x))
        x = -rng.random(len(seen)) @ np.array(seen)
        assert problem.objective(x) >= 0 and all((x[:n][s] == 0).any() for s in problem.shares)
    for client in range(2):  # alone, with any number of local steps
        y = np.zeros(problem.dim)
        for _ in range(200):
            y = y - 0.2 * rng.random() * problem.gradient(y)[client]
        assert not y[:n][problem.shares[1 - client]].any()
        assert problem.objective(y) - problem.least_value >= (1 - 1 / 2) * p / math.sqrt(6) - 1e-12
    for known in range(4):  # of the chain
        v = cp.Variable(problem.dim)
        best = cp.Problem(cp.Minimize(problem.cvxpy_objective(v)), [v[n + known :] == 0]).solve(solver=cp.CLARABEL)
        assert best - problem.least_value == pytest.approx(p * ArjevaniShamir(2).least_after(known), abs=1e-8)


@pytest.mark.parametrize("clients", [2, 6])
def test_the_largest_maximum_and_chain_for_an_accuracy(clients):
    epsilon, p = 0.02, math.sqrt(0.5)
    problem = MaximumAndChain.for_epsilon(epsilon, clients)
    assert p / math.sqrt(problem.count) > epsilon >= p / math.sqrt(problem.count + clients)
    links = problem.length
    assert p * ArjevaniShamir(links).least_after(links + 1) > epsilon >= p * ArjevaniShamir(links + 2).least_after(links + 3)
