"""`fedtheory sweep`: every cell once, the same bytes whatever ran it, and what a specification must not say."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest
from command_line import call, refused
from sweep_at_hand import SPEC as EIGHT
from sweep_at_hand import rows

from fedtheory import algorithms, problems, simulate
from fedtheory.cli.sweep import cell as cells_of
from fedtheory.cli.sweep.spec import EXAMPLE, LARGEST, Grid, read
from fedtheory.errors import DataFileError
from fedtheory.participation import Uniform
from fedtheory.store.result_store import _sealed

SPEC = 'title = "two methods"' + EIGHT


@pytest.fixture
def spec(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(SPEC)
    return file


def test_a_cell_is_the_run_that_it_names(spec, tmp_path):
    call("sweep", spec, "--out", tmp_path, "--workers", 1, "--no-figures")
    (row,) = [r for r in rows(tmp_path) if (r["method"], r["alpha"], r["seed"]) == ("feddyn", "2.0", "1")]
    problem = problems.random_quadratic(5, 4, seed=1)
    made = simulate(problem, algorithms.FedDyn(2.0), 30, sampling=Uniform(2), seed=1, record=("objective", "bits"))
    gap = made.metrics["objective"][:, 0] - problem.optimum().value
    assert float(row["suboptimality"]) == gap[-1] and float(row["best_suboptimality"]) == gap.min()
    at = np.flatnonzero(gap <= 1e-3)[0]
    assert (float(row["rounds_to_target"]), float(row["bits_to_target"])) == (at, made.metrics["bits"][at, 0])
    assert row["rounds_done"] == "30" and row["suboptimality_se"] == ""


def test_divergence_is_a_row_that_says_so_and_no_result(spec, tmp_path):
    told = call("sweep", spec, "--out", tmp_path, "--workers", 1).stdout
    lost = [r for r in rows(tmp_path) if r["status"] == "diverged"]
    assert {r["local_lr"] for r in lost} == {"5000.0"} and all(r["suboptimality"] == "" for r in lost)
    assert all("diverged in round" in r["error"] and int(r["rounds_done"]) > 0 for r in lost)
    found = json.loads((tmp_path / "sweep.json").read_text())
    assert found["status"] == {"ok": 6, "diverged": 2, "failed": 0}
    assert found["best"][1]["setting"] == {"local_lr": 0.05}
    assert "6 ok, 2 diverged" in told and (tmp_path / "sweep.png").exists()


def test_what_is_known_is_not_run_again_and_new_values_are(spec, tmp_path, monkeypatch):
    call("sweep", spec, "--out", tmp_path, "--workers", 1, "--no-figures")
    before = (tmp_path / "sweep.csv").read_bytes()
    real, ran = cells_of.row_of, []

    def counted(task):
        ran.append(task.cell)
        return real(task)

    monkeypatch.setattr(cells_of, "row_of", counted)
    call("sweep", spec, "--out", tmp_path, "--workers", 1, "--no-figures")
    assert ran == [] and (tmp_path / "sweep.csv").read_bytes() == before
    spec.write_text(SPEC.replace("alpha = [0.5, 2]", "alpha = [0.5, 1, 2]"))
    told = call("sweep", spec, "--out", tmp_path, "--workers", 1, "--no-figures").stdout
    assert [c["alpha"] for c in ran] == [1.0, 1.0] and "8 were known" in told


def test_a_second_writer_to_the_folder_is_refused_in_a_line(spec, tmp_path):
    from fedtheory.store.result_store import ResultStore

    script = "import sys; from fedtheory.cli import main; sys.exit(main())"
    with ResultStore(tmp_path / "sweep.cells.sqlite"):
        command = [sys.executable, "-c", script, "sweep", str(spec), "--out", str(tmp_path)]
        second = subprocess.run(command, capture_output=True, text=True)
    assert second.returncode == 2 and second.stderr.count("\n") == 1
    assert f"process {os.getpid()} is writing it" in second.stderr and "--out" in second.stderr


def test_an_interrupt_keeps_what_is_finished(spec, tmp_path, monkeypatch):
    real, ran = cells_of.row_of, []

    def interrupted(task):
        ran.append(task.cell)
        if len(ran) == 4:
            raise KeyboardInterrupt
        return real(task)

    monkeypatch.setattr(cells_of, "row_of", interrupted)
    result = call("sweep", spec, "--out", tmp_path / "cut", "--workers", 1, "--no-figures", code=130)
    assert "the same command goes on" in result.stderr and not (tmp_path / "cut" / "sweep.csv").exists()
    call("sweep", spec, "--out", tmp_path / "cut", "--workers", 1, "--no-figures")
    assert len(ran) == 9, "three are kept, the fourth is begun again"
    call("sweep", spec, "--out", tmp_path / "whole", "--workers", 1, "--no-figures")
    assert (tmp_path / "cut" / "sweep.csv").read_bytes() == (tmp_path / "whole" / "sweep.csv").read_bytes()


def test_two_workers_write_the_bytes_of_one(spec, tmp_path):
    for workers in (1, 2):
        call("sweep", spec, "--out", tmp_path / str(workers), "--workers", workers)
    for name in ("sweep.csv", "sweep.png", "sweep.pdf"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes(), name


def test_parquet_has_the_same_numbers_and_where_they_come_from(spec, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    call("sweep", spec, "--out", tmp_path, "--workers", 1, "--no-figures", "--format", "parquet")
    call("sweep", spec, "--out", tmp_path, "--workers", 1, "--no-figures")
    table = parquet.read_table(tmp_path / "sweep.parquet")
    for name in ("suboptimality", "bits", "alpha"):
        assert [("" if v is None else repr(v)) for v in table[name].to_pylist()] == [r[name] for r in rows(tmp_path)]
    assert json.loads(table.schema.metadata[b"fedtheory"])["provenance"]["versions"]


def test_networks_are_cells_too(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "n.toml").write_text(
        '[[network]]\ntable = "fedelasticnet-table2"\nquick = true\nrounds = 2\ndataset = "mnist"\nsplit = "iid"\n'
        'method = ["feddyn", "fedprox"]\n'
    )
    call("sweep", tmp_path / "n.toml", "--out", tmp_path, "--workers", 1)
    found = rows(tmp_path)
    assert [r["method"] for r in found] == ["feddyn", "fedprox"] and all(r["status"] == "ok" for r in found)
    best = json.loads((tmp_path / "sweep.json").read_text())["best"]
    assert [(b["dataset"], b["split"]) for b in best] == [("digits", "iid")] * 2
    assert all(0 < float(r["test_accuracy"]) <= float(r["best_test_accuracy"]) <= 1 for r in found)


IID = '\ntable = "fedelasticnet-table2"\nsplit = "iid"\nmethod = "feddyn"\n'
NETWORK = '''
[[network]]
table = "fedelasticnet-table2"
quick = true
split = "iid"
method = "feddyn"
rounds = {rounds}
dtype = {dtype}
{more}
'''


class Killed(BaseException):
    """Ends a process at once."""


def killed_in(monkeypatch, owner, name, at):
    """The rounds after which a checkpoint was written; after that of round `at` the process ends, once."""
    real, seen = getattr(owner, name), []

    def save(self, *args, **kwargs):
        real(self, *args, **kwargs)
        seen.append(next(a for a in args if hasattr(a, "round_index")).round_index)
        if seen == list(range(1, at + 1)):
            raise Killed

    monkeypatch.setattr(owner, name, save)
    return seen


def test_a_killed_sweep_goes_on_in_the_middle_of_a_cell(spec, tmp_path, monkeypatch):
    from fedtheory.store import checkpoints

    spec.write_text('[[run]]\nproblem = "quadratic"\nmethod = "feddyn"\nalpha = 0.5\nparticipants = 2\nrounds = 12\n')
    call("sweep", spec, "--out", tmp_path / "whole", "--workers", 1, "--no-figures")
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    seen = killed_in(monkeypatch, checkpoints.RunCheckpoint, "keep", 7)
    with pytest.raises(Killed):
        call("sweep", spec, "--out", tmp_path / "cut", "--workers", 1, "--no-figures")
    told = call("sweep", spec, "--out", tmp_path / "cut", "--workers", 1, "--no-figures")
    assert "1 cell goes on in its middle" in told.stderr and "0 were known, 1 went on in their middle" in told.stdout
    assert seen == [*range(1, 8), *range(8, 13)]
    assert (tmp_path / "cut" / "sweep.csv").read_bytes() == (tmp_path / "whole" / "sweep.csv").read_bytes()
    assert not (tmp_path / "cut" / "sweep.running").exists()


def test_so_does_one_of_networks_and_a_damaged_checkpoint_is_named(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    from fedtheory.neural import training

    (tmp_path / "n.toml").write_text(NETWORK.format(rounds=5, dtype='"float32"', more=""))
    sweep = ("sweep", tmp_path / "n.toml", "--workers", 1, "--no-figures", "--out")
    call(*sweep, tmp_path / "whole")
    monkeypatch.setattr(training, "SECONDS", 0.0)
    seen = killed_in(monkeypatch, training.TrainingRun, "_save", 3)
    with pytest.raises(Killed):
        call(*sweep, tmp_path / "cut")
    (kept,) = (tmp_path / "cut").rglob("*.ckpt")
    half = kept.read_bytes()[:-100]
    call(*sweep, tmp_path / "cut")
    assert seen == [1, 2, 3, 4, 5] and not (tmp_path / "cut" / "sweep.running").exists()
    assert (tmp_path / "cut" / "sweep.csv").read_bytes() == (tmp_path / "whole" / "sweep.csv").read_bytes()
    seen.clear()
    with pytest.raises(Killed):
        call(*sweep, tmp_path / "again")
    (kept,) = (tmp_path / "again").rglob("*.ckpt")
    kept.write_bytes(half)
    told = call(*sweep, tmp_path / "again").stderr
    assert "feddyn.ckpt was" in told and "its cell begins again" in told and seen == [1, 2, 3, 1, 2, 3, 4, 5]
    (aside,) = (tmp_path / "again").rglob("*.damaged")
    assert aside.name in told and aside.read_bytes() == half
    assert (tmp_path / "again" / "sweep.csv").read_bytes() == (tmp_path / "whole" / "sweep.csv").read_bytes()


def test_cells_of_one_setting_have_checkpoints_of_their_own(tmp_path):
    """The name of a setting says neither its rounds nor its numbers' type."""
    pytest.importorskip("torch")
    from release_files import digits_as_mnist

    more = f'verify = false\ndataset = "mnist"\ndata = "{digits_as_mnist(tmp_path / "data")}"'
    (tmp_path / "n.toml").write_text(NETWORK.format(rounds=[2, 1], dtype=["float32", "float64"], more=more))
    call("sweep", tmp_path / "n.toml", "--out", tmp_path, "--workers", 1, "--no-figures")
    assert [(r["rounds_done"], r["status"]) for r in rows(tmp_path)] == [("2", "ok"), ("2", "ok"), ("1", "ok"), ("1", "ok")]


