"""Rounds of the package's own methods, in fractions on separable quadratics or in floats on a problem, and their local steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedtheory.algorithms.fedelasticnet_scaffold import FedElasticNetScaffold, FedElasticNetScaffoldState
from fedtheory.errors import InvalidInput
from fedtheory.participation.cohorts import Cohort
from fedtheory.randomness import Stream
from fedtheory.rational import Builders, fraction, integer, objects, table, vector
from fedtheory.steps import Loop
from fedtheory.theory.judge.setting import ClosedView

if TYPE_CHECKING:
    from fedtheory.theorems.fedelasticnet.algorithm_2.authored import ProblemWorld, SeparableWorld

__all__ = [
    "BUILDERS", "EVERYBODY", "MOST_STEPS", "ONE_STEP", "SEPARABLE", "Method", "RoundsView", "exactly", "numbers_of", "on_problem",
    "play", "quadratics", "scaffold", "sums", "trace", "without_l1",
]  # fmt: skip

BUILDERS = Builders()
MOST_STEPS = 20
# what a form may need
EVERYBODY, ONE_STEP, SEPARABLE = "everybody takes part", "B = 1", "L_k(x) = sum_i a_ki (x_i - c_ki)^2/2"


class Method(NamedTuple):
    """Numbers of Algorithm 2: lambda_1, lambda_2, eta_l, B and eta_g, as fractions or floats."""

    lambda1: Any
    lambda2: Any
    eta: Any
    B: int
    eta_g: Any


def quadratics(h: Any, c: Any) -> SeparableWorld:
    """L_k(x) = sum_i h_ki (x_i - c_ki)^2/2 in fractions; h, c (m, d)."""
    from fedtheory.theorems.fedelasticnet.algorithm_2.authored import SeparableLosses, SeparableWorld

    if h.shape != c.shape or (h < 0).any() or (h.sum(axis=0) <= 0).any():
        raise InvalidInput(f"h {h.shape}, c {c.shape}: expected curvatures >= 0, some > 0 in each coordinate, and as many minimisers")
    zero, none, m = 0 * h, np.full(h.shape, None, dtype=object), len(h)
    return SeparableWorld(SeparableLosses.of(h, c, zero, zero, none, objects([Fraction(1, m)] * m)), h[0])


def scaffold(method: Method, **more: Any) -> FedElasticNetScaffold:
    """The package's Algorithm 2 with these numbers."""
    made = FedElasticNetScaffold(float(method.lambda1), float(method.lambda2), server_lr=float(method.eta_g), **more)
    exact = isinstance(method.lambda1, Fraction)
    return exactly(made, {"l1": method.lambda1, "l2": method.lambda2, "server_lr": method.eta_g}) if exact else made


def exactly(algorithm: Any, numbers: dict[str, Any]) -> Any:
    """The algorithm with these hyperparameters, which are fractions."""
    from fedtheory.theorems.fedelasticnet.algorithm_2.authored import in_fractions

    return in_fractions(algorithm, numbers)


def on_problem(problem: Any) -> ProblemWorld:
    """A problem, on which rounds are played in floats."""
    from fedtheory.theorems.fedelasticnet.algorithm_2.authored import ProblemWorld

    return ProblemWorld(problem)


