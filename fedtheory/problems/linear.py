"""Linear models: f_k(x) = sum_j w_kj phi(a_kj' x, b_kj) + ridge/2 ||x||^2, with w_kj = 1/n_k.

Clients of unequal size are padded with zero rows of zero weight, so that all of them stay one batched matrix product.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import array_api_compat
import numpy as np

from fedtheory.arrays import Array, astype_like, is_numpy, namespace, sealed, unshared
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.inputs import LARGEST, blocks, data_array, real_number
from fedtheory.optimum.custom_losses import declared_rows
from fedtheory.optimum.interface import DeclaredLoss
from fedtheory.optimum.loss_enclosures import SquareRows
from fedtheory.optimum.lower_bounds import Structure
from fedtheory.problems.base import (
    Problem,
    check_samples,
    check_weights,
    part_of,
    same_loss,
    same_smoothness,
    weights_after,
)
from fedtheory.problems.distinct_samples import DistinctSamples, distinct_samples, orthogonal_factor

__all__ = ["LeastSquares", "LinearModel", "pad_clients"]


def pad_clients(features: Any, targets: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(N, n, d) and (N, n), or lists of (n_k, d) and (n_k,): padded features, padded targets,
    counts (N,).

    Raises
    ------
    InvalidInput
        Names the first client whose shapes disagree, that has no samples, or whose data are no
        finite real numbers of a size that can be squared.
    """
    features, targets = blocks("features", features), blocks("targets", targets)
    if len(features) != len(targets):
        raise InvalidInput(f"features of {len(features)} clients but targets of {len(targets)}: give both for each")
    if len(features) == 0:
        raise InvalidInput("no clients: features is empty")
    rows = [data_array(f"features of client {k}", a) for k, a in enumerate(features)]
    labels = [data_array(f"targets of client {k}", b) for k, b in enumerate(targets)]
    dim = rows[0].shape[1] if rows[0].ndim == 2 else -1
    for k, (a, b) in enumerate(zip(rows, labels, strict=True)):
        if a.ndim != 2 or b.ndim != 1 or a.shape[0] != b.shape[0] or a.shape[1] != dim:
            raise InvalidInput(
                f"client {k}: features {a.shape} and targets {b.shape} disagree: "
                f"expected (n_k, {dim if dim > 0 else 'd'}) and (n_k,)"
            )
        if a.shape[0] == 0 or dim == 0:
            raise InvalidInput(f"client {k} has no samples or no features (shape {a.shape}): drop it or give it data")
    counts = np.array([a.shape[0] for a in rows])
    padded = np.zeros((len(rows), counts.max(), dim))
    padded_targets = np.zeros((len(rows), counts.max()))
    for k, (a, b) in enumerate(zip(rows, labels, strict=True)):
        padded[k, : len(b)], padded_targets[k, : len(b)] = a, b
    return sealed(padded), sealed(padded_targets), sealed(counts)


def take_samples(data: Array, samples: Array) -> Array:
    """Samples of each client: data (N, n, ...), numbers (N, B, b) below n -> (N, B, b, ...)."""
    xp, (clients, most) = namespace(data), data.shape[:2]
    if is_numpy(data):
        picked = (samples + (np.arange(clients) * most)[:, None, None]).ravel()
        return data.reshape(clients * most, *data.shape[2:]).take(picked, axis=0).reshape(*samples.shape, *data.shape[2:])
    first = xp.arange(clients, dtype=samples.dtype, device=array_api_compat.device(samples)) * most
    flat = xp.reshape(samples + first[:, None, None], (-1,))
    picked = xp.take(xp.reshape(data, (clients * most, *data.shape[2:])), flat, axis=0)
    return xp.reshape(picked, (*samples.shape, *data.shape[2:]))


def batch_shares(sample_weights: Array, first: int, last: int) -> Array:
    """1/(samples in the batch) for samples first..last - 1, 0 for padding: (N, n) -> (N, b)."""
    xp = namespace(sample_weights)
    real = xp.astype(sample_weights[:, first:last] > 0, sample_weights.dtype)
    return real / xp.maximum(xp.sum(real, axis=1, keepdims=True), xp.ones_like(real[:, :1]))


