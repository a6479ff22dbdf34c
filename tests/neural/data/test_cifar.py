"""CIFAR-10 and -100: tiny pickles, and archives, good, broken and hostile."""

import bz2
import gzip
import lzma
import os
import pickle
import struct
import tarfile

import numpy as np
import pytest
from release_files import write_tar

from fedtheory.errors import DataFileError
from fedtheory.neural import data
from fedtheory.neural.data import cifar

G = np.random.default_rng(0)


def py2_batch(images, labels, key="labels"):
    """A batch as Python 2 wrote it: protocol 2, byte strings as SHORT_BINSTRING or BINSTRING, NumPy's old module names."""

    def text(b):
        return (b"U" + bytes([len(b)]) if len(b) < 256 else b"T" + struct.pack("<i", len(b))) + b

    def number(v):
        return b"J" + struct.pack("<i", v)

    ints = b"](" + b"".join(number(v) for v in labels) + b"e"
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + number(0) + b"\x85" + text(b"b") + b"\x87R"
        b"(" + number(1) + number(len(images)) + number(3072) + b"\x86"
        b"cnumpy\ndtype\n" + text(b"u1") + number(0) + number(1) + b"\x87R"
        b"(" + number(3) + text(b"|") + b"NNN" + number(-1) + number(-1) + number(0) + b"tb"
        b"\x89" + text(images.tobytes()) + b"tb"
    )  # fmt: skip
    items = text(b"batch_label") + text(b"one") + text(key.encode()) + ints + text(b"data") + array
    return b"\x80\x02}(" + items + b"u."


def cifar_files(version, classes):
    """{name: content} of a version, and the images and labels in them."""
    contents, samples = {}, {}
    for i, name in enumerate(version.files):
        x, y = G.integers(256, size=(3, 3072)).astype(np.uint8), [(i + j) % classes for j in range(3)]
        samples[name] = (x, y)
        contents[name] = py2_batch(x, y, "labels" if classes == 10 else "fine_labels")
    return contents, samples


def expected(version, samples):
    pick = lambda part: (np.concatenate([samples[f][0] for f in part]), np.concatenate([samples[f][1] for f in part]))  # noqa: E731
    return *pick([f for f in version.files if "test" not in f]), *pick([f for f in version.files if "test" in f])


CASES = [(data.load_cifar10, cifar.CIFAR10, 10), (data.load_cifar100, cifar.CIFAR100, 100)]


def test_the_hand_made_batch_is_what_numpy_reads():
    x = G.integers(256, size=(2, 3072)).astype(np.uint8)
    batch = pickle.loads(py2_batch(x, [4, 5]), encoding="bytes")  # the full reader, on bytes made here
    np.testing.assert_array_equal(batch[b"data"], x)
    assert batch[b"labels"] == [4, 5]


@pytest.mark.parametrize(("load", "version", "classes"), CASES)
@pytest.mark.parametrize("form", ["plain", ".gz", ".xz", ".bz2", "tar.gz", "tar", "tar.xz"])
def test_cifar_versions(tmp_path, load, version, classes, form):
    contents, samples = cifar_files(version, classes)
    if form.startswith("tar"):
        name = version.archive.removesuffix("tar.gz") + form
        members = {f"{version.subfolders[0]}/{n}": contents[n] for n in reversed(contents)}
        write_tar(tmp_path / name, members, form.replace("tar", "w").replace(".", ":"))
    else:
        packers = {"plain": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}
        pack, ending = packers[form], form.replace("plain", "")
        (tmp_path / version.subfolders[0]).mkdir()
        for name, content in contents.items():
            (tmp_path / version.subfolders[0] / (name + ending)).write_bytes(pack(content))
    found = load(tmp_path, verify=False)
    train_x, train_y, test_x, test_y = expected(version, samples)
    np.testing.assert_array_equal(found.train_x.reshape(-1, 3072), train_x)
    np.testing.assert_array_equal(found.train_y, train_y)
    np.testing.assert_array_equal(found.test_x.reshape(-1, 3072), test_x)
    np.testing.assert_array_equal(found.test_y, test_y)
    assert (found.num_classes, found.input_shape) == (classes, (3, 32, 32))
    green = found.inputs(found.train_x)[:, 1]
    np.testing.assert_allclose(green, (found.train_x[:, 1] / 255 - found.mean[1]) / found.std[1], atol=2e-6)
    with pytest.raises(DataFileError, match="the release's has"):
        load(tmp_path)


class Evil:
    """Asks the reader to run a command."""

    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    ("payload", "named"),
    [
        (lambda f: pickle.dumps(Evil(os.system, f"touch {f}"), 2), "system"),
        (lambda f: pickle.dumps(Evil(eval, f"open({str(f)!r}, 'w')"), 2), "eval"),
        (lambda f: pickle.dumps({"data": Evil(os.system, f"touch {f}"), "labels": []}, 4), "system"),
        (lambda f: b"cnumpy.f2py.diagnose\nrun\n(tR.", r"numpy\.f2py\.diagnose\.run"),
        (lambda f: b"cnumpy\nsave\n(V" + str(f).encode() + b"\nI1\ntR.", r"numpy\.save"),
        (lambda f: b"ibuiltins\nexec\n.", r"builtins\.exec|mark|MARK"),
        (lambda f: b"(S'touch " + str(f).encode() + b"'\nios\nsystem\n.", r"os\.system"),
        (lambda f: b"cnumpy.core.multiarray\n_reconstruct\n(N}S'x'\nI1\nstb.", "missing 1 required positional argument"),
        (lambda f: b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R.", r"os\.system"),
    ],
)
def test_a_pickle_that_asks_for_anything_else_is_refused_by_name(tmp_path, payload, named):
    marker = tmp_path / "marker"
    with pytest.raises(DataFileError, match=named):
        cifar.parse_pickle("batch", payload(marker), "labels")
    assert not marker.exists()


