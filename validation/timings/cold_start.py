"""What starting costs: processes that import a part or run a short command, beside one that imports NumPy alone.

    python validation/timings/cold_start.py [--repeats 10] [--out FILE]

Every process is started as often as asked, in turns; the table has the least and the middle of the seconds, the least of the seconds of
the processor, in which what else the machine does counts little, and the middle of the ratios to NumPy's import in the same turn.
Bytecode is written before the first turn.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

STARTS: dict[str, tuple[str, ...]] = {
    "import numpy": ("-c", "import numpy"),
    "import fedtheory": ("-c", "import fedtheory"),
    "from fedtheory.testing import all of it": ("-c", "from fedtheory.testing import *"),
    "fedtheory --version": ("-m", "fedtheory", "--version"),
    "fedtheory list": ("-m", "fedtheory", "list"),
    "fedtheory explain theorem-3.1": ("-m", "fedtheory", "explain", "theorem-3.1"),
}


def measured(repeats: int) -> dict[str, dict[str, Any]]:
    """Of every start: seconds, least and middle, and the middle of its ratios to the first of them."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    seconds: dict[str, list[float]] = {name: [] for name in STARTS}
    worked: dict[str, list[float]] = {name: [] for name in STARTS}
    for turn in range(repeats + 1):
        for name, words in STARTS.items():
            since, before = time.perf_counter(), _of_children()
            subprocess.run([sys.executable, *words], env=environment, stdout=subprocess.DEVNULL, check=True)
            if turn:
                seconds[name].append(time.perf_counter() - since)
                worked[name].append(_of_children() - before)
    base = seconds["import numpy"]
    return {
        name: {
            "least_seconds": round(min(some), 3),
            "middle_seconds": round(statistics.median(some), 3),
            "least_processor_seconds": round(min(worked[name]), 3),
            "times_numpy": round(statistics.median(a / b for a, b in zip(some, base, strict=True)), 2),
        }
        for name, some in seconds.items()
    }


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
            f"{name:42} {row['least_seconds']:6.2f} s at least, {row['middle_seconds']:6.2f} s, "
            f"of the processor {row['least_processor_seconds']:6.2f} s, {row['times_numpy']:5.1f} of NumPy's"
        )
    if out is not None:
        from fedtheory.provenance import write_json

        write_json(out, {"starts": rows, "repeats": repeats, "cores": os.cpu_count(), "python": sys.version.split()[0]})


if __name__ == "__main__":
    typer.run(main)
