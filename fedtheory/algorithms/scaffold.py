"""SCAFFOLD (Karimireddy et al. 2020, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable
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

__all__ = ["Control", "ControlVariates", "Scaffold", "ScaffoldState", "exchange"]

Control = Literal["sent", "recovered"]


class ScaffoldState(NamedTuple):
    x: Array  # (S, d)
    c_k: Array  # the clients' control variates, the paper's c_i (S, N, d)
    c: Array  # the server's control variate, always the mean of the c_k (S, d)


class ControlVariates(Algorithm):
    """A method whose clients keep control variates c_k, with their mean c at the server: SCAFFOLD, and those like it."""

    option: Literal["difference", "gradient"]
    control: Control
    initial: Literal["zero", "gradient"] | float

    def check_options(self) -> None:
        """Raise `InvalidInput` for unknown options, or some that do not go together."""
        check_choice(self, "option", ("difference", "gradient"))
        check_choice(self, "control", ("sent", "recovered"))
        known = self.control == "sent" or self.option == "difference"
        told = "the gradients of option='gradient' do not follow from the updates: use 'sent'"
        require(known, "control", self.control, told)
        if isinstance(self.initial, str):
            check_choice(self, "initial", ("zero", "gradient"))
        else:
            check_number(self, "initial", "use 'zero' or 'gradient'; of a worst case a distance, which")

    def check_compressed(self, message: str) -> None:
        super().check_compressed(message)
        sent = message != "control" or self.control == "sent"
        told = "no second message is sent: leave its compressor out"
        require(sent, "control", self.control, told)

    def check(self, solver: LocalSolver) -> None:
        if self.option == "difference" and (isinstance(solver, Exact) or not solver.reports_steps):
            raise no_step_size(solver, *OPTION_2)

    def init(self, x: Array, num_clients: int) -> ScaffoldState:
        return ScaffoldState(x, per_client(x, num_clients), namespace(x).zeros_like(x))

    def begin(self, x: Array, num_clients: int, everybody: Callable[[], Clients]) -> ScaffoldState:
        if self.initial == "zero":
            return self.init(x, num_clients)
        clients = everybody()
        if self.initial == "gradient":
            c_k = clients.send(clients.gradient(clients.broadcast(x)))
        else:
            c_k = clients.any_near_the_optimum("c_k", self.initial)
        return ScaffoldState(x, c_k, clients.mean(c_k))


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
class Scaffold(ControlVariates):
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
    initial : 'zero', 'gradient' or float >= 0
        The c_k before round 1, with their mean c: 'zero' is the usual one, 'gradient' is grad f_k(x_0) of every client, as the
        paper's nonconvex analysis has it (c_k is sent once more). A number stands for any c_k of which the root mean square
        distance from grad f_k(x*) is at most that: a worst case takes the worst, and no run begins so.

    Raises
    ------
    InvalidInput
        server_lr not a finite number > 0, unknown option, control='recovered' with another option or with models that are sent,
        initial no word of these and no finite number >= 0.
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
    initial: Literal["zero", "gradient"] | float = "zero"

    def __post_init__(self) -> None:
        self.check_options()
        check_number(self, "server_lr", "the server's step size eta_g", positive=True)
        check_choice(self, "send", ("update", "model"))
        known = self.control == "sent" or self.send == "update"
        require(known, "send", self.send, "with control='recovered', use send='update'")

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
