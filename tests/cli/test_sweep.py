"""`fedtheory sweep`: every cell once, the same bytes whatever ran it, and what a specification must not say."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest
from command_line import call, refused

from fedtheory import algorithms, problems, simulate
from fedtheory.cli.sweep import cell as cells_of
from fedtheory.cli.sweep.spec import EXAMPLE, LARGEST, Grid, read
from fedtheory.participation import Uniform

SPEC = """
title = "two methods"
target = 1e-3
[all]
problem = "quadratic"
rounds = 30
participants = 2
seed = [0, 1]
[[run]]
method = "feddyn"
alpha = [0.5, 2]
[[run]]
method = "fedavg"
local-solver = "gradient"
local_lr = [0.05, 5e3]
"""


@pytest.fixture
def spec(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(SPEC)
    return file


def rows(folder):
    with open(folder / "sweep.csv", newline="") as file:
        return list(csv.DictReader(file))


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
    from fedtheory.cells import Cells

    script = "import sys; from fedtheory.cli import main; sys.exit(main())"
    with Cells(tmp_path / "sweep.cells.sqlite"):
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
    assert all(0 < float(r["test_accuracy"]) <= float(r["best_test_accuracy"]) <= 1 for r in found)


MANY = ("seed", "rounds", "scenarios", "clients", "dimension", "participants")


@pytest.mark.parametrize("result", ["3", "{}", "[]", '{"status": "ok", "bits": "x"}', '{"status": "\\ud800"}'])
def test_results_that_are_none_of_ours_are_told_in_a_line(result, tmp_path):
    (tmp_path / "s.toml").write_text('[[run]]\nmethod = "fedavg"\nproblem = "quadratic"\nrounds = 2\n')
    call("sweep", tmp_path / "s.toml", "--out", tmp_path, "--workers", 1, "--no-figures")
    with closing(sqlite3.connect(tmp_path / "sweep.cells.sqlite")) as database, database:
        database.execute("UPDATE cells SET result = ?", (result,))
    ended = call("sweep", tmp_path / "s.toml", "--out", tmp_path, "--workers", 1, "--no-figures", code=2)
    assert "what it kept cannot be gone on from" in " ".join(ended.stderr.split())


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "nothing to run"),
        ("[[run]]\nalpha = 1", "no method"),
        ('[[run]]\nmethod = "feddyn"\nalpha = []', "alpha = []"),
        ('[[run]]\nmethod = "feddyn"\nalpha = [1, 1]', "twice"),
        ('[[run]]\nmethod = "feddyn"\nalpha = "x"', "must be a number"),
        ('[[run]]\nmethod = "feddyn"\nalfa = 1', "did you mean 'alpha'"),
        ('[[run]]\nmethod = "feddyn"\nproblem = "quadratic"', "feddyn needs --alpha"),
        ('[[run]]\nmethod = "feddyn"\nproblem = "quadratic"\nalpha = 1\nmu = 2', "no hyperparameter --mu"),
        ('[[run]]\nmethod = "feddyn"\nworkers = 2', "unknown key"),
        ('[[run]]\nmethod = "mopes"\nproblem = "lad"', "leave it out of the sweep"),
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
