"""How much was sent: nonzeros and Shannon entropy, as the FedElasticNet paper measures them (section 4, Tables 2-4)."""

from __future__ import annotations

import numpy as np

__all__ = ["bin_counts", "entropy_bits", "entropy_of_counts", "nonzeros"]


def nonzeros(message: np.ndarray) -> np.ndarray:
    """Entries that are not zero: (..., d) -> (...)."""
    return np.count_nonzero(message, axis=-1)


def bin_counts(message: np.ndarray, bin_width: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    """The bins, centred on multiples of bin_width, that entries fall into (in increasing order), and how many do."""
    return np.unique(np.round(np.asarray(message, dtype=float).ravel() / bin_width), return_counts=True)


def entropy_of_counts(counts: np.ndarray) -> float:
    """Shannon entropy, in bits an entry, of an empirical distribution given by its counts."""
    p = counts / counts.sum()
    return float(max(0.0, -(p * np.log2(p)).sum()))


def entropy_bits(message: np.ndarray, bin_width: float = 0.01) -> float:
    """Shannon entropy, in bits an entry, of the entries discretised to bins centred on multiples of bin_width.

    The messages of all clients in the array form one empirical distribution.
    """
    return entropy_of_counts(bin_counts(message, bin_width)[1])
