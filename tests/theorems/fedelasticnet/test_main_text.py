"""FedElasticNet's main text: verdicts, mutants and witnesses, and the views against the methods and the solver that they are about."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
from cases import each
from command_line import call, refused
from fedelasticnet_worlds import BUILDERS, MAIN_TEXT, SETTING, battery, random_instance
from mpmath import mp, mpf

from fedtheory import problems, simulate, theorems
from fedtheory.algorithms import FedElasticNetDyn, FedElasticNetProx, FedElasticNetScaffold
from fedtheory.errors import InvalidInput
from fedtheory.local import LocalSGD
from fedtheory.rational import to_file
from fedtheory.theorems.fedelasticnet.main_text import quadratics
from fedtheory.theorems.fedelasticnet.main_text.enclosures import exp_minus
from fedtheory.theory.judge.check import judge_view
from fedtheory.theory.judge.replay import builtin_witnesses, replay
from fedtheory.theory.judge.search import Tape
from fedtheory.theory.judge.setting import Case

STATEMENTS = [s for s in theorems.all_statements("fedelasticnet/") if s.scope in (*MAIN_TEXT, "claim")]
FORMS = [(s, f, rule) for s in STATEMENTS for f in s.forms if f.sides is not None for rule in f.established]
SHIPPED = [w for w in builtin_witnesses("fedelasticnet") if w.kind in MAIN_TEXT]


def name(case):
    return f"{case[0].id.split('/')[1]} {case[1].name} {case[2]}"


@pytest.fixture(scope="module")
def views():
    return [(i, i.view()) for i in battery(MAIN_TEXT, 7, 0.5)]


def judged(views, form, rule):
    """The views that a form is about."""
    return [v for i, v in views if i.kind == form.kind and v.rule == rule and v.applies(form) is None]


# --- verdicts -----------------------------------------------------------------------------------
@pytest.mark.parametrize("case", FORMS, ids=name)
def test_every_verdict_is_the_one_on_record(views, case):
    """All in fractions, so that a violation is none of rounding."""
    s, f, rule = case
    checks = [judge_view(s, f, v) for v in judged(views, f, rule)]
    assert checks and {c.mode for c in checks} == {"rational"}
    assert ("violated" if any(c.verdict == "violated" for c in checks) else "holds") == f.established[rule]


@pytest.mark.parametrize("case", [c for c in FORMS if c[1].established[c[2]] == "holds"], ids=name)
def test_every_mutant_is_rejected_under_every_rule(views, case):
    s, f, rule = case
    for mutant in f.mutants:
        checks = [judge_view(s, f, v, sides=mutant.sides) for v in judged(views, f, rule)]
        assert any(c.verdict == "violated" for c in checks), mutant.name


def test_claims_have_nothing_to_run_and_say_why():
    claims = [s for s in STATEMENTS if s.kind == "claim"]
    assert claims and all(f.sides is None and f.note for s in claims for f in s.forms)
    assert all("cannot be proved or refuted" in SETTING.about(s).refusal for s in claims)


def test_statements_that_a_claim_points_to_are_there():
    note = theorems.get("fedelasticnet/table-1").forms[0].note
    named = [s.id.split("/")[1] for s in theorems.all_statements("fedelasticnet/") if s.id.split("/")[1] in note]
    assert {"sparsification", "l1-and-entropy", "no-additional-costs", "consistency", "algorithm-1-fixed-point"} <= set(named)


# --- witnesses ------------------------------------------------------------------------------------
@each("witness", SHIPPED)
def test_shipped_witnesses_replay(witness):
    check = replay(witness)
    assert (check.verdict, check.mode) == ("violated", "rational")
    with pytest.raises(InvalidInput, match="changed after"):
        replay(replace(witness, lhs=str(F(witness.lhs) + 1)))


def test_every_form_that_fails_has_a_witness():
    have = {(w.statement, w.form, w.rule) for w in SHIPPED}
    assert have == {(s.id, f.name, rule) for s, f, rule in FORMS if f.established[rule] == "violated"}


@each("witness", SHIPPED)
def test_what_holds_holds_on_the_witnesses(witness):
    view = BUILDERS[witness.kind](witness.data)
    for s, f, rule in FORMS:
        if f.kind == witness.kind and rule == view.rule and f.established[rule] == "holds" and view.applies(f) is None:
            assert judge_view(s, f, view).verdict == "holds", (s.id, f.name)


@pytest.mark.parametrize(("statement", "form", "found"), [("eq-7", "control variate", True), ("eq-7", "repaired", False)])
def test_the_search_finds_what_is_there_and_only_that(statement, form, found):
    s = theorems.get(f"fedelasticnet/{statement}")
    result = SETTING.search(s, s.form(form), "any", 60, 0)
    assert (result.witness is not None) == found
    if found:
        assert replay(result.witness).verdict == "violated"


@pytest.mark.parametrize("kind", MAIN_TEXT)
def test_instances_can_be_drawn_from_a_tape(kind):
    first, again = (random_instance(kind, Tape(np.random.default_rng(3).random(80), 3)) for _ in range(2))
    assert first.to_json() == again.to_json() and first.family.endswith(kind)


# --- what the views are made of -------------------------------------------------------------------
@pytest.mark.parametrize("x", [F(0), F(1, 7), F(1), F(5, 2), F(891, 20), F(1000)])
def test_exponentials_are_enclosed(x):
    mp.dps = 500
    low, high = exp_minus(x)
    value = mp.exp(-mpf(x.numerator) / x.denominator)
    assert mpf(low.numerator) / low.denominator <= value <= mpf(high.numerator) / high.denominator
    assert high - low <= low / 2**100
    with pytest.raises(InvalidInput, match="0 <= x <= 1000"):
        exp_minus(F(1001))


def test_all_minimisers_of_a_lasso_with_twins_are_between_its_vertices():
    """x_1 = x_2 = 1, y = 1, lambda_1 = 1: theta_1 + theta_2 = 1/2, both >= 0."""
    one = np.array([[F(1), F(1)], [F(1), F(1)]], dtype=object)
    found = quadratics.minimisers(2 * one, np.array([F(2), F(2)], dtype=object), F(1))
    assert sorted(to_file(x) for x in found) == [["0", "1/2"], ["1/2", "0"]]


def test_minimisers_are_those_of_all_sign_patterns():
    """Signs that are guessed in floats against signs that are tried one by one."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        d = int(rng.integers(1, 4))
        rows = np.array([[F(int(v)) for v in row] for row in rng.integers(-2, 3, (d, d))], dtype=object)
        Q = rows.T @ rows + quadratics.identity(d)
        b = np.array([F(int(v), 2) for v in rng.integers(-9, 10, d)], dtype=object)
        (only,) = quadratics.minimisers(Q, b, F(1))
        assert (quadratics.minimiser(Q, b, F(1)) == only).all()


