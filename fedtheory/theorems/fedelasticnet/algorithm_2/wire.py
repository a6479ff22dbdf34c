"""The threshold epsilon: states at which nothing is sent, and runs whose messages it changes."""

from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from fedtheory.algorithms.compressed import Compressed
from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn, FedElasticNetDynState
from fedtheory.algorithms.fedelasticnet_prox import FedElasticNetProx, FedElasticNetProxState
from fedtheory.algorithms.fedelasticnet_scaffold import FedElasticNetScaffoldState
from fedtheory.errors import InvalidInput
from fedtheory.messages import Threshold
from fedtheory.rational import in_fractions, objects, to_file
from fedtheory.theorems.fedelasticnet.algorithm_2 import rounds
from fedtheory.theorems.fedelasticnet.algorithm_2.rest import kept_share
from fedtheory.theorems.fedelasticnet.notation import EXACT
from fedtheory.theorems.fedelasticnet.world import (
    Data,
    ElasticWorld,
    check_everybody,
    positive,
    signed,
    start_of,
)
from fedtheory.theory import Fact, Prepared, derived, number, whole
from fedtheory.theory.draws import rows
from fedtheory.theory.rounds.oracles import ProblemWorld
from fedtheory.theory.world_setting import OF_RUNS, OF_STEPS

__all__ = [
    "FEEDBACK", "FROZEN", "NO_FEEDBACK", "NO_L1", "PLAIN_MEAN", "QUADRATIC", "STOPPED_1_3",
    "STOPPED_2", "StoppedView", "WireView",
]  # fmt: skip

MOST_ROUNDS = 200
WIRE_ROUNDS = 300  # on a user's problem
# what a form may need
STOPPED_1_3 = Fact(
    "Algorithm 1 or 3, at a state in which every update is at most epsilon, and h = 0 in Algorithm "
    "3", lambda q: q.number != 2,
)
STOPPED_2 = Fact(
    "Algorithm 2, at a state in which every update is at most epsilon", lambda q: q.number == 2
)
FEEDBACK = Fact("error feedback of all that is left out", lambda q: q.feedback)
NO_FEEDBACK = Fact("no error feedback", lambda q: not q.feedback)
FROZEN = Fact(
    "no error feedback, and h_i^1 and the Delta_ki^2 of a coordinate are as in the formula",
    lambda q: q.frozen.any() and not q.feedback,
)
PLAIN_MEAN = Fact("R is the plain mean of the L_k", lambda q: q.star is not None)
NO_L1 = Fact("lambda_1 = 0", lambda q: q.lambda1 == 0)
QUADRATIC = Fact(rounds.SEPARABLE, lambda q: q.curvature is not None)


