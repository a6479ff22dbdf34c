"""Elastic Aggregation (Chen et al., CVPR 2023, Algorithm 1): what its aggregation does on convex problems.

The paper states no theorem. What follows is what its text claims, read on clients whose fixed points are known exactly, and what holds
instead; with 'repaired' in place of 'printed' for the sign of the server's step everywhere but in the statement about it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.theorems.elastic_aggregation.letters import PRINTED_SIGN, ROUND
from fedtheory.theorems.elastic_aggregation.notation import QUADRATICS, statement
from fedtheory.theorems.elastic_aggregation.quantities import (
    DIAGONAL,
    FIXED,
    INSENSITIVE,
    NAIVE_STABLE,
    SENSITIVE,
    SHORT,
    SMALL,
    TAU,
    TAU_0,
    AggregationView,
)
from fedtheory.verification.closed import closed
from fedtheory.verification.rational import objects
from fedtheory.verification.statement import Sides, eq, form, le

__all__ = ["FULL"]

Q = r"\textstyle\sum_kw_kM_k(\bar\theta-c_k)=0"
DIAG = r"H_k\text{ diagonal: }"  # M = diag(m_1, ..., m_n)
RHO = (
    DIAG + r"\eta(1+\tau)L\le1,\ \rho_{\text{elastic}}=\max_i|1-\eta\zeta^i(\bar\theta)m_i|,\ \rho_{\text{naive}}=\max_i|1-\eta m_i|:\ "
)


def _is(condition: Any) -> Fraction:
    return Fraction(int(bool(condition)))


def _where(values: np.ndarray) -> np.ndarray:
    """Truth values as fractions."""
    return objects([_is(v) for v in values])


# --- all clients take part --------------------------------------------------------------------------------------------------
def _sign_of_zeta(v: AggregationView, restricted: Any) -> Sides:
    """zeta_i < 1 where ``restricted`` says so."""
    return eq(_where(v.zeta(v.theta) < 1), _where(restricted))


def _stays(v: AggregationView, x: np.ndarray) -> Sides:
    return eq(v.step(x), x)


def _only(v: AggregationView, tau: Any) -> Sides:
    """tau |Delta| <= |zeta Delta|: where this server stands still, so does the naive one."""
    delta = v.delta(v.theta)
    return le(tau * abs(delta), abs(v.zeta(v.theta) * delta))


def _still(v: AggregationView) -> Sides:
    """A step of 0 means a naive step of 0."""
    still = _is((v.step(v.theta) == v.theta).all())
    return le(still * abs(v.delta(v.theta)).max(), 0 * v.tau)


def _decrease(v: AggregationView, share: Any = 1, sign: int = 1) -> Sides:
    """V(theta') <= V(theta) - eta (1 - eta (1 + tau) L/2) sum zeta_i g_i^2, g = M (theta - theta_avg)."""
    g = v.mean @ (v.theta - v.fedavg)
    drop = v.eta * (1 - v.eta * (1 + v.tau) * v.L / 2) * (v.zeta(v.theta) * g * g).sum()
    return le(v.V(v.step(v.theta, sign)) + share * drop, v.V(v.theta))


def _coordinates(v: AggregationView, low: Any, high: Any, share: Any = 1) -> Sides:
    """|theta_i' - bar theta_i| <= max(|1 - eta low m_i|, |1 - eta high m_i|) |theta_i - bar theta_i|."""
    factor = np.maximum(abs(1 - v.eta * low * v.m), abs(1 - v.eta * high * v.m))
    return le(abs(v.step(v.theta) - v.fedavg), share * factor * abs(v.theta - v.fedavg))


def _global(v: AggregationView, tau: Any) -> Sides:
    """V(theta') <= (1 - 2 eta tau mu (1 - eta (1 + tau) L/2)) V(theta)."""
    return le(v.V(v.step(v.theta)), (1 - 2 * v.eta * tau * v.mu * (1 - v.eta * (1 + v.tau) * v.L / 2)) * v.V(v.theta))


def _growth(v: AggregationView, tau: Any) -> Sides:
    """(1 + eta tau mu)^2 V(theta) <= V(theta'), with the printed sign."""
    return le((1 + v.eta * tau * v.mu) ** 2 * v.V(v.theta), v.V(v.step(v.theta, -1)))


def _elastic_factor(v: AggregationView) -> Any:
    return v.factor(v.zeta(v.fedavg))


def _local_factor(v: AggregationView, zeta: Any) -> Sides:
    """A round multiplies every distance by 1 - eta zeta_i m_i."""
    e = v.theta - v.fedavg
    return eq(v.step(v.theta) - v.fedavg, (1 - v.eta * zeta * v.m) * e)


def _outputs_vanish(v: AggregationView) -> Fraction:
    """All held-out outputs are 0: theta' S_k theta = 0."""
    return _is(all(v.theta @ S @ v.theta == 0 for S in v.S))


def _undefined(v: AggregationView) -> Fraction:
    return _is(v.omega(v.theta).max() == 0)


FULL = (
    statement(
        "factors",
        "how far sensitive parameters are held back, and others boosted",
        "Algorithm 1, and the text beside it",
        form(
            "printed", r"\Omega'>0\Rightarrow\max_i\zeta^i\ge1", lambda v: le(_is(True), max(v.zeta(v.theta))), "violated",
            kind="aggregation",
            needs=(SENSITIVE,),
            note="'correspondingly boosted': not where all parameters are about as sensitive, as in a layer of one parameter "
            "with tau < 1; there the step is only made shorter",
        ),
        form(
            "repaired", r"\Omega'>0\Rightarrow\min_i\zeta^i=\tau", lambda v: eq(min(v.zeta(v.theta)), v.tau), "holds",
            ("1 + tau", lambda v: eq(min(v.zeta(v.theta)), 1 + v.tau)), kind="aggregation", needs=(SENSITIVE,),
            proof="note",
            note="the one with Omega^i = Omega': every layer has a parameter that is held back to tau, however little it moves "
            "the output",
        ),
        form(
            "range", r"\Omega'>0\Rightarrow\zeta^i\le1+\tau\ \forall i",
            lambda v: le(v.zeta(v.theta), (1 + v.tau) + 0 * v.theta), "holds",
            ("tau + 1/2", lambda v: le(v.zeta(v.theta), (Fraction(1, 2) + v.tau) + 0 * v.theta)),
            ("nine tenths of it", lambda v: le(v.zeta(v.theta), Fraction(9, 10) * (1 + v.tau) + 0 * v.theta)),
            kind="aggregation", needs=(SENSITIVE,),
            proof="note",
            note="as Omega^i >= 0",
        ),
        form(
            "which", r"\Omega'>0\Rightarrow(\zeta^i<1\iff\Omega^i>\tau\Omega'\ \forall i)",
            lambda v: _sign_of_zeta(v, v.omega(v.theta) > v.tau * v.omega(v.theta).max()), "holds",
            ("above the mean", lambda v: _sign_of_zeta(v, v.omega(v.theta) * len(v.theta) > v.omega(v.theta).sum())),
            ("eleven tenths of tau", lambda v: _sign_of_zeta(v, 10 * v.omega(v.theta) > 11 * v.tau * v.omega(v.theta).max())),
            ("nine tenths of tau", lambda v: _sign_of_zeta(v, 10 * v.omega(v.theta) > 9 * v.tau * v.omega(v.theta).max())),
            kind="aggregation",
            needs=(SENSITIVE,), proof="note", note="1 + tau - Omega^i/Omega' < 1, times Omega' > 0",
        ),
    ),
    statement(
        "full-participation",
        "where it ends when all clients take part",
        "poster: 'to prevent the server model from drifting to any one client distribution'",
        form(
            "the optimum",
            r"\tau>0,\ \Omega'>0:\ \theta^*+\eta\zeta(\theta^*)\Delta(\theta^*)=\theta^*=\arg\min\textstyle\sum_kw_kf_k",
            lambda v: _stays(v, v.star), "violated",
            kind="aggregation", needs=(TAU, SENSITIVE), wording="in words",
            note="a reading of the quoted words; the paper gives no formula. The bias of E > 1 local steps on unlike clients "
            "stays: only the path and the speed change",
        ),
        form(
            "repaired", r"\bar\theta+\eta\zeta(\bar\theta)\Delta(\bar\theta)=\bar\theta\text{ where }" + Q,
            lambda v: _stays(v, v.fedavg), "holds",
            ("the first client's minimiser", lambda v: _stays(v, v.c[0])), kind="aggregation",
            proof="note",
            note="Delta, the clients' weighted mean, is 0 there, and zeta finite",
        ),
        form(
            "no other", r"\Omega'>0\Rightarrow\tau|\Delta^i|\le|\zeta^i\Delta^i|\ \forall i", lambda v: _only(v, v.tau), "holds",
            ("tau + 1/10", lambda v: _only(v, v.tau + Fraction(1, 10))), kind="aggregation", needs=(SENSITIVE,),
            proof="note",
            note="as zeta >= tau: with tau > 0 it stands still only where FedAvg does",
        ),
        form(
            "tau = 0", r"\tau=0,\ \Omega'>0:\ \zeta\Delta=0\Rightarrow\Delta=0", _still, "violated",
            kind="aggregation", needs=(TAU_0, SENSITIVE),
            note="the most sensitive parameter of a layer does not move at all, and a layer of one parameter never does",
        ),
    ),
    statement(
        "stability",
        "which server steps are stable",
        "Algorithm 1",
        closed(
            "as FedAvg", ROUND, lambda v: le(v.V(v.step(v.theta)), v.V(v.theta)), "violated",
            before=r"\eta L<2,\ \tau>0,\ \Omega'>0\Rightarrow ",
            kind="aggregation", needs=(NAIVE_STABLE, TAU, SENSITIVE),
            note="carried over from FedAvg (the paper says nothing of it): a step that naive aggregation stands is too long for "
            "what is boosted",
        ),
        form(
            "repaired",
            r"\eta(1+\tau)L<2\Rightarrow V(\theta^+)\le V(\theta)-\eta\big(1-\tfrac{\eta(1+\tau)L}2\big)"
            r"\textstyle\sum_i\zeta^i(M(\theta-\bar\theta))_i^2",
            _decrease, "holds", ("three times the decrease", lambda v: _decrease(v, 3)),
            ("eleven tenths of it", lambda v: _decrease(v, Fraction(11, 10))), kind="aggregation", needs=(SMALL,),
            proof="note",
            note="V = (theta - bar theta)' M (theta - bar theta)/2, L >= its largest eigenvalue; whatever the sensitivities, as "
            "zeta M zeta <= L zeta^2 <= L (1 + tau) zeta, also where a layer is dead (zeta = 1, or 1 + tau with zero='boost'): for "
            "tau > 0 it converges from everywhere with eta < 2/((1 + tau) L)",
        ),
        closed(
            "rate", ROUND, lambda v: _global(v, v.tau), "holds", ("1 + tau for tau", lambda v: _global(v, 1 + v.tau)),
            ("eleven tenths of tau", lambda v: _global(v, Fraction(11, 10) * v.tau)),
            before=DIAG + r"\Omega'>0,\ \eta(1+\tau)L<2\Rightarrow ",
            kind="aggregation", needs=(SMALL, DIAGONAL, SENSITIVE),
            proof="note",
            note="mu_M the least eigenvalue of M: from the form above with zeta >= tau and |M e|^2 >= mu_M e' M e = 2 mu_M V. "
            "Every layer must have some sensitivity, unless tau <= 1 or zero='boost': see the next two",
        ),
        closed(
            "rate, always", ROUND, lambda v: _global(v, v.tau), "violated", before=DIAG + r"\eta(1+\tau)L<2\Rightarrow ",
            kind="aggregation", needs=(SMALL, DIAGONAL),
            note="whatever the sensitivities: not with tau > 1 where a layer is dead (Omega' = 0). There zeta is 1 with zero='one', "
            "which is less than tau",
        ),
        form(
            "rate, dead layers too", DIAG + r"\eta(1+\tau)L<2\Rightarrow"
            r" V(\theta^+)\le\big(1-2\eta\min(1,\tau)\mu_M(1-\tfrac{\eta(1+\tau)L}2)\big)V(\theta)",
            lambda v: _global(v, min(1, v.tau)), "holds", ("tau", lambda v: _global(v, v.tau)),
            ("eleven tenths of it", lambda v: _global(v, Fraction(11, 10) * min(1, v.tau))),
            kind="aggregation", needs=(SMALL, DIAGONAL),
            proof="note",
            note="zeta >= min(1, tau) in every layer, dead (zero='one') or not; then as above",
        ),
        form(
            "each coordinate",
            DIAG + r"\Omega'>0\Rightarrow|\theta^+_i-\bar\theta_i|\le\max(|1-\eta\tau m_i|,|1-\eta(1+\tau)m_i|)"
            r"\,|\theta_i-\bar\theta_i|",
            lambda v: _coordinates(v, v.tau, 1 + v.tau), "holds",
            ("the naive server's factor", lambda v: _coordinates(v, 1, 1)),
            ("nine tenths of the factor", lambda v: _coordinates(v, v.tau, 1 + v.tau, Fraction(9, 10))),
            kind="aggregation", needs=(DIAGONAL, SENSITIVE),
            proof="note",
            note="|1 - eta z m_i| is convex in z, and so largest at an end of [tau, 1 + tau]",
        ),
        assumptions=(*QUADRATICS, "M = sum_k w_k M_k, M_k = I - (I - lr H_k)^E"),
    ),
    statement(
        "sign",
        "the sign of the server's step",
        "Algorithm 1, last line",
        closed(
            "printed", PRINTED_SIGN, lambda v: le(v.V(v.step(v.theta, -1)), v.V(v.theta)), "violated",
            before=r"\theta^+=\theta-\eta\zeta\Delta,\ \tau>0,\ \Omega'>0,\ \eta(1+\tau)L<2\Rightarrow ",
            kind="aggregation", needs=(SMALL, TAU, SENSITIVE),
            note="Delta_k = theta_k - theta points to the clients; minus walks away from them",
        ),
        closed(
            "repaired", ROUND, lambda v: le(v.V(v.step(v.theta)), v.V(v.theta)), "holds",
            ("as printed", lambda v: le(v.V(v.step(v.theta, -1)), v.V(v.theta))),
            before=r"\theta^+=\theta+\eta\zeta\Delta,\ \eta(1+\tau)L<2\Rightarrow ",
            kind="aggregation", needs=(SMALL,),
            proof="note",
            note="from the decrease in elastic-aggregation/stability",
        ),
        closed(
            "growth", PRINTED_SIGN, lambda v: _growth(v, v.tau), "holds",
            ("tau + 1/10", lambda v: _growth(v, v.tau + Fraction(1, 10))),
            before=DIAG + r"\theta^+=\theta-\eta\zeta\Delta,\ \Omega'>0\Rightarrow ",
            kind="aggregation", needs=(DIAGONAL, SENSITIVE),
            proof="note",
            note="geometric divergence, for every step and start but the fixed point, as every coordinate grows by 1 + eta "
            "zeta^i m_i >= 1 + eta tau mu_M; attained in one dimension",
        ),
    ),
    statement(
        "speed",
        "whether it converges faster than naive aggregation",
        "conference abstract: 'leads to efficient training in both convex and non-convex settings'",
        closed(
            "never slower", ROUND, lambda v: le(_elastic_factor(v), v.factor(1)), "violated",
            before=RHO,
            kind="aggregation", needs=(SHORT, DIAGONAL, FIXED), wording="in words",
            note="a reading of the quoted words. rho is the factor of the contraction near the fixed point; slower by up to "
            "1/tau where the slow coordinate is the sensitive one, and for tau < 1 always where there is but one",
        ),
        closed(
            "never faster", ROUND, lambda v: le(v.factor(1), _elastic_factor(v)), "violated",
            before=RHO,
            kind="aggregation", needs=(SHORT, DIAGONAL, FIXED), note="a coordinate of little sensitivity gains up to 1 + tau",
        ),
        closed(
            "repaired", ROUND, lambda v: le(_elastic_factor(v), 1 - v.eta * v.tau * v.mu), "holds",
            ("tau + 1/10", lambda v: le(_elastic_factor(v), 1 - v.eta * (v.tau + Fraction(1, 10)) * v.mu)),
            before=RHO,
            kind="aggregation",
            needs=(SHORT, DIAGONAL, FIXED),
            proof="note",
            note="0 <= 1 - eta zeta^i m_i <= 1 - eta tau mu_M, as eta zeta^i m_i <= eta (1 + tau) L <= 1",
        ),
        closed(
            "at best", ROUND, lambda v: le(1 - v.eta * (1 + v.tau) * v.mu, _elastic_factor(v)), "holds",
            ("1 for 1 + tau", lambda v: le(1 - v.eta * v.mu, _elastic_factor(v))),
            ("nine tenths of 1 + tau", lambda v: le(1 - v.eta * Fraction(9, 10) * (1 + v.tau) * v.mu, _elastic_factor(v))),
            before=RHO,
            kind="aggregation", needs=(SHORT, DIAGONAL, FIXED),
            proof="note",
            note="the coordinate with m_i = mu_M has zeta^i <= 1 + tau",
        ),
        form(
            "faster",
            RHO + r"\Omega^i(\bar\theta)\le\tau\Omega'(\bar\theta)\text{ or }m_i\ge\mu_M/\tau\ \forall i\Rightarrow"
            r"\rho_{\text{elastic}}\le\rho_{\text{naive}}",
            lambda v: le(_elastic_factor(v), v.factor(1)), "holds",
            ("by 1 + tau", lambda v: le(_elastic_factor(v), v.factor(1 + v.tau))),
            ("by eleven tenths", lambda v: le(_elastic_factor(v), v.factor(Fraction(11, 10)))),
            kind="aggregation", needs=(SHORT, DIAGONAL, FIXED, INSENSITIVE),
            proof="note",
            note="either way zeta^i m_i >= mu_M, by zeta^i >= 1 or by zeta^i >= tau: slow coordinates of little sensitivity, "
            "sensitive ones fast, as where sensitivity is curvature",
        ),
        form(
            "path", DIAG + r"\theta^+_i-\bar\theta_i=(1-\eta\zeta^i(\theta)m_i)(\theta_i-\bar\theta_i)",
            lambda v: _local_factor(v, v.zeta(v.theta)), "holds", ("zeta = 1", lambda v: _local_factor(v, 1)),
            kind="aggregation",
            needs=(DIAGONAL,),
            proof="note",
            note="Delta_i = -m_i (theta_i - bar theta_i); the derivative of zeta plays no part at the fixed point: Delta is 0 "
            "there",
        ),
    ),
    statement(
        "one-round",
        "whether one round ends lower than with naive aggregation",
        "poster: 'a better update'",
        closed(
            "never higher", ROUND, lambda v: le(v.value(v.step(v.theta)), v.value(v.naive(v.theta))), "violated",
            before=r"\tau>0,\ \eta(1+\tau)L\le1,\ \Omega'>0\Rightarrow ",
            kind="aggregation", needs=(SENSITIVE, SHORT, TAU),
            wording="in words", note="a reading of the quoted words: a sensitive parameter that is right to move is held back",
        ),
        closed(
            "never lower", ROUND, lambda v: le(v.value(v.naive(v.theta)), v.value(v.step(v.theta))), "violated",
            before=r"\tau>0,\ \eta(1+\tau)L\le1,\ \Omega'>0\Rightarrow ",
            kind="aggregation", needs=(SENSITIVE, SHORT, TAU),
        ),
    ),
    statement(
        "zero-sensitivity",
        "a layer whose largest sensitivity is 0",
        "Algorithm 1, Omega' = max(Omega)",
        form(
            "printed", r"\Omega'(\theta)>0\text{ for every }\theta",
            lambda v: le(_is(True), 1 - _undefined(v)), "violated", kind="aggregation",
            note="0/0 in the first round of every linear model that starts at 0",
        ),
        form(
            "repaired", r"\Omega'(\theta)=0\iff F(\theta;a)=0\ \forall a\in\textstyle\bigcup_kB_k",
            lambda v: eq(_undefined(v), _outputs_vanish(v)), "holds",
            ("only at 0", lambda v: eq(_undefined(v), _is((v.theta == 0).all()))),
            kind="aggregation",
            proof="note",
            note="linear models, one batch a client: all w_k > 0, and S theta = 0 exactly where theta' S theta = 0, S being "
            "semidefinite",
        ),
        form(
            "one scale", r"\Omega'(\theta)>0\Rightarrow\zeta(2\theta)=\zeta(\theta)",
            lambda v: eq(v.zeta(2 * v.theta), v.zeta(v.theta)), "holds",
            ("shifted by 1", lambda v: eq(v.zeta(v.theta + 1), v.zeta(v.theta))),
            kind="aggregation", needs=(SENSITIVE,),
            proof="note",
            note="Omega(2 theta) = 2 Omega(theta): the direction of theta alone decides, however short it is",
        ),
        form(
            "a limit",
            r"\Omega'(\theta)>0,\ \theta'=(\theta_n,\dots,\theta_1)\Rightarrow"
            r"\lim_{t\to0}\zeta(t\theta)=\lim_{t\to0}\zeta(t\theta'),\ t>0",
            lambda v: eq(v.zeta(v.theta), v.zeta(v.theta[::-1])), "violated", kind="aggregation", needs=(SENSITIVE,),
            note="zeta(t theta) = zeta(theta) for t > 0, so that judged is zeta(theta) = zeta(theta'), theta' being "
            "theta's entries in reverse. The limit depends on the direction: no choice of zeta at 0 is continuous",
        ),
        assumptions=("linear models, one batch a client",),
    ),
)  # fmt: skip
