"""FedDyn (Acar et al. 2021, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from fedtheory.algorithms.base import Algorithm, Sent, check_choice, check_number, per_client, require
from fedtheory.algorithms.feedback import check_compressor, check_dimension, own_residuals, upload
from fedtheory.arrays import Array, namespace
from fedtheory.clients.clients import Clients
from fedtheory.inputs import check_flags
from fedtheory.local.objective import LocalObjective

if TYPE_CHECKING:
    from fedtheory.messages import Compressor
    from fedtheory.problems.base import Problem

__all__ = ["CompressedFedDynState", "FedDyn", "FedDynState", "Stored"]

Stored = Literal["own", "received"]


class FedDynState(NamedTuple):
    x: Array  # theta (S, d)
    gradients: Array  # grad L_k(theta_k^t) as the clients keep it, 0 at the start (S, N, d)
    h: Array  # (S, d)


class CompressedFedDynState(NamedTuple):
    x: Array  # (S, d)
    gradients: Array  # (S, N, d)
    h: Array  # (S, d)
    residuals: Array | None  # what the compressor left out so far (S, N, d)


@dataclass(frozen=True)
class FedDyn(Algorithm):
    """FedDyn: dynamic regularisation of the local objectives.

    Parameters
    ----------
    alpha : float > 0
    send : 'model' or 'update'
        The paper sends theta_k; 'update' sends theta_k - theta (in brackets in FedElasticNet's Tables 3 and 4).
    compressor : Compressor or None
        Of the update (send='update').
    client_feedback : bool
        What the compressor leaves out is added to the client's next update. False: it is lost.
    stored : 'own' or 'received'
        From what a client works out the gradient that it keeps: its own update, or what arrives of it. The server's h adds up what
        arrives: with 'received' it stays the mean of what clients keep; with 'own' it is off by alpha times the mean of all that
        was left out so far, which error feedback keeps bounded.

    Raises
    ------
    InvalidInput
        alpha not a finite number > 0, unknown names, a compressor with send='model'.

    Notes
    -----
    The method aims at the plain mean (1/m) sum_k L_k, whatever weights the problem carries.
    """

    name: ClassVar[str] = "feddyn"
    source: ClassVar[str] = "Acar et al. 2021, Algorithm 1"

    alpha: float
    send: Sent = "model"
    compressor: Compressor | None = None
    client_feedback: bool = True
    stored: Stored = "own"

    def __post_init__(self) -> None:
        check_flags(self)
        check_number(self, "alpha", "alpha", positive=True, why="the method divides by it")
        check_choice(self, "send", ("model", "update"))
        check_choice(self, "stored", ("own", "received"))
        check_compressor(self, "compressor")
        require(self.compressor is None or self.send == "update", "send", self.send, "with a compressor, use send='update'")

    def check_run(self, problem: Problem, rounds: int) -> None:
        check_dimension(problem, self.compressor)

    def init(self, x: Array, num_clients: int) -> FedDynState | CompressedFedDynState:
        start = FedDynState(x, per_client(x, num_clients), namespace(x).zeros_like(x))
        if self.compressor is None:
            return start
        return CompressedFedDynState(*start, own_residuals(x, num_clients, self.compressor, self.client_feedback))

    def round(self, state: FedDynState | CompressedFedDynState, clients: Clients) -> FedDynState | CompressedFedDynState:
        theta = clients.broadcast(state.x)  # transmit theta^{t-1} to each selected device
        gradients = clients.take(state.gradients)
        local = LocalObjective(center=theta, linear=gradients, curvature=self.alpha)
        theta_k = clients.minimise(local, start=theta).y  # argmin L_k - <gradient_k, .> + alpha/2 ||. - theta||^2
        if isinstance(state, CompressedFedDynState):
            return self._compressed(state, clients, gradients, theta_k - theta)
        moved = clients.moved(theta_k, theta)
        clients.send(theta_k if self.send == "model" else moved)
        # grad L_k(theta_k^t) = grad L_k(theta_k^{t-1}) - alpha (theta_k^t - theta^{t-1})
        memory, change = clients.dual_step(state.gradients, gradients, moved, self.alpha)
        h = state.h + change / clients.num_clients  # h^t = h^{t-1} - alpha/m sum_k (theta_k - theta)
        return FedDynState(x=clients.mean(theta_k) - h / self.alpha, gradients=memory, h=h)

    def _compressed(self, state: CompressedFedDynState, clients: Clients, gradients: Array, update: Array) -> CompressedFedDynState:
        """The end of a round whose updates theta_k - theta (S, P, d) are compressed."""
        arrived, residuals = upload(clients, update, self.compressor, state.residuals)
        h = state.h - self.alpha / clients.num_clients * clients.sum(arrived)
        kept = update if self.stored == "own" else arrived
        return CompressedFedDynState(
            x=state.x + clients.mean(arrived) - h / self.alpha,
            gradients=clients.put(state.gradients, gradients - self.alpha * kept),
            h=h,
            residuals=residuals,
        )
