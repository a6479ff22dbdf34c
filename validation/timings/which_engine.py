"""Networks as people write them, on one core: the barest loop beside 'stacked', 'loop' and what
'auto' takes; CPU time by turns.

    python validation/timings/which_engine.py [--only lstm] [--repeats 3] [--cohort 10]

A row says how many microseconds a client-step takes, and what a step multiplies and adds in a
forward pass: what `fedtheory.neural.engines.select` chooses by.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
import torch
import typer
from barest_loop import Barest
from neural_rounds import LR, SEED, clock
from torch import nn

from fedtheory import Uniform, algorithms, simulate
from fedtheory.local import SGD
from fedtheory.neural.engines.stacked import Stacked
from fedtheory.neural.problem import NeuralProblem

HELD = 300


class Recurrent(nn.Module):
    def __init__(self, cell: Callable[..., nn.Module], width: int) -> None:
        super().__init__()
        self.words, self.cells, self.last = nn.Embedding(30, 8), cell(8, width, batch_first=True), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.cells(self.words(x))[0][:, -1])


class Attending(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.words, self.last = nn.Embedding(30, width), nn.Linear(width, 10)
        self.layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layer(self.words(x)).mean(dim=1))


def dense(*widths: int, between: Callable[[], nn.Module]) -> nn.Module:
    layers: list[nn.Module] = []
    for i, o in pairwise(widths):
        layers += [nn.Linear(i, o), between()]
    return nn.Sequential(*layers[:-1])


def images(first: int, second: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, first, 3, stride=2), nn.GroupNorm(4, first), nn.ReLU(), nn.Conv2d(first, second, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(second, 10),
    )  # fmt: skip


WORDS, ROWS, PIXELS = (20,), (784,), (3, 32, 32)
NETWORKS: dict[str, tuple[tuple[int, ...], Callable[[], nn.Module]]] = {
    "relu 784-200": (ROWS, lambda: dense(784, 200, 10, between=nn.ReLU)),
    "relu 784-512-512": (ROWS, lambda: dense(784, 512, 512, 10, between=nn.ReLU)),
    "relu 784-2000": (ROWS, lambda: dense(784, 2000, 10, between=nn.ReLU)),
    "relu 784-2000-2000": (ROWS, lambda: dense(784, 2000, 2000, 10, between=nn.ReLU)),
    "tanh 784-200": (ROWS, lambda: dense(784, 200, 10, between=nn.Tanh)),
    "gelu 784-200": (ROWS, lambda: dense(784, 200, 10, between=nn.GELU)),
    "tanh 784-32": (ROWS, lambda: dense(784, 32, 10, between=nn.Tanh)),
    "tanh 784-512-512": (ROWS, lambda: dense(784, 512, 512, 10, between=nn.Tanh)),
    "layer norm 784-200": (ROWS, lambda: nn.Sequential(nn.Linear(784, 200), nn.LayerNorm(200), nn.ReLU(), nn.Linear(200, 10))),
    "cnn 4-8": (PIXELS, lambda: images(4, 8)),
    "cnn 16-32": (PIXELS, lambda: images(16, 32)),
    "lstm 16": (WORDS, lambda: Recurrent(nn.LSTM, 16)),
    "lstm 64": (WORDS, lambda: Recurrent(nn.LSTM, 64)),
    "gru 32": (WORDS, lambda: Recurrent(nn.GRU, 32)),
    "transformer 16": (WORDS, lambda: Attending(16)),
    "transformer 64": (WORDS, lambda: Attending(64)),
}


def made(name: str, cohort: int, engine: str) -> tuple[NeuralProblem, nn.Module]:
    shape, build = NETWORKS[name]
    rng = np.random.default_rng(SEED)
    torch.manual_seed(SEED)
    module, count = build(), HELD * cohort
    inputs = rng.integers(0, 30, (count, *shape)) if shape is WORDS else rng.standard_normal((count, *shape), dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return NeuralProblem(module, inputs, rng.integers(0, 10, count), np.split(np.arange(count), cohort), engine=engine), module


def a_round(problem: NeuralProblem, batch: int) -> float:
    """CPU seconds of the second of two rounds."""
    times: list[float] = []
    solver: Any = SGD(batch, LR, epochs=1)
    simulate(
        problem, algorithms.FedAvg(), 2, problem.initial(), Uniform(problem.num_clients), local_solver=solver, seed=SEED, record=(),
        like=problem.like_array(), on_round=lambda *_: times.append(time.process_time()),
    )  # fmt: skip
    return times[-1] - times[-2]


def rows(only: str, batches: Sequence[int], cohort: int, repeats: int) -> Iterator[str]:
    for name in NETWORKS:
        if only not in name:
            continue
        for batch in batches:
            problems = {engine: made(name, cohort, engine) for engine in ("stacked", "loop", "auto")}
            auto, module = problems.pop("auto")
            work = Stacked(auto.flat, auto.loss).work(auto.inputs[:4]) * batch
            times: dict[str, list[float]] = {"barest": [], "stacked": [], "loop": []}
            barest, every = Barest(auto, module, batch, range(cohort)), -(-HELD // batch)
            for _ in range(repeats):
                times["barest"].append(float(clock(barest)[1]))
                for engine, (problem, _) in problems.items():
                    times[engine].append(a_round(problem, batch))
            cost = {way: 1e6 * float(np.median(found)) / (every * cohort) for way, found in times.items()}
            told = ", ".join(f"{way} {value:,.0f}" for way, value in cost.items())
            chain = getattr(auto.engine, "chain", None) is not None
            best = cost[min(("stacked", "loop"), key=lambda way: cost[way])]
            yield (
                f"{name:20s} batch {batch}: {told} us; {work / 1e6:8.2f} million a step; auto: {auto.engine.name}"
                f"{' (a chain)' if chain else ''}, {cost['barest'] / cost[auto.engine.name]:.2f} of the barest loop's speed, "
                f"{best / cost[auto.engine.name]:.2f} of the best"
            )


def main(
    only: Annotated[str, typer.Option(help="Networks whose name contains this.")] = "",
    batches: Annotated[str, typer.Option(help="Batch sizes, with commas.")] = "10,50",
    repeats: Annotated[int, typer.Option(min=1, help="Repetitions by turns; medians count.")] = 3,
    cohort: Annotated[int, typer.Option(min=1, help="Clients, all of which take part.")] = 10,
) -> None:
    """Measure, and print a row for each network and batch."""
    torch.set_num_threads(1)
    for row in rows(only, [int(b) for b in batches.split(",")], cohort, repeats):
        print(row, flush=True)


if __name__ == "__main__":
    typer.run(main)
