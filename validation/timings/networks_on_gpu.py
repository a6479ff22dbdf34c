"""Networks on a GPU: are they right there, what was feared, how fast they are beside loops and
torch.func, and what a round's parts take. One JSON line an item, as it goes.

    python validation/timings/networks_on_gpu.py [--device cuda] [--budget 480] [--out FILE.jsonl]

Time on a GPU is short: items come in order of worth, each is guarded, and none begins after the
budget. ``--dry`` tries the script on a CPU, small; ``--only`` takes some sections. All but the
usual loop train by FedAvg without clipping, where nothing else is said. A loop makes a few steps of
each client, and a rate is of client-steps a second. ``networks_on_gpu.json`` is what an earlier form
of this file measured on an H200.
"""

from __future__ import annotations

import copy
import gc
import json
import math
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from neural_rounds import LR, SEED, Usual, a_round, clock, instance, wait
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from fedtheory import Uniform, algorithms, simulate
from fedtheory.errors import InvalidInput
from fedtheory.local import SGD, Adam, Momentum
from fedtheory.messages.measures import bin_counts
from fedtheory.neural import NeuralProblem, memory
from fedtheory.neural.device import as_device, exact_kernels
from fedtheory.participation.cohorts import Bernoulli
from fedtheory.provenance import provenance

SHAPES = (("mlp-200-100", 10), ("mlp-200-100", 50), ("cnn-384-192", 50), ("char-lstm", 20))
HELD, STEPS, REPEATS = 300, 300, 5
Item = tuple[str, str, Callable[[], dict[str, Any]]]  # section, name, and what gives the values


# --- right ------------------------------------------------------------------------------------------
class Recurrent(nn.Module):
    def __init__(self, kind: str = "LSTM", drop: float = 0.0, packed: bool = False) -> None:
        super().__init__()
        self.words, self.last, self.drop, self.packed = nn.Embedding(9, 4), nn.Linear(6, 3), nn.Dropout(drop), packed
        self.cells = getattr(nn, kind)(4, 6, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h: Any = self.drop(self.words(x))
        if self.packed:
            h = nn.utils.rnn.pack_padded_sequence(h, torch.full((len(x),), x.shape[1]), batch_first=True)
            return self.last(self.cells(h)[1][0][-1])
        return self.last(self.drop(self.cells(h)[0][:, -1]))


class Attending(nn.Module):
    def __init__(self, drop: float = 0.0) -> None:
        super().__init__()
        self.words, self.last = nn.Embedding(9, 8), nn.Linear(8, 3)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=drop, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layer(self.words(x)).mean(dim=1))


def dense(*between: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(128, 9), *between, nn.Linear(9, 3))


def images() -> nn.Module:
    first = nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*first, nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 3))


NETS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: dense(nn.ReLU()), "layer norm": lambda: dense(nn.LayerNorm(9), nn.GELU()),
    "dropout": lambda: dense(nn.ReLU(), nn.Dropout(0.4)), "cnn": images,
    "batch statistics": lambda: dense(nn.BatchNorm1d(9, track_running_stats=False), nn.ReLU()),
    "lstm": Recurrent, "gru": lambda: Recurrent("GRU"), "lstm dropout": lambda: Recurrent(drop=0.3),
    "packed lstm": lambda: Recurrent(packed=True), "transformer": Attending,
    "transformer dropout": lambda: Attending(0.3),
}  # fmt: skip
TEXTUAL = ("lstm", "gru", "transformer")
RNG = np.random.default_rng(0)
IMAGES, LABELS, TEXTS = RNG.normal(size=(60, 2, 8, 8)), RNG.integers(0, 3, 60), RNG.integers(0, 9, (60, 5))
RAGGED, EVEN = np.split(RNG.permutation(60), [6, 20, 40]), np.split(RNG.permutation(60), 4)
PLAIN = SGD(4, 0.1, epochs=2)


def own_loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(outputs, targets) + 1e-3 * outputs.square().mean()


