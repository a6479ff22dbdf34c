"""All fixed points of Algorithm 1 with everyone taking part, by coordinates, in fractions.

From a file, drawn, and of a user's problem.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from fedtheory.algorithms.fedelasticnet_prox import FedElasticNetProx
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.rational import simplest
from fedtheory.theorems.fedelasticnet.dynamics.losses import Rows
from fedtheory.theorems.fedelasticnet.dynamics.motions import Everybody, fields_of
from fedtheory.theorems.fedelasticnet.dynamics.separable import pieces_of
from fedtheory.theorems.fedelasticnet.quantities import exact_s
from fedtheory.theorems.fedelasticnet.world import Data, check_everybody, start_of
from fedtheory.theory import Fact, Prepared, derived, number, whole
from fedtheory.theory.rounds.losses import PieceTable, SeparableLosses
from fedtheory.theory.rounds.slopes import ZERO, Piece, absolute, clipped, huber, quadratic, ramp

__all__ = ["AGREE", "PARABOLAS", "Standstill"]

PARABOLAS = Fact("quadratic losses", lambda q: not any(p.ramps for row in q.pieces for p in row))
AGREE = Fact(
    "points where every client's slope is at most lambda_1", lambda q: q.agreed is not None
)
F = Fraction
ROUNDS = 20  # that are followed where none are asked for
MOST = 4000  # clients x coordinates x rounds in fractions


def _data(
    pieces: Rows, weights: Sequence[Any], l1: Any, l2: Any, theta: Any, rounds: int
) -> Data:
    """The fields of a file."""
    return fields_of(pieces, l1, l2, theta, rounds, counts=[F(w) for w in weights])


def known() -> dict[str, dict[str, Any]]:
    """The instances that attain a bound or break a claim."""
    apart = [[quadratic(1)], [quadratic(3, 1)]]
    return {
        "clients that agree": _data([[quadratic(1)]] * 2, [1, 1], 1, 1, [2], 6),
        "two curvatures": _data(apart, [1, 1], F(1, 10), 1, [F(3, 4)], 6),
        "unequal counts": _data(apart, [3, 1], F(1, 10), 1, [F(1, 4)], 6),
        "large lambda_2": _data(apart, [1, 1], F(1, 10), 1000, [F(3, 4)], 3),
        "three that pull unequally": _data([[quadratic(1)], [quadratic(1, 1)], [quadratic(1, 5)]], [1, 1, 1], 1, 1, [2], 6),
        "three, large lambda_2": _data([[quadratic(1)], [quadratic(1, 1)], [quadratic(1, 5)]], [1, 1, 1], 1, 1000, [2], 3),
        "curved against linear": _data([[quadratic(2)], [ramp(-3, 3, 9, 10)]], [1, 1], F(1, 2), 1, [0], 6),
        "kinks": _data([[absolute(-1)], [absolute(0)], [absolute(2)]], [1, 2, 2], F(1, 2), 2, [3], 6),
        "plane": _data([[quadratic(1), huber(0, 1)], [quadratic(2, 1), huber(2, 1, 2)]], [1, 2], F(1, 4), 3, [2, -1], 6),
    }


def _quarter(rng: Any, low: int, high: int) -> Fraction:
    return F(int(rng.integers(low, high + 1)), 4)


@dataclass(kw_only=True)
class Standstill(Everybody):
    """Algorithm 1 with full participation on separable losses; m clients, d coordinates, fractions.

    Attributes
    ----------
    pieces : m rows of d losses (`fedtheory.theory.rounds.slopes.Piece`)
    weights : (m,) w_k = n_k/n
    start : (d,) theta^0
    rounds : how many rounds are followed
    """

    kind, size, family = "standstill", 30, "Algorithm 1, everyone takes part"
    about = "about the fixed points of Algorithm 1 when everyone takes part"
    example = "--problem quadratic --dimension 1"
    by_hand = known()
    reads: ClassVar = {
        **Everybody.reads, "rounds": whole(1, 500), "counts": number("m", "n_k", above=0),
    }

    pieces: Sequence[Sequence[Any]]
    weights: Any
    lambda1: Any
    lambda2: Any
    start: Any
    rounds: int

    d = derived(lambda v: len(v.start))

    losses = derived(lambda v: SeparableLosses(PieceTable(v.pieces), v.weights))
    beta = derived(
        lambda v: v.losses.constants["beta"], "the largest curvature of a client; None where a slope jumps"
    )

    def moves(self, x: Any) -> Any:
        """delta_k at the model x (d,): (m, d)."""
        every = np.stack([x] * len(self.pieces))
        return self.losses.pieces.minimise(0 * every, self.lambda2, every, self.lambda1) - every

    def mean(self, values: Any) -> Any:
        """sum_k w_k over the clients: (m, d) -> (d,)."""
        return (values * self.weights[:, None]).sum(axis=0)

    def slopes(self, x: Any) -> Any:
        """L_k' at x (d,), at a jump the subgradient of least size: (m, d)."""
        return self.losses.gradients(x)

    def subgradients(self, x: Any) -> Any:
        """lambda_1 s_k at the model x, from the optimality of the local models: (m, d)."""
        return exact_s(self.moves(x), self.lambda1, -self.slopes(x))

    star = derived(lambda v: v.losses.minimiser(v.start), "the minimiser of R_w nearest to the start")

    def excess(self, x: Any) -> Any:
        """R_w(x) - R*."""
        return self.losses.excess(x, self.star)

    @cached_property
    def agreed(self) -> tuple[Any, Any] | None:
        """The ends of the box in which every |L_k'| <= lambda_1, (d,) each; None where it is empty or not bounded."""
        low, high = [], []
        for column in zip(*self.pieces, strict=True):
            ends = [_between(p, -self.lambda1, self.lambda1) for p in column]
            if None in ends:
                return None
            lows = [e[0] for e in ends if e[0] is not None]  # type: ignore[index]
            highs = [e[1] for e in ends if e[1] is not None]  # type: ignore[index]
            if not lows or not highs or max(lows) > min(highs):
                return None
            low.append(max(lows))
            high.append(min(highs))
        return np.array(low, dtype=object), np.array(high, dtype=object)

    @cached_property
    def ends(self) -> tuple[Any, Any]:
        """The least and the largest fixed point of every coordinate: (d,) each.

        Raises
        ------
        InvalidInput
            A coordinate without a fixed point, or whose fixed points have no end.
        """
        found = [self._zeros(i) for i in range(self.d)]
        return tuple(np.array([pair[n] for pair in found], dtype=object) for n in (0, 1))  # type: ignore[return-value]

    def _corners(self, i: int) -> list[Fraction]:
        """The models at which some delta_k bends, or any one where none does: between them the mean move is linear."""
        corners: set[Fraction] = set()
        for row in self.pieces:
            p = row[i]
            for level in (-self.lambda1, self.lambda1):
                corners |= {x for x in (p.where(level) or ()) if x is not None}
            for b in p.breakpoints:
                corners |= {b + (s + sign * self.lambda1) / self.lambda2 for s in p.slopes(b) for sign in (-1, 1)}
                corners.add(b)
        return sorted(corners) or [ZERO]

    def _zeros(self, i: int) -> tuple[Fraction, Fraction]:
        """The points at which the mean move of coordinate i, nonincreasing in the model, is 0."""

        def move(x: Fraction) -> Fraction:
            local = (row[i].minimise(ZERO, self.lambda2, x, self.lambda1) for row in self.pieces)
            return sum((w * (y - x) for w, y in zip(self.weights, local, strict=True)), ZERO)

        points = self._corners(i)
        points = [points[0] - 2, points[0] - 1, *points, points[-1] + 1, points[-1] + 2]
        values = [move(x) for x in points]
        zeros: list[Fraction] = []
        for (x, a), (y, b) in zip(zip(points, values, strict=True), zip(points[1:], values[1:], strict=True), strict=False):
            if a != b:
                root = x + a * (y - x) / (a - b)
                first, last = x == points[0], y == points[-1]
                if (x <= root <= y) or (first and root < x) or (last and root > y):
                    zeros.append(root)
        flat = any(a == b == 0 for a, b in (values[:2], values[-2:]))
        if flat or not zeros:
            why = "has no end" if flat else "has none: the mean move is 0 nowhere"
            remedy = "take losses whose slopes exceed lambda_1 on both sides"
            raise InvalidInput(f"fixed points of coordinate {i}: the interval {why}; {remedy}")
        return min(zeros), max(zeros)

    @cached_property
    def limit(self) -> Any:
        """The fixed point nearest to the start: (d,)."""
        return np.array([clipped(x, a, b) for x, a, b in zip(self.start, *self.ends, strict=True)], dtype=object)

    @cached_property
    def path(self) -> Any:
        """theta^0..theta^T: (T + 1, d)."""
        out = [self.start]
        for _ in range(self.rounds):
            out.append(out[-1] + self.mean(self.moves(out[-1])))
        return np.stack(out)

    @classmethod
    def made(
        cls, losses: Any, lambda1: Any, lambda2: Any, theta: Any, rounds: int, counts: Any
    ) -> Self:
        """Look at losses of counts n_k; refused where R has no minimiser, or no fixed points."""
        view = cls(
            pieces=losses, weights=counts / counts.sum(), lambda1=lambda1, lambda2=lambda2,
            start=theta, rounds=rounds,
        )  # fmt: skip
        view.ends, view.star  # noqa: B018 - what does not exist is told here
        return view

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, Data]:
        """Draw 2 or 3 clients in 1 or 2 coordinates, steep enough for fixed points to have ends."""
        m, d = int(rng.integers(2, 4)), int(rng.integers(1, 3))
        l1 = _quarter(rng, 1, 8) / int(rng.choice([1, 4]))
        rows: list[list[Piece]] = []
        for _ in range(m):
            rows.append([])
            for _ in range(d):
                centre, shape = _quarter(rng, -12, 12), int(rng.integers(0, 4))
                steep = _quarter(rng, 1, 12) if shape < 3 else 2 * l1 + _quarter(rng, 1, 8)
                rows[-1].append(quadratic(steep, centre) if shape < 3 else huber(centre, 1, steep))
        counts = [1] * m if rng.random() < 0.5 else [int(rng.integers(1, 6)) for _ in range(m)]
        theta = [_quarter(rng, -16, 16) for _ in range(d)]
        return f"m={m} d={d}", _data(rows, counts, l1, _quarter(rng, 1, 40), theta, 4)

    # --- a problem of the user's ------------------------------------------------------------------
    @classmethod
    def on_problem(cls, statement: str, case: Any) -> Data:
        """Give the user's problem in fractions."""
        problem, algorithm, rounds = case.problem, case.algorithm, case.rounds or ROUNDS
        if not isinstance(algorithm, FedElasticNetProx):
            about = "the statement is about FedElasticNet's Algorithm 1 (FedElasticNetProx)"
            raise InvalidInput(f"{about}, not {type(algorithm).__name__}")
        check_everybody(case, plain=False)
        if algorithm.epsilon != 0 or not (algorithm.l1 > 0 and algorithm.l2 > 0):
            raise InvalidInput(
                f"lambda_1 = {algorithm.l1:g}, lambda_2 = {algorithm.l2:g}, threshold epsilon = "
                f"{algorithm.epsilon:g}: Algorithm 1 asks for lambda_1 > 0 and lambda_2 > 0, and "
                "the statement for no threshold (0)"
            )
        pieces = pieces_of(problem)
        if pieces is None:
            raise MissingCapability(
                f"{problem.name}: its losses are not separable, and the fixed points are known "
                "exactly a coordinate at a time only: take --dimension 1, or "
                "fedelasticnet/algorithm-1-fixed-point, which is about any convex problem"
            )
        size = problem.num_clients * problem.dim * rounds
        if size > MOST:
            raise InvalidInput(
                f"{size} numbers of clients x coordinates x rounds, at most {MOST}: take fewer "
                "clients, or --rounds 1"
            )
        alike = algorithm.aggregation == "cohort"
        counts = np.ones(problem.num_clients) if alike else problem.sample_counts
        theta = [F(float(x)) for x in start_of(case).ravel()]
        numbers = simplest(algorithm.l1), simplest(algorithm.l2), theta, rounds
        return _data(pieces, [int(n) for n in counts], *numbers)

    @classmethod
    def prepared(cls, statement: Any, request: Any, problem: Any) -> Prepared:
        """Take lambda_1 = 0.1 and lambda_2 = beta unless others are given."""
        lambdas = cls.lambdas(request, problem, 1.0)
        algorithm = request.algorithm("fedelasticnet-prox", problem, **lambdas)
        rounds = request.rounds or ROUNDS
        return cls.followed_for(problem, algorithm, rounds, ", Algorithm 1")


def _between(p: Any, low: Fraction, high: Fraction) -> tuple[Fraction | None, Fraction | None] | None:
    """The interval in which some subgradient lies in [low, high]; None for an end at infinity, or where there is none."""
    first, last = p.limits
    if (first is not None and first > high) or (last is not None and last < low):
        return None
    left, right = p.where(low), p.where(high)
    return left[0] if left else None, right[1] if right else None
