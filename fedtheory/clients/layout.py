"""Slots (S, P, d), scenario by cohort member, and rows (N, B, d), client by row: where each entry of one lies in the other.

Algorithms work in slots. Problems and local solvers work in rows, so that every kernel is one batched matrix product whatever
the cohort. A dense cohort has a slot for each client and is only transposed; of a gathered one, each client has as many rows as
it has slots over all scenarios, padded to the largest number. Of a gathered cohort of one scenario, rows and slots are the same
numbers in the same order.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np

from fedtheory.arrays import Array, astype_like, broadcast_to, is_numpy, namespace, sealed
from fedtheory.clients.moves import dual_step, put_rows, take_rows
from fedtheory.clients.pieces import Moved, rows_in_order, weighted_sum
from fedtheory.participation.cohorts import Cohort

__all__ = ["Layout", "layout_of"]


def layout_of(cohort: Cohort, like: Array) -> Layout:
    """The layout of a cohort, for arrays of like's namespace, dtype and device."""
    if cohort.members is None:
        return Layout(cohort, like)
    return (OneScenario if len(cohort.members) == 1 else Gathered)(cohort, like)


@lru_cache(maxsize=64)
def _numbers(count: int) -> np.ndarray:
    return cast(np.ndarray, sealed(np.arange(count)))


@lru_cache(maxsize=64, typed=True)
def _column(count: int, value: int | bool) -> np.ndarray:
    return cast(np.ndarray, sealed(np.full((count, 1), value)))


class Layout:
    """The slots of one cohort among the clients' rows: of a dense cohort row s of client k is its slot.

    Parameters
    ----------
    cohort : Cohort
    like : array
        Decides namespace, dtype and device.
    """

    def __init__(self, cohort: Cohort, like: Array) -> None:
        self.cohort, self._like, self.xp = cohort, like, namespace(like)

    # --- slots <-> a memory of every client -------------------------------------------------------
    @cached_property
    def _mask(self) -> Array:
        return self.xp.astype(astype_like(self.cohort.dense_mask.astype(float)[:, :, None], self._like), self._like.dtype)

    def take(self, memory: Array) -> Array:
        """The cohort's rows of a per-client memory: (S, N, d) -> (S, P, d)."""
        return memory

    def put(self, memory: Array, values: Array, in_place: bool) -> Array:
        """Memory (S, N, d) with the cohort's rows replaced by values (S, P, d)."""
        return self.xp.where(self._mask > 0, values, memory)

    def dual_step(
        self, memory: Array, duals: Array, moved: Moved, l2: float, l1: float, in_place: bool
    ) -> tuple[Array, Array] | None:
        """As `Clients.dual_step`; None where it is not compiled."""
        return None

    def sum(self, values: Array, weights: Array | None = None) -> Array:
        """Sum over the cohort, weighted by (S, P, 1) where there are weights: (S, P, d) -> (S, d)."""
        mask = self.cohort.partial_mask
        if rows_in_order(values):
            return weighted_sum(values, weights, mask)
        values = values if weights is None else weights * values
        if mask is not None:
            # chosen, not multiplied: outside the cohort there may be infinities
            values = self.xp.where(self._mask > 0, values, self.xp.zeros_like(values))
        return self.xp.sum(values, axis=1)

    def of_slots(self, per_client: np.ndarray) -> Array:
        """One number of each client (N,), as that of each slot, 0 outside the cohort: (S, P, 1)."""
        return self._of_host(per_client * self.cohort.dense_mask)

    def _of_host(self, numbers: np.ndarray) -> Array:
        return astype_like(np.ascontiguousarray(numbers[:, :, None]), self._like)

    # --- slots <-> rows ---------------------------------------------------------------------------
    @property
    def clients(self) -> np.ndarray:
        """The clients that have rows (U,), in increasing order."""
        return _numbers(self.cohort.num_clients)

    @property
    def valid(self) -> np.ndarray:
        """(U, B) False for padding, and for a client outside the cohort."""
        return self.cohort.dense_mask.T

    def slot_of_row(self) -> np.ndarray | None:
        """The flat slot of each row (U, B), where rows are gathered from the slots of several scenarios in main memory."""
        return None

    def scenario_of_row(self, scenarios: range) -> np.ndarray:
        """The scenario of each row, one of those (S,) of the slots: (U, B)."""
        numbers = np.arange(scenarios.start, scenarios.stop, scenarios.step)[None, :]
        return broadcast_to(numbers, (self.cohort.num_clients, len(scenarios)))

    def _broadcast(self, values: Array) -> Array:
        """Broadcast to (S, P, d)."""
        shape = self.cohort.scenarios, self.cohort.slots, values.shape[-1]
        return values if values.shape == shape else self.xp.broadcast_to(values, shape)

    def to_rows(self, values: Array) -> Array:
        """(S, P, d), or what broadcasts to it, -> (U, B, d)."""
        return self.xp.permute_dims(self._broadcast(values), (1, 0, 2))

    def to_slots(self, rows: Array) -> Array:
        """(U, B, d) -> (S, P, d); padding is left out."""
        return self.xp.permute_dims(rows, (1, 0, 2))


