"""Nonsmooth convex clients with bounded subgradients: kinked linear models, maxima of affine
functions and distances.

``client_gradient`` returns one subgradient, the same in every array library; each class says which
at a kink. ``lipschitz(radius)`` is the largest norm of a subgradient of f_k on the closed ball
||x|| <= radius: it bounds every subgradient that is returned there, also at a kink on the boundary.
``lipschitz_exact`` says where that is proved attained. Smoothness and Hessians are missing
capabilities.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from fedtheory.arrays import Array, namespace, to_numpy
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.inputs import blocks, check_unit, data_array, real_array, whole_number
from fedtheory.optimum.duality import NonsmoothStructure, check_radius
from fedtheory.optimum.intervals import Enclosure
from fedtheory.problems.base import Problem
from fedtheory.problems.linear import LinearModel, take_samples
from fedtheory.problems.lipschitz import largest_slope, point_in_ball

__all__ = ["LAD", "EuclideanDistance", "Hinge", "L1Distance", "MaxAffine", "Quantile"]


class _Nonsmooth(Problem):
    """A nonsmooth problem, whose constants on a ball are computed once for each radius and kept."""

    def smoothness(self) -> np.ndarray:
        raise MissingCapability(
            f"{type(self).__name__} has no smoothness constant (capability 'smoothness'): its "
            "gradient jumps; use a method for nonsmooth problems, or a smooth loss such as Huber"
        )

    def client_hessian(self, y: Array) -> Array:
        raise MissingCapability(f"{type(self).__name__} has no Hessian (capability 'client_hessian'): use a subgradient solver")

    def lipschitz(self, radius: float) -> np.ndarray:
        return self._lipschitz_at(radius)[0].copy()

    def lipschitz_exact(self, radius: float) -> np.ndarray:
        return self._lipschitz_at(radius)[1].copy()

    def _lipschitz_at(self, radius: float) -> tuple[np.ndarray, np.ndarray]:
        radius = check_radius(radius, finite=False)
        kept = self.__dict__.setdefault("_lipschitz", {})
        if radius not in kept:
            found = [self._client_lipschitz(k, radius) for k in range(self.num_clients)]
            kept[radius] = np.array([f[0] for f in found], dtype=float), np.array([f[1] for f in found], dtype=bool)
        return kept[radius]

    def _client_lipschitz(self, client: int, radius: float) -> tuple[float, bool]:
        raise NotImplementedError


class _KinkedModel(_Nonsmooth, LinearModel):
    """phi(z, b) with slopes of two sizes on either side of one kink; `_kink` gives a_j, b_j, low,
    high of max(low z, high z)."""

    def _kink(self, rows: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
        raise NotImplementedError

    @property
    def _steepest(self) -> float:
        return 1.0

    def _client_lipschitz(self, client: int, radius: float) -> tuple[float, bool]:
        features, targets, share = (to_numpy(a)[client] for a in (self.features, self.targets, self.sample_weights))
        keep = share > 0
        rows, offsets, low, high = self._kink(features[keep], targets[keep])
        if self.ridge and radius == math.inf:
            return math.inf, True
        return largest_slope(rows, offsets, low * share[keep], high * share[keep], radius, self.ridge)

    def batch_noise_sq(self, radius: float, batch_size: int) -> np.ndarray:
        """(1/b) max|phi'|^2 mean_j ||a_j||^2: the second moment of one sample's subgradient, for
        batches with replacement; without replacement the variance is smaller by (n - b)/(n - 1)."""
        check_radius(radius, finite=False)
        batch_size = whole_number("batch_size", batch_size)
        features, share = to_numpy(self.features), to_numpy(self.sample_weights)
        return self._steepest**2 * np.einsum("nj,njd,njd->n", share, features, features) / batch_size

    def nonsmooth_structure(self) -> NonsmoothStructure:
        keep = self.sample_weights > 0
        rows, offsets, low, high = self._kink(self.features[keep], self.targets[keep])
        weight = (Enclosure.exact(self.weights[:, None]) * self.sample_weights)[keep]
        return NonsmoothStructure(
            self.dim, rows=rows, offsets=offsets, low=weight * low, high=weight * high,
            ridge=Enclosure.exact(self.weights).sum() * self.ridge,
        )  # fmt: skip


class LAD(_KinkedModel):
    """Least absolute deviations: f_k(x) = (1/n_k) sum_j |a_kj'x - b_kj|; sign(0) = 0 at a kink.

    Parameters
    ----------
    features : (N, n, d), or a list of per-client (n_k, d) arrays.
    targets : (N, n), or a list of (n_k,) arrays.
    weights : 'uniform' (1/N), 'samples' (n_k/n), or N numbers that sum to 1.

    Raises
    ------
    InvalidInput
        Shapes that disagree, a client without samples, data that are no finite real numbers up to 1e100.
    """

    name = "least absolute deviations"

    def __init__(self, features: Any, targets: Any, weights: Any = "uniform") -> None:
        super().__init__(features, targets, 0.0, weights)

    def phi(self, z: Array, b: Array) -> Array:
        return namespace(z).abs(z - b)

    def dphi(self, z: Array, b: Array) -> Array:
        return namespace(z).sign(z - b)

    def _kink(self, rows: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
        return rows, targets, -1.0, 1.0

    def cvxpy_loss(self, z: Any, b: np.ndarray) -> Any:
        import cvxpy as cp

        return cp.abs(z - b)


class Quantile(_KinkedModel):
    """Quantile regression: phi(z, b) = tau max(b - z, 0) + (1 - tau) max(z - b, 0); the subgradient 0 at a kink.

    Parameters as in `LAD`; tau is strictly between 0 and 1 (Koenker and Bassett, Econometrica 46 (1978)).

    Raises
    ------
    InvalidInput
        As `LAD`, and tau outside (0, 1).
    """

    name = "quantile regression"

    def __init__(self, features: Any, targets: Any, tau: float, weights: Any = "uniform") -> None:
        self.tau = check_unit("tau", tau)
        super().__init__(features, targets, 0.0, weights)

    @property
    def _steepest(self) -> float:
        return max(self.tau, 1 - self.tau)

    def phi(self, z: Array, b: Array) -> Array:
        xp = namespace(z)
        zero = xp.zeros_like(z)
        return (1 - self.tau) * xp.maximum(z - b, zero) + self.tau * xp.maximum(b - z, zero)

    def dphi(self, z: Array, b: Array) -> Array:
        xp = namespace(z)
        return (1 - self.tau) * xp.astype(z > b, z.dtype) - self.tau * xp.astype(z < b, z.dtype)

    def _kink(self, rows: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
        return rows, targets, -self.tau, 1 - self.tau

    def cvxpy_loss(self, z: Any, b: np.ndarray) -> Any:
        import cvxpy as cp

        return (1 - self.tau) * cp.pos(z - b) + self.tau * cp.pos(b - z)


class Hinge(_KinkedModel):
    """Support vector machine: phi(z, b) = max(0, 1 - b z) with labels b in {-1, 1}, + ridge/2 ||x||^2; slope 0 at the kink.

    Parameters
    ----------
    features, weights : as in `LAD`
    labels : (N, n), or a list of (n_k,) arrays, of -1 and 1
    ridge : float from 0 to 1e100

    Raises
    ------
    InvalidInput
        As `LAD`; labels other than -1 and 1 (names the first); a negative ridge.
    """

    name = "hinge"

    def __init__(self, features: Any, labels: Any, ridge: float = 0.0, weights: Any = "uniform") -> None:
        for k, block in enumerate(blocks("labels", labels)):
            values = real_array(f"labels of client {k}", block, finite=False)
            bad = values[np.isfinite(values) & (np.abs(values) != 1)]
            if bad.size:
                raise InvalidInput(f"labels of client {k} hold {bad.flat[0]:g}: the hinge loss takes -1 and 1; recode the two classes")
        super().__init__(features, labels, ridge, weights)

    def phi(self, z: Array, b: Array) -> Array:
        xp = namespace(z)
        return xp.maximum(1 - b * z, xp.zeros_like(z))

    def dphi(self, z: Array, b: Array) -> Array:
        return -b * namespace(z).astype(b * z < 1, z.dtype)

    def _kink(self, rows: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
        return -targets[:, None] * rows, -np.ones(len(rows)), 0.0, 1.0  # max(0, 1 - b a'x); products with a sign are exact

    def cvxpy_loss(self, z: Any, b: np.ndarray) -> Any:
        import cvxpy as cp

        return cp.pos(1 - cp.multiply(b, z))


class MaxAffine(_Nonsmooth):
    """f_k(x) = max_j (slopes_kj'x + offsets_kj); at a tie the first index.

    Parameters
    ----------
    slopes : (N, p, d)
    offsets : (N, p)
    weights : 'uniform', or N numbers that sum to 1

    Raises
    ------
    InvalidInput
        Shapes that disagree, data that are no finite real numbers up to 1e100.

    Notes
    -----
    G_k is exact: the steepest piece that is largest somewhere on the ball.
    """

    name = "max of affine functions"
    client_data: ClassVar[tuple[str, ...]] = ("slopes", "offsets")

    def __init__(self, slopes: Any, offsets: Any, weights: Any = "uniform") -> None:
        a, b = np.array(data_array("slopes", slopes)), np.array(data_array("offsets", offsets))
        if a.ndim != 3 or b.shape != a.shape[:2] or 0 in a.shape:
            raise InvalidInput(f"slopes {a.shape} and offsets {b.shape} disagree: expected (N, p, d) and (N, p), none of them 0")
        self.slopes, self.offsets = a, b
        self._one_loss_each(len(a), a.shape[2], weights)

    def _pieces(self, y: Array) -> Array:
        xp = namespace(y)
        return xp.matmul(y, xp.matrix_transpose(self.slopes)) + self.offsets[:, None, :]

    def client_value(self, y: Array) -> Array:
        return namespace(y).max(self._pieces(y), axis=-1)

    def client_gradient(self, y: Array) -> Array:
        first = namespace(y).argmax(self._pieces(y), axis=-1)
        return take_samples(self.slopes, first[..., None])[:, :, 0, :]

    def _client_lipschitz(self, client: int, radius: float) -> tuple[float, bool]:
        a, b = to_numpy(self.slopes)[client], to_numpy(self.offsets)[client]
        sizes = np.linalg.norm(a, axis=1)
        for j in np.argsort(-sizes, kind="stable"):
            if point_in_ball(a[j] - a, b - b[j], radius) is not None:
                return float(sizes[j]), True
        return float(sizes.max()), False

    def nonsmooth_structure(self) -> NonsmoothStructure:
        return NonsmoothStructure(self.dim, slopes=self.slopes, intercepts=self.offsets, group_weights=Enclosure.exact(self.weights))

    def cvxpy_objective(self, variable: Any) -> Any:
        import cvxpy as cp

        return sum(
            w * cp.max(a @ variable + b) for w, a, b in zip(self.weights, self.slopes, self.offsets, strict=True)
        )


class _Distance(_Nonsmooth):
    client_data: ClassVar[tuple[str, ...]] = ("centers",)

    def __init__(self, centers: Any, weights: Any = "uniform") -> None:
        c = np.array(data_array("centers", centers))
        if c.ndim != 2 or 0 in c.shape:
            raise InvalidInput(f"centers has shape {c.shape}: expected (N, d), neither of them 0")
        self.centers = c
        self._one_loss_each(len(c), c.shape[1], weights)


class L1Distance(_Distance):
    """f_k(x) = ||x - c_k||_1; sign(0) = 0. centers (N, d); weights 'uniform' or N with sum 1.

    G_k = sqrt(d), attained wherever no coordinate meets the centre's.

    Raises
    ------
    InvalidInput
        Wrong shapes or data that are no finite real numbers up to 1e100.
    """

    name = "l1 distance"

    def client_value(self, y: Array) -> Array:
        xp = namespace(y)
        return xp.sum(xp.abs(y - self.centers[:, None, :]), axis=-1)

    def client_gradient(self, y: Array) -> Array:
        return namespace(y).sign(y - self.centers[:, None, :])

    def _client_lipschitz(self, client: int, radius: float) -> tuple[float, bool]:
        return math.sqrt(self.dim), True

    def nonsmooth_structure(self) -> NonsmoothStructure:
        rows = np.tile(np.eye(self.dim), (self.num_clients, 1))
        weight = np.repeat(self.weights, self.dim)
        low, high = Enclosure.exact(-weight), Enclosure.exact(weight)
        return NonsmoothStructure(self.dim, rows=rows, offsets=self.centers.ravel(), low=low, high=high)

    def cvxpy_objective(self, variable: Any) -> Any:
        import cvxpy as cp

        return sum(w * cp.norm1(variable - c) for w, c in zip(self.weights, self.centers, strict=True))


class EuclideanDistance(_Distance):
    """f_k(x) = ||x - c_k||, whose average is minimal at the geometric median; the subgradient 0 at the centre.

    centers (N, d); weights 'uniform' or N numbers that sum to 1. G_k = 1.

    Raises
    ------
    InvalidInput
        Wrong shapes or data that are no finite real numbers up to 1e100.
    """

    name = "Euclidean distance"

    def _offset(self, y: Array) -> tuple[Array, Array]:
        xp = namespace(y)
        r = y - self.centers[:, None, :]
        return r, xp.sqrt(xp.sum(r * r, axis=-1))

    def client_value(self, y: Array) -> Array:
        return self._offset(y)[1]

    def client_gradient(self, y: Array) -> Array:
        r, size = self._offset(y)
        return r / namespace(y).where(size > 0, size, namespace(y).ones_like(size))[..., None]

    def _client_lipschitz(self, client: int, radius: float) -> tuple[float, bool]:
        return 1.0, True

    def nonsmooth_structure(self) -> NonsmoothStructure:
        return NonsmoothStructure(self.dim, centers=self.centers, center_weights=Enclosure.exact(self.weights))

    def cvxpy_objective(self, variable: Any) -> Any:
        import cvxpy as cp

        return sum(w * cp.norm(variable - c) for w, c in zip(self.weights, self.centers, strict=True))
