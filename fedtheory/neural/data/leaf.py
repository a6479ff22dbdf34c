"""LEAF's JSON: users, num_samples and user_data {user: {x, y}}."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedtheory.errors import DataFileError
from fedtheory.neural.data.files import read_bytes
from fedtheory.untrusted import parse_json

__all__ = ["read_users"]

_KINDS = {"users": list, "num_samples": list, "user_data": dict}


def read_users(paths: list[Path], encode: Callable[[str, str, list[Any], list[Any]], Any]) -> dict[str, Any]:
    """{user: what `encode` makes of its samples} of some files, in the order of their `users`.

    Parameters
    ----------
    encode : callable(file, user, x, y)

    Raises `DataFileError` for what is no JSON, lacks a key, names users twice or without data, or
    has other than `num_samples` samples of one.
    """
    found: dict[str, Any] = {}
    for path in paths:

        def refused(said: str, path: Path = path) -> DataFileError:
            return DataFileError(f"{path}: {said}: not a file of LEAF's, or damaged; make it again")

        raw = read_bytes(path)
        try:
            content = parse_json(raw.decode(), "it")
        except (UnicodeDecodeError, DataFileError) as error:
            raise refused(f"not whole JSON ({error})") from error
        for key, kind in _KINDS.items():
            if not isinstance(content, dict) or not isinstance(content.get(key), kind):
                raise refused(f"{key!r} is missing or not a {kind.__name__}")
        users, sizes = content["users"], content["num_samples"]
        if len(sizes) != len(users):
            raise refused(f"{len(users)} users but {len(sizes)} num_samples")
        for user, size in zip(users, sizes, strict=True):
            if not isinstance(user, str) or user in found:
                raise refused(f"user {str(user)[:60]!r} is named twice, or is no text")
            entry = content["user_data"].get(user)
            x, y = (entry.get("x"), entry.get("y")) if isinstance(entry, dict) else (None, None)
            if not isinstance(x, list) or not isinstance(y, list) or not len(x) == len(y) == size:
                raise refused(f"user {user[:60]!r} has not as many x and y as num_samples says")
            found[user] = encode(str(path), user, x, y)
    return found
