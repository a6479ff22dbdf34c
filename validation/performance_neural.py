"""How fast networks are trained: the clients of a round side by side, beside the usual loop over them, on this machine's CPU.

    python validation/performance_neural.py

The usual loop is written as public implementations of FedDyn write it: a module, torch.optim.SGD with weight decay, a DataLoader that
shuffles, the penalty as a term of the loss, gradients clipped at norm 10, one client after the other. It is given the mini-batches of
the batched run, and both runs' client models are compared before anything is timed. Repetitions alternate, and medians count.
``neural_rows()`` gives the figures to validation/performance.py.
"""

from __future__ import annotations

import copy
import cProfile
import math
import os
import pstats
import resource
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from torch import nn

from fedtheory import Uniform, algorithms, simulate
from fedtheory.local import SGD
from fedtheory.local.objective import Rows
from fedtheory.local.steps import sample_order
from fedtheory.neural import compiled, models, walking
from fedtheory.neural.problem import NeuralProblem
from fedtheory.randomness import Stream

__all__ = ["Figure", "neural_rows"]

CLIENTS, COHORT, RIDGE, LR, ALPHA, L1, SEED = 100, 10, 1e-4, 0.05, 0.1, 1e-4, 1


class Figure(NamedTuple):
    """One row of the table; the fields of validation/performance.py's rows."""

    name: str
    value: float
    unit: str
    target: str = ""
    note: str = ""


class Samples(torch.utils.data.Dataset):
    """A client's samples, one at a time, as the usual code has them."""

    def __init__(self, x: np.ndarray, y: np.ndarray) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, i: int) -> tuple[np.ndarray, np.int64]:
        return self.x[i], self.y[i]


class Usual:
    """One round of the usual loop for each method, from the server's model and zero control variates: what round 1 does."""

    def __init__(self, problem: NeuralProblem, module: nn.Module, batch: int, method: str) -> None:
        self.problem, self.module, self.batch, self.method = problem, module, batch, method
        self.x, self.y = problem.inputs.numpy(), problem.targets.numpy()  # in the problem's dtype, as the module must be

    def __call__(self, steps: int | None = None) -> torch.Tensor:
        """Client models (P, d), in the order of their numbers; at most `steps` steps each."""
        cohort = Uniform(COHORT).sample(Stream(SEED), 1, range(1), CLIENTS).members[0]
        return torch.stack([self.client(int(k), steps) for k in cohort])

    def client(self, k: int, steps: int | None) -> torch.Tensor:
        held = self.problem._clients[k]
        rows = Rows(np.array([k]), np.zeros((1, 1), dtype=int), np.ones((1, 1), bool), Stream(SEED), 1)
        loader = torch.utils.data.DataLoader(
            Samples(self.x[held], self.y[held]), batch_size=self.batch, sampler=sample_order(rows, 0, 0, len(held), 0).tolist()
        )
        model = copy.deepcopy(self.module)
        loss_of = nn.CrossEntropyLoss(reduction="sum")
        decay = RIDGE + (0.0 if self.method == "FedAvg" else ALPHA)
        optimiser = torch.optim.SGD(model.parameters(), lr=LR, weight_decay=decay)
        received = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
        stored = torch.zeros_like(received)
        for n, (x, y) in enumerate(loader):
            if n == steps:
                break
            loss = loss_of(model(x), y.reshape(-1).long()) / len(y)
            if self.method != "FedAvg":
                now = torch.cat([p.reshape(-1) for p in model.parameters()])
                loss = loss + ALPHA * torch.sum(now * (stored - received))
                if self.method == "FedElasticNet":
                    loss = loss + L1 * torch.sum(torch.abs(now - received))
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=10)
            optimiser.step()
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


METHODS = {
    "FedAvg": algorithms.FedAvg(),
    "FedDyn": algorithms.FedDyn(ALPHA),
    "FedElasticNet": algorithms.FedElasticNetDyn(L1, ALPHA),
}


def instance(name: str, held: int, dtype: str = "float32") -> tuple[NeuralProblem, nn.Module]:
    """The network of that name on random images: what is timed does not depend on what they show."""
    model = models.get(name)
    module = model.build(seed=0)
    rng = np.random.default_rng(SEED)
    count = held * CLIENTS
    images = rng.standard_normal((count, *model.input_shape), dtype=np.float32)
    clients = np.array_split(rng.permutation(count), CLIENTS)
    return NeuralProblem(module, images, rng.integers(0, 10, count), clients, ridge=RIDGE, dtype=dtype), module


def simulated(problem: NeuralProblem, batch: int, method: str, rounds: int, on_round: Callable[..., None]) -> None:
    """Whole rounds in the library: cohort, orders of samples, training, aggregation; memories are overwritten, as in any run."""
    simulate(
        problem,
        METHODS[method],
        rounds,
        x0=problem.initial(),
        sampling=Uniform(COHORT),
        local_solver=SGD(batch, LR, epochs=1),
        seed=SEED,
        like=problem.like_array(),
        record=(),
        on_round=on_round,
        in_place=True,
    )


