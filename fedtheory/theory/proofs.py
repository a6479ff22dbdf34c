"""The proof of a theorem of a file, as a chain of its other statements: what `fedtheory proof FILE.py::NAME` walks.

    paper.proof(rate, form="lecture notes", steps=[
        step(one_round, weight=lambda q: 1 / q.T, why="one step, against x*"),
        step(monotone, weight=lambda q: (q.t[1:, 0] - 1) / q.T, why="F does not grow, so that the last iterate is the best"),
        step("last distance", lambda q: le(0 * q.gap[-1], q.distance_sq[-1]), weight=lambda q: q.beta / (2 * q.T)),
    ])

A weight says what one unit of slack of a step, in one round, adds to the slack of the theorem. Then the slack of the theorem is the
sum of the steps' slacks, each with its weight, and a walk checks that. Where no step has one, each is judged by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.inputs import require
from fedtheory.participation.cohorts import Full, Sampling, Uniform
from fedtheory.randomness import Stream
from fedtheory.theory.judge import proof as core
from fedtheory.theory.judge.case import Case
from fedtheory.theory.judge.statement import Sides
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.rounds.forms import in_function, reduced
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.judging import with_noise
from fedtheory.theory.rounds.measured import RoundQuantities
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.oracles import (
    Path,
    SeparableWorld,
    each,
    probabilities,
    sequences,
)
from fedtheory.theory.rounds.run_matches_claim import as_said
from fedtheory.theory.rounds.undefined import SILENT

__all__ = ["ProofStep", "core_proof", "step"]

TRIED = 400  # instances, for one on which the form fails


@dataclass(frozen=True)
class ProofStep:
    """A step of a proof, as `step` makes it."""

    what: Any
    form: str
    weight: Any
    why: str
    sides: Callable[[Any], Sides] | None
    formula: str


def step(
    what: Any, at_end: Callable[[Any], Sides] | None = None, *, form: str = "repaired", weight: Any = None, why: str = "",
    formula: str = "",
) -> ProofStep:  # fmt: skip
    """One step of `Paper.proof`.

    Parameters
    ----------
    what : a statement of the paper with over='round', or its name, which is judged in every round;
        with ``at_end`` a label
    at_end : callable(q) -> ``le(...)``, q the quantities of the run: a step that is taken once, when the rounds are added up
    form : of the statement
    weight : what one unit of its slack adds to the slack of the theorem: a number, or callable(q) -> a number, or one for each
        round (T,); None: it is judged, and nothing is said of what the theorem loses in it
    why : one sentence
    formula : LaTeX, of a step with ``at_end``

    Raises
    ------
    InvalidInput
        A statement with ``at_end``.
    """
    if at_end is not None and not isinstance(what, str):
        raise InvalidInput(
            f"step {what!r}: a step at the end has a label, and one that is judged in every round "
            "is a statement, or its name"
        )
    return ProofStep(what, form, weight, why, at_end, formula)


def core_proof(theorem: Any, form: str, steps: Sequence[ProofStep], note: str) -> core.Proof:
    """As the core knows proofs.

    Raises
    ------
    InvalidInput
        A theorem that is not about a run. No steps, or others than `step` makes. A step that is
        not about a round, or that alone has no weight.
    UnknownName
        No such form.
    """
    where = f"{theorem.place}: proof"
    if theorem.over != "run":
        raise InvalidInput(
            f"{where}: {theorem.id} is about a {theorem.over}: a proof is walked for a theorem with over='run'"
        )
    if not steps:
        raise InvalidInput(f"{where}: no steps: give a list of step(...)")
    for one in steps:
        if not isinstance(one, ProofStep):
            raise InvalidInput(f"{where}: {one!r} is no step: write step(statement, weight=...)")
        if one.sides is None and getattr(one.what, "over", "") != "round":
            raise InvalidInput(f"{where}: {one.what!r} is not judged in a round: give a statement with over='round'")
        if one.sides is None:
            one.what.form(one.form)
    bare = next((one for one in steps if one.weight is None), None)
    if bare is not None and any(one.weight is not None for one in steps):
        label = getattr(bare.what, "name", bare.what)
        raise InvalidInput(
            f"{where}: step {label!r} has no weight and others have: give it one, 0 where its slack "
            "does not enter the sum, or leave out all"
        )
    theorem.form(form)
    setting = MethodSetting.of(theorem)
    return core.Proof(
        theorem.id, form, tuple(_core_step(one) for one in steps), lambda case, proof: _course(setting, case),
        lambda witness, proof: _replayed(setting, witness), witness=lambda: _instance(theorem, setting, form), note=note,
        bound=lambda ended: _at_the_end(with_noise(theorem, ended.run, form)),
    )  # fmt: skip


def _core_step(one: ProofStep) -> core.Step:
    label = getattr(one.what, "name", one.what)
    weight = None if one.weight is None else lambda ended: _of_run(one.weight, ended, label)
    if one.sides is not None:

        def at_the_end(ended: core.Ended) -> Sides:
            sides = _of_run(one.sides, ended, label)
            remedy = "its function returns le(lhs, rhs) or eq(lhs, rhs)"
            require(isinstance(sides, Sides), f"step {label!r}", sides, remedy)
            return _plain(sides, ended.run.expectation)

        return core.Step(one.what, one.why, weight=weight, sides=at_the_end, over="end", formula=one.formula)
    statement, form = one.what, one.form

    def of_round(view: RoundQuantities) -> Sides:
        own = view.other()  # a view keeps the forms of one statement
        said: Any = statement.on(own)[form].sides
        return _plain(with_noise(statement, own, form), own.expectation, said)

    return core.Step(statement.name, one.why or statement.title, statement.id, form, weight, of_round)


def _of_run(given: Any, ended: core.Ended, label: str) -> Any:
    """What an author's function makes of the whole run, or a number in its place."""
    if not callable(given):
        return given
    with in_function(given, f"step {label!r}"):
        return given(ended.run)


