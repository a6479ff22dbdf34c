"""Elastic Aggregation's statements on a problem of a user's: what each kind of view needs of it, and its data in fractions.

Features and targets are taken to their last bit: a float is a fraction with a power of two below, so that Gram matrices
stay positive semidefinite, as they must, and a verdict is exact. Where no samples are held out, Algorithm 1 measures on those
that are trained on, and so do these cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Any

import numpy as np
import scipy  # its optimize is loaded when first used

from fedtheory.algorithms.elastic_aggregation import ElasticAggregation
from fedtheory.clients.sensitivity import num_batches
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.local import GradientSteps, LocalSGD
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.problems.base import Problem
from fedtheory.problems.linear import LeastSquares, LinearModel
from fedtheory.theorems.elastic_aggregation.mean_motion import determinant, solve
from fedtheory.theorems.elastic_aggregation.notation import BUILDERS
from fedtheory.theorems.elastic_aggregation.quantities import cohort_factors
from fedtheory.verification.rational import simplest, to_file
from fedtheory.verification.setting import Case, DataInstance

__all__ = ["CASES", "OfAProblem"]

MOST_PARAMETERS, MOST_COHORTS, MOST_STEPS, MOST_NUMBERS, MOST_LINEARISED = 12, 200, 20, 20_000, 4
OUTPUTS_ONLY = ("elastic-aggregation/factors", "elastic-aggregation/zero-sensitivity")  # whatever the clients' losses
# whose step is one towards the clients
WITH_A_STEP = {
    f"elastic-aggregation/{name}"
    for name in (
        "stability", "speed", "one-round", "exploration", "every-client", "unlabelled", "sampled-stability", "sampled-attraction",
    )
}  # fmt: skip


@dataclass(frozen=True)
class OfAProblem:
    """One kind of view.

    Attributes
    ----------
    about : what a statement that is judged on it is about
    needs : what it asks of the problem, of who takes part and of the method, in words
    make : callable(statement id, case) -> data of the kind
    example : options of `fedtheory verify`
    """

    about: str
    needs: tuple[str, ...]
    make: Callable[[str, Case], dict[str, Any]]
    example: str

    def instance(self, kind: str, id: str, case: Case) -> DataInstance:
        """The case as an instance."""
        if id in WITH_A_STEP and _method(case).sign != "repaired":
            raise InvalidInput(f"sign = {case.algorithm.sign!r}: the statement is about steps towards the clients; use sign='repaired'")
        return DataInstance(BUILDERS, kind, case.problem.name, to_file(self.make(id, case)))


def _exact(values: Any) -> np.ndarray:
    """Floats to their last bit."""
    given = np.asarray(values, dtype=float)
    out = np.empty(given.shape, dtype=object)
    for at, value in np.ndenumerate(given):
        out[at] = Fraction(float(value))
    return out


def _method(case: Case) -> ElasticAggregation:
    if not isinstance(case.algorithm, ElasticAggregation):
        raise InvalidInput(f"the statement is about ElasticAggregation, not {type(case.algorithm).__name__}")
    return case.algorithm


def _samples(problem: Problem) -> tuple[LinearModel, list[np.ndarray]]:
    """The linear model whose output is measured, and each client's samples (n_k, d), to their last bit."""
    source = problem.held_out or problem
    if not isinstance(problem, LinearModel) or not isinstance(source, LinearModel):
        raise MissingCapability(f"{type(problem).__name__} is no linear model: sensitivities |2 S_k theta| need its Gram matrices S_k")
    if problem.dim > MOST_PARAMETERS:
        raise MissingCapability(f"d = {problem.dim} parameters, at most {MOST_PARAMETERS} are judged in fractions: use fewer features")
    return source, [_exact(a[: int(n)]) for a, n in zip(source.features, source.sample_counts, strict=True)]


def _gram(a: np.ndarray) -> np.ndarray:
    return (a.T @ a) / Fraction(len(a))


