"""Ours beside the barest loop that torch allows, on one core: CPU time of FedAvg's round,
repetitions by turns.

    python validation/timings/barest_loop.py [--repeats 5]

The loop has the same module, the client's samples as tensors, which each step indexes,
torch.optim.SGD without options, no clipping and no data loader; one client after the other. Before
anything is timed, its models without dropout are compared with ours in double precision.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np
import torch
import typer
from neural_rounds import COHORT, LR, SEED, a_round, client_models, clock, instance
from torch import nn

from fedtheory import Uniform
from fedtheory.local.objective import Rows
from fedtheory.local.sgd import sample_order
from fedtheory.neural.problem import NeuralProblem
from fedtheory.randomness import Stream


class Barest:
    """Client models (P, d) of round 1, of these clients, or of the cohort that round 1 has."""

    def __init__(self, problem: NeuralProblem, module: nn.Module, batch: int, clients: Iterable[int] | None = None) -> None:
        self.problem, self.module, self.batch = problem, module, batch
        cohort = Uniform(COHORT).sample(Stream(SEED), 1, range(1), problem.num_clients).members[0] if clients is None else clients
        self.clients = [int(k) for k in cohort]

    def __call__(self, steps: int | None = None) -> torch.Tensor:
        return torch.stack([self.client(k, steps) for k in self.clients])

    def client(self, k: int, steps: int | None) -> torch.Tensor:
        held = torch.from_numpy(self.problem.client_samples[k])
        rows = Rows(np.array([k]), np.zeros((1, 1), dtype=int), np.ones((1, 1), bool), Stream(SEED), 1)
        order = torch.from_numpy(np.asarray(sample_order(rows, 0, 0, len(held), 0)))
        inputs, targets = self.problem.inputs[held], self.problem.targets[held]
        model, loss_of = copy.deepcopy(self.module), nn.CrossEntropyLoss()
        optimiser = torch.optim.SGD(model.parameters(), lr=LR)
        for chosen in order.split(self.batch)[:steps]:
            optimiser.zero_grad()
            loss_of(model(inputs[chosen]), targets[chosen]).backward()
            optimiser.step()
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


class Dropped(nn.Sequential):
    """784-200-100-10 with dropout of one half after both hidden layers."""

    def __init__(self) -> None:
        torch.manual_seed(SEED)
        super().__init__(
            nn.Flatten(), nn.Linear(784, 200), nn.ReLU(), nn.Dropout(0.5), nn.Linear(200, 100), nn.ReLU(), nn.Dropout(0.5),
            nn.Linear(100, 10),
        )  # fmt: skip


def check_same(name: str, batch: int) -> None:
    """Both walk the same way: two steps and a cut-off third in float64."""
    problem, module = instance(name, 2 * batch + 3, "float64", ridge=0.0)
    looped, ours = Barest(problem, module.double(), batch)(), client_models(problem, batch, "FedAvg")
    off = float((ours - looped).norm() / (looped - problem.initial()).norm())
    if not off < 1e-10:
        raise SystemExit(f"{name}: the loop and ours differ by {off:.3g} of the way: the ratios would mean nothing")


def compare(name: str, batch: int, held: int, repeats: int, steps: int | None = None, module: nn.Module | None = None) -> None:
    """Print client-steps a second of one core; the loop makes some of each client's steps."""
    if module is None:
        check_same(name, batch)
    every = math.ceil(held / batch)
    made: dict[str, tuple[NeuralProblem, Any]] = {}
    for engine in ("stacked", "loop"):
        given = {} if module is None else {"module": module}
        made[engine] = instance(name, held, engine=engine, ridge=0.0, **given)
    barest = Barest(*made["loop"], batch)
    times: dict[str, list[float]] = {"the barest loop": [], "stacked": [], "loop": []}
    for _ in range(repeats):
        times["the barest loop"].append(clock(lambda: barest(steps))[1] * every / min(every, steps or every))
        for engine, (problem, _) in made.items():
            times[engine].append(a_round(problem, batch, "FedAvg", rounds=1)[1])
    base = float(np.median(times["the barest loop"]))
    told = []
    for way, seconds in times.items():
        found = float(np.median(seconds))
        told.append(f"{way} {every * COHORT / found:,.0f} a second ({base / found:.2f})")
    print(f"{name}{'' if module is None else ', dropout'}, batch {batch}: {'; '.join(told)}", flush=True)


def main(repeats: Annotated[int, typer.Option(min=1, help="Repetitions by turns; medians count.")] = 5) -> None:
    """Measure, and print a row for each network and batch."""
    torch.set_num_threads(1)
    print("client-steps of one core (over the barest loop's), FedAvg, ten clients")
    for batch in (10, 50):
        compare("mlp-200-100", batch, 600, repeats)
        compare("mlp-200-100", batch, 600, repeats, module=Dropped())
    compare("char-lstm", 20, 200, max(1, repeats // 2), 4)


if __name__ == "__main__":
    typer.run(main)
