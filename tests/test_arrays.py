"""NumPy as the namespace of the standard, lean: the same numbers, views and refusals as NumPy's own."""

from __future__ import annotations

import numpy as np
import pytest

from fedtheory import arrays

XP = arrays.namespace(np.zeros(1))
GIVEN = [
    np.random.default_rng(0).standard_normal((3, 1, 40)),
    np.arange(12).reshape(3, 4).T,
    np.array([[True, False], [False, False]]),
    np.array([[1, 2], [3, 0]], dtype=object),
    np.random.default_rng(1).standard_normal(300).astype(np.float32),
]


@pytest.mark.parametrize("x", GIVEN, ids=lambda x: str(x.dtype))
@pytest.mark.parametrize("name", ["sum", "max", "min", "all", "any"])
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
