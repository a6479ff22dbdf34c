"""FedGATE, and FedCOMGATE where messages are compressed (Haddadpour et al. 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from fedtheory.algorithms.base import Algorithm, check_number, per_client
from fedtheory.algorithms.vrl_sgd import check_steps, common_step_sum
from fedtheory.arrays import Array
from fedtheory.clients.clients import Clients
from fedtheory.local.objective import LocalObjective, LocalSolver

__all__ = ["FedGATE", "FedGATEState"]


class FedGATEState(NamedTuple):
    x: Array  # w (S, d)
    delta: Array  # the gradient trackers delta_k, whose sum over the clients is always 0 (S, N, d)


@dataclass(frozen=True)
class FedGATE(Algorithm):
    """FedGATE: local steps on f_k(y) - <delta_k, y> with tracked gradients, and a server step size.

    Parameters
    ----------
    server_lr : float > 0
        gamma; the server's step is gamma * tau * eta * (the mean message).

    Raises
    ------
    InvalidInput
        server_lr not a finite number > 0.
    MissingCapability
        A local solver without step size (`Exact`), or one with which clients make unequal steps.

    Notes
    -----
    ``Compressed(FedGATE(), up=Q)`` is FedCOMGATE, which knows no error feedback. Its message here is Q((x - y_k)/(tau eta)), of the
    mean corrected gradient, where the paper has Q((x - y_k)/eta) and divides by tau later: the same for every Q that commutes with a
    positive factor, as sparsifiers, signs and QSGD do. What is sent goes to 0 at the fixed point, so that an unbiased Q with small
    enough variance still leads there. Trackers move by compressed messages alone, and so keep the sum 0.

    The paper has all devices in every round. With a smaller cohort, its members alone change their delta_k: the sum of all stays
    0, but that over a cohort need not be, so that only full participation has the minimiser of (1/m) sum_k f_k as its fixed point
    (whatever weights the problem carries). With gamma = 1 and no compressor the method is VRL-SGD.
    """

    name: ClassVar[str] = "fedgate"
    source: ClassVar[str] = "Haddadpour et al. 2021, FedCOMGATE and FedGATE"
    compresses: ClassVar[tuple[str, ...]] = ("up",)
    error_feedback: ClassVar[bool] = False

    server_lr: float = 1.0  # gamma

    def __post_init__(self) -> None:
        check_number(self, "server_lr", "the server's step size gamma", positive=True)

    def check(self, solver: LocalSolver) -> None:
        check_steps(solver, "FedGATE")

    def init(self, x: Array, num_clients: int) -> FedGATEState:
        return FedGATEState(x, per_client(x, num_clients))  # delta_j = 0

    def round(self, state: FedGATEState, clients: Clients) -> FedGATEState:
        w, delta = clients.broadcast(state.x), clients.take(state.delta)
        result = clients.minimise(LocalObjective(center=w, linear=delta), start=w)  # d = grad f_j(w_j; xi) - delta_j
        taken = common_step_sum(clients, result.step_sum, "FedGATE")  # tau eta
        sent = clients.send((w - result.y) / taken)  # Delta_jq = Q((w - w_j)/eta), here over tau as well
        mean = clients.mean(sent)  # Delta_q
        delta = delta + sent - clients.broadcast(mean)  # delta_j <- delta_j + (Delta_jq - Delta_q)/tau
        return FedGATEState(
            x=state.x - self.server_lr * taken * mean,  # w <- w - eta gamma Delta_q
            delta=clients.put(state.delta, delta),
        )
