"""What the forms need of an instance: true up to the limits that the statements name, and not beyond them."""

from __future__ import annotations

import pytest
import worked_elastic_aggregation as worked

from fedtheory.theorems.elastic_aggregation import quantities as q
from fedtheory.theorems.elastic_aggregation.notation import BUILDERS

# One client, one coordinate: M = 1 - (1 - 1/2)^2 = 3/4 and (1 + tau) L = 9/8.
LINE = {"counts": ["2"], "H": [["1"]], "S": [["3"]], "c": [["2"]], "theta": ["1"], "tau": "1/2", "lr": "1/2", "E": 2}
# One client, two coordinates, one local step: M = (1/2, 1/4), and at bar theta = c the sensitivities go as 1 to 1/2.
PLANE = {**LINE, "H": [["1", "1/2"]], "S": [["2", "1"]], "c": [["1", "1"]], "theta": ["1", "1"], "E": 1}
PAIR = worked.INSTANCES["pair"][1]
AGAINST = worked.INSTANCES["pair, against"][1]
EDGES = [
    (q.SMALL, "aggregation", {**LINE, "eta": "1777/1000"}, True),  # eta < 2/(9/8) = 16/9
    (q.SMALL, "aggregation", {**LINE, "eta": "16/9"}, False),
    (q.SMALL, "aggregation", {**LINE, "eta": "1778/1000"}, False),
    (q.SHORT, "aggregation", {**LINE, "eta": "8/9"}, True),  # eta <= 1/(9/8)
    (q.SHORT, "aggregation", {**LINE, "eta": "89/100"}, False),
    (q.NAIVE_STABLE, "aggregation", {**LINE, "eta": "2666/1000"}, True),  # eta < 2/(3/4) = 8/3
    (q.NAIVE_STABLE, "aggregation", {**LINE, "eta": "8/3"}, False),
    (q.NAIVE_STABLE, "aggregation", {**LINE, "eta": "2667/1000"}, False),
    (q.SENSITIVE, "aggregation", {**LINE, "theta": ["1/1000"]}, True),
    (q.SENSITIVE, "aggregation", {**LINE, "theta": ["0"]}, False),
    (q.FIXED, "aggregation", {**LINE, "c": [["1/1000"]]}, True),  # at bar theta = c
    (q.FIXED, "aggregation", {**LINE, "c": [["0"]]}, False),
    (q.FIXED, "aggregation", {**LINE, "tau": "0"}, False),
    (q.TAU, "aggregation", {**LINE, "tau": "1/1000"}, True),
    (q.TAU, "aggregation", {**LINE, "tau": "0"}, False),
    (q.TAU_0, "aggregation", {**LINE, "tau": "0"}, True),
    (q.TAU_0, "aggregation", {**LINE, "tau": "1/1000"}, False),
    (q.ONE, "aggregation", LINE, True),
    (q.ONE, "aggregation", PLANE, False),
    (q.FIXED, "aggregation", {**LINE, "H": [["0"]]}, False),  # M = 0: every point is fixed
    (q.ONE_STEP, "aggregation", PLANE, True),
    (q.ONE_STEP, "aggregation", LINE, False),
    (q.INSENSITIVE, "aggregation", PLANE, True),  # 1/2 <= tau; tau m_1 = 1/4 = mu_M
    (q.INSENSITIVE, "aggregation", {**PLANE, "S": [["2", "101/100"]]}, False),
    (q.INSENSITIVE, "aggregation", {**PLANE, "H": [["99/100", "1/2"]]}, False),
    (q.DIAGONAL, "aggregation", PLANE, True),
    (q.DIAGONAL, "aggregation", {**PLANE, "H": [[["1", "1/100"], ["1/100", "1/2"]]]}, False),
    (q.ALIVE, "sampled", {**PAIR, "S": [["1/1000", "0"], ["0", "1"]]}, True),
    (q.ALIVE, "sampled", {**PAIR, "S": [["0", "0"], ["0", "1"]]}, False),  # client 0 alone
    (q.ALIVE, "sampled", {**PAIR, "S": [["0", "0"], ["0", "1"]], "P": 2}, True),
    (q.PAIR, "sampled", PAIR, True),
    (q.PAIR, "sampled", {**PAIR, "counts": ["2", "3"]}, False),
    (q.PAIR, "sampled", {**PAIR, "P": 2}, False),
    # Alike in sensitivity, v_1 = v_2, is the limit of following the curvature: h = (2, 1) and (1/2, 1).
    (q.FOLLOWS, "sampled", {**PAIR, "S": [["7", "1"], ["7", "1"]]}, True),
    (q.FOLLOWS, "sampled", {**PAIR, "S": [["7", "1"], ["7", "99/100"]]}, False),
    (q.FOLLOWS, "sampled", {**PAIR, "H": [["2", "1"], ["2", "1"]], "S": [["7", "1"], ["1", "3"]]}, True),  # of equal curvature
    (q.FOLLOWS, "sampled", {**PAIR, "H": [["2", "1"], ["2", "1"]], "S": [["1", "3"], ["7", "1"]]}, True),
    # v_2 = 7/24 and v_1 = 1/4 in the second coordinate: 3/4 v_2/2 = 7/64 = 7/16 v_1, as far as the optimum's share.
    (q.BETWEEN, "sampled", {**AGAINST, "S": [["5", "2"], ["6", "11/6"]]}, True),
    (q.BETWEEN, "sampled", {**AGAINST, "S": [["5", "2"], ["6", "182/100"]]}, False),
    (q.BETWEEN, "sampled", {**AGAINST, "S": [["6", "2"], ["6", "2"]]}, True),  # v_1 = v_2 = 1/4 in both coordinates
    (q.BETWEEN, "sampled", {**AGAINST, "S": [["6", "2"], ["599/100", "2"]]}, False),  # v_2 > v_1, and client 1 the steeper
]
SAMPLED = {q.ALIVE, q.LOCAL_STEPS}
FACTS = {
    "cohorts": SAMPLED | {q.DIAGONAL, q.SMOOTH, q.TWO},
    "matrices": SAMPLED | {q.SMOOTH},
    "one parameter": SAMPLED | {q.DIAGONAL, q.SMOOTH, q.ONE},
    "all": SAMPLED | {q.SMOOTH, q.ALL},
    "one step": {q.ALIVE, q.ONE_STEP, q.EQUAL, q.DIAGONAL, q.SMOOTH, q.TWO},
    "silent": {q.LOCAL_STEPS, q.DIAGONAL, q.ONE},
    "pair": SAMPLED | {q.EQUAL, q.DIAGONAL, q.SMOOTH, q.TWO, q.PAIR, q.FOLLOWS},
    "pair, against": SAMPLED | {q.EQUAL, q.DIAGONAL, q.SMOOTH, q.TWO, q.PAIR, q.BETWEEN},
    "batches": set(),
    "as many": {q.SAME_COUNT},
    "alike": {q.ALIKE},
}


@pytest.mark.parametrize(("fact", "kind", "data", "holds"), EDGES)
def test_a_condition_holds_up_to_its_limit(fact, kind, data, holds):
    assert (fact in BUILDERS[kind](data).facts) == holds


@pytest.mark.parametrize("name", FACTS)
def test_what_a_worked_instance_is(name):
    kind, data = worked.INSTANCES[name]
    assert BUILDERS[kind](data).facts == FACTS[name]


@pytest.mark.parametrize(
    "change",
    [
        {"theta": ["2", "4"], "S": [["2", "1"], ["1", "3"]]},  # client 1 alone: both coordinates are the most sensitive
        {"theta": ["2", "1"], "S": [[["1", "-2"], ["-2", "5"]], ["1", "3"]]},  # its first output passes 0
    ],
)
def test_where_zeta_has_no_derivative(change):
    view = BUILDERS["sampled"]({**PAIR, **change})
    assert view.slopes is None and q.SMOOTH not in view.facts
