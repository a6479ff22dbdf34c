"""The cohort's rows of a memory of every client, taken and put: in one compiled pass where they are many.

A processor cannot guess where the next client's row lies, and NumPy waits for each: compiled loops ask for it some rows ahead. What has
no such rows is left to NumPy, which says so; a compiled loop would go on. The numbers are the same to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.arrays import Array, is_numpy, memory_of, put_slots, take_slots
from fedtheory.clients.pieces import Moved, loops, worth

__all__ = ["difference", "dual_step", "put_rows", "take_rows"]

FEW = 2**14  # numbers that NumPy moves as fast


def take_rows(memory: Array, members: Array) -> Array:
    """`take_slots`: memory (S, N, d) and members (S, P) -> (S, P, d)."""
    lie = _lying(memory) if _is_worth(memory, members) else None
    if lie is None:
        return take_slots(memory, members)
    out = np.empty((*members.shape, memory.shape[2]))
    loops().take(out, *lie, members)
    return out


def put_rows(memory: Array, members: Array, values: Array, in_place: bool) -> Array:
    """`put_slots`: memory (S, N, d) with the rows of members (S, P) replaced by values (S, P, d)."""
    lie = _lying(values) if _is_worth(memory, members, in_place, values) else None
    if lie is None:
        return put_slots(memory, members, values, in_place)
    out = memory if in_place else memory.copy()
    loops().put(out, members, *lie)
    return out


def difference(y: Array, start: Array) -> Any:
    """As `Clients.moved`."""
    if is_numpy(y) and y.size >= FEW and y.dtype == np.float64 and worth(y.size, FEW):
        return Moved(y, start)
    return y - start


def dual_step(
    memory: Array, members: Array, duals: Array, moved: Moved, l2: float, l1: float, in_place: bool
) -> tuple[Array, Array] | None:
    """As `Clients.dual_step`; None where it is not compiled."""
    values = duals, moved.y, moved.start
    lie = [_lying(v) for v in values] if _is_worth(memory, members, in_place, *values) else [None]
    if None in lie:
        return None
    out, change = memory if in_place else memory.copy(), np.zeros((len(members), memory.shape[2]))
    loops().dual_step(out, members, *lie, float(l2), float(l1), change)
    return out, change


def _is_worth(memory: Array, members: Array, written: bool = False, *values: Array) -> bool:
    """True if compiled loops are for a memory (S, N, d), which has the rows of members (S, P), and may be written, where it is; and for
    arrays of the shape (S, P, d)."""
    if not is_numpy(memory) or memory.ndim != 3 or members.size * memory.shape[2] < FEW:
        return False
    if memory.dtype != np.float64 or not memory.flags.c_contiguous or (written and not memory.flags.writeable):
        return False
    if not worth(members.size * memory.shape[2], FEW):
        return False
    shape = *members.shape, memory.shape[2]
    if any(v.shape != shape for v in values):
        return False
    return len(members) == len(memory) and 0 <= members.min() and members.max() < memory.shape[1]


def _lying(values: Array) -> tuple[np.ndarray, tuple[int, int]] | None:
    """The numbers of an array (S, P, d) in memory, and the steps from a scenario and from a slot to the next; None: not in rows."""
    lie = memory_of(values)
    return None if lie is None else (lie.numbers, (lie.scenario, lie.slot))
