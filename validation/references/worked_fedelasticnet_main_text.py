"""FedElasticNet, (1)-(9) and what the main text calls negligible: both sides of every form, in
plain fractions.

Each side is written from the formula that is shown for it. Minimisers are not searched for: they
are given, and proved to be minimisers by their optimality conditions. `FORMS` has (statement,
form) -> (names of instances, function); a function takes an instance and gives (lhs, rhs) as lists.
The rounds are in worked_fedelasticnet_one_round, what is about chance in
worked_fedelasticnet_signs.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction as F
from typing import Any

__all__ = [
    "FORMS", "INSTANCES", "Local", "Samples", "add", "dot", "form", "mul", "numbers", "optimal", "proved", "sgn", "solve_2", "sub",
]  # fmt: skip

Formula = Callable[[Any], tuple[list[F], list[F]]]
FORMS: dict[tuple[str, str], tuple[tuple[str, ...], Formula]] = {}


# --- plain vectors --------------------------------------------------------------------------------
def numbers(text: str) -> Any:
    """'1/2 3;0 1' as a list of lists of fractions, '1/2 3' as a list."""
    rows = [[F(x) for x in row.split()] for row in text.split(";")]
    return rows if ";" in text else rows[0]


def dot(a: list[F], b: list[F]) -> F:
    return sum((x * y for x, y in zip(a, b, strict=True)), F(0))


def mul(A: list[list[F]], x: list[F]) -> list[F]:
    return [dot(row, x) for row in A]


def sub(a: list[F], b: list[F]) -> list[F]:
    return [x - y for x, y in zip(a, b, strict=True)]


def add(a: list[F], b: list[F]) -> list[F]:
    return [x + y for x, y in zip(a, b, strict=True)]


def sgn(x: F) -> int:
    return (x > 0) - (x < 0)


def one_norm(x: list[F]) -> F:
    return sum((abs(v) for v in x), F(0))


def solve_2(A: list[list[F]], b: list[F]) -> list[F]:
    """Cramer's rule."""
    det = A[0][0] * A[1][1] - A[0][1] * A[1][0]
    return [(b[0] * A[1][1] - A[0][1] * b[1]) / det, (A[0][0] * b[1] - b[0] * A[1][0]) / det]


def optimal(gradient: list[F], x: list[F], l1: F) -> bool:
    """Return whether 0 is in gradient + l1 times the subdifferential of the 1-norm at x."""
    return all(g == -l1 * sgn(v) if v else abs(g) <= l1 for g, v in zip(gradient, x, strict=True))


def proved(ok: bool) -> None:
    if not ok:
        raise ArithmeticError("not a minimiser")


def form(statement: str, name: str, *instances: str) -> Callable[[Formula], Formula]:
    """Keep a function as the form's sides on these instances."""

    def keep(function: Formula) -> Formula:
        FORMS[statement, name] = (instances, function)
        return function

    return keep


# --- (1) and (2): X, y, lambda_1, lambda_2, theta^{t-1}, a point; the minimisers of (1), of (2), and the update of (4) 
INSTANCES: dict[str, dict[str, Any]] = {
    "plain": {
        "X": "1 2;0 1;2 1", "y": "3 -1 2", "l1": "1", "l2": "2", "start": "1 -1", "trial": "1/2 1",
        "lasso": ["13/14 13/28"], "net": "3/4 1/2", "update": "3/29 27/58",
    },
    "twins": {
        "X": "1 1;2 2", "y": "4 6", "l1": "1", "l2": "2", "start": "1 -1/2", "trial": "1 1/3",
        "lasso": ["31/10 0", "0 31/10"], "net": "31/22 31/22", "update": "23/28 23/28",
    },
    "alike": {
        "X": "1 1;0 1/4", "y": "1 -1", "l1": "1", "l2": "1/100", "start": "0 0", "trial": "1 1",
        "lasso": ["1/2 0"], "net": "100/201 0", "update": "0 0",
    },
    "alike, both": {
        "X": "1 1;0 1/4", "y": "2 1/8", "l1": "1/8", "l2": "1", "start": "0 0", "trial": "1 1",
        "lasso": ["23/16 1/2"], "net": "271/344 65/86", "update": "",
    },
    "units": {
        "X": "3/5 5/13;4/5 12/13", "y": "2 1", "l1": "1/2", "l2": "3", "start": "0 0", "trial": "0 1",
        "lasso": ["7/4 0"], "net": "100625/179498 64545/179498", "update": "955/7252 585/7252",
    },
    "orthonormal": {
        "X": "3/5 4/5;4/5 -3/5", "y": "3 1/2", "l1": "1", "l2": "2", "start": "0 0", "trial": "1 -1",
        "lasso": ["17/10 8/5"], "net": "17/20 4/5", "update": "1/25 1/50",
    },
}  # fmt: skip


