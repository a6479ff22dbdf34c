"""Uncertain quantities of EFL's views, and when a form is about a view."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import efl_instances as instances
import numpy as np
import pytest
import worked_efl
import worked_efl_corollary_1 as corollary_1
import worked_pairs as kept
from cases import each
from efl_on_a_problem import BUILDERS

from fedtheory.theorems import get
from fedtheory.theorems.efl.elastic_world import LONG_RUN, ElasticView
from fedtheory.theorems.efl.inactive_world import ABOVE, AT_ONCE, EARLY, LARGE, LATE, RULE, SOME
from fedtheory.theory.rounds.linear_algebra import contracts, semidefinite, solve

FIRST = {}  # form -> its first worked instance that it is about
for row in kept.rows():
    if row["paper"] == "efl":
        for name in row["forms"]:
            statement, _, form = name.removesuffix("]").partition(" [")
            if (statement, form) not in FIRST and kept.view_of(row).applies(kept.form_of("efl", name)) is None:
                FIRST[statement, form] = row["data"]


# --- what is uncertain ----------------------------------------------------------------------------
KINDS = {"shift", "limit", "elastic", "feedback", "away", "coefficient", "samples", "restart", "stability", "compressed"} | {
    "compressed-partial", "abandon",
}  # fmt: skip
# forms whose sides are counts or truth values, are judged in fractions alone, or have a scale that covers it
WITHOUT = {
    ("departure-no-convergence", "the optimum moves"), ("scheme-limit", "repaired"), ("scheme-limit", "constant step"),
    ("scheme-limit", "constant step, equal laws"), ("scheme-limit", "fixed point"), ("elastic-fixed-point", "unbiased"),
    ("stale-anchor", "kept"), ("compression-bias", "any step up to 1/L"), ("coefficient-as-step", "equivalent"),
    ("coefficient-as-step", "one local step"), ("coefficient-as-step", "compensates"),
    ("elastic-stability", "some lambda"), ("elastic-stability", "repaired"), ("elastic-stability", "when some lambda does"),
    ("elastic-stability", "any number of steps"), ("elastic-stability", "clients of one curvature"),
    ("elastic-stability", "clients of one curvature, more steps"),
}  # fmt: skip
IN_FLOATS = {("elastic-fixed-point", "run")}  # long runs, whose rounding is estimated
UNCERTAIN = {
    key: data
    for key, data in FIRST.items()
    if get(f"efl/{key[0]}").form(key[1]).kind in KINDS
    and key not in WITHOUT | IN_FLOATS
    and key[0] not in ("costs", "elastic-drift")
}


@each("key", UNCERTAIN)
def test_what_is_uncertain_in_a_view_is_in_the_noise_of_its_forms(key):
    form = get(f"efl/{key[0]}").form(key[1])
    view, much = BUILDERS[form.kind](UNCERTAIN[key]), Fraction(7, 3)
    for name in [n for n in dir(view) if n.startswith("noise")]:
        setattr(view, name, (lambda *_: much) if callable(getattr(view, name)) else much)
    assert np.min(form.sides(view).noise) == much


@pytest.mark.parametrize("name", [*worked_efl.THEOREM_1, "along a run", "of Table 1's row"])
def test_what_is_uncertain_in_a_run_is_in_the_noise_of_its_bound(name):
    view = BUILDERS["run"]({**worked_efl.RUNS["C"], "scheme": "C"})
    elsewhere = {"along a run": ("theorem-1-step-7", name), "of Table 1's row": ("table-1-row", "repaired")}
    statement, form = elsewhere.get(name, ("theorem-1", name))
    form = get(f"efl/{statement}").form(form)
    assert np.min(form.sides(replace(view, noise=Fraction(7, 3))).noise) == Fraction(7, 3)


def test_a_run_is_judged_from_its_first_round():
    """At tau = 0 both sides are ||w_0 - w*||^2."""
    view = BUILDERS["run"]({**worked_efl.MANY, "scheme": "C"})  # of one round
    assert list(view.horizons) == [0, 1]
    for name in worked_efl.THEOREM_1:
        assert len(get("efl/theorem-1").form(name).sides(view).lhs) == 1
    for form in get("efl/order-of-c").forms:
        assert len(form.sides(view).lhs) == 1
    assert len(get("efl/table-1-row").form("repaired").sides(view).lhs) == 1


@pytest.mark.parametrize("key", IN_FLOATS)
def test_the_rounding_of_a_long_run_grows_with_its_rounds_and_its_numbers(key):
    """A rounding error of the largest number a round, 1e-15 of it, at most a few thousand times more."""
    data = instances.LONG_RUN
    noise = get(f"efl/{key[0]}").form(key[1]).sides(BUILDERS["elastic"](data)).noise
    size = max(abs(Fraction(x)) for row in data["c"] for x in row)
    assert np.finfo(float).eps <= noise / (data["rounds"] * size) <= 1e-12


OTHER = {
    "weights": ["1/6", "1/2", "1/3"], "h": [["5/4", "2/3"], ["3/4", "4/3"], ["1/2", "5/8"]],
    "c": [["2", "-5/2"], ["-3/2", "-3"], ["2/5", "4"]], "u": [["1/2", "3/4"], ["1/4", "2"], ["3", "1/8"]],
    "lam": "2/3", "eta": "1/5", "rounds": 0, "leaver": 2, "anchor": ["-2", "5"],
}  # fmt: skip


# --- the elastic term's recursion -----------------------------------------------------------------
def test_the_recursion_is_what_a_round_does_to_a_deviation():
    """Of w and of V, one coordinate after the other."""
    data = {**instances.ELASTIC, "lam": "2/3", "eta": "1/5", "h": [["5/4", "2/3"], ["3/4", "4/3"], ["1/2", "5/8"]]}
    view = BUILDERS["elastic"](data)
    w, V = np.array([Fraction(3, 2), Fraction(-5)]), np.array([Fraction(2), Fraction(7, 3)])

    def after(w, V):
        y = w - view.eta * (view.h * (w - view.c) + view.lam * (view.U * w - V))
        return (view.weights[:, None] * y).sum(axis=0), (view.u * y).sum(axis=0)

    for column, (dw, dV) in enumerate([(1, 0), (0, 1)]):
        for row, (moved, left) in enumerate(zip(after(w + dw, V + dV), after(w, V), strict=True)):
            found = view.recursion(view.lam)[2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
            assert (found == np.diag(moved - left)).all()


@pytest.mark.parametrize(
    ("form", "both"), [("repaired", "161/480 2/15"), ("limit with the pair kept", "173/96 11/40")]
)
def test_a_round_after_a_departure_from_another_point(form, both, monkeypatch):
    """At the limit itself the round changes nothing, so that both sides are 0."""
    w = np.array([Fraction(5, 3), Fraction(-7, 2)])
    monkeypatch.setattr(ElasticView, "stale_limit", lambda *_: w)
    sides = get("efl/stale-anchor").form(form).sides(BUILDERS["elastic"](OTHER))
    assert " ".join(map(str, sides.lhs)) == both and not sides.rhs.any()


def test_the_points_of_the_elastic_term():
    """omega_eta, omega*, argmin of those that stay, and its limit with the leaver's pair kept."""
    view = BUILDERS["elastic"](instances.ELASTIC)
    points = (view.fixed(view.eta), view.star, view.rest_star, view.stale_limit(False))
    said = ["143/376 -2644/1597", "1/4 -36/25", "3/2 4/3", "1 52/17"]
    assert [" ".join(map(str, p)) for p in points] == said


