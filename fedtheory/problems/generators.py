"""Seeded random problems: small ones of chosen conditioning and heterogeneity, and FedProx's synthetic(alpha, beta)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtheory.arrays import OwnArrays
from fedtheory.errors import InvalidInput
from fedtheory.inputs import check_array_size, flag, real_array, real_number, whole_number
from fedtheory.problems.glm import Huber, Logistic
from fedtheory.problems.linear import LeastSquares
from fedtheory.problems.quadratic import Quadratic
from fedtheory.problems.softmax import Softmax
from fedtheory.randomness import Stream

__all__ = [
    "SyntheticData", "random_huber", "random_least_squares", "random_logistic", "random_quadratic",
    "synthetic", "synthetic_least_squares", "synthetic_softmax",
]


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        whole_number(name, value)


def _check_at_least(least: float, **numbers: float) -> None:
    for name, value in numbers.items():
        real_number(name, value, least)


def _one_each(name: str, values: Any, count: int) -> np.ndarray:
    """One number for all, or `count` of them: (count,)."""
    values = real_array(name, values)
    if values.shape not in ((), (count,)):
        raise InvalidInput(f"{name} has shape {values.shape}: give one number, or one for each of {count}")
    return np.broadcast_to(values, (count,))


def _haar(g: np.random.Generator, shape: tuple[int, ...], columns: int) -> np.ndarray:
    """Uniformly distributed orthonormal columns: shape (..., n) -> (..., n, columns)."""
    q, r = np.linalg.qr(g.standard_normal((*shape, columns)))
    return q * np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)[..., None, :]


def _spectra(
    g: np.random.Generator, clients: int, rank: int, condition: float, smoothness: float | Sequence[float]
) -> np.ndarray:
    """(clients, rank) increasing eigenvalues: ends smoothness/condition and smoothness, log-uniform between them."""
    _check_at_least(1.0, condition=condition)
    top = _one_each("smoothness", smoothness, clients)
    if not (top > 0).all():
        raise InvalidInput(f"smoothness is {smoothness!r}: every entry must be a finite number > 0")
    if rank == 1 and condition != 1:
        raise InvalidInput(
            f"condition is {condition!r} with a spectrum of one eigenvalue: only condition = 1 is "
            "possible; take at least two dimensions and two samples"
        )
    exponents = g.random((clients, rank))
    exponents[:, 0] = 1.0
    exponents[:, -1] = 0.0
    return np.sort(top[:, None] * condition ** -exponents, axis=1)


def _scattered(g: np.random.Generator, clients: int, dim: int, heterogeneity: float) -> np.ndarray:
    """(clients, dim) points around a normal centre whose RMS distance to their mean is exactly the heterogeneity."""
    _check_at_least(0.0, heterogeneity=heterogeneity)
    if clients == 1 and heterogeneity > 0:
        raise InvalidInput(f"heterogeneity is {heterogeneity!r} with one client: only 0 is possible")
    center = g.standard_normal(dim)
    offsets = g.standard_normal((clients, dim))
    if heterogeneity == 0:
        return np.tile(center, (clients, 1))
    offsets -= offsets.mean(axis=0)
    return center + offsets * (heterogeneity / np.sqrt((offsets**2).sum(axis=1).mean()))


def random_quadratic(
    num_clients: int, dim: int, condition: float = 10.0, heterogeneity: float = 1.0,
    shared_hessian: bool = False, smoothness: float | Sequence[float] = 1.0,
    weights: Any = "uniform", seed: int = 0,
) -> Quadratic:
    """Quadratics of chosen condition number and heterogeneity.

    Parameters
    ----------
    condition : float >= 1
        lambda_max/lambda_min of every client's Hessian; the eigenvalues between are log-uniform, the axes
        Haar-distributed.
    heterogeneity : float >= 0
        Root mean square distance of the clients' minimisers to their mean. 0 with shared Hessians: identical clients.
    shared_hessian : bool
        One Hessian for all clients.
    smoothness : float or N floats
        lambda_max of each client's Hessian; one number when the Hessian is shared.

    Raises
    ------
    InvalidInput
        A parameter outside its range; condition > 1 in one dimension; heterogeneity > 0 with one client.
    """
    _check_counts(num_clients=num_clients, dim=dim)
    flag("shared_hessian", shared_hessian)
    check_array_size(f"{num_clients} clients of dimension {dim}", num_clients, dim, dim, times=1 if shared_hessian else 4)
    if shared_hessian and np.ndim(smoothness) > 0:
        raise InvalidInput(f"smoothness is {smoothness!r} with a shared Hessian: give one number")
    g = Stream(seed).generator("random quadratic")
    different = 1 if shared_hessian else num_clients
    spectra = _spectra(g, different, dim, condition, smoothness)
    axes = _haar(g, (different, dim), dim)
    hessians = np.einsum("nij,nj,nkj->nik", axes, spectra, axes)
    hessians = np.broadcast_to((hessians + hessians.transpose(0, 2, 1)) / 2, (num_clients, dim, dim))
    return Quadratic(hessians, _scattered(g, num_clients, dim, heterogeneity), weights)


def _design(
    g: np.random.Generator, num_clients: int, dim: int, samples: int | Sequence[int] | np.ndarray,
    condition: float, gram_top: Any,
) -> list[np.ndarray]:
    """Features whose Gram matrices A'A/n have the chosen nonzero spectrum."""
    _check_counts(num_clients=num_clients, dim=dim)
    check_array_size(f"{num_clients} clients of dimension {dim}", num_clients, dim)
    counts = list(samples) if isinstance(samples, Sequence | np.ndarray) else [samples] * num_clients
    if len(counts) != num_clients:
        raise InvalidInput(f"samples has {len(counts)} entries for {num_clients} clients: give one number, or one each")
    _check_counts(**{f"samples[{k}]": n for k, n in enumerate(counts)})
    check_array_size(f"{num_clients} clients of {max(counts)} samples", num_clients, max(counts), dim)
    tops = _one_each("smoothness", gram_top, num_clients)
    features = []
    for n, top in zip(counts, tops, strict=True):
        rank = min(n, dim)
        spectrum = _spectra(g, 1, rank, condition, float(top))[0]
        left, right = _haar(g, (n,), rank), _haar(g, (dim,), rank)
        features.append((left * np.sqrt(n * spectrum)) @ right.T)
    return features


