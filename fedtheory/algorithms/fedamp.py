"""FedAMP, federated attentive message passing (Huang et al. 2021, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from fedtheory.algorithms.base import Algorithm, check_number, per_client
from fedtheory.arrays import Array, namespace
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput
from fedtheory.local.objective import LocalObjective
from fedtheory.problems.base import Problem

__all__ = ["FedAMP", "FedAMPState"]


class FedAMPState(NamedTuple):
    x: Array  # the plain mean of the personal models, for the metrics: no client works with it (S, d)
    w: Array  # the personal models w_k (S, N, d)

    @property
    def personal(self) -> Array:
        """The personal models (S, N, d)."""
        return self.w


@dataclass(frozen=True)
class FedAMP(Algorithm):
    """FedAMP: each client is pulled to a cloud model of its own, in which similar clients weigh more.

    u_k = w_k + alpha sum_j A'(||w_k - w_j||^2) (w_j - w_k) with A(z) = 1 - exp(-z/sigma), then
    w_k <- argmin f_k(w) + lam/(2 alpha) ||w - u_k||^2, or the local solver's work on it from w_k.

    Parameters
    ----------
    lam : float >= 0
        lambda. 0 leaves every client alone.
    alpha : float > 0
        The server's step size alpha_k, the same in every round.
    sigma : float > 0
        Scale of the attention, in the unit of squared distances of models.

    Raises
    ------
    InvalidInput
        Values out of range; alpha (m - 1)/sigma > 1, with which a cloud model may leave the convex hull of the models.

    Notes
    -----
    Where all local problems are solved exactly, a fixed point has grad f_k(w_k) + lam sum_j A'(||w_k - w_j||^2)(w_k - w_j) = 0 for
    every client: it is stationary for sum_k f_k(w_k) + (lam/2) sum_{j<k} A(||w_j - w_k||^2), whatever alpha. Weights of the problem
    play no part. A client outside the cohort keeps its model, and the server uses the last one that it has of every client.
    """

    name: ClassVar[str] = "fedamp"
    source: ClassVar[str] = "Huang et al. 2021, Algorithm 1"
    coordinatewise: ClassVar[bool] = False

    lam: float
    alpha: float
    sigma: float

    def __post_init__(self) -> None:
        check_number(self, "lam", "lambda")
        check_number(self, "alpha", "the server's step size alpha", positive=True, why="the method divides by it")
        check_number(self, "sigma", "the attention's scale sigma", positive=True, why="the method divides by it")

    @property
    def local_curvature(self) -> float:
        """Curvature lam/alpha of the clients' penalty."""
        return self.lam / self.alpha

    def check_run(self, problem: Problem, rounds: int) -> None:
        others = problem.num_clients - 1
        if self.alpha * others / self.sigma > 1 + 1e-12:
            raise InvalidInput(
                f"alpha = {self.alpha!r}, sigma = {self.sigma!r} with m = {problem.num_clients} clients: alpha (m - 1)/sigma = "
                f"{self.alpha * others / self.sigma:.6g} must be at most 1 for cloud models that are convex combinations; use alpha <= "
                f"{self.sigma / others:.6g} or a larger sigma"
            )

    def init(self, x: Array, num_clients: int) -> FedAMPState:
        return FedAMPState(x, per_client(x, num_clients) + x[:, None, :])

    def cloud(self, w: Array, all_w: Array) -> Array:
        """The cloud models u of models w (S, P, d) among all models (S, N, d): (S, P, d)."""
        xp = namespace(w)
        pull = xp.zeros_like(w)
        for j in range(all_w.shape[1]):  # a model is not pulled to itself: its own term is 0
            apart = all_w[:, j : j + 1, :] - w
            distance_sq = xp.sum(apart * apart, axis=-1, keepdims=True)
            pull = pull + xp.exp(-distance_sq / self.sigma) / self.sigma * apart  # A'(||w_i - w_j||^2) (w_j - w_i)
        return w + self.alpha * pull

    def round(self, state: FedAMPState, clients: Clients) -> FedAMPState:
        w = clients.take(state.w)
        u = self.cloud(w, state.w)  # U = W - alpha grad A(W), row by row; the server keeps W
        clients.receive_bits(clients.float_bits * u.shape[-1])
        local = LocalObjective(center=u, curvature=self.local_curvature)
        y = clients.send(clients.minimise(local, start=w).y)  # w_i <- argmin F_i(w) + lambda/(2 alpha_k) ||w - u_i||^2
        all_w = clients.put(state.w, y)
        return FedAMPState(clients.xp.mean(all_w, axis=1), all_w)
