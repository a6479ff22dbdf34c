"""A local solver that a statement is not judged with is told, and never ignored: on every kind of statement of every paper."""

from __future__ import annotations

import shlex

import numpy as np
import pytest
from repository import ROOT
from typer.testing import CliRunner

from fedtheory import Uniform, algorithms, problems, simulate, theorems
from fedtheory.cli import app
from fedtheory.cli.request import CommandRequest
from fedtheory.errors import InvalidInput
from fedtheory.local import SGD, Exact, GradientSteps, LocalSGD, SubgradientSliding
from fedtheory.theory.judge import registry
from fedtheory.theory.judge.own_run import bound, check_run
from fedtheory.theory.judge.proof_trace import walk
from fedtheory.theory.judge.registry import about_of, papers, setting_of
from fedtheory.theory.judge.verify import keep, verify

RNG = np.random.default_rng(0)
PROBLEM = problems.LeastSquares([RNG.normal(size=(6, 2)) for _ in range(3)], [RNG.normal(size=6) for _ in range(3)])
DYN = algorithms.FedElasticNetDyn(0.1, 50.0)


def _of_every_kind():
    """One statement for each kind of form, scope and answer to `Setting.local_work`."""
    found = {}
    for paper in papers():
        for statement in paper.statements:
            setting = setting_of(statement)
            if setting.about(statement).refusal is None and any(f.symbolic is None for f in statement.forms):
                kinds = tuple(sorted({f.kind for f in statement.forms}))
                found.setdefault((paper.id, kinds, statement.scope, setting.about(statement).work), statement)
    return list(found.values())


@pytest.mark.parametrize("solver", [SGD(3, 0.01, steps=2), GradientSteps(3, 1e-3)], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("statement", _of_every_kind(), ids=lambda s: s.id)
def test_no_statement_ignores_a_local_solver(statement, solver, monkeypatch, tmp_path):
    """Local SGD's full gradient steps are those of GradientSteps; nothing in the papers is about mini-batches without replacement."""
    from fedtheory.cli import verify as command

    judged, how = [], CommandRequest.how

    def judge(*args):
        judged.append(found := original(*args))
        return found

    original = command._judge
    monkeypatch.setattr(CommandRequest, "how", lambda *args: how(*args) | {"local_solver": solver})
    monkeypatch.setattr(command, "_judge", judge)
    example = shlex.split(about_of(statement).example or "")
    CliRunner().invoke(app, ["verify", statement.id, *example, "--out", str(tmp_path)])
    [(checks, _)] = judged
    data = {f.name for f in statement.forms if f.symbolic is None}
    verdicts = {c.verdict for c in checks if c.form in data}
    about_steps = isinstance(solver, GradientSteps) and (
        statement.scope.startswith(("algorithm-2", "scaffold")) or statement.paper == "elastic-aggregation"
    )
    if about_steps and about_of(statement).work is None:
        assert verdicts & {"holds", "violated"}
    else:
        assert verdicts == {"not applicable"}


@pytest.mark.parametrize("name", ["eq-14", "theorem-3.1", "algorithm-1-fixed-point", "moves", "eq-4"])
def test_fedelasticnets_exact_work_may_be_named_and_nothing_else(name):
    method = algorithms.FedElasticNetProx(0.1, 50.0) if name.startswith("algorithm-1") else DYN
    statement = theorems.get(f"fedelasticnet/{name}")

    def judged(solver):
        return [(c.form, c.verdict) for c in verify(statement, PROBLEM, method, local_solver=solver, rounds=3, scenarios=20)]

    assert judged(None) == judged(Exact()) and {v for _, v in judged(None)} & {"holds", "violated"}
    for solver in (SGD(6, 0.05, steps=2), GradientSteps(100, 1e-3), LocalSGD(2, 1e-3)):
        for check in verify(statement, PROBLEM, method, local_solver=solver, rounds=3, scenarios=20):
            assert check.verdict == "not applicable"
            assert check.reason.startswith(f"local work by {type(solver).__name__}: the statement is about exact local solutions")


def test_what_is_kept_walked_bounded_and_run_elsewhere():
    statement, solver = theorems.get("fedelasticnet/theorem-3.1"), SGD(6, 0.05, steps=2)
    for refused in (
        lambda: keep("fedelasticnet/eq-14", PROBLEM, DYN, "printed", local_solver=solver),
        lambda: walk("fedelasticnet/theorem-3.1", PROBLEM, DYN, local_solver=solver),
        lambda: bound(statement, PROBLEM, DYN, 3, local_solver=solver),
    ):
        with pytest.raises(InvalidInput, match=r"local work by SGD.* about exact local"):
            refused()
    inexact, exact = (simulate(PROBLEM, DYN, 4, local_solver=s, keep_states=True) for s in (solver, None))
    assert [c.verdict for c in check_run(statement, PROBLEM, DYN, inexact)] == ["not applicable"]
    assert [c.verdict for c in check_run(statement, PROBLEM, DYN, exact)] == ["holds"]


def test_fedmls_takes_its_own_steps_and_efl_local_sgd():
    lad = problems.LAD([RNG.normal(size=(5, 2)) for _ in range(3)], [RNG.normal(size=5) for _ in range(3)])
    method = algorithms.fedmls.fedmls_parameters(lad, 0.5, 5.0)
    for solver, judged in ((None, True), (SubgradientSliding(), True), (Exact(), True), (GradientSteps(2, 0.1), False)):
        [check] = verify("fedmls/theorem-1", lad, method, local_solver=solver, forms=["repaired"])
        assert (check.verdict != "not applicable") == judged
    for name, solver, judged in (
        ("theorem-1", LocalSGD(2, 1.0), True), ("theorem-1", Exact(), False), ("staleness", SGD(6, 0.05, steps=2), False),
        ("theorem-2-departure", None, True), ("theorem-2-departure", LocalSGD(2, 1.0), False),
    ):  # fmt: skip
        found = verify(f"efl/{name}", PROBLEM, algorithms.EFL(), local_solver=solver, rounds=3, scenarios=20)
        assert bool({c.verdict for c in found} & {"holds", "violated"}) == judged, (name, solver)


def test_where_runs_end_is_about_full_gradients_of_any_losses():
    """Of losses whose coordinates mix the limit alone is judged: the optimum, where every client is as likely as the others."""
    for solver, verdict in ((None, "holds"), (LocalSGD(5, 1e-3), "holds"), (LocalSGD(5, 1e-3, batch_size=2), "not applicable")):
        [check] = verify("efl/scheme-limit", PROBLEM, algorithms.EFL(), sampling=Uniform(2), local_solver=solver, forms=["unbiased"])
        assert check.verdict == verdict, check.reason


def test_an_authored_statement_says_itself_what_clients_do():
    """A run of anyone's is judged by its points: there the solver that made it is no reason to refuse."""
    (paper,) = registry.load_file(ROOT / "examples" / "wrong_constant.py")
    [statement], method = paper.statements, algorithms.FedAvg()
    problem = problems.Quadratic(np.ones((2, 1, 1)), np.array([[1.0], [3.0]]))
    solver = GradientSteps(1, 1.0)
    for work, told in ((None, ""), (solver, ""), (GradientSteps(1, 3.0), "lr = 3.0"), (Exact(), "is about gradient steps")):
        [check] = verify(statement, problem, method, local_solver=work, rounds=3, forms=["repaired"])
        assert check.verdict == ("not applicable" if told else "holds") and told in check.reason
    run = simulate(problem, method, 3, local_solver=solver, keep_states=True)
    assert [c.verdict for c in check_run(statement, problem, method, run, forms=["repaired"])] == ["holds"]
