"""Speed of EFL's rounds with compression: beside the same by hand, and top-k beside a full sort.

    python validation/timings/performance_efl.py

``efl_rows()`` gives the same figures to performance.py. Both are compared, models and bits on the
wire, before they are timed. Repetitions alternate, and the best of each counts.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rows import Figure
from threadpoolctl import threadpool_limits

from fedtheory import simulate
from fedtheory.algorithms import EFL
from fedtheory.arrays import top_k_mask
from fedtheory.clients import pieces
from fedtheory.local import LocalSGD, local_sgd
from fedtheory.messages import ST
from fedtheory.messages.selection import top_k_places
from fedtheory.participation.irregular import Irregular, incomplete
from fedtheory.problems import LeastSquares
from fedtheory.randomness import Stream
from fedtheory.simulation.rounds import Execution

__all__ = ["Figure", "efl_rows"]

CLIENTS, DIM, SAMPLES, SCENARIOS, STEPS, SPARSITY, LR, SEED = 100, 1000, 50, 200, 5, 0.01, 0.5, 1


def instance() -> tuple[LeastSquares, EFL, Irregular]:
    """100 least-squares clients in d = 1,000; each completes 0 to 5 local steps, all equally
    likely; ST both ways, q = 0.01."""
    rng = np.random.default_rng(SEED)
    features = rng.standard_normal((CLIENTS, SAMPLES, DIM)) / math.sqrt(DIM)
    targets = rng.standard_normal((CLIENTS, SAMPLES))
    algorithm = EFL(scheme="C", compressor=ST(SPARSITY), down_compressor=ST(SPARSITY))
    return LeastSquares(features, targets), algorithm, incomplete(CLIENTS, STEPS, np.full(STEPS + 1, 1 / (STEPS + 1)))


# --- the yardstick: by hand in NumPy, each client's rows of all scenarios side by side ------------
def ternary(wanted: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compress messages (R, d) to places (R, k), values (R, k) and bits (R,).

    The bits are of the count, the magnitude, Golomb-Rice gaps, and signs.
    """
    dim = wanted.shape[1]
    kept = np.sort(np.argpartition(np.abs(wanted), dim - k, axis=1)[:, dim - k :], axis=1)
    values = np.take_along_axis(wanted, kept, axis=1)
    mu = np.abs(values).mean(axis=1, keepdims=True)
    p, b = 1 - k / dim, 0
    while p * p + p > 1:
        p, b = p * p, b + 1
    gaps = np.diff(kept, axis=1, prepend=-1) - 1
    bits = dim.bit_length() + np.where(mu[:, 0] > 0, 64 + k + ((gaps >> b) + 1 + b).sum(axis=1), 0)
    return kept, mu * np.sign(values), bits


def by_hand(features: np.ndarray, targets: np.ndarray, steps: Iterator[np.ndarray], lr: float, most: int, scenarios: int) -> Any:
    """Server models (S, d) and all bits so far, round after round. steps (S, N): what every client
    completes of `most`."""
    clients, samples, dim = features.shape
    k, bits = math.ceil(SPARSITY * dim), 0
    w, kept_by_server = np.zeros((2, scenarios, dim))
    residual, owed = np.zeros((clients, scenarios, dim)), np.full((scenarios, clients), 64 * dim)
    for done in steps:
        total = np.zeros((scenarios, dim))
        for c in range(clients):
            rows = np.argsort(-done[:, c], kind="stable")[: np.count_nonzero(done[:, c])]
            if not len(rows):
                continue
            A, start, left = features[c], w[rows], done[rows, c]
            y = start.copy()
            for step in range(left[0]):
                going = y[: np.count_nonzero(left > step)]
                slope = going @ A.T
                slope -= targets[c]
                slope *= -lr / samples
                going += slope @ A
            y -= start
            y *= (most / left)[:, None]
            y += residual[c, rows]
            places, values, length = ternary(y, k)
            total[rows[:, None], places] += values / clients
            y[np.arange(len(rows))[:, None], places] -= values
            residual[c, rows] = y
            bits += int(length.sum() + owed[rows, c].sum())
            owed[rows, c] = 0
        some = np.flatnonzero(done.any(axis=1))
        wanted = kept_by_server[some] + total[some]
        places, values, length = ternary(wanted, k)
        here = np.arange(len(some))[:, None]
        wanted[here, places] -= values
        kept_by_server[some] = wanted
        w[some[:, None], places] += values
        owed[some] = np.minimum(owed[some] + length[:, None], 64 * dim)
        yield w, bits


