"""Samples that stay in main memory: the numbers of those on the device, and no more is read than a step takes."""

from __future__ import annotations

import numpy as np
import pytest

from fedtheory import Uniform, algorithms, local, neural
from fedtheory.errors import InvalidInput
from fedtheory.neural.training import configuration

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from fedtheory.neural import parts, sgd  # noqa: E402
from fedtheory.neural.parts import OnHost  # noqa: E402

RNG = np.random.default_rng(0)
N = 60
ROWS, LABELS, VALUES = RNG.normal(size=(N, 5)), RNG.integers(0, 3, N), RNG.normal(size=(N, 3))
CLIENTS = np.split(RNG.permutation(50), [7, 20, 41])
RECORD = ["objective", "drift", "test_loss"]


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.rows = nn.Embedding(9, 4), nn.Sequential(nn.Linear(5, 4), nn.Tanh())
        self.last = nn.Sequential(nn.Dropout(0.2), nn.Linear(4, 3))

    def forward(self, words, rows, mask):
        return self.last(self.words(words).mean(dim=1) + self.rows(rows) * mask[:, None])


def plain():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3))


def convolution():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.Flatten(), nn.Linear(3 * 36, 3))


SEVERAL = {"words": RNG.integers(0, 9, (N, 4)).astype("uint8"), "rows": ROWS, "mask": RNG.random(N) < 0.5}
IMAGES = RNG.normal(size=(N, 2, 8, 8))
CASES = {
    "labels": (plain, ROWS, LABELS, "cross_entropy", {}),
    "weights": (plain, ROWS, LABELS, nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 3.0]), ignore_index=1), {}),
    "values": (plain, ROWS, VALUES, "squared_error", {}),
    "own loss": (plain, ROWS, LABELS.astype("int32"), lambda o, t: functional.cross_entropy(o, t), {}),
    "parts": (Two, SEVERAL, LABELS, "cross_entropy", {}),
    "augmented": (convolution, IMAGES, LABELS, "cross_entropy", {"augment": "flip-crop"}),
}


def made(case, **options):
    module, inputs, targets, loss, more = CASES[case]
    return neural.NeuralProblem(
        module(), inputs, targets, CLIENTS, loss, 0.01, test=(inputs, targets), **{"dtype": "float64", **more, **options}
    )


@pytest.fixture(autouse=True)
def _launched(monkeypatch):
    monkeypatch.setattr("fedtheory.neural.engines.compiled.TAKEN", False)  # compiled steps round otherwise


