"""The library and the independent writings agree on instances other than those whose numbers are on record.

The recorded instances have round numbers: where mu = 1 or G = 1, a factor that should be there and is not leaves
the numbers as they are. Here no parameter is 0 or 1 and no two weights are alike; the sides are compared as fractions.
Whether a form is about such an instance does not matter to its sides.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
import worked_efl as worked
import worked_efl_claims
import worked_efl_elastic
import worked_efl_messages
import worked_efl_section_4 as section_4
import worked_efl_sections
import worked_efl_sentences
import worked_efl_sentences_4
import worked_efl_steps as steps

from fedtheory.theorems import get
from fedtheory.theorems.efl.notation import BUILDERS
from fedtheory.theorems.efl.quantities.exact_run import exact_oracles, laws_of, quadratic_run, round_laws
from fedtheory.verification.rational import fraction, table, vector

SHEETS = (
    worked_efl_sections.WORKED, worked_efl_elastic.WORKED, worked_efl_messages.WORKED, worked_efl_sentences.WORKED,
    worked_efl_sentences_4.WORKED, worked_efl_claims.WORKED, section_4.FORMS,
)  # fmt: skip
WORKED = {(key[0].removeprefix("efl/"), *key[1:]): found for sheet in SHEETS for key, found in sheet.items()}

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


def compared(sides, lhs, rhs):
    """The library's sides are these; of an equality, the library keeps the difference."""
    found = [list(np.ravel(side)) for side in (sides.lhs, sides.rhs)]
    if sides.relation == "<=":
        assert found == [lhs, rhs]
    else:
        assert found[0] == [abs(a - b) for a, b in zip(lhs, rhs, strict=True)] and not any(found[1])


@pytest.mark.parametrize("key", CASES, ids=" ".join)
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


@pytest.mark.parametrize("lam", ["1/50", "2/5", "3", "9"])
@pytest.mark.parametrize("eta", ["1/9", "7/8", "13/8"])
@pytest.mark.parametrize("steps", [1, 3])
def test_both_writings_agree_on_what_is_stable(steps, eta, lam):
    """Truth values: only instances on both sides of a limit tell a wrong limit from the right one."""
    for key, data in CASES.items():
        if key[0] == "elastic-stability":
            data = {**data, "E": steps, "eta": eta, "lam": lam}
            form = get("efl/elastic-stability").form(key[1])
            view = BUILDERS["stability"](data)
            if view.applies(form) is None:
                compared(form.sides(view), *(list(np.ravel(np.array(side, dtype=object))) for side in WORKED[key][1](data)))


def test_all_of_them_are_asked():
    assert {name for names, _ in OTHER for name in names} == {key[0] for key in CASES}


# --- two clients at a deadline ----------------------------------------------------------------------
@pytest.mark.parametrize("x0", ["-5/2", "1"])  # the gradients fall along the run of client 1 alone, or rise
@pytest.mark.parametrize("key", [key for key, found in section_4.FORMS.items() if found[0] is section_4.KEEP], ids=" ".join)
def test_both_writings_agree_on_other_deadlines(key, x0, monkeypatch):
    data = {"y": "2/7", "sigma_sq": "25/9", "x0": x0, "rounds": 4}
    monkeypatch.setattr(section_4, "KEEP", data)
    lhs, rhs = section_4.FORMS[key][1](data)
    form, view = get(f"efl/{key[0]}").form(key[1]), BUILDERS["keep"](data)
    compared(form.sides(view), [lhs], [rhs])
    assert (view.J, view.f_1) == section_4.rule_8()


# --- Theorem 1, its proof, and what uses its runs: mu = 3/4 ------------------------------------------
RUN = {
    "weights": ["3/5", "2/5"], "h": [["3/4", "5/2"], ["3/2", "4/5"]], "c": [["2", "-3"], ["-3/2", "5/2"]],
    "noise": [["1/2", "3/2"], ["2", "2/3"]], "w0": ["5/2", "-2"], "T": 3,
    "laws": [[["0", "1/2", "1/2"], ["1/4", "1/3", "5/12"]], [["1/3", "1/3", "1/3"], ["0", "1/4", "3/4"]]],
}  # fmt: skip
ANCHORS = {"lam": "2/5", "u": [["3/2", "1/2"], ["1/3", "2"]], "anchors": [["2", "-3"], ["-2", "3"]]}
ROUND = {k: RUN[k] for k in ("weights", "h", "c", "noise", "w0")} | {
    "law": [["0", "1/2", "1/2"], ["1/4", "1/2", "1/4"]],
    "tau": 2,
}
SCHEMES = pytest.mark.parametrize("scheme", ["A", "B", "C", "C-corrected"])


