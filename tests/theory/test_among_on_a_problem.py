"""A number `among` several, on a problem of the package: every one is judged."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fedtheory import Uniform, problems
from fedtheory.algorithms import FedAvg
from fedtheory.errors import InvalidInput
from fedtheory.local import GradientSteps as Steps
from fedtheory.theory import GradientSteps, Paper, StronglyConvex, among, le, printed, verify

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


def test_the_entries_of_a_round_are_its_starts():
    """As its figure says; the start is the place of the worst, counted from 0."""
    found = verify(claim(1), PROBLEM)[0]
    assert found.count > 1 and re.fullmatch(r"state \d+ \(counted from 0\)", found.place)


def test_what_is_left_open_may_be_given():
    for steps, verdict in ((1, "holds"), (50, "violated")):
        [found] = verify(claim(among(1, 50)), PROBLEM, x0=[3.0], local_solver=Steps(steps, 1 / 4))
        assert found.verdict == verdict and "choice" not in found.where
    for work, told in ((Steps(2, 1 / 4), "steps = 2: .* 1 or 50"), (Steps(1, 1 / 2), "lr = 0.5: .* 0.25")):
        [found] = verify(claim(among(1, 50)), PROBLEM, x0=[3.0], local_solver=work)
        assert found.verdict == "not applicable" and re.search(told, found.reason)


def test_the_cohorts_of_a_run_are_enumerated_or_drawn_as_asked():
    @Paper("mine", title="Mine").statement(
        "near", about=FedAvg(), local=GradientSteps(1, lr=lambda c: 1 / c.beta), over="run", rounds=(1, 9),
        problems=StronglyConvex(clients=(1, 5), dimension=(1, 3)), sampling=Uniform(1),
    )  # fmt: skip
    def near(q):
        yield printed(le(q.distance_sq[-1], q.distance_sq[0] + q.heterogeneity / q.mu**2))

    problem = problems.random_quadratic(5, 3, seed=3)
    found = [verify(near, problem, x0=np.ones(3), rounds=2, mode=m)[0] for m in ("exact", "monte-carlo")]
    assert [c.mode for c in found] == ["exact", "statistical"] and {c.verdict for c in found} == {"holds"}
    with pytest.raises(InvalidInput, match=r"mode = 'exact': 5\^9 sequences of cohorts are too many"):
        verify(near, problem, x0=np.ones(3), rounds=9, mode="exact")
    with pytest.raises(TypeError, match="unexpected keyword argument 'samplng'"):
        verify(near, problem, samplng=Uniform(2))
    with pytest.raises(InvalidInput, match="the cohorts of one round are enumerated"):
        verify(claim(1), PROBLEM, mode="monte-carlo")


def test_several_numbers_share_the_error_probability():
    def declared(name, steps):
        @Paper("mine", title="Mine").statement(
            name, about=FedAvg(), local=GradientSteps(steps, lr=lambda c: 1 / c.beta), over="run", rounds=6,
            problems=StronglyConvex(clients=(1, 5), dimension=(1, 3)), sampling=Uniform(1),
        )  # fmt: skip
        def near(q):
            yield printed(le(q.distance_sq[-1], 2 * q.distance_sq[0] + 100 * q.heterogeneity / q.beta**2), r"d_T \le B")

        return near

    problem, how = problems.random_quadratic(5, 3, seed=3), {"x0": np.ones(3), "confidence": 0.99}
    [one], [four] = (verify(declared("near", steps), problem, **how) for steps in (2, among(2, 3, 4, 5)))
    assert one.mode == four.mode == "statistical" and one.verdict == four.verdict == "holds"
    assert (one.confidence, four.confidence) == (0.99, pytest.approx(1 - 0.01 / 4))
