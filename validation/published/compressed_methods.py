"""Bits that drift-robust methods with a compressor send until they are as close as asked, beside
FedElasticNet's l1 term.

    python validation/published/compressed_methods.py              # the Markdown of docs/fedelasticnet_algorithm_2.md
    python validation/published/compressed_methods.py --rounds 50  # shorter runs

scikit-learn's digits, even or odd: logistic regression with a ridge (d = 64), ten clients of whom
half have even digits only and half odd ones, everybody in each round, ten full local gradient steps
of 1/beta (1/(beta + lambda_2) under a quadratic penalty; a proximal step for the l1 term, but for
Algorithm 2 as printed). What is counted is what clients send, encoded to the bit, with 64 bits a
number. QSGD, the l1 methods and FedDyn that stores what arrives are without error feedback, all
others with it. No step size is tuned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import typer

from fedtheory import algorithms as A
from fedtheory import simulate
from fedtheory.cli.common import problem_of
from fedtheory.errors import Diverged
from fedtheory.local import GradientSteps
from fedtheory.messages import QSGD, RandomK, ScaledSign, Threshold, TopK

STEPS, ROUNDS = 10, 200
TARGETS = (1e-1, 1e-2, 1e-4)  # of F(x) - F* at the start
COMPRESSORS = {"top-k, q = 0.1": TopK(q=0.1), "sign": ScaledSign(), "QSGD, 4 levels": QSGD(4), "random-k, q = 0.1": RandomK(q=0.1)}
SPARSE = Threshold(0.0)


@dataclass(frozen=True)
class Row:
    """One line: who, with which compressor, and the local work."""

    method: str
    compressor: str
    algorithm: A.Algorithm
    solver: GradientSteps


def digits(clients: int = 10) -> Any:
    """The problem of the table."""
    return problem_of("digits", {"clients": clients, "partition": "classes", "classes": 1}, 0)


def rows(beta: float) -> list[Row]:
    """All methods; lambda_2 and alpha are 0.1 beta."""
    l2 = 0.1 * beta
    plain, pulled = GradientSteps(STEPS, 1 / beta), GradientSteps(STEPS, 1 / (beta + l2))
    prox = GradientSteps(STEPS, 1 / (beta + l2), l1="prox")
    out = [
        Row("FedAvg", "none", A.FedAvg("cohort"), plain),
        Row("SCAFFOLD", "none", A.Scaffold(), plain),
        Row("SCAFFOLD, one message", "none", A.Scaffold(control="recovered"), plain),
        Row("FedDyn", "none", A.FedDyn(l2), pulled),
    ]
    for name, c in COMPRESSORS.items():
        fed = not isinstance(c, QSGD)
        out += [
            Row("FedAvg", name, A.Compressed(A.FedAvg("cohort"), c, feedback=fed), plain),
            Row("SCAFFOLD", name, A.Compressed(A.Scaffold(), c, control=c, feedback=fed), plain),
            Row("SCAFFOLD, one message", name, A.Compressed(A.Scaffold(control="recovered"), c, feedback=fed), plain),
            Row("FedDyn", name, A.Compressed(A.FedDyn(l2), c, feedback=fed), pulled),
            Row("FedDyn, stores what arrives", name, A.Compressed(A.FedDyn(l2, stored="received"), c, feedback=False), pulled),
        ]
        if fed:
            alone = A.Compressed(A.Scaffold(control="recovered"), c, feedback=False)
            out.append(Row("SCAFFOLD, one message, no feedback", name, alone, plain))
    for l1 in (1e-2, 1e-3):
        name = f"l1 = {l1:g}"
        out += [
            Row("Algorithm 1", name, A.Compressed(A.FedElasticNetProx(l1, l2, "cohort"), SPARSE), prox),
            Row("Algorithm 2, as printed", name, A.Compressed(A.FedElasticNetScaffold(l1, 0.0), SPARSE), plain),
            Row("Algorithm 2, proximal steps, one message", name,
                A.Compressed(A.FedElasticNetScaffold(l1, 0.0, control="recovered"), SPARSE), GradientSteps(STEPS, 1 / beta, l1="prox")),
            Row("Algorithm 3", name, A.Compressed(A.FedElasticNetDyn(l1, l2), SPARSE), prox),
        ]  # fmt: skip
    return out


def measured(row: Row, problem: Any, rounds: int) -> tuple[list[float | None], float]:
    """Kilobits up a client until F - F* is within each of the targets, and F - F* at the end, in
    units of that at the start."""
    try:
        run = simulate(problem, row.algorithm, rounds, local_solver=row.solver, record=["suboptimality", "bits_up"])
    except Diverged:
        return [None] * len(TARGETS), np.inf
    gap = run.metrics["suboptimality"][:, 0] / run.metrics["suboptimality"][0, 0]
    sent = np.cumsum(run.metrics["bits_up"][:, 0]) / problem.num_clients / 1000
    first = [np.flatnonzero(gap <= t) for t in TARGETS]
    return [float(sent[at[0]]) if len(at) else None for at in first], float(gap[-1])


def table(problem: Any, chosen: list[Row], rounds: int) -> str:
    """The Markdown."""
    lines = ["| method | compressor | " + " | ".join(f"{t:g}" for t in TARGETS) + " | at the end |", "|---|---|" + "---:|" * 4]
    for row in chosen:
        bits, end = measured(row, problem, rounds)
        told = ["–" if b is None else f"{b:.3g}" for b in bits]
        lines.append(f"| {row.method} | {row.compressor} | " + " | ".join(told) + f" | {end:.1e} |")
    return "\n".join(lines)


def main(rounds: int = ROUNDS) -> None:
    """Print the table."""
    problem = digits()
    print(table(problem, rows(float(problem.beta_k.max())), rounds))


if __name__ == "__main__":
    typer.run(main)
