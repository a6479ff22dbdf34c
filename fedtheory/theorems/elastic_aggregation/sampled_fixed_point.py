"""Elastic Aggregation, Algorithm 1: where its mean motion is 0 when some clients take part."""

from fractions import Fraction

from fedtheory.theorems.elastic_aggregation.clients import DIAGONAL, ONE, ONE_STEP
from fedtheory.theorems.elastic_aggregation.cohorts import ALIVE, ALL, EQUAL, Cohorts
from fedtheory.theorems.elastic_aggregation.paper import ELASTIC, QUADRATICS, Z, paper
from fedtheory.theory import eq, form, le, repaired, wrong

CLOSE = Z + r"|\mathbb E\Delta_C^i|\le\mathbb E|\Delta_C^i|/(1+2\tau)"
TOO = r"\text{, insensitive cohorts too}"


def reweighted(q, weights):
    """Sides of E[zeta Delta] = sum_k weights_k Delta_k."""
    return eq(q.drift, (weights * q.updates(q.theta)).sum(axis=0), q.mean_abs_update)


def between(q, share=1):
    """Sides of min_k c_k <= theta <= max_k c_k, around the middle and by a share of the range."""
    low, high = q.c.min(axis=0), q.c.max(axis=0)
    return le(abs(2 * q.theta - (low + high)), share * (high - low))


def covariance(q, sign=-1):
    """Sides of E Delta = sign Cov(zeta, Delta)/E zeta."""
    delta, zeta = q.mean_update(q.theta), q.mean_zeta
    return eq(delta, sign * (q.drift - zeta * delta) / zeta)


def distance(q, least, share=1):
    """Sides of share (1 + tau + least) |E Delta| <= (1 + tau - least) E|Delta|.

    zeta lies in [least, 1 + tau].
    """
    left, right = 1 + q.tau + least, 1 + q.tau - least
    return le(share * left * abs(q.mean_update(q.theta)), right * q.mean_abs_update)


def within(q, factor):
    """Sides of factor |E Delta| <= E|Delta|."""
    return le(factor * abs(q.mean_update(q.theta)), q.mean_abs_update)


def unbiased(q):
    """Sides of E Delta = 0."""
    return eq(q.mean_update(q.theta), 0 * q.theta)


