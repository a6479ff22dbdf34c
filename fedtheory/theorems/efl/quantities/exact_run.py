"""Views of Theorem 1 on quadratics: the run in exact second moments, its constants, and the witnesses in fractions."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import fraction, integer, table, text, vector
from fedtheory.theorems.efl.quantities.run import (
    FROZEN,
    MOVING,
    EFLConstants,
    EFLRun,
    gamma_of,
    given_bounds,
    given_curvatures,
    step_sizes,
)
from fedtheory.theory.rounds.coefficients import RoundLaw
from fedtheory.theory.rounds.irregular_run import HOW, exact_oracles, laws_of, laws_of_rounds
from fedtheory.theory.rounds.second_moments import QuadraticOracles


def round_laws(scheme: str, laws: list[np.ndarray], rounds: int, weights: np.ndarray, every: int | None = None) -> list[RoundLaw]:
    """One law a round of EFL under a scheme, the last one for all rounds that follow."""
    return laws_of_rounds(EFLRun.method(scheme), laws, rounds, weights, every)


def frozen(oracles: QuadraticOracles, lam: Any, u: np.ndarray, anchors: np.ndarray) -> tuple[QuadraticOracles, Any, Any]:
    """The losses F~_k = f_k + lam/2 sum_i ||w - a_i||^2_{diag u_i} with anchors that stay,
    L~ = L + lam max U, mu~ = mu + lam min U.

    Parameters
    ----------
    u, anchors : (N, d)
    """
    U, V, d = u.sum(axis=0), (u * anchors).sum(axis=0), u.shape[1]
    diagonal = np.zeros((d, d), dtype=oracles.H.dtype) + oracles.H.flat[0] * 0
    diagonal[range(d), range(d)] = lam * U
    return (
        replace(oracles, H=oracles.H + diagonal, b=oracles.b + lam * V),
        oracles.L + lam * U.max(),
        oracles.mu + lam * U.min(),
    )


def quadratic_run(
    oracles: QuadraticOracles, laws: list[RoundLaw], w0: np.ndarray,
    horizons: np.ndarray | None = None, anchors: tuple[Any, np.ndarray, np.ndarray] | None = None,
    given: Mapping[str, Any] | None = None,
) -> EFLRun:
    """T = len(laws) rounds with Theorem 1's step sizes.

    Parameters
    ----------
    horizons : the taus looked at; default all of 0..T
    anchors : (lambda, u, anchors) of an elastic term whose anchors never move
    given : dict
        'L', 'mu', 'G' and 'sigma_sq' in place of the exact ones, which they must bound.
    """
    L, mu, given = oracles.L, oracles.mu, given or {}
    if anchors is not None:
        oracles, L, mu = frozen(oracles, *anchors)
    L, mu = given_curvatures(given, L, mu)
    run = EFLRun.along(oracles, laws, w0, horizons, L, mu)
    c, how = run.constants, run.constants.how
    G, own_sigma_sq = given_bounds(given, len(oracles.weights))
    if G is not None:
        if not G**2 >= c.G_sq:
            raise InvalidInput(
                f"G = {text(G)} is no bound (Assumption 4): the largest E||g||^2 is "
                f"{text(c.G_sq)}, the limit is G^2 = {text(G**2)}: give a larger G"
            )
        c, how["G_sq"] = replace(c, G_sq=G**2), "given, and a bound"
    if own_sigma_sq is not None:
        short = np.flatnonzero(own_sigma_sq < c.sigma_sq * (1 - 1e-12))
        if len(short):
            k = int(short[0])
            raise InvalidInput(
                f"sigma_sq = {text(own_sigma_sq[k])} of client {k} is no bound (Assumption 3): the "
                f"largest E||g - grad F_k||^2 is {text(c.sigma_sq[k])}: give at least that"
            )
        c, how["sigma_sq"] = replace(c, sigma_sq=own_sigma_sq), "given, and a bound"
    if {"L", "mu"} & set(given):
        how["L, mu"] = "given, and bounds"
    if anchors is not None:
        how["L, mu"] = "L + lambda max U, mu + lambda min U"
    return replace(run, constants=c, facts=run.facts | ({FROZEN} if anchors is not None else set()))


def moving_anchors(
    oracles: QuadraticOracles, laws: list[RoundLaw], w0: np.ndarray, lam: Any, u: np.ndarray, horizons: np.ndarray
) -> EFLRun:
    """T = len(laws) rounds of complete clients with the elastic term as printed, and the constants
    of its losses F~_k.

    The anchors of a round are the models at which the clients ended the round before, w_0 at first;
    the Fisher diagonals u (N, d) stay. omega* is argmin sum_k p^k f_k, as no other point can be the
    limit. L~ = L + lam max U, mu~ = mu + lam min U, and D_k and G^2 are the largest
    F~_k(omega*) - F~_k^* and squared gradient of all rounds, clients and steps.
    """
    h, b, U = np.diagonal(oracles.H[:, 0], axis1=-2, axis2=-1), oracles.b[:, 0], u.sum(axis=0)
    if any((law.law[:, -1] != 1).any() for law in laws) or oracles.H.shape[1] > 1 or oracles.noise_sq.any():
        raise InvalidInput("anchors that move: clients must be complete in every round, and gradients without noise")
    if (oracles.H[:, 0] * (1 - np.eye(len(U), dtype=int))).any():
        raise InvalidInput("anchors that move: the Hessians must be diagonal")
    L, mu, E, star = oracles.L + lam * U.max(), oracles.mu + lam * U.min(), laws[0].E, oracles.star
    rounds = [law.moments for law in laws]
    S, theta = [m.sum_ps for m in rounds], max(m.theta for m in rounds)
    pull, w, V, G_sq, D = h + lam * U, w0, U * w0, 0 * mu, 0 * oracles.D
    path = [w]
    for eta in step_sizes(E, mu, gamma_of(E, theta, L, mu, S), S):
        D = np.maximum(D, ((pull * star - b - lam * V) ** 2 / (2 * pull)).sum(axis=1))
        y = w + 0 * h
        for _ in range(E):
            g = pull * y - b - lam * V
            G_sq, y = max(G_sq, (g**2).sum(axis=1).max()), y - eta * g
        w, V = oracles.weights @ y, (u * y).sum(axis=0)
        path.append(w)
    distance_sq = ((np.stack(path) - star) ** 2).sum(axis=1)
    how = {**HOW, "L, mu": "L + lambda max U, mu + lambda min U", "D": "largest of all rounds, in closed form"}
    constants = EFLConstants(E, L, mu, theta, G_sq, 0 * D, D, oracles.weights, rounds, distance_sq[0], how)
    return EFLRun(constants, distance_sq, laws[0].method.scheme, horizons, facts=frozenset({MOVING}))


def read_run(data: dict[str, Any]) -> tuple[QuadraticOracles, list[RoundLaw], np.ndarray]:
    """The clients, the laws of all rounds and w_0 of a witness."""
    oracles, T, w0 = exact_oracles(data), integer(data["T"], "T", 1, 20_000), vector(data["w0"], "w0")
    laws = laws_of(data["laws"], oracles.shape[0])
    return oracles, round_laws(data["scheme"], laws, T, oracles.weights, data.get("every")), w0


def run_of(data: dict[str, Any]) -> EFLRun:
    """The run of a witness (`IrregularRun.from_data`), with its scheme.

    ``lam``, ``u`` : of an elastic term whose anchors move (`moving_anchors`); without it lambda = 0.
    """
    if "lam" not in data:
        return EFLRun.from_data(data)
    oracles, rounds, w0 = read_run(data)
    lam, u = fraction(data["lam"], "lam"), table(data["u"], "u")
    if lam <= 0 or u.shape != oracles.b[:, 0].shape or u.min() < 0:
        raise InvalidInput(f"lambda = {lam}, u {u.shape}: lambda must be > 0, and u >= 0 with a row of d numbers for every client")
    return moving_anchors(oracles, rounds, w0, lam, u, np.array([len(rounds) - 1, len(rounds)]))
