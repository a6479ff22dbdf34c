"""EFL, section 3: the two ways (2) and (3) of writing the elastic term, the server's step (6), and the order of C_tau.

(3) expands the squares of (2), so that both differ by what does not depend on omega. (6) is judged round by round on runs of
Algorithm 1 in fractions, and the order of C_tau on the constants of Theorem 1's runs.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fedtheory.theorems.efl import feedback_world as on
from fedtheory.theorems.efl.notation import NINE_TENTHS
from fedtheory.theorems.efl.paper import paper
from fedtheory.theorems.efl.quantities.run import EFLConstants, EFLRun
from fedtheory.theorems.efl.runs_world import Runs
from fedtheory.theorems.efl.theorem_1 import ASSUMPTIONS
from fedtheory.theory import Sides, derived, eq, form, le, printed, repaired, wrong

TWO = r"\tfrac\lambda2\sum_{i=1}^N(\omega-\omega^i)^\top\mathrm{diag}(I_i)(\omega-\omega^i)"
THREE = r"\tfrac\lambda2\omega^\top\sum_i\mathrm{diag}(I_i)\omega-\lambda\omega^\top\sum_i\mathrm{diag}(I_i)\omega^i"
STEP = r"\omega^G_{\tau+1}=\omega^G_\tau+R^G_{\tau-1}"
GRADIENTS = r"\textstyle\sum_kp^k_\tau\sum_{j=0}^{%s}\eta_\tau g^k_j"
B_MAX = r"(\tfrac{16E}\mu)^2\max_t\tfrac{\mathbb E[B_t]}{S_t^2}"
START = r"\gamma^2\|\omega_0-\omega^*\|^2"


def _rearranged(v: on.TermView, square: Any = 1, cross: Any = 1) -> Sides:
    """(2) less what (3) has before Z: the same at all points."""
    two, three = v.term(v.points), v.expanded(v.points, square, cross)
    return eq((two - three)[1:], (two - three)[0], abs(two[1:]) + abs(three[1:]) + abs(two[0]) + abs(three[0]))


def _constant(v: on.TermView) -> Sides:
    two, three = v.term(v.points), v.expanded(v.points)
    return eq(two - three, v.Z + 0 * two, abs(two) + abs(three))


def _gradient(v: on.TermView, who: np.ndarray | None = None) -> Sides:
    size = v.u.sum(axis=0) * abs(v.points) + (v.u * abs(v.anchors)).sum(axis=0)
    return eq(v.slopes(), v.elastic_gradient(who), v.lam * size)


def _rounds(v: Any, change: Any) -> Sides:
    """omega_{tau+1} = omega_tau + change, round by round and coordinate by coordinate."""
    rounds: list[on.ServerRound] = v.rounds_seen
    parts = [abs(r.w) + abs(r.R_G) + (r.p[:, None] * (abs(r.R) + abs(r.x) + abs(r.last))).sum(axis=0) for r in rounds]
    return eq(np.stack([r.after for r in rounds]), np.stack([r.w + change(r) for r in rounds]), np.stack(parts), noise=v.noise)


def _step(v: Any, residuals: int = 1, last: int = 0, server: int = 10) -> Sides:
    """The third line of (6), with R^k and the gradient j = s counted so many times, and so many tenths of R^G."""
    return _rounds(
        v, lambda r: server * r.R_G / 10 + (r.p[:, None] * (residuals * r.R + r.x - last * r.last)).sum(axis=0)
    )


def _consistent(v: Any, kept: int = 10) -> Sides:
    """(6) of the consistent form, with so many tenths of the residuals' change."""

    def change(r: on.ServerRound) -> np.ndarray:
        left = r.R_G - r.R_G_after + (r.weights[:, None] * (r.R - r.R_after)).sum(axis=0)
        return kept * left / 10 + (r.p[:, None] * r.x).sum(axis=0)

    return _rounds(v, change)


