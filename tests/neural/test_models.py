"""The papers' networks: parameters counted by hand, shapes, seeds, and the printed table that tells which they were."""

import subprocess
import sys

import numpy as np
import pytest
from repository import ROOT

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from fedtheory.algorithms import FedAvg  # noqa: E402
from fedtheory.errors import InvalidInput, UnknownName  # noqa: E402
from fedtheory.local import SGD  # noqa: E402
from fedtheory.neural import NeuralProblem, data, models, trials  # noqa: E402
from fedtheory.participation.cohorts import Uniform  # noqa: E402
from fedtheory.simulation.simulate import simulate  # noqa: E402

STAGES = ((64, 64, 3), (256, 128, 4), (512, 256, 6), (1024, 512, 3))  # of ResNet-50: channels before, width, blocks
# layer by layer: a linear layer has (in + 1) out, a k x k convolution (in k k + 1) out, an LSTM layer 4 h (in + h + 2)
COUNTS = {
    ("logistic", 10): 785 * 10,
    ("mlp-200-100", 10): 785 * 200 + 201 * 100 + 101 * 10,
    ("mlp-200-200", 10): 785 * 200 + 201 * 200 + 201 * 10,
    ("mlp-100-100", 10): 785 * 100 + 101 * 100 + 101 * 10,
    ("cnn-394-192", 10): 76 * 64 + 1601 * 64 + 1601 * 394 + 395 * 192 + 193 * 10,
    ("cnn-384-192", 10): 76 * 64 + 1601 * 64 + 1601 * 384 + 385 * 192 + 193 * 10,
    ("cnn-384-192", 100): 76 * 64 + 1601 * 64 + 1601 * 384 + 385 * 192 + 193 * 100,
    ("char-lstm", 80): 80 * 8 + 400 * (8 + 100 + 2) + 400 * (100 + 100 + 2) + 101 * 80,
    # stem, three stages of six convolutions without bias, 19 norms with scale and shift, head
    ("resnet20", 10): 9 * (3 * 16 + 6 * 16**2 + 16 * 32 + 5 * 32**2 + 32 * 64 + 5 * 64**2)
    + 2 * (7 * 16 + 6 * 32 + 6 * 64)
    + 65 * 10,
    # stem; a stage of n blocks of width w after c channels: c w + (n - 1) 4 w w and n (9 + 4) w w, a projection 4 c w, the norms
    ("resnet50", 10): 49 * 64
    + sum(c * w + (n - 1) * 4 * w**2 + n * 13 * w**2 + 4 * c * w for c, w, n in STAGES)
    + 2 * (64 + sum(n * 6 * w + 4 * w for _, w, n in STAGES))
    + 2049 * 10,
    ("vgg11s", 100): 28 * 32 + 289 * 64 + 577 * 128 + 5 * 1153 * 128 + 2 * 129 * 128 + 129 * 100,
    ("emnist-cnn", 62): 26 * 32 + 801 * 64 + 3137 * 512 + 513 * 62,
    ("char-lstm-32", 80): 80 * 8 + 128 * (8 + 32 + 2) + 33 * 80,
    ("cnn-8-16", 10): 26 * 8 + 201 * 16 + 65 * 32 + 33 * 10,
}
PUBLISHED = {  # as the literature gives them
    ("mlp-200-200", 10): 199_210,  # McMahan et al.
    ("resnet20", 10): 269_722,  # He et al.: 0.27 million
    ("vgg11s", 10): 865_482,  # Sattler et al.
    ("emnist-cnn", 10): 1_663_370,  # McMahan et al.
}


def count(name, classes):
    return sum(p.numel() for p in models.get(name).build(num_classes=classes).parameters())


@pytest.mark.parametrize(("key", "expected"), [*COUNTS.items(), *PUBLISHED.items()])
def test_parameter_counts(key, expected):
    assert count(*key) == expected


def test_resnet50_has_the_published_number_of_parameters():
    """25,557,032 on ImageNet, as torchvision's: GroupNorm has as many as BatchNorm."""
    module = models.get("resnet50").build((3, 224, 224), 1000)
    assert sum(p.numel() for p in module.parameters()) == 25_557_032


def test_every_model_is_counted():
    assert {name for name, _ in COUNTS} == set(models.names())


