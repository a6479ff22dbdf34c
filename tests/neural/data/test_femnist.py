"""Federated EMNIST: tiny files of each format, good and broken, and (opt-in) the real ones."""

import json
import sys

import numpy as np
import pytest
from release_files import path_of, real, write_femnist, write_tar, writers

from fedtheory.errors import DataFileError, MissingCapability
from fedtheory.neural import data
from fedtheory.neural.data import femnist


def write_h5(path, users, column=False):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for user, (x, y) in users.items():
            group = file.create_group(f"examples/{user}")
            group["pixels"] = (x / 255).astype(np.float32)
            group["label"] = (y[:, None] if column else y).astype(np.int32)


def check_femnist(found, train, test, order):
    assert found.users == tuple(order) and found.num_classes == 62 and found.name == "emnist"
    for part, x, y, owner in (
        (train, found.train_x, found.train_y, found.train_users),
        (test, found.test_x, found.test_y, found.test_users),
    ):
        users = [u for u in order if u in part]
        np.testing.assert_array_equal(
            x[:, 0], np.concatenate([part[u][0] for u in users])
        )  # neither turned nor inverted
        assert x.shape[1:] == (1, 28, 28) and x.dtype == np.uint8
        np.testing.assert_array_equal(y, np.concatenate([part[u][1] for u in users]))
        assert [order[i] for i in owner] == [u for u in users for _ in part[u][1]]
    values = np.concatenate([part[0].ravel() for part in train.values()]) / 255
    assert found.mean == pytest.approx([values.mean()]) and found.std == pytest.approx([values.std()])


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("below", ["", "femnist"])
def test_femnist_hdf5(tmp_path, column, below):
    train, test = writers(f0031_02=3, f0005_26=2, f1000_9=1), writers(f0005_26=1, f0031_02=2, f1000_9=1)
    (tmp_path / below).mkdir(exist_ok=True)
    write_h5(tmp_path / below / "fed_emnist_train.h5", train, column)
    write_h5(tmp_path / below / "fed_emnist_test.h5", test, column)
    found = data.load_femnist(tmp_path, verify=False)
    check_femnist(found, train, test, ["f0005_26", "f0031_02", "f1000_9"])
    dealt = data.federated(found, "users").indices
    assert [len(k) for k in dealt] == [2, 3, 1]
    np.testing.assert_array_equal(found.train_y[dealt[1]], train["f0031_02"][1])
    with pytest.raises(
        DataFileError, match=r"6 samples of 3 writers, the release's has 671585 of 3400: .*verify=False"
    ):
        data.load_femnist(tmp_path)


def test_femnist_pixels_are_the_nearest_bytes(tmp_path):
    """A float32 of k/255 may lie below it, and so may what another writer of such files made of it."""
    h5py = pytest.importorskip("h5py")
    levels = np.arange(256).repeat(4)[: 28 * 28].reshape(1, 28, 28)
    for part, nudge in (("train", 1 - 1e-4), ("test", 1 + 1e-4)):
        with h5py.File(tmp_path / f"fed_emnist_{part}.h5", "w") as file:
            file["examples/a/pixels"], file["examples/a/label"] = levels / 255 * nudge, [0]
    found = data.load_femnist(tmp_path, verify=False)
    np.testing.assert_array_equal(found.train_x[0], levels)
    np.testing.assert_array_equal(found.test_x[0], levels)


def test_femnist_verified_as_the_release(tmp_path, monkeypatch):
    train, test = writers(a=3, b=2), writers(a=1, b=1)
    write_h5(tmp_path / "fed_emnist_train.h5", train)
    write_h5(tmp_path / "fed_emnist_test.h5", test)
    monkeypatch.setattr(femnist, "WRITERS", 2)
    monkeypatch.setattr(femnist, "SAMPLES", {"train": 5, "test": 2})
    assert data.load_femnist(tmp_path).num_train == 5
    monkeypatch.setattr(femnist, "SAMPLES", {"train": 5, "test": 3})
    with pytest.raises(DataFileError, match=r"fed_emnist_test.h5: 2 samples of 2 writers"):
        data.load_femnist(tmp_path)


