"""The papers' tables: what they print, the settings they are run with, our figures beside theirs, and the command."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from fedtheory.errors import CheckpointError, DataFileError, InvalidInput, UnknownName
from fedtheory.neural.benchmarks import presets
from fedtheory.neural.benchmarks import printed_tables as papers

torch = pytest.importorskip("torch")
from fedtheory.cli import app  # noqa: E402
from fedtheory.cli import bench as benching  # noqa: E402
from fedtheory.neural import NeuralProblem, data, models  # noqa: E402
from fedtheory.neural.benchmarks import run as bench  # noqa: E402

METHODS = ("fedprox", "algorithm-1", "scaffold", "algorithm-2", "feddyn", "algorithm-3")


# --- what is printed --------------------------------------------------------------------------------------------------
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


# --- the settings -----------------------------------------------------------------------------------------------------
def test_every_preset_can_be_made():
    papers_of = Counter(name.partition("/")[0] for name in presets.names())
    assert len(set(presets.names())) == papers_of.total() and papers_of["fedelasticnet"] == 168 and papers_of["elastic"] == 12
    for name in presets.names():
        preset = presets.get(name)
        assert preset.name == name and preset.network in models.names()
        preset.make_algorithm(), preset.make_solver()
        preset.make_sampling().check(preset.clients)
        column = papers.table({"efl": "efl-table2", "elastic": "elastic-table"}.get(preset.paper, "fedelasticnet-table4")).columns
        assert preset.method in column


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


# --- runs -------------------------------------------------------------------------------------------------------------
def quick(method, table="fedelasticnet-table2"):
    (preset,) = presets.of_table(table, "mnist", "dirichlet-0.3", method)
    return replace(preset.quick(digits=True), rounds=4)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    return folder, {m: bench.run_preset(quick(m), data.digits(), folder, progress=False) for m in METHODS}


@pytest.mark.parametrize(
    ("rounds", "quick", "shown"),
    [(20, True, "20"), (3, True, "3"), (20, False, "20/100"), (100, False, "100/100"), (120, False, "120 (paper 100)")],
)
def test_rounds_are_a_share_of_the_papers_only_where_they_are(rounds, quick, shown):
    preset = presets.of_table("fedelasticnet-table2", "mnist", "iid", "fedprox")[0]
    assert preset.rounds == 100
    preset = preset.quick(digits=True) if quick else preset
    metrics = {name: [0.1] * (rounds + 1) for name in ("participants", "nonzeros", "test_accuracy")}
    result = bench.Result(preset, metrics, rounds)
    (row,) = bench.cells("fedelasticnet-table2", [result], quick)
    assert row["rounds"] == rounds and row["rounds_of_paper"] == (None if quick else 100)
    assert bench.texts("fedelasticnet-table2", row)[3] == shown


def test_dense_methods_send_what_can_be_counted(results):
    size = 65 * 100 + 101 * 100 + 101 * 10
    for method, r in results[1].items():
        uploads = r.series("participants").sum()
        assert r.parameters == size and r.rounds == 4 and uploads >= 4
        sent = bench.measured("fedelasticnet-table2", r)
        if method in ("fedprox", "feddyn"):
            assert sent == uploads * size
        elif method == "scaffold":
            assert 1.99 * uploads * size < sent <= 2 * uploads * size
        else:
            assert 0 < sent < (2 if method == "algorithm-2" else 1) * uploads * size


def test_ratios_by_hand(results):
    runs = results[1]
    half = replace(runs["fedprox"].preset, dataset="mnist", rounds=8)  # 4 of 8 rounds are done
    (row,) = bench.cells("fedelasticnet-table2", [replace(runs["fedprox"], preset=half)])
    assert row["ratio"] == [pytest.approx(row["measured"] / (20.3e7 / 2))] and row["paper"] == 20.3e7
    both = replace(runs["feddyn"], preset=replace(runs["feddyn"].preset, dataset="mnist"))
    (row,) = bench.cells("fedelasticnet-table3", [both])
    sums = [both.series(name).sum() for name in ("entropy", "update_entropy")]
    assert row["measured"] == tuple(sums) and row["ratio"] == pytest.approx([sums[0] / 300.76, sums[1] / 26.71])
    assert sums[1] < sums[0]  # updates are smaller than models
    (row,) = bench.cells("fedelasticnet-table2", [runs["fedprox"]], quick=True)
    assert row["ratio"] is None
    (row,) = bench.cells("fedelasticnet-table2", [bench.Result(half, error="diverged in round 1 at client 3")])
    assert row["measured"] is None and bench.texts("fedelasticnet-table2", row)[4] == "diverged in round 1 at client 3"


def test_a_run_is_read_again_from_its_checkpoint(results):
    folder, runs = results
    for method, r in runs.items():
        found = bench.read_result(quick(method), folder)
        assert found.metrics == r.metrics and found.rounds == 4 and found.parameters == r.parameters
        asked = bench.read_result(replace(quick(method), network="logistic", epochs=9), folder)
        assert (asked.preset.network, asked.preset.epochs) == (r.preset.network, r.preset.epochs)  # as it was run
        written = json.loads((folder / "runs" / f"{r.preset.name}.json").read_text())
        assert written["metrics"] == r.metrics and written["provenance"]["parts"][0]["last_round"] == 4
    assert bench.read_result(replace(quick("fedprox"), method="other"), folder) is None


def test_more_rounds_go_on_from_where_it_was(tmp_path):
    preset = quick("algorithm-3")
    bench.run_preset(preset, data.digits(), tmp_path, rounds=2, progress=False)
    found = bench.run_preset(preset, data.digits(), tmp_path, progress=False)
    whole = bench.run_preset(preset, data.digits(), None, progress=False)
    assert found.metrics == whole.metrics
    assert [p["first_round"] for p in found.provenance["parts"]] == [1, 3]
    with pytest.raises(InvalidInput, match=r"solver\.lr is 0.1 there and 0.2 here"):
        bench.run_preset(replace(preset, lr=0.2), data.digits(), tmp_path, progress=False)


def test_divergence_is_a_result(tmp_path):
    found = bench.run_preset(replace(quick("fedprox"), lr=1e6, epochs=3), data.digits(), tmp_path, progress=False)
    assert "diverged in round 1 at" in found.error and found.rounds == 0


def slowly_diverging(rounds=10):
    """Finite for some rounds: every step multiplies the weights by 1 - lr * weight decay = -1e3."""
    return replace(quick("fedprox"), lr=1.001, weight_decay=1000.0, batch_size=2000, epochs=1, rounds=rounds)


def test_the_rounds_before_divergence_stay(tmp_path):
    """Before any checkpoint, after one, and in the table made again; a run that is another's is not taken for it."""
    preset = slowly_diverging()
    found = bench.run_preset(preset, data.digits(), tmp_path, progress=False)
    done = found.rounds
    assert done >= 3 and f"diverged in round {done + 1} at" in found.error
    assert not list(tmp_path.rglob("*.ckpt")) and found.provenance["parts"][-1]["last_round"] == done
    whole = bench.run_preset(replace(preset, rounds=done), data.digits(), None, progress=False)
    for name, values in whole.metrics.items():
        assert found.metrics[name] == values and len(values) == done + 1
    assert bench.run_preset(preset, data.digits(), None, progress=False).metrics == found.metrics
    (row,) = bench.cells("fedelasticnet-table2", [found])
    assert row["rounds"] == done and row["measured"] == found.parameters * found.series("participants").sum()
    again = bench.read_result(preset, tmp_path)
    assert (again.error, again.rounds, again.metrics, again.parameters) == (found.error, done, found.metrics, found.parameters)
    bench.run_preset(replace(preset, rounds=2), data.digits(), tmp_path, progress=False)  # a checkpoint of the same run
    assert bench.read_result(preset, tmp_path).error is None
    kept = bench.run_preset(preset, data.digits(), tmp_path, progress=False)
    assert kept.metrics == found.metrics and [p["last_round"] for p in kept.provenance["parts"]] == [2, done]
    assert bench.read_result(preset, tmp_path).rounds == done
    other = replace(quick("fedprox"), rounds=1)
    bench.run_preset(other, data.digits(), tmp_path, resume=False, progress=False)
    (tmp_path / "runs" / f"{other.name}.json").write_text(json.dumps(bench.result_json(found)))
    assert bench.read_result(other, tmp_path).error is None  # of other settings than the checkpoint


