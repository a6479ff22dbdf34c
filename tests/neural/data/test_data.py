"""MNIST and EMNIST: tiny files of the format, good and broken; what all loaders return; and (opt-in) the real files."""

import bz2
import gzip
import io
import lzma
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from release_files import path_of, real
from repository import ROOT

from fedtheory import untrusted
from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.neural import data
from fedtheory.neural.data import files, idx
from fedtheory.neural.data.core import pixel_moments

G = np.random.default_rng(0)


def idx_bytes(array, code=0x08):
    kind = {0x08: ">u1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4"}[code]
    return struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape) + array.astype(kind).tobytes()


def write_idx_set(folder, stems, labels, pack=bytes, ending="", size=28):
    """Writes images and labels for each stem; gives the images."""
    images = []
    for stem, y in zip(stems, labels):
        x = G.integers(256, size=(len(y), size, size)).astype(np.uint8)
        (folder / f"{stem}-images-idx3-ubyte{ending}").write_bytes(pack(idx_bytes(x)))
        (folder / f"{stem}-labels-idx1-ubyte{ending}").write_bytes(pack(idx_bytes(np.array(y))))
        images.append(x)
    return images


def test_reading_data_needs_no_torch():
    code = "import sys, fedtheory.neural.data as d; d.digits(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


# --- IDX ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("code", [0x08, 0x0B, 0x0C, 0x0D])
@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 3, 4), (0, 3)])
def test_idx_types_and_shapes(tmp_path, code, shape):
    array = G.integers(0, 200, size=shape)
    (tmp_path / "a").write_bytes(idx_bytes(array, code))
    found = data.read_idx(tmp_path / "a")
    np.testing.assert_array_equal(found, array)
    assert found.dtype.isnative and found.flags.writeable


def test_idx_every_cut_and_every_extra_byte(tmp_path):
    whole = idx_bytes(np.arange(24).reshape(2, 3, 4))
    for length in range(len(whole)):
        with pytest.raises(DataFileError, match=r"^cut: .*(truncated)"):
            idx.parse_idx("cut", whole[:length])
    with pytest.raises(
        DataFileError, match=r"^long: trailing bytes: 40 bytes expected for 2 x 3 x 4 of uint8, found 43"
    ):
        idx.parse_idx("long", whole + b"abc")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html>moved</html>", "web page"),
        (b"\x00\x00\x07\x01\x00\x00\x00\x00", "type code 0x07"),
        (b"\x00\x00\x08\x00", "0 dimensions"),
    ],
)
def test_idx_of_another_kind(content, message):
    with pytest.raises(DataFileError, match=message):
        idx.parse_idx("page", content)


@pytest.mark.parametrize(("pack", "ending"), [(bytes, ""), (gzip.compress, ".gz"), (lzma.compress, ".xz")])
@pytest.mark.parametrize("below", ["", "mnist", "MNIST/raw"])
def test_mnist(tmp_path, pack, ending, below):
    (tmp_path / below).mkdir(parents=True, exist_ok=True)
    train, test = write_idx_set(tmp_path / below, ("train", "t10k"), ([3, 9, 0], [7]), pack, ending)
    found = data.load_mnist(tmp_path, verify=False)
    np.testing.assert_array_equal(found.train_x, train[:, None])
    np.testing.assert_array_equal(found.test_x[:, 0], test)
    assert (found.train_y.tolist(), found.test_y.tolist(), found.num_classes) == ([3, 9, 0], [7], 10)
    assert (found.name, found.input_shape, found.num_train, found.num_test) == ("mnist", (1, 28, 28), 3, 1)
    inputs = found.inputs(found.train_x)
    assert inputs.dtype == np.float32
    np.testing.assert_allclose(inputs, (train[:, None] / 255 - 0.1307) / 0.3081, atol=2e-6)


def test_mnist_dotted_names(tmp_path):
    write_idx_set(tmp_path, ("train", "t10k"), ([1], [2]))
    for path in list(tmp_path.iterdir()):
        path.rename(path.with_name(path.name.replace("-idx", ".idx")))
    assert data.load_mnist(tmp_path, verify=False).num_train == 1


def test_mnist_is_verified_by_default(tmp_path):
    write_idx_set(tmp_path, ("train", "t10k"), ([1], [2]))
    with pytest.raises(
        DataFileError, match=r"train-images.*md5 [0-9a-f]{32}, the release's has 6bbc9ace.*verify=False"
    ):
        data.load_mnist(tmp_path)


