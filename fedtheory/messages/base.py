"""Compressors: a map C of messages, its factor, and its encoding."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import array_api_compat
import numpy as np

from fedtheory.arrays import Array, all_finite, is_numpy, namespace, to_numpy
from fedtheory.errors import DataFileError, InvalidInput, MissingCapability
from fedtheory.inputs import real_array, shown, whole_number
from fedtheory.messages.encoders import Encoded
from fedtheory.messages.formats import check_representable

__all__ = ["Compressor", "Few", "TwoPoint", "as_uniforms", "entries_kept", "exact", "mean_of", "norm_sq", "signed"]

DIGITS = {64: 53, 32: 24}  # binary digits of a float's mantissa


def exact(x: Array) -> bool:
    """True if x is an object array (of Fractions or ints): then everything is computed without rounding."""
    return is_numpy(x) and x.dtype == object


def as_uniforms(uniforms: Array, like: Array) -> Array:
    """Uniforms in like's namespace, in double precision (single precision would round some up to 1)."""
    if exact(like) or namespace(uniforms) is namespace(like):
        return uniforms
    xp = namespace(like)
    return xp.asarray(to_numpy(uniforms), dtype=xp.float64, device=array_api_compat.device(like))


def mean_of(magnitudes: Array, k: float) -> Array:
    """Their sum over k, (..., d) -> (..., 1), also where the sum overflows and the quotient does not."""
    xp = namespace(magnitudes)
    small = 0.5 ** magnitudes.shape[-1].bit_length()
    with np.errstate(over="ignore"):
        mean = xp.sum(magnitudes, axis=-1, keepdims=True) / k
        if not bool(xp.all(xp.isfinite(mean))):
            again = xp.sum(magnitudes * small, axis=-1, keepdims=True) / k / small
            mean = xp.where(xp.isfinite(mean), mean, again)
    if not bool(xp.all(xp.isfinite(mean))):
        raise InvalidInput(f"the magnitude sent, a sum over {k:g}, overflows: scale the message down")
    return mean


def norm_sq(x: Array) -> Array:
    """||x||^2 along the last axis."""
    return namespace(x).sum(x * x, axis=-1)


def entries_kept(q: float | Fraction, dim: int) -> int | float | Fraction:
    """nq: an int where it is one up to the rounding of q and of the product, else as it is (q = 0.07, n = 100: 7)."""
    product: Any = q * dim if isinstance(q, Fraction) else float(q) * dim
    near = round(product)
    tolerance = 0 if isinstance(q, Fraction) else 2.0**-50 * product
    return near if abs(product - near) <= tolerance else product


def _in_unit(uniforms: Any) -> bool:
    """True if all are in [0, 1), Fractions as well; NaN is not."""
    if isinstance(uniforms, np.ndarray):
        return bool(uniforms.min() >= 0 and uniforms.max() < 1)
    xp = namespace(uniforms)
    return bool(xp.all((uniforms >= 0) & (uniforms < 1)))


class Few(NamedTuple):
    """Messages (R, d) by their entries that are not 0, row by row: their flat places and values (M,), and the messages' bits (R,)."""

    where: np.ndarray
    values: np.ndarray
    bits: np.ndarray


