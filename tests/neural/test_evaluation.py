"""Evaluation: hits and losses summed where they are computed, by their definitions, in any number of threads."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from fedtheory import algorithms, simulate
from fedtheory.errors import MissingCapability
from fedtheory.local import SGD

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from fedtheory.neural import evaluation  # noqa: E402
from fedtheory.neural import threads as cores  # noqa: E402
from fedtheory.neural.networks import cnn  # noqa: E402
from fedtheory.neural.problem import NeuralProblem  # noqa: E402

RNG = np.random.default_rng(0)
IMAGES, LABELS = RNG.normal(size=(60, 1, 16, 16)), RNG.integers(0, 3, 60)
CLIENTS = np.split(RNG.permutation(50), [7, 20, 41])  # ten samples are nobody's
OWN = [[0, 5, 5], [], [7], [59, 1]]


def problem(**options) -> NeuralProblem:
    torch.manual_seed(0)
    settings = {"test": (IMAGES, LABELS), "dtype": "float64", "ridge": 0.1, "weights": [0.1, 0.2, 0.3, 0.4], **options}
    return NeuralProblem(cnn((1, 16, 16), 3, 4, (8, 6)), IMAGES, LABELS, CLIENTS, **settings)


def models(p: NeuralProblem, *shape: int):
    return p.initial() + 0.3 * torch.randn(*shape, p.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def by_hand(p: NeuralProblem, point, numbers) -> tuple[np.ndarray, np.ndarray]:
    outputs = p.flat.call(point, torch.from_numpy(IMAGES[numbers])).detach()
    labels = torch.from_numpy(LABELS[numbers])
    hits = (outputs.argmax(dim=1) == labels).double()
    return hits.numpy(), nn.functional.cross_entropy(outputs, labels, reduction="none").numpy()


@pytest.mark.parametrize("size", [1, 7, 60, 1000])
def test_means_and_objectives_by_their_definition(size, monkeypatch):
    monkeypatch.setattr(evaluation, "_size", lambda *_: size)
    p = problem()
    x = models(p, 3)
    found = p.evaluate(x)
    everybody = [by_hand(p, point, np.arange(60)) for point in x]
    np.testing.assert_array_equal(found["test_accuracy"], [hits.sum() / 60 for hits, _ in everybody])
    np.testing.assert_allclose(found["test_loss"], [losses.mean() for _, losses in everybody], rtol=1e-12)
    assert len(set(found["test_loss"])) == 3
    values = [
        sum(w * by_hand(p, point, c)[1].mean() for w, c in zip(p.weights, CLIENTS, strict=True)) + 0.05 * float(point @ point)
        for point in x
    ]
    np.testing.assert_allclose(p.objective(x), values, rtol=1e-12)


@pytest.mark.parametrize("tested", [None, OWN], ids=["by label", "own samples"])
def test_the_clients_accuracy_by_its_definition(tested):
    p = problem(test_clients=tested)
    x, personal = models(p, 2), models(p, 2, 4)

    def accuracy(point, k: int) -> float:
        if tested is not None:
            return by_hand(p, point, np.array(tested[k]))[0].mean()
        hits, _ = by_hand(p, point, np.arange(60))
        return sum((LABELS[CLIENTS[k]] == c).mean() * hits[LABELS == c].mean() for c in range(3))

    some = [k for k in range(4) if tested is None or tested[k]]
    np.testing.assert_allclose(p.evaluate_clients(x), [np.mean([accuracy(z, k) for k in some]) for z in x], rtol=1e-12)
    each = [np.mean([accuracy(z[k], k) for k in some]) for z in personal]
    np.testing.assert_allclose(p.evaluate_clients(x, personal), each, rtol=1e-12)
    assert each[0] != each[1]


@pytest.mark.parametrize("tested", [None, CLIENTS], ids=["by label", "own samples"])
def test_labels_that_are_ignored_count_for_no_client(tested):
    """As if those samples were not there, among the clients' and among the test samples."""
    loss, real = nn.CrossEntropyLoss(), np.arange(60) % 4 > 0
    labels = np.where(real, LABELS, -100)
    torch.manual_seed(0)
    module, kept = cnn((1, 16, 16), 3, 4, (8, 6)), [c[real[c]] for c in CLIENTS]
    p = NeuralProblem(module, IMAGES, labels, CLIENTS, loss, test=(IMAGES, labels), test_clients=tested)
    own = None if tested is None else [(np.cumsum(real) - 1)[c] for c in kept]
    plain = NeuralProblem(module, IMAGES, LABELS, kept, loss, test=(IMAGES[real], LABELS[real]), test_clients=own)
    x, personal = models(p, 2).float(), models(p, 2, 4).float()
    np.testing.assert_allclose(p.evaluate_clients(x), plain.evaluate_clients(x), rtol=1e-12)
    np.testing.assert_allclose(p.evaluate_clients(x, personal), plain.evaluate_clients(x, personal), rtol=1e-12)