def play(
    world: Any, algorithm: Any, steps: int | None, eta: Any, state: Any, cohorts: Sequence[Sequence[int]],
    look: Callable[[Any], Any] = lambda clients: None,
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """The states before and after each round, and what a look at the clients of each gives; steps None: local problems are solved
    exactly."""
    from fedtheory.theorems.fedelasticnet.algorithm_2.authored import FractionClients, SlotWork

    loop = Loop("rounds", ([state], []))
    states, seen = loop.state
    for t in loop.upto(len(cohorts)):
        state, cohort = states[-1], Cohort(world.num_clients, members=np.array([sorted(cohorts[t - 1])]))
        if world.exact:
            clients: Any = FractionClients(world.losses, cohort, SlotWork(steps, eta), state.x, t)
        else:
            clients = world.clients(cohort, {} if steps is None else {"E": steps, "eta": eta}, state.x, Stream(0), t)
        states.append(algorithm.round(state, clients))
        seen.append(look(clients))
    return states, seen


def trace(world: Any, method: Method, theta: Any, c_k: Any, c: Any) -> tuple[Any, Any, Any]:
    """Line 7 for all clients from theta (d,), with c_k (m, d), c (d,).

    Returns
    -------
    tuple
        g_b = grad L_k(y_b) - c_k + c + lambda_2 (y_b - theta) and sign(y_b - theta) before each local step, (B, m, d) each, and
        the move y_B - theta (m, d).
    """
    y, slopes, signs = theta + 0 * c_k, [], []
    for _ in range(method.B):
        move = y - theta
        slopes.append(world.gradients_each(y) - c_k + c + method.lambda2 * move)
        signs.append(np.sign(move))
        y = y - method.eta * (slopes[-1] + method.lambda1 * signs[-1])
    return np.stack(slopes), np.stack(signs), y - theta


def sums(q: Any, n: int) -> Any:
    """S_n = 1 + q + ... + q^(n-1), entry by entry."""
    return sum((q**j for j in range(n)), 0 * q)


class RoundsView(ClosedView):
    """T rounds of Algorithm 2, of m clients in dimension d.

    Attributes
    ----------
    theta, c : (T + 1, d); c_k : (T + 1, m, d)
    here : (T, m) of 0 and 1, who takes part
    slopes, signs : (T, B, m, d), as `trace` gives them; delta : (T, m, d), what line 10 sends
    h : (m, d) curvatures, where the losses are separable quadratics, else None
    """

    def __init__(self, world: Any, method: Method, theta: Any, c_k: Any, cohorts: Sequence[Sequence[int]]) -> None:
        self.method, self.m, self.d = method, world.num_clients, len(theta)
        state = FedElasticNetScaffoldState(theta[None], c_k[None], c_k.sum(axis=0)[None] / self.m)
        states, _ = play(world, scaffold(method), method.B, method.eta, state, cohorts)
        self.theta, self.c_k, self.c = (np.stack([getattr(s, name)[0] for s in states]) for name in ("x", "c_k", "c"))
        loop = Loop("traces", ([],))
        (found,) = loop.state
        for t in loop.upto(len(cohorts)):
            found.append(trace(world, method, *(a[t - 1] for a in (self.theta, self.c_k, self.c))))
        self.slopes, self.signs, self.delta = (np.stack(part) for part in zip(*found, strict=True))
        self.here = np.array([[int(k in set(members)) for k in range(self.m)] for members in cohorts])
        self.h = world.losses.pieces.h if world.exact else None
        facts = {EVERYBODY: bool(self.here.all()), ONE_STEP: method.B == 1, SEPARABLE: world.exact}
        self.facts = frozenset(name for name, true in facts.items() if true)

    def of_members(self, values: Any) -> Any:
        """(T, m, ...) with 0 for who does not take part."""
        return values * self.here.reshape(*self.here.shape, *(1,) * (np.ndim(values) - 2))

    @property
    def change(self) -> Any:
        """Delta c_k of line 10 (T, m, d)."""
        return self.c_k[1:] - self.c_k[:-1]

    @property
    def outweighed(self) -> Any:
        """(T, m, d) of 0 and 1: where |g_b| <= lambda_1 at every local step."""
        return self.of_members((abs(self.slopes) <= self.method.lambda1).all(axis=1).astype(int))

    @property
    def steepest(self) -> Any:
        """max_b |g_b| (T, m, d)."""
        return abs(self.slopes).max(axis=1)

    @property
    def one_way(self) -> Any:
        """(T, m, d) of 0 and 1: where the sign is the same at every local step but the first, and not 0."""
        later = self.signs[:, 1:]
        if later.shape[1] == 0:
            return self.of_members(0 * abs(self.signs[:, 0]).astype(int))
        return self.of_members(((later == later[:, :1]).all(axis=1) & (later[:, 0] != 0)).astype(int))


def numbers_of(data: dict[str, Any]) -> Method:
    """lambda1, lambda2, eta, B and eta_g of an instance."""
    made = Method(
        fraction(data["lambda1"], "lambda1"), fraction(data["lambda2"], "lambda2"), fraction(data["eta"], "eta"),
        integer(data["B"], "B", 1, MOST_STEPS), fraction(data.get("eta_g", 1), "eta_g"),
    )  # fmt: skip
    if made.lambda1 < 0 or made.lambda2 < 0 or made.eta <= 0 or made.eta_g <= 0:
        raise InvalidInput(f"{made}: lambda_1 and lambda_2 must be >= 0, eta_l and eta_g > 0")
    return made


@BUILDERS.add("algorithm-2")
def rounds_view(data: dict[str, Any]) -> RoundsView:
    """From h, c, theta, c_k, lambda1, lambda2, eta, B, eta_g and the cohorts of the rounds; c is the mean of the c_k."""
    h, c, c_k = (table(data[name], name) for name in ("h", "c", "c_k"))
    theta, m = vector(data["theta"], "theta"), len(data["h"])
    if c_k.shape != h.shape or len(theta) != h.shape[1]:
        raise InvalidInput(f"theta {theta.shape} and c_k {c_k.shape} must go with h {h.shape}")
    cohorts = [[integer(k, "cohorts", 0, m - 1) for k in members] for members in data["cohorts"]]
    if not cohorts or any(len(set(members)) != len(members) or not members for members in cohorts):
        raise InvalidInput(f"cohorts = {data['cohorts']}: expected lists of different clients, one a round")
    return RoundsView(quadratics(h, c), numbers_of(data), theta, c_k, cohorts)


def without_l1(method: Method) -> Method:
    """The same with lambda_1 = 0: SCAFFOLD, but for lambda_2."""
    return method._replace(lambda1=0 * method.lambda1)
