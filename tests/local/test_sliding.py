"""Subgradient sliding: the compiled engine against the reference in NumPy, its random numbers, its layouts, and what it refuses."""

from __future__ import annotations

import math
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction as Q
from typing import ClassVar

import numpy as np
import pytest
from active_rows import rows_of
from cases import each

from fedtheory import errors, simulate
from fedtheory.algorithms import FedMLS
from fedtheory.local import LocalObjective, SubgradientSliding, sliding, sliding_compiled, sliding_draws, sliding_steps
from fedtheory.problems import random_quadratic
from fedtheory.problems.maximum_and_chain import MaximumAndChain
from fedtheory.problems.nonsmooth import LAD, EuclideanDistance, Hinge, L1Distance, MaxAffine, Quantile
from fedtheory.problems.nonsmooth_instances import ArjevaniShamir, NesterovWorst, TwoClientPull

RNG = np.random.default_rng(3)


def normal(*shape):
    return RNG.standard_normal(shape)


def ragged(*counts):
    return [normal(n, 5) for n in counts], [normal(n) for n in counts]


PROBLEMS = {
    "lad": LAD(normal(3, 7, 5), normal(3, 7)),
    "lad, unequal clients": LAD(*ragged(1, 9, 4)),
    "quantile": Quantile(*ragged(3, 7, 5), 0.3),
    "hinge": Hinge(normal(3, 7, 6), np.sign(normal(3, 7))),
    "hinge, ridge": Hinge(normal(3, 7, 4), np.sign(normal(3, 7)), 0.1),
    "max affine": MaxAffine(normal(3, 6, 5), normal(3, 6)),
    "l1 distance": L1Distance(normal(3, 5)),
    "distance": EuclideanDistance(normal(3, 5)),
    "nesterov": NesterovWorst(9, num_clients=2),
    "pull": TwoClientPull(0.1),
    "chain": ArjevaniShamir(4, num_clients=4),
    "maximum and chain": MaximumAndChain(3, 4, 4),
}
SAMPLED = [n for n, p in PROBLEMS.items() if hasattr(p, "features")]
RANDOM = [(n, {}) for n in PROBLEMS] + [(n, {"noise_std": 0.5}) for n in PROBLEMS]
RANDOM += [(n, {"batch_size": 3}) for n in SAMPLED] + [(n, {"batch_size": 2, "noise_std": 0.1}) for n in SAMPLED]


def walk(problem, scenarios=2, beta=0.05, seed=0, round_index=1, **options):
    rng = np.random.default_rng(11)
    shape = (problem.num_clients, scenarios, problem.dim)
    start, linear = rng.standard_normal(shape), 0.3 * rng.standard_normal(shape)
    solver = SubgradientSliding(**{"steps": 400, "radius": 1.5} | options)
    rows = rows_of(problem.num_clients, scenarios, round_index, seed)
    return solver.solve(problem, LocalObjective(start, linear=linear, curvature=beta), start, rows)


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a.y, b.y, rtol=0, atol=tolerance)
    np.testing.assert_allclose(a.average, b.average, rtol=0, atol=tolerance)


# --- the compiled engine --------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "options"), RANDOM)
@pytest.mark.parametrize("radius", [1.5, math.inf])
def test_engines_agree(name, options, radius):
    problem = PROBLEMS[name]
    close(*(walk(problem, radius=radius, engine=e, **options) for e in ("numpy", "numba")))


@pytest.mark.parametrize("name", PROBLEMS)
def test_engines_agree_at_kinks(name):
    # centres, targets and start on a grid: exact ties, where the choice of a subgradient shows
    problem = PROBLEMS[name]
    grid = {f: np.round(getattr(problem, f)) for f in problem.client_data if f not in ("sample_weights", "slopes", "heads", "links")}
    problem = problem.like(np.zeros(1)).subset(np.arange(problem.num_clients))
    for field, values in grid.items():
        setattr(problem, field, values)
    start = np.round(np.random.default_rng(2).standard_normal((problem.num_clients, 3, problem.dim)))
    a, b = (
        SubgradientSliding(8, engine=e).solve(problem, LocalObjective(start, curvature=1.0), start, rows_of(problem.num_clients, 3))
        for e in ("numpy", "numba")
    )
    close(a, b)


