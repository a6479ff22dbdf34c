"""Elastic Aggregation, the poster: the loss after one round beside that of naive aggregation."""

from fedtheory.theorems.elastic_aggregation.clients import SENSITIVE, SHORT, TAU, Aggregation
from fedtheory.theorems.elastic_aggregation.paper import QUADRATICS, REPAIRED, paper
from fedtheory.theory import form, le


@paper.statement(
    "one-round", about=REPAIRED, over=Aggregation,
    title="whether one round ends lower than with naive aggregation",
    source="poster: 'a better update'", assumptions=QUADRATICS
)
def one_round(q):
    """The loss F after one round, beside that after a round of naive aggregation."""
    yield form(
        "never higher", lambda: le(q.value(q.step(q.theta)), q.value(q.naive(q.theta))),
        before=r"\tau>0,\ \eta(1+\tau)L\le1,\ \Omega'>0\Rightarrow ",
        needs=(SENSITIVE, SHORT, TAU), wording="in words", fails=True,
        note="a reading of the quoted words: a sensitive parameter that is right to move is held "
        "back",
    )
    yield form(
        "never lower", lambda: le(q.value(q.naive(q.theta)), q.value(q.step(q.theta))),
        before=r"\tau>0,\ \eta(1+\tau)L\le1,\ \Omega'>0\Rightarrow ",
        needs=(SENSITIVE, SHORT, TAU), fails=True,
    )
