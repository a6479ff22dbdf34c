"""Forms as an author writes them, and the checks that what was written can be judged: every
error names file, line and statement."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, get_args

import numpy as np

from fedtheory.errors import FedTheoryError, InvalidInput, MissingCapability, NotCertified, UnknownName, suggest
from fedtheory.inputs import flag, shown
from fedtheory.rational import number
from fedtheory.theory.judge import statement as core
from fedtheory.theory.judge.mathml import unbalanced
from fedtheory.theory.judge.registry import last_line, missing_import
from fedtheory.theory.judge.statement import Sides, Verdict
from fedtheory.theory.rounds.losses import Unbounded, fractions
from fedtheory.theory.rounds.rational_clients import NotInFractions
from fedtheory.theory.rounds.undefined import SILENT, Absent, Loose, Undefined, absent_among

__all__ = [
    "OF_STATES", "Claimed", "Forms", "Needed", "Outline", "Potential", "Undefined", "Wrong", "eq", "evaluate", "form", "in_function",
    "le", "outlined", "potential", "printed", "reduced", "repaired", "sides_of", "wrong",
]  # fmt: skip

MORE = (
    "over", "before", "after", "rules", "wording", "limits", "worst", "exact_only", "symbolic",
    "proves", "coq", "where",
)  # fmt: skip
OF_STATES = {  # quantities of a state -> of the one after the round
    "x": "x_next", "F": "F_next", "gap": "gap_next", "gradient": "gradient_next",
    "gradient_sq": "gradient_next_sq", "distance_sq": "distance_sq_next",
}  # fmt: skip
OF_METHODS = {"before", "after", "worst", "exact_only", "limits"}  # of these what a form about a method may have


def le(lhs: Any, *terms: Any, noise: Any = 0, axes: tuple[str, ...] = ()) -> Sides:
    """lhs <= sum of terms."""
    gone = absent_among(lhs, *terms)
    return core.le(lhs, *terms, noise=noise, axes=axes) if gone is None else Sides(gone, gone, gone, "<=")


def eq(lhs: Any, rhs: Any, *parts: Any, vector: bool = False, noise: Any = 0, axes: tuple[str, ...] = ()) -> Sides:
    """lhs == rhs, entry by entry; ``vector`` reduces the last axis by the largest difference.

    ``parts`` are what lhs and rhs were made of; they only enter the scale.
    """
    flag("vector", vector)
    gone = absent_among(lhs, rhs, *parts)
    made = core.eq(lhs, rhs, *parts, vector=vector, noise=noise, axes=axes) if gone is None else None
    return made or Sides(gone, gone, gone, "==")


@dataclass(frozen=True)
class Potential(Sides):
    """The sides of E V(after) <= rho V(before) - D(before) + noise, and what they are made of.

    Attributes
    ----------
    V : what it was made of
    before, gain : V and D before the round; 0 for no D
    rho, added : the factor, and the noise
    """

    V: Callable[[Any], Any] = abs
    before: Any = 0
    gain: Any = 0
    rho: Any = 1
    added: Any = 0


class _State:
    """What V and D read: quantities of the state before a round, or after it, and what the method keeps."""

    def __init__(self, q: Any, after: bool) -> None:
        self._q, self._after = q, after

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name in OF_STATES:
            return getattr(self._q, OF_STATES[name] if self._after else name)
        try:
            return getattr(self._q.state_next if self._after else self._q.state, name)
        except AttributeError as error:
            raise UnknownName(
                f"a potential reads {', '.join(OF_STATES)} of a state, and the fields that the method keeps: {name!r} is none of them"
            ) from error


def potential(
    q: Any, V: Callable[[Any], Any], D: Callable[[Any], Any] | None = None, *, rho: Any = 1, noise: Any = 0
) -> Sides:
    """E V(after the round) <= rho V(before it) - D(before it) + noise.

    Where it is proved from every state that a run can be in, it is one for every number of rounds T: with rho = 1
    the expected sum of D over T rounds is at most V at the start and T times the noise, and with rho < 1
    E V falls like rho^T down to noise/(1 - rho).

    Parameters
    ----------
    q : the quantities of the round
    V, D : callable(s) of a state: ``s.x``, ``s.F``, ``s.gap``, ``s.gradient``, ``s.gradient_sq``,
        ``s.distance_sq``, and what the method keeps, ``s.c_k``. V must be at least 0 where it is to be proved.
    rho, noise : numbers; a noise of q is the same in every round where no state is in it
    """
    def number_of(x: Any) -> Any:
        return number(x, q.rational) if isinstance(x, Fraction) else x

    rho, noise = number_of(rho), number_of(noise)
    before, gain = V(_State(q, False)), 0 if D is None else D(_State(q, False))
    terms = [rho * before, *([] if D is None else [-gain]), *([] if isinstance(noise, int) and noise == 0 else [noise])]
    made = le(V(_State(q, True)), *terms)
    return Potential(**vars(made), V=V, before=before, gain=gain, rho=rho, added=noise)


@dataclass(frozen=True)
class Wrong:
    """A deliberately wrong variant of a form, which the study must reject."""

    name: str
    sides: Any  # Sides, or over a `World` a function that gives them


class Needed(NamedTuple):
    """An inequality lhs <= rhs without which a form says nothing."""

    words: str
    lhs: Any
    rhs: Any


@dataclass(frozen=True)
class Claimed:
    """One form, with its sides on one view: what `printed`, `repaired` and `form` make."""

    name: str
    sides: Any  # Sides, or over a `World` a function that gives them
    latex: str = ""
    established: str = "open"
    pathwise: bool = False
    note: str = ""
    proof: str = ""
    mutants: tuple[Wrong, ...] = ()
    needs: Any = ()  # words; of a statement about a method {words: whether they are true here}
    more: dict[str, Any] = field(default_factory=dict)
    witness: str = ""
    needed: tuple[Needed, ...] = ()  # of a form of vectors: the inequalities among its needs


def form(
    name: str,
    sides: Sides | Callable[[], Sides] | None,
    latex: str | Wrong = "",
    *mutants: Wrong,
    fails: bool = False,
    holds: bool = False,
    pathwise: bool = False,
    note: str = "",
    proof: str = "",
    needs: tuple[str, ...] | Mapping[str, Any] = (),
    witness: str = "",
    **more: Any,
) -> Claimed:
    """A form of a statement.

    Parameters
    ----------
    name : 'printed', 'repaired', or another word
    sides : what `le` or `eq` gave, or a function without arguments that gives it when it is needed
        ``le`` is claimed in expectation over the cohorts: E[lhs] <= E[rhs]. Write ``q.mean`` for
        expectations inside a side.
    latex : the formula, which may be left out: then the code of the sides makes it, over a `World`
        if that has letters
    mutants : what `wrong` gives
    fails, holds : bool
        On record: refuted by a counterexample, or true. Neither: open. A study that finds
        otherwise says so.
    pathwise : bool
        Claimed for every sequence of cohorts, not only in expectation. ``eq`` is always entry by
        entry.
    proof : where the proof is that it holds, or the argument in a sentence; 'note' where the note has it
        A form that holds without one is marked as only tested.
    needs : over a `World`: each `Fact` without which the form says nothing of an instance; of a
        statement about a method what must be true there: ``{"mu > 0": q.mu > 0}``, or with the
        number that is told where it is not: ``{"mu > 0": (q.mu > 0, q.mu)}``, or an inequality,
        ``{"bounded": le(q.gradient_sq, 1)}``, which a proof may use
    witness : the name of the file that has the instance on which it fails, in the folder
        ``witnesses`` of the paper's package, or beside the paper's file
    more : before and after, the LaTeX around a formula that is made by the code with letters of its
        own; worst, a `fedtheory.theory.judge.statement.Worst`; limits, which needs must say too;
        exact_only, of a form that multiplies
        expectations (``q.dot_of_means``), which draws show two by two; over a `World` also: where,
        the names of letters whose own formulas are shown behind the form's; rules, the variants of
        the method (`World.rule`) that it is claimed for (default `World.rules`), or a dict with the
        verdict for each; over, a world that it is about in place of the statement's;
        and further fields of `fedtheory.theory.judge.statement.Form`: wording, and, of a
        form whose sides are None, symbolic, proves and coq
    """
    unknown = [name for name in more if name not in MORE]
    if unknown:
        raise suggest(unknown[0], [*inspect.signature(form).parameters, *MORE], "keyword")
    for rule, verdict in more["rules"].items() if isinstance(more.get("rules"), dict) else ():
        if verdict not in get_args(Verdict):
            told = f"form {name!r}: rules = {{{rule!r}: {verdict!r}}}"
            raise InvalidInput(f"{told}: the verdict on record is one of {', '.join(get_args(Verdict))}")
    flag("fails", fails), flag("holds", holds), flag("pathwise", pathwise)
    if fails and holds:
        raise InvalidInput(f"form {name!r}: it cannot both hold and fail; leave both out where it is open")
    if isinstance(latex, Wrong):
        mutants, latex = (latex, *mutants), ""
    established = "violated" if fails else "holds" if holds else "open"
    return Claimed(
        name, sides, latex, established, pathwise, note, proof,
        tuple(Wrong(w.name, w.sides.of(sides)) if isinstance(w.sides, _Changed) else w for w in mutants),
        needs if isinstance(needs, Mapping) else tuple(needs), more, witness,
    )  # fmt: skip


def printed(
    sides: Sides | Callable[[], Sides] | None, latex: str | Wrong = "", *mutants: Wrong, **how: Any
) -> Claimed:
    """The form as the paper prints it; see `form`."""
    return form("printed", sides, latex, *mutants, **how)


def repaired(
    sides: Sides | Callable[[], Sides] | None, latex: str | Wrong = "", *mutants: Wrong, **how: Any
) -> Claimed:
    """The form as it should read; see `form`."""
    return form("repaired", sides, latex, *mutants, **how)


def wrong(
    name: str, sides: Sides | Callable[[], Sides] | None = None, *, share: Any = None, **changes: Any
) -> Wrong:
    """A deliberately wrong variant: a term dropped, a constant halved. A study reports whether
    it is rejected.

    Parameters
    ----------
    share : where it has no sides of its own: the part of the form's right side that is left, a
        fraction, or one for each term that ``le`` was given; default the form the other way round
    changes : what the form's sides are called with instead, where they are a function
    """
    if sides is not None and changes:
        told = ", ".join(changes)
        raise InvalidInput(f"{name!r} has sides of its own and changes {told}: give one of them")
    return Wrong(name, _Changed(share, changes) if sides is None else sides)


@dataclass(frozen=True)
class _Changed:
    """Makes a wrong variant's sides out of the form's."""

    share: Any
    changes: Mapping[str, Any]

    def __call__(self, made: Sides) -> Sides:
        """Swap the sides, or take a share of the right one, or one of each of its terms."""
        if isinstance(made.lhs, Absent):
            return made
        if self.share is None:
            if made.relation == "==":
                raise InvalidInput("a wrong variant of an equality needs sides of its own, or a share")
            return le(made.rhs, made.lhs, noise=made.noise, axes=made.axes)
        each = isinstance(self.share, tuple)
        terms, shares = (made.terms[1:], self.share) if each else ((made.rhs,), (self.share,))
        if made.relation == "==":
            terms = made.terms[1:]
        if len(shares) != len(terms):
            raise InvalidInput(f"share = {self.share}: the right side has {len(terms)} terms; give a share of each")
        exact = np.asarray(made.rhs).dtype == object
        left = [term * (share if exact else float(share)) for term, share in zip(terms, shares, strict=True)]
        side = eq if made.relation == "==" else le
        return side(made.terms[0] if side is eq else made.lhs, *left, noise=made.noise, axes=made.axes)

    def of(self, sides: Any) -> Any:
        """Make them now, or when they are needed."""
        if self.changes:
            if not callable(sides):
                told = ", ".join(self.changes)
                raise InvalidInput(f"a wrong variant changes {told}: give the form sides that are a function of it")
            return partial(sides, **self.changes)
        return (lambda: self(sides())) if callable(sides) else self(sides)


def place(function: Callable[..., Any], error: BaseException | None, statement: str, line: int | None = None) -> str:
    """'file.py, line 12, my-paper/lemma-4': where in the author's function an error came up, or that line of it."""
    code = inspect.unwrap(function).__code__
    at = (error and last_line(error, code.co_filename)) or line or code.co_firstlineno
    return f"{os.path.basename(code.co_filename)}, line {at}, {statement}"


