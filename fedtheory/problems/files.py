"""Problems in files: JSON with a kind and the kind's arrays, which the command line takes where it takes a problem's name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.problems.base import Problem
from fedtheory.problems.nonsmooth import MaxAffine
from fedtheory.problems.quadratic import Quadratic
from fedtheory.problems.smoothed import SmoothedMaxAffine
from fedtheory.provenance import write_json

__all__ = ["read_problem", "write_problem"]

FORMAT = "fedtheory problem 1"
MOST_BYTES = 50_000_000
# kind -> class, what must be given, what may be; each with the attribute that holds it
KINDS: dict[str, tuple[type[Problem], dict[str, str], dict[str, str]]] = {
    "quadratic": (Quadratic, {"hessians": "hessians", "minimisers": "minimisers"}, {"weights": "weights"}),
    "max-affine": (MaxAffine, {"slopes": "slopes", "offsets": "offsets"}, {"weights": "weights"}),
    "smoothed-max-affine": (
        SmoothedMaxAffine, {"slopes": "slopes", "offsets": "offsets"},
        {"smoothness": "largest", "strong_convexity": "least", "minimiser": "minimiser", "weights": "weights"},
    ),
}  # fmt: skip


def write_problem(path: Path | str, problem: Problem, about: Mapping[str, Any] | None = None) -> Path:
    """Write a problem, with whatever else is to be kept beside it.

    Raises
    ------
    InvalidInput
        A problem of another kind than files hold.
    """
    for kind, (cls, needed, more) in KINDS.items():
        if type(problem) is cls:
            data = {name: getattr(problem, attribute) for name, attribute in {**needed, **more}.items()}
            data = {name: np.asarray(value).tolist() for name, value in data.items() if value is not None}
            return write_json(path, {"format": FORMAT, **(about or {}), "problem": {"kind": kind, **data}})
    held = ", ".join(cls.__name__ for cls, _, _ in KINDS.values())
    if not isinstance(problem, Problem):
        raise InvalidInput(f"a {type(problem).__name__} is no problem: write_problem(path, problem) takes the path first")
    raise InvalidInput(
        f"a {type(problem).__name__}: a problem's file holds one of {held}; a loss on data is kept as its data, in svmlight format, "
        "which --data FILE --loss LOSS reads"
    )


def read_problem(path: Path | str) -> Problem:
    """The problem of a file, which may come from anyone.

    Raises
    ------
    DataFileError
        A file that is not there, or too large.
    InvalidInput
        What is wrong with what it holds.
    """
    path = Path(path)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DataFileError(f"{path}: {path.stat().st_size} bytes: a problem's file has at most {MOST_BYTES}")
        read = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise error if isinstance(error, DataFileError) else DataFileError(f"{path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path}: no JSON ({error})") from error
    data = read.get("problem") if isinstance(read, dict) and read.get("format") == FORMAT else None
    if not isinstance(data, dict):
        raise InvalidInput(f"{path}: no problem: its format must be {FORMAT!r}, and it must have a table 'problem'")
    if data.get("kind") not in KINDS:
        raise InvalidInput(f"{path}: kind {data.get('kind')!r}: there are {', '.join(KINDS)}")
    cls, needed, more = KINDS[data["kind"]]
    given = {name: value for name, value in data.items() if name != "kind"}
    missing, unknown = [n for n in needed if n not in given], [n for n in given if n not in {**needed, **more}]
    if missing or unknown:
        raise InvalidInput(f"{path}: {', '.join(missing or unknown)}: {'missing' if missing else 'unknown'}; {data['kind']} takes "
                           f"{', '.join([*needed, *more])}")  # fmt: skip
    try:
        problem = cls(**{name: np.array(value, dtype=float) if isinstance(value, list) else value for name, value in given.items()})
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"{path}: {error}") from error
    problem.name = path.stem
    return problem
