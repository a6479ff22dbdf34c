"""Random rounding, without bias, to powers of two, to a grid, or to three values."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, cast

import numpy as np

from fedtheory.arrays import Array, astype_like, namespace, to_numpy
from fedtheory.errors import InvalidInput
from fedtheory.inputs import real_number
from fedtheory.messages import encoders as en
from fedtheory.messages import formats
from fedtheory.messages.base import TwoPoint, exact
from fedtheory.messages.encoders import Encoded, Reader
from fedtheory.messages.quantisers import root_above

__all__ = ["NaturalRounding", "StochasticRounding"]

_EXPONENT = np.uint64(0x7FF0000000000000)  # exponent field of a float64
_GRID_LIMIT = 2.0**51  # steps of a grid an entry may be away from 0


@dataclass(frozen=True)
class NaturalRounding(TwoPoint):
    """Stochastic rounding to a power of two: natural compression (Horvath et al. 2019, Definition 1).

    omega = 1/8, sharp at |x_i| = 4/3 * 2^a: with |x_i| = 2^a u, 1 <= u <= 2, the variance is 4^a (u - 1)(2 - u), and
    (u - 1)(2 - u)/u^2 is greatest, 1/8, at u = 4/3. Below the smallest normal number the neighbours are 0 and that number: still
    unbiased, but 1/8 no longer holds (exact arithmetic has no such limit).

    On the wire: the sign and the exponent of the float, 12 bits an entry (9 with 32-bit floats).
    """

    name: ClassVar[str] = "natural"

    @property
    def _range(self) -> tuple[int, int, int]:
        """Exponent bits; exponents of the smallest and of the largest power that can be sent."""
        return (11, -1022, 1023) if self.float_bits == 64 else (8, -126, 127)

    def _points(self, x: Array) -> tuple[Array, Array, Array]:
        magnitude = abs(x)
        if exact(x):
            low = np.array([*(_power_below(Fraction(v)) for v in magnitude.ravel()), None], dtype=object)[:-1].reshape(
                x.shape
            )
            chance = np.where(low > 0, (magnitude - low) / np.where(low > 0, low, 1), 0)
            return low, 2 * low, chance
        xp = namespace(x)
        _, least, most = self._range
        if x.dtype == xp.float32:
            least, most = -126, 127
        host = to_numpy(magnitude).astype(np.float64)
        if (host > 2.0**most).any():
            where = tuple(int(i) for i in np.argwhere(host > 2.0**most)[0])
            raise InvalidInput(
                f"entry {where} of the message is {to_numpy(x)[where]}, above 2^{most}, the largest power of two "
                "on the wire: scale it down"
            )
        low = (host.view(np.uint64) & _EXPONENT).view(
            np.float64
        )  # the mantissa cleared: 0 below the smallest normal number
        low = np.where(low < 2.0**least, 0.0, low) if least > -1022 else low
        with np.errstate(over="ignore"):
            high = np.clip(2.0 * low, 2.0**least, 2.0**most)
        chance = np.where(high > low, (host - low) / np.where(high > low, high - low, 1.0), 0.0)
        return astype_like(low, x), astype_like(high, x), astype_like(chance, x)

    def variance_exact(self, dim: int) -> Fraction | None:
        return Fraction(1, 8)

    def _exponents(self, rows: np.ndarray) -> np.ndarray:
        """The exponent field: 0 for 0, else the exponent plus the bias of the float."""
        mantissa, exponent = np.frexp(np.abs(rows))
        _, least, _ = self._range
        code = np.where(rows == 0, 0, exponent - least)
        wrong = np.argwhere((rows != 0) & ((mantissa != 0.5) | (code < 1)))
        if wrong.size:
            row, column = wrong[0]
            raise InvalidInput(
                f"entry {column} of message {row} is {float(rows[row, column])!r}, no power of two from 2^{least} on: "
                "encode what compress() returned"
            )
        return code

    def _bits(self, rows: np.ndarray) -> np.ndarray:
        self._exponents(rows)
        return np.full(rows.shape[0], rows.shape[1] * (1 + self._range[0]))

    def _encode(self, row: np.ndarray) -> Encoded:
        width, _, _ = self._range
        return en.pack(en.fixed(self._exponents(row[None])[0] + (np.signbit(row).astype(np.int64) << width), width + 1))

    def _decode(self, encoded: Encoded, dim: int) -> np.ndarray:
        reader = Reader(encoded, self.name)
        width, least, most = self._range
        raw = reader.block(dim, width + 1, "entries").astype(np.int64)
        reader.close()
        code = raw & ((1 << width) - 1)
        if code.max() > most - least + 1:
            i = int(code.argmax())
            reader.corrupt(f"entry {i} has exponent field {code[i]}, expected at most {most - least + 1}")
        magnitude = np.where(code > 0, np.ldexp(1.0, code + least - 1), 0.0)
        return np.where(raw >> width, -magnitude, magnitude)


def _power_below(value: Fraction) -> Fraction:
    """The greatest power of two that is <= value > 0; 0 for 0."""
    if value == 0:
        return Fraction(0)
    power = Fraction(2) ** (value.numerator.bit_length() - value.denominator.bit_length())
    return power if power <= value else power / 2


@dataclass(frozen=True)
class StochasticRounding(TwoPoint):
    """Stochastic rounding to the multiples of a step, or, without one, to {-a, 0, a} with a = max_i |x_i|.

    With a step h: E||C(x) - x||^2 = h^2 sum f(1 - f) <= d h^2/4, an absolute factor, sharp where every fractional part is 1/2. No
    omega: as x tends to 0 the variance h|x_i| is not O(x_i^2).
    Ternary (Wen et al. 2017, TernGrad): E||C(x) - x||^2 = a||x||_1 - ||x||^2, and omega = (sqrt(d) - 1)/2, sharp. Proof: with
    a = 1 and the others b on average, ||x||_1/||x||^2 <= (1 + (d - 1)b)/(1 + (d - 1)b^2) (equal entries have the least squares),
    which is greatest, (1 + sqrt(d))/2, at b = 1/(1 + sqrt(d)).

    On the wire: with a step, known to both sides, the Elias gamma codes of 2|l_i| + [l_i <= 0] (0 takes one bit); without, ternary
    as `ST` has it.

    Parameters
    ----------
    step : > 0, a Fraction for exact work, or None. With a step no float is sent, and float_bits plays no part.
    """

    name: ClassVar[str] = "stochastic"

    step: float | Fraction | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step is not None:
            real_number("step", self.step, above=0, remedy="it is the spacing of the grid; None rounds to 0, ±max")

    def _points(self, x: Array) -> tuple[Array, Array, Array]:
        return self._ternary_points(x) if self.step is None else self._grid_points(x)

    @property
    def _sent_bits(self) -> int:
        return self.float_bits if self.step is None else 64  # of a grid, integers are sent

    def _grid_points(self, x: Array) -> tuple[Array, Array, Array]:
        step = cast(float | Fraction, self.step)  # of a grid
        h: Any = Fraction(step) if exact(x) else float(step)
        if exact(x):
            low = abs(x) // h
            return h * low, h * (low + 1), abs(x) / h - low
        xp = namespace(x)
        with np.errstate(over="ignore"):
            ratio = abs(x) / h
        if bool(xp.any(ratio > _GRID_LIMIT)):
            where = tuple(int(i) for i in np.argwhere(to_numpy(ratio > _GRID_LIMIT))[0])
            raise InvalidInput(
                f"entry {where} of the message is {to_numpy(x)[where]}, more than 2^51 steps of {h:g}: use a larger step"
            )
        low = xp.floor(ratio)
        return h * low, h * (low + 1.0), ratio - low

    def _ternary_points(self, x: Array) -> tuple[Array, Array, Array]:
        xp = np if exact(x) else namespace(x)
        magnitude = abs(x)
        top = xp.max(magnitude, axis=-1, keepdims=True)
        if exact(x):
            scale = np.where(top > 0, top, np.asarray(Fraction(1)))
        else:
            up = self._rounded_up(top)
            scale = xp.where(up > 0, up, xp.ones_like(up))
        return 0 * scale, scale, magnitude / scale

    def _rounded_up(self, top: Array) -> Array:
        """The least float of float_bits that is >= top: an entry must not be kept with a probability above 1."""
        if self.float_bits == 64:
            return top
        host = to_numpy(top)
        short = host.astype(np.float32)
        return astype_like(
            np.where(short < host, np.nextafter(short, np.float32(np.inf)), short).astype(host.dtype), top
        )

    def variance_exact(self, dim: int) -> Fraction | None:
        if self.step is not None:
            return None
        if self.float_bits == 64:
            return (root_above(Fraction(dim)) - 1) / 2
        return (root_above(Fraction(dim)) * (1 + Fraction(1, 2**23)) + Fraction(1, 2**22) - 1) / 2

    def absolute_exact(self, dim: int) -> Fraction | None:
        return None if self.step is None else dim * Fraction(self.step) ** 2 / 4

    def _multiples(self, rows: np.ndarray) -> np.ndarray:
        h = float(cast(float | Fraction, self.step))
        with np.errstate(over="ignore"):
            count = np.rint(rows / h)
            grid = count * h
            same = (grid == rows) | (grid.astype(np.float32) == rows)  # messages in single precision round the product
        wrong = np.argwhere(~same | (np.abs(count) > _GRID_LIMIT + 1) | ((rows == 0) & np.signbit(rows)))
        if wrong.size:
            row, column = wrong[0]
            raise InvalidInput(
                f"entry {column} of message {row} is {float(rows[row, column])!r}, no multiple of {h:g}: "
                "encode what compress() returned"
            )
        return count.astype(np.int64)

    def _symbols(self, rows: np.ndarray) -> np.ndarray:
        count = self._multiples(rows)
        return 2 * np.abs(count) + (count <= 0)

    def _bits(self, rows: np.ndarray) -> np.ndarray:
        if self.step is None:
            return formats.ternary_bits(rows, self.float_bits, self.name)
        return en.gamma_length(self._symbols(rows)).sum(axis=1)

    def _encode(self, row: np.ndarray) -> Encoded:
        if self.step is None:
            return formats.encode_ternary(row, self.float_bits, self.name)
        return en.pack(en.gamma_fields(self._symbols(row[None])[0]))

    def _decode(self, encoded: Encoded, dim: int) -> np.ndarray:
        if self.step is None:
            return formats.decode_ternary(encoded, dim, self.float_bits, self.name)
        reader = Reader(encoded, self.name)
        symbols = np.array([reader.gamma(f"entry {i}") for i in range(dim)])
        reader.close()
        count = symbols // 2
        return np.where(symbols % 2 == 1, -count, count) * float(self.step)
