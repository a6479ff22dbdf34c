"""FedElasticNet, the main text on the state of FedDyn and Algorithm 3: one round of all clients.

The rule 'any' is FedDyn, lambda_1 = 0, where both rules are one.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from fedtheory.rational import objects
from fedtheory.theorems.fedelasticnet.main_text import world
from fedtheory.theorems.fedelasticnet.main_text.quadratics import (
    BETA_SMOOTH,
    SOLVED,
    Quadratics,
    identity,
    minimiser,
    semidefinite,
    sq,
)
from fedtheory.theorems.fedelasticnet.notation import RULES, SIGN_FAILS, nine_tenths, tight
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.world import Data, check_everybody, positive
from fedtheory.theory import Fact, Sides, derived, eq, form, le, number, repaired, word, wrong

AT_REST = Fact(
    "the round leaves theta and every g_k as they are",
    lambda q: not (q.stored_next != q.stored).any() and not (q.theta_next != q.theta).any(),
)
MU_CONVEX = Fact(
    "a mu-strongly convex R", lambda q: semidefinite(q.mean(q.H) - q.mu * identity(q.d)),
)
OWN_RULE = Fact(
    "the rule 'any' where lambda_1 = 0, and only there",
    lambda q: (q.rule == "any") == (q.lambda1 == 0),
)


@dataclass(kw_only=True)
class EverybodyView(Quadratics, world.MainTextWorld):
    """One round of Algorithm 3 in which all clients take part, from any state.

    Attributes
    ----------
    stored : the g_k before the round, 0 where data say none
    theta : theta^{t-1}
    beta, mu : every L_k is beta-smooth, and R is mu-strongly convex; may be left out where H is
        diagonal
    rule : 'sign', 'true-gradient', or 'any' where lambda_1 = 0
    """

    kind, size, method, ratio = "everybody", 50, "fedelasticnet-dyn", 30.0
    about, asks = "about the first round of Algorithm 3", (world.QUADRATIC, world.ALL)
    example, rules = "--problem diabetes --clients 3", (*RULES, "any")
    examples: ClassVar = dict.fromkeys(("consistency", "deviation"), f"{example} --l1 1000")
    by_hand: ClassVar = {
        **{
            f"{label}, {rule}": {
                "H": [["1"], ["1"]], "q": [["0"], ["0"]], "theta": [theta], **stored,
                "lambda1": "1", "lambda2": "28", "rule": rule,
            }
            for label, theta, stored in (
                ("at the edge", "1", {}),
                ("stored gradients off", "1", {"stored": [["2"], ["2"]]}),
                ("two alike that move", "2", {}),
            )
            for rule in RULES
        },
        "two that differ": {
            "H": [["1"], ["1"]], "q": [["1"], ["-1"]], "theta": ["0"], "lambda1": "1",
            "lambda2": "28", "rule": "sign",
        },
        "stored gradients are gradients": {
            "H": [["1"], ["2"]], "q": [["1"], ["-1"]], "theta": ["0"], "stored": [["-1"], ["1"]],
            "lambda1": "1", "lambda2": "28", "rule": "true-gradient", "mu": "3/2",
        },
        **{
            f"all but one on the other side, {rule}": {
                "H": [["1000"], *[["0"]] * 5], "q": [["0"]] * 6, "theta": ["0"],
                "stored": [["11"], *[["-1"]] * 5], "lambda1": l1, "lambda2": "1", "mu": "0",
                "rule": rule,
            }
            for rule, l1 in (("any", "0"), ("sign", "1/1000"), ("true-gradient", "1/1000"))
        },
    }  # fmt: skip

    demands: ClassVar = (BETA_SMOOTH, MU_CONVEX, OWN_RULE)
    shows: ClassVar = {"m": "m", "d": "d", "lambda_1": "lambda1", "lambda_2": "lambda2"}

    lambda1: Fraction = number(least=0)
    lambda2: Fraction = number(above=0)
    stored: Any = number("m d", default=None)
    beta: Any = number(above=0, default=None)
    mu: Any = number(least=0, default=None)
    rule: str = word(*RULES, "any", default="any")

    def __post_init__(self) -> None:
        diagonals = np.diagonal(self.H, axis1=1, axis2=2)
        self.fill(stored=0 * self.q, beta=diagonals.max(), mu=self.mean(diagonals).min())

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, Data]:
        """Draw a round from the start, of clients that are alike, from rest, or from any state."""
        m, d, data = world.clients(rng)
        lambda1 = positive(rng, 16)
        data |= {"beta": world.largest(data["H"]), "mu": Fraction(0)}
        rule = str(rng.choice(["sign", "true-gradient", "any"]))
        data |= {"lambda1": Fraction(0) if rule == "any" else lambda1}
        data |= {"lambda2": positive(rng, 16), "rule": rule}
        shape = int(rng.integers(4))
        if shape == 0:
            return f"m={m} d={d} {rule}, from g = 0", data
        data["stored"] = [world.point(rng, d) for _ in range(m)]
        if shape == 1:
            data |= {name: data[name][:1] * m for name in ("H", "q", "stored")}
        elif shape == 2:
            data = _at_rest(rng, m, d, data)
        return f"m={m} d={d} {rule}", data

    @classmethod
    def on_problem(cls, statement: Any, case: Any) -> Data:
        """Take the first round of Algorithm 3, where all stored gradients are 0."""
        check_everybody(case)
        data = world.losses_of(case)
        spectrum = np.linalg.eigvalsh(data["H"].sum(axis=0).astype(float) / len(data["H"]))
        least, most = Fraction(float(spectrum[0])), Fraction(float(spectrum[-1]))
        rule = getattr(case.algorithm, "rule", "sign") if data["lambda1"] else "any"
        data |= {"rule": rule, "beta": world.above(float(case.problem.beta_k.max()))}
        return data | {"mu": max(Fraction(0), least - most / 10**12)}

    h = derived(lambda v: v.mean(v.stored))
    gamma = derived(lambda v: v.theta + v.h / v.lambda2, "theta^{t-1} + h^{t-1}/lambda_2")

    @cached_property
    def delta(self) -> np.ndarray:
        """theta_k^t - theta^{t-1}, (m, d)."""
        curved, pulls = self.H + self.lambda2 * identity(self.d), self.stored - self.slopes
        return np.stack([minimiser(Q, p, self.lambda1) for Q, p in zip(curved, pulls, strict=True)])

    local = derived(lambda v: v.theta + v.delta)
    grad_local = derived(lambda v: v.gradients(v.local), "grad L_k(theta_k^t)")
    lambda1_s = derived(
        lambda v: v.stored - v.grad_local - v.lambda2 * v.delta,
        "lambda_1 s_k with the exact subgradient",
    )

    @cached_property
    def stored_next(self) -> np.ndarray:
        """Line 5 of Algorithm 3, or the true gradient."""
        if self.rule == "sign":
            return self.stored - self.lambda2 * self.delta - self.lambda1 * np.sign(self.delta)
        return self.grad_local

    theta_next = derived(lambda v: v.mean(v.local) - v.mean(v.stored_next) / v.lambda2)
    C_next = derived(
        lambda v: v.mean(sq(v.stored_next - v.gradients([v.star] * v.m))),
        "C_t: mean_k ||stored - grad L_k(theta_*)||^2",
    )
    epsilon = derived(
        lambda v: v.mean(sq(v.local - v.gamma)), "mean_k ||theta_k^t - gamma^{t-1}||^2"
    )
    off = derived(lambda v: v.mean(sq(v.local - v.star)), "mean_k ||theta_k^t - theta_*||^2")
    zeros = derived(
        lambda v: Fraction(int((v.delta == 0).sum()), v.m),
        "mean over the clients of the number of zero coordinates of delta_k",
    )


def _at_rest(rng: Any, m: int, d: int, data: Data) -> Data:
    """Choose minimisers and stored gradients that a round leaves as they are.

    L_k'(theta) = g_k + e_k with sum g_k = 0 and |e_k| <= lambda_1.
    """
    stored: list[list[Any]] = [[*world.point(rng, d)] for _ in range(m - 1)]
    stored.append([-sum(row[i] for row in stored) for i in range(d)])
    width = data["lambda1"] if data["rule"] == "sign" else Fraction(0)
    errors = [[width * int(rng.integers(-4, 5)) / 4 for _ in range(d)] for _ in range(m)]
    H = [[positive(rng, 16) for _ in range(d)] for _ in range(m)]
    q = objects(H) * objects(data["theta"]) - objects(stored) - objects(errors)
    mu = min(objects(H).sum(axis=0)) / m
    return {**data, "H": H, "q": q, "stored": stored, "beta": world.largest(H), "mu": mu}


def _stationary(v: EverybodyView) -> Sides:
    return eq(v.mean(v.slopes), 0 * v.theta)


def _each_stationary(v: EverybodyView) -> Sides:
    return eq(v.slopes, 0 * v.slopes)


def _signs(v: EverybodyView, exact: bool = True, ridge: Any = 1) -> Sides:
    signs = v.lambda1_s if exact else v.lambda1 * np.sign(v.delta)
    return eq(v.mean(signs), v.h - v.mean(v.grad_local) - ridge * v.lambda2 * v.mean(v.delta))


def _C(v: EverybodyView) -> Sides:
    return le(v.C_next, v.beta**2 * v.off)


def _known(v: EverybodyView, and_signs: bool = True) -> Sides:
    sent = v.lambda2 * v.delta + (v.lambda1 * np.sign(v.delta) if and_signs else 0 * v.delta)
    return eq(v.mean(v.stored_next), v.h - v.mean(sent))


SYMBOLS = {
    "L_k(x)": "x'H_k x/2 - q_k'x: EverybodyView.H, .q", "g_k, h, gamma": "EverybodyView.stored, .h, .gamma",
    "delta_k": "theta_k^t - theta^{t-1}: .delta", "s_k": "the subgradient with which (11) is true: .lambda1_s",
    "C_t, epsilon_t": ".C_next, .epsilon", "z": ".zeros, a mean over the clients", "mu": "R is mu-strongly convex",
}  # fmt: skip
statement = partial(
    FILE.statement, over=EverybodyView, symbols=SYMBOLS,
    assumptions=(
        "convex quadratic losses; the proofs are for any convex smooth ones",
        "all clients take part", "lambda_2 > 0",
    ),
)  # fmt: skip
REST = r"\text{at rest: }"
TENTH = "9/10 of it"


@statement("consistency", source="section 3.3, after (9) and after (11)")
def consistency(q):
    """stationary points of the local objectives are consistent with the server's model"""
    yield form(
        "stationary for R", lambda: _stationary(q), REST + r"\nabla R(\theta)=0",
        wrong("each client's gradient", lambda: _each_stationary(q)), rules=SIGN_FAILS,
        needs=(AT_REST,), wording="in words",
        proof="docs/fedelasticnet_claims.md#consistent-with-the-server-model",
        note="'consistent with the server model as in (9)'. Under the sign rule delta_k = 0 says "
        "|g_k - grad L_k| <= lambda_1 only; the true-gradient rule stores the gradient, and then "
        "FedDyn's proof is right",
    )
    yield form(
        "FedDyn", lambda: _stationary(q), REST + r"\nabla R(\theta)=0\quad(\lambda_1=0)",
        wrong("each client's gradient", lambda: _each_stationary(q)), rules=("any",), holds=True,
        needs=(AT_REST,), wording="in words", proof="note",
        note="at rest the stored gradient stays, so lambda_2 delta_k = 0; then theta = theta - "
        "h/lambda_2, so h = 0; and with delta_k = 0 (9) says grad L_k(theta) = g_k, whose mean is "
        "h",
    )
    yield tight(
        "repaired", lambda: le(abs(q.mean(q.slopes)), q.lambda1 + 0 * q.theta),
        REST + r"\|\nabla R(\theta)\|_\infty\le\lambda_1", rules=("sign",), less=TENTH,
        needs=(AT_REST,), proof="docs/fedelasticnet_claims.md#consistent-with-the-server-model",
        note="the mean of g_k - grad L_k(theta), and h = 0; attained by one client that starts at "
        "slope lambda_1",
    )
    yield form(
        "no drift at rest", lambda: eq(q.delta, 0 * q.delta),
        REST + r"\theta_k^t=\theta\text{ for every client}",
        wrong("the clients' own optima", lambda: _each_stationary(q)), holds=True, needs=(AT_REST,),
        wording="in words", proof="note",
        note="the models do agree: under the sign rule lambda_2 delta + lambda_1 sign(delta) = 0, "
        "so delta = 0; else the pull on each client is 0",
    )


