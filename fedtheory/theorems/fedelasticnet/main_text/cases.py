"""The main text's statements on a problem of a user's: what each kind of view needs of it, and its data in fractions.

A number of a problem's is taken to its last bit, so that Gram matrices stay positive semidefinite, as
they must; lambda_1, lambda_2, step sizes and what is given are the simplest fractions that round to
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from math import gcd
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.inputs import whole_number
from fedtheory.local import LocalSGD
from fedtheory.participation.cohorts import Full
from fedtheory.problems.linear import LeastSquares
from fedtheory.problems.quadratic import Quadratic
from fedtheory.rational import simplest, simplest_each, to_file
from fedtheory.theorems.fedelasticnet.main_text.notation import BUILDERS, CLAIM, COUNTS, instance_of
from fedtheory.theory.judge.setting import Case, ClosedView
from fedtheory.theory.judge.statement import Form, Sides

__all__ = ["ACCEPTS", "CASES", "REFUSED", "EachOf", "OfAProblem", "steps_of"]

MOST_FEATURES, MOST_SAMPLES, MOST_STEPS, MOST_SUMS = 12, 1000, 8, 40_000
ACCEPTS = {
    "client": "the client whose samples are looked at; counted from 0, by default the first",
    "trial": "(d,) a point that minimisers are compared with; by default one away from the server's model",
    "controls": "the control variates c_k: 'zero', as Algorithm 2 begins, or 'fresh' for the gradients at the server's model",
    "delta": "the threshold of B.3, by default 1/10",
    "message": "(n,) or (M, n): updates without l1; by default the clients' first ones",
    "threshold": "what the l1 norm takes off each entry, by default lambda_1/(beta_k + lambda_2)",
    "bin": "the width of a bin, by default 1/100",
}


@dataclass
class EachOf(ClosedView):
    """Views of one kind, a client or a message each; a form is judged on all of them."""

    each: list[Any]

    @property
    def facts(self) -> frozenset[str]:  # type: ignore[override]
        """The facts that hold of all of them."""
        return frozenset.intersection(*(v.facts for v in self.each))

    def sides_of(self, sides: Callable[[Any], Sides]) -> Callable[[Any], Sides]:
        """The sides of all, one after the other."""

        def joined(_: Any) -> Sides:
            found = [sides(v) for v in self.each]
            lhs, rhs, scale = (np.stack([np.asarray(getattr(f, n), dtype=object) for f in found]) for n in ("lhs", "rhs", "scale"))
            axes = {1: ("client",), 2: ("client", "entry")}.get(lhs.ndim, ())
            return Sides(lhs, rhs, scale, found[0].relation, axes=axes)

        return joined


@dataclass(frozen=True)
class _Ready:
    """An instance whose view is there already."""

    made: Any

    def view(self) -> Any:
        """The view."""
        return self.made


@dataclass(frozen=True)
class OfAProblem:
    """One kind of view.

    Attributes
    ----------
    about : what a statement that is judged on it is about
    needs : what it asks of the problem and of the method, in words
    make : callable(form, case) -> instance
    example : options of `fedtheory verify`
    given : names of `ACCEPTS`
    method : the method whose hyperparameters are taken
    defaults : its hyperparameters where nothing is said; lambda_2 is ``ratio`` times beta
    """

    about: str
    needs: tuple[str, ...]
    make: Callable[[Form, Case], Any]
    example: str
    given: tuple[str, ...] = ()
    method: str = "fedelasticnet-prox"
    ratio: float = 1.0
    local_work: bool = False
    defaults: dict[str, Any] = field(default_factory=dict)


def _exact(values: Any) -> np.ndarray:
    """Floats to their last bit."""
    given = np.asarray(values, dtype=float)
    out = np.empty(given.shape, dtype=object)
    for at, value in np.ndenumerate(given):
        out[at] = Fraction(float(value))
    return out


def _lambdas(case: Case) -> dict[str, Fraction]:
    algorithm = case.algorithm
    if not hasattr(algorithm, "l1") or not hasattr(algorithm, "l2"):
        raise InvalidInput(f"the statement is about FedElasticNet's lambda_1 and lambda_2, which {type(algorithm).__name__} has not")
    return {"lambda1": simplest(algorithm.l1), "lambda2": simplest(algorithm.l2)}


def _check_all(case: Case) -> None:
    if case.sampling is not None and not isinstance(case.sampling, Full):
        raise InvalidInput(f"{type(case.sampling).__name__}: the statement is about all clients; leave out who takes part")
    w = np.asarray(case.problem.weights)
    if abs(w - 1 / len(w)).max() > 1e-12:
        raise InvalidInput("the clients have weights: R of (3) is their plain mean; use weights='uniform'")


def _quadratics(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """H (m, d, d) and q (m, d) of L_k(x) = x'H_k x/2 - q_k'x, to the last bit of the samples.

    Raises
    ------
    MissingCapability
        Losses that are not quadratic, or more coordinates than are judged in fractions.
    """
    p = case.problem
    if p.dim > MOST_FEATURES:
        raise MissingCapability(f"d = {p.dim} coordinates, at most {MOST_FEATURES} are judged in fractions: use fewer features")
    if isinstance(p, Quadratic):
        H = _exact(p.hessians)
        return H, np.stack([h @ c for h, c in zip(H, _exact(p.minimisers), strict=True)])
    if not isinstance(p, LeastSquares):
        raise MissingCapability(f"{type(p).__name__} is no quadratic loss: use problems.Quadratic or problems.LeastSquares")
    curvatures, slopes = [], []
    for features, targets, n in zip(p.features, p.targets, p.sample_counts, strict=True):
        a, b = _exact(features[: int(n)]), _exact(targets[: int(n)])
        ridge = np.diag([Fraction(float(p.ridge))] * p.dim)
        curvatures.append(a.T @ a / Fraction(int(n)) + ridge)
        slopes.append(a.T @ b / Fraction(int(n)))
    return np.stack(curvatures), np.stack(slopes)


def _above(value: float) -> Fraction:
    """A fraction just above a float that is known up to rounding."""
    return Fraction(value) * (1 + Fraction(1, 10**12)) + Fraction(1, 10**30)


def steps_of(problem: Any, number: int | None = None, lr: float | None = None) -> LocalSGD:
    """Full gradient steps: 2 of length 1/(2 beta), to two digits, where nothing else is said."""
    plain = float(f"{1 / (2 * float(problem.beta_k.max())):.2g}")
    return LocalSGD(2 if number is None else number, plain if lr is None else lr)


def _trial(case: Case) -> np.ndarray:
    if "trial" not in case.given:
        return _exact(case.x0) + 1
    found = simplest_each(case.given["trial"])
    if found.shape != (case.problem.dim,):
        raise InvalidInput(f"trial has the shape {found.shape}: give {case.problem.dim} numbers")
    return found


def regression(form: Form, case: Case) -> Any:
    """One client's samples. Raises `MissingCapability` for another problem than least squares, or too many samples."""
    p = case.problem
    if not isinstance(p, LeastSquares):
        raise MissingCapability(f"{type(p).__name__} has no least squares: use problems.LeastSquares")
    if p.dim > MOST_FEATURES:
        raise MissingCapability(f"d = {p.dim} features, at most {MOST_FEATURES} are judged in fractions: use fewer")
    k = case.given.get("client", 0)
    whole_number("client", k, least=0)
    if k >= p.num_clients:
        raise InvalidInput(f"client = {k}: there are {p.num_clients}, counted from 0")
    n = int(p.sample_counts[k])
    if n > MOST_SAMPLES:
        raise MissingCapability(f"client {k} has {n} samples, at most {MOST_SAMPLES} are judged in fractions: use more clients")
    data = {"X": _exact(p.features[k][:n]), "y": _exact(p.targets[k][:n]), "start": _exact(case.x0), "trial": _trial(case)}
    return instance_of("regression", f"client {k} of {p.name}", to_file({**data, **_lambdas(case)}))


