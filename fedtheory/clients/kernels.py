"""Compiled loops over pieces of messages: what NumPy does in an operation each, in one pass, and in the order of its operations.

Messages (S, P, d) come as the memory they lie in, from its first number on, and where in it each of them begins: they may be a view
that is transposed or repeated. All are of float64.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Loops", "loops"]

AHEAD = 8  # messages that are asked for before they are moved


class Loops(NamedTuple):
    """What `loops` compiles.

    wanted(out, memory, of_memory, y, of_y, start, of_start, factors): out (R, d) = memory + (y - start) factors, of_... where each
    message begins.
    add(out, values, steps, weights, who): out (S, d) = sum over k of weights_sk values_sk, in order, of those that who (S, P) names.
    move(out, to, values, of, dim): of each message the dim numbers from of[r] on to out, from to[r] on.
    dual_step(out, to, places, l2, l1, change): with moved = y - start, out from to[r] on = duals - l2 moved - l1 sign(moved), and change
    (S, d) += these less the duals, in order; places are (duals, of_duals), (y, of_y), (start, of_start).
    """

    wanted: Any
    add: Any
    move: Any
    dual_step: Any


@cache
def loops() -> Loops:
    """The loops, compiled at their first calls."""
    from fedtheory.compiled import njit
    from fedtheory.local.lanes import copied, entries, fetch_row

    @njit(cache=True, nogil=True)
    def wanted(
        out: Any, memory: Any, of_memory: Any, y: Any, of_y: Any, start: Any, of_start: Any, factors: Any
    ) -> None:
        dim = out.shape[1]
        for r in range(out.shape[0]):
            row, factor = out[r], factors[r]
            a, b, c = memory[of_memory[r] : of_memory[r] + dim], y[of_y[r] : of_y[r] + dim], start[of_start[r] : of_start[r] + dim]
            for i in range(dim):
                row[i] = a[i] + (b[i] - c[i]) * factor

    @njit(cache=True, nogil=True)
    def add(out: Any, values: Any, steps: Any, weights: Any, who: Any) -> None:
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
    def move(out: Any, to: Any, values: Any, of: Any, dim: int) -> None:
        ends, begins, last = entries(out), entries(values), len(to) - 1
        for r in range(len(to)):
            soon = min(r + AHEAD, last)  # no processor could guess where the next ones lie
            fetch_row(ends, to[soon], dim)
            fetch_row(begins, of[soon], dim)
            copied(ends, to[r], begins, of[r], dim)

    @njit(cache=True, nogil=True)
    def dual_step(out: Any, to: Any, places: Any, l2: float, l1: float, change: Any) -> None:
        dim, slots, last = change.shape[1], len(to) // len(change), len(to) - 1
        (duals, of_duals), (y, of_y), (start, of_start) = places
        for r in range(len(to)):
            fetch_row(entries(out), to[min(r + AHEAD, last)], dim)
            total, row, a = change[r // slots], out[to[r] : to[r] + dim], duals[of_duals[r] : of_duals[r] + dim]
            b, c = y[of_y[r] : of_y[r] + dim], start[of_start[r] : of_start[r] + dim]
            for i in range(dim):
                moved = b[i] - c[i]
                new = a[i] - l2 * moved - l1 * np.sign(moved)
                total[i] += new - a[i]
                row[i] = new

    return Loops(wanted, add, move, dual_step)
