"""FedElasticNet, Algorithm 2 (SCAFFOLD with penalties): its messages, and its l1 term."""

from functools import partial
from typing import Any

import numpy as np

from fedtheory.algorithms import FedElasticNetScaffold
from fedtheory.theorems.fedelasticnet.algorithm_2.rounds import EVERYBODY, ONE_STEP, SEPARABLE, RoundsView, sums
from fedtheory.theorems.fedelasticnet.notation import nine_tenths
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theory import Sides, eq, form, le, method, wrong

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


def _floats(scale: Any) -> Any:
    """The scale as floats, for rounding noise; fractions have none."""
    return 0 if scale.dtype == object else scale


# --- the second message ---------------------------------------------------------------------------
def _recovered(v: RoundsView, with_c: int = 1, B: int = 0) -> Any:
    c = v.c[:-1, None] + 0 * v.delta
    return v.of_members(-with_c * c - v.delta / ((v.method.B + B) * v.method.eta))


def _twice(v: RoundsView) -> Sides:
    """2 d numbers against those that suffice, in each round."""
    change = v.of_members(v.change)
    off, size = abs(change - _recovered(v)), abs(change) + abs(v.c[:-1, None]) + v.method.lambda1
    known = (off <= (0 if off.dtype == object else 1e-9 * size)).all(axis=(1, 2))
    suffice = v.d * np.where(known, 1, 2) + v.theta.ravel()[0] * 0
    return le(2 * v.d + 0 * suffice, suffice, axes=("round",))


def _count(values: Any, like: Any) -> Any:
    return (values != 0).sum(axis=-1) + like.ravel()[0] * 0


