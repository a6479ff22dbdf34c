"""Multinomial logistic regression: f_k(W) = 1/n_k sum_j [log sum_c exp(a_kj'w_c) - a_kj'w_{b_kj}] + ridge/2 ||W||^2."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from fedtheory.arrays import Array, astype_like, namespace, sealed
from fedtheory.errors import InvalidInput
from fedtheory.inputs import LARGEST, check_array_size, real_number, whole_number
from fedtheory.optimum.loss_enclosures import SoftmaxRows
from fedtheory.optimum.lower_bounds import Structure
from fedtheory.problems.base import check_weights, same_loss, same_smoothness
from fedtheory.problems.distinct_samples import DistinctSamples, distinct_samples
from fedtheory.problems.linear import Sampled, batch_shares, pad_clients, padded_rows, take_samples

__all__ = ["Softmax"]

KEPT = 4  # arrays of a number for each sample and class: the labels, and what a value and a gradient take at the least


class Softmax(Sampled):
    """f_k(x) = 1/n_k sum_j [log sum_c exp(a_kj'w_c) - a_kj'w_{b_kj}] + ridge/2 ||x||^2.

    The point x is the flat (p*C,) weight matrix W (p, C) in row-major order: x[i*C + c] is the
    weight of feature i for class c, and w_c is column c. A constant feature makes an intercept.

    Parameters
    ----------
    features : (N, n, p), or a list of per-client (n_k, p) arrays.
    labels : (N, n), or a list of (n_k,) arrays; whole numbers 0..C-1.
    num_classes : int >= 2
        C.
    ridge : float from 0 to 1e100
    weights : 'uniform' (1/N), 'samples' (n_k/n), or N numbers that sum to 1.

    Raises
    ------
    InvalidInput
        A label that is not a class number; shapes that disagree; a client without samples; data
        that are no finite real numbers up to 1e100.

    Notes
    -----
    beta_k = lambda_max(G_k)/2 + ridge with G_k = A_k'A_k/n_k. Proof: the Hessian is 1/n_k sum_j
    (a_j a_j') (x) S_j + ridge I with S_j = diag(p_j) - p_j p_j'. For a unit v, v'S_j v is the
    variance of v_c under p_j, at most (max v - min v)^2/4 (Popoviciu) <= 1/2 (max v - min
    v <= sqrt(2) ||v||); so S_j <= I/2, and the sum is at most G_k (x) I/2.

    The constant is exact for C = 2, where x = 0 attains it, and for a client with some u such that
    a_j'u > 0 for all j (an intercept is one): with w_0 = w_1 = 0 and every other w_c = -t u, p_j
    tends to (1/2, 1/2, 0, ...) as t grows, and every S_j to an eigenvalue 1/2 along (1, -1, 0,
    ...)/sqrt(2). Otherwise it is an upper bound; `smoothness_exact` says which. mu_k = ridge is
    exact: moving all w_c together changes nothing.
    """

    name = "softmax"
    curvature_max = 0.5
    client_data: ClassVar[tuple[str, ...]] = ("features", "onehot", "sample_weights")

    def __init__(
        self, features: Any, labels: Any, num_classes: int, ridge: float = 0.0, weights: Any = "uniform"
    ) -> None:
        self.ridge, self.num_classes = real_number("ridge", ridge, 0, most=LARGEST), whole_number("num_classes", num_classes, least=2)
        self.features, padded, self.sample_counts = pad_clients(features, labels)
        self.num_clients, most, self.num_features = self.features.shape
        self.dim = self.num_features * self.num_classes
        check_array_size(f"num_classes = {num_classes}", self.num_clients, most, self.num_classes, times=KEPT)
        real = np.arange(most) < self.sample_counts[:, None]
        wrong = real & ((padded != np.floor(padded)) | (padded < 0) | (padded >= self.num_classes))
        if wrong.any():
            k, j = (int(i) for i in np.argwhere(wrong)[0])
            raise InvalidInput(
                f"client {k}: label {j} is {float(padded[k, j])!r}: labels must be whole numbers "
                f"0..{num_classes - 1}; renumber the classes or raise num_classes"
            )
        onehot = np.zeros((self.num_clients, most, self.num_classes))  # its pages are not touched where they stay 0
        client, sample = np.nonzero(real)
        onehot[client, sample, padded[client, sample].astype(int)] = 1.0
        self.onehot = sealed(onehot)
        self.sample_weights = real / self.sample_counts[:, None]
        self.weights = check_weights(weights, self.sample_counts)

    @property
    def labels(self) -> list[np.ndarray]:
        """The class numbers of each client's samples, N arrays (n_k,)."""
        return [np.argmax(o[:n], axis=1) for o, n in zip(self.onehot, self.sample_counts, strict=True)]

    # --- kernels ----------------------------------------------------------------------------------
    def _logits(self, y: Array) -> Array:
        """(N, B, p*C) -> (N, n, B, C), one matrix product a client; each sample's largest logit is moved to 0."""
        xp = namespace(y)
        clients, points, _ = y.shape
        w = xp.reshape(y, (clients, points, self.num_features, self.num_classes))
        w = xp.reshape(xp.permute_dims(w, (0, 2, 1, 3)), (clients, self.num_features, points * self.num_classes))
        z = xp.reshape(xp.matmul(self.features, w), (clients, -1, points, self.num_classes))
        return z - xp.max(z, axis=-1, keepdims=True)

    def _probabilities(self, y: Array) -> Array:
        xp = namespace(y)
        e = xp.exp(self._logits(y))
        return e / xp.sum(e, axis=-1, keepdims=True)

    def client_value(self, y: Array) -> Array:
        xp = namespace(y)
        z = self._logits(y)
        loss = xp.log(xp.sum(xp.exp(z), axis=-1)) - xp.sum(z * self.onehot[:, :, None, :], axis=-1)  # (N, n, B)
        return xp.sum(loss * self.sample_weights[:, :, None], axis=1) + self.ridge / 2 * xp.sum(y * y, axis=-1)

    def client_gradient(self, y: Array) -> Array:
        xp = namespace(y)
        clients, points, _ = y.shape
        slope = (self._probabilities(y) - self.onehot[:, :, None, :]) * self.sample_weights[:, :, None, None]
        slope = xp.reshape(slope, (clients, -1, points * self.num_classes))
        grad = xp.matmul(xp.matrix_transpose(self.features), slope)  # (N, p, B*C)
        grad = xp.reshape(grad, (clients, self.num_features, points, self.num_classes))
        return xp.reshape(xp.permute_dims(grad, (0, 2, 1, 3)), (clients, points, self.dim)) + self.ridge * y

    def client_hessian(self, y: Array) -> Array:
        xp = namespace(y)
        clients, points, _ = y.shape
        p = xp.permute_dims(self._probabilities(y), (0, 2, 1, 3))  # (N, B, n, C)
        a = self.features[:, None, :, :]
        weighted = p * self.sample_weights[:, None, :, None]
        # sum_j w_j a_j a_j' p_jc for each class, then onto the blocks with c = c'
        blocks = [
            xp.matmul(xp.matrix_transpose(a * weighted[..., c : c + 1]), a) for c in range(self.num_classes)
        ]
        diagonal = xp.stack(blocks, axis=3)[..., None] * astype_like(np.eye(self.num_classes), y)[:, None, :]
        diagonal = xp.reshape(diagonal, (clients, points, self.dim, self.dim))
        shape = (clients, points, self.features.shape[1], self.dim)
        left = xp.reshape(a[..., None] * weighted[..., None, :], shape)
        right = xp.reshape(a[..., None] * p[..., None, :], shape)
        cross = xp.matmul(xp.matrix_transpose(left), right)
        return diagonal - cross + self.ridge * astype_like(np.eye(self.dim), y)

    def client_batch_gradient(self, y: Array, samples: Array) -> Array:
        xp = namespace(y)
        clients, points, batch = samples.shape
        rows, onehot = take_samples(self.features, samples), take_samples(self.onehot, samples)
        z = xp.matmul(rows, xp.reshape(y, (clients, points, self.num_features, self.num_classes)))
        e = xp.exp(z - xp.max(z, axis=-1, keepdims=True))
        slope = (e / xp.sum(e, axis=-1, keepdims=True) - onehot) / batch
        grad = xp.matmul(xp.matrix_transpose(rows), slope)
        return xp.reshape(grad, (clients, points, self.dim)) + self.ridge * y

    def client_output_gradient(self, y: Array, first: int, last: int) -> Array:
        """The output is the vector of C logits."""
        xp = namespace(y)
        clients, points, _ = y.shape
        rows = self.features[:, first:last, :]
        w = xp.reshape(y, (clients, points, self.num_features, self.num_classes))
        z = xp.matmul(rows[:, None, :, :], w) * batch_shares(self.sample_weights, first, last)[:, None, :, None]
        return xp.reshape(2 * xp.matmul(xp.matrix_transpose(rows)[:, None, :, :], z), (clients, points, self.dim))

    def select(self, samples: Sequence[np.ndarray]) -> Self:
        other, samples = self._with_features(samples)
        onehot = [o[s] for o, s in zip(self.onehot, samples, strict=True)]
        other.onehot = padded_rows(onehot, other.features.shape[1])
        return other

    # --- constants --------------------------------------------------------------------------------
    def smoothness_exact(self) -> np.ndarray:
        """Of two classes everywhere; of more where some u has a_j'u > 0 for every sample of the client (see the class)."""
        if not same_smoothness(self, Softmax):
            return super().smoothness_exact()
        if self.num_classes == 2:
            return np.ones(self.num_clients, dtype=bool)
        from scipy.optimize import linprog

        exact = np.zeros(self.num_clients, dtype=bool)
        for k, n in enumerate(self.sample_counts):
            a = self.features[k, :n]
            a = a[np.abs(a).max(axis=1) > 0]  # a sample without features has no curvature
            free = [(None, None)] * self.num_features
            found = linprog(np.zeros(self.num_features), A_ub=-a, b_ub=-np.ones(len(a)), bounds=free)
            exact[k] = found.x is not None and bool((a @ found.x > 0).all())
        return exact

    @cached_property
    def _distinct(self) -> DistinctSamples:
        return distinct_samples(self, self.onehot)

    def structure(self) -> Structure:
        return SoftmaxRows(self, self.onehot) if same_loss(self, Softmax) else super().structure()

    def cvxpy_objective(self, variable: Any) -> Any:
        import cvxpy as cp

        features, onehot, weights, _ = self._distinct
        w = cp.reshape(variable, (self.num_features, self.num_classes), order="C")
        chosen = features.T @ (weights[:, None] * onehot)  # sum_j weights_j a_j onehot_j': the labels' logits enter linearly
        loss = weights @ cp.log_sum_exp(features @ w, axis=1) - cp.sum(cp.multiply(chosen, w))
        return loss + self.ridge / 2 * cp.sum_squares(variable)
