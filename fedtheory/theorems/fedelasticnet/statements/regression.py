"""FedElasticNet, (1) and (2): the Lasso, the elastic net, and what of them reaches the updates."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.inputs import whole_number
from fedtheory.problems.linear import LeastSquares
from fedtheory.rational import objects
from fedtheory.theorems.fedelasticnet.main_text import world
from fedtheory.theorems.fedelasticnet.main_text.quadratics import (
    WIDEST,
    identity,
    minimiser,
    minimisers,
    sq,
)
from fedtheory.theorems.fedelasticnet.notation import tight
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.quantities import soft
from fedtheory.theorems.fedelasticnet.world import Data, positive
from fedtheory.theory import Fact, Sides, derived, eq, form, le, number, printed, repaired, wrong
from fedtheory.theory.world import WorldInstance

MOST_SAMPLES = 1000


def _alike(q: Any) -> bool:
    a, b, ab = q.gram[0, 0], q.gram[1, 1], q.gram[0, 1]
    return bool(ab > 0 and 100 * ab * ab >= 81 * a * b)


PAIR = Fact("at least two features", lambda q: q.d > 1)
TWINS = Fact(
    "the first two features are identical, x_1 = x_2",
    lambda q: q.d > 1 and not (q.X[:, 0] != q.X[:, 1]).any(),
)
ALIKE = Fact(
    "the first two features are not identical, and their correlation is at least 9/10",
    lambda q: q.d > 1 and not q.has(TWINS) and _alike(q),
)
UNIT = Fact("features of norm 1", lambda q: (np.diagonal(q.gram) == 1).all())
ORTHONORMAL = Fact("orthonormal features, X'X = I", lambda q: (q.gram == identity(q.d)).all())
RIDGE = Fact("lambda_2 > 0", lambda q: q.lambda2 > 0)
ONE_SIGN = Fact(
    "the first two coefficients of the minimiser have one sign, and are not 0",
    lambda q: q.d > 1 and q.lambda2 > 0 and q.net[0] * q.net[1] > 0,
)
FEW = Fact(
    f"at most {WIDEST} features, as all vertices of the set of minimisers are found",
    lambda q: q.d <= WIDEST,
)


@dataclass(kw_only=True)
class RegressionView(world.MainTextWorld):
    """Least squares with n samples and d features; grouping is about the first two features."""

    kind, size = "regression", 24
    about = "about the Lasso and the elastic net on one client's samples"
    asks = (
        f"least squares of at most {world.MOST_FEATURES} features and {MOST_SAMPLES} samples a client",
    )
    example = "--problem least-squares --dimension 4 --given client=2"
    accepts: ClassVar = {
        "client": "the client whose samples are looked at; counted from 0, by default the first",
        "trial": world.TRIAL,
    }
    by_hand: ClassVar = {
        **{
            label: {"X": [["1"]], "y": ["2"], "lambda1": "1", "lambda2": l2, "trial": [trial]}
            for label, l2, trial in (
                ("one feature", "1", "3"),
                ("at the minimisers", "2", "3/2"),
                ("at the elastic net", "2", "3/4"),
            )
        },
        "orthonormal": {
            "X": [["3/5", "4/5"], ["4/5", "-3/5"]], "y": ["3", "1"], "lambda1": "1",
            "lambda2": "2", "trial": ["1", "1"],
        },
        "grouped, of one sign": {
            "X": [["20/101", "40/401"], ["99/101", "399/401"]], "y": ["1", "0"],
            "lambda1": "1/100", "lambda2": "1000",
        },
        "twins": {
            "X": [["1", "1"]], "y": ["1"], "lambda1": "1", "lambda2": "1", "start": ["1", "0"],
            "trial": ["1/4", "1/4"],
        },
        "alike, one of them selected": {
            "X": [["1", "1"], ["0", "1/4"]], "y": ["1", "-1"], "lambda1": "1", "lambda2": "1/100",
        },
        "a far update": {"X": [["1", "0"]], "y": ["1"], "lambda1": "1/1000", "lambda2": "1000"},
    }  # fmt: skip

    shows: ClassVar = {"n": "n", "d": "d", "lambda_1": "lambda1", "lambda_2": "lambda2"}

    X: np.ndarray = number("n d")
    y: np.ndarray = number("n")
    lambda1: Fraction = number(above=0)
    lambda2: Fraction = number(least=0)
    start: Any = number("d", "theta^{t-1} of (4), by default 0", default=None)
    trial: Any = number("d", "any point that minimisers are compared with", default=None)

    def __post_init__(self) -> None:
        zero = 0 * self.X[0]
        self.fill(start=zero, trial=zero)

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, Data]:
        """Draw few samples, the first two features often identical, alike, or units."""
        n, d = int(rng.integers(2, 5)), int(rng.integers(1, 4))
        X = [[world.whole(rng, -3, 4) for _ in range(d)] for _ in range(n)]
        shape = int(rng.integers(4)) if d > 1 else 3
        if shape == 0:
            X = [[row[0], row[0], *row[2:]] for row in X]
        elif shape == 1:
            X = [[10 * row[0], 10 * row[0] + row[1], *row[2:]] for row in X]
        elif shape == 2:  # (sine, cosine) of two samples: rational points of the unit circle
            t = [Fraction(int(rng.integers(-20, 21)), 20) for _ in range(d)]
            X = [[2 * x / (1 + x * x) for x in t], [(1 - x * x) / (1 + x * x) for x in t]]
        y, none = [world.whole(rng, -5, 6) for _ in X], rng.random() < 0.2
        lambda2 = Fraction(0) if none else positive(rng, 16) * int(rng.choice([1, 10]))
        lambda1 = Fraction(int(rng.integers(1, 13)), int(rng.choice([1, 4, 16])))
        data = {"X": X, "y": y, "lambda1": lambda1, "lambda2": lambda2}
        return f"n={len(X)} d={d}", {**data, "start": world.point(rng, d), "trial": world.point(rng, d)}

    @classmethod
    def on_problem(cls, statement: Any, case: Any) -> WorldInstance:
        """Take one client's samples."""
        p = case.problem
        if not isinstance(p, LeastSquares):
            name = type(p).__name__
            raise MissingCapability(f"{name} has no least squares: use problems.LeastSquares")
        if p.dim > world.MOST_FEATURES:
            raise MissingCapability(
                f"d = {p.dim} features, at most {world.MOST_FEATURES} are judged in fractions: use fewer"
            )
        k = case.given.get("client", 0)
        whole_number("client", k, least=0)
        if k >= p.num_clients:
            raise InvalidInput(f"client = {k}: there are {p.num_clients}, counted from 0")
        n = int(p.sample_counts[k])
        if n > MOST_SAMPLES:
            raise MissingCapability(
                f"client {k} has {n} samples, at most {MOST_SAMPLES} are judged in fractions: "
                "use more clients"
            )
        data = {"X": world.exact(p.features[k][:n]), "y": world.exact(p.targets[k][:n]), **world.lambdas(case)}
        data |= {"start": world.exact(case.x0), "trial": world.trial_of(case)}
        return cls.instance(f"client {k} of {p.name}", data)

    n = derived(lambda v: len(v.y))
    d = derived(lambda v: v.X.shape[1])
    gram = derived(lambda v: v.X.T @ v.X)

    def loss(self, x: np.ndarray, ridge: bool = False) -> Any:
        """(1) at x; with ``ridge`` (2)."""
        return sq(self.y - self.X @ x) + self.lambda1 * abs(x).sum() + (self.lambda2 / 2 * sq(x) if ridge else 0)

    lasso = derived(
        lambda v: minimisers(2 * v.gram, 2 * v.X.T @ v.y, v.lambda1),
        "the vertices of the set of minimisers of (1)",
    )
    net = derived(
        lambda v: minimiser(2 * v.gram + v.lambda2 * identity(v.d), 2 * v.X.T @ v.y, v.lambda1),
        "the minimiser of (2)",
    )

    @cached_property
    def update(self) -> np.ndarray:
        """theta_k - theta^{t-1} of (4) with L_k(theta) = ||y - X theta||^2/(2n)."""
        pull = self.X.T @ (self.y - self.X @ self.start) / Fraction(self.n)
        return minimiser(self.gram / Fraction(self.n) + self.lambda2 * identity(self.d), pull, self.lambda1)

    apart_sq = derived(
        lambda v: sq(v.X[:, 0] - v.X[:, 1]),
        "||x_1 - x_2||^2, which is 2 (1 - rho) for features of norm 1",
    )


