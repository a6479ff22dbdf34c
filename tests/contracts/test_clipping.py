"""Clipped local SGD against the usual loop: autograd, torch.nn.utils.clip_grad_norm_, and an optimizer with weight decay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from active_rows import rows_of

from fedtheory import Uniform, algorithms, problems, simulate
from fedtheory.arrays import to_numpy
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import SGD, LocalObjective
from fedtheory.local.clipping import clipped_factor
from fedtheory.local.sgd import sample_order

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from fedtheory.neural import NeuralProblem  # noqa: E402

SIZES, RIDGE, DIM = (4, 7, 1, 18, 10), 0.3, 6
CLIP = 0.8


def usual_loop(module, loss, batches, penalty, solver, ridge, decayed, seen, mutant=None):
    """One client, as public code writes it; `batches` of (inputs, targets, lr); returns the parameters as a vector."""
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0, weight_decay=0.0 if mutant == "decay clipped" else ridge + decayed)
    for x, t, lr in batches:
        for group in optimizer.param_groups:
            group["lr"] = lr
        optimizer.zero_grad()
        weights = torch.cat([p.reshape(-1) for p in module.parameters()])
        value = loss(module(x), t) + penalty(weights)
        if mutant == "decay clipped":
            value = value + (ridge + decayed) / 2 * (weights * weights).sum()
        value.backward()
        norm = torch.nn.utils.clip_grad_norm_(module.parameters(), float("inf") if mutant == "not clipped" else solver.clip)
        seen.append(float(norm))
        optimizer.step()
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


def set_to(module, vector):
    torch.nn.utils.vector_to_parameters(vector.clone(), module.parameters())
    return module


def reference(module, loss, data, objective, start, rows, solver, ridge, seen, mutant=None):
    """`usual_loop` from every start (N, B, d); data: (inputs, targets) of each client."""
    out = np.empty(start.shape)
    dtype = next(module.parameters()).dtype
    spared = objective.curvature if solver.clip_spares == "curvature" else 0.0
    for n, (x, t) in enumerate(data):
        for b in range(start.shape[1]):
            linear, center = (torch.as_tensor(v[n, b]).to(dtype) for v in (objective.linear, objective.center))

            def penalty(w, linear=linear, center=center):
                quadratic = objective.curvature / 2 * ((w - center) ** 2).sum() - spared / 2 * (w * w).sum()
                return quadratic - (linear * w).sum() + objective.l1 * (w - center).abs().sum()

            order = [sample_order(rows, n, b, len(x), e) for e in range(solver.epochs)]
            batches = [(x[order[e][i:j]], t[order[e][i:j]], lr) for e, i, j, lr in solver.schedule(len(x), rows.round_index)]
            set_to(module, torch.as_tensor(start[n, b]).to(dtype))
            out[n, b] = usual_loop(module, loss, batches, penalty, solver, ridge, spared, seen, mutant).numpy()
    return out


def penalised(rng, shape, curvature, l1):
    return LocalObjective(rng.normal(size=shape), 0.3 * rng.normal(size=shape), curvature, l1)


PENALTIES = [(0.0, 0.0, None), (0.7, 0.0, None), (0.7, 0.2, None), (0.7, 0.2, "curvature")]
NAMED = dict(ids=["plain", "prox-term", "elastic", "spared"])


def at_the_median(solver, *args):
    """The solver with the limit that half of the steps of the usual loop exceed without clipping."""
    seen = []
    reference(*args[:-1], replace(solver, clip=1.0), args[-1], seen, "not clipped")
    return replace(solver, clip=float(np.median(seen)))


# --- networks -------------------------------------------------------------------------------------
def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 3))


def images() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 2), nn.Tanh(), nn.Flatten(), nn.Linear(4, 3))


def network(module, engine, **options):
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    inputs, targets = 2 * rng.normal(size=(40, 3, 2, 2)), rng.integers(0, 3, 40)
    clients = np.split(rng.permutation(40), np.cumsum(SIZES)[:-1])
    made = NeuralProblem(module(), inputs, targets, clients, engine=engine, **{"ridge": RIDGE, "dtype": "float64", **options})
    data = [(made.inputs[torch.as_tensor(c)], made.targets[torch.as_tensor(c)]) for c in made._clients]
    return made, data


@pytest.mark.parametrize("module, engines", [(dense, ("stacked", "loop")), (images, ("stacked", "loop"))], ids=["dense", "images"])
@pytest.mark.parametrize("penalty, dtype, tolerance", [*((p, "float64", 1e-12) for p in PENALTIES), (PENALTIES[-1], "float32", 3e-5)])
def test_networks_walk_as_the_usual_loop(module, engines, penalty, dtype, tolerance, monkeypatch):
    curvature, l1, spares = penalty
    made, data = network(module, engines[0], dtype=dtype)
    rng = np.random.default_rng(1)
    shape, seen = (len(SIZES), 1, made.dim), []
    objective, start = penalised(rng, shape, curvature, l1), 0.7 * rng.normal(size=shape)
    rows = rows_of(*shape[:2], 2, 3)
    usual = (module().to(getattr(torch, dtype)), nn.CrossEntropyLoss(), data, objective, start, rows)
    solver = at_the_median(SGD(4, 0.1, epochs=2, epoch_decay=0.5, clip=CLIP, clip_spares=spares), *usual, RIDGE)
    wanted = reference(*usual, solver, RIDGE, seen)
    assert 0.2 < np.mean(np.array(seen) > solver.clip) < 0.95  # some steps are clipped, some are not
    size = abs(wanted).max()
    for engine, compiled in (*((e, True) for e in engines), (engines[0], False)):  # small batches of chains are compiled
        if not compiled:
            monkeypatch.setattr("fedtheory.neural.sgd.fits", lambda *_: False)
        made, _ = network(module, engine, dtype=dtype)
        tensors = objective.map(lambda a, like=made.dtype: torch.as_tensor(a).to(like))
        got = made.walk(solver, tensors, torch.as_tensor(start).to(made.dtype), rows)
        np.testing.assert_allclose(to_numpy(got.y), wanted, rtol=0, atol=tolerance * size, err_msg=engine)
    for mutant in ("decay clipped", "not clipped"):
        assert abs(reference(*usual, solver, RIDGE, seen, mutant) - wanted).max() > 10 * tolerance * size


def test_rows_are_clipped_one_by_one():
    got = clipped_factor(np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [np.nan, 1.0]]), 2.0)
    np.testing.assert_allclose(got[:3, 0], [2 / (5 + 1e-6), 1, 1], rtol=1e-15)
    assert np.isnan(got[3, 0])


def test_a_limit_nobody_reaches_changes_nothing_and_a_low_one_bounds_the_step():
    made, _ = network(dense, "stacked", ridge=0.0)
    start = torch.zeros(len(SIZES), 1, made.dim, dtype=torch.float64) + made.initial()
    free = LocalObjective(center=start)
    rows = rows_of(len(SIZES), 1, 2, 3)
    plain = made.walk(SGD(50, 0.1, steps=1), free, start, rows).y
    high = made.walk(SGD(50, 0.1, steps=1, clip=1e6), free, start, rows).y
    torch.testing.assert_close(high, plain, rtol=1e-14, atol=1e-16)
    moved = (made.walk(SGD(50, 0.1, steps=1, clip=1e-3), free, start, rows).y - start).norm(dim=-1)
    torch.testing.assert_close(moved, torch.full_like(moved, 1e-4), rtol=2e-3, atol=0)
    assert ((plain - start).norm(dim=-1) > 1e-2).all()


@pytest.mark.parametrize("algorithm", [algorithms.FedDyn(0.5), algorithms.FedElasticNetProx(0.3, 0.01)], ids=lambda a: a.name)
def test_methods_on_padded_cohorts(algorithm):
    """A whole run: engines agree, and clipping changes it."""
    ends = {}
    for engine, clip in (("stacked", CLIP), ("loop", CLIP), ("stacked", None)):
        made, _ = network(dense, engine)
        how = dict(scenarios=2, seed=1, local_solver=SGD(4, 0.1, epochs=2, clip=clip), like=made.like_array(), record=())
        ends[engine, clip] = simulate(made, algorithm, 3, made.initial(), Uniform(3), **how).x
    np.testing.assert_allclose(ends["loop", CLIP], ends["stacked", CLIP], atol=1e-12)
    assert abs(ends["stacked", None] - ends["stacked", CLIP]).max() > 1e-3


# --- convex problems ------------------------------------------------------------------------------
class Product(nn.Module):
    """x @ w, without bias: the weights of a class are a column, as in `problems.Softmax`."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(DIM, outputs, dtype=torch.float64))

    def forward(self, x):
        return x @ self.w


