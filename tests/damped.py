"""A method of one's own, as the text of a file that declares it."""

from __future__ import annotations

DAMPED = '''
from dataclasses import dataclass
from typing import NamedTuple

from fedtheory.local import LocalObjective


class State(NamedTuple):
    x: object


@dataclass(frozen=True)
class Damped:
    alpha: float = 1.0
    sign: float = 1
    name = "damped"

    def init(self, x, num_clients):
        return State(x)

    def round(self, state, clients):
        x = clients.broadcast(state.x)
        y = clients.minimise(LocalObjective(center=x), start=x).y
        clients.send(y - x)
        return State(state.x + self.sign * self.alpha * clients.mean(y - x))


'''
