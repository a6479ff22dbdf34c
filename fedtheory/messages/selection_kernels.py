"""The largest entries of many messages, compiled. Imported where that is worth Numba's import."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.compiled import njit

__all__ = ["select"]


@njit(cache=True, nogil=True)
def sink(values: Any, places: Any) -> None:
    value, place, at, count = values[0], places[0], 0, values.size
    while True:
        below = 2 * at + 1
        if below >= count:
            break
        other = below + 1
        if other < count and (
            values[other] < values[below] or (values[other] == values[below] and places[other] > places[below])
        ):
            below = other
        if values[below] > value or (values[below] == value and places[below] < place):
            break
        values[at], places[at] = values[below], places[below]
        at = below
    values[at], places[at] = value, place


@njit(cache=True, nogil=True)
def select(rows: Any, out: Any) -> None:
    """Write where the k largest of each row (R, d) lie, flat, into out (R, k).

    The k-th largest of what is largest among every so many entries is a lower bound of the k-th largest of all, and few entries reach
    it. Those go through a heap of the k largest so far, the smallest of them first and of equal ones the last.
    """
    dim, k = rows.shape[1], out.shape[1]
    values, places, width = np.empty(k), np.empty(k, np.int64), max(64, 4 * k)
    largest = np.empty(width)  # magnitude among the entries i with i % width = j: one loop over neighbours
    for r in range(rows.shape[0]):
        row = rows[r]
        largest[:] = -1.0
        for begin in range(0, dim, width):
            part = row[begin : begin + width]
            for j in range(part.size):
                size = abs(part[j])
                largest[j] = size if size > largest[j] else largest[j]
        values[:] = -1.0
        places[:] = dim
        for j in range(width):
            if largest[j] > values[0]:
                values[0] = largest[j]
                sink(values, places)
        bound = values[0]  # k entries are at least as large
        values[:] = -1.0
        for j in range(width):
            if largest[j] < bound:
                continue
            for i in range(j, dim, width):
                size = abs(row[i])
                if size >= bound and (size > values[0] or (size == values[0] and i < places[0])):
                    values[0], places[0] = size, i
                    sink(values, places)
        found = out[r]
        for j in range(k):
            place, at = r * dim + places[j], j
            while at > 0 and found[at - 1] > place:
                found[at] = found[at - 1]
                at -= 1
            found[at] = place