def convex(kind, rng):
    """(problem, the same as a module, its loss, each client's samples)."""
    features = [rng.normal(size=(n, DIM)) for n in SIZES]
    if kind == "least squares":
        targets = [rng.normal(size=n) for n in SIZES]
        made, outputs = problems.LeastSquares(features, targets, ridge=RIDGE), 1

        def loss(z, t):
            return ((z[:, 0] - t) ** 2).mean() / 2
    else:
        targets = [rng.integers(0, 3, n) for n in SIZES]
        made, outputs, loss = problems.Softmax(features, targets, 3, ridge=RIDGE), 3, nn.CrossEntropyLoss()
    data = [(torch.as_tensor(a), torch.as_tensor(b)) for a, b in zip(features, targets, strict=True)]
    return made, Product(outputs), loss, data


@pytest.mark.parametrize("kind", ["least squares", "softmax"])
@pytest.mark.parametrize("curvature, l1, spares", PENALTIES, **NAMED)
def test_convex_problems_walk_as_the_usual_loop(kind, curvature, l1, spares):
    rng = np.random.default_rng(2)
    made, module, loss, data = convex(kind, rng)
    shape, seen = (len(SIZES), 2, made.dim), []
    objective, start = penalised(rng, shape, curvature, l1), rng.normal(size=shape)
    rows, solver = rows_of(*shape[:2], 2, 3), SGD(4, 0.1, epochs=2, decay=0.9, clip=CLIP, clip_spares=spares)
    usual = (module, loss, data, objective, start, rows)
    solver = at_the_median(solver, *usual, RIDGE)
    wanted = reference(*usual, solver, RIDGE, seen)
    assert 0.2 < np.mean(np.array(seen) > solver.clip) < 0.95
    np.testing.assert_allclose(solver.solve(made, objective, start, rows).y, wanted, rtol=0, atol=1e-12)
    begin = torch.as_tensor(start)
    got = solver.solve(made.like(begin), objective.map(torch.as_tensor), begin, rows)
    np.testing.assert_allclose(to_numpy(got.y), wanted, rtol=0, atol=1e-12)
    other = reference(*usual, solver, RIDGE, seen, "decay clipped")
    assert abs(other - wanted).max() > 1e-3


