"""Dropout whose masks follow from keys."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fedtheory import Uniform, algorithms, errors, local, neural
from fedtheory.randomness import Stream

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from fedtheory.neural import dropout  # noqa: E402
from fedtheory.neural.training import configuration  # noqa: E402

RNG = np.random.default_rng(0)
COUNT = 200
ROWS, SEQUENCES, IMAGES = RNG.normal(size=(COUNT, 12)), RNG.normal(size=(COUNT, 5, 12)), RNG.normal(size=(COUNT, 2, 5, 5))
LABELS = ROWS[:, :3].argmax(axis=1)
CLIENTS = [np.arange(0, 43), np.arange(43, 70), np.arange(70, 110), np.arange(110, 150)]


# --- the hash -------------------------------------------------------------------------------------
def test_the_hash_is_splitmix64():
    """Its first outputs from the seed 1234567, as published with its reference code."""
    seed = torch.tensor(1234567) + dropout.GOLDEN * torch.arange(1, 4)
    assert [v % 2**64 for v in dropout._mixed(seed).tolist()] == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 1, 4)])
def test_compiled_masks_are_those_of_torch(shape, monkeypatch):
    keys = torch.tensor([0, 5, 2**62 + 9, 2**63 - 1])
    found = {}
    for compiled in (True, False):
        monkeypatch.setattr(dropout, "COMPILED", compiled)
        one_by_one = [dropout.factors(key, 2, shape, 0.4, torch.float32) != 0 for key in keys]
        found[compiled] = torch.func.vmap(lambda key: dropout.factors(key, 2, shape, 0.4, torch.float32) != 0)(keys)
        assert torch.equal(found[compiled], torch.stack(one_by_one)) and found[compiled].shape == (4, *shape)
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            scales = torch.stack([dropout.factors(dropout.number(key), 2, shape, 0.4, dtype) for key in keys])
            assert torch.equal(scales, found[compiled].to(dtype) / (1 - 0.4)) and scales.dtype == dtype
    assert torch.equal(found[True], found[False])


def bits(key, occurrence=0, count=200_000, p=0.5):
    return dropout.factors(torch.tensor(key), occurrence, (count,), p, torch.float32).numpy() != 0


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_share_that_is_kept(p):
    kept = np.concatenate([bits(key, p=p) for key in (0, 1, 2**62 + 3)])
    assert abs(kept.mean() - (1 - p)) < 4 * math.sqrt(p * (1 - p) / kept.size)


def test_entries_keys_and_occurrences_are_independent():
    """Pairs of bits: neighbours, entries a row apart, keys and occurrences one after another; chi-square of their four cases."""
    one = bits(5)
    others = [np.roll(one, 1), np.roll(one, 12), np.roll(one, 4096), bits(6), bits(5, 1), bits(5 + 2**40), bits(6, 1)]
    for other in others:
        cases = np.bincount(2 * one.astype(int) + other, minlength=4)
        assert stats.chisquare(cases).pvalue > 1e-4
    words = np.packbits(one)  # eight entries together
    assert stats.chisquare(np.bincount(words, minlength=256)).pvalue > 1e-4


# --- by hand --------------------------------------------------------------------------------------
def test_a_step_by_hand():
    """One client, four equal samples, two steps of a linear model whose input is dropped: the masks from NumPy's 64-bit integers."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(3, 1, bias=False)

        def forward(self, x):
            return self.last(functional.dropout(x, 0.25, self.training))[:, 0]

    golden, first, second = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

    def mixed(z):
        z = (z ^ (z >> np.uint64(30))) * first
        z = (z ^ (z >> np.uint64(27))) * second
        return z ^ (z >> np.uint64(31))

    x, target, lr = np.array([1.0, 2.0, -1.0]), 0.5, 0.1
    module = Model()
    w = module.last.weight.detach().numpy()[0].astype(float)
    problem = neural.NeuralProblem(
        module, np.tile(x, (4, 1)), np.full(4, target), [np.arange(4)], lambda out, t: (out - t).square().mean(), dtype="float64"
    )
    with np.errstate(over="ignore"):
        for key in Stream(3).generator("dropout", 1, 0, 0).integers(2**63, size=(1, 2))[0]:
            stream = mixed(np.uint64(key) + golden)
            number = mixed(stream + golden * np.arange(1, 13, dtype=np.uint64)) >> np.uint64(40)
            dropped = np.where(number.reshape(4, 3) >= 2**22, x / 0.75, 0.0)
            w = w - lr * (2 * (dropped @ w - target) @ dropped) / 4
    run = neural.train(problem, algorithms.FedAvg(), 1, None, local.SGD(4, lr, epochs=2), 3, record=["drift"], progress=False)
    np.testing.assert_allclose(run.x[0], w, rtol=0, atol=1e-14)


