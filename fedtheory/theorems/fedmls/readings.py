"""The readings of Theorems 1 and 2: what the poster prints, or leaves open, put back one at a time.

Each is the repaired theorem but for one thing: another constant is taken for G, in T_k (and in
Theorem 2's lambda and K) and in the bound, or another Algorithm 1 is run, or the bound is another
one. A run in floats may violate one that is on record as false, or not: that none violates it
proves nothing. The witnesses, in fractions, are what refutes them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS, printed_rounds
from fedtheory.errors import InvalidInput
from fedtheory.problems.base import Problem

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

    form: str = ""
    takes: str = "rms"
    change: Mapping[str, Any] = field(default_factory=dict)
    joint_distance: bool = False
    one_dimension: str = ""
    holds: bool = False

    def bounds(self, problem: Problem, radius: float, G_i: np.ndarray, given: bool) -> np.ndarray:
        """(N,) what is taken for the clients' G_i; a user's own (``given``) stand if they can."""
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

    def plan(self, given: FedMLS, G_i: np.ndarray, epsilon: float, distance_sq: float) -> FedMLS:
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


_JOINT_NORMS: dict[str, Any] = {"takes": "joint", "joint_distance": True}
READINGS: dict[str, Reading] = {  # as witness files name them
    "repaired": Reading(holds=True),
    "joint G": Reading("printed", "joint"),
    "joint G, joint distance": Reading("printed, joint distance", **_JOINT_NORMS),
    "line 22 with grad f_i/N": Reading(change={"norm": "product"}, holds=True, **_JOINT_NORMS),
    "line 14 as printed": Reading(change={"average": "printed"}, holds=True),
    "Lipschitz G": Reading(takes="inside"),
    "consensus G": Reading(takes="consensus"),
    "no server projection": Reading(change={"server_projection": False}),
    "mixed norms": Reading(change={"norm": "product"}),
    "prox without the square": Reading(
        one_dimension="its local problem, argmin f_i(u) + (beta/2) ||u - w||, is solved exactly in "
        "one dimension only: it is judged by its witness",
    ),
    "9.9 for 10": Reading(),
}
_JOINT = [name for name, reading in READINGS.items() if reading.takes == "joint"]
READINGS |= {  # the same, with lambda, D-tilde and K that are Theorem 2's
    TWO + name: replace(READINGS[name], form=READINGS[name].form or name) for name in _JOINT
}


def reading_of(form: str) -> Reading:
    """The reading of a form by its name."""
    return next(r for name, r in READINGS.items() if form == (r.form or name))