class Gathered(Layout):
    """The layout of a gathered cohort: a client's rows are its slots, scenario by scenario."""

    def __init__(self, cohort: Cohort, like: Array) -> None:
        super().__init__(cohort, like)
        self._members = cohort.members if is_numpy(like) else astype_like(cohort.members, like)

    def take(self, memory: Array) -> Array:
        return take_rows(memory, self._members)

    def put(self, memory: Array, values: Array, in_place: bool) -> Array:
        return put_rows(memory, self._members, values, in_place)

    def dual_step(
        self, memory: Array, duals: Array, moved: Moved, l2: float, l1: float, in_place: bool
    ) -> tuple[Array, Array] | None:
        return dual_step(memory, self._members, duals, moved, l2, l1, in_place)

    def sum(self, values: Array, weights: Array | None = None) -> Array:
        if rows_in_order(values):
            return weighted_sum(values, weights, None)
        return self.xp.sum(values if weights is None else weights * values, axis=1)

    def of_slots(self, per_client: np.ndarray) -> Array:
        return self._of_host(per_client[self.cohort.members])

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
        return self._gathered[0]

    @property
    def valid(self) -> np.ndarray:
        return self._gathered[2]

    def slot_of_row(self) -> np.ndarray | None:
        return self._gathered[1] if is_numpy(self._like) else None

    def scenario_of_row(self, scenarios: range) -> np.ndarray:
        own = self._gathered[1] // self.cohort.slots
        return own + scenarios.start if scenarios.step == 1 else np.asarray(scenarios)[own]

    @cached_property
    def _index(self) -> tuple[Array, Array]:
        _, slot_of_row, _, row_of_slot = self._gathered
        return astype_like(slot_of_row.ravel(), self._like), astype_like(row_of_slot, self._like)

    def to_rows(self, values: Array) -> Array:
        xp, width = self.xp, values.shape[-1]
        if _is_model(values):  # no copy for each slot first
            return self._broadcast(values)[:, 0].take(self.scenario_of_row(range(self.cohort.scenarios)), axis=0)
        rows = xp.take(xp.reshape(self._broadcast(values), (-1, width)), self._index[0], axis=0)
        return xp.reshape(rows, (*self._gathered[1].shape, width))

    def to_slots(self, rows: Array) -> Array:
        xp, width = self.xp, rows.shape[-1]
        flat = xp.take(xp.reshape(rows, (-1, width)), self._index[1], axis=0)
        return xp.reshape(flat, (self.cohort.scenarios, self.cohort.slots, width))


class OneScenario(Gathered):
    """The layout of a gathered cohort of one scenario: its slots are its rows."""

    @property
    def clients(self) -> np.ndarray:
        members: Any = self.cohort.members
        return members[0]

    @property
    def valid(self) -> np.ndarray:
        return _column(self.cohort.slots, True)

    def slot_of_row(self) -> np.ndarray | None:
        return None

    def scenario_of_row(self, scenarios: range) -> np.ndarray:
        return _column(self.cohort.slots, scenarios[0])

    def to_rows(self, values: Array) -> Array:
        rows = self._broadcast(values)[0, :, None, :]
        return rows.copy() if _is_model(values) else rows

    def to_slots(self, rows: Array) -> Array:
        return rows[None, :, 0, :]


def _is_model(values: Array) -> bool:
    """True if the slots of a scenario share one model in memory, as those of the server's do."""
    return is_numpy(values) and values.ndim == 3 and values.strides[1] == 0
