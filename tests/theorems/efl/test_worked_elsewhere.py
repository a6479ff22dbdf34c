"""The library and the independent writings agree on instances other than those whose numbers are on record.

The recorded instances have round numbers: where mu = 1 or G = 1, a factor that should be there and is not leaves
the numbers as they are. Here hardly any parameter is 0 or 1, and no two weights are alike; the sides are compared as
fractions. Whether a form is about such an instance does not matter to its sides.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import worked_efl_elastic
import worked_efl_sections
from cases import each
from efl_both_writings import WORKED, compared
from efl_on_a_problem import BUILDERS

from fedtheory.theorems import get
from fedtheory.theorems.efl.elastic_world import ElasticView

WEIGHTS = ["1/6", "1/2", "1/3"]
H = [["5/4", "2/3"], ["3/4", "4/3"], ["1/2", "5/8"]]
C = [["2", "-5/2"], ["-3/2", "-3"], ["2/5", "4"]]
# of statements whose instances have these parameters: others
OTHER = [
    (
        ("theorem-2-departure", "theorem-2-arrival", "departure-no-convergence", "theorem-2-conclusion"),
        {"samples": ["7/2", "5/3", "9/4"], "h": [["7/4", "3"], ["5/3", "5/2"], ["4", "8/5"]], "c": C},
    ),
    (
        ("departure-heterogeneity",),
        {"T": 4, "tau_0": 1, "mean_work": [["2", "2", "2"], ["3", "3", "1/2"], ["2", "2", "5"], ["0", "3", "0"]]},
    ),
    (
        ("learning-rate-after-shift",),
        {"curvature": ["5/3", "7/3"], "start": ["3", "-2/3"], "mu": "3/2", "gamma": "26", "tau_0": 3, "rounds": 3},
    ),
    (
        ("scheme-limit",),
        {
            "weights": WEIGHTS, "h": H, "c": C, "eta": "2/5", "x0": ["-2", "3"], "step": "5", "offset": "19", "rounds": 3,
            "law": [["1/4", "1/4", "1/6", "1/3"], ["1/2", "0", "1/4", "1/4"], ["1/5", "2/5", "0", "2/5"]],
        },
    ),
    (
        ("elastic-fixed-point", "stale-anchor"),
        {
            "weights": WEIGHTS, "h": H, "c": C, "u": [["1/2", "3/4"], ["1/4", "2"], ["3", "1/8"]], "lam": "2/3", "eta": "1/5",
            "leaver": 2, "anchor": ["-2", "5"],
        },
    ),
    (
        ("elastic-limit",),
        {
            "weights": WEIGHTS, "h": H, "c": C, "u": [["1/2", "3/4"], ["1/4", "2"], ["3", "1/8"]], "lam": "1/8", "eta": "8/5",
            "rounds": 9,
        },
    ),
    (
        ("residual-invariant", "compression-bias", "server-step"),
        {
            "weights": WEIGHTS, "h": [["5/4", "1/2", "1/4"], ["1/2", "3/4", "4/3"], ["2/3", "3/5", "5/4"]], "q": "2/3",
            "c": [["3", "-2", "5"], ["-3/2", "2", "5/2"], ["4", "-3", "-2"]], "eta": "2/5", "x0": ["3/2", "3", "-2"], "E": 3,
            "rounds": 4, "schedule": [[3, 1, 2], [0, 2, 3], [2, 0, 1]],
        },
    ),
    (("table-1-scaffold", "table-1-mime"), {"G": "4/3", "L": "5/2", "mu": "2/3", "S": "7/2", "root": "3/5", "delta": "7/3"}),
    (
        ("inactive-rate", "corollary-1-threshold", "tolerance", "departure-early-or-late"),
        {
            "idle": [["0", "0", "0"], ["1/4", "1/4", "1/4"], ["1/4", "1/4", "1/5"], ["0", "1/2", "0"]], "E": 3, "T": 4,
            "gamma": "37/3", "J": "5/3", "C": "7/2", "y": "2/7", "tau_0": 2,
        },
    ),
    (
        ("incomplete-rate",),
        {
            "weights": WEIGHTS, "law": [["0", "1/2", "0", "1/2"], ["0", "1/4", "3/4", "0"], ["0", "1/5", "2/5", "2/5"]],
            "L": "5/2", "mu": "2/3", "G_sq": "7/3", "sigma_sq": ["1/2", "3", "5/3"], "D": ["1/5", "4/3", "2/7"],
        },
    ),
    (("corollary-1",), {"weights": WEIGHTS, "h": H, "c": C, "y": "2/7"}),
    (("corollary-1-epochs",), {"noise": "7/2", "G_sq": "5/3", "kappa": "9/4", "E": 2, "T": 5}),
    (
        ("elastic-rearrangement",),
        {
            "lam": "2/5", "u": [["2", "1/2"], ["3/2", "3"], ["4", "5/3"]], "anchors": C, "next_u": H, "active": [0, 2],
            "next_anchors": [["5/2", "-2"], ["4/3", "3"], ["-3", "2"]], "points": [["3/2", "2"], ["-3", "1/2"], ["5", "-4"]],
        },
    ),
    (
        ("costs",),
        {
            "weights": WEIGHTS, "h": [["5/4", "1/2", "1", "2/3", "1"]] * 3, "c": [["3", "-2", "5", "2", "4"]] * 3, "q": "2/5",
            "eta": "2/5", "x0": ["4", "3", "-2", "5", "-3"], "E": 3, "schedule": [[3, 1, 2], [0, 2, 3], [2, 0, 1]], "rounds": 9,
        },
    ),
    (
        ("tolerance", "departure-early-or-late", "staleness"),
        {
            "weights": WEIGHTS, "h": [["2", "5/2"], ["5/2", "3"], ["3", "9/4"]], "c": C, "mu": "3/2", "gamma": "33", "T": 4,
            "x0": ["5", "-4"],
        },
    ),
    (("coefficient-as-step",), {"h": ["5/2", "2/3"], "away": ["3", "-5"], "eta": "1/7", "E": 5, "s": 3, "factor": "5/3"}),
    (
        ("shift-bound",),
        {
            "scheme": "B", "weights": WEIGHTS, "h": [["5/4"], ["2"], ["3"]], "c": [["3/2"], ["-2"], ["3"]],
            "noise": [["1/2"], ["2/3"], ["3/2"]], "law": [["1/4", "3/4"], ["1/5", "4/5"], ["1/2", "1/2"]], "w0": ["5/2"],
        },
    ),
    (
        ("elastic-stability", "elastic-drift"),
        {
            "weights": WEIGHTS, "h": H, "c": C, "u": [["1/2", "3/4"], ["1/4", "2"], ["3", "1/8"]], "lam": "2/3", "eta": "3/5",
            "E": 2, "start": ["3/2", "5"], "anchors": [["2", "-3"], ["3", "1/2"], ["5/2", "-2"]],
        },
    ),
    (("table-1-row",), {"h": ["2/3", "5/2"], "start": ["3", "5/3"], "root": "3/2", "K": "7"}),
    (
        ("table-1-non-convex",),
        {"G": "4/3", "L": "5/2", "mu": "2/3", "S": "7/2", "sigma": "5/3", "clients": "9", "root": "3/5"},
    ),
]  # fmt: skip
LAST_ONLY = ("incomplete-rate", "unbiased")  # of which the last client alone is worked out
CASES = {
    key: {**found[0], **change}
    for names, change in OTHER
    for key, found in WORKED.items()
    if key[0] in names
    and key != LAST_ONLY
    and isinstance(found[0], dict)
    and change.keys() <= found[0].keys()
    and not {"bend", "arithmetic"} & found[0].keys()
}


@each("key", CASES)
def test_both_writings_agree(key):
    data, both = CASES[key], WORKED[key][1]
    form = get(f"efl/{key[0]}").form(key[1])
    sides = form.sides(BUILDERS[form.kind](data))
    by_hand = both(data, data["scheme"]) if key[0] == "scheme-limit" else both(data)
    compared(sides, *(list(np.ravel(np.array(side, dtype=object))) for side in by_hand))


@pytest.mark.parametrize("name", [key[1] for key in WORKED if key[0] == "table-1-non-convex"])
def test_both_writings_agree_where_the_other_row_is_the_smaller_one(name):
    """VRL-SGD's row is below EFL's: of the two constants, min{1, .} is below 1, and max{1, .} is 1."""
    key = ("table-1-non-convex", name)
    data = {"G": "4", "L": "5/2", "mu": "1/3", "S": "7/2", "sigma": "1/5", "clients": "2", "root": "3"}
    sides = get("efl/table-1-non-convex").form(name).sides(BUILDERS["units"](data))
    compared(sides, *(list(np.ravel(np.array(side, dtype=object))) for side in WORKED[key][1](data)))


@each("lam", ["1/50", "2/5", "3", "9"])
@each("eta", ["1/9", "7/8", "13/8"])
@each("steps", [1, 3])
def test_both_writings_agree_on_what_is_stable(steps, eta, lam):
    """Truth values: only instances on both sides of a limit tell a wrong limit from the right one."""
    for key, data in CASES.items():
        if key[0] == "elastic-stability":
            data = {**data, "E": steps, "eta": eta, "lam": lam}
            form = get("efl/elastic-stability").form(key[1])
            view = BUILDERS["stability"](data)
            if view.applies(form) is None:
                compared(form.sides(view), *(list(np.ravel(np.array(side, dtype=object))) for side in WORKED[key][1](data)))


MIXED = {
    "weights": WEIGHTS, "c": C, "mu": "3/2", "gamma": "33", "T": 4, "x0": ["5", "-4"],
    "H": [[["2", "1/4"], ["1/4", "5/2"]], [["5/2", "-1/3"], ["-1/3", "2"]], [["9/4", "1/5"], ["1/5", "12/5"]]],
}  # fmt: skip


AWAY = [key for key, found in WORKED.items() if isinstance(found[0], dict) and found[0].keys() & {"h", "H"} and "T" in found[0]]


@pytest.mark.parametrize("key", [key for key in AWAY if get(f"efl/{key[0]}").form(key[1]).kind == "away"], ids=" ".join)
def test_both_writings_agree_on_coordinates_that_mix(key):
    """Of clients whose Hessians are no diagonal matrices, whatever the form asks of them."""
    sides = get(f"efl/{key[0]}").form(key[1]).sides(BUILDERS["away"](MIXED))
    compared(sides, *(list(np.ravel(np.array(side, dtype=object))) for side in WORKED[key][1](MIXED)))


ONE_COORDINATE = {"weights": ["1/4", "3/4"], "h": [["1"], ["3"]], "c": [["0"], ["1"]], "u": [["1/4"], ["3"]]}  # a = 5/2, b = 9/8
ONE_CURVATURE = {**ONE_COORDINATE, "h": [["1", "2/5"]] * 2, "c": [["2", "1"], ["-1", "3"]], "u": [["1/4", "3"], ["2/3", "1/2"]]}
STABLE = {
    **{  # eta a = 2, 13/5, 119/40 and 3; eta^2 lambda b = 1 at lambda = 25/18, eta a - 2 at 250/507
        f"{name}, eta = {eta}, lambda = {lam}": {**ONE_COORDINATE, "u": u, "eta": eta, "lam": lam, "E": 1}
        for name, u, eta, lam in (
            ("b > 0", ["1/4", "3"], "4/5", "25/18"), ("b > 0", ["1/4", "3"], "4/5", "139/100"),
            ("b > 0", ["1/4", "3"], "26/25", "1/2"), ("b > 0", ["1/4", "3"], "26/25", "250/507"),
            ("b > 0", ["1/4", "3"], "119/100", "1/2"), ("b > 0", ["1/4", "3"], "6/5", "1"),
            ("b < 0", ["3", "1/4"], "26/25", "1/2"), ("b = 0", ["1", "3"], "4/5", "1/2"), ("b = 0", ["1", "3"], "26/25", "1/2"),
        )
    },
    **{
        f"one curvature, E = {E}, eta = {eta}, lambda = {lam}": {**ONE_CURVATURE, "eta": eta, "lam": lam, "E": E}
        for E in (1, 2, 3)
        for eta in ("2/3", "7/8", "2", "5")
        for lam in ("1/50", "2/5", "3")
    },
    "one curvature, eta (h + lambda U) = 2": {**ONE_CURVATURE, "eta": "1", "lam": "12/11", "E": 2},
    "two coordinates, b < 0 in the stable one": {
        **ONE_COORDINATE, "h": [["1", "1/10"], ["3", "3/10"]], "c": [["0", "0"]] * 2, "u": [["1/4", "7"], ["3", "1"]],
        "eta": "26/25", "lam": "1/2", "E": 1,
    },
}  # fmt: skip


@each("name", STABLE)
def test_both_writings_agree_on_limits_of_what_is_stable(name):
    data = STABLE[name] | {"u": [row if isinstance(row, list) else [row] for row in STABLE[name]["u"]]}
    view, asked = BUILDERS["stability"](data), 0
    for key, found in WORKED.items():
        if key[0] == "elastic-stability" and view.applies(form := get(f"efl/{key[0]}").form(key[1])) is None:
            no = key[1] == "when some lambda does" and not view.b.any()  # b > 0 is asked for
            by_hand = ([0], [0]) if no else found[1](data)
            compared(form.sides(view), *(list(np.ravel(np.array(side, dtype=object))) for side in by_hand))
            asked += 1
    assert asked >= 2


def test_both_writings_agree_on_fewer_samples_of_a_client_with_a_bend():
    data = {**worked_efl_sections.FURTHER, "fewer": "5/2", "closer": "1/3"}
    sides = get("efl/theorem-2-conclusion").form("(11) repaired, fewer samples, any loss").sides(BUILDERS["samples"](data))
    arrivals = [{**data, "event": "arrival", "samples": [*data["samples"][:-1], n]} for n in (data["fewer"], data["samples"][-1])]
    compared(sides, *(worked_efl_sections.theorem_2_two(arrival)[1] for arrival in arrivals))


def test_both_writings_agree_on_the_bounds_with_data_more_alike():
    """An equality, which does not show its sides; its mutant's, t for t^2, do not cancel."""
    key = ("theorem-2-conclusion", "more alike")
    data, (closer, _) = CASES[key], WORKED[key][1](CASES[key])
    wrong = get(f"efl/{key[0]}").form(key[1]).mutants[0].sides
    t = Fraction(data["closer"])
    compared(wrong(BUILDERS["samples"](data)), closer, [side / t for side in closer])


