"""Reads of a statement's function are told with a counterexample; wrong axes are refused.

Shapes are as they are said.
"""

import json
import re
from fractions import Fraction as Q
from pathlib import Path

import numpy as np
import pytest
from command_line import call
from statements_at_hand import instance, sentence

from fedtheory.algorithms import FedAvg, Scaffold
from fedtheory.errors import InvalidInput
from fedtheory.theory import (
    GradientSteps,
    Paper,
    SmoothConvex,
    StronglyConvex,
    Uniform,
    form,
    le,
    printed,
    quantities,
    repaired,
    study,
)
from fedtheory.theory.judge.witness import FORMAT
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.quantities import ROUND, RUN
from fedtheory.theory.rounds.reads import read_there
from fedtheory.theory.rounds.vector_proofs import proved


def stated(function, name="it", **how):
    paper = Paper("reads")
    how = {"about": FedAvg(), "local": GradientSteps(1, lr=lambda c: 1 / c.beta), "problems": StronglyConvex(clients=(2, 3)), **how}
    return paper.statement(name, **how)(function)


def line(h="2", start="3", rounds=1, clients=1):
    """f_k(x) = h x^2/2 for every client."""
    return Draw.from_data({"h": [[h]] * clients, "c": [["0"]] * clients, "weights": [f"1/{clients}"] * clients, "start": [start],
                           "rounds": rounds})  # fmt: skip


@pytest.mark.parametrize("over, table", [("round", ROUND), ("run", RUN)])
def test_the_shape_that_is_said_is_the_shape(over, table):
    """With five different lengths, so that none stands for another."""
    local = GradientSteps(2, lr=lambda c: 1 / (4 * c.beta))
    statement = stated(lambda q: [printed(le(q.F, q.F))], over=over, sampling=Uniform(2), local=local, problems=StronglyConvex((4, 4)))
    data = {"h": [["1", "2", "3"]] * 4, "c": [["0", "1", "2"], ["1", "0", "0"], ["0", "0", "1"], ["2", "2", "2"]],
            "weights": ["1/4"] * 4, "start": ["1", "5", "3"], "rounds": 1, "cohort_size": 2}  # fmt: skip
    data |= {"before": [[0, 1]]} if over == "round" else {}
    view = MethodSetting.of(statement).view(Draw.from_data(data), exact=False)
    lengths = {"d": 3, "N": 4, "T": 1, "C": 6, "P": 2, "1": 1, "K": 1, "S": 1 if over == "round" else 6, "T + 1": 2}
    for name in table:
        said = quantities(over)[name]
        value = getattr(view, name)
        if name == "client_state":  # FedAvg keeps nothing of its clients
            continue
        if said.endswith("a number"):
            assert np.shape(value) == (), name
            continue
        shape = re.search(r"; shape \((.+)\)$", said)[1].rstrip(",").split(", ")
        fields = view.path.states[-1]._fields
        for part in [getattr(value, f) for f in fields] if name.startswith("state") else [value]:
            if part is not None:
                assert np.shape(part)[: len(shape) - (shape[-1] == "...")] == tuple(lengths[s] for s in shape if s != "..."), name


def test_constants_are_said_to_be_numbers():
    for name in ("beta", "mu", "E", "eta", "N", "P", "T"):
        assert quantities("run")[name].endswith("; a number")


def test_what_the_function_reads_is_told_in_fractions():
    """d_1 = d_0/4 for f = x^2 from 3 with a step 1/(2 beta): distance 9, then 9/4."""

    def claim(q):
        """A claim about the start."""
        first = q.distance_sq[0]
        yield printed(le(q.distance_sq, q.constant("c", Q(1, 2)) * (1 - q.eta * q.mu) * first))
        yield repaired(le(q.gap, q.gap))

    statement = stated(claim, over="run", local=GradientSteps(1, lr=lambda c: 1 / (2 * c.beta)), problems=StronglyConvex((1, 2)))
    told = read_there(MethodSetting.of(statement), "printed", line())
    assert told == {
        "q.distance_sq": "(9, 9/4), shape (2, 1)", "constant c": "1/2", "q.eta": "1/4", "q.mu": "2", "worst at": "t = 0",
    }  # fmt: skip


