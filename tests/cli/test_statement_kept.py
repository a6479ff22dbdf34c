"""`fedtheory verify STATEMENT` that was killed goes on where it was, to the same bytes; nothing that others kept misleads it."""

from __future__ import annotations

import json
import random
import shlex
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from command_line import call, refused
from repository import ROOT

from fedtheory import steps
from fedtheory.cells import only_writer
from fedtheory.steps import Steps

ON_A_BALL = ("--problem", "lad", "--clients", 3, "--dimension", 2, "--radius", 1)
COMMANDS = {
    "scenarios": ("theorem-3.1", "--problem", "quadratic", "-P", 2, "-T", 6, "--mode", "monte-carlo", "--scenarios", 130),
    "all cohorts of a run": ("theorem-3.1", "--problem", "quadratic", "--clients", 4, "-P", 2, "-T", 4),
    "one cohort": ("theorem-a", "--problem", "diabetes", "--rule", "true-gradient", "-T", 30),
    "a fixed point": ("algorithm-1-fixed-point", "--problem", "quadratic", "--l1", 0.1),
    "a motion": ("at-rest", "--problem", "diabetes", "-T", 12),
    "Algorithm 2": ("algorithm-2-variates", "--problem", "diabetes", "--local-steps", 4, "-P", 2, "--rounds", 8),
    "the wire": ("threshold-on-the-wire", "--problem", "quadratic", "--l1", 0, "--l2-over-beta", 30, "--epsilon", 0.01, "--rounds", 9),
    "noisy FedMLS": ("fedmls/theorem-1", "--problem", "lad", "--epsilon", 1, "--noise", 0.5),
    "local problems solved": ("fedmls/exact-prox", "--problem", "lad", "--epsilon", 0.5),
    "MOPES": ("fedmls/mopes-bound", "--problem", "lad", "--set", "simplex", "--epsilon", 2, "--noise", 0.5),
    "mini-batches": (
        "efl/theorem-1", "--problem", "breast-cancer", "--ridge", 0.1, "--inactive", 0.3, "--batch-size", 4, "-T", 6, "--scenarios", 80,
    ),
    "second moments": ("efl/theorem-1", "--problem", "diabetes", "--inactive", 0.3, "-T", 9),
    "residuals": ("efl/residual-invariant", "--problem", "diabetes", "--compressor", "st:q=0.2", "--down-compressor", "st:q=0.2"),
    "compressed": ("efl/compressed-convergence", "--problem", "diabetes", "--clients", 3, "-T", 8),
    "messages": ("efl/st-lemma", "--problem", "diabetes"),
    "the elastic term": ("efl/elastic-rearrangement", "--problem", "diabetes", "--lam", 0.1),
    "a file of one's own": (f"{ROOT}/examples/descent_lemma.py::lemma-1", "--problem", "quadratic"),
    "a run of a file of one's own": (f"{ROOT}/examples/wrong_constant.py::rate", "--problem", "quadratic"),
}  # fmt: skip


class Killed(BaseException):
    """Ends a process at once."""


class Killer:
    """Ends the command at the ``at``-th file that it has written."""

    def __init__(self, monkeypatch) -> None:
        self.written, self.at, write = 0, None, Steps.write

        def killing(kept, path, value):
            done = write(kept, path, value)
            self.written += done
            if done and self.written == self.at:
                raise Killed
            return done

        monkeypatch.setattr(Steps, "write", killing)
        for name in ("WAIT", "EVERY", "SHORT"):
            monkeypatch.setattr(steps, name, -1.0)

    def call(self, *args, at=None):
        """(what the command gave or None where it was killed, how many files it wrote)."""
        self.written, self.at = 0, at
        try:
            return call("verify", *args), self.written
        except Killed:
            return None, self.written


def content(folder: Path) -> dict:
    """Return what the command wrote, but for when."""
    (file,) = folder.glob("verify-*.json")
    found = json.loads(file.read_text())
    del found["provenance"]
    return found


