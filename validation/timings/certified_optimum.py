"""The cost of a certified optimum beside cvxpy's own and that of L-BFGS-B, which proves nothing.

    python validation/timings/certified_optimum.py [--repeats 5] [--only WORD] [--data FILE]
        [--out FILE]

All take turns on the same problem in one process of one thread. The table has medians of CPU and of
wall times, and the middle of the ratios of CPU times. cvxpy's time is that of ``Problem.solve``,
written down as its manual would, from the expression to the number: it compiles and solves.
L-BFGS-B is SciPy's, where F is smooth, on value and gradient written out in NumPy. Ours is
``problem.optimum()`` (nonsmooth: ``optimum_on_ball``) on a problem that has just been made: cvxpy's
part, if it is asked, the better point, and the proof of its gap. A second call on the same problem
is timed, too. ``--data`` adds logistic regression and the hinge loss on a LIBSVM file of two
classes.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from fedtheory import problems
from fedtheory.problems import datasets
from fedtheory.problems.datasets import Dataset
from fedtheory.problems.partitions import iid

RADIUS = 1.0


class Case(NamedTuple):
    """A problem made anew, the same for cvxpy, F with its gradient and the dimension, and a radius.

    It is that of a ball; without one it is solved on all of R^d. ``descent`` is None where F is not
    smooth.
    """

    name: str
    make: Callable[[], Any]
    plain: Callable[[], Any]
    descent: tuple[Callable[[np.ndarray], tuple[float, np.ndarray]], int] | None = None
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


def _logistic_slopes(z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.logaddexp(0, -y * z), -y / (1 + np.exp(y * z))


def _huber_slopes(z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    inside = np.clip(z - y, -1, 1)
    return inside * (z - y - inside / 2), inside


# losses and slopes of predictions, for L-BFGS-B
SLOPES: dict[Callable[..., Any], Callable[..., tuple[np.ndarray, np.ndarray]]] = {
    _squares: lambda z, y: ((z - y) ** 2 / 2, z - y),
    _logistic: _logistic_slopes, _huber: _huber_slopes,
    _log_cosh: lambda z, y: (np.logaddexp(z - y, y - z) - np.log(2), np.tanh(z - y)),
}  # fmt: skip


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

    def descent(w: np.ndarray) -> tuple[float, np.ndarray]:
        losses, slopes = SLOPES[loss](data.features @ w, data.targets)
        return losses.mean() + ridge / 2 * w @ w, data.features.T @ slopes / len(losses) + ridge * w

    where = ("" if ridge else ", no ridge") if radius is None else f" on a ball{', ridge' if ridge else ''}"
    smooth = (descent, data.features.shape[1]) if loss in SLOPES else None
    return Case(
        f"{words}{where}, {data.name}",
        lambda: cls(features, targets, weights="samples", **given),
        plain,
        smooth,
        radius,
    )


def _gaussian(n: int, d: int, signs: bool = False) -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d))
    y = x @ rng.standard_normal(d) + rng.standard_normal(n)
    name = f"{n} samples of dimension {d}"
    return Dataset(name, x, np.where(y > 0, 1.0, -1.0), "binary") if signs else Dataset(name, x, y, "regression")


def _sparse(n: int, d: int, ones: int) -> Dataset:
    """Ones among zeros, some features far more often than others, as in LIBSVM's a1a."""
    rng = np.random.default_rng(0)
    odds = rng.random(d) ** 4 + 0.01
    x = np.zeros((n, d))
    for row in x:
        row[rng.choice(d, ones, replace=False, p=odds / odds.sum())] = 1.0
    y = x @ rng.standard_normal(d) + rng.standard_normal(n) - 1
    return Dataset(
        f"{n} samples of dimension {d}, {ones} ones in each",
        x,
        np.where(y > 0, 1.0, -1.0),
        "binary",
    )


