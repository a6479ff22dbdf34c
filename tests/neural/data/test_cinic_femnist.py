"""CINIC-10 and federated EMNIST: tiny files of each format, good and broken, and the rows of Elastic Aggregation that need them."""

import io
import json
import os
import struct
import sys
import tarfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from fedtheory.errors import DataFileError, InvalidInput, MissingCapability
from fedtheory.neural import data, models
from fedtheory.neural.benchmarks import presets
from fedtheory.neural.benchmarks import printed_tables as papers
from fedtheory.neural.benchmarks import run as bench
from fedtheory.neural.data import cinic, femnist
from fedtheory.neural.data.core import pixel_moments

G = np.random.default_rng(5)
CIFAR10 = "airplane automobile bird cat deer dog frog horse ship truck".split()


def png(pixels):
    """A PNG file, by hand: (h, w, 3) or (h, w) of uint8 or (big-endian) uint16."""
    height, width = pixels.shape[:2]
    header = struct.pack(">IIBBBBB", width, height, 8 * pixels.itemsize, 2 if pixels.ndim == 3 else 0, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    packed = (struct.pack(">I", len(c)) + kind + c + struct.pack(">I", zlib.crc32(kind + c)) for kind, c in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def image():
    return G.integers(256, size=(32, 32, 3)).astype(np.uint8)


def cinic_files(count, parts=("train", "valid", "test")):
    """{part/class/name.png: pixels (32, 32, 3)}, not in order."""
    names = [f"{p}/{c}/{n}" for p in parts for c in CIFAR10 for n in ("n0_2.png", "cifar-1.png", "n0_10.png")[:count]]
    return {name: image() for name in G.permutation(names).tolist()}


def write_tree(folder, files):
    for name, pixels in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(png(pixels))


def write_tar(path, members, mode="w:gz"):
    with tarfile.open(path, mode) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


# --- CINIC-10 ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("below", ["", "CINIC-10"])
def test_cinic_folders(tmp_path, below):
    files = cinic_files(3)
    write_tree(tmp_path / below, files)
    (tmp_path / below / "train/cat/.hidden.png").write_bytes(b"")
    (tmp_path / below / "train/cat/notes.txt").write_bytes(b"")
    found = data.load_cinic10(tmp_path, verify=False)
    order = [(n, c) for n in ("cifar-1.png", "n0_10.png", "n0_2.png") for c in CIFAR10]
    for part, x, y in (("train", found.train_x, found.train_y), ("test", found.test_x, found.test_y)):
        assert x.shape == (30, 3, 32, 32) and y.tolist() == [*range(10)] * 3
        for k, (name, label) in enumerate(order):
            kept = files[f"{part}/{label}/{name}"]
            np.testing.assert_array_equal(x[k].transpose(1, 2, 0), kept)  # channels first, rows stay rows
    assert (found.name, found.num_classes, found.users) == ("cinic10", 10, ())
    mean, std = [0.47889522, 0.47227842, 0.43047404], [0.24205776, 0.23828046, 0.25874835]
    for c in range(3):
        expected = (found.train_x[:, c] / 255 - mean[c]) / std[c]
        np.testing.assert_allclose(found.inputs(found.train_x)[:, c], expected, atol=2e-6)


def test_cinic_classes_are_cifar10s():
    """CINIC-10 is a drop-in replacement: its labels are CIFAR-10's (batches.meta lists them in this order)."""
    assert list(cinic.CLASSES) == CIFAR10 == sorted(CIFAR10)


@pytest.mark.parametrize("prefix", ["", "./", "CINIC-10/"])
def test_cinic_archive_is_read_as_the_folders_are(tmp_path, prefix):
    files = cinic_files(2)
    write_tree(tmp_path / "tree", files)
    members = {prefix + "README.md": b"#", prefix + "imagenet-contributors.csv": b""}
    members |= {prefix + name: png(pixels) for name, pixels in files.items()}
    write_tar(tmp_path / "CINIC-10.tar.gz", members)
    found, direct = data.load_cinic10(tmp_path, verify=False), data.load_cinic10(tmp_path / "tree", verify=False)
    for name in ("train_x", "train_y", "test_x", "test_y"):
        np.testing.assert_array_equal(getattr(found, name), getattr(direct, name))
    assert found.num_train == 20 and "CINIC-10.tar.gz" in found.source
    with pytest.raises(DataFileError, match=r"CINIC-10.tar.gz: md5 [0-9a-f]{32}, the release's has 6ee4d0c9"):
        data.load_cinic10(tmp_path)


def test_cinic_with_the_third_part(tmp_path):
    files = cinic_files(2)
    write_tree(tmp_path, files)
    found = data.load_cinic10(tmp_path, valid=True, verify=False)
    assert (found.num_train, found.num_test) == (40, 20) and "train and valid" in found.source
    order = [(p, n, c) for p in ("train", "valid") for n in ("cifar-1.png", "n0_2.png") for c in CIFAR10]
    for x, y, (part, name, label) in zip(found.train_x, found.train_y, order, strict=True):
        np.testing.assert_array_equal(x.transpose(1, 2, 0), files[f"{part}/{label}/{name}"])
        assert y == CIFAR10.index(label)


def test_cinic_counts_are_verified(tmp_path, monkeypatch):
    files = cinic_files(3)
    write_tree(tmp_path / "tree", files)
    write_tar(tmp_path / "CINIC-10.tar.gz", {name: png(pixels) for name, pixels in files.items()})
    with pytest.raises(DataFileError, match=r"tree: train/airplane has 3 images, the release's 9000: .*verify=False"):
        data.load_cinic10(tmp_path / "tree")
    monkeypatch.setattr(cinic, "PER_CLASS", 3)
    assert data.load_cinic10(tmp_path / "tree").num_train == 30
    (tmp_path / "tree/test/ship/cifar-1.png").unlink()
    (tmp_path / "tree/train/cat/cifar-1.png").write_bytes(b"not read: it is counted before")
    with pytest.raises(DataFileError, match=r"test/ship has 2 images"):
        data.load_cinic10(tmp_path / "tree")
    monkeypatch.setattr(cinic, "ARCHIVE_MD5", cinic_md5(tmp_path / "CINIC-10.tar.gz"))
    assert data.load_cinic10(tmp_path).num_test == 30
    monkeypatch.setattr(cinic, "PER_CLASS", 4)
    with pytest.raises(DataFileError, match=r"tar.gz: train/airplane has 3 images, the release's 4"):
        data.load_cinic10(tmp_path)


def cinic_md5(path):
    import hashlib

    return hashlib.md5(path.read_bytes()).hexdigest()


def test_cinic_missing(tmp_path):
    (tmp_path / "train").mkdir()  # another release's
    with pytest.raises(
        DataFileError, match=rf"CINIC-10.tar.gz.*is not in {tmp_path}.*https://datashare.ed.ac.uk/handle/10283/3192"
    ):
        data.load_cinic10(tmp_path)
    files = cinic_files(1)
    write_tree(tmp_path, {n: p for n, p in files.items() if not n.startswith(("train/airplane", "test/dog"))})
    with pytest.raises(
        DataFileError, match=r"train/airplane: no such folder: CINIC-10 has train, valid and test of ten"
    ):
        data.load_cinic10(tmp_path, verify=False)
    write_tree(tmp_path, {n: p for n, p in files.items() if n.startswith("train/airplane")})
    with pytest.raises(DataFileError, match=r"test/dog: no such folder"):
        data.load_cinic10(tmp_path, verify=False)
    other = tmp_path / "other"
    other.mkdir()
    write_tar(other / "CINIC-10.tar.gz", {n: png(p) for n, p in files.items() if n.startswith("train")})
    with pytest.raises(DataFileError, match=r"has no images test/class/\*.png: not the published archive"):
        data.load_cinic10(other, verify=False)
    write_tar(other / "CINIC-10.tar.gz", {"../train/cat/a.png": png(image())})
    with pytest.raises(DataFileError, match="outside its own folder"):
        data.load_cinic10(other, verify=False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a readable PNG"),
        (b"GIF89a" + bytes(50), "not a readable PNG"),
        (png(image())[:-30], "not a readable PNG"),
        (png(image()[:, :31]), "31 x 32 pixels of mode RGB, expected 32 x 32"),
        (png(image()[:31]), "32 x 31 pixels of mode RGB"),
        (png(np.zeros((32, 32), ">u2")), "mode I.16, expected 32 x 32 of eight bits"),
    ],
)
def test_cinic_file_that_is_wrong_is_named(tmp_path, content, message):
    files = cinic_files(1)
    write_tree(tmp_path, files)
    (tmp_path / "test/frog/n0_2.png").write_bytes(content)
    with pytest.raises(DataFileError, match=rf"test/frog/n0_2.png: .*{message}"):
        data.load_cinic10(tmp_path, verify=False)


def test_png_damage_is_seen():
    """One flipped bit: refused, or (in what follows the image) without effect."""
    x = G.integers(4, size=(32, 32, 3)).astype(np.uint8)
    whole = png(x)
    read = 0
    for i in range(len(whole)):
        broken = bytearray(whole)
        broken[i] ^= 1 << (i % 8)
        try:
            pixels, _ = cinic.parse_png("x.png", broken)
        except DataFileError:
            continue
        read += 1
        np.testing.assert_array_equal(pixels, x.transpose(2, 0, 1))
    assert read < 20
    for cut in range(0, len(whole) - 12, 7):
        with pytest.raises(DataFileError, match=r"^x.png: not a readable PNG"):
            cinic.parse_png("x.png", whole[:cut])


def test_cinic_images_that_are_not_rgb_are_made_so_and_counted(tmp_path):
    from PIL import Image

    files = cinic_files(1)
    write_tree(tmp_path, files)
    grey, three = image()[:, :, 0], image()
    (tmp_path / "train/airplane/n0_2.png").write_bytes(png(grey))
    for label, mode in (("bird", "RGBA"), ("cat", "P")):
        stored = Image.fromarray(three // 86)  # 27 colours: a palette holds them
        stored = stored.quantize(27) if mode == "P" else stored.convert(mode)
        stored.save(tmp_path / f"test/{label}/n0_2.png")
    found = data.load_cinic10(tmp_path, verify=False)
    for channel in range(3):
        np.testing.assert_array_equal(found.train_x[0, channel], grey)
    np.testing.assert_array_equal(found.test_x[2].transpose(1, 2, 0), three // 86)
    assert found.source.endswith("made RGB: 1 of mode L, 1 of mode P, 1 of mode RGBA")


# --- federated EMNIST -------------------------------------------------------------------------------------------------
def writers(**counts):
    """{user: (bytes (n, 28, 28), labels (n,))}."""
    return {u: (G.integers(256, size=(n, 28, 28)), G.integers(62, size=n)) for u, n in counts.items()}


def write_h5(path, users, column=False):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for user, (x, y) in users.items():
            group = file.create_group(f"examples/{user}")
            group["pixels"] = (x / 255).astype(np.float32)
            group["label"] = (y[:, None] if column else y).astype(np.int32)


def write_leaf(path, users):
    path.parent.mkdir(parents=True, exist_ok=True)
    held = {u: {"x": [(i / 255).ravel().tolist() for i in x], "y": y.tolist()} for u, (x, y) in users.items()}
    content = {"users": [*users], "num_samples": [len(y) for _, y in users.values()], "user_data": held}
    path.write_text(json.dumps(content))


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
        "../fed_emnist_train.h5": (tmp_path / "train").read_bytes(),
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
    with pytest.raises(DataFileError, match=r"bz2: cannot be unpacked"):
        data.load_femnist(tmp_path, verify=False)
    write_tar(packed, {"fed_emnist_train.h5": b"x"}, "w:bz2")
    with pytest.raises(DataFileError, match=r"bz2: has no fed_emnist_test.h5: not the published archive"):
        data.load_femnist(tmp_path, verify=False)
    assert not list(inside.iterdir())


@pytest.mark.parametrize("below", ["", "data", "femnist", "femnist/data"])
def test_femnist_leaf(tmp_path, below):
    train, test = writers(f5_5=0, f2_1=2, f1_0=3), writers(f1_0=1, f2_1=2)
    more, rest = writers(f0_7=1), writers(f9_9=1, f0_7=1)
    write_leaf(tmp_path / below / "train/all_data_0.json", train)
    write_leaf(tmp_path / below / "train/all_data_1.json", more)
    write_leaf(tmp_path / below / "test/all_data_0.json", rest | test)
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
        write_leaf(tmp_path / "femnist" / part / "all.json", users)
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
    with pytest.raises(DataFileError, match=r"a.json.*user 'f1_0'"):
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


# --- the rows ---------------------------------------------------------------------------------------------------------
def test_the_posters_rows_are_all_there():
    """Its table, by hand: rounds, clients, sampled, batch, first rate, model."""
    poster = {
        "cifar100": (4000, 500, 10, 10, 0.05, "resnet20"),
        "mnist": (20, 1000, 100, 100, 0.1, "logistic"),
        "emnist": (1000, 3400, 10, 100, 0.1, "emnist-cnn"),
        "cifar10": (4000, 1000, 10, 10, 0.05, "resnet20"),
        "cinic10-200": (200, 1000, 100, 10, 0.05, "resnet20"),
        "cinic10": (4000, 1000, 10, 10, 0.05, "resnet20"),
    }
    found = presets.of_table("elastic-table")
    for p in found:
        assert (p.rounds, p.clients, p.cohort, p.batch_size, p.lr, p.network) == poster[p.dataset]
        assert p.split == ("balanced" if p.dataset == "cifar100" else "unbalanced") and p.epochs == 1
    rows = papers.table("elastic-table").rows
    assert {(p.split, p.dataset) for p in found} == set(rows) and len(found) == 2 * len(rows) == 12
    assert bench.unrun_rows("elastic-table") == []
    for p in found:
        said = " ".join(p.assumed)
        assert ("without valid" in said) == p.dataset.startswith("cinic10")
        normalised = models.get(p.network).options == {"groups": 2}
        assert ("ResNet-20 (GroupNorm, 2 groups)" in said) == (p.network == "resnet20") == normalised
        assert (
            ("by writer" in said)
            == (p.dataset == "emnist")
            == ("Dirichlet" not in said)
            == (p.partition["partition"] == "users")
        )


def tiny_femnist(folder, counts):
    write_leaf(folder / "femnist/train/all.json", writers(**counts))
    write_leaf(folder / "femnist/test/all.json", writers(**dict.fromkeys(counts, 2)))


def test_clients_are_the_releases_users(tmp_path):
    pytest.importorskip("torch")
    from dataclasses import replace

    tiny_femnist(tmp_path, {"w0": 3, "w1": 1, "w2": 4, "w3": 2, "w4": 5})
    found = data.load_femnist(tmp_path)
    for method in ("naive", "elastic"):
        preset = replace(presets.get(f"elastic/emnist/unbalanced/10-of-3400/{method}"), clients=3, network="logistic")
        problem = preset.make_problem(found)
        sizes = (
            [3, 4, 2] if method == "naive" else [2, 3, 1]
        )  # who has a single sample is left out of both, w4 is the fourth
        assert problem.sample_counts.tolist() == sizes
        owners = [{found.users[u] for u in found.train_users[c]} for c in problem._clients]
        assert owners == [{"w0"}, {"w2"}, {"w3"}]
        mine = np.isin(found.test_users, [0, 2, 3])
        np.testing.assert_array_equal(problem.test[1].numpy(), found.test_y[mine])
        np.testing.assert_array_equal(problem.test[0].numpy(), found.inputs(found.test_x[mine]))
        assert len(preset.make_problem(found, most_tested=5).test[1]) == 5
    with pytest.raises(InvalidInput, match=r"LEAF JSON in .* has 5 users, the setting 3400 clients"):
        presets.get("elastic/emnist/unbalanced/10-of-3400/naive").make_problem(found)


def test_bench_on_tiny_files(tmp_path, monkeypatch):
    """All three rows by the command, on generated files; CINIC-10 is read once for its two rows."""
    pytest.importorskip("torch")
    from typer.testing import CliRunner

    from fedtheory.cli import app

    tiny_femnist(tmp_path, {f"w{k}": 3 + k for k in range(11)})
    for part in ("train", "test"):
        for label in CIFAR10:
            for k in range(12):
                path = tmp_path / f"CINIC-10/{part}/{label}/{k}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(png(image()))
    monkeypatch.setattr(cinic, "PER_CLASS", 12)
    real, read = data.load_cinic10, []
    monkeypatch.setattr(data, "load_cinic10", lambda *a, **o: read.append(a) or real(*a, **o))
    args = [
        "elastic-table",
        "--quick",
        "--data",
        str(tmp_path),
        "--dataset",
        "emnist,cinic10-200,cinic10",
        "--rounds",
        "1",
    ]
    result = CliRunner().invoke(app, ["bench", *args, "--json", "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    names = [(r["dataset"], r["method"], r["network"]) for r in rows]
    assert names == [
        (d, m, n)
        for d, n in (("emnist", "emnist-cnn"), ("cinic10-200", "resnet20"), ("cinic10", "resnet20"))
        for m in ("naive", "elastic")
    ]
    assert all(r["error"] is None and r["measured"] is not None for r in rows) and len(read) == 1
    assert [r["paper_text"] for r in rows] == ["88.71", "89.82", "35.81", "36.29", "68.68", "69.25"]
    whole = CliRunner().invoke(app, ["bench", "elastic-table", "--dataset", "emnist", "--data", str(tmp_path / "out")])
    assert whole.exit_code == 2 and "fed_emnist_train.h5" in " ".join(whole.stderr.split())


# --- the real files ---------------------------------------------------------------------------------------------------
real = pytest.mark.skipif("FEDTHEORY_DATA" not in os.environ, reason="FEDTHEORY_DATA names no folder of data files")


def folder_of(*names):
    for name in names:
        for path in Path(os.environ["FEDTHEORY_DATA"]).rglob(name):
            return path.parent
    return pytest.skip(f"{names[0]} is not in FEDTHEORY_DATA")


@pytest.mark.data
@real
def test_real_cinic10():
    found = data.load_cinic10(folder_of("CINIC-10.tar.gz"))
    assert (np.bincount(found.train_y) == 9000).all() and (np.bincount(found.test_y) == 9000).all()
    mean, std = pixel_moments(found.train_x)
    np.testing.assert_allclose(mean, found.mean, atol=2e-3)
    np.testing.assert_allclose(std, found.std, atol=2e-3)


@pytest.mark.data
@real
def test_real_femnist():
    found = data.load_femnist(folder_of("fed_emnist_train.h5", "fed_emnist.tar.bz2"))
    assert (found.num_train, found.num_test, len(found.users)) == (671_585, 77_483, 3400)
    assert len(np.unique(found.train_y)) == 62 and found.mean[0] > 0.5  # paper is 1
