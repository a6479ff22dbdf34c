"""Conditions of Elastic Aggregation's forms: true up to the limits that the statements name."""

from __future__ import annotations

from fractions import Fraction

from worked_elastic_aggregation import FACTS, INSTANCES, edge
from worked_elastic_aggregation_others import TWO
from worked_elastic_aggregation_words import Near

SMALL = "eta (1 + tau) L < 2"
SHORT = "eta (1 + tau) L <= 1"
NAIVE_STABLE = "a step that naive aggregation stands, eta L < 2"
SENSITIVE = "some sensitivity"
FIXED = "some sensitivity at the fixed point"
TAU = "tau > 0"
TAU_0 = "tau = 0"
ONE = "one parameter a layer"
ONE_STEP = "one local step"
INSENSITIVE = "slow coordinates of little sensitivity, and sensitive ones fast"
DIAGONAL = "diagonal Hessians"
ALIVE = "some sensitivity in every cohort"
FOLLOWS = "sensitivity that follows curvature"
BETWEEN = "sensitivity against curvature, not beyond it"
LOCAL_STEPS = "several local steps"
SMOOTH = (
    "a derivative of zeta: in every cohort some sensitivity, "
    "none that passes 0, and one coordinate with the largest"
)
ALL = "all clients in every round"
EQUAL = "as many samples at every client"
SAME_COUNT = "as many batches at every client"
ALIKE = "batches that are alike"
PLAIN = "diagonal Hessians and Gram matrices, and no theta_i = 0"
ATTRACTS = "small steps lead to it"
STABLE_STEP = "eta (1 + tau) L < 2 in every cohort"
ONE_OF_TWO = "two clients, one a round"
TWO_SEEN = "two parameters, each sensitive by itself"

