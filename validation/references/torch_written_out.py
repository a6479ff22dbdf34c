"""Rounds written out in plain torch from the methods' definitions, beside `fedtheory.neural.train`,
on drawn settings.

    python validation/references/torch_written_out.py [--first 0] [--last 400]

A seed draws a network, a loss, a method, a local solver and clients of 1 to 7 samples; batches hold
all samples of a client, so that no order matters. Both sides compute in double precision, and every
engine is to end at the same model. A line tells of every one that does not. Attention is not drawn
with Adam or an l1 term: the bias of its keys has no gradient but rounding, which both would follow.
"""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import Tensor, nn
from torch.nn import functional

from fedtheory import algorithms, local, neural
from fedtheory.neural import NeuralProblem

ENGINES = ("auto", "stacked", "loop")
LR, ADAM_LR, MOMENTUM, DECAY, L1, L2, MU, ALPHA = 0.1, 0.01, 0.8, 0.05, 0.01, 0.3, 0.3, 0.4
METHODS: dict[str, Any] = {
    "fedavg": algorithms.FedAvg(), "fedprox": algorithms.FedProx(MU), "scaffold": algorithms.Scaffold(),
    "feddyn": algorithms.FedDyn(ALPHA), "algorithm-1": algorithms.FedElasticNetProx(L1, L2),
}  # fmt: skip
ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.GELU, nn.ELU, nn.SiLU, nn.Sigmoid, nn.LeakyReLU, nn.Softplus)


# --- networks -------------------------------------------------------------------------------------
class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 5), nn.LayerNorm(5), nn.Linear(5, 3)
        self.gain = nn.Parameter(torch.tensor(1.3))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.norm(self.first(x))) * self.gain)


class Images(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4)
        self.second, self.last = nn.Conv2d(4, 2, 2, stride=2), nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = functional.max_pool2d(functional.gelu(self.norm(self.first(x))), 2)
        return self.last(functional.adaptive_avg_pool2d(functional.relu(self.second(h)), 1).flatten(1))


class Texts(nn.Module):
    def __init__(self, cells: Callable[..., nn.Module], every: bool) -> None:
        super().__init__()
        self.words, self.cells = nn.Embedding(7, 4, padding_idx=0), cells(4, 5, num_layers=2, batch_first=True)
        self.last, self.every = nn.Linear(5, 3), every

    def forward(self, x: Tensor) -> Tensor:
        out = self.last(self.cells(self.words(x))[0])
        return out.transpose(1, 2) if self.every else out[:, -1]


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.last = nn.Embedding(7, 4), nn.Linear(4, 3)
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.last(self.layer(self.words(x), src_key_padding_mask=mask).mean(dim=1))


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.twice, self.last = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.twice(torch.relu(self.twice(x)))))


def frozen() -> nn.Module:
    net = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6).eval(), nn.SiLU(), nn.Linear(6, 3))
    net[1].running_mean.uniform_()
    net[1].running_var.uniform_(0.5, 1.5)
    for parameter in (net[0].weight, *net[1].parameters()):
        parameter.requires_grad_(False)
    return net


def chain(draw: random.Random) -> nn.Module:
    between = draw.choice(ACTIVATIONS)
    return nn.Sequential(nn.Linear(6, 5), between(), nn.Linear(5, 4, bias=draw.random() < 0.5), between(), nn.Linear(4, 3))


def network(draw: random.Random) -> tuple[str, nn.Module]:
    makers: dict[str, Callable[[], nn.Module]] = {
        "chain": lambda: chain(draw), "linear": lambda: nn.Linear(6, 3), "norm": Normed, "images": Images,
        "lstm": lambda: Texts(nn.LSTM, False), "gru": lambda: Texts(nn.GRU, False), "sequence": lambda: Texts(nn.LSTM, True),
        "attention": Attending, "shared": Shared, "frozen": frozen,
    }  # fmt: skip
    name = draw.choice(list(makers))
    return name, makers[name]().double()


# --- samples and losses ---------------------------------------------------------------------------
def samples(name: str, n: int, g: torch.Generator) -> Any:
    if name == "images":
        return torch.randn(n, 1, 8, 8, generator=g, dtype=torch.float64)
    if name in ("lstm", "gru", "sequence", "attention"):
        words = torch.randint(0, 7, (n, 5), generator=g)
        hidden = torch.rand(n, 5, generator=g) < 0.3
        hidden[:, 0] = False
        return {"x": words, "mask": hidden} if name == "attention" else words
    return torch.randn(n, 6, generator=g, dtype=torch.float64)


