"""FedElasticNet's dynamics as numbers: both sides of every form on small runs, by the package and by code that shares nothing with it.

`worked_fedelasticnet_dynamics` and `_standstills` of validation/references/ printed the numbers once. An entry is a round, a
client in a round, a coordinate, or an end of the fixed points. Where both sides of an equation about runs are one, the states
themselves are compared.
"""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
import worked_fedelasticnet_dynamics as worked
import worked_fedelasticnet_standstills as standstills
from cases import each
from fedelasticnet_worlds import BUILDERS

from fedtheory import theorems
from fedtheory.theorems.fedelasticnet.dynamics.motions import data_of
from fedtheory.theorems.fedelasticnet.exact_pieces import Piece

NUMBERS = {
    ("at-rest", "in words", "sign"): ("1", "0"),
    ("at-rest", "in words", "true-gradient"): ("0", "0"),
    ("at-rest", "repaired", "sign"): ("1 1/2", "1 1"),
    ("at-rest", "excess", "sign"): ("5/16", "1/2"),
    ("moves", "at most", "sign"): ("25/16 1129/2025 0 0 0 1369/40000 0 0", "17/8 13/16 0 0 0 1369/25600 0 0"),
    ("moves", "at most", "true-gradient"): ("25/16 1129/2025 0 0 0 0 0 0", "17/8 13/16 0 0 0 0 0 0"),
    ("moves", "at least", "sign"): ("17/8 13/16 0 0 0 1369/25600 0 0", "625/256 1129/1296 0 0 0 1369/25600 0 0"),
    ("moves", "at least", "true-gradient"): ("17/8 13/16 0 0 0 0 0 0", "625/256 1129/1296 0 0 0 0 0 0"),
    ("stalls", "any state", "sign"): ("0", "0"),
    ("stalls", "own start", "sign"): ("0", "0"),
    ("returns", "in words", "sign"): ("2/81 2/9 2/81 2/9", "0 0 0 0"),
    ("returns", "in words", "true-gradient"): ("25/162 25/162", "0 0"),
    ("returns", "in words, lambda_2 > 27 beta", "sign"): ("5/16", "0"),
    ("returns", "in words, lambda_2 > 27 beta", "true-gradient"): ("0", "0"),
    ("returns", "mean gradient", "sign"): ("1 1/2", "1 1"),
    ("returns", "mean gradient", "true-gradient"): ("0", "1"),
    ("drift", "in words", "sign"): ("1/2", "0"),
    ("drift", "closed form", "sign"): ("0 0 0", "0 0 0"),
    ("drift", "bias", "sign"): ("0 1/6 2/3", "1 1 1"),
    ("drift", "bias", "true-gradient"): ("0 0 1/10 1/160", "1 1 1 1"),
    ("drift", "growth", "sign"): ("-17/72 -1/24 7/36", "1/4 1/4 1/4"),
    ("descent", "rate", "sign"): ("221/224 221/224 221/224", "533/294 533/490 533/686"),
    ("descent", "rate", "true-gradient"): (
        "41309/57344 7632101/14680064 1385325869/3758096384",
        "533/294 533/490 533/686",
    ),
    ("descent", "silence", "sign"): ("3/2 3/2 3/2", "5/2 5/2 5/2"),
    ("descent", "silence", "true-gradient"): ("3/2 1/4 7/32", "5/2 5/2 5/2"),
    ("descent", "gradient descent", "sign"): ("1/4 1/4 1/4", "0 0 0"),
    ("descent", "gradient descent", "true-gradient"): ("0 0 0", "0 0 0"),
    ("convergence", "repaired", "true-gradient"): (
        "826961/1209600 152369081/309657600 27545946401/79272345600",
        "2730587/2419200 5752819/9676800 1052225899/2477260800",
    ),
    ("convergence", "rate", "true-gradient"): ("35277353/44236800", "384439/113400"),
    ("convergence", "moves", "true-gradient"): (
        "41089/57600 7939369/14745600 1536837649/3774873600",
        "49537/51840 9220417/14745600 1785185257/3774873600",
    ),
    ("near-the-optimum", "in words", "true-gradient"): ("9/40000 81/160000", "1/10000 9/40000"),
    ("near-the-optimum", "repaired", "true-gradient"): ("9/1600 81/25600", "1/50 9/1600"),
    ("near-the-optimum", "factor", "true-gradient"): ("9/1600 81/25600", "9/800 81/25600"),
    ("near-the-optimum", "repels", "true-gradient"): ("0 0", "0 0"),
}
AT_REST = {  # both sides of an equation, too
    "in words": ("1/108 1/108", "0 0"),
    "in words, the optimum stays": ("1/16", "0"),
    "limit": ("5/36 35/576", "5/36 35/576"),
    "closed form": ("7/32 7/32", "7/32 7/32"),
    "interval": ("-1 1", "-1 1"),
    "distance": ("1/6 1/6", "3/8 3/8"),
}
MINE = [s for s in theorems.all_statements("fedelasticnet/") if s.scope in ("motion", "standstill")]