# --- the figures ----------------------------------------------------------------------------------
def _clock(work: Callable[[], Any]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


@contextmanager
def without_compiled_loops() -> Iterator[None]:
    """The same rounds in NumPy's operations."""
    kept = [(module, module.COMPILED) for module in (pieces, local_sgd)]
    for module, _ in kept:
        module.COMPILED = sys.maxsize
    yield
    for module, limit in kept:
        module.COMPILED = limit


def rounds_of_efl(repeats: int = 3, part: int = 4, part_rounds: int = 3, rounds: int = 12) -> list[Figure]:
    """A round of 200 scenarios, beside the same by hand; a run's beginning and end are shared by
    its rounds."""
    problem, algorithm, sampling = instance()
    common = dict(sampling=sampling, seed=SEED, local_solver=LocalSGD(STEPS, LR))

    def hand(scenarios: int, count: int) -> Any:
        drawn = (sampling.sample(Stream(SEED), t, range(scenarios), CLIENTS).steps for t in range(1, count + 1))
        return list(by_hand(problem.features, problem.targets, drawn, LR, STEPS, scenarios))[-1]

    found, bits = hand(part, part_rounds)
    batched = simulate(problem, algorithm, part_rounds, scenarios=part, record=("bits",), **common)
    difference = float(np.abs(found - batched.x).max() / np.abs(found).max())
    if not difference < 1e-12 or bits != batched.metrics["bits"][-1].sum():
        raise SystemExit(f"by hand and the batch disagree by {difference:.3g} or in their bits: the ratios would mean nothing")
    best = {name: np.full(2, np.inf) for name in ("hand", "batch", "numpy")}

    def batch(count: int) -> Callable[[], Any]:
        return lambda: simulate(problem, algorithm, count, scenarios=SCENARIOS, record=("bits",), **common)

    batch(1)()
    with threadpool_limits(1):
        for _ in range(repeats):
            best["hand"] = np.minimum(best["hand"], np.array(_clock(lambda: hand(SCENARIOS, 3))) / 3)
            best["batch"] = np.minimum(best["batch"], np.array(_clock(batch(rounds))) / rounds)
            with without_compiled_loops():
                best["numpy"] = np.minimum(best["numpy"], np.array(_clock(batch(rounds))) / rounds)
    (by_one, by_one_cpu), (one, one_cpu) = best["hand"], best["batch"]
    shape = f"EFL, ST q={SPARSITY} both ways, N={CLIENTS}, d={DIM:,}, n_k={SAMPLES}, {SCENARIOS} scenarios, E={STEPS}"
    return [
        Figure("EFL, by hand in NumPy, a round", by_one, "s", note="each client's rows of all scenarios side by side; one core"),
        Figure("EFL, batched, a round", one, "s", note=shape + ", one core"),
        Figure("EFL, batched, a round, CPU time", one_cpu, "s", note="the roofline's"),
        Figure("EFL, the same in NumPy alone, CPU time", best["numpy"][1], "s", note="without compiled loops: the same numbers"),
        Figure("EFL, batched", by_one / one, "x by hand", ">= 0.9", "one core, wall time"),
        Figure("EFL, batched", by_one_cpu / one_cpu, "x by hand", ">= 0.9", "CPU time, the fairer one on a busy machine"),
        Figure("EFL, by hand and batch differ by", difference, "", note=f"of the largest coordinate; the bits are equal, {bits:,}"),
        Figure("EFL, peak memory", _peak(), "MiB", note="a process of its own; one client memory (S, N, d) is 153 MiB"),
    ]


def _peak() -> float:
    """Peak memory of a process that does nothing else than two rounds, in MiB."""
    code = (
        "import resource, performance_efl as p\n"
        "problem, algorithm, sampling = p.instance()\n"
        "p.simulate(problem, algorithm, 2, sampling=sampling, scenarios=p.SCENARIOS, record=('bits',), "
        "local_solver=p.LocalSGD(p.STEPS, p.LR))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10)"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, check=True, capture_output=True, text=True)
    return float(run.stdout)


def selection(repeats: int = 5, rows: int = 4000) -> list[Figure]:
    """The largest entries of many messages: partial selection beside a full sort."""
    values = np.abs(np.random.default_rng(SEED).standard_normal((rows, DIM)))
    k = math.ceil(SPARSITY * DIM)
    wanted = np.flatnonzero(top_k_mask(values, k)).reshape(-1, k)

    def by_sorting() -> np.ndarray:
        mask = np.zeros(values.shape, dtype=bool)
        np.put_along_axis(mask, np.argsort(-values, axis=-1)[:, :k], True, axis=-1)
        return mask

    if not np.array_equal(by_sorting(), top_k_mask(values, k)):
        raise SystemExit("sorting and selecting disagree: the ratio would mean nothing")
    if not np.array_equal(top_k_places(values, k, compiled=True), wanted):
        raise SystemExit("the compiled selection and NumPy's disagree: the ratio would mean nothing")
    fast, slow, heap = np.inf, np.inf, np.inf
    for _ in range(repeats):
        heap = min(heap, _clock(lambda: top_k_places(values, k, compiled=True))[1])
        fast = min(fast, _clock(lambda: top_k_mask(values, k))[1])
        slow = min(slow, _clock(by_sorting)[1])
    where = f"k={k} of d={DIM:,}, CPU time of one message of {rows:,}"
    return [
        Figure("top-k, partial selection", 1e6 * fast / rows, "us", note=where),
        Figure("top-k, compiled selection", 1e6 * heap / rows, "us", note="of the magnitudes as well"),
        Figure("top-k, selection against a sort", slow / fast, "x"),
    ]


def _best(work: Callable[[], Any], repeats: int) -> float:
    return min(_clock(work)[1] for _ in range(repeats))


def shapes(steps: np.ndarray) -> list[tuple[int, int, int]]:
    """First and last client, and rows of each, of every product of a chunk's local steps (N, B), as
    `LocalSGD` cuts them."""
    size, found = max(1, local_sgd.IN_CACHE // (8 * DIM * steps.shape[1])), []
    for first in range(0, CLIENTS, size):
        block = steps[first : first + size]
        found += [(first, first + len(block), int((block > step).sum(axis=1).max())) for step in range(block.max())]
    return found


def arrays_at_once(scenarios: int = 40) -> float:
    """Float64 arrays (S, N, d) that a run holds at once at most, the residuals among them."""
    problem, algorithm, sampling = instance()
    tracemalloc.start()
    simulate(problem, algorithm, 2, sampling=sampling, scenarios=scenarios, record=("bits",), local_solver=LocalSGD(STEPS, LR))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / (8 * scenarios * CLIENTS * DIM)


def roofline(seconds: float, alone: float, repeats: int = 5) -> list[Figure]:
    """Say what binds a round: products of its local steps, or numbers that must come and go.

    Of S N d numbers a round reads the residuals and writes them, and writes and reads what the
    local steps return and what is sent: six passes at the rate at which two large arrays are added.
    Products and passes cannot overlap, since compression waits for the steps. seconds, alone: of a
    round, with compiled loops and in NumPy alone.
    """
    problem, _, sampling = instance()
    rng = np.random.default_rng(SEED)
    start = np.zeros((SCENARIOS, DIM))
    chunk = len(Execution(dense=False, in_place=True, chunk=None, workers=1).pieces(start, 0, lambda: CLIENTS, False)[0][0])
    steps = sampling.sample(Stream(SEED), 1, range(SCENARIOS), CLIENTS).steps
    made, flops = shapes(steps[:chunk].T), 4.0 * SAMPLES * DIM * float(steps.sum())
    square = rng.random((DIM, DIM))
    large, kept = rng.random((2, SCENARIOS // 4, CLIENTS, DIM)), np.empty((SCENARIOS // 4, CLIENTS, DIM))
    y, slope = rng.random((CLIENTS, chunk, DIM)), rng.random((CLIENTS, chunk, SAMPLES))

    def products() -> None:
        for first, last, rows in made:
            np.matmul(y[first:last, :rows], problem.features[first:last].swapaxes(1, 2))
            np.matmul(slope[first:last, :rows], problem.features[first:last])

    with threadpool_limits(1):
        rate = 2.0 * DIM**3 / _best(lambda: np.matmul(square, square), repeats)
        bandwidth = 3.0 * kept.nbytes / _best(lambda: np.add(*large, out=kept), repeats)
        shaped = _best(products, repeats) * float(steps.sum()) / float(steps[:chunk].sum())
    memory = 6.0 * 8 * SCENARIOS * CLIENTS * DIM / bandwidth
    products_share, rows = shaped / (shaped + memory), sum((b - a) * r for a, b, r in made) / sum(b - a for a, b, _ in made)
    binds = f"matrix products bind: memory takes {memory / shaped:.2g} of their time"
    if products_share < 0.5:
        binds = f"memory binds: matrix products take {shaped / memory:.2g} of its time"
    return [
        Figure("EFL, products at a large one's rate", flops / rate, "s", note=f"{flops / 1e9:.3g} Gflop at {rate / 1e9:.3g} Gflop/s"),
        Figure("EFL, products at their own shapes", shaped, "s", "", f"{rows:.3g} rows a client: {flops / shaped / 1e9:.3g} Gflop/s"),
        Figure("EFL, numbers that must come and go", memory, "s", "", f"6 passes over S N d at {bandwidth / 1e9:.3g} GB/s"),
        Figure("EFL, products' share of the least time", products_share, "x", "", binds),
        Figure("EFL, share of the roofline", (flops / rate + memory) / seconds, "x", "", "1 is a round that does nothing but these"),
        Figure("EFL, share with products at their shapes", (shaped + memory) / seconds, "x"),
        Figure("EFL, the same share in NumPy alone", (shaped + memory) / alone, "x"),
        Figure("EFL, arrays (S, N, d) held at once", arrays_at_once(), "", "", "residuals, local models, messages, and what is small"),
    ]


def efl_rows() -> list[Figure]:
    """All figures of this file."""
    rounds = rounds_of_efl()
    return rounds + roofline(rounds[2].value, rounds[3].value) + selection()


if __name__ == "__main__":
    for row in efl_rows():
        print(f"{row.name:42s} {row.value:10.4g} {row.unit:3s} {row.target:5s} {row.note}")
