"""The figures of trained networks, with two rounds each: their numbers, what is kept of them, their words and their pictures."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from fedtheory.errors import DataFileError, MissingCapability
from fedtheory.plotting.figure import restored
from fedtheory.plotting.style import house_style
from fedtheory.provenance import to_jsonable
from paper_figures.command import app
from paper_figures.efl import elastic_term, few_classes
from paper_figures.elastic_aggregation import one_round, poster
from paper_figures.fedelasticnet import (
    accuracy,
    families,
    lambda_1,
    next_character,
    table_1,
    table_5,
    updates,
    what_is_sent,
)
from paper_figures.known import known
from paper_figures.map import MAP
from paper_figures.networks import runs, topics, words

pytest.importorskip("torch")
TINY = {"rounds": 2, "seeds": 2}


def drawn(figure, data):
    """The words and the size of the picture, from the data and from their JSON; both the same."""
    again = restored(json.loads(json.dumps(to_jsonable(data))))
    with house_style():
        sizes = [tuple(figure.draw(d).get_size_inches()) for d in (data, again)]
    assert sizes[0] == sizes[1]
    assert figure.caption(data) == figure.caption(again)
    assert "nan" not in figure.caption(data)
    return figure.caption(data)


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    keep = tmp_path_factory.mktemp("kept")
    return families.compute(splits=("iid",), networks=("logistic",), keep=keep, **TINY), keep


def test_methods_are_paired_and_measured_in_every_round(family):
    data, _ = family
    methods = data["panels"][0]["methods"]
    assert list(methods) == list(families.METHODS)
    for row in methods.values():
        assert row["test_accuracy"].shape == (2, 3)
        assert row["parameters"] == 65 * 10
    starts = np.stack([row["test_accuracy"][:, 0] for row in methods.values()])
    senders = np.stack([row["participants"] for row in methods.values()])
    assert (starts == starts[0]).all()  # one start and one cohort for all methods
    assert (senders == senders[0]).all()


def test_a_finished_run_is_not_run_again(family, monkeypatch):
    from fedtheory.neural.benchmarks import run

    data, keep = family

    def never(*given, **more):
        raise AssertionError("a kept run was run again")

    monkeypatch.setattr(run, "run_preset", never)
    again = families.compute(splits=("iid",), networks=("logistic",), keep=keep, **TINY)
    assert to_jsonable(again) == to_jsonable(data)
    with pytest.raises(AssertionError, match="run again"):
        families.compute(splits=("iid",), networks=("logistic",), keep=keep, rounds=2, seeds=2, seed=5)


def test_ctrl_c_keeps_what_is_finished(tmp_path, monkeypatch):
    from fedtheory.neural.benchmarks import run

    honest, calls = run.run_preset, []

    def interrupted(*given, **more):
        calls.append(given[0].method)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return honest(*given, **more)

    monkeypatch.setattr(run, "run_preset", interrupted)
    effort = {"splits": ("iid",), "networks": ("logistic",), "methods": ("fedprox", "feddyn"), "rounds": 1, "seeds": 1}
    with pytest.raises(KeyboardInterrupt):
        families.compute(keep=tmp_path, **effort)
    families.compute(keep=tmp_path, **effort)
    assert calls == ["fedprox", "feddyn", "feddyn"]  # FedProx was not run again
    assert not list(tmp_path.rglob("*.ckpt"))


def test_figures_of_accuracy(family):
    data, _ = family
    figure = next(f for f in accuracy.FIGURES if f.number == "Figure 6")
    text = drawn(figure, data)
    methods = data["panels"][0]["methods"]
    last = [100 * methods[m]["test_accuracy"][:, 1:].mean(axis=1) for m in ("algorithm-3", "feddyn")]  # fewer rounds than are averaged
    assert f"Algorithm 3 minus FedDyn {words.spread(last[0] - last[1])}" in text


def test_tables_of_what_is_sent(family):
    data, _ = family
    for figure in what_is_sent.FIGURES:
        drawn(figure, data)
    panel = data["panels"][0]
    ours = what_is_sent._ours(panel, "nonzeros")
    assert (ours["fedprox"] == 1).all()
    assert (ours["scaffold"] > 1.9).all()  # two vectors; the change of a control variate has a zero or two
    printed = what_is_sent._printed(panel, "nonzeros", "Table 2")
    assert printed["algorithm-3"] == pytest.approx(2.55 / 20.3)
    bits = what_is_sent._printed(panel, "entropy", "Table 3")
    assert bits[what_is_sent.UPDATES] == pytest.approx(27.76 / 100)


def test_table_1_is_measured(family):
    data, _ = family
    one = data["panels"][0]
    both = {**data, "panels": [one | {"split": "dirichlet-0.3"}, one]}
    found = table_1._measured(both["panels"])
    assert found["fedprox"][0] == pytest.approx([100, 100])
    assert (found["feddyn"][1] == 0).all()  # the same runs in both places
    assert "SCAFFOLD (× ○) 2" in drawn(table_1.FIGURE, both)


def test_lambda_1_and_epsilon():
    data = lambda_1.compute("algorithm-3", lambdas=(0.0, 1e-2), rounds=2, seeds=2)
    panel = data["panels"][0]
    cut, alone = (lambda_1._share(panel, r) for r in (panel["runs"][0], panel["alone"]))
    assert (alone > 0.9).all()  # without epsilon nearly everything is sent
    assert (cut < alone).all()
    assert "With λ₁ of Table 5 and ε = 0" in drawn(lambda_1.FIGURES[2], data)
    assert [lambda_1._power(v) for v in (0, 1e-4, 3e-2)] == ["0", "10⁻⁴", "3·10⁻²"]


def test_the_law_of_updates_is_recognised():
    rng = np.random.default_rng(0)
    gaussian = updates._described(rng.normal(scale=0.05, size=40_000))
    laplace = updates._described(rng.laplace(scale=0.05, size=40_000))
    cut = updates._described(np.where(rng.random(40_000) < 0.3, rng.normal(scale=0.05, size=40_000), 0.0))
    assert gaussian["gaussian"] < 0.02 < gaussian["laplace"]
    assert laplace["laplace"] < 0.02 < laplace["gaussian"]
    assert abs(gaussian["kurtosis"]) < 0.15 < 2 < laplace["kurtosis"]
    assert gaussian["entropy"] == pytest.approx(gaussian["entropy_gaussian"], abs=0.01)
    in_bins = gaussian["deviation"] / 0.01  # the entropy of N(0, s^2) in bins of 0.01, with Sheppard's correction
    expected = math.log2(in_bins * math.sqrt(2 * math.pi * math.e)) + math.log2(math.e) / (24 * in_bins**2)
    assert gaussian["entropy_gaussian"] == pytest.approx(expected, abs=1e-4)
    assert cut["zero"] == pytest.approx(0.7, abs=0.01)


def test_figure_of_updates():
    data = updates.compute(rounds=1, seeds=1)
    methods = data["panels"][0]["methods"]
    assert methods["algorithm-3"]["zero"] > methods["feddyn"]["zero"]
    assert "excess kurtosis" in drawn(updates.FIGURE, data)


def test_table_5_around_its_values():
    data = table_5.compute(("algorithm-3",), (0.0, 1e-4), (0.0, 5e-3), rounds=1, seeds=1)
    found = data["methods"]["algorithm-3"]
    assert found["share"].shape == (2, 2, 1)
    assert (found["share"][:, 1] < found["share"][:, 0]).all()  # epsilon sends less
    assert table_5._at(data, found) == (1, 1)
    assert "(λ₁ = 0.0001, λ₂ = 0.05, ε = 0.005)" in drawn(table_5.FIGURE, data)


def test_texts_of_topics():
    pytest.importorskip("pydoc_data.topics")
    samples = topics.topics(clients=3, samples=20, length=12, test_samples=4)
    assert samples.train_x.shape == (60, 12)
    assert np.bincount(samples.train_users).tolist() == [20, 20, 20]
    assert np.bincount(samples.test_users).tolist() == [4, 4, 4]
    assert samples.text(samples.train_x[0]).strip()
    data = next_character.compute(methods=families.METHODS, rounds=1, seeds=1, epochs=1, clients=2)
    assert [p["split"] for p in data["panels"]] == ["iid", "non-iid"]
    assert "Python's help texts" in drawn(accuracy.FIGURES[2], data)


def test_efl_on_few_classes():
    one, two = few_classes.FIGURES
    data = few_classes.compute(methods=("fedavg", "efl"), classes=(0, 1), networks=("logistic",), **TINY)
    assert [p["split"] for p in data["panels"]] == ["IID", "m = 1"]
    assert "lost from IID to m = 1" in drawn(one, data)
    assert "Printed for MNIST: EFL 99.10 %" in drawn(two, data)
    best = few_classes._best(data["panels"][1]["methods"]["efl"])
    assert best == pytest.approx(100 * data["panels"][1]["methods"]["efl"]["client_accuracy"][:, 1:].max(axis=1))


def test_the_elastic_term_and_few_active_clients():
    second, third = elastic_term.FIGURES
    data = elastic_term.compute_figure_2(("logistic",), (0.0, 0.1, 1e4), (0.1,), rounds=2, seeds=1)
    panel = data["panels"][0]
    assert panel["best"] == 1  # 1e4 is beyond any stable step
    assert panel["accuracy"].shape == (3, 1, 3)
    drawn(second, data)
    row = elastic_term._law(3, 0.2).law(1)[0]
    assert row.sum() == pytest.approx(1)
    assert row[[0, -1]] == pytest.approx([0.8, 0.1])
    data = elastic_term.compute_figure_3("logistic", rates=(1.0, 0.5), rounds=2, seeds=1)
    assert data["panels"][0]["accuracy"].shape == (2, 2, 1, 3)
    drawn(third, data)


def test_elastic_aggregation(monkeypatch):
    table, settings = poster.FIGURES
    assert "CIFAR-100 +24.33" in drawn(table, poster.compute_table(("logistic",), rounds=2, seeds=2))
    few = {"cohort": ("clients a round, of 50", (2, 5))}
    monkeypatch.setattr(poster, "SETTINGS", few)
    data = poster.compute_settings("logistic", rounds=2, seeds=2)
    assert data["varied"]["cohort"]["elastic"].shape == (2, 2)
    drawn(settings, data)


def test_one_round_of_two_clients():
    data = one_round.compute_two(instances=2)
    assert (data["excess"] >= 0).all()
    start, naive, elastic = data["shown"]["points"]
    zeta = (elastic - start) / (naive - start)  # 1 + tau - Omega/max Omega, coordinate by coordinate
    assert zeta.min() == pytest.approx(0.5)
    assert 0.5 < zeta.max() <= 1.5
    assert "2 random pairs" in drawn(one_round.FIGURE, data)


def test_without_torch_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for compute in (families.compute, updates.compute, few_classes.compute, elastic_term.compute_figure_3):
        with pytest.raises(MissingCapability, match=r"pip install 'fedtheory\[torch\]'"):
            compute(rounds=1, seeds=1)


def test_a_folder_without_data(tmp_path):
    with pytest.raises(DataFileError, match="none of mnist, emnist-l"):
        families.compute(datasets=("mnist", "emnist-l"), data=tmp_path)


def test_words_of_numbers():
    assert words.spread(np.array([-0.3, 0.04])) == "−0.1 (−0.3 to 0.0)"
    assert words.seen(np.array([1.0, -1.0, 2.0])) == "in 2 of 3 seeds"
    assert np.isnan(words.ends(np.array([[1.0, 2.0, math.nan]]))[0])
    assert words.ends(np.array([[9.0, 1.0, 2.0]]), last=2) == pytest.approx([1.5])
    assert runs.Runs(1, 2, seed=4).used == [4, 5]


def test_the_list_says_what_every_figure_shows():
    told = CliRunner().invoke(app, ["--list", "--json"])
    assert told.exit_code == 0 and [f["name"] for f in json.loads(told.stdout)["figures"] if not f["title"]] == []


def test_every_number_of_the_papers_is_on_the_map():
    names = set(known())
    assert {name for entry in MAP for name in entry.names} <= names
    have = {(e.paper, e.number) for e in MAP if e.names or e.command or e.why_not}
    wanted = {("fedelasticnet", f"Figure {n}") for n in range(1, 10)} | {("fedelasticnet", f"Table {n}") for n in range(1, 6)}
    assert wanted | {("efl", w) for w in ("Figure 1", "Figure 2", "Figure 3", "Table 1", "Table 2")} <= have