def test_another_runs_checkpoint_ends_the_table_and_a_bad_setting_its_row(tmp_path, monkeypatch):
    preset = quick("fedprox")
    bench.run_preset(preset, data.digits(), tmp_path, rounds=1, progress=False)
    with pytest.raises(CheckpointError, match="is the checkpoint of another run"):
        list(bench.run_presets([replace(preset, lr=0.2)], None, tmp_path, lambda r: None, rounds=2, progress=False))
    with pytest.raises(CheckpointError, match="beyond rounds = 1"):
        bench.run_preset(preset, data.digits(), tmp_path, rounds=2, progress=False)
        bench.run_preset(preset, data.digits(), tmp_path, rounds=1, progress=False)
    wrong = replace(preset, split="other", partition={"partition": "dirichlet", "alpha": 0.0})
    (row,) = bench.run_presets([wrong], None, tmp_path, lambda r: None, progress=False)
    assert "alpha" in row.error and "checkpoint" not in row.error

    def refuse(*args, **options):
        raise InvalidInput("a setting named checkpoint = 1: use another")

    monkeypatch.setattr(bench, "run_preset", refuse)
    (row,) = bench.run_presets([preset], None, tmp_path, lambda r: None)
    assert "a setting named checkpoint" in row.error  # the word alone ends nothing