# --- networks -------------------------------------------------------------------------------------
class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(12, 16), nn.Linear(16, 3)

    def forward(self, x):
        return self.last(functional.dropout(functional.relu(self.first(x)), 0.3, self.training))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.last = nn.TransformerEncoderLayer(12, 2, 16, dropout=0.2, batch_first=True), nn.Linear(12, 3)

    def forward(self, x):
        return self.last(self.layer(x).mean(dim=1))


class Attention(nn.Module):
    """With the weights asked for, which torch computes in another way."""

    def __init__(self):
        super().__init__()
        self.heads, self.last = nn.MultiheadAttention(12, 2, dropout=0.4, batch_first=True), nn.Linear(12, 3)

    def forward(self, x):
        return self.last(self.heads(x, x, x)[0].mean(dim=1))


def layered(layer):
    return lambda: nn.Sequential(nn.Linear(12, 16), nn.ReLU(), layer, nn.Linear(16, 3))


NETWORKS = {
    "functional": (Functional, ROWS, (0.3,)),
    "module": (layered(nn.Dropout(0.5)), ROWS, (0.5,)),
    "in place": (lambda: nn.Sequential(nn.Linear(12, 3), nn.Dropout(0.5, inplace=True)), ROWS, (0.5,)),
    "channels": (lambda: nn.Sequential(nn.Conv2d(2, 4, 2), nn.Dropout2d(0.25), nn.Flatten(), nn.Linear(64, 3)), IMAGES, (0.25,)),
    "encoder": (Encoder, SEQUENCES, (0.2,) * 4),
    "attention": (Attention, SEQUENCES, (0.4,)),
}


def made(name, training=True, **options):
    module, inputs, _ = NETWORKS[name]
    torch.manual_seed(0)
    options = {"dtype": "float64", "test": (inputs[150:], LABELS[150:])} | options
    return neural.NeuralProblem(module().train(training), inputs, LABELS, CLIENTS, **options)


def last(problem, solver=None, rounds=3, **options):
    solver = solver or local.SGD(9, 0.1, epochs=2)
    record = ["objective", "test_loss"]
    return neural.train(problem, algorithms.FedDyn(0.1), rounds, Uniform(3), solver, record=record, progress=False, **options)


@pytest.mark.parametrize("name", NETWORKS)
def test_engines_and_chunks_have_the_same_masks(name):
    ways = {"loop": {"engine": "loop"}, "stacked": {"engine": "stacked"}, "one at a time": {"rows_at_once": 1}, "auto": {}}
    found = {way: last(made(name, **options), rounds=2).x for way, options in ways.items()}
    for x in found.values():
        np.testing.assert_allclose(x, found["loop"], rtol=0, atol=1e-13)
    assert np.abs(last(made(name, training=False), rounds=2).x - found["loop"]).max() > 1e-3


@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_measured_is_without_dropout(name):
    drops, plain = made(name), made(name, training=False)
    assert drops.flat.dropout == NETWORKS[name][2] and plain.flat.dropout == ()
    y = drops.initial().expand(4, 1, -1)
    assert torch.allclose(drops.client_gradient(y), plain.client_gradient(y), rtol=0, atol=1e-14)
    assert float(drops.objective(y[0, 0])) == pytest.approx(float(plain.objective(y[0, 0])), abs=1e-14)
    assert drops.evaluate(y[0])["test_loss"] == pytest.approx(plain.evaluate(y[0])["test_loss"], abs=1e-14)
    assert torch.allclose(drops.fisher_diagonal(y, "empirical"), plain.fisher_diagonal(y, "empirical"), rtol=0, atol=1e-14)


SOLVERS = [local.SGD(9, 0.1, epochs=2, clip=0.2), local.Momentum(9, 0.05, epochs=2), local.Adam(9, 0.01, epochs=2)]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_every_local_solver_drops(solver):
    found = [last(made("module", engine=engine), solver).x for engine in ("stacked", "loop")]
    np.testing.assert_allclose(*found, rtol=0, atol=1e-12)
    assert np.abs(last(made("module", training=False), solver).x - found[0]).max() > 1e-3