class Sampled(Problem):
    """Base of the losses of linear models on samples: what depends on features and ridge alone.

    Attributes
    ----------
    features, sample_weights : (N, n, p) and (N, n), 1/n_k and 0 for padding
    curvature_max : the largest curvature of the loss in its predictions
    """

    features: Any
    sample_weights: Any
    curvature_max: float = 1.0

    def _with_features(self, samples: Sequence[np.ndarray]) -> tuple[Self, list[np.ndarray]]:
        """The problem of these samples, to which labels are still to be given, and their numbers."""
        samples = check_samples(self, samples)
        other = copy.copy(self)
        other.__dict__ = {k: v for k, v in self.__dict__.items() if not k.startswith("_")}
        features = [f[s] for f, s in zip(self.features, samples, strict=True)]
        other.features, _, counts = pad_clients(features, [np.zeros(len(f)) for f in features])
        other.sample_counts = counts
        other.sample_weights = (np.arange(other.features.shape[1]) < counts[:, None]) / counts[:, None]
        other.weights = weights_after(self, counts)
        return other, samples

    @cached_property
    def _gram(self) -> np.ndarray:
        return np.einsum("nij,ni,nik->njk", self.features, self.sample_weights, self.features, optimize=True)

    def smoothness(self) -> np.ndarray:
        return self.curvature_max * np.linalg.eigvalsh(self._gram)[:, -1] + self.ridge

    def strong_convexity(self) -> np.ndarray:
        return np.full(self.num_clients, self.ridge)

    def joint_smoothness(self) -> float:
        gram = np.einsum("n,nij->ij", self.weights, self._gram)
        return float(self.curvature_max * np.linalg.eigvalsh(gram)[-1] + self.ridge)

    def joint_strong_convexity(self) -> float:
        return self.ridge

    @cached_property
    def _distinct(self) -> DistinctSamples:
        raise NotImplementedError

    def cvxpy_form(self) -> str:
        return self._distinct.about


def padded_rows(rows: Sequence[np.ndarray], most: int) -> np.ndarray:
    """Each client's rows (n_k, ...), with zeros up to the most that one has: (N, most, ...)."""
    return np.stack([np.pad(r, ((0, most - len(r)), *((0, 0),) * (r.ndim - 1))) for r in rows])


