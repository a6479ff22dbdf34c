"""FedElasticNet for FedAvg and FedProx (Algorithm 1 of the FedElasticNet paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from fedtheory.algorithms.base import Aggregation, Algorithm, aggregate, check_choice, check_number, threshold
from fedtheory.algorithms.feedback import check_compressor, check_dimension, own_residuals, upload
from fedtheory.arrays import Array
from fedtheory.clients.clients import Clients
from fedtheory.inputs import check_flags
from fedtheory.local.objective import LocalObjective

if TYPE_CHECKING:
    from fedtheory.messages import Compressor
    from fedtheory.problems.base import Problem

__all__ = ["CompressedElasticProxState", "FedElasticNetProx", "FedElasticNetProxState"]


class FedElasticNetProxState(NamedTuple):
    x: Array  # theta (S, d)


class CompressedElasticProxState(NamedTuple):
    x: Array  # theta (S, d)
    residuals: Array | None  # what the compressor left out so far (S, N, d)


@dataclass(frozen=True)
class FedElasticNetProx(Algorithm):
    """FedElasticNet, Algorithm 1: FedProx with an l1 penalty on the update.

    Parameters
    ----------
    l1, l2 : float >= 0
        lambda_1 and lambda_2.
    aggregation : 'printed', 'cohort' or 'samples'
        'printed' is line 7, sum over the cohort of (n_k/n) delta_k, whose weights sum to less than 1 when not everyone
        takes part; 'cohort' and 'samples' are the plain and the n_k-weighted mean over the cohort.
    epsilon : float >= 0
        Threshold of section 3 on what is sent.
    compressor : Compressor or None
        Of the delta that is sent on line 5. ``Threshold(0)`` sends the nonzero entries with their places, and counts these bits.
    client_feedback : bool
        What the compressor leaves out is added to the client's next delta. False: it is lost.

    Raises
    ------
    InvalidInput
        Hyperparameters that are negative or not finite, unknown names.
    """

    name: ClassVar[str] = "fedelasticnet-prox"
    source: ClassVar[str] = "FedElasticNet, Algorithm 1"

    l1: float  # lambda_1
    l2: float  # lambda_2
    aggregation: Aggregation = "printed"
    epsilon: float = 0.0
    compressor: Compressor | None = None
    client_feedback: bool = True

    def __post_init__(self) -> None:
        check_flags(self)
        check_number(self, "l1", "lambda_1")
        check_number(self, "l2", "lambda_2")
        check_number(self, "epsilon", "the threshold")
        check_choice(self, "aggregation", ("printed", "cohort", "samples"))

        check_compressor(self, "compressor")

    def check_run(self, problem: Problem, rounds: int) -> None:
        check_dimension(problem, self.compressor)

    def init(self, x: Array, num_clients: int) -> FedElasticNetProxState | CompressedElasticProxState:
        if self.compressor is None:
            return FedElasticNetProxState(x)
        return CompressedElasticProxState(x, own_residuals(x, num_clients, self.compressor, self.client_feedback))

    def round(
        self, state: FedElasticNetProxState | CompressedElasticProxState, clients: Clients
    ) -> FedElasticNetProxState | CompressedElasticProxState:
        theta = clients.broadcast(state.x)  # line 2
        y = clients.minimise(LocalObjective(center=theta, curvature=self.l2, l1=self.l1), start=theta).y  # line 4
        residuals = getattr(state, "residuals", None)
        delta, residuals = upload(clients, threshold(y - theta, self.epsilon), self.compressor, residuals)  # line 5
        after = state._replace(x=state.x + aggregate(clients, delta, self.aggregation))  # line 7
        return after._replace(residuals=residuals) if isinstance(after, CompressedElasticProxState) else after
