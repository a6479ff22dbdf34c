"""The certified minimiser of F: an independent solver, a polish to machine precision, and a proven
lower bound on F*.

1. cvxpy with Clarabel (`fedtheory.optimum.conic`), whatever the size, unless a limit is asked for.
   Neither its status nor its value is believed: its point is a start, its value is shown next to
   the certified one.
2. Damped (semismooth) Newton steps in float64; the last ones use gradients computed in
   double-double arithmetic, which refines the linear solves.
3. `fedtheory.optimum.lower_bounds`: F(x) and grad F(x) are enclosed, and F* is bounded from below
   in the same arithmetic.

What is claimed: with F the function of the stored float64 data in real arithmetic,
lower_bound <= F* <= F(x) <= value. A statement about a measured F(y) should use `Optimum.excess`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, ParamSpec

import numpy as np
import scipy  # its linalg is loaded when first used

from fedtheory.arrays import OwnArrays, ReadOnlyDict
from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.inputs import check_problem, real_array, real_number
from fedtheory.limits import must_fit
from fedtheory.optimum import conic
from fedtheory.optimum.interface import Certifiable
from fedtheory.optimum.intervals import norm_up
from fedtheory.optimum.lower_bounds import LowerBound, Structure, lower_bounds
from fedtheory.store.resumable import cached_step, step_key

__all__ = ["Optimum", "assess", "certify", "kept"]

_Asked = ParamSpec("_Asked")
EXACT = 1e-28  # of F(0): what double-double arithmetic leaves where F* is 0
FLOOR = 2.0**-53  # of F(0): a width below this counts as 0 where F* may be 0
NEWTON_DIM = 3000  # above it a Hessian is no longer factorised
UNSEEN = 2.0**-30  # of the width of F(x)'s enclosure: for less a bound is left as it is
MEMORY = 50  # pairs of steps and gradients that stand for it there


@dataclass(frozen=True)
class Optimum(OwnArrays):
    """A minimiser of F with proof, which is read-only: problems keep it.

    Attributes
    ----------
    x : (d,)
        The point; where F has several minimisers, one of them.
    value : float
        F(x), rounded up: F* <= F(x) <= value.
    lower_bound : float
        At most F*, rounding included.
    gap : float
        (value - lower_bound) / details['scale'], the scale being max(|value|, |F(0)|).
    gap_to_optimum : float
        (value - lower_bound) / |value|: what is not known of F*, in units of F* itself.
    kkt_residual : float
        An upper bound of ||grad F(x)||.
    certificate : str
        The argument behind lower_bound.
    solver : str
        Where x comes from.
    details : dict
        'scale'; 'floor' (a width that counts as 0); 'conic' (what the conic solver said, or why it
        was skipped); 'conic_form' (what it solved), 'conic_entries' (how many numbers of that are
        not zero) and 'conic_seconds'; 'conic_value' (F at its point, or None); 'newton_steps';
        'bounds' (those proven, by argument).
    solver_value : float or None
        The optimal value as cvxpy reports it, before the polish (on a ball: F at its point); None
        where it gave none.
    """

    x: np.ndarray
    value: float
    lower_bound: float
    gap: float
    kkt_residual: float
    certificate: str
    solver: str
    details: dict[str, Any] = field(default_factory=dict)
    solver_value: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "details", ReadOnlyDict(self.details))

    @property
    def width(self) -> float:
        """value - lower_bound: F* lies within so much below F(x)."""
        return self.value - self.lower_bound

    @property
    def gap_to_optimum(self) -> float:
        """The width in units of |F(x)|: 0 where it is 0, and infinite or large where F* is 0."""
        return 0.0 if self.width == 0 else self.width / abs(self.value) if self.value else np.inf

    def within(self, gap: float) -> bool:
        """True if F* is known to `gap` of max(|F(x)|, |F(0)|) and of itself.

        Of itself need not be where the width is below details['floor'].
        """
        return self.gap <= gap and (self.gap_to_optimum <= gap or self.width <= self.details.get("floor", 0.0))

    def short_of(self, gap: float) -> str:
        """In words, by what it is not `within` that gap."""
        if self.gap <= gap:
            return f"F* is known to {self.gap_to_optimum:.3g} of itself, the limit is {gap:.3g}"
        return f"the proven relative gap is {self.gap:.3g}, the limit {gap:.3g}"

    def excess(self, values: Any) -> tuple[Any, Any]:
        """Measured F(y) (...) -> (at most, at least): F(y) - F* is between F(y) - value and
        F(y) - lower_bound.

        The first is F(y) - lower_bound: a bound that it meets holds. The second is F(y) - value: a
        bound that it exceeds is violated.
        """
        return values - self.lower_bound, values - self.value


def kept(made: Callable[_Asked, Optimum]) -> Callable[_Asked, Optimum]:
    """The function, whose optimum is a `cached_step` of a long command."""

    @wraps(made)
    def found(*args: _Asked.args, **options: _Asked.kwargs) -> Optimum:
        problem: Any = args[0]

        def name() -> str:
            value = float(problem.objective(np.ones(problem.dim)))
            return step_key("optimum", *args, options, value)

        def make() -> dict[str, Any]:
            return _plain(vars(made(*args, **options)))

        return Optimum(**cached_step(name, make, shared=True))

    return found


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """The dict and those in it, as dicts that may be written to."""
    return {k: _plain(v) if isinstance(v, dict) else v for k, v in values.items()}


@kept
def certify(problem: Certifiable, gap: float = 1e-12, max_conic_entries: int | None = None) -> Optimum:
    """The certified minimiser of F.

    Parameters
    ----------
    problem : Certifiable
        A `fedtheory.problems.Problem`, or whatever has the methods that `fedtheory.optimum.interface` names.
    gap : float > 0
        Largest relative gap that is accepted.
    max_conic_entries : int or None
        cvxpy is left out where its cone programme has more entries than this, and the result says so.
        None: there is no limit.

    Raises
    ------
    InvalidInput
        gap is not a positive number, max_conic_entries no integer >= 0.
    NotCertified
        F is not convex (names the most negative eigenvalue), has no minimiser, or no bound of that gap could be proven.
    """
    check_problem(problem)
    gap = real_number("gap", gap, above=0, remedy="for example 1e-12")
    if problem.dim > NEWTON_DIM:
        must_fit(f"an optimum in dimension {problem.dim:,}", 2.0 * MEMORY * problem.dim, "take fewer features or classes")
    structure = problem.structure()
    found = conic.solve(problem, max_conic_entries)
    start, said, conic_value = _start(problem, found)
    x, steps = _polish(problem, structure, start)
    best = _assess(problem, structure, x)
    origin = np.zeros(problem.dim)
    if x.any() and not best.within(gap) and float(problem.objective(origin)) <= best.value:
        best = min(best, _assess(problem, structure, origin), key=lambda o: o.gap)
    if not best.within(gap):
        why = structure.why_not(x)
        raise NotCertified(
            f"{problem!r}: no optimum could be certified: {best.short_of(gap)} (||grad F|| <= "
            f"{best.kkt_residual:.3g} at the best point; cvxpy: {said}). {why[:1].upper()}{why[1:]}"
        )
    solver = "cvxpy with Clarabel + Newton polish" if conic_value is not None else f"Newton polish only: cvxpy {said}"
    return replace(best, solver=solver, solver_value=found.value, details=best.details | {
        "conic": said, "conic_form": found.form, "conic_entries": found.entries, "conic_seconds": found.seconds,
        "conic_value": conic_value, "newton_steps": steps,
    })


def assess(problem: Certifiable, x: Any) -> Optimum:
    """Prove what can be proven of F* from a given point x (d,), however good: `gap` says which.

    Raises
    ------
    InvalidInput
        x has another shape or is not finite.
    NotCertified
        F is not convex, or of a kind for which no bound is known.
    """
    check_problem(problem)
    point = real_array("x", x)
    if point.shape != (problem.dim,):
        raise InvalidInput(f"x of shape {point.shape}: expected ({problem.dim},) finite numbers")
    return _assess(problem, problem.structure(), point)


def _assess(problem: Certifiable, structure: Structure, x: np.ndarray) -> Optimum:
    with np.errstate(over="ignore", invalid="ignore"):
        value, gradient = structure.enclose(x)
        upper = float(value.upper)
        scale = max(abs(upper), abs(float(problem.objective(np.zeros(problem.dim)))))
        bounds = lower_bounds(structure, x, value, gradient, enough=max(1e-13 * abs(upper), EXACT * scale))
    # Without any bound F* may be -infinity.
    best = bounds[0] if bounds and np.isfinite(upper) else LowerBound(-np.inf, "none")
    width = upper - best.value
    floor = max(FLOOR * scale, upper - float(value.lower))  # F(x) itself is known to no more than its enclosure
    gap = 0.0 if width == 0 else width / scale if scale > 0 else np.inf
    return Optimum(
        x.copy(), upper, best.value, float(gap), norm_up(gradient.mag), best.name, "given point",
        {"scale": scale, "floor": floor, "bounds": {b.name: b.value for b in bounds}},
    )  # fmt: skip


def _start(problem: Certifiable, found: conic.ConicSolve) -> tuple[np.ndarray, str, float | None]:
    """Return where the polish starts (d,), what the solver said, and F there. F is None where the
    start is 0."""
    zero = np.zeros(problem.dim)
    if found.x is None:
        return zero, found.said, None
    value = float(problem.objective(found.x))
    if not value <= float(problem.objective(zero)):
        return zero, f"gave a point that is worse than 0, {found.said}", None
    return found.x, found.said, value


def _polish(problem: Certifiable, structure: Structure, x: np.ndarray) -> tuple[np.ndarray, int]:
    """Newton from x (d,) until the gradient stops decreasing: the point and the number of steps."""
    if problem.dim > NEWTON_DIM:
        from scipy.optimize import minimize

        found = minimize(
            problem.objective, x, jac=problem.full_gradient, method="L-BFGS-B",
            options={
                "maxiter": 20_000, "maxfun": 40_000, "ftol": 0.0, "gtol": 1e-15, "maxcor": MEMORY
            },
        )
        return found.x, int(found.nit)
    coordinates, _ = structure.coordinates
    if len(coordinates) == 0:
        return x, 0
    x, steps = _newton(problem, structure, x, coordinates)
    # Refinement: gradients without rounding, the factor of the last Hessian.
    with np.errstate(over="ignore", invalid="ignore"):
        value, gradient = structure.enclose(x)
        size = np.inf
        solve = _factor(structure.hessian(x, quick=True)[0], coordinates)
        for _ in range(8):
            if solve is None:
                break
            step = solve((gradient.hi + gradient.lo)[coordinates])
            decrement = abs(float(step @ gradient.hi[coordinates]))
            if not decrement < size / 4:
                break
            loss = decrement  # of the bound, about
            if structure.ridge:
                loss = float(gradient.hi @ gradient.hi) / structure.ridge
            if size < np.inf and loss <= UNSEEN * float(value.upper - value.lower):
                return x, steps
            size, kept, steps = decrement, x, steps + 1
            x = x.copy()
            x[coordinates] -= step
            value, gradient = structure.enclose(x)
        else:
            return x, steps
    return (kept if size < np.inf else x), steps


def _newton(problem: Certifiable, structure: Structure, x: np.ndarray, coordinates: np.ndarray) -> tuple[np.ndarray, int]:
    """Damped Newton with plain float64 values, until rounding hides any further decrease."""
    value = float(problem.objective(x))
    for steps in range(200):
        if structure.separated(x, quick=True):
            return x, steps
        g = problem.full_gradient(x)[coordinates]
        solve = _factor(structure.hessian(x, quick=True)[0], coordinates)
        if solve is None:
            return x, steps
        step = solve(g)
        slope = float(step @ g)
        if not slope > 1e-15 * abs(value) or not np.isfinite(step).all():
            return x, steps
        length, moved = 1.0, x.copy()
        while length > 1e-10:
            moved[coordinates] = x[coordinates] - length * step
            trial = float(problem.objective(moved))
            if trial <= value - 1e-4 * length * slope:
                break
            length /= 2
        else:
            return x, steps
        x, value = moved, trial
    return x, 200


def _factor(h: np.ndarray, coordinates: np.ndarray) -> Any:
    """g -> (H_JJ + tau D)^-1 g with the smallest tau that makes it positive definite; H is scaled to a unit diagonal."""
    h = h[np.ix_(coordinates, coordinates)]
    diagonal = np.diag(h)
    floor = max(float(diagonal.max(initial=0.0)) * 1e-16, 1e-300)
    scale = 1 / np.sqrt(np.maximum(diagonal, floor))
    hs = h * scale * scale[:, None]
    tau = 0.0
    while True:
        try:
            factor = scipy.linalg.cho_factor(hs + tau * np.eye(len(h)), lower=True)
            # not finite where H is 0: who asks for a step looks at it
            return lambda g: scale * scipy.linalg.cho_solve(factor, scale * g, check_finite=False)
        except np.linalg.LinAlgError:
            tau = max(tau * 100, 1e-14)
            if tau > 1e6:
                return None
        except ValueError:  # not finite
            return None
