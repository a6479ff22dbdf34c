"""Which instances EFL's forms are about: at each limit of a condition, and just beyond it."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import efl_instances as instances
import numpy as np
import pytest
import worked_efl as worked
from cases import each
from efl_on_a_problem import BUILDERS

from fedtheory.errors import InvalidInput
from fedtheory.theorems import all_statements, get

LEMMA = {  # M = (2, 1)
    "scheme": "B", "weights": ["1"], "h": [["1", "1/2"]], "c": [["2", "3"]],
    "law": [["0", "0", "1"]], "eta": "1",
    "x0": ["0", "0"], "rounds": 1,
}  # fmt: skip
DEPARTED = {"samples": ["2", "3"], "h": [["1"], ["2"]], "c": [["0"], ["1"]]}
LAWS = {"scheme": "C", **instances.LIMIT}
POINT = instances.POINT  # L = 3, sqrt(epsilon) = 1/3
ENDS = [
    ("scheme-limit", "repaired", {**LEMMA, "step": "1", "offset": "3"}, False),  # 1 < a M <= b
    ("scheme-limit", "repaired", {**LEMMA, "step": "101/100", "offset": "3"}, True),
    ("scheme-limit", "repaired", {**LEMMA, "step": "3/2", "offset": "3"}, True),
    ("scheme-limit", "repaired", {**LEMMA, "step": "151/100", "offset": "3"}, False),
    ("scheme-limit", "C without idle clients", {**LAWS, "law": [["0", "1"], ["0", "1"]]}, True),
    ("scheme-limit", "C without idle clients", {**LAWS, "law": [["0", "1"], ["1/100", "99/100"]]}, False),
    ("scheme-limit", "C with equal activity", {**LAWS, "law": [["1/4", "3/4"], ["6/25", "19/25"]]}, False),
    ("scheme-limit", "constant step, equal laws", instances.EQUALLY_ACTIVE | {"scheme": "C"}, False),
    ("theorem-2-arrival", "printed, few", {"event": "arrival", **DEPARTED, "samples": ["3", "3"]}, True),  # n_a <= n
    ("theorem-2-arrival", "printed, few", {"event": "arrival", **DEPARTED, "samples": ["3", "301/100"]}, False),
    (
        "st-lemma",
        "printed rule, more than half",
        instances.message("st", "1", "2", q="1/2", rule="printed"),
        False,
    ),
    (
        "st-lemma",
        "printed rule, more than half",
        instances.message("st", "1", "2", q="51/100", rule="printed"),
        True,
    ),
    ("table-1-scaffold", "repaired", {**POINT, "G": "2"}, True),  # G >= L (1 - sqrt(epsilon))
    ("table-1-scaffold", "repaired", {**POINT, "G": "199/100"}, False),
    ("table-1-scaffold", "repaired, converse", {**POINT, "G": "199/100"}, True),
    ("table-1-scaffold", "repaired, converse", {**POINT, "G": "2"}, False),
    ("table-1-mime", "repaired", {**POINT, "delta": "9"}, True),  # delta >= L/sqrt(epsilon)
    ("table-1-mime", "repaired", {**POINT, "delta": "899/100"}, False),
    ("table-1-mime", "repaired, converse", {**POINT, "delta": "3"}, True),  # delta <= L and epsilon < 1
    ("table-1-mime", "repaired, converse", {**POINT, "delta": "301/100"}, False),
    ("table-1-mime", "repaired, converse", {**POINT, "root": "99/100"}, True),
    ("table-1-mime", "repaired, converse", {**POINT, "root": "1"}, False),
    ("elastic-fixed-point", "matched diagonals", instances.ELASTIC, False),
    # T(T+1)E^2 >= (gamma - E tau_0)^2 with E = 3: 18 at T = 1, 54 at T = 2
    ("tolerance", "through (8), late", {**instances.EARLY, "gamma": "12"}, False),
    ("tolerance", "through (8), late", {**instances.EARLY, "T": 11, "gamma": "34"}, True),
    ("tolerance", "through (8), late", {**instances.EARLY, "T": 11, "gamma": "35"}, False),
    ("departure-early-or-late", "through the bounds", instances.EARLY, False),
    ("coefficient-as-step", "equivalent", instances.ONE_STEP, False),
    ("coefficient-as-step", "one local step", instances.TWO_STEPS, False),
    ("elastic-rearrangement", "the sums over those that take part", {**instances.TERM, "active": [0, 1]}, False),
    ("server-step", "up to s-1, nothing left out", {**instances.FED, "variant": "literal"}, False),
    ("costs", "gradients to converge", {**instances.COSTLY, "rounds": 1}, False),
    ("costs", "bits a round, lambda = 0", {**instances.LINE, "variant": "consistent"}, False),
]  # fmt: skip


@each(("name", "form", "data", "applies"), ENDS)
def test_a_form_is_about_what_its_formula_says(name, form, data, applies):
    form = get(f"efl/{name}").form(form)
    assert (BUILDERS[form.kind](data).applies(form) is None) == applies


@pytest.mark.parametrize(
    ("kind", "data", "change"),
    [
        (
            "after-shift",
            {**instances.QUIET, "gamma": "23"},
            {"gamma": "2299/100"},
        ),  # 16 L <= mu (1 + gamma)
        (
            "feedback",
            {**instances.PLAIN, "variant": "text", "eta": "1"},
            {"eta": "101/100"},
        ),  # eta <= 1/L
        ("limit", {**LEMMA, "step": "3", "offset": "3"}, {"offset": "299/100"}),  # a/b <= 1/L
        ("limit", {**LEMMA, "step": "3", "offset": "3"}, {"eta": "101/100"}),  # eta <= 1/L
    ],
)
def test_steps_up_to_the_limit_are_taken_and_longer_ones_refused(kind, data, change):
    assert BUILDERS[kind](data).exact
    with pytest.raises(InvalidInput):
        BUILDERS[kind]({**data, **change})


ROUND = {name: rows for name, rows in worked.TWO.items() if name not in ("laws", "T")} | {
    "law": [["0", "1/2", "1/2"], ["1/4", "0", "3/4"]], "tau": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "change", "about"),
    [
        (("1", "repaired"), {"common": True}, False),
        (("1", "any correlation"), {"common": True}, True),
        (("7", "sharpened"), {"common": True}, False),
        (("7", "sharpened, any correlation"), {"common": True}, True),
        (("1", "repaired"), {}, True), (("7", "sharpened"), {}, True),
        (("5", "expanded at wbar_i"), {}, False),
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
        verdict = (
            "violated" if form.name in ("expanded at wbar_i", "induction with max") else "holds"
        )
        assert set(form.established.values()) == {verdict}, form.name


@pytest.mark.parametrize("name", ["along a run", "induction", "induction with max"])
def test_runs_that_are_measured_have_a_column_for_every_scenario(name):
    """Two scenarios whose distances differ: each is judged as if it were alone."""
    run = BUILDERS["run"]({**worked.TWO, "scheme": "C"})
    view, form = replace(run, horizons=np.arange(4)), get("efl/theorem-1-step-7").form(name)
    alone = [replace(view, distance_sq=times * view.distance_sq) for times in (1, 3)]
    both = replace(
        view, exact=False, distance_sq=np.stack([one.distance_sq for one in alone], axis=1)
    )
    found = form.sides(both)
    for side in ("lhs", "rhs"):
        columns = [getattr(form.sides(one), side) for one in alone]
        assert getattr(found, side).tolist() == np.stack(columns, axis=1).tolist()


SENT = {
    "weights": ["1/6", "1/2", "1/3"],
    "h": [["5/4", "1/2", "2/3"], ["1/2", "3/4", "4/3"], ["2/3", "3/5", "5/4"]], "q": "1/3",
    "c": [["3", "-2", "5"], ["-3/2", "2", "5/2"], ["4", "-3", "-2"]], "w0": ["5", "-7", "3"],
    "T": 2, "down": True,
}  # fmt: skip
NOISY = {**SENT, "E": 2, "noise": [["0", "0", "0"], ["1/2", "3/2", "2"], ["0", "0", "0"]]}
IRREGULAR = {
    **SENT,
    "scheme": "C",
    "law": [["0", "1/2", "0", "1/2"], ["1/3", "0", "2/3", "0"], ["0", "0", "0", "1"]],
}


@pytest.mark.parametrize(
    ("kind", "data", "statement", "form"),
    [
        ("compressed", NOISY, "compressed-proof", "one compression"),
        ("compressed-partial", IRREGULAR, "compressed-participation", "one client"),
    ],
    ids=["noise", "irregular"],
)  # fmt: skip
def test_clients_that_send_uncompressed_keep_nothing_back(kind, data, statement, form):
    """As with delta = 1: ||C(x) - x||^2 <= 0."""
    view, form = BUILDERS[kind](data), get(f"efl/{statement}").form(form)
    found, said = (form.sides(replace(view, delta=delta)) for delta in (None, Fraction(1)))
    assert found.lhs.tolist() == said.lhs.tolist() and found.rhs.tolist() == said.rhs.tolist()
    assert (found.rhs != form.sides(view).rhs).any()


def test_the_instances_hide_nothing():
    """More than two of sum p, ratios alike and not, s = 0, both entries of gamma, G above sigma."""
    for scheme in worked.RUNS:
        run = worked.Run(scheme, worked.RUNS[scheme])
        over = [run.bracket(t) - run.S[t] for t in range(run.T)]
        assert run.same_ratio(0) and (any(over) != (scheme == "B"))
        assert run.same_ratio(1) == (scheme == "C-corrected")
        assert (
            len({*run.D, *run.p, *run.sigma_sq}) == 3 * run.N
            and run.G_sq > max(run.sigma_sq)
            and run.mu < run.L
        )
    many = worked.Run("C", worked.MANY)
    assert (
        many.gamma
        == 4 * many.E**2 * many.theta / many.S[0]
        > 32 * many.E * (1 + many.theta) * many.L / (many.mu * many.S[0])
    )


SENTENCES = (
    "elastic-rearrangement", "server-step", "order-of-c", "costs", "tolerance",
    "departure-early-or-late", "staleness",
    "coefficient-as-step", "theorem-2-conclusion", "shift-bound",
)  # fmt: skip


def test_the_page_of_sentences_names_what_there_is():
    """Statements in backticks in the tables of docs/efl_sentences.md."""
    page = (Path(__file__).parents[3] / "docs" / "efl_sentences.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("|")]
    named = {name for row in rows for name in re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)+)`", row)}
    known = {s.id.removeprefix("efl/") for s in all_statements("efl/")}
    assert len(named) > 30 and not named - known, sorted(named - known)
    assert not [name for name in SENTENCES if f"`{name}`" not in page]
