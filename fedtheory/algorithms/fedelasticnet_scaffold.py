"""FedElasticNet for SCAFFOLD (Algorithm 2 of the FedElasticNet paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from fedtheory.algorithms.base import OPTION_2, check_number, step_sum, threshold
from fedtheory.algorithms.scaffold import Control, ControlVariates, ScaffoldState, exchange
from fedtheory.clients.clients import Clients
from fedtheory.local.objective import LocalObjective

__all__ = ["FedElasticNetScaffold", "FedElasticNetScaffoldState"]


FedElasticNetScaffoldState = ScaffoldState


@dataclass(frozen=True)
class FedElasticNetScaffold(ControlVariates):
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
    control, initial : as in `Scaffold`

    Raises
    ------
    InvalidInput
        Hyperparameters out of range, unknown names, control='recovered' with another option.
    MissingCapability
        option='difference' with a local solver that takes no gradient steps (`Exact`).

    Notes
    -----
    The method aims at the plain mean (1/m) sum_k L_k, whatever weights the problem carries. ``Compressed(..., up=Threshold(0))``
    sends the nonzero entries of delta_k with their places, and counts these bits.
    """

    name: ClassVar[str] = "fedelasticnet-scaffold"
    source: ClassVar[str] = "FedElasticNet, Algorithm 2"
    compresses: ClassVar[tuple[str, ...]] = ("up", "control", "down")

    l1: float  # lambda_1
    l2: float  # lambda_2
    option: Literal["difference", "gradient"] = "difference"
    server_lr: float = 1.0  # eta_g
    epsilon: float = 0.0
    control: Control = "sent"
    initial: Literal["zero", "gradient"] | float = "zero"

    def __post_init__(self) -> None:
        check_number(self, "l1", "lambda_1")
        check_number(self, "l2", "lambda_2")
        self.check_options()
        check_number(self, "server_lr", "the global step size eta_g", positive=True)
        check_number(self, "epsilon", "the threshold")

    def round(self, state: FedElasticNetScaffoldState, clients: Clients) -> FedElasticNetScaffoldState:
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
        update = threshold(result.y - theta, self.epsilon)
        delta, delta_c, new = exchange(clients, update, c_k, c, new, steps)  # line 10
        return FedElasticNetScaffoldState(
            x=state.x + clients.send_down(self.server_lr * clients.mean(delta)),  # line 12
            c_k=clients.put(state.c_k, new),
            c=state.c + clients.sum(delta_c) / clients.num_clients,  # line 13
        )
