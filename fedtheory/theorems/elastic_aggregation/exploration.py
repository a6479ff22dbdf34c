"""Elastic Aggregation, poster: less sensitive parameters move farther, 'to better explore'."""

from fractions import Fraction

import numpy as np

from fedtheory.theorems.elastic_aggregation.clients import SENSITIVE, TAU, Aggregation
from fedtheory.theorems.elastic_aggregation.paper import QUADRATICS, REPAIRED, paper
from fedtheory.theory import form, le, wrong


def moves(q):
    """|theta+ - theta| (d,), and that of naive aggregation."""
    return abs(q.step(q.theta) - q.theta), abs(q.naive(q.theta) - q.theta)


def boosted(q, share=1):
    """Sides of share times the naive move <= this one, where Omega^i <= tau Omega'; 0 elsewhere."""
    here, naive = moves(q)
    omega = q.omega(q.theta)
    return le(np.where(omega <= q.tau * omega.max(), share * naive, 0 * naive), here)


def longer(q):
    """Sides of ||theta^naive - theta||^2 <= ||theta+ - theta||^2."""
    here, naive = moves(q)
    return le((naive * naive).sum(), (here * here).sum())


@paper.statement(
    "exploration", about=REPAIRED, over=Aggregation,
    title="whether less sensitive parameters, and the model, move farther than with naive "
    "aggregation",
    source="poster: 'boosts updates to the less sensitive parameters to better explore different "
    "client distributions'",
    assumptions=(*QUADRATICS, "all clients take part; naive is the same round with zeta = 1"),
)
def exploration(q):
    """Less sensitive parameters, and the model, against naive aggregation."""
    yield form(
        "each parameter", lambda: boosted(q),
        r"\Omega'>0,\ \Omega^i\le\tau\Omega'\Rightarrow"
        r"|\theta_i^+-\theta_i|\ge|\theta_i^{\text{naive}}-\theta_i|",
        wrong("by a tenth", lambda: boosted(q, Fraction(11, 10))),
        needs=(SENSITIVE,), wording="in words", holds=True, proof="note",
        note="a reading of the quoted words: zeta^i >= 1 exactly there, and the move is zeta^i "
        "times the naive one. Equal where Omega^i = tau Omega'",
    )
    yield form(
        "the model", lambda: longer(q),
        r"\Omega'>0\Rightarrow\|\theta^+-\theta\|\ge\|\theta^{\text{naive}}-\theta\|",
        needs=(SENSITIVE, TAU), fails=True,
        note="judged are the squares. What is held back may be what had far to go: the whole step "
        "is often shorter",
    )
