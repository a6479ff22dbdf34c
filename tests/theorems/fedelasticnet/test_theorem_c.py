"""Theorem C: worked numbers, mutants, a user's problem, and runs of anyone's."""

from __future__ import annotations

import runpy
from collections import Counter
from fractions import Fraction as F
from itertools import islice

import numpy as np
import pytest
import worked_fedelasticnet_theorems as worked

from fedtheory import problems, simulate, theorems
from fedtheory.algorithms import FedDyn, FedElasticNetDyn
from fedtheory.errors import InvalidInput
from fedtheory.participation.cohorts import Uniform
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.statements.theorem_c import LEAST, UNIT
from fedtheory.theory.judge import check_run
from fedtheory.theory.paper_adapter import RUNS, _draws
from fedtheory.theory.rounds.forms import Undefined, reduced
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.losses import Unbounded
from fedtheory.theory.rounds.method_setting import MethodSetting
from tests.theorems.fedelasticnet.test_worked_theorems import OTHER

STATEMENT, THEOREM = FILE["theorem-c"], theorems.get("fedelasticnet/theorem-c")
MEAN, CLIENTS = "repaired", "strongly convex clients"
# Three clients, two of them drawn, two coordinates, two starts; lambda_2 = 30 beta; two rounds.
WORKED = {
    ("sign", MEAN): ("7586057/1395372", "85745/8"),
    ("sign", CLIENTS): ("7586057/2790744", "78695/138"),
    ("true-gradient", MEAN): ("7586057/1395372", "85745/8"),
    ("true-gradient", CLIENTS): ("7586057/2790744", "118055/207"),
}


def sides(rule, form, of):
    """Both sides at the last horizon in fractions, on an instance of a worked reference."""
    variant, m = STATEMENT.variants[rule], len(of["H"])
    beta = max(max(row) for row in of["H"])
    h, c, start = ([[str(v) for v in row] for row in of[k]] for k in ("H", "C", "STARTS"))
    numbers = of["LAMBDA_1"], (F(of["LAMBDA_2"]) / beta - LEAST) / UNIT
    data = {"h": h, "c": c, "weights": [f"1/{m}"] * m, "start": start, "rounds": of["T"]}
    data |= {"cohort_size": of["P"]}
    data |= {"drawn": dict(zip(("method.l1", "method.l2"), map(str, numbers), strict=True))}
    view = MethodSetting.of(variant).view(Draw.from_data(data))
    of_all = reduced(view, variant.on(view)[form])
    assert of_all.lhs.shape == of_all.rhs.shape == (of["T"],)
    return of_all.lhs[-1], of_all.rhs[-1]


@pytest.mark.parametrize(("rule", "form"), WORKED)
def test_the_sides_are_these_numbers(rule, form):
    found = sides(rule, form, vars(worked))
    assert tuple(map(str, found)) == WORKED[rule, form]
    assert found == worked.RUN_FORMS["theorem-c", form](worked.Run(rule))


@pytest.mark.parametrize(("rule", "form"), WORKED)
def test_both_agree_on_another_instance(rule, form):
    again = runpy.run_path(worked.__file__, {"OTHER_NUMBERS": OTHER})
    assert sides(rule, form, again) == again["RUN_FORMS"]["theorem-c", form](again["Run"](rule))


def test_every_form_of_every_rule_has_worked_numbers():
    assert {(r, f.name) for f in THEOREM.forms for r in f.established} == set(WORKED)


