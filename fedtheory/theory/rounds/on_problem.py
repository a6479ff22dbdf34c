"""An authored statement on a problem of the package, with the statement's own method and local work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.randomness import Stream
from fedtheory.steps import unkept
from fedtheory.theory.judge.case import Case
from fedtheory.theory.judge.check import Check
from fedtheory.theory.judge.registry import get, paper_of, setting_of
from fedtheory.theory.judge.sequential import FIRST, in_looks
from fedtheory.theory.judge.sequential import looks as each_look
from fedtheory.theory.judge.verify import Options as CaseOptions
from fedtheory.theory.judge.verify import verify as judged_by_setting
from fedtheory.theory.rounds.declare import only_keywords
from fedtheory.theory.rounds.judging import Drawn, check
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.oracles import MAX_PATHS
from fedtheory.theory.rounds.run_matches_claim import as_said

__all__ = ["on_case", "verify"]

_WORST_FIRST = ("violated", "inconclusive", "not applicable", "holds")


class Options(CaseOptions, total=False):
    """Keywords of `verify` beside forms, as fields of `Case`."""

    at_once: bool


def verify(
    statement: Any,
    problem: Any,
    algorithm: Any = None,
    *,
    forms: Iterable[str] | None = None,
    **how: Unpack[Options],
) -> list[Check]:
    """One check a form of a statement on a problem of `fedtheory.problems`.

    A problem outside the declared class is 'not applicable', with the name of the property that is missing. So is a method that the
    statement is not about.

    Parameters
    ----------
    statement : of a `Paper`, by itself, or by its id as 'FILE.py::NAME'
    algorithm : the statement's method with numbers that it leaves open; None takes the limit of `upto`, and every one
        `among` several in turn: a form that fails of one of them fails, and holds if it does of all. The numbers shown are the first's
    forms : names, default all
    how : `Options`
        local_solver, `fedtheory.local.GradientSteps` with numbers that the statement leaves open, None as the algorithm;
        sampling, default the statement's own, or where it is the class `Uniform`, all clients;
        seed; scenarios, the most runs that Monte Carlo takes where cohorts cannot be enumerated, default 400;
        x0, (d,), default starts that the seed draws;
        rounds, default of a run the most declared of which all sequences of cohorts can be enumerated, if that are three or more,
        else a number that the seed draws;
        confidence of the verdict, several numbers share its error probability;
        mode: 'exact' and 'monte-carlo' enumerate the cohorts of a run, or draw them, 'auto' enumerates where they are few;
        at_once: all scenarios in one look, and not in looks of which the first that decides is the last

    Raises
    ------
    UnknownName
        No such statement, form, or keyword.
    InvalidInput
        A statement that is about no problem; more cohorts than can be enumerated; what the author's function raises, with
        file and line.
    """
    only_keywords(how, Options.__annotations__, "verify")
    chosen, authored = get(statement), statement
    if not hasattr(statement, "variants"):
        authored = getattr(paper_of(chosen), "authored", {}).get(chosen.id.partition("/")[2])
    if authored is None or authored.of_world:
        if (reason := setting_of(chosen).refusal(chosen)) is not None:
            raise InvalidInput(f"{chosen.id}: {reason}")
        return [*judged_by_setting(chosen, problem, algorithm, forms=forms, **how)]  # type: ignore[misc]
    return on_case(authored, Case(problem, algorithm, **{"scenarios": 400, **how}), forms)  # type: ignore[arg-type]


def _enumerable(setting: MethodSetting, count: int) -> int | None:
    """The most rounds of so many cohorts each of which all sequences can be enumerated, if that are
    three, or as many as are declared."""
    least, most = setting.usual_rounds
    found = max((t for t in range(least, most + 1) if count**t <= MAX_PATHS), default=0)
    return found if found >= min(3, most) else None


def on_case(statement: Any, case: Case, forms: Iterable[str] | None = None) -> list[Check]:
    """`verify` a statement on a user's case."""
    problem, algorithm, sampling, rounds = case.problem, case.algorithm, case.sampling, case.rounds
    chosen = list(statement.forms) if forms is None else [statement.form(f).name for f in forms]
    setting, rng = MethodSetting.of(statement), Stream(case.seed).generator(f"authoring problem {statement.id}")
    if sampling is None and setting.sampling is Uniform:
        sampling = Full()
    reason = setting.not_about(problem, sampling)
    if reason is None and rounds is None and setting.scope == "run" and case.mode != "monte-carlo":
        rounds = _enumerable(setting, (sampling or setting.sampling).count(problem.num_clients))
    if reason is None and (algorithm is not None or case.local_solver is not None or case.given):
        most = setting.usual_rounds[1] if rounds is None and setting.scope == "run" else rounds
        try:
            facts = setting.facts(setting.world(problem), sampling or setting.sampling, most or 0)
            setting = as_said(setting, facts, algorithm, case.local_solver, case.given)
        except InvalidInput as error:
            reason = str(error)
    if reason is not None:
        return list(statement.unjudged(chosen, reason))
    begun = rng.bit_generator.state

    kept = dict[str, Drawn]()

    def judged(choice: Any, names: Sequence[str], so_far: int, each: float) -> list[Check]:
        drawn = kept.setdefault(str(choice), Drawn(statement))
        while drawn.count < so_far:
            rng.bit_generator.state = begun  # every look is at the same start and the same number of rounds
            done, most = drawn.count, setting.usual_rounds[1] if rounds is None else rounds
            part = next(n for n in sizes if n > done)  # of an earlier look, where that was kept

            def told(t: int, count: int, done: int = done, most: int = most) -> None:
                if case.on_progress is not None:
                    case.on_progress(done * most + t * count, so_far * most, scenarios * most)

            try:
                how = sampling, part, case.x0, rounds, case.seed, choice, case.mode
                with nullcontext() if part == so_far else unkept():
                    view = setting.problem_views(problem, rng, *how, first=done, on_round=told)
                if not view.sampled:
                    return check(statement, view, names, problem.name, each)
                drawn.add(view, names)
            except NotCertified as error:
                return list(statement.unjudged(names, error))
        return [drawn.check(name, problem.name, each, scenarios) for name in names]

    choices, scenarios = setting.choices(), case.scenarios
    confidence = 1 - (1 - case.confidence) / len(choices) if len(choices) > 1 else case.confidence
    how = scenarios, confidence, scenarios if case.at_once else FIRST
    sizes = [n for n, _ in each_look(*how)]
    found = in_looks(partial(judged, choices[0]), chosen, *how, case.on_stage)
    for choice in choices[1:]:  # a form that fails of one of several numbers fails
        where = {"choice": {k: str(v) for k, v in choice.items() if v != choices[0][k]}}
        other = in_looks(partial(judged, choice), chosen, *how)
        pairs = zip(found, [replace(c, where=c.where | where) for c in other], strict=True)
        found = [min(pair, key=lambda c: _WORST_FIRST.index(c.verdict)) for pair in pairs]
    return found
