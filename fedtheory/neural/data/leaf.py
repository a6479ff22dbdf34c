"""LEAF's JSON: users, num_samples and user_data {user: {x, y}}, in train and test folders of one or more files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.arrays import sealed
from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.inputs import flag, whole_number
from fedtheory.neural.data.core import FeatureData
from fedtheory.neural.data.files import Release, read_bytes
from fedtheory.randomness import Stream
from fedtheory.untrusted import parse_json

__all__ = ["LEAF", "load_leaf", "read_users"]

LEAF = Release("LEAF", "https://leaf.cmu.edu/ (code: https://github.com/TalwalkarLab/leaf)", ("data", "leaf"))

Samples = dict[str, tuple[np.ndarray, np.ndarray]]  # x and y of each user
Encode = Callable[[str, str, list[Any], list[Any]], tuple[np.ndarray, np.ndarray]]


def _files(place: Path) -> list[Path]:
    return sorted(
        p for p in place.iterdir() if p.is_file() and p.name.endswith((".json", ".json.gz", ".json.xz", ".json.bz2"))
    )


def read_users(path: Path, encode: Encode) -> Samples:
    """{user: (x, y)} of one LEAF file, in the order of its `users`.

    Parameters
    ----------
    encode : (where, user, x list, y list) -> arrays of equal length

    Raises `DataFileError` for what is no JSON, lacks a key, names users twice or without data, or
    has other than `num_samples` samples of one.
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


def gather(files: Iterable[Path], encode: Encode) -> Samples:
    """All users of several files; a user in two of them is refused."""
    users: Samples = {}
    for path in files:
        for user, samples in read_users(path, encode).items():
            if user in users:
                raise DataFileError(
                    f"{path}: user {user!r} is in another file of {path.parent} too: remove one of them"
                )
            users[user] = samples
    return users


def leaf_parts(files: dict[str, list[Path]], encode: Encode) -> tuple[Samples, Samples]:
    """The training and the test samples in such files, by user."""
    return gather(files["train"], encode), gather(files["test"], encode)


def flatten(
    where: str, what: str, users: list[str], parts: Samples
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, y and user number of the samples of these users one after the other, read-only.

    Raises `DataFileError` where there are none, `what` they are for being said, or their shapes
    differ.
    """
    found = [(k, *parts[u]) for k, u in enumerate(users) if u in parts and len(parts[u][1])]
    if not found:
        raise DataFileError(f"{where}: no {what} samples: fetch or make the files again")
    shapes = {x.shape[1:] for _, x, _ in found}
    if len(shapes) > 1:
        raise DataFileError(f"{where}: samples of different shapes {sorted(shapes)}: all must be alike")
    owner = np.repeat(np.array([k for k, _, _ in found], np.int32), [len(y) for _, _, y in found])
    return sealed((np.concatenate([x for _, x, _ in found]), np.concatenate([y for _, _, y in found]), owner))


def chosen(
    told: str, users: list[str], clients: int | None, seed: int, purpose: str, remedy: str
) -> list[str]:
    """All users, or so many at random, in their order.

    Raises `InvalidInput` where there are fewer, or none; `told` says how many there are of which.
    """
    if len(users) < (clients or 1):
        raise InvalidInput(f"{told}, clients asks for {clients or 1}: {remedy}")
    drawn = Stream(seed).generator(purpose).permutation(len(users))[:clients]
    return [users[k] for k in sorted(drawn)]


def check_given(test_fraction: float, **numbers: int | None) -> None:
    """Raise `InvalidInput` unless the fraction is between 0 and 1, and the numbers >= 1 or None."""
    for name, number in numbers.items():
        if number is not None:
            whole_number(name, number)
    if not 0 < test_fraction < 1:
        raise InvalidInput(f"test_fraction is {test_fraction!r}: it must be between 0 and 1")


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
    x, y, owner = flatten(str(path), "training", users, train)
    tested = (x[:0], y[:0], owner[:0])
    if any(len(labels) for _, labels in rest.values()):
        tested = flatten(str(path), "test", users, rest)
    if tested[0].shape[1:] != x.shape[1:]:
        shapes = f"training x {x.shape[1:]} and test x {tested[0].shape[1:]}"
        raise DataFileError(f"{path}: {shapes} differ in shape")
    classes = int(max(y.max(), tested[1].max(initial=0))) + 1
    if classes > 10**6:
        raise InvalidInput(f"{path}: the largest label is {classes - 1}: labels must be small class numbers")
    return FeatureData(
        name, x, y, *tested[:2], classes, tuple(users), owner, tested[2],
        source=f"LEAF JSON in {path}",
    )
