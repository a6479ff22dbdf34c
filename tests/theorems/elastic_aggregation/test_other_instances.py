"""Elastic Aggregation: the package and the second writing agree on instances whose numbers are all different.

The worked instances have small numbers, on which a product and a quotient, or a square and its
double, may be the same. Here no parameter is 0 or 1 and no two are equal, as far as a form's
conditions allow, and what is compared are both sides of every form that is about the instance.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import worked_elastic_aggregation as worked
import worked_elastic_aggregation_forms as formulas
import worked_elastic_aggregation_words as words
import worked_elastic_aggregation_words_forms as formulas_2

from fedtheory import theorems
from fedtheory.theory.judge.registry import setting_of

BUILDERS = setting_of("elastic-aggregation/sign").builders

FULL = {
    "counts": ["2", "5", "3"],
    "H": [
        [["5/2", "1/2", "-2/3"], ["1/2", "2", "1/4"], ["-2/3", "1/4", "4/3"]],
        [["4/3", "-1/5", "0"], ["-1/5", "7/4", "1/3"], ["0", "1/3", "3/5"]],
        ["6/5", "1/3", "9/4"],
    ],
    "S": [
        [["2", "1/2", "-1/3"], ["1/2", "3/4", "1/5"], ["-1/3", "1/5", "5/3"]], ["7/3", "2/5", "3/2"],
        [["3/5", "-1/4", "0"], ["-1/4", "4/3", "1/2"], ["0", "1/2", "6/5"]],
    ],
    "c": [["3/2", "-7/3", "5/4"], ["-5/4", "2", "2/7"], ["2/9", "7/2", "-4/3"]],
    "theta": ["2/3", "-5/4", "7/2"],
    "tau": "3/5",
    "eta": "4/7",
    "lr": "2/9",
    "E": 3,
}  # fmt: skip
PLAIN = {**FULL, "H": [["5/2", "2", "4/3"], ["4/3", "7/4", "3/5"], ["6/5", "1/3", "9/4"]]}
LINE = {"H": [["5/2"], ["4/3"], ["1/3"]], "S": [["2"], ["7/3"], ["3/5"]], "c": [["3/2"], ["-5/4"], ["2/9"]], "theta": ["2/3"]}
SOME = {**FULL, "c": FULL["c"][:2], "P": 2}
TWO = {
    **SOME, "H": [["5/2", "2"], ["4/3", "7/4"], ["6/5", "9/4"]], "S": [["2", "3/4"], ["2/5", "7/3"], ["3/5", "4/3"]],
    "c": [["3/2", "-7/3"], ["-5/4", "2"]], "theta": ["2/3", "-5/4"],
}  # fmt: skip
PAIR = {
    "counts": ["5/2", "5/2"], "H": [["5/2", "2/3"], ["4/3", "7/4"]], "S": [["5", "3/4"], ["2/5", "7/3"]], "c": [["3/2", "-7/3"]],
    "theta": ["2/3", "5/4"], "tau": "3/5", "lr": "2/9", "E": 3, "P": 1,
}  # fmt: skip
LABELS = {
    "held": [[["3/2", "2", "-1/3"], ["1/5", "7/4", "2"]], [["-2", "1/2", "5/3"]], [["4/3", "-1", "1/7"], ["2", "5/2", "1/3"]]],
    "held_labels": [["3", "-2"], ["5/3"], ["7/2", "1/4"]],
    "train": [[["2/3", "1/2", "3"], ["5/4", "-1/3", "2"]], [["3/5", "7/3", "-1/2"], ["1/4", "2", "4/5"]], [["5/2", "1/6", "-3/4"]]],
    "labels": [["2/5", "-3"], ["7/2", "4/3"], ["-5/6"]], "others": [["5/3", "1/2"], ["-2/7", "3"], ["9/4"]],
    "counts": ["2", "5", "3"], "theta": ["2/3", "-5/4", "7/2"], "tau": "3/5", "eta": "4/7", "lr": "2/9", "E": 3,
}  # fmt: skip
BATCHES = [
    [["5/2", "1/3", "2"]], [["7/4", "3", "2/5"], ["4/3", "1/2", "5"]], [["1/7", "6", "3/2"], ["9/4", "0", "2/3"], ["2", "8", "1/6"]],
]  # fmt: skip
AVERAGE = {"weights": ["2", "5", "3"], "batches": BATCHES, "mu": "3/7", "tau": "3/5"}
OTHERS = [
    ("aggregation", {**FULL, "eta": "4/5"}),
    ("aggregation", {**FULL, "eta": "2/5", "E": 1}),
    ("aggregation", {**FULL, "tau": "0"}),
    ("aggregation", {**PLAIN, "eta": "2/5"}),
    ("aggregation", {**PLAIN, "eta": "8/5"}),
    ("aggregation", {**PLAIN, "tau": "7/5", "theta": ["0", "0", "0"]}),
    ("aggregation", {**FULL, **LINE}),
    ("aggregation", {**PLAIN, "eta": "2/5", "tau": "19/10"}),
    ("sampled", SOME),
    ("sampled", {**SOME, "P": 3}),
    ("sampled", {**SOME, "counts": ["5/2"] * 3, "E": 1}),
    ("sampled", {**SOME, **LINE, "c": LINE["c"][:2]}),
    ("sampled", TWO),
    ("sampled", PAIR),
    ("sampled", {**PAIR, "S": [["2", "3/4"], ["41/20", "7/10"]]}),
    ("linearised", {**TWO, "eta": "4/7"}),
    ("linearised", {**TWO, "eta": "4/7", "theta": ["13", "-15"]}),
    ("linearised", {**TWO, "eta": "4/7", "P": 3}),
    ("linearised", {**SOME, **LINE, "c": LINE["c"][:2], "eta": "4/7"}),
    ("average", AVERAGE),
    ("average", {**AVERAGE, "batches": [b[:1] * n for b, n in zip(BATCHES, (4, 2, 3), strict=True)]}),
    ("average", {**AVERAGE, "batches": [[*b, *b[:1]][:2] for b in BATCHES]}),
    ("labels", LABELS),
]
IDS = [f"{kind} {n}" for n, (kind, _) in enumerate(OTHERS)]
MADE = {**worked.WORKED, "linearised": words.Near, "labels": words.Labelled}
WRITTEN = {k: of[k][1] for of in (formulas.FORMS, formulas_2.FORMS) for k in of}


def entries(a):
    """Of a number, a list of lists or an array."""
    return [Fraction(v) for v in np.asarray(a, dtype=object).ravel()]


def about(kind, data):
    """The package's view, and the forms that are about it."""
    view = BUILDERS[kind](data)
    forms = {(s, n): theorems.get(f"elastic-aggregation/{s}").form(n) for s, n in WRITTEN}
    return view, {k: f for k, f in forms.items() if f.kind == kind and view.applies(f) is None}


@pytest.mark.parametrize(("kind", "data"), OTHERS, ids=IDS)
def test_both_sides_agree(kind, data):
    (view, forms), made = about(kind, data), MADE[kind](data)
    assert forms
    for key, form in forms.items():
        left, right, *_ = map(entries, WRITTEN[key](made))
        found, *more = form.sides(view).terms
        found, more = np.broadcast_arrays(found, sum(more))
        assert (entries(found), entries(more)) == (left, right), key


def test_no_form_is_left_out():
    have = {key for kind, data in OTHERS for key in about(kind, data)[1]}
    assert set(WRITTEN) - have == set()
