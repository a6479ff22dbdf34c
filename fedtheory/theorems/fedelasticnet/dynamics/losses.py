"""Losses a coordinate at a time, as files have them, and clients that take part on them where slopes may jump."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver
from fedtheory.rational import fraction, to_file
from fedtheory.theory.rounds.losses import PieceTable, SeparableLosses
from fedtheory.theory.rounds.oracles import everyone
from fedtheory.theory.rounds.rational_clients import SlotClients, SlotWork
from fedtheory.theory.rounds.slopes import Piece

__all__ = ["Everyone", "Rows", "in_file", "piece_of", "rows_of"]

_NUMBERS = ("slope", "curvature", "centre")
_FIELDS = (*_NUMBERS, "ramps")
Rows = Sequence[Sequence[Piece]]


def piece_of(data: Any, name: str) -> Piece:
    """A loss from a witness file.

    Raises
    ------
    InvalidInput
        Unknown fields, numbers that are no fractions, a negative curvature, a ramp that falls or ends before it begins.
    """
    if not isinstance(data, dict) or set(data) - set(_FIELDS):
        raise InvalidInput(f"{name} = {data!r}: expected some of the fields {', '.join(_FIELDS)}")
    slope, curvature, centre = (fraction(data.get(k, 0), f"{name}.{k}") for k in _NUMBERS)
    rows = data.get("ramps", [])
    if not isinstance(rows, list) or not all(isinstance(r, list) and len(r) == 3 for r in rows):
        raise InvalidInput(f"{name}.ramps = {rows!r}: expected rows of three fractions [p, q, G]")
    ramps = tuple(tuple(fraction(v, f"{name}.ramps[{i}]") for v in row) for i, row in enumerate(rows))
    if curvature < 0:
        raise InvalidInput(f"{name}.curvature = {curvature}: it must be >= 0, or the loss is not convex")
    for p, q, g in ramps:
        if not (p <= q and g > 0):
            raise InvalidInput(f"{name}.ramps: [{p}, {q}, {g}]: expected p <= q and G > 0, or the loss is not convex")
    return Piece(slope, curvature, centre, ramps)  # type: ignore[arg-type]


def rows_of(name: str, value: Any, before: Any = None) -> list[list[Piece]]:
    """Read rows of losses, a client each, all of one length."""
    rows = value if isinstance(value, list) else []
    lengths = {len(row) if isinstance(row, list) else 0 for row in rows}
    if len(lengths) != 1 or 0 in lengths:
        raise InvalidInput(
            f"{name} = {value!r}: expected a row a client, all of one length, with a loss a "
            "coordinate"
        )
    return [
        [piece_of(p, f"{name}[{k}][{i}]") for i, p in enumerate(row)] for k, row in enumerate(rows)
    ]


def in_file(piece: Piece) -> dict[str, Any]:
    """A loss as a witness holds it: what is 0 is left out."""
    return {k: to_file(v) for k in _FIELDS if (v := getattr(piece, k))}


class Everyone(SlotClients):
    """The clients of a round in which all take part, of models (S, d), with exact local models.

    Where a slope jumps, a client's gradient at its local model is the one of its minimum.
    """

    pieces: PieceTable

    def __init__(self, losses: SeparableLosses, like: Any) -> None:
        super().__init__(losses, everyone(losses.num_clients, len(like)), SlotWork(), like)

    def minimise(
        self, objective: LocalObjective, start: Any, solver: LocalSolver | None = None
    ) -> LocalResult:
        """Minimise exactly, and keep the gradient that stationarity leaves."""
        found = super().minimise(objective, start, solver)
        moved = found.y - objective.center
        self.wanted = objective.linear - objective.curvature * moved - objective.l1 * np.sign(moved)
        return found

    def gradient(self, y: Any) -> Any:
        """The subgradients at the local models."""
        return self.pieces.nearest(y, self.wanted)
