"""FedElasticNet, (5)-(7): SCAFFOLD's local steps and control variates, and what the penalties add.

Algorithm 2 as a whole is not judged here: one round of local steps from given control variates is.
"""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.local import LocalSGD
from fedtheory.rational import objects, simplest, table
from fedtheory.theorems.fedelasticnet.main_text import world
from fedtheory.theorems.fedelasticnet.main_text.quadratics import (
    SOLVED,
    Quadratics,
    hessians,
    semidefinite,
)
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.world import Data, check_everybody, positive
from fedtheory.theory import Fact, LocalWork, Sides, derived, eq, form, le, number, repaired, whole, wrong
from fedtheory.theory.fields import Read

MOST_STEPS = 8
ONE_LENGTH = "the statement is about full gradient steps of one length: use LocalSGD(B, lr)"
PLAIN = Fact("local steps (5), lambda_1 = lambda_2 = 0", lambda q: q.lambda1 == q.lambda2 == 0)
PENALISED = Fact("local steps (7), lambda_1 > 0 or lambda_2 > 0", lambda q: not q.has(PLAIN))
FRESH = Fact(
    "c_k = grad L_k(theta^{t-1}) for every client", lambda q: not (q.controls != q.slopes).any(),
)
SHORT = Fact(
    "eta_l H_k <= 1 for every client",
    lambda q: all(semidefinite(np.diag([1 / q.lr] * q.d) - h) for h in q.H),
)
AT_REST = Fact("theta^{t-1} = theta_*", lambda q: not q.slope.any())
L1 = Fact("lambda_1 > 0", lambda q: q.lambda1 > 0)


def _controls(name: str, value: Any, before: Any) -> np.ndarray:
    """Read control variates, or take the gradients at theta where they are 'fresh'."""
    if value == "fresh":
        return Quadratics(**{name: before[name] for name in ("H", "q", "theta")}).slopes
    return table(value, name)


@dataclass(kw_only=True)
class StepsView(Quadratics, world.MainTextWorld):
    """B local steps of every client from theta, with full gradients of L_k(y) = y'H_k y/2 - q_k'y."""

    kind, size, method = "local-steps", 40, "fedelasticnet-scaffold"
    about, work = "about the local steps of one round", LocalWork((LocalSGD,), ONE_LENGTH)
    asks = (world.QUADRATIC, world.ALL, f"full gradient steps of one length, at most {MOST_STEPS}")
    example = "--problem diabetes --clients 3 --given controls=fresh"
    accepts: ClassVar = {
        "controls": "the control variates c_k: 'zero', as Algorithm 2 begins, or 'fresh' for the "
        "gradients at the server's model",
    }
    by_hand: ClassVar = {
        "a first round": {
            "H": [["1"], ["1"]], "q": [["-1"], ["3"]], "theta": ["0"], "lr": "1/2", "B": 1,
        },
        "eight steps that bend": {
            "H": [["1", "0"], [["144/169", "60/169"], ["60/169", "25/169"]]],
            "q": [["0", "0"], ["0", "0"]], "theta": ["3", "-4"], "lr": "1", "B": 8,
            "controls": "fresh",
        },
    }  # fmt: skip

    shows: ClassVar = {"m": "m", "B": "B", "eta_l": "lr"}

    lr: Fraction = number("", "eta_l", above=0)
    B: int = whole(1, 20, "the number of steps")
    # 0 where data say none, and the gradients at theta where they are 'fresh'
    controls: Any = field(default=None, metadata={"read": Read(_controls, "", ("m", "d"), None)})
    lambda1: Fraction = number(least=0, default=Fraction(0))
    lambda2: Fraction = number(least=0, default=Fraction(0))

    def __post_init__(self) -> None:
        self.fill(controls=0 * self.q)

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, Data]:
        """Draw stable steps with and without penalties, some from the optimum."""
        m, d, data = world.clients(rng)
        data["lr"] = Fraction(int(rng.integers(1, 9)), 8) / world.largest(data["H"])
        data["B"] = int(rng.integers(1, 5))
        if rng.random() < 0.6:
            data["lambda1"] = positive(rng, 16)
            data["lambda2"] = positive(rng, 16) if rng.random() < 0.7 else Fraction(0)
        how = rng.random()
        data["controls"] = "fresh" if how < 0.6 else [world.point(rng, d) for _ in range(m)]
        if how < 0.15:  # the last client's minimiser is moved so that theta is the optimum
            H, q = hessians("H", data["H"]), objects(data["q"])
            data["q"][-1] = list((H @ objects(data["theta"])).sum(axis=0) - q[:-1].sum(axis=0))
        return f"m={m} d={d} B={data['B']}", data

    @classmethod
    def on_problem(cls, statement: Any, case: Any) -> Data:
        """Take local steps of all clients in the first round, or from fresh control variates."""
        check_everybody(case)
        data = world.losses_of(case)
        solver = world.steps_of(case.problem) if case.local_solver is None else case.local_solver
        if solver.batch_size or solver.noise_std or callable(solver.lr):
            raise InvalidInput(ONE_LENGTH)
        B, lr = solver.steps, simplest(solver.lr)
        if B > MOST_STEPS:
            raise InvalidInput(f"B = {B} local steps, at most {MOST_STEPS} are judged in fractions")
        controls = case.given.get("controls", "zero")
        if controls not in ("zero", "fresh"):
            raise InvalidInput(f"controls = {controls!r}: use zero or fresh")
        return {**data, "lr": lr, "B": B} | ({"controls": "fresh"} if controls == "fresh" else {})

    mean_control = derived(lambda v: v.mean(v.controls), "c, (d,)")
    slope = derived(lambda v: v.mean(v.slopes), "grad R(theta)")

    @cached_property
    def path(self) -> list[np.ndarray]:
        """The local models after 0, ..., B steps, each (m, d)."""
        y = np.stack([self.theta] * self.m)
        out = [y]
        for _ in range(self.B):
            away = y - self.theta
            step = self.gradients(y) - self.controls + self.mean_control + self.lambda2 * away + self.lambda1 * np.sign(away)
            y = y - self.lr * step
            out.append(y)
        return out

    moves = derived(lambda v: v.path[-1] - v.theta, "theta_k^t - theta^{t-1}, (m, d)")

    def mean_step(self, of: Any) -> np.ndarray:
        """(1/B) sum_b of what each step saw: (m, d)."""
        return sum((of(y) for y in self.path[1:-1]), start=of(self.path[0])) / Fraction(self.B)

    next_controls = derived(
        lambda v: v.controls - v.mean_control - v.moves / (v.B * v.lr),
        "(6): c_k - c + (theta - theta_k)/(B eta_l)",
    )
    plain = derived(
        lambda v: replace(v, lambda1=Fraction(0), lambda2=Fraction(0)), "the same by (5)"
    )


