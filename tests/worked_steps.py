"""A small problem for local steps, of which no two numbers are alike, and its steps a second time in fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from fedtheory import problems
from fedtheory.local import LocalObjective

HESSIANS = [[[3.0, 0.75], [0.75, 2.0]], [[1.5, -0.25], [-0.25, 4.0]]]
CENTERS = [[1.25, -0.5], [-2.0, 0.375]]
PROBLEM = problems.Quadratic(np.array(HESSIANS), np.array(CENTERS))
CENTER = np.array([[[0.5, -1.5], [0.25, 2.5]], [[-0.75, 1.75], [3.5, -2.25]]])  # (N, B, d)
LINEAR = np.array([[[0.125, -0.625], [1.125, 0.875]], [[-1.375, 0.3125], [0.4375, -0.1875]]])
ANCHOR = CENTER + np.array([0.25, -0.75])
START = np.array([[[0.625, -1.5], [-0.5, 1.0]], [[0.0, 2.0], [5.0, -0.125]]])
CURVATURE, L1, LR = 0.4375, 0.1875, 0.09375
OBJECTIVES = {
    "nothing": {},
    "linear": {"linear": LINEAR},
    "curvature": {"curvature": CURVATURE},
    "l1": {"l1": L1},
    "everything": {"linear": LINEAR, "curvature": CURVATURE, "l1": L1, "anchor": ANCHOR},
}


def made(name):
    return LocalObjective(CENTER, **OBJECTIVES[name])


def fractions(values):
    return [Fraction(float(v)) for v in values]


def sign(v):
    return (v > 0) - (v < 0)


def parts(name, k, b):
    """center, linear, curvature, l1 and anchor of one row, in fractions."""
    given = OBJECTIVES[name]
    linear = fractions(given["linear"][k, b]) if "linear" in given else [Fraction(0)] * 2
    anchor = fractions(given["anchor"][k, b]) if "anchor" in given else fractions(CENTER[k, b])
    return fractions(CENTER[k, b]), linear, Fraction(given.get("curvature", 0)), Fraction(given.get("l1", 0)), anchor


def loss_gradient(k, y):
    r = [v - c for v, c in zip(y, fractions(CENTERS[k]))]
    return [sum(Fraction(h) * v for h, v in zip(row, r)) for row in HESSIANS[k]]


def direction(name, k, b, y, l1=True):
    center, linear, q, weight, anchor = parts(name, k, b)
    g = loss_gradient(k, y)
    return [
        g[i] - linear[i] + q * (y[i] - center[i]) + (weight * sign(y[i] - anchor[i]) if l1 else 0) for i in range(2)
    ]


def soft(v, t):
    return v - t if v > t else v + t if v < -t else Fraction(0)


def walk(name, k, b, steps, lr, l1="subgradient"):
    y = fractions(START[k, b])
    _, _, _, weight, anchor = parts(name, k, b)
    for _ in range(steps):
        g = direction(name, k, b, y, l1 == "subgradient")
        y = [v - lr * u for v, u in zip(y, g)]
        if l1 == "prox":
            y = [a + soft(v - a, lr * weight) for v, a in zip(y, anchor)]
    return y


def close(got, needed):
    np.testing.assert_allclose(got, [float(v) for v in needed], rtol=1e-13, atol=1e-15)
