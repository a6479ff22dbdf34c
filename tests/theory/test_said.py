"""An authored statement about another method, or with other numbers than a run was made with, gives no verdict on that run."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from repository import ROOT

from fedtheory import problems, simulate
from fedtheory.algorithms import FedAvg, FedProx
from fedtheory.errors import FedTheoryError, InvalidInput, UnknownName
from fedtheory.local import SGD, Exact, GradientSteps
from fedtheory.testing import assert_statement
from fedtheory.theory import GradientSteps as Work
from fedtheory.theory import Minimise, Paper, Quadratics, Uniform, among, le, method, repaired, upto
from fedtheory.theory.judge import register, registry
from fedtheory.theory.judge.own_run import bound, check_run
from fedtheory.theory.judge.proof_trace import walk
from fedtheory.theory.judge.verify import verify

PROBLEM = problems.random_quadratic(3, 2, 1)
BETA = float(PROBLEM.beta_k.max())
ONE = problems.Quadratic(np.ones((1, 1, 1)), np.zeros((1, 1)))  # f = x^2/2
paper = Paper("said", title="Gradient descent with numbers that are left open", source="tests")
made = {"problems": Quadratics(clients=(1, 3), dimension=(1, 3)), "over": "run", "rounds": (1, 4)}
STEP = Work(1, lr=upto(lambda c: 1 / c.beta))


@paper.statement("rate", about=FedAvg(), local=STEP, **made)
def rate(q):
    """2 eta T (F(x_T) - F*) <= ||x_0 - x*||^2, with eta on the left."""
    yield repaired(le(2 * q.eta * q.T * q.gap[-1], q.distance_sq[0]), r"2\eta T (F(x_T)-F^*) \le \|x_0-x^*\|^2", holds=True)


@paper.statement("bound", about=FedAvg(), local=STEP, **made)
def with_eta_on_the_right(q):
    """The same with eta on the right."""
    yield repaired(le(q.gap[-1], q.distance_sq[0] / (2 * q.eta * q.T)), r"F(x_T)-F^* \le b", holds=True)


@paper.statement("descent", about=FedAvg(), local=STEP, **made)
def without_eta(q):
    """Distances fall, whatever the step."""
    yield repaired(le(q.distance_sq[1:], q.distance_sq[:-1]), r"\|x_{t+1}-x^*\| \le \|x_t-x^*\|", holds=True)


@paper.statement("horizon", about=FedAvg(), local=Work(1, lr=lambda c: 1 / (c.beta * (1 + c.T))), **made)
def of_the_horizon(q):
    """The rate, with a step size that is made for T."""
    yield repaired(le(q.gap[-1], q.distance_sq[0] / (2 * q.eta * q.T)), r"F(x_T)-F^* \le b", holds=True)


@paper.statement("prox", about=method(FedProx, mu=among("1/2", 1, 4)), local=Minimise(), **made)
def prox(q):
    """The proximal point method's rate with one client: F(x_T) - F* <= mu ||x_0 - x*||^2 / (2 T)."""
    yield repaired(le(q.gap[-1], q.method.mu * q.N**2 * q.distance_sq[0] / (2 * q.T)), r"F(x_T)-F^* \le b")



@pytest.fixture(autouse=True)
def _known():
    register(paper)


def descent(lr, rounds=4, problem=PROBLEM):
    """Somebody's gradient descent."""
    x = [np.ones(problem.dim)]
    for _ in range(rounds):
        x.append(x[-1] - lr * problem.full_gradient(x[-1]))
    return np.array(x)


def judged(name, run, lr=None, algorithm=None, problem=PROBLEM):
    solver = None if lr is None else GradientSteps(1, lr)
    [check] = check_run(f"said/{name}", problem, algorithm, run, local_solver=solver)
    return check


@pytest.mark.parametrize("share", [1, 0.5, 0.1, 0.01])
def test_a_run_is_judged_with_the_numbers_it_was_made_with(share):
    """With the limit's step size in place of its own, the runs of a tenth of it would refute a rate that is proved."""
    lr = share / BETA
    run = descent(lr)
    for name in ("rate", "bound"):
        assert judged(name, run, lr).verdict == "holds"
        unsaid = judged(name, run)
        assert unsaid.verdict == "inconclusive" and "depends on lr, which the statement leaves open" in unsaid.reason
    assert judged("descent", run).verdict == judged("descent", run, lr).verdict == "holds"
    values = np.asarray(bound("said/bound", PROBLEM, None, 4, x0=run[0], local_solver=GradientSteps(1, lr)))
    star = PROBLEM.optimum().x
    np.testing.assert_allclose(values, ((run[0] - star) ** 2).sum() / (2 * lr * np.arange(1, 5)), rtol=1e-9)


