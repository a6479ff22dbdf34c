"""Elastic Aggregation, the poster: where it ends when all clients take part."""

from fractions import Fraction

from fedtheory.theorems.elastic_aggregation.clients import SENSITIVE, TAU, TAU_0, Aggregation
from fedtheory.theorems.elastic_aggregation.paper import ELASTIC, QUADRATICS, paper
from fedtheory.theory import eq, form, le, repaired, wrong


def stays(q, x):
    """Sides of: a round leaves x where it is."""
    return eq(q.step(x), x)


def moves(q, tau):
    """Sides of tau |Delta| <= |zeta Delta|: the step is at least tau times the naive one."""
    delta = q.delta(q.theta)
    return le(tau * abs(delta), abs(q.zeta(q.theta) * delta))


def still(q):
    """Sides of: a step of 0 means a naive step of 0."""
    stands = Fraction(int((q.step(q.theta) == q.theta).all()))
    return le(stands * abs(q.delta(q.theta)).max(), 0 * q.tau)


@paper.statement(
    "full-participation", about=ELASTIC, over=Aggregation,
    source="poster: 'to prevent the server model from drifting to any one client distribution'",
    assumptions=QUADRATICS
)
def full_participation(q):
    """where it ends when all clients take part"""
    yield form(
        "the optimum", lambda: stays(q, q.star),
        r"\tau>0,\ \Omega'>0:\ \theta^*+\eta\zeta(\theta^*)\Delta(\theta^*)=\theta^*"
        r"=\arg\min\textstyle\sum_kw_kf_k", needs=(TAU, SENSITIVE), wording="in words", fails=True,
        note="a reading of the quoted words; the paper gives no formula. The bias of E > 1 local "
        "steps on unlike clients stays: only the path and the speed change",
    )
    yield repaired(
        lambda: stays(q, q.fedavg),
        r"\bar\theta+\eta\zeta(\bar\theta)\Delta(\bar\theta)=\bar\theta\text{ where }"
        r"\textstyle\sum_kw_kM_k(\bar\theta-c_k)=0",
        wrong("the first client's minimiser", lambda: stays(q, q.c[0])), holds=True, proof="note",
        note="Delta, the clients' weighted mean, is 0 there, and zeta finite",
    )
    yield form(
        "no other", lambda: moves(q, q.tau),
        r"\Omega'>0\Rightarrow\tau|\Delta^i|\le|\zeta^i\Delta^i|\ \forall i",
        wrong("tau + 1/10", lambda: moves(q, q.tau + Fraction(1, 10))),
        needs=(SENSITIVE,), holds=True, proof="note",
        note="as zeta >= tau: with tau > 0 it stands still only where FedAvg does",
    )
    yield form(
        "tau = 0", lambda: still(q), r"\tau=0,\ \Omega'>0:\ \zeta\Delta=0\Rightarrow\Delta=0",
        needs=(TAU_0, SENSITIVE), fails=True,
        note="the most sensitive parameter of a layer does not move at all, and a layer of one "
        "parameter never does",
    )
