"""Compiled passes over the weights of several models, a few numbers for each; they hold no lock while they run."""

from __future__ import annotations

import numpy as np

from fedtheory.compiled import njit

__all__ = ["penalise", "shrink"]

# NaN and infinities stay what they are. No multiplication and addition are fused: on the center, curvature y - curvature center is to
# be 0 and not the rounding error of the product, which the sign rule of the l1 term would take for a move.
_FAST = {"nsz"}


@njit(fastmath=_FAST, cache=True, nogil=True)
def penalise(y: np.ndarray, lr: np.ndarray, slope: float, pull: np.ndarray, anchor: np.ndarray, l1: float) -> None:
    """y <- y - lr (slope y - pull + l1 sign(y - anchor)), sign(0) = 0, in place.

    y (r, d), lr (r,); pull and anchor (>= r, d), or (>= r, 0) where there is none.
    """
    n = y.shape[1]
    for r in range(y.shape[0]):
        row, step = y[r], lr[r]
        scale = lr.dtype.type(1) - step * slope
        if pull.shape[1] and anchor.shape[1]:
            p, a = pull[r], anchor[r]
            for i in range(n):
                v = row[i]
                moved = v - a[i]
                sign = l1 if moved > 0 else (-l1 if moved < 0 else moved)
                row[i] = v - step * (slope * v - p[i] + sign)
        elif pull.shape[1]:
            p = pull[r]
            for i in range(n):
                row[i] = row[i] - step * (slope * row[i] - p[i])
        elif anchor.shape[1]:
            a = anchor[r]
            for i in range(n):
                v = row[i]
                moved = v - a[i]
                sign = l1 if moved > 0 else (-l1 if moved < 0 else moved)
                row[i] = v - step * (slope * v + sign)
        else:
            for i in range(n):
                row[i] *= scale


@njit(fastmath=_FAST, cache=True, nogil=True)
def shrink(y: np.ndarray, lr: np.ndarray, anchor: np.ndarray, l1: float) -> None:
    """y <- prox of lr l1 ||. - anchor||_1 at y, in place: what moves by less than lr l1 comes to lie on the anchor exactly."""
    n = y.shape[1]
    for r in range(y.shape[0]):
        row, a, t = y[r], anchor[r], lr[r] * l1
        for i in range(n):
            moved = row[i] - a[i]
            moved = moved - t if moved > t else (moved + t if moved < -t else moved - moved)  # a NaN stays one
            row[i] = a[i] + moved
