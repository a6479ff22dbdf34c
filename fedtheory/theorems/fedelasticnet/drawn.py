"""Random rounds of Algorithm 3 on diagonal quadratics, for the search for counterexamples.

Their data are those of a witness, in short fractions.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fedtheory.rational import near, to_file
from fedtheory.theorems.fedelasticnet.exact import DiagonalLosses
from fedtheory.theorems.fedelasticnet.exact_witness import DiagonalWitness, instance_of, state_of
from fedtheory.theorems.fedelasticnet.notation import RULES
from fedtheory.theory.judge.view import DataInstance

__all__ = ["drawn"]

FINE = Fraction(1, 1000)  # relative width within which a number is the simplest
RATIOS = (0.02, 1.54, 10.69, 22.84, 26.862, 27.001)  # lambda_2/beta is above one of them


def _view(rule: str, data: dict[str, Any]) -> Any:
    """Make a round in fractions."""
    w = DiagonalWitness("", "", rule, **data)
    made = instance_of(w)
    return made.round_view(state_of(w, made))


def drawn(kind: str, rng: Any) -> DataInstance:
    """Draw an instance of the kind 'round' under a rule of Algorithm 3."""
    rule, data = _drawn(rng)
    return DataInstance({kind: partial(_view, rule)}, kind, rule, to_file(data), None, rule)


def _drawn(rng: Any) -> tuple[str, dict[str, Any]]:
    rule = RULES[int(rng.integers(2))]
    edge = bool(rng.random() < 0.1)
    m, d = 1 + int(4 * rng.random() ** 2), 1 + int(3 * rng.random() ** 2)
    P, same = 1 + int(rng.integers(m)), bool(rng.random() < 0.2)  # coordinates that are copies
    data, scale = _numbers(rng, m, P, d, edge, same)
    if rng.random() < 0.6:
        local = data["x0"] + scale[0] * _signed(rng, (m, d), 5, same)
        stored = scale[0] * scale[1] * _signed(rng, (m, d), 2, same)
        data["state"] = {"theta": data["x0"], "stored": stored, "local": local}
    else:
        rounds = int(rng.integers(60 if m == 1 and rng.random() < 0.3 else 4))
        data["cohorts"] = [sorted(int(k) for k in rng.permutation(m)[:P]) for _ in range(rounds)]
    return rule, data


def _numbers(
    rng: Any, m: int, P: int, d: int, edge: bool, same: bool
) -> tuple[dict[str, Any], list[Fraction]]:
    """Give the data, and the units of length and of losses: in others curvatures are at most 1.

    With ``edge`` a client just does not move.
    """
    h = _each(lambda: _short(max(rng.random() - 0.15, 0.0) ** 2), (m, d), same)
    h = h / h.max() if h.any() else h + 1
    c = _signed(rng, (m, d), 2, same)
    losses = DiagonalLosses(h, c)
    steepest = abs(losses.grad_star).max()
    least = RATIOS[int(rng.integers(len(RATIOS)))]
    l1 = _short(10 ** (6 * rng.random() - 4))
    l2 = _short(least * 1.001 * (1000 / least) ** rng.random())
    away = _signed(rng, (1, d), 5, same)
    if steepest and rng.random() < 0.2:  # at the optimum of clients that disagree
        away = 0 * away
    x0 = losses.theta_star + away
    if edge:
        k = int(rng.integers(m))
        l1 = abs(h[k] * (x0 - c[k])).max() * (1 + Fraction(1, 10**6)) or l1
    tens = [Fraction(10) ** int(rng.integers(-4, 5) * (rng.random() < 0.5)) for _ in range(2)]
    length, loss = tens
    data = {
        "h": loss * h, "c": length * c, "lambda1": length * loss * l1, "lambda2": loss * l2,
        "P": P, "x0": length * x0[0],
    }  # fmt: skip
    return data, tens


def _each(draw: Any, shape: tuple[int, int], same: bool = False) -> np.ndarray:
    """Give an array of drawn numbers; with ``same`` copies of one in four coordinates more."""
    out = np.empty(shape, dtype=object)
    for index in np.ndindex(*shape):
        out[index] = draw()
    return np.repeat(out[:, :1], shape[1] + 4, axis=1) if same else out


def _signed(rng: Any, shape: tuple[int, int], power: int, same: bool) -> np.ndarray:
    """Give numbers between -4 and 4, more of them near 0 the higher the power."""

    def draw() -> Fraction:
        z = 2 * rng.random() - 1
        return _short(4 * max(abs(z) ** power, 1e-6) * (1 if z >= 0 else -1))

    return _each(draw, shape, same)


def _short(x: float) -> Fraction:
    return near(Fraction(x), FINE) if x else Fraction(0)
