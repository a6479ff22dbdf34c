"""Fisher diagonals of networks, against one autograd call a sample and against softmax regression's closed form."""

from __future__ import annotations

import numpy as np
import pytest

from fedtheory import Uniform, algorithms, simulate
from fedtheory.clients.fisher import client_fisher
from fedtheory.errors import MissingCapability
from fedtheory.local import SGD
from fedtheory.problems import Softmax

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from fedtheory.neural import NeuralProblem, fisher, models  # noqa: E402


def make(module, inputs, targets, **options):
    clients = [np.arange(0, 4), np.arange(4, 11)]
    return NeuralProblem(module, inputs, targets, clients, dtype="float64", ridge=0.3, **options)


def samples(shape=(5,), classes=3):
    rng = np.random.default_rng(0)
    return rng.normal(size=(11, *shape)), rng.integers(classes, size=11)


@pytest.mark.parametrize("kind", ["empirical", "model"])
@pytest.mark.parametrize("pieces", [2**26, 3])
def test_against_one_gradient_a_sample(kind, pieces, monkeypatch):
    monkeypatch.setattr(fisher, "ENTRIES", pieces * (6 * 4 + 5 * 3))
    inputs, targets = samples()
    problem = make(nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)), inputs, targets)
    points = problem.initial() + 0.3 * torch.randn(2, 2, problem.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = client_fisher(problem, points, kind)
    for k, held in enumerate(problem._clients):
        for b in range(2):
            total = 0
            for i in held:
                x = points[k, b].clone().requires_grad_()
                scores = torch.log_softmax(problem.flat.call(x, problem.inputs[i : i + 1])[0], dim=0)
                for c in range(3):
                    (g,) = torch.autograd.grad(-scores[c], x, retain_graph=True)
                    chance = float(scores[c].detach().exp()) if kind == "model" else float(c == targets[i])
                    total = total + chance * g**2
            torch.testing.assert_close(found[k, b], total / len(held), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("kind", ["empirical", "model"])
def test_a_linear_network_has_softmax_regressions(kind):
    """Softmax regression with K - 1 free rows or K: the rows that both have agree where the network's last row is 0."""
    inputs, targets = samples()
    problem = make(nn.Linear(5, 3, bias=False), inputs, targets)
    convex = Softmax([inputs[:4], inputs[4:]], [targets[:4], targets[4:]], num_classes=3)
    rng = np.random.default_rng(1)
    point = rng.normal(size=(2, 1, convex.dim))
    if convex.dim != problem.dim:
        pytest.skip("another parametrisation")
    expected = client_fisher(convex, point, kind)
    by_class = expected.reshape(2, 1, 3, 5) if _class_major(convex) else np.swapaxes(expected.reshape(2, 1, 5, 3), -1, -2)
    mine = point.reshape(2, 1, 3, 5) if _class_major(convex) else np.swapaxes(point.reshape(2, 1, 5, 3), -1, -2)
    found = client_fisher(problem, torch.from_numpy(np.ascontiguousarray(mine.reshape(2, 1, 15))), kind)
    np.testing.assert_allclose(found.numpy(), by_class.reshape(2, 1, 15), rtol=1e-10)


def _class_major(convex):
    """Return which way round the regression keeps its weights, told by its gradient at 0."""
    g = convex.client_gradient(np.zeros((2, 1, convex.dim)))[0, 0]
    return abs(g.reshape(3, 5).sum(axis=0)).max() < 1e-12  # over classes slopes sum to 0


def test_recurrent_networks_go_sample_by_sample():
    rng = np.random.default_rng(0)
    module = models.get("char-lstm").build(num_classes=7, vocabulary=7, embedding=2, hidden=3)
    problem = make(module, rng.integers(7, size=(11, 4)), rng.integers(7, size=11))
    y = problem.initial().expand(2, 1, -1)
    found = client_fisher(problem, y, "empirical")
    total = 0
    for i in range(4):
        x = problem.initial().clone().requires_grad_()
        loss = nn.functional.cross_entropy(problem.flat.call(x, problem.inputs[i : i + 1]), problem.targets[i : i + 1])
        total = total + torch.autograd.grad(loss, x)[0] ** 2 / 4
    torch.testing.assert_close(found[0, 0], total, rtol=1e-9, atol=1e-14)


def test_efl_trains_a_network_with_its_elastic_term():
    inputs, targets = samples()
    problem = make(models.get("mlp-100-100").build((5,), 3, hidden=(4,)), inputs, targets)
    options = {"like": problem.like_array(), "local_solver": SGD(2, 0.1, epochs=2), "record": (), "sampling": Uniform(1)}
    ends = [
        simulate(problem, algorithms.EFL(lam=lam, fisher="empirical"), 6, problem.initial(), **options) for lam in (0.0, 50.0)
    ]
    assert (ends[1].final.u > 0).any() and (ends[1].final.u >= 0).all()
    start = problem.initial().numpy()
    moved = [np.linalg.norm(e.x - start) for e in ends]
    assert moved[1] < moved[0]  # pulled to where the clients' last models were


def test_what_networks_do_not_have():
    inputs, targets = samples()
    problem = make(nn.Linear(5, 3), inputs, targets)
    with pytest.raises(MissingCapability, match="no Gram matrix"):
        client_fisher(problem, problem.initial().expand(2, 1, -1), "gram")
    other = make(nn.Linear(5, 1), inputs, targets.astype(float), loss="squared_error")
    with pytest.raises(MissingCapability, match=r"one label a sample.*not squared_error"):
        simulate(other, algorithms.EFL(lam=1.0), 1, other.initial(), local_solver=SGD(2, 0.1, epochs=1), like=other.like_array())
    texts = make(nn.Linear(5, 3), np.repeat(inputs[:, None], 4, axis=1), np.repeat(targets[:, None], 4, axis=1))
    with pytest.raises(MissingCapability, match=r"one label a sample.*\(\d+, 4\).*fisher='empirical'"):
        client_fisher(texts, texts.initial().expand(2, 1, -1), "model")
