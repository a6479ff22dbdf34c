"""Momentum and Adam: no statement of a paper is about them, so that none is judged."""

from __future__ import annotations

import numpy as np
import pytest

from fedtheory import algorithms, problems, simulate, theorems
from fedtheory.algorithms.fedmls import fedmls_parameters
from fedtheory.errors import InvalidInput
from fedtheory.local import Adam, GradientSteps, LocalSGD, Momentum
from fedtheory.theory.judge.own_run import bound, check_run
from fedtheory.theory.judge.proof_trace import walk
from fedtheory.theory.judge.verify import keep, verify

RNG = np.random.default_rng(0)
LAD = problems.LAD([RNG.normal(size=(5, 2)) for _ in range(3)], [RNG.normal(size=5) for _ in range(3)])
PROBLEM = problems.LeastSquares([RNG.normal(size=(6, 2)) for _ in range(3)], [RNG.normal(size=6) for _ in range(3)])
MLS = fedmls_parameters(LAD, 0.5, 5.0)
REMEMBERING = [Momentum(6, 0.05, steps=2), Adam(6, 0.05, steps=2)]
CASES = [  # a statement of each paper, a form, and the local work that it is judged with
    ("fedelasticnet/eq-14", "printed", algorithms.FedElasticNetDyn(0.1, 0.5), None),
    ("efl/theorem-1", "repaired", algorithms.EFL(), LocalSGD(2, 1.0)),
    ("elastic-aggregation/stability", None, algorithms.ElasticAggregation(tau=0.5), GradientSteps(2, 1e-3)),
    ("fedmls/theorem-1", "repaired", MLS, None),
]


def judged(name, form, algorithm, solver):
    problem, rounds = (LAD, None) if name.startswith("fedmls") else (PROBLEM, 3)
    return verify(name, problem, algorithm, local_solver=solver, rounds=rounds, scenarios=20, forms=None if form is None else [form])


@pytest.mark.parametrize("solver", REMEMBERING, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_no_papers_statement_is_judged(case, solver):
    name, form, algorithm, plain = case
    found = judged(name, form, algorithm, solver)
    assert {c.verdict for c in found} == {"not applicable"}
    assert all(f"local work by {type(solver).__name__}" in c.reason for c in found)
    assert {c.verdict for c in judged(name, form, algorithm, plain)} & {"holds", "violated"}  # it is the solver that decides


@pytest.mark.parametrize("solver", REMEMBERING, ids=lambda s: type(s).__name__)
def test_nor_a_run_of_ones_own(solver):
    method, statement = algorithms.FedElasticNetDyn(0.1, 0.5), theorems.get("fedelasticnet/theorem-3.1")
    run = simulate(PROBLEM, method, 4, local_solver=solver, keep_states=True)
    [check] = check_run(statement, PROBLEM, method, run)
    assert check.verdict == "not applicable" and "steps along what it remembers" in check.reason
    for refused in (
        lambda: bound(statement, PROBLEM, method, run=run),
        lambda: keep("fedelasticnet/eq-14", PROBLEM, method, "printed", local_solver=solver),
        lambda: walk("fedelasticnet/theorem-3.1", PROBLEM, method, local_solver=solver),
    ):
        with pytest.raises(InvalidInput, match="steps along what it remembers"):
            refused()