@each("samples", [1, 7, 8, 9, 16, 25])
@each("dim", [1, 2, 7, 8, 9])
@each("kind", [LAD, Hinge])
def test_engines_agree_whatever_is_left_beyond_whole_vectors(samples, dim, kind):
    rng = np.random.default_rng(samples * dim)
    targets = rng.standard_normal((2, samples))
    features = rng.standard_normal((2, samples, dim))
    problem = LAD(features, targets) if kind is LAD else Hinge(features, np.sign(targets), 0.05)
    for options in ({}, {"batch_size": 2, "noise_std": 0.2}):
        close(*(walk(problem, steps=60, engine=e, **options) for e in ("numpy", "numba")))


class Pool(ThreadPoolExecutor):
    """A pool that notes its size."""

    sizes: ClassVar[list[int]] = []

    def __init__(self, size):
        super().__init__(size)
        self.sizes.append(size)


def test_one_thread_or_many(monkeypatch):
    problem = PROBLEMS["lad"]
    monkeypatch.setattr(Pool, "sizes", [])
    monkeypatch.setattr(sliding_compiled, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(sliding_compiled, "WORTH_A_THREAD", 1)
    runs = [walk(problem, scenarios=5, engine="numba", threads=t, noise_std=0.1) for t in (1, 2, 7, 99)]
    assert Pool.sizes == [1, 6, 14]  # beside the thread that asks; no more than there are rows
    for run in runs[1:]:
        np.testing.assert_array_equal(run.y, runs[0].y)
        np.testing.assert_array_equal(run.average, runs[0].average)


@pytest.mark.parametrize(("steps", "threads", "pools"), [(400, 2, []), (400, 7, []), (200_000, 2, [1]), (200_000, 1, [])])
def test_an_explicit_number_of_threads_is_the_most_that_may_be_used(steps, threads, pools, monkeypatch):
    monkeypatch.setattr(Pool, "sizes", [])
    monkeypatch.setattr(sliding_compiled, "ThreadPoolExecutor", Pool)
    walk(PROBLEMS["distance"], engine="numba", threads=threads, steps=steps)
    assert Pool.sizes == pools  # starting a thread takes as long as some thousand steps


def test_which_engine(monkeypatch):
    called = []
    true = sliding_compiled.solve
    monkeypatch.setattr(sliding_compiled, "solve", lambda *a: called.append(1) or true(*a))
    walk(PROBLEMS["lad"], engine="numpy")
    assert not called
    walk(PROBLEMS["lad"], engine="auto")
    assert called == [1]
    walk(random_quadratic(2, 3, 1), engine="auto", beta=50.0)
    assert called == [1]


def test_a_subclass_is_not_taken_for_its_parent():
    class Doubled(LAD):
        def client_gradient(self, y):
            return 2 * super().client_gradient(y)

    problem = Doubled(PROBLEMS["lad"].features, PROBLEMS["lad"].targets)
    assert sliding_compiled.compiled_form(problem) is None
    close(walk(problem), walk(problem, engine="numpy"), 0.0)


# --- the reference --------------------------------------------------------------------------------
@pytest.mark.parametrize(("name", "options"), RANDOM)
@pytest.mark.parametrize("cache", [1, 60, 400])
def test_rows_that_walk_together_do_not_matter(name, options, cache, monkeypatch):
    problem = PROBLEMS[name]
    whole = walk(problem, scenarios=7, steps=70, engine="numpy", **options)
    monkeypatch.setattr(sliding_steps, "IN_CACHE", cache)
    for steps_worth in (8, 1000):  # with the clients in groups, and without
        monkeypatch.setattr(sliding_steps, "FEW", steps_worth)
        close(walk(problem, scenarios=7, steps=70, engine="numpy", **options), whole)


def test_data_stay_in_the_cache(monkeypatch):
    problem = LAD(normal(6, 7, 5), normal(6, 7))
    monkeypatch.setattr(sliding_steps, "IN_CACHE", 60)
    pieces = sliding_steps._pieces(problem, (6, 9, 5), 8)
    numbers = np.zeros((6, 9))
    for part, clients, points in pieces:
        numbers[clients, points] += 1
        rows = numbers[clients, points].size
        assert part.features.size <= 2 * 60 and (rows * (5 + 7) <= 60)
        np.testing.assert_array_equal(part.features, problem.features[clients])
    assert (numbers == 1).all()
    assert sliding_steps._pieces(problem, (6, 9, 5), 8)[0][0] is pieces[0][0]
    assert {part for part, *_ in sliding_steps._pieces(problem, (6, 9, 5), 7)} == {problem}  # not worth it


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_new_data_are_seen(engine):
    problem, other = (LAD(normal(3, 7, 5), normal(3, 7)) for _ in range(2))
    walk(problem, engine=engine)
    problem.features, problem.targets = other.features, other.targets
    close(walk(problem, engine=engine), walk(other, engine=engine), 0.0)


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_a_new_number_is_seen(engine):
    problem = Hinge(normal(3, 7, 5), np.sign(normal(3, 7)), 0.1)
    before = walk(problem, engine=engine)
    problem.ridge = 0.5
    after = walk(problem, engine=engine)
    close(after, walk(Hinge(problem.features, problem.targets, 0.5), engine=engine), 0.0)
    assert np.abs(after.y - before.y).max() > 1e-3


def test_what_was_prepared_does_not_travel():
    problem = LAD(normal(3, 7, 5), normal(3, 7))
    fresh = len(pickle.dumps(problem))
    here = [walk(problem, engine=e) for e in ("numpy", "numba")]
    sent = pickle.dumps(problem)
    assert len(sent) == fresh
    for engine, one in zip(("numpy", "numba"), here, strict=True):
        close(walk(pickle.loads(sent), engine=engine), one, 0.0)


@pytest.mark.parametrize("change", ["dphi", "_predict", "client_gradient"])
def test_what_a_subclass_changes_is_what_is_walked_on(change):
    class Other(LAD):
        pass

    class Reference(Other):
        def client_gradient(self, y):  # a method of its own, so that nothing is made of the parts
            return super().client_gradient(y)

    inherited = getattr(LAD, change)
    setattr(Other, change, lambda self, *a: 0.5 * inherited(self, *a))
    features, targets = PROBLEMS["lad"].features, PROBLEMS["lad"].targets
    got, plain = walk(Other(features, targets), engine="numpy"), walk(PROBLEMS["lad"], engine="numpy")
    close(got, walk(Reference(features, targets), engine="numpy"))
    assert np.abs(got.y - plain.y).max() > 1e-3


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_start_of_another_type(dtype):
    problem, shape = PROBLEMS["lad"], (3, 2, 5)
    start = np.zeros(shape, dtype)
    of_like = problem.like(start) if dtype == np.float32 else problem
    got, double = (
        SubgradientSliding(40, 1.5, engine="numpy").solve(p, LocalObjective(s, curvature=1.0), s, rows_of(3, 2))
        for p, s in ((of_like, start), (problem, np.zeros(shape)))
    )
    assert got.y.dtype == got.average.dtype == (np.float32 if dtype == np.float32 else float)
    close(got, double, 1e-5 if dtype == np.float32 else 0.0)


def test_no_rows():
    for engine in ("numpy", "numba"):
        assert walk(PROBLEMS["lad"], scenarios=0, engine=engine).average.shape == (3, 0, 5)


def test_importing_the_library_does_not_import_numba():
    code = "import sys, fedtheory, fedtheory.algorithms, fedtheory.local; print('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"


# --- the mathematics ------------------------------------------------------------------------------
def test_averaging_weights_are_lans():
    # avg_T = sum_t 2(t + 1) u_t/(T(T + 3)): the weights of the recursion, in fractions
    weights: list[Q] = []
    for T in range(1, 9):
        theta = Q(2 * (T + 1), T * (T + 3))
        weights = [(1 - theta) * w for w in weights] + [theta]
        assert weights == [Q(2 * (s + 1), T * (T + 3)) for s in range(1, T + 1)]
        for first in range(1, T + 1):
            growth, last = sliding_steps.schedule(first, T)
            np.testing.assert_allclose(last, [float(w) for w in weights[first - 1 :]], rtol=1e-15)
            np.testing.assert_array_equal(growth, [1 + t / 2 for t in range(first, T + 1)])


@pytest.mark.parametrize("engine", ["numpy", "numba"])
def test_the_start_does_not_enter_the_average(engine):
    one = walk(PROBLEMS["lad"], steps=1, engine=engine)
    np.testing.assert_array_equal(one.y, one.average)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("T", [1, 3, 50])
def test_inner_bound(name, T):
    """Lan (2016), Proposition 1, without noise, M = 2G: Phi = f + <g, .> + beta/2 ||. - u_0||^2, u_0 and u in the ball:

    Phi(avg_T) - Phi(u) + beta (T+1)(T+2)/(2T(T+3)) ||u_T - u||^2 <= (beta ||u_0 - u||^2 + 8 G^2 (T + H_T)/beta)/(T(T+3)).
    """
    problem, beta, radius = PROBLEMS[name], 0.5, 1.5
    shape = (problem.num_clients, 4, problem.dim)
    start = sliding.project_ball(np.random.default_rng(11).standard_normal(shape), radius)
    objective = LocalObjective(start, linear=0.3 * np.random.default_rng(12).standard_normal(shape), curvature=beta)
    rows, G = rows_of(problem.num_clients, 4), problem.lipschitz(radius)[:, None]
    result, far = (SubgradientSliding(t, radius).solve(problem, objective, start, rows) for t in (T, 20_000))

    def phi(u):
        return problem.client_value(u) + objective.penalty_value(u)

    harmonic = sum(1 / t for t in range(1, T + 1))
    for u in (far.average, np.zeros_like(start)):  # nearly the minimiser, and any other point
        left = phi(result.average) - phi(u) + beta * (T + 1) * (T + 2) / (2 * T * (T + 3)) * ((result.y - u) ** 2).sum(-1)
        right = (beta * ((start - u) ** 2).sum(-1) + 8 * G**2 * (T + harmonic) / beta) / (T * (T + 3))
        assert (left <= right + 1e-12).all()


def test_projection_is_exact_inside():
    u = normal(4, 3) * np.array([[1e-9], [0.1], [1.0], [1e9]])
    v = sliding.project_ball(u, 1.0)
    inside = np.linalg.norm(u, axis=1) <= 1
    np.testing.assert_array_equal(v[inside], u[inside])
    np.testing.assert_allclose(np.linalg.norm(v[~inside], axis=1), 1, rtol=1e-15)
    np.testing.assert_array_equal(sliding.project_ball(np.zeros((1, 3)), 1.0), np.zeros((1, 3)))


# --- random numbers -------------------------------------------------------------------------------
@pytest.mark.parametrize("options", [{"noise_std": 0.5}, {"batch_size": 3}, {"batch_size": 1, "noise_std": 0.2}])
def test_random_numbers_do_not_depend_on_chunks(monkeypatch, options):
    problem = PROBLEMS["lad, unequal clients"]
    whole = [walk(problem, engine=e, **options) for e in ("numpy", "numba")]
    monkeypatch.setattr(sliding_draws, "CHUNK", 97)
    for engine, before in zip(("numpy", "numba"), whole, strict=True):
        after = walk(problem, engine=engine, **options)
        np.testing.assert_array_equal(after.y, before.y)
        np.testing.assert_array_equal(after.average, before.average)


def test_noise_has_the_variance_asked_for():
    problem, std = L1Distance(np.zeros((2, 4))), 0.7
    solver = SubgradientSliding(3000, noise_std=std)
    noise = np.concatenate([n for _, n, _ in sliding_draws.draws(solver, problem, 4, rows_of(problem.num_clients, 2))], axis=2)
    size_sq = (noise**2).sum(-1)
    error = size_sq.std() / math.sqrt(size_sq.size)
    assert abs(size_sq.mean() - std**2) < 5 * error
    assert np.abs(noise.mean(axis=(0, 1, 2))).max() < 5 * std / 2 / math.sqrt(size_sq.size)
    flat = noise.reshape(4, -1)
    assert np.abs(np.corrcoef(flat) - np.eye(4)).max() < 0.05  # clients and scenarios apart


def test_batches_are_unbiased_and_within_a_client():
    problem = PROBLEMS["lad, unequal clients"]
    solver = SubgradientSliding(5000, batch_size=2)
    samples = np.concatenate([s for _, _, s in sliding_draws.draws(solver, problem, 5, rows_of(problem.num_clients, 2))], axis=2)
    for k, n in enumerate((1, 9, 4)):
        count = np.bincount(samples[k].ravel(), minlength=n)
        assert len(count) == n
        assert (np.abs(count - count.sum() / n) < 5 * np.sqrt(count.sum() / n) + 1e-9).all()


def test_random_numbers_are_keyed():
    problem = PROBLEMS["lad"]
    base = walk(problem, noise_std=0.5)
    for change in ({"seed": 1}, {"round_index": 2}):
        assert np.abs(walk(problem, noise_std=0.5, **change).y - base.y).max() > 1e-3
    np.testing.assert_array_equal(walk(problem, noise_std=0.5).y, base.y)
    more = walk(problem, scenarios=2, noise_std=0.5)
    np.testing.assert_array_equal(more.y, base.y)


def test_other_array_libraries():
    torch = pytest.importorskip("torch")
    problem = PROBLEMS["lad"]
    algorithm = FedMLS(0.3, 1.0, 4, 3.0, problem.lipschitz_rms(3.0), noise_std=0.1)
    mine = simulate(problem, algorithm, 4, x0=np.ones(5))
    theirs = simulate(problem, algorithm, 4, x0=np.ones(5), like=torch.zeros(1, dtype=torch.float64))
    np.testing.assert_allclose(mine.x, theirs.x, rtol=0, atol=1e-12)


# --- bad input ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "change",
    [
        {"steps": 0},
        {"steps": 1.5},
        {"steps": True},
        {"radius": 0.0},
        {"radius": math.nan},
        {"noise_std": -1.0},
        {"noise_std": math.inf},
        {"batch_size": 0},
        {"engine": "fortran"},
        {"threads": 0},
    ],
)
def test_values_out_of_range(change):
    with pytest.raises(errors.InvalidInput, match=f"^{next(iter(change))} (=|is) "):
        SubgradientSliding(**change)


