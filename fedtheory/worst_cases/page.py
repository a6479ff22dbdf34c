"""A method's own round, run on the vectors of a worst case.

The class that trains a network is handed arrays whose entries are coordinates of vectors
(`fedtheory.worst_cases.entries`). What is no matter of vectors is refused with the line that asked for it.

A round that flips a coin is run once for every way that its coins fall. Up to the coin all of them
ask for the same gradients, and after it each for its own, unless two are at one place.
"""

from __future__ import annotations

import copy
import inspect
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from fedtheory.algorithms.base import Algorithm
from fedtheory.errors import FedTheoryError, MissingCapability, UnknownName
from fedtheory.local.objective import LocalSolver
from fedtheory.rational import in_fractions
from fedtheory.worst_cases.coins import Coins, every_way
from fedtheory.worst_cases.entries import NOT_LINEAR, SHOWN, NotLinear, Trace
from fedtheory.worst_cases.traced import VectorClients

__all__ = ["Page", "with_its_line"]

LACKS = {  # what an error of NumPy, or of a local solver, is about
    "Coordinate": "NumPy cannot do this with vectors", "Square": "NumPy cannot do this with vectors",
    "Fraction": "numbers are fractions here: take math.sqrt or the like of them, or float(...) first",
    "Count": "numbers are fractions here: take math.sqrt or the like of them, or float(...) first",
    "VectorProblem": "asks for more of the losses than full gradients",
}  # fmt: skip


class _State(NamedTuple):
    """The state that a page keeps from round to round: the method's state, moves and points of a set, how the
    coins fell, and what names its start has taken."""

    trace: Trace
    of_method: Any
    moves: dict[str, tuple[Any, Any, Fraction]]
    inside: list[tuple[str, Any, Any]]
    history: str = ""
    named: tuple[int, int] = (0, 0)
    begun_with: tuple[str, ...] = ()


class Page:
    """A round of a method on vectors: called with (run, t, model, state) it gives the next model and state.

    Parameters
    ----------
    solver : the local solver, `Exact` or `ExactProx` for exact solves
    clients, participants : N and P
    coordinates : how many stand for the dimension
    t : the rounds before it
    state : what the page gave back; None before the first round

    Raises
    ------
    MissingCapability
        What the round asks for that is no matter of vectors, with the line.
    """

    def __init__(
        self, algorithm: Algorithm, solver: LocalSolver, clients: int, participants: int, coordinates: int = SHOWN
    ) -> None:
        algorithm.check(solver)
        self.algorithm, self.method, self.solver = algorithm, in_fractions(algorithm), in_fractions(solver)
        self.clients, self.participants, self.coordinates = clients, participants, coordinates

    def __call__(self, run: Any, t: int, x: Any, state: Any) -> tuple[Any, Any]:
        """Of a round that flips no coin."""
        return self._told(run, t, x, state, None)

    def every_way(self, run: Any, t: int, x: Any, state: Any) -> list[tuple[Fraction, Any, Any]]:
        """Each way for the round's coins to fall: its probability, the next model and state."""
        ways = every_way(lambda coins: self._told(run, t, x, state, coins))
        return [(coins.weight, *after) for coins, after in ways]

    def _told(self, run: Any, t: int, x: Any, state: Any, coins: Coins | None) -> tuple[Any, Any]:
        with with_its_line(self.algorithm):
            return self._round(run, t, x, state, coins)

    def _round(self, run: Any, t: int, x: Any, state: _State | None, coins: Coins | None) -> tuple[Any, _State]:
        N, P = self.clients, self.participants
        if state is None:
            trace = Trace(run, N, P, self.coordinates)
            everybody = cache(partial(VectorClients, trace, self.solver, N, N, 1, {}, [], "0"))
            at_start = self.method.begin(trace.of_server(x), N, everybody)
            made = everybody()
            names = made.named, (*made.begun_with,)
            state = _State(trace, at_start, made.moves, made.inside, "", *names)
        trace, begun, before = state.trace, state.of_method, state.history
        begun = copy.deepcopy(begun) if run.cohort or coins else begun  # other cohorts, or ways for coins, go on from it, too
        seen = VectorClients(trace, self.solver, N, P, t + 1, state.moves, state.inside, f"{t}{before}", coins)
        seen.named, seen.begun_with = state.named, [*state.begun_with]
        after = self.method.round(begun, seen)
        if trace.refused is not None:
            raise trace.refused
        history = f"{before}{coins or ''}/" if before or (coins is not None and coins.faces) else ""
        left = _State(trace, after, seen.moves, seen.inside, history, (0, 0), (*seen.begun_with,))
        return trace.point(after.x), left


@contextmanager
def with_its_line(algorithm: Algorithm) -> Iterator[None]:
    """Raise `MissingCapability` with the line of a method that asked for what is no matter of vectors."""
    try:
        yield
    except NotLinear as error:
        raise MissingCapability(f"{algorithm.name}: {_line(error, algorithm)}{error}") from error
    except UnknownName as error:
        raise UnknownName(f"{algorithm.name}: {_line(error, algorithm)}{error}") from error
    except FedTheoryError:
        raise
    except Exception as error:
        lacks = [said for name, said in LACKS.items() if name in str(error) and isinstance(error, AttributeError | TypeError)]
        why = lacks[0] if lacks else f"{type(error).__name__}: {error}"
        raise MissingCapability(f"{algorithm.name}: {_line(error, algorithm)}{why}: {NOT_LINEAR}") from error


def _line(error: BaseException, algorithm: Algorithm) -> str:
    """'mine.py, line 12, `x = abs(y)`: ' for the last line of a method's file that led to an error,
    or else for the last line that did, or else for the round that gave back what led to it."""
    ours, frames = Path(__file__).parent, traceback.extract_tb(error.__traceback__)
    try:
        file, round_, at = inspect.getfile(type(algorithm)), *inspect.getsourcelines(type(algorithm).round)
        back = f"{Path(inspect.getfile(type(algorithm).round)).name}, line {at}, what is given back by `{round_[0].strip()}`: "
    except (OSError, TypeError):  # typed at a prompt
        file, back = "", "what is given back by its round: "
    of_method = [f for f in frames if f.filename == file]
    others = [f for f in frames if Path(f.filename).parent != ours and "numpy" not in Path(f.filename).parts]
    if not (found := of_method or others):
        return back
    return f"{Path(found[-1].filename).name}, line {found[-1].lineno}, `{found[-1].line}`: "
