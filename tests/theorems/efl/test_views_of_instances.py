"""What EFL's views know beside the sides of their forms: what is uncertain, and when a form is about them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import worked_efl
import worked_efl_claims
import worked_efl_elastic as elastic
import worked_efl_messages as messages
import worked_efl_section_4 as section_4
import worked_efl_sections as sections
import worked_efl_sentences
import worked_efl_sentences_4

from fedtheory.theorems import get
from fedtheory.theorems.efl.notation import BUILDERS
from fedtheory.theorems.efl.statements import limit_points
from fedtheory.theorems.efl.statements.elastic_term import ElasticView
from fedtheory.theorems.efl.statements.table_1 import STRONGLY_CONVEX, rounds, smallest
from fedtheory.theorems.efl.statements.theorem_2 import rounds_that_halve

SHEETS = (
    sections.WORKED, elastic.WORKED, messages.WORKED, worked_efl_sentences.WORKED, worked_efl_sentences_4.WORKED,
    worked_efl_claims.WORKED, section_4.FORMS,
)  # fmt: skip
WORKED = {(key[0].removeprefix("efl/"), *key[1:]): found[0] for sheet in SHEETS for key, found in sheet.items()}


# --- what is uncertain ------------------------------------------------------------------------------
KINDS = {"shift", "limit", "elastic", "feedback", "away", "coefficient", "samples", "restart", "stability", "compressed"} | {
    "compressed-partial", "abandon",
}  # fmt: skip
# forms whose sides are counts or truth values, are judged in fractions alone, or have a scale that covers it
WITHOUT = {
    ("departure-no-convergence", "printed"), ("scheme-limit", "repaired"), ("scheme-limit", "constant step"),
    ("scheme-limit", "constant step, equal laws"), ("scheme-limit", "fixed point"), ("elastic-fixed-point", "unbiased"),
    ("stale-anchor", "kept"), ("compression-bias", "any step up to 1/L"), ("coefficient-as-step", "equivalent"),
    ("coefficient-as-step", "one local step"), ("coefficient-as-step", "compensates"),
    ("theorem-2-conclusion", "(11) repaired, fewer samples, any loss"), ("elastic-stability", "some lambda"),
    ("elastic-stability", "repaired"), ("elastic-stability", "when some lambda does"),
    ("elastic-stability", "any number of steps"), ("elastic-stability", "clients of one curvature"),
    ("elastic-stability", "clients of one curvature, more steps"),
}  # fmt: skip
IN_FLOATS = {("elastic-fixed-point", "run"), ("elastic-limit", "repaired")}  # long runs, whose rounding is estimated
UNCERTAIN = {
    key: data
    for key, data in WORKED.items()
    if isinstance(data, dict)
    and get(f"efl/{key[0]}").form(key[1]).kind in KINDS
    and key[:2] not in WITHOUT | IN_FLOATS
    and key[0] not in ("costs", "elastic-drift")
}


@pytest.mark.parametrize("key", UNCERTAIN, ids=" ".join)
def test_what_is_uncertain_in_a_view_is_in_the_noise_of_its_forms(key):
    form = get(f"efl/{key[0]}").form(key[1])
    view, much = BUILDERS[form.kind](UNCERTAIN[key]), Fraction(7, 3)
    for name in [n for n in dir(view) if n.startswith("noise")]:
        setattr(view, name, (lambda *_: much) if callable(getattr(view, name)) else much)
    assert np.min(form.sides(view).noise) == much


@pytest.mark.parametrize("name", [*worked_efl.THEOREM_1, "along a run"])
def test_what_is_uncertain_in_a_run_is_in_the_noise_of_its_bound(name):
    view = BUILDERS["run"]({**worked_efl.RUNS["C"], "scheme": "C"})
    form = get("efl/theorem-1" if name in worked_efl.THEOREM_1 else "efl/theorem-1-step-7").form(name)
    assert np.min(form.sides(replace(view, noise=Fraction(7, 3))).noise) == Fraction(7, 3)


def test_a_run_is_judged_from_its_first_round():
    """At tau = 0 both sides are ||w_0 - w*||^2."""
    view = BUILDERS["run"]({**worked_efl.MANY, "scheme": "C"})  # of one round
    assert list(view.horizons) == [0, 1]
    for name in worked_efl.THEOREM_1:
        assert len(get("efl/theorem-1").form(name).sides(view).lhs) == 1
    for name in worked_efl_sentences.ORDER:
        assert len(get("efl/order-of-c").form(name).sides(view).lhs) == 1


@pytest.mark.parametrize("key", IN_FLOATS)
def test_the_rounding_of_a_long_run_grows_with_its_rounds_and_its_numbers(key):
    """A rounding error of the largest number a round, 1e-15 of it, at most a few thousand times more."""
    data = WORKED[*key, "any"]
    noise = get(f"efl/{key[0]}").form(key[1]).sides(BUILDERS["elastic"](data)).noise
    size = max(abs(Fraction(x)) for row in data["c"] for x in row)
    assert np.finfo(float).eps <= noise / (data["rounds"] * size) <= 1e-12


# --- the elastic term's recursion ---------------------------------------------------------------------
def test_the_recursion_is_what_a_round_does_to_a_deviation():
    """Of w and of V, one coordinate after the other."""
    data = {**elastic.ELASTIC, "lam": "2/3", "eta": "1/5", "h": [["5/4", "2/3"], ["3/4", "4/3"], ["1/2", "5/8"]]}
    view, e = BUILDERS["elastic"](data), elastic.Elastic(data)
    w, V = [Fraction(3, 2), Fraction(-5)], [Fraction(2), Fraction(7, 3)]
    for column, (dw, dV) in enumerate([(1, 0), (0, 1)]):
        moved = e.round([x + dw for x in w], [x + dV for x in V], e.eta)
        left = e.round(w, V, e.eta)
        for row in (0, 1):
            assert list(view.linear[2 * row + column]) == [a - b for a, b in zip(moved[row], left[row], strict=True)]


@pytest.mark.parametrize(
    ("entries", "stable"),
    [  # a, b, c, d of [[a, b], [c, d]]; its eigenvalues
        (("1/2", "0", "0", "1/3"), True),
        (("99/100", "0", "0", "-99/100"), True),
        (("1", "0", "0", "1/2"), False),
        (("-1", "0", "0", "1/2"), False),
        (("0", "1", "-1", "0"), False),  # i, -i
        (("0", "99/100", "-99/100", "0"), True),
        (("1/2", "1/2", "1/2", "1/2"), False),  # 1, 0
        (("1/2", "1/2", "-1/2", "1/2"), True),  # (1 + i)/2
        (("2", "0", "0", "1/2"), False),
        (("2", "0", "0", "3"), False),
        (("3/2", "0", "0", "-9/10"), False),
    ],
)  # fmt: skip
def test_a_step_is_stable_where_both_eigenvalues_are_inside_the_unit_circle(entries, stable, monkeypatch):
    view = BUILDERS["elastic"](elastic.ELASTIC)
    a, b, c, d = map(Fraction, entries)
    inside = abs(np.linalg.eigvals([[float(a), float(b)], [float(c), float(d)]])).max() < 1 - 1e-9
    assert inside == stable
    one = [np.array([x, y]) for x, y in zip((a, b, c, d), (Fraction(1, 2), 0, 0, Fraction(1, 3)), strict=True)]
    monkeypatch.setattr(ElasticView, "linear", tuple(one))  # the second coordinate is stable
    assert view.stable == stable


@pytest.mark.parametrize(("rounds", "long"), [(1000, True), (999, False)])
def test_a_long_run_has_a_thousand_rounds(rounds, long):
    """With eta = 3/4 every coordinate of sum_k p^k h_k eta is above a quarter, with 1/31 none is."""
    facts = BUILDERS["elastic"]({**elastic.LONG_DECAY, "rounds": rounds}).facts
    assert ("a long decaying run" in facts) == long
    assert ("a long run" in facts) == long
    assert "a long decaying run" not in BUILDERS["elastic"]({**elastic.LONG_RUN, "rounds": rounds}).facts
    exact = {k: v for k, v in elastic.LONG_DECAY.items() if k != "arithmetic"}
    assert not {"a long run", "a long decaying run"} & BUILDERS["elastic"]({**exact, "rounds": rounds}).facts


# --- other views --------------------------------------------------------------------------------------
@pytest.mark.parametrize("scheme", sections.SCHEMES)
def test_laws_of_many_cases_have_the_moments_of_their_enumeration(scheme, monkeypatch):
    data = {"scheme": scheme, **sections.LIMIT}
    few = BUILDERS["limit"](data).m
    monkeypatch.setattr(limit_points, "MAX_CASES", 8)  # there are 9
    assert (BUILDERS["limit"](data).m == few).all()
    monkeypatch.setattr(limit_points, "MAX_CASES", 9)
    monkeypatch.setattr(limit_points, "RoundLaw", None)
    assert (BUILDERS["limit"](data).m == few).all()


@pytest.mark.parametrize(("step", "applies"), [("2", False), ("201/100", True), ("15/2", True), ("751/100", False)])
def test_the_lemma_asks_for_every_coordinate(step, applies):
    """M = (2, 1/2) and offset 15: 1 < a M <= b asks for 2 < a <= 15/2."""
    one = {"weights": ["1"], "h": [["1", "1/4"]], "c": [["2", "3"]], "law": [["0", "0", "1"]], "eta": "1", "rounds": 1}
    view = BUILDERS["limit"]({"scheme": "B", **one, "x0": ["0", "0"], "step": step, "offset": "15"})
    assert (view.applies(get("efl/scheme-limit").form("repaired")) is None) == applies


def test_one_row_of_work_stands_for_all_rounds():
    row, common = ["2", "1/2", "3"], {"T": 4, "tau_0": 1}
    one, all_rows = (BUILDERS["departed"]({**common, "mean_work": w}) for w in (row, [row] * 4))
    assert (one.ratios == all_rows.ratios).all() and one.tau_0 == all_rows.tau_0


@pytest.mark.parametrize("form", ["repaired", "kept step"])
def test_what_is_said_without_noise_is_not_about_noise(form):
    form = get("efl/learning-rate-after-shift").form(form)
    assert BUILDERS["after-shift"](sections.QUIET).applies(form) is None
    assert BUILDERS["after-shift"]({**sections.QUIET, "sigma_sq": "1/9"}).applies(form)


@pytest.mark.parametrize(("tau_0", "gamma"), [(0, 64), (7, 24), (100, 3)])
def test_the_kept_step_halves_the_distance_in_the_rounds_it_is_said_to(tau_0, gamma):
    after = rounds_that_halve(tau_0, gamma)
    assert ((tau_0 + gamma) / (tau_0 + after + gamma)) ** 16 == pytest.approx(1 / 2, rel=1e-12)


def test_the_smallest_row_is_the_smallest():
    L, G, mu, S, root = 2.5, np.array([0.1, 3.0, 9.0]), 0.5, 4.0, 0.25
    for delta in (0.2, 30.0, 400.0):
        rows = np.stack([rounds(row, G, L, mu, S, root, delta) + 0 * G for row in STRONGLY_CONVEX])
        assert list(smallest(G, L, mu, S, root, delta)) == [int(np.argmin(rows[:, i])) for i in range(3)]
