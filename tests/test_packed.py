"""Values with arrays come back from a file as they were, to the type and the order in memory; other values are refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fedtheory.packed import Unpackable, opened, packed, unpacked

VALUES = [
    None, True, 3, -0.0, float("inf"), "text", [1, (2.5, [])], {"a": {1: 2}, 3: None},
    np.float64(0.1), np.int32(-3), np.bool_(True), np.zeros((0, 3)), np.arange(6.0).reshape(2, 3), np.arange(6).reshape(2, 3).T,
    np.full((200, 100), 0.3), np.array(2.0), np.array([True, False]),
]  # fmt: skip


def same(one, two):
    if isinstance(one, dict):
        return type(two) is dict and list(one) == list(two) and all(same(one[k], two[k]) for k in one)
    if isinstance(one, list | tuple):
        return type(one) is type(two) and len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, np.ndarray):
        alike = one.dtype == two.dtype and one.shape == two.shape and one.flags.c_contiguous == two.flags.c_contiguous
        return alike and np.array_equal(one, two) and two.flags.writeable
    return type(one) is type(two) and repr(one) == repr(two)


@pytest.mark.parametrize("value", [*VALUES, VALUES], ids=lambda v: str(v)[:20])
def test_a_value_comes_back(value, tmp_path):
    np.savez(tmp_path / "it.npz", **packed(value))
    with opened(tmp_path / "it.npz") as archive:
        assert same(value, unpacked(archive, "it"))


@pytest.mark.parametrize("value", [Fraction(1, 2), object(), np.array(["text"]), np.array([Fraction(1)], dtype=object), {1, 2}])
def test_what_a_file_cannot_hold_is_refused(value):
    with pytest.raises(Unpackable):
        packed([value])


def test_no_code_comes_from_a_file(tmp_path):
    members = packed([np.zeros(20_000)])
    members["array 0"] = np.array([print], dtype=object)
    np.savez(tmp_path / "it.npz", **members)
    with pytest.raises(ValueError, match="allow_pickle"), opened(tmp_path / "it.npz") as archive:
        unpacked(archive, "it")