def _softmax(name: str, x: np.ndarray, y: np.ndarray, classes: int) -> Case:
    parts = iid(len(y), 10).indices

    def plain() -> Any:
        import cvxpy as cp

        w = cp.Variable((x.shape[1], classes))
        losses = cp.sum(cp.log_sum_exp(x @ w, axis=1)) - cp.sum(cp.multiply(np.eye(classes)[y], x @ w))
        return cp.Problem(cp.Minimize(losses / len(y) + 0.01 / 2 * cp.sum_squares(w)))

    def descent(flat: np.ndarray) -> tuple[float, np.ndarray]:
        w = flat.reshape(x.shape[1], classes)
        z = x @ w
        z -= z.max(axis=1, keepdims=True)
        e = np.exp(z)
        total = e.sum(axis=1)
        slopes = e / total[:, None]
        slopes[np.arange(len(y)), y] -= 1
        loss = np.mean(np.log(total) - z[np.arange(len(y)), y])
        return loss + 0.005 * flat @ flat, (x.T @ slopes / len(y) + 0.01 * w).ravel()

    make = lambda: problems.Softmax([x[i] for i in parts], [y[i] for i in parts], classes, ridge=0.01, weights="samples")  # noqa: E731
    return Case(f"softmax, {name}", make, plain, (descent, x.shape[1] * classes))


def _quadratic(clients: int, d: int) -> Case:
    rng = np.random.default_rng(0)
    roots, centers = rng.standard_normal((clients, d, d)), rng.standard_normal((clients, d))
    hessians = roots @ roots.transpose(0, 2, 1) / d

    def plain() -> Any:
        import cvxpy as cp

        w = cp.Variable(d)
        forms = [cp.quad_form(w - c, cp.psd_wrap(h)) for h, c in zip(hessians, centers, strict=True)]
        return cp.Problem(cp.Minimize(cp.sum(cp.hstack(forms)) / (2 * clients)))

    def descent(w: np.ndarray) -> tuple[float, np.ndarray]:
        slopes = np.einsum("nij,nj->ni", hessians, w - centers)
        return float((slopes * (w - centers)).sum()) / (2 * clients), slopes.mean(axis=0)

    return Case(
        f"quadratics of {clients} clients, dimension {d}",
        lambda: problems.Quadratic(hessians, centers),
        plain,
        (descent, d),
    )


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

    yield Case(
        "l1 distances on a ball, 50 centres",
        lambda: problems.L1Distance(centers),
        sums(1),
        radius=RADIUS,
    )
    yield Case(
        "Euclidean distances on a ball, 50 centres",
        lambda: problems.EuclideanDistance(centers),
        sums(2),
        radius=RADIUS,
    )
    affine = lambda: problems.MaxAffine(pieces.slopes, pieces.offsets)  # noqa: E731
    yield Case("maxima of six pieces on a ball, ten clients", affine, maxima, radius=RADIUS)


def cases(data_file: Path | None = None) -> Iterator[Case]:
    """All that are measured."""
    if data_file is not None:
        given = datasets.load_svmlight(data_file)
        yield _linear("logistic", problems.Logistic, _logistic, given, 0.01)
        yield _linear("hinge", problems.Hinge, _hinge, given, 0.01, radius=RADIUS)
    diabetes, cancer, digits = datasets.diabetes(), datasets.breast_cancer(), datasets.digits()
    many, wide = _gaussian(5000, 40), _gaussian(60, 200)
    many_signs, wide_signs, sparse = (
        _gaussian(5000, 40, signs=True),
        _gaussian(60, 200, signs=True),
        _sparse(1605, 123, 14),
    )
    for data, ridge in ((diabetes, 0.1), (diabetes, 0.0), (many, 0.01), (_gaussian(50_000, 20), 0.01), (wide, 0.1)):
        yield _linear("least squares", problems.LeastSquares, _squares, data, ridge)
    for data, ridge in ((cancer, 0.01), (datasets.digits_binary(), 0.01), (many_signs, 0.01), (_gaussian(1000, 10, True), 0.0),
                        (wide_signs, 0.01), (sparse, 0.01)):  # fmt: skip
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
    for data, ridge in (
        (cancer, 0.01),
        (cancer, 0.0),
        (many_signs, 0.01),
        (wide_signs, 0.01),
        (sparse, 0.01),
    ):
        yield _linear("hinge", problems.Hinge, _hinge, data, ridge, radius=RADIUS)
    yield from _distances()


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Do the work, and give its result, its CPU time and its wall time."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    return found, time.process_time() - cpu, time.perf_counter() - wall