def test_the_round_that_is_named_is_counted_from_what_was_compared():
    """x_t = 3/2^t: the gaps after each round are largest after the first."""

    def claim(q):
        """The gap is nothing."""
        yield printed(le(q.gap[1:], 0 * q.gap[1:]))

    statement = stated(claim, over="run", local=GradientSteps(1, lr=lambda c: 1 / (2 * c.beta)), problems=StronglyConvex((1, 2)))
    assert read_there(MethodSetting.of(statement), "printed", line(rounds=2))["worst at"] == "t = 1"


def test_the_findings_have_what_was_read():
    def claim(q):
        """A step more than contracts."""
        yield printed(le(q.distance_sq_next, 0 * q.distance_sq))

    found = study(stated(claim, local=GradientSteps(1, lr=lambda c: 1 / (2 * c.beta))), budget=40, necessity=False)
    [words] = [words for label, words in found.findings() if label == "there"]
    assert re.fullmatch(r"q\.distance_sq_next = \S+; q\.distance_sq = \S+", words)


@pytest.mark.parametrize("part", [np.s_[..., :1], np.s_[:, :1], np.s_[:, -1:]])
@pytest.mark.parametrize("sampling", [None, Uniform(1)])
def test_a_slice_of_a_runs_scenarios_is_refused(part, sampling):
    """It seems to be the start, and is every round: with one scenario the claim would be another one, and false."""

    def claim(q):
        """d_t <= (1 - mu eta)^t d_0."""
        yield printed(le(q.distance_sq, q.power(1 - q.eta * q.mu, q.t) * q.distance_sq[part]))

    text = r"test_reads.py, line \d+, reads/it: q.distance_sq\[:, (:1|-1:)\] takes some scenarios.*The start is q.distance_sq\[0\]"
    with pytest.raises(InvalidInput, match=text) as error:
        stated(claim, over="run", sampling=sampling).forms  # noqa: B018
    assert f"line {claim.__code__.co_firstlineno + 2}," in str(error.value)


@pytest.mark.parametrize("dimension", [1, 2])
@pytest.mark.parametrize("starts", [1, 2])
@pytest.mark.parametrize("part", [lambda q: q.x[0], lambda q: q.x[-1] - q.x_star, lambda q: 2 * q.x[0, :]])
def test_a_mean_of_one_rounds_vectors_is_refused(part, starts, dimension):
    """Its axes are scenarios and coordinates: with one coordinate the mean would be none at all, and false claims hold."""

    def claim(q):
        """||x_t||^2 <= 100 ||E x_t||^2."""
        yield printed(le(q.sq(part(q)), 100 * q.sq(q.mean(part(q)))))

    problems = StronglyConvex(clients=1, dimension=dimension)
    with pytest.raises(InvalidInput, match=r"line \d+, reads/it: q.mean of vectors q.x\[t\] of one round.*take q.x\[t:t\+1\]"):
        stated(claim, over="run", starts=starts, problems=problems).forms  # noqa: B018


@pytest.mark.parametrize("part", [
    lambda q: q.mean(q.x[:1])[0], lambda q: q.mean(q.x - q.x[0])[0], lambda q: q.mean(q.x[0][None])[0],
    lambda q: q.mean(q.sq(q.x[0]))[..., None], lambda q: q.mean(q.gap[-1])[..., None],
])  # fmt: skip
def test_other_means_of_a_run_are_taken(part):
    def claim(q):
        """E x_0 is somewhere."""
        yield printed(le(q.sq(part(q)), 1 + q.sq(part(q))))

    assert list(stated(claim, over="run", starts=2, problems=StronglyConvex(clients=1, dimension=1)).forms) == ["printed"]


@pytest.mark.parametrize("of_start", [
    lambda q: q.distance_sq[0], lambda q: q.distance_sq[:1], lambda q: q.distance_sq[0, 0], lambda q: q.distance_sq[:1, :1],
    lambda q: q.sq((q.x - q.x_star)[..., :])[0], lambda q: q.distance_sq.max(), lambda q: q.distance_sq[:, :][0],
])  # fmt: skip
def test_the_start_may_be_written_in_other_ways(of_start):
    def claim(q):
        """d_t <= (1 - mu eta)^t d_0."""
        yield printed(le(q.distance_sq, q.power(1 - q.eta * q.mu, q.t) * of_start(q)))

    assert list(stated(claim, over="run").forms) == ["printed"]


