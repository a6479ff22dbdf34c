"""FedElasticNet, section 4: what the l1 norm, and sending updates instead of models, do to the entropy of a message.

The entropy is the paper's: of the entries of one message, put into bins of one width. With n entries
and c_b of them in bin b it is H = log n - (1/n) sum_b c_b log c_b, so entropies are compared by the
whole numbers prod_b c_b^c_b.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import floor, prod
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import fraction, vector
from fedtheory.theorems.fedelasticnet.main_text.enclosures import exp_minus
from fedtheory.theorems.fedelasticnet.main_text.notation import BUILDERS, IN_WORDS, statement
from fedtheory.theorems.fedelasticnet.main_text.quadratics import number, soft
from fedtheory.theory.judge.setting import ClosedView
from fedtheory.theory.judge.statement import Sides, eq, form, le

__all__ = ["STATEMENTS", "DensityView", "MessageView", "density_view", "message_view"]

WHOLE = "t = lambda_1/(h + lambda_2) is a multiple of the bin's width"
ON_GRID = "all entries of theta and Delta are multiples of the bin's width"
SAME = "the Gaussian has the variance of f"
_E_MINUS = exp_minus(Fraction(1))
PI_E = Fraction(333, 106) / _E_MINUS[1]  # 333/106 < pi < 355/113, neighbouring convergents
PI_E_ABOVE = Fraction(355, 113) / _E_MINUS[0]


@dataclass
class MessageView(ClosedView):
    """One client's update and the model that it is an update of.

    Attributes
    ----------
    x, theta : the update without l1 and the server's model, (n,)
    threshold : lambda_1/(h + lambda_2), of a loss with the same curvature h in every coordinate: what the l1 norm takes off
    bin : the width of a bin
    """

    x: np.ndarray
    theta: np.ndarray
    threshold: Fraction
    bin: Fraction

    @cached_property
    def facts(self) -> frozenset[str]:  # type: ignore[override]
        """The facts that hold of this instance."""
        facts = {WHOLE} if (self.threshold / self.bin).denominator == 1 else set()
        on_grid = all((v / self.bin).denominator == 1 for v in (*self.x, *self.theta))
        return frozenset(facts | ({ON_GRID} if on_grid else set()))

    @property
    def n(self) -> int:
        return len(self.x)

    @cached_property
    def sparse(self) -> np.ndarray:
        """The update with the l1 norm."""
        return soft(self.x, self.threshold)

    def bins(self, values: np.ndarray) -> list[int]:
        """The nearest multiple of the bin's width, halves upwards."""
        return [floor(v / self.bin + Fraction(1, 2)) for v in values]

    def power(self, values: np.ndarray) -> Fraction:
        """prod_b c_b^c_b: the larger it is, the smaller the entropy."""
        return _power(self.bins(values))

    @property
    def joint(self) -> Fraction:
        """The same for the pairs (server's model, local model)."""
        return _power(zip(self.bins(self.theta), self.bins(self.theta + self.x), strict=True))

    def printed_constants(self) -> dict[str, Any]:
        return {"n": self.n, "bin": float(self.bin), "threshold": float(self.threshold)}


def _power(values: Iterable[Any]) -> Fraction:
    return Fraction(prod(c**c for c in Counter(values).values()))


@BUILDERS.add("message")
def message_view(data: dict[str, Any]) -> MessageView:
    """From x, and where they are not 0, 0 and 1/100: theta, threshold, bin. At most 100 entries."""
    x = vector(data["x"], "x")
    theta = vector(data.get("theta", ["0"] * len(x)), "theta")
    if len(theta) != len(x) or len(x) > 100:
        raise InvalidInput(f"x has {len(x)} entries and theta {len(theta)}: equally many are needed, at most 100")
    return MessageView(x, theta, number(data, "threshold", "0", least=0), number(data, "bin", "1/100", above=0))


