"""A store of finished results on a disk, so that a long command that was killed goes on from them.

The result of a piece of work, a cell, depends on its content alone. Its key is a hash of that
content, of the source of this package and of the versions that its last bits depend on. The file is
an SQLite database in write-ahead mode: a process that is killed at any moment leaves it whole, with
every result that was put into it. Each result stands behind a hash of itself, so that one digit that
a disk has changed is noticed.

    with ResultStore(folder / "cells.sqlite") as store:
        for i, result in store.compute(work, tasks, contents, workers=2):
            ...
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from fedtheory.errors import DataFileError, FedTheoryError
from fedtheory.parallel import as_finished
from fedtheory.provenance import to_jsonable, versions

__all__ = [
    "MOST", "SOURCES", "ResultStore", "code_digest", "digest_of", "key_of", "known_in",
    "only_writer", "stored_in",
]  # fmt: skip

_SUFFIXES = ("", "-wal", "-shm")  # of the files that SQLite keeps
LOCK = ".lock"
SOURCES = ("fedtheory", "paper_figures")  # packages of ours, side by side
_TABLE = "CREATE TABLE cells (key TEXT PRIMARY KEY, result TEXT NOT NULL) WITHOUT ROWID"
_MISFITS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)  # by results that are none of ours
MOST = 2**28  # bytes of one cell's result: more is no result of ours
SEAL = 16  # characters of the hash that a result stands behind


@cache
def code_digest() -> str:
    """A hash of our source and of the versions of packages that results depend on."""
    found = hashlib.sha256(json.dumps(versions(), sort_keys=True).encode())
    root = Path(__file__).resolve().parents[2]
    for file in sorted(f for package in SOURCES for f in (root / package).rglob("*.py")):
        found.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()


def key_of(content: Any) -> str:
    """The key of a result: a hash of the software, and of ``content``, which is JSON-able and says all else that it depends on."""
    told = json.dumps([code_digest(), to_jsonable(content)], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


def _sealed(key: str, text: str) -> str:
    """A cell's result behind a hash of itself and its key."""
    return hashlib.sha256(f"{key} {text}".encode()).hexdigest()[:SEAL] + text


def _is_whole(key: bytes | None, result: bytes | None) -> bool:
    """True for a cell that is as it was put into the store."""
    if key is None or result is None or len(result) > MOST:
        return False
    return hashlib.sha256(key + b" " + result[SEAL:]).hexdigest()[:SEAL].encode() == result[:SEAL]


def digest_of(path: Path) -> str:
    """A hash of a file's bytes; of a folder's the names, sizes and times of its files, which may be many gigabytes."""
    if not path.is_dir():
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    files = [(str(p.relative_to(path)), p.stat()) for p in sorted(path.rglob("*")) if p.is_file()]
    return hashlib.sha256(repr([(name, s.st_size, s.st_mtime_ns) for name, s in files]).encode()).hexdigest()


def _locked(path: Path) -> IO[str]:
    """The file beside it that says who writes it; its lock ends with the process, however it ends.

    Raises
    ------
    DataFileError
        Another process has it.
    """
    lock = path.with_name(path.name + LOCK)
    file = open(lock, "a+", encoding="utf-8")
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows: SQLite's own locks keep the file whole
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        who = file.read(20).strip()  # it is not there yet where the other one has just begun
        file.close()
        who = f"process {who}" if who else "another process"
        raise DataFileError(f"{path}: {who} is writing it; wait for its end, or take another folder with --out") from None
    try:
        same = os.path.samestat(os.fstat(file.fileno()), lock.stat())
    except FileNotFoundError:
        same = False
    if not same:  # its owner has just removed it, and another process may hold the next one
        file.close()
        return _locked(path)
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


@contextmanager
def only_writer(path: Path) -> Iterator[None]:
    """Let no other process write what is called so; its folder is made, and not left empty.

    Raises
    ------
    DataFileError
        Another process does.
    """
    made = not path.parent.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
    file = _locked(path)
    try:
        yield
    finally:
        path.with_name(path.name + LOCK).unlink(missing_ok=True)  # while it is held, so that it is nobody else's
        file.close()
        if made:
            with suppress(OSError):  # it holds something
                path.parent.rmdir()


