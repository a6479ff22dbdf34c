"""Elastic Aggregation, poster: sensitivities are measured on unlabelled data."""

from fractions import Fraction

import numpy as np

from fedtheory.theorems.elastic_aggregation.paper import REPAIRED, paper
from fedtheory.theorems.elastic_aggregation.samples import Labels
from fedtheory.theory import eq, form, le, wrong


def from_inputs(q):
    """|2 S_k theta| (N, d)."""
    return abs(2 * (q.gram @ q.theta))


def order(q):
    """Sides of |dl/dtheta_j| <= |dl/dtheta_i| where Omega^i > Omega^j, and of 0 elsewhere."""
    omega = (q.w[:, None] * q.sensitivities(q.theta)).sum(axis=0)
    loss = abs((q.w[:, None] * q.loss_gradients(q.theta)).sum(axis=0))
    i, j = np.broadcast_arrays(loss[:, None], loss[None, :])
    return le(np.where(omega[:, None] > omega[None, :], j, 0 * j), i)


@paper.statement(
    "unlabelled", about=REPAIRED, over=Labels, title="what the sensitivity is measured from",
    source="poster: 'pioneers in utilizing unlabeled client data'; Algorithm 1, g = grad "
    "||F(theta; x)||^2",
    assumptions=(
        "linear models with the loss (a' theta - y)^2/2, one batch of held-out samples B_k a "
        "client",
    ),
)
def unlabelled(q):
    """Inputs, labels and the loss behind a sensitivity."""
    yield form(
        "inputs are enough", lambda: eq(q.sensitivities(q.theta), from_inputs(q)),
        r"\Omega_k=|2S_k\theta|,\ S_k=\tfrac1{|B_k|}\textstyle\sum_{a\in B_k}aa'",
        wrong("the labelled loss", lambda: eq(abs(q.loss_gradients(q.theta)), from_inputs(q))),
        wrong(
            "nine tenths", lambda: eq(q.sensitivities(q.theta), Fraction(9, 10) * from_inputs(q))
        ),
        wording="in words", holds=True, proof="note",
        note="a reading of the quoted words, for linear models F(theta; a) = a' theta, one batch a "
        "client: the left side is Algorithm 1's, sample by sample. It depends on theta and on the "
        "second moments of B_k's inputs, and on no label of B_k. That it was the first to do so is "
        "history, and not judged",
    )
    yield form(
        "no trace of labels",
        lambda: eq(q.sensitivities(q.after(q.labels)), q.sensitivities(q.after(q.others))),
        r"\Omega_k(\theta^+)\text{ is the same for other labels of }D_k", fails=True,
        note="labels come in by theta: a round's model depends on them, and the next round's "
        "sensitivities on the model",
    )
    yield form(
        "as the loss", lambda: order(q),
        r"\Omega^i>\Omega^j\Rightarrow"
        r"\big|\tfrac{\partial}{\partial\theta_i}\textstyle\sum_kw_k\ell_k\big|\ge"
        r"\big|\tfrac\partial{\partial\theta_j}\textstyle\sum_kw_k\ell_k\big|", fails=True,
        note="the poster explains a more sensitive parameter as one of 'a larger gradient norm': "
        "it is the output's, not the loss's. l_k is the mean of (a' theta - y)^2 over B_k, with "
        "its labels. Near a fit the loss's gradient is small while the output's is not",
    )
