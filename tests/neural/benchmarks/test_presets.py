"""The papers' tables: what they print, and the settings they are run with."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from preset_runs import METHODS

from fedtheory.errors import InvalidInput, UnknownName
from fedtheory.neural.benchmarks import presets
from fedtheory.neural.benchmarks import printed_tables as papers

torch = pytest.importorskip("torch")

from fedtheory.neural import data, models  # noqa: E402


def test_tables_are_whole():
    assert set(papers.TABLES) == {"fedelasticnet-table2", "fedelasticnet-table3", "fedelasticnet-table4", "efl-table2", "elastic-table"}
    for table in papers.TABLES.values():
        assert all(len(row) == len(table.columns) for row in table.rows.values())
    for number in (2, 3, 4):
        assert len(papers.table(f"fedelasticnet-table{number}").rows) == 14
    with pytest.raises(InvalidInput, match="no table 'table2'"):
        papers.table("table2")


def test_what_must_be_equal_in_table_2_is():
    """FedProx and FedDyn send one model, SCAFFOLD two: the transcription and the decision on the shifted last row fit that."""
    table = papers.table("fedelasticnet-table2")
    for split, dataset in table.rows:
        model, two = table.value(split, dataset, "fedprox"), table.value(split, dataset, "scaffold")
        assert table.value(split, dataset, "feddyn") == model
        assert (abs(two - 2 * model) < 0.11 * 1e7) != ((split, dataset) == ("iid", "shakespeare"))
    assert table.printed("non-iid", "shakespeare", "algorithm-3") is None
    assert table.value("iid", "mnist", "algorithm-3") == 2.55e7 and table.printed("iid", "mnist", "fedprox") == "20.3"
    assert table.printed("iid", "cinic10", "fedprox") is None is table.printed("iid", "mnist", "fedavg")


def test_cells_of_two_numbers():
    table = papers.table("fedelasticnet-table3")
    assert table.value("dirichlet-0.3", "mnist", "feddyn") == (300.76, 26.71)
    assert table.value("non-iid", "shakespeare", "feddyn") == (609.11, 348.11)
    assert papers.table("fedelasticnet-table4").value("non-iid", "shakespeare", "algorithm-3") == 318.92
    assert papers.table("efl-table2").value("non-iid", "cifar100", "efl") == pytest.approx(0.8138)


def test_every_preset_can_be_made():
    papers_of = Counter(name.partition("/")[0] for name in presets.names())
    assert len(set(presets.names())) == papers_of.total() and papers_of["fedelasticnet"] == 168 and papers_of["elastic"] == 6
    for name in presets.names():
        preset = presets.get(name)
        assert preset.name == name and preset.network in models.names()
        preset.make_algorithm(), preset.make_solver()
        preset.make_sampling().check(preset.clients)
        column = papers.table({"efl": "efl-table2", "elastic": "elastic-table"}.get(preset.paper, "fedelasticnet-table4")).columns
        assert preset.method in column


def test_methods_that_divide_by_the_steps_make_equal_ones():
    gate, average = (presets.get(f"efl/mnist/non-iid/{m}") for m in ("all/fedgate", "10-of-100/fedavg"))
    assert (gate.make_solver([600, 600]).epochs, gate.make_solver([600, 600]).steps) == (1, None)
    assert (gate.make_solver([590, 625]).epochs, gate.make_solver([590, 625]).steps) == (None, 61)  # the mean, 607.5, in tens
    assert average.make_solver([590, 625]).epochs == 1


def test_table_5_reaches_the_methods():
    made = {m: presets.get(f"fedelasticnet/mnist/dirichlet-0.3/10%/{m}").make_algorithm() for m in METHODS}
    assert (made["algorithm-3"].l1, made["algorithm-3"].l2, made["algorithm-3"].epsilon) == (1e-4, 5e-2, 5e-3)
    assert (made["algorithm-2"].l1, made["algorithm-2"].l2, made["algorithm-2"].epsilon) == (1e-4, 0, 1e-4)
    assert (made["algorithm-1"].l1, made["algorithm-1"].l2, made["algorithm-1"].epsilon) == (1e-6, 1e-6, 1e-3)
    assert made["scaffold"].send == "model"
    assert made["feddyn"].alpha == 5e-2 and made["fedprox"].mu == 1e-4
    assert [presets.TABLE_5[d]["feddyn"][1] for d in ("cifar10", "cifar100", "emnist-l", "shakespeare")] == [1e-2, 1e-2, 4e-2, 1e-2]
    emnist = presets.get("fedelasticnet/emnist-l/iid/100%/algorithm-3")
    assert (emnist.rounds, emnist.batch_size, emnist.network, emnist.probability) == (200, 50, "mlp-100-100", 1.0)
    assert any("learning rates are optimized" in a for a in presets.get("fedelasticnet/mnist/iid/10%/fedprox").assumed)
    assert "epochs" in emnist.assumed and "rounds" not in emnist.assumed


def test_choosing_presets():
    assert len(presets.of_table("fedelasticnet-table2")) == 84
    assert len(presets.of_table("fedelasticnet-table2", "mnist,emnist-l", "dirichlet-0.3")) == 12
    assert {p.participation for p in presets.of_table("fedelasticnet-table4")} == {"100%"}
    assert {p.split for p in presets.of_table("fedelasticnet-figure1", "mnist")} == {"dirichlet-0.3"}
    with pytest.raises(InvalidInput, match="has no dataset 'mnits' here: it has mnist"):
        presets.of_table("fedelasticnet-table2", "mnits")
    with pytest.raises(InvalidInput, match="no table"):
        presets.of_table("table")
    with pytest.raises(UnknownName, match="did you mean 'fedelasticnet/mnist/iid/10%/fedprox'"):
        presets.get("fedelasticnet/mnist/iid/10%/fedprx")


def test_a_presets_problem():
    preset = replace(presets.get("elastic/mnist/unbalanced/100-of-1000/elastic"), clients=10, cohort=5, network="logistic")
    problem = preset.make_problem(data.digits(), seed=1, most=40, most_tested=50, device="cpu")
    assert problem.num_clients == 10 and problem.dim == 65 * 10 and len(problem.test[0]) == 50
    assert all(len(c) <= 40 for c in problem._clients)
    assert sum(len(c) for c in problem.held_out._clients) > 0
    sizes = [len(c) for c in preset.make_problem(data.digits(), seed=1)._clients]
    assert max(sizes) > 1.3 * min(sizes)  # lognormal


def test_cifar100s_iid_clients_are_balanced_as_in_feddyns_code():
    for name in presets.names():
        preset = presets.get(name)
        balanced = name.startswith("fedelasticnet/cifar100/iid/")
        said = "5 samples of each class" in " ".join(preset.assumed)
        assert (preset.partition["partition"] == "iid-balanced") == balanced == said
    preset = replace(presets.get("fedelasticnet/cifar100/iid/10%/fedprox"), network="logistic")
    problem = preset.make_problem(hundred(), seed=1)
    assert len(problem._clients) == preset.clients == 100
    assert all((np.bincount(problem.targets[c], minlength=100) == 5).all() for c in problem._clients)


def hundred():
    labels = np.tile(np.arange(100), 500)
    images = np.zeros((50000, 1, 2, 2), np.uint8)
    return data.ImageData("hundred", images, labels, images[:100], labels[:100], 100, mean=(0.0,), std=(1.0,))
