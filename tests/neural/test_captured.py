"""Recorded steps, on a pretend device: a tape of what torch computed, replayed without the Python that led to it."""

from __future__ import annotations

import copy
import pickle
from contextlib import contextmanager
from threading import Event

import numpy as np
import pytest

from fedtheory import Full, Uniform, algorithms, simulate
from fedtheory.local import SGD, Adam, Momentum
from fedtheory.local.objective import LocalObjective, Rows
from fedtheory.participation.cohorts import Bernoulli
from fedtheory.randomness import Stream

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

from fedtheory.neural import captured, plans  # noqa: E402
from fedtheory.neural.networks import CharLstm  # noqa: E402
from fedtheory.neural.optimisers import LocalStep  # noqa: E402
from fedtheory.neural.problem import NeuralProblem  # noqa: E402

RNG = np.random.default_rng(0)
IMAGES, LABELS = RNG.normal(size=(60, 2, 3, 3)), RNG.integers(0, 3, 60)
TEXTS, LETTERS = RNG.integers(0, 9, (60, 5)), RNG.integers(0, 9, 60)
RAGGED = np.split(RNG.permutation(60), [7, 20, 41])
EVEN = np.split(RNG.permutation(60), 4)
HOST = ("_local_scalar_dense", "nonzero", "equal", "masked_select", "_unique")


class Tape(TorchDispatchMode):
    """Records what is computed, on which tensors; fails where the host is needed.

    So it does while a GPU records.
    """

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = str(function).removeprefix("aten.")
        by_mask = name.startswith("index") and any(isinstance(a, torch.Tensor) and a.dtype == torch.bool for a in tree_leaves(args[1:]))
        if by_mask or any(name.startswith(asking) for asking in HOST):  # how many are chosen is known to the host first
            raise RuntimeError(f"operation not permitted when stream is capturing: {function}")
        found = function(*args, **(kwargs or {}))
        self.done.append((function, args, kwargs or {}, found))
        return found


class PretendGraph:
    """Replays a tape into the tensors it was recorded with; unlike a GPU, it does the work as it records."""

    records = 0

    def record(self, work) -> None:
        PretendGraph.records += 1
        tape = Tape()
        with tape:
            work()
        self._done = tape.done

    def replay(self) -> None:
        with torch.no_grad():
            for function, args, kwargs, before in self._done:
                for old, new in zip(tree_leaves(before), tree_leaves(function(*args, **kwargs)), strict=True):
                    if isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr():
                        old.copy_(new)


class PlainGraph:
    """Does the work again."""

    def record(self, work) -> None:
        self.replay = work


class PretendLanes:
    """Says what runs where: rows only between a start and a join."""

    log: list[object]

    def __init__(self) -> None:
        PretendLanes.log = []

    @contextmanager
    def lane(self, row: int):
        self.log.append(row)
        yield
        self.log.append(-1 - row)

    def join(self) -> None:
        self.log.append("join")


def network(kind: str) -> nn.Module:
    torch.manual_seed(0)
    if kind == "lstm":
        return CharLstm(9, 9, embedding=4, hidden=6)
    if kind == "cnn":
        return nn.Sequential(nn.Conv2d(2, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))
    drops = [nn.Dropout(0.3)] if kind == "dropout" else []
    return nn.Sequential(nn.Flatten(), nn.Linear(18, 5), nn.ReLU(), *drops, nn.Linear(5, 3))


def problem(kind: str = "mlp", engine: str = "stacked", clients=RAGGED, **options) -> NeuralProblem:
    data = (TEXTS, LETTERS) if kind == "lstm" else (IMAGES, LABELS)
    return NeuralProblem(network(kind), *data, clients, engine=engine, **{"ridge": 0.01, "dtype": "float64", **options})


def run(p: NeuralProblem, algorithm, solver: SGD, rounds: int = 3) -> np.ndarray:
    how = dict(scenarios=2, seed=1, local_solver=solver, like=p.like_array(), record=())
    return simulate(p, algorithm, rounds, p.initial(), Uniform(3), **how).x


