"""Facts of EFL's instances at their limits: by them a form is about an instance or is not."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import efl_instances as instances
import numpy as np
import pytest
from cases import each
from efl_on_a_problem import BUILDERS

from fedtheory.theorems.efl import compression_world as compression
from fedtheory.theorems.efl import limit_world as limit_points
from fedtheory.theorems.efl.compression_world import MOST
from fedtheory.theorems.efl.elastic_world import DECAYS, LEAVER, MATCHED, RUN
from fedtheory.theorems.efl.feedback_world import CHEAP, COUNTED, DENSE, MISSING, PLAIN, REACHED, Costs
from fedtheory.theorems.efl.frozen_world import CLEAR, gap_of
from fedtheory.theorems.efl.section_4_world import APART, BENT, MIXED, ONE_STEP, QUADRATIC, SEVERAL, QuadraticClients
from fedtheory.theorems.efl.stability_world import FIRM, UNSTABLE
from fedtheory.theorems.efl.stability_world import SHORT as SMALL
from fedtheory.theorems.efl.stability_world import WITHOUT as STEADY
from fedtheory.theorems.efl.table_1_world import BELOW_VRL_SGD, BY_DISTANCE, BY_LOSS
from fedtheory.theory.judge.replay import builtin_witnesses


def test_what_is_known_of_laws():
    never, alike, equal = limit_points.NEVER_IDLE, limit_points.ALIKE, limit_points.EQUAL_LAWS
    for rows, known in (
        ("0 1, 0 1", {never, alike, equal}), ("0 1/2 1/2, 0 1 0", {never, alike}), ("1/3 2/3 0, 1/3 0 2/3", {alike}),
        ("1/2 1/2, 1/2 1/2", {alike, equal}), ("0 1/2 1/2, 1/2 1/2 0", set()), ("1/2 1/2 0, 0 1/2 1/2", set()),
    ):  # fmt: skip
        law = np.array([[Fraction(x) for x in row.split()] for row in rows.split(", ")])
        assert {fact for fact in (never, alike, equal) if fact.holds(SimpleNamespace(law=law))} == known, rows


INFORMED = next(w.data for w in builtin_witnesses("efl") if w.name == "efl-elastic-limit-factor-5")
ONE_CLIENT = {"weights": ["1"], "c": [["3"]], "u": [["1/9"]], "lam": "1/9", "rounds": 1000, "arithmetic": "float"}
FEEDBACK = {**instances.FEEDBACK, "variant": "literal"}
TINY = "1/1000000000000000"
SHORT_RUN = {**instances.PLAIN, "variant": "consistent", "q": "1", "h": [["1", "1", "1"]] * 2, "eta": "3/4", "rounds": 1}


@each(
    ("kind", "data", "fact", "there"),
    [
        ("limit", {**instances.LIMIT, "scheme": "C"}, limit_points.FRACTIONS, True),
        ("limit", {**instances.LIMIT, "scheme": "C", "arithmetic": "float"}, limit_points.FRACTIONS, False),
        ("elastic", instances.MATCHED, MATCHED, True), ("elastic", instances.ELASTIC, MATCHED, False),
        ("elastic", instances.ELASTIC, LEAVER, True),
        ("elastic", {k: v for k, v in instances.ELASTIC.items() if k not in ("leaver", "anchor")}, LEAVER, False),
        ("elastic", {**ONE_CLIENT, "h": [["201/1000"]], "eta": "1/2"}, DECAYS, True),
        ("elastic", {**ONE_CLIENT, "h": [["1/5"]], "eta": "1/2"}, DECAYS, False),
        ("elastic", {**ONE_CLIENT, "h": [["12/5"]], "eta": "1/2", "rounds": 4}, DECAYS, True),  # eta_2 a = 1, so that t_0 = 2
        ("elastic", {**ONE_CLIENT, "h": [["12/5"]], "eta": "1/2", "rounds": 3}, DECAYS, False),
        ("elastic", {**INFORMED, "rounds": 111}, DECAYS, True), ("elastic", {**INFORMED, "rounds": 110}, DECAYS, False),
        ("elastic", {**INFORMED, "rounds": 1}, RUN, True), ("elastic", {**INFORMED, "rounds": 0}, RUN, False),
        ("feedback", {**FEEDBACK, "E": 1, "schedule": [[1, 1]]}, PLAIN, True),
        ("feedback", {**FEEDBACK, "E": 1, "schedule": [[1, 0], [1, 1]]}, PLAIN, False),
        ("feedback", {**FEEDBACK, "E": 2, "schedule": [[1, 1]]}, PLAIN, False),
        ("feedback", {**FEEDBACK, "E": 2, "schedule": [[2, 2]]}, PLAIN, False),
        ("feedback", FEEDBACK, DENSE, False),
        ("feedback", {**FEEDBACK, "h": [["1"]] * 2, "c": [["1"], ["2"]], "x0": ["3"]}, DENSE, True),
        ("feedback", FEEDBACK, REACHED, False), ("feedback", FEEDBACK, COUNTED, True),
        ("feedback", {**FEEDBACK, "x0": ["-1", "3", "-2"]}, REACHED, False),  # rounds are counted of the consistent form only
        ("feedback", SHORT_RUN, REACHED, True),  # 1 - 3/4 of the distance is left
        ("feedback", {**SHORT_RUN, "eta": "74/100"}, REACHED, False),
        ("feedback", {**SHORT_RUN, "eta": "74/100", "rounds": 2}, REACHED, True),
        ("term", {**instances.TERM, "active": [0, 1]}, MISSING, False),
        ("term", {**instances.TERM, "active": [1]}, MISSING, True),
        ("row", instances.ROW, BY_DISTANCE, True), ("row", instances.ROW, BY_LOSS, False),
        ("row", {**instances.ROW, "loss": True, "root": "1/9"}, BY_LOSS, True),
        ("coefficient", {**instances.COEFFICIENT, "s": 1}, ONE_STEP, True),
        ("coefficient", {**instances.COEFFICIENT, "s": 1}, SEVERAL, False),
        ("coefficient", {**instances.COEFFICIENT, "s": 2}, ONE_STEP, False),
        ("coefficient", {**instances.COEFFICIENT, "s": 2}, SEVERAL, True),
        ("samples", instances.CONCLUSION, QUADRATIC, True), ("samples", instances.CONCLUSION, BENT, False),
        ("samples", {**instances.BENT_CONCLUSION, "closer": "1/2"}, BENT, True),
        ("samples", {**instances.BENT_CONCLUSION, "closer": "1/2"}, QUADRATIC, False),
        ("away", instances.AWAY, APART, True), ("away", instances.CURVED, APART, False),
        ("away", instances.AWAY, MIXED, False), ("away", instances.CURVED, MIXED, True),
        ("away", {**instances.CURVED, "H": [[["15", "1/4"], ["1/4", "21"]], [["5", "0"], ["0", "23"]]]}, MIXED, True),
        ("away", {**instances.CURVED, "H": [[["15", TINY], [TINY, "21"]], [["5", "0"], ["0", "23"]]]}, MIXED, True),
        ("units", {**instances.UNITS, "sigma": "1/2", "clients": "26/5"}, BELOW_VRL_SGD, True),  # 26 each
        ("units", {**instances.UNITS, "sigma": "1/2", "clients": "51/10"}, BELOW_VRL_SGD, False),
        ("stability", {**instances.STABLE, "h": [["4", "1"], ["4", "1"]], "eta": "1/2"}, STEADY, False),  # eta a = 2
        ("stability", {**instances.STABLE, "h": [["4", "1"], ["4", "1"]], "eta": "1/2"}, UNSTABLE, True),
        ("stability", {**instances.STABLE, "h": [["399/100", "1"], ["4", "1"]], "eta": "1/2"}, STEADY, True),
        ("stability", instances.FIRM, FIRM, True), ("stability", instances.STABLE, FIRM, False),
        ("stability", {**instances.FIRM, "h": [["1", "2"]] * 2}, FIRM, False),  # b = 0
        ("stability", {**instances.STABLE, "u": [["3", "3"], ["1", "1"]], "lam": "1/4", "eta": "1/4"}, SMALL, True),  # 3 + 4/4
        ("stability", {**instances.STABLE, "u": [["3", "3"], ["1", "1"]], "lam": "1/4", "eta": "26/100"}, SMALL, False),
        ("frozen", {**instances.HELD, "variant": "literal"}, CLEAR, True),
        ("frozen", {**instances.HELD, "variant": "literal", "c": [["-14", "-14"], ["-8", "-25"], ["22", "39"]]}, CLEAR, False),
    ],
)  # fmt: skip
def test_what_is_known_of_an_instance(kind, data, fact, there):
    assert BUILDERS[kind](data).has(fact) == there


@pytest.mark.parametrize(("beside", "apart"), [("5e-12", True), ("2e-11", False)])
def test_coordinates_in_floats_do_not_mix_where_only_rounding_is_beside_the_diagonal(beside, apart):
    """1e-12 of the largest entry, 10."""
    view = BUILDERS["away"](instances.AWAY)
    H = np.array([[10, float(beside)], [float(beside), 4]])
    other = replace(view, clients=QuadraticClients(np.stack([H, H]), np.zeros((2, 2))))
    assert (other.has(APART), other.has(MIXED)) == (apart, not apart)


@pytest.mark.parametrize(
    ("message", "k", "gap"), [("3 -1 2", 1, 1), ("3 -1 2", 2, 1), ("-5 1 2", 3, 1), ("3 -3 1", 1, 0), ("3 -3 1", 2, 2), ("0 4", 2, 0)]
)
def test_the_gap_of_a_choice_is_what_the_next_entry_lacks(message, k, gap):
    assert gap_of(np.array([Fraction(x) for x in message.split()]), k) == gap


@pytest.mark.parametrize(
    ("compressor", "known"),
    [  # of four entries
        ({"name": "st", "q": "1/2", "rule": "exact"}, {compression.EXACT}),
        ({"name": "st", "q": "3/4", "rule": "exact"}, {compression.EXACT, MOST}),
        ({"name": "st", "q": "1/2", "rule": "printed"}, {compression.PRINTED}),
        ({"name": "st", "q": "51/100", "rule": "printed"}, {compression.PRINTED, MOST}),
        ({"name": "top-k", "k": 4}, {compression.TOP_K}), ({"name": "random-k", "k": 4}, {compression.RANDOM_K}),
        ({"name": "random-k", "k": 4, "scaled": True}, {compression.SCALED}), ({"name": "natural"}, {compression.NATURAL}),
        ({"name": "stochastic"}, {compression.TO_MAX}), ({"name": "stochastic", "step": "1/2"}, {compression.TO_GRID}),
    ],
    ids=lambda v: str(sorted(v)) if isinstance(v, set) else str(v),
)  # fmt: skip
def test_what_is_known_of_a_compressor(compressor, known):
    assert BUILDERS["compression"]({"compressor": compressor, "x": ["3", "1", "-2", "5"]}).facts == known


def test_a_model_and_its_anchors_are_0_where_none_are_given():
    view = BUILDERS["stability"]({**instances.LONG, "c": [["2"], ["1"]]})
    assert not view.start.any() and not view.anchors.any() and view.anchors.shape == view.c.shape


def costs_of(n, k, compressed_sq=(), dense_sq=(), sent=None):
    steps = np.array([[3, 1, 2], [0, 2, 3], [2, 0, 1]])
    away = (np.array([Fraction(x) for x in path]) for path in (compressed_sq, dense_sq))
    return Costs(n, k, steps, *away, steps > 0 if sent is None else sent)


@pytest.mark.parametrize(("n", "bits"), [(1, 35), (2, 38), (3, 41), (4, 41), (5, 44), (8, 44), (9, 47)])
def test_a_short_message_names_its_positions_in_as_few_bits_as_will_do(n, bits):
    """Three entries of 1 + ceil(log2 n) bits each, and one number."""
    assert costs_of(n, 3).message == bits and costs_of(n, 3).dense == 32 * n


@pytest.mark.parametrize(("k", "cheap"), [(16, True), (17, False)])
def test_short_messages_are_cheap_up_to_the_length_of_a_dense_one(k, cheap):
    """k (1 + log2 n) <= 32 (n - 1) at n = 2, whether so many entries can be kept or not."""
    assert (CHEAP in costs_of(2, k).facts) == cheap


@pytest.mark.parametrize(
    ("path", "steps", "messages"),  # until ||w - w*||^2 is a sixteenth of what it was; after three rounds: not at all
    [
        (("16", "1", "0", "0"), 6, 3), (("16", "8", "1", "1/2"), 11, 5), (("16", "101/100", "99/100", "1"), 11, 5),
        (("16", "8", "4", "1"), 14, 7), (("16", "8", "4", "101/100"), 15, 8), (("0", "0", "0", "0"), 0, 0),
    ],
)  # fmt: skip
def test_costs_are_counted_until_the_accuracy_is_reached(path, steps, messages):
    """A participant receives a message and sends one."""
    costs = costs_of(9, 2, path, path)
    assert (costs.steps_to(costs.distance_sq), costs.messages_to(costs.distance_sq)) == (steps, 2 * messages)
    assert (REACHED in costs.facts) == (steps != 15) and COUNTED in costs.facts


@pytest.mark.parametrize(("path", "messages"), [(("16", "8", "1", "1/2"), 5 + 2), (("16", "8", "4", "2"), 8 + 3)])
def test_who_sends_nothing_receives_a_message_all_the_same(path, messages):
    """Under scheme A, E = 3, one client is complete in the first round, one in the second and none in the third."""
    costs = costs_of(9, 2, path, path, np.array([[True, False, False], [False, False, True], [False] * 3]))
    assert costs.messages_to(costs.distance_sq) == messages


def test_a_dense_run_is_the_run_with_messages_that_leave_nothing_out():
    """ST with one entry of one, in which there is nothing to leave out."""
    one = {"h": [["5/4"], ["2/3"]], "c": [["3"], ["-5/2"]], "x0": ["7"], "eta": "2/5", "E": 3, "schedule": [[3, 1], [0, 2], [2, 0]]}
    costs = BUILDERS["feedback"]({**FEEDBACK, **one, "variant": "consistent", "rounds": 5}).costs
    assert len(costs.distance_sq) == 6 and list(costs.distance_sq) == list(costs.dense_distance_sq)


def test_a_run_contracts_where_all_its_coordinates_do():
    """The rest of the distance of (c_1, U c_1) from the fixed point, round after round."""
    base = {
        "weights": ["1/3", "2/3"], "u": [["1/2", "3/4", "1/5"]] * 2, "c": [["1"] * 3, ["2", "-1", "3"]], "lam": "1/3",
        "arithmetic": "float",
    }  # fmt: skip
    found = set()
    for h, many in itertools.product((["1", "2", "3"], ["1/9", "2", "3"], ["1", "1/9", "3"], ["1", "2", "1/9"]), (2, 60, 600, 3000)):
        view = BUILDERS["elastic"]({**base, "h": [h] * 2, "eta": "1/4", "rounds": many})
        M, left = view.recursion(view.lam), np.zeros(3)
        a, b, c, d = (np.diag(part) for rows in (M[:3], M[3:]) for part in (rows[:, :3], rows[:, 3:]))
        w, start = view.fixed(view.eta), view.c[0]
        for x in ((start - w, np.zeros(3)), (np.zeros(3), view.U * start - view.anchors_at(w, view.eta))):
            for _ in range(many):
                x = a * x[0] + b * x[1], c * x[0] + d * x[1]
            left += abs(x[0])
        assert view.contracts == (left <= 1e-7 * (abs(start - w) + abs(view.c - start).max(axis=0))).all()
        found.add(view.contracts)
    assert found == {True, False}
