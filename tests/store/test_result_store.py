"""The store of finished cells: found by content, whole after a kill, set aside where it is damaged."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from fedtheory.errors import DataFileError
from fedtheory.store import result_store as module
from fedtheory.store.result_store import ResultStore, key_of


def test_what_results_are_kept_for_is_the_library_and_the_papers_figures(tmp_path, monkeypatch):
    for package in module.SOURCES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "a.py").write_text("x = 1")
    monkeypatch.setattr(module, "__file__", str(tmp_path / "fedtheory/store/result_store.py"))
    found = {module.code_digest.__wrapped__()}
    for package in module.SOURCES:
        (tmp_path / package / "a.py").write_text("x = 2")
        found.add(module.code_digest.__wrapped__())
    assert len(found) == 3


def double(n: int) -> dict:
    return {"twice": 2 * n, "third": n / 3, "none": math.inf if n == 2 else None}


def test_what_is_known_is_not_computed_again_and_reads_as_it_was(tmp_path):
    path, calls = tmp_path / "c.sqlite", []

    def counted(n):
        calls.append(n)
        return double(n)

    with ResultStore(path) as store:
        first = dict(store.compute(counted, [1, 2, 3], ["a", "b", "c"]))
    with ResultStore(path) as store:
        again = dict(store.compute(counted, [1, 2, 3, 4], ["a", "b", "c", "d"]))
        assert store.found == 3 and list(store.rows(["b", "d"])) == [again[1], again[3]]
    assert calls == [1, 2, 3, 4] and {i: again[i] for i in range(3)} == first
    assert first[0] == {"twice": 2, "third": 1 / 3, "none": None} and first[1]["none"] == "inf"


def test_a_key_says_the_content_and_the_software(monkeypatch):
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1}) != key_of({"a": 1, "b": 2.5})
    before = key_of("x")
    monkeypatch.setattr(module, "code_digest", lambda: "another source")
    assert key_of("x") != before


KILLED = """
import os, signal, sys
from pathlib import Path
from fedtheory.store.result_store import ResultStore
with ResultStore(Path(sys.argv[1])) as store:
    for n in range(100):
        store.put(str(n), {"n": n})
        if n == 41:
            os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_every_cell_that_it_put(tmp_path):
    path = tmp_path / "c.sqlite"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)])
    assert done.returncode == -signal.SIGKILL
    with ResultStore(path, lambda line: pytest.fail(line)) as store:
        assert len(store) == 42 and store.get("41") == {"n": 41}
        with pytest.raises(KeyError):
            store.get("42")
        store.remove()
    assert os.listdir(tmp_path) == []  # nor its lock


