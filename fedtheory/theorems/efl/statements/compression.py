"""EFL's compression: the ST lemma, and the factor of every compressor.

Factors are judged on exact expectations over the compressors' randomness, messages in fractions.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.messages import compressors
from fedtheory.messages.compressors import Compressor
from fedtheory.rational import fraction, vector
from fedtheory.theorems.efl.notation import BUILDERS, statement
from fedtheory.theory.judge.setting import ClosedView
from fedtheory.theory.judge.statement import Sides, eq, form, le
from fedtheory.theory.judge.symbolic import Letters, closed

__all__ = ["STATEMENTS", "CompressionView", "compression_view", "make_compressor"]

EXACT, MOST = "C is ST with exactly k entries", "2k > n"
PRINTED = "C is ST by the printed rule, which keeps all ties"
TOP_K, RANDOM_K, SCALED = "C is top-k", "C is random-k", "C is random-k times n/k"
SIGN, THRESHOLD = "C is the sign with scale", "C drops entries below epsilon"
QSGD, NATURAL = "C is QSGD with s levels", "C is natural rounding"
TO_MAX, TO_GRID = "C rounds to 0 and +-max_i |x_i|", "C rounds to the grid of width Delta"
_NAMED = {
    "top-k": TOP_K, "scaled-sign": SIGN, "threshold": THRESHOLD, "qsgd": QSGD, "natural": NATURAL,
}  # fmt: skip


def make_compressor(spec: dict[str, Any]) -> Compressor:
    """From {"name": ..., parameters}; numbers of a parameter may be fraction strings."""
    known = compressors.get(spec["name"])
    names = {f.name for f in fields(known)}
    unknown = sorted(set(spec) - names - {"name"})
    if unknown:
        raise InvalidInput(f"{spec['name']} has no parameter {unknown[0]!r}: use {', '.join(sorted(names))}")
    given: dict[str, Any]
    given = {k: fraction(v, k) if isinstance(v, str) and k in ("q", "epsilon", "step") else v for k, v in spec.items() if k != "name"}
    return known(**given)


@dataclass
class CompressionView(ClosedView):
    """One message x (n,) and one compressor."""

    compressor: Compressor
    x: np.ndarray

    def __post_init__(self) -> None:
        c = self.compressor
        facts = {_NAMED[c.name]} if c.name in _NAMED else set()
        if isinstance(c, compressors.ST):
            facts = {EXACT if c.rule == "exact" else PRINTED}
        if isinstance(c, compressors.RandomK):
            facts = {SCALED if c.scaled else RANDOM_K}
        if isinstance(c, compressors.StochasticRounding):
            facts = {TO_GRID if c.step is not None else TO_MAX}
        if c.name == "st" and 2 * self.k > self.n:
            facts.add(MOST)
        self.facts = frozenset(facts)

    @property
    def n(self) -> int:
        return len(self.x)

    @cached_property
    def k(self) -> Any:
        """The number that mu is divided by (ST), or of the entries kept (top-k, random-k)."""
        c = self.compressor
        if isinstance(c, compressors.ST):
            return Fraction(c.sizes(self.n)[1])
        if isinstance(c, compressors.TopK | compressors.RandomK):
            return c.count(self.n)
        # what a view lacks, a formula leaves out
        raise AttributeError(f"{c.name} keeps no number of entries: k is of st, top-k and random-k")

    @cached_property
    def error(self) -> Any:
        """E||C(x) - x||^2."""
        return self.compressor.expected_error_sq(self.x)

    @cached_property
    def square(self) -> Any:
        return (self.x * self.x).sum()

    @cached_property
    def ternary(self) -> Any:
        """||x||^2 - (S/k)^2 (2k - m) of what ST kept: S the kept magnitudes, m how many of them are not 0."""
        kept = self.compressor.compress(self.x) != 0
        total = abs(self.x[kept]).sum() if kept.any() else 0 * self.square
        return self.square - (total / self.k) ** 2 * (2 * self.k - int(kept.sum()))

    def printed_constants(self) -> dict[str, Any]:
        return {"compressor": str(self.compressor), "n": self.n}


@BUILDERS.add("compression")
def compression_view(data: dict[str, Any]) -> CompressionView:
    """From compressor (name and parameters) and x."""
    compressor, x = make_compressor(data["compressor"]), vector(data["x"], "x")
    compressor.check(len(x))
    return CompressionView(compressor, x)


def _within(v: CompressionView, omega: Any, share: Any = 1) -> Sides:
    """E||C(x) - x||^2 <= omega ||x||^2; lhs and rhs are halves of sums, so that ties are exact."""
    return le(v.error, share * omega * v.square)


def _complement(v: CompressionView, kept: Any) -> Sides:
    """delta ||x||^2 <= ||x||^2 - E||C(x) - x||^2: the contraction, tight at the least gain."""
    return le(kept, v.square - v.error)


def _unbiased(v: CompressionView, share: Any = 0) -> Sides:
    return eq(v.compressor.expected(v.x) + share * v.x, v.x)


def _qsgd(v: CompressionView, share: Any = 1) -> Sides:
    """omega = min(n/s^2, sqrt(n)/s), squared where there is a root."""
    if not isinstance(v.compressor, compressors.QSGD):
        raise InvalidInput(f"{v.compressor.name} has no levels: omega is QSGD's")
    ratio = Fraction(v.n, v.compressor.levels**2)
    return le(np.array([v.error, v.error**2]), share * np.array([ratio * v.square, ratio * v.square**2]) * (1 + Fraction(1, 2**40)))


def _own(v: CompressionView, share: Any = 1) -> Sides:
    return _within(v, v.compressor.variance_exact(v.n), share)


class _Message(Letters):
    """A message and its compressor as symbols."""

    @property
    def compressor(self) -> Any:
        """The compressor's own numbers are letters, too."""
        return self

    def values(self, view: Any) -> dict[Any, Any]:
        """The letters on a view, with its compressor's numbers."""
        own = {n: getattr(view.compressor, n, None) for n in ("epsilon", "step")}
        return super().values(view) | {getattr(self, n): value for n, value in own.items() if value is not None}


