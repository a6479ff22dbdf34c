"""A run that was killed goes on where it was, to the same numbers; other checkpoints do not mislead it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from command_line import call, refused

from fedtheory import limits
from fedtheory.cli import run
from fedtheory.simulation import over_scenarios
from fedtheory.store import checkpoints

ARGUMENTS = {
    "smooth": ("feddyn", "quadratic", "--alpha", 0.5, "-P", 2, "--scenarios", 3, "-T", 12),
    "on a ball": ("subgradient", "lad", "-T", 12),
    "stochastic": ("fedavg", "diabetes", "-T", 12, "--local-solver", "local-sgd", "--local-steps", 3, "--batch-size", 4),
}


class Killed(BaseException):
    """Ends a process at once."""


def content(folder: Path) -> dict:
    """Return what a run wrote, but for when and where."""
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
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    keep, seen = checkpoints.RunCheckpoint.keep, []

    def killed(self, done, points, now=False):
        keep(self, done, points, now)
        seen.append(done.round_index)
        if done.round_index == 7 and seen.count(7) == 1:
            raise Killed

    monkeypatch.setattr(checkpoints.RunCheckpoint, "keep", killed)
    with pytest.raises(Killed):
        call("run", *ARGUMENTS[which], "--no-figures", "--out", cut)
    assert list(cut.glob("*.ckpt")) and not list(cut.glob("*.json"))
    result = call("run", *ARGUMENTS[which], "--no-figures", "--out", cut)
    assert seen == [*range(1, 8), *range(8, 13)] and "going on after round 7" in " ".join(result.stderr.split())
    assert content(cut) == content(whole)
    assert not list(cut.glob("*.ckpt"))


def test_another_runs_checkpoint_is_not_taken(monkeypatch, tmp_path):
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoints.RunCheckpoint, "remove", lambda self: None)
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


def test_a_run_that_ends_for_want_of_memory_after_its_rounds_is_kept(monkeypatch, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    call("run", *ARGUMENTS["on a ball"], "--no-figures", "--out", whole)
    with monkeypatch.context() as scarce:

        def nothing_left(*_):
            raise MemoryError("Unable to allocate 1.00 GiB")

        scarce.setattr(run, "save", nothing_left)
        result = call("run", *ARGUMENTS["on a ball"], "--no-figures", "--out", cut, code=2)
    assert "not enough memory (Unable to allocate 1.00 GiB)" in result.stderr
    assert [p.suffix for p in cut.iterdir()] == [".ckpt"]
    result = call("run", *ARGUMENTS["on a ball"], "--no-figures", "--out", cut)
    assert "going on after round 12" in " ".join(result.stderr.split()) and content(cut) == content(whole)


def test_of_many_scenarios_the_file_holds_what_a_reader_wants(monkeypatch, tmp_path):
    arguments = ("fedavg", "quadratic", "-P", 2, "--scenarios", 40, "-T", 6, "--no-figures")
    call("run", *arguments, "--out", tmp_path / "each")
    each = content(tmp_path / "each")
    assert "summed_up" not in each
    monkeypatch.setattr(over_scenarios, "MOST", 1000)
    told = " ".join(call("run", *arguments, "--out", tmp_path / "few").stdout.split())
    assert "quantiles over the scenarios, not every scenario's numbers" in told
    few = content(tmp_path / "few")
    assert few.keys() - each.keys() == {"summed_up"} and few["scenarios"] == 40
    for name, values in {**each["metrics"], "final_x": np.transpose(each["final_x"])}.items():
        found, values = {**few["metrics"], "final_x": few["final_x"]}[name], np.array(values)
        assert found["scenarios"] == 40
        np.testing.assert_array_equal(found["mean"], values.mean(axis=1))
        np.testing.assert_allclose(found["standard_error"], scipy.stats.sem(values, axis=1), rtol=1e-12, atol=1e-300)
        np.testing.assert_array_equal([found["least"], found["largest"]], [values.min(axis=1), values.max(axis=1)])
        quantiles = [found[q] for q in ("quantile_0.1", "median", "quantile_0.9")]
        np.testing.assert_array_equal(quantiles, np.quantile(values, [0.1, 0.5, 0.9], axis=1))
    pictures = []
    for folder in ("each", "few"):
        (file,) = (tmp_path / folder).glob("run-*.json")
        call("draw", file)
        pictures.append(file.with_suffix(".png").read_bytes())
    assert pictures[0] == pictures[1]
    (file,) = (tmp_path / "few").glob("run-*.json")
    few["metrics"]["distance"].pop("mean")
    file.write_text(json.dumps(few))
    assert "cannot be drawn from its data" in refused("draw", file)


def test_what_a_run_holds_is_counted_before_it_begins(monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "free_memory", lambda: 4.5e6)
    common = ("fedavg", "quadratic", "-T", 100, "--no-figures", "--out", tmp_path)
    assert "would take at least 4.79 MiB" in refused("run", *common, "--scenarios", 1000)
    assert call("run", *common, "--scenarios", 800)