@pytest.mark.parametrize("rows", ["1 2;2 4", "0 0;0 3", "2 -1;-1 2"])
def test_semidefinite_matrices_are_told_from_others(rows):
    A = np.array([[F(v) for v in row.split()] for row in rows.split(";")], dtype=object)
    assert quadratics.semidefinite(A)
    A[0, 0] -= F(1, 1000)
    assert quadratics.semidefinite(A) == (rows == "2 -1;-1 2")


def test_bins_know_no_largest_entropy_for_a_variance():
    """A Gaussian of a tenth of a bin against +-1 bin with 1/200 each: both have the variance 1/100 in units of the bin's square.

    Bin j >= 1 has u = P[Z > 10 (j - 1/2)] <= e^-a/2 with a = 50 (j - 1/2)^2, and -u log u <= (e^-a/2)(a + log 2), as it grows up
    to 1/e. The bin of 0 adds at most 1 - P_0 <= sum_j e^-a. So the entropy is at most sum_j e^-a (a + 2). The other law's is at
    least (1/100) log 200, and e^5 < 200. Bins beyond the third add less than twice what the third does.
    """
    a = [50 * (j - F(1, 2)) ** 2 for j in (1, 2, 3)]
    gaussian = sum(exp_minus(x)[1] * (x + 2) for x in a[:2]) + 3 * exp_minus(a[2])[1] * (a[2] + 2)
    assert exp_minus(F(5))[0] > F(1, 200)
    assert gaussian < F(1, 10_000) < F(5, 100)


# --- against the methods --------------------------------------------------------------------------
SQUARES = problems.random_least_squares(3, 2, [8, 9, 12], ridge=0.1, seed=0)
START = np.array([1.0, -2.0])


def view_of(statement, algorithm, **how):
    s = theorems.get(f"fedelasticnet/{statement}")
    return SETTING.instance(s, s.forms[0], Case(SQUARES, algorithm, x0=START, **how)).view()


