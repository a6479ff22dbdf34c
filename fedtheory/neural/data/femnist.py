"""Federated EMNIST, a client a writer: TensorFlow Federated's HDF5 files or LEAF's JSON."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fedtheory.errors import DataFileError, MissingCapability
from fedtheory.inputs import flag
from fedtheory.neural.data import files
from fedtheory.neural.data.core import ImageData, pixel_moments
from fedtheory.neural.data.files import Release, path_size
from fedtheory.neural.data.leaf import Samples, as_numbers, find_leaf, flatten, gather
from fedtheory.parallel import Progress
from fedtheory.untrusted import BOMB, most_unpacked

__all__ = ["load_femnist"]

ARCHIVE = "fed_emnist.tar.bz2"
ARCHIVE_SHA256 = "fe1ed5a502cea3a952eb105920bff8cffb32836b5173cb18a57a32c3606f3ea0"
FILES = {"train": "fed_emnist_train.h5", "test": "fed_emnist_test.h5"}
SAMPLES = {"train": 671_585, "test": 77_483}  # of 3,400 writers, as its documentation says
WRITERS = 3400
CLASSES = 62  # 0-9, A-Z, a-z
FEMNIST = Release(
    "federated EMNIST",
    f"https://storage.googleapis.com/tff-datasets-public/{ARCHIVE} (TensorFlow Federated's; or "
    "LEAF's JSON, made by the code at https://github.com/TalwalkarLab/leaf)",
    ("femnist", "fed_emnist", "emnist"),
)
_SIDE = 28
_MOST_NUMBERS = 2 * sum(SAMPLES.values()) * (_SIDE**2 + 1)  # in a file: twice those of the whole release
_LARGEST = 4 * _MOST_NUMBERS  # bytes of an archive's file: as much in single precision, as released, and not compressed


def _bytes(where: str, user: str, x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (n, 784) or (n, 28, 28) in [0, 1] as bytes (n, 1, 28, 28), and labels (n,) or (n, 1) as int64 (n,)."""
    try:
        pixels, labels = as_numbers(x, np.float32), as_numbers(y, np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise DataFileError(
            f"{where}: user {user!r}: pixels or labels are not numbers of one shape ({error})"
        ) from error
    n = len(labels)
    if not n and not len(pixels):
        return np.zeros((0, 1, _SIDE, _SIDE), np.uint8), np.zeros(0, np.int64)
    if pixels.shape not in ((n, _SIDE * _SIDE), (n, _SIDE, _SIDE)) or labels.shape not in ((n,), (n, 1)):
        raise DataFileError(
            f"{where}: user {user!r} has pixels of shape {pixels.shape} and labels of shape {labels.shape}, expected "
            f"(n, {_SIDE}, {_SIDE}) or (n, {_SIDE * _SIDE}), and (n,): not federated EMNIST"
        )
    if not (pixels.min() >= 0 and pixels.max() <= 1):  # NaN is neither
        raise DataFileError(f"{where}: user {user!r} has a pixel that is not in 0..1: not federated EMNIST, or damaged")
    labels = labels.reshape(n)
    if not ((labels == np.floor(labels)) & (labels >= 0) & (labels < CLASSES)).all():
        wrong = labels[~((labels == np.floor(labels)) & (labels >= 0) & (labels < CLASSES))][0]
        raise DataFileError(
            f"{where}: user {user!r} has a label {wrong:g}, expected 0..{CLASSES - 1}: not federated EMNIST"
        )
    return np.rint(pixels * 255).astype(np.uint8).reshape(n, 1, _SIDE, _SIDE), labels.astype(np.int64)


# --- TensorFlow Federated's HDF5 ------------------------------------------------------------------
def _h5py() -> Any:
    try:
        import h5py
    except ModuleNotFoundError as error:
        raise MissingCapability(
            f"{FILES['train']} is HDF5, which needs h5py: pip install 'fedtheory[hdf5]', or name a folder with LEAF's JSON"
        ) from error
    return h5py


def _read_h5(path: Path, where: str, progress: bool) -> Samples:
    """{user: (images, labels)} in the order of the names."""
    h5py = _h5py()
    found: Samples = {}
    try:
        with h5py.File(path, "r") as file:
            users = file.get("examples")
            if not isinstance(users, h5py.Group):
                raise DataFileError(f"{where}: has no group 'examples': not federated EMNIST; fetch it again")
            with Progress(len(users), f"reading {path.name}", progress) as bar:
                left = _MOST_NUMBERS
                for i, user in enumerate(sorted(users), 1):
                    held = _datasets(h5py, users, user, where)
                    for name, dataset in held.items():  # looked at before it is read
                        left -= dataset.size
                        if left < 0:
                            raise DataFileError(
                                f"{where}: more than {_MOST_NUMBERS} pixels and labels up to user "
                                f"{user!r}: no file of this release is that large; fetch it again"
                            )
                        if dataset.nbytes > most_unpacked(path_size(path)):
                            raise DataFileError(
                                f"{where}: {name} of user {user!r} unpacks to more than {BOMB} "
                                "times the file's size: not federated EMNIST; fetch it again"
                            )
                    found[user] = _bytes(where, user, held["pixels"][()], held["label"][()])
                    bar.update(i)
    except DataFileError:
        raise
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError) as error:  # what h5py makes of damaged files
        raise DataFileError(f"{where}: not readable HDF5 ({error}): truncated or damaged; fetch it again") from error
    return found


