"""Sentences of EFL's text, on a user's problem."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.algorithms.efl import EFL
from fedtheory.errors import InvalidInput
from fedtheory.local import LocalSGD
from fedtheory.rational import simplest, simplest_each, to_file
from fedtheory.theorems.efl.cases.given import Made, client_of, given_number, given_whole, quadratics_of
from fedtheory.theorems.efl.cases.limits import uncompressed
from fedtheory.theorems.efl.cases.messages import simulated
from fedtheory.theorems.efl.cases.theorem_1 import law_of
from fedtheory.theorems.efl.notation import instance_of
from fedtheory.theorems.efl.quantities.run import gamma_of, given_curvatures
from fedtheory.theorems.efl.statements.section_4_runs import AwayView, QuadraticClients
from fedtheory.theorems.efl.statements.section_4_sentences import SamplesView
from fedtheory.theory.judge.setting import Case
from fedtheory.theory.judge.statement import Form

__all__ = ["away", "coefficient", "samples", "term"]

MOST_NUMBERS = 2000  # in fractions
MOST_ROUNDS = 60  # of runs that are made once for every round


def _strongly_convex(case: Case) -> tuple[float, float]:
    """L and mu of all clients. Raises `InvalidInput` where mu is 0."""
    L, mu = float(case.problem.beta_k.max()), float(case.problem.mu_k.min())
    if not mu > 0:
        raise InvalidInput(f"mu = {mu:g}, the limit is > 0: the optima are not unique; add a ridge")
    return L, mu


def _a_last(case: Case) -> tuple[QuadraticClients, np.ndarray]:
    """The clients in floats, and their order, client a last. Raises `MissingCapability` for losses
    that are not quadratic."""
    H, b = quadratics_of(case.problem)
    a = client_of(case)
    order = np.array([*(k for k in range(len(b)) if k != a), a])
    return QuadraticClients(np.asarray(H, dtype=float)[order], np.asarray(b, dtype=float)[order]), order


def away(form: Form, case: Case) -> Any:
    """Runs of quadratic clients with Theorem 1's steps and E = 1, of T = 10 rounds where nothing
    else is said.

    gamma is Theorem 1's for E = theta = S = 1 unless given. Who is away and when is the
    statement's; the user's law of s^k is not used.
    """
    uncompressed(case.algorithm)
    (clients, order), (L, mu) = _a_last(case), _strongly_convex(case)
    L, mu = given_curvatures(case.given, L, mu)
    gamma = float(given_number(case, "gamma", gamma_of(1, 1, L, mu, [1]), above=0))
    if 16 * L > mu * (1 + gamma) * (1 + 1e-12):
        raise InvalidInput(f"gamma = {gamma:.6g}: the first step 16/(mu (1 + gamma)) must be at most 1/L, "
                           f"use at least {16 * L / mu:.6g}")
    rounds = min(case.rounds or 10, MOST_ROUNDS)
    if rounds < 2:
        raise InvalidInput(f"T = {rounds}: two rounds are compared; ask for at least two")
    x0 = np.asarray(case.x0, dtype=float)
    view = AwayView(clients, case.problem.weights[order], mu, gamma, rounds, x0)
    reach = float(max(np.linalg.norm(x) for x in (x0, view.star, clients.argmin(view.rest))))
    view.noise = 1e-12 * max(1.0, L) ** 2 * max(reach, reach**2)
    return Made(view)


def coefficient(form: Form, case: Case) -> Any:
    """The data of kind 'coefficient' of one quadratic client, along the eigenvectors of its
    Hessian, from the start.

    The client is the one that is named, else the first; it does s of E local steps (s = 1 where
    nothing is said), and the factor is scheme C's E/s. The step is that of local work if it is a
    number, else s/(E L), the longest that is judged.
    """
    law, problem, solver = law_of(case), case.problem, case.local_solver
    k, E = given_whole(case, "client", 0, most=problem.num_clients - 1), law.max_steps
    s = given_whole(case, "s", 1, least=1, most=E)
    H, b = quadratics_of(problem)
    h, axes = np.linalg.eigh(np.asarray(H, dtype=float)[k])
    if not h.min() > 0:
        raise InvalidInput(f"client {k} has the curvature {float(h.min()):.6g}, the limit is > 0: add a ridge")
    longest = s / (E * float(h.max()))
    eta = float(solver.lr) if isinstance(solver, LocalSGD) and not callable(solver.lr) else longest
    if eta > longest * (1 + 1e-12):
        raise InvalidInput(f"lr = {eta:.6g}: E/s times the step must be at most 1/L, the limit here is {longest:.6g}")
    away = simplest_each(axes.T @ (np.linalg.solve(np.asarray(H, dtype=float)[k], b[k]) - case.x0))
    curvatures = simplest_each(h)
    data = {
        "h": curvatures, "away": away, "eta": min(simplest(eta), Fraction(s, E) / max(curvatures)),
        "E": E, "s": s, "factor": Fraction(E, s),
    }
    return instance_of("coefficient", problem.name, to_file(data))


def samples(form: Form, case: Case) -> Any:
    """The bounds of Theorem 2 on quadratic clients, with half of client a's samples, and with
    minimisers half as far from 0."""
    clients, order = _a_last(case)
    (L, mu), weights = _strongly_convex(case), case.problem.weights
    counts = np.asarray(case.problem.sample_counts)
    own = counts if np.allclose(weights * counts.sum(), counts, rtol=1e-12) else weights
    sizes = np.asarray(own, dtype=float)[order]
    points = [clients.argmin(p / p.sum()) for p in (sizes, np.append(sizes[:-1], 0.0), np.append(0.0 * sizes[:-1], 1.0))]
    reach = float(max(np.linalg.norm(x) for x in points))
    noise = 1e-12 * 8 * (L * reach / mu) ** 2
    return Made(SamplesView(clients, sizes, sizes[-1] / 2, 0.5, L, mu, noise))


def term(form: Form, case: Case) -> Any:
    """The data of kind 'term': the pairs (u^i, v^i) and the models of a real run of the user's
    method, after its last two rounds.

    Looked at are the start, the server's last model and the mean of both.
    """
    algorithm, problem = case.algorithm, case.problem
    if not isinstance(algorithm, EFL) or not algorithm.lam > 0:
        raise InvalidInput(f"lambda = {getattr(algorithm, 'lam', 0):g}, the limit is > 0: the statement is about the elastic term")
    if problem.num_clients * problem.dim > MOST_NUMBERS:
        raise InvalidInput(f"N d = {problem.num_clients * problem.dim}: at most {MOST_NUMBERS} are judged in fractions; take fewer "
        f"clients")
    states, _, taking = simulated(case, lambda new, clients: [np.asarray(clients.cohort.dense().mask)[0]])
    if len(taking) < 2:
        raise InvalidInput("one round: the term is looked at after two of them; ask for more rounds")
    pairs = [[simplest_each(np.asarray(side)[0]) for side in (s.u, s.v)] for s in states[-2:]]
    anchors = [np.where(u > 0, v / np.where(u > 0, u, 1), 0) for u, v in pairs]
    first, last = simplest_each(case.x0), simplest_each(np.asarray(states[-1].x)[0])
    data = {
        "lam": simplest(algorithm.lam), "u": pairs[0][0], "anchors": anchors[0],
        "next_u": pairs[1][0], "next_anchors": anchors[1],
        "points": [first, last, (first + last) / 2],
        "active": [int(k) for k in np.flatnonzero(taking[-2])],
    }
    return instance_of("term", problem.name, to_file(data))
