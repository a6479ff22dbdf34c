"""The readings of Theorems 1 and 2: what the poster prints, or leaves open, put back one at a time.

Each is the repaired theorem but for one thing: another constant is taken for G, in T_k (and in
Theorem 2's lambda and K) and in the bound, or another Algorithm 1 is run, or the bound is another
one. A run in floats may violate one that is on record as false, or not: that none violates it
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

__all__ = ["READINGS", "Reading", "reading_of"]

# How far inside the sphere, relative to R, the open ball ends; `lipschitz` counts kinks within 1e-9
# as on the sphere.
INSIDE = 1e-8
REPAIRED = {"average": "averaged", "server_projection": True, "norm": "mean", "skip_last": False}
TWO = "Theorem 2, "


@dataclass(frozen=True)
class Reading:
    """The things that one reading changes in a run.

    Attributes
    ----------
    words : it in words
    form : the name of its form, where that is not its own
    takes : what stands for G_i or G
        'rms': the G_i and their root mean square; 'joint': RMS(G_i)/sqrt(N); 'consensus': a bound
        of the subgradients of x -> F(x, ..., x), on a user's problem the mean of the G_i; 'inside':
        the Lipschitz constants, from subgradients inside the ball only.
    change : fields of `FedMLS`
    joint_distance : True if ||x_0 - x*|| is the one of R^{Nd}, sqrt(N) times that of R^d
    one_dimension : why it has a run in one dimension only
    holds : True if its form is on record as holding
    """

    words: str
    form: str = ""
    takes: str = "rms"
    change: Mapping[str, Any] = field(default_factory=dict)
    joint_distance: bool = False
    one_dimension: str = ""
    holds: bool = False

    def bounds(
        self, problem: Problem, radius: float, G_i: np.ndarray, given: bool
    ) -> np.ndarray:
        """(N,) what is taken for the clients' G_i; a user's own (``given``) stand where they can."""
        if self.takes == "consensus":
            return np.full(len(G_i), float(np.mean(G_i)))
        if self.takes == "inside" and not given:
            inside = np.asarray(problem.lipschitz(radius * (1 - INSIDE)), dtype=float)
            return np.minimum(G_i, inside / (1 - INSIDE))
        return G_i

    def lipschitz(self, G_i: np.ndarray) -> float:
        """G, of the reading's G_i."""
        rms = math.sqrt(float(np.mean(G_i**2)))
        return rms / math.sqrt(len(G_i)) if self.takes == "joint" else rms

    def algorithm(self, given: FedMLS, G_i: np.ndarray) -> FedMLS:
        """A user's FedMLS, repaired but for the reading's changes, with the reading's G in T_k."""
        return replace(given, lipschitz=self.lipschitz(G_i), **{**REPAIRED, **self.change})

    def plan(
        self, given: FedMLS, G_i: np.ndarray, epsilon: float, distance_sq: float
    ) -> FedMLS:
        """The same with Theorem 2's lambda, D-tilde and K for epsilon.

        Raises
        ------
        InvalidInput
            x_0 = x*, for which D-tilde would be 0.
        """
        if distance_sq == 0:
            raise InvalidInput(
                "x_0 is the minimiser: Theorem 2's D~ = ||x_0 - x*||^2 must be > 0; start elsewhere"
            )
        G = self.lipschitz(G_i)
        D = distance_sq * (len(G_i) if self.joint_distance else 1)
        K = printed_rounds(epsilon, G, math.sqrt(D))
        return replace(self.algorithm(given, G_i), lam=epsilon / G**2, D=D, rounds=K)


_JOINT: dict[str, Any] = {"takes": "joint"}
_LINE_22: dict[str, Any] = {"takes": "joint", "change": {"norm": "product"}}
READINGS: dict[str, Reading] = {  # as witness files name them
    "repaired": Reading("all repairs in place", holds=True),
    "joint G": Reading(
        "G bounds the joint gradient on R^{Nd}, ||grad F||^2 = (1/N^2) sum_i ||grad f_i||^2, and "
        "||x_0 - x*|| is in R^d",
        "printed", **_JOINT,
    ),
    "joint G, joint distance": Reading(
        "G bounds the joint gradient on R^{Nd}, and ||x_0 - x*|| is in R^{Nd}, too: sqrt(N) times "
        "that in R^d",
        "printed, joint distance", **_JOINT, joint_distance=True,
    ),
    TWO + "joint G": Reading(
        "lambda, T_k and K of Theorem 2 with the joint gradient's G, and D-tilde = "
        "||x_0 - x*||^2 in R^d",
        "printed", **_JOINT,
    ),
    TWO + "joint G, joint distance": Reading(
        "the same, and D-tilde = ||x_0 - x*||^2 in R^{Nd}",
        "printed, joint distance", **_JOINT, joint_distance=True,
    ),
    "line 22 with grad f_i/N": Reading(
        "clients step with grad f_i/N, the gradient of F on R^{Nd}; G bounds it, and ||x_0 - x*|| "
        "is in R^{Nd}",
        **_LINE_22, joint_distance=True, holds=True,
    ),
    TWO + "line 22 with grad f_i/N": Reading(
        "the same, and D-tilde = ||x_0 - x*||^2 in R^{Nd}",
        "line 22 with grad f_i/N", **_LINE_22, joint_distance=True, holds=True,
    ),
    "Lipschitz G": Reading(
        "G_i is f_i's Lipschitz constant on the ball: at its boundary a subgradient that is "
        "returned may be longer",
        takes="inside",
    ),
    "consensus G": Reading(
        "G bounds the subgradients of x -> F(x, ..., x) only", takes="consensus"
    ),
    "line 14 as printed": Reading(
        "x'_k takes the last iterate z'_k of local training, not the average",
        change={"average": "printed"}, holds=True,
    ),
    "no server projection": Reading(
        "z_k is not projected onto the ball, on which alone the losses are Lipschitz",
        change={"server_projection": False},
    ),
    "mixed norms": Reading(
        "clients step with grad f_i/N, as in the plain product norm, but lambda, D-tilde, G and "
        "||x_0 - x*|| are the mean's",
        change={"norm": "product"},
    ),
    "prox without the square": Reading(
        "argmin_u f_i(u) + (beta/2) |u - w| in place of local training, solved exactly",
        one_dimension="its local problem, argmin f_i(u) + (beta/2) ||u - w||, is solved exactly in "
        "one dimension only: it is judged by its witness",
    ),
    "9.9 for 10": Reading(
        "9.9 ||x_0 - x*||^2 in place of 10 ||x_0 - x*||^2; one client f = -u, every T_k = 1, and "
        "F(x_K) - F* from below"
    ),
}


def reading_of(form: str) -> Reading:
    """The reading of a form by its name."""
    return next(r for name, r in READINGS.items() if form == (r.form or name))
