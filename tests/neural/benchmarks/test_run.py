"""Runs of the papers' tables: our figures beside theirs, what is read again, what diverges, and whose test samples count."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from preset_runs import METHODS, quick

from fedtheory.errors import CheckpointError, InvalidInput
from fedtheory.neural.benchmarks import presets

torch = pytest.importorskip("torch")

from fedtheory.neural import NeuralProblem, data  # noqa: E402
from fedtheory.neural.benchmarks import many  # noqa: E402
from fedtheory.neural.benchmarks import run as bench  # noqa: E402


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
        assert bench.read_result(quick(method).changed(network="logistic"), folder) is None  # a run of its own
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
    assert bench.read_result(preset, tmp_path).rounds == 4
    bench.run_preset(preset, data.digits(), tmp_path, rounds=1, resume=False, progress=False)
    assert bench.read_result(preset, tmp_path).rounds == 1
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
        list(many.run_presets([replace(preset, lr=0.2)], many.Datasets(None), tmp_path, lambda r: None, rounds=2, progress=False))
    with pytest.raises(CheckpointError, match="beyond rounds = 1"):
        bench.run_preset(preset, data.digits(), tmp_path, rounds=2, progress=False)
        bench.run_preset(preset, data.digits(), tmp_path, rounds=1, progress=False)
    wrong = replace(preset, split="other", partition={"partition": "dirichlet", "alpha": 0.0})
    (row,) = many.run_presets([wrong], many.Datasets(None), tmp_path, lambda r: None, progress=False)
    assert "alpha" in row.error and "checkpoint" not in row.error

    def refuse(*args, **options):
        raise InvalidInput("a setting named checkpoint = 1: use another")

    monkeypatch.setattr(many, "run_preset", refuse)
    (row,) = many.run_presets([preset], many.Datasets(None), tmp_path, lambda r: None)
    assert "a setting named checkpoint" in row.error  # the word alone ends nothing


def test_claims_of_figure_1(results):
    from paper_figures.fedelasticnet.table_runs import claims

    said = claims(list(results[1].values()), last=2)
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
    """The data have users; the checkpoint knows whose, and the table says which way it was."""
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
    hits = (problem.flat.call(model[0], problem.test[0]).argmax(dim=1) == problem.test[1]).double().numpy()
    by_hand = np.mean([hits[own].mean() for own in problem.tested])
    assert run.metrics["client_accuracy"][0] == pytest.approx(by_hand, abs=1e-12)
    problem._tested = None  # the mutant: reweighted
    assert abs(problem.evaluate_clients(model)[0] - by_hand) > 1e-4
    assert run.problem["tested"] and bench.read_result(preset, tmp_path).problem["tested"]
    with pytest.raises(CheckpointError, match="another run"):
        bench.run_preset(preset, by_users(1), tmp_path, progress=False)
    from fedtheory.cli import bench as benching

    dealt = bench.run_preset(replace(preset, partition={"partition": "iid"}, split="iid"), data.digits(), None, progress=False)
    assert dealt.problem["tested"] is None and not bench.Result(preset).problem
    assert benching._tested_on([run]) == ["its own test samples (digits)"]
    assert len(benching._tested_on([run, dealt])) == 2 and "mix of labels" in benching._tested_on([dealt])[0]
