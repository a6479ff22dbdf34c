"""First mistakes with a network: each is told in words that name what is wrong and what to do."""

from __future__ import annotations

import re
import time
import warnings
from importlib import metadata
from types import SimpleNamespace

import numpy as np
import pytest

from fedtheory import algorithms, local, neural, simulate
from fedtheory.errors import Diverged, InvalidInput, MissingCapability

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from fedtheory.neural import NeuralProblem, sgd, trials  # noqa: E402
from fedtheory.neural.engines import compiled  # noqa: E402

RNG = np.random.default_rng(5)
ROWS, LABELS = RNG.normal(size=(30, 5)), RNG.integers(0, 3, 30)
CLIENTS = [np.arange(0, 9), np.arange(9, 20), np.arange(20, 30)]
SOLVER = local.SGD(4, 0.1, epochs=1)


def mlp(drop: float = 0.0, inplace: bool = False) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Dropout(drop, inplace), nn.Linear(4, 3))


def made(module=None, loss="cross_entropy", inputs=ROWS, targets=LABELS, **options) -> NeuralProblem:
    return NeuralProblem(mlp() if module is None else module, inputs, targets, CLIENTS, loss, **options)


def trained(problem, method=None, rounds=1, solver=SOLVER, **options):
    settings = {"record": ["drift"], "progress": False, **options}
    return neural.train(problem, method or algorithms.FedAvg(), rounds, None, solver, **settings)


def own(outputs, targets):
    return functional.cross_entropy(outputs, targets)


def with_one(values, at, value):
    changed = values.copy()
    changed[at] = value
    return changed


# --- parameters -----------------------------------------------------------------------------------
@pytest.mark.parametrize("drop", [0.0, 0.2])
def test_a_parameter_that_is_nan_is_named(drop):
    module = mlp(drop)
    with torch.no_grad():
        module[3].weight[1, 2] = float("nan")
    with pytest.raises(InvalidInput, match=r"parameter 3.weight is not finite in torch.float32.*reset_parameters"):
        made(module)


def test_a_parameter_beyond_single_precision_is_named_and_a_frozen_mask_of_infinities_is_none():
    module = mlp().double()
    with torch.no_grad():
        module[0].bias[0] = 1e300
    with pytest.raises(InvalidInput, match=r"parameter 0.bias is not finite in torch.float32"):
        made(module)

    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.mask = nn.Linear(5, 4), nn.Parameter(torch.tensor([0.0, 0, 0, -np.inf]), requires_grad=False)

        def forward(self, x):
            return self.layer(x) + self.mask

    made(Masked())


# --- losses that fail -----------------------------------------------------------------------------
def odd_for_three(outputs, targets):
    """Takes no batch with two values above 1.9, which no trial of few samples has."""
    if int((targets > 1.9).sum()) > 1:
        raise ValueError("two large targets")
    return functional.mse_loss(outputs[:, 0], targets)


LARGE = np.where(np.isin(np.arange(30), (13, 14)), 2.0, 0.1)


@pytest.mark.parametrize("engine", ["stacked", "loop"])
def test_a_loss_of_ones_own_that_fails_in_training_names_round_and_client(engine):
    problem = made(loss=odd_for_three, targets=LARGE, engine=engine)
    said = "Sequential with the loss odd_for_three fails"
    with pytest.raises(InvalidInput, match=rf"^round 1, client 1: {said}: ValueError: two large targets$") as raised:
        trained(problem, solver=local.SGD(11, 0.1, epochs=1))
    assert isinstance(raised.value.__cause__, ValueError)
    with pytest.raises(InvalidInput, match=rf"^{said} on the samples: ValueError: two large"):
        trained(problem, record=["objective"])
    tested = made(loss=odd_for_three, targets=LARGE, engine=engine, test=(ROWS, LARGE))
    with pytest.raises(InvalidInput, match=rf"^{said} on the test samples: ValueError: two large"):
        trained(tested, record=["test_loss"])


