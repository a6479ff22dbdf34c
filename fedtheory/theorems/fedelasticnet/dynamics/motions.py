"""Follow a run of Algorithm 3 with everyone: in fractions from a file, or on a user's problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput
from fedtheory.local.exact import Exact
from fedtheory.participation.cohorts import Full
from fedtheory.problems.base import Problem
from fedtheory.rational import Builders, fraction, integer, table, to_file, vector
from fedtheory.simulation.simulate import check_start
from fedtheory.steps import Loop
from fedtheory.theorems.fedelasticnet.dynamics.motion_view import MotionView
from fedtheory.theorems.fedelasticnet.exact import DiagonalInstance, RationalState
from fedtheory.theorems.fedelasticnet.exact_pieces import Piece, SeparableLosses, piece_of
from fedtheory.theorems.fedelasticnet.expectation import FederatedLosses
from fedtheory.theorems.fedelasticnet.notation import RULES
from fedtheory.theorems.fedelasticnet.states import uncompressed

__all__ = ["BUILDERS", "FollowedRun", "data_of", "lambdas_of", "losses_of", "motion"]

BUILDERS = Builders()
MOST = 60_000  # numbers that a run in fractions may have: rounds x clients x coordinates
ROUNDING = 1e-12  # relative: below it two states in floats are one


def losses_of(data: Any, near: Any = None) -> SeparableLosses:
    """Rows of losses, a client each, from a witness file; raises `InvalidInput` where they are malformed."""
    if not isinstance(data, list) or not data or len({len(r) if isinstance(r, list) else 0 for r in data}) != 1 or not data[0]:
        raise InvalidInput(f"losses = {data!r}: expected a row a client, all of one length, with a loss a coordinate")
    pieces = [[piece_of(p, f"losses[{k}][{i}]") for i, p in enumerate(row)] for k, row in enumerate(data)]
    return SeparableLosses(pieces, near)


def lambdas_of(data: dict[str, Any]) -> tuple[Fraction, Fraction]:
    """lambda_1 and lambda_2 from a witness file; raises `InvalidInput` where one is not above 0."""
    values = {f"lambda_{n}": fraction(data[f"lambda{n}"], f"lambda{n}") for n in (1, 2)}
    for name, value in values.items():
        if not value > 0:
            raise InvalidInput(f"{name} = {value} is not above 0, as Algorithms 1 and 3 ask")
    return values["lambda_1"], values["lambda_2"]


def data_of(
    pieces: Sequence[Sequence[Piece]], lambda1: Any, lambda2: Any, rule: str, theta: Any, rounds: int, stored: Any = None
) -> dict[str, Any]:
    """The fields of a file about a run: fractions as strings."""
    data = {
        "losses": [[p.to_file() for p in row] for row in pieces], "lambda1": to_file(Fraction(lambda1)),
        "lambda2": to_file(Fraction(lambda2)), "rule": rule, "theta": [str(Fraction(x)) for x in theta], "rounds": rounds,
    }  # fmt: skip
    return data if stored is None else data | {"stored": [[str(Fraction(x)) for x in row] for row in stored]}


@BUILDERS.add("motion")
def motion(data: dict[str, Any]) -> MotionView:
    """The run in fractions: `losses`, lambda1, lambda2, rule, theta (d), rounds, and stored (m, d) where it is not 0.

    Raises
    ------
    InvalidInput
        Malformed data, lambda_1 or lambda_2 not above 0, an unknown rule, R without a minimiser, too long a run.
    """
    known = {"losses", "lambda1", "lambda2", "rule", "theta", "rounds", "stored"}
    if unknown := sorted(set(data) - known):
        raise InvalidInput(f"unknown fields {', '.join(unknown)}: use {', '.join(sorted(known))}")
    theta = vector(data["theta"], "theta")
    losses = losses_of(data["losses"], near=theta)
    m, d = losses.shape
    l1, l2 = lambdas_of(data)
    if data["rule"] not in RULES:
        raise InvalidInput(f"rule = {data['rule']!r}: use {' or '.join(map(repr, RULES))}")
    rounds = integer(data["rounds"], "rounds", 1, 5000)
    stored = table(data["stored"], "stored") if "stored" in data else np.full((m, d), Fraction(0), dtype=object)
    if theta.shape != (d,) or stored.shape != (m, d):
        raise InvalidInput(f"theta {theta.shape} and stored {stored.shape} disagree with the losses: expected ({d},) and ({m}, {d})")
    if rounds * m * d > MOST:
        raise InvalidInput(f"{rounds} rounds of {m} clients in {d} coordinates: at most {MOST} numbers are followed in fractions")
    return _follow(losses, DiagonalInstance(losses, l1, l2, m, data["rule"], theta[None]), stored, rounds)


def _follow(losses: SeparableLosses, instance: DiagonalInstance, stored: np.ndarray, rounds: int) -> MotionView:
    theta = instance.x0
    state = RationalState(theta, losses.mean(stored)[None], stored[None], np.stack([theta[0]] * losses.m)[None])
    states, ys = [state], []
    for _ in range(rounds):
        y = instance.virtual(state)
        state = RationalState(*(a[:, 0] for a in instance.step(state, instance.members, y)))
        states.append(state)
        ys.append(y[0])
    theta, h, kept = (np.stack([s[i][0] for s in states]) for i in range(3))
    y = np.stack(ys)
    every = np.stack([theta] * losses.m, axis=1)
    steps = kept[:-1] - instance.lambda2 * (y - every[:-1])
    quadratic = not any(p.ramps for row in losses.pieces for p in row)
    curvatures = [r.beta for r in losses.joint]
    known = [beta for beta in curvatures if beta is not None]
    joint = max(known) if len(known) == len(curvatures) else None
    top = None
    if quadratic:
        top = np.array([Fraction(int(i == curvatures.index(joint))) for i in range(len(curvatures))], dtype=object)
    return MotionView(
        rule=instance.rule, lambda1=instance.lambda1, lambda2=instance.lambda2, theta=theta, h=h, stored=kept, y=y,
        grad_y=losses.nearest_gradients(y, steps), grad=losses.nearest_gradients(every, kept), excess=losses.excess(theta),
        excess_gamma=losses.excess(theta + h / instance.lambda2), theta_star=losses.theta_star, beta=losses.beta, mu=losses.mu,
        beta_joint=joint, top=top, frozen=_frozen(losses, theta[-1], h[-1], kept[-1], instance),
    )  # fmt: skip


def _frozen(losses: SeparableLosses, theta: np.ndarray, h: np.ndarray, stored: np.ndarray, instance: DiagonalInstance) -> bool:
    """True if |g_k - L_k'| <= lambda_1 on the whole way of theta, to infinity where h is not 0.

    Slopes are nondecreasing, so the two ends of the way decide. Under the true-gradient rule a round without moves stores
    grad L_k(theta), so only a state with these gradients and h = 0 is frozen.
    """
    sign = instance.rule == "sign"
    l1 = instance.lambda1 if sign else 0
    for (k, i), g in np.ndenumerate(stored):
        at: Any = theta[i]
        low, high = losses.pieces[k][i].slopes(at)
        if not low - l1 <= g <= high + l1:
            return False
        if h[i] != 0:
            if not sign:
                return False
            end = losses.pieces[k][i].limits[0 if h[i] > 0 else 1]
            if end is None or not abs(g - end) <= l1:
                return False
    return True


@dataclass(frozen=True)
class FollowedRun:
    """A run on a problem of a user's, in float64: the instance whose view it is."""

    problem: Problem
    algorithm: FedElasticNetDyn
    rounds: int
    x0: Any
    kind: str = "motion"

    @property
    def name(self) -> str:
        return self.problem.name

    def view(self) -> MotionView:
        """Follow it. Raises `NotCertified` where R's optimum cannot be certified."""
        problem, algorithm = self.problem, self.algorithm
        losses, everyone, solver = FederatedLosses(problem), Full().enumerate(problem.num_clients), Exact()
        loop = Loop("rounds", ([uncompressed(algorithm.init(check_start(problem, self.x0, 1), problem.num_clients))], []))
        states, ys = loop.state
        for _ in loop.upto(self.rounds):
            clients = Clients(problem, everyone, solver, states[-1].x)
            states.append(uncompressed(algorithm.round(states[-1], clients)))
            ys.append(clients.results[-1].y[0])
        theta, stored, h = (np.stack([s[i][0] for s in states]) for i in range(3))
        y, constants = np.stack(ys), problem.constants()
        top, joint = None, constants.beta_joint
        if problem.constant_hessian:
            values, vectors = np.linalg.eigh(problem.full_hessian(losses.theta_star))
            top, joint = vectors[:, -1], float(values[-1])
        points = np.concatenate([theta, theta + h / algorithm.l2])
        excess = losses.excess(points)
        return MotionView(
            rule=algorithm.rule, lambda1=algorithm.l1, lambda2=algorithm.l2, theta=theta, h=h, stored=stored, y=y,
            grad_y=problem.gradient_each(y), grad=problem.gradient(theta), excess=excess[: len(theta)],
            excess_gamma=excess[len(theta) :], theta_star=losses.theta_star, beta=float(problem.beta_k.max()), mu=constants.mu,
            beta_joint=joint, top=top, noise=float(np.max(losses.noise(points))), rounding=ROUNDING,
            frozen=algorithm.rule == "sign" and not h[-1].any() and bool(
                np.abs(stored[-1] - problem.gradient(theta[-1])).max() <= algorithm.l1
            ),
        )  # fmt: skip