def test_the_prox_comes_after_the_clipped_step():
    rng = np.random.default_rng(4)
    made, *_ = convex("least squares", rng)
    shape = (len(SIZES), 1, DIM)
    objective, start = penalised(rng, shape, 0.5, 0.9), rng.normal(size=shape)
    rows = rows_of(*shape[:2], 2, 3)
    smooth = LocalObjective(objective.center, objective.linear, 0.5)
    step = SGD(50, 0.2, steps=1, clip=CLIP).solve(made, smooth, start, rows).y
    got = SGD(50, 0.2, steps=1, clip=CLIP, l1="prox").solve(made, objective, start, rows).y
    np.testing.assert_allclose(got, objective.prox(step, 0.2), atol=1e-14)
    assert abs(got - SGD(50, 0.2, steps=1, clip=CLIP).solve(made, objective, start, rows).y).max() > 1e-3


def test_a_network_and_softmax_are_the_same_problem():
    """The fused walk with prox against the plain one: the same clipped numbers."""
    rng = np.random.default_rng(5)
    made, _, _, data = convex("softmax", rng)
    inputs, targets = (torch.cat([d[i] for d in data]) for i in (0, 1))
    clients = np.split(np.arange(len(inputs)), np.cumsum(SIZES)[:-1])
    net = NeuralProblem(Product(3), inputs, targets, clients, ridge=RIDGE, dtype="float64")
    shape = (len(SIZES), 2, made.dim)
    objective, start = penalised(rng, shape, 0.5, 0.2), rng.normal(size=shape)
    solver, rows = SGD(4, 0.1, epochs=2, l1="prox", clip=CLIP), rows_of(*shape[:2], 2, 3)
    got = net.walk(solver, objective.map(torch.as_tensor), torch.as_tensor(start), rows)
    wanted = solver.solve(made, objective, start, rows)
    np.testing.assert_allclose(got.y.numpy(), wanted.y, atol=1e-12)
    np.testing.assert_allclose(to_numpy(got.step_sum), to_numpy(wanted.step_sum))


# --- methods whose step is not along a gradient of one model --------------------------------------
CLIPPED = SGD(5, 0.5, epochs=2, clip=0.1)


def cut(gradient, limit=0.1):
    """The gradient, clipped as torch.nn.utils.clip_grad_norm_ does it."""
    return gradient * min(1.0, limit / (np.linalg.norm(gradient) + 1e-6))


