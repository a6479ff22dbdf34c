"""SCAFFOLD (Karimireddy et al. 2020, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

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
from fedtheory.algorithms.feedback import check_compressor, check_dimension, own_residuals, upload
from fedtheory.arrays import Array, namespace
from fedtheory.clients.clients import Clients
from fedtheory.inputs import check_flags
from fedtheory.local.exact import Exact
from fedtheory.local.objective import LocalObjective, LocalSolver

if TYPE_CHECKING:
    from fedtheory.messages import Compressor
    from fedtheory.problems.base import Problem

__all__ = ["CompressedScaffoldState", "Control", "Scaffold", "ScaffoldState", "check_messages", "exchange"]

Control = Literal["sent", "recovered"]


class ScaffoldState(NamedTuple):
    x: Array  # (S, d)
    c_k: Array  # the clients' control variates, the paper's c_i (S, N, d)
    c: Array  # the server's control variate, always the mean of the c_k (S, d)


class CompressedScaffoldState(NamedTuple):
    x: Array  # (S, d)
    c_k: Array  # (S, N, d)
    c: Array  # (S, d)
    residuals: Array | None  # what the compressor of the updates left out so far (S, N, d)


def check_messages(algorithm: Any) -> None:
    """Raise `InvalidInput` unless compressors and ``control`` of SCAFFOLD, or of a method like it, go together."""
    check_choice(algorithm, "control", ("sent", "recovered"))
    for field in ("compressor", "control_compressor"):
        check_compressor(algorithm, field)
    recovered, second = algorithm.control == "recovered", algorithm.control_compressor
    none_such = "with control='recovered' no such message is sent: leave it out"
    require(not recovered or second is None, "control_compressor", second, none_such)
    known = not recovered or algorithm.option == "difference"
    require(known, "control", algorithm.control, "the gradients of option='gradient' do not follow from the updates: use 'sent'")


def exchange(
    algorithm: Any, clients: Clients, residuals: Array | None, update: Array, c_k: Array, c: Array, new: Array | None, steps: Any
) -> tuple[Array, Array, Array, Array | None]:
    """Both messages of a round of SCAFFOLD.

    Parameters
    ----------
    update : of the local models (S, P, d)
    new : the control variates that the clients worked out; None where they follow from what arrives of the update
    steps : sum of the step sizes of the local steps, K eta_l, where ``new`` is None

    Returns
    -------
    tuple
        What arrives of the update and of the change of the control variates, the control variates afterwards, (S, P, d) each,
        and the residuals of the updates (S, N, d).
    """
    arrived, residuals = upload(clients, update, algorithm.compressor, residuals)
    if new is None:
        new = c_k - c - arrived / steps
        return arrived, new - c_k, new, residuals
    change = clients.send(new - c_k, algorithm.control_compressor)
    return arrived, change, new if algorithm.control_compressor is None else c_k + change, residuals


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
    compressor : Compressor or None
        Of the update y_k - x (send='update').
    client_feedback : bool
        What that compressor leaves out is added to the client's next update. False: it is lost.
    control : 'sent' or 'recovered'
        'sent' is line 13. 'recovered': the change of c_k is not sent. By option II it is -c - (y_k - x)/(K eta_l), which the server
        works out from the update that arrives, and the client does the same.
    control_compressor : Compressor or None
        Of the change of c_k. The client adds what arrives to its c_k, so that c stays the mean of the c_k, and what is left out
        is in the next change anyway: no residual is kept.

    Raises
    ------
    InvalidInput
        server_lr not a finite number > 0, unknown option, compressors that do not go with the other hyperparameters.
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
    compressor: Compressor | None = None
    client_feedback: bool = True
    control: Control = "sent"
    control_compressor: Compressor | None = None

    def __post_init__(self) -> None:
        check_flags(self)
        check_choice(self, "option", ("difference", "gradient"))
        check_number(self, "server_lr", "the server's step size eta_g", positive=True)
        check_choice(self, "send", ("update", "model"))
        check_messages(self)
        plain = self.compressor is None and self.control == "sent"
        require(plain or self.send == "update", "send", self.send, "with a compressor or control='recovered', use send='update'")

    def check(self, solver: LocalSolver) -> None:
        if self.option == "difference" and (isinstance(solver, Exact) or not solver.reports_steps):
            raise no_step_size(solver, *OPTION_2)

    def check_run(self, problem: Problem, rounds: int) -> None:
        check_dimension(problem, self.compressor, self.control_compressor)

    def init(self, x: Array, num_clients: int) -> ScaffoldState | CompressedScaffoldState:
        start = ScaffoldState(x, per_client(x, num_clients), namespace(x).zeros_like(x))
        if self.compressor is None:
            return start
        return CompressedScaffoldState(*start, own_residuals(x, num_clients, self.compressor, self.client_feedback))

    def round(self, state: ScaffoldState | CompressedScaffoldState, clients: Clients) -> ScaffoldState | CompressedScaffoldState:
        x, c = clients.broadcast(state.x), clients.broadcast(state.c)  # line 5
        c_k = clients.take(state.c_k)
        result = clients.minimise(LocalObjective(center=x, linear=c_k - c), start=x)  # lines 7-11
        y, steps, c_plus = result.y, None, None
        if self.option == "gradient":
            c_plus = clients.gradient(x)  # line 12 (i)
        else:
            steps = step_sum(clients, result.step_sum, *OPTION_2)
            c_plus = c_k - c + (x - y) / steps if self.control == "sent" else None  # line 12 (ii)
        residuals = getattr(state, "residuals", None)
        update = y - x if self.send == "update" else y
        dy, dc, c_plus, residuals = exchange(self, clients, residuals, update, c_k, c, c_plus, steps)  # line 13
        new = state._replace(
            x=state.x + self.server_lr * clients.mean(dy if self.send == "update" else y - x),  # lines 16-17
            c_k=clients.put(state.c_k, c_plus),  # line 14
            c=state.c + clients.sum(dc) / clients.num_clients,  # lines 16-17: |S|/N times the cohort's mean
        )
        return new._replace(residuals=residuals) if isinstance(new, CompressedScaffoldState) else new