@pytest.fixture
def on_pretend(monkeypatch):
    """Problems on the CPU record their steps with the given kind of graph; returns the function that says which."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a GPU's rows are walked by one thread
    monkeypatch.setattr("fedtheory.neural.engines.compiled.TAKEN", False)
    monkeypatch.setattr("fedtheory.neural.dropout.COMPILED", False)  # a tape has torch's operations only

    def use(graph):
        walks = {}

        def of_problem(p):
            return walks.setdefault(id(p.engine), captured.Walks(graph, PretendLanes)) if graph is not None else None

        monkeypatch.setattr(captured, "of_problem", of_problem)
        return walks

    yield use
    torch.set_num_threads(threads)


ELASTIC = algorithms.FedElasticNetDyn(0.01, 0.5)
CASES = [
    (algorithms.FedAvg(), {}),
    (algorithms.FedDyn(0.5), {"epoch_decay": 0.5}),
    (ELASTIC, {}),
    (ELASTIC, {"l1": "prox", "epoch_decay": 0.5}),
    (ELASTIC, {"clip": 0.3}),
    (ELASTIC, {"clip": 0.3, "clip_spares": "curvature", "l1": "prox"}),
    (algorithms.Scaffold(), {}),
]


WALKS = [  # every case on models that are stacked and on such that are not, two that need most on all other networks
    *((*network, "ragged", case) for network in [("mlp", "stacked"), ("cnn", "loop")] for case in range(len(CASES))),
    *((*other, *given) for other in [("cnn", "stacked"), ("lstm", "loop"), ("lstm", "stacked"), ("dropout", "stacked")]
      for given in [("even", 3), ("ragged", 5)]),
    ("mlp", "stacked", "even", 3),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "engine", "clients", "case"), WALKS)
def test_whole_runs_on_the_tape_are_those_without(kind, engine, clients, case, on_pretend):
    """To the last bit those of the same steps done by Python, and to rounding those of the steps that are not recorded."""
    algorithm, options = CASES[case]
    solver, found, clients = SGD(4, 0.1, epochs=2, **options), {}, {"ragged": RAGGED, "even": EVEN}[clients]
    for graph in (None, PlainGraph, PretendGraph):
        walks = on_pretend(graph)
        found[graph] = run(problem(kind, engine, clients), algorithm, solver, rounds=2)
        assert len(walks) == (graph is not None) and not any(w.refused for w in walks.values())
    np.testing.assert_array_equal(found[PretendGraph], found[PlainGraph])
    np.testing.assert_allclose(found[PretendGraph], found[None], rtol=1e-10, atol=1e-12)


class TwoHeads(nn.Module):
    """Outputs in a dict, with a loss of one's own."""

    def __init__(self) -> None:
        super().__init__()
        self.mean, self.spread = nn.Linear(18, 1), nn.Linear(18, 1)

    def forward(self, x):
        return {"mean": self.mean(x.flatten(1))[:, 0], "spread": 0.5 + self.spread(x.flatten(1))[:, 0].exp()}


def spread_loss(outputs, targets):
    return ((outputs["mean"] - targets).abs() / outputs["spread"] + outputs["spread"].log()).mean()


@pytest.mark.parametrize("how", ["own loss", "smoothing", "weights"])
def test_losses_of_all_kinds_are_recorded(how, on_pretend):
    losses = {
        "own loss": spread_loss, "smoothing": nn.CrossEntropyLoss(label_smoothing=0.1),
        "weights": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5]).double()),
    }  # fmt: skip
    clients = EVEN if how == "own loss" else RAGGED
    found = []
    for graph in (None, PretendGraph):
        walks = on_pretend(graph)
        torch.manual_seed(0)
        module = TwoHeads() if how == "own loss" else network("mlp")
        p = NeuralProblem(module, IMAGES, LABELS, clients, losses[how], dtype="float64", engine="stacked")
        found.append(run(p, algorithms.FedDyn(0.5), SGD(5, 0.1, epochs=2)))
        assert len(walks) == (graph is not None) and not any(w.refused for w in walks.values())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-10, atol=1e-12)


