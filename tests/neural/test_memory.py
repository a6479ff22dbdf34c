"""Short memory, and the way a GPU is told to compute."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scarce_memory import scarce

from fedtheory import Uniform, algorithms, simulate
from fedtheory.errors import InvalidInput
from fedtheory.local import SGD

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from fedtheory.neural import memory, training  # noqa: E402
from fedtheory.neural.device import exact_kernels  # noqa: E402
from fedtheory.neural.problem import NeuralProblem  # noqa: E402

CLIENTS = np.split(np.random.default_rng(0).permutation(40), [4, 11, 13, 30])
DATA = np.random.default_rng(1).normal(size=(40, 6)), np.random.default_rng(2).integers(0, 3, 40)


def problem(**options) -> NeuralProblem:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    return NeuralProblem(module, *DATA, CLIENTS, **{"dtype": "float64", **options})


def train(p: NeuralProblem, rounds: int = 1, clients: int = 3):
    solver = SGD(4, 0.1, epochs=1)
    return simulate(p, algorithms.FedAvg(), rounds, p.initial(), Uniform(clients), 1, 5, solver, (), like=p.like_array())


def test_what_fitted_is_remembered(monkeypatch):
    """The next round, whose clients are others, does not run out of memory again; nor does the next gradient."""
    monkeypatch.setattr("fedtheory.neural.engines.compiled.TAKEN", False)  # whose steps take one model at a time
    p = problem(engine="stacked", rows_at_once=8)
    tried = scarce(monkeypatch, p, fits=2)
    train(p)
    assert max(tried) > 2
    for again in (lambda: train(p, 3), lambda: train(p.subset(np.arange(1, 5)))):
        tried.clear()
        again()
        assert tried and max(tried) <= 2
    y = p.initial().expand(5, 4, -1).contiguous()
    p.client_gradient(y)
    tried.clear()
    p.client_gradient(y)
    assert max(tried) == 2


class Scarce:
    """Samples of which no more than `most` can be had at once."""

    def __init__(self, held, most: int) -> None:
        self.held, self.most, self.shape = held, most, held.shape

    def __len__(self) -> int:
        return len(self.held)

    def __getitem__(self, index):
        found = self.held[index]
        if len(found) > self.most:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return found


@pytest.mark.parametrize("kind", ["empirical", "model"])
def test_fisher_diagonals_and_evaluation_are_taken_in_smaller_pieces(kind):
    p = problem(test=DATA)
    y = p.initial().expand(5, 1, -1)
    expected = p.fisher_diagonal(y, kind), p.evaluate(y[0])
    p.inputs, p.test = Scarce(p.inputs, 3), (Scarce(p.test[0], 3), p.test[1])
    torch.testing.assert_close(p.fisher_diagonal(y, kind), expected[0], rtol=1e-12, atol=0)
    for name, value in p.evaluate(y[0]).items():
        np.testing.assert_allclose(value, expected[1][name], rtol=1e-12)
    assert 1 < p.fitting["fisher"] <= 3 and 1 < p.fitting["evaluation"] <= 3


class Greedy(algorithms.FedDyn):
    """Its state does not fit."""

    def init(self, x, num_clients):
        if x.device.type != "meta":
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes")
        return super().init(x, num_clients)


def test_memory_that_no_chunk_can_save_is_told_with_what_it_takes(monkeypatch):
    p = problem(dtype="float32")
    with pytest.raises(memory.OutOfMemory, match=r"on cpu: feddyn keeps 1 x 5 clients x 53 parameters x 4 bytes.*fewer clients"):
        training.train(p, Greedy(0.1), 1, record=(), progress=False)

    def failing(*_, **__):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB")

    with monkeypatch.context() as patched:
        patched.setattr("fedtheory.neural.problem.walk", failing)
        with pytest.raises(memory.OutOfMemory, match=r"each copy of 3 models x 53 parameters x 4 bytes takes 636 bytes: use"):
            training.train(p, algorithms.FedDyn(0.1), 1, Uniform(3), record=(), progress=False)
        patched.setattr("fedtheory.neural.problem.walk", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):  # not a matter of memory
            training.train(p, algorithms.FedAvg(), 1, record=(), progress=False)
    monkeypatch.setattr("fedtheory.neural.problem.as_samples", failing)
    with pytest.raises(memory.OutOfMemory, match=r"inputs \(40, 6\) take up to 1.88 KiB as float64: use fewer samples"):
        problem()


def test_a_gpu_computes_in_single_precision_and_the_same_way_every_time():
    """Settings are made on a machine without a GPU as well, and set back, after an error too."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul

    def settings(_=None):
        return cudnn.deterministic, cudnn.benchmark, cudnn.allow_tf32, matmul.fp32_precision

    before = settings()
    assert before != (True, False, False, "ieee")
    inside = memory.computed_there(settings)
    on_gpu = SimpleNamespace(device=torch.device("cuda"), precision="tf32")
    assert inside(on_gpu) == (True, False, False, "ieee")
    assert inside(SimpleNamespace(device=torch.device("cpu"), precision="highest")) == before == settings()

    def walk(_):
        return settings()

    assert memory.computed_there(walk)(on_gpu) == (True, False, True, "tf32")  # training steps alone
    on_gpu.precision = "highest"
    assert memory.computed_there(walk)(on_gpu) == (True, False, False, "ieee")
    assert settings() == before
    with pytest.raises(KeyError), exact_kernels(torch.device("cuda")):
        raise KeyError
    assert settings() == before
    for name in (
        "client_batch_gradient", "client_gradient", "client_value", "client_output_gradient", "objective", "evaluate",
        "evaluate_clients", "fisher_diagonal", "walk",
    ):  # fmt: skip
        assert getattr(NeuralProblem, name).__wrapped__.__name__ == name


