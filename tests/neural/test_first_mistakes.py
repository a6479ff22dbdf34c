"""First mistakes with a network: each is told in words that name what is wrong and what to do."""

from __future__ import annotations

import re
import time
import warnings
from importlib import metadata

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


def mlp(drop: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Dropout(drop), nn.Linear(4, 3))


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
@pytest.mark.parametrize("engine", ["stacked", "loop"])
def test_a_loss_of_ones_own_that_fails_in_training_names_round_client_and_sample(engine):
    def modulo(outputs, targets):  # takes 0, 1, 2 and 4, and not 3, which is neither the least nor the largest
        return functional.cross_entropy(outputs, targets % 4)

    problem = made(loss=modulo, targets=with_one(with_one(LABELS, 17, 3), 0, 4), engine=engine)
    with pytest.raises(InvalidInput, match=r"round 1, client 1: the loss modulo fails on sample 17 \(its target is 3\)") as raised:
        trained(problem)
    assert "(labels of 3 outputs are 0 to 2); mend that sample, leave it out" in str(raised.value)
    assert isinstance(raised.value.__cause__, IndexError)
    with pytest.raises(InvalidInput, match=r"^the loss modulo fails on sample 17 \(its target is 3\)"):
        trained(problem, record=["objective"])


def test_a_loss_that_fails_on_a_test_sample_or_in_a_later_round_says_where():
    targets = with_one(LABELS, 17, 3)
    with pytest.raises(InvalidInput, match=r"the loss own fails on test sample 17 \(its target is 3\)"):
        trained(made(loss=own, test=(ROWS, targets)), record=["test_loss"])
    calls = []

    def tired(outputs, targets):
        calls.append(0)
        if len(calls) == 60:
            raise ValueError("too many calls")
        return own(outputs, targets)

    said = r"round \d+, (client|one of the clients) [0-2, ]+: the loss tired, or Sequential, fails: ValueError: too many calls"
    with pytest.raises(InvalidInput, match=said) as raised:
        trained(made(loss=tired, engine="loop"), rounds=30)
    assert re.match(r"round (\d+)", str(raised.value))[1] != "1" and isinstance(raised.value.__cause__, ValueError)


def test_a_module_that_fails_on_one_sample_is_told_from_the_loss():
    class Picky(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 3)

        def forward(self, x):
            if bool((x > 50).any()):
                raise RuntimeError("too large")
            return self.layer(x)

    said = r"round 1, client 2: Picky fails on sample 25 \(its target is \d\): RuntimeError: too large"
    with pytest.raises(InvalidInput, match=said):
        trained(made(Picky(), inputs=with_one(ROWS, 25, 99.0), engine="loop"))


def test_a_label_out_of_range_names_its_sample():
    with pytest.raises(InvalidInput, match="targets: a label is 3, and the module has 3 outputs: use 0 to 2; it is that of sample 17"):
        made(targets=with_one(LABELS, 17, 3))
    with pytest.raises(InvalidInput, match="test: a label is -1, and the module has 3 outputs: use 0 to 2; it is that of sample 4"):
        made(test=(ROWS, with_one(LABELS, 4, -1)))
    soft = np.eye(3)[LABELS]
    with pytest.raises(InvalidInput, match="targets: a label is 3, and"):  # which compiled steps would read memory by
        made(targets=with_one(LABELS, 17, 3), test=(ROWS, soft))
    with pytest.raises(InvalidInput, match="test: a label is 3, and"):
        made(targets=soft, test=(ROWS, with_one(LABELS, 17, 3)))
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
    ("form", "loss", "said"),
    [
        (lambda o: (o, o.mean()), "cross_entropy", "a tuple of 2 tensors: .*lambda o, t: F.cross_entropy(o[0], t)"),
        (lambda o: (None, o), nn.CrossEntropyLoss(), "a tuple of 2 entries: .*lambda o, t: F.cross_entropy(o[1], t)"),
        (lambda o: {"loss": None, "logits": o}, own, "a dict of 'loss', 'logits': .*lambda o, t: F.cross_entropy(o['logits'], t)"),
        (lambda o: [o[:, 0]], nn.L1Loss(), "a list of 1 tensor: .*lambda o, t: F.l1_loss(o[0], t)"),
        (lambda o: [o[:, 0]], "squared_error", "a list of 1 tensor: .*lambda o, t: F.mse_loss(o[0], t)"),
    ],
)
def test_outputs_that_are_no_tensor_are_said_to_need_a_loss_of_ones_own(form, loss, said):
    with pytest.raises(InvalidInput, match="the module returns " + re.escape(said).replace(r"\.\*", ".*")):
        made(Returning(form), loss)


