"""CINIC-10: tiny files of each format, good and broken, and (opt-in) the real ones."""


import numpy as np
import pytest
from release_files import G, path_of, png, random_image, real, write_tar

from fedtheory.errors import DataFileError
from fedtheory.neural import data
from fedtheory.neural.data import cinic
from fedtheory.neural.data.core import pixel_moments

CIFAR10 = "airplane automobile bird cat deer dog frog horse ship truck".split()


def cinic_files(count, parts=("train", "valid", "test")):
    """{part/class/name.png: pixels (32, 32, 3)}, not in order."""
    names = [f"{p}/{c}/{n}" for p in parts for c in CIFAR10 for n in ("n0_2.png", "cifar-1.png", "n0_10.png")[:count]]
    return {name: random_image() for name in G.permutation(names).tolist()}


def write_tree(folder, files):
    for name, pixels in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(png(pixels))


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
    write_tar(other / "CINIC-10.tar.gz", {"../train/cat/a.png": png(random_image())})
    with pytest.raises(DataFileError, match="outside its own folder"):
        data.load_cinic10(other, verify=False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a readable PNG"),
        (b"GIF89a" + bytes(50), "not a readable PNG"),
        (png(random_image())[:-30], "not a readable PNG"),
        (png(random_image()[:, :31]), "31 x 32 pixels of mode RGB, expected 32 x 32"),
        (png(random_image()[:31]), "32 x 31 pixels of mode RGB"),
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
    grey, three = random_image()[:, :, 0], random_image()
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


@pytest.mark.data
@real
def test_real_cinic10():
    found = data.load_cinic10(path_of("CINIC-10.tar.gz").parent)
    assert (np.bincount(found.train_y) == 9000).all() and (np.bincount(found.test_y) == 9000).all()
    mean, std = pixel_moments(found.train_x)
    np.testing.assert_allclose(mean, found.mean, atol=2e-3)
    np.testing.assert_allclose(std, found.std, atol=2e-3)
