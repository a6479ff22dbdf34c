"""Checkpoints: everything a run needs to go on, in one file without code in it.

The file is NumPy's .npz (a zip archive with checksums): the arrays of the state, the metrics so
far, and a JSON text that says what they are. It is read without pickle, so that a file from
elsewhere can do nothing but be wrong.
"""

from __future__ import annotations

import json
import lzma
import math
import os
import tempfile
import time
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedtheory.arrays import astype_like, to_numpy
from fedtheory.errors import CheckpointError, DataFileError, MissingCapability
from fedtheory.limits import free_memory
from fedtheory.provenance import to_jsonable, write_atomic
from fedtheory.store.result_store import key_of
from fedtheory.untrusted import parse_json

__all__ = [
    "DAMAGE", "VERSION", "Checkpoint", "Resume", "RunCheckpoint", "check_writable", "compare",
    "load", "misfit", "opened", "save",
]  # fmt: skip

FORMAT, VERSION = "fedtheory checkpoint", 1
_AGAIN = "start again (resume=False, --no-resume), or name another file"
SECONDS = 15.0  # between two checkpoints of a command, and before the first
POINTS = "points of the server"

DAMAGE = (  # what zipfile and NumPy raise: a RuntimeError for a version or an encryption that they do not know
    ValueError, TypeError, AttributeError, EOFError, RuntimeError, MemoryError, SyntaxError, tokenize.TokenError,
    zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip


class Resume(NamedTuple):
    """The place after a round where a run can go on: everything random is keyed by the round.

    Attributes
    ----------
    round_index : int
        Rounds done.
    state : the algorithm's state after it
    metrics : dict of (round_index + 1, S) arrays, or None
        What was measured so far.
    models : (S, N, d) or None
        All clients' last local models, where a metric needs them.
    """

    round_index: int
    state: Any
    metrics: dict[str, np.ndarray] | None = None
    models: Any = None


def misfit(state: Any, fresh: Any) -> str | None:
    """Say what in a state is of another kind, dtype or shape than in one that a run begins with.
    None where all fits."""
    for name, value, expected in zip(fresh._fields, state, fresh, strict=True):
        found, wanted = ((getattr(v, "shape", None), str(getattr(v, "dtype", type(v).__name__))) for v in (value, expected))
        if found != wanted:
            return f"{name} is {found[1]} {found[0]}, this run's {wanted[1]} {wanted[0]}"
    return None


@dataclass(frozen=True)
class Checkpoint:
    """The place where a run stood.

    Attributes
    ----------
    round_index : int
    configuration : dict of JSON values
        What the numbers depend on.
    metrics : dict of (round_index + 1, S) arrays
    fields : dict
        The state by field: NumPy arrays, numbers or None.
    about : dict of JSON values
        'parts': versions, devices and times of all parts of the run; 'seconds': a list of seconds a
        round. `load` asks for both.
    """

    round_index: int
    configuration: Mapping[str, Any]
    metrics: Mapping[str, np.ndarray]
    fields: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    def state(self, like: Any, fresh: Any) -> Any:
        """The state as the run holds it: in the namespace and on the device of `like`, of the type of `fresh`.

        Raises
        ------
        CheckpointError
            Other fields than `fresh` has, or of other shapes.
        """
        if set(self.fields) != set(fresh._fields):
            held, wanted = sorted(self.fields), sorted(fresh._fields)
            raise CheckpointError(f"the checkpoint holds {held}, a {type(fresh).__name__} has {wanted}: {_AGAIN}")
        values = {k: astype_like(v, like) if isinstance(v, np.ndarray) else v for k, v in self.fields.items()}
        state = type(fresh)(**values)
        if (what := misfit(state, fresh)) is not None:
            raise CheckpointError(f"the checkpoint's {what}: {_AGAIN}")
        return state


def save(path: Path | str, checkpoint: Checkpoint) -> Path:
    """Write the file whole or not at all.

    Raises
    ------
    MissingCapability
        A state that holds something other than arrays, numbers and None.
    DataFileError
        The file cannot be written.
    """
    plain: dict[str, Any] = {}
    arrays: dict[str, Any] = {f"metric.{k}": np.asarray(v) for k, v in checkpoint.metrics.items()}
    for name, value in checkpoint.fields.items():
        if hasattr(value, "ndim"):
            arrays[f"state.{name}"] = to_numpy(value)
        elif value is None or isinstance(value, bool | int | float | str):
            plain[name] = value
        else:
            raise MissingCapability(f"the state's {name} is a {type(value).__name__}: a checkpoint holds arrays, numbers and None")
    meta = {
        "format": FORMAT,
        "version": VERSION,
        "round": int(checkpoint.round_index),
        "configuration": checkpoint.configuration,
        "plain": plain,
        "arrays": list(arrays),
        "about": checkpoint.about,
    }
    arrays["meta"] = np.frombuffer(json.dumps(to_jsonable(meta)).encode(), dtype=np.uint8)
    write: Any = partial(np.savez, **arrays)  # into the file: its copy in memory would be as large as the run
    try:
        return write_atomic(path, write)
    except OSError as error:
        raise _not_written(path, error) from error


def check_writable(path: Path | str) -> None:
    """Raise now what `save` would only raise after the work.

    Raises
    ------
    DataFileError
        The file's folder takes no files, or cannot be made.
    """
    try:
        with tempfile.TemporaryFile(dir=next(p for p in Path(path).absolute().parents if p.exists())):
            pass
    except OSError as error:
        raise _not_written(path, error) from error


def _not_written(path: Path | str, error: OSError) -> DataFileError:
    return DataFileError(f"{path}: cannot be written ({error.strerror}): free some room, or name another file")


def opened(path: Path | str) -> Any:
    """The arrays of a file, each read when it is asked for; a context manager.

    Raises
    ------
    DataFileError
        More than fits into memory.
    OSError, ValueError and others of `DAMAGE`
        No such file, or a damaged one.
    """
    if Path(path).is_fifo() or (Path(path).is_file() and not zipfile.is_zipfile(path)):  # NumPy would speak of pickles
        raise ValueError("no zip archive")
    with zipfile.ZipFile(path) as packed:
        held = sum(member.file_size for member in packed.infolist())
        if any(member.compress_type != zipfile.ZIP_STORED for member in packed.infolist()):
            raise ValueError("it is compressed, which no checkpoint is")
    if held > free_memory():
        raise DataFileError(f"{path}: it says that it unpacks to {held:,} bytes, which do not fit here: {_AGAIN}")
    return np.load(path, allow_pickle=False)


def load(path: Path | str, with_state: bool = True) -> Checkpoint:
    """Read what `save` wrote; without the state's arrays when only the metrics are wanted.

    Raises
    ------
    DataFileError
        Missing, not a checkpoint, damaged, or of another version.
    """
    try:
        with opened(path) as archive:
            meta = parse_json(archive["meta"].tobytes().decode(), str(path))
            if not isinstance(meta, dict) or meta.get("format") != FORMAT:
                raise ValueError("its description is another's")
            if meta["version"] != VERSION:
                raise DataFileError(
                    f"{path}: a checkpoint of version {meta['version']}, this fedtheory reads "
                    f"version {VERSION}: go on with the fedtheory that wrote it, or {_AGAIN}"
                )
            metrics = {k.removeprefix("metric."): archive[k] for k in archive.files if k.startswith("metric.")}
            fields = dict(meta["plain"])
            for key in archive.files if with_state else ():
                if key.startswith("state."):
                    fields[key.removeprefix("state.")] = archive[key]
            done, configuration, about = meta["round"], meta["configuration"], meta["about"]
            if other := [k for k, v in {**metrics, **fields}.items() if isinstance(v, np.ndarray) and v.dtype.kind not in "biuf"]:
                raise ValueError(f"{', '.join(other[:3])}: no array of numbers")
            if any(len(v) != done + 1 for v in metrics.values()):
                raise ValueError("rounds and metrics disagree")
            if lost := set(meta.get("arrays", ())) - set(archive.files):
                raise ValueError(f"it has lost {', '.join(sorted(map(str, lost))[:5])}")
            if not (isinstance(configuration, dict) and isinstance(about["parts"], list) and isinstance(about["seconds"], list)):
                raise ValueError("it does not say how it was made")
            return Checkpoint(done, configuration, metrics, fields, about)
    except DataFileError:
        raise
    except FileNotFoundError:
        raise DataFileError(f"{path}: no such checkpoint: check the path") from None
    except KeyError as error:
        raise DataFileError(f"{path}: not a whole checkpoint (it has no {error}): {_AGAIN}") from error
    except DAMAGE as error:
        raise DataFileError(f"{path}: not a whole checkpoint ({error}): {_AGAIN}") from error
    except OSError as error:
        why = error.strerror or str(error)
        raise DataFileError(f"{path}: cannot be read ({why}): name a readable file") from error


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    return {k: v for key, part in value.items() for k, v in _flat(part, f"{name}.{key}" if name else str(key)).items()}


# what hashes stand for, in words
_HASHED = {
    "problem.start": "the parameters it starts from",
    "problem.constants": "frozen parameters or buffers",
    "problem.module": "the module, as it is printed,",
    "problem.data": "the clients' samples",
    "problem.test": "the test samples",
    "problem.clients": "who holds which samples",
    "problem.held_out": "the samples that are held out",
    "problem.tested": "the clients' test samples",
    "problem.weights": "the clients' weights",
}
_SEED = {"problem.start", "problem.constants"}


def _same(name: str, there: Any, here: Any) -> bool:
    if name != "problem.tried":
        return bool(there == here)
    return there is None or here is None or math.isclose(there, here, rel_tol=1e-3, abs_tol=1e-6)


def _difference(name: str, there: Any, here: Any) -> str:
    if name == "problem.tried":
        return f"the module or the loss computes something else (a loss of {there:.4g} there and {here:.4g} here, at one point)"
    if name in _HASHED and there is not None and here is not None:
        return f"{_HASHED[name]} differ from those here"
    return f"{name} is {there} there and {here} here"


def compare(path: Path | str, found: Mapping[str, Any], wanted: Mapping[str, Any], own_start: bool = False) -> None:
    """Raise `CheckpointError` that names what differs between two configurations.

    Parameters
    ----------
    own_start : bool
        Whether the run would start from the module's own parameters. Where nothing but those
        differ, a warning says that the run goes on from the checkpoint's: a script without a seed
        draws other ones every time.
    """
    there, here = _flat(to_jsonable(dict(found))), _flat(to_jsonable(dict(wanted)))
    # a setting that an older version did not know yet is one that is off: None
    differ = [k for k in dict.fromkeys([*here, *there]) if not _same(k, there.get(k), here.get(k))]
    if differ == ["problem.start"] and own_start:
        warnings.warn(
            f"the run in {path} began at other parameters than this module has, and goes on from where it was: call torch.manual_seed "
            "before the module is made to have them drawn alike, or name another file for another run",
            UserWarning,
            stacklevel=4,  # train's caller
        )
        return
    if differ:
        shown = "; ".join(_difference(k, there.get(k), here.get(k)) for k in differ[:3])
        more = f" (and {len(differ) - 3} more)" if len(differ) > 3 else ""
        seed = ", or call torch.manual_seed before the module is made" if _SEED & set(differ) else ""
        raise CheckpointError(f"{path} is the checkpoint of another run: {shown}{more}: {_AGAIN}{seed}")


class RunCheckpoint:
    """The checkpoint of a run of the command line, written every `SECONDS` and when it is interrupted.

    Parameters
    ----------
    path : of the file
    content : what the run's numbers depend on, as JSON has it
    tell : callable(str)
        Called with a line for the user.
    """

    def __init__(self, path: Path, content: dict[str, Any], tell: Callable[[str], Any]) -> None:
        self.path, self._key, self._tell = path, key_of(content), tell
        self._last, self._at = time.monotonic(), -1
        self._newest: tuple[Resume, Sequence[np.ndarray]] | None = None

    def found(self, fresh: Any, like: Any, names: tuple[str, ...]) -> tuple[Any, list[np.ndarray]]:
        """(what ``simulate(..., resume=)`` takes or None, the server's points up to there) of the same run, cut short.

        A file of another run stays until this one has something to keep; one that cannot be read is set aside.
        """
        if not self.path.exists():
            return None, []
        try:
            past = load(self.path)
            if past.configuration.get("key") != self._key:
                return None, []
            state, metrics = past.state(like, fresh), dict(past.metrics)
            points = list(metrics.pop(POINTS, ()))
            if set(metrics) != set(names):
                return None, []
        except (DataFileError, CheckpointError) as error:
            aside = self.path.with_name(f"{self.path.name}.damaged")
            os.replace(self.path, aside)
            self._tell(f"{aside} is what {self.path.name} was: {error}; the run begins again")
            return None, []
        self._tell(f"going on after round {past.round_index}, from {self.path}")
        return (past.round_index, state, metrics), points

    def keep(self, done: Resume, points: Sequence[np.ndarray] = (), now: bool = False) -> None:
        """Write the state after a round, where it is time, or ``now``."""
        self._newest = done, points
        if done.round_index == self._at or not (now or time.monotonic() - self._last >= SECONDS):
            return
        metrics = {**(done.metrics or {}), **({POINTS: np.stack(points)} if points else {})}
        about: dict[str, Any] = {"parts": [], "seconds": []}
        state = Checkpoint(done.round_index, {"key": self._key}, metrics, done.state._asdict(), about)
        try:
            save(self.path, state)
        except MissingCapability:  # a state of one's own that a file cannot hold: the run is then not kept
            pass
        self._last, self._at = time.monotonic(), done.round_index

    def keep_last(self) -> None:
        """Write the last state that `keep` was handed, where the rounds are over and what follows them fails."""
        if self._newest is not None:
            self.keep(*self._newest, now=True)

    def remove(self) -> None:
        """The run is at its end."""
        self.path.unlink(missing_ok=True)
