"""The methods of FedElasticNet's tables, and a short run of a preset on the bundled digits."""

from __future__ import annotations

from dataclasses import replace

from fedtheory.neural.benchmarks import presets

METHODS = ("fedprox", "algorithm-1", "scaffold", "algorithm-2", "feddyn", "algorithm-3")


def quick(method: str, table: str = "fedelasticnet-table2"):
    """The preset of a method for four rounds on the digits."""
    (preset,) = presets.of_table(table, "mnist", "dirichlet-0.3", method)
    return replace(preset.quick(digits=True), rounds=4)
