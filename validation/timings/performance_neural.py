"""Speed of training networks, beside the usual loop over the clients and the best page by hand.

    python validation/timings/performance_neural.py [--by-hand] [--out FILE]

All are in neural_rounds.py. Their client models are compared before anything is timed; repetitions
alternate, and medians count. ``neural_rows()`` gives the figures to performance.py.
"""

from __future__ import annotations

import cProfile
import math
import os
import pstats
import resource
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numba
import numpy as np
import torch
import typer
from neural_memory import memory_figures
from neural_rounds import (
    COHORT,
    METHODS,
    SEED,
    ByHand,
    Figure,
    Usual,
    a_round,
    check_by_hand,
    check_same,
    clock,
    instance,
)

from fedtheory.local.objective import Rows
from fedtheory.local.sgd import sample_order
from fedtheory.neural import sgd as walking
from fedtheory.neural import training
from fedtheory.neural.engines import compiled, products
from fedtheory.provenance import provenance, write_json
from fedtheory.randomness import Stream
from fedtheory.simulation import rounds as simulation

__all__ = ["Figure", "neural_rows"]


def compare(name: str, batch: int, method: str, held: int, repeats: int, usual_steps: int) -> Iterator[Figure]:
    """Seconds a round and client-steps a second; the usual loop makes some of each client's steps,
    and its time is scaled.

    The loop has one thread, with which it is faster than with two as soon as something else runs;
    ours has one, then all cores.
    """
    problem, module = instance(name, held)
    usual, cores = Usual(problem, module, batch, method), torch.get_num_threads()
    every = math.ceil(held / batch)
    check_same(name, batch, method)
    times: dict[str, list[np.ndarray]] = {"usual": [], "one": [], "all": [], "clipped": []}
    for _ in range(repeats):
        torch.set_num_threads(1)
        times["usual"].append(clock(lambda: usual(usual_steps)) * every / min(every, usual_steps))
        times["one"].append(a_round(problem, batch, method))
        torch.set_num_threads(cores)
        times["all"].append(a_round(problem, batch, method))
        times["clipped"].append(a_round(problem, batch, method, clipped=True))
    (slow, slow_cpu), (one, one_cpu), (both, both_cpu), (clipped, _) = (np.median(v, axis=0) for v in times.values())
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
    note = f"wall time, ours with the loop's clipping too: {1e6 * clipped / steps:,.0f} us each"
    yield Figure(f"{title}: {cores} threads, clipped, against the loop", slow / clipped, "x", target, note)
    if cores > 1:
        note = f"CPU time of ours divided by {cores}: what {cores} cores of their own would come to"
        yield Figure(f"{title}: {cores} threads against the loop", slow_cpu / (both_cpu / cores), "x", target, note)


