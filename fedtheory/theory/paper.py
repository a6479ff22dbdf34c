"""A paper of one's own: its statements, and the file they stand in."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from fedtheory.errors import FedTheoryError, InvalidInput, NotCertified, UnknownName, suggest
from fedtheory.inputs import whole_number
from fedtheory.participation.cohorts import Full, Sampling, Uniform
from fedtheory.theory.judge.check import Check
from fedtheory.theory.judge.registry import RegisteredPaper, read_file
from fedtheory.theory.judge.setting import Joined, Setting
from fedtheory.theory.judge.statement import Form, Mutant, Sides, Statement
from fedtheory.theory.judge.symbolic import Letters, shown
from fedtheory.theory.judge.view import Fact
from fedtheory.theory.rounds.declare import (
    GradientSteps,
    Method,
    Minimise,
    Upto,
    hyperparameters,
    least_and_most,
    only_keywords,
)
from fedtheory.theory.rounds.forms import (
    Claimed,
    Forms,
    Outline,
    Undefined,
    evaluate,
    outlined,
    place,
    sides_of,
)
from fedtheory.theory.rounds.losses import Unbounded
from fedtheory.theory.rounds.problem_classes import Smooth, SmoothConvex, StronglyConvex
from fedtheory.theory.world import World, formula_over, letters_of
from fedtheory.theory.world_setting import WorldSetting

if TYPE_CHECKING:
    from fedtheory.theory.judge.proof import Proof, Step

__all__ = ["AuthoredStatement", "Paper", "load_file"]

SCOPES = ("round", "run", "fixed-point")
NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")


@dataclass(frozen=True, eq=False)
class AuthoredStatement:
    """A statement of a file: what `Paper.statement` makes of the function it decorates.

    Attributes
    ----------
    id : 'paper/name'
    function : the author's function of the quantities
    rounds : (least, most)
    rule, rule_values : of one of the `variants`, which has no others
    paper : the `Paper` that it was declared in
    about, and all others : as `Paper.statement` takes them
    """

    id: str
    about: Any
    local: GradientSteps | Minimise
    sampling: Any
    problems: Any
    over: Any
    rounds: tuple[int, int]
    assumptions: tuple[str, ...]
    title: str
    source: str
    function: Callable[[Any], Any]
    symbols: dict[str, str] = field(default_factory=dict)
    measures: str = ""
    ours: bool = False
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rule: str = "any"
    rule_values: Mapping[str, Any] = field(default_factory=dict)
    states: Mapping[str, Any] = field(default_factory=dict)
    starts: int = 1
    paper: Paper | None = None
    numbers: Callable[[Any], Mapping[str, Any]] | None = None
    takes_run: Callable[[Form, Any, Any], tuple[Any, Any]] | None = None
    letters: Mapping[str, Letters] = field(default_factory=dict)
    given: Mapping[str, Fraction] = field(default_factory=dict)
    _free: dict[str, set[str]] = field(default_factory=dict, init=False, repr=False)

    def at(self, **given: Any) -> AuthoredStatement:
        """The statement with other numbers, each exact: ``at(clients=100, participants=10, alpha="1/2")``.

        Parameters
        ----------
        given : clients, and participants of uniform cohorts; strong_convexity, mu/beta of convex losses;
            steps and lr of local gradient steps, lr in units of 1/beta; and the method's hyperparameters

        Raises
        ------
        InvalidInput, UnknownName
            A number that this statement has not, or none of it.
        """
        from fedtheory.worst_cases.numbers import exact

        if not given:
            return self
        if self.of_world or self.rules:
            raise InvalidInput(f"{self.id}: other numbers are given to a statement about one method")
        has = ["clients", "participants", "strong_convexity", *self.local.parameters()]
        own = [n for n in hyperparameters(self.about) if n not in has] if isinstance(self.about, Method) else []
        numbers = {name: exact(name, value) for name, value in given.items()}
        for name in numbers:
            if name not in (*has, *own):
                raise suggest(name, [*has, *own], f"number of {self.id}")
        for name in ("clients", "participants", "steps"):
            if name in numbers and (numbers[name].denominator > 1 or numbers[name] < 1):
                raise InvalidInput(f"{name} = {numbers[name]}: it must be a whole number >= 1")
        changed: dict[str, Any] = {"given": {**self.given, **numbers}}
        changed |= {"problems": _with_numbers(self.problems, numbers)}
        if "participants" in numbers:
            P, (fewest, most) = int(numbers["participants"]), changed["problems"].clients
            if most < P:
                raise InvalidInput(f"participants = {P} of clients = {most}: at most all take part")
            changed["sampling"] = Full() if fewest == most == P else Uniform(P)
        if isinstance(self.local, GradientSteps):
            E, lr = numbers.get("steps"), numbers.get("lr")
            size = self.local.lr if lr is None else lambda c: lr / c.beta
            changed["local"] = GradientSteps(self.local.steps if E is None else int(E), size)
        if method := {n: v for n, v in numbers.items() if n in own}:
            changed["about"] = self.about.changed(method)
        return replace(self, **changed)

    @cached_property
    def variants(self) -> dict[str, AuthoredStatement]:
        """The statement under each of its rules, as one that has no others."""
        if not self.rules:
            return {self.rule: self}
        return {
            rule: replace(
                self, about=self.about.changed(changes), title=f"{self.title.rstrip('.')}, {rule} rule",
                rules={}, rule=rule, rule_values=changes,
            )
            for rule, changes in self.rules.items()
        }  # fmt: skip

    def is_about_the_same_as(self, other: AuthoredStatement) -> bool:
        """True of one whose instances could be this one's: all that is declared but the forms."""
        declared = (
            "about", "local", "sampling", "problems", "over", "rounds", "rule", "states", "starts",
        )  # fmt: skip
        return all(getattr(self, name) == getattr(other, name) for name in declared)

    def on(self, view: Any, mutants: bool = True, only: str = "") -> Forms:
        """The forms with their sides on a view; over a world made anew, as they hold the world.

        mutants : False leaves them out, and does not call those that are functions
        only : a form, the others are left out; '' leaves out none
        """
        if self.of_world or isinstance(view, Letters):
            return outlined(self.function, view, self.id)
        kept, key = view.__dict__.setdefault("yielded", {}), (self.id, mutants, only)
        if key not in kept:
            kept[key] = evaluate(self.function, view, self.id, mutants, only)
        return kept[key]

    @property
    def of_world(self) -> bool:
        """True if it is over a closed world."""
        return isinstance(self.over, type)

    @property
    def worlds(self) -> list[type[World]]:
        """The closed worlds that its forms are about."""
        return [self.over, *(c.more["over"] for c in self.forms.values() if "over" in c.more)]

    @property
    def name(self) -> str:
        """The id without the paper."""
        return self.id.partition("/")[2]

    @cached_property
    def probe(self) -> Any:
        """A small view, on which the forms are read off."""
        from fedtheory.theory.rounds.method_setting import MethodSetting
        from fedtheory.theory.rounds.probe import probe

        return probe(MethodSetting.of(self))

    @cached_property
    def forms(self) -> dict[str, Claimed]:
        """The forms by name; of those under several rules the first."""
        if self.rules:
            each = [variant.forms for variant in self.variants.values()]
            first: dict[str, Claimed] = {}
            for forms in each:
                first |= {name: claimed for name, claimed in forms.items() if name not in first}
            return first
        if not self.of_world and not (self.paper and self.paper.tested):
            return self.looked_over()
        try:
            made = outlined(self.function, Outline(self.rule), self.id)
        except FedTheoryError:  # the function looks at numbers before it yields its forms, or is wrong
            if not self.of_world:
                return self.looked_over()
            if not self.over.draws:
                raise
            made = self.on(self.over.example_instance())
        if self.of_world:
            self._check_needs(made)
        return dict(made)

    def looked_over(self) -> dict[str, Claimed]:
        """Make the forms on `probe`.

        That their sides have shapes that fit, and sums that stay within an instance, is seen on
        wider views. Raises what `evaluate` and `check_sums` raise.
        """
        from fedtheory.theory.rounds.method_setting import MethodSetting
        from fedtheory.theory.rounds.probe import check_sums, wide_view
        from fedtheory.theory.rounds.reads import check_slices

        found, wide = self.on(self.probe), wide_view(MethodSetting.of(self))
        if found.ended is not None:
            raise found.ended
        if wide is not None:
            with suppress(Undefined, Unbounded):
                self.on(wide)
        check_slices(self, self.probe)
        check_sums(MethodSetting.of(self))
        return found.all

    def _check_needs(self, made: Forms) -> None:
        """Raise `UnknownName` with the place and the nearest facts for a need that is no `Fact`."""
        spaces = vars(sys.modules[self.over.__module__]), self.function.__globals__
        known = {v for space in spaces for v in space.values() if isinstance(v, Fact)}
        for name, claimed in made.items():
            for need in claimed.needs:
                if not isinstance(need, Fact):
                    where = place(self.function, None, self.id, made.lines[name])
                    told = suggest(need, known, "fact") if known else f"{need!r} is no fact"
                    how = "use its name, or Fact(words, lambda q: ...)"
                    raise UnknownName(f"{where}: needs of form {name!r}: {told}; {how}")

    @cached_property
    def moving(self) -> frozenset[str]:
        """The forms whose sides move with a constant that is added to F: lhs/rhs says nothing of them."""
        from fedtheory.theory.rounds.ratios import moves_with_offset

        return moves_with_offset(self, self.probe)

    @cached_property
    def constants(self) -> dict[str, Any]:
        """The constants its bounds declare."""
        self.on(self.probe)  # declares them
        return dict(self.probe.constants)

    def free_constants(self, form: str, view: Any = None) -> dict[str, Any]:
        """The constants of which a form claims that some number >= 0 will do, with the values stated,
        or those of a view; of a form that says nothing on `probe` all that the statement has.
        """
        free = {name: value for name, value in self.constants.items() if name in self.probe.left_free}

        def excess(**values: Any) -> list[Any] | None:
            made = self.on(self.probe.other(values), mutants=False, only=form)
            sides = made[form].sides if form in made else None
            return None if sides is None else np.ravel(sides.lhs - sides.rhs).tolist()

        if free and form not in self._free:
            as_it_stands = excess()
            moves = {n for n, v in free.items() if as_it_stands != excess(**{n: v + 1})}
            self._free[form] = set(free) if as_it_stands is None else moves
        at = {} if view is None else view.overrides
        return {name: at.get(name, free[name]) for name in free if name in self._free[form]}

    def form(self, name: str) -> Claimed:
        """One form. Raises `UnknownName` with the nearest names."""
        if name not in self.forms:
            raise suggest(name, self.forms, f"form of {self.id}")
        return self.forms[name]

    @cached_property
    def statement(self) -> Statement:
        """As the core knows statements: forms are functions of a view."""
        own = self.over.scope or self.id.partition("/")[0] if self.of_world else self.over
        forms = tuple(self._form(claimed) for claimed in self.forms.values())
        told = self.assumptions, self.symbols, "sharpened" if self.ours else "statement"
        return Statement(
            self.id, self.title, self.source, own, forms, *told,
            measures=self.measures, home=self.home,
        )  # fmt: skip

    @property
    def home(self) -> Paper:
        """The paper that judges it: the one it was declared in.

        Of a variant and of a changed copy, it is that paper with this statement alone.
        """
        own = self.paper or Paper(self.id.partition("/")[0])
        if own.authored.get(self.name) is self:
            return own
        alone = copy(own)
        alone.authored, alone.declared, alone._setting = {self.name: self}, [self], None
        return alone

    def _form_on(self, view: Any, name: str) -> Claimed:
        """One form on a world, which stands in `forms` already: those after it are not made."""
        try:
            return next(c for c in self.function(view) if c.name == name)
        except Exception:  # whatever an author's function raises: now with its place
            return self.on(view)[name]

    def _form(self, claimed: Claimed) -> Form:
        """A form as the core knows it, whose sides are made on each view anew.

        Its formula is the author's, that of letters, or of a method that of its code.
        """
        from fedtheory.theory.rounds.notation import formula

        def sides(view: Any, mutant: int | None = None) -> Sides:
            if self.of_world or isinstance(view, Letters):
                found = self._form_on(view, claimed.name)
                chosen = found if mutant is None else found.mutants[mutant]
                return sides_of(self.function, chosen, self.id)
            from fedtheory.theory.rounds.judging import with_noise

            pick = None if mutant is None else lambda made: made.mutants[mutant].sides
            return with_noise(self, view, claimed.name, pick)

        name, more = claimed.name, dict(claimed.more)
        letters: Any = self.letters
        established: Any
        of_code: Any
        over, rules = more.pop("over", self.over), more.pop("rules", None)
        around = more.pop("before", ""), more.pop("after", "")
        if self.of_world:
            sides.__module__ = self.function.__module__  # where a reader finds its code
            rules = over.rules if rules is None else rules
            own = isinstance(rules, dict)
            established = rules if own else dict.fromkeys(rules, claimed.established)
            kind, letters = over.kind, letters_of(over)
            of_code = partial(formula_over, over, sides, *around, more.pop("where", ()))
        else:
            variants = {rule: v.forms for rule, v in self.variants.items() if name in v.forms}
            established = {rule: forms[name].established for rule, forms in variants.items()}
            letters = {words: one for words, one in letters.items() if one.rule in established}
            kind, of_code = self.name, partial(formula, self, name)
        letters = None if claimed.latex or claimed.sides is None else letters or None
        latex: Any = claimed.latex or ("" if claimed.sides is None else of_code)
        if letters and not self.of_world:
            latex = partial(shown, sides, letters, *around)
        mutants = (Mutant(w.name, partial(sides, mutant=i)) for i, w in enumerate(claimed.mutants))
        return Form(
            name, latex, None if claimed.sides is None else sides, established, claimed.note,
            claimed.proof, tuple(mutants), kind, tuple(claimed.needs), letters=letters, **more,
        )  # fmt: skip

    def unjudged(
        self, forms: Iterable[str], why: str | Exception, instance: str = "", verdict: Any = None
    ) -> list[Check]:
        """Give the checks of forms that were not run; one by an error says what it means."""
        told: Any = verdict or ("inconclusive" if isinstance(why, NotCertified) else "not applicable")
        fields: dict[str, Any] = {"reason": str(why), "instance": instance}
        return [Check(self.id, f, self.rule, told, "exact", **fields) for f in forms]

    @property
    def place(self) -> str:
        """File, line and id."""
        return place(self.function, None, self.id)

    def __repr__(self) -> str:
        return f"<statement {self.id}: {self.title}>"


