"""NumPy as the namespace of the standard, lean: the same numbers, views and refusals as NumPy's own."""

from __future__ import annotations

import numpy as np
import pytest
from cases import each

from fedtheory import arrays

XP = arrays.namespace(np.zeros(1))
GIVEN = [
    np.random.default_rng(0).standard_normal((3, 1, 40)),
    np.arange(12).reshape(3, 4).T,
    np.array([[True, False], [False, False]]),
    np.array([[1, 2], [3, 0]], dtype=object),
    np.random.default_rng(1).standard_normal(300).astype(np.float32),
]


@each("x", GIVEN)
@each("name", ["sum", "max", "min", "all", "any"])
def test_reductions_are_numpys_to_the_last_bit(name, x):
    for axis in (None, 0, -1, tuple(range(x.ndim))):
        for keepdims in (False, True):
            ours, theirs = getattr(XP, name)(x, axis=axis, keepdims=keepdims), getattr(np, name)(x, axis=axis, keepdims=keepdims)
            np.testing.assert_array_equal(ours, theirs)
            assert np.asarray(ours).dtype == np.asarray(theirs).dtype


def test_reductions_take_what_numpys_take():
    assert XP.sum(GIVEN[0], dtype=np.float32).dtype == np.float32 and XP.sum([1, 2]) == 3
    assert XP.max(np.array([[1, 8], [2, 11]]), axis=0, initial=9).tolist() == [9, 11]
    assert XP.matmul is np.matmul and XP.__name__ == "numpy"


@pytest.mark.parametrize(
    ("x", "shape"),
    [
        (np.arange(3.0).reshape(1, 1, 3), (4, 2, 3)),
        (np.arange(3.0).reshape(1, 3), (1, 3)),
        (np.arange(6.0).reshape(3, 2).T, (2, 3)),  # not contiguous
        (np.arange(3.0), (2, 3)),  # an axis more
        (np.zeros((1, 0)), (5, 0)),
        (np.array([[1, None]], dtype=object), (3, 2)),
        (np.arange(2), (0, 2)),
    ],
)
def test_broadcast_views_are_numpys_and_not_written_to(x, shape):
    ours, theirs = XP.broadcast_to(x, shape), np.broadcast_to(x, shape)
    np.testing.assert_array_equal(ours, theirs)
    assert ours.shape == shape and ours.dtype == x.dtype and not ours.flags.writeable
    assert x.size == 0 or ours.size == 0 or np.shares_memory(ours, x)
    x.flags.writeable = False
    assert not XP.broadcast_to(x, shape).flags.writeable


@pytest.mark.parametrize("shape", [(2, 4), (3,), (2, 3, 1)])
def test_what_does_not_broadcast_is_refused_as_numpy_does(shape):
    with pytest.raises(ValueError, match=r"broadcast|axis remapping"):
        XP.broadcast_to(np.zeros((1, 3)), shape)


def test_shapes_are_changed_as_numpy_does():
    x = GIVEN[0]
    for shape in (-1, (40, 3), (3, -1, 2)):
        np.testing.assert_array_equal(XP.reshape(x, shape), np.reshape(x, shape))
    assert XP.reshape([[1, 2]], (2, 1)).tolist() == [[1], [2]] and not np.shares_memory(XP.reshape(x, (120,), copy=True), x)
    np.testing.assert_array_equal(XP.permute_dims(x, (1, 0, 2)), np.transpose(x, (1, 0, 2)))


def test_whether_all_entries_are_finite_and_all_true():
    for x in (np.zeros((2, 0)), np.ones((2, 3))[:, ::2], np.array([1e308, 1e308, -1e308])):  # whose sum may overflow
        assert arrays.all_finite(x)
    for bad in (np.nan, np.inf, -np.inf):
        assert not arrays.all_finite(np.array([[1.0, 2.0], [bad, -bad]]))
    assert arrays.all_true(np.array([True, True])) and arrays.all_true(np.zeros(0)) and not arrays.all_true(np.array([[2.0, 0.0]]))


@pytest.mark.parametrize("scenarios", [1, 3])
def test_rows_of_a_memory_are_taken_and_put_by_their_numbers(scenarios):
    rng = np.random.default_rng(scenarios)
    members = np.stack([np.sort(rng.permutation(6)[:4]) for _ in range(scenarios)])
    rows = np.arange(scenarios)[:, None]
    for memory in (rng.random((scenarios, 6, 2)), rng.random((scenarios, 6)), rng.random((6, scenarios, 2)).swapaxes(0, 1)):
        taken = arrays.take_slots(memory, members)
        np.testing.assert_array_equal(taken, memory[rows, members])
        assert taken.flags.c_contiguous and not np.shares_memory(taken, memory)
    memory, values = rng.random((scenarios, 6, 2)), rng.random((scenarios, 4, 2))
    wanted = memory.copy()
    wanted[rows, members] = values
    for in_place in (False, True):
        put = arrays.put_slots(memory, members, values, in_place)
        np.testing.assert_array_equal(put, wanted)
        assert (put is memory) == in_place
