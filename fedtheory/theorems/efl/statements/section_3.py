"""EFL, section 3: the two ways (2) and (3) of writing the elastic term, the server's step (6), and the order of C_tau.

(3) expands the squares of (2), so that both differ by what does not depend on omega. (6) is judged round by round on runs of
Algorithm 1 in fractions, and the order of C_tau on the constants of Theorem 1's runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import fraction, integer, table, text
from fedtheory.theorems.efl.notation import BUILDERS, HOLDS, statement
from fedtheory.theorems.efl.quantities.run import EFLConstants, EFLRun
from fedtheory.theorems.efl.statements.error_feedback import (
    CONSISTENT,
    DENSE,
    LITERAL,
    TEXT,
    ServerRound,
)
from fedtheory.theorems.efl.theorem_1 import ASSUMPTIONS
from fedtheory.theory.judge.setting import ClosedView
from fedtheory.theory.judge.statement import Sides, eq, form, le

__all__ = ["STATEMENTS", "TermView"]

MISSING = "some client does not take part"


# --- (2) and (3) ----------------------------------------------------------------------------------
@dataclass
class TermView(ClosedView):
    """The elastic term of one round and of the next.

    Attributes
    ----------
    lam : lambda
    u, anchors : (N, d) diagonals of the Fisher matrices, and the models omega^i they were taken at
    next_u, next_anchors : the same one round later
    points : (M, d) where the term is looked at, M >= 2
    active : (N,) of bools, who took part in the round that the pairs are from
    """

    lam: Any
    u: np.ndarray
    anchors: np.ndarray
    next_u: np.ndarray
    next_anchors: np.ndarray
    points: np.ndarray
    active: np.ndarray

    def __post_init__(self) -> None:
        self.facts = frozenset(set() if self.active.all() else {MISSING})

    def term(self, w: np.ndarray) -> np.ndarray:
        """(2) without f_k: lambda/2 sum_i (w - omega^i)' diag(I_i) (w - omega^i), of points."""
        return self.lam * (self.u * (w[..., None, :] - self.anchors) ** 2).sum(axis=(-2, -1)) / 2

    def expanded(self, w: np.ndarray, square: Any = 1, cross: Any = 1) -> np.ndarray:
        """(3) without f_k and Z: lambda/2 w' sum diag(I_i) w - lambda w' sum diag(I_i) omega^i."""
        U, V = self.u.sum(axis=0), (self.u * self.anchors).sum(axis=0)
        return square * self.lam * (U * w**2).sum(axis=-1) / 2 - cross * self.lam * (w * V).sum(axis=-1)

    def constant(self, later: bool = False) -> Any:
        """Z = lambda/2 sum_i omega^i' diag(I_i) omega^i."""
        u, a = (self.next_u, self.next_anchors) if later else (self.u, self.anchors)
        return self.lam * (u * a**2).sum() / 2

    def slopes(self) -> np.ndarray:
        """The gradient of (2) at the points by central differences (M, d), which are exact for a square."""
        unit = np.eye(self.points.shape[1], dtype=int)
        at = self.points[:, None, :]
        return (self.term(at + unit) - self.term(at - unit)) / 2

    def elastic_gradient(self, who: np.ndarray | None = None, factor: Any = 1) -> np.ndarray:
        """lambda (U w - V) at the points, the sums over all clients or over some."""
        some = slice(None) if who is None else who
        U, V = self.u[some].sum(axis=0), (self.u * self.anchors)[some].sum(axis=0)
        return self.lam * (U * self.points - factor * V)

    def printed_constants(self) -> dict[str, Any]:
        return {"lambda": text(self.lam), "Z": text(self.constant())}


@BUILDERS.add("term")
def term_view(data: dict[str, Any]) -> TermView:
    """From lam, u, anchors, next_u, next_anchors, points (two or more), and active (numbers of the
    clients that took part)."""
    rows = [table(data[k], k) for k in ("u", "anchors", "next_u", "next_anchors")]
    points, lam = table(data["points"], "points"), fraction(data["lam"], "lam")
    n, d = rows[0].shape
    if any(r.shape != (n, d) for r in rows) or points.shape[1] != d or len(points) < 2:
        raise InvalidInput("u, anchors, next_u and next_anchors: a row of d numbers a client; points: at least two rows of d numbers")
    if lam <= 0 or min(rows[0].min(), rows[2].min()) < 0:
        raise InvalidInput("lambda must be > 0, and Fisher diagonals >= 0")
    active = np.zeros(n, dtype=bool)
    active[[integer(k, "active", 0, n - 1) for k in data["active"]]] = True
    return TermView(lam, rows[0], rows[1], rows[2], rows[3], points, active)


