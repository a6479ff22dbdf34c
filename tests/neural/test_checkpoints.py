"""Checkpoints that are damaged, old or another's, and what cannot be kept."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from fedtheory import Bernoulli, algorithms
from fedtheory.errors import CheckpointError, DataFileError, InvalidInput, MissingCapability
from fedtheory.local import SGD

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from training_runs import Cut, cut_after, go, make, same  # noqa: E402

from fedtheory.neural.problem import NeuralProblem  # noqa: E402
from fedtheory.store import checkpoints  # noqa: E402


@pytest.fixture(scope="module")
def problem():
    return make()


def test_a_checkpoint_that_knows_no_clipping_goes_on_without(problem, tmp_path):
    """One written before there was such a setting."""
    path = tmp_path / "run.ckpt"
    with pytest.raises(Cut):
        go(problem, 4, checkpoint=path, every=2, on_round=cut_after(2))
    old = checkpoints.load(path)
    for name in ("clip", "clip_spares"):
        assert old.configuration["solver"].pop(name) is None
    checkpoints.save(path, old)
    same(go(problem, 4, checkpoint=path), go(problem, 4))
    with pytest.raises(InvalidInput, match=r"solver\.clip is None there and 9 here"):
        go(problem, 6, checkpoint=path, solver=SGD(20, 0.1, epochs=1, decay=0.99, clip=9))


@pytest.fixture(scope="module")
def written(problem, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run.ckpt"
    go(problem, 2, checkpoint=path)
    return path.read_bytes()


def test_another_runs_checkpoint_is_refused_by_what_differs(problem, written, tmp_path):
    path = tmp_path / "run.ckpt"
    path.write_bytes(written)
    for message, options in (
        (r"solver.lr is 0.1 there and 0.2 here", {"solver": SGD(20, 0.2, epochs=1, decay=0.99)}),
        (r"algorithm.l2 is 0.05 there and 0.06 here", {"method": algorithms.FedElasticNetDyn(1e-4, 0.06, epsilon=1e-3)}),
        (r"algorithm. is FedElasticNetDyn there and FedAvg here", {"method": algorithms.FedAvg()}),
        (r"seed is 2 there and 3 here", {"seed": 3}),
        (r"sampling.probability is 0.3 there and 0.4 here", {"sampling": Bernoulli(0.4)}),
        (r"problem.ridge is 0.001 there and 0.01 here", {"problem": make(ridge=0.01)}),
        (r"the parameters it starts from differ.*torch.manual_seed", {"problem": make(seed=1), "x0": make(seed=1).initial()}),
        (r"evaluate_every is 1 there and 2 here", {"evaluate_every": 2}),
        (r"round 2, beyond rounds = 1", {"rounds": 1}),
    ):
        settings = {"problem": problem, "rounds": 4, "checkpoint": path, **options}
        with pytest.raises(InvalidInput, match=message):
            go(**settings)
    assert path.read_bytes() == written
    with pytest.raises(Cut):  # told to start again, and cut before the first checkpoint
        go(problem, 3, seed=3, checkpoint=path, resume=False, every=3, on_round=cut_after(1))
    assert not path.exists()
    assert go(problem, 3, seed=3, checkpoint=path, resume=False).rounds == 3
    assert checkpoints.load(path).configuration["seed"] == 3


def test_a_script_without_a_seed_goes_on(problem, written, tmp_path):
    """Its module is drawn anew; what the run was goes on with the numbers that it would have had."""
    path = tmp_path / "run.ckpt"
    path.write_bytes(written)
    with pytest.warns(UserWarning, match=r"began at other parameters than this module has.*torch\.manual_seed"):
        same(go(make(seed=1), 4, checkpoint=path), go(problem, 4))
    same(go(problem, 4, checkpoint=path), go(problem, 4))  # it is the first one's file still


class Scaled(nn.Module):
    def __init__(self, by: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.by = nn.Linear(4, 3), by

    def forward(self, x):
        return self.by * self.layer(x)


def test_another_computation_under_the_same_name_is_another_run(tmp_path):
    """A constant of the module, and of a loss of one's own, that no name shows."""
    inputs, targets, clients = np.random.default_rng(0).normal(size=(12, 4)), np.arange(12) % 3, [np.arange(5), np.arange(5, 12)]

    def run(rounds, by=2.0, smoothing=0.0):
        def loss(outputs, labels):
            return nn.functional.cross_entropy(outputs, labels, label_smoothing=smoothing)

        p = NeuralProblem(Scaled(by), inputs, targets, clients, loss)
        return go(p, rounds, algorithms.FedAvg(), checkpoint=tmp_path / "run.ckpt", record=["drift"])

    run(1)
    for other in ({"by": 2.2}, {"smoothing": 0.1}):
        with pytest.raises(CheckpointError, match="the module or the loss computes something else"):
            run(2, **other)
    assert run(2).rounds == 2