def client_models(problem: NeuralProblem, batch: int, method: str) -> torch.Tensor:
    """The client models (P, d) of round 1."""
    found: list[torch.Tensor] = []
    simulated(problem, batch, method, 1, lambda t, old, new, clients: found.append(clients.results[-1].y[0]))
    return found[0]


def a_round(problem: NeuralProblem, batch: int, method: str, rounds: int = 2) -> np.ndarray:
    """Wall and CPU seconds (of all threads) of a round; the first, before which memories are made, is left out."""
    times: list[np.ndarray] = []
    simulated(
        problem, batch, method, 1 + rounds, lambda *_: times.append(np.array([time.perf_counter(), time.process_time()]))
    )
    return (times[-1] - times[0]) / rounds


def clock(work: Callable[[], Any]) -> np.ndarray:
    """Wall and CPU seconds (of all threads)."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return np.array([time.perf_counter() - wall, time.process_time() - cpu])


def check_same(name: str, batch: int, method: str) -> None:
    """The loop and the batch walk the same way: two steps and a cut-off third in float64, where rounding cannot hide a difference."""
    problem, module = instance(name, 2 * batch + 3, "float64")
    looped, ours = Usual(problem, module.double(), batch, method)(), client_models(problem, batch, method)
    off = float((ours - looped).norm() / (looped - problem.initial()).norm())
    if not off < 1e-10:
        raise SystemExit(f"{name}, {method}: the loop and the batch differ by {off:.3g} of the way: the ratios would mean nothing")


def compare(name: str, batch: int, method: str, held: int, repeats: int, usual_steps: int) -> Iterator[Figure]:
    """Seconds a round and client-steps a second; the usual loop makes some of each client's steps, and its time is scaled.

    The loop has one thread, with which it is faster than with two as soon as something else runs; ours has one, then all cores.
    """
    problem, module = instance(name, held)
    usual, cores = Usual(problem, module, batch, method), torch.get_num_threads()
    every = math.ceil(held / batch)
    check_same(name, batch, method)
    times: dict[str, list[np.ndarray]] = {"usual": [], "one": [], "all": []}
    for _ in range(repeats):
        torch.set_num_threads(1)
        times["usual"].append(clock(lambda: usual(usual_steps)) * every / min(every, usual_steps))
        times["one"].append(a_round(problem, batch, method))
        torch.set_num_threads(cores)
        times["all"].append(a_round(problem, batch, method))
    (slow, slow_cpu), (one, one_cpu), (both, both_cpu) = (np.median(times[k], axis=0) for k in ("usual", "one", "all"))
    spread = max(float(np.ptp([t[0] for t in v]) / np.median([t[0] for t in v])) for v in times.values())
    title, steps = f"{name} b={batch} {method}", every * COHORT
    each = [f"{1e6 * wall / steps:,.0f} us each ({1e6 * cpu / steps:,.0f} CPU)" for wall, cpu in ((slow, slow_cpu), (one, one_cpu))]
    target = ">= 10" if (name[:3], batch) == ("mlp", 10) else ""
    yield Figure(f"{title}: usual loop, a round", slow, "s", "", f"{steps} client-steps, {each[0]}; one thread")
    ours_is = f"{each[1]}; engine {problem.engine.name}, one thread"
    yield Figure(f"{title}: ours, a round", one, "s", "", f"{steps / one:,.0f} client-steps/s, {ours_is}")
    yield Figure(f"{title}: ours, a round", both, "s", "", f"{steps / both:,.0f} client-steps/s, {cores} threads")
    yield Figure(f"{title}: one thread against the loop", slow_cpu / one_cpu, "x", "", "CPU time, the fairer one on a busy machine")
    yield Figure(f"{title}: one thread against the loop", slow / one, "x", "", f"wall time; repetitions spread by {100 * spread:.0f} %")
    yield Figure(f"{title}: {cores} threads against the loop", slow / both, "x", target, "wall time")
    if cores > 1:
        note = f"CPU time of ours divided by {cores}: what {cores} cores of their own would come to"
        yield Figure(f"{title}: {cores} threads against the loop", slow_cpu / (both_cpu / cores), "x", target, note)


def around(name: str, held: int) -> list[Figure]:
    """What else a round costs: mini-batch orders, evaluation."""
    problem, _ = instance(name, held)
    rows = Rows(np.arange(COHORT), np.zeros((COHORT, 1), int), np.ones((COHORT, 1), bool), Stream(SEED), 1)
    x = problem.initial()[None]
    orders = min(clock(lambda: [sample_order(rows, n, 0, held, 0) for n in range(COHORT)])[0] for _ in range(5))
    value = min(clock(lambda: problem.objective(x))[0] for _ in range(3))
    count = len(problem.targets)
    return [
        Figure(f"{name}: orders of the samples, a round", 1e3 * orders, "ms", note=f"{COHORT} clients of {held}"),
        Figure(f"{name}: loss of all samples", value, "s", note=f"{count:,} samples, {1e6 * value / count:.2f} us each"),
    ]


def profile(name: str, batch: int, method: str, held: int) -> str:
    """Where the time of our rounds goes, on one thread: the largest parts and their shares."""
    problem, _ = instance(name, held)
    a_round(problem, batch, method)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    watch = cProfile.Profile()
    watch.runcall(a_round, problem, batch, method)
    torch.set_num_threads(before)
    stats = pstats.Stats(watch).stats
    total = sum(own for _, _, own, _, _ in stats.values())
    parts = sorted(((own, where[2]) for where, (_, _, own, _, _) in stats.items()), reverse=True)[:6]
    named = [(own, what.removeprefix("<built-in method ").removeprefix("<method '").split("'")[0].strip("<>")) for own, what in parts]
    return ", ".join(f"{what} {100 * own / total:.0f} %" for own, what in named)


@numba.njit(nogil=True)
def _products(y: np.ndarray, widths: np.ndarray, b: int, block: int, times: int) -> float:
    """The products of `times` compiled steps and nothing else, in the blocks that `fedtheory.neural.compiled` makes."""
    room = b * widths.max()
    h, g, out, piece = np.ones(room, y.dtype), np.ones(room, y.dtype), np.ones(room, y.dtype), np.ones(len(y), y.dtype)
    for _ in range(times):
        start = 0
        for n in range(len(widths) - 1):
            i, o = widths[n], widths[n + 1]
            w = y[start : start + i * o].reshape(o, i)
            start += i * o + o
            rows = compiled._rows(i, o, b, block)
            for first in range(0, o, rows):
                end = min(first + rows, o)
                np.dot(h[: b * i].reshape(b, i), w[first:end].T, out[: b * (end - first)].reshape(b, end - first))
                change = piece[: (end - first) * i].reshape(end - first, i)
                np.dot(g[: b * (end - first)].reshape(end - first, b), h[: b * i].reshape(b, i), change)
            if n > 0:
                np.dot(g[: b * o].reshape(b, o), w, out[: b * i].reshape(b, i))
    return piece[0] + out[0]


def parts(name: str, batch: int, method: str, held: int) -> str:
    """Where the time of compiled steps goes, on one thread: products, the rest of a step, the rest of a round (orders, copies)."""
    problem, _ = instance(name, held)
    before, steps = torch.get_num_threads(), math.ceil(held / batch) * COHORT
    torch.set_num_threads(1)
    y, widths = np.full(problem.dim, 1e-3, np.float32), np.array(problem.engine.widths)
    in_walks: list[float] = []
    plain = walking.walk_rows

    def timed(*args: Any) -> None:
        start = time.perf_counter()
        plain(*args)
        in_walks.append(time.perf_counter() - start)

    walking.walk_rows = timed
    try:
        with compiled.one_blas_thread():
            _products(y, widths, batch, compiled.BLOCK, 1)
            products = min(clock(lambda: _products(y, widths, batch, compiled.BLOCK, steps))[0] for _ in range(3))
        rounds = [a_round(problem, batch, method, 1)[0] for _ in range(3)]
    finally:
        walking.walk_rows = plain
        torch.set_num_threads(before)
    whole, walked = min(rounds), min(sum(in_walks[n : n + COHORT]) for n in range(0, len(in_walks), COHORT))
    return (
        f"products {100 * products / whole:.0f} %, update, penalty and activations {100 * (walked - products) / whole:.0f} %, "
        f"the rest of a round {100 * (whole - walked) / whole:.0f} %"
    )


def neural_figures(repeats: int = 5) -> Iterator[Figure]:
    """All figures of this file, one after another as they are found, on all cores, whatever OMP_NUM_THREADS says."""
    torch.set_num_threads(os.cpu_count() or 1)
    for method in METHODS:
        yield from compare("mlp-200-100", 10, method, 600, repeats, 10)
        yield Figure(f"mlp-200-100 b=10 {method}: parts", 100.0, "%", note=parts("mlp-200-100", 10, method, 600))
    yield from compare("mlp-200-100", 50, "FedDyn", 600, repeats, 6)
    yield from around("mlp-200-100", 600)
    yield from compare("cnn-384-192", 50, "FedDyn", 100, max(1, repeats // 2), 2)
    yield Figure("cnn-384-192 b=50 FedDyn: parts", 100.0, "%", note=profile("cnn-384-192", 50, "FedDyn", 100))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    yield Figure("peak memory with networks", peak, "MiB", note="both loops, 60,000 images, in one process")


def neural_rows(repeats: int = 5) -> list[Figure]:
    """All figures of this file."""
    return list(neural_figures(repeats))


if __name__ == "__main__":
    for row in neural_figures():
        print(f"{row.name:46s} {row.value:10.4g} {row.unit:4s} {row.target:6s} {row.note}", flush=True)
