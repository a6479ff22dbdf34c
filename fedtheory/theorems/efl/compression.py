"""EFL's compression: the ST lemma, and the factor of every compressor.

Factors are judged on exact expectations over the compressors' randomness, messages in fractions.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.messages import compressors
from fedtheory.theorems.efl import compression_world as on
from fedtheory.theorems.efl.notation import NINE_TENTHS
from fedtheory.theorems.efl.paper import paper
from fedtheory.theory import Sides, eq, form, le, repaired, wrong

ONE_OUTCOME = r",\quad C(x)\text{ not random}"
ERR = r"\|C(x)-x\|^2\le"
MEAN = r"\mathbb E\|C(x)-x\|^2\le"


def _within(v: on.CompressionView, omega: Any) -> Sides:
    """E||C(x) - x||^2 <= omega ||x||^2; lhs and rhs are halves of sums, so that ties are exact."""
    return le(v.error, omega * v.square)


def _complement(v: on.CompressionView, kept: Any) -> Sides:
    """delta ||x||^2 <= ||x||^2 - E||C(x) - x||^2: the contraction, tight at the least gain."""
    return le(kept, v.square - v.error)


def _qsgd(v: on.CompressionView) -> Sides:
    """omega = min(n/s^2, sqrt(n)/s), squared where there is a root."""
    if not isinstance(v.compressor, compressors.QSGD):
        raise InvalidInput(f"{v.compressor.name} has no levels: omega is QSGD's")
    ratio = Fraction(v.n, v.compressor.levels**2)
    return le(np.array([v.error, v.error**2]), np.array([ratio * v.square, ratio * v.square**2]) * (1 + Fraction(1, 2**40)))


@paper.statement(
    "st-lemma", over=on.CompressionView,
    title="how much of a message sparse ternary compression keeps", source="Algorithm 2",
    measures="squared error of compression",
)
def st_lemma(q):
    """The error of ST by both rules, as an identity and against its factor."""
    yield form(
        "printed rule", lambda: le(q.error, q.square),
        ERR + r"\|x\|^2,\ k=\max(nq,1),\ \text{all }|x_i|\ge e\text{ kept},\ \mu=\tfrac1k\sum|x_i|",
        fails=True, needs=(on.PRINTED,), wording="algorithm",
        note="no factor is stated for Algorithm 2; with ties more than k entries are kept, but mu "
        "is divided by k: no factor, the error is up to (1/q - 1)^2 ||x||^2",
    )
    yield repaired(
        lambda: _complement(q, min(1 / q.k, q.k / q.n) * q.square),
        ERR + r"(1-\min\{\tfrac1k,\tfrac kn\})\|x\|^2,\ \text{exactly }k\text{ entries}",
        wrong("1.1 times delta", share=Fraction(10, 11)),
        holds=True, needs=(on.EXACT,), proof="docs/efl.md#compression, by [identity]",
        note="sharp: all entries equal, or one large entry and the rest near 0",
    )
    yield form(
        "printed rule, more than half",
        lambda: _complement(q, q.compressor.contraction_exact(q.n) * q.square),
        ERR + r"(1-\delta)\|x\|^2\text{ if }2k>n,\ \delta=\min_{m\in\{\lceil "
        r"k\rceil,n\}}\tfrac{2k-m}{k^2}\min\{1,\tfrac{m^2}n\}",
        wrong("1.1 times delta", share=Fraction(10, 11)), holds=True, needs=(on.PRINTED, on.MOST),
        proof="by [identity] for the m entries that are kept, whose sum S has S^2 >= min{1, m^2/n} "
        "||x||^2. (2k - m) min{1, m^2/n} rises and then falls in m, so that the ends of [ceil(k), "
        "n] are enough; fewer than k entries that are not 0 have m < k and S^2 >= ||x||^2",
    )
    yield form(
        "as top-k", lambda: le(q.error, (1 - q.k / q.n) * q.square),
        after=r",\quad\text{exactly }k\text{ entries}", fails=True, needs=(on.EXACT,),
        note="the one magnitude costs too: top-k's factor is not ST's",
    )
    yield form(
        "identity", lambda: eq(q.error, q.ternary), r"\|C(x)-x\|^2=\|x\|^2-(S/k)^2(2k-m)",
        wrong("off by a hundredth", share=Fraction(99, 100)), holds=True,
        needs=(on.EXACT,),
        proof="the m kept entries are sent as S/k, so that ||C(x) - x||^2 = ||x||^2 - 2 S^2/k + m "
        "S^2/k^2", note="S the kept magnitudes, m the number of them that are not 0",
    )


@paper.statement(
    "contraction-factors", over=on.CompressionView,
    title="the contraction factor of every biased compressor",
    source="section 3.1 (compression), and the compressors it is compared with",
)
def contraction_factors(q):
    """The least share of a message that each biased compressor keeps."""
    yield form(
        "top-k", lambda: _complement(q, q.square * q.k / q.n),
        wrong("1.1 times delta", share=Fraction(10, 11)),
        after=ONE_OUTCOME, holds=True, needs=(on.TOP_K,),
        proof="the mean of the k largest squares is at least the mean of all",
    )
    yield form(
        "random-k", lambda: eq(q.error, q.square - q.square * q.k / q.n),
        wrong("1.1 times delta", lambda: eq(q.error, q.square - 11 * q.square * q.k / (10 * q.n))),
        holds=True, needs=(on.RANDOM_K,), proof="each entry is left out with probability 1 - k/n",
    )
    yield form(
        "sign with scale", lambda: _complement(q, q.square / q.n),
        wrong("1.1 times delta", share=Fraction(10, 11)),
        after=ONE_OUTCOME, holds=True, needs=(on.SIGN,),
        proof="||C(x) - x||^2 <= ||x||^2 - ||x||_1^2/n, and ||x||_1 >= ||x||",
    )
    yield form(
        "threshold", lambda: le(q.error, q.n * q.compressor.epsilon**2 + 0 * q.square), NINE_TENTHS,
        after=ONE_OUTCOME, holds=True, needs=(on.THRESHOLD,),
        proof="each of the n entries that is dropped is below epsilon",
    )
    yield form(
        "threshold, relative", lambda: le(q.error, Fraction(999, 1000) * q.square),
        ERR + r"(1-\delta)\|x\|^2,\ \delta=\tfrac1{1000}", fails=True, needs=(on.THRESHOLD,),
        note="what is below the threshold is lost whole, so that no delta > 0 would do",
    )


@paper.statement(
    "variance-factors", over=on.CompressionView,
    title="the variance factor of every unbiased compressor",
    source="the compressors EFL's is compared with", measures="squared error of compression",
)
def variance_factors(q):
    """The mean of what each unbiased compressor sends, and its variance."""
    yield form(
        "random-k, scaled", lambda: eq(q.error, q.square * q.n / q.k - q.square),
        wrong("n/k", lambda: eq(q.error, q.square * q.n / q.k)), holds=True, needs=(on.SCALED,),
        proof="each entry is n/k times itself with probability k/n, else 0",
    )
    yield form(
        "QSGD", lambda: _qsgd(q), MEAN + r"\min\{\tfrac n{s^2},\tfrac{\sqrt n}s\}\|x\|^2",
        wrong("a fifth of it", share=Fraction(1, 5)), holds=True, needs=(on.QSGD,),
        proof="Alistarh et al. 2017, Lemma 3.1; it also follows from [QSGD, sharpened]",
        note="Alistarh et al. 2017, Lemma 3.1; above what is sharpened below by 1 for s <= "
        "sqrt(n)/2, by the factor 4 s/sqrt(n) from there to s = sqrt(n), by 4 beyond",
    )
    yield form(
        "QSGD, sharpened", lambda: _within(q, q.compressor.variance_exact(q.n)),
        MEAN + r"\tfrac{\psi(t)}t\|x\|^2,\ t=\tfrac{s^2}n,\ \psi(t)=\sqrt t-t\ (t\le\tfrac14),\ "
        r"\tfrac14\text{ else}", NINE_TENTHS, holds=True, needs=(on.QSGD,),
        proof="docs/efl.md#compression",
        note="sharp for every s <= sqrt(n)/2, and beyond wherever 4 s^2 is a sum of n odd squares, "
        "as 36 = 25 + 9 + 1 + 1",
    )
    yield form(
        "natural rounding", lambda: _within(q, Fraction(1, 8)),
        wrong("one ninth", lambda: _within(q, Fraction(1, 9))), holds=True, needs=(on.NATURAL,),
        proof="between 1 and 2 the variance (x - 1)(2 - x) is at most x^2/8, its share of x^2 "
        "being largest at x = 4/3",
    )
    yield form(
        "stochastic rounding", lambda: _within(q, q.compressor.variance_exact(q.n)),
        MEAN + r"\tfrac{\sqrt n-1}2\|x\|^2,\ \text{rounded to }0,\pm\max|x_i|", NINE_TENTHS,
        holds=True, needs=(on.TO_MAX,),
        proof="with max |x_i| = 1 the variance is ||x||_1 - ||x||^2. The n - 1 other entries have "
        "y <= alpha y^2 + 1/(4 alpha), alpha = (sqrt(n) + 1)/2, so that ||x||_1 <= alpha ||x||^2",
    )
    yield form(
        "rounding to a grid", lambda: le(q.error, q.n * q.compressor.step**2 / 4), NINE_TENTHS,
        holds=True, needs=(on.TO_GRID,),
        proof="an entry at the share f between two points has the variance f(1 - f) Delta^2 <= "
        "Delta^2/4",
    )
    for name, fact in (
        ("random-k, scaled", on.SCALED), ("QSGD", on.QSGD), ("natural rounding", on.NATURAL),
        ("stochastic rounding", on.TO_MAX), ("rounding to a grid", on.TO_GRID),
    ):  # fmt: skip
        yield form(
            f"{name}, unbiased", lambda: eq(q.compressor.expected(q.x), q.x), r"\mathbb EC(x)=x",
            wrong("off by a hundredth", share=Fraction(99, 100)), holds=True,
            needs=(fact,), proof="each entry's outcomes have the entry for their mean",
        )
