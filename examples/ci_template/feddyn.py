"""FedDyn (Acar et al. 2021) in plain NumPy: put your own implementation in its place."""

import numpy as np


def feddyn(gradients, start, alpha, cohorts, lr, local_steps=40):
    """The server's model x and its h in every round, (rounds + 1, d) each.

    gradients : callable, (N, d) -> (N, d), every client's gradient at a point of its own
    start : (N, d), the first model, once for every client
    cohorts : one array of clients a round
    lr, local_steps : of the gradient descent that solves the local problems
    """
    x, h, g = start[0], np.zeros_like(start[0]), np.zeros_like(start)
    models, hs = [x], [h]
    for cohort in cohorts:
        y = np.tile(x, (len(start), 1))
        for _ in range(local_steps):  # min f_k(y) - <g_k, y> + alpha/2 ||y - x||^2
            y = y - lr * (gradients(y) - g + alpha * (y - x))
        moved = y[cohort] - x
        g[cohort] -= alpha * moved
        h = h - alpha * moved.sum(axis=0) / len(start)
        x = y[cohort].mean(axis=0) - h / alpha
        models.append(x)
        hs.append(h)
    return {"x": np.array(models), "h": np.array(hs)}
