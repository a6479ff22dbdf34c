"""Values with arrays in files, NumPy's .npz, which may come from anyone.

What does not fit, is compressed, or holds code is refused before it is read: a file is a JSON text, and arrays of numbers.
"""

from __future__ import annotations

import json
import lzma
import math
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.errors import DataFileError
from fedtheory.limits import free_memory
from fedtheory.untrusted import parse_json

__all__ = ["DAMAGE", "Unpackable", "opened", "packed", "unpacked"]

KINDS = "biuf"  # of NumPy's dtypes
SMALL = 2**16  # bytes of an array that has no member of its own in the file

DAMAGE = (  # what zipfile and NumPy raise: a RuntimeError for a version or an encryption that they do not know
    ValueError, TypeError, AttributeError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip


def opened(path: Path | str, remedy: str = "delete it") -> Any:
    """The arrays of a file, each read when it is asked for; a context manager.

    Raises
    ------
    DataFileError
        More than fits into memory.
    OSError, ValueError and others of `DAMAGE`
        No such file, or a damaged one.
    """
    if Path(path).is_fifo() or (Path(path).is_file() and not zipfile.is_zipfile(path)):  # NumPy would speak of pickles
        raise ValueError("no zip archive")
    with zipfile.ZipFile(path) as packed:
        held = sum(member.file_size for member in packed.infolist())
        if any(member.compress_type != zipfile.ZIP_STORED for member in packed.infolist()):
            raise ValueError("it is compressed, which no checkpoint is")
    if held > free_memory():
        raise DataFileError(f"{path}: it says that it unpacks to {held:,} bytes, which do not fit here: {remedy}")
    return np.load(path, allow_pickle=False)


class Unpackable(TypeError):
    """A value that a file cannot hold."""


def packed(value: Any) -> dict[str, np.ndarray]:
    """The members of a file that holds numbers, text, arrays and None in lists, tuples and dicts.

    Raises
    ------
    Unpackable
        Anything else; a named tuple is a tuple.
    """
    arrays = _Arrays()
    texts = {"told": json.dumps(_packed(value, arrays)).encode()}
    texts["small"] = b"".join(arrays.small)
    members = {name: np.frombuffer(text, dtype=np.uint8) for name, text in texts.items()}
    return {**members, **{f"array {i}": array for i, array in enumerate(arrays.large)}}


def unpacked(members: Mapping[str, np.ndarray], label: str) -> Any:
    """The inverse of `packed`. Raises `DataFileError`, `LookupError` or one of `DAMAGE` on what it did not make."""

    def large(i: int) -> np.ndarray:
        array = members[f"array {i}"]
        _dtype(array.dtype.str)
        return array

    return _unpacked(parse_json(members["told"].tobytes().decode(), label), members["small"].tobytes(), large)


class _Arrays:
    """The arrays of a value: small ones one after another, the others each by itself."""

    def __init__(self) -> None:
        self.small, self.size, self.large = list[bytes](), 0, list[np.ndarray]()

    def add(self, array: np.ndarray) -> list[Any]:
        """Keep it; returns how `unpacked` finds it."""
        if array.nbytes >= SMALL:
            self.large.append(array)
            return [len(self.large) - 1]
        turned = array.flags.f_contiguous and not array.flags.c_contiguous
        self.small.append((array.T if turned else array).tobytes())
        self.size += array.nbytes
        return [self.size - array.nbytes, array.dtype.str, list(array.shape), turned]


def _packed(value: Any, arrays: _Arrays) -> Any:
    """A value as JSON has it, its arrays apart."""
    if value is None or isinstance(value, bool | str) or type(value) is int:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, np.ndarray) and value.dtype.kind in KINDS:
        return {"array": arrays.add(value)}
    if isinstance(value, np.generic) and value.dtype.kind in KINDS:
        return {"number": [value.dtype.str, value.tobytes().hex()]}
    if type(value) is dict:
        return {"dict": [[_packed(k, arrays), _packed(v, arrays)] for k, v in value.items()]}
    if type(value) is list or isinstance(value, tuple):
        return {"list" if type(value) is list else "tuple": [_packed(v, arrays) for v in value]}
    raise Unpackable(type(value).__name__)


def _unpacked(told: Any, small: bytes, large: Callable[[int], np.ndarray]) -> Any:
    """The inverse of `_packed`."""
    if not isinstance(told, dict):
        return told
    ((kind, value),) = told.items()
    if kind == "dict":
        return {_unpacked(k, small, large): _unpacked(v, small, large) for k, v in value}
    if kind in ("list", "tuple"):
        made = [_unpacked(v, small, large) for v in value]
        return made if kind == "list" else tuple(made)
    if kind == "float":
        return float(value)
    if kind == "number":
        return np.frombuffer(bytes.fromhex(value[1]), dtype=_dtype(value[0]), count=1)[0]
    if len(value) == 1:
        return large(int(value[0]))
    at, dtype, shape, turned = value
    count = math.prod(shape)
    size = _dtype(dtype).itemsize * count
    array = np.array(np.frombuffer(small[at : at + size], dtype=dtype)) if count else np.empty(0, dtype)
    return array.reshape(shape[::-1]).T if turned else array.reshape(shape)


def _dtype(name: str) -> np.dtype[Any]:
    dtype = np.dtype(name)
    if dtype.kind not in KINDS:
        raise ValueError(f"{name!r} are no numbers")
    return dtype
