"""Samples, labels and losses that are not what a network takes: told in words, with the remedy, before any work."""

from __future__ import annotations

import warnings

import numpy as np
import pandas
import pytest

from fedtheory import algorithms, simulate
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import SGD

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.data import Dataset, Subset, TensorDataset  # noqa: E402

from fedtheory.neural import train  # noqa: E402
from fedtheory.neural.problem import NeuralProblem  # noqa: E402
from fedtheory.neural.torch_datasets import samples_of  # noqa: E402

N = 600
X = np.random.default_rng(0).normal(size=(N, 6)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 3, N)
CLIENTS = np.array_split(np.arange(N), 4)


class Items(Dataset):
    """Items by a function of their number."""

    def __init__(self, item, count: int = N) -> None:
        self.item, self.count = item, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i):
        return self.item(i)


class Named(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x, m=None):
        return self.layer(x)


def of(dataset, clients=CLIENTS, **options) -> NeuralProblem:
    options = {"target": "y", "progress": False, **options}
    return NeuralProblem.from_dataset(Named() if options["target"] else nn.Linear(6, 3), dataset, clients, **options)


# --- Datasets -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "other",
    [lambda i: {"x": X[i], "y": Y[i]}, lambda i: {"x": X[i], "m": X[i], "more": 1, "y": Y[i]}],
    ids=["missing", "extra"],
)
def test_items_with_other_entries_are_refused(other):
    def full(i):
        return {"x": X[i], "m": X[i], "y": Y[i]}

    for first in (0, 3, 256, 300):  # in the first piece that is read, on its edge, in the second
        with pytest.raises(InvalidInput, match="give all the same entries"):
            of(Items(lambda i, first=first: (full if i < first or (first == 0 and i) else other)(i)))
    with pytest.raises(InvalidInput, match=r"the entries 'm', .* or the entries '(m|x)', "):
        of([Items(full, 50), Items(other, 50)], None)
    with pytest.raises(InvalidInput, match="2 entries or 3 entries"):
        of([Items(lambda i: (X[i], X[i], Y[i]), 50), Items(lambda i: (X[i], Y[i]), 50)], None, target=None)


def test_items_with_lists_of_numbers_are_taken():
    """As a tokenizer returns them."""
    p = of(Items(lambda i: {"x": X[i].tolist(), "m": [1, 2, i], "y": int(Y[i])}))
    assert torch.equal(p.inputs.given["x"], torch.from_numpy(X)) and p.inputs.given["m"][7].tolist() == [1, 2, 7]
    with pytest.raises(RuntimeError, match="each tensor to be equal size"):
        of(Items(lambda i: {"x": X[i].tolist(), "m": [1] * (1 + i % 2), "y": int(Y[i])}))


def test_subsets_and_what_torch_draws_next():
    whole = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    torch.manual_seed(0)
    wanted = torch.rand(3)
    torch.manual_seed(0)
    found = samples_of(Subset(whole, [5, -1, 300]), progress=False)
    assert torch.equal(torch.rand(3), wanted)  # no number is taken for reading
    assert torch.equal(found[0], torch.from_numpy(X[[5, -1, 300]])) and found[1].tolist() == Y[[5, -1, 300]].tolist()


def test_the_loss_may_come_fourth():
    dataset = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    assert NeuralProblem.from_dataset(nn.Linear(6, 3), dataset, CLIENTS, "cross_entropy").num_clients == 4


# --- numbers --------------------------------------------------------------------------------------
@pytest.mark.parametrize("where", ["train", "test"])
@pytest.mark.parametrize("wrong", [12, -1])
def test_words_out_of_range_are_told_before_any_work(where, wrong):
    words = np.random.default_rng(0).integers(0, 12, (N, 7))
    module = nn.Sequential(nn.Embedding(12, 5), nn.Flatten(), nn.Linear(35, 3))
    tested = words.copy()
    (words if where == "train" else tested)[432, 3] = wrong
    name = "samples" if where == "train" else "test samples"
    with pytest.raises(InvalidInput, match=rf"fails on {name} .*432.*: IndexError: index out of range"):
        NeuralProblem(module, words, Y, CLIENTS, test=(tested, Y))