def _rearranged(v: TermView, square: Any = 1, cross: Any = 1) -> Sides:
    """(2) less what (3) has before Z: the same at all points."""
    two, three = v.term(v.points), v.expanded(v.points, square, cross)
    return eq((two - three)[1:], (two - three)[0], abs(two[1:]) + abs(three[1:]) + abs(two[0]) + abs(three[0]))


def _constant(v: TermView, factor: Any = 1) -> Sides:
    two, three = v.term(v.points), v.expanded(v.points)
    return eq(two - three, factor * v.constant() + 0 * two, abs(two) + abs(three))


def _gradient(v: TermView, who: np.ndarray | None = None, factor: Any = 1) -> Sides:
    slopes = v.slopes()
    return eq(slopes, v.elastic_gradient(who, factor), v.lam * (v.u.sum(axis=0) * abs(v.points) + (v.u * abs(v.anchors)).sum(axis=0)))


TWO = r"\tfrac\lambda2\sum_{i=1}^N(\omega-\omega^i)^\top\mathrm{diag}(I_i)(\omega-\omega^i)"
THREE = r"\tfrac\lambda2\omega^\top\sum_i\mathrm{diag}(I_i)\omega-\lambda\omega^\top\sum_i\mathrm{diag}(I_i)\omega^i"


# --- (6) ------------------------------------------------------------------------------------------
def _rounds(v: Any, change: Any) -> Sides:
    """omega_{tau+1} = omega_tau + change, round by round and coordinate by coordinate."""
    rounds: list[ServerRound] = v.rounds_seen
    parts = [abs(r.w) + abs(r.R_G) + (r.p[:, None] * (abs(r.R) + abs(r.x) + abs(r.last))).sum(axis=0) for r in rounds]
    return eq(np.stack([r.after for r in rounds]), np.stack([r.w + change(r) for r in rounds]), np.stack(parts), noise=v.noise)


def _worked(r: ServerRound, last: Any = 0) -> np.ndarray:
    """-sum_k p_tau^k sum_{j < s} eta g_j, with the gradient j = s as well where ``last`` is 1."""
    return (r.p[:, None] * (r.x - last * r.last)).sum(axis=0)


def _third_line(r: ServerRound, last: Any, residuals: Any, server: Any = 1) -> np.ndarray:
    return server * r.R_G + residuals * (r.p[:, None] * r.R).sum(axis=0) + _worked(r, last)


def _second_line(r: ServerRound, server: Any = 1) -> np.ndarray:
    """R^G + sum_k p_tau^k (R^k + omega_s^k - omega_0^k)."""
    return server * r.R_G + (r.p[:, None] * (r.R + r.x)).sum(axis=0)


def _consistent(r: ServerRound, tenths: int = 10) -> np.ndarray:
    kept = r.R_G - r.R_G_after + (r.weights[:, None] * (r.R - r.R_after)).sum(axis=0)
    return tenths * kept / 10 + _worked(r)


STEP = r"\omega^G_{\tau+1}=\omega^G_\tau+R^G_{\tau-1}"
GRADIENTS = r"\textstyle\sum_kp^k_\tau\sum_{j=0}^{%s}\eta_\tau g^k_j"


# --- the order of C_tau ---------------------------------------------------------------------------
def _C(c: EFLConstants, at: np.ndarray, largest: bool = False, rest: Any = 1) -> np.ndarray:
    """C_tau at tau = 1, 2, ...: the sum of its two parts, or their maximum with B_t as printed."""
    start, noise = c.gamma**2 * c.start_sq + 0 * c.y[at], c.noise_sum(c.B("added" if largest else "positive part"))[at]
    return np.maximum(start, noise) if largest else start + rest * noise


def _after_0(v: EFLRun) -> tuple[EFLConstants, np.ndarray, Callable[..., Sides]]:
    """The constants, the horizons tau >= 1, and lhs <= sum of terms there, for every scenario alike
    where there are several."""
    v = replace(v, horizons=v.horizons[v.horizons > 0])
    return v.constants, v.horizons, lambda *sides: le(*(v.column(np.asarray(side)) for side in sides))


