"""Habits of GPUs, imitated on a CPU: recurrent layers that move their parameters, TF32, captures that fail."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from fedtheory import Uniform, algorithms, simulate
from fedtheory.local import SGD

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from fedtheory.neural import NeuralProblem, captured  # noqa: E402
from fedtheory.neural import problem as problem_module  # noqa: E402
from fedtheory.neural.networks import CharLstm  # noqa: E402

RNG = np.random.default_rng(0)
TEXTS, LETTERS = RNG.integers(0, 9, (60, 5)), RNG.integers(0, 9, 60)
CLIENTS = np.split(RNG.permutation(60), [7, 20, 41])


def own_loss(outputs, targets):
    return functional.cross_entropy(outputs, targets) + 1e-3 * outputs.square().mean()


def texts() -> NeuralProblem:
    torch.manual_seed(0)
    net = CharLstm(9, 9, embedding=4, hidden=6)
    return NeuralProblem(net, TEXTS, LETTERS, CLIENTS, own_loss, engine="loop", dtype="float64")


def test_recurrent_weights_train_where_a_layer_moves_what_it_is_given(monkeypatch):
    def run():
        p = texts()
        how = dict(seed=5, local_solver=SGD(5, 0.5, epochs=2), record=(), like=p.like_array())
        return p, simulate(p, algorithms.FedAvg(), 2, p.initial(), Uniform(3), **how).x

    _, plain = run()

    def as_cudnn(layer):
        for weight in layer._flat_weights:
            if isinstance(weight, torch.Tensor):
                weight.data = weight.detach().clone()

    monkeypatch.setattr(nn.RNNBase, "flatten_parameters", as_cudnn)
    p, moved = run()
    np.testing.assert_array_equal(moved, plain)
    own = p.module(moved[0])  # what users get back is a layer like any other
    assert not any("flatten_parameters" in vars(layer) for layer in own.modules())


def test_a_network_is_tried_with_exact_kernels(monkeypatch):
    """On a GPU torch's own convolutions round to TF32, and two engines' gradients differ."""
    inside, seen = [], []

    @contextmanager
    def exact(device):
        inside.append(device)
        yield
        inside.pop()

    gradient = problem_module.engine_for
    monkeypatch.setattr(problem_module, "exact_kernels", exact)
    monkeypatch.setattr(problem_module, "engine_for", lambda *args: seen.append(list(inside)) or gradient(*args))
    texts()
    assert seen == [[torch.device("cpu")]]


class Capture:
    """Imitates `torch.cuda`, as far as a recording asks it."""

    def __init__(self, monkeypatch, fails: bool) -> None:
        self.stream, self.mode, self.captures, self.fails = "own", 0, 0, fails
        for name in ("get_sync_debug_mode", "set_sync_debug_mode", "current_stream", "set_stream", "graph"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))
        self.closed: list[str] = []
        monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: SimpleNamespace(pool=lambda: "its pool"))
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", lambda device, pool: self.closed.append(pool), raising=False)

    def get_sync_debug_mode(self):
        return self.mode

    def set_sync_debug_mode(self, mode):
        self.mode = mode

    def current_stream(self):
        return self.stream

    def set_stream(self, stream):
        self.stream = stream

    @contextmanager
    def graph(self, _):
        self.captures += 1
        before, self.stream = self.stream, "capture"
        yield
        if self.fails:  # as `torch.cuda.graph`, which leaves its stream only after it has ended the capture
            raise RuntimeError("operation failed due to a previous error during capture")
        self.stream = before

    def work(self):
        if self.mode == "error":
            raise RuntimeError("called a synchronizing CUDA operation")


def test_what_asks_the_host_is_refused_before_a_capture_begins(monkeypatch):
    cuda = Capture(monkeypatch, fails=False)
    with pytest.raises(RuntimeError, match="synchronizing"):
        captured.CudaGraph().record(cuda.work)
    assert (cuda.captures, cuda.mode, cuda.stream) == (0, 0, "own")


@pytest.mark.parametrize("fails", [False, True])
def test_a_capture_ends_on_the_stream_it_began_on(fails, monkeypatch):
    cuda = Capture(monkeypatch, fails)
    with pytest.raises(RuntimeError, match="during capture") if fails else nullcontext():
        captured.CudaGraph().record(lambda: None)
    assert (cuda.captures, cuda.mode, cuda.stream) == (1, 0, "own")
    assert cuda.closed == (["its pool"] if fails else [])  # else what is allocated from then on is never given back