def _growth(v: RegressionView, at: list[np.ndarray], ridge: bool, share: Any = 1, half: Any = Fraction(1, 2)) -> Sides:
    """f(x) + ||X (z - x)||^2 [+ lambda_2/2 ||z - x||^2] <= f(z), z the trial, at each of several minimisers x."""
    gaps = [sq(v.X @ (v.trial - x)) + (half * v.lambda2 * sq(v.trial - x) if ridge else 0) for x in at]
    lower = objects([v.loss(x, ridge) + share * gap for x, gap in zip(at, gaps, strict=True)])
    return le(lower, objects([v.loss(v.trial, ridge)] * len(at)))


def _least(v: RegressionView, at: list[np.ndarray], ridge: bool, share: Any = 1) -> Sides:
    """f(x) <= share f(z), z the trial, at each of several minimisers x."""
    return le(objects([v.loss(x, ridge) for x in at]), objects([share * v.loss(v.trial, ridge)] * len(at)))


def _moved(v: RegressionView, share: Any, ridge: bool = False) -> Sides:
    """The loss with what the twins have together shared out anew, against the loss at each minimiser of (1)."""
    new = []
    for x in v.lasso:
        z, both = x.copy(), x[0] + x[1]
        z[0], z[1] = share * both, (1 - share) * both
        new.append(v.loss(z, ridge))
    return eq(objects(new), objects([v.loss(x, ridge) for x in v.lasso]))


