"""`fedtheory bench`: every table at once, what it says of its settings, refuses, and writes when interrupted."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import command_line
import numpy as np
import pytest
from preset_runs import quick
from release_files import digits_as_mnist
from typer.testing import CliRunner

from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.neural.benchmarks import presets

torch = pytest.importorskip("torch")


from fedtheory.cli import app  # noqa: E402
from fedtheory.cli import bench as benching  # noqa: E402
from fedtheory.neural import data  # noqa: E402
from fedtheory.neural.benchmarks import many  # noqa: E402
from fedtheory.neural.benchmarks import run as bench  # noqa: E402

call = partial(command_line.call, "bench")


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
    assert other["rows"] == [] and other["notes"][0].endswith("with these settings: name the options that it was run with.")
    if table == "fedelasticnet-figure1":
        ours, accuracy = (bench.texts(table, found["rows"][0])[i] for i in (4, 7))
        assert float(ours) == pytest.approx(float(accuracy), rel=1e-3)  # both in percent


def test_a_quick_table_says_which_settings_the_digits_stand_for(tmp_path):
    chosen = ("--dataset", "mnist,emnist-l", "--split", "iid", "--method", "fedprox")
    args = ("fedelasticnet-table2", "--quick", *chosen, "--out", tmp_path, "--json")
    found = json.loads(call(*args).stdout)
    assert len(found["rows"]) == 1 and "lr 0.1," in " ".join(found["notes"])
    assert sum("first of them is run, with its values. Run here: mnist (not emnist-l)." in note for note in found["notes"]) == 1
    whole = benching._digits_rows("elastic-table", SimpleNamespace(dataset=None, split=None, method=None))
    assert whole.endswith("Run here: mnist, for other rows cifar100, for other rows cifar10.")


ADAM = ("fedelasticnet-table2", "--quick", "--local-solver", "adam", "--lr", 0.001)


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
        ("--precision tf32 for float32 on cpu", ("fedelasticnet-table2", "--quick", "--precision", "tf32")),
        ("or use --device cuda with --dtype float32", ("fedelasticnet-figure3", "--quick", "--precision", "tf32")),
        ("--local-solver adam: the papers' step sizes are those", ("fedelasticnet-table2", "--quick", "--local-solver", "adam")),
        ("--betas does not apply to --local-solver sgd", ("fedelasticnet-table2", "--quick", "--betas", "0.9,0.9")),
        ("--nesterov does not apply to --local-solver adam", (*ADAM, "--nesterov")),
        ("--betas 0.9: give two numbers in [0, 1)", (*ADAM, "--betas", "0.9")),
        ("is not for scaffold, algorithm-2: Adam steps along", ADAM),
        ("name the others: --method fedprox,algorithm-1,feddyn,algorithm-3", ADAM),
        ("local work by Adam is not for algorithm-2, which is among these runs", ("fedelasticnet-figure2", *ADAM[1:])),
        ("--local-momentum 1.0: it must lie in (0, 1)", (*ADAM[:-3], "momentum", "--lr", 1, "--local-momentum", 1)),
        ("--device tpu", ("fedelasticnet-table2", "--quick", "--device", "tpu")),
    ):
        said = " ".join(call(*args, "--out", tmp_path, code=2).stderr.split())
        assert message in said, said
    assert not list(tmp_path.rglob("*.ckpt"))
    with pytest.raises(DataFileError):
        list(many.run_presets([presets.get("fedelasticnet/mnist/iid/10%/fedprox")], many.Datasets(tmp_path), tmp_path, print))


def test_cifars_rows_say_that_nothing_is_augmented():
    from fedtheory.cli import bench as benching

    for dataset, said in (("cifar10", True), ("cifar100", True), ("mnist", False)):
        notes = benching._as_feddyns_code([presets.get(f"fedelasticnet/{dataset}/iid/10%/feddyn")])
        assert any("mirrors and crops" in note and "as they are" in note for note in notes) == said
    augmented = replace(presets.get("fedelasticnet/cifar10/iid/10%/feddyn"), augment="flip-crop")
    assert any("are mirrored and cropped" in note for note in benching._as_feddyns_code([augmented]))
    assert any("some runs take them" in note for note in benching._as_feddyns_code([augmented, replace(augmented, augment=None)]))


def test_efls_mnist_row_is_said_to_be_another_network_unless_the_texts_is_asked_for():
    options = benching.Options(dataset="mnist", method="efl", network="text")
    (preset,) = benching.chosen("efl-table2", options)
    assert preset.network == "resnet50" and "normalisation of ResNet-50 (GroupNorm, 32 groups)" in preset.assumed
    said = " ".join(benching._notes("efl-table2", [preset], [], options))
    assert "--network text trains" not in said and "the text: ResNet-50" not in said
    options = replace(options, network=None)
    (preset,) = benching.chosen("efl-table2", options)
    said = " ".join(benching._notes("efl-table2", [preset], [], options))
    assert "--network text trains a ResNet-50, with GroupNorm" in said and "the text: ResNet-50" in said


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
    again = json.loads(call(*args, "--clip", 0.3, "--report", "--json", "--out", tmp_path / "clipped").stdout)
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


def test_momentum_and_adam_are_told_recorded_and_other_runs_than_sgds(tmp_path):
    args = ("fedelasticnet-table2", "--quick", "--split", "iid", "--method", "fedprox,feddyn", "--lr", 0.02)
    args = (*args, "--json", "--out", tmp_path)
    solvers = {"sgd": (), "momentum": ("--local-momentum", 0.5, "--nesterov"), "adam": ("--betas", "0.8,0.99")}
    found = {name: json.loads(call(*args, "--local-solver", name, *more).stdout) for name, more in solvers.items()}
    ends = {name: [row["test_accuracy"] for row in table["rows"]] for name, table in found.items()}
    assert len({tuple(e) for e in ends.values()}) == 3
    said = {name: " ".join(table["notes"]) for name, table in found.items()}
    assert "Local work by momentum, momentum 0.5, nesterov True" in said["momentum"] and "Local work by" not in said["sgd"]
    written = json.loads((tmp_path / "quick/fedelasticnet-table2.json").read_text())["runs"]
    solver = written[0]["provenance"]["configuration"]["solver"]
    assert (solver[""], solver["betas"], solver["lr"]) == ("Adam", "(0.8, 0.99)", 0.02)
    for name, more in solvers.items():  # each has its own files: the last run has taken nobody's place
        report = json.loads(call(*args, "--local-solver", name, *more, "--report").stdout)
        assert [row["test_accuracy"] for row in report["rows"]] == ends[name] and report["rows"][0]["solver"] == name


OTHERS = {
    "epochs": ("--epochs", 2), "clip": ("--clip", 0.3), "network": ("--network", "logistic"), "cohorts": ("--cohorts", "feddyn"),
    "seed": ("--seed", 1), "solver": ("--local-solver", "adam", "--lr", 0.1),
}  # fmt: skip


def test_runs_that_differ_in_anything_lie_side_by_side(tmp_path):
    """Also with --no-resume, which removes a run's own checkpoint alone."""
    args = ("fedelasticnet-table2", "--quick", "--split", "iid", "--method", "feddyn", "--json", "--no-resume", "--out", tmp_path)
    ends, files = {}, set()
    for name, more in {"paper": (), **OTHERS}.items():
        (row,) = json.loads(call(*args, *more).stdout)["rows"]
        ends[name] = row["test_accuracy"], row["measured"], row["parameters"]
        new = {p.name for p in tmp_path.rglob("*.ckpt")} - files
        assert len(new) == 1, (name, new)  # and none is gone
        files |= new
    assert len(files) == len({*ends.values()}) == 7
    for name, more in {"paper": (), **OTHERS}.items():
        (row,) = json.loads(call(*args, *more, "--report").stdout)["rows"]
        assert (row["test_accuracy"], row["measured"], row["parameters"]) == ends[name]


