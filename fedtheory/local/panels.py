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
RESTS = (0, 2, 4) if WIDEST > 1 else (0,)  # columns beside whole eights, of which a register takes several rows
_DOUBLE, _WHOLE = ir.DoubleType(), ir.IntType(64)
_ARGUMENTS = [_DOUBLE.as_pointer()] * 4 + [_WHOLE] * 3 + [_DOUBLE]


def _number(value: int) -> Any:
    return ir.Constant(_WHOLE, value)


def _shuffled(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))


def _same(builder: Any, value: Any, times: int) -> Any:
    one = builder.insert_element(ir.Constant(ir.VectorType(_DOUBLE, times), ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return _shuffled(builder, one, one, [0] * times)


def _joined(builder: Any, parts: list[Any]) -> Any:
    """One, two or four vectors in one."""
    while len(parts) > 1:
        lanes = list(range(2 * parts[0].type.count))
        parts = [_shuffled(builder, a, b, lanes) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _cells(width: int, rest: int) -> list[tuple[range, int, int]]:
    """List what is summed in a register: of these rows so many columns, from this one on."""
    whole = [(range(r, r + 1), LANES * w, LANES) for r in range(HEIGHT) for w in range(width)]
    rows = LANES // rest if rest else HEIGHT
    return whole + [(range(r, r + rows), LANES * width, rest) for r in range(0, HEIGHT, rows) if rest]


def _panel(module: Any, width: int, rest: int) -> Any:
    """The LLVM function (out, z, m, b, at, depth, stride, cut) for 8 width + rest columns from column `at` on, made once a module.

    It is never inlined: what it shares registers with would push its sums out of them.
    """
    name = f"fedtheory.panel.{width}.{rest}"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), _ARGUMENTS), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    out, z, m, b, at, depth, stride, cut = function.args

    def place(base: Any, row: Any, column: Any) -> Any:
        return builder.gep(base, [builder.add(builder.mul(row, stride), column)])

    def several(base: Any, row: Any, column: int, count: int) -> Any:
        found = place(base, row, builder.add(at, _number(column)))
        return builder.bitcast(found, ir.VectorType(_DOUBLE, count).as_pointer())

    def read(base: Any, rows: Any, column: int, count: int) -> Any:
        return _joined(builder, [builder.load(several(base, row, column, count), align=8) for row in rows])

    cells = _cells(width, rest)
    begin = [read(b, [_number(r) for r in rows], column, count) for rows, column, count in cells]
    sums = [cgutils.alloca_once_value(builder, value) for value in begin]
    with cgutils.for_range(builder, depth) as loop:
        columns = {cell[1:]: read(m, [loop.index], *cell[1:]) for cell in cells}
        numbers = [builder.load(place(z, _number(r), loop.index)) for r in range(HEIGHT)]
        for (rows, column, count), kept in zip(cells, sums, strict=True):
            factor = _joined(builder, [_same(builder, numbers[r], count) for r in rows])
            product = builder.fmul(factor, _joined(builder, [columns[column, count]] * len(rows)), flags=("contract",))
            builder.store(builder.fadd(builder.load(kept), product, flags=("contract",)), kept)
    high, low = _same(builder, cut, LANES), _same(builder, builder.fneg(cut), LANES)
    for (rows, column, count), kept in zip(cells, sums, strict=True):
        v = builder.load(kept)
        clipped = builder.select(builder.fcmp_ordered("<", v, low), low, v)
        clipped = builder.select(builder.fcmp_ordered(">", clipped, high), high, clipped)
        end = builder.fsub(v, clipped)
        for i, row in enumerate(rows):
            part = _shuffled(builder, end, end, list(range(i * count, (i + 1) * count)))
            builder.store(part, several(out, _number(row), column, count), align=8)
    builder.ret_void()
    return function


@intrinsic
def _panels(
    typing: Any, width: Any, rest: Any, out: Any, z: Any, m: Any, b: Any, at: Any, depth: Any, stride: Any, cut: Any
) -> Any:
    """`_panel` of the width, with the rest."""

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        asked, rest = builder.add(builder.mul(arguments[0], _number(LANES)), arguments[1]), arguments[2:]
        for columns in [LANES * w + r for w in range(WIDEST + 1) for r in RESTS if w + r]:
            with builder.if_then(builder.icmp_signed("==", asked, _number(columns))):
                builder.call(_panel(builder.module, *divmod(columns, LANES)), rest)
        return context.get_dummy_value()

    place = types.CPointer(types.float64)  # type: ignore[attr-defined]
    whole = types.int64
    return types.void(whole, whole, place, place, place, place, whole, whole, whole, types.float64), make


@njit(cache=True, nogil=True)
def affine_soft(out: Any, z: Any, m: Any, b: Any, depth: int, dim: int, stride: int, cut: float) -> None:
    """out = v - min(max(v, -cut), cut) of v = z m + b, in four rows.

    out, z, m and b are places in arrays whose rows are `stride` numbers apart, a multiple of eight; of z and m the first `depth`
    columns and rows count, of out, m and b the first `dim` columns, and the others up to the stride may. out may be b. Panels of
    columns are as even as possible. Where the last register of each row would be half empty, one or two serve all rows.
    """
    rest = dim % LANES
    rest = 0 if rest == 0 or rest > RESTS[-1] else 2 if rest <= 2 else 4
    left = dim // LANES if rest else -(-dim // LANES)
    panels, at = max(1, -(-left // WIDEST)), 0
    while panels:
        width = -(-left // panels)
        panels -= 1
        _panels(width, 0 if panels else rest, out, z, m, b, at, depth, stride, cut)
        at += width * LANES
        left -= width
