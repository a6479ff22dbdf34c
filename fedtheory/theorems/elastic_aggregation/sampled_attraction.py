"""Elastic Aggregation, Algorithm 1: which steps a zero of its mean motion attracts with."""

from fractions import Fraction

from fedtheory.theorems.elastic_aggregation.clients import ONE
from fedtheory.theorems.elastic_aggregation.cohorts import (
    ALIVE,
    ALL,
    ATTRACTS,
    PLAIN,
    SMOOTH,
    STABLE_STEP,
    Linearised,
)
from fedtheory.theorems.elastic_aggregation.paper import QUADRATICS, REPAIRED, paper
from fedtheory.theory import eq, form, le, wrong

MEAN, SQUARE = r"\rho(I+\eta J)<1", r"\rho(\mathbb E[A_C\otimes A_C])<1"
NEGATIVE = r"\mathrm{Re}\,\lambda<0\ \forall\lambda\in\mathrm{spec}\,J"
NEARLY, BEYOND = Fraction(19, 10), Fraction(21, 10)  # where the limit itself is 2, and excluded


def implies(this, that):
    """Sides of: this implies that."""
    return le(Fraction(int(this)), Fraction(int(that)))


def short_step(q, share):
    """Sides of: it attracts in mean square with this share of the longest step."""
    return implies(True, q.in_mean_square(share * q.longest))


def dominance(q, share):
    """Sides of: A_i > share sum_j max(0, -q_ij) for all i implies that J is stable."""
    return implies(q.dominated(share), q.X is not None)


def everyone(q, product):
    """Sides of: it attracts in mean square with eta (1 + tau) L equal to the product."""
    return implies(True, q.in_mean_square(product / ((1 + q.tau) * q.L)))


def noise(q):
    """The second moment after a round from the zero itself."""
    return q.second_moment(0 * q.theta)


def remaining(q):
    """The share of the squared distance after a round, by rounds from both sides of the zero."""
    distance = q.theta / 2
    return (q.second_moment(distance) - noise(q)) / distance[0] ** 2


def contraction(q, share=1):
    """Sides of E(1 - eta tau m_C)^2 + share eta tau (2 - eta tau L) E m_C <= 1."""
    drop = q.eta * q.tau * (2 - q.eta * q.tau * q.L) * q.m.sum() / Fraction(len(q.m))
    return le(remaining(q) + share * drop, Fraction(1))


def spread(q, share=1, squares=True):
    """Sides of the fixed point of the second moment = share times its closed formula."""
    step, n = q.eta * q.tau, Fraction(len(q.m))
    mean = q.m.sum() / n
    second = (q.m * q.m).sum() / n if squares else mean * mean
    closed = step * q.mean_square_update / (2 * mean - step * second)
    return eq(noise(q) / (1 - remaining(q)), share * closed, noise(q) + closed)