class Samples:
    """One instance of least squares, its minimisers proved."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.X, self.y, self.start, self.trial = (numbers(given[k]) for k in ("X", "y", "start", "trial"))
        self.l1, self.l2 = F(given["l1"]), F(given["l2"])
        self.n = len(self.y)
        self.columns = [list(c) for c in zip(*self.X, strict=True)]
        self.lasso = [numbers(x) for x in given["lasso"]]
        for x in self.lasso:
            proved(optimal([-2 * g for g in self.pulls(x)], x, self.l1))
        self.net = numbers(given["net"])
        proved(optimal([self.l2 * v - 2 * g for g, v in zip(self.pulls(self.net), self.net, strict=True)], self.net, self.l1))
        if given["update"]:
            self.update = numbers(given["update"])
            pulls = self.pulls(add(self.start, self.update))
            proved(optimal([self.l2 * v - g / self.n for g, v in zip(pulls, self.update, strict=True)], self.update, self.l1))

    def residual(self, x: list[F]) -> list[F]:
        return sub(self.y, mul(self.X, x))

    def pulls(self, x: list[F]) -> list[F]:
        """X'(y - X x)."""
        return [dot(c, self.residual(x)) for c in self.columns]

    def f(self, x: list[F], ridge: F) -> F:
        r = self.residual(x)
        return dot(r, r) + ridge / 2 * dot(x, x) + self.l1 * one_norm(x)

    @property
    def apart(self) -> F:
        """||x_1 - x_2||^2."""
        away = sub(*self.columns[:2])
        return dot(away, away)


def grown(s: Samples, x: list[F], ridge: F) -> F:
    away = sub(s.trial, x)
    fit = mul(s.X, away)
    return s.f(x, ridge) + dot(fit, fit) + ridge / 2 * dot(away, away)


@form("eq-1", "printed", "plain", "twins", "alike")
def _(s: Samples):
    return [s.f(x, F(0)) for x in s.lasso], [s.f(s.trial, F(0)) for _ in s.lasso]


@form("eq-2", "printed", "plain", "twins", "alike")
def _(s: Samples):
    return [s.f(s.net, s.l2)], [s.f(s.trial, s.l2)]


@form("eq-1", "growth", "plain", "twins", "orthonormal")
def _(s: Samples):
    return [grown(s, x, F(0)) for x in s.lasso], [s.f(s.trial, F(0)) for _ in s.lasso]


@form("eq-1", "does not care which", "twins")
def _(s: Samples):
    return [s.f([x[0] + x[1], F(0), *x[2:]], F(0)) for x in s.lasso], [s.f(x, F(0)) for x in s.lasso]


@form("eq-1", "one of a group", "twins")
def _(s: Samples):  # the minimiser that shares evenly is one, too
    half = [(x[0] + x[1]) / 2 for x in s.lasso]
    for h, x in zip(half, s.lasso, strict=True):
        even = [h, h, *x[2:]]
        proved(optimal([-2 * g for g in s.pulls(even)], even, s.l1))
    return half, [F(0)] * len(half)


@form("eq-1", "some minimiser has one", "twins")
def _(s: Samples):
    return [min(abs(v) for v in x[:2]) for x in s.lasso], [F(0)] * len(s.lasso)


@form("eq-1", "one of two alike", "alike", "alike, both")
def _(s: Samples):
    return [min(abs(v) for v in x[:2]) for x in s.lasso], [F(0)] * len(s.lasso)


@form("eq-2", "growth", "plain", "twins", "alike", "orthonormal")
def _(s: Samples):
    return [grown(s, s.net, s.l2)], [s.f(s.trial, s.l2)]


@form("eq-2", "identical features", "twins")
def _(s: Samples):
    return [s.net[0]], [s.net[1]]


@form("eq-2", "in or out together", "alike", "alike, both")
def _(s: Samples):
    return [F(s.net[0] != 0)], [F(s.net[1] != 0)]


@form("eq-2", "orthonormal features", "orthonormal")
def _(s: Samples):
    twice = [2 * dot(c, s.y) for c in s.columns]
    return [(2 + s.l2) * v for v in s.net], [sgn(b) * max(abs(b) - s.l1, F(0)) for b in twice]


