"""The instances of Algorithm 1 whose fixed points are known exactly: from a file, for a campaign, and of a problem of a user's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_prox import FedElasticNetProx
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.participation.cohorts import Full
from fedtheory.randomness import Stream
from fedtheory.rational import integer, simplest, vector
from fedtheory.theorems.fedelasticnet.dynamics.motions import BUILDERS, lambdas_of, losses_of
from fedtheory.theorems.fedelasticnet.dynamics.separable import pieces_of
from fedtheory.theorems.fedelasticnet.dynamics.standstill_view import StandstillView
from fedtheory.theorems.fedelasticnet.exact_pieces import Piece, absolute, huber, quadratic, ramp
from fedtheory.theory.judge.setting import Case, DataInstance, Prepared, Request
from fedtheory.theory.judge.statement import Statement

__all__ = ["battery", "known", "on_a_problem", "prepared", "random_instance"]

F = Fraction
ABOUT = "about the fixed points of Algorithm 1 when everyone takes part"
EXAMPLE = "--problem quadratic --dimension 1"
EXAMPLES: dict[str, str] = {}
ROUNDS = 20  # that are followed where none are asked for
MOST = 4000  # clients x coordinates x rounds in fractions


def _data(
    pieces: Sequence[Sequence[Piece]], weights: Sequence[Any], l1: Any, l2: Any, theta: Sequence[Any], rounds: int
) -> dict[str, Any]:
    """The fields of a file."""
    return {
        "losses": [[p.to_file() for p in row] for row in pieces], "counts": [str(F(w)) for w in weights], "lambda1": str(F(l1)),
        "lambda2": str(F(l2)), "theta": [str(F(x)) for x in theta], "rounds": rounds,
    }  # fmt: skip


@BUILDERS.add("standstill")
def standstill(data: dict[str, Any]) -> StandstillView:
    """From losses (m rows of d), counts n_k (m), lambda1, lambda2, theta (d) and rounds.

    Raises
    ------
    InvalidInput
        Malformed data, numbers out of range, R without a minimiser, no fixed points.
    """
    losses, counts, theta = losses_of(data["losses"]), vector(data["counts"], "counts"), vector(data["theta"], "theta")
    l1, l2 = lambdas_of(data)
    m, d = losses.shape
    if len(counts) != m or len(theta) != d or not (counts > 0).all():
        raise InvalidInput(f"counts ({len(counts)}) and theta ({len(theta)}): expected {m} numbers > 0, and {d}")
    rounds = integer(data["rounds"], "rounds", 1, 500)
    view = StandstillView(pieces=losses.pieces, weights=counts / counts.sum(), lambda1=l1, lambda2=l2, start=theta, rounds=rounds)
    view.ends, view.star  # noqa: B018 - what does not exist is told here
    return view


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


class StandstillInstance(DataInstance):
    """An instance given by its data."""

    @property
    def family(self) -> str:
        return "Algorithm 1, everyone takes part"


def _quarter(rng: Any, low: int, high: int) -> Fraction:
    return F(int(rng.integers(low, high + 1)), 4)


def random_instance(kind: str, rng: Any) -> StandstillInstance:
    """2 or 3 clients in 1 or 2 coordinates, steep enough for fixed points to have ends."""
    m, d = int(rng.integers(2, 4)), int(rng.integers(1, 3))
    l1 = _quarter(rng, 1, 8) / int(rng.choice([1, 4]))
    rows = []
    for _ in range(m):
        row = []
        for _ in range(d):
            centre = _quarter(rng, -12, 12)
            shape = int(rng.integers(0, 4))
            row.append(quadratic(_quarter(rng, 1, 12), centre) if shape < 3 else huber(centre, 1, 2 * l1 + _quarter(rng, 1, 8)))
        rows.append(row)
    counts = [1] * m if rng.random() < 0.5 else [int(rng.integers(1, 6)) for _ in range(m)]
    theta = [_quarter(rng, -16, 16) for _ in range(d)]
    return StandstillInstance(BUILDERS, kind, f"m={m} d={d}", _data(rows, counts, l1, _quarter(rng, 1, 40), theta, 4))


def battery(seed: int = 0, scale: float = 1.0) -> list[StandstillInstance]:
    """The known instances, and 30 random ones."""
    rng = Stream(seed).generator("standstill")
    drawn = [random_instance("standstill", rng) for _ in range(max(10, round(30 * scale)))]
    named = [StandstillInstance(BUILDERS, "standstill", name, data) for name, data in known().items()]
    return named + [replace(x, label=f"{x.label} #{n}", seed=seed) for n, x in enumerate(drawn)]


def on_a_problem(case: Case) -> DataInstance:
    """The user's problem in fractions.

    Raises
    ------
    InvalidInput, MissingCapability
        Another method, cohorts, a threshold, losses that are not separable, too many numbers.
    """
    problem, algorithm, rounds = case.problem, case.algorithm, case.rounds or ROUNDS
    if not isinstance(algorithm, FedElasticNetProx):
        about = "the statement is about FedElasticNet's Algorithm 1 (FedElasticNetProx)"
        raise InvalidInput(f"{about}, not {type(algorithm).__name__}")
    if case.sampling is not None and not isinstance(case.sampling, Full):
        raise InvalidInput(f"{case.sampling!r}: the statement is about rounds in which everyone takes part (Full)")
    if algorithm.epsilon != 0 or not (algorithm.l1 > 0 and algorithm.l2 > 0):
        raise InvalidInput(
            f"lambda_1 = {algorithm.l1:g}, lambda_2 = {algorithm.l2:g}, threshold epsilon = {algorithm.epsilon:g}: Algorithm 1 asks "
            "for lambda_1 > 0 and lambda_2 > 0, and the statement for no threshold (0)"
        )
    pieces = pieces_of(problem)
    if pieces is None:
        raise MissingCapability(
            f"{problem.name}: its losses are not separable, and the fixed points are known exactly a coordinate at a time only: take "
            "--dimension 1, or fedelasticnet/algorithm-1-fixed-point, which is about any convex problem"
        )
    size = problem.num_clients * problem.dim * rounds
    if size > MOST:
        raise InvalidInput(f"{size} numbers of clients x coordinates x rounds, at most {MOST}: take fewer clients, or --rounds 1")
    counts = np.ones(problem.num_clients) if algorithm.aggregation == "cohort" else problem.sample_counts
    theta = np.zeros(problem.dim) if case.x0 is None else np.asarray(case.x0, dtype=float).ravel()
    numbers = (simplest(algorithm.l1), simplest(algorithm.l2), [F(float(x)) for x in theta], rounds)
    return DataInstance(BUILDERS, "standstill", problem.name, _data(pieces, [int(n) for n in counts], *numbers))


def prepared(statement: Statement, request: Request, problem: Any) -> Prepared:
    """Algorithm 1 with everyone taking part; lambda_1 = 0.1 and lambda_2 = beta unless others are given."""
    defaults: dict[str, Any] = {"l1": 0.1}
    if request.options.get("l2") is None:
        try:
            float(problem.beta_k.max())
            defaults["l2_over_beta"] = 1.0
        except MissingCapability:
            defaults["l2"] = 1.0
    algorithm = request.algorithm("fedelasticnet-prox", problem, **defaults)
    rounds = request.rounds or ROUNDS
    head = (
        f"{problem.name}: m = {problem.num_clients}, all take part, d = {problem.dim}, lambda_1 = {algorithm.l1:g}, "
        f"lambda_2 = {algorithm.l2:.6g}, Algorithm 1, {rounds} rounds"
    )
    details = {"algorithm": {"name": algorithm.name, **asdict(algorithm)}, "rounds": rounds}
    return Prepared(problem, algorithm, {"x0": request.start(problem), "rounds": rounds}, [head], details)