def test_the_mutant_of_bounds_with_data_more_alike():
    """An equality of sides that cancel; its mutant's, t for t^2, do not."""
    wrong = get("efl/theorem-2-conclusion").form("more alike").mutants[0].sides
    found = wrong(BUILDERS["samples"](instances.CONCLUSION)).lhs
    said = "42610496/1334025 191617856/23474025 431140176/65205625"
    assert " ".join(map(str, found)) == said


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
    view = BUILDERS["elastic"](instances.ELASTIC)
    a, b, c, d = map(Fraction, entries)
    inside = abs(np.linalg.eigvals([[float(a), float(b)], [float(c), float(d)]])).max() < 1 - 1e-9
    assert inside == stable
    both = (np.array([a + d, Fraction(5, 6)]), np.array([a * d - b * c, Fraction(1, 6)]))
    monkeypatch.setattr(ElasticView, "trace_and_determinant", lambda *_: both)  # the second coordinate is stable
    assert view.stable == stable


def test_a_long_run_has_a_thousand_rounds_in_floats():
    for T, long in ((1000, True), (999, False)):
        assert BUILDERS["elastic"]({**instances.LONG_RUN, "rounds": T}).has(LONG_RUN) == long
    exact = {k: v for k, v in instances.LONG_RUN.items() if k != "arithmetic"} | {"rounds": 1000}
    assert not BUILDERS["elastic"](exact).has(LONG_RUN)


