"""Convex constraint sets: projection, linear minimisation oracle, diameter, and the same set for
cvxpy.

Points are (..., d) arrays of NumPy, torch or another namespace of the array API, and results are of
the same; a matrix set takes the matrices flattened in row order. What a set cannot do raises
`MissingCapability`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtheory.arrays import Array, astype_like, is_array, is_numpy, namespace, to_numpy
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.inputs import real_array, real_number, shown, whole_number

__all__ = ["Ball", "Box", "Consensus", "ConstraintSet", "L1Ball", "NuclearBall", "Simplex", "project_simplex"]

DENSE_SVD = 200  # matrices with a side up to this long get a full SVD, longer ones Lanczos for the leading pair


def _point(x: Any, dim: int | None = None, single: bool = False) -> Array:
    """Points (..., d) of finite numbers, or with single one (d,); dim None takes any d >= 1."""
    usual = type(x) is np.ndarray and x.dtype == np.float64 and math.isfinite(np.vdot(x, x))  # else looked at closely
    if not usual:
        checked = real_array("x", x)
        x = x if is_array(x) and not is_numpy(x) and namespace(x).isdtype(x.dtype, "real floating") else checked
    if x.ndim < 1 or (single and x.ndim > 1) or x.shape[-1] != (dim or max(x.shape[-1], 1)):
        shape = f"({'' if single else '..., '}{dim or 'd'})"
        raise InvalidInput(f"x has shape {x.shape}: expected {shape}, d >= 1 the dimension of the set")
    return x


class ConstraintSet:
    """A closed convex set in R^dim."""

    dim: int

    def project(self, x: Array) -> Array:
        """Euclidean projection: (..., d) -> (..., d)."""
        return self._projected(_point(x, self.dim))

    def linear_minimiser(self, gradient: Array) -> Array:
        """A minimiser of <gradient, s> over the set: (d,) -> (d,)."""
        return self._least(_point(gradient, self.dim, single=True))

    def _projected(self, x: Array) -> Array:
        """The projection of points that have been checked."""
        raise MissingCapability(f"{type(self).__name__} has no projection: use MOLES, which needs a linear minimisation oracle")

    def _least(self, gradient: Array) -> Array:
        """The linear minimiser for a gradient that has been checked."""
        raise MissingCapability(f"{type(self).__name__} has no linear minimisation oracle: use MOPES, which projects")

    def _check_sizes(self, *sizes: str, **lengths: str) -> None:
        """Raise `InvalidInput` unless sizes are whole numbers and ``length``, if named, is > 0."""
        for name in sizes:
            whole_number(name, getattr(self, name))
        for name in lengths.values():
            object.__setattr__(self, name, real_number(name, getattr(self, name), above=0))

    @property
    def diameter(self) -> float:
        """max ||x - y|| over the set."""
        raise MissingCapability(f"{type(self).__name__} is unbounded: it has no diameter")

    @property
    def norm_bound(self) -> float:
        """max ||x|| over the set: the least ball around 0 that holds it."""
        raise MissingCapability(f"{type(self).__name__} is unbounded: state the radius of the local ball yourself")

    @property
    def block_norm_bound(self) -> float:
        """max over the set of the norm of each client's block; for a set of single vectors the norm bound."""
        return self.norm_bound

    def constraints(self, variable: Any) -> list[Any]:
        """The set as cvxpy constraints on a (d,) variable."""
        raise MissingCapability(f"{type(self).__name__} has no cvxpy form")

    def distance(self, x: Array) -> float:
        """Distance of one point from the set."""
        x = _point(x, self.dim, single=True)
        return float(np.linalg.norm(to_numpy(x - self.project(x))))


class _OfRadius(ConstraintSet):
    """A set that is symmetric around its centre, and touches the sphere of its radius there."""

    radius: float

    @property
    def diameter(self) -> float:
        return 2 * self.radius

    @property
    def norm_bound(self) -> float:
        return self.radius