@statement("average-of-signs", source="section 3.3, after Theorem 3.1; Appendix B.3")
def average_of_signs(q):
    """the average of the sign vectors is negligible"""
    yield form(
        "a tenth", lambda: le(abs(q.mean(np.sign(q.delta))), Fraction(1, 10) + 0 * q.theta),
        r"\Big\|\tfrac1m\sum_k\mathrm{sign}(\delta_k)\Big\|_\infty\le\tfrac1{10}", rules=RULES,
        fails=True, wording="in words",
        note="'a small value', read as 1/10. What the signs are is decided by the data, not by "
        "coins: clients with the same data agree wherever they move",
    )
    yield repaired(
        lambda: _signs(q),
        r"\tfrac{\lambda_1}m\sum_ks_k=h^{t-1}-\tfrac1m\sum_k\nabla "
        r"L_k(\theta_k^t)-\tfrac{\lambda_2}m\sum_k\delta_k",
        wrong("sign(delta) for s", lambda: _signs(q, exact=False)),
        wrong("9/10 lambda_2", lambda: _signs(q, ridge=Fraction(9, 10))), rules=RULES, holds=True,
        proof="note",
        note="(11) averaged: the mean is what the stored gradients and the local models make it",
    )


@statement("deviation", source="section 3.3, after Theorem 3.1; Appendix B.3")
def deviation(q):
    """gamma comes near theta_* as training proceeds"""
    yield form(
        "at the optimum", lambda: eq(q.gamma, q.star), REST + r"\gamma=\theta_*",
        wrong("gamma = 0", lambda: eq(q.gamma, 0 * q.gamma)), rules=SIGN_FAILS,
        needs=(AT_REST, SOLVED), wording="in words",
        proof="consistency [stationary for R], with h = 0 and one minimiser",
        note="'tends to be small as training proceeds': a run of the sign rule that stands still "
        "stays where it is. Under the true-gradient rule rest is at the optimum; whether a run "
        "comes to rest is not said by this",
    )
    yield tight(
        "repaired", lambda: le(q.mu**2 * sq(q.gamma - q.star), q.d * q.lambda1**2),
        REST + r"\mu\|\gamma-\theta_*\|\le\lambda_1\sqrt d",
        rules=("sign",), less=TENTH, needs=(AT_REST, SOLVED),
        proof="docs/fedelasticnet_claims.md#consistent-with-the-server-model",
        note="squared here; from ||grad R||_inf <= lambda_1 at rest",
    )