def _sensitive(case: Case) -> dict[str, Any]:
    """counts, S, theta and tau: all that zeta depends on."""
    algorithm, problem = _method(case), case.problem
    source, samples = _samples(problem)
    batches = num_batches(source.sample_counts, algorithm.probe_batch)
    if batches.max() > 1:
        raise InvalidInput(
            f"probe_batch = {algorithm.probe_batch}: client {int(np.argmax(batches))} has {int(batches.max())} batches of B_k, and the "
            "statement is about one; use probe_batch=None"
        )
    counts = np.ones(problem.num_clients) if algorithm.aggregation == "cohort" else np.asarray(problem.sample_counts)
    if algorithm.zero != "one" and all((a @ _exact(case.x0) == 0).all() for a in samples):
        raise InvalidInput(f"zero = {algorithm.zero!r} at a start where all outputs are 0: the statements are about zeta = 1 there")
    return {
        "counts": [Fraction(int(n)) for n in counts], "S": [_gram(a) for a in samples], "theta": _exact(case.x0),
        "tau": simplest(algorithm.tau),
    }  # fmt: skip


def _local_work(case: Case, largest: float) -> tuple[Fraction, int]:
    """The clients' step, at most 1/L, and E: as given, else 1/(2L) and 2."""
    solver = case.local_solver
    if solver is None:
        return simplest(float(f"{1 / (2 * largest):.2g}")), 2
    plain = isinstance(solver, GradientSteps) and solver.decay == 1
    sgd = isinstance(solver, LocalSGD) and solver.batch_size is None and not solver.noise_std and not callable(solver.lr)
    if not plain and not sgd:
        raise InvalidInput("the statement is about full gradient steps of one length: use GradientSteps(E, lr), or LocalSGD(E, lr)")
    if solver.steps > MOST_STEPS:
        raise InvalidInput(f"E = {solver.steps} local steps, at most {MOST_STEPS} are judged in fractions")
    if solver.lr * largest > 1 + 1e-12:
        raise InvalidInput(f"lr = {solver.lr:.6g}: it must be at most 1/L = {1 / largest:.6g}")
    return Fraction(float(solver.lr)), int(solver.steps)


def _quadratics(case: Case) -> dict[str, Any]:
    """H, c, lr, E and eta of least squares, to the last bit."""
    problem = case.problem
    if not isinstance(problem, LeastSquares):
        raise MissingCapability(f"{type(problem).__name__} is no quadratic loss of a linear model: use problems.LeastSquares")
    rows = [_exact(a[: int(n)]) for a, n in zip(problem.features, problem.sample_counts, strict=True)]
    targets = [_exact(b[: int(n)]) for b, n in zip(problem.targets, problem.sample_counts, strict=True)]
    ridge = Fraction(float(problem.ridge)) * np.array(np.eye(problem.dim, dtype=int), dtype=object)
    H = [_gram(a) + ridge for a in rows]
    c = [solve(h, a.T @ b / Fraction(len(b)), one_of_many=True) for h, a, b in zip(H, rows, targets, strict=True)]
    lr, E = _local_work(case, float(problem.beta_k.max()))
    return {"H": H, "c": c, "lr": lr, "E": E, "eta": Fraction(float(_method(case).server_lr))}


def aggregation(id: str, case: Case) -> dict[str, Any]:
    """One round from x0 in which all clients take part; of statements about zeta alone the losses play no part.

    There every client is given the curvature 1 and the minimiser theta, which no such form looks at.
    """
    if case.sampling is not None and not isinstance(case.sampling, Full):
        raise InvalidInput(f"{type(case.sampling).__name__}: the statement is about rounds in which all clients take part")
    data = _sensitive(case)
    if id in OUTPUTS_ONLY and not isinstance(case.problem, LeastSquares):
        d, n = case.problem.dim, case.problem.num_clients
        return {**data, "H": [[Fraction(1)] * d] * n, "c": [data["theta"]] * n, "lr": Fraction(1), "E": 1}
    return {**data, **_quadratics(case)}


