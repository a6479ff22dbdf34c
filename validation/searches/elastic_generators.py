"""The share of instances in which Elastic Aggregation ends farther from the optimum than FedAvg.

The share depends on the generator, and most on what the sensitivities have to do with the
curvatures. Run it with `python validation/searches/elastic_generators.py`:
docs/elastic_aggregation.md has what it prints.
"""

from __future__ import annotations

import numpy as np

from fedtheory.randomness import Stream
from paper_figures.elastic_aggregation import sampled_fixed_point as figures

INSTANCES, STEPS, SIZES = 300, 10, range(1, figures.CLIENTS)


def farther(h: np.ndarray, s: np.ndarray, c: np.ndarray, P: int) -> tuple[float, float]:
    """(share that ends farther, share whose zero was found) of cohorts of P.

    h, s, c (I, N, d): curvatures, sensitivities over 2 |theta|, and minimisers.
    """
    m = 1 - (1 - 0.5 * h) ** STEPS
    star, naive = ((a * c).sum(axis=1) / a.sum(axis=1) for a in (h, m))
    theta, _ = figures.mean_field_zero(s, m, c, P, figures.TAU, 400)
    found = np.abs(figures._motion(s, m, c, P, figures.TAU, theta)).max(axis=1) < 1e-8
    ours, theirs = (np.linalg.norm(x - star, axis=1)[found] for x in (theta, naive))
    return float((ours > theirs + 1e-9).mean()), float(found.mean())


def main() -> None:
    """Print a row a generator."""
    rng = Stream(0).generator("figure elastic aggregation")
    h, c = figures._instances(rng, INSTANCES, 2.0)
    other, _ = figures._instances(rng, INSTANCES, 2.0)
    wide = 10.0 ** rng.uniform(-2, 0, h.shape)
    centred = rng.normal(size=c.shape)
    rows = {
        "the figure's": (h, h, c),
        "minimisers normal around 0": (h, h, centred),
        "log curvatures uniform over two decades": (wide, wide, c),
        "sensitivities drawn independently of the curvatures": (h, other, c),
        "sensitivities 1/h": (h, 1 / h, c),
    }
    for name, drawn in rows.items():
        found = [farther(*drawn, P) for P in SIZES]
        shares = ", ".join(f"{share:.0%}" for share, _ in found)
        print(f"{name}: {shares}; zeros found on {min(n for _, n in found):.0%}")


if __name__ == "__main__":
    main()
