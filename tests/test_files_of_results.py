"""Files of results: whole or not there, and nothing is left of a process that was killed while it wrote one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fedtheory import provenance


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    file = provenance.write_atomic(tmp_path / "a.json", "old")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(provenance.os, "replace", full)
    with pytest.raises(OSError, match="No space") as raised:
        provenance.write_atomic(file, "new")
    assert raised.value.filename == str(file), "which file it was"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"] and file.read_text() == "old"


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left, others = (tmp_path / f".b.json.{pid}-abc{provenance.PART}" for pid in (gone.pid, os.getppid()))
    left.write_text("half of"), others.write_text("half of")
    mine = tmp_path / f".notes{provenance.PART}"
    mine.write_text("not ours")
    provenance.write_atomic(tmp_path / "a.json", "whole")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([others.name, mine.name, "a.json"])
