"""FedElasticNet, Algorithm 1: its fixed points. The paper has no theorem for it; this is ours."""

from fractions import Fraction
from functools import partial
from typing import Any

from fedtheory.algorithms.fedelasticnet_prox import FedElasticNetProx
from fedtheory.participation.cohorts import Full
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.quantities import exact_s
from fedtheory.theory import Minimise, SmoothConvex, above, among, eq, form, le, method, repaired, wrong

BOUND = r"\|\nabla R_w(\theta)\|\le%s\sum_kw_k\|\delta_k\|+\lambda_1\|\sum_kw_ks_k\|"


@FILE.statement(
    "algorithm-1-fixed-point",
    about=method(
        FedElasticNetProx,
        l1=above(0, usual=Fraction(1, 10), closed=True),
        l2=above(0, unit=lambda c: c.beta),
        aggregation=among("cohort", "samples", "printed"),
    ),
    local=Minimise(), sampling=Full(),
    problems=SmoothConvex(clients=(1, 4), dimension=(1, 5), weights="samples"), over="fixed-point",
    source="our statement on Algorithm 1 (the paper has none)",
    assumptions=(
        "every L_k is convex and beta-smooth",
        "full participation",
        "lambda_2 > 0, local problems solved exactly",
    ),
    symbols={
        "theta": "state.x",
        "delta_k": "theta_k - theta",
        "s_k": "exact subgradient of the l1 norm at delta_k",
        "w_k": "n_k/n or 1/m",
    },
    ours=True,
)
def algorithm_1(q: Any) -> Any:
    """fixed points of Algorithm 1, and how far from stationary they are"""
    y, l1 = q.local_models, q.method.l1
    delta, slope = y - q.x[..., None, :], q.gradients_each(y)
    w = (q.weights if q.method.aggregation != "cohort" else 0 * q.weights + 1 / q.N)[:, None]
    s = (w * exact_s(delta, l1, -slope)).sum(axis=-2)
    norm = q.sqrt(q.sq((w * q.client_gradients).sum(axis=-2)))
    drift, signs = (w[:, 0] * q.sqrt(q.sq(delta))).sum(axis=-1), q.sqrt(q.sq(s))
    mean, size = (w * slope).sum(axis=-2), (w * abs(slope)).sum(axis=-2)
    left = abs((w * delta).sum(axis=-2)) + (w * q.rounding(y)).sum(axis=-2)  # of the mean move
    off = (q.method.l2 + q.beta) * left.max(axis=-1)
    bound = partial(le, norm, noise=q.d * off)

    def identity(sign: int) -> Any:
        return eq(mean, sign * s, size, vector=True, noise=off)

    yield repaired(
        identity(-1),
        r"\sum_kw_k\delta_k=0,\quad\sum_kw_k\nabla L_k(\theta+\delta_k)=-\lambda_1\sum_kw_ks_k",
        wrong("sign of s", identity(1)),
        note="a fixed point may be an optimum though the clients disagree (L_k = (x - c_k)^2/2, c "
        "= +-1, lambda_1 = 1/10, lambda_2 = 1, x = 0), and another point though they agree (L_k = "
        "x^2/2 for all k, lambda_1 = 1, x = 1/2)",
        proof="line 7 leaves theta as it is; the clients' first-order conditions, averaged with "
        "w_k", holds=True,
    )
    yield form(
        "distance to stationarity", bound(q.beta * drift, signs), BOUND % r"\beta",
        wrong("drift dropped", bound(signs)),
        wrong("sum of s a tenth smaller", bound(q.beta * drift, Fraction(9, 10) * signs)),
        proof="the repaired form, and smoothness between theta and theta + delta_k", holds=True,
    )
    yield form(
        "half of beta", bound(q.beta * drift / 2, signs), BOUND % r"\tfrac\beta2",
        wrong("drift dropped", bound(signs)),
        wrong("sum of s a tenth smaller", bound(q.beta * drift / 2, Fraction(9, 10) * signs)),
        note="by cocoercivity, as the mean move is 0; attained by a client of curvature beta "
        "against one that is linear (fedelasticnet/algorithm-1-bias, distance)",
        proof="docs/fedelasticnet_dynamics.md#algorithm-1", holds=True,
    )
