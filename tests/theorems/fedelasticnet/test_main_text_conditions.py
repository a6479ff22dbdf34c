"""Needs of the main text's forms, true up to named limits and not beyond; contents of files."""

from __future__ import annotations

from fractions import Fraction as F

import pytest
from cases import each
from fedelasticnet_worlds import BUILDERS

from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedelasticnet.statements import concentration as signs
from fedtheory.theorems.fedelasticnet.statements import local_problem as local
from fedtheory.theorems.fedelasticnet.statements import messages, objective, regression

REGRESSION = {"X": [["1", "2"], ["2", "1"]], "y": ["3", "5/2"], "lambda1": "1/2", "lambda2": "3"}
LOCAL = {
    "H": [["2", "1"], ["1", "3"]], "q": ["1", "-3"], "g": ["1/2", "1/3"], "theta": ["1/4", "-1"], "lambda1": "3/7", "lambda2": "5/2",
}  # fmt: skip
STILL = {**LOCAL, "H": ["-2", "3"], "g": ["0", "0"], "theta": ["0", "0"]}  # g - grad L(theta) = (1, -3)
OBJECTIVE = {
    "H": [[["2", "1"], ["1", "3"]], ["1", "1/2"]], "q": [["1", "-3"], ["2", "5"]], "theta": ["1/4", "-1"], "counts": ["2", "5"],
    "lambda1": "3/7", "lambda2": "109", "beta": "4",
}  # fmt: skip
COIN = [["1", [["1", "1/2"], ["-1", "1/2"]]]]
SIGNS = {"laws": COIN, "groups": 3, "delta": "2/7", "copies": 1}
MESSAGE = {"x": ["2/7", "-4/7"], "theta": ["6/7", "0"], "threshold": "4/7", "bin": "2/7"}
CELLS = {"cells": [["0", "1", 1], ["1", "1", 2]]}  # the middles 1/2 and 3/2: 2/9 of variance, and 1/12 within the cells
GOOD = {
    "regression": REGRESSION, "local": LOCAL, "objective": OBJECTIVE, "signs": SIGNS, "message": MESSAGE, "density": CELLS,
}  # fmt: skip
STANDING = {"signs": {"laws": [["2/5", [["1", "1"]]], ["3/5", [["-1", "1"]]]]}}


def eye(d: int) -> list[list[str]]:
    return [[str(int(i == j)) for j in range(d)] for i in range(d)]


