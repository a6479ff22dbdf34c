"""Rounds of networks to be timed: the usual loop, the best page by hand, and ours, on a CPU or a
GPU.

The usual loop is written as public implementations of FedDyn write it: a module, torch.optim.SGD
with weight decay, a DataLoader that shuffles, the penalty as a term of the loss, gradients clipped
at norm 10, one client after the other; on a GPU its samples stay in main memory, and every batch is
moved. It is given the mini-batches of the batched run.

The page by hand is what a careful person writes for this one network: a backward pass of its own,
no gradient that is ever stored, the clients side by side in batched products or one after the
other.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    "CLIENTS", "COHORT", "LR", "METHODS", "SEED", "ByHand", "Figure", "Usual", "a_round",
    "check_by_hand", "check_same", "client_models", "clock", "instance", "simulated", "wait",
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
    """One round of the usual loop for each method, from the server's model and zero control
    variates: what round 1 does."""

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


class ByHand:
    """Client models (P, d) of round 1 by the page by hand, of FedAvg or FedDyn without clipping.

    The network is linear layers with ReLUs between them.

    threads : the cohort is dealt to so many threads of one core each
    side_by_side : whether a thread's clients share batched products, or walk one after the other
    """

    def __init__(
        self,
        problem: NeuralProblem,
        batch: int,
        method: str,
        threads: int = 1,
        side_by_side: bool = True,
    ) -> None:
        self.problem, self.batch, self.method, self.threads = problem, batch, method, threads
        self.x, self.y = problem.inputs.flatten(1), problem.targets.reshape(-1, 1).long()
        cohort = (
            Uniform(COHORT)
            .sample(Stream(SEED), 1, range(1), problem.num_clients)
            .members[0]
            .tolist()
        )
        self.shares = np.array_split(cohort, threads if side_by_side else len(cohort))
        self.pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))

    def __call__(self) -> torch.Tensor:
        return torch.cat([*(self.pool.map if self.threads > 1 else map)(self.walk, self.shares)])

    def order(self, k: int) -> torch.Tensor:
        held = self.problem.client_samples[k]
        rows = Rows(
            np.array([k]), np.zeros((1, 1), dtype=int), np.ones((1, 1), bool), Stream(SEED), 1
        )
        return torch.from_numpy(held[sample_order(rows, 0, 0, len(held), 0)])

    @torch.no_grad()
    def walk(self, clients: np.ndarray) -> torch.Tensor:
        orders = torch.stack([self.order(int(k)) for k in clients])
        received = [*self.problem.flat.views(self.problem.initial()[None]).values()]
        layers = [piece.repeat(len(clients), *(1,) * (piece.ndim - 1)) for piece in received]
        weights, biases, last = layers[::2], layers[1::2], len(layers) // 2 - 1
        alpha = 0.0 if self.method == "FedAvg" else ALPHA
        kept = 1 - LR * (RIDGE + alpha)
        for chosen in orders.split(self.batch, dim=1):
            h = [self.x[chosen]]
            for n, (w, b) in enumerate(zip(weights, biases, strict=True)):
                z = torch.baddbmm(b[:, None], h[-1], w.mT)
                h.append(z.relu_() if n < last else z.softmax(2))
            minus = self.x.new_full((1, 1, 1), -1.0).expand(*chosen.shape, 1)
            g = h.pop().scatter_add_(2, self.y[chosen], minus).div_(chosen.shape[1])
            for n in range(last, -1, -1):
                below = torch.bmm(g, weights[n]).mul_(h[n] > 0) if n else g
                weights[n].baddbmm_(g.mT, h[n], beta=kept, alpha=-LR)
                biases[n].mul_(kept).sub_(g.sum(1), alpha=LR)
                g = below
            for layer, own in zip(layers, received, strict=True) if alpha else ():
                layer.add_(own, alpha=LR * alpha)
        return torch.cat([layer.flatten(1) for layer in layers], dim=1)


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
    """The network of that name, or one of its shape, on random images or texts: what is timed does
    not depend on what they show."""
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
    """Whole rounds in the library: cohort, orders of samples, training, aggregation; memories are
    overwritten, as in any run."""
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
    """Wall and CPU seconds (of all threads) of a round; the first, before which memories are made,
    is left out."""
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
    """The loop and the batch walk the same way: two steps and a cut-off third in float64, where
    rounding cannot hide a difference."""
    problem, module = instance(name, 2 * batch + 3, "float64", device, engine)
    _compare(f"{name}, {method}: the loop", problem, Usual(problem, module.double(), batch, method)(), batch, method)


def check_by_hand(name: str, batch: int, method: str) -> None:
    """So do the page by hand and the batch, in every way that the page is timed."""
    problem, _ = instance(name, 2 * batch + 3, "float64")
    for how in ((1, True), (2, True), (1, False)):
        _compare(f"{name}, {method}: the page by hand", problem, ByHand(problem, batch, method, *how)(), batch, method)


def _compare(what: str, problem: NeuralProblem, found: torch.Tensor, batch: int, method: str) -> None:
    ours = client_models(problem, batch, method)
    off = float((ours - found).norm() / (found - problem.initial()).norm())
    if not off < 1e-10:
        raise SystemExit(f"{what} and the batch differ by {off:.3g} of the way: the ratios would mean nothing")
