"""Theorem 1 of EFL, and the steps of its proof, on a problem of yours: assumptions first, by name, value and limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedtheory.algorithms.efl import EFL
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.local import LocalSGD
from fedtheory.local.objective import LocalSolver
from fedtheory.participation.cohorts import Full, Sampling
from fedtheory.participation.irregular import Irregular, Participation, as_irregular, complete, joint_law
from fedtheory.problems.base import Problem
from fedtheory.problems.linear import LeastSquares
from fedtheory.problems.quadratic import Quadratic
from fedtheory.randomness import Stream
from fedtheory.simulation.simulate import check_start
from fedtheory.theorems.efl.instances.runs import KINDS, reached
from fedtheory.theorems.efl.quantities.exact_run import quadratic_run
from fedtheory.theorems.efl.quantities.measured_run import measured_run, moments_of_rounds
from fedtheory.theorems.efl.quantities.run import gamma_of, step_sizes
from fedtheory.theorems.efl.quantities.second_moments import MAX_SUBSETS, RoundLaw, oracles_of
from fedtheory.theorems.efl.shift_on_a_problem import event_of, shift_on, who_moves
from fedtheory.verification.setting import judge_efl, kind_of
from fedtheory.verification.statement import Check, Form, Statement
from fedtheory.verification.verify import CONFIDENCE

__all__ = ["assumption_failure", "verify"]

OWN_INSTANCES = (
    "about instances of its own, not about a problem's run: `fedtheory verify` judges it on the battery, and where it fails a "
    "witness says so"
)
THEOREM = "efl/theorem-1"
STEPS = 5  # E where neither the sampling nor the solver says


def assumption_failure(problem: Problem, algorithm: Any, solver: LocalSolver | None) -> str | None:
    """The first assumption of Theorem 1 that a problem, an algorithm or its local work fails, with value and limit; None if none."""
    if not isinstance(algorithm, EFL):
        return f"the statement is about EFL, not {type(algorithm).__name__}"
    if algorithm.lam != 0:
        return f"lambda = {algorithm.lam:g}, the limit is 0: while the anchors move, sum_k p^k F~_k has no fixed minimiser"
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


def _enumerable(problem: Problem, sampling: Participation, scheme: str, solver: LocalSGD, rounds: int) -> bool:
    """Whether the exact recursion applies: quadratic losses, independent clients."""
    if not isinstance(problem, Quadratic | LeastSquares) or not isinstance(sampling, Irregular):
        return False
    if solver.batch_size is not None and not (solver.replacement and isinstance(problem, LeastSquares)):
        return False
    if any(joint_law(sampling, t) is not None for t in range(1, rounds + 1)):
        return False
    return scheme != "A" or problem.num_clients <= MAX_SUBSETS


def _laws(scheme: str, sampling: Participation, rounds: int, weights: np.ndarray) -> list[RoundLaw]:
    kept: dict[bytes, RoundLaw] = {}
    out = []
    for t in range(1, rounds + 1):
        law = sampling.law(t)
        out.append(kept.setdefault(law.tobytes(), RoundLaw(scheme, law, weights)))
    return out


def _check_step_sizes(problem: Problem, algorithm: EFL, sampling: Participation, rounds: int, solver: LocalSGD) -> None:
    """A step size that was asked for must be the theorem's; a plain number stands for "the theorem's"."""
    if not callable(solver.lr):
        return
    m = moments_of_rounds(algorithm.scheme, sampling, rounds, problem.weights)
    E, mu, S = sampling.max_steps, float(problem.mu_k.min()), [float(v.sum_ps) for v in m]
    gamma = gamma_of(E, float(max(v.theta for v in m)), float(problem.beta_k.max()), mu, S)
    for t, eta in enumerate(step_sizes(E, mu, gamma, S), start=1):
        if abs(solver.lr(t) - eta) > 1e-9 * eta:
            raise InvalidInput(f"lr({t}) = {solver.lr(t):.6g}, but Theorem 1 takes eta_{t - 1} = {eta:.6g}: use TheoremStep")


def _check_present(sampling: Participation, rounds: int) -> None:
    for t in range(1, rounds + 1):
        present = sampling.present_in(t)
        if present is not None and not present.all():
            k = int(np.argmin(present))
            raise InvalidInput(f"client {k} is not there in round {t}: Theorem 1's objective is fixed; let it be inactive instead")


