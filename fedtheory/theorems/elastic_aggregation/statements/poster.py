"""Elastic Aggregation's words, read as statements: better exploration, every client's loss, unlabelled data; and its experiments."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.theorems.elastic_aggregation.labels import LabelsView
from fedtheory.theorems.elastic_aggregation.notation import QUADRATICS, SYMBOLS, statement
from fedtheory.theorems.elastic_aggregation.quantities import ONE_STEP, SENSITIVE, SHORT, SMALL, TAU, AggregationView
from fedtheory.verification.statement import Sides, Statement, eq, form, le

__all__ = ["CLAIMS", "WORDS"]


def _moves(v: AggregationView) -> tuple[np.ndarray, np.ndarray]:
    """|theta+ - theta| (d,), and of naive aggregation."""
    return abs(v.step(v.theta) - v.theta), abs(v.naive(v.theta) - v.theta)


def _boosted(v: AggregationView, share: Any = 1) -> Sides:
    """Where Omega^i <= tau Omega', the naive move is at most this one; elsewhere 0 <= it."""
    here, naive = _moves(v)
    omega = v.omega(v.theta)
    return le(np.where(omega <= v.tau * omega.max(), share * naive, 0 * naive), here)


def _longer(v: AggregationView) -> Sides:
    here, naive = _moves(v)
    return le((naive * naive).sum(), (here * here).sum())


def _every_client(v: AggregationView, after: np.ndarray) -> Sides:
    """f_k(after) <= f_k(theta), client by client."""
    before, now = (np.stack([(x - c) @ H @ (x - c) / 2 for H, c in zip(v.H, v.c, strict=True)]) for x in (v.theta, after))
    return le(now, before)


def _drift(v: AggregationView) -> Sides:
    gaps = [((x - v.star) ** 2).sum() for x in (v.step(v.theta), v.naive(v.theta))]
    return le(*gaps)


def _descent(v: AggregationView, share: Any = 1) -> Sides:
    """F(theta+) + lr eta (1 - eta (1 + tau) L/2) sum zeta_i (dF/dtheta_i)^2 <= F(theta)."""
    g = (v.w[:, None, None] * v.H).sum(axis=0) @ (v.theta - v.star)
    drop = v.lr * v.eta * (1 - v.eta * (1 + v.tau) * v.L / 2) * (v.zeta(v.theta) * g * g).sum()
    return le(v.value(v.step(v.theta)) + share * drop, v.value(v.theta))


def _order(v: LabelsView) -> Sides:
    """Where Omega^i > Omega^j, the loss moves no less with i: 0 where it moves less, by how much elsewhere."""
    omega = (v.w[:, None] * v.sensitivities(v.theta)).sum(axis=0)
    loss = abs((v.w[:, None] * v.loss_gradients(v.theta)).sum(axis=0))
    above = omega[:, None] > omega[None, :]
    nothing: Any = Fraction(0)
    return le(np.where(above, loss[None, :] + 0 * loss[:, None], nothing), loss[:, None] + 0 * loss[None, :])


