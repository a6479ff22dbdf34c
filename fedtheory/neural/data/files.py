"""Finding, reading and verifying the files of public data releases; errors say what is missing and where it is published."""

from __future__ import annotations

import hashlib
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any

import numpy as np

from fedtheory.errors import DataFileError, FedTheoryError
from fedtheory.untrusted import TooMuch, Unpacked, most_unpacked

__all__ = ["LIMIT", "Release", "check_labels", "read_archive", "read_bytes", "verify"]

LIMIT = 2**30  # bytes; several times the largest file of any release read here, so that a bomb is refused
_CHUNK = 2**22
_ENDINGS = ("", ".gz", ".xz", ".bz2")
_DAMAGED = (
    EOFError, RuntimeError, ValueError, lzma.LZMAError, struct.error, tarfile.TarError,
    zipfile.BadZipFile, zlib.error,
)
_MAGIC = ((b"\x1f\x8b", "gzip"), (b"\xfd7zXZ\x00", "xz"), (b"BZh", "bzip2"))


def verify(where: str, content: Any, expected: str | None) -> None:
    """Refuse content (bytes-like, or an open file) whose md5 is not the release's; None checks nothing.

    Raises `DataFileError` with both checksums.
    """
    if expected is None:
        return
    digest = hashlib.md5(usedforsecurity=False)  # what the releases publish: it tells damage, not malice
    hashlib.file_digest(content, lambda: digest) if hasattr(content, "read") else digest.update(content)
    if (found := digest.hexdigest()) != expected:
        raise DataFileError(
            f"{where}: md5 {found}, the release's has {expected}: damaged or another version; "
            "fetch it again, or pass verify=False (--no-verify) to read it nevertheless"
        )


def check_labels(where: str, labels: np.ndarray, low: int, high: int) -> None:
    """Refuse labels (n,) beyond low..high; the first wrong one is named."""
    if labels.size and not low <= labels.min() <= labels.max() <= high:
        wrong = labels[(labels < low) | (labels > high)][0]
        raise DataFileError(f"{where}: a label is {wrong}, expected {low}..{high}: it is another file; fetch it again")


@contextmanager
def _readable(where: str, kind: str = "plain") -> Iterator[None]:
    try:
        yield
    except TooMuch as error:
        raise DataFileError(f"{where}: {error}: fetch it again") from error
    except FedTheoryError:
        raise
    except FileNotFoundError:
        raise DataFileError(f"{where}: no such file: check the path") from None
    except (*_DAMAGED, OSError) as error:
        # tarfile has a line for every packing
        told = (str(error).splitlines() or [type(error).__name__])[0].rstrip(":")
        told = f"truncated or damaged {kind} file ({told}): fetch it again"
        # of the system, and not of a decompressor
        if isinstance(error, OSError) and error.errno is not None:
            told = f"cannot be read ({error.strerror}): name a readable file"
        raise DataFileError(f"{where}: {told}") from error


def _read_all(where: str, stream: IO[bytes] | io.BufferedIOBase, limit: int) -> bytearray:
    content = bytearray()  # writable, so that arrays made of it are, without a copy
    while chunk := stream.read(_CHUNK):
        content += chunk
        if len(content) > limit:
            raise DataFileError(
                f"{where}: more than {limit} bytes: no file of this release is that large; fetch it again"
            )
    return content


def read_bytes(path: str | Path, limit: int = LIMIT) -> bytearray:
    """The file's content, decompressed (gzip, xz, bzip2: by its first bytes, not by its name).

    Raises `DataFileError` for a file that is missing, unreadable, truncated, damaged, or larger
    than `limit` bytes when decompressed.
    """
    with _opened(Path(path)) as (file, size):
        return _decompressed(str(path), file, size, limit)


@contextmanager
def _opened(path: Path, md5: str | None = None) -> Iterator[tuple[IO[bytes], int]]:
    """The file, its md5 verified, and its bytes as it lies there."""
    with _readable(str(path)), open(path, "rb") as file:
        verify(str(path), file, md5)
        file.seek(0)
        yield file, path.stat().st_size


def _unpacking(file: IO[bytes], size: int) -> tuple[str, IO[bytes]]:
    """Return how a file is packed, told by its first bytes, and a reader of its content."""
    start = file.read(6)
    file.seek(0)
    kind = next((kind for magic, kind in _MAGIC if start.startswith(magic)), "plain")
    inside: Any = file if kind == "plain" else io.BufferedReader(Unpacked(kind, file, size), _CHUNK)
    return kind, inside


def _decompressed(where: str, file: IO[bytes], size: int, limit: int) -> bytearray:
    """The content; ``size``: bytes that it was packed to, all in all."""
    kind, inside = _unpacking(file, size)
    with _readable(where, kind):
        return _read_all(where, inside, limit)