def spread(s: Samples) -> list[F]:
    """|theta_1 - theta_2|, squared and times lambda_2^2, so that no root is needed."""
    return [s.l2**2 * (s.net[0] - s.net[1]) ** 2]


@form("grouping-effect", "Zou and Hastie", "units", "orthonormal")
def _(s: Samples):  # (2 ||y||_1)^2 2 (1 - rho)
    return spread(s), [4 * one_norm(s.y) ** 2 * 2 * (1 - dot(*s.columns[:2]))]


@form("grouping-effect", "repaired", "plain", "units", "twins")
def _(s: Samples):
    return spread(s), [4 * dot(s.y, s.y) * s.apart]


@form("grouping-effect", "with the residual", "plain", "units", "twins")
def _(s: Samples):
    r = s.residual(s.net)
    return spread(s), [4 * dot(r, r) * s.apart]


@form("grouping-effect", "of one sign", "units", "orthonormal")
def _(s: Samples):
    r = s.residual(s.net)
    return spread(s), [4 * dot(r, r) * (1 - dot(*s.columns[:2]) ** 2)]


@form("grouping-of-updates", "equal coefficients", "twins")
def _(s: Samples):
    return [s.start[0] + s.update[0]], [s.start[1] + s.update[1]]


@form("grouping-of-updates", "repaired", "twins")
def _(s: Samples):
    return [s.update[0]], [s.update[1]]


@form("grouping-of-updates", "nearly equal updates", "plain", "units", "twins")
def _(s: Samples):  # squared
    r = s.residual(s.start)
    return [s.l2**2 * (s.update[0] - s.update[1]) ** 2], [s.apart * dot(r, r) / F(s.n) ** 2]


# --- (4), (8), (9): L(y) = y'Hy/2 - q'y, g, theta, lambda_1, lambda_2, a point; delta, and delta without l1 
INSTANCES |= {
    "first": {"H": "2 1;1 1", "q": "1 3", "g": "0 0", "theta": "1 0", "l1": "1/2", "l2": "3", "trial": "1/2 2",
              "delta": "-7/38 8/19", "delta0": "-6/19 11/19"},
    "later": {"H": "2 1;1 1", "q": "1 3", "g": "2 -1/2", "theta": "1 0", "l1": "1/2", "l2": "3", "trial": "1/2 2",
              "delta": "1/19 9/38", "delta0": "5/38 13/38"},
    "diagonal": {"H": "2 0;0 1", "q": "1 3", "g": "0 0", "theta": "1 0", "l1": "3/2", "l2": "3", "trial": "1/2 2",
                 "delta": "0 3/8", "delta0": "-1/5 3/4"},
    "dynamic": {"H": "2 1;1 1", "q": "1 3", "g": "2 -1/2", "theta": "1 0", "l1": "0", "l2": "3", "trial": "1/2 2",
                "delta": "5/38 13/38", "delta0": "5/38 13/38"},
    "mixed": {"H": "7/8 2;2 39/8", "q": "2 4", "g": "0 0", "theta": "0 0", "l1": "1/10", "l2": "1/8", "trial": "1 1",
              "delta": "17/10 1/10", "delta0": "2 0"},
    "tiny": {"H": "1 0;0 2", "q": "1/20000 1/30000", "g": "0 0", "theta": "0 0", "l1": "1/10000", "l2": "1", "trial": "0 0",
             "delta": "0 0", "delta0": "1/40000 1/90000"},
    "downwards": {"H": "-1 0;0 2", "q": "2 1", "g": "0 0", "theta": "1 1", "l1": "1", "l2": "3", "trial": "3 1/2",
                  "delta": "1 0", "delta0": "3/2 -1/5"},
    "unbounded": {"H": "-1 0;0 1", "q": "0 1", "g": "0 0", "theta": "0 1", "l1": "1", "l2": "1/2", "trial": "8 0", "delta": "",
                  "delta0": ""},
}  # fmt: skip


