"""FedAvg (McMahan et al. 2017, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from fedtheory.algorithms.base import Aggregation, Algorithm, Sent, aggregate, check_choice, per_client, require
from fedtheory.algorithms.feedback import check_compressor, debt, debt_after, download, serve, upload
from fedtheory.arrays import Array, namespace
from fedtheory.clients.clients import Clients
from fedtheory.clients.pieces import Moved
from fedtheory.inputs import check_flags
from fedtheory.local.objective import LocalObjective

if TYPE_CHECKING:
    from fedtheory.messages import Compressor
    from fedtheory.problems.base import Problem

__all__ = ["CompressedState", "FedAvg", "FedAvgState"]


class FedAvgState(NamedTuple):
    x: Array  # w (S, d)


class CompressedState(NamedTuple):
    x: Array  # w (S, d)
    residuals: Array | None  # what the clients' compressor left out so far (S, N, d)
    server_residual: Array | None  # what the server's left out (S, d)
    missed_bits: Array | None  # what brings each client up to date, in bits (S, N)


@dataclass(frozen=True)
class FedAvg(Algorithm):
    """FedAvg: local work on f_k from the server's model, then an average.

    Parameters
    ----------
    aggregation : 'samples', 'cohort' or 'printed'
        'samples', the paper's: n_k-weighted mean over the cohort. 'cohort': plain mean over the cohort. 'printed': the
        first versions' sum over all K clients of n_k/n w_k, where a client outside the cohort keeps the server's model.
    send : 'model' or 'update'
        What a client sends, and so what the wire metrics measure. The server's step is the same.
    compressor, down_compressor : Compressor or None
        Of what the clients send, and of the server's step, which clients then add to the model they hold.
    client_feedback, server_feedback : bool
        Error feedback: what a compressor leaves out is added to the next message of that side. False: it is lost.

    Raises
    ------
    InvalidInput
        Unknown names; a compressor with send='model' and feedback, where residuals of models would pile up.
    """

    name: ClassVar[str] = "fedavg"
    source: ClassVar[str] = "McMahan et al. 2017, Algorithm 1"
    local_work: ClassVar[str] = "gradient"

    aggregation: Aggregation = "samples"
    send: Sent = "model"
    compressor: Compressor | None = None
    down_compressor: Compressor | None = None
    client_feedback: bool = True
    server_feedback: bool = True

    def __post_init__(self) -> None:
        check_flags(self)
        check_choice(self, "aggregation", ("samples", "cohort", "printed"))
        check_choice(self, "send", ("model", "update"))
        for field in ("compressor", "down_compressor"):
            check_compressor(self, field)
        wrong = self.compressor is not None and self.send == "model" and self.client_feedback
        require(not wrong, "send", self.send, "with a compressor, use send='update', or client_feedback=False to compress models")

    def check_run(self, problem: Problem, rounds: int) -> None:
        for compressor in (self.compressor, self.down_compressor):
            if compressor is not None:
                compressor.check(problem.dim)

    def init(self, x: Array, num_clients: int) -> FedAvgState | CompressedState:
        up, down = self.compressor is not None, self.down_compressor is not None
        if not up and not down:
            return FedAvgState(x)
        return CompressedState(
            x,
            per_client(x, num_clients) if up and self.client_feedback else None,
            namespace(x).zeros_like(x) if down and self.server_feedback else None,
            debt(x, num_clients) if down else None,
        )

    def round(self, state: FedAvgState | CompressedState, clients: Clients) -> FedAvgState | CompressedState:
        if isinstance(state, CompressedState):
            return self._compressed(state, clients)
        w = clients.broadcast(state.x)  # server: S_t <- m clients
        y = clients.minimise(LocalObjective(center=w), start=w).y  # ClientUpdate(k, w)
        clients.send(y if self.send == "model" else y - w)
        return FedAvgState(state.x + aggregate(clients, y - w, self.aggregation))  # server: w <- sum n_k/m_t w_k

    def _compressed(self, state: CompressedState, clients: Clients) -> CompressedState:
        owed = state.missed_bits
        if owed is None:
            w = clients.broadcast(state.x)
        else:
            download(clients, owed)
            w = clients.spread(state.x)
        y = clients.minimise(LocalObjective(center=w), start=w).y
        sent, residuals = upload(clients, y if self.send == "model" else Moved(y, w), self.compressor, state.residuals)
        step = aggregate(clients, sent - w if self.send == "model" else sent, self.aggregation)
        if self.down_compressor is None:
            return CompressedState(state.x + step, residuals, None, None)
        _, message, residual, bits = serve(clients, step, self.down_compressor, state.server_residual)
        return CompressedState(state.x + message, residuals, residual, debt_after(clients, owed, bits, step.shape[1]))
