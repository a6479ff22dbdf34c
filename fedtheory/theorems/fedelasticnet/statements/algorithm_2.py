"""FedElasticNet, Algorithm 2 (SCAFFOLD with penalties): its messages, and its l1 term."""

from functools import partial
from typing import Any

import numpy as np

from fedtheory.algorithms import FedElasticNetScaffold
from fedtheory.theorems.fedelasticnet.algorithm_2.rounds import EVERYBODY, ONE_STEP, SEPARABLE, RoundsView, sums
from fedtheory.theorems.fedelasticnet.notation import nine_tenths
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theory import eq, form, le, method, wrong
from fedtheory.theory.judge.statement import Sides

__all__ = ["NUMBERS"]

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
statement = partial(
    FILE.statement, over=RoundsView, about=method(FedElasticNetScaffold), symbols=NUMBERS,
    assumptions=(
        "full local gradients in line 6",
        "c^0 is the mean of the c_k^0 (Algorithm 2 does not say how they start)",
    ),
)


# --- the control variates -------------------------------------------------------------------------
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


# --- the second message ---------------------------------------------------------------------------
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


# --- sparsity -------------------------------------------------------------------------------------
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


@statement(
    "algorithm-2-variates",
    title="what Algorithm 2's control variates are, and which way its server steps",
    source="Algorithm 2, lines 9 and 13; section 3.2 prints the update (6) and no statement about "
    "it",
)
def algorithm_2_variates(q):
    """Control variates, their parts, and the server's step."""
    yield form(
        "c is the mean", lambda: _mean_of_c_k(q), r"c^t=\tfrac1m\sum_{k\in[m]}c_k^t",
        wrong("line 13 with 1/|P_t|", lambda: _mean_of_c_k(q, of_cohort=True)), holds=True,
        wording="algorithm",
        proof="induction: line 13 adds to c what line 9 adds to the mean of the c_k, which is 0 "
        "for who does not take part",
    )
    yield form(
        "what c_k holds", lambda: _what_c_k_holds(q),
        r"c_k^t=\tfrac1B\sum_{b<B}\big[\nabla L_k(y_{kb})+\lambda_2(y_{kb}-\theta^{t-1})+\lambda_1"
        r"\mathrm{sign}(y_{kb}-\theta^{t-1})\big]\quad\forall k\in\mathcal P_t",
        wrong("lambda_1 dropped", lambda: _what_c_k_holds(q, l1=0)),
        wrong("lambda_2 dropped", lambda: _what_c_k_holds(q, l2=0)), holds=True, proof="note",
        note="line 9 inserted in line 7: the penalties' slopes are stored too, so that the mean "
        "of the c_k is no gradient of R",
    )
    yield form(
        "its l1 part", lambda: _l1_part(q),
        r"\Big|c_k^t-\tfrac1B\sum_{b<B}\big[\nabla "
        r"L_k(y_{kb})+\lambda_2(y_{kb}-\theta^{t-1})\big]\Big|_i\le\lambda_1\tfrac{B-1}B",
        wrong("a tenth less", lambda: nine_tenths(_l1_part(q))),
        wrong("two steps without a sign", lambda: _l1_part(q, steps=2)), holds=True, proof="note",
        note="the first of the B steps has sign(0) = 0; attained where a coordinate moves one way",
    )
    yield form(
        "the server's step", lambda: _servers_step(q),
        r"\mathcal P_t=[m]:\quad\theta^t-\theta^{t-1}=-\eta_gB\eta_l\,c^t",
        wrong("c before the round", lambda: _servers_step(q, of="before")), holds=True,
        needs=(EVERYBODY,), proof="docs/fedelasticnet_algorithm_2.md#what-the-messages-are",
        note="the mean of line 9: with full participation the server steps along the new c alone",
    )


