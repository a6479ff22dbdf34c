"""Other methods in fractions, on functions that are made to need many rounds.

They are about the claim that conventional methods need 1/epsilon^2 rounds.

Nesterov's function F(x) = max_j x_j + (mu/2)||x||^2 in R^n, at one client: F* = -1/(2 mu n), and a
method whose iterates lie in the span of the subgradients returned, one a round and the first index
at a tie, has F(x_k) >= 0 for k < n. With mu = 1/sqrt(n) it needs n = 1/(4 epsilon^2) rounds.

The two clients that pull apart, f_1 = u + s|v - c| and f_2 = -u + 2 s_1 |u - c_1| + s|v - c| with
2 s_1 > 1: FedProx with a constant step h, which solves its local problems, has c_1 - u_k >=
min(c_1, h) and v_k <= s h k from 0. Proof: from u <= c_1 the first client goes to u - h, and the
second one no further than c_1, where its slope changes sign; so e' >= (e + h)/2 for e = c_1 - u.
With s = 2 epsilon it needs s_1 (c - 1/2)/(2 epsilon^2) rounds at least for F(x_k) <= epsilon <
s_1 c_1, whatever h.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedmls.lines import clip
from fedtheory.theorems.fedmls.of_files import InFractions, column, read_fields
from fedtheory.theorems.fedmls.paper import paper
from fedtheory.theory import Fact, form, le, number, whole, word, wrong

# what a form needs of an instance
ONE_A_ROUND = Fact("one client, from x_0 = 0 with one step along a subgradient in a round")
MANY_A_ROUND = Fact("one client, from x_0 = 0 with two or more steps along subgradients in a round")
FEDPROX = Fact(
    "FedProx from x_0 = 0 with the same step h in every round, its local problems solved exactly"
)

QUOTED = (
    "poster, Motivation: 'O(epsilon^-1) compared to conventional approaches with communication "
    "complexity of O(epsilon^-2)'"
)
NESTEROV = (
    r"F(x_k)-F^*\ge\tfrac1{2\mu n}\ (k<n),\quad "
    r"F=\max_jx_j+\tfrac\mu2\|x\|^2\text{ in }\mathbb R^n"
)


STEPS = {  # Nesterov's function
    "n": whole(1, 60), "mu": number(above=0), "step": number(above=0), "rounds": whole(1, 60),
    "local": whole(1, 200, default=1),
}  # fmt: skip
PULL = {  # the two clients that pull apart
    "shallow": number(above=0), "slope": number(above=Fraction(1, 2)), "second": number(above=0),
    "first": number(above=0), "step": number(above=0), "rounds": whole(1, 200),
}  # fmt: skip


@dataclass
class ConventionalView(InFractions):
    """A run of another method from 0, on a function made to need many rounds, in fractions.

    Attributes
    ----------
    excess : (K, 1) F(x_k) - F*, of the rounds that are looked at
    floor : (K, 1) what it is said not to fall below
    facts : which method it is
    """

    excess: np.ndarray
    floor: np.ndarray
    facts: frozenset[str] = frozenset()

    kind, family, scope = "conventional", "other methods", "conventional"
    about = "about runs of other methods on functions of its own"
    fixed = (
        ("FedProx on the pull", {
            "method": "fedprox", "shallow": "1/5", "slope": "3/4", "second": "1", "first": "1/2",
            "step": "1/3", "rounds": 8,
        }),
        ("one subgradient a round", {
            "method": "subgradient", "n": 6, "mu": "1/2", "step": "1/4", "rounds": 6,
        }),
    )  # fmt: skip

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Make a run of 'fedprox' on the pull, or of another method on Nesterov's function."""
        one_of = {"method": word("subgradient", "local-steps", "fedprox")}
        method = read_fields(one_of, data)["method"]
        if method == "fedprox":
            return cls._fedprox(*read_fields(PULL, data).values())
        return cls._steps(method, **read_fields(STEPS, data))

    @classmethod
    def _steps(cls, method: str, n: int, mu: Any, step: Any, rounds: int, local: int) -> Self:
        if method == "subgradient" and local != 1:
            raise InvalidInput(f"local = {local}: a subgradient method has local = 1")
        rounds = min(n, rounds)
        x, values = [Fraction(0)] * n, []
        for k in range(rounds):
            values.append(max(x) + mu / 2 * sum(v * v for v in x))  # F(x_k), k < n
            if k == rounds - 1:
                break
            for _ in range(local):
                first = x.index(max(x))
                x = [v - step * (mu * v + (j == first)) for j, v in enumerate(x)]
        least = Fraction(1, 2 * n) / mu
        facts = frozenset({ONE_A_ROUND if local == 1 else MANY_A_ROUND})
        return cls(column([v + least for v in values]), column([least] * rounds), facts)

    @classmethod
    def _fedprox(cls, s: Any, s1: Any, c: Any, c1: Any, h: Any, rounds: int) -> Self:
        u = v = Fraction(0)
        excess, floor = [], []
        for k in range(rounds + 1):
            excess.append(s1 * abs(u - c1) + s * abs(v - c))
            floor.append(s1 * min(c1, h) + s * max(Fraction(0), c - s * h * k))
            v = v + clip(c - v, s * h)  # both clients pull v towards c
            # -u pushes by h, the kink takes back up to 2 s_1 h
            second = u + h + clip(c1 - (u + h), 2 * s1 * h)
            u = ((u - h) + second) / 2
        return cls(column(excess), column(floor), frozenset({FEDPROX}))

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, dict[str, Any]]:
        """Draw a method and its function."""
        step, rounds = Fraction(int(rng.integers(1, 33)), 16), int(rng.integers(1, 30))
        methods = ["subgradient", "subgradient", "fedprox", "fedprox", "local-steps"]
        method = str(rng.choice(methods))
        if method == "fedprox":
            data: dict[str, Any] = {
                "shallow": Fraction(int(rng.integers(1, 9)), 16),
                "slope": Fraction(int(rng.integers(9, 25)), 16),
                "second": Fraction(int(rng.integers(1, 17)), 8),
                "first": Fraction(int(rng.integers(1, 17)), 8),
                "method": method, "step": step, "rounds": rounds,
            }
            return f"fedprox h={step} K={rounds}", data
        n, mu = int(rng.integers(1, 16)), Fraction(1, int(rng.integers(1, 9)))
        rounds = min(n, rounds, 12 if method == "subgradient" else 3)
        data = {"method": method, "n": n, "mu": mu, "step": step, "rounds": rounds}
        if method == "local-steps":
            data["local"] = int(rng.integers(2, 9))
        return f"{method} n={n}", data


