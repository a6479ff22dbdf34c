"""FedElasticNet, Algorithm 3 with full participation: stalls, cycles, drifts and gradient descent.

The paper says in words that the client drift is resolved, that gamma - theta* vanishes or stays
bounded, and that the rate is O(1/T). Each of these is a form here, beside what is true instead.
Proofs: docs/fedelasticnet_dynamics.md.
"""

from functools import partial
from typing import Any

import numpy as np

from fedtheory.theorems.fedelasticnet.dynamics import facts
from fedtheory.theorems.fedelasticnet.dynamics.motion_view import MotionView
from fedtheory.theorems.fedelasticnet.dynamics.motions import Motion
from fedtheory.theorems.fedelasticnet.notation import (
    ALGORITHM_3,
    MORE,
    ONE,
    SIGN_FAILS,
    TENTH,
    Share,
    nine_tenths,
    part,
    tight,
)
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.quantities import inner, norm_sq
from fedtheory.theory import Sides, eq, form, le, wrong

__all__ = ["ASSUMED", "THEOREM_D", "TRUE", "about"]

SIGN, TRUE = ("sign",), ("true-gradient",)
ASSUMED = (
    "every L_k is convex and R, their plain mean, has a minimiser",
    *ALGORITHM_3,
    "all m clients take part in every round",
    "local problems solved exactly, no threshold epsilon",
)
SYMBOLS = {
    "theta^t, h^t, g_k^t": "MotionView.theta, .h, .stored: the states 0..T",
    "delta_k^t": "MotionView.delta: theta_k^t - theta^{t-1}",
    "v_k^t": "MotionView.pull: g_k^t - grad L_k(theta^t)",
    "gamma^t": "theta^t + h^t/lambda_2",
    "mu, beta_R": "MotionView.mu, .beta_joint: bounds of the curvature of R",
    "lambda_1, lambda_2": "algorithm.l1, algorithm.l2",
}
ROUND, COORDINATE, WITHOUT_MOVES = ("round",), ("coordinate",), ("round without moves",)


def _stationary(v: MotionView, of_all: bool = True) -> Sides:
    """grad R(theta) = 0 at a state that rests."""
    slope = (v.slope[-1] if of_all else v.grad[-1][0])[None]
    size = abs(v.grad[-1]).max() + v.lambda1
    return eq(slope, 0 * slope, size, vector=True, noise=v.gradient_noise)


def _stalls(v: MotionView, joint: bool = False, with_h: bool = True, share: Share = ONE) -> Sides:
    """1 where some round changes the state and 0 where none does, as it is and as a condition on the first state says."""
    size, limit = abs(v.mean(v.pull[0])).max() if joint else v.most, part(v.lambda1, share)
    moved = int(not all(v.same(0, t) for t in range(1, len(v.theta))))
    said = int(bool(size > limit) or (with_h and bool(v.h[0].any())))
    close = v.rounding > 0 and abs(size - limit) <= 1e-9 * (size + limit)
    return eq(*(np.array([x], dtype=v.theta.dtype) for x in (moved, said)), noise=int(close))


def _moves(v: MotionView, most: bool) -> Sides:
    """Sides of the part of v_k beyond lambda_1 and the move that it makes: a round and a client each."""
    move, push = norm_sq(v.delta), norm_sq(v.push)
    sides = (v.lambda2**2 * move, push) if most else (push, (v.lambda2 + v.beta) ** 2 * move)
    return le(*sides, noise=v.gradient_noise, axes=("round", "client"))


def _orbit(v: MotionView) -> Sides:
    """R - R* at gamma over the orbit."""
    return v.at_most(v.excess_gamma[-v.period :], noise=v.excess_noise, axes=("state of the orbit",))


def _drift(v: MotionView, share: Share = ONE) -> Sides:
    """theta^t and h^t after every round in which no client moves."""
    found = np.concatenate([v.theta[v.at + 1], v.h[v.at + 1]], axis=-1)
    said = np.concatenate([v.theta[v.at] - part(v.h[v.at], share) / v.lambda2, v.h[v.at]], axis=-1)
    return eq(found, said, vector=True, noise=v.gradient_noise, axes=WITHOUT_MOVES)


