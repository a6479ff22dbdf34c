"""FedElasticNet, Algorithm 2 (SCAFFOLD with penalties): what its messages are, and what its l1 term does to updates."""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.theorems.fedelasticnet.algorithm_2.rounds import EVERYBODY, ONE_STEP, SEPARABLE, RoundsView, sums
from fedtheory.theorems.fedelasticnet.notation import nine_tenths, statement
from fedtheory.theory.judge.statement import Sides, eq, form, le

__all__ = ["NUMBERS", "STATEMENTS"]

PLACES = ("round", "client", "coordinate")
NUMBERS = {
    "m, P": "number of clients, and of those that take part",
    "lambda_1, lambda_2, eta_g": "algorithm.l1, algorithm.l2, algorithm.server_lr",
    "B, eta_l": "steps and size of the local steps",
    "theta^t, c_k^t, c^t": "state.x, state.c_k, state.c",
    "g_kb": "RoundsView.slopes, grad L_k(y_kb) - c_k + c + lambda_2 (y_kb - theta) before local step b + 1",
    "y_kb": "client k's model after b local steps of line 7, from y_k0 = theta",
    "r_k": "g_k0 = grad L_k(theta) - c_k + c",
}
FULL_GRADIENTS = ("full local gradients in line 6", "c^0 is the mean of the c_k^0 (Algorithm 2 does not say how they start)")


# --- the control variates -------------------------------------------------------------------------------------------------
def _mean_of_c_k(v: RoundsView, of_cohort: bool = False) -> Sides:
    mean = v.c_k.sum(axis=1) / v.m
    if not of_cohort:
        return eq(v.c[1:], mean[1:], abs(v.c_k[1:]).sum(axis=1) / v.m, axes=("round", "coordinate"))
    size = v.here.sum(axis=1)[:, None]
    return eq(v.c[:-1] + v.change.sum(axis=1) / size, mean[1:], axes=("round", "coordinate"))


def _parts(v: RoundsView, l1: Any = 1, l2: Any = 1) -> Any:
    """The mean over the local steps of grad L_k + l2 lambda_2 (y_b - theta) + l1 lambda_1 sign, for members (T, m, d)."""
    moves = _moves(v)
    pure = v.slopes + (v.c_k[:-1] - v.c[:-1, None])[:, None] - v.method.lambda2 * moves
    return (pure + l2 * v.method.lambda2 * moves + l1 * v.method.lambda1 * v.signs).sum(axis=1) / v.method.B


def _moves(v: RoundsView) -> Any:
    """y_b - theta before each local step: (T, B, m, d)."""
    step = -v.method.eta * (v.slopes + v.method.lambda1 * v.signs)
    return np.concatenate([0 * step[:, :1], np.cumsum(step, axis=1)[:, :-1]], axis=1)


def _what_c_k_holds(v: RoundsView, l1: int = 1, l2: int = 1) -> Sides:
    sizes = abs(v.slopes).max(axis=1) + abs(v.c_k[:-1]) + v.method.lambda1
    return eq(v.of_members(v.c_k[1:]), v.of_members(_parts(v, l1, l2)), v.of_members(sizes), axes=PLACES)


def _l1_part(v: RoundsView, steps: int = 1) -> Sides:
    part = v.of_members(abs(v.c_k[1:] - _parts(v, l1=0)))
    most = v.method.lambda1 * (v.method.B - steps) / v.method.B
    scale = v.of_members(abs(v.slopes).max(axis=1) + abs(v.c_k[:-1]))
    return le(part, most + 0 * part, 0 * scale, noise=1e-9 * _floats(scale), axes=PLACES)


def _floats(scale: Any) -> Any:
    """The scale as floats, for rounding noise; fractions have none."""
    return 0 if scale.dtype == object else scale


