"""The findings of a study on one statement: its checks as rows, its counterexamples, how tight it is, and what it needs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fedtheory.theory.judge import campaign
from fedtheory.theory.judge.check import Check
from fedtheory.theory.judge.mutants import MutantFate
from fedtheory.theory.judge.search import Elite, SearchResult
from fedtheory.theory.judge.summary import ratio_text
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.ratios import NO_RATIO
from fedtheory.theory.studies.necessity import AssumptionNeed, ConstantNeed
from fedtheory.theory.studies.search import VISIBLE, Search

__all__ = ["Row", "StatementStudy", "Tightness"]


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
    """A row of the campaign's table, with a note: on which instance the form is violated where that is no proof, why it was not
    judged, or what it does not say. Of a violated form the worst instance and the modes are those in which it is violated."""

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
        return next((c.where[NO_RATIO] for c in self.checks if c.form == form and NO_RATIO in c.where), "")

    def _row(self, form: str) -> Row:
        statement, found = self.statement, self.counterexamples.get(form)
        group = [c for c in self.checks if c.form == form]
        established, name = statement.forms[form].established, None if found is None else found.name
        row = campaign.row_of((statement.id, form, statement.rule), established, group, name, True)
        for t in self.tightness:  # of an instance that the search tried
            if t.form == form and np.isfinite(t.ratio) and not row.tightness_worst >= t.ratio:
                row = replace(row, tightness_worst=t.ratio, tightest=t.instance)
        return Row(**vars(row), note=self._note(form, row.verdict, group))

    def _note(self, form: str, verdict: str, group: list[Check]) -> str:
        """Say what the columns do not: on which instance, or why."""
        if verdict == "violated" and form not in self.counterexamples:
            worst = min((c for c in group if c.verdict == verdict), key=lambda c: c.slack)
            how = {"rational": "in fractions", "statistical": "by Monte Carlo"}.get(worst.mode, "in floats")
            return f"{how}, on {worst.instance or 'an instance without a name'}: lhs {worst.lhs:.6g} > rhs {worst.rhs:.6g}"
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
        nearest, tightest = next(iter(search.best.get((form, None), [])), None), search.tightest.get(form)
        score = -1.0 if nearest is None else nearest.score
        rounding = score > VISIBLE and found is None and self._row(form).verdict == "holds" and form in self.settled
        words = search.setting.words
        worst, most = ({} if e is None else {"name": words(e.instance), "data": e.instance.to_data()} for e in (nearest, tightest))
        return SearchResult(
            self.statement.id, form, self.statement.rule, search.seed, self.budget,
            search.tried - search.skipped,
            score if score > VISIBLE else min(score, 0.0),
            tightest.score if tightest and not self.no_ratio(form) else float("nan"), worst, most, found,
            0.0 if rounding else None,
        )  # fmt: skip
