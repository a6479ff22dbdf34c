"""Theorem 1 of EFL: local SGD with irregular clients, printed, repaired, each repair undone.

eta_tau = 16E/(mu ((tau + 1)E + gamma) S_tau); E[B_t], H_tau, J and gamma are letters of
`fedtheory.theorems.efl.quantities.run.EFLConstants`.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fedtheory.participation.coefficients import SCHEMES
from fedtheory.theorems.efl.notation import SYMBOLS
from fedtheory.theorems.efl.paper import paper
from fedtheory.theorems.efl.quantities.run import EVERY_D, FROZEN, MOVING, UNCORRELATED, EFLRun
from fedtheory.theorems.efl.runs_world import Runs
from fedtheory.theorems.efl.worst_runs import worst_at
from fedtheory.theory import Sides, form, le, printed, repaired, wrong
from fedtheory.theory.rounds.irregular_run import COMMON

PROOF = "docs/efl.md#the-proof"
# the ratios of C-corrected are always equal: H J is 0, or something is added
UNLESS_CORRECTED = {**dict.fromkeys(SCHEMES, "violated"), "C-corrected": "holds"}
ASSUMPTIONS = (
    "A1, A2: every F_k is L-smooth and mu-strongly convex, mu > 0",
    "A3: E||g_i^k - grad F_k||^2 <= sigma_k^2, gradients unbiased given the past of all clients; "
    "within a step the mini-batches of different clients may be correlated, where a form does not "
    "say otherwise",
    "A4: E||g_i^k||^2 <= G^2 at all E virtual steps of all clients, as an expectation or a "
    "supremum",
    "A5: 0 <= p_tau^k <= theta p^k, p^k > 0, sum_k p^k = 1, min_tau S_tau > 0",
    "(p_tau, s_tau) are independent of the past and of the round's mini-batches",
    "F_k^* is the infimum over R^d; no compression; lambda = 0, or anchors that never move",
    "eta_tau = 16E/(mu ((tau + 1)E + gamma) S_tau), tau = 0, 1, ...",
)

BOUND = (
    r"\mathbb E\|\omega^G_{\tau E}-\omega^*\|^2"
    r"\le\frac{C_\tau}{(\tau E+\gamma)^2}+\frac{H_\tau J}{\tau E+\gamma}"
)
START = r"\gamma^2\|\omega_0-\omega^*\|^2"
NOISE = r"(\tfrac{16E}\mu)^2\sum_{t<\tau}\tfrac{\mathbb E[B_t]}{S_t^2}"
SUM, C_MAX, MAX = rf",\ C_\tau={START}+{NOISE}", r",\ C_\tau=", rf"\max\{{{START},{NOISE}\}}"
R = (
    r",\ H_\tau=\sum_{t<\tau}r_t,\ r_t=%d\text{ iff }"
    r"\tfrac{\mathbb E[p_ks^k]}{p^k}\text{ is the same for all }k"
)
DIFFERS, SAME = R % 0, R % 1
J = r",\ J=\max_\tau\tfrac{32E\sum_k\mathbb E[p_ks^k]D_k}{\mu S_\tau}"
J_PRINTED = r",\ J=\max_\tau\sum_k\tfrac{32E\,\mathbb E[p_ks^k]}{(D_k/\mu)\,S_\tau}"
GAPS, LAST = r"2(2+\theta)L\sum p_ks^kD_k", r"\sum\tfrac{p_k^2}{p^k}s^k"
B_OF = (
    r",\ B=\sum p_k^2s^k\sigma_k^2+" + GAPS + r"+(2+\tfrac\mu{2(1+\theta)L})E(E-1)G^2"
    r"\big(\sum p_ks^k+\theta(\sum p_k-2)%s\sum p_ks^k\big)+2EG^2" + LAST
)
B, B_PRINTED = B_OF % "_+", B_OF % "+"
SHARP = (
    r"\mathbb E\|\omega^G_{\tau E}-\omega^*\|^2\le"
    r"\tfrac{\gamma^2\|\omega_0-\omega^*\|^2+(16E/\mu)^2\sum_{t<\tau}\mathbb E[B^+_t]/S_t^2}"
    r"{(\tau E+\gamma)^2}+\tfrac{\sum_{t<\tau}J^+_t}{\tau E+\gamma},"
    r"\ J^+_t=\tfrac{32E\sum_k(\mathbb E[p_ks^k]-c_tp^k)D_k}{\mu S_t},"
    r"\ c_t=\min_k\tfrac{\mathbb E[p_ks^k]}{p^k},\ B^+=%s+" + GAPS
    + r"+E(E-1)G^2\big[(\tfrac12+\tfrac\mu{4(1+\theta)L})(1+\theta(\sum p_k-2)_+)+\tfrac13\big]"
    r"\sum p_ks^k+(E-1)G^2" + LAST
)
UNCORRELATED_NOISE = SHARP % r"\sum p_k^2s^k\sigma_k^2"
ANY_NOISE = SHARP % r"\sum\tfrac{p_k^2}{p^k}s^k\min\{\sigma_k^2,G^2\}"
TILDE = (
    r",\ \text{with }\tilde L=L+\lambda\max_jU_j,\ "
    r"\tilde\mu=\mu+\lambda\min_jU_j\text{ for }L,\mu"
)
FROZEN_STAR = (
    r",\ \omega^*=\text{argmin}\,\textstyle\sum_kp^k\tilde F_k\text{ with anchors that never move}"
)
MOVING_STAR = (
    r",\ \omega^*=\text{argmin}\,\textstyle\sum_kp^kf_k\text{ with the anchors of Algorithm 1}"
)
LARGEST_GAPS = r",\ D_k=\max_\tau(\tilde F_{\tau,k}(\omega^*)-\tilde F_{\tau,k}^*)"
COMMON_DRAWS = r",\ \text{where all clients draw the same mini-batch in a step}"


def bound(
    q: EFLRun, total: Callable[..., Any] = np.stack, flipped: bool = False, reading: str = "positive part",
    gap: str = "repaired", sharp: str = "",
) -> Sides:
    """Sides of E||w_tau - w*||^2 <= C_tau/(tau E + gamma)^2 + H_tau J/(tau E + gamma).

    ``total``: callable([start, noise]) -> the terms of C_tau, their sum by default. ``flipped``:
    r_t = 1 where the ratio is the same. ``reading``: of the last bracket of B_t, or 'no last term'.
    ``gap``: 'repaired', or 'printed' with D_k in the denominator of J. ``sharp``: B+ and J+, for
    'uncorrelated' mini-batches or for 'any'. At tau = 0 both sides are ||w_0 - w*||^2.
    """
    q = q.later
    c, at = q.constants, q.horizons
    y = c.y[at]
    b = {"uncorrelated": c.B_sharp, "any": c.B_any}[sharp] if sharp else c.B(reading)
    parts = total([c.gamma**2 * c.start_sq + 0 * y, c.noise_sum(b)[at]])
    if sharp:
        hj = c.before(c.J_sharp)
    else:
        hj = c.H(flipped) * (c.J if gap == "repaired" else c.J_printed)
    terms = [*(part / y**2 for part in parts), hj[at] / y]
    return le(q.lhs, *(q.column(term) for term in terms), noise=q.noise)


def largest(parts: Any, times: Any = 1) -> list[Any]:
    """The larger part of C_tau, so many times."""
    return [times * np.maximum(*parts)]


FIRST, NO_NOISE, NO_BIAS = (
    wrong("9 tenths of the first term", share=(Fraction(9, 10), 1, 1)),
    wrong("without B_t", share=(1, 0, 1)), wrong("without the J term", share=(1, 1, 0)),
)  # fmt: skip
NEARLY = wrong("99 hundredths of the first term", share=(Fraction(99, 100), 1, 1))


@paper.statement(
    "theorem-1", over=Runs, source="Theorem 1", assumptions=ASSUMPTIONS,
    title="convergence with inactive and incomplete clients",
    symbols=SYMBOLS | {"L": "EFLConstants.L", "gamma": "EFLConstants.gamma"},
    measures="mean squared distance to the optimum",
)
def theorem_1(q):
    """As printed, as repaired, sharpened, and with each repair undone."""
    yield printed(
        lambda: bound(q, largest, True, "added", "printed"),
        BOUND + C_MAX + MAX + SAME + J_PRINTED + B_PRINTED, fails=True, needs=(EVERY_D,),
        note="p_k stands for p_tau^k. Read literally: the max, r_t as worded, sum p s + theta "
        "(sum p - 2) + sum p s in B_t, D_k in J's denominator; but for the s_t^K in B_t's last "
        "bracket, which is read as s_t^k",
    )
    yield repaired(
        partial(bound, q), BOUND + SUM + DIFFERS + J + B, FIRST, NO_NOISE, NO_BIAS,
        wrong("without the last term of B_t", reading="no last term"), holds=True,
        worst=worst_at(bound), proof=PROOF,
        note="proved by the steps below; no compression, lambda = 0. Mini-batches of different "
        "clients may be correlated within a step: of 2EG^2 sum p^2 s/p^k half is left for a noise "
        "of sum p^2 s min(sigma^2, G^2)/p^k",
    )
    yield form(
        "frozen anchors", lambda: bound(q), BOUND + FROZEN_STAR + SUM + DIFFERS + J + B + TILDE,
        FIRST, NO_NOISE, holds=True, needs=(FROZEN,),
        note="with lambda > 0 the theorem is literal only so: while the anchors move, argmin "
        "sum_k p^k F~_k is not one point",
        proof="the repaired form for the fixed losses F~_k, which are L~-smooth and mu~-strongly "
        "convex",
    )
    yield form(
        "moving anchors", lambda: bound(q),
        BOUND + MOVING_STAR + SUM + DIFFERS + J + B + TILDE + LARGEST_GAPS,
        fails=True, needs=(MOVING,),
        note="the elastic term as printed, complete clients. Its lambda U enters mu~, and with it "
        "the steps, and it pulls back to where the clients were: a round of the witness goes at "
        "most mu/mu~ of the way, while the bound falls like 1/tau. omega* is the only point that a "
        "run can end at, since the term vanishes where all local models meet. With mu for mu~, "
        "which A2 allows as well, it is not refuted",
    )
    yield form(
        "2 max", partial(bound, q, total=partial(largest, times=2)), BOUND + C_MAX + "2" + MAX + DIFFERS + J + B,
        wrong("without B_t", total=lambda parts: [2 * parts[0]]),
        wrong("0.49 of the first term", total=lambda parts: largest((49 * parts[0] / 100, parts[1]), 2)),
        holds=True,
        note="twice the maximum is at least the sum",
        proof="twice the maximum of two numbers >= 0 is at least their sum, so that the repaired "
        "form gives it",
    )
    yield from sharpened(q)
    yield from undone(q)


uncorrelated = partial(bound, sharp="uncorrelated")


def sharpened(q: EFLRun) -> Iterator[Any]:
    """Yield the forms with what the proof needs, by how mini-batches are correlated."""
    yield form(
        "sharpened", lambda: uncorrelated(q), UNCORRELATED_NOISE, NEARLY, NO_NOISE, NO_BIAS,
        holds=True, needs=(UNCORRELATED,), worst=worst_at(uncorrelated), proof=PROOF,
        note="the same proof gives B+ (no G when E = 1), and J+, which needs no r_t: it vanishes "
        "with the heterogeneity of the participation, continuously. Its noise term needs "
        "mini-batches of different clients uncorrelated within a step",
    )
    yield form(
        "sharpened, any correlation", lambda: bound(q, sharp="any"), ANY_NOISE,
        wrong("nine tenths of B_t", share=(1, Fraction(9, 10), 1)), NEARLY, NO_BIAS,
        wrong("the noise term of uncorrelated mini-batches", lambda: uncorrelated(q)), holds=True,
        proof=PROOF,
        note="however the mini-batches of different clients are correlated within a step, by "
        "Cauchy-Schwarz with the weights p^k; attained for E = 1 by clients with one optimum and "
        "the same noise, started there",
    )
    yield form(
        "sharpened, common mini-batches", lambda: uncorrelated(q), UNCORRELATED_NOISE + COMMON_DRAWS,
        fails=True, needs=(COMMON,),
        note="common noise does not average out: off by a factor of up to N, attained for equal "
        "weights",
    )


def undone(q: EFLRun) -> Iterator[Any]:
    """Yield the repaired form with each of its repairs undone."""
    yield form(
        "max", lambda: bound(q, largest), BOUND + C_MAX + MAX + DIFFERS + J + B, fails=True,
        note="false, not merely unproved: one client, one noisy step. The witness does not depend "
        "on where A4's G is taken: its maximum is gamma^2 ||w_0 - w*||^2 for every G^2 <= 4, and "
        "||g||^2 <= 4 surely in all rounds",
    )
    yield form(
        "r_t flipped", lambda: bound(q, flipped=True), BOUND + SUM + SAME + J + B,
        wrong("99 hundredths of the first term", share=(Fraction(99, 100), 1, 0)), rules=UNLESS_CORRECTED,
        note="with participation that differs between clients the limit is not w*, and almost "
        "nothing in this bound stays above 0: a client that is active in every hundredth round "
        "makes one round in a hundred count",
        proof="with the corrected C all ratios are equal: H J >= 0 is added to the repaired bound",
    )
    yield form(
        "bracket", lambda: bound(q, reading="added"), BOUND + SUM + DIFFERS + J + B_PRINTED,
        fails=True, note="the bracket can be negative, and with it B_t",
    )
    yield form(
        "J", lambda: bound(q, gap="printed"), BOUND + SUM + DIFFERS + J_PRINTED + B,
        wrong("half of the first term", share=(Fraction(1, 2), 1, 1)), rules=UNLESS_CORRECTED, needs=(EVERY_D,),
        note="J then falls while D_k grows; it has the wrong dimension, and is undefined where "
        "some D_k = 0",
        proof="with the corrected C all ratios are equal: H = 0, so that it is the repaired bound",
    )