@dataclass
class _After0:
    """The parts of C_tau on a run, at its horizons tau >= 1; the last bracket of B_t as repaired, or 'added' as printed."""

    run: EFLRun
    reading: str = "positive part"

    c = derived(lambda q: q.run.constants)
    at = derived(lambda q: q.run.later.horizons)
    start = derived(lambda q: q.c.gamma**2 * q.c.start_sq + 0 * q.c.y[q.at])
    noise = derived(lambda q: q.c.noise_sum(q.c.B(q.reading))[q.at])
    most = derived(lambda q: (16 * q.c.E / q.c.mu) ** 2 * (q.c.B(q.reading) / q.c.S**2).max())

    def le(self, *sides: Any) -> Sides:
        """lhs <= sum of terms, for every scenario alike where there are several."""
        return le(*(self.run.later.column(np.asarray(side)) for side in sides))


def _order(v: EFLRun, larger: bool = False, power: int = 1) -> Sides:
    """C_tau <= tau (gamma^2 ||w_0 - w*||^2 + (16E/mu)^2 max_t E[B_t]/S_t^2), the larger of both for the maximum."""
    C = _After0(v, "added" if larger else "positive part")
    both = np.maximum if larger else np.add
    return C.le(both(C.start, C.noise), both(C.start, C.most) * (C.at + 0 * C.start) ** power)


def slope_of_C(c: EFLConstants) -> Any:
    """b = theta max_k p^k sigma_k^2 + 2(2+theta)L max_k D_k +
    (2+mu/(2(1+theta)L))E(E-1)G^2(1+theta(theta-2)_+) + 2EG^2 theta.

    E[B_t] <= b S_t, since p_t^k <= theta p^k and so sum_k p_t^k <= theta.
    """
    theta, n = c.theta, c.E * (c.E - 1)
    third = (2 + c.mu / (2 * (1 + theta) * c.L)) * n * c.G_sq * (1 + theta * max(theta - 2, 0))
    return theta * (c.weights * c.sigma_sq).max() + 2 * (2 + theta) * c.L * c.D.max() + third + 2 * c.E * c.G_sq * theta


def _affine(C: _After0, slope: Any) -> Sides:
    """C_tau <= gamma^2 ||w_0 - w*||^2 + tau slope."""
    return C.le(C.start + C.noise, C.start, C.at * slope)


def _converges(C: _After0) -> Sides:
    """The bound of Theorem 1 is at most K/(E^2 tau) + (J/E) H_tau/tau, K the constant with C_tau <= K tau."""
    c, H, y = C.c, C.c.H()[C.at], C.c.y[C.at]
    K = C.start + C.most
    return C.le((C.start + C.noise) / y**2 + H * c.J / y, K / (c.E**2 * C.at), c.J / c.E * H / C.at)


@paper.statement(
    "elastic-rearrangement", over=on.TermView,
    title="the elastic term expanded, with its constant and its gradient",
    source="section 3.1, (2) and (3)", assumptions=("lambda > 0, the Fisher diagonals are >= 0",),
)
def elastic_rearrangement(q):
    """(2) against (3), its constant Z, and the gradient of both."""
    yield printed(
        partial(_rearranged, q), TWO + "=" + THREE + r"+Z\text{ with one }Z\text{ for all }\omega",
        wrong("lambda for lambda/2", square=2),
        wrong("nine tenths of the cross term", cross=9 * q.lam / (10 * q.lam)), holds=True,
        proof="the squares multiplied out",
        note="f_k stands on both sides. diag(I_i) may be read as a matrix or, with products "
        "coordinate by coordinate, as the vector that Algorithm 1 sends",
    )
    yield form(
        "Z", lambda: _constant(q),
        TWO + "=" + THREE + r"+Z,\ Z=\tfrac\lambda2\sum_i\omega^{i\top}\mathrm{diag}(I_i)\omega^i",
        wrong("nine tenths of Z", share=Fraction(9, 10)), holds=True,
        proof="the squares multiplied out", note="the only Z there can be: put omega = 0",
    )
    yield form(
        "elastic gradient", lambda: _gradient(q),
        r"\nabla\big(" + TWO + r"\big)=\lambda(U\odot\omega-V),\ U=\sum_iu^i,\ V=\sum_iv^i",
        wrong("nine tenths of it", share=Fraction(9, 10)), holds=True,
        proof="the derivative of each square",
        note="the left side by central differences, exact for squares. Z has gradient 0: U and V, "
        "two vectors, are all a client needs",
    )
    yield form(
        "the sums over those that take part", lambda: _gradient(q, q.active),
        r"\nabla\big(" + TWO + r"\big)=\lambda\sum_{i\in S_{\tau-1}}(u^i\odot\omega-v^i)",
        fails=True, needs=(on.MISSING,),
        note="(2) sums over all N clients, and Algorithm 1 receives pairs of the participants "
        "only: the server has to keep everybody's last pair",
    )
    yield form(
        "one Z for all rounds", lambda: eq(q.Z, q.next_Z),
        r"Z_\tau=Z_{\tau+1},\ "
        r"Z_\tau=\tfrac\lambda2\sum_i\omega_{\tau-1}^{i\top}\mathrm{diag}(I_{\tau-1,i})\omega_{"
        r"\tau-1}^i", fails=True,
        note="a constant for omega, not for tau: no step sees it, but the minimum of F~_k, and "
        "with it D_k, moves with the anchors",
    )