def test_a_cell_that_failed_for_want_of_something_is_tried_again(spec, tmp_path, monkeypatch):
    real = cells_of._run
    wants: list[Exception] = [MemoryError("8 GiB"), DataFileError("mine.json: no such file")]
    monkeypatch.setattr(cells_of, "_run", lambda task: real(task) if not wants else (_ for _ in ()).throw(wants.pop()))
    sweep = ("sweep", spec, "--out", tmp_path, "--workers", 1, "--no-figures")
    told = call(*sweep, code=1)
    assert "the first that failed: mine.json: no such file; the same command tries again" in " ".join(told.stderr.split())
    assert [r["error"] for r in rows(tmp_path) if r["status"] == "failed"] == ["mine.json: no such file", "not enough memory: 8 GiB"]
    assert "6 were known" in call(*sweep).stdout and not [r for r in rows(tmp_path) if r["status"] == "failed"]


def test_a_problem_that_was_written_anew_is_read_anew_by_a_worker_that_knew_the_old_one(tmp_path):
    found = []
    for seed in (1, 2):
        problems.write_problem(tmp_path / "mine.json", problems.random_quadratic(5, 4, seed=seed))
        os.utime(tmp_path / "mine.json", (seed, seed))
        cell = {"problem": str(tmp_path / "mine.json"), "method": "feddyn", "alpha": 1.0, "participants": 2, "rounds": 3}
        found.append(cells_of.row_of(cells_of.Task("run", cell, None, None))["suboptimality"])
    assert found[0] != found[1]