@dataclass(frozen=True)
class Compressor(ABC):
    """A map C of messages in R^d, with its factor and its encoding.

    Numbers on the wire are IEEE 754 floats of ``float_bits`` bits (64 or 32). With 32, ``compress`` rounds what is sent, so
    that sender and receiver agree on it. Factors are those of exact arithmetic with the rounding to ``float_bits`` taken into
    account, for messages outside the subnormal range; computing in float64 adds rounding of relative size d * 2^-53.

    Attributes
    ----------
    name : as `fedtheory.messages.get` takes it.
    randomised : whether ``compress`` needs uniforms.
    """

    name: ClassVar[str]
    randomised: ClassVar[bool] = False

    float_bits: int = field(default=64, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.float_bits, int) or self.float_bits not in DIGITS:
            raise InvalidInput(f"float_bits is {self.float_bits!r}: numbers are sent with 32 or 64 bits")

    def check(self, dim: int) -> None:
        """Refuses a dimension the compressor is not defined in (InvalidInput)."""
        if dim < 1:
            raise InvalidInput(f"messages of dimension {dim}: there must be at least one entry")

    def most(self, dim: int) -> int:
        """The most entries of a message that are not 0."""
        return dim

    def compress(self, x: Array, uniforms: Array | None = None) -> Array:
        """C(x), for every message of x (..., d) -> (..., d), in x's namespace and dtype; zeros come out as +0.0, but of `Identity`
        as they are.

        uniforms : of x's shape, independent and uniform in [0, 1); for randomised compressors, which do not draw themselves.
        x may be an object array of Fractions: then C is computed exactly, as with infinitely long floats.

        Raises
        ------
        InvalidInput
            An entry that is not finite, or too large for the wire; missing uniforms; a dimension refused by `check`.
        """
        self._enter_to_send(x, uniforms)
        return self._compress(x, uniforms)

    @abstractmethod
    def _compress(self, x: Array, uniforms: Array | None) -> Array: ...

    def sent(self, x: Array, uniforms: Array | None = None) -> tuple[Array, np.ndarray]:
        """`compress` of the messages (..., d), and `bits` of what it made, (...)."""
        message = self.compress(x, uniforms)
        return message, self.bits(message)

    def few(self, x: np.ndarray, compiled: bool = False) -> Few | None:
        """`compress` and `bits` of finite floats (R, d) by the entries that are sent; None: only these two say it.

        compiled : these are some of so many that Numba is worth its import.
        """
        return None

    def bits(self, message: Array) -> np.ndarray:
        """Bits of ``encode`` for each message (..., d) that ``compress`` returned -> int64 (...).

        Raises
        ------
        InvalidInput
            A message that this compressor cannot have sent.
        """
        host = message if type(message) is np.ndarray and message.dtype == float else real_array("message", message, finite=False)
        if host.ndim < 1:
            raise InvalidInput(f"message = {shown(message)}: a message is an array (..., d)")
        rows = np.ascontiguousarray(host).reshape(-1, host.shape[-1])
        self._enter_message(rows)
        found = np.asarray(self._bits(rows), dtype=np.int64).reshape(host.shape[:-1])
        self._check_count(rows)
        return found

    @abstractmethod
    def _bits(self, rows: np.ndarray) -> np.ndarray: ...

    def encode(self, message: Array) -> Encoded:
        """The message (d,) as it crosses the wire; `decode` gives it back bit for bit. Raises as `bits` does."""
        row = np.ascontiguousarray(real_array("message", message, finite=False))
        if row.ndim != 1:
            raise InvalidInput(f"encode takes one message (d,), not an array of shape {row.shape}: encode row by row")
        self._enter_message(row[None])
        found = self._encode(row)
        self._check_count(row[None])
        return found

    @abstractmethod
    def _encode(self, row: np.ndarray) -> Encoded: ...

    def decode(self, encoded: Encoded, dim: int) -> np.ndarray:
        """The message (d,) in float64.

        Raises
        ------
        DataFileError
            A payload that is truncated, overlong or corrupt: says what was expected and what was found.
        InvalidInput
            Something else than an `Encoded`; a dimension refused by `check`.
        """
        if not isinstance(encoded, Encoded):
            raise InvalidInput(f"encoded = {shown(encoded)}: give what encode() returned")
        self.check(whole_number("dim", dim))
        message = self._decode(encoded, dim)
        if (found := np.count_nonzero(message)) > (most := self.most(dim)):
            raise DataFileError(f"{self.name}: the message has {found} entries that are not 0, expected at most {most}")
        return message

    @abstractmethod
    def _decode(self, encoded: Encoded, dim: int) -> np.ndarray: ...

    # Factors. Fractions, so that rational instances are judged without rounding; a square root is rounded up.

    def contraction_exact(self, dim: int) -> Fraction | None:
        """The largest known delta in (0, 1] with E||C(x) - x||^2 <= (1 - delta)||x||^2 for every x in R^dim; None: there is none."""
        omega = self.variance_exact(dim)
        return 1 - omega if omega is not None and omega < 1 else None

    def variance_exact(self, dim: int) -> Fraction | None:
        """omega with E C(x) = x and E||C(x) - x||^2 <= omega||x||^2 for every x in R^dim; None where there is none."""
        return None

    def absolute_exact(self, dim: int) -> Fraction | None:
        """Delta_sq with E||C(x) - x||^2 <= Delta_sq for every x in R^dim; None where the error grows with x."""
        return None

    def contraction(self, dim: int) -> float | None:
        """`contraction_exact` as a float."""
        self.check(dim)
        return _float(self.contraction_exact(dim))

    def variance(self, dim: int) -> float | None:
        """`variance_exact` as a float."""
        self.check(dim)
        return _float(self.variance_exact(dim))

    def absolute(self, dim: int) -> float | None:
        """`absolute_exact` as a float."""
        self.check(dim)
        return _float(self.absolute_exact(dim))

    # Exact expectations over the uniforms.

    def expected(self, x: Array) -> Array:
        """E C(x), in closed form: (..., d) -> (..., d); exact on object arrays."""
        self._enter(x)
        return self._compress(x, None)

    def expected_error_sq(self, x: Array) -> Array:
        """E||C(x) - x||^2, in closed form: (..., d) -> (...); exact on object arrays."""
        return norm_sq(self.expected(x) - x)

    def contraction_sides(self, x: Array) -> tuple[Array, Array]:
        """E||C(x) - x||^2 and (1 - delta)||x||^2, each (...). MissingCapability where there is no delta."""
        return self._sides(x, "contraction_exact", lambda delta, x: (1 - delta) * norm_sq(x))

    def variance_sides(self, x: Array) -> tuple[Array, Array]:
        """E||C(x) - x||^2 and omega||x||^2, each (...). MissingCapability where there is no omega."""
        return self._sides(x, "variance_exact", lambda omega, x: omega * norm_sq(x))

    def absolute_sides(self, x: Array) -> tuple[Array, Array]:
        """E||C(x) - x||^2 and Delta_sq, each (...). MissingCapability where there is no Delta_sq."""
        return self._sides(x, "absolute_exact", lambda bound, x: bound + 0 * norm_sq(x))

    def _sides(self, x: Array, factor: str, right: Any) -> tuple[Array, Array]:
        dim = x.shape[-1]
        left = self.expected_error_sq(x)
        value = getattr(self, factor)(dim)
        if value is None:
            raise MissingCapability(
                f"{self} has no {factor.removesuffix('_exact')} factor for d = {dim}: judge expected_error_sq(x) against a bound "
                "of your own"
            )
        return left, right(value if exact(x) else float(value), x)

    # Entering.

    def _enter_to_send(self, x: Array, uniforms: Array | None) -> None:
        self._enter(x)
        if self.randomised and (shape := getattr(uniforms, "shape", None)) != x.shape:
            raise InvalidInput(
                f"{self.name} is randomised: give uniforms in [0, 1) of shape {tuple(x.shape)}, "
                f"not {None if shape is None else tuple(shape)}"
            )
        if self.randomised and math.prod(x.shape) and not _in_unit(uniforms):
            raise InvalidInput(f"{self.name} is randomised: give uniforms in [0, 1), and no others, nor NaN")

    def _enter(self, x: Array) -> None:
        if getattr(x, "ndim", 0) < 1:
            raise InvalidInput(f"message = {shown(x)}: a message is an array (..., d), not a number or a list")
        self.check(x.shape[-1])
        if exact(x):
            return
        xp = namespace(x)
        if not (x.dtype.kind == "f" if is_numpy(x) else xp.isdtype(x.dtype, "real floating")):
            raise InvalidInput(f"a message of dtype {x.dtype}: give floats, or an object array of Fractions")
        if not all_finite(x):
            where = tuple(int(i) for i in np.argwhere(~to_numpy(xp.isfinite(x)))[0])
            raise InvalidInput(
                f"entry {where} of the message is {to_numpy(x)[where]}: {self.name} compresses finite numbers only; "
                "the run diverged before, lower its step"
            )
        if self.float_bits == 32:
            limit = float(np.finfo(np.float32).max)
            if bool(xp.any(xp.abs(x) > limit)):
                where = tuple(int(i) for i in np.argwhere(to_numpy(xp.abs(x)) > limit)[0])
                raise InvalidInput(
                    f"entry {where} of the message is {to_numpy(x)[where]}, above {limit:.4g}, the largest 32-bit float: "
                    "use float_bits=64"
                )

    def _fit(self, x: np.ndarray) -> bool:
        """True if finite numbers are small enough for the wire."""
        return self.float_bits == 64 or not bool((np.abs(x) > np.finfo(np.float32).max).any())

    def _enter_message(self, rows: np.ndarray) -> None:
        self.check(rows.shape[1])
        check_representable(rows, self._sent_bits, self.name)

    def _check_count(self, rows: np.ndarray) -> None:
        most = self.most(rows.shape[1])
        if most < rows.shape[1] and (counts := np.count_nonzero(rows, axis=1)).max(initial=0) > most:
            worst = int(counts.argmax())
            raise InvalidInput(
                f"message {worst} has {counts[worst]} entries that are not 0 where {self.name} sends at most {most}: encode what "
                "compress() returned"
            )

    def _rounded(self, x: Array) -> Array:
        """x as it is sent: to the nearest float of float_bits; exact numbers stay as they are."""
        if self.float_bits == 64 or exact(x):
            return x
        xp = namespace(x)
        with np.errstate(over="ignore", under="ignore"):
            return xp.astype(xp.astype(x, xp.float32), x.dtype)

    @property
    def _sent_bits(self) -> int:
        """The width of float that the entries of a message fit into."""
        return self.float_bits

    @property
    def _rounding_sq(self) -> Fraction:
        """Squared relative error of rounding what is sent: (2^-24)^2 with 32 bits. 0 with 64, where nothing else is rounded to."""
        return Fraction(0) if self.float_bits == 64 else Fraction(1, 4 ** DIGITS[32])