@dataclass
class DensityView(ClosedView):
    """A density that is constant on cells, and a Gaussian.

    Attributes
    ----------
    left, width, count : of the cells, (c,); a cell has the probability count over the sum of all
    variance : of the Gaussian
    """

    left: np.ndarray
    width: np.ndarray
    count: list[int]
    variance: Fraction

    @cached_property
    def facts(self) -> frozenset[str]:  # type: ignore[override]
        """The facts that hold of this instance."""
        return frozenset({SAME} if self.variance == self.own_variance else set())

    @property
    def total(self) -> int:
        return sum(self.count)

    @property
    def own_variance(self) -> Fraction:
        share = [Fraction(c, self.total) for c in self.count]
        middles = self.left + self.width / 2
        mean = sum(p * x for p, x in zip(share, middles, strict=True))
        second = sum(p * (x * x + w * w / 12) for p, x, w in zip(share, middles, self.width, strict=True))
        return second - mean * mean

    @cached_property
    def power(self) -> Fraction:
        """e^(2 n h) of the density's entropy h, n the sum of the counts: prod (n width/count)^(2 count)."""
        return prod((self.total * w / c) ** (2 * c) for w, c in zip(self.width, self.count, strict=True))

    def gaussian(self, above: bool = False) -> Fraction:
        """(2 pi e variance)^n, which is e^(2 n h) of the Gaussian, from below or from above."""
        return (2 * (PI_E_ABOVE if above else PI_E) * self.variance) ** self.total

    def printed_constants(self) -> dict[str, Any]:
        return {"cells": len(self.count), "variance": float(self.own_variance), "Gaussian's variance": float(self.variance)}


@BUILDERS.add("density")
def density_view(data: dict[str, Any]) -> DensityView:
    """From cells [left, width, count], and the Gaussian's variance where it is not the density's own."""
    rows = [(fraction(left, "left"), fraction(width, "width"), count) for left, width, count in data["cells"]]
    if not rows or any(w <= 0 or isinstance(c, bool) or not isinstance(c, int) or not 1 <= c <= 500 for _, w, c in rows):
        raise InvalidInput("cells: [left, width > 0, count], counts from 1 to 500")
    if sum(c for _, _, c in rows) > (60 if "variance" in data else 300):
        raise InvalidInput("cells: their counts may add up to 300, and to 60 with a variance of the Gaussian's own")
    if any(a + w > b for (a, w, _), (b, _, _) in itertools.pairwise(rows)):
        raise InvalidInput("cells must follow each other without overlapping")
    left, width, count = (list(column) for column in zip(*rows, strict=True))
    view = DensityView(np.array(left, dtype=object), np.array(width, dtype=object), count, Fraction(0))
    variance = number(data, "variance", above=0) if "variance" in data else view.own_variance
    return DensityView(view.left, view.width, count, variance)


def _gaussian(v: DensityView, share: Any = 1, above: bool = False) -> Sides:
    """e^(2 n (h - h of the Gaussian)) <= 1; ``share`` of the Gaussian's variance."""
    return le(v.power / (v.gaussian(above) * share**v.total), Fraction(1))


def _given_model(v: MessageView, factor: Any = 1) -> Sides:
    """e^(n H(theta_k | theta)) <= e^(n H(Delta)): prod theta's over prod of the pairs, and n^n over prod Delta's."""
    return le(factor * v.power(v.theta) / v.joint, Fraction(v.n) ** v.n / v.power(v.x))


def _smaller(v: MessageView, values: np.ndarray, than: np.ndarray, factor: Any = 1) -> Sides:
    """factor e^(n H(values)) <= e^(n H(than)), each over n^n."""
    return le(factor / v.power(values), 1 / v.power(than))


def _nonzeros(values: np.ndarray) -> Fraction:
    return Fraction(int((values != 0).sum()))


SYMBOLS = {
    "H": "the entropy of the entries of a message in bins of one width", "Delta": "MessageView.x",
    "soft(Delta, t)": "the update with l1, t = lambda_1/(h + lambda_2): .sparse", "theta": ".theta",
}  # fmt: skip
BINS = ("one message, its entries put into bins of one width, 1/100 in the paper",)
WORDS = {"h": "differential entropy", "sigma^2": "DensityView.variance"}