EDGES = [
    ("regression", regression.FEW, {"X": eye(5), "y": ["1"] * 5}, True),
    ("regression", regression.FEW, {"X": eye(6), "y": ["1"] * 6}, False),
    ("regression", regression.RIDGE, {"lambda2": "1/1000"}, True),
    ("regression", regression.RIDGE, {"lambda2": "0"}, False),
    ("regression", regression.UNIT, {"X": [["3/5", "5/13"], ["4/5", "12/13"]]}, True),
    ("regression", regression.UNIT, {"X": [["3/5", "5/13"], ["4/5", "11/13"]]}, False),
    ("regression", regression.ORTHONORMAL, {"X": [["3/5", "4/5"], ["4/5", "-3/5"]]}, True),
    ("regression", regression.ORTHONORMAL, {"X": [["3/5", "5/13"], ["4/5", "12/13"]]}, False),
    ("regression", regression.ORTHONORMAL, {"X": [["3", "4"], ["4", "-3"]]}, False),
    ("regression", regression.PAIR, {}, True),
    ("regression", regression.PAIR, {"X": [["1"], ["2"]]}, False),
    ("regression", regression.TWINS, {"X": [["1", "1"], ["2", "2"]]}, True),
    ("regression", regression.TWINS, {"X": [["1", "1"], ["2", "2001/1000"]]}, False),
    # columns (1, 0) and (9, y): 81 a b at most 100 <x_1, x_2>^2 where y^2 <= 19
    ("regression", regression.ALIKE, {"X": [["1", "9"], *[["0", v] for v in ("4", "1", "1", "1")]], "y": ["1"] * 5}, True),
    ("regression", regression.ALIKE, {"X": [["1", "9"], *[["0", v] for v in ("4", "1", "1", "101/100")]], "y": ["1"] * 5}, False),
    ("regression", regression.ALIKE, {"X": [["1", "-9"], ["0", "4"]]}, False),
    ("regression", regression.ALIKE, {"X": [["1", "1"], ["2", "2"]]}, False),
    ("regression", regression.ALIKE, {"X": [["1", "0"], ["2", "0"]]}, False),
    ("regression", regression.ONE_SIGN, {"X": eye(2)}, True),
    ("regression", regression.ONE_SIGN, {"X": eye(2), "y": ["-3", "-5/2"]}, True),
    ("regression", regression.ONE_SIGN, {"X": eye(2), "y": ["3", "-5/2"]}, False),
    ("regression", regression.ONE_SIGN, {"X": eye(2), "y": ["3", "1/4"]}, False),  # the second is at 0, at the threshold
    ("regression", regression.ONE_SIGN, {"X": eye(2), "lambda2": "0"}, False),
    ("local", local.CONVEX, {}, True),
    ("local", local.CONVEX, {"H": ["0", "3"]}, True),
    ("local", local.CONVEX, {"H": ["-1/9", "3"]}, False),
    ("local", local.PLAIN, {"g": ["0", "0"]}, True),
    ("local", local.PLAIN, {"g": ["0", "1/9"]}, False),
    ("local", local.DYNAMIC, {"lambda1": "0"}, True),
    ("local", local.DYNAMIC, {"lambda1": "1/1000"}, False),
    ("local", local.WITH_L1, {"lambda1": "0"}, False),
    ("local", local.WITH_L1, {"lambda1": "1/1000"}, True),
    ("local", local.PRACTICE, {"lambda1": "1/10000"}, True),
    ("local", local.PRACTICE, {"lambda1": "1/1000000"}, True),
    ("local", local.PRACTICE, {"lambda1": "1/100000"}, False),
    ("local", local.DIAGONAL, {"H": ["2", "3"]}, True),
    ("local", local.DIAGONAL, {}, False),
    ("local", local.LARGE, {"H": ["-2", "1"]}, True),
    ("local", local.LARGE, {"H": ["-5/2", "1"]}, False),
    ("local", local.LARGE, {"H": ["-1", "5/2"]}, False),
    ("local", local.LARGE, {"H": [["1", "1"], ["1", "1"]]}, False),  # said of diagonal H only
    ("local", local.STANDS, {**STILL, "lambda1": "301/100"}, True),
    ("local", local.STANDS, {**STILL, "lambda1": "3"}, False),
    ("objective", objective.EQUAL, {"counts": ["5/2", "5/2"]}, True),
    ("objective", objective.EQUAL, {}, False),
    ("objective", objective.SOLVED, {"H": [["1", "0"], ["0", "1/9"]]}, True),
    ("objective", objective.SOLVED, {"H": [["1", "0"], ["2", "0"]]}, False),
    ("objective", objective.PRACTICE, {"lambda1": "1/10000"}, True),
    ("objective", objective.PRACTICE, {"lambda1": "1/1000000"}, True),
    ("objective", objective.PRACTICE, {"lambda1": "1/100000"}, False),
    ("objective", objective.FAR, {}, True),
    ("objective", objective.FAR, {"lambda2": "108"}, False),
    ("objective", objective.AWAY, {}, True),
    ("objective", objective.AWAY, {"H": [["1", "1"], ["1", "1"]], "q": [["1", "2"], ["-1/2", "-4"]]}, False),  # theta_* = (1/4, -1)
    ("objective", objective.AWAY, {"H": [["1", "1"], ["1", "1"]], "q": [["1", "2"], ["-1/2", "-3"]]}, True),
    ("objective", objective.AWAY, {"H": [["1", "0"], ["2", "0"]]}, False),
    ("objective", objective.DIAGONAL, {}, False),
    ("objective", objective.DIAGONAL, {"H": [["1", "0"], ["2", "0"]]}, True),
    ("signs", signs.ONE_LAW, {}, True),
    ("signs", signs.ONE_LAW, STANDING["signs"], False),
    ("signs", signs.APART, {}, True),
    ("signs", signs.APART, {"copies": 2}, False),
    ("signs", signs.ALIKE, {}, False),
    ("signs", signs.ALIKE, {"copies": 2}, True),
    ("signs", signs.EQUAL, {"weights": ["2", "2", "2"]}, True),
    ("signs", signs.EQUAL, {"weights": ["2", "2", "3"]}, False),
    ("signs", signs.COUNTS, {}, True),
    ("signs", signs.SYMMETRIC, {"laws": [["1", [["5", "1/4"], ["0", "1/2"], ["-1/9", "1/4"]]]]}, True),
    ("signs", signs.SYMMETRIC, {"laws": [["1", [["5", "1/4"], ["0", "1/3"], ["-1/9", "5/12"]]]]}, False),
    ("signs", signs.FAIR, {"laws": [["1", [["5", "1/2"], ["0", "0"], ["-1/9", "1/2"]]]]}, True),
    ("signs", signs.FAIR, {"laws": [["1", [["5", "1/4"], ["0", "1/2"], ["-1/9", "1/4"]]]]}, False),
    ("signs", signs.FAIR, {"laws": [["1/2", [["1", "1"]]], ["1/2", [["-1", "1"]]]]}, True),  # in the mean over the model
    ("signs", signs.FAIR, STANDING["signs"], False),
    ("message", messages.WHOLE, {}, True),
    ("message", messages.WHOLE, {"threshold": "0"}, True),
    ("message", messages.WHOLE, {"threshold": "3/7"}, False),
    ("message", messages.ON_GRID, {}, True),
    ("message", messages.ON_GRID, {"x": ["2/7", "-3/7"]}, False),
    ("message", messages.ON_GRID, {"theta": ["2/7", "-3/7"]}, False),
    ("density", messages.SAME, {"variance": "11/36"}, True),
    ("density", messages.SAME, {"variance": "10/36"}, False),
    ("density", messages.SAME, {}, True),
]


