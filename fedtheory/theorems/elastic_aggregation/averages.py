"""Moving averages of sensitivities over the clients' batches, in fractions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np

from fedtheory.clients.sensitivity import num_batches
from fedtheory.errors import InvalidInput
from fedtheory.rational import fraction, objects, simplest, table, text, vector
from fedtheory.theorems.elastic_aggregation import drawn, of_a_problem
from fedtheory.theorems.elastic_aggregation.clients import ratios
from fedtheory.theory import Draws, Fact

__all__ = ["ALIKE", "SAME_COUNT", "Averages"]

SAME_COUNT = Fact(
    "as many batches at every client", lambda q: len({len(b) for b in q.batches}) == 1
)
ALIKE = Fact("batches that are alike", lambda q: all((b == b[0]).all() for b in q.batches))
MOST = 20_000  # numbers of a user's problem


@dataclass
class Averages(of_a_problem.ModelWorld):
    """Moving averages over the clients' batches.

    Attributes
    ----------
    w : (N,) weights
    batches : N arrays (m_k, d) of |g| > 0 or 0, in the order of the batches
    mu, tau : the weight of what was averaged before, and tau
    """

    kind, family = "average", "elastic aggregation, average"
    about = "about its moving averages"
    asks = (of_a_problem.MODEL, "a start where some output is not 0")
    example = "--problem diabetes --clients 3 --held-out 0.3 --start 1 --probe-batch 10"

    w: np.ndarray
    batches: list[np.ndarray]
    mu: Any
    tau: Any

    @property
    def factors(self) -> np.ndarray:
        """1 - mu^m of every client (N,)."""
        return objects([1 - self.mu ** len(b) for b in self.batches])

    @cached_property
    def printed(self) -> np.ndarray:
        """Omega_k (N, d), averaged from 0."""
        out = []
        for batches in self.batches:
            omega = 0 * batches[0]
            for g in batches:
                omega = self.mu * omega + (1 - self.mu) * g
            out.append(omega)
        return np.stack(out)

    @property
    def corrected(self) -> np.ndarray:
        """Omega_k (N, d) over the sum 1 - mu^m of the batches' weights."""
        return self.printed / self.factors[:, None]

    def zeta(self, omegas: np.ndarray) -> np.ndarray:
        """zeta (d,) of the clients' Omega_k (N, d)."""
        return 1 + self.tau - ratios(self.w @ omegas)

    def printed_constants(self) -> dict[str, Any]:
        """The constants that a reader is shown."""
        return {"mu": text(self.mu), "batches": [len(b) for b in self.batches]}

    # --- instances --------------------------------------------------------------------------------
    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Make an instance of weights, batches (rows of |g| for every client), mu and tau."""
        w = vector(data["weights"], "weights")
        batches = [table(b, f"batches[{k}]") for k, b in enumerate(data["batches"])]
        mu, tau = fraction(data["mu"], "mu"), fraction(data["tau"], "tau")
        one_width = len(w) == len(batches) and len({b.shape[1] for b in batches}) == 1
        if w.min() <= 0 or not one_width or min(b.min() for b in batches) < 0:
            raise InvalidInput(
                "weights > 0 and batches of numbers >= 0, one table a client, all of one width"
            )
        if not 0 < mu < 1 or tau < 0 or all((b == 0).all() for b in batches):
            raise InvalidInput(
                "mu must lie strictly between 0 and 1, tau be >= 0, and some batch not 0"
            )
        return cls(w / w.sum(), batches, mu, tau)

    @classmethod
    def on_problem(cls, statement: str, case: Any) -> dict[str, Any]:
        """Give |g| at x0 of every batch of B_k, (m_k, d) a client, with the method's mu and tau."""
        of_a_problem.check_everyone(case)
        algorithm, dim = case.algorithm, case.problem.dim
        source, samples = of_a_problem.samples_of(case.problem)
        theta = of_a_problem.exact(case.x0)
        batches = int(num_batches(source.sample_counts, algorithm.probe_batch).sum())
        of_a_problem.check_size(batches * dim, MOST, f"{batches} batches of {dim} numbers")
        if not 0 < algorithm.mu < 1:
            raise InvalidInput(f"mu = {algorithm.mu:g}: it must lie strictly between 0 and 1")
        size = algorithm.probe_batch or int(np.max(source.sample_counts))
        sensitivities = [
            [abs(2 * (of_a_problem.gram(a[j : j + size]) @ theta)) for j in range(0, len(a), size)]
            for a in samples
        ]
        mu, tau = simplest(algorithm.mu), simplest(algorithm.tau)
        weights = of_a_problem.weighing(case)
        return {"weights": weights, "batches": sensitivities, "mu": mu, "tau": tau}


def _average(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    n, d, shape = int(rng.integers(1, 4)), int(rng.integers(1, 4)), rng.integers(4)
    sizes = [int(v) for v in rng.integers(1, 5, n)]
    if shape == 0:
        sizes = [sizes[0]] * n
    weights = [Fraction(int(v)) for v in rng.integers(1, 6, n)]
    mu = Fraction(int(rng.integers(1, 20)), 20)
    if shape == 1:  # alike
        batches = [drawn.rows(rng, 1, d, drawn.positive) * m for m in sizes]
    elif shape == 2:
        # two clients of one sensitivity, each in another coordinate: where the distance is attained
        sizes = [int(rng.integers(1, 3)), int(rng.integers(3, 6))]
        weights, value, zero = [Fraction(1), Fraction(1)], drawn.positive(rng), Fraction(0)
        batches = [[[value, zero]] * sizes[0], [[zero, value]] * sizes[1]]
    else:
        batches = [drawn.rows(rng, m, d, drawn.positive) for m in sizes]
    data = {"weights": weights, "batches": batches, "mu": mu, "tau": drawn.tau(rng)}
    return f"batches {sizes}", data


Averages.draws = (Draws("elastic aggregation battery average", _average, 60),)
