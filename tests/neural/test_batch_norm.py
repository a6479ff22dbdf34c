"""BatchNorm whose running statistics are constants, BatchNorm with the statistics of each batch, and BatchNorm in training."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from fedtheory import algorithms, errors, local, messages, neural, participation, problems, simulate
from fedtheory.local.objective import Rows
from fedtheory.local.sgd import sample_order
from fedtheory.neural import evaluation, threads
from fedtheory.randomness import Stream

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
    with pytest.raises(errors.MissingCapability, match="client 0 has 11 samples, and batch_size = 5 leaves a batch of one"):
        trained(averaged("rows", [np.arange(11)]), local.SGD(5, 0.1, epochs=1))


# --- BatchNorm in training: running statistics are coordinates of a point, which rounds average -----------------------
class Twice(nn.Module):
    """One layer that a forward pass meets twice."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.norm(self.first(x)) ** 2)))


TRAINING = {
    "rows": (lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)), ROWS),
    "all batches alike": (lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8, momentum=None), nn.ReLU(), nn.Linear(8, 3)), ROWS),
    "met twice": (Twice, ROWS),
    "images": (lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, affine=False), nn.Flatten(), nn.Linear(12, 3)), IMAGES),
    "of samples": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 3), nn.InstanceNorm2d(3, affine=True, track_running_stats=True), nn.Flatten(), nn.Linear(12, 3)
        ),
        IMAGES,
    ),
}
CLIENTS = [np.arange(11), np.arange(11, 38), np.arange(38, 62)]


def fresh(name):
    torch.manual_seed(0)
    return TRAINING[name][0]()


def averaged(name, clients=CLIENTS, **options):
    return neural.NeuralProblem(fresh(name), TRAINING[name][1], LABELS, clients, dtype="float64", **{"engine": "loop", **options})


def as_vector(state, module):
    """The point of a state_dict: parameters, then statistics."""
    names = [n for n, _ in module.named_parameters()] + [n for n, _ in module.named_buffers()]
    return torch.cat([state[n].reshape(-1).double() for n in names]).numpy()


def local_epochs(model, name, k, round_index, solver, mu=0.0, ridge=0.0, seed=0):
    """What everybody writes: the client's epochs in train mode, in the order in which `SGD` takes its samples."""
    model.train()
    start = [p.detach().clone() for p in model.parameters()]
    optimiser, held = torch.optim.SGD(model.parameters(), lr=solver.lr), CLIENTS[k]
    rows = Rows(np.array([k]), np.zeros((1, 1), int), np.ones((1, 1), bool), Stream(seed), round_index)
    for epoch in range(solver.epochs):
        for part in torch.from_numpy(held[sample_order(rows, 0, 0, len(held), epoch)]).split(solver.batch_size):
            optimiser.zero_grad()
            loss = functional.cross_entropy(model(torch.from_numpy(TRAINING[name][1])[part]), torch.from_numpy(LABELS)[part])
            for p, p0 in zip(model.parameters(), start, strict=True):
                loss = loss + mu / 2 * (p - p0).square().sum() + ridge / 2 * p.square().sum()
            loss.backward()
            optimiser.step()


def by_hand(name, rounds, solver, shares, server=None, **more):
    """Rounds that average state_dicts."""
    server = server or fresh(name).double()
    for t in range(1, rounds + 1):
        states = []
        for k in range(len(CLIENTS)):
            model = copy.deepcopy(server)
            local_epochs(model, name, k, t, solver, **more)
            states.append(as_vector(model.state_dict(), model))
        x, place = torch.from_numpy(sum(w * y for w, y in zip(shares, states, strict=True))), 0
        for value in (*server.parameters(), *server.buffers()):
            value.data = x[place : place + value.numel()].reshape(value.shape)  # a mean of counts stays one
            place += value.numel()
    return server, x.numpy()


SOLVER = local.SGD(9, 0.1, epochs=2)  # 4, 6 and 6 batches, the last ones of 2, 9 and 6
SHARES = np.array([11, 27, 24]) / 62


