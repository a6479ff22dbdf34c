"""The library and the independent writings agree on runs other than those whose numbers are on record.

Theorem 1, its proof and what uses its runs have mu = 3/4 here, and the convergence with compression three clients,
three coordinates and up to three local steps.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest
import worked_efl as worked
import worked_efl_claims
import worked_efl_compressed
import worked_efl_participation
import worked_efl_section_4 as section_4
import worked_efl_sentences
import worked_efl_steps as steps
from efl_both_writings import WORKED, compared
from efl_on_a_problem import BUILDERS

from fedtheory.rational import fraction, table, vector
from fedtheory.theorems import get
from fedtheory.theorems.efl.quantities.exact_run import quadratic_run, round_laws
from fedtheory.theory.rounds.irregular_run import exact_oracles, laws_of


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


THREE = {
    "weights": ["3/5", "2/5"], "h": [["3/4"], ["3/2"]], "c": [["2"], ["-3/2"]], "noise": [["1/2"], ["2"]], "w0": ["5/2"], "T": 2,
    "laws": [[["0", "1/2", "0", "1/2"], ["1/3", "0", "0", "2/3"]], [["0", "0", "1/4", "3/4"], ["0", "1/5", "0", "4/5"]]],
}  # fmt: skip


def test_both_writings_agree_on_runs_of_three_local_steps(monkeypatch):
    """E^2 is not 2E here."""
    view, run = BUILDERS["run"]({**THREE, "scheme": "C"}), worked.Run("C", THREE)
    for name in worked.THEOREM_1:
        if "common" not in name and "frozen" not in name:
            by_hand = [run.distance_sq[t] for t in view.horizons], [worked.THEOREM_1[name](run, t) for t in view.horizons]
            compared(get("efl/theorem-1").form(name).sides(view), *by_hand)
    last = replace(view, horizons=np.array([run.T - 1, run.T]))
    for name, both in worked.STEP_7.items():
        compared(get("efl/theorem-1-step-7").form(name).sides(last), *([side] for side in both(run, run.T - 1)))
    monkeypatch.setitem(worked.RUNS, "C", THREE)
    for name in worked_efl_sentences.ORDER:
        compared(get("efl/order-of-c").form(name).sides(last), *worked_efl_sentences.order_of_c(name)("C"))
    suffices = worked_efl_claims.WORKED["efl/table-1-row", "repaired", "C"][1]
    compared(get("efl/table-1-row").form("repaired").sides(last), *suffices("C"))


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


@pytest.mark.parametrize(
    ("key", "change", "about"),
    [
        (("1", "repaired"), {"common": True}, False), (("1", "any correlation"), {"common": True}, True),
        (("7", "sharpened"), {"common": True}, False), (("7", "sharpened, any correlation"), {"common": True}, True),
        (("1", "repaired"), {}, True), (("7", "sharpened"), {}, True), (("5", "expanded at wbar_i"), {}, False),
        (("5", "expanded at wbar_i"), {"law": [["1/5", "1/2", "3/10"]] * 2}, True),
    ],
    ids=str,
)  # fmt: skip
def test_a_step_is_about_the_rounds_for_which_it_is_said(key, change, about):
    """Mini-batches that all clients share, and ratios E[p s]/p^k that are not alike."""
    view = BUILDERS["step"]({**ROUND, "scheme": "A", **change})
    assert (view.applies(get(f"efl/theorem-1-step-{key[0]}").form(key[1])) is None) == about


@pytest.mark.parametrize("number", "1234567")
def test_a_step_holds_but_for_the_two_readings_that_do_not(number):
    for form in get(f"efl/theorem-1-step-{number}").forms:
        verdict = "violated" if form.name in ("expanded at wbar_i", "induction with max") else "holds"
        assert set(form.established.values()) == {verdict}, form.name


def test_both_writings_of_the_sums_agree_for_three_local_steps():
    """Here i^2 is not i, and E(E - 1) is not E/(E - 1)."""
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


# --- convergence with compression -----------------------------------------------------------------------
SENT = {
    "weights": ["1/6", "1/2", "1/3"], "h": [["5/4", "1/2", "2/3"], ["1/2", "3/4", "4/3"], ["2/3", "3/5", "5/4"]], "q": "1/3",
    "c": [["3", "-2", "5"], ["-3/2", "2", "5/2"], ["4", "-3", "-2"]], "w0": ["5", "-7", "3"], "T": 2,
}  # fmt: skip
QUIET = {**SENT, "E": 3}
NOISY = {**SENT, "E": 2, "noise": [["0", "0", "0"], ["1/2", "3/2", "2"], ["0", "0", "0"]]}
IRREGULAR = {**SENT, "scheme": "C", "law": [["0", "1/2", "0", "1/2"], ["1/3", "0", "2/3", "0"], ["0", "0", "0", "1"]]}
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
