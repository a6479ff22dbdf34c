"""An algorithm's view of one round: cohort, local minimisation, gradients, and the wire.

Algorithms work in slots, (S, P, d): scenario by cohort member. Problems and local solvers work client-major, (N, B, d): client by
row. Its `Layout` moves between the two, so that every kernel is one batched matrix product whatever the cohort.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.arrays import Array, all_finite, astype_like, is_numpy, rows_of, take_slots, to_numpy, width
from fedtheory.clients.layout import layout_of
from fedtheory.clients.moves import FEW, difference
from fedtheory.clients.pieces import At, Moved, compressed, large, sent_by, wanted_messages
from fedtheory.errors import Diverged, InvalidInput, MissingCapability, diverged
from fedtheory.local.objective import NUMBERS, LocalObjective, LocalResult, LocalSolver, Rows
from fedtheory.messages.base import as_uniforms
from fedtheory.participation.cohorts import Cohort
from fedtheory.problems.base import Problem
from fedtheory.randomness import Stream

if TYPE_CHECKING:
    from fedtheory.clients.fisher import FisherKind
    from fedtheory.clients.sensitivity import Average
    from fedtheory.messages.compressors import Compressor

__all__ = ["Clients"]


class _once(cached_property[Any]):
    """`cached_property` without its lock: a round's clients belong to one thread."""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = instance.__dict__[self.attrname] = self.func(instance)
        return value


