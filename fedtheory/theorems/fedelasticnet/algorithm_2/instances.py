"""Instances of Algorithm 2 and of the threshold, in short fractions: those that a campaign runs, and random ones."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.randomness import Stream
from fedtheory.rational import to_file
from fedtheory.theorems.fedelasticnet.algorithm_2.rounds import BUILDERS
from fedtheory.theory.judge.setting import DataInstance

__all__ = ["KINDS", "battery", "random_instance"]

KINDS = ("algorithm-2", "algorithm-2 at rest", "scaffold stability", "threshold at rest", "threshold on the wire")
COUNTS = {"algorithm-2": 40, "algorithm-2 at rest": 30, "scaffold stability": 16, "threshold at rest": 24, "threshold on the wire": 24}

F = Fraction


def _signed(rng: Any) -> Fraction:
    return F(int(rng.integers(-12, 13)), int(rng.choice([1, 2, 4])))


def _positive(rng: Any) -> Fraction:
    return F(int(rng.integers(1, 13)), int(rng.choice([1, 2, 4])))


def _table(rng: Any, m: int, d: int, draw: Callable[[Any], Fraction]) -> list[list[Fraction]]:
    return [[draw(rng) for _ in range(d)] for _ in range(m)]


def _size(rng: Any, most: int = 3) -> tuple[int, int]:
    return int(rng.integers(1, most + 1)), int(rng.integers(1, 3))


def _steps(rng: Any, h: list[list[Fraction]], lambda1: Fraction | None = None) -> dict[str, Any]:
    """lambda_1, lambda_2, eta_l, B and eta_g with 0 < eta_l (a + lambda_2) < 1."""
    lambda2 = F(0) if rng.random() < 0.4 else F(int(rng.integers(1, 9)), 8)
    top = max(max(row) for row in h) + lambda2
    share = F(int(rng.choice([1, 2, 4, 6, 7])), 8)
    l1 = F(int(rng.integers(1, 17)), int(rng.choice([2, 4, 8]))) if lambda1 is None else lambda1
    B, eta_g = int(rng.integers(1, 6)), F(int(rng.choice([2, 4, 4, 6, 7])), 4)
    return {"lambda1": l1, "lambda2": lambda2, "eta": share / top, "B": B, "eta_g": eta_g}


def _rounds(rng: Any) -> dict[str, Any]:
    m, d = _size(rng)
    h = _table(rng, m, d, _positive)
    data = {"h": h, "c": _table(rng, m, d, _signed), "theta": [_signed(rng) for _ in range(d)], "c_k": _table(rng, m, d, _signed)}
    if rng.random() < 0.3:  # as the method starts
        data["c_k"] = [[F(0)] * d for _ in range(m)]
    data |= _steps(rng, h)
    P = m if rng.random() < 0.5 else int(rng.integers(1, m + 1))
    data["cohorts"] = [sorted(int(k) for k in np.argsort([rng.random() for _ in range(m)])[:P]) for _ in range(int(rng.integers(1, 3)))]
    return data


def _rest(rng: Any) -> dict[str, Any]:
    m, d = _size(rng)
    h = _table(rng, m, d, _positive)
    kind = rng.random()
    if kind < 0.4:
        sigma = [[0] * d for _ in range(m)]
    elif kind < 0.7:
        sigma = [[1] * d for _ in range(m)]
    else:
        sigma = [[int(rng.integers(-1, 2)) for _ in range(d)] for _ in range(m)]
    data = {"h": h, "c": _table(rng, m, d, _signed), "sigma": sigma, **_steps(rng, h)}
    tiny = F(1, 10_000)
    data["shift"] = [_signed(rng) * tiny for _ in range(d)]
    data["shift_k"] = [[_signed(rng) * tiny / 7 for _ in range(d)] for _ in range(m)]
    if rng.random() < 0.5:  # the corrections are perfect: r_k = grad R for everybody
        mean = [sum(row[i] for row in h) / m for i in range(d)]
        data["shift_k"] = [[(row[i] - mean[i]) * data["shift"][i] for i in range(d)] for row in h]
    return data


def _hessian(rng: Any, d: int) -> list[list[Fraction]]:
    """A curvature, or a sum of two squares v v', which is singular where they are parallel."""
    if d == 1:
        return [[_positive(rng)]]
    vectors = [[F(int(rng.integers(-3, 4)), 2) for _ in range(d)] for _ in range(2)]
    return [[sum((v[i] * v[j] for v in vectors), F(0)) for j in range(d)] for i in range(d)]


