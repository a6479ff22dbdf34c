"""Products of expectations by Monte Carlo: scenarios two by two, each of which gives the other's factor.

<E a, E b> is no mean of anything that one scenario shows. Of two independent scenarios that are alike,
<a, b'> has that mean. So every two scenarios together are one sample of a bound that multiplies
expectations, and those samples are independent, as Student's t asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fedtheory.theorems.fedelasticnet.quantities import RunView, inner

__all__ = ["RANDOM", "crossed", "with_pairs"]

RANDOM = ("excess", "inner_exact", "inner_sign", "inner_own_sign", "zeros")  # of a run's view, a column a scenario


def crossed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of the scenarios (0, 1), (2, 3), ... the mean of <a, b'> and <a', b>: (S, d), (S, d) -> (S // 2,).

    A last scenario without another one is left out.
    """
    n = len(a) // 2 * 2
    return (inner(a[0:n:2], b[1:n:2]) + inner(a[1:n:2], b[0:n:2])) / 2


def with_pairs(view: RunView, products: Mapping[str, np.ndarray]) -> RunView:
    """A view of scenarios with ``pairs``: its means over every two of them, and the products (K, S // 2) by field."""

    def mean(values: np.ndarray) -> np.ndarray:
        n = values.shape[1] // 2 * 2
        return (values[:, 0:n:2] + values[:, 1:n:2]) / 2

    changed: dict[str, Any] = {**{name: mean(getattr(view, name)) for name in RANDOM}, **products}
    return replace(view, pairs=replace(view, **changed))
