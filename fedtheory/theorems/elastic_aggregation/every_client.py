"""Elastic Aggregation, poster: every client's loss, and the drift from the ideal model."""

from fractions import Fraction

from fedtheory.theorems.elastic_aggregation.clients import (
    ONE_STEP,
    SENSITIVE,
    SHORT,
    SMALL,
    TAU,
    Aggregation,
)
from fedtheory.theorems.elastic_aggregation.paper import QUADRATICS, REPAIRED, paper
from fedtheory.theory import form, le, repaired, wrong


def no_higher(q, after):
    """Sides of f_k(after) <= f_k(theta), client by client."""
    return le(q.losses(after), q.losses(q.theta))


def drift(q):
    """Sides of ||theta+ - theta*||^2 <= ||theta^naive - theta*||^2."""
    return le(*(((x - q.star) ** 2).sum() for x in (q.step(q.theta), q.naive(q.theta))))


def descent(q, share=1):
    """Sides of F(theta+) + share lr eta (1 - eta (1 + tau) L/2) sum_i zeta_i g_i^2 <= F(theta).

    Here g is the gradient of F.
    """
    g = (q.w[:, None, None] * q.H).sum(axis=0) @ (q.theta - q.star)
    factor = q.lr * q.eta * (1 - q.eta * (1 + q.tau) * q.L / 2)
    drop = factor * (q.zeta(q.theta) * g * g).sum()
    return le(q.value(q.step(q.theta)) + share * drop, q.value(q.theta))


@paper.statement(
    "every-client", about=REPAIRED, over=Aggregation,
    title="whether a round lowers the loss of every client, and drifts less than naive aggregation",
    source="poster: 'minimizes the loss for clients A and B, while not causing the server model to "
    "drift from its ideal distribution'",
    assumptions=(*QUADRATICS, "all clients take part; naive is the same round with zeta = 1"),
)
def every_client(q):
    """Every client's loss after a round, the drift, and the mean loss."""
    yield form(
        "lower for every client", lambda: no_higher(q, q.step(q.theta)),
        r"\Omega'>0,\ \eta(1+\tau)L\le1\Rightarrow f_k(\theta^+)\le f_k(\theta)\ \forall k",
        needs=(SENSITIVE, SHORT, TAU), wording="in words", fails=True,
        note="a reading of the quoted words. Clients whose minimisers lie on either side of theta "
        "cannot both win",
    )
    yield form(
        "naive", lambda: no_higher(q, q.naive(q.theta)),
        r"\eta(1+\tau)L\le1\Rightarrow f_k(\theta^{\text{naive}})\le f_k(\theta)\ \forall k",
        needs=(SENSITIVE, SHORT, TAU), fails=True,
        note="the poster says of naive aggregation that it 'minimizes the local empirical loss of "
        "clients A and B': nor does it",
    )
    yield form(
        "less drift", lambda: drift(q),
        r"\Omega'>0,\ \eta(1+\tau)L\le1\Rightarrow"
        r"\|\theta^+-\theta^*\|\le\|\theta^{\text{naive}}-\theta^*\|",
        needs=(SENSITIVE, SHORT, TAU), fails=True,
        note="the ideal model read as the optimum theta* of sum_k w_k f_k; judged are the squares. "
        "A sensitive parameter on its way to theta* is held back",
    )
    yield form(
        "lower in the mean", lambda: le(q.value(q.step(q.theta)), q.value(q.theta)),
        r"\eta(1+\tau)L<2\Rightarrow F(\theta^+)\le F(\theta)",
        needs=(SMALL, TAU, SENSITIVE), fails=True,
        note="F = sum_k w_k f_k. Several local steps lead to FedAvg's fixed point, which is not "
        "the optimum: from the optimum F rises",
    )
    yield repaired(
        lambda: descent(q),
        r"E=1:\ F(\theta^+)\le F(\theta)-l\,\eta\big(1-\tfrac{\eta(1+\tau)L}2\big)"
        r"\textstyle\sum_i\zeta^i\big(\tfrac{\partial F}{\partial\theta_i}\big)^2",
        wrong("three times the decrease", lambda: descent(q, 3)),
        wrong("eleven tenths of it", lambda: descent(q, Fraction(11, 10))),
        needs=(SMALL, ONE_STEP), holds=True, proof="note",
        note="l is the clients' step, L >= the largest eigenvalue of M = l H, H the Hessian of F, "
        "and eta (1 + tau) L < 2. With one local step V of elastic-aggregation/stability is "
        "l (F - F*): the mean loss falls, each client's need not",
    )
