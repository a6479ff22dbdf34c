"""Problems in files: JSON with a kind and the kind's arrays, which the command line takes where it
takes a problem's name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.inputs import file_path, shown
from fedtheory.problems.base import Problem
from fedtheory.problems.nonsmooth import MaxAffine
from fedtheory.problems.quadratic import Quadratic
from fedtheory.problems.smoothed import SmoothedMaxAffine
from fedtheory.provenance import write_json
from fedtheory.untrusted import read_json

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
        f"a {type(problem).__name__}: a problem's file holds one of {held}; a loss on data is kept "
        "as its data, in svmlight format, which --data FILE --loss LOSS reads"
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
    path = file_path("path", path, "a problem's file")
    path = Path(path)
    read = read_json(path, MOST_BYTES, "a problem's file")
    data = read.get("problem") if isinstance(read, dict) and read.get("format") == FORMAT else None
    if not isinstance(data, dict):
        raise InvalidInput(f"{path}: no problem: its format must be {FORMAT!r}, and it must have a table 'problem'")
    if not isinstance(data.get("kind"), str) or data["kind"] not in KINDS:
        raise InvalidInput(f"{path}: kind {shown(data.get('kind'))}: there are {', '.join(KINDS)}")
    cls, needed, more = KINDS[data["kind"]]
    given = {name: value for name, value in data.items() if name != "kind"}
    missing, unknown = [n for n in needed if n not in given], [n for n in given if n not in {**needed, **more}]
    if missing or unknown:
        raise InvalidInput(
            f"{path}: {', '.join(missing or unknown)}: {'missing' if missing else 'unknown'}; "
            f"{data['kind']} takes {', '.join([*needed, *more])}"
        )
    try:
        problem = cls(**{name: _numbers(name, value) if isinstance(value, list) else value for name, value in given.items()})
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(f"{path}: {error}") from error
    problem.name = path.stem
    return problem


def _numbers(name: str, value: list[Any]) -> np.ndarray:
    """Lists of numbers; text is none, though NumPy would read it."""
    made = np.array(value)
    if made.dtype.kind not in "iuf" and not (made.dtype == object and all(isinstance(v, int) for v in made.flat)):
        raise ValueError(f"{name} must hold numbers, in rows of one length")
    return made.astype(float)