def test_categories_out_of_their_own_embeddings_range():
    """The largest number of all is no wrong one: each column has an embedding of its own."""

    class Categories(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Embedding(100, 3), nn.Embedding(4, 3)

        def forward(self, x):
            return self.first(x[:, 0]) + self.second(x[:, 1])

    rows = np.stack([np.arange(N) % 100, np.arange(N) % 4], axis=1)
    NeuralProblem(Categories(), rows, Y, CLIENTS)
    rows[301, 1] = 4
    with pytest.raises(InvalidInput, match=r"fails on samples .*301.*: IndexError"):
        NeuralProblem(Categories(), rows, Y, CLIENTS)


@pytest.mark.parametrize("loss", ["mean_squared_error", nn.MSELoss(), nn.HuberLoss(), lambda o, t: nn.functional.mse_loss(o, t)])
def test_test_targets_of_another_shape_are_told_before_any_work(loss):
    module, targets = nn.Linear(6, 2), X[:, :2]
    NeuralProblem(module, X, targets, CLIENTS, loss, test=(X, targets))
    with pytest.raises(InvalidInput, match=r"fails on test samples|targets \(b, 3\)"):
        NeuralProblem(module, X, targets, CLIENTS, loss, test=(X, X[:, :3]))


def test_test_targets_that_torch_would_broadcast():
    with pytest.raises(InvalidInput, match=r"outputs \(b, 1\) and targets \(b\)"):
        NeuralProblem(nn.Linear(6, 1), X, X[:, :1], CLIENTS, nn.MSELoss(), test=(X, X[:, 0]))


def test_a_test_set_without_samples():
    with pytest.raises(InvalidInput, match=r"test = .0, 0.: give one target a sample, at least one"):
        NeuralProblem(nn.Linear(6, 3), X, Y, CLIENTS, test=(X[:0], Y[:0]))


def test_arrays_that_say_more_than_numbers():
    with pytest.raises(InvalidInput, match="inputs is a masked array: fill what is masked"):
        NeuralProblem(nn.Linear(6, 3), np.ma.masked_where(np.arange(N * 6).reshape(N, 6) == 9, X), Y, CLIENTS)
    for odd, said in ((torch.from_numpy(X).to_sparse(), "Sparse"), (torch.empty(N, 6, device="meta"), "meta")):
        with pytest.raises((InvalidInput, NotImplementedError, RuntimeError), match=said):  # torch's own words
            NeuralProblem(nn.Linear(6, 3), odd, Y, CLIENTS)
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    assert torch.equal(NeuralProblem(nn.Linear(6, 3), frame, Y, CLIENTS).inputs, torch.from_numpy(X))
    frame["d"] = "word"
    with pytest.raises(InvalidInput, match=r"inputs cannot be taken \(can't convert np.ndarray of type"):
        NeuralProblem(nn.Linear(6, 3), frame, Y, CLIENTS)


def test_numpys_single_numbers_are_numbers():
    p = NeuralProblem(nn.Linear(6, 3), X, Y, CLIENTS, ridge=np.float32(0.5))
    solvers = [SGD(50, lr, epochs=1) for lr in (0.5, np.float32(0.5))]
    runs = [train(p, algorithms.FedAvg(), 1, solver=solver, record=["drift"], progress=False) for solver in solvers]
    np.testing.assert_array_equal(runs[0].x, runs[1].x)
    for wrong in (np.float32(-1), np.float32("nan"), True, "0.1"):
        with pytest.raises(InvalidInput):
            SGD(50, wrong, epochs=1)


def test_a_loss_with_parameters_is_refused():
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, outputs, labels):
            return self.scale * nn.functional.cross_entropy(outputs, labels)

    with pytest.raises(InvalidInput, match="depends on parameters that it holds itself"):
        NeuralProblem(nn.Linear(6, 3), X, Y, CLIENTS, Weighted())
    NeuralProblem(nn.Linear(6, 3), X, Y, CLIENTS, Weighted().requires_grad_(False))


def test_a_device_that_torch_was_not_built_for():
    if torch.backends.mps.is_available():
        pytest.skip("there is one")
    with pytest.raises(InvalidInput, match="'mps': use 'cpu' or 'cuda'"):
        NeuralProblem(nn.Linear(6, 3), X, Y, CLIENTS, device="mps")


# --- what is measured -----------------------------------------------------------------------------
class Annealed(nn.Linear):
    """A thousandth colder with every pass."""

    def forward(self, x):
        self.passes = getattr(self, "passes", 0) + 1
        return super().forward(x) * (1 + 1e-3 * self.passes)


def test_a_module_that_counts_its_passes_is_refused():
    with pytest.raises(MissingCapability, match="Annealed computes something else in every forward pass"):
        NeuralProblem(Annealed(6, 3), X, Y, CLIENTS)


