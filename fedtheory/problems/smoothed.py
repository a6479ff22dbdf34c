"""Maxima of affine functions, smoothed: the smallest smooth convex losses that have given gradients and values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from fedtheory.arrays import Array, astype_like, to_numpy
from fedtheory.errors import InvalidInput
from fedtheory.inputs import data_array, real_array, real_number
from fedtheory.optimum.certify import Optimum, assess
from fedtheory.optimum.lower_bounds import Structure
from fedtheory.optimum.mixtures import SmoothedMaximum, best_mixture, directions
from fedtheory.problems.base import Problem, same_loss

__all__ = ["SmoothedMaxAffine"]


class SmoothedMaxAffine(Problem):
    """f_k(x) = min_u max_j (slopes_kj'u + offsets_kj) + (L - mu)/2 ||x - u||^2, plus mu/2 ||x||^2.

    The first part is the Moreau envelope of a maximum of affine functions, the same as the maximum over weights t >= 0 that
    add up to 1 of sum_j t_j (slopes_kj'x + offsets_kj) - ||sum_j t_j slopes_kj||^2/(2 (L - mu)). Its gradient is
    sum_j t_j slopes_kj, and its pieces have curvature 0 or L - mu in every direction. A small quadratic programme for each
    point and client, solved by active sets, gives t.

    Parameters
    ----------
    slopes : (N, p, d)
    offsets : (N, p)
    smoothness : L > 0, or one for each client (N,)
    strong_convexity : mu, at least 0 and below L, or one for each client
    weights : 'uniform', or N numbers that sum to 1
    minimiser : (d,) or None
        A minimiser of the mean that is known: `optimum` takes and certifies it where it is one, and searches elsewhere.

    Raises
    ------
    InvalidInput
        Shapes that disagree, data that are no finite real numbers up to 1e100, constants out of range.
    """

    name = "smoothed max of affine functions"
    client_data: ClassVar[tuple[str, ...]] = ("slopes", "offsets", "largest", "least")

    def __init__(
        self, slopes: Any, offsets: Any, smoothness: Any = 1.0, strong_convexity: Any = 0.0,
        weights: Any = "uniform", minimiser: Any = None,
    ) -> None:
        a, b = np.array(data_array("slopes", slopes)), np.array(data_array("offsets", offsets))
        if a.ndim != 3 or b.shape != a.shape[:2] or 0 in a.shape:
            raise InvalidInput(f"slopes {a.shape} and offsets {b.shape} disagree: expected (N, p, d) and (N, p), none of them 0")
        self.largest = _of_each("smoothness", smoothness, len(a), above=0)
        self.least = _of_each("strong_convexity", strong_convexity, len(a), least=0)
        if (self.least >= self.largest).any():
            k = int(np.argmax(self.least >= self.largest))
            raise InvalidInput(f"strong_convexity = {self.least[k]:g}: it must be below the smoothness {self.largest[k]:g}")
        self.slopes, self.offsets = a, b
        self._one_loss_each(len(a), a.shape[2], weights)
        self.minimiser = None if minimiser is None else real_array("minimiser", minimiser)
        if self.minimiser is not None and self.minimiser.shape != (self.dim,):
            raise InvalidInput(f"minimiser {self.minimiser.shape}: one point is needed, ({self.dim},)")

    @property
    def envelope(self) -> np.ndarray:
        """L - mu, the curvature of each client's envelope (N,)."""
        largest, least = (to_numpy(of).astype(float) for of in (self.largest, self.least))
        return largest - least

    @property
    def ridges(self) -> np.ndarray:
        """mu of each client (N,)."""
        return to_numpy(self.least).astype(float)

    def mixtures(self, y: np.ndarray) -> np.ndarray:
        """t of the maximum (N, B, p), for points (N, B, d)."""
        slopes, offsets = (to_numpy(a).astype(float) for a in (self.slopes, self.offsets))
        heights = np.einsum("nbd,npd->nbp", np.asarray(y, dtype=float), slopes) + offsets[:, None, :]
        out = np.empty_like(heights)
        for a, M, row, found in zip(slopes, self.envelope, heights, out, strict=True):
            products = a @ a.T / M
            for b, c in enumerate(row):
                found[b] = best_mixture(c, products)
        return out

    def client_value(self, y: Array) -> Array:
        at = to_numpy(y).astype(float, order="C")
        t = self.mixtures(at)
        slopes, offsets = to_numpy(self.slopes), to_numpy(self.offsets)
        g = t @ slopes
        heights = np.einsum("nbd,npd->nbp", at, slopes) + offsets[:, None, :]
        with np.errstate(over="ignore", invalid="ignore"):
            values = (t * heights).sum(axis=-1) - (g * g).sum(axis=-1) / (2 * self.envelope[:, None])
            return astype_like(values + self.ridges[:, None] / 2 * (at * at).sum(axis=-1), y)

    def client_gradient(self, y: Array) -> Array:
        at = to_numpy(y).astype(float, order="C")
        return astype_like(self.mixtures(at) @ to_numpy(self.slopes) + self.ridges[:, None, None] * at, y)

    def client_hessian(self, y: Array) -> Array:
        """L - mu on the directions in which t may change, and mu on all of them; one of the Hessians where pieces meet."""
        at = to_numpy(y).astype(float, order="C")
        out, envelope, ridges = np.empty((*at.shape, self.dim)), self.envelope, self.ridges
        for n, row in enumerate(self.mixtures(at)):
            for b, t in enumerate(row):
                out[n, b] = envelope[n] * directions(to_numpy(self.slopes)[n], t) + ridges[n] * np.eye(self.dim)
        return astype_like(out, y)

    def smoothness(self) -> np.ndarray:
        return to_numpy(self.largest).astype(float)

    def smoothness_exact(self) -> np.ndarray:
        """Return for which clients `smoothness()` is the least constant: those whose slopes differ.
        The maximum has a kink then, and its envelope the curvature L - mu across it."""
        slopes = to_numpy(self.slopes)
        return (slopes != slopes[:, :1]).any(axis=(1, 2)) & same_loss(self, SmoothedMaxAffine)

    def strong_convexity(self) -> np.ndarray:
        return self.ridges

    def optimum(self, gap: float = 1e-12, max_conic_entries: int | None = None) -> Optimum:
        if self.minimiser is not None and "_optimum" not in self.__dict__:
            found = assess(self, self.minimiser)
            if found.within(gap):
                said = {"conic": "was not asked: a minimiser is known", "conic_form": "", "conic_value": None, "newton_steps": 0}
                self.__dict__["_optimum"] = replace(found, solver="a known minimiser", details=found.details | said)
        return super().optimum(gap, max_conic_entries)

    def structure(self) -> Structure:
        if not same_loss(self, SmoothedMaxAffine):
            return super().structure()
        return SmoothedMaximum(self.slopes, self.offsets, self.weights, self.envelope, self.ridges)


def _of_each(name: str, given: Any, clients: int, **limits: Any) -> np.ndarray:
    """A number of each client (N,), from one for all or for each."""
    several = real_array(name, given) if np.ndim(given) else np.array([given])
    if several.shape not in ((1,), (clients,)):
        raise InvalidInput(f"{name} {several.shape}: one number is needed, or {clients}")
    return np.broadcast_to([real_number(name, x, **limits) for x in several.tolist()], clients).copy()
