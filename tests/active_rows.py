"""The rows of a local solve in which every client takes part in every scenario."""

from __future__ import annotations

import numpy as np

from fedtheory.local.objective import Rows
from fedtheory.randomness import Stream


def rows_of(clients: int, points: int, round_index: int = 1, seed: int = 0) -> Rows:
    """Clients 0, 1, ... in the scenarios 0, 1, ...: (clients, points)."""
    shape = (clients, points)
    return Rows(np.arange(clients), np.broadcast_to(np.arange(points), shape), np.ones(shape, bool), Stream(seed), round_index)
