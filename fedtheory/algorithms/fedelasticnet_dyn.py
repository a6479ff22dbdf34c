"""FedElasticNet for FedDyn (Algorithm 3 of the FedElasticNet paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from fedtheory.algorithms.base import Algorithm, finite, per_client, require
from fedtheory.arrays import Array, namespace
from fedtheory.clients import Clients
from fedtheory.local.objective import LocalObjective

__all__ = ["FedElasticNetDyn", "FedElasticNetDynState", "threshold"]


def threshold(delta: Array, epsilon: float) -> Array:
    """Entries with |delta| <= epsilon set to 0 (section 3 of the paper, before what is sent)."""
    if epsilon == 0.0:
        return delta
    xp = namespace(delta)
    return xp.where(xp.abs(delta) <= epsilon, xp.zeros_like(delta), delta)


class FedElasticNetDynState(NamedTuple):
    x: Array  # theta (S, d)
    stored: Array  # g_k, which the paper writes grad L_k(theta_k) (S, N, d)
    h: Array  # mean of the stored gradients (S, d)
    local: Array  # theta_k, each client's last local model (S, N, d)


@dataclass(frozen=True)
class FedElasticNetDyn(Algorithm):
    """FedElasticNet, Algorithm 3: FedDyn with an l1 penalty on the update.

    Parameters
    ----------
    l1, l2 : float
        lambda_1 >= 0 and lambda_2 > 0.
    rule : 'sign' or 'true-gradient'
        How line 5 updates the stored gradient. 'sign', as printed: g - lambda_2 delta - lambda_1 sign(delta) with sign(0) = 0.
        'true-gradient': grad L_k(theta_k), i.e. the same line with the subgradient that satisfies (11).
    epsilon : float
        Threshold of section 3; the client applies it before lines 5 and 6, so that h stays the mean of the stored gradients.
    """

    name: ClassVar[str] = "fedelasticnet-dyn"
    source: ClassVar[str] = "FedElasticNet, Algorithm 3"

    l1: float  # lambda_1
    l2: float  # lambda_2
    rule: Literal["sign", "true-gradient"] = "sign"
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        require(finite(self.l1) and self.l1 >= 0, "l1", self.l1, "lambda_1 must be a finite number >= 0")
        require(finite(self.l2) and self.l2 > 0, "l2", self.l2, "the method divides by lambda_2: it must be > 0")
        require(self.rule in ("sign", "true-gradient"), "rule", self.rule, "use 'sign' or 'true-gradient'")
        require(finite(self.epsilon) and self.epsilon >= 0, "epsilon", self.epsilon, "it must be a finite number >= 0")

    def init(self, x: Array, num_clients: int) -> FedElasticNetDynState:
        zeros = per_client(x, num_clients)
        return FedElasticNetDynState(x, zeros, namespace(x).zeros_like(x), zeros + x[:, None, :])

    def round(self, state: FedElasticNetDynState, clients: Clients) -> FedElasticNetDynState:
        theta = clients.broadcast(state.x)  # line 2
        stored = clients.take(state.stored)
        objective = LocalObjective(center=theta, linear=stored, curvature=self.l2, l1=self.l1)
        y = clients.minimise(objective, start=theta).y  # line 4
        sent = threshold(y - theta, self.epsilon)
        if self.epsilon:
            y = theta + sent
        if self.rule == "sign":
            new = stored - self.l2 * sent - self.l1 * clients.xp.sign(sent)  # line 5
        else:
            new = clients.gradient(y)  # line 5 with the exact subgradient
        clients.send(sent)  # line 6
        h = state.h + clients.sum(new - stored) / clients.num_clients  # line 11
        return FedElasticNetDynState(
            x=clients.mean(y) - h / self.l2,  # line 12
            stored=clients.put(state.stored, new),  # lines 5 and 9
            h=h,
            local=clients.put(state.local, y),
        )