@pytest.mark.parametrize("damage", ["text", "half", "another table"])
def test_a_damaged_store_is_named_and_set_aside(tmp_path, damage):
    path, told = tmp_path / "c.sqlite", []
    if damage == "another table":
        other = sqlite3.connect(path)
        other.execute("CREATE TABLE cells (something TEXT)")
        other.commit(), other.close()
    else:
        with ResultStore(path) as store:
            for n in range(2000):
                store.put(str(n), {"n": n})
        content = path.read_bytes()
        path.write_bytes(b"no database" * 100 if damage == "text" else content[: len(content) // 2])
    with ResultStore(path, told.append) as store:
        assert len(store) == 0
        store.put("a", 1)
    assert len(told) == 1 and "c.sqlite.damaged-1 is what c.sqlite was" in told[0]
    assert (tmp_path / "c.sqlite.damaged-1").exists()


def changed(path, key, how):
    with closing(sqlite3.connect(path)) as database, database:
        (text,) = database.execute("SELECT result FROM cells WHERE key = ?", (key,)).fetchone()
        new = how(text)
        database.execute(f"UPDATE cells SET result = {'CAST(? AS TEXT)' if type(new) is bytes else '?'} WHERE key = ?", (new, key))


DAMAGES = {
    "one digit": lambda text: text.replace("0.25", "0.75"),
    "no JSON": lambda text: "[" * 200_000,
    "other JSON": lambda text: "3",
    "no text in UTF-8": lambda text: text[:20].encode() + b"\xff" + text[20:].encode(),
    "cut": lambda text: text[:-3],
    "empty": lambda text: "",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_one_damaged_cell_is_computed_again_and_the_others_are_kept(damage, tmp_path):
    path, told, calls = tmp_path / "c.sqlite", [], []

    def work(n):
        calls.append(n)
        return {"quarters": n / 4}

    with ResultStore(path) as store:
        first = dict(store.compute(work, [1, 2, 3], ["a", "b", "c"]))
    changed(path, key_of("a"), DAMAGES[damage])
    assert module.known_in(path, ["a", "b", "c", "d"], lambda result: False) == 2
    with ResultStore(path, told.append) as store:
        assert len(store) == 2 and key_of("a") not in store
        assert dict(store.compute(work, [1, 2, 3], ["a", "b", "c"])) == first
    assert calls == [1, 2, 3, 1]
    assert told == ["c.sqlite.damaged-1 is what c.sqlite was: 1 cell of it is damaged and is computed again"]
    with closing(sqlite3.connect(tmp_path / "c.sqlite.damaged-1")) as aside:
        assert aside.execute("SELECT COUNT(*) FROM cells").fetchone() == (3,)
    with ResultStore(path, lambda line: pytest.fail(line)) as store:
        assert len(store) == 3


def test_a_result_under_the_key_of_another_cell_is_damaged(tmp_path):
    path, told = tmp_path / "c.sqlite", []
    with ResultStore(path) as store:
        store.put("a", 1), store.put("b", 2)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE cells SET result = (SELECT result FROM cells WHERE key = 'b')")
    with ResultStore(path, told.append) as store:
        assert len(store) == 1 and store.get("b") == 2 and len(told) == 1


def test_a_cell_that_was_changed_while_the_store_is_open_is_told_with_the_remedy(tmp_path):
    with ResultStore(tmp_path / "c.sqlite") as store:
        store._database.execute("INSERT INTO cells VALUES ('k', ?)", ("[" * 200_000,))
        with pytest.raises(DataFileError, match="give the command again"):
            store.get("k")


def test_a_store_has_one_writer_at_a_time_and_its_lock_ends_with_the_process(tmp_path):
    path = tmp_path / "c.sqlite"
    with ResultStore(path):
        for_another = [sys.executable, "-c", KILLED, str(path)]
        refused = subprocess.run(for_another, capture_output=True, text=True)
        assert f"process {os.getpid()} is writing it; wait for its end" in refused.stderr
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)]).returncode == -signal.SIGKILL
    with ResultStore(path) as store:
        assert len(store) == 42


def test_what_is_to_be_computed_again_is(tmp_path):
    calls = []

    def counted(n):
        calls.append(n)
        return n

    for _ in range(2):
        with ResultStore(tmp_path / "c.sqlite") as store:
            assert dict(store.compute(counted, [1, 2], ["a", "b"], again=lambda n: n == 2)) == {0: 1, 1: 2}
    assert calls == [1, 2, 2] and store.found == 1


def test_a_lock_that_its_owner_removed_while_it_was_waited_for_is_none(tmp_path, monkeypatch):
    """Opened before the owner removes it, and locked after: the file has no name any more, and keeps nobody out."""
    fcntl = pytest.importorskip("fcntl")
    real, lock = fcntl.flock, tmp_path / "a.lock"

    def late(*args):
        monkeypatch.setattr(fcntl, "flock", real)
        lock.unlink()
        real(*args)

    monkeypatch.setattr(fcntl, "flock", late)
    with module.only_writer(tmp_path / "a"):
        with pytest.raises(DataFileError, match=f"process {os.getpid()} is writing it"), module.only_writer(tmp_path / "a"):
            pass
        assert lock.exists()
    assert not lock.exists()


def test_a_store_that_was_removed_leaves_the_lock_of_the_next_one(tmp_path):
    path = tmp_path / "c.sqlite"
    with ResultStore(path) as first:
        first.remove()
        following = ResultStore(path)
    with pytest.raises(DataFileError, match="is writing it"):
        ResultStore(path)
    following.remove()
    assert os.listdir(tmp_path) == []


def test_a_folder_is_known_by_its_files_and_a_file_by_its_bytes(tmp_path):
    (tmp_path / "a").write_text("x")
    file, folder = module.digest_of(tmp_path / "a"), module.digest_of(tmp_path)
    os.utime(tmp_path / "a", (1, 1))
    assert module.digest_of(tmp_path / "a") == file and module.digest_of(tmp_path) != folder
    (tmp_path / "a").write_text("y")
    assert module.digest_of(tmp_path / "a") != file
