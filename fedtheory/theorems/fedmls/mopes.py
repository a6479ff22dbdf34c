"""MOPES, with projections, and MOLES, with linear minimisations: their bounds on convex sets."""

from fractions import Fraction

import numpy as np

from fedtheory.theorems.fedmls.mopes_world import (
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
)
from fedtheory.theorems.fedmls.notation import PROVED, SYMBOLS
from fedtheory.theorems.fedmls.paper import paper
from fedtheory.theorems.fedmls.worst import worst_of
from fedtheory.theory import form, le, wrong

BOUND = (
    r"\mathbb E F(x_K)-\min_XF\le\frac{%s\|x_0-x^*\|^2+%s\tilde D%s}{\lambda K(K+1)}"
    r"+\frac{G^2\lambda}2"
)
EXACT, BOTH = ("deterministic",), ("deterministic", "stochastic")
SOURCE = "Thekumparampil et al. 2020, arXiv 2010.01848"
ASSUMPTIONS = (
    "F is convex, and no subgradient that is returned on X', a ball around 0, is longer than G",
    "X is closed, convex and in X'; x* minimises F over X",
    "x_0 lies in X",
    "subgradients are exact, or unbiased with variance at most sigma^2",
)
MORE = {
    "C": "MOLES.C",
    "X, X'": "a ConstraintSet, the ball ||u|| <= MOPES.radius",
    "calls_k": "CentralRun.lmo_calls",
}
HUNDREDTH = (Fraction(1, 10), Fraction(2, 25), Fraction(1, 50))  # of 10, 8 and 2


def bound(q, start=10, slack=8, allowance=0, penalty=1):
    """Sides of the bound with these factors of ||x_0 - x*||^2, D, C and lambda G^2/2."""
    return le(q.excess, q.bound(start, slack, allowance, penalty), noise=q.noise)


def all_calls(q, factor=16.0):
    """Sides of sum_k calls_k <= factor K^2."""
    total = q.calls.sum(axis=0, keepdims=True)
    return le(total, np.full(total.shape, factor * q.K**2))


@paper.statement(
    "mopes-bound", over=MopesView,
    source=f"{SOURCE} (abstract read only); the poster prints its update, and Theorem 1 is its "
    "bound for the consensus set", assumptions=ASSUMPTIONS, symbols={**SYMBOLS, **MORE},
    measures="suboptimality of the last iterate",
)
def mopes_bound(q):
    """convergence of MOPES on a convex set"""
    yield form(
        "10 and 8", lambda: bound(q), BOUND % (10, 8, ""),
        wrong("a hundredth of the first term", lambda: bound(q, *HUNDREDTH[:2])),
        wrong("the penalty's term dropped", lambda: bound(q, penalty=0)),
        holds=True, rules=BOTH, needs=(PROJECTED, STEPS, INSIDE), wording="algorithm",
        note="the proof of Theorem 1 uses of the consensus set that it is convex, closed and in "
        "X', and nothing else. The 10 is sharp, with X = X' = [-1, 1] (theorem-1 [9.9 for 10])",
        worst=worst_of("mopes", 10, 8), proof=PROVED,
    )
    yield form(
        "10 and 4", lambda: bound(q, slack=4), BOUND % (10, 4, ""),
        wrong("a hundredth of the first term", lambda: bound(q, Fraction(1, 10), Fraction(1, 25))),
        holds=True, rules=BOTH, needs=(PROJECTED, STEPS, INSIDE),
        note="4 for 8, as in theorem-1 [sharpened]", worst=worst_of("mopes", 10, 4), proof=PROVED,
    )
    yield form(
        "x_0 outside X", lambda: bound(q), BOUND % (10, 8, "") + r",\quad x_0\in X'\setminus X",
        wrong("a hundredth of the first term", lambda: bound(q, *HUNDREDTH[:2])),
        holds=True, rules=EXACT, needs=(PROJECTED, STEPS, OUTSIDE), proof="note",
        note="x_0 need not be feasible: gamma_1 = 1, so that x_1 = z_1 is, and the projection's "
        "inequality does not ask it of z_0",
    )
    yield form(
        "x_0 outside X'", lambda: bound(q), BOUND % (10, 8, "") + r",\quad x_0\notin X'",
        fails=True, rules=EXACT, needs=(PROJECTED, STEPS, OUTSIDE_BALL),
        note="local training asks for a subgradient at x_0, which G bounds on X' only",
    )
    yield form(
        "prox without the square", lambda: bound(q),
        BOUND % (10, 8, "")
        + r",\quad\min_uF(u)+\tfrac\beta2\|u-w\|\text{ for local training}",
        fails=True, rules=EXACT, needs=(PROJECTED, FLAT, INSIDE),
        note="as the poster's Methods print the prox; of several minimisers R, -R, w and the kinks "
        "are taken in this order",
    )
    yield form(
        "local problem solved", lambda: bound(q, 8, 0), BOUND % (8, 0, ""),
        wrong("a hundredth of the first term", lambda: bound(q, Fraction(2, 25), 0)),
        holds=True, rules=EXACT, needs=(PROJECTED, EXACT_PROX, INSIDE),
        note="as exact-prox [repaired], where the 8 is sharp",
        worst=worst_of("mopes", 8), proof="docs/fedmls.md#local-problems-solved",
    )


