"""Elastic Aggregation under client sampling: which zeros of its mean motion attract, in mean and in mean square."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from fedtheory.theorems.elastic_aggregation.attraction import ATTRACTS, PLAIN, STABLE_STEP, LinearisedView
from fedtheory.theorems.elastic_aggregation.notation import QUADRATICS, statement
from fedtheory.theorems.elastic_aggregation.quantities import ALIVE, ALL, ONE, SMOOTH
from fedtheory.verification.statement import Sides, eq, form, le

__all__ = ["ATTRACTION"]

MEAN, SQUARE = r"\rho(I+\eta J)<1", r"\rho(\mathbb E[A_C\otimes A_C])<1"
NEARLY, BEYOND = Fraction(19, 10), Fraction(21, 10)  # where the limit itself is 2, and excluded


def _if(this: bool, that: bool) -> Sides:
    """Where this is so, so is that."""
    return le(Fraction(int(this)), Fraction(int(that)))


def _small(v: LinearisedView, share: Any) -> Sides:
    return _if(True, v.in_mean_square(share * v.longest))


def _everyone(v: LinearisedView, product: Any) -> Sides:
    """With eta (1 + tau) L equal to the product."""
    return _if(True, v.in_mean_square(product / ((1 + v.tau) * v.L)))


def _noise(v: LinearisedView) -> Any:
    """What a round adds to the second moment, from the zero itself."""
    return v.second_moment(0 * v.theta)


def _share(v: LinearisedView) -> Any:
    """What a round leaves of the squared distance, by rounds from two points on either side of the zero."""
    distance = v.theta / 2
    return (v.second_moment(distance) - _noise(v)) / distance[0] ** 2


def _contraction(v: LinearisedView, share: Any = 1) -> Sides:
    """E(1 - eta tau m_C)^2 + eta tau (2 - eta tau L) E m_C <= 1."""
    drop = v.eta * v.tau * (2 - v.eta * v.tau * v.L) * v.m.sum() / Fraction(len(v.m))
    return le(_share(v) + share * drop, Fraction(1))


def _spread(v: LinearisedView, share: Any = 1, squares: bool = True) -> Sides:
    step, n = v.eta * v.tau, Fraction(len(v.m))
    mean = v.m.sum() / n
    second = (v.m * v.m).sum() / n if squares else mean * mean
    closed = step * v.mean_square_update / (2 * mean - step * second)
    return eq(_noise(v) / (1 - _share(v)), share * closed, _noise(v) + closed)


ATTRACTION = (
    statement(
        "sampled-attraction",
        "which steps a zero of its mean motion attracts with, in mean and in mean square, when some clients take part",
        "Algorithm 1, 'for each activated client'",
        form(
            "only where small steps do", MEAN + r"\Rightarrow\mathrm{Re}\,\lambda<0\ \forall\lambda\in\mathrm{spec}\,J",
            lambda v: _if(v.in_mean(v.eta), v.X is not None), "holds",
            ("the other way round", lambda v: _if(v.X is not None, v.in_mean(v.eta))),
            kind="linearised", needs=(SMOOTH,),
            proof="note",
            note="|1 + eta lambda| < 1 asks for Re lambda < 0: a zero that repels for small steps does so for all. Decided without "
            "eigenvalues, by the solution X of a linear system and whether it is positive definite",
        ),
        form(
            "small steps",
            r"J'X+XJ=-I,\ X\succ0,\ \eta\,\mathrm{tr}\,\mathbb E[J_C'XJ_C]<1\Rightarrow" + SQUARE,
            lambda v: _small(v, Fraction(9, 10)), "holds",
            ("a step a tenth longer than the limit", lambda v: _small(v, Fraction(11, 10))),
            ("twice the limit", lambda v: _small(v, 2)),
            kind="linearised", needs=(SMOOTH, ATTRACTS),
            proof="note",
            note="judged with eta at nine tenths of the limit. E[A_C' X A_C] = X - eta I + eta^2 E[J_C' X J_C], and the last matrix is "
            "at most its trace times I: the operator shrinks X. With one parameter the limit is attained: 2|J|/E J_C^2. There is such "
            "an X exactly where all eigenvalues of J have negative real parts",
        ),
        form(
            "as with all clients", r"\eta(1+\tau)L<2,\ \mathrm{Re}\,\lambda(J)<0\Rightarrow" + MEAN,
            lambda v: _if(True, v.in_mean(v.eta)), "violated", kind="linearised", needs=(SMOOTH, ATTRACTS, STABLE_STEP),
            note="carried over from rounds of all clients (the paper says nothing of it), with L >= the largest eigenvalue of every "
            "M_C: zeta moves with theta, too, and where Delta_C is large J is larger than zeta M",
        ),
        form(
            "mean square as well", r"\eta(1+\tau)L<2," + MEAN + r"\Rightarrow" + SQUARE,
            lambda v: _if(v.in_mean(v.eta), v.in_mean_square(v.eta)), "violated", kind="linearised", needs=(SMOOTH, STABLE_STEP),
            note="the mean may come back while the squares grow: cohorts whose zeta moves in opposite ways cancel in J only",
        ),
        form(
            "mean square is more", SQUARE + r"\Rightarrow" + MEAN,
            lambda v: _if(v.in_mean_square(v.eta), v.in_mean(v.eta)), "holds",
            ("the other way round", lambda v: _if(v.in_mean(v.eta), v.in_mean_square(v.eta))),
            kind="linearised", needs=(SMOOTH,),
            proof="note",
            note="A' X A <= E[A_C' X A_C] for X >= 0 (Jensen), so that rho(A)^2 is at most the other radius",
        ),
        form(
            "dominance", r"H_k,S_k\text{ diagonal: }A_i>2\textstyle\sum_j\max(0,-q_{ij})\ \forall i\Rightarrow"
            r"\mathrm{Re}\,\lambda<0\ \forall\lambda\in\mathrm{spec}\,J",
            lambda v: _if(v.dominated(2), v.X is not None), "holds",
            ("nineteen tenths for 2", lambda v: _if(v.dominated(NEARLY), v.X is not None)),
            ("0 for 2", lambda v: _if(v.dominated(0), v.X is not None)),
            kind="linearised", needs=(SMOOTH, PLAIN),
            proof="note",
            note="A and q as in sampled-stability, for diagonal Hessians and Gram matrices. -J is similar to diag(A + q) - "
            "(q_ij), and Gershgorin's discs lie on the right, as A_i + sum_j q_ij > sum_j |q_ij|. The 2 is needed: for two "
            "parameters with A_1 = A_2 and q_1 = q_2 = q < 0 the determinant is A (A + 2q)",
        ),
        form(
            "all take part", r"P=N,\ \eta(1+\tau)L<2\Rightarrow" + SQUARE,
            lambda v: _everyone(v, NEARLY), "holds",
            ("21/10 for 2", lambda v: _everyone(v, BEYOND)), kind="linearised", needs=(SMOOTH, ALL),
            proof="note",
            note="judged at eta (1 + tau) L = 19/10. One cohort, A = I - eta zeta M, and zeta M is similar to zeta^(1/2) M "
            "zeta^(1/2) <= (1 + tau) L. M is positive definite. The limit is attained where the steepest parameter is not "
            "sensitive at all",
        ),
        form(
            "one parameter",
            r"n=1:\ \mathbb E(\theta^+-\theta_\infty)^2=r\,\mathbb E(\theta-\theta_\infty)^2+\eta^2\tau^2\mathbb E\Delta_C^2,\ "
            r"r\le1-\eta\tau(2-\eta\tau L)\mathbb Em_C",
            _contraction, "holds", ("eleven tenths of the decrease", lambda v: _contraction(v, Fraction(11, 10))),
            kind="linearised", needs=(ONE, ALIVE, STABLE_STEP),
            proof="note",
            note="judged is the bound on r = E(1 - eta tau m_C)^2, r measured by rounds from both sides of the zero. zeta "
            "is tau for every theta != 0, so this is no linearisation, of a theta with mean theta_infinity. (1 - x m)^2 <= "
            "1 - x m (2 - x L) for 0 <= m <= L; attained where all m_C are L",
        ),
        form(
            "one parameter, spread",
            r"n=1:\ \lim_t\mathbb E(\theta_t-\theta_\infty)^2="
            r"\frac{\eta\tau\,\mathbb E\Delta_C^2}{2\mathbb Em_C-\eta\tau\,\mathbb Em_C^2}",
            _spread, "holds", ("eleven tenths of it", lambda v: _spread(v, Fraction(11, 10))),
            ("the square of the mean", lambda v: _spread(v, 1, False)), kind="linearised", needs=(ONE, ALIVE, STABLE_STEP),
            proof="note",
            note="the fixed point of the line above, while no theta_t is 0: it attracts in mean square up to this spread, which is "
            "of order eta and 0 only where every Delta_C is 0. Naive aggregation has the same with tau = 1",
        ),
        assumptions=(
            *QUADRATICS, "cohorts of P clients, all alike",
            "J_C, the derivative of zeta_C Delta_C at theta_infinity, exists; J = E J_C, A_C = I + eta J_C: a round near the zero, "
            "up to second order",
        ),
    ),
)  # fmt: skip
