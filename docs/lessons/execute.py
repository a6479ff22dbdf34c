"""Execute the lessons: every text notebook beside this file becomes a Jupyter notebook with its outputs.

    python docs/lessons/execute.py [FOLDER] [--only NAME]

Solutions are folded in what is written, as they are on the site. A lesson whose cell fails is told
with its cell and its error, the others are made all the same, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from fedtheory.provenance import write_atomic

HERE = Path(__file__).resolve().parent
FOLDED = {"hide-cell": ("source_hidden", "outputs_hidden"), "hide-input": ("source_hidden",)}
SECONDS = 300  # that a cell may take


def lessons(only: str | None = None) -> list[Path]:
    """The text notebooks in their order; those whose name contains `only` where it is given."""
    found = sorted(HERE.glob("[0-9]*.md"))
    return [path for path in found if only is None or only in path.stem]


def fold(notebook: Any) -> None:
    """Mark for Jupyter what the tags say is folded."""
    for cell in notebook.cells:
        for tag in set(cell.metadata.get("tags", ())) & set(FOLDED):
            cell.metadata.setdefault("jupyter", {}).update(dict.fromkeys(FOLDED[tag], True))


def execute(path: Path, folder: Path) -> Path:
    """One lesson, executed, as folder/NAME.ipynb.

    Raises
    ------
    CellExecutionError
        What a cell raised.
    """
    notebook = jupytext.read(path)
    os.environ["FEDTHEORY_LESSONS"] = "strict"  # for the kernel: a number of the text that is wrong fails
    fold(notebook)
    quiet = ["--log-level=ERROR"]  # of the kernel: no word on how it talks to this process
    NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", extra_arguments=quiet).execute()
    return write_atomic(folder / f"{path.stem}.ipynb", nbformat.writes(notebook).encode())


def main(arguments: list[str] | None = None) -> int:
    """Execute what was asked for; 1 where a lesson failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path("results/lessons"), help="where the notebooks go")
    parser.add_argument("--only", metavar="NAME", help="the lessons whose name contains this, for example drift or 3")
    asked = parser.parse_args(arguments)
    if not (chosen := lessons(asked.only)):
        parser.error(f"no lesson's name contains {asked.only!r}: there are {', '.join(p.stem for p in lessons())}")
    asked.folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for number, path in enumerate(chosen, start=1):
        print(f"{number}/{len(chosen)} {path.stem} ...", end=" ", flush=True)
        begin = time.perf_counter()
        try:
            print(f"{execute(path, asked.folder)}, {time.perf_counter() - begin:.0f} s")
        except CellExecutionError as error:
            failed += 1
            print(f"failed\n{error}", file=sys.stderr)
    print(f"open them: {Path(sys.executable).with_name('jupyter')} lab {asked.folder}")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
