"""Batches whose samples depend on one another, change in place, or have dropout in some only."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from fedtheory import Uniform, algorithms, simulate
from fedtheory.errors import MissingCapability
from fedtheory.local import SGD
from fedtheory.local.objective import Rows
from fedtheory.local.sgd import sample_order
from fedtheory.randomness import Stream

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from fedtheory.neural.problem import NeuralProblem  # noqa: E402

INPUTS, LABELS = np.random.default_rng(0).normal(size=(50, 6)), np.random.default_rng(1).integers(0, 3, 50)
CLIENTS = [np.arange(13), np.arange(13, 30), np.arange(30, 50)]


def by_hand(module: nn.Module, loss, solver: SGD, seed: int) -> torch.Tensor:
    """One round of FedAvg with everybody, the plain mean of the clients' models (d,), by a plain torch loop."""
    rows = Rows(np.arange(3), np.zeros((3, 1), dtype=int), np.ones((3, 1), dtype=bool), Stream(seed), 1)
    ends = []
    for k, held in enumerate(CLIENTS):
        own = copy.deepcopy(module).double()
        for epoch in range(solver.epochs):
            order = held[sample_order(rows, k, 0, len(held), epoch)]
            for first in range(0, len(held), solver.batch_size):
                batch = order[first : first + solver.batch_size]
                own.zero_grad()
                loss(own(torch.from_numpy(INPUTS[batch])), torch.from_numpy(LABELS[batch])).backward()
                with torch.no_grad():
                    for parameter in own.parameters():
                        parameter -= solver.lr * parameter.grad
        ends.append(torch.cat([parameter.detach().reshape(-1) for parameter in own.parameters()]))
    return torch.stack(ends).mean(dim=0)


def one_round(p: NeuralProblem, solver: SGD, seed: int, **options):
    method = algorithms.FedAvg("cohort")
    return simulate(p, method, 1, p.initial(), local_solver=solver, seed=seed, like=p.like_array(), **options).x[0]


class OfItsBatch(nn.Module):
    """A sample's output depends on the others of its batch, by no layer that says so."""

    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.how = nn.Linear(6, 5), nn.Linear(5, 3), how

    def forward(self, x):
        h = self.first(x)
        if self.how == "functional batch_norm":
            h = functional.batch_norm(h, None, None, training=True)
        elif self.how == "centred":
            h = h - h.mean(dim=0)
        elif self.how == "scaled":
            h = h / h.abs().max()
        return self.last(torch.relu(h))


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("how", ["functional batch_norm", "centred", "scaled"])
@pytest.mark.parametrize("last", ["as drawn", "zero"])
def test_what_depends_on_its_batch_is_never_padded(how, engine, last):
    """Beside plain torch, on clients of unequal sizes whose last batches are short."""
    module, solver = OfItsBatch(how), SGD(5, 0.1, epochs=2)
    if last == "zero":  # all outputs are equal at the start
        nn.init.zeros_(module.last.weight)
    p = NeuralProblem(module, INPUTS, LABELS, CLIENTS, dtype="float64", engine=engine)
    wanted = by_hand(module, functional.cross_entropy, solver, 7)
    np.testing.assert_allclose(one_round(p, solver, 7), wanted, rtol=0, atol=1e-13)
    with pytest.raises(MissingCapability, match="depends on its batch"):
        p.check_fisher("empirical")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounding_is_no_dependence(dtype):
    p = NeuralProblem(OfItsBatch("not"), INPUTS, LABELS, CLIENTS, dtype=dtype)
    assert not p.flat.depends_on_batch


