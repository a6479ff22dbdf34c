"""Text that comes from anyone: JSON, numbers and packed bytes, each refused in a line before it costs time or memory.

A JSON text may be deep, long, hold numbers of a million digits, or begin with a byte order mark. Numbers are written in the digits 0
to 9: Python would also read those of other scripts, and 1_0 for 10. A hundred kilobytes may unpack to a hundred gigabytes.
"""

from __future__ import annotations

import bz2
import json
import math
import re
import zlib
from fractions import Fraction
from pathlib import Path
from typing import Any

from fedtheory.errors import DataFileError, InvalidInput

__all__ = ["BOMB", "MOST_BYTES", "SMALL", "decimal", "parse_json", "ratio", "read_json", "read_text", "unpacked"]

MOST_BYTES = 64 * 2**20  # of a file of results
BOMB, SMALL = 250, 64 * 2**20  # bytes of one that is packed, and how many bytes nobody minds
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,4000}(?:\.[0-9]{0,4000})?|\.[0-9]{1,4000})(?:[eE][+-]?[0-9]{1,3})?")
_RATIO = re.compile(rf"{_NUMBER.pattern}(?:/[0-9]{{1,4000}})?")
_PIECE = 2**20


def read_text(path: Path | str, most: int = MOST_BYTES, what: str = "such a file") -> str:
    """A file of UTF-8 text.

    Raises
    ------
    DataFileError
        Missing, no file, larger than ``most`` bytes, no UTF-8, or with a byte order mark.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            held = file.read(most + 1)
    except FileNotFoundError as error:
        raise DataFileError(f"{path}: no such file") from error
    except OSError as error:
        raise DataFileError(f"{path}: cannot be read as text ({error.strerror or error})") from error
    if len(held) > most:
        raise DataFileError(f"{path}: more than {most} bytes; {what} has at most {most}")
    try:
        text = held.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise DataFileError(f"{path}: cannot be read as text (byte {error.start} is no UTF-8)") from error
    if text.startswith("\ufeff"):
        raise DataFileError(f"{path}: it begins with a byte order mark: save it as UTF-8 without one")
    return text


def parse_json(text: str, label: str) -> Any:
    """JSON as its standard has it: no NaN, no infinities, no number that floats cannot hold.

    Raises
    ------
    DataFileError
        Named by ``label``.
    """
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise DataFileError(f"{label}: not JSON, or truncated (line {error.lineno}: {error.msg})") from error
    except ValueError as error:
        why = "it holds a whole number of more than 4,300 digits" if "digits" in str(error) else str(error)
        raise DataFileError(f"{label}: {why}: no result has such a number") from error
    except RecursionError as error:
        raise DataFileError(f"{label}: its brackets are nested too deeply for a result") from error


def _no_constant(name: str) -> float:
    raise ValueError(f"it holds {name}, which is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"it holds {text[:40]}, which is too large for a float")
    return value


def read_json(path: Path | str, most: int = MOST_BYTES, what: str = "such a file") -> Any:
    """A JSON file; errors as `read_text` and `parse_json` raise them."""
    return parse_json(read_text(path, most, what), str(path))


def decimal(text: str) -> float:
    """'-0.25' or '1e-3' as a float. Raises ValueError for any other text, and for what is not finite."""
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError(f"{text[:40]!r} is no number")
    return _finite(text)


def ratio(text: str) -> Fraction:
    """'1/3', '0.1', '1e-3' or '2' as a fraction. Raises ValueError for any other text, as for an exponent of more than three digits,
    which would be computed for hours, and ZeroDivisionError for '1/0'."""
    if not _RATIO.fullmatch(text.strip()):
        raise ValueError(f"{text[:40]!r} is no number such as 2, 0.25 or 1/3")
    top, _, bottom = text.strip().partition("/")
    return Fraction(top) / Fraction(bottom or 1)


def unpacked(kind: str, raw: bytes, most: int) -> bytes:
    """What gzip or bzip2 bytes unpack to, all of their parts one after the other.

    Raises
    ------
    InvalidInput
        It is more than ``most`` bytes, or more than `BOMB` times what it was packed to and `SMALL`: both are noticed on the way.
    EOFError
        They end early.
    OSError, zlib.error
        They are damaged.
    """
    out, size = bytearray(), len(raw)
    while raw:
        unpack: Any = zlib.decompressobj(wbits=31) if kind == "gzip" else bz2.BZ2Decompressor()
        while not unpack.eof:
            piece = unpack.decompress(raw, _PIECE)
            raw = unpack.unconsumed_tail if kind == "gzip" else b""
            out += piece
            if not piece and not raw and not unpack.eof:
                raise EOFError("it ended before the end-of-stream marker was reached")
            if len(out) > most:
                raise InvalidInput(f"it unpacks to more than {most / 2**30:.3g} GiB")
            if len(out) > max(SMALL, BOMB * size):
                raise InvalidInput(f"its {size:,} bytes unpack to more than {BOMB} times as many, as no data do")
        raw = unpack.unused_data.lstrip(b"\0")
    return bytes(out)