def above(q, scale=1):
    """Sides of scale floor <= F(x_k) - F*."""
    return le(scale * q.floor, q.excess)


@paper.statement(
    "conventional-rounds", over=ConventionalView,
    source=QUOTED, assumptions=("x_0 = 0; at a tie the first index gives the subgradient",),
    symbols={
        "F(x_k) - F*": "ConventionalView.excess", "mu, n, h": "of the instance",
        "s, s_1, c, c_1": "TwoClientPull's",
    },
)
def conventional_rounds(q):
    """rounds of conventional methods"""
    more = wrong("1.1 times as much", lambda: above(q, Fraction(11, 10)))
    yield form(
        "one subgradient a round", lambda: above(q),
        NESTEROV + r",\quad x_{k+1}=x_k-h\,\partial F(x_k)", more,
        needs=(ONE_A_ROUND,), wording="in words", holds=True,
        note="after k < n subgradients the last coordinate is still 0 (Nesterov, Introductory "
        "lectures, 3.2.1). With mu = 1/sqrt(n) it takes n = 1/(4 epsilon^2) rounds, whatever the "
        "step: the claim's 1/epsilon^2. One client: communication has no part in it",
        proof="Nesterov, Introductory lectures on convex optimization, 3.2.1; the note says why",
    )
    yield form(
        "FedProx with a constant step", lambda: above(q),
        r"F(x_k)-F^*\ge s_1\min(c_1,h)+s\,(c-shk)_+,\quad\text{two clients that pull apart}", more,
        needs=(FEDPROX,), holds=True,
        note="with s = 2 epsilon at least s_1 (c - 1/2)/(2 epsilon^2) rounds for epsilon < s_1 "
        "c_1, whatever h. The instance moves with epsilon; a step that is held and then cut "
        "geometrically does far better there (docs/fedmls.md, Rates)",
        proof="from u <= c_1 client 1 goes to u - h and client 2 not beyond c_1, so that c_1 - u "
        "is at least (c_1 - u + h)/2 after a round, and never below min(c_1, h); v moves by s h "
        "at most",
    )
    yield form(
        "every other method", lambda: above(q),
        NESTEROV + r",\quad\text{FedAvg with any number of local steps}",
        needs=(MANY_A_ROUND,), fails=True,
        note="the poster does not say so, and it cannot be meant: with enough local steps one "
        "round is enough for it where all clients are one. The claim is about some methods and "
        "some functions, which the forms below name",
    )
