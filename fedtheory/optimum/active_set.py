"""Candidate points and multipliers for `fedtheory.optimum.on_ball`: the conic solver's, and those of an active-set polish.

Nothing here is believed; what it yields is judged by enclosures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fedtheory.optimum.duality import Multipliers, NonsmoothStructure
from fedtheory.optimum.intervals import dot

__all__ = ["candidates", "candidates_near", "conic_point", "polished"]

TOLERANCES = (1e-6, 1e-8, 1e-4, 1e-10, 1e-3)  # of an active set, the likeliest first
Candidate = tuple[Any, Any, str, str]  # point or None, multipliers or None, origin, what the solver said


def candidates(
    form: NonsmoothStructure, radius: float, near: tuple[np.ndarray, Multipliers] | None = None
) -> Iterator[Candidate]:
    """Points and multipliers, the solver's first, then polished ones for several guesses of the
    active set.

    near: what a smaller ball gave; before the solver is asked, it is polished for balls a little
    and much larger than its point.
    """
    if near is not None and len(form.rows) + len(form.slopes) and not len(form.centers):
        for size in (1.01 * float(np.linalg.norm(near[0])), radius):
            for _, point, multipliers in polished(form, size, *near, TOLERANCES[:1]):
                yield point, multipliers, "nearby", "not asked"
    x, m, said = conic_point(form, _ball(radius))
    if float(form.top_weight.mag) > 0:
        yield x, None, "conic", said
        yield *_symmetric(form, radius), "closed form", said
        return
    if x is None or m is None:
        x, m = np.zeros(form.dim), _empty(form)
    yield x, m, "conic", said
    if len(form.centers):
        yield from ((*found, "Newton", said) for found in _newton(form, radius, x))
        return
    for tolerance, point, multipliers in polished(form, radius, x, m, TOLERANCES):
        yield point, multipliers, f"active set at {tolerance:g}", said


FAR = 1e3  # of the ball around a point, in distances of the kinks from it


def candidates_near(form: NonsmoothStructure, radius: float, at: np.ndarray) -> Iterator[Candidate]:
    """Candidates from the same problem in coordinates around a point (d,) of the ball, and in units
    of the kinks' distances.

    There large data do not hide what differs, and the solver meets numbers of moderate size.
    Multipliers do not depend on where the origin lies, nor on units. None where the ball has no
    room around the point.
    """
    room = radius - float(np.linalg.norm(at))
    if room <= 0 or float(form.top_weight.mag) > 0:
        return
    z, intercepts, far, steep = form.offsets, form.intercepts, 0.0, 0.0
    if len(form.rows):
        z = (dot(form.rows, at[None])[:, 0] - form.offsets).hi
        sizes = np.linalg.norm(form.rows, axis=1)
        steep = float(sizes.max())
        far = float(np.max(np.abs(z) / np.maximum(sizes, 1e-300)))
    if len(form.slopes):
        groups, pieces = form.intercepts.shape
        flat = dot(form.slopes.reshape(groups * pieces, form.dim), at[None])[:, 0] + form.intercepts.ravel()
        top = np.repeat(flat.hi.reshape(groups, pieces).max(axis=1), pieces)
        intercepts = (flat - top).hi.reshape(groups, pieces)
        steepest = np.maximum(np.linalg.norm(form.slopes, axis=2).max(axis=1), 1e-300)
        steep = max(steep, float(steepest.max()))
        far = max(far, float(np.max(np.abs(intercepts).max(axis=1) / steepest)))
    if len(form.centers):
        steep = 1.0
        far = max(far, float(np.linalg.norm(form.centers - at, axis=1).max()))
    unit, slope = _power_of_two(far if far > 0 else room), _power_of_two(steep)
    pull = None if form.linear is None else form.linear * (1 / slope)
    if float(form.ridge.hi) > 0:
        held = form.ridge * at * (1 / slope)
        pull = held if pull is None else pull + held
    around = replace(
        form, rows=form.rows / slope, offsets=-z / (slope * unit) if len(form.rows) else z,
        slopes=form.slopes / slope, intercepts=intercepts / (slope * unit),
        centers=(form.centers - at) / unit if len(form.centers) else form.centers, linear=pull,
        ridge=form.ridge * (unit / slope),
    )
    for step, multipliers, origin, said in candidates(around, min(room / unit, FAR)):
        yield None if step is None else at + unit * step, multipliers, f"{origin}, around a point", said


def _power_of_two(size: float) -> float:
    return 2.0 ** round(np.log2(size)) if size > 0 else 1.0


def _empty(form: NonsmoothStructure) -> Multipliers:
    groups, pieces = form.intercepts.shape
    return Multipliers(np.zeros(len(form.rows)), np.zeros((groups, pieces)), np.zeros(form.centers.shape), np.zeros(form.dim))


def _symmetric(form: NonsmoothStructure, radius: float) -> tuple[np.ndarray, Multipliers]:
    """W max_i x_i + ridge/2 ||x||^2: all coordinates equal by symmetry, equal multipliers."""
    n, weight, ridge = form.dim, float(form.top_weight.hi), float(form.ridge.hi)
    size = min(radius, weight / (ridge * np.sqrt(n))) if ridge > 0 else radius
    m = Multipliers(np.zeros(0), np.zeros(form.intercepts.shape), np.zeros((0, n)), np.full(n, weight / n))
    return np.full(n, -size / np.sqrt(n)), m


def _ball(radius: float) -> Callable[[Any], list[Any]]:
    def constrain(x: Any) -> list[Any]:
        import cvxpy as cp

        return [cp.norm(x) <= radius]

    return constrain


def conic_point(
    form: NonsmoothStructure, constrain: Callable[[Any], list[Any]]
) -> tuple[np.ndarray | None, Multipliers | None, str]:
    """The conic solver's point, multipliers and words, over the set of the variable that
    ``constrain`` says; None where it failed."""
    import cvxpy as cp

    x = cp.Variable(form.dim)
    objective: Any = 0.0
    constraints = list(constrain(x))
    if len(form.rows):
        # max(low z, high z) = low z + (high - low) max(z, 0)
        low, up = form.low.hi, cp.Variable(len(form.rows), nonneg=True)
        kinks = form.rows @ x - form.offsets <= up
        constraints.append(kinks)
        objective = objective + (form.high.hi - low) @ up
        objective = objective + (low @ form.rows) @ x - float(low @ form.offsets)
    if len(form.slopes):
        groups, pieces = form.intercepts.shape
        t = cp.Variable(groups)
        largest = form.slopes.reshape(-1, form.dim) @ x + form.intercepts.ravel() <= np.repeat(np.eye(groups), pieces, axis=0) @ t
        constraints.append(largest)
        objective = objective + form.group_weights.hi @ t
    if len(form.centers):
        spread = np.ones((len(form.centers), 1)) @ cp.reshape(x, (1, form.dim), order="C") - form.centers
        objective = objective + form.center_weights.hi @ cp.norm(spread, axis=1)
    if float(form.top_weight.mag) > 0:
        objective = objective + float(form.top_weight.hi) * cp.max(x)
    if form.linear is not None:
        objective = objective + form.linear.hi @ x
    if float(form.ridge.hi) > 0:
        objective = objective + float(form.ridge.hi) / 2 * cp.sum_squares(x)
    conic = cp.Problem(cp.Minimize(objective), constraints)
    try:
        conic.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    except (cp.SolverError, ValueError, ArithmeticError) as failure:
        return None, None, f"failed: {type(failure).__name__}: {failure}"
    if x.value is None or not np.isfinite(x.value).all():
        return None, None, f"no point, status {conic.status!r}"
    m = _empty(form)
    u = low + kinks.dual_value if len(form.rows) else m.u
    s = largest.dual_value.reshape(m.s.shape) if len(form.slopes) else m.s
    q = _pulls(form, x.value) if len(form.centers) else m.q
    return np.asarray(x.value, dtype=float), Multipliers(np.asarray(u, dtype=float), np.asarray(s, dtype=float), q, m.top), (
        f"status {conic.status!r}"
    )


def polished(
    form: NonsmoothStructure, radius: float, x: np.ndarray, m: Multipliers, tolerances: Iterable[float]
) -> Iterator[tuple[float, np.ndarray, Multipliers]]:
    """Solve the optimality conditions with the kinks and ties that the multipliers show to be met.

    Each tolerance, as a share of a multiplier's range, says what is met; what several of them say
    is solved once. Left out are those that are met outside the ball alone.
    """
    seen = set()
    for tolerance in tolerances:
        free, ties = _met(form, m, tolerance)
        if (key := (free.tobytes(), *((top, met.tobytes()) for top, met in ties))) not in seen:
            seen.add(key)
            found = _stationary(form, radius, x, m, free, ties)
            if found is not None:
                yield tolerance, *found


def _met(form: NonsmoothStructure, m: Multipliers, tolerance: float) -> tuple[np.ndarray, list[tuple[int, np.ndarray]]]:
    """Return which kinks are met (m,), and each group's largest piece with those that tie."""
    low, high = form.low.hi, form.high.hi
    u, margin = np.clip(m.u, low, high), tolerance * (high - low)
    ties = []
    for g, weight in enumerate(np.broadcast_to(form.group_weights.hi, (len(form.slopes),))):
        s = np.maximum(m.s[g], 0.0)
        top = int(s.argmax())
        ties.append((top, np.setdiff1d(np.nonzero(s > tolerance * weight)[0], [top])))
    return (u > low + margin) & (u < high - margin), ties


