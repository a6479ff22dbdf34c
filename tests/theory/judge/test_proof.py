"""Proofs and walks of the core: numbers put into formulas, shares in words, what a walk says in a table and in a notebook."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as Q

import numpy as np
import pytest
from cases import each

from fedtheory.algorithms import FedElasticNetDyn
from fedtheory.errors import InvalidInput
from fedtheory.participation import Uniform
from fedtheory.problems import Quadratic
from fedtheory.theory.judge import Step, proofs_of, walk, walk_witness
from fedtheory.theory.judge.proof_report import share_in_words
from fedtheory.theory.judge.registry import papers
from fedtheory.theory.judge.statement import le
from fedtheory.theory.judge.substitution import Put, figures

THEOREM = "fedelasticnet/theorem-3.1"


@pytest.fixture(scope="module")
def walked():
    return walk_witness(THEOREM, form="repaired")


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.5, "half"), (0.6633, "two thirds"), (0.34, "a third"), (0.751, "three quarters"), (0.58, "58 %"), (0.999, "nearly all")],
)  # fmt: skip
def test_shares_in_words(share, words):
    assert share_in_words(share) == words


@pytest.mark.parametrize(
    ("value", "latex"),
    [
        (Q(3, 7), r"\tfrac{3}{7}"), (Q(-1, 2), r"-\tfrac{1}{2}"), (Q(4), "4"), (Q(12345, 67891), "0.182"), (0.0, "0"), (8885.2, "8885"),
        (1.5e-7, r"1.5\cdot10^{-7}"), (-2.5e9, r"-2.5\cdot10^{9}"), (float("inf"), r"\infty"), (0.12345, "0.123"),
    ],
)  # fmt: skip
def test_numbers_as_latex(value, latex):
    assert figures(value) == latex


def test_the_terms_stand_where_the_formula_is_not_made_by_what_runs():
    sides = le(Q(1), Q(1, 2), -Q(3), Q(0), Q(7, 2))
    assert (
        Put.of(Step("", "", sides=lambda v: v), sides, None, None, lambda v: v).latex()
        == r"1\le \tfrac{1}{2}-3+\tfrac{7}{2}"
    )


def test_numbers_stand_for_the_letters_of_a_formula_that_is(walked):
    [row] = [r for r in walked.rows(1) if r["step"] == "Lemma B.5, sharpened"]
    assert row["formula"].count(r"\lambda_2") == 3 and r"\lambda" not in row["numbers"] and r"\cdot" in row["numbers"]


def test_no_number_is_put_where_it_gives_something_else():
    """Means over the states, put into a product, need not give the mean of the product: then the terms stand there."""
    from fedtheory.theorems.fedelasticnet.letters import ROUND

    [form] = [f for s in papers()[0].statements if s.id.endswith("/eq-28") for f in s.forms if f.name == "printed"]
    put = Put(
        "<=", (1.0, 2.0, 3.0, 4.0), form.sides, ROUND, {s: 1.0 for s in map(lambda n: getattr(ROUND, n), ROUND.names)}
    )
    assert put.latex() == r"1\le 2+3+4"


def test_rows_and_steps_are_one_account(walked):
    rows, steps = walked.rows(), walked.steps()
    for step in steps:
        own = [r for r in rows if r["step"] == step["step"]]
        assert len(own) == (1 if own[0]["round"] is None else walked.horizon)
        if step["lost"] is not None:
            assert sum(r["lost"] for r in own) == pytest.approx(step["lost"], abs=1e-12)
    assert sum(s["share"] for s in steps if s["share"] is not None) == pytest.approx(1)
    assert dict(walked.parts())["Lemma B.4"] == sum(
        t.lost for t in walked.tallies if t.step.part_of == "Lemma B.4" and t.lost is not None
    )


def test_a_notebook_shows_a_table(walked):
    html = walked._repr_html_()
    assert html.count("<tr>") == len(walked.tallies) + 1 and "<math" in html and "last potential" in html
    text = replace(walked, instance="<script>")._repr_html_()
    assert "<script>" not in text and "&lt;script&gt;" in text
    assert str(walked).splitlines()[0] == walked.headline and walked.headline in repr(walked) and "\n" not in repr(walked)


def test_pandas_takes_the_rows(walked):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(walked.rows())
    assert list(table.columns)[:3] == ["round", "step", "formula"]
    assert table["lost"].sum() == pytest.approx(float(walked.slack))


@each(
    "proof", [p for paper in papers() for p in paper.proofs]
)
def test_every_proof_names_its_steps(proof):
    """Each step is said in a sentence, has a formula, and one that stands for a loss has a weight."""
    from fedtheory.report.formulas import unread
    from fedtheory.theory.judge.registry import get

    labels = [s.label for s in proof.steps]
    assert len(set(labels)) == len(labels) and proof.weighed and proof.note
    get(proof.theorem).form(proof.form)
    for step in proof.steps:
        formula = step.formula or get(step.statement).form(step.form).latex
        assert step.words and not unread(formula), step.label
        assert step.statement == "" or get(step.statement)


def test_what_is_unknown_is_refused():
    with pytest.raises(InvalidInput, match="is not walked under the other rule: it is about sign, true-gradient"):
        walk_witness(THEOREM, rule="other")
    with pytest.raises(InvalidInput, match="over = 'turns'; use 'round', 'rounds' or 'end'"):
        proof = proofs_of(THEOREM)[0]
        walk_witness(replace(proof, steps=(replace(proof.steps[0], over="turns"),)))
    with pytest.raises(InvalidInput, match="walked on a problem only"):
        walk_witness(replace(proofs_of(THEOREM)[0], replayed=None))


def test_the_numbers_of_one_run_do_not_stand_in_another(walked):
    """The formula of a step is made again and again, from the numbers of each round."""
    first = {(r["step"], r["round"]): r["numbers"] for r in walked.rows()}
    walk_witness(THEOREM, form="repaired", rule="true-gradient").rows()
    assert {(r["step"], r["round"]): r["numbers"] for r in walked.rows()} == first
    assert first["Theorem B.6", 1] != first["Theorem B.6", 2]


# --- what a headline says -------------------------------------------------------------------------
def test_an_equality_that_scenarios_break_tells_by_how_much_its_sides_differ():
    minimisers = np.linspace(-3, 3, 60)[:, None]
    found = walk(
        THEOREM, Quadratic(np.ones((60, 1, 1)), minimisers), FedElasticNetDyn(l1=1.0, l2=30.0), sampling=Uniform(10), rounds=2,
        scenarios=30, form="printed, whole expectation", x0=[0.5],
    )  # fmt: skip
    (step,) = [t for t in found.tallies if t.step.label == "(36)"]
    place = step.worst
    assert (step.verdict, place.check.mode, place.check.relation) == ("violated", "statistical", "==")
    assert place.check.lhs == pytest.approx(abs(float(place.lhs - place.rhs))) and place.check.rhs == 0
    assert all(abs(place.check.lhs - side) > 1e-4 for side in (place.lhs, place.rhs))  # neither of the sides
    assert f"Breaks at (36), round {place.t}: the sides differ by {place.check.lhs:.4g};" in found.headline


def test_a_bound_without_slack_is_attained_only_where_no_step_loses(walked):
    lossless = [replace(t, lost=Q(0)) for t in walked.tallies if t.lost is not None]
    same = {"slack": Q(0), "lhs": walked.rhs}
    assert "is attained on this run: no step loses anything" in replace(walked, tallies=lossless, unexplained=Q(0), **same).headline
    assert "attained" not in (text := replace(walked, unexplained=Q(0), **same).headline) and "no slack on this run" in text


def test_chance_is_no_place_where_slack_is_lost(walked):
    first = next(t for t in walked.tallies if t.lost is not None)
    chance = replace(first, step=replace(first.step, label="drawn", only_drawn=True, part_of=""), lost=3 * walked.slack)
    kept = replace(walked, tallies=[chance, *walked.tallies], slack=4 * walked.slack, unexplained=Q(0))
    before, verb, after = walked.headline.partition(" is lost ")
    assert verb and kept.headline == f"{before}, chance aside,{verb}{after}"
