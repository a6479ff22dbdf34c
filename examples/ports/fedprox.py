"""FedProx as public repositories had it: local steps on f_k(y) + mu/2 ||y - x||^2. What is about autograd is in `in_torch`."""

import numpy as np

__all__ = ["feddyn_1", "fedtorch_11", "flower_2210"]


def flower_2210(state, clients, cohort, learning_rate, local_steps, mu):
    """The penalty is mu/2 times the norm, not its square: a pull of constant size.

    https://github.com/adap/flower/pull/2210
    """
    x, models, sizes = state["x"], [], []
    for k in cohort:
        y = x.copy()
        for _ in range(local_steps):
            norm = np.linalg.norm(y - x)
            pull = mu / 2 * (y - x) / norm if norm else np.zeros_like(y)  # right: pull = mu * (y - x)
            y = y - learning_rate * (clients[k].gradient(y) + pull)
        models.append(y)
        sizes.append(clients[k].num_examples)
    return {"x": np.average(models, axis=0, weights=sizes)}


def feddyn_1(state, clients, cohort, learning_rate, local_steps, mu):
    """mu/2 (||y||^2 - 2 <y, x>) in two lines, and the second one has = for +=: only -mu <y, x> is left. The method is FedProx.

    https://github.com/alpemreacar/FedDyn/issues/1
    """
    x, models, sizes = state["x"], [], []
    for k in cohort:
        y = x.copy()
        for _ in range(local_steps):
            penalty = mu * y
            penalty = -mu * x  # right: penalty += -mu * x
            y = y - learning_rate * (clients[k].gradient(y) + penalty)
        models.append(y)
        sizes.append(clients[k].num_examples)
    return {"x": np.average(models, axis=0, weights=sizes)}


def fedtorch_11(state, clients, cohort, learning_rate, local_steps, mu):
    """A false alarm: the loss that is *logged* has the norm unsquared, but the step adds mu (y - x) by hand and is right.

    https://github.com/MLOPTPSU/FedTorch/issues/11
    """
    x, models, sizes, logged = state["x"], [], [], []
    for k in cohort:
        y = x.copy()
        for _ in range(local_steps):
            logged.append(clients[k].value(y) + mu / 2 * np.linalg.norm(y - x))
            y = y - learning_rate * (clients[k].gradient(y) + mu * (y - x))
        models.append(y)
        sizes.append(clients[k].num_examples)
    return {"x": np.average(models, axis=0, weights=sizes)}
