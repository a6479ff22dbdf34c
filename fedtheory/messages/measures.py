"""Measures of what was sent: nonzeros and Shannon entropy (FedElasticNet, section 4)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from fedtheory.arrays import Array, namespace, on_host, to_numpy
from fedtheory.compiled import Worth, available, njit
from fedtheory.errors import InvalidInput
from fedtheory.inputs import points, real_number

__all__ = ["bin_counts", "count_bins", "entropy_bits", "entropy_of_counts", "joined", "nonzeros"]

COUNTED = 2**20  # bins that are counted without sorting
COMPILED, FEW = 2**16, 2**14  # entries from which, and bins up to which, compiled counting is worth its import and its tables
SORTED = 64  # entries up to which compiled counting sorts them, which needs no table
BLOCK = 4096  # entries that compiled counting rounds before it counts them
PIECE = 2**24  # entries that a device holds in double precision at once
_worth = Worth(calls=100_000)  # of few entries, that take NumPy as much longer as it takes to import Numba


def nonzeros(message: np.ndarray) -> np.ndarray:
    """Entries that are not zero: (..., d) -> (...)."""
    return np.count_nonzero(to_numpy(points("message", message)), axis=-1)


def bin_counts(message: Array, bin_width: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    """The bins, centred on multiples of bin_width, that entries fall into (in increasing order), and how many do.

    An entry's bin is its quotient by bin_width in double precision, rounded half to even. What lies on a device is counted there.
    """
    if not on_host(message):
        return _on_device(message, bin_width)
    entries = np.asarray(to_numpy(message)).ravel()
    if entries.dtype.char not in "fd":
        entries = entries.astype(float)
    if entries.size <= SORTED and entries.dtype.char == "d" and entries.flags.carray and _worth():
        where, counts = np.empty(entries.size), np.empty(entries.size, dtype=np.int64)
        if hit := _compiled_tally()(entries, bin_width, where, counts):
            return where[:hit], counts[:hit]
    # dividing and rounding keep the order: the ends of the range are those of the entries; NaN included
    low, bins = _range(*_ends(entries), bin_width) if entries.size else (0.0, 0)
    if bins == 0:
        return np.unique(np.round(entries.astype(float) / bin_width), return_counts=True)
    if entries.size >= COMPILED and bins <= FEW and available():
        table = np.zeros((4, bins), dtype=np.int64)
        _compiled_count()(entries, bin_width, low, table)
        return _hit(table.sum(axis=0), low)
    number = np.rint(entries.astype(float, copy=False) / bin_width)
    number -= low
    return _hit(np.bincount(number.astype(np.int64)), low)


@cache
def _compiled_count() -> Callable[[np.ndarray, float, float, np.ndarray], None]:
    """`count_bins` by Numba, which is imported here: most runs need it only for networks."""
    return njit(cache=True, nogil=True)(count_bins)


@cache
def _compiled_tally() -> Callable[[np.ndarray, float, np.ndarray, np.ndarray], int]:
    return njit(cache=True, nogil=True)(tally)


def tally(message: np.ndarray, bin_width: float, where: np.ndarray, counts: np.ndarray) -> int:
    """Fill the bins that a few entries (n,) fall into, in increasing order, and how many do; say how many bins these are.

    0: there are no entries, some bin is not finite, or they are as far apart as `bin_counts` keeps no table of.
    """
    hit = 0
    for entry in message:
        number = np.rint(entry / bin_width) + 0.0  # no -0.0
        if not np.isfinite(number):
            return 0
        at = hit
        while at > 0 and where[at - 1] > number:
            at -= 1
        if at > 0 and where[at - 1] == number:
            counts[at - 1] += 1
            continue
        for i in range(hit, at, -1):
            where[i], counts[i] = where[i - 1], counts[i - 1]
        where[at], counts[at] = number, 1
        hit += 1
    return hit if hit and where[hit - 1] - where[0] < COUNTED else 0


def count_bins(message: np.ndarray, bin_width: float, low: float, counts: np.ndarray) -> None:
    """Add to counts (4, bins) how many entries of the message (n,) round to low + i bins, whichever row: add them up.

    One pass, a block of which stays in the cache between rounding and counting. Entries are finite and
    none is outside. Neighbours count in rows of their own, for most of a model falls into few bins, and
    adding one to what was just stored waits for the store. Rounded and divided as NumPy does: no fast
    mathematics.
    """
    first, second, third, fourth = counts[0], counts[1], counts[2], counts[3]
    place = np.empty(BLOCK, np.uint32)
    for start in range(0, len(message), BLOCK):
        block = message[start : start + BLOCK]
        for i in range(len(block)):
            place[i] = np.uint32(np.int32(np.rint(np.float64(block[i]) / bin_width) - low))
        quarters = len(block) // 4
        for i in range(quarters):
            first[place[4 * i]] += 1
            second[place[4 * i + 1]] += 1
            third[place[4 * i + 2]] += 1
            fourth[place[4 * i + 3]] += 1
        for i in range(4 * quarters, len(block)):
            first[place[i]] += 1


def _ends(values: np.ndarray) -> tuple[float, float]:
    """The least and the largest number; NaN where there is one. Of few, NumPy finds where they are in a fifth of the time."""
    return float(values[values.argmin()]), float(values[values.argmax()])


def _range(least: float, most: float, bin_width: float) -> tuple[float, int]:
    """The first bin and how many there are up to the last; none where they are too many to count, or not finite."""
    ends = float(least) / bin_width, float(most) / bin_width
    if not (math.isfinite(ends[0]) and math.isfinite(ends[1])):
        return 0.0, 0
    low, high = round(ends[0]), round(ends[1])  # half to even, as NumPy's
    return float(low), high - low + 1 if high - low < COUNTED else 0


def joined(bins: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Several histograms one after the other (M,), as one: a bin of two of them counts in both."""
    low, size = _range(*_ends(bins), 1.0)
    if size:
        return _hit(np.bincount((bins - low).astype(np.int64), counts).astype(np.int64), low)
    where, inverse = np.unique(bins, return_inverse=True)
    return where, np.bincount(inverse, counts, len(where)).astype(np.int64)


