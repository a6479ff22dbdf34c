"""The instances of the main text's statements, all in fractions: a violation is a witness."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.randomness import Stream
from fedtheory.rational import to_file
from fedtheory.theorems.fedelasticnet.main_text.notation import BUILDERS, MainTextInstance, instance_of

__all__ = ["KINDS", "battery", "random_instance"]

KINDS = ("regression", "local", "local-steps", "objective", "everybody", "signs", "message", "density")
COUNTS = {"regression": 24, "local": 40, "local-steps": 40, "objective": 30, "everybody": 50, "signs": 30, "message": 30,
"density": 12}

Data = dict[str, Any]


# --- random fractions -------------------------------------------------------------------------------------------------------
def _whole(rng: Any, low: int, high: int) -> Fraction:
    return Fraction(int(rng.integers(low, high)))


def _signed(rng: Any) -> Fraction:
    return Fraction(int(rng.integers(-8, 9)), int(rng.choice([1, 2, 4])))


def _positive(rng: Any) -> Fraction:
    return Fraction(int(rng.integers(1, 17)), int(rng.choice([1, 2, 4])))


def _vector(rng: Any, d: int) -> list[Fraction]:
    return [_signed(rng) for _ in range(d)]


def _hessian(rng: Any, d: int) -> list[Any]:
    """A diagonal, some of its entries 0, or the Gram matrix of d rows."""
    if d == 1 or rng.random() < 0.5:
        return [Fraction(0) if rng.random() < 0.2 else _positive(rng) for _ in range(d)]
    rows = [[_whole(rng, -2, 3) for _ in range(d)] for _ in range(d)]
    return [[sum(r[i] * r[j] for r in rows) for j in range(d)] for i in range(d)]


def _regression(rng: Any) -> tuple[str, Data]:
    n, d = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    X = [[_whole(rng, -3, 4) for _ in range(d)] for _ in range(n)]
    shape = int(rng.integers(4)) if d > 1 else 3
    if shape == 0:  # two identical features
        X = [[row[0], row[0], *row[2:]] for row in X]
    elif shape == 1:  # two that are nearly so
        X = [[10 * row[0], 10 * row[0] + row[1], *row[2:]] for row in X]
    elif shape == 2:  # three units, turned by angles with rational sines
        X = _units(rng, d)
    y = [_whole(rng, -5, 6) for _ in X]
    lambda2 = Fraction(0) if rng.random() < 0.2 else _positive(rng) * int(rng.choice([1, 10]))
    lambda1 = Fraction(int(rng.integers(1, 13)), int(rng.choice([1, 4, 16])))
    data = {"X": X, "y": y, "lambda1": lambda1, "lambda2": lambda2, "start": _vector(rng, d), "trial": _vector(rng, d)}
    return f"n={len(X)} d={d}", data


def _units(rng: Any, d: int) -> list[list[Fraction]]:
    """d features (sine, cosine) of two samples, rational points of the unit circle."""
    tangents = [Fraction(int(rng.integers(-20, 21)), 20) for _ in range(d)]
    return [[2 * t / (1 + t * t) for t in tangents], [(1 - t * t) / (1 + t * t) for t in tangents]]


def _local(rng: Any) -> tuple[str, Data]:
    d = int(rng.integers(1, 4))
    data: Data = {"H": _hessian(rng, d), "q": _vector(rng, d), "theta": _vector(rng, d), "lambda2": _positive(rng),
    "trial": _vector(rng, d)}
    data["lambda1"] = _positive(rng) if rng.random() < 0.7 else Fraction(0)
    shape = int(rng.integers(4))
    if shape == 0:
        data["g"] = _vector(rng, d)
    elif shape == 1:  # a curvature that may be negative
        data["H"] = _vector(rng, d)
        data["lambda2"] = max(abs(h) for h in data["H"]) + _positive(rng) if rng.random() < 0.5 else data["lambda2"]
    elif shape == 2 and rng.random() < 0.3:
        data["lambda1"] = Fraction(1, 10 ** int(rng.choice([4, 6])))
    return f"d={d}", data


def _clients(rng: Any) -> tuple[int, int, Data]:
    m, d = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    data = {"H": [_hessian(rng, d) for _ in range(m)], "q": [_vector(rng, d) for _ in range(m)]}
    return m, d, {**data, "theta": _vector(rng, d)}


def _largest(H: list[Any]) -> Fraction:
    """At least the largest eigenvalue of any of them."""
    return max(Fraction(1, 4), *(sum(abs(v) for v in row) if isinstance(row, list) else row for h in H for row in h))


def _steps(rng: Any) -> tuple[str, Data]:
    m, d, data = _clients(rng)
    data |= {"lr": Fraction(int(rng.integers(1, 9)), 8) / _largest(data["H"]), "B": int(rng.integers(1, 5))}
    if rng.random() < 0.6:
        data |= {"lambda1": _positive(rng), "lambda2": _positive(rng) if rng.random() < 0.7 else Fraction(0)}
    how = rng.random()
    data["controls"] = "fresh" if how < 0.6 else [_vector(rng, d) for _ in range(m)]
    if how < 0.15:  # at the optimum: the last client's minimiser is moved there
        slope = [[sum((h[i][j] if isinstance(h[i],
        list) else (h[i] if i == j else 0)) * data["theta"][j] for j in range(d)) for i in range(d)]
                 for h in data["H"]]  # fmt: skip
        rest = [sum(slope[k][i] - data["q"][k][i] for k in range(m - 1)) for i in range(d)]
        data["q"][-1] = [slope[-1][i] + rest[i] for i in range(d)]
    return f"m={m} d={d} B={data['B']}", data


def _objective(rng: Any) -> tuple[str, Data]:
    m, d, data = _clients(rng)
    data["beta"] = _largest(data["H"])
    data |= {"lambda1": _positive(rng) / int(rng.choice([1, 100])),
    "lambda2": data["beta"] * int(rng.choice([28, 40, 400]))}
    if rng.random() < 0.5:
        data["counts"] = [_whole(rng, 1, 9) for _ in range(m)]
    if rng.random() < 0.3:
        data["lambda1"] = Fraction(1, 10 ** int(rng.choice([4, 6])))
    return f"m={m} d={d}", data


def _everybody(rng: Any) -> tuple[str, Data]:
    m, d, data = _clients(rng)
    data["beta"] = _largest(data["H"])
    data["mu"] = Fraction(0)
    lambda1, rule = _positive(rng), str(rng.choice(["sign", "true-gradient", "any"]))
    data |= {"lambda1": Fraction(0) if rule == "any" else lambda1, "lambda2": _positive(rng), "rule": rule}
    shape = int(rng.integers(4))
    if shape == 0:  # FedElasticNet's start
        return f"m={m} d={d} {rule}, from g = 0", data
    data["stored"] = [_vector(rng, d) for _ in range(m)]
    if shape == 1:  # one client as often as there are
        data |= {"H": data["H"][:1] * m, "q": data["q"][:1] * m, "stored": data["stored"][:1] * m}
    elif shape == 2:  # at rest: L_k'(theta) = g_k + e_k with sum g_k = 0, |e_k| <= lambda_1
        data = _at_rest(rng, m, d, data)
    return f"m={m} d={d} {rule}", data


def _at_rest(rng: Any, m: int, d: int, data: Data) -> Data:
    """Curvatures alone stay; minimisers and stored gradients make a state that a round leaves as it is."""
    stored: list[list[Fraction | int]] = [[*_vector(rng, d)] for _ in range(m - 1)]
    stored.append([-sum(row[i] for row in stored) for i in range(d)])
    width = data["lambda1"] if data["rule"] == "sign" else Fraction(0)
    errors = [[width * int(rng.integers(-4, 5)) / 4 for _ in range(d)] for _ in range(m)]
    H = [[_positive(rng) for _ in range(d)] for _ in range(m)]
    q = [[H[k][i] * data["theta"][i] - stored[k][i] - errors[k][i] for i in range(d)] for k in range(m)]
    return {**data, "H": H, "q": q, "stored": stored, "beta": _largest(H),
    "mu": min(sum(h[i] for h in H) / m for i in range(d))}


def _law(rng: Any, how: int) -> list[tuple[Fraction, Fraction]]:
    one, half = Fraction(1), Fraction(1, 2)
    if how == 0:
        return [(one, half), (-one, half)]
    zero = Fraction(int(rng.integers(1, 4)), 4)
    up = (1 - zero) / 2 if how == 1 else (1 - zero) * Fraction(int(rng.integers(0, 5)), 4)
    return [(one, up), (-one, 1 - zero - up), (0 * one, zero)]


def _signs(rng: Any) -> tuple[str, Data]:
    groups = int(rng.integers(1, 13))
    data: Data = {"groups": groups, "delta": Fraction(int(rng.integers(1, 20)), 20),
    "laws": [(Fraction(1), _law(rng, int(rng.integers(3))))]}
    shape = int(rng.integers(7))
    if shape == 0:
        data["weights"] = [_whole(rng, 1, 9) for _ in range(groups)]
    elif shape == 1:
        data["copies"] = int(rng.integers(2, 9))
    elif shape == 2:  # on either side of the optimum
        p = Fraction(int(rng.integers(0, 5)), 4)
        sides = [[(Fraction(1), q), (Fraction(-1), 1 - q)] for q in (p, 1 - p)]
        data["laws"] = [(Fraction(1, 2), side) for side in sides]
    elif shape == 3:
        data |= {"theta": _signed(rng), "laws": [(Fraction(1), _law(rng, 0))]}
    elif shape == 4:
        data["d"] = int(rng.integers(2, 7))
    if shape <= 1:
        data["laws"] = [(Fraction(1), _law(rng, 0))]
    return f"groups={groups}", data


def _message(rng: Any) -> tuple[str, Data]:
    n, fine = int(rng.integers(2, 9)), int(rng.choice([1, 5]))
    unit = Fraction(1, 100 * fine)
    data: Data = {"x": [_whole(rng, -6, 7) * unit for _ in range(n)], "threshold": _whole(rng, 0, 4) * unit}
    if rng.random() < 0.5:
        data["theta"] = [_whole(rng, -2, 3) * unit for _ in range(n)]
    return f"n={n}", data


def _density(rng: Any) -> tuple[str, Data]:
    at, cells = _signed(rng), []
    for _ in range(int(rng.integers(1, 5))):
        width = _positive(rng)
        cells.append([at, width, int(rng.integers(1, 12))])
        at += width + (_positive(rng) if rng.random() < 0.3 else 0)
    data: Data = {"cells": cells}
    if rng.random() < 0.3:
        data["variance"] = _positive(rng)
    return f"{len(cells)} cells", data


_MAKERS: dict[str, Callable[[Any], tuple[str, Data]]] = {
    "regression": _regression, "local": _local, "local-steps": _steps, "objective": _objective, "everybody": _everybody,
    "signs": _signs, "message": _message, "density": _density,
}  # fmt: skip

# --- where bounds are attained, or nearly so --------------------------------------------------------------------------------
_COIN = [["1", [["1", "1/2"], ["-1", "1/2"]]]]
_ATTAINED: tuple[tuple[str, str, Data], ...] = (
    ("regression", "one feature", {"X": [["1"]], "y": ["2"], "lambda1": "1", "lambda2": "1", "trial": ["3"]}),
    ("regression", "at the minimisers", {"X": [["1"]], "y": ["2"], "lambda1": "1", "lambda2": "2", "trial": ["3/2"]}),
    ("regression", "at the elastic net", {"X": [["1"]], "y": ["2"], "lambda1": "1", "lambda2": "2", "trial": ["3/4"]}),
    ("regression", "orthonormal",
    {"X": [["3/5", "4/5"], ["4/5", "-3/5"]], "y": ["3", "1"], "lambda1": "1", "lambda2": "2", "trial": ["1", "1"]}),
    ("regression", "grouped, of one sign", {
        "X": [["20/101", "40/401"], ["99/101", "399/401"]], "y": ["1", "0"], "lambda1": "1/100", "lambda2": "1000",
    }),
    ("regression", "twins",
    {"X": [["1", "1"]], "y": ["1"], "lambda1": "1", "lambda2": "1", "start": ["1", "0"], "trial": ["1/4", "1/4"]}),
    ("regression", "alike, one of them selected", {
        "X": [["1", "1"], ["0", "1/4"]], "y": ["1", "-1"], "lambda1": "1", "lambda2": "1/100",
    }),
    ("regression", "a far update", {"X": [["1", "0"]], "y": ["1"], "lambda1": "1/1000", "lambda2": "1000"}),
    ("local", "a slope", {"H": ["0"], "q": ["3"], "theta": ["0"], "lambda1": "1", "lambda2": "2", "trial": ["2"]}),
    ("local", "a slope, without l1",
    {"H": ["0"], "q": ["3"], "theta": ["0"], "lambda1": "0", "lambda2": "2", "trial": ["2"]}),
    ("local", "at the edge", {"H": ["1"], "q": ["1"], "theta": ["0"], "lambda1": "1", "lambda2": "2", "trial": ["1"]}),
    ("local", "within a tenth of the edge", {"H": ["1"], "q": ["21/20"], "theta": ["0"], "lambda1": "1", "lambda2": "2"}),
    ("local", "curved downwards",
    {"H": ["-1"], "q": ["3"], "theta": ["0"], "lambda1": "1", "lambda2": "2", "trial": ["3"]}),
    ("local", "unbounded below",
    {"H": ["-1"], "q": ["0"], "theta": ["0"], "lambda1": "1", "lambda2": "1/2", "trial": ["8"]}),
    ("local", "fewer nonzeros without l1", {
        "H": [["7/8", "2"], ["2", "39/8"]], "q": ["2", "4"], "theta": ["0", "0"], "lambda1": "1/10", "lambda2": "1/8",
    }),
    ("local", "a small gradient", {"H": ["1"], "q": ["1/20000"], "theta": ["0"], "lambda1": "1/10000", "lambda2": "1"}),
    ("local-steps", "a first round", {"H": [["1"], ["1"]], "q": [["-1"], ["3"]], "theta": ["0"], "lr": "1/2", "B": 1}),
    ("local-steps", "eight steps that bend", {
        "H": [["1", "0"], [["144/169", "60/169"], ["60/169", "25/169"]]], "q": [["0", "0"], ["0", "0"]],
        "theta": ["3", "-4"],
        "lr": "1", "B": 8, "controls": "fresh",
    }),
    ("objective", "nearly isotropic", {"H": [["1"]], "q": [["0"]], "theta": ["1"], "lambda1": "1", "lambda2": "28"}),
    ("objective", "near the optimum",
    {"H": [["1"]], "q": [["0"]], "theta": ["1/10000"], "lambda1": "1/10000", "lambda2": "28"}),
    ("objective", "a linear loss", {"H": [["0"]], "q": [["1"]], "theta": ["0"], "lambda1": "1", "lambda2": "28"}),
    *(
        ("everybody", f"at the edge, {rule}", {
            "H": [["1"], ["1"]], "q": [["0"], ["0"]], "theta": ["1"], "lambda1": "1", "lambda2": "28", "rule": rule,
        })
        for rule in ("sign", "true-gradient")
    ),
    *(
        ("everybody", f"stored gradients off, {rule}", {
            "H": [["1"], ["1"]], "q": [["0"], ["0"]], "theta": ["1"], "stored": [["2"], ["2"]], "lambda1": "1",
            "lambda2": "28",
            "rule": rule,
        })
        for rule in ("sign", "true-gradient")
    ),
    *(
        ("everybody", f"two alike that move, {rule}", {
            "H": [["1"], ["1"]], "q": [["0"], ["0"]], "theta": ["2"], "lambda1": "1", "lambda2": "28", "rule": rule,
        })
        for rule in ("sign", "true-gradient")
    ),
    ("everybody", "two that differ", {
        "H": [["1"], ["1"]], "q": [["1"], ["-1"]], "theta": ["0"], "lambda1": "1", "lambda2": "28", "rule": "sign",
    }),
    ("everybody", "stored gradients are gradients", {
        "H": [["1"], ["2"]], "q": [["1"], ["-1"]], "theta": ["0"], "stored": [["-1"], ["1"]], "lambda1": "1",
        "lambda2": "28",
        "rule": "true-gradient", "mu": "3/2",
    }),
    *(
        ("everybody", f"all but one on the other side, {rule}", {
            "H": [["1000"], *[["0"]] * 5], "q": [["0"]] * 6, "theta": ["0"], "stored": [["11"], *[["-1"]] * 5],
            "lambda1": lambda1,
            "lambda2": "1", "mu": "0", "rule": rule,
        })
        for rule, lambda1 in (("any", "0"), ("sign", "1/1000"), ("true-gradient", "1/1000"))
    ),
    ("signs", "exponent", {"groups": 2500, "delta": "9/50", "laws": _COIN}),
    ("signs", "one client with nearly all samples",
    {"groups": 3, "weights": ["100", "1", "1"], "delta": "9/10", "laws": _COIN}),
    ("signs", "Bern(1/2)", {"groups": 8, "delta": "1/4", "laws": _COIN}),
    ("signs", "one side of the parenthesis", {"groups": 1, "delta": "1/2", "theta": "-2", "laws": _COIN}),
    ("signs", "many coordinates", {"groups": 4, "delta": "9/10", "d": 40, "laws": _COIN}),
    ("signs", "unfair", {"groups": 12, "delta": "1/4", "laws": [["1", [["1", "7/8"], ["-1", "1/8"]]]]}),
    ("signs", "on either side of the optimum", {
        "groups": 12, "delta": "1/2", "laws": [["1/2", [["1", p], ["-1", q]]] for p, q in (("9/10", "1/10"), ("1/10", "9/10"))],
    }),
    ("signs", "identical clients", {"groups": 1, "copies": 8, "delta": "1/2", "laws": _COIN}),
    ("message", "one local model everywhere", {"x": ["1/100", "0", "-1/100"], "theta": ["-1/100", "0", "1/100"]}),
    ("message", "all pairs", {"x": ["0", "0", "1/100", "1/100"], "theta": ["0", "1/100", "0", "1/100"]}),
    ("message", "parted by the threshold", {"x": ["251/500", "249/500"], "threshold": "1/250"}),
    ("density", "binomial", {"cells": [[str(k), "1", c] for k, c in enumerate((1, 8, 28, 56, 70, 56, 28, 8, 1))]}),
    ("density", "wider", {"cells": [["0", "5", 1]], "variance": "1"}),
)  # fmt: skip


def random_instance(kind: str, rng: Any) -> MainTextInstance:
    """One instance of a kind, over all shapes of its parameters.

    Raises
    ------
    InvalidInput
        A kind that is not in `KINDS`; data that its builder refuses, when the view is made (then draw again).
    """
    if kind not in _MAKERS:
        raise InvalidInput(f"kind = {kind!r}: use one of {', '.join(KINDS)}")
    label, data = _MAKERS[kind](rng)
    return instance_of(kind, label, to_file(data))


def battery(seed: int = 0, scale: float = 1.0) -> list[MainTextInstance]:
    """Instances of every kind, with those on which bounds are attained; what a builder refuses is drawn again."""
    out = [instance_of(kind, f"{label}, by hand", data) for kind, label, data in _ATTAINED]
    for kind in KINDS:
        rng: np.random.Generator = Stream(seed).generator(f"fedelasticnet main text {kind}")
        wanted = max(COUNTS[kind] // 3, round(COUNTS[kind] * scale))
        while wanted:
            label, data = _MAKERS[kind](rng)
            instance = instance_of(kind, label, to_file(data), seed * 1000 + wanted)
            try:
                BUILDERS[kind](instance.data)
            except InvalidInput:
                continue
            out.append(instance)
            wanted -= 1
    return out
