"""Numbers at which a printed constant divides by 0, and losses without curvature or slope: an answer or a line, and no traceback."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from command_line import call, refused

from fedtheory import problems

ONES = np.ones((3, 2))
SPOTS = {
    "flat": problems.Quadratic(np.zeros((3, 2, 2)), ONES),
    "alike": problems.Quadratic(np.stack([np.eye(2)] * 3), ONES),  # L = mu, and the clients agree
    "constant": problems.MaxAffine(np.zeros((2, 1, 2)), np.zeros((2, 1))),
}


@pytest.fixture
def spot(tmp_path):
    return lambda name: problems.write_problem(tmp_path / f"{name}.json", SPOTS[name])


def worst_case(tmp_path, *words, code=0):
    return call("worst-case", *words, "--out", tmp_path, code=code)


@pytest.mark.parametrize(
    "words",
    [
        "fedavg --smoothness 1 --strong-convexity 1",
        "fedavg --lyapunov --smoothness 1 --strong-convexity 1",
        "feddyn --lyapunov --strong-convexity 1",
        "fedavg --step 0",
        "fedavg --lyapunov --step 0",
        "feddyn --lyapunov --alpha 0",
    ],
)
def test_classes_and_steps_without_a_worst_case_are_refused(words):
    refused("worst-case", *words.split())


GRADIENT_STEP = Fraction(1, 6)  # L R^2/6, the worst gap after one step of length 1/L of the gradient method


@pytest.mark.parametrize(
    ("words", "worst"),
    [("fedavg --distance 0", 0), ("fedavg --heterogeneity 0", GRADIENT_STEP), ("fedavg --clients 1", GRADIENT_STEP),
     ("subgradient --distance 0 --step 1", 1)],  # from the optimum one step of length G away, along slope G
)  # fmt: skip
def test_worst_cases_of_no_distance_or_difference(words, worst, tmp_path):
    found = json.loads(worst_case(tmp_path, *words.split(), "--json").stdout)
    assert found["status"] == "proved" and worst <= Fraction(found["bound_exact"]) <= worst + 2e-8


@pytest.mark.parametrize("name", ["flat", "alike"])
@pytest.mark.parametrize("statement", ["theorem-3.1", "algorithm-1-fixed-point", "at-rest", "theorem-e"])
def test_statements_on_them(name, statement, spot, tmp_path):
    """At lambda_2 = 5 beta, where what is printed divides by 0 and claims nothing, and where beta = 0."""
    told = call("verify", statement, "--problem", spot(name), "--l2", 5, "--out", tmp_path, "--json")
    reasons = [check["reason"] for check in json.loads(told.stdout)["checks"]]
    undefined = any("divide by lambda_2^2 - 25 beta^2, which is 0 here" in r for r in reasons)
    assert undefined == ((statement, name) == ("theorem-3.1", "alike"))


def test_a_statement_whose_lambda_2_is_a_multiple_of_no_curvature(spot, tmp_path):
    told = call("verify", "algorithm-1-fixed-point", "--problem", spot("flat"), "--out", tmp_path)
    assert "all losses are constant (property: smoothness)" in " ".join(told.stdout.split())
    proof = "proof", "theorem-3.1", "--problem", spot("flat"), "--l2", 1, "-T", 3
    assert "all losses are constant (property: smoothness)" in refused(*proof)
    call("solve", spot("flat"), "--out", tmp_path)
    assert "give one with --local-lr" in refused("verify", "algorithm-2-variates", "--problem", spot("flat"), "--l2", 0)


@pytest.mark.parametrize("method", ["scaffold", "vrl-sgd", "apfl --alpha 0.5"])
def test_a_step_size_from_no_curvature_is_asked_for(method, spot):
    name, *more = method.split()
    assert "no curvature to take a step size from: give one with --local-lr" in refused("run", name, spot("flat"), *more)


@pytest.mark.parametrize("method", ["subgradient", "fedmls", "mopes"])
def test_losses_that_are_constant_have_nothing_to_do(method, spot):
    assert "there is nothing to do" in refused("run", method, spot("constant"), "--radius", 1, "--start", "0.5", "-T", 2)


@pytest.mark.parametrize("ratio", ["1e8", "1e9", "1e12"])
def test_a_large_lambda_2_makes_no_violation_of_rounding(ratio, tmp_path):
    """A local minimiser is a float: its slope is known up to lambda_2 ulps."""
    told = call("verify", "algorithm-1-fixed-point", "--problem", "quadratic", "--l2-over-beta", ratio, "--out", tmp_path, "--json")
    assert {check["verdict"] for check in json.loads(told.stdout)["checks"]} <= {"holds", "inconclusive"}