def _growth(v: MotionView) -> Sides:
    """The rise of R in a round without moves that is followed by another one."""
    two = np.flatnonzero(v.still[:-1] & v.still[1:])
    most, axes = v.lambda1**2 * v.d / (4 * v.lambda2), ("pair of rounds without moves",)
    return v.at_most(v.excess[two + 1] - v.excess[two], most, noise=2 * v.noise, axes=axes)


def _descent(v: MotionView, share: Share = ONE) -> Sides:
    """theta^t after every round in which no client moves."""
    said = v.theta[v.at] - part(v.slope[v.at], share) / v.lambda2
    return eq(v.theta[v.at + 1], said, vector=True, noise=v.gradient_noise, axes=WITHOUT_MOVES)


def _rate(v: MotionView) -> Sides:
    """R(theta^t) - R* for t = 1..T."""
    t = np.array(range(1, len(v.theta)), dtype=v.theta.dtype)
    return le(v.excess[1:], v.lambda2 * v.squares[0] / (4 * t + 2), noise=v.noise, axes=ROUND)


def _nearer(v: MotionView, factor: Any = 1) -> Sides:
    """||theta - theta*||^2 after and before every round in which no client moves."""
    before = factor * factor * v.squares[v.at]
    return le(v.squares[v.at + 1], before, noise=v.gradient_noise, axes=WITHOUT_MOVES)


def _along_the_top(v: MotionView, share: Share = ONE) -> Sides:
    """The coordinate of theta - theta* along the direction of R's largest curvature."""
    along, left = inner(v.theta - v.theta_star, v.top), 1 - part(v.beta_joint, share) / v.lambda2
    return eq(along[v.at + 1], left * along[v.at], noise=v.gradient_noise, axes=WITHOUT_MOVES)


AT_REST = r"\theta^t=\theta^{t-1},\ g_k^t=g_k^{t-1}\ (k\le m)\ \Rightarrow\ "
NO_MOVE = r"\delta_k^t=0\ (k\le m)\ \Rightarrow\ "
BACK = r"(\theta^{t+N},g^{t+N})=(\theta^t,g^t)\ \Rightarrow\ "
SILENT_LATEX = r"g_k^0=0,\ \max_k\|\nabla L_k(\theta^0)\|_\infty\le\lambda_1,\ \lambda_2\ge\sqrt d\beta\ \Rightarrow\ "
OURS = "our statement on Algorithm 3"
MOVES = "docs/fedelasticnet_dynamics.md#moves-and-stalls-moves-stalls-at-rest"
DRIFTS = "docs/fedelasticnet_dynamics.md#drifts-without-end-drift"
THEOREM_D = "docs/fedelasticnet_dynamics.md#convergence-of-the-true-gradient-rule-convergence-theorem-d-proof"
DESCENT = "docs/fedelasticnet_dynamics.md#where-it-is-gradient-descent-descent-near-the-optimum"
about = partial(FILE.statement, over=Motion, assumptions=ASSUMED, symbols=SYMBOLS)


