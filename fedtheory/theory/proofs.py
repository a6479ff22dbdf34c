"""Proofs of theorems about runs: a chain of steps in a file, and the run along which
`fedtheory proof` walks a file's or a paper's.

    paper.proof(rate, form="lecture notes", steps=[
        step(one_round, weight=lambda q: 1 / q.T, why="one step, against x*"),
        step(monotone, weight=lambda q: (q.t[1:, 0] - 1) / q.T,
             why="F does not grow, so that the last iterate is the best"),
        step("last distance", lambda q: le(0 * q.gap[-1], q.distance_sq[-1]),
             weight=lambda q: q.beta / (2 * q.T)),
    ])

A weight says what one unit of slack of a step, in one round, adds to the slack of the theorem. Then
the slack of the theorem is the sum of the steps' slacks, each with its weight, and a walk checks
that. Where no step has one, each is judged by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.inputs import require
from fedtheory.participation.cohorts import Full, Sampling, Uniform
from fedtheory.randomness import Stream
from fedtheory.theory.judge import proof as core
from fedtheory.theory.judge.case import Case, named
from fedtheory.theory.judge.proof_trace import compared, proofs_of, sides_of
from fedtheory.theory.judge.registry import get, paper_of
from fedtheory.theory.judge.statement import Sides
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.rounds.forms import Claimed, in_function, reduced
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.judging import with_noise
from fedtheory.theory.rounds.measured import RoundQuantities, RunQuantities
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.oracles import (
    MAX_NUMBERS,
    MAX_PATHS,
    Path,
    each,
    enumerable,
    probabilities,
    repeated,
)
from fedtheory.theory.rounds.own_run import Unseen
from fedtheory.theory.rounds.run_matches_claim import as_said
from fedtheory.theory.rounds.undefined import SILENT

__all__ = ["core_proof", "course", "replayed", "step"]

TRIED = 400  # instances, for one on which the form fails
SCENARIOS = 200  # the most that are walked
FEW = 40  # scenarios below which cohorts are not enumerated in every round


def step(
    what: Any, at_end: Callable[[Any], Sides] | None = None, *,
    in_rounds: Callable[[Any], Sides] | None = None,
    form: str = "repaired", weight: Any = None, why: str = "", formula: str = "", part_of: str = "",
) -> core.Step:  # fmt: skip
    """One step of `Paper.proof`.

    Parameters
    ----------
    what : a statement of the paper with over='round', or its name, which is judged in every round;
        with ``at_end`` or ``in_rounds`` a label
    at_end : callable(q) -> ``le(...)``, q the quantities of the run: a step that is taken once,
        when the rounds are added up
    in_rounds : callable(q) -> ``le(...)`` of (T, S): a line of every round that is no statement,
        for all rounds at once
    form : of the statement
    weight : what one unit of its slack adds to the slack of the theorem: a number, or callable(q)
        -> a number, or one for each round (T,); None: it is judged, and nothing is said of what the
        theorem loses in it
    why : one sentence
    formula : LaTeX, of a step with ``at_end`` or ``in_rounds``
    part_of : the lemma that it is a line of, under which its losses are added up

    Raises
    ------
    InvalidInput
        A statement with ``at_end`` or ``in_rounds``, or both of these; neither a statement nor a
        name.
    """
    own = at_end or in_rounds
    if own is not None and not isinstance(what, str):
        raise InvalidInput(
            f"step {what!r}: a step at the end, or in rounds, has a label; without them it is a "
            "statement, or its name"
        )
    if at_end is not None and in_rounds is not None:
        raise InvalidInput(f"step {what!r}: at_end and in_rounds are two steps: give each its own")
    if not isinstance(what, str) and not hasattr(what, "over"):
        raise InvalidInput(f"step {what!r}: give a statement with over='round', or its name")
    label = getattr(what, "name", what)
    weigh = None if weight is None else partial(_of_run, weight, label)
    if own is None:
        return core.Step(label, why, getattr(what, "id", what), form, weigh, part_of=part_of)
    over = "end" if in_rounds is None else "rounds"
    return core.Step(
        label, why, weight=weigh, sides=partial(_sides, own, over, label), over=over,
        formula=formula, part_of=part_of
    )


def core_proof(theorem: Any, form: str, steps: Sequence[core.Step], note: str) -> core.Proof:
    """As the core knows proofs.

    Raises
    ------
    InvalidInput
        A theorem that is not about a run. No steps, or others than `step` makes. A step that is
        not about a round, or that alone has no weight.
    UnknownName
        No such form, or no such statement of the theorem's paper.
    """
    where = f"{theorem.place}: proof"
    if theorem.over != "run":
        raise InvalidInput(
            f"{where}: {theorem.id} is about a {theorem.over}: a proof is walked for a "
            "theorem with over='run'"
        )
    if not steps:
        raise InvalidInput(f"{where}: no steps: give a list of step(...)")
    made = []
    for one in steps:
        if not isinstance(one, core.Step):
            raise InvalidInput(f"{where}: {one!r} is no step: write step(statement, weight=...)")
        made.append(_judged(one, theorem.paper[one.statement], where) if one.statement else one)
    bare = next((one for one in made if one.weight is None), None)
    if bare is not None and any(one.weight is not None for one in made):
        raise InvalidInput(
            f"{where}: step {bare.label!r} has no weight and others have: give it one, 0 "
            "where its slack does not enter the sum, or leave out all"
        )
    theorem.form(form)
    return core.Proof(
        theorem.id, form, tuple(made), course, replayed, note=note,
        witness=lambda: _instance(theorem, form)
    )


def _judged(one: core.Step, statement: Any, where: str) -> core.Step:
    """A step with the statement that it names."""
    if statement.over != "round":
        raise InvalidInput(
            f"{where}: {statement!r} is not judged in a round: give a statement with over='round'"
        )
    statement.form(one.form)

    def sides(view: RoundQuantities) -> Sides:
        # a view of its own: statements may declare constants of one name
        return with_noise(statement, view.other(), one.form)

    return replace(
        one, label=statement.name, words=one.words or statement.title, statement=statement.id,
        sides=sides
    )


def _sides(own: Callable[[Any], Sides], over: str, label: str, run: RunQuantities) -> Sides:
    """What an author's function of the run gives as the sides of a step."""
    sides = _of_run(own, label, run)
    require(
        isinstance(sides, Sides), f"step {label!r}", sides,
        "its function returns le(lhs, rhs) or eq(lhs, rhs)"
    )
    shape, T = np.shape(sides.lhs), int(run.T)
    fits = over == "end" or shape[:1] == (T,)
    require(
        fits, f"step {label!r}: shape", shape, f"its first axis is the {T} rounds, as in q.gap[1:]"
    )
    return reduced(run, Claimed(label, sides))


