"""Statements of a file on problems whose clients have uneven numbers of samples, and equal weights in F."""

from __future__ import annotations

import numpy as np
import pytest
from command_line import call

from fedtheory.algorithms import FedAvg
from fedtheory.problems import LeastSquares
from fedtheory.testing import assert_statement
from fedtheory.theory import GradientSteps, Quadratics, SmoothConvex, eq, le, printed, verify

FILE = '''
from fedtheory.algorithms import FedAvg
from fedtheory.theory import *
paper = Paper("uneven")


@paper.statement("a", about=FedAvg(), problems=SmoothConvex((1, 5), (1, 2)), local=GradientSteps(1, lambda c: 1 / c.beta), over="round")
def a(q):
    """The loss goes down."""
    yield printed(le(q.F_next, q.F))
'''


@pytest.fixture
def statement():
    from fedtheory.theory import Paper

    def made(body, **how):
        paper = Paper("uneven-at-hand")
        return paper.statement("a", about=FedAvg(), local=GradientSteps(1, 1), **how)(body)

    return made


@pytest.fixture
def uneven():
    """f_1(x) = (x - 1)^2/2 of one sample, f_2(x) = (x - 3)^2/2 of three; both weigh 1/2."""
    return LeastSquares([np.ones((1, 1)), np.ones((3, 1))], [np.ones(1), np.full(3, 3.0)])


def test_the_server_averages_by_the_weights_of_F(statement, uneven):
    """One step of size 1 takes clients to 1 and 3: their mean is 2, and weighed by samples 5/2."""
    assert list(uneven.sample_counts) == [1, 3] and list(uneven.weights) == [0.5, 0.5]

    def ends_at(point):
        made = statement(lambda q: [printed(eq(q.x_next + 0 * q.x, point + 0 * q.x))], problems=Quadratics((1, 5), 1))
        return verify(made, uneven, x0=[7.0])[0].verdict

    assert (ends_at(2), ends_at(2.5)) == ("holds", "violated")


def test_a_run_that_others_made_may_have_averaged_by_samples(statement, uneven, tmp_path):
    made = statement(lambda q: [printed(le(q.F[-1], q.F[0]))], problems=SmoothConvex((1, 5), 1), over="run", rounds=(1, 3))
    assert verify(made, uneven)[0].verdict == "holds"
    of_runs = FILE.replace('"round"', '"run", rounds=(1, 3)').replace("q.F_next, q.F", "q.F[-1], q.F[0]")
    (tmp_path / "uneven.py").write_text(of_runs.replace('"uneven"', '"uneven-runs"'))
    with pytest.raises(AssertionError, match="not the clients' shares of the samples"):
        assert_statement(f"{tmp_path / 'uneven.py'}::a", np.array([[7.0], [2.0]]), uneven, FedAvg(), form="printed")


def test_the_command_says_whose_weights_the_server_takes(tmp_path):
    (tmp_path / "uneven.py").write_text(FILE)
    told = call("verify", f"{tmp_path / 'uneven.py'}::a", "--problem", "diabetes", "--clients", 5, "--out", tmp_path).stdout
    flat = " ".join(told.split())
    assert "averages by F's weights, whatever the clients' numbers of samples are" in flat and "As printed it holds here." in flat
