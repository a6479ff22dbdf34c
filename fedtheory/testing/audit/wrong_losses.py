"""Clients whose gradient is that of another loss: what comes about where an adapter works losses out for itself."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtheory.testing.audit.clients import Client

__all__ = ["LOSSES", "mistaken"]

LOSSES = ("squared-without-half", "examples-summed", "ridge-none", "squared-for-logistic", "gradient-sign")


@dataclass(frozen=True, eq=False)
class _Mistaken(Client):
    """``how``: names of `LOSSES`."""

    how: frozenset[str] = frozenset()

    def gradient(self, x: Any, rows: Any = slice(None)) -> np.ndarray:
        x = np.asarray(x, dtype=float)
        squared = self.loss == "squared" or "squared-for-logistic" in self.how
        found = Client(self.features, self.labels, "squared" if squared else "logistic").gradient(x, rows)
        if squared and "squared-without-half" in self.how:
            found = 2 * found
        if "examples-summed" in self.how:
            found = len(self.labels[rows]) * found
        if "ridge-none" not in self.how:
            found = found + self.ridge * x
        return -found if "gradient-sign" in self.how else found


def mistaken(clients: tuple[Client, ...], wrong: Collection[str]) -> tuple[Client, ...]:
    """The clients as they are, or with the losses that these mistakes make of theirs."""
    how = frozenset(wrong) & frozenset(LOSSES)
    return tuple(_Mistaken(c.features, c.labels, c.loss, c.ridge, how) for c in clients) if how else clients