@pytest.mark.parametrize("name", TRAINING)
@pytest.mark.parametrize("rows_at_once", [None, 1])
def test_a_run_is_that_of_the_usual_loop_which_averages_state_dicts(name, rows_at_once):
    run = trained(averaged(name, rows_at_once=rows_at_once), SOLVER, rounds=3)
    server, wanted = by_hand(name, 3, SOLVER, SHARES)
    np.testing.assert_allclose(run.x[0], wanted, rtol=0, atol=1e-12)
    server.eval()
    inputs, labels = torch.from_numpy(TRAINING[name][1]), torch.from_numpy(LABELS)
    losses = [functional.cross_entropy(server(inputs[c]), labels[c]).item() for c in CLIENTS]
    assert run.metrics["objective"][-1] == pytest.approx(float(SHARES @ np.array(losses)), abs=1e-12)
    for value, other in zip(run.module(dtype="float64").buffers(), server.buffers(), strict=True):
        assert torch.allclose(value.double(), other.round() if value.dtype == torch.int64 else other, rtol=1e-6)  # the module is single


def test_threads_have_modules_and_statistics_of_their_own(monkeypatch):
    alone, before = trained(averaged("rows"), SOLVER).x, torch.get_num_threads()
    monkeypatch.setattr(threads, "WORTH_A_THREAD", 0)
    torch.set_num_threads(3)
    try:
        np.testing.assert_allclose(trained(averaged("rows"), SOLVER).x, alone, rtol=0, atol=1e-13)
    finally:
        torch.set_num_threads(before)


def test_penalty_and_weight_decay_leave_statistics_alone_and_another_momentum_is_noticed():
    solver, fedprox = local.SGD(9, 0.1, epochs=2), algorithms.FedProx(0.7, "samples")
    run = trained(averaged("rows", ridge=0.3), solver, fedprox)
    np.testing.assert_allclose(run.x[0], by_hand("rows", 2, solver, SHARES, mu=0.7, ridge=0.3)[1], rtol=0, atol=1e-12)
    other = fresh("rows").double()
    other[1].momentum = 0.11
    off = np.abs(by_hand("rows", 2, solver, SHARES, other, mu=0.7, ridge=0.3)[1] - run.x[0])
    d = off.size - 17
    assert off[:d].max() < 1e-12 and off[d:-1].min() > 1e-5 and off[-1] == 0


METHODS = [
    algorithms.FedAvg("printed"), algorithms.Scaffold(), algorithms.FedDyn(0.1), algorithms.FedElasticNetProx(0.1, 0.01),
    algorithms.FedElasticNetDyn(0.1, 0.01), algorithms.FedElasticNetScaffold(0.1, 0.01), algorithms.VRLSGD(), algorithms.FedGATE(),
    algorithms.ElasticAggregation(),
]  # fmt: skip