def local(form: Form, case: Case) -> Any:
    """Each client's local problem in the first round, where the stored gradient is 0."""
    common = {"theta": _exact(case.x0), "trial": _trial(case), **_lambdas(case)}
    views = [BUILDERS["local"](to_file({"H": h, "q": q, **common})) for h, q in zip(*_quadratics(case), strict=True)]
    return _Ready(EachOf(views))


def steps(form: Form, case: Case) -> Any:
    """Local steps of all clients in the first round, or from fresh control variates."""
    _check_all(case)
    H, q = _quadratics(case)
    solver = steps_of(case.problem) if case.local_solver is None else case.local_solver
    if not isinstance(solver, LocalSGD) or solver.batch_size or solver.noise_std or callable(solver.lr):
        raise InvalidInput("the statement is about full gradient steps of one length: use LocalSGD(B, lr)")
    B, lr = solver.steps, simplest(solver.lr)
    if B > MOST_STEPS:
        raise InvalidInput(f"B = {B} local steps, at most {MOST_STEPS} are judged in fractions")
    controls = case.given.get("controls", "zero")
    if controls not in ("zero", "fresh"):
        raise InvalidInput(f"controls = {controls!r}: use zero or fresh")
    data = {"H": H, "q": q, "theta": _exact(case.x0), "lr": lr, "B": B, **_lambdas(case)}
    if controls == "fresh":
        data["controls"] = "fresh"
    return instance_of("local-steps", case.problem.name, to_file(data))


def objective(form: Form, case: Case) -> Any:
    """R, the samples' counts, and the start."""
    H, q = _quadratics(case)
    counts = [Fraction(int(n)) for n in case.problem.sample_counts]
    data = {"H": H, "q": q, "counts": counts, "theta": _exact(case.x0), "beta": _above(float(case.problem.beta_k.max()))}
    return instance_of("objective", case.problem.name, to_file({**data, **_lambdas(case)}))