def test_damage_is_found(written, tmp_path):
    path = tmp_path / "run.ckpt"
    for damaged in (b"", b"hello", written[:1000], written[: len(written) // 2], written[:-10]):
        path.write_bytes(damaged)
        with pytest.raises(DataFileError, match="not a whole checkpoint") as found:
            checkpoints.load(path)
        assert "pickle" not in str(found.value)
    rng = np.random.default_rng(0)
    flipped = 0
    for place in rng.integers(0, len(written), 40):
        path.write_bytes(written[:place] + bytes([written[place] ^ 0xFF]) + written[place + 1 :])
        try:
            found = checkpoints.load(path)
        except DataFileError:
            flipped += 1
        else:  # a byte that says nothing, such as a time of writing
            for name, value in found.fields.items():
                np.testing.assert_array_equal(value, load_bytes(written, tmp_path).fields[name])
    assert flipped > 30
    with pytest.raises(DataFileError, match="no such checkpoint"):
        checkpoints.load(tmp_path / "other.ckpt")


def test_every_byte_of_a_checkpoint_may_be_damaged(tmp_path):
    """Also those of the archive's own headers, for which zipfile has errors of its own; what is read is what was written."""
    path, x, metric = tmp_path / "run.ckpt", np.arange(6.0).reshape(1, 6), np.array([[1.0], [0.5]])
    written = checkpoints.Checkpoint(1, {"seed": 1}, {"objective": metric}, {"x": x, "t": None}, {"parts": [], "seconds": [0.1]})
    content, refused = checkpoints.save(path, written).read_bytes(), 0
    for place in range(len(content)):
        for flip in (65, 255):
            path.write_bytes(content[:place] + bytes([content[place] ^ flip]) + content[place + 1 :])
            try:
                found = checkpoints.load(path)
            except DataFileError:
                refused += 1
            else:
                assert found.configuration == written.configuration and set(found.fields) == {"x", "t"}
                np.testing.assert_array_equal(found.fields["x"], x)
                np.testing.assert_array_equal(found.metrics["objective"], metric)
    assert refused > len(content)


def load_bytes(content, folder):
    path = folder / "whole.ckpt"
    path.write_bytes(content)
    return checkpoints.load(path)


def rewritten(written, tmp_path, **changes):
    path = tmp_path / "run.ckpt"
    path.write_bytes(written)
    with np.load(path) as archive:
        arrays = {k: archive[k] for k in archive.files}
    meta = json.loads(arrays["meta"].tobytes()) | changes
    arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    with open(path, "wb") as file:
        np.savez(file, **arrays)
    return path


def test_other_versions_and_formats_are_refused(written, tmp_path):
    with pytest.raises(DataFileError, match="a checkpoint of version 2, this fedtheory reads version 1"):
        checkpoints.load(rewritten(written, tmp_path, version=2))
    with pytest.raises(DataFileError, match="not a whole checkpoint"):
        checkpoints.load(rewritten(written, tmp_path, format="something else"))
    with pytest.raises(DataFileError, match="rounds and metrics disagree"):
        checkpoints.load(rewritten(written, tmp_path, round=7))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"about": {}}, "it has no 'parts'"),
        ({"about": {"parts": [], "seconds": 3}}, "does not say how it was made"),
        ({"arrays": ["state.x", "metric.other"]}, r"it has lost metric\.other"),
        ({"configuration": []}, "does not say how it was made"),
    ],
)
def test_a_description_that_lacks_something_is_refused(written, tmp_path, changes, words):
    path = rewritten(written, tmp_path, **changes)
    for with_state in (True, False):
        with pytest.raises(DataFileError, match=rf"run\.ckpt: not a whole checkpoint \(.*{words}.*start again"):
            checkpoints.load(path, with_state)


@pytest.mark.parametrize("rounds", [2, 4])
def test_a_state_of_another_shape_is_refused_even_where_the_run_is_finished(problem, written, tmp_path, rounds):
    path = tmp_path / "run.ckpt"
    path.write_bytes(written)
    with np.load(path) as archive:
        arrays = dict(archive)
    arrays["state.x"] = arrays["state.x"][:, :5]
    with open(path, "wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(CheckpointError, match=r"the checkpoint's x is torch\.float32 .*\[1, 5\].*start again"):
        go(problem, rounds, checkpoint=path)


class Bomb:
    def __reduce__(self):
        return os.mkdir, (str(Path(__file__).parent / "exploded"),)


def test_a_checkpoint_runs_no_code(tmp_path):
    path = tmp_path / "run.ckpt"
    with open(path, "wb") as file:
        np.savez(file, meta=np.array([Bomb()], dtype=object))
    with pytest.raises(DataFileError, match="not a whole checkpoint"):
        checkpoints.load(path)
    assert not (Path(__file__).parent / "exploded").exists()


def test_what_cannot_be_kept_is_said(tmp_path):
    with pytest.raises(MissingCapability, match="the state's x is a object"):
        checkpoints.save(tmp_path / "a", checkpoints.Checkpoint(0, {}, {}, {"x": object()}))
    (tmp_path / "file").write_text("")
    with pytest.raises(DataFileError, match="cannot be written"):
        checkpoints.save(tmp_path / "file" / "a", checkpoints.Checkpoint(0, {}, {}, {}))