def measured(case: Case, repeats: int) -> dict[str, Any]:
    """Seconds of each, the middle of the ratios to the others, and seconds of a second call."""
    times: dict[str, list[tuple[float, float]]] = {}
    for turn in range(repeats + 1):
        problem, other = case.make(), case.plain()
        ours = problem.optimum if case.radius is None else partial(problem.optimum_on_ball, case.radius)
        works = {"ours": ours, "cvxpy": other.solve}
        if case.descent is not None:
            works["lbfgs"] = lambda: minimize(
                case.descent[0], np.zeros(case.descent[1]), jac=True, method="L-BFGS-B",
                options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-10},
            ).fun  # fmt: skip
        works["again"] = ours
        values = {}
        for name, work in works.items():
            values[name], cpu, wall = timed(work)
            if turn:
                times.setdefault(name, []).append((cpu, wall))
        best = values["ours"].value
        for name in values.keys() & {"cvxpy", "lbfgs"}:
            if abs(best - values[name]) > 1e-5 * (1 + abs(best)):
                raise RuntimeError(
                    f"{case.name}: {best} and, by {name}, {values[name]} are not one optimum"
                )
    row: dict[str, Any] = {}
    for name in ("ours", "cvxpy", "lbfgs"):
        for k, what in enumerate(("cpu", "wall")):
            row[f"{name}_{what}_seconds"] = (
                round(statistics.median(t[k] for t in times[name]), 4) if name in times else None
            )
    for name in ("cvxpy", "lbfgs"):
        ratios = (
            [a[0] / b[0] for a, b in zip(times["ours"], times[name], strict=True)]
            if name in times
            else []
        )
        row[f"times_{name}"] = round(statistics.median(ratios), 2) if ratios else None
    row["times_cvxpy_wall"] = round(
        statistics.median(a[1] / b[1] for a, b in zip(times["ours"], times["cvxpy"], strict=True)),
        2,
    )
    row["second_call_seconds"] = round(statistics.median(t[1] for t in times["again"]), 7)
    return row


def main(
    repeats: Annotated[int, typer.Option(min=1, help="Solves of each.")] = 5,
    only: Annotated[str, typer.Option(help="Cases with this in their names.")] = "",
    data: Annotated[
        Path | None, typer.Option(help="A LIBSVM file of two classes that is measured, too.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the table to this JSON file.")] = None,
) -> None:
    """Time the optima and print them."""
    rows = {}
    for case in cases(data):
        if only not in case.name:
            continue
        with threadpool_limits(1):
            row = rows[case.name] = measured(case, repeats)
        lbfgs = (
            ""
            if row["lbfgs_cpu_seconds"] is None
            else f"   L-BFGS-B {row['lbfgs_cpu_seconds']:8.4f} s"
        )
        ours, theirs = row["ours_cpu_seconds"], row["cvxpy_cpu_seconds"]
        seconds = f"ours {ours:8.4f} s   cvxpy {theirs:8.4f} s{lbfgs}"
        ratios = f"{row['times_cvxpy']:5.2f} of cvxpy's (wall {row['times_cvxpy_wall']:.2f})"
        print(f"{case.name:62} {seconds}   {ratios}", flush=True)
    if out is not None:
        from fedtheory.provenance import write_json

        write_json(out, {"cases": rows, "repeats": repeats, "cores": os.cpu_count()})


if __name__ == "__main__":
    typer.run(main)
