"""FedElasticNet, Algorithm 1: what its fixed points are. The paper states no theorem for it; this is ours."""

from __future__ import annotations

import numpy as np

from fedtheory.theorems.fedelasticnet.notation import statement
from fedtheory.theorems.fedelasticnet.quantities.fixed_point import FixedPointView
from fedtheory.theory.judge.statement import Sides, eq, form, le

__all__ = ["STATEMENTS"]


def _noise(v: FixedPointView) -> float:
    """The error of a coordinate of a gradient by `residual`, local KKT residuals and rounding.

    The local minimisers theta + delta_k are floats: where they lie within an ulp, slopes are known to lambda_2 + beta ulps.
    """
    size = np.abs(v.grad).max() + v.lambda1 + v.beta * (1 + np.abs(v.theta).max())
    ulp = np.finfo(float).eps * (np.abs(v.theta).max() + np.abs(v.delta).max())
    return (v.lambda2 + v.beta) * (v.residual + 2 * ulp) + 1e-11 * size


def _identity(v: FixedPointView, sign: int = -1) -> Sides:
    return eq(v.mean(v.grad), sign * v.mean(v.lambda1_s), v.mean(np.abs(v.grad)), vector=True, noise=_noise(v))


def _bound(v: FixedPointView, with_drift: bool = True, signs_scale: float = 1, share: float = 1) -> Sides:
    norm = np.sqrt((v.mean(v.grad_theta) ** 2).sum(axis=-1))
    drift = share * v.beta * v.mean(np.sqrt((v.delta**2).sum(axis=-1))[..., None])[..., 0]
    signs = np.sqrt((v.mean(v.lambda1_s) ** 2).sum(axis=-1))
    return le(norm, drift if with_drift else 0 * drift, signs_scale * signs, noise=np.sqrt(v.theta.shape[-1]) * _noise(v))


STATEMENTS = (
    statement(
        "algorithm-1-fixed-point",
        "fixed points of Algorithm 1, and how far from stationary they are",
        "our statement on Algorithm 1 (the paper has none)",
        form(
            "repaired",
            r"\sum_kw_k\delta_k=0,\quad\sum_kw_k\nabla L_k(\theta+\delta_k)=-\lambda_1\sum_kw_ks_k",
            _identity,
            "holds",
            ("sign of s", lambda v: _identity(v, 1)),
            note="a fixed point may be an optimum though the clients disagree (L_k = (x - c_k)^2/2, c = +-1, lambda_1 = 1/10, "
            "lambda_2 = 1, x = 0), and another point though they agree (L_k = x^2/2 for all k, lambda_1 = 1, x = 1/2)",
            proof="line 7 leaves theta as it is; the clients' first-order conditions, averaged "
            "with w_k",
        ),
        form(
            "distance to stationarity",
            r"\|\nabla R_w(\theta)\|\le\beta\sum_kw_k\|\delta_k\|+\lambda_1\|\sum_kw_ks_k\|",
            _bound,
            "holds",
            ("drift dropped", lambda v: _bound(v, with_drift=False)),
            ("sum of s a tenth smaller", lambda v: _bound(v, signs_scale=0.9)),
            proof="the repaired form, and smoothness between theta and theta + delta_k",
        ),
        form(
            "half of beta",
            r"\|\nabla R_w(\theta)\|\le\tfrac\beta2\sum_kw_k\|\delta_k\|+\lambda_1\|\sum_kw_ks_k\|",
            lambda v: _bound(v, share=0.5),
            "holds",
            ("drift dropped", lambda v: _bound(v, with_drift=False)),
            ("sum of s a tenth smaller", lambda v: _bound(v, signs_scale=0.9, share=0.5)),
            note="by cocoercivity, as the mean move is 0; attained by a client of curvature beta against one that is linear "
            "(fedelasticnet/algorithm-1-bias, distance)",
            proof="docs/fedelasticnet_dynamics.md#algorithm-1",
        ),
        scope="fixed-point",
        assumptions=("every L_k is convex and beta-smooth", "full participation", "lambda_2 > 0, local problems solved exactly"),
        symbols={
            "theta": "state.x",
            "delta_k": "theta_k - theta",
            "s_k": "exact subgradient of the l1 norm at delta_k",
            "w_k": "n_k/n or 1/m",
        },
        kind="sharpened",
    ),
)
