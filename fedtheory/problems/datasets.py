"""Real data: scikit-learn's bundled sets, and any LIBSVM/svmlight file the user names."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.arrays import OwnArrays
from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.inputs import flag, real_array, real_number, whole_number
from fedtheory.limits import must_fit
from fedtheory.untrusted import SMALL, opened, unpacked

__all__ = ["Dataset", "breast_cancer", "diabetes", "digits", "digits_binary", "load_svmlight"]

_LINE = re.compile(rb"\s*(#.*)?|\s*[^\s:#]+(\s+(qid|\d+):[^\s:#]+)*\s*(#.*)?")  # what a line of the format looks like
_LONG = re.compile(rb"(?<!\S)(\d{10,}):")  # an index that might not fit
LAST_INDEX = 2**31 - 2
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")  # what no text holds
_TABLES = {b",": "commas", b";": "semicolons", b"\t": "tabs"}


@dataclass(frozen=True)
class Dataset(OwnArrays):
    """Samples before they are dealt to clients.

    Attributes
    ----------
    name : str
    features : (n, p)
    targets : (n,)
        Real numbers for 'regression', -1 and +1 for 'binary', 0..C-1 for 'multiclass'.
    task : 'regression', 'binary' or 'multiclass'
    scaling : str
        What was done to the features, in words.

    Raises
    ------
    InvalidInput
        Shapes that disagree, no samples, data that are no finite real numbers.
    """

    name: str
    features: np.ndarray
    targets: np.ndarray
    task: str
    scaling: str = "as given"

    def __post_init__(self) -> None:
        for field in ("features", "targets"):
            object.__setattr__(self, field, real_array(f"{field} of {self.name}", getattr(self, field)))
        if self.task not in ("regression", "binary", "multiclass"):
            raise InvalidInput(f"task is {self.task!r}: use 'regression', 'binary' or 'multiclass'")
        if self.features.ndim != 2 or self.targets.shape != self.features.shape[:1] or self.features.size == 0:
            raise InvalidInput(
                f"{self.name}: features {self.features.shape} and targets {self.targets.shape}: "
                "expected (n, p) and (n,), neither empty"
            )
        super().__post_init__()

    @property
    def num_samples(self) -> int:
        return self.features.shape[0]

    @property
    def num_classes(self) -> int:
        """C of a classification task."""
        if self.task == "regression":
            raise InvalidInput(f"{self.name} is a regression task: it has no classes")
        return 2 if self.task == "binary" else int(self.targets.max()) + 1

    def standardised(self) -> Dataset:
        """Every feature minus its mean, over its standard deviation (that of all n samples, divided by n); a constant
        feature becomes 0 and stays, so that the dimension does."""
        n, eps = self.num_samples, np.finfo(float).eps
        mean = self.features.sum(axis=0) / n
        apart = self.features - mean
        variance = ((apart**2).sum(axis=0) - apart.sum(axis=0) ** 2 / n) / n  # as scikit-learn's StandardScaler, to the last bit
        constant = variance <= n * eps * variance + (n * mean * eps) ** 2
        scaled = apart / np.where(constant, 1.0, np.sqrt(variance))
        return replace(self, features=scaled, scaling="features standardised: mean 0, variance 1 (constant ones: 0)")

    def with_intercept(self) -> Dataset:
        """The data with a last feature that is 1 everywhere."""
        features = np.column_stack([self.features, np.ones(self.num_samples)])
        return replace(self, features=features, scaling=self.scaling + "; constant feature 1 appended")


def _bundled(name: str, files: dict[str, dict[str, Any]], **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Features and targets that scikit-learn ships, read without importing it, which takes longer
    than judging a theorem on them.

    Parameters
    ----------
    name : that of the loader in `sklearn.datasets`, without 'load_'
        It is asked, with the options, where scikit-learn keeps its files elsewhere.
    files : dict file -> how `numpy.loadtxt` reads it
        Side by side they are a table whose last column has the targets.
    """
    package = find_spec("sklearn")
    folder = Path(package.origin).parent / "datasets" / "data" if package and package.origin else None
    if folder is None or not all((folder / file).is_file() for file in files):
        found: tuple[np.ndarray, np.ndarray] = getattr(import_module("sklearn.datasets"), f"load_{name}")(return_X_y=True, **options)
        return found
    table = np.column_stack([np.loadtxt(folder / file, **how) for file, how in files.items()])
    return table[:, :-1], table[:, -1]