def _of_run(given: Any, label: str, run: RunQuantities) -> Any:
    """What an author's function makes of the whole run, or a number in its place."""
    if not callable(given):
        return given
    with in_function(given, f"step {label!r}"):
        return given(run)


# --- runs -----------------------------------------------------------------------------------------
def _setting(proof: core.Proof, rule: str) -> MethodSetting:
    """The setting of the theorem, under a rule where it has several."""
    statement: Any = paper_of(proof.theorem)[proof.theorem]  # type: ignore[index]
    return MethodSetting.of(statement.variants.get(rule, statement))


def replayed(witness: Witness, proof: core.Proof) -> core.Course:
    """The run of a witness in fractions, over all sequences of cohorts.

    Raises
    ------
    InvalidInput
        A witness that is about no run, or about none that the theorem is about.
    """
    setting = _setting(proof, witness.rule)
    paper = setting.of_statement.paper
    about = f"one {paper[witness.kind].over}" if witness.kind in paper.authored else witness.kind
    if about != "one run":
        raise InvalidInput(
            f"{witness.name} is about {about}: a proof is walked along a run whose "
            "clients are written out"
        )
    instance = setting.read(witness.data)
    run = setting.view(instance, most=MAX_PATHS)
    return _course(setting, run, setting.law(instance), f"{setting.words(instance)} (in fractions)")


