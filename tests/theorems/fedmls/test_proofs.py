"""The proof of FedMLS's Theorem 1, walked: the recursion is the sum of its five inequalities, in fractions to the last digit."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as Q

import numpy as np
import pytest
from lines_of_fedmls import both_sides, witness_of

from fedtheory.algorithms import FedMLS
from fedtheory.errors import InvalidInput
from fedtheory.problems import LAD
from fedtheory.theorems.fedmls.one_dimension import OneDimension
from fedtheory.theorems.fedmls.proofs import PROOFS
from fedtheory.theory.judge.proof_trace import walk, walk_witness

THEOREM = "fedmls/theorem-1"
LINES = [["1", "-1"], ["1/2", "-2"], ["-1", "3"]], [["0", "1/2"], ["0", "0"], ["0", "-1"]]


def witness(variant: str, rounds: int, lam: str = "1/2", start: str = "1", copies: tuple[int, ...] = ()):
    return witness_of(variant, *LINES, {"lam": lam, "D": "1/4", "radius": "1", "x0": start}, rounds, copies=copies)


@pytest.mark.parametrize(("form", "variant"), [("repaired", "repaired"), ("printed", "joint G")])
@pytest.mark.parametrize(
    ("rounds", "lam", "start", "copies"), [(1, "2", "0", ()), (3, "1/2", "1", ()), (4, "1/5", "-1/3", (1, 2, 1))]
)
def test_the_steps_lose_exactly_the_slack(form, variant, rounds, lam, start, copies):
    data = witness(variant, rounds, lam, start, copies)
    found = walk_witness(THEOREM, data, form=form)
    assert isinstance(found.unexplained, Q) and found.unexplained == 0
    run = OneDimension.of(data.data)
    numbers = run.clients, run.lam, run.d, run.radius, run.x0, run.rounds
    assert (found.lhs, found.rhs) == both_sides(*numbers, variant, run.copies)  # without the clients' iterates
    assert sum(t.lost for t in found.tallies if t.lost is not None) == found.rhs - found.lhs
    for t in range(1, rounds + 1):  # and the recursion's slack is that of its lines
        rows = {r["step"]: r["slack"] for r in found.rows(t)}
        parts = [rows[s.label] for s in PROOFS[0].steps if s.part_of == "the recursion"]
        assert sum(parts) == pytest.approx(rows["one round"], abs=1e-12)
    if form == "repaired":
        assert not found.broken and all(t.lost >= 0 for t in found.tallies if t.lost is not None)


def test_a_weight_that_is_a_tenth_off_is_noticed():
    proof = next(p for p in PROOFS if p.form == "repaired")
    plain = walk_witness(proof)
    for i, (step, tally) in enumerate(zip(proof.steps, plain.tallies, strict=True)):
        if not tally.lost:
            continue
        wrong = replace(step, weight=lambda e, own=step.weight: own(e) * Q(11, 10))
        found = walk_witness(replace(proof, steps=(*proof.steps[:i], wrong, *proof.steps[i + 1 :])))
        assert found.unexplained == -tally.lost / 10 and not found.adds_up


def test_the_shipped_witness_breaks_where_g_is_the_joint_one():
    found = walk_witness(THEOREM)
    assert (found.lhs, found.rhs) == (1, Q(71, 100)) and found.check.verdict == "violated"
    assert [t.step.label for t in found.broken] == ["local steps", "joint G"]
    assert "20 clients" in found.instance


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(2)
    features = rng.normal(size=(3, 5, 2))
    return LAD(features, features @ [0.5, -0.5] + 0.1 * rng.normal(size=(3, 5)))


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_on_a_problem_in_floats(problem, noise):
    lipschitz = float(np.sqrt(np.mean(problem.lipschitz(2.0) ** 2)))
    algorithm = FedMLS(0.3, 1.0, 5, 2.0, lipschitz, sigma=noise, noise_std=noise)
    found = walk(THEOREM, problem, algorithm, scenarios=50)
    assert found.adds_up and not found.broken and found.exact == (noise == 0)
    assert found.rule == ("stochastic" if noise else "deterministic") and found.horizon == 5


def test_what_is_refused(problem):
    with pytest.raises(InvalidInput, match=r"G = 0\.1 is below the root mean square"):
        walk(THEOREM, problem, FedMLS(0.3, 1.0, 5, 2.0, 0.1))
    with pytest.raises(InvalidInput, match="a proof is walked for 'printed' and for 'repaired'"):
        walk_witness(THEOREM, "fedmls-theorem-1-consensus-g", form="repaired")
    with pytest.raises(InvalidInput, match="exact local steps, more than"):
        walk_witness(THEOREM, witness("repaired", 40, "9"), form="repaired")
