"""VRL-SGD (Liang et al. 2019, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, NamedTuple

import numpy as np

from fedtheory.algorithms.base import Algorithm, no_step_size, per_client
from fedtheory.arrays import Array, to_numpy
from fedtheory.clients.clients import Clients
from fedtheory.errors import MissingCapability
from fedtheory.local.exact import Exact
from fedtheory.local.objective import LocalObjective, LocalSolver

__all__ = ["VRLSGD", "VRLSGDState", "check_steps", "common_step_sum"]


def check_steps(solver: LocalSolver, method: str) -> None:
    """Raise `MissingCapability` for a local solver whose steps are no step size times a gradient."""
    if not solver.reports_steps:
        raise no_step_size(solver, method)
    if isinstance(solver, Exact):
        raise MissingCapability(
            f"{type(solver).__name__} takes no gradient steps, and the corrections of {method} are divided by the local step size: "
            "use a gradient local solver, such as GradientSteps or SGD"
        )


def common_step_sum(clients: Clients, taken: float | Array | None, method: str) -> float:
    """k * gamma, which all participants must share for the corrections to keep the sum 0.

    Raises
    ------
    MissingCapability
        The solver takes no gradient steps, or clients make unequal steps.
    """
    if taken is None:
        check_steps(clients.solver, method)
        raise MissingCapability(f"{type(clients.solver).__name__} reports no step sizes, but {method} needs them: use GradientSteps")
    if isinstance(taken, Real):
        return taken  # type: ignore[return-value]
    host = to_numpy(taken)[:, :, 0]
    host = host.ravel() if clients.cohort.mask is None else host[clients.cohort.mask]
    if not host.size:
        return 1.0  # nobody takes part: nothing will be divided
    if np.ptp(host) > 1e-12 * np.abs(host).max():
        raise MissingCapability(
            f"clients make unequal local steps (step sizes sum to {host.min():.6g} up to {host.max():.6g}), and the corrections of "
            f"{method} are made for equal ones: give the local solver steps=... instead of epochs"
        )
    return float(host[0])


class VRLSGDState(NamedTuple):
    x: Array  # x-hat, the mean of the local models (S, d)
    delta: Array  # the corrections Delta_k, whose sum over the clients is always 0 (S, N, d)


@dataclass(frozen=True)
class VRLSGD(Algorithm):
    """VRL-SGD: local steps on f_k(y) - <Delta_k, y>, where Delta_k estimates grad f_k - grad F.

    Raises
    ------
    MissingCapability
        A local solver without step size (`Exact`), or one with which clients make unequal steps.

    Notes
    -----
    The paper has all workers in every period. With a smaller cohort, its members alone change their Delta_k by
    (x-hat - y_k)/(k gamma), x-hat their mean: the sum of all Delta_k stays 0, but that over a cohort need not be, so that only full
    participation has the minimiser of (1/m) sum_k f_k as its fixed point (whatever weights the problem carries).
    """

    name: ClassVar[str] = "vrl-sgd"
    source: ClassVar[str] = "Liang et al. 2019, Algorithm 1"

    def check(self, solver: LocalSolver) -> None:
        check_steps(solver, "VRL-SGD")

    def init(self, x: Array, num_clients: int) -> VRLSGDState:
        return VRLSGDState(x, per_client(x, num_clients))  # Delta_i = 0

    def round(self, state: VRLSGDState, clients: Clients) -> VRLSGDState:
        start, delta = clients.broadcast(state.x), clients.take(state.delta)  # x_i <- x-hat
        result = clients.minimise(LocalObjective(center=start, linear=delta), start=start)  # v_i = grad f_i(x_i; xi) - Delta_i
        taken = common_step_sum(clients, result.step_sum, "VRL-SGD")  # k gamma
        clients.send(result.y)
        x = state.x + clients.mean(result.y - start)  # x-hat = (1/N) sum x_i
        delta = delta + (clients.spread(x) - result.y) / taken  # Delta_i <- Delta_i + (x-hat - x_i)/(k gamma)
        return VRLSGDState(x, clients.put(state.delta, delta))
