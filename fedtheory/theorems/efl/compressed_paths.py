"""Every path of a run of EFL with compression, over participation and the signs of the noise."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from fedtheory.algorithms.efl import EFL
from fedtheory.errors import InvalidInput
from fedtheory.participation.coefficients import coefficients
from fedtheory.theorems.efl.world import clients_that_end
from fedtheory.theory.rounds.oracles import repeated

MOST, MOST_SIGNS = 1296, 4096  # paths of participation, and of the noise


def signs_of(noise: np.ndarray, steps: int) -> np.ndarray:
    """All sign patterns of the clients that have noise (P, steps, N), 0 for the others. Raises
    `InvalidInput` for too many."""
    noisy = [k for k, row in enumerate(noise) if any(row)]
    if 2 ** (len(noisy) * steps) > MOST_SIGNS:
        raise InvalidInput(f"2^{len(noisy) * steps} paths of the noise: at most {MOST_SIGNS} are enumerated; take fewer rounds")
    out = np.zeros((2 ** (len(noisy) * steps), steps, len(noise)), dtype=object) + Fraction(0)
    for row, pattern in zip(out, itertools.product([1, -1], repeat=len(noisy) * steps), strict=True):
        row[:, noisy] = np.array(pattern, dtype=object).reshape(steps, len(noisy))
    return out


@dataclass(frozen=True)
class Cases:
    """The cases of a round: steps (C, N) of at most E, probabilities (C,), who sends (C, N), and
    the scheme with the probabilities (N,) of being active that it may ask for."""

    steps: np.ndarray
    chance: np.ndarray
    sends: np.ndarray
    scheme: Any
    active: np.ndarray

    @property
    def pi(self) -> np.ndarray:
        """P(client k sends) (N,). Raises `InvalidInput` where one of them is 0."""
        found = (self.sends * self.chance[:, None]).sum(axis=0)
        if min(found) <= 0:
            raise InvalidInput(f"client {int(np.argmin(found))} never sends anything: the theorem needs P(it sends) > 0")
        return found


def cases_of(scheme: Any, law: np.ndarray, weights: np.ndarray) -> Cases:
    """Every s of independent clients that has a probability, from their law (N, E + 1)."""
    rows = [[(s, chance) for s, chance in enumerate(row) if chance > 0] for row in law]
    if (count := math.prod(len(row) for row in rows)) > MOST:
        raise InvalidInput(f"{count} cases in one round: at most {MOST} are gone through; take fewer clients or local steps")
    found = list(itertools.product(*rows))
    steps = np.array([[s for s, _ in case] for case in found])
    chance = np.array([math.prod(c for _, c in case) for case in found], dtype=law.dtype)
    factor = coefficients(scheme, steps, law.shape[1] - 1, weights, 1 - law[:, 0]) / weights
    return Cases(steps, chance, (steps > 0) & (factor > 0), scheme, 1 - law[:, 0])


class Paths(NamedTuple):
    """All paths of a run: their probabilities (P,), the largest E||g||^2, w, R and R_G of all rounds,
    and within rounds the clients' models (T, E + 1, P, N, d) and what they sent (T, P, N, d)."""

    chance: np.ndarray
    G_sq: Any
    w: np.ndarray
    R: np.ndarray
    R_G: np.ndarray
    local: np.ndarray
    sent: np.ndarray

    @property
    def run(self) -> dict[str, Any]:
        """The fields of a `CompressedRun` that all paths have."""
        return {name: getattr(self, name) for name in ("G_sq", "w", "R", "R_G", "chance")}


def play(
    gradient: Callable[[np.ndarray], np.ndarray], cases: Cases, up: Any, down: Any,
    weights: np.ndarray, w0: np.ndarray, etas: list[Any], E: int, pushes: np.ndarray | None = None,
) -> Paths:  # fmt: skip
    """Go through every path of participation.

    Parameters
    ----------
    gradient : callable(y) -> grad f_k(y_k), (P, N, d) -> (P, N, d)
    up, down : the compressors, None for one that sends uncompressed
    pushes : (P, T E, N, d) what gradients are off by on equally likely paths, with one case a round
    """
    if len(cases.steps) ** len(etas) > MOST:
        raise InvalidInput(f"{len(cases.steps)}^{len(etas)} paths: at most {MOST} are gone through; take fewer rounds")
    start, shape = 1 if pushes is None else len(pushes), (len(weights), len(w0))
    method, count, most = EFL(scheme=cases.scheme, compressor=up, down_compressor=down), len(cases.steps), 0 * w0[0]
    w = np.stack([w0] * start)
    none = np.stack([0 * w] * shape[0], axis=1)
    state: Any = method.init(w, shape[0])._replace(residuals=up and none, server_residual=down and 0 * w)
    mass = (cases.chance[:1] * 0 + 1).repeat(start) / start
    kept: list[tuple[np.ndarray, ...]] = [(w, none, 0 * w)]
    within: list[tuple[np.ndarray, ...]] = []
    for t, eta in enumerate(etas):
        path = [state.x[:, None] + 0 * kept[-1][1]]
        for j in range(E):
            g = gradient(path[-1]) + (0 if pushes is None else pushes[:, t * E + j])
            most = max(most, *((g * g).sum(axis=-1) * mass[:, None]).sum(axis=0))
            path.append(path[-1] - eta * g)
        ends, who = np.stack(path), np.arange(shape[0])  # every path meets every case: the next round's paths are (path, case)
        at = np.stack([ends[s, :, who].transpose(1, 0, 2) for s in cases.steps], axis=1).reshape(-1, *shape)
        clients = clients_that_end(at, weights, np.tile(cases.steps, (len(mass), 1)), E, cases.active)
        state = method.round(repeated(state, count), clients)
        mass = (mass[:, None] * cases.chance).ravel()
        R = 0 * at if state.residuals is None else state.residuals
        kept.append((state.x, R, 0 * state.x if state.server_residual is None else state.server_residual))
        within.append((ends.swapaxes(0, 1), clients.sent[0]))

    def each(rounds: list[tuple[np.ndarray, ...]], i: int) -> np.ndarray:
        return np.stack([np.repeat(r[i], len(mass) // len(r[i]), axis=0) for r in rounds])

    models, R, R_G = (each(kept, i) for i in range(3))
    return Paths(mass, most, models, R, R_G, each(within, 0).swapaxes(1, 2), each(within, 1))
