"""Rounds of networks to be timed: the usual loop over the clients of a round, and ours, on a CPU or a GPU.

The usual loop is written as public implementations of FedDyn write it: a module, torch.optim.SGD with weight decay, a DataLoader that
shuffles, the penalty as a term of the loss, gradients clipped at norm 10, one client after the other; on a GPU its samples stay in main
memory, and every batch is moved. It is given the mini-batches of the batched run.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from rows import Figure
from torch import nn

from fedtheory import Uniform, algorithms, simulate
from fedtheory.local import SGD
from fedtheory.local.objective import Rows
from fedtheory.local.sgd import sample_order
from fedtheory.neural import models
from fedtheory.neural.device import exact_kernels
from fedtheory.neural.problem import NeuralProblem
from fedtheory.randomness import Stream

__all__ = [
    "CLIENTS", "COHORT", "METHODS", "SEED", "Figure", "Usual", "a_round", "check_same", "client_models", "clock", "instance",
    "simulated", "wait",
]  # fmt: skip

CLIENTS, COHORT, RIDGE, LR, ALPHA, L1, SEED, CLIP = 100, 10, 1e-4, 0.05, 0.1, 1e-4, 1, 10.0


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

    def __init__(self, problem: NeuralProblem, module: nn.Module, batch: int, method: str, cohort: int = COHORT) -> None:
        self.problem, self.module, self.batch, self.method, self.cohort = problem, module, batch, method, cohort
        self.x, self.y = problem.inputs.cpu().numpy(), problem.targets.cpu().numpy()  # in the problem's dtype, as the module must be

    def __call__(self, steps: int | None = None) -> torch.Tensor:
        """Client models (P, d), in the order of their numbers; at most `steps` steps each."""
        cohort = Uniform(self.cohort).sample(Stream(SEED), 1, range(1), self.problem.num_clients).members[0]
        with exact_kernels(self.problem.device, self.problem.precision == "tf32"):
            return torch.stack([self.client(int(k), steps) for k in cohort])

    def client(self, k: int, steps: int | None) -> torch.Tensor:
        held, device = self.problem._clients[k], self.problem.device
        rows = Rows(np.array([k]), np.zeros((1, 1), dtype=int), np.ones((1, 1), bool), Stream(SEED), 1)
        loader = torch.utils.data.DataLoader(
            Samples(self.x[held], self.y[held]), batch_size=self.batch, sampler=sample_order(rows, 0, 0, len(held), 0).tolist()
        )
        model = copy.deepcopy(self.module).to(device)
        mixed = getattr(self.problem.engine, "autocast", None)  # the loop is given what ours has
        loss_of = nn.CrossEntropyLoss(reduction="sum")
        decay = RIDGE + (0.0 if self.method == "FedAvg" else ALPHA)
        optimiser = torch.optim.SGD(model.parameters(), lr=LR, weight_decay=decay)
        received = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
        stored = torch.zeros_like(received)
        for n, (x, y) in enumerate(loader):
            if n == steps:
                break
            x, y = x.to(device), y.to(device)
            with torch.autocast(device.type, getattr(torch, mixed or "bfloat16"), enabled=mixed is not None):
                outputs = model(x)
            loss = loss_of(outputs.to(received.dtype), y.reshape(-1).long()) / len(y)
            if self.method != "FedAvg":
                now = torch.cat([p.reshape(-1) for p in model.parameters()])
                loss = loss + ALPHA * torch.sum(now * (stored - received))
                if self.method == "FedElasticNet":
                    loss = loss + L1 * torch.sum(torch.abs(now - received))
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=CLIP)
            optimiser.step()
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


METHODS = {
    "FedAvg": algorithms.FedAvg(),
    "FedDyn": algorithms.FedDyn(ALPHA),
    "FedElasticNet": algorithms.FedElasticNetDyn(L1, ALPHA),
}


def instance(
    name: str,
    held: int,
    dtype: str = "float32",
    device: str = "cpu",
    engine: str = "auto",
    clients: int = CLIENTS,
    tested: int = 0,
    module: nn.Module | None = None,
    **options: Any,
) -> tuple[NeuralProblem, nn.Module]:
    """The network of that name, or one of its shape, on random images or texts: what is timed does not depend on what they show."""
    model = models.get(name)
    module = model.build(seed=0) if module is None else module
    rng = np.random.default_rng(SEED)
    count = held * clients

    def inputs(n: int) -> np.ndarray:
        if model.reads_text:
            return rng.integers(0, model.options["vocabulary"], (n, *model.input_shape))
        return rng.standard_normal((n, *model.input_shape), dtype=np.float32)

    held_inputs = inputs(count)
    dealt, labels = np.array_split(rng.permutation(count), clients), rng.integers(0, 10, count)
    test = (inputs(tested), rng.integers(0, 10, tested)) if tested else None
    how = {"ridge": RIDGE, "dtype": dtype, "device": device, "engine": engine, "test": test, **options}
    return NeuralProblem(module, held_inputs, labels, dealt, **how), module


def simulated(
    problem: NeuralProblem,
    batch: int,
    method: str,
    rounds: int,
    on_round: Callable[..., None],
    cohort: int = COHORT,
    record: Sequence[str] = (),
    clipped: bool = False,
) -> None:
    """Whole rounds in the library: cohort, orders of samples, training, aggregation; memories are overwritten, as in any run."""
    clipping: dict[str, Any] = {"clip": CLIP, "clip_spares": "curvature"} if clipped else {}
    simulate(
        problem,
        METHODS[method],
        rounds,
        x0=problem.initial(),
        sampling=Uniform(cohort),
        local_solver=SGD(batch, LR, epochs=1, **clipping),
        seed=SEED,
        like=problem.like_array(),
        record=record,
        on_round=on_round,
        in_place=True,
    )


def client_models(problem: NeuralProblem, batch: int, method: str) -> torch.Tensor:
    """The client models (P, d) of round 1."""
    found: list[torch.Tensor] = []
    simulated(problem, batch, method, 1, lambda t, old, new, clients: found.append(clients.results[-1].y[0]))
    return found[0]


def wait(device: torch.device) -> None:
    """Until a GPU has done what it was told; a CPU has."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def a_round(
    problem: NeuralProblem,
    batch: int,
    method: str,
    rounds: int = 2,
    cohort: int = COHORT,
    record: Sequence[str] = (),
    clipped: bool = False,
) -> np.ndarray:
    """Wall and CPU seconds (of all threads) of a round; the first, before which memories are made, is left out."""
    times: list[np.ndarray] = []

    def note(*_: Any) -> None:
        wait(problem.device)
        times.append(np.array([time.perf_counter(), time.process_time()]))

    simulated(problem, batch, method, 1 + rounds, note, cohort, record, clipped)
    return (times[-1] - times[0]) / rounds


def clock(work: Callable[[], Any], device: torch.device | None = None) -> np.ndarray:
    """Wall and CPU seconds (of all threads)."""
    device = device or torch.device("cpu")
    wait(device)
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    wait(device)
    return np.array([time.perf_counter() - wall, time.process_time() - cpu])


def check_same(name: str, batch: int, method: str, device: str = "cpu", engine: str = "auto") -> None:
    """The loop and the batch walk the same way: two steps and a cut-off third in float64, where rounding cannot hide a difference."""
    problem, module = instance(name, 2 * batch + 3, "float64", device, engine)
    looped, ours = Usual(problem, module.double(), batch, method)(), client_models(problem, batch, method)
    off = float((ours - looped).norm() / (looped - problem.initial()).norm())
    if not off < 1e-10:
        raise SystemExit(f"{name}, {method}: the loop and the batch differ by {off:.3g} of the way: the ratios would mean nothing")
