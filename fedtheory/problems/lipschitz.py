"""Largest subgradients on a ball, exactly: the cells of an arrangement of hyperplanes that meet the
ball.

g = sum_j u_j a_j with u_j in {low_j, high_j} is a subgradient of sum_j max(low_j z_j, high_j z_j),
z_j = a_j'x - b_j, at some point of the ball only if the cell that its sign pattern names meets the
ball. Cells are searched best first; the bound of a partial pattern is ||g of the rows
decided|| + the norms of the others, so that the search may stop early with a proved upper bound.
"""

from __future__ import annotations

import heapq

import numpy as np

__all__ = ["largest_slope", "point_in_ball"]

FAR = 1e12  # radii beyond this many times the distance of the kinks count as infinite
PLANE = 4000  # lines in the plane above which their crossings with the circle are too many to visit
CUT = 1e-9  # relative margin by which a cell must be proved to miss the ball before it is dropped


def point_in_ball(rows: np.ndarray, rhs: np.ndarray, radius: float) -> np.ndarray | None:
    """The point of least norm in {x : rows x >= rhs}, or None when that set provably misses the
    ball of that radius.

    The proof is a multiplier lam >= 0 with rhs'lam > radius ||rows'lam|| (Lawson and Hanson,
    "Solving least squares problems", ch. 23: least distance programming by non-negative least
    squares).
    """
    from scipy.optimize import nnls

    size = np.linalg.norm(rows, axis=1)
    if (rhs[size == 0] > 0).any():
        return None
    rows, rhs = rows[size > 0] / size[size > 0, None], rhs[size > 0] / size[size > 0]
    if not (rhs > 0).any():
        return np.zeros(rows.shape[1])
    unit = max(float(np.abs(rhs).max()), 1e-300)  # scaled, so that nnls works with numbers near 1
    system = np.vstack([rows.T, rhs / unit])
    target = np.zeros(len(system))
    target[-1] = 1.0
    lam, _ = nnls(system, target, maxiter=50 * len(rows))
    push, gain = rows.T @ lam, float(rhs @ lam)
    reach = min(radius, FAR * unit)
    if gain > reach * float(np.linalg.norm(push)) * (1 + CUT) and gain > 0:
        return None
    rest = 1.0 - gain / unit
    return push * unit / rest if rest > 0 else np.full(rows.shape[1], np.nan)


def largest_slope(
    rows: np.ndarray, offsets: np.ndarray, low: np.ndarray, high: np.ndarray, radius: float,
    ridge: float = 0.0, nodes: int = 400,
) -> tuple[float, bool]:
    """sup ||g + ridge x|| over the ball, and whether it is proved attained (else it is an upper
    bound).

    rows (n, d), offsets (n,); low, high (n,) the slopes, weights included; nodes limits the cells
    that are looked at. In the plane all arcs of the circle are visited and there is no limit.
    """
    norms = np.linalg.norm(rows, axis=1) * np.maximum(np.abs(low), np.abs(high))
    order = np.argsort(-norms, kind="stable")
    order = order[norms[order] > 0]
    rows, offsets, low, high, norms = rows[order], offsets[order], low[order], high[order], norms[order]
    count, extra = len(order), ridge * radius if ridge else 0.0
    if count == 0:
        return extra, True
    if rows.shape[1] == 2 and count <= PLANE:
        u = _plane(rows, offsets, low, high, radius)
        g = u @ rows
        signs = np.where(u == high, 1.0, -1.0)
        return float(np.linalg.norm(g)) + extra, not ridge or _reached(rows, offsets, signs, g, radius)
    rest = np.append(np.cumsum(norms[::-1])[::-1], 0.0)
    most = np.maximum(np.abs(low), np.abs(high))
    spectral = float(np.linalg.norm(rows * most[:, None], 2)) * np.sqrt(count)
    heap: list[tuple] = [(-min(rest[0], spectral), 0, (), np.zeros(rows.shape[1]), np.zeros(rows.shape[1]))]
    looked = 0
    while heap:
        bound, _, signs, g, x = heapq.heappop(heap)
        k = len(signs)
        if k == count:
            size = float(np.linalg.norm(g))
            return size + extra, not ridge or _reached(rows, offsets, np.array(signs), g, radius)
        if looked >= nodes:
            return float(-bound) + extra, False
        margin = float(rows[k] @ x - offsets[k])
        for sign in (1, -1):
            inside = x
            if not sign * margin >= 0:  # also when x is unknown
                looked += 1
                s = np.array([*signs, sign], dtype=float)
                inside = point_in_ball(rows[: k + 1] * s[:, None], offsets[: k + 1] * s, radius)
                if inside is None:
                    continue
            moved = g + (high[k] if sign > 0 else low[k]) * rows[k]
            reach = min(-bound, float(np.linalg.norm(moved)) + rest[k + 1])
            heapq.heappush(heap, (-reach, -k - 1, (*signs, sign), moved, inside))
    return min(float(rest[0]), spectral) + extra, False  # every cell cut by rounding: only the plain bound is left


def _reached(rows: np.ndarray, offsets: np.ndarray, signs: np.ndarray, g: np.ndarray, radius: float) -> bool:
    """True if radius * g/||g||, where the ridge adds most, lies in the cell."""
    size = float(np.linalg.norm(g))
    if size == 0:
        return False  # the cell meets the ball, but perhaps not its boundary
    return bool((signs * (rows @ (g * (radius / size)) - offsets) >= 0).all())


def _plane(rows: np.ndarray, offsets: np.ndarray, low: np.ndarray, high: np.ndarray, radius: float) -> np.ndarray:
    """The slopes u (n,) of the steepest cell that meets the disc; rows (n, 2), none of them 0.

    The arcs of the circle are enough: subgradients are monotone, so from x along its own subgradient g they only get longer.
    """
    size = np.linalg.norm(rows, axis=1)
    normals, distances = rows / size[:, None], offsets / size
    unit = max(float(np.abs(distances).max()), 1e-300)
    reach = min(radius, FAR * unit) * (1 + CUT)  # lines that touch the circle count as met
    meets = np.abs(distances) < reach
    toward = np.arctan2(normals[meets, 1], normals[meets, 0])
    half = np.arccos(distances[meets] / reach)
    cuts = np.sort(np.concatenate([toward - half, toward + half, [0.0]]) % (2 * np.pi))
    middles = (cuts + np.append(cuts[1:], cuts[0] + 2 * np.pi)) / 2
    arcs = reach * np.stack([np.cos(middles), np.sin(middles)], axis=1)
    u = np.where(arcs @ normals.T > distances, high, low)
    return u[np.linalg.norm(u @ rows, axis=1).argmax()]
