"""FedElasticNet, the main text on the state of FedDyn and Algorithm 3: one round of all clients.

The rule 'any' is FedDyn, lambda_1 = 0, where both rules are one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import table, vector
from fedtheory.theorems.fedelasticnet.main_text.notation import BUILDERS, IN_WORDS, by_a_tenth, statement
from fedtheory.theorems.fedelasticnet.main_text.quadratics import (
    Quadratics,
    identity,
    matrices,
    minimiser,
    number,
    semidefinite,
    sign,
    sq,
)
from fedtheory.theorems.fedelasticnet.notation import BOTH_FAIL, BOTH_HOLD
from fedtheory.theory.judge.setting import ClosedView
from fedtheory.theory.judge.statement import Sides, eq, form, le

__all__ = ["STATEMENTS", "EverybodyView", "everybody_view"]

AT_REST, SOLVED = "the round leaves theta and every g_k as they are", "R has one minimiser"


@dataclass
class EverybodyView(Quadratics, ClosedView):
    """One round of Algorithm 3 in which all clients take part, from any state, with L_k(x) = x'H_k x/2 - q_k'x.

    Attributes
    ----------
    H, q, stored : (m, d, d), (m, d), (m, d)
        ``stored`` are the g_k before the round.
    theta : theta^{t-1}, (d,)
    beta, mu : every L_k is beta-smooth, and R is mu-strongly convex
    rule : 'sign', 'true-gradient', or 'any' where lambda_1 = 0
    """

    H: np.ndarray
    q: np.ndarray
    stored: np.ndarray
    theta: np.ndarray
    lambda1: Fraction
    lambda2: Fraction
    beta: Fraction
    mu: Fraction
    rule: str

    @cached_property
    def facts(self) -> frozenset[str]:  # type: ignore[override]
        """The facts that hold of this instance."""
        facts = {SOLVED} if self.star is not None else set()
        still = not (self.stored_next != self.stored).any() and not (self.theta_next != self.theta).any()
        return frozenset(facts | ({AT_REST} if still else set()))

    def mean(self, values: np.ndarray) -> Any:
        """(1/m) sum_k."""
        return values.sum(axis=0) / Fraction(self.m)

    @cached_property
    def h(self) -> np.ndarray:
        return self.mean(self.stored)

    @property
    def gamma(self) -> np.ndarray:
        """theta^{t-1} + h^{t-1}/lambda_2."""
        return self.theta + self.h / self.lambda2

    @cached_property
    def slopes(self) -> np.ndarray:
        """grad L_k(theta^{t-1}), (m, d)."""
        return self.gradients([self.theta] * self.m)

    @cached_property
    def delta(self) -> np.ndarray:
        """theta_k^t - theta^{t-1}, (m, d)."""
        pulls = self.stored - self.slopes
        return np.stack([minimiser(h + self.lambda2 * identity(self.d), p, self.lambda1) for h,
        p in zip(self.H, pulls, strict=True)])

    @cached_property
    def local(self) -> np.ndarray:
        return self.theta + self.delta

    @cached_property
    def grad_local(self) -> np.ndarray:
        """grad L_k(theta_k^t)."""
        return self.gradients(self.local)

    @property
    def lambda1_s(self) -> np.ndarray:
        """lambda_1 s_k with the exact subgradient."""
        return self.stored - self.grad_local - self.lambda2 * self.delta

    @cached_property
    def stored_next(self) -> np.ndarray:
        """Line 5 of Algorithm 3, or the true gradient."""
        if self.rule == "sign":
            return self.stored - self.lambda2 * self.delta - self.lambda1 * sign(self.delta)
        return self.grad_local

    @property
    def theta_next(self) -> np.ndarray:
        return self.mean(self.local) - self.mean(self.stored_next) / self.lambda2

    @property
    def C_next(self) -> Any:
        """C_t: mean_k ||stored - grad L_k(theta_*)||^2."""
        return self.mean(sq(self.stored_next - self.gradients([self.star] * self.m)))

    @property
    def epsilon(self) -> Any:
        """mean_k ||theta_k^t - gamma^{t-1}||^2."""
        return self.mean(sq(self.local - self.gamma))

    @property
    def off(self) -> Any:
        """mean_k ||theta_k^t - theta_*||^2."""
        return self.mean(sq(self.local - self.star))

    @property
    def zeros(self) -> Any:
        """Mean over the clients of the number of zero coordinates of delta_k."""
        return Fraction(int((self.delta == 0).sum()), self.m)

    def printed_constants(self) -> dict[str, Any]:
        return {"m": self.m, "d": self.d, "lambda_1": float(self.lambda1), "lambda_2": float(self.lambda2)}


@BUILDERS.add("everybody")
def everybody_view(data: dict[str, Any]) -> EverybodyView:
    """From H, q, theta, lambda1 >= 0, lambda2 > 0, rule, and where they are not 0: stored; beta and mu where H is not diagonal."""
    theta, q = vector(data["theta"], "theta"), table(data["q"], "q")
    H = matrices(data["H"], len(theta))
    stored = table(data["stored"], "stored") if "stored" in data else 0 * q
    if not H.shape[:2] == q.shape == stored.shape:
        raise InvalidInput("H, q and stored must name the same clients, in the dimension of theta")
    lambda1, lambda2 = number(data, "lambda1", least=0), number(data, "lambda2", above=0)
    rule = data.get("rule", "any")
    if rule not in ("sign", "true-gradient", "any") or (rule == "any") != (lambda1 == 0):
        raise InvalidInput(f"rule = {rule!r}: use 'sign' or 'true-gradient', and 'any' where lambda_1 = 0")
    one, mean = identity(len(theta)), H.sum(axis=0) / Fraction(len(H))
    beta = number(data, "beta", above=0) if "beta" in data else max(h[i, i] for h in H for i in range(len(theta)))
    mu = number(data, "mu", least=0) if "mu" in data else min(np.diagonal(mean))
    if not all(semidefinite(beta * one - h) for h in H) or not semidefinite(mean - mu * one):
        raise InvalidInput(f"beta = {float(beta):.6g}, mu = {float(mu):.6g}: some L_k is not beta-smooth, or R not mu-strongly convex")
    return EverybodyView(H, q, stored, theta, lambda1, lambda2, beta, mu, rule)


def _stationary(v: EverybodyView) -> Sides:
    return eq(v.mean(v.slopes), 0 * v.theta)


def _each_stationary(v: EverybodyView) -> Sides:
    return eq(v.slopes, 0 * v.slopes)


def _near(v: EverybodyView) -> Sides:
    return le(abs(v.mean(v.slopes)), v.lambda1 + 0 * v.theta)


def _no_drift(v: EverybodyView) -> Sides:
    return eq(v.delta, 0 * v.delta)


def _signs(v: EverybodyView, exact: bool = True, ridge: Any = 1) -> Sides:
    signs = v.lambda1_s if exact else v.lambda1 * sign(v.delta)
    return eq(v.mean(signs), v.h - v.mean(v.grad_local) - ridge * v.lambda2 * v.mean(v.delta))


def _distance(v: EverybodyView) -> Sides:
    return le(v.mu**2 * sq(v.gamma - v.star), v.d * v.lambda1**2)


def _C(v: EverybodyView) -> Sides:
    return le(v.C_next, v.beta**2 * v.off)


def _C_literal(v: EverybodyView) -> Sides:
    return le(v.mean(sq(v.grad_local - v.gradients([v.star] * v.m))), v.beta**2 * v.off)


def _C_with_zeros(v: EverybodyView) -> Sides:
    return le(v.C_next, 2 * v.beta**2 * v.off, 2 * v.lambda1**2 * v.zeros)


def _epsilon(v: EverybodyView) -> Sides:
    return le(v.epsilon, 2 * v.off, 2 * sq(v.gamma - v.star))


def _known(v: EverybodyView, and_signs: bool = True) -> Sides:
    sent = v.lambda2 * v.delta + (v.lambda1 * sign(v.delta) if and_signs else 0 * v.delta)
    return eq(v.mean(v.stored_next), v.h - v.mean(sent))


SYMBOLS = {
    "L_k(x)": "x'H_k x/2 - q_k'x: EverybodyView.H, .q", "g_k, h, gamma": "EverybodyView.stored, .h, .gamma",
    "delta_k": "theta_k^t - theta^{t-1}: .delta", "s_k": "the subgradient with which (11) is true: .lambda1_s",
    "C_t, epsilon_t": ".C_next, .epsilon", "z": ".zeros, a mean over the clients", "mu": "R is mu-strongly convex",
}  # fmt: skip
ASSUMED = ("convex quadratic losses; the proofs are for any convex smooth ones", "all clients take part", "lambda_2 > 0")
SIGN_FAILS = {"sign": "violated", "true-gradient": "holds"}
ALL_HOLD = {**BOTH_HOLD, "any": "holds"}
REST = r"\text{at rest: }"
TENTH = "9/10 of it"

STATEMENTS = (
    statement(
        "consistency", "stationary points of the local objectives are consistent with the server's model",
        "section 3.3, after (9) and after (11)", "everybody",
        form(
            "stationary for R", REST + r"\nabla R(\theta)=0", _stationary, SIGN_FAILS, ("each client's gradient", _each_stationary),
            needs=(AT_REST,), wording=IN_WORDS,
            note="'consistent with the server model as in (9)'. Under the sign rule delta_k = 0 says |g_k - grad "
            "L_k| <= "
            "lambda_1 only; the true-gradient rule stores the gradient, and then FedDyn's proof is right",
            proof="docs/fedelasticnet_claims.md#consistent-with-the-server-model",
        ),
        form(
            "FedDyn", REST + r"\nabla R(\theta)=0\quad(\lambda_1=0)", _stationary, {"any": "holds"},
            ("each client's gradient", _each_stationary), needs=(AT_REST,), wording=IN_WORDS,
            note="at rest the stored gradient stays, so lambda_2 delta_k = 0; then theta = theta - h/lambda_2, so h "
            "= 0; "
            "and with delta_k = 0 (9) says grad L_k(theta) = g_k, whose mean is h",
            proof="note",
        ),
        form(
            "repaired", REST + r"\|\nabla R(\theta)\|_\infty\le\lambda_1", _near, {"sign": "holds"},
            (TENTH, lambda v: by_a_tenth(_near(v))),
            needs=(AT_REST,),
            note="the mean of g_k - grad L_k(theta), and h = 0; attained by one client that starts at slope lambda_1",
            proof="docs/fedelasticnet_claims.md#consistent-with-the-server-model",
        ),
        form(
            "no drift at rest", REST + r"\theta_k^t=\theta\text{ for every client}", _no_drift, ALL_HOLD,
            ("the clients' own optima", _each_stationary), needs=(AT_REST,), wording=IN_WORDS,
            note="the models do agree: under the sign rule lambda_2 delta + lambda_1 sign(delta) = 0, so delta = 0; else the pull on "
            "each client is 0",
            proof="note",
        ),
        assumptions=ASSUMED, symbols=SYMBOLS,
    ),
    statement(
        "average-of-signs", "the average of the sign vectors is negligible", "section 3.3, after Theorem 3.1; Appendix B.3",
        "everybody",
        form(
            "a tenth", r"\Big\|\tfrac1m\sum_k\mathrm{sign}(\delta_k)\Big\|_\infty\le\tfrac1{10}",
            lambda v: le(abs(v.mean(sign(v.delta))), Fraction(1, 10) + 0 * v.theta), BOTH_FAIL, wording=IN_WORDS,
            note="'a small value', read as 1/10. What the signs are is decided by the data, not by coins: clients "
            "with "
            "the same data agree wherever they move",
        ),
        form(
            "repaired",
            r"\tfrac{\lambda_1}m\sum_ks_k=h^{t-1}-\tfrac1m\sum_k\nabla L_k(\theta_k^t)-\tfrac{\lambda_2}m\sum_k"
            r"\delta_k",
            _signs, BOTH_HOLD, ("sign(delta) for s", lambda v: _signs(v, exact=False)),
            ("9/10 lambda_2", lambda v: _signs(v, ridge=Fraction(9, 10))),
            note="(11) averaged: the mean is what the stored gradients and the local models make it",
            proof="note",
        ),
        assumptions=ASSUMED, symbols=SYMBOLS,
    ),
    statement(
        "deviation", "gamma comes near theta_* as training proceeds", "section 3.3, after Theorem 3.1; Appendix B.3",
        "everybody",
        form(
            "at the optimum", REST + r"\gamma=\theta_*", lambda v: eq(v.gamma, v.star), SIGN_FAILS,
            ("gamma = 0", lambda v: eq(v.gamma, 0 * v.gamma)), needs=(AT_REST, SOLVED), wording=IN_WORDS,
            note="'tends to be small as training proceeds': a run of the sign rule that stands still stays where it "
            "is. "
            "Under the true-gradient rule rest is at the optimum; whether a run comes to rest is not said by this",
            proof="consistency [stationary for R], with h = 0 and one minimiser",
        ),
        form(
            "repaired", REST + r"\mu\|\gamma-\theta_*\|\le\lambda_1\sqrt d", _distance, {"sign": "holds"},
            (TENTH, lambda v: by_a_tenth(_distance(v))), needs=(AT_REST, SOLVED),
            note="squared here; from ||grad R||_inf <= lambda_1 at rest",
            proof="docs/fedelasticnet_claims.md#consistent-with-the-server-model",
        ),
        assumptions=ASSUMED, symbols=SYMBOLS,
    ),
    statement(
        "limits-of-c-and-epsilon", "C_t and epsilon_t go to 0 if all theta_k^t go to theta_*", "Appendix B, after (21)",
        "everybody",
        form(
            "C_t, as stored",
            r"C_t\le\beta^2\tfrac1m\sum_k\|\theta_k^t-\theta_*\|^2,"
            r"\quad C_t=\tfrac1m\sum_k\|g_k^t-\nabla L_k(\theta_*)\|^2",
            _C, SIGN_FAILS, (TENTH, lambda v: by_a_tenth(_C(v))), needs=(SOLVED,), wording=IN_WORDS,
            note="'C_t approaches zero if theta_k^t -> theta_*', with the rate that smoothness gives, for the g_k "
            "that Algorithm 3 "
            "stores and calls grad L_k(theta_k). The sign rule stores something else: with L = (x - 1)^2/2 and (x + "
            "1)^2/2, "
            "lambda_1 = 1, theta^0 = 0, all models are theta_* in every round and C_t = 1",
            proof="with all clients g_k^t = grad L_k(theta_k^t), and L_k is beta-smooth",
        ),
        form(
            "C_t, gradients of L_k", r"\tfrac1m\sum_k\|\nabla L_k(\theta_k^t)-\nabla L_k(\theta_*)\|^2"
            r"\le\beta^2\tfrac1m\sum_k\|\theta_k^t-\theta_*\|^2", _C_literal, ALL_HOLD,
            (TENTH, lambda v: by_a_tenth(_C_literal(v))), needs=(SOLVED,), wording=IN_WORDS,
            note="the same sentence with gradients of L_k themselves: smoothness, (14)",
            proof="L_k is beta-smooth, (14)",
        ),
        form(
            "C_t, repaired", r"C_t\le2\beta^2\tfrac1m\sum_k\|\theta_k^t-\theta_*\|^2+2\lambda_1^2z_t", _C_with_zeros,
            {"sign": "holds"},
            (TENTH, lambda v: by_a_tenth(_C_with_zeros(v))), needs=(SOLVED,),
            note="the sign rule stores grad L_k(theta_k) + lambda_1 (s_k - sign(delta_k)), off by at most lambda_1 "
            "and "
            "where delta is 0 only",
            proof="note; ||a + b||^2 <= 2 ||a||^2 + 2 ||b||^2",
        ),
        form(
            "epsilon_t", r"\epsilon_t\le\tfrac2m\sum_k\|\theta_k^t-\theta_*\|^2+2\|\gamma^{t-1}-\theta_*\|^2", _epsilon,
            ALL_HOLD,
            (TENTH, lambda v: by_a_tenth(_epsilon(v))), needs=(SOLVED,), wording=IN_WORDS,
            note="with all clients gamma^{t-1} is the mean of theta_k^{t-1}, so epsilon_t does go to 0, under "
            "either rule",
            proof="||a + b||^2 <= 2 ||a||^2 + 2 ||b||^2",
        ),
        assumptions=ASSUMED, symbols=SYMBOLS,
    ),
    statement(
        "no-additional-costs", "FedElasticNet for FedDyn sends no more than FedDyn",
        "section 3, before Algorithm 1; section 1",
        "everybody",
        form(
            "from the updates alone", r"h^t=h^{t-1}-\tfrac1m\sum_k[\lambda_2\Delta_k+\lambda_1\mathrm{sign}(\Delta_k)]", _known,
            {"sign": "holds", "true-gradient": "violated"}, ("without the signs", lambda v: _known(v, and_signs=False)),
            wording=IN_WORDS,
            note="'without additional costs', of communication: the server forms the mean h of the stored gradients "
            "from "
            "the updates alone. It does under the sign rule; under the true-gradient rule it needs lambda_2 delta + "
            "lambda_1 s, which is dense",
            proof="the mean of line 5",
        ),
        assumptions=ASSUMED, symbols=SYMBOLS,
    ),
)  # fmt: skip
