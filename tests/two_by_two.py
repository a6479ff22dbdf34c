"""Two clients and two points in the plane, for local problems that are worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from active_rows import rows_of

from fedtheory import problems
from fedtheory.local import LocalObjective

HESSIANS = [[[3.0, 0.75], [0.75, 2.0]], [[1.5, -0.25], [-0.25, 4.0]]]
CENTERS = [[1.25, -0.5], [-2.0, 0.375]]
PROBLEM = problems.Quadratic(np.array(HESSIANS), np.array(CENTERS))
DIAGONAL = problems.Quadratic(np.array([np.diag([3.0, 1.25]), np.diag([0.75, 2.5])]), np.array(CENTERS))
CENTER = np.array([[[0.5, -1.5], [0.25, 2.5]], [[-0.75, 1.75], [3.5, -2.25]]])  # (N, B, d)
LINEAR = np.array([[[0.125, -0.625], [1.125, 0.875]], [[-1.375, 0.3125], [0.4375, -0.1875]]])
ANCHOR = CENTER + np.array([0.25, -0.75])
START = np.array([[[0.625, -1.5], [-0.5, 1.0]], [[0.0, 2.0], [5.0, -0.125]]])
Q, L1 = 0.4375, 1.625
ELASTIC = LocalObjective(CENTER, LINEAR, Q, L1, ANCHOR)
ROWS = rows_of(2, 2)


def fractions(values):
    return [Fraction(float(v)) for v in values]


def soft(v, t):
    return v - t if v > t else v + t if v < -t else Fraction(0)


def gradient(hessian, center, y):
    return [sum(Fraction(float(h)) * (v - Fraction(float(c))) for h, v, c in zip(row, y, center)) for row in hessian]


def smooth_gradient(k, b, y, q=(Q, Q)):
    parts = zip(gradient(HESSIANS[k], CENTERS[k], y), fractions(LINEAR[k, b]), y, fractions(CENTER[k, b]), q)
    return [g - w + Fraction(p) * (v - c) for g, w, v, c, p in parts]


def proximal_steps(k, b, step, count, q=(Q, Q)):
    """The last two points."""
    y, before, anchor = fractions(START[k, b]), None, fractions(ANCHOR[k, b])
    for _ in range(count):
        g = smooth_gradient(k, b, y, q)
        before, y = y, [a + soft(v - s * u - a, s * Fraction(L1)) for v, u, a, s in zip(y, g, anchor, step)]
    return before, y
