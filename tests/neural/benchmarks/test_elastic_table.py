"""The rows of Elastic Aggregation's table: their settings, clients that are a release's users, and the command on tiny files."""

import json

import numpy as np
import pytest
from release_files import png, random_image, write_femnist, writers

from fedtheory.errors import InvalidInput
from fedtheory.neural import data, models
from fedtheory.neural.benchmarks import presets
from fedtheory.neural.benchmarks import printed_tables as papers
from fedtheory.neural.benchmarks import run as bench
from fedtheory.neural.data import cinic


def test_the_posters_rows_are_all_there():
    """Its table, by hand: rounds, clients, sampled, batch, first rate, model."""
    poster = {
        "cifar100": (4000, 500, 10, 10, 0.05, "resnet20"),
        "mnist": (20, 1000, 100, 100, 0.1, "logistic"),
        "emnist": (1000, 3400, 10, 100, 0.1, "emnist-cnn"),
        "cifar10": (4000, 1000, 10, 10, 0.05, "resnet20"),
        "cinic10-200": (200, 1000, 100, 10, 0.05, "resnet20"),
        "cinic10": (4000, 1000, 10, 10, 0.05, "resnet20"),
    }
    found = presets.of_table("elastic-table")
    for p in found:
        assert (p.rounds, p.clients, p.cohort, p.batch_size, p.lr, p.network) == poster[p.dataset]
        assert p.split == ("balanced" if p.dataset == "cifar100" else "unbalanced") and p.epochs == 1
    rows = papers.table("elastic-table").rows
    assert {(p.split, p.dataset) for p in found} == set(rows) and len(found) == 2 * len(rows) == 12
    assert bench.unrun_rows("elastic-table") == []
    for p in found:
        said = " ".join(p.assumed)
        assert ("without valid" in said) == p.dataset.startswith("cinic10")
        normalised = models.get(p.network).options == {"groups": 2}
        assert ("ResNet-20 (GroupNorm, 2 groups)" in said) == (p.network == "resnet20") == normalised
        assert (
            ("by writer" in said)
            == (p.dataset == "emnist")
            == ("Dirichlet" not in said)
            == (p.partition["partition"] == "users")
        )


def tiny_femnist(folder, counts):
    write_femnist(folder / "femnist/train/all.json", writers(**counts))
    write_femnist(folder / "femnist/test/all.json", writers(**dict.fromkeys(counts, 2)))


def test_clients_are_the_releases_users(tmp_path):
    pytest.importorskip("torch")
    from dataclasses import replace

    tiny_femnist(tmp_path, {"w0": 3, "w1": 1, "w2": 4, "w3": 2, "w4": 5})
    found = data.load_femnist(tmp_path)
    for method in ("naive", "elastic"):
        preset = replace(presets.get(f"elastic/emnist/unbalanced/10-of-3400/{method}"), clients=3, network="logistic")
        problem = preset.make_problem(found)
        sizes = (
            [3, 4, 2] if method == "naive" else [2, 3, 1]
        )  # who has a single sample is left out of both, w4 is the fourth
        assert problem.sample_counts.tolist() == sizes
        owners = [{found.users[u] for u in found.train_users[c]} for c in problem._clients]
        assert owners == [{"w0"}, {"w2"}, {"w3"}]
        mine = np.isin(found.test_users, [0, 2, 3])
        np.testing.assert_array_equal(problem.test[1].numpy(), found.test_y[mine])
        np.testing.assert_array_equal(problem.test[0].numpy(), found.inputs(found.test_x[mine]))
        assert len(preset.make_problem(found, most_tested=5).test[1]) == 5
    with pytest.raises(InvalidInput, match=r"LEAF JSON in .* has 5 users, the setting 3400 clients"):
        presets.get("elastic/emnist/unbalanced/10-of-3400/naive").make_problem(found)


def test_bench_on_tiny_files(tmp_path, monkeypatch):
    """All three rows by the command, on generated files; CINIC-10 is read once for its two rows."""
    pytest.importorskip("torch")
    from typer.testing import CliRunner

    from fedtheory.cli import app

    tiny_femnist(tmp_path, {f"w{k}": 3 + k for k in range(11)})
    for part in ("train", "test"):
        for label in cinic.CLASSES:
            for k in range(12):
                path = tmp_path / f"CINIC-10/{part}/{label}/{k}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(png(random_image()))
    monkeypatch.setattr(cinic, "PER_CLASS", 12)
    real, read = data.load_cinic10, []
    monkeypatch.setattr(data, "load_cinic10", lambda *a, **o: read.append(a) or real(*a, **o))
    args = [
        "elastic-table",
        "--quick",
        "--data",
        str(tmp_path),
        "--dataset",
        "emnist,cinic10-200,cinic10",
        "--rounds",
        "1",
    ]
    result = CliRunner().invoke(app, ["bench", *args, "--json", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    names = [(r["dataset"], r["method"], r["network"]) for r in rows]
    assert names == [
        (d, m, n)
        for d, n in (("emnist", "emnist-cnn"), ("cinic10-200", "resnet20"), ("cinic10", "resnet20"))
        for m in ("naive", "elastic")
    ]
    assert all(r["error"] is None and r["measured"] is not None for r in rows) and len(read) == 1
    assert [r["paper_text"] for r in rows] == ["88.71", "89.82", "35.81", "36.29", "68.68", "69.25"]
    whole = CliRunner().invoke(app, ["bench", "elastic-table", "--dataset", "emnist", "--data", str(tmp_path / "out")])
    assert whole.exit_code == 2 and "fed_emnist_train.h5" in " ".join(whole.stderr.split())
