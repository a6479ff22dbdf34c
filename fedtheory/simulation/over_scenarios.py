"""Summaries of many scenarios: their mean, its standard error, and where they are."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["MOST", "WORDS", "over_scenarios", "too_many"]

MOST = 100_000  # numbers of a run that are written one by one
QUANTILES = {"quantile_0.1": 0.1, "median": 0.5, "quantile_0.9": 0.9}
WORDS = "mean, standard error of the mean, least, largest, median, and 10 % and 90 % quantiles over the scenarios"
_AT_ONCE = 2**20  # numbers that are sorted together


def over_scenarios(values: np.ndarray) -> dict[str, Any]:
    """Of (rows, scenarios), for each row: `WORDS`; and how many scenarios there are. The standard error of one is NaN."""
    rows, scenarios = values.shape
    names = ("mean", "standard_error", "least", *QUANTILES, "largest")
    found = {name: np.empty(rows) for name in names}
    step = max(1, _AT_ONCE // max(scenarios, 1))
    for i in range(0, rows, step):
        part, at = values[i : i + step], slice(i, i + step)
        found["mean"][at], found["least"][at], found["largest"][at] = part.mean(axis=1), part.min(axis=1), part.max(axis=1)
        found["standard_error"][at] = part.std(axis=1, ddof=1) / scenarios**0.5 if scenarios > 1 else np.nan
        for name, row in zip(QUANTILES, np.quantile(part, list(QUANTILES.values()), axis=1), strict=True):
            found[name][at] = row
    return {"scenarios": scenarios, **found}


def too_many(scenarios: int, *tables: np.ndarray) -> bool:
    """True if so many numbers are told by `over_scenarios`; those of a few scenarios are not, as that says hardly less."""
    return scenarios > 10 and sum(table.size for table in tables) > MOST
