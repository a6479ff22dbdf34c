"""FedElasticNet, section 4: the entropy of a message, and what l1 and sending updates do to it.

The entropy is the paper's: of the entries of one message, put into bins of one width. With n
entries and c_b of them in bin b it is H = log n - (1/n) sum_b c_b log c_b, so entropies are compared
by the whole numbers prod_b c_b^c_b.
"""

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import floor, prod
from typing import Any, ClassVar, Self

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import fraction, objects, simplest, simplest_each
from fedtheory.theorems.fedelasticnet.main_text import world
from fedtheory.theorems.fedelasticnet.main_text.enclosures import exp_minus
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.quantities import soft
from fedtheory.theorems.fedelasticnet.statements.local_problem import LocalView, nonzeros
from fedtheory.theorems.fedelasticnet.world import Data, positive, signed
from fedtheory.theory import Fact, Sides, anything, derived, eq, form, le, number, repaired, wrong
from fedtheory.theory.judge.view import EachOf

SHORT = Fact("at most 100 entries", lambda q: q.n <= 100)
WHOLE = Fact(
    "t = lambda_1/(h + lambda_2) is a multiple of the bin's width",
    lambda q: (q.threshold / q.bin).denominator == 1,
)
ON_GRID = Fact(
    "all entries of theta and Delta are multiples of the bin's width",
    lambda q: all((v / q.bin).denominator == 1 for v in (*q.x, *q.theta)),
)
SAME = Fact("the Gaussian has the variance of f", lambda q: q.variance == q.own_variance)
_E_MINUS = exp_minus(Fraction(1))
PI_E = Fraction(333, 106) / _E_MINUS[1]  # 333/106 < pi < 355/113, neighbouring convergents
PI_E_ABOVE = Fraction(355, 113) / _E_MINUS[0]


@dataclass(kw_only=True)
class MessageView(world.MainTextWorld):
    """One client's update and the model that it is an update of."""

    kind, size = "message", 30
    about = "about the entropy of messages"
    asks = (
        "messages that are given, or quadratic losses of few coordinates, for their first updates",
    )
    example = (
        "--problem diabetes --clients 3 --given message=251/500,249/500 --given threshold=1/250"
    )
    accepts: ClassVar = {
        "message": "(n,) or (M, n): updates without l1; by default the clients' first ones",
        "threshold": "what the l1 norm takes off each entry, by default "
        "lambda_1/(beta_k + lambda_2)",
        "bin": "the width of a bin, by default 1/100",
    }
    by_hand: ClassVar = {
        "one local model everywhere": {
            "x": ["1/100", "0", "-1/100"], "theta": ["-1/100", "0", "1/100"],
        },
        "all pairs": {"x": ["0", "0", "1/100", "1/100"], "theta": ["0", "1/100", "0", "1/100"]},
        "parted by the threshold": {"x": ["251/500", "249/500"], "threshold": "1/250"},
    }  # fmt: skip

    demands, shows = (SHORT,), ("n", "bin", "threshold")

    x: np.ndarray = number("n", "the update without l1")
    theta: Any = number("n", "the server's model", default=None)
    # lambda_1/(h + lambda_2), of a loss with the same curvature h in every coordinate
    threshold: Fraction = number("", "what the l1 norm takes off", least=0, default=Fraction(0))
    bin: Fraction = number("", "the width of a bin", above=0, default=Fraction(1, 100))

    def __post_init__(self) -> None:
        self.fill(theta=0 * self.x)

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, Data]:
        """Draw an update, on a grid of the bins' width or of a fifth of it."""
        n, fine = int(rng.integers(2, 9)), int(rng.choice([1, 5]))
        unit = Fraction(1, 100 * fine)
        x = [world.whole(rng, -6, 7) * unit for _ in range(n)]
        data: Data = {"x": x, "threshold": world.whole(rng, 0, 4) * unit}
        if rng.random() < 0.5:
            data["theta"] = [world.whole(rng, -2, 3) * unit for _ in range(n)]
        return f"n={n}", data

    @classmethod
    def on_problem(cls, statement: Any, case: Any) -> EachOf:
        """Take the messages that are given, or the clients' first updates without l1."""
        level, ridge = world.lambdas(case).values()
        given = case.given
        more = {k: simplest_each(given[k]).item() for k in ("threshold", "bin") if k in given}
        thresholds = [level / (simplest(float(b)) + ridge) for b in case.problem.beta_k]
        if "message" in given:
            rows = np.atleast_2d(simplest_each(given["message"]))
            thresholds = [max(thresholds)] * len(rows)
            theta: Any = [Fraction(0)] * rows.shape[-1]
        else:
            local = LocalView.on_problem(statement, case).each
            rows, theta = np.stack([v.without_l1.delta for v in local]), world.exact(case.x0)
        data = [
            {"x": x, "theta": theta, "threshold": t, **more}
            for x, t in zip(rows, thresholds, strict=True)
        ]
        return EachOf([cls.instance("", d).view() for d in data])

    n = derived(lambda v: len(v.x))
    sparse = derived(lambda v: soft(v.x, v.threshold), "the update with the l1 norm")

    def bins(self, values: np.ndarray) -> list[int]:
        """The nearest multiple of the bin's width, halves upwards."""
        return [floor(v / self.bin + Fraction(1, 2)) for v in values]

    def power(self, values: np.ndarray) -> Fraction:
        """prod_b c_b^c_b: the larger it is, the smaller the entropy."""
        return _power(self.bins(values))

    joint = derived(
        lambda v: _power(zip(v.bins(v.theta), v.bins(v.theta + v.x), strict=True)),
        "the same for the pairs (server's model, local model)",
    )


