"""Entropies of FedElasticNet's Tables 3 and 4, message by message, of runs today and before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedtheory.neural.benchmarks.result import Result

__all__ = ["ENTROPIES", "TWO_MESSAGES", "WITH_ENTROPY", "each_message", "entropies", "in_todays_names"]

ENTROPIES = ("entropy", "entropy_1", "entropy_2", "entropy_pooled", "update_entropy")
WITH_ENTROPY = ("fedelasticnet-table3", "fedelasticnet-table4")
TWO_MESSAGES = ("scaffold", "algorithm-2")  # of these tables: a model or an update, and a control variate's change
_SEVERAL = (*TWO_MESSAGES, "elastic", "efl")  # of all papers' tables


def entropies(result: Result) -> dict[str, float | None]:
    """Each entropy's sum over the rounds; None where it was not kept."""
    return {name: float(result.series(name).sum()) if name in result.metrics else None for name in ENTROPIES}


def each_message(sums: Mapping[str, float | None]) -> str:
    """'73.41 = 73.4 + 0.01': the sum of two messages' entropies and each one's own; '?' for what was not kept."""
    total, first, second = (_bits(sums[name]) for name in ENTROPIES[:3])
    return f"{first} + {second}" if total == "?" else f"{total} = {first} + {second}"


def _bits(value: float | None) -> str:
    return "?" if value is None else f"{value:.4g}" if value >= 1 else f"{value:.2g}"


def in_todays_names(metrics: Mapping[str, Any], method: str) -> dict[str, Any]:
    """The metrics of a run, whenever it was made.

    'entropy' once was that of all messages in one histogram, which is 'entropy_pooled' today. What
    was not kept is left out: where a client sends several messages, their sum and each one's own.
    But Algorithm 2's first message is its update, whose entropy was kept; that entries below
    epsilon are not sent does not change it, for they are in the bin of 0 either way.
    """
    if "entropy" not in metrics or "entropy_pooled" in metrics:
        return dict(metrics)
    found = {name: values for name, values in metrics.items() if name != "entropy"} | {"entropy_pooled": metrics["entropy"]}
    if method not in _SEVERAL:
        found |= {name: metrics["entropy"] for name in ("entropy", "entropy_1")} | {"entropy_2": 0 * np.asarray(metrics["entropy"])}
    elif method == "algorithm-2":
        found["entropy_1"] = metrics["update_entropy"]
    return found