class Forms(dict[str, Claimed]):
    """The forms of a statement that say something on a view, by name. To ask for another raises what became of it.

    Attributes
    ----------
    absent : dict name -> (the form, why it says nothing here)
    lines : dict name -> line of the file that yields it, of all forms that were made, as they came
    ended : why no form was made after those, or None
    by_functions : True if the sides of all are functions, so that one can be made by itself
    """

    def __init__(self) -> None:
        super().__init__()
        self.absent: dict[str, tuple[Claimed, FedTheoryError]] = {}
        self.lines: dict[str, int] = {}
        self.ended: FedTheoryError | None = None
        self.by_functions = True

    def __missing__(self, name: str) -> Claimed:
        raise self.why(name) or KeyError(name)

    def why(self, name: str) -> FedTheoryError | None:
        """Why a form says nothing here."""
        return self.absent[name][1] if name in self.absent else self.ended

    @property
    def all(self) -> dict[str, Claimed]:
        """Every form that was made, in order; of those that say nothing here the sides are `Absent`."""
        return {name: self[name] if name in self else self.absent[name][0] for name in self.lines}


class NotMet(Undefined):
    """A need of a form that is not met on a view."""


def outlined(
    function: Callable[[Any], Iterable[Claimed]], view: Any, statement: str, whole: bool = True
) -> Forms:
    """The forms of a statement over a `World`, whose sides may be functions; they are not called.

    The view is a world, symbols, or an `Outline`: to learn which forms there are takes no numbers.
    Raises `UnknownName` and `InvalidInput` as `evaluate` does, unless the forms before the error
    will do (``whole`` is false).
    """
    out = Forms()
    try:
        _made(out, function, view, view, statement, later=True)
    except FedTheoryError as error:
        if whole:
            raise
        out.ended = error
    return out


