"""Views of Theorem 1 on quadratics: the run in exact second moments, its constants, and the witnesses in fractions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput
from fedtheory.rational import fraction, integer, table, text, vector
from fedtheory.theorems.efl.notation import BUILDERS
from fedtheory.theorems.efl.quantities.run import (
    COMMON,
    FROZEN,
    MOVING,
    EFLConstants,
    IrregularRun,
    gamma_of,
    given_bounds,
    given_curvatures,
    step_sizes,
)
from fedtheory.theory.rounds.coefficients import RoundLaw
from fedtheory.theory.rounds.second_moments import QuadraticOracles, second_moments

__all__ = ["exact_oracles", "frozen", "laws_of", "moving_anchors", "quadratic_run", "round_laws", "run_of"]

HOW = {
    "L, mu": "extreme eigenvalues of the clients' Hessians",
    "G_sq": "largest E||g||^2 over rounds, clients and virtual steps, exact",
    "sigma_sq": "largest E||g - grad F_k||^2 over the same, exact",
    "D": "closed form",
    "moments": "exact, from the laws of s_k",
}


def round_laws(
    scheme: str, laws: list[np.ndarray], rounds: int, weights: np.ndarray, every: int | None = None
) -> list[RoundLaw]:
    """One law a round, the last one for all rounds that follow; equal rounds share one object.

    every : with two laws, the second one holds in rounds every - 1, 2 every - 1, ... and the first one in all others
    """
    method = EFL(scheme=scheme)  # type: ignore[arg-type]
    kinds = [RoundLaw(method, law, weights) for law in laws]
    if every is not None:
        return [kinds[(t + 1) % every == 0] for t in range(rounds)]
    return [kinds[min(t, len(kinds) - 1)] for t in range(rounds)]


def frozen(oracles: QuadraticOracles, lam: Any, u: np.ndarray, anchors: np.ndarray) -> tuple[QuadraticOracles, Any, Any]:
    """The losses F~_k = f_k + lam/2 sum_i ||w - a_i||^2_{diag u_i} with anchors that stay, L~ = L + lam max U, mu~ = mu + lam min U.

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
    oracles: QuadraticOracles,
    laws: list[RoundLaw],
    w0: np.ndarray,
    horizons: np.ndarray | None = None,
    anchors: tuple[Any, np.ndarray, np.ndarray] | None = None,
    given: Mapping[str, Any] | None = None,
) -> IrregularRun:
    """T = len(laws) rounds with Theorem 1's step sizes.

    Parameters
    ----------
    horizons : the taus looked at; default all of 0..T
    anchors : (lambda, u, anchors) of an elastic term whose anchors never move
    given : dict
        'L', 'mu', 'G' and 'sigma_sq' in place of the exact ones, which they must bound.

    Raises
    ------
    InvalidInput
        mu = 0, or a round with S_tau = 0; a given constant that bounds nothing.
    """
    L, mu, facts, given = oracles.L, oracles.mu, frozenset({COMMON} if oracles.common else ()), given or {}
    if anchors is not None:
        oracles, L, mu = frozen(oracles, *anchors)
        facts |= {FROZEN}
    L, mu = given_curvatures(given, L, mu)
    rounds = [law.moments for law in laws]
    E, S, theta = laws[0].E, [m.sum_ps for m in rounds], max(m.theta for m in rounds)
    gamma = gamma_of(E, theta, L, mu, S)
    path = second_moments(oracles, laws, step_sizes(E, mu, gamma, S), w0)
    G_sq, sigma_sq, how = path.G_sq, path.sigma_sq, dict(HOW)
    G, own_sigma_sq = given_bounds(given, len(oracles.weights))
    if G is not None:
        if not G**2 >= G_sq:
            raise InvalidInput(
                f"G = {text(G)} is no bound (Assumption 4): the largest E||g||^2 is {text(G_sq)}, the limit is G^2 = "
                f"{text(G**2)}: give a larger G"
            )
        G_sq, how["G_sq"] = G**2, "given, and a bound"
    if own_sigma_sq is not None:
        short = np.flatnonzero(own_sigma_sq < sigma_sq * (1 - 1e-12))
        if len(short):
            k = int(short[0])
            raise InvalidInput(
                f"sigma_sq = {text(own_sigma_sq[k])} of client {k} is no bound (Assumption 3): the largest E||g - grad F_k||^2 is "
                f"{text(sigma_sq[k])}: give at least that"
            )
        sigma_sq, how["sigma_sq"] = own_sigma_sq, "given, and a bound"
    if {"L", "mu"} & set(given):
        how["L, mu"] = "given, and bounds"
    if FROZEN in facts:
        how["L, mu"] = "L + lambda max U, mu + lambda min U"
    constants = EFLConstants(
        E, L, mu, theta, G_sq, sigma_sq, oracles.D, oracles.weights, rounds, path.distance_sq[0],
        how,
    )  # fmt: skip
    horizons = np.arange(len(laws) + 1) if horizons is None else horizons
    return IrregularRun(constants, path.distance_sq, laws[0].method.scheme, horizons, facts=facts)


