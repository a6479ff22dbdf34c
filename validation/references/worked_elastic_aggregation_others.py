"""Instances of Elastic Aggregation whose numbers are all different.

Small numbers, on which a product and a quotient, or a square and its double, may be the same, have
the others. Here no parameter is 0 or 1 and no two are equal, as far as a form's conditions allow.
"""

from __future__ import annotations

from worked_elastic_aggregation import INSTANCES

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
OTHERS = (
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
)
INSTANCES |= {f"{kind} {n}": (kind, data) for n, (kind, data) in enumerate(OTHERS)}
