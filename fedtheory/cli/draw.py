"""`fedtheory draw`: a saved result drawn again from its data alone."""

from __future__ import annotations

from pathlib import Path

from fedtheory.cli.common import emit, not_writable, out_console, progress

__all__ = ["draw"]


def draw(
    files: list[Path], dpi: int, as_json: bool, out: Path | None, size: str = "page", title: bool = True
) -> None:
    """Draw every file, beside it or in ``out``; a file that cannot be drawn ends the command, and what was drawn stays.

    Raises
    ------
    DataFileError
        As `fedtheory.report.redraw.draw_saved` raises it.
    """
    from fedtheory.errors import DataFileError
    from fedtheory.report.redraw import draw_saved

    told = []
    for file in files:
        with progress(f"drawing {file.name}"):
            try:
                found, written = draw_saved(file, out, dpi, size, title)
            except DataFileError:
                raise
            except OSError as error:
                raise not_writable(out or file.parent, error) from error
        told.append({"file": file, "kind": found.kind, "files": written})
        if not as_json:
            names = ", ".join(map(str, written))
            out_console().print(f"{file}: {found.kind}; wrote {names}", markup=False, soft_wrap=True)
    if as_json:
        emit(told)
