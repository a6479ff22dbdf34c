"""The steps of a long command, kept on a disk while it goes on, so that the same command goes on
where it was killed.

A command does the same steps in the same order each time, so that a step is known by its name and
its number among those of its name, within the step that it is part of. What takes long asks here,
and where no command keeps anything the answer costs nothing:

    checks = whole("look", lambda: judge(forms))     # as it was kept, or made now
    loop = Loop("rounds", (x, path))
    x, path = loop.state                             # as given, or as it was kept
    for t in loop.upto(rounds):                      # 1, 2, ..., or from where it was
        ...
        loop.state = x, path

Nothing is written in the first `WAIT` seconds, and a loop writes every `EVERY` seconds. A file
holds arrays and a JSON text, is read without pickle, and is written whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.cells import blame, key_of, only_writer
from fedtheory.errors import DataFileError, FedTheoryError
from fedtheory.packed import DAMAGE, Unpackable, opened, packed, unpacked
from fedtheory.provenance import write_atomic

__all__ = ["COMMAND", "Loop", "Running", "Steps", "called", "keeps", "running", "unkept", "whole"]

COMMAND = "command.txt"  # in a folder of steps: what was typed
WAIT = 5.0  # seconds of a command that are not kept
EVERY = 10.0  # between two states of a loop
SHORT = 0.1  # a step that takes less is made again
SHARE = 10  # writing takes at most a tenth of the time, up to 4 EVERY

_current: ContextVar[Steps | None] = ContextVar("fedtheory_steps", default=None)


def whole(name: str, make: Callable[[], Any], shared: bool = False) -> Any:
    """The result of a step: numbers, text, arrays and None in lists, tuples and dicts; as it was
    kept, or as ``make`` makes it.

    shared : the name says all that it is, and whoever asks for it in this command gets it
    """
    steps = _current.get()
    return make() if steps is None else steps.whole(name, make, shared)


def keeps() -> bool:
    """True if a command keeps its steps."""
    return _current.get() is not None


@contextmanager
def unkept() -> Iterator[None]:
    """Keep nothing of what is done here: it is made again, before what is gone on with."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


def called(what: str, *of: Any) -> str:
    """A name for a step that others of another kind come before or not, as what they found may be
    known already: 'WHAT 1f3a...'."""
    told = re.sub(r" at 0x[0-9a-f]+", "", repr(of))
    return f"{what} {hashlib.sha256(told.encode()).hexdigest()[:16]}"


def running(name: str) -> Running | None:
    """A loop whose state is kept; None where no command keeps any."""
    steps = _current.get()
    return None if steps is None else Running(steps, steps.path_of(name))


class Loop:
    """A loop that counts, and all that it changes.

    Parameters
    ----------
    state : tuple, to begin with
        Of what `whole` may return, and of named tuples; a list in it only ever grows, and where it
        is one of named tuples it holds one.

    Attributes
    ----------
    state : the same after the last number, to be set by the loop
    """

    def __init__(self, name: str, state: tuple[Any, ...]) -> None:
        self.state, self._done, self._running = state, 0, running(name)
        past = None if self._running is None else self._running.past()
        if self._running is None or past is None:
            return
        (done, kept), grown = past
        try:
            whole_state = [grown[str(i)] if type(v) is list else kept[i] for i, v in enumerate(state)]
            self.state, self._done = tuple(_like(a, b) for a, b in zip(state, whole_state, strict=True)), int(done)
        except (LookupError, TypeError, ValueError) as error:
            self._running.refuse(str(error))

    def upto(self, last: int) -> Iterator[int]:
        """The numbers up to the last one."""
        for number in range(self._done + 1, last + 1):
            yield number
            if self._running is not None:
                self._done = number
                self._running.keep(self._now, self._grown, number == last)

    def _now(self) -> tuple[int, list[Any]]:
        return self._done, [None if type(v) is list else v for v in self.state]

    def _grown(self) -> dict[str, list[Any]]:
        return {str(i): v for i, v in enumerate(self.state) if type(v) is list}


def _like(first: Any, value: Any) -> Any:
    """The value with the named tuples that ``first`` has."""
    if isinstance(first, tuple) and hasattr(first, "_make"):
        return first._make(value)
    return [_like(first[0], v) for v in value] if type(first) is list and first else value