def test_seeds_have_masks_of_their_own():
    a, b = (last(made("module"), seed=seed).x for seed in (0, 1))
    assert np.abs(a - b).max() > 1e-4


def test_a_run_goes_on_bit_for_bit_and_knows_its_dropout(tmp_path):
    whole, path = last(made("encoder")), tmp_path / "run.ckpt"
    last(made("encoder"), rounds=2, checkpoint=path)
    assert np.array_equal(last(made("encoder"), checkpoint=path).x, whole.x)
    p = made("functional")
    settings = (algorithms.FedAvg(), Uniform(2), local.SGD(9, 0.1, epochs=2), 0, ["drift"], 1)
    assert configuration(p, *settings, p.initial())["problem"]["dropout"] == [0.3]


def test_attention_is_torchs_where_nothing_is_dropped():
    q, k, v = (torch.from_numpy(RNG.normal(size=(2, 3, 5, 4))) for _ in range(3))
    mask = torch.from_numpy(RNG.random((5, 5)) < 0.7) | torch.eye(5, dtype=torch.bool)
    ways = ({}, {"is_causal": True}, {"attn_mask": mask}, {"attn_mask": torch.where(mask, 0.5, -3.0).double()}, {"scale": 0.3})
    for options in ways:
        with dropout.KeyedDropout(None):  # asked for, with no key to follow
            mine = functional.scaled_dot_product_attention(q, k, v, dropout_p=0.3, **options)
        torch.testing.assert_close(mine, functional.scaled_dot_product_attention(q, k, v, **options), rtol=0, atol=1e-14)


def test_whole_channels_are_dropped():
    x = torch.ones(6, 7, 3, 3)
    for layer, given in ((nn.Dropout1d(0.5), x[..., 0]), (nn.Dropout2d(0.5), x), (nn.Dropout3d(0.5), x[..., None])):
        with dropout.KeyedDropout(torch.tensor(1)):
            out = layer(given).flatten(2)
        assert set(out.unique().tolist()) == {0.0, 2.0} and bool((out == out[..., :1]).all())
        assert 0.2 < float((out > 0).double().mean()) < 0.8
    with dropout.KeyedDropout(torch.tensor(1)):
        assert not nn.Dropout(1.0)(x).any() and torch.equal(nn.Dropout(0.0)(x), x)


def test_what_has_no_masks_is_refused():
    class Recurrent(nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.layer, self.last = kind(12, 4, 2, dropout=0.3, batch_first=True), nn.Linear(4, 3)

        def forward(self, x):
            return self.last(self.layer(x)[0][:, -1])

    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        with pytest.raises(errors.MissingCapability, match=r"draws at random.*recurrent layer.*nn\.Dropout"):
            neural.NeuralProblem(Recurrent(kind), SEQUENCES, LABELS, CLIENTS)
        neural.NeuralProblem(Recurrent(kind).eval(), SEQUENCES, LABELS, CLIENTS)
    class Again(nn.Module):
        """Of which the backward pass computes a part once more."""

        def __init__(self, inside):
            super().__init__()
            self.first, self.drop, self.last, self.inside = nn.Linear(12, 8), nn.Dropout(0.5), nn.Linear(8, 3), inside

        def part(self, x):
            h = functional.relu(self.first(x))
            return self.drop(h) if self.inside else h

        def forward(self, x):
            h = checkpoint(self.part, x, use_reentrant=False)
            return self.last(h if self.inside else self.drop(h))

    with pytest.raises(errors.MissingCapability, match=r"backward pass of Again computes dropout again.*checkpoint"):
        neural.NeuralProblem(Again(True), ROWS, LABELS, CLIENTS, engine="loop")
    neural.NeuralProblem(Again(False), ROWS, LABELS, CLIENTS, engine="loop")
    neural.NeuralProblem(nn.Sequential(nn.Dropout(0.5, inplace=True), nn.Linear(12, 3)), ROWS, LABELS, CLIENTS, engine="loop")
    p = made("module")
    with pytest.raises(errors.MissingCapability, match=r"dropout is drawn in the steps of local\.SGD"):
        p.client_batch_gradient(p.initial().expand(4, 1, -1), np.zeros((4, 1, 2), dtype=int))
