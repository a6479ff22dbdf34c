"""FedElasticNet for FedAvg and FedProx (Algorithm 1 of the FedElasticNet paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from fedtheory.algorithms.base import Aggregation, Algorithm, aggregate, check_choice, check_number, threshold
from fedtheory.arrays import Array
from fedtheory.clients.clients import Clients
from fedtheory.local.objective import LocalObjective

__all__ = ["FedElasticNetProx", "FedElasticNetProxState"]


class FedElasticNetProxState(NamedTuple):
    x: Array  # theta (S, d)


@dataclass(frozen=True)
class FedElasticNetProx(Algorithm):
    """FedElasticNet, Algorithm 1: FedProx with an l1 penalty on the update.

    Parameters
    ----------
    l1, l2 : float >= 0
        lambda_1 and lambda_2.
    aggregation : 'printed', 'cohort' or 'samples'
        'printed' is line 7, sum over the cohort of (n_k/n) delta_k, whose weights sum to less than 1 when not everyone
        takes part; 'cohort' and 'samples' are the plain and the n_k-weighted mean over the cohort.
    epsilon : float >= 0
        Threshold of section 3 on what is sent.

    Raises
    ------
    InvalidInput
        Hyperparameters that are negative or not finite, unknown names.

    Notes
    -----
    ``Compressed(..., up=Threshold(0))`` sends the nonzero entries of delta with their places, and counts these bits.
    """

    name: ClassVar[str] = "fedelasticnet-prox"
    source: ClassVar[str] = "FedElasticNet, Algorithm 1"
    compresses: ClassVar[tuple[str, ...]] = ("up", "down")

    l1: float  # lambda_1
    l2: float  # lambda_2
    aggregation: Aggregation = "printed"
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        check_number(self, "l1", "lambda_1")
        check_number(self, "l2", "lambda_2")
        check_number(self, "epsilon", "the threshold")
        check_choice(self, "aggregation", ("printed", "cohort", "samples"))

    def init(self, x: Array, num_clients: int) -> FedElasticNetProxState:
        return FedElasticNetProxState(x)

    def round(self, state: FedElasticNetProxState, clients: Clients) -> FedElasticNetProxState:
        theta = clients.broadcast(state.x)  # line 2
        y = clients.minimise(LocalObjective(center=theta, curvature=self.l2, l1=self.l1), start=theta).y  # line 4
        delta = clients.send(threshold(y - theta, self.epsilon))  # line 5
        step = clients.send_down(aggregate(clients, delta, self.aggregation))
        return FedElasticNetProxState(state.x + step)  # line 7