class _Chosen(Sequence[Any]):
    """Some of a sequence's items, which are made when they are asked for: a sweep of a million cells holds none of them."""

    def __init__(self, items: Sequence[Any], chosen: Sequence[int]) -> None:
        self._items, self._chosen = items, chosen

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, index: Any) -> Any:
        return self._items[self._chosen[index]]


def stored_in(path: Path, keys: Iterable[str], most: int = MOST) -> Iterator[Any]:
    """Yield the results that a file has under these keys, of at most so many bytes. Its writer is not waited for.

    Raises
    ------
    sqlite3.Error, RecursionError, and others of `_MISFITS`
        It is no such file.
    """
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        if database.execute("SELECT sql FROM sqlite_master LIMIT 2").fetchall() != [(_TABLE,)]:
            return
        asked = "SELECT CAST(key AS BLOB), CAST(result AS BLOB) FROM cells WHERE key = ? AND length(result) <= ?"
        rows = (database.execute(asked, (key, most)).fetchone() for key in keys)
        yield from (json.loads(row[1][SEAL:]) for row in rows if row is not None and _is_whole(*row))


def known_in(path: Path, contents: Iterable[Any], again: Callable[[Any], bool]) -> int:
    """Count the cells of these contents that a file has, as `ResultStore.compute` would take them. 0 where it is no such file."""
    try:
        return sum(not again(result) for result in stored_in(path, map(key_of, contents)))
    except (sqlite3.Error, RecursionError, *_MISFITS):
        return 0