@statement(
    "second-message", title="whether Algorithm 2, and SCAFFOLD, must send two messages",
    source="section 3.2: SCAFFOLD incurs twice much communication cost since it should "
    "communicate the local update and the control variate",
)
def second_message(q):
    """The second message against what the first one says."""
    yield form(
        "twice", lambda: _twice(q),
        r"\text{numbers from which the server gets }\theta^t\text{ and }c^t:\quad "
        r"2d\le\begin{cases}d&\text{if every }\Delta "
        r"c_k=-c^{t-1}-\Delta_k^t/(B\eta_l)\\2d&\text{otherwise}\end{cases}", fails=True,
        wording="in words",
        note="the server knows c^{t-1}, B and eta_l: Delta_k determines Delta c_k by line 9. "
        "lambda_1 = 0 is SCAFFOLD with option II; the gradients of its option I are another matter",
    )
    yield form(
        "recovered", lambda: _recovery(q),
        r"\Delta c_k=-c^{t-1}-\tfrac1{B\eta_l}\Delta_k^t\quad\forall k\in\mathcal P_t",
        wrong("without c", lambda: _recovery(q, with_c=0)),
        wrong("B + 1", lambda: _recovery(q, B=1)), holds=True,
        proof="line 9, as line 10 sends c_k^t - c_k^{t-1} and theta_k^t - theta^{t-1}",
        note="of what is sent, where nothing is thresholded or compressed in between; "
        "`control='recovered'` of both methods sends no second message",
    )
    yield form(
        "nonzeros of both", lambda: _nonzeros(q),
        r"\mathrm{nnz}(\Delta_k^t)+\mathrm{nnz}(\Delta c_k)\ge\mathrm{nnz}(c^{t-1})",
        wrong("the first message alone", lambda: _nonzeros(q, second=0)), holds=True,
        proof="[recovered]: where Delta_ki = 0 the second message is -c_i",
        note="a coordinate with c_i != 0 is not 0 in both messages: with a dense c a sparse "
        "Delta_k saves at most half of 2d",
    )


@statement(
    "algorithm-2-sparsity",
    title="whether the l1 term of line 7 makes updates sparse, and what it does instead",
    source="section 3.2: this l1-norm regularizer sparsifies the local update; hence, reduces the "
    "communication cost",
)
def algorithm_2_sparsity(q):
    """Updates where the l1 norm outweighs the slope, and where it does not."""
    yield form(
        "sparsifies", lambda: _zero(q),
        r"|g_{kb}|_i\le\lambda_1\ \forall b<B\ \Rightarrow\ \Delta_{ki}^t=0", fails=True,
        wording="in words",
        note="the penalty outweighs the slope at every step, as where a minimiser of the "
        "penalised problem stays: a subgradient step goes to and fro around theta and ends at 0 "
        "for single values of the slope only. On a separable quadratic the update is a piecewise "
        "linear function of r_k with slope -eta_l S_B on at most 3^(B-1) pieces, so that for all "
        "r_k but as many values it is not 0",
    )
    yield form(
        "to and fro", lambda: _chatter(q),
        r"|g_{kb}|_i\le\lambda_1\ \forall b<B\ \Rightarrow\ |\Delta_{ki}^t|\le\eta_l\big("
        r"\lambda_1+\max_b|g_{kb}|_i\big)", wrong("a tenth less", lambda: nine_tenths(_chatter(q))),
        wrong("the slope dropped", lambda: _chatter(q, of_slope=0)), holds=True,
        proof="docs/fedelasticnet_algorithm_2.md#the-l1-term-does-not-make-zeros",
        note="proof: above theta a step goes down by at most eta_l (lambda_1 + max |g|) and not "
        "up, below it the other way; no convexity is used, and g may be a mini-batch gradient",
    )
    yield form(
        "what epsilon has to be", lambda: _threshold(q),
        r"|g_{kb}|_i\le\lambda_1\ \forall b<B\ \Rightarrow\ |\Delta_{ki}^t|\le2\eta_l\lambda_1",
        wrong("eta_l lambda_1", lambda: _threshold(q, times=1)), holds=True,
        proof="[to and fro] with |g_kb|_i <= lambda_1",
        note="so a threshold epsilon >= 2 eta_l lambda_1 sends 0 in all these coordinates: the "
        "sparsity is the threshold's",
    )
    yield form(
        "one local step", lambda: _one_step(q),
        r"B=1:\quad\Delta_k^t=-\eta_l\big(\nabla L_k(\theta^{t-1})-c_k^{t-1}+c^{t-1}\big)",
        wrong("with the l1 term", lambda: _one_step(q, l1=1)), holds=True, needs=(ONE_STEP,),
        proof="note",
        note="both penalties are 0 at the first local step, where theta_k = theta: with B = 1 "
        "Algorithm 2 is SCAFFOLD",
    )
    yield form(
        "drag", lambda: _drag(q),
        r"\mathrm{sign}(y_{kb}-\theta)_i=s\ \forall "
        r"b\ge1:\quad\Delta_{ki}^t=-\eta_l\big(S_B\,r_{ki}-\lambda_1S_{B-1}\mathrm{sign}(r_{ki})"
        r"\big)", wrong("at every step", lambda: _drag(q, later=0)), holds=True, needs=(SEPARABLE,),
        proof="y_{b+1} = q y_b - eta_l r - eta_l lambda_1 sign(y_b), summed up with sign(y_b) = "
        "-sign(r) for b >= 1",
        note="where a coordinate moves one way the update is shortened by eta_l lambda_1 S_{B-1}, "
        "in each round again",
    )
