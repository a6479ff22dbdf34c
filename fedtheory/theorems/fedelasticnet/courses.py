"""A run of Algorithm 3 as a proof looks at it: a `RoundView` a round, and the `RunView` of its horizon when it has ended.

Over all sequences of cohorts where these are few, on scenarios that are drawn where they are many, and in fractions for a witness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDynState
from fedtheory.clients.clients import Clients
from fedtheory.errors import InvalidInput
from fedtheory.local.exact import Exact
from fedtheory.participation.cohorts import Full
from fedtheory.randomness import Stream
from fedtheory.theorems.fedelasticnet.accumulator import Accumulator, over_paths
from fedtheory.theorems.fedelasticnet.exact import RationalState, sqrt_upper
from fedtheory.theorems.fedelasticnet.exact_witness import DiagonalWitness, instance_of
from fedtheory.theorems.fedelasticnet.expectation import FederatedLosses, round_view
from fedtheory.theorems.fedelasticnet.on_a_problem import assumption_failure
from fedtheory.theorems.fedelasticnet.quantities import RoundView, RunView, norm_sq
from fedtheory.theory.judge.case import Case
from fedtheory.theory.judge.proof import Course, Proof
from fedtheory.theory.judge.registry import get
from fedtheory.theory.judge.witness import Witness

__all__ = ["ROUNDS", "SCENARIOS", "course", "replayed"]

ROUNDS = 30  # where none are asked for, and there are not too many sequences of cohorts
SCENARIOS = 200  # the most that are walked
FEW = 40  # scenarios below which cohorts are not enumerated in every round
WHOLE = "printed, whole expectation"
NUMBERS = 2_000_000  # of the models of all clients, in all states, of one round
PARTS: tuple[Callable[[RoundView], Any], ...] = (  # what is summed over the rounds
    lambda v: v.lambda1_s, lambda v: v.lambda1_sign, lambda v: v.lambda1_sign_own,
)  # fmt: skip


@dataclass
class _Sums:
    """The sums that a run's view needs of its rounds, along every path."""

    expect: Callable[[Any], Any]
    sums: Accumulator | None = None
    first: RoundView | None = None
    last: RoundView | None = None

    def add(self, view: RoundView) -> None:
        self.first, self.last = self.first or view, view
        self.sums = self.sums or Accumulator(view.losses, None, view.gamma)
        parts = [view.mean_k(part(view)) for part in PARTS]
        self.sums.add_means(view.gamma, parts, view.zeros)

    def run(self, T: int, exact: bool) -> RunView:
        """The view of T rounds: one column, or one for each scenario."""
        first, last, sums = self.first, self.last, self.sums
        if first is None or last is None or sums is None:
            raise InvalidInput("a run without a round has no view: walk it to its end first")
        losses, rational = last.losses, last.theta.dtype == object
        number = Fraction(T) if rational else float(T)

        def row(value: Any) -> Any:
            return np.asarray(value, dtype=object if rational else float).reshape(1, -1)

        star = norm_sq(first.stored - first.grad_star)
        scattered = losses.gradients(first.theta) - first.grad_star
        return RunView(
            losses=losses,
            constants=last.constants,
            rule=last.rule,
            d=last.d,
            horizons=np.array([T], dtype=object if rational else int),
            exact=exact,
            noise=0 if rational else float(np.max(losses.noise(sums.gamma_sum / number))),
            start_sq=over_paths(first.A),
            C0=over_paths(first.C),
            C0_printed=over_paths(first.mean_k(_roots(star))),
            C0_true=over_paths(first.mean_k(norm_sq(scattered))),
            **{name: row(value) for name, value in sums.row(number, self.expect).items()},
        )


def _roots(squares: Any) -> Any:
    return (
        np.sqrt(squares)
        if squares.dtype != object
        else np.array([[sqrt_upper(q) for q in row] for row in squares], dtype=object)
    )


def _after(view: RoundView) -> RationalState:
    """The states after a round, one behind the other: those of a state's cohorts together."""
    parts = (view.theta_next, view.h_next, view.stored_next, view.local_next)
    return RationalState(*(a.reshape(-1, *a.shape[2:]) for a in parts))


def _rounds(
    state: RationalState, T: int, view_of: Callable[[RationalState, int], RoundView], sums: _Sums, draw: Any
) -> Iterator[Any]:
    for t in range(1, T + 1):
        view = view_of(state, t)
        sums.add(view)
        yield view, None
        if t < T:
            count = len(view.members)
            state = _after(view)
            if draw is None:
                sums.sums.repeat(count)  # type: ignore[union-attr]
            else:  # of each state's cohorts the one that was drawn
                rows = np.arange(len(view.theta)) * count + draw(t, count)
                state = RationalState(*(a[rows] for a in state))


def _made(
    name: str, rule: str, T: int, start: RationalState, view_of: Callable[..., RoundView], exact: bool = True, draw: Any = None,
    conditional: bool = False,
) -> Course:  # fmt: skip
    """``draw`` (round, number of cohorts) gives each scenario's cohort; None: all are taken."""
    sums = _Sums(over_paths if exact else lambda values: values)
    return Course(name, rule, T, _rounds(start, T, view_of, sums, draw), lambda: sums.run(T, exact), exact, conditional)