def test_a_missing_file_says_which_where_from_and_where_looked(tmp_path):
    (tmp_path / "raw").mkdir()
    with pytest.raises(
        DataFileError, match=rf"train-images-idx3-ubyte .*MNIST is not in {tmp_path} .*raw.*http://yann.lecun.com"
    ):
        data.load_mnist(tmp_path)
    with pytest.raises(DataFileError, match=r"no-such: no such folder: name the folder that holds MNIST \(from http"):
        data.load_mnist(tmp_path / "no-such")
    for load, name, page in (
        (data.load_emnist_letters, "emnist-letters-train-images-idx3-ubyte", "nist.gov"),
        (data.load_cifar10, "cifar-10-python.tar.gz", "cs.toronto.edu"),
        (data.load_cifar100, "cifar-100-python.tar.gz", "cs.toronto.edu"),
        (data.load_shakespeare, "raw_data.txt", "gutenberg.org"),
    ):
        with pytest.raises(DataFileError, match=f"{name}.* is not in {tmp_path}.*{page}"):
            load(tmp_path)


def test_images_and_labels_that_do_not_belong_together(tmp_path):
    write_idx_set(tmp_path, ("train", "t10k"), ([1, 2], [2]))
    labels = tmp_path / "train-labels-idx1-ubyte"
    labels.write_bytes(idx_bytes(np.array([1, 2, 3])))
    with pytest.raises(DataFileError, match=r"train-labels.*3 labels for the 2 images of .*train-images"):
        data.load_mnist(tmp_path, verify=False)
    labels.write_bytes(idx_bytes(np.array([1, 10])))
    with pytest.raises(DataFileError, match=r"train-labels.*a label is 10, expected 0\.\.9"):
        data.load_mnist(tmp_path, verify=False)
    labels.write_bytes((tmp_path / "train-images-idx3-ubyte").read_bytes())
    with pytest.raises(DataFileError, match=r"train-labels.*expected labels \(n,\) of uint8"):
        data.load_mnist(tmp_path, verify=False)


@pytest.mark.parametrize(("pack", "ending"), [(gzip.compress, ".gz"), (lzma.compress, ".xz")])
def test_every_cut_of_a_compressed_file_is_noticed(tmp_path, pack, ending):
    whole = pack(idx_bytes(np.arange(24).reshape(2, 3, 4)))
    path = tmp_path / f"a{ending}"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DataFileError, match=f"a{ending}"):
            data.read_idx(path)
    path.write_bytes(whole)
    assert data.read_idx(path).shape == (2, 3, 4)


def test_a_damaged_gzip_and_a_bomb(tmp_path, monkeypatch):
    whole = bytearray(gzip.compress(G.bytes(1000)))
    whole[500] ^= 255
    (tmp_path / "bad.gz").write_bytes(whole)
    with pytest.raises(DataFileError, match=r"bad.gz: (truncated or )?damaged gzip file"):
        files.read_bytes(tmp_path / "bad.gz")
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(10**6)))
    with pytest.raises(DataFileError, match="more than 100000 bytes"):
        files.read_bytes(tmp_path / "bomb.gz", limit=10**5)
    with pytest.raises(DataFileError, match="cannot be read"):
        files.read_bytes(tmp_path)


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "xz"])
def test_a_bomb_is_found_at_its_beginning_however_long_it_is(kind, monkeypatch):
    """A bomb is not unpacked beyond its first 64 MiB, here one.

    A text that unpacks to less than 250 times itself is read.
    """
    monkeypatch.setattr(untrusted, "SMALL", 2**20)
    pack = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}[kind]
    text = G.bytes(2**14) * 64
    assert untrusted.unpacked(kind, pack(text), 2**21) == text
    bomb = pack(text) + b"".join([pack(bytes(2**24))] * 40)
    stream = untrusted.Unpacked(kind, io.BytesIO(bomb), len(bomb))
    with pytest.raises(untrusted.TooMuch, match=r"its first [0-9,]+ bytes unpack to more than 250 times as many"):
        while stream.read(2**16):
            pass
    assert stream._bytes < 2**25  # of 640 MiB


