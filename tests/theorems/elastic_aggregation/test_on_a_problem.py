"""Elastic Aggregation's statements on a problem of a user's: against the algorithm itself, mutants, and what is missing."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from command_line import call

from fedtheory import Bernoulli, Uniform, problems, simulate
from fedtheory.algorithms import ElasticAggregation, FedAvg
from fedtheory.clients.sensitivity import client_sensitivity
from fedtheory.local import GradientSteps
from fedtheory.problems import hold_out
from fedtheory.theorems import all_statements, get
from fedtheory.theory.judge.check import judge_view
from fedtheory.theory.judge.registry import setting_of
from fedtheory.theory.judge.replay import replay
from fedtheory.theory.judge.setting import Case
from fedtheory.theory.judge.verify import keep

SETTING = setting_of("elastic-aggregation/sign")
STATEMENTS = [s for s in all_statements("elastic-aggregation/") if s.kind != "claim"]
CLAIMS = [s for s in all_statements("elastic-aggregation/") if s.kind == "claim"]
SQUARES = hold_out(problems.random_least_squares(3, 2, [8, 9, 12], ridge=0.1, seed=0, weights="samples"), 0.3)
LOGISTIC = hold_out(problems.random_logistic(3, 3, [8, 9, 12], ridge=0.1, seed=0), 0.3)
ONE = hold_out(  # one parameter: Hessians are diagonal
    problems.LeastSquares([[[1.0], [2.0], [0.5]], [[3.0], [1.0], [1.5]]], [[1.0, -1.0, 2.0], [0.0, 4.0, 1.0]]), 0.34
)
STEPS = GradientSteps(3, 0.5 / float(SQUARES.beta_k.max()))
START = np.array([1.0, -2.0])


def case_of(problem, algorithm, x0, **how):
    return Case(problem, algorithm, x0=np.asarray(x0, dtype=float), **how)


def view_of(statement, problem, algorithm, x0, **how):
    s = get(f"elastic-aggregation/{statement}")
    return SETTING.instance(s, s.forms[0], case_of(problem, algorithm, x0, **how)).view()


def test_one_round_is_the_algorithms():
    """The view's step, in fractions, against one round of the method on the same held-out samples."""
    algorithm = ElasticAggregation(tau=0.75, server_lr=0.5)
    view = view_of("stability", SQUARES, algorithm, START, local_solver=STEPS)
    run = simulate(SQUARES, algorithm, 1, START, local_solver=STEPS, record=())
    assert view.step(view.theta).astype(float) == pytest.approx(run.final.x[0], abs=1e-12)
    omega = client_sensitivity(SQUARES.held_out, np.broadcast_to(START, (3, 1, 2)))[:, 0]
    assert view.sensitivities(view.theta).astype(float) == pytest.approx(omega, abs=1e-12)
    assert view.star.astype(float) == pytest.approx(SQUARES.optimum().x, abs=1e-9)
    still = simulate(SQUARES, algorithm, 1, view.fedavg.astype(float), local_solver=STEPS, record=()).final.x[0]
    assert still == pytest.approx(view.fedavg.astype(float), abs=1e-12)  # its fixed point is FedAvg's


def test_the_zero_of_the_mean_motion_is_the_algorithms():
    """Mean of the method's moves over all cohorts of two, each run as a problem of its own."""
    algorithm = ElasticAggregation(tau=0.5)
    view = view_of("sampled-fixed-point", SQUARES, algorithm, [0, 0], local_solver=STEPS, sampling=Uniform(2))
    theta = view.theta.astype(float)
    moves = [
        simulate(SQUARES.subset(np.array(pair)), algorithm, 1, theta, local_solver=STEPS, record=()).final.x[0] - theta
        for pair in combinations(range(3), 2)
    ]
    assert np.mean(moves, axis=0) == pytest.approx([0, 0], abs=1e-11) and np.abs(moves).max() > 1e-3
    assert (view.drift == 0).all()  # to the last bit, of a problem whose last minimiser moved by rounding


