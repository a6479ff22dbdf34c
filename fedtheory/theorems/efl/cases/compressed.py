"""Convergence with compression on a problem of a user's: a real run of EFL, all clients complete, full gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.algorithms.efl import EFL
from fedtheory.errors import InvalidInput
from fedtheory.local import LocalSGD
from fedtheory.local.local_sgd import TheoremStep
from fedtheory.messages.compressors import Compressor
from fedtheory.participation.moments import moments
from fedtheory.simulation.simulate import simulate
from fedtheory.steps import Loop
from fedtheory.theorems.efl.cases.given import Made, distance_off, law_in_fractions
from fedtheory.theorems.efl.cases.theorem_1 import ROUNDS, assumption_failure, law_of
from fedtheory.theorems.efl.quantities.compressed_participation import (
    MOST,
    PartialView,
    cases_of,
    gamma_with_participation,
    play,
    steps_with_participation,
)
from fedtheory.theorems.efl.quantities.compressed_run import CompressedView, gamma_under_compression, steps_of
from fedtheory.theorems.efl.quantities.measured_run import client_minima
from fedtheory.theorems.efl.quantities.run import given_curvatures
from fedtheory.theory.judge.setting import Case
from fedtheory.theory.judge.statement import Form

__all__ = ["compressed", "frozen", "partial"]

SHORTER = ("st", "top-k", "scaled-sign")  # deterministic, and ||C(x)|| <= ||x||


def frozen(form: Form, case: Case) -> Any:
    """Not made of a problem of a user's. Raises `InvalidInput`, always."""
    raise InvalidInput("the residuals' period at w* is looked at in fractions, on instances of its own: `fedtheory replay` shows one")


def _factor(compressor: Compressor | None, dim: int) -> float | None:
    """delta of a compressor that the theorem is about; None where nothing is compressed. Raises
    `InvalidInput` for others."""
    if compressor is None:
        return None
    compressor.check(dim)
    delta = compressor.contraction_exact(dim) if compressor.name in SHORTER else None
    if delta is None or compressor.float_bits != 64:
        raise InvalidInput(
            f"{compressor}: the theorem needs ||C(x) - x||^2 <= (1 - delta)||x||^2 and ||C(x)|| <= "
            "||x|| surely; use ST by the exact rule, TopK or ScaledSign, with float_bits=64"
        )
    return float(delta)


def _method(case: Case) -> EFL:
    """The algorithm, if the theorem is about it. Raises `InvalidInput` with what does not fit."""
    algorithm = case.algorithm
    reason = assumption_failure(case.problem, EFL(lam=getattr(algorithm, "lam", 0.0)), case.local_solver)
    if not isinstance(algorithm, EFL):
        reason = f"the statement is about EFL, not {type(algorithm).__name__}"
    elif algorithm.variant != "consistent" or not algorithm.scaled_before:
        reason = f"variant = {algorithm.variant!r}: the theorem is about 'consistent', with the coefficient before the compressor"
    elif not (algorithm.client_feedback and algorithm.server_feedback):
        reason = "residuals are not kept: use client_feedback=True and server_feedback=True"
    if reason is not None:
        raise InvalidInput(reason)
    return algorithm


def _steps(case: Case) -> int:
    """E, where all clients are complete and gradients are full. Raises `InvalidInput` where they are not."""
    law = law_of(case)
    for t in range(1, (case.rounds or ROUNDS) + 1):
        short = np.flatnonzero(law.law(t)[:, -1] < 1)
        if len(short):
            k = int(short[0])
            raise InvalidInput(f"client {k} may be inactive or incomplete in round {t}: the theorem is about complete clients")
    check_full_gradients(case)
    return law.max_steps


def check_full_gradients(case: Case) -> None:
    """Nothing where local work is plain SGD with full gradients. Raises `InvalidInput` for mini-batches and noise."""
    solver = case.local_solver
    if isinstance(solver, LocalSGD) and (solver.batch_size is not None or solver.noise_std):
        raise InvalidInput("mini-batches or noise: a run is judged with full gradients here; leave them out")


def _local(case: Case, models: np.ndarray, etas: list[float], E: int) -> tuple[np.ndarray, float]:
    """The clients' models within each round (T, E + 1, 1, N, d), and the largest squared gradient that they meet."""
    rounds, loop = list(zip(models, etas, strict=True)), Loop("local work", ([], 0.0))
    out, most = loop.state
    for t in loop.upto(len(rounds)):
        w, eta = rounds[t - 1]
        path = [np.broadcast_to(w, (case.problem.num_clients, len(w)))]
        for _ in range(E):
            g = np.asarray(case.problem.gradient_each(path[-1]))
            most = max(most, float((g * g).sum(axis=-1).max()))
            path.append(path[-1] - eta * g)
        out.append(np.stack(path)[:, None])
        loop.state = out, most
    return np.stack(out), most


