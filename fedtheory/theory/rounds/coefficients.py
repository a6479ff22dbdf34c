"""Read off a method's own round with which coefficients its server adds the local models up.

Given who does how many steps, the server of many methods goes from x to x + sum_k p_k (y_k - x).
The method's ``round`` is run on local models that are units, each in a coordinate of its own, so
that the next model shows all p_k at once; on models of any kind it must then be that sum, in
fractions without tolerance. A coefficient p_k that depends on k's own steps alone, or also on how
many clients count, has moments under every law of independent clients, without an enumeration.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from fedtheory.errors import MissingCapability
from fedtheory.local.objective import LocalObjective, LocalResult
from fedtheory.participation.cohorts import Cohort
from fedtheory.participation.moments import Moments, moments
from fedtheory.rational import in_fractions
from fedtheory.theory.rounds.rational_clients import SlotClients, SlotWork, check_state

__all__ = ["RoundLaw", "coefficients_of"]

NUMBERS = 2**21  # of the local models that one call of a round is given
NONE = "it has no recursion of second moments"


@dataclass(frozen=True)
class _Given(SlotWork):
    """Local work whose outcome (S, N, d) is given."""

    models: Any = None

    def run(self, pieces: Any, objective: LocalObjective, start: Any) -> LocalResult:
        """The models, where the clients work on their own losses from the server's model."""
        if not objective.none:
            raise MissingCapability(f"its clients work on more than their losses: {NONE}")
        return LocalResult(self.models)


class _Whole(SlotClients):
    """Clients whose messages arrive whole: a compressor may pass the models tried here, and no
    others."""

    def _left(self, message: Any, compressor: Any) -> Any:
        raise MissingCapability(f"its messages are compressed: {NONE}")


