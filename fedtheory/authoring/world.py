"""Closed worlds of an author's own: a class that says what its instances are and what is known of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

from fedtheory.errors import InvalidInput
from fedtheory.verification.view import ClosedView

__all__ = ["Draws", "World"]


class Draws(NamedTuple):
    """Random instances of a world.

    Attributes
    ----------
    stream : names their randomness
    draw : callable(rng) -> (label, data); data are what `World.from_data` takes
    count : instances of a full campaign
    """

    stream: str
    draw: Callable[[Any], tuple[str, dict[str, Any]]]
    count: int


class World(ClosedView):
    """An instance of a closed world, whose numbers are fractions or deterministic floats.

    A statement declared with ``over=MyWorld`` is judged on instances of the subclass, and its
    function is given one as ``q``. A form names what it needs of an instance among its ``facts``.

    Attributes
    ----------
    kind : the name of the world in witness files
    family : the name of its instances in reports, default the kind
    draws : its random instances, the first ones for the search too
    share : of a search's budget, for instances that take long
    letters : symbols in place of its numbers (`fedtheory.verification.closed.Letters`), from which
        the formulas of forms without LaTeX are made
    about : the subject of a statement over it, in words
    asks : demands on a user's problem, in words; () where there is no way from a problem
    example : options of `fedtheory verify` that show a statement at work
    problem : the name of the problem that is taken where a user names none
    takes : options of the command line that mean something here
    """

    kind: ClassVar[str] = ""
    family: ClassVar[str] = ""
    draws: ClassVar[tuple[Draws, ...]] = ()
    share: ClassVar[float] = 1.0
    letters: ClassVar[Any] = None
    about: ClassVar[str] = ""
    asks: ClassVar[tuple[str, ...]] = ()
    example: ClassVar[str] = ""
    problem: ClassVar[str] = "quadratic"
    takes: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Make an instance from the data of a file, whose fractions are strings.

        Raises
        ------
        InvalidInput
            Malformed data, or numbers out of range.
        """
        raise InvalidInput(f"{cls.__name__} makes no instances from data: write its from_data")

    @classmethod
    def on_problem(cls, statement: str, case: Any) -> dict[str, Any]:
        """Give the data of a user's case (`fedtheory.verification.case.Case`) for a statement.

        Raises
        ------
        InvalidInput, MissingCapability, NotCertified
            What the problem, the method or the sampling lacks.
        """
        raise InvalidInput("it is about instances of its own, not about a problem's run")

    @classmethod
    def head(cls, case: Any) -> str:
        """Describe a user's case in a line above the table."""
        return f"{case.problem!r}, {case.algorithm!r}"