class StoppedView(ElasticWorld):
    """A state at which Algorithm 1, 2 or 3 with the threshold sends nothing that moves the server, and so rests.

    ``share`` (m, d) in [-1, 1] says how close to its limit every client and coordinate is. Algorithms 1 and 3: client k's update is
    at most epsilon where |g_k - grad L_k(theta)| <= lambda_1 + epsilon (a + lambda_2), with g_k = 0 of Algorithm 1. Algorithm 2 rests
    with an update -B eta_l c of everybody, which is not sent: |c| <= epsilon/(B eta_l), and r_k = sign(c) rho + B c/S_B.

    Attributes
    ----------
    theta, grad : (d,), grad R(theta); bound : (d,)
    after, without : (d,), theta after a round with the threshold, and after a round without it
    """

    kind, size, share = "threshold at rest", 24, 0.2
    about = "about states at which a threshold stops Algorithms 1, 2 and 3"
    no_problem = rounds.SEPARABLE_ONLY

    reads: ClassVar = {
        "algorithm": whole(1, 3), "h": number("m d"), "theta": number("d"),
        "share": number("m d", least=-1, most=1), "epsilon": number(above=0), **rounds.NUMBERS,
        "g": number("m d", default=None), "eta": number(above=0, default=Fraction(1)),
        "B": whole(1, rounds.MOST_STEPS, default=1),
    }  # fmt: skip

    def __init__(
        self, algorithm: int, h: Any, theta: Any, share: Any, epsilon: Any, g: Any, **numbers: Any
    ) -> None:
        g, method = g if algorithm == 3 else 0 * h, rounds.Method(**numbers)  # g is of Algorithm 3
        if g is None or (g.sum(axis=0) != 0).any():
            told = "give one a client, whose mean is h, which must be 0 at rest"
            raise InvalidInput(f"g = {to_file(g)}: {told}")
        if algorithm != 2 and method.lambda2 <= 0:
            raise InvalidInput(f"lambda_2 = {method.lambda2}: it must be > 0")
        self.number, self.h, self.theta, self.m = algorithm, h, theta, len(h)
        self.epsilon, self.method = epsilon, method
        if algorithm == 2:
            slopes, state, self.bound = self._scaffold(share)
        else:
            within = method.lambda1 + epsilon * (h + method.lambda2)
            slopes, self.bound = g - share * within, within.sum(axis=0) / self.m
            state = self._elastic(g)
        if ((h == 0) & (slopes != 0)).any():
            raise InvalidInput("h = 0 where a slope is asked for: take curvatures > 0")
        self.grad = slopes.sum(axis=0) / self.m
        world = rounds.quadratics(h, theta - slopes / np.where(h == 0, 1, h))
        everyone, steps = [list(range(self.m))], (method.B if algorithm == 2 else None)
        both = (rounds.play(world, a, steps, method.eta, state, everyone)[0][-1] for a in self._algorithms)
        (self.after_state, self.after), (_, self.without) = ((s, s.x[0]) for s in both)
        self.state = state

    def _scaffold(self, share: Any) -> tuple[Any, Any, Any]:
        method = self.method
        q = kept_share(self.h, method)
        S, rho = rounds.sums(q, method.B), method.lambda1 * rounds.sums(q, method.B - 1) / rounds.sums(q, method.B)
        c = share[0] * self.epsilon / (method.B * method.eta)
        r = np.sign(c) * rho + method.B * c / S
        # grad L_k(theta) is r_k + c_k - c: with c_k = c for everybody it is r_k
        state = FedElasticNetScaffoldState(self.theta[None], (c + 0 * r)[None], c[None])
        return r, state, (rho + self.epsilon / (method.eta * S)).sum(axis=0) / self.m

    def _elastic(self, g: Any) -> Any:
        theta = self.theta[None]
        if self.number == 1:
            return FedElasticNetProxState(theta)
        return FedElasticNetDynState(theta, g[None], g.sum(axis=0)[None] / self.m, theta[:, None] + 0 * g[None])

    @property
    def _algorithms(self) -> tuple[Any, Any]:
        """With the threshold, which the client applies, and without."""
        l1, l2, epsilon = self.method.lambda1, self.method.lambda2, self.epsilon
        if self.number == 2:
            made: Any = rounds.scaffold(self.method)
        elif self.number == 1:
            made = in_fractions(FedElasticNetProx(0.0, 0.0, "cohort"), {"l1": l1, "l2": l2})
        else:
            made = in_fractions(FedElasticNetDyn(0.0, 1.0), {"l1": l1, "l2": l2})
        return in_fractions(replace(made), {"l1": l1, "l2": l2, "epsilon": epsilon}), made

    @property
    def moved(self) -> Any:
        """The move of the whole state in a round with the threshold, without the clients' own models."""
        parts = [n for n in self.state._fields if n != "local"]
        return np.array([abs(getattr(self.after_state, n) - getattr(self.state, n)).max() for n in parts])

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, Data]:
        """Draw a state of one of the three algorithms, half of them at the limit."""
        number, (m, d) = int(rng.integers(1, 4)), rounds.size(rng)
        h, edge = rows(rng, m, d, positive), rng.random() < 0.5
        share = [
            [Fraction(1) if edge else Fraction(int(rng.integers(-4, 5)), 4) for _ in range(d)]
            for _ in range(m)
        ]
        theta = [signed(rng) for _ in range(d)]
        data = {"algorithm": number, "h": h, "theta": theta, "share": share}
        data["epsilon"] = Fraction(int(rng.integers(1, 9)), 8)
        data |= rounds.steps(rng, h, Fraction(0) if rng.random() < 0.2 else None)
        if number != 2:
            data = {k: v for k, v in data.items() if k not in ("eta", "B", "eta_g")}
            data |= {"lambda2": Fraction(int(rng.integers(1, 9)), 4)}
        if number == 3:
            g = objects(rows(rng, m, d, signed))
            data["g"] = g - g.sum(axis=0) / m
        return f"Algorithm {number}, m={m} d={d}", data


