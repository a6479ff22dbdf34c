"""One round's effect on a potential, in expectation over the cohort, for each method asked about.

Positions are relative to the optimum. P of N clients are drawn without replacement. The mean over
the cohort has the clients' mean as expectation, and as variance the spread (N - P)/(P (N - 1))
times the clients' variance; what a client keeps changes with probability P/N, the share. In one
round that is all that chance does to a squared distance.

The numbers may be symbols: nothing here compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from fedtheory.errors import InvalidInput
from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.gram import Quadratic, Vector, common, inner, own, square, value
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.runs import OPTIMUM, Run

__all__ = ["KAPPA", "KAPPA_0", "MINUS_C", "ROUNDS", "Asked", "C", "Kind", "Round", "chosen", "feddyn_round"]

KAPPA_0, KAPPA, C, MINUS_C = "kappa_0", "kappa", "c", "minus c"


@dataclass(frozen=True)
class Round:
    """E V+ <= rho V - kappa_0 D + c noise, V = ``now`` + kappa times what the clients keep.

    Attributes
    ----------
    now, after : what V begins with, before the round and in expectation after it
    gain : D
    points : where the clients' losses are asked
    memory : what the clients keep, before and in expectation after the round; None where they keep nothing
    noise : what c stands before; None where there is none
    more : dict name -> what has a multiplier besides, so that minus it is at least 0
    last : what is taken from the right side besides
    """

    now: Quadratic
    after: Quadratic
    gain: Quadratic
    points: list[Point]
    memory: tuple[Quadratic, Quadratic] | None = None
    noise: Quadratic | None = None
    more: Mapping[str, Quadratic] = field(default_factory=dict)
    last: Quadratic = field(default_factory=Quadratic)

    def family(self, losses: Losses, rho: Any = 1, fixed: Mapping[str, Any] | None = None) -> Family:
        """The identity. ``fixed``: those of kappa_0 and c that are given and not sought."""
        start = rho * self.now - self.after - self.last
        terms = {KAPPA_0: -self.gain}
        if self.memory is not None:
            terms[KAPPA] = rho * self.memory[0] - self.memory[1]
        if self.noise is not None:
            terms[MINUS_C] = -self.noise
        for name, number in (fixed or {}).items():
            start = start + (-number * terms.pop(MINUS_C) if name == C else number * terms.pop(name))
        terms |= self.more
        terms |= {name: -condition for name, condition in losses.conditions(self.points).items()}
        return Family(start, terms, frozenset({KAPPA_0, MINUS_C}) & frozenset(terms))


@dataclass(frozen=True)
class Asked:
    """The numbers of a round: K local steps, the options, the spread and the share of the cohort,
    the class, whether N = 1."""

    local_steps: int
    options: Mapping[str, Any]
    spread: Any
    share: Any
    losses: Losses
    alone: bool


@dataclass(frozen=True)
class Kind:
    """A potential of a method.

    Attributes
    ----------
    about : what the method is, in a line
    says : callable(options) -> the inequality, and what its letters are
    round : callable(`Asked`) -> `Round`
    options : dict name -> what it is
    default : callable(L, mu, K, N, P) -> dict name -> the options that are not given; an option without one may be left out
    remedy : what to change where there is no potential
    local_steps : whether the number of local steps means anything
    fixed : callable(`Asked`) -> dict: what is given of kappa_0 and c, where a user gives neither
    rho : callable(`Asked`) -> the factor where a user gives none
    """

    about: str
    says: Callable[[Mapping[str, Any]], tuple[str, str]]
    round: Callable[[Asked], Round]
    options: Mapping[str, str]
    default: Callable[[Any, Any, int, int, int], Mapping[str, Any]]
    remedy: str
    local_steps: bool = True
    fixed: Callable[[Asked], Mapping[str, Any]] = lambda _: {}
    rho: Callable[[Asked], Any] = lambda _: Fraction(1)


def _expected(after: Vector, spread: Any) -> Quadratic:
    """E ||mean over the cohort||^2."""
    return square(after.average) + spread * square(after.own_part)


def _changes(kept: Quadratic, new: Quadratic, share: Any) -> tuple[Quadratic, Quadratic]:
    """Return what the clients keep, now and in expectation after the round."""
    return kept, (1 - share) * kept + share * new


# --- FedDyn and FedElasticNet ---------------------------------------------------------------------
def feddyn_round(ratio: Any, spread: Any, share: Any, l1: bool) -> Round:
    """FedDyn with beta = 1, lambda_2 = ``ratio``; FedElasticNet under the true-gradient rule where there is an l1 term.

    With f_k less its tangent at theta*, gradients at theta* are 0: the basis is gamma, the stored gradients g at z, those at
    the new local models and at gamma, and s where there is an l1 term. Of s only <s_k, move of k> >= 0 is used.
    """
    step = 1 / ratio
    gamma, stored, new, at_gamma = common("gamma"), own("g"), own("g+"), own("grad f(gamma)")
    pull = own("s") if l1 else Vector()
    theta = gamma - step * stored.average
    local = theta + step * (stored - new - pull)
    points = [Point(OPTIMUM, Vector(), Vector()), Point("z", own("z"), stored),
              Point("local", local, new), Point("gamma", gamma, at_gamma)]
    return Round(
        square(gamma), _expected(local, spread), value("gamma") - value(OPTIMUM), points,
        _changes(square(stored), square(new), share),
        more={"s": -inner(pull, local - theta)} if l1 else {},
        last=2 * step * inner(gamma, pull.average) if l1 else Quadratic(),
    )  # fmt: skip


# --- local gradient descent -----------------------------------------------------------------------
def _fedavg(asked: Asked) -> Round:
    """K local gradient steps and the cohort's mean; with B the gradients at x are bounded, else those at the optimum."""
    run, x, K = Run(), common("x"), asked.local_steps
    y, gain, bounded = x, Quadratic(), "B" in asked.options
    for j in range(K):
        if j == 0 or not bounded:
            name = f"y{j}" if j == 0 else f"mean {j}"
            gain = gain + (Fraction(1) if bounded else Fraction(1, K)) * (value(name) - value(OPTIMUM))
        if j and not bounded:
            run.gradient(f"mean {j}", y.average)
        y = y - asked.options["step"] * run.gradient(f"y{j}", y)
    after = _expected(y, asked.spread)
    if not bounded:
        return Round(square(x), after, gain, list(run.points.values()), noise=None if _is_descent(asked) else square(run.optimum))
    least = Quadratic(constant=Fraction(1)) + 2 * asked.losses.largest_curvature * asked.options["B"] ** 2 * gain
    return Round(
        square(x), after, gain, list(run.points.values()), noise=Quadratic(constant=Fraction(1)),
        more={"dissimilarity": square(own("y0")) - least},
    )  # fmt: skip


