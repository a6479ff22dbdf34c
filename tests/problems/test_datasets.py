"""Bundled data sets, svmlight files good and broken, and (opt-in) the real LIBSVM files."""

import bz2
import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sklearn.datasets
from release_files import path_of, real
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.preprocessing import StandardScaler

from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.problems import Dataset, datasets, load_svmlight

GOOD = "# a comment\n+1 1:0.5 3:-2e-1\n-1 2:1 # and another\n+1 1:1 2:1 3:1\n"
DENSE = np.array([[0.5, 0.0, -0.2], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0]])


def _write(folder, name, text):
    data = text.encode() if isinstance(text, str) else text
    pack = {".gz": gzip.compress, ".bz2": bz2.compress}.get(Path(name).suffix, bytes)
    path = folder / name
    path.write_bytes(pack(data))
    return path


# --- bundled --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("load", "shape", "task", "classes"),
    [
        (datasets.digits, (1797, 64), "multiclass", 10),
        (datasets.digits_binary, (1797, 64), "binary", 2),
        (datasets.breast_cancer, (569, 30), "binary", 2),
        (datasets.diabetes, (442, 10), "regression", None),
    ],
)
def test_bundled_sets(load, shape, task, classes):
    data = load()
    assert data.features.shape == shape
    assert data.num_samples == shape[0]
    assert data.task == task
    np.testing.assert_allclose(data.features.mean(axis=0), 0.0, atol=1e-13)
    spread = data.features.std(axis=0)
    np.testing.assert_allclose(spread[spread > 0], 1.0, rtol=1e-12)
    assert "standardised" in data.scaling
    if task == "binary":
        assert set(data.targets) == {-1.0, 1.0}
    if task == "multiclass":
        assert set(data.targets) == set(range(10))
    if classes:
        assert data.num_classes == classes
    else:
        np.testing.assert_allclose([data.targets.mean(), data.targets.std()], [0.0, 1.0], atol=1e-12)
        with pytest.raises(InvalidInput, match="no classes"):
            _ = data.num_classes


SHIPPED = [
    (datasets.digits, "digits", {}, lambda y: y),
    (datasets.breast_cancer, "breast_cancer", {}, lambda y: 2.0 * y - 1.0),
    (datasets.diabetes, "diabetes", {"scaled": False}, lambda y: (y - y.mean()) / y.std()),
]


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize(("load", "name", "options", "targets"), SHIPPED)
def test_bundled_sets_are_those_of_scikit_learn_to_the_last_bit(monkeypatch, load, name, options, targets, elsewhere):
    """Also where scikit-learn has no such files, so that its own loader is asked."""
    x, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True, **options)
    if elsewhere:
        monkeypatch.setattr(Path, "is_file", lambda path: False)
    data = load()
    np.testing.assert_array_equal(data.features, StandardScaler().fit_transform(x))
    np.testing.assert_array_equal(data.targets, targets(y))


@pytest.mark.parametrize("order", ["C", "F"])
def test_features_are_standardised_as_by_scikit_learn_to_the_last_bit(order):
    spread = np.random.default_rng(0).normal(0, [1e-12, 1e-3, 1, 1e5, 0], (137, 5))
    x = np.array(spread + np.array([1e3, 1e3, 1e3, 1e3, 0.1]), order=order)
    made = Dataset("d", x, np.zeros(137), "regression").standardised().features
    np.testing.assert_array_equal(made, StandardScaler().fit_transform(x))
    assert np.abs(made[:, [0, 4]]).max() < 1e-6 < np.abs(made[:, 1:4]).max(axis=0).min()  # the first is constant up to rounding


