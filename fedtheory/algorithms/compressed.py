"""Compression of messages, with error feedback on either side, as a wrapper around a method."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np

from fedtheory.algorithms.base import Algorithm, Sent, check_choice, per_client, require
from fedtheory.algorithms.feedback import (
    check_compressor,
    debt,
    debt_after,
    download,
    serve,
    upload,
)
from fedtheory.arrays import Array, namespace

if TYPE_CHECKING:
    from fedtheory.clients.clients import Clients
    from fedtheory.local.objective import LocalSolver
    from fedtheory.messages import Compressor
    from fedtheory.participation.cohorts import Sampling
    from fedtheory.problems.base import Problem

__all__ = ["Compressed", "check_goes_by_what_arrives"]

OWN = ("residuals", "server_residual", "missed_bits")  # of the state, behind the method's


@dataclass(frozen=True)
class Compressed(Algorithm):
    """A method with compressed messages: ``Compressed(FedAvg(), up=TopK(q=0.1))``.

    Its state has the method's fields, and then ``residuals`` (S, N, d) and ``server_residual``
    (S, d), what the compressors left out so far, and ``missed_bits`` (S, N), the bits that bring a
    client up to date. They are None where there is no such thing.

    Parameters
    ----------
    method : Algorithm
        One whose ``compresses`` names the messages below.
    up : Compressor or None
        Of what each client sends first in a round.
    down : Compressor or None
        Of the server's step, which clients add to the model they hold. A client that was away is
        sent the messages it missed, or a dense model where that is shorter.
    control : Compressor or None
        Of what each client sends second in a round, the change of SCAFFOLD's control variate. The
        client adds what arrives to its control variate, so that what is left out is in the next
        change anyway and no residual is kept.
    feedback : bool, 'up', 'down' or None
        Error feedback: what ``up`` and ``down`` leave out is added to the next message of that
        side. 'up' and 'down': on that side alone. False: it is lost. None: the method's own
        ``error_feedback``, which is True but for FedGATE.
    of : 'update' or 'model'
        What a method sends that can send either, in place of its own ``send``.

    Raises
    ------
    InvalidInput
        No compressor, messages that the method does not send or that cannot be compressed, models
        compressed with feedback, whose residuals would pile up.
    """

    coordinatewise: ClassVar[bool] = False

    method: Algorithm
    up: Compressor | None = None
    down: Compressor | None = None
    control: Compressor | None = None
    feedback: bool | Literal["up", "down"] | None = None
    of: Sent = "update"

    def __post_init__(self) -> None:
        method = self.method
        plain = isinstance(method, Algorithm) and not isinstance(method, Compressed)
        require(
            plain,
            "method",
            method,
            "give a method of fedtheory.algorithms, such as FedAvg(), or one of your own",
        )
        check_choice(self, "of", ("update", "model"))
        known = (
            self.feedback is None
            or isinstance(self.feedback, bool)
            or self.feedback in ("up", "down")
        )
        require(known, "feedback", self.feedback, "use True, False, 'up', 'down' or None")
        for side in ("up", "down", "control"):
            check_compressor(self, side)
        require(
            bool(self._sides),
            "up",
            None,
            "nothing is compressed: give a compressor as up, down or control",
        )
        one = self.feedback not in ("up", "down") or self.feedback in self._sides
        require(
            one, "feedback", self.feedback, "there is no compressor on that side: use True or False"
        )
        for side in self._sides:
            method.check_compressed(side)
        if self.up is not None:
            if self.of == "model":
                method.check_compressed("model")
                require(
                    not self.feeds("up"),
                    "of",
                    self.of,
                    "with feedback, use of='update', or feedback=False to compress models",
                )
            if getattr(method, "send", self.of) != self.of:
                method = replace(method, send=self.of)
        object.__setattr__(self, "method", method)
        words = ("name", "source", "local_work", "local_steps", "parameters_from")
        for word in (*words, "nonsmooth", "one_loss", "plain_mean"):
            object.__setattr__(self, word, getattr(method, word, getattr(self, word, "")))
        if not type(method).__module__.startswith("fedtheory."):
            check_goes_by_what_arrives(self)

    @property
    def _sides(self) -> list[str]:
        return [side for side in ("up", "down", "control") if getattr(self, side) is not None]

    def feeds(self, side: str) -> bool:
        """True if what that side's compressor leaves out is added to its next message."""
        feedback = self.method.error_feedback if self.feedback is None else self.feedback
        return getattr(self, side) is not None and feedback in (True, side)

    def check(self, solver: LocalSolver) -> None:
        self.method.check(solver)

    def check_run(self, problem: Problem, rounds: int) -> None:
        for side in self._sides:
            getattr(self, side).check(problem.dim)
        self.method.check_run(problem, rounds)

    def check_sampling(self, sampling: Sampling, problem: Problem, rounds: int) -> None:
        self.method.check_sampling(sampling, problem, rounds)

    def init(self, x: Array, num_clients: int) -> Any:
        return self._begun(self.method.init(x, num_clients), x, num_clients)

    def begin(self, x: Array, num_clients: int, everybody: Callable[[], Clients]) -> Any:
        """As of the method; what is sent at the start is sent whole."""
        return self._begun(self.method.begin(x, num_clients, everybody), x, num_clients)

    def _begun(self, begun: Any, x: Array, num_clients: int) -> Any:
        """The method's state with what is kept of messages."""
        kind: Any = type(begun)
        named = hasattr(kind, "_fields") and not {*OWN} & {*kind._fields}
        says = "its state must be a NamedTuple with the model x (S, d) first"
        says += f", without {', '.join(OWN)}"
        require(named, "method", self.method, says)
        return _state_of(kind)(
            *begun,
            per_client(x, num_clients) if self.feeds("up") else None,
            namespace(x).zeros_like(x) if self.feeds("down") else None,
            debt(x, num_clients) if self.down is not None else None,
        )

    def round(self, state: Any, clients: Clients) -> Any:
        made = type(state)
        wire = _Wire(self, clients, state.x, state[-len(OWN) :])
        after = self.method.round(made.plain(*state[: -len(OWN)]), cast("Clients", wire))
        wire.check()
        return made(*after, wire.residuals, wire.server_residual, wire.missed_bits)