def _order(v: EFLRun, largest: bool = False, share: Any = 1, power: int = 1) -> Sides:
    """C_tau <= tau (gamma^2 ||w_0 - w*||^2 + (16E/mu)^2 max_t E[B_t]/S_t^2), the larger of both for the maximum."""
    c, at, both = _after_0(v)
    start, most = c.gamma**2 * c.start_sq, (16 * c.E / c.mu) ** 2 * (c.B("added" if largest else "positive part") / c.S**2).max()
    tau = at + 0 * c.y[at]
    return both(_C(c, at, largest), share * (max(start, most) if largest else start + most) * (tau if power else tau**0))


def _affine(v: EFLRun, share: Any = 1) -> Sides:
    """C_tau <= gamma^2 ||w_0 - w*||^2 + tau (16E/mu)^2 max_t E[B_t]/S_t^2."""
    c, at, both = _after_0(v)
    most = (16 * c.E / c.mu) ** 2 * (c.B() / c.S**2).max()
    return both(_C(c, at), c.gamma**2 * c.start_sq + 0 * c.y[at], share * at * most)


def slope_of_C(c: EFLConstants) -> Any:
    """b = theta max_k p^k sigma_k^2 + 2(2+theta)L max_k D_k +
    (2+mu/(2(1+theta)L))E(E-1)G^2(1+theta(theta-2)_+) + 2EG^2 theta.

    E[B_t] <= b S_t, since p_t^k <= theta p^k and so sum_k p_t^k <= theta.
    """
    theta, n = c.theta, c.E * (c.E - 1)
    third = (2 + c.mu / (2 * (1 + theta) * c.L)) * n * c.G_sq * (1 + theta * max(theta - 2, 0))
    return theta * (c.weights * c.sigma_sq).max() + 2 * (2 + theta) * c.L * c.D.max() + third + 2 * c.E * c.G_sq * theta


def _explicit(v: EFLRun, share: Any = 1) -> Sides:
    """C_tau <= gamma^2 ||w_0 - w*||^2 + tau (16E/mu)^2 b/min S."""
    c, at, both = _after_0(v)
    return both(_C(c, at), c.gamma**2 * c.start_sq + 0 * c.y[at], share * at * (16 * c.E / c.mu) ** 2 * slope_of_C(c) / c.S.min())


def _converges(v: EFLRun, share: Any = 1) -> Sides:
    """The bound of Theorem 1 is at most K/(E^2 tau) + (J/E) H_tau/tau, K the constant with C_tau <= K tau."""
    c, at, both = _after_0(v)
    most = (16 * c.E / c.mu) ** 2 * (c.B() / c.S**2).max()
    K, H, y = c.gamma**2 * c.start_sq + most, c.H()[at], c.y[at]
    return both(_C(c, at) / y**2 + H * c.J / y, share * K / (c.E**2 * at), share * c.J / c.E * H / at)


B_MAX = r"(\tfrac{16E}\mu)^2\max_t\tfrac{\mathbb E[B_t]}{S_t^2}"
START = r"\gamma^2\|\omega_0-\omega^*\|^2"


def _hundredths(v: EFLRun, number: int) -> Any:
    return (v.constants.start_sq * 0 + number) / 100


