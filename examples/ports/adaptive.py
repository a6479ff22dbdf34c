"""FedAdam and FedYogi as public repositories had them.

As printed, with move the mean of the clients' y - x: m <- beta1 m + (1 - beta1) move; FedAdam's v <- beta2 v + (1 - beta2) move^2;
FedYogi's v <- v - (1 - beta2) move^2 sign(v - move^2); x <- x + eta m/(sqrt(v) + tau).
"""

import numpy as np

__all__ = ["fedmllm_4", "flower_885", "flower_893", "flower_fedadam"]


def mean_move(x, clients, cohort, learning_rate, local_steps):
    """The mean of the cohort's y - x by numbers of examples, after local steps. It is right."""
    moves = []
    for k in cohort:
        y = x.copy()
        for _ in range(local_steps):
            y = y - learning_rate * clients[k].gradient(y)
        moves.append(y - x)
    return np.average(moves, axis=0, weights=[clients[k].num_examples for k in cohort])


def flower_893(state, clients, cohort, learning_rate, local_steps, server_lr, beta1, beta2, tau):
    """FedAdam's second moment is made of the momentum's square, not of the update's.

    https://github.com/adap/flower/pull/893
    """
    move = mean_move(state["x"], clients, cohort, learning_rate, local_steps)
    m = beta1 * state["m"] + (1 - beta1) * move
    v = beta2 * state["v"] + (1 - beta2) * m**2  # right: v = beta2 * state["v"] + (1 - beta2) * move**2
    return {"x": state["x"] + server_lr * m / (np.sqrt(v) + tau), "m": m, "v": v}


def fedmllm_4(start, clients, cohorts, learning_rate, local_steps, server_lr, beta1, beta2, tau):
    """As `flower_893`, and the momentum of the first round is the whole update.

    https://github.com/1xbq1/FedMLLM/issues/4
    """
    x, v, models = start.copy(), np.zeros(len(start)), []
    for number, cohort in enumerate(cohorts):
        move = mean_move(x, clients, cohort, learning_rate, local_steps)
        if number == 0:
            m = move  # right: m = (1 - beta1) * move
        else:
            m = beta1 * m + (1 - beta1) * move
        v = beta2 * v + (1 - beta2) * m**2  # right: v = beta2 * v + (1 - beta2) * move**2
        x = x + server_lr * m / (np.sqrt(v) + tau)
        models.append(x)
    return models


def flower_885(state, clients, cohort, learning_rate, local_steps, server_lr, beta1, beta2, tau):
    """FedYogi with + for -: v becomes negative, and its root is NaN.

    https://github.com/adap/flower/pull/885
    """
    move = mean_move(state["x"], clients, cohort, learning_rate, local_steps)
    m, sign = beta1 * state["m"] + (1 - beta1) * move, np.sign(state["v"] - move**2)
    v = state["v"] + (1 - beta2) * move**2 * sign  # right: v = state["v"] - (1 - beta2) * move**2 * sign
    with np.errstate(invalid="ignore"):
        return {"x": state["x"] + server_lr * m / (np.sqrt(v) + tau), "m": m, "v": v}


def flower_fedadam(start, clients, cohorts, learning_rate, local_steps, server_lr, beta1, beta2, tau):
    """The step is corrected for the first rounds, which Reddi et al. do not do, with the exponent t + 1 in round t = 1, 2, ...

    https://github.com/adap/flower/pull/4362
    """
    x, m, v, models = start.copy(), np.zeros(len(start)), np.zeros(len(start)), []
    for t, cohort in enumerate(cohorts, start=1):
        move = mean_move(x, clients, cohort, learning_rate, local_steps)
        m = beta1 * m + (1 - beta1) * move
        v = beta2 * v + (1 - beta2) * move**2
        rate = server_lr * np.sqrt(1 - beta2 ** (t + 1)) / (1 - beta1 ** (t + 1))  # right: rate = server_lr
        x = x + rate * m / (np.sqrt(v) + tau)
        models.append(x)
    return models