def test_clients_of_one_curvature_are_as_stable_for_every_lambda_and_end_elsewhere():
    """b = 0: the eigenvalues are those of lambda = 0, and the fixed point is off by -lambda eta sum_k u_k grad f_k(w*)/h."""
    alike = {**instances.ELASTIC, "h": [["3/4", "1/2"]] * 3}
    for lam in ("1/8", "1"):
        view = BUILDERS["elastic"]({**alike, "lam": lam})
        M = view.recursion(view.lam)
        a, b, c, d = (np.diag(part) for rows in (M[:2], M[2:]) for part in (rows[:, :2], rows[:, 2:]))
        assert (a + d == 1 - view.eta * view.h[0]).all() and not np.any(a * d - b * c)
        pull = (view.u * view.gradients(view.star)).sum(axis=0)
        assert (view.fixed(view.eta) - view.star == -view.lam * view.eta * pull / view.h[0]).all() and pull.all()


def test_a_matrix_contracts_where_both_eigenvalues_are_inside_the_unit_circle():
    """|trace| < 1 + determinant < 2, on a grid that holds ties."""
    numbers = [Fraction(x) for x in ("-1", "-1/2", "0", "1/3", "1")]
    found = {True: 0, False: 0}
    for a, b, c, d in itertools.product(numbers, repeat=4):
        inside = abs(a + d) < 1 + a * d - b * c < 2
        assert contracts([np.array([[a, b], [c, d]], dtype=object)]) == inside, (a, b, c, d)
        found[inside] += 1
    assert min(found.values()) > 100


# --- systems of equations -------------------------------------------------------------------------
MATRICES = [
    [[Fraction(x) for x in row.split()] for row in rows.split(", ")]
    for rows in (
        "2", "1/2", "3 1, 1 2", "1/2 1/5, 1/5 1/3", "2 1/2 -1/3, 1/2 3 1/4, -1/3 1/4 5/2", "1/2 1/3 0, 1/3 1/2 1/5, 0 1/5 1/2",
        "1 1, 1 1", "0 0, 0 1", "0 1/9, 1/9 1", "1/2 1, 1 1/2", "1/2 1, 1 2", "1/2 1, 1 199/100", "-1/9", "1 0 0, 0 1/2 1, 0 1 2",
        "1 0 0, 0 1/2 1, 0 1 199/100", "1/4 1/2 1/2, 1/2 1 1, 1/2 1 99/100", "1 1 1, 1 1 1, 1 1 1", "1/2 0 0, 0 0 1/5, 0 1/5 0",
    )
]  # fmt: skip


@each("rows", MATRICES)
def test_a_matrix_is_semidefinite_where_no_eigenvalue_is_below_0(rows):
    eigenvalues = np.linalg.eigvalsh(np.array(rows, dtype=float))
    assert semidefinite(np.array(rows)) == (eigenvalues.min() > -1e-9)
    if eigenvalues.min() > 1e-9:
        b = np.array([Fraction(2), Fraction(-3), Fraction(5, 2)][: len(rows)])
        x = solve(np.array(rows), b)
        assert list(np.array(rows) @ x) == list(b)
        assert solve(np.array(rows, dtype=float), b.astype(float)) == pytest.approx(x.astype(float))


# --- other views ----------------------------------------------------------------------------------
@pytest.mark.parametrize(("step", "applies"), [("2", False), ("201/100", True), ("15/2", True), ("751/100", False)])
def test_the_lemma_asks_for_every_coordinate(step, applies):
    """M = (2, 1/2) and offset 15: 1 < a M <= b asks for 2 < a <= 15/2."""
    one = {"weights": ["1"], "h": [["1", "1/4"]], "c": [["2", "3"]], "law": [["0", "0", "1"]], "eta": "1", "rounds": 1}
    view = BUILDERS["limit"]({"scheme": "B", **one, "x0": ["0", "0"], "step": step, "offset": "15"})
    assert (view.applies(get("efl/scheme-limit").form("repaired")) is None) == applies


