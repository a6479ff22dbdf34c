"""How fast the local steps of FedMLS are: the compiled loop beside the vectorised NumPy step, and Theorem 2 at epsilon = 0.01.

    python validation/timings/performance_fedmls.py

``fedmls_rows()`` gives the same figures to performance.py. Both engines do the same steps and are compared before they are
timed; repetitions alternate, and the best of each counts.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rows import Figure
from threadpoolctl import threadpool_limits

from fedtheory import simulate
from fedtheory.algorithms import fedmls_parameters
from fedtheory.compiled import njit
from fedtheory.local import LocalObjective, SubgradientSliding, sliding_compiled
from fedtheory.local.lanes import LANES, entries, load, splat, total, zeros
from fedtheory.local.objective import Rows
from fedtheory.problems.nonsmooth import LAD
from fedtheory.problems.nonsmooth_instances import TwoClientPull
from fedtheory.randomness import Stream

__all__ = ["Figure", "fedmls_rows"]

CLIENTS, SAMPLES, DIM = 10, 50, 20


def _plain_numpy(problem: LAD, objective: LocalObjective, steps: int, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """The batched step in as few NumPy calls as it takes, without the library: the leanest thing to compare with."""
    features, targets, share = problem.features, problem.targets, problem.sample_weights
    transposed = np.ascontiguousarray(features.swapaxes(1, 2))
    center, linear, beta = objective.center[:, 0], objective.linear[:, 0], objective.curvature
    u = average = center
    for t in range(1, steps + 1):
        slopes = np.sign(np.matmul(features, u[..., None])[..., 0] - targets) * share
        gradient = np.matmul(transposed, slopes[..., None])[..., 0]
        u = u - (gradient + beta * (u - center) - linear) / ((1 + t / 2) * beta)
        norm = np.sqrt(np.einsum("ni,ni->n", u, u))
        u = u * np.minimum(1.0, radius / np.maximum(norm, 1e-300))[:, None]
        theta = 2 * (t + 1) / (t * (t + 3))
        average = (1 - theta) * average + theta * u
    return u, average


def _clock(work: Any) -> tuple[float, float, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - cpu, result


@njit()
def _loads(values: np.ndarray, times: int) -> float:
    """Read an array that stays in the nearest cache, eight doubles at a time, and next to nothing else."""
    place = entries(values)
    a = b = c = d = e = f = g = h = splat(0.0)
    for _ in range(times):
        for i in range(0, values.size, 64):
            a, b, c, d = a + load(place, i), b + load(place, i + 8), c + load(place, i + 16), d + load(place, i + 24)
            e, f, g, h = e + load(place, i + 32), f + load(place, i + 40), g + load(place, i + 48), h + load(place, i + 56)
    return total(a + b + (c + d) + (e + f + (g + h)))


def step_loads(samples: int, dim: int) -> int:
    """Vectors that a step of a linear model reads, as its loops are written; it makes fewer products than that.

    Predictions read a tile's row of eight samples for each coordinate, and a coordinate for every two tiles; the subgradient reads
    every tile's row again, and a tile's slopes for every eight coordinates; lines 22-24 read seven vectors of d.
    """
    tiles, vectors = -(-samples // LANES), -(-dim // LANES)
    even = dim + dim % 2
    return tiles * even + -(-tiles // 2) * even + tiles * vectors * (LANES + 1) + 2 * tiles + 7 * vectors


def load_bound(repeats: int = 7) -> float:
    """Nanoseconds for the loads of a step of `lad_steps`, at the rate at which this core reads vectors from its nearest cache."""
    values, times = zeros(1024), 2000
    _loads(values, 1)
    seconds = min(_clock(lambda: _loads(values, times))[0] for _ in range(repeats))
    return 1e9 * seconds / (times * len(values) / LANES) * step_loads(SAMPLES, DIM)


def busier_thread(job: Any) -> float:
    """CPU seconds of the thread that works longest: what two free cores would take, on a machine whose cores are not free."""
    spent: list[float] = []
    shared = sliding_compiled._share

    def timed(run: Any, *arguments: Any) -> None:
        def part(first: int, last: int) -> None:
            begin = time.thread_time()
            run(first, last)
            spent.append(time.thread_time() - begin)

        shared(part, *arguments)

    sliding_compiled._share = timed
    try:
        job()
    finally:
        sliding_compiled._share = shared
    return max(spent)


def lad_steps(repeats: int = 7, numpy_steps: int = 1000, compiled_steps: int = 20_000) -> list[Figure]:
    """Nanoseconds per client-step of LAD at N = 10, n_i = 50, d = 20."""
    rng = np.random.default_rng(1)
    problem = LAD(rng.standard_normal((CLIENTS, SAMPLES, DIM)), rng.standard_normal((CLIENTS, SAMPLES)))
    shape = (CLIENTS, 1, DIM)
    objective = LocalObjective(np.zeros(shape), linear=0.01 * rng.standard_normal(shape), curvature=0.1)
    numbers = np.zeros((CLIENTS, 1), dtype=int)
    rows = Rows(np.arange(CLIENTS), numbers, np.ones((CLIENTS, 1), dtype=bool), Stream(0), 1)

    def work(engine: str, steps: int, threads: int = 1) -> Any:
        solver = SubgradientSliding(steps, 2.0, engine=engine, threads=threads)
        return lambda: solver.solve(problem, objective, objective.center, rows)

    a, b = (work(engine, numpy_steps)() for engine in ("numpy", "numba"))
    plain = _plain_numpy(problem, objective, numpy_steps, 2.0)
    pairs = ((a.y, b.y), (a.average, b.average), (plain[0], b.y[:, 0]), (plain[1], b.average[:, 0]))
    difference = float(max(np.abs(one - other).max() for one, other in pairs))
    if not difference < 1e-12:
        raise SystemExit(f"the engines differ by {difference:.3g}: the ratios would mean nothing")
    jobs = {"numpy": (work("numpy", numpy_steps), numpy_steps), "one": (work("numba", compiled_steps), compiled_steps)}
    jobs["plain"] = lambda: _plain_numpy(problem, objective, numpy_steps, 2.0), numpy_steps
    jobs["two"] = (work("numba", compiled_steps, 2), compiled_steps)
    best = {name: [np.inf, np.inf] for name in jobs}
    alone, busier, bound = np.inf, np.inf, load_bound()
    with threadpool_limits(1):
        for _ in range(repeats):
            for name, (job, steps) in jobs.items():
                seconds = _clock(job)[:2]
                best[name] = [min(old, 1e9 * new / (steps * CLIENTS)) for old, new in zip(best[name], seconds, strict=True)]
            alone, busier = min(alone, busier_thread(jobs["one"][0])), min(busier, busier_thread(jobs["two"][0]))
            bound = min(bound, load_bound(1))
    where = f"LAD, N={CLIENTS}, n_i={SAMPLES}, d={DIM}"
    one, plain, reference = best["one"], best["plain"], best["numpy"]
    cpu = "CPU time, the fairer one on a busy machine"
    return [
        Figure("client-step, leanest NumPy", plain[0], "ns", note=f"{where}, one core; this step only, without the library"),
        Figure("client-step, NumPy reference", reference[0], "ns", note="engine='numpy', which runs every problem and array library"),
        Figure("client-step, compiled, one core", one[0], "ns", note=where),
        Figure("client-step, compiled, two cores", best["two"][0], "ns", note="two threads"),
        Figure("compiled against leanest NumPy", plain[0] / one[0], "x", ">= 5", "one core, wall time"),
        Figure("compiled against leanest NumPy", plain[1] / one[1], "x", ">= 5", f"one core, {cpu}"),
        Figure("compiled against NumPy reference", reference[0] / one[0], "x", "", "one core, wall time"),
        Figure("compiled, two cores against one", one[0] / best["two"][0], "x", "", "wall time; needs two free cores"),
        Figure("compiled, two cores against one", alone / busier, "x", ">= 1.8", "CPU time of the busier thread"),
        Figure("loads of a step, fused bound", bound, "ns", "", f"{step_loads(SAMPLES, DIM)} vectors at the measured rate of loads"),
        Figure("share of the fused bound", bound / one[0], "x", "", "1 is a step that does nothing but read its data"),
        Figure("engines differ by", difference, "", note=f"largest coordinate after {numpy_steps:,} steps"),
    ]


def theorem_2(epsilon: float = 0.01) -> list[Figure]:
    """Theorem 2 on the two-client pull with G = D = 1 in T_k and K: 600 rounds, 8.66 million local steps a client."""
    problem = TwoClientPull(epsilon)
    algorithm = fedmls_parameters(problem, epsilon, 4.0, 1, lipschitz=1, skip_last=False)
    solver = SubgradientSliding(engine="numba", threads=1)
    simulate(problem, fedmls_parameters(problem, 0.5, 4.0, 1, lipschitz=1), 12, local_solver=solver)  # compiles
    wall, cpu, run = _clock(lambda: simulate(problem, algorithm, algorithm.rounds, local_solver=solver))
    steps = algorithm.total_steps()
    gap = float(run.metrics["objective"][-1, 0])  # F* = 0
    note = f"two-client pull, K={algorithm.rounds}, {steps:,} local steps a client, F(x_K) - F* = {gap:.3g}"
    return [
        Figure(f"FedMLS at epsilon = {epsilon:g}, one core", wall, "s", "< 10", note),
        Figure(f"FedMLS at epsilon = {epsilon:g}, one core", cpu, "s", "< 10", "CPU time"),
        Figure("client-step of the two-client pull", 1e9 * cpu / (2 * steps), "ns", note="CPU time"),
    ]


def fedmls_rows() -> list[Figure]:
    """All figures of this file."""
    return lad_steps() + theorem_2()


if __name__ == "__main__":
    for row in fedmls_rows():
        print(f"{row.name:42s} {row.value:10.4g} {row.unit:3s} {row.target:5s} {row.note}")
