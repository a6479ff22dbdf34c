"""Theorem B.6: worked numbers, witnesses, mutants, a user's problem."""

from __future__ import annotations

import runpy
from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest
import worked_fedelasticnet_theorems as worked
from algorithm_3 import DiagonalInstance, RationalState, exact_round

from fedtheory import problems, theorems
from fedtheory.algorithms import FedDyn, FedElasticNetDyn
from fedtheory.participation.cohorts import Uniform
from fedtheory.theorems.fedelasticnet.one_round import letters
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.statements.theorem_b6 import potential_step
from fedtheory.theory.judge.check import judge_view
from fedtheory.theory.judge.registry import setting_of
from fedtheory.theory.judge.replay import builtin_witnesses, exact_check, replay
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.rounds.forms import reduced
from fedtheory.theory.rounds.method_setting import MethodSetting
from tests.theorems.fedelasticnet.runs import witness_of
from tests.theorems.fedelasticnet.test_worked_theorems import OTHER

STATEMENT = FILE["theorem-b6"]
B6 = theorems.get("fedelasticnet/theorem-b6")
# Three clients, two of them drawn, two coordinates; lambda_2 = 30 beta; the second round.
WORKED = {
    "sign": {
        "printed": ("57157/6149220", "32772468485357/97233188421600"),
        "repaired": ("57157/6149220", "1772444664959/5401843801200"),
        "d missing": ("57157/6149220", "1573090905629/5401843801200"),
        "no floor": ("57157/6149220", "196248163757/771691971600"),
        "sharpened": ("57157/6149220", "796513140781/2700921900600"),
        "small floor": ("57157/6149220", "2387023748393/9003073002000"),
    },
    "true-gradient": {
        "printed": ("57157/6149220", "5181837053035649/17501973915888000"),
        "repaired": ("57157/6149220", "5789740407996749/17501973915888000"),
        "d missing": ("57157/6149220", "5143834227767549/17501973915888000"),
        "no floor": ("57157/6149220", "4497928047538349/17501973915888000"),
    },
}

ROWS = [(rule, name) for rule, table in WORKED.items() for name in table]


def told(rule, form, of, starts, before):
    """Both sides in fractions on an instance of a worked reference."""
    numbers = of["H"], of["C"], of["LAMBDA_1"], of["LAMBDA_2"], of["P"], starts
    _, lhs, rhs, _ = exact_check(witness_of(B6.id, form, rule, *numbers, 1, before=[list(before)]))
    return lhs, rhs


@pytest.mark.parametrize(("rule", "form"), ROWS)
def test_the_sides_are_these_numbers(rule, form):
    found = told(rule, form, vars(worked), worked.STARTS[0], worked.COHORT_BEFORE)
    assert tuple(map(str, found)) == WORKED[rule][form]
    assert found == worked.ROUND_FORMS["theorem-b6", form](worked.Round(rule))


@pytest.mark.parametrize(("rule", "form"), ROWS)
def test_both_agree_on_another_instance(rule, form):
    again = runpy.run_path(worked.__file__, {"OTHER_NUMBERS": OTHER})
    found = told(rule, form, again, OTHER["STARTS"][0], OTHER["COHORT_BEFORE"])
    assert found == again["ROUND_FORMS"]["theorem-b6", form](again["Round"](rule))


def test_every_form_of_every_rule_has_worked_numbers():
    assert {(r, f.name) for f in B6.forms for r in f.established} == set(ROWS)


def test_where_the_floors_are():
    numbers = [F(WORKED["sign"][name][1]) for name in ("sharpened", "small floor", "no floor")]
    assert numbers[0] - numbers[2] == F("0.825") * worked.KAPPA_PRIME * 25 * F(
        4, 3
    )  # lambda_1^2 = 25; 4 of the 6 moves are 0
    assert numbers[1] - numbers[2] == F("0.22") * worked.KAPPA_PRIME * 25 * F(4, 3)


# --- evidence ----------------------------------------------------------------------------------
OF_A_METHOD = [s for s in FILE.authored.values() if not s.of_world]


def refuted():
    return [
        pytest.param(variant, claimed, id=f"{variant.name}-{claimed.name}-{rule}")
        for statement in OF_A_METHOD
        for rule, variant in statement.variants.items()
        for claimed in variant.forms.values()
        if claimed.established == "violated"
    ]


@pytest.mark.parametrize(("variant", "claimed"), refuted())
def test_a_form_that_fails_has_its_witness(variant, claimed):
    known = {w.name: w for w in builtin_witnesses("fedelasticnet")}
    witness = known[Witness(variant.id, claimed.name, variant.rule, "", {}).name]
    assert (witness.statement, witness.form, witness.rule) == (
        variant.id,
        claimed.name,
        variant.rule,
    )
    assert replay(witness).verdict == "violated"