class LinearModel(Sampled):
    """Base of the losses phi(z, b) of one margin or prediction z = a'x.

    A subclass gives ``phi``, ``dphi``, ``d2phi`` (elementwise in z and b) and
    ``curvature_max`` = sup phi''.

    Attributes
    ----------
    rounding : float or None
        The largest relative error of the computed phi and dphi in units of roundoff, 2**-53; with
        it, and a ridge, optima of a loss that is not built in are certified, and theorems judged.
        It is sampled, and otherwise taken on trust: the certificate says so. An elementary function
        of NumPy's and a few operations come to less than 16 where nothing cancels.
    """

    client_data: ClassVar[tuple[str, ...]] = ("features", "targets", "sample_weights")
    rounding: float | None = None

    def __init__(self, features: Any, targets: Any, ridge: float = 0.0, weights: Any = "uniform") -> None:
        self.ridge = real_number("ridge", ridge, least=0, most=LARGEST, remedy="rescale the problem")
        self.features, self.targets, self.sample_counts = pad_clients(features, targets)
        self.num_clients, most, self.dim = self.features.shape
        self.sample_weights = (np.arange(most) < self.sample_counts[:, None]) / self.sample_counts[:, None]
        self.weights = check_weights(weights, self.sample_counts)

    def _missing(self, name: str) -> MissingCapability:
        return MissingCapability(f"{type(self).__name__} has no {name}: the class of a linear model gives phi, dphi and d2phi")

    def phi(self, z: Array, b: Array) -> Array:
        """The loss of a prediction."""
        raise self._missing("phi")

    def dphi(self, z: Array, b: Array) -> Array:
        """Its derivative in z."""
        raise self._missing("dphi")

    def d2phi(self, z: Array, b: Array) -> Array:
        """Its second derivative in z (a generalised one where phi is only once differentiable)."""
        raise self._missing("d2phi")

    def _predict(self, y: Array) -> Array:
        xp = namespace(y)
        return xp.matmul(y, self.features.mT)  # (N, B, n)

    def client_value(self, y: Array) -> Array:
        xp = namespace(y)
        loss = self.phi(self._predict(y), self.targets[:, None, :]) * self.sample_weights[:, None, :]
        value = xp.sum(loss, axis=-1)
        return value + self.ridge / 2 * xp.sum(y * y, axis=-1) if self.ridge else value

    def client_gradient(self, y: Array) -> Array:
        slope = self.dphi(self._predict(y), self.targets[:, None, :]) * self.sample_weights[:, None, :]
        gradient = namespace(y).matmul(slope, self.features)
        return gradient + self.ridge * y if self.ridge else gradient

    def client_hessian(self, y: Array) -> Array:
        xp = namespace(y)
        bend = self.d2phi(self._predict(y), self.targets[:, None, :]) * self.sample_weights[:, None, :]
        weighted = self.features[:, None, :, :] * bend[..., None]  # (N, B, n, d)
        gram = xp.matmul(xp.matrix_transpose(weighted), self.features[:, None, :, :])
        return gram + self.ridge * astype_like(np.eye(self.dim), y)

    def client_batch_gradient(self, y: Array, samples: Array) -> Array:
        xp = namespace(y)
        batch = samples.shape[-1]
        rows, labels = take_samples(self.features, samples), take_samples(self.targets, samples)
        z = xp.matmul(rows, y[..., None])[..., 0]
        slope = self.dphi(z, labels) / batch
        gradient = xp.matmul(slope[:, :, None, :], rows)[:, :, 0, :]
        return gradient + self.ridge * y if self.ridge else gradient

    def client_output_gradient(self, y: Array, first: int, last: int) -> Array:
        xp, rows = namespace(y), self.features[:, first:last, :]
        z = xp.matmul(y, xp.matrix_transpose(rows))
        return 2 * xp.matmul(z * batch_shares(self.sample_weights, first, last)[:, None, :], rows)

    def select(self, samples: Sequence[np.ndarray]) -> Self:
        other, samples = self._with_features(samples)
        targets = [t[s] for t, s in zip(self.targets, samples, strict=True)]
        other.targets = padded_rows(targets, other.features.shape[1])
        other._selected()
        return other

    def _selected(self) -> None:
        """Compute anew what was computed from the samples."""

    def structure(self) -> Structure:
        """By what the class declares of its loss, where it declares `rounding`."""
        if not self.convex or self.rounding is None:
            return super().structure()
        return declared_rows(cast(DeclaredLoss, self))  # `rounding` is there, and so is the rest

    def cvxpy_loss(self, z: Any, b: np.ndarray) -> Any:
        """Elementwise phi(z, b) as a cvxpy expression, convex in z, by which cvxpy finds the optimum that is then certified.

        Raises
        ------
        MissingCapability
            The class does not say it; an optimum is then certified without cvxpy.
        """
        raise MissingCapability(
            f"{type(self).__name__} has no cvxpy form of its loss (capability 'cvxpy_loss'): cvxpy cannot be asked for its optimum; "
            "give cvxpy_loss(z, b), as in `return cvxpy.square(z - b) / 2`, or leave cvxpy out with optimum(max_conic_entries=0)"
        )

    @cached_property
    def _distinct(self) -> DistinctSamples:
        return distinct_samples(self, self.targets[..., None])

    def cvxpy_objective(self, variable: Any) -> Any:
        import cvxpy as cp

        features, labels, weights, _ = self._distinct
        loss = self.cvxpy_loss(features @ variable, labels[:, 0])
        return weights @ loss + self.ridge / 2 * cp.sum_squares(variable)