def test_a_loss_that_fails_in_a_later_round_says_where():
    calls = []

    def tired(outputs, targets):
        calls.append(0)
        if len(calls) == 60:
            raise ValueError("too many calls")
        return own(outputs, targets)

    said = r"round \d+, one of the clients 0, 1, 2: Sequential with the loss tired fails: ValueError: too many calls"
    with pytest.raises(InvalidInput, match=said) as raised:
        trained(made(loss=tired, engine="loop"), rounds=30)
    assert re.match(r"round (\d+)", str(raised.value))[1] != "1" and isinstance(raised.value.__cause__, ValueError)


def test_an_error_of_cuda_blames_no_client():
    """After one, everything on the device fails."""
    p, rows = made(loss=own), SimpleNamespace(clients=np.arange(3), valid=np.ones((3, 1), bool), round_index=4)
    error = RuntimeError("CUDA error: device-side assert triggered")
    p.client_value = lambda *_: 1 / 0
    told = trials.failed_in_a_round(p, error, p.initial().expand(3, 1, -1), rows)
    assert str(told).startswith("round 4, one of the clients 0, 1, 2: ")


def test_a_module_that_fails_on_one_sample_is_told():
    class Picky(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 3)

        def forward(self, x):
            if bool((x > 50).any()):
                raise RuntimeError("too large")
            return self.layer(x)

    with pytest.raises(InvalidInput, match=r"round 1, client 2: Picky with the loss own fails: RuntimeError: too large"):
        trained(made(Picky(), own, inputs=with_one(ROWS, 25, 99.0), engine="loop"))


def test_a_label_out_of_range_is_refused_before_any_work():
    soft = np.eye(3)[LABELS]
    for name, options, wrong in [
        ("samples", {"targets": with_one(LABELS, 17, 3)}, 3),
        ("test samples", {"test": (ROWS, with_one(LABELS, 4, -1))}, -1),
        ("samples", {"targets": with_one(LABELS, 17, 3), "test": (ROWS, soft)}, 3),  # which compiled steps would read memory by
        ("test samples", {"targets": soft, "test": (ROWS, with_one(LABELS, 17, 3))}, 3),
    ]:
        with pytest.raises(InvalidInput, match=rf"cross_entropy fails on {name} .*IndexError: Target {wrong} is out of bounds"):
            made(**options)
    hidden = with_one(with_one(LABELS, 17, -1), 3, -100)  # between a label that is ignored and those that count
    with pytest.raises(InvalidInput, match="Target -1 is out of bounds"):
        made(targets=hidden, loss=nn.CrossEntropyLoss())
    for targets, tested in (LABELS, soft), (soft, LABELS):
        assert np.isfinite(trained(made(targets=targets, test=(ROWS, tested)), record=["test_loss"]).metrics["test_loss"]).all()


