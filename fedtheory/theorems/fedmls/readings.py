"""The readings of Theorems 1 and 2 that are on record as violated, as runs on any problem.

Each is the repaired theorem but for one thing: another constant is taken for G, in T_k (and in Theorem 2's lambda and K) and in the
bound, or another Algorithm 1 is run, or the bound is another one. A run in floats may violate one, or not: that none violates it
proves nothing. The witnesses, in fractions, are what refutes them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS, printed_rounds
from fedtheory.errors import InvalidInput
from fedtheory.problems.base import Problem

__all__ = ["ONE_DIMENSION", "READINGS", "Reading", "reading_of"]

INSIDE = 1e-8  # how far inside the sphere, relative to R, the open ball ends; `lipschitz` counts kinks within 1e-9 as on the sphere
ONE_DIMENSION = {
    "prox without the square": "its local problem, argmin f_i(u) + (beta/2) ||u - w||, is solved exactly in one dimension only: it is "
    "judged by its witness",
}


@dataclass(frozen=True)
class Reading:
    """What one reading changes in a run.

    Attributes
    ----------
    takes : what stands for G_i or G
        'rms': the G_i and their root mean square; 'joint': RMS(G_i)/sqrt(N); 'consensus': the mean of the G_i, a bound of the
        subgradients of x -> F(x, ..., x); 'inside': the Lipschitz constants, from subgradients inside the ball only.
    change : fields of `FedMLS`
    joint_distance : whether ||x_0 - x*|| is the one of R^{Nd}, sqrt(N) times that of R^d
    """

    takes: str = "rms"
    change: Mapping[str, Any] = field(default_factory=dict)
    joint_distance: bool = False

    def bounds(self, problem: Problem, radius: float, G_i: np.ndarray, given: bool) -> np.ndarray:
        """(N,) what the reading takes for the clients' G_i; ``given``: they are the user's, and stand as they are where they can."""
        if self.takes == "consensus":
            return np.full(len(G_i), float(np.mean(G_i)))
        if self.takes == "inside" and not given:
            return np.minimum(G_i, np.asarray(problem.lipschitz(radius * (1 - INSIDE)), dtype=float) / (1 - INSIDE))
        return G_i

    def lipschitz(self, G_i: np.ndarray) -> float:
        """G, of the reading's G_i."""
        rms = math.sqrt(float(np.mean(G_i**2)))
        return rms / math.sqrt(len(G_i)) if self.takes == "joint" else rms

    def algorithm(self, given: FedMLS, G_i: np.ndarray) -> FedMLS:
        """A user's FedMLS as the reading has it: repaired but for the reading's changes, with the reading's G in T_k."""
        repaired = {"average": "averaged", "server_projection": True, "norm": "mean", "skip_last": False}
        return replace(given, lipschitz=self.lipschitz(G_i), **{**repaired, **self.change})

    def plan(self, given: FedMLS, G_i: np.ndarray, epsilon: float, distance_sq: float) -> FedMLS:
        """The same with Theorem 2's lambda, D-tilde and K for epsilon.

        Raises
        ------
        InvalidInput
            x_0 = x*, for which D-tilde would be 0.
        """
        if distance_sq == 0:
            raise InvalidInput("x_0 is the minimiser: Theorem 2's D~ = ||x_0 - x*||^2 must be > 0; start elsewhere")
        G = self.lipschitz(G_i)
        D = distance_sq * (len(G_i) if self.joint_distance else 1)
        return replace(self.algorithm(given, G_i), lam=epsilon / G**2, D=D, rounds=printed_rounds(epsilon, G, math.sqrt(D)))


READINGS = {
    "printed": Reading("joint"),
    "printed, joint distance": Reading("joint", joint_distance=True),
    "consensus G": Reading("consensus"),
    "Lipschitz G": Reading("inside"),
    "no server projection": Reading(change={"server_projection": False}),
    "mixed norms": Reading(change={"norm": "product"}),
    "9.9 for 10": Reading(),
}


def reading_of(form: str) -> Reading | str:
    """The reading of a form by its name, or why it has no run on a user's problem."""
    return READINGS[form] if form in READINGS else ONE_DIMENSION[form]