def compressed(form: Form, case: Case) -> Any:
    """A real run of the user's method for T = 50 rounds, where nothing else is said, with the theorem's steps.

    Without noise the run is its own expectation: G^2 is the largest squared gradient that it meets. A step that is a number
    stands for the theorem's.

    Raises
    ------
    InvalidInput, MissingCapability
        What the theorem asks of the problem, the compressors, the participation or the local work.
    NotCertified
        An optimum that cannot be certified.
    """
    algorithm, problem, T, E = _method(case), case.problem, case.rounds or ROUNDS, _steps(case)
    delta, down = (_factor(c, problem.dim) for c in (algorithm.compressor, algorithm.down_compressor))
    L, mu = given_curvatures(case.given, float(problem.beta_k.max()), float(problem.mu_k.min()))
    gamma = gamma_under_compression(E, L, mu, min(1.0 if d is None else d for d in (delta, down)))
    schedule, etas = TheoremStep(mu, E, gamma, float(E)), steps_of(E, mu, gamma, T)
    solver = case.local_solver
    if isinstance(solver, LocalSGD) and callable(solver.lr) and any(abs(solver.lr(t + 1) - e) > 1e-9 * e for t, e in enumerate(etas)):
        raise InvalidInput("the schedule of lr is not the theorem's, 16/(mu ((t + 1) E + gamma)): leave it out")
    optimum = problem.optimum()
    off = distance_off(problem, optimum)
    run = simulate(problem, algorithm, T, case.x0, None, 1, case.seed, LocalSGD(E, schedule), record=(), keep_states=True, dense=True)
    states = list(run.states or ())[-T:]
    w = np.concatenate([case.x0[None], *(np.asarray(s.x)[:1] for s in states)])
    R, R_G = np.zeros((T + 1, 1, problem.num_clients, problem.dim)), np.zeros((T + 1, 1, problem.dim))
    for t, s in enumerate(states, start=1):
        R[t, 0] = 0 if s.residuals is None else np.asarray(s.residuals)[0]
        R_G[t, 0] = 0 if s.server_residual is None else np.asarray(s.server_residual)[0]
    local, G_sq = _local(case, w[:-1], etas, E)
    sent = R[:-1] + local[:, -1] - local[:, 0] - R[1:]
    D = np.maximum(problem.client_losses(optimum.x) - client_minima(problem), 0)
    size = max(float(abs(a).max()) for a in (w, local, R, R_G, optimum.x))
    made = CompressedView(
        problem.weights, E, gamma, L, mu, G_sq, delta, down, np.zeros(problem.num_clients), D,
        optimum.x, w[:, None], R, R_G, local, sent,
    )
    points = 1e-13 * size * (T + 10)
    made.noise_of_points, made.noise = points, problem.dim * (points + off) * (points + off + 2 * size)
    return Made(made)




def partial(form: Form, case: Case) -> Any:
    """Every participation of a few rounds on the user's problem, in floats: as many rounds as there
    are paths for, at most 20.

    Raises
    ------
    InvalidInput, MissingCapability
        As `compressed`; laws that change, clients that depend on each other, or too many cases in
        one round.
    NotCertified
        An optimum that cannot be certified.
    """
    algorithm, problem = _method(case), case.problem
    check_full_gradients(case)
    law = law_in_fractions(case, "A").astype(float)  # of independent clients, whatever the scheme
    E, weights = law.shape[1] - 1, problem.weights
    delta, down = (_factor(c, problem.dim) for c in (algorithm.compressor, algorithm.down_compressor))
    L, mu = given_curvatures(case.given, float(problem.beta_k.max()), float(problem.mu_k.min()))
    m, cases = moments(algorithm.scheme, law, E, weights), cases_of(algorithm.scheme, law, weights)
    least = min(1.0 if d is None else d for d in (delta, down))
    gamma = gamma_with_participation(E, L, mu, least, m, float(cases.pi.min()))
    T = min(case.rounds or 20, 20, max(1, int(np.log(MOST) / np.log(len(cases.steps)))) if len(cases.steps) > 1 else 20)
    optimum = problem.optimum()
    etas, up = steps_with_participation(E, mu, gamma, m.sum_ps, T), algorithm.compressor
    gradient = lambda y: np.asarray(problem.gradient_each(y))  # noqa: E731
    mass, G_sq, *paths = play(gradient, cases, up, algorithm.down_compressor, weights, np.asarray(case.x0, dtype=float), etas, E)
    D, off = np.maximum(problem.client_losses(optimum.x) - client_minima(problem), 0), distance_off(problem, optimum)
    size = max(float(abs(a).max()) for a in (*paths, optimum.x))
    points = 1e-13 * size * (T + 10)
    noise = problem.dim * (points + off) * (points + off + 2 * size)
    w, R, R_G = paths
    view = PartialView(weights, mass, m, cases.pi, E, gamma, L, mu, float(G_sq), delta, down, D, optimum.x, w, R, R_G, noise)
    return Made(view)
