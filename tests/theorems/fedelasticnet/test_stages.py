"""Monte Carlo in stages: the scenarios are those of one run, the looks are paid for, and no more are taken than decide."""

import json

import numpy as np
import pytest
from command_line import call, refused

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.cli import time_limit as lasting
from fedtheory.errors import InvalidInput
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.problems.generators import random_quadratic
from fedtheory.simulation.simulate import simulate
from fedtheory.theorems import get
from fedtheory.theorems.fedelasticnet import on_a_problem, stages
from fedtheory.theorems.fedelasticnet.expectation import FederatedLosses, monte_carlo
from fedtheory.theory.judge.check import CONFIDENCE
from fedtheory.theory.judge.sequential import looks


def instance(ratio=30.0):
    problem = random_quadratic(6, 2, seed=3)
    return problem, FedElasticNetDyn(0.1, ratio * float(problem.beta_k.max()))


def test_a_run_from_a_scenario_on_is_that_part_of_the_longer_run():
    problem, algorithm = instance()
    common = dict(rounds=4, sampling=Uniform(2), seed=5)
    whole = simulate(problem, algorithm, scenarios=75, **common)
    part = simulate(problem, algorithm, scenarios=6, first_scenario=69, **common)
    np.testing.assert_allclose(part.final.x, whole.final.x[69:], rtol=1e-13)
    assert np.abs(part.final.x - whole.final.x[:6]).max() > 1e-3
    for wrong in (-1, 0.5):
        with pytest.raises(InvalidInput, match=f"first_scenario = {wrong}"):
            simulate(problem, algorithm, first_scenario=wrong, **common)


@pytest.mark.parametrize("together", [12 * 30, 10**9])
def test_every_stage_holds_the_scenarios_of_one_long_run(together, monkeypatch):
    monkeypatch.setattr(stages, "TOGETHER", together)
    problem, algorithm = instance()
    losses, x0 = FederatedLosses(problem), np.array([1.5, -2.0])
    seen = []
    views = stages.growing_views(
        problem, algorithm, Uniform(2), 5, x0, [40, 80, 130], 7, losses, lambda *n: seen.append(n)
    )
    for view, size in zip(views, (40, 80, 130), strict=True):
        whole = monte_carlo(problem, algorithm, Uniform(2), 5, x0, size, 7, losses=losses)
        assert view.pairs is None
        for name in ("excess", "inner_exact", "inner_sign", "zeros"):
            np.testing.assert_allclose(getattr(view, name), getattr(whole, name), rtol=1e-9, atol=1e-12)
        assert seen[-1] == (size * 5, size * 5, 650)
    assert [n[0] for n in seen] == sorted(n[0] for n in seen)


def test_no_more_scenarios_are_taken_than_decide():
    problem, algorithm = instance()
    seen = []
    checks = get("fedelasticnet/theorem-3.1").verify(
        problem, algorithm, sampling=Uniform(2), rounds=8, mode="monte-carlo", forms=["repaired", "anchor theta_k"],
        on_progress=lambda *n: seen.append(n),
    )  # fmt: skip
    assert [(c.verdict, c.scenarios) for c in checks] == [("holds", 32), ("holds", 63)]  # the second in 31 pairs
    assert seen[-1] == (63 * 8, 63 * 8, 8000)


def test_a_form_that_stays_open_gets_all_scenarios_and_the_others_keep_their_first_decision(monkeypatch):
    problem, algorithm = instance()
    asked = []
    real = on_a_problem.judge_view

    def judged(statement, form, view, *rest, **more):
        found = real(statement, form, view, *rest, **more)
        asked.append((form.name, view.excess.shape[1], more["confidence"]))
        if form.name == "repaired":
            object.__setattr__(found, "verdict", "inconclusive")
        return found

    monkeypatch.setattr(on_a_problem, "judge_view", judged)
    checks = get("fedelasticnet/theorem-3.1").verify(
        problem, algorithm, sampling=Uniform(2), rounds=3, mode="monte-carlo", scenarios=400, forms=["repaired", "sharpened"]
    )
    assert [c.scenarios for c in checks] == [400, 50] and {c.confidence for c in checks} == {CONFIDENCE}
    of = {name: [(n, c) for form, n, c in asked if form == name] for name in ("repaired", "sharpened")}
    assert of == {"repaired": looks(400, CONFIDENCE), "sharpened": looks(400, CONFIDENCE)[:1]}


def test_a_run_with_one_cohort_is_exact_however_long():
    problem, algorithm = instance()
    checks = get("fedelasticnet/theorem-3.1").verify(problem, algorithm, sampling=Full(), rounds=45, forms=["repaired"])
    assert [(c.mode, c.verdict, c.count) for c in checks] == [("exact", "holds", 45)]


# --- what the command line says ----------------------------------------------------------------------------------------
class Bar:
    def __init__(self):
        self.moved, self.said = 0, []

    def __call__(self, steps):
        self.moved += steps

    def say(self, text):
        self.said.append(text)


def test_the_estimate_comes_after_two_seconds_and_once(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(lasting.time, "perf_counter", lambda: now[0])
    clock = lasting.ScenarioClock(50, False, bar := Bar())
    for seconds, done in ((1.0, 100), (3.0, 200), (9.0, 625)):
        now[0] = seconds
        clock(done, 6250, 50_000)
    assert bar.moved == 625
    (said,) = bar.said
    assert said.startswith("50 rounds of 125 scenarios take about 94 seconds here, and all 1,000 about 12 minutes; it ends")
    now[0] = 0.0
    clock = lasting.ScenarioClock(50, False, Bar())
    now[0] = 20.0
    refusal = (
        r"50 rounds of 1,000 scenarios, which may all be needed, would take about 83 minutes here "
        r"\(the first verdict comes after 10 minutes\).*--scenarios, or pass --allow-long"
    )
    with pytest.raises(InvalidInput, match=refusal):
        clock(200, 6250, 50_000)
    now[0] = 0.0
    clock = lasting.ScenarioClock(50, True, bar := Bar())
    now[0] = 20.0
    clock(200, 6250, 50_000)
    assert "all 1,000 about 83 minutes" in bar.said[0]


def test_verify_says_how_many_scenarios_decided():
    args = ("verify", "theorem-3.1", "--clients", 30, "-P", 3, "--rounds", 4, "--allow-long")
    assert "Monte Carlo: 63 of at most 1,000 scenarios decided" in " ".join(call(*args).stdout.split())
    found = json.loads(call(*args, "--scenarios", 150, "--json").stdout)["checks"]
    assert {c["scenarios"] for c in found if c["mode"] == "statistical" and c["verdict"] == "holds"} == {38, 75}  # 37 pairs
    assert "--scenarios 0" in refused(*args, "--scenarios", 0)