class Both(nn.Module):
    """Samples of two tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.words = network("mlp"), nn.Embedding(9, 3)

    def forward(self, image, text):
        return self.net(image) + self.words(text).mean(dim=1)


@pytest.mark.parametrize("engine", ["stacked", "loop"])
def test_samples_of_several_tensors_are_recorded(engine, on_pretend):
    found = []
    for graph in (None, PretendGraph):
        walks = on_pretend(graph)
        torch.manual_seed(0)
        p = NeuralProblem(Both(), {"image": IMAGES, "text": TEXTS}, LABELS, RAGGED, dtype="float64", engine=engine)
        found.append(run(p, algorithms.FedDyn(0.5), SGD(5, 0.1, epochs=2)))
        assert len(walks) == (graph is not None) and not any(w.refused for w in walks.values())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-10, atol=1e-12)


def test_models_that_cannot_be_stacked_are_recorded_on_streams_side_by_side(on_pretend):
    on_pretend(PretendGraph)
    p = problem("cnn", "loop", EVEN)
    run(p, algorithms.FedAvg(), SGD(4, 0.1, epochs=1), rounds=1)
    rows = 6  # three clients of two scenarios
    once = [*(entry for r in range(rows) for entry in (r, -1 - r)), "join"]
    assert PretendLanes.log == once * (len(PretendLanes.log) // len(once)) and len(PretendLanes.log) == 3 * len(once)
    assert p.engine.lanes is None  # what is measured takes the device as it is
    PretendLanes.log = []
    p.client_gradient(p.initial().expand(4, 1, -1))
    assert PretendLanes.log == []


def test_rows_of_recordings_begin_where_a_gpu_reads_best(on_pretend):
    walks = on_pretend(PretendGraph)
    run(problem(clients=EVEN), ELASTIC, SGD(4, 0.1, epochs=1), rounds=1)
    (kept,) = walks.values()
    (step,) = kept._steps.values()
    for tensor in (step.y, step.step.penalty.pull, step.step.penalty.anchor):
        assert tensor.stride(0) * tensor.element_size() % captured.ALIGNED == 0 and tensor.shape == step.y.shape
    assert step.y.stride(0) - step.y.shape[1] < captured.ALIGNED // 8 and not step.step.penalty.compiled


def test_one_recording_serves_all_rounds(on_pretend, monkeypatch):
    monkeypatch.setattr(captured, "KEPT", 4)
    walks, before = on_pretend(PretendGraph), PretendGraph.records
    p = problem(clients=EVEN)
    run(p, algorithms.FedDyn(0.5), SGD(4, 0.1, epochs=2, decay=0.9), rounds=4)
    assert PretendGraph.records == before + 1
    for batch in (2, 3, 4, 5, 6, 7):
        run(p, algorithms.FedDyn(0.5), SGD(batch, 0.1, epochs=1), rounds=1)
    (kept,) = walks.values()
    assert len(kept._steps) == 4
    monkeypatch.setattr(captured, "_crowded", lambda y: True)
    run(p, algorithms.FedDyn(0.5), SGD(8, 0.1, epochs=1), rounds=1)
    assert len(kept._steps) == 1


@pytest.mark.parametrize("asks", [lambda v: v * float(v > -1), lambda v: v[v > -9].mean()], ids=["number", "mask"])
def test_a_loss_that_asks_the_host_is_walked_step_by_step(asks, on_pretend):
    def loss(outputs, targets):
        return asks(nn.functional.cross_entropy(outputs, targets, reduction="none").mean()[None]).sum()

    solver = SGD(5, 0.1, epochs=1)
    on_pretend(None)
    expected = run(problem("mlp", "auto", EVEN, loss=loss), algorithms.FedAvg(), solver)
    on_pretend(PretendGraph)
    with pytest.warns(UserWarning, match=r"cannot be recorded as a CUDA graph \(operation not permitted.*leave out") as told:
        found = run(problem("mlp", "auto", EVEN, loss=loss), algorithms.FedAvg(), solver)
    assert sum("CUDA graph" in str(w.message) for w in told) == 1
    np.testing.assert_array_equal(found, expected)


def test_a_recording_that_gives_other_numbers_is_not_used(on_pretend):
    class Forgetful(PretendGraph):
        def replay(self) -> None:
            self._done = self._done[:-3]
            super().replay()

    on_pretend(None)
    expected = run(problem(), algorithms.FedAvg(), SGD(4, 0.1, epochs=1))
    on_pretend(Forgetful)
    with pytest.warns(UserWarning, match="does not give what it gives alone"):
        np.testing.assert_array_equal(run(problem(), algorithms.FedAvg(), SGD(4, 0.1, epochs=1)), expected)


def test_memory_that_is_short_is_told_to_those_who_halve(on_pretend):
    class Full(PretendGraph):
        def record(self, work) -> None:
            raise torch.OutOfMemoryError("CUDA out of memory")

    on_pretend(Full)
    with pytest.raises(MemoryError, match="one model does not fit"):
        run(problem(), algorithms.FedAvg(), SGD(4, 0.1, epochs=1))


def test_only_a_gpu_records_and_problems_can_be_copied():
    p = problem()
    assert captured.of_problem(p) is None
    p.walks._steps["one"] = object()
    for other in (copy.deepcopy(p.walks), pickle.loads(pickle.dumps(p.walks))):
        assert not other._steps


def test_only_samples_on_the_gpu_are_recorded():
    """The conditions by themselves, as no GPU is asked for."""
    from types import SimpleNamespace

    for device, on_host in (("cuda", False), ("cuda", True), ("cpu", False)):
        made = SimpleNamespace(device=torch.device(device), on_host=on_host, walks="walks")
        assert captured.of_problem(made) == ("walks" if (device, on_host) == ("cuda", False) else None)


def test_recordings_of_other_solvers_are_not_taken(on_pretend):
    """One problem, walked with one solver and then with another of the same shapes."""
    method = algorithms.FedElasticNetDyn(0.01, 0.5)
    for first, second in (
        (SGD(4, 0.1, epochs=1), SGD(4, 0.1, epochs=1, clip=0.1)),
        (SGD(4, 0.1, epochs=1, clip=0.1), SGD(4, 0.1, epochs=1, clip=0.1, clip_spares="curvature")),
        (SGD(4, 0.1, epochs=1), SGD(4, 0.1, epochs=1, l1="prox")),
    ):
        on_pretend(PretendGraph)
        alone = run(problem(), method, second)
        on_pretend(PretendGraph)
        p = problem()
        assert not np.array_equal(run(p, method, first), alone)
        np.testing.assert_array_equal(run(p, method, second), alone)


def tables_of(p, solver):
    shape = p.num_clients, 1
    rows = Rows(np.arange(p.num_clients), np.zeros(shape, int), np.ones(shape, bool), Stream(0), 1)
    plan = plans.Plan(p, solver, rows)
    return plan, plans.Tables(p, plan, slice(None), p.dtype)


@pytest.mark.parametrize("solver", [SGD(4, 0.1, epochs=1, l1="prox"), Adam(4, 0.1, epochs=1, l1="prox")], ids=["sgd", "adam"])
def test_rows_that_have_arrived_stay_to_the_last_bit(solver):
    """Whatever a step would make of them: a proximal step rounds, and a gradient may be no number."""
    p = problem(dtype="float32", clients=[np.arange(8), np.arange(8, 12), np.arange(12, 16)])
    y = torch.stack([p.initial(), p.initial() + 0.1, torch.full((p.dim,), 1e38)])
    objective = LocalObjective(center=0.3 * torch.randn(3, p.dim, generator=torch.Generator().manual_seed(0)), l1=0.01)
    step, (_, tables) = LocalStep(p, solver, objective, y), tables_of(p, solver)
    tables.lr[:, 1:] = 0.0
    got, walks = y.clone(), captured.Walks(PlainGraph)
    assert walks.walk(step, got, tables, Event())
    assert torch.equal(got[1:], y[1:]) and not torch.equal(got[0], y[0])


def test_one_recording_serves_cohorts_of_about_its_size(on_pretend):
    """Fifty rounds in which each of a hundred clients takes part with probability 0.1."""
    deal = [np.arange(k % 15, k % 15 + 4) for k in range(100)]
    found, law = [], Bernoulli(0.1)
    for graph in (None, PretendGraph):
        walks, before = on_pretend(graph), PretendGraph.records
        p = problem(clients=deal)
        how = dict(seed=1, local_solver=SGD(2, 0.1, epochs=1), like=p.like_array(), record=())
        found.append(simulate(p, algorithms.FedDyn(0.5), 50, p.initial(), law, **how).x)
        assert len(walks) == (graph is not None) and not any(w.refused for w in walks.values())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-12)
    assert PretendGraph.records - before <= 10  # cohorts of 15 sizes, each of which was recorded again once others were kept


def test_models_that_have_arrived_are_computed_no_more(on_pretend, monkeypatch):
    """At lognormal sizes the longest client makes many times the steps of most."""
    sizes = np.maximum(2, np.random.default_rng(3).lognormal(3.0, 1.0, 40)).astype(int).clip(max=60)
    deal, done, found = [np.random.default_rng(k).choice(60, n, replace=False) for k, n in enumerate(sizes)], [], []

    class Counting(PretendGraph):
        def replay(self) -> None:
            done.append(self)
            super().replay()

    walk = captured._Recording.walk

    def counted(self, tables, first, last, stop):
        rows.append((last - first) * len(self.y))
        return walk(self, tables, first, last, stop)

    rows: list[int] = []
    monkeypatch.setattr(captured._Recording, "walk", counted)
    solver = SGD(2, 0.1, epochs=1)
    for graph in (None, Counting):
        walks = on_pretend(graph)
        p = problem(clients=deal)
        how = dict(seed=1, local_solver=solver, like=p.like_array(), record=())
        found.append(simulate(p, algorithms.Scaffold(), 1, p.initial(), Full(), **how).x)
        assert not any(w.refused for w in walks.values())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-10, atol=1e-12)
    needed = int(sum(-(-n // 2) for n in sizes))
    assert len(rows) > 3 and needed <= sum(rows) < 1.2 * needed < 40 * -(-max(sizes) // 2)


@pytest.mark.parametrize("walking", [[1], [10] * 3 + [9, 4, 4, 1], [100] * 300 + [7] * 2, list(range(60, 0, -1)), [33, 33, 2]])
def test_blocks_of_steps_hold_all_rows_on_their_way(walking):
    blocks = list(captured._blocks(walking))
    assert [b[0] for b in blocks] == [0, *(b[1] for b in blocks[:-1])] and blocks[-1][1] == len(walking)
    for first, last, size in blocks:
        assert 0 < last - first <= captured.STEPS
        assert walking[first] <= size <= max(walking[last - 1] * 4 // 3, captured._rows_of(walking[0]))
    sizes = [size for *_, size in blocks]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] <= max(walking[-1] * 3 // 2, captured._rows_of(walking[-1]))


SOLVERS = {
    "momentum": Momentum(4, 0.05, epochs=2), "nesterov": Momentum(4, 0.05, epochs=2, nesterov=True, clip=0.3),
    "adam": Adam(4, 0.01, epochs=2, epoch_decay=0.5), "adamw": Adam(4, 0.01, epochs=2, l1="prox", decoupled_decay=0.1),
}  # fmt: skip


@pytest.mark.parametrize("loss", ["cross_entropy", "own"])
@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_solvers_with_a_memory_are_recorded(solver, loss, on_pretend):
    """With a loss of one's own, short batches are launched between two recorded steps, on the same memory."""
    check(on_pretend, lambda: problem(loss=loss if loss != "own" else OWN), ELASTIC, solver)