def digits() -> Dataset:
    """scikit-learn's digits: 1,797 samples, 64 standardised features (8 x 8 pixels), 10 classes."""
    x, y = _bundled("digits", {"digits.csv.gz": {"delimiter": ","}})
    return Dataset("digits", x, y.astype(float), "multiclass").standardised()


def digits_binary(positive: str | int | tuple[int, ...] = "even") -> Dataset:
    """`digits` as a binary task.

    Parameters
    ----------
    positive : 'even', a digit, or a tuple of digits
        Which digits are +1; the others are -1.

    Raises
    ------
    InvalidInput
        When the digits are not among 0..9, or are none or all of them.
    """
    chosen = {0, 2, 4, 6, 8} if positive == "even" else set(np.atleast_1d(np.asarray(positive)).tolist())
    if not chosen or not chosen < set(range(10)):
        raise InvalidInput(f"positive is {positive!r}: use 'even', a digit 0..9 or a tuple of some but not all digits")
    data = digits()
    name = "digits, even or odd" if positive == "even" else f"digits, {sorted(chosen)} or not"
    return replace(data, name=name, targets=np.where(np.isin(data.targets, list(chosen)), 1.0, -1.0), task="binary")


def breast_cancer() -> Dataset:
    """scikit-learn's breast cancer (Wisconsin): 569 samples, 30 standardised features; +1 is benign, -1 malignant."""
    x, y = _bundled("breast_cancer", {"breast_cancer.csv": {"delimiter": ",", "skiprows": 1}})
    return Dataset("breast cancer", x, 2.0 * y - 1.0, "binary").standardised()


def diabetes() -> Dataset:
    """scikit-learn's diabetes: 442 samples, 10 standardised features; the target, disease progression, too."""
    x, y = _bundled("diabetes", {"diabetes_data_raw.csv.gz": {}, "diabetes_target.csv.gz": {}}, scaled=False)
    return Dataset("diabetes", x, (y - y.mean()) / y.std(), "regression").standardised()


def _read(path: Path, max_gib: float) -> bytes:
    """The file's decompressed bytes; compression is told by the file's first bytes."""
    try:
        size = path.stat().st_size if path.is_file() else SMALL  # a pipe says no size, and a device has no end
        must_fit(f"{path}: what it holds", size / 8, "take a smaller file")
        with opened(path, size) as file:
            raw = file.read(size + 1)
    except FileNotFoundError:
        raise DataFileError(f"{path}: no such file: check the path") from None
    except OSError as error:
        raise DataFileError(f"{path}: cannot be read ({error.strerror}): name a readable file") from error
    if len(raw) > size:
        raise DataFileError(f"{path}: more than {size} bytes, the most that is read of what is no file: save it as one")
    kind, magic = {".gz": ("gzip", b"\x1f\x8b"), ".bz2": ("bzip2", b"BZh")}.get(path.suffix, ("plain", b""))
    if not raw.startswith(magic):
        raise DataFileError(f"{path}: not a {kind} file though its name says so: rename it or fetch it again")
    try:
        return raw if kind == "plain" else unpacked(kind, raw, int(max_gib * 2**30))
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}: raise max_gib, or fetch it again") from None
    except EOFError as error:
        raise DataFileError(f"{path}: truncated {kind} file ({error}): fetch it again") from error
    except (OSError, zlib.error) as error:
        raise DataFileError(f"{path}: damaged {kind} file ({error}): fetch it again") from error


