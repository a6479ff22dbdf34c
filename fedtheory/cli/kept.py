"""The finished steps of a long command, in a folder which one process at a time writes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtheory.cli.common import as_typed, note, writing
from fedtheory.errors import FedTheoryError

if TYPE_CHECKING:
    from fedtheory.cells import Cells
    from fedtheory.steps import Steps

LONGEST = 10_000  # bytes of a command

__all__ = ["kept_cells", "kept_steps", "only_writer_of", "own"]


def kept_cells(path: Path) -> Cells:
    """The finished pieces of a long command in a file of its folder; tells what it goes on from."""
    from fedtheory.cells import Cells

    with writing(path.parent):
        cells = Cells(path, note)
    if before := len(cells):
        note(f"going on from {path}: {before:,} finished pieces of an earlier run, as far as they are the same")
    return cells


def kept_steps(out: Path | None, stem: str, options: dict[str, Any], code: str) -> Steps:
    """Keep the steps of a command that writes once, at its end, beside its results or in results/.

    Parameters
    ----------
    stem : how the folder's name begins; what was asked for is the rest of it
    options : what was asked for; of values that name files their bytes count, too
    code : what stands for code that is not this package's
    """
    from fedtheory.cells import digest_of
    from fedtheory.steps import Steps

    asked = repr(sorted(options.items()))
    named = [v for value in options.values() for v in (value if isinstance(value, list) else [value]) if isinstance(v, str | Path)]
    files = {str(v): digest_of(Path(v)) for v in named if Path(v).is_file() or (isinstance(v, Path) and v.is_dir())}
    number = hashlib.sha256(asked.encode()).hexdigest()[:8]
    folder = (out or Path("results")) / f"{stem}-{number}.steps"
    for other in sorted(folder.parent.glob(f"{stem}-*.steps")):
        if other != folder:
            note(_left_over(other))
    return Steps(folder, [asked, files, code], note, unasked=out is None, command=as_typed())


def _left_over(folder: Path) -> str:
    """Two sentences on what another command left: its words and when it wrote last, and what may be done."""
    from fedtheory.steps import COMMAND
    from fedtheory.untrusted import read_text

    try:
        text = read_text(folder / COMMAND, LONGEST, "a command")
        typed = "".join(c for c in " ".join(text.split()) if c.isprintable())
        last = max(file.stat().st_mtime for file in folder.iterdir())
    except (FedTheoryError, OSError):  # of an older version; another process may have ended it by now
        return f"{folder} is of another command that was cut short. Give that command again to go on, or delete the folder."
    when = f"{datetime.fromtimestamp(last):%d %B %Y, %H:%M}"
    return f"{folder} is of `{typed}`, cut short on {when}. Give that command again to go on, or delete the folder."


def own(steps: Steps, out: Path) -> None:
    """Be the one that does this. Raises `FedTheoryError` where another process is, or the folder takes no files."""
    with writing(out):
        steps.own()


@contextmanager
def only_writer_of(out: Path, name: str) -> Iterator[None]:
    """Within the block no other process writes results of that name to the folder."""
    from fedtheory.cells import only_writer

    with ExitStack() as stack:
        with writing(out):
            stack.enter_context(only_writer(out / name))
        yield
