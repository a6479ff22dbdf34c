"""`Full`, `Uniform`, `Bernoulli` and other laws of cohorts, as laws of local steps: participants complete all E of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.participation.cohorts import Bernoulli, Cohort, Full, Sampling, Uniform, somebody
from fedtheory.participation.laws import Participation, check_clients, check_max_steps, floats, fractions
from fedtheory.randomness import Stream

__all__ = ["AsIrregular", "as_irregular"]


@dataclass(frozen=True)
class AsIrregular(Participation):
    """Another law of cohorts, whose participants complete all E local steps.

    Parameters
    ----------
    base : Sampling
    max_steps : int >= 1
    num_clients : int >= 1
    """

    base: Sampling
    max_steps: int
    num_clients: int

    def __post_init__(self) -> None:
        check_max_steps(self.max_steps)
        check_clients(self.num_clients)
        self.base.check(self.num_clients)

    def check(self, num_clients: int) -> None:
        if num_clients != self.num_clients:
            raise InvalidInput(
                f"a law for {self.num_clients} clients and a problem with N = {num_clients}: they must agree"
            )

    def active(self, exact: bool = False) -> np.ndarray:
        """(N,) P(client takes part)."""
        n, base = self.num_clients, self.base
        if isinstance(base, Full):
            p = np.ones(n) if not exact else fractions(np.ones(n))
        elif isinstance(base, Uniform):
            p = np.full(n, Fraction(base.size, n))
        elif isinstance(base, Bernoulli):  # given that at least one takes part
            q = np.broadcast_to(np.asarray(base.probability, dtype=object), (n,))
            p = fractions(q) / (1 - (1 - fractions(q)).prod()) if exact else q.astype(float) / somebody(q.astype(float))
        else:
            cohort = base.enumerate(n).dense()
            mass = cast(np.ndarray, cohort.probability)  # enumerated cohorts have one each
            mass = fractions(mass) if exact else mass
            p = (cohort.dense_mask * mass[:, None]).sum(axis=0) / mass.sum()
        return p if exact else floats(p)

    def law(self, round_index: int, exact: bool = False) -> np.ndarray:
        active = self.active(exact)
        rows = np.zeros((self.num_clients, self.max_steps + 1), dtype=active.dtype)
        rows[:, 0], rows[:, -1] = 1 - active, active
        return rows

    def round_law(self, round_index: int, exact: bool = False) -> np.ndarray | Cohort:
        if isinstance(self.base, Full):
            return self.law(round_index, exact)
        return self.enumerate_round(round_index, self.num_clients, exact)

    def _dress(self, cohort: Cohort, probability: np.ndarray | None, active: np.ndarray) -> Cohort:
        mask = cohort.dense().dense_mask
        steps: np.ndarray = mask * int(self.max_steps)
        return Cohort(
            self.num_clients, mask=mask, probability=probability, steps=steps,
            max_steps=self.max_steps, active_probability=active,
        )

    def sample(self, stream: Stream, round_index: int, scenarios: range, num_clients: int) -> Cohort:
        self.check(num_clients)
        return self._dress(self.base.sample(stream, round_index, scenarios, num_clients), None, self.active())

    def count(self, num_clients: int) -> int:
        self.check(num_clients)
        return self.base.count(num_clients)

    def enumerate(self, num_clients: int) -> Cohort:
        return self.enumerate_round(1, num_clients)

    def enumerate_round(self, round_index: int, num_clients: int, exact: bool = False) -> Cohort:
        self.check(num_clients)
        cohort = self.base.enumerate(num_clients)
        mass = cohort.probability
        if exact:
            mass = _exact_mass(self.base, cohort)
        return self._dress(cohort, mass, self.active(exact))


def _exact_mass(base: Sampling, cohort: Cohort) -> np.ndarray:
    if isinstance(base, Full | Uniform):
        return np.full(cohort.scenarios, Fraction(1, cohort.scenarios))
    if isinstance(base, Bernoulli):
        q = fractions(np.broadcast_to(np.asarray(base.probability, dtype=object), (cohort.num_clients,)))
        mass = np.where(cohort.dense().dense_mask, q, 1 - q).prod(axis=1)
        return mass / mass.sum()
    raise MissingCapability(f"{type(base).__name__} sampling has no exact probabilities: use exact=False")


def as_irregular(sampling: Sampling, max_steps: int, num_clients: int) -> Participation:
    """`Full`, `Uniform`, `Bernoulli` or any other law, as a law of cohorts with steps: participants complete E steps."""
    if isinstance(sampling, Participation):
        return sampling
    return AsIrregular(sampling, max_steps, num_clients)