def load_svmlight(
    path: str | Path, dimension: int | None = None, labels: str | Mapping[float, float] = "keep",
    zero_based: bool | str = "auto", final_newline: bool = True, max_gib: float = 2.0,
) -> Dataset:
    """A LIBSVM/svmlight file, plain, .gz or .bz2, as dense data.

    Parameters
    ----------
    dimension : int or None
        p. None takes the largest index in the file, which drops trailing features that happen to be
        absent (training and test files, or a9a's family, then differ): name it.
    labels : 'keep', 'binary', 'classes', or a mapping
        'keep' makes a regression task of the numbers as they are; 'binary' maps the smaller of
        exactly two labels to -1 and the larger to +1; 'classes' numbers the labels 0..C-1 in
        increasing order; a mapping {label: -1 or +1} covers every label.
    zero_based : bool or 'auto'
        Whether the first index is 0. LIBSVM's files begin at 1, those of scikit-learn's
        `dump_svmlight_file` at 0 unless it is told otherwise. 'auto' takes a file in which an index
        0 appears as one that begins at 0, and any other as one that begins at 1, as
        `sklearn.datasets.load_svmlight_file` does: where the first feature of a file that begins at
        0 is 0 in every sample, say True.
    final_newline : bool
        Require one, which is how a file cut in its last line is noticed. (A plain file cut between
        lines cannot be told from a shorter one.)
    max_gib : float
        Largest dense array to make.

    Raises
    ------
    DataFileError
        Missing, unreadable, truncated, empty, not of the format, or an index above the dimension.
    InvalidInput
        Labels that do not fit `labels`; a dense array above `max_gib`; another `zero_based`.
    """
    from sklearn.datasets import load_svmlight_file

    if not isinstance(path, str | Path):
        raise InvalidInput(f"path = {path!r}: give the name of a file")
    path = Path(path)
    if dimension is not None:
        dimension = whole_number("dimension", dimension, most=LAST_INDEX, remedy="None takes the largest index in the file")
    if not isinstance(zero_based, bool) and zero_based != "auto":
        raise InvalidInput(f"zero_based is {zero_based!r}: use True, False or 'auto'")
    flag("final_newline", final_newline)
    max_gib = real_number("max_gib", max_gib, above=0)
    data = _read(path, max_gib)
    _check_lines(path, data, final_newline)
    try:
        x, y = load_svmlight_file(io.BytesIO(data), zero_based=True)
    except ValueError as error:
        told = re.sub(r"\bb(?=['\"])", "", str(error))  # words of the file, not how Python writes bytes
        raise DataFileError(f"{path}: not a LIBSVM file ({told}): fetch it again or correct it") from error
    if x.shape[0] == 0:
        raise DataFileError(f"{path}: the file holds no samples: fetch it again")
    x, first = _counted(path, x, zero_based)
    dimension = max(x.shape[1], 1) if dimension is None else dimension
    if x.shape[1] > dimension:
        raise DataFileError(
            f"{path}: index {x.shape[1] - 1 + first} is above the dimension {dimension}: pass dimension={x.shape[1]} or more"
        )
    need = x.shape[0] * dimension * 8 / 2**30
    if need > max_gib:
        raise InvalidInput(
            f"{path}: {x.shape[0]} samples of dimension {dimension} take {need:.1f} GiB dense, "
            f"the limit is {max_gib:g}: raise max_gib or take a smaller file"
        )
    x.resize((x.shape[0], dimension))
    if not (np.isfinite(x.data).all() and np.isfinite(y).all()):
        raise DataFileError(f"{path}: holds NaN or infinite numbers: data must be finite; correct the file")
    targets, task = _map_labels(path, y, labels)
    return Dataset(path.name, x.toarray(), targets, task)


def _counted(path: Path, x: Any, zero_based: bool | str) -> tuple[Any, int]:
    """The samples with the first feature in column 0, and the index that features begin at."""
    from scipy.sparse import csr_matrix

    none_is_0 = bool((x.indices > 0).all())
    if zero_based is True or (zero_based == "auto" and not none_is_0):
        return x, 0
    if not none_is_0:
        raise DataFileError(f"{path}: an index is 0, but LIBSVM counts from 1: write it so, or pass zero_based=True or 'auto'")
    return csr_matrix((x.data, x.indices - 1, x.indptr), (x.shape[0], max(x.shape[1] - 1, 0))), 1