@pytest.mark.parametrize("rule", STATEMENT.variants)
def test_the_campaign_finds_what_is_on_record_and_rejects_every_mutant(rule):
    """On a few of all its runs, and on the long ones of one client, of which some begin at rest."""
    variant = STATEMENT.variants[rule]
    setting, rejected, judged, resting = MethodSetting.of(variant), set(), Counter(), 0
    for i, drawn in enumerate(islice(_draws(setting, 0), RUNS)):
        if i > 9 and (drawn.num_clients > 1 or drawn.rounds < 44 or drawn.dim > 3):
            continue
        try:
            forms = variant.on(view := setting.view(drawn, exact=False))
        except (Undefined, Unbounded):
            continue
        resting += np.allclose(view.x[1], view.x[0], rtol=1e-9) and view.gap[0].max() > 0
        for name, claimed in forms.items():
            found, judged[name] = reduced(view, claimed), judged[name] + 1
            assert (found.lhs <= found.rhs + 1e-9 * found.scale).all(), name
            for m in claimed.mutants:
                other = reduced(view, claimed, m.sides)
                if (other.lhs > other.rhs + 1e-9 * other.scale).any():
                    rejected.add(name)
    assert rejected == {MEAN, CLIENTS} and min(judged.values()) > 30
    assert resting > 20 or rule != "sign"  # under the other rule the server moves by h


def test_where_the_model_never_moves_every_mutant_is_rejected():
    """One client of curvature 1 at 1 from its minimiser, whose l1 penalty is its slope there."""
    variant = STATEMENT.variants["sign"]
    data = {"h": [["1"]], "c": [["0"]], "weights": ["1"], "start": ["1"], "rounds": 50}
    data |= {"cohort_size": 1, "drawn": {"method.l1": "1", "method.l2": str((80 - LEAST) / UNIT)}}
    view = MethodSetting.of(variant).view(Draw.from_data(data))
    assert (view.x == 1).all() and (view.local_models == 1).all()
    forms = variant.on(view)
    assert set(forms) == {MEAN, CLIENTS}
    for claimed in forms.values():
        held = reduced(view, claimed)
        assert (held.lhs <= held.rhs).all()
        for m in claimed.mutants:
            other = reduced(view, claimed, m.sides)
            assert other.lhs[-1] > other.rhs[-1]


def test_states_and_local_models_over_a_run():
    """Those in the cohort store their local model; the others' is what they would store."""
    setting = MethodSetting.of(STATEMENT.variants["true-gradient"])
    data = {"h": [["1"], ["2"]], "c": [["0"], ["3"]], "weights": ["1/2"] * 2, "start": ["1"]}
    data |= {"rounds": 2, "cohort_size": 1, "drawn": {"method.l1": "1/3", "method.l2": "2"}}
    view = setting.view(Draw.from_data(data))
    assert view.local_models.shape == (2, 4, 2, 1) and view.state.local.shape == (3, 4, 2, 1)
    assert view.client_models.shape == (2, 4, 1, 1)
    for t, clients in enumerate(view.path.clients):
        there = np.repeat(clients.cohort.dense().dense_mask, view.path.alike[t + 1], axis=0)
        assert (view.local_models[t][there] == view.client_models[t, :, 0]).all()
        stored, before = view.state.local[t + 1], view.state.local[t]
        assert (stored[there] == view.local_models[t][there]).all()
        assert (stored[~there] == before[~there]).all()
    everyone = setting.view(Draw.from_data(data | {"cohort_size": 2}))
    assert (view.local_models[0, 0] == everyone.state.local[1, 0]).all()


def test_a_form_applies_above_its_threshold_and_where_it_has_its_curvature():
    problem = problems.random_quadratic(4, 2, seed=3)
    beta = float(problem.beta_k.max())

    def found(ratio, of=problem, rule="true-gradient"):
        method = FedElasticNetDyn(0.1, ratio * beta, rule)
        return {c.form: c for c in THEOREM.verify(of, method, sampling=Uniform(2), rounds=3)}

    assert {(c.verdict, c.rule) for c in found(30).values()} == {("holds", "true-gradient")}
    near = found(26)
    assert near[CLIENTS].verdict == "holds" and near[MEAN].verdict == "not applicable"
    assert "lambda_2/beta > 26.8614 is not met" in near[MEAN].reason
    assert {c.verdict for c in found(23).values()} == {"not applicable"}
    curved = problems.Quadratic([np.diag([1.0, 0]), np.diag([0, 1.0])], np.zeros((2, 2)))
    beta, found_there = 1.0, found(30, curved, "sign")
    assert found_there[MEAN].verdict == "holds"
    assert "strongly convex clients is not met" in found_there[CLIENTS].reason
    flat = problems.Quadratic([np.diag([1.0, 0])] * 2, np.zeros((2, 2)))
    assert "F is not strongly convex" in found(30, flat)[MEAN].reason
    five = problems.random_quadratic(5, 4, seed=3)
    few = THEOREM.verify(five, FedElasticNetDyn(0.1, 300.0), sampling=Uniform(2), rounds=3)
    assert {(c.verdict, c.mode) for c in few} == {("holds", "exact")}  # 1,000 sequences of cohorts
    feddyn = THEOREM.verify(problem, FedDyn(30.0), sampling=Uniform(2))
    assert {c.verdict for c in feddyn} == {"not applicable"}


