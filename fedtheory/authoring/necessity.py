"""What a bound needs: how far each of its constants may be tightened, which assumption may be dropped, and which mutants are rejected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fedtheory.authoring.counterexamples import Counterexample, prove
from fedtheory.authoring.search import Search, scores
from fedtheory.authoring.setting import MethodSetting, judged
from fedtheory.authoring.slots import NotInFractions
from fedtheory.errors import FedTheoryError

__all__ = ["AssumptionNeed", "ConstantNeed", "MutantFate", "assumption_need", "constant_need", "first_proof", "mutant_fates"]

TENTH = Fraction(1, 10)
NOISE = 1e-6  # relative: smaller leeways are rounding


@dataclass(frozen=True)
class ConstantNeed:
    """How far one constant of a form may be tightened.

    Attributes
    ----------
    stated : its value in the statement
    violated_at : the tightest value at which a violation was found (proved in fractions where ``example`` is given), or None
    holds_at : the value nearest to it at which none was found
    """

    form: str
    constant: str
    stated: Fraction
    violated_at: Fraction | None
    holds_at: Fraction
    example: Counterexample | None = None

    @property
    def tight(self) -> bool:
        """Whether nothing is left: a violation by less than a hundredth of tightening."""
        return self.violated_at is not None and abs(self.violated_at - self.stated) <= Fraction(1, 100) * abs(self.stated or 1)

    def __str__(self) -> str:
        proof = "" if self.example is None else f" (proved: {self.example.instance})"
        no = f"no violation found at {self.constant} = {_n(self.holds_at)}"
        if self.violated_at is None:
            return f"[{self.form}] {self.constant} = {_n(self.stated)}: {no}, and none at any tighter value that was tried"
        return f"[{self.form}] {self.constant} = {_n(self.stated)}: violated at {self.constant} = {_n(self.violated_at)}{proof}; {no}"


@dataclass(frozen=True)
class AssumptionNeed:
    """What became of a form without one assumption."""

    form: str
    assumption: str
    example: Counterexample | None
    tried: int
    note: str = ""

    @property
    def needed(self) -> bool:
        """Whether it is violated without."""
        return self.example is not None

    def __str__(self) -> str:
        if self.example is not None:
            return f"[{self.form}] {self.assumption}: needed: violated without it by {self.example.instance}"
        return f"[{self.form}] {self.assumption}: {self.note or f'no violation found without it ({self.tried} instances)'}"


@dataclass(frozen=True)
class MutantFate:
    """Whether a deliberately wrong variant of a form was rejected."""

    form: str
    mutant: str
    rejected: bool
    example: Counterexample | None = None

    def __str__(self) -> str:
        by = f" by {self.example.instance}" if self.example is not None else ""
        return f"[{self.form}] {self.mutant}: {'rejected' + by if self.rejected else 'NOT rejected: the study is too short, or the bound has room'}"


def _n(value: Fraction) -> str:
    return str(value) if len(str(value)) <= 9 else f"{float(value):.6g}"


def first_proof(
    setting: MethodSetting, form: str, search: Search, overrides: dict[str, Any] | None = None, without: str = "", pick: Any = None
) -> Counterexample | None:
    """The first of the search's violating instances that is one in fractions.

    Raises
    ------
    NotInFractions
        There is no counterpart in fractions.
    """
    for instance in search.violating(form)[:6]:
        proof = prove(setting, form, instance, overrides, without, pick)
        if proof is not None:
            return proof
    return None


def constant_need(search: Search, form: str, constant: str, budget: int, seed: int) -> ConstantNeed | None:
    """How far a constant may be tightened: the leeway of the worst instance, then a search at what it leaves."""
    setting, statement = search.setting, search.setting.of_statement
    aim = (form, constant)
    if aim not in search.best:
        return None
    stated, direction = Fraction(statement.constants[constant]), search.directions[constant]
    starts = [e.instance for e in search.best[aim]]
    refined = Search(setting, seed, directions=dict(search.directions)).run(budget, [aim], starts)
    pool, leeway = refined.best[aim], max(-refined.best[aim][0].score, 0.0)

    def at(share: Fraction) -> Fraction:
        return stated + direction * share * (abs(stated) or 1)

    for again in range(3):  # what the leeway leaves must hold on new instances, too
        inside = _below(leeway)
        if inside == 0:
            break
        tightened = {constant: at(inside)}
        tried = Search(setting, seed + 1 + again, overrides=tightened)
        tried.run(budget // 2, [aim], [e.instance for e in pool], lambda s: bool(s.violating(form)))
        found = tried.violating(form)
        if not found:
            break
        better = scores(statement, setting.view(found[0], exact=False)).leeway.get(aim, (leeway, direction))[0]
        leeway = min(better, leeway * 0.98) if better < leeway else leeway * 0.98
        pool = tried.best[aim]
    inside = _below(leeway)
    for outside in _above(leeway):
        for elite in pool[:4]:
            try:
                proof = prove(setting, form, elite.instance, {constant: at(outside)})
            except NotInFractions:
                return ConstantNeed(form, constant, stated, at(outside), at(inside))
            if proof is not None:
                return ConstantNeed(form, constant, stated, at(outside), at(inside), proof)
    return ConstantNeed(form, constant, stated, None, at(inside))


def _below(leeway: float) -> Fraction:
    """A short fraction below a leeway by a hundredth; 0 where there is none."""
    if leeway < 0.005:
        return Fraction(0)
    return min(Fraction(leeway * 0.99).limit_denominator(q) for q in (1000, 10_000)) if leeway < 50 else Fraction(50)


def _above(leeway: float) -> list[Fraction]:
    """Short fractions above a leeway, the nearest first."""
    return [Fraction(round((leeway + more) * 1000) + 1, 1000) for more in (0.0, 0.005, 0.02, 0.1)]


def assumption_need(
    setting: MethodSetting, words: str, variant: MethodSetting, forms: list[str], budget: int, seed: int
) -> list[AssumptionNeed]:
    """Search for violations of the forms without one assumption."""
    search, out = Search(variant, seed), []
    try:
        search.run(budget, enough=lambda s: all(len(s.violating(f)) > 3 for f in forms))
    except FedTheoryError as error:
        return [AssumptionNeed(f, words, None, 0, f"could not be tried: {str(error).splitlines()[0]}") for f in forms]
    for form in forms:
        note, example = "", None
        try:
            example = first_proof(variant, form, search, without=words)
        except NotInFractions:
            found = search.violating(form)
            if found and judged(setting.of_statement, variant.view(found[0], exact=False), form).verdict == "violated":
                note = f"needed: violated without it by {found[0]} (in floats)"
        if search.tried == search.skipped:
            note = f"could not be tried: {search.refused}"
        out.append(AssumptionNeed(form, words, example, search.tried - search.skipped, note))
    return out


def mutant_fates(search: Search, form: str, seed: int, on_instance: Callable[[], None] = lambda: None) -> list[MutantFate]:
    """The author's mutants, and every constant of the form a tenth tighter."""
    setting, statement, out = search.setting, search.setting.of_statement, []
    pool = list({id(e.instance): e.instance for (name, _), es in search.best.items() if name == form for e in es}.values())
    for (name, constant), elites in search.best.items():
        if name != form or constant is None:
            continue
        stated = statement.constants[constant]
        moved = {constant: stated + search.directions[constant] * TENTH * (abs(stated) or 1)}
        words = f"{constant} = {_n(Fraction(moved[constant]))} instead of {_n(Fraction(stated))}"
        out.append(_fate(setting, form, words, [e.instance for e in elites] + pool, moved, None))
    for i, mutant in enumerate(statement.forms[form].mutants):
        rng_pool = pool + [e.instance for es in search.best.values() for e in es]
        out.append(_fate(setting, form, mutant.name, rng_pool, None, lambda c, i=i: c.mutants[i].sides))
    return out


def _fate(setting: MethodSetting, form: str, words: str, pool: list[Any], moved: dict[str, Any] | None, pick: Any) -> MutantFate:
    for instance in pool:
        try:
            view = setting.view(instance, exact=False).other(moved)
            if judged(setting.of_statement, view, form, pick=pick).verdict != "violated":
                continue
            proof = prove(setting, form, instance, moved, pick=pick, budget=60)
        except NotInFractions:
            return MutantFate(form, words, True)
        if proof is not None:
            return MutantFate(form, words, True, proof)
    return MutantFate(form, words, False)