def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr(evaluation, "_size", lambda *_: 7)
    p, seen, before = problem(dtype="float32"), set(), torch.get_num_threads()
    x, found = models(p, 2).float(), []
    real = p.engine.outputs

    def outputs(*args):
        seen.add((threading.current_thread().name.startswith("ThreadPool"), torch.get_num_threads()))
        return real(*args)

    monkeypatch.setattr(p.engine, "outputs", outputs)
    monkeypatch.setattr(cores, "WORTH_A_POOL", 0)
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            kept = evaluation.on_test_set(p, x, lambda outputs: outputs.clone())
            found.append((*kept[0].ravel(), *torch.cat(kept[1]).ravel().tolist(), *p.objective(x).tolist()))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1] == found[2]
    assert seen == {(False, 1), (True, 1)}  # one core each


def test_an_error_in_a_piece_is_raised(monkeypatch):
    monkeypatch.setattr(cores, "WORTH_A_POOL", 0)
    p, before = problem(), torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pytest.raises(ZeroDivisionError):
            cores.in_pieces(p, 10, 3, lambda part: 1 // part.start, "evaluation")
    finally:
        torch.set_num_threads(before)


class NoHost(TorchDispatchMode):
    """Counts what brings a number to the host."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if "_local_scalar_dense" in str(function) or "nonzero" in str(function):
            self.asked.append(str(function))
        return function(*args, **(kwargs or {}))


def test_nothing_is_brought_to_the_host_on_the_way():
    p = problem(test_clients=OWN)
    with NoHost() as watched:
        evaluation.sums(p, models(p, 3), *p.test, np.arange(0, 60, 2), np.ones(30))
        evaluation.objective(p, p.weights, models(p, 3))
    assert not watched.asked
    with watched:
        float(torch.ones(1, dtype=torch.float64))
    assert watched.asked  # it would have been seen


def test_pieces_follow_from_the_widest_layer():
    p = problem()
    assert evaluation._largest_output(p.flat, p.inputs[:2]) == 4 * 12 * 12 * 8  # four filters, twelve rows and columns, float64
    assert evaluation._size(p, p.inputs, 60) == 60 and evaluation._size(p, p.inputs, 5000) == 1000
    wide = NeuralProblem(nn.Linear(2, 2**20), np.zeros((4, 2)), np.zeros(4, int), [[0, 1, 2, 3]])
    assert evaluation._size(wide, wide.inputs, 4) == 2


class Squeezed(nn.Module):
    """As regressions often end: of one sample, the output has no axis left."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        return self.layer(x).squeeze()


def test_no_piece_has_a_single_sample():
    inputs, targets = np.random.default_rng(0).normal(size=(1001, 4)), np.random.default_rng(1).normal(size=1001)
    clients = [np.arange(501), np.arange(501, 1001)]
    p = NeuralProblem(Squeezed(), inputs, targets, clients, nn.MSELoss(), test=(inputs, targets), dtype="float64")
    x = p.initial()[None]
    wanted = np.mean((p.flat.call(x[0], torch.from_numpy(inputs)).detach().numpy() - targets) ** 2)
    np.testing.assert_allclose(p.evaluate(x)["test_loss"], [wanted], rtol=1e-12)
    np.testing.assert_allclose(p.objective(x), [wanted], rtol=1e-12)
    assert p.client_gradient(x[None].expand(2, 1, -1)).shape == (2, 1, 5)


def test_outputs_that_are_no_tensor_have_no_norm():
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            return {"logits": self.layer(x)}

    def loss(outputs, labels):
        return nn.functional.cross_entropy(outputs["logits"], labels)

    p = NeuralProblem(Named(), np.zeros((12, 4)), np.arange(12) % 3, [np.arange(6), np.arange(6, 12)], loss)
    with pytest.raises(MissingCapability, match="output of Named is not one tensor with a row for each sample"):
        simulate(p, algorithms.ElasticAggregation(), 1, p.initial(), local_solver=SGD(4, 0.1, epochs=1), like=p.like_array())