class Outline:
    """Stands for every world, or for every round of a method: its numbers are absent."""

    rational = True

    def __init__(self, rule: str = "any") -> None:
        self.rule = rule

    def once(self, of: Any) -> Any:
        """Stand for what a function would make of a view."""
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(Undefined("there is no instance here"))


def sides_of(function: Callable[..., Any], claimed: Claimed | Wrong, statement: str) -> Sides:
    """The sides of a form of a statement over a `World`, made now.

    Raises `InvalidInput`: with the place in the author's file: a division by 0, a misspelt
    quantity, sides that are none.
    """
    line = getattr(getattr(claimed.sides, "__code__", None), "co_firstlineno", None)
    with in_function(function, statement, line=lambda: line, placed=False):
        found = claimed.sides() if callable(claimed.sides) else claimed.sides
    if not isinstance(found, Sides):
        where = place(function, None, statement, line)
        raise InvalidInput(f"{where}: {_no_sides(claimed.name, found)}")
    if isinstance(found.lhs, Absent):
        raise found.lhs.error
    return found


def evaluate(
    function: Callable[[Any], Iterable[Claimed]], view: Any, statement: str, mutants: bool = True,
    only: str = "",
) -> Forms:  # fmt: skip
    """The forms of a statement on one view, by name; what one cannot is nothing to another.

    mutants : False leaves them out
    only : a form, the others are left out; '' leaves out none

    Raises
    ------
    UnknownName, InvalidInput, MissingCapability
        With the place: an unknown quantity, sides of unequal shapes, no form, two forms of one
        name, a form that is none.
    NotInFractions, Undefined, Unbounded, NotCertified, MissingCapability
        All forms make floats or square roots on a view in fractions; or divide by 0; or need what does not exist.
    """
    out = Forms()
    try:
        _made(out, function, view, view, statement, mutants=mutants, only=only)
    except SILENT as error:
        out = Forms()
        try:
            _made(out, function, Loose(view), view, statement, mutants=mutants, only=only)
        except FedTheoryError:
            out.ended = error
    errors = [error for _, error in out.absent.values()] + ([] if out.ended is None else [out.ended])
    if not out and errors and len({type(e) for e in errors}) == 1 and type(errors[0]) is not NotMet:
        raise errors[0]
    return out


