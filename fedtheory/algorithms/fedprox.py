"""FedProx (Li et al. 2020, Algorithm 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from fedtheory.algorithms.base import Aggregation, Algorithm, Sent, aggregate, check_choice, check_number
from fedtheory.arrays import Array
from fedtheory.clients.clients import Clients
from fedtheory.local.objective import LocalObjective

__all__ = ["FedProx", "FedProxState"]


class FedProxState(NamedTuple):
    x: Array  # w (S, d)


@dataclass(frozen=True)
class FedProx(Algorithm):
    """FedProx: FedAvg with mu/2 ||w - w^t||^2 in every local objective.

    Parameters
    ----------
    mu : float >= 0
    aggregation : 'cohort', 'samples' or 'printed'
        'cohort', the paper's: plain mean over the cohort (drawn there with probabilities p_k; here the sampling law is
        chosen apart). 'samples': n_k-weighted mean over the cohort. 'printed': sum over the cohort of (n_k/n) update_k.
    send : 'model' or 'update'
        What a client sends, and so what the wire metrics measure. The server's step is the same.

    Raises
    ------
    InvalidInput
        mu negative or not finite, unknown names.
    """

    name: ClassVar[str] = "fedprox"
    source: ClassVar[str] = "Li et al. 2020, Algorithm 2"
    local_work: ClassVar[str] = "gradient"
    compresses: ClassVar[tuple[str, ...]] = ("up", "model", "down")

    mu: float
    aggregation: Aggregation = "cohort"
    send: Sent = "model"

    def __post_init__(self) -> None:
        check_number(self, "mu", "mu")
        check_choice(self, "aggregation", ("cohort", "samples", "printed"))
        check_choice(self, "send", ("model", "update"))

    @classmethod
    def usual_parameters(cls, scale: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"mu": scale.L}

    def init(self, x: Array, num_clients: int) -> FedProxState:
        return FedProxState(x)

    def round(self, state: FedProxState, clients: Clients) -> FedProxState:
        w = clients.broadcast(state.x)  # server sends w^t to all chosen devices
        y = clients.minimise(LocalObjective(center=w, curvature=self.mu), start=w).y  # min F_k(w) + mu/2 ||w - w^t||^2
        update = clients.send(y) - w if self.send == "model" else clients.send(y - w)  # each device sends w_k^{t+1} back
        step = clients.send_down(aggregate(clients, update, self.aggregation))
        return FedProxState(state.x + step)  # w^{t+1} = 1/K sum w_k^{t+1}
