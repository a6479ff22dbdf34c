"""A specification of a sweep of eight cells, and the rows of what a sweep wrote."""

from __future__ import annotations

import csv

SPEC = """
target = 1e-3
[all]
problem = "quadratic"
rounds = 30
participants = 2
seed = [0, 1]
[[run]]
method = "feddyn"
alpha = [0.5, 2]
[[run]]
method = "fedavg"
local-solver = "gradient"
local_lr = [0.05, 5e3]
"""


def rows(folder):
    with open(folder / "sweep.csv", newline="") as file:
        return list(csv.DictReader(file))
