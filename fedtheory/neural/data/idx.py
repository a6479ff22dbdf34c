"""IDX files (MNIST, EMNIST): read and checked."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.arrays import sealed
from fedtheory.errors import DataFileError
from fedtheory.inputs import flag
from fedtheory.neural.data.core import ImageData, pixel_moments
from fedtheory.neural.data.files import Release, check_labels, read_bytes

__all__ = ["load_emnist_letters", "load_mnist", "parse_idx", "read_idx"]

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}

MNIST = Release(
    "MNIST", "http://yann.lecun.com/exdb/mnist/", ("mnist", "MNIST/raw", "raw"),
    {
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    },
)  # fmt: skip
EMNIST = Release(
    "EMNIST", "https://www.nist.gov/itl/products-and-services/emnist-dataset",
    ("emnist_letters", "emnist", "EMNIST/raw", "gzip", "raw"),
    {f"emnist-letters-{part}-{kind}-ubyte": None for part in ("train", "test") for kind in ("images-idx3", "labels-idx1")},
    "gzip.zip", "58c8d27c78d21e728a6bc7b3cc06412e",
)  # fmt: skip


def parse_idx(where: str, content: Any) -> np.ndarray:
    """The array in the bytes of an IDX file; bytes in it are not copied, wider numbers are turned to the machine's order.

    Layout: two zero bytes, a type code, the number of dimensions, each dimension as a big-endian uint32, then the numbers,
    big-endian, last index fastest.

    Raises `DataFileError` for what is no IDX file, has an unknown type code, is truncated, or has
    bytes to spare; it says what was expected and found.
    """
    def refused(said: str) -> DataFileError:
        return DataFileError(f"{where}: {said}: fetch it again")

    if len(content) < 4:
        raise refused(f"truncated: {len(content)} bytes, but an IDX file has at least 4")
    zero, code, ndim = struct.unpack(">HBB", content[:4])
    if zero != 0:
        page = " (a web page?)" if bytes(content[:1]) == b"<" else ""
        raise refused(f"begins with {bytes(content[:4])!r}{page}, an IDX file with two zero bytes")
    if code not in _TYPES or ndim == 0:
        known = ", ".join(f"0x{k:02x}" for k in _TYPES)
        raise refused(f"type code 0x{code:02x} and {ndim} dimensions, IDX has {known} and at least 1")
    start = 4 + 4 * ndim
    if len(content) < start:
        raise refused(f"truncated: {len(content)} bytes, {start} expected for its {ndim} dimensions")
    shape, kind = struct.unpack(f">{ndim}I", content[4:start]), np.dtype(_TYPES[code])
    expected = start + math.prod(shape) * kind.itemsize
    if len(content) != expected:
        told = "truncated" if len(content) < expected else "trailing bytes"
        size = " x ".join(map(str, shape))
        raise refused(f"{told}: {expected} bytes expected for {size} of {kind.name}, found {len(content)}")
    array = np.frombuffer(content, kind, offset=start).reshape(shape)
    return array if kind.itemsize == 1 else array.astype(kind.newbyteorder("="))


def read_idx(path: str | Path) -> np.ndarray:
    """The array of an IDX file, plain or compressed (`parse_idx`)."""
    return parse_idx(str(path), read_bytes(path))


def _pairs(of: Release, folder: str | Path, verify: bool, low: int, high: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Images (n, h, w) and labels (n,) of bytes, low to high, for training and for testing."""
    flag("verify", verify)
    images = np.zeros(0)
    for name, where, content in of.contents(folder, verify):
        array = parse_idx(where, content)
        ndim, told = (3, "images (n, h, w)") if "images" in name else (1, "labels (n,)")
        if array.ndim != ndim or array.dtype != np.uint8:
            raise DataFileError(
                f"{where}: holds {array.shape} of {array.dtype}, expected {told} of uint8: it is another file; fetch it again"
            )
        if "images" in name:
            images = array
            continue
        if len(images) != len(array):
            said = f"{len(array)} labels for the {len(images)} images of {name.replace('labels-idx1', 'images-idx3')}"
            raise DataFileError(f"{where}: {said}: they do not belong together; fetch both again")
        check_labels(where, array, low, high)
        yield images, array


def load_mnist(folder: str | Path, verify: bool = True) -> ImageData:
    """MNIST: 60,000 training and 10,000 test images (1, 28, 28) of 10 digits.

    Inputs are (byte / 255 - 0.1307) / 0.3081, as in the public FedDyn code (FedElasticNet uses its models and data).

    Parameters
    ----------
    folder : holds the four IDX files, plain or compressed; `mnist`, `MNIST/raw` or `raw` below it will do
    verify : bool
        Check the md5 of each file's decompressed content.

    Raises
    ------
    DataFileError
        A file missing (its name, where it is published and the folder are said), damaged, or not of the format.
    """
    train, test = ((x[:, None], y.astype(np.int64)) for x, y in _pairs(MNIST, folder, verify, 0, 9))
    sealed((train, test))
    source = f"MNIST, IDX files in {Path(folder)}"
    return ImageData("mnist", *train, *test, 10, source=source, mean=(0.1307,), std=(0.3081,))


def load_emnist_letters(folder: str | Path, first_ten: bool = True, verify: bool = True) -> ImageData:
    """EMNIST Letters: 124,800 training and 20,800 test images (1, 28, 28); upright, labels from 0.

    The files hold every image transposed and the labels 1..26: both are put right. Inputs are (byte / 255 - mean) / std with
    the mean and standard deviation of the training pixels that are kept, as in the public FedDyn code.

    Parameters
    ----------
    folder : holds the four emnist-letters-*-ubyte files, plain or compressed, or NIST's gzip.zip
    first_ten : bool
        EMNIST-L of FedDyn and FedElasticNet: only the letters a..j, labels 0..9 (48,000 and 8,000 images).
    verify : bool
        Check the md5 of gzip.zip (the release gives none of the single files).

    Raises
    ------
    DataFileError
        A file missing (its name, where it is published and the folder are said), damaged, or not of the format.
    """
    flag("first_ten", first_ten)

    def upright(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if first_ten:
            x, y = x[y <= 10], y[y <= 10]
        return np.ascontiguousarray(x.transpose(0, 2, 1))[:, None], y.astype(np.int64) - 1

    train, test = (upright(x, y) for x, y in _pairs(EMNIST, folder, verify, 1, 26))
    sealed((train, test))
    mean, std = pixel_moments(train[0])
    name = "emnist-l" if first_ten else "emnist-letters"
    source = f"EMNIST Letters, IDX files in {Path(folder)}" + (", the first ten letters" if first_ten else "")
    return ImageData(name, *train, *test, 10 if first_ten else 26, source=source, mean=mean, std=std)
