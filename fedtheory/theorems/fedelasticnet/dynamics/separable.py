"""A problem of a user's as separable losses in fractions, to the last bit, where it is one: so a run of it is exact."""

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.problems.base import Problem
from fedtheory.problems.glm import Huber
from fedtheory.problems.linear import LeastSquares
from fedtheory.problems.nonsmooth import LAD, Quantile
from fedtheory.problems.quadratic import Quadratic
from fedtheory.theory.rounds.slopes import Piece, absolute, huber, quadratic, ramp

__all__ = ["pieces_of"]


def pieces_of(problem: Problem) -> list[list[Piece]] | None:
    """A row of losses a client, one a coordinate; None where the losses are not of that kind.

    Quadratics with diagonal Hessians; least squares, Huber, least absolute deviations and quantile regression whose samples
    have one feature each that is not 0. A constant that the losses differ by is left out.
    """
    if type(problem) is Quadratic:
        diagonals = np.einsum("nii->ni", problem.hessians)
        if np.count_nonzero(problem.hessians) != np.count_nonzero(diagonals):
            return None
        return [
            [quadratic(float(h), float(c)) for h, c in zip(*rows, strict=True)]
            for rows in zip(diagonals, problem.minimisers, strict=True)
        ]
    if type(problem) not in (LeastSquares, Huber, LAD, Quantile):
        return None
    if (np.count_nonzero(problem.features, axis=-1) > 1).any():  # type: ignore[attr-defined]
        return None
    return [_client(problem, k, int(n)) for k, n in enumerate(problem.sample_counts)]


def _client(problem: Any, k: int, n: int) -> list[Piece]:
    """The mean of the client's samples, and the ridge."""
    row = [quadratic(float(problem.ridge)) for _ in range(problem.dim)]
    for a, b in zip(problem.features[k, :n], problem.targets[k, :n], strict=True):
        for i in np.flatnonzero(a):
            row[i] = row[i] + _sample(problem, Fraction(float(a[i])), Fraction(float(b))) * Fraction(1, n)
    return row


def _sample(problem: Any, a: Fraction, b: Fraction) -> Piece:
    """The loss of the prediction a x of b, as one of x."""
    if type(problem) is LeastSquares:
        return quadratic(a * a, b / a)
    if type(problem) is Huber:
        return huber(b / a, Fraction(float(problem.delta)) / abs(a), a * a)
    if type(problem) is LAD:
        return absolute(b / a, abs(a))
    tau = Fraction(float(problem.tau))  # the slope in the prediction is -tau below b and 1 - tau above
    low, high = sorted((-a * tau, a * (1 - tau)))
    return ramp(low, high, b / a, b / a)