@pytest.mark.parametrize("rule", ["sign", "true-gradient"])
def test_one_round_is_algorithm_3s(rule):
    algorithm = FedElasticNetDyn(0.3, 20.0, rule)
    view = view_of("consistency", algorithm)
    state = simulate(SQUARES, algorithm, 1, START, record=()).final
    for own, theirs in ((view.theta_next, state.x), (view.stored_next, state.stored), (view.local, state.local)):
        assert own.astype(float) == pytest.approx(np.asarray(theirs)[0], abs=1e-9)
    assert view.star.astype(float) == pytest.approx(SQUARES.optimum().x, abs=1e-9)


def test_local_steps_are_algorithm_2s():
    algorithm = FedElasticNetScaffold(0.3, 0.5, server_lr=1.0)
    solver = LocalSGD(3, 0.25)
    view = view_of("eq-7", algorithm, local_solver=solver)
    state = simulate(SQUARES, algorithm, 1, START, local_solver=solver, record=()).final
    assert (view.theta + view.moves.sum(axis=0) / 3).astype(float) == pytest.approx(np.asarray(state.x)[0], abs=1e-9)
    assert view.next_controls.astype(float) == pytest.approx(np.asarray(state.c_k)[0], abs=1e-9)


def test_local_problems_are_algorithm_1s():
    algorithm = FedElasticNetProx(2.0, 0.5, aggregation="cohort")
    view = view_of("eq-4", algorithm)
    state = simulate(SQUARES, algorithm, 1, START, record=()).final
    mean = sum(v.local for v in view.each) / 3
    assert mean.astype(float) == pytest.approx(np.asarray(state.x)[0], abs=1e-9)
    assert any((v.delta == 0).any() for v in view.each)


def test_the_update_of_a_client_is_its_elastic_net():
    """On the client's samples alone, without the problem's ridge: delta = soft(-gradient at theta + delta)/lambda_2."""
    algorithm = FedElasticNetProx(0.2, 0.5)
    of_samples = view_of("grouping-of-updates", algorithm, given={"client": 1})
    a, b = (np.asarray(v[1][: int(SQUARES.sample_counts[1])]) for v in (SQUARES.features, SQUARES.targets))
    gradient = a.T @ (a @ (START + of_samples.update.astype(float)) - b) / len(b)
    assert of_samples.update.astype(float) == pytest.approx(np.sign(-gradient) * np.maximum(abs(gradient) - 0.2, 0) / 0.5, abs=1e-9)


# --- on a problem of a user's ---------------------------------------------------------------------
ALGORITHMS = {
    "local-steps": FedElasticNetScaffold(0.3, 0.5), "everybody": FedElasticNetDyn(0.3, 20.0), "objective": FedElasticNetDyn(0.3, 60.0),
}  # fmt: skip


@each("statement", [s for s in STATEMENTS if s.kind != "claim" and s.scope != "density"])
def test_every_statement_runs_on_a_users_problem(statement):
    """Forms hold there; one that is not about the problem says what is missing."""
    algorithm = ALGORITHMS.get(statement.scope, FedElasticNetProx(0.3, 0.5))
    if statement.id.endswith(("eq-6", "eq-8", "eq-9")):
        algorithm = replace(algorithm, l1=0.0, l2=0.0 if statement.id.endswith("eq-6") else algorithm.l2)
    checks = statement.verify(SQUARES, algorithm, x0=START)
    assert {c.mode for c in checks if c.verdict != "not applicable"} <= {"rational"}
    for c in checks:
        if c.verdict == "not applicable":
            assert c.reason
        else:
            assert c.verdict == "holds" or statement.form(c.form).established[c.rule] == "violated", str(c)


