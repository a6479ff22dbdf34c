"""Problems on a ball ||x|| <= R: what the command line chooses there, and what it says about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.untrusted import decimal

if TYPE_CHECKING:
    from fedtheory.optimum.certify import Optimum
    from fedtheory.problems.base import Problem

__all__ = ["BY_THEORY", "facts_on_ball", "start_of", "with_theory_step"]


def start_of(text: str | None, dim: int) -> np.ndarray:
    """x_0 from '1,0,-2' (or one number for all coordinates); 0 when not given."""
    if text is None:
        return np.zeros(dim)
    try:
        point = np.array([decimal(part) for part in text.split(",")])
    except ValueError:
        raise InvalidInput(f"--start {text}: write numbers with commas, as in --start=1,0,-2") from None
    if not np.isfinite(point).all() or len(point) not in (1, dim):
        raise InvalidInput(f"--start {text}: it must be one finite number, or d = {dim} of them")
    return np.full(dim, point[0]) if len(point) == 1 else point


BY_THEORY = {"subgradient": {"--step": "by theory", "--output": "average", "--radius": "least power of 2"}}


def with_theory_step(problem: Problem, options: dict[str, Any], x0: np.ndarray, rounds: int) -> dict[str, Any]:
    """The options of the subgradient method with the step and the output that theory gives, where none are given."""
    from fedtheory.algorithms.subgradient import subgradient_parameters

    radius = options["radius"]
    distance = float(np.linalg.norm(x0 - problem.optimum_on_ball(radius).x))
    schedule: Literal["constant", "inverse-sqrt"] = options.get("schedule") or "constant"
    output: Literal["last", "average"] = options.get("output") or "average"
    made = subgradient_parameters(problem, rounds, radius, distance, schedule, output)
    return {**options, "step": made.step, "output": made.output}


def facts_on_ball(problem: Problem, optimum: Optimum, radius: float, radius_from: str) -> list[tuple[str, str]]:
    """Return the rows that `solve` prints of a problem on a ball, after the optimum itself."""
    G_i, exact = problem.lipschitz(radius), problem.lipschitz_exact(radius)
    words = {
        "inactive": "not active: F is nowhere lower outside (to the same gap)",
        "active": "active: F is lower outside, so a larger ball has another minimiser",
        "undecided": "neither active nor idle could be proven",
    }
    shown = ", ".join(f"{g:.6g}{'' if e else '*'}" for g, e in zip(G_i[:20], exact[:20], strict=True))
    more = f", ... ({len(G_i)} clients; all with --json)" if len(G_i) > 20 else ""
    note = "" if exact.all() else "; * an upper bound"
    return [
        ("radius", f"{radius:g} ({radius_from})"),
        ("||x*||", f"{float(np.linalg.norm(optimum.x)):.10g}"),
        ("||x|| <= R", words[optimum.details["constraint"]]),
        ("Lipschitz constants G_i", shown + more + note),
        ("G, their root mean square", f"{problem.lipschitz_rms(radius):.10g}"),
    ]
