"""Training that is cut and goes on; checkpoints that are damaged, old or another's; what TensorBoard is told."""

from __future__ import annotations

import builtins
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from repository import ROOT

from fedtheory import Bernoulli, algorithms, simulate
from fedtheory.errors import CheckpointError, DataFileError, Diverged, InvalidInput, MissingCapability
from fedtheory.local import SGD

torch = pytest.importorskip("torch")
from fedtheory.neural import NeuralProblem, checkpoints, data, models, train  # noqa: E402

METHOD = algorithms.FedElasticNetDyn(1e-4, 0.05, epsilon=1e-3)


@pytest.fixture(scope="module")
def problem():
    return make()


def make(ridge: float = 1e-3, seed: int = 0, test: bool = True) -> NeuralProblem:
    digits = data.digits()
    part = data.federated(digits, "dirichlet", 10, alpha=0.3)
    module = models.get("mlp-100-100").build(digits.input_shape, 10, seed=seed, hidden=(12, 9))
    held_out = (digits.inputs(digits.test_x), digits.test_y) if test else None
    return NeuralProblem(module, digits.inputs(digits.train_x), digits.train_y, part.indices, test=held_out, ridge=ridge, name="digits")


def go(problem, rounds, method=METHOD, **options):
    settings = {"sampling": Bernoulli(0.3), "solver": SGD(20, 0.1, epochs=1, decay=0.99), "seed": 2, "progress": False, **options}
    return train(problem, method, rounds, **settings)


def same(a, b):
    assert a.rounds == b.rounds
    for name in a.metrics:
        np.testing.assert_array_equal(a.metrics[name], b.metrics[name], err_msg=name)
    for x, y in zip(a.final, b.final, strict=True):
        np.testing.assert_array_equal(x, y)


class Cut(Exception):
    pass


def cut_after(rounds):
    def stop(at):
        if at.round_index == rounds:
            raise Cut

    return stop


@pytest.mark.parametrize(
    "method",
    [METHOD, algorithms.FedProx(1e-4), algorithms.Scaffold(), algorithms.FedElasticNetScaffold(1e-4, 0.0), algorithms.FedDyn(0.05)],
    ids=lambda m: m.name,
)
def test_what_is_cut_and_goes_on_ends_with_the_same_numbers(problem, method, tmp_path):
    whole = go(problem, 6, method)
    path = tmp_path / "run.ckpt"
    for at in (2, 5):
        with pytest.raises(Cut):
            go(problem, 6, method, checkpoint=path, every=2, on_round=cut_after(at))
    assert checkpoints.load(path).round_index == 4
    found = go(problem, 6, method, checkpoint=path)
    same(found, whole)
    assert [(p["first_round"], p["last_round"]) for p in found.provenance["parts"]] == [(1, 2), (3, 4), (5, 6)]
    assert len(found.seconds) == 6
    same(go(problem, 6, method, checkpoint=path, on_round=cut_after(1)), whole)  # it is done: nothing is run


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


def test_the_numbers_are_those_of_simulate(problem):
    run = go(problem, 3, record=("test_accuracy", "test_loss", "bits"))
    settings = {"seed": 2, "local_solver": SGD(20, 0.1, epochs=1, decay=0.99), "like": problem.like_array()}
    plain = simulate(problem, METHOD, 3, problem.initial(), Bernoulli(0.3), record=("bits",), **settings)
    np.testing.assert_array_equal(run.x, plain.x)
    np.testing.assert_array_equal(run.metrics["bits"], plain.metrics["bits"])
    for t, x in ((0, problem.initial()[None]), (3, torch.as_tensor(plain.x))):
        for name, value in problem.evaluate(x).items():
            assert run.metrics[name][t] == value
    assert run.metrics["test_accuracy"][3, 0] > 1.5 * run.metrics["test_accuracy"][0, 0]


SCRIPT = """
import sys
sys.path[:0] = {tests!r}
import test_training as t
from time import sleep
def slow(at):
    print(at.round_index, flush=True)
    sleep(0.15)
t.torch.set_num_threads(1)
t.go(t.make(), 8, checkpoint={path!r}, every=1, on_round=slow)
"""


