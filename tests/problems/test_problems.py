"""The contract of problem classes: derivatives, constants, batching, namespaces, refusals."""

import copy
import pickle

import array_api_strict
import cvxpy as cp
import numpy as np
import pytest
import torch
from problem_makers import DIM, SIZES, SMOOTH, Of
from scipy.optimize import linprog

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.problems import (
    Huber,
    LeastSquares,
    LinearModel,
    Logistic,
    Problem,
    Quadratic,
    SmoothedMaxAffine,
    Softmax,
)

ONE = [[[1.0, 2.0]], [[3.0, 4.0]]]  # two clients, one sample each
SAMPLED = [name for name, make in SMOOTH.items() if isinstance(make, Of)]


@pytest.fixture(params=SMOOTH)
def problem(request):
    return SMOOTH[request.param]()


@pytest.fixture(params=SAMPLED)
def sampled(request):
    return SMOOTH[request.param]


def _points(problem, count, scale=1.0, seed=0):
    return scale * np.random.default_rng(seed).normal(size=(count, problem.dim))


def _hessians(problem, x):
    """(N, B, d, d) at points x (B, d)."""
    y = np.broadcast_to(x, (problem.num_clients, *x.shape))
    return np.broadcast_to(problem.client_hessian(y), (*y.shape, problem.dim))


# --- derivatives ----------------------------------------------------------------------------------
def test_gradient_is_the_derivative_of_the_value(problem):
    x, step = _points(problem, 4), 1e-5
    moves = step * np.eye(problem.dim)
    slopes = np.stack([(problem.client_losses(x + e) - problem.client_losses(x - e)) / (2 * step) for e in moves], axis=-1)
    np.testing.assert_allclose(problem.gradient(x), slopes, rtol=0, atol=1e-9 * max(1.0, np.abs(slopes).max()))


def test_hessian_is_the_derivative_of_the_gradient(problem):
    x, step = _points(problem, 4), 1e-6
    moves = step * np.eye(problem.dim)
    bends = np.stack([(problem.gradient(x + e) - problem.gradient(x - e)) / (2 * step) for e in moves], axis=-1)
    hessians = _hessians(problem, x)
    np.testing.assert_allclose(hessians, bends.transpose(1, 0, 2, 3), rtol=0, atol=1e-8 * max(1.0, np.abs(bends).max()))
    np.testing.assert_allclose(hessians, hessians.transpose(0, 1, 3, 2), rtol=0, atol=1e-14 * np.abs(hessians).max())
    joint = np.einsum("n,nij->ij", problem.weights, hessians[:, 0])
    np.testing.assert_allclose(problem.full_hessian(x[0]), joint, rtol=1e-13, atol=1e-14)


def test_value_minus_cvxpy_objective_is_rounding(problem):
    variable = cp.Variable(problem.dim)
    try:
        expression = problem.cvxpy_objective(variable)
    except MissingCapability as error:  # which need not be given
        assert type(problem) not in (Quadratic, LeastSquares, Logistic, Huber, Softmax), error
        return
    assert expression.is_convex()
    for x in _points(problem, 3):
        variable.value = x
        assert expression.value == pytest.approx(problem.objective(x), rel=1e-12)


def test_batch_gradients_average_to_the_gradient(sampled):
    problem = sampled()
    for k, n in enumerate(SIZES):
        one = problem.subset(np.array([k]))
        y = _points(one, 2)[None]
        full = one.client_gradient(y)
        whole = np.broadcast_to(np.arange(n), (1, 2, n))
        np.testing.assert_allclose(one.client_batch_gradient(y, whole), full, rtol=1e-12, atol=1e-14)
        singles = [one.client_batch_gradient(y, np.full((1, 2, 1), j)) for j in range(n)]
        np.testing.assert_allclose(np.mean(singles, axis=0), full, rtol=1e-12, atol=1e-14)
        assert np.ptp(singles, axis=0).max() > 1e-3  # one sample is not the whole