WORDS = (
    statement(
        "exploration",
        "whether less sensitive parameters, and the model, move farther than with naive aggregation",
        "poster: 'boosts updates to the less sensitive parameters to better explore different client distributions'",
        form(
            "each parameter", r"\Omega'>0,\ \Omega^i\le\tau\Omega'\Rightarrow"
            r"|\theta_i^+-\theta_i|\ge|\theta_i^{\text{naive}}-\theta_i|",
            _boosted, "holds", ("by a tenth", lambda v: _boosted(v, Fraction(11, 10))), kind="aggregation",
            needs=(SENSITIVE,), wording="in words",
            proof="note",
            note="a reading of the quoted words: zeta^i >= 1 exactly there, and the move is zeta^i times the naive one. Equal where "
            "Omega^i = tau Omega'",
        ),
        form(
            "the model", r"\Omega'>0\Rightarrow\|\theta^+-\theta\|\ge\|\theta^{\text{naive}}-\theta\|", _longer, "violated",
            kind="aggregation", needs=(SENSITIVE, TAU),
            note="judged are the squares. What is held back may be what had far to go: the whole step is often shorter",
        ),
        assumptions=(*QUADRATICS, "all clients take part; naive is the same round with zeta = 1"),
    ),
    statement(
        "every-client",
        "whether a round lowers the loss of every client, and drifts less than naive aggregation",
        "poster: 'minimizes the loss for clients A and B, while not causing the server model to drift from its ideal distribution'",
        form(
            "lower for every client", r"\Omega'>0,\ \eta(1+\tau)L\le1\Rightarrow f_k(\theta^+)\le f_k(\theta)\ \forall k",
            lambda v: _every_client(v, v.step(v.theta)), "violated", kind="aggregation",
            needs=(SENSITIVE, SHORT, TAU), wording="in words",
            note="a reading of the quoted words. Clients whose minimisers lie on either side of theta cannot both win",
        ),
        form(
            "naive", r"\eta(1+\tau)L\le1\Rightarrow f_k(\theta^{\text{naive}})\le f_k(\theta)\ \forall k",
            lambda v: _every_client(v, v.naive(v.theta)), "violated", kind="aggregation", needs=(SENSITIVE, SHORT, TAU),
            note="the poster says of naive aggregation that it 'minimizes the local empirical loss of clients A and B': nor does it",
        ),
        form(
            "less drift", r"\Omega'>0,\ \eta(1+\tau)L\le1\Rightarrow\|\theta^+-\theta^*\|\le\|\theta^{\text{naive}}-\theta^*\|",
            _drift, "violated", kind="aggregation", needs=(SENSITIVE, SHORT, TAU),
            note="the ideal model read as the optimum theta* of sum_k w_k f_k; judged are the squares. A sensitive "
            "parameter on its way to theta* is held back",
        ),
        form(
            "lower in the mean", r"\eta(1+\tau)L<2\Rightarrow F(\theta^+)\le F(\theta)",
            lambda v: le(v.value(v.step(v.theta)), v.value(v.theta)), "violated", kind="aggregation", needs=(SMALL, TAU, SENSITIVE),
            note="F = sum_k w_k f_k. Several local steps lead to FedAvg's fixed point, which is not the optimum: from "
            "the optimum F rises",
        ),
        form(
            "repaired",
            r"E=1:\ F(\theta^+)\le F(\theta)-l\,\eta\big(1-\tfrac{\eta(1+\tau)L}2\big)\textstyle\sum_i\zeta^i\big(\tfrac{\partial F}"
            r"{\partial\theta_i}\big)^2", _descent, "holds",
            ("three times the decrease", lambda v: _descent(v, 3)), ("eleven tenths of it", lambda v: _descent(v, Fraction(11, 10))),
            kind="aggregation", needs=(SMALL, ONE_STEP),
            proof="note",
            note="l is the clients' step, L >= the largest eigenvalue of M = l H, H the Hessian of F, and eta (1 + tau) L "
            "< 2. With one local step V of elastic-aggregation/stability is l (F - F*): the mean loss falls, each client's "
            "need not",
        ),
        assumptions=(*QUADRATICS, "all clients take part; naive is the same round with zeta = 1"),
    ),
    statement(
        "unlabelled",
        "what the sensitivity is measured from",
        "poster: 'pioneers in utilizing unlabeled client data'; Algorithm 1, g = grad ||F(theta; x)||^2",
        form(
            "inputs are enough", r"\Omega_k=|2S_k\theta|,\ S_k=\tfrac1{|B_k|}\textstyle\sum_{a\in B_k}aa'",
            lambda v: eq(v.sensitivities(v.theta), np.stack([abs(2 * (S @ v.theta)) for S in v.gram])), "holds",
            ("the labelled loss", lambda v: eq(abs(v.loss_gradients(v.theta)), np.stack([abs(2 * (S @ v.theta)) for S in v.gram]))),
            ("nine tenths", lambda v: eq(v.sensitivities(v.theta), Fraction(9, 5) * np.stack([abs(S @ v.theta) for S in v.gram]))),
            kind="labels", wording="in words",
            proof="note",
            note="a reading of the quoted words, for linear models F(theta; a) = a' theta, one batch a client: the left "
            "side is Algorithm 1's, sample by sample. It depends on theta and on the second moments of B_k's inputs, and "
            "on no label of B_k. That it was the first to do so is history, and not judged",
        ),
        form(
            "no trace of labels", r"\Omega_k(\theta^+)\text{ is the same for other labels of }D_k",
            lambda v: eq(v.sensitivities(v.after(v.labels)), v.sensitivities(v.after(v.others))), "violated", kind="labels",
            note="labels come in by theta: a round's model depends on them, and the next round's sensitivities on the model",
        ),
        form(
            "as the loss", r"\Omega^i>\Omega^j\Rightarrow\big|\tfrac{\partial}{\partial\theta_i}\textstyle\sum_kw_k\ell_k\big|\ge"
            r"\big|\tfrac\partial{\partial\theta_j}\textstyle\sum_kw_k\ell_k\big|",
            _order, "violated", kind="labels",
            note="the poster explains a more sensitive parameter as one of 'a larger gradient norm': it is the output's, "
            "not the loss's. l_k is the mean of (a' theta - y)^2 over B_k, with its labels. Near a fit the loss's gradient "
            "is small while the output's is not",
        ),
        assumptions=("linear models with the loss (a' theta - y)^2/2, one batch of held-out samples B_k a client",),
    ),
)  # fmt: skip