def _control(v: StepsView, ridge: Any = 0, level: Any = 0) -> Sides:
    """(6) against the mean gradient, with so much of the penalties."""

    def seen(y: np.ndarray) -> np.ndarray:
        away = y - v.theta
        return v.gradients(y) + ridge * v.lambda2 * away + level * v.lambda1 * np.sign(away)

    return eq(v.next_controls, v.mean_step(seen))


def _first_step(v: StepsView, at_zero: int = 0) -> Sides:
    return eq(v.path[1], v.plain.path[1] - v.lr * v.lambda1 * at_zero)


def _subgradient(v: StepsView, level: Any = 1) -> Sides:
    """lambda_1 |z| >= lambda_1 |x| + lambda_1 sign(x) (z - x), x and z the updates of two clients, coordinate by coordinate."""
    x, z = v.moves, np.roll(v.moves, 1, axis=0) * 3
    lambda1: Any = v.lambda1
    return le(lambda1 * abs(x) + level * lambda1 * np.sign(x) * (z - x), lambda1 * abs(z))


def _as_prox(v: StepsView) -> Sides:
    """A minimiser with the l1 norm stays, its update 0, if |grad L_k(theta) - c_k + c| <= lambda_1."""
    pull = v.slopes - v.controls + v.mean_control
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
statement = partial(
    FILE.statement, over=StepsView, symbols=SYMBOLS,
    assumptions=("quadratic losses, full gradients", "all clients take part"),
)
MEAN, STEPS = r"c_k^+=\tfrac1B\sum_{b<B}\nabla L_k(y_b)", (FRESH, SHORT)


@statement("eq-6", source="section 3.2, (5) and (6)")
def eq_6(q):
    """the control variate is the mean of the gradients that were seen"""
    yield form(
        "mean of the gradients", lambda: _control(q), MEAN + r"\text{ with the steps (5)}",
        wrong("the last gradient", lambda: eq(q.next_controls, q.gradients(q.path[-1]))),
        holds=True, needs=(PLAIN,), wording="algorithm", proof="note",
        note="(5) says theta^{t-1} - theta_k = eta_l sum_b (grad L_k(y_b) - c_k + c), and (6) "
        "divides that by B eta_l",
    )