def _stationary(
    form: NonsmoothStructure, radius: float, x: np.ndarray, m: Multipliers, free: np.ndarray, ties: list[tuple[int, np.ndarray]]
) -> tuple[np.ndarray, Multipliers] | None:
    """Point and multipliers that solve the optimality conditions with these kinks and ties met;
    None outside the ball.

    With E x = e the met kinks and ties and q the slope of everything else, x minimises
    q'x + ridge/2 ||x||^2 over E x = e in the ball: x = x_0 - Z Z'q / max(ridge, ||Z'q||/rho), x_0
    the least solution of E x = e, Z its null space, rho^2 = R^2 - ||x_0||^2. The multipliers then
    solve E'u = -(q + mu x).
    """
    low, high = form.low.hi, form.high.hi
    u = np.clip(m.u, low, high)
    fixed = np.where(u - low < high - u, low, high)
    slope = np.zeros(form.dim) if form.linear is None else np.array(form.linear.hi)
    if len(form.rows):
        slope = slope + np.where(free, 0.0, fixed) @ form.rows
    equations, sides, start = [form.rows[free]] if len(form.rows) else [], [form.offsets[free]], [u[free]]
    group_weights = np.broadcast_to(form.group_weights.hi, (len(ties),))
    for g, (top, met) in enumerate(ties):
        s = np.maximum(m.s[g], 0.0)
        slope = slope + group_weights[g] * form.slopes[g, top]
        equations.append(form.slopes[g, met] - form.slopes[g, top])
        sides.append(form.intercepts[g, top] - form.intercepts[g, met])
        start.append(s[met])
    e_rows = np.concatenate(equations) if equations else np.zeros((0, form.dim))
    e_side, dual = np.concatenate(sides), np.concatenate(start)
    ridge = float(form.ridge.hi)
    base, null = _solution(e_rows, e_side, form.dim)
    room_sq = radius**2 - float(base @ base)
    if room_sq < -1e-9 * radius**2:
        return None
    room, pull = np.sqrt(max(room_sq, 0.0)), null.T @ slope
    strength = float(np.linalg.norm(pull))
    size = float(np.linalg.norm(slope)) + float(np.abs(e_rows).sum(axis=1) @ np.abs(dual))
    if strength > 1e-10 * size and room > 0:
        mu = max(ridge, strength / room)
        point = base - null @ (pull / mu)
    else:  # any point of the flat will do: stay with the solver's
        mu = ridge
        move = null.T @ x if ridge == 0 else np.zeros(null.shape[1])
        length = float(np.linalg.norm(move))
        point = base + null @ (move * min(1.0, room / length if length > 0 else 1.0))
    if len(e_rows):
        for _ in range(2):
            dual = dual - np.linalg.lstsq(e_rows.T, slope + dual @ e_rows + mu * point, rcond=1e-12)[0]
    if len(form.rows):
        u = np.where(free, 0.0, fixed)
        u[free] = dual[: int(free.sum())]
    s_all, used = np.zeros_like(m.s), int(free.sum())
    for g, (top, met) in enumerate(ties):
        s_all[g, met] = dual[used : used + len(met)]
        s_all[g, top] = float(group_weights[g]) - s_all[g, met].sum()
        used += len(met)
    return point, Multipliers(u, s_all, m.q, m.top)


