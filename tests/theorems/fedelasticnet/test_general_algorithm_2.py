"""Algorithm 2 and the threshold where no number is 0 or 1 and no two are equal: the package and the second writing agree exactly.

The instances of test_worked_algorithm_2 have short numbers, which other formulas may have, too. Here the second writing of
validation/references is run on instances with three clients in the plane, whose two coordinates it does one after the other.
"""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from worked_fedelasticnet_algorithm_2 import SIDES, Matrix, numbers, room
from worked_fedelasticnet_stability import Stability

from fedtheory import theorems
from fedtheory.theorems.fedelasticnet.algorithm_2.instances import KINDS
from fedtheory.theorems.fedelasticnet.algorithm_2.rounds import BUILDERS

H = [["3/7", "5/2"], ["4/3", "2/5"], ["7/4", "5/6"]]
C = [["3/2", "-5/3"], ["-7/2", "2"], ["4/5", "-9/4"]]
C_K = [["2/3", "-3/5"], ["-5/2", "7/4"], ["9/5", "-4/3"]]
ROUNDS = {
    "h": H,
    "c": C,
    "theta": ["7/3", "-5/4"],
    "c_k": C_K,
    "lambda1": "5/3",
    "lambda2": "3/8",
    "eta": "2/9",
    "eta_g": "7/5",
}
REST = {
    "h": H, "c": C, "lambda1": "5/3", "lambda2": "3/8", "eta": "2/9", "eta_g": "7/5", "shift": ["3/700", "-2/900"],
    "shift_k": [["2/1100", "-3/800"], ["-5/1300", "7/1700"], ["1/1900", "-4/2300"]],
}  # fmt: skip
STILL = {
    "h": H,
    "theta": ["7/3", "-5/4"],
    "epsilon": "3/7",
    "lambda1": "5/3",
    "lambda2": "3/8",
    "eta": "2/9",
    "B": 3,
    "eta_g": "7/5",
}
SHARE = [["2/3", "-3/5"], ["-1", "1/4"], ["4/5", "5/7"]]
G = [["2/3", "-3/5"], ["-5/2", "7/4"], ["11/6", "-23/20"]]
WIRE = {"h": H, "c": C, "theta": ["37/3", "-45/4"], "lambda1": "5/3", "lambda2": "17/3", "epsilon": "4/7", "T": 5}
FAR = {  # after the first round nothing arrives of the second coordinate, something of the first
    "h": [["5/2", "3/7"], ["7/3", "2/5"]], "c": C[:2], "theta": ["37/3", "245/4"], "lambda1": "5/3", "lambda2": "17/3",
    "epsilon": "4/7", "T": 4,
}  # fmt: skip
SLOW = {"lambda2": "3/8", "eta": "2/9", "B": 3, "eta_g": "7/5"}
INSTANCES = {
    "rounds": ("algorithm-2", {**ROUNDS, "B": 3, "cohorts": [[0, 2], [1], [2, 1]]}),
    "everybody": ("algorithm-2", {**ROUNDS, "B": 4, "lambda1": "2/7", "cohorts": [[0, 1, 2], [2, 1, 0]]}),
    "one step": ("algorithm-2", {**ROUNDS, "B": 1, "cohorts": [[2, 0], [1]]}),
    "outweighed": ("algorithm-2", {**ROUNDS, "B": 4, "lambda1": "19/3", "cohorts": [[1, 0], [2, 0]]}),
    "signs": ("algorithm-2 at rest", {**REST, "B": 3, "sigma": [[1, 0], [-1, 1], [0, -1]]}),
    "one sign": ("algorithm-2 at rest", {**REST, "B": 4, "sigma": [[1, -1], [1, -1], [1, -1]]}),
    "optimum": ("algorithm-2 at rest", {**REST, "B": 3, "sigma": [[0, 0], [0, 0], [0, 0]]}),
    "optimum, even": ("algorithm-2 at rest", {**REST, "B": 4, "sigma": [[0, 0], [0, 0], [0, 0]]}),
    "plane": (
        "scaffold stability",
        {**SLOW, "H": [[["3/7", "1/5"], ["1/5", "5/2"]], [["4/3", "-2/3"], ["-2/3", "7/5"]]]},
    ),
    "three": ("scaffold stability", {**SLOW, "B": 4, "H": [[["3/7"]], [["5/2"]], [["7/4"]]]}),
    "two": ("scaffold stability", {**SLOW, "H": [[["3/7"]], [["5/2"]]]}),
    "two, unstable": ("scaffold stability", {**SLOW, "eta_g": "37/9", "H": [[["13/7"]], [["5/2"]]]}),
    "stopped 1": ("threshold at rest", {**STILL, "algorithm": 1, "share": SHARE}),
    "stopped 2": ("threshold at rest", {**STILL, "algorithm": 2, "share": SHARE}),
    "stopped 3": ("threshold at rest", {**STILL, "algorithm": 3, "share": SHARE, "g": G}),
    "wire": ("threshold on the wire", WIRE),
    "wire, far": ("threshold on the wire", FAR),
    "wire, silent": ("threshold on the wire", {**WIRE, "theta": ["7/3", "-5/4"], "epsilon": "9/7"}),
    "fed back": ("threshold on the wire", {**WIRE, "feedback": 1}),
    "fed back, FedDyn": ("threshold on the wire", {**WIRE, "lambda1": "0", "feedback": 1}),
}
PLANE = ("h", "c", "theta", "c_k", "sigma", "shift", "shift_k", "share", "g")
ONE_NUMBER = {  # of the coordinates' numbers
    "the optimum attracts": max, "does not affect": max, "does not affect, with error feedback": max, "nothing is ever sent": min,
}  # fmt: skip
FORMS = [(s, f) for s in theorems.all_statements("fedelasticnet/") if s.scope in KINDS for f in s.forms]