def _plain(sides: Sides, expectation: Callable[[Any], Any], said: Sides | None = None) -> Sides:
    """One entry for each state: what is claimed of every cohort is taken in the mean for the sum.

    said : the sides as their author gives them, with the terms of the right one; default ``sides``
    """

    def each(value: Any) -> np.ndarray:
        found = np.asarray(value)
        return np.atleast_1d(np.asarray(expectation(found)) if found.ndim > 1 else found)

    parts, said = [each(value) for value in (sides.lhs, sides.rhs, sides.scale)], said or sides
    shape = np.broadcast_shapes(*(p.shape for p in parts))
    noise = float(np.max(np.asarray(sides.noise, dtype=float))) if parts[0].dtype != object else 0
    lhs, rhs, scale = (np.broadcast_to(p, shape) for p in parts)
    terms: tuple[Any, ...] = (lhs, rhs)
    if sides.relation == "<=":
        terms = tuple(each(np.broadcast_to(np.asarray(t), np.shape(said.lhs))) for t in said.terms)
    return Sides(lhs, rhs, scale, sides.relation, noise, (), terms)


def _at_the_end(sides: Sides) -> Sides:
    """The last of the horizons that a bound is stated for."""
    lhs, rhs, scale = (np.atleast_1d(np.asarray(v)).ravel()[-1:] for v in (sides.lhs, sides.rhs, sides.scale))
    noise = np.atleast_1d(np.asarray(sides.noise)).ravel()[-1:] if lhs.dtype != object else 0
    return Sides(lhs, rhs, scale, sides.relation, noise, (), (lhs, rhs))