def test_missing_capabilities_are_named():
    with pytest.raises(MissingCapability, match="mini-batch"):
        SMOOTH["quadratic"]().client_batch_gradient(np.zeros((3, 1, DIM)), np.zeros((3, 1, 1), dtype=int))
    with pytest.raises(MissingCapability, match=r"no cvxpy form \(capability 'cvxpy_objective'\).*max_conic_entries=0"):
        Problem().cvxpy_objective(None)
    with pytest.raises(MissingCapability, match=r"OfItsOwn has no cvxpy form of its loss \(capability 'cvxpy_loss'\).*give cvxpy_loss"):
        OfItsOwn(ONE, [[1.0], [1.0]]).cvxpy_objective(cp.Variable(2))


# --- unequal sizes, weights -----------------------------------------------------------------------
def test_unequal_clients_equal_each_client_alone(sampled):
    problem = sampled()
    x = _points(problem, 3)
    for k in range(3):
        alone = sampled.alone(k)
        assert alone.features.shape[1] == SIZES[k]
        np.testing.assert_allclose(problem.client_losses(x)[:, k], alone.client_losses(x)[:, 0], rtol=1e-13)
        np.testing.assert_allclose(problem.gradient(x)[:, k], alone.gradient(x)[:, 0], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(_hessians(problem, x)[k], _hessians(alone, x)[0], rtol=1e-12, atol=1e-14)
        assert problem.beta_k[k] == pytest.approx(alone.beta_k[0], rel=1e-12)
        assert problem.smoothness_exact()[k] == alone.smoothness_exact()[0]


def test_sample_weights_give_the_pooled_loss(sampled):
    problem, pooled = sampled("samples"), sampled.pooled()
    x = _points(problem, 3)
    np.testing.assert_allclose(problem.objective(x), pooled.client_losses(x)[:, 0], rtol=1e-13)
    np.testing.assert_allclose(problem.full_gradient(x), pooled.gradient(x)[:, 0], rtol=1e-11, atol=1e-14)
    assert problem.joint_smoothness() == pytest.approx(pooled.beta_k[0], rel=1e-12)
    assert np.abs(sampled().objective(x) - problem.objective(x)).min() > 1e-4  # uniform weights are another objective


def test_subset_keeps_kernels_and_constants(problem):
    part = problem.subset(np.array([2, 0]))
    x = _points(problem, 2)
    np.testing.assert_allclose(part.client_losses(x), problem.client_losses(x)[:, [2, 0]], rtol=1e-13)
    np.testing.assert_array_equal(part.beta_k, problem.beta_k[[2, 0]])
    assert part.weights.sum() == pytest.approx(1)


# --- constants ------------------------------------------------------------------------------------
def test_no_curvature_outside_the_constants(problem):
    x = np.concatenate([_points(problem, 60, scale) for scale in (0.01, 0.3, 1.0, 5.0, 40.0)])
    hessians = _hessians(problem, x)
    spectra = np.linalg.eigvalsh(hessians)
    slack = 1e-12 * problem.beta_k.max()
    assert (spectra[..., -1] <= problem.beta_k[:, None] + slack).all()
    assert (spectra[..., 0] >= problem.mu_k[:, None] - slack).all()
    joint = np.linalg.eigvalsh(np.einsum("n,nbij->bij", problem.weights, hessians))
    assert joint[:, -1].max() <= problem.joint_smoothness() + slack
    assert joint[:, 0].min() >= problem.joint_strong_convexity() - slack
    constants = problem.constants()
    assert constants.beta == problem.beta_k.max()
    assert constants.beta_joint <= problem.weights @ problem.beta_k + slack
    assert constants.mu >= problem.weights @ problem.mu_k - slack


def _power_iteration(matrix, steps=5000):
    v = np.random.default_rng(1).normal(size=matrix.shape[0])
    for _ in range(steps):
        v = matrix @ v
        v /= np.linalg.norm(v)
    return v @ matrix @ v


def _most_curved_point(problem, clients):
    """A point where these clients' smoothness constant is attained, or approached to rounding; None where there is none."""
    x = np.zeros(problem.dim)
    if isinstance(problem, Softmax) and problem.num_classes > 2:
        rows = np.concatenate([problem.features[k, : SIZES[k]] for k in clients])
        found = linprog(np.zeros(rows.shape[1]), A_ub=-rows, b_ub=-np.ones(len(rows)), bounds=(None, None))  # a_j'u >= 1
        if found.x is None:
            return None
        x.reshape(problem.num_features, problem.num_classes)[:, 2:] = -60 * found.x[:, None]  # all but two classes vanish
    if isinstance(problem, SmoothedMaxAffine):  # where a line passes a kink, each client's elsewhere
        line = np.linspace(-20, 20, 201)[:, None] * np.eye(problem.dim)[0]
        bends = np.linalg.eigvalsh(_hessians(problem, line)[list(clients)])[..., -1].min(axis=0)
        return line[np.argmax(bends)] if len(clients) == 1 else None
    return x


def test_smoothness_is_attained_where_it_is_called_exact(problem):
    exact = problem.smoothness_exact()
    for k in np.flatnonzero(exact):
        top = _power_iteration(_hessians(problem, _most_curved_point(problem, [k])[None])[k, 0])
        assert problem.beta_k[k] == pytest.approx(top, rel=1e-10)
    x = _most_curved_point(problem, range(3))
    if exact.all() and x is not None:  # one point for all of them
        assert problem.joint_smoothness() == pytest.approx(_power_iteration(problem.full_hessian(x)), rel=1e-10)


def test_what_is_on_record_as_exact_is_proved_somewhere():
    """A class that is not named here may prove nothing."""
    proved = {type(problem) for problem in (make() for make in SMOOTH.values()) if problem.smoothness_exact().all()}
    assert {Quadratic, LeastSquares, Logistic, Huber, SmoothedMaxAffine, Softmax} <= proved


class OfItsOwn(LinearModel):
    curvature_max = 2.0

    def phi(self, z, b):
        return (z - b) ** 2 / 2


@pytest.mark.parametrize("parent", [LeastSquares, Logistic, Huber])
@pytest.mark.parametrize("name", ["phi", "curvature_max", "smoothness", "client_value"])
def test_nothing_is_proved_of_a_subclass_that_does_not_say_so(parent, name):
    def data():
        return [[[1.0, 2.0]], [[2.0, 1.0]]], [[1.0], [-1.0]]

    assert parent(*data()).smoothness_exact().all() and not OfItsOwn(*data()).smoothness_exact().any()
    assert type("Renamed", (parent,), {})(*data()).smoothness_exact().all(), "the same loss"
    changed = type("Changed", (parent,), {name: getattr(OfItsOwn, name) if name in vars(OfItsOwn) else lambda self, *_: None})
    assert not changed(*data()).smoothness_exact().any()


@pytest.mark.parametrize("parent", [Softmax, Quadratic])
def test_nothing_is_proved_of_a_subclass_with_values_of_its_own(parent):
    changed = type("Changed", (parent,), {"client_value": lambda self, y: 2 * parent.client_value(self, y)})
    data = ([np.eye(2)], [[1, 0]], 2) if parent is Softmax else ([np.eye(2)], [[1.0, 0.0]])
    assert parent(*data).smoothness_exact().all() and not changed(*data).smoothness_exact().any()


@pytest.mark.parametrize("name", ["logistic, ridge", "huber", "softmax of 4", "softmax of 2"])
def test_strong_convexity_is_attained_far_out(name):
    problem = SMOOTH[name]()
    spectra = np.linalg.eigvalsh(_hessians(problem, _points(problem, 3, 1e5)))
    np.testing.assert_allclose(spectra[..., 0].min(axis=1), problem.mu_k, atol=1e-9)


def test_huber_bound_that_is_not_exact_is_called_so():
    problem = Huber([[[1.0], [1.0]], [[1.0], [2.0]]], [[0.0, 10.0], [0.0, 2.0]], delta=1.0)
    np.testing.assert_array_equal(problem.smoothness_exact(), [False, True])
    curvature = _hessians(problem, np.linspace(-20, 20, 4001)[:, None])[..., 0, 0].max(axis=1)
    np.testing.assert_allclose(curvature, [0.5, 2.5])  # never both residuals of client 0 at once
    np.testing.assert_allclose(problem.beta_k, [1.0, 2.5])


def test_softmax_bound_that_is_not_exact_is_called_so():
    labels = [[0, 1], [0, 2]]
    problem = Softmax([[[1.0], [-1.0]], [[1.0], [3.0]]], labels, 3)
    np.testing.assert_array_equal(problem.smoothness_exact(), [False, True])
    grid = np.linspace(-8, 8, 41)
    points = np.stack(np.meshgrid(0.0, grid, grid), axis=-1).reshape(-1, 3)
    top = np.linalg.eigvalsh(_hessians(problem, points))[..., -1].max(axis=1)
    assert top[0] < 0.4 < problem.beta_k[0] == pytest.approx(0.5)
    assert top[1] == pytest.approx(problem.beta_k[1], rel=1e-3) == pytest.approx(2.5, rel=1e-3)


def test_least_squares_constants_with_fewer_samples_than_features():
    problem = LeastSquares([np.ones((1, 3))], [[1.0]])
    assert problem.mu_k[0] == 0.0
    assert problem.beta_k[0] == pytest.approx(3.0)


# --- numerical range ------------------------------------------------------------------------------
@pytest.mark.filterwarnings("error")
def test_logistic_is_stable_at_any_margin():
    problem = Logistic([[[1.0]]], [[1.0]])
    x = np.array([[-1e6], [-700.0], [0.0], [30.0], [700.0], [1e6]])
    small = np.exp(-np.array([30.0, 700.0]))
    np.testing.assert_allclose(problem.client_losses(x)[:, 0], [1e6, 700.0, np.log(2), small[0], small[1], 0.0], rtol=1e-13)
    np.testing.assert_allclose(problem.gradient(x)[:, 0, 0], [-1, -1, -0.5, -small[0], -small[1], 0.0], rtol=1e-12)
    assert (_hessians(problem, x) >= 0).all()


@pytest.mark.filterwarnings("error")
def test_softmax_is_stable_at_any_logit():
    problem = Softmax([[[1.0]]], [[1]], 3)
    np.testing.assert_allclose(problem.client_losses(np.array([[1e6, 0.0, -1e6], [0.0, 1e6, 0.0]]))[:, 0], [1e6, 0.0])
    np.testing.assert_allclose(problem.gradient(np.array([1e6, 0.0, -1e6]))[0], [1.0, -1.0, 0.0])


def test_softmax_of_two_classes_is_logistic_in_the_difference():
    features, signs = SMOOTH["logistic"].features, SMOOTH["logistic"].targets
    softmax = Softmax(features, [(b > 0).astype(int) for b in signs], 2)
    x = _points(softmax, 3)
    w = x.reshape(3, DIM, 2)  # the documented layout: feature by class
    logistic = Logistic(features, signs)
    np.testing.assert_allclose(softmax.client_losses(x), logistic.client_losses(w[:, :, 1] - w[:, :, 0]), rtol=1e-12)


def test_huber_is_least_squares_within_delta_and_linear_beyond():
    huber, squares = Huber([[[1.0]]], [[0.5]], delta=2.0), LeastSquares([[[1.0]]], [[0.5]])
    inside = np.array([[-1.4], [0.5], [2.4]])
    np.testing.assert_allclose(huber.client_losses(inside), squares.client_losses(inside), rtol=1e-15)
    assert huber.client_losses(np.array([10.5]))[0] == pytest.approx(2.0 * (10.0 - 1.0))


# --- namespaces -----------------------------------------------------------------------------------
@pytest.mark.parametrize("library", [array_api_strict, torch], ids=["array_api_strict", "torch"])
def test_namespaces_agree_to_rounding(problem, library):
    x = _points(problem, 4)
    here, there = x, library.asarray(x, dtype=library.float64)
    moved = problem.like(there)
    y = np.broadcast_to(x, (3, *x.shape)).copy()
    y_there = library.asarray(y, dtype=library.float64)
    pairs = [(problem.client_losses(here), problem.client_losses(there))]
    pairs += [(problem.gradient(here), problem.gradient(there))]
    pairs += [(problem.objective(here), problem.objective(there))]
    pairs += [(problem.full_gradient(here), problem.full_gradient(there))]
    pairs += [(problem.client_hessian(y), moved.client_hessian(y_there))]
    if type(problem).client_batch_gradient is not Problem.client_batch_gradient:
        samples = np.random.default_rng(3).integers(min(SIZES), size=(3, 4, 2))
        batch = moved.client_batch_gradient(y_there, library.asarray(samples))
        pairs += [(problem.client_batch_gradient(y, samples), batch)]
    for a, b in pairs:
        assert not isinstance(b, np.ndarray)
        np.testing.assert_allclose(np.asarray(b), a, rtol=1e-12, atol=1e-14)


# --- bad points -----------------------------------------------------------------------------------
def test_points_of_the_wrong_dimension_are_refused(problem):
    with pytest.raises(InvalidInput, match=f"d = {problem.dim}"):
        problem.client_losses(np.zeros((2, problem.dim + 1)))
    with pytest.raises(InvalidInput, match="expected"):
        problem.gradient_each(np.zeros((2, 1, problem.dim)))


def test_indefinite_quadratic_is_marked():
    problem = Quadratic([[[1.0, 0.0], [0.0, -2.0]]], np.zeros((1, 2)))
    assert not problem.convex
    assert problem.beta_k[0] == 2.0
    assert problem.mu_k[0] == 0.0


def test_losses_of_clients_are_not_taken_for_the_objective():
    problem = Quadratic(np.ones((2, 1, 1)), np.array([[0.0], [4.0]]))
    x = np.array([[1.0], [2.0]])
    np.testing.assert_array_equal(problem.client_losses(x), [[0.5, 4.5], [2.0, 2.0]])
    np.testing.assert_array_equal(problem.objective(x), [2.5, 2.0])


def test_a_part_takes_of_each_client_what_is_asked_for():
    """Nothing before; then the clients' own entries, read-only, and weights that sum to 1."""
    rng = np.random.default_rng(6)
    whole = LeastSquares(rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 4)), 0.1, [0.1, 0.2, 0.3, 0.4, 0.0])
    part = whole.subset(np.array([3, 0]))
    assert not {"features", "moment", "weights", "sample_counts", "_grams"} & set(part.__dict__)
    np.testing.assert_array_equal(part.client_gradient(np.ones((2, 1, 2))), whole.client_gradient(np.ones((5, 1, 2)))[[3, 0]])
    assert "features" not in part.__dict__
    np.testing.assert_array_equal(part.features, whole.features[[3, 0]])
    assert not part.features.flags.writeable and not part.weights.flags.writeable
    np.testing.assert_allclose(part.weights, [0.8, 0.2], rtol=1e-15)
    np.testing.assert_array_equal(whole.subset(np.array([4])).weights, [1.0])
    again = pickle.loads(pickle.dumps(whole.subset(np.array([1, 2])).subset(np.array([1]))))
    np.testing.assert_array_equal(again.targets, whole.targets[[2]])
    np.testing.assert_array_equal(copy.copy(part).gram, whole.gram[[3, 0]])
    with pytest.raises(AttributeError, match="nonsense"):
        _ = part.nonsense
    assert not hasattr(whole, "nonsense")