def _datasets(h5py: Any, users: Any, user: str, where: str) -> dict[str, Any]:
    """A user's pixels and labels. Refuses what sends its reader to other files."""

    def refused(why: str) -> DataFileError:
        return DataFileError(f"{where}: {why}: not federated EMNIST; fetch it again")

    elsewhere = f"the data of user {user!r} are in another file"

    def held(place: Any, name: str) -> Any:
        if not isinstance(place.get(name, getlink=True), h5py.HardLink):
            raise refused(elsewhere)
        return place[name]

    group, found = held(users, user), dict[str, Any]()
    for name in ("pixels", "label"):
        inside = isinstance(group, h5py.Group) and name in group
        dataset: Any = held(group, name) if inside else None
        if not isinstance(dataset, h5py.Dataset):
            raise refused(f"user {user!r} has no {name!r}")
        if dataset.external or dataset.is_virtual:
            raise refused(elsewhere)
        found[name] = dataset
    return found


def _check_writers(where: str, part: str, found: Samples) -> None:
    samples = sum(len(y) for _, y in found.values())
    if (len(found), samples) != (WRITERS, SAMPLES[part]):
        raise DataFileError(
            f"{where}: {samples} samples of {len(found)} writers, the release's has {SAMPLES[part]} of {WRITERS}: not whole or another "
            "version; fetch it again, or pass verify=False (--no-verify) to read it nevertheless"
        )


@contextmanager
def _unpacked(archive: Path, verify: bool, progress: bool) -> Iterator[Path]:
    """A folder that holds the two files of the archive for as long as they are read (HDF5 cannot be read from a stream)."""
    with TemporaryDirectory(prefix="fed_emnist") as folder:
        try:
            expected = ARCHIVE_SHA256 if verify else None
            files.verify(str(archive), files.chunks(archive), expected, "sha256")
            with (
                files.opened_tar(archive) as tar,
                Progress(len(FILES) + 1, f"unpacking {archive.name}", progress) as bar,
            ):
                for member in tar:
                    name = PurePosixPath(member.name).name
                    stream = tar.extractfile(member) if name in FILES.values() and member.isreg() else None
                    if stream is not None:
                        if member.size > _LARGEST:
                            raise DataFileError(
                                f"{archive}/{name}: {member.size} bytes, at most {_LARGEST} are "
                                "unpacked: no file of this release is that large; fetch it again"
                            )
                        with (Path(folder) / name).open("wb") as file:  # under its bare name, wherever it asks to go
                            shutil.copyfileobj(stream, file, 2**20)
                        bar.update(len(list(Path(folder).iterdir())))
        except DataFileError:
            raise
        except OSError as error:
            raise DataFileError(
                f"{archive}: cannot be unpacked ({error}): damaged, or no room (TMPDIR names another place): fetch it again"
            ) from error
        for name in FILES.values():
            if not (Path(folder) / name).is_file():
                raise DataFileError(
                    f"{archive}: has no {name}: not the published archive; fetch it from {FEMNIST.page}"
                )
        yield Path(folder)


