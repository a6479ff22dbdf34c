"""Every problem, method, local solver and compressor gives under torch what it gives under NumPy, in both precisions.

The same cohorts, mini-batches and compression noise are drawn on the host whatever the array library, so that runs agree to rounding.
Instances are drawn from a normal law and runs start at random points: then no two entries of a message, no two pieces of a maximum
and no residual and its kink are equal, which another order of summation would decide otherwise. ST both ways would make ties by
itself, as all the magnitudes it sends are equal.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import replace

import numpy as np
import pytest
from cases import each
from registered import example, methods_beyond, problems_beyond

from fedtheory import Bernoulli, Full, Uniform, algorithms, local, messages, problems, simulate
from fedtheory.arrays import to_numpy
from fedtheory.clients.fisher import FISHERS, client_fisher
from fedtheory.clients.sensitivity import client_sensitivity
from fedtheory.errors import FedTheoryError, MissingCapability
from fedtheory.local import (
    SGD,
    Adam,
    Exact,
    ExactProx,
    GradientSteps,
    LocalSGD,
    Momentum,
    Schedule,
    SubgradientSliding,
    SubgradientSteps,
)
from fedtheory.participation import irregular as participation
from fedtheory.problems import hold_out
from fedtheory.problems.base import Problem

torch = pytest.importorskip("torch")

DTYPES = {"float64": torch.float64, "float32": torch.float32}
N, D, COUNTS = 4, 3, (6, 3, 5, 4)
ROUNDS, STEPS, SCENARIOS = 3, 3, 2
# Roundings on the way to one number: a sum over a client's samples of sums over coordinates, and a dozen elementwise ones.
PATH = max(COUNTS) + 6 + 20


def _problems() -> dict[str, Problem]:
    g = np.random.default_rng(21)
    rows = [g.normal(size=(n, D)) / 2 for n in COUNTS]
    real = [g.normal(size=n) for n in COUNTS]
    signs = [np.where(t > 0, 1.0, -1.0) for t in real]
    root = g.normal(size=(N, D, D))
    made = [
        problems.Quadratic(root @ root.transpose(0, 2, 1) + np.eye(D), g.normal(size=(N, D))),
        problems.LeastSquares(rows, real, ridge=0.5),
        problems.Logistic(rows, signs, ridge=0.5),
        problems.Huber(rows, real, delta=0.7, ridge=0.5),
        problems.Softmax(rows, [g.integers(0, 3, n) for n in COUNTS], 3, ridge=0.5),
        problems.LAD(rows, real),
        problems.Quantile(rows, real, 0.3),
        problems.Hinge(rows, signs, ridge=0.1),
        problems.MaxAffine(g.normal(size=(N, 5, D)), g.normal(size=(N, 5))),
        problems.L1Distance(g.normal(size=(N, D))),
        problems.EuclideanDistance(g.normal(size=(N, D))),
        problems.NesterovWorst(D, num_clients=N),
        problems.TwoClientPull(0.1),
        problems.ArjevaniShamir(4, N),
        problems.MaximumAndChain(2, 2, N),
    ]
    wide = problems.LeastSquares(g.normal(size=(N, 2, 6)), g.normal(size=(N, 2)), ridge=0.5)  # gradients through the samples
    normed = problems.LeastSquares(rows, real, ridge=0.5)
    normed.normalising = np.array([True, False, False])  # as a network says it of its normalisation layers
    made += problems_beyond(made).values()
    return {type(p).__name__: p for p in made} | {"LeastSquares, few samples": wide, "LeastSquares, normalising": normed}


PROBLEMS = _problems()
BASES = {"Problem", "LinearModel"}


def test_no_problem_is_left_out():
    classes = {n for n in problems.__all__ if inspect.isclass(c := getattr(problems, n)) and issubclass(c, Problem)}
    assert classes - BASES == {type(p).__name__ for p in PROBLEMS.values()}


# --- kernels --------------------------------------------------------------------------------------
KERNELS = {
    "value": lambda p, y, s: p.client_value(y),
    "gradient": lambda p, y, s: p.client_gradient(y),
    "hessian": lambda p, y, s: p.client_hessian(y),
    "batch gradient": lambda p, y, s: p.client_batch_gradient(y, s),
    "output gradient": lambda p, y, s: p.client_output_gradient(y, 1, 3),
    "sensitivity": lambda p, y, s: client_sensitivity(p, y, 2),
    "held-out sensitivity": lambda p, y, s: client_sensitivity(_held_out(p).like(y).held_out, y, 2),
    "some clients": lambda p, y, s: p.subset(np.array([1, 0])).client_gradient(y[:2]),
    "objective": lambda p, y, s: p.objective(y[0]),
    "full gradient": lambda p, y, s: p.full_gradient(y[0]),
    **{f"{kind} Fisher": lambda p, y, s, kind=kind: client_fisher(p, y, kind) for kind in FISHERS},
}


def _held_out(p: Problem) -> Problem:
    whole = p.__dict__.get("_whole")
    return hold_out(p if whole is None else whole[0][0])


@each("dtype", DTYPES)
@each("name", PROBLEMS)
def test_kernels_agree(name, dtype):
    p, kind = PROBLEMS[name], DTYPES[dtype]
    g = np.random.default_rng(3)
    y = g.normal(size=(p.num_clients, 5, p.dim))
    samples = np.stack([g.integers(0, int(n), size=(5, 2)) for n in p.sample_counts])
    point, done = torch.tensor(y, dtype=kind), 0
    for what, kernel in KERNELS.items():
        try:
            expected = kernel(p, y, samples)
        except MissingCapability:
            with pytest.raises(MissingCapability):
                kernel(p.like(point), point, torch.tensor(samples))
            continue
        found = kernel(p.like(point), point, torch.tensor(samples))
        assert found.dtype == kind, what
        allowed = PATH * torch.finfo(kind).eps * max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=allowed, err_msg=what)
        done += 1
    assert done >= 5  # value, gradient, some clients, objective, full gradient at least


# --- runs -----------------------------------------------------------------------------------------
LEAST, SMOOTH = "LeastSquares", ("Quadratic", "LeastSquares", "Logistic", "Huber", "Softmax")
UNEQUAL = participation.windows(participation.incomplete(N, STEPS, [0.3, 0.3, 0.2, 0.2]), {1: (None, 3), 2: (2, None)})
WALK, BATCHES = GradientSteps(STEPS, 0.3), SGD(2, 0.1, epochs=1)
A = algorithms
SLIDE = A.FedMLS(1.0, 1.0, ROUNDS, 2.0, 1.0)

RUNS = {  # method, problem, local solver, who takes part
    "fedavg": (A.FedAvg(), LEAST, BATCHES, Uniform(2)),
    "fedavg with feedback": (A.Compressed(A.FedAvg("cohort"), messages.TopK(k=1), messages.ST(0.4)), "Logistic", BATCHES, Uniform(2)),
    "fedavg, momentum": (A.FedAvg(), LEAST, Momentum(2, 0.1, epochs=1, nesterov=True), Uniform(2)),
    "fedelasticnet-prox, adam": (A.FedElasticNetProx(0.1, 0.8), LEAST, Adam(2, 0.1, epochs=1, l1="prox", eps=1e-3), Uniform(2)),
    "fedprox": (A.FedProx(0.8, "samples"), "Logistic", Exact(), Bernoulli(0.5)),
    "fedprox, subgradients": (A.FedProx(0.8), "Hinge", SubgradientSteps(STEPS, Schedule("inverse-sqrt", 0.1), 2.0), Uniform(2)),
    "scaffold": (A.Scaffold("difference"), "Huber", WALK, Uniform(2)),
    "scaffold, option I": (A.Scaffold("gradient"), "Softmax", BATCHES, Bernoulli(0.5)),
    "scaffold, compressed": (
        A.Compressed(A.Scaffold(), messages.TopK(k=1), control=messages.QSGD(3)), "Huber", WALK, Uniform(2)
    ),
    "feddyn, compressed": (A.Compressed(A.FedDyn(4.0, stored="received"), messages.ScaledSign()), "Quadratic", Exact(), Uniform(2)),
    "fedelasticnet-dyn, on the wire": (
        A.Compressed(A.FedElasticNetDyn(0.1, 4.0), messages.Threshold(0.05)), LEAST, Exact(), Uniform(2)
    ),
    "feddyn": (A.FedDyn(4.0), "Logistic", Exact(), Uniform(2)),
    "feddyn, direct": (A.FedDyn(4.0), "Quadratic", Exact(), Uniform(2)),
    "fedelasticnet-prox": (A.FedElasticNetProx(0.1, 0.8, epsilon=0.01), LEAST, Exact(), Uniform(2)),
    "fedelasticnet-scaffold": (A.FedElasticNetScaffold(0.1, 0.8), LEAST, SGD(2, 0.1, epochs=1, l1="prox"), Uniform(2)),
    "fedelasticnet-dyn": (A.FedElasticNetDyn(0.1, 4.0, epsilon=0.01), "Logistic", Exact(), Uniform(2)),
    "fedelasticnet-dyn, Newton": (A.FedElasticNetDyn(0.1, 0.4), "Logistic", Exact(method="newton"), Uniform(2)),
    "fedmls": (SLIDE, "LAD", SubgradientSliding(noise_std=0.1, batch_size=2), Full()),
    "fedmls, all samples": (SLIDE, "LAD", SubgradientSliding(), Full()),
    "fedmls, solved": (replace(SLIDE, local_training="exact-prox"), "LAD", ExactProx(2.0), Full()),
    "subgradient": (A.Subgradient(0.1, "inverse-sqrt", "average", 3.0), "Hinge", Exact(), Uniform(2)),
    "efl": (
        A.EFL(0.3, "A", messages.TopK(k=2), messages.RandomK(k=2, scaled=False)),
        LEAST, LocalSGD(STEPS, 0.2, batch_size=2, noise_std=0.1), UNEQUAL,
    ),
    "efl, QSGD": (
        A.EFL(0.3, "C-corrected", messages.ST(0.4), messages.QSGD(3), variant="text-received", fisher="empirical"),
        "Logistic", LocalSGD(STEPS, 0.2), Uniform(2),
    ),
    "mime": (A.Mime(0.5), "Logistic", BATCHES, Uniform(2)),
    "vrl-sgd": (A.VRLSGD(), LEAST, WALK, Full()),
    "fedgate": (A.FedGATE(), LEAST, WALK, Full()),
    "scaffnew": (A.Scaffnew(0.6), LEAST, GradientSteps(1, 0.3), Full()),
    "apfl": (A.APFL(0.5, adaptive=True), "Softmax", BATCHES, Uniform(2)),
    "fedamp": (A.FedAMP(1.0, 0.5, 5.0), "Logistic", Exact(), Uniform(2)),
    "fedbn": (A.FedBN(), "LeastSquares, normalising", BATCHES, Uniform(2)),
    "elastic-aggregation": (A.ElasticAggregation(probe_batch=2), "Softmax", BATCHES, Uniform(2)),
    "elastic-aggregation, held out": (A.ElasticAggregation(probe_batch=1), "held out", BATCHES, Uniform(2)),
}  # fmt: skip
for _name in SMOOTH:
    RUNS[f"fedavg on {_name}"] = (A.FedAvg(), _name, WALK, Uniform(2))
for _name in (n for n in PROBLEMS if n not in SMOOTH and "," not in n):
    _few = Full() if _name == "TwoClientPull" else Uniform(2)
    RUNS[f"subgradient on {_name}"] = (A.Subgradient(0.1, radius=9.0), _name, Exact(), _few)
    RUNS[f"fedmls on {_name}"] = (A.FedMLS(1.0, 1.0, ROUNDS, 9.0, 1.0), _name, SubgradientSliding(), Full())
for _name in messages.names():
    _c = {"st": messages.ST(0.4), "top-k": messages.TopK(k=2), "random-k": messages.RandomK(k=2), "threshold": messages.Threshold(0.05)}
    _c |= {"qsgd": messages.QSGD(3), "stochastic": messages.StochasticRounding(2.0**-8)}
    _made = _c[_name] if _name in _c else example(messages.get(_name))
    RUNS[f"compressor {_name}"] = (A.EFL(0.0, "C", _made, None, client_feedback=False), LEAST, LocalSGD(STEPS, 0.2), Uniform(2))


def suited(method: A.Algorithm):
    """The first problem, local solver and law of participation with which the method makes a round."""
    slide = SubgradientSteps(STEPS, Schedule("inverse-sqrt", 0.1), 2.0)
    for on, solver in ((LEAST, BATCHES), (LEAST, WALK), (LEAST, Exact()), ("LAD", slide), ("LAD", SubgradientSliding())):
        for sampling in (Uniform(2), Full()):
            try:
                simulate(PROBLEMS[on], method, 1, sampling=sampling, local_solver=solver)
            except FedTheoryError:
                continue
            return on, solver, sampling
    raise LookupError(f"{method.name} makes a round on none of these problems: add a run of it to RUNS")


for _name, _method in methods_beyond(run[0] for run in RUNS.values()).items():
    RUNS[_name] = (_method, *suited(_method))
METRICS = (
    "objective", "gradient_norm", "nonzeros", "entropy", "update_entropy", "drift", "participants", "bits_up", "bits_down", "bits",
)  # fmt: skip


def test_no_method_solver_or_compressor_is_left_out():
    """A local solver that comes later has to be added above; methods and compressors come from their registries."""
    assert {run[0].name for run in RUNS.values()} == set(algorithms.names())
    solvers = {n for n in local.__all__ if inspect.isclass(c := getattr(local, n)) and issubclass(c, local.LocalSolver)}
    assert {type(run[2]).__name__ for run in RUNS.values()} == solvers - {"LocalSolver"}
    sent = {getattr(run[0], side, None) for run in RUNS.values() for side in ("compressor", "down_compressor")} - {None}
    assert {c.name for c in sent} == set(messages.names())


def play(name: str, like) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Every leaf of every state (rounds + 1, ...), and the metrics."""
    algorithm, on, solver, sampling = RUNS[name]
    p = hold_out(PROBLEMS[LEAST]) if on == "held out" else PROBLEMS[on]
    local_work = not isinstance(algorithm, A.Subgradient)
    run = simulate(
        p,
        algorithm,
        ROUNDS,
        x0=np.random.default_rng(1).normal(size=(SCENARIOS, p.dim)),
        sampling=sampling,
        scenarios=SCENARIOS,
        seed=2,
        local_solver=solver,
        record=METRICS if local_work and not isinstance(algorithm, A.FedMLS) else tuple(set(METRICS) - {"drift", "update_entropy"}),
        keep_states=True,
        like=like,
    )
    for state in run.states:
        for field, leaf in zip(state._fields, state, strict=True):
            if leaf is not None and like is not None:
                assert type(leaf) is type(like), field  # no leaf fell back to NumPy
                assert leaf.dtype == like.dtype or field == "missed_bits", (field, leaf.dtype)  # nor changed its precision
    kept = [i for i, leaf in enumerate(run.final) if leaf is not None]
    return [np.stack([to_numpy(s[i]) for s in run.states]) for i in kept], run.metrics


