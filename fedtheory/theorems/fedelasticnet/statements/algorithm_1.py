"""FedElasticNet, Algorithm 1: its fixed points, with everyone in every round in closed form.

The paper has no theorem for it. Section 3.1 says in words that the two regularisers resolve the client
drift. The statements, also on where it goes from a start, are ours; the proofs stand in
docs/fedelasticnet_dynamics.md.
"""

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_prox import FedElasticNetProx
from fedtheory.participation.cohorts import Full
from fedtheory.theorems.fedelasticnet.dynamics import facts
from fedtheory.theorems.fedelasticnet.dynamics.standstills import AGREE, PARABOLAS, Standstill
from fedtheory.theorems.fedelasticnet.notation import tight
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.quantities import exact_s
from fedtheory.theory import Minimise, Sides, SmoothConvex, above, among, eq, form, le, method, repaired, wrong

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


def _optimal(v: Standstill) -> Sides:
    """R_w at the least and the largest fixed point."""
    found = np.array([v.excess(x) for x in v.ends], dtype=object)
    return le(found, 0 * found, axes=("end",))


def _stays(v: Standstill) -> Sides:
    """The mean move from the optimum, a coordinate each."""
    found = abs(v.mean(v.moves(v.star)))
    return le(found, 0 * found, axes=("coordinate",))


def _way(v: Standstill, goal: Any = None) -> Sides:
    """The way left after a round, and the round's move, against the way left before it."""
    left = abs(v.path - (v.limit if goal is None else goal))
    return eq(left[1:] + abs(v.path[1:] - v.path[:-1]), left[:-1], axes=("round", "coordinate"))


def _formula(v: Standstill, sign: int = -1, weighted: bool = True) -> Sides:
    """theta times the moving clients' curvatures, against their pulls, at both ends."""
    h, c = (np.array([[getattr(p, name) for p in row] for row in v.pieces], dtype=object) for name in ("curvature", "centre"))
    own = np.array([[p.slope for p in row] for row in v.pieces], dtype=object)
    lhs, rhs = [], []
    for x in v.ends:
        moves = v.moves(x)
        share = (moves != 0).astype(int) / (h + v.lambda2 if weighted else 1 + 0 * h)
        lhs.append(x * v.mean(share * h))
        rhs.append(v.mean(share * (h * c - own + sign * v.lambda1 * np.sign(moves))))
    return eq(np.stack(lhs), np.stack(rhs), axes=("end", "coordinate"))


def _interval(v: Standstill, share: tuple[int, int] = (1, 1)) -> Sides:
    """Both ends, against the box in which no slope is above lambda_1; of a mutant, another lambda_1."""
    box = v.agreed
    if share != (1, 1):
        middle, half = (box[0] + box[1]) / 2, (box[1] - box[0]) / 2  # type: ignore[index]
        box = (middle - half * share[0] / share[1], middle + half * share[0] / share[1])
    return eq(np.stack(v.ends), np.stack(box), axes=("end", "coordinate"))  # type: ignore[arg-type]


def _distance(v: Standstill) -> Sides:
    """|R_w'| at both ends, a coordinate each, against the moves and the mean subgradient."""
    lhs, rhs = [], []
    for x in v.ends:
        lhs.append(abs(v.mean(v.slopes(x))))
        rhs.append(v.beta * v.mean(abs(v.moves(x))) / 2 + abs(v.mean(v.subgradients(x))))
    return le(np.stack(lhs), np.stack(rhs), axes=("end", "coordinate"))


PROOFS = "docs/fedelasticnet_dynamics.md#algorithm-1"

@FILE.statement(
    "algorithm-1-bias", over=Standstill, source="section 3.1, in words",
    assumptions=(
        "every L_k is convex and a sum over the coordinates, R_w has a minimiser, and the fixed "
        "points are bounded", "all clients take part in every round, w_k = n_k/n",
        "lambda_1 > 0 and lambda_2 > 0, as Algorithm 1 asks",
        "local problems solved exactly, no threshold epsilon",
    ),
    symbols={
        "theta": "the least and the largest fixed point: Standstill.ends",
        "delta_k": "theta_k - theta: Standstill.moves", "R_w": "sum_k w_k L_k",
        "w_k": "n_k/n, or 1/m with aggregation 'cohort'",
        "lambda_1, lambda_2": "algorithm.l1, algorithm.l2",
    },
)
def algorithm_1_bias(q):
    """where Algorithm 1 goes, and how far that is from the optimum"""
    yield form(
        "in words", lambda: _optimal(q),
        r"\sum_kw_k\delta_k(\theta)=0\ \Rightarrow\ R_w(\theta)=\min R_w", fails=True,
        wording="in words",
        note='"which resolves the client drift problem": where the method stands still the model '
        "is an optimum. Clients of different curvature pull with other weights than in R_w, and "
        "one whose slope is at most lambda_1 does not pull",
    )
    yield form(
        "in words, the optimum stays", lambda: _stays(q),
        r"R_w(\theta)=\min R_w\ \Rightarrow\ \sum_kw_k\delta_k(\theta)=0", fails=True,
        wording="in words", note="the same words: started at the optimum, the method leaves it",
    )
    yield form(
        "limit", lambda: _way(q),
        r"|\theta^t-\Pi|+|\theta^t-\theta^{t-1}|=|\theta^{t-1}-\Pi|,\quad\Pi\text{ the fixed "
        r"point nearest to }\theta^0", wrong("towards the optimum", lambda: _way(q, q.star)),
        holds=True, proof=PROOFS,
        note="in every coordinate: no round goes beyond the nearest fixed point or away from it, "
        "and a round that is not there yet moves, so theta^t tends to it",
    )
    yield form(
        "closed form", lambda: _formula(q),
        r"\theta\sum_{k:\delta_k\ne0}\tfrac{w_kh_k}{h_k+\lambda_2}=\sum_{k:\delta_k\ne0}"
        r"\tfrac{w_k(h_kc_k-\lambda_1\mathrm{sign}(\delta_k))}{h_k+\lambda_2}",
        wrong("sign of lambda_1", lambda: _formula(q, 1)),
        wrong("weights of R_w", lambda: _formula(q, weighted=False)), holds=True,
        needs=(PARABOLAS,), proof=PROOFS,
        note="of L_k = h_k (x - c_k)^2/2, at the least and the largest fixed point of every "
        "coordinate; h_k c_k stands for -L_k'(0). For large lambda_2 the weights become those of "
        "R_w and lambda_1 stays where it is, so the bias need not tend to 0",
    )
    yield form(
        "interval", lambda: _interval(q),
        r"\{\theta:\sum_kw_k\delta_k=0\}=\{\theta:\max_k|L_k'(\theta)|\le\lambda_1\}\text{ where "
        "that is not empty}", wrong("a tenth shorter", lambda: _interval(q, (9, 10))),
        wrong("a tenth longer", lambda: _interval(q, (11, 10))), holds=True, needs=(AGREE,),
        proof=PROOFS,
        note="clients that agree, L_k = h (x - c)^2/2: [c - lambda_1/h, c + lambda_1/h], whatever "
        "lambda_2 and w_k",
    )
    yield tight(
        "distance", lambda: _distance(q),
        r"|R_w'(\theta)|\le\tfrac\beta2\sum_kw_k|\delta_k|+\lambda_1\Big|\sum_kw_ks_k\Big|",
        needs=(facts.SMOOTH,), proof=PROOFS,
        note="a coordinate each; attained by a client of curvature beta against one that is linear",
    )
