"""Elastic Aggregation under client sampling, and its moving averages: what is claimed and what holds."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.theorems.elastic_aggregation.mean_motion import determinant
from fedtheory.theorems.elastic_aggregation.notation import QUADRATICS, statement
from fedtheory.theorems.elastic_aggregation.quantities import (
    ALIKE,
    ALIVE,
    ALL,
    BETWEEN,
    DIAGONAL,
    EQUAL,
    FOLLOWS,
    LOCAL_STEPS,
    ONE,
    ONE_STEP,
    PAIR,
    SAME_COUNT,
    SMOOTH,
    TWO,
    AverageView,
    SampledView,
)
from fedtheory.verification.rational import objects
from fedtheory.verification.statement import Sides, eq, form, le

__all__ = ["AVERAGES", "SAMPLED"]

Z = r"\mathbb E[\zeta_C\Delta_C](\theta_\infty)=0:\ "  # all that follows is at theta_infinity
DIAG = r"H_k\text{ diagonal, }"
PAIRS = DIAG + r"N=2,\ P=1,\ \mathbb E[\zeta_C\Delta_C](\theta_\infty)=0:\ "


def _reweighted(v: SampledView, weights: np.ndarray) -> Sides:
    updates = v.updates(v.theta)
    return eq(v.drift, (weights * updates).sum(axis=0), v.mean_abs_update)


def _covariance(v: SampledView, sign: int = -1) -> Sides:
    """E Delta = -Cov(zeta, Delta)/E zeta."""
    delta, zeta = v.mean_update(v.theta), v.mean_zeta
    cov = v.drift - zeta * delta
    return eq(delta, sign * cov / zeta)


def _bias(v: SampledView, at: np.ndarray) -> np.ndarray:
    return abs(at - v.star)


def _farther(v: SampledView, other_way: bool = False) -> Sides:
    sides = (_bias(v, v.fedavg), _bias(v, v.theta))
    return le(*reversed(sides)) if other_way else le(*sides)


def _between(v: SampledView, share: Any = 1) -> Sides:
    """min_k c_k <= theta <= max_k c_k, coordinate by coordinate."""
    low, high = v.c.min(axis=0), v.c.max(axis=0)
    return le(abs(2 * v.theta - (low + high)), share * (high - low))


def _distance(v: SampledView, least: Any, share: Any = 1) -> Sides:
    """Sides of (1 + tau + least) |E Delta| <= (1 + tau - least) E|Delta|; zeta lies in [least, 1 + tau]."""
    left, right = 1 + v.tau + least, 1 + v.tau - least
    return le(share * left * abs(v.mean_update(v.theta)), right * v.mean_abs_update)


def _unbiased(v: SampledView) -> Sides:
    """Sides of E Delta = 0."""
    return eq(v.mean_update(v.theta), 0 * v.theta)


def _attracts(v: SampledView) -> Sides:
    return le(0 * v.tau, determinant(-v.J))


def _two(v: SampledView, share: Any = 1) -> Sides:
    """Determinant and trace of -J for two parameters."""
    (a, b), (p, q) = v.pull, share * v.push
    return eq(objects([determinant(-v.J), -v.J[0, 0] - v.J[1, 1]]), objects([a * b + a * q + b * p, a + p + b + q]))


SAMPLED = (
    statement(
        "sampled-fixed-point",
        "where its mean motion is 0 when some clients take part",
        "Algorithm 1, 'for each activated client'",
        form(
            "as FedAvg", r"\mathbb E[\zeta_C\Delta_C]=0\Rightarrow\mathbb E\Delta_C=0",
            _unbiased,
            "violated", kind="sampled",
            note="as with all clients (the paper says nothing of it); but zeta comes from the cohort that makes the update, and "
            "the two go together: not FedAvg's fixed point",
        ),
        form(
            "repaired", r"\mathbb E[\zeta_C\Delta_C]=\textstyle\sum_kv_k\Delta_k=0,\ v_k^i=\mathbb E[w_k\zeta_C^i]",
            lambda v: _reweighted(v, v.v), "holds",
            ("without the correlation", lambda v: _reweighted(v, v.u[:, None] * v.mean_zeta[None, :])), kind="sampled",
            proof="note",
            note="linear in Delta_k: FedAvg with other weights, of each client in each coordinate, the less where the client is "
            "sensitive against the rest of its layer. The weights v depend on theta. Whether the method goes to such a zero is "
            "another question (sampled-stability); round one that attracts, the path's own noise adds terms of order eta",
        ),
        form(
            "between", DIAG + Z + r"\min_kc_k^i\le\theta_\infty^i\le\max_kc_k^i", _between, "holds",
            ("nine tenths of the range", lambda v: _between(v, Fraction(9, 10))), kind="sampled", needs=(DIAGONAL,),
            proof="note",
            note="0 = sum_k v_k^i m_k^i (theta^i - c_k^i) with weights > 0. On the faces of this box the mean motion points "
            "inward: where every cohort has some sensitivity all over the box, zeta is continuous there, and a zero exists "
            "(Poincare-Miranda)",
        ),
        form(
            "covariance", Z + r"\mathbb E\Delta_C^i=-\mathrm{Cov}(\zeta_C^i,\Delta_C^i)/\mathbb E\zeta_C^i", _covariance, "holds",
            ("the other sign", lambda v: _covariance(v, 1)), kind="sampled",
            proof="note",
            note="0 = E[zeta Delta] = E zeta E Delta + Cov, and E zeta >= min(1, tau) > 0",
        ),
        form(
            "distance", Z + r"|\mathbb E\Delta_C^i|\le\mathbb E|\Delta_C^i|/(1+2\tau)",
            lambda v: _distance(v, v.tau), "holds",
            ("1 + 3 tau", lambda v: le((1 + 3 * v.tau) * abs(v.mean_update(v.theta)), v.mean_abs_update)),
            ("1 + 11/5 tau", lambda v: le((1 + Fraction(11, 5) * v.tau) * abs(v.mean_update(v.theta)), v.mean_abs_update)),
            kind="sampled", needs=(ALIVE,), proof="note",
            note="from tau E(Delta)_+ <= E[zeta (Delta)_+] = E[zeta (Delta)_-] <= (1 + tau) E(Delta)_-, and so the other way "
            "round; attained by two clients, each sensitive in another coordinate. A large tau is naive aggregation with a "
            "longer step",
        ),
        form(
            "distance, always",
            Z + r"|\mathbb E\Delta_C^i|\le\mathbb E|\Delta_C^i|/(1+2\tau)\text{, insensitive cohorts too}",
            lambda v: _distance(v, v.tau), "violated", kind="sampled",
            note="where a cohort has no sensitivity at all, zeta = 1 by default, which is less than tau for tau > 1",
        ),
        form(
            "distance, insensitive cohorts too",
            Z + r"|\mathbb E\Delta_C^i|\le\frac{1+\tau-\min(1,\tau)}{1+\tau+\min(1,\tau)}\,\mathbb E|\Delta_C^i|",
            lambda v: _distance(v, min(1, v.tau)), "holds",
            ("eleven tenths of it", lambda v: _distance(v, min(1, v.tau), Fraction(11, 10))),
            ("tau for min(1, tau)", lambda v: _distance(v, v.tau)), kind="sampled", proof="note",
            note="as \"distance\", with min(1, tau) <= zeta <= 1 + tau: the same bound where tau <= 1",
        ),
        form(
            "one parameter", Z + r"n=1\Rightarrow\mathbb E\Delta_C=0", _unbiased, "holds",
            ("E |Delta| = 0", lambda v: eq(v.mean_abs_update, 0 * v.theta)),
            kind="sampled", needs=(ONE, ALIVE), proof="note",
            note="a layer of one parameter: zeta is tau > 0 in every cohort with some sensitivity, "
            "FedAvg with the step tau eta",
        ),
        form(
            "one parameter, always", Z + r"n=1\Rightarrow\mathbb E\Delta_C=0\text{, insensitive cohorts too}",
            _unbiased, "violated", kind="sampled", needs=(ONE,),
            note="zeta is 1 for a cohort without any sensitivity, and tau for the others. In the witness the client "
            "whose output does not move counts for twice the other",
        ),
        form(
            "all take part", Z + r"P=N\Rightarrow\mathbb E\Delta_C=0", _unbiased, "holds",
            ("the first client is satisfied", lambda v: eq(v.updates(v.theta)[0], 0 * v.theta)),
            kind="sampled", needs=(ALL,), proof="note",
            note="one cohort only, so that zeta Delta = 0, and zeta >= min(1, tau) > 0",
        ),
        form(
            "one local step", Z + r"E=1,\ n_1=\dots=n_N\Rightarrow\theta_\infty=\theta^*", lambda v: eq(v.theta, v.star), "violated",
            kind="sampled",
            needs=(ONE_STEP, EQUAL), note="FedAvg with one local step has no bias; with cohorts this method has",
        ),
        assumptions=(*QUADRATICS, "cohorts of P clients, all alike"),
    ),
    statement(
        "sampled-stability",
        "whether it goes to a zero of its mean motion when some clients take part",
        "Algorithm 1, 'for each activated client'",
        form(
            "always", r"\mathbb E[\zeta_C\Delta_C](\theta)=0\Rightarrow\det(-J(\theta))\ge0", _attracts, "violated",
            kind="sampled",
            needs=(SMOOTH,),
            note="J is the derivative of the mean motion. Where det(-J) < 0, J has an eigenvalue > 0: the zero repels, for "
            "every eta. In the witness theta_2 = 1 stays, and theta_1 has three zeros on [0, 5/2]: the optimum 0 attracts, 1 "
            "repels, 5/2 attracts. The start decides",
        ),
        form(
            "all take part", Z + r"P=N\Rightarrow J=-\mathrm{diag}(\zeta)M",
            lambda v: eq(v.J, -v.mean_zeta[:, None] * v.M_mean), "holds",
            ("zeta = 1", lambda v: eq(v.J, -v.M_mean)), kind="sampled", needs=(ALL, SMOOTH),
            proof="note",
            note="Delta = 0 there, so that the derivative of zeta plays no part; zeta M is similar to zeta^(1/2) M zeta^(1/2), "
            "which is positive definite where M is and tau > 0: it attracts",
        ),
        form(
            "one parameter", Z + r"n=1\Rightarrow J=-\tau\textstyle\sum_ku_kM_k,\ u_k=\mathbb Ew_k",
            lambda v: eq(v.J, -v.tau * v.M_mean), "holds",
            ("1 + tau", lambda v: eq(v.J, -(1 + v.tau) * v.M_mean)),
            kind="sampled", needs=(ONE, SMOOTH), proof="note",
            note="zeta is tau in every cohort with some sensitivity",
        ),
        form(
            "two parameters", r"H_k,S_k\text{ diagonal: }" + Z + r"\det(-J)=A_1A_2\big(1+\tfrac{q_1}{A_1}+\tfrac{q_2}{A_2}\big),\ "
            r"\mathrm{tr}(-J)=A_1+q_1+A_2+q_2", _two,
            "holds", ("without q", lambda v: _two(v, 0)), ("nine tenths of q", lambda v: _two(v, Fraction(9, 10))),
            kind="sampled",
            needs=(TWO, SMOOTH),
            proof="zeta is homogeneous of degree 0 in theta: -J_ii = A_i + q_i and -J_ij = -q_i theta_i/theta_j",
            note="A_i = sum_k v_k^i m_k^i; q_i = E[Delta^i Omega^i/Omega' over the cohorts where i is not the most sensitive]/theta_i. "
            "Diagonal Hessians and Gram matrices. It attracts if both are > 0, repels if one is < 0. In any dimension -J is similar to "
            "diag(A + q) - (q_ij), where q_ij is the part of q_i with j the most sensitive: by Gershgorin it attracts if "
            "A_i > 2 sum_j max(0, -q_ij) for all i, as where the clients differ little against |theta|",
        ),
        assumptions=(
            *QUADRATICS, "cohorts of P clients, all alike", "J exists: every cohort has some sensitivity, "
            "none that passes 0, and one coordinate has the largest",
        ),
    ),
    statement(
        "sampled-bias",
        "whether the zero of its mean motion is nearer to the optimum than FedAvg's when some clients take part",
        "conference abstract: 'robust to large numbers of clients, partial participation, and imbalanced data'",
        form(
            "never farther", Z + r"E>1\Rightarrow|\theta_\infty-\theta^*|_i\le|\bar\theta-\theta^*|_i",
            lambda v: _farther(v, True), "violated", kind="sampled", needs=(EQUAL, LOCAL_STEPS), wording="in words",
            note="a reading of the quoted words; the paper gives no formula. With E = 1 FedAvg has no bias at all. In the witness both "
            "clients are sensitive where they are steep, and both coordinates end farther: 10/27 for 34/189, and 5/12 for 17/84",
        ),
        form(
            "never nearer", Z + r"E>1\Rightarrow|\theta_\infty-\theta^*|_i\ge|\bar\theta-\theta^*|_i", _farther, "violated",
            kind="sampled",
            needs=(EQUAL, LOCAL_STEPS),
        ),
        form(
            "repaired", PAIRS + r"(h_1^i-h_2^i)(v_1^i-v_2^i)\le0\ \forall i\Rightarrow"
            r"|\theta_\infty-\theta^*|_i\ge|\bar\theta-\theta^*|_i", _farther, "holds",
            ("nearer", lambda v: _farther(v, True)),
            kind="sampled", needs=(PAIR, FOLLOWS),
            proof="note",
            note="the end's distance to theta* is |p - h_1/(h_1 + h_2)| |c_1 - c_2|, p client 1's share. Local steps already "
            "give the steeper client too little, p = m_1/(m_1 + m_2), as m_k/h_k falls with h_k ((1 - (1 - lr h)^E)/h does:"
            " concave through 0); held back where it is sensitive, which is where it is steep, p = m_1 v_1/(m_1 v_1 + m_2 "
            "v_2) is smaller still: farther",
        ),
        form(
            "nearer", PAIRS + r"h_1^i\ge h_2^i,\ "
            r"\tfrac{m_1^i}{m_2^i}\le\tfrac{m_1^iv_1^i}{m_2^iv_2^i}\le\tfrac{h_1^i}{h_2^i}\ \forall i\Rightarrow"
            r"|\theta_\infty-\theta^*|_i\le"
            r"|\bar\theta-\theta^*|_i",
            lambda v: _farther(v, True), "holds", ("farther", _farther), kind="sampled", needs=(PAIR, BETWEEN),
            proof="note",
            note="in each coordinate the steeper client is called 1: its share lies between FedAvg's and the optimum's; "
            "only where it is the less sensitive one",
        ),
        assumptions=(*QUADRATICS, "as many samples at every client"),
    ),
)  # fmt: skip


# --- moving averages --------------------------------------------------------------------------------------------------------
def _plain(v: AverageView) -> np.ndarray:
    return np.stack([b.sum(axis=0) / Fraction(len(b)) for b in v.batches])


def _moved(v: AverageView, share: Any = 1) -> Sides:
    """|zeta_printed - zeta_corrected| <= 1 - min_k(1 - mu^m_k)/max_k(1 - mu^m_k)."""
    most = 1 - v.factors.min() / v.factors.max()
    moved = abs(v.zeta(v.printed) - v.zeta(v.corrected))
    return le(moved, share * most + 0 * moved)


AVERAGES = (
    statement(
        "moving-average",
        "the moving average that starts at 0",
        "Algorithm 1, Omega_k <- mu Omega_k + (1 - mu)|g|",
        form(
            "printed", r"\text{batches alike}\Rightarrow\Omega_k=|g_k|",
            lambda v: eq(v.printed, np.stack([b[0] for b in v.batches])),
            "violated", kind="average", needs=(ALIKE,), note="it is (1 - mu^m) |g_k| for a client with m batches",
        ),
        form(
            "repaired", r"\text{batches alike}\Rightarrow\Omega_k/(1-\mu^{m_k})=|g_k|",
            lambda v: eq(v.corrected, np.stack([b[0] for b in v.batches])), "holds",
            ("as printed", lambda v: eq(v.printed, np.stack([b[0] for b in v.batches]))),
            kind="average", needs=(ALIKE,),
            proof="note",
            note="(1 - mu)(1 + mu + ... + mu^(m - 1)) = 1 - mu^m",
        ),
        form(
            "it cancels", r"\zeta_{\text{printed}}=\zeta_{\text{corrected}}",
            lambda v: eq(v.zeta(v.printed), v.zeta(v.corrected)),
            "violated", kind="average",
            note="not between clients with different numbers of batches: small clients count for less twice",
        ),
        form(
            "equal numbers", r"m_1=\dots=m_N\Rightarrow\zeta_{\text{printed}}=\zeta_{\text{corrected}}",
            lambda v: eq(v.zeta(v.printed), v.zeta(v.corrected)), "holds",
            ("the plain mean over batches", lambda v: eq(v.zeta(v.printed), v.zeta(_plain(v)))),
            kind="average", needs=(SAME_COUNT,),
            proof="note",
            note="one factor for all clients leaves Omega/Omega' as it is",
        ),
        form(
            "distance", r"|\zeta^i_{\text{printed}}-\zeta^i_{\text{corrected}}|\le1-\tfrac{\min_k(1-\mu^{m_k})}{\max_k(1-\mu^{m_k})}",
            _moved, "holds", ("nine tenths of it", lambda v: _moved(v, Fraction(9, 10))), kind="average",
            proof="note",
            note="with q = min/max, q Omega <= Omega_printed/max_k(1 - mu^m_k) <= Omega in every coordinate, so that q r <= "
            "r_printed <= min(1, r/q) for r = Omega/Omega': r_printed - r <= min(1 - r, r (1/q - 1)) <= 1 - q, and r - "
            "r_printed <= (1 - q) r. Attained by two clients, each sensitive in another coordinate; mu = 0.95 with 1 and 10"
            " batches: 0.88",
        ),
        assumptions=("0 < mu < 1",),
    ),
)  # fmt: skip
