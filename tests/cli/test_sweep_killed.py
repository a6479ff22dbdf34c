"""A sweep on a cluster whose driver is killed computes only what is missing when it is given again, be it without the cluster."""

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
from command_line import call

SPEC = """
[all]
problem = "quadratic"
participants = 2
rounds = 1200
local-solver = "gradient"
local_lr = 0.01
seed = [0, 1, 2]
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
    given = ["sweep", str(spec), "--workers", "1", "--json"]
    call(*given, "--out", whole)
    return given, (whole / "sweep.csv").read_bytes()


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_a_killed_driver_computes_only_what_is_missing(engine, sweep, tmp_path):
    pytest.importorskip({"dask": "distributed", "ray": "ray"}[engine])
    (given, whole), cut = sweep, tmp_path / "cut"
    command = [sys.executable, "-m", "fedtheory", *given, "--engine", engine, "--out", str(cut)]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 120
    while kept(cut) < 2 and time.monotonic() < deadline and first.poll() is None:
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL, "it was finished before it could be killed"
    before = kept(cut)
    assert 2 <= before < 6
    told = json.loads(call(*given, "--out", cut).stdout)
    assert before <= told["found_again"] < 6 and kept(cut) == 6  # what was under way may have been finished since
    assert (cut / "sweep.csv").read_bytes() == whole