def test_at_rest_is_told_on_a_users_problem():
    checks = theorems.get("fedelasticnet/consistency").verify(SQUARES, FedElasticNetDyn(100.0, 200.0), x0=START)
    assert {c.form: c.verdict for c in checks} == {
        "FedDyn": "not applicable", "stationary for R": "violated", "repaired": "holds", "no drift at rest": "holds",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("statement", "how", "words"),
    [
        ("eq-2", {"given": {"client": 7}}, "there are 3"),
        ("eq-2", {"problem": problems.random_quadratic(2, 2, seed=0)}, "use problems.LeastSquares"),
        ("eq-4", {"problem": problems.random_logistic(2, 2, [5, 5], ridge=0.1, seed=0)}, "no quadratic loss"),
        ("eq-4", {"problem": problems.random_quadratic(2, 13, seed=0)}, "at most 12"),
        ("eq-4", {"given": {"trial": [1, 2, 3]}}, "give 2 numbers"),
        ("eq-7", {"given": {"controls": "old"}}, "use zero or fresh"),
        ("eq-7", {"local_solver": LocalSGD(3, 0.1, 2)}, "full gradient steps"),
        ("eq-7", {"local_solver": LocalSGD(9, 0.1)}, "at most 8"),
        ("concentration", {"given": {"delta": [1, 2]}}, "give one number"),
    ],
)
def test_what_is_missing_is_said(statement, how, words):
    s = theorems.get(f"fedelasticnet/{statement}")
    how = {"problem": SQUARES, **how}
    problem, algorithm = how.pop("problem"), ALGORITHMS.get(s.scope, FedElasticNetProx(0.3, 0.5))
    checks = s.verify(problem, algorithm, **how)
    assert all(c.verdict == "not applicable" for c in checks) and words in checks[0].reason


def test_the_command_line_takes_local_work_and_keeps_cases(tmp_path):
    """Three steps of 1/20 from fresh control variates; what is kept is replayed as it was judged."""
    options = ("--problem", "least-squares", "--dimension", 2, "--local-steps", 3, "--local-lr", 0.05, "--given", "controls=fresh")
    call("verify", "fedelasticnet/eq-7", *options, "--keep", tmp_path)
    kept = {json.loads(f.read_text())["form"]: json.loads(f.read_text()) for f in tmp_path.iterdir()}
    assert {"control variate": "violated", "repaired": "holds"}.items() <= {n: k["verdict"] for n, k in kept.items()}.items()
    assert (kept["repaired"]["data"]["B"], kept["repaired"]["data"]["lr"]) == (3, "1/20")
    assert all(replay(f).verdict == json.loads(f.read_text())["verdict"] for f in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [("--participants", 2, "leave it out"), ("--rounds", 5, "without runs"), ("--local-lr", 0.1, "without runs")],
)
def test_options_that_mean_nothing_are_refused(option, value, words):
    assert words in refused("verify", "fedelasticnet/eq-4", "--problem", "least-squares", option, value)


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        ("regression", {"lambda1": "0"}, "must be > 0"),
        ("regression", {"y": ["1"]}, "does not fit X"),
        ("local", {"lambda2": "0"}, "must be > 0"),
        ("local", {"H": [["1", "2"], ["3", "1"]]}, "symmetric"),
        ("local", {"H": [["1", "2"], ["2", "1"]]}, "a convex loss, or the diagonal of H"),
        ("local-steps", {"controls": "stale"}, "controls = 'stale': expected rows of fractions"),
        ("local-steps", {"controls": [["1", "2"]]}, "controls .1, 2. does not fit"),
        ("everybody", {"rule": "any"}, "the rule 'any' where lambda_1 = 0"),
        ("everybody", {"beta": "1/100"}, "must have beta-smooth losses"),
        ("everybody", {"H": [["-1"]]}, "positive semidefinite"),
        ("signs", {"laws": [["1", [["1", "1/2"]]]]}, "add up to 1"),
        ("signs", {"weights": ["1/2"]}, "whole number"),
        ("signs", {"delta": "0"}, "must be > 0"),
        ("density", {"cells": [["0", "2", 1], ["1", "1", 1]]}, "without overlapping"),
        ("message", {"theta": ["1", "2"]}, "does not fit x"),
    ],
)
def test_data_that_are_not_an_instance_are_refused(kind, change, words):
    good = {
        "regression": {"X": [["1"], ["2"]], "y": ["1", "2"], "lambda1": "1", "lambda2": "1"},
        "local": {"H": ["1", "1"], "theta": ["0", "0"], "lambda1": "1", "lambda2": "1"},
        "local-steps": {"H": [["1"]], "q": [["1"]], "theta": ["0"], "lr": "1/2", "B": 1},
        "everybody": {"H": [["1"]], "q": [["0"]], "theta": ["1"], "lambda1": "1", "lambda2": "1", "rule": "sign"},
        "signs": {"groups": 1, "delta": "1/2", "laws": [["1", [["1", "1/2"], ["-1", "1/2"]]]]},
        "density": {"cells": [["0", "1", 1]]},
        "message": {"x": ["1"]},
    }[kind]
    assert BUILDERS[kind](good)
    with pytest.raises(InvalidInput, match=words):
        BUILDERS[kind]({**good, **change})