class Chaotic(nn.Module):
    """The logistic map 25 times multiplies what rounding does to the product by some hundred thousand; ``shared``: by a mean, too."""

    def __init__(self, shared: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.shared = nn.Linear(200, 16), nn.Linear(16, 3), shared

    def forward(self, x):
        h = torch.sigmoid(self.first(x))
        for _ in range(25):
            h = 3.9 * h * (1 - h)
        return self.last(h) + (h.mean() if self.shared else 0)


@pytest.mark.parametrize("shared", [False, True])
def test_rounding_that_a_network_multiplies_is_no_dependence(shared):
    inputs = np.random.default_rng(0).standard_normal((len(LABELS), 200)).astype(np.float32)
    p = NeuralProblem(Chaotic(shared), inputs, LABELS, CLIENTS, dtype="float32")
    few = torch.as_tensor(inputs[:4])
    with torch.no_grad():
        alone, beside = Chaotic(False)(few[:1]), Chaotic(False)(few)[:1]
    assert (alone - beside).abs().max() > 1e-4 * beside.abs().max(), "rounding is large here"
    assert p.flat.depends_on_batch is shared


class Changing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(6, 3)

    def forward(self, x):
        x /= 2
        return self.last(x)


@pytest.mark.parametrize("module", [Changing(), nn.Sequential(nn.ReLU(inplace=True), nn.Linear(6, 3))], ids=["divided", "relu"])
def test_samples_that_a_module_changes_in_place_are_refused(module):
    inputs = INPUTS.astype(np.float32)
    with pytest.raises(MissingCapability, match=r"changes the samples it is given in place.*inplace=False"):
        NeuralProblem(module, inputs, LABELS, CLIENTS)
    np.testing.assert_array_equal(inputs, INPUTS.astype(np.float32))


class DropsWhereThereAreMany(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.drop, self.last, self.how = nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3), how

    def forward(self, x):
        h = torch.relu(self.first(x))
        if self.how == "layer" and len(x) > 5:
            h = self.drop(h)
        elif self.how == "layer of many" and len(x) > 45:
            h = self.drop(h)
        elif self.how == "function" and len(x) > 5:
            h = functional.dropout(h, 0.5)
        elif self.how == "noise" and len(x) > 40:
            h = h + torch.randn_like(h)
        return self.last(h)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
@pytest.mark.parametrize("how", ["layer", "function", "layer of many"])
def test_dropout_in_some_batches_only_follows_from_keys(how, engine):
    found = []
    for seed in (1, 2):  # of torch's own numbers, on which nothing depends
        p = NeuralProblem(DropsWhereThereAreMany(how), INPUTS, LABELS, [np.arange(50)] * 3, dtype="float64", engine=engine)
        torch.manual_seed(seed)
        found.append((one_round(p, SGD(50, 0.1, epochs=2), 3), float(p.objective(p.initial()[None])[0])))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    plain = DropsWhereThereAreMany("never")
    assert found[0][1] == found[1][1]
    q = NeuralProblem(plain, INPUTS, LABELS, [np.arange(50)] * 3, dtype="float64", engine=engine)
    assert found[0][1] == pytest.approx(float(q.objective(q.initial()[None])[0]), rel=1e-12)  # measured without it
    assert np.abs(one_round(q, SGD(50, 0.1, epochs=2), 3) - found[0][0]).max() > 1e-3  # and trained with it


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_numbers_drawn_in_some_batches_only_are_refused_where_they_are_drawn(engine):
    p = NeuralProblem(DropsWhereThereAreMany("noise"), INPUTS, LABELS, [np.arange(50)] * 3, engine=engine)
    with pytest.raises(MissingCapability, match="draws at random"):
        one_round(p, SGD(50, 0.1, epochs=1), 3)


class SequenceFirst(nn.Module):
    """torch's default: the batch is the second axis."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.last = nn.TransformerEncoderLayer(6, 2, 8, 0.2, batch_first=False), nn.Linear(6, 3)

    def forward(self, x):
        return self.last(self.layer(x.transpose(0, 1)).mean(dim=0))


def test_masks_do_not_depend_on_who_else_takes_part():
    inputs = np.random.default_rng(0).normal(size=(50, 4, 6))
    p = NeuralProblem(SequenceFirst(), inputs, LABELS, CLIENTS, dtype="float64")
    settings = {"sampling": Uniform(1), "local_solver": SGD(20, 0.1, epochs=1), "like": p.like_array()}
    alone, beside = (simulate(p, algorithms.FedAvg(), 1, p.initial(), scenarios=count, **settings).final.x[0] for count in (1, 6))
    np.testing.assert_allclose(alone, beside, rtol=0, atol=1e-14)


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_a_class_without_weight_still_has_its_part_of_label_smoothing(engine):
    """torch divides by the weights of the labels, and smooths over all classes, of samples whose label has none, too."""
    weight, module, solver = torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64), OfItsBatch("not"), SGD(5, 0.1, epochs=2)
    p = NeuralProblem(
        module, INPUTS, LABELS, CLIENTS, nn.CrossEntropyLoss(weight=weight, label_smoothing=0.1), dtype="float64", engine=engine
    )
    wanted = by_hand(module, lambda o, t: functional.cross_entropy(o, t, weight, label_smoothing=0.1), solver, 5)
    np.testing.assert_allclose(one_round(p, solver, 5), wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("options", [{"max_norm": 1.0}, {"scale_grad_by_freq": True}, {"sparse": True}], ids=lambda o: next(iter(o)))
@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_embeddings_whose_gradient_is_another_one_are_refused(kind, options):
    module = nn.Sequential(kind(12, 5, **options), nn.Flatten(), nn.Linear(35 if kind is nn.Embedding else 5, 3))
    words = np.random.default_rng(0).integers(1, 12, (50, 7))
    with pytest.raises(MissingCapability, match=f"0 is a {kind.__name__} with {next(iter(options))}.*leave"):
        NeuralProblem(module, words, LABELS, CLIENTS)
