"""Refusals of data and parameters of a problem, with the client and the value."""

import tracemalloc

import numpy as np
import pytest
from cases import each

from fedtheory import limits
from fedtheory.errors import InvalidInput
from fedtheory.problems import Huber, LeastSquares, Logistic, Quadratic, Softmax

ONE = [[[1.0, 2.0]], [[3.0, 4.0]]]  # two clients, one sample each
REGRESSIONS = [LeastSquares, Huber, Logistic]


@each("make", [*REGRESSIONS, lambda a, b: Softmax(a, b, 2)])
@each(
    ("features", "targets", "message"),
    [
        (ONE, [[1.0]], "2 clients but targets of 1"),
        (ONE, [[1.0], [1.0, 1.0]], r"client 1.*\(1, 2\).*\(2,\)"),
        ([[[1.0, 2.0]], [[3.0]]], [[1.0], [1.0]], "client 1.*disagree"),
        ([[1.0, 2.0]], [[1.0, 1.0]], "client 0.*disagree"),
        ([[[1.0, 2.0]], np.zeros((0, 2))], [[1.0], []], "client 1 has no samples"),
        ([], [], "no clients"),
        ([[[1.0, 2.0]], [[np.nan, 4.0]]], [[1.0], [1.0]], r"features of client 1\[0, 0\] is nan.*finite"),
        ([[[1.0, np.inf]]], [[1.0]], r"features of client 0\[0, 1\] is inf"),
        (ONE, [[1.0], [-np.inf]], r"targets of client 1\[0\] is -inf"),
    ],
)
def test_bad_data_is_refused(make, features, targets, message):
    with pytest.raises(InvalidInput, match=message):
        make(features, targets)


@each(
    ("make", "message"),
    [
        (lambda: Logistic(ONE, [[1.0], [0.0]]), "client 1: label 0 is 0.*-1 or \\+1"),
        (lambda: Logistic(ONE, [[2.0], [1.0]]), "client 0: label 0 is 2"),
        (lambda: Logistic([[[1.0], [1.0]]], [[1.0, -1.0000001]]), "client 0: label 1 is -1.0000001"),
        (lambda: Softmax(ONE, [[1], [2]], 2), "client 1: label 0 is 2.*0..1"),
        (lambda: Softmax(ONE, [[0.5], [1]], 2), "client 0: label 0 is 0.5"),
        (lambda: Softmax(ONE, [[-1], [1]], 2), "label 0 is -1"),
        (lambda: Softmax(ONE, [[0], [0]], 1), "num_classes is 1"),
        (lambda: Softmax(ONE, [[0], [0]], 2, ridge=np.nan), "ridge is nan"),
        (lambda: LeastSquares(ONE, [[1.0], [1.0]], ridge=-1.0), "ridge is -1.0"),
        (lambda: Huber(ONE, [[1.0], [1.0]], delta=0.0), "delta is 0.0.*> 0"),
        (lambda: Huber(ONE, [[1.0], [1.0]], delta=np.inf), "delta is inf"),
        (lambda: LeastSquares(ONE, [[1.0], [1.0]], weights=[0.5, 0.6]), "weights sum to 1.1"),
        (lambda: LeastSquares(ONE, [[1.0], [1.0]], weights=[1.5, -0.5]), "least -0.5"),
        (lambda: LeastSquares(ONE, [[1.0], [1.0]], weights=[1.0]), r"shape \(1,\).*2 clients"),
        (lambda: LeastSquares(ONE, [[1.0], [1.0]], weights="equal"), "'equal': use 'uniform'"),
        (lambda: Quadratic(np.eye(2), np.zeros((1, 2))), "disagree"),
        (lambda: Quadratic([np.eye(2)], np.zeros((1, 3))), "disagree"),
        (lambda: Quadratic([[[1.0, 1.0], [0.0, 1.0]]], np.zeros((1, 2))), "symmetr"),
        (lambda: Quadratic([[[np.nan]]], [[0.0]]), "hessians.*nan"),
    ],
)
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_many_classes_cost_no_more_than_their_labels():
    """One number for each sample and class, and nothing else of that size."""
    labels = [np.arange(5) * 40_000, np.array([0, 199_999, 7])]
    tracemalloc.start()
    try:
        problem = Softmax([np.ones((5, 2)), np.ones((3, 2))], labels, 200_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert problem.onehot.nbytes == 8 * 2 * 5 * 200_000 <= peak <= 1.1 * problem.onehot.nbytes
    assert [list(k) for k in problem.labels] == [list(k) for k in labels] and problem.onehot.sum() == 8


def test_more_classes_than_memory_are_refused_before_anything_is_made(monkeypatch):
    monkeypatch.setattr(limits, "free_memory", lambda: 1e9)
    with pytest.raises(InvalidInput, match="num_classes = 10000000"):  # a value and a gradient take four such arrays
        Softmax([np.ones((5, 1))], [np.arange(5)], 10**7)
    problem = Softmax([np.ones((2, 1))], [np.arange(2)], 10**4)
    monkeypatch.setattr(limits, "free_memory", lambda: 5e6)
    with pytest.raises(InvalidInput, match=r"an optimum in dimension 10,000 would take at least"):
        problem.optimum()
