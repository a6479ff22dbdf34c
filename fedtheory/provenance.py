"""Provenance of a result: versions, commit, machine; and writes that leave nothing half-written."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import IO, Any

import numpy as np

__all__ = ["alive", "provenance", "to_jsonable", "versions", "write_atomic", "write_json"]


PART = ".part"  # how the names of files end that are being written


@cache
def _commit() -> str | None:
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True).stdout
        dirty = subprocess.run(["git", "status", "--porcelain", "-uno"], cwd=root, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.strip() + ("+changes" if dirty.strip() else "")


@cache
def versions() -> dict[str, str]:
    """Of the packages on which results depend; those that are installed."""
    found = {}
    for package in ("fedtheory", "numpy", "scipy", "numba", "cvxpy", "clarabel", "scikit-learn", "torch"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def provenance(seed: int | None = None, device: str = "cpu", dtype: str = "float64", arrays: str = "numpy") -> dict[str, Any]:
    """Seed, versions, commit, device, precision, array library and time of a result."""
    return {
        "seed": seed, "commit": _commit(), "device": device, "dtype": dtype, "arrays": arrays,
        "python": sys.version.split()[0], "platform": platform.platform(), "cores": os.cpu_count(),
        "versions": versions(), "written": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def to_jsonable(value: Any) -> Any:
    """NumPy scalars, arrays, tuples and paths as plain JSON values; NaN and infinity as strings."""
    if isinstance(value, dict):
        return {str(k): to_jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [to_jsonable(v) for v in value]
    if isinstance(value, np.ndarray):
        return to_jsonable(value.tolist())
    if isinstance(value, np.generic):
        return to_jsonable(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    if isinstance(value, Path):
        return str(value)
    return value


@cache
def _clear(folder: Path) -> None:
    """Remove what processes that were killed in the middle of a write have left in a folder; once a process."""
    for part in folder.glob(f".*{PART}"):
        owner = part.name.removesuffix(PART).rpartition(".")[2].partition("-")[0]
        if owner.isdecimal() and not alive(int(owner)):
            part.unlink(missing_ok=True)


def alive(process: int) -> bool:
    """True if there is a process of that number on this machine."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True


def write_atomic(path: Path | str, content: str | bytes | memoryview | Callable[[IO[bytes]], Any]) -> Path:
    """Write a file whole or not at all: a temporary file beside it, then a rename; ``content`` may
    be what writes into it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _clear(path.parent.resolve())
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.{os.getpid()}-", suffix=PART)
    try:
        with os.fdopen(handle, "wb") as f:
            if callable(content):
                content(f)
            else:
                f.write(content.encode() if isinstance(content, str) else content)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:  # a full disk does not say what it was to hold
            error.filename = str(path)
        raise
    return path


def write_json(path: Path | str, value: Any) -> Path:
    """JSON with plain values, written atomically."""
    return write_atomic(path, json.dumps(to_jsonable(value), indent=1, allow_nan=False) + "\n")