def _zero(data: dict[str, Any], P: int, start: np.ndarray | None) -> np.ndarray:
    """theta in floats with E[zeta * Delta] = 0 over all cohorts of P, by following the mean motion from FedAvg's end or from x0.

    Raises
    ------
    NotCertified
        Where it does not settle.
    """
    H, c, S = (np.array(data[k], dtype=float) for k in ("H", "c", "S"))
    counts, tau, d = np.array(data["counts"], dtype=float), float(data["tau"]), len(data["theta"])
    M = np.eye(d) - np.linalg.matrix_power(np.eye(d) - float(data["lr"]) * H, data["E"])

    def motion(theta: np.ndarray) -> np.ndarray:
        factors = cohort_factors(counts, abs(2 * S @ theta), P, tau)
        updates = -np.einsum("nij,nj->ni", M, theta - c)
        return sum(z.astype(float) * (w.astype(float)[:, None] * updates).sum(axis=0) for w, z in factors) / len(factors)

    mean = np.einsum("n,nij->ij", counts / counts.sum(), M)
    theta = np.linalg.solve(mean, np.einsum("n,nij,nj->i", counts / counts.sum(), M, c)) if start is None else start
    for _ in range(200):
        theta = theta + motion(theta) / ((1 + tau) * np.linalg.eigvalsh(mean).max())
    found = scipy.optimize.root(motion, theta, tol=1e-14)
    residual = float(np.abs(motion(found.x)).max())
    if not residual <= 1e-10 * (1 + float(np.abs(c).max())):
        raise NotCertified(f"a zero of the mean motion is known to {residual:.3g} only; start elsewhere (x0)")
    return found.x


def _singular_first(data: dict[str, Any]) -> dict[str, Any]:
    """The clients in an order in which the last one's Hessian is not singular; they stay as they are where it is not.

    Raises
    ------
    InvalidInput
        All are singular.
    """
    regular = [k for k, h in enumerate(data["H"]) if determinant(h) != 0]
    if not regular:
        raise InvalidInput("every client has fewer independent samples than parameters: add a ridge, or give one client more samples")
    order = [k for k in range(len(data["H"])) if k != regular[-1]] + [regular[-1]]
    return {**data, **{name: [data[name][k] for k in order] for name in ("H", "S", "c", "counts")}}


def sampled(id: str, case: Case) -> dict[str, Any]:
    """Where the mean motion E[zeta * Delta] is 0, over all cohorts of P clients.

    It is found in floats; the last client's minimiser is then moved by what rounding left, so that theta is a zero to the
    last bit of a problem that is the user's up to that: a larger move is refused.
    """
    algorithm, N = _method(case), case.problem.num_clients
    P = N if case.sampling is None or isinstance(case.sampling, Full) else getattr(case.sampling, "size", None)
    if P is None or not isinstance(case.sampling, Full | Uniform | None):
        raise InvalidInput(f"{type(case.sampling).__name__}: the statement is about cohorts of P clients, all alike; use Uniform(P)")
    if comb(N, P) > MOST_COHORTS:
        raise MissingCapability(f"{comb(N, P)} cohorts of {P} clients, at most {MOST_COHORTS} are judged in fractions")
    if N < 2 or not algorithm.tau > 0:
        raise InvalidInput(f"N = {N}, tau = {algorithm.tau:g}: at least two clients and tau > 0 are needed")
    if algorithm.aggregation == "printed":
        raise InvalidInput("aggregation = 'printed': a cohort's weights do not sum to 1; use 'samples' or 'cohort'")
    data = _singular_first({**_sensitive(case), **_quadratics(case)})
    theta = _zero(data, P, case.x0 if case.x0.any() else None)
    own = data["c"][-1]
    data |= {"theta": _exact(theta), "c": data["c"][:-1], "P": P}
    view = BUILDERS["sampled"](to_file(data))
    if view.dead and algorithm.zero != "one":
        raise InvalidInput(
            f"zero = {algorithm.zero!r}, and clients {view.dead[0]} see no sensitivity: "
            "the statements are about zeta = 1 there, so use zero='one'"
        )
    moved = view.c[-1] - own
    off = float(max(abs(moved)))
    if not off <= 1e-8 * (1 + float(max(abs(own)))):
        raise NotCertified(f"the zero is one of a problem whose last client's minimiser is {off:.3g} away: known too coarsely")
    return data


def linearised(id: str, case: Case) -> dict[str, Any]:
    """The same, with the server's step, of few parameters: matrices of d (d + 1)/2 rows are solved in fractions of many digits."""
    if case.problem.dim > MOST_LINEARISED:
        raise MissingCapability(
            f"d = {case.problem.dim} parameters, at most {MOST_LINEARISED} are judged, as second moments in fractions take long: "
            "use fewer features"
        )
    return sampled(id, case)