def _float(value: Fraction | None) -> float | None:
    return None if value is None else float(value)


class TwoPoint(Compressor):
    """The magnitude of every entry is rounded, independently, to one of two numbers; its sign stays."""

    randomised = True

    @abstractmethod
    def _points(self, x: Array) -> tuple[Array, Array, Array]:
        """(low, high, P(high)), broadcasting to x's shape: what |x_i| becomes, low <= |x_i| <= high."""

    def _compress(self, x: Array, uniforms: Array | None) -> Array:
        low, high, chance = self._points(x)
        return signed(x, namespace(x).where(as_uniforms(uniforms, x) < chance, high, low))

    def expected(self, x: Array) -> Array:
        self._enter(x)
        low, high, chance = self._points(x)
        return signed(x, low + chance * (high - low))

    def expected_error_sq(self, x: Array) -> Array:
        self._enter(x)
        low, high, chance = self._points(x)
        return namespace(x).sum((1 - chance) * (low - abs(x)) ** 2 + chance * (high - abs(x)) ** 2, axis=-1)


def signed(x: Array, magnitude: Array) -> Array:
    """magnitude >= 0 with the sign of x; a zero comes out as +0.0."""
    if exact(x):
        return np.where(x < 0, -magnitude, magnitude)
    return namespace(x).copysign(magnitude, x) + 0.0
