"""Text that comes from anyone: JSON, numbers and packed bytes, each refused in a line before it
costs time or memory.

A JSON text may be deep, long, hold numbers of a million digits, or begin with a byte order mark.
Numbers are written in the digits 0 to 9: Python would also read those of other scripts, and 1_0 for
10. A hundred kilobytes may unpack to a hundred gigabytes.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import math
import os
import re
import stat
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import IO, Any

from fedtheory.errors import DataFileError, InvalidInput

__all__ = [
    "BOMB", "MOST_BYTES", "SMALL", "UNPACKERS", "TooMuch", "Unpacked", "decimal", "most_unpacked",
    "opened", "parse_json", "ratio", "read_json", "read_text", "unpacked", "whole",
]

MOST_BYTES = 64 * 2**20  # of a file of results
BOMB, SMALL = 250, 64 * 2**20  # bytes of one that is packed, and how many bytes nobody minds
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,4000}(?:\.[0-9]{0,4000})?|\.[0-9]{1,4000})(?:[eE][+-]?[0-9]{1,3})?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,300}")
_RATIO = re.compile(rf"{_NUMBER.pattern}(?:/[0-9]{{1,4000}})?")
MARK, NO_MARK = "\ufeff", "it begins with a byte order mark: save it as UTF-8 without one"
_LONG = re.compile(r"(?:^|[\[:,\s])-?[0-9]{301}")  # text of a fraction begins with a quotation mark
_PIECE = 2**16
PATIENCE = 5.0  # seconds without a byte after which nobody is thought to write into a named pipe
UNPACKERS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "bzip2": bz2.BZ2Decompressor,
    "xz": lambda: lzma.LZMADecompressor(memlimit=2**28),  # xz -9 takes 2**26
}


class TooMuch(InvalidInput):
    """Bytes that unpack to more than any data would."""


def opened(path: Path, most: int) -> IO[bytes]:
    """The file, to be read; of a named pipe what is written into it, up to ``most`` + 1 bytes.

    Raises
    ------
    OSError
        It cannot be opened; a pipe into which nobody writes for `PATIENCE` seconds.
    """
    if not stat.S_ISFIFO(path.stat().st_mode):
        return path.open("rb")
    held, until = bytearray(), time.monotonic() + PATIENCE
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # else it would wait for a writer
    try:
        while len(held) <= most:
            piece: bytes | None = None
            with suppress(BlockingIOError):  # somebody has opened it who has not written yet
                piece = os.read(pipe, _PIECE)
            if piece:
                held += piece
                until = time.monotonic() + PATIENCE
            elif piece == b"" and held:
                break
            elif time.monotonic() > until:
                raise TimeoutError(0, f"nobody writes into this named pipe for {PATIENCE:g} seconds")
            else:
                time.sleep(0.01)
    finally:
        os.close(pipe)
    return io.BytesIO(held[: most + 1])


def read_text(path: Path | str, most: int = MOST_BYTES, what: str = "such a file") -> str:
    """A file of UTF-8 text.

    Raises
    ------
    DataFileError
        Missing, no file, larger than ``most`` bytes, no UTF-8, or with a byte order mark.
    """
    path = Path(path)
    try:
        with opened(path, most) as file:
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
    if text.startswith(MARK):
        raise DataFileError(f"{path}: {NO_MARK}")
    return text


def parse_json(text: str, label: str) -> Any:
    """JSON as its standard has it: no NaN, no infinities, no number that floats cannot hold.

    Raises
    ------
    DataFileError
        Named by ``label``.
    """
    if text.startswith(MARK):
        raise DataFileError(f"{label}: {NO_MARK}")
    if any(text[at : at + 150].isdigit() for at in range(0, len(text), 150)) and _LONG.search(text):  # 301 digits hold one of these
        raise DataFileError(f"{label}: it holds a whole number of more than 300 digits: no result has such a number")
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise DataFileError(f"{label}: not JSON, or truncated (line {error.lineno}: {error.msg})") from error
    except ValueError as error:
        raise DataFileError(f"{label}: {error}: no result has such a number") from error
    except RecursionError as error:
        raise DataFileError(f"{label}: its brackets are nested too deeply for a result") from error
    except MemoryError as error:
        raise DataFileError(f"{label}: its values do not fit into the memory that is free") from error


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
    """'-0.25' or '1e-3' as a float. Raises ValueError for other text, and what is not finite."""
    if not _NUMBER.fullmatch(text.strip()):
        raise ValueError(f"{text[:40]!r} is no number")
    return _finite(text)


def whole(text: str) -> int:
    """'-12' as an int. Raises ValueError for any other text, and for more than 300 digits."""
    if not _WHOLE.fullmatch(text.strip()):
        raise ValueError(f"{text[:40]!r} is no whole number")
    return int(text)


def ratio(text: str) -> Fraction:
    """'1/3', '0.1', '1e-3' or '2' as a fraction. Raises ValueError for any other text, as for an
    exponent of more than three digits, which would be computed for hours, and ZeroDivisionError for
    '1/0'."""
    if not _RATIO.fullmatch(text.strip()):
        raise ValueError(f"{text[:40]!r} is no number such as 2, 0.25 or 1/3")
    top, _, bottom = text.strip().partition("/")
    return Fraction(top) / Fraction(bottom or 1)


class Unpacked(io.RawIOBase):
    """The unpacked content of a file of gzip, bzip2 or xz, read as it is asked for.

    All parts of the file come one after the other.

    Parameters
    ----------
    kind : a key of `UNPACKERS`
    file : the packed bytes, from here on
    size : int
        How many they are.

    Raises
    ------
    TooMuch
        By its reading: more than `SMALL` bytes, and more than `BOMB` times as many as those that
        they come from, or too many parts.
    EOFError
        They end early.
    OSError, zlib.error, lzma.LZMAError
        They are damaged.
    """

    def __init__(self, kind: str, file: IO[bytes], size: int) -> None:
        self._make, self._file, self._size = UNPACKERS[kind], file, size
        self._part: Any = None
        self._parts = self._bytes = self._used = 0
        self._raw = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = b""
        while not piece and ((self._part is not None and not self._part.eof) or self._begun()):
            piece = self._piece(len(buffer))
        self._bytes += len(piece)
        if self._bytes > most_unpacked(self._used):
            raise TooMuch(f"its first {self._used:,} bytes unpack to more than {BOMB} times as many, as no data do")
        buffer[: len(piece)] = piece
        return len(piece)

    def _begun(self) -> bool:
        """Begin the next part; zeros between parts are padding. False at the end."""
        self._raw = self._raw.lstrip(b"\0")
        while not self._raw and (more := self._read()):
            self._raw = more.lstrip(b"\0")
        if not self._raw and self._parts:
            return False
        self._part, self._parts = self._make(), self._parts + 1
        if self._parts > 1000 + self._size // 1000:
            raise TooMuch(f"its {self._size:,} bytes are in more than {self._parts - 1:,} parts, as no data are")
        return True

    def _read(self) -> bytes:
        raw = self._file.read(_PIECE)
        self._used += len(raw)
        return raw

    def _piece(self, most: int) -> bytes:
        if not self._raw and getattr(self._part, "needs_input", True):
            self._raw = self._read()
        given = self._raw
        piece: bytes = self._part.decompress(given, most)
        self._raw = self._part.unused_data if self._part.eof else getattr(self._part, "unconsumed_tail", b"")
        if not (piece or given or self._part.eof):
            raise EOFError("it ended before the end-of-stream marker was reached")
        return piece


def most_unpacked(size: int) -> int:
    """The most bytes that so many are believed to unpack to."""
    return max(SMALL, BOMB * size)


def unpacked(kind: str, raw: bytes, most: int) -> bytes:
    """Unpack packed bytes; raise as `Unpacked` does, and `TooMuch` for more than ``most`` bytes."""
    out, stream = bytearray(), Unpacked(kind, io.BytesIO(raw), len(raw))
    while piece := stream.read(2**20):
        out += piece
        if len(out) > most:
            raise TooMuch(f"it unpacks to more than {most / 2**30:.3g} GiB")
    return bytes(out)