@paper.statement(
    "server-step", over=on.FeedbackView, title="the server's step, line by line",
    source="section 3.1, (6)",
    assumptions=("quadratics, scheme C, ST with exactly k entries both ways, full gradients",),
)
def server_step(q):
    """Every line of (6) against the rounds of Algorithm 1."""
    yield printed(
        lambda: _step(q, 0, 1), STEP + "-" + GRADIENTS % r"s^k_\tau" + r"\text{ (third line)}", fails=True,
        needs=(on.LITERAL,),
        note="two misprints: the last local step is j = s - 1, and each Delta omega^k begins with "
        "R^k",
    )
    yield form(
        "printed, second line", partial(_step, q),
        STEP + r"+\textstyle\sum_kp^k_\tau(R^k_{\tau-1}+\omega^k_s-\omega^k_0)",
        wrong("without R^G", server=0), wrong("nine tenths of R^G", server=9),
        holds=True, needs=(on.LITERAL,),
        proof="the definition of Delta omega^k and Delta omega^G in Algorithm 1",
        note="the formulas as printed: Delta omega^k arrives uncompressed, and Delta omega^G is "
        "added so",
    )
    yield form(
        "up to s-1", lambda: _step(q, 0),
        STEP + "-" + GRADIENTS % r"s^k_\tau-1", fails=True, needs=(on.LITERAL,),
        note="one misprint put right, the clients' residuals still missing",
    )
    yield form(
        "with R^k", lambda: _step(q, 1, 1),
        STEP + r"+\textstyle\sum_kp^k_\tau R^k_{\tau-1}-" + GRADIENTS % r"s^k_\tau", fails=True,
        needs=(on.LITERAL,), note="the other one put right, one gradient too many",
    )
    yield repaired(
        partial(_step, q),
        STEP + r"+\textstyle\sum_kp^k_\tau R^k_{\tau-1}-" + GRADIENTS % r"s^k_\tau-1",
        wrong("up to s", last=1), wrong("without R^k", residuals=0), wrong("without R^G", server=0),
        holds=True, needs=(on.LITERAL,),
        proof="[printed, second line] with omega^k_s - omega^k_0 = -sum_{j<s} eta_tau g^k_j",
    )
    yield form(
        "up to s-1, nothing left out", partial(_step, q, 0),
        STEP + "-" + GRADIENTS % r"s^k_\tau-1" + r"\text{ where }ST(T)=T",
        wrong("up to s", last=1), holds=True,
        needs=(on.LITERAL, on.DENSE), proof="[repaired], where all residuals are 0",
        note="all residuals are then 0: the third line is about EFL without compression",
    )
    yield form(
        "text of 3.1", lambda: _step(q),
        STEP + r"+\textstyle\sum_kp^k_\tau(R^k_{\tau-1}+\omega^k_s-\omega^k_0),\ \text{clients "
        r"send }ST(\Delta\omega^k)", fails=True, needs=(on.TEXT,),
        note="the server cannot add what it was not sent",
    )
    yield form(
        "repaired, consistent form", partial(_consistent, q),
        r"\textstyle\omega_{\tau+1}=\omega_\tau+R^G_{\tau-1}-R^G_\tau+\sum_kp^k(R^k_{\tau-1}-R^k_"
        r"\tau)-" + GRADIENTS % r"s^k_\tau-1", wrong("without the residuals", kept=0),
        wrong("nine tenths of the residuals", kept=9), holds=True, needs=(on.CONSISTENT,),
        proof="the server moves by R^G_{tau-1} - R^G_tau + sum_k p^k C(D^k), and C(D^k) = "
        "R^k_{tau-1} - R^k_tau + (p_tau^k/p^k)(omega^k_s - omega^k_0)",
        note="both sides compress what they send and keep the rest; summed over rounds it is "
        "efl/residual-invariant",
    )


