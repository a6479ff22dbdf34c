"""From what a search found to verdicts: no form 'holds' while something that was found against it is undecided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.randomness import Stream
from fedtheory.theory.judge.check import Check
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.rounds.declare import Among
from fedtheory.theory.rounds.forms import reduced
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.judging import check, judged
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.rational_clients import NotInFractions
from fedtheory.theory.rounds.undefined import SILENT
from fedtheory.theory.studies.counterexamples import instance_of, prove, smaller
from fedtheory.theory.studies.findings import StatementStudy, Tightness
from fedtheory.theory.studies.necessity import first_proof
from fedtheory.theory.studies.search import VISIBLE, Search, distinct, moves

__all__ = ["agree", "proven", "settle", "tightness"]

SUSPECTS = 6
DRAWN = 12  # instances on which it is seen whether both sides are 0


def settle(out: StatementStudy, form: str, refuting: Iterable[Draw] = ()) -> None:
    """Prove what was found against a form, or judge it again: in fractions where it can be, else in floats.

    refuting : instances on which the form was violated before the search
    """
    setting, search = out.setting, out.search
    try:
        found = first_proof(search, form)
    except NotInFractions:
        found = None
    violated = [c.instance for c in out.checks if c.form == form and c.verdict == "violated"]
    for instance in () if found is not None else [*list(refuting)[:SUSPECTS], *_suspects(search, form)]:
        try:
            found = prove(setting, form, instance)
        except (InvalidInput, MissingCapability):
            found = None
        if found is not None:
            break
        words = setting.words(instance)
        if (form, words) not in out.judged_again and not any(name.endswith(words) for name in violated):
            out.checks.append(_judged_again(setting, form, instance))
        out.judged_again.add((form, words))
    out.settled.add(form)
    if found is not None:
        found = _least_drawn(search, form, found)
        out.counterexamples[form] = found
        out.checks.append(proven(setting, found))


def proven(setting: MethodSetting, found: Witness) -> Check:
    """Judge a counterexample again, from its data alone."""
    instance = instance_of(found)
    view = setting.view(instance, exact=True)
    return judged(setting.of_statement, view, found.form, setting.words(instance))


def _least_drawn(search: Search, form: str, found: Witness) -> Witness:
    """A counterexample with the smallest numbers, of those drawn `among` some, with which the search met one."""
    setting = search.setting
    families = {name: v.choices for name, v in setting.open_numbers().items() if isinstance(v, Among)}
    for name, choices in families.items():
        drawn = instance_of(found).drawn
        for value in smaller(choices, drawn[name]):
            elite = search.chosen.get((form, name, value))
            proof = None if elite is None else prove(setting, form, elite.instance)
            if proof is not None and all(abs(instance_of(proof).drawn[k]) <= abs(drawn[k]) for k in families):
                found = proof
                break
    return found


def _suspects(search: Search, form: str) -> list[Draw]:
    """List the instances that seemed to violate a form, the clearest first."""
    tightest = search.tightest.get(form)
    some = [e.instance for e in search.best.get((form, None), [])[:1] if e.score > VISIBLE] + search.violating(form)[:SUSPECTS]
    some += [tightest.instance] if tightest is not None and tightest.score > 1 + VISIBLE else []
    return distinct(some)


def _judged_again(setting: MethodSetting, form: str, instance: Draw) -> Check:
    """One form on an instance on which it seemed violated; fractions have the last word."""
    statement, name = setting.of_statement, setting.words(instance)
    reason = "the sides do not exist there"
    for exact in (True, False):
        try:
            found = check(statement, setting.view(instance, exact=exact), [form], name)
        except (InvalidInput, MissingCapability):  # too many sequences of cohorts; a method that is not in fractions
            continue
        if found and found[0].verdict != "not applicable":
            return found[0]
        reason = found[0].reason if found else reason
    why = f"the search found it violated on {name}, which could not be judged again: {reason}"
    [told] = statement.unjudged([form], why, name, "inconclusive")
    return cast(Check, told)


def tightness(out: StatementStudy) -> None:
    """Find where each form is tightest; a form that holds has at most 1, as more is rounding."""
    setting, search = out.setting, out.search
    out.tightness, out.horizons = [], {}
    holding = {r.form for r in out.rows if r.verdict == "holds"}
    if setting.scope == "run":
        for (form, rounds), elite in search.horizons.items():
            score = min(elite.score, 1.0) if form in holding else elite.score
            out.horizons.setdefault(form, {})[rounds] = replace(elite, score=score)
    for form, elite in search.tightest.items():
        sharp = [e.instance for (name, c), es in search.best.items() if name == form and c for e in es if e.score > -1e-9]
        proved = [instance_of(n.example) for n in out.constants if n.form == form and n.example is not None]
        candidates = sorted([elite.instance, *sharp, *proved], key=lambda i: len(str(i)))
        where = next((i for i in candidates if _attained(setting, form, i)), None)
        ratio = elite.score
        if ratio > 1 and form in holding:
            again = _judged_again(setting, form, elite.instance).tightness
            ratio = min(again, 1.0) if np.isfinite(again) else 1.0
        ratio = float("nan") if out.no_ratio(form) else ratio
        out.tightness.append(Tightness(form, ratio, setting.words(where or elite.instance), where is not None))


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


def agree(out: StatementStudy) -> None:
    """Let no row say 'holds' of a form against which something was found.

    Of forms that hold it is noted, too, where both sides were always 0.
    """
    for row in out.rows:
        if row.verdict != "holds":
            continue
        found = out.search_result(row.form)
        ratio = max((t.ratio for t in out.tightness if t.form == row.form), default=0.0)
        if not found.empty or ratio > 1 + VISIBLE:
            name = found.best_instance.get("name", "") if not found.empty else found.tightest_instance.get("name", "")
            why = f"the search found it violated on {name}, and it was not decided"
            out.checks += out.statement.unjudged([row.form], why, name, "inconclusive")
        elif not out.search.finite[row.form] and _both_zero(out.setting, row.form):
            out.notes[row.form] = "both sides are 0 wherever it was judged"


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
