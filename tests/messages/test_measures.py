"""Nonzeros and entropies worked out by hand, and bins counted by every path against np.unique."""

from __future__ import annotations

import math

import array_api_strict
import numpy as np
import pytest

from fedtheory.errors import InvalidInput
from fedtheory.messages import entropy_bits, measures, nonzeros

torch = pytest.importorskip("torch")


def test_nonzeros() -> None:
    assert nonzeros(np.array([[0.0, 1.0, -2.0], [0.0, -0.0, 0.0]])).tolist() == [2, 0]
    assert nonzeros(np.array([[[1.0, 1.0, 0.0], [0.0, 2.0, 0.0]]])).tolist() == [[2, 1]]


def test_an_entropy_by_hand() -> None:
    """Bins 0, 0, 0, 1, 2, 1: the shares are 1/2, 1/3, 1/6, and 1/2 + log2(3)/3 + log2(6)/6 = 2/3 + log2(3)/2."""
    message = np.array([[0.0, 0.004, -0.004], [0.006, 0.02, 0.014]])
    assert entropy_bits(message) == pytest.approx(2 / 3 + math.log2(3) / 2, rel=1e-14)
    assert entropy_bits(10 * message, 0.1) == pytest.approx(2 / 3 + math.log2(3) / 2, rel=1e-14)
    assert entropy_bits(message, 0.1) == 0.0 and math.copysign(1, entropy_bits(message, 0.1)) == 1
    assert measures.entropy_of_counts(np.array([2, 1, 1])) == 3 / 2


def test_bins_are_centred_and_halves_go_to_even() -> None:
    numbers, counts = measures.bin_counts(np.array([1.25, 0.25, -0.25, 0.75, -0.8]), 0.5)
    assert (numbers.tolist(), counts.tolist()) == ([-2, 0, 2], [1, 2, 2])
    # 0.015 in single precision is below it: in double precision the quotient is below 3/2, in single it would be rounded to 3/2
    for count, as_array in ((measures.bin_counts, np.asarray), (measures._on_device, torch.asarray)):
        assert count(as_array(np.array([0.015], dtype=np.float32)), 0.01)[0].tolist() == [1]
        # 0.025/0.01 is 5/2 in double precision, and with 0.01 in single precision more than that
        assert count(as_array(np.array([0.025])), 0.01)[0].tolist() == [2]
        assert [len(part) for part in count(as_array(np.zeros((0, 3))), 0.01)] == [0, 0]


def expected(message, width):
    numbers, counts = np.unique(np.round(np.asarray(message, dtype=float).ravel() / width), return_counts=True)
    return numbers.tolist(), counts.tolist()


@pytest.mark.parametrize("size", [1, 7, 8, 21, 24])
def test_every_way_of_counting_gives_the_same(monkeypatch, size) -> None:
    """Whole blocks and parts of one, pieces of a device, what is compiled run as it stands, and ranges too wide to be counted."""
    message = np.random.default_rng(size).normal(size=size)
    wanted = expected(message, 0.3)

    def same(found):
        return found[1].dtype.kind == "i" and ([float(v) for v in found[0]], found[1].tolist()) == wanted

    monkeypatch.setattr(measures, "_worth", lambda: False)  # few entries have a way of their own, below
    sort, place, calls = np.unique, np.bincount, []
    monkeypatch.setattr(np, "unique", None)  # everything is counted by place
    assert same(measures.bin_counts(message, 0.3))
    monkeypatch.setattr(np, "bincount", None)
    monkeypatch.setattr(measures, "BLOCK", 8)
    monkeypatch.setattr(measures, "PIECE", 5)
    monkeypatch.setattr(measures, "COMPILED", size)
    monkeypatch.setattr(measures, "FEW", int(wanted[0][-1] - wanted[0][0]) + 1)
    monkeypatch.setattr(measures, "_compiled_count", lambda: calls.append(size) or measures.count_bins)
    assert same(measures.bin_counts(message, 0.3)) and len(calls) == 1
    assert same(measures._on_device(torch.asarray(message), 0.3))
    monkeypatch.setattr(np, "bincount", place)
    for limit in ("COMPILED", "FEW"):  # one entry too few, one bin too many
        with monkeypatch.context() as one:
            one.setattr(measures, limit, getattr(measures, limit) + (1 if limit == "COMPILED" else -1))
            assert same(measures.bin_counts(message, 0.3)) and len(calls) == 1
    monkeypatch.setattr(measures, "COUNTED", 0)
    monkeypatch.setattr(np, "unique", sort)
    monkeypatch.setattr(np, "bincount", None)  # nothing is counted by place
    assert same(measures.bin_counts(message, 0.3))
    assert same(measures._on_device(torch.asarray(message), 0.3))