def moving_anchors(
    oracles: QuadraticOracles, laws: list[RoundLaw], w0: np.ndarray, lam: Any, u: np.ndarray, horizons: np.ndarray
) -> IrregularRun:
    """T = len(laws) rounds of complete clients with the elastic term as printed, and the constants of its losses F~_k.

    The anchors of a round are the models at which the clients ended the round before, w_0 at first; the Fisher diagonals u (N, d)
    stay. omega* is argmin sum_k p^k f_k, as no other point can be the limit. L~ = L + lam max U, mu~ = mu + lam min U, and D_k and
    G^2 are the largest F~_k(omega*) - F~_k^* and squared gradient of all rounds, clients and steps.

    Raises
    ------
    InvalidInput
        Clients that are not complete, noise, or Hessians that are not diagonal.
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
    return IrregularRun(constants, distance_sq, laws[0].method.scheme, horizons, facts=frozenset({MOVING}))


# --- witnesses ---------------------------------------------------------------------------------------------------------
def exact_oracles(data: dict[str, Any]) -> QuadraticOracles:
    """Quadratics sum_i h_ki (w_i - c_ki)^2/2 in fractions, with gradient noise +-n_k, each with probability 1/2.

    ``h``, ``c`` : N rows of d; ``noise`` : N rows of d or absent; ``weights`` : N fractions; ``common`` : true where
    all clients have the same sign in a step, absent where their signs are independent.
    """
    h, c, weights = table(data["h"], "h"), table(data["c"], "c"), vector(data["weights"], "weights")
    if h.shape != c.shape or len(weights) != len(h):
        raise InvalidInput(f"h {h.shape}, c {c.shape}, weights {weights.shape}: expected (N, d), (N, d), (N,)")
    if not (weights > 0).all() or weights.sum() != 1:
        raise InvalidInput(f"weights sum to {weights.sum()}: they must be > 0 and sum to 1")
    n, d = h.shape
    noise = table(data["noise"], "noise") if "noise" in data else None
    signs = [0] if noise is None else [1, -1]
    H = np.zeros((n, len(signs), d, d), dtype=object) + Fraction(0)
    H[..., range(d), range(d)] = h[:, None]
    b = np.stack([h * c + (0 if noise is None else sign * noise) for sign in signs], axis=1)
    q = np.zeros((n, len(signs)), dtype=object) + Fraction(1, len(signs))
    common = data.get("common", False)
    if not isinstance(common, bool):
        raise InvalidInput(f"common = {common!r}: write true, or leave it out")
    return QuadraticOracles(H, b, q, weights, np.zeros(n, dtype=object) + Fraction(0), common=common)


def laws_of(tables: list[Any], clients: int) -> list[np.ndarray]:
    """Tables of fractions as laws (N, E + 1), checked."""
    laws = [table(law, "law") for law in tables]
    for law in laws:
        if law.shape[0] != clients or law.shape != laws[0].shape or law.shape[1] < 2:
            raise InvalidInput(f"a law of shape {law.shape}: expected ({clients}, E + 1)")
        if (law < 0).any() or (law.sum(axis=1) != 1).any():
            raise InvalidInput("a law with a row that is no distribution of s = 0..E: entries >= 0 that sum to 1")
    return laws


@BUILDERS.add("run")
def run_of(data: dict[str, Any]) -> IrregularRun:
    """From h, c, weights, noise and common (`exact_oracles`), scheme, laws, every, w0 and T; judged at T - 1 and T.

    ``lam``, ``u`` : of an elastic term whose anchors move (`moving_anchors`); without it lambda = 0.

    ``laws`` : a list of N rows of E + 1 probabilities, one a round, the last for all that follow. Gradients are counted in G up to T.
    ``every`` : of two laws, the second one holds in each so many rounds, the first one in all others.
    """
    oracles = exact_oracles(data)
    T = integer(data["T"], "T", 1, 20_000)
    w0 = vector(data["w0"], "w0")
    if len(w0) != oracles.shape[2]:
        raise InvalidInput(f"w0 has {len(w0)} entries, expected {oracles.shape[2]}")
    laws, every = laws_of(data["laws"], oracles.shape[0]), None
    if "every" in data:
        every = integer(data["every"], "every", 2)
        if len(laws) != 2:
            raise InvalidInput(f"every = {every} with {len(laws)} laws: give two, the second for each {every}th round")
    rounds, horizons = round_laws(data["scheme"], laws, T, oracles.weights, every), np.array([T - 1, T])
    if "lam" not in data:
        return quadratic_run(oracles, rounds, w0, horizons)
    lam, u = fraction(data["lam"], "lam"), table(data["u"], "u")
    if lam <= 0 or u.shape != oracles.b[:, 0].shape or u.min() < 0:
        raise InvalidInput(f"lambda = {lam}, u {u.shape}: lambda must be > 0, and u >= 0 with a row of d numbers for every client")
    return moving_anchors(oracles, rounds, w0, lam, u, horizons)