@paper.statement(
    "sampled-fixed-point", about=ELASTIC, over=Cohorts,
    source="Algorithm 1, 'for each activated client'",
    assumptions=(*QUADRATICS, "cohorts of P clients, all alike")
)
def sampled_fixed_point(q):
    """where its mean motion is 0 when some clients take part"""
    yield form(
        "as FedAvg", lambda: unbiased(q),
        r"\mathbb E[\zeta_C\Delta_C]=0\Rightarrow\mathbb E\Delta_C=0", fails=True,
        note="as with all clients (the paper says nothing of it); but zeta comes from the cohort "
        "that makes the update, and the two go together: not FedAvg's fixed point",
    )
    yield repaired(
        lambda: reweighted(q, q.v),
        r"\mathbb E[\zeta_C\Delta_C]=\textstyle\sum_kv_k\Delta_k=0,\ v_k^i=\mathbb E[w_k\zeta_C^i]",
        wrong("without the correlation", lambda: reweighted(q, q.u[:, None] * q.mean_zeta)),
        holds=True, proof="note",
        note="linear in Delta_k: FedAvg with other weights, of each client in each coordinate, the "
        "less where the client is sensitive against the rest of its layer. The weights v depend on "
        "theta. Whether the method goes to such a zero is another question (sampled-stability); "
        "round one that attracts, the path's own noise adds terms of order eta",
    )
    yield form(
        "between", lambda: between(q),
        r"H_k\text{ diagonal, }" + Z + r"\min_kc_k^i\le\theta_\infty^i\le\max_kc_k^i",
        wrong("nine tenths of the range", lambda: between(q, Fraction(9, 10))),
        needs=(DIAGONAL,), holds=True, proof="note",
        note="0 = sum_k v_k^i m_k^i (theta^i - c_k^i) with weights > 0. On the faces of this box "
        "the mean motion points inward: where every cohort has some sensitivity all over the box, "
        "zeta is continuous there, and a zero exists (Poincare-Miranda)",
    )
    yield form(
        "covariance", lambda: covariance(q),
        Z + r"\mathbb E\Delta_C^i=-\mathrm{Cov}(\zeta_C^i,\Delta_C^i)/\mathbb E\zeta_C^i",
        wrong("the other sign", lambda: covariance(q, 1)), holds=True, proof="note",
        note="0 = E[zeta Delta] = E zeta E Delta + Cov, and E zeta >= min(1, tau) > 0",
    )
    yield form(
        "distance", lambda: distance(q, q.tau), CLOSE,
        wrong("1 + 3 tau", lambda: within(q, 1 + 3 * q.tau)),
        wrong("1 + 11/5 tau", lambda: within(q, 1 + Fraction(11, 5) * q.tau)),
        needs=(ALIVE,), holds=True, proof="note",
        note="from tau E(Delta)_+ <= E[zeta (Delta)_+] = E[zeta (Delta)_-] <= (1 + tau) "
        "E(Delta)_-, and so the other way round; attained by two clients, each sensitive in "
        "another coordinate. A large tau is naive aggregation with a longer step",
    )
    yield form(
        "distance, always", lambda: distance(q, q.tau), CLOSE + TOO, fails=True,
        note="where a cohort has no sensitivity at all, zeta = 1 by default, which is less than "
        "tau for tau > 1",
    )
    yield form(
        "distance, insensitive cohorts too", lambda: distance(q, min(1, q.tau)),
        Z + r"|\mathbb E\Delta_C^i|\le"
        r"\frac{1+\tau-\min(1,\tau)}{1+\tau+\min(1,\tau)}\,\mathbb E|\Delta_C^i|",
        wrong("eleven tenths of it", lambda: distance(q, min(1, q.tau), Fraction(11, 10))),
        wrong("tau for min(1, tau)", lambda: distance(q, q.tau)), holds=True, proof="note",
        note='as "distance", with min(1, tau) <= zeta <= 1 + tau: the same bound where tau <= 1',
    )
    yield form(
        "one parameter", lambda: unbiased(q), Z + r"n=1\Rightarrow\mathbb E\Delta_C=0",
        wrong("E |Delta| = 0", lambda: eq(q.mean_abs_update, 0 * q.theta)),
        needs=(ONE, ALIVE), holds=True, proof="note",
        note="a layer of one parameter: zeta is tau > 0 in every cohort with some sensitivity, "
        "FedAvg with the step tau eta",
    )
    yield form(
        "one parameter, always", lambda: unbiased(q),
        Z + r"n=1\Rightarrow\mathbb E\Delta_C=0" + TOO, needs=(ONE,), fails=True,
        note="zeta is 1 for a cohort without any sensitivity, and tau for the others. In the "
        "witness the client whose output does not move counts for twice the other",
    )
    yield form(
        "all take part", lambda: unbiased(q), Z + r"P=N\Rightarrow\mathbb E\Delta_C=0",
        wrong("the first client is satisfied", lambda: eq(q.updates(q.theta)[0], 0 * q.theta)),
        needs=(ALL,), holds=True, proof="note",
        note="one cohort only, so that zeta Delta = 0, and zeta >= min(1, tau) > 0",
    )
    yield form(
        "one local step", lambda: eq(q.theta, q.star),
        Z + r"E=1,\ n_1=\dots=n_N\Rightarrow\theta_\infty=\theta^*", needs=(ONE_STEP, EQUAL),
        fails=True, note="FedAvg with one local step has no bias; with cohorts this method has",
    )
