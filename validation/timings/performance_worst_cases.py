"""Speed of worst cases: two blocks for exchangeable clients, beside PEPit.

In PEPit every client is a function of its own.

    python validation/timings/performance_worst_cases.py

``worst_case_rows()`` gives the same figures to performance.py. Both have the same instance, FedAvg
with two rounds of two local steps, and the same solver; ours includes the proof in fractions. Their
values are compared before they are timed, repetitions alternate, and the best of each counts.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from rows import Figure
from threadpoolctl import threadpool_limits

from fedtheory.theorems.one_round import best_kappas
from fedtheory.worst_cases import certificate, verify, worst_case

__all__ = ["Figure", "worst_case_rows"]

ROUNDS, STEPS, STEP = 2, 2, Fraction(1, 2)
CLIENTS, MANY = (2, 4, 8), 100
COHORT = 4  # of the potentials
AGREE = 1e-6  # relative, of two solutions by an interior-point solver


def with_pepit(clients: int) -> float:
    """The largest F(x_T) - F* of FedAvg, from ||x_0 - x*|| <= 1 and mean ||grad f_k(x*)||^2 <= 1,
    by PEPit."""
    from PEPit import PEP
    from PEPit.functions import SmoothStronglyConvexFunction

    pep = PEP()
    losses = [pep.declare_function(SmoothStronglyConvexFunction, L=1, mu=0) for _ in range(clients)]
    mean = sum(losses[1:], losses[0]) / clients
    star, x = mean.stationary_point(), pep.set_initial_point()
    pep.set_initial_condition((x - star) ** 2 <= 1)
    pep.add_constraint(sum(f.gradient(star) ** 2 for f in losses) / clients <= 1)
    for _ in range(ROUNDS):
        ends = []
        for f in losses:
            y = x
            for _ in range(STEPS):
                y = y - float(STEP) * f.gradient(y)
            ends.append(y)
        x = sum(ends[1:], ends[0]) / clients
    pep.set_performance_metric(mean(x) - mean(star))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an inaccurate solution: the values are compared
        return float(pep.solve(verbose=0, solver="CLARABEL"))


def ours() -> Any:
    """The same for any number of clients, with its proof."""
    found = worst_case("fedavg", rounds=ROUNDS, local_steps=STEPS, step=STEP)
    verify(certificate(found))
    return found


def _clock(work: Callable[[], Any]) -> np.ndarray:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return np.array([time.perf_counter() - wall, time.process_time() - cpu])


def worst_case_rows(repeats: int = 3) -> list[Figure]:
    """All figures of this file."""
    with threadpool_limits(1):
        value = ours().best
        apart = max(abs(with_pepit(n) / value - 1) for n in CLIENTS[:2])
        if not apart < AGREE:
            raise SystemExit(f"PEPit and the two blocks disagree by {apart:.3g}: the ratios would mean nothing")
        own, other = np.full(2, np.inf), {n: np.full(2, np.inf) for n in CLIENTS}
        potentials = {n: np.inf for n in (CLIENTS[-1], MANY)}
        for _ in range(repeats):
            own = np.minimum(own, _clock(ours))
            for n, best in potentials.items():
                potentials[n] = min(best, _clock(lambda n=n: best_kappas(1, n, COHORT))[0])
            for n in CLIENTS:
                other[n] = np.minimum(other[n], _clock(lambda n=n: with_pepit(n)))
    out = [
        Figure("worst case, any N", 1e3 * own[0], "ms", note=f"FedAvg, K=T={STEPS}, with the proof and its check"),
        *(Figure(f"PEPit, N = {n}", 1e3 * other[n][0], "ms", note="the same instance and solver, no proof") for n in CLIENTS),
    ]
    for n in CLIENTS:
        target = ">= 10" if n == CLIENTS[-1] else ""
        out.append(Figure(f"two blocks against PEPit, N = {n}", other[n][0] / own[0], "x", target, "wall time"))
        out.append(Figure(f"two blocks against PEPit, N = {n}", other[n][1] / own[1], "x", target, "CPU time"))
    for n, best in potentials.items():
        note = f"P = {COHORT}, lambda_2 = beta, with the proof"
        out.append(Figure(f"FedDyn's potential, N = {n:,}", 1e3 * best, "ms", note=note))
    return [*out, Figure("PEPit and the two blocks differ by", apart, "", note="relative")]


if __name__ == "__main__":
    for row in worst_case_rows():
        print(f"{row.name:42s} {row.value:10.4g} {row.unit:3s} {row.target:5s} {row.note}")