def test_a_module_that_returns_nothing_is_told_so_and_an_own_loss_fails_for_its_own_reasons():
    with pytest.raises(InvalidInput, match="Returning returns None: let forward return"):
        made(Returning(lambda o: None))
    with pytest.raises(InvalidInput, match=r"ZeroDivisionError: [a-z ]+ by zero$"):
        made(Returning(lambda o: (o, o)), lambda o, t: o[0].mean() / (1 // 0))


def test_samples_of_a_shape_that_the_module_does_not_take_are_told_in_the_users_own_numbers():
    convolution = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(72, 3))
    with pytest.raises(InvalidInput, match=r"inputs \(30, 64\).*called with batches inputs\[:b\].*inputs.reshape\(n, \.\.\.\)"):
        made(convolution, inputs=RNG.normal(size=(30, 64)))


def test_inputs_and_targets_that_are_swapped_are_said_to_be():
    with pytest.raises(InvalidInput, match=r"inputs and targets look swapped.*NeuralProblem"):
        made(inputs=LABELS, targets=ROWS)
    with pytest.raises(InvalidInput, match=r"test inputs \(30,\) torch.int64 and test targets \(30, 5\).* look swapped.*test=\(inputs"):
        made(test=(LABELS, ROWS))
    with pytest.raises(InvalidInput, match=r"inputs \(30, 4\)") as raised:  # another mistake
        made(inputs=ROWS[:, :4])
    assert "swapped" not in str(raised.value)


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
        (lambda: made(targets=np.eye(3)[LABELS], test=(ROWS, 0.7 * np.eye(3)[LABELS] + 0.1)), True),
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


def test_a_target_that_is_nan_is_named_where_the_loss_takes_it():
    problem = made(loss=lambda o, t: (o[:, 0] - t).square().mean(), targets=with_one(ROWS[:, 0], 13, np.nan))
    for record, where in (["objective"], "round 0"), (["drift"], "round 1 at client 1"):
        said = rf"^diverged in {where}: the loss <lambda> is nan on sample 13 \(its target is nan\) at the start already: clean or drop"
        with pytest.raises(Diverged, match=said) as raised:
            trained(problem, record=record)
        assert isinstance(raised.value.__cause__, Diverged)


@pytest.mark.parametrize(
    ("loss", "what"),
    [
        (lambda o, t: (o[:, 0] - 10).sqrt().mean(), "the loss <lambda> is nan"),
        (lambda o, t: (o[:, 0] * 0).abs().sqrt().mean(), "the gradient of the loss <lambda> is not finite"),
    ],
)
def test_a_loss_that_is_not_finite_at_the_start_blames_no_step(loss, what):
    with pytest.raises(Diverged, match=rf"{what} on sample 0 .*at the start already, before any step: let the loss") as raised:
        trained(made(loss=loss))
    assert "step size" not in str(raised.value) and raised.value.round_index == 1


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
    with pytest.raises(InvalidInput, match=r"inputs is a DataLoader.*from_dataset\(module, loader.dataset, clients\)"):
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
    with pytest.raises(InvalidInput, match=rf"the loss own fails on sample 17 \(its target is {label}\): RuntimeError"):
        neural.NeuralProblem(module, inputs, targets, clients, own, engine=engine)


def test_probabilities_of_other_columns_are_counted():
    inputs, targets = np.ones((6, 4), "float32"), np.full((6, 2), 0.5, "float32")
    with pytest.raises(InvalidInput, match="targets of 2 columns are probabilities, and the module has 3 outputs"):
        neural.NeuralProblem(nn.Linear(4, 3), inputs, targets, [range(6)], "cross_entropy")


def test_labels_are_looked_at_where_the_module_takes_so_few_samples_only():
    """One client with one sample: a batch norm fails on it, which is no matter of the loss."""
    inputs, targets = np.random.default_rng(0).normal(size=(40, 4)).astype("float32"), np.arange(40) % 3
    module = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5, track_running_stats=False), nn.Linear(5, 3))
    trials.check_labels(module, own, torch.from_numpy(inputs), torch.from_numpy(targets), [np.array([7])])
    with pytest.raises(InvalidInput, match="targets are floats, and labels are whole numbers"):
        neural.NeuralProblem(nn.Linear(4, 3), inputs, targets[:, None].astype("float32"), [range(40)], "cross_entropy")
