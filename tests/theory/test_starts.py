"""Runs that start at one of several equally likely points."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest

from fedtheory.algorithms import FedAvg, Scaffold
from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.theory import (
    GradientSteps,
    Paper,
    SmoothConvex,
    Uniform,
    form,
    le,
    printed,
    replay,
    step,
    study,
)
from fedtheory.theory.judge import registry
from fedtheory.theory.judge.proof_trace import walk_witness
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.vector_proofs import proved
from fedtheory.theory.studies.declared import declared

STEPS = GradientSteps(1, lr=lambda c: 1 / c.beta)


def made(starts=2, **how):
    """Gradient descent from a random start, and a bound that takes the start at its mean."""
    paper = Paper("random-starts")
    how = {"over": "run", "rounds": (1, 3), "problems": SmoothConvex((1, 2), (1, 2))} | how

    @paper.statement("descent", about=FedAvg(), local=STEPS, starts=starts, **how)
    def descent(q):
        """The last iterate of gradient descent."""
        yield printed(le(q.gap[1:], q.beta * q.distance_sq[0] / (2 * q.t[1:])), holds=True)
        at_its_mean = q.sq(q.mean(q.x[:1]) - q.x_star)
        yield form("the start's mean", le(q.distance_sq[1:], at_its_mean), fails=starts > 1)

    return paper


DATA = {"h": [["2"]], "c": [["0"]], "weights": ["1"], "start": [["1"], ["-3"]], "rounds": 1}


def test_expectations_are_over_the_starts_too():
    setting = MethodSetting.of(made()["descent"])
    view = setting.view(Draw.from_data(DATA))
    assert view.x[:, :, 0].tolist() == [[1, -3], [0, 0]] and view.expectation(view.gap[0]) == 5
    assert view.x_star.tolist() == [0] and view.mean(view.x[:1]).ravel().tolist() == [-1]
    drawn = {"h": [["1"]] * 2, "c": [["0"], ["2"]], "weights": ["1/2"] * 2, "cohort_size": 1}
    of_cohorts = MethodSetting.of(made(sampling=Uniform)["descent"])
    view = of_cohorts.view(Draw.from_data(DATA | drawn | {"rounds": 2}))
    assert view.x.shape == (3, 8, 1) and view.probability.tolist() == [F(1, 8)] * 8
    assert view.x[1, :, 0].tolist() == [0, 0, 2, 2] * 2 and view.x[0, 3:5, 0].tolist() == [1, -3]


def test_a_study_keeps_both_starts_where_the_claim_fails_of_no_single_one():
    paper = made()
    found = study(paper, budget=60, necessity=False)
    [witness] = found.counterexamples
    assert witness.form == "the start's mean" and len(witness.data["start"]) == 2
    assert replay(witness, paper).verdict == "violated"
    verdicts = {r.form: r.verdict for r in found.rows}
    assert verdicts == {"printed": "holds", "the start's mean": "violated"}
    single = study(made(starts=1), budget=60, necessity=False)
    assert {r.form: r.verdict for r in single.rows} == dict.fromkeys(verdicts, "holds")


def test_instances_have_one_start_or_several_and_say_so():
    setting, rng = MethodSetting.of(made(starts=3)["descent"]), np.random.default_rng(0)
    drawn = [setting.random_instance(rng) for _ in range(60)]
    assert {len(i.starts) for i in drawn} == {1, 2, 3}
    assert all(Draw.from_data(i.to_data()).to_data() == i.to_data() for i in drawn)
    assert "start 1 or -3, equally likely" in str(Draw.from_data(DATA))
    one = MethodSetting.of(made(starts=1)["descent"])
    assert one.why_not(Draw.from_data(DATA)) == "2 starts: the statement is declared for 1"
    words = declared(made()["descent"])
    assert words["start"] == "one of up to 2 points, equally likely"
    assert "start" not in declared(made(starts=1)["descent"])


def test_a_proof_is_walked_from_every_start():
    paper = made()

    @paper.statement("round", about=FedAvg(), local=STEPS, problems=SmoothConvex((1, 2), (1, 2)))
    def one_round(q):
        """One step of gradient descent."""
        yield printed(le(q.distance_sq_next, q.distance_sq), holds=True)

    chain = [step("round", form="printed", weight=1)]
    walked = paper.proof("descent", steps=chain, form="the start's mean")
    registry.register(paper)
    try:
        witness = Witness(walked.theorem, walked.form, "any", "descent", DATA)
        course = walked.replayed(witness, walked)
        [(view, chance, drawn)] = course.rounds
        assert chance.tolist() == [F(1, 2)] * 2 and view.distance_sq.tolist() == [[1], [9]] and drawn is None
        assert course.end().probability.tolist() == course.chance.tolist() == [F(1, 2)] * 2
        found = walk_witness(walked, witness)
        assert (found.lhs, found.rhs, found.tallies[0].places[0].rhs) == (0, 1, 5)
    finally:
        registry._forget(paper)


def test_starts_that_cannot_be():
    with pytest.raises(InvalidInput, match="starts: of a run, declare over='run'"):
        made(over="round")
    with pytest.raises(InvalidInput, match="starts is 0"):
        made(starts=0)


@pytest.mark.parametrize("initial", ["gradient", "zero"])
def test_control_variates_that_begin_at_the_gradients(initial):
    """Of two steps 1/(4 beta) the gap is beta ||x_0 - x*||^2/4 at most, as of gradient descent; from 0 it may be more."""
    paper = Paper("initial-control-variates")

    @paper.statement("two-steps", about=Scaffold(initial=initial), local=GradientSteps(2, lr=lambda c: F(1, 4) / c.beta),
                     problems=SmoothConvex((2, 3), (1, 2)), over="run", rounds=1)  # fmt: skip
    def two_steps(q):
        """The gap after a round."""
        yield form("gap", le(q.gap[1], q.constant("c", F(1, 4)) * q.beta * q.distance_sq[0]))

    if initial == "gradient":
        assert proved(two_steps, "gap").words == "smooth convex losses, 2, 3 or 5 clients, every dimension, runs of one round"
    else:
        with pytest.raises(NotCertified):
            proved(two_steps, "gap")