def test_claims_of_figure_1(results):
    said = bench.claims(list(results[1].values()), last=2)
    pairs = [("fedprox", "algorithm-1"), ("scaffold", "algorithm-2"), ("feddyn", "algorithm-3")]
    assert [(c["baseline"], c["method"]) for c in said] == pairs
    for c in said:
        ends = [100 * results[1][m].series("test_accuracy")[2:].mean() for m in (c["baseline"], c["method"])]
        assert c["points"] == pytest.approx(ends[1] - ends[0])


def test_accuracy_on_the_clients_own_labels():
    """Against test sets drawn up client by client."""
    x = np.eye(3)[[0, 0, 1, 1, 2, 2]]
    y = np.array([0, 0, 1, 1, 2, 2])
    module = torch.nn.Linear(3, 3, bias=False)
    problem = NeuralProblem(module, x, y, [[0, 1], [2, 3, 4], [5]], test=(x[[0, 1, 2, 4]], y[[0, 1, 2, 4]]), dtype="float64")
    right = torch.eye(3, dtype=torch.float64).reshape(1, 9)
    blind = torch.tensor([[1.0, 1, 1], [0, 0, 0], [0, 0, 0]], dtype=torch.float64).reshape(1, 9)  # always says 0
    assert problem.evaluate_clients(right) == [1.0]
    assert problem.evaluate_clients(blind) == [pytest.approx((1 + 0 + 0) / 3)]
    own = torch.stack([blind[0], right[0], right[0]])[None]
    assert problem.evaluate_clients(blind, own) == [1.0]
    own = torch.stack([right[0], blind[0], right[0]])[None]
    assert problem.evaluate_clients(right, own) == [pytest.approx(2 / 3)]


def test_accuracy_on_the_clients_own_test_samples():
    """Each client on what is its own; one has nothing. The common samples, weighted by label, would say otherwise."""
    x = np.eye(3)[[0, 0, 1, 1, 2, 2]]
    y = np.array([0, 0, 1, 1, 2, 2])
    given = dict(test=(x[[0, 1, 2, 4]], y[[0, 1, 1, 0]]), dtype="float64")  # the last one mislabelled, a third label nowhere
    clients, own = [[0, 1], [2, 3], [4, 5]], [[0, 3], [], [1]]
    problem = NeuralProblem(torch.nn.Linear(3, 3, bias=False), x, y, clients, test_clients=own, **given)
    right = torch.eye(3, dtype=torch.float64).reshape(1, 9)
    blind = torch.tensor([[1.0, 1, 1], [0, 0, 0], [0, 0, 0]], dtype=torch.float64).reshape(1, 9)  # always says 0
    assert problem.evaluate_clients(torch.cat([right, blind])).tolist() == [0.75, 1.0]
    common = NeuralProblem(torch.nn.Linear(3, 3, bias=False), x, y, clients, **given)
    assert common.evaluate_clients(blind) != [1.0] and common.evaluate_clients(right) != [0.75]
    models = torch.stack([blind[0], right[0], torch.zeros(9, dtype=torch.float64) - right[0]])[None]
    assert problem.evaluate_clients(right, models).tolist() == [0.5]  # 1 and 0; who has nothing to be tested on does not count
    part = problem.subset(np.array([2, 1]))
    assert part.evaluate_clients(right).tolist() == [1.0] and part.evaluate_clients(blind).tolist() == [1.0]
    assert problem.select([np.array([0])] * 3).evaluate_clients(right).tolist() == [0.75]
    faults = (([[0], [1]], "give 3"), ([[], [], []], "not all of them empty"), ([[0], [4], []], "client 1 names test sample 4 of 4"))
    for wrong, message in faults:
        with pytest.raises(InvalidInput, match=message):
            NeuralProblem(torch.nn.Linear(3, 3, bias=False), x, y, clients, test_clients=wrong, **given)


