"""Elastic Aggregation, Algorithm 1, Omega' = max(Omega): a layer whose largest sensitivity is 0."""

from fractions import Fraction

from fedtheory.theorems.elastic_aggregation.clients import SENSITIVE, Aggregation
from fedtheory.theorems.elastic_aggregation.paper import ELASTIC, paper
from fedtheory.theory import eq, form, le, printed, repaired, wrong


def undefined(q):
    """1 where Omega' = 0, so that Omega/Omega' is 0/0; else 0."""
    return Fraction(int(q.omega(q.theta).max() == 0))


def outputs_vanish(q):
    """1 where all held-out outputs are 0, theta' S_k theta = 0 for every k; else 0."""
    return Fraction(int(all(q.theta @ S @ q.theta == 0 for S in q.S)))


@paper.statement(
    "zero-sensitivity", about=ELASTIC, over=Aggregation, source="Algorithm 1, Omega' = max(Omega)",
    assumptions=("linear models, one batch a client",),
)
def zero_sensitivity(q):
    """a layer whose largest sensitivity is 0"""
    yield printed(
        lambda: le(Fraction(1), 1 - undefined(q)), r"\Omega'(\theta)>0\text{ for every }\theta",
        fails=True, note="0/0 in the first round of every linear model that starts at 0",
    )
    yield repaired(
        lambda: eq(undefined(q), outputs_vanish(q)),
        r"\Omega'(\theta)=0\iff F(\theta;a)=0\ \forall a\in\textstyle\bigcup_kB_k",
        wrong("only at 0", lambda: eq(undefined(q), Fraction(int((q.theta == 0).all())))),
        holds=True, proof="note",
        note="linear models, one batch a client: all w_k > 0, and S theta = 0 exactly where "
        "theta' S theta = 0, S being semidefinite",
    )
    yield form(
        "one scale", lambda: eq(q.zeta(2 * q.theta), q.zeta(q.theta)),
        r"\Omega'(\theta)>0\Rightarrow\zeta(2\theta)=\zeta(\theta)",
        wrong("shifted by 1", lambda: eq(q.zeta(q.theta + 1), q.zeta(q.theta))),
        needs=(SENSITIVE,), holds=True, proof="note",
        note="Omega(2 theta) = 2 Omega(theta): the direction of theta alone decides, however short "
        "it is",
    )
    yield form(
        "a limit", lambda: eq(q.zeta(q.theta), q.zeta(q.theta[::-1])),
        r"\Omega'(\theta)>0,\ \theta'=(\theta_n,\dots,\theta_1)\Rightarrow"
        r"\lim_{t\to0}\zeta(t\theta)=\lim_{t\to0}\zeta(t\theta'),\ t>0",
        needs=(SENSITIVE,), fails=True,
        note="zeta(t theta) = zeta(theta) for t > 0, so that judged is zeta(theta) = zeta(theta'), "
        "theta' being theta's entries in reverse. The limit depends on the direction: no choice of "
        "zeta at 0 is continuous",
    )
