"""FedDyn (Acar et al. 2021, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from fedtheory.algorithms.base import Algorithm, Sent, check_choice, check_number, per_client
from fedtheory.arrays import Array, namespace
from fedtheory.clients.clients import Clients
from fedtheory.local.objective import LocalObjective

__all__ = ["FedDyn", "FedDynState", "Stored"]

Stored = Literal["own", "received"]


class FedDynState(NamedTuple):
    x: Array  # theta (S, d)
    gradients: Array  # grad L_k(theta_k^t) as the clients keep it, 0 at the start (S, N, d)
    h: Array  # (S, d)


@dataclass(frozen=True)
class FedDyn(Algorithm):
    """FedDyn: dynamic regularisation of the local objectives.

    Parameters
    ----------
    alpha : float > 0
    send : 'model' or 'update'
        The paper sends theta_k; 'update' sends theta_k - theta (in brackets in FedElasticNet's Tables 3 and 4).
    stored : 'own' or 'received'
        From what a client works out the gradient that it keeps, where updates are `Compressed`: its own update, or what arrives of
        it. The server's h adds up what arrives: with 'received' it stays the mean of what clients keep; with 'own' it is off by
        alpha times the mean of all that was left out so far, which error feedback keeps bounded.

    Raises
    ------
    InvalidInput
        alpha not a finite number > 0, unknown names.

    Notes
    -----
    The method aims at the plain mean (1/m) sum_k L_k, whatever weights the problem carries.
    """

    name: ClassVar[str] = "feddyn"
    source: ClassVar[str] = "Acar et al. 2021, Algorithm 1"
    compresses: ClassVar[tuple[str, ...]] = ("up",)

    alpha: float
    send: Sent = "model"
    stored: Stored = "own"

    def __post_init__(self) -> None:
        check_number(self, "alpha", "alpha", positive=True, why="the method divides by it")
        check_choice(self, "send", ("model", "update"))
        check_choice(self, "stored", ("own", "received"))

    @classmethod
    def usual_parameters(cls, scale: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"alpha": scale.L}

    def init(self, x: Array, num_clients: int) -> FedDynState:
        return FedDynState(x, per_client(x, num_clients), namespace(x).zeros_like(x))

    def round(self, state: FedDynState, clients: Clients) -> FedDynState:
        theta = clients.broadcast(state.x)  # transmit theta^{t-1} to each selected device
        gradients = clients.take(state.gradients)
        local = LocalObjective(center=theta, linear=gradients, curvature=self.alpha)
        theta_k = clients.minimise(local, start=theta).y  # argmin L_k - <gradient_k, .> + alpha/2 ||. - theta||^2
        moved = clients.moved(theta_k, theta)
        sent = theta_k if self.send == "model" else moved
        arrived = clients.send(sent)
        if arrived is sent:  # all of it
            # grad L_k(theta_k^t) = grad L_k(theta_k^{t-1}) - alpha (theta_k^t - theta^{t-1})
            memory, change = clients.dual_step(state.gradients, gradients, moved, self.alpha)
            h = state.h + change / clients.num_clients  # h^t = h^{t-1} - alpha/m sum_k (theta_k - theta)
            return FedDynState(x=clients.mean(theta_k) - h / self.alpha, gradients=memory, h=h)
        h = state.h - self.alpha / clients.num_clients * clients.sum(arrived)  # the server goes by what arrives
        kept = gradients - self.alpha * (moved[...] if self.stored == "own" else arrived)
        return FedDynState(
            x=state.x + clients.mean(arrived) - h / self.alpha, gradients=clients.put(state.gradients, kept), h=h
        )
