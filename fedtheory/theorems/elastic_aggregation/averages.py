"""Moving averages of sensitivities over the clients' batches, in fractions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fedtheory.clients.sensitivity import num_batches
from fedtheory.errors import InvalidInput
from fedtheory.rational import objects, simplest, table
from fedtheory.theorems.elastic_aggregation import drawn, of_a_problem
from fedtheory.theorems.elastic_aggregation.clients import ratios
from fedtheory.theory import Draws, Fact, derived, number
from fedtheory.theory.fields import Read

SAME_COUNT = Fact(
    "as many batches at every client", lambda q: len({len(b) for b in q.batches}) == 1
)
ALIKE = Fact("batches that are alike", lambda q: all((b == b[0]).all() for b in q.batches))
MOST = 20_000  # numbers of a user's problem


def read_batches(name: str, values: Any, before: Mapping[str, Any]) -> list[np.ndarray]:
    """N arrays (m_k, d) of |g|, in the order of the batches."""
    found = [table(b, f"{name}[{k}]") for k, b in enumerate(values)]
    alike = len(found) == len(before["weights"]) and len({b.shape[1] for b in found}) == 1
    if not alike or min(b.min() for b in found) < 0 or not any(b.any() for b in found):
        raise InvalidInput(
            f"{name}: numbers >= 0, some batch not 0; one table a client, all of one width"
        )
    return found


@dataclass(kw_only=True)
class Averages(of_a_problem.ModelWorld):
    """Moving averages over the clients' batches."""

    kind, family = "average", "elastic aggregation, average"
    about = "about its moving averages"
    asks = (of_a_problem.MODEL, "a start where some output is not 0")
    example = "--problem diabetes --clients 3 --held-out 0.3 --start 1 --probe-batch 10"

    weights: np.ndarray = number("N", above=0)
    batches: list[np.ndarray] = field(metadata={"read": Read(read_batches, "|g| of every batch")})
    mu: Any = number(what="the weight of what was averaged before", above=0, below=1)
    tau: Any = number(least=0)
    shows: ClassVar = {"mu": "mu", "batches": "sizes"}

    w = derived(lambda q: q.weights / q.weights.sum(), "The weights, of sum 1")
    sizes = derived(lambda q: [len(b) for b in q.batches], "Batches of every client")
    factors = derived(lambda q: objects([1 - q.mu**m for m in q.sizes]), "1 - mu^m of every client")

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

    corrected = derived(
        lambda q: q.printed / q.factors[:, None],
        "Omega_k (N, d) over the sum 1 - mu^m of the batches' weights",
    )

    def zeta(self, omegas: np.ndarray) -> np.ndarray:
        """zeta (d,) of the clients' Omega_k (N, d)."""
        return 1 + self.tau - ratios(self.w @ omegas)

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