def test_a_replaced_array_or_number_begins_anew_and_parts_keep_what_was():
    rng = np.random.default_rng(8)
    first, other = (Quadratic(np.stack([np.diag(rng.uniform(1, 2, 3))] * 4), rng.normal(size=(4, 3))) for _ in range(2))
    y = rng.normal(size=(4, 2, 3))
    torched = first.like(torch.zeros(1, dtype=torch.float64)).client_gradient(torch.asarray(y))
    part, beta, value = first.subset(np.array([2, 0])), first.beta_k.copy(), first.optimum().value
    wanted = first.client_gradient(y)[[2, 0]]
    first.hessians, first.minimisers = 3 * other.hessians, other.minimisers
    np.testing.assert_array_equal(part.client_gradient(y[[2, 0]]), wanted)
    np.testing.assert_array_equal(part.beta_k, beta[[2, 0]])
    anew = Quadratic(first.hessians, first.minimisers)
    np.testing.assert_array_equal(first.beta_k, anew.beta_k)
    assert first.optimum().value == anew.optimum().value != value
    now = first.like(torch.zeros(1, dtype=torch.float64)).client_gradient(torch.asarray(y))
    np.testing.assert_allclose(now.numpy(), first.client_gradient(y), rtol=1e-14)
    assert not torch.equal(now, torched)
    logistic = Logistic(rng.normal(size=(2, 5, 2)), np.sign(rng.normal(size=(2, 5))), ridge=0.1)
    weak = logistic.optimum().value
    logistic.ridge = 0.5
    assert logistic.optimum().value > weak and (logistic.mu_k == 0.5).all()
    copied = copy.copy(first)
    copied.minimisers = 2 * first.minimisers
    np.testing.assert_array_equal(first.subset(np.array([1])).minimisers, anew.minimisers[[1]])
