"""MOPES, with projections, and MOLES, with linear minimisations: their bounds on general convex sets, and how FedMLS is one of them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.theorems.fedmls.notation import BOTH, EXACT, PROVED, SYMBOLS, statement
from fedtheory.theorems.fedmls.views import (
    EXACT_PROX,
    FLAT,
    INSIDE,
    LINEAR,
    NATURAL,
    OUTSIDE,
    OUTSIDE_BALL,
    PROJECTED,
    STEPS,
    MopesView,
    SameView,
)
from fedtheory.theorems.fedmls.worst import worst_of
from fedtheory.verification.statement import Sides, eq, form, le

__all__ = ["MOPES"]

BOUND = r"\mathbb E F(x_K)-\min_XF\le\frac{%s\|x_0-x^*\|^2+%s\tilde D%s}{\lambda K(K+1)}+\frac{G^2\lambda}2"
PAPER = "Thekumparampil et al. 2020, arXiv 2010.01848"
ASSUMPTIONS = (
    "F is convex, and no subgradient that is returned on X', a ball around 0, is longer than G",
    "X is closed, convex and in X'; x* minimises F over X",
    "x_0 lies in X", "subgradients are exact, or unbiased with variance at most sigma^2",
)  # fmt: skip
MORE = {"C": "MOLES.C", "X, X'": "a ConstraintSet, the ball ||u|| <= MOPES.radius", "calls_k": "CentralRun.lmo_calls"}


def _bound(v: MopesView, start: Any = 10, slack: Any = 8, allowance: Any = 0, penalty: Any = 1) -> Sides:
    return le(v.excess, v.bound(start, slack, allowance, penalty), noise=v.noise)


def _calls(v: MopesView, factor: Any = 16) -> Sides:
    """The linear minimisations of every round; the 3 stays."""
    return le(v.calls, v.call_limit(factor))


def _all_calls(v: MopesView, factor: float = 16.0) -> Sides:
    calls: Any = v.calls  # counted where the form is judged: it needs LINEAR
    total = calls.sum(axis=0, keepdims=True)
    return le(total, np.full(total.shape, factor * v.K**2))


def _same(v: SameView, path: np.ndarray, other: np.ndarray) -> Sides:
    """Two paths, round by round, the same in every coordinate."""
    return eq(path[:, None] + 0 * other, other, vector=True)


MOPES = (
    statement(
        "mopes-bound",
        "convergence of MOPES on a convex set",
        f"{PAPER} (abstract read only); the poster prints its update, and Theorem 1 is its bound for the consensus set",
        form(
            "10 and 8", BOUND % (10, 8, ""), _bound, BOTH,
            ("a hundredth of the first term", lambda v: _bound(v, start=Fraction(1, 10), slack=Fraction(2, 25))),
            ("the penalty's term dropped", lambda v: _bound(v, penalty=0)),
            kind="mopes", needs=(PROJECTED, STEPS, INSIDE), wording="algorithm",
            note="the proof of Theorem 1 uses of the consensus set that it is convex, closed and in X', and nothing else. "
            "The 10 is sharp, with X = X' = [-1, 1] (theorem-1 [9.9 for 10])",
            worst=worst_of("mopes", 10, 8),
            proof=PROVED,
        ),
        form(
            "10 and 4", BOUND % (10, 4, ""), lambda v: _bound(v, slack=4), BOTH,
            ("a hundredth of the first term", lambda v: _bound(v, start=Fraction(1, 10), slack=Fraction(1, 25))),
            kind="mopes", needs=(PROJECTED, STEPS, INSIDE), note="4 for 8, as in theorem-1 [sharpened]",
            worst=worst_of("mopes", 10, 4),
            proof=PROVED,
        ),
        form(
            "x_0 outside X", BOUND % (10, 8, "") + r",\quad x_0\in X'\setminus X", _bound, EXACT,
            ("a hundredth of the first term", lambda v: _bound(v, start=Fraction(1, 10), slack=Fraction(2, 25))),
            kind="mopes", needs=(PROJECTED, STEPS, OUTSIDE),
            note="x_0 need not be feasible: gamma_1 = 1, so that x_1 = z_1 is, and the projection's inequality does not ask it of z_0",
            proof="note",
        ),
        form(
            "x_0 outside X'", BOUND % (10, 8, "") + r",\quad x_0\notin X'", _bound, {"deterministic": "violated"},
            kind="mopes", needs=(PROJECTED, STEPS, OUTSIDE_BALL),
            note="local training asks for a subgradient at x_0, which G bounds on X' only",
        ),
        form(
            "prox without the square", BOUND % (10, 8, "") + r",\quad\min_uF(u)+\tfrac\beta2\|u-w\|\text{ for local training}", _bound,
            {"deterministic": "violated"}, kind="mopes", needs=(PROJECTED, FLAT, INSIDE),
            note="as the poster's Methods print the prox; of several minimisers R, -R, w and the kinks are taken in this order",
        ),
        form(
            "local problem solved", BOUND % (8, 0, ""), lambda v: _bound(v, start=8, slack=0), EXACT,
            ("a hundredth of the first term", lambda v: _bound(v, start=Fraction(2, 25), slack=0)),
            kind="mopes", needs=(PROJECTED, EXACT_PROX, INSIDE), note="as exact-prox [repaired], where the 8 is sharp",
            worst=worst_of("mopes", 8),
            proof="docs/fedmls.md#local-problems-solved",
        ),
        scope="mopes", assumptions=ASSUMPTIONS, symbols={**SYMBOLS, **MORE},
        measures="suboptimality of the last iterate",
    ),
    statement(
        "moles-bound",
        "convergence of MOLES on a convex set",
        f"{PAPER} (abstract read only); stopping rule, constants and proof are ours",
        form(
            "with 2C", BOUND % (10, 8, "+2C"), lambda v: _bound(v, allowance=2), EXACT,
            ("a hundredth of the first term", lambda v: _bound(v, Fraction(1, 10), Fraction(2, 25), Fraction(1, 50))),
            kind="mopes", needs=(LINEAR, INSIDE), wording="algorithm",
            note="Frank-Wolfe from z_{k-1} to a Wolfe gap of C/(4K): eta_k = C/(lambda K k), and 2/(K(K+1)) sum_k k "
            "eta_k = 2C/(lambda K(K+1))",
            proof="the docstring of fedtheory.central.moles, 1; the note has the step that differs from MOPES",
        ),
        scope="mopes", assumptions=ASSUMPTIONS, symbols={**SYMBOLS, **MORE},
        measures="suboptimality of the last iterate",
    ),
    statement(
        "moles-calls",
        "linear minimisations of MOLES",
        f"{PAPER}, abstract: 'O(epsilon^-2) LMO calls'; stopping rule, constants and proof are ours",
        form(
            "calls in all", r"\sum_{k\le K}\mathrm{calls}_k\le16K^2,\quad C=\Delta^2", _all_calls, EXACT,
            ("a hundredth", lambda v: _all_calls(v, 0.16)), kind="mopes", needs=(LINEAR, NATURAL), wording="in words",
            note="with K(K+1) >= 4 (9 ||x_0 - x*||^2 + Delta^2) G^2/epsilon^2 rounds that is O(G^2 Delta^2/epsilon^2)",
            proof="[calls a round] with C = Delta^2, over K rounds",
        ),
        form(
            "calls a round", r"\mathrm{calls}_k\le\max(3,\lceil16K\Delta^2/C\rceil)", _calls, EXACT,
            ("a hundredth, and no 3", lambda v: le(v.calls, v.call_limit(Fraction(4, 25)) * 0.3)), kind="mopes", needs=(LINEAR,),
            note="Delta the diameter of X; proved in fedtheory.central.moles. It is within 21 times what the simplex needs",
            proof="the docstring of fedtheory.central.moles, 2",
        ),
        scope="mopes", assumptions=ASSUMPTIONS, symbols={**SYMBOLS, **MORE},
    ),
    statement(
        "mopes-is-fedmls",
        "FedMLS is MOPES on the consensus set",
        "poster, Selected Results: 'the FL version of MOPES, denoted ... FedMLS'",
        form(
            "mean product", r"x_k^{\rm FedMLS}=x_{k,i}^{\rm MOPES}\ \forall i,\quad\langle "
            r"u,v\rangle=\tfrac1N\sum_i\langle u_i,v_i\rangle",
            lambda v: _same(v, v.fedmls, v.mopes()), "holds",
            ("lambda a tenth larger", lambda v: _same(v, v.fedmls, SameView(_scaled(v, Fraction(11, 10))).mopes())),
            kind="same", wording="in words",
            note="x_k is compared in every coordinate and round; the server projects onto the ball, line 14 averages",
            proof="docs/fedmls.md#mopes-and-moles",
        ),
        form(
            "plain product, rescaled", r"x_k^{\rm FedMLS}(\lambda,\tilde D,G^2)=x_{k,i}^{\rm MOPES}(N\lambda,N\tilde D,G^2/N),\quad"
            r"\langle u,v\rangle=\sum_i\langle u_i,v_i\rangle", lambda v: _same(v, v.fedmls, v.mopes(v.clients, v.clients)), "holds",
            ("lambda not rescaled", lambda v: _same(v, v.fedmls, v.mopes(1, v.clients))), kind="same",
            note="the gradient of (1/N) sum_i f_i(u_i) is N times shorter there",
            proof="docs/fedmls.md#line-22-along-the-gradient-of-f",
        ),
        form(
            "plain product, the same parameters", r"x_k^{\rm FedMLS}=x_{k,i}^{\rm MOPES},\quad\langle "
            r"u,v\rangle=\sum_i\langle u_i,v_i\rangle",
            lambda v: _same(v, v.fedmls, v.mopes(1, v.clients)), "violated", kind="same",
            note="the same lambda, D-tilde and G^2 mean other methods in the two inner products",
        ),
        form(
            "line 14 as printed", r"x_k^{\rm FedMLS}=x_{k,i}^{\rm MOPES},\quad z'\text{ for }\tilde z'\text{ in line 14}",
            lambda v: _same(v, v.printed_line_14, v.mopes()), "violated", kind="same",
            note="the poster's Methods average in MOPES's update, its Algorithm 1 does not: as printed the two are not one method",
        ),
        scope="identity", assumptions=("every f_i is a maximum of affine functions on the line, the first of the "
        "largest giving the subgradient",),
        symbols=SYMBOLS,
    ),
)  # fmt: skip


def _scaled(v: SameView, factor: Fraction) -> Any:
    from dataclasses import replace

    return replace(v.run, lam=factor * v.run.lam)