@pytest.mark.parametrize("which", list(COMMANDS))
def test_a_killed_statement_goes_on_to_the_same_bytes(which, monkeypatch, tmp_path):
    whole, cut, draw, killer = tmp_path / "one", tmp_path / "two", random.Random(0), Killer(monkeypatch)
    uncut, files = killer.call(*COMMANDS[which], "--out", whole)
    assert [p.suffix for p in whole.iterdir()] == [".json"], "a finished command leaves nothing else"
    assert files > 1
    result, more = None, files
    while result is None:
        result, last = killer.call(*COMMANDS[which], "--out", cut, at=draw.randint(1, more))
        assert bool(result) == bool(list(cut.glob("*.json"))) != bool(list(cut.glob("*.steps/*.npz")))
        more = max(1, more - last + 1) if result is None else more
    assert "going on where" in result.stderr and last < files
    assert content(cut) == content(whole) and result.stdout.replace("two/", "one/") == uncut.stdout
    assert [p.suffix for p in cut.iterdir()] == [".json"]


QUICK = ("eq-28", "--problem", "quadratic", "-P", 2)


def test_what_takes_a_second_writes_nothing_but_its_result(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    call("verify", *QUICK)
    assert not list(tmp_path.iterdir())


def cut(killer, *args, at):
    """The folder of what a command kept that was killed."""
    assert killer.call(*args, at=at)[0] is None
    (folder,) = Path(args[-1]).glob("*.steps")
    return folder


def test_another_command_takes_nothing_over(monkeypatch, tmp_path):
    data = tmp_path / "data.svm"
    data.write_text("".join(f"{i % 2} 1:{i} 2:{i % 3}\n" for i in range(12)))
    about = ("theorem-3.1", "--data", data, "--loss", "logistic", "--ridge", 1, "--clients", 4, "-P", 2, "-T", 4)
    killer = Killer(monkeypatch)
    folder = cut(killer, *about, "--out", tmp_path / "out", at=5)
    kept = {p.name for p in folder.iterdir()}
    told = call("verify", *about, "--l1", 0.2, "--out", tmp_path / "out").stderr
    typed = shlex.join(["fedtheory", "verify", *map(str, about), "--out", str(tmp_path / "out")])
    when = f"{datetime.fromtimestamp(max(file.stat().st_mtime for file in folder.iterdir())):%d %B %Y, %H:%M}"
    assert f"{folder} is of `{typed}`, cut short on {when}. Give that command again to go on" in " ".join(told.split())
    assert "going on" not in told
    (folder / "command.txt").write_text("\x1b[2J" * 9000)
    old = " ".join(call("verify", *about, "--l1", 0.2, "--out", tmp_path / "out").stderr.split())
    assert f"{folder} is of another command that was cut short. Give that command again" in old
    assert {p.name for p in folder.iterdir()} == kept, "an earlier command can still go on"
    data.write_text(data.read_text().replace("1:7", "1:8"))
    assert "going on" not in call("verify", *about, "--out", tmp_path / "out").stderr
    assert not folder.exists()
    folder = cut(killer, *about, "--out", tmp_path / "out", at=5)
    monkeypatch.setattr("fedtheory.cells.code_digest", lambda: "other code")
    assert "going on" not in call("verify", *about, "--out", tmp_path / "out").stderr
    assert not folder.exists(), "what other code kept is of no use to anyone"


@pytest.mark.parametrize("how", ["cut", "turned", "foreign"])
def test_a_damaged_file_is_named_and_set_aside(how, monkeypatch, tmp_path):
    killer = Killer(monkeypatch)
    killer.call(*QUICK, "--out", tmp_path / "one")
    folder = cut(killer, *QUICK, "--out", tmp_path / "two", at=12)
    for file in folder.glob("*.npz"):
        held = file.read_bytes()
        if how == "foreign":
            np.savez(file, told=np.frombuffer(b'{"dict": []}', dtype=np.uint8), small=np.zeros(0, dtype=np.uint8))
        else:
            half = len(held) // 2
            file.write_bytes(held[:half] if how == "cut" else held[:half] + bytes([held[half] ^ 255]) + held[half + 1 :])
    result, _ = killer.call(*QUICK, "--out", tmp_path / "two")
    told = " ".join(result.stderr.split())
    assert "was damaged" in told and "made again" in told and content(tmp_path / "two") == content(tmp_path / "one")
    assert {p.suffix for p in folder.iterdir() if p.name != "command.txt"} == {".damaged"}


def test_nobody_works_beside_one_that_does_the_same(monkeypatch, tmp_path):
    """The second is refused before any work, also without --out; and results/ that a killed one has made does not stay empty."""
    monkeypatch.chdir(tmp_path)
    folder = cut(Killer(monkeypatch), *QUICK, "--out", "results", at=3)
    with only_writer(folder), monkeypatch.context() as idle:
        idle.setattr("fedtheory.cli.verify.CommandRequest.problem", lambda *given: pytest.fail("it works"))
        assert "is writing it; wait for its end" in refused("verify", *QUICK)
    assert "going on where" in call("verify", *QUICK).stderr
    assert not list(tmp_path.iterdir())


def test_what_nobody_asked_to_be_kept_keeps_nobody_out(monkeypatch, tmp_path):
    """Without --out a second process that begins beside the first ends as well, with a line, and leaves nothing."""
    monkeypatch.chdir(tmp_path)
    killer = Killer(monkeypatch)
    folder = cut(killer, *QUICK, "--out", "results", at=3)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()  # the other one holds its lock, and has written nothing yet
    with only_writer(folder):
        result, _ = killer.call(*QUICK)
    assert "nothing of it is kept" in result.stderr and result.exit_code == 0 and not folder.exists()


def test_of_two_that_do_the_same_the_second_is_refused(monkeypatch, tmp_path):
    killer = Killer(monkeypatch)
    folder = cut(killer, *QUICK, "--out", tmp_path, at=3)
    with only_writer(folder):
        assert "is writing it; wait for its end" in refused("verify", *QUICK, "--out", tmp_path)
        call("verify", *QUICK, "--seed", 5, "--out", tmp_path)
    assert list(folder.glob("*.npz"))
    call("verify", *QUICK, "--out", tmp_path)
    assert not folder.exists()


def test_an_interrupted_statement_goes_on(monkeypatch, tmp_path):
    command = COMMANDS["scenarios"]
    killer = Killer(monkeypatch)
    _, files = killer.call(*command, "--out", tmp_path / "one")
    write = Steps.write

    def interrupted(kept, path, value):
        done = write(kept, path, value)
        if killer.written == files - 3:
            raise KeyboardInterrupt
        return done

    with monkeypatch.context() as for_now:
        for_now.setattr(Steps, "write", interrupted)
        killer.written = 0
        result = call("verify", *command, "--out", tmp_path / "two", code=130)
    assert "the same command goes on from" in " ".join(result.stderr.split()) and not content(tmp_path / "two")["complete"]
    result, more = killer.call(*command, "--out", tmp_path / "two")
    assert more <= 4 and content(tmp_path / "two") == content(tmp_path / "one")


def test_where_nothing_can_be_kept_it_is_judged_all_the_same(monkeypatch, tmp_path):
    def full(path, content):
        raise OSError(28, "No space left on device")

    Killer(monkeypatch)
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as for_now:
        for_now.setattr(steps, "write_atomic", full)
        result = call("verify", *QUICK)
    assert result.stderr.count("what is done is not kept") == 1 and "(No space left on device)" in " ".join(result.stderr.split())
    assert result.stdout == call("verify", *QUICK).stdout