@dataclass(frozen=True)
class Release:
    """A published data set.

    Attributes
    ----------
    title : str
    page : str
        Where its makers publish it.
    subfolders : tuple of str
        Looked in after the folder itself.
    files : {name: md5 of the decompressed content, or None where none is published}, in order
    archive, archive_md5 : of a tar or zip archive that has all the files
    """

    title: str
    page: str
    subfolders: tuple[str, ...] = ()
    files: Mapping[str, str | None] = field(default_factory=dict)
    archive: str = ""
    archive_md5: str | None = None

    def folders(self, folder: str | Path) -> list[Path]:
        """The existing folders to look in, the named one first.

        Raises `DataFileError` where `folder` is no folder.
        """
        root = Path(folder).expanduser()
        if not root.is_dir():
            raise DataFileError(f"{root}: no such folder: name the folder that holds {self.title} (from {self.page})")
        return [root, *(root / s for s in self.subfolders if (root / s).is_dir())]

    def find(self, folder: str | Path, *names: str) -> Path | None:
        """The first file of one of these names, plain or compressed; None when there is none."""
        paths = (place / (name + ending) for place in self.folders(folder) for name in names for ending in _ENDINGS)
        return next((path for path in paths if path.is_file()), None)

    def missing(self, folder: str | Path, name: str) -> DataFileError:
        looked = self.folders(folder)
        below = f" and its sub-folders {', '.join(p.relative_to(looked[0]).as_posix() for p in looked[1:])}"
        return DataFileError(
            f"{name} (plain, .gz, .xz or .bz2) of {self.title} is not in {looked[0]}{below if looked[1:] else ''}: "
            f"fetch it from {self.page}, or name the folder that has it"
        )

    def contents(self, folder: str | Path, checked: bool) -> Iterator[tuple[str, str, bytearray]]:
        """(name, where, decompressed content) of the files in order, from the folder or else the archive.

        Raises `DataFileError` where one is in neither (file, page and folder are named), cannot be
        read, or, where it is to be checked, has another md5.
        """
        first = next(iter(self.files))
        packed = self.archive and self.find(folder, *_spelled(first)) is None
        archive = self.find(folder, self.archive, self.archive.removesuffix(".gz")) if packed else None
        if packed and archive is None:
            raise self.missing(folder, f"{self.archive} or {first}")
        if archive is not None:
            md5 = self.archive_md5 if checked else None
            members = read_archive(archive, lambda member: _name(member) in self.files, md5)
            found = {_name(member): (f"{archive}:{member}", content) for member, content in members}  # in an order of its own
            for name in self.files:
                if name not in found:
                    raise DataFileError(f"{archive}: has no {name}: not the published archive; fetch it from {self.page}")
                yield name, *found.pop(name)
            return
        for name, md5 in self.files.items():
            path = self.find(folder, *_spelled(name))
            if path is None:
                raise self.missing(folder, name)
            content = read_bytes(path)
            verify(str(path), content, md5 if checked else None)
            yield name, str(path), content


def _spelled(name: str) -> tuple[str, str]:
    """A file's name, and MNIST's in another spelling in circulation."""
    return name, name.replace("-idx", ".idx")


def _name(member: str) -> str:
    return PurePosixPath(member).name.removesuffix(".gz")


def read_archive(path: Path, wanted: Callable[[str], bool], md5: str | None = None) -> Iterator[tuple[str, bytearray]]:
    """(member name, decompressed content) of the wanted members of an archive, in its order; nothing is unpacked to disk.

    It is a zip by its name, or else a tar: plain, gzip, xz or bzip2, and read to its end, where the
    checksum stands.

    Raises `DataFileError` for another md5, a damaged archive, members or bytes that are too many
    for its size, a wanted member that is outside the archive's folder or, in a tar, no regular
    file, and several members of a zip in the same bytes.
    """
    kind, members = ("zip", _of_zip) if path.suffix == ".zip" else ("tar", _of_tar)
    with _opened(path, md5) as (file, size), _readable(str(path), kind):
        for member, content in members(path, file, size, wanted):
            if (place := PureWindowsPath(member)).anchor or ".." in place.parts:  # which reads both kinds of slashes
                raise DataFileError(f"{path}: holds {member!r} outside its own folder: not the published archive; fetch it again")
            yield member, content


def _of_tar(path: Path, file: IO[bytes], size: int, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytearray]]:
    _, inside = _unpacking(file, size)
    with tarfile.open(str(path), "r|", inside) as archive:
        for count, member in enumerate(archive):
            if count >= 1000 + size // 100:
                raise TooMuch("it has more members than it has room for")
            if member.isdir() or not wanted(member.name):
                continue
            where = f"{path}:{member.name}"
            stream = archive.extractfile(member) if member.isreg() else None
            if stream is None:
                raise DataFileError(f"{where} is a link or device, not a file: fetch the published archive")
            content = _read_all(where, stream, LIMIT)
            if len(content) != member.size:
                raise DataFileError(f"{where}: truncated: {len(content)} of {member.size} bytes: fetch it again")
            yield member.name, content
    while inside.read(_CHUNK):
        pass


def _of_zip(path: Path, file: IO[bytes], size: int, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytearray]]:
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if sum(member.compress_size for member in members) > size:
            raise DataFileError(f"{path}: its members take more bytes than it has: not the published archive; fetch it again")
        for member in (m for m in members if wanted(m.filename)):
            where, packed = f"{path}:{member.filename}", member.compress_size
            if member.file_size > most_unpacked(packed):  # more than it says does not come out of it
                told = f"its {packed:,} bytes unpack to {member.file_size:,}, as no data do"
                raise DataFileError(f"{where}: {told}: fetch it again")
            with archive.open(member) as stream:
                yield member.filename, _decompressed(where, stream, packed, min(LIMIT, most_unpacked(packed)))