MANY = ("seed", "rounds", "scenarios", "clients", "dimension", "participants")


@pytest.mark.parametrize("result", ["3", "{}", "[]", '{"status": "ok", "bits": "x"}', '{"status": "\\ud800"}'])
def test_results_that_are_none_of_ours_are_told_in_a_line(result, tmp_path):
    (tmp_path / "s.toml").write_text('[[run]]\nmethod = "fedavg"\nproblem = "quadratic"\nrounds = 2\n')
    call("sweep", tmp_path / "s.toml", "--out", tmp_path, "--workers", 1, "--no-figures")
    store = tmp_path / "sweep.cells.sqlite"
    with closing(sqlite3.connect(store)) as database, database:
        (key,) = database.execute("SELECT key FROM cells").fetchone()
        database.execute("UPDATE cells SET result = ?", (_sealed(key, result),))  # by someone who knows how they are kept
    ended = call("sweep", tmp_path / "s.toml", "--out", tmp_path, "--workers", 1, "--no-figures", code=2)
    assert "what it kept cannot be gone on from" in " ".join(ended.stderr.split())
    with closing(sqlite3.connect(store)) as database, database:
        database.execute("UPDATE cells SET result = ?", (result,))
    again = call("sweep", tmp_path / "s.toml", "--out", tmp_path, "--workers", 1, "--no-figures")
    assert "1 cell of it is damaged and is computed again" in " ".join(again.stderr.split())
    assert [r["status"] for r in rows(tmp_path)] == ["ok"]


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "nothing to run"),
        ("[[run]]\nalpha = 1", "no method"),
        ('[[run]]\nmethod = "feddyn"\nalpha = []', "alpha = []"),
        ('[[run]]\nmethod = "feddyn"\nalpha = [1, 1]', "twice"),
        ('[[run]]\nmethod = "feddyn"\nalpha = nan', "alpha = nan: it must be a finite number"),
        ('[[run]]\nmethod = "feddyn"\nalpha = 1\ndata = "x.svm"', "data needs loss: logistic"),
        ('[[run]]\nmethod = "feddyn"\nalpha = "x"', "must be a number"),
        ('[[run]]\nmethod = "feddyn"\nalfa = 1', "did you mean 'alpha'"),
        ('[[run]]\nmethod = "feddyn"\nproblem = "quadratic"', "feddyn needs alpha"),
        ('[[run]]\nmethod = "feddyn"\nproblem = "quadratic"\nalpha = 1\nmu = 2', "no hyperparameter mu: it takes send"),
        ('[[run]]\nmethod = "feddyn"\nworkers = 2', "unknown key"),
        ('[[run]]\nmethod = "mopes"\nproblem = "lad"', "leave it out of the sweep"),
        ('[[run]]\nmethod = "feddyn"\nproblem = "quadratic"\nalpha = 1\nrounds = [10, 0]', "rounds = 0"),
        ('[[run]]\nmethod = "feddyn"\nproblem = "quadratic"\nalpha = 1\nrounds = 1000000000000', "ask for fewer rounds"),
        ('[[run]]\nmethod = "feddyn"\nproblem = "quadratic"\nalpha = 1\nscenarios = 0', "scenarios = 0"),
        ('[[run]]\nmethod = "feddyn"\nproblem = "quadratic"\nalpha = 1\nseed = -1', "seed = -1: it must be at least 0"),
        ("[[network]]" + IID + "quick = true\nseed = -1", "seed = -1: it must be at least 0"),
        ("[[network]]" + IID + "quick = true\nrounds = 0", "rounds = 0: it must be at least 1"),
        ("[[network]]" + IID + "quick = true\nevaluate_every = 0", "evaluate_every = 0: it must"),
        ("[[network]]" + IID + 'quick = true\nprecision = "tf32"', "only GPUs of NVIDIA"),
        ("[[network]]" + IID + 'quick = true\nautocast = "bfloat16"\ndtype = "float64"', "leave one of them out"),
        ("[[network]]" + IID + 'dataset = "mnist"', "name their folder"),
        ("[[network]]" + IID + 'dataset = "mnist"\ndata = "nowhere"', "leave mnist out"),
        ('target = -1\n[[run]]\nmethod = "feddyn"', "target = -1"),
        ('[run]\nmethod = "feddyn"', "[[run]]"),
        ('runs = 3\n[[run]]\nmethod = "feddyn"', "did you mean 'run'"),
        ("[[run]\n", "no TOML"),
        ("a = " + "[" * 200_000, "no TOML"),
        ("\ufeff[[run]]\n", "no TOML"),
        ("#" * (LARGEST + 1), "no specification needs"),
        ("a" + ".a" * 200_000 + " = 1", "no TOML"),
        ("[a" + ' . "a"' * 100_000 + "]", "no TOML"),
        (f'title = "{"x" * 900_000}"\n[[run]]\nmethod = "fedavg"', "at most 300 characters"),
        ('title = "\\u0000"\n[[run]]\nmethod = "fedavg"', "one line of text"),
        (f'target = {"9" * 400}\n[[run]]\nmethod = "fedavg"', "target = 9999"),
        (f'[[run]]\nmethod = "fedavg"\nrounds = 0x{"f" * 20_000}', "more than 100 digits"),
        (f'[[run]]\nmethod = "fedavg"\nlocal_lr = {"9" * 400}', "more than 100 digits"),
        ('[[run]]\nmethod = "fedavg"\n' + "".join(f"{k} = {[*range(1, 2000)]}\n" for k in MANY), "at most 100,000,000 are taken"),
    ],
)  # fmt: skip
def test_what_a_specification_must_not_say(text, said, tmp_path):
    (tmp_path / "s.toml").write_text(text, encoding="utf-8")
    assert said in " ".join(refused("sweep", tmp_path / "s.toml", "--out", tmp_path / "out").split())
    assert not list((tmp_path / "out").glob("*.sqlite")), "it is told before any work"


def test_the_example_is_one_and_a_dry_run_runs_nothing(tmp_path, monkeypatch):
    assert call("sweep", "--example").stdout == EXAMPLE
    (tmp_path / "s.toml").write_text(EXAMPLE)
    monkeypatch.setattr(cells_of, "row_of", lambda task: pytest.fail("a cell was run"))
    assert "132 cells" in call("sweep", tmp_path / "s.toml", "--dry-run", "--out", tmp_path).stdout
    assert read(tmp_path / "s.toml").varied == ["problem", "seed", "participants", "method", "l1", "l2_over_beta", "alpha",
                                                "local_solver", "local_steps"]  # fmt: skip


def test_a_grid_has_every_combination_once_and_its_covering_every_value():
    grid = Grid({"a": [1, 2], "b": ["x"], "c": [5, 6, 7]})
    assert len(grid) == 6 == len({tuple(cell.items()) for cell in grid})
    assert grid[1] == {"a": 1, "b": "x", "c": 6} and grid[5] == {"a": 2, "b": "x", "c": 7}
    covering = list(grid.one_of_each())
    met = {(k, v) for cell in covering for k, v in cell.items()}
    assert len(covering) == 4 and met == {(k, v) for k in grid.axes for v in grid.axes[k]}
