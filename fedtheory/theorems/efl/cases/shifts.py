"""Sections 4.3 and 4.4 on a problem of a user's: what counts after a departure, the step after a
shift, and Theorem 1 across it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.local import LocalSGD
from fedtheory.participation.irregular import Irregular, joint_law
from fedtheory.rational import simplest, simplest_each, to_file
from fedtheory.theorems.efl.cases.given import (
    Made,
    check_all_active,
    client_of,
    given_number,
    given_whole,
    quadratics_of,
    weights_of,
)
from fedtheory.theorems.efl.cases.limits import uncompressed
from fedtheory.theorems.efl.cases.theorem_1 import ROUNDS, law_of, local_sgd_of
from fedtheory.theorems.efl.cases.theorem_2 import shift_on
from fedtheory.theorems.efl.notation import instance_of
from fedtheory.theorems.efl.quantities.run import gamma_of, given_curvatures
from fedtheory.theorems.efl.statements.shifted_run import shifted_run, without
from fedtheory.theory.judge.setting import Case
from fedtheory.theory.judge.statement import Form
from fedtheory.theory.rounds.coefficients import RoundLaw
from fedtheory.theory.rounds.second_moments import oracles_of

__all__ = ["after_shift", "departed", "restart"]

MOST = 400  # rounds in fractions


def departed(form: Form, case: Case) -> Any:
    """The data of kind 'departed': E[p s]/p^k of every round before the client leaves, from the
    laws of s^k in fractions.

    tau_0 is the last round, counted from 0, in which the client that leaves may work: given, else
    its window's, else half of them. What the others' ratios become afterwards does not matter: they
    are > 0 and its own is 0.
    """
    scheme, rounds, a = uncompressed(case.algorithm).scheme, case.rounds or ROUNDS, client_of(case)
    if scheme == "C-corrected":
        raise InvalidInput("a client that has left for good has no corrected coefficient: use scheme A, B or C")
    law, weights = law_of(case), weights_of(case.problem)
    gone = (getattr(law, "present", None) or [(None, None)] * case.problem.num_clients)[a][1]
    tau_0 = given_whole(case, "tau_0", rounds // 2 if gone is None else gone - 2, most=rounds - 1)
    if gone is not None and tau_0 != gone - 2:
        raise InvalidInput(f"tau_0 = {tau_0}, but client {a} is gone from round {gone}, after tau = {gone - 2}: give one of them")
    order, kept, work = [*(k for k in range(len(weights)) if k != a), a], {}, []
    for t in range(1, rounds + 1):
        rows = law.law(t)
        if gone is not None and t >= gone:
            rows = law.law(gone - 1)  # its own ratio is set to 0 there
        key = rows.tobytes()
        if key not in kept:
            exact = simplest_each(rows)
            exact = exact / exact.sum(axis=1)[:, None]
            first = RoundLaw(EFL(scheme=scheme), exact, weights).single[0]
            kept[key] = ((first * np.arange(exact.shape[1])).sum(axis=1) / weights)[order]
        work.append(kept[key])
    return instance_of("departed", case.problem.name, to_file({"T": rounds, "tau_0": tau_0, "mean_work": work}))


def after_shift(form: Form, case: Case) -> Any:
    """The data of kind 'after-shift' of quadratics: the new objective's curvatures along its
    eigenvectors, and the old optimum there.

    One round with E = 1, all active, is a gradient step on the new objective; its second moments,
    noise alike in all directions, are those of the coordinates along the eigenvectors, one by one.
    gamma is Theorem 1's for E = theta = S = 1 unless given, and of additive noise of norm s at
    every client a coordinate keeps s^2 sum p_k^2/d.
    """
    uncompressed(case.algorithm)
    problem, solver = case.problem, case.local_solver
    if solver is not None and not isinstance(solver, LocalSGD):
        raise InvalidInput(f"local work by {type(solver).__name__}: the statement is about one local step; use LocalSGD(1, 1.0)")
    if isinstance(solver, LocalSGD) and (solver.steps != 1 or callable(solver.lr)):
        raise InvalidInput(f"E = {solver.steps}: the statement is about one local step with Theorem 1's size; use LocalSGD(1, 1.0)")
    if isinstance(solver, LocalSGD) and solver.batch_size is not None and "sigma_sq" not in case.given:
        raise MissingCapability("the noise of mini-batches depends on the model: give sigma_sq, the noise of a coordinate")
    arrive = [k for k, window in enumerate(getattr(case.sampling, "present", None) or ()) if window[0] is not None]
    a = arrive[0] if arrive else client_of(case)
    if problem.num_clients < 2:
        raise InvalidInput("N = 1 client: with nobody left there is no new objective, use at least two clients")
    check_all_active(case, a, arrives=bool(arrive))
    (H, b), others = quadratics_of(problem), np.delete(np.arange(problem.num_clients), a)
    everybody, rest = problem.weights, np.where(np.arange(problem.num_clients) == a, 0.0, problem.weights)
    old, new = (rest / rest.sum(), everybody) if arrive else (everybody, rest / rest.sum())
    L, least = float(problem.beta_k[others if not arrive else slice(None)].max()), float(problem.mu_k.min())
    if not least > 0:
        raise InvalidInput(f"mu = {least:.6g}, the limit is > 0: the optima are not unique; add a ridge")
    L, mu = given_curvatures(case.given, L, least)
    curvature, axes = np.linalg.eigh(np.einsum("n,nij->ij", new, H))
    points = [np.linalg.solve(np.einsum("n,nij->ij", w, H), w @ b) for w in (old, new)]
    h, start = simplest_each(curvature), simplest_each(axes.T @ (points[0] - points[1]))
    mu = min(simplest(float(mu)), h.min())
    gamma = given_number(case, "gamma", lambda: gamma_of(1, 1, simplest(float(L)), mu, [Fraction(1)]), above=0)
    if 16 * h.max() > mu * (1 + gamma):
        raise InvalidInput(f"gamma = {float(gamma):.6g}: the first step 16/(mu (1 + gamma)) must be at most 1/L, use at least 16 L/mu")
    noise_sq = solver.noise_std**2 * float((new**2).sum()) / problem.dim if isinstance(solver, LocalSGD) else 0.0
    data = {
        "curvature": h, "start": start, "mu": mu, "gamma": gamma,
        "tau_0": given_whole(case, "tau_0", 10), "rounds": min(case.rounds or 10, MOST),
        "sigma_sq": given_number(case, "sigma_sq", noise_sq, least=0),
    }
    return instance_of("after-shift", problem.name, to_file(data))


def _moved(case: Case, rounds: int) -> tuple[str, int, int]:
    """'departure' or 'arrival', the client, and the rounds before: as the windows say, else as
    given, else half of the rounds."""
    windows = getattr(case.sampling, "present", None) or ()
    come = [k for k, window in enumerate(windows) if window[0] not in (None, 1)]
    if len(come) + sum(gone is not None for _, gone in windows) > 1:
        raise InvalidInput("several clients come or go: the statement is about one departure or one arrival, keep one window")
    event, a = ("arrival", come[0]) if come else ("departure", client_of(case))
    when = windows[a][0 if come else 1] if windows else None
    tau_0 = given_whole(case, "tau_0", rounds // 2 if when is None else when - 1, least=1, most=rounds - 1)
    if when is not None and tau_0 != when - 1:
        raise InvalidInput(f"tau_0 = {tau_0}, but client {a}'s window leaves {when - 1} rounds before the {event}: give one of them")
    return event, a, tau_0


def restart(form: Form, case: Case) -> Any:
    """A run of strongly convex quadratic clients that one of them leaves or joins, in exact second moments.

    Raises
    ------
    InvalidInput, MissingCapability
        Clients that come or go more than once, that depend on each other, or that are not quadratic; one client; one round.
    """
    problem, algorithm, rounds, law = case.problem, uncompressed(case.algorithm), case.rounds or ROUNDS, law_of(case)
    if problem.num_clients < 2 or rounds < 2:
        raise InvalidInput(f"N = {problem.num_clients}, T = {rounds}: a shift needs two clients and a round before it and after it")
    law.check_run(problem.num_clients, rounds)
    if not isinstance(law, Irregular) or any(joint_law(law, t) is not None for t in range(1, rounds + 1)):
        raise MissingCapability("clients that depend on each other: exact second moments are for independent ones")
    event, a, tau_0 = _moved(case, rounds)
    solver = local_sgd_of(case, law)
    oracles = oracles_of(problem, solver.batch_size, solver.noise_std)
    rest, others = without(oracles, a), np.delete(np.arange(problem.num_clients), a)

    def side(there: bool, when: range) -> Any:
        who, keep = (oracles, np.arange(problem.num_clients)) if there else (rest, others)
        kept: dict[bytes, RoundLaw] = {}
        laws = []
        for t in when:
            rows = law.law(t)[keep]
            laws.append(kept.setdefault(rows.tobytes(), RoundLaw(algorithm, rows, who.weights)))
        return who, laws

    old, new = side(event == "departure", range(1, tau_0 + 1)), side(event == "arrival", range(tau_0 + 1, rounds + 1))
    view = shifted_run(old, new, np.asarray(case.x0, dtype=float), shift_on(problem, event, a))
    view.noise = view.shift.noise + 1e-13 * float(view.before.distance_sq[0] + view.shift.distance_sq)
    return Made(view)
