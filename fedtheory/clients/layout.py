"""Slots (S, P, d), scenario by cohort member, and rows (N, B, d), client by row: where each entry of one lies in the other.

Algorithms work in slots. Problems and local solvers work in rows, so that every kernel is one batched matrix product whatever
the cohort. A dense cohort has a slot for each client and is only transposed; of a gathered one, each client has as many rows as
it has slots over all scenarios, padded to the largest number.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np

from fedtheory.arrays import Array, astype_like, broadcast_to, is_numpy, namespace, sealed
from fedtheory.clients.moves import dual_step, put_rows, take_rows
from fedtheory.clients.pieces import Moved, rows_in_order, weighted_sum
from fedtheory.participation.cohorts import Cohort

__all__ = ["Layout"]


@lru_cache(maxsize=64)
def _one_row_each(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows of one scenario: row -> slot (P, 1), valid (P, 1), slot -> row (P,), scenario (P, 1)."""
    rows = np.arange(count)
    valid, scenario = np.ones((count, 1), dtype=bool), np.zeros((count, 1), dtype=rows.dtype)
    return cast(Any, sealed((rows[:, None], valid, rows, scenario)))


class Layout:
    """Where the slots of one cohort lie among the clients' rows.

    Parameters
    ----------
    cohort : Cohort
    like : array
        Decides namespace, dtype and device.
    """

    def __init__(self, cohort: Cohort, like: Array) -> None:
        self.cohort, self._like, self.xp = cohort, like, namespace(like)
        self._slots, self._shape = cohort.slots, (cohort.scenarios, cohort.slots)
        # rows and slots of a gathered cohort of one scenario are the same numbers in the same order
        self._one = cohort.members is not None and self._shape[0] == 1
        if cohort.members is not None and self._one:
            self._gathered = cohort.members[0], *_one_row_each(self._slots)[:3]
        if is_numpy(like):
            self._members = cohort.members

    # --- slots <-> a memory of every client ---------------------------------------------------------------------------
    @cached_property
    def _members(self) -> Array:
        return astype_like(self.cohort.members, self._like)

    @cached_property
    def _mask(self) -> Array:
        return self.xp.astype(astype_like(self.cohort.dense_mask.astype(float)[:, :, None], self._like), self._like.dtype)

    def take(self, memory: Array) -> Array:
        """The cohort's rows of a per-client memory: (S, N, d) -> (S, P, d)."""
        return memory if self.cohort.members is None else take_rows(memory, self._members)

    def put(self, memory: Array, values: Array, in_place: bool) -> Array:
        """Memory (S, N, d) with the cohort's rows replaced by values (S, P, d)."""
        if self.cohort.members is None:
            return self.xp.where(self._mask > 0, values, memory)
        return put_rows(memory, self._members, values, in_place)

    def dual_step(
        self, memory: Array, duals: Array, moved: Moved, l2: float, l1: float, in_place: bool
    ) -> tuple[Array, Array] | None:
        """As `Clients.dual_step`; None where it is not compiled."""
        return None if self.cohort.members is None else dual_step(memory, self._members, duals, moved, l2, l1, in_place)

    def sum(self, values: Array, weights: Array | None = None) -> Array:
        """Sum over the cohort, weighted by (S, P, 1) where there are weights: (S, P, d) -> (S, d)."""
        if rows_in_order(values):
            return weighted_sum(values, weights, self.cohort.partial_mask)
        values = values if weights is None else weights * values
        if self.cohort.partial_mask is not None:
            # chosen, not multiplied: outside the cohort there may be infinities
            values = self.xp.where(self._mask > 0, values, self.xp.zeros_like(values))
        return self.xp.sum(values, axis=1)

    def of_slots(self, per_client: np.ndarray) -> Array:
        """One number of each client (N,), as that of each slot, 0 outside the cohort: (S, P, 1)."""
        members = self.cohort.members
        host = per_client[members] if members is not None else per_client * self.cohort.dense_mask
        return astype_like(np.ascontiguousarray(host[:, :, None]), self._like)

    # --- slots <-> rows -----------------------------------------------------------------------------------------------
    @cached_property
    def _gathered(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """clients (U,), row -> flat slot (U, B), valid (U, B), flat slot -> flat row (S*P,) of the gathered layout."""
        flat, num_clients = cast(np.ndarray, self.cohort.members).ravel(), self.cohort.num_clients
        small = flat.astype(np.int16 if num_clients < 2**15 else np.int64)
        order = np.argsort(small, kind="stable")  # a radix sort for 16 bits
        counts = np.bincount(flat, minlength=num_clients)
        clients = np.nonzero(counts)[0]
        counts = counts[clients]
        starts = np.cumsum(counts) - counts
        width = int(counts.max())
        row = np.repeat(np.arange(len(clients)), counts)  # in sorted order
        column = np.arange(flat.size) - starts[row]
        slot_of_row = np.repeat(order[starts][:, None], width, axis=1)  # padding repeats the client's first slot
        slot_of_row[row, column] = order
        row_of_slot = np.empty(flat.size, dtype=np.int64)
        row_of_slot[order] = row * width + column
        return clients, slot_of_row, np.arange(width) < counts[:, None], row_of_slot

    @property
    def clients(self) -> np.ndarray:
        """The clients that have rows (U,), in increasing order."""
        return np.arange(self.cohort.num_clients) if self.cohort.members is None else self._gathered[0]

    @property
    def valid(self) -> np.ndarray:
        """(U, B) False for padding, and for a client outside the cohort."""
        return self.cohort.dense_mask.T if self.cohort.members is None else self._gathered[2]

    def slot_of_row(self) -> np.ndarray | None:
        """The flat slot of each row (U, B), where rows are gathered from the slots of several scenarios in main memory."""
        return self._gathered[1] if self.cohort.members is not None and not self._one and is_numpy(self._like) else None

    def scenario_of_row(self) -> np.ndarray:
        """The scenario, 0 to S - 1, of each row: (U, B)."""
        if self.cohort.members is None:
            return broadcast_to(np.arange(self.cohort.scenarios)[None, :], (self.cohort.num_clients, self.cohort.scenarios))
        if self._one:
            return _one_row_each(self._slots)[3]
        return self._gathered[1] // self._slots

    @cached_property
    def _index(self) -> tuple[Array, Array]:
        _, slot_of_row, _, row_of_slot = self._gathered
        return astype_like(slot_of_row.ravel(), self._like), astype_like(row_of_slot, self._like)

    def to_rows(self, values: Array) -> Array:
        """(S, P, d), or what broadcasts to it, -> (U, B, d)."""
        xp, width = self.xp, values.shape[-1]
        shape = (*self._shape, width)
        model = is_numpy(values) and self.cohort.members is not None and values.ndim == 3 and values.strides[1] == 0
        if model and not self._one:  # the server's model: no copy for each slot first
            return broadcast_to(values, shape)[:, 0].take(self.scenario_of_row(), axis=0)
        values = values if values.shape == shape else xp.broadcast_to(values, shape)
        if self._one:
            rows = xp.reshape(values, (self._slots, 1, width))
            return rows.copy() if model else rows
        if self.cohort.members is None:
            return xp.permute_dims(values, (1, 0, 2))
        rows = xp.take(xp.reshape(values, (-1, width)), self._index[0], axis=0)
        return xp.reshape(rows, (*self._gathered[1].shape, width))

    def to_slots(self, rows: Array) -> Array:
        """(U, B, d) -> (S, P, d); padding is left out."""
        xp, shape = self.xp, (*self._shape, rows.shape[-1])
        if self._one:
            return xp.reshape(rows, shape)
        if self.cohort.members is None:
            return xp.permute_dims(rows, (1, 0, 2))
        flat = xp.take(xp.reshape(rows, (-1, shape[-1])), self._index[1], axis=0)
        return xp.reshape(flat, shape)