def by_users(shift=0):
    """Digits as if a release had dealt them: user u holds, and is tested on, mostly labels u and u + 1."""
    found = data.digits()
    users = tuple(f"user {u}" for u in range(10))

    def owners(labels):
        return ((labels + np.arange(len(labels)) % 2 + shift) % 10).astype(np.int32)

    return replace(found, users=users, train_users=owners(found.train_y), test_users=owners(found.test_y))


def test_a_presets_clients_are_tested_on_their_own(tmp_path):
    """Where the data have users; the checkpoint knows whose, and the table says which way it was."""
    preset = replace(presets.get("efl/mnist/non-iid/10-of-100/fedavg").quick(digits=True), partition={"partition": "users"})
    problem = preset.make_problem(by_users())
    for k, own in enumerate(problem.tested):
        assert set(problem.test[1][own].tolist()) == {(k - 1) % 10, k} and len(own) == (by_users().test_users == k).sum()
    few = preset.make_problem(by_users(), most_tested=53)
    assert [len(own) for own in few.tested] == [6] * 3 + [5] * 7 and len(few.test[1]) == 53
    for own, all_of_them in zip(few.tested, problem.tested, strict=True):
        assert torch.equal(few.test[0][own], problem.test[0][all_of_them[: len(own)]])
    run = bench.run_preset(preset, by_users(), tmp_path, progress=False)
    model = problem.initial()[None]
    hits = problem._pass(model[0], *problem.test, np.arange(len(problem.test[1])))[0]
    by_hand = np.mean([hits[own].mean() for own in problem.tested])
    assert run.metrics["client_accuracy"][0] == pytest.approx(by_hand, abs=1e-12)
    problem.tested = None  # the mutant: reweighted
    assert abs(problem.evaluate_clients(model)[0] - by_hand) > 1e-4
    assert run.own_tests and bench.read_result(preset, tmp_path).own_tests
    with pytest.raises(CheckpointError, match="another run"):
        bench.run_preset(preset, by_users(1), tmp_path, progress=False)
    from fedtheory.cli import bench as benching

    dealt = bench.run_preset(replace(preset, partition={"partition": "iid"}, split="iid"), data.digits(), None, progress=False)
    assert dealt.own_tests is False and bench.Result(preset).own_tests is None
    assert benching._tested_on([run]) == ["its own test samples (digits)"]
    assert len(benching._tested_on([run, dealt])) == 2 and "mix of labels" in benching._tested_on([dealt])[0]


# --- the command ------------------------------------------------------------------------------------------------------
def call(*args, code=0):
    result = CliRunner().invoke(app, ["bench", *map(str, args)])
    assert result.exit_code == code, result.output + str(result.exception)
    return result


