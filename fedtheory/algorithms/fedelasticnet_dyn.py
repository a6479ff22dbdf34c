"""FedElasticNet for FedDyn (Algorithm 3 of the FedElasticNet paper)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from fedtheory.algorithms.base import Algorithm, check_choice, check_number, per_client, require, threshold
from fedtheory.algorithms.feddyn import Stored
from fedtheory.arrays import Array, namespace
from fedtheory.clients.clients import Clients
from fedtheory.local.objective import LocalObjective

__all__ = ["FedElasticNetDyn", "FedElasticNetDynState"]


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
        How line 5 updates the stored gradient. 'sign', as printed: g - lambda_2 delta - lambda_1 sign(delta) with
        sign(0) = 0. 'true-gradient': grad L_k(theta_k), i.e. the same line with the subgradient s that satisfies (11).
    epsilon : float >= 0
        Threshold of section 3; the client applies it before lines 5 and 6, so that h stays the mean of what is stored.
    stored : 'own' or 'received'
        Line 5 takes the client's own delta, or what arrives of it where it is `Compressed`; as in `FedDyn`.

    Raises
    ------
    InvalidInput
        Hyperparameters out of range, unknown rule.

    Notes
    -----
    What is sent. Under the sign rule delta is enough: the server finds sign(delta) itself. Under the true-gradient rule
    it cannot find s, which is dense; the client sends v = g - grad L_k(theta_k) = lambda_2 delta + lambda_1 s, and the
    server recovers delta = soft(v, lambda_1)/lambda_2. That holds at the minimiser only, so when the local solver is
    inexact or epsilon moves the local model off the minimiser, delta is sent as well.

    Under the sign rule delta can be `Compressed`. ``up=Threshold(epsilon), feedback=False`` is section 3 read to the letter: what is
    *sent* is 0, and lines 11 and 12 go by it, while the client's line 5 goes by its own delta. ``up=Threshold(0)`` sends the
    nonzero entries with their places, and counts these bits.

    The method aims at the plain mean (1/m) sum_k L_k, whatever weights the problem carries.
    """

    name: ClassVar[str] = "fedelasticnet-dyn"
    source: ClassVar[str] = "FedElasticNet, Algorithm 3"
    compresses: ClassVar[tuple[str, ...]] = ("up",)

    l1: float  # lambda_1
    l2: float  # lambda_2
    rule: Literal["sign", "true-gradient"] = "sign"
    epsilon: float = 0.0
    stored: Stored = "own"

    def __post_init__(self) -> None:
        check_number(self, "l1", "lambda_1")
        check_number(self, "l2", "lambda_2", positive=True, why="the method divides by it")
        check_choice(self, "rule", ("sign", "true-gradient"))
        check_number(self, "epsilon", "the threshold")
        check_choice(self, "stored", ("own", "received"))

    @classmethod
    def usual_parameters(cls, scale: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"l1": 1, "l2": 2 * scale.L, "rule": "true-gradient"}

    def check_compressed(self, message: str) -> None:
        super().check_compressed(message)
        require(self.rule == "sign", "rule", self.rule, "what the true-gradient rule sends is not compressed: use rule='sign'")

    def init(self, x: Array, num_clients: int) -> FedElasticNetDynState:
        zeros = per_client(x, num_clients)
        return FedElasticNetDynState(x, zeros, namespace(x).zeros_like(x), zeros + x[:, None, :])

    def round(self, state: FedElasticNetDynState, clients: Clients) -> FedElasticNetDynState:
        theta = clients.broadcast(state.x)  # line 2
        stored = clients.take(state.stored)
        objective = LocalObjective(center=theta, linear=stored, curvature=self.l2, l1=self.l1)
        result = clients.minimise(objective, start=theta)  # line 4
        delta, y = clients.moved(result.y, theta), result.y
        if self.epsilon:
            delta = threshold(delta[...], self.epsilon)
            y = theta + delta
        if self.rule == "sign":
            arrived = clients.send(delta)  # line 6
            if arrived is not delta:  # not all of it
                return self._from_what_arrives(state, clients, stored, delta[...], arrived, y)
            # lines 5 and 9: stored - lambda_2 delta - lambda_1 sign(delta), put where it was
            memory, change = clients.dual_step(state.stored, stored, delta, self.l2, self.l1)
        else:
            new = clients.gradient(y)  # line 5 with the exact subgradient
            clients.send(stored - new)  # line 6: v
            if self.epsilon or result.residual is None:
                clients.send(delta)
            memory, change = clients.put(state.stored, new), clients.sum(new - stored)  # line 9
        h = state.h + change / clients.num_clients  # line 11
        return FedElasticNetDynState(
            x=clients.mean(y) - h / self.l2,  # line 12
            stored=memory,
            h=h,
            local=clients.put(state.local, y),
        )

    def _from_what_arrives(
        self, state: FedElasticNetDynState, clients: Clients, stored: Array, delta: Array, arrived: Array, y: Array
    ) -> FedElasticNetDynState:
        """The end of a round under compression: lines 11 and 12 go by what arrives of the deltas (S, P, d)."""

        def slope(moved: Array) -> Array:
            return self.l2 * moved + self.l1 * clients.xp.sign(moved)

        h = state.h - clients.sum(slope(arrived)) / clients.num_clients  # line 11
        new = stored - slope(delta if self.stored == "own" else arrived)  # line 5
        return FedElasticNetDynState(
            x=state.x + clients.mean(arrived) - h / self.l2,  # line 12
            stored=clients.put(state.stored, new),  # lines 5 and 9
            h=h,
            local=clients.put(state.local, y),
        )