STATEMENTS = (
    statement(
        "elastic-rearrangement",
        "the elastic term expanded, with its constant and its gradient",
        "section 3.1, (2) and (3)",
        form(
            "printed", TWO + "=" + THREE + r"+Z\text{ with one }Z\text{ for all }\omega", _rearranged, "holds",
            ("lambda for lambda/2", lambda v: _rearranged(v, square=2)),
            ("nine tenths of the cross term", lambda v: _rearranged(v, cross=9 * v.lam / (10 * v.lam))),
            kind="term",
            note="f_k stands on both sides. diag(I_i) may be read as a matrix or, with products coordinate by coordinate, as the "
            "vector "
            "that Algorithm 1 sends",
            proof="the squares multiplied out",
        ),
        form(
            "Z", TWO + "=" + THREE + r"+Z,\ Z=\tfrac\lambda2\sum_i\omega^{i\top}\mathrm{diag}(I_i)\omega^i", _constant, "holds",
            ("nine tenths of Z", lambda v: _constant(v, 9 * v.lam / (10 * v.lam))), kind="term",
            note="the only Z there can be: put omega = 0",
            proof="the squares multiplied out",
        ),
        form(
            "elastic gradient", r"\nabla\big(" + TWO + r"\big)=\lambda(U\odot\omega-V),\ U=\sum_iu^i,\ V=\sum_iv^i", _gradient,
            "holds",
            ("nine tenths of V", lambda v: _gradient(v, factor=9 * v.lam / (10 * v.lam))), kind="term",
            note="the left side by central differences, exact for squares. Z has gradient 0: U and V, two vectors, are all a client "
            "needs",
            proof="the derivative of each square",
        ),
        form(
            "the sums over those that take part", r"\nabla\big(" + TWO + r"\big)=\lambda\sum_{i\in S_{\tau-1}}(u^i\odot\omega-v^i)",
            lambda v: _gradient(v, v.active), "violated", kind="term", needs=(MISSING,),
            note="(2) sums over all N clients, and Algorithm 1 receives pairs of the participants only: the server has to keep "
            "everybody's last pair",
        ),
        form(
            "one Z for all rounds", r"Z_\tau=Z_{\tau+1},\ Z_\tau=\tfrac\lambda2\sum_i\omega_{\tau-1}^{i\top}\mathrm{diag}(I_{\tau-1,i})"
            r"\omega_{\tau-1}^i", lambda v: eq(v.constant(), v.constant(later=True)), "violated", kind="term",
            note="a constant for omega, not for tau: no step sees it, but the minimum of F~_k, and with it D_k, moves with the anchors",
        ),
        assumptions=(
            "lambda > 0, the Fisher diagonals are >= 0",
        ),
    ),
    statement(
        "server-step",
        "the server's step, line by line",
        "section 3.1, (6)",
        form(
            "printed", STEP + "-" + GRADIENTS % r"s^k_\tau" + r"\text{ (third line)}",
            lambda v: _rounds(v, lambda r: _third_line(r, 1, 0)), "violated",
            kind="feedback", needs=(LITERAL,),
            note="two misprints: the last local step is j = s - 1, and each Delta omega^k begins with R^k",
        ),
        form(
            "printed, second line", STEP + r"+\textstyle\sum_kp^k_\tau(R^k_{\tau-1}+\omega^k_s-\omega^k_0)",
            lambda v: _rounds(v, _second_line), "holds",
            ("without R^G", lambda v: _rounds(v, lambda r: _second_line(r, 0))),
            ("nine tenths of R^G", lambda v: _rounds(v, lambda r: _second_line(r, 9 * v.eta / (10 * v.eta)))),
            kind="feedback", needs=(LITERAL,),
            note="the formulas as printed: Delta omega^k arrives uncompressed, and Delta omega^G is added so",
            proof="the definition of Delta omega^k and Delta omega^G in Algorithm 1",
        ),
        form(
            "up to s-1", STEP + "-" + GRADIENTS % r"s^k_\tau-1", lambda v: _rounds(v, lambda r: _third_line(r, 0, 0)), "violated",
            kind="feedback", needs=(LITERAL,),
            note="one misprint put right, the clients' residuals still missing",
        ),
        form(
            "with R^k", STEP + r"+\textstyle\sum_kp^k_\tau R^k_{\tau-1}-" + GRADIENTS % r"s^k_\tau",
            lambda v: _rounds(v, lambda r: _third_line(r, 1, 1)), "violated",
            kind="feedback", needs=(LITERAL,),
            note="the other one put right, one gradient too many",
        ),
        form(
            "repaired", STEP + r"+\textstyle\sum_kp^k_\tau R^k_{\tau-1}-" + GRADIENTS % r"s^k_\tau-1",
            lambda v: _rounds(v, lambda r: _third_line(r, 0, 1)), "holds",
            ("up to s", lambda v: _rounds(v, lambda r: _third_line(r, 1, 1))),
            ("without R^k", lambda v: _rounds(v, lambda r: _third_line(r, 0, 0))),
            ("without R^G", lambda v: _rounds(v, lambda r: _third_line(r, 0, 1, 0))),
            kind="feedback", needs=(LITERAL,),
            proof="[printed, second line] with omega^k_s - omega^k_0 = -sum_{j<s} eta_tau g^k_j",
        ),
        form(
            "up to s-1, nothing left out", STEP + "-" + GRADIENTS % r"s^k_\tau-1" + r"\text{ where }ST(T)=T",
            lambda v: _rounds(v, lambda r: _third_line(r, 0, 0)), "holds",
            ("up to s", lambda v: _rounds(v, lambda r: _third_line(r, 1, 0))),
            kind="feedback", needs=(LITERAL, DENSE),
            note="all residuals are then 0: the third line is about EFL without compression",
            proof="[repaired], where all residuals are 0",
        ),
        form(
            "text of 3.1", STEP + r"+\textstyle\sum_kp^k_\tau(R^k_{\tau-1}+\omega^k_s-\omega^k_0),\ "
            r"\text{clients send }ST(\Delta\omega^k)",
            lambda v: _rounds(v, _second_line), "violated", kind="feedback", needs=(TEXT,),
            note="the server cannot add what it was not sent",
        ),
        form(
            "repaired, consistent form", r"\textstyle\omega_{\tau+1}=\omega_\tau+R^G_{\tau-1}-R^G_\tau+\sum_kp^k(R^k_{\tau-1}-R^k_"
            r"\tau)-"
            + GRADIENTS % r"s^k_\tau-1", lambda v: _rounds(v, _consistent), "holds",
            ("without the residuals", lambda v: _rounds(v, lambda r: _consistent(r, 0))),
            ("nine tenths of the residuals", lambda v: _rounds(v, lambda r: _consistent(r, 9))),
            kind="feedback", needs=(CONSISTENT,),
            note="both sides compress what they send and keep the rest; summed over rounds it is efl/residual-invariant",
            proof="the server moves by R^G_{tau-1} - R^G_tau + sum_k p^k C(D^k), and C(D^k) = "
            "R^k_{tau-1} - R^k_tau + (p_tau^k/p^k)(omega^k_s - omega^k_0)",
        ),
        assumptions=("quadratics, scheme C, ST with exactly k entries both ways, full gradients",),
    ),
    statement(
        "order-of-c",
        "C_tau is O(tau), and what follows where H_tau is o(tau)",
        "section 3.2, after Theorem 1",
        form(
            "printed", r"C_\tau=\max\{\cdot,\cdot\}\le\tau\max\{" + START + "," + B_MAX + r"\}\ (\tau\ge1)",
            lambda v: _order(v, largest=True), HOLDS,
            ("without tau", lambda v: _order(v, largest=True, power=0)), kind="run",
            note="B_t with its bracket as printed. The statement is about the sequence C_tau, whatever it bounds; it needs "
            "min_t S_t > 0, which gamma asks for as well",
            proof="tau terms are at most tau times the largest, and 1 <= tau",
        ),
        form(
            "repaired", r"C_\tau=" + START + r"+(\tfrac{16E}\mu)^2\sum_{t<\tau}\tfrac{\mathbb E[B_t]}{S_t^2}\le\tau\big(" + START + "+"
            + B_MAX + r"\big)\ (\tau\ge1)", _order, HOLDS,
            ("without tau", lambda v: _order(v, power=0)), ("nine tenths of it", lambda v: _order(v, share=_hundredths(v, 90))),
            kind="run", note="attained at tau = 1",
            proof="tau terms are at most tau times the largest, none is negative, and 1 <= tau",
        ),
        form(
            "one rate", r"C_\tau\le" + START + r"+\tau" + B_MAX, _affine, HOLDS,
            ("99 hundredths of it", lambda v: _affine(v, _hundredths(v, 99))), kind="run",
            note="attained under one law of participation: the order is exact where E[B_t] > 0",
            proof="tau terms are at most tau times the largest",
        ),
        form(
            "explicit", r"C_\tau\le" + START + r"+\tau(\tfrac{16E}\mu)^2\tfrac b{\min_tS_t},\ b=\theta\max_kp^k\sigma_k^2+"
            r"2(2+\theta)L\max_kD_k+(2+\tfrac\mu{2(1+\theta)L})E(E-1)G^2(1+\theta(\theta-2)_+)+2EG^2\theta", _explicit, HOLDS,
            ("half of it", lambda v: _explicit(v, _hundredths(v, 50))), kind="run",
            note="no moment of (p, s) but min S: p_t^k <= theta p^k, so that sum_k p_t^k <= theta and E[B_t] <= b S_t. Attained under "
            "full participation by equal clients",
            proof="note",
        ),
        form(
            "and converges", r"\tfrac{C_\tau}{(\tau E+\gamma)^2}+\tfrac{H_\tau J}{\tau E+\gamma}\le\tfrac K{E^2\tau}+"
            r"\tfrac JE\cdot\tfrac{H_\tau}\tau,\ K=" + START + "+" + B_MAX, _converges, HOLDS,
            ("a thousandth of it", lambda v: _converges(v, _hundredths(v, 1) / 10)), kind="run",
            note="so that the bound vanishes where H_tau is o(tau), as is said below Theorem 1",
            proof="[repaired], and tau E + gamma >= tau E",
        ),
        assumptions=ASSUMPTIONS,
    ),
)  # fmt: skip