def _with_numbers(problems: Any, numbers: Mapping[str, Fraction]) -> Any:
    """A class of problems with other clients, and another strong convexity."""
    if "clients" in numbers:
        problems = replace(problems, clients=int(numbers["clients"]))
    if (mu := numbers.get("strong_convexity")) is None:
        return problems
    if type(problems) not in (Smooth, SmoothConvex, StronglyConvex):
        raise InvalidInput(f"strong_convexity = {mu}: the statement is about {problems.words}; leave it out")
    plain = {f.name: getattr(problems, f.name) for f in fields(SmoothConvex)}
    return StronglyConvex(**plain, mu=mu) if mu else SmoothConvex(**plain)


class Paper(RegisteredPaper):
    """A paper whose statements are written with `statement`, `claim` and `proof`.

    Parameters
    ----------
    id : str
        The first part of its statements' ids: small letters, digits, points and dashes.
    title, source : str
        As in a list of references.
    symbols : dict symbol -> where it lives in the code, of every statement that has none of its own
    tested : of a package whose tests call `AuthoredStatement.looked_over` of each statement
    worlds : closed worlds of which a statement over a method may have witnesses
    more : of a paper in a package
        Further attributes of `fedtheory.theory.judge.registry.RegisteredPaper`: figures, witnesses,
        printed, about and, for who runs a method, tuned, computed and step_sizes.

    Raises
    ------
    InvalidInput
        An id of other characters.
    """

    def __init__(
        self,
        id: str,
        title: str = "",
        source: str = "",
        symbols: dict[str, str] | None = None,
        tested: bool = False,
        worlds: Sequence[type[World]] = (),
        **more: Any,
    ) -> None:
        if not isinstance(id, str) or not NAME.fullmatch(id):
            raise InvalidInput(
                f"paper id {id!r}: use small letters, digits, points and dashes, for example 'my-paper'"
            )
        super().__init__(id, title, source, **more)
        self.authored: dict[str, AuthoredStatement] = {}
        self.symbols, self.tested = symbols or {}, tested
        self.worlds = {world.kind: world for world in worlds}

    @property
    def statements(self) -> tuple[Statement, ...]:  # type: ignore[override]
        """Its statements and claims, in the order in which they were declared.

        Raises
        ------
        UnknownName, InvalidInput, MissingCapability
            A statement that cannot be judged, with file and line.
        """
        return tuple(s if isinstance(s, Statement) else s.statement for s in self.declared)

    @property
    def setting(self) -> Setting:  # type: ignore[override]
        """The setting that judges them: those about rounds and runs, those over worlds, and claims."""
        if self._setting is None:
            worlds = [s for s in self.authored.values() if s.of_world]
            claims = len(self.declared) > len(self.authored)
            parts: list[Any] = []
            if len(worlds) < len(self.authored):
                from fedtheory.theory.paper_adapter import AuthoredSetting

                parts.append(AuthoredSetting(self))
            parts += [WorldSetting(worlds)] if worlds or claims else []
            if len(parts) > 1 and claims:
                parts[1].kinds = (*parts[1].kinds, "claim")
            self._setting = parts[0] if len(parts) == 1 else Joined(*parts)
        return self._setting

    def judged_by(self, setting: Setting, statements: Sequence[Statement]) -> Self:
        """Let a setting of the author's own judge these statements, and all that it declared.

        Parameters
        ----------
        statements : in the order of the paper, those of `authored` among them
        """
        self._setting, self.declared = setting, list(statements)
        return self

    def _with(self, made: AuthoredStatement | Statement) -> Self:
        self.declared.append(made)
        self._setting = None
        if isinstance(made, AuthoredStatement):
            self.authored[made.name] = made
        return self

    def read(self, package: str, first: Sequence[str] = ()) -> None:
        """Import the files of a package, each of which may declare statements of this paper.

        Those named ``first`` come in this order, the others by name. Folders are left alone, and
        files called figures... until they are needed.

        Parameters
        ----------
        package : its name, ``__name__`` in its ``__init__.py``
        """
        files = iter_modules(import_module(package).__path__)
        found = {f.name for f in files if not f.ispkg and not f.name.startswith("figures")}
        for name in (*first, *sorted(found - set(first))):
            import_module(f"{package}.{name}")

    def statement(
        self,
        name: str,
        *,
        about: Any = None,
        problems: Any = None,
        local: GradientSteps | Minimise | None = None,
        sampling: Any = None,
        over: str | type[World] = "round",
        rounds: int | tuple[int, int] | None = None,
        assumptions: tuple[str, ...] = (),
        title: str = "",
        source: str = "",
        symbols: dict[str, str] | None = None,
        measures: str = "",
        ours: bool = False,
        rules: Mapping[str, Mapping[str, Any]] | None = None,
        states: Mapping[str, Any] | None = None,
        starts: int = 1,
        letters: Mapping[str, Letters] | None = None,
        numbers: Callable[[Any], Mapping[str, Any]] | None = None,
        takes_run: Callable[[Form, Any, Any], tuple[Any, Any]] | None = None,
        **unknown: Any,
    ) -> Callable[[Callable[[Any], Any]], AuthoredStatement]:
        """Declare a statement; decorates a function of the quantities ``q`` that yields the
        forms.

        Parameters
        ----------
        about, problems, local, sampling, over, rules, states, starts : as `fedtheory.theory` says
            The first two must be given, unless ``over`` is a class of closed worlds; the local work
            is `Minimise()` by default, the sampling `Full()`.
        rounds : T, or (least, most)
            Of a run the horizons it is checked for (default 1 to 4); of a round how many rounds
            may come before it (default 0 to 2).
        assumptions : in words
        title : default the first line of the function's docstring
        ours : True of a statement that the paper does not make
        letters : {words: `fedtheory.theory.judge.symbolic.Letters`}, with which the function makes
            the formula of a form that is given none; the words tell rules apart whose formulas
            differ
        numbers : callable(q) -> {letter: number}, what a replayed witness shows beside its sides
        takes_run : callable(form, case, record) -> (case, record), a run of anyone's as one of this
            method: where it has states of other names, or is of a method that is a limit of this one
        measures : the left side in words, for the axis of a picture: "suboptimality of the last iterate" (default its formula)

        Raises
        ------
        UnknownName
            Another keyword, with the nearest ones.
        InvalidInput
            Values of another kind; two statements of one name. With the place.
        """
        only_keywords(unknown, list(inspect.signature(Paper.statement).parameters)[1:-1], "paper.statement")

        def add(function: Callable[[Any], Any]) -> AuthoredStatement:
            at = place(function, None, f"{self.id}/{name}")
            if not isinstance(name, str) or not NAME.fullmatch(name):
                raise InvalidInput(f"{at}: statement name {name!r}: use small letters, digits, points and dashes")
            if name in self.authored:
                raise InvalidInput(f"{at}: two statements are called {name!r}: rename one")
            words = title or next(iter((inspect.getdoc(function) or name).splitlines()), name)
            made = AuthoredStatement(
                f"{self.id}/{name}", about, Minimise() if local is None else local,
                Full() if sampling is None else sampling, problems, over, _horizons(rounds, over, at),
                tuple(assumptions), words, source or self.source, function, symbols or self.symbols,
                measures, ours, rules or {}, states=states or {}, starts=starts, paper=self,
                numbers=numbers, takes_run=takes_run, letters=letters or {},
            )  # fmt: skip
            others = {"problems": problems, "local": local, "sampling": sampling, "rounds": rounds}
            whole_number(f"{at}: starts", starts)
            for fault in _refuse_world(over, others, about) if made.of_world else _refuse(made):
                raise InvalidInput(f"{at}: {fault}")
            self._with(made)
            return made

        return add

    def claim(
        self, name: str, title: str, latex: str, *, source: str = "", note: str = "",
        shown_by: str = "", form: str = "printed", wording: str = "", scope: str = "",
        assumptions: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """Record a claim that cannot be proved or refuted here, such as one about an experiment.

        Parameters
        ----------
        latex : the claim as a formula
        note : the reason
        shown_by : the command that measures what it is about
        form, wording, scope, assumptions : as its `Form` and its `Statement` have them
        """
        only = Form(form, latex, None, {"any": "open"}, note=note, kind="claim", wording=wording)
        self._with(Statement(
            f"{self.id}/{name}", title, source or self.source, scope or self.id, (only,),
            tuple(assumptions), self.symbols, "claim", shown_by, home=self,
        ))  # fmt: skip

    def proof(self, theorem: AuthoredStatement | str, *, steps: Sequence[Step], form: str = "repaired", note: str = "") -> Proof:
        """Say how one form of a theorem about a run is proved: a chain of `step`s.

        Parameters
        ----------
        theorem : a statement of this paper with over='run', or its name
        steps : in the order of the proof
        note : what a reader should know of the proof

        Raises
        ------
        UnknownName, InvalidInput
            No such statement or form; a theorem that is not about a run; steps of another kind.
        """
        from fedtheory.theory.proofs import core_proof

        made = core_proof(self[theorem] if isinstance(theorem, str) else theorem, form, steps, note)
        self.proofs.append(made)
        return made

    def __getitem__(self, name: str) -> AuthoredStatement:
        """A statement by its name, or by its whole id. Raises `UnknownName` with the nearest
        names."""
        short = name.removeprefix(f"{self.id}/")
        if short not in self.authored:
            raise suggest(short, self.authored, f"statement of {self.id}")
        return self.authored[short]

    def __repr__(self) -> str:
        return f"<paper {self.id}: {len(self.declared)} statements>"


def _refuse_world(world: Any, others: dict[str, Any], about: Any) -> Iterator[str]:
    """Yield what is wrong with a statement over a world."""
    if not issubclass(world, World) or not world.kind:
        yield (
            f"over = {world.__name__}: use 'round', 'run', 'fixed-point', "
            "or a subclass of World with a kind"
        )
    if given := [name for name, value in others.items() if value is not None]:
        told = f"a statement over {world.__name__} is about its instances; leave them out"
        yield f"{', '.join(given)}: {told}"
    if world.takes and not isinstance(about, Method):
        told = f"{world.__name__} is made of a user's method; give method(TheMethod)"
        yield f"about = {about!r}: {told}"


def _horizons(rounds: Any, over: Any, at: str) -> tuple[int, int]:
    if rounds is None:
        return {"round": (0, 2), "run": (1, 4)}.get(over, (0, 0))
    least = 1 if over == "run" else 0
    if (pair := least_and_most(rounds, least)) is None:
        raise InvalidInput(f"{at}: rounds = {rounds!r}: give a whole number, or (least, most) with least >= {least}")
    return pair


def _refuse(made: AuthoredStatement) -> Iterator[str]:
    """Yield what is wrong with a statement about a method."""
    from fedtheory.theory.rounds.problem_classes import ProblemClass

    about, local, sampling, problems = made.about, made.local, made.sampling, made.problems
    runs = all(callable(getattr(about, name, None)) for name in ("init", "round"))
    if not isinstance(about, Method) and not runs:
        told = "give a method, such as FedAvg() or method(FedProx, mu=1), with init and round"
        yield f"about = {about!r}: {told}"
    if isinstance(about, type):
        name = about.__name__
        yield f"about = {name}: give an instance, {name}(), or method({name}, ...)"
    if not isinstance(local, GradientSteps | Minimise):
        yield f"local = {local!r}: use GradientSteps(steps, lr) or Minimise()"
    if not isinstance(sampling, Sampling) and sampling is not Uniform:
        told = "use Full(), Uniform(P), Bernoulli(p), or the class Uniform for every P"
        yield f"sampling = {sampling!r}: {told}"
    if not isinstance(problems, ProblemClass):
        yield f"problems = {problems!r}: use a class of problems, such as SmoothConvex(clients=(1, 4))"
    if isinstance(sampling, Uniform) and (size := sampling.size) > (most := problems.clients[1]):
        yield (
            f"sampling = {sampling}: its cohorts need at least {size} clients, and the problems "
            f"have at most {most}: declare clients=({size}, {size + 1}), or a smaller cohort"
        )
    if made.rules and not isinstance(about, Method):
        name = type(about).__name__
        yield f"rules: write about=method({name}, ...), whose hyperparameters they set"
    if made.states and made.over != "round":
        yield f"states: a {made.over} begins as the method does; leave them out"
    if made.starts > 1 and made.over != "run":
        yield "starts: of a run, declare over='run', or leave them out"
    if made.over not in SCOPES:
        yield f"over = {made.over!r}: use one of {', '.join(SCOPES)}"
    if isinstance(local, GradientSteps) and isinstance(local.steps, Upto):
        yield f"steps = {local.steps!r}: a number of steps is whole, use among(1, 2, 5)"


def load_file(path: str | Path) -> Paper:
    """The paper that a Python file holds.

    Raises
    ------
    DataFileError
        No such file.
    InvalidInput
        The file cannot be imported (names the line), or holds no paper, several, or one without
        statements.
    """
    with read_file(path) as papers:
        if len(papers) > 1:
            raise InvalidInput(f"{path}: it defines {len(papers)} papers: keep one a file")
        if not papers[0].declared:
            raise InvalidInput(
                f"{path}: paper {papers[0].id!r} has no statement: "
                "decorate a function with @paper.statement(...)"
            )
        return cast(Paper, papers[0])