# --- runs --------------------------------------------------------------------------------------------------------------------
def _walked(
    setting: MethodSetting, world: Any, starts: Any, sampling: Sampling, T: int, drawn: dict[str, Any], name: str
) -> core.Course:
    law = sampling.enumerate(world.num_clients)
    count, chance = law.scenarios, probabilities(sampling, law, world.exact)
    x, cohorts, weight = sequences(starts, sampling, world.num_clients, T, world.exact)
    run = setting._made(world, x, sampling, cohorts, weight, drawn)

    def rounds() -> Iterator[Any]:
        for t in range(1, T + 1):
            apart = count ** (T - t)  # sequences that are one up to this round
            states = [each(s, lambda v: v[::apart]) for s in run.path.states[: t + 1]]  # noqa: B023
            one = Path(states, run.path.clients[:t])
            before = weight.reshape(-1, apart * count).sum(axis=1)
            yield RoundQuantities(world, run.facts, one, chance, run.method), before

    return core.Course(name, "any", T, rounds(), lambda: run)


def _course(setting: MethodSetting, case: Case) -> core.Course:
    """The run of a user's problem, from x_0."""
    problem, n = case.problem, case.problem.num_clients
    reason = setting.not_about(problem, case.sampling)
    if reason is not None:
        raise InvalidInput(f"{setting.of_statement.id}: {reason}")
    sampling = case.sampling if setting.sampling is Uniform and case.sampling is not None else setting.sampling
    sampling = Full() if sampling is Uniform else sampling
    sampling.check(n)
    world = setting.world(problem)
    start = world.start = np.asarray(case.x0, dtype=float)[None]
    T = case.rounds or setting.of_statement.rounds[1]
    setting = as_said(setting, setting.facts(world, sampling, T), case.algorithm, case.local_solver, case.given)
    return _walked(
        setting, world, start, sampling, T, setting.first_choice, f"{problem.name}: N = {n}, d = {problem.dim}, T = {T}"
    )


def _replayed(setting: MethodSetting, witness: Witness) -> core.Course:
    """The run of an instance in fractions."""
    if witness.kind != setting.of_statement.name:
        raise InvalidInput(
            f"{witness.name} is an instance of {witness.kind!r}, and not of {setting.of_statement.name!r}"
        )
    instance = setting.read(witness.data)
    world = SeparableWorld(instance.exact_losses, instance.starts[0])
    sampling, T = setting.law(instance), instance.rounds
    return _walked(setting, world, instance.starts, sampling, T, instance.drawn, f"{setting.words(instance)} (in fractions)")


def _instance(theorem: Any, setting: MethodSetting, form: str) -> Witness:
    """Of random instances the one of fewest digits on which the form fails; else on which another form
    fails; else of several rounds with both sides above 0."""
    rng = Stream(0).generator(f"proof of {theorem.id}")
    drawn = [setting.random_instance(rng) for _ in range(TRIED)]
    drawn.sort(key=lambda instance: sum(letter.isdigit() for letter in str(instance)))
    seen = [_interest(theorem, setting, form, d, False) for d in drawn]
    order = sorted(range(len(drawn)), key=seen.__getitem__)
    as_seen = (i for i in order if _interest(theorem, setting, form, drawn[i], True) <= seen[i])
    data = drawn[next(as_seen, order[0])].to_data()
    return Witness(theorem.id, form, "any", theorem.name, data, label="an instance that was drawn")


def _interest(theorem: Any, setting: MethodSetting, form: str, drawn: Draw, exact: bool) -> int:
    """How much a walk shows on an instance, 0 the most; of what floats show a walk may show less."""
    try:
        view = setting.view(drawn, exact)
        found = {n: _at_the_end(reduced(view, claimed)) for n, claimed in theorem.on(view).items()}
    except SILENT:
        return 3
    fail = [n for n, s in found.items() if s.lhs[0] > s.rhs[0] + 1e-6 * s.scale[0]]
    if fail:
        return 0 if form in fail else 1
    return 2 if drawn.rounds > 1 and all(min(s.lhs[0], s.rhs[0]) > 0 for s in found.values()) else 3
