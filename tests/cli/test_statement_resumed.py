"""`fedtheory verify STATEMENT` that was killed goes on from its finished pieces, to the same bytes."""

from __future__ import annotations

import json
import random
import shlex
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
from command_line import call, refused
from repository import ROOT

from fedtheory.store import resumable
from fedtheory.store.result_store import ResultStore, only_writer

COMMANDS = {
    "scenarios": ("theorem-3.1", "--problem", "quadratic", "-P", 2, "-T", 6, "--mode", "monte-carlo", "--scenarios", 130),
    "mini-batches": (
        "efl/theorem-1", "--problem", "breast-cancer", "--ridge", 0.1, "--inactive", 0.3, "--batch-size", 4, "-T", 6, "--scenarios", 80,
    ),
    "noisy FedMLS": ("fedmls/theorem-1", "--problem", "lad", "--epsilon", 1, "--noise", 0.5),
    "a run of a file of one's own": (f"{ROOT}/examples/wrong_constant.py::rate", "--problem", "quadratic"),
}  # fmt: skip


class Killed(BaseException):
    """Ends a process at once."""


class Killer:
    """Ends the command at the ``at``-th piece that it has written."""

    def __init__(self, monkeypatch) -> None:
        self.written, self.at, write = 0, None, ResultStore.put_text

        def killing(store, key, text):
            write(store, key, text)
            self.written += key.startswith("/")
            if self.written == self.at:
                self.at = None
                raise Killed

        monkeypatch.setattr(ResultStore, "put_text", killing)
        for name in ("WAIT", "SHORT"):
            monkeypatch.setattr(resumable, name, -1.0)

    def call(self, *args, at=None):
        """(what the command gave or None where it was killed, how many pieces it wrote)."""
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
    uncut, pieces = killer.call(*COMMANDS[which], "--out", whole)
    assert [p.suffix for p in whole.iterdir()] == [".json"], "a finished command leaves nothing else"
    assert pieces > 1
    result, more = None, pieces
    while result is None:
        result, last = killer.call(*COMMANDS[which], "--out", cut, at=draw.randint(1, more))
        assert bool(result) == bool(list(cut.glob("*.json"))) != bool(list(cut.glob("*.steps.sqlite")))
        more = max(1, more - last) if result is None else more
    assert "going on where" in result.stderr and last < pieces
    assert content(cut) == content(whole) and result.stdout.replace("two/", "one/") == uncut.stdout
    assert [p.suffix for p in cut.iterdir()] == [".json"]


QUICK = ("eq-28", "--problem", "quadratic", "-P", 2)


