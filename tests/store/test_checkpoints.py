"""Checkpoints of runs that earlier versions wrote are read."""

import base64
import zlib

import numpy as np

from fedtheory.store import checkpoints

VERSION_1 = (  # compressed; a file that 0.1 wrote
    "eNqlU0FLwzAUTp3KcB487AfEIFShG3ZeRATnxctQetCDyJCszVzdbEqaDsccePciCLKfMX+HF/+A4kHwqr9AkyaVdewg"
    "+kr75aXvveTL++LUcrMloGwZ3Dy/RV/aiqAILghnvlumjXPicr9LykHYM8ASGOqMFO8OjvadYwN0Qd/0SOQycwua281N"
    "04JmkzLOcHBKmUfk/B7uRETMRy0cEuGvbljQXrPgAP7ZFtQuPnYUvmp82nEy7FZqn7cpu4JgF3HMSfkyJTXSgaM/kDpk"
    "cYaTbUFBq/IfWppUaik5UFWQ17iksVjNkl28f99NyeZVK3HKtG6oqBSnMr2K7V+1r1KxrX+2r4/EKheYoy2ImsTjLUJZ"
    "D7ot4rZD6gccWRB1CYt8GogQcbaI0TjwxLgixi4Nmv5ZzDBX//uoTXqyVFvmRYTIwI2BGIcd7KsIuVQQdzrjpWQEZgz3"
    "IuGdoEntJ8WUYlBdhjZozJNiIWY8yakn64n9eIm7Xrbrg4FTM2ZKuewdG+q7Uxxr8HXSjGk3brKC1PFIC7WQqfAivmOq"
    "nkyUmpA9l28+k/hogB+FOLW5eTmbE8+DwEZOet/hkPPN"
)


def test_a_file_of_version_1_is_read(tmp_path):
    (tmp_path / "run.ckpt").write_bytes(zlib.decompress(base64.b64decode(VERSION_1)))
    found = checkpoints.load(tmp_path / "run.ckpt")
    assert checkpoints.VERSION == 1 and found.round_index == 2
    assert found.configuration == {"key": "k", "seed": 3}
    assert found.about == {"parts": [], "seconds": [0.1]}
    assert found.metrics["objective"].tolist() == [[1.0], [0.5], [0.25]]
    assert {**found.fields, "x": None} == {"x": None, "t": None, "round": 2}
    np.testing.assert_array_equal(found.fields["x"], [[[0, 3], [1, 4], [2, 5]]], strict=False)
    again = checkpoints.load(checkpoints.save(tmp_path / "again.ckpt", found))
    assert again.fields["x"].strides == found.fields["x"].strides