@about("at-rest", source="section 3.3, after (9) and (12), in words")
def at_rest(q):
    """where Algorithm 3 stands still"""
    yield form(
        "in words", lambda: _stationary(q), AT_REST + r"\nabla R(\theta^t)=0",
        wrong("the first client's gradient only", lambda: _stationary(q, False)),
        rules=SIGN_FAILS, needs=(facts.RESTS,), wording="in words",
        proof=MOVES,
        note='"the client drift is resolved" (3.3): where the method stands still the model is '
        "stationary. Under the sign rule a client whose |g_k - grad L_k| is at most lambda_1 "
        "keeps what it stored, wherever the optimum is",
    )
    yield tight(
        "repaired", lambda: q.at_most(abs(q.slope[-1]), q.lambda1, axes=COORDINATE),
        AT_REST + r"\|\nabla R(\theta^t)\|_\infty\le\lambda_1",
        rules=SIGN, needs=(facts.RESTS,), proof=MOVES, note="attained by L = x^2/2 at x = lambda_1",
    )
    yield tight(
        "excess",
        lambda: q.at_most(q.excess[-1:], q.lambda1**2 * q.d / (2 * q.mu), noise=q.excess_noise),
        AT_REST + r"R(\theta^t)-R_*\le\tfrac{\lambda_1^2d}{2\mu}", rules=SIGN,
        needs=(facts.RESTS, facts.STRONG), proof=MOVES,
        note="attained by L_k = mu ||x||^2/2 where every |x_i| is lambda_1/mu",
    )


@about("moves", source=OURS + ", from (11)", ours=True)
def moves(q):
    """when a client moves, and how far"""
    yield tight(
        "at most", lambda: _moves(q, True),
        r"\lambda_2\|\delta_k^t\|\le\|\mathrm{soft}(v_k^{t-1},\lambda_1)\|", proof=MOVES,
        note="both sides squared; attained by a loss that is linear on the way",
    )
    yield tight(
        "at least", lambda: _moves(q, False),
        r"\|\mathrm{soft}(v_k^{t-1},\lambda_1)\|\le(\lambda_2+\beta)\|\delta_k^t\|",
        needs=(facts.SMOOTH,), proof=MOVES,
        note="both sides squared; attained by curvature beta on the way. Both together: delta_k = "
        "0 if and only if no coordinate of v_k is above lambda_1",
    )


@about("stalls", source=OURS, ours=True)
def stalls(q):
    """which states never change under the sign rule"""
    yield form(
        "any state", lambda: _stalls(q),
        r"(\theta^t,g^t)=(\theta^0,g^0)\ \forall t\iff h^0=0,\ \max_k\|v_k^0\|_\infty\le\lambda_1",
        wrong("the mean of the v_k", lambda: _stalls(q, joint=True)),
        wrong("any h", lambda: _stalls(q, with_h=False)),
        wrong("lambda_1 a tenth less", lambda: _stalls(q, share=TENTH)),
        wrong("lambda_1 a tenth more", lambda: _stalls(q, share=MORE)), rules=SIGN, holds=True,
        proof=MOVES,
        note="1 stands for a state that changes in one of T rounds: it does so in the first one, "
        "or never",
    )
    yield form(
        "own start", lambda: _stalls(q),
        r"g_k^0=0:\ \theta^t=\theta^0\ \forall t\iff\max_k\|\nabla "
        r"L_k(\theta^0)\|_\infty\le\lambda_1",
        wrong("the mean of the gradients", lambda: _stalls(q, joint=True)),
        wrong("lambda_1 a tenth less", lambda: _stalls(q, share=TENTH)),
        wrong("lambda_1 a tenth more", lambda: _stalls(q, share=MORE)), rules=SIGN, holds=True,
        needs=(facts.OWN,), proof=MOVES, note="wherever the optimum is, and whatever lambda_2",
    )


