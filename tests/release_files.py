"""Files in the formats in which data sets are released, made by hand; and where the real ones lie."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

G = np.random.default_rng(5)
real = pytest.mark.skipif("FEDTHEORY_DATA" not in os.environ, reason="FEDTHEORY_DATA names no folder of data files")


def path_of(*names, endings=("",)):
    """The first file below FEDTHEORY_DATA of one of these names, with one of these endings; without any the test is skipped."""
    for name in names:
        for ending in endings:
            for path in Path(os.environ["FEDTHEORY_DATA"]).rglob(name + ending):
                if path.is_file():
                    return path
    return pytest.skip(f"{names[0]} is not in FEDTHEORY_DATA")


def digits_as_mnist(folder):
    """scikit-learn's digits, padded to MNIST's size and in its format; the folder."""
    from fedtheory.neural import data

    digits = data.digits()
    folder.mkdir(parents=True, exist_ok=True)
    for part, x, y in (("train", digits.train_x, digits.train_y), ("t10k", digits.test_x, digits.test_y)):
        images = np.pad(16 * x[:, 0].clip(0, 15), ((0, 0), (10, 10), (10, 10))).astype(">u1")
        for kind, magic, values in (("images-idx3", 2051, images), ("labels-idx1", 2049, y.astype(np.uint8))):
            head = np.array([magic, *values.shape], ">i4").tobytes()
            (folder / f"{part}-{kind}-ubyte").write_bytes(head + values.tobytes())
    return folder


def write_tar(path, members, mode="w:gz"):
    """An archive of {name: content}."""
    with tarfile.open(path, mode) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def write_leaf(path, /, **users):
    """LEAF's JSON of user=(x, y), packed where the name ends in .gz; gives what was written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    held = {u: {"x": x, "y": y} for u, (x, y) in users.items()}
    content = {"users": [*users], "num_samples": [len(y) for _, y in users.values()], "user_data": held}
    raw = json.dumps(content).encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return content
