"""SCAFFOLD (Karimireddy et al. 2020, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from fedtheory.algorithms.base import (
    OPTION_2,
    Algorithm,
    Sent,
    check_choice,
    check_number,
    no_step_size,
    per_client,
    step_sum,
)
from fedtheory.arrays import Array, namespace
from fedtheory.clients.clients import Clients
from fedtheory.local.exact import Exact
from fedtheory.local.objective import LocalObjective, LocalSolver

__all__ = ["Scaffold", "ScaffoldState"]


class ScaffoldState(NamedTuple):
    x: Array  # (S, d)
    c_k: Array  # the clients' control variates, the paper's c_i (S, N, d)
    c: Array  # the server's control variate, always the mean of the c_k (S, d)


@dataclass(frozen=True)
class Scaffold(Algorithm):
    """SCAFFOLD: local steps corrected by control variates.

    The correction is linear, so that local steps on f_k(y) - <c_k - c, y> are line 10 whatever the local solver.

    Parameters
    ----------
    option : 'difference' or 'gradient'
        New control variate: 'difference' is option II, c_k - c + (x - y_k)/(K eta_l), and needs a local solver with a
        step size; 'gradient' is option I, grad f_k(x), the full local gradient at the server's model.
    server_lr : float > 0
        eta_g.
    send : 'update' or 'model'
        'update' is line 13; 'model' sends y_k, as FedDyn's public code does, whose server averages models. The server's step is the
        same.

    Raises
    ------
    InvalidInput
        server_lr not a finite number > 0, unknown option.
    MissingCapability
        option='difference' with a local solver that takes no gradient steps (`Exact`).

    Notes
    -----
    The method aims at the plain mean (1/m) sum_k f_k, whatever weights the problem carries.
    """

    name: ClassVar[str] = "scaffold"
    source: ClassVar[str] = "Karimireddy et al. 2020, Algorithm 1"

    option: Literal["difference", "gradient"] = "difference"
    server_lr: float = 1.0  # eta_g
    send: Sent = "update"

    def __post_init__(self) -> None:
        check_choice(self, "option", ("difference", "gradient"))
        check_number(self, "server_lr", "the server's step size eta_g", positive=True)
        check_choice(self, "send", ("update", "model"))

    def check(self, solver: LocalSolver) -> None:
        if self.option == "difference" and isinstance(solver, Exact):
            raise no_step_size(solver, *OPTION_2)

    def init(self, x: Array, num_clients: int) -> ScaffoldState:
        return ScaffoldState(x, per_client(x, num_clients), namespace(x).zeros_like(x))

    def round(self, state: ScaffoldState, clients: Clients) -> ScaffoldState:
        x, c = clients.broadcast(state.x), clients.broadcast(state.c)  # line 5
        c_k = clients.take(state.c_k)
        result = clients.minimise(LocalObjective(center=x, linear=c_k - c), start=x)  # lines 7-11
        y = result.y
        if self.option == "gradient":
            c_plus = clients.gradient(x)  # line 12 (i)
        else:
            c_plus = c_k - c + (x - y) / step_sum(clients, result.step_sum, *OPTION_2)  # line 12 (ii)
        clients.send(y - x if self.send == "update" else y)  # line 13
        dc = clients.send(c_plus - c_k)
        return ScaffoldState(
            x=state.x + self.server_lr * clients.mean(y - x),  # lines 16-17
            c_k=clients.put(state.c_k, c_plus),  # line 14
            c=state.c + clients.sum(dc) / clients.num_clients,  # lines 16-17: |S|/N times the cohort's mean
        )