@about("returns", source="section 3.3, after Theorem 3.1, and B.3, in words")
def returns(q):
    """states that come back"""
    yield form(
        "in words", lambda: _orbit(q), BACK + r"R(\gamma^s)=R_*\ (t\le s<t+N)", fails=True,
        needs=(facts.RETURNS,), wording="in words",
        note='"gamma - theta* tends to be small as training proceeds": a state that comes back '
        "does so for ever, so its orbit would have to be optimal. Under the true-gradient rule "
        "lambda_2 < beta/2 has a cycle of two rounds",
    )
    yield form(
        "in words, lambda_2 > 27 beta", lambda: _orbit(q),
        BACK + r"R(\gamma^s)=R_*\ (t\le s<t+N),\quad\lambda_2>27\beta",
        wrong("the clients agree, too", lambda: q.at_most(abs(q.stored[-q.period :]).max(keepdims=True).ravel())),
        rules=SIGN_FAILS, needs=(facts.RETURNS, facts.WIDE),
        wording="in words", proof=THEOREM_D,
        note="under the sign rule a cycle of 112 rounds with lambda_2 = 1679/60 beta, and longer "
        "ones for lambda_2 as large as one likes; under the true-gradient rule by "
        "fedelasticnet/convergence, which asks lambda_2 > beta/2 only",
    )
    yield tight(
        "mean gradient", lambda: q.at_most(abs(q.mean_gradient), q.lambda1, axes=COORDINATE),
        BACK + r"\Big\|\tfrac1{Nm}\sum_{s=t+1}^{t+N}\sum_k\nabla "
        r"L_k(\theta_k^s)\Big\|_\infty\le\lambda_1", needs=(facts.RETURNS,),
        proof="docs/fedelasticnet_dynamics.md#cycles-returns",
        note="by Lemma B.3 summed over the orbit, with exact s; attained by a state that stalls",
    )


@about("drift", source="B.3, in words")
def drift(q):
    """rounds in which no client moves, under the sign rule"""
    yield form(
        "in words", lambda: q.at_most(abs(q.h[-1]), axes=COORDINATE), r"\delta_k^t=0\ (k\le m,\ t>t_0)\ \Rightarrow\ h^{t_0}=0",
        rules=SIGN, fails=True, needs=(facts.FROZEN,), wording="in words",
        note='"it vanishes or at least is bounded by a constant vector", of gamma - theta*: where '
        "nobody ever moves again theta goes on by -h/lambda_2 a round, so h would have to be 0. "
        "One smooth convex client makes R(theta^t) grow linearly for every lambda_2 >= 2 beta, "
        "although R = L has a minimiser: L' is x, clipped at -1/2 and 3/2, lambda_1 = 1, from 2",
    )
    yield form(
        "closed form", lambda: _drift(q),
        NO_MOVE + r"\theta^t=\theta^{t-1}-\tfrac1{\lambda_2}h^{t-1},\ h^t=h^{t-1}",
        wrong("a tenth slower", lambda: _drift(q, TENTH)),
        wrong("the other way", lambda: _drift(q, (-1, 1))), rules=SIGN, holds=True,
        needs=(facts.STILL,), proof="lines 5, 11 and 12 with delta_k = 0 and sign(0) = 0",
    )
    yield tight(
        "bias",
        lambda: q.at_most(abs(q.mean(q.pull[q.at])), q.lambda1, axes=(*WITHOUT_MOVES, *COORDINATE)),
        NO_MOVE + r"\|h^{t-1}-\nabla R(\theta^{t-1})\|_\infty\le\lambda_1", needs=(facts.STILL,),
        proof="h - grad R is the mean of the v_k, and a client that does not move has |v_k| <= "
        "lambda_1",
        note="so theta can drift away from the optimum only while |grad R| <= lambda_1 - |h| in "
        "each coordinate: never for ever where R's slopes at infinity are at least lambda_1. "
        "Attained, with lambda_1 = 1, where 1/2 is stored and the slope is -1/2",
    )
    yield tight(
        "growth", lambda: _growth(q),
        r"\delta_k^t=\delta_k^{t+1}=0\ (k\le m)\ \Rightarrow\ R(\theta^t)-R(\theta^{t-1})\le"
        r"\tfrac{\lambda_1^2d}{4\lambda_2}", rules=SIGN, needs=(facts.TWO_STILL,), proof=DRIFTS,
        note="attained, for ever, with lambda_1 = 1 where 1/2 is stored and the slope is -1/2; "
        "one client comes within a share of 3 beta/(lambda_2 + beta) of it from the algorithm's "
        "own start",
    )