def test_a_zip_that_says_what_it_unpacks_to_is_taken_at_its_word(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.csv", "w") as member:
        for _ in range(5):
            member.write(b"1,2\n" * 2**22)
    with pytest.raises(DataFileError, match=r"bomb.zip:a.csv: its [0-9,]+ bytes unpack to 83,886,080, as no data do"):
        next(files.read_archive(tmp_path / "bomb.zip", lambda name: True))


# --- EMNIST ---------------------------------------------------------------------------------------
def test_emnist_letters_upright_from_zero_first_ten(tmp_path):
    stems = ("emnist-letters-train", "emnist-letters-test")
    train, test = write_idx_set(tmp_path, stems, ([1, 26, 10, 11, 3], [5, 11]), gzip.compress, ".gz")
    ten = data.load_emnist_letters(tmp_path)
    keep = [0, 2, 4]
    np.testing.assert_array_equal(ten.train_x[:, 0], [x.T for x in train[keep]])
    assert (ten.train_y.tolist(), ten.test_y.tolist(), ten.num_classes, ten.name) == ([0, 9, 2], [4], 10, "emnist-l")
    inputs = ten.inputs(ten.train_x)  # its own moments: mean 0, standard deviation 1
    np.testing.assert_allclose([inputs.mean(), inputs.std()], [0, 1], atol=1e-5)
    all_letters = data.load_emnist_letters(tmp_path, first_ten=False)
    np.testing.assert_array_equal(all_letters.test_x[:, 0], [x.T for x in test])
    assert (all_letters.train_y.tolist(), all_letters.num_classes) == ([0, 25, 9, 10, 2], 26)


def test_emnist_labels_out_of_range(tmp_path):
    write_idx_set(tmp_path, ("emnist-letters-train", "emnist-letters-test"), ([0, 1], [5]))
    with pytest.raises(DataFileError, match=r"a label is 0, expected 1\.\.26"):
        data.load_emnist_letters(tmp_path)


def test_emnist_from_the_zip(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    write_idx_set(inner, ("emnist-letters-train", "emnist-letters-test"), ([1, 2], [3]), gzip.compress, ".gz")
    with zipfile.ZipFile(tmp_path / "gzip.zip", "w") as archive:
        for path in inner.iterdir():
            archive.write(path, f"gzip/{path.name}")
    direct, packed = data.load_emnist_letters(inner), data.load_emnist_letters(tmp_path, verify=False)
    np.testing.assert_array_equal(direct.train_x, packed.train_x)
    np.testing.assert_array_equal(direct.test_y, packed.test_y)
    with pytest.raises(DataFileError, match=r"gzip.zip: md5 .*the release's has 58c8d27c"):
        data.load_emnist_letters(tmp_path)


# --- what is returned -----------------------------------------------------------------------------
def test_digits_and_their_partitions():
    found = data.digits()
    assert (found.train_x.shape, found.test_x.shape, found.num_classes) == ((1437, 1, 8, 8), (360, 1, 8, 8), 10)
    inputs = found.inputs(found.train_x)
    np.testing.assert_allclose([inputs.mean(), inputs.std()], [0, 1], atol=1e-5)
    np.testing.assert_allclose(np.bincount(found.test_y) / np.bincount(found.train_y), 0.25, atol=0.01)
    sizes = {}
    for kind, options in (
        ("iid", {}),
        ("iid-balanced", {}),
        ("dirichlet", {"alpha": 0.3}),
        ("dirichlet", {"alpha": 0.6, "sigma": 0.5}),
        ("classes", {"classes": 2}),
    ):
        part = data.federated(found, kind, 20, seed=1, **options)
        assert part.num_samples == 1437
        assert part.sha256 == data.federated(found, kind, 20, seed=1, **options).sha256
        sizes[kind, options.get("sigma")] = part.heterogeneity(found.train_y)
    assert sizes["iid", None].size_max - sizes["iid", None].size_min == 1
    assert np.ptp(sizes["iid-balanced", None].counts, axis=0).max() == 1
    assert sizes["dirichlet", 0.5].imbalance > 2
    assert (np.count_nonzero(sizes["classes", None].counts, axis=1) == 2).all()
    assert sizes["iid", None].total_variation < sizes["dirichlet", None].total_variation < 0.9


def test_federated_refuses_what_does_not_fit():
    found = data.digits()
    for kind, options, message in (
        ("dirichlet", {}, "needs alpha"),
        ("classes", {}, "needs classes"),
        ("iid", {"alpha": 0.3}, "alpha is given"),
        ("iid-balanced", {"sigma": 0.3}, "sigma is given"),
        ("classes", {"classes": 2, "sigma": 0.1}, "sigma is given"),
        ("users", {}, "not federated by its release"),
        ("random", {}, "partition is 'random'"),
    ):
        with pytest.raises(InvalidInput, match=message):
            data.federated(found, kind, 10, **options)


def test_moments_are_numpys():
    x = G.integers(256, size=(5000, 2, 3, 3)).astype(np.uint8)
    mean, std = pixel_moments(x)
    np.testing.assert_allclose(mean, (x / 255).mean(axis=(0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(std, (x / 255).std(axis=(0, 2, 3)), rtol=1e-12)


def test_data_that_disagree():
    x, y = np.zeros((2, 1, 2, 2), np.uint8), np.array([0, 1])
    good = {"mean": (0.0,), "std": (1.0,)}
    data.ImageData("d", x, y, x, y, 2, **good)
    for change, message in (
        ({"train_y": y[:1]}, "expected"),
        ({"train_y": np.array([0, 2])}, "a train label is 2"),
        ({"test_y": np.array([0, -1])}, "a test label is -1"),
        ({"train_y": y.astype(np.int32)}, "int64"),
        ({"train_x": x.astype(float)}, "uint8"),
        ({"std": (0.0,)}, "std > 0"),
        ({"mean": (0.0, 0.0)}, "each of 1 channels"),
        ({"users": ("a",)}, "train_users must name"),
        ({"train_x": x[:0], "train_y": y[:0]}, "no training samples"),
    ):
        arguments = {
            "name": "d",
            "train_x": x,
            "train_y": y,
            "test_x": x,
            "test_y": y,
            "num_classes": 2,
            **good,
        } | change
        with pytest.raises(InvalidInput, match=message):
            data.ImageData(**arguments)


# --- the real files -------------------------------------------------------------------------------
@pytest.mark.data
@real
def test_real_mnist():
    found = data.load_mnist(path_of("train-images-idx3-ubyte", endings=("*",)).parent)
    assert (found.num_train, found.num_test) == (60000, 10000)
    counts = np.bincount(found.train_y)
    assert (counts.min(), counts.max()) == (5421, 6742)  # of fives and of ones, as is well known
    mean, std = pixel_moments(found.train_x)
    np.testing.assert_allclose([*mean, *std], [0.1307, 0.3081], atol=5e-5)


@pytest.mark.data
@real
def test_real_emnist_letters():
    folder = path_of("emnist-letters-train-images-idx3-ubyte", endings=("*",)).parent
    found = data.load_emnist_letters(folder, first_ten=False)
    assert (np.bincount(found.train_y) == 4800).all() and (np.bincount(found.test_y) == 800).all()
    np.testing.assert_allclose([*found.mean, *found.std], [0.1722, 0.3309], atol=5e-5)  # in general use for this split
    ten = data.load_emnist_letters(folder)
    assert (ten.num_train, ten.num_test, ten.num_classes) == (48000, 8000, 10)
    # Upright: the strokes of an 'i' (label 8) are higher than wide, transposed they would not be.
    letters = found.train_x[found.train_y == 8, 0] > 100
    assert letters.any(2).sum(1).mean() > 1.3 * letters.any(1).sum(1).mean()


@pytest.mark.data
@real
def test_real_cifar10():
    found = data.load_cifar10(path_of("data_batch_1", endings=("*",)).parent)
    assert (np.bincount(found.train_y) == 5000).all() and (np.bincount(found.test_y) == 1000).all()
    mean, std = pixel_moments(found.train_x)
    np.testing.assert_allclose(mean, found.mean, atol=6e-4)
    np.testing.assert_allclose(std, found.std, atol=6e-4)


@pytest.mark.data
@real
def test_real_shakespeare():
    found = data.load_shakespeare(path_of("moby_plays_tabbed.tar.gz", endings=("*",)).parent, clients=100, samples=2000)
    assert (found.num_train, found.num_test, len(found.users)) == (200000, 40000, 100)
    tiny = data.load_shakespeare(path_of("tinyshakespeare_input.txt", endings=("*",)).parent / "tinyshakespeare_input.txt")
    assert "ROMEO" in tiny.users and tiny.unknown == 1  # its one dollar sign
    assert tiny.num_train > 700_000
