"""A round from a state in general position, in plain loops over scenarios and clients.

Three clients of two, three and five samples, two of them in each cohort, two scenarios; no parameter and no entry of
the state is 0 or 1. The loops follow the papers' pseudocode one client at a time, and share nothing with the package but
the problem's data.
"""

from __future__ import annotations

import numpy as np

from fedtheory import messages, problems
from fedtheory.clients.clients import Clients
from fedtheory.local import GradientSteps
from fedtheory.participation.cohorts import Cohort

RNG = np.random.default_rng(71)
COUNTS, N, D, S = (2, 3, 5), 3, 2, 2
A = [RNG.normal(size=(n, D)) for n in COUNTS]
B = [RNG.normal(size=n) for n in COUNTS]
RIDGE, LR, STEPS = 0.3, 0.15, 3
PROBLEM = problems.LeastSquares(A, B, ridge=RIDGE, weights="samples")
SHARE = np.array(COUNTS) / sum(COUNTS)
MEMBERS = [[0, 2], [1, 2]]
TOP = messages.TopK(k=1)


def grad(k, y):
    """grad of |A_k y - b_k|^2/(2 n_k) + ridge/2 |y|^2."""
    return A[k].T @ (A[k] @ y - B[k]) / COUNTS[k] + RIDGE * y


def soft(v, t):
    return np.sign(v) * np.maximum(np.abs(v) - t, 0)


def top(v):
    """The larger entry alone."""
    return np.where(np.abs(v) == np.abs(v).max(), v, 0.0)


def top_bits(v):
    """Two bits of the count, 64 of the entry, and its place: 0 in one bit, 1 in two; of nothing, the count alone."""
    return 2 if not v.any() else 66 + (1 if v[0] else 2)


def work(k, center, linear=0.0, curvature=0.0, l1=0.0, steps=STEPS):
    """Proximal gradient steps on f_k(y) - <linear, y> + curvature/2 |y - center|^2 + l1 |y - center|_1."""
    y = center
    for _ in range(steps):
        v = y - LR * (grad(k, y) - linear + curvature * (y - center))
        y = center + soft(v - center, LR * l1)
    return y


def in_general_position(algorithm):
    """A state of two scenarios whose entries are draws; alpha in (0, 1), debts below and above a dense model."""
    rng, start = np.random.default_rng(5), algorithm.init(np.zeros((S, D)), N)
    leaves = {}
    for name, leaf in start._asdict().items():
        if leaf is None:
            leaves[name] = None
        elif name == "missed_bits":
            leaves[name] = np.array([[31, 128, 90], [7, 40, 128]])
        elif name in ("alpha", "u"):
            leaves[name] = rng.uniform(0.2, 0.8, size=leaf.shape)
        else:
            leaves[name] = rng.normal(size=leaf.shape)
    return type(start)(**leaves)


def played(algorithm, cohort, solver=None, round_index=3, problem=PROBLEM, state=None):
    state = state or in_general_position(algorithm)
    clients = Clients(problem, cohort, solver or GradientSteps(STEPS, LR, l1="prox"), state.x, round_index=round_index)
    return state, algorithm.round(state, clients), clients


def agree(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-13)


def compare(algorithm, reference, layout, sent=True, **how):
    """Every leaf of the new state, every message, and the bits of both ways, scenario by scenario.

    ``reference(state, members)`` takes one scenario's state and gives (fields that change, one list of messages a client, bits up,
    bits down); per-client fields that it gives are dictionaries of the rows that change.
    """
    cohort = Cohort(N, members=np.array(MEMBERS))
    state, new, clients = played(algorithm, cohort if layout == "gathered" else cohort.dense(), **how)
    assert type(new) is type(state)
    rows = []
    for s, members in enumerate(MEMBERS):
        old = {name: None if leaf is None else leaf[s] for name, leaf in state._asdict().items()}
        after, *messages_and_bits = reference(old, members)
        rows.append(messages_and_bits)
        for name, leaf in new._asdict().items():
            wanted = after.get(name, old[name])
            if isinstance(wanted, dict):
                wanted = np.array([wanted.get(k, row) for k, row in enumerate(old[name])])
            if leaf is None:
                assert wanted is None
            else:
                agree(leaf[s], wanted)
    got, lists = clients.sent_numpy(), [per_client for row in rows for per_client in row[0]]
    assert len(got) == len(lists[0])
    for i, message in enumerate(got):
        agree(message, [per_client[i] for per_client in lists])
    up, down = clients.client_bits()
    for s, members in enumerate(MEMBERS):
        np.testing.assert_array_equal(up[s, members], rows[s][1])
        np.testing.assert_array_equal(down[s, members], rows[s][2])
    return new


def averaged(aggregation, members, updates):
    w = SHARE[members] if aggregation != "cohort" else np.full(len(members), 1 / len(members))
    return (w / w.sum() if aggregation == "samples" else w) @ np.array(updates)