# FedElasticNet, Table 2, FedProx and FedDyn columns: (data, rounds, clients) and the nonzeros sent in units of 10^7, as printed
TABLE_2 = {
    ("mnist", 100, 100): ("20.3", "mlp-200-200", 10),
    ("emnist-l", 200, 100): ("18.4", "mlp-100-100", 10),
    ("cifar10", 200, 100): ("163.82", "cnn-384-192", 10),
    ("cifar100", 500, 100): ("413.37", "cnn-384-192", 100),
    ("shakespeare, non-iid", 100, 100): ("13.61", "char-lstm", 80),
    ("shakespeare, iid", 100, 11): ("1.99", "char-lstm", 80),  # the paper says 100 clients; only 11 give the number
}


def uploads(rounds, clients=100, seed=0):
    """Models sent by FedDyn's public code: every client with probability 0.1, the generator seeded with the round."""
    total = 0
    for r in range(rounds):
        cohort, again = 0, 0
        while cohort == 0:
            state = np.random.RandomState(r + seed + again)
            cohort, again = int((state.uniform(size=clients) <= 0.1).sum()), again + 1
        total += cohort
    return total


def printed_as(sent, text):
    return f"{sent / 1e7:.{len(text.partition('.')[2])}f}" == text


@pytest.mark.parametrize(("row", "entry"), TABLE_2.items())
def test_the_printed_nonzeros_are_those_of_these_networks(row, entry):
    """Dense models sent = uploads x parameters, to the last printed digit, with no free number."""
    text, name, classes = entry
    assert printed_as(uploads(*row[1:]) * count(name, classes), text)


@pytest.mark.parametrize(
    ("text", "name", "classes"),
    [
        ("20.3", "mlp-200-100", 10),
        ("18.4", "mlp-200-100", 10),
        ("163.82", "cnn-394-192", 10),
        ("413.37", "cnn-394-192", 100),
    ],
)
def test_the_networks_of_the_text_are_not_those_of_the_table(text, name, classes):
    """Either no whole number of uploads gives the printed number, or one that 10 % of 100 clients cannot be (over 4 sigma)."""
    rounds = {t: r for (_, r, _), (t, _, _) in TABLE_2.items()}[text]
    size = count(name, classes)
    near = range(int(float(text) * 1e7 / size) - 2, int(float(text) * 1e7 / size) + 3)
    fitting = [n for n in near if printed_as(n * size, text)]
    assert all(abs(n - 10 * rounds) > 4 * np.sqrt(9 * rounds) for n in fitting)


# --- shapes, seeds, training ----------------------------------------------------------------------
@pytest.mark.parametrize("name", models.names())
def test_outputs_gradients_and_seeds(name):
    model = models.get(name)
    state = torch.random.get_rng_state()
    module, same, other = model.build(seed=1), model.build(seed=1), model.build(seed=2)
    assert torch.equal(state, torch.random.get_rng_state())
    flat = [torch.cat([p.detach().ravel() for p in m.parameters()]) for m in (module, same, other)]
    assert torch.equal(flat[0], flat[1]) and not torch.equal(flat[0], flat[2])
    g = torch.Generator().manual_seed(0)
    x = (
        torch.randint(1, 80, (4, *model.input_shape), generator=g)
        if model.reads_text
        else torch.randn(4, *model.input_shape, generator=g)
    )
    y = torch.arange(4) % model.num_classes
    outputs = module(x)
    assert outputs.shape == (4, model.num_classes)
    nn.functional.cross_entropy(outputs, y).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() and p.grad.abs().sum() > 0 for p in module.parameters())
    trials.check_model(module, "cross_entropy", (x, y))


def test_resnet_shortcut_is_the_input_subsampled_and_padded():
    block = models.get("resnet20").build().blocks[3]
    with torch.no_grad():
        for p in block.parameters():
            p.zero_()
    x = torch.rand(2, 16, 8, 8)
    y = block(x)
    assert y.shape == (2, 32, 4, 4)
    torch.testing.assert_close(y[:, 8:24], x[:, :, ::2, ::2])
    assert y[:, :8].abs().sum() == y[:, 24:].abs().sum() == 0


