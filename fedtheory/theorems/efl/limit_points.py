"""EFL: the limits of uncompressed iterates under irregular participation, for all four schemes."""

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fedtheory.theorems.efl import limit_world as on
from fedtheory.theorems.efl.notation import NINE_TENTHS
from fedtheory.theorems.efl.paper import paper
from fedtheory.theory import Sides, eq, form, le, repaired, wrong

LIMIT = r"\lim\mathbb E\omega_\tau=\text{argmin}\,\textstyle\sum_k%sf_k"


def _decaying(v: on.LimitView) -> Sides:
    """|E w_tau - limit| <= max{offset |w_0 - limit|, step^2 Q/(step M - 1)}/(tau + offset), M = sum
    E[ps] h, Q = max_t of `second`."""
    q = v.run[0] * 0
    for w in v.run[:-1]:
        q = np.maximum(q, v.second(w))
    top = np.maximum(v.offset * abs(v.run[0] - v.limit), v.step**2 * q / (v.step * v.curvature - 1))
    ages = np.arange(len(v.run))[:, None] + v.offset
    return le(abs(v.run - v.limit)[1:], (top / ages)[1:])


def _same(v: on.LimitView, shift: Any = 0) -> Sides:
    return eq(v.limit + shift, v.star, noise=v.noise)


@paper.statement(
    "scheme-limit", over=on.LimitView, title="the limit of schemes A, B and C with decaying steps",
    source="sections 3.2 and 4 (EFL is called unbiased)",
    assumptions=("the law of (p_tau, s_tau) does not depend on tau or on the past; quadratics; no "
    "compression; lambda = 0",),
)
def scheme_limit(q):
    """The mean's limit, its rate, and its fixed point for a constant step."""
    yield form(
        "unbiased", partial(_same, q), LIMIT % "p^k",
        wrong("shifted by 1/100", shift=q.weights[0] / 100),
        rules={**dict.fromkeys("ABC", "violated"), "C-corrected": "holds"}, wording="in words",
        proof="E[p_tau^k s^k] = E p^k under the corrected C, and the recursion of [repaired]",
        note="EFL is called unbiased. It is biased as soon as E[p s]/p^k differs between clients: "
        "A where P(s^k = E) differs (clients that are independent, as here), B where E[s^k] does, "
        "C where P(s^k > 0) does. C is EFL's (section 4.2); A and B are the coefficients of Ruan, "
        "Zhang, Liang and Joe-Wong (2021)",
    )
    yield repaired(
        lambda: _decaying(q), r"|\mathbb "
        r"E\omega_\tau-\omega_\infty|\le\frac{\max\{b|\omega_0-\omega_\infty|,\,a^2Q/(aM-1)\}}{"
        r"\tau+b},\ \omega_\infty=\text{argmin}\,\textstyle\sum_k\mathbb E[p_\tau^ks_\tau^k]f_k,\ "
        r"\eta_\tau=\tfrac a{\tau+b},\ M=\sum_k\mathbb E[ps]h_k,\ Q=\max_t\sum_k\mathbb "
        r"E[p\tfrac{s(s-1)}2]h_k^2|\mathbb E\omega_t-c_k|",
        NINE_TENTHS, holds=True,
        needs=(on.LEMMA,),
        proof="0 <= s eta h - 1 + (1 - eta h)^s <= s(s - 1)/2 (eta h)^2, so that |x_{tau+1}| <= (1 "
        "- eta M)|x_tau| + eta^2 Q for x_tau = E omega_tau - omega_infinity. The bound follows by "
        "induction from (tau + b - 1)/(tau + b)^2 <= 1/(tau + b + 1)",
        note="quadratics, coordinate by coordinate",
    )
    yield form(
        "constant step",
        lambda: le(q.curvature * abs(q.fixed - q.limit), q.eta * q.second(q.fixed)),
        r"|\omega_\eta-\omega_\infty|\textstyle\sum_k\mathbb E[ps]h_k\le\eta\sum_k\mathbb "
        r"E[p\tfrac{s(s-1)}2]h_k^2|\omega_\eta-c_k|",
        NINE_TENTHS, holds=True,
        needs=(on.FRACTIONS,),
        proof="[fixed point], with 0 <= s eta h - 1 + (1 - eta h)^s <= s(s - 1)/2 (eta h)^2",
        note="the fixed point of a constant step is O(eta) away from the limit; exactly there for "
        "E = 1",
    )
    yield form(
        "constant step, equal laws", lambda: eq(q.fixed, q.star),
        r"\omega_\eta=\omega^*\text{ where the law of }s^k\text{ is the same for all }k",
        fails=True, needs=(on.EQUAL_LAWS, on.FRACTIONS),
        note="for E > 1 clients of different curvature make different progress with the same "
        "steps, corrected C or not: unbiased for all minimisers iff E[p(1 - (1 - eta h_k)^s)]/(p^k "
        "h_k) is the same for all k",
    )
    yield form(
        "fixed point", lambda: eq(q.map(q.fixed, q.eta), q.fixed),
        r"\omega_\eta:\ \textstyle\sum_k\mathbb E[p(1-(1-\eta h_k)^s)](\omega_\eta-c_k)=0",
        wrong("99 hundredths of it", share=Fraction(99, 100)), holds=True,
        needs=(on.COORDINATES,),
        proof="the mean after a round is E omega - sum_k E[p (1 - (1 - eta h_k)^s)] (E omega - "
        "c_k)",
    )
    yield form(
        "C without idle clients", partial(_same, q), LIMIT % "p^k" + r"\text{ if every }s^k>0",
        wrong("shifted by 1/100", shift=q.weights[0] / 100),
        rules={"C": "holds", "C-corrected": "holds"}, needs=(on.NEVER_IDLE,),
        proof="E[p_tau^k s^k] = E p^k, and the recursion of [repaired]",
    )
    yield form(
        "C with equal activity", partial(_same, q),
        LIMIT % "p^k" + r"\text{ if }P(s^k>0)\text{ is the same for all }k",
        wrong("shifted by 1/100", shift=q.weights[0] / 100),
        rules={"C": "holds", "C-corrected": "holds"}, needs=(on.ALIKE,),
        proof="E[p_tau^k s^k] = E p^k P(s^k > 0), and the recursion of [repaired]",
    )