class Clients:
    """One round's clients.

    Parameters
    ----------
    problem : Problem
    cohort : Cohort
    solver : LocalSolver
    like : array
        Decides namespace, dtype and device.
    stream, round_index, scenarios
        Key of the randomness local solvers may draw; `scenarios` are the global numbers of this chunk's scenarios.
    in_place : bool
        Whether ``put`` may overwrite the memory it is given.
    """

    def __init__(
        self,
        problem: Problem,
        cohort: Cohort,
        solver: LocalSolver,
        like: Array,
        stream: Stream | None = None,
        round_index: int = 1,
        scenarios: range | None = None,
        in_place: bool = False,
    ) -> None:
        self.problem, self.cohort, self.solver = problem, cohort, solver
        self.stream = stream or Stream(0)
        self.round_index = round_index
        self.scenarios = scenarios or range(cohort.scenarios)
        self._like, self._in_place = like, in_place
        self.layout = layout_of(cohort, like)
        self.xp = self.layout.xp
        self._messages: list[Any] = []
        self._senders: list[np.ndarray | None] = []
        self.results: list[LocalResult] = []
        self._bits_up: list[int | np.ndarray] = []
        self._bits_down: list[int | np.ndarray] = []
        self._draws = 0  # of a randomised compressor, this round
        self._coins = 0

    # --- the cohort ---------------------------------------------------------------------------------------------------
    @property
    def num_clients(self) -> int:
        return self.cohort.num_clients

    def real(self, number: Any) -> Any:
        """A hyperparameter, which may be a fraction, in the arithmetic of the run: a float."""
        return float(number)

    @cached_property
    def size(self) -> Array:
        """(S, 1) number of participants."""
        return astype_like(self.cohort.size().astype(float)[:, None], self._like)

    @cached_property
    def steps(self) -> Array:
        """Local steps completed this round, 0 where a client is inactive: (S, P, 1)."""
        if self.cohort.steps is None:
            raise MissingCapability("the cohort says nothing of local steps: sample it with fedtheory.participation")
        return astype_like(np.ascontiguousarray(self.cohort.steps[:, :, None]).astype(float), self._like)

    @property
    def objective_weights(self) -> np.ndarray:
        """w_k of all clients (N,), in NumPy."""
        return self.problem.weights

    def weights(self) -> Array:
        """Objective weights w_k of the slots, 0 outside the cohort: (S, P, 1)."""
        return self.layout.of_slots(self.problem.weights)

    def sample_shares(self) -> Array:
        """Shares n_k/n of all samples, 0 outside the cohort: (S, P, 1)."""
        return self.layout.of_slots(self.problem.sample_counts / self.problem.sample_counts.sum())

    def broadcast(self, x: Array) -> Array:
        """Server to cohort: (S, d) -> (S, P, d), counted as d floats down for every participant."""
        self.receive_bits(self.float_bits * x.shape[1])
        return self.spread(x)

    def spread(self, x: Array) -> Array:
        """Give what the cohort holds already, or computes: (S, d) -> (S, P, d), not counted."""
        slots = self.cohort.slots
        if is_numpy(x) and len(x) == 1 and slots * x.shape[1] < FEW:  # side by side, which costs less in all that is made of them
            return x.repeat(slots, axis=0)[None]
        return self.xp.broadcast_to(x[:, None, :], (x.shape[0], slots, x.shape[1]))

    def take(self, memory: Array) -> Array:
        """The cohort's rows of a per-client memory: (S, N, d) -> (S, P, d)."""
        return self.layout.take(memory)

    def put(self, memory: Array, values: Array) -> Array:
        """Memory (S, N, d) with the cohort's rows replaced by values (S, P, d)."""
        return self.layout.put(memory, values, self._in_place)

    def moved(self, y: Array, start: Array) -> Any:
        """y - start (S, P, d): an array, or where that is faster a `Moved`, which `send` and `dual_step` take, and ``[...]`` makes."""
        return difference(y, start)

    def dual_step(self, memory: Array, duals: Array, moved: Any, l2: float, l1: float = 0.0) -> tuple[Array, Array]:
        """The memory (S, N, d) with the cohort's duals less the penalty's gradient, and how much they changed, summed over it (S, d).

        Parameters
        ----------
        duals : (S, P, d), the cohort's rows of the memory before
        moved : (S, P, d), or a `Moved`: the local models less their center
        l2, l1 : of the penalty, whose gradient is l2 moved + l1 sign(moved), sign(0) = 0
        """
        delta = moved
        if type(moved) is Moved:
            made = self.layout.dual_step(memory, duals, moved, l2, l1, self._in_place)
            if made is not None:
                return made
            delta = moved[...]
        new = duals - l2 * delta
        new = new - l1 * self.xp.sign(delta) if l1 else new
        return self.put(memory, new), self.sum(new - duals)

    def sum(self, values: Array, weights: Array | None = None) -> Array:
        """Sum over the cohort, weighted by (S, P, 1) where there are weights: (S, P, d) -> (S, d)."""
        return self.layout.sum(values, weights)

    def mean(self, values: Array) -> Array:
        """Mean over the cohort: (S, P, d) -> (S, d); 0 where nobody takes part."""
        if self.cohort.partial_mask is None:
            return self.sum(values) / float(self.cohort.slots)
        return self.sum(values) / self._divisor

    @cached_property
    def _divisor(self) -> Array:
        return astype_like(self.cohort.divisor[:, None], self._like)

    # --- the clients' rows --------------------------------------------------------------------------------------------
    @_once
    def row_problem(self) -> Problem:
        """The problem of the clients that have rows, where the run computes."""
        problem = self.problem.like(self._like)
        clients = self.layout.clients
        return problem if len(clients) == self.num_clients else problem.subset(clients)

    @_once
    def rows(self) -> Rows:
        """The rows, as a local solver is told of them."""
        layout = self.layout
        steps = None if self.cohort.members is not None or self.cohort.steps is None else self.cohort.steps.T
        return Rows(layout.clients, layout.scenario_of_row(self.scenarios), layout.valid, self.stream, self.round_index, steps)

    # --- the round's coins --------------------------------------------------------------------------------------------
    def coin(self, p: Any) -> Array:
        """One coin a scenario, the same for all its clients: (S, 1) of bools, True with probability p.

        It is drawn from (seed, round, number of the coin, scenario) alone.
        """
        if not 0 <= p <= 1:
            raise InvalidInput(f"coin({p}): a probability lies in [0, 1]")
        self._coins += 1
        drawn = self.stream.per_scenario(lambda g, s: g.random((s, 1)), "coin", self.scenarios, self.round_index, self._coins)
        return astype_like(drawn < float(p), self._like)

    # --- the work -----------------------------------------------------------------------------------------------------
    def minimise(self, objective: LocalObjective, start: Array, solver: LocalSolver | None = None) -> LocalResult:
        """Run the local solver (or the one given) on every slot; arrays of the objective and the start are (S, P, d).

        Raises
        ------
        MissingCapability
            The cohort says how many local steps each client completes, and the solver does not go by it.
        InvalidInput
            The cohort's E is not the solver's number of steps.
        """
        solver = solver or self.solver
        if self.cohort.steps is not None:
            solver.check_steps(self.cohort.max_steps)
        slots = self.layout.slot_of_row()
        if slots is not None and (found := solver.solve_slots(self.row_problem, objective, start, self.rows, slots)) is not None:
            self.results.append(found)
            return found
        layout = self.layout
        seen: dict[int, Array] = {}  # the same array in two roles stays one array, which solvers may use

        def to_rows(values: Array) -> Array:
            rows = seen.get(id(values))
            if rows is None:
                rows = seen[id(values)] = layout.to_rows(values)
            return rows

        y, residual, steps, average = solver.solve(self.row_problem, objective.map(to_rows), to_rows(start), self.rows)
        out = LocalResult(
            layout.to_slots(y),
            None if residual is None else layout.to_slots(residual[..., None])[..., 0],
            steps if steps is None or isinstance(steps, NUMBERS) else layout.to_slots(steps),
            None if average is None else layout.to_slots(average),
        )
        self.results.append(out)
        return out

    def gradient(self, y: Array) -> Array:
        """Full gradients grad f_k(y) of the slots: (S, P, d) -> (S, P, d)."""
        return self.layout.to_slots(self.row_problem.client_gradient(self.layout.to_rows(y)))

    def any_near_the_optimum(self, name: str, distance: Any) -> Array:
        """Refuse any vectors of the clients that are as near to their gradients at the optimum, of which a worst case takes the worst.

        Raises
        ------
        MissingCapability
            In a run.
        """
        told = "stands for any vectors of the clients within this distance from their gradients at x*, of which a worst case takes "
        raise MissingCapability(f"{name}, {distance}: it {told}the worst: a run begins with one of them")

    def fisher(self, y: Array, kind: FisherKind) -> Array:
        """Fisher diagonals of the slots at y: (S, P, d) -> (S, P, d)."""
        from fedtheory.clients.fisher import client_fisher

        return self.layout.to_slots(client_fisher(self.row_problem, self.layout.to_rows(y), kind))

    def sensitivity(self, y: Array, batch_size: int | None, mu: float, ema: Average) -> Array:
        """Measure how the output moves with each parameter: (S, P, d) twice. It does so on the
        slots' held-out samples, or on all where there are none."""
        from fedtheory.clients.sensitivity import client_sensitivity

        problem = self.row_problem.held_out or self.row_problem
        return self.layout.to_slots(client_sensitivity(problem, self.layout.to_rows(y), batch_size, mu, ema))

    # --- the wire -----------------------------------------------------------------------------------------------------
    @property
    def float_bits(self) -> int:
        """Bits of one uncompressed number: the width of the run's dtype."""
        return width(self._like)

    @property
    def sent(self) -> list[Array]:
        """The messages sent so far, (S, P, d) each."""
        self._messages = [m[...] if type(m) is Moved else m for m in self._messages]
        return self._messages

    def send(self, message: Any, compressor: Compressor | None = None, senders: np.ndarray | None = None) -> Array:
        """Client to server: (S, P, d) -> what arrives; its bits are counted, and what was sent is measured by the caller of the round.

        A `Moved` that all send, uncompressed, is made when somebody looks at it.
        senders (S, P) of bools: the participants that send it (default all); from the others 0 arrives.
        """
        if compressor is not None:
            message, bits = self._compress(message[...], compressor, senders)
        else:
            message = message if senders is None else self._only(message[...], senders)
            bits = self.float_bits * message.shape[-1]
        self._sent(message, bits, senders)
        return message

    def send_down(self, step: Array) -> Array:
        """Server to clients: the server's step (S, d) -> what arrives, all of it unless the method is `Compressed`.

        Its bits are those of the next `broadcast` of the model.
        """
        return step

    def _sent(self, message: Array, bits: int | np.ndarray, senders: np.ndarray | None) -> None:
        self.send_bits(bits if senders is None else bits * senders)
        self._messages.append(message)
        self._senders.append(senders)

    def _who(self, senders: np.ndarray | None) -> np.ndarray | None:
        """Return who sends a message (S, P) that the cohort's senders send; None: every slot."""
        mask = self.cohort.partial_mask
        return mask if senders is None else senders if mask is None else senders & mask

    def compress(self, message: Array, compressor: Compressor) -> Array:
        """Every participant's message (S, P, d) as the compressor leaves it, not counted.

        A randomised compressor draws from (seed, round, number of the message, scenario, client) alone.
        """
        return self._compress(message, compressor)[0]

    def _compress(
        self, message: Array, compressor: Compressor, senders: np.ndarray | None = None
    ) -> tuple[Array, np.ndarray]:
        """Return what arrives (S, P, d), 0 from those that do not send, and its bits (S, P)."""
        who = self._who(senders)
        uniforms = self._uniforms("compression up", self.num_clients, message) if compressor.randomised else None
        some = who is not None and not who.all()
        if is_numpy(message) and (some or large(message)):  # messages are compressed one by one anyway
            out = np.zeros_like(message)
            return out, compressed(message.__getitem__, compressor, uniforms, who, out, self._check_rows)
        message = self._only(message, who) if who is not None and some else message
        return self._arrives(message, compressor, uniforms, who)

    def _arrives(
        self, message: Array, compressor: Compressor, uniforms: Array | None, who: np.ndarray | None = None
    ) -> tuple[Array, np.ndarray]:
        """`sent_by` of slots (S, P, d), or of the server (S, d); what is not finite, and so refused, is named by its place."""
        try:
            return sent_by(compressor, message, uniforms)
        except InvalidInput:
            self._check_finite(message if message.ndim == 3 else message[:, None, :], who)
            raise

    def in_pieces(self, memory: Array) -> bool:
        """True if a memory (S, N, d) is so large that messages from it are made and compressed in pieces."""
        return large(memory)

    def send_with_feedback(
        self, update: Any, compressor: Compressor, residuals: np.ndarray, senders: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """In pieces, what arrives (S, P, d) of D^k = R^k + update, and the residuals (S, N, d) afterwards, D^k - C(D^k) of the senders.

        update : (S, P, d), or a `Moved`, which is made where and when it is sent.
        """
        members, shape = self.cohort.members, (self.cohort.scenarios, self.cohort.slots, residuals.shape[-1])
        uniforms = self._uniforms("compression up", self.num_clients, residuals) if compressor.randomised else None
        memory = residuals if self._in_place else residuals.copy()

        def of(at: At) -> At:
            return at if members is None else (at[0], members[at])

        def keep(at: At, left: np.ndarray) -> None:
            memory[of(at)] = left

        make = wanted_messages(memory, update, of)
        out = np.zeros(shape, dtype=residuals.dtype)
        bits = compressed(make, compressor, uniforms, self._who(senders), out, self._check_rows, keep)
        self._sent(out, bits, senders)
        return out, memory

    def send_bits(self, bits: int | np.ndarray) -> None:
        """Count bits up that are no message of d numbers: one number, or (S, P)."""
        self._bits_up.append(bits)

    def receive_bits(self, bits: int | np.ndarray) -> None:
        """Count bits down: one number for every participant, or (S, P)."""
        self._bits_down.append(bits)

    def compress_down(self, message: Array, compressor: Compressor) -> tuple[Array, np.ndarray]:
        """The server's message (S, d) as it arrives, and its length in bits (S,), not counted: who reads it is the method's matter."""
        uniforms = self._uniforms("compression down", 1, message[:, None, :])[:, 0, :] if compressor.randomised else None
        return self._arrives(message, compressor, uniforms)

    @property
    def bits_up(self) -> np.ndarray:
        """Bits each slot has sent so far, (S, P) int64, 0 outside the cohort.

        What no compressor touched counts as dense floats of the run's width.
        """
        return self._counted(self._bits_up)

    @property
    def bits_down(self) -> np.ndarray:
        """Bits each slot has received so far, as `bits_up`."""
        return self._counted(self._bits_down)

    def _counted(self, messages: list[int | np.ndarray]) -> np.ndarray:
        total = np.zeros((self.cohort.scenarios, self.cohort.slots), dtype=np.int64)
        mask = self.cohort.partial_mask
        for bits in messages:
            total += bits if mask is None else bits * mask
        return total

    def client_bits(self) -> tuple[np.ndarray, np.ndarray]:
        """Bits up and down of every client this round: (S, N) int64 each."""
        if self.cohort.members is None:
            return self.bits_up, self.bits_down
        out = np.zeros((2, self.cohort.scenarios, self.num_clients), dtype=np.int64)
        for total, bits in zip(out, (self.bits_up, self.bits_down), strict=True):
            np.put_along_axis(total, self.cohort.members, bits, axis=1)
        return out[0], out[1]

    def _only(self, message: Array, who: np.ndarray) -> Array:
        """The message with 0 where who (S, P) is False: outside the cohort there may be infinities."""
        chosen = astype_like(np.ascontiguousarray(who)[:, :, None], self._like)
        return self.xp.where(chosen, message, self.xp.zeros_like(message))

    def _check_finite(self, message: Array, who: np.ndarray | None = None) -> None:
        """Raise `Diverged` for what no compressor can encode: of the slots (S, P) in the message, or of the server, (S, 1, d)."""
        if all_finite(message):
            return
        bad = ~to_numpy(self.xp.isfinite(message)).all(axis=-1)
        bad = bad if who is None else bad & who
        if not bad.any():
            return
        scenario, slot = (int(i) for i in np.argwhere(bad)[0])
        raise self._diverged(scenario, slot if message.shape[1] == self.cohort.slots else None)

    def _check_rows(self, rows: np.ndarray, at: At) -> None:
        """The same for the messages (R, d) of the slots at."""
        bad = ~np.isfinite(rows).all(axis=-1)
        if bad.any():
            raise self._diverged(*(int(i[bad.argmax()]) for i in at))

    def _diverged(self, scenario: int, slot: int | None) -> Diverged:
        """Return the error to raise for a message of a slot, or of the server (None)."""
        client = slot if slot is None or self.cohort.members is None else int(self.cohort.members[scenario, slot])
        return diverged(self.round_index, client, self.scenarios[scenario], "a message")

    def _uniforms(self, purpose: str, rows: int, like: Array) -> Array:
        shape = (rows, like.shape[-1])
        self._draws += 1
        drawn = self.stream.per_scenario(
            lambda g, s: g.random((s, *shape)), purpose, self.scenarios, self.round_index, self._draws
        )
        if rows > 1 and self.cohort.members is not None:
            drawn = take_slots(drawn, self.cohort.members)
        # in double precision: rounded to single, some would be 1, and ties among them common
        return drawn if is_numpy(like) else as_uniforms(drawn, like)

    def who_sent(self) -> list[np.ndarray | None]:
        """List who sent each of the round's messages, (S, P) of bools; None: every slot."""
        return [self.cohort.mask if senders is None else senders for senders in self._senders]

    def sent_rows(self) -> list[Array]:
        """Messages of the round's participants that sent them, each (senders over all scenarios, d), where they lie."""
        return [rows_of(message, who) for message, who in zip(self.sent, self.who_sent(), strict=True)]

    def sent_numpy(self) -> list[np.ndarray]:
        """`sent_rows` in main memory."""
        return [to_numpy(rows) for rows in self.sent_rows()]