class LeastSquares(LinearModel):
    """f_k(x) = ||A_k x - b_k||^2 / (2 n_k) + ridge/2 ||x||^2.

    Parameters
    ----------
    features : (N, n, d), or a list of per-client (n_k, d) arrays.
    targets : (N, n), or a list of (n_k,) arrays.
    ridge : float from 0 to 1e100
    weights : 'uniform' (1/N), 'samples' (n_k/n), or N numbers that sum to 1.

    Raises
    ------
    InvalidInput
        Shapes that disagree, a client without samples, data that are no finite real numbers up to
        1e100.

    Notes
    -----
    Gradients go through the Gram matrices A_k'A_k/n_k + ridge I (one (d, d) product a point
    whatever n_k), or, where there are few samples (2n < d), through the samples, which is less
    work; then the Gram matrices are made when something asks for them. Values go through the
    residuals, which do not cancel.
    """

    name = "least squares"
    constant_hessian = True

    def __init__(self, features: Any, targets: Any, ridge: float = 0.0, weights: Any = "uniform") -> None:
        super().__init__(features, targets, ridge, weights)
        self._selected()

    def _selected(self) -> None:
        self.moment = np.einsum("nij,ni,ni->nj", self.features, self.sample_weights, self.targets)
        self.few_samples = 2 * self.features.shape[1] < self.dim
        if not self.few_samples:
            self.gram = sealed(self._gram + self.ridge * np.eye(self.dim))

    @property
    def client_data(self) -> tuple[str, ...]:  # type: ignore[override]
        made = ("gram",) if "_grams" in self.__dict__ else ()
        return ("features", "targets", "sample_weights", "moment", *made)

    @property
    def gram(self) -> Array:
        """Hessians A_k'A_k/n_k + ridge I (N, d, d)."""
        if "_grams" not in self.__dict__ and isinstance(self.__dict__.get("_whole", (0, 0))[1], np.ndarray):
            self.__dict__["_grams"] = part_of(self._whole[0][0].gram, self._whole[1])
        elif "_grams" not in self.__dict__:
            xp = namespace(self.features)
            weighted = self.features * self.sample_weights[..., None]
            ridge = self.ridge * astype_like(np.eye(self.dim), self.features)
            self._grams = sealed(xp.matmul(xp.matrix_transpose(weighted), self.features) + ridge)
        return self._grams

    @gram.setter
    def gram(self, value: Array) -> None:
        self._grams = value

    def phi(self, z: Array, b: Array) -> Array:
        return (z - b) ** 2 / 2

    def dphi(self, z: Array, b: Array) -> Array:
        return z - b

    def d2phi(self, z: Array, b: Array) -> Array:
        return namespace(z).ones_like(z)

    def client_gradient(self, y: Array) -> Array:
        if self.few_samples:
            return super().client_gradient(y)
        return namespace(y).matmul(y, self.gram) - self.moment[:, None, :]

    def client_hessian(self, y: Array) -> Array:
        return unshared(self.gram)[:, None, :, :]

    def smoothness_exact(self) -> np.ndarray:
        """Everywhere: beta_k is the largest eigenvalue of a Hessian that does not depend on x."""
        return np.full(self.num_clients, same_smoothness(self, LeastSquares))

    def strong_convexity(self) -> np.ndarray:
        return np.maximum(np.linalg.eigvalsh(self.gram)[:, 0], 0.0)

    def joint_strong_convexity(self) -> float:
        return float(max(np.linalg.eigvalsh(np.einsum("n,nij->ij", self.weights, self.gram))[0], 0.0))

    def structure(self) -> Structure:
        return SquareRows(self, self.targets) if same_loss(self, LeastSquares) else super().structure()

    def cvxpy_loss(self, z: Any, b: np.ndarray) -> Any:
        import cvxpy as cp

        return cp.square(z - b) / 2

    def cvxpy_objective(self, variable: Any) -> Any:
        import cvxpy as cp

        if not self._factored:
            return super().cvxpy_objective(variable)
        factor = self._factor
        loss = cp.sum_squares(factor[:, :-1] @ variable - factor[:, -1]) / 2
        return loss + self.ridge / 2 * cp.sum_squares(variable)

    def cvxpy_form(self) -> str:
        return f"orthogonal factor of {self._distinct.about}" if self._factored else super().cvxpy_form()

    @property
    def _factored(self) -> bool:
        """True if cvxpy takes a factor of the samples: they are more than d, and the loss is this class's."""
        own = type(self).phi is LeastSquares.phi and type(self).cvxpy_loss is LeastSquares.cvxpy_loss
        return own and len(self._distinct.weights) > self.dim

    @cached_property
    def _factor(self) -> np.ndarray:
        features, labels, weights, _ = self._distinct
        return orthogonal_factor(np.sqrt(weights)[:, None] * np.hstack([features.toarray(), labels]))