@pytest.mark.skipif(not hasattr(torch.backends.cudnn, "conv"), reason="this torch has one precision for all operations")
def test_precisions_that_the_user_set_by_operation_come_back():
    backends, cudnn = torch.backends, torch.backends.cudnn
    before = backends.fp32_precision, cudnn.conv.fp32_precision
    try:
        for everywhere, here in (("tf32", None), ("none", "ieee"), ("none", "tf32")):
            backends.fp32_precision = everywhere
            if here is not None:
                cudnn.conv.fp32_precision = here
            kept = cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision
            with exact_kernels(torch.device("cuda")):
                assert cudnn.conv.fp32_precision == cudnn.rnn.fp32_precision == "ieee" and cudnn.deterministic
            assert (cudnn.conv.fp32_precision, cudnn.rnn.fp32_precision) == kept and not cudnn.deterministic
    finally:
        backends.fp32_precision, cudnn.conv.fp32_precision = before


def test_a_gpu_that_is_named_is_torchs_current_one_meanwhile(monkeypatch):
    """Streams and recordings are made on the current one."""
    now = []

    class Current:
        def __init__(self, device):
            self.device = device

        def __enter__(self):
            now.append(self.device)

        def __exit__(self, *_):
            now.pop()

    monkeypatch.setattr(torch.cuda, "device", Current)
    second = SimpleNamespace(device=torch.device("cuda:1"), precision="highest")
    assert memory.computed_there(lambda _: list(now))(second) == [second.device] and not now
    second.device = torch.device("cuda")  # whichever is torch's current one
    assert memory.computed_there(lambda _: list(now))(second) == []


def test_tf32_is_refused_where_there_is_none():
    for options, told in (
        ({"precision": "tf32", "dtype": "float32"}, "'tf32' for float32 on cpu: only GPUs of NVIDIA.*device='cuda'"),
        ({"precision": "high"}, "precision = 'high': use 'highest' or 'tf32'"),
    ):
        with pytest.raises(InvalidInput, match=told):
            problem(**options)


def test_chunks_follow_from_the_whole_memory_of_a_gpu(monkeypatch):
    """Memory that is free, or kept by the allocator, changes nothing."""
    asked = SimpleNamespace(device=torch.device("cuda"), rows_at_once=None, dim=1000, dtype=torch.float32)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=8 * 32000 * 5))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: 1 / 0)
    assert memory.rows_at_once(asked, 100) == 5
    assert memory.rows_at_once(asked, 3) == 3


def test_chunks_follow_from_what_a_forward_pass_keeps(monkeypatch):
    """Of an MLP the inputs and what ReLU returns; its weights are counted with the parameters."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(18, 5), nn.ReLU(), nn.Linear(5, 3))
    images, clients = np.random.default_rng(0).normal(size=(40, 2, 9)), np.split(np.arange(40), 4)
    p = NeuralProblem(net, images, np.arange(40) % 3, clients, dtype="float64")
    asked = SimpleNamespace(device=torch.device("cuda"), rows_at_once=None, dim=p.dim, dtype=p.dtype, flat=p.flat, inputs=p.inputs)
    each = 8 * p.dim * 8 + 2 * 10 * (18 + 5) * 8
    for total, rows in ((8 * each * 7, 7), (8 * each * 7 - 8, 6)):
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device, total=total: SimpleNamespace(total_memory=total))
        assert memory.rows_at_once(asked, 100, 10) == rows
