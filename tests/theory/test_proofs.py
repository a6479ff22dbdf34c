"""A file's own theorem, walked: docs/walked_proof.py, its weights, and what a proof may not be made of."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as Q

import numpy as np
import pytest
from repository import ROOT
from statements_at_hand import instance

from fedtheory.algorithms import FedAvg, FedElasticNetDyn
from fedtheory.errors import FedTheoryError, InvalidInput, UnknownName
from fedtheory.participation.cohorts import Bernoulli
from fedtheory.problems import Quadratic, random_quadratic
from fedtheory.theory import (
    GradientSteps,
    Minimise,
    Paper,
    SmoothConvex,
    Uniform,
    above,
    le,
    load_file,
    method,
    proofs,
    repaired,
    step,
)
from fedtheory.theory.judge import registry
from fedtheory.theory.judge.proof_trace import proofs_of, walk, walk_witness
from fedtheory.theory.judge.witness import Witness

FILE = ROOT / "docs" / "walked_proof.py"
RATE = "walked-proof/rate"


@pytest.fixture(scope="module", autouse=True)
def registered():
    registry.load_file(FILE)


def huber(rounds: int = 4) -> Witness:
    data = instance([[1], [2]], [[0], [3]], [5]).changed(rounds=rounds).to_data()
    return Witness(RATE, "repaired", "any", "rate", data)


@pytest.mark.parametrize("form", ["printed", "repaired"])
@pytest.mark.parametrize("rounds", [1, 4])
def test_the_steps_lose_exactly_the_slack(form, rounds):
    found = walk_witness(RATE, huber(rounds), form=form)
    assert isinstance(found.unexplained, Q) and found.unexplained == 0 and found.horizon == rounds
    assert sum(t.lost for t in found.tallies) == found.rhs - found.lhs
    assert [t.step.label for t in found.tallies][:3] == ["one-round", "monotone", "last distance"]


def test_the_instance_of_the_printed_form_is_one_on_which_it_fails():
    found = walk_witness(RATE)
    assert found.check.verdict == "violated" and [t.step.label for t in found.broken] == ["half of the bound"]
    assert found.name == f"{RATE} [printed]" and "f1 = " in found.instance


def test_both_proofs_are_walked_on_one_small_instance():
    """On that on which some form fails, the one of fewest digits of those that were drawn."""
    repaired, printed = (walk_witness(RATE, form=form) for form in ("repaired", "printed"))
    assert printed.check.verdict == "violated" and repaired.instance == printed.instance
    assert sum(letter.isdigit() for letter in printed.instance) <= 15


def test_the_numbers_of_a_step_are_those_of_its_terms():
    """f1 = x^2/2 and f2 = (x - 3)^2, whose mean is least at 2, from 5: beta/2 ||x_0 - x*||^2 = 9, and 9/16 a step later."""
    found = walk_witness(RATE, huber(1), form="repaired")
    place = found.tallies[0].places[0]
    assert place.put.terms[1:] == (9, -Q(9, 16)) and sum(place.put.terms[1:]) == place.rhs
    assert found.rows()[0]["numbers"].endswith(r"\le 9-\tfrac{9}{16}")


def test_a_weight_that_is_a_tenth_off_is_noticed():
    proof = next(p for p in proofs_of(RATE) if p.form == "repaired")
    plain = walk_witness(proof, huber())
    for i, tally in enumerate(plain.tallies):
        own = proof.steps[i].weight
        wrong = replace(proof.steps[i], weight=lambda e, own=own: [v * Q(11, 10) for v in _each(own(e))])
        found = walk_witness(replace(proof, steps=(*proof.steps[:i], wrong, *proof.steps[i + 1 :])), huber())
        assert found.unexplained == -tally.lost / 10 != 0 and not found.adds_up


def _each(weight):
    return weight if isinstance(weight, list) else [weight]


def test_on_a_problem():
    found = walk(RATE, random_quadratic(3, 2, seed=1), rounds=6)
    assert found.adds_up and not found.broken and found.exact and found.horizon == 6


@pytest.fixture
def moves(sampling):
    """The id of a theorem about cohorts, with its proof."""
    paper = Paper("drawn", title="Cohorts")
    about = {"about": FedAvg(), "local": GradientSteps(1, lr=lambda c: 1 / c.beta), "sampling": sampling,
             "problems": SmoothConvex(clients=(2, 9), dimension=(1, 2))}  # fmt: skip

    @paper.statement("shift", over="round", **about)
    def shift(q):
        """A move is at most twice as far as both distances."""
        yield repaired(
            le(q.moved_sq, 2 * q.distance_sq, 2 * q.distance_sq_next), r"\|x^+-x\|^2\le2\|x-x^*\|^2+2\|x^+-x^*\|^2"
        )

    @paper.statement("in-each", over="round", **about)
    def in_each(q):
        """No cohort leaves more than all do on average."""
        yield repaired(le(q.F_next, q.mean(q.F_next)), r"F(x^+)\le\mathbb E F(x^+)", pathwise=True)

    @paper.statement("moves", over="run", rounds=(2, 3), **about)
    def moves(q):
        """All moves together, with the distance at the end to spare."""
        distances = q.distance_sq[:-1].sum(axis=0) + q.distance_sq[1:].sum(axis=0)
        bound = le(q.moved_sq.sum(axis=0), 2 * distances, q.distance_sq[-1])
        yield repaired(bound, r"\sum_t\|x_t-x_{t-1}\|^2\le2\sum_t(\dots)+\|x_T-x^*\|^2")

    spare = step("spare", lambda q: le(0 * q.distance_sq[-1], q.distance_sq[-1]), weight=1)
    paper.proof(moves, steps=[step(shift, weight=1), spare])
    registry.register(paper)
    return moves.id


@pytest.mark.parametrize("sampling", [Uniform, Uniform(2), Bernoulli(0.25)], ids=str)
def test_with_cohorts(moves, sampling, monkeypatch):
    """Expectations over all cohorts of every round; of scenarios what was drawn stands apart, or each round is as it was drawn."""
    if not isinstance(sampling, Bernoulli):
        drawn = registry.setting_of(moves).random_instance("moves", np.random.default_rng(3))
        walked = walk_witness(moves, Witness(moves, "repaired", "any", "moves", drawn.data), form="repaired")
        assert walked.unexplained == 0 and walked.slack > 0
    problem, how = random_quadratic(3, 2, seed=1), {"sampling": Uniform(2) if sampling is Uniform else sampling}
    every = walk(moves, problem, rounds=3, **how)
    assert every.exact and every.adds_up and not every.broken and "sequences of cohorts" in every.instance
    how |= {"mode": "monte-carlo", "scenarios": 60}
    over_all = walk(moves, problem, rounds=3, **how)
    assert not over_all.exact and over_all.adds_up and "60 scenarios, each round over all" in over_all.instance
    (chance,) = [t for t in over_all.tallies if t.step.only_drawn]
    assert chance.verdict == "chance" and 0 < abs(chance.lost) < 5 * chance.error
    assert over_all.tallies[0].verdict == "holds"  # from each state, which all its cohorts decide
    monkeypatch.setattr(proofs, "FEW", 10**9)
    as_drawn = walk(moves, problem, rounds=3, **how)
    assert as_drawn.adds_up and [t.step.label for t in as_drawn.tallies] == ["shift", "spare"]
    assert as_drawn.slack == pytest.approx(over_all.slack)  # of the same scenarios
    assert abs(as_drawn.slack - every.slack) < 5 * sum(t.error for t in as_drawn.tallies)
    for walked in (every, over_all, as_drawn):
        assert walked.slack == pytest.approx(sum(t.lost for t in walked.tallies))


@pytest.mark.parametrize("sampling", [Uniform], ids=str)
def test_what_is_claimed_of_every_cohort_is_judged_in_each(moves):
    paper = registry.paper_of(moves)
    proof = paper.proof("moves", steps=[step("in-each", weight=0)])
    found = walk(proof, random_quadratic(3, 2, seed=1), sampling=Uniform(1), rounds=2)
    (tally,) = found.tallies
    assert tally.verdict == "violated" and tally.lost == 0
    assert tally.worst.lhs == pytest.approx(tally.worst.rhs)  # in the mean over the cohorts


@pytest.mark.parametrize("sampling", [Uniform], ids=str)
def test_a_line_of_the_run_is_claimed_in_the_mean_of_scenarios(moves):
    """Of a round the expectation from each state is known, but not of a line of the whole run."""
    nearer = step("nearer", in_rounds=lambda q: le(q.distance_sq[1:], q.distance_sq[:-1]), weight=0)
    proof, problem = registry.paper_of(moves).proof("moves", steps=[nearer]), random_quadratic(3, 2, seed=1)
    how = {"sampling": Uniform(1), "rounds": 2, "mode": "monte-carlo", "scenarios": 200, "x0": [30.0, 30.0]}
    found = walk(proof, problem, **how)
    (tally,) = found.tallies
    assert tally.verdict == "holds" and {p.check.mode for p in tally.places} == {"statistical"}


@pytest.mark.parametrize("sampling", [Uniform], ids=str)
def test_a_weight_that_is_off_is_noticed_among_scenarios(moves):
    (proof,) = proofs_of(moves)
    wrong = replace(proof, steps=(replace(proof.steps[0], weight=lambda q: 1.1), proof.steps[1]))
    how = {"sampling": Uniform(1), "rounds": 3, "mode": "monte-carlo", "scenarios": 60}
    found = walk(wrong, random_quadratic(3, 2, seed=1), **how)
    assert not found.adds_up and "do not add up" in found.headline


@pytest.mark.parametrize("sampling", [Uniform], ids=str)
def test_more_cohorts_than_can_be_enumerated(moves):
    problem, how = random_quadratic(9, 2, seed=1), {"sampling": Uniform(4)}
    with pytest.raises(InvalidInput, match=r"3 rounds of 126 cohorts make 2000376 states: walk at most 1 rounds, or take mode"):
        walk(moves, problem, rounds=3, mode="exact", **how)
    assert walk(moves, problem, mode="exact", **how).horizon == 1
    found = walk(moves, problem, scenarios=20, **how)
    assert found.horizon == 3 and not found.exact and found.adds_up


@pytest.mark.parametrize("mode", ["a witness", "exact", "monte-carlo"])
def test_a_line_of_every_round_need_not_be_a_statement(mode):
    proof = next(p for p in proofs_of(RATE) if p.form == "repaired")
    line = step("own", in_rounds=lambda q: le(q.F[1:], q.F[:-1]), weight=proof.steps[1].weight, part_of="a lemma")
    made = load_file(FILE).proof("rate", steps=[line])
    mixed = replace(proof, steps=(proof.steps[0], made.steps[0], proof.steps[2]))
    how = {"rounds": 4, "mode": mode}

    def walked(one):
        return walk_witness(one, huber()) if mode == "a witness" else walk(one, random_quadratic(3, 2, seed=1), **how)

    plain, own = walked(proof), walked(mixed)
    assert own.adds_up and own.tallies[1].lost == pytest.approx(plain.tallies[1].lost)
    assert [p.t for p in own.tallies[1].places] == [1, 2, 3, 4] and own.tallies[1].verdict == "holds"
    assert [p.slack for p in own.tallies[1].places] == pytest.approx([p.slack for p in plain.tallies[1].places])
    assert [label for label, _ in own.parts()][:3] == ["one-round", "a lemma", "last distance"]
    short = load_file(FILE).proof("rate", steps=[step("own", in_rounds=lambda q: le(q.F[-1], q.F[0]))])
    with pytest.raises(InvalidInput, match=r"step 'own': shape = .*its first axis is the 4 rounds"):
        walked(short)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"at_end": lambda q: le(0 * q.gap[-1], q.gap[9])}, r"test_proofs\.py, line \d+, step 'end': IndexError: index 9"),
        ({"at_end": lambda q: le(0, q.gapp[-1])}, r"test_proofs\.py, line \d+, step 'end': .*did you mean 'gap'"),
        ({"at_end": lambda q: q.gap[-1]}, r"step 'end' = .*its function returns le\(lhs, rhs\)"),
        ({"weight": lambda q: [1][int(q.T)]}, r"test_proofs\.py, line \d+, step 'end': IndexError: list index"),
    ],
)
def test_a_mistake_in_a_function_of_a_step_names_its_line(change, says):
    """Those of a step are run by the walk alone, and not when the file is read."""
    made = load_file(FILE)
    given = {"at_end": lambda q: le(0 * q.gap[-1], q.gap[-1]), "weight": 1, **change}
    proof = made.proof("rate", steps=[step("one-round", weight=1), step("end", given.pop("at_end"), **given)])
    with pytest.raises(FedTheoryError, match=says):
        walk_witness(proof, huber())


def test_a_proof_for_several_rules_is_walked_under_that_of_the_method():
    paper = Paper("ruled", title="Two rules")
    about = method(FedElasticNetDyn, l1=above(0, usual=1), l2=above(0, unit=lambda c: c.beta, usual=30))
    how = {"about": about, "rules": {rule: {"rule": rule} for rule in ("sign", "true-gradient")},
           "local": Minimise(), "problems": SmoothConvex(clients=(1, 3), dimension=(1, 2))}  # fmt: skip

    @paper.statement("shift", over="round", **how)
    def shift(q):
        """A move is at most twice as far as both distances."""
        yield repaired(le(q.moved_sq, 2 * q.distance_sq, 2 * q.distance_sq_next), r"\|x^+-x\|^2\le\dots")

    @paper.statement("once", over="run", rounds=1, **how)
    def once(q):
        """The only move."""
        yield repaired(le(q.moved_sq[0], 2 * q.distance_sq[0], 2 * q.distance_sq[1]), r"\|x_1-x_0\|^2\le\dots")

    paper.proof(once, steps=[step(shift, weight=1)])
    registry.register(paper)
    assert walk_witness("ruled/once", form="repaired").rule == "sign"
    for rule in ("sign", "true-gradient"):
        found = walk("ruled/once", random_quadratic(3, 2, seed=1), FedElasticNetDyn(0.1, 40.0, rule))
        assert found.rule == rule and found.adds_up and not found.broken


def test_without_weights_there_is_no_waterfall():
    paper = Paper("unweighed", title="No weights")
    about = {
        "about": FedAvg(),
        "local": GradientSteps(1, lr=lambda c: 1 / c.beta),
        "problems": SmoothConvex(clients=1, dimension=1),
    }

    @paper.statement("monotone", over="round", **about)
    def monotone(q):
        """F does not grow."""
        yield repaired(le(q.F_next, q.F), r"F(x^+)\le F(x)")

    @paper.statement("last", over="run", rounds=3, **about)
    def last(q):
        """The last value is the least."""
        yield repaired(le(q.F[-1], q.F[0]), r"F(x_T)\le F(x_0)", holds=True)

    paper.proof("last", steps=[step(monotone)])
    registry.register(paper)
    found = walk_witness("unweighed/last", form="repaired")
    assert (
        found.unexplained is None
        and found.adds_up
        and "no weights" in found.headline
        and found.share(found.tallies[0]) is None
    )
    with pytest.raises(InvalidInput, match="have no weights, so there is no waterfall"):
        found.waterfall()
    drawn = walk("unweighed/last", Quadratic([[[2.0]]], [[1.0]]), mode="monte-carlo", scenarios=5)
    assert not drawn.exact and drawn.unexplained is None and [t.verdict for t in drawn.tallies] == ["holds"]


def test_what_no_proof_is_made_of():
    paper = load_file(FILE)
    rate, one_round = paper["rate"], paper["one-round"]
    for steps, why in (([], "no steps"), ([one_round], "is no step"), ([step(rate)], "is not judged in a round")):
        with pytest.raises(InvalidInput, match=why):
            paper.proof(rate, steps=steps)
    with pytest.raises(UnknownName, match="statement of walked-proof 'one-roun': did you mean"):
        paper.proof(rate, steps=[step("one-roun")])
    with pytest.raises(InvalidInput, match="a step at the end, or in rounds, has a label"):
        step(one_round, lambda q: None)
    with pytest.raises(InvalidInput, match="at_end and in_rounds are two steps"):
        step("both", lambda q: None, in_rounds=lambda q: None)
    with pytest.raises(InvalidInput, match="step 3: give a statement with over='round', or its name"):
        step(3)
    assert paper.proof(rate, steps=[step("one-round")]).steps[0].statement == one_round.id
    with pytest.raises(InvalidInput, match="step 'one-round' has no weight and others have"):
        paper.proof(rate, steps=[step(one_round), step(one_round, weight=1)])
    with pytest.raises(InvalidInput, match="is about a round"):
        paper.proof(one_round, steps=[step(one_round)])
    with pytest.raises(UnknownName, match="repaired"):
        paper.proof(rate, form="repared", steps=[step(one_round)])
    with pytest.raises(UnknownName):
        paper.proof(rate, steps=[step(one_round, form="printd")])
    proof = next(p for p in proofs_of(RATE) if p.form == "repaired")
    with pytest.raises(InvalidInput, match="2 weights for 4 rounds"):
        walk_witness(replace(proof, steps=(replace(proof.steps[0], weight=lambda e: [1, 2]),)), huber())
    with pytest.raises(InvalidInput, match="not an instance of walked-proof/rate"):
        walk_witness(RATE, huber(9), form="repaired")