def _is_descent(asked: Asked) -> bool:
    """True if a round is gradient descent on F, whatever the clients are at the optimum: nothing stands beside kappa_0."""
    return "B" not in asked.options and (asked.alone or (asked.local_steps == 1 and asked.spread == 0))


def _efl(asked: Asked) -> Round:
    """EFL's round with everybody active, full gradients and frozen anchors; c multiplies eta^2 B of its Theorem 1."""
    run, x, E = Run(), common("x"), asked.local_steps
    y, more, step = x, {}, asked.options["step"]
    L, mu = asked.losses.largest_curvature, asked.losses.strong_convexity
    for j in range(E):
        gradient = run.gradient(f"y{j}", y)
        more[f"G {j}"] = square(gradient) - Quadratic(constant=Fraction(1))
        y = y - step * gradient
    points = [*run.points.values(), Point("own optimum", own("w_k*"), Vector())]
    of_d, of_g = 6 * L * E, (2 + mu / (4 * L)) * E * (E - 1) * E + 2 * E * E
    noise = step**2 * (of_d * (value(OPTIMUM) - value("own optimum")) + Quadratic(constant=Fraction(of_g)))
    return Round(square(x), _expected(y, asked.spread), value("y0") - value(OPTIMUM), points, noise=noise, more=more)


