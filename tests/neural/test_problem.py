"""Networks as problems: engines agree, the walk is SGD's, and a plain PyTorch loop gives the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

from fedtheory import Uniform, algorithms, simulate
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import SGD
from fedtheory.local.sgd import sample_order
from fedtheory.randomness import Stream

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from fedtheory.local.objective import Rows  # noqa: E402
from fedtheory.neural import threads  # noqa: E402
from fedtheory.neural.problem import NeuralProblem  # noqa: E402

ENGINES = ("stacked", "loop")


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3))


def problem(engine: str = "auto", **options) -> NeuralProblem:
    rng = np.random.default_rng(0)
    inputs, targets = rng.normal(size=(40, 2, 3)), rng.integers(0, 3, 40)
    clients = np.split(rng.permutation(40), [4, 11, 12, 30])  # 4, 7, 1, 18 and 10 samples
    return NeuralProblem(network(), inputs, targets, clients, engine=engine, dtype="float64", **{"ridge": 0.01, **options})


def run(p: NeuralProblem, algorithm, solver: SGD, rounds: int = 3):
    start = p.initial()
    return simulate(p, algorithm, rounds, start, Uniform(3), scenarios=2, seed=1, local_solver=solver, like=p.like_array(), record=())


@pytest.mark.parametrize(
    "solver",
    [SGD(4, 0.1, epochs=2, decay=0.9), SGD(3, 0.1, steps=5), SGD(3, 0.1, epochs=2, epoch_decay=0.5), SGD(4, 0.1, epochs=1, l1="prox")],
    ids=["epochs", "steps", "epoch-decay", "prox"],
)
@pytest.mark.parametrize(
    "algorithm",
    [algorithms.FedAvg(), algorithms.FedDyn(0.5), algorithms.FedElasticNetDyn(0.01, 0.5), algorithms.Scaffold("difference")],
    ids=lambda a: a.name,
)
def test_engines_agree(algorithm, solver):
    first, *others = (run(problem(e), algorithm, solver).x for e in ENGINES)
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-9, atol=1e-12)


def test_a_round_is_what_a_plain_loop_gives():
    """FedAvg, one client after the other with torch.optim.SGD, on the mini-batches the stream says."""
    p = problem()
    got = run(p, algorithms.FedAvg(), SGD(4, 0.1, epochs=2), rounds=1).x
    for scenario in range(2):
        cohort = Uniform(3).sample(Stream(1), 1, range(2), 5).members[scenario]
        total, weighted = 0, 0
        for client in cohort:
            net = network().double()
            optimiser = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=0.01)
            held = p._clients[client]
            rows = Rows(np.array([client]), np.array([[scenario]]), np.ones((1, 1), bool), Stream(1), 1)
            for epoch in range(2):
                order = held[sample_order(rows, 0, 0, len(held), epoch)]
                for a in range(0, len(held), 4):
                    batch = order[a : a + 4]
                    optimiser.zero_grad()
                    nn.functional.cross_entropy(net(p.inputs[batch]), p.targets[batch]).backward()
                    optimiser.step()
            flat = torch.cat([q.detach().reshape(-1) for q in net.parameters()]).numpy()
            weighted, total = weighted + len(held) * flat, total + len(held)
        np.testing.assert_allclose(got[scenario], weighted / total, rtol=1e-10)


def test_gradients_are_those_of_the_objective():
    p = problem()
    x = p.initial().clone().requires_grad_()
    total = 0
    for k, held in enumerate(p._clients):
        total = total + p.weights[k] * nn.functional.cross_entropy(p.flat.call(x, p.inputs[held]), p.targets[held])
    (expected,) = torch.autograd.grad(total + 0.005 * x @ x, x)
    for engine in ENGINES:
        np.testing.assert_allclose(problem(engine).full_gradient(p.initial()[None])[0], expected, rtol=1e-10)
    assert float(p.objective(p.initial()[None])[0]) == pytest.approx(float((total + 0.005 * x @ x).detach()), rel=1e-12)


def test_chunks_do_not_change_the_numbers():
    whole = run(problem(), algorithms.FedDyn(0.5), SGD(4, 0.1, epochs=1)).x
    np.testing.assert_allclose(run(problem(rows_at_once=1), algorithms.FedDyn(0.5), SGD(4, 0.1, epochs=1)).x, whole, rtol=1e-10)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_in_threads_beside_one_another_do_not_disturb_each_other(engine, monkeypatch):
    """Autograd counts what is written into a tensor that a backward pass needs, also into other rows of it."""
    module = nn.Sequential(nn.Flatten(), nn.Linear(6, 30), nn.Softplus(), nn.Linear(30, 30), nn.Softplus(), nn.Linear(30, 3))
    inputs, targets = np.random.default_rng(0).normal(size=(400, 2, 3)), np.arange(400) % 3
    p = NeuralProblem(module, inputs, targets, np.split(np.arange(400), 4), engine=engine, dtype="float64", rows_at_once=1)
    before = torch.get_num_threads()

    def trained():
        start, solver = p.initial(), SGD(4, 0.1, epochs=3)
        return simulate(p, algorithms.FedAvg(), 5, start, local_solver=solver, like=p.like_array(), record=()).x

    alone = trained()
    monkeypatch.setattr(threads, "WORTH_A_THREAD", 0)
    torch.set_num_threads(3)
    try:
        beside = trained()
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(beside, alone, rtol=0, atol=1e-12)


def test_bad_input():
    with pytest.raises(InvalidInput, match="scalar"):
        run(problem("loop", loss=lambda outputs, targets: outputs), algorithms.FedAvg(), SGD(4, 0.1, epochs=1))
    with pytest.raises(InvalidInput, match="client 1 has no samples"):
        NeuralProblem(network(), np.zeros((2, 6)), np.zeros(2, int), [[0, 1], []])
    with pytest.raises(InvalidInput, match="clients has no samples"):
        NeuralProblem(network(), np.zeros((2, 6)), np.zeros(2, int), [])
    with pytest.raises(InvalidInput, match="client 0 names sample -1"):
        NeuralProblem(network(), np.zeros((2, 6)), np.zeros(2, int), [[0, -1]])
    with pytest.raises(InvalidInput, match="client 1 names sample 0 3 times"):
        NeuralProblem(network(), np.zeros((2, 6)), np.zeros(2, int), [[1], [0, 0, 0]])
    for label in (-100, 99):
        with pytest.raises(InvalidInput, match=f"Target {label} is out"):
            NeuralProblem(network(), np.zeros((3, 6)), np.array([0, 0, label]), [[0, 1, 2]])
        with pytest.raises(InvalidInput, match=f"test samples.*Target {label}"):
            NeuralProblem(network(), np.zeros((1, 6)), np.zeros(1, int), [[0]], test=(np.zeros((1, 6)), np.array([label])))
    for rows in (0, "all"):
        with pytest.raises(InvalidInput, match="rows_at_once"):
            problem(rows_at_once=rows)
    if not torch.cuda.is_available():
        with pytest.raises(InvalidInput, match="finds no CUDA"):
            problem(device="cuda")
    with pytest.raises(MissingCapability, match=r"like=problem\.like_array"):
        simulate(problem(), algorithms.FedAvg(), 1, local_solver=SGD(4, 0.1, epochs=1))


def test_sequences_through_linear_layers_are_what_the_module_makes_of_them():
    """(length, 6) inputs and a label a step: not what the compiled steps are for; one by one or together, the same numbers."""
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(8, 5, 6)), rng.integers(0, 3, (8, 5))
    made = []
    for engine in ("loop", "stacked"):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
        p = NeuralProblem(module, x, t, [range(3), range(3, 7), [7]], dtype="float64", engine=engine, test=(x, t))
        made.append(p)
    assert made[1].engine.chain is None
    np.testing.assert_allclose(*(run(p, algorithms.FedAvg(), SGD(2, 0.1, epochs=2)).x for p in made), rtol=1e-12)
    outputs = made[0].flat.module(torch.from_numpy(x))
    expected = nn.functional.cross_entropy(outputs.reshape(-1, 3), torch.from_numpy(t).reshape(-1))
    found = made[0].evaluate(made[0].initial()[None])
    np.testing.assert_allclose(found["test_loss"], float(expected.detach()), rtol=1e-12)
    np.testing.assert_allclose(found["test_accuracy"], float((outputs.argmax(-1).numpy() == t).mean()), rtol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("first, last", [(0, 18), (3, 9), (0, 1), (11, 20), (40, 50)])
def test_output_gradients_of_unequal_clients(engine, first, last):
    """Clients with all of these samples, some and none, two points each, a row or all at once: against autograd, one by one."""
    p = problem(engine)
    y = torch.randn(5, 2, p.dim, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    wanted = torch.zeros_like(y)
    for k, held in enumerate(p._clients):
        x = p.inputs[torch.as_tensor(held[first:last])]
        for b in range(2 if len(x) else 0):
            module = network().double()
            nn.utils.vector_to_parameters(y[k, b], module.parameters())
            sum((module(one[None]) ** 2).sum() for one in x).div(len(x)).backward()
            wanted[k, b] = torch.cat([v.grad.reshape(-1) for v in module.parameters()])
    torch.testing.assert_close(p.client_output_gradient(y, first, last), wanted, rtol=1e-12, atol=1e-13)
    p.rows_at_once = 1
    torch.testing.assert_close(p.client_output_gradient(y, first, last), wanted, rtol=1e-12, atol=1e-13)
    if first == 3:
        assert (wanted[2] == 0).all() and all(abs(wanted[k]).max() > 0.1 for k in (0, 1, 3, 4))
        padded = torch.stack([p.engine.output_gradient(y[1], p.inputs[:4].expand(2, 4, 2, 3), torch.tensor([n, n])) for n in (2, 4)])
        assert abs(padded[0] - padded[1]).max() > 1e-3  # the mutant: padding counted


@pytest.mark.parametrize("engine", ENGINES)
def test_output_gradients_are_padded_with_a_clients_own_samples(engine):
    """Sample 0 is nobody's, and its output is not finite: 0 times it would be NaN."""

    class OfLogarithms(nn.Linear):
        def forward(self, x):
            return super().forward(x.log())

    inputs = np.random.default_rng(0).uniform(0.5, 2, size=(9, 4))
    inputs[0] = 0
    p = NeuralProblem(OfLogarithms(4, 3), inputs, np.zeros(9, int), [range(1, 4), range(4, 9)], engine=engine)
    assert bool(torch.isfinite(p.client_output_gradient(p.initial().expand(2, 1, -1), 0, 9)).all())
