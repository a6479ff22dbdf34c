"""All clients' models in one graph: the gradients of one after another, whatever layers and forward passes a network has."""

from __future__ import annotations

import gc
import warnings

import numpy as np
import pytest

from fedtheory import Uniform, algorithms, simulate
from fedtheory.errors import MissingCapability
from fedtheory.local import SGD

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from fedtheory.neural.engines import recurrent  # noqa: E402
from fedtheory.neural.engines.base import Batch, Loop  # noqa: E402
from fedtheory.neural.engines.chain import Chain, chain_of  # noqa: E402
from fedtheory.neural.engines.stacked import Stacked  # noqa: E402
from fedtheory.neural.flat import FlatModule  # noqa: E402
from fedtheory.neural.losses import Loss  # noqa: E402
from fedtheory.neural.problem import NeuralProblem  # noqa: E402

G = torch.Generator().manual_seed(0)


class Texts(nn.Module):
    """Embedding, a recurrent layer, and a linear layer on its last output."""

    def __init__(self, kind, batch_first=True, **options) -> None:
        super().__init__()
        self.embedding, self.first = nn.Embedding(7, 4), batch_first
        self.layer = kind(4, 5, batch_first=batch_first, **options)
        self.head = nn.Linear(10 if options.get("bidirectional") else 5, 3)

    def forward(self, x):
        x = self.embedding(x)
        outputs, state = self.layer(x if self.first else x.transpose(0, 1))
        last = state[0] if isinstance(state, tuple) else state
        return self.head(outputs[:, -1] if self.first else outputs[-1]) + last[-1].sum(dim=1, keepdim=True)


class FromAState(Texts):
    def forward(self, x):
        x = self.embedding(x)
        h = x.new_ones(1, len(x), 5) / 2
        outputs, _ = self.layer(x, (h, 2 * h) if isinstance(self.layer, nn.LSTM) else h)
        return self.head(outputs[:, -1])


def padded() -> nn.Module:
    module = Texts(nn.LSTM)
    module.embedding.padding_idx = 0  # a word without a gradient
    return module


class Doubled(nn.Embedding):
    def forward(self, x):
        return 2 * super().forward(x)


class ByFunction(nn.Embedding):
    def forward(self, x):
        return functional.embedding(x, self.weight, padding_idx=-7)


@pytest.mark.parametrize("kind", [Doubled, ByFunction])
def test_a_word_without_a_gradient_has_none_in_any_embedding(kind):
    """vmap would train its row, and the few samples that an engine is tried on need not have it."""
    words = torch.randint(1, 7, (12, 5), generator=G)
    words[[1, 2, 4]] = 0  # of samples that are not tried

    def made(engine: str) -> NeuralProblem:
        torch.manual_seed(0)
        module = nn.Sequential(kind(7, 4, padding_idx=0), nn.Flatten(), nn.Linear(20, 3))
        return NeuralProblem(module, words, torch.arange(12) % 3, [range(12)], dtype="float64", engine=engine)

    with pytest.raises(MissingCapability, match="padding_idx"):
        made("stacked")
    with pytest.warns(UserWarning, match="padding_idx"):
        problem = made("auto")
    point = problem.initial()[None, None]
    gradient = problem.client_gradient(point)
    assert torch.equal(gradient, made("loop").client_gradient(point))
    assert not gradient[0, 0, :4].any() and gradient[0, 0, 4:28].any()


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.place = nn.Embedding(7, 8), nn.Parameter(torch.randn(6, 8))
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.norm(self.layer(self.embedding(x) + self.place)).mean(dim=1))


