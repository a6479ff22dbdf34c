"""The cohort's rows of a memory of every client, taken and put: in one compiled pass where they are many.

A processor cannot guess where the next client's row lies, and NumPy waits for each: compiled loops ask for it some rows ahead. What has
no such rows is left to NumPy, which says so; a compiled loop would go on. The numbers are the same to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.arrays import Array, Memory, is_numpy, memory_of, put_slots, take_slots
from fedtheory.clients.kernels import loops
from fedtheory.clients.pieces import Moved, worth

__all__ = ["difference", "dual_step", "put_rows", "take_rows"]

FEW = 2**14  # numbers that NumPy moves as fast


def take_rows(memory: Array, members: Array) -> Array:
    """`take_slots`: memory (S, N, d) and members (S, P) -> (S, P, d)."""
    rows = _rows(memory, members)
    lie = None if rows is None else memory_of(memory)
    if lie is None:
        return take_slots(memory, members)
    out = np.empty((*members.shape, memory.shape[2]))
    loops().move(out.ravel(), np.arange(0, out.size, out.shape[2]), lie.numbers, rows, out.shape[2])
    return out


def put_rows(memory: Array, members: Array, values: Array, in_place: bool) -> Array:
    """`put_slots`: memory (S, N, d) with the rows of members (S, P) replaced by values (S, P, d)."""
    rows = _rows(memory, members, in_place)
    places = None if rows is None else _places(members, values)
    if places is None:
        return put_slots(memory, members, values, in_place)
    out = memory if in_place else memory.copy()
    loops().move(out.ravel(), rows, *places[0], out.shape[2])
    return out


def difference(y: Array, start: Array) -> Any:
    """As `Clients.moved`."""
    compiled = is_numpy(y) and y.dtype == np.float64 and worth(y.size, FEW)
    return Moved(y, start) if compiled else y - start


def dual_step(
    memory: Array, members: Array, duals: Array, moved: Moved, l2: float, l1: float, in_place: bool
) -> tuple[Array, Array] | None:
    """As `Clients.dual_step`; None where it is not compiled."""
    rows = _rows(memory, members, in_place)
    places = None if rows is None else _places(members, duals, moved.y, moved.start)
    if places is None:
        return None
    out = memory if in_place else memory.copy()
    change = np.zeros((len(members), out.shape[2]))
    loops().dual_step(out.ravel(), rows, places, float(l2), float(l1), change)
    return out, change


def _rows(memory: Array, members: Array, written: bool = False) -> np.ndarray | None:
    """Where the rows of members (S, P) begin in a memory (S, N, d) that compiled loops are for; None for any other."""
    if not (is_numpy(memory) and memory.ndim == 3 and memory.dtype == np.float64 and memory.flags.c_contiguous):
        return None
    if written and not memory.flags.writeable:
        return None
    scenarios, clients, dim = memory.shape
    there = len(members) == scenarios and 0 <= members.min() and members.max() < clients
    if not there or not worth(members.size * dim, FEW):
        return None
    return Memory(memory, clients * dim, dim).begin(np.arange(scenarios)[:, None], members).ravel()


def _places(members: Array, *values: Array) -> tuple[tuple[np.ndarray, np.ndarray], ...] | None:
    """The numbers of some arrays (S, P, d) as they lie, and where in them each row begins; None where one is none of these."""
    views = [memory_of(v) if v.shape == (*members.shape, v.shape[-1]) else None for v in values]
    first, slots = np.arange(len(members))[:, None], np.arange(members.shape[1])
    found = tuple((v.numbers, v.begin(first, slots).ravel()) for v in views if v is not None)
    return found if len(found) == len(views) else None
