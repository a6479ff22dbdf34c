"""What a long command has finished, kept in its folder, which one process at a time writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fedtheory.cli.common import err_console, not_writable
from fedtheory.errors import FedTheoryError

if TYPE_CHECKING:
    from fedtheory.cells import Cells

__all__ = ["kept_cells", "only_writer_of"]


def kept_cells(path: Path) -> Cells:
    """The finished pieces of a long command in a file of its folder; tells what it goes on from.

    Raises
    ------
    FedTheoryError
        The folder takes no files.
    """
    from fedtheory.cells import Cells

    say = partial(err_console().print, style="dim", markup=False, soft_wrap=True)
    try:
        cells = Cells(path, say)
    except FedTheoryError:  # which says all of it, and may be an OSError as well
        raise
    except OSError as error:
        raise not_writable(path.parent, error) from error
    if before := len(cells):
        say(f"going on from {path}: {before:,} finished pieces of an earlier run, as far as they are the same")
    return cells


@contextmanager
def only_writer_of(out: Path, name: str) -> Iterator[None]:
    """Within the block no other process writes results of that name to the folder.

    Raises
    ------
    FedTheoryError
        Another process does; the folder takes no files.
    """
    from fedtheory.cells import only_writer

    with ExitStack() as stack:
        try:
            stack.enter_context(only_writer(out / name))
        except FedTheoryError:
            raise
        except OSError as error:
            raise not_writable(out, error) from error
        yield
