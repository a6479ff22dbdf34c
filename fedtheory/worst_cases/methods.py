"""A round of every method of which worst cases are computed, one page a method.

A page is written once: `Run` reads it for exchangeable clients, `Tree` for every cohort that may be drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any

from fedtheory.algorithms.fedmls import local_steps
from fedtheory.errors import InvalidInput

__all__ = ["METHODS", "Asked", "Method"]


@dataclass(frozen=True)
class Asked:
    """The numbers that a page needs to know.

    Attributes
    ----------
    steps, rounds : K and T
    options : of the method
    lipschitz : G, where gradients are bounded
    """

    steps: int
    rounds: int
    options: Mapping[str, Fraction]
    lipschitz: Fraction | None = None


@dataclass(frozen=True)
class Scale:
    """In what units a default is given.

    Attributes
    ----------
    smoothness, lipschitz : L and G; 1 where there is none
    distance, rounds : ||x_0 - x*|| and T
    """

    smoothness: Fraction
    lipschitz: Fraction
    distance: Fraction
    rounds: int


Page = Callable[[Any, int, Any, Any, Asked], tuple[Any, Any]]  # run, t, model, state (None at first) -> model, state
Default = Callable[[Scale], Fraction] | None


@dataclass(frozen=True)
class Method:
    """A method of which worst cases are computed.

    Attributes
    ----------
    about : what it is, in a line
    page : callable(run, round, model, state, asked) -> the server's next model and the next state
    options : dict name -> what it is
    defaults : dict name -> callable(scale) -> its value where the user gives none; None for an option that may be left out
    local_steps : whether K means something: 'always', 'never', or the option with which it does
    smooth : losses are smooth; else their gradients are bounded
    cohorts : a cohort may be drawn
    one_loss : it has no clients
    relaxed : what of the problem is left out, so that the value is an upper bound only
    """

    about: str
    page: Page
    options: Mapping[str, str]
    defaults: Mapping[str, Default]
    local_steps: str = "always"
    smooth: bool = True
    cohorts: bool = True
    one_loss: bool = False
    relaxed: str = ""

    def chosen(self, given: Mapping[str, Fraction], scale: Scale) -> dict[str, Fraction]:
        """Every option, given or its default.

        Raises
        ------
        InvalidInput
            An option that the method has not, or that is not above 0; no distance to make a default of.
        """
        found: dict[str, Fraction] = {}
        for name, default in self.defaults.items():
            if name in given:
                found[name] = given[name]
            elif default is not None:
                found[name] = default(scale)
                if found[name] <= 0:  # smoothness and lipschitz are above 0
                    other = f", or give {name}" if scale.distance == 0 else ""
                    why = f"the default of {name} is a multiple of it"
                    raise InvalidInput(f"distance = {scale.distance}: {why}; take one above 0{other}")
        self.check({**given, **found})
        return found

    def check(self, options: Mapping[str, Fraction]) -> None:
        """Refuse options that are unknown, missing, or not above 0.

        Raises
        ------
        InvalidInput
            Which, and what there is.
        """
        other = sorted(set(options) - set(self.options))
        if other:
            raise InvalidInput(f"{', '.join(other)}: no option of this method, which has {', '.join(self.options) or 'none'}")
        missing = [name for name, default in self.defaults.items() if default is not None and name not in options]
        if missing:
            raise InvalidInput(f"{', '.join(missing)}: this method needs it")
        for name, number in options.items():
            if number <= 0:
                raise InvalidInput(f"{name} = {number}: it must be above 0")

    def takes_steps(self, options: Mapping[str, Fraction]) -> bool:
        """True if the number of local steps means anything."""
        return self.local_steps == "always" or self.local_steps in options


def _zero(run: Any, state: Any) -> Any:
    return run.zero if state is None else state


def _solve(run: Any, t: int, x: Any, linear: Any, factor: Fraction, asked: Asked) -> tuple[Any, Any]:
    """y and grad f_k(y) for the minimiser y of f_k - <linear, .> + factor/2 ||. - x||^2; or y of K
    gradient steps, and None."""
    step = asked.options.get("step")
    if step is None:
        where = lambda g: x + (1 / factor) * (linear - g)  # noqa: E731
        gradient = run.solved(f"g{t}", where)
        return where(gradient), gradient
    y = x
    for j in range(asked.steps):
        y = y - step * (run.gradient(f"g{t}.{j}", y) - linear + factor * (y - x))
    return y, None


def _fedavg(run: Any, t: int, x: Any, state: Any, asked: Asked) -> tuple[Any, Any]:
    """FedAvg with full gradients: K steps of each client from the server's model; the mean."""
    y = x
    for j in range(asked.steps):
        y = y - asked.options["step"] * run.gradient(f"g{t}.{j}", y)
    return run.mean(y), None


