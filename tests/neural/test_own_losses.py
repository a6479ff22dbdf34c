"""Losses and modules that other people write: what a loss holds, sums, parts that are no tensors, layers that vmap has no rule for."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest

from fedtheory import algorithms, local, neural
from fedtheory.errors import InvalidInput

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from fedtheory.neural.engines.base import Batch  # noqa: E402
from fedtheory.neural.problem import NeuralProblem  # noqa: E402

RNG = np.random.default_rng(0)
ROWS, IMAGES, LABELS = RNG.normal(size=(30, 5)), RNG.normal(size=(30, 3, 8, 8)), RNG.integers(0, 3, 30)
CLIENTS = [np.arange(0, 9), np.arange(9, 20), np.arange(20, 30)]


def linear(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Linear(5, 3)


def made(module, loss="cross_entropy", inputs=ROWS, targets=LABELS, **options) -> NeuralProblem:
    return NeuralProblem(module, inputs, targets, CLIENTS, loss, **{"dtype": "float64", **options})


def walked(p: NeuralProblem, batch: int = 4) -> np.ndarray:
    return neural.train(p, algorithms.FedAvg(), 2, None, local.SGD(batch, 0.1, epochs=2), record=["drift"], progress=False).x


# --- losses ---------------------------------------------------------------------------------------
def test_a_penalty_on_parameters_that_the_loss_holds_is_refused_and_one_that_forward_returns_is_none():
    net = linear()

    def held(outputs, targets):
        return functional.cross_entropy(outputs, targets) + 0.3 * sum(p.abs().sum() for p in net.parameters())

    with pytest.raises(InvalidInput, match=r"depends on parameters that it holds itself.*forward return.*requires_grad_\(False\)"):
        made(net, held)

    class Penalised(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = linear()

        def forward(self, x):
            return self.layer(x), sum(p.abs().sum() for p in self.layer.parameters())

    def given(outputs, targets):
        return functional.cross_entropy(outputs[0], targets) + 0.3 * outputs[1]

    for engine in ("stacked", "loop"):
        p = made(Penalised(), given, engine=engine)
        wanted = torch.cat([g.reshape(-1) for g in torch.autograd.grad(
            held(net.double()(torch.tensor(ROWS[CLIENTS[0]])), torch.tensor(LABELS[CLIENTS[0]])), list(net.parameters())
        )])  # fmt: skip
        found = p.client_gradient(p.initial().expand(3, 1, -1))[0, 0]
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-14)
    teacher = linear(1).requires_grad_(False)
    made(linear(), lambda o, t: functional.cross_entropy(o, t) + (o - teacher.weight.sum()).square().mean())  # constants are none


@pytest.mark.parametrize(
    "loss",
    [functools.partial(functional.cross_entropy, reduction="sum"), nn.CrossEntropyLoss(reduction="sum")],
    ids=["partial", "module"],
)
def test_sums_by_torchs_option_are_refused(loss):
    with pytest.raises(InvalidInput, match=r"reduction='sum': it must be the mean"):
        made(linear(), loss)


def test_sums_of_ones_own_are_noticed():
    with pytest.warns(UserWarning, match=r"every sample twice: a sum, and it must be the mean"):
        made(linear(), lambda o, t: functional.cross_entropy(o, t, reduction="sum"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(linear(), lambda o, t: functional.cross_entropy(o, t) + o.square().mean())
        made(linear(), lambda o, t: 0 * o.sum() + o.std())  # of the batch, and no mean either


@pytest.mark.parametrize(
    "module, targets, loss, remedy",
    [
        (nn.Linear(5, 1), LABELS[:, None], nn.BCEWithLogitsLoss(), r"targets are whole numbers.*astype\('float32'\)"),
        (nn.Sequential(nn.Linear(5, 1), nn.Sigmoid()), LABELS / 2, nn.BCELoss(), r"targets\[:, None\]"),
        (nn.Linear(5, 3), LABELS, lambda o, t: functional.cross_entropy(o, t, torch.ones(3)), r"weight\.to\(outputs\)"),
        (
            nn.Sequential(nn.Linear(5, 9), nn.ReLU(), nn.Dropout(0.4, inplace=True), nn.Linear(9, 3)), LABELS, "cross_entropy",
            r"backward pass of Sequential.*give nn\.Dropout, and activations, inplace=False",
        ),
    ],
    ids=["whole numbers", "shapes", "dtypes", "in place"],
)  # fmt: skip
def test_what_torch_refuses_comes_with_a_remedy(module, targets, loss, remedy):
    with pytest.raises(InvalidInput, match=remedy):
        made(module, loss, targets=targets)


@pytest.mark.parametrize("loss", ["cross_entropy", nn.CrossEntropyLoss()], ids=["name", "module"])
@pytest.mark.parametrize("soft", [np.eye(3)[LABELS], 0.7 * np.eye(3)[LABELS] + 0.1], ids=["one-hot", "soft"])
def test_probabilities_as_targets_train_a_chain_on_small_batches_as_the_loop_does(loss, soft):
    start = linear()
    ends = [walked(made(start, loss, targets=soft, engine=engine)) for engine in ("auto", "loop")]
    moved = ends[0][0] - np.concatenate([p.detach().double().ravel() for p in start.parameters()])
    assert np.abs(moved).max() > 1e-2
    np.testing.assert_allclose(*ends, rtol=1e-12, atol=1e-14)
    if soft.max() == 1:  # one-hot rows are labels
        np.testing.assert_allclose(ends[0], walked(made(start)), rtol=1e-12, atol=1e-14)


def test_labels_that_are_ignored_in_sequences_keep_double_precision():
    class Each(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = linear()

        def forward(self, x):
            return self.layer(x).transpose(1, 2)

    inputs, targets = RNG.normal(size=(30, 7, 5)), RNG.integers(0, 3, (30, 7))
    targets[RNG.random(targets.shape) < 0.3] = -100
    p = NeuralProblem(Each(), inputs, targets, [np.arange(30)], nn.CrossEntropyLoss(), dtype="float64")
    wanted = functional.cross_entropy(Each().double()(torch.tensor(inputs)), torch.tensor(targets)).item()
    assert abs(float(p.objective(p.initial()[None])[0]) - wanted) < 1e-14


# --- modules --------------------------------------------------------------------------------------
class Branching(nn.Module):
    def __init__(self, seed: int):
        super().__init__()
        torch.manual_seed(seed)
        self.first, self.last = nn.Linear(5, 4), nn.Linear(4, 3)

    def forward(self, x):
        h = self.first(x)
        return self.last((h * 2 if h.mean() > 0 else h).relu())


@pytest.mark.filterwarnings("ignore:the clients' models are trained one after another")
@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_a_branch_on_the_batch_is_taken_as_by_each_client_alone(seed, noticed):
    """No padded sample has a part in the branch, noticed in the trial of the module or not."""
    p = made(Branching(seed))
    assert p.engine.name == "loop"
    p.flat.depends_on_batch = noticed
    alone = []
    for held in CLIENTS:  # of one client, no batch is padded for another's sake
        module = Branching(seed).double()
        for first in range(0, len(held), 4):
            part = held[first : first + 4]
            value = functional.cross_entropy(module(torch.tensor(ROWS[part])), torch.tensor(LABELS[part]))
            gradients = torch.autograd.grad(value, list(module.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(module.parameters(), gradients, strict=True):
                    parameter -= 0.1 * gradient
        alone.append(torch.cat([q.detach().reshape(-1) for q in module.parameters()]).numpy())
    samples, weights = np.zeros((3, 3, 4), dtype=np.int64), np.zeros((3, 3, 4))
    for k, held in enumerate(CLIENTS):
        for j in range(3):
            part = held[4 * j : 4 * j + 4]
            samples[k, j, : len(part)], weights[k, j, : len(part)] = part, 1 / len(part)
    y = p.initial().expand(3, -1).clone()
    for j in range(3):
        chosen = torch.from_numpy(samples[:, j])
        counts = (weights[:, j] > 0).sum(axis=1)
        batch = Batch(p.inputs[chosen], p.targets[chosen], torch.from_numpy(weights[:, j]), counts=counts)
        y -= 0.1 * p.engine.gradient(y, batch)
    np.testing.assert_allclose(y.numpy(), np.stack(alone), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("engine", ["stacked", "loop"])
def test_a_loss_that_branches_on_targets_of_several_parts(engine):
    def loss(outputs, targets):
        answer = functional.cross_entropy(outputs, targets["label"])
        return answer if float(targets["share"].max()) < 2 else 2 * answer

    targets = {"label": LABELS, "share": RNG.random(30)}
    p, plain = made(linear(), loss, targets=targets, engine=engine), made(linear())
    np.testing.assert_allclose(walked(p), walked(plain), rtol=1e-10, atol=1e-12)


class Answering(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = linear()

    def forward(self, x):
        return {"logits": self.layer(x), "loss": None}


class Answer:
    def __init__(self, logits):
        self.logits = logits


class AnsweringWithAnObject(Answering):
    def forward(self, x):
        return Answer(self.layer(x))


def test_outputs_with_parts_that_are_no_tensors_are_stacked():
    def loss(outputs, targets):
        assert outputs["loss"] is None
        return functional.cross_entropy(outputs["logits"], targets)

    def branching(outputs, targets):  # row by row
        value = loss(outputs, targets)
        return 2 * value if value.item() > 1e9 else value

    p = made(Answering(), loss)
    assert p.engine.name == "stacked"
    found = [walked(q) for q in (p, made(Answering(), branching), made(Answering(), loss, engine="loop"), made(linear()))]
    for other in found[1:]:
        np.testing.assert_allclose(found[0], other, rtol=1e-12, atol=1e-14)
    with pytest.warns(UserWarning, match=r"forward returns a Answer, and only tensors in dicts, tuples or lists"):
        made(AnsweringWithAnObject(), lambda o, t: functional.cross_entropy(o.logits, t))


@pytest.mark.parametrize("size", [1, (1, 1)])
def test_the_mean_of_an_image_is_stacked(size):
    def network():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(size), nn.Flatten(), nn.Linear(4, 3))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p = made(network(), inputs=IMAGES)
    assert p.engine.name == "stacked"
    np.testing.assert_allclose(walked(p), walked(made(network(), inputs=IMAGES, engine="loop")), rtol=1e-12, atol=1e-14)


class Functions(nn.Module):
    def __init__(self, last):
        super().__init__()
        self.first, self.second, self.linear = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 2), nn.Linear(4, 3)
        self.last = last

    def forward(self, x):
        return self.linear(self.last(self.second(self.first(x).relu())).flatten(1))


@pytest.mark.parametrize(
    "last",
    [
        lambda x: functional.adaptive_avg_pool2d(x, 1),
        lambda x: functional.adaptive_avg_pool1d(x.flatten(2), 1),
        lambda x: functional.group_norm(x, 2).square().mean(dim=(2, 3)),
    ],
)
@pytest.mark.parametrize("autocast", [None, "bfloat16"])
def test_functions_that_vmap_takes_in_the_usual_layout_only_are_stacked(last, autocast):
    def network():
        torch.manual_seed(0)
        return Functions(last)

    kind = {} if autocast is None else {"autocast": autocast, "dtype": "float32"}
    fallback = torch._C._functorch._is_vmap_fallback_enabled()
    torch._C._functorch._set_vmap_fallback_enabled(False)  # one model after another would raise
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            p = made(network(), inputs=IMAGES, **kind)
            found = walked(p)
    finally:
        torch._C._functorch._set_vmap_fallback_enabled(fallback)
    assert p.engine.name == "stacked"
    loop = made(network(), inputs=IMAGES, engine="loop", **kind)
    rtol, atol = (1e-12, 1e-14) if autocast is None else (0.0, 2e-3)
    np.testing.assert_allclose(found, walked(loop), rtol=rtol, atol=atol)


def test_layers_that_vmap_takes_one_model_after_another_for_are_left_to_the_loop():
    def network():
        torch.manual_seed(0)
        return nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(5, 4)), nn.ReLU(), nn.Linear(4, 3))

    with pytest.warns(UserWarning, match=r"one after another: Sequential.*vmap has no rule for aten::_weight_norm") as said:
        p = made(network())
    assert p.engine.name == "loop" and not any("GitHub" in str(w.message) for w in said)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(walked(p), walked(made(network(), engine="stacked")), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "width, between, engine", [(40, nn.Hardtanh, "stacked"), (800, nn.Hardtanh, "loop"), (800, nn.Tanh, "stacked")]
)
def test_the_arithmetic_of_a_sample_decides_about_the_engine(width, between, engine):
    """Half a million multiplications and additions, but for chains, which compiled steps walk."""
    network = nn.Sequential(nn.Linear(5, width), between(), nn.Linear(width, 400), between(), nn.Linear(400, 3))
    assert made(network).engine.name == engine
