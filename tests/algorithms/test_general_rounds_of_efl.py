"""Rounds of EFL from states in general position against plain loops: schemes, variants, who is there, and what is counted."""

from __future__ import annotations

import numpy as np
import pytest
from cases import each
from general_round import (
    COUNTS,
    LR,
    RIDGE,
    SHARE,
    STEPS,
    TOP,
    A,
    B,
    N,
    S,
    agree,
    compare,
    grad,
    played,
    top,
    top_bits,
    work,
)

from fedtheory import algorithms, problems
from fedtheory.local import LocalSGD
from fedtheory.participation.cohorts import Cohort

# --- EFL ------------------------------------------------------------------------------------------
STEPS_DONE = np.array([[3, 0, 2], [0, 1, 3]])
ACTIVE = np.array([0.9, 0.5, 0.8])


def efl_scheme(scheme, share, done, here):
    """p_tau^k of one scenario, from section 3.2 of the EFL paper."""
    p, complete = share * here, [k for k in range(N) if done[k] == STEPS]
    if scheme == "A":
        return np.array([here.sum() * p[k] / len(complete) if k in complete else 0.0 for k in range(N)])
    if scheme == "B":
        return p
    counts = [STEPS * p[k] / done[k] if done[k] else 0.0 for k in range(N)]
    return np.array(counts) / (ACTIVE if scheme == "C-corrected" else 1)


EFL_CASES = [
    {},
    {"scheme": "A"},
    {"scheme": "B"},
    {"scheme": "C-corrected"},
    {"lam": 0.2},
    {"lam": 0.2, "scheme": "A", "fisher": "empirical"},
    {"lam": 0.2, "t": 1},
    {"lam": 0.2, "t": 2},
    {"lam": 0.2, "gone": 2},
    {"up": True, "gone": 2, "scheme": "A"},
    {"gone": 2, "share": (0.4, 0.6, 0.0)},
    {"lam": 0.2, "gone": 2, "departed": "stale"},
    {"up": True},
    {"up": True, "scheme": "A", "lam": 0.2},
    {"up": True, "scheme": "A", "scale": "after"},
    {"up": True, "client_feedback": False, "scale": "after"},
    {"down": True},
    {"down": True, "server_feedback": False},
    {"up": True, "down": True, "lam": 0.2},
    {"variant": "none"},
    *({"variant": v, "up": True, "down": True, "lam": 0.2} for v in ("literal", "text", "text-received")),
    {"variant": "literal", "up": True, "client_feedback": False},
    {"variant": "literal", "down": True},
    {"variant": "literal", "up": True, "scheme": "A"},
    {"variant": "text", "up": True, "scale": "before", "scheme": "B"},
]


@each("case", EFL_CASES)
def test_efl(case):
    case = dict(case)
    up, down, gone, t = case.pop("up", False), case.pop("down", False), case.pop("gone", None), case.pop("t", 3)
    share = np.array(case.pop("share", SHARE))
    algorithm = algorithms.EFL(compressor=TOP if up else None, down_compressor=TOP if down else None, **case)
    here, done = np.ones(N, dtype=bool), STEPS_DONE.copy()
    if gone is not None:
        here[gone], done[:, gone] = False, 0
    cohort = Cohort(N, mask=done > 0, steps=done, max_steps=STEPS, active_probability=ACTIVE, present=here)
    problem = problems.LeastSquares(A, B, ridge=RIDGE, weights=share)
    state, new, clients = played(algorithm, cohort, LocalSGD(STEPS, LR), t, problem)
    variant, lam = algorithm.variant, algorithm.lam
    first = algorithm.scale == "before" or (algorithm.scale is None and variant in ("consistent", "none"))
    for s in range(S):
        old = {name: None if leaf is None else leaf[s] for name, leaf in state._asdict().items()}
        now = {name: None if leaf is None else leaf[s] for name, leaf in new._asdict().items()}
        assert [name for name in old if old[name] is None] == [name for name in now if now[name] is None]
        p = efl_scheme(algorithm.scheme, share, done[s], here)
        start = old["x"] if old["held"] is None else old["held"]
        keep = here | (algorithm.departed == "stale")
        U, V = (old["u"][keep].sum(axis=0), old["v"][keep].sum(axis=0)) if lam else (0.0, 0.0)
        total, expected_up = 0.0, np.zeros(N, dtype=int)
        for k in range(N):
            left = None if old["residuals"] is None else old["residuals"][k]
            pair = (old["u"][k] * keep[k], old["v"][k] * keep[k]) if lam else None
            if p[k] > 0 and done[s, k]:
                y = start
                for _ in range(done[s, k]):
                    y = y - LR * (grad(k, y) + lam * (U * y - V))
                wanted = (p[k] / share[k] if first else 1.0) * (y - start) + (0.0 if left is None else left)
                message = top(wanted) if up else wanted
                left = None if left is None else wanted - message
                used = wanted if variant == "literal" else message
                total = total + (share[k] if first else p[k]) * used
                expected_up[k] += top_bits(used) if up and variant != "literal" else 128
                if lam:
                    weight = (A[k] @ y - B[k]) ** 2 if algorithm.fisher == "empirical" else 1.0
                    u = (np.reshape(weight, (-1, 1)) * A[k] ** 2).sum(axis=0) / COUNTS[k]
                    pair = (u, u * y)
                    expected_up[k] += 256
            if left is not None:
                agree(now["residuals"][k], left)
            if lam:
                agree(now["u"][k], pair[0])
                agree(now["v"][k], pair[1])
        wanted = total if old["server_residual"] is None else total + old["server_residual"]
        message = top(wanted) if down else wanted
        agree(now["x"], old["x"] + (message if variant == "consistent" else wanted))
        if now["server_residual"] is not None:
            agree(now["server_residual"], wanted - message)
        if variant == "text-received":
            agree(now["held"], old["held"] + message)
        price = np.full(N, 128) if old["missed_bits"] is None else old["missed_bits"]
        price = price + (256 if lam and t > 1 else 0) + (64 if up and first and algorithm.scheme == "A" else 0)
        np.testing.assert_array_equal(clients.bits_down[s], np.where(done[s] > 0, price, 0))
        np.testing.assert_array_equal(clients.bits_up[s], expected_up)
        if old["missed_bits"] is not None:
            owed = np.minimum(np.where(done[s] > 0, 0, old["missed_bits"]) + top_bits(message), 128)
            np.testing.assert_array_equal(now["missed_bits"], owed)


@pytest.mark.parametrize("scheme", ["A", "B", "C"])
@pytest.mark.parametrize("compressor", [None, TOP])
def test_efl_where_participants_are_complete(layout, scheme, compressor):
    """Cohorts that know nothing of local steps: the coefficients are N p^k/2, p^k and p^k, and everybody sends."""

    def reference(old, members):
        sent, total, left = [], 0.0, {}
        for k in members:
            factor = N / 2 if scheme == "A" else 1.0
            wanted = factor * (work(k, old["x"]) - old["x"]) + (0.0 if compressor is None else old["residuals"][k])
            sent.append([wanted if compressor is None else top(wanted)])
            left[k] = wanted - sent[-1][0]
            total = total + SHARE[k] * sent[-1][0]
        after = {"x": old["x"] + total} | ({} if compressor is None else {"residuals": left})
        down = 128 + (64 if compressor is not None and scheme == "A" else 0)
        return after, sent, [128 if compressor is None else top_bits(m[0]) for m in sent], [down, down]

    compare(algorithms.EFL(scheme=scheme, compressor=compressor), reference, layout)
