"""A sweep on a cluster whose driver is killed computes only what is missing when it is given again."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

SPEC = """
[all]
problem = "quadratic"
participants = 2
rounds = 1200
local-solver = "gradient"
local_lr = 0.01
seed = [0, 1, 2, 3, 4, 5, 6, 7]
[[run]]
method = ["fedavg", "scaffold"]
"""


def kept(folder):
    """Cells that are finished so far."""
    store = folder / "sweep.cells.sqlite"
    if not store.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as found:
            return found.execute("SELECT COUNT(*) FROM cells").fetchone()[0]
    except sqlite3.OperationalError:  # it is just being made
        return 0


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """The command of the sweep, and its table where nothing was killed."""
    spec, whole = tmp_path_factory.mktemp("sweep") / "s.toml", tmp_path_factory.mktemp("whole")
    spec.write_text(SPEC)
    on = [sys.executable, "-m", "fedtheory", "sweep", str(spec), "--workers", "1", "--json"]
    subprocess.run([*on, "--out", str(whole)], capture_output=True, check=True)
    return on, (whole / "sweep.csv").read_bytes()


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_a_killed_driver_computes_only_what_is_missing(engine, sweep, tmp_path):
    pytest.importorskip({"dask": "distributed", "ray": "ray"}[engine])
    (on, whole), cut = sweep, tmp_path / "cut"
    first = subprocess.Popen(
        [*on, "--engine", engine, "--out", str(cut)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 120
    while kept(cut) < 3 and time.monotonic() < deadline and first.poll() is None:
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL, "it was finished before it could be killed"
    before = kept(cut)
    assert 3 <= before < 16
    again = subprocess.run([*on, "--engine", engine, "--out", str(cut)], capture_output=True, text=True, check=True)
    told = json.loads(again.stdout)
    assert before <= told["found_again"] < 16 and kept(cut) == 16  # what was under way may have been finished since
    assert (cut / "sweep.csv").read_bytes() == whole