def OWN(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets) + 0.1 * outputs.square().mean()


def check(on_pretend, make, algorithm, solver, rounds: int = 2) -> list[np.ndarray]:
    """Whole runs recorded and not: the same numbers, and at least a step of each round replayed."""
    found = []
    for graph in (None, PlainGraph, PretendGraph):
        walks = on_pretend(graph)
        found.append(run(make(), algorithm, solver, rounds))
        assert len(walks) == (graph is not None)
        assert all(w._steps and not w.refused for w in walks.values())
    np.testing.assert_array_equal(found[2], found[1])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("engine", ["stacked", "loop"])
@pytest.mark.parametrize("clients", [EVEN, RAGGED], ids=["even", "ragged"])
def test_augmented_images_are_recorded(engine, clients, on_pretend):
    check(on_pretend, lambda: problem("cnn", engine, clients, augment="flip-crop"), algorithms.FedDyn(0.5), SGD(4, 0.1, epochs=2))


@pytest.mark.parametrize("engine", ["stacked", "loop"])
@pytest.mark.parametrize("what", ["own loss", "statistics", "dropout"])
def test_full_batches_that_cannot_be_padded_are_recorded(what, engine, on_pretend):
    def make():
        torch.manual_seed(0)
        if what != "statistics":
            return problem("dropout" if what == "dropout" else "mlp", engine, loss=OWN)
        layers = nn.Flatten(), nn.Linear(18, 5), nn.BatchNorm1d(5, track_running_stats=False), nn.ReLU(), nn.Linear(5, 3)
        clients = np.split(np.arange(60), [6, 20, 40])
        return NeuralProblem(nn.Sequential(*layers), IMAGES, LABELS, clients, engine=engine, dtype="float64")

    # the sign rule would move the bias before such a norm, whose gradient is 0 but for rounding
    method = algorithms.FedDyn(0.5) if what == "statistics" else ELASTIC
    check(on_pretend, make, method, SGD(4, 0.1, epochs=2))