def _from_h5(folder: Path, where: str, verify: bool, progress: bool) -> tuple[Samples, Samples]:
    parts = []
    for part, name in FILES.items():
        parts.append(_read_h5(folder / name, f"{where}/{name}", progress))
        if verify:
            _check_writers(f"{where}/{name}", part, parts[-1])
    return parts[0], parts[1]


# --- LEAF's JSON ----------------------------------------------------------------------------------
def _from_leaf(found: dict[str, list[Path]], progress: bool) -> tuple[Samples, Samples]:
    steps = count(1)
    with Progress(sum(map(len, found.values())), "reading LEAF's JSON", progress) as bar:

        def told(paths: list[Path]) -> Iterator[Path]:
            for path in paths:
                yield path
                bar.update(next(steps))

        return gather(told(found["train"]), _bytes), gather(told(found["test"]), _bytes)


# --- both -----------------------------------------------------------------------------------------
def load_femnist(folder: str | Path, verify: bool = True, progress: bool = True) -> ImageData:
    """Federated EMNIST (Caldas et al., LEAF, 2018): images (1, 28, 28) of 62 classes, a user a
    writer.

    TensorFlow Federated's files have 3,400 writers, 671,585 training and 77,483 test images; LEAF's
    code makes JSON of up to 3,550 writers, split as it was asked to. Labels: digits 0..9, capitals
    10..35, small letters 36..61. Pixels are kept as both release them, 1 the paper and 0 the ink
    (the reverse of MNIST's), as the bytes that LEAF divided by 255; inputs are
    (byte / 255 - mean) / std with the mean and standard deviation of the training pixels, so that
    the reverse only changes their sign. Writers are in the order of their names (HDF5) or of the
    files (JSON), those with training images first.

    Parameters
    ----------
    folder : holds one of
        fed_emnist_train.h5 and fed_emnist_test.h5; fed_emnist.tar.bz2, which is unpacked to a
        temporary folder; LEAF's train/*.json and test/*.json, in it or in `data`. Looked for in
        this order; `femnist`, `fed_emnist` or `emnist` below it will do.
    verify : bool
        Check the archive's sha256, and the numbers of writers and samples in the HDF5 files. For
        LEAF's JSON nothing is published.
    progress : bool
        Show a bar where it takes longer than two seconds.

    Raises
    ------
    DataFileError
        Nothing of these (what was looked for, where it is published and the folder are said);
        damaged, or not of the format.
    MissingCapability
        HDF5 files, and h5py is not installed.
    """
    flag("verify", verify), flag("progress", progress)
    places = FEMNIST.folders(folder)
    for place in places:
        if any((place / name).is_file() for name in FILES.values()):
            for name in FILES.values():
                if not (place / name).is_file():
                    raise DataFileError(f"{name} of {FEMNIST.title} is not in {place}: fetch it from {FEMNIST.page}")
            source, (train, test) = f"HDF5 files in {place}", _from_h5(place, str(place), verify, progress)
            break
        if (place / ARCHIVE).is_file():
            _h5py()  # told before it is unpacked
            with _unpacked(place / ARCHIVE, verify, progress) as inside:
                source, (train, test) = str(place / ARCHIVE), _from_h5(inside, str(place / ARCHIVE), verify, progress)
            break
    else:
        # below it first: beside other releases, `train` in the folder itself may be theirs
        for place in (*places[1:], places[0]):
            found = {part: find_leaf(place, part) for part in ("train", "test")}
            if all(found.values()):
                source, (train, test) = f"LEAF JSON in {place}", _from_leaf(found, progress)
                break
        else:
            looked = ", ".join(map(str, places))
            raise DataFileError(
                f"{FILES['train']} and {FILES['test']}, {ARCHIVE}, or LEAF's train/*.json and test/*.json of {FEMNIST.title} are not "
                f"in {looked}: fetch them from {FEMNIST.page}, or name the folder that has them"
            )
    users = list(dict.fromkeys([*(u for u in train if len(train[u][1])), *train, *test]))
    first, second = flatten(source, "training", users, train), flatten(source, "test", users, test)
    mean, std = pixel_moments(first[0])
    return ImageData(
        "emnist", *first[:2], *second[:2], CLASSES, tuple(users), first[2], second[2],
        f"federated EMNIST, {source}", mean=mean, std=std,
    )