def replayed(witness: Witness, proof: Proof) -> Course:
    """The run of a witness in fractions.

    Raises
    ------
    InvalidInput
        A witness that is about one round, or whose identical clients are merged.
    """
    w = DiagonalWitness.from_witness(witness)
    instance = instance_of(w)
    if w.T is None:
        raise InvalidInput(
            f"{witness.name} is about one round: a proof is walked along a run, give a witness with a horizon T"
        )
    if w.copies is not None:
        raise InvalidInput(
            f"{witness.name} has merged clients, whose rounds are not told apart: give a witness whose clients are written out"
        )
    name = f"{instance.m} client{'s' * (instance.m > 1)}, {instance.P} taking part, d = {instance.d}, T = {w.T} (in fractions)"
    return _made(name, w.rule, w.T, instance.start(), lambda state, t: instance.round_view(state))


def course(case: Case, proof: Proof) -> Course:
    """The run of a user's problem: all sequences of cohorts where `NUMBERS` allows it, else scenarios.

    Raises
    ------
    InvalidInput
        An assumption that fails, with value and limit; too many sequences of cohorts with ``mode='exact'``.
    NotCertified
        An optimum that cannot be certified.
    """
    problem, algorithm, sampling = case.problem, case.algorithm, case.sampling or Full()
    form = get(proof.theorem).form(proof.form)
    reason = assumption_failure(form, problem, algorithm, sampling)
    if reason is not None:
        raise InvalidInput(f"{proof.theorem} [{form.name}] does not apply: {reason}")
    count, size = sampling.count(problem.num_clients), problem.num_clients * problem.dim
    most = next((t for t in range(1, ROUNDS) if count ** (t + 1) * size > NUMBERS), ROUNDS)
    T = case.rounds or (most if case.mode == "exact" else ROUNDS)
    fits = count**T * size <= NUMBERS
    if case.mode == "exact" and not fits:
        raise InvalidInput(
            f"{T} rounds of {count} cohorts make {count**T} states: walk at most {most} rounds, or take mode = 'monte-carlo'"
        )
    if (case.mode == "monte-carlo" or not fits) and form.exact_only and form.name != WHOLE:
        raise InvalidInput(
            f"{proof.theorem} [{form.name}] multiplies expectations, which scenarios do not show: walk at most {most} rounds "
            f"(rounds = {most}), let everybody take part, or walk its form '{WHOLE}'"
        )
    losses, beta = FederatedLosses(problem), float(problem.beta_k.max())
    ratio = f"{algorithm.l2 / beta:.4g} beta" if beta > 0 else f"{algorithm.l2:.4g}"
    name = (
        f"{problem.name}: m = {problem.num_clients}, P = {getattr(sampling, 'size', problem.num_clients)}, d = {problem.dim}, "
        f"lambda_1 = {algorithm.l1:g}, lambda_2 = {ratio}, T = {T}"
    )

    def start(scenarios: int) -> RationalState:
        begin = algorithm.init(
            np.repeat(np.asarray(case.x0, dtype=float)[None], scenarios, axis=0), problem.num_clients
        )
        return RationalState(begin.x, begin.h, begin.stored, begin.local)

    def over_all(state: RationalState, t: int) -> RoundView:
        return round_view(problem, algorithm, sampling, _state(state), losses=losses)

    if fits and case.mode != "monte-carlo":
        how = f", all {count**T:,} sequences of cohorts" if count > 1 else ""
        return _made(name + how, algorithm.rule, T, start(1), over_all)
    stream, states = Stream(case.seed), NUMBERS // (count * size)
    if states >= FEW:
        scenarios = min(case.scenarios, SCENARIOS, states)

        def draw(t: int, cohorts: int) -> np.ndarray:
            return stream.generator("proof", t).integers(cohorts, size=scenarios)

        how = f", {scenarios} scenarios, each round over all {count} cohorts"
        return _made(name + how, algorithm.rule, T, start(scenarios), over_all, False, draw, conditional=True)
    scenarios = min(case.scenarios, SCENARIOS, max(2, 4 * NUMBERS // size))

    def drawn(state: RationalState, t: int) -> RoundView:
        cohort = sampling.sample(stream, t, range(scenarios), problem.num_clients)
        everyone = round_view(problem, algorithm, Full(), _state(state), losses=losses)
        new = algorithm.round(_state(state), Clients(problem, cohort, Exact(), state.theta))
        after = {
            f"{n}_next": getattr(new, k)[:, None]
            for n, k in (("theta", "x"), ("h", "h"), ("stored", "stored"), ("local", "local"))
        }
        return replace(everyone, constants=replace(everyone.constants, P=getattr(sampling, "size", problem.num_clients)), **after)

    how = f", {scenarios} scenarios"
    return _made(
        name + how, algorithm.rule, T, start(scenarios), drawn, False, lambda t, cohorts: np.zeros(scenarios, dtype=int)
    )


def _state(state: RationalState) -> FedElasticNetDynState:
    return FedElasticNetDynState(state.theta, state.stored, state.h, state.local)
