"""Closed worlds of an author's own: what their instances are, and what is known of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import getattr_static
from itertools import count
from typing import Any, ClassVar, NamedTuple, Self

from fedtheory.errors import FedTheoryError, InvalidInput
from fedtheory.randomness import Stream
from fedtheory.rational import to_file
from fedtheory.theory.fields import derived, read, reads_of
from fedtheory.theory.judge.case import LocalWork
from fedtheory.theory.judge.symbolic import SYMPY, Letters, contradicted, shown, written
from fedtheory.theory.judge.view import MISTAKES, ClosedView, DataInstance

__all__ = ["Draws", "Identities", "World", "WorldInstance", "formula_over", "letters_of"]

TRIES = 100
PLAIN = re.compile(r"\\?[A-Za-z]+(_\w|_\{\w+\})?")  # a letter of one sign


class Draws(NamedTuple):
    """Random instances of a world.

    Attributes
    ----------
    stream : names their randomness
    draw : callable(rng) -> (label, data); data are what `World.from_data` takes
    size : instances of a full campaign
    """

    stream: str
    draw: Callable[[Any], tuple[str, dict[str, Any]]]
    size: int


@dataclass(frozen=True)
class WorldInstance(DataInstance):
    """An instance of a world, as its data."""

    def view(self) -> Any:
        """Make the world, or say what its `from_data` stumbled over."""
        try:
            return super().view()
        except MISTAKES as error:
            if isinstance(error, FedTheoryError):
                raise
            what = f"{type(error).__name__}: {error}"
            raise InvalidInput(
                f"from_data of kind {self.kind!r}, of {self.data}: {what}"
            ) from error


class World(ClosedView):
    """An instance of a closed world, whose numbers are fractions or deterministic floats.

    A statement declared with ``over=MyWorld`` is judged on instances of the subclass, and its
    function is given one as ``q``. What a form ``needs=`` of an instance is a `Fact`.

    Attributes
    ----------
    kind : the name of the world in witness files
    family : the name of its instances in reports, default the kind
    draws : its random instances, the first ones for the search too; a method ``draw`` is enough
    share : of a search's budget, for instances that take long
    reads : its data by name, as declared by `fedtheory.theory.fields`, where they are not its
        fields
    demands : Facts that an instance must have
    letters : {attribute: letter}, as of `fedtheory.theory.judge.symbolic.Letters`, or one of those
        The formulas of forms without LaTeX are made of them and of the letters of its fields.
    about : the subject of a statement over it, in words
    asks : demands on a user's problem, in words, where `on_problem` makes an instance of one
    example : options of `fedtheory verify` that show a statement at work; where a user names no
        problem they are taken, but for those that he gives
    examples : other ones, by the names of statements
    no_problem : the reason for which it is made of no problem, default what it is about
    problem : the name of the problem that is taken where a user names none
    takes : options of the command line that mean something here
    accepts : what a user may set of a theorem over it by ``given``, and its meaning
    scope : the word of `Statement.scope`, default the paper's id
    scenarios : the fewest and the most runs of Monte Carlo on a user's problem; None: as he says
    rules : the variants of the method that a form is claimed for where it does not say
    searched : the rules under which its random instances can refute a form; None: all
    own_method : whether a user may leave the method out; then `on_problem` sees to it
    usual_scenarios : the most runs of Monte Carlo where a user does not say
    work : the local solvers that a user's case may have, where `takes` has no local steps
    """

    rational: ClassVar[bool] = True  # as the author's forms see it
    kind: ClassVar[str] = ""
    family: ClassVar[str] = ""
    draws: ClassVar[tuple[Draws, ...]] = ()
    share: ClassVar[float] = 1.0
    reads: ClassVar[Mapping[str, Any]] = {}
    demands: ClassVar[tuple[str, ...]] = ()
    letters: ClassVar[Any] = None
    about: ClassVar[str] = ""
    asks: ClassVar[tuple[str, ...]] = ()
    example: ClassVar[str] = ""
    examples: ClassVar[Mapping[str, str]] = {}
    no_problem: ClassVar[str] = ""
    problem: ClassVar[str] = "quadratic"
    takes: ClassVar[tuple[str, ...]] = ()
    accepts: ClassVar[Mapping[str, str]] = {}
    scope: ClassVar[str] = ""
    scenarios: ClassVar[tuple[int, int] | None] = None
    rules: ClassVar[tuple[str, ...]] = ("any",)
    searched: ClassVar[tuple[str, ...] | None] = None
    own_method: ClassVar[bool] = True
    usual_scenarios: ClassVar[int] = 1000
    work: ClassVar[LocalWork | None] = None

    def __init_subclass__(cls, **more: Any) -> None:
        """Take a method ``draw(rng) -> (label, data)`` where there are no ``draws``."""
        super().__init_subclass__(**more)
        if "draw" in vars(cls) and "draws" not in vars(cls):
            cls.draws = (Draws(f"world {cls.kind}", cls.draw, 40),)  # type: ignore[attr-defined]

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Make an instance from the data of a file, whose fractions are strings.

        By default it has the fields that are declared by `fedtheory.theory.fields`, as `made` takes
        them, and what the world demands.

        Raises
        ------
        InvalidInput
            Malformed data, or numbers out of range.
        """
        reads = reads_of(cls)
        if not reads:
            raise InvalidInput(f"{cls.__name__} makes no instances from data: write its from_data")
        found = cls.made(**read(reads, data))
        for demand in cls.demands:
            if not found.has(demand):
                raise InvalidInput(f"the data of {cls.kind!r} must have {demand}")
        return found

    @classmethod
    def made(cls, *args: Any, **values: Any) -> Self:
        """Make an instance of what was read of its data, by default a dataclass of it."""
        return cls(*args, **values)

    @classmethod
    def instance(cls, label: str, data: dict[str, Any], seed: int = 0) -> WorldInstance:
        """Make an instance of a campaign from data with fractions."""
        builders = {cls.kind: cls.from_data}
        return WorldInstance(builders, cls.kind, label, to_file(data), seed, of=cls.family)

    @classmethod
    def example_instance(cls) -> Self:
        """Draw an instance, always the same one."""
        for source in cls.draws:
            return next(cls.drawn(source, Stream(0).generator(source.stream))).view()
        raise InvalidInput(f"{cls.__name__} has no draw: write draw(rng) -> (label, data)")

    @classmethod
    def drawn(
        cls, source: Draws, rng: Any, seeds: Iterable[int] = (0,)
    ) -> Iterator[WorldInstance]:
        """Draw an instance for each of the seeds; data that `from_data` refuses are drawn again.

        Raises
        ------
        InvalidInput
            So many draws in a row were refused that there may be no instance; or draw fails.
        """
        for seed in seeds:
            for tries in count(1):
                try:
                    label, data = source.draw(rng)
                except MISTAKES as error:
                    raise InvalidInput(
                        f"draw of {cls.__name__}: {type(error).__name__}: {error}; it is given a "
                        "numpy.random.Generator (after cls, as a classmethod), and returns "
                        "(label, data)"
                    ) from error
                made = cls.instance(label, data, seed)
                try:
                    made.view()
                except InvalidInput as error:
                    if tries < TRIES:
                        continue
                    raise InvalidInput(
                        f"{TRIES} draws of {cls.__name__} in a row were refused, the last: {error}"
                    ) from error
                yield made
                break

    @classmethod
    def search_instance(cls, rng: Any) -> Any:
        """Draw an instance for the search for counterexamples, default one of its ``draws``.

        A world whose numbers take long in fractions gives a `WorldInstance` whose `view` is in
        floats; its data are what a violation is proved from.
        """
        return cls.instance(*cls.draws[0].draw(rng))

    @classmethod
    def summary(cls, witness: Any) -> str:
        """Describe a witness in one line; an empty one leaves it to its numbers."""
        return ""

    @classmethod
    def told(cls, witness: Any, rows: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Give the rows (name, value) by which a witness is shown, default its kind and its
        data."""
        return rows

    @classmethod
    def of_problems(cls) -> bool:
        """True if an instance can be made of a user's problem."""
        own: Any = cls.on_problem
        return own.__func__ is not World.on_problem.__func__  # type: ignore[attr-defined]

    @classmethod
    def example_of(cls, statement: str) -> str:
        """Options that show the statement of that id at work, default ``example``."""
        return cls.examples.get(statement.partition("/")[2], cls.example)

    @classmethod
    def on_problem(cls, statement: str, case: Any) -> Any:
        """Give the data that a user's case makes for a statement, its `instance`, or the world.

        Of several worlds, one a client or a message, it is `EachOf` them.
        Where forms are judged on instances of their own, it is an object whose ``for_form(form)``
        gives that of a form, or says in a sentence why there is none; an error that it raises is
        the user's to put right. It may have a ``case_rule``, under which that is told.

        Parameters
        ----------
        statement : its id
        case : `fedtheory.theory.judge.case.Case`

        Raises
        ------
        InvalidInput, MissingCapability, NotCertified
            What the problem, the method or the sampling lacks.
        """
        raise InvalidInput("it is about instances of its own, not about a problem's run")

    @classmethod
    def apart(cls, form: Any) -> Any:
        """Tell the forms apart for which `on_problem` makes different instances, by
        ``case.form``."""
        return None

    @classmethod
    def check_given(cls, case: Any) -> None:
        """Raise `InvalidInput` for values that a user gave of the theorem itself (`accepts`)."""

    @classmethod
    def runs(cls, plan: Any) -> Sequence[Any]:
        """Give further instances of a campaign, such as runs in floats.

        They have name, kind, family, `to_json` and `view`.
        """
        return ()

    @classmethod
    def prepare(cls, statement: Any, request: Any) -> Any:
        """Make a `Prepared` case of a user's options; None leaves it to what `takes` says."""
        return None

    @classmethod
    def own_run(cls, statement: Any, form: Any, case: Any, record: Any) -> Any:
        """Give the sides of a form on a run of anyone's; None where it is about no run.

        Parameters
        ----------
        record : `fedtheory.theory.judge.record.Record`

        Returns
        -------
        `fedtheory.theory.judge.record.OwnRun`

        Raises
        ------
        InvalidInput, MissingCapability, NotCertified, NotRecorded
            What the run is none of, or what is not known of it.
        """
        return None

    @classmethod
    def head(cls, case: Any) -> str:
        """Describe a user's case in a line above the table."""
        return f"{case.problem!r}, {case.algorithm!r}"


class Identities(World):
    """Symbols alone: a form over it holds or not whatever the problem, by its ``symbolic=``."""

    kind, scope, about = "algebra", "algebra", "no data enter"


@cache
def letters_of(cls: Any) -> Letters:
    """The letters of a world: of its ``letters``, of its fields, and of what follows from them.

    A single number without one is written by its name. Behind the constants in a product stand what
    follows from the fields, and letters of more than one sign, as G^2.
    """
    more = cls.letters or {}
    if isinstance(more, Letters):
        return more
    of_class = {name: one for base in reversed(cls.__mro__) for name, one in vars(base).items()}
    follow = {name: one for name, one in of_class.items() if isinstance(one, derived)}
    declared: dict[str, Any] = {**reads_of(cls), **follow}
    known = {name: one.letter for name, one in declared.items()}
    known = {name: letter for name, letter in known.items() if letter is not None} | more
    plain = {name for name, letter in known.items() if letter == "" or PLAIN.fullmatch(str(letter))}
    behind = tuple(name for name in known if name in follow or name not in plain)
    return Letters(known, behind, of=cls)


def formula_over(
    cls: Any, sides: Callable[[Any], Any], before: str, after: Any, where: Sequence[str] = ()
) -> str:
    """The LaTeX of a form over a world, '' where its code is no closed expression.

    It has the values of what runs on an instance of the world.

    where : what follows from the fields and has a letter, and is said behind the formula
    """
    letters = letters_of(cls)
    try:
        text = shown(sides, letters, before, after)
        if cls.draws and contradicted(sides, letters, cls.example_instance):
            return ""
        for name in where:
            of = getattr_static(cls, name).func(letters)
            text += rf",\ {written(getattr(letters, name))}={written(of)}"
        return text
    except (FedTheoryError, *SYMPY):
        return ""
