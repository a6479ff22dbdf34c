"""FedElasticNet for SCAFFOLD (Algorithm 2 of the FedElasticNet paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from fedtheory.algorithms.base import (
    OPTION_2,
    Algorithm,
    check_choice,
    check_number,
    no_step_size,
    per_client,
    step_sum,
    threshold,
)
from fedtheory.algorithms.feedback import check_dimension, own_residuals
from fedtheory.algorithms.scaffold import Control, check_messages, exchange
from fedtheory.arrays import Array, namespace
from fedtheory.clients.clients import Clients
from fedtheory.inputs import check_flags
from fedtheory.local.exact import Exact
from fedtheory.local.objective import LocalObjective, LocalSolver

if TYPE_CHECKING:
    from fedtheory.messages import Compressor
    from fedtheory.problems.base import Problem

__all__ = ["CompressedElasticScaffoldState", "FedElasticNetScaffold", "FedElasticNetScaffoldState"]


class FedElasticNetScaffoldState(NamedTuple):
    x: Array  # theta (S, d)
    c_k: Array  # (S, N, d)
    c: Array  # always the mean of the c_k (S, d)


class CompressedElasticScaffoldState(NamedTuple):
    x: Array  # (S, d)
    c_k: Array  # (S, N, d)
    c: Array  # (S, d)
    residuals: Array | None  # what the compressor of the updates left out so far (S, N, d)


@dataclass(frozen=True)
class FedElasticNetScaffold(Algorithm):
    """FedElasticNet, Algorithm 2: SCAFFOLD with elastic net penalties on the update.

    Line 7 as printed steps along lambda_1 sign(theta_k - theta): that is the local solver's choice
    (``GradientSteps(..., l1='subgradient')``); a proximal step (``l1='prox'``) leaves exact zeros.

    Parameters
    ----------
    l1, l2 : float >= 0
        lambda_1 and lambda_2; section 3.2 allows lambda_2 = 0.
    option : 'difference' or 'gradient'
        'difference' is line 9 (it divides by B eta_l, so the local solver must have a step size, and by (7) the new
        control variate holds the mean penalty slope, too); 'gradient' is SCAFFOLD's option I, grad L_k(theta^{t-1}).
    server_lr : float > 0
        eta_g.
    epsilon : float >= 0
        Threshold of section 3 on the sent delta_k (line 10); line 9 comes before it and uses the local model as it is.
    compressor, client_feedback, control, control_compressor : as in `Scaffold`
        ``Threshold(0)`` sends the nonzero entries of delta_k with their places, and counts these bits.

    Raises
    ------
    InvalidInput
        Hyperparameters out of range, unknown names, compressors that do not go with the other hyperparameters.
    MissingCapability
        option='difference' with a local solver that takes no gradient steps (`Exact`).

    Notes
    -----
    The method aims at the plain mean (1/m) sum_k L_k, whatever weights the problem carries.
    """

    name: ClassVar[str] = "fedelasticnet-scaffold"
    source: ClassVar[str] = "FedElasticNet, Algorithm 2"

    l1: float  # lambda_1
    l2: float  # lambda_2
    option: Literal["difference", "gradient"] = "difference"
    server_lr: float = 1.0  # eta_g
    epsilon: float = 0.0
    compressor: Compressor | None = None
    client_feedback: bool = True
    control: Control = "sent"
    control_compressor: Compressor | None = None

    def __post_init__(self) -> None:
        check_flags(self)
        check_number(self, "l1", "lambda_1")
        check_number(self, "l2", "lambda_2")
        check_choice(self, "option", ("difference", "gradient"))
        check_number(self, "server_lr", "the global step size eta_g", positive=True)
        check_number(self, "epsilon", "the threshold")
        check_messages(self)

    def check(self, solver: LocalSolver) -> None:
        if self.option == "difference" and (isinstance(solver, Exact) or not solver.reports_steps):
            raise no_step_size(solver, *OPTION_2)

    def check_run(self, problem: Problem, rounds: int) -> None:
        check_dimension(problem, self.compressor, self.control_compressor)

    def init(self, x: Array, num_clients: int) -> FedElasticNetScaffoldState | CompressedElasticScaffoldState:
        start = FedElasticNetScaffoldState(x, per_client(x, num_clients), namespace(x).zeros_like(x))
        if self.compressor is None:
            return start
        return CompressedElasticScaffoldState(*start, own_residuals(x, num_clients, self.compressor, self.client_feedback))

    def round(
        self, state: FedElasticNetScaffoldState | CompressedElasticScaffoldState, clients: Clients
    ) -> FedElasticNetScaffoldState | CompressedElasticScaffoldState:
        theta, c = clients.broadcast(state.x), clients.broadcast(state.c)  # line 2
        c_k = clients.take(state.c_k)
        objective = LocalObjective(center=theta, linear=c_k - c, curvature=self.l2, l1=self.l1)
        result = clients.minimise(objective, start=theta)  # lines 4-8
        steps, new = None, None
        if self.option == "difference":
            steps = step_sum(clients, result.step_sum, *OPTION_2)
            new = c_k - c + (theta - result.y) / steps if self.control == "sent" else None  # line 9
        else:
            new = clients.gradient(theta)  # line 9 with SCAFFOLD's option I
        residuals, update = getattr(state, "residuals", None), threshold(result.y - theta, self.epsilon)
        delta, delta_c, new, residuals = exchange(self, clients, residuals, update, c_k, c, new, steps)  # line 10
        after = state._replace(
            x=state.x + self.server_lr * clients.mean(delta),  # line 12
            c_k=clients.put(state.c_k, new),
            c=state.c + clients.sum(delta_c) / clients.num_clients,  # line 13
        )
        return after._replace(residuals=residuals) if isinstance(after, CompressedElasticScaffoldState) else after
