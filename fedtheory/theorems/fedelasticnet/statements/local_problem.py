"""FedElasticNet, (4), (8), (9): the local problem, its solution, and what lambda_1 does to it."""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

import numpy as np

from fedtheory.theorems.fedelasticnet.main_text import world
from fedtheory.theorems.fedelasticnet.main_text.quadratics import (
    hessian,
    identity,
    minimiser,
    semidefinite,
    sq,
)
from fedtheory.theorems.fedelasticnet.notation import tight
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.quantities import soft
from fedtheory.theorems.fedelasticnet.world import Data, positive
from fedtheory.theory import EachOf, Fact, Sides, derived, eq, form, le, number, printed, wrong
from fedtheory.theory.fields import Read

CONVEX = Fact("L_k is convex", lambda q: semidefinite(q.H))
PLAIN = Fact("g_k = 0, as in (4)", lambda q: not q.g.any())
DYNAMIC = Fact("lambda_1 = 0, as in (8)", lambda q: not q.lambda1)
WITH_L1 = Fact("lambda_1 > 0", lambda q: q.lambda1)
DIAGONAL = Fact("H is diagonal", lambda q: not (q.H - np.diag(np.diagonal(q.H))).any())
PRACTICE = Fact(
    "lambda_1 = 10^-4 or 10^-6", lambda q: q.lambda1 in (Fraction(1, 10**4), Fraction(1, 10**6)),
)
KNOWN = Fact("a convex loss, or the diagonal of H", lambda q: q.has(DIAGONAL) or q.has(CONVEX))
LARGE = Fact(
    "H is diagonal, and |H_ii| <= beta < lambda_2",
    lambda q: q.has(DIAGONAL) and q.lambda2 > q.beta,
)
STANDS = Fact(
    "theta^{t-1} is a strict local minimiser of F", lambda q: (abs(q.pull) < q.lambda1).all()
)


@dataclass(kw_only=True)
class LocalView(world.MainTextWorld):
    """One client's problem, L(y) - <g, y> + lambda_2/2 ||y - theta||^2 + lambda_1 ||y - theta||_1."""

    kind, size = "local", 40
    about, asks = "about each client's local problem", (world.QUADRATIC,)
    example = "--problem diabetes --clients 3"
    accepts: ClassVar = {"trial": world.TRIAL}
    by_hand: ClassVar = {
        **{
            label: {
                "H": [h], "q": [q], "theta": ["0"], "lambda1": l1, "lambda2": l2, "trial": [trial],
            }
            for label, h, q, l1, l2, trial in (
                ("a slope", "0", "3", "1", "2", "2"),
                ("a slope, without l1", "0", "3", "0", "2", "2"),
                ("at the edge", "1", "1", "1", "2", "1"),
                ("within a tenth of the edge", "1", "21/20", "1", "2", "0"),
                ("curved downwards", "-1", "3", "1", "2", "3"),
                ("unbounded below", "-1", "0", "1", "1/2", "8"),
                ("a small gradient", "1", "1/20000", "1/10000", "1", "0"),
            )
        },
        "fewer nonzeros without l1": {
            "H": [["7/8", "2"], ["2", "39/8"]], "q": ["2", "4"], "theta": ["0", "0"],
            "lambda1": "1/10", "lambda2": "1/8",
        },
    }  # fmt: skip

    demands: ClassVar = (KNOWN,)
    units = ("H", "q", "g", "lambda1", "lambda2")
    shows: ClassVar = {"d": "d", "lambda_1": "lambda1", "lambda_2": "lambda2"}

    theta: np.ndarray = number("d", "the server's model")
    # of L(y) = y'Hy/2 - q'y; H may have negative eigenvalues if it is diagonal
    H: np.ndarray = field(metadata={"read": Read(hessian, shape=("d", "d"))})
    lambda1: Fraction = number(least=0)
    lambda2: Fraction = number(above=0)
    q: Any = number("d", default=None)
    g: Any = number("d", "the stored gradient of (8) and (10), 0 in (4)", default=None)
    trial: Any = number("d", "any point that the minimiser is compared with", default=None)

    def __post_init__(self) -> None:
        zero = 0 * self.theta
        self.fill(q=zero, g=zero, trial=zero)

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, Data]:
        """Draw a convex loss, or one that may be curved downwards, with and without g and l1."""
        d = int(rng.integers(1, 4))
        data: Data = {"H": world.hessian(rng, d), "q": world.point(rng, d), "theta": world.point(rng, d)}
        data |= {"lambda2": positive(rng, 16), "trial": world.point(rng, d)}
        data["lambda1"] = positive(rng, 16) if rng.random() < 0.7 else Fraction(0)
        shape = int(rng.integers(4))
        if shape == 0:
            data["g"] = world.point(rng, d)
        elif shape == 1:
            data["H"] = world.point(rng, d)
            if rng.random() < 0.5:
                data["lambda2"] = max(abs(h) for h in data["H"]) + positive(rng, 16)
        elif shape == 2 and rng.random() < 0.3:
            data["lambda1"] = Fraction(1, 10 ** int(rng.choice([4, 6])))
        return f"d={d}", data

    @classmethod
    def on_problem(cls, statement: Any, case: Any) -> EachOf:
        """Take each client's local problem in the first round, where the stored gradient is 0."""
        common = {"theta": world.exact(case.x0), "trial": world.trial_of(case), **world.lambdas(case)}
        losses = zip(*world.quadratics(case), strict=True)
        return EachOf([cls.instance("", {"H": h, "q": q, **common}).view() for h, q in losses])

    d = derived(lambda v: len(v.theta))
    beta = derived(lambda v: abs(np.diagonal(v.H)).max(), "the least beta of a diagonal H")

    def gradient(self, y: np.ndarray) -> np.ndarray:
        """grad L(y)."""
        return self.H @ y - self.q

    def objective(self, y: np.ndarray) -> Any:
        """The function that the client minimises, at y."""
        away = y - self.theta
        loss = (y * (self.H @ y)).sum() / 2 - ((self.q + self.g) * y).sum()
        return loss + self.lambda2 / 2 * sq(away) + self.lambda1 * abs(away).sum()

    pull = derived(
        lambda v: v.g - v.gradient(v.theta),
        "g - grad L(theta): what would move the client from the server's model",
    )
    delta = derived(
        lambda v: minimiser(v.H + v.lambda2 * identity(v.d), v.pull, v.lambda1), "theta_k - theta"
    )
    local = derived(lambda v: v.theta + v.delta)
    v = derived(
        lambda v: v.g - v.gradient(v.local),
        "g - grad L(theta_k), which is lambda_2 delta + lambda_1 s",
    )
    without_l1 = derived(lambda v: replace(v, lambda1=Fraction(0)), "the same with lambda_1 = 0")