@paper.statement(
    "order-of-c", over=Runs, title="C_tau is O(tau), and what follows where H_tau is o(tau)",
    source="section 3.2, after Theorem 1", assumptions=ASSUMPTIONS,
)
def order_of_c(q):
    """C_tau against tau, and the rate that follows."""
    yield printed(
        partial(_order, q, larger=True),
        r"C_\tau=\max\{\cdot,\cdot\}\le\tau\max\{" + START + "," + B_MAX + r"\}\ (\tau\ge1)",
        wrong("without tau", power=0), holds=True,
        proof="tau terms are at most tau times the largest, and 1 <= tau",
        note="B_t with its bracket as printed. The statement is about the sequence C_tau, whatever "
        "it bounds; it needs min_t S_t > 0, which gamma asks for as well",
    )
    yield repaired(
        partial(_order, q), r"C_\tau=" + START + r"+(\tfrac{16E}\mu)^2\sum_{t<\tau}\tfrac{\mathbb "
        r"E[B_t]}{S_t^2}\le\tau\big(" + START + "+" + B_MAX + r"\big)\ (\tau\ge1)",
        wrong("without tau", power=0), NINE_TENTHS, holds=True,
        proof="tau terms are at most tau times the largest, none is negative, and 1 <= tau",
        note="attained at tau = 1",
    )
    yield form(
        "one rate", lambda: _affine(_After0(q), _After0(q).most), r"C_\tau\le" + START + r"+\tau" + B_MAX,
        wrong("99 hundredths of the second term", share=(1, Fraction(99, 100))), holds=True,
        proof="tau terms are at most tau times the largest",
        note="attained under one law of participation: the order is exact where E[B_t] > 0",
    )
    yield form(
        "explicit",
        lambda: _affine(_After0(q), (16 * q.E / q.mu) ** 2 * slope_of_C(q.constants) / q.S.min()),
        r"C_\tau\le" + START + r"+\tau(\tfrac{16E}\mu)^2\tfrac b{\min_tS_t},\ "
        r"b=\theta\max_kp^k\sigma_k^2+2(2+\theta)L\max_kD_k+(2+\tfrac\mu{2(1+"
        r"\theta)L})E(E-1)G^2(1+\theta(\theta-2)_+)+2EG^2\theta",
        wrong("half of the second term", share=(1, Fraction(1, 2))), holds=True, proof="note",
        note="no moment of (p, s) but min S: p_t^k <= theta p^k, so that sum_k p_t^k <= theta and "
        "E[B_t] <= b S_t. Attained under full participation by equal clients",
    )
    yield form(
        "and converges", lambda: _converges(_After0(q)),
        r"\tfrac{C_\tau}{(\tau E+\gamma)^2}+\tfrac{H_\tau J}{\tau E+\gamma}\le\tfrac "
        r"K{E^2\tau}+\tfrac JE\cdot\tfrac{H_\tau}\tau,\ K=" + START + "+" + B_MAX,
        wrong("a thousandth of it", share=Fraction(1, 1000)), holds=True,
        proof="[repaired], and tau E + gamma >= tau E",
        note="so that the bound vanishes where H_tau is o(tau), as is said below Theorem 1",
    )