def test_what_takes_a_second_writes_nothing_but_its_result(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    call("verify", *QUICK)
    assert not list(tmp_path.iterdir())


def cut(killer, *args, at):
    """The file of what a command kept that was killed."""
    assert killer.call(*args, at=at)[0] is None
    (file,) = Path(args[-1]).glob("*.steps.sqlite")
    return file


def test_another_command_takes_nothing_over(monkeypatch, tmp_path):
    data = tmp_path / "data.svm"
    data.write_text("".join(f"{i % 2} 1:{i} 2:{i % 3}\n" for i in range(12)))
    about = ("theorem-3.1", "--data", data, "--loss", "logistic", "--ridge", 1, "--clients", 4, "-P", 2, "-T", 4)
    killer = Killer(monkeypatch)
    file = cut(killer, *about, "--out", tmp_path / "out", at=1)
    kept = file.read_bytes()
    told = " ".join(call("verify", *about, "--l1", 0.2, "--out", tmp_path / "out").stderr.split())
    typed = shlex.join(["fedtheory", "verify", *map(str, about), "--out", str(tmp_path / "out")])
    when = datetime.fromtimestamp(file.stat().st_mtime)
    assert f"Found unfinished work of `{typed}` ({when.day} {when:%b}). Rerun it to resume, or delete {file}." in told
    assert "going on" not in told and file.read_bytes() == kept, "an earlier command can still go on"
    data.write_text(data.read_text().replace("1:7", "1:8"))
    assert "going on" not in call("verify", *about, "--out", tmp_path / "out").stderr
    assert not file.exists()
    file = cut(killer, *about, "--out", tmp_path / "out", at=1)
    monkeypatch.setattr("fedtheory.store.result_store.code_digest", lambda: "other code")
    assert "going on" not in call("verify", *about, "--out", tmp_path / "out").stderr
    assert not file.exists(), "what other code kept is of no use to anyone"


@pytest.mark.parametrize("how", ["cut", "one digit", "foreign"])
def test_a_damaged_file_is_named_and_set_aside(how, monkeypatch, tmp_path):
    killer = Killer(monkeypatch)
    killer.call(*QUICK, "--out", tmp_path / "one")
    file = cut(killer, *QUICK, "--out", tmp_path / "two", at=1)
    if how == "one digit":
        with closing(sqlite3.connect(file)) as database, database:
            database.execute("UPDATE cells SET result = replace(result, '1', '2') WHERE key LIKE '/%'")
    else:
        held = file.read_bytes()
        file.write_bytes(held[: len(held) // 2] if how == "cut" else b"PK\x03\x04" + held)
        for part in ("-wal", "-shm"):
            file.with_name(file.name + part).unlink(missing_ok=True)
    result, _ = killer.call(*QUICK, "--out", tmp_path / "two")
    told = " ".join(result.stderr.split())
    assert "damaged-1 is what" in told and "computed again" in told and content(tmp_path / "two") == content(tmp_path / "one")
    assert [p.name for p in file.parent.glob("*.sqlite*")] == [f"{file.name}.damaged-1"]


def test_nobody_works_beside_one_that_does_the_same(monkeypatch, tmp_path):
    """The second is refused before any work, also without --out; and results/ that a killed one has made does not stay empty."""
    monkeypatch.chdir(tmp_path)
    file = cut(Killer(monkeypatch), *QUICK, "--out", "results", at=1)
    with only_writer(file), monkeypatch.context() as idle:
        idle.setattr("fedtheory.cli.verify.CommandRequest.problem", lambda *given: pytest.fail("it works"))
        for out in ((), ("--out", "results")):
            assert "is writing it; wait for its end" in refused("verify", *QUICK, *out)
    assert "going on where" in call("verify", *QUICK).stderr
    assert not list(tmp_path.iterdir())


def test_without_a_folder_named_a_second_process_works_and_keeps_nothing(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    killer = Killer(monkeypatch)
    file = cut(killer, *QUICK, "--out", "results", at=1)
    for part in file.parent.iterdir():
        part.unlink()
    with only_writer(file):  # the other one has written nothing yet
        result, _ = killer.call(*QUICK)
    assert "is not kept" in result.stderr and result.exit_code == 0 and not file.exists()


def test_an_interrupted_statement_goes_on(monkeypatch, tmp_path):
    command = COMMANDS["scenarios"]
    killer = Killer(monkeypatch)
    _, pieces = killer.call(*command, "--out", tmp_path / "one")
    put = ResultStore.put_text

    def interrupted(store, key, text):
        put(store, key, text)
        if killer.written == pieces - 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as for_now:
        for_now.setattr(ResultStore, "put_text", interrupted)
        killer.written = 0
        result = call("verify", *command, "--out", tmp_path / "two", code=130)
    assert "the same command goes on from" in " ".join(result.stderr.split()) and not content(tmp_path / "two")["complete"]
    result, more = killer.call(*command, "--out", tmp_path / "two")
    assert more <= 2 and content(tmp_path / "two") == content(tmp_path / "one")


def test_where_nothing_can_be_kept_it_is_judged_all_the_same(monkeypatch, tmp_path):
    Killer(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").write_text("no folder")
    result = call("verify", *QUICK)
    assert result.stderr.count("is not kept") == 1
    (tmp_path / "results").unlink()
    assert result.stdout == call("verify", *QUICK).stdout