@functools.cache
def reference(name: str, dtype: str = "float64"):
    return play(name, np.zeros(1, dtype=dtype))


def allowed(name: str, eps: float) -> float:
    """Relative error of a run: a path of roundings in each local step of each round; an exact solve ends at its tolerance."""
    solver = RUNS[name][2]
    work = ROUNDS * 2 * STEPS * PATH * eps
    if isinstance(solver, Exact):
        work += ROUNDS * max(solver.tolerance, 32 * eps) * 10  # KKT residual to distance: curvature is at least 0.1
    return work


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", RUNS)
def test_runs_agree(name, dtype):
    leaves, metrics = play(name, torch.zeros(1, dtype=DTYPES[dtype]))
    expected, measured = reference(name)
    assert np.abs(np.diff(expected[0], axis=0)).max() > 1e-2
    tolerance = allowed(name, torch.finfo(DTYPES[dtype]).eps)
    wire = reference(name, dtype)[1]
    for found, right in zip(leaves, expected, strict=True):
        if right.dtype.kind == "i":  # bits owed: those of this precision
            continue
        np.testing.assert_allclose(found, right, rtol=0, atol=tolerance * max(1.0, np.abs(right).max()))
    for key, values in metrics.items():
        if key in ("nonzeros", "participants"):
            np.testing.assert_array_equal(values, measured[key])
        elif "bits" in key:
            np.testing.assert_array_equal(values, wire[key])  # a float costs its width
        else:
            right = measured[key]
            np.testing.assert_allclose(values, right, rtol=0, atol=tolerance * max(1.0, np.abs(right).max()), err_msg=key)