@paper.statement(
    "sampled-attraction", about=REPAIRED, over=Linearised,
    title="which steps a zero of its mean motion attracts with, in mean and in mean square, when "
    "some clients take part", source="Algorithm 1, 'for each activated client'",
    assumptions=(
        *QUADRATICS, "cohorts of P clients, all alike",
        "J_C, the derivative of zeta_C Delta_C at theta_infinity, exists; J = E J_C, "
        "A_C = I + eta J_C: a round near the zero, up to second order",
    ),
)
def sampled_attraction(q):
    """The spectral radii of a round near a zero of the mean motion."""
    yield form(
        "only where small steps do", lambda: implies(q.in_mean(q.eta), q.X is not None),
        MEAN + r"\Rightarrow" + NEGATIVE,
        wrong("the other way round", lambda: implies(q.X is not None, q.in_mean(q.eta))),
        needs=(SMOOTH,), holds=True, proof="note",
        note="|1 + eta lambda| < 1 asks for Re lambda < 0: a zero that repels for small steps does "
        "so for all. Decided without eigenvalues, by the solution X of a linear system and whether "
        "it is positive definite",
    )
    yield form(
        "small steps", lambda: short_step(q, Fraction(9, 10)),
        r"J'X+XJ=-I,\ X\succ0,\ \eta\,\mathrm{tr}\,\mathbb E[J_C'XJ_C]<1\Rightarrow" + SQUARE,
        wrong("a step a tenth longer than the limit", lambda: short_step(q, Fraction(11, 10))),
        wrong("twice the limit", lambda: short_step(q, 2)),
        needs=(SMOOTH, ATTRACTS), holds=True, proof="note",
        note="judged with eta at nine tenths of the limit. E[A_C' X A_C] = X - eta I + eta^2 "
        "E[J_C' X J_C], and the last matrix is at most its trace times I: the operator shrinks X. "
        "With one parameter the limit is attained: 2|J|/E J_C^2. There is such an X exactly where "
        "all eigenvalues of J have negative real parts",
    )
    yield form(
        "as with all clients", lambda: implies(True, q.in_mean(q.eta)),
        r"\eta(1+\tau)L<2,\ \mathrm{Re}\,\lambda(J)<0\Rightarrow" + MEAN,
        needs=(SMOOTH, ATTRACTS, STABLE_STEP), fails=True,
        note="carried over from rounds of all clients (the paper says nothing of it), with L >= "
        "the largest eigenvalue of every M_C: zeta moves with theta, too, and where Delta_C is "
        "large J is larger than zeta M",
    )
    yield form(
        "mean square as well", lambda: implies(q.in_mean(q.eta), q.in_mean_square(q.eta)),
        r"\eta(1+\tau)L<2," + MEAN + r"\Rightarrow" + SQUARE,
        needs=(SMOOTH, STABLE_STEP), fails=True,
        note="the mean may come back while the squares grow: cohorts whose zeta moves in opposite "
        "ways cancel in J only",
    )
    yield form(
        "mean square is more", lambda: implies(q.in_mean_square(q.eta), q.in_mean(q.eta)),
        SQUARE + r"\Rightarrow" + MEAN,
        wrong("the other way round", lambda: implies(q.in_mean(q.eta), q.in_mean_square(q.eta))),
        needs=(SMOOTH,), holds=True, proof="note",
        note="A' X A <= E[A_C' X A_C] for X >= 0 (Jensen), so that rho(A)^2 is at most the other "
        "radius",
    )
    yield form(
        "dominance", lambda: dominance(q, 2),
        r"H_k,S_k\text{ diagonal: }A_i>2\textstyle\sum_j\max(0,-q_{ij})\ \forall i\Rightarrow"
        + NEGATIVE, wrong("nineteen tenths for 2", lambda: dominance(q, NEARLY)),
        wrong("0 for 2", lambda: dominance(q, 0)), needs=(SMOOTH, PLAIN), holds=True, proof="note",
        note="A and q as in sampled-stability, for diagonal Hessians and Gram matrices. -J is "
        "similar to diag(A + q) - (q_ij), and Gershgorin's discs lie on the right, as A_i + sum_j "
        "q_ij > sum_j |q_ij|. The 2 is needed: for two parameters with A_1 = A_2 and q_1 = q_2 = q "
        "< 0 the determinant is A (A + 2q)",
    )
    yield form(
        "all take part", lambda: everyone(q, NEARLY), r"P=N,\ \eta(1+\tau)L<2\Rightarrow" + SQUARE,
        wrong("21/10 for 2", lambda: everyone(q, BEYOND)), needs=(SMOOTH, ALL), holds=True,
        proof="note",
        note="judged at eta (1 + tau) L = 19/10. One cohort, A = I - eta zeta M, and zeta M is "
        "similar to zeta^(1/2) M zeta^(1/2) <= (1 + tau) L. M is positive definite. The limit is "
        "attained where the steepest parameter is not sensitive at all",
    )
    yield from one_parameter(q)


def one_parameter(q):
    """The forms for a layer of one parameter, about the method itself."""
    yield form(
        "one parameter", lambda: contraction(q),
        r"n=1:\ \mathbb E(\theta^+-\theta_\infty)^2="
        r"r\,\mathbb E(\theta-\theta_\infty)^2+\eta^2\tau^2\mathbb E\Delta_C^2,\ "
        r"r\le1-\eta\tau(2-\eta\tau L)\mathbb Em_C",
        wrong("eleven tenths of the decrease", lambda: contraction(q, Fraction(11, 10))),
        needs=(ONE, ALIVE, STABLE_STEP), holds=True, proof="note",
        note="judged is the bound on r = E(1 - eta tau m_C)^2, r measured by rounds from both "
        "sides of the zero. zeta is tau for every theta != 0, so this is no linearisation, of a "
        "theta with mean theta_infinity. (1 - x m)^2 <= 1 - x m (2 - x L) for 0 <= m <= L; "
        "attained where all m_C are L",
    )
    yield form(
        "one parameter, spread", lambda: spread(q),
        r"n=1:\ \lim_t\mathbb E(\theta_t-\theta_\infty)^2="
        r"\frac{\eta\tau\,\mathbb E\Delta_C^2}{2\mathbb Em_C-\eta\tau\,\mathbb Em_C^2}",
        wrong("eleven tenths of it", lambda: spread(q, Fraction(11, 10))),
        wrong("the square of the mean", lambda: spread(q, 1, False)),
        needs=(ONE, ALIVE, STABLE_STEP), holds=True, proof="note",
        note="the fixed point of the line above, while no theta_t is 0: it attracts in mean square "
        "up to this spread, which is of order eta and 0 only where every Delta_C is 0. Naive "
        "aggregation has the same with tau = 1",
    )