STATEMENTS = (
    statement(
        "l1-and-entropy", "the l1 norm reduces the entropy of the update", "section 3, after (4); section 4, on Figure 2",
        "message",
        form(
            "never larger", r"H(\mathrm{soft}(\Delta,t))\le H(\Delta)", lambda v: _smaller(v, v.sparse, v.x), "violated",
            wording=IN_WORDS,
            note="'can effectively reduce the entropy', read as never raises it: a shift by less than a bin can part "
            "what was in one bin. For a loss with one curvature, where the l1 norm is a soft threshold",
        ),
        form(
            "always smaller", r"H(\mathrm{soft}(\Delta,t))\le H(\Delta)-\tfrac1n\log(1+10^{-6})",
            lambda v: _smaller(v, v.sparse, v.x, Fraction(10**6 + 1, 10**6)), "violated",
            wording=IN_WORDS,
            note="'reduces', judged with the least drop that could be meant: n H by log(1 + 10^-6). Not even where it "
            "sparsifies: values that keep apart have one entropy wherever they are",
        ),
        form(
            "repaired", r"H(\mathrm{soft}(\Delta,t))\le H(\Delta)\text{ for }t\text{ a multiple of the bin}",
            lambda v: _smaller(v, v.sparse, v.x), "holds",
            ("by a tenth", lambda v: _smaller(v, v.sparse, v.x, Fraction(11, 10))),
            needs=(WHOLE,),
            note="then the bin of soft(x, t) depends on the bin of x only, and a function of a variable has no larger "
            "entropy",
            proof="note",
        ),
        assumptions=BINS, symbols=SYMBOLS,
    ),
    statement(
        "updates-for-models", "sending updates instead of models reduces the entropy", "section 4, after Table 4",
        "message",
        form(
            "never more", r"H(\Delta_k)\le H(\theta_k)", lambda v: _smaller(v, v.x, v.theta + v.x), "violated",
            wording=IN_WORDS,
            note="'can reduce the Shannon entropy significantly', read as never raises it: a local model with one value "
            "everywhere, and a server's model with many",
        ),
        form(
            "repaired", r"H(\theta_k\mid\theta)\le H(\Delta_k)", _given_model, "holds",
            ("by a tenth", lambda v: _given_model(v, Fraction(11, 10))), needs=(ON_GRID,),
            note="the server has theta: given it the local model and the update say the same, H(theta_k | theta) = "
            "H(Delta | theta). So an update never costs less than the model does to one who knows theta",
            proof="note",
        ),
        form(
            "equally many nonzeros", r"\mathrm{nnz}(\theta_k)=\mathrm{nnz}(\Delta_k)\text{ for FedDyn}",
            lambda v: eq(_nonzeros(v.theta + v.x), _nonzeros(v.x)), "violated", wording=IN_WORDS,
            note="'the same for FedDyn': so where no entry of either is 0, but not in general",
        ),
        assumptions=BINS, symbols=SYMBOLS,
    ),
    statement(
        "gaussian-entropy", "the Gaussian has the largest entropy for its variance, and what follows",
        "section 4, on Figure 2", "density",
        form(
            "for a given variance", r"h(f)\le\tfrac12\log(2\pi e\sigma^2),\quad\sigma^2=\mathrm{Var}(f)", _gaussian, "holds",
            ("9/10 of the variance", lambda v: _gaussian(v, Fraction(9, 10))), needs=(SAME,), wording=IN_WORDS,
            note="Cover and Thomas, Theorem 8.6.5: the divergence of f from the Gaussian of its mean and variance is the "
            "difference. Judged for densities that are constant on cells, as e^{2nh}",
            proof="note",
        ),
        form(
            "hence", r"h(f)\le\tfrac12\log(2\pi e\sigma^2)\text{ for a non-Gaussian }f", lambda v: _gaussian(v, above=True),
            "violated", wording=IN_WORDS,
            note="'hence FedElasticNet can reduce the entropy by transforming the Gaussian into the non-Gaussian one': "
            "the variance changes with it, and a larger variance more than makes up for it",
        ),
        assumptions=("a density",), symbols=WORDS,
    ),
)  # fmt: skip
