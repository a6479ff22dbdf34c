"""Costs of a start: processes that import a part or run a short command, beside NumPy's import.

    python validation/timings/cold_start.py [--repeats 10] [--out FILE]

Every process is started as often as asked, in turns, in a folder of its own that takes what is
written; the table has the least and the middle of the seconds, and of those of the processor, in
which what else the machine does counts little, and the middle of the ratios of both to NumPy's
import in the same turn. Bytecode is written before the first turn.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = (
    "--version", "--help", "list", "list methods", "explain theorem-3.1", "explain fedmls/theorem-1",
    "explain efl/theorem-1", "verify theorem-3.1 --problem diabetes", "run --help",
    "run fedavg quadratic --rounds 3 --no-figures", "draw results/run-fedavg-quadratic.json",
    "solve diabetes", "worst-case fedavg", "rates --help",
    "replay fedelasticnet-theorem-3.1-printed-sign",
    f"verify {ROOT / 'examples' / 'descent_lemma.py'} --quick --budget 0 --json",
)  # fmt: skip
STARTS = {
    "import numpy": ("-c", "import numpy"),
    "import fedtheory": ("-c", "import fedtheory"),
    "from fedtheory.testing import all of it": ("-c", "from fedtheory.testing import *"),
    **{f"fedtheory {c.replace(f'{ROOT}/', '')}": ("-m", "fedtheory", *c.split()) for c in COMMANDS},
}


def measured(repeats: int) -> dict[str, dict[str, float]]:
    """Of every start: seconds and those of the processor, least and middle, and the middle of their
    ratios to the first one's."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPATH": str(ROOT)}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in STARTS}
    options: dict[str, Any] = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "check": True}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(repeats + 1):
            for name, words in STARTS.items():
                since, before = time.perf_counter(), _of_children()
                subprocess.run([sys.executable, *words], cwd=folder, **options)
                if turn:
                    taken[name].append((time.perf_counter() - since, _of_children() - before))
    rows = {}
    for name, some in taken.items():
        rows[name] = row = {}
        for i, of in enumerate(("", "processor_")):
            row[f"least_{of}seconds"] = round(min(t[i] for t in some), 3)
            row[f"middle_{of}seconds"] = round(statistics.median(t[i] for t in some), 3)
            ratios = (t[i] / base[i] for t, base in zip(some, taken["import numpy"], strict=True))
            row[f"{of}times_numpy"] = round(statistics.median(ratios), 2)
    return rows


def _of_children() -> float:
    """Seconds of the processor that ended processes had."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(
    repeats: Annotated[int, typer.Option(min=1, help="Starts of each.")] = 10,
    out: Annotated[Path | None, typer.Option(help="Write the table to this JSON file.")] = None,
) -> None:
    """Time the starts and print them."""
    rows = measured(repeats)
    for name, row in rows.items():
        print(
            f"{name:70} {row['least_seconds']:6.2f} s at least, {row['middle_seconds']:6.2f} s, of the processor "
            f"{row['least_processor_seconds']:6.2f} s, {row['processor_times_numpy']:5.1f} of NumPy's"
        )
    if out is not None:
        from fedtheory.provenance import write_json

        write_json(out, {"starts": rows, "repeats": repeats, "cores": os.cpu_count(), "python": sys.version.split()[0]})


if __name__ == "__main__":
    typer.run(main)