def test_bundled_sets_come_without_an_import_of_scikit_learn():
    code = (
        "import sys; from fedtheory.problems import datasets as d; "
        "d.digits(), d.breast_cancer(), d.diabetes(); print('sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "False"


def test_breast_cancer_signs():
    # 357 benign, 212 malignant: the set's own description
    targets = datasets.breast_cancer().targets
    assert ((targets == 1).sum(), (targets == -1).sum()) == (357, 212)


def test_digits_as_binary_tasks():
    labels = datasets.digits().targets
    np.testing.assert_array_equal(datasets.digits_binary("even").targets > 0, labels % 2 == 0)
    np.testing.assert_array_equal(datasets.digits_binary(3).targets > 0, labels == 3)
    np.testing.assert_array_equal(datasets.digits_binary((0, 9)).targets > 0, (labels == 0) | (labels == 9))
    for wrong in (10, (), tuple(range(10)), "odd"):
        with pytest.raises(InvalidInput, match="positive is"):
            datasets.digits_binary(wrong)


def test_dataset_refuses_bad_data():
    with pytest.raises(InvalidInput, match="expected"):
        Dataset("d", np.zeros((3, 2)), np.zeros(2), "regression")
    with pytest.raises(InvalidInput, match=r"features of d\[1, 0\] is nan"):
        Dataset("d", np.array([[0.0], [np.nan]]), np.zeros(2), "regression")
    with pytest.raises(InvalidInput, match="task is 'ranking'"):
        Dataset("d", np.zeros((3, 2)), np.zeros(3), "ranking")


def test_intercept_is_a_last_constant_feature():
    data = datasets.diabetes().with_intercept()
    assert data.features.shape == (442, 11)
    assert (data.features[:, -1] == 1).all()


# --- svmlight files -------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["small", "small.svm", "small.gz", "small.bz2"])
def test_svmlight_plain_and_compressed(tmp_path, name):
    data = load_svmlight(_write(tmp_path, name, GOOD))
    np.testing.assert_allclose(data.features, DENSE)
    np.testing.assert_array_equal(data.targets, [1, -1, 1])
    assert (data.task, data.name) == ("regression", name)


def test_explicit_dimension_keeps_absent_features(tmp_path):
    path = _write(tmp_path, "small", GOOD)
    wide = load_svmlight(path, dimension=5)
    np.testing.assert_allclose(wide.features, np.pad(DENSE, ((0, 0), (0, 2))))
    with pytest.raises(DataFileError, match=r"small: index 3 is above the dimension 2: pass dimension=3"):
        load_svmlight(path, dimension=2)
    with pytest.raises(InvalidInput, match="dimension is 0"):
        load_svmlight(path, dimension=0)


def test_zero_based_files(tmp_path):
    path = _write(tmp_path, "zero", "1 0:2 2:3\n")
    np.testing.assert_allclose(load_svmlight(path, zero_based=True).features, [[2.0, 0.0, 3.0]])
    with pytest.raises(DataFileError, match=r"zero: an index is 0.*zero_based=True"):
        load_svmlight(path, zero_based=False)
    for told in (True, "auto"):
        with pytest.raises(DataFileError, match="index 2 is above the dimension 2: pass dimension=3"):
            load_svmlight(path, 2, zero_based=told)
    with pytest.raises(InvalidInput, match="zero_based is 'yes'"):
        load_svmlight(path, zero_based="yes")


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("first", [0.0, 1.0])
def test_where_a_file_begins_to_count_is_found_as_scikit_learn_finds_it(tmp_path, zero_based, first):
    x = np.random.default_rng(3).integers(1, 9, size=(7, 4)) * [first, 1, 0.5, -2]
    path = tmp_path / "written"
    dump_svmlight_file(x, np.arange(7.0), str(path), zero_based=zero_based)
    theirs, targets = load_svmlight_file(str(path), zero_based="auto")
    ours = load_svmlight(path)
    np.testing.assert_array_equal(ours.features, theirs.toarray())
    np.testing.assert_array_equal(ours.targets, targets)
    if first or not zero_based:
        np.testing.assert_array_equal(ours.features, x)
    np.testing.assert_array_equal(load_svmlight(path, 6, zero_based=zero_based).features, np.pad(x, ((0, 0), (0, 2))))
    with pytest.raises(DataFileError, match=f"index {theirs.shape[1] - (theirs.shape[1] == 4 and zero_based)} is above"):
        load_svmlight(path, theirs.shape[1] - 1)


@pytest.mark.parametrize("header", ["a,b,y\n", ""])
@pytest.mark.parametrize("sep", [",", ";", "\t", ", "])
@pytest.mark.parametrize("end", ["\n", ""])
def test_a_table_is_refused_with_lines_that_convert_it(tmp_path, header, sep, end):
    path = _write(tmp_path, "mine.csv", (header + "1,0,2\n0,-3.5,4" + end).replace(",", sep))
    with pytest.raises(DataFileError, match=r"mine.csv: a table with \w+ between its columns, such as CSV, which is not read") as told:
        load_svmlight(path)
    exec(str(told.value).partition("in the last column: ")[2])
    data = load_svmlight(tmp_path / "mine.svmlight")
    np.testing.assert_array_equal(data.features, [[1, 0], [0, -3.5]])
    np.testing.assert_array_equal(data.targets, [2, 4])


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n\0\0", b"PK\x03\x04\n", b"\x1f\x8b\x08\xff", "1 1:2\n".encode("utf-16")])
def test_what_is_no_text_is_refused_without_printing_it(tmp_path, content):
    with pytest.raises(DataFileError, match=r"no text: byte \d+ of it is \d+, .*name another file") as told:
        load_svmlight(_write(tmp_path, "picture", content))
    assert str(told.value).isprintable() and "\\x" not in str(told.value)


def test_labels_are_mapped_on_request(tmp_path):
    two = _write(tmp_path, "two", "2 1:1\n1 1:2\n2 1:3\n")
    many = _write(tmp_path, "many", "7 1:1\n3 1:2\n5 1:3\n7 1:1\n")
    data = load_svmlight(two, labels="binary")
    assert data.task == "binary"
    np.testing.assert_array_equal(data.targets, [1, -1, 1])
    np.testing.assert_array_equal(load_svmlight(two, labels={1: 1, 2: -1}).targets, [-1, 1, -1])
    data = load_svmlight(many, labels="classes")
    assert (data.task, data.num_classes) == ("multiclass", 3)
    np.testing.assert_array_equal(data.targets, [2, 0, 1, 2])
    with pytest.raises(InvalidInput, match=r"3 different labels \(3, 5, 7\)"):
        load_svmlight(many, labels="binary")
    with pytest.raises(InvalidInput, match="map every label"):
        load_svmlight(many, labels={3: 1, 5: -1})
    with pytest.raises(InvalidInput, match="map every label to -1 or"):
        load_svmlight(two, labels={1: 0, 2: 1})
    with pytest.raises(InvalidInput, match="labels is 'signs'"):
        load_svmlight(two, labels="signs")


def test_missing_and_unreadable_files(tmp_path):
    with pytest.raises(DataFileError, match="nowhere: no such file: check the path"):
        load_svmlight(tmp_path / "nowhere")
    with pytest.raises(DataFileError, match="cannot be read"):
        load_svmlight(tmp_path)


@pytest.mark.parametrize("suffix", [".gz", ".bz2"])
def test_every_cut_of_a_compressed_file_is_noticed(tmp_path, suffix):
    g = np.random.default_rng(0)
    lines = [" ".join(["1", *(f"{i}:{v:.6f}" for i, v in enumerate(g.normal(size=8), 1))]) for _ in range(50)]
    whole = _write(tmp_path, "whole" + suffix, "\n".join(lines) + "\n")
    assert load_svmlight(whole).features.shape == (50, 8)
    raw = whole.read_bytes()
    cut = tmp_path / ("cut" + suffix)
    for length in [0, 1, 5, 20, len(raw) // 2, len(raw) - 9, len(raw) - 4, len(raw) - 1]:
        cut.write_bytes(raw[:length])
        with pytest.raises(DataFileError, match=f"cut{suffix}: .*(truncated|not a).*fetch it again"):
            load_svmlight(cut)
    cut.write_bytes(raw[: len(raw) // 2] + b"\x00\x01\x02" + raw[len(raw) // 2 + 3 :])
    with pytest.raises(DataFileError, match=f"cut{suffix}: "):
        load_svmlight(cut)


def test_every_cut_within_a_line_of_a_plain_file_is_noticed(tmp_path):
    for length in range(len(GOOD)):
        path = _write(tmp_path, "cut", GOOD[:length])
        if length and GOOD[length - 1] == "\n" and length > 12:  # a cut between lines is a shorter file
            assert len(load_svmlight(path).targets) == GOOD[:length].count("\n") - 1
        else:
            with pytest.raises(DataFileError, match=r"cut: .*(truncated|empty|no samples)"):
                load_svmlight(path)


def test_a_whole_file_without_final_newline_can_be_read(tmp_path):
    path = _write(tmp_path, "bare", GOOD.rstrip("\n"))
    with pytest.raises(DataFileError, match=r"line 4 ends without a newline.*final_newline=False"):
        load_svmlight(path)
    np.testing.assert_allclose(load_svmlight(path, final_newline=False).features, DENSE)
    with pytest.raises(DataFileError, match="line 4 is not of the form"):
        load_svmlight(_write(tmp_path, "broken", GOOD.rstrip("\n")[:-1]), final_newline=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:1\n1 1:\n", "line 2 is not of the form"),
        ("1 1:1\n1 1\n", "line 2 is not of the form"),
        ("word\n", r"not a LIBSVM file \(could not convert string to float: 'word'\)"),
        ("1 1:x\n", "not a LIBSVM file"),
        ("one 1:1\n", "not a LIBSVM file"),
        ("1 2:1 1:1\n", "not a LIBSVM file.*sorted"),
        ("1 1:nan\n", "NaN or infinite"),
        ("inf 1:1\n", "NaN or infinite"),
        ("# only a comment\n", "no samples"),
        ("", "empty"),
        (b"\x00\xff\xfe\n", "bad: "),
    ],
)
def test_broken_files_are_refused(tmp_path, text, message):
    with pytest.raises(DataFileError, match=message):
        load_svmlight(_write(tmp_path, "bad", text))


def test_compression_that_the_name_only_claims(tmp_path):
    path = tmp_path / "plain.gz"
    path.write_text(GOOD)
    with pytest.raises(DataFileError, match="not a gzip file"):
        load_svmlight(path)


def test_a_file_too_large_to_be_dense_is_refused(tmp_path):
    path = _write(tmp_path, "wide", "1 1:1\n")
    with pytest.raises(InvalidInput, match="GiB dense"):
        load_svmlight(path, dimension=10**9)


# --- the real files -------------------------------------------------------------------------------
@pytest.mark.data
@real
@pytest.mark.parametrize(
    ("name", "dimension", "labels", "samples", "negative", "nonzeros"),
    [  # as listed on the LIBSVM data page
        ("a1a", 123, "binary", 1605, 1210, 22249),
        ("a9a", 123, "binary", 32561, 24720, 451592),
        ("w8a", 300, "binary", 49749, 48270, 579586),
        ("mushrooms", 112, "binary", 8124, 3916, 170604),
        ("phishing", 68, "binary", 11055, 4898, 331650),
        ("german.numer_scale", 24, "binary", 1000, 700, 23001),
        ("svmguide3.t", 22, {1: 1}, 41, 0, 902),
    ],
)
def test_libsvm_files(name, dimension, labels, samples, negative, nonzeros):
    found = path_of(name, endings=("", ".bz2"))
    data = load_svmlight(found, dimension, labels)
    assert data.features.shape == (samples, dimension)
    assert (data.targets == -1).sum() == negative
    text = bz2.open(found).read() if found.suffix == ".bz2" else found.read_bytes()
    naive = np.zeros_like(data.features)
    entries = [(i, *pair.split(b":")) for i, line in enumerate(text.splitlines()) for pair in line.split()[1:]]
    assert len(entries) == nonzeros
    for i, j, v in entries:
        naive[i, int(j) - 1] = float(v)
    np.testing.assert_array_equal(data.features, naive)