def _scaffold(asked: Asked) -> Round:
    """K steps along grad f_k - c_k + c, then c_k is the mean of the client's gradients (option II).

    The c_k are any vectors: every vector is a gradient of some loss of the class that agrees at the other points.
    """
    run, x, kept = Run(), common("x"), own("c")
    y, seen, K = x, Vector(), asked.local_steps
    for j in range(K):
        gradient = run.gradient(f"y{j}", y)
        y, seen = y - asked.options["step"] * (gradient - kept + kept.average), seen + Fraction(1, K) * gradient
    star = run.optimum
    return Round(
        square(x), _expected(y, asked.spread), value("y0") - value(OPTIMUM),
        list(run.points.values()), _changes(square(kept - star), square(seen - star), asked.share),
    )


# --- FedProx --------------------------------------------------------------------------------------
def _fedprox(asked: Asked) -> Round:
    """Exact local solves, losses that need not be convex: what F loses. E F at the cohort's mean is
    bounded by smoothness."""
    x, at_x, solved = common("x"), own("grad f(x)"), own("grad f(y)")
    y = x - (1 / asked.options["mu"]) * solved
    points = [Point("x", x, at_x), Point("y", y, solved), Point("mean", y.average, own("grad f(mean)"))]
    after = value("mean") + asked.losses.largest_curvature / 2 * asked.spread * square(y.own_part)
    bound = asked.options["B"] ** 2 * square(at_x.average)
    return Round(value("x"), after, square(at_x.average), points, more={"dissimilarity": square(at_x) - bound})


_RATIO = {"ratio": "lambda_2/beta (of FedDyn: alpha/L)"}
_STEP = {"step": "the step size of local gradient steps"}
_DISTANCE = "D = F(x) - F*"
SMALLER = "Take a smaller step, or rho nearer to 1"
_ALL = "V = ||x - x*||^2"


_OF_GAMMA = "V = ||gamma - theta*||^2 + kappa mean ||g_k - grad f_k(theta*)||^2, beta = 1"


def _said(claim: str, where: str) -> Callable[[Mapping[str, Any]], tuple[str, str]]:
    return lambda _: (claim, where)


def _of_fedavg_said(options: Mapping[str, Any]) -> tuple[str, str]:
    if "B" in options:
        bounded = "mean ||grad f_k(x)||^2 <= G^2 + 2 L B^2 (F(x) - F*)"
        return "E V+ <= rho V - kappa_0 D + c G^2", f"{_ALL}, {_DISTANCE}, {bounded}"
    over = "D the mean of F - F* over the averages of the local models, step by step"
    return "E V+ <= rho V - kappa_0 D + c zeta^2", f"{_ALL}, {over}, zeta^2 = mean ||grad f_k(x*)||^2"


def _fedavg_step(L: Any, mu: Any, K: int, N: int, P: int) -> dict[str, Any]:
    return {"step": 1 / (4 * L * K)}


def _scaffold_step(L: Any, mu: Any, K: int, N: int, P: int) -> dict[str, Any]:
    most = 1 / (81 * L)
    return {"step": (most if mu == 0 else min(most, P / (15 * mu * N))) / K}


def _in_rounds(times: Fraction) -> Callable[[Asked], Mapping[str, Any]]:
    return lambda asked: {KAPPA_0: times * asked.options["step"] * asked.local_steps}


def _of_fedavg(asked: Asked) -> Mapping[str, Any]:
    if _is_descent(asked):
        return {}
    return _in_rounds(Fraction(1, 3) if "B" in asked.options else Fraction(1, 2))(asked)


