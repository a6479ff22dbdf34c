"""The derivative of Omega/Omega' in the server's model."""

import numpy as np


def ratio_slopes(S: np.ndarray, theta: np.ndarray, w: np.ndarray) -> tuple[int, np.ndarray] | None:
    """The most sensitive coordinate a of one cohort, and the slopes of all Omega^i/Omega'.

    S (N, d, d), theta (d,), w (N,) with w_k = 0 outside the cohort. The slopes (d, d) are the
    derivatives in theta_j. None stands for no derivative: two coordinates are the most sensitive,
    or a client's output passes 0.
    """
    members = [k for k in range(len(w)) if w[k] != 0]
    seen = np.stack([S[k] @ theta for k in members])
    signs = np.sign(seen)
    if any((S[k][signs[n] == 0] != 0).any() for n, k in enumerate(members)):
        return None
    omega = sum(w[k] * abs(2 * seen[n]) for n, k in enumerate(members))
    tops = np.flatnonzero(omega == omega.max())
    if len(tops) > 1 or omega.max() == 0:
        return None
    a = int(tops[0])
    slopes = sum(2 * w[k] * signs[n][:, None] * S[k] for n, k in enumerate(members))
    return a, (slopes - (omega / omega[a])[:, None] * slopes[a][None, :]) / omega[a]
