"""A user's own modules, losses and samples: what engines written for others must leave alone, and what is refused, in words."""

from __future__ import annotations

import numpy as np
import pytest
from cases import each

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.problems import partitions

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from fedtheory.neural.engines.base import Batch  # noqa: E402
from fedtheory.neural.flat import FlatModule  # noqa: E402
from fedtheory.neural.problem import NeuralProblem  # noqa: E402

CLIENTS = [range(0, 15), range(15, 40)]
X, Y = np.random.default_rng(0).normal(size=(40, 6)), np.random.default_rng(1).integers(0, 3, 40)


def network(cls=nn.Sequential) -> nn.Module:
    torch.manual_seed(0)
    return cls(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def problem(module=None, inputs=X, targets=Y, clients=CLIENTS, **options) -> NeuralProblem:
    return NeuralProblem(network() if module is None else module, inputs, targets, clients, **{"dtype": "float64", **options})


# --- engines --------------------------------------------------------------------------------------
class Scaled(nn.Sequential):
    def forward(self, x):
        return 2 * super().forward(x)


def tied() -> nn.Module:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
    module[2].weight = module[0].weight
    return module


def the_same_layer_twice() -> nn.Module:
    torch.manual_seed(0)
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.ReLU(), layer)


def hooked() -> nn.Module:
    module = network()
    module[2].register_forward_hook(lambda module, inputs, outputs: 2 * outputs)
    return module


def normed() -> nn.Module:
    module = network()
    nn.utils.spectral_norm(module[0])  # by a hook that makes the weight anew
    return module.eval()