def piece(loss) -> Piece:
    return Piece(*loss)


def run_of_the_package(run: worked.Run, rule: str):
    pieces = [[piece(p) for p in row] for row in run.losses]
    return BUILDERS["motion"](data_of(pieces, run.l1, run.l2, rule, run.thetas[0], len(run.ys), run.gs[0]))


def rest_of_the_package(at: standstills.Standstill):
    rows = data_of([[piece(p)] for p in at.losses], at.l1, at.l2, "sign", [at.start], at.rounds)
    data = {k: rows[k] for k in ("losses", "lambda1", "lambda2", "theta", "rounds")}
    return BUILDERS["standstill"](data | {"counts": [str(w) for w in at.weights]})


def texts(side) -> str:
    return " ".join(str(x) for x in np.ravel(side))


@each("key", NUMBERS)
def test_the_package_gives_the_numbers(key):
    statement, name, rule = key
    form = theorems.get(f"fedelasticnet/{statement}").form(name)
    view = run_of_the_package(worked.FORMS[key][0](), rule)
    assert view.applies(form) is None and rule in form.established
    sides = form.sides(view)
    assert (texts(sides.lhs), texts(sides.rhs)) == NUMBERS[key]


@each("key", NUMBERS)
def test_the_independent_code_gives_the_numbers(key):
    run, sides = worked.FORMS[key]
    assert tuple(map(texts, sides(run()))) == NUMBERS[key]


@each("key", NUMBERS)
def test_the_states_are_the_same(key):
    """Models, stored gradients, local models, the optimum and the excess, round by round."""
    run = worked.FORMS[key][0]()
    view = run_of_the_package(run, key[2])
    for found, said in ((view.theta, run.thetas), (view.stored, run.gs), (view.y, run.ys), (view.theta_star, run.star)):
        assert (found == np.array(said, dtype=object)).all()
    assert list(view.excess) == [run.excess(x) for x in run.thetas]
    assert [t for t in range(1, len(run.thetas)) if view.still[t - 1]] == run.still()


@pytest.mark.parametrize("name", AT_REST)
def test_the_fixed_points_of_algorithm_1(name):
    at, said = standstills.FORMS[name]
    view = rest_of_the_package(at())
    sides = theorems.get("fedelasticnet/algorithm-1-bias").form(name).sides(view)
    assert tuple(map(texts, sides.terms)) == AT_REST[name] == tuple(map(texts, said(at())))
    if name != "interval":
        assert texts(view.ends) == "7/18 7/18"


def test_every_form_has_its_numbers():
    forms = {(s.id.split("/")[1], f.name, rule) for s in MINE if s.scope == "motion" for f in s.forms for rule in f.established}
    assert forms == set(NUMBERS) == set(worked.FORMS)
    assert {f.name for s in MINE if s.scope == "standstill" for f in s.forms} == set(AT_REST) == set(standstills.FORMS)


@pytest.mark.parametrize("module", [worked, standstills], ids=lambda m: m.__name__)
def test_what_is_compared_with_shares_nothing_with_the_library(module):
    tree = ast.parse(Path(module.__file__).read_text())
    names = {n for x in ast.walk(tree) if isinstance(x, ast.Import) for n in (a.name for a in x.names)}
    names |= {x.module for x in ast.walk(tree) if isinstance(x, ast.ImportFrom)}
    assert names <= {"__future__", "fractions", "itertools", "worked_fedelasticnet_dynamics"}


def test_two_entries_by_pencil():
    """The drift of three: client 1 moves by 1/2 and stores -3/2, so h = -1/2 and theta^1 = 1/6 + 1/2, theta^t = 1/6 + t/2."""
    view = run_of_the_package(worked.drift_of_three(), "sign")
    assert [str(x) for x in view.theta[:, 0]] == ["0", "2/3", "7/6", "5/3", "13/6"]
    assert [str(x) for x in view.h[:, 0]] == ["0", "-1/2", "-1/2", "-1/2", "-1/2"]