def coefficients_of(method: Any, steps: Any, most: int, weights: Any, active: Any) -> Any:
    """The coefficients p_k (O, N) of a round in which the clients do steps (O, N) of ``most``.

    Parameters
    ----------
    weights, active : (N,)
        w_k, and the probability that k does any step; of fractions the coefficients are, too.

    Raises `MissingCapability`: a round that is not x + sum_k p_k (y_k - x), or a state with more
    than the server's model.
    """
    n, one = len(weights), weights[0] * 0 + 1
    method = in_fractions(method) if weights.dtype == object else method
    units = np.eye(n + 1, dtype=int)[:, 1:] * one
    others = (np.arange(3 * n + 3) ** 2 % 11 - 4).reshape(n + 1, 3) * one / 3
    points = np.concatenate([units, others], axis=1)  # (1 + N, N + 3): x, and every y_k
    name = getattr(method, "name", type(method).__name__)
    parts = []
    for some in np.array_split(steps, len(steps) * points.size // NUMBERS + 1):
        cohort = Cohort(n, mask=some > 0, steps=some, max_steps=most, active_probability=active)
        state = check_state(method.init(np.tile(points[:1], (len(some), 1)), n), name)
        if any(field is not None for field in state[1:]):
            raise MissingCapability(f"{name} keeps more than the server's model: {NONE}")
        losses: Any = SimpleNamespace(weights=weights, pieces=None)
        models = np.tile(points[None, 1:], (len(some), 1, 1))
        work: Any = _Given(models=models)
        clients = _Whole(losses, cohort, work, state.x)
        parts.append(method.round(state, clients).x)
    after = np.concatenate(parts)
    p = after[:, :n]
    if not _same(after[:, n:], points[0, n:] + p @ (points[1:, n:] - points[0, n:])):
        raise MissingCapability(
            f"a round of {name} does not add up local models, x + sum_k p_k (y_k - "
            f"x) with p_k from who does how many steps: {NONE}"
        )
    return p


def _same(a: Any, b: Any) -> bool:
    """True if two arrays are equal, floats up to rounding."""
    return bool((abs(a - b) <= (0 if a.dtype == object else 1e-12 * (1 + abs(b)))).all())


@dataclass(frozen=True, eq=False)
class RoundLaw:
    """One round of a method under a law (N, E + 1) of s_k = 0..E, of independent clients."""

    method: Any
    law: np.ndarray
    weights: np.ndarray

    @property
    def E(self) -> int:
        return self.law.shape[1] - 1

    def of(self, steps: np.ndarray) -> np.ndarray:
        """Coefficients of given steps: (O, N) -> (O, N)."""
        return coefficients_of(self.method, steps, self.E, self.weights, 1 - self.law[:, 0])

    @cached_property
    def moments(self) -> Moments:
        """E[p_k], E[p_k s_k], E[p_k^2 s_k], and what else is known of them.

        Where the method has a ``scheme`` of coefficients, `fedtheory.participation.moments` has
        them in closed form; of others the overlap of sums of more than 2 is not known.
        """
        exact, w, steps = self.law.dtype == object, self.weights, np.arange(self.E + 1)
        if hasattr(self.method, "scheme"):
            return moments(self.method.scheme, self.law, self.E, w, exact=exact)
        first, second = self.single
        p, ps, p2s = first.sum(axis=1), self.drift, (second * steps).sum(axis=1)
        largest = self._alone if self.by_count is None else self.by_count.max(axis=-1)
        ratio = ps / w
        none: Any = ""
        return Moments(
            none, p, ps, p2s, p.sum(), ps.sum(), None, None, False, ratio, _same(ratio[:1], ratio),
            (largest.max(axis=1) / w).max(),
        )  # fmt: skip

    @cached_property
    def fixed(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The only possible steps (N,) and their coefficients (N,), if there is only one case."""
        if (self.law.max(axis=1) != 1).any():
            return None
        steps = np.argmax(self.law == 1, axis=1)
        return steps, self.of(steps[None])[0]

    @cached_property
    def _alone(self) -> np.ndarray:
        """Coefficients of a client that is the only one to do any steps: (N, E + 1)."""
        n, most = len(self.law), self.E
        steps = np.eye(n, dtype=int)[:, None] * np.arange(most + 1)[:, None]  # (N, E + 1, N)
        return self.of(steps.reshape(-1, n)).reshape(n, most + 1, n)[np.arange(n), :, np.arange(n)]

    @cached_property
    def by_count(self) -> np.ndarray | None:
        """Coefficients (N, E + 1, N) by k's own steps and by how many clients count, from 1 on.

        None where the others do not matter. A client counts with steps that have a coefficient when
        it is alone.
        """
        n, most, alone = len(self.law), self.E, self._alone
        every = [np.full(n, s) for s in range(most + 1)]
        mixed = np.array(
            every + [(np.arange(n) * a + b) % (most + 1) for a in (1, 2) for b in range(most + 1)]
        )
        found, who = self.of(mixed), np.arange(n)
        if _same(alone[who, mixed], found):
            return None
        counts = alone != 0
        table = np.zeros((n, most + 1, n), dtype=self.law.dtype) + alone[0, 0] * 0
        for size in range(1, n + 1):
            rows = np.array(
                [(who - first) % n < size for first in range(0, n, size)]
            )  # each client is in one of them
            for s in np.flatnonzero(counts.any(axis=0)):
                p = self.of(rows * s)
                table[:, s, size - 1] = p.sum(axis=0) / np.count_nonzero(rows, axis=0)
        many = np.maximum(counts[who, mixed].sum(axis=1), 1)
        if not _same(table[who, mixed, many[:, None] - 1], found):
            raise MissingCapability(
                f"coefficients depend on who else takes part, not only on how many: {NONE}. "
                "Take a mean over the cohort, as FedAvg(aggregation='cohort') has it"
            )
        return table

    def _others(self, *left: int) -> np.ndarray:
        """The law of how many clients count, but for one or two: (N,)."""
        counts = (self.law * (self._alone != 0)).sum(axis=1)
        key = tuple(sorted(counts[list(left)]))
        kept: dict[Any, np.ndarray] = self.__dict__.setdefault("_kept", {})
        if key not in kept:
            mass = np.zeros(len(counts), dtype=self.law.dtype) + counts[0] * 0
            mass[0] = mass[0] + 1
            for k, q in enumerate(counts):
                if k not in left:
                    mass = mass * (1 - q) + np.concatenate([mass[:1] * 0, mass[:-1]]) * q
            kept[key] = mass
        return kept[key]

    @cached_property
    def single(self) -> tuple[np.ndarray, np.ndarray]:
        """E[p_k 1{s_k = s}] and E[p_k^2 1{s_k = s}], (N, E + 1)."""
        p = self._alone if self.by_count is None else self.by_count
        if self.by_count is None:
            return self.law * p, self.law * p**2
        mass = np.stack([self._others(k) for k in range(len(p))])[:, None]
        return self.law * (mass * p).sum(axis=-1), self.law * (mass * p**2).sum(axis=-1)

    @cached_property
    def drift(self) -> np.ndarray:
        """E[p_k s_k] (N,)."""
        return (self.single[0] * np.arange(self.E + 1)).sum(axis=1)

    @cached_property
    def pairs(self) -> np.ndarray | None:
        """E[p_k p_l 1{s_k = s, s_l = r}], (N, E + 1, N, E + 1), 0 for k = l.

        None where the coefficients of different clients are independent.
        """
        p, n = self.by_count, len(self.law)
        if p is None:
            return None
        chance = self.law[:, :, None] * p[:, :, 1:]
        out = np.zeros((*self.law.shape, *self.law.shape), dtype=self.law.dtype) + p[0, 0, 0] * 0
        for k in range(n):
            for m in range(k):
                out[k, :, m] = (chance[k] * self._others(k, m)[:-1]) @ chance[m].T
                out[m, :, k] = out[k, :, m].T
        return out

    @property
    def joint(self) -> np.ndarray:
        """The same as `pairs` of any method."""
        first, apart = self.single[0], 1 - np.eye(len(self.law), dtype=int)
        return (
            np.multiply.outer(first, first) * apart[:, None, :, None]
            if self.pairs is None
            else self.pairs
        )