def test_other_shapes_and_options():
    assert models.get("mlp-200-100").build((1, 8, 8), 3, hidden=(5,))(torch.zeros(2, 1, 8, 8)).shape == (2, 3)
    assert models.get("cnn-384-192").build((1, 28, 28))(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    assert models.get("emnist-cnn").build((1, 9, 11), 4)(torch.zeros(2, 1, 9, 11)).shape == (2, 4)
    assert models.get("char-lstm").build(hidden=7)(torch.zeros(2, 13, dtype=torch.int64)).shape == (2, 80)


def test_what_cannot_be_built():
    with pytest.raises(UnknownName, match="did you mean 'resnet50' or 'resnet20'"):
        models.get("resnet")
    for name, arguments, message in (
        ("cnn-384-192", {"input_shape": (1, 8, 8)}, "at least 16 x 16 pixels"),
        ("resnet20", {"input_shape": (64,)}, "takes images"),
        ("resnet20", {"groups": 3}, "groups is 3"),
        ("resnet50", {"groups": 3}, "groups is 3"),
        ("resnet50", {"input_shape": (1, 8, 8)}, "at least 28 x 28 pixels"),
        ("logistic", {"num_classes": 0}, "integers >= 1"),
        ("logistic", {"hidden": (3,)}, "no option 'hidden'; it has: none"),
        ("logistic", {"seed": -1}, "seed is -1"),
    ):
        with pytest.raises(InvalidInput, match=message):
            models.get(name).build(**arguments)


def test_listing_models_needs_no_torch():
    code = "import sys; from fedtheory.neural import models; models.get(models.names()[0]); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


# --- what is refused ------------------------------------------------------------------------------
def test_losses_that_are_refused():
    module, sample = nn.Linear(2, 3), (torch.ones(4, 2), torch.zeros(4, dtype=torch.int64))
    with pytest.raises(InvalidInput, match=r"\(4, 3\): it must be a scalar"):
        trials.check_model(module, lambda out, y: out**2, sample)
    with pytest.raises(InvalidInput, match="does not require grad"):
        trials.check_model(module, lambda out, y: torch.tensor(1.0), sample)
    with pytest.raises(InvalidInput, match=r"Linear with the loss cross_entropy fails on a batch of inputs \(4, 5\)"):
        trials.check_model(module, "cross_entropy", (torch.ones(4, 5), sample[1]))
    with pytest.raises(UnknownName, match="loss"):
        trials.check_model(module, "hinge-ish", sample)
    trials.check_model(module, lambda out, y: out.mean(), sample)


# --- data, model and problem together -------------------------------------------------------------
def test_digits_are_learnt():
    digits = data.digits()
    part = data.federated(digits, "dirichlet", 10, alpha=0.6)
    module = models.get("mlp-200-100").build(digits.input_shape, digits.num_classes)
    test = (digits.inputs(digits.test_x), digits.test_y)
    problem = NeuralProblem(module, digits.inputs(digits.train_x), digits.train_y, part.indices, test=test)
    assert problem.dim == 65 * 200 + 201 * 100 + 101 * 10
    solver = SGD(20, 0.1, epochs=2)
    end = simulate(
        problem,
        FedAvg(),
        5,
        problem.initial(),
        Uniform(5),
        seed=0,
        local_solver=solver,
        like=problem.like_array(),
        record=(),
    )
    before, after = problem.evaluate(problem.initial()[None]), problem.evaluate(torch.as_tensor(end.x))
    assert 2.0 < before["test_loss"][0] < 2.8  # about log 10
    assert after["test_accuracy"][0] > 0.85


@pytest.mark.parametrize("name", ["cnn-384-192", "emnist-cnn", "resnet20", "vgg11s", "logistic"])
def test_batched_and_single_gradients_agree(name):
    model = models.get(name)
    small = {"cnn-384-192": (2, 16, 16), "emnist-cnn": (1, 8, 8), "resnet20": (3, 8, 8), "logistic": (1, 4, 4)}
    shape = small.get(name, model.input_shape)
    g = np.random.default_rng(0)
    x, y = g.normal(size=(6, *shape)), g.integers(3, size=6)
    found = []
    for engine in ("loop", "stacked"):
        problem = NeuralProblem(model.build(shape, 3), x, y, [range(3), range(3, 6)], engine=engine, dtype="float64")
        found.append(problem.full_gradient(problem.initial()[None]))
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-12)
