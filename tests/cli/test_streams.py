"""Streams of another encoding, closed, or full: a command ends without a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import refused

EXPLAIN = [sys.executable, "-m", "fedtheory", "explain", "theorem-3.1"]


def test_a_stream_that_is_not_utf_8():
    done = subprocess.run(EXPLAIN, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "cp1252"})
    assert done.returncode == 0 and done.stderr == b""
    text = done.stdout.decode("cp1252")
    assert "on record as violated" in text and "?" in text


def test_a_reader_that_goes_away():
    with subprocess.Popen(EXPLAIN, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode in (1, 141)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device here that is always full")
def test_a_disk_that_is_full():
    with open("/dev/full", "wb") as full:
        done = subprocess.run(EXPLAIN, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "error: the output cannot be written or read (No space left on device): make room, or name another place\n"


def test_no_stream_at_all():
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *EXPLAIN], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name, command", [
    ("run-fedavg-quadratic", ["run", "fedavg", "quadratic", "--local-solver", "gradient", "-T", 2]),
    ("zeros", ["experiment", "zeros"]),
])  # fmt: skip
def test_a_second_writer_of_the_same_results_is_refused_in_a_line(name, command, tmp_path):
    pytest.importorskip("fcntl")
    from fedtheory.store.result_store import only_writer

    with only_writer(tmp_path / name):
        told = refused(*command, "--out", tmp_path)
    assert f"{name}: process {os.getpid()} is writing it; wait for its end" in told
    assert not list(tmp_path.iterdir())
