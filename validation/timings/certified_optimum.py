"""What a certified optimum costs beside cvxpy alone: the same problem, written down for cvxpy as its manual would, and solved by it.

    python validation/timings/certified_optimum.py [--repeats 5] [--only WORD] [--out FILE]

Both take turns in one process; the table has the middle of the ratios. cvxpy's time is that of ``Problem.solve``, from the expression
to the number: it compiles and solves. Ours is ``problem.optimum()`` (nonsmooth: ``optimum_on_ball``) on a problem that has just been
made: cvxpy's part, if it is asked, the better point, and the proof of its gap. A second call on the same problem is timed, too.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from fedtheory import problems
from fedtheory.problems import datasets
from fedtheory.problems.datasets import Dataset
from fedtheory.problems.partitions import iid

TARGET, RADIUS = 3.0, 1.0


class Case(NamedTuple):
    """A problem made anew, the same as a problem of cvxpy, and the radius of the ball that both are solved on (None: all of R^d)."""

    name: str
    make: Callable[[], Any]
    plain: Callable[[], Any]
    radius: float | None = None


class LogCosh(problems.LinearModel):
    """A loss that is not built in: log cosh(z - b)."""

    curvature_max, rounding = 1.0, 16

    def phi(self, z: Any, b: Any) -> Any:
        return np.log1p(2 * np.sinh(abs(z - b) / 2) ** 2)

    def dphi(self, z: Any, b: Any) -> Any:
        return np.tanh(z - b)

    def d2phi(self, z: Any, b: Any) -> Any:
        return 1 - np.tanh(z - b) ** 2

    def cvxpy_loss(self, z: Any, b: np.ndarray) -> Any:
        import cvxpy as cp

        return cp.logistic(2 * (z - b)) - (z - b) - np.log(2)


def _squares(z: Any, y: np.ndarray, cp: Any) -> Any:
    return cp.sum_squares(z - y) / 2


def _logistic(z: Any, y: np.ndarray, cp: Any) -> Any:
    return cp.sum(cp.logistic(-cp.multiply(y, z)))


def _huber(z: Any, y: np.ndarray, cp: Any) -> Any:
    return cp.sum(cp.huber(z - y)) / 2


def _deviations(z: Any, y: np.ndarray, cp: Any) -> Any:
    return cp.norm1(z - y)


def _tilted(z: Any, y: np.ndarray, cp: Any) -> Any:
    return cp.sum(cp.maximum(0.8 * (y - z), -0.2 * (y - z)))


def _hinge(z: Any, y: np.ndarray, cp: Any) -> Any:
    return cp.sum(cp.pos(1 - cp.multiply(y, z)))


def _log_cosh(z: Any, y: np.ndarray, cp: Any) -> Any:
    return cp.sum(cp.logistic(2 * (z - y)) - (z - y)) - len(y) * np.log(2)


def _linear(
    words: str, cls: Any, loss: Callable[..., Any], data: Dataset, ridge: float = 0.0, radius: float | None = None, **more: Any
) -> Case:
    """A loss of linear predictions, its samples dealt to ten clients."""
    parts = iid(data.num_samples, 10).indices
    features, targets = [data.features[i] for i in parts], [data.targets[i] for i in parts]
    given = more | ({"ridge": ridge} if ridge or radius is None else {})

    def plain() -> Any:
        import cvxpy as cp

        w = cp.Variable(data.features.shape[1])
        ball = [] if radius is None else [cp.norm2(w) <= radius]
        objective = loss(data.features @ w, data.targets, cp) / len(data.targets)
        return cp.Problem(cp.Minimize(objective + ridge / 2 * cp.sum_squares(w) if ridge else objective), ball)

    where = ("" if ridge else ", no ridge") if radius is None else f" on a ball{', ridge' if ridge else ''}"
    return Case(f"{words}{where}, {data.name}", lambda: cls(features, targets, weights="samples", **given), plain, radius)


def _gaussian(n: int, d: int, signs: bool = False) -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d))
    y = x @ rng.standard_normal(d) + rng.standard_normal(n)
    name = f"{n} samples of dimension {d}"
    return Dataset(name, x, np.where(y > 0, 1.0, -1.0), "binary") if signs else Dataset(name, x, y, "regression")


def _softmax(name: str, x: np.ndarray, y: np.ndarray, classes: int) -> Case:
    parts = iid(len(y), 10).indices

    def plain() -> Any:
        import cvxpy as cp

        w = cp.Variable((x.shape[1], classes))
        losses = cp.sum(cp.log_sum_exp(x @ w, axis=1)) - cp.sum(cp.multiply(np.eye(classes)[y], x @ w))
        return cp.Problem(cp.Minimize(losses / len(y) + 0.01 / 2 * cp.sum_squares(w)))

    make = lambda: problems.Softmax([x[i] for i in parts], [y[i] for i in parts], classes, ridge=0.01, weights="samples")  # noqa: E731
    return Case(f"softmax, {name}", make, plain)


def _quadratic(clients: int, d: int) -> Case:
    rng = np.random.default_rng(0)
    roots, centers = rng.standard_normal((clients, d, d)), rng.standard_normal((clients, d))
    hessians = roots @ roots.transpose(0, 2, 1) / d

    def plain() -> Any:
        import cvxpy as cp

        w = cp.Variable(d)
        forms = [cp.quad_form(w - c, cp.psd_wrap(h)) for h, c in zip(hessians, centers, strict=True)]
        return cp.Problem(cp.Minimize(cp.sum(cp.hstack(forms)) / (2 * clients)))

    return Case(f"quadratics of {clients} clients, dimension {d}", lambda: problems.Quadratic(hessians, centers), plain)


def _distances() -> Iterator[Case]:
    """Sums of distances to fifty centres, and maxima of six pieces at each of ten clients."""
    import cvxpy as cp

    centers = np.random.default_rng(0).standard_normal((50, 20)) / 5
    pieces = problems.random_max_affine(10, 6, 20, seed=1)

    def sums(norm: int) -> Callable[[], Any]:
        def plain() -> Any:
            w = cp.Variable(20)
            return cp.Problem(cp.Minimize(sum(cp.norm(w - c, norm) for c in centers) / 50), [cp.norm2(w) <= RADIUS])

        return plain

    def maxima() -> Any:
        w = cp.Variable(20)
        each = [cp.max(a @ w + b) for a, b in zip(pieces.slopes, pieces.offsets, strict=True)]
        return cp.Problem(cp.Minimize(sum(each) / 10), [cp.norm2(w) <= RADIUS])

    yield Case("l1 distances on a ball, 50 centres", lambda: problems.L1Distance(centers), sums(1), RADIUS)
    yield Case("Euclidean distances on a ball, 50 centres", lambda: problems.EuclideanDistance(centers), sums(2), RADIUS)
    yield Case("maxima of six pieces on a ball, ten clients", lambda: problems.MaxAffine(pieces.slopes, pieces.offsets), maxima, RADIUS)


def cases() -> Iterator[Case]:
    """All that are measured."""
    diabetes, cancer, digits = datasets.diabetes(), datasets.breast_cancer(), datasets.digits()
    many, wide = _gaussian(5000, 40), _gaussian(60, 200)
    many_signs, wide_signs = _gaussian(5000, 40, signs=True), _gaussian(60, 200, signs=True)
    for data, ridge in ((diabetes, 0.1), (diabetes, 0.0), (many, 0.01), (_gaussian(50_000, 20), 0.01), (wide, 0.1)):
        yield _linear("least squares", problems.LeastSquares, _squares, data, ridge)
    for data, ridge in ((cancer, 0.01), (datasets.digits_binary(), 0.01), (many_signs, 0.01), (_gaussian(1000, 10, True), 0.0),
                        (wide_signs, 0.01)):  # fmt: skip
        yield _linear("logistic", problems.Logistic, _logistic, data, ridge)
    for data, ridge in ((diabetes, 0.1), (diabetes, 0.0), (many, 0.01), (wide, 0.1)):
        yield _linear("Huber", problems.Huber, _huber, data, ridge)
    for data in (diabetes, many):
        yield _linear("log cosh (of one's own)", LogCosh, _log_cosh, data, 0.1)
    some = _gaussian(520, 20).features
    yield _softmax("400 digits in ten classes", digits.features[:400], digits.targets[:400].astype(int), 10)
    yield _softmax("520 samples in 26 classes", some, np.arange(520) % 26, 26)
    yield _quadratic(10, 5)
    yield _quadratic(100, 50)
    for data in (diabetes, many, wide):
        yield _linear("LAD", problems.LAD, _deviations, data, radius=RADIUS)
    yield _linear("quantile", problems.Quantile, _tilted, diabetes, radius=RADIUS, tau=0.8)
    for data, ridge in ((cancer, 0.01), (cancer, 0.0), (many_signs, 0.01), (wide_signs, 0.01)):
        yield _linear("hinge", problems.Hinge, _hinge, data, ridge, radius=RADIUS)
    yield from _distances()


def measured(case: Case, repeats: int) -> dict[str, Any]:
    """Seconds of both, the middle of their ratios, and seconds of a second call."""
    ours, theirs, again = [], [], []
    for turn in range(repeats + 1):
        problem, other = case.make(), case.plain()
        solve = problem.optimum if case.radius is None else lambda p=problem: p.optimum_on_ball(case.radius)
        begun = time.perf_counter()
        found = solve()
        middle = time.perf_counter()
        value = other.solve()
        end = time.perf_counter()
        solve()
        last = time.perf_counter()
        if abs(found.value - value) > 1e-5 * (1 + abs(value)):
            raise RuntimeError(f"{case.name}: {found.value} and {value} are not the same problem's optimum")
        if turn:
            ours.append(middle - begun)
            theirs.append(end - middle)
            again.append(last - end)
    return {
        "ours_seconds": round(statistics.median(ours), 4),
        "cvxpy_seconds": round(statistics.median(theirs), 4),
        "times_cvxpy": round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 2),
        "second_call_seconds": round(statistics.median(again), 7),
    }


def main(
    repeats: Annotated[int, typer.Option(min=1, help="Solves of each.")] = 5,
    only: Annotated[str, typer.Option(help="Cases with this in their names.")] = "",
    out: Annotated[Path | None, typer.Option(help="Write the table to this JSON file.")] = None,
) -> None:
    """Time the optima and print them."""
    rows = {}
    for case in cases():
        if only not in case.name:
            continue
        row = rows[case.name] = measured(case, repeats)
        seconds = f"ours {row['ours_seconds']:8.3f} s   cvxpy {row['cvxpy_seconds']:8.3f} s   {row['times_cvxpy']:5.2f} of it"
        print(f"{case.name:56} {seconds}   again {1e6 * row['second_call_seconds']:.1f} us", flush=True)
    if out is not None:
        from fedtheory.provenance import write_json

        write_json(out, {"cases": rows, "target": TARGET, "repeats": repeats, "cores": os.cpu_count()})


if __name__ == "__main__":
    typer.run(main)
