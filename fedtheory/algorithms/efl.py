"""EFL: elastic term, compression both ways, clients that do part of the work (Ma et al. 2021, Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, cast

import numpy as np

from fedtheory.algorithms.base import Algorithm, check_choice, check_number, per_client, require
from fedtheory.algorithms.feedback import (
    check_compressor,
    check_dimension,
    debt,
    debt_after,
    download,
    put_senders,
    serve,
    upload,
)
from fedtheory.arrays import Array, astype_like, broadcast_to, namespace
from fedtheory.clients.clients import Clients
from fedtheory.clients.fisher import FISHERS, FisherKind, check_fisher
from fedtheory.clients.pieces import Moved
from fedtheory.errors import InvalidInput
from fedtheory.inputs import check_flags
from fedtheory.local.objective import LocalObjective
from fedtheory.participation.coefficients import coefficients, when_complete

if TYPE_CHECKING:
    from fedtheory.messages.compressors import Compressor
    from fedtheory.participation.cohorts import Sampling
    from fedtheory.problems.base import Problem

__all__ = ["EFL", "EFLState"]

Variant = Literal["consistent", "none", "literal", "text", "text-received"]
SCHEMES = ("A", "B", "C", "C-corrected")


class EFLState(NamedTuple):
    x: Array  # the server's model w^G (S, d)
    server_residual: Array | None = None  # R^G (S, d)
    residuals: Array | None = None  # R^k (S, N, d)
    u: Array | None = None  # last Fisher diagonal of every client (S, N, d), 0 before the first
    v: Array | None = None  # u^k times the local model it was taken at (S, N, d)
    missed_bits: Array | None = None  # what brings each client up to date, in bits (S, N)
    held: Array | None = None  # the model the clients hold, where it is not the server's (S, d)


@dataclass(frozen=True)
class EFL(Algorithm):
    """EFL, Algorithm 1, in a form that is consistent, and in the readings of what is printed.

    Round tau, with C the compressors and p^k the problem's weights: clients start from the server's model w, make s^k local
    steps on f_k + lam/2 sum_i ||. - w^i||^2_{diag I_i} (i over the last pairs (u^i, v^i) of all clients), and get as far as
    w + x^k. Then

    * 'consistent': D^k = R^k + (p_tau^k/p^k) x^k; c^k = C(D^k) is sent, R^k <- D^k - c^k; D^G = R^G + sum_k p^k c^k,
      R^G <- D^G - C(D^G), and server and clients add C(D^G). After every round
      w + R^G + sum_k p^k R^k = w_0 + sum_t sum_k p_t^k x_t^k.
    * 'none': no compression, w <- w + sum_k p_tau^k x^k.
    * 'literal', the formulas as printed: D^k = R^k + x^k is sent uncompressed, D^G = R^G + sum_k p_tau^k D^k, w <- w + D^G, which the
      clients use; R = D - C(D) on both sides. All of D is used and its residual is kept for the next round as well.
    * 'text', section 3.1: clients send C(D^k), the server adds the uncompressed D^G = R^G + sum_k p_tau^k C(D^k), and clients use it.
    * 'text-received': the same, but clients can only add C(D^G), which is all they are sent; their model and the server's part.

    Parameters
    ----------
    lam : float >= 0
        lambda of the elastic term.
    scheme : 'A', 'B', 'C' or 'C-corrected'
        The coefficients p_tau^k: `fedtheory.participation.coefficients`.
    compressor, down_compressor : Compressor or None
        C of the clients and of the server; None sends dense floats that way.
    variant : 'consistent', 'none', 'literal', 'text' or 'text-received'
    scale : 'before', 'after' or None
        Where p_tau^k/p^k multiplies: at the client before C, or at the server after it. None: 'before' for 'consistent', and 'after'
        where that is printed.
    fisher : 'model', 'empirical', 'gram' or None
        I_k, taken at the end-of-round local model: `fedtheory.clients.fisher`. None: 'gram' for quadratic losses, else 'model'.
    client_feedback, server_feedback : bool
        Keep what the compressor left out for the next round (R^k and R^G). False: it is lost.
    departed : 'remove' or 'stale'
        Whether the server drops the pair (u^k, v^k) of a client that has left, or goes on with it, which biases the limit.

    Raises
    ------
    InvalidInput
        Values out of range, unknown names, compressors where the variant has none; scheme='C-corrected' with a client that is never
        active, whose loss the method then never sees.
    MissingCapability
        lam > 0 on a problem without that Fisher diagonal.

    Notes
    -----
    Cohorts with local steps (`fedtheory.participation`) need a solver that goes by them, `fedtheory.local.LocalSGD`; under any other
    sampling a participant counts as complete. Residuals are kept with weights p^k that never change, so that the invariant of
    'consistent' survives arrivals and departures too; a client that leaves takes p^k R^k with it. Scheme A needs K_tau before anybody
    compresses: one number more down for each participant, and what an incomplete client computed is not sent at all.

    What is counted: the compressed messages; u^k and v^k up and U and V down where lam > 0; down, to every participant, the messages it
    has missed or a dense model, whichever is shorter.
    """

    name: ClassVar[str] = "efl"
    source: ClassVar[str] = "Ma et al. 2021, Algorithm 1"
    coordinatewise: ClassVar[bool] = False
    local_work: ClassVar[str] = "local-sgd"
    parameters_from: ClassVar[str] = "efl"

    lam: float = 0.0
    scheme: Literal["A", "B", "C", "C-corrected"] = "C"
    compressor: Compressor | None = None
    down_compressor: Compressor | None = None
    variant: Variant = "consistent"
    scale: Literal["before", "after"] | None = None
    fisher: FisherKind | None = None
    client_feedback: bool = True
    server_feedback: bool = True
    departed: Literal["remove", "stale"] = "remove"

    def __post_init__(self) -> None:
        check_flags(self)
        check_number(self, "lam", "lambda of the elastic term")
        check_choice(self, "scheme", SCHEMES)
        check_choice(self, "variant", ("consistent", "none", "literal", "text", "text-received"))
        check_choice(self, "departed", ("remove", "stale"))
        known = self.scale is None or (isinstance(self.scale, str) and self.scale in ("before", "after"))
        require(known, "scale", self.scale, "use 'before' or 'after' (compression), or None")
        known = self.fisher is None or (isinstance(self.fisher, str) and self.fisher in FISHERS)
        require(known, "fisher", self.fisher, f"use one of {', '.join(FISHERS)}, or None")
        for field in ("compressor", "down_compressor"):
            check_compressor(self, field)
            value = getattr(self, field)
            require(value is None or self.variant != "none", field, value, "variant='none' compresses nothing: use 'consistent'")

    def check_compressed(self, message: str) -> None:
        raise InvalidInput("EFL compresses its own messages: use EFL(compressor=..., down_compressor=...) in place of Compressed")

    # --- before the run ---------------------------------------------------------------------------
    def check_run(self, problem: Problem, rounds: int) -> None:
        check_dimension(problem, self.compressor, self.down_compressor)
        if self.lam:
            check_fisher(problem, self.fisher_kind(problem))

    def fisher_kind(self, problem: Problem) -> FisherKind:
        """I_k as it is taken: as given, else 'gram' for quadratic losses and 'model' for others."""
        return self.fisher or ("gram" if problem.constant_hessian else "model")

    @property
    def rule(self) -> str:
        """The scheme, by which the statements of its paper tell its variants apart."""
        return self.scheme

    @property
    def scaled_before(self) -> bool:
        """True if p_tau^k/p^k multiplies before the compressor."""
        return self.scale == "before" or (self.scale is None and self.variant in ("consistent", "none"))

    def init(self, x: Array, num_clients: int) -> EFLState:
        up, down = self.compressor is not None, self.down_compressor is not None
        return EFLState(
            x,
            server_residual=namespace(x).zeros_like(x) if down and self.server_feedback else None,
            residuals=per_client(x, num_clients) if up and self.client_feedback else None,
            u=per_client(x, num_clients) if self.lam else None,
            v=per_client(x, num_clients) if self.lam else None,
            missed_bits=debt(x, num_clients) if down and self.variant in ("consistent", "text-received") else None,
            held=namespace(x).asarray(x, copy=True) if down and self.variant == "text-received" else None,
        )

    # --- one round --------------------------------------------------------------------------------
    def round(self, state: EFLState, clients: Clients) -> EFLState:
        weights, factors, senders = self._coefficients(clients, state.x)
        start = self._download(state, clients)
        if self.lam:
            state = state._replace(u=self._of_present(state.u, clients), v=self._of_present(state.v, clients))
        result = clients.minimise(self._objective(state, start, clients), start=start)
        update = Moved(result.y, start, factors if self.scaled_before else None)
        sent, residuals = self._upload(state, clients, update, senders)
        served = self._serve(state, clients, clients.sum(sent, weights))
        u, v = state.u, state.v
        if self.lam:
            now = clients.fisher(result.y, self.fisher_kind(clients.problem))
            u = put_senders(clients, u, clients.send(now, senders=senders), senders)
            v = put_senders(clients, v, clients.send(now * result.y, senders=senders), senders)
        return EFLState(residuals=residuals, u=u, v=v, **served)

    def _coefficients(self, clients: Clients, like: Array) -> tuple[Array, Array, np.ndarray | None]:
        """Return the server's factors p^k or p_tau^k, and p_tau^k/p^k, (S, P, 1), and who sends.

        Under scheme A those send (S, P) that are complete (None: everybody).
        """
        cohort, base = clients.cohort, clients.objective_weights
        if cohort.steps is None and cohort.present is None and cohort.partial_mask is None:  # every slot is a complete client's
            p, base = when_complete(self.scheme, cohort, base)
            senders, weights = p > 0 if self.scheme == "A" else None, base if self.scaled_before else p
            return astype_like(weights[:, :, None], like), astype_like((p / base)[:, :, None], like), senders
        steps, most = cohort.steps, cohort.max_steps
        if steps is None:  # a participant is complete, whatever its solver does
            steps, most = cohort.taking_part().astype(np.int64), 1
        made = coefficients(self.scheme, steps, cast(int, most), base, cohort.active_probability, cohort.present)
        p = made if made.dtype == object else np.asarray(made, dtype=float)
        p, base = cohort.of_slots(p), cohort.of_slots(broadcast_to(base[None, :], p.shape))
        factors = np.divide(p, base, out=p * 0, where=base > 0)
        senders = p > 0 if self.scheme == "A" else None
        weights = clients.weights() if self.scaled_before else astype_like(p[:, :, None], like)
        return weights, astype_like(factors[:, :, None], like), senders

    def _download(self, state: EFLState, clients: Clients) -> Array:
        """Send the cohort what it starts from, (S, P, d), and count its price. The price is dense,
        or the messages missed where they are shorter."""
        if self.lam and clients.round_index > 1:
            clients.receive_bits(2 * clients.float_bits * state.x.shape[1])  # U and V
        if self.compressor is not None and self.scaled_before and self.scheme == "A":
            clients.receive_bits(clients.float_bits)  # N/K_tau, which a client cannot know by itself
        if state.missed_bits is None:
            return clients.broadcast(state.x)
        download(clients, state.missed_bits)
        return clients.spread(state.x if state.held is None else state.held)

    def _of_present(self, memory: Array, clients: Clients) -> Array:
        """The pairs of the clients that belong to the federation; the others' are 0 unless they are kept stale."""
        present = clients.cohort.present
        if present is None or self.departed == "stale" or present.all():
            return memory
        return memory * astype_like(present.astype(float)[:, None], memory)

    def _objective(self, state: EFLState, start: Array, clients: Clients) -> LocalObjective:
        """f_k + lam/2 <y, U*y> - lam <V, y>, written around the model the clients start from."""
        if not self.lam:
            return LocalObjective(center=start)
        U, V = clients.xp.sum(state.u, axis=1), clients.xp.sum(state.v, axis=1)
        model = state.x if state.held is None else state.held
        linear = clients.spread(self.lam * (V - U * model))
        return LocalObjective(center=start, linear=linear, curvature=clients.spread(self.lam * U))

    def _upload(
        self, state: EFLState, clients: Clients, update: Moved, senders: np.ndarray | None
    ) -> tuple[Array, Array | None]:
        """Return what the server gets from each slot, and the residuals afterwards."""
        if self.variant != "literal" or self.compressor is None:
            return upload(clients, update, self.compressor, state.residuals, senders)
        wanted = update[...] if state.residuals is None else clients.take(state.residuals) + update[...]
        left = wanted - clients.compress(wanted, self.compressor)
        residuals = None if state.residuals is None else put_senders(clients, state.residuals, left, senders)
        return clients.send(wanted, senders=senders), residuals

    def _serve(self, state: EFLState, clients: Clients, total: Array) -> dict[str, Array | None]:
        """The fields of the state that the server changes."""
        if self.down_compressor is None:
            return {"x": state.x + total}
        total, message, residual, bits = serve(clients, total, self.down_compressor, state.server_residual)
        owed = state.missed_bits
        return {
            "x": state.x + (message if self.variant == "consistent" else total),
            "server_residual": residual,
            "missed_bits": None if owed is None else debt_after(clients, owed, bits, total.shape[1]),
            "held": None if state.held is None else state.held + message,
        }

    def check_sampling(self, sampling: Sampling, problem: Problem, rounds: int) -> None:
        law = getattr(sampling, "law", None)
        if self.scheme != "C-corrected" or law is None:
            return
        active = np.zeros(problem.num_clients)
        for t in range(1, rounds + 1):
            active = np.maximum(active, 1 - np.asarray(law(t), dtype=float)[:, 0])
            if (active > 0).all():
                return
        k = int(np.argmin(active))
        raise InvalidInput(
            f"client {k} is never active, so that F with its loss in it is not what any scheme sees: leave the client out of the "
            "problem, or give it P(s > 0) > 0"
        )
