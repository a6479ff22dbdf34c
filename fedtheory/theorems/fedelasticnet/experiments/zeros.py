"""When the entries of the messages become zero: the data of the figure `nonzeros_and_entropy`, as counts a round."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.plotting.experiment import Table, number
from fedtheory.theorems.fedelasticnet.figures import traffic

__all__ = ["compute", "draw", "finding", "table"]

compute, draw = traffic.compute, traffic.draw


def _halved(nonzeros: np.ndarray, size: int) -> str:
    """The first round in which a message has at most half its entries, for good."""
    above = np.nonzero(nonzeros[1:] > size / 2)[0]
    if len(above) == 0:
        return "1"
    return "never" if above[-1] + 2 >= len(nonzeros) else str(above[-1] + 2)


def _sizes(data: dict[str, Any], name: str) -> int:
    """Entries of what a client sends: SCAFFOLD and its elastic net version send two messages."""
    return data["dim"] * (2 if name in traffic.METHODS["SCAFFOLD"] else 1)


def table(data: dict[str, Any]) -> Table:
    rounds = [t for t in (1, 2, 5, 10, 20, 50, 100, 300) if t <= data["rounds"]]
    rows = []
    for name, curve in data["curves"].items():
        nonzeros = np.asarray(curve["nonzeros"]["middle"])
        counts = [number(nonzeros[t]) for t in rounds]
        rows.append((name, str(_sizes(data, name)), *counts, _halved(nonzeros, _sizes(data, name))))
    headings = ("method", "entries", *(f"round {t}" for t in rounds), "at most half from round")
    return Table(headings, rows, f"nonzeros a client and round, cohort's mean, median of the runs; lambda_1 = {data['lambda1']:g}")


def finding(data: dict[str, Any]) -> list[str]:
    sign, true = ({k: np.asarray(data["curves"][name][k]["middle"]) for k in ("nonzeros", "suboptimality")}
                  for name in (traffic.SIGN, traffic.TRUE))  # fmt: skip
    silent = np.nonzero(sign["nonzeros"][1:] < 1)[0]
    when = f"below one entry a message from round {silent[0] + 1}" if len(silent) else "never below one entry a message"
    return [
        f"Under the sign rule the messages thin out as gradients fall below lambda_1: {when}. The run ends at "
        f"F - F* = {number(sign['suboptimality'][-1])}.",
        f"Under the true-gradient rule it ends at {number(true['suboptimality'][-1])}, with {number(true['nonzeros'][-1])} of "
        f"{data['dim']} entries in the last round.",
    ]
