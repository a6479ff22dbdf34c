"""Limits of networks: modules with state, losses of the user, memory, integers, mixed precision."""

from __future__ import annotations

import numpy as np
import pytest
from scarce_memory import scarce

from fedtheory import Uniform, algorithms, simulate
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import SGD
from fedtheory.local.objective import Rows
from fedtheory.local.sgd import sample_order
from fedtheory.randomness import Stream

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from fedtheory.neural import memory, training  # noqa: E402
from fedtheory.neural.engines.base import Batch  # noqa: E402
from fedtheory.neural.problem import NeuralProblem  # noqa: E402

CLIENTS = np.split(np.random.default_rng(0).permutation(40), [4, 11, 13, 30])
DATA = np.random.default_rng(1).normal(size=(40, 6)), np.random.default_rng(2).integers(0, 3, 40)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def problem(module: nn.Module | None = None, data=DATA, **options) -> NeuralProblem:
    return NeuralProblem(module or network(), *data, CLIENTS, **{"dtype": "float64", **options})


def train(p: NeuralProblem, rounds: int = 2, algorithm=None, solver: SGD | None = None, record=("objective",)):
    solver, algorithm = solver or SGD(4, 0.1, epochs=1), algorithm or algorithms.FedAvg()
    return simulate(p, algorithm, rounds, p.initial(), Uniform(3), 1, 5, solver, record, like=p.like_array())


# --- modules and losses ---------------------------------------------------------------------------
class Counting(nn.Module):
    """A buffer that every forward pass changes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += len(x)
        return self.linear(x)


def test_state_that_is_no_parameter_is_refused():
    with pytest.raises(MissingCapability, match="changes the buffer 'seen' of Counting"):
        problem(Counting())


def test_hooks_on_parameters_are_refused_for_no_model_of_a_client_has_them():
    module = network()
    handle = module[2].weight.register_hook(lambda gradient: 0 * gradient)
    with pytest.raises(MissingCapability, match=r"2\.weight has a hook.*register_full_backward_hook"):
        problem(module)
    handle.remove()
    problem(module)


class Noisy(nn.Linear):
    def forward(self, x):
        return super().forward(x + torch.randn_like(x) if self.training else x)


def test_what_draws_at_random_is_refused():
    with pytest.raises(MissingCapability, match=r"Noisy draws at random.*\.eval.*nn\.Dropout"):
        problem(Noisy(6, 3))
    problem(Noisy(6, 3).eval())
    with pytest.raises(MissingCapability, match=r"alpha dropout.*nn\.Dropout"):
        problem(nn.Sequential(nn.Linear(6, 3), nn.AlphaDropout(0.5)))


def test_parameters_without_a_gradient_stay(tmp_path):
    def frozen(value):
        module = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
        module[0].weight.requires_grad_(False).fill_(value)
        return problem(module)

    p = frozen(0.5)
    assert p.dim == 5 + 18 and type(p.engine).__name__ != "Dense"
    assert [layer.stop - layer.start for layer in p.layers("module")] == [5, 18]
    solver = SGD(4, 0.1, epochs=1)
    before, path = p.flat.module[0].weight.clone(), tmp_path / "run.ckpt"
    run = training.train(p, algorithms.FedAvg(), 1, solver=solver, record=("objective",), checkpoint=path, progress=False)
    assert run.metrics["objective"][1, 0] < run.metrics["objective"][0, 0]
    assert torch.equal(p.flat.module[0].weight, before)
    with pytest.raises(InvalidInput, match="frozen parameters or buffers differ"):  # they belong to a run, trained or not
        training.train(frozen(0.25), algorithms.FedAvg(), 1, solver=solver, record=("objective",), checkpoint=path, x0=p.initial())
    with pytest.raises(InvalidInput, match="no parameters that require a gradient"):
        problem(nn.Linear(6, 3).requires_grad_(False))


class Own(nn.Module):
    """A user's own module: two heads over one body."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.body, self.first, self.second = nn.Linear(6, 4), nn.Linear(4, 3), nn.Linear(4, 1)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return {"class": self.first(h), "size": self.second(h)}