@dataclass(frozen=True)
class Ball(_OfRadius):
    """||x - center|| <= radius; center None stands for 0."""

    dim: int
    radius: float
    center: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        self._check_sizes("dim", length="radius")
        if self.center is not None:
            center = real_array("center", self.center)
            if center.shape != (self.dim,):
                raise InvalidInput(f"center has shape {center.shape}: {self.dim} finite numbers are needed")
            object.__setattr__(self, "center", tuple(center.tolist()))

    @property
    def _center(self) -> np.ndarray:
        return np.zeros(self.dim) if self.center is None else np.array(self.center)

    def _projected(self, x: Array) -> Array:
        xp, center = namespace(x), astype_like(self._center, x)
        offset = x - center
        size = xp.linalg.vector_norm(offset, axis=-1, keepdims=True)
        with np.errstate(divide="ignore"):
            return center + offset * xp.minimum(xp.ones_like(size), self.radius / size)

    def _least(self, gradient: Array) -> Array:
        center, size = astype_like(self._center, gradient), float(namespace(gradient).linalg.vector_norm(gradient))
        return center - (self.radius / size) * gradient if size > 0 else center

    @property
    def norm_bound(self) -> float:
        return float(np.linalg.norm(self._center)) + self.radius

    def constraints(self, variable: Any) -> list[Any]:
        import cvxpy as cp

        return [cp.norm(variable - self._center) <= self.radius]


@dataclass(frozen=True)
class Box(ConstraintSet):
    """lower <= x <= upper, entry by entry; numbers stand for all entries. Default: -1 and 1."""

    dim: int
    lower: float | tuple[float, ...] | None = None
    upper: float | tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        self._check_sizes("dim")
        if (self.lower is None) != (self.upper is None):
            given, missing = ("upper", "lower") if self.lower is None else ("lower", "upper")
            raise InvalidInput(
                f"{given} is {shown(getattr(self, given))} and {missing} is not given: give both ends, Box(dim, lower, upper)"
            )
        ends = []
        for name, default in (("lower", -1.0), ("upper", 1.0)):
            values = real_array(name, default if getattr(self, name) is None else getattr(self, name))
            if values.shape not in ((), (self.dim,)):
                raise InvalidInput(f"{name} has shape {values.shape}: one finite number or {self.dim} of them are needed")
            ends.append(np.broadcast_to(values, (self.dim,)))
            object.__setattr__(self, name, tuple(ends[-1].tolist()))
        if (ends[0] > ends[1]).any():
            i = int(np.argmax(ends[0] > ends[1]))
            raise InvalidInput(f"lower[{i}] = {ends[0][i]!r} > upper[{i}] = {ends[1][i]!r}: the box is empty")

    def _ends(self, x: Array) -> tuple[Array, Array]:
        lower, upper = (astype_like(np.broadcast_to(np.asarray(e, dtype=float), (self.dim,)), x) for e in (self.lower, self.upper))
        return lower, upper

    def _projected(self, x: Array) -> Array:
        (lower, upper), xp = self._ends(x), namespace(x)
        return xp.minimum(xp.maximum(x, lower), upper)

    def _least(self, gradient: Array) -> Array:
        return namespace(gradient).where(gradient > 0, *self._ends(gradient))

    @property
    def diameter(self) -> float:
        return float(np.linalg.norm(np.asarray(self.upper, dtype=float) - np.asarray(self.lower, dtype=float)))

    @property
    def norm_bound(self) -> float:
        return float(np.linalg.norm(np.maximum(*(abs(np.asarray(e, dtype=float)) for e in (self.lower, self.upper)))))

    def constraints(self, variable: Any) -> list[Any]:
        return [variable >= np.array(self.lower), variable <= np.array(self.upper)]


def project_simplex(x: Array, total: float = 1.0) -> Array:
    """Projection on {x >= 0, sum x = total}: (..., d) -> (..., d), by one sort.

    The projection is max(x - tau, 0), where tau = (sum of the m largest - total)/m for the last m
    at which the m-th largest exceeds it (Held, Wolfe and Crowder 1974; Condat 2016, Algorithm 1).

    Raises
    ------
    InvalidInput
        x is no array of finite real numbers, or empty; total is not > 0.
    """
    x, total = _point(x), real_number("total", total, above=0)
    xp = namespace(x)
    ordered = -xp.sort(-x, axis=-1)
    counts = astype_like(np.arange(1.0, x.shape[-1] + 1), x)
    tau = (xp.cumulative_sum(ordered, axis=-1) - total) / counts
    last = xp.sum(xp.astype(ordered > tau, xp.int64), axis=-1, keepdims=True) - 1  # it holds for a prefix, the first included
    last = xp.maximum(last, xp.zeros_like(last))
    return xp.maximum(x - xp.take_along_axis(tau, last, axis=-1), xp.zeros_like(x))