@paper.statement(
    "moles-bound", over=MopesView,
    source=f"{SOURCE} (abstract read only); stopping rule, constants and proof are ours",
    assumptions=ASSUMPTIONS, symbols={**SYMBOLS, **MORE},
    measures="suboptimality of the last iterate",
)
def moles_bound(q):
    """convergence of MOLES on a convex set"""
    yield form(
        "with 2C", lambda: bound(q, allowance=2), BOUND % (10, 8, "+2C"),
        wrong("a hundredth of the first term", lambda: bound(q, *HUNDREDTH)),
        holds=True, rules=EXACT, needs=(LINEAR, INSIDE), wording="algorithm",
        note="Frank-Wolfe from z_{k-1} to a Wolfe gap of C/(4K): eta_k = C/(lambda K k), and "
        "2/(K(K+1)) sum_k k eta_k = 2C/(lambda K(K+1))",
        proof="the docstring of fedtheory.central.moles, 1; the note has the step that differs "
        "from MOPES",
    )


@paper.statement(
    "moles-calls", over=MopesView,
    source=f"{SOURCE}, abstract: 'O(epsilon^-2) LMO calls'; stopping rule, constants and proof are "
    "ours", assumptions=ASSUMPTIONS, symbols={**SYMBOLS, **MORE},
)
def moles_calls(q):
    """linear minimisations of MOLES"""
    yield form(
        "calls in all", lambda: all_calls(q),
        r"\sum_{k\le K}\mathrm{calls}_k\le16K^2,\quad C=\Delta^2",
        wrong("a hundredth", lambda: all_calls(q, 0.16)), holds=True, rules=EXACT,
        needs=(LINEAR, NATURAL), wording="in words",
        note="with K(K+1) >= 4 (9 ||x_0 - x*||^2 + Delta^2) G^2/epsilon^2 rounds that is O(G^2 "
        "Delta^2/epsilon^2)", proof="[calls a round] with C = Delta^2, over K rounds",
    )
    yield form(
        "calls a round", lambda: le(q.calls, q.call_limit()),
        r"\mathrm{calls}_k\le\max(3,\lceil16K\Delta^2/C\rceil)",
        wrong("a hundredth, and no 3", lambda: le(q.calls, q.call_limit(Fraction(4, 25)) * 0.3)),
        holds=True, rules=EXACT, needs=(LINEAR,),
        note="Delta the diameter of X; proved in fedtheory.central.moles. It is within 21 times "
        "what the simplex needs", proof="the docstring of fedtheory.central.moles, 2",
    )
