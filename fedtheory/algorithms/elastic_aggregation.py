"""Elastic Aggregation (Chen et al., CVPR 2023, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from fedtheory.algorithms.base import Aggregation, Algorithm, aggregate, check_choice, check_number, require
from fedtheory.arrays import Array, to_numpy
from fedtheory.clients.clients import Clients
from fedtheory.clients.sensitivity import Average
from fedtheory.errors import InvalidInput
from fedtheory.local.objective import LocalObjective

if TYPE_CHECKING:
    from fedtheory.problems.base import Problem

__all__ = ["ElasticAggregation", "ElasticAggregationState"]


class ElasticAggregationState(NamedTuple):
    x: Array  # theta (S, d)


@dataclass(frozen=True)
class ElasticAggregation(Algorithm):
    """FedAvg whose server scales every coordinate by how little the model's output moves with it.

    zeta = 1 + tau - Omega/Omega', with Omega the cohort's mean sensitivity (`fedtheory.clients.sensitivity`) at the
    server's model and Omega' its maximum within the layer, and theta <- theta + server_lr * zeta * sum_k w_k (theta_k - theta).

    Parameters
    ----------
    tau : float >= 0
        zeta lies in [tau, 1 + tau], and is tau where a layer is most sensitive; where a layer is not sensitive at all see `zero`.
    mu : float in [0, 1)
        Of the moving average of |gradient| over the batches of B_k.
    server_lr : float > 0
        eta.
    sign : 'repaired' or 'printed'
        'printed': theta <- theta - server_lr * ..., which with Delta_k = theta_k - theta walks away from the clients.
    zero : 'one', 'boost' or 'error'
        Where a layer's Omega' is 0, as for a linear model at 0, Omega/Omega' is 0/0. 'one': zeta = 1, plain averaging (less than tau
        where tau > 1, so that rates are those of min(1, tau)); 'boost': 0/0 = 0, so that zeta = 1 + tau; 'error': the run stops.
    ema : 'corrected' or 'printed'
        'printed': the moving average starts at 0 and a client with m batches sends 1 - mu^m of its sensitivity; clients with fewer
        batches count for less than their weight. 'corrected': divided by 1 - mu^m.
    aggregation : 'samples', 'cohort' or 'printed'
        w_k, for updates and sensitivities: n_k over the cohort's samples, 1 over its size, or n_k over all samples.
    probe_batch : int >= 1 or None
        Size of the batches of B_k; None: all in one.
    layers : 'module', 'tensor' or 'model'
        What the maximum is taken over: all parameters of a module (weight and bias), each by itself, or all there are. A linear
        model is one layer.

    Raises
    ------
    InvalidInput
        Values out of range; zero='error' and a layer without sensitivity.
    MissingCapability
        A problem without model output (for example `Quadratic`).

    Notes
    -----
    B_k are the problem's held-out samples (`fedtheory.problems.hold_out`); a problem without any measures on what it trains on.
    """

    name: ClassVar[str] = "elastic-aggregation"
    source: ClassVar[str] = "Chen et al. 2023, Algorithm 1"
    local_work: ClassVar[str] = "gradient"
    local_curvature: ClassVar[float] = 0.0  # mu is no penalty

    tau: float = 0.5
    mu: float = 0.95
    server_lr: float = 1.0  # eta
    sign: Literal["repaired", "printed"] = "repaired"
    zero: Literal["one", "boost", "error"] = "one"
    ema: Average = "corrected"
    aggregation: Aggregation = "samples"
    probe_batch: int | None = None
    layers: Literal["module", "tensor", "model"] = "module"

    def __post_init__(self) -> None:
        check_number(self, "tau", "the offset tau")
        check_number(self, "mu", "the moving average's mu")
        require(self.mu < 1, "mu", self.mu, "the moving average's mu must lie in [0, 1)")
        check_number(self, "server_lr", "the server's step size eta", positive=True)
        check_choice(self, "sign", ("repaired", "printed"))
        check_choice(self, "zero", ("one", "boost", "error"))
        check_choice(self, "ema", ("corrected", "printed"))
        check_choice(self, "aggregation", ("samples", "cohort", "printed"))
        check_choice(self, "layers", ("module", "tensor", "model"))
        size = self.probe_batch
        whole = size is None or (isinstance(size, int) and not isinstance(size, bool) and size >= 1)
        require(whole, "probe_batch", size, "use an integer >= 1, or None for all samples of B_k at once")

    def check_run(self, problem: Problem, rounds: int) -> None:
        from fedtheory.clients.sensitivity import check_sensitivity

        check_sensitivity(problem)

    def init(self, x: Array, num_clients: int) -> ElasticAggregationState:
        return ElasticAggregationState(x)

    def round(self, state: ElasticAggregationState, clients: Clients) -> ElasticAggregationState:
        theta = clients.broadcast(state.x)
        omega = clients.send(clients.sensitivity(theta, self.probe_batch, self.mu, self.ema))  # Omega_k
        y = clients.minimise(LocalObjective(center=theta), start=theta).y  # theta_k
        delta = aggregate(clients, clients.send(y - theta), self.aggregation)  # sum_k w_k Delta_k
        zeta = self.zeta(aggregate(clients, omega, self.aggregation), clients)
        step = self.server_lr * zeta * delta
        return ElasticAggregationState(state.x + step if self.sign == "repaired" else state.x - step)

    def zeta(self, omega: Array, clients: Clients) -> Array:
        """1 + tau - Omega/Omega', layer by layer: (S, d) -> (S, d)."""
        xp, parts = clients.xp, []
        for number, layer in enumerate(clients.problem.layers(self.layers)):
            part = omega[:, layer]
            most = xp.max(part, axis=1, keepdims=True)  # Omega'
            dead = most == 0
            if self.zero == "error":
                self._refuse(to_numpy(dead)[:, 0], clients, number)
            ratio = part / xp.where(dead, xp.ones_like(most), most)
            value = 1 + self.tau - ratio
            parts.append(xp.where(dead, xp.ones_like(value), value) if self.zero == "one" else value)
        return parts[0] if len(parts) == 1 else xp.concat(parts, axis=1)

    def _refuse(self, dead: object, clients: Clients, layer: int) -> None:
        if bool((dead & (clients.cohort.size() > 0)).any()):  # type: ignore[operator]
            raise InvalidInput(
                f"round {clients.round_index}: the output does not move with any parameter of layer {layer}, so that Omega/Omega' is "
                "0/0 (a linear model at 0 is such a point): start elsewhere, or use zero='one' (plain averaging there) or zero='boost'"
            )
