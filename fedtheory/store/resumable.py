"""Resume a long command from its finished steps, kept in a `ResultStore` until it is at its end.

A command takes the same steps in the same order each time. So a step is known by its name and its
number among those of its name, within the step that it is part of. Where no command keeps its
steps, asking costs nothing:

    checks = cached_step("look", lambda: judge(forms))     # as it was kept, or made now

Nothing is written in the first `WAIT` seconds of a command. The file is read without pickle: it may
come from anyone.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from contextvars import ContextVar, Token
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from fedtheory.errors import DataFileError, FedTheoryError
from fedtheory.store.checkpoints import DAMAGE
from fedtheory.store.result_store import ResultStore, key_of, only_writer, stored_in

__all__ = ["CachedSteps", "cached_step", "command_in", "decoded", "encoded", "step_key"]

WAIT = 5.0  # seconds of a command that are not kept
SHORT = 0.1  # a step that takes less is made again
LARGEST = 2**26  # bytes of arrays in a step: a larger one is made again
LONGEST = 10_000  # bytes of a command
COMMAND = "command"  # the entry that says whose steps these are; those of steps begin with a slash
KINDS = "biuf"  # of NumPy's dtypes

_current: ContextVar[CachedSteps | None] = ContextVar("fedtheory_steps", default=None)


def cached_step(
    name: str | Callable[[], str], make: Callable[[], Any], shared: bool = False
) -> Any:
    """Return the result of a step: as the running command has kept it, or as ``make`` makes it.

    Kept are numbers, text, arrays and None in lists, tuples and dicts. A step of anything else, as
    a named tuple, is made again.

    Parameters
    ----------
    name : or what gives it, where that takes time
    shared : the name says all that the result depends on, and whoever asks for it gets it
    """
    steps = _current.get()
    if steps is None:
        return make()
    return steps.cached(name if isinstance(name, str) else name(), make, shared)


def step_key(name: str, *of: Any) -> str:
    """Name a step by all that it is about: 'NAME 1f3a...'.

    Needed where the number of steps of its kind before it may differ.
    """
    told = re.sub(r" at 0x[0-9a-f]+", "", repr(of))
    return f"{name} {hashlib.sha256(told.encode()).hexdigest()[:16]}"


class CachedSteps:
    """The finished steps of one command. As a context manager it keeps those taken within it.

    Parameters
    ----------
    path : made when there is something to keep
    content : all that the results depend on, but for the software
    command : what was typed, for whoever finds the file
    tell : callable(str)
        Called with a line for the user.
    asked : whether the user named the folder. A second process that does the same is then refused
        from the start; else it works, and keeps nothing if the first has begun to.
    off : keep nothing

    Attributes
    ----------
    begun : whether an earlier process has kept something
    """

    def __init__(
        self, path: Path, content: Any, command: str = "", tell: Callable[[str], Any] = lambda line: None,
        asked: bool = True, off: bool = False,
    ) -> None:  # fmt: skip
        self.path, self._tell, self._asked, self._off = path, tell, asked, off
        self._about = {"command": command[:LONGEST], "content": key_of(content)}
        self._scope: tuple[str, Counter[str]] = ("", Counter())
        self._began, self.begun = time.monotonic(), False
        self._open = ExitStack()
        self._store: ResultStore | None = None
        self._token: Token[CachedSteps | None]

    def __enter__(self) -> CachedSteps:
        try:
            if self._asked:
                self._open.enter_context(only_writer(self.path))
            if self.path.exists():
                self._opened()
        except BaseException:
            self._open.close()
            raise
        self.begun = self.written
        if self.begun:
            self._tell(
                f"going on where an earlier process of this command ended: it left {self.path}"
            )
        self._token = _current.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _current.reset(self._token)
        try:
            self._open.__exit__(kind, error, trace)
        finally:
            if not self._asked:
                with suppress(OSError):  # it holds something, or was never made
                    self.path.parent.rmdir()

    @property
    def written(self) -> bool:
        """True if something is kept, of now or of an earlier process."""
        return self._store is not None and len(self._store) > 1

    def remove(self) -> None:
        """Delete the file: the command is at its end."""
        if self._store is not None:
            self._store.remove()
            self._store, self._off = None, True

    def cached(self, name: str, make: Callable[[], Any], shared: bool) -> Any:
        """See `cached_step`."""
        place, counts = self._scope
        counts[name] += not shared
        key = f"/{name}" if shared else f"{place}/{name} {counts[name]}"
        if self._store is not None and key in self._store:
            try:
                found = decoded(self._store.get(key))
            except (LookupError, ArithmeticError, *DAMAGE) as error:
                told = f"a step in it cannot be read ({error}): delete it to begin again"
                raise DataFileError(f"{self.path}: {told}") from error
            self._store.found += 1
            return found
        began, self._scope = time.monotonic(), (key, Counter())
        try:
            result = make()
        finally:
            self._scope = place, counts
        if (
            time.monotonic() - began >= SHORT
            and time.monotonic() - self._began >= WAIT
            and not self._off
        ):
            self._keep(key, result)
        return result

    def _opened(self) -> ResultStore:
        """Open the file, and empty it where it is of another content or other software."""
        store = self._store = self._open.enter_context(
            ResultStore(self.path, self._tell, locked=self._asked)
        )
        about = store.get(COMMAND) if COMMAND in store else None
        if not isinstance(about, dict) or about.get("content") != self._about["content"]:
            store.clear()
            store.put(COMMAND, self._about)
        return store

    def _keep(self, key: str, result: Any) -> None:
        """Write a step, and drop those within it. Where that fails nothing more is kept."""
        if _size(result) > LARGEST:
            return
        try:
            text = json.dumps(encoded(result))
        except TypeError:
            return
        try:
            store = self._store or self._opened()
            store.put_text(key, text)
            store.clear(f"{key}/")
        except (FedTheoryError, OSError, sqlite3.Error) as error:
            self._off = True
            self._tell(f"{error}. This command goes on, and what it does from here on is not kept.")


def command_in(path: Path) -> str:
    """Return the command whose steps a file keeps, in printable characters; '' if it says none."""
    try:
        (about,) = stored_in(path, [COMMAND], 7 * LONGEST)
        return "".join(c for c in " ".join(about["command"].split()) if c.isprintable())[:LONGEST]
    except (sqlite3.Error, OSError, LookupError, *DAMAGE):
        return ""


# --- values with arrays, as JSON ------------------------------------------------------------------
def encoded(value: Any) -> Any:
    """Give a value as JSON holds it, arrays as NumPy's .npy files.

    Raises `TypeError` for what `cached_step` does not keep.
    """
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in KINDS:
        np.save(file := io.BytesIO(), value, allow_pickle=False)
        return {
            "array" if isinstance(value, np.ndarray) else "number": base64.b64encode(
                file.getvalue()
            ).decode()
        }
    if type(value) is float and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or type(value) in (bool, str, int, float):
        return value
    if type(value) is dict:
        return {"dict": [[encoded(k), encoded(v)] for k, v in value.items()]}
    if type(value) is list:
        return [encoded(v) for v in value]
    if type(value) is tuple:
        return {"tuple": [encoded(v) for v in value]}
    raise TypeError(type(value).__name__)


def decoded(told: Any) -> Any:
    """The inverse of `encoded`. Raises one of `DAMAGE` or a LookupError on what it did not make."""
    if isinstance(told, list):
        return [decoded(v) for v in told]
    if not isinstance(told, dict):
        return told
    ((kind, value),) = told.items()
    if kind == "dict":
        return {decoded(k): decoded(v) for k, v in value}
    if kind == "tuple":
        return tuple(decoded(v) for v in value)
    if kind == "float":
        return float(value)
    array = np.lib.format.read_array(
        io.BytesIO(base64.b64decode(value, validate=True)), allow_pickle=False
    )
    if array.dtype.kind not in KINDS:
        raise ValueError(f"{array.dtype} are no numbers")
    return array if kind == "array" else array[()]


def _size(value: Any) -> int:
    """Bytes of the arrays in a value."""
    if isinstance(value, dict):
        value = list(value.values())
    return (
        sum(map(_size, value)) if isinstance(value, list | tuple) else getattr(value, "nbytes", 0)
    )