def _servers_step(v: RoundsView, of: str = "after") -> Sides:
    c = v.c[1:] if of == "after" else v.c[:-1]
    step = -v.method.eta_g * v.method.B * v.method.eta * c
    return eq(v.theta[1:] - v.theta[:-1], step, abs(v.theta[1:]), abs(v.delta).sum(axis=1), axes=("round", "coordinate"))


# --- the second message ---------------------------------------------------------------------------------------------------
def _recovered(v: RoundsView, with_c: int = 1, B: int = 0) -> Any:
    c = v.c[:-1, None] + 0 * v.delta
    return v.of_members(-with_c * c - v.delta / ((v.method.B + B) * v.method.eta))


def _recovery(v: RoundsView, with_c: int = 1, B: int = 0) -> Sides:
    sizes = abs(v.c[:-1, None]) + abs(v.slopes).max(axis=1) + v.method.lambda1
    return eq(v.of_members(v.change), _recovered(v, with_c, B), v.of_members(sizes), axes=PLACES)


def _twice(v: RoundsView) -> Sides:
    """2 d numbers against those that suffice, in each round."""
    change = v.of_members(v.change)
    off, size = abs(change - _recovered(v)), abs(change) + abs(v.c[:-1, None]) + v.method.lambda1
    known = (off <= (0 if off.dtype == object else 1e-9 * size)).all(axis=(1, 2))
    suffice = v.d * np.where(known, 1, 2) + v.theta.ravel()[0] * 0
    return le(2 * v.d + 0 * suffice, suffice, axes=("round",))


def _count(values: Any, like: Any) -> Any:
    return (values != 0).sum(axis=-1) + like.ravel()[0] * 0


def _nonzeros(v: RoundsView, second: int = 1) -> Sides:
    there = v.here + v.theta.ravel()[0] * 0
    c = _count(v.c[:-1], v.theta)[:, None] * there
    both = _count(v.delta, v.theta) + second * _count(v.change, v.theta)
    return le(c, both * there, axes=("round", "client"))


# --- sparsity -------------------------------------------------------------------------------------------------------------
def _zero(v: RoundsView) -> Sides:
    held = abs(v.delta) * v.outweighed
    return le(held, 0 * held, axes=PLACES)


def _chatter(v: RoundsView, of_l1: Any = 1, of_slope: Any = 1) -> Sides:
    held = abs(v.delta) * v.outweighed
    return le(held, v.method.eta * (of_l1 * v.method.lambda1 + of_slope * v.steepest) * v.outweighed, axes=PLACES)


def _threshold(v: RoundsView, times: int = 2) -> Sides:
    held = abs(v.delta) * v.outweighed
    return le(held, times * v.method.eta * v.method.lambda1 * v.outweighed, axes=PLACES)


def _one_step(v: RoundsView, l1: int = 0) -> Sides:
    r = v.slopes[:, 0]
    move = v.of_members(-v.method.eta * (r + l1 * v.method.lambda1 * np.sign(r)))
    return eq(v.of_members(v.delta), move, v.of_members(abs(r)), axes=PLACES)


def _drag(v: RoundsView, later: int = 1) -> Sides:
    method, r = v.method, v.slopes[:, 0]
    q = 1 - method.eta * (v.h + method.lambda2)
    back = method.lambda1 * sums(q, method.B - later) * np.sign(r)
    move = v.one_way * -method.eta * (sums(q, method.B) * r - back)
    return eq(v.one_way * v.delta, move, axes=PLACES)


