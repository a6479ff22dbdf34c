"""Maxima of affine functions, smoothed: the weights of the pieces by active sets, and bounds of F*
that rounding cannot spoil."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.optimum.intervals import TINY, UP, Enclosure, dot, norm_up, stack_sum
from fedtheory.optimum.lower_bounds import LowerBound, Structure

__all__ = ["SmoothedMaximum", "best_mixture", "directions"]

EPS = float(np.finfo(float).eps)


def best_mixture(c: np.ndarray, products: np.ndarray) -> np.ndarray:
    """argmax of c't - t'products t/2 over t >= 0 that add up to 1, by active sets: (p,), (p,
    p) -> (p,).

    A piece enters where the slope is steepest. The maximum on the affine hull of the pieces is gone
    for, until a weight is 0, whose piece leaves. Pieces of the hull whose slopes depend on one
    another leave along the line on which only c changes.
    """
    used = [int(np.argmax(c - np.diag(products) / 2))]
    t = np.zeros(len(c))
    t[used] = 1.0
    limit = 8 * EPS * (float(np.abs(c).max()) + float(np.diag(products).max()))
    for _ in range(10 * len(c) + 100):
        slope = c - products @ t
        new = int(np.argmax(slope))
        if slope[new] - t @ slope <= limit or new in used:
            break
        used.append(new)
        while len(used) > 1:
            move, whole = _direction(c, products, t, used, limit)
            falls = move < 0
            steps = np.full(len(used), np.inf)
            steps[falls] = t[used][falls] / -move[falls]
            last = int(np.argmin(steps))
            if whole and steps[last] >= 1:
                t[used] = np.maximum(t[used] + move, 0.0)
                break
            if not falls.any():
                break
            t[used] = np.maximum(t[used] + steps[last] * move, 0.0)
            t[used[last]] = 0.0
            del used[last]
        t[used] /= t[used].sum()
    return t


def _direction(c: np.ndarray, products: np.ndarray, t: np.ndarray, used: list[int], limit: float) -> tuple[np.ndarray, bool]:
    """From t to the maximum on the affine hull of the pieces used; or, False, along a line on which there is none."""
    first, others = used[0], used[1:]
    apart = products[np.ix_(others, others)] - products[others, first][:, None] - products[first, others] + products[first, first]
    slope = c - products @ t
    left = slope[others] - slope[first]
    sizes, axes = np.linalg.eigh(apart)
    flat = sizes <= 1e-13 * max(float(sizes[-1]), float(products.diagonal().max()) * EPS)
    along = axes.T @ left
    whole = not (np.abs(along[flat]) > limit).any()
    step = axes @ (np.where(flat, 0.0, along / np.where(flat, 1.0, sizes)) if whole else np.where(flat, along, 0.0))
    return np.concatenate([[-step.sum()], step]), whole


class SmoothedMaximum(Structure):
    """F(x) = sum_k w_k max over t >= 0, sum t = 1, of t'(S_k x + b_k) - ||S_k't||^2/(2 M_k), plus ridge/2 ||x||^2.

    With any such t a client's loss is at least what t says; with u = x - S_k't/M and M = M_k it is at most max_j (S_k u + b_k)_j +
    M/2 ||x - u||^2, its Moreau envelope's value at u. As the maximum is of a function whose curvature in S_k't is 1/M, the
    gradient S_k't is off by at most sqrt(2 M times the difference).

    A piece that all clients have is a bound of its own: F(x) >= c_j + <s_j, x> + ridge/2 ||x||^2 with s_j = sum_k w_k S_kj
    and c_j = sum_k w_k (b_kj - ||S_kj||^2/(2 M_k)). It has a least value where ridge > 0, or where s_j = 0, in fractions.

    Parameters
    ----------
    slopes, offsets : S (N, p, d) and b (N, p)
    weights : (N,)
    envelope, ridges : M > 0 and a ridge >= 0 of each client (N,); the ridge of F is their mean
    """

    def __init__(self, slopes: np.ndarray, offsets: np.ndarray, weights: np.ndarray, envelope: np.ndarray, ridges: np.ndarray) -> None:
        self.slopes, self.offsets, self.weights = slopes, offsets, weights
        self.envelope, self.dim = envelope, slopes.shape[2]
        alike = (ridges == ridges[0]).all()
        self.mean_ridge = Enclosure.exact(ridges[0]) if alike else (Enclosure.exact(ridges) * weights).sum()
        self.ridge = float(self.mean_ridge.lower)
        self.products = slopes @ slopes.transpose(0, 2, 1) / envelope[:, None, None]

    @property
    def coordinates(self) -> tuple[np.ndarray, bool]:
        """All coordinates; nothing is proven of the Hessian, which is singular."""
        return np.arange(self.dim), False

    def evaluate(self, x: np.ndarray) -> tuple[Enclosure, Enclosure]:
        at = Enclosure.exact(x)
        squares = (at * at).sum() * self.mean_ridge * 0.5
        values, gradients = [], []
        of_each = zip(self.slopes, self.offsets, self.weights, self.envelope, self.products, strict=True)
        for a, b, w, M, products in of_each:
            t = _dyadic(best_mixture(a @ x + b, products))
            heights, g = dot(a, x[None])[:, 0] + b, dot(a.T, t[None])[:, 0]
            size = (g * g).sum()
            least = (heights * t).sum() - size * _over(M)
            u = x - g.hi / M
            apart = at - u
            most = (apart * apart).sum() * (M / 2) + float(np.max((dot(a, u[None])[:, 0] + b).upper))
            low, high = float(least.lower), max(float(most.upper), float(least.upper))
            width = (high - low) * UP + TINY
            values.append(Enclosure(low, 0.0, width) * w)
            off = float(np.sqrt(2 * M * width)) * UP
            gradients.append(Enclosure(g.hi, g.lo, g.rad + off) * w)
        return stack_sum(values).sum() + squares, stack_sum(gradients).sum() + at * self.mean_ridge

    def hessian(self, x: np.ndarray, every_row: bool = False, quick: bool = False) -> tuple[np.ndarray, np.ndarray, float]:
        """Of the pieces that are in use at x, and a little more, as they may be flat: for search directions only."""
        out = (self.ridge + 1e-6 * float(self.envelope.max())) * np.eye(self.dim)
        for a, b, w, M, products in zip(self.slopes, self.offsets, self.weights, self.envelope, self.products, strict=True):
            out = out + w * M * directions(a, best_mixture(a @ x + b, products))
        return out, np.diag(out).copy(), np.inf

    def further_bounds(self, x: np.ndarray, value: Enclosure, gradient: Enclosure) -> list[LowerBound]:
        found = []
        for j in range(self.slopes.shape[1]):
            own = self.slopes[:, j]
            slope = (Enclosure.exact(own) * self.weights[:, None]).sum()
            if self.ridge == 0 and any(sum(map(_product, self.weights, column)) != 0 for column in own.T):
                continue
            sizes = (Enclosure.exact(own.T) * own.T).sum()
            constant = ((Enclosure.exact(self.offsets[:, j]) - sizes * _over(self.envelope)) * self.weights).sum()
            if self.ridge > 0:
                constant = constant - norm_up(slope.mag) ** 2 / (2 * self.ridge) * UP
            found.append(LowerBound(float(constant.lower), "a piece that all clients have, whose slopes cancel"))
        return found

    def why_not(self, x: np.ndarray) -> str:
        return "no piece that all clients have has slopes that cancel at a minimiser"


def directions(slopes: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The projection onto the directions in which the mixture of the slopes may change (d, d)."""
    own = slopes[t > 0]
    turned = np.linalg.svd(own[1:] - own[0], full_matrices=False)
    axes = turned.Vh[turned.S > 1e-10 * max(float(np.abs(own).max()), 1e-300)]
    return axes.T @ axes


def _dyadic(t: np.ndarray) -> np.ndarray:
    """Weights near t that are at least 0 and add up to 1 exactly: multiples of 2^-52, the largest takes the rest."""
    out = np.floor(t * 2.0**52) / 2.0**52
    largest = int(np.argmax(out))
    out[largest] = 0.0
    out[largest] = 1.0 - float(out.sum())  # exact: sums of multiples of 2^-52 below 2
    return out


def _over(number: Any) -> Enclosure:
    """1/(2 number), of each where there are several."""
    quotient = 0.5 / number
    return Enclosure(quotient, 0.0, quotient * 2.0**-52)


def _product(a: float, b: float) -> Fraction:
    return Fraction(float(a)) * Fraction(float(b))