def _stability(rng: Any) -> dict[str, Any]:
    m, d = int(rng.choice([1, 2, 2, 3])), int(rng.choice([1, 1, 2]))
    H = [_hessian(rng, d) for _ in range(m)]
    size = [sum(H[k][i][j] for k in range(m)) for i, j in ((0, 0), (0, d - 1), (d - 1, d - 1))]
    if d > 1 and size[0] * size[2] == size[1] ** 2:  # the mean is singular
        H[0] = [[H[0][i][j] + (i == j) for j in range(d)] for i in range(d)]
    top = max(sum((abs(v) for v in row), F(0)) for h in H for row in h)
    data = {"H": H, **_steps(rng, [[top]], F(0))}
    data["eta_g"] = F(int(rng.choice([2, 4, 6, 7, 9, 12, 16])), 4)
    return data


def _stopped(rng: Any) -> dict[str, Any]:
    number, (m, d) = int(rng.integers(1, 4)), _size(rng)
    h = _table(rng, m, d, _positive)
    edge = rng.random() < 0.5
    share = [[F(1) if edge else F(int(rng.integers(-4, 5)), 4) for _ in range(d)] for _ in range(m)]
    data = {"algorithm": number, "h": h, "theta": [_signed(rng) for _ in range(d)], "share": share}
    data["epsilon"] = F(int(rng.integers(1, 9)), 8)
    data |= _steps(rng, h, F(0) if rng.random() < 0.2 else None)
    if number != 2:
        data = {k: v for k, v in data.items() if k not in ("eta", "B", "eta_g")} | {"lambda2": F(int(rng.integers(1, 9)), 4)}
    if number == 3:
        g = _table(rng, m, d, _signed)
        data["g"] = [[x - sum(row[i] for row in g) / m for i, x in enumerate(row)] for row in g]
    return data


def _wire(rng: Any) -> dict[str, Any]:
    m, d = _size(rng, 2)
    h = _table(rng, m, d, _positive)
    ratio, feedback = F(int(rng.choice([2, 5, 30]))), int(rng.random() < 0.4)
    lambda2 = ratio * max(max(row) for row in h)
    l1 = F(0) if rng.random() < (0.7 if feedback else 0.4) else F(int(rng.integers(1, 5)), 4)
    epsilon = F(int(rng.choice([1, 2, 4, 8])), 16)
    theta = [_signed(rng) * int(rng.choice([1, 4, 16])) for _ in range(d)]
    data: dict[str, Any] = {"h": h, "c": _table(rng, m, d, _signed), "theta": theta, "lambda1": l1, "lambda2": lambda2}
    if rng.random() < 0.4:  # the same losses for everybody
        data |= {"h": h[:1] * m, "c": data["c"][:1] * m}
    return {**data, "epsilon": epsilon, "T": int(rng.integers(2, 9)), "feedback": feedback}


DRAW: dict[str, Callable[[Any], dict[str, Any]]] = dict(zip(KINDS, (_rounds, _rest, _stability, _stopped, _wire), strict=True))

