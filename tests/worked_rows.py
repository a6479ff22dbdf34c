"""Two clients of unequal weight and unequal samples, one client and two samples that count for nothing, and no two numbers alike."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import mpmath as mp
import numpy as np

from fedtheory.optimum.lower_bounds import Metric

U = mp.mpf(2) ** -53
NEAR = mp.mpf(10) ** -9
WEIGHTS = np.array([0.25, 0.75, 0.0])
SHARES = np.array([[0.5, 0.125, 0.375], [0.625, 0.375, 0.0], [1.0, 0.0, 0.0]])
FEATURES = np.array(
    [[[3.0, 0.7], [0.5, -2.0], [-1.3, 0.9]], [[0.3, 4.0], [-2.5, 1.7], [9.0, 9.0]], [[7.0, 7.0], [8.0, 8.0], [6.0, 6.0]]]
)
TARGETS = np.array([[1.1, -0.6, 2.3], [0.4, -3.7, 5.0], [2.0, 2.0, 2.0]])
SIGNS = np.where(TARGETS > 0, 1.0, -1.0)
COUNTED = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
X = np.array([0.35, -0.6])
RIDGE = 0.375
PROBLEM = SimpleNamespace(dim=2, ridge=RIDGE, weights=WEIGHTS, features=FEATURES, sample_weights=SHARES)
WITHOUT = SimpleNamespace(**{**vars(PROBLEM), "ridge": 0.0})
LABELS = np.eye(3)[[[0, 2, 1], [1, 2, 0], [0, 0, 0]]]
SOFT = SimpleNamespace(**{**vars(PROBLEM), "dim": 6})
SOFT_X = np.array([0.3, -0.4, 0.15, 0.8, -0.25, 0.45])
METRIC = Metric(np.array([0.5, 0.25]), np.array([[2.0, 1.0], [0.0, 3.0]]), 0.25)  # ||X||^2 = 14


def real(number):
    if isinstance(number, Fraction):
        return mp.mpf(number.numerator) / number.denominator
    return number if isinstance(number, mp.mpf) else mp.mpf(float(number))


def just_above(given, needed):
    return real(needed) <= real(given) <= real(needed) * (1 + NEAR)


def just_below(given, needed):
    return real(needed) - abs(real(needed)) * NEAR <= real(given) <= real(needed)


def encloses(ball, number, within):
    """It holds the number, and its radius is at most `within`."""
    off = abs(real(number) - real(ball.hi) - real(ball.lo))
    return off <= real(ball.rad) <= real(within)


def rows():
    """omega_j, a_j and the place (k, j) of every sample that counts, in fractions."""
    for k, j in COUNTED:
        yield Fraction(WEIGHTS[k]) * Fraction(SHARES[k, j]), [Fraction(float(v)) for v in FEATURES[k, j]], (k, j)


def total(loss, targets, ridge=RIDGE):
    """F and its gradient at X in fractions; loss(z, b) -> (value, slope)."""
    x = [Fraction(float(v)) for v in X]
    value, grad = Fraction(ridge) / 2 * sum(v * v for v in x), [Fraction(ridge) * v for v in x]
    for omega, a, (k, j) in rows():
        phi, slope = loss(sum(u * v for u, v in zip(a, x)), Fraction(float(targets[k, j])))
        value, grad = value + omega * phi, [g + omega * slope * u for g, u in zip(grad, a)]
    return value, grad


def square(z, b):
    return (z - b) ** 2 / 2, z - b


def huber(z, b, delta=Fraction(7, 4)):
    r = z - b
    side = delta if r > 0 else -delta
    return (r * r / 2, r) if abs(r) <= delta else (delta * (abs(r) - delta / 2), side)


def logistic(m):
    return mp.log1p(mp.e**-m), -1 / (1 + mp.e**m)


def soft(z, label):
    largest = max(z)
    e = [mp.e ** (v - largest) for v in z]
    return mp.log(mp.fsum(e)) + largest - z[label], [v / mp.fsum(e) - (c == label) for c, v in enumerate(e)]