@pytest.mark.parametrize("make", [tied, the_same_layer_twice, lambda: network(Scaled), hooked, normed])
def test_what_only_looks_like_plain_layers_is_left_to_autograd(make):
    """No compiled steps; every engine agrees with finite differences of the module's own loss."""
    module = make().double()
    for engine in ("auto", "loop", "stacked"):
        p = problem(make(), engine=engine)
        y = torch.randn(p.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        gradient = p.client_gradient(y.expand(2, 1, -1))[0, 0]
        held, labels = p.inputs[:15], p.targets[:15]

        def loss(point, p=p, held=held, labels=labels):
            with torch.no_grad():
                outputs = torch.func.functional_call(module, p.flat.views(point), (held,))
                return float(nn.functional.cross_entropy(outputs, labels))

        for i in range(0, p.dim, 7):
            step = 1e-6 * torch.eye(p.dim, dtype=torch.float64)[i]
            assert float(gradient[i]) == pytest.approx((loss(y + step) - loss(y - step)) / 2e-6, abs=1e-8)


@pytest.mark.parametrize("engine", ["stacked", "loop"])
@pytest.mark.parametrize("extra", [-1, 1])
def test_parameters_of_another_size_are_refused(engine, extra):
    p = problem(engine=engine)
    y = torch.zeros(2, p.dim + extra, dtype=torch.float64)
    with pytest.raises(InvalidInput, match=f"Sequential has d = {p.dim}"):
        p.engine.gradient(y, Batch(p.inputs[:8].reshape(2, 4, 6), p.targets[:8].reshape(2, 4)))


# --- modules --------------------------------------------------------------------------------------
def lazy() -> nn.Module:
    return nn.Sequential(nn.LazyLinear(5), nn.ReLU(), nn.LazyLinear(3))


def test_lazy_layers_need_a_forward_pass_first():
    for refuse in (problem, FlatModule):
        with pytest.raises(InvalidInput, match=r"0\.weight has no size yet.*run one forward pass first, module\(inputs\[:2\]\)"):
            refuse(lazy())
    module = lazy()
    module(torch.zeros(2, 6))
    assert problem(module).dim == network_size()


def network_size() -> int:
    return 7 * 5 + 6 * 3


@pytest.mark.parametrize(
    ("module", "words"),
    [(lambda x: x, "module is a function"), (nn.ReLU, "module is the class ReLU"), ("mlp", "module is a str")],
)
def test_what_is_no_module_is_refused(module, words):
    for refuse in (problem, FlatModule):
        with pytest.raises(InvalidInput, match=f"{words}: give a torch.nn.Module"):
            refuse(module)


class Fourier(nn.Module):
    """Real outputs, by a complex tensor that would lose its imaginary part in a real dtype."""

    def __init__(self, trained: bool) -> None:
        super().__init__()
        self.head, self.phase = nn.Linear(6, 3), nn.Parameter(torch.ones(6, dtype=torch.complex64) * 1j)
        if not trained:
            phase = self.phase.detach()
            del self.phase
            self.register_buffer("phase", phase)

    def forward(self, x):
        return self.head((self.phase * x).abs().to(x.dtype))


@pytest.mark.parametrize("trained", [True, False])
def test_complex_modules_are_refused(trained):
    for refuse in (problem, FlatModule):
        with pytest.raises(MissingCapability, match=r"phase is torch\.complex64.*real numbers"):
            refuse(Fourier(trained))


@pytest.mark.filterwarnings("ignore")
def test_modules_that_cannot_compute_with_other_parameters_are_refused():
    with pytest.raises(MissingCapability, match=r"compiled by torch\.jit"):
        problem(torch.jit.script(network()))


def test_an_engine_is_named():
    with pytest.raises(InvalidInput, match=r"engine = None: use 'auto', 'stacked', 'loop'"):
        problem(engine=None)


@pytest.mark.parametrize("device", [None, 1.5, "gpu"])
def test_a_device_is_named(device):
    with pytest.raises(InvalidInput, match=r"device = .*: use 'cpu', 'cuda' or 'cuda:0'"):
        problem(device=device)


# --- samples --------------------------------------------------------------------------------------
@each(
    ("options", "words"),
    [
        ({"inputs": [["a"] * 6] * 40}, r"inputs cannot be taken \(can't convert np.ndarray of type numpy.str_"),
        ({"inputs": X.astype(object)}, "can't convert np.ndarray of type numpy.object_"),
        ({"inputs": X + 1j}, r"inputs cannot be taken \(they are complex\): give real numbers"),
        ({"inputs": torch.tensor(X + 1j)}, "they are complex"),
        ({"inputs": [[1.0], [1.0, 2.0]] * 20}, "inputs cannot be taken .*inhomogeneous shape"),
        ({"inputs": 3.0}, r"inputs cannot be taken \(len\(\) of a 0-d tensor"),
        ({"targets": Y[:39]}, "40 inputs and 39 targets"),
        ({"test": (X, Y[:3])}, r"test = \[40, 3\]: give one target a sample"),
        ({"test": (X, ["cat"] * 40)}, "test targets cannot be taken"),
        ({"clients": {0: range(9), 1: range(9, 40)}}, r"client 0's are the one entry 0: .*list\(clients.values\(\)\)"),
        ({"clients": Y}, r"client 0's are the one entry \d.*np.flatnonzero\(owner == k\)"),
        ({"clients": [["a"], [1]]}, "clients: client 0's are of dtype <U1"),
        ({"clients": [[0, 1], [2.5, 3.0]]}, "clients: client 1's are of dtype float64"),
        ({"clients": [np.arange(40) < 15, np.arange(40) >= 15]}, "client 0's are of dtype bool.*np.flatnonzero of a mask"),
        ({"clients": [range(15), []]}, "client 1 has no samples"),
        ({"clients": []}, "clients has no samples"),
        ({"test": (X, Y), "test_clients": [[0.5], [1]]}, "test_clients: client 0's are of dtype float64"),
    ],
)
def test_samples_that_are_none_are_refused(options, words):
    with pytest.raises(InvalidInput, match=words):
        problem(**options)


def test_a_partition_names_its_clients():
    part = partitions.iid(40, 4, seed=1)
    found = problem(clients=part, test=(X, Y), test_clients=part)
    for held in (found._clients, found.tested):
        for mine, dealt in zip(held, part.indices, strict=True):
            np.testing.assert_array_equal(mine, dealt)


@pytest.mark.parametrize(
    ("kind", "kept"),
    [(k, torch.float64) for k in ("f2", "f4", ">f8", "g")]
    + [("u1", torch.uint8), (">i4", torch.int32)]
    + [(k, torch.int64) for k in ("u2", "u8", ">i8", "?")],
)
def test_real_numbers_of_any_kind_are_taken(kind, kept):
    samples = (np.abs(X) * 3).astype(kind)[::-1]
    module = None if kept == torch.float64 else nn.Sequential(nn.Embedding(20, 2), nn.Flatten(), nn.Linear(12, 3))
    p = problem(module, samples)
    assert p.inputs.dtype == kept
    np.testing.assert_array_equal(p.inputs.double().numpy(), samples.astype(np.float64))


@pytest.mark.filterwarnings("error")
def test_what_is_read_only_is_copied():
    """As the columns of a DataFrame and arrays from np.load(mmap_mode='r') are."""
    samples = X.copy()
    samples.setflags(write=False)
    p = problem(inputs=samples)
    p.inputs.zero_()
    np.testing.assert_array_equal(samples, X)


def with_one(value: float) -> np.ndarray:
    out = X.copy()
    out[3, 2] = value
    return out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"inputs": with_one(np.nan)}, r"inputs\[3, 2\] is nan in float64: .*clean or drop"),
        ({"inputs": with_one(-np.inf)}, r"inputs\[3, 2\] is -inf in float64"),
        ({"inputs": with_one(1e300), "dtype": "float32"}, r"inputs\[3, 2\] is inf in float32: .*rescale"),
        ({"test": (with_one(np.nan), Y)}, r"test inputs\[3, 2\] is nan"),
        ({"targets": with_one(np.nan)[:, :3], "loss": "squared_error"}, r"targets\[3, 2\] is nan"),
        ({"targets": with_one(np.nan)[:, :3], "loss": nn.MSELoss()}, r"targets\[3, 2\] is nan"),
        ({"targets": X[:, :3], "test": (X, with_one(np.nan)[:, :3]), "loss": "squared_error"}, r"test targets\[3, 2\] is nan"),
    ],
)
def test_samples_that_are_not_finite_are_refused(options, words):
    with pytest.raises(InvalidInput, match=words):
        problem(**options)


def test_a_loss_of_ones_own_may_read_nan_as_a_missing_target():
    def known_only(outputs, targets):
        known = ~torch.isnan(targets)
        return ((outputs - torch.where(known, targets, outputs)) ** 2).sum() / known.sum()

    targets = with_one(np.nan)[:, :3]
    p = problem(targets=targets, loss=known_only)
    outputs = p.flat.call(p.initial(), p.inputs[:15]).detach().numpy()
    value = p.client_value(p.initial().expand(2, 1, -1))[0, 0]
    assert float(value) == pytest.approx(np.nanmean((outputs - targets[:15]) ** 2), rel=1e-12)
