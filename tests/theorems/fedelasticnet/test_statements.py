"""Every statement on a small battery: what is on record is found, and every mutant is rejected."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fedtheory import problems, theorems
from fedtheory.algorithms import FedDyn, FedElasticNetDyn, FedElasticNetProx
from fedtheory.errors import InvalidInput, UnknownName
from fedtheory.participation.cohorts import Bernoulli, Full, Uniform
from fedtheory.theorems.fedelasticnet.notation import RATIO
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.statements.identities import (
    chain_after_41,
    constants_identities,
    kappa_is_positive,
)
from fedtheory.theory.judge import campaign
from fedtheory.theory.judge.case import Plan
from fedtheory.theory.judge.check import in_words, judge_statistical, judge_view
from fedtheory.theory.judge.registry import setting_of
from fedtheory.theory.judge.statement import le
from fedtheory.theory.judge.verify import verify
from fedtheory.theory.rounds.judging import check as check_view
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.run_matches_claim import as_said
from paper_figures.fedelasticnet import instances as battery
from paper_figures.fedelasticnet.runs import runs
from tests.theorems.fedelasticnet.runs import letters, tree

RULES = ("sign", "true-gradient")
AT_REST = MethodSetting.of(FILE["algorithm-1-fixed-point"])
KINDS = (
    "run",
    "algorithm-1-fixed-point",
)  # of Algorithm 3 and of Algorithm 1 at rest: other kinds have files of their own


def _instances() -> list[battery.ProblemInstance]:
    """A few instances of each family, among them d = 1, P = 1, P = m, heavy and no l1."""
    out = [
        battery.ProblemInstance("quadratic", 3, 1, 1, 27.001, 1.0, 1),
        battery.ProblemInstance("quadratic", 4, 2, 3, 27.001, 0.3, 2),
        battery.ProblemInstance("quadratic", 3, 3, 2, 100.0, 0.0, 3),
        battery.ProblemInstance("ill-conditioned", 3, 2, 3, 26.862, 0.3, 4),
        battery.ProblemInstance("identical", 3, 1, 1, 27.001, 10.0, 5),
        battery.ProblemInstance("identical", 2, 2, 1, 27.001, 0.03, 6),
        battery.ProblemInstance("identical", 2, 2, 1, 42.0, 10.0, 6),
        battery.ProblemInstance("logistic", 3, 2, 2, 30.0, 0.3, 7),
        battery.ProblemInstance("huber", 3, 1, 2, 27.001, 1.0, 8),
        battery.ProblemInstance("quadratic", 3, 1, 3, 1000.0, 0.0, 9),
        battery.ProblemInstance("quadratic", 2, 1, 5, 100.0, 10.0, 10),
    ]
    return out


@pytest.fixture(scope="module")
def views() -> dict[str, list]:
    """Views of all scopes and rules."""
    found: dict[str, list] = {"round": [], "run": [], "fixed-point": []}
    for instance in _instances():
        problem = instance.problem()
        lambda1, lambda2 = instance.lambdas(problem)
        start = instance.start(problem) + 3
        for rule in RULES:
            algorithm = FedElasticNetDyn(lambda1, lambda2, rule)
            if lambda1 > 0:
                own = MethodSetting.of(FILE["eq-28"].variants[rule])
                own = as_said(own, own.facts(own.world(problem), instance.sampling, 0), algorithm, None)
                rng = np.random.default_rng(instance.seed)
                found["round"].append((rule, own.problem_views(problem, rng, instance.sampling, x0=start)))
                found["run"] += [
                    (rule, tree(problem, algorithm, instance.sampling, 4, start)),
                    (rule, tree(problem, algorithm, Full(), 120, start)),
                    (rule, tree(problem, algorithm, instance.sampling, 4, problem.optimum().x)),
                ]
        slow = FedElasticNetProx(l1=lambda1, l2=float(problem.beta_k.max()), aggregation="cohort")
        resting = AT_REST.facts(AT_REST.world(problem), Full(), 0)
        view = as_said(AT_REST, resting, slow, None).problem_views(
            problem, np.random.default_rng(0), x0=instance.start(problem), rounds=0
        )
        found["fixed-point"].append(("any", view))
    return found


def _cases(with_mutants: bool) -> list:
    return [
        pytest.param(s, f, m, id=f"{s.id}-{f.name}-{m.name if m else 'itself'}")
        for s in theorems.all_statements("fedelasticnet/")
        if s.scope == "round" or s.forms[0].kind in KINDS
        for f in s.forms
        for m in (f.mutants if with_mutants else [None])
    ]


@pytest.mark.parametrize(("statement", "form", "mutant"), _cases(False))
def test_what_is_established_is_found(statement, form, mutant, views):
    for rule, established in form.established.items():
        checks = [judge_view(statement, form, v) for r, v in views[statement.scope] if r == rule]
        assert checks
        if established == "holds":
            told = [c for c in checks if "is not met" not in c.reason]  # of a need of the form
            assert told and all(c.verdict == "holds" for c in told), [str(c) for c in told if c.verdict != "holds"]
        elif statement.scope == "round" and form.name in ("printed", "literal"):
            assert any(c.verdict == "violated" for c in checks)


@pytest.mark.parametrize(("statement", "form", "mutant"), _cases(True))
def test_every_mutant_is_rejected(statement, form, mutant, views):
    checks = [
        judge_view(statement, form, v, sides=mutant.sides)
        for rule, v in views[statement.scope]
        if rule in form.established
    ]
    assert any(c.verdict == "violated" for c in checks)


def test_every_form_that_holds_has_a_mutant():
    for statement in theorems.all_statements():
        for form in statement.forms:
            if "holds" in form.established.values() and form.symbolic is None:
                assert form.mutants, f"{statement.id} {form.name}"


def test_symbolic_identities_hold_and_their_mutants_do_not():
    assert chain_after_41() and not chain_after_41(lead=9)
    assert constants_identities() and not constants_identities(threshold=26)
    constants = theorems.get("fedelasticnet/constants")
    assert r"\Rightarrow\kappa>0" in constants.form("printed").latex  # what the paper says, and uses
    assert r"\Rightarrow\kappa_0>0" in constants.form("repaired").latex  # what the division by kappa_0 T needs
    assert kappa_is_positive() and not kappa_is_positive(threshold=4) and not kappa_is_positive(exactly=6)


def test_ids_cover_the_papers_numbers():
    numbers = [11, 12, *range(13, 42), 42]
    for n in numbers:
        assert theorems.get(f"fedelasticnet/eq-{n}")
    for name in ("lemma-b2", "lemma-b3", "lemma-b4", "lemma-b5", "theorem-b6", "theorem-b1", "theorem-3.1"):
        assert theorems.get(f"fedelasticnet/{name}")


def test_the_assumptions_ask_of_lambda_2_what_the_limits_ask():
    """Theorem A listed lambda_2 > 27 beta beside its limit of 10.685, and Theorem B beside 22.839."""
    told = {}
    for statement in theorems.all_statements("fedelasticnet/"):
        numbers = {float(x) for line in statement.assumptions for x in re.findall(r"(?:lambda_2 >|beta =) ([0-9.]+) beta", line)}
        limits = {round(f.limits[RATIO], 3) for f in statement.forms if RATIO in f.limits}
        above = f"{RATIO} > "
        limits |= {round(float(n.removeprefix(above)), 3) for f in statement.forms for n in f.needs if n.startswith(above)}
        if numbers and limits and statement.id != "fedelasticnet/theorem-c":
            told[statement.id.split("/")[1]] = limits
            assert numbers <= limits, statement.id
    assert told["theorem-a"] == {10.685} and told["theorem-b"] == {22.839} and told["theorem-3.1"] == {27, 26.861}


def test_unknown_statement_suggests_the_nearest():
    with pytest.raises(UnknownName, match=r"theorem-3\.1"):
        theorems.get("fedelasticnet/theorem-31")


# --- verify on a user's problem -------------------------------------------------------------------
def _users_problem() -> problems.LeastSquares:
    rng = np.random.default_rng(0)
    return problems.LeastSquares(rng.standard_normal((4, 10, 3)), rng.standard_normal((4, 10)))


def test_verify_round_trip_on_a_users_problem():
    problem = _users_problem()
    beta = problem.constants().beta
    theorem = theorems.get("fedelasticnet/theorem-3.1")
    checks = theorem.verify(problem, FedElasticNetDyn(0.1, 28 * beta), sampling=Uniform(2), rounds=4)
    assert checks.verdict == "holds"
    assert {c.form for c in checks} >= {"printed", "repaired"}
    assert all(c.mode == "exact" for c in checks)


def test_outside_its_assumptions_a_theorem_is_not_applicable():
    problem = _users_problem()
    beta = problem.constants().beta
    theorem = theorems.get("fedelasticnet/theorem-3.1")
    small = theorem.verify(problem, FedElasticNetDyn(0.1, 26.8 * beta), rounds=2)
    assert small.verdict == "not applicable" and "26.8" in small[0].reason
    assert "Bernoulli" in theorem.verify(problem, FedElasticNetDyn(0.1, 28 * beta), sampling=Bernoulli(0.5), rounds=2)[0].reason
    assert "epsilon" in theorem.verify(problem, FedElasticNetDyn(0.1, 28 * beta, epsilon=0.1), rounds=2)[0].reason
    assert "FedDyn" in theorem.verify(problem, FedDyn(28 * beta), rounds=2)[0].reason
    saddle = problems.Quadratic([[[1.0, 0], [0, -1.0]]], [[0.0, 0.0]])
    assert "not convex" in theorem.verify(saddle, FedElasticNetDyn(0.1, 28.0), rounds=2)[0].reason
    uneven = problems.Quadratic([[[1.0]], [[2.0]]], [[0.0], [1.0]], weights=[0.25, 0.75])
    assert "weights" in theorem.verify(uneven, FedElasticNetDyn(0.1, 60.0), rounds=2)[0].reason


def test_an_uncertified_optimum_is_inconclusive(monkeypatch):
    from fedtheory.errors import NotCertified
    from fedtheory.problems import base

    def refuse(problem, gap, max_conic_entries):
        raise NotCertified("no certificate today")

    monkeypatch.setattr(base, "certify", refuse)
    problem = _users_problem()
    checks = theorems.get("fedelasticnet/eq-28").verify(problem, FedElasticNetDyn(0.1, 28 * problem.constants().beta))
    assert {c.verdict for c in checks} == {"inconclusive"}


def test_p_above_m_is_refused_before_work():
    problem = _users_problem()
    with pytest.raises(InvalidInput, match="P = 5 with m = 4"):
        theorems.get("fedelasticnet/eq-28").verify(problem, FedElasticNetDyn(0.1, 100.0), sampling=Uniform(5))


# --- expectations ---------------------------------------------------------------------------------
def test_monte_carlo_agrees_with_the_tree():
    """Means of every side within five standard errors of the exact expectation, at every horizon."""
    problem = problems.random_quadratic(4, 2, heterogeneity=1.0, seed=3)
    algorithm = FedElasticNetDyn(0.2, 27.5 * float(problem.beta_k.max()))
    x0 = problem.optimum().x + 1.0
    exact = letters(tree(problem, algorithm, Uniform(2), 4, x0))
    [view] = runs(problem, algorithm, Uniform(2), 4, x0, 4000, 0, "monte-carlo")
    sampled = letters(view)
    for name in ("excess", "inner_exact", "inner_sign", "inner_own_sign", "zeros"):
        values = getattr(sampled, name)
        error = values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
        assert (np.abs(values.mean(axis=1) - getattr(exact, name)) <= 5 * error + 1e-12).all(), name


def test_statistical_verdicts_have_three_outcomes():
    """A clear yes, a clear no, and too few scenarios to say."""
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((3, 1000))
    fields = {"statement": "s", "form": "f", "rule": "any", "mode": "statistical"}
    assert judge_statistical(le(noise, 0 * noise + 1), 0.999, **fields).verdict == "holds"
    assert judge_statistical(le(noise, 0 * noise - 1), 0.999, **fields).verdict == "violated"
    assert judge_statistical(le(noise - noise.mean(), 0 * noise), 0.999, **fields).verdict == "inconclusive"


def test_a_run_that_diverged_is_not_a_matter_of_more_scenarios():
    lhs = np.ones((3, 10))
    lhs[1, 4] = np.inf
    check = judge_statistical(le(lhs, np.zeros((3, 10))), 0.999, statement="s", form="f", rule="any", mode="statistical")
    assert check.verdict == "inconclusive" and "horizon 1, scenario 4" in check.reason and "diverged" in check.reason
    with pytest.raises(InvalidInput, match="confidence is 2"):
        judge_statistical(le(lhs, lhs), 2, statement="s", form="f", rule="any", mode="statistical")


def test_false_alarms_stay_below_the_stated_level():
    """A bound met with equality in expectation: 'violated' in at most a few of 2,000 campaigns of 5 looks (99.9 %)."""
    rng = np.random.default_rng(2)
    fields = {"statement": "s", "form": "f", "rule": "any", "mode": "statistical"}
    alarms = 0
    for _ in range(2000):
        lhs = rng.standard_normal((5, 200))
        alarms += judge_statistical(le(lhs, 0 * lhs), 0.999, **fields).verdict == "violated"
    assert alarms <= 8  # expected at most 2; P(more than 8) < 1e-3


def test_campaign_rows_flag_a_verdict_that_is_not_on_record():
    setting, about = setting_of("fedelasticnet/eq-28"), theorems.get("fedelasticnet/eq-28")
    shared = [i for i in setting.instances(Plan(scale=0.01)) if getattr(i, "kind", "") == "eq-11" and i.rule == "sign"]
    instance = next(i for i in shared if setting.check(i, [about])[0].verdict != "not applicable")
    tasks = [campaign.Task("fedelasticnet", instance, only=("fedelasticnet/eq-28",))]
    checks, complete = campaign.run(tasks, workers=1)
    assert complete
    rows = campaign.summarise(checks)
    row = next(r for r in rows if (r.statement, r.form, r.rule) == ("fedelasticnet/eq-28", "repaired", "sign"))
    assert row.ok and row.instances == 1
    row.established = "violated"
    assert not row.ok


def test_a_bad_mode_is_refused():
    problem = _users_problem()
    with pytest.raises(InvalidInput, match="mode"):
        verify(theorems.get("fedelasticnet/eq-28"), problem, FedElasticNetDyn(0.1, 100.0), mode="fast")


def test_the_worst_place_is_told_in_words(views) -> None:
    _, view = views["round"][0]
    found = {}
    for name, form in (("eq-12", "printed"), ("eq-20", "clients that took part"), ("gamma", "printed"), ("lemma-b5", "printed")):
        [check] = check_view(FILE[name].variants["sign"], view, [form])
        assert len(check.where["index"]) == len(check.where["axes"])
        found[name] = check.place
        if "cohort" in check.where["axes"]:
            chosen = check.where["index"][check.where["axes"].index("cohort")]
            assert check.where["cohort"] == list(np.flatnonzero(view.members[0, chosen]))
    assert re.fullmatch(r"state \d+, client \d+ \(counted from 0\)", found["eq-12"])
    assert re.fullmatch(r"state \d+, cohort \{[\d, ]+\}, client \d+ \(counted from 0\)", found["eq-20"])
    assert re.fullmatch(r"state \d+, cohort \{[\d, ]+\} \(counted from 0\)", found["gamma"])
    assert re.fullmatch(r"state \d+ \(counted from 0\)", found["lemma-b5"])
    problem = problems.random_quadratic(3, 2, seed=1)
    method = FedElasticNetDyn(0.1, 30 * float(problem.beta_k.max()))
    [check] = theorems.get("fedelasticnet/theorem-3.1").verify(problem, method, rounds=3, forms=["repaired"])
    assert check.place in {f"T = {t}" for t in (1, 2, 3)} and str(check).endswith(f"worst at {check.place})")
    assert in_words({"index": [0]}, 1) == "" and in_words({"index": [1, 2]}, 6) == "entry (1, 2) (counted from 0) of the 6 compared"


@pytest.mark.parametrize("name", ["nosuch", "fedmls/xyzzy"])
def test_an_unknown_statement_names_the_nearest_and_where_all_are(name: str) -> None:
    with pytest.raises(UnknownName, match="fedtheory list") as caught:
        theorems.get(name)
    assert 1 <= sum(f"'{s.id}'" in str(caught.value) for s in theorems.all_statements()) <= 3
