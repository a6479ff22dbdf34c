"""Algorithm 2 and the threshold where no number is 0 or 1: at the edge of what is stable, in floats, and what is accepted."""

from __future__ import annotations

import copy
from fractions import Fraction as F

import numpy as np
import pytest
from fedelasticnet_worlds import BUILDERS

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
    "plane": (
        "scaffold stability",
        {**SLOW, "H": [[["3/7", "1/5"], ["1/5", "5/2"]], [["4/3", "-2/3"], ["-2/3", "7/5"]]]},
    ),
    "two": ("scaffold stability", {**SLOW, "H": [[["3/7"]], [["5/2"]]]}),
    "two, unstable": ("scaffold stability", {**SLOW, "eta_g": "37/9", "H": [[["13/7"]], [["5/2"]]]}),
    "stopped 1": ("threshold at rest", {**STILL, "algorithm": 1, "theta": ["7/3", "0"], "share": SHARE}),
    "stopped 2": ("threshold at rest", {**STILL, "algorithm": 2, "share": SHARE}),
    "stopped 3": ("threshold at rest", {**STILL, "algorithm": 3, "share": SHARE, "g": G}),
}


def numbers(value):
    """Strings as fractions, in lists of any depth."""
    if isinstance(value, list):
        return [numbers(v) for v in value]
    return value if isinstance(value, int) else F(value)


class Views(dict):
    """Made where they are asked for."""

    def __missing__(self, name):
        kind, data = INSTANCES[name]
        self[name] = BUILDERS[kind](data)
        return self[name]


@pytest.fixture(scope="module")
def views():
    return Views()


@pytest.mark.parametrize("name", ["stopped 1", "stopped 2", "stopped 3"])
def test_without_the_threshold_these_states_move(name, views):
    """So the form that compares 0 with 0 tells a state that rests from one that does not."""
    form = theorems.get("fedelasticnet/threshold-at-rest").form("these states rest")
    assert form.mutants[0].sides(views[name]).lhs.all()


def test_the_second_message_is_needed_where_the_first_does_not_determine_it(views):
    """c_k that is off by a thousandth after the second round: from there on 2 d numbers are needed, before d are enough."""
    off = copy.copy(views["rounds"])
    off.c_k = off.c_k.copy()
    off.c_k[2] += F(1, 1000)
    sides = theorems.get("fedelasticnet/second-message").form("twice").sides
    assert sides(views["rounds"]).rhs.tolist() == [2, 2, 2] and sides(off).rhs.tolist() == [2, 4, 4]


ROOM = {"two": "2257893755003/1270868521230", "two, unstable": "-26449672692521/16012943367498"}


@pytest.mark.parametrize("name", ROOM)
def test_the_room_of_two_clients(name, views):
    """The form compares its sign only."""
    assert views[name].room() == F(ROOM[name])


@pytest.mark.parametrize(("share", "stable"), [(F(1), 0), (F(999, 1000), 1), (F(1001, 1000), 0)])
def test_two_clients_at_the_edge(share, stable):
    """At the eta_g that leaves no room an eigenvalue is -1, which is not stable; a thousandth less is, a thousandth more is not."""
    kind, data = INSTANCES["two"]
    view = BUILDERS[kind]({**data, "eta_g": str(F("4797270105012/1168727748577") * share)})
    assert (view.room() > 0) == stable and (view.largest() < 1) == stable and view.largest() < 2
    sides = theorems.get("fedelasticnet/algorithm-2-stability").form("two clients").sides(view)
    assert sides.terms == (stable, stable)


@pytest.mark.parametrize("share", [F(1), F(11, 10)])
def test_the_spectral_radius_in_floats(share, views):
    """Of one round, with eta_g times a share: of its matrix, a column for each unit vector."""
    data, method = INSTANCES["plane"][1], views["plane"].method
    in_floats = FloatStabilityView(views["plane"].H.astype(float), method._replace(
        lambda2=float(method.lambda2), eta=float(method.eta), eta_g=float(method.eta_g)
    ))  # fmt: skip
    said = [one_round(numbers(data["H"]), column, F(data["eta_g"]) * share) for column in np.eye(6, dtype=int)]
    assert (views["plane"].matrix(share) == np.array(said).T).all()
    radius = np.abs(np.linalg.eigvals(np.array(said, dtype=float).T)).max()
    np.testing.assert_allclose(in_floats.largest(float(share)), radius, rtol=1e-12)
    sides = theorems.get("fedelasticnet/algorithm-2-stability").form("every heterogeneity").sides(in_floats)
    np.testing.assert_allclose(sides.lhs, in_floats.largest(1.0), rtol=1e-12)
    assert sides.rhs == 1


def one_round(H, z, eta_g):
    """SCAFFOLD's round on L_k(x) = x'H_k x/2 from (theta, c_1, c_2), step by step."""
    (theta, *c_k), eta, B = np.array([F(int(v)) for v in z]).reshape(3, 2), F(SLOW["eta"]), SLOW["B"]
    c, moves = sum(c_k) / F(2), []
    for h, own in zip(np.array(H), c_k, strict=True):
        y = theta
        for _ in range(B):
            y = y - eta * (h @ y - own + c + F(SLOW["lambda2"]) * (y - theta))
        moves.append(y - theta)
    after = [own - c - move / (B * eta) for own, move in zip(c_k, moves, strict=True)]
    return [*(theta + eta_g * sum(moves) / 2), *(x for row in after for x in row)]


# --- floats, and the limits of what is accepted ---------------------------------------------------
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
        ({"c": [["0"]]}, "c .1, 1. does not fit h"),
        ({"h": [["1"], ["-1/9"]]}, "expected curvatures >= 0"),
        ({"lambda1": "-1/9"}, "must be >= 0"),
        ({"lambda2": "-1/9"}, "must be >= 0"),
        ({"eta": "0"}, "eta = 0: it must be > 0"),
        ({"eta_g": "0"}, "eta_g = 0: it must be > 0"),
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
