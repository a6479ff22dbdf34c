"""FedDyn in torch, whose penalty is there to read and has no gradient."""

import numpy as np
import torch

from examples.ports.fedprox_torch import loss_of, model_at, step

__all__ = ["fedlab"]


def fedlab(state, clients, cohort, learning_rate, local_steps, alpha):
    """Penalty and linear term are made of a flat copy of the parameters without a graph; h is the one of `feddyn.fedlab_319`.

    https://github.com/SMILELab-FL/FedLab
    """
    x, h, h_k, models = state["x"], state["h"], state["h_k"].copy(), []
    for k in cohort:
        model, x0, linear = model_at(x), torch.as_tensor(x), torch.as_tensor(h_k[k])
        for _ in range(local_steps):
            flat = model.weight.data.ravel()  # right: flat = model.weight.ravel()
            loss = loss_of(clients[k], model) - linear @ flat + alpha / 2 * (flat - x0).square().sum()
            model.zero_grad()
            loss.backward()
            step(model, learning_rate)
        models.append(model.weight.detach().numpy().ravel())
        h_k[k] = h_k[k] - alpha * (models[-1] - x)
    total = np.sum(models, axis=0) - x  # right: total = np.sum([y - x for y in models], axis=0)
    h = h - alpha / len(clients) * total
    return {"x": np.mean(models, axis=0) - h / alpha, "h": h, "h_k": h_k}
