"""Elastic Aggregation, Algorithm 1: how far sensitive parameters are held back, others boosted."""

from fractions import Fraction

from fedtheory.rational import objects
from fedtheory.theorems.elastic_aggregation.clients import SENSITIVE, Aggregation
from fedtheory.theorems.elastic_aggregation.paper import ELASTIC, QUADRATICS, paper
from fedtheory.theory import eq, form, le, printed, repaired, wrong


def truth(conditions):
    """Truth values as fractions, 1 or 0."""
    return objects([Fraction(int(c)) for c in conditions])


def held_back(q, sensitive):
    """Sides of: zeta^i < 1 exactly where ``sensitive`` is true."""
    return eq(truth(q.zeta(q.theta) < 1), truth(sensitive))


def above(q, share):
    """Parameters with Omega^i > share Omega'."""
    omega = q.omega(q.theta)
    return omega > share * omega.max()


def above_mean(q):
    """Parameters that are more sensitive than their layer's mean."""
    omega = q.omega(q.theta)
    return omega * len(omega) > omega.sum()


@paper.statement(
    "factors", about=ELASTIC, over=Aggregation,
    title="how far sensitive parameters are held back, and others boosted",
    source="Algorithm 1, and the text beside it", assumptions=QUADRATICS
)
def factors(q):
    """The range of the server's factors zeta, and which parameters have one below 1."""
    yield printed(
        lambda: le(Fraction(1), max(q.zeta(q.theta))), r"\Omega'>0\Rightarrow\max_i\zeta^i\ge1",
        needs=(SENSITIVE,), fails=True,
        note="'correspondingly boosted': not where all parameters are about as sensitive, as in a "
        "layer of one parameter with tau < 1; there the step is only made shorter",
    )
    yield repaired(
        lambda: eq(min(q.zeta(q.theta)), q.tau), r"\Omega'>0\Rightarrow\min_i\zeta^i=\tau",
        wrong("1 + tau", lambda: eq(min(q.zeta(q.theta)), 1 + q.tau)),
        needs=(SENSITIVE,), holds=True, proof="note",
        note="the one with Omega^i = Omega': every layer has a parameter that is held back to tau, "
        "however little it moves the output",
    )
    yield form(
        "range", lambda: le(q.zeta(q.theta), 1 + q.tau),
        r"\Omega'>0\Rightarrow\zeta^i\le1+\tau\ \forall i",
        wrong("tau + 1/2", lambda: le(q.zeta(q.theta), Fraction(1, 2) + q.tau)),
        wrong("nine tenths of it", lambda: le(q.zeta(q.theta), Fraction(9, 10) * (1 + q.tau))),
        needs=(SENSITIVE,), holds=True, proof="note", note="as Omega^i >= 0",
    )
    yield form(
        "which", lambda: held_back(q, above(q, q.tau)),
        r"\Omega'>0\Rightarrow(\zeta^i<1\iff\Omega^i>\tau\Omega'\ \forall i)",
        wrong("above the mean", lambda: held_back(q, above_mean(q))),
        wrong("eleven tenths of tau", lambda: held_back(q, above(q, Fraction(11, 10) * q.tau))),
        wrong("nine tenths of tau", lambda: held_back(q, above(q, Fraction(9, 10) * q.tau))),
        needs=(SENSITIVE,), holds=True, proof="note",
        note="1 + tau - Omega^i/Omega' < 1, times Omega' > 0",
    )