class Tied(nn.Module):
    """Weights that two layers share, a layer that is passed twice, and a parameter that is a single number."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.head = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 3)
        self.b.weight, self.scale = self.a.weight, nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        return self.head(self.b(self.scale * torch.tanh(self.a(self.a(x)))))


def images(*layers, units) -> nn.Module:
    return nn.Sequential(nn.Unflatten(1, (3, 2, 2)), nn.Upsample(scale_factor=3), *layers, nn.Flatten(), nn.Linear(units, 3))


def frozen() -> nn.Module:
    module = images(nn.Conv2d(3, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.GELU(), nn.AdaptiveAvgPool2d(2), units=16)
    module[2].weight.requires_grad_(False)
    module[3].bias.requires_grad_(False)
    return module


NUMBERS = {
    "tanh": lambda: nn.Sequential(nn.Linear(12, 6, bias=False), nn.Tanh(), nn.Linear(6, 3)),
    "layer norm": lambda: nn.Sequential(nn.Linear(12, 6), nn.LayerNorm(6), nn.SiLU(), nn.Linear(6, 3)),
    "tied": Tied,
    "convolution": lambda: images(nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2), units=4),
    "no bias, dilated": lambda: images(nn.Conv2d(3, 4, 2, dilation=2, bias=False), nn.ReLU(), units=64),
    "groups": lambda: images(nn.Conv2d(3, 6, 3, groups=3), nn.ReLU(), units=96),
    "same": lambda: images(nn.Conv2d(3, 4, (2, 3), padding="same"), nn.GroupNorm(2, 4), nn.ReLU(), units=144),
    "frozen": frozen,
}
TEXTS = {
    **{f"{k.__name__} {o}": lambda k=k, o=o: Texts(k, **o) for k in (nn.LSTM, nn.GRU, nn.RNN)
       for o in ({}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "batch_first": False})},
    **{f"{k.__name__} from a state": lambda k=k: FromAState(k) for k in (nn.LSTM, nn.GRU)},
    "relu": lambda: Texts(nn.RNN, nonlinearity="relu"),
    "attention": Attention,
    "padding": padded,
}  # fmt: skip


def gradients(make, texts: bool, engine, weights=None, autocast=None, dtype=torch.float64):
    torch.manual_seed(0)
    flat = FlatModule(make().to(dtype))
    g = torch.Generator().manual_seed(1)
    params = flat.initial() + 0.1 * torch.randn(3, flat.dim, generator=g, dtype=torch.float64).to(dtype)
    x = torch.randint(7, (3, 5, 6), generator=g) if texts else torch.randn(3, 5, 12, generator=g, dtype=torch.float64).to(dtype)
    made = engine(flat, Loss("cross_entropy"))
    made.autocast = autocast
    made.settle(x[0, :2])
    given = params, Batch(x, torch.randint(3, (3, 5), generator=g), weights)
    return made.gradient(*given), made.value(*given), made.output_gradient(params, x, torch.tensor([5, 2, 1]))


@pytest.mark.parametrize("make, texts", [*((m, False) for m in NUMBERS.values()), *((m, True) for m in TEXTS.values())],
                         ids=[*NUMBERS, *TEXTS])  # fmt: skip
def test_models_side_by_side_have_the_gradients_of_one_after_another(make, texts):
    weights = torch.tensor([[0.2] * 5, [0.5, 0.5, 0, 0, 0], [0.1, 0.2, 0.3, 0.4, 0]], dtype=torch.float64)
    for w in (None, weights):
        for found, wanted in zip(gradients(make, texts, Stacked, w), gradients(make, texts, Loop, w), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)
            assert float(wanted.abs().max()) > 1e-3


@pytest.mark.parametrize("name", ["LSTM {}", "LSTM from a state"])
def test_torchs_cell_is_called_as_a_gpu_has_it(name, monkeypatch):
    """One row a sample of a model, and the products of inputs and states apart."""
    calls = []

    def cell(own, of_state, c):
        assert own.ndim == 2 and own.shape == of_state.shape and c.shape == (len(own), 5)
        calls.append(len(own))
        i, f, g, o = (own + of_state).split(5, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c, own

    wanted = gradients(TEXTS[name], True, Stacked)
    monkeypatch.setattr(recurrent, "FUSED", ("cpu",))
    monkeypatch.setattr(recurrent, "_FUSED_CELL", cell)
    for a, b in zip(gradients(TEXTS[name], True, Stacked), wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)
    assert set(calls) == {15}  # three models, five samples


@pytest.mark.parametrize("make, texts", [(NUMBERS["convolution"], False), (NUMBERS["tanh"], False), (TEXTS["attention"], True)])
def test_mixed_precision_is_as_near_as_bfloat16_is(make, texts):
    (found, *_), (wanted, *_) = (gradients(make, texts, Stacked, autocast=a, dtype=torch.float32) for a in ("bfloat16", None))
    off = float((found - wanted).norm() / wanted.norm())
    assert 1e-6 < off < 0.05


def test_attention_is_one_product_for_all_models():
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # vmap warns where it takes one after another
        gradients(Attention, True, Stacked)


def test_a_graph_does_not_outlive_its_step():
    """Else memory grows until the garbage collector runs: a tape of products once held the graph that held the tape."""
    flat = FlatModule(nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)))
    for chain in (True, False):
        engine = Stacked(flat, Loss("cross_entropy"))
        if chain:
            engine.settle(torch.zeros(2, 6))
        assert (engine.chain is not None) == chain
        gc.collect()
        gc.disable()
        try:
            before = sum(isinstance(o, torch.Tensor) for o in gc.get_objects())
            for _ in range(5):
                params = flat.initial().expand(2, -1).clone()
                batch = Batch(torch.ones(2, 4, 6), torch.zeros(2, 4, dtype=torch.int64))
                engine.step(params, batch, 0.1, lambda: 1.0)
            del params, batch
            assert sum(isinstance(o, torch.Tensor) for o in gc.get_objects()) <= before
        finally:
            gc.enable()


# --- chains ---------------------------------------------------------------------------------------
class Written(nn.Module):
    """A chain as public code writes it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(12, 6), nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x):
        x = x.view(x.size(0), -1)
        x = functional.relu(self.first(x))
        return self.last(self.second(x).relu())


