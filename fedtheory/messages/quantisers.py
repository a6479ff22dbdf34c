"""QSGD: every entry rounded at random, without bias, to a multiple of the message's norm over the number of levels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from fedtheory.arrays import Array, all_true, astype_like, is_numpy, namespace, to_numpy
from fedtheory.compiled import Worth
from fedtheory.errors import InvalidInput
from fedtheory.inputs import whole_number
from fedtheory.messages import encoders as en
from fedtheory.messages import formats
from fedtheory.messages.base import DIGITS, TwoPoint, as_uniforms, exact, norm_sq, signed
from fedtheory.messages.encoders import Encoded, Reader

__all__ = ["QSGD", "root_above"]

_SMALLEST = {64: -1074, 32: -149}  # exponent of the smallest float
_LARGEST = {64: float(np.finfo(np.float64).max), 32: float(np.finfo(np.float32).max)}


def root_above(square: Fraction) -> Fraction:
    """A rational >= sqrt(square), above it by less than 2^-60 relatively; exact for squares of short fractions."""
    root = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
    if root * root == square:
        return root
    scale = 64 + max(0, (square.denominator.bit_length() - square.numerator.bit_length()) // 2)
    return Fraction(math.isqrt(square.numerator * 4**scale // square.denominator) + 1, 2**scale)


def _short_above(value: Any, digits: int, smallest: int = _SMALLEST[64]) -> Any:
    """The least number of at most ``digits`` binary digits that is >= value > 0 (floats, elementwise, that are whole
    multiples of 2^smallest afterwards, or one Fraction)."""
    if isinstance(value, Fraction):
        exponent = value.numerator.bit_length() - value.denominator.bit_length() - digits
        scaled = value / Fraction(2) ** exponent
        if scaled.__ceil__() > 2**digits:
            exponent, scaled = exponent + 1, scaled / 2
        return scaled.__ceil__() * Fraction(2) ** exponent
    exponent = np.maximum(np.frexp(value)[1] - digits, smallest)
    return np.ldexp(np.ceil(np.ldexp(value, -exponent)), exponent)


def _common_divisor(magnitudes: np.ndarray) -> np.ndarray:
    """(R, 1) the greatest float that every entry of a row (R, d), not zero, is a whole multiple of.

    Only for rows of whole multiples, below 2^53, of one unit; of others anything comes out.
    """
    exponent = np.frexp(magnitudes.max(axis=1, keepdims=True))[1] - 53  # 2^exponent divides every entry of such a row
    whole = np.floor(np.ldexp(magnitudes, -exponent)).astype(np.int64)
    return np.ldexp(np.gcd.reduce(whole, axis=1, keepdims=True).astype(float), exponent)


_worth = Worth(calls=18_000)  # that take NumPy as much longer as it takes to import Numba and to load the loops


@cache
def _quantise() -> Any:
    """The compiled loops, with which Numba is imported."""
    from fedtheory.messages.quantiser_kernels import quantise

    return quantise


@dataclass(frozen=True)
class QSGD(TwoPoint):
    """Stochastic rounding of |x_i|/||x|| to multiples of 1/levels (Alistarh et al. 2017, section 3.1).

    C(x)_i = c l_i sign(x_i), with the step c = ||x||/levels and l_i the lower or the upper neighbour of r_i = |x_i|/c, so that
    E C(x) = x. c is rounded up to so few binary digits that every c l_i is a float: then the message determines its own c and l
    (up to a common factor of the l), and decoding is exact. Rounding up keeps l_i <= levels and E C(x) = x.

    omega = psi(t)/t with t = levels^2/d and psi(t) = sqrt(t) - t for t <= 1/4, else 1/4; below the paper's
    min(1/t, 1/sqrt(t)). Proof: with f the fractional part of r_i, E(C(x)_i - x_i)^2 = c^2 f(1 - f) <= c^2 psi(r_i^2), since
    f(1 - f) <= min(r(1 - r), 1/4) for r <= 1/2 and <= 1/4 always. psi is concave, so that Jensen gives c^2 d psi(sum r_i^2/d) with
    sum r_i^2 = ||x||^2/c^2 = t d. For t <= 1/4 it is sharp: all |x_i| equal. Beyond it is sharp wherever 4 levels^2
    is a sum of d odd squares, so that every r_i can be half an odd number: d = 4, levels = 3, x = (5, 3, 1, 1). The
    paper's factor is larger by 1 for t <= 1/4, 4 sqrt(t) times as large from there to t = 1, and 4 times beyond.
    psi(t)/t falls with t: the c rounded up by a factor 1 + eps counts as levels/(1 + eps).

    On the wire (the paper's section 3.2, with the step in the place of the norm; Elias means the recursive omega code, as there):
    "sparse": count (bits of d) | step | Elias(gap + 1) of each nonzero | its sign | Elias(l_i). Only the count when it is 0.
    "dense": step | Elias(l_i + 1) of every entry | the signs of those that are not 0.
    "auto": dense where levels^2 >= d, the regime in which the paper uses it. The paper leaves the end of the sparse code to the
    framing and sends a sign with zeros; here the count is sent, and signs of zeros are not.

    Parameters
    ----------
    levels : s in the paper, 1 .. 2^30 (2^12 with 32-bit floats).
    code : see above.
    """

    name: ClassVar[str] = "qsgd"

    levels: int
    code: Literal["auto", "sparse", "dense"] = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        limit = 2**30 if self.float_bits == 64 else 2**12
        whole_number("levels", self.levels, most=limit, remedy=f"with {self.float_bits}-bit floats the step must stay short")
        if self.code not in ("auto", "sparse", "dense"):
            raise InvalidInput(f"code is {self.code!r}; known: 'auto', 'sparse', 'dense'")

    @property
    def _digits(self) -> int:
        return DIGITS[self.float_bits] - int(self.levels).bit_length()

    def step(self, x: Array) -> Array:
        """c of each message, (..., 1); 1 for messages that are zero."""
        s = int(self.levels)
        if exact(x):
            squares = np.asarray(norm_sq(x), dtype=object)[..., None]
            out = [
                _short_above(root_above(Fraction(v)) / s, self._digits) if v else Fraction(1) for v in squares.ravel()
            ]
            return np.array([*out, None], dtype=object)[:-1].reshape(squares.shape)
        xp = namespace(x)
        top = xp.max(abs(x), axis=-1, keepdims=True)
        scale = top if is_numpy(top) and all_true(top) else xp.where(top > 0, top, xp.ones_like(top))
        scaled = x / scale
        length = xp.sqrt(xp.sum(scaled * scaled, axis=-1, keepdims=True))
        top, length = (to_numpy(part).astype(np.float64, copy=False) for part in (top, length))
        digits, smallest, limit = self._floats(32 if x.dtype == xp.float32 else 64)
        with np.errstate(over="ignore", under="ignore"):
            c = _short_above(np.maximum(length / s * top, 2.0**smallest), digits, smallest)
            whole = c * s  # is exact
            low = whole < top
            if np.count_nonzero(low):
                c = np.where(low, _short_above(np.nextafter(c, np.inf), digits, smallest), c)
                whole = c * s
            fits = all_true(whole <= limit)
        if not fits:
            raise InvalidInput(f"a message of norm above {limit:.4g}: QSGD sends its norm as a float, scale the message down")
        return astype_like(c if all_true(top) else np.where(top > 0, c, 1.0), x)

    def _floats(self, width: int) -> tuple[int, int, float]:
        """Digits of the step, exponent of the smallest float, and the largest one, in messages of so many bits a number."""
        width = min(width, self.float_bits)
        return DIGITS[width] - int(self.levels).bit_length(), _SMALLEST[width], _LARGEST[width]

    def _split(self, x: Array) -> tuple[Array, Array, Array]:
        """c (..., 1), and r_i as a whole number and the chance of the next one, (..., d) each."""
        c = self.step(x)
        ratio = abs(x) / c
        low = ratio // 1 if exact(x) else namespace(x).floor(ratio)
        return c, low, ratio - low

    def _levels(self, x: Array, uniforms: Array) -> tuple[Array, Array]:
        """c (..., 1) and l_i (..., d)."""
        c, low, chance = self._split(x)
        up = as_uniforms(uniforms, x) < chance
        return c, low + (up if is_numpy(up) else namespace(x).astype(up, low.dtype))

    def _compress(self, x: Array, uniforms: Array | None) -> Array:
        c, levels = self._levels(x, uniforms)
        return signed(x, c * levels)

    def sent(self, x: Array, uniforms: Array | None = None) -> tuple[Array, np.ndarray]:
        """As of any compressor; of NumPy's floats, whose levels are at hand, without recovering them from the message."""
        if type(self) is not QSGD or not is_numpy(x) or exact(x) or uniforms is None:
            return super().sent(x, uniforms)
        if (found := self._sent_compiled(x, uniforms)) is not None:
            return found
        self._enter_to_send(x, uniforms)
        c, levels = self._levels(x, uniforms)
        whole = levels.astype(np.int64).reshape(-1, x.shape[-1])
        whole //= np.maximum(np.gcd.reduce(whole, axis=1, keepdims=True), 1)
        return signed(x, c * levels), self._length(whole).reshape(x.shape[:-1])

    def _sent_compiled(self, x: np.ndarray, uniforms: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """`sent` by compiled loops; None where they are not for such arrays, not worth it, or what is sent is to be refused."""
        plain = x.dtype.char == uniforms.dtype.char == "d" and x.shape == uniforms.shape and x.ndim and x.shape[-1]
        if not (plain and x.flags.carray and uniforms.flags.carray and _worth()):
            return None
        dim = x.shape[-1]
        out, bits = np.empty(x.shape), np.empty(x.shape[:-1], dtype=np.int64)
        count_bits = 0 if self._layout(dim) == "dense" else en.count_width(dim)
        rows = out.reshape(-1, dim), bits.reshape(-1), x.reshape(-1, dim), uniforms.reshape(-1, dim)
        return (out, bits) if _quantise()(*rows, *self._numbers, count_bits) else None

    @cached_property
    def _numbers(self) -> tuple[int, int, int, float, int]:
        return int(self.levels), *self._floats(64), self.float_bits

    def _points(self, x: Array) -> tuple[Array, Array, Array]:
        c, low, chance = self._split(x)
        high = (np if exact(x) else namespace(x)).where(
            chance > 0, low + 1, low
        )  # never levels + 1, which may overflow
        return c * low, c * high, chance

    def variance_exact(self, dim: int) -> Fraction | None:
        # the step may exceed ||x||/levels by one unit of its last digit, and by the rounding of the norm
        slack = 1 + Fraction(2, 2**self._digits) + Fraction(dim + 8, 2**53)
        t = Fraction(int(self.levels) ** 2, dim) / slack**2
        return root_above(1 / t) - 1 if 4 * t <= 1 else 1 / (4 * t)

    def _layout(self, dim: int) -> str:
        if self.code != "auto":
            return self.code
        return "dense" if int(self.levels) ** 2 >= dim else "sparse"

    def _recover(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Step (R,) and levels (R, d) of messages: their greatest common divisor and what it leaves."""
        magnitude = np.abs(rows)
        step = np.where(magnitude > 0, magnitude, np.inf).min(
            axis=1, keepdims=True
        )  # right, where an entry is at level 1
        step = np.where(np.isinf(step), 1.0, step)
        levels = np.rint(np.minimum(magnitude / step, 2.0**31))
        off = levels * step != magnitude
        if off.any():
            odd = off.any(axis=1)
            step[odd] = _common_divisor(magnitude[odd])
            levels[odd] = np.rint(np.minimum(magnitude[odd] / step[odd], 2.0**31))
            off = levels * step != magnitude
        bad = off | (levels > self.levels) | ((rows == 0) & np.signbit(rows))
        if bad.any():
            row = np.flatnonzero(bad.any(axis=1))[0]
            raise InvalidInput(
                f"message {row} is not made of 0..{self.levels} times one step: encode what compress() returned"
            )
        return np.where(levels.any(axis=1), step[:, 0], 0.0), levels.astype(np.int64)

    def _bits(self, rows: np.ndarray) -> np.ndarray:
        return self._length(self._recover(rows)[1])

    def _length(self, levels: np.ndarray) -> np.ndarray:
        """Bits of messages by their levels (R, d) without a common factor."""
        if self._layout(levels.shape[1]) == "dense":
            return self.float_bits + np.add.reduce(en.omega_length(levels + 1) + (levels > 0), axis=1)
        support = formats.Support(np.flatnonzero(levels), levels.shape)
        lengths = en.omega_length(support.gaps + 1) + 1 + en.omega_length(levels.ravel()[support.flat])
        return en.count_width(support.dim) + np.where(support.counts > 0, self.float_bits, 0) + support.total(lengths)

    def _encode(self, row: np.ndarray) -> Encoded:
        step, levels = self._recover(row[None])
        sent = np.flatnonzero(levels[0])
        signs, head = en.fixed(np.signbit(row[sent]), 1), en.float_fields(step, self.float_bits)
        if self._layout(row.size) == "dense":
            return en.pack(head, en.omega_fields(levels[0] + 1), signs)
        count = en.fixed(sent.size, en.count_width(row.size))
        if not sent.size:
            return en.pack(count)
        gaps = np.diff(sent, prepend=-1)
        return en.pack(count, head, en.omega_fields(gaps), signs, en.omega_fields(levels[0, sent]))

    def _decode(self, encoded: Encoded, dim: int) -> np.ndarray:
        reader = Reader(encoded, self.name)
        levels = np.zeros(dim, dtype=np.int64)
        if self._layout(dim) == "dense":
            step = self._read_step(reader, least=0.0)
            levels[:] = [self._level(reader, i) - 1 for i in range(dim)]
            sent = np.flatnonzero(levels)
            negative = reader.block(sent.size, 1, "the signs") == 1
        elif count := formats.read_count(reader, dim):
            step = self._read_step(reader, least=2.0 ** _SMALLEST[self.float_bits])
            sent = np.cumsum([reader.omega(f"gap {i}") for i in range(count)]) - 1
            if sent[-1] >= dim:
                reader.corrupt(f"position {sent[-1]}, expected less than d = {dim}")
            negative = reader.block(count, 1, "the signs") == 1
            levels[sent] = [self._level(reader, i, 0) for i in range(count)]
        else:
            reader.close()
            return np.zeros(dim)
        reader.close()
        if levels.max() > np.finfo(np.float32 if self.float_bits == 32 else np.float64).max / max(step, 1.0) or (
            step == 0 and sent.size
        ):
            reader.corrupt(
                f"step {step} with levels up to {levels.max()}, expected a positive step and a finite product"
            )
        out = levels * step
        out[sent] = np.where(negative, -out[sent], out[sent])
        return out

    def _read_step(self, reader: Reader, least: float) -> float:
        (step,) = reader.floats(1, self.float_bits, "the step")
        if np.signbit(step) or step < least:
            reader.corrupt(f"the step is {step}, expected at least {least:g}")
        return step

    def _level(self, reader: Reader, i: int, offset: int = 1) -> int:
        value = reader.omega(f"level {i}")
        if value - offset > self.levels:
            reader.corrupt(f"level {i} is {value - offset}, expected at most {self.levels}")
        return value
