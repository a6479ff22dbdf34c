"""The certified minimiser of a nonsmooth F over the ball ||x|| <= R, the same ball that the
algorithms run on.

1. cvxpy with Clarabel gives a point and multipliers; neither its status nor its value is believed.
2. Polish: with the kinks and tied pieces that the multipliers show, the optimality conditions are
   solved in closed form.
3. The value at a point of the ball and the Fenchel dual at feasible multipliers are computed in
   double-double enclosures.

What is claimed: with F the function of the stored float64 data in real arithmetic,
lower_bound <= F* <= F(x) <= value and ||x|| <= R.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.optimum.active_set import Candidate, candidates, candidates_near
from fedtheory.optimum.certify import EXACT, Optimum, kept
from fedtheory.optimum.duality import Multipliers, NonsmoothStructure, check_gap, check_radius, into_ball
from fedtheory.optimum.interface import CertifiableOnBall
from fedtheory.optimum.intervals import Enclosure, norm_up

__all__ = ["LARGEST_RADIUS", "HasConstants", "certify_on_ball", "choose_radius", "is_smooth"]

LARGEST_RADIUS = 2.0**20  # of a ball that is tried
FLOOR = 1e-12  # of F(0): a width below this counts as 0 where F* may be 0; the radius times the dual's rounded slope is lost
SHARP = 2.0**-50  # of F*: a few units in the last place, where nothing is left to polish
CENTRES = 3  # points around which the problem is looked at again, where F* is not known well


class HasConstants(Protocol):
    """A problem's constants, which say whether it is solved on a ball, and on which one. They raise
    `MissingCapability` for what the problem lacks."""

    def smoothness(self) -> np.ndarray:
        """beta_k (N,)."""

    def lipschitz(self, radius: float) -> np.ndarray:
        """G_k (N,) on the ball."""

    def optimum_on_ball(self, radius: float) -> Optimum:
        """The certified minimiser over ||x|| <= radius."""


def is_smooth(problem: HasConstants) -> bool:
    """True if the problem has smoothness constants; without them it is solved on a ball."""
    try:
        problem.smoothness()
    except MissingCapability:
        return False
    return True


def choose_radius(problem: HasConstants, radius: float | None, x0: np.ndarray | None = None) -> tuple[float, str]:
    """The radius, and where it is from: as given, or the least power of 2 whose ball provably holds a minimiser, and x_0.

    Raises
    ------
    InvalidInput
        radius <= 0; x_0 outside the given ball; no minimiser in any ball tried.
    MissingCapability
        A problem without Lipschitz constants on a ball.
    """
    size = 0.0 if x0 is None else float(np.linalg.norm(x0))
    if radius is not None:
        radius = check_radius(radius)
        if size > radius * (1 + 1e-12):
            raise InvalidInput(
                f"||x_0|| = {size:.6g} is outside the ball of radius {radius:g}: enlarge the radius, or start inside it"
            )
        return radius, "given"
    problem.lipschitz(1.0)  # tells a missing capability before anything is solved
    r = 1.0
    while r < size or problem.optimum_on_ball(r).details["constraint"] != "inactive":
        r *= 2
        if r > LARGEST_RADIUS:
            raise InvalidInput(f"no ball up to radius {LARGEST_RADIUS:g} could be shown to hold a minimiser: give the radius")
    return r, "chosen: the least power of 2 whose ball holds a minimiser" + (" and x_0" if size else "")


@kept
@np.errstate(all="ignore")  # what overflows is no bound
def certify_on_ball(problem: CertifiableOnBall, radius: float, gap: float = 1e-9) -> Optimum:
    """The certified minimiser of F over ||x|| <= radius.

    The fields of the `Optimum` are those of `fedtheory.optimum`, with kkt_residual an upper bound of
    ||P + (ridge + multiplier) x||, P the slope of the dual. In details: 'radius', 'scale', 'floor',
    'multiplier' (of ||x||^2/2 <= R^2/2; 0 where the constraint is idle), 'constraint', 'active'
    (True, False or None), 'conic' (status), 'conic_value' (F at the solver's point), 'polish' (where
    the best point and bound come from). The constraint is

    'inactive'   the same multipliers prove, to the same gap, that F is nowhere lower on the ball of radius 2R either;
    'active'     a point outside the ball is provably lower: the unconstrained problem has no minimiser in this ball;
    'undecided'  neither could be proven.

    Raises
    ------
    InvalidInput
        radius or gap is not a finite number > 0.
    NotCertified
        The proven relative gap exceeds the limit.
    """
    radius, gap = check_radius(radius), check_gap(gap)
    form = problem.nonsmooth_structure()
    best_x, best_m, status, conic_value = _solve(form, radius, gap)
    x, value, how_x = best_x
    m, lower, (constant, slope), how_m = best_m
    scale = max(abs(value), abs(float(form.value(np.zeros(form.dim)).upper)))
    if scale == 0:  # F(0) = F* = 0: relative to F elsewhere
        scale = abs(float(form.value(into_ball(np.full(form.dim, radius / np.sqrt(form.dim)), radius)).upper))
    width = value - lower
    relative = 0.0 if width == 0 else width / scale if scale > 0 else np.inf
    multiplier = _multiplier(form, x, slope)
    residual = norm_up((slope + Enclosure.exact(x) * (multiplier + float(form.ridge.hi))).mag)
    if value - form.least(constant, slope, 2 * radius) <= gap * scale:
        constraint = "inactive"
    else:
        constraint = "active" if _lower_outside(form, radius, x, m, lower) else "undecided"
    details = {
        "radius": radius, "scale": scale, "floor": FLOOR * scale, "multiplier": multiplier,
        "constraint": constraint, "active": {"active": True, "inactive": False}.get(constraint),
        "conic": status, "conic_value": conic_value, "polish": f"point: {how_x}; bound: {how_m}",
    }
    solver = "closed form" if how_x == "closed form" else "Clarabel" if how_x == how_m == "conic" else "Clarabel + polish"
    found = Optimum(
        x, value, lower, float(relative), residual,
        f"Fenchel dual on the ball of radius {radius:g}", solver, details, conic_value,
    )
    if not found.within(gap):
        raise NotCertified(
            f"{problem!r}: no optimum on the ball of radius {radius:g} could be certified: "
            f"{found.short_of(gap)} (conic solver: {status}). Allow a larger gap, or scale the data"
        )
    return found


def _solve(form: NonsmoothStructure, radius: float, gap: float) -> tuple[tuple, tuple, str, float | None]:
    """The best point (x, value, origin) and the best multipliers (m, bound, (constant, slope),
    origin) among the candidates."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # an inaccurate solution is a fine start
        best = _Best(None, None)
        status, conic_value = "not used", None
        for x, m, origin, said in _tried(form, radius, gap, best):
            status = said if status == "not used" else status
            if x is not None and np.isfinite(x).all():
                x = into_ball(x, radius)
                value = float(form.value(x).upper)
                if origin == "conic":
                    conic_value = value
                if best.x is None or value <= best.x[1]:
                    best.x = x, value, origin
            if m is not None:
                dual = form.dual(m)
                lower = form.least(*dual, radius)
                if np.isfinite(lower) and (best.m is None or lower >= best.m[1]):
                    best.m = m, lower, dual, origin
            if origin == "conic" or best.x is None or best.m is None:
                continue  # the solver's own point is polished: where F is flat it may lie far off
            if best.x[1] - best.m[1] <= SHARP * max(abs(best.x[1]), 1e-300):
                break
    if best.x is None or best.m is None:
        raise NotCertified(
            f"no point or no bound on the ball of radius {radius:g} (conic solver: {status}): check that the data are of moderate size"
        )
    return best.x, best.m, status, conic_value