def _view(
    kind: str, problem: Problem, algorithm: EFL, sampling: Participation, solver: LocalSGD, x0: np.ndarray, rounds: int, mode: str,
    scenarios: int, seed: int,
) -> Any:  # fmt: skip
    exact = _enumerable(problem, sampling, algorithm.scheme, solver, rounds)
    if kind == "step":
        if not exact or solver.noise_std:
            raise MissingCapability("one round is enumerated for quadratic losses and independent clients, without additive noise")
        oracles = oracles_of(problem, solver.batch_size)
        laws = _laws(algorithm.scheme, sampling, min(rounds, 6), problem.weights)
        return reached(oracles, laws, x0, Stream(seed).generator("efl path"))
    if exact and mode != "monte-carlo":
        oracles = oracles_of(problem, solver.batch_size, solver.noise_std)
        return quadratic_run(oracles, _laws(algorithm.scheme, sampling, rounds, problem.weights), x0)
    if mode == "exact":
        raise MissingCapability("exact expectations need quadratic losses and independent clients: use mode='monte-carlo'")
    if solver.noise_std:
        raise MissingCapability(f"noise_std = {solver.noise_std:g} is unbounded noise: G is then proved for quadratics only")
    return measured_run(
        problem, algorithm.scheme, sampling, rounds, x0, scenarios, seed, solver.batch_size, replacement=solver.replacement
    )


def verify(
    statement: Statement,
    problem: Problem,
    algorithm: Any,
    *,
    forms: Sequence[Form] | None = None,
    sampling: Sampling | None = None,
    local_solver: LocalSolver | None = None,
    x0: Any = None,
    rounds: int | None = None,
    mode: str = "auto",
    scenarios: int = 200,
    seed: int = 0,
    confidence: float = CONFIDENCE,
) -> list[Check]:
    """The forms of Theorem 1, of a step of its proof, or of Theorem 2, on a user's problem.

    Parameters
    ----------
    sampling : laws of s_k (`fedtheory.participation`), or any cohort law, whose participants are complete; default full
        For Theorem 2 only its windows count: the client that leaves or joins (default the last).
    local_solver : LocalSGD
        E, the mini-batch and the noise; its step size must be the theorem's where it is a schedule, and is replaced where it is a
        number. Default: full gradients, E from the sampling, else 5.
    rounds : horizon T, default 50
    mode : 'exact', 'monte-carlo' or 'auto'
        Exact second moments for quadratic losses; real runs otherwise.

    Returns
    -------
    list of Check
        The constants stand in ``where['constants']``. 'not applicable' names the assumption that fails, with value and limit;
        'inconclusive' what could not be certified.
    """
    chosen = list(statement.forms if forms is None else forms)
    rule = getattr(algorithm, "scheme", "any")

    def outside(form: Form, reason: str, verdict: Any = "not applicable") -> Check:
        known = rule if rule in form.established or "any" not in form.established else "any"
        return Check(statement.id, form.name, known, verdict, "exact", reason=reason, instance=problem.name)

    optima = all(kind_of(f) == "shift" for f in chosen)  # Theorem 2 is about optima: whatever the algorithm
    reason = assumption_failure(problem, EFL() if optima else algorithm, None if optima else local_solver)
    if reason is not None:
        return [outside(f, reason) for f in chosen]
    views: dict[str, Any] = {}
    out = []
    for form in chosen:
        kind = kind_of(form)
        if kind not in (*KINDS, "shift"):
            out.append(outside(form, OWN_INSTANCES))
            continue
        try:
            if kind == "shift" and kind not in views:
                event = event_of(form.requires)
                views[kind] = shift_on(problem, event, who_moves(sampling, event, problem.num_clients))
            elif kind not in views:
                given = sampling.max_steps if isinstance(sampling, Participation) else None
                E = given or (local_solver.steps if isinstance(local_solver, LocalSGD) else STEPS)
                solver = local_solver if isinstance(local_solver, LocalSGD) else LocalSGD(E, 1.0)
                full = sampling is None or isinstance(sampling, Full)
                law = complete(problem.num_clients, E) if full else as_irregular(sampling, E, problem.num_clients)
                law.check_run(problem.num_clients, rounds or 50)
                _check_present(law, rounds or 50)
                solver.check(problem)
                _check_step_sizes(problem, algorithm, law, rounds or 50, solver)
                start = check_start(problem, x0, 1)[0]
                view = _view(kind, problem, algorithm, law, solver, start, rounds or 50, mode, scenarios, seed)
                if statement.id == THEOREM:  # at tau = 0 both sides are ||w_0 - w*||^2
                    view = replace(view, horizons=view.horizons[view.horizons > 0])
                views[kind] = view
        except NotCertified as error:
            out.append(outside(form, str(error), "inconclusive"))
            continue
        except (InvalidInput, MissingCapability) as error:
            out.append(outside(form, str(error)))
            continue
        reason = views[kind].applies(form)
        if reason is None and views[kind].rule not in form.established:
            reason = f"not claimed for scheme {rule}"
        if reason is not None:
            out.append(outside(form, reason))
            continue
        check = judge_efl(statement, form, views[kind], problem.name, confidence)
        if statement.id == THEOREM:
            check.where["tau"] = int(views[kind].horizons[check.where.pop("index")[0]])
        out.append(check)
    return out