@each(("kind", "fact", "change", "holds"), EDGES)
def test_a_condition_holds_up_to_its_limit(kind, fact, change, holds):
    data = {**GOOD[kind], **change}
    assert BUILDERS[kind](data).has(fact) == holds


THREE = [["1", [["1", "1/2"], ["0", "1/4"], ["-1", "1/4"]]]]
FINE = [
    ("message", {"x": ["1"] * 100, "theta": ["0"] * 100}),
    ("density", {"cells": [["0", "1", 300]]}),
    ("density", {"cells": [["0", "1", 60]], "variance": "1"}),
    ("signs", {"groups": 200, "laws": THREE, "delta": "1/9"}),
    ("signs", {"groups": 199, "weights": ["1"] * 197 + ["2", "2"], "delta": "1/9"}),
    ("signs", {"groups": 300}),  # of two outcomes and equal weights as many as one likes
    ("signs", {"groups": 20, "delta": "9"}),
    ("objective", {"beta": "4"}),
]
BAD = [
    ("regression", {"lambda2": "-1/9"}, "lambda2 = -1/9: it must be >= 0"),
    ("regression", {"lambda1": "0"}, "lambda1 = 0: it must be > 0"),
    ("regression", {"y": ["1", "2", "3"]}, "does not fit X"),
    ("regression", {"start": ["1"]}, "does not fit X"),
    ("regression", {"trial": ["1", "2", "3"]}, "does not fit X"),
    ("regression", {"X": [["1", "x"], ["1", "2"]]}, r"X\[0\]\[1\] = 'x'"),
    ("regression", {"y": ["1", "x"]}, r"y\[1\] = 'x'"),
    ("regression", {"trial": ["1", "x"]}, r"trial\[1\] = 'x'"),
    ("regression", {"start": ["1", "x"]}, r"start\[1\] = 'x'"),
    ("local", {"lambda1": "-1/9"}, "lambda1 = -1/9: it must be >= 0"),
    ("local", {"lambda2": "0"}, "lambda2 = 0: it must be > 0"),
    *(("local", {name: ["1"]}, "does not fit theta") for name in ("q", "g", "trial")),
    *(("local", {name: ["1", "x"]}, rf"{name}\[1\] = 'x'") for name in ("theta", "q", "g", "trial")),
    ("local", {"H": [["1", "2"], ["2", "1"]]}, "a convex loss, or the diagonal of H"),
    ("objective", {"beta": "3"}, "must have beta-smooth losses"),
    ("objective", {"beta": "0"}, "beta = 0: it must be > 0"),
    ("objective", {"counts": ["1"]}, "does not fit"),
    ("objective", {"counts": ["1", "0"]}, r"counts = 0 \(n_k\): it must be > 0"),
    ("objective", {"q": [["1", "2"]]}, "does not fit"),
    ("objective", {"lambda1": "0"}, "lambda1 = 0: it must be > 0"),
    ("objective", {"lambda2": "0"}, "lambda2 = 0: it must be > 0"),
    ("objective", {"counts": ["1", "x"]}, r"counts\[1\] = 'x'"),
    ("signs", {"laws": [["1", [["1", "1/2"], ["-1", "1/3"]]]]}, "add up to 1"),
    ("signs", {"laws": [["1", [["1", "3/2"], ["-1", "-1/2"]]]]}, "must be >= 0"),
    ("signs", {"laws": []}, "laws: their probabilities"),
    ("signs", {"laws": [["1/2", COIN[0][1]]]}, "laws: their probabilities"),
    ("signs", {"laws": [["3/2", COIN[0][1]], ["-1/2", COIN[0][1]]]}, "laws: their probabilities"),
    ("signs", {"groups": 0}, "groups = 0"),
    ("signs", {"copies": 0}, "copies = 0"),
    ("signs", {"d": 0}, "d = 0"),
    ("signs", {"weights": ["1", "2"]}, "with groups = 3"),
    ("signs", {"weights": ["1", "2", "1/2"]}, "whole number >= 1"),
    ("signs", {"weights": ["1", "2", "0"]}, "whole number >= 1"),
    ("signs", {"groups": 200, "weights": ["1"] * 199 + ["2"], "delta": "1/9"}, "200 groups with weights of sum 201: .* 200 by 200"),
    ("signs", {"groups": 201, "laws": THREE, "delta": "1/9"}, "201 groups"),
    ("signs", {"delta": "0"}, "delta = 0: it must be > 0"),
    ("signs", {"groups": 20, "delta": "10"}, "m delta.2 is at most 1000"),
    ("signs", {"groups": 10, "copies": 2, "delta": "10"}, "m delta.2 is at most 1000"),
    ("signs", {"laws": [["1", [["x", "1/2"], ["-1", "1/2"]]]]}, "move = 'x'"),
    ("signs", {"laws": [["1", [["1", "x"], ["-1", "1/2"]]]]}, "probability = 'x'"),
    ("signs", {"laws": [["x", COIN[0][1]]]}, "probability = 'x'"),
    ("message", {"x": ["1"] * 101, "theta": ["0"] * 101}, "must have at most 100 entries"),
    ("message", {"theta": ["0"]}, "does not fit x"),
    ("message", {"threshold": "-1/9"}, "threshold = -1/9 .what the l1 norm takes off.: it must be >= 0"),
    ("message", {"bin": "0"}, "bin = 0 .the width of a bin.: it must be > 0"),
    ("message", {"x": ["1", "x"]}, r"x\[1\] = 'x'"),
    ("message", {"theta": ["1", "x"]}, r"theta\[1\] = 'x'"),
    ("density", {"cells": []}, "cells: "),
    ("density", {"cells": [["0", "0", 1]]}, "width > 0"),
    ("density", {"cells": [["0", "1", 0]]}, "counts from 1 to 500"),
    ("density", {"cells": [["0", "1", 501]]}, "counts from 1 to 500"),
    ("density", {"cells": [["0", "1", True]]}, "counts from 1 to 500"),
    ("density", {"cells": [["0", "1", "1"]]}, "counts from 1 to 500"),
    ("density", {"cells": [["0", "1", 301]]}, "may add up to 300"),
    ("density", {"cells": [["0", "1", 61]], "variance": "1"}, "to 60 with a variance"),
    ("density", {"variance": "0"}, "variance = 0: it must be > 0"),
    ("density", {"cells": [["0", "1", 1], ["99/100", "1", 2]]}, "without overlapping"),
]


