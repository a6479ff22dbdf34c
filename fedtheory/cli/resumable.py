"""The finished work of a long command, in a file which one process at a time writes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtheory.cli.common import as_typed, note, writing

if TYPE_CHECKING:
    from fedtheory.store.result_store import ResultStore
    from fedtheory.store.resumable import CachedSteps

STEPS = ".steps.sqlite"  # how the names of files with unfinished work end

__all__ = ["only_writer_of", "result_store_at", "resumable"]


def result_store_at(path: Path) -> ResultStore:
    """Open the store of a long command's finished pieces, and tell how many there are."""
    from fedtheory.store.result_store import ResultStore

    with writing(path.parent):
        store = ResultStore(path, note)
    if before := len(store):
        of = f"{before:,} finished pieces of an earlier run"
        note(f"going on from {path}: {of}, as far as they are the same")
    return store


@contextmanager
def resumable(
    out: Path | None, stem: str, options: dict[str, Any], code: str | None
) -> Iterator[CachedSteps]:
    """Keep the steps of a command that writes once, at its end, beside its results or in results/.

    Parameters
    ----------
    stem : how the file's name begins; what was asked for is the rest of it
    options : what was asked for; of values that name files their bytes count, too
    code : what stands for code that is not this package's; None where that may change unseen, so
        that nothing is kept
    """
    from fedtheory.store.result_store import digest_of
    from fedtheory.store.resumable import CachedSteps

    asked = repr(sorted(options.items()))
    each = [v if isinstance(v, list) else [v] for v in options.values()]
    named = [v for values in each for v in values if isinstance(v, str | Path)]
    found = [v for v in named if Path(v).is_file() or (isinstance(v, Path) and v.is_dir())]
    files = {str(v): digest_of(Path(v)) for v in found}
    number = hashlib.sha256(asked.encode()).hexdigest()[:8]
    path = (out or Path("results")) / f"{stem}-{number}{STEPS}"
    for other in sorted(path.parent.glob(f"{stem}-*{STEPS}")):
        if other != path:
            _tell_of(other)
    content, off = [asked, files, code], code is None
    steps = CachedSteps(path, content, as_typed(), note, asked=out is not None, off=off)
    with ExitStack() as stack:
        with writing(path.parent):
            stack.enter_context(steps)
        yield steps


def _tell_of(path: Path) -> None:
    """Tell of the unfinished work of another command: its words, its day, and what may be done."""
    from fedtheory.store.resumable import command_in

    with suppress(OSError):  # another process may have ended it by now
        at, typed = datetime.fromtimestamp(path.stat().st_mtime), command_in(path)
        of = f"`{typed}` ({at.day} {at:%b})" if typed else f"another command ({at.day} {at:%b})"
        note(f"Found unfinished work of {of}. Rerun it to resume, or delete {path}.")


@contextmanager
def only_writer_of(out: Path, name: str) -> Iterator[None]:
    """Within the block no other process writes results of that name to the folder."""
    from fedtheory.store.result_store import only_writer

    with ExitStack() as stack:
        with writing(out):
            stack.enter_context(only_writer(out / name))
        yield