@pytest.mark.parametrize("table", ["fedelasticnet-table3", "fedelasticnet-figure1", "efl-table2", "elastic-table"])
def test_every_table_runs_at_once(table, tmp_path):
    rows = 2
    choose = {"efl-table2": "fedamp,efl", "elastic-table": "naive,elastic"}.get(table, "feddyn,algorithm-3")
    more = () if "elasticnet" not in table else ("--split", "dirichlet-0.3")
    args = (table, "--quick", "--dataset", "mnist", "--method", choose, *more, "--out", tmp_path)
    found = json.loads(call(*args, "--json").stdout)
    assert len(found["rows"]) == rows and all(r["measured"] is not None and r["ratio"] is None for r in found["rows"])
    folder = tmp_path / "quick"
    written = json.loads((folder / f"{table}.json").read_text())
    assert written["rows"] == found["rows"] and written["provenance"]["versions"]["torch"] and len(written["runs"]) == rows
    text = (folder / f"{table}.md").read_text()
    assert text.count("\n| digits |") == rows and "figures are not comparable" in text
    assert ("weighted to its own mix of labels" in text) == (table == "efl-table2")
    assert (folder / f"{table}.png").exists() == (folder / f"{table}.pdf").exists() == (table == "fedelasticnet-figure1")
    again = json.loads(call(*args, "--report", "--json").stdout)
    assert again["rows"] == found["rows"]
    other = json.loads(call(*args, "--report", "--json", "--network", "logistic").stdout)
    assert "Networks: mlp-100-100 for digits." in other["notes"] and other["rows"] == found["rows"]
    if table == "fedelasticnet-figure1":
        ours, accuracy = (bench.texts(table, found["rows"][0])[i] for i in (4, 7))
        assert float(ours) == pytest.approx(float(accuracy), rel=1e-3)  # both in percent


def test_a_quick_table_says_which_settings_the_digits_stand_for(tmp_path):
    args = ("elastic-table", "--quick", "--dataset", "mnist,cinic10-200", "--method", "naive", "--out", tmp_path, "--json")
    found = json.loads(call(*args).stdout)
    assert len(found["rows"]) == 1 and "lr 0.1," in " ".join(found["notes"])
    assert sum("first of them is run, with its values. Run here: mnist (not cinic10-200)." in note for note in found["notes"]) == 1
    whole = benching._digits_rows("elastic-table", SimpleNamespace(dataset=None, split=None, method=None))
    assert whole.endswith("Run here: mnist (not cinic10-200); cifar100; emnist; cifar10 (not cinic10).")


def test_what_is_missing_or_wrong_is_told_before_work(tmp_path):
    for message, args in (
        ("unknown table 'table2'", ("table2",)),
        ("mnist needs its files: name their folder with --data", ("fedelasticnet-table2", "--dataset", "mnist")),
        ("train-images-idx3-ubyte", ("fedelasticnet-table2", "--dataset", "mnist", "--data", tmp_path)),
        ("or leave mnist out", ("fedelasticnet-table2", "--dataset", "mnist", "--data", tmp_path)),
        ("has no method 'fedavg' here", ("fedelasticnet-table2", "--method", "fedavg")),
        ("--rounds 0", ("fedelasticnet-table2", "--quick", "--rounds", 0)),
        ("unknown model 'mlp'", ("fedelasticnet-table2", "--quick", "--network", "mlp")),
        ("--clip 0.0: use a finite norm > 0, or leave it out for no clipping", ("fedelasticnet-table2", "--quick", "--clip", 0)),
        ("--cohorts feddyn: they are those of FedElasticNet's tables", ("efl-table2", "--quick", "--cohorts", "feddyn")),
        ("--augment: none of these rows is CIFAR's", ("fedelasticnet-table2", "--quick", "--augment")),
        ("--autocast bfloat16 with --dtype float64", ("efl-table2", "--quick", "--autocast", "bfloat16", "--dtype", "float64")),
        ("--device tpu", ("fedelasticnet-table2", "--quick", "--device", "tpu")),
    ):
        said = " ".join(call(*args, "--out", tmp_path, code=2).stderr.split())
        assert message in said, said
    assert not list(tmp_path.rglob("*.ckpt"))
    with pytest.raises(DataFileError):
        list(bench.run_presets([presets.get("fedelasticnet/mnist/iid/10%/fedprox")], tmp_path, tmp_path, print))


def test_cifars_rows_say_that_nothing_is_augmented():
    from fedtheory.cli import bench as benching

    for dataset, said in (("cifar10", True), ("cifar100", True), ("mnist", False)):
        notes = benching._as_feddyns_code([presets.get(f"fedelasticnet/{dataset}/iid/10%/feddyn")])
        assert any("mirrors and crops" in note and "as they are" in note for note in notes) == said
    augmented = replace(presets.get("fedelasticnet/cifar10/iid/10%/feddyn"), augment="flip-crop")
    assert any("are mirrored and cropped" in note for note in benching._as_feddyns_code([augmented]))
    assert any("some runs take them" in note for note in benching._as_feddyns_code([augmented, replace(augmented, augment=None)]))


