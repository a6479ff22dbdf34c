"""Products of matrices in what Numba compiles, in tiles, and added to what is there.

`np.dot` writes a product, and a pass of its own must add it. Imported with Numba alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from fedtheory.compiled import njit

__all__ = ["UNCOPIED", "WHOLE", "Tiles", "add_turned", "along", "back_through"]

LANES = 16  # columns that are computed together


class Tiles(NamedTuple):
    """The largest products of matrices; larger ones are made tile by tile.

    Attributes
    ----------
    multiplications : of one product
    entries : of the outputs of a layer
    samples : of the batch
    """

    multiplications: int
    entries: int
    samples: int


WHOLE = Tiles(2**62, 2**62, 2**62)
# With AVX-512 OpenBLAS multiplies without copying its factors where a product takes at most a
# million multiplications, and, with the second factor turned over, has at most 1200 entries:
# kernel/x86_64/sgemm_small_kernel_permit_skylakex.c
UNCOPIED = Tiles(1_000_000, 1_200, 64)

_KINDS = {types.float32: "s", types.float64: "d"}


@intrinsic
def _gemm(
    typing: Any, a_turned: Any, b_turned: Any, sizes: Any, alpha: Any, a: Any, b: Any, beta: Any,
    c: Any,
) -> Any:
    """c <- beta c + alpha op(a) op(b), columns first; 0 where SciPy's function was found.

    It is the one that `np.dot` calls too.
    """
    if c.dtype not in _KINDS or not (a.dtype == b.dtype == c.dtype):
        raise TypingError(f"matrices of float32 or float64 are needed, not {a}, {b} and {c}")

    def make(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        letter, size, anything = ir.IntType(8), ir.IntType(64), ir.IntType(8).as_pointer()

        def number(at: int) -> Any:
            return builder.bitcast(cgutils.alloca_once_value(builder, arguments[at]), anything)

        def matrix(at: int) -> tuple[Any, Any]:
            """Return where the matrix lies, and how many entries its rows lie apart."""
            array = context.make_array(signature.args[at])(context, builder, arguments[at])
            lead = builder.sdiv(cgutils.unpack_tuple(builder, array.strides)[0], array.itemsize)
            return builder.bitcast(array.data, anything), lead

        ways = [
            builder.select(t, ir.Constant(letter, ord("t")), ir.Constant(letter, ord("n")))
            for t in arguments[:2]
        ]
        kind = ir.FunctionType(
            ir.IntType(32),
            [letter] * 3
            + [size] * 3
            + [anything, anything, size, anything, size, anything, anything, size],
        )
        called = cgutils.get_or_insert_function(builder.module, kind, "numba_xxgemm")
        shape = cgutils.unpack_tuple(builder, arguments[2])
        first = [ir.Constant(letter, ord(_KINDS[signature.args[7].dtype])), *ways, *shape]
        return builder.call(
            called, [*first, number(3), *matrix(4), *matrix(5), number(6), *matrix(7)]
        )

    return types.int32(types.boolean, types.boolean, sizes, c.dtype, a, b, c.dtype, c), make


@njit(cache=True, nogil=True)
def _multiply(
    a: np.ndarray, a_turned: bool, b: np.ndarray, b_turned: bool, out: np.ndarray, alpha: float,
    beta: float,
) -> None:
    """out (m, n) <- beta out + alpha op(a) op(b), where op turns a matrix over or leaves it.

    The rows of each matrix are contiguous, and may lie apart. With beta = 0 out is not read.
    """
    sizes = out.shape[1], out.shape[0], a.shape[0] if a_turned else a.shape[1]
    if _gemm(b_turned, a_turned, sizes, alpha, b, a, beta, out):
        raise RuntimeError("SciPy's products of matrices were not found")


@njit(cache=True, nogil=True)
def _part(count: int, most: int) -> int:
    """The size of as few equal parts of `count` as have at most `most` each, or one."""
    parts = -(-count // max(most, 1))
    return -(-count // parts)


@njit(cache=True, nogil=True)
def along(h: np.ndarray, w: np.ndarray, z: np.ndarray, tiles: Tiles) -> None:
    """z (b, o) <- h (b, i) w^T, w (o, i)."""
    (b, i), one = h.shape, w.dtype.type(1)
    own = _part(b, tiles.samples)
    rows = _part(len(w), min(tiles.multiplications // (i * own), tiles.entries // own))
    for k in range(0, b, own):
        for c in range(0, len(w), rows):
            _multiply(
                h[k : k + own], False, w[c : c + rows], True, z[k : k + own, c : c + rows], one,
                one - one,
            )


@njit(cache=True, nogil=True)
def back_through(gradient: np.ndarray, w: np.ndarray, back: np.ndarray, tiles: Tiles) -> None:
    """back (b, i) <- gradient (b, o) w (o, i)."""
    (b, o), one = gradient.shape, w.dtype.type(1)
    own = _part(b, tiles.samples)
    columns = max(tiles.multiplications // (o * own) // LANES, 1) * LANES
    for k in range(0, b, own):
        for c in range(0, w.shape[1], columns):
            _multiply(
                gradient[k : k + own], False, w[:, c : c + columns], False,
                back[k : k + own, c : c + columns], one, one - one,
            )


@njit(cache=True, nogil=True)
def add_turned(
    gradient: np.ndarray, h: np.ndarray, w: np.ndarray, sign: float, scale: float, tiles: Tiles
) -> None:
    """w (o, i) <- scale w + sign gradient^T h, gradient (b, o), h (b, i)."""
    (b, i), one = h.shape, w.dtype.type(1)
    own = _part(b, tiles.samples)
    rows = _part(len(w), tiles.multiplications // (i * own))
    for c in range(0, len(w), rows):
        for k in range(0, b, own):
            _multiply(
                gradient[k : k + own, c : c + rows], True, h[k : k + own], False, w[c : c + rows],
                sign, one if k else scale,
            )