@statement(
    "algorithm-2-variates",
    title="what Algorithm 2's control variates are, and which way its server steps",
    source="Algorithm 2, lines 9 and 13; section 3.2 prints the update (6) and no statement about "
    "it",
)
def algorithm_2_variates(q):
    """Control variates, their parts, and the server's step."""

    def l1_part(steps: int = 1) -> Sides:
        part = q.of_members(abs(q.c_k[1:] - _parts(q, l1=0)))
        most = q.method.lambda1 * (q.method.B - steps) / q.method.B
        scale = q.of_members(abs(q.slopes).max(axis=1) + abs(q.c_k[:-1]))
        return le(part, most + 0 * part, 0 * scale, noise=1e-9 * _floats(scale), axes=PLACES)

    def servers_step(c: int = 1) -> Sides:
        """With c after the round, or with the one before it."""
        c = q.c[1:] if c else q.c[:-1]
        step, sizes = -q.method.eta_g * q.method.B * q.method.eta * c, abs(q.delta).sum(axis=1)
        moved = q.theta[1:] - q.theta[:-1]
        return eq(moved, step, abs(q.theta[1:]), sizes, axes=("round", "coordinate"))

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
        "its l1 part", l1_part,
        r"\Big|c_k^t-\tfrac1B\sum_{b<B}\big[\nabla "
        r"L_k(y_{kb})+\lambda_2(y_{kb}-\theta^{t-1})\big]\Big|_i\le\lambda_1\tfrac{B-1}B",
        wrong("a tenth less", lambda: nine_tenths(l1_part())),
        wrong("two steps without a sign", steps=2), holds=True, proof="note",
        note="the first of the B steps has sign(0) = 0; attained where a coordinate moves one way",
    )
    yield form(
        "the server's step", servers_step,
        r"\mathcal P_t=[m]:\quad\theta^t-\theta^{t-1}=-\eta_gB\eta_l\,c^t",
        wrong("c before the round", c=0), holds=True,
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

    def recovery(with_c: int = 1, B: int = 0) -> Sides:
        sizes = abs(q.c[:-1, None]) + abs(q.slopes).max(axis=1) + q.method.lambda1
        sides = q.of_members(q.change), _recovered(q, with_c, B), q.of_members(sizes)
        return eq(*sides, axes=PLACES)

    def nonzeros(second: int = 1) -> Sides:
        there = q.here + q.theta.ravel()[0] * 0
        both = _count(q.delta, q.theta) + second * _count(q.change, q.theta)
        return le(_count(q.c[:-1], q.theta)[:, None] * there, both * there, axes=("round", "client"))

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
        "recovered", recovery,
        r"\Delta c_k=-c^{t-1}-\tfrac1{B\eta_l}\Delta_k^t\quad\forall k\in\mathcal P_t",
        wrong("without c", with_c=0),
        wrong("B + 1", B=1), holds=True,
        proof="line 9, as line 10 sends c_k^t - c_k^{t-1} and theta_k^t - theta^{t-1}",
        note="of what is sent, where nothing is thresholded or compressed in between; "
        "`control='recovered'` of both methods sends no second message",
    )
    yield form(
        "nonzeros of both", nonzeros,
        r"\mathrm{nnz}(\Delta_k^t)+\mathrm{nnz}(\Delta c_k)\ge\mathrm{nnz}(c^{t-1})",
        wrong("the first message alone", second=0), holds=True,
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
    held, l1, r = abs(q.delta) * q.outweighed, q.method.lambda1, q.slopes[:, 0]

    def chatter(slope: int = 1) -> Sides:
        most = q.method.eta * (l1 + slope * q.steepest)
        return le(held, most * q.outweighed, axes=PLACES)

    def threshold(times: int = 2) -> Sides:
        return le(held, times * q.method.eta * l1 * q.outweighed, axes=PLACES)

    def one_step(with_l1: int = 0) -> Sides:
        move = q.of_members(-q.method.eta * (r + with_l1 * l1 * np.sign(r)))
        return eq(q.of_members(q.delta), move, q.of_members(abs(r)), axes=PLACES)

    def drag(later: int = 1) -> Sides:
        kept = 1 - q.method.eta * (q.h + q.method.lambda2)
        back = l1 * sums(kept, q.method.B - later) * np.sign(r)
        move = q.one_way * -q.method.eta * (sums(kept, q.method.B) * r - back)
        return eq(q.one_way * q.delta, move, axes=PLACES)

    yield form(
        "sparsifies", lambda: le(held, 0 * held, axes=PLACES),
        r"|g_{kb}|_i\le\lambda_1\ \forall b<B\ \Rightarrow\ \Delta_{ki}^t=0", fails=True,
        wording="in words",
        note="the penalty outweighs the slope at every step, as where a minimiser of the "
        "penalised problem stays: a subgradient step goes to and fro around theta and ends at 0 "
        "for single values of the slope only. On a separable quadratic the update is a piecewise "
        "linear function of r_k with slope -eta_l S_B on at most 3^(B-1) pieces, so that for all "
        "r_k but as many values it is not 0",
    )
    yield form(
        "to and fro", chatter,
        r"|g_{kb}|_i\le\lambda_1\ \forall b<B\ \Rightarrow\ |\Delta_{ki}^t|\le\eta_l\big("
        r"\lambda_1+\max_b|g_{kb}|_i\big)", wrong("a tenth less", lambda: nine_tenths(chatter())),
        wrong("the slope dropped", slope=0), holds=True,
        proof="docs/fedelasticnet_algorithm_2.md#the-l1-term-does-not-make-zeros",
        note="proof: above theta a step goes down by at most eta_l (lambda_1 + max |g|) and not "
        "up, below it the other way; no convexity is used, and g may be a mini-batch gradient",
    )
    yield form(
        "what epsilon has to be", threshold,
        r"|g_{kb}|_i\le\lambda_1\ \forall b<B\ \Rightarrow\ |\Delta_{ki}^t|\le2\eta_l\lambda_1",
        wrong("eta_l lambda_1", times=1), holds=True,
        proof="[to and fro] with |g_kb|_i <= lambda_1",
        note="so a threshold epsilon >= 2 eta_l lambda_1 sends 0 in all these coordinates: the "
        "sparsity is the threshold's",
    )
    yield form(
        "one local step", one_step,
        r"B=1:\quad\Delta_k^t=-\eta_l\big(\nabla L_k(\theta^{t-1})-c_k^{t-1}+c^{t-1}\big)",
        wrong("with the l1 term", with_l1=1), holds=True, needs=(ONE_STEP,),
        proof="note",
        note="both penalties are 0 at the first local step, where theta_k = theta: with B = 1 "
        "Algorithm 2 is SCAFFOLD",
    )
    yield form(
        "drag", drag,
        r"\mathrm{sign}(y_{kb}-\theta)_i=s\ \forall "
        r"b\ge1:\quad\Delta_{ki}^t=-\eta_l\big(S_B\,r_{ki}-\lambda_1S_{B-1}\mathrm{sign}(r_{ki})"
        r"\big)", wrong("at every step", later=0), holds=True, needs=(SEPARABLE,),
        proof="y_{b+1} = q y_b - eta_l r - eta_l lambda_1 sign(y_b), summed up with sign(y_b) = "
        "-sign(r) for b >= 1",
        note="where a coordinate moves one way the update is shortened by eta_l lambda_1 S_{B-1}, "
        "in each round again",
    )