class _Wire:
    """A round's clients whose messages are compressed on their way. All else is their own."""

    def __init__(
        self, how: Compressed, clients: Clients, model: Array, own: Any = (None, None, None)
    ) -> None:
        self._how, self._clients, self._model, self._count = how, clients, model, 0
        self.residuals, self.server_residual, self.missed_bits = own
        self._served = how.down is None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clients, name)

    def broadcast(self, x: Array) -> Array:
        """Server to cohort. The model costs what a client has missed since it was last there."""
        if self.missed_bits is None or x is not self._model:
            return self._clients.broadcast(x)
        download(self._clients, self.missed_bits)
        return self._clients.spread(x)

    def send(
        self, message: Any, compressor: Compressor | None = None, senders: np.ndarray | None = None
    ) -> Array:
        """Client to server: the first message of a round by ``up``, the second by ``control``."""
        self._count += 1
        if compressor is not None:
            return self._clients.send(message, compressor, senders)
        if self._count == 1 and self._how.up is not None:
            arrived, self.residuals = upload(
                self._clients, message, self._how.up, self.residuals, senders
            )
            return arrived
        return self._clients.send(message, self._how.control if self._count == 2 else None, senders)

    def send_down(self, step: Array) -> Array:
        """The server's step (S, d) as it arrives."""
        if self._how.down is None:
            return step
        self._served = True
        _, message, self.server_residual, bits = serve(
            self._clients, step, self._how.down, self.server_residual
        )
        self.missed_bits = debt_after(self._clients, self.missed_bits, bits, step.shape[1])
        return message

    def check(self) -> None:
        """Raise `InvalidInput` where the method did not send what was to be compressed."""
        how = self._how
        needs = 2 if how.control is not None else 1 if how.up is not None else 0
        side = "control" if needs == 2 else "up"
        sent = f"{how.name} calls clients.send {self._count} times in a round: leave it out"
        require(self._count >= needs, side, getattr(how, side), sent)
        require(
            self._served,
            "down",
            how.down,
            f"{how.name} does not call clients.send_down: leave it out",
        )


class _Altered(_Wire):
    """A wire on which one message of a round arrives with the other sign: that of a number, or
    the server's step (0)."""

    number: int

    def send(
        self, message: Any, compressor: Compressor | None = None, senders: np.ndarray | None = None
    ) -> Array:
        self._count += 1
        arrived = self._clients.send(message, compressor, senders)[...]
        return -arrived if self._count == self.number else arrived

    def send_down(self, step: Array) -> Array:
        return step if self.number else -step


def check_goes_by_what_arrives(how: Compressed) -> None:
    """Raise `InvalidInput` for a method whose model is the same whatever arrives of its messages.

    Two rounds of two clients are run for it; a method that they are too few for is not checked.
    """
    from fedtheory.clients.clients import Clients
    from fedtheory.local import GradientSteps
    from fedtheory.participation.cohorts import Cohort
    from fedtheory.problems import Quadratic

    losses = Quadratic(np.stack([np.eye(2), 2 * np.eye(2)]), np.array([[4.0, 2.0], [-2.0, 3.0]]))

    def end(number: int) -> Array:
        state = how.method.init(np.ones((1, 2)), 2)
        for t in (1, 2):
            clients = Clients(
                losses,
                Cohort(2, members=np.array([[0, 1]])),
                GradientSteps(2, 0.2),
                state.x,
                round_index=t,
            )
            wire = _Altered(how, clients, state.x)
            wire.number = number
            state = how.method.round(state, cast("Clients", wire))
        return state.x

    try:
        plain = end(-1)
        numbers = {"up": 1, "control": 2, "down": 0}
        same = [side for side in how._sides if (end(numbers[side]) == plain).all()]
    except Exception:
        return
    for side in same:
        door = "send_down" if side == "down" else "send"
        lost = f"{how.name} goes on with what it sends, not with what clients.{door} gives back"
        lost += ": use what arrives"
        require(False, side, getattr(how, side), lost)


@cache
def _state_of(plain: Any) -> Any:
    """The type of a compressed method's state: the fields of the method's, and `OWN`."""
    names = [*plain._fields, *OWN]
    base: Any = namedtuple(f"Compressed{plain.__name__}", names)  # type: ignore[misc]
    return type(base.__name__, (base,), {"__slots__": (), "plain": plain, "__reduce__": _reduced})


def _reduced(state: Any) -> Any:
    """How a state is pickled, whose type is made at run time."""
    return _restored, (type(state).plain, *state)


def _restored(plain: Any, *values: Any) -> Any:
    return _state_of(plain)(*values)
