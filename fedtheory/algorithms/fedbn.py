"""FedBN, whose normalisation layers stay at the clients (Li et al. 2021, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from fedtheory.algorithms.base import Aggregation, Algorithm, aggregate, check_choice, per_client
from fedtheory.arrays import Array, astype_like
from fedtheory.clients.clients import Clients
from fedtheory.errors import MissingCapability
from fedtheory.local.objective import LocalObjective
from fedtheory.problems.base import Problem

__all__ = ["FedBN", "FedBNState"]


class FedBNState(NamedTuple):
    x: Array  # (S, d), for the metrics: no client reads its normalisation layers
    w: Array  # (S, N, d), the clients' models: the server's, with normalisation layers of their own

    @property
    def personal(self) -> Array:
        """The clients' models (S, N, d)."""
        return self.w


@dataclass(frozen=True)
class FedBN(Algorithm):
    """FedBN: FedAvg of all but the normalisation layers, which stay at each client.

    Neither their parameters nor their running statistics are ever averaged.

    Parameters
    ----------
    aggregation : 'cohort', 'samples' or 'printed'
        As of `FedAvg`; 'cohort', the plain mean, is the paper's.

    Raises
    ------
    InvalidInput
        Unknown names.
    MissingCapability
        Of a run on a problem that is no network with normalisation layers: FedBN is FedAvg there.

    Notes
    -----
    The normalisation layers of a network are those of `torch.nn` (batch, instance, group, layer and
    RMS norm). A client that stays away takes the server's other parameters along, as it would when
    it is asked for its model. Measure ``client_accuracy``, which is that of the clients' own
    models, ``state.personal``. The server has no normalisation layers: those of ``state.x``, which
    the other metrics look at, are the cohort's mean, and no client works with them.
    """

    name: ClassVar[str] = "fedbn"
    source: ClassVar[str] = "Li et al. 2021, Algorithm 1"

    aggregation: Aggregation = "cohort"

    def __post_init__(self) -> None:
        check_choice(self, "aggregation", ("cohort", "samples", "printed"))

    def check_run(self, problem: Problem, rounds: int) -> None:
        if not problem.normalising.any():
            raise MissingCapability(
                f"{problem.name} has no normalisation layers, which FedBN keeps at clients: use "
                "FedAvg, which it is without them, or a fedtheory.neural.NeuralProblem whose "
                "module has some"
            )

    def init(self, x: Array, num_clients: int) -> FedBNState:
        return FedBNState(x, per_client(x, num_clients) + x[:, None, :])

    def round(self, state: FedBNState, clients: Clients) -> FedBNState:
        own = clients.problem.normalising
        clients.receive_bits(clients.float_bits * int((~own).sum()))  # the server's parameters
        w = clients.take(state.w)
        y = clients.minimise(LocalObjective(center=w), start=w).y
        clients.send(y[:, :, np.flatnonzero(~own)])
        x = state.x + aggregate(clients, y - clients.spread(state.x), self.aggregation)
        mask = astype_like(own, x)
        return FedBNState(x, clients.xp.where(mask, clients.put(state.w, y), x[:, None, :]))