def two_clients(ridge=0.1):
    """Two clients with the same samples in one batch, so that a round is worked out without any draw, and their loss's gradient."""
    rows, targets = np.array([[1.0, 0.5], [0.0, 1.0]]), np.array([1.0, -2.0])
    made = problems.LeastSquares([rows, rows], [targets, targets], ridge)
    return made, lambda x: rows.T @ (rows @ x - targets) / 2


@pytest.mark.parametrize("rounds", [1, 5])
@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_apfl_clips_each_model_by_its_own_norm_and_leaves_alpha_alone(rounds, make):
    ridge, alpha = 0.1, 0.4
    made, slope = two_clients(ridge)
    x0 = np.array([0.3, -0.2])
    run = simulate(made, algorithms.APFL(alpha), rounds, x0, local_solver=CLIPPED, like=make(np.zeros(1)))
    w, v = x0, x0
    for _ in range(2 * rounds):  # the clients are alike, so that the server's mean is each client's own model
        m = alpha * v + (1 - alpha) * w
        w, v = w - 0.5 * (cut(slope(w)) + ridge * w), v - 0.5 * (cut(alpha * slope(m)) + alpha * ridge * m)
    np.testing.assert_allclose(run.x[0], w, rtol=0, atol=1e-14)
    np.testing.assert_allclose(to_numpy(run.final.v), np.broadcast_to(v, (1, 2, 2)), rtol=0, atol=1e-14)
    assert (to_numpy(run.final.alpha) == alpha).all()
    together = x0 - 0.5 * (cut(np.r_[slope(x0), alpha * slope(x0)])[:2] + ridge * x0)  # the mutant: one norm for both models
    alone = simulate(made, algorithms.APFL(alpha), 1, x0, local_solver=SGD(5, 0.5, steps=1, clip=0.1)).x[0]
    assert abs(together - alone).max() > 1e-3


@pytest.mark.parametrize("lite", [False, True], ids=["mime", "mimelite"])
@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_mime_clips_the_gradient_before_weight_decay_and_momentum(lite, make):
    ridge, beta = 0.1, 0.75
    made, slope = two_clients(ridge)
    x0 = np.array([0.3, -0.2])
    run = simulate(made, algorithms.Mime(beta, lite), 4, x0, local_solver=CLIPPED, like=make(np.zeros(1)))

    def by_hand(share, clip_momentum=False):
        x, s = x0, np.zeros(2)
        for _ in range(4):
            y = x
            for _ in range(2):  # with one batch the control variates of Mime cancel
                own = cut((1 - beta) * slope(y) + beta * s) if clip_momentum else (1 - beta) * cut(slope(y)) + beta * s
                y = y - 0.5 * (own + share * ridge * y)
            x, s = y, (1 - beta) * (slope(x) + ridge * x) + beta * s
        return x

    np.testing.assert_allclose(run.x[0], by_hand(1 - beta), rtol=0, atol=1e-14)
    assert abs(by_hand(1) - by_hand(1 - beta)).max() > 1e-3  # the whole ridge
    assert abs(by_hand(1 - beta, clip_momentum=True) - by_hand(1 - beta)).max() > 1e-3


@pytest.mark.parametrize("algorithm", [algorithms.APFL(0.4), algorithms.Mime(0.75), algorithms.Mime(0.75, True), algorithms.Mime()])
def test_a_limit_nobody_reaches_changes_no_method(algorithm):
    rng = np.random.default_rng(6)
    made, *_ = convex("softmax", rng)
    ends = [
        simulate(made, algorithm, 3, np.ones(made.dim), Uniform(3), 2, local_solver=SGD(4, 0.1, epochs=2, clip=clip)).final
        for clip in (None, 1e9, 0.05)
    ]
    for plain, high in zip(ends[0], ends[1], strict=True):
        np.testing.assert_allclose(high, plain, rtol=1e-12, atol=1e-12)
    assert abs(ends[2].x - ends[0].x).max() > 1e-3


def test_apfl_with_a_learned_alpha_refuses_to_clip():
    made, _ = two_clients()
    with pytest.raises(MissingCapability, match="alpha has no clipped form"):
        simulate(made, algorithms.APFL(0.4, adaptive=True), 1, local_solver=CLIPPED)


def test_bad_limits_are_refused():
    for wrong in ({"clip": 0.0}, {"clip": -1.0}, {"clip": float("inf")}, {"clip": True}, {"clip": 1.0, "clip_spares": "ridge"}):
        with pytest.raises(InvalidInput, match="clip"):
            SGD(1, 0.1, epochs=1, **wrong)
    with pytest.raises(InvalidInput, match="without clip"):
        SGD(1, 0.1, epochs=1, clip_spares="curvature")
