"""Elastic Aggregation, Algorithm 1, Omega_k <- mu Omega_k + (1 - mu)|g|: it starts at 0."""

from fractions import Fraction

import numpy as np

from fedtheory.theorems.elastic_aggregation.averages import ALIKE, SAME_COUNT, Averages
from fedtheory.theorems.elastic_aggregation.paper import ELASTIC, paper
from fedtheory.theory import eq, form, le, printed, repaired, wrong


def first(q):
    """|g_k| of every client's first batch (N, d)."""
    return np.stack([b[0] for b in q.batches])


def plain(q):
    """The mean over every client's batches (N, d)."""
    return np.stack([b.sum(axis=0) / Fraction(len(b)) for b in q.batches])


def moved(q, share=1):
    """Sides of |zeta_printed - zeta_corrected| <= share (1 - min_k f_k/max_k f_k).

    Here f_k = 1 - mu^m_k.
    """
    moved = abs(q.zeta(q.printed) - q.zeta(q.corrected))
    return le(moved, share * (1 - q.factors.min() / q.factors.max()) + 0 * moved)


@paper.statement(
    "moving-average", about=ELASTIC, over=Averages,
    source="Algorithm 1, Omega_k <- mu Omega_k + (1 - mu)|g|", assumptions=("0 < mu < 1",),
)
def moving_average(q):
    """the moving average that starts at 0"""
    yield printed(
        lambda: eq(q.printed, first(q)), r"\text{batches alike}\Rightarrow\Omega_k=|g_k|",
        needs=(ALIKE,), fails=True, note="it is (1 - mu^m) |g_k| for a client with m batches",
    )
    yield repaired(
        lambda: eq(q.corrected, first(q)),
        r"\text{batches alike}\Rightarrow\Omega_k/(1-\mu^{m_k})=|g_k|",
        wrong("as printed", lambda: eq(q.printed, first(q))), needs=(ALIKE,), holds=True,
        proof="note", note="(1 - mu)(1 + mu + ... + mu^(m - 1)) = 1 - mu^m",
    )
    yield form(
        "it cancels", lambda: eq(q.zeta(q.printed), q.zeta(q.corrected)),
        r"\zeta_{\text{printed}}=\zeta_{\text{corrected}}", fails=True,
        note="not between clients with different numbers of batches: small clients count for less "
        "twice",
    )
    yield form(
        "equal numbers", lambda: eq(q.zeta(q.printed), q.zeta(q.corrected)),
        r"m_1=\dots=m_N\Rightarrow\zeta_{\text{printed}}=\zeta_{\text{corrected}}",
        wrong("the plain mean over batches", lambda: eq(q.zeta(q.printed), q.zeta(plain(q)))),
        needs=(SAME_COUNT,), holds=True, proof="note",
        note="one factor for all clients leaves Omega/Omega' as it is",
    )
    yield form(
        "distance", lambda: moved(q),
        r"|\zeta^i_{\text{printed}}-\zeta^i_{\text{corrected}}|\le"
        r"1-\tfrac{\min_k(1-\mu^{m_k})}{\max_k(1-\mu^{m_k})}",
        wrong("nine tenths of it", lambda: moved(q, Fraction(9, 10))), holds=True, proof="note",
        note="with q = min/max, q Omega <= Omega_printed/max_k(1 - mu^m_k) <= Omega in every "
        "coordinate, so that q r <= r_printed <= min(1, r/q) for r = Omega/Omega': r_printed - r "
        "<= min(1 - r, r (1/q - 1)) <= 1 - q, and r - r_printed <= (1 - q) r. Attained by two "
        "clients, each sensitive in another coordinate; mu = 0.95 with 1 and 10 batches: 0.88",
    )
