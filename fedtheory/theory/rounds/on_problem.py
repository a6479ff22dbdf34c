"""A statement about a method on a problem of the package, with its own method and local work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.randomness import Stream
from fedtheory.store.resumable import cached_step, step_key
from fedtheory.theory.judge.case import Case
from fedtheory.theory.judge.check import Check
from fedtheory.theory.judge.sequential import FIRST, in_looks
from fedtheory.theory.judge.sequential import looks as each_look
from fedtheory.theory.rounds.judging import Drawn, check
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.oracles import MAX_PATHS
from fedtheory.theory.rounds.run_matches_claim import as_said

__all__ = ["on_case"]

_WORST_FIRST = ("violated", "inconclusive", "not applicable", "holds")


def _enumerable(setting: MethodSetting, count: int) -> int | None:
    """The most rounds of so many cohorts each of which all sequences can be enumerated, if that are
    three, or as many as are declared."""
    least, most = setting.usual_rounds
    found = max((t for t in range(least, most + 1) if count**t <= MAX_PATHS), default=0)
    return found if found >= min(3, most) else None


def on_case(statement: Any, case: Case, forms: Sequence[str]) -> list[Check]:
    """Give one check a form of a statement on a user's case.

    Without a number of rounds a run has the most declared of which all sequences of cohorts can be
    enumerated, if that are three or more, else a number that the seed draws.
    """
    problem, algorithm, sampling, rounds = case.problem, case.algorithm, case.sampling, case.rounds
    setting, rng = (
        MethodSetting.of(statement),
        Stream(case.seed).generator(f"authoring problem {statement.id}")
    )
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
        return list(statement.unjudged(forms, reason))
    x0 = case.x0 if case.x0_given else setting.default_starts(problem, rng)
    begun = rng.bit_generator.state
    kept = dict[str, Drawn]()

    def viewed(choice: Any, done: int, so_far: int) -> Any:
        """The view of the scenarios after those that are done, or of all cohorts."""
        rng.bit_generator.state = begun  # every look is at the same start and number of rounds
        most = setting.usual_rounds[1] if rounds is None else rounds
        part = next(n for n in sizes if n > done)  # of an earlier look, where that was kept

        def told(t: int, count: int) -> None:
            if case.on_progress is not None:
                case.on_progress(done * most + t * count, so_far * most, scenarios * most)

        how = sampling, part, x0, rounds, case.seed, choice, case.mode
        return setting.problem_views(problem, rng, *how, first=done, on_round=told)

    def judged(choice: Any, names: Sequence[str], so_far: int, each: float) -> list[Check]:
        drawn = kept.setdefault(str(choice), Drawn(statement))

        def part() -> Any:
            view = viewed(choice, drawn.count, so_far)
            return drawn.part(view, names) if view.sampled else view

        try:
            while drawn.count < so_far:
                last = drawn.count
                name = partial(step_key, "scenarios", *about, choice, last)
                made = cached_step(name, part, shared=True)
                if not isinstance(made, dict):  # all cohorts, which no file holds
                    return check(statement, made, names, problem.name, each)
                drawn.add(made, names)
            if drawn.view is None:  # an earlier process has made every part
                drawn.part(viewed(choice, last, so_far), names)
        except NotCertified as error:
            return list(statement.unjudged(names, error))
        return [drawn.check(name, problem.name, each, scenarios) for name in names]

    choices, scenarios = setting.choices(), case.scenarios
    confidence = 1 - (1 - case.confidence) / len(choices) if len(choices) > 1 else case.confidence
    how = scenarios, confidence, case.least or FIRST
    sizes = [n for n, _ in each_look(*how)]
    about = (
        statement.id, list(forms), problem, algorithm, sampling, case.local_solver, case.given,
        x0, rounds, case.seed, case.mode, scenarios, confidence,
    )  # fmt: skip
    found = in_looks(partial(judged, choices[0]), forms, *how, case.on_stage)
    for choice in choices[1:]:  # a form that fails of one of several numbers fails
        where = {"choice": {k: str(v) for k, v in choice.items() if v != choices[0][k]}}
        other = in_looks(partial(judged, choice), forms, *how)
        pairs = zip(found, [replace(c, where=c.where | where) for c in other], strict=True)
        found = [min(pair, key=lambda c: _WORST_FIRST.index(c.verdict)) for pair in pairs]
    return found
