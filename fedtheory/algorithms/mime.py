"""Mime and MimeLite with SGD or SGD with momentum as the base method (Karimireddy et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from fedtheory.algorithms.base import Algorithm, check_number, require
from fedtheory.arrays import Array, namespace
from fedtheory.clients.clients import Clients
from fedtheory.errors import MissingCapability
from fedtheory.local.exact import Exact
from fedtheory.local.objective import LocalObjective, LocalSolver
from fedtheory.local.shifted_gradients import OnView, SameBatchView, ScaledView, View, draws_batches, refuse_noise
from fedtheory.problems.base import Problem

__all__ = ["Mime", "MimeState"]


class MimeState(NamedTuple):
    x: Array  # (S, d)
    s: Array  # the base method's momentum, 0 at the start; constant during a round's local steps (S, d)


@dataclass(frozen=True)
class Mime(Algorithm):
    """Mime: every local step mimics a step of the centralised method.

    A local step is y <- y - eta_l ((1 - momentum) g + momentum s) with

        g = grad f_k(y; batch) - grad f_k(x; batch) + c,    c = mean over the cohort of grad f_k(x)

    for Mime, both gradients with the same mini-batch, and g = grad f_k(y; batch) for MimeLite. With full gradients, or the exact
    local solver, g is the gradient of f_k(y) - <grad f_k(x) - c, y>. eta_l is the local solver's step size.

    Parameters
    ----------
    momentum : float in [0, 1)
        beta of s <- (1 - beta) c + beta s, once a round after the local steps. 0 is the base method SGD.
    lite : bool
        MimeLite: no correction by control variates (s still takes the full gradients at x).

    Raises
    ------
    InvalidInput
        momentum outside [0, 1), lite not a bool.
    MissingCapability
        momentum > 0 with a local solver that takes no gradient steps (`Exact`); one that adds noise to gradients.

    Notes
    -----
    The method aims at the plain mean (1/m) sum_k f_k, whatever weights the problem carries. A round of Mime talks twice with its
    cohort: gradients first, then models.

    With `SGD(..., clip=C)` a local step is y <- y - eta_l ((1 - momentum) (clip(g') + ridge y) + momentum s), where g' is g without
    the ridge's part. So the gradient is clipped before weight decay and momentum are added, as in a centralised step. s takes the
    gradients c as they are.
    """

    name: ClassVar[str] = "mime"
    source: ClassVar[str] = "Karimireddy et al. 2020 (Mime), Algorithm 1"
    coordinatewise: ClassVar[bool] = False
    local_work: ClassVar[str] = "gradient"

    momentum: float = 0.0  # beta
    lite: bool = False

    def __post_init__(self) -> None:
        check_number(self, "momentum", "the momentum beta")
        require(self.momentum < 1, "momentum", self.momentum, "the momentum beta must lie in [0, 1)")
        require(isinstance(self.lite, bool), "lite", self.lite, "use True (MimeLite) or False (Mime)")

    def check(self, solver: LocalSolver) -> None:
        if self.momentum and isinstance(solver, Exact):
            raise MissingCapability(
                f"momentum = {self.momentum!r} is part of a gradient step, and {type(solver).__name__} takes none: "
                "use momentum=0 or a gradient local solver"
            )

        if self.momentum or not self.lite:
            refuse_noise(solver, "Mime")

    def init(self, x: Array, num_clients: int) -> MimeState:
        return MimeState(x, namespace(x).zeros_like(x))

    def round(self, state: MimeState, clients: Clients) -> MimeState:
        x, beta = clients.broadcast(state.x), self.momentum  # communicate (x, s) to all clients i in S
        gradient = clients.gradient(x)  # full local-batch gradient grad f_i(x)
        c = clients.mean(clients.send(gradient))  # Mime communicates it back before the local steps
        momentum = beta * clients.broadcast(state.s) if beta else None
        linear = None if momentum is None else -momentum
        if not self.lite:
            control = (1 - beta) * (gradient - clients.broadcast(c))
            linear = control if linear is None else control + linear
        local = LocalObjective(center=x, linear=linear, momentum=momentum)
        y = clients.minimise(local, start=x, solver=self._solver(clients.solver)).y  # y_i <- y_i - eta U(g_i, s)
        clients.send(y)
        return MimeState(
            x=state.x + clients.mean(y - x),  # x <- mean of the y_i
            s=(1 - beta) * c + beta * state.s,  # s <- V(mean of grad f_i(x), s)
        )

    def _solver(self, solver: LocalSolver) -> LocalSolver:
        """The solver, with gradients scaled by 1 - beta and, for Mime, mini-batches used at y and at x."""
        scale, same = 1 - self.momentum, draws_batches(solver) and not self.lite
        if scale == 1 and not same:
            return solver

        def view(problem: Problem, start: Array) -> View:
            return SameBatchView(problem, start, scale) if same else ScaledView(problem, scale)

        return OnView(solver, view)