MESSAGE = _Message(
    {"n": "n", "k": "k", "epsilon": r"\epsilon", "step": r"\Delta", "error": r"\mathbb E\|C(x)-x\|^2", "square": r"\|x\|^2"},
    ("error", "square"),
)
ONE_OUTCOME = r",\quad C(x)\text{ not random}"


def _identity(v: CompressionView, share: Any = 0) -> Sides:
    return eq(v.error + share * v.square, v.ternary)


ERR = r"\|C(x)-x\|^2\le"
MEAN = r"\mathbb E\|C(x)-x\|^2\le"

STATEMENTS = (
    statement(
        "st-lemma",
        "how much of a message sparse ternary compression keeps",
        "Algorithm 2",
        form(
            "printed rule", ERR + r"\|x\|^2,\ k=\max(nq,1),\ \text{all }|x_i|\ge e\text{ kept},\ \mu=\tfrac1k\sum|x_i|",
            lambda v: le(v.error, v.square), "violated", kind="compression", needs=(PRINTED,), wording="algorithm",
            note="no factor is stated for Algorithm 2; with ties more than k entries are kept, but mu is divided by "
            "k: no factor, the error is up to (1/q - 1)^2 ||x||^2",
        ),
        form(
            "repaired", ERR + r"(1-\min\{\tfrac1k,\tfrac kn\})\|x\|^2,\ \text{exactly }k\text{ entries}",
            lambda v: _complement(v, min(1 / v.k, v.k / v.n) * v.square), "holds",
            ("1.1 times delta", lambda v: _complement(v, Fraction(11, 10) * min(1 / v.k, v.k / v.n) * v.square)),
            kind="compression", needs=(EXACT,),
            note="sharp: all entries equal, or one large entry and the rest near 0",
            proof="docs/efl.md#compression, by [identity]",
        ),
        form(
            "printed rule, more than half", ERR + r"(1-\delta)\|x\|^2\text{ if }2k>n,\ "
            r"\delta=\min_{m\in\{\lceil k\rceil,n\}}\tfrac{2k-m}{k^2}\min\{1,\tfrac{m^2}n\}",
            lambda v: _complement(v, v.compressor.contraction_exact(v.n) * v.square), "holds",
            ("1.1 times delta", lambda v: _complement(v, Fraction(11, 10) * v.compressor.contraction_exact(v.n) * v.square)),
            kind="compression",
            needs=(PRINTED, MOST),
            proof="by [identity] for the m entries that are kept, whose sum S has S^2 >= min{1, "
            "m^2/n} ||x||^2. (2k - m) min{1, m^2/n} rises and then falls in m, so that the ends of "
            "[ceil(k), n] are enough; fewer than k entries that are not 0 have m < k and S^2 >= "
            "||x||^2",
        ),
        closed(
            "as top-k", MESSAGE, lambda v: le(v.error, (1 - v.k / v.n) * v.square), "violated",
            after=r",\quad\text{exactly }k\text{ entries}", kind="compression", needs=(EXACT,),
            note="the one magnitude costs too: top-k's factor is not ST's",
        ),
        form(
            "identity", r"\|C(x)-x\|^2=\|x\|^2-(S/k)^2(2k-m)", _identity, "holds",
            ("off by a hundredth", lambda v: _identity(v, Fraction(1, 100))), kind="compression", needs=(EXACT,),
            note="S the kept magnitudes, m the number of them that are not 0",
            proof="the m kept entries are sent as S/k, so that ||C(x) - x||^2 = ||x||^2 - 2 S^2/k "
            "+ m S^2/k^2",
        ),
        measures="squared error of compression",
    ),
    statement(
        "contraction-factors",
        "the contraction factor of every biased compressor",
        "section 3.1 (compression), and the compressors it is compared with",
        closed(
            "top-k", MESSAGE, lambda v: _complement(v, v.square * v.k / v.n), "holds",
            ("1.1 times delta", lambda v: _complement(v, 11 * v.square * v.k / (10 * v.n))), after=ONE_OUTCOME,
            kind="compression", needs=(TOP_K,),
            proof="the mean of the k largest squares is at least the mean of all",
        ),
        closed(
            "random-k", MESSAGE, lambda v: eq(v.error, v.square - v.square * v.k / v.n), "holds",
            ("1.1 times delta", lambda v: eq(v.error, v.square - 11 * v.square * v.k / (10 * v.n))),
            kind="compression", needs=(RANDOM_K,),
            proof="each entry is left out with probability 1 - k/n",
        ),
        closed(
            "sign with scale", MESSAGE, lambda v: _complement(v, v.square / v.n), "holds",
            ("1.1 times delta", lambda v: _complement(v, 11 * v.square / (10 * v.n))), after=ONE_OUTCOME,
            kind="compression", needs=(SIGN,),
            proof="||C(x) - x||^2 <= ||x||^2 - ||x||_1^2/n, and ||x||_1 >= ||x||",
        ),
        closed(
            "threshold", MESSAGE, lambda v: le(v.error, v.n * v.compressor.epsilon**2 + 0 * v.square), "holds",
            ("nine tenths of it", lambda v: le(v.error, Fraction(9, 10) * v.n * v.compressor.epsilon**2)), after=ONE_OUTCOME,
            kind="compression", needs=(THRESHOLD,),
            proof="each of the n entries that is dropped is below epsilon",
        ),
        form(
            "threshold, relative", ERR + r"(1-\delta)\|x\|^2,\ \delta=\tfrac1{1000}",
            lambda v: le(v.error, Fraction(999, 1000) * v.square), "violated",
            kind="compression", needs=(THRESHOLD,),
            note="what is below the threshold is lost whole, so that no delta > 0 would do",
        ),
    ),
    statement(
        "variance-factors",
        "the variance factor of every unbiased compressor",
        "the compressors EFL's is compared with",
        closed(
            "random-k, scaled", MESSAGE, lambda v: eq(v.error, v.square * v.n / v.k - v.square), "holds",
            ("n/k", lambda v: eq(v.error, v.square * v.n / v.k)),
            kind="compression", needs=(SCALED,),
            proof="each entry is n/k times itself with probability k/n, else 0",
        ),
        form(
            "QSGD", MEAN + r"\min\{\tfrac n{s^2},\tfrac{\sqrt n}s\}\|x\|^2", _qsgd, "holds",
            ("a fifth of it", lambda v: _qsgd(v, Fraction(1, 5))),
            kind="compression", needs=(QSGD,),
            note="Alistarh et al. 2017, Lemma 3.1; above what is sharpened below by 1 for s <= sqrt(n)/2, by the "
            "factor 4 s/sqrt(n) from there to s = sqrt(n), by 4 beyond",
            proof="Alistarh et al. 2017, Lemma 3.1; it also follows from [QSGD, sharpened]",
        ),
        form(
            "QSGD, sharpened",
            MEAN + r"\tfrac{\psi(t)}t\|x\|^2,\ t=\tfrac{s^2}n,\ \psi(t)=\sqrt t-t\ (t\le\tfrac14),\ \tfrac14\text{ else}",
            _own, "holds", ("nine tenths of it", lambda v: _own(v, Fraction(9, 10))),
            kind="compression", needs=(QSGD,),
            note="sharp for every s <= sqrt(n)/2, and beyond wherever 4 s^2 is a sum of n odd squares, as 36 = 25 + "
            "9 + 1 + 1",
            proof="docs/efl.md#compression",
        ),
        closed(
            "natural rounding", MESSAGE, lambda v: _within(v, Fraction(1, 8)), "holds",
            ("one ninth", lambda v: _within(v, Fraction(1, 9))),
            kind="compression", needs=(NATURAL,),
            proof="between 1 and 2 the variance (x - 1)(2 - x) is at most x^2/8, its share of x^2 "
            "being largest at x = 4/3",
        ),
        form(
            "stochastic rounding", MEAN + r"\tfrac{\sqrt n-1}2\|x\|^2,\ \text{rounded to }0,\pm\max|x_i|", _own, "holds",
            ("nine tenths of it", lambda v: _own(v, Fraction(9, 10))),
            kind="compression", needs=(TO_MAX,),
            proof="with max |x_i| = 1 the variance is ||x||_1 - ||x||^2. The n - 1 other entries "
            "have y <= alpha y^2 + 1/(4 alpha), alpha = (sqrt(n) + 1)/2, so that ||x||_1 <= alpha "
            "||x||^2",
        ),
        closed(
            "rounding to a grid", MESSAGE, lambda v: le(v.error, v.n * v.compressor.step**2 / 4), "holds",
            ("nine tenths of it", lambda v: le(v.error, 9 * v.n * v.compressor.step**2 / 40)),
            kind="compression",
            needs=(TO_GRID,),
            proof="an entry at the share f between two points has the variance f(1 - f) Delta^2 <= "
            "Delta^2/4",
        ),
        *(
            form(
                f"{name}, unbiased", r"\mathbb EC(x)=x", _unbiased, "holds",
                ("off by a hundredth", lambda v: _unbiased(v, Fraction(1, 100))), kind="compression", needs=(fact,),
                proof="each entry's outcomes have the entry for their mean",
            )
            for name, fact in (
                ("random-k, scaled", SCALED), ("QSGD", QSGD), ("natural rounding", NATURAL),
                ("stochastic rounding", TO_MAX), ("rounding to a grid", TO_GRID),
            )
        ),
        measures="squared error of compression",
    ),
)  # fmt: skip
