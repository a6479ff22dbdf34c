"""Instances of EFL's statements that tests change, as witness files have them."""

from __future__ import annotations

# Theorem 2, and one client with a bend
DEPARTURE = {
    "event": "departure", "samples": ["3", "5", "4"],
    "h": [["7/4", "3"], ["2", "5/2"], ["4", "3/2"]],
    "c": [["1", "-2"], ["0", "3"], ["2", "5"]],
}  # fmt: skip
BENT_DEPARTURE = {
    "event": "departure", "samples": ["2", "1", "4"], "h": [["2"], ["2"], ["5"]],
    "c": [["-1/2"], ["-1/2"], ["21/10"]], "bend": "3/2", "below": "2",
}  # fmt: skip
# sections 3 and 4
WORK = {
    "T": 5,
    "tau_0": 2,
    "mean_work": [["1", "1"], ["1/2", "3/4"], ["2", "2"], ["1", "1"], ["3/2", "0"]],
}
QUIET = {
    "curvature": ["5/4", "3/2"], "start": ["1", "-2"], "mu": "1", "gamma": "24", "tau_0": 7,
    "rounds": 2, "sigma_sq": "0",
}  # fmt: skip
LIMIT = {
    "weights": ["1/3", "2/3"], "h": [["1", "1/2"], ["1/4", "3/4"]], "c": [["1", "-2"], ["3", "2"]],
    "law": [["1/4", "1/4", "1/2"], ["1/2", "1/4", "1/4"]], "eta": "1/2",
    "x0": ["-1", "4"], "step": "6", "offset": "18", "rounds": 2,
}  # fmt: skip
EQUALLY_ACTIVE = {**LIMIT, "law": [["1/4", "1/4", "1/2"], ["1/4", "1/2", "1/4"]]}
# the elastic term
ELASTIC = {
    "weights": ["1/4", "1/2", "1/4"], "h": [["1", "1/2"], ["3/4", "1"], ["1/2", "5/8"]],
    "c": [["2", "-2"], ["-1", "-3"], ["1/2", "4"]],
    "u": [["1/2", "3/4"], ["1/4", "1"], ["1", "1/8"]],
    "lam": "1/2", "eta": "1/4", "rounds": 0, "leaver": 1, "anchor": ["-2", "5"],
}  # fmt: skip
MATCHED = {**ELASTIC, "u": [["1/4", "1/2"], ["1/2", "1"], ["1/4", "1/2"]]}
LONG_RUN = {**ELASTIC, "eta": "1/31", "rounds": 1000, "arithmetic": "float"}
# messages, and rows of Table 1


def message(name, *x, **parameters):
    return {"compressor": {"name": name, **parameters}, "x": list(x)}


