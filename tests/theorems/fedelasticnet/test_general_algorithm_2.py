"""Algorithm 2 and the threshold where no number is 0 or 1 and no two are equal: the package and the second writing agree exactly.

The instances of test_worked_algorithm_2 have short numbers, which other formulas may have, too. Here the second writing of
validation/references is run on instances with three clients in the plane, whose two coordinates it does one after the other.
"""

from __future__ import annotations

import copy
from fractions import Fraction as F

import numpy as np
import pytest
from fedelasticnet_worlds import ALGORITHM_2 as KINDS
from fedelasticnet_worlds import BUILDERS
from worked_fedelasticnet_algorithm_2 import SIDES, Matrix, numbers, room
from worked_fedelasticnet_stability import Stability

from fedtheory import problems, theorems
from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedelasticnet.algorithm_2.rounds import SEPARABLE, RoundsView
from fedtheory.theorems.fedelasticnet.algorithm_2.stability import FloatStabilityView
from fedtheory.theory.rounds.oracles import ProblemWorld

H = [["3/7", "5/2"], ["4/3", "2/5"], ["7/4", "5/6"]]
C = [["3/2", "-5/3"], ["-7/2", "2"], ["4/5", "-9/4"]]
C_K = [["2/3", "-3/5"], ["-5/2", "7/4"], ["9/5", "-4/3"]]
ROUNDS = {
    "h": H,
    "c": C,
    "theta": ["7/3", "-5/4"],
    "c_k": C_K,
    "lambda1": "5/3",
    "lambda2": "5/11",
    "eta": "2/9",
    "eta_g": "7/5",
}
REST = {
    "h": H, "c": C, "lambda1": "5/3", "lambda2": "5/11", "eta": "2/9", "eta_g": "7/5", "shift": ["3/700", "-2/900"],
    "shift_k": [["2/1100", "-3/800"], ["-5/1300", "7/1700"], ["1/1900", "-4/2300"]],
}  # fmt: skip
STILL = {
    "h": H,
    "theta": ["7/3", "-5/4"],
    "epsilon": "3/7",
    "lambda1": "5/3",
    "lambda2": "5/11",
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
ZEROS = {"c": [[row[0], "-5/4"] for row in C], "c_k": [[row[0], "0"] for row in C_K]}  # the second coordinate stays at its optimum
UNMOVED = {
    "c": [[row[0], "0"] for row in C], "shift": ["0", "3/700"], "shift_k": [["0", "-3/800"], ["0", "7/1700"], ["0", "-4/2300"]],
}  # fmt: skip
SLOW = {"lambda2": "5/11", "eta": "2/9", "B": 3, "eta_g": "7/5"}
INSTANCES = {
    "rounds": ("algorithm-2", {**ROUNDS, "B": 3, "cohorts": [[0, 2], [1], [2, 1]]}),
    "everybody": ("algorithm-2", {**ROUNDS, "B": 4, "lambda1": "2/7", "cohorts": [[0, 1, 2], [2, 1, 0]]}),
    "one step": ("algorithm-2", {**ROUNDS, "B": 1, "cohorts": [[2, 0], [1]]}),
    "outweighed": ("algorithm-2", {**ROUNDS, "B": 4, "lambda1": "19/3", "cohorts": [[1, 0], [2, 0]]}),
    "own start": ("algorithm-2", {**ROUNDS, "B": 3, "c_k": [["0", "0"]] * 3, "cohorts": [[1, 0], [2, 0]]}),
    "zeros": ("algorithm-2", {**ROUNDS, **ZEROS, "B": 3, "cohorts": [[1, 0], [2, 0]]}),
    "flat": ("algorithm-2", {**ROUNDS, "h": [H[0], ["0", "0"], H[2]], "B": 2, "cohorts": [[1, 0], [2, 1]]}),
    "signs": ("algorithm-2 at rest", {**REST, "B": 3, "sigma": [[1, 0], [-1, 1], [0, -1]]}),
    "one sign": ("algorithm-2 at rest", {**REST, "B": 4, "sigma": [[1, -1], [1, -1], [1, -1]]}),
    "optimum": ("algorithm-2 at rest", {**REST, "B": 3, "sigma": [[0, 0], [0, 0], [0, 0]]}),
    "optimum, even": ("algorithm-2 at rest", {**REST, "B": 4, "sigma": [[0, 0], [0, 0], [0, 0]]}),
    "unmoved": ("algorithm-2 at rest", {**REST, **UNMOVED, "B": 3, "sigma": [[0, 0], [0, 0], [0, 0]]}),
    "rest, one step": ("algorithm-2 at rest", {**REST, "B": 1, "sigma": [[0, 0], [0, 0], [0, 0]]}),
    "plane": (
        "scaffold stability",
        {**SLOW, "H": [[["3/7", "1/5"], ["1/5", "5/2"]], [["4/3", "-2/3"], ["-2/3", "7/5"]]]},
    ),
    "three": ("scaffold stability", {**SLOW, "B": 4, "H": [[["3/7"]], [["5/2"]], [["7/4"]]]}),
    "two": ("scaffold stability", {**SLOW, "H": [[["3/7"]], [["5/2"]]]}),
    "two, unstable": ("scaffold stability", {**SLOW, "eta_g": "37/9", "H": [[["13/7"]], [["5/2"]]]}),
    "stopped 1": ("threshold at rest", {**STILL, "algorithm": 1, "theta": ["7/3", "0"], "share": SHARE}),
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
    """Of the sides as formulas, also where the form is not about an instance: where both are 0 they are not told apart."""
    key, compared = (statement.id.split("/")[1], form.name), 0
    for name in [name for name, (kind, _) in INSTANCES.items() if kind == form.kind]:
        view, (kind, data) = views[name], INSTANCES[name]
        compared += view.applies(form) is None
        if form.name == "two clients" and view.applies(form) is not None:
            continue
        sides = form.sides(view)
        shape = np.broadcast_shapes(*(np.shape(t) for t in sides.terms))
        found = sides.terms if sides.relation == "==" else (sides.lhs, sides.rhs)
        left, right = second_writing(key, kind, data)
        if form.name == "these states rest":  # of Algorithm 1 the model is all there is
            left = right = left[: len(found[0])]
        assert [flat(s, shape) for s in found[:2]] == [list(left), list(right)]
        assert np.size(sides.lhs) == 1 or form.name == "these states rest" or len(sides.axes) == np.ndim(sides.lhs)
        assert set(sides.axes) <= {"round", "client", "coordinate", "state"} and not np.any(sides.noise)
    assert compared


@pytest.mark.parametrize("name", ["stopped 1", "stopped 2", "stopped 3"])
def test_without_the_threshold_these_states_move(name, views):
    """As far as the second writing says, and so the form that compares 0 with 0 tells a state that rests from one that does not."""
    form = theorems.get("fedelasticnet/threshold-at-rest").form("these states rest")
    moved = form.mutants[0].sides(views[name])
    left, _ = second_writing(("threshold-at-rest", "does not affect"), *INSTANCES[name])
    assert flat(moved.lhs, moved.lhs.shape) == list(left) and moved.lhs.all()


def test_the_second_message_is_needed_where_the_first_does_not_determine_it(views):
    """c_k that is off by a thousandth after the second round: from there on 2 d numbers are needed, before d are enough."""
    off = copy.copy(views["rounds"])
    off.c_k = off.c_k.copy()
    off.c_k[2] += F(1, 1000)
    sides = theorems.get("fedelasticnet/second-message").form("twice").sides
    assert sides(views["rounds"]).rhs.tolist() == [2, 2, 2] and sides(off).rhs.tolist() == [2, 4, 4]


@pytest.mark.parametrize("name", ["two", "two, unstable"])
def test_the_room_of_two_clients_is_the_same_number(name, views):
    """The form compares its sign only."""
    assert views[name].room() == room(Matrix({k: numbers(v) for k, v in INSTANCES[name][1].items()}))


@pytest.mark.parametrize(("share", "stable"), [(F(1), 0), (F(999, 1000), 1), (F(1001, 1000), 0)])
def test_two_clients_at_the_edge(share, stable):
    """At the eta_g that leaves no room an eigenvalue is -1, which is not stable; a thousandth less is, a thousandth more is not."""
    kind, data = INSTANCES["two"]
    at = Matrix({k: numbers(v) for k, v in data.items()})
    view = BUILDERS[kind]({**data, "eta_g": str(F(data["eta_g"]) * at.most / at.rise * share)})
    assert (view.room() > 0) == stable and (view.largest() < 1) == stable and view.largest() < 2
    sides = theorems.get("fedelasticnet/algorithm-2-stability").form("two clients").sides(view)
    assert sides.terms == (stable, stable)


@pytest.mark.parametrize("share", [F(1), F(11, 10)])
def test_the_spectral_radius_in_floats(share, views):
    """Of one round, with eta_g times a share: of the matrix that the second writing makes column by column."""
    data, method = INSTANCES["plane"][1], views["plane"].method
    in_floats = FloatStabilityView(views["plane"].H.astype(float), method._replace(
        lambda2=float(method.lambda2), eta=float(method.eta), eta_g=float(method.eta_g)
    ))  # fmt: skip
    said = Stability({k: numbers(v) for k, v in data.items()} | {"eta_g": F(data["eta_g"]) * share}).matrix
    assert (views["plane"].matrix(share) == np.array(said)).all()
    radius = np.abs(np.linalg.eigvals(np.array(said, dtype=float))).max()
    np.testing.assert_allclose(in_floats.largest(float(share)), radius, rtol=1e-12)
    sides = theorems.get("fedelasticnet/algorithm-2-stability").form("every heterogeneity").sides(in_floats)
    np.testing.assert_allclose(sides.lhs, in_floats.largest(1.0), rtol=1e-12)
    assert sides.rhs == 1


# --- floats, and the limits of what is accepted ---------------------------------------------------------------------------------
def test_floats_follow_the_same_rounds(views):
    exact, data = views["rounds"], {k: numbers(v) for k, v in INSTANCES["rounds"][1].items()}
    problem = problems.Quadratic([np.diag(row) for row in np.array(data["h"], dtype=float)], np.array(data["c"], dtype=float))
    method = exact.method._replace(**{k: float(getattr(exact.method, k)) for k in ("lambda1", "lambda2", "eta", "eta_g")})
    start = [np.array(data[k], dtype=float) for k in ("theta", "c_k")]
    floats = RoundsView(ProblemWorld(problem), method, *start, data["cohorts"])
    for name in ("theta", "c", "c_k", "slopes", "signs", "delta", "here"):
        np.testing.assert_allclose(getattr(floats, name), getattr(exact, name).astype(float), rtol=1e-12, atol=1e-12, err_msg=name)
    part = theorems.get("fedelasticnet/algorithm-2-variates").form("its l1 part").sides(floats)
    assert (part.noise > 0).any() and (part.noise < 1e-6).all()
    assert (theorems.get("fedelasticnet/second-message").form("twice").sides(floats).rhs == 2).all()
    assert floats.h is None and not floats.has(SEPARABLE)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"eta": "2/3"}, r"= \[\[Fraction\(1, 1\)\]\s+\[Fraction\(2, 3\)\]\]: it must lie strictly between"),
        ({"h": [["1"], ["0"]], "lambda2": "0"}, r"Fraction\(0, 1\)\]\]: it must lie strictly between"),
        ({"c": [["0"]]}, "as many minimisers"),
        ({"h": [["1"], ["-1/9"]]}, "expected curvatures >= 0"),
        ({"lambda1": "-1/9"}, "must be >= 0"),
        ({"lambda2": "-1/9"}, "must be >= 0"),
        ({"eta": "0"}, "eta_l and eta_g > 0"),
        ({"eta_g": "0"}, "eta_l and eta_g > 0"),
        ({"B": 21}, "B = 21"),
    ],
)
def test_a_little_beyond_what_is_accepted(change, says):
    data = {
        "h": [["1"], ["1/2"]], "c": [["0"], ["0"]], "sigma": [[1], [1]], "shift": ["0"], "shift_k": [["0"], ["0"]], "lambda1": "0",
        "lambda2": "1/2", "eta": "1/2", "B": 20, "eta_g": "1",
    }  # fmt: skip
    BUILDERS["algorithm-2 at rest"](data)
    with pytest.raises(InvalidInput, match=says):
        BUILDERS["algorithm-2 at rest"](data | change)
