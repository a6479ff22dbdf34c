"""A user's work around training: the trained module, own metrics, runs without a test set."""

from __future__ import annotations

import sys
import warnings
from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pytest

from fedtheory import Uniform, algorithms, simulate
from fedtheory.errors import Diverged, InvalidInput, MissingCapability
from fedtheory.local import SGD

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from training_runs import Cut, cut_after, go, make, same  # noqa: E402

from fedtheory.neural import NeuralProblem, train  # noqa: E402
from fedtheory.neural.training import RECORD  # noqa: E402

RNG = np.random.default_rng(3)
INPUTS, LABELS = RNG.normal(size=(40, 6)), RNG.integers(3, size=40)
CLIENTS = np.array_split(np.arange(40), 4)
SOLVER = SGD(5, 0.1, epochs=2)


class Odd(nn.Module):
    """Two layers that share their weights, frozen layers, frozen numbers of another precision, a buffer, a part in eval mode."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(6, 6).requires_grad_(False)
        self.scale = nn.Parameter(torch.full((6,), 1 / 3, dtype=torch.float64), requires_grad=False)
        self.register_buffer("shift", torch.full((6,), 0.1, dtype=torch.float64))
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6, bias=False)
        self.second.weight = self.first.weight
        self.dropout = nn.Dropout(0.5).eval()
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        x = self.backbone(x) * self.scale.to(x.dtype) + self.shift.to(x.dtype)
        return self.head(self.dropout(torch.tanh(self.second(torch.relu(self.first(x))))))


@pytest.fixture(scope="module")
def odd():
    torch.manual_seed(0)
    module = Odd()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    problem = NeuralProblem(module, INPUTS, LABELS, CLIENTS, test=(INPUTS, LABELS), dtype="float32")
    run = train(problem, algorithms.FedAvg(), 3, Uniform(2), SOLVER, progress=False)
    return module, before, problem, run


# --- the module -----------------------------------------------------------------------------------
def test_the_trained_module_computes_what_was_measured(odd):
    run = odd[3]
    module = run.module()
    with torch.no_grad():
        outputs = module(torch.tensor(INPUTS, dtype=torch.float32))
    assert float((outputs.argmax(1).numpy() == LABELS).mean()) == pytest.approx(run.metrics["test_accuracy"][3, 0], abs=1e-12)
    loss = float(nn.functional.cross_entropy(outputs, torch.tensor(LABELS)))
    assert loss == pytest.approx(run.metrics["test_loss"][3, 0], rel=1e-6) and loss < run.metrics["test_loss"][0, 0] - 1e-3
    trained = torch.cat([p.detach().reshape(-1) for p in module.parameters() if p.requires_grad])
    np.testing.assert_array_equal(trained.numpy(), run.x[0])


def test_what_was_not_trained_is_as_it_was_given(odd):
    given, before, run = odd[0], odd[1], odd[3]
    module = run.module()
    assert type(module) is Odd and module is not given
    for name in ("backbone.weight", "backbone.bias", "scale", "shift"):
        made = module.state_dict()[name]
        assert made.dtype == before[name].dtype and torch.equal(made, before[name])  # to the last bit of double precision
    for name, value in given.state_dict().items():
        assert torch.equal(value, before[name])  # nothing was trained in place
    assert module.second.weight is module.first.weight
    assert {n for n, p in module.named_parameters() if not p.requires_grad} == {"backbone.weight", "backbone.bias", "scale"}
    assert module.training and module.head.training and not module.dropout.training
    module.head.weight.data.zero_()
    assert run.module().head.weight.abs().sum() > 0  # each is a copy of its own


def test_a_module_later_changed_by_its_owner_is_given_back_as_it_was(odd):
    module = nn.Linear(6, 3).requires_grad_(False)
    module.weight.requires_grad_(True)
    problem = NeuralProblem(module.double(), INPUTS, LABELS, CLIENTS)
    bias = module.bias.clone()
    module.bias.data.add_(1.0)
    made = problem.module(np.arange(18.0))
    assert torch.equal(made.bias, bias) and made.weight.dtype == torch.float64
    np.testing.assert_array_equal(made.weight.detach(), np.arange(18.0).reshape(3, 6))


def test_device_and_dtype_are_chosen(odd):
    run = odd[3]
    assert {p.dtype for p in run.module(dtype="float64").parameters()} == {torch.float64}
    assert run.module(dtype=torch.bfloat16, device="cpu").head.weight.dtype == torch.bfloat16
    assert {p.dtype for p in run.module().parameters()} == {torch.float32, torch.float64}
    for dtype in ("float33", "int64", torch.int64, 5, "nn"):
        with pytest.raises(InvalidInput, match="use a floating-point dtype of torch"):
            run.module(dtype=dtype)
    with pytest.raises(InvalidInput, match="device = 'gpu'"):
        run.module(device="gpu")


def test_a_simulation_gives_the_module_of_a_point(odd):
    _, _, problem, run = odd
    options = {"local_solver": SOLVER, "like": problem.like_array()}
    found = simulate(problem, algorithms.FedAvg(), 3, problem.initial(), Uniform(2), **options)
    for one, other in zip(problem.module(found.x).parameters(), run.module().parameters(), strict=True):
        assert torch.equal(one, other)
    assert torch.equal(problem.module(found.final.x[0]).head.bias, run.module().head.bias)
    two = simulate(problem, algorithms.FedAvg(), 1, problem.initial(), scenarios=2, **options)
    d = problem.dim
    for x, words in ((two.x, rf"x = \(2, {d}\): give one point, \({d},\) or \(1, {d}\)"), (np.zeros(3), r"x = \(3,\)")):
        with pytest.raises(InvalidInput, match=words):
            problem.module(x)
    with pytest.raises(InvalidInput, match="x"):
        problem.module("best")


def test_a_run_that_went_on_or_diverged(tmp_path):
    problem, path = make(), tmp_path / "run.ckpt"
    first = go(problem, 2, checkpoint=path)
    again = go(problem, 2, checkpoint=path)  # which reads it
    for one, other in zip(first.module().parameters(), again.module().parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(Diverged) as caught:
        go(problem, 40, algorithms.FedAvg(), solver=SGD(20, 1e4, epochs=3), record=("test_accuracy",))
    with pytest.raises(InvalidInput, match="no trained module, because it diverged"):
        caught.value.measured.module()


# --- metrics of one's own -------------------------------------------------------------------------
def confusion(outputs, targets):
    return torch.bincount(targets * 10 + outputs.argmax(1), minlength=100).reshape(10, 10)


OWN = {"right": lambda o, t: (o.argmax(1) == t).double().mean(), "confusion": confusion, "per class": lambda o, t: o.mean(0).numpy()}


@pytest.fixture(scope="module")
def digits():
    return make()


def test_numbers_and_arrays_are_kept_of_every_evaluated_round(digits):
    plain, run = (go(digits, 5, evaluate_every=2, metrics=own) for own in (None, OWN))
    assert list(run.metrics) == [*plain.metrics, *OWN]
    for name in plain.metrics:
        np.testing.assert_array_equal(run.metrics[name], plain.metrics[name], err_msg=name)
    assert [run.metrics[name].shape for name in OWN] == [(6, 1), (6, 1, 10, 10), (6, 1, 10)]
    np.testing.assert_allclose(run.metrics["right"], run.metrics["test_accuracy"], rtol=1e-15)
    tables = run.metrics["confusion"][:, 0]
    assert np.isnan(tables[[1, 3]]).all()
    tested = digits.test[1].numpy()
    for t in (0, 2, 4, 5):
        np.testing.assert_array_equal(tables[t].sum(axis=1), np.bincount(tested, minlength=10))
        assert tables[t].trace() / len(tested) == pytest.approx(run.metrics["test_accuracy"][t, 0], abs=1e-12)
    assert tables[5].trace() > tables[0].trace()


def test_scikit_learn_and_measures_beside_other_records(digits):
    from sklearn.metrics import confusion_matrix, f1_score

    own = {
        "f1": lambda outputs, targets: f1_score(targets, outputs.argmax(1), average="macro"),
        "table": lambda outputs, targets: confusion_matrix(targets, outputs.argmax(1), labels=range(10)),
        "confusion": confusion,
    }
    run = go(digits, 2, record=("drift",), metrics=own)
    assert list(run.metrics) == ["drift", *own]
    np.testing.assert_array_equal(run.metrics["table"], run.metrics["confusion"])
    table = run.metrics["table"][2, 0]
    f1 = 2 * table.diagonal() / (table.sum(axis=0) + table.sum(axis=1))
    assert run.metrics["f1"][2, 0] == pytest.approx(f1.mean(), rel=1e-12)


def test_own_metrics_are_in_checkpoints(digits, tmp_path):
    path, whole = tmp_path / "run.ckpt", go(digits, 5, metrics=OWN)
    with pytest.raises(Cut):
        go(digits, 5, metrics=OWN, checkpoint=path, every=2, on_round=cut_after(3))
    seen = []
    same(go(digits, 5, metrics=OWN, checkpoint=path, on_round=lambda at: seen.append(at.metrics["confusion"].shape)), whole)
    assert seen == [(4, 1, 10, 10), (5, 1, 10, 10), (6, 1, 10, 10)]
    same(go(digits, 5, metrics=OWN, checkpoint=path), whole)
    from fedtheory.errors import CheckpointError

    with pytest.raises(CheckpointError, match="another run: metrics is"):
        go(digits, 5, checkpoint=path)


def test_tensorboard_gets_the_numbers(digits, tmp_path, monkeypatch):
    from fedtheory.neural.training_run import scalars

    told = []

    class Writer:
        def __init__(self, folder, purge_step):
            told.append((folder, purge_step))

        def add_scalar(self, name, value, t):
            told.append((name, value, t))

        def flush(self):
            told.append("written")

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=Writer))
    run = go(digits, 2, record=("drift",), metrics=OWN, on_round=scalars(tmp_path))
    rounds = [[*((name, run.metrics[name][t, 0], t) for name in ("drift", "right")), "written"] for t in (1, 2)]
    assert told == [(str(tmp_path), 1), *rounds[0], *rounds[1]]


Pair = namedtuple("Pair", "mean scale")


class Outputs(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.last, self.kind = nn.Linear(6, 2), kind

    def forward(self, x):
        mean, scale = self.last(x).unbind(1)
        return {"dict": {"mean": mean, "scale": scale.exp()}, "tuple": (mean, scale.exp()), "named": Pair(mean, scale.exp())}[self.kind]


@pytest.mark.parametrize("kind", ["dict", "tuple", "named"])
def test_outputs_come_as_the_module_returns_them(kind, monkeypatch):
    from fedtheory.neural import evaluation

    monkeypatch.setattr(evaluation, "_size", lambda *_: 7)
    pick = {"dict": lambda o: o["mean"], "tuple": lambda o: o[0], "named": lambda o: o.mean}[kind]
    problem = NeuralProblem(
        Outputs(kind), INPUTS, INPUTS[:, 0], CLIENTS, lambda o, t: (pick(o) - t).square().mean(), test=(INPUTS, INPUTS[:, 0])
    )
    own = {"mse": lambda o, t: ((pick(o) - t) ** 2).mean()}
    run = train(problem, algorithms.FedAvg(), 1, record=["test_loss"], metrics=own, progress=False)
    np.testing.assert_allclose(run.metrics["mse"], run.metrics["test_loss"], rtol=1e-6)


def test_a_metric_may_write_to_what_it_gets(digits):
    def spoil(outputs, targets):
        outputs.zero_(), targets.zero_()
        return 1

    before = digits.test[1].clone()
    run = go(digits, 1, metrics={"spoil": spoil, **OWN})
    assert torch.equal(digits.test[1], before)
    np.testing.assert_allclose(run.metrics["right"], run.metrics["test_accuracy"], rtol=1e-15)


def test_metrics_that_cannot_be_are_told_before_any_round(digits):
    started = []
    changing = iter([2, 2, 3])
    for own, words in (
        ([len], r"metrics = .*: give functions by name"),
        ({3: len}, "metrics = {3: .*: give functions by name"),
        ({"bits": len}, "metrics = 'bits': a metric that `record` takes has this name"),
        ({"f1": 0.5}, r"metrics = {'f1': 0.5}: give functions"),
        ({"f1": lambda o, t: "high"}, r"metrics\['f1'\] fails .*: it returns a str, and must return a number or an array"),
        ({"f1": lambda o, t: None}, "it returns a NoneType"),
        ({"f1": lambda o, t: {"macro": 1.0}}, "it returns a dict"),
        ({"f1": lambda o, t: [[1], [1, 2]]}, r"metrics\['f1'\] fails .*inhomogeneous shape"),
        ({"f1": lambda o, t: 1j}, "it returns a complex"),
        ({"f1": lambda o: 1.0}, r"metrics\['f1'\] fails on the test set, on the outputs, a Tensor \(\d+, 10\), and the targets.*Type"),
    ):
        with pytest.raises(InvalidInput, match=words):
            go(digits, 2, metrics=own, on_round=started.append)
    assert not started
    with pytest.raises(InvalidInput, match=r"metrics\['f1'\] of shape \(3,\), before = \(2,\): it must be the same"):
        go(digits, 3, metrics={"f1": lambda o, t: np.zeros(next(changing))})
    with pytest.raises(MissingCapability, match=r"metrics \['f1'\] need test samples"):
        go(make(test=False), 2, metrics={"f1": lambda o, t: 1.0})


# --- what the default measures --------------------------------------------------------------------
@pytest.mark.parametrize("method", [algorithms.FedMLS(1.0, 1.0, 3, 9.0, 1.0), algorithms.Subgradient(0.1)], ids=lambda m: m.name)
def test_the_default_leaves_out_local_models_where_there_are_none(method):
    problem = NeuralProblem(nn.Linear(6, 3), INPUTS, LABELS, CLIENTS, test=(INPUTS, LABELS))
    run = go(problem, 3, method, sampling=None)
    assert list(run.metrics) == [name for name in RECORD if name not in ("drift", "update_entropy")]
    with pytest.raises(MissingCapability, match="does not train local models, so there is no 'drift'"):
        go(problem, 3, method, sampling=None, record=("drift",))


def test_without_a_test_set_the_default_leaves_the_tests_out_and_says_so_once(digits):
    problem = make(test=False)
    with pytest.warns(UserWarning, match="no test set, so that test accuracy and loss are not measured") as told:
        run = go(problem, 2)
    assert len(told) == 1 and told[0].filename.endswith("training_runs.py")
    assert list(run.metrics) == [name for name in RECORD if name not in ("test_accuracy", "test_loss")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(go(problem, 1, record=("drift",)).metrics) == ["drift"]
        tested = go(digits, 2)
    assert list(tested.metrics) == list(RECORD)
    np.testing.assert_array_equal(tested.x, run.x)