def started(path, until):
    """A process that trains, once it has done that many rounds."""
    script = SCRIPT.format(tests=[str(ROOT / "tests"), str(Path(__file__).parent)], path=str(path))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    while process.stdout.readline().strip() != str(until):
        assert process.poll() is None
    return process


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["kill", "ctrl-c"])
def test_a_killed_process_loses_nothing(how, tmp_path):
    path = tmp_path / "run.ckpt"
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the other process: sums of floats depend on it
    process = started(path, 3)
    os.kill(process.pid, how)
    process.wait(timeout=20)
    at = checkpoints.load(path).round_index
    assert 3 <= at < 8
    problem = make()
    same(go(problem, 8, checkpoint=path), go(problem, 8))
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_that_is_ignored_stays_ignored(problem):
    """As in a background job of a shell script; nohup does the same for a hangup."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    seen = []

    def press(at):
        seen.append(signal.getsignal(signal.SIGINT))
        os.kill(os.getpid(), signal.SIGINT)

    go(problem, 3, on_round=press)
    assert seen == [signal.SIG_IGN] * 3 and signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_lets_the_round_end_and_keeps_it(problem, tmp_path):
    def press(at):
        if at.round_index == 2:
            os.kill(os.getpid(), signal.SIGINT)

    path, before = tmp_path / "run.ckpt", signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        go(problem, 9, checkpoint=path, every=9, on_round=press)
    assert signal.getsignal(signal.SIGINT) is before
    assert checkpoints.load(path).round_index == 3
    same(go(problem, 5, checkpoint=path), go(problem, 5))


# --- files that are not what they should be ---------------------------------------------------------------------------
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
        (r"problem.start is", {"problem": make(seed=1)}),
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


def test_nowhere_to_write_is_told_before_any_round(problem, tmp_path):
    (tmp_path / "file").write_text("")
    seen = []
    for path in (tmp_path / "file" / "a.ckpt", tmp_path / "file" / "b" / "c" / "a.ckpt"):
        with pytest.raises(DataFileError, match=r"a\.ckpt: cannot be written"):
            go(problem, 2, checkpoint=path, on_round=seen.append)
    assert not seen
    go(problem, 1, checkpoint=tmp_path / "new" / "folder" / "a.ckpt", on_round=seen.append)
    assert len(seen) == 1 and [p.name for p in (tmp_path / "new" / "folder").iterdir()] == ["a.ckpt"]


# --- the rest ---------------------------------------------------------------------------------------------------------
def test_bad_input_is_refused_before_work(problem, tmp_path):
    for error, message, options in (
        (InvalidInput, "every = 0", {"every": 0}),
        (InvalidInput, "is a folder", {"checkpoint": tmp_path}),
        (InvalidInput, "rounds = 0", {"rounds": 0}),
        (InvalidInput, "rounds = '3': it must be an integer", {"rounds": "3"}),
        (InvalidInput, "checkpoint = 5: use a path", {"checkpoint": 5}),
        (InvalidInput, r"algorithm = 'feddyn' of type str: .*get\('feddyn'\)", {"method": "feddyn"}),
        (InvalidInput, r"sampling = 3 of type int: .*Uniform\(3\)", {"sampling": 3}),
        (MissingCapability, "without test samples for 'test_accuracy'", {"problem": make(test=False)}),
        (InvalidInput, "is no NeuralProblem", {"problem": object()}),
    ):
        with pytest.raises(error, match=message):
            go(**{"problem": problem, "rounds": 2, **options})


def test_divergence_names_round_and_client_and_keeps_what_was(problem, tmp_path):
    path = tmp_path / "run.ckpt"
    go(problem, 2, algorithms.FedAvg(), checkpoint=path)
    kept = path.read_bytes()
    assert kept
    with pytest.raises(Diverged, match=r"diverged in round \d+ at client \d+") as caught:
        go(problem, 40, algorithms.FedAvg(), solver=SGD(20, 1e4, epochs=3), record=("test_accuracy",))
    assert caught.value.client is not None


def test_evaluation_every_other_round(problem):
    some, every = (go(problem, 5, evaluate_every=k).metrics for k in (2, 1))
    at = [0, 2, 4, 5]
    for name in ("test_accuracy", "test_loss"):
        assert np.isnan(some[name][[1, 3]]).all()
        np.testing.assert_array_equal(some[name][at], every[name][at])
    np.testing.assert_array_equal(some["drift"], every["drift"])


def test_tensorboard_missing_is_said(problem, tmp_path, monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith(("tensorboard", "torch.utils.tensorboard")):
            raise ModuleNotFoundError("No module named 'tensorboard'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingCapability, match=r"pip install 'fedtheory\[tensorboard\]'"):
        go(problem, 2, tensorboard=tmp_path)


def test_tensorboard_gets_every_metric(problem, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    path = tmp_path / "run.ckpt"
    with pytest.raises(Cut):
        go(problem, 4, checkpoint=path, every=2, tensorboard=tmp_path / "board", on_round=cut_after(3))
    time.sleep(1.1)  # event files are told apart by the second
    run = go(problem, 4, checkpoint=path, tensorboard=tmp_path / "board")
    events = EventAccumulator(str(tmp_path / "board"))
    events.Reload()
    for name, values in run.metrics.items():
        found = {e.step: e.value for e in events.Scalars(name)}
        assert list(found) == [1, 2, 3, 4]
        np.testing.assert_allclose([found[t] for t in (1, 2, 3, 4)], values[1:, 0], rtol=1e-6)