def against_the_page(
    name: str, batch: int, method: str, held: int, repeats: int
) -> Iterator[Figure]:
    """Client-steps a second beside the best way that the page by hand has, on one core and on
    all."""
    check_by_hand(name, batch, method)
    problem, _ = instance(name, held)
    cores, steps = torch.get_num_threads(), math.ceil(held / batch) * COHORT
    for threads in sorted({1, cores}):
        ways: dict[str, Callable[[], np.ndarray]] = {
            "ours": partial(a_round, problem, batch, method)
        }
        for own in sorted({1, threads}):
            for kind, side in (("batched", True), ("one by one", False)):
                way = (
                    f"{kind}, {own} of torch's threads and {threads // own} of ours"
                    if threads > 1
                    else kind
                )
                ways[way] = partial(clock, ByHand(problem, batch, method, threads // own, side))
        times: dict[str, list[np.ndarray]] = {way: [] for way in ways}
        torch.set_num_threads(threads)
        for _ in range(repeats):
            for way, work in ways.items():
                times[way].append(work())
        torch.set_num_threads(cores)
        found = {way: np.median(v, axis=0) for way, v in times.items()}
        ours = found.pop("ours")
        for n, kind in enumerate(("wall", "CPU")):
            best = min(found, key=lambda way: found[way][n])
            note = f"{kind} time, {1e6 * ours[n] / steps:,.0f} us a client-step beside {1e6 * found[best][n] / steps:,.0f}, {best}"
            title = f"{name} b={batch} {method}, {threads} thread{'s' if threads > 1 else ''}: against the page by hand"
            yield Figure(title, float(found[best][n] / ours[n]), "x", "", note)


def around(name: str, held: int) -> list[Figure]:
    """Measure what else a round costs: mini-batch orders, evaluation."""
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


def measuring(name: str, batch: int, method: str, held: int, device: str = "cpu") -> Iterator[Figure]:
    """A round with everything that `fedtheory bench` measures in it, and what of it the measuring
    is; one thread of a CPU."""
    problem, _ = instance(name, held, device=device, tested=10_000)
    before, record = torch.get_num_threads(), training.RECORD
    real, seconds = (simulation.measure, simulation.message_bins), ([], [])

    def timed(n: int) -> Any:
        def inside(*args: Any, **options: Any) -> Any:
            got: list[Any] = []
            seconds[n].append(clock(lambda: got.append(real[n](*args, **options)), problem.device)[0])
            return got[0]

        return inside

    torch.set_num_threads(1)
    simulation.measure, simulation.message_bins = timed(0), timed(1)
    try:
        whole = a_round(problem, batch, method, 3, record=record)[0]
    finally:
        simulation.measure, simulation.message_bins = real
        torch.set_num_threads(before)
    test, bins = (float(np.median(s)) for s in seconds)
    title, where = f"{name} b={batch} {method}", "one thread" if device == "cpu" else device
    yield Figure(f"{title}: ours, a round, all measured", whole, "s", "", f"{len(record)} metrics, 10,000 test samples; {where}")
    note = f"evaluation and counts {1e3 * test:.3g}, both entropies {1e3 * bins:.3g}"
    yield Figure(f"{title}: measuring, a round", 1e3 * (test + bins), "ms", "", note)


def profile(name: str, batch: int, method: str, held: int) -> str:
    """Profile our rounds on one thread: the largest parts and their shares of the time."""
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
def _products(y: np.ndarray, widths: np.ndarray, b: int, sizes: products.Tiles, times: int) -> None:
    """The products of `times` compiled steps and nothing else."""
    room, one = b * widths.max(), y.dtype.type(1)
    h, g, out = np.ones(room, y.dtype), np.zeros(room, y.dtype), np.ones(room, y.dtype)
    for _ in range(times):
        start = 0
        for n in range(len(widths) - 1):
            i, o = widths[n], widths[n + 1]
            w, x = y[start : start + i * o].reshape(o, i), h[: b * i].reshape(b, i)
            start += i * o + o
            products.along(x, w, out[: b * o].reshape(b, o), sizes)
            if n > 0:
                products.back_through(
                    g[: b * o].reshape(b, o), w, out[: b * i].reshape(b, i), sizes
                )
            products.add_turned(g[: b * o].reshape(b, o), x, w, -one, one, sizes)


def parts(name: str, batch: int, method: str, held: int) -> str:
    """Split the CPU time of compiled steps on one thread: products, rest of a step and of a round.

    The last is orders, copies and the server.
    """
    problem, _ = instance(name, held)
    before, steps = torch.get_num_threads(), math.ceil(held / batch) * COHORT
    torch.set_num_threads(1)
    y, widths = np.full(problem.dim, 1e-3, np.float32), np.array(problem.engine.chain.widths)
    in_walks: list[float] = []
    plain = walking.walk_rows

    def timed(*args: Any) -> None:
        start = time.process_time()
        plain(*args)
        in_walks.append(time.process_time() - start)

    walking.walk_rows = timed
    try:
        with compiled.one_blas_thread():
            _products(y, widths, batch, compiled.tiles(), 1)
            multiplied = min(clock(lambda: _products(y, widths, batch, compiled.tiles(), steps))[1] for _ in range(3))
        rounds = [a_round(problem, batch, method, 1)[1] for _ in range(3)]
    finally:
        walking.walk_rows = plain
        torch.set_num_threads(before)
    whole, walked = min(rounds), min(sum(in_walks[n : n + COHORT]) for n in range(0, len(in_walks), COHORT))
    return (
        f"products {100 * multiplied / whole:.0f} %, samples, penalty and activations {100 * (walked - multiplied) / whole:.0f} %, "
        f"the rest of a round {100 * (whole - walked) / whole:.0f} %"
    )


class Written(torch.nn.Module):
    """mlp-200-100 with a forward pass as public code writes it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.last = torch.nn.Linear(784, 200), torch.nn.Linear(200, 100), torch.nn.Linear(100, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x.view(len(x), -1)))
        return self.last(torch.relu(self.second(x)))


def _loss_of_ones_own(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(outputs, targets) + 1e-3 * outputs.square().mean()


def as_written(batch: int, method: str, held: int, repeats: int, usual_steps: int) -> Iterator[Figure]:
    """The same network with what users write for its loss and its forward pass, against the usual
    loop; CPU time of one thread."""
    smooth = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    ways = {
        "'cross_entropy'": {},
        "nn.CrossEntropyLoss()": {"loss": torch.nn.CrossEntropyLoss()},
        "label smoothing": {"loss": smooth},
        "a loss of one's own": {"loss": _loss_of_ones_own},
        "a forward of one's own": {"module": Written()},
        "engine='loop'": {"engine": "loop"},
    }
    name, every, before = "mlp-200-100", math.ceil(held / batch), torch.get_num_threads()
    problems = {way: instance(name, held, **options)[0] for way, options in ways.items()}
    usual = Usual(*instance(name, held), batch, method)
    times: dict[str, list[float]] = {way: [] for way in (*ways, "usual")}
    torch.set_num_threads(1)
    for _ in range(repeats):
        times["usual"].append(clock(lambda: usual(usual_steps))[1] * every / min(every, usual_steps))
        for way, problem in problems.items():
            times[way].append(a_round(problem, batch, method)[1])
    torch.set_num_threads(before)
    slow = float(np.median(times["usual"]))
    for way in ways:
        ours = float(np.median(times[way]))
        note = f"{every * COHORT / ours:,.0f} client-steps/s of one core, the loop {every * COHORT / slow:,.0f}"
        yield Figure(f"{name} b={batch} {method}, {way}: against the loop", slow / ours, "x", "", note)


def fisher_of_texts(name: str, samples: int) -> Figure:
    """The empirical Fisher diagonal of a recurrent network: single samples side by side, and one
    after another."""
    problem, _ = instance(name, samples, clients=1)
    y, before, side = problem.initial()[None, None], torch.get_num_threads(), problem.engine.samplewise
    torch.set_num_threads(1)
    times = []
    for engine in (side, None):
        problem.engine.samplewise = engine
        times.append(min(clock(lambda: problem.fisher_diagonal(y, "empirical"))[1] for _ in range(2)))
    torch.set_num_threads(before)
    problem.engine.samplewise = side
    return Figure(f"{name}: Fisher diagonal, side by side", times[1] / times[0], "x", "", f"{1e3 * times[0] / samples:.2f} ms a sample")


def by_hand_figures(repeats: int = 5) -> Iterator[Figure]:
    """All batches beside the page by hand."""
    torch.set_num_threads(os.cpu_count() or 1)
    for method, batches in (("FedAvg", (10, 20, 50, 100)), ("FedDyn", (10, 50))):
        for batch in batches:
            yield from against_the_page("mlp-200-100", batch, method, 600, repeats)
            yield Figure(
                f"mlp-200-100 b={batch} {method}: parts",
                100.0,
                "%",
                note=parts("mlp-200-100", batch, method, 600),
            )


def neural_figures(repeats: int = 5) -> Iterator[Figure]:
    """All figures of a CPU, one after another as they are found, on all cores, whatever
    OMP_NUM_THREADS says."""
    torch.set_num_threads(os.cpu_count() or 1)
    for method in METHODS:
        yield from compare("mlp-200-100", 10, method, 600, repeats, 10)
        yield Figure(f"mlp-200-100 b=10 {method}: parts", 100.0, "%", note=parts("mlp-200-100", 10, method, 600))
    yield from compare("mlp-200-100", 50, "FedDyn", 600, repeats, 6)
    yield from by_hand_figures(repeats)
    for batch in (10, 50):
        yield from as_written(batch, "FedDyn", 600, repeats, 6)
    for name in ("char-lstm", "char-lstm-32"):
        yield fisher_of_texts(name, 100)
    yield from around("mlp-200-100", 600)
    yield from measuring("mlp-200-100", 10, "FedElasticNet", 600)
    yield from compare("cnn-384-192", 50, "FedDyn", 100, max(1, repeats // 2), 2)
    yield Figure("cnn-384-192 b=50 FedDyn: parts", 100.0, "%", note=profile("cnn-384-192", 50, "FedDyn", 100))
    yield from measuring("cnn-384-192", 50, "FedDyn", 100)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    yield Figure("peak memory with networks", peak, "MiB", note="both loops, 60,000 images, in one process")
    yield from memory_figures()


def neural_rows(repeats: int = 5) -> list[Figure]:
    """All figures of this file."""
    return list(neural_figures(repeats))


def main(
    repeats: Annotated[
        int, typer.Option(min=1, help="Interleaved repetitions; medians count.")
    ] = 5,
    by_hand: Annotated[
        bool, typer.Option("--by-hand", help="Only beside the page by hand.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Where the figures go as JSON.")] = None,
) -> None:
    """Time networks beside the usual loop and the page by hand."""
    rows = []
    for row in by_hand_figures(repeats) if by_hand else neural_figures(repeats):
        rows.append(row._asdict())
        print(
            f"{row.name:46s} {row.value:10.4g} {row.unit:4s} {row.target:6s} {row.note}", flush=True
        )
    if out is not None:
        write_json(out, {"provenance": provenance(SEED, "cpu", "float32", "torch"), "rows": rows})


if __name__ == "__main__":
    typer.run(main)
