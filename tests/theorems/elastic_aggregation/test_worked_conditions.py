"""What the forms need of an instance: true up to the limits that the statements name, and not beyond them."""

from __future__ import annotations

import pytest
import worked_elastic_aggregation as worked

from fedtheory import theorems
from fedtheory.theorems.elastic_aggregation import averages, clients, cohorts
from fedtheory.theory.judge.registry import setting_of

BUILDERS = setting_of("elastic-aggregation/sign").builders

# One client, one coordinate: M = 1 - (1 - 1/2)^2 = 3/4 and (1 + tau) L = 9/8.
LINE = {"counts": ["2"], "H": [["1"]], "S": [["3"]], "c": [["2"]], "theta": ["1"], "tau": "1/2", "lr": "1/2", "E": 2}
# One client, two coordinates, one local step: M = (1/2, 1/4), and at bar theta = c the sensitivities go as 1 to 1/2.
PLANE = {**LINE, "H": [["1", "1/2"]], "S": [["2", "1"]], "c": [["1", "1"]], "theta": ["1", "1"], "E": 1}
PAIR = worked.INSTANCES["pair"][1]
AGAINST = worked.INSTANCES["pair, against"][1]
EDGES = [
    (clients.SMALL, "aggregation", {**LINE, "eta": "1777/1000"}, True),  # eta < 2/(9/8) = 16/9
    (clients.SMALL, "aggregation", {**LINE, "eta": "16/9"}, False),
    (clients.SMALL, "aggregation", {**LINE, "eta": "1778/1000"}, False),
    (clients.SHORT, "aggregation", {**LINE, "eta": "8/9"}, True),  # eta <= 1/(9/8)
    (clients.SHORT, "aggregation", {**LINE, "eta": "89/100"}, False),
    (clients.NAIVE_STABLE, "aggregation", {**LINE, "eta": "2666/1000"}, True),  # eta < 2/(3/4) = 8/3
    (clients.NAIVE_STABLE, "aggregation", {**LINE, "eta": "8/3"}, False),
    (clients.NAIVE_STABLE, "aggregation", {**LINE, "eta": "2667/1000"}, False),
    (clients.SENSITIVE, "aggregation", {**LINE, "theta": ["1/1000"]}, True),
    (clients.SENSITIVE, "aggregation", {**LINE, "theta": ["0"]}, False),
    (clients.FIXED, "aggregation", {**LINE, "c": [["1/1000"]]}, True),  # at bar theta = c
    (clients.FIXED, "aggregation", {**LINE, "c": [["0"]]}, False),
    (clients.FIXED, "aggregation", {**LINE, "tau": "0"}, False),
    (clients.TAU, "aggregation", {**LINE, "tau": "1/1000"}, True),
    (clients.TAU, "aggregation", {**LINE, "tau": "0"}, False),
    (clients.TAU_0, "aggregation", {**LINE, "tau": "0"}, True),
    (clients.TAU_0, "aggregation", {**LINE, "tau": "1/1000"}, False),
    (clients.ONE, "aggregation", LINE, True),
    (clients.ONE, "aggregation", PLANE, False),
    (clients.FIXED, "aggregation", {**LINE, "H": [["0"]]}, False),  # M = 0: every point is fixed
    (clients.ONE_STEP, "aggregation", PLANE, True),
    (clients.ONE_STEP, "aggregation", LINE, False),
    (clients.INSENSITIVE, "aggregation", PLANE, True),  # 1/2 <= tau; tau m_1 = 1/4 = mu_M
    (clients.INSENSITIVE, "aggregation", {**PLANE, "S": [["2", "101/100"]]}, False),
    (clients.INSENSITIVE, "aggregation", {**PLANE, "H": [["99/100", "1/2"]]}, False),
    (clients.DIAGONAL, "aggregation", PLANE, True),
    (clients.DIAGONAL, "aggregation", {**PLANE, "H": [[["1", "1/100"], ["1/100", "1/2"]]]}, False),
    (cohorts.ALIVE, "sampled", {**PAIR, "S": [["1/1000", "0"], ["0", "1"]]}, True),
    (cohorts.ALIVE, "sampled", {**PAIR, "S": [["0", "0"], ["0", "1"]]}, False),  # client 0 alone
    (cohorts.ALIVE, "sampled", {**PAIR, "S": [["0", "0"], ["0", "1"]], "P": 2}, True),
    (cohorts.PAIR, "sampled", PAIR, True),
    (cohorts.PAIR, "sampled", {**PAIR, "counts": ["2", "3"]}, False),
    (cohorts.PAIR, "sampled", {**PAIR, "P": 2}, False),
    # Alike in sensitivity, v_1 = v_2, is the limit of following the curvature: h = (2, 1) and (1/2, 1).
    (cohorts.FOLLOWS, "sampled", {**PAIR, "S": [["7", "1"], ["7", "1"]]}, True),
    (cohorts.FOLLOWS, "sampled", {**PAIR, "S": [["7", "1"], ["7", "99/100"]]}, False),
    (cohorts.FOLLOWS, "sampled", {**PAIR, "H": [["2", "1"], ["2", "1"]], "S": [["7", "1"], ["1", "3"]]}, True),  # of equal curvature
    (cohorts.FOLLOWS, "sampled", {**PAIR, "H": [["2", "1"], ["2", "1"]], "S": [["1", "3"], ["7", "1"]]}, True),
    # v_2 = 7/24 and v_1 = 1/4 in the second coordinate: 3/4 v_2/2 = 7/64 = 7/16 v_1, as far as the optimum's share.
    (cohorts.BETWEEN, "sampled", {**AGAINST, "S": [["5", "2"], ["6", "11/6"]]}, True),
    (cohorts.BETWEEN, "sampled", {**AGAINST, "S": [["5", "2"], ["6", "182/100"]]}, False),
    (cohorts.BETWEEN, "sampled", {**AGAINST, "S": [["6", "2"], ["6", "2"]]}, True),  # v_1 = v_2 = 1/4 in both coordinates
    (cohorts.BETWEEN, "sampled", {**AGAINST, "S": [["6", "2"], ["599/100", "2"]]}, False),  # v_2 > v_1, and client 1 the steeper
]
SAMPLED = {cohorts.ALIVE, cohorts.LOCAL_STEPS}
FACTS = {
    "cohorts": SAMPLED | {clients.DIAGONAL, cohorts.SMOOTH, cohorts.TWO},
    "matrices": SAMPLED | {cohorts.SMOOTH},
    "one parameter": SAMPLED | {clients.DIAGONAL, cohorts.SMOOTH, clients.ONE},
    "all": SAMPLED | {cohorts.SMOOTH, cohorts.ALL},
    "one step": {cohorts.ALIVE, clients.ONE_STEP, cohorts.EQUAL, clients.DIAGONAL, cohorts.SMOOTH, cohorts.TWO},
    "silent": {cohorts.LOCAL_STEPS, clients.DIAGONAL, clients.ONE},
    "pair": SAMPLED | {cohorts.EQUAL, clients.DIAGONAL, cohorts.SMOOTH, cohorts.TWO, cohorts.PAIR, cohorts.FOLLOWS},
    "pair, against": SAMPLED | {cohorts.EQUAL, clients.DIAGONAL, cohorts.SMOOTH, cohorts.TWO, cohorts.PAIR, cohorts.BETWEEN},
    "batches": set(),
    "as many": {averages.SAME_COUNT},
    "alike": {averages.ALIKE},
}


@pytest.mark.parametrize(("fact", "kind", "data", "holds"), EDGES)
def test_a_condition_holds_up_to_its_limit(fact, kind, data, holds):
    assert BUILDERS[kind](data).has(fact) == holds


@pytest.mark.parametrize("name", FACTS)
def test_what_a_worked_instance_is(name):
    kind, data = worked.INSTANCES[name]
    view = BUILDERS[kind](data)
    asked = {n for s in theorems.all_statements("elastic-aggregation/") for f in s.forms for n in f.needs if f.kind == kind}
    assert {fact for fact in asked if view.has(fact)} == FACTS[name]


@pytest.mark.parametrize(
    "change",
    [
        {"theta": ["2", "4"], "S": [["2", "1"], ["1", "3"]]},  # client 1 alone: both coordinates are the most sensitive
        {"theta": ["2", "1"], "S": [[["1", "-2"], ["-2", "5"]], ["1", "3"]]},  # its first output passes 0
    ],
)
def test_where_zeta_has_no_derivative(change):
    view = BUILDERS["sampled"]({**PAIR, **change})
    assert view.slopes is None and not view.has(cohorts.SMOOTH)
