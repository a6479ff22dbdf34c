"""EFL, Theorem 1: the convergence of local SGD with irregular clients, as printed, as repaired, and with each repair undone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fedtheory.theorems.efl.notation import statement
from fedtheory.theorems.efl.quantities.run import COMMON, EVERY_D, FROZEN, MOVING, UNCORRELATED, IrregularRunView
from fedtheory.theorems.efl.worst_runs import worst_at
from fedtheory.theory.judge.statement import Sides, form, le

__all__ = ["ASSUMPTIONS", "SCHEMES", "STATEMENTS"]

SCHEMES = ("A", "B", "C", "C-corrected")
HOLDS = dict.fromkeys(SCHEMES, "holds")
VIOLATED = dict.fromkeys(SCHEMES, "violated")
UNLESS_CORRECTED = {**VIOLATED, "C-corrected": "holds"}  # its ratios are always equal: H J is 0, or something is added
ASSUMPTIONS = (
    "A1, A2: every F_k is L-smooth and mu-strongly convex, mu > 0",
    "A3: E||g_i^k - grad F_k||^2 <= sigma_k^2, gradients unbiased given the past of all clients; within a step the "
    "mini-batches of different clients may be correlated, where a form does not say otherwise",
    "A4: E||g_i^k||^2 <= G^2 at all E virtual steps of all clients, as an expectation or a supremum",
    "A5: 0 <= p_tau^k <= theta p^k, p^k > 0, sum_k p^k = 1, min_tau S_tau > 0",
    "(p_tau, s_tau) are independent of the past and of the round's mini-batches",
    "F_k^* is the infimum over R^d; no compression; lambda = 0, or anchors that never move",
    "eta_tau = 16E/(mu ((tau + 1)E + gamma) S_tau), tau = 0, 1, ...",
)


def bound(
    v: IrregularRunView,
    *,
    total: str = "sum",
    flipped: bool = False,
    reading: str = "positive part",
    gap: str = "repaired",
    sharp: str = "",
    first: Any = 1,
    rest: Any = 1,
    bias: Any = 1,
) -> Sides:
    """E||w_tau - w*||^2 <= C_tau/(tau E + gamma)^2 + H_tau J/(tau E + gamma), in every reading.

    ``total``: 'sum', 'max' or '2 max' of the two parts of C_tau. ``flipped``: r_t = 1 where the ratio is the same.
    ``reading``: of the last bracket of B_t, or 'no last term'. ``gap``: 'repaired', or 'printed' with D_k in the
    denominator of J. ``sharp``: B+ and J+, for 'uncorrelated' mini-batches or for 'any'. ``first, rest, bias`` scale
    the parts of C_tau and H_tau J, for mutants. Judged from tau = 1: at tau = 0 both sides are ||w_0 - w*||^2, which
    says nothing.
    """
    v = replace(v, horizons=v.horizons[v.horizons > 0])
    c, at = v.constants, v.horizons
    y = c.y[at]
    start = first * c.gamma**2 * c.start_sq + 0 * y
    B = {"uncorrelated": c.B_sharp, "any": c.B_any}[sharp] if sharp else c.B(reading)
    noise = rest * c.noise_sum(B)[at]
    C: tuple[Any, ...]
    if total == "sum":
        C = (start / y**2, noise / y**2)
    else:
        C = (np.maximum(start, noise) * (2 if total == "2 max" else 1) / y**2,)
    if sharp:
        HJ = c.before(c.J_sharp)[at]
    else:
        HJ = c.H(flipped)[at] * (c.J if gap == "repaired" else c.J_printed)
    return le(v.lhs, *(v.column(term) for term in C), v.column(bias * HJ / y), noise=v.noise)


_BOUND = r"\mathbb E\|\omega^G_{\tau E}-\omega^*\|^2\le\frac{C_\tau}{(\tau E+\gamma)^2}+\frac{H_\tau J}{\tau E+\gamma}"
_START, _NOISE = r"\gamma^2\|\omega_0-\omega^*\|^2", r"(\tfrac{16E}\mu)^2\sum_{t<\tau}\tfrac{\mathbb E[B_t]}{S_t^2}"
_SUM, _MAX = rf",\ C_\tau={_START}+{_NOISE}", rf"\max\{{{_START},{_NOISE}\}}"
_R = r",\ H_\tau=\sum_{t<\tau}r_t,\ r_t=%d\text{ iff }\tfrac{\mathbb E[p_ks^k]}{p^k}\text{ is the same for all }k"
_DIFFERS, _SAME = _R % 0, _R % 1
_J = r",\ J=\max_\tau\tfrac{32E\sum_k\mathbb E[p_ks^k]D_k}{\mu S_\tau}"
_J_PRINTED = r",\ J=\max_\tau\sum_k\tfrac{32E\,\mathbb E[p_ks^k]}{(D_k/\mu)\,S_\tau}"
_FIRST, _LAST = r"2(2+\theta)L\sum p_ks^kD_k", r"\sum\tfrac{p_k^2}{p^k}s^k"
_B_OF = (
    r",\ B=\sum p_k^2s^k\sigma_k^2+" + _FIRST + r"+(2+\tfrac\mu{2(1+\theta)L})E(E-1)G^2\big(\sum p_ks^k+\theta(\sum p_k-2)%s\sum "
    r"p_ks^k\big)"
    r"+2EG^2" + _LAST
)
_B, _B_PRINTED = _B_OF % "_+", _B_OF % "+"
_B_SHARP = (
    r",\ B^+=%s+" + _FIRST + r"+E(E-1)G^2\big[(\tfrac12+\tfrac\mu{4(1+\theta)L})(1+\theta(\sum p_k-2)_+)+\tfrac13\big]\sum p_ks^k"
    r"+(E-1)G^2" + _LAST
)
_TILDE = r",\ \text{with }\tilde L=L+\lambda\max_jU_j,\ \tilde\mu=\mu+\lambda\min_jU_j\text{ for }L,\mu"
_UNCORRELATED = r"\sum p_k^2s^k\sigma_k^2"
_SHARP = (
    r"\mathbb E\|\omega^G_{\tau E}-\omega^*\|^2\le"
    r"\tfrac{\gamma^2\|\omega_0-\omega^*\|^2+(16E/\mu)^2\sum_{t<\tau}\mathbb E[B^+_t]/S_t^2}{(\tau E+\gamma)^2}+"
    r"\tfrac{\sum_{t<\tau}J^+_t}{\tau E+\gamma},\ J^+_t=\tfrac{32E\sum_k(\mathbb E[p_ks^k]-c_tp^k)D_k}{\mu S_t},\ "
    r"c_t=\min_k\tfrac{\mathbb E[p_ks^k]}{p^k}"
)
_MUTANTS = (
    ("9 tenths of the first term", lambda v: bound(v, first=_part(v, 90))),
    ("without B_t", lambda v: bound(v, rest=0)),
    ("without the J term", lambda v: bound(v, bias=0)),
)


def _part(v: IrregularRunView, hundredths: int) -> Any:
    """hundredths/100 in the arithmetic of the view."""
    return (v.constants.start_sq * 0 + hundredths) / 100


STATEMENTS = (
    statement(
        "theorem-1",
        "convergence with inactive and incomplete clients",
        "Theorem 1",
        form(
            "printed",
            _BOUND + r",\ C_\tau=" + _MAX + _SAME + _J_PRINTED + _B_PRINTED,
            lambda v: bound(v, total="max", flipped=True, reading="added", gap="printed"),
            VIOLATED,
            kind="run",
            needs=(EVERY_D,),
            note="p_k stands for p_tau^k. Read literally: the max, r_t as worded, sum p s + theta (sum p - 2) + sum p s in B_t, D_k "
            "in J's denominator; but for the s_t^K in B_t's last bracket, which is read as s_t^k",
        ),
        form(
            "repaired",
            _BOUND + _SUM + _DIFFERS + _J + _B,
            bound,
            HOLDS,
            *_MUTANTS,
            ("without the last term of B_t", lambda v: bound(v, reading="no last term")), kind="run",
            note="proved by the steps below; no compression, lambda = 0. Mini-batches of different clients may be "
            "correlated within a step: of 2EG^2 sum p^2 s/p^k half is left for a noise of sum p^2 s "
            "min(sigma^2, G^2)/p^k",
            worst=worst_at(bound),
            proof="docs/efl.md#the-proof",
        ),
        form(
            "frozen anchors",
            _BOUND + r",\ \omega^*=\text{argmin}\,\textstyle\sum_kp^k\tilde F_k\text{ with anchors that never move}" + _SUM + _DIFFERS
            + _J + _B + _TILDE,
            bound,
            HOLDS,
            *_MUTANTS[:2], kind="run",
            needs=(FROZEN,),
            note="with lambda > 0 the theorem is literal only so: while the anchors move, argmin sum_k p^k F~_k is "
            "not one point",
            proof=(
                "the repaired form for the fixed losses F~_k, which are L~-smooth and mu~-strongly"
                " convex"
            ),
        ),
        form(
            "moving anchors",
            _BOUND + r",\ \omega^*=\text{argmin}\,\textstyle\sum_kp^kf_k\text{ with the anchors of Algorithm 1}" + _SUM
            + _DIFFERS + _J + _B + _TILDE + r",\ D_k=\max_\tau(\tilde F_{\tau,k}(\omega^*)-\tilde F_{\tau,k}^*)",
            bound,
            VIOLATED,
            kind="run",
            needs=(MOVING,),
            note="the elastic term as printed, complete clients. Its lambda U enters mu~, and with it the steps, and it pulls back to "
            "where the clients were: a round of the witness goes at most mu/mu~ of the way, while the bound falls like 1/tau. omega* "
            "is the only point that a run can end at, since the term vanishes where all local models meet. With mu for mu~, which A2 "
            "allows as well, it is not refuted",
        ),
        form(
            "2 max",
            _BOUND + r",\ C_\tau=2" + _MAX + _DIFFERS + _J + _B,
            lambda v: bound(v, total="2 max"),
            HOLDS,
            ("without B_t", lambda v: bound(v, total="2 max", rest=0)),
            ("0.49 of the first term", lambda v: bound(v, total="2 max", first=_part(v, 49))), kind="run",
            note="twice the maximum is at least the sum",
            proof=(
                "twice the maximum of two numbers >= 0 is at least their sum, so that the repaired"
                " form gives it"
            ),
        ),
        form(
            "sharpened",
            _SHARP + _B_SHARP % _UNCORRELATED,
            lambda v: bound(v, sharp="uncorrelated"),
            HOLDS,
            ("99 hundredths of the first term", lambda v: bound(v, sharp="uncorrelated", first=_part(v, 99))),
            ("without B_t", lambda v: bound(v, sharp="uncorrelated", rest=0)),
            ("without the J term", lambda v: bound(v, sharp="uncorrelated", bias=0)), kind="run",
            note="the same proof gives B+ (no G when E = 1), and J+, which needs no r_t: it vanishes with the heterogeneity of "
            "the participation, continuously. Its noise term needs mini-batches of different clients "
            "uncorrelated within a step",
            needs=(UNCORRELATED,),
            worst=worst_at(lambda v: bound(v, sharp="uncorrelated")),
            proof="docs/efl.md#the-proof",
        ),
        form(
            "sharpened, any correlation",
            _SHARP + _B_SHARP % r"\sum\tfrac{p_k^2}{p^k}s^k\min\{\sigma_k^2,G^2\}",
            lambda v: bound(v, sharp="any"),
            HOLDS,
            ("nine tenths of B_t", lambda v: bound(v, sharp="any", rest=_part(v, 90))),
            ("99 hundredths of the first term", lambda v: bound(v, sharp="any", first=_part(v, 99))),
            ("without the J term", lambda v: bound(v, sharp="any", bias=0)),
            ("the noise term of uncorrelated mini-batches", lambda v: bound(v, sharp="uncorrelated")), kind="run",
            note="however the mini-batches of different clients are correlated within a step, by Cauchy-Schwarz with "
            "the weights p^k; attained for E = 1 by clients with one optimum and the same noise, started there",
            proof="docs/efl.md#the-proof",
        ),
        form(
            "sharpened, common mini-batches",
            _SHARP + _B_SHARP % _UNCORRELATED + r",\ \text{where all clients draw the same mini-batch in a step}",
            lambda v: bound(v, sharp="uncorrelated"),
            VIOLATED,
            kind="run",
            needs=(COMMON,),
            note="common noise does not average out: off by a factor of up to N, attained for equal weights",
        ),
        form(
            "max",
            _BOUND + r",\ C_\tau=" + _MAX + _DIFFERS + _J + _B,
            lambda v: bound(v, total="max"),
            VIOLATED,
            kind="run",
            note="false, not merely unproved: one client, one noisy step. The witness does not depend on where A4's "
            "G is taken: its maximum is gamma^2 ||w_0 - w*||^2 for every G^2 <= 4, and ||g||^2 <= 4 surely in "
            "all rounds",
        ),
        form(
            "r_t flipped",
            _BOUND + _SUM + _SAME + _J + _B,
            lambda v: bound(v, flipped=True),
            UNLESS_CORRECTED,
            ("99 hundredths of the first term", lambda v: bound(v, flipped=True, first=_part(v, 99), bias=0)),
            kind="run",
            note="with participation that differs between clients the limit is not w*, and almost nothing in this "
            "bound stays above 0: a client that is active in every hundredth round makes one round in a hundred "
            "count",
            proof=(
                "with the corrected C all ratios are equal: H J >= 0 is added to the repaired "
                "bound"
            ),
        ),
        form(
            "bracket",
            _BOUND + _SUM + _DIFFERS + _J + _B_PRINTED,
            lambda v: bound(v, reading="added"),
            VIOLATED,
            kind="run",
            note="the bracket can be negative, and with it B_t",
        ),
        form(
            "J",
            _BOUND + _SUM + _DIFFERS + _J_PRINTED + _B,
            lambda v: bound(v, gap="printed"),
            UNLESS_CORRECTED,
            ("half of the first term", lambda v: bound(v, gap="printed", first=_part(v, 50))), kind="run",
            needs=(EVERY_D,),
            note="J then falls while D_k grows; it has the wrong dimension, and is undefined where some D_k = 0",
            proof=(
                "with the corrected C all ratios are equal: H = 0, so that it is the repaired "
                "bound"
            ),
        ),
        assumptions=ASSUMPTIONS,
        L="EFLConstants.L",
        gamma="EFLConstants.gamma",
        measures="mean squared distance to the optimum",
    ),
)