def coordinate(value, i):
    """An instance's numbers in one coordinate."""
    return [coordinate(v, i) for v in value] if isinstance(value[0], list) else [value[i]]


def second_writing(key, kind, data):
    """Both sides, of the plane a coordinate after the other, as the package orders them."""
    _, made, sides = SIDES[key]
    data = {k: numbers(v) for k, v in data.items()}
    if kind == "scaffold stability":
        size = Stability(data).largest()
        return ([size], [F(1)]) if key[1] == "every heterogeneity" else ([F(size < 1)], [F(room(Matrix(data)) > 0)])
    if kind == "algorithm-2":
        return sides(made(data))
    each = [sides(made({k: coordinate(v, i) if k in PLANE else v for k, v in data.items()})) for i in range(2)]
    if key == ("threshold-at-rest", "these states rest"):
        return each[0]
    both = [list(zip(*pair, strict=True)) for pair in zip(*each, strict=True)]
    if key[1] in ONE_NUMBER and key[0] != "threshold-at-rest":
        return [[ONE_NUMBER[key[1]](entry) for entry in side] for side in both]
    return [[x for entry in side for x in entry] for side in both]


class Views(dict):
    """Made where they are asked for."""

    def __missing__(self, name):
        kind, data = INSTANCES[name]
        self[name] = BUILDERS[kind](data)
        return self[name]


@pytest.fixture(scope="module")
def views():
    return Views()


def flat(side, shape):
    return [F(x) for x in np.broadcast_to(np.asarray(side, dtype=object), shape).ravel()]


@pytest.mark.parametrize(("statement", "form"), FORMS, ids=lambda x: getattr(x, "id", None) or x.name)
def test_both_writings_agree(statement, form, views):
    key, compared = (statement.id.split("/")[1], form.name), 0
    for name in [name for name, (kind, _) in INSTANCES.items() if kind == form.kind]:
        view, (kind, data) = views[name], INSTANCES[name]
        if view.applies(form) is not None:
            continue
        sides = form.sides(view)
        shape = np.broadcast_shapes(*(np.shape(t) for t in sides.terms))
        found = sides.terms if sides.relation == "==" else (sides.lhs, sides.rhs)
        left, right = second_writing(key, kind, data)
        if form.name == "these states rest":  # of Algorithm 1 the model is all there is
            left = right = left[: len(found[0])]
        assert [flat(s, shape) for s in found[:2]] == [list(left), list(right)]
        assert len(sides.axes) in (0, np.ndim(sides.lhs))
        compared += 1
    assert compared


@pytest.mark.parametrize("name", ["two", "two, unstable"])
def test_the_room_of_two_clients_is_the_same_number(name, views):
    """The form compares its sign only."""
    assert views[name].room() == room(Matrix({k: numbers(v) for k, v in INSTANCES[name][1].items()}))
