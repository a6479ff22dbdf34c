"""Eight doubles side by side in what Numba compiles: one register where the processor has such, several where it has not.

LLVM finds vectors in loops by itself, but not across the short and uneven loops of a small model: what it leaves to single numbers
there costs more than the rest. Imported where a compiled run is asked for, and with Numba alone.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload, register_model

from fedtheory.compiled import njit

__all__ = ["LANES", "above", "copied", "entries", "fetch_row", "fused", "load", "load_one", "padded", "splat", "store", "store_one",
           "total", "totals", "zeros"]  # fmt: skip

LANES = 8
LINE = 64  # bytes of a line of the cache
_DOUBLE = ir.DoubleType()
_EIGHT = ir.VectorType(_DOUBLE, LANES)


def zeros(*shape: int) -> np.ndarray:
    """Zeros that begin where a line of the cache does: eight doubles that lie across two lines take two reads."""
    size = math.prod(shape)
    room = np.zeros(size + LINE // 8)
    first = -room.ctypes.data % LINE // 8
    return room[first : first + size].reshape(shape)


def padded(values: np.ndarray, axis: int = -1) -> np.ndarray:
    """The array with zeros up to the next multiple of eight along an axis, contiguous."""
    size = values.shape[axis]
    shape = list(values.shape)
    shape[axis] = -(-size // LANES) * LANES
    out = zeros(*shape)
    np.moveaxis(out, axis, 0)[:size] = np.moveaxis(values, axis, 0)
    return out


class _Lanes(types.Type):
    """Numba's type of eight doubles."""

    def __init__(self) -> None:
        super().__init__(name="eight doubles")


LANES_TYPE = _Lanes()


@register_model(_Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _EIGHT)


@intrinsic
def entries(typing: Any, array: Any) -> Any:
    """Return where a contiguous array of doubles lies, for as long as the caller holds the array.

    Numba counts who holds an array whenever one is passed or sliced, which costs more than a short loop; a place costs nothing.
    """
    if not isinstance(array, types.Array) or array.layout != "C" or array.dtype != types.float64:
        raise TypingError(f"a contiguous array of doubles is needed, not {array}")

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return types.CPointer(types.float64)(array), make  # type: ignore[attr-defined]


@intrinsic
def load(typing: Any, place: Any, at: Any) -> Any:
    """Entries at, ..., at + 7."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.bitcast(builder.gep(*_gep(arguments)), _EIGHT.as_pointer()), align=8)

    return LANES_TYPE(place, types.intp), make


def _gep(arguments: Any) -> Any:
    return arguments[0], [arguments[1]]


@intrinsic
def load_one(typing: Any, place: Any, at: Any) -> Any:
    """Entry at."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.gep(*_gep(arguments)))

    return types.float64(place, types.intp), make


@intrinsic
def store(typing: Any, place: Any, at: Any, values: Any) -> Any:
    """Eight numbers to entries at, ..., at + 7."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], builder.bitcast(builder.gep(*_gep(arguments)), _EIGHT.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(place, types.intp, values), make


@intrinsic
def store_one(typing: Any, place: Any, at: Any, value: Any) -> Any:
    """A number to entry at."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], builder.gep(*_gep(arguments)))
        return context.get_dummy_value()

    return types.void(place, types.intp, types.float64), make


@intrinsic
def fetch(typing: Any, place: Any, at: Any) -> Any:
    """Ask for the line of the cache that entry at lies in, without waiting for it."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
        called = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        reading, soon, data = (ir.Constant(whole, value) for value in (0, 3, 1))
        builder.call(called, [builder.bitcast(builder.gep(*_gep(arguments)), byte), reading, soon, data])
        return context.get_dummy_value()

    return types.void(place, types.intp), make


@njit(cache=True, nogil=True)
def fetch_row(place: Any, first: int, count: int) -> None:
    """Ask for the lines that entries first, ..., first + count - 1 lie in."""
    for i in range(0, count + LANES - 1, LANES):
        fetch(place, first + i)


@njit(cache=True, nogil=True)
def copied(to: Any, at: int, of: Any, first: int, count: int) -> None:
    """Entries first, ..., first + count - 1 of one place, to another from entry at on."""
    whole = count - count % LANES
    for i in range(0, whole, LANES):
        store(to, at + i, load(of, first + i))
    for i in range(whole, count):
        store_one(to, at + i, load_one(of, first + i))


@intrinsic
def splat(typing: Any, number: Any) -> Any:
    """The same number eight times."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one = builder.insert_element(ir.Constant(_EIGHT, ir.Undefined), arguments[0], ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return builder.shuffle_vector(one, ir.Constant(_EIGHT, ir.Undefined), zeros)

    return LANES_TYPE(types.float64), make


@intrinsic
def fused(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """a b + c, in one operation where the processor has it: for sums, whose order is free."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, b, c = arguments
        return builder.fadd(builder.fmul(a, b, flags=("contract",)), c, flags=("contract",))

    return LANES_TYPE(a, b, c), make


@intrinsic
def above(typing: Any, a: Any, b: Any) -> Any:
    """1 where a > b, 0 elsewhere."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one, zero = ir.Constant(_EIGHT, [1.0] * LANES), ir.Constant(_EIGHT, [0.0] * LANES)
        return builder.select(builder.fcmp_ordered(">", *arguments), one, zero)

    return LANES_TYPE(a, b), make


def _shuffled(builder: Any, a: Any, b: Any, places: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(places)), places))


def _joined(builder: Any, a: Any, b: Any, stride: int) -> Any:
    """Sums of lanes `stride` apart: of a in the places without that bit, of b in those with it."""
    low = [i if not i & stride else LANES + i - stride for i in range(LANES)]
    high = [i + stride if not i & stride else LANES + i for i in range(LANES)]
    return builder.fadd(_shuffled(builder, a, b, low), _shuffled(builder, a, b, high))


@intrinsic
def total(typing: Any, values: Any) -> Any:
    """The sum of the eight, as ((v0 + v4) + (v2 + v6)) + ((v1 + v5) + (v3 + v7))."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, width = arguments[0], LANES
        while width > 1:
            width //= 2
            halves = (_shuffled(builder, values, values, list(range(i, i + width))) for i in (0, width))
            values = builder.fadd(*halves)
        return builder.extract_element(values, ir.Constant(ir.IntType(32), 0))

    return types.float64(values), make


@intrinsic
def totals(typing: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any) -> Any:
    """The sums of eight times eight numbers, side by side."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows, stride = list(arguments), 1
        while len(rows) > 1:
            rows = [_joined(builder, rows[i], rows[i + 1], stride) for i in range(0, len(rows), 2)]
            stride *= 2
        return rows[0]

    return LANES_TYPE(a, b, c, d, e, f, g, h), make


def _binary(instruction: str) -> Any:
    @intrinsic
    def apply(typing: Any, a: Any, b: Any) -> Any:
        def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, instruction)(*arguments)

        return LANES_TYPE(a, b), make

    return apply


def _operator(symbol: Callable[..., Any], instruction: str) -> None:
    """a + b and the like of eight doubles each, rounded as NumPy rounds them."""
    apply = _binary(instruction)

    @overload(symbol)
    def found(a, b):  # Numba wants the annotations of both alike
        if isinstance(a, _Lanes) and isinstance(b, _Lanes):
            return lambda a, b: apply(a, b)
        return None


for _symbol, _instruction in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul")):
    _operator(_symbol, _instruction)