class Steps:
    """The steps that a command has done so far.

    Parameters
    ----------
    folder : made when there is something to keep, and removed by `remove`; one process at a time writes it
    content : what the results depend on, but for the software; what another one kept is taken over by none
    tell : callable(str)
        Called with a line for the user.
    unasked : whether nobody asked for the folder that it is in, which is then not left empty
    command : what was typed, kept as `COMMAND` in the folder for whoever finds it

    Attributes
    ----------
    begun : whether an earlier process has kept something
    off : whether nothing is kept, as nothing may be or nothing can be
    """

    def __init__(
        self, folder: Path, content: Any, tell: Callable[[str], Any] = lambda line: None, unasked: bool = False, command: str = ""
    ) -> None:
        self.folder, self.tell, self._unasked, self._command = folder, tell, unasked, command
        self._key, self._lock, self._mine = key_of(content)[:16], ExitStack(), False
        self._scope: tuple[str, Counter[str]] = ("", Counter())
        self._inner: list[Path] = []  # files of loops within steps that are not finished
        self._begun = time.monotonic()
        self._there: set[str] = set()  # files of this command
        self._cleared = self.off = False
        if folder.exists():
            self.own()
            self._there.update(file.name for file in folder.glob(f"{self._key}-*.npz"))
            if self.written:
                tell(f"going on where an earlier process of this command ended: it left {folder}")
        self.begun = self.written

    @property
    def written(self) -> bool:
        """True if something is kept, of now or of an earlier process."""
        return bool(self._there)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Within it steps are kept. Raises `DataFileError` where those of an earlier process may have led to an error."""
        token = _current.set(self)
        try:
            yield
        except Exception as error:
            if self.begun:
                blame(self.folder, error)
            raise
        finally:
            _current.reset(token)
            self._lock.close()
            if self._unasked and self.folder.parent.is_dir() and not any(self.folder.parent.iterdir()):
                self.folder.parent.rmdir()

    def own(self) -> None:
        """Be the one that writes the folder. Raises `DataFileError` where another process is."""
        if not self._mine:
            self._lock.enter_context(only_writer(self.folder))
            self._mine = True

    def remove(self) -> None:
        """The command is at its end: nothing is kept of it."""
        if self._mine and self.folder.exists():
            for file in self.folder.glob("*.npz"):
                file.unlink(missing_ok=True)
            if {file.name for file in self.folder.iterdir()} <= {COMMAND}:  # what was damaged stays
                (self.folder / COMMAND).unlink(missing_ok=True)
                self.folder.rmdir()

    # --- steps ------------------------------------------------------------------------------------
    def path_of(self, name: str) -> str:
        """The next step of that name in the one that is running."""
        path, counts = self._scope
        counts[name] += 1
        return f"{path}/{name} {counts[name]}"

    def counts(self) -> Counter[str]:
        """The number of steps of each name that the one that is running has begun."""
        return self._scope[1]

    def whole(self, name: str, make: Callable[[], Any], shared: bool) -> Any:
        """See `whole`."""
        path = f"/{name}" if shared else self.path_of(name)
        if (found := self.read(path)) is not None:
            return found["result"]
        before, inner, begun = self._scope, self._inner, time.monotonic()
        self._scope, self._inner = (path, Counter()), []
        try:
            result = make()
            if time.monotonic() - begun >= SHORT and self.write(path, {"result": result}):
                for file in self._inner:
                    file.unlink(missing_ok=True)
                    self._there.discard(file.name)
            else:
                inner = [*inner, *self._inner]
        finally:
            self._scope, self._inner = before, inner
        return result

    # --- files ------------------------------------------------------------------------------------
    def file_of(self, path: str) -> Path:
        """The file of a step."""
        return self.folder / f"{self._key}-{hashlib.sha256(path.encode()).hexdigest()[:24]}.npz"

    def read(self, path: str) -> Any:
        """Read what was kept under that path; None without any. A damaged file is set aside."""
        file = self.file_of(path)
        if file.name not in self._there:
            return None
        try:
            with opened(file) as archive:
                told = unpacked(archive, str(file))
            if told["path"] != path:
                raise ValueError(f"it is of another step, {told['path']!r}")
            return told["value"]
        except (LookupError, DataFileError, OSError, RecursionError, *DAMAGE) as error:
            self.set_aside(path, str(error))
            return None

    def set_aside(self, path: str, why: str) -> None:
        """Keep a file that is damaged under another name."""
        file = self.file_of(path)
        aside = file.with_name(f"{file.name}.damaged")
        os.replace(file, aside)
        self._there.discard(file.name)
        told = " ".join(why.split())[:200]
        self.tell(f"a step was damaged ({told}) and is made again; its file is kept as {aside}, which you may delete")

    def write(self, path: str, value: Any) -> bool:
        """Keep a value under a path; whether that was done."""
        if self.off or time.monotonic() - self._begun < WAIT:
            return False
        try:
            held = packed({"path": path, "value": value})
        except Unpackable:
            return False
        try:
            if not self._mine:
                self.own()
            if not self.folder.exists():
                self.folder.mkdir(parents=True)
                write_atomic(self.folder / COMMAND, self._command)
            for other in self.folder.glob("*.npz") if not self._cleared else ():
                if not other.name.startswith(self._key):  # of other software, or other data
                    other.unlink(missing_ok=True)
            self._cleared = True
            write: Any = partial(np.savez, **held)  # type: ignore[arg-type]
            self._there.add(write_atomic(self.file_of(path), write).name)
        except FedTheoryError as error:
            if not self._unasked:
                raise
            self.off = True
            self.tell(f"{error}; this one goes on, and nothing of it is kept")
            return False
        except OSError as error:
            self.off = True
            self.tell(f"{self.folder}: cannot be written ({error.strerror}): what is done is not kept; make room to have it kept")
            return False
        return True

    def began_inner(self, file: Path) -> None:
        """A file that is of no use once the step around it is finished."""
        if file not in self._inner:
            self._inner.append(file)


class Running:
    """A loop, and where it stands.

    Made by `running`. A loop that another process began goes on from `past`, and has then begun as many inner steps.
    """

    def __init__(self, steps: Steps, path: str) -> None:
        self._steps, self._path, self._pieces = steps, path, 0
        self._held: Counter[str] = Counter()
        self._begun = self._last = time.monotonic()
        self._every = EVERY

    def past(self) -> tuple[Any, dict[str, list[Any]]] | None:
        """The newest state and what had grown by then, as `keep` was given them; None where nothing was kept."""
        found = self._steps.read(self._path)
        if found is None:
            return None
        grown: dict[str, list[Any]] = {name: [] for name in found["held"]}
        for i in range(found["pieces"]):
            piece = self._steps.read(f"{self._path}: {i}")
            if piece is None:
                return None
            for name, items in piece.items():
                grown[name] += items
        if any(len(grown[name]) != count for name, count in found["held"].items()):
            return None
        self._pieces, self._held = found["pieces"], Counter(found["held"])
        self._steps.counts().clear()
        self._steps.counts().update(found["counts"])
        self._remember()
        return found["state"], grown

    def keep(
        self, state: Callable[[], Any], grown: Callable[[], Mapping[str, list[Any]]] = dict, last: bool = False
    ) -> None:
        """Write the state where it is time, or where the loop took its time and is at its ``last``.

        Parameters
        ----------
        state : what `whole` may return
        grown : lists of such values that only ever grow: what was written of them is not written again
        """
        begun = time.monotonic()
        if begun - self._last < self._every and not (last and begun - self._begun >= SHORT):
            return
        lists = grown()
        new = {name: items[self._held[name] :] for name, items in lists.items()}
        if any(new.values()):
            if not self._steps.write(f"{self._path}: {self._pieces}", new):
                return
            self._pieces += 1
            self._held.update({name: len(items) for name, items in new.items()})
        held = {name: self._held[name] for name in lists}
        told = {"state": state(), "pieces": self._pieces, "held": held, "counts": dict(self._steps.counts())}
        written = self._steps.write(self._path, told)
        self._last = time.monotonic()
        if written:
            self._remember()
            self._every = min(4 * EVERY, max(EVERY, SHARE * (self._last - begun)))

    def refuse(self, why: str) -> None:
        """Set aside what `past` gave: it is none of this loop's."""
        self._steps.set_aside(self._path, why)
        self._pieces, self._held = 0, Counter()

    def _remember(self) -> None:
        for path in (self._path, *(f"{self._path}: {i}" for i in range(self._pieces))):
            self._steps.began_inner(self._steps.file_of(path))