class Local:
    """One local problem, its minimiser proved where it has one."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.H = numbers(given["H"])
        self.q, self.g, self.theta, self.trial = (numbers(given[k]) for k in ("q", "g", "theta", "trial"))
        self.l1, self.l2 = F(given["l1"]), F(given["l2"])
        if given["delta"]:
            self.delta, self.delta0 = numbers(given["delta"]), numbers(given["delta0"])
            self.local = add(self.theta, self.delta)
            for x, l1 in ((self.delta, self.l1), (self.delta0, F(0))):
                pull = sub(self.grad(add(self.theta, x)), self.g)
                proved(optimal(add(pull, [self.l2 * v for v in x]), x, l1))

    def grad(self, y: list[F]) -> list[F]:
        return sub(mul(self.H, y), self.q)

    def f(self, y: list[F]) -> F:
        """The local objective."""
        away = sub(y, self.theta)
        loss = dot(y, mul(self.H, y)) / 2 - dot(self.q, y) - dot(self.g, y)
        return loss + self.l2 / 2 * dot(away, away) + self.l1 * one_norm(away)

    def grown(self, rate: F) -> F:
        away = sub(self.trial, self.local)
        return self.f(self.local) + rate / 2 * dot(away, away)

    @property
    def stays(self) -> F:
        """Return whether no entry of g - grad L(theta) is above lambda_1."""
        return F(all(abs(p) <= self.l1 for p in sub(self.g, self.grad(self.theta))))


@form("eq-4", "printed", "first", "diagonal")
@form("eq-8", "printed", "dynamic")
def _(v: Local):
    return [v.f(v.local)], [v.f(v.trial)]


@form("eq-4", "unique", "first", "diagonal")
@form("eq-8", "unique", "dynamic")
def _(v: Local):
    return [v.grown(v.l2)], [v.f(v.trial)]


@form("eq-4", "any smooth loss", "unbounded")
def _(v: Local):
    return [v.f(v.theta)], [v.f(v.trial)]


@form("eq-4", "smooth, lambda_2 > beta", "downwards")
def _(v: Local):
    beta = max(abs(row[i]) for i, row in enumerate(v.H))  # of a diagonal H
    return [v.grown(v.l2 - beta)], [v.f(v.trial)]


@form("eq-4", "soft threshold", "first", "later", "diagonal")
def _(v: Local):
    pull = sub(v.g, v.grad(v.local))
    return [v.l2 * x for x in v.delta], [sgn(p) * max(abs(p) - v.l1, F(0)) for p in pull]


@form("eq-9", "printed", "dynamic")
def _(v: Local):
    return add(sub(v.grad(v.local), v.g), [v.l2 * x for x in v.delta]), [F(0)] * len(v.delta)


@form("eq-9", "consistent, in every round", "dynamic")
def _(v: Local):
    return v.local, v.theta


@form("eq-9", "consistent, when", "dynamic", "tiny", "first")
@form("sparsification", "nothing moves", "tiny", "first", "later")
def _(v: Local):
    return [F(not any(v.delta))], [v.stays]


@form("sparsification", "never more", "mixed", "first", "diagonal")
@form("sparsification", "coordinates that do not mix", "diagonal", "tiny")
def _(v: Local):
    return [F(sum(x != 0 for x in v.delta))], [F(sum(x != 0 for x in v.delta0))]


@form("sparsification", "count", "first", "later", "diagonal", "mixed")
def _(v: Local):
    moved = sum(x != 0 for x in v.delta)
    return [v.l1 * moved + v.l2 * one_norm(v.delta)], [one_norm(sub(v.g, v.grad(v.local)))]


@form("impact-of-lambda-1", "a hundredth", "tiny")
def _(v: Local):  # squared, times 10^4
    away = sub(v.delta, v.delta0)
    return [10000 * dot(away, away)], [dot(v.delta0, v.delta0)]


@form("impact-of-lambda-1", "repaired", "first", "later", "mixed")
def _(v: Local):  # squared, times lambda_2^2
    away = sub(v.delta, v.delta0)
    return [v.l2**2 * dot(away, away)], [len(away) * v.l1**2]


@form("impact-of-lambda-1", "how far from (9)", "first", "diagonal")
def _(v: Local):
    return [abs(x) for x in add(sub(v.grad(v.local), v.g), [v.l2 * x for x in v.delta])], [v.l1] * len(v.delta)


@form("impact-of-lambda-1", "units", "first", "later")
def _(v: Local):
    """With everything times 7/2 the same delta is optimal."""
    c = F(7, 2)
    larger = Local.__new__(Local)
    larger.H = [[c * x for x in row] for row in v.H]
    larger.q, larger.g = [c * x for x in v.q], [c * x for x in v.g]
    pull = sub(larger.grad(v.local), larger.g)
    proved(optimal(add(pull, [c * v.l2 * x for x in v.delta]), v.delta, c * v.l1))
    return v.delta, v.delta