def test_accuracy_is_of_labels():
    values = X[:, :1].copy()
    p = NeuralProblem(nn.Linear(6, 1), X, values, CLIENTS, nn.MSELoss(), test=(X, values))
    run = train(p, algorithms.FedAvg(), 1, solver=SGD(50, 0.1, epochs=1), progress=False)
    assert "test_loss" in run.metrics and "test_accuracy" not in run.metrics
    with pytest.raises(MissingCapability, match=r"test_accuracy is the share of labels.*metrics="):
        train(p, algorithms.FedAvg(), 1, record=["test_accuracy"], progress=False)
    assert repr(run).startswith("TrainingRun(1 rounds: test_loss ") and len(repr(run)) < 400


class SequenceFirst(nn.Linear):
    """Its outputs have the samples on the second axis."""

    def forward(self, x):
        return super().forward(x).transpose(0, 1)


def test_metrics_of_ones_own_need_a_row_for_each_sample():
    def loss(outputs, labels):
        return nn.functional.cross_entropy(outputs.transpose(0, 1), labels)

    p = NeuralProblem(SequenceFirst(6, 3), X, Y, CLIENTS, loss, test=(X, Y))
    with pytest.raises(InvalidInput, match="outputs of all 600 test samples, one row each, and none of what SequenceFirst returns"):
        train(p, algorithms.FedAvg(), 1, record=["drift"], metrics={"mine": lambda outputs, labels: 0.0}, progress=False)


@pytest.mark.parametrize("dtypes", [("float32", torch.float64), ("float64", torch.float32)], ids=lambda d: d[0])
def test_class_weights_come_to_the_modules_precision(dtypes):
    weight = torch.tensor([1.0, 2.0, 3.0], dtype=dtypes[1])
    loss = nn.CrossEntropyLoss(weight=weight)
    p = NeuralProblem(nn.Linear(6, 3), X, Y, CLIENTS, loss, dtype=dtypes[0])
    wanted = nn.functional.cross_entropy(p.flat.call(p.initial(), p.inputs[:150]), p.targets[:150], weight.to(p.dtype))
    assert float(p.client_value(p.initial().expand(4, 1, -1))[0, 0]) == pytest.approx(float(wanted), rel=1e-6)
    assert loss.weight.dtype == dtypes[1]  # the user's own is as it was


def test_a_network_that_other_processes_cannot_be_sent_is_told():
    rng = np.random.default_rng(0)
    clients = [np.arange(6), np.arange(6, 12)]
    own = (number for number in range(3))  # a generator stays in its process

    def loss(outputs, targets, _=own):
        return nn.functional.cross_entropy(outputs, targets)

    problem = NeuralProblem(nn.Linear(4, 3), rng.normal(size=(12, 4)), np.tile([0, 1, 2], 4), clients, loss)
    run = {"x0": problem.initial(), "local_solver": SGD(2, 0.1, epochs=1), "record": ("objective",), "like": problem.like_array()}
    with pytest.raises(InvalidInput, match=r"workers = 2: .* cannot be sent to other processes \(.*\): use workers=1"):
        simulate(problem, algorithms.FedAvg(), 1, scenarios=2, workers=2, **run)
    assert simulate(problem, algorithms.FedAvg(), 1, scenarios=2, **run).rounds == 1


@pytest.mark.parametrize(
    "loss", [lambda o, t: ((o - t) ** 2).mean(), lambda o, t: nn.functional.mse_loss(o, t)], ids=["by hand", "torch's"]
)
def test_a_loss_of_ones_own_that_takes_every_output_with_every_target_is_noticed(loss):
    """((o - t)^2).mean() of outputs (b, 1) and targets (b,) is a mean over b^2 pairs."""
    rng = np.random.default_rng(0)
    x, y, clients = rng.normal(size=(12, 4)), rng.normal(size=12), [np.arange(6), np.arange(6, 12)]
    with pytest.warns(UserWarning, match=r"takes every output with every target; give targets of the outputs' shape"):
        NeuralProblem(nn.Linear(4, 1), x, y, clients, loss=loss)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NeuralProblem(nn.Linear(4, 1), x, y[:, None], clients, loss=loss)
        NeuralProblem(nn.Linear(4, 1), x, y, clients, loss=lambda o, t: ((o.squeeze(-1) - t) ** 2).mean())
        NeuralProblem(nn.Sequential(nn.Linear(4, 1), nn.Flatten(0)), x, y, clients, loss=loss)
