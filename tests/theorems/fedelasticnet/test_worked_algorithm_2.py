"""Algorithm 2 and the threshold as numbers: both sides of every form, by the package and by code that shares nothing with it.

The other code is validation/references/worked_fedelasticnet_algorithm_2.py, which printed the numbers once. Entries are rounds,
then clients or states, then coordinates; 0 of who does not take part. An equation has both sides as they are handed to ``eq``.
"""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from cases import each
from fedelasticnet_worlds import ALGORITHM_2 as KINDS
from fedelasticnet_worlds import BUILDERS
from worked_fedelasticnet_algorithm_2 import INSTANCES, SIDES, worked

from fedtheory import theorems

NUMBERS = {
    ("algorithm-2-variates", "c is the mean"): (
        "49/192 -47/192 9269/24576 -9943/36864",
        "49/192 -47/192 9269/24576 -9943/36864",
    ),
    ("algorithm-2-variates", "what c_k holds"): (
        "-1/8 -119/96 61/96 3/4 0 0 10805/12288 12905/18432",
        "-1/8 -119/96 61/96 3/4 0 0 10805/12288 12905/18432",
    ),
    ("algorithm-2-variates", "its l1 part"): (
        "0 4/3 4/3 4/3 0 0 4/3 4/3",
        "4/3 4/3 4/3 4/3 4/3 4/3 4/3 4/3",
    ),
    ("algorithm-2-variates", "the server's step"): (
        "-147/256 141/256",
        "-147/256 141/256",
    ),
    ("second-message", "twice"): (
        "4 4",
        "2 2",
    ),
    ("second-message", "recovered"): (
        "-9/8 -23/96 61/96 -5/4 0 0 999/4096 -919/18432",
        "-9/8 -23/96 61/96 -5/4 0 0 999/4096 -919/18432",
    ),
    ("second-message", "nonzeros of both"): (
        "2 2 0 2",
        "4 4 0 4",
    ),
    ("algorithm-2-sparsity", "sparsifies"): (
        "15/16 0 0 0 0 0 0 0",
        "0 0 0 0 0 0 0 0",
    ),
    ("algorithm-2-sparsity", "to and fro"): (
        "15/16 0 0 0 0 0 0 0",
        "25/16 0 0 0 0 0 0 0",
    ),
    ("algorithm-2-sparsity", "what epsilon has to be"): (
        "15/16 0 0 0 0 0 0 0",
        "2 0 0 0 0 0 0 0",
    ),
    ("algorithm-2-sparsity", "one local step"): (
        "1/4 -5/4 -9/4 3/2 0 0 -1/4 5/64",
        "1/4 -5/4 -9/4 3/2 0 0 -1/4 5/64",
    ),
    ("algorithm-2-sparsity", "drag"): (
        "0 -25/64 -109/64 9/8 0 0 -6133/8192 5431/12288",
        "0 -25/64 -109/64 9/8 0 0 -6133/8192 5431/12288",
    ),
    ("algorithm-2-at-rest", "the drift is addressed"): (
        "1/7",
        "0",
    ),
    ("algorithm-2-at-rest", "repaired"): (
        "1/7",
        "19/7",
    ),
    ("algorithm-2-at-rest", "these points rest"): (
        "4/21 -11/3 11/3",
        "4/21 -11/3 11/3",
    ),
    ("algorithm-2-at-rest", "the optimum rests"): (
        "0 0",
        "0 0",
    ),
    ("algorithm-2-near-rest", "the optimum attracts"): (
        "35/4096",
        "1/16",
    ),
    ("algorithm-2-near-rest", "repaired"): (
        "35/4096 1547/2048 -663/1024",
        "35/4096 1547/2048 -663/1024",
    ),
    ("algorithm-2-stability", "every heterogeneity"): (
        "19/128",
        "1",
    ),
    ("algorithm-2-stability", "two clients"): (
        "1",
        "1",
    ),
    ("threshold-at-rest", "does not affect"): (
        "1/2",
        "0",
    ),
    ("threshold-at-rest", "these states rest"): (
        "0 0 0",
        "0 0 0",
    ),
    ("threshold-at-rest", "Algorithms 1 and 3"): (
        "5/4",
        "27/16",
    ),
    ("threshold-at-rest", "Algorithm 2"): (
        "11/12",
        "11/10",
    ),
    ("threshold-on-the-wire", "does not affect"): (
        "64727/4620",
        "58/3",
    ),
    ("threshold-on-the-wire", "it drifts away"): (
        "17234/465 11079/310 16003/465",
        "17234/465 11079/310 16003/465",
    ),
    ("threshold-on-the-wire", "nothing is ever sent"): (
        "1",
        "1",
    ),
    ("threshold-on-the-wire", "what the server misses"): (
        "0 37/21 199900/53361",
        "0 37/21 199900/53361",
    ),
    ("threshold-on-the-wire", "with error feedback"): (
        "0 130/77 65140/17787",
        "15 15 15",
    ),
    ("threshold-on-the-wire", "with error feedback, any lambda_1"): (
        "13/6 26/9",
        "5/2 5/2",
    ),
    ("threshold-on-the-wire", "does not affect, with error feedback"): (
        "3",
        "3",
    ),
}
FORMS = [(s.id.split("/")[1], f.name) for s in theorems.all_statements("fedelasticnet/") if s.scope in KINDS for f in s.forms]


def entries(text):
    return [F(x) for x in text.split()]


@pytest.mark.parametrize("key", FORMS, ids=" ".join)
def test_the_package_gives_the_numbers(key):
    kind, data = INSTANCES[SIDES[key][0]]
    form = theorems.get(f"fedelasticnet/{key[0]}").form(key[1])
    view = BUILDERS[kind](data)
    assert form.kind == kind and view.applies(form) is None
    sides = form.sides(view).terms[:2]
    shape = np.broadcast_shapes(*(np.shape(s) for s in sides))
    found = [np.broadcast_to(np.asarray(s, dtype=object), shape).ravel().tolist() for s in sides]
    assert found == [entries(side) for side in NUMBERS[key]]


@each("key", FORMS)
def test_the_independent_code_gives_the_numbers(key):
    assert [list(side) for side in worked(*key)] == [entries(side) for side in NUMBERS[key]]


def test_the_instances_hide_nothing():
    """Both sides of an inequality differ, and what an equation compares is not 0 everywhere but where the statement says so."""
    zero = {("algorithm-2-at-rest", "the optimum rests"), ("threshold-at-rest", "these states rest")}
    for key in FORMS:
        assert key in zero or any(entries(NUMBERS[key][0])), key
