"""Random problems have the conditioning and heterogeneity they were asked for; synthetic(alpha, beta) has its law."""

import numpy as np
import pytest
from cases import each
from scipy import stats

from fedtheory.errors import InvalidInput
from fedtheory.problems import (
    random_huber,
    random_least_squares,
    random_logistic,
    random_quadratic,
    synthetic,
    synthetic_least_squares,
    synthetic_softmax,
)

GENERATORS = [random_quadratic, random_least_squares, random_logistic, random_huber]


def _rms_spread(points):
    return np.sqrt(((points - points.mean(axis=0)) ** 2).sum(axis=1).mean())


@pytest.mark.parametrize("condition", [1.0, 10.0, 1e4])
@pytest.mark.parametrize("shared", [False, True])
def test_quadratic_has_the_chosen_spectrum_and_heterogeneity(condition, shared):
    problem = random_quadratic(5, 7, condition, heterogeneity=2.5, shared_hessian=shared, smoothness=3.0, seed=4)
    spectra = np.linalg.eigvalsh(problem.hessians)
    np.testing.assert_allclose(spectra[:, -1], 3.0, rtol=1e-13)
    np.testing.assert_allclose(spectra[:, 0], 3.0 / condition, rtol=1e-10)
    assert _rms_spread(problem.minimisers) == pytest.approx(2.5, rel=1e-13)
    assert np.ptp(problem.gradient_each(problem.minimisers)) == 0.0
    difference = np.abs(problem.hessians - problem.hessians[0]).max()
    assert difference < 1e-14 if shared or condition == 1.0 else difference > 0.1


def test_quadratic_without_heterogeneity_is_one_client_repeated():
    problem = random_quadratic(3, 2, heterogeneity=0.0, shared_hessian=True)
    gradients = problem.gradient(np.ones(2))
    assert (gradients == gradients[0]).all()


def test_each_client_its_own_smoothness():
    problem = random_quadratic(3, 4, smoothness=[1.0, 2.0, 8.0])
    np.testing.assert_allclose(problem.beta_k, [1.0, 2.0, 8.0])
    problem = random_logistic(3, 4, smoothness=[1.0, 2.0, 8.0], ridge=0.0)
    np.testing.assert_allclose(problem.beta_k, [1.0, 2.0, 8.0])


def test_least_squares_has_the_chosen_spectrum_and_minimisers():
    problem = random_least_squares(4, 5, samples=[6, 9, 20, 7], condition=1e3, heterogeneity=0.7, noise=0.5, seed=2)
    np.testing.assert_array_equal(problem.sample_counts, [6, 9, 20, 7])
    np.testing.assert_allclose(problem.beta_k, 1.0, rtol=1e-12)
    np.testing.assert_allclose(problem.mu_k, 1e-3, rtol=1e-9)
    np.testing.assert_allclose(problem.gradient_each(problem.planted), 0.0, atol=1e-13)
    minimisers = np.linalg.solve(problem.gram, problem.moment[..., None])[..., 0]
    assert _rms_spread(minimisers) == pytest.approx(0.7, rel=1e-9)
    at_minimisers = [problem.client_losses(x)[k] for k, x in enumerate(minimisers)]
    assert min(at_minimisers) > 1e-3  # the noise is still there


def test_condition_is_that_of_the_nonzero_spectrum_with_few_samples():
    problem = random_least_squares(2, 8, samples=3, condition=100.0)
    spectra = np.linalg.eigvalsh(problem.gram)
    np.testing.assert_allclose(spectra[:, -3], 0.01, rtol=1e-9)
    np.testing.assert_allclose(spectra[:, :-3], 0.0, atol=1e-14)


def test_logistic_labels_follow_the_planted_models():
    problem = random_logistic(2, 2, samples=20000, condition=1.0, heterogeneity=1.0, seed=1)
    z = np.einsum("nij,nj->ni", problem.features, problem.planted)
    surprise = (problem.targets > 0) - 1 / (1 + np.exp(-z))
    for k in range(2):
        fisher = problem.features[k].T @ (problem.features[k] / (4 * np.cosh(z[k] / 2) ** 2)[:, None])
        score = np.linalg.solve(np.linalg.cholesky(fisher), problem.features[k].T @ surprise[k])
        assert np.abs(score).max() < 4.0  # standard normal at the true model
        assert np.linalg.norm(problem.gradient(np.zeros(2))[k]) > 0.05  # and far from it at another


def test_huber_has_outliers_in_the_asked_share():
    problem = random_huber(2, 3, samples=4000, outliers=0.25, noise=0.0, seed=5)
    residuals = np.einsum("nij,nj->ni", problem.features, problem.planted) - problem.targets
    exact = np.abs(residuals) < 1e-9
    assert abs(exact.mean() - 0.75) < 4 * np.sqrt(0.25 * 0.75 / 8000)
    assert stats.kstest(residuals[~exact] / 10, stats.norm.cdf).pvalue > 1e-3


@pytest.mark.parametrize("make", [random_least_squares, random_logistic, random_huber])
def test_planted_models_have_the_chosen_heterogeneity(make):
    assert _rms_spread(make(6, 3, heterogeneity=0.3).planted) == pytest.approx(0.3, rel=1e-12)


@pytest.mark.parametrize("make", GENERATORS)
def test_a_seed_is_a_problem(make):
    x = np.ones(4)
    first, again, other = (make(3, 4, seed=s).gradient(x) for s in (11, 11, 12))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3


