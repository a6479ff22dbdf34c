"""Speed of FedMLS's local steps and rounds, beside the best that can be written by hand.

    python validation/timings/performance_fedmls.py [--out FILE.json]

``fedmls_rows()`` gives the same figures to performance.py. Beside engine='numpy' stands a page of
NumPy for least absolute deviations, written for these loops alone: no call more than the step
needs, none that makes an array, data transposed beforehand, points averaged many at a time, and as
many clients and points together as turn out fastest. Beside the compiled engine stands the same
step in C, where there is a compiler. All do the same steps and are compared before they are timed.
Repetitions alternate, and medians count, of CPU time where it is not said otherwise.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rows import Figure
from threadpoolctl import threadpool_limits

from fedtheory import simulate
from fedtheory.algorithms import FedMLS, fedmls_parameters
from fedtheory.compiled import njit
from fedtheory.local import LocalObjective, SubgradientSliding, sliding_compiled
from fedtheory.local.lanes import LANES, entries, load, splat, total, zeros
from fedtheory.local.objective import Rows
from fedtheory.problems.nonsmooth import LAD
from fedtheory.problems.nonsmooth_instances import TwoClientPull
from fedtheory.provenance import provenance, write_json
from fedtheory.randomness import Stream

__all__ = ["Figure", "fedmls_rows"]

CLIENTS, SAMPLES, DIM = 10, 50, 20
BETA, RADIUS = 0.5, 4.0


class Shape(NamedTuple):
    """Clients, samples of each, coordinates, scenarios, local steps."""

    clients: int
    samples: int
    dim: int
    scenarios: int
    steps: int

    def __str__(self) -> str:
        N, n, d, S, T = self
        return f"LAD, N={N}, n_i={n}, d={d}, {S} scenario{'s' * (S > 1)}, T={T}"


SHAPES = (
    Shape(CLIENTS, SAMPLES, DIM, 1, 10),
    Shape(CLIENTS, SAMPLES, DIM, 1, 1000),
    Shape(CLIENTS, SAMPLES, DIM, 10, 400),
    Shape(CLIENTS, SAMPLES, DIM, 100, 8),
    Shape(CLIENTS, SAMPLES, DIM, 100, 60),
    Shape(CLIENTS, SAMPLES, DIM, 1000, 10),
    Shape(2, 2, 2, 1, 1000),
    Shape(100, 20, 5, 1, 300),
    Shape(1000, SAMPLES, DIM, 1, 50),
    Shape(CLIENTS, 200, 100, 1, 200),
    Shape(CLIENTS, 200, 100, 20, 40),
)
IN_C = (SHAPES[0], Shape(CLIENTS, SAMPLES, DIM, 1, 20_000), SHAPES[4])


class Instance:
    """Random data of a shape, and what walks along them."""

    def __init__(self, shape: Shape, seed: int = 1) -> None:
        N, n, d, S, self.steps = self.shape = shape
        rng = np.random.default_rng(seed)
        self.features = rng.standard_normal((N, n, d))
        self.targets = self.features @ rng.standard_normal(d) + rng.standard_t(2, (N, n))
        self.center, self.linear = (
            0.1 * rng.standard_normal((N, S, d)),
            0.01 * rng.standard_normal((N, S, d)),
        )
        self.transposed = np.ascontiguousarray(self.features.mT)
        self.problem = LAD(self.features, self.targets)
        numbers = np.broadcast_to(np.arange(S), (N, S))
        self.rows = Rows(np.arange(N), numbers, np.ones((N, S), dtype=bool), Stream(0), 1)

    def ours(self, engine: str, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """The last points and their averages."""
        solver = SubgradientSliding(self.steps, RADIUS, engine=engine, threads=threads)
        objective = LocalObjective(self.center, linear=self.linear, curvature=BETA)
        result = solver.solve(self.problem, objective, self.center, self.rows)
        return result.y, result.average

    def page(self, clients: int, points: int) -> tuple[np.ndarray, np.ndarray]:
        """The same by hand, so many clients and points of each at a time."""
        N, _, _, S, _ = self.shape
        y, average = np.empty_like(self.center), np.empty_like(self.center)
        for i in range(0, N, clients):
            k, part = slice(i, i + clients), (self.features, self.transposed, self.targets)
            for j in range(0, S, points):
                at = k, slice(j, j + points)
                y[at], average[at] = page(
                    *(a[k] for a in part), self.center[at], self.linear[at], BETA, self.steps
                )
        return y, average

    def fastest_page(self) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
        """The page with as many clients and points together as a trial finds best."""
        N, S = self.shape.clients, self.shape.scenarios
        choices = {
            (min(N, c), min(S, b)) for c in (N, 256, 64, 16, 4) for b in (S, 1000, 200, 100, 50)
        }
        works = {
            at: (lambda at=at: self.page(*at)) for at in choices if at[0] * at[1] >= min(N * S, 10)
        }
        seconds = alternated(works, 3)
        return works[min(works, key=lambda at: float(np.median(seconds[at][0])))]


def page(
    features: np.ndarray,
    transposed: np.ndarray,
    targets: np.ndarray,
    center: np.ndarray,
    linear: np.ndarray,
    curvature: float,
    steps: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The walk in NumPy by hand, of data (N, n, d), (N, d, n) and (N, n) from center (N, B, d)."""
    center, linear = np.ascontiguousarray(center), np.ascontiguousarray(linear)
    targets = np.repeat(targets[:, None], center.shape[1], axis=1)
    multiply, subtract, add, matmul = np.multiply, np.subtract, np.add, np.matmul
    z, slopes, move, gradient = (
        np.empty_like(targets),
        np.empty_like(targets),
        np.empty_like(center),
        np.empty_like(center),
    )
    count = max(1, min(64, steps, 2**17 // center.size))
    kept = np.empty((count, *center.shape))
    flat, share, beta, pace = (
        kept.reshape(count, -1),
        np.array(1 / targets.shape[2]),
        np.array(curvature),
        np.empty(()),
    )
    u = average = center
    for done in range(0, steps, count):
        last = min(done + count, steps)
        for t, place in enumerate(kept[: last - done], done + 1):
            matmul(u, transposed, z)
            subtract(z, targets, z)
            np.sign(z, slopes)
            multiply(slopes, share, slopes)
            matmul(slopes, features, gradient)
            subtract(u, center, move)
            multiply(move, beta, move)
            subtract(move, linear, move)
            add(move, gradient, move)
            pace[()] = 1 / ((1 + t / 2) * curvature)
            multiply(move, pace, move)
            u = subtract(u, move, place)
            norm_sq = np.vecdot(u, u)
            if norm_sq.item(norm_sq.argmax()) > RADIUS**2:
                u *= (RADIUS / np.maximum(np.sqrt(norm_sq), RADIUS))[..., None]
        weights = 2 * (np.arange(done + 1, last + 1) + 1) / (last * (last + 3))
        mean = (weights @ flat[: last - done]).reshape(center.shape)
        average = mean if done == 0 else average * (done * (done + 3) / (last * (last + 3))) + mean
    return u.copy(), average


def rounds_by_hand(instance: Instance, algorithm: FedMLS) -> np.ndarray:
    """FedMLS's rounds of one scenario in NumPy, with the objective of every round: (K + 1,)."""
    N, n, d, _, _ = instance.shape
    data, targets, lam = (
        (instance.features, instance.transposed, instance.targets),
        instance.targets,
        float(algorithm.lam),
    )
    x = z = np.zeros(d)
    x_local = z_local = np.zeros((N, 1, d))
    told = [np.abs(instance.features @ x - targets).sum() / (N * n)]
    for k in range(1, algorithm.rounds + 1):
        gamma = 2 / (k + 1)
        y_local = (1 - gamma) * x_local + gamma * z_local
        y = (1 - gamma) * x + gamma * z
        z = z - k / 4 * (y - y_local[:, 0].sum(axis=0) / N)
        size = np.sqrt(z @ z)
        if size > RADIUS:
            z = z * (RADIUS / size)
        x = (1 - gamma) * x + gamma * z
        told.append(np.abs(instance.features @ x - targets).sum() / (N * n))
        if k < algorithm.rounds:
            z_local, average = page(
                *data, z_local, (y - y_local) / lam, 4 / (lam * k), algorithm.steps(k)
            )
            x_local = (1 - gamma) * x_local + gamma * average
    return np.array(told)


C = r"""
#include <math.h>
void walk(const double *A, const double *targets, const double *center, const double *linear,
          double *us, double *averages, long clients, long points, long steps, double beta, double radius) {
  for (long row = 0; row < clients * points; row++) {
    const double *a = A + row / points * N * D, *b = targets + row / points * N;
    const double *c = center + row * D, *l = linear + row * D;
    double u[D], avg[D];
    for (int i = 0; i < D; i++) u[i] = c[i], avg[i] = 0;
    for (long t = 1; t <= steps; t++) {
      double s[D] = {0}, norm = 0, pace = 1 / ((1 + 0.5 * t) * beta);
      double theta = 2.0 * (t + 1) / ((double)t * (t + 3));
      for (int j = 0; j < N; j++) {
        double z = -b[j];
        for (int i = 0; i < D; i++) z += a[j * D + i] * u[i];
        double w = (double)((z > 0) - (z < 0));
        for (int i = 0; i < D; i++) s[i] += a[j * D + i] * w;
      }
      for (int i = 0; i < D; i++) {
        u[i] -= pace * (s[i] * (1.0 / N) + beta * (u[i] - c[i]) - l[i]);
        norm += u[i] * u[i];
      }
      if (norm > radius * radius) {
        double scale = radius / sqrt(norm);
        for (int i = 0; i < D; i++) u[i] *= scale;
      }
      for (int i = 0; i < D; i++) avg[i] = (1 - theta) * avg[i] + theta * u[i];
    }
    for (int i = 0; i < D; i++) us[row * D + i] = u[i], averages[row * D + i] = avg[i];
  }
}
"""


def in_c(instance: Instance) -> Callable[[], tuple[np.ndarray, np.ndarray]] | None:
    """The walk in C, compiled for the samples and coordinates; None without a compiler."""
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    N, n, d, S, steps = instance.shape
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "walk.c"), Path(folder, "walk.so")
        source.write_text(C)
        options = [
            "-O3",
            "-march=native",
            "-ffast-math",
            "-funroll-loops",
            f"-DN={n}",
            f"-DD={d}",
            "-shared",
            "-fPIC",
            "-lm",
        ]
        wide = ["-mprefer-vector-width=512"] if "gcc" in compiler else []
        subprocess.run([compiler, *options, *wide, str(source), "-o", str(library)], check=True)
        loaded = ctypes.CDLL(str(library))
    given = [
        np.ascontiguousarray(a)
        for a in (instance.features, instance.targets, instance.center, instance.linear)
    ]

    def work() -> tuple[np.ndarray, np.ndarray]:
        out = np.empty_like(instance.center), np.empty_like(instance.center)
        places = [a.ctypes.data_as(ctypes.c_void_p) for a in (*given, *out)]
        loaded.walk(
            *places,
            *map(ctypes.c_long, (N, S, steps)),
            ctypes.c_double(BETA),
            ctypes.c_double(RADIUS),
        )
        return out

    return work


def _clock(work: Any) -> tuple[float, float, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - cpu, result


def alternated(
    works: dict[Any, Callable[[], Any]], repeats: int, least: float = 0.02
) -> dict[Any, np.ndarray]:
    """CPU and wall seconds of each work (2, repeats), in turns of `least` seconds or more."""
    times, seconds = {}, {name: np.empty((2, repeats)) for name in works}
    for name, work in works.items():
        work()
        times[name] = max(1, round(least / max(1e-9, _clock(work)[1])))
    for i in range(repeats):
        for name, work in works.items():
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(times[name]):
                work()
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            seconds[name][:, i] = cpu / times[name], wall / times[name]
    return seconds


@njit()
def _loads(values: np.ndarray, times: int) -> float:
    """Read an array that stays in the nearest cache, eight doubles at a time, and next to nothing
    else."""
    place = entries(values)
    a = b = c = d = e = f = g = h = splat(0.0)
    for _ in range(times):
        for i in range(0, values.size, 64):
            a, b, c, d = (
                a + load(place, i),
                b + load(place, i + 8),
                c + load(place, i + 16),
                d + load(place, i + 24),
            )
            e, f, g, h = (
                e + load(place, i + 32),
                f + load(place, i + 40),
                g + load(place, i + 48),
                h + load(place, i + 56),
            )
    return total(a + b + (c + d) + (e + f + (g + h)))


def step_loads(samples: int, dim: int) -> int:
    """Vectors that a step of a linear model reads, as its loops are written; it makes fewer
    products than that.

    Predictions read a tile's row of eight samples for each coordinate, and a coordinate for every
    two tiles; the subgradient reads every tile's row again, and a tile's slopes for every eight
    coordinates; lines 22-24 read seven vectors of d.
    """
    tiles, vectors = -(-samples // LANES), -(-dim // LANES)
    even = dim + dim % 2
    return (
        tiles * even
        + -(-tiles // 2) * even
        + tiles * vectors * (LANES + 1)
        + 2 * tiles
        + 7 * vectors
    )


def load_bound(repeats: int = 7) -> float:
    """Nanoseconds for the loads of a step, at this core's rate of reading its nearest cache."""
    values, times = zeros(1024), 2000
    _loads(values, 1)
    seconds = min(_clock(lambda: _loads(values, times))[0] for _ in range(repeats))
    return 1e9 * seconds / (times * len(values) / LANES) * step_loads(SAMPLES, DIM)


def busier_thread(job: Any) -> float:
    """CPU seconds of the thread that works longest: what two free cores would take, on a machine
    whose cores are not free."""
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


def _same(one: Any, other: Any, what: str) -> None:
    difference = max(float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True))
    if not difference < 1e-12:
        raise SystemExit(f"{what} differ by {difference:.3g}: the ratios would mean nothing")


def _beside(
    ours: np.ndarray,
    best: np.ndarray,
    names: tuple[str, str],
    scale: float,
    unit: str,
    note: str,
    target: str,
) -> list[Figure]:
    """Figures of what two works took, (2, repeats) each; the target is that of the CPU time."""
    cpu, wall = (float(np.median(best[i] / ours[i])) for i in (0, 1))
    took = [
        Figure(name, scale * float(np.median(t[0])), unit, note=note)
        for name, t in zip(names, (ours, best), strict=True)
    ]
    ratio = f"{names[1]}, over {names[0].split(', ')[-1]}"
    return [
        *took,
        Figure(ratio, cpu, "x", target, "CPU time"),
        Figure(ratio, wall, "x", "", "wall time"),
    ]


def beside_the_page(repeats: int = 15) -> list[Figure]:
    """Nanoseconds a client-step of engine='numpy' and of the page by hand."""
    return [f for s in SHAPES for f in _steps(Instance(s), "numpy", repeats)]


def beside_c(repeats: int = 15) -> list[Figure]:
    """Nanoseconds a client-step of the compiled engine and of the same in C, where C compiles."""
    return [f for s in IN_C for f in _steps(Instance(s), "numba", repeats)]


def _steps(instance: Instance, engine: str, repeats: int) -> list[Figure]:
    """An engine's steps beside the best by hand: a page of NumPy, or C."""
    shape, compiled = instance.shape, engine == "numba"
    best = in_c(instance) if compiled else instance.fastest_page()
    if best is None:
        return []
    by_hand, least = ("C", ">= 1") if compiled else ("page of NumPy", ">= 0.9")
    _same(best(), instance.ours(engine), f"{by_hand} and engine={engine!r}")
    took = alternated({"ours": lambda: instance.ours(engine), "best": best}, repeats)
    names = f"client-step, engine={engine!r}", f"client-step, {by_hand}"
    one = 1e9 / (shape.clients * shape.scenarios * shape.steps)
    target = least if shape.steps > 20 else ""
    return _beside(took["ours"], took["best"], names, one, "ns", str(shape), target)


def rounds(count: int = 300, repeats: int = 9) -> list[Figure]:
    """Microseconds a round of short local work, its objective told, and of the same by hand."""
    found, instance = [], Instance(SHAPES[1])
    for D in (1e9, 4e5):
        algorithm = FedMLS(lam=0.1, D=D, rounds=count, radius=RADIUS, lipschitz=4.0)
        steps = algorithm.total_steps() / count

        def ours(engine: str, algorithm: FedMLS = algorithm) -> np.ndarray:
            run = simulate(
                instance.problem,
                algorithm,
                count,
                local_solver=SubgradientSliding(engine=engine, threads=1),
            )
            return run.metrics["objective"][:, 0]

        best = lambda algorithm=algorithm: rounds_by_hand(instance, algorithm)  # noqa: E731
        works = {engine: (lambda engine=engine: ours(engine)) for engine in ("numpy", "numba")}
        for work in works.values():
            _same([work()], [best()], "the rounds and those by hand")
        took = alternated({**works, "best": best}, repeats, 0.1)
        for engine in works:
            names = f"a round, engine='{engine}'", "a round, page of NumPy"
            found += _beside(
                took[engine],
                took["best"],
                names,
                1e6 / count,
                "us",
                f"{steps:.3g} local steps in the mean",
                "",
            )
    return found


def two_cores(repeats: int = 7) -> list[Figure]:
    """The compiled engine on two cores, and beside a core's rate of reading."""
    instance = Instance(IN_C[1])
    works = {
        threads: (lambda threads=threads: instance.ours("numba", threads)) for threads in (1, 2)
    }
    took, alone, busier, bound = alternated(works, repeats), np.inf, np.inf, load_bound()
    for _ in range(repeats):
        alone, busier = min(alone, busier_thread(works[1])), min(busier, busier_thread(works[2]))
        bound = min(bound, load_bound(1))
    one = float(took[1].min()) * 1e9 / (CLIENTS * instance.steps)
    return [
        Figure(
            "compiled, two cores against one",
            float(np.median(took[1][1] / took[2][1])),
            "x",
            "",
            "wall time; needs two free cores",
        ),
        Figure(
            "compiled, two cores against one",
            alone / busier,
            "x",
            ">= 1.8",
            "CPU time of the busier thread",
        ),
        Figure(
            "loads of a step, fused bound",
            bound,
            "ns",
            "",
            f"{step_loads(SAMPLES, DIM)} vectors at the measured rate of loads",
        ),
        Figure(
            "share of the fused bound",
            bound / one,
            "x",
            "",
            "1 is a step that does nothing but read its data",
        ),
    ]


def theorem_2(epsilon: float = 0.01) -> list[Figure]:
    """Theorem 2 on the two-client pull with G = D = 1 in T_k and K: 600 rounds, 8.66 million local
    steps a client."""
    problem = TwoClientPull(epsilon)
    algorithm = fedmls_parameters(problem, epsilon, 4.0, 1, lipschitz=1, skip_last=False)
    solver = SubgradientSliding(engine="numba", threads=1)
    simulate(
        problem, fedmls_parameters(problem, 0.5, 4.0, 1, lipschitz=1), 12, local_solver=solver
    )  # compiles
    wall, cpu, run = _clock(
        lambda: simulate(problem, algorithm, algorithm.rounds, local_solver=solver)
    )
    steps = algorithm.total_steps()
    gap = float(run.metrics["objective"][-1, 0])  # F* = 0
    note = f"two-client pull, K={algorithm.rounds}, {steps:,} local steps a client, F(x_K) - F* = {gap:.3g}"
    return [
        Figure(f"FedMLS at epsilon = {epsilon:g}, one core", wall, "s", "< 10", note),
        Figure(f"FedMLS at epsilon = {epsilon:g}, one core", cpu, "s", "< 10", "CPU time"),
        Figure(
            "client-step of the two-client pull", 1e9 * cpu / (2 * steps), "ns", note="CPU time"
        ),
    ]


def fedmls_rows() -> list[Figure]:
    """All figures of this file."""
    with threadpool_limits(1):
        return [*beside_the_page(), *beside_c(), *rounds(), *two_cores(), *theorem_2()]


if __name__ == "__main__":
    figures = fedmls_rows()
    for row in figures:
        print(f"{row.name:52s} {row.value:10.4g} {row.unit:3s} {row.target:6s} {row.note}")
    if sys.argv[1:2] == ["--out"]:
        write_json(
            Path(sys.argv[2]),
            {"provenance": provenance(1), "rows": [row._asdict() for row in figures]},
        )
