"""The library and the independent writings agree on instances other than those whose numbers are on record.

The recorded instances have round numbers: where mu = 1 or G = 1, a factor that should be there and is not leaves
the numbers as they are. Here hardly any parameter is 0 or 1, and no two weights are alike; the sides are compared as
fractions.
Whether a form is about such an instance does not matter to its sides.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import worked_efl as worked
import worked_efl_claims
import worked_efl_compressed
import worked_efl_elastic
import worked_efl_messages
import worked_efl_participation
import worked_efl_section_4 as section_4
import worked_efl_sections
import worked_efl_sentences
import worked_efl_sentences_4
import worked_efl_steps as steps

from fedtheory.theorems import get
from fedtheory.theorems.efl.notation import BUILDERS
from fedtheory.theorems.efl.quantities.exact_run import exact_oracles, laws_of, quadratic_run, round_laws
from fedtheory.theorems.efl.statements.elastic_term import ElasticView
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


@pytest.mark.parametrize("name", STABLE)
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


@pytest.mark.parametrize("name", ["run", "repaired"])
@pytest.mark.parametrize("rounds", [1, 7])
def test_both_writings_agree_on_runs_that_are_not_long(name, rounds):
    """Of the forms about long runs in floats, which are not about these."""
    key = ("elastic-fixed-point" if name == "run" else "elastic-limit", name)
    data = {**CASES["elastic-fixed-point", "repaired", "any"], "rounds": rounds}
    sides = get(f"efl/{key[0]}").form(name).sides(BUILDERS["elastic"](data))
    lhs, rhs = WORKED[*key, "any"][1](data)
    assert [float(x) for x in sides.lhs] == pytest.approx(lhs, rel=1e-12)
    assert [float(x) for x in sides.rhs] == pytest.approx(rhs, rel=1e-12)


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
    "law": [["0", "1/2", "1/2"], ["1/4", "0", "3/4"]],
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


def test_both_writings_of_the_sums_agree_for_three_local_steps():
    """Where i^2 is not i, and E(E - 1) is not E/(E - 1)."""
    one = {"weights": ["1"], "h": [["3/4"]], "c": [["2"]], "noise": [["1/2"]], "w0": ["5/2"], "law": [["0", "0", "0", "1"]], "tau": 2}
    sides = get("efl/theorem-1-step-6").form("sums").sides(BUILDERS["step"]({**one, "scheme": "C"}))
    compared(sides, *map(list, steps.STEPS["6", "sums"](steps.Round("C", one))))


@pytest.mark.parametrize("name", ["along a run", "induction", "induction with max"])
def test_runs_that_are_measured_have_a_column_for_every_scenario(name):
    """Two scenarios whose distances differ: each is judged as if it were alone."""
    view, form = replace(run_views("C")[0], horizons=np.arange(RUN["T"] + 1)), get("efl/theorem-1-step-7").form(name)
    alone = [replace(view, distance_sq=times * view.distance_sq) for times in (1, 3)]
    both = replace(view, exact=False, distance_sq=np.stack([one.distance_sq for one in alone], axis=1))
    found = form.sides(both)
    for side in ("lhs", "rhs"):
        columns = [getattr(form.sides(one), side) for one in alone]
        assert getattr(found, side).tolist() == np.stack(columns, axis=1).tolist()


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


# --- convergence with compression -----------------------------------------------------------------------
SENT = {
    "weights": WEIGHTS, "h": [["5/4", "1/2", "2/3"], ["1/2", "3/4", "4/3"], ["2/3", "3/5", "5/4"]], "q": "1/3",
    "c": [["3", "-2", "5"], ["-3/2", "2", "5/2"], ["4", "-3", "-2"]], "w0": ["5", "-7", "3"], "T": 2,
}  # fmt: skip
QUIET = {**SENT, "E": 3}
NOISY = {**SENT, "E": 2, "noise": [["0", "0", "0"], ["1/2", "3/2", "2"], ["0", "0", "0"]]}
IRREGULAR = {**SENT, "scheme": "C", "law": [["0", "1/2", "0", "1/2"], ["1/3", "0", "2/3", "0"], ["1/5", "0", "0", "4/5"]]}
COMPRESSED = {key: found for key, found in WORKED.items() if key[0].startswith("compressed-")}


@pytest.mark.parametrize(
    ("name", "data", "down"),
    [("Compressed", QUIET, True), ("Compressed", QUIET, False), ("Compressed", NOISY, True), ("Partial", IRREGULAR, True)],
    ids=["both ways", "one way", "noise", "irregular"],
)
def test_both_writings_agree_on_other_runs_with_compression(name, data, down, monkeypatch):
    data = {**data, "down": down}
    sheet = worked_efl_compressed if name == "Compressed" else worked_efl_participation
    run, kind = getattr(sheet, name)(data), "compressed" if name == "Compressed" else "compressed-partial"
    monkeypatch.setattr(sheet, name, lambda _: run)
    view, asked = BUILDERS[kind](data), 0
    for key, (_, both) in COMPRESSED.items():
        form = get(f"efl/{key[0]}").form(key[1])
        if form.kind == kind:
            compared(form.sides(view), *map(list, both(data)))
            asked += 1
    assert asked >= 7


@pytest.mark.parametrize(("name", "data"), [("Compressed", NOISY), ("Partial", IRREGULAR)], ids=["noise", "irregular"])
def test_clients_that_send_uncompressed_keep_nothing_back(name, data, monkeypatch):
    """delta = 1: ||C(x) - x||^2 <= 0."""
    data = {**data, "down": True}
    sheet, key, kind = {
        "Compressed": (worked_efl_compressed, ("compressed-proof", "one compression"), "compressed"),
        "Partial": (worked_efl_participation, ("compressed-participation", "one client"), "compressed-partial"),
    }[name]
    run = getattr(sheet, name)(data)
    run.delta = 1
    monkeypatch.setattr(sheet, name, lambda _: run)
    view = replace(BUILDERS[kind](data), delta=None)
    compared(get(f"efl/{key[0]}").form(key[1]).sides(view), *map(list, COMPRESSED[key][1](data)))


@pytest.mark.parametrize("variant", ["literal", "text", "consistent"])
def test_both_writings_agree_on_other_moves_at_the_optimum(variant):
    data = {**SENT, "variant": variant}
    view = BUILDERS["frozen"](data)
    assert [list(move) for move in view.moves] == worked_efl_compressed.held_moves(data)
    sides = get("efl/compressed-convergence").form("literal formulas").sides(view)
    compared(sides, *map(list, worked_efl_compressed.held(data)))
