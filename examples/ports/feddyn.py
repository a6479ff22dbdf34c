"""FedDyn as public repositories had it, and two other ways of writing it that are right.

As printed: y minimises f_k(y) - <h_k, y> + alpha/2 ||y - x||^2; h_k <- h_k - alpha (y - x);
h <- h - alpha/N sum over the cohort of (y - x); x <- mean of y, minus h/alpha.
"""

import numpy as np

__all__ = ["feddyn_2", "feddyn_3", "fedlab_319", "pfllib"]


def fedlab_319(state, clients, cohort, learning_rate, local_steps, alpha):
    """Of the sum of the clients' models the server's is subtracted once: alpha/N (sum of y - x), for the sum of (y - x).

    https://github.com/SMILELab-FL/FedLab/issues/319
    """
    x, h, h_k, models = state["x"], state["h"], state["h_k"].copy(), []
    for k in cohort:
        y = x.copy()
        for _ in range(local_steps):
            y = y - learning_rate * (clients[k].gradient(y) - h_k[k] + alpha * (y - x))
        h_k[k] = h_k[k] - alpha * (y - x)
        models.append(y)
    total = np.sum(models, axis=0) - x  # right: total = np.sum([y - x for y in models], axis=0)
    h = h - alpha / len(clients) * total
    return {"x": np.mean(models, axis=0) - h / alpha, "h": h, "h_k": h_k}


def feddyn_2(start, clients, cohorts, learning_rate, local_steps, alpha):
    """A false alarm: alpha/2 ||y||^2 is not in the loss, because it is in the optimiser as weight decay.

    https://github.com/alpemreacar/FedDyn/issues/2
    """

    def sgd_step(y, gradient, weight_decay):
        return y - learning_rate * (gradient + weight_decay * y)

    x, h, models = start.copy(), np.zeros(len(start)), []
    h_k = np.zeros((len(clients), len(start)))
    for cohort in cohorts:
        local = []
        for k in cohort:
            y, linear = x.copy(), -alpha * x - h_k[k]
            for _ in range(local_steps):
                y = sgd_step(y, clients[k].gradient(y) + linear, weight_decay=alpha)
            local.append(y)
            h_k[k] = h_k[k] - alpha * (y - x)
        h = h - alpha / len(clients) * np.sum([y - x for y in local], axis=0)
        x = np.mean(local, axis=0) - h / alpha
        models.append(x)
    return models


def feddyn_3(start, clients, cohorts, learning_rate, local_steps, alpha):
    """A false alarm: there is no h, because it is worked out as the mean of what the clients keep, here divided by -alpha.

    https://github.com/alpemreacar/FedDyn/issues/3
    """
    x, models = start.copy(), []
    drift = np.zeros((len(clients), len(start)))  # sums of y - x, a row a client
    for cohort in cohorts:
        local = []
        for k in cohort:
            y = x.copy()
            for _ in range(local_steps):
                y = y - learning_rate * (clients[k].gradient(y) + alpha * (y - x + drift[k]))
            local.append(y)
        for k, y in zip(cohort, local):
            drift[k] += y - x
        x = np.mean(local, axis=0) + drift.mean(axis=0)
        models.append(x)
    return models


def pfllib(state, clients, cohort, learning_rate, local_steps, alpha):
    """The penalty is alpha/2 times the norm, not its square, while h_k goes by alpha (y - x).

    https://github.com/TsingZ0/PFLlib
    """
    x, h, h_k, models = state["x"], state["h"], state["h_k"].copy(), []
    for k in cohort:
        y = x.copy()
        for _ in range(local_steps):
            norm = np.linalg.norm(y - x)
            pull = alpha / 2 * (y - x) / norm if norm else np.zeros_like(y)  # right: pull = alpha * (y - x)
            y = y - learning_rate * (clients[k].gradient(y) - h_k[k] + pull)
        h_k[k] = h_k[k] - alpha * (y - x)
        models.append(y)
    h = h - alpha / len(clients) * np.sum([y - x for y in models], axis=0)
    return {"x": np.mean(models, axis=0) - h / alpha, "h": h, "h_k": h_k}
