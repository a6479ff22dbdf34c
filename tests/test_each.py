"""A test of many cases fails where one of them does, and names it."""

from __future__ import annotations

import pytest
from cases import each


@each("number, root", [(9, 3), (16, 4), (2, 1), (3, 2)])
def squares(number, root):
    assert root * root == number


def test_what_fails_is_named():
    with pytest.raises(AssertionError, match=r"2 of 4 cases fail\n\{'number': 2, 'root': 1\}: ") as told:
        squares()
    assert "{'number': 3, 'root': 2}: " in str(told.value)
    with pytest.raises(AssertionError, match="no case of x"):
        each("x", [])


def test_every_case_is_tried_with_every_other():
    seen = []
    each("given", [(1, 2), (3, 4)])(each("more", "ab")(lambda given, more: seen.append((given, more))))()
    assert seen == [((1, 2), "a"), ((1, 2), "b"), ((3, 4), "a"), ((3, 4), "b")]


def test_a_case_that_raises_nothing_or_skips_fails():
    @each("outcome", [pytest.fail, pytest.skip])
    def ends(outcome):
        outcome("here")

    with pytest.raises(AssertionError, match="2 of 2 cases fail"):
        ends()
