"""The local problem of FedMLS solved to a certified gap, for losses that are sums of kinks, maxima and distances."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fedtheory.arrays import Array, astype_like, to_numpy
from fedtheory.errors import InvalidInput, LocalSolveFailed, MissingCapability
from fedtheory.inputs import check_unit
from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver, Rows
from fedtheory.optimum.active_set import polished
from fedtheory.optimum.duality import Multipliers, NonsmoothStructure, check_radius
from fedtheory.optimum.intervals import Enclosure
from fedtheory.optimum.mixtures import best_mixture
from fedtheory.problems.base import Problem

__all__ = ["ExactProx", "with_groups"]

FIRST, MOST = 25, 25_600  # dual steps before the first polish, and in all
TOLERANCES = (1e-6, 1e-9, 1e-4)  # of the guesses which kinks and ties are met


class _Point(NamedTuple):
    """A dual point (u, s, q), the primal point x that minimises its model, F(x) and the dual value."""

    m: Multipliers
    x: np.ndarray
    value: float
    dual: float

    @property
    def gap(self) -> float:
        return max(self.value - self.dual, 0.0)


@dataclass(frozen=True)
class ExactProx(LocalSolver):
    """argmin f_k(u) - <linear, u> + beta/2 ||u - center||^2 over the ball ||u|| <= R, and by how much it may be missed.

    Fenchel's dual is maximised by accelerated projected gradient steps and polished by solving the optimality conditions with
    the kinks and ties that it shows to be met. ``result.y`` (and ``result.average``) minimises the dual model, so that for
    every u of the ball

        Phi(y) - Phi(u) <= -beta/2 ||u - y||^2 + ``result.residual``,

    where the residual, the gap between Phi(y) and the dual value, is computed in float64.

    Parameters
    ----------
    radius : float > 0
        R; ``math.inf`` for none.
    tolerance : float in (0, 1)
        The largest gap, relative to the sizes of the terms of Phi.

    Raises
    ------
    InvalidInput
        Values out of range; an objective with an l1 penalty, or without a curvature > 0 that is one number.
    MissingCapability
        A problem without a dual form (`Problem.nonsmooth_structure`), or whose dual form is not its clients' own.
    LocalSolveFailed
        With round, client and gap: the tolerance was not reached.
    """

    radius: float = math.inf
    tolerance: float = 1e-12

    def __post_init__(self) -> None:
        check_radius(self.radius, finite=False)
        check_unit("tolerance", self.tolerance)

    def check(self, problem: Problem, objective: LocalObjective | None = None) -> None:
        _forms(problem)

    def solve(self, problem: Problem, objective: LocalObjective, start: Array, rows: Rows) -> LocalResult:
        beta = objective.curvature
        if not isinstance(beta, int | float) or not 0 < beta < math.inf:
            raise InvalidInput(f"curvature = {beta!r}: the exact prox needs one finite number beta > 0")
        if objective.l1:
            raise InvalidInput(f"l1 = {objective.l1!r}: the exact prox has no l1 penalty; put it into the problem's loss")
        plain = problem.like(np.zeros(1))
        forms = _forms(plain)
        center, shape = np.asarray(to_numpy(objective.center), dtype=float), start.shape
        linear = 0.0 if objective.linear is None else np.asarray(to_numpy(objective.linear), dtype=float)
        slopes = np.broadcast_to(-float(beta) * center - linear, shape)
        offsets = np.broadcast_to(float(beta) / 2 * (center * center).sum(axis=-1), shape[:-1])
        y, gaps = np.array(np.broadcast_to(center, shape)), np.zeros(shape[:-1])
        for n, form in enumerate(forms):
            for b in range(shape[1]):
                if rows.valid[n, b]:
                    found = _Dual(form, slopes[n, b], float(beta), self.radius).solve(self.tolerance, float(offsets[n, b]))
                    if found is None or found.gap > self._limit(found, form, slopes[n, b], float(offsets[n, b])):
                        gap = math.inf if found is None else found.gap
                        raise LocalSolveFailed(
                            f"round {rows.round_index}, client {rows.clients[n]}: the local problem was solved to a gap of "
                            f"{gap:.3g}, above the tolerance {self.tolerance:.3g}: allow a larger one, or train by steps"
                        )
                    y[n, b], gaps[n, b] = found.x, found.gap
        self._same_losses(plain, forms, y)
        result = astype_like(y, start)
        return LocalResult(result, astype_like(gaps, start), average=result)

    def _limit(self, found: _Point, form: NonsmoothStructure, slope: np.ndarray, offset: float) -> float:
        return self.tolerance * _scale(found, form, slope, offset)

    def _same_losses(self, problem: Problem, forms: list[NonsmoothStructure], y: np.ndarray) -> None:
        """Refuse a dual form that is not its client's loss, as one would be that uses how the clients' terms cancel."""
        own = to_numpy(problem.client_value(y))[:, 0]
        for n, form in enumerate(forms):
            said = form.value(y[n, 0])
            if abs(float(said.hi) - own[n]) > 1e-8 * (1 + abs(own[n]) + float(np.abs(y[n, 0]).sum())):
                raise MissingCapability(
                    f"{type(problem).__name__}: the dual form of client {n} alone is {float(said.hi):.6g} where its loss is "
                    f"{own[n]:.6g}; train by steps"
                )


def _forms(problem: Problem) -> list[NonsmoothStructure]:
    """The dual form of every client's own loss, kept with the problem."""
    kept = problem.__dict__
    if "_prox_forms" not in kept:
        each = (problem.subset(np.array([k])) for k in range(problem.num_clients))
        kept["_prox_forms"] = [with_groups(one.nonsmooth_structure()) for one in each]
    return kept["_prox_forms"]


