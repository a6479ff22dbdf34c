"""FedAvg (McMahan et al. 2017, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from fedtheory.algorithms.base import Aggregation, Algorithm, Sent, aggregate, check_choice
from fedtheory.arrays import Array
from fedtheory.clients.clients import Clients
from fedtheory.local.objective import LocalObjective

__all__ = ["FedAvg", "FedAvgState"]


class FedAvgState(NamedTuple):
    x: Array  # w (S, d)


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """FedAvg: local work on f_k from the server's model, then an average.

    Parameters
    ----------
    aggregation : 'samples', 'cohort' or 'printed'
        'samples', the paper's: n_k-weighted mean over the cohort. 'cohort': plain mean over the cohort. 'printed': the
        first versions' sum over all K clients of n_k/n w_k, where a client outside the cohort keeps the server's model.
    send : 'model' or 'update'
        What a client sends, and so what the wire metrics measure. The server's step is the same.

    Raises
    ------
    InvalidInput
        Unknown names.
    """

    name: ClassVar[str] = "fedavg"
    source: ClassVar[str] = "McMahan et al. 2017, Algorithm 1"
    local_work: ClassVar[str] = "gradient"
    compresses: ClassVar[tuple[str, ...]] = ("up", "model", "down")

    aggregation: Aggregation = "samples"
    send: Sent = "model"

    def __post_init__(self) -> None:
        check_choice(self, "aggregation", ("samples", "cohort", "printed"))
        check_choice(self, "send", ("model", "update"))

    def init(self, x: Array, num_clients: int) -> FedAvgState:
        return FedAvgState(x)

    def round(self, state: FedAvgState, clients: Clients) -> FedAvgState:
        w = clients.broadcast(state.x)  # server: S_t <- m clients
        y = clients.minimise(LocalObjective(center=w), start=w).y  # ClientUpdate(k, w)
        update = clients.send(y) - w if self.send == "model" else clients.send(clients.moved(y, w))[...]
        step = clients.send_down(aggregate(clients, update, self.aggregation))
        return FedAvgState(state.x + step)  # server: w <- sum n_k/m_t w_k