def _hit(counts: np.ndarray, low: float) -> tuple[np.ndarray, np.ndarray]:
    where = counts.nonzero()[0]
    return where + low, counts[where]


def _on_device(message: Array, bin_width: float) -> tuple[np.ndarray, np.ndarray]:
    """`bin_counts` of a torch tensor, where it lies: the same counts, for division and rounding are IEEE's there as well."""
    import torch

    flat = message.reshape(-1)
    least, most = map(float, flat.aminmax()) if len(flat) else (0.0, 0.0)
    low, bins = _range(least, most, bin_width) if len(flat) else (0.0, 0)
    if bins == 0:
        return bin_counts(to_numpy(message), bin_width)
    # a tensor on the device: by a number, CUDA would multiply with its rounded reciprocal
    width = torch.full((), bin_width, dtype=torch.float64, device=flat.device)
    counts = torch.zeros(bins, dtype=torch.int64, device=flat.device)
    for piece in flat.split(PIECE):
        number = (piece.to(torch.float64) / width).round_().sub_(low)
        counts += torch.bincount(number.to(torch.int64), minlength=bins)
    return _hit(to_numpy(counts), low)


def entropy_of_counts(counts: np.ndarray) -> float:
    """Shannon entropy, in bits an entry, of an empirical distribution given by its counts."""
    p = counts / np.add.reduce(counts)
    return max(0.0, -float(np.add.reduce(p * np.log2(p))))


def entropy_bits(message: Array, bin_width: float = 0.01) -> float:
    """Shannon entropy, in bits an entry, of the entries discretised to bins centred on multiples of bin_width.

    The messages of all clients in the array form one empirical distribution.

    Raises
    ------
    InvalidInput
        No entries, or entries that are not finite; bin_width is not > 0.
    """
    bin_width, message = real_number("bin_width", bin_width, above=0), points("message", message)
    xp = namespace(message)
    if math.prod(message.shape) == 0 or not bool(xp.all(xp.isfinite(message))):
        raise InvalidInput(f"message of shape {tuple(message.shape)}: an entropy needs entries, all of them finite")
    return entropy_of_counts(bin_counts(message, bin_width)[1])
