"""A named pipe in the place of a file: read while somebody writes into it, and refused in a line where nobody does."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from fedtheory import problems, untrusted
from fedtheory.cli.sweep import spec
from fedtheory.errors import DataFileError
from fedtheory.store.checkpoints import opened
from fedtheory.theory.judge import replay
from fedtheory.worst_cases import load

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are of POSIX")


@pytest.fixture
def pipe(tmp_path, monkeypatch):
    monkeypatch.setattr(untrusted, "PATIENCE", 0.3)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def writer(path, *pieces, pause=0.0):
    """A thread that opens the pipe, writes the pieces and closes it."""

    def write():
        with path.open("wb", buffering=0) as file:
            for piece in pieces:
                time.sleep(pause)
                file.write(piece)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize(
    "read",
    [untrusted.read_text, untrusted.read_json, replay.load, load, problems.load_svmlight, spec.read, lambda path: opened(path)],
    ids=["text", "json", "witness", "certificate", "svmlight", "sweep", "arrays"],
)
def test_a_pipe_into_which_nobody_writes_is_refused(pipe, read):
    begun = time.monotonic()
    with pytest.raises((DataFileError, ValueError), match=r"nobody writes into this named pipe|no zip archive"):
        read(pipe)
    assert time.monotonic() - begun < 60, "it waited for more than a writer"


def test_one_that_somebody_opens_and_forgets_is_refused_too(pipe):
    held = os.open(pipe, os.O_RDWR)
    try:
        with pytest.raises(DataFileError, match=r"nobody writes into this named pipe for 0\.3 seconds"):
            untrusted.read_text(pipe)
    finally:
        os.close(held)


def test_what_is_written_into_one_is_read(pipe):
    thread = writer(pipe, b'{"a": ', b"[1, 2]", b"}", pause=0.05)
    assert untrusted.read_json(pipe) == {"a": [1, 2]}
    thread.join()
    thread = writer(pipe, b"x" * 300_000)  # more than a pipe holds
    assert len(untrusted.read_text(pipe)) == 300_000
    thread.join()
    thread = writer(pipe, b"x" * 101)
    with pytest.raises(DataFileError, match="more than 100 bytes"):
        untrusted.read_text(pipe, 100)


def test_a_process_substitution_is_a_file(tmp_path):
    """`fedtheory replay <(cat FILE)`."""
    here, there = os.pipe()
    os.write(there, b"text")
    os.close(there)
    assert untrusted.read_text(Path(f"/dev/fd/{here}")) == "text"
    os.close(here)


