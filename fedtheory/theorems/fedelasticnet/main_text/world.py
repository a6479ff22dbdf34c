"""The worlds of the main text and of Appendix B.3: everything in fractions, and no runs.

Numbers of a user's problem are taken to their last bit, so that Gram matrices stay positive
semidefinite, as they must; lambda_1, lambda_2, step sizes and what is given are the simplest
fractions that round to them.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import LocalSGD
from fedtheory.problems.quadratic import Quadratic
from fedtheory.rational import simplest, simplest_each
from fedtheory.theorems.fedelasticnet.notation import EXACT
from fedtheory.theorems.fedelasticnet.world import Data, ElasticWorld, positive, signed
from fedtheory.theory import Prepared
from fedtheory.theory.rounds.of_a_problem import quadratics_of
from fedtheory.theory.world import WorldInstance
from fedtheory.theory.world_setting import OF_RUNS, OF_STEPS

__all__ = [
    "ALL", "MOST_FEATURES", "QUADRATIC", "TRIAL", "MainTextWorld", "above",
    "clients", "exact", "hessian", "lambdas", "largest", "losses_of", "point", "quadratics", "steps_of",
    "trial_of", "whole",
]  # fmt: skip

MOST_FEATURES = 12
QUADRATIC = f"quadratic losses (least squares) of at most {MOST_FEATURES} coordinates"
ALL = "all clients take part, equal weights"
TRIAL = (
    "(d,) a point that minimisers are compared with; by default one away from the server's model"
)
WITHOUT_L1 = ("fedelasticnet/eq-6", "fedelasticnet/eq-8", "fedelasticnet/eq-9")


class MainTextWorld(ElasticWorld):
    """An instance of the main text's statements.

    Attributes
    ----------
    method : the method whose hyperparameters are taken
    ratio : lambda_2 over beta, where nothing is said
    units : its numbers that have the units of a loss
    """

    stream, numbered = "fedelasticnet main text ", ""
    problem, work = "diabetes", EXACT
    method: ClassVar[str] = "fedelasticnet-prox"
    ratio: ClassVar[float] = 1.0
    units: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **more: Any) -> None:
        """Name its family after its kind."""
        super().__init_subclass__(**more)
        cls.family = f"main text, {cls.kind}"

    def fill(self, **values: Any) -> None:
        """Put in what the data left out."""
        for name, value in values.items():
            if getattr(self, name) is None:
                setattr(self, name, value)

    def scaled(self, c: Any, and_l1: bool = True) -> Any:
        """The same with all that has the units of a loss times c; lambda_1 is one of them."""
        one: Any = self
        kept = () if and_l1 else ("lambda1",)
        return replace(one, **{n: c * getattr(one, n) for n in self.units if n not in kept})

    @classmethod
    def runs(cls, plan: Any) -> list[WorldInstance]:
        """Give the instances worked out by hand."""
        return [cls.instance(f"{label}, by hand", data) for label, data in cls.by_hand.items()]

    @classmethod
    def prepare(cls, statement: Any, request: Any) -> Prepared:
        """Make a case with FedElasticNet's hyperparameters.

        They are lambda_1 = 0.1, or 0 of FedDyn's statements, and lambda_2 = beta, or 30 beta of
        Algorithm 3's.
        """
        no_run = f"{statement.id} is judged in fractions, without runs; leave it out"
        of_steps = OF_STEPS if cls.work is EXACT else ()
        request.refuse((*OF_RUNS, *of_steps, "rounds", "mode"), no_run)
        request.refuse("participants", f"{statement.id} is {cls.about}; leave it out")
        problem, o = request.problem(cls.problem), request.options
        defaults: dict[str, Any] = {"l1": 0.0 if statement.id in WITHOUT_L1 else 0.1}
        if o.get("l2") is None:
            scaffold = statement.id == "fedelasticnet/eq-6"
            defaults |= {"l2": 0.0} if scaffold else {"l2_over_beta": cls.ratio}
        algorithm = request.algorithm(cls.method, problem, **defaults)
        solver = None
        if any(o.get(name) is not None for name in OF_STEPS):
            solver = steps_of(problem, o.get("local_steps"), o.get("local_lr"))
        told = (
            f"m = {problem.num_clients}, d = {problem.dim}, lambda_1 = "
            f"{algorithm.l1:g}, lambda_2 = {algorithm.l2:.6g}; {cls.about}"
        )
        return cls.case_of(problem, algorithm, told, {}, local_solver=solver)


# --- a problem of the user's ----------------------------------------------------------------------
def exact(values: Any) -> Any:
    """Floats to their last bit, and truth values as 1 and 0."""
    each: Any = np.frompyfunc(lambda value: Fraction(float(value)), 1, 1)
    return each(np.asarray(values, dtype=float))


def lambdas(case: Any) -> dict[str, Fraction]:
    """lambda_1 and lambda_2 of the user's method."""
    algorithm = case.algorithm
    if not hasattr(algorithm, "l1") or not hasattr(algorithm, "l2"):
        raise InvalidInput(
            "the statement is about FedElasticNet's lambda_1 and lambda_2, which "
            f"{type(algorithm).__name__} has not"
        )
    return {"lambda1": simplest(algorithm.l1), "lambda2": simplest(algorithm.l2)}