def test_the_evil_pickle_would_have_run(tmp_path):
    """The same bytes, given to the unrestricted reader, do create the file: the test above can fail."""
    marker = tmp_path / "marker"
    pickle.loads(pickle.dumps(Evil(os.system, f"touch {marker}"), 2))
    assert marker.exists()


def test_broken_batches(tmp_path):
    x = G.integers(256, size=(2, 3072)).astype(np.uint8)
    whole = py2_batch(x, [1, 2])
    assert cifar.parse_pickle("batch", whole, "labels")[1].tolist() == [1, 2]
    for length in [0, 1, 2, 10, 40, 100, len(whole) // 2, len(whole) - 1]:
        with pytest.raises(DataFileError, match=r"^batch: not a readable CIFAR pickle"):
            cifar.parse_pickle("batch", whole[:length], "labels")
    for content, message in (
        (whole.replace(b"U\x02u1", b"U\x02i8"), "type b'i8', expected 'u1'"),
        (whole.replace(b"U\x02u1", b"U\x02O8"), "type b'O8'"),
        (py2_batch(x, [1]), "1 labels for 2 images"),
        (py2_batch(x, [1, 2], "fine_labels"), "has no 'labels', only .*'fine_labels'"),
        (py2_batch(x[:, :3071], [1, 2]), "not a readable"),
        (pickle.dumps([1], 2), "holds a list"),
        (pickle.dumps({"data": 3, "labels": [1]}, 2), "'data' has no array"),
        (pickle.dumps({"data": 3, "labels": [1]}, 2) + b"x" * 9, "no array"),
    ):
        with pytest.raises(DataFileError, match=message):
            cifar.parse_pickle("batch", content, "labels")


@pytest.mark.parametrize(
    "bomb",
    [
        b"\x80\x02]r\xff\xff\xff\x7f.",  # LONG_BINPUT: the reader's table would grow to 32 GiB
        b"]p9999999999\n.",
        b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b"x.",  # BYTEARRAY8 of a TiB
        b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"x.",
        b"T\xff\xff\xff\x7fx.",
    ],
)
def test_a_pickle_that_would_take_all_memory(bomb):
    with pytest.raises(DataFileError, match="not a readable CIFAR pickle"):
        cifar.parse_pickle("batch", bomb, "labels")


@pytest.mark.parametrize("name", ["../{}", "/etc/{}", "a/../../{}", "C:/{}", "..\\{}"])
def test_a_batch_that_lies_outside_its_folder_is_refused(tmp_path, name):
    write_tar(tmp_path / cifar.CIFAR10.archive, {name.format("test_batch"): b"x"})
    with pytest.raises(DataFileError, match="outside its own folder" if name != "..\\{}" else "has no data_batch_1"):
        data.load_cifar10(tmp_path, verify=False)


def test_a_tar_of_more_members_than_it_has_room_for(tmp_path):
    write_tar(tmp_path / cifar.CIFAR10.archive, {f"a{i}": b"" for i in range(3000)})
    with pytest.raises(DataFileError, match="more members than it has room for"):
        data.load_cifar10(tmp_path, verify=False)


def test_a_tar_whose_batch_is_a_link_or_missing_or_cut(tmp_path):
    version = cifar.CIFAR10
    path = tmp_path / version.archive
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo(f"{version.subfolders[0]}/data_batch_1")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(DataFileError, match="data_batch_1 is a link"):
        data.load_cifar10(tmp_path, verify=False)
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("readme")
        archive.addfile(info)
    with pytest.raises(DataFileError, match="has no data_batch_1"):
        data.load_cifar10(tmp_path, verify=False)
    contents, _ = cifar_files(version, 10)
    write_tar(path, {f"{version.subfolders[0]}/{name}": content for name, content in contents.items()})
    whole = path.read_bytes()
    for length in (0, 1, 10, 100, len(whole) // 2, len(whole) - 20):
        path.write_bytes(whole[:length])
        with pytest.raises(DataFileError, match=r"cifar-10-python.tar.gz.*(truncated|damaged)"):
            data.load_cifar10(tmp_path, verify=False)


def test_cifar_labels_out_of_range(tmp_path):
    contents, _ = cifar_files(cifar.CIFAR10, 10)
    contents["test_batch"] = py2_batch(np.zeros((1, 3072), np.uint8), [10])
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataFileError, match=r"test_batch: a label is 10, expected 0\.\.9"):
        data.load_cifar10(tmp_path, verify=False)
