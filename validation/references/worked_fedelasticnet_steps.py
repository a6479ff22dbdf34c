"""One coordinate of one client through the local steps of FedElasticNet's Algorithm 2, in plain
fractions."""

from __future__ import annotations


def sign(x):
    return (x > 0) - (x < 0)


def steps(h, c, theta, c_k, c_bar, d):
    """g_b, sign and y_b - theta of each of the B steps of line 7, and the move at the end."""
    y, out = theta, []
    for _ in range(d["B"]):
        g = h * (y - c) - c_k + c_bar + d["lambda2"] * (y - theta)
        out.append((g, sign(y - theta), y - theta))
        y = y - d["eta"] * (g + d["lambda1"] * out[-1][1])
    return out, y - theta
