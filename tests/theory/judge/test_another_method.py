"""Every statement of every paper, put to a method that it is not about: a verdict only where no method enters, and never a crash."""

from __future__ import annotations

import pytest

from fedtheory import problems
from fedtheory.algorithms import FedProx
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.theory.judge.registry import about_of, papers
from fedtheory.theory.judge.verify import verify

PROBLEM = problems.random_quadratic(3, 2, 1)


@pytest.mark.parametrize("statement", [s for paper in papers() for s in paper.statements], ids=lambda s: s.id)
def test_the_proximal_method_gets_no_verdict_of_anothers(statement):
    try:
        checks = verify(statement, PROBLEM, FedProx(mu=1.0), rounds=3, scenarios=20)
    except (InvalidInput, MissingCapability):
        return
    judged = {c.verdict for c in checks} & {"holds", "violated"}
    of_a_run = any(word in statement.scope for word in ("algorithm", "run", "fedmls", "mopes", "descent"))
    assert not (judged and of_a_run), statement.scope
    if about_of(statement).refusal is not None and statement.kind == "claim":
        assert all(c.verdict == "not applicable" and c.reason for c in checks)