def test_clipping_and_feddyns_cohorts(tmp_path):
    """They change the numbers, are told and recorded; a checkpoint made without them is refused."""
    args = ("fedelasticnet-table2", "--quick", "--dataset", "mnist", "--split", "iid", "--method", "fedprox,feddyn")
    plain = json.loads(call(*args, "--json", "--out", tmp_path / "plain").stdout)
    told = " ".join(plain["notes"])
    assert "not clipped; FedDyn's public code clips them at norm 10" in told and "--cohorts feddyn takes" in told
    clipped = json.loads(call(*args, "--json", "--clip", 0.3, "--out", tmp_path / "clipped").stdout)
    assert "clipped at norm 0.3, before weight decay" in " ".join(clipped["notes"])
    for a, b in zip(plain["rows"], clipped["rows"], strict=True):
        assert a["measured"] == b["measured"] and a["test_accuracy"] > b["test_accuracy"]  # small steps: not far yet
    written = json.loads((tmp_path / "clipped/quick/fedelasticnet-table2.json").read_text())
    solvers = [r["provenance"]["configuration"]["solver"] for r in written["runs"]]
    assert [(s["clip"], s["clip_spares"]) for s in solvers] == [(0.3, None), (0.3, "curvature")]
    again = json.loads(call(*args, "--report", "--json", "--out", tmp_path / "clipped").stdout)
    assert again["rows"] == clipped["rows"] and "clipped at norm 0.3" in " ".join(again["notes"])
    taken = json.loads(call(*args, "--json", "--cohorts", "feddyn", "--out", tmp_path / "feddyn").stdout)
    # seed 0 draws nobody: the first round takes the second's
    uploads = sum((np.random.RandomState(i).uniform(size=10) <= 0.3).sum() for i in (1, 1, 2))
    assert [r["measured"] for r in taken["rows"]] == [uploads * r["parameters"] for r in taken["rows"]]
    assert "FedDyn's public code's draw" in " ".join(taken["notes"]) and taken["rows"][0]["measured"] != plain["rows"][0]["measured"]
    folder = tmp_path / "one"
    bench.run_preset(quick("feddyn"), data.digits(), folder, progress=False)
    with pytest.raises(InvalidInput, match=r"solver\.clip is None there and 0\.3 here"):
        bench.run_preset(replace(quick("feddyn"), clip=0.3), data.digits(), folder, progress=False)
    with pytest.raises(InvalidInput, match=r"sampling\. is Bernoulli there and FedDynBernoulli here"):
        bench.run_preset(replace(quick("feddyn"), feddyn_cohorts=True), data.digits(), folder, progress=False)


def test_mixed_precision_is_told_and_recorded(tmp_path):
    args = ("fedelasticnet-table2", "--quick", "--dataset", "mnist", "--split", "iid", "--method", "fedprox", "--json")
    plain = json.loads(call(*args, "--out", tmp_path / "plain").stdout)
    mixed = json.loads(call(*args, "--out", tmp_path / "mixed", "--autocast", "bfloat16").stdout)
    said = ["Trained in mixed precision (bfloat16)" in " ".join(found["notes"]) for found in (plain, mixed)]
    assert said == [False, True]
    runs = [json.loads((tmp_path / k / "quick/fedelasticnet-table2.json").read_text())["runs"][0] for k in ("plain", "mixed")]
    assert [r["provenance"]["configuration"]["problem"]["autocast"] for r in runs] == [None, "bfloat16"]
    assert runs[0]["metrics"]["test_loss"][0] == runs[1]["metrics"]["test_loss"][0]  # measured in single precision
    assert runs[0]["metrics"]["test_loss"][-1] != runs[1]["metrics"]["test_loss"][-1]
    assert runs[0]["metrics"]["test_loss"][-1] == pytest.approx(runs[1]["metrics"]["test_loss"][-1], rel=0.1)
    again = json.loads(call(*args, "--out", tmp_path / "mixed", "--report").stdout)
    assert "(bfloat16)" in " ".join(again["notes"])
    preset = quick("fedprox")
    bench.run_preset(preset, data.digits(), tmp_path, progress=False)
    with pytest.raises(InvalidInput, match=r"problem\.autocast is None there and bfloat16 here"):
        bench.run_preset(preset, data.digits(), tmp_path, progress=False, autocast="bfloat16")


