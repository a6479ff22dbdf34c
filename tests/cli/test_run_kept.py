"""A run that was killed goes on where it was, to the same numbers; other checkpoints do not mislead it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import call

from fedtheory.cli import run_kept

ARGUMENTS = {
    "smooth": ("feddyn", "quadratic", "--alpha", 0.5, "-P", 2, "--scenarios", 3, "-T", 12),
    "on a ball": ("subgradient", "lad", "-T", 12),
    "stochastic": ("fedavg", "diabetes", "-T", 12, "--local-solver", "local-sgd", "--local-steps", 3, "--batch-size", 4),
}


class Killed(BaseException):
    """What ends a process at once."""


def content(folder: Path) -> dict:
    """What a run wrote, but for when and where."""
    (file,) = folder.glob("run-*.json")
    found = json.loads(file.read_text())
    del found["provenance"]
    for of in (found["optimum"], found["optimum"]["details"]):
        for name in [k for k in of if k.endswith("seconds")]:
            del of[name]
    return found


@pytest.mark.parametrize("which", list(ARGUMENTS))
def test_a_killed_run_goes_on_to_the_same_bytes(which, monkeypatch, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    call("run", *ARGUMENTS[which], "--no-figures", "--out", whole)
    assert not list(whole.glob("*.ckpt")), "a finished run leaves none"
    monkeypatch.setattr(run_kept, "SECONDS", 0.0)
    keep, seen = run_kept.KeptRun.keep, []

    def killed(self, done, points, now=False):
        keep(self, done, points, now)
        seen.append(done.round_index)
        if done.round_index == 7 and seen.count(7) == 1:
            raise Killed

    monkeypatch.setattr(run_kept.KeptRun, "keep", killed)
    with pytest.raises(Killed):
        call("run", *ARGUMENTS[which], "--no-figures", "--out", cut)
    assert list(cut.glob("*.ckpt")) and not list(cut.glob("*.json"))
    result = call("run", *ARGUMENTS[which], "--no-figures", "--out", cut)
    assert seen == [*range(1, 8), *range(8, 13)] and "going on after round 7" in " ".join(result.stderr.split())
    assert content(cut) == content(whole)
    assert not list(cut.glob("*.ckpt"))


def test_another_runs_checkpoint_is_not_taken(monkeypatch, tmp_path):
    monkeypatch.setattr(run_kept, "SECONDS", 0.0)
    monkeypatch.setattr(run_kept.KeptRun, "remove", lambda self: None)
    call("run", *ARGUMENTS["smooth"], "--no-figures", "--out", tmp_path)
    assert list(tmp_path.glob("*.ckpt"))
    result = call("run", *ARGUMENTS["smooth"], "--seed", 5, "--no-figures", "--out", tmp_path)
    assert "going on" not in result.stderr


def test_a_damaged_checkpoint_is_named_and_set_aside(monkeypatch, tmp_path):
    call("run", *ARGUMENTS["smooth"], "--no-figures", "--out", tmp_path / "whole")
    (file,) = (tmp_path / "whole").glob("run-*.json")
    broken = tmp_path / "cut" / f"{file.stem}.ckpt"
    broken.parent.mkdir()
    broken.write_bytes(b"PK\x03\x04 half of a file")
    result = call("run", *ARGUMENTS["smooth"], "--no-figures", "--out", tmp_path / "cut")
    assert f"{broken.name}.damaged is what {broken.name} was" in " ".join(result.stderr.split()).replace("/ ", "/")
    assert broken.with_name(f"{broken.name}.damaged").read_bytes() == b"PK\x03\x04 half of a file"
    assert content(tmp_path / "cut") == content(tmp_path / "whole")