def _planted(problem: Any, planted: np.ndarray) -> Any:
    problem.planted = planted
    return problem


def random_least_squares(
    num_clients: int, dim: int, samples: int | Sequence[int] | np.ndarray = 20,
    condition: float = 10.0, heterogeneity: float = 1.0, noise: float = 0.1, ridge: float = 0.0,
    smoothness: float | Sequence[float] = 1.0, weights: Any = "uniform", seed: int = 0,
) -> LeastSquares:
    """Least squares of chosen condition number and heterogeneity; its ``planted`` (N, dim) holds the planted models.

    Parameters
    ----------
    samples : int or N ints
        n_k. With n_k < dim the condition number is that of the nonzero part of the spectrum.
    condition : float >= 1
        lambda_max/lambda_min of every A_k'A_k/n_k.
    heterogeneity : float >= 0
        Root mean square distance of the clients' planted models to their mean; the planted models are exactly the
        clients' minimisers when n_k >= dim and ridge = 0.
    noise : float >= 0
        Standard deviation of the targets' noise, of which only the part that no model explains is kept (none when n_k
        <= dim).
    smoothness : float or N floats
        beta_k without the ridge.

    Raises
    ------
    InvalidInput
        A parameter outside its range.
    """
    _check_at_least(0.0, noise=noise)
    g = Stream(seed).generator("random least squares")
    features = _design(g, num_clients, dim, samples, condition, smoothness)
    planted = _scattered(g, num_clients, dim, heterogeneity)
    targets = []
    for a, x in zip(features, planted, strict=True):
        e = noise * g.standard_normal(len(a))
        targets.append(a @ x + e - a @ np.linalg.lstsq(a, e, rcond=None)[0])
    return _planted(LeastSquares(features, targets, ridge, weights), planted)