def quadratics(case: Any) -> tuple[np.ndarray, np.ndarray]:
    """H (m, d, d) and q (m, d) of L_k(x) = x'H_k x/2 - q_k'x, to the last bit of the samples.

    Raises
    ------
    MissingCapability
        Losses that are not quadratic, or more coordinates than are judged in fractions.
    """
    p = case.problem
    if p.dim > MOST_FEATURES:
        raise MissingCapability(
            f"d = {p.dim} coordinates, at most {MOST_FEATURES} are judged in fractions: "
            "use fewer features"
        )
    quadratics_of(p)  # other losses are refused
    if isinstance(p, Quadratic):
        H = exact(p.hessians)
        return H, np.stack([h @ c for h, c in zip(H, exact(p.minimisers), strict=True)])
    curvatures, slopes = [], []
    for features, targets, n in zip(p.features, p.targets, p.sample_counts, strict=True):
        a, b = exact(features[: int(n)]), exact(targets[: int(n)])
        ridge = np.diag([Fraction(float(p.ridge))] * p.dim)
        curvatures.append(a.T @ a / Fraction(int(n)) + ridge)
        slopes.append(a.T @ b / Fraction(int(n)))
    return np.stack(curvatures), np.stack(slopes)


def losses_of(case: Any) -> dict[str, Any]:
    """H and q of the user's losses, his start as theta, and lambda_1 and lambda_2."""
    H, q = quadratics(case)
    return {"H": H, "q": q, "theta": exact(case.x0), **lambdas(case)}


def above(value: float) -> Fraction:
    """A fraction just above a float that is known up to rounding."""
    return Fraction(value) * (1 + Fraction(1, 10**12)) + Fraction(1, 10**30)


def steps_of(problem: Any, number: int | None = None, lr: float | None = None) -> LocalSGD:
    """Full gradient steps: 2 of length 1/(2 beta), to two digits, where nothing else is said."""
    plain = float(f"{1 / (2 * float(problem.beta_k.max())):.2g}")
    return LocalSGD(2 if number is None else number, plain if lr is None else lr)


def trial_of(case: Any) -> np.ndarray:
    """The point that minimisers are compared with."""
    if "trial" not in case.given:
        return exact(case.x0) + 1
    found = simplest_each(case.given["trial"])
    if found.shape != (case.problem.dim,):
        raise InvalidInput(f"trial has the shape {found.shape}: give {case.problem.dim} numbers")
    return found


# --- random fractions -----------------------------------------------------------------------------
def whole(rng: Any, low: int, high: int) -> Fraction:
    """Draw a whole number in [low, high)."""
    return Fraction(int(rng.integers(low, high)))


def point(rng: Any, d: int) -> list[Fraction]:
    """Draw fractions of either sign, a coordinate each."""
    return [signed(rng, 8) for _ in range(d)]


def hessian(rng: Any, d: int) -> list[Any]:
    """Draw a diagonal, some of its entries 0, or the Gram matrix of d rows."""
    if d == 1 or rng.random() < 0.5:
        return [Fraction(0) if rng.random() < 0.2 else positive(rng, 16) for _ in range(d)]
    rows = [[whole(rng, -2, 3) for _ in range(d)] for _ in range(d)]
    return [[sum(r[i] * r[j] for r in rows) for j in range(d)] for i in range(d)]


def clients(rng: Any) -> tuple[int, int, Data]:
    """Draw numbers of clients and coordinates, their losses, and the server's model."""
    m, d = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    data = {"H": [hessian(rng, d) for _ in range(m)], "q": [point(rng, d) for _ in range(m)]}
    return m, d, {**data, "theta": point(rng, d)}


def largest(H: list[Any]) -> Fraction:
    """A number that is at least the largest eigenvalue of any of them."""
    sizes: Iterator[Any] = (
        sum(abs(v) for v in row) if isinstance(row, list) else row for h in H for row in h
    )
    return max(Fraction(1, 4), *sizes)
