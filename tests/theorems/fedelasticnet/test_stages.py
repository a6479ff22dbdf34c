"""Monte Carlo in stages: the scenarios are those of one run, the looks are paid for, and no more are taken than decide."""

import json
from dataclasses import replace

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
from fedtheory.theory.judge.check import CONFIDENCE
from fedtheory.theory.judge.sequential import looks
from fedtheory.theory.rounds import judging, method_setting
from paper_figures.fedelasticnet.runs import runs

THEOREM = get("fedelasticnet/theorem-3.1")


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


@pytest.mark.parametrize("together", [6 * 2 * 5 * 7, 10**9])
def test_every_stage_holds_the_scenarios_of_one_long_run(together, monkeypatch):
    """However few are held at once; the sums over all of them are those of one view."""
    monkeypatch.setattr(method_setting, "TOGETHER", together)
    problem, algorithm = instance()
    how = {"sampling": Uniform(2), "x0": np.array([1.5, -2.0]), "rounds": 5, "mode": "monte-carlo", "seed": 7}
    seen = []
    how["on_progress"] = lambda *n: seen.append(n)
    forms = ["sharpened", "anchor theta_k"]
    checks = THEOREM.verify(problem, algorithm, scenarios=130, forms=forms, **how)
    monkeypatch.setattr(method_setting, "TOGETHER", 10**9)
    [view] = runs(problem, algorithm, Uniform(2), 5, how["x0"], 33, 7, "monte-carlo")
    for check in checks:
        assert check.scenarios == 33
        sides = THEOREM.form(check.form).sides(view)
        np.testing.assert_allclose(check.series.lhs, sides.lhs.mean(axis=1), rtol=1e-9)
        np.testing.assert_allclose(check.series.rhs, sides.rhs.mean(axis=1), rtol=1e-9)
    assert seen[-1] == (33 * 5, 33 * 5, 130 * 5)
    assert [n[0] for n in seen] == sorted(n[0] for n in seen)


def test_no_more_scenarios_are_taken_than_decide():
    problem, algorithm = instance()
    seen = []
    checks = THEOREM.verify(
        problem, algorithm, sampling=Uniform(2), rounds=8, mode="monte-carlo", scenarios=1000,
        forms=["repaired", "expectation of the sign only"], on_progress=lambda *n: seen.append(n),
    )  # fmt: skip
    assert [(c.verdict, c.scenarios) for c in checks] == [("holds", 32), ("holds", 63)]  # the second in pairs
    assert seen[-1] == (63 * 8, 63 * 8, 8000)


def test_a_form_that_stays_open_gets_all_scenarios_and_the_others_keep_their_first_decision(monkeypatch):
    problem, algorithm = instance()
    asked, stages = [], []
    real = judging.judge_statistical

    def judged(sides, confidence, **more):
        found = real(sides, confidence, **more)
        asked.append((more["form"], sides.lhs.shape[1], confidence))
        return replace(found, verdict="inconclusive") if more["form"] == "repaired" else found

    monkeypatch.setattr(judging, "judge_statistical", judged)
    checks = THEOREM.verify(
        problem, algorithm, sampling=Uniform(2), rounds=3, mode="monte-carlo", scenarios=400,
        forms=["repaired", "sharpened"], on_stage=lambda found: stages.append([c.scenarios for c in found]),
    )  # fmt: skip
    assert [c.scenarios for c in checks] == [400, 50] and {c.confidence for c in checks} == {CONFIDENCE}
    of = {name: [(n, c) for form, n, c in asked if form == name] for name in ("repaired", "sharpened")}
    assert of == {"repaired": looks(400, CONFIDENCE), "sharpened": looks(400, CONFIDENCE)[:1]}
    assert stages == [[50, 50], [100, 50], [200, 50], [400, 50]]


def test_a_run_with_one_cohort_is_exact_however_long():
    problem, algorithm = instance()
    checks = THEOREM.verify(problem, algorithm, sampling=Full(), rounds=45, forms=["repaired"])
    assert [(c.mode, c.verdict, c.count) for c in checks] == [("exact", "holds", 45)]


# --- what the command line says -------------------------------------------------------------------
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
    assert "Monte Carlo: 100 of at most 400 scenarios decided" in " ".join(call(*args).stdout.split())
    found = json.loads(call(*args, "--scenarios", 150, "--json").stdout)["checks"]
    assert {c["scenarios"] for c in found if c["mode"] == "statistical" and c["verdict"] == "holds"} == {38, 75}  # 37 pairs
    assert "--scenarios 0" in refused(*args, "--scenarios", 0)
