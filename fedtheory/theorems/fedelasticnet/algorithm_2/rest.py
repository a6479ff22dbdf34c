"""The points at which Algorithm 2 rests with everybody taking part, and its rounds near them.

On L_k(x) = sum_i a_ki (x_i - c_ki)^2/2 write q = 1 - eta_l (a + lambda_2) for every client and coordinate,
S_n = 1 + ... + q^(n-1), and r_k = grad L_k(theta) - c_k + c. The B local steps of line 7 are
y_{b+1} = q y_b - eta_l r - eta_l lambda_1 sign(y_b) from y_0 = 0: they move by -eta_l S_B r plus what the signs give.
With 0 < q < 1:

* a client comes back to theta with one sign all the way where |r| = rho = lambda_1 S_{B-1}/S_B, and never where |r| > rho;
* near r = 0 the signs alternate, and what they give is (-1)^B eta_l lambda_1 (1 - (-q)^(B-1))/(1 + q) sign(r),
  however small r is.
"""

from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from fedtheory.algorithms.fedelasticnet_scaffold import FedElasticNetScaffoldState
from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedelasticnet.algorithm_2 import rounds
from fedtheory.theorems.fedelasticnet.world import Data, ElasticWorld, positive, signed
from fedtheory.theory import Fact, derived, number
from fedtheory.theory.draws import rows

__all__ = ["AT_OPTIMUM", "AWAY", "STEADY", "RestView", "kept_share", "one_round", "state_of"]

# what a form may need
AT_OPTIMUM = Fact(
    "c_k = grad L_k(theta_*), theta_* the point of rest", lambda q: (q.sigma == 0).all()
)
SIGNS = Fact("every sigma -1, 0 or 1", lambda q: (q.sigma**3 == q.sigma).all())
AWAY = Fact("theta^{t-1} is not the point of rest", lambda q: q.shift.any())
STEADY = Fact("the signs of the local moves are those at the point of rest", lambda q: q.steady)
ONE = {"h": [["1"]], "c": [["0"]], "lambda2": "0", "eta": "1/4", "eta_g": "1", "shift_k": [["0"]]}


def kept_share(h: Any, method: rounds.Method) -> Any:
    """q = 1 - eta_l (a + lambda_2); raises `InvalidInput` unless 0 < q < 1 everywhere."""
    q = 1 - method.eta * (h + method.lambda2)
    if not ((q > 0) & (q < 1)).all():
        raise InvalidInput(f"eta_l (a + lambda_2) = {1 - q}: it must lie strictly between 0 and 1 for every client and coordinate")
    return q


def one_round(world: Any, method: rounds.Method, state: FedElasticNetScaffoldState) -> FedElasticNetScaffoldState:
    """One round of everybody."""
    everyone = [list(range(world.num_clients))]
    return rounds.play(world, rounds.scaffold(method), method.B, method.eta, state, everyone)[0][-1]


def state_of(theta: Any, c_k: Any) -> FedElasticNetScaffoldState:
    return FedElasticNetScaffoldState(theta[None], c_k[None], c_k.sum(axis=0)[None] / len(c_k))