def test_femnist_archive(tmp_path, monkeypatch):
    import hashlib

    train, test = writers(b=3, a=2), writers(a=1, b=2)
    write_h5(tmp_path / "train", train)
    write_h5(tmp_path / "test", test)
    packed = tmp_path / "fed_emnist.tar.bz2"
    members = {
        "fed_emnist_train.h5": (tmp_path / "train").read_bytes(),
        "x/fed_emnist_test.h5": (tmp_path / "test").read_bytes(),
    }
    write_tar(packed, members, "w:bz2")
    inside = tmp_path / "room"
    inside.mkdir()
    monkeypatch.setenv("TMPDIR", str(inside))
    monkeypatch.setattr("tempfile.tempdir", None)
    check_femnist(data.load_femnist(tmp_path, verify=False), train, test, ["a", "b"])
    assert not list(inside.iterdir()) and not (tmp_path.parent / "fed_emnist_train.h5").exists()
    with pytest.raises(DataFileError, match=r"bz2: sha256 [0-9a-f]{64}, the release's has fe1ed5a5.*verify=False"):
        data.load_femnist(tmp_path)
    monkeypatch.setattr(femnist, "ARCHIVE_SHA256", hashlib.sha256(packed.read_bytes()).hexdigest())
    with pytest.raises(DataFileError, match=r"fed_emnist.tar.bz2/fed_emnist_train.h5: 5 samples of 2 writers"):
        data.load_femnist(tmp_path)
    packed.write_bytes(packed.read_bytes()[:-100])
    with pytest.raises(DataFileError, match=r"bz2: truncated or damaged"):
        data.load_femnist(tmp_path, verify=False)
    write_tar(packed, {"../fed_emnist_train.h5": members["fed_emnist_train.h5"]}, "w:bz2")
    with pytest.raises(DataFileError, match=r"a member '\.\./fed_emnist_train.h5' outside its own folder"):
        data.load_femnist(tmp_path, verify=False)
    write_tar(packed, {"fed_emnist_train.h5": b"x"}, "w:bz2")
    with pytest.raises(DataFileError, match=r"bz2: has no fed_emnist_test.h5: not the published archive"):
        data.load_femnist(tmp_path, verify=False)
    assert not list(inside.iterdir())


def test_what_is_too_large_is_neither_unpacked_nor_read(tmp_path, monkeypatch):
    """The limits are far above the release's own sizes; files from others are held to them whether they are verified or not."""
    assert femnist._LARGEST > 2 * max(femnist.SAMPLES.values()) * 785 * 4  # single precision, as released
    room = tmp_path / "room"
    room.mkdir()
    monkeypatch.setenv("TMPDIR", str(room))
    monkeypatch.setattr("tempfile.tempdir", None)
    written = []
    monkeypatch.setattr(femnist.shutil, "copyfileobj", lambda stream, file, size: written.append(len(stream.read())))
    packed = tmp_path / "fed_emnist.tar.bz2"
    write_tar(packed, {"fed_emnist_test.h5": b"x" * 99, "fed_emnist_train.h5": b"x" * 101}, "w:bz2")
    monkeypatch.setattr(femnist, "_LARGEST", 100)
    with pytest.raises(DataFileError, match=r"bz2/fed_emnist_train.h5: 101 bytes, at most 100 are unpacked: no file of this release"):
        data.load_femnist(tmp_path, verify=False)
    assert written == [99] and not list(room.iterdir())
    monkeypatch.undo()
    h5py = pytest.importorskip("h5py")
    for name in femnist.FILES.values():
        with h5py.File(tmp_path / name, "w") as file:
            for user, samples in (("a", 1), ("b", 10**7)):  # chunks that nobody wrote take no room in the file
                group = file.create_group(f"examples/{user}")
                group.create_dataset("pixels", (samples, 28, 28), "f4", chunks=(1, 28, 28))
                group.create_dataset("label", (samples,), "i4", chunks=(1,))
    assert (tmp_path / "fed_emnist_train.h5").stat().st_size < 10**5
    with pytest.raises(DataFileError, match=r"fed_emnist_train.h5: more than \d+ pixels and labels up to user 'b'"):
        data.load_femnist(tmp_path, verify=False, progress=False)


@pytest.mark.parametrize("below", ["", "data", "femnist", "femnist/data"])
def test_femnist_leaf(tmp_path, below):
    train, test = writers(f5_5=0, f2_1=2, f1_0=3), writers(f1_0=1, f2_1=2)
    more, rest = writers(f0_7=1), writers(f9_9=1, f0_7=1)
    write_femnist(tmp_path / below / "train/all_data_0.json", train)
    write_femnist(tmp_path / below / "train/all_data_1.json", more)
    write_femnist(tmp_path / below / "test/all_data_0.json", rest | test)
    found = data.load_femnist(tmp_path)
    check_femnist(
        found, train | more, rest | test, ["f2_1", "f1_0", "f0_7", "f5_5", "f9_9"]
    )  # who has no training samples is last


def test_femnist_beside_other_releases(tmp_path):
    """`train` in the folder may be Shakespeare's: what lies below `femnist` is taken first."""
    train, test = writers(a=2), writers(a=1)
    for part, users in (("train", train), ("test", test)):
        text = {"users": ["HAMLET"], "num_samples": [1], "user_data": {"HAMLET": {"x": ["to be"], "y": ["!"]}}}
        (tmp_path / part).mkdir()
        (tmp_path / part / "all.json").write_text(json.dumps(text))
        with pytest.raises(DataFileError, match=r"json.*: user 'HAMLET': pixels or labels are not numbers|are not in"):
            data.load_femnist(tmp_path)
        write_femnist(tmp_path / "femnist" / part / "all.json", users)
    check_femnist(data.load_femnist(tmp_path), train, test, ["a"])