@each(
    ("make", "arguments", "message"),
    [
        (random_quadratic, {"num_clients": 0}, "num_clients is 0"),
        (random_quadratic, {"dim": 2.5}, "dim is 2.5"),
        (random_quadratic, {"condition": 0.5}, "condition is 0.5.*>= 1"),
        (random_quadratic, {"condition": np.inf}, "condition is inf"),
        (random_quadratic, {"dim": 1}, "only condition = 1"),
        (random_quadratic, {"num_clients": 1}, "with one client"),
        (random_quadratic, {"heterogeneity": -1.0}, "heterogeneity is -1.0"),
        (random_quadratic, {"smoothness": 0.0}, "smoothness is 0.0"),
        (random_quadratic, {"smoothness": [1, 2, 3], "shared_hessian": True}, "shared"),
        (random_quadratic, {"seed": -1}, "seed is -1"),
        (random_least_squares, {"samples": [3, 3]}, "2 entries for 3 clients"),
        (random_least_squares, {"samples": 0}, r"samples\[0\] is 0"),
        (random_least_squares, {"samples": 1}, "only condition = 1"),
        (random_least_squares, {"noise": -1.0}, "noise is -1.0"),
        (random_huber, {"outliers": 1.5}, "outliers is 1.5"),
        (random_logistic, {"smoothness": -1.0}, "smoothness"),
    ],
)
def test_bad_parameters_are_refused(make, arguments, message):
    with pytest.raises(InvalidInput, match=message):
        make(**{"num_clients": 3, "dim": 4, **arguments})


# --- FedProx's synthetic(alpha, beta) -------------------------------------------------------------
def test_synthetic_sizes_follow_the_recipe():
    sizes = np.concatenate([[len(a) for a in synthetic(1, 1, dim=1, num_classes=2, seed=s).features] for s in range(20)])
    assert sizes.min() >= 50
    assert stats.kstest(np.log(sizes - 49.5), stats.norm(4, 2).cdf).pvalue > 1e-3  # floor moved to the middle of its cell


def test_synthetic_laws_of_models_and_inputs():
    # alpha and beta are standard deviations between clients; within a client everything has the recipe's own scale.
    data = synthetic(2.0, 3.0, num_clients=400, num_classes=5, max_samples=60, seed=1)
    model_means, input_means = data.models.mean(axis=(1, 2)), np.array([a.mean() for a in data.features])
    for found, scale, inner in ((model_means, 2.0, 1 / 300), (input_means, 3.0, 1 / 60)):
        assert stats.kstest(found, stats.norm(0, np.hypot(scale, np.sqrt(inner))).cdf).pvalue > 1e-3
    inner = data.models - model_means[:, None, None]
    assert inner.std() == pytest.approx(np.sqrt(1 - 1 / 300), rel=0.01)
    whole = [a for a in data.features if len(a) == 60]
    variances = np.mean([a.var(axis=0, ddof=1) for a in whole], axis=0)
    # (n_k - 1) variance estimates a client: relative standard error sqrt(2/(59 * clients))
    np.testing.assert_allclose(variances, np.arange(1, 61) ** -1.2, rtol=5 * np.sqrt(2 / (59 * len(whole))))
    np.testing.assert_array_equal(data.labels[0], (data.features[0] @ data.models[0] + data.intercepts[0]).argmax(1))


def test_synthetic_iid_is_one_model_and_centred_inputs():
    data = synthetic(1.0, 1.0, iid=True, max_samples=200, seed=3)
    assert np.ptp(data.models, axis=0).max() == 0.0
    assert np.ptp(data.intercepts, axis=0).max() == 0.0
    pooled = np.concatenate(data.features)
    z = pooled.mean(axis=0) / (np.arange(1, 61) ** -0.6 / np.sqrt(len(pooled)))
    assert np.abs(z).max() < 4.5


def test_synthetic_alpha_and_beta_zero_still_differ_between_clients():
    data = synthetic(0.0, 0.0, max_samples=100, seed=3)
    assert np.ptp(data.models, axis=0).max() > 1.0
    assert np.ptp([a.mean(axis=0)[0] for a in data.features]) > 1.0


def test_a_cap_keeps_the_first_samples():
    whole, capped = synthetic(1, 1, seed=6), synthetic(1, 1, max_samples=70, seed=6)
    assert max(len(a) for a in whole.features) > 70
    for a, b, c, d in zip(whole.features, capped.features, whole.labels, capped.labels):
        np.testing.assert_array_equal(a[:70], b)
        np.testing.assert_array_equal(c[:70], d)


def test_synthetic_problems_share_their_data():
    softmax = synthetic_softmax(0.5, 0.5, max_samples=80, seed=2)
    squares = synthetic_least_squares(0.5, 0.5, noise=0.0, max_samples=80, seed=2)
    assert softmax.num_clients == squares.num_clients == 30
    assert (softmax.dim, squares.dim) == (610, 61)
    assert softmax.smoothness_exact().all()  # thanks to the intercept
    np.testing.assert_array_equal(softmax.features, squares.features)
    data = synthetic(0.5, 0.5, max_samples=80, seed=2)
    planted = np.column_stack([data.models[:, :, 0], data.intercepts[:, 0]])
    np.testing.assert_allclose(squares.gradient_each(planted), 0.0, atol=1e-11)
    # The planted model makes no mistakes on its own client: scaled up, it drives that client's loss to zero.
    own = 1e6 * np.concatenate([data.models[3], data.intercepts[3][None]]).ravel()
    losses = softmax.client_losses(own)
    assert losses[3] < 1e-6 < 1e3 < losses[4]


def test_synthetic_refuses_bad_parameters():
    with pytest.raises(InvalidInput, match="alpha is -1"):
        synthetic(-1, 1)
    with pytest.raises(InvalidInput, match="max_samples is 0"):
        synthetic(1, 1, max_samples=0)
    with pytest.raises(InvalidInput, match="noise is nan"):
        synthetic_least_squares(1, 1, noise=float("nan"))
