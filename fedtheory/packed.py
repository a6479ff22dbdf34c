"""Files of arrays, NumPy's .npz, from anyone: what does not fit, is packed, or holds code is refused before it is read."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.errors import DataFileError
from fedtheory.limits import free_memory

__all__ = ["DAMAGE", "opened"]

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
    if Path(path).is_file() and not zipfile.is_zipfile(path):  # NumPy would speak of pickles
        raise ValueError("no zip archive")
    with zipfile.ZipFile(path) as packed:
        held = sum(member.file_size for member in packed.infolist())
        if any(member.compress_type != zipfile.ZIP_STORED for member in packed.infolist()):
            raise ValueError("it is compressed, which no checkpoint is")
    if held > free_memory():
        raise DataFileError(f"{path}: it says that it unpacks to {held:,} bytes, which do not fit here: {remedy}")
    return np.load(path, allow_pickle=False)
