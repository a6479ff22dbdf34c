"""Torch's own losses, with their options, are computed sample by sample; a user's own in one graph: the numbers of the callables."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest

from fedtheory import Uniform, algorithms, simulate
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import SGD

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from fedtheory.neural import sgd as walking  # noqa: E402
from fedtheory.neural.engines.stacked import Stacked  # noqa: E402
from fedtheory.neural.losses import LOSSES  # noqa: E402
from fedtheory.neural.problem import NeuralProblem  # noqa: E402

RNG = np.random.default_rng(0)
INPUTS, LABELS, VALUES = RNG.normal(size=(40, 6)), RNG.integers(0, 3, 40), RNG.normal(size=(40, 3))
CLIENTS = np.split(RNG.permutation(40), [4, 11, 12, 30])
WEIGHT = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)


def problem(loss, targets=LABELS, module=None, **options):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)) if module is None else module
    return NeuralProblem(module, INPUTS, targets, CLIENTS, loss, 0.01, dtype="float64", **options)


def run(p):
    solver = SGD(4, 0.1, epochs=2)  # 7 samples in batches of 4: padded where all clients are trained at once
    more = dict(seed=1, local_solver=solver, like=p.like_array(), record=("objective",))
    found = simulate(p, algorithms.FedDyn(0.5), 3, p.initial(), Uniform(3), **more)
    return found.x, found.metrics["objective"]


def same(a, b):
    for left, right in zip(run(a), run(b), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-13)


def own(loss):
    """The same loss as a callable that nothing is known of."""
    return lambda outputs, targets: loss(outputs, targets)


def plain(loss, targets=LABELS, module=None, **options):
    """Model after model, and of the loss nothing but its value: what every faster way is compared with."""
    return problem(own(loss), targets, module, engine="loop", **options)


@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), functional.cross_entropy, nn.CrossEntropyLoss(ignore_index=7)])
def test_torchs_cross_entropy_is_the_one_by_name(loss):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p, named = problem(loss), problem("cross_entropy")
    assert (p.engine.name, p.engine.chain.widths, p.loss.name, p.loss.weighted) == ("stacked", (6, 5, 3), "cross_entropy", True)
    for a, b in zip(run(p), run(named), strict=True):
        np.testing.assert_array_equal(a, b)
    same(p, plain(loss))


@pytest.mark.parametrize("loss", [nn.MSELoss(), functional.mse_loss])
@pytest.mark.parametrize("engine", ["auto", "loop"])
def test_torchs_squared_error_is_twice_the_one_by_name(loss, engine):
    p = problem(loss, VALUES, engine=engine)
    assert (p.loss.name, p.loss.weighted) == ("mean_squared_error", True)
    same(p, plain(loss, VALUES))
    x = p.initial()
    ridge = 0.005 * float(x @ x)
    half = problem("squared_error", VALUES).objective(x) - ridge
    np.testing.assert_allclose(p.objective(x) - ridge, 2 * half, rtol=1e-13)


HALVES = np.where(VALUES > 0, 1.0, 0.0)
WITH_OPTIONS = {
    "weight": (nn.CrossEntropyLoss(weight=WEIGHT), LABELS, "CrossEntropyLoss(weight=[1.0, 2.0, 3.0])"),
    "smoothing": (nn.CrossEntropyLoss(label_smoothing=0.25), LABELS, "CrossEntropyLoss(label_smoothing=0.25)"),
    "ignored": (nn.CrossEntropyLoss(ignore_index=1), np.where(np.arange(40) == 11, 0, LABELS), "CrossEntropyLoss(ignore_index=1)"),
    "all three": (nn.CrossEntropyLoss(WEIGHT, ignore_index=1, label_smoothing=0.1), LABELS, "CrossEntropyLoss(ignore_index=1, "),
    "partial": (functools.partial(functional.cross_entropy, label_smoothing=0.25), LABELS, "CrossEntropyLoss(label_smoothing=0.25)"),
    "huber": (nn.HuberLoss(delta=0.3), VALUES, "HuberLoss(delta=0.3)"),
    "functional huber": (functional.huber_loss, VALUES, "HuberLoss"),
    "smooth l1": (nn.SmoothL1Loss(beta=0.2), VALUES, "SmoothL1Loss(beta=0.2)"),
    "logistic": (nn.BCEWithLogitsLoss(), HALVES, "BCEWithLogitsLoss"),
    "positive": (nn.BCEWithLogitsLoss(pos_weight=WEIGHT), HALVES, "BCEWithLogitsLoss(pos_weight=[1.0, 2.0, 3.0])"),
}
NOT_COMPILED = {
    "absolute": (nn.L1Loss(), VALUES, "L1Loss"),
    "margin": (nn.SoftMarginLoss(), 2 * HALVES - 1, "SoftMarginLoss"),
    "weighted logistic": (nn.BCEWithLogitsLoss(weight=WEIGHT), HALVES, "BCEWithLogitsLoss(weight=[1.0, 2.0, 3.0])"),
    "probabilities": (nn.CrossEntropyLoss(label_smoothing=0.2), np.abs(VALUES), "CrossEntropyLoss(label_smoothing=0.2)"),
}


@pytest.mark.parametrize("loss, targets, said", [*WITH_OPTIONS.values(), *NOT_COMPILED.values()], ids=[*WITH_OPTIONS, *NOT_COMPILED])
@pytest.mark.parametrize("compiled", [True, False])
def test_torchs_losses_with_options_are_taken_sample_by_sample(loss, targets, said, compiled, monkeypatch):
    """Padded batches too, in compiled steps and in batched products; what it is called tells runs with other options apart."""
    targets = np.array(targets)
    if targets.ndim == 1:
        targets[CLIENTS[2]] = 0  # a client of one sample, whose label counts
    if not compiled:
        monkeypatch.setattr("fedtheory.neural.engines.compiled.TAKEN", False)
    walked = []
    steps = walking.walk_rows
    monkeypatch.setattr(walking, "walk_rows", lambda *args: (walked.append(1), steps(*args)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p = problem(loss, targets)
    assert p.loss.weighted and p.loss.name.startswith(said) and p.engine.name == "stacked"
    same(p, plain(loss, targets))
    assert bool(walked) == (compiled and any(loss is entry[0] for entry in WITH_OPTIONS.values()))


@pytest.mark.parametrize("engine", ["auto", "loop"])
def test_a_class_of_weight_0_still_has_its_smoothing(engine):
    """In torch's mean, whose weights such samples are not in; the first two samples are none."""
    loss, labels = nn.CrossEntropyLoss(torch.tensor([0.0, 2.0, 3.0]).to(WEIGHT), label_smoothing=0.1), np.where(LABELS == 0, 1, LABELS)
    for held in CLIENTS[:2]:
        labels[held[3]] = 0
    p = problem(loss, labels, engine=engine)
    assert not p.loss.weighted
    same(p, plain(loss, labels))