def loss(draw: random.Random, name: str, n: int, g: torch.Generator) -> tuple[Any, Callable[[Any, Any], Tensor], Tensor]:
    """Draw a loss for `NeuralProblem`, the same as a function, and targets.

    Class 0 is in every loss that ignores one.
    """
    v = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    entropy, smooth = nn.CrossEntropyLoss(), partial(functional.cross_entropy, label_smoothing=0.1)
    if name == "sequence":
        labels = torch.randint(0, 3, (n, 5), generator=g)
        hidden = torch.rand(n, 5, generator=g) < 0.3
        hidden[:, 0] = False
        given: Any = draw.choice([entropy, smooth])
        return given, given, torch.where(hidden, -100, labels) if given is entropy else labels
    labels, values = torch.randint(0, 3, (n,), generator=g), torch.randn(n, 3, generator=g, dtype=torch.float64)
    choices: list[tuple[Any, Any, Tensor]] = [
        ("cross_entropy", functional.cross_entropy, labels), ("mean_squared_error", functional.mse_loss, values),
    ]  # fmt: skip
    for given in (entropy, smooth, nn.CrossEntropyLoss(weight=v), partial(functional.cross_entropy, weight=v, label_smoothing=0.1)):
        choices.append((given, given, labels))
    own = lambda o, t: (1 + (o - t) ** 2).sqrt().mean() + 0.1 * o.abs().mean()  # noqa: E731
    for given in (nn.MSELoss(), nn.HuberLoss(delta=0.7), nn.SmoothL1Loss(beta=0.5), own):
        choices.append((given, given, values))
    for given in (nn.BCEWithLogitsLoss(), nn.BCEWithLogitsLoss(pos_weight=v)):
        choices.append((given, given, (values > 0).double()))
    return draw.choice(choices)


# --- the rounds, written out ----------------------------------------------------------------------
@dataclass
class Drawn:
    """A setting: all that both sides are given."""

    module: nn.Module
    inputs: Any
    targets: Tensor
    clients: list[np.ndarray]
    loss: Any
    compute: Callable[[Any, Any], Tensor]
    method: str
    solver: str
    epochs: int
    rounds: int
    ridge: float
    clip: float | None
    words: str


def drawn(seed: int) -> Drawn:
    draw, g = random.Random(seed), torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    name, module = network(draw)
    counts = [draw.choice([1, 2, 5, 7]) for _ in range(draw.choice([2, 3, 4]))]
    n = sum(counts)
    given, compute, targets = loss(draw, name, n, g)
    method = draw.choice(list(METHODS) if name != "attention" else [m for m in METHODS if m != "algorithm-1"])
    solver = draw.choice(["sgd", "sgd", "momentum", "nesterov", "adam", "adamw"])
    if method == "scaffold" or (name == "attention" and solver.startswith("adam")):
        solver = "sgd"
    clip = draw.choice([None, 0.3]) if solver == "sgd" else None
    epochs, rounds, ridge = draw.choice([1, 3]), draw.choice([1, 3]), draw.choice([0.0, 0.05])
    words = f"seed {seed}: {name}, {given}, {method}, {solver}, clients of {counts}, clip {clip}, ridge {ridge}, {rounds} x {epochs}"
    clients = np.split(np.arange(n), np.cumsum(counts)[:-1])
    inputs = samples(name, n, g)
    return Drawn(module, inputs, targets, clients, given, compute, method, solver, epochs, rounds, ridge, clip, words)


def trained(s: Drawn, engine: str) -> Tensor:
    solvers: dict[str, Any] = {
        "sgd": lambda: local.SGD(8, LR, epochs=s.epochs, clip=s.clip),
        "momentum": lambda: local.Momentum(8, LR, momentum=MOMENTUM, epochs=s.epochs),
        "nesterov": lambda: local.Momentum(8, LR, momentum=MOMENTUM, nesterov=True, epochs=s.epochs),
        "adam": lambda: local.Adam(8, ADAM_LR, epochs=s.epochs),
        "adamw": lambda: local.Adam(8, ADAM_LR, decoupled_decay=DECAY, epochs=s.epochs),
    }
    problem = NeuralProblem(
        s.module, s.inputs, s.targets, s.clients, s.loss, ridge=s.ridge, dtype="float64", engine=engine
    )
    run = neural.train(problem, METHODS[s.method], s.rounds, None, solvers[s.solver](), record=["drift"], progress=False)
    return torch.as_tensor(np.asarray(run.x)).reshape(-1)