def _power(values: Iterable[Any]) -> Fraction:
    return Fraction(prod(c**c for c in Counter(values).values()))


@dataclass(kw_only=True)
class DensityView(world.MainTextWorld):
    """A density that is constant on cells, and a Gaussian.

    Attributes
    ----------
    left, width, count : of the cells, (c,); a cell has the probability count over the sum of all
    variance : of the Gaussian
    """

    kind, size = "density", 12
    about = "about densities"
    by_hand: ClassVar = {
        "binomial": {
            "cells": [[str(k), "1", c] for k, c in enumerate((1, 8, 28, 56, 70, 56, 28, 8, 1))]
        },
        "wider": {"cells": [["0", "5", 1]], "variance": "1"},
    }

    shows: ClassVar = {
        "cells": "cells", "variance": "own_variance", "Gaussian's variance": "variance",
    }
    reads: ClassVar = {
        "cells": anything("[left, width, count] of each"),
        "variance": number(above=0, default=None),
    }

    left: np.ndarray
    width: np.ndarray
    count: list[int]
    variance: Any

    @classmethod
    def made(cls, cells: Any, variance: Any) -> Self:
        """Take the Gaussian's variance from the cells where data say none."""
        rows = [(fraction(a, "left"), fraction(w, "width"), count) for a, w, count in cells]
        if not rows or any(
            w <= 0 or isinstance(c, bool) or not isinstance(c, int) or not 1 <= c <= 500
            for _, w, c in rows
        ):
            raise InvalidInput("cells: [left, width > 0, count], counts from 1 to 500")
        if sum(c for _, _, c in rows) > (300 if variance is None else 60):
            raise InvalidInput(
                "cells: their counts may add up to 300, and to 60 with a variance of the "
                "Gaussian's own"
            )
        if any(a + w > b for (a, w, _), (b, _, _) in itertools.pairwise(rows)):
            raise InvalidInput("cells must follow each other without overlapping")
        left, width, count = (list(column) for column in zip(*rows, strict=True))
        found = cls(left=objects(left), width=objects(width), count=count, variance=variance)
        found.fill(variance=found.own_variance)
        return found

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, Data]:
        """Draw up to four cells."""
        at, cells = signed(rng, 8), []
        for _ in range(int(rng.integers(1, 5))):
            width = positive(rng, 16)
            cells.append([at, width, int(rng.integers(1, 12))])
            at += width + (positive(rng, 16) if rng.random() < 0.3 else 0)
        data: Data = {"cells": cells}
        if rng.random() < 0.3:
            data["variance"] = positive(rng, 16)
        return f"{len(cells)} cells", data

    cells = derived(lambda v: len(v.count))
    total = derived(lambda v: sum(v.count))

    @property
    def own_variance(self) -> Fraction:
        share = [Fraction(c, self.total) for c in self.count]
        middles = self.left + self.width / 2
        mean = sum(p * x for p, x in zip(share, middles, strict=True))
        cells = zip(share, middles, self.width, strict=True)
        second = sum(p * (x * x + w * w / 12) for p, x, w in cells)
        return second - mean * mean

    @cached_property
    def power(self) -> Fraction:
        """e^(2 n h) of the density's entropy h, n the sum of the counts: prod (n width/count)^(2 count)."""
        return prod((self.total * w / c) ** (2 * c) for w, c in zip(self.width, self.count, strict=True))

    def gaussian(self, above: bool = False) -> Fraction:
        """(2 pi e variance)^n, which is e^(2 n h) of the Gaussian, from below or from above."""
        return (2 * (PI_E_ABOVE if above else PI_E) * self.variance) ** self.total


def _gaussian(v: DensityView, share: Any = 1, above: bool = False) -> Sides:
    """e^(2 n (h - h of the Gaussian)) <= 1; ``share`` of the Gaussian's variance."""
    return le(v.power / (v.gaussian(above) * share**v.total), Fraction(1))


def _given_model(v: MessageView, factor: Any = 1) -> Sides:
    """e^(n H(theta_k | theta)) <= e^(n H(Delta)): prod theta's over prod of the pairs, and n^n over prod Delta's."""
    return le(factor * v.power(v.theta) / v.joint, Fraction(v.n) ** v.n / v.power(v.x))