class ResultStore:
    """A file of finished results.

    Parameters
    ----------
    path : Path
        Made if missing, with its folder. One that is no such file, or damaged, is set aside under
        another name; where only some cells are damaged, the others are kept.
    tell : callable(str)
        Called with a line for the user: what was set aside.
    locked : bool
        Whether the caller is its `only_writer` already.

    Attributes
    ----------
    found : int
        Cells that `compute` took from the file.
    recalled : bool
        Whether the last result that `compute` yielded was taken from it.
    begun : bool
        Whether the file was there before: the command was cut short.
    """

    def __init__(self, path: Path, tell: Callable[[str], Any] = lambda line: None, locked: bool = False) -> None:
        self.path, self.found, self.recalled, self._lock = Path(path), 0, False, ExitStack()
        if not locked:
            self._lock.enter_context(only_writer(self.path))
        self.begun = self.path.exists()
        try:
            self._open(tell)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter where what it complains of is no text
            if isinstance(error, sqlite3.OperationalError):  # locked, or a disk that is full: the file may be whole
                self._lock.close()
                remedy = "make room" if "full" in str(error) else "end the process that has it open"
                raise DataFileError(f"{self.path}: {error}; {remedy}, or take another folder") from error
            tell(f"{self._set_aside().name} is what {self.path.name} was: it is damaged ({error}), and its cells are computed again")
            self._open(tell)

    def _drop_damaged(self, tell: Callable[[str], Any]) -> None:
        """Take cells that are not as they were put in out of the file, and keep it as it was under another name."""
        self._database.create_function("is_whole", 2, _is_whole, deterministic=True)
        damaged = "FROM cells WHERE NOT is_whole(CAST(key AS BLOB), CAST(result AS BLOB))"
        (count,) = self._database.execute(f"SELECT COUNT(*) {damaged}").fetchone()
        if not count:
            return
        aside = self._aside()
        with closing(sqlite3.connect(aside)) as copy:
            self._database.backup(copy)
        self._database.execute(f"DELETE {damaged}")
        cells = "1 cell of it is damaged and is" if count == 1 else f"{count:,} cells of it are damaged and are"
        tell(f"{aside.name} is what {self.path.name} was: {cells} computed again")

    def _open(self, tell: Callable[[str], Any]) -> None:
        self._database = sqlite3.connect(self.path, timeout=5, isolation_level=None, check_same_thread=False)
        try:
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            held = self._database.execute("SELECT sql FROM sqlite_master LIMIT 2").fetchall()
            if held not in ([], [(_TABLE,)]):  # a view or a trigger would run what its maker wrote
                raise sqlite3.DatabaseError("it holds something else than a table of cells")
            if not held:
                self._database.execute(_TABLE)
            told = self._database.execute("PRAGMA quick_check(1)").fetchone()
            if told != ("ok",):
                raise sqlite3.DatabaseError(told[0])
            self._drop_damaged(tell)
        except BaseException:
            self._database.close()
            raise

    def _set_aside(self) -> Path:
        """The damaged file under another name, so that nothing is lost."""
        aside = self._aside()
        os.replace(self.path, aside)
        for suffix in _SUFFIXES[1:]:
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        return aside

    def _aside(self) -> Path:
        """A name that is free for what is damaged."""
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.damaged-{number}")).exists():
            number += 1
        return aside

    def __enter__(self) -> ResultStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()
        self._lock.close()
        if self.found and isinstance(error, _MISFITS) and not isinstance(error, FedTheoryError):
            told = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            raise DataFileError(
                f"{self.path}: what it kept cannot be gone on from ({told}): delete it to begin again; "
                "where that ends alike, the fault is not the file's"
            ) from error

    def __len__(self) -> int:
        return int(self._database.execute("SELECT COUNT(*) FROM cells").fetchone()[0])

    def __contains__(self, key: str) -> bool:
        return self._database.execute("SELECT 1 FROM cells WHERE key = ?", (key,)).fetchone() is not None

    def get(self, key: str) -> Any:
        """A cell's result; KeyError where it is not there."""
        asked = "SELECT CASE WHEN length(result) <= ? THEN CAST(result AS BLOB) END FROM cells WHERE key = ?"
        try:
            row = self._database.execute(asked, (MOST, key)).fetchone()
            if row is not None and not _is_whole(key.encode(), row[0]):
                raise ValueError("it is not as it was kept")
            result = None if row is None else json.loads(row[0][SEAL:].decode())
        except (sqlite3.DatabaseError, ValueError, RecursionError, MemoryError) as error:
            raise DataFileError(
                f"{self.path}: the cell {key[:12]} cannot be read ({error}); give the command again, or delete the file to begin again"
            ) from error
        if row is None:
            raise KeyError(key)
        return result

    def put(self, key: str, result: Any) -> Any:
        """Keep a result, which JSON can hold; returns what `get` would."""
        text = json.dumps(to_jsonable(result))
        self.put_text(key, text)
        return json.loads(text)

    def put_text(self, key: str, text: str) -> None:
        """Keep a result that is JSON already."""
        try:
            self._database.execute("INSERT OR REPLACE INTO cells VALUES (?, ?)", (key, _sealed(key, text)))
        except sqlite3.OperationalError as error:  # 'database or disk is full'
            told = "what was finished before is kept: make room, and give the command again"
            raise FedTheoryError(f"{self.path}: {error}; {told}") from error

    def compute(
        self, work: Callable[[Any], Any], tasks: Sequence[Any], contents: Sequence[Any],
        workers: int = 1, here: float = 0.0, again: Callable[[Any], bool] = lambda result: False,
    ) -> Iterator[tuple[int, Any]]:
        """(index, result) of all tasks: first those that the file has, then the others in the order in which they finish.

        Parameters
        ----------
        work : callable(task)
            Its result is what JSON can hold, and what is yielded is read back from JSON, whether it is new or not.
        tasks : passed to `fedtheory.parallel.as_finished`, as ``workers`` and ``here``
        contents : one for each task, as `key_of` takes them
        again : whether a result that the file has is computed again, as what failed for want of a file
        """
        keys = [key_of(content) for content in contents]
        todo: list[int] = []
        for i, key in enumerate(keys):
            try:
                result = self.get(key)
            except KeyError:
                todo.append(i)
                continue
            self.found += 1  # first, as what is none of ours may end `again`
            if again(result):
                self.found -= 1
                todo.append(i)
                continue
            self.recalled = True
            yield i, result
        self.recalled = False
        for j, result in as_finished(work, _Chosen(tasks, todo), workers, here):
            yield todo[j], self.put(keys[todo[j]], result)

    def rows(self, contents: Sequence[Any]) -> Iterator[Any]:
        """The results of these cells, in their order; KeyError where one is missing."""
        return (self.get(key_of(content)) for content in contents)

    def clear(self, below: str = "") -> None:
        """Forget all results, or those whose keys begin so: the command begins again."""
        self._database.execute("DELETE FROM cells WHERE substr(key, 1, ?) = ?", (len(below), below))
        self.begun = self.begun and bool(below)

    def remove(self) -> None:
        """Close and delete the file: what it was for is done."""
        self._database.close()
        for suffix in _SUFFIXES:
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        self._lock.close()
