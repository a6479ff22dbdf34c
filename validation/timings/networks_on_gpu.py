"""Speed of training networks on a GPU, beside the usual loop, the barest one and torch.func.

    python validation/timings/networks_on_gpu.py [--device cuda] [--budget 400] [--out FILE]

All train by FedAvg without clipping but the usual loop, which clips. A loop makes a few steps of
each client, and a rate is of client-steps a second. Rows are written to the file one by one, since
time on a GPU is short. ``--small`` tries the script on a CPU. ``gpu_figures`` gives the rows to
performance.py. The numbers themselves are compared in tests/neural/test_cuda.py.
"""

from __future__ import annotations

import copy
import gc
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from neural_rounds import LR, SEED, Figure, Usual, a_round, check_same, clock, instance
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from fedtheory import Uniform, algorithms, local, simulate
from fedtheory.errors import InvalidInput
from fedtheory.messages.measures import bin_counts
from fedtheory.neural.device import as_device, exact_kernels
from fedtheory.neural.problem import NeuralProblem
from fedtheory.participation.cohorts import Bernoulli
from fedtheory.provenance import provenance, write_json

__all__ = ["gpu_figures"]

SHAPES = (("mlp-200-100", 10), ("mlp-200-100", 50), ("cnn-384-192", 50), ("char-lstm", 20))
HELD, STEPS, REPEATS = 300, 300, 5


class Barest:
    """The loop with nothing in it but a gradient and a step: steps of each of P clients."""

    def __init__(self, problem: NeuralProblem, module: Any, batch: int, cohort: int) -> None:
        self.problem, self.batch, self.cohort = problem, batch, cohort
        self.module, self.draws = module.to(problem.device), np.random.default_rng(SEED)

    def orders(self) -> torch.Tensor:
        """Samples (P, n) of each client, in a random order."""
        held = self.problem.client_samples[: self.cohort]
        drawn = [self.draws.permutation(c) for c in held]
        return torch.from_numpy(np.stack(drawn)).to(self.problem.device)

    def samples(self, chosen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, t = self.problem.inputs[chosen], self.problem.targets[chosen]
        return x if x.is_floating_point() else x.long(), t.reshape(chosen.shape).long()

    def __call__(self, steps: int) -> None:
        with exact_kernels(self.problem.device):
            for order in self.orders():
                net = copy.deepcopy(self.module)
                pieces = list(net.parameters())
                for chosen in order.split(self.batch)[:steps]:
                    x, t = self.samples(chosen)
                    gradients = torch.autograd.grad(functional.cross_entropy(net(x), t), pieces)
                    with torch.no_grad():
                        torch._foreach_add_(pieces, gradients, alpha=-LR)


class Mapped(Barest):
    """All clients at once by `torch.func.vmap`, each step launched or, recorded, replayed."""

    def __init__(self, *args: Any, recorded: bool = False) -> None:
        super().__init__(*args)
        own = dict(self.module.named_parameters())
        self.pieces = {n: p.detach().repeat(self.cohort, *(1,) * p.ndim) for n, p in own.items()}
        self.gradient = vmap(grad(self.loss), randomness="different")
        place = self.problem.device
        self.chosen = torch.zeros(self.cohort, self.batch, dtype=torch.int64, device=place)
        self.graph = None
        if recorded:
            with exact_kernels(place):
                for _ in range(3):
                    self.step()
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph):
                    self.step()

    def loss(self, pieces: dict[str, torch.Tensor], x: Any, t: Any) -> torch.Tensor:
        return functional.cross_entropy(functional_call(self.module, pieces, (x,)), t)

    def step(self) -> None:
        found = self.gradient(self.pieces, *self.samples(self.chosen))
        for name, piece in self.pieces.items():
            piece.add_(found[name], alpha=-LR)

    def __call__(self, steps: int) -> None:
        with exact_kernels(self.problem.device), torch.no_grad():
            for chosen in self.orders().split(self.batch, dim=1)[:steps]:
                if chosen.shape[1] == self.batch:
                    self.chosen.copy_(chosen)
                    self.step() if self.graph is None else self.graph.replay()


