"""Scaffnew, ProxSkip for federated learning (Mishchenko et al. 2022, Algorithm 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from fedtheory.algorithms.base import Algorithm, check_number, per_client, require
from fedtheory.algorithms.vrl_sgd import check_steps, common_step_sum
from fedtheory.arrays import Array, to_numpy
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput
from fedtheory.local.objective import LocalObjective, LocalSolver
from fedtheory.participation.cohorts import Full, Uniform

if TYPE_CHECKING:
    from fedtheory.participation.cohorts import Sampling
    from fedtheory.problems.base import Problem

__all__ = ["Scaffnew", "ScaffnewState"]


class ScaffnewState(NamedTuple):
    x: Array  # what the server averaged last, the start before that (S, d)
    local: Array  # the clients' models x_k (S, N, d)
    h: Array  # the clients' control variates h_k, whose sum is 0 (S, N, d)


@dataclass(frozen=True)
class Scaffnew(Algorithm):
    """Scaffnew: local work on f_k(y) - <h_k, y> from each client's own model, averaged when a coin says so.

    A round is one iteration of the paper, with one coin for all clients:

        y_k = x_k - gamma (grad f_k(x_k) - h_k),
        with probability p  x_k+ = mean of the y_i - (gamma/p) h_i,  else  x_k+ = y_k,
        h_k+ = h_k + (p/gamma) (x_k+ - y_k).

    Parameters
    ----------
    p : float in (0, 1]
        The probability that a round communicates. The paper's is sqrt(mu/L), with steps 1/L.

    Raises
    ------
    InvalidInput
        p outside (0, 1]; a run in which not everybody takes part in every round.
    MissingCapability
        A local solver without step size (`Exact`), or one with which clients make unequal steps.

    Notes
    -----
    gamma is the sum of the local solver's step sizes; one gradient step is the paper's. With more of them, and with p = 1, it is
    VRL-SGD, and with one step and p = 1 gradient descent.

    The method aims at the plain mean (1/m) sum_k f_k, whatever weights the problem carries. What a run measures is the server's
    model, which only rounds with the coin change. In other rounds nothing is sent, up or down, and nothing is counted.
    """

    name: ClassVar[str] = "scaffnew"
    source: ClassVar[str] = "Mishchenko et al. 2022, Algorithm 2"
    coordinatewise: ClassVar[bool] = False
    local_work: ClassVar[str] = "gradient"
    local_steps: ClassVar[int] = 1

    p: float

    def __post_init__(self) -> None:
        check_number(self, "p", "the probability p that a round communicates", positive=True)
        require(self.p <= 1, "p", self.p, "the probability p that a round communicates must lie in (0, 1]")

    @classmethod
    def usual_parameters(cls, scale: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"p": Fraction(1, 2)}

    def check(self, solver: LocalSolver) -> None:
        check_steps(solver, "Scaffnew")

    def check_sampling(self, sampling: Sampling, problem: Problem, rounds: int) -> None:
        if not isinstance(sampling, Full) and sampling != Uniform(problem.num_clients):
            raise InvalidInput(
                f"sampling = {sampling!r}: every client takes part in every round of Scaffnew, whose coin says which rounds "
                "communicate: use Full(), and a smaller p for fewer messages"
            )

    def init(self, x: Array, num_clients: int) -> ScaffnewState:
        return ScaffnewState(x, per_client(x, num_clients) + x[:, None, :], per_client(x, num_clients))  # sum of h_k = 0

    def round(self, state: ScaffnewState, clients: Clients) -> ScaffnewState:
        local, h = clients.take(state.local), clients.take(state.h)
        result = clients.minimise(LocalObjective(center=local, linear=h), start=local)
        gamma = common_step_sum(clients, result.step_sum, "Scaffnew")
        y, over = result.y, self.p / gamma
        coin = clients.coin(self.p)
        senders = np.repeat(to_numpy(coin), y.shape[1], axis=1)
        sent = clients.send(y - h / over, senders=senders)
        clients.receive_bits(clients.float_bits * y.shape[2] * senders)
        x = clients.xp.where(coin, clients.mean(sent), state.x)
        new = clients.xp.where(coin[:, :, None], clients.spread(x), y)
        h = h + over * (new - y)  # 0 in rounds without the coin
        return ScaffnewState(x, clients.put(state.local, new), clients.put(state.h, h))