class Squeezed(nn.Linear):
    """As regressions often end: a batch of one sample has lost its axis."""

    def forward(self, x):
        return super().forward(x).squeeze()


@pytest.mark.parametrize("engine", ["stacked", "loop"])
@pytest.mark.filterwarnings("ignore:Using a target size")  # torch's, of outputs () and targets (1,)
def test_outputs_that_squeeze_has_left_no_axis(engine, monkeypatch):
    torch.manual_seed(0)
    module, values = Squeezed(6, 1).double(), VALUES[:, 0]
    made = [NeuralProblem(module, INPUTS, values, CLIENTS, loss, dtype="float64", engine=engine, test=(INPUTS, values))
            for loss in ("mean_squared_error", lambda a, b: ((a - b) ** 2).mean())]  # fmt: skip
    points = [simulate(p, algorithms.FedAvg(), 1, p.initial(), local_solver=SGD(1, 0.1, epochs=1), like=p.like_array()).x for p in made]
    np.testing.assert_allclose(*points, rtol=0, atol=1e-13)
    monkeypatch.setattr("fedtheory.neural.evaluation.MOST", len(INPUTS) - 1)  # the last piece is one sample
    wanted = float(((module(torch.from_numpy(INPUTS)).detach() - torch.from_numpy(values)) ** 2).mean())
    assert float(made[0].evaluate(made[0].initial()[None])["test_loss"][0]) == pytest.approx(wanted, rel=1e-12)


class Doubled(nn.CrossEntropyLoss):
    def forward(self, outputs, targets):
        return 2 * super().forward(outputs, targets)


def hooked():
    loss = nn.CrossEntropyLoss()
    loss.register_forward_hook(lambda module, args, value: 2 * value)
    return loss


def replaced():
    loss = nn.CrossEntropyLoss()
    loss.forward = lambda outputs, targets: 2 * functional.cross_entropy(outputs, targets)
    return loss


def branching(outputs, targets):
    """A value is asked for, which vmap has none of."""
    value = functional.cross_entropy(outputs, targets)
    return 2 * value if float(value.detach()) > 1 else value