def test_femnist_missing(tmp_path, monkeypatch):
    (tmp_path / "emnist").mkdir()
    with pytest.raises(DataFileError) as told:
        data.load_femnist(tmp_path)
    for word in (
        "fed_emnist_train.h5",
        "fed_emnist.tar.bz2",
        "train/*.json",
        f"{tmp_path / 'emnist'}",
        "tff-datasets-public",
        "leaf",
    ):
        assert word in str(told.value)
    write_h5(tmp_path / "fed_emnist_test.h5", writers(a=1))
    with pytest.raises(
        DataFileError, match=rf"fed_emnist_train.h5 of federated EMNIST is not in {tmp_path}: fetch it from"
    ):
        data.load_femnist(tmp_path)
    write_h5(tmp_path / "fed_emnist_train.h5", writers(a=1))
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingCapability, match=r"needs h5py: pip install 'fedtheory\[hdf5\]'"):
        data.load_femnist(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    (other / "fed_emnist.tar.bz2").write_bytes(b"not looked at")
    with pytest.raises(MissingCapability, match="h5py"):
        data.load_femnist(other, verify=False)


@pytest.mark.parametrize(
    ("pixels", "labels", "message"),
    [
        (np.full((1, 28, 28), 1.5), [3], r"a pixel that is not in 0\.\.1"),
        (np.full((1, 28, 28), -0.1), [3], r"a pixel that is not in 0\.\.1"),
        (np.full((1, 28, 28), np.nan), [3], r"a pixel that is not in 0\.\.1"),
        (np.zeros((1, 28, 27)), [3], r"pixels of shape \(1, 28, 27\)"),
        (np.zeros((2, 28, 28)), [3], r"pixels of shape \(2, 28, 28\) and labels of shape \(1,\)"),
        (np.zeros((1, 28, 28)), [[3, 4]], r"pixels of shape \(1, 28, 28\) and labels of shape \(1, 2\)"),
        (np.zeros((1, 28, 28)), [62], r"a label 62, expected 0\.\.61"),
        (np.zeros((1, 28, 28)), [-1], r"a label -1"),
        (np.zeros((1, 28, 28)), [0.5], r"a label 0\.5"),
    ],
)
def test_femnist_users_that_are_wrong_are_named(tmp_path, pixels, labels, message):
    h5py = pytest.importorskip("h5py")
    for part in ("train", "test"):
        with h5py.File(tmp_path / f"fed_emnist_{part}.h5", "w") as file:
            file["examples/f1_0/pixels"], file["examples/f1_0/label"] = pixels, labels
    with pytest.raises(DataFileError, match=rf"fed_emnist_train.h5: user 'f1_0' has {message}"):
        data.load_femnist(tmp_path, verify=False)
    flat = np.asarray(pixels).reshape(len(pixels), -1).tolist()
    for part in ("train", "test"):
        content = {"users": ["f1_0"], "num_samples": [1], "user_data": {"f1_0": {"x": flat, "y": list(labels)}}}
        (tmp_path / "leaf" / part).mkdir(parents=True)
        (tmp_path / "leaf" / part / "a.json").write_text(json.dumps(content))
    with pytest.raises(DataFileError, match=r"a.json.*(user 'f1_0'|holds NaN)"):
        data.load_femnist(tmp_path / "leaf")


def test_femnist_damaged_hdf5(tmp_path):
    h5py = pytest.importorskip("h5py")
    users = writers(a=2)
    write_h5(tmp_path / "fed_emnist_test.h5", users)
    path = tmp_path / "fed_emnist_train.h5"

    def told(message):
        with pytest.raises(DataFileError, match=message):
            data.load_femnist(tmp_path, verify=False)

    path.write_bytes(b"<html>")
    told(r"fed_emnist_train.h5: not readable HDF5 .*: truncated or damaged; fetch it again")
    write_h5(path, users)
    path.write_bytes(path.read_bytes()[:-200])
    told("not readable HDF5")
    with h5py.File(path, "w") as file:
        file["pixels"] = [1]
    told("has no group 'examples'")
    for name in ("pixels", "label"):
        with h5py.File(path, "w") as file:
            file[f"examples/a/{name}"] = [1]
        told(f"user 'a' has no '{'label' if name == 'pixels' else 'pixels'}'")
    with h5py.File(path, "w") as file:
        file["examples/a"] = [1]
    told("user 'a' has no 'pixels'")
    with h5py.File(path, "w") as file:
        file.create_group("examples")
    told("no training samples")


@pytest.mark.data
@real
def test_real_femnist():
    found = data.load_femnist(path_of("fed_emnist_train.h5", "fed_emnist.tar.bz2").parent)
    assert (found.num_train, found.num_test, len(found.users)) == (671_585, 77_483, 3400)
    assert len(np.unique(found.train_y)) == 62 and found.mean[0] > 0.5  # paper is 1
