"""Compiled loops over pieces of messages: what NumPy does in an operation each, in one pass, and in the order of its operations.

Messages (S, P, d) come as the memory they lie in, from its first number on, and where in it each of them begins: they may be a view
that is transposed or repeated. All are of float64.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

__all__ = ["Loops", "loops"]


class Loops(NamedTuple):
    """What `loops` compiles.

    wanted(out, memory, of_memory, y, of_y, start, of_start, factors): out (R, d) = memory + (y - start) factors, of_... where each
    message begins.
    add(out, values, steps, weights, who): out (S, d) = sum over k of weights_sk values_sk, in order, of those that who (S, P) names.
    """

    wanted: Any
    add: Any


@cache
def loops() -> Loops:
    """The loops, compiled at their first calls."""
    from fedtheory.compiled import njit

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

    return Loops(wanted, add)
