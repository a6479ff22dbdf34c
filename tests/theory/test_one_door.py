"""One function judges a statement on a problem, whoever asks and however it is handed over."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from command_line import call

from fedtheory import theory
from fedtheory.algorithms import FedAvg, FedProx
from fedtheory.cli.request import CommandRequest
from fedtheory.errors import InvalidInput, UnknownName
from fedtheory.problems import random_quadratic
from fedtheory.theory import (
    GradientSteps,
    Paper,
    Prepared,
    Quadratics,
    eq,
    le,
    method,
    printed,
    repaired,
    verify,
)
from fedtheory.theory.judge import Checks, Statement
from fedtheory.theory.judge import verify as core_verify

PROBLEM = random_quadratic(3, 2, seed=1)
FILE = """
from fedtheory.algorithms import FedAvg
from fedtheory.theory import GradientSteps, Paper, Prepared, Quadratics, le, printed

paper = Paper("doors")


@paper.statement(
    "at-0", about=FedAvg(), local=GradientSteps(1, 0.1), problems=Quadratics((1, 3), (1, 2)),
    rounds=0,
)
def at_0(q):
    yield printed(le(q.sq(q.x), 0))
"""


def declared(over="round", **more):
    """x = 0, before the first round or at the start of a run; and something that holds."""
    paper = Paper("doors")
    how = {"about": FedAvg(), "problems": Quadratics((1, 3), (1, 2)), **more}

    rounds, work = (1, 2) if over == "run" else 0, GradientSteps(1, 0.1)

    @paper.statement("at-0", over=over, rounds=rounds, local=work, **how)
    def at_0(q):
        x = q.x[0] if over == "run" else q.x
        yield printed(le(q.sq(x), 0))
        yield repaired(eq(q.beta, q.beta))

    return paper["at-0"]


def verdicts(checks):
    return {c.form: c.verdict for c in checks}


def test_there_is_one_function():
    assert theory.verify is core_verify is Statement.verify


HANDED = [lambda s: s, lambda s: s.statement, lambda s: s.paper.statements[0]]


@pytest.mark.parametrize("handed", HANDED)
def test_a_round_is_judged_from_0_and_from_starts_that_are_drawn(handed):
    statement = handed(declared())
    found = verify(statement, PROBLEM)
    assert isinstance(found, Checks) and isinstance(found, list) and found.case.problem is PROBLEM
    assert verdicts(found) == {"printed": "violated", "repaired": "holds"}
    assert verdicts(verify(statement, PROBLEM, x0=np.zeros(2)))["printed"] == "holds"
    (one, _), (again, _), (other, _) = (verify(statement, PROBLEM, seed=seed) for seed in (0, 0, 1))
    assert one.lhs == again.lhs != other.lhs
    core = statement.statement if hasattr(statement, "statement") else statement
    for method_given in ((), (FedAvg(),)):
        assert verdicts(core.verify(PROBLEM, *method_given)) == verdicts(found)


def test_a_run_starts_at_0():
    assert verdicts(verify(declared("run"), PROBLEM))["printed"] == "holds"
    assert verdicts(verify(declared("run"), PROBLEM, x0=[1, 0]))["printed"] == "violated"


def test_the_command_line_starts_there_too(tmp_path):
    (file := tmp_path / "doors.py").write_text(FILE)
    asked = "verify", f"{file}::at-0", "--problem", "quadratic"
    for start, verdict in (((), "violated"), (("--start", "0"), "holds")):
        found = json.loads(call(*asked, *start, "--json").stdout)
        assert found["verdict"] == verdict
    assert "judged from 0 and 7 starts" in " ".join(call(*asked).stdout.split())


def test_a_changed_copy_and_a_variant_are_judged_as_they_are():
    statement = declared()
    assert verdicts(verify(statement, PROBLEM))["repaired"] == "holds"
    narrow = replace(statement, problems=Quadratics(1, (1, 2)))
    assert set(verdicts(verify(narrow, PROBLEM)).values()) == {"not applicable"}
    ruled = declared(about=method(FedProx, mu=1), rules={"light": {"mu": 1}, "heavy": {"mu": 9}})
    for mu, rule in ((1, "light"), (9, "heavy")):
        own = ruled.variants[rule]
        assert {c.rule for c in verify(own, PROBLEM)} == {rule}
        assert {c.rule for c in verify(ruled, PROBLEM, FedProx(mu=mu))} == {rule}
        assert verify(own, PROBLEM, FedProx(mu=10 - mu)).verdict == "not applicable"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"scenarios": 1}, "scenarios is 1"), ({"x0": [1, 2, 3]}, "x0"),
        ({"mode": "fast"}, "mode = 'fast'"), ({"seed": "a"}, "seed is 'a'"),
        ({"sampling": 3}, "sampling = 3"), ({"algorithm": 3}, "algorithm = 3"),
        ({"given": {"mu": 2}}, "nothing can be given"), ({"rounds": 0}, "rounds is 0"),
    ],
)  # fmt: skip
def test_arguments_are_checked_for_a_loose_statement_too(wrong, told):
    with pytest.raises(InvalidInput, match=told):
        verify(declared(), PROBLEM, **wrong)
    with pytest.raises(UnknownName, match="form"):
        verify(declared(), PROBLEM, forms=["printd"])


def test_the_setting_says_how_many_scenarios_at_most():
    for how, most in (({}, 400), ({"scenarios": 7}, 7)):
        assert verify(declared(), PROBLEM, **how).case.scenarios == most


def test_what_a_request_says_is_handed_on_and_the_case_has_its_own():
    request = CommandRequest({"start": "1,-2", "given": {"c": 1}}, None, 7, "exact", 60, 5)
    said = {"rounds": 7, "mode": "exact", "scenarios": 60, "seed": 5, "given": {"c": 1}}
    how = request.how(Prepared(PROBLEM, None))
    assert how.pop("x0").tolist() == [1, -2] and how == said
    own = {"x0": None, "rounds": 3, "sampling": 2}
    assert request.how(Prepared(PROBLEM, None, own)) == said | own


@pytest.mark.parametrize("start", ["1,-2", None])
def test_a_start_that_is_given_is_the_only_one(start):
    statement = declared()
    request = CommandRequest({"start": start, "given": None}, made=PROBLEM)
    x0 = request.how(statement.paper.setting.prepare(statement.statement, request))["x0"]
    assert x0 is None if start is None else x0.tolist() == [1, -2]
