"""Certificates for losses that are not built in, by what their classes declare."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fedtheory.errors import NotCertified
from fedtheory.optimum.interface import DeclaredLoss
from fedtheory.optimum.intervals import ROUNDOFF, TINY, UP, Enclosure
from fedtheory.optimum.loss_enclosures import RowLoss
from fedtheory.optimum.lower_bounds import Metric

__all__ = ["DeclaredRows", "declared_rows"]


class DeclaredRows(RowLoss):
    """A loss of the user's own: sup phi'' and the errors of phi and phi' are its class's.

    Only the ridge's strong convexity is used, F* >= F(x) - ||g||^2/(2 ridge): nothing is known of how phi'' changes.
    """

    radius_law = "none"

    def __init__(self, problem: DeclaredLoss) -> None:
        super().__init__(problem, problem.targets)
        self.problem = problem
        self.declared = f", phi within {problem.rounding:g} units of roundoff as declared"

    def losses(self, z: Enclosure) -> tuple[Enclosure, Enclosure]:
        at, off = z.hi[:, 0], (np.abs(z.lo) + z.rad)[:, 0] * UP
        value, slope = self.problem.phi(at, self.b), self.problem.dphi(at, self.b)
        relative, bend = self.problem.rounding * ROUNDOFF, self.problem.curvature_max
        exact = relative / (1 - relative) * UP  # relative to what is computed
        slope_rad = (np.abs(slope) * exact + bend * off) * UP
        value_rad = np.abs(value) * exact + (np.abs(slope) + slope_rad + bend * off) * off
        zeros = np.zeros_like(at)
        return Enclosure(value, zeros, value_rad * UP + TINY), Enclosure(slope, zeros, slope_rad + TINY)[:, None]

    def bends(self, z: Enclosure) -> tuple[np.ndarray, float]:
        return self.problem.d2phi(z.hi[:, 0], self.b), 0.0  # for search directions only

    def local_curvature(self, x: np.ndarray, coordinates: np.ndarray, metric: Metric, radius: float) -> float:
        return 0.0

    def why_not(self, x: np.ndarray) -> str:
        return (
            "the gradient at the best point found is too large for the ridge: set a larger ridge, "
            "or check that dphi is the derivative of phi and d2phi that of dphi"
        )


def declared_rows(problem: DeclaredLoss) -> DeclaredRows:
    """The structure of a linear model that declares `rounding`.

    Raises
    ------
    NotCertified
        No ridge; numbers declared that cannot be; numbers that samples of phi, dphi and d2phi disprove.
    """
    rounding, bend = problem.rounding, problem.curvature_max
    if not (rounding is not None and 0.5 <= rounding <= 2.0**40 and np.isfinite(bend) and bend > 0):
        raise NotCertified(
            f"{problem!r}: rounding = {rounding!r} and curvature_max = {bend!r}: declare as `rounding` the largest error of phi, dphi "
            "in units of roundoff, from 0.5 to 2^40, as `curvature_max` sup phi'' > 0"
        )
    if problem.ridge == 0:
        raise NotCertified(
            f"{problem!r}: of a loss that is not built in only the ridge's strong convexity gives a lower bound: set ridge > 0"
        )
    _sample(problem)
    return DeclaredRows(problem)


def _sample(problem: DeclaredLoss) -> None:
    """Check the declarations on a few thousand points: slope, curvature, and errors. Errors are
    checked where NumPy has a longer float."""
    labels = np.unique(problem.targets[problem.sample_weights > 0])
    b = labels[np.linspace(0, len(labels) - 1, min(len(labels), 50)).astype(int)][:, None]
    steps = 2.0 ** np.arange(-30, 7)
    z = (b + np.concatenate([-steps, [0.0], steps])).ravel()
    b = np.repeat(b[:, 0], 2 * len(steps) + 1)
    most, h = problem.curvature_max, 2.0**-15

    def refuse(off: np.ndarray, what: Callable[[int], str], remedy: str) -> None:
        """At the point where `off`, which should be at most 1, is largest."""
        off = np.where(np.isnan(off), np.inf, off)
        k = int(np.argmax(off))
        if off[k] > 1:
            raise NotCertified(f"{problem!r}: {what(k)} at z = {z[k]:.17g}, b = {b[k]:.17g}: {remedy}")

    phi, slope, bend = problem.phi(z, b), problem.dphi(z, b), problem.d2phi(z, b)
    rise = (problem.phi(z + h, b) - problem.phi(z - h, b)) / (2 * h)
    # dphi is the slope somewhere within h, so it is off by curvature_max h at most, and by the
    # rounding of the difference
    allowed = most * h + (np.abs(phi) + np.abs(slope)) * (problem.rounding + 8) * ROUNDOFF * 4 / h
    refuse(
        np.abs(rise - slope) / (allowed + TINY) / 1.01,
        lambda k: f"phi rises by {rise[k]:.6g} and dphi is {slope[k]:.6g}",
        "dphi must be the derivative of phi, and curvature_max at least sup phi''",
    )
    refuse(
        np.maximum(1 - bend / most, bend / most) / (1 + 1e-9),
        lambda k: f"d2phi is {bend[k]:.6g}, outside [0, curvature_max = {most:.6g}],",
        "the loss must be convex, and curvature_max at least sup phi''",
    )
    for name, f in (("phi", problem.phi), ("dphi", problem.dphi)):
        longer = f(z.astype(np.longdouble), b.astype(np.longdouble))
        if longer.dtype != np.longdouble or np.finfo(np.longdouble).eps > ROUNDOFF / 64:
            continue  # it cannot be told here
        off = (np.abs(f(z, b) - longer) / ROUNDOFF / np.where(longer == 0, 1, np.abs(longer))).astype(float)

        def off_by(k: int, name: str = name, off: np.ndarray = off) -> str:
            return f"{name} is off by {off[k]:.4g} units of roundoff, {problem.rounding:g} are declared,"

        refuse(
            off / (problem.rounding * 1.02), off_by,
            "write it without cancellation, or declare what it has",
        )