@pytest.mark.parametrize(("form", "kept"), [("repaired", 0), ("limit with the pair kept", 1)])
def test_both_writings_agree_on_a_round_after_a_departure(form, kept, monkeypatch):
    """From another point than the limit, at which the round changes nothing."""
    data, w = CASES["stale-anchor", "repaired", "any"], [Fraction(5, 3), Fraction(-7, 2)]
    monkeypatch.setattr(ElasticView, "stale_limit", lambda *_: np.array(w))
    sides, e = get("efl/stale-anchor").form(form).sides(BUILDERS["elastic"](data)), worked_efl_elastic.Elastic(data)
    pull = [kept * e.lam * u * (x - at) for u, x, at in zip(e.u[e.leaver], w, e.anchor, strict=True)]
    compared(sides, [e.eta * (e.total(e.rest, i, x) + pull[i]) for i, x in enumerate(w)], [0, 0])


@pytest.mark.parametrize("rounds", [1, 7])
def test_both_writings_agree_on_runs_that_are_not_long(rounds):
    """Of the form about long runs in floats, which is not about these."""
    key = ("elastic-fixed-point", name := "run")
    data = {**CASES["elastic-fixed-point", "repaired", "any"], "rounds": rounds}
    sides = get(f"efl/{key[0]}").form(name).sides(BUILDERS["elastic"](data))
    lhs, rhs = WORKED[*key, "any"][1](data)
    assert [float(x) for x in sides.lhs] == pytest.approx(lhs, rel=1e-12)
    assert [float(x) for x in sides.rhs] == pytest.approx(rhs, rel=1e-12)


def test_all_of_them_are_asked():
    assert {name for names, _ in OTHER for name in names} == {key[0] for key in CASES}


def test_both_writings_agree_on_the_last_client_of_incomplete_ones():
    found = WORKED[LAST_ONLY]
    data = found[0] | next(change for names, change in OTHER if LAST_ONLY[0] in names)
    left, right = found[1](data)
    sides = get(f"efl/{LAST_ONLY[0]}").form(LAST_ONLY[1]).sides(BUILDERS["incomplete"](data))
    assert sides.lhs[-1] == abs(left - right)


def test_both_writings_agree_on_what_an_arrival_adds_as_printed():
    """(11) as printed has n + n_a below the line, (10) has n."""
    key = ("shift-bound", "an additional term")
    data = {**CASES[key], "event": "arrival"}
    sides = get("efl/shift-bound").form(key[1]).sides(BUILDERS["restart"](data))
    compared(sides, *WORKED[key][1](data))