# One client, one coordinate: M = 1 - (1 - 1/2)^2 = 3/4 and (1 + tau) L = 9/8.
LINE = {
    "counts": ["2"], "H": [["1"]], "S": [["3"]], "c": [["2"]], "theta": ["1"], "tau": "1/2",
    "lr": "1/2", "E": 2,
}  # fmt: skip
# One client, two coordinates, one local step: M = (1/2, 1/4), and at bar theta = c the
# sensitivities go as 1 to 1/2.
PLANE = {
    **LINE, "H": [["1", "1/2"]], "S": [["2", "1"]], "c": [["1", "1"]], "theta": ["1", "1"], "E": 1
}  # fmt: skip
PAIR = INSTANCES["pair"][1]
AGAINST = INSTANCES["pair, against"][1]
ALIKE_2 = {**PAIR, "H": [["2", "1"], ["2", "1"]]}  # of equal curvature
NEAR = {**TWO, "eta": "4/7"}
PASSES = [[["1", "-2"], ["-2", "5"]], ["1", "3"]]
LONGEST = 2 / ((1 + Fraction(TWO["tau"])) * Near(NEAR).L)
ROWS = [
    (SMALL, "aggregation", {**LINE, "eta": "1777/1000"}, True),  # eta < 2/(9/8) = 16/9
    (SMALL, "aggregation", {**LINE, "eta": "16/9"}, False),
    (SMALL, "aggregation", {**LINE, "eta": "1778/1000"}, False),
    (SHORT, "aggregation", {**LINE, "eta": "8/9"}, True),  # eta <= 1/(9/8)
    (SHORT, "aggregation", {**LINE, "eta": "89/100"}, False),
    (NAIVE_STABLE, "aggregation", {**LINE, "eta": "2666/1000"}, True),  # eta < 2/(3/4) = 8/3
    (NAIVE_STABLE, "aggregation", {**LINE, "eta": "8/3"}, False),
    (NAIVE_STABLE, "aggregation", {**LINE, "eta": "2667/1000"}, False),
    (SENSITIVE, "aggregation", {**LINE, "theta": ["1/1000"]}, True),
    (SENSITIVE, "aggregation", {**LINE, "theta": ["0"]}, False),
    (FIXED, "aggregation", {**LINE, "c": [["1/1000"]]}, True),  # at bar theta = c
    (FIXED, "aggregation", {**LINE, "c": [["0"]]}, False),
    (FIXED, "aggregation", {**LINE, "tau": "0"}, False),
    (TAU, "aggregation", {**LINE, "tau": "1/1000"}, True),
    (TAU, "aggregation", {**LINE, "tau": "0"}, False),
    (TAU_0, "aggregation", {**LINE, "tau": "0"}, True),
    (TAU_0, "aggregation", {**LINE, "tau": "1/1000"}, False),
    (ONE, "aggregation", LINE, True),
    (ONE, "aggregation", PLANE, False),
    (FIXED, "aggregation", {**LINE, "H": [["0"]]}, False),  # M = 0: every point is fixed
    (ONE_STEP, "aggregation", PLANE, True),
    (ONE_STEP, "aggregation", LINE, False),
    (INSENSITIVE, "aggregation", PLANE, True),  # 1/2 <= tau; tau m_1 = 1/4 = mu_M
    (INSENSITIVE, "aggregation", {**PLANE, "S": [["2", "101/100"]]}, False),
    (INSENSITIVE, "aggregation", {**PLANE, "H": [["99/100", "1/2"]]}, False),
    (DIAGONAL, "aggregation", PLANE, True),
    (DIAGONAL, "aggregation", {**PLANE, "H": [[["1", "1/100"], ["1/100", "1/2"]]]}, False),
    (ALIVE, "sampled", {**PAIR, "S": [["1/1000", "0"], ["0", "1"]]}, True),
    (ALIVE, "sampled", {**PAIR, "S": [["0", "0"], ["0", "1"]]}, False),  # client 0 alone
    (ALIVE, "sampled", {**PAIR, "S": [["0", "0"], ["0", "1"]], "P": 2}, True),
    (ONE_OF_TWO, "sampled", PAIR, True),
    (ONE_OF_TWO, "sampled", {**PAIR, "counts": ["2", "3"]}, False),
    (ONE_OF_TWO, "sampled", {**PAIR, "P": 2}, False),
    # Alike in sensitivity, v_1 = v_2, is the limit of following the curvature: h = (2, 1) and
    # (1/2, 1).
    (FOLLOWS, "sampled", {**PAIR, "S": [["7", "1"], ["7", "1"]]}, True),
    (FOLLOWS, "sampled", {**PAIR, "S": [["7", "1"], ["7", "99/100"]]}, False),
    (FOLLOWS, "sampled", {**ALIKE_2, "S": [["7", "1"], ["1", "3"]]}, True),
    (FOLLOWS, "sampled", {**ALIKE_2, "S": [["1", "3"], ["7", "1"]]}, True),
    # v_2 = 7/24 and v_1 = 1/4 in the second coordinate: 3/4 v_2/2 = 7/64 = 7/16 v_1, as far as
    # the optimum's share.
    (BETWEEN, "sampled", {**AGAINST, "S": [["5", "2"], ["6", "11/6"]]}, True),
    (BETWEEN, "sampled", {**AGAINST, "S": [["5", "2"], ["6", "182/100"]]}, False),
    (BETWEEN, "sampled", {**AGAINST, "S": [["6", "2"], ["6", "2"]]}, True),  # v_1 = v_2 = 1/4
    # v_2 > v_1, and client 1 the steeper
    (BETWEEN, "sampled", {**AGAINST, "S": [["6", "2"], ["599/100", "2"]]}, False),
    (PLAIN, "linearised", NEAR, True),
    (PLAIN, "linearised", {**NEAR, "theta": ["2/3", "0"]}, False),
    (PLAIN, "linearised", {**NEAR, "H": [[["5/2", "1/3"], ["1/3", "2"]], *TWO["H"][1:]]}, False),
    (PLAIN, "linearised", {**NEAR, "S": [[["2", "1/5"], ["1/5", "3/4"]], *TWO["S"][1:]]}, False),
    (ATTRACTS, "linearised", NEAR, True),
    (ATTRACTS, "linearised", {**NEAR, "S": [["2", "15/16"]] * 3}, True),
    # Both are the most sensitive: no J.
    (ATTRACTS, "linearised", {**NEAR, "theta": ["2/3", "-2/3"], "S": [["2", "2"]] * 3}, False),
    (STABLE_STEP, "linearised", {**NEAR, "eta": "1/1000"}, True),
    (STABLE_STEP, "linearised", {**NEAR, "eta": str(LONGEST)}, False),
    (STABLE_STEP, "linearised", {**NEAR, "eta": str(LONGEST * Fraction(99, 100))}, True),
    # Client 1 alone: both coordinates are the most sensitive; or its first output passes 0.
    (SMOOTH, "sampled", {**PAIR, "theta": ["2", "4"], "S": [["2", "1"], ["1", "3"]]}, False),
    (SMOOTH, "sampled", {**PAIR, "theta": ["2", "1"], "S": PASSES}, False),
]
for row in ROWS:
    edge(*row)
# All of the conditions that hold, of those that forms about the instance's kind name.
SAMPLED = {ALIVE, LOCAL_STEPS}
FACTS |= {
    "cohorts": SAMPLED | {DIAGONAL, SMOOTH, TWO_SEEN},
    "matrices": SAMPLED | {SMOOTH},
    "one parameter": SAMPLED | {DIAGONAL, SMOOTH, ONE},
    "all": SAMPLED | {SMOOTH, ALL},
    "one step": {ALIVE, ONE_STEP, EQUAL, DIAGONAL, SMOOTH, TWO_SEEN},
    "silent": {LOCAL_STEPS, DIAGONAL, ONE},
    "pair": SAMPLED | {EQUAL, DIAGONAL, SMOOTH, TWO_SEEN, ONE_OF_TWO, FOLLOWS},
    "pair, against": SAMPLED | {EQUAL, DIAGONAL, SMOOTH, TWO_SEEN, ONE_OF_TWO, BETWEEN},
    "batches": set(),
    "as many": {SAME_COUNT},
    "alike": {ALIKE},
}