def _least(v: LocalView, at: np.ndarray | None = None) -> Sides:
    """F(theta_k) <= F(trial)."""
    return le(v.objective(v.local if at is None else at), v.objective(v.trial))


def _growth(v: LocalView, rate: Any) -> Sides:
    """F(theta_k) + rate/2 ||trial - theta_k||^2 <= F(trial)."""
    return le(v.objective(v.local) + rate / 2 * sq(v.trial - v.local), v.objective(v.trial))


def nonzeros(delta: np.ndarray) -> Fraction:
    """Count the entries that are not 0."""
    return Fraction(int((delta != 0).sum()))


def _threshold(v: LocalView, share: Any = 1) -> Sides:
    return eq(v.lambda2 * v.delta, soft(v.v, share * v.lambda1))


def _fedprox_and_no_less(v: LocalView, more: int = 0) -> Sides:
    return le(nonzeros(v.delta) + more, nonzeros(v.without_l1.delta))


def _stays(v: LocalView, share: Any = 1) -> Sides:
    still, held = (v.delta == 0).all(), (abs(v.pull) <= share * v.lambda1).all()
    return eq(world.exact(still), world.exact(held))


def _condition(v: LocalView, sign_of_delta: int = 1) -> Sides:
    return eq(v.gradient(v.local) - v.g + sign_of_delta * v.lambda2 * v.delta, 0 * v.g)


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
statement = partial(
    FILE.statement, over=LocalView, symbols=SYMBOLS,
    assumptions=("quadratic losses; the proofs in the notes are for any convex ones", "lambda_2 > 0"),
)
TENTH, MORE = Fraction(9, 10), Fraction(11, 10)