EPOCHS = [
    {"noise": str(noise), "G_sq": "2/3", "kappa": kappa, "E": E, "T": 3}
    for kappa in ("1", "5/2")
    for E in (1, 2, 17, 40)
    for factor in (E * (E + 1), Fraction(E * (E + 1), 2 * E + 1))
    # where the threshold, and its limit times T, are at E + 1 what they are at E; and just off
    for tie in [factor * Fraction(2, 3) * (2 + 1 / (4 * Fraction(kappa)) - (2 if factor != E * (E + 1) else 0))]
    for noise in (tie, tie * Fraction(99, 100), tie * Fraction(101, 100), 9 * tie, tie / 9)
]  # fmt: skip


@each("data", EPOCHS)
def test_the_forms_of_the_epochs_are_about_what_falls_and_what_rises(data):
    view, mine = BUILDERS["epochs"](data), corollary_1.Epochs(data)
    for name, of in (("repaired", "by_9"), ("through (8), T to infinity", "late")):
        falls = getattr(mine, of)(mine.E + 1) <= getattr(mine, of)(mine.E)
        one, other = (get("efl/corollary-1-epochs").form(n) for n in (name, f"{name}, converse"))
        assert ((view.applies(one) is None), (view.applies(other) is None)) == (falls, not falls)
    assert view.by_rule(data["E"]) * mine.E == mine.by_8(mine.E) * mine.E


@pytest.mark.parametrize("x0", ["3/2", "-5/2", "1"])
def test_both_writings_of_rule_8_agree(x0):
    """J and f_1(T), which (8) compares."""
    data = {"y": "2/7", "sigma_sq": "25/9", "x0": x0, "rounds": 3}
    view, mine = BUILDERS["keep"](data), corollary_1.Keep(data)
    assert (view.J, view.f_1) == (mine.J, mine.f_1)


@pytest.mark.parametrize("y", ["1/100", "1/2", "99/100"])
@pytest.mark.parametrize("rounds", [1, 60])
def test_the_rule_is_what_8_says(y, rounds):
    view = BUILDERS["keep"]({**instances.KEEP, "y": y, "rounds": rounds})
    about = view.applies(get("efl/corollary-1-own-optimum").form("own optima")) is None
    assert about == (Fraction(y) * view.J > view.f_1)


@each(
    ("fact", "change", "there"),
    [  # of E = 3, T = 5, gamma = 13, tau_0 = 2, C/J = 33/14
        (AT_ONCE, {"tau_0": 0}, True), (AT_ONCE, {"tau_0": 1}, False),
        (EARLY, {"T": 4, "idle": ["0"]}, True), (EARLY, {"tau_0": 3}, False),
        (LATE, {"tau_0": 0, "gamma": "1643/100"}, True), (LATE, {"tau_0": 0, "gamma": "1644/100"}, False),  # 3 sqrt 30
        (LATE, {"gamma": "2243/100"}, True), (LATE, {"gamma": "2244/100"}, False),
        (SOME, {"T": 2, "tau_0": 1, "idle": ["0"]}, True), (SOME, {"T": 1, "tau_0": 0, "idle": ["0"]}, False),
        (LARGE, {"E": 5, "gamma": "25"}, True), (LARGE, {"E": 5, "gamma": "2499/100"}, False),
        (ABOVE, {"y": "11/70"}, False), (ABOVE, {"y": "111/700"}, True),
        (RULE, {"y": "165/6776"}, False), (RULE, {"y": "166/6776"}, True),  # f_1/J = (165/14)/22^2
    ],
)  # fmt: skip
def test_what_is_known_of_inactive_clients_begins_and_ends_where_it_should(fact, change, there):
    assert BUILDERS["inactive"]({**instances.INACTIVE, **change}).has(fact) == there


def test_one_row_of_work_stands_for_all_rounds():
    row, common = ["2", "1/2", "3"], {"T": 4, "tau_0": 1}
    one, all_rows = (BUILDERS["departed"]({**common, "mean_work": w}) for w in (row, [row] * 4))
    assert (one.ratios == all_rows.ratios).all() and one.tau_0 == all_rows.tau_0


@pytest.mark.parametrize("form", ["repaired", "kept step"])
def test_what_is_said_without_noise_is_not_about_noise(form):
    form = get("efl/learning-rate-after-shift").form(form)
    assert BUILDERS["after-shift"](instances.QUIET).applies(form) is None
    assert BUILDERS["after-shift"]({**instances.QUIET, "sigma_sq": "1/9"}).applies(form)
