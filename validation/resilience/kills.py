"""Long commands, each killed with SIGKILL at random moments, and what becomes of them.

    python validation/resilience/kills.py --kills 20
    python validation/resilience/kills.py --only verify --kills 3

A command is run once to its end. Then, as often as asked: it is run in a new folder and killed
after a time drawn between nothing and what it took; two seconds later no process of it may be left,
and no file that is half written; the same command then ends with the files of the one that was
never killed. Files are compared to the byte, but for times, memory, and when they were written,
which are taken out of JSON files; a store of cells is compared row by row; pages and pictures that
show times are compared by their names.

Of each kill is told: after how many seconds it came, how much the second run took of what a whole
run takes, and what differed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

from fedtheory.provenance import write_json

FEDTHEORY = (sys.executable, "-m", "fedtheory")
COMMANDS: dict[str, tuple[str, ...]] = {
    "verify": ("verify", "fedmls/", "--quick"),  # instances, and the search
    "search": ("verify", "elastic-aggregation/", "--no-long-runs", "--scale", "0.1", "--budget", "2000"),
    "statement": (
        "verify", "theorem-3.1", "--problem", "breast-cancer", "--clients", "60", "-P", "6", "--rounds", "5000", "--allow-long",
    ),
    "rates": ("rates", "--quick", "--no-figures"),
    "run": ("run", "fedavg", "diabetes", "-T", "60000", "--local-solver", "local-sgd", "--local-steps", "2", "--no-figures"),
    "bench": ("bench", "fedelasticnet-table2", "--quick", "--rounds", "10", "--threads", "1"),
    "sweep": ("sweep", str(Path(__file__).with_name("sweep.toml"))),
}
SINCE = (  # what no two runs share
    "seconds", "part_seconds", "memory_mib", "written", "conic_seconds", "provenance", "peak", "commit", "cores",
)  # fmt: skip
MARK = "FEDTHEORY_KILLED"
SHOWS_TIMES = ("report.html", "report.md", "fedmls_local_work", "efl_worst_case", "worst_case_vs_bound")


def left_over(mark: str) -> list[int]:
    """The processes whose environment has the mark."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                marked = f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0")
                if marked and "State:\tZ" not in (folder / "status").read_text():
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


def timeless(value: Any) -> Any:
    """A JSON value without what no two runs share."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in SINCE}
    return [timeless(v) for v in value] if isinstance(value, list) else value


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a finished run, and what is compared of it."""
    found = {}
    for file in sorted(p for p in folder.rglob("*") if p.is_file()):
        name, data = str(file.relative_to(folder)), file.read_bytes()
        if any(shows in name for shows in SHOWS_TIMES) or file.suffix in (".ckpt", ".md"):
            data = b""
        elif file.suffix == ".json":
            data = json.dumps(timeless(json.loads(data)), sort_keys=True).encode().replace(str(folder).encode(), b"OUT")
        elif file.suffix == ".sqlite":  # the bytes of a database depend on the order in which its rows came
            with closing(sqlite3.connect(file)) as store:
                data = repr(sorted(store.execute("SELECT key, result FROM cells"))).encode()
        found[name] = data
    return found


def half_written(folder: Path) -> list[str]:
    """JSON that cannot be read, and pictures without an end; a hidden temporary file is none, it is
    never taken for a result."""
    bad = []
    for file in folder.rglob("*") if folder.exists() else ():
        if file.name.startswith("."):
            continue
        data = file.read_bytes() if file.is_file() else b"{}"
        try:
            if file.suffix == ".json":
                json.loads(data)
        except ValueError:
            bad.append(file.name)
        ends = {".png": b"IEND", ".pdf": b"%%EOF", ".html": b"</html>"}.get(file.suffix)
        if ends is not None and ends not in data[-64:]:
            bad.append(file.name)
    return bad


def started(arguments: tuple[str, ...], out: Path, mark: str) -> subprocess.Popen[bytes]:
    env = {**os.environ, MARK: mark, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([*FEDTHEORY, *arguments, "--out", str(out)], env=env, start_new_session=True, **pipes)


def whole(arguments: tuple[str, ...], out: Path) -> tuple[float, int]:
    """Seconds and exit code of a run to its end."""
    start = time.perf_counter()
    code = started(arguments, out, uuid.uuid4().hex).wait()
    return time.perf_counter() - start, code


def killed(arguments: tuple[str, ...], reference: dict[str, bytes], took: float, after: float) -> dict[str, Any]:
    """One kill, and the run after it."""
    with tempfile.TemporaryDirectory() as folder:
        out, mark = Path(folder) / "out", uuid.uuid4().hex
        process = started(arguments, out, mark)
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        time.sleep(2)
        left, bad = left_over(mark), half_written(out)
        again, code = whole(arguments, out)
        found = content(out)
    differ = sorted(k for k in found.keys() | reference.keys() if found.get(k) != reference.get(k) and not k.startswith("."))
    return {
        "after": round(after, 2), "again": round(again, 2), "lost": round(again + after - took, 2), "exit_code": code,
        "processes_left": len(left), "half_written": bad, "files_that_differ": differ,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--only", choices=COMMANDS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    o = parser.parse_args()
    draw, bad = random.Random(o.seed), 0
    told: dict[str, Any] = {}
    for name, arguments in COMMANDS.items():
        if o.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            took, code = whole(arguments, Path(folder) / "out")
            reference = content(Path(folder) / "out")
        print(f"{name}: {took:.1f} s, exit code {code}, {len(reference)} files", flush=True)
        kills = []
        for _ in range(o.kills):
            kills.append(found := killed(arguments, reference, took, draw.uniform(0, took)))
            fine = not (found["processes_left"] or found["half_written"] or found["files_that_differ"]) and found["exit_code"] == code
            bad += not fine
            print(f"  {'ok ' if fine else 'BAD'} {json.dumps(found)}", flush=True)
        words = [Path(a).name if Path(a).is_absolute() else a for a in arguments]
        told[name] = {"arguments": words, "seconds": round(took, 2), "files": len(reference), "kills": kills}
    if o.out is not None:
        write_json(o.out, {"commands": told, "bad": bad})
    print("all as if never killed" if not bad else f"{bad} kills were noticed")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