@dataclass
class _Best:
    """The best point (x, value, origin) and the best multipliers (m, bound, (constant, slope), origin) so far."""

    x: tuple | None
    m: tuple | None


def _tried(form: NonsmoothStructure, radius: float, gap: float, best: _Best) -> Iterator[Candidate]:
    """Candidates, and others from coordinates around the best point so far while F* is not known to `gap` of itself."""
    yield from candidates(form, radius)
    floor = EXACT * abs(float(form.value(np.zeros(form.dim)).upper))
    for _ in range(CENTRES):
        x, m = best.x, best.m
        if x is not None and (m is not None and x[1] - m[1] <= max(gap * abs(x[1]), floor)):
            return
        yield from candidates_near(form, radius, np.zeros(form.dim) if x is None else x[0])
        if best.x is x and best.m is m:
            return


def _multiplier(form: NonsmoothStructure, x: np.ndarray, slope: Enclosure) -> float:
    size = float(x @ x)
    if size == 0:
        return 0.0
    return max(0.0, -float(x @ (slope.hi + slope.lo)) / size - float(form.ridge.hi))


def _lower_outside(form: NonsmoothStructure, radius: float, x: np.ndarray, m: Multipliers, lower: float) -> bool:
    """True if F is provably below `lower` at some point of the ball of twice the radius; (x, m) is what this one gave."""
    wide = 2 * radius
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for point, *_ in candidates(form, wide, near=(x, m)):
            if point is not None and np.isfinite(point).all() and float(form.value(into_ball(point, wide)).upper) < lower:
                return True
    return False
