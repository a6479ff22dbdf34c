"""FedAvg as public repositories had it: x <- sum over the cohort of n_k y_k / sum of n_k, after K local steps each."""

import numpy as np

__all__ = ["fedlab_305", "flame_95", "pytorch_27"]


def fedlab_305(state, clients, cohort, learning_rate, local_steps):
    """The server takes the plain mean, whatever the clients' sizes: the method with the weights was never called.

    https://github.com/SMILELab-FL/FedLab/issues/305
    """
    models, sizes = [], []
    for k in cohort:
        y = state["x"].copy()
        for _ in range(local_steps):
            y -= learning_rate * clients[k].gradient(y)
        models.append(y)
        sizes.append(clients[k].num_examples)
    return {"x": np.mean(models, axis=0)}  # right: return {"x": np.average(models, axis=0, weights=sizes)}


def pytorch_27(state, clients, cohort, learning_rate, local_steps):
    """The clients' state dicts, a tensor each by its name, are averaged plainly although the data can be split unequally.

    https://github.com/AshwinRJ/Federated-Learning-PyTorch/issues/27
    """
    local = []
    for k in cohort:
        y = state["x"].copy()
        for _ in range(local_steps):
            y -= learning_rate * clients[k].gradient(y)
        local.append({"first": y[:2], "second": y[2:]})
    sizes = [1 for k in cohort]  # right: sizes = [clients[k].num_examples for k in cohort]
    mean = {name: sum(n * model[name] for n, model in zip(sizes, local)) / sum(sizes) for name in local[0]}
    return {"x": np.concatenate([mean["first"], mean["second"]])}


def flame_95(start, clients, cohorts, learning_rate, local_steps):
    """The sum over the clients is begun at what it was in the round before: x_{t+1} = x_t + sum of p_k y_k.

    https://github.com/cisco-open/flame/pull/95
    """
    total, models = start.copy(), []
    for cohort in cohorts:
        x, everything = total.copy(), sum(clients[k].num_examples for k in cohort)
        total = total  # right: total = np.zeros_like(total)
        for k in cohort:
            y = x.copy()
            for _ in range(local_steps):
                y -= learning_rate * clients[k].gradient(y)
            total = total + clients[k].num_examples / everything * y
        models.append(total)
    return models
