"""Algorithm 1 whose fixed points are known exactly: from a file, drawn, and of a user's problem."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from fedtheory.algorithms.fedelasticnet_prox import FedElasticNetProx
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.rational import simplest
from fedtheory.theorems.fedelasticnet.dynamics.motions import Everybody, Rows, in_file
from fedtheory.theorems.fedelasticnet.dynamics.separable import pieces_of
from fedtheory.theorems.fedelasticnet.dynamics.standstill_view import StandstillView
from fedtheory.theorems.fedelasticnet.exact_pieces import Piece, absolute, huber, quadratic, ramp
from fedtheory.theorems.fedelasticnet.world import Data, check_everybody, start_of
from fedtheory.theory.fields import number, whole
from fedtheory.theory.judge.request import Prepared

__all__ = ["Standstill"]

F = Fraction
ROUNDS = 20  # that are followed where none are asked for
MOST = 4000  # clients x coordinates x rounds in fractions


def _data(
    pieces: Rows, weights: Sequence[Any], l1: Any, l2: Any, theta: Any, rounds: int
) -> Data:
    """The fields of a file."""
    return in_file(pieces, l1, l2, theta, rounds, counts=[F(w) for w in weights])


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


class Standstill(StandstillView, Everybody):
    """The fixed points of Algorithm 1, and a run of it."""

    kind, size, family = "standstill", 30, "Algorithm 1, everyone takes part"
    about = "about the fixed points of Algorithm 1 when everyone takes part"
    example = "--problem quadratic --dimension 1"
    by_hand = known()
    reads: ClassVar = {
        **Everybody.reads, "rounds": whole(1, 500), "counts": number("m", "n_k", above=0),
    }

    @classmethod
    def made(
        cls, losses: Any, lambda1: Any, lambda2: Any, theta: Any, rounds: int, counts: Any
    ) -> Self:
        """Look at losses of counts n_k.

        Raises
        ------
        InvalidInput
            R without a minimiser, no fixed points.
        """
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
        """Give the user's problem in fractions.

        Raises
        ------
        InvalidInput, MissingCapability
            Another method, cohorts, a threshold, losses that are not separable, too many numbers.
        """
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
        return cls.followed_for(request, problem, algorithm, rounds, ", Algorithm 1")
