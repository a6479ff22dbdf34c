"""Compressed rounds: error feedback on either side, and what it costs a client that was away to come up to date.

Error feedback (Seide et al. 2014; Stich, Cordonnier and Jaggi 2018; on both sides: Sattler et al. 2019): what the compressor leaves
out, R <- D - C(D), is added to the next message, D = R + update.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.algorithms.base import Algorithm, require
from fedtheory.arrays import Array, astype_like, put_slots, to_numpy, width
from fedtheory.clients.clients import Clients
from fedtheory.clients.pieces import Moved
from fedtheory.messages import Compressor
from fedtheory.messages.base import exact

if TYPE_CHECKING:
    from fedtheory.problems.base import Problem

__all__ = [
    "check_compressor", "check_dimension", "debt", "debt_after", "download", "put_senders", "serve", "upload",
]  # fmt: skip


def check_compressor(algorithm: Algorithm, name: str) -> None:
    """Raise `InvalidInput` unless the hyperparameter is a compressor or None."""
    value: Any = getattr(algorithm, name)
    known = value is None or isinstance(value, Compressor)
    require(known, name, value, "give a compressor of fedtheory.messages, such as messages.TopK(q=0.1), or None")


def check_dimension(problem: Problem, *compressors: Compressor | None) -> None:
    """Raise `InvalidInput` where a compressor cannot take messages of the problem's dimension."""
    for compressor in compressors:
        if compressor is not None:
            compressor.check(problem.dim)


def put_senders(clients: Clients, memory: Array, values: Array, senders: np.ndarray | None) -> Array:
    """The memory (S, N, d) with the rows of those that send (S, P) replaced by their values (S, P, d); None: all participants."""
    if senders is not None:
        chosen = astype_like(np.ascontiguousarray(senders)[:, :, None], memory)
        values = clients.xp.where(chosen, values, clients.take(memory))
    return clients.put(memory, values)


def upload(
    clients: Clients,
    update: Array | Moved,
    compressor: Compressor | None,
    residuals: Array | None,
    senders: np.ndarray | None = None,
) -> tuple[Array, Array | None]:
    """Send each slot's update; return what arrives (S, P, d), and the residuals (S, N, d) left.

    Nothing is fed back where the residuals are None.

    An update that is `Moved` is not made as a whole where it is large.
    """
    if residuals is None:
        return clients.send(update[...], compressor, senders), None
    if compressor is not None and clients.in_pieces(residuals):
        return clients.send_with_feedback(update, compressor, residuals, senders)
    wanted = clients.take(residuals) + update[...]
    sent = clients.send(wanted, compressor, senders)
    return sent, put_senders(clients, residuals, wanted - sent, senders)


def serve(
    clients: Clients, total: Array, compressor: Compressor, residual: Array | None
) -> tuple[Array, Array, Array | None, np.ndarray]:
    """The server's D^G and C(D^G), (S, d) each, the residual afterwards, and the bits of the message (S,)."""
    wanted = total if residual is None else residual + total
    message, bits = clients.compress_down(wanted, compressor)
    return wanted, message, None if residual is None else wanted - message, bits


def debt(x: Array, num_clients: int) -> Array:
    """(S, N) bits that bring a client up to date that has nothing yet: a dense model."""
    dense = (64 if exact(x) else width(x)) * x.shape[1]
    return astype_like(np.full((x.shape[0], num_clients), dense, dtype=np.int64), x)


def download(clients: Clients, owed: Array) -> None:
    """Count what every participant is sent at the start of the round."""
    clients.receive_bits(clients.cohort.of_slots(to_numpy(owed)))


def debt_after(clients: Clients, owed: Array, bits: np.ndarray, dim: int) -> Array:
    """The debts after the server's message of so many bits (S,): messages add up, and a dense model is never exceeded."""
    host, members = to_numpy(owed), clients.cohort.members
    if members is None:
        waiting = np.where(clients.cohort.dense_mask, 0, host)
    else:
        waiting = put_slots(host, members, np.zeros(members.shape, dtype=host.dtype))
    return astype_like(np.minimum(waiting + bits[:, None], clients.float_bits * dim), owed)
