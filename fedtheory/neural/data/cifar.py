"""CIFAR-10 and CIFAR-100: Python pickles, read without running anything they ask for, and the archives of them."""

from __future__ import annotations

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedtheory.arrays import sealed
from fedtheory.errors import DataFileError
from fedtheory.inputs import flag
from fedtheory.neural.data.core import ImageData
from fedtheory.neural.data.files import Release, check_labels

__all__ = ["load_cifar10", "load_cifar100", "parse_pickle"]

PIXELS = 3 * 32 * 32
MOST_TUPLES = 1000
_TUPLES = frozenset({"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"})
_PUTS, _GETS = frozenset({"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}), frozenset({"GET", "BINGET", "LONG_BINGET"})
_NEVER = frozenset({"DUP", "EMPTY_SET", "ADDITEMS", "FROZENSET"})
MOST_REMEMBERED = 10**6  # a published batch has some 10,000 (CIFAR-100: 50,000)
_PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"


CIFAR10 = Release(
    "CIFAR-10", _PAGE, ("cifar-10-batches-py", "cifar10/cifar-10-batches-py", "cifar10"),
    {
        "data_batch_1": "c99cafc152244af753f735de768cd75f", "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751", "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb", "test_batch": "40351d587109b95175f43aff81a1287e",
    },
    "cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a",
)  # fmt: skip
CIFAR100 = Release(
    "CIFAR-100", _PAGE, ("cifar-100-python", "cifar100/cifar-100-python", "cifar100"),
    {"train": "16019d7e3df5f24257cddd939b257f8d", "test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
    "cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85",
)  # fmt: skip


class _Array:
    """Stands for a NumPy array while a pickle is read: it takes the array's state, and only that of bytes.

    It stands for the function by which NumPy's pickles make one, too.
    """

    value: np.ndarray | None = None

    def __init__(self, *_: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, raw = state
        if not isinstance(kind, _Bytes) or not isinstance(raw, bytes) or fortran:
            raise pickle.UnpicklingError("an array that is not of bytes in C order")
        self.value = np.frombuffer(raw, np.uint8).reshape(shape)


class _Bytes:
    """Stands for NumPy's dtype uint8."""

    def __init__(self, code: Any = None, *_: Any) -> None:
        if code not in ("u1", b"u1"):
            told = repr(code) if isinstance(code, bytes | str) else "something else"
            raise pickle.UnpicklingError(f"an array of type {told}, expected 'u1'")

    def __setstate__(self, state: Any) -> None:
        pass


class _Restricted(pickle.Unpickler):
    # Not even NumPy's own functions are given to the file: what it may name are stand-ins that can
    # do nothing else.
    allowed: ClassVar[dict[tuple[str, str], Any]] = {
        ("numpy.core.multiarray", "_reconstruct"): _Array,
        ("numpy._core.multiarray", "_reconstruct"): _Array,
        ("numpy", "ndarray"): None,
        ("numpy", "dtype"): _Bytes,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.allowed:
            raise pickle.UnpicklingError(
                f"it asks for {module}.{name}, which a data batch does not need; refused, nothing was run"
            )
        return self.allowed[module, name]


def _check_sizes(content: Any) -> None:
    """Refuse what makes the reader take all memory or time before it looks: lengths beyond the end,
    far places to remember at, and tuples in tuples that are one another, which are hashed entry by
    entry."""
    held: set[int] = set()
    tuples, before, places = 0, "", 0
    for operation, argument, _ in pickletools.genops(io.BytesIO(content)):  # raises where a length is beyond the end
        name, place = operation.name, places
        if name in _PUTS:
            place = places if name == "MEMOIZE" else int(argument or 0)
            if not 0 <= place < MOST_REMEMBERED:
                raise pickle.UnpicklingError(f"it remembers something as number {place}, a batch has under {MOST_REMEMBERED}")
            places += 1
            (held.add if before in _TUPLES else held.discard)(place)
        tuples += name in _TUPLES
        if name in _NEVER or tuples > MOST_TUPLES or (name in _GETS and int(argument or 0) in held):
            raise pickle.UnpicklingError(f"{name}: a batch has no sets, no tuple twice, and at most {MOST_TUPLES} tuples")
        before = name


def parse_pickle(where: str, content: Any, label_key: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3, 32, 32) uint8 and labels (n,) int64 in the bytes of a Python-version batch.

    Parameters
    ----------
    label_key : 'labels' (CIFAR-10) or 'fine_labels' (CIFAR-100)

    Raises
    ------
    DataFileError
        Anything but a dictionary of lists, text and arrays of bytes (what was asked for is named, and not run); truncated;
        without data or labels; labels and images that differ in number.
    """
    try:
        _check_sizes(content)
        batch = _Restricted(io.BytesIO(content), encoding="bytes").load()
    except Exception as error:  # whatever a damaged pickle makes the reader raise
        raise DataFileError(
            f"{where}: not a readable CIFAR pickle ({error or type(error).__name__}): fetch it again"
        ) from error
    if not isinstance(batch, dict):
        raise DataFileError(f"{where}: holds a {type(batch).__name__}, expected a dictionary: fetch it again")
    batch = {k.decode("latin1") if isinstance(k, bytes) else k: v for k, v in batch.items()}
    for key in ("data", label_key):
        if key not in batch:
            raise DataFileError(
                f"{where}: has no {key!r}, only {', '.join(map(repr, list(batch)[:8]))}: it is another file; fetch it again"
            )
    images, labels = batch["data"].value if isinstance(batch["data"], _Array) else None, batch[label_key]
    if images is None or images.ndim != 2 or images.shape[1] != PIXELS:
        found = "no array" if images is None else f"shape {images.shape}"
        raise DataFileError(f"{where}: 'data' has {found}, expected (n, {PIXELS}): it is another file; fetch it again")
    if not isinstance(labels, list) or not all(type(v) is int and abs(v) < 2**63 for v in labels):
        raise DataFileError(f"{where}: {label_key!r} is not a list of integers: it is another file; fetch it again")
    if len(labels) != len(images):
        raise DataFileError(f"{where}: {len(labels)} labels for {len(images)} images: damaged; fetch it again")
    return images.reshape(-1, 3, 32, 32), np.array(labels, np.int64)


def _load(folder: str | Path, of: Release, verify: bool, label_key: str, num_classes: int, **moments: Any) -> ImageData:
    flag("verify", verify)
    parts: dict[bool, list[tuple[np.ndarray, np.ndarray]]] = {False: [], True: []}
    for file, where, content in of.contents(folder, verify):
        x, y = parse_pickle(where, content, label_key)
        check_labels(where, y, 0, num_classes - 1)
        parts["test" in file].append((x, y))
        del content  # else the next file is read beside this one
    (train_x, train_y), (test_x, test_y) = (
        map(np.concatenate, zip(*parts[test], strict=True)) for test in (False, True)
    )
    sealed((train_x, train_y, test_x, test_y))
    name, source = of.title.lower().replace("-", ""), f"{of.title}, the Python version in {Path(folder)}"
    return ImageData(name, train_x, train_y, test_x, test_y, num_classes, source=source, **moments)


def load_cifar10(folder: str | Path, verify: bool = True) -> ImageData:
    """CIFAR-10: 50,000 training and 10,000 test images (3, 32, 32) of 10 classes.

    Inputs are, channel by channel, (byte / 255 - mean) / std with mean 0.491, 0.482, 0.447 and std
    0.247, 0.243, 0.262, as in the public FedDyn code (FedElasticNet uses its models and data).

    Parameters
    ----------
    folder : holds the batches of the Python version (plain or compressed), or its published .tar.gz
    verify : bool
        Check the md5 of each batch, or of the archive.

    Raises
    ------
    DataFileError
        A file missing (its name, where it is published and the folder are said), damaged, not of
        the format, or a pickle that asks for anything a batch does not need.
    """
    moments = {"mean": (0.491, 0.482, 0.447), "std": (0.247, 0.243, 0.262)}
    return _load(folder, CIFAR10, verify, "labels", 10, **moments)


def load_cifar100(folder: str | Path, verify: bool = True) -> ImageData:
    """CIFAR-100 with its 100 fine labels: 50,000 training and 10,000 test images (3, 32, 32).

    Inputs are, channel by channel, (byte / 255 - mean) / std with mean 0.5071, 0.4867, 0.4408 and
    std 0.2675, 0.2565, 0.2761, as in the public FedDyn code. Parameters and errors are those of
    `load_cifar10`.
    """
    moments = {"mean": (0.5071, 0.4867, 0.4408), "std": (0.2675, 0.2565, 0.2761)}
    return _load(folder, CIFAR100, verify, "fine_labels", 100, **moments)