def own_loss(outputs, targets):
    return nn.functional.cross_entropy(outputs["class"], targets) + 0.1 * (outputs["size"][:, 0] - targets).abs().mean()


def test_a_users_module_and_loss_are_trained_as_a_plain_loop_does():
    """Clients of unequal size and batches cut short: one client after the other with torch.optim.SGD gives the same."""
    p = problem(Own(), loss=own_loss, ridge=0.01, test=DATA)
    run = train(p, rounds=1, solver=SGD(4, 0.1, epochs=2), record=("objective", "test_loss"))
    total, weighted = 0, 0.0
    for client in Uniform(3).sample(Stream(5), 1, range(1), 5).members[0]:
        net, held = Own().double(), CLIENTS[client]
        optimiser = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=0.01)
        rows = Rows(np.array([client]), np.zeros((1, 1), int), np.ones((1, 1), bool), Stream(5), 1)
        for epoch in range(2):
            order = held[sample_order(rows, 0, 0, len(held), epoch)]
            for a in range(0, len(held), 4):
                optimiser.zero_grad()
                own_loss(net(p.inputs[order[a : a + 4]]), p.targets[order[a : a + 4]]).backward()
                optimiser.step()
        flat = torch.cat([q.detach().reshape(-1) for q in net.parameters()]).numpy()
        weighted, total = weighted + len(held) * flat, total + len(held)
    np.testing.assert_allclose(run.x[0], weighted / total, rtol=1e-10)


@pytest.mark.parametrize("weights", ["uniform", "samples"])
def test_the_objective_of_a_users_loss_weighs_clients_not_samples(weights):
    def plain(o, t):
        return nn.functional.cross_entropy(o, t)

    own, named = problem(loss=plain, weights=weights), problem(weights=weights)
    x = own.initial()[None]
    assert float(own.objective(x)[0]) == pytest.approx(float(named.objective(x)[0]), rel=1e-12)


# --- memory ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("engine", ["stacked", "loop"])
def test_what_does_not_fit_is_tried_in_smaller_chunks(monkeypatch, engine):
    monkeypatch.setattr("fedtheory.neural.engines.compiled.TAKEN", False)  # compiled steps take one row at a time anyway
    expected = train(problem(engine=engine, rows_at_once=8)).x
    p = problem(engine=engine, rows_at_once=8)
    tried = scarce(monkeypatch, p, fits=1)
    np.testing.assert_allclose(train(p).x, expected, rtol=1e-12)
    assert max(tried) > 1 and tried.count(1) > 0


