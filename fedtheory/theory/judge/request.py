"""A user's request at the command line, and the case that a paper's setting makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from fedtheory.theory.judge.check import Check

__all__ = ["COMPRESSORS", "OF_RUNS", "SENT_WHOLE", "Prepared", "Request", "Tuned"]

OF_RUNS = (  # options of the command line that mean nothing to most statements
    "inactive", "incomplete", "activity", "departure", "arrival", "batch_size", "noise",
    "lr_schedule", "lr_delay",
)  # fmt: skip


class Request(Protocol):
    """A user's request in words, at the command line; a paper's setting turns it into a `Prepared`
    case.

    Attributes
    ----------
    options : dict name -> value
        What was given; None where nothing was.
    participants : P of cohorts drawn uniformly; None for all clients
    """

    @property
    def options(self) -> Mapping[str, Any]: ...
    @property
    def participants(self) -> int | None: ...
    @property
    def rounds(self) -> int | None: ...
    @property
    def mode(self) -> str: ...
    @property
    def scenarios(self) -> int: ...
    @property
    def seed(self) -> int: ...

    def or_else(self, example: str) -> Request:
        """The same; where no problem is named, with what an example says and the user does not."""

    def problem(self, default: str) -> Any:
        """The user's problem, or the named one."""

    def start(self, problem: Any) -> Any:
        """x_0 as given, (d,); 0 by default."""

    def sampling(self, problem: Any) -> Any:
        """Cohorts of P drawn uniformly, or all clients."""

    def participation(self, problem: Any, steps: int, rounds: int) -> Any:
        """The law of the local steps that clients complete, of E = ``steps``."""

    def participation_in_words(self, problem: Any) -> str:
        """The clients that take part, for the line above the table."""

    def algorithm(
        self, method: str, problem: Any, compressed: bool = False, **defaults: Any
    ) -> Any:
        """The method with the hyperparameters that were given, else these defaults, else its own.

        compressed : its messages may be compressed; else that is refused
        """

    def local_sgd(self, algorithm: Any, problem: Any, participation: Any, rounds: int) -> Any:
        """Local SGD as the options of local work say."""

    def refuse(self, names: Any, why: str) -> None:
        """Raise `InvalidInput` that names the first of these options that was given, and its
        value."""

    def refuse_hyperparameters(self, why: str) -> None:
        """The same for every hyperparameter of every method."""


COMPRESSORS = ("compressor", "down_compressor", "control_compressor")  # options
SENT_WHOLE = "the statement is about messages that are sent whole; leave it out"


@dataclass(frozen=True)
class Prepared:
    """A case made from a request.

    Attributes
    ----------
    options : keyword arguments of `fedtheory.theory.judge.verify.verify` that are the case's own,
        beside what every request says: x0, rounds, mode, scenarios, seed and given
    head : lines above the table: the problem, the method, what was chosen
    details : what is written beside the checks
    facts : callable(checks) -> rows (name, value)
        Constants that the checks carry, shown once above the table and taken out of the checks.
    staged : whether Monte Carlo comes in stages, so that its progress is counted and an interrupt
        keeps the last stage
    """

    problem: Any
    algorithm: Any
    options: dict[str, Any] = field(default_factory=dict)
    head: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    facts: Callable[[Sequence[Check]], list[tuple[str, Any]]] = lambda checks: []
    staged: bool = False


@dataclass(frozen=True)
class Tuned:
    """A method as a theorem's parameters make it, for a run.

    Attributes
    ----------
    algorithm, problem, rounds : what is run, and for how long
    radius : of the ball that it is about; None where there is none
    rows : (name, value) of what was chosen, and why
    details : the same for a file
    """

    algorithm: Any
    problem: Any
    rounds: int
    radius: float | None = None
    rows: Sequence[tuple[str, Any]] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