def _smaller(v: RegressionView, even: bool) -> Sides:
    """The smaller one of the pair's coefficients is 0: at the vertices, or where the pair shares evenly."""
    pairs = [((x[0] + x[1]) / 2,) * 2 if even else (x[0], x[1]) for x in v.lasso]
    return le(objects([min(abs(a), abs(b)) for a, b in pairs]), objects([Fraction(0)] * len(pairs)))


def _grouping(v: RegressionView, right: Any) -> Sides:
    """lambda_2^2 (theta_1 - theta_2)^2 <= 4 times ``right``."""
    return le(v.lambda2**2 * (v.net[0] - v.net[1]) ** 2, 4 * right)


def _grouped_updates(v: RegressionView) -> Sides:
    off = sq(v.y - v.X @ v.start)
    return le(v.lambda2**2 * (v.update[0] - v.update[1]) ** 2, v.apart_sq * off / Fraction(v.n) ** 2)


def _orthonormal(v: RegressionView, times: Any = 1) -> Sides:
    return eq((2 + v.lambda2) * v.net, soft(2 * v.X.T @ v.y, times * v.lambda1))


SYMBOLS = {
    "X, y": "RegressionView.X, .y", "x_1, x_2": "the first two columns of X", "rho": "<x_1, x_2>, for features of norm 1",
    "lambda_1, lambda_2": "algorithm.l1, algorithm.l2", "theta_hat": "the minimiser of (1) or (2): .lasso, .net",
    "Delta": "theta_k - theta^{t-1} of (4), for L_k(theta) = ||y - X theta||^2/(2n): .update",
}  # fmt: skip
GROWS = r"f(\hat\theta)+\|X(\theta-\hat\theta)\|^2"
statement = partial(FILE.statement, over=RegressionView, symbols=SYMBOLS)
ASSUMED = ("lambda_1 > 0",)
BOUND = r"|\hat\theta_1-\hat\theta_2|\le\tfrac2{\lambda_2}"


