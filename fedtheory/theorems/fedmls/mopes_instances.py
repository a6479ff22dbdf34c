"""Runs of the library's MOPES and MOLES on balls, boxes, simplices and norm balls, on which their statements are judged in floats."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedtheory.central import MOLES, MOPES, Ball, Box, ConstraintSet, Function, L1Ball, NuclearBall, Simplex
from fedtheory.problems.base import Problem
from fedtheory.randomness import Stream
from fedtheory.theorems.fedmls.views import EXACT_PROX, INSIDE, LINEAR, NATURAL, PROJECTED, STEPS, MopesView

__all__ = ["MopesInstance", "mopes_battery", "view_of_central_run"]

SETS = ("ball", "box", "simplex", "l1", "nuclear", "largest entry", "segment")
POINT = np.array([1.0, -0.7, 0.4, 0.1, 2.0, -0.2])
WIDE = 12  # dimension of the largest entry on the simplex


def view_of_central_run(
    method: MOPES, problem: Problem, constraint: ConstraintSet, x0: np.ndarray, star: np.ndarray, least: float, *,
    seeds: range = range(1), noise: float = 0.0, distance_sq: float | None = None,
) -> MopesView:  # fmt: skip
    """The view of one run, or of one for every seed where the subgradients are noisy.

    Parameters
    ----------
    star, least : a minimiser of F over the set, and F* or a lower bound of it
    noise : absolute uncertainty of F*
    distance_sq : ||x_0 - x*||^2 where it is not that of the arrays, as on a product space
    """
    runs = [method.run(problem, constraint, x0, seed=s) for s in seeds]
    linear = isinstance(method, MOLES)
    facts = {EXACT_PROX if method.solved else STEPS, INSIDE, LINEAR if linear else PROJECTED}
    more: dict[str, Any] = {}
    if isinstance(method, MOLES):
        diameter_sq = constraint.diameter**2
        more = {"C": float(method.C), "diameter_sq": diameter_sq, "calls": np.diff(runs[0].lmo_calls)[:, None].astype(float)}  # type: ignore[arg-type]
        if abs(float(method.C) - diameter_sq) <= 1e-12 * diameter_sq:  # type: ignore[arg-type]
            facts.add(NATURAL)
    excess = np.array([[run.values[-1] - least for run in runs]])
    size = 1e-12 * (1 + float(np.abs([run.values for run in runs]).max()))
    return MopesView(
        float(method.lam), float(method.D), int(method.rounds), float(method.lipschitz) ** 2,
        float(((x0 - star) ** 2).sum()) if distance_sq is None else distance_sq, excess,
        frozenset(facts), exact=not (method.noise_std or method.batch_size), noise=noise + size, **more,
    )  # fmt: skip


@dataclass(frozen=True)
class MopesInstance:
    """The distance to a point over a set that does not hold it, whose minimiser is the projection; or the largest entry on a simplex.

    Attributes
    ----------
    constraint : of `SETS`
    method : 'mopes' or 'moles'
    epsilon : accuracy for which lambda, D, K (and C = diameter^2) are chosen; G = 1. On the segment it is lambda, and K = 1: there
        x_1 = x_0, the whole segment away from the minimiser
    noise : noise_std; 0 is deterministic
    """

    constraint: str
    method: str
    epsilon: float
    noise: float = 0.0
    scenarios: int = 1
    seed: int = 0

    kind = "mopes"

    @property
    def family(self) -> str:
        return f"{self.method.upper()} on sets"

    @property
    def name(self) -> str:
        return f"{self.method} {self.constraint} eps={self.epsilon:g}" + (f" noise={self.noise:g}" if self.noise else "")

    def set(self) -> ConstraintSet:
        """X."""
        return {
            "ball": Ball(6, 1.3), "box": Box(6, -0.5, 0.8), "simplex": Simplex(6), "l1": L1Ball(6, 1.3),
            "nuclear": NuclearBall(2, 3, 1.3), "largest entry": Simplex(WIDE), "segment": Box(1, -1.0, 1.0),
        }[self.constraint]  # fmt: skip

    def view(self) -> MopesView:
        """The run, from a vertex."""
        constraint = self.set()
        x0 = constraint.linear_minimiser(np.eye(constraint.dim)[0])
        if self.constraint == "largest entry":
            problem, star = _largest_entry(WIDE), np.full(WIDE, 1 / WIDE)
        else:
            point = np.full(1, 3.0) if self.constraint == "segment" else POINT
            problem, star = _distance(point), constraint.project(point)
        distance_sq = float(((x0 - star) ** 2).sum())
        noisy: dict[str, Any] = {"sigma": self.noise, "noise_std": self.noise}
        if self.constraint == "segment":
            more: dict[str, Any] = {} if self.method == "mopes" else {"C": constraint.diameter**2}
            method = (MOLES if more else MOPES)(self.epsilon, 1e-3, 1, 1.0, **more, **noisy)
        elif self.method == "mopes":
            method = MOPES.for_accuracy(self.epsilon, 1, distance_sq, **noisy)
        else:
            method = MOLES.for_accuracy(self.epsilon, 1, distance_sq, constraint.diameter, **noisy)
        least, seeds = float(problem.objective(star)), range(self.seed, self.seed + self.scenarios)
        return view_of_central_run(method, problem, constraint, x0, star, least, seeds=seeds)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "name": self.name}


def _distance(c: np.ndarray) -> Function:
    def subgradient(x: np.ndarray) -> np.ndarray:
        size = np.linalg.norm(x - c, axis=-1, keepdims=True)
        return (x - c) / np.where(size > 0, size, 1.0)

    return Function(len(c), lambda x: np.linalg.norm(x - c, axis=-1), subgradient, lipschitz=1.0)


def _largest_entry(n: int) -> Function:
    return Function(n, lambda x: x.max(axis=-1), lambda x: np.eye(n)[np.argmax(x, axis=-1)], lipschitz=1.0)


def mopes_battery(seed: int = 0) -> list[MopesInstance]:
    """Every set, with projections and with linear minimisations, and one with noisy subgradients."""
    both = ("mopes", "moles")
    out = [MopesInstance(s, m, 1.5 if m == "mopes" else 2.0) for s in SETS if s != "segment" for m in both]
    out += [MopesInstance("segment", m, lam) for m in both for lam in (1.0, 50.0)]
    first = int(Stream(seed).generator("fedmls noisy MOPES").integers(2**31))
    return [*out, MopesInstance("simplex", "mopes", 2.0, 1.0, 12, first), MopesInstance("segment", "mopes", 1.0, 1.0, 8, first)]
