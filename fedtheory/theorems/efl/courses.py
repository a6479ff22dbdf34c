"""A run of EFL as the proof of Theorem 1 looks at it: the states of each round, and everything that
may happen from each of them.

All states that can be reached, with their probabilities, where these are few; else scenarios, each
round of which is enumerated.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.randomness import Stream
from fedtheory.theorems.efl.cases.theorem_1 import as_enumerated
from fedtheory.theorems.efl.quantities.exact_run import quadratic_run, read_run
from fedtheory.theorems.efl.quantities.run import EFLConstants, EFLRun
from fedtheory.theorems.efl.quantities.step import StepState, sq, state_of
from fedtheory.theory import Case, derived
from fedtheory.theory.judge.proof import Course, Proof
from fedtheory.theory.judge.registry import get
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.rounds.coefficients import RoundLaw
from fedtheory.theory.rounds.second_moments import QuadraticOracles

ROUNDS, DRAWN_ROUNDS = 50, 10  # where none are asked for: of runs with one state in every round, and of others
STATES, SCENARIOS = 400, 50  # the most states of one round, and scenarios
NUMBERS = 40_000_000  # that are enumerated in all


@dataclass
class EFLRound:
    """Round tau from S states."""

    states: list[StepState]  # list of `StepState`
    tau: int  # its number, from 0
    constants: EFLConstants  # of the whole run
    rule: str

    def each(self, number: Any) -> np.ndarray:
        """(S,) of a function of a state."""
        found = [number(state) for state in self.states]
        return np.array(found, dtype=object if self.states[0].w0.dtype == object else float)

    before = derived(lambda q: q.each(lambda v: v.start_sq), "||w_tau - w*||^2: (S,)")
    after = derived(
        lambda q: q.each(lambda v: v.over_all(sq(v.wbar[:, :, -1] - v.oracles.star))),
        "E||w_{tau+1} - w*||^2, given each state: (S,)",
    )


def _step(oracles: QuadraticOracles, laws: list[RoundLaw], c: EFLConstants, w: Any, tau: int) -> StepState:
    return replace(state_of(oracles, laws[tau], w, tau, c.gamma, c.theta), L=c.L, mu=c.mu)


def _all(oracles: QuadraticOracles, laws: list[RoundLaw], c: EFLConstants, w0: Any, rule: str) -> Iterator[Any]:
    """Every state that can be reached, with its probability."""
    points, mass = [w0], np.array([c.start_sq * 0 + 1])
    for tau in range(len(laws)):
        states = [_step(oracles, laws, c, w, tau) for w in points]
        yield EFLRound(states, tau, c, rule), mass
        if tau + 1 < len(laws):
            mass = np.concatenate(
                [p * np.multiply.outer(v.mass, v.batch_mass).ravel() for p, v in zip(mass, states, strict=True)]
            )
            points = [w for v in states for w in v.wbar[:, :, -1].reshape(-1, len(w0))]


def _drawn(
    oracles: QuadraticOracles, laws: list[RoundLaw], c: EFLConstants, w0: Any, rule: str,
    scenarios: int, seed: int, seen: list[Any],
) -> Iterator[Any]:
    """Scenarios; ``seen`` keeps each round's squared distances before it, and after the last one their expectation."""
    rng = Stream(seed).generator("proof of EFL's Theorem 1")
    points = [w0] * scenarios
    for tau in range(len(laws)):
        view = EFLRound([_step(oracles, laws, c, w, tau) for w in points], tau, c, rule)
        seen.append(view.before)
        yield view, None
        points = [v.after(rng) for v in view.states]
        if tau + 1 == len(laws):
            seen.append(view.after)


def _branches(oracles: QuadraticOracles, law: RoundLaw) -> int:
    """Return how many outcomes one round has."""
    clients, batches = oracles.shape[:2]
    paths = batches ** (law.E if oracles.common else clients * law.E)
    return int(paths * np.prod((law.law > 0).sum(axis=1), dtype=float))


def _at_the_end(run: EFLRun, T: int) -> EFLRun:
    return replace(run, horizons=np.array([T]))


def replayed(witness: Witness, proof: Proof) -> Course:
    """The run of a witness in fractions."""
    data = witness.data
    if witness.kind != "run":
        raise InvalidInput(f"{witness.name} is an instance of kind {witness.kind!r}: a proof is walked along a run")
    oracles, laws, w0 = read_run(data)
    T = len(laws)
    branches = max(_branches(oracles, law) for law in laws)
    if branches ** (T - 1) > STATES:
        raise InvalidInput(
            f"{witness.name}: {T} rounds with {branches} outcomes each are too many states to walk (limit {STATES})"
        )
    run = quadratic_run(oracles, laws, w0)
    _check_form(proof, run)
    name = f"{oracles.shape[0]} clients, d = {oracles.shape[2]}, E = {laws[0].E}, T = {T} (in fractions)"
    rounds = _all(oracles, laws, run.constants, w0, run.rule)
    return Course(name, run.rule, T, rounds, lambda: _at_the_end(run, T))


def _check_form(proof: Proof, run: EFLRun) -> None:
    reason = run.applies(get(proof.theorem).form(proof.form))
    if reason is not None:
        raise InvalidInput(f"{proof.theorem} [{proof.form}] does not apply: {reason}")


def course(case: Case, proof: Proof) -> Course:
    """The run of a user's problem: quadratic losses, independent clients, lambda = 0."""
    wanted = case.rounds or ROUNDS
    oracles, laws, run = as_enumerated(replace(case, rounds=wanted))
    branches = max(_branches(oracles, law) for law in laws)
    T = case.rounds or (ROUNDS if branches == 1 else DRAWN_ROUNDS)
    if T != wanted:
        oracles, laws, run = as_enumerated(replace(case, rounds=T))
    _check_form(proof, run)
    name = f"{case.problem.name}: N = {oracles.shape[0]}, d = {oracles.shape[2]}, E = {laws[0].E}, T = {T}"
    if case.mode != "monte-carlo" and branches ** (T - 1) <= STATES:
        how = f", all {branches**T} outcomes" if branches > 1 else ""
        return Course(
            name + how, run.rule, T, _all(oracles, laws, run.constants, case.x0, run.rule), lambda: _at_the_end(run, T)
        )
    if case.mode == "exact":
        raise InvalidInput(
            f"{T} rounds with {branches} outcomes each are too many states (limit {STATES}): take fewer rounds, or scenarios"
        )
    size = branches * oracles.shape[0] * (laws[0].E + 1) * oracles.shape[2]
    scenarios = min(case.scenarios, SCENARIOS, max(2, NUMBERS // (size * T)))
    seen: list[Any] = []

    def end() -> EFLRun:
        return replace(_at_the_end(run, T), distance_sq=np.array(seen), exact=False)

    rounds = _drawn(oracles, laws, run.constants, case.x0, run.rule, scenarios, case.seed, seen)
    return Course(
        f"{name}, {scenarios} scenarios, each round over all {branches} outcomes", run.rule, T, rounds, end, False, True
    )