OTHERS = {
    "subclass": Doubled(),
    "hook": hooked(),
    "forward": replaced(),
    "lambda": lambda outputs, targets: 2 * functional.cross_entropy(outputs, targets),
    "branching": branching,
}


@pytest.mark.parametrize("loss", OTHERS.values(), ids=OTHERS)
def test_a_loss_of_ones_own_is_one_graph_over_the_clients(loss, monkeypatch):
    """The network is called once for all clients; batches cut short are computed apart, for no sample can be weighed away."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p = problem(loss)
    assert (p.engine.name, p.loss.weighted) == ("stacked", False)
    rows, computed = [], Stacked._losses

    def counted(self, leaves, *rest):
        rows.append(len(leaves["0.weight"]))
        return computed(self, leaves, *rest)

    monkeypatch.setattr(Stacked, "_losses", counted)
    same(p, plain(loss))
    assert max(rows) > 1
    assert np.abs(run(p)[0] - run(problem("cross_entropy"))[0]).max() > 1e-3


def test_an_ignored_label_is_ignored():
    """-100 is torch's mark of a sample without a label; by name it is refused."""
    labels = np.where(np.arange(40) % 5 == 0, -100, LABELS)
    labels[CLIENTS[2]] = 0  # a client of one sample
    same(problem(nn.CrossEntropyLoss(), labels), plain(nn.CrossEntropyLoss(), labels))
    with pytest.raises(InvalidInput, match="Target -100 is out of bounds"):
        problem("cross_entropy", labels)
    with pytest.raises(InvalidInput, match=r"fails on samples .*Target 7 is out of bounds"):
        problem(nn.CrossEntropyLoss(), np.where(np.arange(40) == 3, 7, labels))
    labels[CLIENTS[2]] = -100
    with pytest.raises(InvalidInput, match="client 2: all its labels are ignored"):
        problem(nn.CrossEntropyLoss(), labels)


def test_a_test_set_with_ignored_labels_counts():
    p = problem(nn.CrossEntropyLoss(), test=(INPUTS, np.full(40, -100)))
    assert p.loss.weighted and p.loss.labels == (1, -100)


class Classes(nn.Module):
    """Outputs (b, 3 classes, 3 places), as torch's loss has them."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 9)

    def forward(self, x):
        return self.linear(x).reshape(-1, 3, 3)


def test_the_classes_of_a_sequence_stay_on_torchs_axis():
    labels = RNG.integers(0, 3, (40, 3))
    loss, module = nn.CrossEntropyLoss(), Classes()
    p, other = problem(loss, labels, module), problem("cross_entropy", labels, module)
    same(p, plain(loss, labels, module))
    assert abs(float(p.objective(p.initial())) - float(other.objective(p.initial()))) > 1e-3


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("loss", [nn.MSELoss(), functional.mse_loss, nn.L1Loss(), nn.HuberLoss(), nn.SmoothL1Loss()])
def test_targets_that_torch_broadcasts_are_refused(loss):
    """Outputs (b, 1) and targets (b,): torch compares all pairs, and warns."""
    with pytest.raises(InvalidInput, match=r"of outputs \(b, 1\) and targets \(b\).*targets\[:, None\]"):
        problem(loss, VALUES[:, 0], nn.Linear(6, 1))
    problem(loss, VALUES[:, :1], nn.Linear(6, 1))


def test_numbers_for_outputs_are_taken():
    module = nn.Sequential(nn.Linear(6, 1), nn.Flatten(0))
    p = problem(nn.MSELoss(), VALUES[:, 0], module)
    assert p.loss.name == "mean_squared_error"
    same(p, plain(nn.MSELoss(), VALUES[:, 0], module))


def test_the_model_fisher_is_of_a_loss_that_is_known():
    def cross_entropy(outputs, targets):
        return 3 * functional.cross_entropy(outputs, targets)

    problem(nn.CrossEntropyLoss()).check_fisher("model")
    p = problem(cross_entropy)
    with pytest.raises(MissingCapability, match="model Fisher"):
        p.check_fisher("model")


def test_the_names_are_worked_out_by_hand():
    outputs, targets = torch.tensor([[1.0, 3.0], [0.0, 0.0]]), torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    np.testing.assert_allclose(LOSSES["mean_squared_error"](outputs, targets), [2.5, 2.0])
    np.testing.assert_allclose(LOSSES["squared_error"](outputs, targets), [1.25, 1.0])