@pytest.mark.parametrize("engine", ["stacked", "loop"])
@pytest.mark.parametrize("solver", [SGD(4, 0.1, epochs=1), SGD(4, 0.1, epochs=1, clip=0.1), Adam(4, 0.1, epochs=1)])
def test_steps_that_are_launched_do_not_ask_the_host(solver, engine):
    """The plan knows on the host how many samples of a padded batch are real."""
    p = problem(engine=engine, loss=OWN)
    plan, tables = tables_of(p, solver)
    assert not plan.full.all()
    y = p.initial().expand(4, -1).clone()
    step = LocalStep(p, solver, LocalObjective(center=y.clone(), curvature=0.1, l1=0.01), y)
    with torch.no_grad():
        for j, r in enumerate(tables.walking):
            with Tape():
                step(y[:r], tables.batch(j), tables.size(j), j + 1)
    assert bool(torch.isfinite(y).all())


def test_a_problem_is_tried_once(on_pretend):
    tried = []

    class Refusing(PretendGraph):
        def record(self, work) -> None:
            tried.append(work)
            raise RuntimeError("operation not permitted")

    on_pretend(Refusing)
    p = problem()
    with pytest.warns(UserWarning, match="cannot be recorded"):
        run(p, algorithms.FedAvg(), SGD(4, 0.1, epochs=1), 3)
    run(p, algorithms.FedAvg(), Adam(3, 0.1, epochs=1), 2)  # another warning would be an error
    assert len(tried) == 1
