"""A problem and a method of a user's as data of Elastic Aggregation's worlds, in fractions.

Features and targets are taken to their last bit. A float is a fraction with a power of two below.
So Gram matrices stay positive semidefinite, as they must, and a verdict is exact. Where no samples
are held out, Algorithm 1 measures on those that are trained on, and so do these data.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.clients.sensitivity import num_batches
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import GradientSteps, LocalSGD
from fedtheory.participation.cohorts import Full
from fedtheory.problems.base import Problem
from fedtheory.problems.linear import LeastSquares, LinearModel
from fedtheory.rational import simplest
from fedtheory.theory import Case, World
from fedtheory.theory.rounds.linear_algebra import identity, product, solve

MOST_PARAMETERS, MOST_STEPS = 12, 20
ONE_BATCH = "one batch of held-out samples a client"
MODEL = (
    "a linear model of few parameters, its sensitivities measured on held-out samples, "
    "or on all where none are held out"
)


def check_everyone(case: Case) -> None:
    """Raise `InvalidInput` for rounds in which not all clients take part."""
    if case.sampling is not None and not isinstance(case.sampling, Full):
        raise InvalidInput(
            f"{type(case.sampling).__name__}: the statement is about rounds in which "
            "all clients take part"
        )


def check_size(size: int, most: int, told: str, remedy: str = "") -> None:
    """Raise `MissingCapability` for more than is judged in fractions."""
    if size > most:
        raise MissingCapability(f"{told}, at most {most} are judged in fractions{remedy}")


class ModelWorld(World):
    """A world that a problem and a method of a user's can be made into."""

    @classmethod
    def head(cls, case: Any) -> str:
        """The problem, who takes part, tau, and the samples behind the sensitivities."""
        problem = case.problem
        held = "the samples that are trained on" if problem.held_out is None else "held-out samples"
        P = getattr(case.sampling, "size", problem.num_clients)
        return (
            f"{problem.name}: N = {problem.num_clients}, P = {P}, d = {problem.dim}, "
            f"tau = {case.algorithm.tau:g}, sensitivities on {held}"
        )


def exact(values: Any) -> np.ndarray:
    """Floats to their last bit."""
    return np.frompyfunc(Fraction, 1, 1)(np.asarray(values, dtype=float))


def exact_of_each(values: Any, counts: Any) -> list[np.ndarray]:
    """The first n_k rows of every client's values, to their last bit."""
    return [exact(v[: int(n)]) for v, n in zip(values, counts, strict=True)]


def samples_of(problem: Problem) -> tuple[LinearModel, list[np.ndarray]]:
    """The linear model whose output is measured, and each client's samples (n_k, d), exactly."""
    source = problem.held_out or problem
    if not isinstance(problem, LinearModel) or not isinstance(source, LinearModel):
        raise MissingCapability(
            f"{type(problem).__name__} is no linear model: "
            "sensitivities |2 S_k theta| need its Gram matrices S_k"
        )
    told = f"d = {problem.dim} parameters"
    check_size(problem.dim, MOST_PARAMETERS, told, ": use fewer features")
    return source, exact_of_each(source.features, source.sample_counts)


def gram(a: np.ndarray) -> np.ndarray:
    """The Gram matrix of samples (n, d)."""
    return product(a.T, a) / Fraction(len(a))


def weighing(case: Case) -> list[Fraction]:
    """The samples that weigh each client, or 1 where a cohort's clients count alike."""
    alike = case.algorithm.aggregation == "cohort"
    counts = np.ones(case.problem.num_clients) if alike else np.asarray(case.problem.sample_counts)
    return [Fraction(int(n)) for n in counts]


def sensitive(case: Case) -> dict[str, Any]:
    """All that zeta depends on: counts, S, theta and tau."""
    algorithm = case.algorithm
    source, samples = samples_of(case.problem)
    batches = num_batches(source.sample_counts, algorithm.probe_batch)
    if batches.max() > 1:
        raise InvalidInput(
            f"probe_batch = {algorithm.probe_batch}: client {int(np.argmax(batches))} has "
            f"{int(batches.max())} batches of B_k, and the statement is about one; "
            "use probe_batch=None"
        )
    theta = exact(case.x0)
    if algorithm.zero != "one" and all((a @ theta == 0).all() for a in samples):
        raise InvalidInput(
            f"zero = {algorithm.zero!r} at a start where all outputs are 0: "
            "the statements are about zeta = 1 there"
        )
    S, tau = [gram(a) for a in samples], simplest(algorithm.tau)
    return {"counts": weighing(case), "S": S, "theta": theta, "tau": tau}


def steps(case: Case) -> dict[str, Any]:
    """The clients' step lr, at most 1/L, and E: as given, else 1/(2L) and 2; and the server's."""
    solver, largest = case.local_solver, float(case.problem.beta_k.max())
    eta = Fraction(float(case.algorithm.server_lr))
    if solver is None:
        return {"lr": simplest(float(f"{1 / (2 * largest):.2g}")), "E": 2, "eta": eta}
    if isinstance(solver, LocalSGD):
        plain = solver.batch_size is None and not solver.noise_std and not callable(solver.lr)
    else:
        plain = isinstance(solver, GradientSteps) and solver.one_size
    if not plain:
        raise InvalidInput(
            "the statement is about full gradient steps of one length: "
            "use GradientSteps(E, lr), or LocalSGD(E, lr)"
        )
    if solver.steps > MOST_STEPS:
        raise InvalidInput(
            f"E = {solver.steps} local steps, at most {MOST_STEPS} are judged in fractions"
        )
    if solver.lr * largest > 1 + 1e-12:
        raise InvalidInput(f"lr = {solver.lr:.6g}: it must be at most 1/L = {1 / largest:.6g}")
    lr = Fraction(float(solver.lr))
    if solver.lr * largest > 1 - 1e-12:  # as 1/L in floats may be above it by rounding
        lr *= 1 - Fraction(1, 2**38)
    return {"lr": lr, "E": int(solver.steps), "eta": eta}


def quadratics(case: Case) -> dict[str, Any]:
    """H, c, lr, E and eta of least squares, to the last bit."""
    problem = case.problem
    if not isinstance(problem, LeastSquares):
        raise MissingCapability(
            f"{type(problem).__name__} is no quadratic loss of a linear model: "
            "use problems.LeastSquares"
        )
    rows = exact_of_each(problem.features, problem.sample_counts)
    targets = exact_of_each(problem.targets, problem.sample_counts)
    H = [gram(a) + Fraction(float(problem.ridge)) * identity(problem.dim) for a in rows]
    c = [
        solve(h, product(a.T, b) / Fraction(len(b)), one_of_many=True)
        for h, a, b in zip(H, rows, targets, strict=True)
    ]
    return {"H": H, "c": c, **steps(case)}