# --- runs of anyone's -----------------------------------------------------------------------------
PROBLEM = problems.random_quadratic(3, 2, seed=1)
BETA = float(PROBLEM.beta_k.max())
METHOD = FedElasticNetDyn(0.1, 30 * BETA)
RUN = simulate(PROBLEM, METHOD, 5, x0=[1, -1], keep_states=True).states
KEPT = {name: np.stack([getattr(s, name) for s in RUN]) for name in ("x", "h", "stored")}


def test_a_run_is_judged_by_its_states_as_verify_judges_it():
    ours = {c.form: c for c in check_run(THEOREM, PROBLEM, METHOD, RUN, forms=[MEAN, CLIENTS])}
    everyone = {"sampling": Uniform(3), "x0": [1, -1], "rounds": 5}
    for c in THEOREM.verify(PROBLEM, METHOD, **everyone):
        np.testing.assert_allclose([c.lhs, c.rhs], [ours[c.form].lhs, ours[c.form].rhs], rtol=1e-9)
        assert c.verdict == ours[c.form].verdict == "holds" and c.count == ours[c.form].count == 5


def test_what_a_run_lacks_is_named():
    first = check_run(THEOREM, PROBLEM, METHOD, KEPT, forms=[MEAN])[0]
    gamma = {"x": KEPT["x"], "gamma": KEPT["x"] + KEPT["h"] / METHOD.l2}
    again = check_run(THEOREM, PROBLEM, METHOD, gamma, forms=[MEAN])[0]
    assert (again.verdict, again.lhs) == (first.verdict, pytest.approx(first.lhs))
    for lacking, form in ((KEPT["x"], MEAN), (gamma, CLIENTS)):
        [check] = check_run(THEOREM, PROBLEM, METHOD, lacking, forms=[form])
        assert check.verdict == "inconclusive" and "hand the whole states over" in check.reason


def test_the_bound_needs_a_run_where_it_counts_zeros():
    bound = THEOREM.bound(PROBLEM, METHOD, 5, x0=[1, -1])
    ours = check_run(THEOREM, PROBLEM, METHOD, RUN, forms=[MEAN])[0]
    np.testing.assert_allclose(bound, ours.series.rhs, rtol=1e-9)
    with pytest.raises(InvalidInput, match="hand the"):
        THEOREM.bound(PROBLEM, METHOD, 5, form=CLIENTS)


def test_feddyn_is_algorithm_3_with_lambda_1_0():
    method = FedDyn(30 * BETA)
    run = simulate(PROBLEM, method, 5, x0=[1, -1], keep_states=True)
    for c in check_run(THEOREM, PROBLEM, method, run, forms=[MEAN, CLIENTS]):
        assert (c.verdict, c.rule) == ("holds", "true-gradient")


def test_each_seed_has_the_bound_of_its_start():
    starts = [[1, -1], [2, 0]]
    each = [simulate(PROBLEM, METHOD, 5, x0=x, keep_states=True).states for x in starts]
    both = [type(a)(*(np.concatenate(v) for v in zip(a, b))) for a, b in zip(*each)]
    check = check_run(THEOREM, PROBLEM, METHOD, both, forms=[MEAN])[0]
    alone = [check_run(THEOREM, PROBLEM, METHOD, run, forms=[MEAN])[0] for run in each]
    assert check.count == 10 and check.tightness == pytest.approx(max(c.tightness for c in alone))
