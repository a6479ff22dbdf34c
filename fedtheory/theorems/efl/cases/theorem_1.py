"""Theorem 1 of EFL, and the steps of its proof, on a problem of a user's: assumptions first, by name, value and limit."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fedtheory.algorithms.efl import EFL
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.inputs import real_array
from fedtheory.local import LocalSGD
from fedtheory.local.objective import LocalSolver
from fedtheory.participation.irregular import Participation
from fedtheory.problems.base import Problem
from fedtheory.randomness import Stream
from fedtheory.theorems.efl.quantities.exact_run import quadratic_run, round_laws
from fedtheory.theorems.efl.quantities.measured_run import check_present, constants_of, measured_run, moments_of_rounds
from fedtheory.theorems.efl.quantities.run import EFLConstants, gamma_of, given_curvatures, step_sizes
from fedtheory.theorems.efl.quantities.step import reached
from fedtheory.theory.judge.setting import Case
from fedtheory.theory.rounds.coefficients import RoundLaw
from fedtheory.theory.rounds.irregular_run import enumerable, law_of, local_sgd_of
from fedtheory.theory.rounds.second_moments import oracles_of

STEPS = 5  # E where neither the sampling nor the solver says
ROUNDS = 50  # T where nothing is said


def assumption_failure(problem: Problem, algorithm: Any, solver: LocalSolver | None, frozen: bool = False) -> str | None:
    """The first assumption of Theorem 1 that a problem, an algorithm or its local work fails, with
    value and limit; None if none.

    frozen : whether anchors are given that never move, with which lambda may be > 0
    """
    if not isinstance(algorithm, EFL):
        return f"the statement is about EFL, not {type(algorithm).__name__}"
    if algorithm.lam != 0 and not frozen:
        return (
            f"lambda = {algorithm.lam:g}, the limit is 0: while the anchors move, sum_k p^k F~_k "
            "has no fixed minimiser; for anchors that never move give u_0 and v_0"
        )
    for name, compressor in (("compressor", algorithm.compressor), ("down_compressor", algorithm.down_compressor)):
        if compressor is not None:
            return f"{name} = {compressor.name}: no theorem under compression is stated or proved; use None"
    if solver is not None and not isinstance(solver, LocalSGD):
        return f"local work by {type(solver).__name__}: gradients must be unbiased given the past, use LocalSGD"
    if not problem.convex:
        return "some client's loss is not convex (Assumption 2)"
    try:
        mu = problem.mu_k
    except MissingCapability as error:
        return str(error)
    if not mu.min() > 0:
        return f"client {int(np.argmin(mu))} has mu_k = {float(mu.min()):.6g}, the limit is > 0 (Assumption 2): add a ridge"
    if not problem.weights.min() > 0:
        return f"client {int(np.argmin(problem.weights))} has p^k = 0, the limit is > 0: leave it out"
    return None


def laws_along(scheme: str, law: Participation, rounds: int, weights: np.ndarray) -> list[RoundLaw]:
    """The laws of rounds 1..T."""
    return round_laws(scheme, [law.law(t) for t in range(1, rounds + 1)], rounds, weights)


def check_step_sizes(
    problem: Problem, algorithm: EFL, sampling: Participation, rounds: int, solver: LocalSGD, given: Mapping[str, Any]
) -> None:
    """Check that a step size asked for is the theorem's; a plain number stands for that."""
    if not callable(solver.lr):
        return
    m = moments_of_rounds(algorithm.scheme, sampling, rounds, problem.weights)
    E, S = sampling.max_steps, [float(v.sum_ps) for v in m]
    L, mu = given_curvatures(given, float(problem.beta_k.max()), float(problem.mu_k.min()))
    gamma = gamma_of(E, float(max(v.theta for v in m)), L, mu, S)
    for t, eta in enumerate(step_sizes(E, mu, gamma, S), start=1):
        if abs(solver.lr(t) - eta) > 1e-9 * eta:
            raise InvalidInput(f"lr({t}) = {solver.lr(t):.6g}, but Theorem 1 takes eta_{t - 1} = {eta:.6g}: use TheoremStep")


def anchors_of(case: Case) -> tuple[float, np.ndarray, np.ndarray] | None:
    """lambda, u_0 and the anchors v_0/u_0 (N, d) of an elastic term whose anchors never move; None where they are not given."""
    names = [n for n in ("u_0", "v_0") if n in case.given]
    if not names:
        return None
    if len(names) == 1:
        raise InvalidInput(f"{names[0]} is given without {'v_0' if names == ['u_0'] else 'u_0'}: frozen anchors need both")
    u, v = (real_array(n, case.given[n]) for n in ("u_0", "v_0"))
    shape = (case.problem.num_clients, case.problem.dim)
    if u.shape != shape or v.shape != shape:
        raise InvalidInput(f"u_0 {u.shape} and v_0 {v.shape}: give a row of d numbers for every client, {shape}")
    if not (u >= 0).all() or (v[u == 0] != 0).any():
        raise InvalidInput("u_0 must be >= 0, and v_0 = u_0 times a model: 0 where u_0 is 0")
    return float(case.algorithm.lam), u, np.divide(v, u, out=np.zeros(shape), where=u > 0)


