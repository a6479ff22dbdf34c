"""A number `among` several, on a problem of the package: every one is judged."""

from __future__ import annotations

import numpy as np

from fedtheory import problems
from fedtheory.algorithms import FedAvg
from fedtheory.authoring import GradientSteps, Paper, StronglyConvex, among, le, printed, verify

PROBLEM = problems.Quadratic(np.array([[[1.0]], [[4.0]]]), np.array([[0.0], [1.0]]))


def claim(steps):
    """K steps gain eta K/2 ||grad F||^2: true of K = 1 on smooth losses, and false of many."""
    paper = Paper("mine", title="Mine")

    @paper.statement(
        "gain", about=FedAvg(), local=GradientSteps(steps, lr=lambda c: 1 / c.beta),
        problems=StronglyConvex(clients=(1, 4)), over="round",
    )  # fmt: skip
    def gain(q):
        yield printed(le(q.F_next, q.F, -q.eta * q.E / 2 * q.gradient_sq), r"F(x^+) \le F(x)")

    return gain


def test_a_form_that_fails_of_one_of_several_fails_and_says_of_which():
    alone = {k: verify(claim(k), PROBLEM, x0=[3.0])[0].verdict for k in (1, 2, 50)}
    assert alone[1] == "holds" and alone[50] == "violated"
    for steps in (among(1, 50), among(50, 1)):
        [found] = verify(claim(steps), PROBLEM, x0=[3.0])
        assert found.verdict == "violated"
    [found] = verify(claim(among(1, 50)), PROBLEM, x0=[3.0])
    assert found.where["choice"] == {"steps": "50"} and found.place.startswith("steps = 50")
    [held] = verify(claim(among(1)), PROBLEM, x0=[3.0])
    assert held.verdict == "holds" and "choice" not in held.where