class WireView(rounds.OfRounds):
    """T rounds of Algorithm 3 (sign rule, everybody, from its own start) whose messages are thresholded on their way.

    Attributes
    ----------
    theta, h : (T + 1, d); stored, delta : (T + 1, m, d) and (T, m, d)
    arrived : (T, m, d), what the server gets
    star : (d,), the optimum of R, the plain mean of the losses; None where a user's R is another mean
    """

    kind, size, work = "threshold on the wire", 24, EXACT
    about = "about runs of Algorithm 3 whose messages are thresholded"
    example = "--problem quadratic --l1 0 --l2-over-beta 30 --epsilon 0.01"
    by_hand: ClassVar = {
        label: {
            "h": [["1"]], "c": [["0"]], "theta": [theta], "lambda1": l1, "lambda2": l2,
            "epsilon": epsilon, "T": T, "feedback": feedback,
        }
        for label, theta, l1, l2, epsilon, T, feedback in (
            ("one client, 30 times its curvature", "309/10", "3", "30", "1/2", 61, 0),
            ("with lambda_1", "41", "1", "30", "1/2", 12, 0),
            ("fed back, and far away all the same", "8", "4", "30", "1/8", 100, 1),
            ("all of epsilon is held back", "4", "0", "3", "1", 3, 1),
        )
    } | {
        label: {
            "h": [["1"], ["2"]], "c": [["0"], ["1"]], "theta": ["4"], "lambda1": "1",
            "lambda2": "2", "epsilon": epsilon, "T": T,
        }
        for label, epsilon, T in (
            ("just enough to send nothing", "5/4", 5), ("a twentieth less", "19/16", 2),
        )
    }  # fmt: skip

    reads: ClassVar = {
        "h": number("m d"), "c": number("m d"), "theta": number("d"), "lambda1": number(least=0),
        "lambda2": number(above=0), "epsilon": number(above=0), "T": whole(1, MOST_ROUNDS),
        "feedback": whole(0, 1, default=0),
    }  # fmt: skip

    def __init__(
        self, world: Any, theta: Any, lambda1: Any, lambda2: Any, epsilon: Any, T: int, feedback: bool, star: Any, curvature: Any = None
    ) -> None:
        self.lambda1, self.lambda2, self.epsilon, self.m, self.star = lambda1, lambda2, epsilon, world.num_clients, star
        made = FedElasticNetDyn(float(lambda1), float(lambda2))
        plain = in_fractions(made, {"l1": lambda1, "l2": lambda2}) if world.exact else made
        algorithm = Compressed(plain, up=Threshold(epsilon), feedback=bool(feedback))
        begun, everyone = algorithm.init(theta[None], self.m), [range(self.m)] * T
        states, seen = rounds.play(world, algorithm, None, None, begun, everyone, lambda k: (k.results[0].y[0], k.sent[0][0]))
        self.theta, self.h, self.stored = (np.stack([getattr(s, n)[0] for s in states]) for n in ("x", "h", "stored"))
        self.delta = np.stack([y - x for (y, _), x in zip(seen, self.theta, strict=False)])
        self.arrived = np.stack([arrived for _, arrived in seen])
        self.curvature, self.feedback = curvature, feedback

    @cached_property
    def frozen(self) -> Any:
        """(d,) of 0 and 1: after the first round h is not 0, and |Delta_k| <= a_k |h|/lambda_2^2 <= epsilon for all clients."""
        if self.curvature is None or len(self.delta) < 2:
            return 0 * self.theta[0]
        most = self.curvature * abs(self.h[1]) / self.lambda2**2
        return ((abs(self.delta[1]) <= most) & (most <= self.epsilon)).all(axis=0).astype(int) * (self.h[1] != 0).astype(int)

    def slope(self, moved: Any) -> Any:
        """lambda_2 Delta + lambda_1 sign(Delta), what lines 5 and 11 take off."""
        return self.lambda2 * moved + self.lambda1 * np.sign(moved)

    parted = derived(
        lambda v: (v.h - v.stored.sum(axis=1) / v.m)[1:],
        "h less the mean of what clients store, after every round (T, d)",
    )
    left_out = derived(
        lambda q: np.cumsum((q.slope(q.delta) - q.slope(q.arrived)).sum(axis=1) / q.m, axis=0),
        "The mean over the clients of all slopes so far of which the server got another one (T, d)",
    )

    @classmethod
    def made(cls, h: Any, c: Any, theta: Any, **numbers: Any) -> Self:
        """Follow the run of these losses."""
        star = (h * c).sum(axis=0) / h.sum(axis=0)
        return cls(rounds.quadratics(h, c), theta, **numbers, star=star, curvature=h)

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, Data]:
        """Draw a short run of one or two clients, with and without feedback."""
        m, d = rounds.size(rng, 2)
        h = rows(rng, m, d, positive)
        ratio, feedback = Fraction(int(rng.choice([2, 5, 30]))), int(rng.random() < 0.4)
        none = rng.random() < (0.7 if feedback else 0.4)
        data: Data = {"lambda1": Fraction(0) if none else Fraction(int(rng.integers(1, 5)), 4)}
        data["epsilon"] = Fraction(int(rng.choice([1, 2, 4, 8])), 16)
        data["theta"] = [signed(rng) * int(rng.choice([1, 4, 16])) for _ in range(d)]
        c = rows(rng, m, d, signed)
        alike = rng.random() < 0.4  # the same losses for everybody
        data |= {"h": h[:1] * m, "c": c[:1] * m} if alike else {"h": h, "c": c}
        data["lambda2"] = ratio * max(max(row) for row in h)
        return f"m={m} d={d}", {**data, "T": int(rng.integers(2, 9)), "feedback": feedback}

    @classmethod
    def on_problem(cls, statement: str, case: Any) -> Self:
        """Follow the run of a user's case."""
        sent: Any = case.algorithm
        algorithm, problem = getattr(sent, "method", sent), case.problem
        if not isinstance(algorithm, FedElasticNetDyn) or algorithm.rule != "sign":
            raise InvalidInput(
                "the statement is about Algorithm 3 under the sign rule: use "
                "FedElasticNetDyn(l1, l2, 'sign', epsilon)"
            )
        check_everybody(case, plain=False)
        on_the_wire, epsilon = _threshold(sent)
        if not epsilon > 0 or algorithm.stored != "own":
            raise InvalidInput(
                f"epsilon = {epsilon}: give a threshold > 0, and clients that go by their own "
                "update (stored='own')"
            )
        feedback = on_the_wire and sent.feeds("up")
        # R is to be what Algorithm 3 averages
        plain = float(np.abs(problem.weights * problem.num_clients - 1).max()) <= 1e-12
        star = problem.optimum().x if plain else None
        numbers = algorithm.l1, algorithm.l2, epsilon, case.rounds or WIRE_ROUNDS
        return cls(ProblemWorld(problem), start_of(case), *numbers, feedback, star)

    @classmethod
    def prepare(cls, statement: Any, request: Any) -> Prepared:
        """Make a case of Algorithm 3 with a threshold on its messages."""
        request.refuse(OF_RUNS, f"{statement.id} {rounds.FULL}")
        exact = f"{statement.id} is about exact local minimisers; leave it out"
        request.refuse(OF_STEPS, exact)
        request.refuse("participants", f"{statement.id} is about all clients; leave it out")
        problem = request.problem("quadratic")
        defaults = {"l1": 0.1, "epsilon": 0.01}
        if request.options.get("l2") is None:
            defaults["l2_over_beta"] = 30.0
        algorithm = request.algorithm("fedelasticnet-dyn", problem, compressed=True, **defaults)
        what = f"Algorithm 3 (sign rule), epsilon = {_threshold(algorithm)[1]:g} on the messages"
        return cls.of_rounds(request, problem, algorithm, what)


def _threshold(sent: Any) -> tuple[bool, float]:
    """Tell of Algorithm 3, compressed or not, if its threshold is on the wire; and epsilon."""
    on_the_wire = isinstance(sent, Compressed) and isinstance(sent.up, Threshold)
    return on_the_wire, float(sent.up.epsilon if on_the_wire else getattr(sent, "method", sent).epsilon)
