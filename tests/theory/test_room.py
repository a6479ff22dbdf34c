"""A file's paper among those that the core knows: campaign, witnesses, search, a user's
problem."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from statements_at_hand import descent, instance

from fedtheory.algorithms import FedAvg
from fedtheory.cli.request import CommandRequest
from fedtheory.errors import InvalidInput
from fedtheory.participation.cohorts import Uniform
from fedtheory.problems import random_quadratic
from fedtheory.theory import load_file, study
from fedtheory.theory.judge.setting import Case, Plan
from fedtheory.theory.judge.witness import Witness

FOLDER = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def paper():
    return load_file(FOLDER / "descent_lemma.py")


def test_statements_have_their_forms_mutants_and_latex(paper):
    [statement] = paper.statements
    assert statement.id == "descent-lemma/lemma-1" and [f.name for f in statement.forms] == ["printed", "repaired"]
    assert statement.form("repaired").mutants[0].name and r"\nabla" in statement.form("printed").latex
    assert statement.form("printed").established == {"any": "violated"}


def test_a_campaigns_instances_are_data(paper):
    instances = paper.setting.instances(Plan(scale=0.2))
    checks = [c for i in instances for c in paper.setting.check(pickle.loads(pickle.dumps(i)), paper.statements)]
    assert {c.mode for c in checks} == {"rational", "exact"}
    assert not [c for c in checks if c.form == "repaired" and c.verdict != "holds"]
    assert [c for c in checks if c.form == "printed" and c.verdict == "violated"]


def test_a_witness_is_judged_from_its_data(paper):
    [statement] = paper.statements
    data = instance([[1]], [[0]], [1]).to_data()
    check, lhs, rhs, _ = paper.setting.exact_check(statement, Witness(statement.id, "printed", "any", "lemma-1", data))
    assert check.verdict == "violated" and (lhs, rhs * 2) == (0, -1)
    with pytest.raises(InvalidInput, match="not an instance of descent-lemma/lemma-1"):
        paper.setting.exact_check(
            statement, Witness(statement.id, "printed", "any", "lemma-1", {**data, "h": [["-1"]]})
        )


def test_a_studys_counterexample_is_a_witness_of_the_core(paper):
    [found] = study(load_file(FOLDER / "descent_lemma.py"), budget=60, necessity=False).counterexamples
    check, lhs, rhs, _ = paper.setting.exact_check(paper.statements[0], found)
    assert check.verdict == "violated" and (str(lhs), str(rhs)) == (found.lhs, found.rhs)


def test_the_cores_search_finds_the_wrong_constant(paper):
    [statement] = paper.statements
    found = {f.name: paper.setting.search(statement, f, "any", 90, 0) for f in statement.forms}
    assert found["printed"].witness is not None and found["repaired"].empty


def test_a_users_problem(paper):
    [statement] = paper.statements
    checks = paper.setting.verify(statement, statement.forms, Case(random_quadratic(3, 2, seed=1), FedAvg()))
    assert {c.form: c.verdict for c in checks} == {"printed": "violated", "repaired": "holds"}


def test_a_study_prints_and_is_kept(paper):
    made = study(descent(), budget=60, necessity=False)
    assert str(made).startswith("lemma: Descent.") and made.to_json()["rows"][0]["verdict"] == "violated"
    kept = paper.setting.study(paper.statements[0], 60, 0)
    assert kept.to_json()["ok"]


def test_importing_authoring_is_light():
    code = "import sys, fedtheory.theory; print([m for m in ('torch', 'cvxpy', 'matplotlib', 'rich', 'sympy') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_a_request_in_words_is_prepared(paper):
    """Two of five quadratic clients."""
    free = load_file(FOLDER / "own_method.py")
    request = CommandRequest({}, participants=2, made=random_quadratic(5, 2, seed=4))
    prepared = free.setting.prepare(free.statements[0], request)
    assert prepared.options["sampling"] == Uniform(2) and prepared.algorithm is None and "eta = 2" in prepared.head[1]
    with pytest.raises(InvalidInput, match="--participants 2: descent-lemma/lemma-1 is about Full"):
        paper.setting.prepare(paper.statements[0], request)