def with_groups(form: NonsmoothStructure) -> NonsmoothStructure:
    """The form with a largest coordinate written as a group of coordinates."""
    if float(form.top_weight.mag) > 0:
        own = {"slopes": np.eye(form.dim)[None], "intercepts": np.zeros((1, form.dim)), "top_weight": Enclosure.exact(0.0)}
        form = replace(form, **own, group_weights=Enclosure.exact(np.array([float(form.top_weight.hi)])))  # type: ignore[arg-type]
    return form


def _scale(found: _Point, form: NonsmoothStructure, slope: np.ndarray, offset: float) -> float:
    """Sizes of the terms of Phi at the point found."""
    x, m = found.x, found.m
    size = abs(found.value) + float(np.abs(slope) @ np.abs(x)) + offset
    if len(form.rows):
        size += float(np.abs(m.u) @ (np.abs(form.rows) @ np.abs(x) + np.abs(form.offsets)))
    if len(form.slopes):
        size += float((np.abs(m.s) * (np.abs(form.slopes) @ np.abs(x) + np.abs(form.intercepts))).sum())
    if len(form.centers):
        size += float((np.abs(m.q) * (np.abs(x) + np.abs(form.centers))).sum())
    return max(size, 1e-300)


class _Dual:
    """Fenchel's dual of form(x) + <slope, x> + beta/2 ||x||^2 over the ball."""

    def __init__(self, form: NonsmoothStructure, slope: np.ndarray, beta: float, radius: float) -> None:
        own = np.zeros(form.dim) if form.linear is None else np.broadcast_to(form.linear.hi, (form.dim,))
        self.linear, self.ridge, self.radius = own + slope, float(form.ridge.hi) + beta, radius
        self.form = replace(form, linear=Enclosure.exact(self.linear), ridge=Enclosure.exact(self.ridge))
        self.low, self.high = (np.broadcast_to(e.hi, (len(form.rows),)) for e in (form.low, form.high))
        self.weights = np.broadcast_to(form.group_weights.hi, (len(form.slopes),))
        self.pulls = np.broadcast_to(form.center_weights.hi, (len(form.centers),))
        parts = [form.rows, form.slopes.reshape(-1, form.dim), *([np.eye(form.dim)] * len(form.centers))]
        stacked = np.concatenate([p for p in parts if len(p)]) if any(len(p) for p in parts) else np.zeros((1, form.dim))
        self.step = self.ridge / max(float(np.linalg.norm(stacked, 2)) ** 2, 1e-300)

    def solve(self, tolerance: float, offset: float) -> _Point | None:
        """The best of what the steps and the polishes find; it stops where the gap is within the tolerance."""
        f = self.form
        groups, pieces = f.intercepts.shape
        start = (np.clip(np.zeros(len(f.rows)), self.low, self.high), np.ones((groups, pieces)) / pieces * self.weights[:, None])
        here = self.feasible(Multipliers(*start, np.zeros(f.centers.shape), np.zeros(f.dim)))
        best, ahead, t, done, until = self.at(here), here, 1.0, 0, FIRST
        while done < MOST:
            while done < until:
                new = self.climb(ahead)
                after = (1 + math.sqrt(1 + 4 * t * t)) / 2
                ahead = _combine(new, here, (t - 1) / after)
                here, t, done = new, after, done + 1
            now = self.at(here)
            ahead, t = here, 1.0  # a restart
            found = [now, *self.polishes(now)]
            best = min([best, *found], key=lambda p: p.gap)
            if best.gap <= tolerance * _scale(best, f, self.linear, offset) / 4:
                break
            until *= 2
        return best if np.isfinite(best.gap) else None

    def feasible(self, m: Multipliers) -> Multipliers:
        """The nearest multipliers that are feasible."""
        u = np.clip(m.u, self.low, self.high)
        s = _onto_simplices(m.s, self.weights) if len(self.weights) else m.s
        size = np.linalg.norm(m.q, axis=1) if len(self.pulls) else np.zeros(0)
        q = m.q * np.minimum(1.0, self.pulls / np.maximum(size, 1e-300))[:, None] if len(self.pulls) else m.q
        return Multipliers(u, s, q, m.top)

    def slope(self, m: Multipliers) -> np.ndarray:
        """P, the sum of all slopes."""
        total = self.linear.copy()
        if len(m.u):
            total += m.u @ self.form.rows
        if len(self.weights):
            total += np.einsum("gp,gpd->d", m.s, self.form.slopes)
        return total + m.q.sum(axis=0) if len(self.pulls) else total

    def primal(self, slope: np.ndarray) -> np.ndarray:
        """argmin <P, x> + ridge/2 ||x||^2 over the ball."""
        return -slope / max(self.ridge, float(np.linalg.norm(slope)) / self.radius)

    def climb(self, m: Multipliers) -> Multipliers:
        """One projected gradient step of the dual."""
        x, f = self.primal(self.slope(m)), self.form
        u = m.u + self.step * (f.rows @ x - f.offsets) if len(m.u) else m.u
        s = m.s + self.step * (f.slopes @ x + f.intercepts) if len(self.weights) else m.s
        q = m.q + self.step * (x - f.centers) if len(self.pulls) else m.q
        return self.feasible(Multipliers(u, s, q, m.top))

    def at(self, m: Multipliers) -> _Point:
        """The point of a feasible dual point, its value and the dual's."""
        slope, f = self.slope(m), self.form
        x = self.primal(slope)
        value = constant = 0.0
        if len(m.u):
            z = f.rows @ x - f.offsets
            value += float(np.maximum(self.low * z, self.high * z).sum())
            constant -= float(m.u @ f.offsets)
        if len(self.weights):
            value += float(self.weights @ (f.slopes @ x + f.intercepts).max(axis=1))
            constant += float((m.s * f.intercepts).sum())
        if len(self.pulls):
            value += float(self.pulls @ np.linalg.norm(x - f.centers, axis=1))
            constant -= float((m.q * f.centers).sum())
        rest = self.ridge / 2 * float(x @ x)
        return _Point(m, x, value + float(self.linear @ x) + rest, constant + float(slope @ x) + rest)

    def polishes(self, now: _Point) -> list[_Point]:
        """The optimality conditions solved with the kinks and ties that the multipliers show to be met; of one maximum, its dual."""
        if len(self.pulls):
            return []
        alone = []
        if len(self.weights) == 1 and not len(self.form.rows):  # solved to rounding where the ball does not matter
            slopes, weight = self.form.slopes[0], float(self.weights[0])
            heights = self.form.intercepts[0] - slopes @ self.linear / self.ridge
            alone = [replace(now.m, s=weight * best_mixture(weight * heights, weight**2 / self.ridge * slopes @ slopes.T)[None])]
        found = polished(self.form, self.radius, now.x, now.m, TOLERANCES)
        solved = [self.feasible(m) for _, x, m in found if np.isfinite(x).all()]
        return [self.at(m) for m in alone + solved]


def _combine(new: Multipliers, old: Multipliers, by: float) -> Multipliers:
    """new + by (new - old)."""
    u, s, q = (a + by * (a - b) for a, b in zip(_parts(new), _parts(old), strict=True))
    return Multipliers(u, s, q, new.top)


def _parts(m: Multipliers) -> tuple[Any, Any, Any]:
    return m.u, m.s, m.q


def _onto_simplices(s: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Rows projected onto {v >= 0, sum v = total}, each by one sort."""
    ordered = -np.sort(-s, axis=1)
    tau = (np.cumsum(ordered, axis=1) - totals[:, None]) / np.arange(1, s.shape[1] + 1)
    last = np.maximum(np.count_nonzero(ordered > tau, axis=1) - 1, 0)
    out = np.maximum(s - tau[np.arange(len(s)), last][:, None], 0.0)
    return out * (totals / np.maximum(out.sum(axis=1), 1e-300))[:, None]
