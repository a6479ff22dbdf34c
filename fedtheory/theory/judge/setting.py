"""The protocol by which a paper's statements are judged, with the parts that most papers share.

A paper's setting knows *kinds* of instances. An instance has a *view*: everything that one round or
one run of it makes measurable, in floats, in fractions, or over scenarios. The forms of a statement
name the kind they are judged on, and what of an instance they need. From these the campaign, the
search for counterexamples, the witnesses and a check on a user's problem follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import wraps
from inspect import isfunction, signature
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from fedtheory.errors import FedTheoryError, InvalidInput, MissingCapability, NotCertified
from fedtheory.inputs import whole_number
from fedtheory.rational import Builders
from fedtheory.theory.judge.case import About, Case, LocalWork, Plan
from fedtheory.theory.judge.check import Check, apart_sides, judge_view, outside, worst_sides
from fedtheory.theory.judge.record import OwnRun, Record, not_about_runs
from fedtheory.theory.judge.request import Prepared, Request
from fedtheory.theory.judge.search import SearchResult, Target, explore
from fedtheory.theory.judge.sequential import fewest, in_looks
from fedtheory.theory.judge.shrink import simpler
from fedtheory.theory.judge.statement import Form, Sides, Statement
from fedtheory.theory.judge.witness import Witness

LEAST = 120  # instances of a kind that takes long, when they serve all forms and rules at once

__all__ = ["About", "Case", "Joined", "LocalWork", "Plan", "Prepared", "Request", "Setting"]


class Setting:
    """Judges the statements of one paper. Subclasses say what their instances are; the rest
    follows.

    Attributes
    ----------
    kinds : the kinds of instances, in the order in which they are searched
    builders : what makes a view of a kind from the data of a witness file
    share : dict kind -> share of the search's budget, for kinds whose instances take long
    scenarios : the most runs that Monte Carlo takes on a user's problem where the user does not say
    study_searches : whether `study` searches for counterexamples itself, so that a campaign with
        studies need not
    searched : dict kind -> the rules that its random instances can refute a form under; default all
    """

    kinds: tuple[str, ...] = ()
    builders: Builders = Builders()
    share: Mapping[str, float] = {}
    scenarios: int = 1000
    study_searches: bool = False
    searched: Mapping[str, tuple[str, ...]] = {}

    # --- the campaign -----------------------------------------------------------------------------
    def instances(self, plan: Plan) -> Sequence[Any]:
        """The instances of a campaign, which can be sent to another process.

        Each has ``name``, ``family`` and ``kind``, ``view()``, which runs it, and ``to_json()``.
        """
        return ()

    def check(self, instance: Any, statements: Sequence[Statement]) -> list[Check]:
        """Every form that is judged on this kind of instance."""
        forms = [
            (s, f) for s in statements for f in s.forms
            if f.sides is not None and f.kind == instance.kind
        ]
        try:
            view = instance.view()
        except NotCertified as error:
            return [outside(s, f, r, error, instance.name) for s, f in forms for r in f.established]
        out = []
        for s, f in forms:
            if view.rule in f.established:
                why = view.applies(f)
                refused = why and outside(s, f, view.rule, why, instance.name)
                out.append(refused or judge_view(s, f, view, instance.name))
        return out

    def concerns(self, instance: Any, statements: Sequence[Statement]) -> bool:
        """True if an instance of a campaign may be about some of these statements."""
        return True

    # --- a problem of the user's ----------------------------------------------------------------
    def about(self, statement: Statement) -> About:
        """The statement in words, and what it takes of a user."""
        why = "it is about instances of its own, not about a problem's run"
        return About(statement.scope, why, symbols=statement.symbols)

    def instance(self, statement: Statement, form: Form, case: Case) -> Any:
        """The instance that a user's problem and method are for one form; `DataInstance` where it
        is given in fractions.

        Raises `InvalidInput` or `MissingCapability` for what the form needs and is missing, and
        `NotCertified` for an optimum that cannot be certified.
        """
        reason = self.about(statement).refusal
        if reason is None:
            raise InvalidInput(
                f"{statement.id} is not judged in fractions on a problem of a user's: there "
                "is nothing to keep"
            )
        raise InvalidInput(
            f"{reason}: `fedtheory verify` judges it on the battery, and where it fails "
            "a witness says so"
        )

    def shares_view(self, form: Form) -> Any:
        """Forms of which this is equal are judged on one view of a case."""
        return form.kind

    def verify(self, statement: Statement, forms: Sequence[Form], case: Case) -> list[Check]:
        """One check a form on a user's problem.

        'not applicable' says what is missing, or which assumption fails with value and limit;
        'inconclusive' what could not be certified. Scenarios grow until every form is decided
        (`fedtheory.theory.judge.sequential`).
        """

        def judged(names: Sequence[str], scenarios: int, confidence: float) -> list[Check]:
            so_far = replace(case, scenarios=scenarios, confidence=confidence)
            views: dict[Any, Any] = {}
            return [self._judged(statement, statement.form(n), so_far, views) for n in names]

        clients = case.problem.num_clients
        share = getattr(case.sampling, "size", clients) / clients  # that takes part in a round
        least = case.least or fewest(share, case.rounds or 1)
        return in_looks(judged, [f.name for f in forms], case.scenarios, case.confidence, least)

    def _judged(self, statement: Statement, form: Form, case: Case, views: dict[Any, Any]) -> Check:
        """One form on a user's problem; ``views``: those that forms before it were judged on."""
        key, rule = self.shares_view(form), case.rule
        reason: Any = None
        try:
            if key not in views:
                views[key] = self.instance(statement, form, case).view()
        except (NotCertified, InvalidInput, MissingCapability) as error:
            reason = error
        of: Any = views.get(key)
        view = of
        try:
            if reason is None and hasattr(of, "for_form"):
                view = of.for_form(form)
        except NotCertified as error:
            reason = error
        reason = reason or (view if isinstance(view, str) else view.applies(form))
        if not reason and view.rule not in form.established:
            reason = f"not claimed for {view.rule}, only for {', '.join(form.established)}"
        if not reason:
            return self.judge(statement, form, view, case)
        known = getattr(of, "case_rule", form.rule_among(getattr(of, "rule", rule), rule, "any"))
        return outside(statement, form, known, reason, case.problem.name)

    def judge(self, statement: Statement, form: Form, view: Any, case: Case) -> Check:
        """One form on the view of a user's problem."""
        sides = getattr(view, "sides_of", None)
        how: Any = {"confidence": case.confidence, "sides": sides and sides(form.sides)}
        return judge_view(statement, form, view, case.problem.name, **how)

    def own_run(self, statement: Statement, form: Form, case: Case, record: Record) -> OwnRun:
        """The sides of a form on a run of anyone's, or its bound alone; raises as
        `fedtheory.theory.judge.own_run.bound` does."""
        what = f"{statement.id} [{form.name}] is {self.about(statement).scope}"
        raise InvalidInput(not_about_runs(what))

    def prepare(self, statement: Statement, request: Request) -> Prepared:
        """The case that a user asked for in words, with what stands above its table.

        Raises `InvalidInput` for an option that means nothing to the statement.
        """
        raise InvalidInput(f"{statement.id}: {self.about(statement).refusal}")

    # --- instances in fractions -------------------------------------------------------------------
    def exact_view(self, statement: Statement, form: Form, witness: Witness) -> Any:
        """The view of a witness's data, in fractions.

        Raises `InvalidInput` for no such kind, malformed data, and a form that is not about this
        kind, or whose assumptions fail.
        """
        if form.sides is None:
            raise InvalidInput(
                f"{statement.id} [{form.name}] has no sides to compare: it cannot have a witness"
            )
        if witness.kind not in self.builders:
            raise InvalidInput(f"kind = {witness.kind!r}: use one of {', '.join(self.builders)}")
        if witness.kind != form.kind:
            raise InvalidInput(
                f"{statement.id} [{form.name}] is judged on instances of kind {form.kind!r}, not "
                f"{witness.kind!r}"
            )
        try:
            view = self.built(witness)
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidInput(
                f"data of kind {witness.kind!r}: missing or malformed ({error})"
            ) from error
        if view.rule != witness.rule or witness.rule not in form.established:
            claimed = ", ".join(form.established)
            raise InvalidInput(
                f"rule = {witness.rule!r}: the data are of rule {view.rule!r}, "
                f"claimed are {claimed}"
            )
        reason = view.applies(form)
        if reason is not None:
            raise InvalidInput(f"the assumptions of {statement.id} [{form.name}] fail: {reason}")
        return view

    def built(self, witness: Witness) -> Any:
        """Make the view of a witness's data.

        Raises `InvalidInput` for malformed data, and for an assumption dropped or a constant moved
        that is none of the statement's.
        """
        if changed := ", ".join(filter(None, [witness.without, *witness.constants])):
            told = f"{witness.statement} has no such assumption or constant to change"
            raise InvalidInput(f"{changed}: {told}")
        return self.builders[witness.kind](witness.data)

    def exact_check(
        self, statement: Statement, witness: Witness
    ) -> tuple[Check, Fraction, Fraction, Fraction]:
        """Run the form on the witness's data in fractions, whatever it claims: the check, then lhs,
        rhs, scale.

        Raises as `Statement.form` and `exact_view`, and `InvalidInput` for sides that are no
        fractions.
        """
        form = statement.form(witness.form)
        view = self.exact_view(statement, form, witness)
        sides = form.sides_on(view)
        lhs, rhs, scale = worst_sides(sides, (witness.lhs, witness.rhs))
        check = judge_view(
            statement, form, view, self.summary(witness), rule=witness.rule, sides=lambda _: sides
        )
        place = {k: check.where.pop(k) for k in ("index", "axes") if k in check.where}
        check.where.update(exact=[str(lhs), str(rhs)], **place)
        if (both := apart_sides(sides)) is not None:
            check.where["sides"] = [*map(str, both)]
        return check, lhs, rhs, scale

    def summary(self, witness: Witness) -> str:
        """One line on the witness: its statement, form and size."""
        return f"{witness.statement} [{witness.form}]: " + ", ".join(
            f"{k} = {_short(v)}" for k, v in witness.data.items()
        )

    def facts(self, witness: Witness) -> list[tuple[str, Any]]:
        """(name, value) of everything in a witness, as it is shown when it is replayed."""
        return [
            ("instance", witness.kind),
            *((name, _shown(value)) for name, value in witness.data.items())
        ]

    # --- the search for counterexamples -----------------------------------------------------------
    def random_instance(self, kind: str, rng: Any) -> Any:
        """One instance of a kind, over all shapes of its parameters; ``rng`` is a
        `numpy.random.Generator` or a `Tape`."""
        raise InvalidInput(f"kind = {kind!r}: there are no random instances of it")

    def searches(self, statements: Sequence[Statement]) -> list[tuple[str, ...]]:
        """The jobs that a search of all forms not on record as violated falls into; `run_search`
        runs one."""
        known = {f.kind for s in statements for f in s.forms if f.sides is not None}
        return [(kind,) for kind in self.kinds if kind in known]

    def run_search(
        self, job: tuple[str, ...], statements: Sequence[Statement], budget: int, seed: int,
        violated: bool = False
    ) -> list[SearchResult]:
        """All forms of one kind, with a quarter of the budget: they share their instances."""
        targets = [
            Target(s, f, rule, f.sides)
            for s in statements
            for f in s.forms
            if f.sides is not None and f.kind == job[0]
            for rule, verdict in f.established.items()
            if (violated or verdict != "violated") and rule in self.searched.get(f.kind, (rule,))
        ]
        return self.explore(job[0], targets, max(1, budget // 4), seed)

    def search(
        self, statement: Statement, form: Form, rule: str, budget: int, seed: int,
        sides: Callable[[Any], Sides] | None = None
    ) -> SearchResult:
        """Look for an instance on which one form fails; ``sides`` replaces the form's own, for
        mutants.

        Raises `InvalidInput` for a form without sides, or not claimed for the rule.
        """
        if form.sides is None:
            raise InvalidInput(
                f"{statement.id} [{form.name}] has no sides to compare: there is nothing to search"
            )
        if rule not in form.established:
            claimed = ", ".join(form.established)
            raise InvalidInput(
                f"{statement.id} [{form.name}] is not claimed for the {rule} rule: use {claimed}"
            )
        whole_number("budget", budget, remedy="it is the number of instances to try")
        target = Target(statement, form, rule, sides or form.sides)
        return self.explore(form.kind, [target], budget, seed)[0]

    def study(
        self, statement: Statement, budget: int, seed: int,
        on_progress: Callable[[str], None] | None = None, checks: Sequence[Check] = (),
    ) -> Any:  # fmt: skip
        """Study how tight a statement is, how small its constants may become, which assumption can
        go.

        Parameters
        ----------
        budget : instances for each question
        on_progress : callable(what), as each question is answered
        checks : of a campaign on this statement, which need not be made again

        Returns
        -------
        object or None
            It prints as a table (``str`` or a `rich` renderable), and ``to_json()`` is what is
            written of it. It may have ``witnesses`` against the statement, ``figures()``
            (`fedtheory.plotting.figure.Figure`), the results of its ``searches`` (`SearchResult`)
            and ``findings()`` for reports, a list of (label, words). With ``shows_forms = True``
            what it prints has every form's verdict and counterexample.
        """
        return None

    def explore(
        self, kind: str, targets: list[Target], budget: int, seed: int
    ) -> list[SearchResult]:
        """Search all targets over instances of one kind."""

        def made(tape: Any) -> tuple[Any, Any]:
            instance = self.random_instance(kind, tape)
            return instance, instance.view()

        least = LEAST if kind in self.share and len(targets) > 1 else 24
        budget = max(least, round(budget * self.share.get(kind, 1.0)))
        rng = np.random.default_rng([seed, len(kind), *kind.encode()])
        return explore(made, targets, budget, rng, seed, self.proved)

    def proved(self, target: Target) -> tuple[Witness | None, float | None]:
        """Judge the target's worst instance in fractions, where its data are.

        Returns a witness, or None, shrunk to simpler numbers as long as (lhs - rhs)/scale is at
        least half of what it was; and (lhs - rhs)/scale, None where it is not judged in fractions.
        """
        at = target.margin_at
        data = getattr(at, "data", None)
        if data is None or at.kind not in self.kinds:
            return None, None
        statement = target.statement
        witness = Witness(
            statement.id, target.form.name, target.rule, at.kind, data,
            found_by={"search": "random and local"}
        )
        violation = self._violation(statement, witness)
        if violation is None or violation <= 0:
            return None, None if violation is None else float(violation)

        def keeps(changed: Any) -> bool:
            left = self._violation(statement, replace(witness, data=changed))
            return left is not None and 2 * left >= violation

        small = simpler(data, keeps)
        if small != data:
            witness = replace(
                witness, data=small, found_by={"search": "random and local, then shrunk"}
            )
        _, lhs, rhs, _ = self.exact_check(statement, witness)
        return witness.claiming(lhs, rhs), float(violation)

    def _violation(self, statement: Statement, witness: Witness) -> Fraction | None:
        """(lhs - rhs)/scale in fractions; None of data that the form is not about, or make no
        view."""
        try:
            _, lhs, rhs, scale = self.exact_check(statement, witness)
        except (FedTheoryError, ArithmeticError, LookupError, ValueError):
            return None
        return (lhs - rhs) / scale if scale else Fraction(0)


def _short(value: Any) -> str:
    text = f"[{', '.join(map(_short, value))}]" if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{k} = {_shown(v)}" for k, v in value.items())
    nested = isinstance(value, list) and any(isinstance(v, list) for v in value)
    return (
        ("; " if nested else ", ").join(_shown(v) for v in value) if isinstance(value, list)
        else str(value)
    )


class Joined(Setting):
    """A setting made of parts, for a paper whose statements are about instances of quite different
    kinds.

    A statement belongs to the part that lists the kind of its first form among its ``kinds``. So
    does an instance or a witness, by its ``kind``, and a job of the search, by its first word. What
    no part lists is the first part's.

    Parameters
    ----------
    parts : the settings, no two of which list the same kind
    """

    def __init__(self, *parts: Setting) -> None:
        self.parts = parts
        self.kinds = tuple(kind for part in parts for kind in part.kinds)
        self.scenarios = parts[0].scenarios

    def of_kind(self, kind: Any) -> Setting:
        """The part that lists the kind, else the first."""
        return next((part for part in self.parts if kind in part.kinds), self.parts[0])

    def part(self, statement: Statement) -> Setting:
        """The part that judges the statement."""
        return self.of_kind(_KIND["statement"](statement))

    def instances(self, plan: Plan) -> list[Any]:
        return [i for part in self.parts for i in part.instances(plan)]


def _delegated(method: Callable[..., Any], kind: Callable[[Any], Any]) -> Callable[..., Any]:
    """The method of the part that knows the kind of its first argument."""

    @wraps(method)
    def of_part(self: Joined, about: Any, *args: Any, **more: Any) -> Any:
        return getattr(self.of_kind(kind(about)), method.__name__)(about, *args, **more)

    return of_part


_KIND: dict[str, Callable[[Any], Any]] = {  # of a method's first argument, by its name
    "statement": lambda statement: statement.forms[0].kind,
    "witness": attrgetter("kind"),
    "instance": attrgetter("kind"),
    "job": itemgetter(0),
}
for _name, _method in vars(Setting).items():
    _about = [*signature(_method).parameters][1:2] if isfunction(_method) else []
    if _about and _about[0] in _KIND:
        setattr(Joined, _name, _delegated(_method, _KIND[_about[0]]))
