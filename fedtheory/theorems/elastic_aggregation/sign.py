"""Elastic Aggregation, Algorithm 1, last line: the sign of the server's step."""

from fractions import Fraction

from fedtheory.theorems.elastic_aggregation.clients import (
    DIAGONAL,
    SENSITIVE,
    SMALL,
    TAU,
    Aggregation,
)
from fedtheory.theorems.elastic_aggregation.paper import ELASTIC, QUADRATICS, paper
from fedtheory.theory import form, le, printed, repaired, wrong


def nearer(q, sign):
    """Sides of V(theta+) <= V(theta), with either sign of the step."""
    return le(q.V(q.step(q.theta, sign)), q.V(q.theta))


def growth(q, tau):
    """Sides of (1 + eta tau mu_M)^2 V(theta) <= V(theta+), with the printed sign."""
    return le((1 + q.eta * tau * q.mu) ** 2 * q.V(q.theta), q.V(q.step(q.theta, -1)))


@paper.statement(
    "sign", about=ELASTIC, over=Aggregation,
    source="Algorithm 1, last line", assumptions=QUADRATICS,
)
def sign(q):
    """the sign of the server's step"""
    yield printed(
        lambda: nearer(q, -1),
        before=r"\theta^+=\theta-\eta\zeta\Delta,\ \tau>0,\ \Omega'>0,"
        r"\ \eta(1+\tau)L<2\Rightarrow ", needs=(SMALL, TAU, SENSITIVE), fails=True,
        note="Delta_k = theta_k - theta points to the clients; minus walks away from them",
    )
    yield repaired(
        lambda: nearer(q, 1), "", wrong("as printed", lambda: nearer(q, -1)),
        before=r"\theta^+=\theta+\eta\zeta\Delta,\ \eta(1+\tau)L<2\Rightarrow ", needs=(SMALL,),
        holds=True, proof="note", note="from the decrease in elastic-aggregation/stability",
    )
    yield form(
        "growth", lambda: growth(q, q.tau), "",
        wrong("tau + 1/10", lambda: growth(q, q.tau + Fraction(1, 10))),
        before=r"H_k\text{ diagonal: }\theta^+=\theta-\eta\zeta\Delta,\ \Omega'>0\Rightarrow ",
        needs=(DIAGONAL, SENSITIVE), holds=True, proof="note",
        note="geometric divergence, for every step and start but the fixed point, as every "
        "coordinate grows by 1 + eta zeta^i m_i >= 1 + eta tau mu_M; attained in one dimension",
    )
