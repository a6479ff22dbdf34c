"""The rows of Elastic Aggregation's table that there are data for, and clients that are a release's users."""

import re
from dataclasses import replace

import numpy as np
import pytest

from fedtheory.errors import InvalidInput
from fedtheory.neural import data, models
from fedtheory.neural.benchmarks import presets
from fedtheory.neural.benchmarks import printed_tables as papers


def test_the_posters_rows_with_a_reader_are_all_there():
    """Its table, by hand: rounds, clients, sampled, batch, first rate, model."""
    poster = {
        "cifar100": (4000, 500, 10, 10, 0.05, "resnet20"),
        "mnist": (20, 1000, 100, 100, 0.1, "logistic"),
        "cifar10": (4000, 1000, 10, 10, 0.05, "resnet20"),
    }
    found = presets.of_table("elastic-table")
    for p in found:
        assert (p.rounds, p.clients, p.cohort, p.batch_size, p.lr, p.network) == poster[p.dataset]
        assert p.split == ("balanced" if p.dataset == "cifar100" else "unbalanced") and p.epochs == 1
        normalised = models.get(p.network).options == {"groups": 2}
        assert ("ResNet-20 (GroupNorm, 2 groups)" in " ".join(p.assumed)) == (p.network == "resnet20") == normalised
    rows = papers.table("elastic-table").rows
    left = [d for _, d in rows if d not in poster]
    assert {(p.split, p.dataset) for p in found} == {row for row in rows if row[1] in poster} and len(found) == 6
    assert left == ["emnist", "cinic10-200", "cinic10"]
    for table in ("elastic-table", "efl-table2"):
        run = {p.dataset for p in presets.of_table(table)}
        notes = " ".join(papers.table(table).notes)
        assert all((name in run) != (re.search(rf"\b{name}\b[^.]* not run", notes) is not None) for _, name in papers.table(table).rows)


def test_clients_are_the_releases_users():
    pytest.importorskip("torch")
    g = np.random.default_rng(0)

    def part(*sizes):
        owner = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        images, labels = g.integers(256, size=(len(owner), 1, 28, 28), dtype=np.uint8), g.integers(10, size=len(owner))
        return images, labels, owner

    (x, y, u), (test_x, test_y, test_u) = part(3, 1, 4, 2, 5), part(2, 2, 2, 2, 2)
    found = data.ImageData("mine", x, y, test_x, test_y, 10, ("w0", "w1", "w2", "w3", "w4"), u, test_u, "my files")
    for method, sizes in (("naive", [3, 4, 2]), ("elastic", [2, 3, 1])):
        # who has a single sample is left out of both, w4 is the fourth
        whole = replace(presets.get(f"elastic/mnist/unbalanced/100-of-1000/{method}"), partition={"partition": "users"})
        preset = replace(whole, clients=3)
        problem = preset.make_problem(found)
        assert problem.sample_counts.tolist() == sizes
        owners = [{found.users[u] for u in found.train_users[c]} for c in problem._clients]
        assert owners == [{"w0"}, {"w2"}, {"w3"}]
        mine = np.isin(found.test_users, [0, 2, 3])
        np.testing.assert_array_equal(problem.test[1].numpy(), found.test_y[mine])
        np.testing.assert_array_equal(problem.test[0].numpy(), found.inputs(found.test_x[mine]))
        assert len(preset.make_problem(found, most_tested=5).test[1]) == 5
        with pytest.raises(InvalidInput, match=r"my files has 5 users, the setting 1000 clients"):
            whole.make_problem(found)
    with pytest.raises(InvalidInput, match="char-lstm reads texts, and mine has none: use another --network"):
        replace(preset, network="char-lstm").make_problem(found)