@statement("eq-4", source="section 3, (4)")
def eq_4(q):
    """the local problem of FedElasticNet has one solution, a soft threshold"""
    yield printed(
        lambda: _least(q), r"F(\theta_k^t)\le F(y)\ \ \forall y" + F_4,
        wrong("without l1", lambda: le(q.objective(q.without_l1.local), q.objective(q.local))),
        holds=True, needs=(CONVEX, PLAIN, WITH_L1), proof="definition of theta_k^t",
        note="theta_k^t = argmin F, for convex L_k",
    )
    yield form(
        "unique", lambda: _growth(q, q.lambda2),
        r"F(\theta_k^t)+\tfrac{\lambda_2}2\|y-\theta_k^t\|^2\le F(y)\ \ \forall y",
        wrong("11/10 lambda_2", lambda: _growth(q, MORE * q.lambda2)), holds=True,
        needs=(CONVEX, PLAIN, WITH_L1), proof="note", note="F is lambda_2-strongly convex",
    )
    yield form(
        "any smooth loss", lambda: _least(q, q.theta),
        r"F(\theta)\le F(y)\ \ \forall y,\quad\theta\text{ a local minimiser of }F", fails=True,
        needs=(STANDS, PLAIN, WITH_L1),
        note="section 3 asks nothing of L_k, and the experiments have networks: where lambda_2 is "
        "below the curvature F need not be bounded below, and then (4) has no solution. L = "
        "-y^2/2, lambda_2 = 1/2 is such a case",
    )
    yield form(
        "smooth, lambda_2 > beta", lambda: _growth(q, q.lambda2 - q.beta),
        r"F(\theta_k^t)+\tfrac{\lambda_2-\beta}2\|y-\theta_k^t\|^2\le F(y)\ \ \forall y",
        wrong("11/10 of it", lambda: _growth(q, MORE * (q.lambda2 - q.beta))), holds=True,
        needs=(LARGE, PLAIN, WITH_L1), proof="note",
        note="without convexity: F is convex once beta/2 ||y||^2 is added to L_k",
    )
    yield form(
        "soft threshold", lambda: _threshold(q),
        r"\lambda_2(\theta_k^t-\theta^{t-1})=\mathrm{soft}(g_k-\nabla L_k(\theta_k^t),\lambda_1)",
        wrong("9/10 lambda_1", lambda: _threshold(q, TENTH)), holds=True, needs=(CONVEX, WITH_L1),
        proof="first-order condition of (10), and of (4) with g_k = 0: g_k - grad L_k(theta_k) - "
        "lambda_2 delta is lambda_1 times a subgradient of the 1-norm at delta",
        note="(4) where g_k = 0, and (10); it is (11) with the subgradient s",
    )


@statement("eq-8", source="section 3.3, (8)")
def eq_8(q):
    """FedDyn's local problem has one solution"""
    yield printed(
        lambda: _least(q), r"F(\theta_k^t)\le F(y)\ \ \forall y" + F_8,
        wrong(
            "from the server's model only", lambda: le(q.objective(q.theta), q.objective(q.local)),
        ),
        holds=True, needs=(CONVEX, DYNAMIC), proof="definition of theta_k^t",
    )
    yield form(
        "unique", lambda: _growth(q, q.lambda2),
        r"F(\theta_k^t)+\tfrac{\lambda_2}2\|y-\theta_k^t\|^2\le F(y)\ \ \forall y",
        wrong("11/10 lambda_2", lambda: _growth(q, MORE * q.lambda2)), holds=True,
        needs=(CONVEX, DYNAMIC), proof="F is lambda_2-strongly convex",
    )


@statement(
    "eq-9", source="section 3.3, (9) and the sentence after it, which stands after (11) again",
)
def eq_9(q):
    """first-order condition of FedDyn, and what it says of the server's model"""
    yield printed(
        lambda: _condition(q), r"\nabla L_k(\theta_k^t)-g_k+\lambda_2(\theta_k^t-\theta^{t-1})=0",
        wrong("wrong sign", lambda: _condition(q, -1)), holds=True, needs=(CONVEX, DYNAMIC),
        proof="first-order condition of (8)",
        note="so g_k - lambda_2 (theta_k - theta), which FedDyn stores, is the gradient at theta_k",
    )
    yield form(
        "consistent, in every round", lambda: eq(q.local, q.theta), r"\theta_k^t=\theta^{t-1}",
        fails=True, needs=(CONVEX,), wording="in words",
        note="'the stationary points of the local objective function are consistent with the "
        "server model', of (8) and again of (10): the local solution is not the server's model "
        "before the method is at rest",
    )
    yield form(
        "consistent, when", lambda: _stays(q),
        r"\theta_k^t=\theta^{t-1}\Leftrightarrow\|g_k-\nabla "
        r"L_k(\theta^{t-1})\|_\infty\le\lambda_1",
        wrong("never", lambda: eq(world.exact((q.delta == 0).all()), 0)), holds=True,
        needs=(CONVEX,), proof="docs/fedelasticnet_claims.md#4-8-9-and-sparsity",
        note="in (8), lambda_1 = 0, it is so when the stored gradient is the gradient at "
        "theta^{t-1}; in (10) within lambda_1 of it",
    )