def average(id: str, case: Case) -> dict[str, Any]:
    """|g| of every batch of B_k at x0, (m_k, d) a client, whose moving averages are compared."""
    algorithm, problem = _method(case), case.problem
    source, samples = _samples(problem)
    theta, sizes = _exact(case.x0), num_batches(source.sample_counts, algorithm.probe_batch)
    if sizes.sum() * problem.dim > MOST_NUMBERS:
        raise MissingCapability(f"{int(sizes.sum())} batches of {problem.dim} numbers, at most {MOST_NUMBERS} are judged in fractions")
    if not 0 < algorithm.mu < 1:
        raise InvalidInput(f"mu = {algorithm.mu:g}: it must lie strictly between 0 and 1")
    size = algorithm.probe_batch or int(np.max(source.sample_counts))
    batches = [[abs(2 * (_gram(a[j : j + size]) @ theta)) for j in range(0, len(a), size)] for a in samples]
    counts = np.ones(problem.num_clients) if algorithm.aggregation == "cohort" else np.asarray(problem.sample_counts)
    return {
        "weights": [Fraction(int(n)) for n in counts], "batches": batches, "mu": simplest(algorithm.mu), "tau": simplest(algorithm.tau),
    }  # fmt: skip


def labels(id: str, case: Case) -> dict[str, Any]:
    """Inputs and labels of B_k and D_k; the other labels are D_k's own with the opposite sign."""
    if case.sampling is not None and not isinstance(case.sampling, Full):
        raise InvalidInput(f"{type(case.sampling).__name__}: the statement is about rounds in which all clients take part")
    data, problem = _sensitive(case), case.problem
    source, samples = _samples(problem)
    if not isinstance(problem, LeastSquares) or not isinstance(source, LeastSquares) or problem.ridge:
        raise MissingCapability("the statement is about least squares without a ridge: use problems.LeastSquares, ridge=0")
    sizes = [int(n) for n in problem.sample_counts]
    train = [_exact(a[:n]) for a, n in zip(problem.features, sizes, strict=True)]
    own = [_exact(b[:n]) for b, n in zip(problem.targets, sizes, strict=True)]
    lr, E = _local_work(case, float(problem.beta_k.max()))
    return {
        "held": samples, "held_labels": [_exact(b[: len(a)]) for a, b in zip(samples, source.targets, strict=True)], "train": train,
        "labels": own, "others": [-b for b in own], "lr": lr, "E": E, "eta": Fraction(float(_method(case).server_lr)),
        "counts": data["counts"], "theta": data["theta"], "tau": data["tau"],
    }  # fmt: skip


MODEL = "a linear model of few parameters, its sensitivities measured on held-out samples, or on all where none are held out"
ONE_CLIENT = "least squares; where cohorts take part, one client at least that is strongly convex"
CASES: dict[str, OfAProblem] = {
    "aggregation": OfAProblem(
        "about one round of Elastic Aggregation in which all clients take part",
        (MODEL, "least squares, but of statements about zeta alone", "one batch of held-out samples a client"),
        aggregation, "--problem diabetes --clients 3 --held-out 0.3 --start 1",
    ),
    "labels": OfAProblem(
        "about what its sensitivities are measured from",
        (MODEL, "least squares without a ridge", "one batch of held-out samples a client"),
        labels, "--problem least-squares --ridge 0 --dimension 3 --clients 3 --held-out 0.3 --start 1",
    ),
    "sampled": OfAProblem(
        "about where its mean motion is 0 when some clients take part",
        (MODEL, ONE_CLIENT, "cohorts of P clients drawn uniformly", "tau > 0"),
        sampled, "--problem diabetes --clients 3 --held-out 0.3 --participants 2",
    ),
    "linearised": OfAProblem(
        "about whether a zero of its mean motion attracts",
        (MODEL, ONE_CLIENT, "cohorts of P clients drawn uniformly", "tau > 0", "at most four parameters"),
        linearised, "--problem least-squares --dimension 2 --clients 3 --held-out 0.3 --participants 2",
    ),
    "average": OfAProblem(
        "about its moving averages", (MODEL, "a start where some output is not 0"), average,
        "--problem diabetes --clients 3 --held-out 0.3 --start 1 --probe-batch 10",
    ),
}  # fmt: skip
