"""Moving averages of sensitivities over the clients' batches, in fractions."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np

from fedtheory.authoring import Draws
from fedtheory.clients.sensitivity import num_batches
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.theorems.elastic_aggregation import drawn, of_a_problem
from fedtheory.theorems.elastic_aggregation.clients import ratios
from fedtheory.verification.rational import fraction, objects, simplest, table, text, vector

__all__ = ["ALIKE", "SAME_COUNT", "Averages"]

SAME_COUNT, ALIKE = "as many batches at every client", "batches that are alike"
MOST = 20_000  # numbers of a user's problem


@dataclass
class Averages(of_a_problem.ModelWorld):
    """Moving averages over the clients' batches.

    Attributes
    ----------
    w : (N,) weights
    batches : N arrays (m_k, d) of |g| > 0 or 0, in the order of the batches
    mu, tau
    """

    kind = "average"
    family = "elastic aggregation, average"
    about = "about its moving averages"
    asks = (of_a_problem.MODEL, "a start where some output is not 0")
    example = "--problem diabetes --clients 3 --held-out 0.3 --start 1 --probe-batch 10"

    w: np.ndarray
    batches: list[np.ndarray]
    mu: Any
    tau: Any

    def __post_init__(self) -> None:
        facts = set()
        if len({len(b) for b in self.batches}) == 1:
            facts.add(SAME_COUNT)
        if all((b == b[0]).all() for b in self.batches):
            facts.add(ALIKE)
        self.facts = frozenset(facts)

    @property
    def factors(self) -> np.ndarray:
        """1 - mu^m of every client (N,)."""
        return objects([1 - self.mu ** len(b) for b in self.batches])

    @cached_property
    def printed(self) -> np.ndarray:
        """Omega_k (N, d), from 0."""
        out = []
        for batches in self.batches:
            omega = 0 * batches[0]
            for g in batches:
                omega = self.mu * omega + (1 - self.mu) * g
            out.append(omega)
        return np.stack(out)

    @property
    def corrected(self) -> np.ndarray:
        return self.printed / self.factors[:, None]

    def zeta(self, omegas: np.ndarray) -> np.ndarray:
        return 1 + self.tau - ratios((self.w[:, None] * omegas).sum(axis=0))

    def printed_constants(self) -> dict[str, Any]:
        return {"mu": text(self.mu), "batches": [len(b) for b in self.batches]}

    # --- instances --------------------------------------------------------------------------------
    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """From weights, batches (for every client rows of |g|), mu, tau."""
        w = vector(data["weights"], "weights")
        batches = [table(b, f"batches[{k}]") for k, b in enumerate(data["batches"])]
        mu, tau = fraction(data["mu"], "mu"), fraction(data["tau"], "tau")
        if (
            len(w) != len(batches)
            or w.min() <= 0
            or len({b.shape[1] for b in batches}) != 1
            or min(b.min() for b in batches) < 0
        ):
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
        """|g| of every batch of B_k at x0, (m_k, d) a client, whose moving averages are compared."""
        algorithm, problem = case.algorithm, case.problem
        source, samples = of_a_problem.samples_of(problem)
        theta, sizes = (
            of_a_problem.exact(case.x0),
            num_batches(source.sample_counts, algorithm.probe_batch),
        )
        if sizes.sum() * problem.dim > MOST:
            raise MissingCapability(
                f"{int(sizes.sum())} batches of {problem.dim} numbers, at most {MOST} are judged in fractions"
            )
        if not 0 < algorithm.mu < 1:
            raise InvalidInput(f"mu = {algorithm.mu:g}: it must lie strictly between 0 and 1")
        size = algorithm.probe_batch or int(np.max(source.sample_counts))
        batches = [
            [abs(2 * (of_a_problem.gram(a[j : j + size]) @ theta)) for j in range(0, len(a), size)]
            for a in samples
        ]
        counts = (
            np.ones(problem.num_clients)
            if algorithm.aggregation == "cohort"
            else np.asarray(problem.sample_counts)
        )
        return {
            "weights": [Fraction(int(n)) for n in counts],
            "batches": batches,
            "mu": simplest(algorithm.mu),
            "tau": simplest(algorithm.tau),
        }


def _average(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    n, d, shape = int(rng.integers(1, 4)), int(rng.integers(1, 4)), rng.integers(4)
    sizes = [int(v) for v in rng.integers(1, 5, n)]
    if shape == 0:
        sizes = [sizes[0]] * n
    weights = [Fraction(int(v)) for v in rng.integers(1, 6, n)]
    mu = Fraction(int(rng.integers(1, 20)), 20)

    def row() -> list[Fraction]:
        return [drawn.positive(rng) for _ in range(d)]

    if shape == 1:  # alike
        batches = [[row()] * m for m in sizes]
    elif (
        shape == 2
    ):  # two clients of one sensitivity, each in another coordinate: where the distance is attained
        sizes = [int(rng.integers(1, 3)), int(rng.integers(3, 6))]
        weights, value, zero = [Fraction(1), Fraction(1)], drawn.positive(rng), Fraction(0)
        batches = [[[value, zero]] * sizes[0], [[zero, value]] * sizes[1]]
    else:
        batches = [[row() for _ in range(m)] for m in sizes]
    data = {"weights": weights, "batches": batches, "mu": mu, "tau": drawn.tau(rng)}
    return f"batches {sizes}", data


Averages.draws = (Draws("elastic aggregation battery average", _average, 60),)