@statement("sparsification", source="section 3, after (4); sections 3.1 to 3.3")
def sparsification(q):
    """the l1 norm sparsifies the local update"""
    yield form(
        "never more", lambda: _fedprox_and_no_less(q),
        r"\mathrm{nnz}(\delta)\le\mathrm{nnz}(\delta^0)", fails=True, needs=(CONVEX, WITH_L1),
        wording="in words",
        note="'attempts to sparsify': where coordinates mix, a coordinate that happens to be 0 "
        "without l1 need not stay so",
    )
    yield form(
        "coordinates that do not mix", lambda: _fedprox_and_no_less(q),
        r"\mathrm{nnz}(\delta)\le\mathrm{nnz}(\delta^0)",
        wrong("one fewer", lambda: _fedprox_and_no_less(q, 1)), holds=True,
        needs=(CONVEX, DIAGONAL, WITH_L1),
        proof="delta_i = soft(p_i, lambda_1)/(H_ii + lambda_2) with the pull p = g - grad "
        "L(theta), which is 0 wherever p_i is",
    )
    yield tight(
        "count",
        lambda: le(q.lambda1 * nonzeros(q.delta) + q.lambda2 * abs(q.delta).sum(), abs(q.v).sum()),
        r"\lambda_1\mathrm{nnz}(\delta)+\lambda_2\|\delta\|_1\le\|g_k-\nabla L_k(\theta_k^t)\|_1",
        less="9/10 of it", needs=(CONVEX, WITH_L1), proof="note",
        note="the 1-norm of (11) with s; so nnz <= ||g_k - grad L_k(theta_k)||_1/lambda_1",
    )
    yield form(
        "nothing moves", lambda: _stays(q),
        r"\delta=0\Leftrightarrow\|g_k-\nabla L_k(\theta^{t-1})\|_\infty\le\lambda_1",
        wrong("9/10 lambda_1", lambda: _stays(q, TENTH)),
        wrong("11/10 lambda_1", lambda: _stays(q, MORE)), holds=True, needs=(CONVEX, WITH_L1),
        proof="docs/fedelasticnet_claims.md#4-8-9-and-sparsity",
    )


@statement(
    "impact-of-lambda-1", title="how much the lambda_1 of (12) changes a local update",
    source="section 3.3, after (12)",
)
def impact_of_lambda_1(q):
    yield form(
        "a hundredth", lambda: le(10**4 * sq(q.delta - q.without_l1.delta), sq(q.without_l1.delta)),
        r"\|\delta-\delta^0\|\le\tfrac1{100}\|\delta^0\|", fails=True, needs=(CONVEX, PRACTICE),
        wording="in words",
        note="'would be negligible' for lambda_1 = 10^-4 or 10^-6, read as a hundredth; a gradient "
        "below lambda_1 is lost whole, and where a run settles g_k - grad L_k may be as small as "
        "one likes",
    )
    yield tight(
        "repaired", lambda: le(q.lambda2**2 * sq(q.delta - q.without_l1.delta), q.d * q.lambda1**2),
        r"\|\delta-\delta^0\|\le\tfrac{\lambda_1}{\lambda_2}\sqrt d", less="9/10 of it",
        needs=(CONVEX, WITH_L1), proof="note",
        note="squared here. The two conditions differ by lambda_1 s, and H + lambda_2 moves no "
        "less than lambda_2. With Table 5's lambda_2 = 10^-2, lambda_1 = 10^-4 that is 10^-2 a "
        "coordinate",
    )
    yield tight(
        "how far from (9)",
        lambda: le(abs(q.gradient(q.local) - q.g + q.lambda2 * q.delta), q.lambda1 + 0 * q.g),
        r"\|\nabla L_k(\theta_k^t)-g_k+\lambda_2(\theta_k^t-\theta^{t-1})\|_\infty\le\lambda_1",
        less="9/10 of it", needs=(CONVEX, WITH_L1),
        proof="(11): the left side is the sup norm of lambda_1 s, |s_i| <= 1",
    )
    yield form(
        "units", lambda: _units(q),
        r"\delta(cL_k,cg_k,c\lambda_1,c\lambda_2)=\delta(L_k,g_k,\lambda_1,\lambda_2)",
        wrong("lambda_1 left as it is", lambda: _units(q, False)), holds=True,
        needs=(CONVEX, WITH_L1),
        proof="the local objective is c times as large, and has the same minimiser",
        note="judged with c = 7/2: lambda_1 has the units of a gradient, so no number is small by "
        "itself",
    )
