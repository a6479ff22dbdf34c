"""Rounds of the package's methods, in fractions on separable quadratics or on a problem."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np

from fedtheory.algorithms.fedelasticnet_scaffold import FedElasticNetScaffold, FedElasticNetScaffoldState
from fedtheory.errors import InvalidInput
from fedtheory.local import GradientSteps
from fedtheory.participation.cohorts import Cohort, Full, Uniform
from fedtheory.randomness import Stream
from fedtheory.rational import in_fractions, integer, objects
from fedtheory.theorems.fedelasticnet.notation import in_units_of
from fedtheory.theorems.fedelasticnet.world import Data, ElasticWorld, positive, signed, start_of
from fedtheory.theory import Fact, Prepared, anything, derived, number, whole
from fedtheory.theory.draws import rows
from fedtheory.theory.rounds.losses import SeparableLosses
from fedtheory.theory.rounds.oracles import ProblemWorld, SeparableWorld
from fedtheory.theory.rounds.rational_clients import SlotClients, SlotWork
from fedtheory.theory.world_setting import OF_RUNS

__all__ = [
    "EVERYBODY", "FULL", "NUMBERS", "ONE_STEP", "SEPARABLE", "SEPARABLE_ONLY", "Method",
    "OfAlgorithm2", "OfRounds",
    "RoundsView", "cohorts_of", "method_in", "play", "quadratics", "scaffold", "size",
    "steps", "sums", "trace", "without_l1",
]  # fmt: skip

MOST_STEPS = 20
ROUNDS = 5  # on a user's problem
SEPARABLE_ONLY = (
    "it is about separable quadratics in fractions, whose points of rest are known exactly"
)
FULL = "is about full gradients and all clients or cohorts of P; leave it out"
# what a form may need
EVERYBODY = Fact("everybody takes part", lambda q: q.here.all())
ONE_STEP = Fact("B = 1", lambda q: q.method.B == 1)
SEPARABLE = Fact("L_k(x) = sum_i a_ki (x_i - c_ki)^2/2", lambda q: q.h is not None)


class Method(NamedTuple):
    """Numbers of Algorithm 2: lambda_1, lambda_2, eta_l, B and eta_g, as fractions or floats."""

    lambda1: Any
    lambda2: Any
    eta: Any
    B: int
    eta_g: Any


NUMBERS: dict[str, Any] = {
    "lambda1": number(least=0), "lambda2": number(least=0), "eta": number(above=0),
    "B": whole(1, MOST_STEPS), "eta_g": number(above=0, default=Fraction(1)),
}  # fmt: skip


def quadratics(h: Any, c: Any) -> SeparableWorld:
    """L_k(x) = sum_i h_ki (x_i - c_ki)^2/2 in fractions; h, c (m, d)."""
    if h.shape != c.shape or (h < 0).any() or (h.sum(axis=0) <= 0).any():
        raise InvalidInput(f"h {h.shape}, c {c.shape}: expected curvatures >= 0, some > 0 in each coordinate, and as many minimisers")
    zero, none, m = 0 * h, np.full(h.shape, None, dtype=object), len(h)
    return SeparableWorld(SeparableLosses.of(h, c, zero, zero, none, objects([Fraction(1, m)] * m)), h[0])


def scaffold(method: Method, **more: Any) -> FedElasticNetScaffold:
    """The package's Algorithm 2 with these numbers."""
    made = FedElasticNetScaffold(float(method.lambda1), float(method.lambda2), server_lr=float(method.eta_g), **more)
    exact = isinstance(method.lambda1, Fraction)
    return in_fractions(made, {"l1": method.lambda1, "l2": method.lambda2, "server_lr": method.eta_g}) if exact else made


def play(
    world: Any, algorithm: Any, steps: int | None, eta: Any, state: Any, cohorts: Sequence[Sequence[int]],
    look: Callable[[Any], Any] = lambda clients: None,
) -> tuple[list[Any], list[Any]]:  # fmt: skip
    """The states before and after each round, and what a look at the clients of each gives; steps None: local problems are solved
    exactly."""
    states, seen = [state], list[Any]()
    for t, members in enumerate(cohorts, 1):
        state, cohort = states[-1], Cohort(world.num_clients, members=np.array([sorted(members)]))
        if world.exact:
            clients: Any = SlotClients(world.losses, cohort, SlotWork(steps, eta), state.x, t)
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


class OfRounds(ElasticWorld):
    """A world of whole runs in fractions."""

    share = 0.2

    @classmethod
    def of_rounds(
        cls, request: Any, problem: Any, algorithm: Any, what: str, **more: Any
    ) -> Prepared:
        """Make a case of rounds of cohorts of P."""
        sampling, beta = request.sampling(problem), float(problem.beta_k.max())
        plain = getattr(algorithm, "method", algorithm)  # what is compressed
        told = (
            f"m = {problem.num_clients}, P = {request.participants or problem.num_clients}, d = "
            f"{problem.dim}, lambda_1 = {plain.l1:g}, lambda_2 = "
            f"{plain.l2:.6g}{in_units_of(plain.l2, beta)}, {what}"
        )
        details = {"sampling": repr(sampling)}
        return cls.case_of(problem, algorithm, told, details, sampling=sampling, **more)


