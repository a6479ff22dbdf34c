"""EFL, sections 4.1 and 4.2: inactive and incomplete clients.

The rates of section 4 are Theorem 1's with the laws put in. They are judged on exact moments.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.theorems.efl.inactive_world import IDLE, LARGE, InactiveView, IncompleteView
from fedtheory.theorems.efl.notation import FLIPPED, HALF, NINE_TENTHS
from fedtheory.theorems.efl.paper import paper
from fedtheory.theory import Sides, eq, form, le, printed, repaired, wrong

Y_T = r"y_t=1\text{ iff some client is inactive with positive probability}"
UNBIASED = r"\mathbb E[p_\tau^ks_\tau^k]=Ep^k"


def _whole_rate(v: InactiveView, constant: Any) -> Sides:
    """C_tau/(tau E + gamma)^2 + H J/(tau E + gamma) <= constant sum y_t J/(tau E + E^2)."""
    first = v.T * v.C / (v.T * v.E + v.gamma) ** 2
    return le(first + v.term(sum(v.r)), constant * sum(v.some_idle) * v.J / (v.T * v.E + v.E**2))


def _own_constant(v: InactiveView) -> Any:
    """1 + C/(E J)."""
    return 1 + v.C / (v.E * v.J)


def _limit_term(v: InactiveView, share: Any) -> Sides:
    """lim_tau tau J/(tau E + gamma) = J/E, against share J; r_t = 1 in every round."""
    return eq(v.J / v.E, share * v.J)


@paper.statement(
    "inactive-rate", over=InactiveView, title="what inactive clients do to the rate",
    source="section 4.1",
    assumptions=("scheme C, clients that are complete when active and inactive with probabilities "
    "y_t^k < 1", "gamma >= 4E, and J, C > 0, the constants of Theorem 1 as repaired"),
)
def inactive_rate(q):
    """The heterogeneity term of Theorem 1 against the rounds with inactive clients."""
    yield printed(
        lambda: _whole_rate(q, _own_constant(q)),
        r"\textstyle\frac{C_\tau}{(\tau E+\gamma)^2}+\frac{H_\tau J}{\tau E+\gamma}\le\big(1+\frac "
        r"C{EJ}\big)\frac{\sum_{t<\tau}y_tJ}{\tau E+E^2},\ C_\tau=\tau C,\ " + Y_T, HALF,
        NINE_TENTHS, wrong("without C", lambda: _whole_rate(q, 1)), holds=True, needs=(LARGE, IDLE),
        proof="docs/efl.md#sections-41-and-42-corollary-1",
        note="the whole rate, as an O in tau whose constant depends on C/J (J > 0; where J = 0 the "
        "rate says 0, and is false with noise); gamma >= 4E^2 with scheme C's theta = E. As sum "
        "y_t >= 1, the first term is O(1/tau) too. C_tau = tau C as Corollary 1 assumes "
        "(efl/order-of-c)",
    )
    yield form(
        "one constant", lambda: _whole_rate(q, 1000),
        r"\textstyle\frac{C_\tau}{(\tau E+\gamma)^2}+\frac{H_\tau J}{\tau "
        r"E+\gamma}\le1000\frac{\sum_{t<\tau}y_tJ}{\tau E+E^2},\ C_\tau=\tau C,\ " + Y_T,
        fails=True, needs=(LARGE, IDLE),
        note="no constant does for all problems: the first term does not know J, which is as small "
        "as the clients are alike",
    )
    yield form(
        "heterogeneity term",
        lambda: le(q.term(sum(q.r)), sum(q.some_idle) * q.J / (q.T * q.E + q.E**2)),
        r"\textstyle\frac{H_\tau J}{\tau E+\gamma}\le\frac{\sum_{t<\tau}y_tJ}{\tau E+E^2},\ " + Y_T,
        HALF, NINE_TENTHS, holds=True, needs=(LARGE,),
        proof="H <= sum y_t (the form `repaired`) and gamma >= E^2",
        note="the second term of the bound alone. Where gamma is smaller, the constant is "
        "E^2/gamma",
    )
    yield form(
        "equality", lambda: eq(Fraction(sum(q.r)), Fraction(sum(q.some_idle))),
        r"\textstyle H_\tau=\sum_{t<\tau}y_t", fails=True,
        note="not a condition for heterogeneity: clients that are inactive alike leave E[p s]/p^k "
        "the same for all k",
    )
    yield repaired(
        lambda: le(Fraction(sum(q.r)), Fraction(sum(q.some_idle))),
        r"\textstyle H_\tau\le\sum_{t<\tau}y_t", FLIPPED, holds=True,
        proof="E[p s]/p^k = E (1 - y^k): where these differ some y^k is above 0",
        note="scheme C, clients that are complete when active",
    )
    yield form(
        "converges if y_t is O(tau)", lambda: le(q.term(4 * q.T, 4 * q.T), q.term(q.T)),
        r"\textstyle\frac{4\tau J}{4\tau E+\gamma}\le\frac{\tau J}{\tau E+\gamma}:\ \text{the term "
        r"at }4\tau\text{ and at }\tau,\ y_t=1\text{ in every round}", fails=True,
        note="y_t <= 1 is always O(tau); with y_t = 1 the term rises to J/E. What is meant is sum "
        "y_t in o(tau)",
    )
    yield form(
        "converges if the sum is o(tau)",
        lambda: le(q.term(sum(q.some_idle)), Fraction(sum(q.some_idle), q.T) * q.J / q.E),
        r"\textstyle\sum_{t<\tau}y_tJ/(\tau E+\gamma)\le\frac JE\cdot\frac1\tau\sum_{t<\tau}y_t",
        HALF, NINE_TENTHS, holds=True, proof="tau E + gamma >= tau E",
    )
    yield form(
        "f_0", lambda: _limit_term(q, q.y),
        r"\lim_\tau\tfrac{\tau J}{\tau E+\gamma}=\tfrac JE=y^aJ\ (r_t=1\text{ in every round})",
        fails=True,
        note="r_t compares expectations, so it is 1 in every round and not with probability y^a; "
        "the factor 1/E is missing too",
    )
    yield form(
        "f_0 repaired", lambda: _limit_term(q, Fraction(1, q.E)),
        r"\lim_\tau\tfrac{\tau J}{\tau E+\gamma}=\tfrac JE\ (r_t=1\text{ in every round})",
        wrong("y^a/E", lambda: _limit_term(q, q.y / q.E)), holds=True,
        proof="tau/(tau E + gamma) tends to 1/E",
    )


@paper.statement(
    "incomplete-rate", over=IncompleteView, title="what incomplete clients do to the rate",
    source="section 4.2",
    assumptions=("scheme C, no client ever inactive, 0 < mu <= L",
    "B_t of Theorem 1 as repaired, with theta = E"),
)
def incomplete_rate(q):
    """E[B_t] against the printed rate, and E[p s] = E p."""
    yield printed(
        lambda: le(q.B, q.rate()),
        r"\mathbb E[B_t]\le(6L\max_kD_k+\tfrac{17}4G^2)E^5\textstyle\sum_kp^k\mathbb "
        r"E[\tfrac1{s^k}]+E^2\sum_k(p^k\sigma_k)^2\mathbb E[\tfrac1{s^k}]",
        wrong("E^3 for E^5", lambda: le(q.B, q.rate(3) / 4)), NINE_TENTHS, holds=True,
        proof="docs/efl.md#sections-41-and-42-corollary-1",
        note="scheme C, no client inactive: with S = E, C_tau is at most gamma^2 ||w_0 - w*||^2 + "
        "(16/mu)^2 sum_t E[B_t], which gives the printed rate, its constant made explicit",
    )
    yield form(
        "unbiased", lambda: eq(q.drift, q.E * q.weights), UNBIASED,
        wrong("with p^k E[s^k]",
              lambda: eq((q.law * np.arange(q.E + 1)).sum(axis=1) * q.weights, q.E * q.weights)),
        holds=True, proof="p_tau^k s^k = E p^k in every case, as s^k > 0",
        note="so that r_t = 0: convergence whatever the laws of s^k > 0",
    )
