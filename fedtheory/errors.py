"""Errors, by name. Every message says what failed, its value, the limit and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

__all__ = [
    "CheckpointError", "DataFileError", "Diverged", "FedTheoryError", "InvalidInput",
    "LocalSolveFailed", "MissingCapability", "NotCertified", "UnknownName", "suggest",
]

MANY = 40  # names that an error does not list


LONGEST = 1200  # characters of a message; what somebody's file holds may be longer by far


class FedTheoryError(Exception):
    """Base class of every error this package raises on purpose; one of more than `LONGEST`
    characters is told without its middle."""

    def __str__(self) -> str:
        return _without_middle(super().__str__())


def _without_middle(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    head, tail = text[: LONGEST // 2], text[-LONGEST // 3 :]
    return f"{head} ... ({len(text) - len(head) - len(tail):,} characters) ... {tail}"


class InvalidInput(FedTheoryError, ValueError):
    """An argument is outside what the operation is defined for."""


class CheckpointError(InvalidInput):
    """A checkpoint is not one that the run asked for can go on from, or write to."""


class MissingCapability(FedTheoryError, TypeError):
    """A problem or solver lacks what was asked of it (a Hessian or a smoothness constant, say)."""


class UnknownName(FedTheoryError, KeyError):
    """A statement, method, problem or metric of that name does not exist."""

    def __str__(self) -> str:  # KeyError would print the repr, quotes and all
        return _without_middle(str(self.args[0]))


class DataFileError(FedTheoryError, OSError):
    """A data file is missing, unreadable, truncated or in another format."""


class Diverged(FedTheoryError, ArithmeticError):
    """A run left the finite numbers.

    Attributes
    ----------
    round_index : int
        The 1-based round in which the first non-finite number appeared.
    client : int or None
        The first client it was seen at; None when the server's model is the culprit.
    scenario : int
    measured : `fedtheory.neural.TrainingRun` or None
        From `fedtheory.neural.train`: the rounds before, without a last state.
    """

    measured: Any = None

    def __init__(self, message: str, round_index: int, client: int | None, scenario: int) -> None:
        super().__init__(message)
        self.round_index = round_index
        self.client = client
        self.scenario = scenario

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:  # it crosses processes
        return type(self), (str(self), self.round_index, self.client, self.scenario)


def diverged(round_index: int, client: int | None, scenario: int, what: str = "the model") -> Diverged:
    """The `Diverged` of a round, a client (None: the server) and a scenario of the whole run."""
    at = "the server" if client is None else f"client {client}"
    return Diverged(
        f"diverged in round {round_index} at {at} (scenario {scenario}): {what} is not finite; "
        "lower the step size (below 2/beta for gradient steps), or raise lambda_2 where the method "
        "has one",
        round_index, client, scenario,
    )


class WorkerLost(FedTheoryError, RuntimeError):
    """The process that did a task died, however often the task was given out again.

    Attributes
    ----------
    index : int
        Of the task.
    """

    def __init__(self, index: int, tries: int) -> None:
        super().__init__(
            f"the worker of task {index} died, {tries} times in a row: it was killed (for memory, "
            "most often) or crashed; take fewer workers, or a smaller task"
        )
        self.index, self.tries = index, tries

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:  # it crosses processes
        return type(self), (self.index, self.tries)


class LocalSolveFailed(FedTheoryError, ArithmeticError):
    """An exact local solve stopped above its KKT tolerance."""


class NotCertified(FedTheoryError, ArithmeticError):
    """No optimum could be certified to the asked relative gap (non-convex or unbounded problems included)."""


def suggest(name: str, known: Iterable[str], kind: str, listing: str = "") -> UnknownName:
    """An `UnknownName` that offers the nearest known names; all of them where none is near and they are few.

    ``listing`` says where all names are to be found.
    """
    name, known = str(name), sorted(known)
    by_likeness = difflib.get_close_matches(name, known, n=len(known) or 1, cutoff=0.0)
    near = [k for k in by_likeness if len(name) > 2 and name.lower() in k.lower()]  # a short name may be a part of a long one
    near = [*near, *(k for k in difflib.get_close_matches(name, known, n=3, cutoff=0.4) if k not in near)][:3]
    if near:
        hint = f"did you mean {' or '.join(repr(n) for n in near)}?"
    elif len(known) <= MANY:
        hint = f"known: {', '.join(known)}"
    else:
        hint = f"none of the {len(known)} names is near, the nearest are {', '.join(map(repr, by_likeness[:3]))}"
    return UnknownName(f"unknown {kind} {name!r}: {hint}" + (f"; {listing}" if listing else ""))


def no_attribute(module: str, name: str, public: Iterable[str]) -> AttributeError:
    """Return what a module's `__getattr__` raises: with the nearest of its public names."""
    told = f"module {module!r} has no attribute {name!r}"
    if name.startswith("_"):  # which Python and its tools ask for
        return AttributeError(told)
    return AttributeError(f"{told}: {str(suggest(name, public, 'name')).partition(': ')[2]}")
