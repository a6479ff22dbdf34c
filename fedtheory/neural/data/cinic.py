"""CINIC-10: folders of PNG files, or the published archive of them."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.arrays import sealed
from fedtheory.errors import DataFileError
from fedtheory.inputs import flag
from fedtheory.neural.data.core import ImageData
from fedtheory.neural.data.files import Release, read_bytes, read_tar
from fedtheory.parallel import Progress

__all__ = ["load_cinic10", "parse_png"]

# in the order of CIFAR-10's numbers
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PER_CLASS = 9000  # in each of train, valid and test
ARCHIVE = "CINIC-10.tar.gz"
ARCHIVE_MD5 = "6ee4d0c996905fe93221de577967a372"  # in general use; the release prints none of its single files
CINIC10 = Release(
    "CINIC-10", "https://datashare.ed.ac.uk/handle/10283/3192", ("CINIC-10", "cinic-10", "cinic10", "CINIC10")
)
# As the release prints them
_MEAN, _STD = (0.47889522, 0.47227842, 0.43047404), (0.24205776, 0.23828046, 0.25874835)
_SIDE = 32
_EIGHT_BITS = ("RGB", "L", "LA", "P", "RGBA", "1")
_LARGEST = 2**20  # bytes of a file; an image of this size, not compressed, has 3,100


def parse_png(where: str, content: Any) -> tuple[np.ndarray, str]:
    """Pixels (3, 32, 32) uint8 of a PNG file, and the mode it is stored in.

    What is not RGB (ImageNet has grey images) is made RGB as torchvision's ImageFolder does, which the release recommends:
    grey in all three channels, transparency left out.

    Raises `DataFileError` for what is no PNG, damaged, of another size, or of more than eight bits
    a channel.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            image.verify()  # checksums, which decoding does not look at; an image can then only be opened again
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            size, mode = image.size, image.mode
            pixels = None
            if size == (_SIDE, _SIDE) and mode in _EIGHT_BITS:  # looked at before anything is decoded
                pixels = np.asarray(image if mode == "RGB" else image.convert("RGB"))
    except Exception as error:  # whatever a damaged file makes the decoder raise
        raise DataFileError(f"{where}: not a readable PNG ({error or type(error).__name__}): fetch it again") from error
    if pixels is None:
        raise DataFileError(
            f"{where}: {size[0]} x {size[1]} pixels of mode {mode}, expected {_SIDE} x {_SIDE} of "
            "eight bits a channel: it is another file; fetch it again"
        )
    return pixels.transpose(2, 0, 1), mode


class _Part:
    """The images of train, valid or test, gathered in any order."""

    def __init__(self) -> None:
        self.pixels = bytearray()  # grown in place, with no second copy
        self.labels: list[int] = []
        self.names: list[str] = []

    def add(self, label: int, name: str, pixels: np.ndarray) -> None:
        self.pixels += pixels.tobytes()
        self.labels.append(label)
        self.names.append(name)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Images and labels: the first of each class by name, then the second of each, ..."""
        labels = np.array(self.labels, np.int64)
        by_class = np.lexsort((np.array(self.names, dtype=str), labels))
        counts = np.bincount(labels, minlength=len(CLASSES))
        rank = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
        order = by_class[np.argsort(rank, kind="stable")]
        images = np.frombuffer(self.pixels, np.uint8).reshape(-1, 3, _SIDE, _SIDE)[order]
        self.pixels = bytearray()
        return images, labels[order]


def _check_counts(where: str, counts: Counter[tuple[str, str]], parts: tuple[str, ...]) -> None:
    for part in parts:
        for name in CLASSES:
            if counts[part, name] != PER_CLASS:
                raise DataFileError(
                    f"{where}: {part}/{name} has {counts[part, name]} images, the release's {PER_CLASS}: not whole, or another "
                    f"version; fetch it again from {CINIC10.page}, or pass verify=False (--no-verify) to read it nevertheless"
                )


def _tree(folder: str | Path) -> Path | None:
    """The folder with train/airplane and so on; `train` alone may be another release's."""
    for place in CINIC10.folders(folder):
        if any((place / "train" / name).is_dir() for name in CLASSES):
            return place
    return None


