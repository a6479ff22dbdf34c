"""LEAF's JSON: users, num_samples and user_data {user: {x, y}}, in train and test folders of one or more files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.arrays import sealed
from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.inputs import flag
from fedtheory.neural.data.core import FeatureData
from fedtheory.neural.data.files import Release, read_bytes
from fedtheory.untrusted import parse_json

__all__ = ["LEAF", "load_leaf", "read_users"]

LEAF = Release("LEAF", "https://leaf.cmu.edu/ (code: https://github.com/TalwalkarLab/leaf)", ("data", "leaf"))

Encode = Callable[[str, str, list[Any], list[Any]], tuple[np.ndarray, np.ndarray]]


def _files(place: Path) -> list[Path]:
    return sorted(
        p for p in place.iterdir() if p.is_file() and p.name.endswith((".json", ".json.gz", ".json.xz", ".json.bz2"))
    )


def read_users(path: Path, encode: Encode) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{user: (x, y)} of one LEAF file, in the order of its `users`.

    Parameters
    ----------
    encode : (where, user, x list, y list) -> arrays of equal length

    Raises
    ------
    DataFileError
        Not JSON, a key missing, users named twice or without data, num_samples that differ from what is there.
    """
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise DataFileError(f"{path}: not whole JSON (byte {error.start} is no UTF-8): fetch or make it again") from error
    try:
        content = parse_json(text, "it")
    except DataFileError as error:
        raise DataFileError(f"{path}: not whole JSON ({error}): fetch or make it again") from error
    if not isinstance(content, dict):
        raise DataFileError(
            f"{path}: holds a {type(content).__name__}, expected an object with 'users' and 'user_data'"
        )
    for key, kind in (("users", list), ("num_samples", list), ("user_data", dict)):
        if not isinstance(content.get(key), kind):
            raise DataFileError(f"{path}: {key!r} is missing or not a {kind.__name__}: not a LEAF file; make it again")
    users, sizes, data = content["users"], content["num_samples"], content["user_data"]
    if not all(isinstance(u, str) for u in users) or len(set(users)) != len(users):
        raise DataFileError(f"{path}: 'users' must be different names: make it again")
    if len(sizes) != len(users):
        raise DataFileError(f"{path}: {len(users)} users but {len(sizes)} num_samples: damaged; make it again")
    result = {}
    for user, size in zip(users, sizes, strict=True):
        entry = data.get(user)
        if not isinstance(entry, dict) or not isinstance(entry.get("x"), list) or not isinstance(entry.get("y"), list):
            raise DataFileError(f"{path}: user {user!r} has no lists x and y in 'user_data': damaged; make it again")
        x, y = entry["x"], entry["y"]
        if not len(x) == len(y) == size:
            raise DataFileError(
                f"{path}: user {user!r}: {len(x)} x and {len(y)} y, num_samples says {size}: damaged; make it again"
            )
        result[user] = encode(str(path), user, x, y)
    return result


def find_leaf(folder: str | Path, part: str) -> list[Path]:
    """The JSON files in the sub-folder `part` of the folder, or of `data` or `leaf` below it; empty when there are none."""
    for place in LEAF.folders(folder):
        if (place / part).is_dir() and (files := _files(place / part)):
            return files
    return []


def gather(files: Iterable[Path], encode: Encode) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """All users of several files; a user in two of them is refused."""
    users: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for path in files:
        for user, samples in read_users(path, encode).items():
            if user in users:
                raise DataFileError(
                    f"{path}: user {user!r} is in another file of {path.parent} too: remove one of them"
                )
            users[user] = samples
    return users


def flatten(
    where: str, users: list[str], parts: dict[str, tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """x, y and user number of the samples of these users one after the other, read-only; None when there are none."""
    found = [(k, *parts[u]) for k, u in enumerate(users) if u in parts and len(parts[u][1])]
    if not found:
        return None
    shapes = {x.shape[1:] for _, x, _ in found}
    if len(shapes) > 1:
        raise DataFileError(f"{where}: samples of different shapes {sorted(shapes)}: all must be alike")
    owner = np.repeat(np.array([k for k, _, _ in found], np.int32), [len(y) for _, _, y in found])
    return sealed((np.concatenate([x for _, x, _ in found]), np.concatenate([y for _, _, y in found]), owner))


def as_numbers(values: Any, kind: Any) -> np.ndarray:
    """Numbers as an array of that type. Raises ValueError for text, which NumPy would read, and for true and false."""
    made = np.asarray(values)
    if made.size and made.dtype.kind not in "iuf":
        raise ValueError(f"they are of type {made.dtype}")
    return made.astype(kind, copy=False)


def _numbers(where: str, user: str, x: list[Any], y: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    try:
        features = as_numbers(x, np.float32).reshape(len(x), -1) if x else np.zeros((0, 0), np.float32)
        labels = as_numbers(y, np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise DataFileError(
            f"{where}: user {user!r}: x or y are not numbers of one shape ({error}): load_leaf "
            "reads numbers; use load_shakespeare for its text"
        ) from error
    if not np.isfinite(features).all():
        raise DataFileError(f"{where}: user {user!r}: x holds NaN or infinite numbers: data must be finite")
    if labels.ndim != 1 or not (np.isfinite(labels) & (labels == np.floor(labels)) & (labels >= 0)).all():
        raise DataFileError(
            f"{where}: user {user!r}: y must be whole numbers >= 0, one a sample: they are classes here"
        )
    return features, labels.astype(np.int64)


def load_leaf(folder: str | Path, name: str = "leaf", test: bool = True) -> FeatureData:
    """A data set in LEAF's JSON whose x are numbers (FEMNIST, the synthetic sets of LEAF and
    FedProx).

    Parameters
    ----------
    folder : holds `train` and `test` (or `data/train` and `data/test`) with .json files, plain or
        compressed; or one such file
    test : bool
        Whether to read a test part; it is empty for a single file.

    Raises
    ------
    DataFileError
        Missing, not of the format, counts that disagree, x or y that are not numbers.
    """
    flag("test", test)
    path = Path(folder).expanduser()
    if path.is_file():
        train, rest, test = read_users(path, _numbers), {}, False
    else:
        files = {part: find_leaf(path, part) for part in (("train", "test") if test else ("train",))}
        for part, found in files.items():
            if not found:
                raise LEAF.missing(path, f"{part}/*.json")
        train, rest = gather(files["train"], _numbers), gather(files.get("test", []), _numbers)
    users = list(dict.fromkeys([*train, *rest]))
    first = flatten(str(path), users, train)
    if first is None:
        raise DataFileError(f"{path}: no training samples: make the files again")
    second = flatten(str(path), users, rest) or (first[0][:0], first[1][:0], first[2][:0])
    if second[0].shape[1:] != first[0].shape[1:]:
        raise DataFileError(f"{path}: training x {first[0].shape[1:]} and test x {second[0].shape[1:]} differ in shape")
    x, y, owner = first
    classes = int(max(y.max(), second[1].max(initial=0))) + 1
    if classes > 10**6:
        raise InvalidInput(f"{path}: the largest label is {classes - 1}: labels must be small class numbers")
    return FeatureData(
        name, x, y, second[0], second[1], classes, tuple(users), owner, second[2], source=f"LEAF JSON in {path}"
    )
