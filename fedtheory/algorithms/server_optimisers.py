"""Server optimisers: FedAvgM (Hsu et al. 2019), FedAdagrad, FedAdam and FedYogi (Reddi et al. 2021)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

from fedtheory.algorithms.base import Aggregation, Algorithm, aggregate, check_choice, check_number, require
from fedtheory.arrays import Array, namespace
from fedtheory.clients.clients import Clients
from fedtheory.inputs import step_at
from fedtheory.local.objective import LocalObjective

__all__ = ["FedAdagrad", "FedAdam", "FedAvgM", "FedAvgMState", "FedYogi", "MomentsState"]

Rate = float | Callable[[int], float]


class FedAvgMState(NamedTuple):
    x: Array  # w (S, d)
    m: Array  # the momentum v, 0 at the start (S, d)


class MomentsState(NamedTuple):
    x: Array  # (S, d)
    m: Array  # the first moment, 0 at the start (S, d)
    v: Array  # the second moment, tau^2 at the start (S, d)


class _ServerOptimiser(Algorithm):
    """FedAvg up to the mean move of the clients, with which a subclass makes the server's step."""

    local_work: ClassVar[str] = "gradient"
    compresses: ClassVar[tuple[str, ...]] = ("up", "down")
    shares: ClassVar[tuple[str, ...]] = ()  # hyperparameters in [0, 1)

    server_lr: Rate
    aggregation: Aggregation

    def __post_init__(self) -> None:
        for name in self.shares:
            check_number(self, name, name)
            require(getattr(self, name) < 1, name, getattr(self, name), f"{name} must lie in [0, 1)")
        if not callable(self.server_lr):
            check_number(self, "server_lr", "the server's step size eta", positive=True)
        check_choice(self, "aggregation", ("samples", "cohort", "printed"))

    def round(self, state: Any, clients: Clients) -> Any:
        x = clients.broadcast(state.x)
        y = clients.minimise(LocalObjective(center=x), start=x).y
        move = aggregate(clients, clients.send(clients.moved(y, x))[...], self.aggregation)
        new = self.remember(state, move)
        eta = self.server_lr
        eta = step_at("server_lr", eta, clients.round_index) if callable(eta) else eta
        return new._replace(x=state.x + clients.send_down(eta * self.direction(new)))

    def remember(self, state: Any, move: Array) -> Any:
        """The state with what the server remembers of the mean move (S, d)."""
        raise NotImplementedError

    def direction(self, state: Any) -> Array:
        """The server's step over its size (S, d)."""
        raise NotImplementedError


@dataclass(frozen=True)
class FedAvgM(_ServerOptimiser):
    """FedAvgM: FedAvg with momentum of the server, m <- beta m + Delta and x <- x + eta m.

    Delta is the mean of the clients' moves y_k - x. The paper has eta = 1.

    Parameters
    ----------
    momentum : float in [0, 1)
        beta. With 0 and eta = 1 it is FedAvg.
    server_lr : float > 0, or a callable round (from 1) -> float
        eta.
    aggregation : 'samples', 'cohort' or 'printed'
        The mean, as of `FedAvg`. The paper's is 'samples'.

    Raises
    ------
    InvalidInput
        Values out of range, unknown names.
    """

    name: ClassVar[str] = "fedavgm"
    source: ClassVar[str] = "Hsu et al. 2019, FedAvgM"
    shares: ClassVar[tuple[str, ...]] = ("momentum",)

    momentum: float = 0.9
    server_lr: Rate = 1.0
    aggregation: Aggregation = "samples"

    @classmethod
    def usual_parameters(cls, scale: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"momentum": Fraction(9, 10)}

    def init(self, x: Array, num_clients: int) -> FedAvgMState:
        return FedAvgMState(x, namespace(x).zeros_like(x))

    def remember(self, state: FedAvgMState, move: Array) -> FedAvgMState:
        return state._replace(m=self.momentum * state.m + move)  # v <- beta v + Delta w

    def direction(self, state: FedAvgMState) -> Array:
        return state.m


@dataclass(frozen=True)
class FedAdagrad(_ServerOptimiser):
    """FedAdagrad: the server's step is eta m/(sqrt(v) + tau), coordinate by coordinate.

    m <- beta_1 m + (1 - beta_1) Delta and v <- v + Delta^2, where Delta is the mean of the clients'
    moves y_k - x. As printed, moments are not corrected for their start.

    Parameters
    ----------
    server_lr : float > 0, or a callable round (from 1) -> float
        eta. It has the unit of the model, as a step is no longer than about eta in a coordinate.
    beta1 : float in [0, 1)
        The share of m that is kept.
    tau : float > 0
        How adaptive the steps are: the more the smaller. It has the unit of Delta. v begins at tau^2,
        the least that the paper allows.
    aggregation : 'cohort', 'samples' or 'printed'
        The mean, as of `FedAvg`. Algorithm 2 has 'cohort'.

    Raises
    ------
    InvalidInput
        Values out of range, unknown names.

    Notes
    -----
    Square roots are no fractions, and no multiples of vectors: the method runs in floats alone, and
    worst cases and exact judgements refuse it.
    """

    name: ClassVar[str] = "fedadagrad"
    source: ClassVar[str] = "Reddi et al. 2021, Algorithm 2"
    shares: ClassVar[tuple[str, ...]] = ("beta1",)

    server_lr: Rate = 0.1
    beta1: float = 0.0
    tau: float = 1e-3
    aggregation: Aggregation = "cohort"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "tau", "the adaptivity tau", positive=True, why="the method divides by it")

    def init(self, x: Array, num_clients: int) -> MomentsState:
        m = namespace(x).zeros_like(x)
        return MomentsState(x, m, m + self.tau**2)

    def remember(self, state: MomentsState, move: Array) -> MomentsState:
        m = self.beta1 * state.m + (1 - self.beta1) * move
        return state._replace(m=m, v=self.second_moment(state.v, move * move))

    def second_moment(self, v: Array, square: Array) -> Array:
        """v_t of v_{t-1} and Delta_t^2 (S, d)."""
        return v + square

    def direction(self, state: MomentsState) -> Array:
        return state.m / (namespace(state.v).sqrt(state.v) + self.tau)


@dataclass(frozen=True)
class FedAdam(FedAdagrad):
    """FedAdam: FedAdagrad with v <- beta_2 v + (1 - beta_2) Delta^2.

    Parameters
    ----------
    server_lr, beta1, tau, aggregation : as of `FedAdagrad`
    beta2 : float in [0, 1)
        The share of v that is kept.

    Raises
    ------
    InvalidInput
        Values out of range, unknown names.
    """

    name: ClassVar[str] = "fedadam"
    shares: ClassVar[tuple[str, ...]] = ("beta1", "beta2")

    beta1: float = 0.9
    beta2: float = 0.99

    def second_moment(self, v: Array, square: Array) -> Array:
        return self.beta2 * v + (1 - self.beta2) * square


@dataclass(frozen=True)
class FedYogi(FedAdam):
    """FedYogi: FedAdam with v <- v - (1 - beta_2) Delta^2 sign(v - Delta^2).

    Parameters
    ----------
    server_lr, beta1, beta2, tau, aggregation : as of `FedAdam`

    Raises
    ------
    InvalidInput
        Values out of range, unknown names.
    """

    name: ClassVar[str] = "fedyogi"

    def second_moment(self, v: Array, square: Array) -> Array:
        return v - (1 - self.beta2) * square * namespace(v).sign(v - square)
