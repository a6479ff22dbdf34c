"""Momentum and Adam as local solvers: torch.optim's steps, on a convex problem in NumPy and on networks; who refuses them."""

from __future__ import annotations

import numpy as np
import pytest

from fedtheory import Uniform, algorithms, problems, simulate
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import SGD, Adam, GradientSteps, Momentum
from fedtheory.local.objective import LocalObjective, Rows
from fedtheory.local.sgd import sample_order
from fedtheory.randomness import Stream

torch = pytest.importorskip("torch")
from fedtheory.neural import NeuralProblem  # noqa: E402

RNG = np.random.default_rng(5)
SIZES = (7, 12, 10)  # unequal numbers of steps, and batches cut short
FEATURES, TARGETS = [RNG.normal(size=(n, 4)) for n in SIZES], [RNG.normal(size=n) for n in SIZES]
KINDS = {
    "momentum": (Momentum, {"momentum": 0.8}, torch.optim.SGD, {"momentum": 0.8}),
    "nesterov": (Momentum, {"nesterov": True}, torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    "adam": (Adam, {"betas": (0.8, 0.99), "eps": 1e-6}, torch.optim.Adam, {"betas": (0.8, 0.99), "eps": 1e-6}),
    "adamw": (Adam, {"decoupled_decay": 0.3}, torch.optim.AdamW, {"weight_decay": 0.3}),
}
EXTRAS = {"plain": {}, "clipped": {"clip": 0.5}, "epochs": {"epoch_decay": 0.7}}
CENTER, LINEAR, CURVATURE, L1, RIDGE, ROUND = RNG.normal(size=4), RNG.normal(size=4), 0.4, 0.05, 0.2, 3


def rows():
    n = len(SIZES)
    return Rows(np.arange(n), np.zeros((n, 1), dtype=int), np.ones((n, 1), dtype=bool), Stream(2), ROUND)


def by_torch(client, solver, optimiser, options):
    """torch.optim's steps of one client on the mean square/2 of its batches, with weight decay, penalty and clipping."""
    x, t = torch.tensor(FEATURES[client]), torch.tensor(TARGETS[client])
    y = torch.tensor(START, requires_grad=True)
    made = optimiser([y], lr=1.0, **options)
    center, linear = torch.tensor(CENTER), torch.tensor(LINEAR)
    for epoch, first, last, lr in solver.schedule(SIZES[client], ROUND):
        where = sample_order(rows(), client, 0, SIZES[client], epoch)[first:last]
        made.param_groups[0]["lr"] = lr
        made.zero_grad()
        loss = ((x[where] @ y - t[where]) ** 2).mean() / 2
        decay = RIDGE / 2 * y @ y
        penalty = CURVATURE / 2 * (y - center) @ (y - center) - linear @ y + L1 * (y - center).abs().sum()
        (loss + penalty).backward()
        if solver.clip is not None:
            torch.nn.utils.clip_grad_norm_([y], solver.clip)
        y.grad += torch.autograd.grad(decay, y)[0]
        made.step()
    return y.detach().numpy()


START = RNG.normal(size=4)


@pytest.fixture(scope="module")
def networks():
    module = torch.nn.Linear(4, 1, bias=False)
    clients = np.split(np.arange(sum(SIZES)), np.cumsum(SIZES)[:-1])
    data = np.concatenate(FEATURES), np.concatenate(TARGETS)[:, None]
    return {e: NeuralProblem(module, *data, clients, "squared_error", RIDGE, dtype="float64", engine=e) for e in ("loop", "stacked")}


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_step_is_torch_optims(kind, extra, networks):
    cls, own, optimiser, options = KINDS[kind]
    solver = cls(4, 0.05, epochs=3, decay=0.9, **own, **EXTRAS[extra])
    expected = np.stack([by_torch(k, solver, optimiser, options) for k in range(len(SIZES))])
    plain = problems.LeastSquares(FEATURES, TARGETS, ridge=RIDGE)
    start = np.tile(START, (len(SIZES), 1, 1))
    penalty = {"linear": np.broadcast_to(LINEAR, start.shape), "curvature": CURVATURE, "l1": L1}
    found = solver.solve(plain, LocalObjective(np.broadcast_to(CENTER, start.shape), **penalty), start, rows())
    np.testing.assert_allclose(found.y[:, 0], expected, rtol=1e-12, atol=1e-12)
    assert found.step_sum is None
    sgd = SGD(4, 0.05, epochs=3, decay=0.9, **EXTRAS[extra])
    other = sgd.solve(plain, LocalObjective(np.broadcast_to(CENTER, start.shape), **penalty), start, rows())
    assert np.abs(other.y[:, 0] - expected).max() > 1e-3
    for network in networks.values():
        at, local = torch.tensor(start), LocalObjective(torch.tensor(np.broadcast_to(CENTER, start.shape).copy()), **{
            **penalty, "linear": torch.tensor(penalty["linear"].copy())
        })  # fmt: skip
        found = network.walk(solver, local, at, rows())
        np.testing.assert_allclose(found.y[:, 0], expected, rtol=1e-12, atol=1e-12)
        assert found.step_sum is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_begins_without_a_memory(kind):
    """Two rounds are one round, twice."""
    cls, own, *_ = KINDS[kind]
    problem, solver = problems.LeastSquares(FEATURES, TARGETS), cls(50, 0.05, steps=3, **own)  # whole batches: no draws
    whole = simulate(problem, algorithms.FedAvg(), 2, START, local_solver=solver)
    once = simulate(problem, algorithms.FedAvg(), 1, START, local_solver=solver)
    np.testing.assert_allclose(simulate(problem, algorithms.FedAvg(), 1, once.x, local_solver=solver).x, whole.x, rtol=1e-12)


def test_the_minimiser_is_a_fixed_point_of_adam_with_the_prox():
    problem = problems.LeastSquares(FEATURES, TARGETS, ridge=RIDGE)
    from fedtheory.local import Exact

    start = np.tile(START, (3, 1, 1))
    objective = LocalObjective(np.broadcast_to(CENTER, start.shape), curvature=CURVATURE, l1=1.5)
    exact = Exact().solve(problem, objective, start, rows()).y
    assert (exact == CENTER).any()
    moved = Adam(50, 0.05, steps=6, l1="prox", eps=1e-3).solve(problem, objective, exact, rows()).y
    np.testing.assert_allclose(moved, exact, atol=1e-7)
    assert np.abs(Adam(50, 0.05, steps=6, l1="prox").solve(problem, objective, start, rows()).y - start).max() > 0.1


def test_values_out_of_range_are_refused():
    for cls, options, words in (
        (Momentum, {"momentum": 1.0}, "momentum is 1.0"),
        (Momentum, {"momentum": 0.0}, "momentum is 0.0: .* without any use SGD"),
        (Momentum, {"nesterov": 1}, "nesterov is 1"),
        (Momentum, {"l1": "prox"}, "l1 = 'prox' with momentum: .* another l1"),
        (Adam, {"betas": (0.9, 1.0)}, r"betas\[1\] is 1.0"),
        (Adam, {"betas": 0.9}, "betas = 0.9"),
        (Adam, {"eps": 0.0}, "eps is 0.0"),
        (Adam, {"decoupled_decay": -1.0}, "decoupled_decay is -1.0"),
        (Adam, {"lr": -1.0}, "lr = -1.0"),
    ):
        with pytest.raises(InvalidInput, match=words):
            cls(**{"batch_size": 4, "lr": 0.1, "steps": 1, **options})


@pytest.mark.parametrize("solver", [Momentum(4, 0.1, steps=2), Adam(4, 0.1, steps=2)], ids=["momentum", "adam"])
def test_methods_that_divide_by_the_step_size_refuse(solver):
    problem = problems.LeastSquares(FEATURES, TARGETS)
    name = type(solver).__name__
    dividing = algorithms.Scaffold(), algorithms.FedElasticNetScaffold(0.1, 0.1), algorithms.VRLSGD(), algorithms.FedGATE()
    for method in dividing:
        with pytest.raises(MissingCapability, match=f"{name} steps along what it remembers.*divide.* by the local step size"):
            simulate(problem, method, 1, local_solver=solver)
    with pytest.raises(MissingCapability, match="use adaptive=False"):
        simulate(problem, algorithms.APFL(0.5, adaptive=True), 1, local_solver=solver)
    for method in (algorithms.Scaffold(option="gradient"), algorithms.FedDyn(0.1), algorithms.APFL(0.5), algorithms.Mime(0.5)):
        assert np.isfinite(simulate(problem, method, 2, sampling=Uniform(2), local_solver=solver).x).all()
    assert GradientSteps(1, 0.1).reports_steps and SGD(1, 0.1, steps=1).reports_steps and not solver.reports_steps
