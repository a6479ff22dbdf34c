"""Subgradient sliding: the local training of FedMLS (Algorithm 1, lines 18-27), the inner loop of MOPES and of Lan (2016)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from fedtheory.arrays import Array, astype_like, namespace, on_host
from fedtheory.compiled import available
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.inputs import real_number, require, whole_number
from fedtheory.local import sliding_compiled, sliding_steps
from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver, Rows
from fedtheory.local.sliding_draws import draws
from fedtheory.optimum.duality import check_radius
from fedtheory.problems.base import Problem

__all__ = ["SubgradientSliding", "draws", "project_ball"]


def project_ball(u: Array, radius: float) -> Array:
    """u min(1, R/||u||) along the last axis; exactly u inside the ball."""
    if math.isinf(radius):
        return u
    xp = namespace(u)
    norm, limit = xp.sqrt(xp.sum(u * u, axis=-1, keepdims=True)), astype_like(radius, u)
    return u * (limit / xp.maximum(norm, limit))


@dataclass(frozen=True)
class SubgradientSliding(LocalSolver):
    """T projected subgradient steps on f_k(u) - <linear, u> + beta/2 ||u - center||^2 from the start u_0, and their average.

    Line 22-24 for t = 1, ..., T, with g_t = the subgradient of f_k at u_{t-1} (plus noise):

        u_t = proj_R(u_{t-1} - (g_t + beta (u_{t-1} - center) - linear)/((1 + t/2) beta))
        avg_t = (1 - theta_t) avg_{t-1} + theta_t u_t,  theta_t = 2(t + 1)/(t(t + 3))

    FedMLS calls it with center = u_0, linear = -g. ``result.y`` is u_T and ``result.average`` the averaged point.

    Parameters
    ----------
    steps : int >= 1
        T.
    radius : float > 0
        R of the ball centred at the origin; ``math.inf`` for none.
    noise_std : float >= 0
        Adds N(0, noise_std^2/d I) to every subgradient: E||noise||^2 = noise_std^2.
    batch_size : int >= 1 or None
        The subgradient of that many samples, drawn with replacement: unbiased, and independent over the steps.
    engine : 'auto', 'numpy' or 'numba'
        'numpy' works in any array namespace. 'numba' is compiled, float64 (NumPy, or torch on the CPU), and for the problems that
        `fedtheory.local.sliding_compiled.compiled_form` knows; 'auto' takes it where it can. Both use the same random numbers.
    threads : int >= 1 or None
        The most threads of the compiled engine; None: one a core this process may use (or
        OMP_NUM_THREADS). Work that no thread is worth starting for is not shared.

    Raises
    ------
    InvalidInput
        Values out of range; an objective with an l1 penalty, or without a curvature > 0 that is one number.
    MissingCapability
        Mini-batches of a problem without samples; engine='numba' for a problem without a compiled form.

    Notes
    -----
    Random numbers are a function of (seed, round, client, scenario, step) alone: not of cohort layout, chunks or engine.
    """

    steps: int = 1
    radius: float = math.inf
    noise_std: float = 0.0
    batch_size: int | None = None
    engine: Literal["auto", "numpy", "numba"] = "auto"
    threads: int | None = None

    def __post_init__(self) -> None:
        whole_number("steps", self.steps, remedy="the number of local steps")
        check_radius(self.radius, finite=False)
        real_number("noise_std", self.noise_std, least=0, remedy="a root mean square norm")
        for name in ("batch_size", "threads"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), remedy="or None")
        known = ("auto", "numpy", "numba")
        require(self.engine in known, "engine", self.engine, f"use one of {', '.join(known)}")

    def check(self, problem: Problem, objective: LocalObjective | None = None) -> None:
        if self.batch_size is not None and type(problem).client_batch_gradient is Problem.client_batch_gradient:
            raise MissingCapability(f"{type(problem).__name__} has no samples to draw mini-batches from: use batch_size=None")
        if self.engine == "numba" and not compiled(problem):
            lacks = f"{type(problem).__name__} has no compiled form" if available() else "Numba cannot be imported"
            raise MissingCapability(f"{lacks}: use engine='auto' or 'numpy'")

    def solve(self, problem: Problem, objective: LocalObjective, start: Array, rows: Rows) -> LocalResult:
        self.check(problem)
        beta = objective.curvature
        if not isinstance(beta, int | float) or not (0 < beta < math.inf):
            raise InvalidInput(f"curvature = {beta!r}: subgradient sliding needs one finite number beta > 0")
        if objective.l1:
            raise InvalidInput(f"l1 = {objective.l1!r}: subgradient sliding has no l1 penalty; put it into the problem's loss")
        if self.use_compiled(problem, start):
            return sliding_compiled.solve(self, problem, objective, start, rows)
        return sliding_steps.solve(self, problem, objective, start, rows)

    def use_compiled(self, problem: Problem, start: Array) -> bool:
        """True if ``solve`` takes the compiled engine."""
        if self.engine == "numpy":
            return False
        fits = on_host(start) and start.dtype == namespace(start).float64
        if self.engine == "numba" and not fits:
            where = f"{start.dtype} on {getattr(start, 'device', 'cpu')}"
            raise InvalidInput(f"engine = 'numba' works on float64 arrays in main memory, not on {where}: use engine='auto'")
        return fits and (self.engine == "numba" or compiled(problem))


def compiled(problem: Problem) -> bool:
    """True if the compiled engine knows this problem."""
    return sliding_compiled.compiled_form(problem) is not None