@contextmanager
def in_function(
    function: Callable[..., Any], statement: str, in_fractions: bool = False,
    line: Callable[[], int | None] = lambda: None, placed: bool = True,
) -> Iterator[None]:  # fmt: skip
    """Raise what comes up within an author's function with file, line and statement.

    Parameters
    ----------
    in_fractions : what fractions do not do is `NotInFractions`
    line : callable() -> the line, where the error has none in the function
    placed : whether errors of this package are given the place, too

    Raises
    ------
    UnknownName, InvalidInput, MissingCapability, NotInFractions, Undefined, Unbounded, NotCertified
        As `evaluate`.
    """
    try:
        yield
    except ZeroDivisionError as error:
        raise Undefined(f"{place(function, error, statement)}: a division by 0 on this instance") from error
    except FedTheoryError as error:
        if not placed:
            raise
        raise _kind(error)(f"{place(function, error, statement, line())}: {error}") from error
    except ValueError as error:
        what = (
            "sides or terms of unequal shapes"
            if "broadcast" in str(error) or "shape" in str(error)
            else "a value is wrong"
        )
        raise InvalidInput(f"{place(function, error, statement, line())}: {what} ({error})") from error
    except (TypeError, AttributeError, IndexError, NameError, KeyError) as error:
        if in_fractions and isinstance(error, TypeError | AttributeError):
            raise NotInFractions(
                f"{place(function, error, statement)}: this cannot be done in fractions ({error})"
            ) from error
        told = _remedy(error) or f"{type(error).__name__}: {error}"
        raise InvalidInput(f"{place(function, error, statement, line())}: {told}") from error