def random_logistic(
    num_clients: int, dim: int, samples: int | Sequence[int] | np.ndarray = 20,
    condition: float = 10.0, heterogeneity: float = 1.0, ridge: float = 0.1,
    smoothness: float | Sequence[float] = 1.0, weights: Any = "uniform", seed: int = 0,
) -> Logistic:
    """Logistic regression; labels from planted models x_k, P(b = 1 | a) = 1/(1 + exp(-a'x_k)).

    The attribute ``planted`` (N, dim) of the problem holds them.

    Parameters
    ----------
    condition, samples : as in `random_least_squares`, of A_k'A_k/n_k.
    heterogeneity : float >= 0
        Root mean square distance of the planted models to their mean.
    smoothness : float or N floats
        beta_k without the ridge, lambda_max(A_k'A_k/n_k)/4.

    Raises
    ------
    InvalidInput
        A parameter outside its range.
    """
    g = Stream(seed).generator("random logistic")
    features = _design(g, num_clients, dim, samples, condition, 4.0 * np.asarray(smoothness, dtype=float))
    planted = _scattered(g, num_clients, dim, heterogeneity)
    # a logistic variable exceeds -z with probability 1/(1 + exp(-z))
    labels = [np.where(g.logistic(size=len(a)) > -(a @ x), 1.0, -1.0) for a, x in zip(features, planted, strict=True)]
    return _planted(Logistic(features, labels, ridge, weights), planted)


def random_huber(
    num_clients: int, dim: int, samples: int | Sequence[int] | np.ndarray = 20, delta: float = 1.0,
    condition: float = 10.0, heterogeneity: float = 1.0, noise: float = 0.1, outliers: float = 0.1,
    ridge: float = 0.0, smoothness: float | Sequence[float] = 1.0, weights: Any = "uniform",
    seed: int = 0,
) -> Huber:
    """Huber regression with normal noise and a share of gross errors; ``planted`` (N, dim) holds the planted models.

    Parameters
    ----------
    condition, samples, smoothness : as in `random_least_squares`, of A_k'A_k/n_k.
    heterogeneity : float >= 0
        Root mean square distance of the planted models to their mean.
    noise : float >= 0
        Standard deviation of the targets' noise.
    outliers : float in [0, 1]
        Probability that a target has an error of ten delta times a standard normal on top.

    Raises
    ------
    InvalidInput
        A parameter outside its range.
    """
    _check_at_least(0.0, noise=noise)
    real_number("outliers", outliers, least=0, most=1, remedy="it is a share of the samples")
    real_number("delta", delta, above=0)
    g = Stream(seed).generator("random huber")
    features = _design(g, num_clients, dim, samples, condition, smoothness)
    planted = _scattered(g, num_clients, dim, heterogeneity)
    targets = []
    for a, x in zip(features, planted, strict=True):
        gross = (g.random(len(a)) < outliers) * g.standard_normal(len(a))
        targets.append(a @ x + noise * g.standard_normal(len(a)) + 10 * delta * gross)
    return _planted(Huber(features, targets, delta, ridge, weights), planted)


@dataclass(frozen=True)
class SyntheticData(OwnArrays):
    """Raw data of FedProx's synthetic(alpha, beta).

    Attributes
    ----------
    features : N arrays (n_k, dim)
    labels : N arrays (n_k,) of class numbers
    models : (N, dim, C), intercepts : (N, C)
        The planted W_k and b_k; labels are argmax_c (W_k'a + b_k)_c.
    """

    features: tuple[np.ndarray, ...]
    labels: tuple[np.ndarray, ...]
    models: np.ndarray
    intercepts: np.ndarray

    @property
    def num_classes(self) -> int:
        return self.models.shape[2]


