"""Clients and worlds of `fedtheory.theory` that the rounds need: imported where a round is made, as that takes longer than to
show a statement about it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.theory.rounds.declare import in_fractions
from fedtheory.theory.rounds.losses import SeparableLosses
from fedtheory.theory.rounds.oracles import ProblemWorld, SeparableWorld
from fedtheory.theory.rounds.rational_clients import SlotClients, SlotWork

__all__ = ["FractionClients", "ProblemWorld", "SeparableLosses", "SeparableWorld", "SlotWork", "in_fractions"]


class FractionClients(SlotClients):
    """Clients in fractions whose messages a deterministic compressor may touch; there are no bits of a fraction."""

    def _count(self, values: np.ndarray) -> Any:
        return values + Fraction(0)

    def _compress(self, message: Any, compressor: Any, senders: Any = None) -> Any:
        return compressor.compress(message) + Fraction(0), 0  # whole zeros among them would divide to floats