@about("descent", source="section 3.3, after Theorem 3.1, in words; the conditions are ours")
def descent(q):
    """where Algorithm 3 is gradient descent"""
    yield form(
        "rate", lambda: _rate(q),
        SILENT_LATEX + r"R(\theta^t)-R_*\le\tfrac{\lambda_2\|\theta^0-\theta_*\|^2}{4t+2}",
        wrong("a tenth less", lambda: nine_tenths(_rate(q))),
        rules=SIGN_FAILS, needs=(facts.SILENT,), wording="in words",
        proof=DESCENT,
        note="O(1/T), for the last model and without a term that stays: true with the exact "
        "subgradient in line 5, where it is attained by a Huber loss with beta = lambda_2. Under "
        "the sign rule no such start ever moves",
    )
    yield tight(
        "silence", lambda: q.at_most(abs(q.pull[:-1]).max(axis=(1, 2)), q.lambda1, axes=ROUND),
        SILENT_LATEX + r"\|v_k^t\|_\infty\le\lambda_1",
        needs=(facts.SILENT,), proof=DESCENT,
        note="so no client ever moves: delta = 0 in all rounds",
    )
    yield form(
        "gradient descent", lambda: _descent(q),
        NO_MOVE + r"\theta^t=\theta^{t-1}-\tfrac1{\lambda_2}\nabla R(\theta^{t-1})",
        wrong("a tenth slower", lambda: _descent(q, TENTH)),
        rules=SIGN_FAILS, needs=(facts.STILL, facts.SMOOTH), proof=DESCENT,
    )


@about("near-the-optimum", source="B.3, in words; Theorem 3.1 has no lambda_2", ours=True)
def near_the_optimum(q):
    """rounds without moves near the optimum, true-gradient rule"""
    yield form(
        "in words", lambda: _nearer(q),
        NO_MOVE + r"\|\theta^t-\theta_*\|\le\|\theta^{t-1}-\theta_*\|", rules=TRUE, fails=True,
        needs=(facts.STILL, facts.SMOOTH), wording="in words",
        note='"tends to be small as training proceeds", for every lambda_2 > 0: below half of '
        "R's largest curvature the optimum repels",
    )
    yield tight(
        "repaired", lambda: _nearer(q),
        r"\lambda_2\ge\tfrac{\beta_R}2,\ " + NO_MOVE
        + r"\|\theta^t-\theta_*\|\le\|\theta^{t-1}-\theta_*\|", rules=TRUE,
        needs=(facts.STILL, facts.SMOOTH, facts.HALF),
        proof="the form 'factor', which is at most 1 then",
        note="both sides squared; attained at lambda_2 = beta_R/2, where theta swings for ever",
    )
    yield tight(
        "factor", lambda: _nearer(q, max(abs(1 - c / q.lambda2) for c in (q.mu, q.beta_joint))),
        NO_MOVE + r"\|\theta^t-\theta_*\|\le\max\big(|1-\tfrac\mu{\lambda_2}|,|1-\tfrac{\beta_R}{"
        r"\lambda_2}|\big)\,\|\theta^{t-1}-\theta_*\|", rules=TRUE,
        needs=(facts.STILL, facts.SMOOTH),
        proof="gradient descent. With e = theta - theta_* and b = beta_R - mu, R - mu "
        "||theta||^2/2 is convex and b-smooth, so that grad R - mu e is within b ||e||/2 of b e/2 "
        "by cocoercivity", note="both sides squared; attained by quadratics",
    )
    yield form(
        "repels", lambda: _along_the_top(q),
        NO_MOVE + r"\langle\theta^t-\theta_*,u\rangle=\big(1-\tfrac{\beta_R}{\lambda_2}\big)"
        r"\langle\theta^{t-1}-\theta_*,u\rangle,\quad\nabla^2R\,u=\beta_Ru",
        wrong("a tenth less curvature", lambda: _along_the_top(q, TENTH)), rules=TRUE, holds=True,
        needs=(facts.STILL, facts.QUADRATIC),
        proof="gradient descent, grad R is linear, and u is an eigenvector of its matrix",
        note="so along u the distance grows by beta_R/lambda_2 - 1 a round for lambda_2 < "
        "beta_R/2, until a client moves",
    )