def _refuse_others(path: Path, data: bytes) -> None:
    """Raise `DataFileError` for no text, and for a table such as CSV, with how to convert it."""
    found = _CONTROL.search(data)
    if found:
        raise DataFileError(
            f"{path}: no text: byte {found.start() + 1} of it is {found[0][0]}, and a LIBSVM file "
            "has lines 'label index:value ...'; fetch it again or name another file"
        )
    line = data.lstrip().partition(b"\n")[0].partition(b"#")[0].strip()
    sep = next((s for s in _TABLES if s in line), None)
    if sep is None or b":" in line:
        return
    try:
        [float(word) for word in line.split(sep)]
        names = 0
    except ValueError:
        names = 1
    name, out = str(path), str(path.with_suffix(".svmlight"))
    raise DataFileError(
        f"{path}: a table with {_TABLES[sep]} between its columns, such as CSV, which is not read: convert it in Python, "
        f"here with the target in the last column: import numpy, sklearn.datasets; "
        f"t = numpy.loadtxt({name!r}, delimiter={sep.decode()!r}, skiprows={names}, ndmin=2); "
        f"sklearn.datasets.dump_svmlight_file(t[:, :-1], t[:, -1], {out!r}, zero_based=False)"
    )


def _check_lines(path: Path, data: bytes, final_newline: bool) -> None:
    """Raise `DataFileError` for the first line that is not of the format, and for a file that is cut or empty."""
    if not data.strip():
        raise DataFileError(f"{path}: the file is empty: fetch it again")
    _refuse_others(path, data)
    if final_newline and not data.endswith(b"\n"):
        number, last = data.count(b"\n") + 1, data[data.rfind(b"\n") + 1 :]
        raise DataFileError(
            f"{path}: truncated: line {number} ends without a newline ({_show(last)}): "
            "fetch it again, or pass final_newline=False if the file is known to be whole"
        )
    for number, line in enumerate(data.splitlines(), start=1):
        if not _LINE.fullmatch(line):
            raise DataFileError(
                f"{path}: line {number} is not of the form 'label index:value ...' ({_show(line)}): "
                "the file is truncated, damaged or in another format; fetch it again"
            )
        told = line.partition(b"#")[0]
        for found in _LONG.finditer(told):
            _check_index(path, number, found[1].lstrip(b"0"))
        if b"_" in told:  # Python reads 1_0 as 10
            raise DataFileError(f"{path}: line {number} has an underscore ({_show(told)}): write numbers in the digits 0 to 9")


def _check_index(path: Path, number: int, digits: bytes) -> None:
    """Raise `DataFileError` for an index that the reader cannot hold."""
    if len(digits) > 10 or int(digits or 0) > LAST_INDEX:
        index = _show(digits).strip("'")
        raise DataFileError(
            f"{path}: line {number} has the index {index}: the largest that can be read is {LAST_INDEX}; renumber the features"
        )


def _show(line: bytes) -> str:
    text = line.decode(errors="replace")
    return repr(text if len(text) <= 40 else "..." + text[-40:])


def _map_labels(path: Path, y: np.ndarray, labels: str | Mapping[float, float]) -> tuple[np.ndarray, str]:
    found = np.unique(y)
    shown = ", ".join(f"{v:g}" for v in found[:5]) + (", ..." if len(found) > 5 else "")
    if isinstance(labels, Mapping):
        missing = [v for v in found if v not in labels]
        if missing or not set(labels.values()) <= {-1, 1}:
            raise InvalidInput(f"{path}: labels {shown} with the map {dict(labels)}: map every label to -1 or +1")
        return np.array([float(labels[v]) for v in y]), "binary"
    if labels == "keep":
        return y, "regression"
    if labels == "binary":
        if len(found) != 2:
            raise InvalidInput(
                f"{path}: {len(found)} different labels ({shown}), but labels='binary' needs two: give a mapping "
                "{label: -1 or +1}, or use labels='classes'"
            )
        return np.where(y == found[1], 1.0, -1.0), "binary"
    if labels == "classes":
        return np.searchsorted(found, y).astype(float), "multiclass"
    raise InvalidInput(f"labels is {labels!r}: use 'keep', 'binary', 'classes' or a mapping")
