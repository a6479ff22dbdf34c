"""A method written as an `Algorithm`, one's own or one of ours, as the audit calls it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtheory.algorithms.base import Algorithm
from fedtheory.errors import InvalidInput
from fedtheory.participation import Cohort, Sampling
from fedtheory.randomness import Stream
from fedtheory.testing.audit.clients import Client

__all__ = ["Given", "from_algorithm"]


@dataclass(frozen=True)
class Given(Sampling):
    """These cohorts, one a round."""

    cohorts: tuple[tuple[int, ...], ...]

    def sample(self, stream: Stream, round_index: int, scenarios: range, num_clients: int) -> Cohort:
        members = np.sort(np.array(self.cohorts[round_index - 1]))
        return Cohort(num_clients, members=np.tile(members, (len(scenarios), 1)))


def from_algorithm(
    make: Callable[..., Algorithm], weighting: str = "uniform", local: str = "steps"
) -> Callable[..., np.ndarray]:
    """An adapter for `check_algorithm` around an `Algorithm`.

    Parameters
    ----------
    make : callable(**settings) -> Algorithm
        From what the audit sets: ``mu``, ``alpha``, ``l1``, ``server_lr``, ...
    weighting : 'uniform' or 'examples'
        The weights of the problem that the method is run on.
    local : 'steps' or 'exact'
        Whether clients take gradient steps, or minimise to the end.

    Returns
    -------
    callable
        ``run(start, clients, cohorts, ...)``, which gives the server's model after every round.

    Examples
    --------
    >>> from fedtheory.algorithms import FedDyn
    >>> from fedtheory.testing import check_algorithm
    >>> from fedtheory.testing.audit import from_algorithm
    >>> check_algorithm(from_algorithm(lambda alpha: FedDyn(alpha=alpha)), "feddyn").passed
    True
    """
    from fedtheory.local import Exact, GradientSteps

    if local not in ("steps", "exact"):
        raise InvalidInput(f"local = {local!r}: use 'steps' or 'exact'")

    def run(
        start: np.ndarray, clients: Sequence[Client], cohorts: list[list[int]],
        learning_rate: float = 0.0, local_steps: int = 1, **settings: Any,
    ) -> np.ndarray:
        from fedtheory.problems import LeastSquares, Logistic
        from fedtheory.simulation import simulate

        kind = LeastSquares if clients[0].loss == "squared" else Logistic
        weights = "samples" if weighting == "examples" else "uniform"
        problem = kind(
            [c.features for c in clients], [c.labels for c in clients], ridge=clients[0].ridge, weights=weights
        )
        solver = Exact(tolerance=1e-12) if local == "exact" else GradientSteps(local_steps, learning_rate)
        sampling = Given(tuple(tuple(c) for c in cohorts))
        settings.pop("seed", None), settings.pop("batch_size", None)
        found = simulate(problem, make(**settings), rounds=len(cohorts), x0=start,
                         sampling=sampling, local_solver=solver, record=(), keep_states=True)
        return np.array([state.x[0] for state in (found.states or [])[1:]])

    run.__name__ = getattr(make, "__name__", "algorithm")
    return run
