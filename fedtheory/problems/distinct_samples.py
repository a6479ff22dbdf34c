"""The samples as cvxpy takes them: a sparse matrix, copies merged where there are many."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["DistinctSamples", "distinct_samples", "orthogonal_factor"]

# Of the samples: where more are distinct, unequal weights cost the solver more than copies do.
WORTH = 0.9


class DistinctSamples(NamedTuple):
    """F's samples, without copies where at least a tenth of them are.

    sum_j weights_j loss(features_j'x, labels_j) is the same sum, up to the rounding of the weights.
    """

    features: Any  # scipy.sparse.csr_matrix (n, p)
    labels: np.ndarray  # (n, q)
    weights: np.ndarray  # (n,)
    count: int  # type: ignore[assignment]  # samples before copies were merged

    @property
    def about(self) -> str:
        n = len(self.weights)
        return f"{n:,} samples" if n == self.count else f"{n:,} distinct samples of {self.count:,}"


def distinct_samples(problem: Any, labels: np.ndarray) -> DistinctSamples:
    """The samples of a problem with ``features`` and ``sample_weights``; labels (N, n_k, q)."""
    from scipy.sparse import csr_matrix

    keep = (problem.sample_weights > 0) & (problem.weights > 0)[:, None]
    features, labels = problem.features[keep], labels[keep]
    weights = (problem.weights[:, None] * problem.sample_weights)[keep]
    rows = np.ascontiguousarray(np.hstack([features, labels]) + 0.0)  # -0 is 0
    seen: dict[Any, int] = {}
    each = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel().tolist()
    copy_of = np.array([seen.setdefault(row, len(seen)) for row in each])
    count = len(weights)
    if len(seen) <= WORTH * count:
        first = np.unique(copy_of, return_index=True)[1]
        features, labels, weights = features[first], labels[first], np.bincount(copy_of, weights)
    return DistinctSamples(csr_matrix(features), labels, weights, count)


def orthogonal_factor(rows: np.ndarray) -> np.ndarray:
    """R (q, q) with R'R = rows'rows of rows (n, q), n >= q: ||R y|| = ||rows y|| to rounding."""
    factor: Any = np.linalg.qr(rows, mode="r")
    return factor