def stepped(s: Drawn, module: nn.Module, of: np.ndarray, start: Tensor, correction: Tensor) -> Tensor:
    """The client's model after its epochs, from `start`; the correction is SCAFFOLD's c - c_k, or
    FedDyn's minus its gradient."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    y, m, v = start.clone(), torch.zeros_like(start), torch.zeros_like(start)
    x = {k: a[of] for k, a in s.inputs.items()} if isinstance(s.inputs, dict) else s.inputs[of]
    for t in range(1, s.epochs + 1):
        nn.utils.vector_to_parameters(y, parameters)
        value = s.compute(module(**x) if isinstance(x, dict) else module(x), s.targets[of])
        g = torch.cat([a.reshape(-1) for a in torch.autograd.grad(value, parameters, materialize_grads=True)])
        pull = {"fedprox": MU, "feddyn": ALPHA, "algorithm-1": L2}.get(s.method, 0.0)
        g = g + correction + pull * (y - start)
        if s.method == "algorithm-1":
            g = g + L1 * torch.sign(y - start)
        if s.clip is not None:
            g = g * min(1.0, s.clip / (float(g.norm()) + 1e-6))
        g = g + s.ridge * y
        if s.solver in ("momentum", "nesterov"):
            m = MOMENTUM * m + g
            y = y - LR * (m if s.solver == "momentum" else g + MOMENTUM * m)
        elif s.solver in ("adam", "adamw"):
            y = y * (1 - ADAM_LR * DECAY) if s.solver == "adamw" else y
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            y = y - ADAM_LR * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
        else:
            y = y - LR * g
    return y


def written_out(s: Drawn) -> Tensor:
    module = copy.deepcopy(s.module)
    x = torch.cat([p.detach().reshape(-1) for p in module.parameters() if p.requires_grad])
    shares = torch.tensor([len(of) for of in s.clients], dtype=torch.float64)
    shares = shares / shares.sum()
    c, h = torch.zeros_like(x), torch.zeros_like(x)
    own = [torch.zeros_like(x) for _ in s.clients]  # SCAFFOLD's c_k, FedDyn's gradients
    for _ in range(s.rounds):
        corrections = [c - a if s.method == "scaffold" else -a for a in own]
        ys = [stepped(s, module, of, x, a) for of, a in zip(s.clients, corrections, strict=True)]
        mean = torch.stack(ys).mean(dim=0)
        if s.method in ("fedavg", "algorithm-1"):
            x = (shares[:, None] * torch.stack(ys)).sum(dim=0)
        elif s.method == "scaffold":
            new = [a - c + (x - y) / (s.epochs * LR) for a, y in zip(own, ys, strict=True)]
            c, own, x = torch.stack(new).mean(dim=0), new, mean
        elif s.method == "feddyn":
            own = [a - ALPHA * (y - x) for a, y in zip(own, ys, strict=True)]
            h = h - ALPHA * (mean - x)
            x = mean - h / ALPHA
        else:
            x = mean
    return x


def differences(seed: int) -> tuple[str, dict[str, float]]:
    """The setting in words, and by engine the largest difference of an entry, over the largest move
    of one (at least 1e-3)."""
    s = drawn(seed)
    start = torch.cat([p.detach().reshape(-1) for p in s.module.parameters() if p.requires_grad])
    wanted = written_out(s)
    size = max(1e-3, float((wanted - start).abs().max()))
    return s.words, {engine: float((trained(s, engine) - wanted).abs().max()) / size for engine in ENGINES}


def main(
    first: Annotated[int, typer.Option(help="The first seed.")] = 0,
    last: Annotated[int, typer.Option(help="The seed to end before.")] = 400,
    tolerance: Annotated[float, typer.Option(help="Of a difference, relative to how far the model moved.")] = 1e-8,
) -> None:
    """Compare, and tell of every setting in which an engine ends elsewhere."""
    most, wrong = 0.0, 0
    for seed in range(first, last):
        words, found = differences(seed)
        most = max(most, *found.values())
        for engine, off in found.items():
            if not off <= tolerance:
                wrong += 1
                print(f"{engine} ends elsewhere by {off:.2g}: {words}", flush=True)
    print(f"{last - first} settings, {len(ENGINES)} engines: {wrong} end elsewhere; the largest difference is {most:.2g}")
    raise typer.Exit(wrong > 0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    typer.run(main)
