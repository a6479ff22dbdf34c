"""Instances at each limit of EFL's builders, taken at it and refused just beyond it.

A limit that is off by a little would let a form be judged where its assumptions fail, or refuse an instance that has
them. Each case changes one thing of an instance that is taken, so that no other check can refuse it instead.
"""

from __future__ import annotations

import efl_instances as instances
import pytest
from cases import each
from efl_on_a_problem import BUILDERS

from fedtheory.errors import InvalidInput

LIMIT = {"scheme": "C", **instances.LIMIT}
BENT, ONE = instances.BENT_DEPARTURE, {"samples": ["3"], "h": [["1"]], "c": [["1"]]}
FLAT = {"T": 3, "tau_0": 1, "mean_work": ["1", "1/2"]}
DIAGONAL, MATRICES = instances.AWAY, instances.CURVED
TWICE = [["2", "1/2"], ["1/4", "3/4"]]
CLIENT = {"weights": ["1"], "h": [["1", "2"]], "c": [["3", "1"]]}

# kind: an instance, changes of it that are taken, and changes that are refused
KINDS = {
    "shift": (
        instances.DEPARTURE,
        [{"samples": ["1/2", "1/3", "1/5"]}, {"h": [["1/2", "3"]] * 3}],
        [
            {"event": "move"}, ONE, {"c": [["1"], ["0"], ["2"]]}, {"samples": ["3", "5"]}, {"samples": ["3", "0", "4"]},
            {"samples": ["3", "-1", "4"]}, {"h": [["1", "2"], ["1", "0"], ["1", "1"]]}, {"bend": "0", "below": "1"},
        ],
    ),
    "shift with a bend": (
        BENT,
        [{"bend": "21/10"}, {"below": "1/2"}, {"below": "1"}],
        [{"bend": "22/10"}, {"below": "0"}, {"below": "-1"}],
    ),
    "departed": (
        instances.WORK,
        [
            {"tau_0": 0}, {"tau_0": 4}, FLAT, {"T": 1, "tau_0": 0, "mean_work": [["1", "2"]]},
            {"mean_work": [["1/9", "0"]] * 5}, {"mean_work": [["0", "1", "0"]] * 5},
        ],
        [
            {"tau_0": 5}, {"tau_0": -1}, {"T": 4}, {"T": 6}, {"T": 0}, {"mean_work": [["1"]] * 5},
            {"mean_work": [["1", "-1"]] * 5}, {"mean_work": [["1", "1"]] * 4 + [["0", "1"]]},
        ],
    ),
    "after-shift": (
        instances.QUIET,
        [
            {"mu": "5/4"}, {"mu": "1"}, {"sigma_sq": "1/9"}, {"rounds": 1}, {"tau_0": 0}, {"rounds": 400, "start": ["0", "0"]},
        ],
        [
            {"start": ["1"]}, {"mu": "0", "curvature": ["0", "0"]}, {"mu": "-1"}, {"mu": "126/100"}, {"sigma_sq": "-1/9"},
            {"gamma": "2299/100"}, {"rounds": 0}, {"rounds": 401, "start": ["0", "0"]}, {"tau_0": -1},
        ],
    ),
    "limit": (
        LIMIT,
        [
            {"rounds": 1}, {"h": [["1/9", "1/2"], ["1/4", "1"]]}, {"eta": "1"}, {"eta": "1/9"}, {"offset": "6"},
            {"h": TWICE, "eta": "1/2", "offset": "12"},
        ],
        [
            {"scheme": "D"}, {"c": [["1"], ["3"]]}, {"weights": ["1/3", "1/3", "1/3"]}, {"law": LIMIT["law"][:1]}, {"x0": ["1"]},
            {"weights": ["1", "0"]}, {"weights": ["1/3", "1/3"]}, {"law": [["-1/4", "3/4", "1/2"], ["1/2", "1/4", "1/4"]]},
            {"law": [["1/4", "1/4", "1/2"], ["1/2", "1/4", "1/8"]]}, {"h": [["1", "0"], ["1/4", "3/4"]]}, {"eta": "0"},
            {"eta": "11/10"}, {"step": "0"}, {"offset": "59/10"}, {"rounds": 0}, {"law": [["1", "0", "0"]] * 2},
            {"h": TWICE, "eta": "51/100", "offset": "12"}, {"h": TWICE, "eta": "1/2", "offset": "119/10"},
        ],
    ),
    "elastic": (
        instances.ELASTIC,
        [
            {"u": [["0", "0"]] * 3}, {"leaver": 0}, {"leaver": 2}, {"lam": "1/9", "eta": "1/9"}, {"lam": "213/100"},
            {**{name: instances.ELASTIC[name][:2] for name in ("h", "c", "u")}, "weights": ["1/4", "3/4"]},
        ],
        [
            {"c": [["1"]] * 3}, {"u": [["1"]] * 3}, {"weights": ["1/2", "1/2"]}, {"weights": ["0", "1/2", "1/2"]},
            {"weights": ["1/4", "1/4", "1/4"]}, {"h": [["0", "1"]] * 3}, {"u": [["-1", "1"]] * 3}, {"lam": "0"}, {"eta": "0"},
            {"lam": "32/15"}, {"leaver": 3}, {"leaver": -1}, {"anchor": ["1"]}, {**CLIENT, "u": [["1", "1"]], "leaver": 0},
        ],
    ),
    "abandon": (
        instances.ABANDON,
        [
            {"y": "1/100"}, {"y": "99/100"}, {"h": [["1/9", "1"]] * 3},
            {"weights": ["1/3", "2/3"], "h": [["1", "2"]] * 2, "c": [["1", "2"]] * 2},
        ],
        [
            CLIENT, {"c": [["1"]] * 3}, {"h": [["1", "2"]] * 2, "c": [["1", "2"]] * 2}, {"weights": ["1/2", "1/2", "0"]},
            {"weights": ["1/2", "1/6", "1/4"]}, {"h": [["0", "1"]] * 3}, {"y": "0"}, {"y": "1"},
        ],
    ),
    "epochs": (
        instances.EPOCHS,
        [{"noise": "0"}, {"G_sq": "0"}, {"kappa": "1"}, {"E": 1}, {"T": 1}],
        [{"noise": "-1/9"}, {"G_sq": "-1/9"}, {"kappa": "9/10"}, {"E": 0}, {"T": 0}],
    ),
    "keep": (
        instances.KEEP,
        [{"y": "1/100"}, {"y": "99/100"}, {"sigma_sq": "0"}, {"rounds": 1}, {"rounds": 60}],
        [{"y": "0"}, {"y": "1"}, {"sigma_sq": "-1/9"}, {"rounds": 0}, {"rounds": 61}],
    ),
    "inactive": (
        instances.INACTIVE,
        [
            {"idle": ["0", "1/2"]}, {"idle": ["1/4"]}, {"gamma": "12"}, {"tau_0": 0}, {"tau_0": 4}, {"J": "1/9", "C": "1/9"},
            {"idle": ["0", "99/100"]}, {"T": 1, "tau_0": 0, "idle": ["0"]}, {"T": 2000, "idle": ["0"]}, {"E": 1},
        ],
        [
            {"T": 4}, {"idle": ["-1/9", "0"]}, {"idle": ["1", "0"]}, {"J": "0"}, {"C": "0"}, {"y": "0"}, {"y": "1"},
            {"gamma": "1199/100"}, {"tau_0": 5}, {"tau_0": -1}, {"T": 2001, "idle": ["0"]}, {"E": 0}, {"T": 0, "idle": ["0"]},
        ],
    ),
    "incomplete": (
        instances.INCOMPLETE,
        [{"mu": "5/2"}, {"mu": "1/9"}, {"G_sq": "0"}, {"sigma_sq": ["0", "0"]}, {"D": ["0", "0"]}],
        [
            {"weights": ["1/2", "1/4", "1/4"]}, {"law": instances.INCOMPLETE["law"][:1]}, {"sigma_sq": ["1"]}, {"D": ["1"]},
            {"weights": ["1", "0"]}, {"weights": ["1/3", "1/3"]}, {"law": [["0", "1", "1", "-1"], ["0", "1", "0", "0"]]},
            {"law": [["0", "1", "1", "0"], ["0", "1", "0", "0"]]}, {"law": [["1/2", "1/2"], ["0", "1"]]}, {"mu": "0"},
            {"mu": "26/10"}, {"G_sq": "-1/9"}, {"sigma_sq": ["-1", "1"]}, {"D": ["-1", "1"]},
        ],
    ),
    "rates": (
        instances.POINT,
        [{"mu": "3"}, {"mu": "1/9"}, {"G": "1/9"}, {"S": "1/9"}, {"root": "1/9"}, {"delta": "1/9"}],
        [{"mu": "0"}, {"mu": "31/10"}, {"G": "0"}, {"S": "0"}, {"root": "0"}, {"delta": "0"}],
    ),
    "row": (
        instances.ROW,
        [
            {"h": ["1/9", "1"]}, {"root": "1/9"}, {"K": "1/9"}, {"loss": True, "root": "1/9"},
            {"h": ["1"], "start": ["65"], "root": "49"},  # one round
        ],
        [{"h": ["1"]}, {"h": ["0", "1"]}, {"root": "0"}, {"K": "0"}, {"loss": 1}, {"root": "9"},
         {"h": ["1"], "start": ["65"], "root": "65"}],
    ),
    "units": (
        instances.UNITS,
        [{"mu": "2"}, *({name: "1/9"} for name in ("G", "mu", "S", "sigma", "clients", "root"))],
        [{"mu": "21/10"}, *({name: "0"} for name in ("G", "mu", "S", "sigma", "clients", "root"))],
    ),
    "stability": (
        instances.STABLE,
        [{"u": [["0", "0"]] * 2}, {"h": [["1/9", "1"]] * 2}, {"lam": "1/9"}, {"lam": "9"}, {"eta": "9"}, {"E": 50}],
        [
            {"c": [["1"]] * 2}, {"u": [["1"]] * 2}, {"weights": ["1/4", "1/2", "1/4"]}, {"weights": ["0", "1"]},
            {"weights": ["1/4", "1/4"]}, {"h": [["0", "1"]] * 2}, {"u": [["-1", "1"]] * 2}, {"lam": "0"}, {"eta": "0"},
            {"start": ["1"]}, {"anchors": [["1"]] * 2}, {"anchors": [["1", "1"]]}, {"E": 0}, {"E": 51},
        ],
    ),
    "frozen": (
        {**instances.HELD, "variant": "consistent"},
        [{"h": [["1/9", "1"]] * 3, "c": [["1", "1"]] * 3}],
        [
            {"variant": "after"}, {"c": [["1"]] * 3}, {"weights": ["1/2", "1/2"]}, {"weights": ["1/2", "1/2", "0"]},
            {"weights": ["1/3", "1/3", "1/4"]}, {"h": [["0", "1"]] * 3},
        ],
    ),
    "feedback": (
        {**instances.FEEDBACK, "variant": "literal"},
        [{"eta": "1"}, {"eta": "1/9"}, {"h": [["1/9", "1", "1"]] * 2}, {"rounds": 1}, {"schedule": [[2, 0]]},
         {"rounds": 100_000}, {"h": [["2", "1", "1"]] * 2, "eta": "1/2"}],
        [
            {"variant": "none"}, {"c": [["1"]] * 2}, {"weights": ["1/2", "1/4", "1/4"]}, {"x0": ["1"]}, {"schedule": [[1]]},
            {"weights": ["0", "1"]}, {"weights": ["1/4", "1/4"]}, {"h": [["0", "1", "1"]] * 2}, {"eta": "0"},
            {"eta": "101/100"}, {"schedule": [[3, 0]]}, {"schedule": [[-1, 0]]}, {"rounds": 0}, {"E": 0, "schedule": [[0, 0]]},
            {"rounds": 100_001}, {"h": [["2", "1", "1"]] * 2, "eta": "51/100"},
        ],
    ),
    "term": (
        instances.TERM,
        [{"lam": "1/9"}, {"u": [["0", "0"]] * 2}, {"next_u": [["0", "0"]] * 2}, {"active": [1]}, {"points": [["1", "2"]] * 2}],
        [
            {"anchors": [["1"]] * 2}, {"next_u": [["1"]] * 2}, {"next_anchors": [["1", "1"]]}, {"points": [["1"]] * 3},
            {"points": [["1", "1"]]}, {"lam": "0"}, {"u": [["-1", "1"]] * 2}, {"next_u": [["-1", "1"]] * 2}, {"active": [2]},
        ],
    ),
    "away": (
        DIAGONAL,
        [{"gamma": "47"}, {"mu": "1/2", "gamma": "95"}, {"T": 2}, {"T": 60}],
        [
            {"c": [["1"]] * 3}, {"weights": ["1/2", "1/2"]}, {**CLIENT, "mu": "1"}, {"x0": ["1"]}, {"mu": "0"}, {"mu": "11/10"},
            {"gamma": "4699/100"}, {"weights": ["1/2", "1/2", "0"]}, {"weights": ["1/2", "1/3", "1/9"]}, {"T": 1}, {"T": 61},
            {"h": DIAGONAL["h"][:1]},
        ],
    ),
    "away with matrices": (
        MATRICES,
        [{"weights": ["1/2", "1/2"]}, {"gamma": "91"}],
        [
            {"H": [[["15"]], [["5"]]]}, {"H": MATRICES["H"][:1]},
            {"H": [[["15", "3"], ["2", "21"]], MATRICES["H"][1]]}, {"mu": "5"}, {"gamma": "90"},
        ],
    ),
    "coefficient": (
        instances.COEFFICIENT,
        [{"eta": "1/5"}, {"factor": "1"}, {"factor": "4"}, {"h": ["1/9", "1"]}, {"s": 1}, {"s": 5}, {"E": 100}, {"E": 1, "s": 1}],
        [
            {"away": ["1"]}, {"h": ["0", "1"]}, {"eta": "0"}, {"factor": "9/10"}, {"factor": "401/100"}, {"s": 0}, {"s": 6},
            {"E": 101}, {"E": 0, "s": 1},
        ],
    ),
    "samples": (
        instances.CONCLUSION,
        [{"fewer": "1/100"}, {"fewer": "399/100"}, {"closer": "1/100"}, {"closer": "99/100"}, {"samples": ["1/9", "1", "4"]}],
        [
            {"c": [["1"]] * 3}, {"samples": ["2", "4"]}, {"samples": ["2"], "h": [["1", "2"]], "c": [["1", "1"]]},
            {"samples": ["2", "0", "4"]}, {"h": [["0", "1"]] * 3}, {"fewer": "0"}, {"fewer": "4"}, {"closer": "0"}, {"closer": "1"},
        ],
    ),
    "restart": (
        instances.RESTART,
        [{"tau_0": 1}, {"rounds": 1}],
        [
            {"w0": ["1", "2"]}, {"tau_0": 0}, {"rounds": 0}, {"tau_0": 201}, {"rounds": 201}, {"law": [["0", "1"]] * 2},
            {"weights": ["1"], "h": [["1"]], "c": [["1"]], "noise": [["1"]], "law": [["0", "1"]]},
        ],
    ),
    "compression": (
        instances.TOP,
        [{"compressor": {"name": "top-k", "k": 5}}],
        [{"compressor": {"name": "top-k", "k": 6}}, {"compressor": {"name": "top-k", "q": "1/2", "r": 1}}, {"x": []}],
    ),
}  # fmt: skip
TAKEN = [(kind, change) for kind, (_, taken, _) in KINDS.items() for change in ({}, *taken)]
REFUSED = [(kind, change) for kind, (_, _, refused) in KINDS.items() for change in refused]


def built(kind, change):
    return BUILDERS[kind.split(" with ")[0]]({**KINDS[kind][0], **change})


@each(("kind", "change"), TAKEN)
def test_what_is_within_the_limits_is_taken(kind, change):
    assert built(kind, change).exact


@each(("kind", "change"), REFUSED)
def test_what_is_beyond_one_of_them_is_refused(kind, change):
    with pytest.raises(InvalidInput):
        built(kind, change)


def test_every_builder_has_its_limits():
    asked = {kind.split(" with ")[0] for kind in KINDS}
    here = set(BUILDERS) - {"run", "step", "compressed", "compressed-partial"}
    assert here and here == asked, f"builders whose limits nobody asks for: {sorted(here - asked)}"
