"""Both sides of every step of the proof of EFL's Theorem 1 (`theorem_1_proof`); options make the mutants."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.theorems.efl.quantities.run import IrregularRunView
from fedtheory.theorems.efl.quantities.step import StepState, sq
from fedtheory.theory.judge.statement import Sides, eq, le

__all__ = [
    "bias_at_start",
    "bias_sharpened",
    "contraction",
    "expanded_at_wbar",
    "from_start",
    "gradient",
    "identity",
    "induction",
    "inner",
    "jensen",
    "noise",
    "one_client_drift",
    "one_round",
    "recursion",
    "sums_of_squares",
    "total_drift",
]


def _gbar(v: StepState) -> np.ndarray:
    """sum_k p_k alpha_i^k grad F_k(w_i^k): (O, P, E, d)."""
    weights = (v.p[:, None, :, None] * v.alpha[:, None])[..., None]
    return (weights * v.g_mean).sum(axis=2)


def noise(v: StepState, with_noise: Any = 1, correlated: bool = False) -> Sides:
    """Step 1, given (p, s); ``correlated``: p_k^2/p^k for p_k^2, for mini-batches that are correlated in any way."""
    star, E = v.oracles.star, v.law.E
    after = v.over_batches(sq(v.wbar[:, :, 1:] - star))
    before = v.over_batches(sq(v.wbar[:, :, :E] - star - v.eta * _gbar(v)))
    squares = v.p**2 / v.oracles.weights if correlated else v.p**2
    noise = v.eta**2 * (squares[:, :, None] * v.alpha * v.sigma_sq[:, None]).sum(axis=1)
    return le(after, before, with_noise * noise)


def gradient(v: StepState, theta: Any = None, smooth: bool = False, factor: Any = 2) -> Sides:
    """Step 2: ||gbar||^2 <= theta sum p alpha ||grad F_k||^2 <= 2 L theta sum p alpha (F_k - F_k^*)."""
    theta = v.theta if theta is None else theta
    if smooth:
        return le(v.active(sq(v.g_mean)), factor * v.L * v.active(v.gap))
    return le(sq(_gbar(v)), theta * v.active(sq(v.g_mean)))


def _distance(v: StepState) -> np.ndarray:
    """||w_i^k - wbar_i||^2: (O, P, N, E)."""
    E = v.law.E
    return sq(v.w[None, :, :, :E] - v.wbar[:, :, None, :E])


def inner(v: StepState, convex: Any = 1, drift: Any = 1) -> Sides:
    """Step 3."""
    star, E = v.oracles.star, v.law.E
    lhs = -2 * v.eta * ((v.wbar[:, :, :E] - star) * _gbar(v)).sum(axis=-1)
    above = v.gap - v.D[:, None]  # F_k(w_i^k) - F_k(w*)
    return le(
        lhs,
        drift * v.active(_distance(v)),
        2 * v.L * v.eta**2 * v.active(v.gap),
        -2 * v.eta * v.active(above),
        -convex * v.eta * v.mu * v.active(sq(v.w[:, :, :E] - star)),
    )


def contraction(v: StepState, quarter: Any = None) -> Sides:
    """Step 4."""
    star, E, rate = v.oracles.star, v.law.E, v.eta * v.mu
    share = (v.p[:, :, None] * v.alpha).sum(axis=1)[:, None]  # sum_k p_k alpha_i^k (O, 1, E)
    quarter = rate / 4 if quarter is None else quarter * rate
    return le(
        -rate * v.active(sq(v.w[:, :, :E] - star)),
        -quarter * share * v.start_sq,
        rate / 2 * share * sq(v.wbar[:, :, :E] - v.w0),
        rate * v.active(_distance(v)),
    )


def from_start(v: StepState, with_drift: int = 1) -> Sides:
    """Step 5, pointwise: the function gaps of all steps, expanded at w_0."""
    E, theta, eta, at_start = v.law.E, v.theta, v.eta, v.gap_at(v.w0)
    lhs = 2 * v.L * (1 + theta) * eta**2 * v.active(v.gap) - 2 * eta * v.active(v.gap - v.D[:, None])
    work = v.p * v.s  # (O, N)
    return le(
        lhs.sum(axis=-1),
        (-v.gamma_prime * (1 - eta * v.L) * (work * (at_start - v.D)).sum(axis=1))[:, None],
        (2 * (2 + theta) * v.L * eta**2 * (work * v.D).sum(axis=1))[:, None],
        with_drift * v.active(sq(v.w[:, :, :E] - v.w0)).sum(axis=-1),
    )


def bias_at_start(v: StepState, with_gap: int = 1) -> Sides:
    """Step 5, in expectation: what is left at w_0."""
    m, at_start = v.law.moments, v.gap_at(v.w0)
    lhs = -v.gamma_prime * (1 - v.eta * v.L) * (m.ps * (at_start - v.D)).sum()
    allowed = 0 if m.ratio_equal else 2 * v.eta * (m.ps * v.D).sum()
    return le(np.array([lhs]), np.array([lhs * 0 + with_gap * allowed]))


def bias_sharpened(v: StepState, with_gap: int = 1) -> Sides:
    """The same with E[p s] - c p^k."""
    m, at_start, w = v.law.moments, v.gap_at(v.w0), v.oracles.weights
    lhs = -v.gamma_prime * (1 - v.eta * v.L) * (m.ps * (at_start - v.D)).sum()
    excess = m.ps - (m.ps / w).min() * w
    return le(np.array([lhs]), np.array([lhs * 0 + with_gap * 2 * v.eta * (excess * v.D).sum()]))


def expanded_at_wbar(v: StepState) -> Sides:
    """Step 5 expanded at wbar_i, which is correlated with (p, s): E sum p alpha (F_k(wbar_i) - F_k(w*)) >= 0?"""
    gaps = np.moveaxis(v.gap_at(v.wbar[:, :, : v.law.E]) - v.D, -1, 2)  # (O, P, N, E)
    total = v.over_all(v.active(gaps)).sum()
    return le(np.array([-total]), np.array([total * 0]))


def one_client_drift(v: StepState, factor: int = 1, share: Any = 1) -> Sides:
    """Step 6a: E||w_i^k - w_0||^2 <= eta^2 G^2 i^2; ``share`` of it for a mutant."""
    i = np.arange(v.law.E + 1)
    return le(v.drift_sq, share * v.eta**2 * v.G_sq * (i**2 if factor == 1 else i) + 0 * v.drift_sq)


def _stopped_sums(v: StepState) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """sum_k p_k ||wbar - w_k||^2, sum_k p_k ||w_k - w_0||^2, ||wbar - w_0||^2 at the stopped points: (O, P, E + 1)."""
    p = v.p[:, None, :, None]
    return (
        (p * sq(v.stopped - v.wbar[:, :, None])).sum(axis=2),
        (p * sq(v.stopped - v.w0)).sum(axis=2),
        sq(v.wbar - v.w0),
    )


def identity(v: StepState, shift: int = 2) -> Sides:
    """Step 6b."""
    lhs, alone, moved = _stopped_sums(v)
    total = v.p.sum(axis=1)[:, None, None] - shift
    return eq(lhs, alone + total * moved, alone, total * moved)


def jensen(v: StepState, theta: Any = None) -> Sides:
    """Step 6c: ||wbar - w_0||^2 <= sum p_k^2/p^k ||w_k - w_0||^2 <= theta sum p_k ||w_k - w_0||^2."""
    w = v.oracles.weights[None, :, None]
    each = sq(v.stopped - v.w0)
    middle = ((v.p**2)[:, None, :, None] / w * each).sum(axis=2)
    _, alone, moved = _stopped_sums(v)
    if theta is not None:
        return le(middle, theta * alone)
    return _stack(le(moved, middle), le(middle, v.theta * alone))


def _stack(*parts: Sides) -> Sides:
    lhs, rhs, scale = (np.concatenate([np.ravel(getattr(p, n)) for p in parts]) for n in ("lhs", "rhs", "scale"))
    return Sides(lhs, rhs, scale, parts[0].relation)


def sums_of_squares(v: StepState, less: int = 0) -> Sides:
    """Step 6d: sum_{i<E} min(i, s)^2 <= s E(E-1)/2 and sum_{i<s} i^2 <= s E(E-1)/3, for every s = 0..E."""
    E = v.law.E
    s = np.arange(E + 1)
    capped = np.minimum(np.arange(E), s[:, None]) ** 2
    before = np.where(np.arange(E) < s[:, None], np.arange(E) ** 2, 0)
    zero = v.eta * 0
    first, second = capped.sum(axis=1) + zero, before.sum(axis=1) + zero
    return _stack(le(first, s * (E * (E - 1) - less) / (2 + zero)), le(second, s * (E * (E - 1) - less) / (3 + zero)))


def total_drift(v: StepState, sharp: bool = False, third: int = 1, fourth: int = 1) -> Sides:
    """Step 6e: all drift terms of a round against the third and fourth term of B."""
    E, rate = v.law.E, v.eta * v.mu
    near = v.over_all(v.active(_distance(v)).sum(axis=-1))
    own = v.over_all(v.active(sq(v.w[:, :, :E] - v.w0)).sum(axis=-1))
    share = (v.p[:, :, None] * v.alpha).sum(axis=1)[:, None]
    moved = v.over_all((share * sq(v.wbar[:, :, :E] - v.w0)).sum(axis=-1))
    lhs = (1 + rate) * near + own + rate / 2 * moved
    c = v.constants()
    common = c.noise_term[0] + c.gap_term[0]
    last = c.fourth[0] * v.G_sq * ((E - 1) if sharp else 2 * E)
    total = (c.B_sharp if sharp else c.B())[0]
    return le(np.array([lhs]), np.array([third * v.eta**2 * (total - common - last)]), np.array([fourth * v.eta**2 * last]))


def one_round(v: StepState, sharp: str = "", rest: Any = 1, quarter: Any = 1) -> Sides:
    """Step 7, given the state: E||w_{tau+1} - w*||^2."""
    c, m = v.constants(), v.law.moments
    lhs = v.over_all(sq(v.wbar[:, :, -1] - v.oracles.star))
    B = ({"uncorrelated": c.B_sharp, "any": c.B_any}[sharp] if sharp else c.B())[0]
    bias = c.J_sharp[0] if sharp else c.r[0] * c.J_t[0]
    bias = bias * v.mu * m.sum_ps * v.eta / (16 * v.law.E)  # J_t/(y + E) = 2 eta sum E[ps] D
    start = (1 - quarter * v.eta * v.mu * m.sum_ps / 4) * v.start_sq
    return le(np.array([lhs]), np.array([start]), np.array([rest * v.eta**2 * B]), np.array([rest * bias]))


# --- on whole runs ---------------------------------------------------------------------------------------------------------
def recursion(v: IrregularRunView, rest: int = 1) -> Sides:
    """a_{tau+1} <= (1 - 4E/(y+E)) a_tau + (16E/mu)^2 E[B_tau]/S_tau^2/(y+E)^2 + r_tau J/(y+E), y = tau E + gamma."""
    c = v.constants
    taus = v.horizons[v.horizons < c.T]
    y, B = c.y[taus + 1], (16 * c.E / c.mu) ** 2 * (c.B() / c.S**2)[taus]
    before, after = v.distance_sq[taus], v.distance_sq[taus + 1]

    def column(a: np.ndarray) -> np.ndarray:
        return a if v.exact else np.broadcast_to(a[:, None], before.shape)

    return le(
        after, column(1 - 4 * c.E / y) * before, column(rest * B / y**2), column(rest * c.r[taus] * c.J / y), noise=v.noise
    )


def induction(v: IrregularRunView, total: str = "sum", bias: Any = 1) -> Sides:
    """The bound at tau, put through the recursion, is at most the bound at tau + 1."""
    c = v.constants
    taus = v.horizons[v.horizons < c.T]
    start, noise = c.gamma**2 * c.start_sq + 0 * c.y, c.noise_sum(c.B())
    C = start + noise if total == "sum" else np.maximum(start, noise)
    bound = C / c.y**2 + c.H() * c.J / c.y
    y = c.y[taus + 1]
    step = (16 * c.E / c.mu) ** 2 * (c.B() / c.S**2)[taus] / y**2 + c.r[taus] * c.J / y
    lhs = (1 - 4 * c.E / y) * bound[taus] + step
    rhs = C[taus + 1] / y**2 + bias * (c.H() * c.J)[taus + 1] / y
    return le(lhs, rhs) if v.exact else le(*(np.broadcast_to(a[:, None], (len(taus), v.lhs.shape[1])) for a in (lhs, rhs)))