def asking(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(outputs, targets) * (1.0 if outputs.abs().max().item() > -1 else 2.0)


def noisy(gradients: torch.Tensor, step: Any) -> torch.Tensor:
    each, real = step.per_sample()
    return (each * real[..., None]).sum(dim=1) / real.sum(dim=1, keepdim=True) + 0.01 * step.normal()


def small(net: str, device: str, engine: str = "auto", clients: Any = RAGGED, dtype: str = "float64", **options: Any) -> NeuralProblem:
    torch.manual_seed(0)
    data = TEXTS if any(kind in net for kind in TEXTUAL) else IMAGES
    return NeuralProblem(NETS[net](), data, LABELS, clients, ridge=1e-3, device=device, engine=engine, dtype=dtype, **options)


def last(p: NeuralProblem, method: Any = None, solver: Any = PLAIN, rounds: int = 2) -> torch.Tensor:
    """The server's model (d,) after some rounds."""
    how = dict(seed=5, local_solver=solver, record=(), like=p.like_array())
    x = simulate(p, method or algorithms.FedDyn(0.1), rounds, p.initial(), Uniform(3), **how).x
    return torch.as_tensor(np.asarray(x)).reshape(-1)


def beside(net: str, device: str, engine: str = "auto", method: Any = None, solver: Any = PLAIN, **options: Any) -> dict[str, Any]:
    """How far a run there is from one on the CPU, model after model, as a share of the way."""
    here, there = small(net, "cpu", "loop", **options), small(net, device, engine, **options)
    start, x, y = here.initial(), last(here, method, solver), last(there, method, solver)
    off = float((x - y).norm() / (x - start).norm())
    ways = [slice(a, b) for a, b in zip(here.flat.offsets[:-1], here.flat.offsets[1:], strict=True)]
    each = [float((x - y)[s].norm() / ((x - start)[s].norm() + 1e-30)) for s in ways]
    worst = here.flat.names[int(np.argmax(each))]
    found = {"off": off, "right": off < 1e-8, "engine": there.engine.name, "recordings": len(there.walks._steps)}
    return found | {"refused": there.walks.refused} | ({} if off < 1e-8 else {"worst": worst, "of it": max(each)})


def right(device: str) -> Iterator[Item]:
    for net in NETS:
        for engine in ("stacked", "loop") if net != "packed lstm" else ("auto",):
            yield "right", f"{net}, {engine}", lambda net=net, engine=engine: beside(net, device, engine)
    methods = (
        algorithms.FedAvg(), algorithms.Scaffold(), algorithms.FedElasticNetProx(0.0, 0.1), algorithms.FedElasticNetDyn(0.0, 0.1),
        algorithms.EFL(0.1, fisher="empirical"), algorithms.ElasticAggregation(),
    )  # fmt: skip
    for method in methods:
        yield "right", f"mlp, {method.name}", lambda method=method: beside("mlp", device, "stacked", method)
    solvers = (
        replace(PLAIN, clip=0.1), replace(PLAIN, epoch_decay=0.5), replace(PLAIN, on_gradient=noisy),
        Momentum(4, 0.05, epochs=2, nesterov=True), Adam(4, 0.01, epochs=2), Adam(4, 0.01, epochs=2, decoupled_decay=0.1),
    )  # fmt: skip
    for solver in solvers:
        for net, loss in (("mlp", "cross_entropy"), ("lstm", own_loss)):
            name = f"{net}, {'own' if callable(loss) else 'named'} loss, {solver}"
            yield "right", name, lambda s=solver, net=net, loss=loss: beside(net, device, solver=s, loss=loss)
    for net, engine in (("mlp", "stacked"), ("cnn", "loop"), ("lstm", "loop")):
        yield "right", f"{net}, {engine}, own loss", lambda n=net, e=engine: beside(n, device, e, loss=own_loss)
    yield "right", "cnn, augmented", lambda: beside("cnn", device, augment="flip-crop")


# --- feared -----------------------------------------------------------------------------------------
def feared(device: str, dry: bool) -> Iterator[Item]:
    gpu = as_device(device).type == "cuda"

    def engines() -> dict[str, Any]:
        """Tried in single precision, where torch's own convolutions round to TF32."""
        return {e: instance("cnn-384-192", 2, device=device, engine=e)[0].engine.name for e in ("auto", "stacked", "loop")}

    def refused() -> dict[str, Any]:
        before = torch.cuda.current_stream()
        p = small("mlp", device, "loop", EVEN, loss=asking)
        last(p, algorithms.FedAvg())
        room = torch.empty(2**28, device=device)
        del room
        held = torch.cuda.memory_reserved()
        torch.cuda.empty_cache()
        same = torch.cuda.current_stream() == before
        torch.cuda.set_stream(before)
        return {"refused": p.walks.refused, "same stream": same, "MiB given back": (held - torch.cuda.memory_reserved()) / 2**20}

    def asked(net: str, solver: Any, loss: Any) -> dict[str, Any]:
        """How often steps that are launched wait for the host: in one round, and with twice the epochs."""
        counts = []
        for epochs in (1, 2):
            p = small(net, device, loss=loss)
            last(p, solver=solver)  # libraries choose their kernels
            p.walks.refused = True
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                torch.cuda.set_sync_debug_mode("warn")
                try:
                    last(p, solver=replace(solver, epochs=epochs), rounds=1)
                finally:
                    torch.cuda.set_sync_debug_mode("default")
            counts.append(sum("synchroniz" in str(w.message) for w in said))
        return {"waits": counts[0], "with twice the epochs": counts[1]}

    def again() -> dict[str, Any]:
        runs = {n: [last(small(n, device, dtype="float32"), rounds=3) for _ in range(2)] for n in ("cnn", "lstm")}
        return {f"{n}: same bits": bool((a == b).all()) for n, (a, b) in runs.items()}

    def estimate(name: str, batch: int) -> dict[str, Any]:
        """The memory that is counted for a model beside what ten of them take, recorded."""
        p, _ = instance(name, 2 * batch, device=device, engine="stacked")
        counted = 8 * p.dim * p.dtype.itemsize + 2 * batch * memory._kept_of_a_sample(p)
        if not gpu:
            return {"MiB counted": counted / 2**20}
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        a_round(p, batch, "FedAvg")
        return {"MiB counted": counted / 2**20, "MiB taken": (torch.cuda.max_memory_allocated() - held) / 2**20 / 10}

    yield "feared", "engines of cnn-384-192", engines
    yield "feared", "the same run twice", again
    if gpu:
        yield "feared", "after a refused recording", refused
        for solver in (PLAIN, Adam(4, 0.01, epochs=2)):
            yield "feared", f"launched steps, {type(solver).__name__}", lambda s=solver: asked("mlp", s, own_loss)
    for name, batch in SHAPES[1:]:
        yield "feared", f"memory of {name}", lambda n=name, b=batch: estimate(n, 2 if dry else b)


# --- fast -------------------------------------------------------------------------------------------
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
        with torch.no_grad():
            for name, piece in self.pieces.items():
                piece.add_(found[name], alpha=-LR)

    def __call__(self, steps: int) -> None:
        with exact_kernels(self.problem.device), torch.no_grad():
            for chosen in self.orders().split(self.batch, dim=1)[:steps]:
                if chosen.shape[1] == self.batch:
                    self.chosen.copy_(chosen)
                    self.step() if self.graph is None else self.graph.replay()


def rate(steps: int, work: Callable[[], float], device: torch.device, repeats: int = REPEATS) -> dict[str, Any]:
    """Client-steps a second, the median of some turns, and the most memory they took."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        held = torch.cuda.memory_allocated(device)
    first, took, since = work(), [], time.monotonic()
    while len(took) < repeats and (time.monotonic() - since < 3 or not took):
        took.append(work())
    middle = float(np.median(took))
    found = {"client-steps/s": steps / middle, "turns": len(took), "spread": float(np.ptp(took) / middle), "first": first / middle}
    if device.type == "cuda":
        found["MiB beside samples"] = (torch.cuda.max_memory_allocated(device) - held) / 2**20
    return found


def fast(name: str, batch: int, cohort: int, device: str, held: int, turns: int, **how: str) -> Iterator[Item]:
    """One network and cohort all ways, ours with both engines; in lower precision ours and the usual loop."""
    title, place = " ".join((name, f"b={batch} P={cohort}", *how.values())), as_device(device)
    every = math.ceil(held / batch)
    few = min(every, max(3, STEPS // cohort), math.inf if held == HELD else 2)

    def by_hand(make: Callable[..., Any], **options: Any) -> dict[str, Any]:
        problem, module = instance(name, held, device=device, engine="auto" if how else "loop", **how)
        walk = make(problem, module, batch, *(("FedAvg",) if make is Usual else ()), cohort, **options)
        return rate(few * cohort, lambda: clock(lambda: walk(few), place)[0], place, turns)

    def ours(engine: str) -> dict[str, Any]:
        p, _ = instance(name, held, device=device, engine=engine, **how)
        found = rate(every * cohort, lambda: float(a_round(p, batch, "FedAvg", cohort=cohort)[0]), place, turns)
        return found | {"engine": p.engine.name, "recordings": len(p.walks._steps), "refused": p.walks.refused}

    if cohort == 10:
        yield "fast", f"{title}: usual loop", lambda: by_hand(Usual)
    if not how:
        yield "fast", f"{title}: barest loop", lambda: by_hand(Barest)
        yield "fast", f"{title}: torch.func.vmap", lambda: by_hand(Mapped)
        if place.type == "cuda":
            yield "fast", f"{title}: torch.func.vmap in a CUDA graph", lambda: by_hand(Mapped, recorded=True)
    for engine in ("auto",) if how else ("stacked", "loop"):
        yield "fast", f"{title}: ours, {engine}", lambda engine=engine: ours(engine)


# --- rounds, and their parts ------------------------------------------------------------------------
def rounds_of(device: str, held: int, rounds: int) -> Iterator[Item]:
    """Cohorts of changing sizes, clients of unequal sizes, solvers; a round once its steps are recorded."""
    sizes = np.random.default_rng(SEED).lognormal(math.log(held / 3), 1.0, 100).clip(2, 3 * held).astype(int)

    def a_run(sampling: Any, solver: Any, lognormal: bool = False, **options: Any) -> dict[str, Any]:
        problem, module = instance("mlp-200-100", held, device=device, **options)
        if lognormal:
            deal = [np.random.default_rng(k).choice(len(problem.targets), n, replace=False) for k, n in enumerate(sizes)]
            problem = NeuralProblem(module, problem.inputs, problem.targets, deal, device=device, **options)

        def work() -> None:
            how: dict[str, Any] = dict(sampling=sampling, local_solver=solver, seed=SEED, like=problem.like_array(), record=())
            simulate(problem, algorithms.FedDyn(0.1), rounds, x0=problem.initial(), in_place=True, **how)

        first, took = (1e3 * clock(work, problem.device)[0] / rounds for _ in range(2))
        return {"ms a round": took, "ms in the first run": first, "rounds": rounds, "recordings": len(problem.walks._steps)}

    plain, ten = SGD(10, LR, epochs=1), Uniform(10)
    yield "rounds", "10 of 100 clients", lambda: a_run(ten, plain)
    yield "rounds", "each of 100 with probability 0.1", lambda: a_run(Bernoulli(0.1), plain)
    yield "rounds", "lognormal sizes", lambda: a_run(ten, plain, lognormal=True)
    yield "rounds", "gradients clipped", lambda: a_run(ten, replace(plain, clip=10.0))
    yield "rounds", "momentum", lambda: a_run(ten, Momentum(10, LR, epochs=1))
    yield "rounds", "Adam", lambda: a_run(ten, Adam(10, 0.001, epochs=1))
    yield "rounds", "a loss of one's own, lognormal sizes", lambda: a_run(ten, plain, lognormal=True, loss=own_loss)


def parts(device: str, held: int) -> Iterator[Item]:
    def timed(work: Callable[[], Any]) -> dict[str, Any]:
        work()
        return {"ms": 1e3 * clock(work, as_device(device))[0]}

    def losses() -> dict[str, Any]:
        problem, _ = instance("mlp-200-100", held, device=device)
        return timed(lambda: problem.objective(problem.initial()[None]))

    yield "parts", f"losses of {100 * held:,} samples of 100 clients", losses
    sent, some = 0.03 * torch.randn(10, 199_210, device=device), 5 * held // 3
    yield "parts", "entropy of 10 messages of 199,210", lambda: timed(lambda: bin_counts(sent))
    yield "parts", f"unfold of {some} images", lambda: timed(lambda: functional.unfold(torch.randn(some, 3, 32, 32, device=device), 5))


def items(device: str, dry: bool) -> Iterator[Item]:
    """All, in order of worth."""
    held, turns = (8, 1) if dry else (HELD, REPEATS)
    shapes = [(name, 4 if dry else batch) for name, batch in (SHAPES[1:] if dry else SHAPES)]
    yield from right(device)
    yield from feared(device, dry)
    for name, batch in shapes:
        yield from fast(name, batch, 10, device, held, turns)
    yield from rounds_of(device, held, 2 if dry else 30)
    if as_device(device).type == "cuda":
        for how in ({"precision": "tf32"}, {"autocast": "bfloat16"}):
            for name, batch in shapes[-2:]:
                yield from fast(name, batch, 10, device, held, turns, **how)
    yield from parts(device, held)
    for name, batch in shapes[:1] if dry else shapes:
        yield from fast(name, batch, 100, device, held, turns)


def done(work: Callable[[], dict[str, Any]], device: torch.device) -> dict[str, Any]:
    """The values of an item, its warnings, and its error, if there is one."""
    began = time.monotonic()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = work()
            wait(device)
        except Exception as error:  # torch.func has no rule for some layers, and whatever a GPU says
            found = {"error": f"{type(error).__name__}: {str(error)[:300]}", "where": traceback.format_exc().splitlines()[-3:]}
    told = sorted({str(w.message)[:200] for w in said})
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return found | {"seconds": round(time.monotonic() - began, 2)} | ({"warnings": told} if told else {})


def main(
    device: Annotated[str, typer.Option(help="cuda, cuda:0, or cpu with --dry.")] = "cuda",
    budget: Annotated[float, typer.Option(min=1, help="Seconds after which no item begins.")] = 480,
    out: Annotated[Path | None, typer.Option(help="Where the lines go, too.")] = None,
    only: Annotated[str, typer.Option(help="Sections, with commas: right, feared, fast, rounds, parts.")] = "",
    dry: Annotated[bool, typer.Option("--dry", help="Try the script, small, on a CPU.")] = False,
) -> None:
    """Time networks on a GPU, and see that they are right there."""
    began, device = time.monotonic(), "cpu" if dry and device == "cuda" and not torch.cuda.is_available() else device
    try:
        place = as_device(device)
    except InvalidInput as error:
        print(f"nothing measured: {error}", file=sys.stderr)
        raise typer.Exit(2) from error

    def say(section: str, name: str, **values: Any) -> None:
        line = json.dumps({"at": round(time.monotonic() - began, 1), "section": section, "item": name, **values}, default=str)
        print(line, flush=True)
        if out is not None:
            with out.open("a") as lines:
                lines.write(line + "\n")
                lines.flush()
                os.fsync(lines.fileno())

    where = provenance(SEED, device, "float32", "torch")
    say("where", torch.cuda.get_device_name(place) if place.type == "cuda" else "CPU", **where)
    wrong = 0
    for section, name, work in items(device, dry):
        if only and section not in only.split(","):
            continue
        if time.monotonic() - began > budget:
            say(section, name, skipped="the budget is spent")
            continue
        found = done(work, place)
        wrong += section == "right" and not found.get("right", False)
        say(section, name, **found)
    say("end", "done", wrong=wrong)


if __name__ == "__main__":
    typer.run(main)