def _half_contraction(asked: Asked) -> Any:
    """1 - mu h/2 with h = K step."""
    return 1 - asked.losses.strong_convexity * asked.options["step"] * asked.local_steps / 2


ROUNDS: dict[str, Kind] = {
    "feddyn": Kind(
        "FedDyn with exact local solves", _said("E V+ <= rho V - kappa_0 (R(gamma) - R*)", _OF_GAMMA),
        lambda a: feddyn_round(a.options["ratio"], a.spread, a.share, False), _RATIO, lambda *_: {},
        "There is one for every lambda_2 and rho = 1", False,
    ),
    "fedelasticnet-dyn": Kind(
        "FedElasticNet under the true-gradient rule",
        _said("E V+ <= rho V - kappa_0 (R(gamma) - R*) - (2/lambda_2) <gamma - theta*, mean lambda_1 s_k>", _OF_GAMMA),
        lambda a: feddyn_round(a.options["ratio"], a.spread, a.share, True), _RATIO, lambda *_: {},
        "With rho = 1 one is proved from lambda_2/beta = (1 + sqrt 13)/3 on: take 1.54 or more, or feddyn, which has no l1 term. Of "
        "the l1 term only <s_k, move of k> >= 0 is used: what cannot be proved so may still be true", False,
    ),
    "fedavg": Kind(
        "FedAvg, that is local gradient descent", _of_fedavg_said, _fedavg,
        _STEP | {"B": "the factor of bounded gradient dissimilarity at x"}, _fedavg_step, SMALLER, True, _of_fedavg,
        lambda a: _half_contraction(a) if "B" in a.options else Fraction(1),
    ),
    "scaffold": Kind(
        "SCAFFOLD with local gradient steps",
        _said("E V+ <= rho V - kappa_0 D", f"{_ALL} + kappa mean ||c_k - grad f_k(x*)||^2, {_DISTANCE}"),
        _scaffold, _STEP, _scaffold_step, SMALLER, rho=_half_contraction,
    ),
    "fedprox": Kind(
        "FedProx with exact local solves",
        _said("E F(x+) <= F(x) - kappa_0 ||grad F(x)||^2",
              "where mean ||grad f_k(x)||^2 <= B^2 ||grad F(x)||^2"), _fedprox,
        {"mu": "the factor of the proximal term", "B": "the factor of local dissimilarity at x"},
        lambda L, mu, *_: {"mu": 12 * L, "B": Fraction(1)}, "Take a larger mu", False,
    ),
    "efl": Kind(
        "EFL: everybody active, full gradients, no compression, frozen anchors",
        _said("E V+ <= rho V - kappa_0 D + c eta^2 B", f"{_ALL}, {_DISTANCE}, B of EFL's Theorem 1, with its D and G"),
        _efl, _STEP, lambda L, *_: {"step": 1 / (4 * L)}, SMALLER, True, lambda a: {KAPPA_0: Fraction(0)},
        lambda a: 1 - a.losses.strong_convexity * a.options["step"] * a.local_steps / 4,
    ),
}  # fmt: skip


def chosen(method: str, given: Mapping[str, Fraction], losses: Losses, steps: int, clients: int, participants: int) -> dict[str, Any]:
    """Every option, given or its default.

    Raises
    ------
    InvalidInput
        An option that the method has not, one that is missing, or one that is not above 0.
    """
    has = ROUNDS[method].options
    other = sorted(set(given) - set(has))
    if other:
        raise InvalidInput(f"{', '.join(other)}: no option of {method} with a potential, which has {', '.join(has)}")
    found = {**ROUNDS[method].default(losses.smoothness, losses.strong_convexity, steps, clients, participants), **given}
    for name, number in found.items():
        if number <= 0:
            raise InvalidInput(f"{name} = {number}: it must be above 0")
    if "ratio" in has and "ratio" not in found:
        raise InvalidInput(f"{method}: lambda_2/beta is needed: give a ratio, such as 2")
    return found
