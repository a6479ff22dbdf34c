"""A method of one's own: FedAvg with momentum of the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from fedtheory.algorithms import FedAvg
from fedtheory.arrays import namespace
from fedtheory.local.objective import LocalObjective

__all__ = ["Heavy"]


class HeavyState(NamedTuple):
    x: Any
    m: Any


@dataclass(frozen=True)
class Heavy(FedAvg):
    """FedAvg with server momentum."""

    name: ClassVar[str] = "heavy"

    beta: float = 0.5

    def init(self, x: Any, num_clients: int) -> Any:
        return HeavyState(x, namespace(x).zeros_like(x))

    def round(self, state: Any, clients: Any) -> Any:
        w = clients.broadcast(state.x)
        y = clients.minimise(LocalObjective(center=w), start=w).y
        m = self.beta * state.m + clients.mean(clients.send(y) - w)
        return HeavyState(state.x + m, m)
