"""Proofs in symbols decide signs and matrices: by hand, from both sides of every edge."""

from __future__ import annotations

import pytest
import sympy as sp
from cases import each

from fedtheory.worst_cases import proofs
from fedtheory.worst_cases.best import _Table
from fedtheory.worst_cases.gram import Quadratic, common, own, square, value

LAM = sp.symbols("lambda", positive=True)
ZERO, ONE, TWO = map(sp.Integer, range(3))
TINY = sp.Rational(1, 10**20)

SIGNS = [
    # expressions, low, high, whether they are at least 0 there
    ([LAM - 1], ONE, TWO, True), ([LAM - 1], ONE - TINY, TWO, False), ([LAM - 1], ONE, None, True),
    ([LAM - 1], ONE - TINY, None, False), ([2 - LAM], ONE, TWO, True),
    ([2 - LAM], ONE, TWO + TINY, False), ([2 - LAM], ONE, None, False),
    ([(LAM - 1) ** 2], ZERO, TWO, True), ([(LAM - 1) ** 2 - TINY], ZERO, TWO, False),
    ([(LAM - 1) ** 2 - TINY], ZERO, None, False), ([(LAM - 1) * (LAM - 2)], TWO, None, True),
    ([(LAM - 1) * (LAM - 2)], ZERO, ONE, True), ([(LAM - 1) * (LAM - 2)], ZERO, TWO, False),
    ([(LAM - 1) * (LAM - 2) * (LAM - 9)], ONE, TWO, True),
    ([(LAM - 1) * (LAM - 2) * (LAM - 9)], ONE, None, False),
    ([(LAM - 2) * (9 - LAM)], TWO, None, False),
    ([1 / (LAM - 1)], ZERO, TWO, False), ([1 / (LAM - 1) ** 2], ZERO, TWO, True),
    ([1 / (2 - LAM)], ZERO, ONE, True), ([1 / (2 - LAM)], ZERO, None, False),
    ([LAM / (1 + LAM)], ZERO, None, True), ([-LAM / (1 + LAM)], ZERO, None, False),
    ([ZERO, LAM], ZERO, ONE, True), ([ONE, -ONE], ZERO, ONE, False), ([], ZERO, ONE, True),
    ([-ONE, ONE], ZERO, None, False), ([LAM**2 - 2], sp.sqrt(2), None, True),
    ([LAM**2 - 2 - TINY], sp.sqrt(2), None, False), ([sp.Rational(-11, 10**31)], ZERO, ONE, False),
    ([LAM**2 - 6], sp.sqrt(2) * sp.sqrt(3), None, True),
]  # fmt: skip


@each(("expressions", "low", "high", "fine"), SIGNS)
def test_signs_between_two_numbers(expressions, low, high, fine):
    assert proofs._at_least_0(expressions, LAM, low, high) is fine


def test_pivots_of_a_matrix():
    assert proofs._pivots([[TWO, ONE], [ONE, ONE]]) == [2, sp.Rational(1, 2)]
    rows = [[sp.Integer(x) for x in row] for row in ([1, 2, 0], [2, 5, 1], [0, 1, 3])]
    assert proofs._pivots(rows) == [1, 1, 2] and proofs._pivots([]) == []
    assert proofs._pivots([[LAM, 1], [1, LAM]]) == [LAM, (LAM**2 - 1) / LAM]


def test_matrices_that_are_definite_on_a_range():
    """lambda x^2 + 2 x y + lambda y^2 from 1 on; a block that has another row is not looked at."""
    x, y = common("x"), common("y")
    form = LAM * square(x) + 2 * x.inner(y) + LAM * square(y) + -1 * square(own("z").own_part)
    for low, fine in ((ONE, True), (ONE - TINY, False)):
        for order in (("x", "y"), ("y", "x")):
            assert proofs._semidefinite(form, "mean", order, LAM, low, TWO) is fine
    apart = LAM * square(x) + LAM * square(y)
    assert proofs._semidefinite(apart, "mean", ("x", "y"), LAM, ZERO, TWO)
    assert not proofs._semidefinite(form, "mean", ("x",), LAM, ONE, TWO)
    assert not proofs._semidefinite(form, "deviation", ("x", "y"), LAM, ONE, TWO)
    assert not proofs._semidefinite(form, "deviation", ("z",), LAM, ONE, TWO)
    assert proofs._semidefinite(-1 * form, "deviation", ("z",), LAM, ONE, TWO)


def test_expressions_that_are_the_same():
    one = Quadratic({("mean", "x", "y"): (LAM**2 - 1) / (LAM - 1)}, {"p": 1 / LAM}, 2 * LAM)
    two = Quadratic({("mean", "x", "y"): LAM + 1}, {"p": LAM / LAM**2}, LAM + LAM)
    assert proofs._same(one, two) and proofs._same(two - one, Quadratic())
    for more in (TINY * square(common("x")), TINY * value("p"), Quadratic(constant=TINY)):
        assert not proofs._same(one, two + more) and not proofs._same(one - more, two)


@pytest.mark.parametrize("four", [sp.Rational(39, 10), sp.Rational(41, 10)])
def test_fedmls_is_not_proved_with_another_number(four):
    assert not proofs.fedmls_is_proved(four)


def test_numbers_of_a_table_of_inner_products():
    """Both orders of the names of an entry are one; what is not written is 0."""
    table = _Table({("mean", "y", "x"): LAM, ("mean", "x", "x"): TWO}, {"p": ONE})
    form = Quadratic(
        {("mean", "x", "y"): 1 / LAM, ("mean", "x", "x"): 3, ("mean", "a", "x"): 7},
        {"p": LAM, "q": 5}, 11,
    )  # fmt: skip
    assert table.of(form) == LAM + 18


def test_what_is_left_of_a_proof_is_a_form():
    """Values and numbers that cancel only once they are made simpler, and those that do not."""
    gone = (LAM**2 - 1) / (LAM - 1) - LAM - 1
    form = Quadratic({("mean", "x", "x"): LAM}, {"p": gone, "q": ZERO}, gone)
    assert proofs._is_form(form) and proofs._is_form(Quadratic())
    for more in (TINY * value("p"), TINY * value("r"), Quadratic(constant=TINY)):
        assert not proofs._is_form(form + more) and not proofs._is_form(form - more)