def walked(p, solver=None):
    solver = solver or local.SGD(4, 0.1, epochs=2)
    run = neural.train(p, algorithms.FedDyn(0.1), 2, Uniform(3), solver, record=RECORD, progress=False)
    return [run.x, *(run.metrics[name] for name in RECORD)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("engine", ["auto", "loop"])
def test_the_numbers_are_those_of_samples_on_the_device(case, engine):
    here, there = made(case, engine=engine, samples_on="cpu"), made(case, engine=engine)
    for a, b in zip(walked(here), walked(there), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("case", ["labels", "weights", "values"])
def test_all_that_is_measured_is_the_same(case):
    tests = [np.arange(0, 9), np.arange(9, 20), np.arange(20, 30), [59]]
    pairs = [made(case, samples_on=where, test_clients=own) for own in (None, tests) for where in ("cpu", None)]
    steps = np.zeros((4, 2, 3), dtype=int)
    for p, q in (pairs[:2], pairs[2:]):
        y = p.initial().expand(4, 2, -1).contiguous()
        kernels = [
            lambda p, y: p.client_gradient(y), lambda p, y: p.client_value(y), lambda p, y: p.client_batch_gradient(y, steps),
            lambda p, y: p.client_output_gradient(y, 0, 3), lambda p, y: p.fisher_diagonal(y, "empirical"),
            lambda p, y: p.objective(y[0]),
        ]  # fmt: skip
        if case != "values":
            kernels += [lambda p, y: p.evaluate_clients(y[0]), lambda p, y: p.evaluate(y[0])["test_accuracy"]]
        for kernel in kernels:
            np.testing.assert_array_equal(kernel(p, y), kernel(q, y))


def test_momentum_and_own_metrics():
    runs = [walked(made("labels", samples_on=where), local.Momentum(4, 0.05, epochs=1)) for where in ("cpu", None)]
    for a, b in zip(*runs, strict=True):
        np.testing.assert_array_equal(a, b)
    own = {"mine": lambda outputs, targets: float((outputs.argmax(1) == targets).double().mean())}
    runs = [neural.train(made("labels", samples_on=w), algorithms.FedAvg(), 1, progress=False, metrics=own) for w in ("cpu", None)]
    np.testing.assert_array_equal(runs[0].metrics["mine"], runs[1].metrics["test_accuracy"])


def test_a_run_goes_on_wherever_the_samples_lie(tmp_path):
    solver = local.SGD(4, 0.1, epochs=1)

    def said(p):
        return configuration(p, algorithms.FedAvg(), Uniform(2), solver, 0, RECORD, 1, p.initial())

    for case in ("labels", "parts"):
        assert said(made(case, samples_on="cpu", dtype="float32")) == said(made(case, dtype="float32"))


class Device:
    """What has come to the pretend device: rows at a time."""

    def __init__(self, monkeypatch):
        self.rows, taken = [], OnHost.__getitem__

        def counted(held, index):
            found = taken(held, index)
            self.rows.append(len(found))
            return found

        monkeypatch.setattr(OnHost, "__getitem__", counted)


def test_a_step_brings_its_batch_and_nothing_is_compiled_or_recorded(monkeypatch):
    monkeypatch.setattr("fedtheory.neural.engines.compiled.TAKEN", True)
    monkeypatch.setattr(sgd, "walk_rows", lambda *_: pytest.fail("compiled"))
    p = made("labels", samples_on="cpu")
    device = Device(monkeypatch)
    neural.train(p, algorithms.FedAvg(), 1, None, local.SGD(4, 0.1, epochs=1), record=["drift"], progress=False)
    steps = [row for row in device.rows if row <= 16]  # of four clients at most; before them all are read once, for the run's identity
    assert len(steps) >= 2 * 6 and set(device.rows) - set(steps) <= {N}


@pytest.mark.filterwarnings("error:The given NumPy array is not writable")
def test_a_memory_map_is_neither_copied_nor_read_whole_for_a_step(tmp_path, monkeypatch):
    """A quarter of a gigabyte, in a file with holes, of which the clients hold sixty rows."""
    count, path = 2**20, tmp_path / "rows"
    monkeypatch.setattr(parts, "AT_ONCE", 2**20)
    writer = np.memmap(path, np.float64, "w+", shape=(count, 32))
    held = np.sort(np.random.default_rng(1).choice(count, N, replace=False))
    writer[held, :5] = ROWS
    writer.flush()
    labels = np.zeros(count, "uint8")
    labels[held] = LABELS
    torch.manual_seed(0)
    module = nn.Linear(32, 3)
    inputs = np.memmap(path, np.float64, "r", shape=(count, 32))  # read-only, and of another dtype than the problem's
    device = Device(monkeypatch)
    clients = np.split(held, [20, 45])
    p = neural.NeuralProblem(module, inputs, labels, clients, samples_on="cpu")
    assert p.inputs.held.data_ptr() == inputs.ctypes.data and p.targets.held.data_ptr() == labels.ctypes.data
    assert max(device.rows) <= count and max(r for r in device.rows if r < count) == 2**20 // 32  # finite, a chunk at a time
    device.rows.clear()
    small = neural.NeuralProblem(
        module, inputs[held], labels[held], [np.searchsorted(held, c) for c in clients]
    )
    y = p.initial().expand(3, 1, -1).contiguous()
    torch.testing.assert_close(p.client_gradient(y), small.client_gradient(y), rtol=0, atol=0)
    assert max(device.rows) == 25


def test_what_is_not_finite_is_found_in_any_chunk(monkeypatch):
    monkeypatch.setattr(parts, "AT_ONCE", 35)
    hurt = ROWS.copy()
    hurt[43, 2] = 1e300
    for where in ("cpu", None):
        with pytest.raises(InvalidInput, match=r"inputs\[43, 2\] is inf in float32"):
            neural.NeuralProblem(plain(), hurt, LABELS, CLIENTS, samples_on=where)


def test_samples_lie_on_the_device_or_in_main_memory():
    with pytest.raises(InvalidInput, match="samples_on = 'cuda': use 'cpu', or None for the device"):
        made("labels", samples_on="cuda")


def test_pinned_memory_is_used_for_a_gpu(monkeypatch):
    done = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda t: (done.append("pinned"), t)[1])
    monkeypatch.setattr(torch.Tensor, "to", lambda t, *args, **how: (done.append((*args, *how.items())), t)[1])
    OnHost(torch.zeros(6, 2), torch.device("cuda"), torch.float32)[torch.tensor([1, 2])]
    assert done == ["pinned", (torch.device("cuda"), ("non_blocking", True)), (torch.float32,)]
