"""Elastic Aggregation, Algorithm 1: whether it goes to a zero of its mean motion."""

from fractions import Fraction

from fedtheory.rational import objects
from fedtheory.theorems.elastic_aggregation.clients import ONE
from fedtheory.theorems.elastic_aggregation.cohorts import ALL, SMOOTH, TWO, Cohorts
from fedtheory.theorems.elastic_aggregation.paper import QUADRATICS, REPAIRED, Z, paper
from fedtheory.theory import eq, form, le, wrong
from fedtheory.theory.rounds.linear_algebra import determinant


def two_parameters(q, share=1):
    """Sides of the determinant and the trace of -J, by A and a share of q."""
    (a, b), (r, s) = q.pull, share * q.push
    return eq(
        objects([determinant(-q.J), -q.J[0, 0] - q.J[1, 1]]),
        objects([a * b + a * s + b * r, a + r + b + s]),
    )


@paper.statement(
    "sampled-stability", about=REPAIRED, over=Cohorts,
    title="whether it goes to a zero of its mean motion when some clients take part",
    source="Algorithm 1, 'for each activated client'",
    assumptions=(
        *QUADRATICS, "cohorts of P clients, all alike",
        "J exists: every cohort has some sensitivity, none that passes 0, and one coordinate has "
        "the largest",
    ),
)
def sampled_stability(q):
    """The derivative J of the mean motion at a zero of it."""
    yield form(
        "always", lambda: le(0 * q.tau, determinant(-q.J)),
        r"\mathbb E[\zeta_C\Delta_C](\theta)=0\Rightarrow\det(-J(\theta))\ge0",
        needs=(SMOOTH,), fails=True,
        note="J is the derivative of the mean motion. Where det(-J) < 0, J has an eigenvalue > 0: "
        "the zero repels, for every eta. In the witness theta_2 = 1 stays, and theta_1 has three "
        "zeros on [0, 5/2]: the optimum 0 attracts, 1 repels, 5/2 attracts. The start decides",
    )
    yield form(
        "all take part", lambda: eq(q.J, -q.mean_zeta[:, None] * q.M_mean),
        Z + r"P=N\Rightarrow J=-\mathrm{diag}(\zeta)M",
        wrong("zeta = 1", lambda: eq(q.J, -q.M_mean)),
        needs=(ALL, SMOOTH), holds=True, proof="note",
        note="Delta = 0 there, so that the derivative of zeta plays no part; zeta M is similar to "
        "zeta^(1/2) M zeta^(1/2), which is positive definite where M is and tau > 0: it attracts",
    )
    yield form(
        "one parameter", lambda: eq(q.J, -q.tau * q.M_mean),
        Z + r"n=1\Rightarrow J=-\tau\textstyle\sum_ku_kM_k,\ u_k=\mathbb Ew_k",
        wrong("1 + tau", lambda: eq(q.J, -(1 + q.tau) * q.M_mean)), needs=(ONE, SMOOTH), holds=True,
        proof="note", note="zeta is tau in every cohort with some sensitivity",
    )
    yield form(
        "two parameters", lambda: two_parameters(q),
        r"H_k,S_k\text{ diagonal: }" + Z + r"\det(-J)="
        r"A_1A_2\big(1+\tfrac{q_1}{A_1}+\tfrac{q_2}{A_2}\big),\ \mathrm{tr}(-J)=A_1+q_1+A_2+q_2",
        wrong("without q", lambda: two_parameters(q, 0)),
        wrong("nine tenths of q", lambda: two_parameters(q, Fraction(9, 10))),
        needs=(TWO, SMOOTH), holds=True,
        proof="zeta is homogeneous of degree 0 in theta: "
        "-J_ii = A_i + q_i and -J_ij = -q_i theta_i/theta_j",
        note="A_i = sum_k v_k^i m_k^i; q_i = E[Delta^i Omega^i/Omega' over the cohorts where i is "
        "not the most sensitive]/theta_i. Diagonal Hessians and Gram matrices. It attracts if both "
        "are > 0, repels if one is < 0. In any dimension -J is similar to diag(A + q) - (q_ij), "
        "where q_ij is the part of q_i with j the most sensitive: by Gershgorin it attracts if "
        "A_i > 2 sum_j max(0, -q_ij) for all i, as where the clients differ little against |theta|",
    )
