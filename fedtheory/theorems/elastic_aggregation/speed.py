"""Elastic Aggregation, conference abstract: its speed beside that of naive aggregation."""

from fractions import Fraction

from fedtheory.theorems.elastic_aggregation.clients import (
    DIAGONAL,
    FIXED,
    INSENSITIVE,
    SHORT,
    Aggregation,
)
from fedtheory.theorems.elastic_aggregation.paper import QUADRATICS, REPAIRED, paper
from fedtheory.theory import eq, form, le, repaired, wrong

DIAG = r"H_k\text{ diagonal: }"  # M = diag(m_1, ..., m_n)
RHO = (
    DIAG + r"\eta(1+\tau)L\le1,\ \rho_{\text{elastic}}=\max_i|1-\eta\zeta^i(\bar\theta)m_i|,"
    r"\ \rho_{\text{naive}}=\max_i|1-\eta m_i|:\ "
)


def elastic(q):
    """The factor of the contraction near the fixed point; the naive server's is q.factor(1)."""
    return q.factor(q.zeta(q.fedavg))


def path(q, zeta):
    """Sides of: a round multiplies every distance by 1 - eta zeta_i m_i."""
    e = q.theta - q.fedavg
    return eq(q.step(q.theta) - q.fedavg, (1 - q.eta * zeta * q.m) * e)


@paper.statement(
    "speed", about=REPAIRED, over=Aggregation,
    title="whether it converges faster than naive aggregation",
    source="conference abstract: 'leads to efficient training in both convex and non-convex "
    "settings'", assumptions=QUADRATICS,
)
def speed(q):
    """The factor rho of the contraction near the fixed point, beside the naive server's."""
    yield form(
        "never slower", lambda: le(elastic(q), q.factor(1)), before=RHO,
        needs=(SHORT, DIAGONAL, FIXED), wording="in words", fails=True,
        note="a reading of the quoted words. rho is the factor of the contraction near the fixed "
        "point; slower by up to 1/tau where the slow coordinate is the sensitive one, and for "
        "tau < 1 always where there is but one",
    )
    yield form(
        "never faster", lambda: le(q.factor(1), elastic(q)), before=RHO,
        needs=(SHORT, DIAGONAL, FIXED), fails=True,
        note="a coordinate of little sensitivity gains up to 1 + tau",
    )
    yield repaired(
        lambda: le(elastic(q), 1 - q.eta * q.tau * q.mu), "",
        wrong("tau + 1/10", lambda: le(elastic(q), 1 - q.eta * (q.tau + Fraction(1, 10)) * q.mu)),
        before=RHO, needs=(SHORT, DIAGONAL, FIXED), holds=True, proof="note",
        note="0 <= 1 - eta zeta^i m_i <= 1 - eta tau mu_M, as eta zeta^i m_i <= eta (1 + tau) L "
        "<= 1",
    )
    yield form(
        "at best", lambda: le(1 - q.eta * (1 + q.tau) * q.mu, elastic(q)), "",
        wrong("1 for 1 + tau", lambda: le(1 - q.eta * q.mu, elastic(q))),
        wrong(
            "nine tenths of 1 + tau",
            lambda: le(1 - q.eta * Fraction(9, 10) * (1 + q.tau) * q.mu, elastic(q)),
        ),
        before=RHO, needs=(SHORT, DIAGONAL, FIXED), holds=True, proof="note",
        note="the coordinate with m_i = mu_M has zeta^i <= 1 + tau",
    )
    yield form(
        "faster", lambda: le(elastic(q), q.factor(1)),
        RHO + r"\Omega^i(\bar\theta)\le\tau\Omega'(\bar\theta)\text{ or }m_i\ge\mu_M/\tau"
        r"\ \forall i\Rightarrow\rho_{\text{elastic}}\le\rho_{\text{naive}}",
        wrong("by 1 + tau", lambda: le(elastic(q), q.factor(1 + q.tau))),
        wrong("by eleven tenths", lambda: le(elastic(q), q.factor(Fraction(11, 10)))),
        needs=(SHORT, DIAGONAL, FIXED, INSENSITIVE), holds=True, proof="note",
        note="either way zeta^i m_i >= mu_M, by zeta^i >= 1 or by zeta^i >= tau: slow coordinates "
        "of little sensitivity, sensitive ones fast, as where sensitivity is curvature",
    )
    yield form(
        "path", lambda: path(q, q.zeta(q.theta)),
        DIAG + r"\theta^+_i-\bar\theta_i=(1-\eta\zeta^i(\theta)m_i)(\theta_i-\bar\theta_i)",
        wrong("zeta = 1", lambda: path(q, 1)), needs=(DIAGONAL,), holds=True, proof="note",
        note="Delta_i = -m_i (theta_i - bar theta_i); the derivative of zeta plays no part at the "
        "fixed point: Delta is 0 there",
    )
