"""SCAFFOLD (Karimireddy et al. 2020, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from fedtheory.algorithms.base import (
    OPTION_2,
    Algorithm,
    Sent,
    check_choice,
    check_number,
    no_step_size,
    per_client,
    require,
    step_sum,
)
from fedtheory.arrays import Array, namespace
from fedtheory.clients.clients import Clients
from fedtheory.local.exact import Exact
from fedtheory.local.objective import LocalObjective, LocalSolver

__all__ = ["Control", "Scaffold", "ScaffoldState", "check_control", "check_sent", "exchange"]

Control = Literal["sent", "recovered"]


class ScaffoldState(NamedTuple):
    x: Array  # (S, d)
    c_k: Array  # the clients' control variates, the paper's c_i (S, N, d)
    c: Array  # the server's control variate, always the mean of the c_k (S, d)


def check_control(algorithm: Any) -> None:
    """Raise `InvalidInput` unless ``control`` of SCAFFOLD, or of a method like it, goes with its option."""
    check_choice(algorithm, "control", ("sent", "recovered"))
    known = algorithm.control == "sent" or algorithm.option == "difference"
    require(known, "control", algorithm.control, "the gradients of option='gradient' do not follow from the updates: use 'sent'")


def check_sent(algorithm: Any, message: str) -> None:
    """Raise `InvalidInput` for a compressor of a second message that such a method does not send."""
    sent = message != "control" or algorithm.control == "sent"
    require(sent, "control", algorithm.control, "no second message is sent: leave its compressor out")


def exchange(
    clients: Clients, update: Array, c_k: Array, c: Array, new: Array | None, steps: Any
) -> tuple[Array, Array, Array]:
    """Both messages of a round of SCAFFOLD.

    Parameters
    ----------
    update : of the local models (S, P, d)
    new : the control variates that the clients worked out; None where they follow from what arrives of the update
    steps : sum of the step sizes of the local steps, K eta_l, where ``new`` is None

    Returns
    -------
    tuple
        What arrives of the update and of the change of the control variates, and the control variates afterwards, (S, P, d) each.
    """
    arrived = clients.send(update)
    if new is None:
        new = c_k - c - arrived / steps
        return arrived, new - c_k, new
    change = new - c_k
    received = clients.send(change)
    return arrived, received, new if received is change else c_k + received  # a client keeps what arrives


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
    control : 'sent' or 'recovered'
        'sent' is line 13. 'recovered': the change of c_k is not sent. By option II it is -c - (y_k - x)/(K eta_l), which the server
        works out from the update that arrives, and the client does the same.

    Raises
    ------
    InvalidInput
        server_lr not a finite number > 0, unknown option, control='recovered' with another option or with models that are sent.
    MissingCapability
        option='difference' with a local solver that takes no gradient steps (`Exact`).

    Notes
    -----
    The method aims at the plain mean (1/m) sum_k f_k, whatever weights the problem carries.
    """

    name: ClassVar[str] = "scaffold"
    source: ClassVar[str] = "Karimireddy et al. 2020, Algorithm 1"
    compresses: ClassVar[tuple[str, ...]] = ("up", "control", "down")

    option: Literal["difference", "gradient"] = "difference"
    server_lr: float = 1.0  # eta_g
    send: Sent = "update"
    control: Control = "sent"

    def __post_init__(self) -> None:
        check_choice(self, "option", ("difference", "gradient"))
        check_number(self, "server_lr", "the server's step size eta_g", positive=True)
        check_choice(self, "send", ("update", "model"))
        check_control(self)
        known = self.control == "sent" or self.send == "update"
        require(known, "send", self.send, "with control='recovered', use send='update'")

    def check_compressed(self, message: str) -> None:
        super().check_compressed(message)
        check_sent(self, message)

    def check(self, solver: LocalSolver) -> None:
        if self.option == "difference" and (isinstance(solver, Exact) or not solver.reports_steps):
            raise no_step_size(solver, *OPTION_2)

    def init(self, x: Array, num_clients: int) -> ScaffoldState:
        return ScaffoldState(x, per_client(x, num_clients), namespace(x).zeros_like(x))

    def round(self, state: ScaffoldState, clients: Clients) -> ScaffoldState:
        x, c = clients.broadcast(state.x), clients.broadcast(state.c)  # line 5
        c_k = clients.take(state.c_k)
        result = clients.minimise(LocalObjective(center=x, linear=c_k - c), start=x)  # lines 7-11
        y, steps, c_plus = result.y, None, None
        if self.option == "gradient":
            c_plus = clients.gradient(x)  # line 12 (i)
        else:
            steps = step_sum(clients, result.step_sum, *OPTION_2)
            c_plus = c_k - c + (x - y) / steps if self.control == "sent" else None  # line 12 (ii)
        update = y - x if self.send == "update" else y
        dy, dc, c_plus = exchange(clients, update, c_k, c, c_plus, steps)  # line 13
        step = self.server_lr * clients.mean(dy if self.send == "update" else y - x)
        return ScaffoldState(
            x=state.x + clients.send_down(step),  # lines 16-17
            c_k=clients.put(state.c_k, c_plus),  # line 14
            c=state.c + clients.sum(dc) / clients.num_clients,  # lines 16-17: |S|/N times the cohort's mean
        )
