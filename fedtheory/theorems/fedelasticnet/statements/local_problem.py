"""FedElasticNet, (4), (8), (9): the local problem, its solution, and what lambda_1 does to it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import vector
from fedtheory.theorems.fedelasticnet.main_text.notation import BUILDERS, IN_WORDS, by_a_tenth, statement, truth
from fedtheory.theorems.fedelasticnet.main_text.quadratics import (
    identity,
    matrix,
    minimiser,
    number,
    semidefinite,
    soft,
    sq,
)
from fedtheory.theory.judge.setting import ClosedView
from fedtheory.theory.judge.statement import Sides, eq, form, le

__all__ = ["STATEMENTS", "LocalView", "local_view"]

CONVEX, PLAIN, DYNAMIC = "L_k is convex", "g_k = 0, as in (4)", "lambda_1 = 0, as in (8)"
WITH_L1, DIAGONAL, PRACTICE = "lambda_1 > 0", "H is diagonal", "lambda_1 = 10^-4 or 10^-6"
LARGE, STANDS = "H is diagonal, and |H_ii| <= beta < lambda_2", "theta^{t-1} is a strict local minimiser of F"


@dataclass
class LocalView(ClosedView):
    """One client's local problem, L(y) - <g, y> + lambda_2/2 ||y - theta||^2 + lambda_1 ||y - theta||_1.

    Attributes
    ----------
    H, q : (d, d), (d,), of L(y) = y'Hy/2 - q'y; H may have negative eigenvalues if it is diagonal
    g, theta : the stored gradient of (8) and (10), 0 in (4); the server's model, (d,)
    lambda1, lambda2 : at least 0, above 0
    trial : any point, (d,), that the minimiser is compared with
    """

    H: np.ndarray
    q: np.ndarray
    g: np.ndarray
    theta: np.ndarray
    lambda1: Fraction
    lambda2: Fraction
    trial: np.ndarray

    @cached_property
    def facts(self) -> frozenset[str]:  # type: ignore[override]
        """The facts that hold of this instance."""
        diagonal = not (self.H - np.diag(np.diagonal(self.H))).any()
        facts = {CONVEX} if semidefinite(self.H) else set()
        facts |= {PLAIN} if not self.g.any() else set()
        facts |= {DYNAMIC} if not self.lambda1 else {WITH_L1}
        facts |= {PRACTICE} if self.lambda1 in (Fraction(1, 10**4), Fraction(1, 10**6)) else set()
        facts |= {DIAGONAL} if diagonal else set()
        facts |= {LARGE} if diagonal and self.lambda2 > self.beta else set()
        pull: Any = abs(self.pull)
        facts |= {STANDS} if (pull < self.lambda1).all() else set()
        return frozenset(facts)

    @property
    def d(self) -> int:
        return len(self.theta)

    @property
    def beta(self) -> Any:
        """The least beta of a diagonal H."""
        return abs(np.diagonal(self.H)).max()

    def gradient(self, y: np.ndarray) -> np.ndarray:
        """grad L(y)."""
        return self.H @ y - self.q

    def objective(self, y: np.ndarray) -> Any:
        """The function that the client minimises, at y."""
        away = y - self.theta
        loss = (y * (self.H @ y)).sum() / 2 - ((self.q + self.g) * y).sum()
        return loss + self.lambda2 / 2 * sq(away) + self.lambda1 * abs(away).sum()

    @cached_property
    def pull(self) -> np.ndarray:
        """g - grad L(theta): what would move the client from the server's model."""
        return self.g - self.gradient(self.theta)

    @cached_property
    def delta(self) -> np.ndarray:
        """theta_k - theta."""
        return minimiser(self.H + self.lambda2 * identity(self.d), self.pull, self.lambda1)

    @property
    def local(self) -> np.ndarray:
        return self.theta + self.delta

    @cached_property
    def v(self) -> np.ndarray:
        """g - grad L(theta_k), which is lambda_2 delta + lambda_1 s."""
        return self.g - self.gradient(self.local)

    @cached_property
    def without_l1(self) -> LocalView:
        """The same with lambda_1 = 0."""
        return replace(self, lambda1=Fraction(0))

    def scaled(self, c: Any, and_l1: bool = True) -> LocalView:
        """The loss, the stored gradient, lambda_2 and lambda_1 times c."""
        return replace(
            self, H=c * self.H, q=c * self.q, g=c * self.g, lambda1=c * self.lambda1 if and_l1 else self.lambda1,
            lambda2=c * self.lambda2,
        )  # fmt: skip

    def printed_constants(self) -> dict[str, Any]:
        return {"d": self.d, "lambda_1": float(self.lambda1), "lambda_2": float(self.lambda2)}