def test_the_comparison_sees_a_small_change():
    """A step size off by 1e-3 (float32) or 1e-10 (float64) is rejected at the tolerances above."""
    algorithm, on, _, sampling = RUNS["scaffold"]
    x0 = np.random.default_rng(1).normal(size=(SCENARIOS, D))
    for dtype, change in (("float32", 1e-3), ("float64", 1e-10)):
        moved = simulate(
            PROBLEMS[on], algorithm, ROUNDS, x0, sampling, SCENARIOS, 2, GradientSteps(STEPS, 0.3 * (1 + change)),
            like=torch.zeros(1, dtype=DTYPES[dtype]),
        )  # fmt: skip
        right = reference("scaffold")[0][0][-1]
        assert np.abs(moved.x - right).max() > allowed("scaffold", torch.finfo(DTYPES[dtype]).eps) * max(1.0, np.abs(right).max())


@pytest.mark.parametrize("name", RUNS)
def test_nothing_is_made_on_a_device_of_its_own(name):
    """Run on the CPU as before where new tensors lie by default on a device that cannot compute.

    So every tensor is made where the run's are, which a GPU needs.
    """
    like = torch.zeros(1, dtype=torch.float64)
    expected = play(name, like)
    with torch.device("meta"):
        leaves, metrics = play(name, like)
    for found, right in zip(leaves, expected[0], strict=True):
        np.testing.assert_array_equal(found, right)
    for key, values in metrics.items():
        np.testing.assert_array_equal(values, expected[1][key])


@pytest.mark.parametrize("name", RUNS)
def test_memories_may_be_overwritten(name):
    """A run whose states nobody looks at overwrites its memories, and ends where one that keeps them does."""
    algorithm, on, solver, sampling = RUNS[name]
    p = hold_out(PROBLEMS[LEAST]) if on == "held out" else PROBLEMS[on]
    x0 = np.random.default_rng(1).normal(size=(SCENARIOS, p.dim))
    given = torch.tensor(x0)
    run = simulate(p, algorithm, ROUNDS, given, sampling, SCENARIOS, 2, solver, (), like=given, in_place=True)
    kept = play(name, given)[0]
    for leaf, right in zip([leaf for leaf in run.final if leaf is not None], kept, strict=True):
        np.testing.assert_array_equal(to_numpy(leaf), right[-1])
    np.testing.assert_array_equal(given.numpy(), x0)  # nor was the start touched