@dataclass(frozen=True)
class Simplex(ConstraintSet):
    """x >= 0, sum x = total."""

    dim: int
    total: float = 1.0

    def __post_init__(self) -> None:
        self._check_sizes("dim", length="total")

    def _projected(self, x: Array) -> Array:
        return project_simplex(x, self.total)

    def _least(self, gradient: Array) -> Array:
        vertex = np.zeros(self.dim)
        vertex[int(namespace(gradient).argmin(gradient))] = self.total
        return astype_like(vertex, gradient)

    @property
    def diameter(self) -> float:
        return math.sqrt(2) * self.total if self.dim > 1 else 0.0

    @property
    def norm_bound(self) -> float:
        return self.total

    def constraints(self, variable: Any) -> list[Any]:
        import cvxpy as cp

        return [variable >= 0, cp.sum(variable) == self.total]


@dataclass(frozen=True)
class L1Ball(_OfRadius):
    """||x||_1 <= radius."""

    dim: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        self._check_sizes("dim", length="radius")

    def _projected(self, x: Array) -> Array:
        xp = namespace(x)
        size = xp.abs(x)
        inside = xp.sum(size, axis=-1, keepdims=True) <= self.radius
        return xp.where(inside, x, xp.sign(x) * project_simplex(size, self.radius))

    def _least(self, gradient: Array) -> Array:
        xp = namespace(gradient)
        vertex, i = np.zeros(self.dim), int(xp.argmax(xp.abs(gradient)))
        vertex[i] = -math.copysign(self.radius, float(gradient[i]))
        return astype_like(vertex, gradient)

    def constraints(self, variable: Any) -> list[Any]:
        import cvxpy as cp

        return [cp.norm1(variable) <= self.radius]


@dataclass(frozen=True)
class NuclearBall(_OfRadius):
    """Matrices (rows, columns) with sum of singular values <= radius, flattened in row order."""

    rows: int
    columns: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        self._check_sizes("rows", "columns", length="radius")

    @property
    def dim(self) -> int:  # type: ignore[override]
        return self.rows * self.columns

    def _matrix(self, x: Array) -> Array:
        return namespace(x).reshape(x, (*x.shape[:-1], self.rows, self.columns))

    def _projected(self, x: Array) -> Array:
        xp = namespace(x)
        left, values, right = xp.linalg.svd(self._matrix(x), full_matrices=False)
        outside = xp.sum(values, axis=-1) > self.radius
        kept = project_simplex(values, self.radius)
        return xp.where(outside[..., None], xp.reshape((left * kept[..., None, :]) @ right, x.shape), x)

    def _least(self, gradient: Array) -> Array:
        matrix = to_numpy(self._matrix(gradient))
        if not matrix.any():
            return astype_like(np.zeros(self.dim), gradient)  # every point is a minimiser
        if min(self.rows, self.columns) <= DENSE_SVD:
            left, _, right = np.linalg.svd(matrix, full_matrices=False)
        else:
            from scipy.sparse.linalg import svds

            left, _, right = svds(matrix, k=1, v0=np.random.default_rng(0).normal(size=min(matrix.shape)), tol=0)
        return astype_like(-self.radius * np.outer(left[:, 0], right[0]).ravel(), gradient)

    def constraints(self, variable: Any) -> list[Any]:
        import cvxpy as cp

        return [cp.normNuc(cp.reshape(variable, (self.rows, self.columns), order="C")) <= self.radius]


@dataclass(frozen=True)
class Consensus(ConstraintSet):
    """blocks copies of one vector of R^block_dim, of norm <= radius where a radius is given: {(u, ..., u)}.

    The constraint set of federated learning (FedMLS poster, eq. (1)), in the product space R^(blocks * block_dim).
    """

    blocks: int
    block_dim: int
    radius: float | None = None

    def __post_init__(self) -> None:
        self._check_sizes("blocks", "block_dim", **({} if self.radius is None else {"length": "radius"}))

    @property
    def dim(self) -> int:  # type: ignore[override]
        return self.blocks * self.block_dim

    @property
    def block_norm_bound(self) -> float:
        return math.inf if self.radius is None else self.radius

    def _projected(self, x: Array) -> Array:
        xp, shape = namespace(x), (*x.shape[:-1], self.blocks, self.block_dim)
        mean = xp.mean(xp.reshape(x, shape), axis=-2)
        if self.radius is not None:  # the nearest consensus in the ball is the mean, then projected: the two distances are orthogonal
            mean = Ball(self.block_dim, self.radius).project(mean)
        return xp.reshape(xp.broadcast_to(mean[..., None, :], shape), x.shape)