TOP = message("top-k", "4", "-1", "2", "1/2", "3", k=2)
FEEDBACK = {
    "weights": ["1/4", "3/4"], "h": [["1", "1/2", "1/4"], ["1/2", "3/4", "1"]],
    "c": [["3", "-2", "5"], ["-1", "2", "1"]], "q": "1/2", "eta": "1/2",
    "x0": ["1", "3", "-2"], "E": 2, "rounds": 3, "schedule": [[2, 1], [0, 2], [1, 0]],
}  # fmt: skip
PLAIN = {**FEEDBACK, "E": 1, "rounds": 3, "schedule": [[1, 1]]}
POINT = {"G": "1", "L": "3", "mu": "1/2", "S": "5", "root": "1/3", "delta": "2"}
# claims without a formula
ROW = {"h": ["1/2", "2"], "start": ["2", "1"], "root": "2", "K": "10", "loss": False}
UNITS = {"G": "3", "L": "2", "mu": "1/2", "S": "4", "sigma": "5", "clients": "10", "root": "1/2"}
# the model held at its optimum
HELD = {
    "weights": ["1/3", "1/3", "1/3"], "h": [["1", "1"], ["1", "1"], ["1", "1"]],
    "c": [["-14", "-5"], ["-8", "-25"], ["22", "30"]], "q": "1/2",
}  # fmt: skip
# section 4: round by round nobody idle, all alike, not alike, one of both, nobody
INACTIVE = {
    "idle": [["0", "0"], ["1/4", "1/4"], ["1/4", "1/2"], ["0", "1/2"], ["0", "0"]],
    "E": 3, "T": 5, "gamma": "13", "J": "7/3", "C": "11/2", "y": "1/5", "tau_0": 2,
}  # fmt: skip
INCOMPLETE = {
    "weights": ["2/3", "1/3"], "law": [["0", "1/2", "0", "1/2"], ["0", "1/4", "3/4", "0"]],
    "L": "5/2", "mu": "2/3", "G_sq": "7",
    "sigma_sq": ["1/2", "3"], "D": ["1/5", "4/3"],
}  # fmt: skip
ABANDON = {
    "weights": ["1/2", "1/6", "1/3"], "h": [["1", "2"], ["3", "1"], ["2", "1/2"]],
    "c": [["1", "0"], ["-1", "2"], ["3", "-2"]],
    "y": "1/4",
}  # fmt: skip
EPOCHS = {"noise": "9", "G_sq": "1/2", "kappa": "3", "E": 3, "T": 7}
KEEP = {"y": "1/3", "sigma_sq": "9/4", "x0": "3/2", "rounds": 3}
# sentences of section 3
TERM = {
    "lam": "3/2", "u": [["2", "1/2"], ["1", "3"]], "anchors": [["1", "-2"], ["-1/2", "4"]],
    "next_u": [["1", "1"], ["2", "5/2"]], "next_anchors": [["0", "-1"], ["1", "3"]],
    "points": [["1", "2"], ["-3", "1/2"], ["2", "-1"]], "active": [0],
}  # fmt: skip
FED = {
    "weights": ["1/4", "3/4"], "h": [["1", "1/2"], ["1/2", "1"]],
    "c": [["1", "-2"], ["-1", "2"]], "q": "1/2", "eta": "1/4",
    "x0": ["0", "1"], "E": 2, "schedule": [[2, 1], [0, 2]], "rounds": 3,
}  # fmt: skip
LINE = {
    **FED,
    "h": [["1"], ["1/2"]],
    "c": [["1"], ["-1"]],
    "x0": ["2"],
    "q": "1",
}  # ST keeps the one entry
COSTLY = {
    "variant": "consistent", "weights": ["1/2", "1/2"], "h": [["1", "1/2", "1"], ["1", "1", "1/2"]],
    "c": [["1", "-2", "3"], ["-1", "2", "1"]], "q": "1/3", "eta": "1/2", "x0": ["4", "4", "4"],
    "E": 1, "schedule": [[1, 1]],
    "rounds": 12,
}  # fmt: skip
# sentences of section 4
AWAY = {
    "weights": ["1/2", "1/3", "1/6"], "h": [["2", "1"], ["1", "3"], ["3", "2"]],
    "c": [["1", "0"], ["-2", "1"], ["4", "3"]],
    "mu": "1", "gamma": "50", "T": 3, "x0": ["5", "-4"],
}  # fmt: skip
CURVED = {
    "weights": ["1/10", "9/10"], "H": [[["15", "3"], ["3", "21"]], [["5", "-4"], ["-4", "23"]]],
    "c": [["0", "0"], ["-3", "-2"]], "mu": "83/20", "gamma": "93", "T": 4, "x0": ["-1", "1"],
}  # fmt: skip
COEFFICIENT = {
    "h": ["2", "1/2"],
    "away": ["3", "-5"],
    "eta": "1/8",
    "E": 5,
    "s": 3,
    "factor": "5/2",
}
TWO_STEPS = {**COEFFICIENT, "s": 2}
ONE_STEP = {**COEFFICIENT, "s": 1}
CONCLUSION = {
    "samples": ["2", "3", "4"], "h": [["1", "2"], ["3", "1"], ["2", "5/2"]],
    "c": [["1", "-1"], ["0", "2"], ["4", "-3"]],
    "fewer": "3/2", "closer": "2/5",
}  # fmt: skip
BENT_CONCLUSION = {
    "samples": ["1", "1"], "h": [["1"], ["100"]], "c": [["0"], ["101/100"]], "bend": "1",
    "below": "1", "fewer": "4/5",
    "closer": "1/2",
}  # fmt: skip
RESTART = {
    "event": "departure", "scheme": "B", "weights": ["1/2", "1/3", "1/6"],
    "h": [["1"], ["2"], ["3"]], "c": [["1"], ["-1"], ["2"]],
    "noise": [["1/2"], ["1"], ["2"]], "law": [["1/4", "3/4"], ["0", "1"], ["1/2", "1/2"]],
    "w0": ["3"], "tau_0": 2, "rounds": 2,
}  # fmt: skip
# what is stable
STABLE = {
    "weights": ["1/4", "3/4"], "h": [["1", "2"], ["3", "1"]], "c": [["1", "-2"], ["2", "3"]],
    "u": [["3", "1/2"], ["1", "1"]],
    "lam": "1/10", "eta": "1/2", "E": 1, "start": ["1/2", "1"],
    "anchors": [["1", "-1"], ["3", "1/2"]],
}  # fmt: skip
FIRM = {
    **STABLE,
    "u": [["1/2", "1"], ["3", "1/4"]],
    "lam": "28/5",
}  # a tenth off 1/(eta^2 b) on both sides
LONG = {name: STABLE[name] for name in ("weights", "E")} | {
    "h": [["1"], ["3"]], "c": [["0"], ["1"]], "u": [["1/4"], ["3"]], "eta": "26/25", "lam": "1/2",
}  # fmt: skip
EARLY = {
    "idle": ["0", "1/3"],
    "E": 3,
    "T": 1,
    "gamma": "25/2",
    "J": "5/4",
    "C": "7/2",
    "y": "1/3",
    "tau_0": 0,
}
