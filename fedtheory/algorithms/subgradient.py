"""The distributed subgradient method: one subgradient a client and round."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from fedtheory.algorithms.base import Algorithm, check_choice, finite, require
from fedtheory.arrays import Array, namespace, to_numpy
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput
from fedtheory.inputs import check_problem, unbounded
from fedtheory.local.sliding import project_ball
from fedtheory.local.subgradient import CUT, Schedule

if TYPE_CHECKING:
    from fedtheory.problems.base import Problem

__all__ = ["Subgradient", "SubgradientState", "subgradient_bound", "subgradient_parameters"]


class SubgradientState(NamedTuple):
    x: Array  # what the method gives out (S, d): the last point, or the average
    point: Array  # p_t (S, d)
    total: Array  # sum of the steps taken (S, 1)


@dataclass(frozen=True)
class Subgradient(Algorithm):
    """p_t = proj_R(p_{t-1} - h_t sum_k w_k g_k), g_k a subgradient of f_k at p_{t-1}; the output is p_t or the averaged point.

    Parameters
    ----------
    step : float > 0
        h.
    schedule : 'constant', 'inverse-sqrt' or 'hold-and-cut'
        h_t = h, h/sqrt(t), or h cut**max(0, t - hold): see `fedtheory.local.subgradient.Schedule`.
    output : 'last' or 'average'
        'average': sum_s h_s p_{s-1}/sum_s h_s, s = 1, ..., t, for which `subgradient_bound` holds.
    radius : float > 0
        R of the ball; ``math.inf`` for none.
    hold, cut : of 'hold-and-cut'

    Raises
    ------
    InvalidInput
        Values out of range; x_0 outside the ball.

    Notes
    -----
    w_k are the problem's weights, renormalised over the cohort. A run's local solver is not used.
    """

    name: ClassVar[str] = "subgradient"
    source: ClassVar[str] = "Nesterov, Introductory Lectures on Convex Optimization, 2004, section 3.2.3"
    coordinatewise: ClassVar[bool] = False
    local_work: ClassVar[str] = "none"
    nonsmooth: ClassVar[bool] = True

    step: float
    schedule: Literal["constant", "inverse-sqrt", "hold-and-cut"] = "constant"
    output: Literal["last", "average"] = "last"
    radius: float = math.inf
    hold: int = 0
    cut: float = CUT

    def __post_init__(self) -> None:
        check_choice(self, "schedule", ("constant", "inverse-sqrt", "hold-and-cut"))
        check_choice(self, "output", ("last", "average"))
        _ = self.steps_of  # refuses what it cannot use
        real = finite(self.radius) or unbounded(self.radius)
        require(real and self.radius > 0, "radius", self.radius, "the ball's radius R must be > 0 (math.inf for no ball)")

    @property
    def steps_of(self) -> Schedule:
        """The schedule with its numbers."""
        return Schedule(self.schedule, self.step, self.hold, self.cut)

    @classmethod
    def usual_parameters(cls, scale: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"step": scale.R / (scale.G * scale.root(scale.T))}

    def init(self, x: Array, num_clients: int) -> SubgradientState:
        size = 0.0 if unbounded(self.radius) else float(np.linalg.norm(to_numpy(x), axis=-1).max())
        if size > self.radius * (1 + 1e-12):
            raise InvalidInput(f"||x_0|| = {size:.6g} is outside the ball of radius R = {self.radius:.6g}: enlarge the radius")
        return SubgradientState(x, x, namespace(x).zeros_like(x[:, :1]))

    def round(self, state: SubgradientState, clients: Clients) -> SubgradientState:
        h, p = self.steps_of.at(clients.round_index), state.point
        g = clients.send(clients.gradient(clients.broadcast(p)))
        w = clients.weights()
        new = project_ball(p - h * (clients.sum(w * g) / clients.sum(w)), float(self.radius))
        total = state.total + h
        average = state.x + (h / total) * (p - state.x)  # h/total = 1 in the first round
        return SubgradientState(new if self.output == "last" else average, new, total)


def subgradient_bound(steps: Iterable[float], distance: float, lipschitz: float) -> float:
    """F(average) - F* <= (||x_0 - x*||^2 + G^2 sum h_t^2)/(2 sum h_t) after the given steps; G = sum_k w_k G_k.

    From ||p_t - x*||^2 <= ||p_{t-1} - x*||^2 - 2 h_t (F(p_{t-1}) - F*) + h_t^2 G^2, summed, and convexity; also for the best point.
    """
    h = np.fromiter(steps, dtype=float)
    return float((distance**2 + lipschitz**2 * (h**2).sum()) / (2 * h.sum()))


def subgradient_parameters(
    problem: Problem,
    rounds: int,
    radius: float,
    distance: float,
    schedule: Literal["constant", "inverse-sqrt"] = "constant",
    output: Literal["last", "average"] = "average",
) -> Subgradient:
    """The steps theory gives: h = D/(G sqrt(K)) ('constant', which minimises `subgradient_bound` over constant steps for K rounds), or
    D/(G sqrt(t)) ('inverse-sqrt'), with D = ||x_0 - x*|| and G = sum_k w_k G_k on the ball.

    Raises
    ------
    InvalidInput
        rounds < 1, a distance that is not > 0, a schedule without a theory here; losses that are constant on the ball.
    MissingCapability
        A problem without a Lipschitz constant.
    """
    check_problem(problem)
    whole = isinstance(rounds, int | np.integer) and not isinstance(rounds, bool)
    require(whole and rounds >= 1, "rounds", rounds, "the number of rounds must be an integer >= 1")
    require(finite(distance) and distance > 0, "distance", distance, "||x_0 - x*|| must be a finite number > 0")
    known = schedule in ("constant", "inverse-sqrt")
    require(known, "schedule", schedule, "use 'constant' or 'inverse-sqrt' (a geometric cut must be tuned)")
    G = float(problem.weights @ problem.lipschitz(radius))
    require(G > 0, "G", G, "all losses are constant on the ball, and every point is a minimiser: there is nothing to do")
    step = distance / G / (math.sqrt(rounds) if schedule == "constant" else 1.0)
    return Subgradient(step, schedule, output, radius)
