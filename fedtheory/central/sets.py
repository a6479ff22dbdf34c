"""Convex constraint sets: projection, linear minimisation oracle, diameter, and the same set for cvxpy.

Points are (..., d); a matrix set takes the matrices flattened in row order. What a set cannot do raises `MissingCapability`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import svds

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.inputs import real_array, real_number, shown, whole_number

__all__ = ["Ball", "Box", "Consensus", "ConstraintSet", "L1Ball", "NuclearBall", "Simplex", "project_simplex"]

DENSE_SVD = 200  # matrices with a side up to this long get a full SVD, longer ones Lanczos for the leading pair


def _check_dim(name: str, value: Any) -> int:
    return whole_number(name, value)


def _check_radius(name: str, value: Any) -> float:
    return real_number(name, value, above=0)


def _point(x: Any, dim: int | None = None, single: bool = False) -> np.ndarray:
    """Points (..., d) of finite numbers, or with single one of them (d,); dim None takes any d >= 1."""
    usual = type(x) is np.ndarray and x.dtype == np.float64 and math.isfinite(np.vdot(x, x))  # else looked at closely
    x = x if usual else real_array("x", x)
    if x.ndim < 1 or (single and x.ndim > 1) or x.shape[-1] != (dim or max(x.shape[-1], 1)):
        shape = f"({'' if single else '..., '}{dim or 'd'})"
        raise InvalidInput(f"x has shape {x.shape}: expected {shape}, d >= 1 the dimension of the set")
    return x


class ConstraintSet:
    """A closed convex set in R^dim."""

    dim: int

    def project(self, x: np.ndarray) -> np.ndarray:
        """Euclidean projection: (..., d) -> (..., d)."""
        raise MissingCapability(f"{type(self).__name__} has no projection: use MOLES, which needs a linear minimisation oracle")

    def linear_minimiser(self, gradient: np.ndarray) -> np.ndarray:
        """A minimiser of <gradient, s> over the set: (d,) -> (d,)."""
        raise MissingCapability(f"{type(self).__name__} has no linear minimisation oracle: use MOPES, which projects")

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

    def distance(self, x: np.ndarray) -> float:
        """Distance of one point from the set."""
        x = _point(x, self.dim, single=True)
        return float(np.linalg.norm(x - self.project(x)))


@dataclass(frozen=True)
class Ball(ConstraintSet):
    """||x - center|| <= radius; center None stands for 0."""

    dim: int
    radius: float
    center: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        _check_dim("dim", self.dim)
        object.__setattr__(self, "radius", _check_radius("radius", self.radius))
        if self.center is not None:
            center = real_array("center", self.center)
            if center.shape != (self.dim,):
                raise InvalidInput(f"center has shape {center.shape}: {self.dim} finite numbers are needed")
            object.__setattr__(self, "center", tuple(center.tolist()))

    @property
    def _center(self) -> np.ndarray:
        return np.zeros(self.dim) if self.center is None else np.array(self.center)

    def project(self, x: np.ndarray) -> np.ndarray:
        offset = _point(x, self.dim) - self._center
        size = np.linalg.norm(offset, axis=-1, keepdims=True)
        with np.errstate(divide="ignore"):
            return self._center + offset * np.minimum(1.0, self.radius / size)

    def linear_minimiser(self, gradient: np.ndarray) -> np.ndarray:
        gradient = _point(gradient, self.dim, single=True)
        size = np.linalg.norm(gradient)
        return self._center - (self.radius / size) * gradient if size > 0 else self._center

    @property
    def diameter(self) -> float:
        return 2 * self.radius

    @property
    def norm_bound(self) -> float:
        return float(np.linalg.norm(self._center)) + self.radius

    def constraints(self, variable: Any) -> list[Any]:
        import cvxpy as cp

        return [cp.norm(variable - self._center) <= self.radius]


@dataclass(frozen=True)
class Box(ConstraintSet):
    """lower <= x <= upper, entry by entry; numbers stand for all entries. Without either: -1 and 1."""

    dim: int
    lower: float | tuple[float, ...] | None = None
    upper: float | tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        _check_dim("dim", self.dim)
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

    def project(self, x: np.ndarray) -> np.ndarray:
        return np.clip(_point(x, self.dim), self.lower, self.upper)

    def linear_minimiser(self, gradient: np.ndarray) -> np.ndarray:
        return np.where(_point(gradient, self.dim, single=True) > 0, self.lower, self.upper)

    @property
    def diameter(self) -> float:
        return float(np.linalg.norm(np.subtract(self.upper, self.lower)))

    @property
    def norm_bound(self) -> float:
        return float(np.linalg.norm(np.maximum(np.abs(self.lower), np.abs(self.upper))))

    def constraints(self, variable: Any) -> list[Any]:
        return [variable >= np.array(self.lower), variable <= np.array(self.upper)]


def project_simplex(x: np.ndarray, total: float = 1.0) -> np.ndarray:
    """Projection on {x >= 0, sum x = total}: (..., d) -> (..., d), by one sort.

    The projection is max(x - tau, 0), where tau = (sum of the m largest - total)/m for the last m at which the m-th largest exceeds it
    (Held, Wolfe and Crowder 1974; Condat 2016, Algorithm 1).

    Raises
    ------
    InvalidInput
        x is no array of finite real numbers, or empty; total is not > 0.
    """
    x, total = _point(x), _check_radius("total", total)
    ordered = -np.sort(-x, axis=-1)
    counts = np.arange(1, x.shape[-1] + 1)
    tau = (np.cumsum(ordered, axis=-1) - total) / counts
    last = np.count_nonzero(ordered > tau, axis=-1, keepdims=True) - 1  # ordered > tau holds for a prefix, the first included
    return np.maximum(x - np.take_along_axis(tau, np.maximum(last, 0), axis=-1), 0.0)


@dataclass(frozen=True)
class Simplex(ConstraintSet):
    """x >= 0, sum x = total."""

    dim: int
    total: float = 1.0

    def __post_init__(self) -> None:
        _check_dim("dim", self.dim)
        object.__setattr__(self, "total", _check_radius("total", self.total))

    def project(self, x: np.ndarray) -> np.ndarray:
        return project_simplex(_point(x, self.dim), self.total)

    def linear_minimiser(self, gradient: np.ndarray) -> np.ndarray:
        vertex = np.zeros(self.dim)
        vertex[np.argmin(_point(gradient, self.dim, single=True))] = self.total
        return vertex

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
class L1Ball(ConstraintSet):
    """||x||_1 <= radius."""

    dim: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        _check_dim("dim", self.dim)
        object.__setattr__(self, "radius", _check_radius("radius", self.radius))

    def project(self, x: np.ndarray) -> np.ndarray:
        x = _point(x, self.dim)
        inside = np.abs(x).sum(axis=-1, keepdims=True) <= self.radius
        return np.where(inside, x, np.copysign(project_simplex(np.abs(x), self.radius), x))

    def linear_minimiser(self, gradient: np.ndarray) -> np.ndarray:
        gradient = _point(gradient, self.dim, single=True)
        vertex, i = np.zeros(self.dim), int(np.argmax(np.abs(gradient)))
        vertex[i] = -math.copysign(self.radius, gradient[i])
        return vertex

    @property
    def diameter(self) -> float:
        return 2 * self.radius

    @property
    def norm_bound(self) -> float:
        return self.radius

    def constraints(self, variable: Any) -> list[Any]:
        import cvxpy as cp

        return [cp.norm1(variable) <= self.radius]


@dataclass(frozen=True)
class NuclearBall(ConstraintSet):
    """Matrices (rows, columns) with sum of singular values <= radius, flattened in row order."""

    rows: int
    columns: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        _check_dim("rows", self.rows)
        _check_dim("columns", self.columns)
        object.__setattr__(self, "radius", _check_radius("radius", self.radius))

    @property
    def dim(self) -> int:  # type: ignore[override]
        return self.rows * self.columns

    def _matrix(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(*x.shape[:-1], self.rows, self.columns)

    def project(self, x: np.ndarray) -> np.ndarray:
        x = _point(x, self.dim)
        left, values, right = np.linalg.svd(self._matrix(x), full_matrices=False)
        outside = values.sum(axis=-1) > self.radius
        kept = project_simplex(values, self.radius)
        return np.where(outside[..., None], ((left * kept[..., None, :]) @ right).reshape(x.shape), x)

    def linear_minimiser(self, gradient: np.ndarray) -> np.ndarray:
        matrix = self._matrix(_point(gradient, self.dim, single=True))
        if not matrix.any():
            return np.zeros(self.dim)  # every point is a minimiser
        if min(self.rows, self.columns) <= DENSE_SVD:
            left, _, right = np.linalg.svd(matrix, full_matrices=False)
        else:
            left, _, right = svds(matrix, k=1, v0=np.random.default_rng(0).normal(size=min(matrix.shape)), tol=0)
        return -self.radius * np.outer(left[:, 0], right[0]).ravel()

    @property
    def diameter(self) -> float:
        return 2 * self.radius

    @property
    def norm_bound(self) -> float:
        return self.radius

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
        _check_dim("blocks", self.blocks)
        _check_dim("block_dim", self.block_dim)
        if self.radius is not None:
            object.__setattr__(self, "radius", _check_radius("radius", self.radius))

    @property
    def dim(self) -> int:  # type: ignore[override]
        return self.blocks * self.block_dim

    @property
    def block_norm_bound(self) -> float:
        return math.inf if self.radius is None else self.radius

    def project(self, x: np.ndarray) -> np.ndarray:
        x = _point(x, self.dim)
        mean = x.reshape(*x.shape[:-1], self.blocks, self.block_dim).mean(axis=-2)
        if self.radius is not None:  # the nearest consensus in the ball is the mean, then projected: the two distances are orthogonal
            mean = Ball(self.block_dim, self.radius).project(mean)
        return np.broadcast_to(mean[..., None, :], (*x.shape[:-1], self.blocks, self.block_dim)).reshape(x.shape)