@statement(
    "eq-7", title="what the penalties do to the local steps and to the control variate",
    source="section 3.2, (7); Algorithm 2, lines 7 and 9",
)
def eq_7(q):
    yield form(
        "control variate", lambda: _control(q), MEAN + r"\text{ with the steps (7)}", fails=True,
        needs=(PENALISED,), wording="algorithm",
        note="line 9 keeps (6), so the control variate takes the penalties for a part of the "
        "client's gradient",
    )
    yield repaired(
        lambda: _control(q, 1, 1),
        MEAN + r"+\tfrac1B\sum_{b<B}[\lambda_2(y_b-\theta^{t-1})+\lambda_1\mathrm{sign}(y_b-"
        r"\theta^{t-1})]", wrong("9/10 lambda_1", lambda: _control(q, 1, Fraction(9, 10))),
        wrong("lambda_2 dropped", lambda: _control(q, 0, 1)), holds=True, needs=(PENALISED,),
        proof="docs/fedelasticnet_claims.md#5-to-7",
    )
    yield form(
        "the gradient of the l1 norm", lambda: _subgradient(q),
        r"\lambda_1\|z\|_1\ge\lambda_1\|x\|_1+\langle\lambda_1\mathrm{sign}(x),z-x\rangle\ \ "
        r"\forall z", wrong("11/10 of it", lambda: _subgradient(q, Fraction(11, 10))), holds=True,
        needs=(L1,), wording="in words",
        proof="|z| >= sign(x) z for every z, also with sign(0) = 0, and |x| = sign(x) x",
        note="'corresponds to the gradient': it is a subgradient everywhere, sign(0) = 0 included, "
        "and a gradient where no entry is 0. Judged entry by entry, at updates of two clients",
    )
    yield form(
        "the first step", lambda: _first_step(q), r"y_1\text{ of (7)}=y_1\text{ of (5)}",
        wrong("sign(0) = 1", lambda: _first_step(q, 1)), holds=True, needs=(L1,), proof="note",
        note="y_0 = theta^{t-1}, where both penalties have the gradient 0: with B = 1 they do "
        "nothing",
    )
    yield form(
        "it sparsifies", lambda: _as_prox(q),
        r"|\nabla L_k(\theta^{t-1})-c_k+c|_i\le\lambda_1\Rightarrow(\theta_k^t-\theta^{t-1})_i=0",
        fails=True, needs=(L1,), wording="in words",
        note="'this l1-norm regularizer sparsifies the local update', read as what a minimiser of "
        "the l1 norm does: a step of (7) leaves 0 first and comes back to it by chance only",
    )


@statement("local-direction", source="section 3.2, after (6)")
def local_direction(q):
    """control variates turn local steps towards the global optimum"""
    yield form(
        "an acute angle", lambda: _towards(q),
        r"\langle\theta_k^t-\theta^{t-1},\theta_*-\theta^{t-1}\rangle\ge0\text{ for every client}",
        fails=True, needs=(PLAIN, SHORT, SOLVED), wording="in words",
        note="'in the direction of the global optimum rather than each local optimum', read as an "
        "acute angle. Control variates of earlier rounds say little of the gradients now: in the "
        "first round all are 0, and each client goes its own way",
    )
    yield form(
        "fresh, an acute angle", lambda: _towards(q),
        r"\langle\theta_k^t-\theta^{t-1},\theta_*-\theta^{t-1}\rangle\ge0,\quad c_k=\nabla "
        r"L_k(\theta^{t-1})", fails=True, needs=(PLAIN, SOLVED, *STEPS), wording="in words",
        note="even then the steps bend where Hessians differ: eight of them may leave the half "
        "space of the optimum",
    )
    yield repaired(
        lambda: _descent(q, 1),
        r"\langle\nabla R(\theta^{t-1}),\theta_k^t-\theta^{t-1}\rangle\le-\eta_l\|\nabla "
        r"R(\theta^{t-1})\|^2,\quad c_k=\nabla L_k(\theta^{t-1})",
        wrong("11/10 of it", lambda: _descent(q, Fraction(11, 10))), holds=True,
        needs=(PLAIN, *STEPS), proof="docs/fedelasticnet_claims.md#5-to-7",
        note="a direction of descent of R: the steps are gradient descent from theta^{t-1} on a "
        "convex function whose gradient there is grad R; on quadratics sum_b (I - eta_l H_k)^b is "
        "at least I. For any convex smooth L_k: at most -eta_l/2 of the square",
    )
    yield form(
        "of the steps (7)", lambda: _descent(q),
        r"\langle\nabla R(\theta^{t-1}),\theta_k^t-\theta^{t-1}\rangle\le0,\quad c_k=\nabla "
        r"L_k(\theta^{t-1})", fails=True, needs=(PENALISED, *STEPS), wording="algorithm",
        note="the second step is pushed back by eta_l lambda_1 whatever the first one was: where "
        "that was shorter it ends on the other side",
    )
    yield form(
        "at the optimum", lambda: eq(q.moves, 0 * q.moves),
        r"\theta^{t-1}=\theta_*,\ c_k=\nabla L_k(\theta_*)\Rightarrow\theta_k^t=\theta_*",
        wrong(
            "control variates of 0",
            lambda: eq(replace(q, controls=0 * q.controls).moves, 0 * q.moves),
        ),
        holds=True, needs=(AT_REST, FRESH),
        proof="the mean c of the c_k is grad R(theta_*) = 0, so that every step of (5) is 0, and "
        "of (7) with sign(0) = 0", note="with (5) and with (7)",
    )
