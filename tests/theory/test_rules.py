"""Variants of a method, numbers above a limit, states of any kind, and what a form needs."""

from __future__ import annotations

from fractions import Fraction as F
from types import SimpleNamespace

import numpy as np
import pytest

from fedtheory.algorithms import FedProx, Scaffold
from fedtheory.errors import InvalidInput, UnknownName
from fedtheory.problems import random_quadratic
from fedtheory.theory import (
    GradientSteps,
    Paper,
    SmoothConvex,
    above,
    among,
    eq,
    form,
    le,
    method,
    repaired,
    study,
    upto,
    verify,
    wrong,
)
from fedtheory.theory.judge.campaign import Plan
from fedtheory.theory.judge.case import Case
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.studies.declared import as_written, declared

STEPS = GradientSteps(1, lr=lambda c: 1 / c.beta)


def made(**how):
    """A statement about FedProx, light and heavy, whose one step is that of gradient descent."""
    paper = Paper("variants")
    how = {
        "about": method(FedProx, mu=1),
        "rules": {"light": {"mu": 1}, "heavy": {"mu": 9}},
        "local": STEPS,
    } | how

    @paper.statement("step", problems=SmoothConvex((1, 3), (1, 2)), **how)
    def step(q):
        """One step."""
        gain = q.gradient_sq / q.beta
        half = le(q.F_next, q.F, -gain / 2)
        yield repaired(half, "", wrong("all of it", le(q.F_next, q.F, -gain)), holds=True)
        if q.rule == "heavy":
            yield form("the method's mu", eq(q.method.mu + 0 * q.F, 9 + 0 * q.F), holds=True)
        yield form(
            "mu at most 1",
            le(q.method.mu + 0 * q.F, 1),
            fails=q.rule == "heavy",
            holds=q.rule == "light",
        )

    return paper


def test_each_rule_has_its_forms_and_its_verdicts():
    [statement] = made().statements
    assert {f.name: dict(f.established) for f in statement.forms} == {
        "repaired": {"light": "holds", "heavy": "holds"},
        "the method's mu": {"heavy": "holds"},
        "mu at most 1": {"light": "holds", "heavy": "violated"},
    }


def test_a_campaign_and_a_study_judge_every_rule():
    paper = made()
    setting = paper.setting
    instances = setting.instances(Plan(0, 0.1))
    assert {i.rule for i in instances} == {"light", "heavy"} and len(
        {i.name for i in instances}
    ) == len(instances)
    checks = [c for i in instances for c in setting.check(i, [paper["step"].statement])]
    assert {(c.form, c.rule) for c in checks if c.verdict == "violated"} == {
        ("mu at most 1", "heavy")
    }
    found = study(paper, budget=20, necessity=False)
    assert [one.statement.rule for one in found.studies] == ["light", "heavy"]
    assert {(r.form, r.rule): r.verdict for r in found.rows}["mu at most 1", "heavy"] == "violated"
    assert {(w.form, w.rule) for w in found.counterexamples} == {("mu at most 1", "heavy")}


def test_a_users_method_says_which_rule_it_has():
    paper, problem = made(), random_quadratic(3, 2, seed=1)
    setting, [statement] = paper.setting, paper.statements
    case = SimpleNamespace(**vars(Case(problem, None, sampling=None, scenarios=40)))
    for mu, rule, verdict in ((1, "light", "holds"), (9, "heavy", "violated")):
        case.algorithm = FedProx(mu=mu)
        found = {c.form: c for c in setting.verify(statement, statement.forms, case)}
        assert {c.rule for c in found.values()} == {rule} and found[
            "mu at most 1"
        ].verdict == verdict
    case.algorithm = FedProx(mu=3)
    assert {c.verdict for c in setting.verify(statement, statement.forms, case)} == {
        "not applicable"
    }


def test_rules_that_cannot_be():
    with pytest.raises(InvalidInput, match=r"rules: write about=method\(FedProx, ...\)"):
        made(about=FedProx(mu=1))
    with pytest.raises(UnknownName, match="rule of variants/step"):
        made().setting._of("step", "lighter")


