"""The proof of EFL's Theorem 1, walked: the slack of every step arrives at the end with its weight, in fractions to the last digit."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as Q

import numpy as np
import pytest

from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.participation.irregular import incomplete
from fedtheory.problems import LeastSquares, Quadratic
from fedtheory.theorems.efl import courses
from fedtheory.theorems.efl.proofs import PROOFS
from fedtheory.theory.judge.proof_trace import walk, walk_witness
from fedtheory.theory.judge.setting import Case
from fedtheory.theory.judge.witness import Witness

THEOREM = "efl/theorem-1"
NOISY = {  # two rounds of one noisy step, the law changes
    "h": [["1"], ["2"]], "c": [["1"], ["-1"]], "noise": [["1"], ["0"]], "weights": ["1/3", "2/3"],
    "laws": [[["1/2", "1/2"], ["0", "1"]], [["0", "1"], ["1/3", "2/3"]]], "w0": ["1"], "T": 2,
}  # fmt: skip
STEPS = {  # two local steps, three rounds, full gradients
    "h": [["1", "3"], ["2", "1"]], "c": [["1", "0"], ["-1", "1/2"]], "weights": ["1/4", "3/4"],
    "laws": [[["0", "1/2", "1/2"], ["0", "0", "1"]]], "w0": ["1", "-1"], "T": 3,
}  # fmt: skip


def walked(data: dict, form: str, scheme: str, **changed):
    proof = next(p for p in PROOFS if p.form == form and p.rules == (scheme,))
    return walk_witness(replace(proof, **changed), Witness(THEOREM, form, scheme, "run", {**data, "scheme": scheme}))


@pytest.mark.parametrize("form", ["printed", "repaired"])
@pytest.mark.parametrize("scheme", ["A", "B", "C", "C-corrected"])
def test_the_steps_lose_exactly_the_slack(form, scheme):
    found = walked(NOISY if form == "printed" else STEPS, form, scheme)
    assert isinstance(found.unexplained, Q) and found.unexplained == 0
    assert sum(t.lost for t in found.tallies) == found.rhs - found.lhs
    if form == "repaired":
        assert not found.broken and all(t.lost >= 0 for t in found.tallies) and found.check.verdict == "holds"


def test_a_weight_that_is_a_tenth_off_is_noticed():
    proof = next(p for p in PROOFS if p.form == "repaired" and p.rules == ("C",))
    plain = walked(NOISY, "repaired", "C")
    for i, (step, tally) in enumerate(zip(proof.steps, plain.tallies, strict=False)):
        if tally.lost == 0 or i % 3:
            continue
        wrong = replace(step, weight=lambda e, own=step.weight: own(e) * Q(9, 10))
        found = walked(NOISY, "repaired", "C", steps=(*proof.steps[:i], wrong, *proof.steps[i + 1 :]))
        assert found.unexplained == tally.lost / 10 and found.headline.startswith("The weights do not add up")


@pytest.mark.parametrize("scheme", ["A", "B", "C", "C-corrected"])
def test_the_shipped_witnesses_break_at_the_end(scheme):
    found = walk_witness(THEOREM, rule=scheme)
    assert found.check.verdict == "violated" and found.unexplained == 0
    assert found.broken and all(t.step.over == "end" for t in found.broken)
    assert (str(found.lhs), str(found.rhs)) == _sides(scheme)


def _sides(scheme):
    from fedtheory.theory.judge.replay import builtin_witnesses

    own = next(w for w in builtin_witnesses("efl") if w.name == f"efl-theorem-1-printed-{scheme.lower()}")
    return own.lhs, own.rhs


def _quadratics():
    rng = np.random.default_rng(5)
    features = rng.normal(size=(3, 6, 2))
    return LeastSquares(features, features @ [1.0, 2.0] + rng.normal(size=(3, 6)), ridge=0.2)


def test_on_a_problem_in_floats(monkeypatch):
    problem = _quadratics()
    alone = walk(THEOREM, problem, EFL(), rounds=4)
    assert alone.adds_up and alone.exact and not alone.broken and alone.horizon == 4
    law = incomplete(3, 2, [0.3, 0.2, 0.5])
    found = walk(THEOREM, problem, EFL(scheme="C"), sampling=law, rounds=3, mode="monte-carlo", scenarios=8)
    assert found.adds_up and not found.exact and "8 scenarios" in found.instance
    assert [t.verdict for t in found.tallies if t.step.only_drawn] == ["chance"]
    every = walk(THEOREM, problem, EFL(scheme="C"), sampling=law, rounds=2)
    assert every.adds_up and every.exact and "outcomes" in every.instance and not every.broken
    with pytest.raises(InvalidInput, match="too many states"):
        walk(THEOREM, problem, EFL(scheme="C"), sampling=law, rounds=9, mode="exact")


def test_what_is_refused():
    with pytest.raises(InvalidInput, match="kind 'step'"):
        walk_witness(THEOREM, "efl-theorem-1-step-5-expanded-at-wbar-i-c")
    with pytest.raises(InvalidInput, match="too many states to walk"):
        walked({**STEPS, "T": 12}, "repaired", "C")
    with pytest.raises(InvalidInput, match="give nothing of them"):
        courses.course(Case(_quadratics(), EFL(), x0=np.zeros(2), given={"L": 5.0}), PROOFS[0])
    flat = Quadratic(np.array([[[1.0, 0], [0, 0]]] * 2), np.ones((2, 2)))
    with pytest.raises((InvalidInput, MissingCapability), match="mu_k"):
        walk(THEOREM, flat, EFL())