def test_gradients_are_taken_in_smaller_chunks(monkeypatch):
    p = problem(engine="stacked", rows_at_once=8)
    y = torch.randn(5, 3, p.dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    samples = torch.zeros(5, 3, 2, dtype=torch.int64)
    expected = p.client_gradient(y), p.client_batch_gradient(y, samples)
    tried = scarce(monkeypatch, p, fits=2)
    torch.testing.assert_close(p.client_gradient(y), expected[0])
    torch.testing.assert_close(p.client_batch_gradient(y, samples), expected[1])
    assert max(tried) == 8


def test_one_model_that_does_not_fit_is_a_clear_error(monkeypatch):
    p = problem(engine="loop")
    scarce(monkeypatch, p, fits=0)
    with pytest.raises(memory.OutOfMemory, match="one model does not fit the memory of cpu: use a smaller batch"):
        train(p)


def test_the_sizes_that_are_tried():
    tried = []

    def work(part: slice) -> int:
        tried.append(part.stop - part.start)
        if tried[-1] > 2:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes")
        return part.stop

    assert memory.in_chunks(problem(), 7, 7, work, "steps")[-1] == 7
    assert tried == [7, 4, 2, 2, 2, 1]
    with pytest.raises(RuntimeError, match="shapes disagree"):  # not a matter of memory
        memory.in_chunks(problem(), 7, 7, lambda part: (_ for _ in ()).throw(RuntimeError("shapes disagree")), "steps")


# --- integers -------------------------------------------------------------------------------------
class Text(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.head = nn.Embedding(10, 3), nn.Linear(12, 3)

    def forward(self, x):
        return self.head(self.embedding(x).flatten(1))


@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_texts_stay_as_small_as_they_come(engine):
    letters = np.random.default_rng(0).integers(0, 10, (40, 4))
    runs = []
    for kind in (np.uint8, np.int64):
        p = problem(Text(), (letters.astype(kind), DATA[1]), engine=engine, test=(letters.astype(kind), DATA[1]))
        assert p.inputs.numpy().dtype == kind and p.targets.dtype == torch.int64
        runs.append(train(p, record=("objective", "test_accuracy")))
    np.testing.assert_array_equal(runs[0].x, runs[1].x)
    np.testing.assert_array_equal(runs[0].metrics["test_accuracy"], runs[1].metrics["test_accuracy"])


# --- mixed precision ------------------------------------------------------------------------------
@pytest.mark.parametrize("engine", ["loop", "stacked"])
def test_bfloat16_is_used_on_the_way_and_not_in_what_is_kept(engine):
    plain, mixed = (problem(dtype="float32", engine=engine, autocast=a) for a in (None, "bfloat16"))
    y, x, t = plain.initial().expand(3, -1).contiguous(), plain.inputs[:12].reshape(3, 4, 6), plain.targets[:12].reshape(3, 4)
    g, coarse = plain.engine.gradient(y, Batch(x, t)), mixed.engine.gradient(y, Batch(x, t))
    assert coarse.dtype == torch.float32
    error = float((g - coarse).abs().max() / g.abs().max())
    assert 2**-14 < error < 4 * 2**-8  # bfloat16 has 8 binary digits: at least some entry shows it
    values = [p.engine.value(y, Batch(x, t)) for p in (plain, mixed)]
    torch.testing.assert_close(*values)  # measured in full precision
    runs = [train(p, rounds=3).metrics["objective"][-1, 0] for p in (plain, mixed)]
    assert runs[0] != runs[1] and runs[1] == pytest.approx(runs[0], rel=0.02)


def test_engines_agree_in_bfloat16():
    first, second = (problem(dtype="float32", engine=e, autocast="bfloat16") for e in ("loop", "stacked"))
    y, x, t = first.initial().expand(3, -1).contiguous(), first.inputs[:12].reshape(3, 4, 6), first.targets[:12].reshape(3, 4)
    g, other = first.engine.gradient(y, Batch(x, t)), second.engine.gradient(y, Batch(x, t))
    assert float((g - other).abs().max() / g.abs().max()) < 2 * 2**-8  # sums may be rounded in another order


def test_mixed_precision_that_cannot_be_had_is_refused():
    for other in ("int8", "float16"):  # whose small gradients are lost without a scale
        with pytest.raises(InvalidInput, match=f"autocast = '{other}'"):
            problem(dtype="float32", autocast=other)
    with pytest.raises(InvalidInput, match=r"float64.*with float32"):
        problem(autocast="bfloat16")
    mixed = problem(dtype="float32", autocast="bfloat16")
    assert mixed.engine.name == "stacked" and mixed.engine.chain is None


# --- devices --------------------------------------------------------------------------------------
@pytest.mark.parametrize("engine", ["stacked", "loop"])
def test_nothing_is_made_on_a_device_of_its_own(engine):
    """Tensors are made where the run's are: a default device that cannot compute changes nothing, as on a machine with a GPU."""
    p = problem(engine=engine, test=DATA)
    runs, algorithm = [], algorithms.FedElasticNetDyn(1e-3, 0.1)
    for device in ("cpu", "meta"):
        with torch.device(device):
            run = train(p, algorithm=algorithm, solver=SGD(4, 0.1, epochs=2, epoch_decay=0.5), record=("objective", "test_loss"))
            gradient = p.client_gradient(p.initial().expand(5, 1, -1))
        runs.append([run.x, gradient.numpy(), *run.metrics.values()])
    for found, right in zip(*runs, strict=True):
        np.testing.assert_array_equal(found, right)