def test_files_that_are_not_the_releases_are_read_when_told_to(tmp_path):
    """Digits padded to MNIST's size, in MNIST's format: the checksum refuses them and says how to read them nevertheless."""
    digits = data.digits()
    for part, x, y in (("train", digits.train_x, digits.train_y), ("t10k", digits.test_x, digits.test_y)):
        images = np.pad(16 * x[:, 0].clip(0, 15), ((0, 0), (10, 10), (10, 10))).astype(">u1")
        for kind, magic, values in (("images-idx3", 2051, images), ("labels-idx1", 2049, y.astype(np.uint8))):
            head = np.array([magic, *values.shape], ">i4").tobytes()
            (tmp_path / f"{part}-{kind}-ubyte").write_bytes(head + values.tobytes())
    args = ("fedelasticnet-table2", "--dataset", "mnist", "--split", "iid", "--method", "fedprox", "--data", tmp_path, "--quick")
    said = " ".join(call(*args, "--out", tmp_path / "out", code=2).stderr.split())
    assert "damaged or another version" in said and "--no-verify" in said and not (tmp_path / "out").exists()
    found = json.loads(call(*args, "--out", tmp_path / "out", "--no-verify", "--json").stdout)
    assert found["rows"][0]["rounds"] == 3 and any("(--no-verify)" in note for note in found["notes"])


def test_ctrl_c_writes_what_there_is(tmp_path, monkeypatch):
    real, calls = bench.run_preset, []

    def press(preset, *args, **options):
        calls.append(preset.method)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(preset, *args, **options)

    monkeypatch.setattr(bench, "run_preset", press)
    args = ("fedelasticnet-table2", "--quick", "--dataset", "mnist", "--split", "iid", "--out", tmp_path)
    found = json.loads(call(*args, "--json", code=130).stdout)
    assert found["interrupted"] and [r["method"] for r in found["rows"]] == ["fedprox"]
    assert "| digits | iid | fedprox | 3 |" in (tmp_path / "quick" / "fedelasticnet-table2.md").read_text()


def test_quick_takes_the_data_set_that_it_trains_on(tmp_path):
    args = ("fedelasticnet-table2", "--quick", "--split", "iid", "--method", "fedprox")
    runs = {}
    for dataset in ("digits", "Digits,emnist-l"):
        result = CliRunner().invoke(app, ["bench", *args, "--dataset", dataset, "--json", "--out", str(tmp_path / dataset)])
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert [r["dataset"] for r in found["rows"]] == ["digits"]
        runs[dataset] = " ".join(found["notes"])
    assert "Run here: mnist (not emnist-l, " in runs["digits"], "all settings, the first of them is run"
    assert "Run here: emnist-l." in runs["Digits,emnist-l"], "those of the data set that is named beside"
    full = CliRunner().invoke(app, ["bench", *args[:1], "--dataset", "digits", "--data", str(tmp_path), "--out", str(tmp_path)])
    assert full.exit_code == 2 and "has no dataset 'digits'" in full.stderr


def test_networks_of_the_text(tmp_path):
    from fedtheory.cli import bench as benching

    def networks(network, quick=False):
        o = benching.Options(
            None if quick else tmp_path, "mnist,emnist-l", "iid", "fedprox", None, 7, None, "drawn", False, True, quick, network,
            "cpu", "float32", None, None, True, None, False, 0, True, tmp_path,
        )  # fmt: skip
        chosen = benching._chosen("fedelasticnet-table2", o)
        assert all(p.epochs == 7 for p in chosen)
        return [p.network for p in chosen]

    assert networks(None) == networks("table") == ["mlp-200-200", "mlp-100-100"]
    assert networks("text") == ["mlp-200-100", "mlp-200-100"]
    assert networks("logistic") == ["logistic", "logistic"] and networks("logistic", quick=True) == ["logistic"]
