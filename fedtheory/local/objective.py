"""The one form of every local objective in the papers, and the interface of what minimises it.

    f_k(y) - <linear, y> + curvature/2 ||y - center||^2 + l1 ||y - anchor||_1          (curvature may differ by coordinate)

FedProx: curvature = mu. FedElasticNet adds l1. FedDyn adds linear = stored gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from fedtheory.arrays import Array, namespace, soft_threshold, to_numpy
from fedtheory.errors import InvalidInput, MissingCapability, UnknownName

if TYPE_CHECKING:
    from fedtheory.problems.base import Problem
    from fedtheory.randomness import Stream

__all__ = ["NUMBERS", "LocalObjective", "LocalResult", "LocalSolver", "Rows", "residual_scale"]

NUMBERS = (float, int)  # a union of them is made anew at each look


@dataclass(frozen=True)
class LocalObjective:
    """Penalty part of a local objective; arrays are (S, P, d), or broadcast to it.

    Attributes
    ----------
    center : array
        Where the quadratic and l1 penalties are centred (the received server model).
    linear : array or None
        None stands for 0.
    curvature : float or array
        Coefficient of the quadratic penalty (lambda_2, mu or alpha of the papers).
    l1 : float
        lambda_1.
    anchor : array or None
        Centre of the l1 penalty; None means `center`.
    momentum : array or None
        What of -linear is a method's momentum: part of every step but of no gradient, so that clipping leaves it alone.
    """

    center: Array
    linear: Array | None = None
    curvature: float | Array = 0.0
    l1: float = 0.0
    anchor: Array | None = None
    momentum: Array | None = None

    def __new__(cls, *_: Any, **given: Any) -> LocalObjective:
        """Raise `UnknownName` with the names that there are for another one, before it is made."""
        if unknown := given.keys() - cls.__dataclass_fields__.keys():
            known = ", ".join(cls.__dataclass_fields__)
            more = "curvature is the coefficient of the quadratic penalty, as mu of FedProx and alpha of FedDyn"
            raise UnknownName(f"LocalObjective takes no {min(unknown)}: it takes {known}; {more}")
        return object.__new__(cls)

    @property
    def l1_center(self) -> Array:
        return self.center if self.anchor is None else self.anchor

    @property
    def none(self) -> bool:
        """True if there is no penalty at all, so that the objective is f_k."""
        plain = isinstance(self.curvature, NUMBERS) and self.curvature == 0
        return plain and self.linear is None and not self.l1

    def map(self, change: Any) -> LocalObjective:
        """The same penalty with every array passed through ``change`` (a layout change)."""
        made = object.__new__(LocalObjective)  # as `dataclasses.replace` would, in a fraction of its time
        fields = made.__dict__
        fields.update(self.__dict__)
        for name, value in self.__dict__.items():
            if value is not None and not isinstance(value, NUMBERS) and name != "l1":
                fields[name] = change(value)
        return made

    def smooth_penalty_gradient(self, y: Array) -> Array:
        """Gradient of -<linear, y> + curvature/2 ||y - center||^2."""
        grad = (y - self.center) * self.curvature
        return grad if self.linear is None else grad - self.linear

    def penalty_value(self, y: Array) -> Array:
        """Value of the whole penalty: (..., d) -> (...)."""
        xp = namespace(y)
        value = xp.sum((y - self.center) ** 2 * self.curvature, axis=-1) / 2
        if self.linear is not None:
            value = value - xp.sum(self.linear * y, axis=-1)
        if self.l1:
            value = value + self.l1 * xp.sum(xp.abs(y - self.l1_center), axis=-1)
        return value

    def prox(self, v: Array, step: float | Array) -> Array:
        """prox of step * l1 ||. - anchor||_1 for a scalar step or one that broadcasts."""
        if not self.l1:
            return v
        xp = namespace(v)
        anchor, t = self.l1_center, step * self.l1
        if isinstance(t, float | int):
            return anchor + soft_threshold(v - anchor, t)
        r = v - anchor
        return anchor + (r - xp.maximum(xp.minimum(r, t), -t))  # the brackets keep zeros exact

    def kkt_residual(self, y: Array, gradient: Array) -> Array:
        """Largest coordinate of the distance of 0 to the subdifferential at y: (..., d), grad f_k(y) -> (...).

        Exact zeros of y - anchor count as zeros: there the l1 subgradient may be anything in [-l1, l1].
        """
        xp = namespace(y)
        r = gradient + self.smooth_penalty_gradient(y)
        if self.l1:
            offset = y - self.l1_center
            on = xp.abs(r + self.l1 * xp.sign(offset))
            off = xp.abs(r - xp.clip(r, -self.l1, self.l1))
            r = xp.where(offset != 0, on, off)
        return xp.max(xp.abs(r), axis=-1)


def residual_scale(objective: LocalObjective, y: Array, upper: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """Sizes that a KKT tolerance is relative to, without and with the rounding of y, on the host.

    y is (N, B, d), both sizes are (N, B). upper: the largest curvatures, (N, B) or what broadcasts.
    """
    xp = namespace(y)

    def largest(a: Array) -> np.ndarray:
        return to_numpy(xp.max(xp.abs(xp.broadcast_to(a, y.shape)), axis=-1))

    scale = largest((y - objective.center) * objective.curvature) + objective.l1
    if objective.linear is not None:
        scale = scale + largest(objective.linear)
    size = to_numpy(xp.sqrt(xp.sum(y * y, axis=-1)))
    scale = np.maximum(1.0, scale)
    unit = 32 * float(xp.finfo(y.dtype).eps) / tolerance
    return scale, scale * max(1.0, unit) + unit * upper * size


class LocalResult(NamedTuple):
    """The result of a local solver, in the layout it was called in (rows or slots)."""

    y: Array  # (..., d) the local model
    residual: Array | None = None  # (...) KKT residual, from exact solvers
    # Sum of the step sizes taken (B * eta_l), from gradient solvers: a number, or (..., 1) where clients differ in it.
    step_sum: float | Array | None = None
    average: Array | None = None  # (..., d) averaged local model, from subgradient sliding


class Rows(NamedTuple):
    """A solver's rows beyond the objective: clients, scenarios, steps (client-major, (N, B))."""

    clients: np.ndarray  # (N,) client numbers in the whole problem
    scenarios: np.ndarray  # (N, B) scenario of each row
    valid: np.ndarray  # (N, B) False for padding
    stream: Stream
    round_index: int
    steps: np.ndarray | None = None  # (N, B) local steps each row completes, where the cohort says so (0: none)