@BUILDERS.add("local")
def local_view(data: dict[str, Any]) -> LocalView:
    """From H (or its diagonal), q, theta, lambda1 >= 0, lambda2 > 0, and where they are not 0: g, trial."""
    theta = vector(data["theta"], "theta")
    zero = ["0"] * len(theta)
    q, g, trial = (vector(data.get(name, zero), name) for name in ("q", "g", "trial"))
    if not len(q) == len(g) == len(trial) == len(theta):
        raise InvalidInput("q, g, theta and trial must have one entry a coordinate")
    H = matrix(data["H"], len(theta), "H")
    if (H - np.diag(np.diagonal(H))).any() and not semidefinite(H):
        raise InvalidInput(f"H = {data['H']}: where the loss is not convex, give the diagonal of H")
    return LocalView(H, q, g, theta, number(data, "lambda1", least=0), number(data, "lambda2", above=0), trial)


def _least(v: LocalView, at: np.ndarray | None = None) -> Sides:
    """F(theta_k) <= F(trial)."""
    return le(v.objective(v.local if at is None else at), v.objective(v.trial))


def _growth(v: LocalView, rate: Any) -> Sides:
    """F(theta_k) + rate/2 ||trial - theta_k||^2 <= F(trial)."""
    return le(v.objective(v.local) + rate / 2 * sq(v.trial - v.local), v.objective(v.trial))


def _nonzeros(delta: np.ndarray) -> Fraction:
    return Fraction(int((delta != 0).sum()))


def _threshold(v: LocalView, share: Any = 1) -> Sides:
    return eq(v.lambda2 * v.delta, soft(v.v, share * v.lambda1))


def _fedprox_and_no_less(v: LocalView, more: int = 0) -> Sides:
    return le(_nonzeros(v.delta) + more, _nonzeros(v.without_l1.delta))


def _count(v: LocalView) -> Sides:
    return le(v.lambda1 * _nonzeros(v.delta) + v.lambda2 * abs(v.delta).sum(), abs(v.v).sum())


def _stays(v: LocalView, share: Any = 1) -> Sides:
    return eq(truth((v.delta == 0).all()), truth((abs(v.pull) <= share * v.lambda1).all()))


def _impact(v: LocalView) -> Sides:
    return le(v.lambda2**2 * sq(v.delta - v.without_l1.delta), v.d * v.lambda1**2)


def _condition(v: LocalView, sign_of_delta: int = 1) -> Sides:
    return eq(v.gradient(v.local) - v.g + sign_of_delta * v.lambda2 * v.delta, 0 * v.g)


def _near_9(v: LocalView) -> Sides:
    return le(abs(v.gradient(v.local) - v.g + v.lambda2 * v.delta), v.lambda1 + 0 * v.g)


def _units(v: LocalView, and_l1: bool = True) -> Sides:
    return eq(v.scaled(Fraction(7, 2), and_l1).delta, v.delta)


SYMBOLS = {
    "L_k(y)": "y'Hy/2 - q'y: LocalView.H, .q", "theta": "the server's model theta^{t-1}: LocalView.theta",
    "F": ".objective",
    "g_k": "grad L_k(theta_k^{t-1}) as stored, 0 in (4): LocalView.g", "delta": "theta_k^t - theta^{t-1}: .delta",
    "delta^0": "the same with lambda_1 = 0: .without_l1.delta", "nnz": "the number of coordinates that are not 0",
}  # fmt: skip
F_4 = r",\quad F(y)=L_k(y)+\tfrac{\lambda_2}2\|y-\theta\|^2+\lambda_1\|y-\theta\|_1"
F_8 = r",\quad F(y)=L_k(y)-\langle g_k,y\rangle+\tfrac{\lambda_2}2\|y-\theta\|^2"
QUADRATIC = ("quadratic losses; the proofs in the notes are for any convex ones", "lambda_2 > 0")
TENTH, MORE = Fraction(9, 10), Fraction(11, 10)

