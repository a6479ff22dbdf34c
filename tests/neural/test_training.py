"""Training that is cut and goes on, what it refuses before work, and what TensorBoard is told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from repository import ROOT

from fedtheory import Bernoulli, algorithms, simulate
from fedtheory.errors import DataFileError, Diverged, InvalidInput, MissingCapability
from fedtheory.local import SGD

torch = pytest.importorskip("torch")
from training_runs import METHOD, Cut, cut_after, go, make, same  # noqa: E402

from fedtheory.neural.training import RECORD  # noqa: E402
from fedtheory.neural.training_run import scalars  # noqa: E402
from fedtheory.store import checkpoints  # noqa: E402


@pytest.fixture(scope="module")
def problem():
    return make()


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
sys.path.insert(0, {tests!r})
import torch
import training_runs as t
from time import sleep
def slow(at):
    print(at.round_index, flush=True)
    sleep(0.15)
torch.set_num_threads(1)
t.go(t.make(), 8, checkpoint={path!r}, every=1, on_round=slow)
"""


def started(path, until):
    """A process that trains, once it has done that many rounds."""
    script = SCRIPT.format(tests=str(ROOT / "tests"), path=str(path))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    while process.stdout.readline().strip() != str(until):
        assert process.poll() is None
    return process


def test_a_killed_process_loses_nothing(tmp_path):
    path = tmp_path / "run.ckpt"
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the other process: sums of floats depend on it
    process = started(path, 3)
    process.kill()
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
    with pytest.raises(KeyboardInterrupt, match=r"stopped after round 3: the same call goes on from .*run.ckpt"):
        go(problem, 9, checkpoint=path, every=9, on_round=press)
    with pytest.raises(KeyboardInterrupt, match=r"stopped after round 3, and nothing was kept.*checkpoint="):
        go(problem, 9, on_round=press)
    assert signal.getsignal(signal.SIGINT) is before
    assert checkpoints.load(path).round_index == 3
    same(go(problem, 5, checkpoint=path), go(problem, 5))


def test_nowhere_to_write_is_told_before_any_round(problem, tmp_path):
    (tmp_path / "file").write_text("")
    seen = []
    for path in (tmp_path / "file" / "a.ckpt", tmp_path / "file" / "b" / "c" / "a.ckpt"):
        with pytest.raises(DataFileError, match=r"a\.ckpt: cannot be written"):
            go(problem, 2, checkpoint=path, on_round=seen.append)
    assert not seen
    go(problem, 1, checkpoint=tmp_path / "new" / "folder" / "a.ckpt", on_round=seen.append)
    assert len(seen) == 1 and [p.name for p in (tmp_path / "new" / "folder").iterdir()] == ["a.ckpt"]


# --- the rest -------------------------------------------------------------------------------------
def test_bad_input_is_refused_before_work(problem, tmp_path):
    for error, message, options in (
        (InvalidInput, "every is 0", {"every": 0}),
        (DataFileError, "cannot be read .Is a directory", {"checkpoint": tmp_path}),
        (InvalidInput, "rounds is 0", {"rounds": 0}),
        (InvalidInput, "rounds is '3': it must be an integer", {"rounds": "3"}),
        (InvalidInput, "checkpoint = 5: give the name of a file", {"checkpoint": 5}),
        (InvalidInput, r"algorithm = 'feddyn' of type str: .*get\('feddyn'\)", {"method": "feddyn"}),
        (InvalidInput, r"sampling = 3 of type int: .*Uniform\(3\)", {"sampling": 3}),
        (MissingCapability, "without test samples for 'test_accuracy'", {"problem": make(test=False), "record": RECORD}),
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


def test_tensorboard_gets_every_metric(problem, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    path, write = tmp_path / "run.ckpt", scalars(tmp_path / "board")

    def both(at):
        write(at)
        cut_after(3)(at)

    with pytest.raises(Cut):
        go(problem, 4, checkpoint=path, every=2, on_round=both)
    time.sleep(1.1)  # event files are told apart by the second
    run = go(problem, 4, checkpoint=path, on_round=scalars(tmp_path / "board"))
    events = EventAccumulator(str(tmp_path / "board"))
    events.Reload()
    for name, values in run.metrics.items():
        found = {e.step: e.value for e in events.Scalars(name)}
        assert list(found) == [1, 2, 3, 4]
        np.testing.assert_allclose([found[t] for t in (1, 2, 3, 4)], values[1:, 0], rtol=1e-6)
