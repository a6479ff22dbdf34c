"""Refusals in a line of what would not fit into memory, or not end; what fits is not refused."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
from cases import each
from command_line import refused

from fedtheory import Full, Uniform, limits, simulate, worst_case
from fedtheory.algorithms import FedAvg, FedElasticNetDyn
from fedtheory.errors import InvalidInput
from fedtheory.local import GradientSteps
from fedtheory.participation import Bernoulli
from fedtheory.problems import random_logistic, random_quadratic
from fedtheory.theorems import get
from fedtheory.theory.judge.campaign import check_budget

PROBLEM = random_quadratic(6, 3, seed=0)
METHOD = FedElasticNetDyn(0.1, 30 * float(PROBLEM.beta_k.max()))


def verify(**more):
    return get("fedelasticnet/theorem-3.1").verify(PROBLEM, METHOD, sampling=Uniform(2), forms=["repaired"], **more)


REFUSED = {
    "scenarios": (lambda: simulate(PROBLEM, FedAvg(), 10, scenarios=10**9), r"1,000,000,000 scenarios.*119 GiB.*fewer scenarios"),
    "rounds that are kept": (lambda: simulate(PROBLEM, FedAvg(), 10**12), r"1,000,000,000,000 rounds.*TiB.*fewer rounds"),
    "rounds": (lambda: simulate(PROBLEM, FedAvg(), 10**12, record=()), "231 days.*24 hours: ask for fewer rounds.*unlimited"),
    "states": (lambda: simulate(PROBLEM, FedAvg(), 10**11, record=(), keep_states=True), "TiB"),
    "local steps": (lambda: simulate(PROBLEM, FedAvg(), 2, local_solver=GradientSteps(10**12, 0.1)), "28 hours"),
    "a start": (lambda: simulate(PROBLEM, FedAvg(), 1, scenarios=10**12, record=()), "TiB.*fewer scenarios"),
    "scenarios of a verdict": (lambda: verify(rounds=50, mode="monte-carlo", scenarios=10**9), "GiB.*fewer scenarios"),
    "rounds of a verdict": (lambda: verify(rounds=10**12), "TiB"),
    "a tree": (lambda: verify(rounds=40, mode="exact"), r"15\^40 sequences of cohorts.*monte-carlo"),
    "cohorts": (lambda: Uniform(20).enumerate(100), r"5\.36e\+20 cohorts"),
    "cohorts of Bernoulli's": (lambda: Bernoulli(0.5).enumerate(400), r"2\.58e\+120 cohorts"),
    "more cohorts than floats count": (lambda: Bernoulli(0.5).enumerate(5000), "1e\\+300 cohorts"),
    "scenarios that no float holds": (lambda: simulate(PROBLEM, FedAvg(), 2, scenarios=10**400), "an integer from 1 to 1e100"),
    "rounds that Python does not write": (lambda: simulate(PROBLEM, FedAvg(), 10**5000), "a number of more than 4,300 digits"),
    "local steps that no float holds": (lambda: GradientSteps(10**400, 0.1), "an integer from 1 to 1e100"),
    "a tree of more paths than floats count": (lambda: verify(rounds=10**4, mode="exact"), r"15\^10000 sequences.*monte-carlo"),
    "cohorts of a billion clients": (lambda: Uniform(5 * 10**8).enumerate(10**9), r"1e\+300 cohorts"),
    "Bernoulli's of a billion": (lambda: Bernoulli(0.5).enumerate(10**9), r"1e\+300 cohorts"),
    "the one cohort of all": (lambda: Full().enumerate(10**13), "1 cohorts.*TiB"),
    "many clients with data": (lambda: random_logistic(10**11, 3), "GiB, the limit"),
    "a worst case of no rounds": (lambda: worst_case("subgradient", rounds=-1), "rounds"),
    "a search": (lambda: check_budget(10**12), "116 days.*lower the budget"),
    "a problem": (lambda: random_quadratic(10**9, 10**3), "GiB, the limit"),
}


@each("what", REFUSED)
def test_what_cannot_be_done_is_refused_at_once(what):
    work, words = REFUSED[what]
    begun = time.perf_counter()
    with pytest.raises(InvalidInput, match=words) as error:
        work()
    assert "\n" not in str(error.value) and len(str(error.value)) < 300
    assert time.perf_counter() - begun < 5


def test_a_problem_that_would_not_fit_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr(limits, "free_memory", lambda: 1e9)
    with pytest.raises(InvalidInput, match=r"an array of 5 x 4000 x 4000 numbers would take at least 2\.38 GiB"):
        random_quadratic(5, 4000)


def test_work_whose_time_nobody_knows_ends():
    pytest.importorskip("resource")
    begun = time.process_time()
    with pytest.raises(InvalidInput, match=r"counting took more than 0\.2 seconds: count less, or give it within"):
        with limits.ended_within(0.2, "counting", "count less"):
            while time.process_time() - begun < 60:
                pass
    with limits.unlimited(), limits.ended_within(1e-3, "counting", "count less"):
        sum(range(10**6))
    with limits.ended_within(60, "counting", "count less"):
        sum(range(10**6))
    assert time.process_time() - begun < 30


def test_what_fits_is_not_refused(monkeypatch):
    monkeypatch.setattr(limits, "free_memory", lambda: 3e6)
    limits.must_fit("it", 3e6 / 8, "take less")
    with pytest.raises(InvalidInput, match=r"it would take at least 2\.86 MiB of memory, and 2\.86 MiB are free here: take less"):
        limits.must_fit("it", 3e6 / 8 + 1, "take less")
    limits.must_end("it", limits.LONGEST, "take less")
    with pytest.raises(InvalidInput, match="24 hours here, the limit is 24 hours: take less"):
        limits.must_end("it", limits.LONGEST + 1, "take less")
    with limits.unlimited():
        limits.must_end("it", 1e20, "take less")
    with pytest.raises(InvalidInput, match=r"3e\+12 years"):
        limits.must_end("it", 1e20, "take less")


def test_a_run_of_ordinary_size_runs():
    assert simulate(PROBLEM, FedAvg(), 3, scenarios=500).metrics["objective"].shape == (4, 500)
    assert Uniform(3).enumerate(10).scenarios == 120 and Bernoulli(0.5).enumerate(10).scenarios == 1023
    assert Full().enumerate(10**6).scenarios == 1


def test_the_limit_of_the_process_counts():
    """With 2 GiB of addresses 200 million numbers do not fit, whatever the machine has."""
    pytest.importorskip("resource")
    code = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
from fedtheory.limits import free_memory
print(free_memory() < 2 << 30)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True" and limits.free_memory() > 0


@each(
    ("words", "told"),
    [
        (("run", "fedavg", "diabetes", "--scenarios", 10**9), "fewer --scenarios"),
        (("run", "fedavg", "diabetes", "-T", 10**12), "fewer --rounds"),
        (("verify", "theorem-3.1", "-P", 2, "--scenarios", 10**9), "fewer --scenarios"),
        (("verify", "theorem-3.1", "-P", 2, "--rounds", 10**12), "fewer --rounds"),
        (("verify", "efl/theorem-1", "--scenarios", 10**9, "--mode", "monte-carlo"), "fewer --scenarios"),
        (("verify", "--budget", 10**12), "lower --budget"),
        (("run", "fedavg", "diabetes", "-S", -1), "--scenarios -1: it must be an integer >= 1"),
        (("run", "fedavg", "diabetes", "-S", 10**99), "fewer --scenarios"),
        (("run", "fedavg", "quadratic", "--clients", 10**99), "the limit is 16 GiB"),
        (("run", "efl", "quadratic", "-T", 10**12), "fewer --rounds"),
        (("verify", "efl/theorem-1", "--rounds", 3, "--local-steps", 2**63), "local steps would take at least"),
        (("run", "efl", "quadratic", "-T", -1), "--rounds -1: it must be an integer >= 1"),
        (("run", "efl", "quadratic", "--lr-schedule", "inverse", "--lr-delay", "1e999999999"), "--lr-delay 1e999999999: too large"),
        (("run", "fedmls", "max-affine", "-T", 10**400), "at most 100 of them"),
        (("run", "fedavg", "diabetes", "-T", "1_0"), "-T '1_0': write a number in the digits 0 to 9"),
        (("run", "fedavg", "diabetes", "-T1_0"), "-T '1_0'"),
        (("run", "fedavg", "diabetes", "--scenarios=١٢"), "--scenarios '١٢'"),
        (("run", "fedavg", "diabetes", "--local-lr", "1_0"), "--local-lr '1_0'"),
        (("run", "fedavg", "diabetes", "-T", "9" * 10**5), "write a number"),
        (("run", "fedavg", "quadratic", "--start=1_0,0,0,0"), "write numbers"),
        (("run", "efl", "quadratic", "--activity", "١:shrink=0.9"), "there is no client"),
        (("run", "efl", "quadratic", "--departure", "1_0@3"), "is not client@round"),
        (("run", "fedavg", "quadratic", "--local-solver", "adam", "--local-lr", "0.1", "--betas", "0_0.9,0.9"), "give two numbers"),
        (("rates", "--epsilons", "0.1,0_0.1"), "is no number"),
    ],
)
def test_at_the_command_line_the_remedy_is_an_option(words, told):
    assert told in refused(*words)