@statement(
    "eq-1", title="what the Lasso minimises, and which of a group it selects",
    source="section 2, (1) and the sentences after it", assumptions=ASSUMED,
)
def eq_1(q):
    yield printed(
        lambda: _least(q, q.lasso, False),
        r"f(\hat\theta)\le f(\theta)\ \ \forall\theta,\quad "
        r"f(\theta)=\|y-X\theta\|_2^2+\lambda_1\|\theta\|_1",
        wrong("9/10 of f", lambda: _least(q, q.lasso, False, Fraction(9, 10))), holds=True,
        needs=(FEW,), proof="definition of theta_hat",
    )
    yield form(
        "growth", lambda: _growth(q, q.lasso, False), GROWS + r"\le f(\theta)\ \ \forall\theta",
        wrong("11/10 of the square", lambda: _growth(q, q.lasso, False, Fraction(11, 10))),
        holds=True, needs=(FEW,), proof="docs/fedelasticnet_claims.md#1-and-2",
        note="by how much any other point is above; two minimisers have one fit X theta_hat",
    )
    yield form(
        "does not care which", lambda: _moved(q, Fraction(1)),
        r"x_1=x_2\Rightarrow f(\hat\theta\text{ with }\hat\theta_1+\hat\theta_2\text{ on either "
        r"one})=f(\hat\theta)", wrong("of (2)", lambda: _moved(q, Fraction(1, 2), True)),
        holds=True, needs=(TWINS, FEW), wording="in words",
        proof="X theta has the sum of the two only, and two numbers of one sign add up to the "
        "same 1-norm as their sum",
        note="'does not care which one is selected': for identical features, at the vertices, "
        "where the two have one sign",
    )
    yield form(
        "one of a group", lambda: _smaller(q, True),
        r"x_1=x_2\Rightarrow\min(|\hat\theta_1|,|\hat\theta_2|)=0\text{ for every minimiser}",
        fails=True, needs=(TWINS, FEW), wording="in words",
        note="'tends to select only one': a minimiser that has both is as good, so it is up to "
        "the solver",
    )
    yield form(
        "some minimiser has one", lambda: _smaller(q, False),
        r"x_1=x_2\Rightarrow\min(|\hat\theta_1|,|\hat\theta_2|)=0\text{ at every vertex}",
        wrong("shared evenly", lambda: _smaller(q, True)), holds=True, needs=(TWINS, FEW),
        proof="two coefficients of opposite signs could both be shortened, and two of one sign "
        "are no vertex: shifting a little from one to the other, either way, leaves f as it is",
    )
    yield form(
        "one of two alike", lambda: _smaller(q, False),
        r"\rho\ge\tfrac9{10}\Rightarrow\min(|\hat\theta_1|,|\hat\theta_2|)=0", fails=True,
        needs=(ALIKE, FEW), wording="in words",
        note="'highly correlated' read as a correlation of 9/10",
    )


@statement(
    "eq-2",
    source="section 2, (2) and the sentences after it", assumptions=(*ASSUMED, "lambda_2 > 0"),
)
def eq_2(q):
    """the minimiser of the elastic net"""
    yield printed(
        lambda: _least(q, [q.net], True),
        r"f(\hat\theta)\le f(\theta)\ \ \forall\theta,\quad "
        r"f(\theta)=\|y-X\theta\|_2^2+\tfrac{\lambda_2}2\|\theta\|_2^2+\lambda_1\|\theta\|_1",
        wrong("9/10 of f", lambda: _least(q, [q.net], True, Fraction(9, 10))), holds=True,
        needs=(RIDGE,), proof="definition of theta_hat",
    )
    yield form(
        "growth", lambda: _growth(q, [q.net], True),
        GROWS + r"+\tfrac{\lambda_2}2\|\theta-\hat\theta\|^2\le f(\theta)\ \ \forall\theta",
        wrong("11/10 of it", lambda: _growth(q, [q.net], True, Fraction(11, 10))),
        wrong("lambda_2 for lambda_2/2", lambda: _growth(q, [q.net], True, half=1)), holds=True,
        needs=(RIDGE,), proof="docs/fedelasticnet_claims.md#1-and-2",
        note="so it is unique. Zou and Hastie have lambda_2' for the lambda_2/2 here; (2) is what "
        "they call the naive elastic net, theirs is 1 + lambda_2' times as large, which selects "
        "the same features",
    )
    yield form(
        "identical features", lambda: eq(q.net[0], q.net[1]),
        r"x_1=x_2\Rightarrow\hat\theta_1=\hat\theta_2",
        wrong("a vertex of (1)", lambda: eq(q.lasso[0][0], q.lasso[0][1])), holds=True,
        needs=(TWINS, RIDGE, FEW), wording="in words", proof="note",
        note="'overcomes': the limit of correlation 1, where Lasso does not care. Its proof: "
        "swapping the two leaves f as it is, and the minimiser is unique",
    )
    yield form(
        "in or out together", lambda: eq(world.exact(q.net[0] != 0), world.exact(q.net[1] != 0)),
        r"\rho\ge\tfrac9{10}\Rightarrow(\hat\theta_1\neq0\Leftrightarrow\hat\theta_2\neq0)",
        fails=True, needs=(ALIKE, RIDGE), wording="in words",
        note="'in or out of the model description together' is so for correlation 1; below it "
        "only the bound of grouping-effect is left",
    )
    yield form(
        "orthonormal features", lambda: _orthonormal(q),
        r"X^TX=I\Rightarrow(2+\lambda_2)\hat\theta=\mathrm{soft}(2X^Ty,\lambda_1)",
        wrong("11/10 lambda_1", lambda: _orthonormal(q, Fraction(11, 10))), holds=True,
        needs=(ORTHONORMAL, RIDGE),
        proof="first-order condition of (2), coordinate by coordinate, as X'X = I",
        note="selection by lambda_1 and shrinkage by lambda_2; Zou and Hastie's (|b| - "
        "lambda_1/2)/(1 + lambda_2'), b = X'y",
    )