class OfAlgorithm2(OfRounds):
    """A world of Algorithm 2.

    Attributes
    ----------
    l1 : lambda_1 where a user says none
    """

    l1: ClassVar[float] = 0.1

    @classmethod
    def prepare(cls, statement: Any, request: Any) -> Prepared:
        """Make a case of Algorithm 2 with B gradient steps."""
        request.refuse(OF_RUNS, f"{statement.id} {FULL}")
        problem, o = request.problem("quadratic"), request.options
        beta = float(problem.beta_k.max())
        algorithm = request.algorithm("fedelasticnet-scaffold", problem, l1=cls.l1, l2=0.0)
        steps, lr = (o.get(name) for name in ("local_steps", "local_lr"))
        steps = 4 if steps is None else steps
        if lr is None and beta + algorithm.l2 == 0:
            raise InvalidInput(
                f"the losses of {problem.name} have no curvature to take a step size from: "
                "give one with --local-lr"
            )
        lr = 1 / (2 * (beta + algorithm.l2)) if lr is None else lr
        what, solver = f"Algorithm 2, B = {steps}, eta_l = {lr:.6g}", GradientSteps(steps, lr)
        return cls.of_rounds(request, problem, algorithm, what, local_solver=solver)


def cohorts_of(case: Any) -> Full | Uniform:
    """Give the law of a user's cohorts, which is one of the paper's."""
    law = case.sampling or Full()
    if not isinstance(law, Full | Uniform):
        raise InvalidInput(f"cohorts are drawn by {type(law).__name__}: use Full() or Uniform(P)")
    return law


def method_in(case: Any) -> Method:
    """Take the numbers of Algorithm 2 from a user's case."""
    algorithm, solver = case.algorithm, case.local_solver
    plain = FedElasticNetScaffold(algorithm.l1, algorithm.l2, server_lr=algorithm.server_lr)
    if algorithm != plain:
        raise InvalidInput(
            f"{algorithm}: the statement is about Algorithm 2 as printed, without epsilon, "
            "compressors and option I"
        )
    if not isinstance(solver, GradientSteps) or not solver.one_size or solver.l1 != "subgradient":
        raise InvalidInput(
            f"local solver {solver!r}: line 7 takes B steps of one size, use "
            "fedtheory.local.GradientSteps(B, eta_l)"
        )
    numbers = float(cast(float, solver.lr)), int(solver.steps), algorithm.server_lr
    return Method(algorithm.l1, algorithm.l2, *numbers)


# --- random fractions -----------------------------------------------------------------------------
def size(rng: Any, most: int = 3) -> tuple[int, int]:
    """Draw how many clients and coordinates there are."""
    return int(rng.integers(1, most + 1)), int(rng.integers(1, 3))


def steps(rng: Any, h: list[list[Fraction]], lambda1: Fraction | None = None) -> Data:
    """Draw lambda_1, lambda_2, eta_l, B and eta_g with 0 < eta_l (a + lambda_2) < 1."""
    lambda2 = Fraction(0) if rng.random() < 0.4 else Fraction(int(rng.integers(1, 9)), 8)
    top = max(max(row) for row in h) + lambda2
    share = Fraction(int(rng.choice([1, 2, 4, 6, 7])), 8)
    if lambda1 is None:
        lambda1 = Fraction(int(rng.integers(1, 17)), int(rng.choice([2, 4, 8])))
    B, eta_g = int(rng.integers(1, 6)), Fraction(int(rng.choice([2, 4, 4, 6, 7])), 4)
    return {"lambda1": lambda1, "lambda2": lambda2, "eta": share / top, "B": B, "eta_g": eta_g}


