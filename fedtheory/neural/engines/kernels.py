"""Compiled passes over the weights of several models, a few numbers for each, and over outputs;
they hold no lock while they run."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fedtheory.compiled import njit
from fedtheory.local.clipping import EPSILON
from fedtheory.neural.losses import Slope

__all__ = [
    "LossTerms", "activate", "loss_terms", "move_clipped", "penalise", "pulled", "shrink",
    "slope_of_classes", "slope_of_values",
]

# NaN and infinities stay what they are. No multiplication and addition are fused: on the center,
# curvature y - curvature center is to be 0 and not the rounding error of the product, which the
# sign rule of the l1 term would take for a move.
_FAST = {"nsz"}


@njit(fastmath=_FAST, cache=True, nogil=True)
def pulled(
    part: np.ndarray, lr: float, slope: float, pull: np.ndarray, anchor: np.ndarray, l1: float
) -> None:
    """part <- part - lr (slope part - pull + l1 sign(part - anchor)), sign(0) = 0, in place.

    pull and anchor may be empty: there is none.
    """
    count = len(part)
    if len(pull) and len(anchor):
        for i in range(count):
            v = part[i]
            moved = v - anchor[i]
            sign = l1 if moved > 0 else (-l1 if moved < 0 else moved)
            part[i] = v - lr * (slope * v - pull[i] + sign)
    elif len(pull):
        for i in range(count):
            part[i] = part[i] - lr * (slope * part[i] - pull[i])
    elif len(anchor):
        for i in range(count):
            v = part[i]
            moved = v - anchor[i]
            sign = l1 if moved > 0 else (-l1 if moved < 0 else moved)
            part[i] = v - lr * (slope * v + sign)
    else:
        scale = part.dtype.type(1) - lr * slope
        for i in range(count):
            part[i] *= scale


@njit(fastmath=_FAST, cache=True, nogil=True)
def penalise(
    y: np.ndarray, lr: np.ndarray, slope: float, pull: np.ndarray, anchor: np.ndarray, l1: float
) -> None:
    """y <- y - lr (slope y - pull + l1 sign(y - anchor)), sign(0) = 0, in place.

    y (r, d), lr (r,); pull and anchor (>= r, d), or (>= r, 0) where there is none.
    """
    for r in range(y.shape[0]):
        pulled(y[r], lr[r], slope, pull[r], anchor[r], l1)


@njit(fastmath=_FAST, cache=True, nogil=True)
def shrink(y: np.ndarray, lr: np.ndarray, anchor: np.ndarray, l1: float) -> None:
    """y <- prox of lr l1 ||. - anchor||_1 at y, in place: what moves by less than lr l1 comes to
    lie on the anchor exactly."""
    n = y.shape[1]
    for r in range(y.shape[0]):
        row, a, t = y[r], anchor[r], lr[r] * l1
        for i in range(n):
            moved = row[i] - a[i]
            # a NaN stays one
            moved = moved - t if moved > t else (moved + t if moved < -t else moved - moved)
            row[i] = a[i] + moved


@njit(fastmath=_FAST, cache=True, nogil=True)
def move_clipped(
    y: np.ndarray, gradient: np.ndarray, lr: float, slopes: np.ndarray, pull: np.ndarray,
    anchor: np.ndarray, l1: float, clip: float,
) -> None:
    """gradient <- gradient + slopes[0] y - pull + l1 sign(y - anchor), cut to the norm `clip`; y <-
    y - lr (slopes[1] y + gradient)."""
    for i in range(len(y)):
        gradient[i] += slopes[0] * y[i]
    if len(pull):
        for i in range(len(y)):
            gradient[i] -= pull[i]
    if len(anchor):
        for i in range(len(y)):
            moved = y[i] - anchor[i]
            gradient[i] += l1 if moved > 0 else (-l1 if moved < 0 else moved)
    factor = clip / (np.sqrt(np.dot(gradient, gradient)) + y.dtype.type(EPSILON))
    step = lr if factor > 1 else lr * factor  # a NaN stays one
    scale = y.dtype.type(1) - lr * slopes[1]
    for i in range(len(y)):
        y[i] = scale * y[i] - step * gradient[i]


class LossTerms(NamedTuple):
    """`fedtheory.neural.losses.Slope`, as the compiled steps take it: weights (classes,) or
    (outputs,), all of them, in the dtype."""

    kind: int
    scale: float
    limit: float
    weights: np.ndarray


def loss_terms(slope: Slope, outputs: int, kind: type) -> LossTerms:
    weights: np.ndarray = np.array(slope.weights or (1.0,) * outputs, dtype=kind)
    return LossTerms(slope.kind, kind(slope.scale), kind(slope.limit), weights)


@njit(fastmath=_FAST, cache=True, nogil=True)
def slope_of_classes(
    z: np.ndarray, labels: np.ndarray, factors: np.ndarray, loss: LossTerms
) -> None:
    """Outputs z (b, c) <- factor_k times the slope of the cross entropy, row by row; factors sum to
    lr, or to 1.

    With class weights v and smoothing e: (1 - e) v_y (softmax - one at y) + e/c (sum(v) softmax -
    v), over the mean of the v_y.
    """
    smoothing, ignored, one = loss.scale, loss.limit, z.dtype.type(1)
    classes = z.shape[1]
    share, whole = smoothing / z.dtype.type(classes), z.dtype.type(0)
    for v in loss.weights:
        whole += v
    counted, total = z.dtype.type(0), z.dtype.type(0)
    for k in range(z.shape[0]):
        total += factors[k]
        if labels[k] != ignored:
            counted += factors[k] * loss.weights[labels[k]]
    for k in range(z.shape[0]):
        row = z[k]
        if labels[k] == ignored or factors[k] == 0:
            for c in range(classes):
                row[c] = 0
            continue
        top = row[0]
        for v in row:
            if v > top:
                top = v
        norm = z.dtype.type(0)
        for c in range(classes):
            row[c] = np.exp(row[c] - top)
            norm += row[c]
        factor = factors[k] * (total / counted)
        own = (one - smoothing) * loss.weights[labels[k]]
        for c in range(classes):
            row[c] = row[c] / norm * factor * (own + share * whole) - factor * share * loss.weights[
                c
            ]
        row[labels[k]] -= factor * own


@njit(fastmath=_FAST, cache=True, nogil=True)
def slope_of_values(
    z: np.ndarray, values: np.ndarray, factors: np.ndarray, loss: LossTerms
) -> None:
    """Outputs z (b, c) <- factor_k/c times the slope of the loss of each output, towards values (b,
    c)."""
    one, limit = z.dtype.type(1), loss.limit
    for k in range(z.shape[0]):
        factor = factors[k] * loss.scale / z.dtype.type(z.shape[1])
        for c in range(z.shape[1]):
            t = values[k, c]
            if loss.kind == 1:
                off = z[k, c] - t
                # a NaN stays one
                z[k, c] = factor * (limit if off > limit else (-limit if off < -limit else off))
            else:
                p = loss.weights[c]
                z[k, c] = factor * ((one + (p - one) * t) / (one + np.exp(-z[k, c])) - p * t)


@njit(fastmath=_FAST, cache=True, nogil=True)
def activate(z: np.ndarray, slope: np.ndarray, kind: int, parameter: float) -> None:
    """z (n,) <- its activation, slope (n,) <- the derivative; the kinds are those of
    `fedtheory.neural.engines.chain.ACTIVATIONS`.

    0, ReLU; 1, tanh; 2, the sigmoid s; 3, z Phi(z); 4, z s(z); 5, z where it is positive and parameter z
    else; 6, z or parameter (exp(z) - 1).
    """
    one, half = z.dtype.type(1), z.dtype.type(0.5)
    root, density = z.dtype.type(math.sqrt(0.5)), z.dtype.type(1 / math.sqrt(2 * math.pi))
    if kind == 0:
        zero = z.dtype.type(0)
        for i in range(len(z)):
            cut = z[i] <= 0  # a NaN stays one
            z[i], slope[i] = zero if cut else z[i], zero if cut else one
        return
    for i in range(len(z)):
        v = z[i]
        if kind == 1:
            h = np.tanh(v)
            z[i], slope[i] = h, one - h * h
        elif kind == 2:
            h = one / (one + np.exp(-v))
            z[i], slope[i] = h, h * (one - h)
        elif kind == 3:
            share = half * (one + math.erf(v * root))
            z[i], slope[i] = v * share, share + v * density * np.exp(-half * v * v)
        elif kind == 4:
            share = one / (one + np.exp(-v))
            z[i], slope[i] = v * share, share * (one + v * (one - share))
        elif kind == 5:
            factor = one if v > 0 else parameter
            z[i], slope[i] = v * factor, factor
        elif v > 0:
            slope[i] = one
        else:
            z[i] = parameter * np.expm1(v)
            slope[i] = z[i] + parameter
