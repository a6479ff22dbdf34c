"""A round of a federated method on separable losses, in fractions or floats: what a method sees,
and the local work.

`SlotClients` looks to an algorithm as `fedtheory.clients.clients.Clients` does. Everything
happens in slots (S, P, d), with the data of the slots' clients gathered next to them, so that
fractions (object arrays) and floats take the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.arrays import namespace, read_only
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local.objective import LocalObjective, LocalResult, LocalSolver
from fedtheory.participation.cohorts import Cohort
from fedtheory.theory.rounds.losses import SeparableLosses

__all__ = ["NotInFractions", "SlotClients", "SlotWork", "check_fractions"]

NO_COIN = (
    "the method flips a coin in its rounds, of which a theorem's expectations know nothing: they "
    "are over cohorts. Take runs of it by simulate(..., scenarios=...), and bounds by worst_case "
    "or quadratic_potential"
)


class NotInFractions(MissingCapability):
    """A method or a claim makes numbers that are no fractions."""


@dataclass(frozen=True)
class SlotWork:
    """The local work: E gradient steps of size eta, or (E None) exact minimisation."""

    steps: int | None = None
    lr: Any = None

    def run(self, pieces: Any, objective: LocalObjective, start: Any) -> LocalResult:
        """On arrays (S, P, d)."""
        curvature, linear, l1 = objective.curvature, objective.linear, objective.l1
        if start.dtype == object:
            curvature, l1 = _fraction(curvature, "curvature"), _fraction(l1, "l1")
        if self.steps is None:
            anchor = objective.l1_center
            linear = 0 * start if linear is None else linear
            return LocalResult(pieces.minimise(linear, curvature, objective.center, l1, anchor))
        y = start
        pulled = start.dtype != object or np.any(curvature)  # fractions are slow to multiply by 0
        for _ in range(self.steps):
            slope = pieces.gradient(y)
            slope = slope + curvature * (y - objective.center) if pulled else slope
            slope = slope if linear is None else slope - linear
            if l1:
                slope = slope + l1 * np.sign(y - objective.l1_center)
            y = y - self.lr * slope
        return LocalResult(y, step_sum=self.steps * self.lr)


class SlotClients(Clients):
    """One round's clients of `SeparableLosses`.

    Parameters
    ----------
    losses : SeparableLosses
    cohort : Cohort, of S scenarios
    work : SlotWork
    like : array (S, d)
        Its dtype is that of the run: object for fractions.
    """

    def __init__(
        self, losses: SeparableLosses, cohort: Cohort, work: SlotWork, like: Any,
        round_index: int = 1
    ) -> None:
        self.losses, self.cohort, self.work, self._like = losses, cohort, work, like
        self.round_index, self.scenarios = round_index, range(cohort.scenarios)
        self.xp = namespace(like)
        self._in_place = False
        self._messages: list[Any] = []
        self._senders: list[np.ndarray | None] = []
        self.results: list[LocalResult] = []
        self._bits_up: list[Any] = []
        self._bits_down: list[Any] = []
        self.pieces = (
            losses.pieces if cohort.members is None else losses.pieces.take(cohort.members)
        )

    @property
    def problem(self) -> Any:  # type: ignore[override]
        """Refuse what a method should not look at: the slots have no `fedtheory.problems.Problem`
        behind them."""
        raise NotInFractions(
            "the method reads clients.problem, which has no counterpart in fractions"
        )

    @property
    def solver(self) -> LocalSolver:  # type: ignore[override]
        """As `problem`."""
        raise NotInFractions(
            "the method reads clients.solver, which has no counterpart in fractions"
        )

    @property
    def float_bits(self) -> int:
        return 64

    def _count(self, values: np.ndarray) -> Any:
        exact = self._like.dtype == object  # whole zeros would divide to floats
        return values + Fraction(0) if exact else values.astype(float)

    @property
    def size(self) -> Any:
        return self._count(self.cohort.size())[:, None]

    def take(self, memory: Any) -> Any:
        members = self.cohort.members
        return memory if members is None else memory[np.arange(len(members))[:, None], members]

    def put(self, memory: Any, values: Any) -> Any:
        members = self.cohort.members
        if members is None:
            return np.where(self.cohort.dense_mask[:, :, None], values, memory)
        out = memory.copy()
        out[np.arange(len(members))[:, None], members] = values
        return out

    def moved(self, y: Any, start: Any) -> Any:
        return y - start

    def weights(self) -> Any:
        w = self.losses.weights
        slots = (
            w[self.cohort.members] if self.cohort.members is not None
            else w * self._count(self.cohort.dense_mask.astype(int))
        )
        return slots[:, :, None]

    @property
    def objective_weights(self) -> Any:
        """w_k of all clients (N,)."""
        return self.losses.weights

    def sample_shares(self) -> Any:
        """The objective's weights: what a client's share of the samples stands for where there
        are no samples."""
        return self.weights()

    def mean(self, values: Any) -> Any:
        return self.sum(values) / self._count(np.maximum(self.cohort.size(), 1))[:, None]

    def sum(self, values: Any, weights: Any = None) -> Any:
        values = values if weights is None else weights * values
        if self.cohort.members is None:
            values = np.where(self.cohort.dense_mask[:, :, None], values, values * 0)
        return values.sum(axis=1)

    def minimise(
        self, objective: LocalObjective, start: Any, solver: LocalSolver | None = None
    ) -> LocalResult:
        if solver is not None:
            raise NotInFractions(
                "the method brings a local solver of its own, which has no counterpart in fractions"
            )
        shape = np.broadcast_shapes(np.shape(start), np.shape(objective.center))
        out = self.work.run(self.pieces, objective, np.broadcast_to(start, shape))
        out = out._replace(y=read_only(out.y))
        self.results.append(out)
        return out

    def gradient(self, y: Any) -> Any:
        return self.pieces.gradient(y)

    def coin(self, p: Any) -> Any:
        """Refuse a coin: the expectation of a round is one over cohorts, which alone are
        enumerated."""
        raise NotInFractions(NO_COIN)

    def fisher(self, y: Any, kind: Any) -> Any:
        raise NotInFractions(
            "the method asks for Fisher information, which separable losses do not have"
        )

    def sensitivity(self, y: Any, batch_size: Any, mu: Any, ema: Any) -> Any:
        raise NotInFractions(
            "the method asks for a model's output, which separable losses do not have"
        )

    def _compress(self, message: Any, compressor: Any, senders: Any = None) -> Any:
        """What arrives of a message (S, P, d); its bits are not counted."""
        who = self._who(senders)
        return self._left(message if who is None else self._only(message, who), compressor), 0

    def compress_down(self, message: Any, compressor: Any) -> Any:
        return self._left(message, compressor), np.zeros(len(message), dtype=np.int64)

    def _left(self, message: Any, compressor: Any) -> Any:
        if compressor.randomised:
            why = f"messages are compressed by {compressor.name}, which draws at random"
            raise NotInFractions(
                f"{why}: a compressor that does not, such as TopK, is computed in fractions"
            )
        left = compressor.compress(message)
        # whole zeros would divide to floats
        return left + Fraction(0) if left.dtype == object else left

    def in_pieces(self, memory: Any) -> bool:
        return False


def _fraction(value: Any, what: str) -> Any:
    """A penalty's coefficient as a fraction: of floats the whole ones only, as the default 0.0."""
    if isinstance(value, float) and not value.is_integer():
        raise NotInFractions(
            f"the method computes the {what} {value!r} of a local objective in floats"
        )
    return Fraction(value) if isinstance(value, float) else value


def check_fractions(state: Any, what: str) -> None:
    """Raise `NotInFractions` unless every array of the state holds whole numbers and fractions
    only."""
    for name in state._fields if hasattr(state, "_fields") else ("x",):
        values = getattr(state, name)
        if values is None:
            continue
        for value in np.asarray(values, dtype=object).ravel():
            if not isinstance(value, Fraction | int | np.integer):
                raise NotInFractions(
                    f"{what} makes {type(value).__name__} numbers in its {name} (such as "
                    f"{value!r}): only + - * / and comparisons of "
                    "what it is given stay fractions. For zeros use 0 * x in place of np.zeros; "
                    "the verdicts in floats stand"
                )


def check_state(state: Any, method: str) -> Any:
    """The state, if it has a server model ``x`` (S, d). Raises `InvalidInput` otherwise."""
    if not hasattr(state, "x") or np.ndim(state.x) != 2:
        raise InvalidInput(
            f"{method}: its state must be a NamedTuple with the server's model x (S, d) first"
        )
    return state