@statement("limits-of-c-and-epsilon", source="Appendix B, after (21)")
def limits_of_c_and_epsilon(q):
    """C_t and epsilon_t go to 0 if all theta_k^t go to theta_*"""
    yield form(
        "C_t, as stored", lambda: _C(q),
        r"C_t\le\beta^2\tfrac1m\sum_k\|\theta_k^t-\theta_*\|^2,\quad "
        r"C_t=\tfrac1m\sum_k\|g_k^t-\nabla L_k(\theta_*)\|^2",
        wrong(TENTH, lambda: nine_tenths(_C(q))), rules=SIGN_FAILS, needs=(SOLVED,),
        wording="in words",
        proof="with all clients g_k^t = grad L_k(theta_k^t), and L_k is beta-smooth",
        note="'C_t approaches zero if theta_k^t -> theta_*', with the rate that smoothness gives, "
        "for the g_k that Algorithm 3 stores and calls grad L_k(theta_k). The sign rule stores "
        "something else: with L = (x - 1)^2/2 and (x + 1)^2/2, lambda_1 = 1, theta^0 = 0, all "
        "models are theta_* in every round and C_t = 1",
    )
    yield tight(
        "C_t, gradients of L_k",
        lambda: le(q.mean(sq(q.grad_local - q.gradients([q.star] * q.m))), q.beta**2 * q.off),
        r"\tfrac1m\sum_k\|\nabla L_k(\theta_k^t)-\nabla "
        r"L_k(\theta_*)\|^2\le\beta^2\tfrac1m\sum_k\|\theta_k^t-\theta_*\|^2", less=TENTH,
        needs=(SOLVED,), wording="in words", proof="L_k is beta-smooth, (14)",
        note="the same sentence with gradients of L_k themselves: smoothness, (14)",
    )
    yield tight(
        "C_t, repaired", lambda: le(q.C_next, 2 * q.beta**2 * q.off, 2 * q.lambda1**2 * q.zeros),
        r"C_t\le2\beta^2\tfrac1m\sum_k\|\theta_k^t-\theta_*\|^2+2\lambda_1^2z_t", rules=("sign",),
        less=TENTH, needs=(SOLVED,), proof="note; ||a + b||^2 <= 2 ||a||^2 + 2 ||b||^2",
        note="the sign rule stores grad L_k(theta_k) + lambda_1 (s_k - sign(delta_k)), off by at "
        "most lambda_1 and where delta is 0 only",
    )
    yield tight(
        "epsilon_t", lambda: le(q.epsilon, 2 * q.off, 2 * sq(q.gamma - q.star)),
        r"\epsilon_t\le\tfrac2m\sum_k\|\theta_k^t-\theta_*\|^2+2\|\gamma^{t-1}-\theta_*\|^2",
        less=TENTH, needs=(SOLVED,), wording="in words",
        proof="||a + b||^2 <= 2 ||a||^2 + 2 ||b||^2",
        note="with all clients gamma^{t-1} is the mean of theta_k^{t-1}, so epsilon_t does go to "
        "0, under either rule",
    )


@statement("no-additional-costs", source="section 3, before Algorithm 1; section 1")
def no_additional_costs(q):
    """FedElasticNet for FedDyn sends no more than FedDyn"""
    yield form(
        "from the updates alone", lambda: _known(q),
        r"h^t=h^{t-1}-\tfrac1m\sum_k[\lambda_2\Delta_k+\lambda_1\mathrm{sign}(\Delta_k)]",
        wrong("without the signs", lambda: _known(q, and_signs=False)),
        rules={"sign": "holds", "true-gradient": "violated"}, wording="in words",
        proof="the mean of line 5",
        note="'without additional costs', of communication: the server forms the mean h of the "
        "stored gradients from the updates alone. It does under the sign rule; under the "
        "true-gradient rule it needs lambda_2 delta + lambda_1 s, which is dense",
    )