def test_coordinates_of_a_model_may_be_sliced():
    def claim(q):
        """The first coordinate alone."""
        yield printed(le(q.sq(q.x[..., :1] - q.x_star[:1]), 2 * q.distance_sq))

    assert list(stated(claim, over="run").forms) == ["printed"]


def test_replay_shows_what_was_read(tmp_path):
    """f = x^2/2 from 1, a step of size 1 ends at 0: F = 1/2, F+ = 0, and ||grad F||^2/beta = 1."""
    witness = {
        "format": FORMAT, "statement": "my-lemma/descent", "form": "printed", "rule": "any", "kind": "descent",
        "data": {"h": [["1"]], "c": [["0"]], "weights": ["1"], "start": ["1"], "rounds": 0}, "lhs": "0", "rhs": "-1/2",
    }  # fmt: skip
    file = tmp_path / "witness.json"
    file.write_text(json.dumps(witness))
    shown = call("replay", file, "--paper", Path(__file__).parents[2] / "examples/my_lemma.py").stdout
    for name, value in (("F", "1/2"), ("F_next", "0"), ("gradient_sq", "1"), ("beta", "1")):
        assert re.search(rf"^q\.{name} +{value} *$", shown, re.M), shown


def test_the_state_before_a_round_is_told_as_far_as_it_is_read():
    statement = stated(
        lambda q: [printed(le(q.sq(q.x_next), 0 * q.sq(q.state.c_k).sum(axis=-1)))], about=Scaffold(),
        states={"c_k": "N d", "c": lambda s: s["c_k"].mean(axis=-2)},
    )  # fmt: skip
    drawn = line(rounds=0, clients=2).changed(state={"c_k": np.array([[Q(1, 2)], [Q(3)]], dtype=object)})
    told = read_there(MethodSetting.of(statement), "printed", drawn)
    assert told["q.state.c_k"].startswith("(1/2, 3), shape") and set(told) == {"q.x_next", "q.state.c_k"}


def test_the_states_of_a_run_are_told_as_far_as_they_are_read():
    def claim(q):
        """||x_t||^2 <= 0."""
        yield printed(le(q.sq(q.x), 0 * q.sq(q.state.c_k).sum(axis=-1)))

    statement = stated(claim, over="run", about=Scaffold())
    told = read_there(MethodSetting.of(statement), "printed", line(rounds=1, clients=2))
    assert "shape (2, 1, 2, 1)" in told["q.state.c_k"] and set(told) == {"q.x", "q.state.c_k", "worst at"}


def test_a_state_is_read_by_attribute_and_in_brackets():
    """The same formula, verdict, proof and words either way, also where another form has no number there."""
    def dotted(q):
        yield printed(le(q.sq(q.state.c), 10 * q.sq(q.state.c) + q.sq(q.state_next.c)))
        yield form("divided", le(q.sq(q.state.c) / q.sq(q.state.c), 2))

    def bracketed(q):
        yield printed(le(q.sq(q.state["c"]), 10 * q.sq(q.state["c"]) + q.sq(q.state_next["c"])))
        yield form("divided", le(q.sq(q.state["c"]) / q.sq(q.state["c"]), 2))

    def told(body):
        made = sentence(body, about=Scaffold(), problems=SmoothConvex((1, 3), (1, 2)))
        first = instance([[1], [2]], [[1], [0]], [2])
        latex = [f.latex for f in made.statement.forms]
        return latex, read_there(MethodSetting.of(made), "printed", first), proved(made, "printed").words

    assert told(dotted) == told(bracketed) and told(dotted)[1].keys() >= {"q.state.c", "q.state_next.c"}
    with pytest.raises(InvalidInput, match="has no attribute 'z'"):
        sentence(lambda q: [printed(le(q.sq(q.state["z"]), 1))], about=Scaffold()).forms  # noqa: B018
