"""The small problems and runs that an implementation is held to."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fedtheory.testing.audit.clients import Client, Loss

__all__ = ["COME_AND_GO", "DIM", "FOUR_OR_MORE", "clients_of", "everybody", "optimum", "start_of"]

DIM = 4
SIZES = (5, 11, 7, 14, 8)
COME_AND_GO = ((1, 3), (4, 0), (3, 2), (0, 1), (4, 2), (3, 1), (2, 0))  # cohorts, on purpose not in order
FOUR_OR_MORE = ((1, 3), (2, 0), (3, 2), (0, 1))  # of clients that four have, too


@lru_cache(maxsize=32)
def clients_of(loss: Loss, seed: int, equal: bool = False, shared_optimum: bool = False) -> tuple[Client, ...]:
    """Five clients that differ, in sizes too unless ``equal``; with ``shared_optimum`` all losses
    are least at the same point."""
    g = np.random.default_rng((seed, 20))
    point = start_of(seed)
    made = []
    for size in (8,) * len(SIZES) if equal else SIZES:
        spread = g.uniform(0.5, 1.4, DIM)
        features = g.normal(size=(size, DIM)) * spread
        if loss == "squared":
            own = point if shared_optimum else g.normal(size=DIM)
            labels = features @ own + (0 if shared_optimum else 0.3) * g.normal(size=size)
        else:
            labels = np.where(features @ g.normal(size=DIM) + 0.5 * g.normal(size=size) > 0, 1.0, -1.0)
        made.append(Client(features, labels, loss, 0.1 if loss == "logistic" else 0.0))
    return tuple(made)


def start_of(seed: int) -> np.ndarray:
    """A first server model (d,) that is not 0."""
    return np.random.default_rng((seed, 21)).normal(size=DIM)


def everybody(rounds: int = 1) -> tuple[tuple[int, ...], ...]:
    """Cohorts of all five clients."""
    return (tuple(range(len(SIZES))),) * rounds


@lru_cache(maxsize=32)
def optimum(clients: tuple[Client, ...], weighting: str) -> tuple[np.ndarray, float]:
    """The certified minimiser (d,) of the clients' mean loss, and how far from the true one it can lie at most."""
    from fedtheory.problems import LeastSquares, Logistic

    kind = LeastSquares if clients[0].loss == "squared" else Logistic
    weights = "uniform" if weighting == "uniform" else "samples"
    problem = kind([c.features for c in clients], [c.labels for c in clients], ridge=clients[0].ridge, weights=weights)
    found = problem.optimum()
    curvature = clients[0].ridge
    if kind is LeastSquares:
        share = (
            np.array([c.num_examples for c in clients], dtype=float) if weights == "samples" else np.ones(len(clients))
        )
        hessian = sum(w * c.curvature(found.x) for w, c in zip(share / share.sum(), clients, strict=True))
        curvature = float(np.linalg.eigvalsh(hessian)[0])
    return np.asarray(found.x, dtype=float), float(found.kkt_residual) / curvature