def test_moving_averages_are_the_algorithms():
    algorithm = ElasticAggregation(mu=0.75, probe_batch=2)
    view = view_of("moving-average", SQUARES, algorithm, START)
    at = np.broadcast_to(START, (3, 1, 2))
    for ema in ("printed", "corrected"):
        own = client_sensitivity(SQUARES.held_out, at, 2, 0.75, ema)[:, 0]
        assert getattr(view, ema).astype(float) == pytest.approx(own, abs=1e-12)


def test_by_hand():
    """One parameter, Gram matrices 1 and 4, theta = 1: Omega = (2, 8), zeta = tau; held out and trained on alike."""
    problem = problems.LeastSquares([[[1.0]], [[2.0]]], [[0.0], [2.0]])  # h = (1, 4), c = (0, 1)
    view = view_of("sign", problem, ElasticAggregation(tau=0.25), [1.0], local_solver=GradientSteps(1, 0.125))
    assert view.omega(view.theta)[0] == 5 and view.zeta(view.theta)[0] == 0.25
    assert view.fedavg[0] == view.star[0] == Fraction(4, 5) and view.mean[0, 0] == (0.125 + 0.5) / 2
    checks = {c.form: c for c in get("elastic-aggregation/sign").verify(
        problem, ElasticAggregation(tau=0.25), x0=[1.0], local_solver=GradientSteps(1, 0.125)
    )}
    assert (checks["printed"].verdict, checks["repaired"].verdict) == ("violated", "holds")
    assert checks["growth"].tightness == 1  # attained in one dimension


def cases_of(kind):
    short = {"local_solver": STEPS}
    if kind == "aggregation":
        yield case_of(SQUARES, ElasticAggregation(server_lr=0.25), START, **short)
        yield case_of(ONE, ElasticAggregation(server_lr=0.5, tau=0.5), [2.0])
        pair = problems.LeastSquares([[[1.0, 0.0], [0.0, 1.0]], [[3.0, 0.0], [0.0, 1.0]]], [[1.0, 2.0], [0.0, 1.0]])
        for x0 in ([1.0, 3.0], [1.0, 2.4]):  # sensitivities as 5 to 3, and as 5 to 2.4: held back, and boosted a little
            yield case_of(pair, ElasticAggregation(server_lr=0.5), x0)
        yield case_of(problems.LeastSquares([[[1.0, 0.0], [0.0, 1.0]]], [[1.0, 2.0]]), ElasticAggregation(tau=0), [1.0, 3.0])
    elif kind == "sampled":
        yield case_of(SQUARES, ElasticAggregation(), [0, 0], sampling=Uniform(2), **short)
        yield case_of(SQUARES, ElasticAggregation(), [0, 0], **short)
        yield case_of(ONE, ElasticAggregation(aggregation="cohort"), [0], sampling=Uniform(1))
        pair = problems.LeastSquares([[[2.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 3.0]]], [[4.0, 1.0], [1.0, 9.0]])
        yield case_of(pair, ElasticAggregation(), [0, 0], sampling=Uniform(1), local_solver=GradientSteps(4, 0.2))
    elif kind == "labels":
        plain = hold_out(problems.random_least_squares(3, 2, [8, 9, 12], ridge=0.0, seed=0, weights="samples"), 0.3)
        yield case_of(plain, ElasticAggregation(), START)
    elif kind == "linearised":
        yield case_of(SQUARES, ElasticAggregation(), [0, 0], sampling=Uniform(2), **short)
        yield case_of(SQUARES, ElasticAggregation(server_lr=3.0), [0, 0], **short)
        yield case_of(ONE, ElasticAggregation(server_lr=0.5), [0], sampling=Uniform(1))
    else:
        yield case_of(SQUARES, ElasticAggregation(probe_batch=1), START)
        same = problems.LeastSquares([[[1.0]] * 4, [[2.0]] * 4], [[0.0] * 4] * 2)
        yield case_of(same, ElasticAggregation(probe_batch=2), [1.0])


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.id)
def test_what_is_said_to_hold_holds_and_a_mutant_is_rejected(statement):
    judged, rejected, planted = 0, 0, 0
    for case in cases_of(statement.forms[0].kind):
        for form in statement.forms:
            view = SETTING.instance(statement, form, case).view()
            if view.applies(form) is not None:
                continue
            check = SETTING.judge(statement, form, view, case)
            judged += 1
            assert check.mode == "rational" and (check.verdict == "holds" or form.established["any"] == "violated"), str(check)
            found = [judge_view(statement, form, view, sides=m.sides).verdict for m in form.mutants]
            planted, rejected = planted + len(found), rejected + found.count("violated")
    assert judged and (rejected or not planted)