def test_a_witness_may_have_any_state():
    """The same sides as the room's own round from it."""
    state = {
        "theta": ["2", "-1"],
        "stored": [["1", "-3"], ["1/2", "4"]],
        "local": [["0", "1"], ["3", "-2"]],
    }
    h, c = [["1", "1/2"], ["2", "1"]], [["1", "0"], ["-1", "3"]]
    for rule, name in (("sign", "repaired"), ("true-gradient", "no floor")):
        kept = {k: v for k, v in state.items() if k != "theta"}
        w = witness_of(B6.id, name, rule, h, c, "1/3", "60", 1, state["theta"], state=kept)
        _, lhs, rhs, _ = exact_check(w)
        instance = DiagonalInstance.exact(h, c, "1/3", "60", 1, rule, ["0", "0"])
        theta, stored, local = (
            np.array([[F(x) for x in np.ravel(state[k])]], dtype=object)
            for k in ("theta", "stored", "local")
        )
        stored, local = stored.reshape(1, 2, 2), local.reshape(1, 2, 2)
        view = exact_round(instance, RationalState(theta, stored.sum(axis=1) / F(2), stored, local))
        v = letters(view)
        a, kappa, kappa_0 = v.constants.printed
        floor = a / 2 * v.lambda1**2 * v.d * (name == "repaired")
        own = potential_step(v, kappa, kappa_0, floor, v.last_term(v.lambda1_s))
        assert (lhs, rhs) == (own.lhs[0, 0], own.rhs[0, 0])


# --- instances that are drawn ------------------------------------------------------------------
@pytest.mark.parametrize("rule", STATEMENT.variants)
def test_what_is_on_record_is_found_and_mutants_are_rejected(rule):
    variant = STATEMENT.variants[rule]
    setting, rng = MethodSetting.of(variant), np.random.default_rng(0)
    left = {(name, m.name) for name, claimed in variant.forms.items() for m in claimed.mutants}
    states = set()
    for n in range(80):
        if n >= 12 and not left and len(states) == 2:
            break
        drawn = setting.random_instance(rng)
        states.add(bool(drawn.state))
        if drawn.state and rng.random() < 0.5:  # gamma at the optimum: only the memories are wrong
            lambda_2 = drawn.drawn["method.l2"] * drawn.exact_losses.constants["beta"]
            star = drawn.exact_losses.minimiser(drawn.start)
            drawn = drawn.changed(
                start=star - drawn.state["stored"].sum(axis=0) / (drawn.num_clients * lambda_2)
            )
        view = setting.view(drawn, exact=True)
        for name, claimed in variant.on(view).items():
            sides = reduced(view, claimed)
            assert claimed.established == "violated" or (sides.lhs <= sides.rhs).all(), (
                name,
                str(drawn),
            )
            for m in claimed.mutants:
                wrong = reduced(view, claimed, m.sides)
                left -= {(name, m.name)} if (wrong.lhs > wrong.rhs).any() else set()
    assert not left and states == {True, False}


def test_a_problem_of_a_users():
    problem, cohorts = problems.random_quadratic(4, 2, seed=3), Uniform(2)
    beta = float(problem.beta_k.max())
    found = {
        c.form: c
        for c in B6.verify(
            problem, FedElasticNetDyn(0.1, 30 * beta, "true-gradient"), sampling=cohorts
        )
    }
    assert {c.rule for c in found.values()} == {"true-gradient"} and found[
        "no floor"
    ].verdict == "holds"
    assert found["sharpened"].reason == "not claimed for the true-gradient rule"
    near = {
        c.form: c for c in B6.verify(problem, FedElasticNetDyn(0.1, 26.9 * beta), sampling=cohorts)
    }
    assert (
        near["repaired"].verdict == "holds"
        and "lambda_2/beta > 27 is not met" in near["printed"].reason
    )
    for method in (FedElasticNetDyn(0.1, 20 * beta), FedDyn(30 * beta)):
        assert {c.verdict for c in B6.verify(problem, method, sampling=cohorts)} == {
            "not applicable"
        }


def test_printed_is_refuted_from_states_of_any_kind():
    problem = problems.Quadratic([[[1.0]], [[1.0]]], [[0.0], [0.0]])
    found = {
        c.form: c.verdict
        for c in B6.verify(problem, FedElasticNetDyn(1.0, 300.0), sampling=Uniform(1))
    }
    assert found["printed"] == "violated" and found["repaired"] == "holds"


def test_the_search_finds_a_planted_mistake():
    form = B6.form("repaired")
    [_, dropped] = form.mutants
    setting = setting_of(B6)
    assert setting.search(B6, form, "sign", 60, 0).empty
    assert not setting.search(B6, form, "sign", 60, 0, sides=dropped.sides).empty


def test_views_know_their_rule():
    for rule, variant in STATEMENT.variants.items():
        view = MethodSetting.of(variant).view(
            MethodSetting.of(variant).random_instance(np.random.default_rng(1))
        )
        assert (
            view.rule == rule == view.method.rule
            and judge_view(B6, B6.form("repaired"), view).rule == rule
        )
    assert replace(STATEMENT, rules={}).variants.keys() == {"any"}
