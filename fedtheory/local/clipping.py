"""Clipped steps: the gradient of the loss and of the penalty, cut to a norm, before the weight decay is added."""

from __future__ import annotations

from fedtheory.arrays import Array, namespace
from fedtheory.local.objective import LocalObjective

__all__ = ["EPSILON", "SPARED", "clipped_direction", "clipped_factor"]

SPARED = (None, "curvature")
EPSILON = 1e-6  # as torch.nn.utils.clip_grad_norm_ adds it to the norm


def clipped_factor(gradient: Array, limit: float) -> Array:
    """min(1, limit/(||gradient|| + 1e-6)) of each row, (..., d) -> (..., 1); NaN where the norm is."""
    xp = namespace(gradient)
    norm = xp.sqrt(xp.sum(gradient * gradient, axis=-1, keepdims=True))
    return xp.clip(limit / (norm + EPSILON), None, 1.0)


def clipped_direction(
    objective: LocalObjective, y: Array, gradient: Array, ridge: float, prox: bool, limit: float, spares: str | None
) -> Array:
    """Return what a clipped step of `fedtheory.local.SGD` goes along; all arrays (..., d).

    Its `gradient` is that of f_k with its ridge.

    Clipped: the gradient of the loss without its ridge, minus `linear`, plus curvature (y - center), plus l1 sign(y - anchor) unless
    that term is left to a prox. Added afterwards: ridge y. With spares = 'curvature', curvature y is added afterwards as well, and
    -curvature center is clipped. A view (`fedtheory.local.shifted_gradients`) says itself what of its direction is clipped.
    """
    later = ridge
    gradient = gradient - ridge * y if ridge else gradient
    if not objective.none:
        if spares == "curvature":
            gradient = gradient - objective.center * objective.curvature
            gradient = gradient if objective.linear is None else gradient - objective.linear
            later = later + objective.curvature
        else:
            gradient = gradient + objective.smooth_penalty_gradient(y)
        if objective.l1 and not prox:
            gradient = gradient + objective.l1 * namespace(y).sign(y - objective.l1_center)  # sign(0) = 0
    return gradient * clipped_factor(gradient, limit) + later * y