class RestView(ElasticWorld):
    """A point at which Algorithm 2 rests, and one round from close by.

    Attributes
    ----------
    sigma : (m, d) of -1, 0, 1: r_k = sigma rho there; all 0 is the optimum with c_k = grad L_k(theta)
    rho, q : (m, d)
    theta, grad : (d,), the point and grad R(theta); c_k : (m, d)
    shift : (d,) and shift_k : (m, d), from the point of rest to where the round begins
    """

    kind, size, share = "algorithm-2 at rest", 30, 0.2
    about = "about points of rest of Algorithm 2"
    no_problem = rounds.SEPARABLE_ONLY
    by_hand: ClassVar = {
        name: {**ONE, "sigma": [[sigma]], "lambda1": "1", "B": B, "shift": ["1/1000"]}
        for name, sigma, B in (
            ("two steps", 1, 2),
            ("two steps, from the optimum", 0, 2),
            ("three steps, from the optimum", 0, 3),
        )
    }

    demands: ClassVar = (SIGNS,)
    reads: ClassVar = {
        "h": number("m d"), "c": number("m d"), "sigma": number("m d"), "shift": number("d"),
        "shift_k": number("m d"), **rounds.NUMBERS,
    }  # fmt: skip

    def __init__(
        self, h: Any, c: Any, sigma: Any, shift: Any, shift_k: Any, **numbers: Any
    ) -> None:
        self.method = method = rounds.Method(**numbers)
        self.h, self.c, self.sigma, self.shift, self.shift_k = h, c, sigma, shift, shift_k
        self.m, self.world, self.q = len(h), rounds.quadratics(h, c), kept_share(h, method)
        self.rho = method.lambda1 * rounds.sums(self.q, method.B - 1) / rounds.sums(self.q, method.B)
        r = sigma * self.rho
        self.theta = ((h * c).sum(axis=0) + r.sum(axis=0)) / h.sum(axis=0)
        gradients = h * (self.theta - c)
        self.c_k, self.grad = gradients - r, gradients.sum(axis=0) / self.m

    after = derived(
        lambda v: one_round(v.world, v.method, state_of(v.theta, v.c_k)),
        "a round from the point of rest",
    )

    def at_zero(self, sign: int) -> Any:
        """The clients' moves (m, d) in a round from the point of rest, were sign(0) this number."""
        slopes, _, _ = rounds.trace(self.world, self.method._replace(B=1), self.theta, self.c_k, 0 * self.theta)
        return -self.method.eta * (slopes[0] + sign * self.method.lambda1)

    near = derived(
        lambda v: one_round(v.world, v.method, state_of(v.theta + v.shift, v.c_k + v.shift_k)),
        "a round from the point of rest plus the shifts",
    )

    linear = derived(
        lambda v: one_round(
            rounds.quadratics(v.h, 0 * v.c), rounds.without_l1(v.method), state_of(v.shift, v.shift_k)
        ),
        "the shifts after a round of SCAFFOLD with lambda_2 and without lambda_1, on the same "
        "curvatures with all minimisers 0",
    )
    begun = derived(lambda v: v.c_k + v.shift_k, "the c_k where the round begins")
    residual = derived(
        lambda v: v.h * (v.theta + v.shift - v.c) - v.begun + v.begun.sum(axis=0) / v.m,
        "r_k where the round begins (m, d)",
    )

    def jump(self, odd: int = -1) -> Any:
        """The terms of the signs near r = 0, where a client rests with r = 0; 0 elsewhere: (m, d)."""
        B, q = self.method.B, self.q
        size = self.method.eta * self.method.lambda1 * (1 - (-q) ** (B - 1)) / (1 + q)
        return np.where(self.sigma == 0, odd**B * size * np.sign(self.residual), 0 * size)

    @property
    def steady(self) -> bool:
        """True if the signs of the round from close by are those that the formulas assume."""
        c, first = self.begun.sum(axis=0) / self.m, np.sign(self.residual)
        _, signs, _ = rounds.trace(self.world, self.method, self.theta + self.shift, self.begun, c)
        return all(
            (signs[b] == np.where(self.sigma == 0, (-1) ** b * first, -self.sigma)).all() for b in range(1, self.method.B)
        )

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, Data]:
        """Draw a point of rest, and short shifts."""
        m, d = rounds.size(rng)
        h, kind = rows(rng, m, d, positive), rng.random()
        if kind < 0.7:
            sigma = [[0 if kind < 0.4 else 1] * d for _ in range(m)]
        else:
            sigma = [[int(rng.integers(-1, 2)) for _ in range(d)] for _ in range(m)]
        data = {"h": h, "c": rows(rng, m, d, signed), "sigma": sigma, **rounds.steps(rng, h)}
        tiny = Fraction(1, 10_000)
        data["shift"] = [signed(rng) * tiny for _ in range(d)]
        data["shift_k"] = [[signed(rng) * tiny / 7 for _ in range(d)] for _ in range(m)]
        if rng.random() < 0.5:  # the corrections are perfect: r_k = grad R for everybody
            mean = [sum(row[i] for row in h) / m for i in range(d)]
            data["shift_k"] = [[(row[i] - mean[i]) * data["shift"][i] for i in range(d)] for row in h]
        return f"m={m} d={d}", data
