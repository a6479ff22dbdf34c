"""Private local steps: every sample's gradient is clipped, and noise is added to their sum.

DP-SGD (Abadi et al. 2016, Algorithm 1), as Opacus makes it, written with `on_gradient`. The noise
follows from the seed, so that a run repeats. No privacy budget is computed: batches are drawn
without replacement, and what is usual (Poisson sampling) is another law.

    python examples/dp_sgd.py
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from fedtheory import Uniform, algorithms, local, neural

CLIP, BATCH = 1.0, 20


def private(noise):
    """The gradients of a step whose samples' own gradients have norms of at most CLIP."""

    def change(gradients, step):
        each, real = step.per_sample()  # (r, b, d), and which are samples of the batch (r, b)
        factor = (CLIP / (each.norm(dim=2) + 1e-6)).clamp(max=1.0) * real
        total = torch.einsum("rb,rbd->rd", factor, each)
        return (total + noise * CLIP * step.normal()) / BATCH

    return change


def accuracy(on_gradient):
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    clients = np.array_split(np.random.default_rng(0).permutation(1400), 10)
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    problem = neural.NeuralProblem(
        net, images[:1400] / 16, labels[:1400], clients, test=(images[1400:] / 16, labels[1400:])
    )
    solver = local.SGD(BATCH, 0.2, epochs=1, on_gradient=on_gradient)
    run = neural.train(
        problem, algorithms.FedAvg(), 15, Uniform(5), solver, record=("test_accuracy",), progress=False
    )
    return float(run.metrics["test_accuracy"][-1, 0])


found = {"plain": accuracy(None)} | {f"noise {noise:g}": accuracy(private(noise)) for noise in (0.0, 1.0, 4.0)}
for name, share in found.items():
    print(f"{name:10s} test accuracy {share:.3f}")