def rate(title: str, steps: int, work: Callable[[], float], device: torch.device) -> Figure:
    """Client-steps a second, the median of some turns, and the most memory they took."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        held = torch.cuda.memory_allocated(device)
    first, took, since = work(), [], time.monotonic()
    while len(took) < REPEATS and (time.monotonic() - since < 3 or not took):
        took.append(work())
    middle = float(np.median(took))
    note = f"{1e6 * middle / steps:,.1f} us each, {len(took)} turns within {100 * np.ptp(took) / middle:.0f} %"
    note += f"; the first took {first / middle:.1f} times as long"
    if device.type == "cuda":
        note += f"; {(torch.cuda.max_memory_allocated(device) - held) / 2**20:,.0f} MiB beside samples"
    return Figure(title, steps / middle, "client-steps/s", "", note)


def beside(name: str, batch: int, cohort: int, device: str, held: int) -> Iterator[Callable[[], Figure]]:
    """Measure one network and cohort all ways, ours with both engines."""
    problem, module = instance(name, held, device=device, engine="loop")
    title, place = f"{name} b={batch} P={cohort}", problem.device
    every = math.ceil(held / batch)
    few = min(every, max(3, STEPS // cohort))
    ways: dict[str, Callable[[], Any]] = {
        "barest loop": lambda: Barest(problem, module, batch, cohort),
        "torch.func.vmap": lambda: Mapped(problem, module, batch, cohort),
    }
    if cohort == 10:
        ways = {"usual loop": lambda: Usual(problem, module, batch, "FedAvg", cohort)} | ways
    if place.type == "cuda":
        ways["torch.func.vmap in a CUDA graph"] = lambda: Mapped(
            problem, module, batch, cohort, recorded=True
        )
    for way, make in ways.items():

        def by_hand(way: str = way, make: Callable[[], Any] = make) -> Figure:
            walk = make()
            return rate(f"{title}: {way}", few * cohort, lambda: clock(lambda: walk(few), place)[0], place)

        yield by_hand
    for engine in ("stacked", "loop"):

        def ours(engine: str = engine) -> Figure:
            own, _ = instance(name, held, device=device, engine=engine)
            work = lambda: float(a_round(own, batch, "FedAvg", cohort=cohort)[0])  # noqa: E731
            return rate(f"{title}: ours, {engine}", every * cohort, work, place)

        yield ours


def lower_precision(name: str, batch: int, device: str, held: int) -> Iterator[Callable[[], Figure]]:
    """Measure ours and the usual loop in TF32 and bfloat16."""
    for how in ({"precision": "tf32"}, {"autocast": "bfloat16"}):
        for way in ("usual loop", "ours, auto"):

            def one(how: dict[str, str] = how, way: str = way) -> Figure:
                problem, module = instance(name, held, device=device, **how)
                title, every = f"{name} b={batch} P=10 {next(iter(how.values()))}: {way}", math.ceil(held / batch)
                if way == "usual loop":
                    usual, few = Usual(problem, module, batch, "FedAvg"), min(every, STEPS // 10)
                    return rate(title, few * 10, lambda: clock(lambda: usual(few), problem.device)[0], problem.device)
                return rate(title, every * 10, lambda: float(a_round(problem, batch, "FedAvg")[0]), problem.device)

            yield one


def of_a_run(device: str, held: int) -> Iterator[Callable[[], Figure]]:
    """Measure cohorts of changing sizes, solvers with a memory, clipping, evaluation, counts."""
    rounds = max(2, min(60, held // 5))

    def a_run(title: str, sampling: Any, solver: Any, rounds: int = rounds) -> Figure:
        problem, _ = instance("mlp-200-100", held, device=device)

        def work() -> None:
            simulate(
                problem, algorithms.FedDyn(0.1), rounds, x0=problem.initial(), sampling=sampling, local_solver=solver, seed=SEED,
                like=problem.like_array(), record=(), in_place=True,
            )  # fmt: skip

        first, took = (1e3 * clock(work, problem.device)[0] / rounds for _ in range(2))
        note = f"{rounds} rounds once more, {len(problem.walks._steps)} recordings kept; the first run took {first:.1f} ms a round"
        return Figure(f"mlp-200-100 b=10 FedDyn, {title}: a round", took, "ms", "", note)

    plain = local.SGD(10, LR, epochs=1)
    yield lambda: a_run("10 of 100 clients", Uniform(10), plain)
    yield lambda: a_run("each of 100 with probability 0.1", Bernoulli(0.1), plain)
    yield lambda: a_run("gradients clipped", Uniform(10), local.SGD(10, LR, epochs=1, clip=10.0))
    yield lambda: a_run("momentum", Uniform(10), local.Momentum(10, LR, epochs=1), 5)
    yield lambda: a_run("Adam", Uniform(10), local.Adam(10, 0.001, epochs=1), 5)

    def losses() -> Figure:
        problem, _ = instance("mlp-200-100", held, device=device)
        point = problem.initial()[None]
        problem.objective(point)
        took = clock(lambda: problem.objective(point), problem.device)[0]
        return Figure("mlp-200-100: losses of all samples", 1e3 * took, "ms", "", f"{100 * held:,} samples of 100 clients")

    def counts() -> Figure:
        sent = 0.03 * torch.randn(10, 199_210, device=device)
        bin_counts(sent)
        took = clock(lambda: bin_counts(sent), sent.device)[0]
        return Figure("entropy of 10 messages of 199,210 numbers", 1e3 * took, "ms")

    yield losses
    yield counts


def gpu_figures(device: str, budget: float = math.inf, held: int = HELD) -> Iterator[Figure]:
    """All rows of this file, those with ten clients first; none begins after `budget` seconds."""
    began = time.monotonic()
    shapes = [(name, min(batch, held)) for name, batch in SHAPES]
    for name, batch in shapes if held == HELD else ():
        for engine in ("stacked", "loop"):  # the ways walk alike: else their ratios mean nothing
            check_same(name, batch, "FedAvg", device, engine)
    items = [
        *(work for name, batch in shapes for work in beside(name, batch, 10, device, held)),
        *of_a_run(device, held),
        *(work for name, batch in shapes[2:] for work in lower_precision(name, batch, device, held) if device != "cpu"),
        *(work for name, batch in shapes for work in beside(name, batch, 100, device, held)),
    ]
    for work in items:
        if time.monotonic() - began > budget:
            print("the budget is spent: what follows was not measured", file=sys.stderr)
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                yield work()
            except Exception as error:  # torch.func has no rule for some layers
                print(f"not measured: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def main(
    device: Annotated[str, typer.Option(help="cuda, cuda:0, or cpu with --small.")] = "cuda",
    budget: Annotated[float, typer.Option(min=1, help="Seconds after which no row begins.")] = 400,
    out: Annotated[Path | None, typer.Option(help="Where the rows go as JSON.")] = None,
    small: Annotated[bool, typer.Option("--small", help="Try the script, on few samples.")] = False,
) -> None:
    """Time networks on a GPU beside loops and torch.func."""
    try:
        as_device(device)
    except InvalidInput as error:
        print(f"nothing measured: {error}", file=sys.stderr)
        raise typer.Exit(2) from error
    rows, where = [], provenance(SEED, device, "float32", "torch")
    where["gpu"] = torch.cuda.get_device_name() if device != "cpu" else "none"
    for row in gpu_figures(device, budget, 20 if small else HELD):
        rows.append(row._asdict())
        print(f"{row.name:60s} {row.value:12,.4g} {row.unit:15s} {row.note}", flush=True)
        if out is not None:
            write_json(out, {"provenance": where, "rows": rows})


if __name__ == "__main__":
    typer.run(main)
