"""FedElasticNet, B.3 and section 4: both sides of every form about chance and about entropy, in
plain fractions.

Probabilities are sums over every sequence of outcomes, one by one. A right side factor e^-x is kept
as the pair (factor, x); entropies are compared by the numbers that the formulas beside them say.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction as F
from itertools import product
from typing import Any

__all__ = ["LAWS", "MESSAGES", "SIGNS", "density", "message"]

HALF = F(1, 2)
COIN = [(F(1), [(F(1), HALF), (F(-1), HALF)])]
LAWS: dict[str, dict[str, Any]] = {
    "coins": {"laws": COIN, "n": [1] * 5, "delta": F(2, 5)},
    "few coins": {"laws": COIN, "n": [1] * 2, "delta": F(1, 2), "theta": F(-3, 2)},
    "coordinates": {"laws": COIN, "n": [1] * 3, "delta": F(1, 2), "d": 4},
    "alike": {"laws": COIN, "n": [1] * 2, "copies": 4, "delta": F(1, 2)},
    "zeros": {"laws": [(F(1), [(F(2), F(1, 4)), (F(0), HALF), (F(-1), F(1, 4))])], "n": [1] * 4, "delta": F(1, 4)},
    "unfair": {"laws": [(F(1), [(F(1), F(5, 8)), (F(0), F(1, 4)), (F(-1), F(1, 8))])], "n": [1] * 4, "delta": F(1, 4)},
    "either side": {
        "laws": [(HALF, [(F(1), F(7, 8)), (F(-1), F(1, 8))]), (HALF, [(F(1), F(1, 8)), (F(-1), F(7, 8))])], "n": [1] * 4,
        "delta": F(1, 4),
    },
    "weights": {"laws": COIN, "n": [5, 1, 2], "delta": HALF},
}  # fmt: skip


def sgn(x: F) -> int:
    return (x > 0) - (x < 0)


class Law:
    """A law of the clients' moves."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.laws, self.n, self.delta = given["laws"], given["n"], given["delta"]
        self.copies, self.d, self.theta = given.get("copies", 1), given.get("d", 1), given.get("theta", F(0))
        self.m = len(self.n) * self.copies

    def probability(self, event: Callable[[F], bool], of: Callable[[F], int] = sgn) -> F:
        """P[event of sum_k n_k/n X_k], sequence by sequence."""
        total = F(0)
        for weight, outcomes in self.laws:
            for sequence in product(outcomes, repeat=len(self.n)):
                p = weight
                for _, q in sequence:
                    p *= q
                mean = sum(n * of(move) for n, (move, _) in zip(self.n, sequence, strict=True)) / F(sum(self.n))
                total += p * event(mean)
        return total

    @property
    def above(self) -> F:
        return self.probability(lambda mean: mean > self.delta)

    @property
    def apart(self) -> F:
        return self.probability(lambda mean: abs(mean) > self.delta)

    @property
    def anywhere(self) -> F:
        return 1 - (1 - self.apart) ** self.d

    @property
    def misplaced(self) -> F:
        """The parenthesis as it is printed."""
        return self.probability(lambda mean: mean - self.theta > self.delta, lambda move: sgn(self.theta + move))

    @property
    def x(self) -> F:
        """m delta^2/2."""
        return self.m * self.delta**2 / 2

    @property
    def expected(self) -> F:
        ((_, outcomes),) = self.laws
        return sum((sgn(move) * p for move, p in outcomes), F(0))