def _smaller(v: MessageView, values: np.ndarray, than: np.ndarray, factor: Any = 1) -> Sides:
    """factor e^(n H(values)) <= e^(n H(than)), each over n^n."""
    return le(factor / v.power(values), 1 / v.power(than))


SYMBOLS = {
    "H": "the entropy of the entries of a message in bins of one width", "Delta": "MessageView.x",
    "soft(Delta, t)": "the update with l1, t = lambda_1/(h + lambda_2): .sparse", "theta": ".theta",
}  # fmt: skip
BINS = ("one message, its entries put into bins of one width, 1/100 in the paper",)
WORDS = {"h": "differential entropy", "sigma^2": "DensityView.variance"}


@FILE.statement(
    "l1-and-entropy", over=MessageView,
    source="section 3, after (4); section 4, on Figure 2", assumptions=BINS, symbols=SYMBOLS,
)
def l1_and_entropy(q):
    """the l1 norm reduces the entropy of the update"""
    yield form(
        "never larger", lambda: _smaller(q, q.sparse, q.x),
        r"H(\mathrm{soft}(\Delta,t))\le H(\Delta)", fails=True, wording="in words",
        note="'can effectively reduce the entropy', read as never raises it: a shift by less than "
        "a bin can part what was in one bin. For a loss with one curvature, where the l1 norm is "
        "a soft threshold",
    )
    yield form(
        "always smaller", lambda: _smaller(q, q.sparse, q.x, Fraction(10**6 + 1, 10**6)),
        r"H(\mathrm{soft}(\Delta,t))\le H(\Delta)-\tfrac1n\log(1+10^{-6})", fails=True,
        wording="in words",
        note="'reduces', judged with the least drop that could be meant: n H by log(1 + 10^-6). "
        "Not even where it sparsifies: values that keep apart have one entropy wherever they are",
    )
    yield repaired(
        lambda: _smaller(q, q.sparse, q.x),
        r"H(\mathrm{soft}(\Delta,t))\le H(\Delta)\text{ for }t\text{ a multiple of the bin}",
        wrong("by a tenth", lambda: _smaller(q, q.sparse, q.x, Fraction(11, 10))), holds=True,
        needs=(WHOLE,), proof="note",
        note="then the bin of soft(x, t) depends on the bin of x only, and a function of a "
        "variable has no larger entropy",
    )


@FILE.statement(
    "updates-for-models", over=MessageView,
    source="section 4, after Table 4", assumptions=BINS, symbols=SYMBOLS,
)
def updates_for_models(q):
    """sending updates instead of models reduces the entropy"""
    yield form(
        "never more", lambda: _smaller(q, q.x, q.theta + q.x), r"H(\Delta_k)\le H(\theta_k)",
        fails=True, wording="in words",
        note="'can reduce the Shannon entropy significantly', read as never raises it: a local "
        "model with one value everywhere, and a server's model with many",
    )
    yield repaired(
        lambda: _given_model(q), r"H(\theta_k\mid\theta)\le H(\Delta_k)",
        wrong("by a tenth", lambda: _given_model(q, Fraction(11, 10))), holds=True,
        needs=(ON_GRID,), proof="note",
        note="the server has theta: given it the local model and the update say the same, "
        "H(theta_k | theta) = H(Delta | theta). So an update never costs less than the model does "
        "to one who knows theta",
    )
    yield form(
        "equally many nonzeros", lambda: eq(nonzeros(q.theta + q.x), nonzeros(q.x)),
        r"\mathrm{nnz}(\theta_k)=\mathrm{nnz}(\Delta_k)\text{ for FedDyn}", fails=True,
        wording="in words",
        note="'the same for FedDyn': so where no entry of either is 0, but not in general",
    )


@FILE.statement(
    "gaussian-entropy", over=DensityView,
    source="section 4, on Figure 2", assumptions=("a density",), symbols=WORDS,
)
def gaussian_entropy(q):
    """the Gaussian has the largest entropy for its variance, and what follows"""
    yield form(
        "for a given variance", lambda: _gaussian(q),
        r"h(f)\le\tfrac12\log(2\pi e\sigma^2),\quad\sigma^2=\mathrm{Var}(f)",
        wrong("9/10 of the variance", lambda: _gaussian(q, Fraction(9, 10))), holds=True,
        needs=(SAME,), wording="in words", proof="note",
        note="Cover and Thomas, Theorem 8.6.5: the divergence of f from the Gaussian of its mean "
        "and variance is the difference. Judged for densities that are constant on cells, as "
        "e^{2nh}",
    )
    yield form(
        "hence", lambda: _gaussian(q, above=True),
        r"h(f)\le\tfrac12\log(2\pi e\sigma^2)\text{ for a non-Gaussian }f", fails=True,
        wording="in words",
        note="'hence FedElasticNet can reduce the entropy by transforming the Gaussian into the "
        "non-Gaussian one': the variance changes with it, and a larger variance more than makes "
        "up for it",
    )