def synthetic(
    alpha: float, beta: float, iid: bool = False, num_clients: int = 30, dim: int = 60,
    num_classes: int = 10, max_samples: int | None = None, seed: int = 0,
) -> SyntheticData:
    """FedProx's synthetic(alpha, beta): clients' models (alpha) and inputs (beta) differ so much.

    Client k has n_k = floor(exp(4 + 2 z)) + 50 samples. Its model W_k, b_k is N(u_k, 1) entrywise with u_k ~ N(0,
    alpha^2); its inputs are N(v_k, diag(j^-1.2)) with v_k ~ N(B_k, 1) entrywise and B_k ~ N(0, beta^2); its labels
    argmax(W_k'a + b_k). The iid variant has one model, N(0, 1) entrywise, and inputs of mean zero for all clients;
    alpha and beta are not used.

    Parameters
    ----------
    alpha, beta : float >= 0
        *Standard deviations*, as in the public generator (the paper's text writes them as variances).
    max_samples : int or None
        Cap on n_k; a capped client keeps the first samples of the uncapped one.

    Raises
    ------
    InvalidInput
        A parameter outside its range.

    References
    ----------
    Li et al., Federated Optimization in Heterogeneous Networks (FedProx), MLSys 2020, appendix C.1;
    github.com/litian96/FedProx, data/synthetic_1_1/generate_synthetic.py and data/synthetic_iid/generate_iid.py.
    """
    _check_at_least(0.0, alpha=alpha, beta=beta)
    flag("iid", iid)
    _check_counts(num_clients=num_clients, dim=dim, num_classes=num_classes)
    check_array_size(f"{num_clients} clients of dimension {dim} with {num_classes} classes", num_clients, dim, num_classes)
    if max_samples is not None:
        _check_counts(max_samples=max_samples)
    stream = Stream(seed)
    g = stream.generator("synthetic models")
    sizes = g.lognormal(4.0, 2.0, num_clients).astype(int) + 50
    if max_samples is not None:
        sizes = np.minimum(sizes, max_samples)
    if iid:
        models = np.broadcast_to(g.standard_normal((dim, num_classes)), (num_clients, dim, num_classes))
        intercepts = np.broadcast_to(g.standard_normal(num_classes), (num_clients, num_classes))
        centers = np.zeros((num_clients, dim))
    else:
        model_means = alpha * g.standard_normal(num_clients)
        centers = beta * g.standard_normal((num_clients, 1)) + g.standard_normal((num_clients, dim))
        models = model_means[:, None, None] + g.standard_normal((num_clients, dim, num_classes))
        intercepts = model_means[:, None] + g.standard_normal((num_clients, num_classes))
    scales = np.arange(1.0, dim + 1) ** -0.6  # square roots of the covariance j^-1.2
    features = tuple(
        centers[k] + scales * stream.generator("synthetic inputs", step=k).standard_normal((sizes[k], dim))
        for k in range(num_clients)
    )
    labels = tuple(np.argmax(a @ models[k] + intercepts[k], axis=1) for k, a in enumerate(features))
    return SyntheticData(features, labels, models, intercepts)


def _with_intercept(features: Sequence[np.ndarray], intercept: bool) -> list[np.ndarray]:
    return [np.column_stack([a, np.ones(len(a))]) if intercept else a for a in features]


def synthetic_softmax(
    alpha: float, beta: float, iid: bool = False, ridge: float = 0.0, weights: Any = "uniform",
    intercept: bool = True, seed: int = 0, **options: Any,
) -> Softmax:
    """`synthetic` as multinomial logistic regression; an intercept is a last, constant feature.

    FedProx itself weighs the clients by their samples: weights='samples'. Further options go to `synthetic`.
    """
    flag("intercept", intercept)
    data = synthetic(alpha, beta, iid, seed=seed, **options)
    return Softmax(_with_intercept(data.features, intercept), data.labels, data.num_classes, ridge, weights)


def synthetic_least_squares(
    alpha: float, beta: float, iid: bool = False, noise: float = 1.0, ridge: float = 0.0,
    weights: Any = "uniform", intercept: bool = True, seed: int = 0, **options: Any,
) -> LeastSquares:
    """The least-squares twin of `synthetic_softmax`: the same inputs, and as target the first class's score plus noise.

    Client k's target is w_k'a + b_k + noise * N(0, 1) with w_k the first column of its planted model and b_k that
    column's intercept, so that alpha and beta mean what they mean there. Further options go to `synthetic`.
    """
    _check_at_least(0.0, noise=noise)
    flag("intercept", intercept)
    data = synthetic(alpha, beta, iid, seed=seed, **options)
    targets = [
        a @ data.models[k, :, 0]
        + data.intercepts[k, 0]
        + noise * Stream(seed).generator("synthetic noise", step=k).standard_normal(len(a))
        for k, a in enumerate(data.features)
    ]
    return LeastSquares(_with_intercept(data.features, intercept), targets, ridge, weights)