def _fedprox(run: Any, t: int, x: Any, state: Any, asked: Asked) -> tuple[Any, Any]:
    """y_k = argmin f_k + mu/2 ||y - x||^2; the server takes the mean."""
    y, _ = _solve(run, t, x, run.zero, asked.options["mu"], asked)
    return run.mean(y), None


def _feddyn(run: Any, t: int, x: Any, state: Any, asked: Asked) -> tuple[Any, Any]:
    """y_k = argmin f_k - <g_k, y> + alpha/2 ||y - x||^2, g_k - alpha (y_k - x) is kept, h the mean
    of g, x = mean y - h/alpha."""
    alpha, stored = asked.options["alpha"], _zero(run, state)
    y, gradient = _solve(run, t, x, stored, alpha, asked)
    stored = run.put(stored, stored - alpha * (y - x) if gradient is None else gradient)
    return run.mean(y) - (1 / alpha) * stored.average, stored


def _fedelasticnet(run: Any, t: int, x: Any, state: Any, asked: Asked) -> tuple[Any, Any]:
    """Algorithm 3, true-gradient rule: FedDyn whose local problems have lambda_1 ||y - x||_1, too;
    p = lambda_1 s its subgradient."""
    step = 1 / asked.options["l2"]
    kept, moves = (run.zero, {}) if state is None else state
    pull = run.vector(f"p{t}")
    gradient = run.solved(f"g{t}", lambda g: x + step * (kept - g - pull))
    y = x + step * (kept - gradient - pull)
    _subgradients_of_l1(run, f"p{t}", pull, y - x, moves)
    stored = run.put(kept, gradient)
    return run.mean(y) - step * stored.average, (stored, {**moves, f"p{t}": (pull, y - x)})


def _subgradients_of_l1(run: Any, name: str, pull: Any, move: Any, moves: Mapping[str, tuple[Any, Any]]) -> None:
    """lambda_1 ||m||_1 = <p, m> for its own subgradient p, and at least <q, m> and -<q, m> for every other one.

    Another one is this client's of another round, or the clients' mean of a round.
    """
    run.require(f"{name}, 0", pull, move)
    for sign, word in ((1, ""), (-1, "minus ")):
        run.require(f"{name}, {word}mean {name}", pull - sign * pull.average, move)
        for of, (q, moved) in moves.items():
            run.require(f"{name}, {word}{of}", pull - sign * q, move)
            run.require(f"{name}, {word}mean {of}", pull - sign * q.average, move)
            run.require(f"{of}, {word}{name}", q - sign * pull, moved)
            run.require(f"{of}, {word}mean {name}", q - sign * pull.average, moved)


def _scaffold(run: Any, t: int, x: Any, state: Any, asked: Asked) -> tuple[Any, Any]:
    """K steps along grad f_k - c_k + c; c_k becomes the mean of the client's gradients (option II); c_k = 0 at first."""
    variate, y, seen = _zero(run, state), x, run.zero
    for j in range(asked.steps):
        gradient = run.gradient(f"g{t}.{j}", y)
        y, seen = y - asked.options["step"] * (gradient - variate + variate.average), seen + gradient
    return run.mean(y), run.put(variate, Fraction(1, asked.steps) * seen)


def _subgradient(run: Any, t: int, x: Any, state: Any, asked: Asked) -> tuple[Any, Any]:
    """The server steps along the mean of the clients' subgradients."""
    return x - asked.options["step"] * run.mean(run.gradient(f"g{t}", x)), None


def _slide(run: Any, k: int, z: Any, linear: Any, beta: Fraction, asked: Asked) -> tuple[Any, Any]:
    """min f(u) + <linear, u> + beta/2 ||u - z||^2: its solution twice, or the last point and the average of T_k steps."""
    D, lam = asked.options.get("D"), asked.options["lam"]
    if D is None:
        where = lambda g: z - (1 / beta) * (g + linear)  # noqa: E731
        u = where(run.solved(f"g{k}", where))
        return u, u
    u = average = z
    for t in range(1, local_steps(k, lam, D, asked.rounds, asked.lipschitz) + 1):
        u = u - (1 / ((1 + Fraction(t, 2)) * beta)) * (run.gradient(f"g{k}.{t}", u) + beta * (u - z) + linear)
        theta = Fraction(2 * (t + 1), t * (t + 3))
        average = (1 - theta) * average + theta * u
    return u, average