def test_the_bound_alone_needs_the_number_too():
    with pytest.raises(InvalidInput, match=r"depends on lr, which the statement leaves open: local_solver=GradientSteps"):
        bound("said/bound", PROBLEM, None, 4)


def test_numbers_beyond_the_declared_ones_and_other_work_are_none_of_the_statement():
    for lr, reason in ((3 / BETA, "about lr up to 1"), (1.001 / BETA, "about lr up to 1")):
        check = judged("rate", descent(lr), lr)
        assert check.verdict == "not applicable" and reason in check.reason
    assert judged("rate", descent(1 / BETA), 1 / BETA * (1 + 1e-14)).verdict == "holds"  # the limit itself, rounded
    for solver in (SGD(2, 0.1, steps=1), Exact(), GradientSteps(2, 1 / BETA), GradientSteps(1, 1 / BETA, decay=0.9)):
        [check] = check_run("said/rate", PROBLEM, None, descent(1 / BETA), local_solver=solver)
        assert check.verdict == "not applicable", solver
        assert "said/rate is about" in check.reason
    run = simulate(PROBLEM, FedAvg(), 4, local_solver=GradientSteps(1, 0.1 / BETA), keep_states=True)  # which knows its solver
    assert [c.verdict for c in check_run("said/rate", PROBLEM, FedAvg(), run)] == ["holds"]


def test_another_method_is_told_and_never_ignored():
    for algorithm in (FedProx(mu=1.0), FedAvg(aggregation="cohort")):
        [check] = verify("said/rate", PROBLEM, algorithm)
        assert check.verdict == judged("rate", descent(1 / BETA), 1 / BETA, algorithm).verdict == "not applicable"
        assert "said/rate is about FedAvg(" in check.reason and "leave the algorithm out" in check.reason
        with pytest.raises(InvalidInput, match="said/descent is about FedAvg"):
            bound("said/descent", PROBLEM, algorithm, 4)
    registry.load_file(ROOT / "docs" / "walked_proof.py")
    with pytest.raises(InvalidInput, match="walked-proof/rate is about FedAvg"):
        walk("walked-proof/rate", PROBLEM, FedProx(mu=1.0))
    assert walk("walked-proof/rate", PROBLEM, FedAvg()).adds_up
    for algorithm in (None, FedAvg()):
        assert [c.verdict for c in verify("said/rate", PROBLEM, algorithm)] == ["holds"]


def test_the_numbers_of_a_method_are_those_that_are_handed_over():
    """By hand: f = x^2/2 from x = 1. x_1 = mu/(1 + mu), and the bound is mu/2."""
    for mu in (Fraction(1, 2), 1, 4):
        x = float(mu / (1 + Fraction(mu)))
        [check] = verify("said/prox", ONE, FedProx(mu=float(mu)), rounds=1, x0=np.ones(1))
        assert check.verdict == "holds"
        assert math.isclose(check.rhs, mu / 2, rel_tol=1e-12) and math.isclose(check.lhs, x**2 / 2, rel_tol=1e-12)
        [own] = check_run("said/prox", ONE, FedProx(mu=float(mu)), np.array([[1.0], [x]]))
        assert math.isclose(own.rhs, mu / 2, rel_tol=1e-12)
    [check] = verify("said/prox", ONE, FedProx(mu=2.0), rounds=1)
    assert check.verdict == "not applicable" and "mu = 2.0: said/prox is about mu 1/2 or 1 or 4" in check.reason
    [unsaid] = check_run("said/prox", ONE, None, np.array([[1.0], [0.5]]))
    assert unsaid.verdict == "inconclusive" and "hand over the method with its mu" in unsaid.reason
    [other] = verify("said/prox", ONE, FedProx(mu=1.0, aggregation="samples"), rounds=1)
    assert other.verdict == "not applicable" and "said/prox is about FedProx(" in other.reason


def test_a_number_made_for_the_horizon_is_judged_there_alone():
    """The run of T rounds has the step size 1/(beta (1 + T)); its first rounds are no run of fewer rounds."""
    rounds = 20
    lr = 1 / (BETA * (1 + rounds))
    run = descent(lr, rounds)
    check = judged("horizon", run)
    assert check.verdict == "holds" and check.count == 1
    assert judged("bound", run, lr).count > 1
    found = bound("said/horizon", PROBLEM, None, rounds, x0=run[0])
    assert found.horizons.tolist() == [rounds]
    np.testing.assert_allclose(np.asarray(found), ((run[0] - PROBLEM.optimum().x) ** 2).sum() / (2 * lr * rounds), rtol=1e-9)


