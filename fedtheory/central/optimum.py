"""The minimum of F over a convex set, between a point of the set and Fenchel's dual."""

from __future__ import annotations

import warnings

import numpy as np

from fedtheory._cvxpy import cvxpy
from fedtheory.central.sets import Consensus, ConstraintSet
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.inputs import real_number, shown
from fedtheory.local.exact_prox import with_groups
from fedtheory.optimum.active_set import conic_point
from fedtheory.optimum.certify import Optimum
from fedtheory.optimum.duality import Multipliers, NonsmoothStructure
from fedtheory.problems.base import Problem

__all__ = ["optimum_over"]

ROUNDING = 1e-13  # of the sizes of the terms, by which a bound in floats is lowered


def optimum_over(problem: Problem, constraint: ConstraintSet, gap: float = 1e-6) -> Optimum:
    """A minimiser of F over the set, and a number that F is not below there.

    cvxpy with Clarabel gives a point and multipliers. The point is projected, so that it lies in
    the set. With P the slope and -c the constant of the dual at the multipliers, made feasible,
    F* >= -c + min over the set of <P, x> + ridge/2 ||x||^2, which one linear minimisation (or one
    projection, with a ridge) computes. Both are computed in float64, and the bound is lowered by
    what rounding can do.

    Parameters
    ----------
    problem : Problem
        With a dual form (`Problem.nonsmooth_structure`): F is its weighted mean. Over `Consensus`
        it is the one on the ball.
    gap : float > 0
        The largest gap, relative to the larger of |F*| and |F(0)|.

    Raises
    ------
    MissingCapability
        A problem without a dual form; a set without a cvxpy form, or without the oracle that is
        needed.
    NotCertified
        The gap is larger.
    """
    gap = real_number("gap", gap, above=0)
    if not (isinstance(problem, Problem) and isinstance(constraint, ConstraintSet)):
        raise InvalidInput(f"problem = {shown(problem)}, constraint = {shown(constraint)}: give a Problem and a ConstraintSet")
    if isinstance(constraint, Consensus):
        if constraint.radius is None:
            raise MissingCapability("the consensus set without a radius is unbounded: state the radius")
        found = problem.optimum_on_ball(constraint.radius)
        return Optimum(np.tile(found.x, constraint.blocks), *(getattr(found, f) for f in _FIELDS))
    form = with_groups(problem.nonsmooth_structure())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an inaccurate solution is judged by its gap
        cvxpy()
        x, m, said = conic_point(form, constraint.constraints)
    if x is None or m is None:
        raise NotCertified(f"{problem!r}: no minimiser over {constraint!r} was found (conic solver: {said}); scale the data")
    x = constraint.project(x)
    value, (lower, size) = float(problem.objective(x)), _dual_bound(form, m, constraint)
    lower -= ROUNDING * (size + abs(value))
    scale = max(abs(value), abs(float(problem.objective(np.zeros(problem.dim)))), 1e-300)
    relative = max(value - lower, 0.0) / scale
    if not relative <= gap:
        raise NotCertified(
            f"{problem!r}: no minimum over {constraint!r} could be certified: the relative gap is {relative:.3g}, the limit {gap:.3g} "
            f"(conic solver: {said}); allow a larger gap, or scale the data"
        )
    details = {"set": repr(constraint), "scale": scale, "conic": said, "gap": value - lower}
    return Optimum(x, value, lower, relative, value - lower, f"Fenchel dual over {constraint!r}", "Clarabel", details, value)


_FIELDS = ("value", "lower_bound", "gap", "kkt_residual", "certificate", "solver", "details", "solver_value")


def _dual_bound(form: NonsmoothStructure, m: Multipliers, constraint: ConstraintSet) -> tuple[float, float]:
    """The dual value at the multipliers, made feasible, and the sizes of its terms added up."""
    slope = np.zeros(form.dim) if form.linear is None else np.array(np.broadcast_to(form.linear.hi, (form.dim,)), dtype=float)
    constant = size = 0.0
    if len(form.rows):
        u = np.clip(m.u, form.low.hi, form.high.hi)
        slope, constant = slope + u @ form.rows, constant - float(u @ form.offsets)
        size += float(np.abs(u) @ (np.abs(form.rows).sum(axis=1) + np.abs(form.offsets)))
    if len(form.slopes):
        s = np.maximum(m.s, 0.0) + 1e-300
        s *= (form.group_weights.hi / s.sum(axis=1))[:, None]
        slope, constant = slope + np.einsum("gp,gpd->d", s, form.slopes), constant + float((s * form.intercepts).sum())
        size += float((s * (np.abs(form.slopes).sum(axis=2) + np.abs(form.intercepts))).sum())
    if len(form.centers):
        q = m.q * np.minimum(1.0, form.center_weights.hi / np.maximum(np.linalg.norm(m.q, axis=1), 1e-300))[:, None]
        slope, constant = slope + q.sum(axis=0), constant - float((q * form.centers).sum())
        size += float((np.abs(q) * (1 + np.abs(form.centers))).sum())
    ridge = float(form.ridge.hi)
    x = constraint.project(-slope / ridge) if ridge > 0 else constraint.linear_minimiser(slope)
    size *= 1 + float(np.abs(x).max())
    return constant + float(slope @ x) + ridge / 2 * float(x @ x), size