def test_numbers_above_a_limit():
    paper = made(
        about=method(FedProx, mu=above(lambda c: 2 * c.beta, unit=lambda c: c.beta, usual=3)),
        rules=None,
    )
    setting, rng = MethodSetting.of(paper["step"]), np.random.default_rng(0)
    for _ in range(20):
        drawn = setting.random_instance(rng)
        view = setting.view(drawn)
        assert view.method.mu > 2 * view.beta and setting.why_not(drawn) is None
        exact = setting.view(drawn, exact=True)
        assert f", method.mu = {exact.method.mu} (above {2 * exact.beta})" in setting.words(drawn)
    assert "not above 0" in setting.why_not(drawn.changed(drawn={"method.mu": F(0)}))
    problem = random_quadratic(3, 2, seed=1)
    beta = float(problem.beta_k.max())
    assert setting.on_problem(problem)[0].mu == pytest.approx(5 * beta)
    assert verify(paper["step"], problem, FedProx(mu=2 * beta))[0].verdict == "not applicable"
    assert verify(paper["step"], problem, FedProx(mu=2.1 * beta))[0].verdict == "holds"


def test_words_are_the_users_choice():
    words = among("cohort", "samples")
    paper = made(about=method(FedProx, mu=upto(1), aggregation=words), rules=None)
    problem = random_quadratic(3, 2, seed=1)
    assert MethodSetting.of(paper["step"]).on_problem(problem)[0].aggregation == "cohort"
    assert {
        c.verdict for c in verify(paper["step"], problem, FedProx(mu=1, aggregation="samples"))
    } == {"holds"}
    assert among("1/2", "1").choices == ("1/2", "1")


# --- states of any kind -----------------------------------------------------------------------
def memories(**how):
    paper = Paper("memories")

    @paper.statement(
        "mean", about=Scaffold(), local=STEPS, problems=SmoothConvex((1, 3), (1, 2)),
        states={"c_k": "N d", "c": lambda s: s["c_k"].sum(axis=0) / len(s["c_k"])}, **how,
    )  # fmt: skip
    def mean(q):
        """c is the mean of c_k; after a first round c_k are gradients, and before it 0."""
        yield repaired(eq(q.state.c_k.sum(axis=-2) / q.N, q.state.c), holds=True)
        yield form("zero", eq(q.state.c_k, 0 * q.state.c_k), fails=True)
        curved = {"mu > 0": q.mu > 0}
        yield form("strongly convex", le(q.mu, q.beta), needs=curved, holds=True)

    return paper["mean"]


def test_any_state_before_a_round():
    statement = memories(rounds=0)
    setting, rng = MethodSetting.of(statement), np.random.default_rng(0)
    drawn = [setting.random_instance(rng) for _ in range(20)]
    assert {bool(d.state) for d in drawn} == {True, False}
    for d in drawn:
        forms = statement.on(setting.view(d))
        assert (forms["repaired"].sides.lhs == 0).all()
        assert (forms["zero"].sides.lhs > 0).any() == bool(d.state and (d.state["c_k"] != 0).any())
        again = Draw.from_data(d.to_data())
        assert setting.why_not(again) is None and again.to_data() == d.to_data()
    stated = next(d for d in drawn if d.state)
    assert "from a state of its own" in str(stated)
    assert "the statement is about" in setting.why_not(stated.changed(state={"c": stated.start}))
    problem = random_quadratic(3, 2, seed=1)
    assert {c.form: c.verdict for c in verify(statement, problem)}["zero"] == "violated"


def test_what_a_form_needs():
    statement = memories(rounds=0)
    setting = MethodSetting.of(statement)
    flat = Draw.from_data(
        {
            "h": [["0"], ["1"]],
            "c": [["0"], ["1"]],
            "weights": ["1/2", "1/2"],
            "start": ["1"],
            "rounds": 0,
        }
    )
    forms = statement.on(setting.view(flat))
    assert set(forms) == {"repaired", "zero"} and "mu > 0 is not met" in str(
        forms.why("strongly convex")
    )
    assert "strongly convex" in statement.on(setting.view(flat.changed(h=flat.h + 1)))
    assert statement.statement.form("strongly convex").conditions == ("mu > 0",)


def test_what_is_declared_is_told():
    setting, [statement] = made().setting, made().statements
    assert setting.about(statement).declares["rules"] == "light (mu = 1), heavy (mu = 9)"
    assert declared(memories(rounds=0))["state before"] == "any c_k, besides those of runs"
    assert (
        as_written(above(3)) == "every number above 3" and as_written(among("a", "b")) == "a or b"
    )


def test_a_run_begins_as_its_method_does():
    with pytest.raises(InvalidInput, match="states: a run begins as the method does"):
        memories(over="run")