def _from_tree(place: Path, parts: tuple[str, ...], verify: bool) -> Iterator[tuple[str, str, str, str, Any]]:
    """(part, class, name, where, content) of all images; everything is counted before the first is read."""
    files: dict[tuple[str, str], list[str]] = {}
    for part in parts:
        for name in CLASSES:
            below = place / part / name
            if not below.is_dir():
                raise DataFileError(
                    f"{below}: no such folder: {CINIC10.title} has train, valid and test of ten "
                    f"classes each; unpack {ARCHIVE} again (from {CINIC10.page})"
                )
            files[part, name] = sorted(
                p.name for p in below.iterdir() if p.suffix == ".png" and not p.name.startswith(".")
            )
    if verify:
        _check_counts(str(place), Counter({k: len(v) for k, v in files.items()}), parts)
    for (part, name), found in files.items():
        for file in found:
            path = place / part / name / file
            yield part, name, file, str(path), read_bytes(path, _LARGEST)


def _from_archive(archive: Path, parts: tuple[str, ...], verify: bool) -> Iterator[tuple[str, str, str, str, Any]]:
    def split(member: str) -> tuple[str, str, str] | None:
        found = tuple(member.split("/")[-3:])
        known = len(found) == 3 and found[0] in parts and found[1] in CLASSES
        return found if known and found[2].endswith(".png") and not found[2].startswith(".") else None  # type: ignore[return-value]

    counts: Counter[tuple[str, str]] = Counter()
    md5 = ARCHIVE_MD5 if verify else None
    for member, content in read_tar(archive, lambda m: split(m) is not None, md5):
        part, name, file = split(member)  # type: ignore[misc]
        counts[part, name] += 1
        yield part, name, file, f"{archive}:{member}", content
    for part in parts:
        if not any(counts[part, name] for name in CLASSES):
            raise DataFileError(
                f"{archive}: has no images {part}/class/*.png: not the published archive; fetch it from {CINIC10.page}"
            )
    if verify:
        _check_counts(str(archive), counts, parts)


def load_cinic10(folder: str | Path, valid: bool = False, verify: bool = True, progress: bool = True) -> ImageData:
    """CINIC-10 (Darlow et al., 2018): 90,000 training and 90,000 test images (3, 32, 32) of
    CIFAR-10's classes.

    Labels are CIFAR-10's numbers. Images come in a fixed order, class after class in turn, so that
    the first few hold all classes alike: by file name within a class. Inputs are, channel by
    channel, (byte / 255 - mean) / std with the mean and standard deviation that the release prints.

    Parameters
    ----------
    folder : holds train/airplane/*.png and so on, or CINIC-10.tar.gz (which is read as it is, in
        memory); `CINIC-10` below it will do
    valid : bool
        Put the third part, `valid`, to the training images: 180,000. Federated papers leave it out
        (FedML's reader too).
    verify : bool
        Check the archive's md5, and that each class has 9,000 images in each part.
    progress : bool
        Show a bar where it takes longer than two seconds.

    Raises
    ------
    DataFileError
        Neither folders nor archive (the file, where it is published and the folder are said); a
        part or a class missing, or not whole; a file that is no PNG of 32 x 32 pixels, which is
        named.
    """
    flag("valid", valid), flag("verify", verify), flag("progress", progress)
    parts = ("train", "valid", "test") if valid else ("train", "test")
    place = _tree(folder)
    archive = CINIC10.find(folder, ARCHIVE.removesuffix(".gz")) if place is None else None
    if place is None and archive is None:
        raise CINIC10.missing(folder, f"{ARCHIVE}, or the folder train with {CLASSES[0]} to {CLASSES[-1]},")
    images = _from_tree(place, parts, verify) if archive is None else _from_archive(archive, parts, verify)  # type: ignore[arg-type]
    gathered = {"train": _Part(), "test": _Part()}
    others: Counter[str] = Counter()
    with Progress(len(parts) * len(CLASSES) * PER_CLASS, "reading CINIC-10", progress) as bar:
        for done, (part, name, file, where, content) in enumerate(images, 1):
            pixels, mode = parse_png(where, content)
            others[mode] += mode != "RGB"
            # `valid` after `train` within a class
            gathered["test" if part == "test" else "train"].add(CLASSES.index(name), f"{part}/{file}", pixels)
            if done % 500 == 0:
                bar.update(done)
    train, test = gathered["train"].arrays(), gathered["test"].arrays()
    sealed((train, test))
    source = f"CINIC-10, {'train and valid' if valid else 'train'} against test, PNG files in {place or archive}"
    if made := +others:
        source += f"; made RGB: {', '.join(f'{n} of mode {mode}' for mode, n in sorted(made.items()))}"
    return ImageData("cinic10", *train, *test, len(CLASSES), source=source, mean=_MEAN, std=_STD)