@pytest.mark.parametrize(
    ("statement", "problem", "algorithm", "how", "missing"),
    [
        ("factors", SQUARES, FedAvg(), {}, "about ElasticAggregation, not FedAvg"),
        ("factors", problems.random_quadratic(3, 2, seed=0), ElasticAggregation(), {}, "no linear model"),
        ("factors", SQUARES, ElasticAggregation(probe_batch=1), {}, "use probe_batch=None"),
        ("stability", LOGISTIC, ElasticAggregation(), {}, "no quadratic loss of a linear model"),
        ("stability", SQUARES, ElasticAggregation(), {"local_solver": GradientSteps(2, 100.0)}, "it must be at most 1/L"),
        ("stability", SQUARES, ElasticAggregation(), {"sampling": Uniform(2)}, "all clients take part"),
        ("stability", SQUARES, ElasticAggregation(sign="printed"), {}, "use sign='repaired'"),
        ("sampled-stability", SQUARES, ElasticAggregation(sign="printed"), {"sampling": Uniform(2)}, "use sign='repaired'"),
        ("sampled-bias", SQUARES, ElasticAggregation(), {"sampling": Bernoulli(0.5)}, "use Uniform(P)"),
        ("sampled-bias", SQUARES, ElasticAggregation(tau=0.0), {"sampling": Uniform(2)}, "tau > 0"),
        ("moving-average", SQUARES, ElasticAggregation(mu=0.0), {}, "strictly between 0 and 1"),
    ],
)
def test_what_is_missing_is_named(statement, problem, algorithm, how, missing):
    checks = get(f"elastic-aggregation/{statement}").verify(problem, algorithm, x0=np.ones(problem.dim), **how)
    assert {c.verdict for c in checks} == {"not applicable"} and all(missing in c.reason for c in checks), checks[0].reason


def test_what_zeta_alone_decides_runs_on_any_linear_model():
    checks = get("elastic-aggregation/factors").verify(LOGISTIC, ElasticAggregation(), x0=np.ones(3))
    assert [c.verdict for c in checks if c.form != "printed"] == ["holds"] * 3
    view = view_of("factors", LOGISTIC, ElasticAggregation(), np.ones(3))
    own = client_sensitivity(LOGISTIC.held_out, np.ones((3, 1, 3)))[:, 0]
    assert view.sensitivities(view.theta).astype(float) == pytest.approx(own, abs=1e-12)


@pytest.mark.parametrize(("form", "verdict"), [("printed", "violated"), ("repaired", "holds")])
def test_a_case_is_kept_whether_it_holds_or_fails(form, verdict):
    kept = keep("elastic-aggregation/sign", SQUARES, ElasticAggregation(server_lr=0.25), form, x0=START, local_solver=STEPS)
    assert kept.verdict == verdict and replay(kept).verdict == verdict


def test_no_statement_is_refused_but_claims():
    assert all(SETTING.about(s).refusal is None and SETTING.about(s).asks and SETTING.about(s).example for s in STATEMENTS)
    assert CLAIMS and all(SETTING.about(s).refusal and not SETTING.about(s).asks and SETTING.about(s).example is None for s in CLAIMS)


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.id)
def test_without_a_problem_it_is_judged_on_its_example(statement, tmp_path):
    found = call("verify", statement.id, "--json", "--out", tmp_path).stdout
    verdicts = [c["verdict"] for c in json.loads(found)["checks"]]
    assert verdicts.count("not applicable") <= len(verdicts) / 2 and "inconclusive" not in verdicts


