"""What a certified optimum costs beside cvxpy alone: the same problem, written down for cvxpy as its manual would, and solved by it.

    python validation/timings/certified_optimum.py [--repeats 5] [--out FILE]

Both take turns in one process; the table has the middle of the ratios. cvxpy's time is that of ``Problem.solve``, from the expression
to the number: it compiles and solves. Ours is ``problem.optimum()`` on a problem that has just been made: cvxpy's part, if it is
asked, the better point, and the proof of its gap.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

TARGET, RADIUS = 3.0, 1.0


def _cases() -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Name -> (the problem, made anew; the same as a problem of cvxpy)."""
    import cvxpy as cp

    from fedtheory import problems
    from fedtheory.problems import datasets
    from fedtheory.problems.partitions import iid

    made: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {}

    def add(name: str, make: Callable[[], Any], loss: Callable[..., Any], x: np.ndarray, y: np.ndarray, ridge: float) -> None:
        def plain() -> Any:
            w = cp.Variable(x.shape[1])
            return cp.Problem(cp.Minimize(loss(x @ w, y, cp) / len(y) + ridge / 2 * cp.sum_squares(w)))

        made[name] = (make, plain)

    for data, ridge in ((datasets.diabetes(), 0.1), (_gaussian(5000, 40), 0.01)):
        parts = iid(data.num_samples, 10)
        features, targets = _dealt(data, parts)
        add(f"least squares, {data.name}",
            lambda f=features, t=targets, r=ridge: problems.LeastSquares(f, t, ridge=r, weights="samples"),
            lambda z, y, cp: cp.sum_squares(z - y) / 2, data.features, data.targets, ridge)  # fmt: skip
    for data, ridge in ((datasets.breast_cancer(), 0.01), (datasets.digits_binary(), 0.01), (_signs(5000, 40), 0.01)):
        parts = iid(data.num_samples, 10)
        features, targets = _dealt(data, parts)
        add(f"logistic, {data.name}", lambda f=features, t=targets, r=ridge: problems.Logistic(f, t, ridge=r, weights="samples"),
            lambda z, y, cp: cp.sum(cp.logistic(-cp.multiply(y, z))), data.features, data.targets, ridge)  # fmt: skip
    data = datasets.diabetes()
    features, targets = _dealt(data, iid(data.num_samples, 10))
    add(f"Huber, {data.name}", lambda: problems.Huber(features, targets, ridge=0.1, weights="samples"),
        lambda z, y, cp: cp.sum(cp.huber(z - y)) / 2, data.features, data.targets, 0.1)  # fmt: skip

    def lad() -> Any:
        w = cp.Variable(data.features.shape[1])
        return cp.Problem(cp.Minimize(cp.norm1(data.features @ w - data.targets) / len(data.targets)), [cp.norm2(w) <= RADIUS])

    made[f"LAD on a ball, {data.name}"] = (lambda: problems.LAD(features, targets, weights="samples"), lad)
    some = datasets.digits()
    x, y = some.features[:400], some.targets[:400].astype(int)
    parts = iid(len(y), 10).indices

    def softmax() -> Any:
        w = cp.Variable((x.shape[1], 10))
        losses = cp.sum(cp.log_sum_exp(x @ w, axis=1)) - cp.sum(cp.multiply(np.eye(10)[y], x @ w))
        return cp.Problem(cp.Minimize(losses / len(y) + 0.01 / 2 * cp.sum_squares(w)))

    make = lambda: problems.Softmax([x[i] for i in parts], [y[i] for i in parts], 10, ridge=0.01, weights="samples")  # noqa: E731
    made["softmax, 400 digits in ten classes"] = (make, softmax)
    return made


def _gaussian(n: int, d: int) -> Any:
    from fedtheory.problems.datasets import Dataset

    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d))
    return Dataset(f"{n} samples of dimension {d}", x, x @ rng.standard_normal(d) + rng.standard_normal(n), "regression")


def _signs(n: int, d: int) -> Any:
    from fedtheory.problems.datasets import Dataset

    data = _gaussian(n, d)
    return Dataset(data.name, data.features, np.where(data.targets > 0, 1.0, -1.0), "binary")


def _dealt(data: Any, parts: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    return [data.features[i] for i in parts.indices], [data.targets[i] for i in parts.indices]


def measured(repeats: int) -> dict[str, dict[str, Any]]:
    """Of every case seconds of both, and the middle of their ratios."""
    rows = {}
    for name, (make, plain) in _cases().items():
        ours, theirs = [], []
        for turn in range(repeats + 1):
            problem, other = make(), plain()
            begun = time.perf_counter()
            found = problem.optimum_on_ball(RADIUS) if name.startswith("LAD") else problem.optimum()
            middle = time.perf_counter()
            value = other.solve()
            end = time.perf_counter()
            if abs(found.value - value) > 1e-5 * (1 + abs(value)):
                raise RuntimeError(f"{name}: {found.value} and {value} are not the same problem's optimum")
            if turn:
                ours.append(middle - begun)
                theirs.append(end - middle)
        rows[name] = {
            "ours_seconds": round(statistics.median(ours), 4),
            "cvxpy_seconds": round(statistics.median(theirs), 4),
            "times_cvxpy": round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 2),
        }
    return rows


def main(
    repeats: Annotated[int, typer.Option(min=1, help="Solves of each.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Write the table to this JSON file.")] = None,
) -> None:
    """Time the optima and print them."""
    rows = measured(repeats)
    for name, row in rows.items():
        print(f"{name:48} ours {row['ours_seconds']:8.3f} s   cvxpy {row['cvxpy_seconds']:8.3f} s   {row['times_cvxpy']:5.2f} of it")
    if out is not None:
        from fedtheory.provenance import write_json

        write_json(out, {"cases": rows, "target": TARGET, "repeats": repeats, "cores": os.cpu_count()})


if __name__ == "__main__":
    typer.run(main)
