"""A backbone trained in one place and frozen, and a head that ten clients train together.

A small CNN with BatchNorm learns scikit-learn's digits 0 to 4 centrally. Then ten clients, with ten
images of two of the digits 5 to 9 each, train the new classes with FedAvg: the last layer alone,
the backbone being frozen; the whole pretrained network, the statistics of BatchNorm being frozen;
or a new network, with GroupNorm. Frozen parameters are no part of the point: they are neither
trained nor sent. Gradients are clipped at norm 1; the step size of each is, of three, the one with
the smallest training loss at the end.

python examples/fine_tuning.py [PICTURE]
"""

import copy
import sys
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

from fedtheory import algorithms, local, neural
from fedtheory.neural.data import digits
from fedtheory.problems import partitions


class Network(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.backbone = nn.Sequential(
            *(nn.Conv2d(1, 16, 3, padding=1), norm(16), nn.ReLU()),
            *(nn.Conv2d(16, 32, 3, padding=1), norm(32), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(32, 32, 3, padding=1), norm(32), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten()),
        )
        self.head = nn.Linear(128, 5)

    def forward(self, images):  # (b, 1, 8, 8) -> (b, 5)
        return self.head(self.backbone(images))


def pretrained(images, labels, epochs=20):
    """The network after Adam on the digits 0 to 4, BatchNorm's statistics kept, with a new head."""
    network = Network(nn.BatchNorm2d)
    optimizer = torch.optim.Adam(network.parameters(), 1e-3)
    old = torch.from_numpy(np.flatnonzero(labels < 5))
    images, labels = torch.from_numpy(images), torch.from_numpy(labels)
    for _ in range(epochs):
        for batch in old[torch.randperm(len(old))].split(32):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(images[batch]), labels[batch]).backward()
            optimizer.step()
    network.head = nn.Linear(128, 5)
    return network.eval()


def train(rounds=12, seed=0):
    """Name -> the run of the best step size: megabits, and accuracy on 5 to 9, (rounds + 1,) each."""
    torch.manual_seed(seed)
    data = digits()
    whole = pretrained(data.inputs(data.train_x), data.train_y)
    head_only = copy.deepcopy(whole)
    head_only.backbone.requires_grad_(False)
    new = np.random.default_rng(seed).permutation(np.flatnonzero(data.train_y >= 5))[:100]
    images, labels = data.inputs(data.train_x[new]), data.train_y[new] - 5
    clients = partitions.classes_per_client(labels, 10, 2, seed=seed)
    later = data.test_y >= 5
    test = data.inputs(data.test_x[later]), data.test_y[later] - 5
    found = {}
    scratch = Network(partial(nn.GroupNorm, 4))
    starts = {"head": head_only, "everything": whole, "from scratch": scratch}
    for name, network in starts.items():
        problem = neural.NeuralProblem(
            network, images, labels, clients, nn.CrossEntropyLoss(), test=test
        )
        runs = []
        for lr in (0.03, 0.1, 0.3):
            solver = local.SGD(10, lr, epochs=2, clip=1.0)
            record = ["objective", "test_accuracy", "bits"]
            run = neural.train(
                problem, algorithms.FedAvg(), rounds, None, solver, seed, record, progress=False
            )
            runs.append({what: v[:, 0] for what, v in run.metrics.items()} | {"lr": lr})
        best = min(runs, key=lambda run: run["objective"][-1])
        found[name] = {
            "trained": problem.dim, "lr": best["lr"], "megabits": best["bits"] / 1e6,
            "accuracy": best["test_accuracy"],
        }
    return found


def finding(found):
    head, whole, new = found.values()
    reached = np.flatnonzero(whole["accuracy"] >= head["accuracy"][-1])
    takes = "does not get there"
    if len(reached):
        takes = f"takes {whole['megabits'][reached[0]]:.0f} megabits to get there"
    return (
        f"The head alone ends at {head['accuracy'][-1]:.1%} accuracy with "
        f"{head['megabits'][-1]:.1f} megabits; trained as a whole the network {takes} and ends at "
        f"{whole['accuracy'][-1]:.1%}, a new one at {new['accuracy'][-1]:.1%}."
    )


def draw(found, file):
    figure, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for name, run in found.items():
        ax.plot(run["megabits"][1:], run["accuracy"][1:], "o-", markersize=3, label=name)
    ax.set(xscale="log", xlabel="megabits sent", ylabel="accuracy on the digits 5 to 9")
    ax.legend()
    figure.savefig(file, dpi=150)
    return file


if __name__ == "__main__":
    found = train()
    print("trained".ljust(14), "numbers  step  megabits  accuracy after 1, 5, 12 rounds")
    for name, run in found.items():
        after = "  ".join(f"{run['accuracy'][t]:.3f}" for t in (1, 5, 12))
        numbers = f"{run['trained']:7,}  {run['lr']:4}  {run['megabits'][-1]:8.1f}"
        print(name.ljust(14), f"{numbers}  {after}")
    print(finding(found))
    print("wrote", draw(found, sys.argv[1] if len(sys.argv) > 1 else "fine_tuning.png"))
