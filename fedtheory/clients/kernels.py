"""Compiled loops over pieces of messages: what NumPy does in an operation each, in one pass, and in the order of its operations.

Messages (S, P, d) come as the memory they lie in, from its first number on, and where in it each of them begins: they may be a view
that is transposed or repeated. All are of float64. Imported where a compiled loop is asked for, and with Numba alone; functions within
a function would be compiled by every process anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.compiled import njit
from fedtheory.local.lanes import copied, entries, fetch_row

__all__ = ["add", "dual_step", "put", "take", "wanted"]

AHEAD = 16  # rows that are asked for before they are moved


@njit(cache=True, nogil=True)
def wanted(
    out: Any, memory: Any, of_memory: Any, y: Any, of_y: Any, start: Any, of_start: Any, factors: Any
) -> None:
    """out (R, d) = memory + (y - start) factors; of_... say where each message begins."""
    dim = out.shape[1]
    for r in range(out.shape[0]):
        row, factor = out[r], factors[r]
        a, b, c = memory[of_memory[r] : of_memory[r] + dim], y[of_y[r] : of_y[r] + dim], start[of_start[r] : of_start[r] + dim]
        for i in range(dim):
            row[i] = a[i] + (b[i] - c[i]) * factor


@njit(cache=True, nogil=True)
def add(out: Any, values: Any, steps: Any, weights: Any, who: Any) -> None:
    """out (S, d) = sum over k of weights_sk values_sk, in order, of those that who (S, P) names."""
    dim = out.shape[1]
    for s in range(out.shape[0]):
        total = out[s]
        total[:] = 0.0
        for k in range(who.shape[1]):
            if who[s, k]:
                begin, weight = s * steps[0] + k * steps[1], weights[s, k]
                row = values[begin : begin + dim]
                for i in range(dim):
                    total[i] += row[i] * weight


@njit(cache=True, nogil=True)
def ask(place: Any, members: Any, steps: Any, s: int, k: int, dim: int) -> Any:
    """Ask for the row of slot k in scenario s, as no processor could guess where it lies; the slot after that."""
    if s < members.shape[0]:
        fetch_row(place, s * steps[0] + members[s, k] * steps[1], dim)
    return (s, k + 1) if k + 1 < members.shape[1] else (s + 1, 0)


@njit(cache=True, nogil=True)
def take(out: Any, memory: Any, steps: Any, members: Any) -> None:
    """out (S, P, d) = the rows of members (S, P); memory has row k of scenario s from s steps[0] + k steps[1] on."""
    (scenarios, slots, dim), ends, begins = out.shape, entries(out), entries(memory)
    soon = AHEAD // slots, AHEAD % slots
    for s in range(scenarios):
        for k in range(slots):
            soon = ask(begins, members, steps, soon[0], soon[1], dim)
            copied(ends, (s * slots + k) * dim, begins, s * steps[0] + members[s, k] * steps[1], dim)


@njit(cache=True, nogil=True)
def put(out: Any, members: Any, values: Any, steps: Any) -> None:
    """The rows of members (S, P) of out (S, N, d) = values, of which slot k in scenario s lies from s steps[0] + k steps[1] on."""
    (_, clients, dim), (scenarios, slots), ends, begins = out.shape, members.shape, entries(out), entries(values)
    rows, soon = (clients * dim, dim), (AHEAD // slots, AHEAD % slots)
    for s in range(scenarios):
        for k in range(slots):
            soon = ask(ends, members, rows, soon[0], soon[1], dim)
            copied(ends, s * rows[0] + members[s, k] * dim, begins, s * steps[0] + k * steps[1], dim)


@njit(cache=True, nogil=True)
def row_of(values: Any, s: int, k: int, dim: int) -> Any:
    numbers, steps = values
    begin = s * steps[0] + k * steps[1]
    return numbers[begin : begin + dim]


@njit(cache=True, nogil=True)
def dual_step(out: Any, members: Any, duals: Any, y: Any, start: Any, l2: float, l1: float, change: Any) -> None:
    """With moved = y - start, the rows of members of out (S, N, d) = new = duals - l2 moved - l1 sign(moved).

    change (S, d) += new - duals, in order; duals, y and start are (numbers, steps).
    """
    (_, clients, dim), (scenarios, slots), ends = out.shape, members.shape, entries(out)
    rows, soon = (clients * dim, dim), (AHEAD // slots, AHEAD % slots)
    for s in range(scenarios):
        total = change[s]
        for k in range(slots):
            soon = ask(ends, members, rows, soon[0], soon[1], dim)
            row, a, b, c = out[s, members[s, k]], row_of(duals, s, k, dim), row_of(y, s, k, dim), row_of(start, s, k, dim)
            for i in range(dim):
                moved = b[i] - c[i]
                new = a[i] - l2 * moved - l1 * np.sign(moved)
                total[i] += new - a[i]
                row[i] = new