# --- outputs and shapes ---------------------------------------------------------------------------
class Returning(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.layer, self.form = nn.Linear(5, 3), form

    def forward(self, x):
        return self.form(self.layer(x))


@pytest.mark.parametrize(
    ("module", "options", "said"),
    [
        (lambda: Returning(lambda o: (o, o.mean())), {}, "argument 'input' .* must be Tensor, not tuple"),
        (lambda: Returning(lambda o: None), {}, "argument 'input' .* must be Tensor, not NoneType"),
        (lambda: Returning(lambda o: [o[:, 0]]), {"loss": "squared_error"}, "'list' object has no attribute 'shape'"),
        (lambda: Returning(lambda o: (o, o)), {"loss": lambda o, t: o[0].mean() / (1 // 0)}, "ZeroDivisionError: .* by zero$"),
        (lambda: nn.Linear(7, 3), {}, r"a batch of inputs \(4, 5\) torch.float32 and targets \(4,\).*shapes cannot be multiplied"),
        (mlp, {"inputs": LABELS, "targets": ROWS}, r"batch of inputs \(4,\) torch.int64 and targets \(4, 5\)"),
        (mlp, {"inputs": (ROWS * 50).astype(np.uint8)}, "same dtype, but got Long and Float"),
        (lambda: nn.Embedding(12, 3), {"inputs": ROWS[:, 0]}, "'indices' to have one of the following scalar types: Long"),
        (mlp, {"targets": LABELS[:, None]}, "0D or 1D target tensor expected"),
        (mlp, {"targets": LABELS * 1.0, "loss": nn.CrossEntropyLoss()}, "expected target dtype to be Long or Byte, but got Float"),
        (mlp, {"targets": np.eye(3, dtype=int)[LABELS]}, "Expected floating point type for target with class probabilities"),
        (mlp, {"loss": lambda o, t: functional.cross_entropy(o, t, torch.ones(3).double())}, "expected scalar type Float"),
        (lambda: nn.Linear(5, 1), {"loss": nn.BCEWithLogitsLoss(), "targets": LABELS[:, None]}, "can't be cast to"),
        (lambda: nn.Linear(5, 1), {"loss": nn.BCEWithLogitsLoss(), "targets": LABELS / 2}, "Target size .* must be the same"),
        (mlp, {"loss": lambda o, t: torch.tensor(1.0)}, "the backward pass of Sequential with .*does not require grad"),
        (lambda: mlp(0.4, inplace=True), {}, "the backward pass of Sequential .*modified by an inplace operation"),
        (mlp, {"loss": 3}, "the loss int fails on a batch.*'int' object is not callable"),
        (mlp, {"loss": lambda outputs: outputs.sum()}, "TypeError: .*1 positional argument"),
        (mlp, {"loss": nn.MSELoss}, "the loss MSELoss fails on a batch of.*Boolean value of Tensor"),
        (mlp, {"test": (ROWS[:, :2], LABELS)}, r"fails on test samples 0, .*inputs \(\d+, 2\).*shapes cannot be multiplied"),
        (mlp, {"test": (ROWS, LABELS * 1.0)}, "fails on test samples 0, .*expected target dtype to be Long"),
        (mlp, {"test": (ROWS, ROWS), "loss": "squared_error", "targets": ROWS[:, :3]}, "fails on test samples 0, .*invalid for input"),
    ],
)
def test_what_module_and_loss_say_is_told_with_the_shapes(module, options, said):
    with pytest.raises(InvalidInput, match=said) as raised:
        made(module(), **options)
    assert raised.value.__cause__ is not None and f"{type(raised.value.__cause__).__name__}: " in str(raised.value)


# --- runs -----------------------------------------------------------------------------------------
TEST = (ROWS, LABELS)
NOT_MEASURED = r"^test accuracy is not measured: .*no labels of such outputs.*metrics=\{name: callable"


def absolute(outputs, targets):
    return (outputs[0] - targets).abs().mean()


def said_by(call) -> list[str]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        call()
    assert all(w.filename == __file__ for w in said)
    return [str(w.message) for w in said]


@pytest.mark.parametrize(
    ("problem", "classes"),
    [
        (lambda: made(Returning(lambda o: (o, o)), lambda o, t: own(o[0], t), test=TEST), True),
        (lambda: made(targets=np.eye(3)[LABELS], test=(ROWS, 0.7 * np.eye(3)[LABELS] + 0.1)), False),
        (lambda: made(loss="squared_error", targets=ROWS[:, :3], test=(ROWS, ROWS[:, :3])), False),
        (lambda: made(Returning(lambda o: (o, o)), absolute, targets=ROWS[:, :3], test=(ROWS, ROWS[:, :3])), False),
        (lambda: made(test=TEST), False),
    ],
    ids=["tuple", "soft", "regression", "regression in a tuple", "labels"],
)  # fmt: skip
def test_an_accuracy_that_is_left_out_is_told(problem, classes):
    problem = problem()
    said = said_by(lambda: trained(problem, record=None))
    assert [bool(re.search(NOT_MEASURED, s)) for s in said] == [True] * classes
    metrics = {"hits": lambda outputs, targets: 0.5}
    assert not said_by(lambda: trained(problem, record=None, metrics=metrics))  # what the sentence asks for


def test_an_exact_local_solver_is_refused_before_any_work():
    method, said = algorithms.FedDyn(0.1), r"a network has no exact local solver.*local.SGD\(batch_size, lr, epochs=\.\.\.\)"
    with pytest.raises(MissingCapability, match=said):
        trained(made(), method, solver=local.Exact(), on_round=lambda at: pytest.fail("worked"))
    with pytest.raises(MissingCapability, match=said):
        simulate(made(), method, 1, like=made().like_array())


@pytest.mark.parametrize(
    ("loss", "targets", "what"),
    [
        (lambda o, t: (o[:, 0] - t).square().mean(), with_one(ROWS[:, 0], 13, np.nan), "loss <lambda> is not finite at client 1"),
        (lambda o, t: (o[:, 0] - 10).sqrt().mean(), LABELS, "loss <lambda> is not finite at client 0"),
        (lambda o, t: (o[:, 0] * 0).abs().sqrt().mean(), LABELS, "gradient of the loss <lambda> is not finite at client 0"),
    ],
)
def test_a_loss_that_is_not_finite_at_the_start_blames_no_step(loss, targets, what):
    problem = made(loss=loss, targets=targets)
    for record, where in (["drift"], "round 1"), (["objective"], "round [01]"):
        with pytest.raises(Diverged, match=rf"^diverged in {where}.*: the {what} at the start already, before any") as raised:
            trained(problem, record=record)
        assert "step size" not in str(raised.value) and isinstance(raised.value.__cause__, Diverged)


def test_a_run_that_leaves_the_finite_numbers_by_its_steps_still_blames_them():
    with pytest.raises(Diverged, match="lower the step size"):
        trained(made(loss="squared_error", targets=ROWS[:, :3]), rounds=30, solver=local.SGD(4, 1e6, epochs=1))


def test_a_run_whose_loss_ends_above_its_start_says_so():
    problem, quick = made(test=TEST), local.SGD(4, 30.0, epochs=1)
    said = said_by(lambda: trained(problem, rounds=3, solver=quick, record=["test_loss"], evaluate_every=2))
    assert [bool(re.match(r"fedavg: It ends above where it began: test_loss is .* after round 3, and was", s)) for s in said] == [True]
    said = said_by(lambda: trained(problem, rounds=3, solver=quick, record=["objective", "test_loss"]))
    assert [bool(re.match(r"fedavg: It ends above where it began: objective is", s)) for s in said] == [True]
    assert not said_by(lambda: trained(problem, rounds=3, record=["objective"]))
    assert not said_by(lambda: trained(problem, rounds=3, solver=quick, record=["drift"]))


def test_a_data_loader_is_pointed_to_its_dataset():
    data = torch.utils.data.TensorDataset(torch.tensor(ROWS), torch.tensor(LABELS))
    with pytest.raises(InvalidInput, match=r"inputs is the DataLoader.*from_dataset.*loader.dataset"):
        made(inputs=torch.utils.data.DataLoader(data, 10))


# --- what the page says ---------------------------------------------------------------------------
@pytest.mark.parametrize(("image", "trains"), [(True, True), (False, False)])
def test_a_batch_of_one_is_refused_where_the_norm_refuses_it(image, trains):
    norm = nn.BatchNorm2d if image else nn.BatchNorm1d
    layers = [nn.Unflatten(1, (5, 1, 1)), nn.Upsample(scale_factor=2)] if image else []
    module = nn.Sequential(*layers, norm(5, track_running_stats=False), nn.Flatten(), nn.Linear(20 if image else 5, 3))
    clients = [np.arange(0, 9), np.arange(9, 30)]  # 9 = 4 + 4 + 1
    problem = NeuralProblem(module, ROWS, LABELS, clients)
    if trains:
        assert trained(problem).rounds == 1
    else:
        with pytest.raises(MissingCapability, match="client 0 has 9 samples, and batch_size = 4 leaves a batch of one"):
            trained(problem)


def test_a_bias_before_a_batch_norm_has_a_gradient_of_rounding_alone_and_without_it_the_engines_agree():
    def module(bias):
        torch.manual_seed(1)
        norm = nn.BatchNorm1d(4, track_running_stats=False)
        return nn.Sequential(nn.Linear(5, 4, bias=bias), norm, nn.Tanh(), nn.Linear(4, 3))

    problem = made(module(True), dtype="float64")
    gradient = problem.client_gradient(problem.initial().expand(3, 1, -1))[:, 0].abs()
    assert gradient[:, 20:24].max() < 1e-15 and torch.cat([gradient[:, :20], gradient[:, 24:]], dim=1).min() > 1e-6
    method, solver = algorithms.FedElasticNetDyn(1e-3, 0.1), local.SGD(50, 0.1, steps=3)
    ends = [trained(made(module(False), dtype="float64", engine=e), method, 3, solver).x for e in ("stacked", "loop")]
    np.testing.assert_allclose(*ends, rtol=1e-12, atol=1e-14)


# --- the wait for Numba ---------------------------------------------------------------------------
def test_the_wait_for_compiled_steps_is_told_and_is_no_part_of_the_rounds(monkeypatch, capsys):
    pytest.importorskip("numba")
    monkeypatch.setattr(compiled, "_COMPILED", set())
    monkeypatch.setattr("fedtheory.plain_progress.FIRST", 0.1)
    calls, walk_rows = [], sgd.walk_rows

    def slow_at_first(*given):
        calls.append(given[9])  # how many steps
        time.sleep(2.0 if len(calls) == 1 else 0.0)
        walk_rows(*given)

    problem, usual = made(), trained(made(engine="loop"), rounds=2)
    monkeypatch.setattr(sgd, "walk_rows", slow_at_first)
    run = trained(problem, rounds=2, progress=True)
    assert calls[0].tolist() == [1] and len(run.seconds) == 2 and sum(run.seconds) < 1.5
    said = capsys.readouterr().err
    assert re.match(r"compiling the steps of small networks, once: under way after \d+ seconds?\n", said)
    assert re.search(r"small networks, once: done in \d+ seconds\n$", said)
    np.testing.assert_allclose(run.x, usual.x, rtol=1e-5, atol=1e-6)
    again = trained(problem, rounds=2, progress=True)
    assert "compiling" not in capsys.readouterr().err
    np.testing.assert_array_equal(run.x, again.x)
    versions = run.provenance["parts"][0]["versions"]
    assert versions["numba"] == metadata.version("numba")


@pytest.mark.parametrize("engine", ["auto", "stacked", "loop"])
@pytest.mark.parametrize("label", [3, -1])
def test_a_label_that_an_own_loss_does_not_take_is_refused_before_any_work(engine, label):
    """One-hot vectors of many clients at once are zeros where a label is out of range."""
    rng = np.random.default_rng(0)
    inputs, targets = rng.normal(size=(40, 4)).astype("float32"), rng.integers(0, 3, 40)

    def own(outputs, target):
        return -(outputs.log_softmax(1) * functional.one_hot(target, 3)).sum(1).mean()

    clients = [range(20), range(20, 39)]  # the last sample is nobody's
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    targets[39] = 7
    neural.NeuralProblem(module, inputs, targets, clients, own, engine=engine)
    targets[17] = label
    with pytest.raises(InvalidInput, match=r"the loss own fails on samples 0, .*17.*RuntimeError: Class values must be"):
        neural.NeuralProblem(module, inputs, targets, clients, own, engine=engine)


def test_a_sample_of_each_of_many_labels_is_tried_but_no_more_than_a_hundred():
    labels = torch.arange(-1, 300).repeat_interleave(2)
    tried = trials._ends(torch.zeros(602, 2), labels, np.arange(602))
    assert len(tried) in (100, 101, 102) and {-1, 0, 298, 299} <= set(labels[tried].tolist())
    labels[5], labels[7] = 2**40, -(2**40)  # too many to be counted
    tried = trials._ends(torch.zeros(602, 2), labels.reshape(301, 2), np.arange(301))
    assert tried.tolist() == [0, 2, 3, 300]
    few = torch.tensor([[4, 0], [0, 1], [0, 0], [9, 0]], dtype=torch.uint8)
    assert set(few[trials._ends(torch.zeros(4, 2), few, np.array([1, 2]))].flatten().tolist()) == {0, 1}


def test_constants_that_a_loss_keeps_on_a_gpu_are_no_matter_of_its_labels():
    def own(outputs, targets):
        raise RuntimeError("Expected all tensors to be on the same device, but found at least two devices")

    sets = {"": (torch.zeros(4, 5), torch.zeros(4, dtype=torch.int64))}
    trials.check_ends(mlp(), own, sets, np.arange(4))