@paper.statement(
    "cohorts", about=FedAvg(), local=Work(1, lr=upto(lambda c: 1 / (c.beta * c.P))), sampling=Uniform,
    problems=Quadratics(clients=(1, 3), dimension=(1, 2)), over="round",
)  # fmt: skip
def cohorts(q):
    """The step's limit depends on how many take part."""
    yield repaired(le(q.eta * q.beta * q.P, 1), r"\eta \beta P \le 1", holds=True)


def test_the_limit_is_that_of_the_cohorts_judged():
    for seed in range(4):
        for sampling in (None, Uniform(2)):
            [check] = verify(paper["cohorts"], PROBLEM, FedAvg(), sampling=sampling, seed=seed)
            assert check.verdict == "holds" and math.isclose(check.lhs, 1.0, rel_tol=1e-9)


# --- where a statement is found -------------------------------------------------------------------
def test_a_run_is_held_to_a_statement_in_a_file(tmp_path):
    """By hand: gradient descent on x^2/2 with steps of 1/2 from 1; distances 1, 1/4, 1/16, and (1 - 1/2)^T times the first."""
    file = tmp_path / "my_rate.py"
    file.write_text(
        "from fedtheory.algorithms import FedAvg\n"
        "from fedtheory.theory import GradientSteps, Paper, StronglyConvex, le, repaired, upto\n"
        "paper = Paper('my-rate', title='Rates', source='tests')\n"
        "@paper.statement('contraction', about=FedAvg(), local=GradientSteps(1, lr=upto(lambda c: 1 / c.beta)),\n"
        "                 problems=StronglyConvex(clients=(1, 2), dimension=(1, 2)), over='run', rounds=(1, 3))\n"
        "def contraction(q):\n"
        "    yield repaired(le(q.distance_sq[-1], q.power(1 - q.eta * q.mu, q.T) * q.distance_sq[0]), 'c')\n"
    )
    models = np.array([[1.0], [0.5], [0.25]])
    (check,) = assert_statement(f"{file}::contraction", models, ONE, local_solver=GradientSteps(1, 0.5))
    assert check.tightness == pytest.approx(0.5) and check.verdict == "holds"
    with pytest.raises(AssertionError, match="violated"):  # a quarter is no bound at T = 1 for a step of 3/4: models that are another's
        assert_statement(f"{file}::contraction", np.array([[1.0], [0.6]]), ONE, local_solver=GradientSteps(1, 0.75))
    with pytest.raises(UnknownName, match=r"statement of .*my_rate\.py 'contractio': did you mean 'contraction'"):
        registry.get(f"{file}::contractio")


def test_a_statement_is_judged_by_the_paper_that_it_was_declared_in():
    """Whichever way it is handed over, and whoever else has a paper of that id."""
    papers = []
    for steep in (1, 1000):
        papers.append(paper := Paper("twice", title="t", source="s"))

        @paper.statement("rate", about=FedAvg(), local=Work(1, lr=lambda c: 1 / c.beta), **made)
        def claim(q, steep=steep):
            yield repaired(le(steep * q.distance_sq[0], 4 * q.distance_sq[0]), "b")

        paper.claim("talk", "t", "a")
    registry.register(papers[1])
    one, other = papers
    models = np.array([[1.0], [0.0]])
    for paper, verdict in ((one, "holds"), (other, "violated")):
        core, authored = paper.statements[0], paper["rate"]
        assert registry.get(authored) is core and registry.paper_of(core) is paper
        for given in (core, authored):
            assert [c.verdict for c in verify(given, ONE, rounds=1, x0=[1.0])] == [verdict]
            assert check_run(given, ONE, None, models).verdict == verdict
        assert core.verify(ONE, None, rounds=1, x0=[1.0]).verdict == verdict
        [talk] = verify(paper.statements[1], ONE)
        assert talk.verdict == "not applicable" and "it is a claim that cannot be proved" in talk.reason


def test_the_step_size_has_its_name():
    paper = Paper("step-size", title="t", source="s")

    @paper.statement("rate", about=FedAvg(), local=Work(1, lr=lambda c: 1 / c.beta), **made)
    def claim(q):
        yield repaired(le(q.gap[-1], q.distance_sq[0] / (2 * q.lr * q.T)), "b")

    with pytest.raises(FedTheoryError, match=r"unknown quantity 'lr': the local step size is q\.eta"):
        paper.statements  # noqa: B018