@statement(
    "grouping-effect",
    source="section 2 (Zou and Hastie 2005, Theorem 1, for the lambda_2/2 of (2))",
    assumptions=(*ASSUMED, "lambda_2 > 0"),
)
def grouping_effect(q):
    """strongly correlated features get nearly equal coefficients"""
    yield tight(
        "Zou and Hastie", lambda: _grouping(q, abs(q.y).sum() ** 2 * q.apart_sq),
        BOUND + r"\|y\|_1\sqrt{2(1-\rho)}\quad(\|x_1\|=\|x_2\|=1,\ \hat\theta_1\hat\theta_2>0)",
        less="9/10 of it", needs=(RIDGE, UNIT, ONE_SIGN), wording="in words",
        proof="Zou and Hastie 2005, Theorem 1; it follows from [repaired]",
        note="'encourage the grouping effect'; their (1/lambda_2') sqrt(2 (1 - rho)), with "
        "lambda_2' = lambda_2/2. Squared here",
    )
    yield tight(
        "repaired", lambda: _grouping(q, sq(q.y) * q.apart_sq), BOUND + r"\|y\|_2\,\|x_1-x_2\|_2",
        less="9/10 of it", needs=(RIDGE, PAIR), proof="note",
        note="any features, and any signs: lambda_2 theta_hat = soft(2 X'r, lambda_1), r = y - X "
        "theta_hat, and the soft threshold brings no two numbers farther apart; ||r|| <= ||y||, "
        "as f(theta_hat) <= f(0)",
    )
    yield tight(
        "with the residual", lambda: _grouping(q, sq(q.y - q.X @ q.net) * q.apart_sq),
        BOUND + r"\|y-X\hat\theta\|_2\,\|x_1-x_2\|_2", less="9/10 of it", needs=(RIDGE, PAIR),
        proof="note of [repaired], before its last step",
    )
    yield tight(
        "of one sign", lambda: _grouping(q, sq(q.y - q.X @ q.net) * (1 - q.gram[0, 1] ** 2)),
        BOUND + r"\|y-X\hat\theta\|_2\sqrt{1-\rho^2}\quad(\|x_1\|=\|x_2\|=1,\ \hat\theta_1\hat"
        r"\theta_2>0)", less="9/10 of it", needs=(RIDGE, UNIT, ONE_SIGN),
        proof="docs/fedelasticnet_claims.md#1-and-2",
        note="1 - rho^2 <= 2 (1 - rho): of two unit vectors with <x_1, r>, <x_2, r> >= 0 the "
        "difference is largest where one is 0",
    )


@statement(
    "grouping-of-updates", title="what of the grouping effect reaches the local updates",
    source="section 3, (4): the elastic net 'repurposed'",
    assumptions=(*ASSUMED, "lambda_2 > 0", "L_k(theta) = ||y - X theta||^2/(2n)"),
)
def grouping_of_updates(q):
    yield form(
        "equal coefficients", lambda: eq((q.start + q.update)[0], (q.start + q.update)[1]),
        r"x_1=x_2\Rightarrow(\theta_k^t)_1=(\theta_k^t)_2", fails=True, needs=(TWINS, RIDGE),
        wording="in words",
        note="the penalty is on the update: a difference that theta^{t-1} has stays for ever, at "
        "every client",
    )
    yield repaired(
        lambda: eq(q.update[0], q.update[1]), r"x_1=x_2\Rightarrow\Delta_1=\Delta_2",
        wrong("of the models", lambda: eq((q.start + q.update)[0], (q.start + q.update)[1])),
        holds=True, needs=(TWINS, RIDGE), proof="docs/fedelasticnet_claims.md#1-and-2",
        note="identical features get equal updates, in (10) too where the stored gradients began "
        "at 0: features that start equal stay equal",
    )
    yield tight(
        "nearly equal updates", lambda: _grouped_updates(q),
        r"|\Delta_1-\Delta_2|\le\tfrac1{n\lambda_2}\|x_1-x_2\|\,\|y-X\theta^{t-1}\|",
        less="9/10 of it", needs=(RIDGE, PAIR),
        proof="as grouping-effect [repaired]: lambda_2 Delta = soft(X'r/n, lambda_1) with r = y - "
        "X theta_k, and ||r|| <= ||y - X theta^{t-1}||, as 0 is no better an update",
    )