def _made(
    out: Forms,
    function: Callable[[Any], Iterable[Claimed]],
    given: Any,
    view: Any,
    statement: str,
    later: bool = False,
    mutants: bool = True,
    only: str = "",
) -> None:
    """Add the forms to ``out``; the function is given the view, or a loose one.

    With ``later`` no sides are made, and without ``mutants`` none of theirs.
    """
    line: int | None = None  # of the form that is looked at
    fault = in_function(function, statement, not later and view.rational, lambda: line)
    with fault, np.errstate(all="ignore"):
        found = function(given)
        if isinstance(found, np.ndarray) or not hasattr(found, "__iter__"):
            line = _last_line(function)
            raise InvalidInput(f"yield the forms, `yield printed(le(lhs, rhs))`: the function returned {_told(found)}")
        for claimed in found:
            frame = getattr(found, "gi_frame", None)
            line = _last_line(function) if frame is None else frame.f_lineno
            if not only or getattr(claimed, "name", only) == only:
                where = place(function, None, statement, line)
                _add(out, claimed, view, line, where, later, mutants)
    if not out.lines:
        raise InvalidInput(
            f"{place(function, None, statement)}: a statement without a form: yield printed(le(lhs, rhs), r'latex') or repaired(...)"
        )


def _last_line(function: Callable[..., Any]) -> int:
    """The line at which a function that is no generator most likely returns."""
    code = inspect.unwrap(function).__code__
    return max(line or 0 for *_, line in code.co_lines()) or code.co_firstlineno


