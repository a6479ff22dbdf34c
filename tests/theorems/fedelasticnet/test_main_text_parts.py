"""Parts of the main text's views: linear systems, semidefinite matrices, minimisers, files."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import combinations, product

import numpy as np
import pytest

from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.theorems.fedelasticnet.main_text import quadratics
from fedtheory.theorems.fedelasticnet.main_text.enclosures import exp_minus
from fedtheory.theorems.fedelasticnet.main_text.quadratics import Quadratics
from fedtheory.theorems.fedelasticnet.main_text.world import exact as in_fractions
from fedtheory.theorems.fedelasticnet.notation import nine_tenths
from fedtheory.theorems.fedelasticnet.quantities import soft
from fedtheory.theorems.fedelasticnet.statements.messages import MessageView
from fedtheory.theory.judge.statement import le


def exact(rows: str) -> np.ndarray:
    """'1 2;0 1' as a matrix of fractions, '1 2' as a vector."""
    made = [[F(v) for v in row.split()] for row in rows.split(";")]
    return np.array(made if ";" in rows else made[0], dtype=object)


def determinant(A: list[list[F]]) -> F:
    """By expansion along the first row."""
    if not A:
        return F(1)
    return sum((-1) ** j * v * determinant([row[:j] + row[j + 1 :] for row in A[1:]]) for j, v in enumerate(A[0]))


# --- linear algebra -----------------------------------------------------------------------------
@pytest.mark.parametrize("d", [1, 2, 3])
def test_semidefinite_is_no_negative_principal_minor(d):
    at = [(i, j) for i in range(d) for j in range(i, d)]
    some = (F(0), F(2, 3), F(2), F(-1, 3))[: 4 if d < 3 else 3]
    for values in product(*(some if i == j else some[: 5 - d] for i, j in at)):
        A = [[values[at.index((min(i, j), max(i, j)))] for j in range(d)] for i in range(d)]
        minors = [determinant([[A[i][j] for j in of] for i in of]) for n in range(d + 1) for of in combinations(range(d), n)]
        kept = np.array(A, dtype=object)
        assert quadratics.semidefinite(kept) == (min(minors) >= 0), A
        assert kept.tolist() == A  # as it was


def test_systems_are_solved_where_they_can_be():
    A, x = exact("0 2 -1/3;3/2 1/5 7;2/3 -1 5/4"), exact("7/2 -4/3 5")
    assert (quadratics.solved(A, A @ x) == x).all()
    assert quadratics.solved(exact("1 2;2 4"), exact("1 2")) is None
    assert quadratics.solved(exact("0 0;0 3"), exact("0 2")) is None


def test_r_is_minimised_where_the_mean_gradient_is_0():
    H = np.stack([exact("3 1/2;1/2 5/2"), exact("2 -2/3;-2/3 4/3")])
    view = Quadratics(H=H, q=exact("3/2 -7/3;-5/4 2"), theta=exact("2/3 5"))
    assert (view.m, view.d) == (2, 2)
    assert (view.gradients([view.star] * 2).sum(axis=0) == 0).all()
    # (3 * 2/3 + 5/2 - 3/2, 1/3 + 25/2 + 7/3), and at the origin -q_2
    assert view.gradients([view.theta, view.theta * 0]).tolist() == [[F(3), F(91, 6)], [F(5, 4), F(-2)]]


def test_thresholds_are_fractions():
    assert soft(exact("-5/2 0 1/3 3/7 1"), F(3, 7)).tolist() == [F(-29, 14), 0, 0, 0, F(4, 7)]
    assert quadratics.sq(exact("1 2;-1/2 3")).tolist() == [5, F(37, 4)]
    assert {type(v) for v in soft(exact("-5/2 0 1"), F(3, 7))} == {F}
    found = in_fractions(np.array([True, False]))
    assert found.tolist() == [F(1), F(0)] and {type(v) for v in found} == {F}
    assert in_fractions(F(1) > 0) == F(1) and isinstance(in_fractions(F(1) > 0), F)


def test_a_tenth_of_the_right_side_is_taken_off():
    sides = nine_tenths(le(F(3), F(7)))
    assert (sides.lhs, sides.rhs, sides.relation) == (3, F(63, 10), "<=")


def test_an_instance_has_its_name():
    made = MessageView.instance("one", {"x": ["1"]})
    assert (made.name, made.family, made.view().x.tolist()) == ("message: one seed=0", "main text, message", [1])
    assert MessageView.instance("one", {"x": ["1"]}, 7).name == "message: one seed=7"


# --- minimisers -----------------------------------------------------------------------------------
def optimal(Q: np.ndarray, b: np.ndarray, level: F, x: np.ndarray) -> bool:
    """Return whether 0 is in Q x - b + level times the subdifferential of the 1-norm."""
    slope = Q @ x - b
    return all(s == (-level if v > 0 else level) if v else abs(s) <= level for s, v in zip(slope, x, strict=True))


def hard(d: int) -> np.ndarray:
    """A matrix whose coordinates mix much: 2 on the diagonal, 9/5 beside it, 8/5 beyond, and so on, so that x is far from b."""
    return np.array([[F(2) - abs(i - j) * F(1, 5) for j in range(d)] for i in range(d)], dtype=object)


@pytest.mark.parametrize("level", [F(0), F(3, 7), F(5, 2), F(20)])
@pytest.mark.parametrize("d", [2, 5, 7])
def test_minimisers_are_optimal_also_where_signs_are_not_tried(level, d):
    """In seven coordinates the signs that floats find are the only ones."""
    b = exact("7/2 -4/3 5 -3/5 2/3 -9 11/4")[:d]
    x = quadratics.minimiser(hard(d), b, level)
    assert optimal(hard(d), b, level, x) and {type(v) for v in x} == {F}
    if level == 0:
        assert (hard(d) @ x == b).all()


def test_where_floats_mislead_the_signs_are_tried(monkeypatch):
    """A slope of 1 above a threshold of 10^18: floats see none, and the minimiser is 1/2."""
    far = F(10**18)
    Q, b = exact("2 0;0 3"), np.array([far + 1, -far - 2], dtype=object)
    assert quadratics.minimiser(Q, b, far).tolist() == [F(1, 2), F(-2, 3)]
    assert quadratics.minimiser(quadratics.identity(5), np.array([far + 1] * 5, dtype=object), far).tolist() == [1] * 5
    six = quadratics.identity(6)
    with pytest.raises(NotCertified, match="6 coordinates"):
        quadratics.minimiser(six, np.array([far + 1] * 6, dtype=object), far)


def test_all_minimisers_are_found_for_five_coordinates():
    b = exact("-3 2 1/2 5 -1/3")
    (only,) = quadratics.minimisers(quadratics.identity(5), b, F(1))
    assert only.tolist() == [-2, 1, 0, 4, 0]
    twins = quadratics.minimisers(exact("2 2;2 2"), exact("2 2"), F(1))
    assert sorted(x.tolist() for x in twins) == [[0, F(1, 2)], [F(1, 2), 0]]
    (only,) = quadratics.minimisers(exact("0 0;0 2"), exact("1 5"), F(1))  # flat, with the slope 1
    assert only.tolist() == [0, 2]
    with pytest.raises(InvalidInput, match=r"d = 6: .* at most 5"):
        quadratics.minimisers(quadratics.identity(6), exact("1 1 1 1 1 1"), F(1))


# --- what a file holds ----------------------------------------------------------------------------
def test_matrices_are_read():
    assert quadratics.hessian("H", ["1/2", "3"]).tolist() == [[F(1, 2), 0], [0, 3]]
    assert quadratics.hessian("H", [["1/2", "3"], ["3", "-1"]]).tolist() == [[F(1, 2), 3], [3, -1]]
    found = quadratics.hessians("H", [["1/2", "3"], [["1", "1/3"], ["1/3", "2"]]])
    assert found.tolist() == [[[F(1, 2), 0], [0, 3]], [[1, F(1, 3)], [F(1, 3), 2]]]


SYMMETRIC = "expected a symmetric matrix"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("1/2", "expected rows of fractions"),
        ([], "expected rows of fractions"),
        (["1", "2", "3"], r"is \(3, 3\), and H\[0\] \(2, 2\)"),
        ([["1", "2"]], SYMMETRIC),
        ([["1", "2"], ["3", "1"]], SYMMETRIC),
        ([["1", "0", "0"], ["0", "1", "0"]], SYMMETRIC),
    ],
)
def test_what_is_no_symmetric_matrix_is_refused(value, words):
    with pytest.raises(InvalidInput, match=rf"H\[1\].*{words}"):
        quadratics.hessians("H", [["1", "1"], value])


@pytest.mark.parametrize(("value", "at"), [(["1", "x"], r"\[1\]"), ([["1", "0"], ["x", "1"]], r"\[1\]\[0\]")])
def test_a_number_that_is_none_is_named(value, at):
    with pytest.raises(InvalidInput, match=rf"H\[0\]{at} = 'x'"):
        quadratics.hessians("H", [value])


@pytest.mark.parametrize("values", ["1", [], (["1"],)])
def test_a_matrix_for_each_client_is_asked_for(values):
    with pytest.raises(InvalidInput, match=r"G = .*one matrix"):
        quadratics.hessians("G", values)


def test_a_loss_that_is_not_convex_is_refused():
    with pytest.raises(InvalidInput, match=r"H\[1\] = \[\['1', '2'\], \['2', '1'\]\].*semidefinite"):
        quadratics.hessians("H", [["1", "1"], [["1", "2"], ["2", "1"]]])


# --- exponentials ---------------------------------------------------------------------------------
@pytest.mark.parametrize("x", [F(1, 7), F(1), F(7, 3), F(301, 20)])
def test_exponentials_are_enclosed_by_their_series(x):
    """e^x >= its partial sums, and e^x <= one more with the last term times 1/(1 - x/n), for n > x."""
    exp_minus.cache_clear()
    low, high = exp_minus(x)
    terms = [F(1)]
    while terms[-1] > F(1, 10**60) or len(terms) <= 2 * x:
        terms.append(terms[-1] * x / len(terms))
    below, above = sum(terms), sum(terms) + terms[-1]
    assert low <= 1 / below and 1 / above <= high and low * below > 1 - F(1, 2**100) and high * below < 1 + F(1, 2**100)
    assert exp_minus(F(0)) == (1, 1)