class LocalSolver:
    """Minimises, or walks along, a `LocalObjective` for all rows at once.

    ``solve`` works client-major: ``problem`` holds the row clients only, ``start`` is (N, B, d).
    """

    honours_steps: ClassVar[bool] = False  # stops each row after Rows.steps, where they are given
    reports_steps: ClassVar[bool] = True  # y is the start minus step sizes times gradients, and `LocalResult.step_sum` their sum

    def check(self, problem: Problem, objective: LocalObjective | None = None) -> None:
        """Raise early when the problem lacks what the solver needs."""

    def check_steps(self, most: int | None) -> None:
        """Raise unless the solver goes by a cohort that says how many of E = ``most`` local steps each client completes."""
        if not self.honours_steps:
            raise MissingCapability(
                f"{type(self).__name__} does all its local work whatever the cohort says, and here clients complete 0 to "
                f"{most} local steps: use fedtheory.local.LocalSGD(steps={most}, ...)"
            )
        steps = getattr(self, "steps", None)
        if steps != most:
            laws = f"the participation law has E = {most} local steps"
            raise InvalidInput(f"{laws}, but the local solver makes steps = {steps}: give both the same number")

    def solve(self, problem: Problem, objective: LocalObjective, start: Array, rows: Rows) -> LocalResult:
        raise NotImplementedError

    def solve_slots(
        self, problem: Problem, objective: LocalObjective, start: Array, rows: Rows, slots: np.ndarray
    ) -> LocalResult | None:
        """The same on arrays (S, P, d) as they lie, where row (n, b) is the flat slot slots[n, b]; None: call `solve`, on rows."""
        return None
