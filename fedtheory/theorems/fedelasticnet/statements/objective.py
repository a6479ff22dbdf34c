"""FedElasticNet, (3) and the second term of (13): the objective, and how large lambda_1^2 d is."""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np

from fedtheory.theorems.fedelasticnet.main_text import world
from fedtheory.theorems.fedelasticnet.main_text.quadratics import BETA_SMOOTH, SOLVED, Quadratics
from fedtheory.theorems.fedelasticnet.notation import PRINTED_THRESHOLD, tight
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.quantities import ElasticConstants
from fedtheory.theorems.fedelasticnet.statements.local_problem import PRACTICE
from fedtheory.theorems.fedelasticnet.world import Data, positive
from fedtheory.theory import Fact, Sides, derived, eq, form, le, number, wrong

EQUAL = Fact("all n_k are equal", lambda q: len(set(q.counts)) == 1)
FAR = Fact("lambda_2 > 27 beta", lambda q: q.lambda2 > PRINTED_THRESHOLD * q.beta)
AWAY = Fact(
    "theta^0 is not the minimiser of R, which has one",
    lambda q: q.has(SOLVED) and (q.theta != q.star).any(),
)
DIAGONAL = Fact(
    "every H_k is diagonal", lambda q: not any((h - np.diag(np.diagonal(h))).any() for h in q.H),
)