@functools.cache
def run_views(scheme, common=False, frozen=False):
    """The library's view at T - 1 and T, and the run worked out without it."""
    data = {**RUN, "scheme": scheme} | ({"common": True} if common else {})
    mine = worked.Run(scheme, RUN, common=common, anchors=ANCHORS if frozen else None)
    if not frozen:
        return BUILDERS["run"](data), mine
    oracles = exact_oracles(data)
    laws = round_laws(scheme, laws_of(data["laws"], 2), RUN["T"], oracles.weights)
    elastic = fraction(ANCHORS["lam"]), table(ANCHORS["u"]), table(ANCHORS["anchors"])
    at = np.array([RUN["T"] - 1, RUN["T"]])
    return quadratic_run(oracles, laws, vector(data["w0"]), at, elastic), mine


@SCHEMES
@pytest.mark.parametrize("name", worked.THEOREM_1)
def test_both_writings_of_theorem_1_agree(name, scheme):
    view, run = run_views(scheme, "common" in name, "frozen" in name)
    taus = (run.T - 1, run.T)
    by_hand = [run.distance_sq[t] for t in taus], [worked.THEOREM_1[name](run, t) for t in taus]
    compared(get("efl/theorem-1").form(name).sides(view), *by_hand)


@SCHEMES
def test_both_writings_of_what_uses_the_run_agree(scheme, monkeypatch):
    view, run = run_views(scheme)
    for name, both in worked.STEP_7.items():
        compared(get("efl/theorem-1-step-7").form(name).sides(view), *([side] for side in both(run, run.T - 1)))
    monkeypatch.setitem(worked.RUNS, scheme, RUN)
    for name in worked_efl_sentences.ORDER:
        compared(get("efl/order-of-c").form(name).sides(view), *worked_efl_sentences.order_of_c(name)(scheme))
    suffices = worked_efl_claims.WORKED["efl/table-1-row", "repaired", scheme][1]
    compared(get("efl/table-1-row").form("repaired").sides(view), *suffices(scheme))


@pytest.mark.parametrize("scheme", ["A", "C"])
@pytest.mark.parametrize("number", "1234567")
def test_both_writings_of_the_proof_agree(number, scheme):
    """Entries that are 0 on both sides are left out: they stand for clients that do nothing."""
    view, r = round_views(scheme)
    for (step, name), both in steps.STEPS.items():
        if step == number:
            sides = get(f"efl/theorem-1-step-{step}").form(name).sides(view)
            found = zip(np.ravel(sides.lhs), np.ravel(sides.rhs), strict=True)
            assert [pair for pair in found if any(pair)] == [pair for pair in zip(*both(r), strict=True) if any(pair)], name


@functools.cache
def round_views(scheme):
    return BUILDERS["step"]({**ROUND, "scheme": scheme}), steps.Round(scheme, ROUND)


@pytest.mark.parametrize("key", [("5", "expectation"), ("5", "sharpened"), ("7", "repaired")], ids=" ".join)
def test_both_writings_agree_where_all_clients_have_one_law(key):
    """r_tau = 0, though somebody's D_k is not."""
    data = {**ROUND, "law": [["1/5", "1/2", "3/10"]] * 2}
    view, r = BUILDERS["step"]({**data, "scheme": "C"}), steps.Round("C", data)
    assert r.same_ratio(0) and r.sum_D() > 0
    compared(get(f"efl/theorem-1-step-{key[0]}").form(key[1]).sides(view), *map(list, steps.STEPS[key](r)))


def test_both_writings_agree_on_what_an_arrival_adds_as_printed():
    """(11) as printed has n + n_a below the line, (10) has n."""
    key = ("shift-bound", "an additional term")
    data = {**CASES[key], "event": "arrival"}
    sides = get("efl/shift-bound").form(key[1]).sides(BUILDERS["restart"](data))
    compared(sides, *WORKED[key][1](data))