@pytest.mark.parametrize("curvature", [0.0, -1.0, math.nan, np.ones(5)])
def test_curvature_is_needed(curvature):
    start = np.zeros((3, 1, 5))
    with pytest.raises(errors.InvalidInput, match="needs one finite number beta > 0"):
        SubgradientSliding().solve(
            PROBLEMS["lad"], LocalObjective(start, curvature=curvature), start, rows_of(PROBLEMS["lad"].num_clients, 1)
        )


def test_refusals():
    problem = PROBLEMS["lad"]
    start = np.zeros((3, 1, 5))
    with pytest.raises(errors.InvalidInput, match="no l1 penalty"):
        SubgradientSliding().solve(problem, LocalObjective(start, curvature=1.0, l1=1.0), start, rows_of(problem.num_clients, 1))
    with pytest.raises(errors.InvalidInput, match="float64 arrays in main memory, not on float32 on cpu"):
        SubgradientSliding(engine="numba").use_compiled(problem, start.astype(np.float32))
    with pytest.raises(errors.MissingCapability, match="no samples"):
        SubgradientSliding(batch_size=2).check(PROBLEMS["distance"])
    with pytest.raises(errors.MissingCapability, match="no compiled form"):
        SubgradientSliding(engine="numba").check(random_quadratic(2, 3, 1))


@pytest.mark.parametrize("told", ["²", "١٢", "9" * 5000, "-1", "x", ""])
def test_threads_are_a_number_in_the_environment_or_as_many_as_there_are(told, monkeypatch):
    from fedtheory.local.sliding_compiled import cores

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    every = cores()
    monkeypatch.setenv("OMP_NUM_THREADS", told)
    assert cores() == every
    monkeypatch.setenv("OMP_NUM_THREADS", "1,2")
    assert cores() == 1