@pytest.mark.parametrize(("kind", "change"), FINE)
def test_what_is_at_the_limit_is_an_instance(kind, change):
    assert BUILDERS[kind]({**GOOD[kind], **change})


@each(("kind", "change", "words"), BAD)
def test_what_is_no_instance_is_refused(kind, change, words):
    with pytest.raises(InvalidInput, match=words):
        BUILDERS[kind]({**GOOD[kind], **change})


def test_what_is_not_given():
    def without(kind, *names):
        return BUILDERS[kind]({k: v for k, v in GOOD[kind].items() if k not in names})

    plain = without("regression")
    assert plain.start.tolist() == plain.trial.tolist() == [0, 0]
    plain = without("local", "q", "g")
    assert plain.q.tolist() == plain.g.tolist() == plain.trial.tolist() == [0, 0]
    plain = without("objective", "counts", "lambda1", "lambda2")
    assert (plain.counts.tolist(), plain.lambda1, plain.lambda2) == ([1, 1], 1, 1)
    own = {**OBJECTIVE, "H": [["2", "1"], ["1", "7/2"]]}
    assert BUILDERS["objective"]({k: v for k, v in own.items() if k != "beta"}).beta == F(7, 2)
    assert BUILDERS["objective"]({**{k: v for k, v in own.items() if k != "beta"}, "H": [["0", "0"]] * 2}).beta == F(1, 10**9)
    plain = without("signs", "copies")
    assert (plain.copies, plain.d, plain.theta, plain.weights) == (1, 1, 0, (1, 1, 1))
    plain = without("message", "theta", "threshold", "bin")
    assert (plain.theta.tolist(), plain.threshold, plain.bin) == ([0, 0], 0, F(1, 100))
