"""Problems of the package for a class of problems of a statement, checked in floats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["identical", "in_floats"]


def identical(problem: Any) -> bool:
    """True if all clients' losses have one gradient, up to rounding, at three points."""
    x = np.random.default_rng(3).standard_normal((3, problem.dim)) * np.array([[0.1], [1.0], [10.0]])
    gradients = problem.gradient(x)
    return bool(np.abs(gradients - gradients[:, :1]).max() <= 1e-9 * np.abs(gradients).max())


def _shape(rng: np.random.Generator, cls: Any) -> dict[str, int]:
    n = int(rng.integers(cls.clients[0], cls.clients[1] + 1))
    return {"num_clients": n, "dim": int(rng.integers(cls.dimension[0], cls.dimension[1] + 1))}


def in_floats(
    cls: Any, rng: np.random.Generator, numbers: range, kinds: tuple[str, ...], ridge: float = 0.0
) -> Iterator[tuple[str, Any]]:
    """(name, problem) with certified optima, one a number, of the kinds in turn."""
    from fedtheory import problems

    for i in numbers:
        kind, shape, seed = kinds[i % len(kinds)], _shape(rng, cls), int(rng.integers(2**31))
        n, d = shape["num_clients"], shape["dim"]
        spread = float(rng.choice([0.3, 1.0, 3.0])) if n > 1 and not cls.identical else 0.0
        raw = rng.integers(1, 9, n)
        how: dict[str, Any] = {
            "heterogeneity": spread,
            "seed": seed,
            "condition": 1.0 if d == 1 else float(rng.choice([3.0, 30.0])),
        }
        samples: Any = [int(v) + d + 4 for v in raw] if cls.weights != "equal" else d + 8
        how["weights"] = (
            "samples" if cls.weights != "equal" else "uniform"
        )  # a client's weight is its share of the samples
        if cls.identical and n > 1 and kind != "quadratic":
            kind = "quadratic"
        if kind == "quadratic":
            counts = raw.astype(float) if cls.weights != "equal" else np.ones(n)
            made: Any = problems.random_quadratic(
                **shape, **how | {"weights": counts / counts.sum()}, shared_hessian=cls.identical
            )
            made.sample_counts = counts
        elif kind == "least squares":
            made = problems.random_least_squares(**shape, **how, samples=samples, ridge=ridge)
        elif kind == "huber":
            made = problems.random_huber(**shape, **how, samples=samples, delta=0.5)
        else:
            made = problems.random_logistic(**shape, **how, samples=samples, ridge=ridge or 0.05)
        yield f"{kind} N={n} d={d} spread={spread:g} seed={seed}", made
