"""APFL, adaptive personalised federated learning (Deng et al. 2020, Algorithm 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from fedtheory.algorithms.base import Algorithm, check_number, per_client, require
from fedtheory.arrays import Array, namespace
from fedtheory.clients.clients import Clients
from fedtheory.errors import MissingCapability
from fedtheory.local.exact import Exact
from fedtheory.local.objective import LocalObjective, LocalSolver
from fedtheory.local.shifted_gradients import MixedView, OnView, refuse_noise
from fedtheory.local.sliding import SubgradientSliding

__all__ = ["APFL", "APFLState"]


class APFLState(NamedTuple):
    x: Array  # the global model w (S, d)
    v: Array  # the clients' own models v_k (S, N, d)
    alpha: Array  # how much of its own model each client mixes in (S, N, 1)

    @property
    def personal(self) -> Array:
        """The personalised models alpha_k v_k + (1 - alpha_k) w: (S, N, d)."""
        return self.alpha * self.v + (1 - self.alpha) * self.x[:, None, :]


@dataclass(frozen=True)
class APFL(Algorithm):
    """APFL: the global model by FedAvg, and beside it a model of its own at every client that learns through a mixture.

    A local step is, all at the same point and with the same mini-batch,

        w_k <- w_k - eta grad f_k(w_k),    v_k <- v_k - eta alpha_k grad f_k(m_k),    m_k = alpha_k v_k + (1 - alpha_k) w_k,

    eta the local solver's step size: grad_v f_k(m_k) = alpha_k grad f_k(m_k), by the chain rule.

    Parameters
    ----------
    alpha : float in [0, 1]
        The mixture at the start, for all clients. 0 is FedAvg; with 1 the v_k are what each client learns alone.
    adaptive : bool
        Each local step also takes alpha_k <- alpha_k - eta <v_k - w_k, grad f_k(m_k)>, brought back to [0, 1].

    Raises
    ------
    InvalidInput
        alpha outside [0, 1], adaptive not a bool.
    MissingCapability
        A local solver that does not walk from the start alone (`Exact`, `SubgradientSliding`, a projection onto a ball), or adds noise;
        adaptive with a local solver that clips gradients.

    Notes
    -----
    The server's mean is the plain one over the cohort. What the run measures is the global model's; ``state.personal`` has the
    personalised models. All v_k start at the server's model. A share that has come to 0 can stay there for good: v_k moves no more.

    `SGD(..., clip=C)` clips the gradient of w_k and that of v_k, which is alpha_k grad f_k(m_k), each by its own norm and without its
    weight decay, ridge w_k and alpha_k ridge m_k, which is added afterwards.
    """

    name: ClassVar[str] = "apfl"
    source: ClassVar[str] = "Deng et al. 2020, Algorithm 1"
    coordinatewise: ClassVar[bool] = False
    local_curvature: ClassVar[float] = 0.0  # alpha is no penalty

    alpha: float
    adaptive: bool = False

    def __post_init__(self) -> None:
        check_number(self, "alpha", "the share alpha of a client's own model")
        require(self.alpha <= 1, "alpha", self.alpha, "the share alpha of a client's own model must lie in [0, 1]")
        require(isinstance(self.adaptive, bool), "adaptive", self.adaptive, "use True or False")

    def check(self, solver: LocalSolver) -> None:
        if isinstance(solver, Exact | SubgradientSliding) or getattr(solver, "radius", math.inf) != math.inf:
            raise MissingCapability(
                f"{solver!r} does not walk by gradient steps alone, and APFL moves two models at once, step by step: use GradientSteps "
                "or SGD"
            )
        refuse_noise(solver, "APFL")
        if self.adaptive and not solver.reports_steps:
            raise MissingCapability(
                f"{type(solver).__name__} remembers gradients, and alpha's step in the paper is a plain one: use adaptive=False, or SGD"
            )
        if self.adaptive and getattr(solver, "clip", None) is not None:
            raise MissingCapability(
                f"clip = {solver.clip!r} bounds the gradients of models, and the step of alpha has no clipped form in the paper: use "  # type: ignore[attr-defined]
                "adaptive=False or clip=None"
            )

    def init(self, x: Array, num_clients: int) -> APFLState:
        v = per_client(x, num_clients) + x[:, None, :]
        return APFLState(x, v, namespace(x).zeros_like(v[:, :, :1]) + self.alpha)

    def round(self, state: APFLState, clients: Clients) -> APFLState:
        xp, d = clients.xp, state.x.shape[1]
        w = clients.broadcast(state.x)  # server broadcasts w
        start = xp.concat([w, clients.take(state.v), clients.take(state.alpha)], axis=2)
        walk = OnView(clients.solver, lambda problem, _: MixedView(problem, self.adaptive))
        y = clients.minimise(LocalObjective(center=start), start, walk).y  # steps of w_i, v_i (and alpha_i) at once
        sent = clients.send(y[:, :, :d])  # each selected client sends w_i
        return APFLState(
            x=state.x + clients.mean(sent - w),  # w = mean over U_t of the w_j
            v=clients.put(state.v, y[:, :, d : 2 * d]),
            alpha=clients.put(state.alpha, xp.clip(y[:, :, 2 * d :], 0.0, 1.0)),
        )
