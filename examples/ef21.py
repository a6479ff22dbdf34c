"""EF21, a method whose compressed messages correct what the server knows of the gradients.

Every client keeps g_k, which the server knows, too, and sends what a compressor C leaves of
grad f_k(x+) - g_k:

    x+ = x - gamma mean(g_k),    g_k+ = g_k + C(grad f_k(x+) - g_k)

(Richtarik, Sokolov and Fatkhullin, EF21, NeurIPS 2021, Algorithm 2, from g_k = 0.) With a
contraction its worst case is that of every compressor with
E||C(m) - m||^2 <= (1 - delta) ||m||^2:

    fedtheory worst-case examples/ef21.py:EF21 --rounds 3 --given gamma=1/4 --given contraction=1/2

With one of `fedtheory.messages` it runs: Compressed(EF21(gamma=0.25), up=TopK(q=0.1)).
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from fedtheory.algorithms.base import Algorithm, per_client


class EF21State(NamedTuple):
    x: np.ndarray  # the server's model (S, d)
    g_k: np.ndarray  # what the server knows of the clients' gradients (S, N, d)


@dataclass(frozen=True)
class EF21(Algorithm):
    """x+ = x - gamma mean(g_k), g_k+ = g_k + C(grad f_k(x+) - g_k)."""

    gamma: float
    name = "ef21"
    compresses: ClassVar[tuple[str, ...]] = ("up",)
    error_feedback: ClassVar[bool] = False  # what is left out is in the next message anyway

    def init(self, x, num_clients):
        return EF21State(x, per_client(x, num_clients))

    def round(self, state, clients):
        known = clients.take(state.g_k)
        x = state.x - self.gamma * clients.mean(known)
        g_k = known + clients.send(clients.gradient(clients.broadcast(x)) - known)
        return EF21State(x, clients.put(state.g_k, g_k))