def _solution(rows: np.ndarray, side: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """The least-norm solution of rows x = side, and an orthonormal null-space basis (d, k)."""
    if len(rows) == 0:
        return np.zeros(dim), np.eye(dim)
    left, sizes, right = np.linalg.svd(rows, full_matrices=True)
    rank = int((sizes > 1e-11 * sizes[0]).sum())
    x = right[:rank].T @ ((left.T @ side)[:rank] / sizes[:rank])
    for _ in range(2):  # refinement: the residual is what the certificate will see
        x = x + right[:rank].T @ ((left.T @ (side - rows @ x))[:rank] / sizes[:rank])
    return x, right[rank:].T


def _pulls(form: NonsmoothStructure, x: np.ndarray) -> np.ndarray:
    """Multipliers q_c = w_c (x - c)/||x - c||; a centre at x balances the others, if it can."""
    r = x - form.centers
    size = np.linalg.norm(r, axis=1)
    at = size <= 1e-12 * max(1.0, float(np.abs(form.centers).max()))
    q = np.where(at[:, None], 0.0, form.center_weights.hi[:, None] * r / np.where(at, 1.0, size)[:, None])
    if at.any():
        held = form.center_weights.hi * at
        q = q - np.outer(held / held.sum(), q.sum(axis=0)) if held.sum() > 0 else q
    return q


def _newton(form: NonsmoothStructure, radius: float, x: np.ndarray) -> Iterator[tuple[np.ndarray, Multipliers]]:
    """Sum of distances on the ball: the nearest centre itself, and Newton on the optimality
    conditions without and with the sphere."""
    empty = _empty(form)

    def with_pulls(point: np.ndarray) -> tuple[np.ndarray, Multipliers]:
        return point, Multipliers(empty.u, empty.s, _pulls(form, point), empty.top)

    nearest = form.centers[np.linalg.norm(x - form.centers, axis=1).argmin()]
    if np.linalg.norm(nearest) <= radius:
        yield with_pulls(nearest)
    weights, dim = form.center_weights.hi, form.dim
    for sphere in (False, True):
        y, mu = (x * (radius / max(float(np.linalg.norm(x)), 1e-300)) if sphere else x.copy()), 0.0
        for _ in range(30):
            r = y - form.centers
            size = np.maximum(np.linalg.norm(r, axis=1), 1e-300)
            unit = r / size[:, None]
            slope = weights @ unit
            hessian = (weights / size).sum() * np.eye(dim) - np.einsum("c,ci,cj->ij", weights / size, unit, unit)
            if not np.isfinite(hessian).all():
                break
            if sphere:
                system = np.block([[hessian + mu * np.eye(dim), y[:, None]], [y[None], np.zeros((1, 1))]])
                step = np.linalg.lstsq(system, -np.append(slope + mu * y, (y @ y - radius**2) / 2), rcond=1e-13)[0]
                y, mu = y + step[:dim], mu + step[dim]
            else:
                step = np.linalg.lstsq(hessian, -slope, rcond=1e-13)[0]
                y = y + step
            if not np.isfinite(y).all():
                break
            if np.linalg.norm(step[:dim]) <= 1e-16 * np.linalg.norm(y):
                break
        if np.isfinite(y).all():
            yield with_pulls(y)