def _fedmls(run: Any, t: int, x: Any, state: Any, asked: Asked) -> tuple[Any, Any]:
    """FedMLS on all of space, line 14 with the average; x_K does not depend on the last round's local training."""
    k, lam = t + 1, asked.options["lam"]
    z, x_local, z_local = (x, x, x) if state is None else state
    gamma, beta = Fraction(2, k + 1), 4 / (lam * k)
    y, y_local = (1 - gamma) * x + gamma * z, (1 - gamma) * x_local + gamma * z_local
    z = z - Fraction(k, 4) * (y - run.mean(y_local))
    x = (1 - gamma) * x + gamma * z
    if k == asked.rounds:
        return x, None
    z_local, average = _slide(run, k, z_local, (1 / lam) * (y_local - y), beta, asked)
    return x, (z, (1 - gamma) * x_local + gamma * average, z_local)


def _mopes(run: Any, t: int, x: Any, state: Any, asked: Asked) -> tuple[Any, Any]:
    """MOPES over any closed convex set: a projection is its optimality condition, with a normal of the set."""
    k, lam = t + 1, asked.options["lam"]
    z, x_local, z_local, inside = (x, x, x, [("x0", x, None), ("*", run.zero, -run.optimum)]) if state is None else state
    if state is None:
        run.require("*, x0", run.optimum, x)
    gamma, beta = Fraction(2, k + 1), 4 / (lam * k)
    y, y_local = (1 - gamma) * x + gamma * z, (1 - gamma) * x_local + gamma * z_local
    normal = run.vector(f"n{k}", everybody=True)
    z = z - Fraction(k, 4) * (y - y_local) - normal
    for name, other, turned in inside:  # <n, z' - z> <= 0 for a normal n at z and every z' of the set
        run.require(f"z{k}, {name}", normal, z - other)
        if turned is not None:
            run.require(f"{name}, z{k}", turned, other - z)
    x = (1 - gamma) * x + gamma * z
    if k == asked.rounds:
        return x, None
    z_local, average = _slide(run, k, z_local, (1 / lam) * (y_local - y), beta, asked)
    return x, (z, (1 - gamma) * x_local + gamma * average, z_local, [*inside, (f"z{k}", z, normal)])


def _root(rounds: int) -> Fraction:
    """sqrt(T), to six digits."""
    return Fraction(isqrt(rounds * 10**12), 10**6)


_STEP = {"step": "the step size of local gradient steps"}
_STEPS = {"step": "the step size of K local gradient steps; local problems are solved exactly without it"}
_SLIDING = {"lam": "lambda of the Moreau penalty", "D": "D~ of T_k; without it local problems are solved exactly"}
_INVERSE: Default = lambda scale: 1 / scale.smoothness  # noqa: E731
_CURVATURE: Default = lambda scale: scale.smoothness  # noqa: E731
_LAM: Default = lambda s: 4 * s.distance / (s.lipschitz * _root(s.rounds * (s.rounds + 1)))  # noqa: E731

METHODS: dict[str, Method] = {
    "fedavg": Method("FedAvg, that is local gradient descent", _fedavg, _STEP, {"step": _INVERSE}),
    "fedprox": Method(
        "FedProx", _fedprox, {"mu": "the factor of the proximal term", **_STEPS}, {"mu": _CURVATURE, "step": None}, "step"
    ),
    "scaffold": Method("SCAFFOLD with local gradient steps, c = 0 at first, server step 1", _scaffold, _STEP, {"step": _INVERSE}),
    "feddyn": Method(
        "FedDyn", _feddyn, {"alpha": "the factor of the proximal term", **_STEPS}, {"alpha": _CURVATURE, "step": None}, "step"
    ),
    "fedelasticnet": Method(
        "FedElasticNet's Algorithm 3 under the true-gradient rule, exact local solves, any lambda_1", _fedelasticnet,
        {"l2": "lambda_2"}, {"l2": lambda s: 2 * s.smoothness}, "never",
        relaxed="of the l1 term inequalities between its subgradients are used, and not what they are entry by entry",
    ),
    "subgradient": Method(
        "the distributed subgradient method", _subgradient, {"step": "the step size"},
        {"step": lambda s: s.distance / (s.lipschitz * _root(s.rounds))}, "never", smooth=False,
    ),
    "fedmls": Method(
        "FedMLS on all of space", _fedmls, _SLIDING, {"lam": _LAM, "D": None}, "never", smooth=False, cohorts=False
    ),
    "mopes": Method(
        "MOPES for one loss over any closed convex set", _mopes, _SLIDING, {"lam": _LAM, "D": None}, "never", smooth=False,
        cohorts=False, one_loss=True,
    ),
}  # fmt: skip
