"""A run of Algorithm 3 as a proof looks at it: the quantities of each round, and those of the whole run.

Over all sequences of cohorts where these are few, on scenarios that are drawn where they are many,
and in fractions for a witness.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.participation.cohorts import Full
from fedtheory.randomness import Stream
from fedtheory.theorems.fedelasticnet.expectation import round_of, round_view
from fedtheory.theorems.fedelasticnet.merged_clients import MergedClients
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theory import Case, Witness
from fedtheory.theory.judge.proof import Course, Proof
from fedtheory.theory.judge.registry import get
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.measured import RoundQuantities
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.oracles import MAX_PATHS, Path, each, sequences
from fedtheory.theory.rounds.own_run import Unseen
from fedtheory.theory.rounds.run_matches_claim import as_said

__all__ = ["ROUNDS", "SCENARIOS", "course", "replayed"]

ROUNDS = 30  # where none are asked for, and there are not too many sequences of cohorts
SCENARIOS = 200  # the most that are walked
FEW = 40  # scenarios below which cohorts are not enumerated in every round
NUMBERS = 2_000_000  # of the models of all clients, in all states, of one round


def _setting(proof: Proof, rule: str) -> MethodSetting:
    return MethodSetting.of(FILE[proof.theorem].variants[rule])


def _walked(
    name: str, rule: str, run: Any, view_of: Callable[[Any, int], RoundQuantities], apart: int = 1, **how: Any
) -> Course:  # fmt: skip
    """The rounds of a run whose states are one for so many scenarios in a row up to each round."""

    def rounds() -> Iterator[Any]:
        states = run.path.states[:-1]
        for t, state in enumerate(states, 1):
            alike = apart ** (len(states) + 1 - t)
            yield view_of(each(state, lambda v: v[::alike]), t), None  # noqa: B023

    return Course(name, rule, len(run.path.states) - 1, rounds(), lambda: run, **how)


def replayed(witness: Witness, proof: Proof) -> Course:
    """The run of a witness in fractions.

    Raises
    ------
    InvalidInput
        A witness that is about one round, or whose identical clients are merged.
    """
    kind = witness.kind
    if kind == MergedClients.kind:
        raise InvalidInput(
            f"{witness.name} has merged clients, whose rounds are not told apart: give a witness whose clients are written out"
        )
    if kind not in FILE.authored or FILE[kind].over != "run":
        raise InvalidInput(
            f"{witness.name} is about one round: a proof is walked along a run, give a witness of a statement about runs"
        )
    draw, setting = Draw.from_data(witness.data), _setting(proof, witness.rule)
    run, law = setting.view(draw, exact=True), setting.law(draw)
    m = draw.num_clients
    name = f"{m} client{'s' * (m > 1)}, {run.P} taking part, d = {draw.dim}, T = {draw.rounds} (in fractions)"

    def of_round(state: Any, t: int) -> RoundQuantities:
        return round_view(run.world, run.method, law, state)

    return _walked(name, witness.rule, run, of_round, law.count(m))


def course(case: Case, proof: Proof) -> Course:
    """The run of a user's problem: all sequences of cohorts where there are not too many, else scenarios.

    Raises
    ------
    InvalidInput
        An assumption that fails, with value and limit; too many sequences of cohorts with ``mode='exact'``.
    NotCertified
        An optimum that cannot be certified.
    """
    problem, algorithm, sampling = case.problem, case.algorithm, case.sampling or Full()
    form = get(proof.theorem).form(proof.form)
    variants = FILE[proof.theorem].variants
    setting = _setting(proof, rule if (rule := getattr(algorithm, "rule", "")) in variants else "sign")
    if reason := setting.not_about(problem, sampling):
        raise InvalidInput(f"{proof.theorem} [{form.name}] does not apply: {reason}")
    n, beta = problem.num_clients, float(problem.beta_k.max())
    count, size = sampling.count(n), n * problem.dim
    fitting = [t for t in range(1, ROUNDS + 1) if count**t <= MAX_PATHS and count**t * size <= NUMBERS]
    most = max(fitting, default=1)
    T = case.rounds or (most if case.mode == "exact" else ROUNDS)
    fits = count**T <= MAX_PATHS and count**T * size <= NUMBERS
    if case.mode == "exact" and not fits:
        raise InvalidInput(
            f"{T} rounds of {count} cohorts make {count**T} states: walk at most {most} rounds, or take mode = 'monte-carlo'"
        )
    drawn = case.mode == "monte-carlo" or not fits
    if drawn and form.exact_only:
        raise InvalidInput(
            f"{proof.theorem} [{form.name}] multiplies expectations, which scenarios do not show: walk at most {most} rounds "
            f"(rounds = {most}), let everybody take part, or walk its form 'printed, whole expectation'"
        )
    world = setting.world(problem)
    world.start = start = np.asarray(case.x0, dtype=float)[None]
    setting = as_said(setting, setting.facts(world, sampling, T), algorithm, None)
    _ = world.best  # what cannot be certified is told before any work
    ratio = f"{algorithm.l2 / beta:.4g} beta" if beta > 0 else f"{algorithm.l2:.4g}"
    name = (
        f"{problem.name}: m = {n}, P = {getattr(sampling, 'size', n)}, d = {problem.dim}, "
        f"lambda_1 = {algorithm.l1:g}, lambda_2 = {ratio}, T = {T}"
    )

    def over_all(state: Any, t: int) -> RoundQuantities:
        return round_view(world, algorithm, sampling, state)

    if not drawn:
        how = f", all {count**T:,} sequences of cohorts" if count > 1 else ""
        x, cohorts, chance = sequences(start, sampling, n, T, False)
        run = setting._made(world, x, sampling, cohorts, chance, {})
        return _walked(name + how, algorithm.rule, run, over_all, count)
    stream, states = Stream(case.seed), NUMBERS // (count * size)
    scenarios = min(case.scenarios, SCENARIOS, states if states >= FEW else max(2, 4 * NUMBERS // size))
    cohorts = [sampling.sample(stream, t, range(scenarios), n) for t in range(1, T + 1)]
    x, chance = np.repeat(start, scenarios, axis=0), np.full(scenarios, 1 / scenarios)
    run = setting._made(world, x, sampling, cohorts, chance, {}, sampled=True)
    path = run.path.states
    unseen: list[Any] = [Unseen()] * T
    run.path = Path(path, unseen)  # the steps are about all clients, in the cohort or not
    if states >= FEW:
        how = f", {scenarios} scenarios, each round over all {count} cohorts"
        return _walked(name + how, algorithm.rule, run, over_all, exact=False, conditional=True)

    def as_drawn(state: Any, t: int) -> RoundQuantities:
        return round_of(world, algorithm, cohorts[t - 1], np.ones(1), sampling, state)

    how = f", {scenarios} scenarios"
    return _walked(name + how, algorithm.rule, run, as_drawn, exact=False)
