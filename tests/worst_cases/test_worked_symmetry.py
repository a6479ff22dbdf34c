"""Blocks of forms that permutations of the clients leave as they are, in integers."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction as F
from itertools import combinations, permutations

import pytest

from fedtheory.worst_cases.gram import Quadratic
from fedtheory.worst_cases.tree import Tree, _Reduction, _symmetriser, moved, partitions, written

DIMENSIONS = {
    3: {"3": 1, "2+1": 2, "1+1+1": 1},
    4: {"4": 1, "3+1": 3, "2+2": 2, "2+1+1": 3, "1+1+1+1": 1},
}


def test_partitions_by_hand():
    assert list(partitions(1)) == [(1,)]
    assert list(partitions(4)) == [(4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1)]
    assert len(list(partitions(6))) == 11
    assert list(partitions(4, 2)) == [(2, 2), (2, 1, 1), (1, 1, 1, 1)]


def test_symmetrisers_by_hand():
    """Rows 0 1 and 2, columns 0 2 and 1: the rows' permutation first, then the columns'."""
    assert _symmetriser((2, 1)) == {(0, 1, 2): 1, (1, 0, 2): 1, (2, 1, 0): -1, (1, 2, 0): -1}
    assert _symmetriser((3,)) == dict.fromkeys(permutations(range(3)), 1)
    even = {(0, 1, 2), (1, 2, 0), (2, 0, 1)}
    assert _symmetriser((1, 1, 1)) == {g: 1 if g in even else -1 for g in permutations(range(3))}
    of_two_columns = _symmetriser((2, 2))
    assert len(of_two_columns) == 16 and sum(of_two_columns.values()) == 0
    assert of_two_columns[0, 1, 2, 3] == 1 and of_two_columns[2, 1, 0, 3] == -1


def test_labels_by_hand():
    label = ("g", 0, ((0, 2), (1, 2)))
    assert moved(label, (2, 0, 1)) == ("g", 2, ((1, 2), (0, 1)))
    assert moved(("x0", -1, ()), (2, 0, 1)) == ("x0", -1, ())
    assert written(label) == "g of 0 after 02 12" and written(("x0", -1, ())) == "x0"
    tree = Tree(3, 2)
    both = ("g", 2, ((1, 2),)), ("h", 1, ())
    assert tree.canonical(both) == (("g", 0, ((0, 1),)), ("h", 1, ()))


LABELS = {
    3: [("a", k, ()) for k in range(3)] + [("b", k, ((j,),)) for k in range(3) for j in range(3)],
    4: [("a", -1, ()), *(("b", k, (c,)) for k in range(4) for c in combinations(range(4), 2))],
}


@pytest.mark.parametrize("n", LABELS)
def test_blocks_are_the_mean_matrix_on_their_bases(n):
    """Entry by entry; and as many rows in each block as its representation comes, by its size.

    Of three clients 3 + 3 labels are turned as the clients, and 6 as all permutations; of four 12
    and 12 as M(2, 1, 1), which is [4] + 2 [3, 1] + [2, 2] + [2, 1, 1].
    """
    labels, tree = LABELS[n], Tree(n, 1)
    bases = tree.bases(labels)
    rows = Counter(block for block, _ in bases)
    assert sum(rows[block] * size for block, size in DIMENSIONS[n].items()) == len(labels)
    assert n != 3 or rows == {"3": 3, "2+1": 4, "1+1+1": 1}
    assert n != 4 or rows == {"4": 3, "3+1": 4, "2+2": 2, "2+1+1": 2}
    given, form = {}, {}
    for i, x in enumerate(labels):
        for j, y in enumerate(labels[: i + 1]):
            number = F((7 * i * i + 3 * j + i * j) % 11 - 5)
            given[x, y] = given[y, x] = number
            form["all", *sorted((x, y))] = number * (1 if x == y else 2)
    mean = dict.fromkeys(given, F(0))
    for g in tree.group:
        for (x, y), number in given.items():
            mean[moved(x, g), moved(y, g)] += number / len(tree.group)
    found = _Reduction(tree).of(Quadratic(form, {("p", 1, ()): F(2), ("p", 0, ()): F(3)}, F(7)))
    assert found.constant == 7 and found.values == {"p of 0": 5}
    for (block, i), left in bases.items():
        for (other, j), right in bases.items():
            by_hand = sum(a * b * mean[x, y] for x, a in left.items() for y, b in right.items())
            if block == other:
                entry = found.gram.get((block, *sorted((i, j))), 0)
                assert entry == by_hand * (1 if i == j else 2)
