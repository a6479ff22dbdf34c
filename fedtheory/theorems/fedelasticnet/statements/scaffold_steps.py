"""FedElasticNet, (5)-(7): SCAFFOLD's local steps and control variates, and what the two penalties add to them.

Algorithm 2 as a whole is not judged here: one round of local steps from given control variates is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import integer, table, vector
from fedtheory.theorems.fedelasticnet.main_text.notation import BUILDERS, IN_WORDS, statement
from fedtheory.theorems.fedelasticnet.main_text.quadratics import (
    Quadratics,
    matrices,
    number,
    semidefinite,
    sign,
)
from fedtheory.theory.judge.setting import ClosedView
from fedtheory.theory.judge.statement import Sides, eq, form, le

__all__ = ["STATEMENTS", "StepsView", "steps_view"]

PLAIN, PENALISED = "local steps (5), lambda_1 = lambda_2 = 0", "local steps (7), lambda_1 > 0 or lambda_2 > 0"
FRESH, SHORT = "c_k = grad L_k(theta^{t-1}) for every client", "eta_l H_k <= 1 for every client"
AT_REST, L1, SOLVED = "theta^{t-1} = theta_*", "lambda_1 > 0", "R has one minimiser"


@dataclass
class StepsView(Quadratics, ClosedView):
    """B local steps of every client from theta, with full gradients of L_k(y) = y'H_k y/2 - q_k'y.

    Attributes
    ----------
    H, q, controls : (m, d, d), (m, d), (m, d)
    theta : (d,)
    lr, B : eta_l and the number of steps
    lambda1, lambda2 : both 0 in (5)
    """

    H: np.ndarray
    q: np.ndarray
    controls: np.ndarray
    theta: np.ndarray
    lr: Fraction
    B: int
    lambda1: Fraction
    lambda2: Fraction

    @cached_property
    def facts(self) -> frozenset[str]:  # type: ignore[override]
        """The facts that hold of this instance."""
        facts = {PLAIN} if self.lambda1 == self.lambda2 == 0 else {PENALISED}
        facts |= {L1} if self.lambda1 > 0 else set()
        facts |= {FRESH} if not (self.controls != self.gradients([self.theta] * self.m)).any() else set()
        facts |= {SHORT} if all(semidefinite(np.diag([1 / self.lr] * self.d) - h) for h in self.H) else set()
        facts |= {AT_REST} if not self.slope.any() else set()
        facts |= {SOLVED} if self.star is not None else set()
        return frozenset(facts)

    @property
    def mean_control(self) -> np.ndarray:
        """c, (d,)."""
        return self.controls.sum(axis=0) / Fraction(self.m)

    @property
    def slope(self) -> np.ndarray:
        """grad R(theta)."""
        return self.gradients([self.theta] * self.m).sum(axis=0) / Fraction(self.m)

    @cached_property
    def path(self) -> list[np.ndarray]:
        """The local models after 0, ..., B steps, each (m, d)."""
        y = np.stack([self.theta] * self.m)
        out = [y]
        for _ in range(self.B):
            away = y - self.theta
            step = self.gradients(y) - self.controls + self.mean_control + self.lambda2 * away + self.lambda1 * sign(away)
            y = y - self.lr * step
            out.append(y)
        return out

    @property
    def moves(self) -> np.ndarray:
        """theta_k^t - theta^{t-1}, (m, d)."""
        return self.path[-1] - self.theta

    def mean(self, of: Any) -> np.ndarray:
        """(1/B) sum_b of what each step saw: (m, d)."""
        return sum((of(y) for y in self.path[1:-1]), start=of(self.path[0])) / Fraction(self.B)

    @cached_property
    def next_controls(self) -> np.ndarray:
        """(6): c_k - c + (theta - theta_k)/(B eta_l)."""
        return self.controls - self.mean_control - self.moves / (self.B * self.lr)

    @cached_property
    def plain(self) -> StepsView:
        """The same by (5)."""
        return replace(self, lambda1=Fraction(0), lambda2=Fraction(0))

    def printed_constants(self) -> dict[str, Any]:
        return {"m": self.m, "B": self.B, "eta_l": float(self.lr)}


@BUILDERS.add("local-steps")
def steps_view(data: dict[str, Any]) -> StepsView:
    """From H, q, theta, lr, B, and where they are not 0: lambda1, lambda2, controls ('fresh' for the gradients at theta)."""
    theta, q = vector(data["theta"], "theta"), table(data["q"], "q")
    H = matrices(data["H"], len(theta))
    controls = data.get("controls", [["0"] * len(theta)] * len(q))
    if controls == "fresh":
        kept = np.stack([h @ theta - b for h, b in zip(H, q, strict=True)])
    else:
        kept = table(controls, "controls")
    if not H.shape[:2] == q.shape == kept.shape:
        raise InvalidInput("H, q and controls must name the same clients and coordinates")
    lambdas = (number(data, name, "0", least=0) for name in ("lambda1", "lambda2"))
    return StepsView(H, q, kept, theta, number(data, "lr", above=0), integer(data["B"], "B", 1, 20), *lambdas)


def _control(v: StepsView, ridge: Any = 0, level: Any = 0) -> Sides:
    """(6) against the mean gradient, with so much of the penalties."""
    seen = v.mean(lambda y: v.gradients(y) + ridge * v.lambda2 * (y - v.theta) + level * v.lambda1 * sign(y - v.theta))
    return eq(v.next_controls, seen)


def _last_only(v: StepsView) -> Sides:
    return eq(v.next_controls, v.gradients(v.path[-1]))


def _first_step(v: StepsView, at_zero: int = 0) -> Sides:
    return eq(v.path[1], v.plain.path[1] - v.lr * v.lambda1 * at_zero)


def _subgradient(v: StepsView, level: Any = 1) -> Sides:
    """lambda_1 |z| >= lambda_1 |x| + lambda_1 sign(x) (z - x), x and z the updates of two clients, coordinate by coordinate."""
    x, z = v.moves, np.roll(v.moves, 1, axis=0) * 3
    lambda1: Any = v.lambda1
    return le(lambda1 * abs(x) + level * lambda1 * sign(x) * (z - x), lambda1 * abs(z))


def _as_prox(v: StepsView) -> Sides:
    """A minimiser with the l1 norm stays, its update 0, if |grad L_k(theta) - c_k + c| <= lambda_1."""
    pull = v.gradients([v.theta] * v.m) - v.controls + v.mean_control
    within = (abs(pull) <= v.lambda1) * Fraction(1)
    return le(within * abs(v.moves), 0 * v.moves)


def _descent(v: StepsView, share: Any = 0) -> Sides:
    """<grad R(theta), theta_k - theta> <= -share eta_l ||grad R(theta)||^2, client by client."""
    drop = v.lr * (v.slope * v.slope).sum()
    return le(v.moves @ v.slope, -share * drop * np.array([Fraction(1)] * v.m, dtype=object))


def _towards(v: StepsView) -> Sides:
    """0 <= <theta_k - theta, theta_* - theta>, client by client."""
    return le(0 * v.moves[:, 0], v.moves @ (v.star - v.theta))


SYMBOLS = {
    "y_b": "the local model before step b + 1, y_0 = theta^{t-1}: StepsView.path",
    "c_k, c": "StepsView.controls, .mean_control",
    "eta_l, B": "StepsView.lr, .B", "c_k^+": "(6): StepsView.next_controls",
}  # fmt: skip
FULL = ("quadratic losses, full gradients", "all clients take part")
MEAN, STEPS = r"c_k^+=\tfrac1B\sum_{b<B}\nabla L_k(y_b)", (FRESH, SHORT)

STATEMENTS = (
    statement(
        "eq-6", "the control variate is the mean of the gradients that were seen", "section 3.2, (5) and (6)",
        "local-steps",
        form(
            "mean of the gradients", MEAN + r"\text{ with the steps (5)}", _control, "holds", ("the last gradient", _last_only),
            needs=(PLAIN,), wording="algorithm",
            note="(5) says theta^{t-1} - theta_k = eta_l sum_b (grad L_k(y_b) - c_k + c), and (6) divides that by B "
            "eta_l",
            proof="note",
        ),
        assumptions=FULL, symbols=SYMBOLS,
    ),
    statement(
        "eq-7", "what the penalties do to the local steps and to the control variate",
        "section 3.2, (7); Algorithm 2, lines 7 and 9",
        "local-steps",
        form(
            "control variate", MEAN + r"\text{ with the steps (7)}", _control, "violated", needs=(PENALISED,),
            wording="algorithm",
            note="line 9 keeps (6), so the control variate takes the penalties for a part of the client's gradient",
        ),
        form(
            "repaired", MEAN + r"+\tfrac1B\sum_{b<B}[\lambda_2(y_b-\theta^{t-1})+\lambda_1\mathrm{sign}(y_b-\theta^{t-1})]",
            lambda v: _control(v, 1, 1), "holds", ("9/10 lambda_1", lambda v: _control(v, 1, Fraction(9, 10))),
            ("lambda_2 dropped", lambda v: _control(v, 0, 1)), needs=(PENALISED,),
            proof="docs/fedelasticnet_claims.md#5-to-7",
        ),
        form(
            "the gradient of the l1 norm",
            r"\lambda_1\|z\|_1\ge\lambda_1\|x\|_1+\langle\lambda_1\mathrm{sign}(x),z-x\rangle\ \ \forall z",
            _subgradient, "holds", ("11/10 of it", lambda v: _subgradient(v, Fraction(11, 10))), needs=(L1,),
            wording=IN_WORDS,
            note="'corresponds to the gradient': it is a subgradient everywhere, sign(0) = 0 included, and a "
            "gradient "
            "where no entry is 0. Judged entry by entry, at updates of two clients",
            proof="|z| >= sign(x) z for every z, also with sign(0) = 0, and |x| = sign(x) x",
        ),
        form(
            "the first step", r"y_1\text{ of (7)}=y_1\text{ of (5)}", _first_step, "holds",
            ("sign(0) = 1", lambda v: _first_step(v, 1)), needs=(L1,),
            note="y_0 = theta^{t-1}, where both penalties have the gradient 0: with B = 1 they do nothing",
            proof="note",
        ),
        form(
            "it sparsifies", r"|\nabla L_k(\theta^{t-1})-c_k+c|_i\le\lambda_1\Rightarrow(\theta_k^t-\theta^{t-1})_i=0",
            _as_prox,
            "violated", needs=(L1,), wording=IN_WORDS,
            note="'this l1-norm regularizer sparsifies the local update', read as what a minimiser of the l1 norm "
            "does: "
            "a step of (7) leaves 0 first and comes back to it by chance only",
        ),
        assumptions=FULL, symbols=SYMBOLS,
    ),
    statement(
        "local-direction", "control variates turn local steps towards the global optimum",
        "section 3.2, after (6)",
        "local-steps",
        form(
            "an acute angle", r"\langle\theta_k^t-\theta^{t-1},\theta_*-\theta^{t-1}\rangle\ge0\text{ for every client}", _towards,
            "violated",
            needs=(PLAIN, SHORT, SOLVED), wording=IN_WORDS,
            note="'in the direction of the global optimum rather than each local optimum', read as an acute angle. "
            "Control variates of earlier rounds say little of the gradients now: in the first round all are 0, and "
            "each "
            "client goes its own way",
        ),
        form(
            "fresh, an acute angle",
            r"\langle\theta_k^t-\theta^{t-1},\theta_*-\theta^{t-1}\rangle\ge0,\quad c_k=\nabla L_k(\theta^{t-1})",
            _towards, "violated", needs=(PLAIN, SOLVED, *STEPS), wording=IN_WORDS,
            note="even then the steps bend where Hessians differ: eight of them may leave the half space of the "
            "optimum",
        ),
        form(
            "repaired",
            r"\langle\nabla R(\theta^{t-1}),\theta_k^t-\theta^{t-1}\rangle\le-\eta_l\|\nabla R(\theta^{t-1})\|^2,"
            r"\quad c_k=\nabla L_k(\theta^{t-1})", lambda v: _descent(v, 1), "holds",
            ("11/10 of it", lambda v: _descent(v, Fraction(11, 10))), needs=(PLAIN, *STEPS),
            note="a direction of descent of R: the steps are gradient descent from theta^{t-1} on a convex function "
            "whose gradient there is grad R; on quadratics sum_b (I - eta_l H_k)^b is at least I. For any convex "
            "smooth "
            "L_k: at most -eta_l/2 of the square",
            proof="docs/fedelasticnet_claims.md#5-to-7",
        ),
        form(
            "of the steps (7)",
            r"\langle\nabla R(\theta^{t-1}),\theta_k^t-\theta^{t-1}\rangle\le0,\quad c_k=\nabla L_k(\theta^{t-1})",
            _descent, "violated", needs=(PENALISED, *STEPS), wording="algorithm",
            note="the second step is pushed back by eta_l lambda_1 whatever the first one was: where that was "
            "shorter it "
            "ends on the other side",
        ),
        form(
            "at the optimum", r"\theta^{t-1}=\theta_*,\ c_k=\nabla L_k(\theta_*)\Rightarrow\theta_k^t=\theta_*",
            lambda v: eq(v.moves, 0 * v.moves), "holds",
            ("control variates of 0", lambda v: eq(replace(v, controls=0 * v.controls).moves, 0 * v.moves)),
            needs=(AT_REST, FRESH),
            note="with (5) and with (7)",
            proof="the mean c of the c_k is grad R(theta_*) = 0, so that every step of (5) is 0, and "
            "of (7) with sign(0) = 0",
        ),
        assumptions=FULL, symbols=SYMBOLS,
    ),
)  # fmt: skip
