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
from fedtheory.theory.judge.proof import Course, Proof, Round, Step
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


@dataclass
class Walked:
    """Everything that may happen along a run, round by round."""

    oracles: QuadraticOracles
    laws: list[RoundLaw]
    run: EFLRun
    w0: Any

    branches = derived(lambda q: max(map(q.outcomes, q.laws)), "The most outcomes of a round")

    def outcomes(self, law: RoundLaw) -> int:
        """Return how many outcomes a round has."""
        clients, batches = self.oracles.shape[:2]
        paths = batches ** (law.E if self.oracles.common else clients * law.E)
        return int(paths * np.prod((law.law > 0).sum(axis=1), dtype=float))

    def round(self, tau: int, points: list[Any]) -> EFLRound:
        """Round tau from these states."""
        c = self.run.constants
        made = (state_of(self.oracles, self.laws[tau], w, tau, c.gamma, c.theta) for w in points)
        return EFLRound([replace(v, L=c.L, mu=c.mu) for v in made], tau, c, self.run.rule)

    def all_states(self) -> Iterator[Round]:
        """Every state that can be reached, with its probability."""
        points, mass = [self.w0], np.array([self.run.constants.start_sq * 0 + 1])
        for tau in range(len(self.laws)):
            view = self.round(tau, points)
            yield Round(view, mass)
            if tau + 1 < len(self.laws):
                each = zip(mass, view.states, strict=True)
                mass = np.concatenate([p * np.multiply.outer(v.mass, v.batch_mass).ravel() for p, v in each])
                points = [w for v in view.states for w in v.wbar[:, :, -1].reshape(-1, len(self.w0))]

    def drawn(self, scenarios: int, seed: int, seen: list[Any]) -> Iterator[Round]:
        """Scenarios; ``seen`` keeps the squared distances before each round, and after the last one
        their expectation."""
        rng = Stream(seed).generator("proof of EFL's Theorem 1")
        view = self.round(0, [self.w0] * scenarios)
        for tau in range(1, len(self.laws)):
            seen.append(view.before)
            now, view = view, self.round(tau, [v.after(rng) for v in view.states])
            yield Round(now, drawn=_as_drawn(now.after - view.before))
        seen += [view.before, view.after]
        yield Round(view)


def _as_drawn(nearer: np.ndarray) -> Any:
    """The slack of step 1, whose left side is the squared distance after the round, and of others."""

    def slack_of(step: Step, slack: Any) -> Any:
        return slack + nearer if step.statement == "efl/theorem-1-step-1" else slack

    return slack_of


def replayed(witness: Witness, proof: Proof) -> Course:
    """The run of a witness in fractions."""
    if witness.kind != "run":
        raise InvalidInput(f"{witness.name} is an instance of kind {witness.kind!r}: a proof is walked along a run")
    oracles, laws, w0 = read_run(witness.data)
    walked, T = Walked(oracles, laws, quadratic_run(oracles, laws, w0), w0), len(laws)
    if walked.branches ** (T - 1) > STATES:
        raise InvalidInput(
            f"{witness.name}: {T} rounds with {walked.branches} outcomes each are too many states to walk (limit {STATES})"
        )
    _check_form(proof, walked.run)
    name = f"{oracles.shape[0]} clients, d = {oracles.shape[2]}, E = {laws[0].E}, T = {T} (in fractions)"
    return Course(name, walked.run.rule, T, walked.all_states(), lambda: walked.run)


def _check_form(proof: Proof, run: EFLRun) -> None:
    reason = run.applies(get(proof.theorem).form(proof.form))
    if reason is not None:
        raise InvalidInput(f"{proof.theorem} [{proof.form}] does not apply: {reason}")


def course(case: Case, proof: Proof) -> Course:
    """The run of a user's problem: quadratic losses, independent clients, lambda = 0."""
    walked = Walked(*as_enumerated(replace(case, rounds=case.rounds or ROUNDS)), case.x0)
    if case.rounds is None and walked.branches > 1:
        walked = Walked(*as_enumerated(replace(case, rounds=DRAWN_ROUNDS)), case.x0)
    run, branches, T, E = walked.run, walked.branches, len(walked.laws), walked.laws[0].E
    clients, _, d = walked.oracles.shape
    _check_form(proof, run)
    name = f"{case.problem.name}: N = {clients}, d = {d}, E = {E}, T = {T}"
    few = branches ** (T - 1) <= STATES
    if few and case.mode != "monte-carlo":
        how = f", all {branches**T} outcomes" if branches > 1 else ""
        return Course(name + how, run.rule, T, walked.all_states(), lambda: run)
    if case.mode == "exact":
        raise InvalidInput(
            f"{T} rounds with {branches} outcomes each are too many states (limit {STATES}): take fewer rounds, or scenarios"
        )
    scenarios = min(case.scenarios, SCENARIOS, max(2, NUMBERS // (branches * clients * (E + 1) * d * T)))
    seen: list[Any] = []
    return Course(
        f"{name}, {scenarios} scenarios, each round over all {branches} outcomes", run.rule, T,
        walked.drawn(scenarios, case.seed, seen), lambda: replace(run, distance_sq=np.array(seen), exact=False),
        exact=False, conditional=True,
    )  # fmt: skip