def test_cifars_augmented_runs_have_a_name_of_their_own():
    options = benching.Options(dataset="cifar10", split="iid", method="feddyn", augment=True)
    (preset,) = benching.chosen("fedelasticnet-table2", options)
    assert preset.augment == "flip-crop" and preset.name.endswith("/feddyn@augment=flip-crop")
    (plain,) = benching.chosen("fedelasticnet-table2", replace(options, augment=False, epochs=5))
    assert plain.name.endswith("/feddyn") and plain.epochs == 5  # the paper's own value changes no name


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
    digits_as_mnist(tmp_path)
    args = ("fedelasticnet-table2", "--dataset", "mnist", "--split", "iid", "--method", "fedprox", "--data", tmp_path, "--quick")
    said = " ".join(call(*args, "--out", tmp_path / "out", code=2).stderr.split())
    assert "damaged or another version" in said and "--no-verify" in said and not (tmp_path / "out").exists()
    found = json.loads(call(*args, "--out", tmp_path / "out", "--no-verify", "--json").stdout)
    assert found["rows"][0]["rounds"] == 3 and any("(--no-verify)" in note for note in found["notes"])


class Killed(BaseException):
    """Ends a process at once."""


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_killed_table_goes_on_in_the_middle_of_a_run_and_a_finished_one_begins_anew(elsewhere, tmp_path, monkeypatch):
    """On the digits, whose runs share their names; in this process, or on an engine that does not see its folder."""
    from concurrent.futures import ThreadPoolExecutor

    from fedtheory.neural import training
    from fedtheory.parallel import use_engine

    args = ("fedelasticnet-table2", "--quick", "--split", "iid", "--rounds", 3, "--method", "feddyn,fedprox", "--out")
    call(*args, tmp_path / "whole", "--threads", 1)
    monkeypatch.setattr(training, "SECONDS", 0.0)
    real, seen, deaths = training.simulate, [], [Killed]

    def killed(*args, checkpoint, **options):
        def after(at):
            checkpoint(at)
            seen.append(at.round_index)
            if seen == [1, 2, 3, 1, 2] and deaths:
                raise deaths.pop()

        return real(*args, checkpoint=after, **options)

    monkeypatch.setattr(training, "simulate", killed)

    def run(folder):
        if not elsewhere:
            return call(*args, folder, "--threads", 1)
        with ThreadPoolExecutor(1) as one, use_engine(one):
            return call(*args, folder, "--threads", 1)

    with pytest.raises(Killed):
        run(tmp_path / "cut")
    assert "going on from" in " ".join(run(tmp_path / "cut").stderr.split())
    assert seen == [1, 2, 3, 1, 2, *([1, 2, 3] if elsewhere else [3])], "the run that was finished is not run again"
    whole, cut = (json.loads((tmp_path / f / "quick" / "fedelasticnet-table2.json").read_text()) for f in ("whole", "cut"))
    assert [r["metrics"] for r in cut["runs"]] == [r["metrics"] for r in whole["runs"]]
    seen.clear()
    run(tmp_path / "cut")
    assert seen == [1, 2, 3] * 2 and not list((tmp_path / "cut").rglob("*.sqlite"))


