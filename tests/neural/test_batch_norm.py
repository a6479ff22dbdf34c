"""BatchNorm whose running statistics are constants, and BatchNorm with the statistics of each batch."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from fedtheory import algorithms, errors, local, neural
from fedtheory.neural import evaluation

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

RNG = np.random.default_rng(0)
ROWS, IMAGES = RNG.normal(size=(120, 6)), RNG.normal(size=(120, 2, 4, 4))
LABELS = ROWS[:, :3].argmax(axis=1)


def frozen():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    module[1].running_mean.uniform_(-1, 1), module[1].running_var.uniform_(0.5, 2)
    module[1].eval()
    return module


def of_batches():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8, track_running_stats=False), nn.ReLU(), nn.Linear(8, 3))


def of_images():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, track_running_stats=False), nn.Flatten(), nn.Linear(12, 3))


class Centred(nn.Sequential):
    """Batch statistics in a forward pass, which no layer tells of."""

    def forward(self, x):
        return functional.batch_norm(super().forward(x - x.mean(dim=0)), None, None, training=True)


def of_its_own():
    torch.manual_seed(0)
    return Centred(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


NETWORKS = {
    "frozen": (frozen, ROWS), "of batches": (of_batches, ROWS), "of images": (of_images, IMAGES), "its own": (of_its_own, ROWS),
}  # fmt: skip


def made(name, clients, **options):
    module, inputs = NETWORKS[name]
    return neural.NeuralProblem(module(), inputs, LABELS, clients, dtype="float64", **options)


def trained(problem, solver, algorithm=None, rounds=2):
    return neural.train(problem, algorithm or algorithms.FedAvg(), rounds, None, solver, record=["objective"], progress=False)


@pytest.mark.parametrize("engine", ["stacked", "loop"])
@pytest.mark.parametrize("name", NETWORKS)
def test_steps_are_those_of_a_plain_torch_loop(name, engine):
    """Clients of 10, 17 and 23 samples, each taking all of them at once: what order they have does not matter."""
    clients = [np.arange(10), np.arange(10, 27), np.arange(27, 50)]
    module, inputs = NETWORKS[name]
    server = module().double()
    for _ in range(2):
        sent = []
        for held in clients:
            model = copy.deepcopy(server)
            optimiser = torch.optim.SGD(model.parameters(), lr=0.2)
            for _ in range(3):
                optimiser.zero_grad()
                functional.cross_entropy(model(torch.from_numpy(inputs[held])), torch.from_numpy(LABELS[held])).backward()
                optimiser.step()
            sent.append(nn.utils.parameters_to_vector(model.parameters()).detach())
        nn.utils.vector_to_parameters(sum(len(c) / 50 * x for c, x in zip(clients, sent, strict=True)), server.parameters())
    run = trained(made(name, clients, engine=engine), local.SGD(25, 0.2, epochs=3), algorithms.FedAvg())
    expected = nn.utils.parameters_to_vector(server.parameters()).detach().numpy()
    np.testing.assert_allclose(run.x[0], expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("name", ["of batches", "of images", "its own"])
@pytest.mark.parametrize("algorithm", [algorithms.FedDyn(0.1), algorithms.Scaffold(), algorithms.ElasticAggregation()], ids=str)
def test_engines_agree_on_clients_of_unequal_size(name, algorithm):
    clients = [np.arange(13), np.arange(13, 40), np.arange(40, 58)]
    found = [
        trained(made(name, clients, engine=engine, **more), local.SGD(5, 0.1, epochs=2), algorithm).x
        for engine, more in (("stacked", {}), ("loop", {}), ("stacked", {"rows_at_once": 1}))
    ]
    for x in found:
        np.testing.assert_allclose(x, found[0], rtol=0, atol=1e-11)


def test_running_statistics_are_constants_of_the_problem():
    p = made("frozen", [np.arange(20)])
    assert p.dim == 6 * 8 + 8 + 16 + 27 and not p.flat.depends_on_batch  # with the layer's own scale and shift
    run = trained(p, local.SGD(5, 0.2, epochs=2))
    back, given = run.module()[1], frozen()[1]
    assert torch.equal(back.running_mean, given.running_mean) and torch.equal(back.running_var, given.running_var)
    assert not back.training and not torch.equal(back.weight, given.weight)


def test_what_is_measured_of_batches_is_measured_in_pieces_of_much_the_same_size(monkeypatch):
    """f_k, its gradient and the objective agree with torch on the same pieces, and do not mix clients."""
    monkeypatch.setattr(evaluation, "OF_ONE_BATCH", 9)
    clients = [np.arange(10), np.arange(10, 40)]
    p, module = made("of batches", clients), of_batches().double()

    def value(held):
        pieces = np.array_split(held, -(-len(held) // 9))
        assert {len(c) for c in pieces} <= {5, 7, 8}
        size = max(map(len, pieces))
        pieces = [held[a : a + size] for a in range(0, len(held), size)]
        each = [functional.cross_entropy(module(torch.from_numpy(ROWS[c])), torch.from_numpy(LABELS[c])) * len(c) for c in pieces]
        return sum(each) / len(held)

    x = p.initial()
    values = torch.stack([value(held) for held in clients])
    assert torch.allclose(p.client_value(x.expand(2, 1, -1))[:, 0], values, rtol=0, atol=1e-14)
    assert float(p.objective(x)) == pytest.approx(float((10 * values[0] + 30 * values[1]).detach() / 40), abs=1e-14)
    gradient = torch.cat([g.reshape(-1) for g in torch.autograd.grad(values[1], list(module.parameters()))])
    assert torch.allclose(p.client_gradient(x.expand(2, 1, -1))[1, 0], gradient, rtol=0, atol=1e-14)


def test_pieces_have_much_the_same_size():
    for count in range(2, 200):
        for most in (2, 3, 7, 31):
            size = evaluation.alike(count, most)
            assert count % size != 1 and (size <= most or all(count % s == 1 for s in range(2, most + 1)))
    for count in (1, 2, 499, 500, 501, 1000, 1001, 12345):
        size = evaluation.alike(count)
        cut = [min(size, count - a) for a in range(0, count, size)]
        assert max(cut) <= 500 and sum(cut) == count and (len(cut) == 1 or min(cut) > max(cut) - len(cut) - 1)


def test_statistics_that_do_not_exist_are_refused():
    p = made("of batches", [np.arange(10), np.arange(10, 31)])
    with pytest.raises(errors.MissingCapability, match="client 1 has 21 samples, and batch_size = 5 leaves a batch of one"):
        trained(p, local.SGD(5, 0.1, epochs=1))
    trained(made("of images", [np.arange(10), np.arange(10, 31)]), local.SGD(5, 0.1, epochs=1))  # one image has 4 values a channel
    with pytest.raises(errors.MissingCapability, match=r"Fisher diagonal.*depends on its batch"):
        trained(made("of batches", [np.arange(10)]), local.SGD(5, 0.1, epochs=1), algorithms.EFL(0.1))
    module = of_batches()
    module[1] = nn.BatchNorm1d(8)
    with pytest.raises(errors.MissingCapability, match=r"1 is a BatchNorm1d.*GroupNorm.*\.eval\(\).*track_running_stats=False"):
        neural.NeuralProblem(module, ROWS, LABELS, [np.arange(10)])