STATEMENTS = (
    statement(
        "algorithm-2-variates",
        "what Algorithm 2's control variates are, and which way its server steps",
        "Algorithm 2, lines 9 and 13; section 3.2 prints the update (6) and no statement about it",
        form(
            "c is the mean",
            r"c^t=\tfrac1m\sum_{k\in[m]}c_k^t",
            _mean_of_c_k,
            "holds",
            ("line 13 with 1/|P_t|", lambda v: _mean_of_c_k(v, of_cohort=True)),
            wording="algorithm",
            proof="induction: line 13 adds to c what line 9 adds to the mean of the c_k, which is 0 "
            "for who does not take part",
        ),
        form(
            "what c_k holds",
            r"c_k^t=\tfrac1B\sum_{b<B}\big[\nabla L_k(y_{kb})+\lambda_2(y_{kb}-\theta^{t-1})+\lambda_1"
            r"\mathrm{sign}(y_{kb}-\theta^{t-1})"
            r"\big]\quad\forall k\in\mathcal P_t",
            _what_c_k_holds,
            "holds",
            ("lambda_1 dropped", lambda v: _what_c_k_holds(v, l1=0)),
            ("lambda_2 dropped", lambda v: _what_c_k_holds(v, l2=0)),
            note="line 9 inserted in line 7: the penalties' slopes are stored too, so that the mean of the c_k is "
            "no gradient of R",
            proof="note",
        ),
        form(
            "its l1 part",
            r"\Big|c_k^t-\tfrac1B\sum_{b<B}\big[\nabla L_k(y_{kb})+\lambda_2(y_{kb}-\theta^{t-1})\big]\Big|_i\le"
            r"\lambda_1\tfrac{B-1}B",
            _l1_part,
            "holds",
            ("a tenth less", lambda v: nine_tenths(_l1_part(v))),
            ("two steps without a sign", lambda v: _l1_part(v, steps=2)),
            note="the first of the B steps has sign(0) = 0; attained where a coordinate moves one way",
            proof="note",
        ),
        form(
            "the server's step",
            r"\mathcal P_t=[m]:\quad\theta^t-\theta^{t-1}=-\eta_gB\eta_l\,c^t",
            _servers_step,
            "holds",
            ("c before the round", lambda v: _servers_step(v, of="before")),
            needs=(EVERYBODY,),
            note="the mean of line 9: with full participation the server steps along the new c alone",
            proof="docs/fedelasticnet_algorithm_2.md#what-the-messages-are",
        ),
        scope="algorithm-2",
        assumptions=FULL_GRADIENTS,
        symbols=NUMBERS,
    ),
    statement(
        "second-message",
        "whether Algorithm 2, and SCAFFOLD, must send two messages",
        "section 3.2: SCAFFOLD incurs twice much communication cost since it should communicate the local update "
        "and the control variate",
        form(
            "twice",
            r"\text{numbers from which the server gets }\theta^t\text{ and }c^t:\quad 2d\le\begin{cases}d&\text{if "
            r"every }\Delta c_k="
            r"-c^{t-1}-\Delta_k^t/(B\eta_l)\\2d&\text{otherwise}\end{cases}",
            _twice,
            "violated",
            wording="in words",
            note="the server knows c^{t-1}, B and eta_l: Delta_k determines Delta c_k by line 9. lambda_1 = 0 is "
            "SCAFFOLD with option II; "
            "the gradients of its option I are another matter",
        ),
        form(
            "recovered",
            r"\Delta c_k=-c^{t-1}-\tfrac1{B\eta_l}\Delta_k^t\quad\forall k\in\mathcal P_t",
            _recovery,
            "holds",
            ("without c", lambda v: _recovery(v, with_c=0)),
            ("B + 1", lambda v: _recovery(v, B=1)),
            note="of what is sent, where nothing is thresholded or compressed in between; `control='recovered'` of "
            "both methods sends no "
            "second message",
            proof="line 9, as line 10 sends c_k^t - c_k^{t-1} and theta_k^t - theta^{t-1}",
        ),
        form(
            "nonzeros of both",
            r"\mathrm{nnz}(\Delta_k^t)+\mathrm{nnz}(\Delta c_k)\ge\mathrm{nnz}(c^{t-1})",
            _nonzeros,
            "holds",
            ("the first message alone", lambda v: _nonzeros(v, second=0)),
            note="a coordinate with c_i != 0 is not 0 in both messages: with a dense c a sparse Delta_k saves at "
            "most half of 2d",
            proof="[recovered]: where Delta_ki = 0 the second message is -c_i",
        ),
        scope="algorithm-2",
        assumptions=FULL_GRADIENTS,
        symbols=NUMBERS,
    ),
    statement(
        "algorithm-2-sparsity",
        "whether the l1 term of line 7 makes updates sparse, and what it does instead",
        "section 3.2: this l1-norm regularizer sparsifies the local update; hence, reduces the communication cost",
        form(
            "sparsifies",
            r"|g_{kb}|_i\le\lambda_1\ \forall b<B\ \Rightarrow\ \Delta_{ki}^t=0",
            _zero,
            "violated",
            wording="in words",
            note="the penalty outweighs the slope at every step, as where a minimiser of the penalised problem "
            "stays: a subgradient step "
            "goes to and fro around theta and ends at 0 for single values of the slope only. On a separable "
            "quadratic the update is a "
            "piecewise linear function of r_k with slope -eta_l S_B on at most 3^(B-1) pieces, so that for all r_k "
            "but as many values "
            "it is not 0",
        ),
        form(
            "to and fro",
            r"|g_{kb}|_i\le\lambda_1\ \forall b<B\ \Rightarrow\ |\Delta_{ki}^t|\le\eta_l\big(\lambda_1+"
            r"\max_b|g_{kb}|_i\big)",
            _chatter,
            "holds",
            ("a tenth less", lambda v: nine_tenths(_chatter(v))),
            ("the slope dropped", lambda v: _chatter(v, of_slope=0)),
            note="proof: above theta a step goes down by at most eta_l (lambda_1 + max |g|) and not up, below it "
            "the other way; no "
            "convexity is used, and g may be a mini-batch gradient",
            proof="docs/fedelasticnet_algorithm_2.md#the-l1-term-does-not-make-zeros",
        ),
        form(
            "what epsilon has to be",
            r"|g_{kb}|_i\le\lambda_1\ \forall b<B\ \Rightarrow\ |\Delta_{ki}^t|\le2\eta_l\lambda_1",
            _threshold,
            "holds",
            ("eta_l lambda_1", lambda v: _threshold(v, times=1)),
            note="so a threshold epsilon >= 2 eta_l lambda_1 sends 0 in all these coordinates: the sparsity is the "
            "threshold's",
            proof="[to and fro] with |g_kb|_i <= lambda_1",
        ),
        form(
            "one local step",
            r"B=1:\quad\Delta_k^t=-\eta_l\big(\nabla L_k(\theta^{t-1})-c_k^{t-1}+c^{t-1}\big)",
            _one_step,
            "holds",
            ("with the l1 term", lambda v: _one_step(v, l1=1)),
            needs=(ONE_STEP,),
            note="both penalties are 0 at the first local step, where theta_k = theta: with B = 1 Algorithm 2 is "
            "SCAFFOLD",
            proof="note",
        ),
        form(
            "drag",
            r"\mathrm{sign}(y_{kb}-\theta)_i=s\ \forall b\ge1:\quad\Delta_{ki}^t=-\eta_l\big(S_B\,r_{ki}-"
            r"\lambda_1S_{B-1}\mathrm{sign}(r_{ki})\big)",
            _drag,
            "holds",
            ("at every step", lambda v: _drag(v, later=0)),
            needs=(SEPARABLE,),
            note="where a coordinate moves one way the update is shortened by eta_l lambda_1 S_{B-1}, in each round "
            "again",
            proof="y_{b+1} = q y_b - eta_l r - eta_l lambda_1 sign(y_b), summed up with sign(y_b) = "
            "-sign(r) for b >= 1",
        ),
        scope="algorithm-2",
        assumptions=FULL_GRADIENTS,
        symbols=NUMBERS,
    ),
)
