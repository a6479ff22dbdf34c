"""Elastic Aggregation, Algorithm 1: which server steps are stable when all clients take part.

V(x) = (x - bar theta)' M (x - bar theta)/2 with M = sum_k w_k M_k and FedAvg's end bar theta.
"""

from fractions import Fraction

import numpy as np

from fedtheory.theorems.elastic_aggregation.clients import (
    DIAGONAL,
    NAIVE_STABLE,
    SENSITIVE,
    SMALL,
    TAU,
    Aggregation,
)
from fedtheory.theorems.elastic_aggregation.paper import QUADRATICS, REPAIRED, paper
from fedtheory.theory import form, le, repaired, wrong

DIAG = r"H_k\text{ diagonal: }"  # M = diag(m_1, ..., m_n)


def decrease(q, share=1):
    """Sides of V(theta+) <= V(theta) - share eta (1 - eta (1 + tau) L/2) sum_i zeta_i g_i^2.

    Here g = M (theta - bar theta).
    """
    g = q.mean @ (q.theta - q.fedavg)
    drop = q.eta * (1 - q.eta * (1 + q.tau) * q.L / 2) * (q.zeta(q.theta) * g * g).sum()
    return le(q.V(q.step(q.theta)) + share * drop, q.V(q.theta))


def rate(q, zeta):
    """Sides of V(theta+) <= (1 - 2 eta zeta mu_M (1 - eta (1 + tau) L/2)) V(theta)."""
    factor = 1 - 2 * q.eta * zeta * q.mu * (1 - q.eta * (1 + q.tau) * q.L / 2)
    return le(q.V(q.step(q.theta)), factor * q.V(q.theta))


def coordinates(q, low, high, share=1):
    """Sides of the contraction of each coordinate by ``share`` of its larger factor at the ends.

    The ends are zeta = low and zeta = high, with the factors |1 - eta zeta m_i|.
    """
    factor = np.maximum(abs(1 - q.eta * low * q.m), abs(1 - q.eta * high * q.m))
    return le(abs(q.step(q.theta) - q.fedavg), share * factor * abs(q.theta - q.fedavg))


@paper.statement(
    "stability", about=REPAIRED, over=Aggregation,
    source="Algorithm 1", assumptions=(*QUADRATICS, "M = sum_k w_k M_k, M_k = I - (I - lr H_k)^E"),
)
def stability(q):
    """which server steps are stable"""
    yield form(
        "as FedAvg", lambda: le(q.V(q.step(q.theta)), q.V(q.theta)),
        before=r"\eta L<2,\ \tau>0,\ \Omega'>0\Rightarrow ",
        needs=(NAIVE_STABLE, TAU, SENSITIVE), fails=True,
        note="carried over from FedAvg (the paper says nothing of it): a step that naive "
        "aggregation stands is too long for what is boosted",
    )
    yield repaired(
        lambda: decrease(q),
        r"\eta(1+\tau)L<2\Rightarrow V(\theta^+)\le V(\theta)"
        r"-\eta\big(1-\tfrac{\eta(1+\tau)L}2\big)\textstyle\sum_i\zeta^i(M(\theta-\bar\theta))_i^2",
        wrong("three times the decrease", lambda: decrease(q, 3)),
        wrong("eleven tenths of it", lambda: decrease(q, Fraction(11, 10))),
        needs=(SMALL,), holds=True, proof="note",
        note="V = (theta - bar theta)' M (theta - bar theta)/2, L >= its largest eigenvalue; "
        "whatever the sensitivities, as zeta M zeta <= L zeta^2 <= L (1 + tau) zeta, also where a "
        "layer is dead (zeta = 1, or 1 + tau with zero='boost'): for tau > 0 it converges from "
        "everywhere with eta < 2/((1 + tau) L)",
    )
    yield form(
        "rate", lambda: rate(q, q.tau), "", wrong("1 + tau for tau", lambda: rate(q, 1 + q.tau)),
        wrong("eleven tenths of tau", lambda: rate(q, Fraction(11, 10) * q.tau)),
        before=DIAG + r"\Omega'>0,\ \eta(1+\tau)L<2\Rightarrow ",
        needs=(SMALL, DIAGONAL, SENSITIVE), holds=True, proof="note",
        note="mu_M the least eigenvalue of M: from the form above with zeta >= tau and |M e|^2 >= "
        "mu_M e' M e = 2 mu_M V. Every layer must have some sensitivity, unless tau <= 1 or "
        "zero='boost': see the next two",
    )
    yield form(
        "rate, always", lambda: rate(q, q.tau), before=DIAG + r"\eta(1+\tau)L<2\Rightarrow ",
        needs=(SMALL, DIAGONAL), fails=True,
        note="whatever the sensitivities: not with tau > 1 where a layer is dead (Omega' = 0). "
        "There zeta is 1 with zero='one', which is less than tau",
    )
    yield form(
        "rate, dead layers too", lambda: rate(q, min(1, q.tau)),
        DIAG + r"\eta(1+\tau)L<2\Rightarrow"
        r" V(\theta^+)\le\big(1-2\eta\min(1,\tau)\mu_M(1-\tfrac{\eta(1+\tau)L}2)\big)V(\theta)",
        wrong("tau", lambda: rate(q, q.tau)),
        wrong("eleven tenths of it", lambda: rate(q, Fraction(11, 10) * min(1, q.tau))),
        needs=(SMALL, DIAGONAL), holds=True, proof="note",
        note="zeta >= min(1, tau) in every layer, dead (zero='one') or not; then as above",
    )
    yield form(
        "each coordinate", lambda: coordinates(q, q.tau, 1 + q.tau),
        DIAG + r"\Omega'>0\Rightarrow|\theta^+_i-\bar\theta_i|"
        r"\le\max(|1-\eta\tau m_i|,|1-\eta(1+\tau)m_i|)\,|\theta_i-\bar\theta_i|",
        wrong("the naive server's factor", lambda: coordinates(q, 1, 1)),
        wrong(
            "nine tenths of the factor", lambda: coordinates(q, q.tau, 1 + q.tau, Fraction(9, 10)),
        ),
        needs=(DIAGONAL, SENSITIVE), holds=True, proof="note",
        note="|1 - eta z m_i| is convex in z, and so largest at an end of [tau, 1 + tau]",
    )