SIGNS: dict[tuple[str, str], tuple[tuple[str, ...], Callable[[Law], tuple[F, tuple[Any, F]]]]] = {
    ("concentration", "printed"): (("few coins",), lambda v: (v.misplaced, (1, v.x))),
    ("concentration", "printed, first equality"): (("few coins",), lambda v: (v.misplaced, (v.above, F(0)))),
    ("concentration", "repaired"): (("coins", "few coins"), lambda v: (v.above, (1, v.x))),
    ("concentration", "Bern(1/2) with values 0 and 1"): (
        ("coins", "few coins"), lambda v: (v.probability(lambda b: b > v.delta, lambda move: int(move > 0)), (1, v.x)),
    ),
    ("concentration", "both sides"): (("coins", "few coins"), lambda v: (v.apart, (1, v.x))),
    ("concentration", "both sides, twice"): (("coins", "few coins"), lambda v: (v.apart, (2, v.x))),
    ("concentration", "all coordinates"): (("coordinates",), lambda v: (v.anywhere, (2, v.x))),
    ("concentration", "all coordinates, d times"): (("coordinates",), lambda v: (v.anywhere, (2 * v.d, v.x))),
    ("concentration", "identical clients"): (("alike",), lambda v: (v.above, (1, v.x))),
    ("concentration", "groups"): (("alike", "coins"), lambda v: (v.above, (1, len(v.n) * v.delta**2 / 2))),
    ("concentration", "with zeros"): (("zeros", "coins"), lambda v: (v.above, (1, v.x))),
    ("concentration", "unfair signs"): (("unfair",), lambda v: (v.above, (1, v.x))),
    ("concentration", "about its mean"): (
        ("unfair", "zeros"), lambda v: (v.probability(lambda mean: mean - v.expected > v.delta), (1, v.x)),
    ),
    ("concentration", "over the model"): (("either side",), lambda v: (v.above, (1, v.x))),
    ("concentration", "weights"): (("weights",), lambda v: (v.above, (1, v.x))),
    ("concentration", "weights, repaired"): (
        ("weights", "coins"),
        lambda v: (v.above, (1, v.delta**2 / (2 * sum((F(n, sum(v.n)) ** 2 for n in v.n), F(0))))),
    ),
}  # fmt: skip

# --- messages: the update without l1, the server's model, the threshold; the bin is 1 where it is not given 
MESSAGES: dict[str, dict[str, str]] = {
    "fine": {"x": "1/5 -2/5 7/5 3 3 -1", "theta": "1 1 0 0 2 -3", "t": "3/5"},
    "whole": {"x": "1 -2 1 3 3 0", "theta": "1 1 0 0 2 -3", "t": "1"},
    "one model": {"x": "1 0 -1 2", "theta": "-1 0 1 -2", "t": "2"},
}


def rounded(x: F) -> int:
    return (x + HALF).__floor__()


def power(values: list[Any]) -> F:
    """prod c^c over the bins: e^(n H) is n^n over it."""
    out = 1
    for b in {*values}:
        c = sum(v == b for v in values)
        out *= c**c
    return F(out)


def message(given: dict[str, str]) -> dict[tuple[str, str], tuple[F, F]]:
    """Both sides of every form that is about the message: entropies as 1/prod c^c, which is e^(n
    H)/n^n."""
    width = F(given.get("bin", "1"))
    x, theta = ([F(v) / width for v in given[k].split()] for k in ("x", "theta"))
    t, n = F(given["t"]) / width, len(x)
    soft = [sgn(v) * max(abs(v) - t, F(0)) for v in x]
    local = [a + b for a, b in zip(theta, x, strict=True)]
    plain, sparse, models = (power([rounded(v) for v in values]) for values in (x, soft, local))
    found = {
        ("l1-and-entropy", "never larger"): (1 / sparse, 1 / plain),
        ("l1-and-entropy", "always smaller"): ((1 + F(1, 10**6)) / sparse, 1 / plain),
        ("updates-for-models", "never more"): (1 / plain, 1 / models),
        ("updates-for-models", "equally many nonzeros"): (F(sum(v != 0 for v in local)), F(sum(v != 0 for v in x))),
    }
    if t.denominator == 1:
        found["l1-and-entropy", "repaired"] = (1 / sparse, 1 / plain)
    if all(v.denominator == 1 for v in (*x, *theta)):
        pairs = power([(rounded(a), rounded(b)) for a, b in zip(theta, local, strict=True)])
        found["updates-for-models", "repaired"] = (power([rounded(v) for v in theta]) / pairs, F(n) ** n / plain)
    return found


# --- densities: (left, width, count) --------------------------------------------------------------
def density(cells: list[tuple[F | int, F | int, int]], variance: F | None = None) -> tuple[F, int, F]:
    """e^(2 n h) = prod (n w/c)^(2 c), n, and the variance: the density's own where none is
    given."""
    n = sum(c for _, _, c in cells)
    power = F(1)
    for _, w, c in cells:
        power *= (n * F(w) / c) ** (2 * c)
    first = sum(F(c, n) * (a + F(w) / 2) for a, w, c in cells)
    second = sum(F(c, n) * F((a + w) ** 3 - a**3) / (3 * w) for a, w, c in cells)
    return power, n, second - first**2 if variance is None else variance