def constants_on(case: Case, law: Participation | None = None, scheme: str | None = None) -> EFLConstants:
    """Theorem 1's constants for a case without its run, under its own law of s_k or another."""
    problem, rounds, law = case.problem, case.rounds or ROUNDS, law_of(case) if law is None else law
    scheme = str(scheme or getattr(case.algorithm, "scheme", "C"))
    reason = assumption_failure(problem, EFL(scheme=scheme), case.local_solver)  # type: ignore[arg-type]
    if reason is not None:
        raise InvalidInput(reason)
    solver = local_sgd_of(case, law)
    law.check_run(problem.num_clients, rounds)
    solver.check(problem)
    if enumerable(problem, law, solver, rounds):
        oracles = oracles_of(problem, solver.batch_size, solver.noise_std)
        return quadratic_run(oracles, laws_along(scheme, law, rounds, problem.weights), case.x0, given=case.given).constants
    if solver.noise_std:
        raise MissingCapability(f"noise_std = {solver.noise_std:g} is unbounded noise: G is then proved for quadratics only")
    return constants_of(problem, scheme, law, rounds, case.x0[None], solver.batch_size, case.given)[0]


def as_enumerated(case: Case) -> tuple[Any, list[RoundLaw], Any]:
    """The clients' oracles, the laws of T rounds, and the run in exact second moments: what the proof is walked on."""
    if anchors_of(case) is not None or case.given:
        raise InvalidInput("the proof is walked with the theorem's own constants and lambda = 0: give nothing of them")
    run = view_of("run", replace(case, mode="auto"))
    law = law_of(case)
    solver = local_sgd_of(case, law)
    rounds = case.rounds or ROUNDS
    if not enumerable(case.problem, law, solver, rounds) or solver.noise_std:
        raise MissingCapability("a round is enumerated for quadratic losses, independent clients, and no additive noise")
    return oracles_of(case.problem, solver.batch_size), laws_along(case.algorithm.scheme, law, rounds, case.problem.weights), run


def view_of(kind: str, case: Case) -> Any:
    """The run (kind 'run') of T = 50 rounds, where nothing else is said, or its first rounds one by
    one ('step').

    Exact second moments for quadratic losses and independent clients; real runs otherwise. A step
    size that is a number stands for the theorem's, a schedule must be it.
    """
    anchors = anchors_of(case)
    reason = assumption_failure(case.problem, case.algorithm, case.local_solver, anchors is not None)
    if reason is not None:
        raise InvalidInput(reason)
    problem, algorithm, rounds, law = case.problem, case.algorithm, case.rounds or ROUNDS, law_of(case)
    solver = local_sgd_of(case, law)
    law.check_run(problem.num_clients, rounds)
    check_present(law, rounds)
    solver.check(problem)
    anchored = anchors is not None and algorithm.lam > 0
    if anchored and callable(solver.lr):
        raise InvalidInput("with frozen anchors the step size is Theorem 1's for L~ and mu~: give no schedule")
    check_step_sizes(problem, algorithm, law, rounds, solver, case.given)
    exact = enumerable(problem, law, solver, rounds)
    if kind == "step":
        if not exact or solver.noise_std or anchored:
            raise MissingCapability("one round is enumerated for quadratic losses, independent clients, lambda = 0, no additive noise")
        oracles = oracles_of(problem, solver.batch_size)
        laws = laws_along(algorithm.scheme, law, min(rounds, 6), problem.weights)
        return reached(oracles, laws, case.x0, Stream(case.seed).generator("efl path"))
    if exact and case.mode != "monte-carlo":
        oracles = oracles_of(problem, solver.batch_size, solver.noise_std)
        laws = laws_along(algorithm.scheme, law, rounds, problem.weights)
        return quadratic_run(oracles, laws, case.x0, anchors=anchors if anchored else None, given=case.given)
    if anchored:
        raise MissingCapability("frozen anchors need exact second moments: quadratic losses, independent clients, no Monte Carlo")
    if case.mode == "exact":
        raise MissingCapability("exact expectations need quadratic losses and independent clients: use mode='monte-carlo'")
    if solver.noise_std:
        raise MissingCapability(f"noise_std = {solver.noise_std:g} is unbounded noise: G is then proved for quadratics only")
    return measured_run(
        problem, algorithm.scheme, law, rounds, case.x0, case.scenarios, case.seed,
        solver.batch_size, replacement=solver.replacement, given=case.given,
    )
