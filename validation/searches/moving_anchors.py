"""EFL's Theorem 1 as repaired with the anchors that Algorithm 1 moves, on random complete clients
without noise, in floats.

    python validation/searches/moving_anchors.py [--seed N] [--batches N] [--own-mu]

One coordinate, up to three clients, 30 local steps and 2,000 rounds, 4,000 runs a batch. mu is that
of the F~_k, with --own-mu that of the f_k, which Assumption 2 allows as well. Prints the largest
ratio of the squared distance to the bound: above 1 with the first, below 1 with the second.
"""

from __future__ import annotations

import argparse

import numpy as np

RUNS = 4000


def worst_ratio(rng: np.random.Generator, clients: int, E: int, rounds: int, own_mu: bool) -> float:
    """The largest squared distance over the bound, of one batch of runs and every fifth round."""
    p = rng.dirichlet(np.ones(clients), RUNS)
    h = 10 ** rng.uniform(0, rng.choice([0, 1, 2]), (RUNS, clients))
    c = rng.normal(size=(RUNS, clients)) * 10 ** rng.uniform(-3, 1, (RUNS, 1))
    shares = rng.dirichlet(np.full(clients, rng.choice([0.2, 1, 5])), RUNS)
    u = shares * 10 ** rng.uniform(-2, 4, (RUNS, 1))  # lambda u
    w = rng.normal(size=RUNS) * 10 ** rng.uniform(-1, 2, RUNS)
    U, star = u.sum(axis=1), (p * h * c).sum(axis=1) / (p * h).sum(axis=1)
    L, mu, pull = h.max(axis=1) + U, h.min(axis=1) + (0 if own_mu else U), h + U[:, None]
    gamma, start, V = np.maximum(4 * E, 64 * L / mu), (w - star) ** 2, U * w
    G_sq, D, worst = np.zeros(RUNS), np.zeros((RUNS, clients)), 0.0
    for t in range(rounds):
        y_next = (t + 1) * E + gamma
        eta = 16 / (mu * y_next)[:, None]
        D = np.maximum(D, (pull * star[:, None] - h * c - V[:, None]) ** 2 / (2 * pull))
        y = np.repeat(w[:, None], clients, axis=1)
        for _ in range(E):
            g = pull * y - h * c - V[:, None]
            G_sq, y = np.maximum(G_sq, (g**2).max(axis=1)), y - eta * g
        w, V = (p * y).sum(axis=1), (u * y).sum(axis=1)
        if t % 5 == 4 or t == rounds - 1:
            B = 6 * L * E * (p * D).sum(axis=1) + ((2 + mu / (4 * L)) * (E - 1) + 2) * E**2 * G_sq
            bound = (gamma**2 * start + (16 / mu) ** 2 * (t + 1) * B) / y_next**2
            worst = max(worst, float(((w - star) ** 2 / bound).max()))
    return worst


def main() -> None:
    """Draw batches, and print the largest ratio of them all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--own-mu", action="store_true")
    given = parser.parse_args()
    rng, worst = np.random.default_rng(given.seed), 0.0
    for _ in range(given.batches):
        clients, E = int(rng.integers(1, 4)), int(rng.choice([1, 2, 3, 5, 10, 30]))
        rounds = int(rng.choice([r for r in (20, 100, 500, 2000) if r * E <= 6000]))
        worst = max(worst, worst_ratio(rng, clients, E, rounds, given.own_mu))
    print(f"{given.batches * RUNS:,} runs: the largest squared distance is {worst:.3g} times the bound")


if __name__ == "__main__":
    main()