def _remedy(error: Exception) -> str:
    """The nearest keywords of a function of this file, where one got another, or the import that
    its author forgot."""
    if told := missing_import(error):
        return told
    found = re.fullmatch(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'", str(error))
    functions: dict[str, Callable[..., Any]] = {"form": form, "le": le, "eq": eq, "wrong": wrong}
    if found is None or found[1] not in functions:
        return ""
    return str(suggest(found[2], inspect.signature(functions[found[1]]).parameters, "keyword"))


def _kind(error: FedTheoryError) -> type[FedTheoryError]:
    kinds = (NotMet, NotInFractions, Undefined, Unbounded, NotCertified, UnknownName, MissingCapability)
    return next((k for k in kinds if isinstance(error, k)), InvalidInput)


def _add(
    out: Forms, claimed: Any, view: Any, line: int, where: str, later: bool, mutants: bool
) -> None:
    if not isinstance(claimed, Claimed):
        raise InvalidInput(f"{_told(claimed)} is no form: yield printed(le(lhs, rhs)), repaired(...) or form(name, ...)")
    if claimed.name in out.lines:
        raise InvalidInput(
            f"two forms are called {claimed.name!r}: give the second another name, form('sharpened', ...)"
        )
    for item in (claimed, *claimed.mutants):
        given = getattr(item, "sides", None)
        if not isinstance(item, Claimed | Wrong) or not (
            isinstance(given, Sides) or callable(given) or (later and given is None)
        ):
            raise InvalidInput(_no_sides(claimed.name, getattr(item, "sides", item)))
    if why := unbalanced(claimed.latex):
        raise InvalidInput(f"form {claimed.name!r}: {why}. Close it, or the formula would be shown wrong.")
    name = claimed.name
    out.lines[name] = line
    out.by_functions &= callable(claimed.sides)
    if later:
        out[name] = claimed
        return
    if claimed.more.keys() - OF_METHODS or (
        claimed.needs and not isinstance(claimed.needs, Mapping)
    ):
        told = ", ".join(sorted(claimed.more.keys() - OF_METHODS) or ["needs as words"])
        raise InvalidInput(
            f"form {name!r}: {told}: only a statement over a World takes this; leave it out"
        )
    needs = dict(claimed.needs)
    if getattr(view, "vectors", False):  # what a proof may use
        needed = tuple(Needed(words, met.lhs, met.rhs) for words, met in needs.items() if _inequality(words, met))
        claimed = replace(claimed, needed=needed)
        needs = {words: met for words, met in needs.items() if not isinstance(met, Sides)}
    if lacking := [told for words, met in needs.items() if (told := _lacking(words, met))]:
        gone = Absent(NotMet("; ".join(lacking)))
        claimed = replace(claimed, sides=Sides(gone, gone, gone, "<="))
    made_wrong = tuple(
        Wrong(m.name, _numbers_or_absent(m.sides, view, name, where))
        for m in claimed.mutants
        if mutants
    )
    sides = _numbers_or_absent(claimed.sides, view, name, where)
    made = replace(claimed, sides=sides, mutants=made_wrong)
    if isinstance(sides.lhs, Absent):
        out.absent[name] = made, sides.lhs.error  # type: ignore[assignment]
    else:
        out[name] = made


def _no_sides(form: str, found: Any) -> str:
    """Say that a form has something else for its two sides."""
    return f"form {form!r} has {_told(found)} for its two sides. Write le(lhs, rhs) or eq(lhs, rhs)."


def _inequality(words: str, met: Any) -> bool:
    """True of a need that is an inequality. Raises `InvalidInput` for an equality."""
    if isinstance(met, Sides) and met.relation != "<=":
        raise InvalidInput(f"need {words!r}: an inequality le(lhs, rhs) may be needed, and no equality")
    return isinstance(met, Sides)


def _lacking(words: str, met: Any) -> str:
    """Say that a need is not met, and what its number is, where that was given; '' if it is met."""
    if _inequality(words, met):
        met = met.lhs if isinstance(met.lhs, Absent) else met.lhs <= met.rhs
    met, *number = met if isinstance(met, tuple) else (met,)
    if np.all(met):
        return ""
    return f"{words} is not met" + "".join(f": it is {float(v):.6g}" for v in number)


def _told(value: Any) -> str:
    """A value that should be another in a few words, never a dump of its numbers."""
    if isinstance(value, bool | np.bool_) or getattr(value, "dtype", None) == np.bool_:
        return "the outcome of <=, >= or =="
    if isinstance(value, Sides | Claimed):
        return "a form" if isinstance(value, Claimed) else "what le or eq gives, by itself"
    return f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else shown(value)


def _numbers_or_absent(given: Any, view: Any, name: str, where: str) -> Sides:
    relation: Any = "<="
    try:
        sides = given() if callable(given) else given
        relation = sides.relation
        return _numbers(sides, view, name)
    except SILENT as error:
        told = str(error) if isinstance(error, NotMet) else f"{where}: {error}"
        gone = Absent(_kind(error)(told))
        return Sides(gone, gone, gone, relation)


def _numbers(sides: Sides, view: Any, name: str) -> Sides:
    """The sides as fractions or as floats, whatever was mixed into them."""
    gone = absent_among(sides.lhs, sides.rhs, sides.scale)
    if gone is not None:
        raise gone.error
    parts = [np.asarray(v) for v in (sides.lhs, sides.rhs, sides.scale)]
    wrong_shape = view.misshapen(parts[0].shape) if sides.relation == "<=" else None
    if wrong_shape is not None:
        raise InvalidInput(f"form {name!r}: {wrong_shape}")
    if getattr(view, "vectors", False):
        return sides
    if view.rational:
        for v in (*parts[0].ravel().tolist(), *parts[1].ravel().tolist()):
            if not isinstance(v, Fraction | int):
                raise NotInFractions(
                    f"form {name!r} makes {type(v).__name__} numbers of fractions: write Fraction(1, 2) for 0.5, "
                    "q.power(rate, q.t) for rate ** q.t, and no functions of NumPy but sums; the verdicts in floats stand"
                )
        lhs, rhs, scale = (fractions(v) for v in parts)
    else:
        lhs, rhs, scale = (v.astype(float, copy=False) for v in parts)
    return replace(sides, lhs=lhs, rhs=rhs, scale=scale)


def reduced(view: Any, claimed: Claimed, sides: Sides | None = None) -> Sides:
    """The sides as they are compared: in expectation, or entry by entry. Raises why they do not exist here."""
    sides = claimed.sides if sides is None else sides
    if isinstance(sides.lhs, Absent):
        raise sides.lhs.error
    sides = replace(sides, terms=()) if getattr(view, "moved", False) else sides  # which are shown
    if claimed.pathwise or sides.relation == "==" or view.sampled:
        return sides
    parts = (sides.lhs, sides.rhs, sides.scale, sides.noise)
    lhs, rhs, scale, noise = (np.asarray(view.expectation(v)) for v in parts)
    terms = tuple(np.asarray(view.expectation(v)) for v in sides.terms)
    return Sides(lhs, rhs, scale, sides.relation, noise, sides.axes, terms)