class RoundsView(OfAlgorithm2):
    """T rounds of Algorithm 2, of m clients in dimension d.

    Attributes
    ----------
    theta, c : (T + 1, d); c_k : (T + 1, m, d)
    here : (T, m) of 0 and 1, who takes part
    slopes, signs : (T, B, m, d), as `trace` gives them; delta : (T, m, d), what line 10 sends
    h : (m, d) curvatures, where the losses are separable quadratics, else None
    """

    kind, size, about = "algorithm-2", 40, "about rounds of Algorithm 2"
    takes = ("local_steps", "local_lr", "participants")
    example = "--problem diabetes --l1 0.1 --l2 0 --local-steps 4 --participants 2"
    by_hand: ClassVar = {
        "pushed from one side": {
            "h": [["1"], ["1"]], "c": [["0"], ["0"]], "theta": ["8"], "c_k": [["0"], ["0"]],
            "lambda1": "1", "lambda2": "0", "eta": "1/8", "B": 4, "eta_g": "1",
            "cohorts": [[0, 1]],
        },
        "just beyond theta": {  # r a little less than half of lambda_1: y_2 is a little above 0
            "h": [["1/100"]], "c": [["0"]], "theta": ["49"], "c_k": [["0"]], "lambda1": "1",
            "lambda2": "0", "eta": "1/8", "B": 3, "eta_g": "1", "cohorts": [[0]],
        },
        "one local step": {
            "h": [["1"], ["2"]], "c": [["3"], ["-1"]], "theta": ["1"], "c_k": [["1"], ["-1/2"]],
            "lambda1": "1", "lambda2": "1", "eta": "1/4", "B": 1, "eta_g": "1",
            "cohorts": [[0, 1], [0]],
        },
        "what is sent twice is half zeros": {  # Delta = 0 in both, and Delta c = -c
            "h": [["1"], ["1"]], "c": [["0"], ["0"]], "theta": ["0"], "c_k": [["1"], ["1"]],
            "lambda1": "1", "lambda2": "0", "eta": "1/8", "B": 2, "eta_g": "1",
            "cohorts": [[0, 1]],
        },
    }  # fmt: skip

    reads: ClassVar = {
        "h": number("m d"), "c": number("m d"), "theta": number("d"), "c_k": number("m d"),
        "cohorts": anything(), **NUMBERS,
    }  # fmt: skip

    def __init__(self, world: Any, method: Method, theta: Any, c_k: Any, cohorts: Sequence[Sequence[int]]) -> None:
        self.method, self.m, self.d = method, world.num_clients, len(theta)
        state = FedElasticNetScaffoldState(theta[None], c_k[None], c_k.sum(axis=0)[None] / self.m)
        states, _ = play(world, scaffold(method), method.B, method.eta, state, cohorts)
        self.theta, self.c_k, self.c = (np.stack([getattr(s, name)[0] for s in states]) for name in ("x", "c_k", "c"))
        starts = zip(self.theta[:-1], self.c_k[:-1], self.c[:-1], strict=True)
        found = [trace(world, method, *start) for start in starts]
        self.slopes, self.signs, self.delta = (np.stack(part) for part in zip(*found, strict=True))
        self.here = np.array([[int(k in set(members)) for k in range(self.m)] for members in cohorts])
        self.h = world.losses.pieces.h if world.exact else None

    def of_members(self, values: Any) -> Any:
        """(T, m, ...) with 0 for who does not take part."""
        return values * self.here.reshape(*self.here.shape, *(1,) * (np.ndim(values) - 2))

    change = derived(lambda v: v.c_k[1:] - v.c_k[:-1], "Delta c_k of line 10 (T, m, d)")
    outweighed = derived(
        lambda v: v.of_members((abs(v.slopes) <= v.method.lambda1).all(axis=1).astype(int)),
        "(T, m, d) of 0 and 1: where |g_b| <= lambda_1 at every local step",
    )
    steepest = derived(lambda v: abs(v.slopes).max(axis=1), "max_b |g_b| (T, m, d)")

    @property
    def one_way(self) -> Any:
        """(T, m, d) of 0 and 1: where the sign is the same at every local step but the first, and not 0."""
        later = self.signs[:, 1:]
        if later.shape[1] == 0:
            return self.of_members(0 * abs(self.signs[:, 0]).astype(int))
        return self.of_members(((later == later[:, :1]).all(axis=1) & (later[:, 0] != 0)).astype(int))

    @classmethod
    def made(cls, h: Any, c: Any, theta: Any, c_k: Any, cohorts: Any, **numbers: Any) -> Self:
        """Play the rounds of these cohorts, from c = mean c_k."""
        members = [[integer(k, "cohorts", 0, len(h) - 1) for k in row] for row in cohorts]
        if not members or any(len(set(row)) != len(row) or not row for row in members):
            raise InvalidInput(
                f"cohorts = {cohorts}: expected lists of different clients, one a round"
            )
        return cls(quadratics(h, c), Method(**numbers), theta, c_k, members)

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, Data]:
        """Draw one or two rounds of any cohort, some from the method's own start."""
        m, d = size(rng)
        h = rows(rng, m, d, positive)
        data: Data = {"h": h, "c": rows(rng, m, d, signed)}
        data |= {"theta": [signed(rng) for _ in range(d)], "c_k": rows(rng, m, d, signed)}
        if rng.random() < 0.3:
            data["c_k"] = [[Fraction(0)] * d for _ in range(m)]
        data |= steps(rng, h)
        P = m if rng.random() < 0.5 else int(rng.integers(1, m + 1))
        data["cohorts"] = [
            sorted(int(k) for k in np.argsort([rng.random() for _ in range(m)])[:P])
            for _ in range(int(rng.integers(1, 3)))
        ]
        return f"m={m} d={d}", data

    @classmethod
    def on_problem(cls, statement: str, case: Any) -> Self:
        """Play the rounds of a user's case."""
        law = cohorts_of(case)
        m, T = case.problem.num_clients, case.rounds or ROUNDS
        drawn = [law.sample(Stream(case.seed), t, range(1), m) for t in range(1, T + 1)]
        cohorts = [np.flatnonzero(c.taking_part()[0]).tolist() for c in drawn]
        begun = start_of(case), np.zeros((m, case.problem.dim))
        return cls(ProblemWorld(case.problem), method_in(case), *begun, cohorts)


def without_l1(method: Method) -> Method:
    """The same with lambda_1 = 0: SCAFFOLD, but for lambda_2."""
    return method._replace(lambda1=0 * method.lambda1)
