"""SCAFFOLD as public repositories had it.

As printed, with option II: y <- y - eta (g_k(y) - c_k + c), K times; c_k+ = c_k - c + (x - y)/(K eta);
x <- x + eta_g mean of (y - x); c <- c + 1/N sum over the cohort of (c_k+ - c_k).
"""

import numpy as np

from examples.ports import with_lines

__all__ = [
    "fedbiomed_734", "fl4health_64", "ki_ljl_1", "niid_bench_8", "niid_bench_12",
    "pfl_research", "pfllib_160", "plato_382", "plato_386", "plato_after_386", "scaffold_pytorch_1",
]  # fmt: skip


def scaffold(state, clients, cohort, learning_rate, local_steps, server_lr=1.0):
    """A round as printed."""
    x, c, c_k = state["x"], state["c"], state["c_k"].copy()
    moves, changes = [], []
    for k in cohort:
        y = x.copy()
        for _ in range(local_steps):
            correction = c - c_k[k]
            y = y - learning_rate * (clients[k].gradient(y) + correction)
        divisor = local_steps * learning_rate
        new = c_k[k] - c + (x - y) / divisor
        moves.append(y - x)
        changes.append(new - c_k[k])
        c_k[k] = new
    c = c + np.sum(changes, axis=0) / len(clients)
    return {"x": x + server_lr * np.mean(moves, axis=0), "c": c, "c_k": c_k}


# its lines that somebody has otherwise
CORRECTION, CHANGE = "correction = c - c_k[k]", "changes.append(new - c_k[k])"
DIVISOR, CONTROL = "divisor = local_steps * learning_rate", "new = c_k[k] - c + (x - y) / divisor"
SERVER = "c = c + np.sum(changes, axis=0) / len(clients)"


@with_lines(scaffold, {CORRECTION: "correction = c_k[k] - c"})
def fedbiomed_734():
    """The correction is added where it has to be subtracted.

    https://github.com/fedbiomed/fedbiomed/issues/734
    """


@with_lines(scaffold, {DIVISOR: "divisor = local_steps * clients[k].num_examples * learning_rate"})
def fl4health_64():
    """Of the steps that are divided out each is counted once an example, not once a batch.

    https://github.com/VectorInstitute/FL4Health/pull/64
    """


@with_lines(scaffold, {DIVISOR: "epochs = 1\ndivisor = epochs * learning_rate"})
def ki_ljl_1():
    """The divisor is epochs times eta; the batches are left out. Here local_steps are the batches of one epoch.

    https://github.com/ki-ljl/Scaffold-Federated-Learning/issues/1
    """


@with_lines(scaffold, {SERVER: "c = c + np.sum(changes, axis=0) / len(cohort)"})
def niid_bench_12():
    """The changes of the control variates are divided by the cohort's size, not by the number of all clients.

    https://github.com/Xtra-Computing/NIID-Bench/issues/12
    """


@with_lines(scaffold, {DIVISOR: "batches = 1\ndivisor = batches * learning_rate"})
def pfllib_160():
    """The divisor is batches times eta; the epochs are left out. Here an epoch is one batch, and local_steps are epochs.

    https://github.com/TsingZ0/PFLlib/issues/160
    """


@with_lines(scaffold, {CHANGE: "changes.append(new)"})
def plato_382():
    """A client sends its whole new control variate, where the server adds up changes.

    https://github.com/TL-System/plato/issues/382
    """


@with_lines(scaffold, {DIVISOR: "divisor = local_steps", CHANGE: "changes.append(new)"})
def plato_386():
    """As in `plato_382`, and the divisor is the number of epochs, without the learning rate. Here an epoch is one step.

    https://github.com/TL-System/plato/pull/386
    """


@with_lines(scaffold, {CHANGE: "c_k[k] = new\nchanges.append(new - c_k[k])"})
def scaffold_pytorch_1():
    """The client's control variate is replaced before its change is worked out: the change is 0 for ever.

    https://github.com/KarhouTam/SCAFFOLD-PyTorch/issues/1
    """


@with_lines(scaffold, {CORRECTION: "correction = c_k[k] - c", CONTROL: "new = c + (x - y) / divisor"})
def plato_after_386():
    """The correction has the other sign, and the new control variate has + c where c_k - c should be.

    https://github.com/TL-System/plato/pull/386
    """


@with_lines(scaffold, {CONTROL: "new = c_k[k] - c + (y - x) / divisor"})
def pfl_research():
    """The difference of the models is taken as y - x, where the control variate needs x - y.

    https://github.com/apple/pfl-research
    """


def niid_bench_8(start, clients, cohorts, learning_rate, local_steps, server_lr=1.0):
    """All control variates begin as the weights of one freshly initialised network.

    Their mean is c in every round; a client that takes part for the first time brings its random start in.

    https://github.com/Xtra-Computing/NIID-Bench/issues/8
    """
    x, models = start.copy(), []
    c = np.random.default_rng(8).normal(size=len(x))  # right: c = np.zeros_like(x)
    c_k = np.tile(c, (len(clients), 1))
    for cohort in cohorts:
        moves, changes = [], []
        for k in cohort:
            y = x.copy()
            for _ in range(local_steps):
                y = y - learning_rate * (clients[k].gradient(y) - c_k[k] + c)
            new = c_k[k] - c + (x - y) / (local_steps * learning_rate)
            moves.append(y - x)
            changes.append(new - c_k[k])
            c_k[k] = new
        x, c = x + server_lr * np.mean(moves, axis=0), c + np.sum(changes, axis=0) / len(clients)
        models.append(x)
    return models
