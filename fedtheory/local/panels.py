"""A few rows times a matrix that stays in the cache, and what is done to the product while it is in registers.

BLAS has no such step: its result goes to memory and comes back for every sum and every threshold. An entry is summed in the order of
the matrix's rows, whatever lies beside its own row, so that its bits do not depend on how many there are. Imported with Numba alone.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from fedtheory.compiled import njit
from fedtheory.local.lanes import LANES

__all__ = ["HEIGHT", "affine_soft"]

HEIGHT = 4  # rows at a time
WIDEST = 4 if binding.get_host_cpu_features().get("avx512f") else 1  # times eight columns: as many as there are registers for
_DOUBLE, _WHOLE, _EIGHT = ir.DoubleType(), ir.IntType(64), ir.VectorType(ir.DoubleType(), LANES)
_ARGUMENTS = [_DOUBLE.as_pointer()] * 4 + [_WHOLE] * 3 + [_DOUBLE]


def _number(value: int) -> Any:
    return ir.Constant(_WHOLE, value)


def _same(builder: Any, value: Any) -> Any:
    one = builder.insert_element(ir.Constant(_EIGHT, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _panel(module: Any, width: int) -> Any:
    """The LLVM function (out, z, m, b, at, depth, stride, cut) for eight times `width` columns from column `at` on, made once a module.

    It is never inlined: what it shares registers with would push its sums out of them.
    """
    name = f"fedtheory.panel.{width}"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), _ARGUMENTS), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    out, z, m, b, at, depth, stride, cut = function.args

    def place(base: Any, row: Any, column: Any) -> Any:
        return builder.gep(base, [builder.add(builder.mul(row, stride), column)])

    def eight(base: Any, row: Any, w: int) -> Any:
        return builder.bitcast(place(base, row, builder.add(at, _number(LANES * w))), _EIGHT.as_pointer())

    cells = [(r, w) for r in range(HEIGHT) for w in range(width)]
    begin = [builder.load(eight(b, _number(r), w), align=8) for r, w in cells]
    sums = dict(zip(cells, (cgutils.alloca_once_value(builder, value) for value in begin), strict=True))
    with cgutils.for_range(builder, depth) as loop:
        columns = [builder.load(eight(m, loop.index, w), align=8) for w in range(width)]
        for r in range(HEIGHT):
            factor = _same(builder, builder.load(place(z, _number(r), loop.index)))
            for w in range(width):
                product = builder.fmul(factor, columns[w], flags=("contract",))
                builder.store(builder.fadd(builder.load(sums[r, w]), product, flags=("contract",)), sums[r, w])
    high, low = _same(builder, cut), _same(builder, builder.fneg(cut))
    for r, w in cells:
        v = builder.load(sums[r, w])
        clipped = builder.select(builder.fcmp_ordered("<", v, low), low, v)
        clipped = builder.select(builder.fcmp_ordered(">", clipped, high), high, clipped)
        builder.store(builder.fsub(v, clipped), eight(out, _number(r), w), align=8)
    builder.ret_void()
    return function


@intrinsic
def _panels(typing: Any, width: Any, out: Any, z: Any, m: Any, b: Any, at: Any, depth: Any, stride: Any, cut: Any) -> Any:
    """`_panel` of the width."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        width, rest = arguments[0], arguments[1:]
        for w in range(1, WIDEST + 1):
            with builder.if_then(builder.icmp_signed("==", width, _number(w))):
                builder.call(_panel(builder.module, w), rest)
        return context.get_dummy_value()

    place = types.CPointer(types.float64)  # type: ignore[attr-defined]
    return types.void(types.int64, place, place, place, place, types.int64, types.int64, types.int64, types.float64), make


@njit(cache=True, nogil=True)
def affine_soft(out: Any, z: Any, m: Any, b: Any, depth: int, stride: int, cut: float) -> None:
    """out = v - min(max(v, -cut), cut) of v = z m + b, in four rows.

    out, z, m and b are places in arrays whose rows are `stride` numbers apart, a multiple of eight; of z and m the first `depth`
    columns and rows count. out may be b. Panels of columns are as even as possible.
    """
    left = stride // LANES
    panels, at = -(-left // WIDEST), 0
    while left:
        width = -(-left // panels)
        _panels(width, out, z, m, b, at, depth, stride, cut)
        at += width * LANES
        left -= width
        panels -= 1
