"""`fedtheory solve`: a certified optimum."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.cli.common import (
    about_problem,
    emit,
    facts,
    out_console,
    problem_of,
    progress,
    save,
    slug,
    solver_rows,
    wrote,
)

__all__ = ["solve"]


def _optimum_rows(optimum: Any, gradient: str) -> list[tuple[str, Any]]:
    x = optimum.x
    shown = np.array2string(x if x.size <= 8 else x[:8], precision=6, separator=", ", max_line_width=10_000)
    return [
        ("optimal value", f"{optimum.value:.15g} (rounded up)"),
        ("proven lower bound", f"{optimum.lower_bound:.15g}"),
        ("relative gap", f"{optimum.gap:.3g} of the larger of |F*| and |F(0)|, {optimum.gap_to_optimum:.3g} of |F*|"),
        (gradient, f"{optimum.kkt_residual:.3g} at most"),
        ("certificate", optimum.certificate),
        ("found by", optimum.solver),
        *solver_rows(optimum),
        ("x*", shown if x.size <= 8 else f"{shown[:-1]}, ...] ({x.size} numbers; all with --json)"),
    ]


def _partition_rows(problem: Any) -> list[tuple[str, Any]]:
    part = getattr(problem, "partition", None)
    return [("partition", f"{part['name']}, sha256 {part['sha256'][:12]}...")] if part else []


def _solve_on_ball(problem: Any, radius: float | None, gap: float, seed: int, as_json: bool, out: Path | None) -> None:
    from fedtheory.cli.ball import facts_on_ball
    from fedtheory.optimum.duality import check_gap
    from fedtheory.optimum.on_ball import choose_radius
    from fedtheory.provenance import provenance

    check_gap(gap)
    with progress("certifying the optimum"):
        radius, radius_from = choose_radius(problem, radius)
        optimum = problem.optimum_on_ball(radius, gap)
    result = {
        "problem": about_problem(problem),
        "radius": radius,
        "radius_from": radius_from,
        "optimum": asdict(optimum),
        "constants": {
            "lipschitz": problem.lipschitz(radius),
            "lipschitz_exact": problem.lipschitz_exact(radius),
            "lipschitz_rms": problem.lipschitz_rms(radius),
            "mu_k": problem.strong_convexity(),
        },
        "provenance": provenance(seed),
    }
    rows = _optimum_rows(optimum, "KKT residual") + facts_on_ball(problem, optimum, radius, radius_from)
    _tell(problem, f"N = {problem.num_clients} clients", result, rows, as_json, out)


def _tell(problem: Any, size: str, result: dict[str, Any], rows: list[tuple[str, Any]], as_json: bool, out: Path | None) -> None:
    """Write it, and print it."""
    path = save(out, slug("solve", problem.name), result)
    if as_json:
        emit(result)
        return
    console = out_console()
    console.print(f"[bold]{problem.name}[/bold]: {type(problem).__name__}, {size}, d = {problem.dim}")
    console.print(facts(rows + _partition_rows(problem)))
    wrote([path])


def solve(name: str | None, options: dict[str, Any], gap: float | None, seed: int, as_json: bool, out: Path | None) -> None:
    """Print, and write on request, the certified optimum; on a ball where there is a radius or no smoothness."""
    from fedtheory.optimum.on_ball import is_smooth
    from fedtheory.provenance import provenance

    problem = problem_of(name, options, seed)
    if options.get("radius") is not None or not is_smooth(problem):
        _solve_on_ball(problem, options.get("radius"), 1e-9 if gap is None else gap, seed, as_json, out)
        return
    gap = 1e-12 if gap is None else gap
    with progress("certifying the optimum"):
        optimum = problem.optimum(gap)
    c, exact = problem.constants(), problem.smoothness_exact()
    constants = {
        "beta": c.beta, "beta_joint": c.beta_joint, "mu": c.mu, "beta_k": c.beta_k, "mu_k": c.mu_k,
        "beta_k_exact": exact, "dissimilarity_sq": c.dissimilarity_sq,
    }
    about = {"problem": about_problem(problem), "optimum": asdict(optimum), "constants": constants, "provenance": provenance(seed)}
    rows = [
        *_optimum_rows(optimum, "||gradient|| at x*"),
        (
            "beta = max beta_k",
            f"{c.beta:.10g}{'' if exact.all() else ' (an upper bound)'}; clients {c.beta_k.min():.6g} to {c.beta_k.max():.6g}",
        ),
        ("beta, mu of F", f"{c.beta_joint:.10g}, {c.mu:.10g}"),
        ("dissimilarity at x*", f"{c.dissimilarity_sq:.10g} (weighted mean of ||grad f_k(x*)||^2)"),
    ]
    _tell(problem, f"m = {problem.num_clients} clients", about, rows, as_json, out)