def test_what_a_user_says_stands_before_the_example(tmp_path):
    of = ("verify", "elastic-aggregation/factors", "--out", tmp_path)
    told = " ".join(call(*of, "--clients", 2, "--server-lr", 0.5).stdout.split())
    assert "axes: N = 2, P = 2, d = 4, tau = 0.5, sensitivities on held-out samples" in told
    assert "no problem was named, so it is the example's: --problem axes --clients 3" in told
    own = " ".join(call(*of, "--problem", "least-squares").stdout.split())
    assert "example's" not in own and "sensitivities on the samples that are trained on" in own


def test_clients_with_fewer_samples_than_parameters():
    """Two samples and three parameters at the last client: it is put elsewhere; where all are so, the end is named."""
    few = problems.random_least_squares(3, 3, [7, 7, 2], ridge=0.0, seed=1, weights="samples")
    algorithm = ElasticAggregation()
    view = view_of("sampled-fixed-point", few, algorithm, [0, 0, 0], sampling=Uniform(2))
    assert (view.drift == 0).all() and sorted(view.counts) == [2, 7, 7] and view.counts[-1] == 7
    one_round = view_of("every-client", few, algorithm, [1, -1, 2])
    run = simulate(few, algorithm, 1, [1, -1, 2], local_solver=GradientSteps(one_round.E, float(one_round.lr)), record=())
    assert one_round.step(one_round.theta).astype(float) == pytest.approx(run.final.x[0], abs=1e-9)
    fewer = problems.random_least_squares(3, 3, [2, 2, 2], ridge=0.0, seed=1)
    checks = get("elastic-aggregation/sampled-fixed-point").verify(fewer, algorithm, x0=np.zeros(3), sampling=Uniform(2))
    assert {c.verdict for c in checks} == {"not applicable"} and "every client has fewer independent samples" in checks[0].reason


def test_labels_are_the_problems():
    plain = hold_out(problems.random_least_squares(2, 2, [8, 9], ridge=0.0, seed=3, weights="samples"), 0.3)
    algorithm = ElasticAggregation(server_lr=0.5)
    view = view_of("unlabelled", plain, algorithm, START, local_solver=GradientSteps(2, 0.1 / float(plain.beta_k.max())))
    run = simulate(plain, algorithm, 1, START, local_solver=GradientSteps(2, 0.1 / float(plain.beta_k.max())), record=())
    assert view.after(view.labels).astype(float) == pytest.approx(run.final.x[0], abs=1e-12)
    omega = client_sensitivity(plain.held_out, np.broadcast_to(START, (2, 1, 2)))[:, 0]
    assert view.sensitivities(view.theta).astype(float) == pytest.approx(omega, abs=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_a_step_of_one_over_L_is_judged(seed):
    """In floats 1/L is above it now and then: the data have a step that is 4e-12 of it shorter."""
    problem = hold_out(problems.random_least_squares(3, 2, [8, 9, 12], ridge=0.1, seed=seed, weights="samples"), 0.3)
    step = 1 / float(problem.beta_k.max())
    how = {"x0": START, "local_solver": GradientSteps(2, step)}
    found = get("elastic-aggregation/stability").verify(problem, ElasticAggregation(), **how)
    assert {c.verdict for c in found} <= {"holds", "not applicable"} and any("1/L" not in c.reason for c in found)
    lr = view_of("stability", problem, ElasticAggregation(), START, local_solver=how["local_solver"]).lr
    assert 0 < 1 - lr / Fraction(step) < Fraction(1, 10**11)


def test_moving_averages_are_of_all_clients():
    s = get("elastic-aggregation/moving-average")
    found = s.verify(SQUARES, ElasticAggregation(probe_batch=2), x0=START, sampling=Uniform(2))
    assert {c.verdict for c in found} == {"not applicable"} and "all clients take part" in found[0].reason