class Counted(Written):
    def forward(self, x):
        return super().forward(x.view(len(x), -1))


class Scaled(Written):
    def forward(self, x):
        return super().forward(x) * len(x)


class Skipping(Written):
    def forward(self, x):
        return self.last(self.second(self.first(x.flatten(1)).relu()).relu()) * 2


class Turned(Written):
    def forward(self, x):
        return super().forward(x.transpose(1, 2).contiguous())


class Backwards(Written):
    """The layers are not passed in the order in which they are made."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, 3), nn.Linear(12, 6)
        self.second = nn.Linear(6, 5)

    def forward(self, x):
        return self.first(self.second(self.last(x.flatten(1)).relu()).relu())


class Clipped(Written):
    """Its gradient is clipped on the way, which changes nothing where it is small."""

    def forward(self, x):
        h = self.first(x.flatten(1))
        h.register_hook(lambda g: g.clamp(-10, 10))
        return self.last(self.second(h.relu()).relu())


class Capped(Written):
    def forward(self, x):
        h = self.first(x.flatten(1))
        with torch.no_grad():
            h.clamp_(max=100)
        return self.last(self.second(h.relu()).relu())


class CappedData(Written):
    def forward(self, x):
        h = self.first(x.flatten(1))
        h.data.clamp_(max=100)
        return self.last(self.second(h.relu()).relu())


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.relu()

    @staticmethod
    def backward(ctx, g):
        return 2 * g


class OwnGradient(Written):
    def forward(self, x):
        return self.last(self.second(Doubled.apply(self.first(x.flatten(1)))).relu())


class Selu(Written):
    def forward(self, x):
        return self.last(self.second(functional.selu(self.first(x.flatten(1)))).relu())


class ByTanh(Written):
    def forward(self, x):
        return self.last(self.second(functional.gelu(self.first(x.flatten(1)), approximate="tanh")).relu())


class Branched(Written):
    def forward(self, x):
        return super().forward(x) if x.mean() < 1e3 else x.flatten(1)[:, :3]


class Several(Written):
    def forward(self, x):
        h = self.first(x.flatten(1)).relu()
        return self.last(self.second(h * h).relu())


def hooked() -> nn.Module:
    module = Written()
    module.second.register_full_backward_hook(lambda m, before, after: (before[0].clamp(-10, 10),))
    return module


def watched() -> nn.Module:
    module = Written()
    module.second.register_forward_hook(lambda m, given, made: None)
    return module


def frozen_bias() -> nn.Module:
    module = Written()
    module.first.bias.requires_grad_(False)
    return module


OTHERS = [Clipped, Capped, CappedData, OwnGradient, Selu, ByTanh, Branched, Several, hooked, watched, frozen_bias]


@pytest.mark.parametrize("make", [Written, Counted, Scaled, Skipping, Turned, Backwards, *OTHERS])
def test_a_forward_pass_of_ones_own_may_be_a_chain(make):
    torch.manual_seed(0)
    wanted = Chain((12, 6, 5, 3), (), (("relu", 0.0),) * 2) if make in (Written, Counted) else None
    assert chain_of(FlatModule(make()), torch.randn(2, 3, 4, generator=G)) == wanted


def problem(module, engine="auto", loss="cross_entropy"):
    rng = np.random.default_rng(0)
    clients = np.split(rng.permutation(40), [4, 11, 12, 30])
    data = rng.normal(size=(40, 3, 4)), rng.integers(0, 3, 40)
    return NeuralProblem(module, *data, clients, loss, 0.01, dtype="float64", engine=engine)


ELASTIC = algorithms.FedElasticNetDyn(0.01, 0.5)


def run(p, algorithm=ELASTIC):
    more = dict(seed=1, local_solver=SGD(4, 0.1, epochs=2), like=p.like_array(), record=())
    return simulate(p, algorithm, 3, p.initial(), Uniform(3), **more).x


@pytest.mark.parametrize("make", [Written, Counted, Skipping, Turned])
def test_it_is_walked_as_one_model_after_another(make):
    torch.manual_seed(0)
    module = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p = problem(module)
    assert p.engine.name == "stacked"
    np.testing.assert_allclose(run(p), run(problem(module, "loop")), rtol=1e-10, atol=1e-13)


# --- what cannot be stacked -----------------------------------------------------------------------
class Branching(Written):
    def forward(self, x):
        y = super().forward(x)
        return y if float(y.detach().sum()) > 0 else 2 * y


class Counting(Written):
    """Computes what depends on how often it was called, not only on parameters and inputs."""

    def forward(self, x):
        self.calls = getattr(self, "calls", 0) + 1
        return self.calls * super().forward(x)


def test_a_module_that_cannot_be_stacked_is_walked_by_the_loop_with_a_reason():
    torch.manual_seed(0)
    module = Branching()
    with pytest.warns(UserWarning, match=r"trained one after another: Branching cannot be computed for several at once \(.*item"):
        p = problem(module)
    assert p.engine.name == "loop" and p.engine.samplewise is None
    with pytest.raises(MissingCapability, match=r"engine='stacked' cannot take this module.*use engine='auto'"):
        problem(module, "stacked")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same = problem(module, "loop")
    np.testing.assert_array_equal(run(p), run(same))


class Sideways(Written):
    """It computes something else for several models at once."""

    def forward(self, x):
        return (2 if torch._C._functorch.is_batchedtensor(next(self.parameters())) else 1) * super().forward(x)


def test_other_gradients_side_by_side_are_noticed():
    with pytest.warns(UserWarning, match="its gradient is another one then"):
        assert problem(Sideways()).engine.name == "loop"
    with pytest.raises(MissingCapability, match="Counting computes something else in every forward pass"):
        problem(Counting(), engine="loop")


@pytest.mark.parametrize("wrong", [1, 3, 6])
def test_rounding_that_moves_a_gradient_at_one_point_is_no_other_gradient(wrong, monkeypatch):
    """A ReLU whose input is 0 but for rounding: at another point the gradients agree. Where they never do along the chain, vmap is
    asked."""
    gradient, calls = Stacked.gradient, []

    def moved(self, *args, **options):
        calls.append(0)
        return gradient(self, *args, **options) * (1.01 if len(calls) <= wrong else 1.0)

    monkeypatch.setattr(Stacked, "gradient", moved)
    if wrong < 6:
        p = problem(Written())
        assert p.engine.name == "stacked" and len(calls) == wrong + 1 and (p.engine.chain is None) == (wrong == 3)
    else:
        with pytest.warns(UserWarning, match="its gradient is another one then"):
            assert problem(Written()).engine.name == "loop"


class Encoder(nn.Module):
    def __init__(self, kind) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True)
        self.body = {"encoder": lambda: nn.TransformerEncoder(layer, 2), "layer": lambda: layer}.get(kind, lambda: None)()
        self.heads = nn.MultiheadAttention(8, 2, dropout=0.3, batch_first=True) if kind == "attention" else None
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        out = self.body(x) if self.heads is None else self.heads(x, x, x, need_weights=False)[0]
        return self.last(out.mean(dim=1))


def test_what_a_backward_pass_computes_again_has_the_models_parameters():
    """torch.utils.checkpoint asks the module again when the step's parameters would be gone, at a point that is not the module's."""

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first, self.last = nn.Linear(6, 5), nn.Linear(5, 3)

        def part(self, x):
            return torch.tanh(self.first(x))

        def forward(self, x):
            return self.last(self.part(x))

    class Again(Plain):
        def forward(self, x):
            return self.last(checkpoint(self.part, x, use_reentrant=False))

    class Reentrant(Plain):
        def forward(self, x):
            return self.last(checkpoint(self.part, x.clone().requires_grad_(), use_reentrant=True))

    inputs, clients = np.random.default_rng(0).normal(size=(20, 6)), [np.arange(12), np.arange(12, 20)]
    again = NeuralProblem(Again(), inputs, np.arange(20) % 3, clients, dtype="float64", engine="loop")
    plain = NeuralProblem(Plain(), inputs, np.arange(20) % 3, clients, dtype="float64")
    y = plain.initial() + torch.randn(2, 1, plain.dim, generator=G, dtype=torch.float64)
    assert torch.allclose(again.client_gradient(y), plain.client_gradient(y), rtol=0, atol=1e-14)
    assert torch.allclose(again.client_output_gradient(y, 0, 5), plain.client_output_gradient(y, 0, 5), rtol=0, atol=1e-14)
    solver = SGD(4, 0.1, epochs=2)
    found = [simulate(p, algorithms.FedDyn(0.5), 2, p.initial(), local_solver=solver, like=p.like_array()).x for p in (again, plain)]
    np.testing.assert_allclose(*found, rtol=0, atol=1e-13)
    with pytest.raises(MissingCapability, match=r"another gradient.*use_reentrant=False"):
        NeuralProblem(Reentrant(), inputs, np.arange(20) % 3, clients)


@pytest.mark.parametrize("kind", ["encoder", "layer", "attention"])
@pytest.mark.filterwarnings("error:the clients")
def test_attention_in_eval_mode_is_stacked(kind):
    """Kernels for inference, which have no derivative, are not taken, and dropout stays off."""
    inputs = np.random.default_rng(0).normal(size=(30, 5, 8))
    found = []
    for engine in ("stacked", "loop"):
        torch.manual_seed(0)
        module = Encoder(kind).eval()
        p = NeuralProblem(module, inputs, np.arange(30) % 3, np.split(np.arange(30), 3), dtype="float64", engine=engine)
        assert p.engine.name == engine and p.flat.dropout == ()
        found.append(run(p, algorithms.FedDyn(0.5)))  # a key's bias has no gradient but rounding, which the sign rule would follow
        assert not any(m.training for m in p.module(p.initial()).modules())
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-13)


def test_networks_are_sent_to_other_processes():
    torch.manual_seed(0)
    for module, x in (nn.Linear(12, 3), torch.randn(8, 12, generator=G)), (padded(), torch.arange(40).reshape(8, 5) % 7):
        p = NeuralProblem(module, x, torch.arange(8) % 3, [range(3), range(3, 8)], dtype="float64", engine="stacked")
        how = {"scenarios": 2, "local_solver": SGD(2, 0.1, epochs=1), "like": p.like_array()}
        found = [simulate(p, algorithms.FedAvg(), 2, p.initial(), workers=w, **how).x for w in (1, 2)]
        np.testing.assert_allclose(*found, rtol=0, atol=1e-14)
        assert np.abs(found[0] - p.initial().numpy()).max() > 1e-3