_ONE = {"h": [["1"]], "c": [["0"]], "lambda2": "0", "eta": "1/4", "eta_g": "1", "shift_k": [["0"]]}
BY_HAND = (  # where a bound is attained, or a formula is at its edge
    ("algorithm-2", "pushed from one side", {
        "h": [["1"], ["1"]], "c": [["0"], ["0"]], "theta": ["8"], "c_k": [["0"], ["0"]], "lambda1": "1", "lambda2": "0",
        "eta": "1/8", "B": 4, "eta_g": "1", "cohorts": [[0, 1]]}),
    ("algorithm-2", "just beyond theta", {  # r a little less than half of lambda_1: y_2 is a little above 0
        "h": [["1/100"]], "c": [["0"]], "theta": ["49"], "c_k": [["0"]], "lambda1": "1", "lambda2": "0", "eta": "1/8", "B": 3,
        "eta_g": "1", "cohorts": [[0]]}),
    ("algorithm-2", "one local step", {
        "h": [["1"], ["2"]], "c": [["3"], ["-1"]], "theta": ["1"], "c_k": [["1"], ["-1/2"]], "lambda1": "1", "lambda2": "1",
        "eta": "1/4", "B": 1, "eta_g": "1", "cohorts": [[0, 1], [0]]}),
    ("algorithm-2", "what is sent twice is half zeros", {  # Delta = 0 in both, and Delta c = -c
        "h": [["1"], ["1"]], "c": [["0"], ["0"]], "theta": ["0"], "c_k": [["1"], ["1"]], "lambda1": "1", "lambda2": "0",
        "eta": "1/8", "B": 2, "eta_g": "1", "cohorts": [[0, 1]]}),
    ("algorithm-2 at rest", "two steps", {**_ONE, "sigma": [[1]], "lambda1": "1", "B": 2, "shift": ["1/1000"]}),
    ("algorithm-2 at rest", "two steps, from the optimum", {**_ONE, "sigma": [[0]], "lambda1": "1", "B": 2, "shift": ["1/1000"]}),
    ("algorithm-2 at rest", "three steps, from the optimum", {**_ONE, "sigma": [[0]], "lambda1": "1", "B": 3, "shift": ["1/1000"]}),
    ("scaffold stability", "at eta_g near 2", {"H": [[["63"]]], "lambda2": "0", "eta": "1/64", "B": 3, "eta_g": "31/16"}),
    ("scaffold stability", "just inside", {"H": [[["1"]], [["3"]]], "lambda2": "0", "eta": "1/4", "B": 3, "eta_g": "21/8"}),
    ("scaffold stability", "just outside", {"H": [[["1"]], [["3"]]], "lambda2": "0", "eta": "1/4", "B": 3, "eta_g": "43/16"}),
    ("threshold on the wire", "one client, 30 times its curvature", {
        "h": [["1"]], "c": [["0"]], "theta": ["309/10"], "lambda1": "3", "lambda2": "30", "epsilon": "1/2", "T": 61}),
    ("threshold on the wire", "with lambda_1", {
        "h": [["1"]], "c": [["0"]], "theta": ["41"], "lambda1": "1", "lambda2": "30", "epsilon": "1/2", "T": 12}),
    ("threshold on the wire", "fed back, and far away all the same", {
        "h": [["1"]], "c": [["0"]], "theta": ["8"], "lambda1": "4", "lambda2": "30", "epsilon": "1/8", "T": 100, "feedback": 1}),
    ("threshold on the wire", "just enough to send nothing", {
        "h": [["1"], ["2"]], "c": [["0"], ["1"]], "theta": ["4"], "lambda1": "1", "lambda2": "2", "epsilon": "5/4", "T": 5}),
    ("threshold on the wire", "a twentieth less", {
        "h": [["1"], ["2"]], "c": [["0"], ["1"]], "theta": ["4"], "lambda1": "1", "lambda2": "2", "epsilon": "19/16", "T": 2}),
    ("threshold on the wire", "all of epsilon is held back", {
        "h": [["1"]], "c": [["0"]], "theta": ["4"], "lambda1": "0", "lambda2": "3", "epsilon": "1", "T": 3, "feedback": 1}),
)  # fmt: skip


def random_instance(kind: str, rng: Any, label: str = "drawn", seed: int = 0) -> DataInstance:
    """One instance of a kind."""
    if kind not in DRAW:
        raise InvalidInput(f"kind = {kind!r}: use one of {', '.join(KINDS)}")
    return DataInstance(BUILDERS, kind, label, to_file(DRAW[kind](rng)), seed)


def battery(seed: int, scale: float) -> list[DataInstance]:
    """The instances of a campaign: those worked out by hand, then random ones."""
    out = [DataInstance(BUILDERS, kind, label, data, seed) for kind, label, data in BY_HAND]
    for kind in KINDS:
        rng = Stream(seed).generator(f"fedelasticnet {kind}")
        out += [random_instance(kind, rng, f"number {i}", seed) for i in range(max(6, round(COUNTS[kind] * scale)))]
    return out