def test_a_board_that_is_not_installed_is_told_before_any_run(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    asked = ("fedelasticnet-table2", "--quick", "--out", tmp_path, "--tensorboard", tmp_path / "board")
    assert "needs tensorboard: pip install 'fedtheory[tensorboard]'" in command_line.refused("bench", *asked)
    assert not list(tmp_path.iterdir())


def test_ctrl_c_writes_what_there_is(tmp_path, monkeypatch):
    real, calls = bench.run_preset, []

    def press(preset, *args, **options):
        calls.append(preset.method)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(preset, *args, **options)

    monkeypatch.setattr(many, "run_preset", press)
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
        of = {"dataset": "mnist,emnist-l", "split": "iid", "method": "fedprox", "epochs": 7}
        o = benching.Options(None if quick else tmp_path, **of, quick=quick, network=network, json=True, out=tmp_path)
        chosen = benching.chosen("fedelasticnet-table2", o)
        assert all(p.epochs == 7 for p in chosen)
        return [p.network for p in chosen]

    assert networks(None) == networks("table") == ["mlp-200-200", "mlp-100-100"]
    assert networks("text") == ["mlp-200-100", "mlp-200-100"]
    assert networks("logistic") == ["logistic", "logistic"] and networks("logistic", quick=True) == ["logistic"]


def test_runs_in_other_processes_are_those_of_this_one(tmp_path):
    from fedtheory.parallel import stop_workers

    args = ("fedelasticnet-table2", "--quick", "--rounds", 1, "--threads", 1)
    for workers in (1, 2):
        call(*args, "--workers", workers, "--out", tmp_path / str(workers))
    stop_workers()
    alone, there = (json.loads((tmp_path / str(w) / "quick" / "fedelasticnet-table2.json").read_text()) for w in (1, 2))
    assert [r["preset"]["name"] for r in there["runs"]] == [r["preset"]["name"] for r in alone["runs"]]
    assert [r["metrics"] for r in there["runs"]] == [r["metrics"] for r in alone["runs"]]
    said = call(*args, "--workers", 2, "--device", "cuda", "--out", tmp_path, code=2).stderr
    assert "--workers 2 with --device cuda: processes share no GPU" in " ".join(said.split())