@pytest.mark.parametrize("algorithm", METHODS, ids=lambda a: a.name)
def test_a_method_treats_parameters_as_without_statistics_and_averages_statistics(algorithm):
    """Running statistics have no part in a step, so that the parameters are those of statistics of each batch alone."""
    seen, sampling = [], participation.Uniform(2)
    p = averaged("rows", test=(ROWS[62:], LABELS[62:]), ridge=0.1)
    share = p.sample_counts / p.sample_counts.sum()

    def look(t, old, new, clients):
        x, y, members = old.x[0, -17:], clients.results[-1].y[0, :, -17:], clients.cohort.members[0]
        own = share[members]
        weights = {"cohort": np.full(2, 0.5), "printed": own, "samples": own / own.sum()}
        w = torch.from_numpy(weights[getattr(algorithm, "aggregation", "cohort")])
        assert torch.allclose(new.x[0, -17:], (1 - w.sum()) * x + w @ y, rtol=0, atol=1e-13)
        assert float(new.x[0, -9:-1].min()) > 0
        seen.append(float((y - x).abs().max()))

    options = {"sampling": sampling, "local_solver": local.SGD(9, 0.1, steps=5, clip=1.0), "record": ("drift", "nonzeros")}
    run = simulate(p, algorithm, 4, p.initial(), like=p.like_array(), on_round=look, **options)
    assert len(seen) == 4 and min(seen) > 1
    if not isinstance(algorithm, algorithms.ElasticAggregation):  # its sensitivities are those of outputs as they are measured
        module = fresh("rows")
        module[1] = nn.BatchNorm1d(8, track_running_stats=False)
        q = neural.NeuralProblem(module, ROWS, LABELS, CLIENTS, dtype="float64", engine="loop", ridge=0.1)
        plain = simulate(q, algorithm, 4, q.initial(), like=q.like_array(), **options)
        np.testing.assert_allclose(run.x[:, :-17], plain.x, rtol=0, atol=1e-12)
        np.testing.assert_allclose(run.metrics["drift"], plain.metrics["drift"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("solver", [local.Momentum(9, 0.1, epochs=1), local.Adam(9, 0.01, epochs=1)], ids=lambda s: type(s).__name__)
def test_solvers_with_a_memory_move_statistics_too(solver):
    p, module = averaged("rows"), fresh("rows")
    module[1] = nn.BatchNorm1d(8, track_running_stats=False)
    plain = neural.NeuralProblem(module, ROWS, LABELS, CLIENTS, dtype="float64", engine="loop")
    x, y = trained(p, solver).x, trained(plain, solver).x
    np.testing.assert_allclose(x[:, :-17], y, rtol=0, atol=1e-12)
    assert x[0, -1] == pytest.approx(SHARES @ [4, 6, 6]) and np.abs(x[0, -17:] - p.initial()[-17:].numpy()).min() > 1e-3


def test_what_is_measured_takes_statistics_as_constants_and_nothing_of_the_users_module_changes():
    module = fresh("rows")
    kept = copy.deepcopy(module.state_dict())
    p = neural.NeuralProblem(module, ROWS, LABELS, CLIENTS, dtype="float64", ridge=0.4, engine="loop")
    x = trained(p, SOLVER).final.x
    own = p.module(x, dtype="float64").eval()
    held = torch.from_numpy(ROWS[CLIENTS[1]]), torch.from_numpy(LABELS[CLIENTS[1]])
    nn.utils.vector_to_parameters(x[0, :-17], own.parameters())  # the module that was given is single
    own[1].running_mean, own[1].running_var = x[0, -17:-9], x[0, -9:-1]
    value = functional.cross_entropy(own(held[0]), held[1]) + 0.2 * sum(w.square().sum() for w in own.parameters())
    gradient = torch.cat([g.reshape(-1) for g in torch.autograd.grad(value, list(own.parameters()))])
    points = x.expand(3, 1, -1)
    assert p.client_value(points)[1, 0].item() == pytest.approx(value.item(), abs=1e-13)
    found = p.client_gradient(points)[1, 0]
    assert torch.allclose(found[:-17], gradient, rtol=0, atol=1e-13) and not found[-17:].any()
    assert torch.allclose(p.objective(x), (p.client_value(points)[:, 0] * torch.from_numpy(SHARES)).sum(), rtol=0, atol=1e-13)
    assert all(torch.equal(kept[n], v) for n, v in module.state_dict().items()) and module[1].training


@pytest.mark.parametrize("algorithm", [algorithms.FedAvg(), algorithms.FedBN(), algorithms.FedDyn(0.1)], ids=lambda a: a.name)
def test_an_interrupted_run_ends_with_the_same_numbers(algorithm, tmp_path):
    options = {"record": ["objective", "client_accuracy"], "progress": False, "sampling": participation.Uniform(2), "solver": SOLVER}
    p = averaged("rows", test=(ROWS[62:], LABELS[62:]))
    whole = neural.train(p, algorithm, 4, **options)
    for rounds in (2, 4):
        cut = neural.train(averaged("rows", test=(ROWS[62:], LABELS[62:])), algorithm, rounds, checkpoint=tmp_path / "run", **options)
    assert all(torch.equal(a, b) for a, b in zip(whole.final, cut.final, strict=True))
    assert all(np.array_equal(v, cut.metrics[n]) for n, v in whole.metrics.items())


def test_fedbn_is_a_loop_whose_norms_stay_at_home():
    """Two of three clients take part in a round; the third takes the others' parameters along, with its own norm."""
    tests = [np.arange(0, 20), np.arange(20, 40), np.arange(40, 58)]
    p = averaged("rows", test=(ROWS[62:], LABELS[62:]), test_clients=tests)
    cohorts = []
    run = simulate(
        p, algorithms.FedBN(), 3, p.initial(), participation.Uniform(2), seed=2, like=p.like_array(), local_solver=SOLVER,
        record=("client_accuracy", "bits_up", "bits_down"),
        on_round=lambda t, old, new, clients: cohorts.append(clients.cohort.members[0].tolist()),
    )  # fmt: skip
    models = [fresh("rows").double() for _ in CLIENTS]
    for t, cohort in enumerate(cohorts, 1):
        for k in cohort:
            local_epochs(models[k], "rows", k, t, SOLVER, seed=2)
        shared = {n: sum(models[k].state_dict()[n] for k in cohort) / 2 for n in models[0].state_dict() if not n.startswith("1.")}
        for model in models:
            model.load_state_dict(shared, strict=False)
    assert len({*map(tuple, cohorts)}) > 1
    right = []
    for k, model in enumerate(models):
        np.testing.assert_allclose(run.final.w[0, k], as_vector(model.state_dict(), model), rtol=0, atol=1e-12)
        own = 62 + tests[k]
        right.append(float((model.eval()(torch.from_numpy(ROWS[own])).argmax(1).numpy() == LABELS[own]).mean()))
    assert run.metrics["client_accuracy"][-1, 0] == pytest.approx(np.mean(right))
    assert (run.metrics["bits_up"][1:] == 2 * 64 * (6 * 8 + 8 + 27)).all()
    np.testing.assert_array_equal(run.metrics["bits_down"], run.metrics["bits_up"])


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)
        self.register_buffer("running_mean", torch.zeros(6))

    def forward(self, x):
        return self.layer(x - self.running_mean)


def test_what_cannot_average_statistics_is_refused_before_any_work():
    p, solver = averaged("rows"), local.SGD(9, 0.1, epochs=1)
    others = [algorithms.FedAMP(1.0, 0.1, 1.0), algorithms.APFL(0.5), algorithms.EFL(0.0), algorithms.Mime(0.1)]
    for algorithm in (*others, algorithms.Compressed(algorithms.FedAvg(), up=messages.TopK(q=0.1))):
        told = rf"running statistics.*FedBN.*not of {type(algorithm).__name__}: freeze them"
        with pytest.raises(errors.MissingCapability, match=told):
            trained(p, solver, algorithm)
    with pytest.raises(errors.MissingCapability, match=r"mini-batch steps.*not of GradientSteps"):
        trained(p, local.GradientSteps(2, 0.1))
    with pytest.raises(errors.MissingCapability, match="no gradients of single samples: use GroupNorm"):
        trained(p, local.SGD(9, 0.1, epochs=1, on_gradient=lambda gradient, step: step.per_sample()[0].mean(dim=1)))
    with pytest.raises(errors.MissingCapability, match=r"engine='stacked' cannot take.*running statistics"):
        averaged("rows", engine="stacked")
    with pytest.warns(UserWarning, match="one after another.*running statistics"):
        averaged("rows", engine="auto")
    with pytest.raises(errors.MissingCapability, match=r"the module is a Own, no torch\.nn\.BatchNorm: its running statistics"):
        neural.NeuralProblem(Own(), ROWS, LABELS, CLIENTS)
    plain = neural.NeuralProblem(nn.Linear(6, 3), ROWS, LABELS, CLIENTS)
    for problem in (plain, problems.Quadratic(np.ones((2, 1, 1)), np.ones((2, 1)))):
        with pytest.raises(errors.MissingCapability, match="has no normalisation layers, which FedBN keeps"):
            simulate(problem, algorithms.FedBN(), 1, local_solver=solver if problem is plain else None)