def _claim(id: str, title: str, source: str, latex: str, note: str, shown_by: str) -> Statement:
    """A claim that is on record as open; a command measures what it is about."""
    only = form("printed", latex, None, "open", note=note)
    return Statement(
        f"elastic-aggregation/{id}", title, source, "elastic-aggregation", (only,), (), SYMBOLS, kind="claim", shown_by=shown_by
    )


CLAIMS = (
    _claim(
        "claim-table", "test accuracy on six benchmarks", "poster, table of test accuracies",
        r"\text{test accuracy, elastic }\ge\text{ naive, on MNIST, EMNIST, CIFAR-10, CIFAR-100 and CINIC-10}",
        "an experiment on networks, not a statement about the algorithm. The command trains the rows with the printed settings; "
        "--quick does so in little on scikit-learn's digits, and needs no data",
        "fedtheory bench elastic-table --quick",
    ),
    _claim(
        "claim-settings", "improvements across partitions, participation and local epochs", "poster, figure on the left",
        r"\text{accuracy, elastic }\ge\text{ naive, for all partitions, participation rates and }E",
        "an experiment on networks; the figure's settings are not printed. On quadratics sampled-bias says where fewer "
        "clients and more local steps end farther from the optimum than FedAvg",
        "fedtheory verify elastic-aggregation/sampled-bias --problem diabetes --clients 3 --held-out 0.3 --participants 2",
    ),
    _claim(
        "claim-non-convex", "efficient training in non-convex settings", "conference abstract, and the poster's introduction",
        r"\text{rounds to a given accuracy of a network, elastic }\le\text{ naive}",
        "an experiment on networks: no rate is stated. For quadratics elastic-aggregation/speed says when it is faster and when slower",
        "fedtheory bench elastic-table --quick",
    ),
    _claim(
        "claim-theory", "experiments that validate the theoretical analysis", "poster, conclusion",
        r"\text{'validate the theoretical analysis'}",
        "the poster states no theorem. What is proved here instead: full-participation, stability, sampled-fixed-point, "
        "sampled-attraction. The command judges one of them on a data set",
        "fedtheory verify elastic-aggregation/sampled-fixed-point --problem diabetes --clients 3 --held-out 0.3 --participants 2",
    ),
)  # fmt: skip