@dataclass(kw_only=True)
class ObjectiveView(Quadratics, world.MainTextWorld):
    """R = (1/m) sum_k L_k with L_k(x) = x'H_k x/2 - q_k'x, and clients of n_k samples."""

    kind, size, method, ratio = "objective", 30, "fedelasticnet-dyn", 30.0
    about, asks = "about the objective and the constants", (world.QUADRATIC,)
    example = "--problem diabetes --clients 3"
    by_hand: ClassVar = {
        label: {"H": [[h]], "q": [[q]], "theta": [theta], "lambda1": l1, "lambda2": "28"}
        for label, h, q, theta, l1 in (
            ("nearly isotropic", "1", "0", "1", "1"),
            ("near the optimum", "1", "0", "1/10000", "1/10000"),
            ("a linear loss", "0", "1", "0", "1"),
        )
    }

    units = ("H", "q", "lambda1", "lambda2", "beta")
    demands, shows = (BETA_SMOOTH,), {"m": "m", "d": "d", "second term": "shown"}

    counts: Any = number("m", "n_k", above=0, default=None)
    lambda1: Fraction = number(above=0, default=Fraction(1))
    lambda2: Fraction = number(above=0, default=Fraction(1))
    # every L_k is beta-smooth; where data say none, of losses that do not mix coordinates
    beta: Any = number(above=0, default=None)

    def __post_init__(self) -> None:
        most = max(Fraction(1, 10**9), *np.diagonal(self.H, axis1=1, axis2=2).flat)
        self.fill(counts=0 * self.q[:, 0] + 1, beta=most)

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, Data]:
        """Draw lambda_2 from 28 beta on, often with small lambda_1 and unequal counts."""
        m, d, data = world.clients(rng)
        data["beta"] = world.largest(data["H"])
        data["lambda1"] = positive(rng, 16) / int(rng.choice([1, 100]))
        data["lambda2"] = data["beta"] * int(rng.choice([28, 40, 400]))
        if rng.random() < 0.5:
            data["counts"] = [world.whole(rng, 1, 9) for _ in range(m)]
        if rng.random() < 0.3:
            data["lambda1"] = Fraction(1, 10 ** int(rng.choice([4, 6])))
        return f"m={m} d={d}", data

    @classmethod
    def on_problem(cls, statement: Any, case: Any) -> Data:
        """Take R, the samples' counts, and the start."""
        counts = [Fraction(int(n)) for n in case.problem.sample_counts]
        beta = world.above(float(case.problem.beta_k.max()))
        return {"counts": counts, "beta": beta, **world.losses_of(case)}

    def weighted(self, values: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """sum_k n_k/n of the rows."""
        return (values * (counts / counts.sum())[:, None]).sum(axis=0)

    @property
    def gap(self) -> Any:
        """R(theta^0) - R(theta_*)."""
        off = self.theta - self.star
        return (off * (self.H.sum(axis=0) @ off)).sum() / (2 * Fraction(self.m))

    @property
    def floor(self) -> Any:
        """(kappa'/kappa_0) lambda_1^2 d, the second term of (13)."""
        a, _, kappa_0 = ElasticConstants(self.m, self.m, self.beta, self.lambda1, self.lambda2).printed
        return a / 2 * self.lambda1**2 * self.d / kappa_0

    @property
    def coefficient(self) -> Any:
        """2 beta kappa'/kappa_0, a function of beta/lambda_2 alone."""
        b = self.beta / self.lambda2
        return 5 * b * (1 + b) / (1 - 25 * b - 50 * b * b)

    shown = derived(lambda v: v.floor if v.has(FAR) else None)


def _stationary(v: ObjectiveView, counts: np.ndarray) -> Sides:
    """The gradient at theta_* of what Algorithm 1 weighs, in every coordinate."""
    star: Any = v.star  # there is one where the form is judged: it needs SOLVED
    return eq(v.weighted(v.gradients([star] * v.m), counts), 0 * v.theta)


def _tilted(v: ObjectiveView) -> np.ndarray:
    out = v.counts.copy()
    out[0] = 2 * out[0]
    return out


def _exists(v: ObjectiveView) -> Sides:
    """Of coordinates that do not mix: where R is not curved, it must not slope."""
    flat = (np.diagonal(v.H.sum(axis=0)) == 0) * Fraction(1)
    return le(flat * abs(v.q.sum(axis=0)) / Fraction(v.m), 0 * v.theta)


def _against_gap(v: ObjectiveView) -> Sides:
    slope = v.mean(v.slopes)
    return le(v.floor * (slope * slope).sum(), v.coefficient * v.lambda1**2 * v.d * v.gap)


def _units(v: ObjectiveView, and_l1: bool = True) -> Sides:
    c = Fraction(7, 2)
    return eq(v.scaled(c, and_l1).floor, c * v.floor)


SYMBOLS = {
    "R": "the plain mean of L_k(x) = x'H_k x/2 - q_k'x: ObjectiveView.H, .q", "n_k": ".counts", "theta_*": ".star",
    "kappa', kappa_0": "ElasticConstants.printed: kappa P/(2 m) and kappa_0", "b": "beta/lambda_2",
}  # fmt: skip
SECOND = r"\tfrac{\kappa'}{\kappa_0}\lambda_1^2d"
statement = partial(
    FILE.statement, over=ObjectiveView, symbols=SYMBOLS, assumptions=("convex quadratic losses",)
)


@statement("eq-3", source="section 3, (3); Algorithm 1, line 7")
def eq_3(q):
    """the objective, and the one that Algorithm 1's weights have"""
    yield form(
        "a minimiser exists", lambda: _exists(q), r"\min_x\|\nabla R(x)\|_\infty=0", fails=True,
        needs=(DIAGONAL,), wording="in words",
        note="'the objective is to find arg min': convex and smooth losses need not have one, a "
        "linear loss has none",
    )
    yield form(
        "Algorithm 1", lambda: _stationary(q, q.counts),
        r"\sum_k\tfrac{n_k}n\nabla L_k(\theta_*)=0,\quad\theta_*=\arg\min R", fails=True,
        needs=(SOLVED,), wording="algorithm",
        note="(3) takes the plain mean, line 7 weighs with n_k/n: what these weights lead to has "
        "its optimum elsewhere",
    )
    yield form(
        "equal counts", lambda: _stationary(q, q.counts),
        r"\sum_k\tfrac{n_k}n\nabla L_k(\theta_*)=0\text{ if }n_k=n_1",
        wrong("client 0 twice", lambda: _stationary(q, _tilted(q))), holds=True,
        needs=(SOLVED, EQUAL),
        proof="the gradient of R at its minimiser is 0, and the weights are 1/m",
        note="Algorithms 2 and 3 take plain means of cohorts, as (3) asks",
    )


@statement("second-term", source="section 3.3, after Theorem 3.1; Appendix B.3")
def second_term(q):
    """the second term of (13) against what (13) bounds"""
    yield form(
        "a hundredth of the gap", lambda: le(q.floor, q.gap / 100),
        SECOND + r"\le\tfrac1{100}(R(\theta^0)-R(\theta_*))", fails=True,
        needs=(FAR, AWAY, PRACTICE), wording="in words",
        note="'a negligible constant in the range of hyperparameters of our interest', lambda_1 = "
        "10^-4 or 10^-6, read as a hundredth of the suboptimality at the start: where that is "
        "small, (13) says nothing",
    )
    yield tight(
        "repaired", lambda: _against_gap(q),
        SECOND + r"\le c\,\tfrac{\lambda_1^2d}{\|\nabla "
        r"R(\theta^0)\|^2}(R(\theta^0)-R(\theta_*)),\quad c=\tfrac{5b(1+b)}{1-25b-50b^2}",
        less="9/10 of it", needs=(FAR, AWAY),
        proof="docs/fedelasticnet_claims.md#what-is-called-negligible",
        note="a smooth R falls by at least ||grad R||^2/(2 beta). So the term is small where "
        "lambda_1 is small against the root mean square entry of grad R(theta^0), times sqrt(c): "
        "c is 4.3 at lambda_2 = 28 beta, and about 5 beta/lambda_2 far above",
    )
    yield form(
        "units", lambda: _units(q),
        r"\text{for }cL_k,c\lambda_1,c\lambda_2\text{ the term is }c\text{ times as large}",
        wrong("lambda_1 left as it is", lambda: _units(q, False)), holds=True, needs=(FAR,),
        proof="kappa'/kappa_0 is a function of beta/lambda_2 over beta",
        note="judged with c = 7/2. R(theta^0) - R(theta_*) is c times as large, too: no lambda_1 "
        "is negligible by itself",
    )
