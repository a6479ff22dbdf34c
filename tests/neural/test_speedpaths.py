"""The fast ways to train networks give the numbers of the plain ones: threads, compiled steps, penalties, epochs' tables, layouts."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Event

import numpy as np
import pytest
import threadpoolctl
from cases import each

from fedtheory import Uniform, algorithms, simulate
from fedtheory.errors import Diverged
from fedtheory.local import SGD
from fedtheory.local.objective import LocalObjective, Rows
from fedtheory.local.sgd import sample_order
from fedtheory.randomness import Stream

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from fedtheory.neural import models  # noqa: E402
from fedtheory.neural import threads as cores  # noqa: E402
from fedtheory.neural.engines import compiled  # noqa: E402
from fedtheory.neural.engines.chain import ACTIVATIONS, activated  # noqa: E402
from fedtheory.neural.engines.kernels import activate, shrink  # noqa: E402
from fedtheory.neural.engines.products import UNCOPIED, WHOLE, Tiles, add_turned, along, back_through  # noqa: E402
from fedtheory.neural.penalty import Penalty  # noqa: E402
from fedtheory.neural.plans import Plan, _table  # noqa: E402
from fedtheory.neural.problem import NeuralProblem  # noqa: E402
from fedtheory.neural.sgd import is_compiled  # noqa: E402

SIZES = (4, 7, 1, 18, 10)


def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))


def images() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(4, 3))


def problem(module=dense, engine: str = "auto", **options) -> NeuralProblem:
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    inputs, targets = rng.normal(size=(40, 3, 2, 2)), rng.integers(0, 3, 40)
    clients = np.split(rng.permutation(40), np.cumsum(SIZES)[:-1])
    return NeuralProblem(module(), inputs, targets, clients, engine=engine, **{"ridge": 0.01, "dtype": "float64", **options})


def run(p: NeuralProblem, algorithm, solver: SGD, rounds: int = 3) -> np.ndarray:
    how = dict(scenarios=2, seed=1, local_solver=solver, like=p.like_array(), record=())
    return simulate(p, algorithm, rounds, p.initial(), Uniform(4), **how).x


METHODS = [algorithms.FedAvg(), algorithms.FedDyn(0.5), algorithms.FedElasticNetDyn(0.01, 0.5), algorithms.FedElasticNetProx(0.3, 0.01)]
SOLVERS = [SGD(4, 0.1, epochs=2, epoch_decay=0.5), SGD(3, 0.1, epochs=3, epoch_decay=0.5, l1="prox")]


@pytest.fixture
def threads(monkeypatch):
    """Two threads, whatever the work; the names of those that worked."""
    monkeypatch.setattr(cores, "WORTH_A_THREAD", 0)
    before, seen = torch.get_num_threads(), set()
    torch.set_num_threads(2)
    plain = cores.in_chunks

    def noted(*args):
        seen.add(threading.current_thread().name)
        return plain(*args)

    monkeypatch.setattr(cores, "in_chunks", noted)
    yield seen
    torch.set_num_threads(before)


def batched(monkeypatch, compiled_steps: bool) -> None:
    """Walk small batches of dense networks by the compiled steps, or by batched products."""
    if not compiled_steps:
        monkeypatch.setattr("fedtheory.neural.engines.compiled.TAKEN", False)


GIVEN = ["epoch-decay float64", "prox and epoch-decay float64", "prox and epoch-decay float32"]
THREADED = [(m, g, (i + j) % 2 == 0) for i, m in enumerate(METHODS) for j, g in enumerate(GIVEN)]  # all pairs


@pytest.mark.parametrize(("algorithm", "given", "compiled"), THREADED, ids=lambda v: getattr(v, "name", str(v)))
def test_threads_give_the_loops_numbers(algorithm, given, compiled, threads, monkeypatch):
    solver, dtype = SOLVERS["prox" in given], given.split()[-1]
    tolerance = {"float64": 1e-10, "float32": 2e-5}[dtype]
    batched(monkeypatch, compiled)
    torch.set_num_threads(1)
    plain = run(problem(engine="loop"), algorithm, solver)
    assert not any("Pool" in name for name in threads)
    torch.set_num_threads(2)
    got = run(problem(dtype=dtype), algorithm, solver)
    assert any("Pool" in name for name in threads)
    assert torch.get_num_threads() == 2
    np.testing.assert_allclose(got, plain, rtol=tolerance, atol=tolerance)


HIDDEN = [(), (6,), (7, 5, 4)]
TILES = [Tiles(1, 1, 1), Tiles(50, 7, 2), UNCOPIED, WHOLE]
CLIPPING = [{}, {"clip": 0.3}, {"clip": 0.3, "clip_spares": "curvature"}, {"clip": 0.3, "l1": "prox"}]
WALKED = [(HIDDEN[(i + j) % 3], t, c) for i, t in enumerate(TILES) for j, c in enumerate(CLIPPING)]  # all pairs


@pytest.mark.parametrize(("hidden", "tiles", "clipping"), WALKED, ids=str)
def test_compiled_steps_are_the_batched_ones(hidden, tiles, clipping, monkeypatch):
    """Any number of layers, products in tiles of any size: also such that do not divide the outputs or the batch."""

    def network() -> nn.Module:
        torch.manual_seed(1)
        return models.get("mlp-200-100").build((3, 2, 2), 3, hidden=hidden)

    monkeypatch.setattr("fedtheory.neural.engines.compiled.tiles", lambda: tiles)
    method, walked = algorithms.FedElasticNetDyn(0.01, 0.5), []
    solver = SGD(3, 0.1, epochs=2, epoch_decay=0.5, **clipping)
    plain = compiled.walk_rows
    monkeypatch.setattr("fedtheory.neural.sgd.walk_rows", lambda *args: (walked.append(1), plain(*args)))
    got = run(problem(network), method, solver)
    assert walked
    monkeypatch.setattr("fedtheory.neural.engines.compiled.TAKEN", False)
    taken = len(walked)
    np.testing.assert_allclose(got, run(problem(network), method, solver), rtol=1e-11, atol=1e-13)
    assert len(walked) == taken
    if clipping:  # and it was clipped
        assert abs(got - run(problem(network), method, replace(solver, clip=1e9))).max() > 1e-3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_step_of_prox_by_hand(dtype):
    """l1 = 1/8, and steps of 1 and 2: of what moved 3/16 a sixteenth is left, or nothing."""
    moved = np.array([1, 0.1875, 0.0625, 0, -1, -0.1875, -0.0625, np.nan])
    y = (0.5 + np.stack([moved, moved])).astype(dtype)
    shrink(y, np.array([1, 2], dtype), np.full((2, 8), 0.5, dtype), dtype(0.125))
    left = [[0.875, 0.0625, 0, 0, -0.875, -0.0625, 0, np.nan], [0.75, 0, 0, 0, -0.75, 0, 0, np.nan]]
    np.testing.assert_array_equal(y - dtype(0.5), np.array(left, dtype))


class Dropping(nn.Module):
    """Dropout of the inputs, before and after a ReLU, twice in one place, by layer and function; one that drops all or nothing."""

    def __init__(self, every: float = 0.0) -> None:
        super().__init__()
        self.a, self.b, self.c, self.drop, self.every = nn.Linear(12, 9), nn.Linear(9, 7), nn.Linear(7, 3), nn.Dropout(0.2), every

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.dropout(x.view(len(x), -1), 0.1, self.training)
        x = functional.relu(self.drop(self.a(x)))
        x = functional.dropout(self.drop(torch.relu(self.b(x))), p=0.3)
        return self.c(functional.dropout(x, training=True, p=self.every))


@pytest.mark.parametrize("clipping", [{}, {"clip": 0.3}], ids=["", "clipped"])
@pytest.mark.parametrize("every", [0.0, 1.0])
def test_compiled_steps_drop_what_the_loop_drops(every, clipping, monkeypatch):
    method, solver, walked = algorithms.FedElasticNetDyn(0.01, 0.5), SGD(4, 0.1, epochs=2, **clipping), []
    plain = run(problem(partial(Dropping, every), engine="loop"), method, solver)
    walk_rows = compiled.walk_rows
    monkeypatch.setattr("fedtheory.neural.sgd.walk_rows", lambda *args: (walked.append(1), walk_rows(*args)))
    p = problem(partial(Dropping, every))
    assert p.engine.chain.drops == ((0, 0.1), (1, 0.2), (2, 0.2), (2, 0.3), *(((2, 1.0),) if every else ()))
    np.testing.assert_allclose(run(p, method, solver), plain, rtol=1e-11, atol=1e-13)
    taken = len(walked)
    monkeypatch.setattr("fedtheory.neural.engines.compiled.TAKEN", False)
    np.testing.assert_allclose(run(p, method, solver), plain, rtol=1e-11, atol=1e-13)
    assert len(walked) == taken > 0
    undropped = problem(lambda: Dropping().eval(), engine="loop")  # the function without training=... drops all the same
    assert undropped.flat.dropout == (0.3,) and abs(run(undropped, method, solver) - plain).max() > 1e-3


class Bending(nn.Module):
    """Every activation that a chain may have, by layer, function or method, with dropout behind some."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in pairwise((12, 9, 8, 7, 9, 6, 8, 7, 3)))
        self.bends = nn.ModuleList([nn.Tanh(), nn.GELU(), nn.LeakyReLU(0.2), nn.ELU(1.5, inplace=True), nn.SiLU(), nn.Sigmoid()])
        self.drop = nn.Dropout(0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flatten(1)
        for n, (layer, bend) in enumerate(zip(self.layers, self.bends, strict=False)):
            x = bend(layer(x))
            x = self.drop(x) if n in (1, 3) else x
        return self.layers[7](self.drop(functional.relu(self.layers[6](x), True)))


class BendingByFunctions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d, self.e = (nn.Linear(i, o) for i, o in pairwise((12, 9, 8, 7, 6, 3)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.elu(self.a(x.flatten(1)), 0.7)
        x = functional.leaky_relu(self.b(x), negative_slope=0.3, inplace=False)
        return self.e(torch.sigmoid(self.d(functional.gelu(self.c(x)))))


@pytest.mark.parametrize("make", [Bending, BendingByFunctions])
@pytest.mark.parametrize("clipping", [{}, {"clip": 0.3}], ids=["", "clipped"])
def test_compiled_steps_know_the_activations(make, clipping, monkeypatch):
    method, solver, walked = algorithms.FedElasticNetDyn(0.01, 0.5), SGD(4, 0.3, epochs=2, **clipping), []
    p = problem(make)
    if make is Bending:
        found = p.engine.chain.activations
        names = [name for name, _ in found]
        assert names == ["tanh", "gelu", "leaky_relu", "elu", "silu", "sigmoid", "relu"] and found[3] == ("elu", 1.5)
    walk_rows = compiled.walk_rows
    monkeypatch.setattr("fedtheory.neural.sgd.walk_rows", lambda *args: (walked.append(1), walk_rows(*args)))
    plain = run(problem(make, engine="loop"), method, solver)
    np.testing.assert_allclose(run(p, method, solver), plain, rtol=1e-11, atol=1e-13)
    assert walked
    monkeypatch.setattr("fedtheory.neural.engines.compiled.TAKEN", False)
    np.testing.assert_allclose(run(p, method, solver), plain, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", [*ACTIVATIONS][1:])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_activations_and_their_slopes_are_those_of_torch(name, dtype):
    z = np.concatenate([np.linspace(-6, 6, 121), [0.0, -40.0, 40.0, np.nan]]).astype(dtype)
    leaf = torch.tensor(z, requires_grad=True)
    wanted = activated(leaf, (name, 0.3))
    (slopes,) = torch.autograd.grad(wanted.sum(), leaf)
    found, slope = z.copy(), np.empty_like(z)
    activate(found, slope, [*ACTIVATIONS].index(name), dtype(0.3))
    tolerance = 1e-6 if dtype is np.float32 else 1e-14
    np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=tolerance, atol=tolerance)
    known = np.isfinite(z)
    np.testing.assert_allclose(slope[known], slopes.numpy()[known], rtol=4 * tolerance, atol=4 * tolerance)


class DroppedBeforeTanh(Dropping):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c(torch.relu(self.b(torch.tanh(self.drop(self.a(x.flatten(1)))))))


class OfTheOutputs(Dropping):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(super().forward(x))


class OfFew(Dropping):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.a(x.flatten(1)))
        x = self.drop(x) if len(x) < 1000 else x
        return self.c(torch.relu(self.b(x)))


@pytest.mark.parametrize("make", [OfTheOutputs, OfFew, DroppedBeforeTanh])
def test_dropout_that_a_chain_does_not_have_is_walked_by_products(make):
    """Of the outputs; in small batches only; before an activation that does not let a factor through."""
    p = problem(make)
    assert p.engine.name == "stacked" and p.engine.chain is None
    solver = SGD(4, 0.1, epochs=1)
    np.testing.assert_allclose(run(p, METHODS[0], solver), run(problem(make, engine="loop"), METHODS[0], solver), rtol=1e-11)


def test_what_is_not_compiled_is_walked_by_products(monkeypatch):
    """A penalty of one curvature a coordinate, other networks; batches may have any size."""
    some = LocalObjective(center=torch.zeros(1, dtype=torch.float64))
    assert is_compiled(problem(), SGD(10**6, 0.1, epochs=1), some)
    assert not is_compiled(problem(engine="loop"), SGD(4, 0.1, epochs=1), some)
    assert not is_compiled(problem(images), SGD(4, 0.1, epochs=1), some)
    curved = LocalObjective(center=some.center, curvature=torch.ones(1, dtype=torch.float64))
    assert not is_compiled(problem(), SGD(4, 0.1, epochs=1), curved)


@pytest.mark.parametrize(
    "kernels, wanted", [("SkylakeX", UNCOPIED), ("Haswell", WHOLE), ("of another processor", WHOLE)]
)
def test_tiles_are_those_of_the_kernels_that_openblas_runs(kernels, wanted, monkeypatch):
    monkeypatch.setattr(compiled, "_kernels", lambda: kernels)
    assert compiled.tiles.__wrapped__() == wanted


def test_kernels_are_scipys_beside_libraries_of_solvers():
    """SCS brings an OpenBLAS of its own, which is older and takes other kernels on new processors."""
    pytest.importorskip("scs")
    kernels = compiled._kernels()
    found = [v for v in threadpoolctl.threadpool_info() if v["internal_api"] == "openblas"]
    own = [v["architecture"] for v in found if Path(v["filepath"]).parent.name == "scipy.libs"]
    if len(found) < 2 or not own:
        pytest.skip("SciPy's library is not one of several here")
    assert [kernels] == own


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("tiles", TILES, ids=["one by one", "small", "uncopied", "whole"])
def test_products_in_tiles_are_those_of_numpy(dtype, tiles):
    """Of layers, whose widths no tile divides, and of batches; what a product is added to is scaled once."""
    rng = np.random.default_rng(0)
    for b, i, o in ((1, 1, 1), (7, 37, 11), (130, 790, 41)):
        h, w, g = (rng.standard_normal(shape).astype(dtype) for shape in ((b, i), (o, i), (b, o)))
        z, back, moved = np.full((b, o), np.nan, dtype), np.full((b, i), np.nan, dtype), w.copy()
        along(h, w, z, tiles)
        back_through(g, w, back, tiles)
        add_turned(g, h, moved, dtype(-1), dtype(0.5), tiles)
        exact = [a.astype(np.float64) for a in (h, w, g)]
        wanted = exact[0] @ exact[1].T, exact[2] @ exact[1], exact[1] / 2 - exact[2].T @ exact[0]
        limits = (np.abs(exact[0]) @ np.abs(exact[1]).T, np.abs(exact[2]) @ np.abs(exact[1]))
        for found, right, size, terms in zip(
            (z, back, moved),
            wanted,
            (*limits, np.abs(exact[1]) + np.abs(exact[2]).T @ np.abs(exact[0])),
            (i, o, b + 1),
            strict=True,
        ):
            assert (
                np.abs(found - right) <= 2 * terms * np.finfo(dtype).eps * size
            ).all()  # of any order of summation


def test_compiled_steps_do_not_depend_on_who_walks_beside(threads):
    """Bit for bit: one thread or two, one row at a time or all."""
    alone = run(problem(rows_at_once=1), METHODS[2], SOLVERS[0])
    assert np.array_equal(alone, run(problem(rows_at_once=8), METHODS[2], SOLVERS[0]))
    torch.set_num_threads(1)
    assert np.array_equal(alone, run(problem(), METHODS[2], SOLVERS[0]))


def test_convolutions_in_threads_and_layouts(threads):
    """Channels last, one copy of the module a thread, against vmap on one thread."""
    plain = run(problem(images, "stacked"), algorithms.FedDyn(0.5), SOLVERS[0])
    got = run(problem(images, "loop"), algorithms.FedDyn(0.5), SOLVERS[0])
    assert any("Pool" in name for name in threads)
    np.testing.assert_allclose(got, plain, rtol=1e-9, atol=1e-12)


def test_an_error_in_a_thread_stops_the_others_and_is_raised(threads):
    def work(part: slice, stop: Event) -> None:
        if part.start == 0:
            raise ZeroDivisionError
        assert stop.wait(20)  # a walk looks before every step

    with pytest.raises(ZeroDivisionError):
        cores.side_by_side(problem(), np.array([9, 9]), work)
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("compiled", [True, False])
def test_a_walk_told_to_stop_stops(compiled, monkeypatch):
    """Before the first step: the models are the ones received."""
    batched(monkeypatch, compiled)
    p, stop = problem(), Event()
    stop.set()
    monkeypatch.setattr("fedtheory.neural.sgd.side_by_side", lambda q, lengths, work, **_: work(slice(0, len(lengths)), stop))
    rows = Rows(np.arange(5), np.zeros((5, 1), int), np.ones((5, 1), bool), Stream(0), 1)
    start = torch.randn(5, 1, p.dim, dtype=torch.float64)
    assert torch.equal(p.walk(SGD(4, 0.1, epochs=1), LocalObjective(center=start), start, rows).y, start)


@pytest.mark.parametrize("engine", ["auto", "loop"])
@pytest.mark.parametrize("algorithm", [algorithms.FedAvg(), algorithms.FedElasticNetDyn(0.01, 0.5)], ids=lambda a: a.name)
@pytest.mark.parametrize("l1", ["subgradient", "prox"])
@pytest.mark.parametrize("compiled", [True, False])
def test_divergence_is_told(algorithm, engine, l1, compiled, threads, monkeypatch):
    batched(monkeypatch, compiled)
    with pytest.raises(Diverged):
        run(problem(engine=engine), algorithm, SGD(4, 1e200, epochs=2, l1=l1), rounds=2)


# --- the pieces, by hand --------------------------------------------------------------------------
Y = torch.tensor([[1.0, -2.0, 3.0, 0.5], [0.0, 1.0, -1.0, 2.0]], dtype=torch.float64)
ANCHOR = torch.tensor([[1.0, 0.0, 4.0, 0.45], [0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
LINEAR = torch.tensor([[1.0, 1.0, 0.0, 0.0], [2.0, 0.0, 0.0, -1.0]], dtype=torch.float64)


@each("curvature", [0.0, 3.0, torch.tensor([[3.0, 1.0, 0.0, 2.0]] * 2).double()])
@each("linear", [None, LINEAR])
@each("l1", [0.0, 0.5])
@each("lr", [0.1, torch.tensor([[0.1], [0.2]], dtype=torch.float64)])
def test_the_penalty_by_its_definition(curvature, linear, l1, lr):
    objective = LocalObjective(center=ANCHOR, linear=linear, curvature=curvature, l1=l1)
    gradient = objective.smooth_penalty_gradient(Y) + 0.25 * Y + l1 * torch.sign(Y - ANCHOR)
    got = Y.clone()
    got *= Penalty(objective, 0.25, False, got).before(got, lr)
    torch.testing.assert_close(got, Y - lr * gradient, rtol=1e-14, atol=1e-15)
    got, proximal = Y.clone(), Penalty(objective, 0.25, True, Y)
    got *= proximal.before(got, lr)
    torch.testing.assert_close(got, Y - lr * (gradient - l1 * torch.sign(Y - ANCHOR)), rtol=1e-14, atol=1e-15)
    proximal.after(got := Y.clone(), lr)
    torch.testing.assert_close(got, objective.prox(Y, lr), rtol=1e-14, atol=1e-15)
    if l1:
        assert torch.equal(got == ANCHOR, abs(Y - ANCHOR) <= lr * l1)  # exactly on it


@pytest.mark.parametrize("prox", [False, True])
def test_what_is_not_a_number_stays_so(prox):
    y = torch.tensor([[float("nan"), float("inf"), 1.0]], dtype=torch.float64)
    penalty = Penalty(LocalObjective(center=torch.zeros(1, 3, dtype=torch.float64), curvature=1.0, l1=0.1), 0.0, prox, y)
    y *= penalty.before(y, 0.1)
    penalty.after(y, 0.1)
    assert torch.isnan(y[0, 0]) and not torch.isfinite(y[0, 1]) and torch.isfinite(y[0, 2])


def test_only_the_first_rows_are_touched():
    objective = LocalObjective(center=ANCHOR, linear=LINEAR, curvature=3.0, l1=0.5)
    got = Y.clone()
    Penalty(objective, 0.0, False, got).before(got[:1], 0.1)
    assert torch.equal(got[1], Y[1]) and not torch.equal(got[0], Y[0])


def test_the_table_of_an_epoch_by_hand():
    """5 samples, batches of 2, two epochs: the second starts at 5, and the third batch of each holds one sample."""
    place, weights, counts, lr, epochs = _table(SGD(2, 0.1, epochs=2, epoch_decay=0.5).schedule(5), 5, 2)
    np.testing.assert_array_equal(place, [[0, 1], [2, 3], [4, 0], [5, 6], [7, 8], [9, 0]])
    np.testing.assert_array_equal(weights, [[0.5, 0.5], [0.5, 0.5], [1, 0]] * 2)
    np.testing.assert_allclose(lr, [0.1] * 3 + [0.05] * 3)
    assert epochs == 2 and counts.tolist() == [2, 2, 1] * 2


def test_the_plan_takes_the_streams_orders_longest_client_first():
    p, solver = problem(), SGD(4, 0.1, epochs=2)
    rows = Rows(np.arange(5), np.zeros((5, 1), int), np.ones((5, 1), bool), Stream(3), 2)
    plan = Plan(p, solver, rows)
    np.testing.assert_array_equal(plan.clients, [3, 4, 1, 0, 2])
    np.testing.assert_array_equal(plan.lengths, [10, 6, 4, 2, 2])
    for r, k in enumerate(plan.clients):
        taken = plan.samples[r][plan.weights[r] > 0]
        wanted = [p._clients[k][sample_order(rows, int(k), 0, SIZES[k], epoch)] for epoch in range(2)]
        np.testing.assert_array_equal(taken, np.concatenate(wanted))
        np.testing.assert_allclose(plan.weights[r, : plan.lengths[r]].sum(axis=1), 1)


class Viewing(nn.Module):
    """As much public code is written: a view of what a convolution gives, which channels last in memory do not allow."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.filters, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4 * 36, 3)

    def forward(self, x):
        return self.head(self.filters(x).relu().view(len(x), -1))


class Reshaping(Viewing):
    def forward(self, x):
        return self.head(self.filters(x).relu().flatten(1))


def test_channels_last_is_left_where_a_module_cannot_take_it():
    """Training and evaluation: the same numbers, with the layout and without."""
    rng = np.random.default_rng(0)
    inputs, targets = rng.normal(size=(40, 3, 8, 8)), rng.integers(0, 3, 40)
    runs = []
    for kind, last in ((Viewing, False), (Reshaping, True)):
        more = dict(test=(inputs, targets), dtype="float64", engine="loop")
        p = NeuralProblem(kind(), inputs, targets, np.array_split(np.arange(40), 4), **more)
        assert p.engine.channels_last == last
        runs.append(
            simulate(
                p, algorithms.FedDyn(0.1), 2, p.initial(), Uniform(3), 1, 0, SGD(4, 0.1, epochs=1), ("objective", "test_accuracy"),
                like=p.like_array(),
            )
        )  # fmt: skip
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-9, atol=1e-12)
    for name, values in runs[0].metrics.items():
        np.testing.assert_allclose(runs[1].metrics[name], values, rtol=1e-12)