STATEMENTS = (
    statement(
        "eq-4", "the local problem of FedElasticNet has one solution, a soft threshold", "section 3, (4)", "local",
        form(
            "printed", r"F(\theta_k^t)\le F(y)\ \ \forall y" + F_4, _least, "holds",
            ("without l1", lambda v: le(v.objective(v.without_l1.local), v.objective(v.local))),
            needs=(CONVEX, PLAIN, WITH_L1),
            note="theta_k^t = argmin F, for convex L_k",
            proof="definition of theta_k^t",
        ),
        form(
            "unique", r"F(\theta_k^t)+\tfrac{\lambda_2}2\|y-\theta_k^t\|^2\le F(y)\ \ \forall y",
            lambda v: _growth(v, v.lambda2), "holds",
            ("11/10 lambda_2", lambda v: _growth(v, MORE * v.lambda2)), needs=(CONVEX, PLAIN, WITH_L1),
            note="F is lambda_2-strongly convex",
            proof="note",
        ),
        form(
            "any smooth loss", r"F(\theta)\le F(y)\ \ \forall y,\quad\theta\text{ a local minimiser of }F",
            lambda v: _least(v, v.theta),
            "violated", needs=(STANDS, PLAIN, WITH_L1),
            note="section 3 asks nothing of L_k, and the experiments have networks: where lambda_2 is below the "
            "curvature F need not be bounded below, and then (4) has no solution. L = -y^2/2, lambda_2 = 1/2 is such a "
            "case",
        ),
        form(
            "smooth, lambda_2 > beta", r"F(\theta_k^t)+\tfrac{\lambda_2-\beta}2\|y-\theta_k^t\|^2\le F(y)\ \ \forall y",
            lambda v: _growth(v, v.lambda2 - v.beta), "holds",
            ("11/10 of it", lambda v: _growth(v, MORE * (v.lambda2 - v.beta))),
            needs=(LARGE, PLAIN, WITH_L1), note="without convexity: F is convex once beta/2 ||y||^2 is added to L_k",
            proof="note",
        ),
        form(
            "soft threshold", r"\lambda_2(\theta_k^t-\theta^{t-1})=\mathrm{soft}(g_k-\nabla L_k(\theta_k^t),\lambda_1)",
            _threshold, "holds",
            ("9/10 lambda_1", lambda v: _threshold(v, TENTH)), needs=(CONVEX, WITH_L1),
            note="(4) where g_k = 0, and (10); it is (11) with the subgradient s",
            proof="first-order condition of (10), and of (4) with g_k = 0: g_k - grad L_k(theta_k) - "
            "lambda_2 delta is lambda_1 times a subgradient of the 1-norm at delta",
        ),
        assumptions=QUADRATIC, symbols=SYMBOLS,
    ),
    statement(
        "eq-8", "FedDyn's local problem has one solution", "section 3.3, (8)", "local",
        form(
            "printed", r"F(\theta_k^t)\le F(y)\ \ \forall y" + F_8, _least, "holds",
            ("from the server's model only", lambda v: le(v.objective(v.theta), v.objective(v.local))),
            needs=(CONVEX, DYNAMIC),
            proof="definition of theta_k^t",
        ),
        form(
            "unique", r"F(\theta_k^t)+\tfrac{\lambda_2}2\|y-\theta_k^t\|^2\le F(y)\ \ \forall y",
            lambda v: _growth(v, v.lambda2), "holds",
            ("11/10 lambda_2", lambda v: _growth(v, MORE * v.lambda2)), needs=(CONVEX, DYNAMIC),
            proof="F is lambda_2-strongly convex",
        ),
        assumptions=QUADRATIC, symbols=SYMBOLS,
    ),
    statement(
        "eq-9", "first-order condition of FedDyn, and what it says of the server's model",
        "section 3.3, (9) and the sentence after it, which stands after (11) again",
        "local",
        form(
            "printed", r"\nabla L_k(\theta_k^t)-g_k+\lambda_2(\theta_k^t-\theta^{t-1})=0", _condition, "holds",
            ("wrong sign", lambda v: _condition(v, -1)), needs=(CONVEX, DYNAMIC),
            note="so g_k - lambda_2 (theta_k - theta), which FedDyn stores, is the gradient at theta_k",
            proof="first-order condition of (8)",
        ),
        form(
            "consistent, in every round", r"\theta_k^t=\theta^{t-1}", lambda v: eq(v.local, v.theta), "violated",
            needs=(CONVEX,),
            wording=IN_WORDS,
            note="'the stationary points of the local objective function are consistent with the server model', of (8) and again "
            "of (10): the local solution is not the server's model before the method is at rest",
        ),
        form(
            "consistent, when",
            r"\theta_k^t=\theta^{t-1}\Leftrightarrow\|g_k-\nabla L_k(\theta^{t-1})\|_\infty\le\lambda_1", _stays, "holds",
            ("never", lambda v: eq(truth((v.delta == 0).all()), 0)), needs=(CONVEX,),
            note="in (8), lambda_1 = 0, it is so when the stored gradient is the gradient at theta^{t-1}; in (10) within "
            "lambda_1 of it",
            proof="docs/fedelasticnet_claims.md#4-8-9-and-sparsity",
        ),
        assumptions=QUADRATIC, symbols=SYMBOLS,
    ),
    statement(
        "sparsification", "the l1 norm sparsifies the local update", "section 3, after (4); sections 3.1 to 3.3", "local",
        form(
            "never more", r"\mathrm{nnz}(\delta)\le\mathrm{nnz}(\delta^0)", _fedprox_and_no_less, "violated",
            needs=(CONVEX, WITH_L1), wording=IN_WORDS,
            note="'attempts to sparsify': where coordinates mix, a coordinate that happens to be 0 without l1 need not "
            "stay so",
        ),
        form(
            "coordinates that do not mix", r"\mathrm{nnz}(\delta)\le\mathrm{nnz}(\delta^0)", _fedprox_and_no_less, "holds",
            ("one fewer", lambda v: _fedprox_and_no_less(v, 1)), needs=(CONVEX, DIAGONAL, WITH_L1),
            proof="delta_i = soft(p_i, lambda_1)/(H_ii + lambda_2) with the pull p = g - grad "
            "L(theta), which is 0 wherever p_i is",
        ),
        form(
            "count", r"\lambda_1\mathrm{nnz}(\delta)+\lambda_2\|\delta\|_1\le\|g_k-\nabla L_k(\theta_k^t)\|_1", _count,
            "holds",
            ("9/10 of it", lambda v: by_a_tenth(_count(v))), needs=(CONVEX, WITH_L1),
            note="the 1-norm of (11) with s; so nnz <= ||g_k - grad L_k(theta_k)||_1/lambda_1",
            proof="note",
        ),
        form(
            "nothing moves", r"\delta=0\Leftrightarrow\|g_k-\nabla L_k(\theta^{t-1})\|_\infty\le\lambda_1", _stays, "holds",
            ("9/10 lambda_1", lambda v: _stays(v, TENTH)), ("11/10 lambda_1", lambda v: _stays(v, MORE)),
            needs=(CONVEX, WITH_L1),
            proof="docs/fedelasticnet_claims.md#4-8-9-and-sparsity",
        ),
        assumptions=QUADRATIC, symbols=SYMBOLS,
    ),
    statement(
        "impact-of-lambda-1", "how much the lambda_1 of (12) changes a local update", "section 3.3, after (12)", "local",
        form(
            "a hundredth", r"\|\delta-\delta^0\|\le\tfrac1{100}\|\delta^0\|",
            lambda v: le(10**4 * sq(v.delta - v.without_l1.delta), sq(v.without_l1.delta)), "violated",
            needs=(CONVEX, PRACTICE), wording=IN_WORDS,
            note="'would be negligible' for lambda_1 = 10^-4 or 10^-6, read as a hundredth; a gradient below lambda_1 is "
            "lost whole, and where a run settles g_k - grad L_k may be as small as one likes",
        ),
        form(
            "repaired", r"\|\delta-\delta^0\|\le\tfrac{\lambda_1}{\lambda_2}\sqrt d", _impact, "holds",
            ("9/10 of it", lambda v: by_a_tenth(_impact(v))), needs=(CONVEX, WITH_L1),
            note="squared here. The two conditions differ by lambda_1 s, and H + lambda_2 moves no less than lambda_2. "
            "With Table 5's lambda_2 = 10^-2, lambda_1 = 10^-4 that is 10^-2 a coordinate",
            proof="note",
        ),
        form(
            "how far from (9)", r"\|\nabla L_k(\theta_k^t)-g_k+\lambda_2(\theta_k^t-\theta^{t-1})\|_\infty\le\lambda_1",
            _near_9, "holds",
            ("9/10 of it", lambda v: by_a_tenth(_near_9(v))), needs=(CONVEX, WITH_L1),
            proof="(11): the left side is the sup norm of lambda_1 s, |s_i| <= 1",
        ),
        form(
            "units", r"\delta(cL_k,cg_k,c\lambda_1,c\lambda_2)=\delta(L_k,g_k,\lambda_1,\lambda_2)", _units, "holds",
            ("lambda_1 left as it is", lambda v: _units(v, False)), needs=(CONVEX, WITH_L1),
            note="judged with c = 7/2: lambda_1 has the units of a gradient, so no number is small by itself",
            proof="the local objective is c times as large, and has the same minimiser",
        ),
        assumptions=QUADRATIC, symbols=SYMBOLS,
    ),
)  # fmt: skip