@pytest.mark.parametrize("loop", [measures._compiled_tally, lambda: measures.tally], ids=["compiled", "as it stands"])
def test_few_entries_are_sorted_into_the_same_bins(monkeypatch, loop) -> None:
    """Halves, zeros of either sign, equal entries and none at all; what is not finite or too far apart is left to NumPy."""
    rng = np.random.default_rng(3)
    sizes = 1, 2, 5, 20, measures.SORTED, measures.SORTED + 1
    cases = [rng.normal(size=size) * scale for size in sizes for scale in (1e-3, 0.3, 40.0)]
    by_hand = [-0.0, 0.001, -0.001], [0.005, 0.015, 0.025, -0.005], [2.0] * 9, [3.0, 1.0, 2.0, 1.0], [0.0, 1e300], []
    cases += [np.array(entries) for entries in by_hand]
    cases += [np.arange(40.0)[::3], rng.normal(size=(4, 5)).T, rng.normal(size=12).astype(np.float32)]
    found = []
    for worth in (True, False):
        monkeypatch.setattr(measures, "_worth", lambda worth=worth: worth)
        monkeypatch.setattr(measures, "_compiled_tally", loop if worth else None)
        found.append([[part.tobytes() for part in measures.bin_counts(case)] for case in cases])
    assert found[0] == found[1]
    for bad in (np.nan, np.inf, -np.inf):
        assert loop()(np.array([1.0, bad]), 0.01, np.empty(2), np.empty(2, dtype=np.int64)) == 0


def test_where_entries_are_counted(monkeypatch) -> None:
    """Entries that are not on the host are counted where they lie, with the same width.

    Short and whole numbers, and arrays of every library, are.
    """
    numbers = [1.0, 3.0, 3.0]
    kinds = np.array(numbers, dtype=int), np.array(numbers, dtype=np.float16), array_api_strict.asarray(numbers), torch.tensor(numbers)
    for made in kinds:
        assert [part.tolist() for part in measures.bin_counts(made, 2.0)] == [[0, 2], [1, 2]]  # 1/2 goes to 0, 3/2 to 2
    assert measures.bin_counts(np.array([0.02, 0.014]))[0].tolist() == [1, 2]  # of a hundredth each
    assert entropy_bits(array_api_strict.asarray([1.0, 3.0]), 2.0) == entropy_bits(torch.tensor([1.0, 3.0]), 2.0) == 1.0
    asked = []
    monkeypatch.setattr(measures, "on_host", lambda message: asked.append(message))
    monkeypatch.setattr(measures, "_on_device", lambda message, width: ("there", message, width))
    message = torch.tensor([1.0, 3.0])
    assert measures.bin_counts(message, 0.25) == ("there", message, 0.25) and asked == [message]


def test_counts_are_added_row_by_row() -> None:
    counts = np.ones((4, 3), dtype=np.int64)
    measures.count_bins(np.array([0.0, 1.0, 1.0, 2.0, 0.0, 0.0]), 1.0, 0.0, counts)
    assert counts.sum(axis=0).tolist() == [4 + 3, 4 + 2, 4 + 1]


def test_ranges() -> None:
    assert measures._range(-0.02, 0.034, 0.01) == (-2.0, 6)
    assert measures._range(0.0, measures.COUNTED - 1.0, 1.0) == (0.0, measures.COUNTED)
    assert measures._range(0.0, float(measures.COUNTED), 1.0)[1] == 0
    assert measures._range(0.0, math.nan, 1.0)[1] == 0
    assert measures._range(measures.COUNTED, measures.COUNTED + 4.0, 1.0) == (measures.COUNTED, 5)


@pytest.mark.parametrize(
    ("message", "width", "says"),
    [
        (np.zeros((2, 0)), 0.01, r"shape \(2, 0\)"),
        (np.array([1.0, np.inf]), 0.01, r"shape \(2,\)"),
        (np.array([1.0]), 0.0, "bin_width is 0.0"),
    ],
)
def test_what_has_no_entropy(message, width, says) -> None:
    with pytest.raises(InvalidInput, match=says):
        entropy_bits(message, width)
    for measure in (nonzeros, entropy_bits):
        with pytest.raises(InvalidInput, match=r"^message "):
            measure("no numbers")


@pytest.mark.parametrize("far", [0.0, float(measures.COUNTED), 1e300], ids=["near", "far apart", "very far apart"])
def test_histograms_are_joined_as_one_of_all_entries(far) -> None:
    """Bins in both, in one, and of either sign, counted or, where they are too many, sorted."""
    first, second = np.array([-3.0, 0.0, 2.0, far + 5]), np.array([0.0, 2.0, 7.0])
    bins, counts = measures.joined(np.concatenate([first, second]), np.array([4, 1, 2, 6, 3, 5, 9]))
    wanted = {-3.0: 4, 0.0: 4, 2.0: 7, far + 5: 6, 7.0: 9}
    assert bins.tolist() == sorted(wanted) and counts.tolist() == [wanted[b] for b in sorted(wanted)] and counts.dtype == np.int64


def test_ends_of_a_range_are_rounded_half_to_even() -> None:
    for low, high in ((-2.5, 3.5), (-0.5, 0.5), (1.5, 2.5), (-1e300, -1e300)):
        assert measures._range(low, high, 1.0) == (float(np.rint(low)), int(np.rint(high) - np.rint(low)) + 1)
    assert measures._range(-math.inf, 1.0, 0.01)[1] == 0 and measures._range(1.0, math.inf, 0.01)[1] == 0