def course(case: Case, proof: core.Proof) -> core.Course:
    """The run of a user's problem: over all sequences of cohorts where these are few, else along
    scenarios that are drawn.

    Of scenarios each round is looked at over all cohorts where that fits, else as it was drawn.

    Raises
    ------
    InvalidInput
        A problem, a method or cohorts that the theorem is not about; too many sequences of cohorts
        with ``mode='exact'``; scenarios for a form that they do not show.
    """
    problem, n, setting = (
        case.problem, case.problem.num_clients, _setting(proof, getattr(case.algorithm, "rule", ""))
    )
    form, name = get(proof.theorem).form(proof.form), f"{proof.theorem} [{proof.form}]"
    if reason := setting.not_about(problem, case.sampling):
        raise InvalidInput(f"{name} does not apply: {reason}")
    sampling = case.sampling or (Full() if setting.sampling is Uniform else setting.sampling)
    sampling.check(n)
    count, size, usual = sampling.count(n), n * problem.dim, setting.usual_rounds[1]
    longest = max((t for t in range(1, usual + 1) if enumerable(count, t, size)), default=1)
    T = case.rounds or (longest if case.mode == "exact" else usual)
    few = enumerable(count, T, size)
    if case.mode == "exact" and not few:
        raise InvalidInput(
            f"{T} rounds of {count} cohorts make {count**T} states: walk at most {longest} rounds, "
            "or take mode = 'monte-carlo'"
        )
    few = few and case.mode != "monte-carlo"
    if form.exact_only and not few:
        forms = dict.fromkeys(p.form for p in proofs_of(proof.theorem))
        others = [repr(f) for f in forms if not get(proof.theorem).form(f).exact_only]
        raise InvalidInput(
            f"{name} multiplies expectations, which scenarios do not show: walk at most "
            f"{longest} rounds (rounds = {longest}), or let "
            "everybody take part" + (", or walk " + " or ".join(others)) * bool(others)
        )
    setting = as_said(
        setting, setting.facts(setting.world(problem), sampling, T), case.algorithm,
        case.local_solver, case.given
    )
    states = MAX_NUMBERS // (count * size)
    scenarios = min(
        case.scenarios, SCENARIOS, states if states >= FEW else max(2, 4 * MAX_NUMBERS // size)
    )
    run = setting.problem_views(
        problem, Stream(case.seed).generator("proof"), sampling, scenarios, case.x0, T, case.seed,
        setting.first_choice, "exact" if few else "monte-carlo",
    )  # fmt: skip
    method = "" if case.algorithm is None else f", {named(case.algorithm)}"
    told = (
        f"{problem.name}: N = {n}, P = {getattr(sampling, 'size', n)}, d = "
        f"{problem.dim}, T = {T}{method}"
    )
    if few:
        return _course(
            setting, run, sampling, told + f", all {count**T:,} sequences of cohorts" * (count > 1)
        )
    told += (
        f", {len(run.path.states[0].x)} scenarios" + ", each round over "
        f"all {count} cohorts" * (states >= FEW and count > 1)
    )
    return _course(setting, run, sampling, told, states >= FEW)


def _course(
    setting: MethodSetting, run: Any, sampling: Sampling, name: str, over_all: bool = False
) -> core.Course:
    """The course of a run; of scenarios with each round ``over_all`` cohorts, or as it was
    drawn."""
    path, sampled, T = run.path, run.sampled, len(run.path.clients)
    law = sampling.enumerate(run.world.num_clients) if over_all or not sampled else None
    chance = np.ones(1) if law is None or sampled else probabilities(sampling, law, run.rational)
    if sampled:
        unseen: list[Any] = [Unseen()] * T
        run.path = Path(path.states, unseen)  # a proof is about all clients, in the cohort or not

    def rounds() -> Iterator[core.Round]:
        largest = None  # that every number was before, by which rounding errors go
        for t in range(1, T + 1):
            two = path.states[t - 1 : t + 1]
            before, after = (each(s, lambda v: v[:: path.alike[t]]) for s in two)  # noqa: B023
            largest = _larger(before if largest is None else largest, before)
            so_far = Path([largest, before, after], path.clients[t - 1 : t])
            view = RoundQuantities(run.world, run.facts, so_far, chance, run.method)
            if over_all:
                of_all = setting.round_from(
                    run.world, before._asdict(), sampling, setting.first_choice, T
                )
                # which all clients make of the same states
                view.judged, view._solved = False, of_all._solved
                yield core.Round(of_all, drawn=partial(_as_drawn, view))
            else:
                states = len(before.x) // len(chance)
                yield core.Round(
                    view, None if sampled else run.probability.reshape(states, -1).sum(axis=1)
                )

    ended = None if sampled else run.probability
    return core.Course(name, run.rule, T, rounds(), lambda: run, not sampled, over_all, ended)


def _as_drawn(view: RoundQuantities, step: core.Step, slack: Any) -> Any:
    """The slack of a step in the cohorts that were drawn, (S,)."""
    lhs, rhs = compared(sides_of(step, view), view)
    return np.ravel(rhs - lhs)


def _larger(largest: Any, state: Any) -> Any:
    """The larger sizes of the numbers of two states, of which the first has as many scenarios or
    fewer."""
    fields = zip(repeated(largest, len(state.x) // len(largest.x)), state, strict=True)
    return type(state)(*(
        None if v is None else np.maximum(abs(kept), abs(v)) for kept, v in fields
    ))


def _instance(theorem: Any, form: str) -> Witness:
    """Of random instances the one of fewest digits on which the form fails; else on which another
    form fails; else of several rounds with both sides above 0."""
    setting, rng = MethodSetting.of(theorem), Stream(0).generator(f"proof of {theorem.id}")
    drawn = [setting.random_instance(rng) for _ in range(TRIED)]
    drawn.sort(key=lambda instance: sum(letter.isdigit() for letter in str(instance)))
    seen = [_interest(theorem, setting, form, d, False) for d in drawn]
    order = sorted(range(len(drawn)), key=seen.__getitem__)
    as_seen = (i for i in order if _interest(theorem, setting, form, drawn[i], True) <= seen[i])
    data = drawn[next(as_seen, order[0])].to_data()
    rule = setting.of_statement.rule
    return Witness(theorem.id, form, rule, theorem.name, data, label="an instance that was drawn")


def _interest(theorem: Any, setting: MethodSetting, form: str, drawn: Draw, exact: bool) -> int:
    """How much a walk shows on an instance, 0 the most; of what floats show a walk may show
    less."""
    try:
        view = setting.view(drawn, exact)
        found = {n: reduced(view, claimed).at_the_end() for n, claimed in theorem.on(view).items()}
    except SILENT:
        return 3
    fail = [n for n, s in found.items() if s.lhs[0] > s.rhs[0] + 1e-6 * s.scale[0]]
    if fail:
        return 0 if form in fail else 1
    return 2 if drawn.rounds > 1 and all(min(s.lhs[0], s.rhs[0]) > 0 for s in found.values()) else 3
