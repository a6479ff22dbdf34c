"""FedElasticNet, (1) and (2): the Lasso, the elastic net, and what of them reaches the updates."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import objects, table, vector
from fedtheory.theorems.fedelasticnet.main_text.notation import BUILDERS, IN_WORDS, by_a_tenth, statement, truth
from fedtheory.theorems.fedelasticnet.main_text.quadratics import (
    WIDEST,
    identity,
    minimiser,
    minimisers,
    number,
    soft,
    sq,
)
from fedtheory.theory.judge.setting import ClosedView
from fedtheory.theory.judge.statement import Sides, eq, form, le

__all__ = ["STATEMENTS", "RegressionView", "regression_view"]

TWINS = "the first two features are identical, x_1 = x_2"
ALIKE = "the first two features are not identical, and their correlation is at least 9/10"
UNIT, ORTHONORMAL = "features of norm 1", "orthonormal features, X'X = I"
ONE_SIGN = "the first two coefficients of the minimiser have one sign, and are not 0"
PAIR, RIDGE = "at least two features", "lambda_2 > 0"
FEW = f"at most {WIDEST} features, as all vertices of the set of minimisers are found"


@dataclass
class RegressionView(ClosedView):
    """Least squares with n samples and d features. The first two features are the pair that grouping is about.

    Attributes
    ----------
    X, y : (n, d), (n,)
    lambda1, lambda2 : above 0; at least 0
    start : theta^{t-1} of (4), (d,)
    trial : any point, (d,), that minimisers are compared with
    """

    X: np.ndarray
    y: np.ndarray
    lambda1: Fraction
    lambda2: Fraction
    start: np.ndarray
    trial: np.ndarray

    @cached_property
    def facts(self) -> frozenset[str]:  # type: ignore[override]
        """The facts that hold of this instance."""
        facts = {FEW} if self.d <= WIDEST else set()
        facts |= {RIDGE} if self.lambda2 > 0 else set()
        facts |= {UNIT} if (np.diagonal(self.gram) == 1).all() else set()
        facts |= {ORTHONORMAL} if (self.gram == identity(self.d)).all() else set()
        if self.d > 1:
            facts |= {PAIR}
            a, b, ab = self.gram[0, 0], self.gram[1, 1], self.gram[0, 1]
            twins = not (self.X[:, 0] != self.X[:, 1]).any()
            facts |= {TWINS} if twins else set()
            facts |= {ALIKE} if not twins and ab > 0 and 100 * ab * ab >= 81 * a * b else set()
            facts |= {ONE_SIGN} if self.lambda2 > 0 and self.net[0] * self.net[1] > 0 else set()
        return frozenset(facts)

    @property
    def n(self) -> int:
        return len(self.y)

    @property
    def d(self) -> int:
        return self.X.shape[1]

    @cached_property
    def gram(self) -> np.ndarray:
        return self.X.T @ self.X

    def loss(self, x: np.ndarray, ridge: bool = False) -> Any:
        """(1) at x; with ``ridge`` (2)."""
        return sq(self.y - self.X @ x) + self.lambda1 * abs(x).sum() + (self.lambda2 / 2 * sq(x) if ridge else 0)

    @cached_property
    def lasso(self) -> list[np.ndarray]:
        """The vertices of the set of minimisers of (1)."""
        return minimisers(2 * self.gram, 2 * self.X.T @ self.y, self.lambda1)

    @cached_property
    def net(self) -> np.ndarray:
        """The minimiser of (2)."""
        return minimiser(2 * self.gram + self.lambda2 * identity(self.d), 2 * self.X.T @ self.y, self.lambda1)

    @cached_property
    def update(self) -> np.ndarray:
        """theta_k - theta^{t-1} of (4) with L_k(theta) = ||y - X theta||^2/(2n)."""
        pull = self.X.T @ (self.y - self.X @ self.start) / Fraction(self.n)
        return minimiser(self.gram / Fraction(self.n) + self.lambda2 * identity(self.d), pull, self.lambda1)

    @property
    def apart_sq(self) -> Any:
        """||x_1 - x_2||^2, which is 2 (1 - rho) for features of norm 1."""
        return sq(self.X[:, 0] - self.X[:, 1])

    def printed_constants(self) -> dict[str, Any]:
        return {"n": self.n, "d": self.d, "lambda_1": float(self.lambda1), "lambda_2": float(self.lambda2)}


@BUILDERS.add("regression")
def regression_view(data: dict[str, Any]) -> RegressionView:
    """From X, y, lambda1 > 0, lambda2 >= 0, and where they are not 0: start, trial."""
    X, y = table(data["X"], "X"), vector(data["y"], "y")
    zero = ["0"] * X.shape[1]
    start, trial = vector(data.get("start", zero), "start"), vector(data.get("trial", zero), "trial")
    if len(y) != len(X) or not len(start) == len(trial) == X.shape[1]:
        raise InvalidInput("X (n, d), y (n,), start and trial (d,): their sizes do not agree")
    return RegressionView(X, y, number(data, "lambda1", above=0), number(data, "lambda2", least=0), start, trial)


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


def _one_sign(v: RegressionView) -> Sides:
    return _grouping(v, sq(v.y - v.X @ v.net) * (1 - v.gram[0, 1] ** 2))


def _orthonormal(v: RegressionView, times: Any = 1) -> Sides:
    return eq((2 + v.lambda2) * v.net, soft(2 * v.X.T @ v.y, times * v.lambda1))


SYMBOLS = {
    "X, y": "RegressionView.X, .y", "x_1, x_2": "the first two columns of X", "rho": "<x_1, x_2>, for features of norm 1",
    "lambda_1, lambda_2": "algorithm.l1, algorithm.l2", "theta_hat": "the minimiser of (1) or (2): .lasso, .net",
    "Delta": "theta_k - theta^{t-1} of (4), for L_k(theta) = ||y - X theta||^2/(2n): .update",
}  # fmt: skip
GROWS = r"f(\hat\theta)+\|X(\theta-\hat\theta)\|^2"
ASSUMED = ("lambda_1 > 0",)
BOUND = r"|\hat\theta_1-\hat\theta_2|\le\tfrac2{\lambda_2}"

STATEMENTS = (
    statement(
        "eq-1", "what the Lasso minimises, and which of a group it selects", "section 2, (1) and the sentences after it",
        "regression",
        form(
            "printed", r"f(\hat\theta)\le f(\theta)\ \ \forall\theta,\quad f(\theta)=\|y-X\theta\|_2^2+\lambda_1\|\theta\|_1",
            lambda v: _least(v, v.lasso, False), "holds", ("9/10 of f", lambda v: _least(v, v.lasso, False, Fraction(9, 10))),
            needs=(FEW,),
            proof="definition of theta_hat",
        ),
        form(
            "growth", GROWS + r"\le f(\theta)\ \ \forall\theta",
            lambda v: _growth(v, v.lasso, False), "holds",
            ("11/10 of the square", lambda v: _growth(v, v.lasso, False, Fraction(11, 10))), needs=(FEW,),
            note="by how much any other point is above; two minimisers have one fit X theta_hat",
            proof="docs/fedelasticnet_claims.md#1-and-2",
        ),
        form(
            "does not care which",
            r"x_1=x_2\Rightarrow f(\hat\theta\text{ with }\hat\theta_1+\hat\theta_2\text{ on either one})=f(\hat"
            r"\theta)",
            lambda v: _moved(v, Fraction(1)), "holds", ("of (2)", lambda v: _moved(v, Fraction(1, 2), True)),
            needs=(TWINS, FEW), wording=IN_WORDS,
            note="'does not care which one is selected': for identical features, at the vertices, where the two "
            "have one "
            "sign",
            proof="X theta has the sum of the two only, and two numbers of one sign add up to the "
            "same 1-norm as their sum",
        ),
        form(
            "one of a group", r"x_1=x_2\Rightarrow\min(|\hat\theta_1|,|\hat\theta_2|)=0\text{ for every minimiser}",
            lambda v: _smaller(v, True), "violated", needs=(TWINS, FEW), wording=IN_WORDS,
            note="'tends to select only one': a minimiser that has both is as good, so it is up to the solver",
        ),
        form(
            "some minimiser has one", r"x_1=x_2\Rightarrow\min(|\hat\theta_1|,|\hat\theta_2|)=0\text{ at every vertex}",
            lambda v: _smaller(v, False), "holds", ("shared evenly", lambda v: _smaller(v, True)), needs=(TWINS, FEW),
            proof="two coefficients of opposite signs could both be shortened, and two of one sign "
            "are no vertex: shifting a little from one to the other, either way, leaves f as it "
            "is",
        ),
        form(
            "one of two alike", r"\rho\ge\tfrac9{10}\Rightarrow\min(|\hat\theta_1|,|\hat\theta_2|)=0",
            lambda v: _smaller(v, False),
            "violated", needs=(ALIKE, FEW), wording=IN_WORDS, note="'highly correlated' read as a correlation of 9/10",
        ),
        assumptions=ASSUMED, symbols=SYMBOLS,
    ),
    statement(
        "eq-2", "the minimiser of the elastic net", "section 2, (2) and the sentences after it", "regression",
        form(
            "printed",
            r"f(\hat\theta)\le f(\theta)\ \ \forall\theta,\quad "
            r"f(\theta)=\|y-X\theta\|_2^2+\tfrac{\lambda_2}2\|\theta\|_2^2+\lambda_1\|\theta\|_1",
            lambda v: _least(v, [v.net], True), "holds", ("9/10 of f", lambda v: _least(v, [v.net], True, Fraction(9, 10))),
            needs=(RIDGE,),
            proof="definition of theta_hat",
        ),
        form(
            "growth", GROWS + r"+\tfrac{\lambda_2}2\|\theta-\hat\theta\|^2\le f(\theta)\ \ \forall\theta",
            lambda v: _growth(v, [v.net], True), "holds",
            ("11/10 of it", lambda v: _growth(v, [v.net], True, Fraction(11, 10))),
            ("lambda_2 for lambda_2/2", lambda v: _growth(v, [v.net], True, half=1)), needs=(RIDGE,),
            note="so it is unique. Zou and Hastie have lambda_2' for the lambda_2/2 here; (2) is what they call the "
            "naive elastic net, theirs is 1 + lambda_2' times as large, which selects the same features",
            proof="docs/fedelasticnet_claims.md#1-and-2",
        ),
        form(
            "identical features", r"x_1=x_2\Rightarrow\hat\theta_1=\hat\theta_2", lambda v: eq(v.net[0], v.net[1]), "holds",
            ("a vertex of (1)", lambda v: eq(v.lasso[0][0], v.lasso[0][1])), needs=(TWINS, RIDGE, FEW), wording=IN_WORDS,
            note="'overcomes': the limit of correlation 1, where Lasso does not care. Its proof: swapping the two "
            "leaves "
            "f as it is, and the minimiser is unique",
            proof="note",
        ),
        form(
            "in or out together", r"\rho\ge\tfrac9{10}\Rightarrow(\hat\theta_1\neq0\Leftrightarrow\hat\theta_2\neq0)",
            lambda v: eq(truth(v.net[0] != 0), truth(v.net[1] != 0)), "violated", needs=(ALIKE, RIDGE), wording=IN_WORDS,
            note="'in or out of the model description together' is so for correlation 1; below it only the bound of "
            "grouping-effect is left",
        ),
        form(
            "orthonormal features", r"X^TX=I\Rightarrow(2+\lambda_2)\hat\theta=\mathrm{soft}(2X^Ty,\lambda_1)",
            _orthonormal, "holds",
            ("11/10 lambda_1", lambda v: _orthonormal(v, Fraction(11, 10))), needs=(ORTHONORMAL, RIDGE),
            note="selection by lambda_1 and shrinkage by lambda_2; Zou and Hastie's (|b| - lambda_1/2)/(1 + "
            "lambda_2'), "
            "b = X'y",
            proof="first-order condition of (2), coordinate by coordinate, as X'X = I",
        ),
        assumptions=(*ASSUMED, "lambda_2 > 0"), symbols=SYMBOLS,
    ),
    statement(
        "grouping-effect", "strongly correlated features get nearly equal coefficients",
        "section 2 (Zou and Hastie 2005, Theorem 1, for the lambda_2/2 of (2))", "regression",
        form(
            "Zou and Hastie", BOUND + r"\|y\|_1\sqrt{2(1-\rho)}\quad(\|x_1\|=\|x_2\|=1,\ \hat\theta_1\hat\theta_2>0)",
            lambda v: _grouping(v, abs(v.y).sum() ** 2 * v.apart_sq), "holds",
            ("9/10 of it", lambda v: by_a_tenth(_grouping(v, abs(v.y).sum() ** 2 * v.apart_sq))),
            needs=(RIDGE, UNIT, ONE_SIGN), wording=IN_WORDS,
            note="'encourage the grouping effect'; their (1/lambda_2') sqrt(2 (1 - rho)), with lambda_2' = "
            "lambda_2/2. "
            "Squared here",
            proof="Zou and Hastie 2005, Theorem 1; it follows from [repaired]",
        ),
        form(
            "repaired", BOUND + r"\|y\|_2\,\|x_1-x_2\|_2", lambda v: _grouping(v, sq(v.y) * v.apart_sq), "holds",
            ("9/10 of it", lambda v: by_a_tenth(_grouping(v, sq(v.y) * v.apart_sq))), needs=(RIDGE, PAIR),
            note="any features, and any signs: lambda_2 theta_hat = soft(2 X'r, lambda_1), r = y - X theta_hat, and "
            "the "
            "soft threshold brings no two numbers farther apart; ||r|| <= ||y||, as f(theta_hat) <= f(0)",
            proof="note",
        ),
        form(
            "with the residual", BOUND + r"\|y-X\hat\theta\|_2\,\|x_1-x_2\|_2",
            lambda v: _grouping(v, sq(v.y - v.X @ v.net) * v.apart_sq), "holds",
            ("9/10 of it", lambda v: by_a_tenth(_grouping(v, sq(v.y - v.X @ v.net) * v.apart_sq))), needs=(RIDGE, PAIR),
            proof="note of [repaired], before its last step",
        ),
        form(
            "of one sign",
            BOUND + r"\|y-X\hat\theta\|_2\sqrt{1-\rho^2}\quad(\|x_1\|=\|x_2\|=1,\ \hat\theta_1\hat\theta_2>0)",
            _one_sign, "holds", ("9/10 of it", lambda v: by_a_tenth(_one_sign(v))), needs=(RIDGE, UNIT, ONE_SIGN),
            note="1 - rho^2 <= 2 (1 - rho): of two unit vectors with <x_1, r>, <x_2, r> >= 0 the difference is "
            "largest "
            "where one is 0",
            proof="docs/fedelasticnet_claims.md#1-and-2",
        ),
        assumptions=(*ASSUMED, "lambda_2 > 0"), symbols=SYMBOLS,
    ),
    statement(
        "grouping-of-updates", "what of the grouping effect reaches the local updates",
        "section 3, (4): the elastic net 'repurposed'",
        "regression",
        form(
            "equal coefficients", r"x_1=x_2\Rightarrow(\theta_k^t)_1=(\theta_k^t)_2",
            lambda v: eq((v.start + v.update)[0], (v.start + v.update)[1]), "violated", needs=(TWINS, RIDGE),
            wording=IN_WORDS,
            note="the penalty is on the update: a difference that theta^{t-1} has stays for ever, at every client",
        ),
        form(
            "repaired", r"x_1=x_2\Rightarrow\Delta_1=\Delta_2", lambda v: eq(v.update[0], v.update[1]), "holds",
            ("of the models", lambda v: eq((v.start + v.update)[0], (v.start + v.update)[1])), needs=(TWINS, RIDGE),
            note="identical features get equal updates, in (10) too where the stored gradients began at 0: features "
            "that "
            "start equal stay equal",
            proof="docs/fedelasticnet_claims.md#1-and-2",
        ),
        form(
            "nearly equal updates", r"|\Delta_1-\Delta_2|\le\tfrac1{n\lambda_2}\|x_1-x_2\|\,\|y-X\theta^{t-1}\|",
            _grouped_updates, "holds",
            ("9/10 of it", lambda v: by_a_tenth(_grouped_updates(v))), needs=(RIDGE, PAIR),
            proof="as grouping-effect [repaired]: lambda_2 Delta = soft(X'r/n, lambda_1) with r = y - "
            "X theta_k, and ||r|| <= ||y - X theta^{t-1}||, as 0 is no better an update",
        ),
        assumptions=(*ASSUMED, "lambda_2 > 0", "L_k(theta) = ||y - X theta||^2/(2n)"), symbols=SYMBOLS,
    ),
)  # fmt: skip
