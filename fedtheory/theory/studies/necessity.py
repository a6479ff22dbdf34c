"""What a bound needs: how far its constants may be tightened, which assumptions may go."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from fedtheory.errors import FedTheoryError
from fedtheory.theory.judge.mutants import MutantFate
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.rounds.forms import reduced
from fedtheory.theory.rounds.judging import judged
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.rational_clients import NotInFractions
from fedtheory.theory.rounds.undefined import SILENT
from fedtheory.theory.rounds.vector_proofs import BestConstant
from fedtheory.theory.studies.counterexamples import instance_of, prove, told
from fedtheory.theory.studies.search import Search, distinct
from fedtheory.theory.studies.worst_tables import try_worst_table

__all__ = [
    "AssumptionNeed", "ConstantNeed", "assumption_need", "constant_need", "first_proof",
    "just_beyond", "mutant_fates",
]  # fmt: skip

TENTH = Fraction(1, 10)
AT_RANDOM = 60  # instances on which a mutant is tried, besides the search's best
HORIZONS = 6  # numbers of rounds that are tried of an instance
BEYOND = (Fraction(1, 1000), Fraction(1, 100), TENTH)  # its best value, of it
MOST = 64.0  # times itself: a constant is not made larger than that


@dataclass(frozen=True)
class ConstantNeed:
    """The share by which one constant of a form may be tightened.

    Attributes
    ----------
    stated : its value in the statement
    violated_at : the tightest value at which a violation was found (proved in fractions where
    ``example`` is given), or None
    holds_at : the value nearest to it at which none was found
    on : the example in words
    """

    form: str
    constant: str
    stated: Fraction
    violated_at: Fraction | None
    holds_at: Fraction
    example: Witness | None = None
    on: str = ""

    @property
    def tight(self) -> bool:
        """True if nothing is left: a violation by less than a hundredth of tightening."""
        if self.violated_at is None:
            return False
        return (
            abs(self.violated_at - self.stated)
            <= Fraction(1, 100) * abs(self.stated or Fraction(1))
        )

    @property
    def words(self) -> str:
        """What was found, without the form."""
        proof = "" if self.example is None else f" (proved: {self.on})"
        what = f"{self.constant} = {_n(self.stated)}"
        no = f"no violation found at {self.constant} = {_n(self.holds_at)}"
        if self.violated_at is None:
            return f"{what}: {no}, and none at any tighter value that was tried"
        return f"{what}: violated at {self.constant} = {_n(self.violated_at)}{proof}; {no}"

    def __str__(self) -> str:
        return f"[{self.form}] {self.words}"


@dataclass(frozen=True)
class AssumptionNeed:
    """The outcome of a search without one assumption.

    Attributes
    ----------
    example : an instance that violates it without; where its ``without`` is '', it breaks no
        assumption and violates the form as it stands
    on : the example in words
    """

    form: str
    assumption: str
    example: Witness | None
    tried: int
    note: str = ""
    on: str = ""

    @property
    def needed(self) -> bool:
        """True if it is violated without, and not as it stands."""
        return self.example is not None and bool(self.example.without)

    @property
    def words(self) -> str:
        """What was found, without the form and the assumption."""
        if self.needed:
            return f"violated without it by {self.on}"
        return self.note or f"no violation found without it on {self.tried} instances that break it"

    def __str__(self) -> str:
        return f"[{self.form}] {self.assumption}: {'needed: ' * self.needed}{self.words}"


def _n(value: Fraction) -> str:
    return str(value) if len(str(value)) <= 9 else f"{float(value):.9g}"


def first_proof(search: Search, form: str, without: str = "") -> Witness | None:
    """The first of the search's violating instances that is one in fractions.

    Raises `NotInFractions` where there is no counterpart in fractions.
    """
    some = search.violating(form)[:6]
    proofs = (prove(search.setting, form, i, without=without) for i in some)
    return next((proof for proof in proofs if proof is not None), None)


def constant_need(
    search: Search, form: str, constant: str, budget: int, seed: int
) -> ConstantNeed | None:
    """Find how far a constant may be tightened: bisection, then searches at what it leaves."""
    setting, aim = search.setting, (form, constant)
    if aim not in search.best:
        return None
    stated, direction = Fraction(setting.of_statement.constants[constant]), search.directions[aim]

    def at(share: Fraction | float) -> Fraction:
        return stated + direction * Fraction(share) * (abs(stated) or 1)

    starts = [e.instance for e in search.best[aim]]
    refined = Search(setting, seed).run(budget, [aim], starts)
    search.learn(refined)
    known = [e.instance for (name, _), es in search.best.items() if name == form for e in es]
    known += [search.tightest[form].instance] if form in search.tightest else []
    near = [e.instance for e in refined.best[aim]]
    pool = distinct([*near, *_horizons(setting, near[:3]), *known])
    leeway, worst = _least(setting, form, constant, pool, at, direction)
    for again in range(4):  # what the leeway leaves must hold on new instances, too
        inside = _below(leeway)
        if inside == 0:
            break
        tried = Search(setting, seed + 1 + again, overrides={constant: at(inside)})
        tried.run(budget // 2, [aim], pool, lambda s: bool(s.violating(form)))
        found = tried.violating(form)
        search.learn(tried)
        if not found:
            break
        less, instance = _least(setting, form, constant, found, at, direction)
        leeway, worst, pool = (
            (less, instance, [*found, *pool]) if less < leeway else (leeway * 0.9, worst, pool)
        )
    inside = _below(leeway)
    need = ConstantNeed(form, constant, stated, None, at(inside))
    for outside in _above(leeway) if worst is not None else ():
        try:
            proof = prove(setting, form, worst, {constant: at(outside)})
        except NotInFractions:
            return replace(need, violated_at=at(outside))
        if proof is not None:
            return replace(need, violated_at=at(outside), example=proof, on=told(setting, proof))
    return need


def just_beyond(
    setting: MethodSetting, form: str, best: BestConstant, known: ConstantNeed
) -> ConstantNeed:
    """The need of a constant whose best value was found: losses that violate the form a little
    beyond it, unless what is known violates it as near, or nearer."""
    at, unit = known.violated_at, abs(best.proved or Fraction(1))
    for step, beyond in product(BEYOND, (1, -1)):
        value = best.proved + beyond * step * unit
        off = None if at is None or known.example is None else beyond * (at - best.proved)
        if off is not None and 0 < off <= step * unit:
            return known
        found = try_worst_table(setting, form, {best.constant: value})
        if found is not None and at is not None and beyond * (at - value) <= 0:
            return known
        if found is not None:
            need = replace(known, violated_at=value, holds_at=best.proved, on=told(setting, found))
            return replace(need, example=found)
    return known


def _least(
    setting: MethodSetting, form: str, constant: str, pool: list[Any],
    at: Callable[[float], Fraction], direction: int
) -> tuple[float, Any]:
    """The least share of tightening that is violated on an instance, and that one (or None)."""
    most = 1.0 if direction < 0 else MOST  # down to 0, or up to many times itself
    least, worst = most, None

    def clear(instance: Any, view: Any, value: Fraction) -> bool:
        """True if it is violated by more than rounding, or in fractions."""
        for make in (lambda: view, lambda: setting.view(instance, exact=True)):
            with suppress(FedTheoryError):
                other = make().other({constant: value})
                if judged(setting.of_statement, other, form).verdict == "violated":
                    return True
        return False

    for instance in pool:
        try:
            view = setting.view(instance, exact=False)
        except SILENT:  # at another horizon
            continue

        def violated(share: float, view: Any = view) -> bool:
            other = view.other({constant: at(share)})
            try:
                sides = reduced(other, setting.of_statement.on(other)[form])
            except SILENT:  # it is not claimed there
                return False
            return bool(
                (np.asarray(sides.rhs - sides.lhs) < -1e-12 * np.asarray(sides.scale)).any()
            )

        if not violated(least):
            continue
        low, high = 0.0, least
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (low, middle) if violated(middle) else (middle, high)
        if clear(instance, view, at(high * 1.001 + 0.001)):
            least, worst = high, instance
    return least, worst


def _horizons(setting: MethodSetting, instances: list[Any]) -> list[Any]:
    """Runs of some instances over other numbers of rounds that the statement is about."""
    if setting.scope != "run":
        return []
    first, last = setting.of_statement.rounds
    some = sorted({round(T) for T in np.linspace(first, last, HORIZONS)})
    every = (replace(i, rounds=T) for i in instances for T in some if T != i.rounds)
    return [i for i in every if setting.few(i)]


def _below(leeway: float) -> Fraction:
    """A short fraction below a leeway by a hundredth; 0 where there is none."""
    return Fraction(0) if leeway < 0.005 else Fraction(int(leeway * 990), 1000)


def _above(leeway: float) -> list[Fraction]:
    """Short fractions above a leeway, the nearest first."""
    return [Fraction(int((leeway + more) * 1000) + 1, 1000) for more in (0.0, 0.005, 0.02, 0.1)]


def assumption_need(
    known: Search, words: str, variant: MethodSetting, forms: list[str], budget: int, seed: int
) -> list[AssumptionNeed]:
    """Search for violations of the forms without one assumption.

    known : the search with it, at whose tightest instances this one begins
    """
    setting, search, out = known.setting, Search(variant, seed, without=known.setting), []
    starts = [e.instance for form in forms for e in known.best.get((form, None), ())[:3]]

    def enough(s: Any) -> bool:
        return all(len(s.violating(f)) > 3 for f in forms)

    try:
        search.run(budget, starts=starts, enough=enough)
        if not all(map(search.violating, forms)):  # once more, from elsewhere
            other = Search(variant, seed + 1, without=setting).run(budget, enough=enough)
            search.learn(other)
            search.finite.update(other.finite)
    except FedTheoryError as error:
        return [
            AssumptionNeed(f, words, None, 0, f"could not be tried: {str(error).splitlines()[0]}")
            for f in forms
        ]
    for form in forms:
        note, example = "", None
        try:
            example = first_proof(search, form, without=words)
            if example is None and not search.violating(form):
                table = try_worst_table(variant, form, without=words)
                breaks = table is not None and setting.as_own(instance_of(table)) is None
                example = table if breaks else None
            stands = None if example is None else setting.as_own(instance_of(example))
            if stands is not None:  # which may break no assumption at all
                own = prove(setting, form, stands)
                example = example if own is None else own
                note = note if own is None else f"violated as it stands, by {told(setting, own)}"
        except NotInFractions:
            found, of = search.violating(form), setting.of_statement
            if (
                found
                and judged(of, variant.view(found[0], exact=False), form).verdict == "violated"
            ):
                stands = setting.as_own(found[0])
                if (
                    stands is not None
                    and judged(of, setting.view(stands, exact=False), form).verdict == "violated"
                ):
                    note = f"violated as it stands, by {setting.words(stands)} (in floats)"
                else:
                    note = f"needed: violated without it by {variant.words(found[0])} (in floats)"
        judged_on, tried = search.finite[form], search.tried - search.skipped
        if not tried:
            note = f"could not be tried: {search.refused}"
        elif not judged_on and example is None and not note:
            why = search.silent.get(form, "its sides are infinite, or both 0")
            why = why.split(f"{setting.of_statement.id}: ")[-1]
            note = f"unknown: no instance that breaks it could be judged (of the last one: {why})"
        on = "" if example is None else told(setting, example)
        out.append(AssumptionNeed(form, words, example, judged_on, note, on))
    return out


def mutant_fates(search: Search, form: str, needs: list[ConstantNeed]) -> list[MutantFate]:
    """The author's mutants, and every constant of the form a tenth tighter; ``needs`` say at which
    values of a constant no violation was found."""
    setting, statement, out = search.setting, search.setting.of_statement, []
    pool = distinct(e.instance for (name, _), es in search.best.items() if name == form for e in es)
    known = {
        n.constant: instance_of(n.example) for n in needs
        if n.form == form and n.example is not None
    }
    pool = [*known.values(), *pool]
    for (name, constant), elites in search.best.items():
        if name != form or constant is None:
            continue
        stated = statement.constants[constant]
        moved = {constant: stated + search.directions[name, constant] * TENTH * (abs(stated) or 1)}
        words = f"{constant} = {_n(Fraction(moved[constant]))} instead of {_n(Fraction(stated))}"
        first = [known[constant]] if constant in known else []
        fate = _fate(
            setting, form, words, [*first, *(e.instance for e in elites), *pool], moved, None
        )
        if not fate.rejected and (found := try_worst_table(setting, form, moved)) is not None:
            fate = MutantFate(form, words, True, told(setting, found), example=found)
        holds = [n.holds_at for n in needs if (n.form, n.constant) == (form, constant)]
        direction = search.directions[name, constant]
        out.append(
            replace(fate, searched=any(direction * (v - moved[constant]) >= 0 for v in holds))
        )
    for i, mutant in enumerate(statement.forms[form].mutants):
        others = [e.instance for es in search.best.values() for e in es]
        drawn = [setting.random_instance(search.rng) for _ in range(AT_RANDOM)]
        out.append(
            _fate(
                setting, form, mutant.name, drawn + pool + others, None,
                lambda c, i=i: c.mutants[i].sides
            )
        )
    return out


def _fate(
    setting: MethodSetting, form: str, words: str, pool: list[Any], moved: dict[str, Any] | None,
    pick: Any
) -> MutantFate:
    for instance in pool:
        try:
            view = setting.view(instance, exact=False).other(moved)
            if judged(setting.of_statement, view, form, pick=pick).verdict != "violated":
                continue
            proof = prove(setting, form, instance, moved, pick=pick, budget=120)
        except NotInFractions:
            return MutantFate(form, words, True)
        except SILENT:  # no minimiser or no fixed point there
            continue
        if proof is not None:
            return MutantFate(form, words, True, told(setting, proof), example=proof)
    return MutantFate(form, words, False)
