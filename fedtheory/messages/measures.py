"""How much was sent: nonzeros and Shannon entropy, as the FedElasticNet paper measures them (section 4, Tables 2-4)."""

from __future__ import annotations

import numpy as np

__all__ = ["entropy_bits", "nonzeros"]


def nonzeros(message: np.ndarray) -> np.ndarray:
    """Entries that are not zero: (..., d) -> (...)."""
    return np.count_nonzero(message, axis=-1)


def entropy_bits(message: np.ndarray, bin_width: float = 0.01) -> float:
    """Shannon entropy, in bits an entry, of the entries discretised to bins centred on multiples of bin_width.

    The messages of all clients in the array form one empirical distribution.
    """
    bins = np.round(np.asarray(message, dtype=float).ravel() / bin_width)
    counts = np.unique(bins, return_counts=True)[1]
    p = counts / counts.sum()
    return float(max(0.0, -(p * np.log2(p)).sum()))
