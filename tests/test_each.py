"""A test of many cases fails where one of them does, and names it."""

from __future__ import annotations

import pytest
from cases import each


@each("number, root", [(9, 3), (16, 4), (2, 1), (3, 2)])
def squares(number, root):
    assert root * root == number


@each("given", [(1, 2), (3, 4)])
@each("more", "ab")
def test_every_case_is_tried_with_every_other(given, more):
    seen.append((given, more))


seen: list[tuple[tuple[int, int], str]] = []


def test_what_fails_is_named():
    with pytest.raises(AssertionError, match=r"2 of 4 cases fail\n\{'number': 2, 'root': 1\}: .*\n\{'number': 3, 'root': 2\}"):
        squares()
    assert seen == [((1, 2), "a"), ((1, 2), "b"), ((3, 4), "a"), ((3, 4), "b")]
    with pytest.raises(AssertionError, match="no case of x"):
        each("x", [])
