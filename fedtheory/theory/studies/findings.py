"""The findings of a study on one statement, and its verdicts.

No form 'holds' while something that was found against it is undecided.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.randomness import Stream
from fedtheory.theory.judge import campaign
from fedtheory.theory.judge.check import Check
from fedtheory.theory.judge.mutants import MutantFate
from fedtheory.theory.judge.search import Elite, SearchResult
from fedtheory.theory.judge.summary import ratio_text
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.rounds.declare import Among
from fedtheory.theory.rounds.forms import reduced
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.judging import check, judged
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.rational_clients import NotInFractions
from fedtheory.theory.rounds.ratios import NO_RATIO
from fedtheory.theory.rounds.undefined import SILENT
from fedtheory.theory.rounds.vector_proofs import BestConstant, Proved, best_constants, proved
from fedtheory.theory.studies.counterexamples import instance_of, prove, smaller
from fedtheory.theory.studies.necessity import (
    AssumptionNeed,
    ConstantNeed,
    first_proof,
    just_beyond,
)
from fedtheory.theory.studies.search import VISIBLE, Search, distinct, moves
from fedtheory.theory.studies.worst_tables import worst_table

__all__ = ["Row", "StatementStudy", "Tightness"]

SUSPECTS = 6
DRAWN = 12  # instances on which it is seen whether both sides are 0


@dataclass(frozen=True)
class Tightness:
    """The instance on which a form's lhs/rhs is largest.

    Attributes
    ----------
    ratio : lhs/rhs there; NaN where it says nothing (`fedtheory.theory.rounds.ratios`)
    attained : whether lhs = rhs in fractions, where a term of them is not 0 and the model moves
    """

    form: str
    ratio: float
    instance: str
    attained: bool = False

    @property
    def up_to(self) -> str:
        """'lhs/rhs up to 0.9'; '1' alone only where it is attained."""
        text = ratio_text(self.ratio, 4)
        return f"lhs/rhs up to {text}" + " but for rounding" * (text == "1" and not self.attained)

    def __str__(self) -> str:
        how = [self.up_to] * bool(np.isfinite(self.ratio)) + ["attained"] * self.attained
        return f"[{self.form}] {', '.join(how) or 'near to equality'} on {self.instance}"


@dataclass
class Row(campaign.Row):
    """A row of the campaign's table, with a note: on which instance the form is violated where that
    is no proof, why it was not judged, or what it does not say. Of a violated form the worst
    instance and the modes are those in which it is violated."""

    note: str = ""


@dataclass
class StatementStudy:
    """The findings on one statement, and the search that made them.

    Attributes
    ----------
    budget : of the search
    settled : forms of which all that was found was judged again
    judged_again : (form, instance) of what was
    notes : what is to be said of forms that hold
    horizons : of a run: form -> T -> where lhs/rhs is largest
    proofs : of forms that are proved for all losses of their class
    unproved : of other forms that hold, or may with other free constants, why they are not
    best : (form, best value of one of its constants) for all losses of the class
    """

    statement: Any
    search: Search
    budget: int = 0
    checks: list[Check] = field(default_factory=list)
    counterexamples: dict[str, Witness] = field(default_factory=dict)
    tightness: list[Tightness] = field(default_factory=list)
    constants: list[ConstantNeed] = field(default_factory=list)
    assumptions: list[AssumptionNeed] = field(default_factory=list)
    mutants: list[MutantFate] = field(default_factory=list)
    in_floats_only: str = ""
    settled: set[str] = field(default_factory=set)
    judged_again: set[tuple[str, str]] = field(default_factory=set)
    notes: dict[str, str] = field(default_factory=dict)
    horizons: dict[str, dict[int, Elite]] = field(default_factory=dict)
    proofs: dict[str, Proved] = field(default_factory=dict)
    unproved: dict[str, str] = field(default_factory=dict)
    best: list[tuple[str, BestConstant]] = field(default_factory=list)

    @property
    def setting(self) -> MethodSetting:
        """The setting that judges the statement."""
        return self.search.setting

    @property
    def rows(self) -> list[Row]:
        """One row a form."""
        return [self._row(name) for name in self.statement.forms]

    @property
    def needs(self) -> list[ConstantNeed | AssumptionNeed]:
        """The needs of its forms: of constants, then of assumptions."""
        return [*self.constants, *self.assumptions]

    def no_ratio(self, form: str) -> str:
        """Why lhs/rhs says nothing of a form, or ''."""
        return next(
            (c.where[NO_RATIO] for c in self.checks if c.form == form and NO_RATIO in c.where), ""
        )

    def _row(self, form: str) -> Row:
        statement, found = self.statement, self.counterexamples.get(form)
        group = [c for c in self.checks if c.form == form]
        claimed, name = statement.forms[form], None if found is None else found.name
        key = (statement.id, form, statement.rule)
        row = campaign.row_of(key, claimed.established, group, name, claimed.proof, failing=True)
        for t in self.tightness:  # of an instance that the search tried
            if t.form == form and np.isfinite(t.ratio) and not row.tightness_worst >= t.ratio:
                row = replace(row, tightness_worst=t.ratio, tightest=t.instance)
        if form in self.proofs and self.proofs[form].whole:
            row = replace(row, modes=[*row.modes, "proved"])
        return Row(**vars(row), note=self._note(form, row.verdict, group))

    def _note(self, form: str, verdict: str, group: list[Check]) -> str:
        """Say what the columns do not: on which instance, or why."""
        if verdict == "violated" and form not in self.counterexamples:
            worst = min((c for c in group if c.verdict == verdict), key=lambda c: c.slack)
            how = {"rational": "in fractions", "statistical": "by Monte Carlo"}.get(
                worst.mode, "in floats"
            )
            return (
                f"{how}, on {worst.instance or 'an instance without a name'}: lhs {worst.lhs:.6g} "
                f"> rhs {worst.rhs:.6g}"
            )
        reasons = Counter(c.reason for c in group if c.verdict == verdict and c.reason)
        if verdict == "inconclusive" and reasons:
            return next(f"on {c.instance}: {c.reason}" for c in group if c.verdict == verdict)
        if verdict == "not applicable":
            silent = self.search.silent.get(form) or "no instance was met"
            return f"never judged: {reasons.most_common(1)[0][0] if reasons else silent}"
        return self.notes.get(form, "")

    def search_result(self, form: str) -> SearchResult:
        """The result of the search for counterexamples to a form."""
        found, search = self.counterexamples.get(form), self.search
        nearest, tightest = (
            next(iter(search.best.get((form, None), [])), None), search.tightest.get(form)
        )
        score = -1.0 if nearest is None else nearest.score
        rounding = (
            score > VISIBLE and found is None and self._row(form).verdict == "holds"
            and form in self.settled
        )
        words = search.setting.words
        worst, most = (
            {} if e is None else {"name": words(e.instance), "data": e.instance.to_data()}
            for e in (nearest, tightest)
        )
        return SearchResult(
            self.statement.id, form, self.statement.rule, search.seed, self.budget,
            search.tried - search.skipped,
            score if score > VISIBLE else min(score, 0.0),
            tightest.score if tightest and not self.no_ratio(form) else float("nan"), worst, most,
            found, 0.0 if rounding else None,
        )  # fmt: skip

    def decide(
        self, forms: Iterable[str], refuting: Mapping[str, list[Draw]] | None = None
    ) -> None:
        """Settle what was found against forms that stand, and try each counterexample on every
        form."""
        for form in [f for f in forms if f not in self.counterexamples]:
            self.settle(form, (refuting or {}).get(form, ()))
            if form in self.counterexamples:
                self.search.look(instance_of(self.counterexamples[form]), counted=False)

    def settle(self, form: str, refuting: Iterable[Draw] = ()) -> None:
        """Prove what was found against a form, or judge it again: in fractions where it can be,
        else in floats.

        refuting : instances on which the form was violated before the search
        """
        setting, search = self.setting, self.search
        try:
            found = first_proof(search, form)
        except NotInFractions:
            found = None
        violated = [c.instance for c in self.checks if c.form == form and c.verdict == "violated"]
        for instance in (
            () if found is not None else [*list(refuting)[:SUSPECTS], *_suspects(search, form)]
        ):
            try:
                found = prove(setting, form, instance)
            except (InvalidInput, MissingCapability):
                found = None
            if found is not None:
                break
            words = setting.words(instance)
            if (
                (form, words) not in self.judged_again
                and not any(name.endswith(words) for name in violated)
            ):
                self.checks.append(_judged_again(setting, form, instance))
            self.judged_again.add((form, words))
        self.settled.add(form)
        if found is not None:
            self.refute(_least_drawn(search, form, found))

    def refute(self, found: Witness) -> None:
        """Take a counterexample, judged again from its data alone."""
        instance = instance_of(found)
        view, words = self.setting.view(instance, exact=True), self.setting.words(instance)
        self.counterexamples[found.form] = found
        self.checks.append(judged(self.statement, view, found.form, words))

    def _refute_by_table(self, form: str) -> None:
        """Try a worst function of the class on a form that was not proved; where that refutes it,
        nothing is left of what the form was found to need."""
        try:
            if (found := worst_table(self.setting, form)) is not None:
                self.refute(found)
                del self.unproved[form]
                self.constants = [n for n in self.constants if n.form != form]
                self.assumptions = [n for n in self.assumptions if n.form != form]
                self.mutants = [m for m in self.mutants if m.form != form]
        except MissingCapability as error:
            if str(error) != self.unproved[form]:
                self.unproved[form] += f"; {error}"
        except (*SILENT, InvalidInput):
            pass

    def prove(self) -> None:
        """Prove the forms that were not refuted for all losses of their class, or refute them by a
        worst function, and find the best values of constants.

        One that is refuted with the stated value of a free constant may be proved with another.
        """
        for form in self.statement.forms:
            stands = form not in self.counterexamples and self._row(form).verdict != "violated"
            try:
                if stands or self.statement.free_constants(form):
                    found = proved(self.statement, form)
                    if stands or any(found.chosen):
                        self.proofs[form] = found
            except (*SILENT, InvalidInput) as error:
                if stands or self.statement.free_constants(form):
                    self.unproved[form] = str(error)
                if stands:
                    self._refute_by_table(form)
            with suppress(*SILENT, InvalidInput):
                self.best += [(form, found) for found in best_constants(self.statement, form)]
        for form, best in self.best:
            self.constants = [
                just_beyond(self.setting, form, best, need)
                if (need.form, need.constant) == (form, best.constant)
                else need
                for need in self.constants
            ]

    def _measure(self) -> None:
        """Find where each form is tightest; a form that holds has at most 1, as more is
        rounding."""
        setting, search = self.setting, self.search
        self.tightness, self.horizons = [], {}
        holding = {r.form for r in self.rows if r.verdict == "holds"}
        if setting.scope == "run":
            for (form, rounds), elite in search.horizons.items():
                score = min(elite.score, 1.0) if form in holding else elite.score
                self.horizons.setdefault(form, {})[rounds] = replace(elite, score=score)
        for form, elite in search.tightest.items():
            sharp = [
                e.instance for (name, c), es in search.best.items() if name == form and c
                for e in es if e.score > -1e-9
            ]
            proved = [
                instance_of(n.example) for n in self.constants
                if n.form == form and n.example is not None
            ]
            candidates = sorted([elite.instance, *sharp, *proved], key=lambda i: len(str(i)))
            where = next((i for i in candidates if _attained(setting, form, i)), None)
            ratio = elite.score
            if ratio > 1 and form in holding:
                again = _judged_again(setting, form, elite.instance).tightness
                ratio = min(again, 1.0) if np.isfinite(again) else 1.0
            ratio = float("nan") if self.no_ratio(form) else ratio
            self.tightness.append(
                Tightness(form, ratio, setting.words(where or elite.instance), where is not None)
            )

    def conclude(self) -> None:
        """Say how tight the forms are, and let no row say 'holds' against which something was
        found.

        Of forms that hold it is noted, too, where both sides were always 0.
        """
        self._measure()
        for row in self.rows:
            if row.verdict != "holds":
                continue
            found = self.search_result(row.form)
            ratio = max((t.ratio for t in self.tightness if t.form == row.form), default=0.0)
            if not found.empty or ratio > 1 + VISIBLE:
                name = (
                    found.best_instance.get("name", "") if not found.empty
                    else found.tightest_instance.get("name", "")
                )
                why = f"the search found it violated on {name}, and it was not decided"
                self.checks += self.statement.unjudged([row.form], why, name, "inconclusive")
            elif not self.search.finite[row.form] and _both_zero(self.setting, row.form):
                self.notes[row.form] = "both sides are 0 wherever it was judged"


def _least_drawn(search: Search, form: str, found: Witness) -> Witness:
    """A counterexample with the smallest numbers, of those drawn `among` some, with which the
    search met one."""
    setting = search.setting
    families = {
        name: v.choices for name, v in setting.open_numbers().items() if isinstance(v, Among)
    }
    for name, choices in families.items():
        drawn = instance_of(found).drawn
        for value in smaller(choices, drawn[name]):
            elite = search.chosen.get((form, name, value))
            proof = None if elite is None else prove(setting, form, elite.instance)
            if (
                proof is not None
                and all(abs(instance_of(proof).drawn[k]) <= abs(drawn[k]) for k in families)
            ):
                found = proof
                break
    return found


def _suspects(search: Search, form: str) -> list[Draw]:
    """List the instances that seemed to violate a form, the clearest first."""
    tightest = search.tightest.get(form)
    some = (
        [e.instance for e in search.best.get((form, None), [])[:1] if e.score > VISIBLE]
        + search.violating(form)[:SUSPECTS]
    )
    some += [tightest.instance] if tightest is not None and tightest.score > 1 + VISIBLE else []
    return distinct(some)


def _judged_again(setting: MethodSetting, form: str, instance: Draw) -> Check:
    """One form on an instance on which it seemed violated; fractions have the last word."""
    statement, name = setting.of_statement, setting.words(instance)
    reason = "the sides do not exist there"
    for exact in (True, False):
        try:
            found = check(statement, setting.view(instance, exact=exact), [form], name)
        except (InvalidInput, MissingCapability):
            continue  # too many sequences of cohorts; a method that is not in fractions
        if found and found[0].verdict != "not applicable":
            return found[0]
        reason = found[0].reason if found else reason
    why = f"the search found it violated on {name}, which could not be judged again: {reason}"
    [told] = statement.unjudged([form], why, name, "inconclusive")
    return cast(Check, told)


def _attained(setting: MethodSetting, form: str, instance: Draw) -> bool:
    """True if lhs = rhs in fractions where a term is not 0 and the model moves."""
    try:
        view = setting.view(instance, exact=True)
        sides = reduced(view, setting.of_statement.on(view)[form])
    except (MissingCapability, InvalidInput):
        return False
    equal = np.asarray((sides.lhs == sides.rhs) & (sides.scale > 0))
    if setting.scope == "run" and equal.shape[:1] == (instance.rounds + 1,):
        equal = equal[1:]
    return bool(equal.any()) and moves(view)


def _both_zero(setting: MethodSetting, form: str) -> bool:
    """True if all terms of both sides are 0 on every instance drawn on which they exist."""
    rng, seen = Stream(0).generator(f"authoring zeros {setting.of_statement.id}"), False
    for _ in range(DRAWN):
        try:
            view: Any = setting.view(setting.random_instance(rng), exact=False)
            scale = np.asarray(setting.of_statement.on(view)[form].sides.scale)
        except SILENT:
            continue
        if np.isnan(scale).any() or (scale != 0).any():
            return False
        seen = True
    return seen
