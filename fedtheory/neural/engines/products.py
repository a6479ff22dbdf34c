"""Products of matrices in what Numba compiles, in tiles, and added to what is there.

`np.dot` writes a product, and a pass of its own must add it. Imported with Numba alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numba.core.typing import signature

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

# SciPy's function, which `np.dot` calls too: kind, op, op, three sizes, then addresses of numbers and
# matrices, with how many entries a matrix's rows lie apart
_gemm = types.ExternalFunction(
    "numba_xxgemm",
    signature(
        types.int32, *[types.int8] * 3, *[types.intp] * 3, types.uintp,
        *[types.uintp, types.intp] * 2, types.uintp, types.uintp, types.intp,
    ),
)


@njit(cache=True, nogil=True)
def _multiply(
    a: np.ndarray, a_turned: bool, b: np.ndarray, b_turned: bool, out: np.ndarray,
    factors: np.ndarray,
) -> None:
    """out (m, n) <- beta out + alpha op(a) op(b), where op turns a matrix over or leaves it.

    factors : alpha and beta
    The rows of each matrix are contiguous, and may lie apart. With beta = 0 out is not read.
    """
    size, turned, plain = out.itemsize, ord("t"), ord("n")
    numbers = factors.ctypes.data  # the function's columns are our rows
    failed = _gemm(
        ord("s") if size == 4 else ord("d"), turned if b_turned else plain,
        turned if a_turned else plain, out.shape[1], out.shape[0],
        a.shape[0] if a_turned else a.shape[1], numbers, b.ctypes.data, b.strides[0] // size,
        a.ctypes.data, a.strides[0] // size, numbers + size, out.ctypes.data,
        out.strides[0] // size,
    )
    if failed:
        raise RuntimeError("SciPy's products of matrices were not found")


@njit(cache=True, nogil=True)
def _factors(alpha: float, beta: float, like: np.ndarray) -> np.ndarray:
    out = np.empty(2, like.dtype)
    out[0], out[1] = alpha, beta
    return out


@njit(cache=True, nogil=True)
def _part(count: int, most: int) -> int:
    """The size of as few equal parts of `count` as have at most `most` each, or one."""
    parts = -(-count // max(most, 1))
    return -(-count // parts)


@njit(cache=True, nogil=True)
def along(h: np.ndarray, w: np.ndarray, z: np.ndarray, tiles: Tiles) -> None:
    """z (b, o) <- h (b, i) w^T, w (o, i)."""
    (b, i), alone = h.shape, _factors(1, 0, w)
    own = _part(b, tiles.samples)
    rows = _part(len(w), min(tiles.multiplications // (i * own), tiles.entries // own))
    for k in range(0, b, own):
        for c in range(0, len(w), rows):
            _multiply(
                h[k : k + own], False, w[c : c + rows], True, z[k : k + own, c : c + rows], alone
            )


@njit(cache=True, nogil=True)
def back_through(gradient: np.ndarray, w: np.ndarray, back: np.ndarray, tiles: Tiles) -> None:
    """back (b, i) <- gradient (b, o) w (o, i)."""
    (b, o), alone = gradient.shape, _factors(1, 0, w)
    own = _part(b, tiles.samples)
    columns = max(tiles.multiplications // (o * own) // LANES, 1) * LANES
    for k in range(0, b, own):
        for c in range(0, w.shape[1], columns):
            _multiply(
                gradient[k : k + own], False, w[:, c : c + columns], False,
                back[k : k + own, c : c + columns], alone,
            )


@njit(cache=True, nogil=True)
def add_turned(
    gradient: np.ndarray, h: np.ndarray, w: np.ndarray, sign: float, scale: float, tiles: Tiles
) -> None:
    """w (o, i) <- scale w + sign gradient^T h, gradient (b, o), h (b, i)."""
    (b, i), first, later = h.shape, _factors(sign, scale, w), _factors(sign, 1, w)
    own = _part(b, tiles.samples)
    rows = _part(len(w), tiles.multiplications // (i * own))
    for c in range(0, len(w), rows):
        for k in range(0, b, own):
            _multiply(
                gradient[k : k + own, c : c + rows], True, h[k : k + own], False, w[c : c + rows],
                later if k else first,
            )
