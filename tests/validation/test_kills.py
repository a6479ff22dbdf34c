"""A campaign killed in the middle: nothing is left of it, and the same command ends with the same files."""

from __future__ import annotations

import sys

import pytest
from repository import ROOT

sys.path.insert(0, str(ROOT / "validation" / "resilience"))
import kills

# half of its time is after the first tasks are kept and before the figures
ARGUMENTS = ("verify", str(ROOT / "examples" / "own_world.py"), "--quick", "--budget", "20")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
def test_a_killed_campaign_leaves_nothing_and_goes_on_to_the_same_files(tmp_path):
    took, code = kills.whole(ARGUMENTS, tmp_path / "out")
    found = kills.killed(ARGUMENTS, kills.content(tmp_path / "out"), took, took / 2)
    assert (found["processes_left"], found["half_written"], found["files_that_differ"]) == (0, [], [])
    assert found["exit_code"] == code == 0


def test_what_is_half_written_or_differs_is_noticed(tmp_path):
    (tmp_path / "a.json").write_text('{"x": 1')
    (tmp_path / "a.png").write_bytes(b"\x89PNG ...")
    assert sorted(kills.half_written(tmp_path)) == ["a.json", "a.png"]
    (tmp_path / "a.json").write_text('{"x": 1, "seconds": 3}')
    one = kills.content(tmp_path)["a.json"]
    (tmp_path / "a.json").write_text('{"x": 1, "seconds": 4}')
    assert kills.content(tmp_path)["a.json"] == one
    (tmp_path / "a.json").write_text('{"x": 2, "seconds": 4}')
    assert kills.content(tmp_path)["a.json"] != one