def everybody(form: Form, case: Case) -> Any:
    """The first round of Algorithm 3, where all stored gradients are 0."""
    _check_all(case)
    H, q = _quadratics(case)
    lambdas = _lambdas(case)
    spectrum = np.linalg.eigvalsh(H.sum(axis=0).astype(float) / len(H))
    mu = max(Fraction(0), Fraction(float(spectrum[0])) - Fraction(float(spectrum[-1])) / 10**12)
    rule = getattr(case.algorithm, "rule", "sign") if lambdas["lambda1"] else "any"
    beta = _above(float(case.problem.beta_k.max()))
    data = {"H": H, "q": q, "theta": _exact(case.x0), "rule": rule, "beta": beta, "mu": mu, **lambdas}
    return instance_of("everybody", case.problem.name, to_file(data))


def signs(form: Form, case: Case) -> Any:
    """Fair coins for the signs of the problem's m clients in d independent coordinates, with n_k/n where a form is about them."""
    p = case.problem
    delta = simplest_each(case.given.get("delta", Fraction(1, 10)))
    if delta.shape:
        raise InvalidInput(f"delta = {case.given['delta']!r}: give one number")
    coin = [(Fraction(1), Fraction(1, 2)), (Fraction(-1), Fraction(1, 2))]
    data = {"groups": p.num_clients, "d": p.dim, "delta": delta.item(), "laws": [(Fraction(1), coin)]}
    if COUNTS in form.needs:
        counts = [int(n) for n in p.sample_counts]
        shared = reduce(gcd, counts)
        weights = [n // shared for n in counts]
        if len(set(weights)) > 1 and len(weights) * sum(weights) > MOST_SUMS:
            raise MissingCapability(f"{len(weights)} clients with {sum(weights)} samples: m n is at most {MOST_SUMS} in fractions")
        data["weights"] = [Fraction(w) for w in weights]
    return instance_of("signs", f"fair coins for {p.name}", to_file(data))


def messages(form: Form, case: Case) -> Any:
    """Messages that are given, or the clients' first updates without l1."""
    lambdas = _lambdas(case)
    given = {k: simplest_each(case.given[k]).item() for k in ("threshold", "bin") if k in case.given}
    thresholds = [lambdas["lambda1"] / (simplest(float(b)) + lambdas["lambda2"]) for b in case.problem.beta_k]
    if "message" in case.given:
        rows = np.atleast_2d(simplest_each(case.given["message"]))
        thresholds = [max(thresholds)] * len(rows)
        theta: Sequence[Fraction] | np.ndarray = [Fraction(0)] * rows.shape[-1]
    else:
        views = local(form, case).view().each
        rows, theta = np.stack([v.without_l1.delta for v in views]), _exact(case.x0)
    data = [{"x": x, "theta": theta, "threshold": t, **given} for x, t in zip(rows, thresholds, strict=True)]
    return _Ready(EachOf([BUILDERS["message"](to_file(d)) for d in data]))


QUADRATIC = f"quadratic losses (least squares) of at most {MOST_FEATURES} coordinates"
ALL = "all clients take part, equal weights"
CASES: dict[str, OfAProblem] = {
    "regression": OfAProblem(
        "about the Lasso and the elastic net on one client's samples",
        (f"least squares of at most {MOST_FEATURES} features and {MOST_SAMPLES} samples a client",), regression,
        "--problem least-squares --dimension 4 --given client=2", ("client", "trial"),
    ),
    "local": OfAProblem(
        "about each client's local problem", (QUADRATIC,), local, "--problem diabetes --clients 3", ("trial",),
    ),
    "local-steps": OfAProblem(
        "about the local steps of one round", (QUADRATIC, ALL, f"full gradient steps of one length, at most {MOST_STEPS}"), steps,
        "--problem diabetes --clients 3 --given controls=fresh", ("controls",), "fedelasticnet-scaffold", local_work=True,
    ),
    "objective": OfAProblem(
        "about the objective and the constants", (QUADRATIC,), objective, "--problem diabetes --clients 3", (),
        "fedelasticnet-dyn", 30.0,
    ),
    "everybody": OfAProblem(
        "about the first round of Algorithm 3", (QUADRATIC, ALL), everybody, "--problem diabetes --clients 3", (),
        "fedelasticnet-dyn", 30.0,
    ),
    "signs": OfAProblem(
        "about the signs of the updates, if they were fair coins",
        ("as many coins as the problem has clients and coordinates; n_k of its samples",), signs,
        "--problem diabetes --clients 10 --given delta=1/2", ("delta",),
    ),
    "message": OfAProblem(
        "about the entropy of messages", ("messages that are given, or quadratic losses of few coordinates, for their first updates",),
        messages, "--problem diabetes --clients 3 --given message=251/500,249/500 --given threshold=1/250",
        ("message", "threshold", "bin"),
    ),
}  # fmt: skip
REFUSED = {
    "density": "it is about densities, not about a problem's run",
    CLAIM: "it is a claim that cannot be proved or refuted here, so there is nothing to run",
}
