"""QSGD of many messages in one compiled pass, and the bits of each: the numbers of `fedtheory.messages.QSGD`, to the last bit.

Everything is a number at a time, in the order of NumPy's operations; a sum has NumPy's order (eight sums side by side, of at most 128
numbers, and halves of what is longer: ``pairwise_sum`` of numpy/_core/src/umath), which the tests compare with NumPy itself. Numba is
imported with this module; functions inside a function would be compiled anew by every process, whatever is kept on the disk.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fedtheory.compiled import njit

__all__ = ["quantise"]


@njit(cache=True, nogil=True)
def sum_of(values: Any) -> Any:
    count = values.size
    if count > 128:
        half = count // 2
        half -= half % 8
        return sum_of(values[:half]) + sum_of(values[half:])
    total, whole = 0.0, count - count % 8
    if whole:
        a, b, c, d, e, f, g, h = values[0], values[1], values[2], values[3], values[4], values[5], values[6], values[7]
        for i in range(8, whole, 8):
            a, b, c, d = a + values[i], b + values[i + 1], c + values[i + 2], d + values[i + 3]
            e, f, g, h = e + values[i + 4], f + values[i + 5], g + values[i + 6], h + values[i + 7]
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for i in range(whole, count):
        total += values[i]
    return total


@njit(cache=True, nogil=True)
def short_above(value: Any, digits: Any, smallest: Any) -> Any:
    exponent = max(math.frexp(value)[1] - digits, smallest)
    return math.ldexp(math.ceil(math.ldexp(value, -exponent)), exponent)


@njit(cache=True, nogil=True)
def omega_length(value: Any) -> Any:
    length = 1
    while value > 1:
        digits = 0
        while value:
            value >>= 1
            digits += 1
        length += digits
        value = digits - 1
    return length


@njit(cache=True, nogil=True)
def message_bits(whole: Any, divisor: Any, float_bits: Any, count_bits: Any) -> Any:
    total, last = 0, -1
    for i in range(whole.size):
        level = whole[i] // divisor
        if count_bits == 0:
            total += omega_length(level + 1) + (level > 0)
        elif level > 0:
            total += omega_length(i - last) + 1 + omega_length(level)
            last = i
    return count_bits + total + (float_bits if count_bits == 0 or last >= 0 else 0)


@njit(cache=True, nogil=True)
def quantise(
    out: Any, bits: Any, x: Any, uniforms: Any,
    levels: Any, digits: Any, smallest: Any, limit: Any, float_bits: Any, count_bits: Any,
) -> bool:  # fmt: skip
    """Fill what is sent of messages, and its bits.

    Parameters
    ----------
    out, bits : (R, d) and (R,) of int64, filled with what is sent and its length
    x, uniforms : (R, d)
    levels, digits, smallest : of `QSGD`, of its step's mantissa, and the exponent of the smallest float
    limit : the largest float
    float_bits, count_bits : of a float on the wire, and of the count of entries in the sparse code; 0: the dense one

    Returns
    -------
    bool
        Whether messages are finite, uniforms in [0, 1), and all steps times ``levels`` at most ``limit``; where not, nothing is to
        be used.
    """
    whole, squares = np.empty(x.shape[1], np.int64), np.empty(x.shape[1])
    for r in range(x.shape[0]):
        step, top = 1.0, 0.0
        for value in x[r]:
            if not math.isfinite(value):
                return False
            top = max(top, abs(value))
        if top > 0:
            for i in range(x.shape[1]):
                squares[i] = (x[r, i] / top) ** 2
            length = math.sqrt(sum_of(squares))
            step = short_above(max(length / levels * top, math.ldexp(1.0, smallest)), digits, smallest)
            if step * levels < top:
                step = short_above(np.nextafter(step, np.inf), digits, smallest)
        if not step * levels <= limit:
            return False
        divisor = 0
        for i in range(x.shape[1]):
            ratio = abs(x[r, i]) / step
            low = math.floor(ratio)
            if not 0 <= uniforms[r, i] < 1:
                return False
            level = low + (1 if uniforms[r, i] < ratio - low else 0)
            out[r, i] = math.copysign(step * level, x[r, i]) + 0.0
            whole[i], rest = level, level
            while rest:
                divisor, rest = rest, divisor % rest
        bits[r] = message_bits(whole, max(divisor, 1), float_bits, count_bits)
    return True
