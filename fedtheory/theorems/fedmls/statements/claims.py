"""What the poster claims in words: against conventional methods, without similarity, and in time."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from fedtheory.theorems.fedmls.notation import ASSUMPTIONS, SYMBOLS, statement
from fedtheory.theorems.fedmls.views import FEDPROX, MANY_A_ROUND, ONE_A_ROUND, ConventionalView
from fedtheory.verification.statement import Sides, form, le

__all__ = ["CLAIMS"]

QUOTED = "poster, Motivation: 'O(epsilon^-1) compared to conventional approaches with communication complexity of O(epsilon^-2)'"
NESTEROV = r"F(x_k)-F^*\ge\tfrac1{2\mu n}\ (k<n),\quad F=\max_jx_j+\tfrac\mu2\|x\|^2\text{ in }\mathbb R^n"


def _above(v: ConventionalView, scale: Any = 1) -> Sides:
    return le(scale * v.floor, v.excess)


CLAIMS = (
    statement(
        "conventional-rounds",
        "rounds of conventional methods",
        QUOTED,
        form(
            "one subgradient a round", NESTEROV + r",\quad x_{k+1}=x_k-h\,\partial F(x_k)", _above, "holds",
            ("1.1 times as much", lambda v: _above(v, Fraction(11, 10))), kind="conventional", needs=(ONE_A_ROUND,), wording="in words",
            note="after k < n subgradients the last coordinate is still 0 (Nesterov, Introductory lectures, 3.2.1). "
            "With mu = 1/sqrt(n) it "
            "takes n = 1/(4 epsilon^2) rounds, whatever the step: the claim's 1/epsilon^2. One client: communication has no part in it",
            proof="Nesterov, Introductory lectures on convex optimization, 3.2.1; the note says why",
        ),
        form(
            "FedProx with a constant step",
            r"F(x_k)-F^*\ge s_1\min(c_1,h)+s\,(c-shk)_+,\quad\text{two clients that pull apart}", _above, "holds",
            ("1.1 times as much", lambda v: _above(v, Fraction(11, 10))), kind="conventional", needs=(FEDPROX,),
            note="with s = 2 epsilon at least s_1 (c - 1/2)/(2 epsilon^2) rounds for epsilon < s_1 c_1, whatever h. "
            "The instance moves with "
            "epsilon; a step that is held and then cut geometrically does far better there (docs/fedmls.md, Rates)",
            proof="from u <= c_1 client 1 goes to u - h and client 2 not beyond c_1, so that c_1 - u is at least (c_1 - u + h)/2 after "
            "a round, and never below min(c_1, h); v moves by s h at most",
        ),
        form(
            "every other method", NESTEROV + r",\quad\text{FedAvg with any number of local steps}", _above, "violated",
            kind="conventional", needs=(MANY_A_ROUND,),
            note="the poster does not say so, and it cannot be meant: with enough local steps one round is "
            "enough for it where all "
            "clients are one. The claim is about some methods and some functions, which the forms below name",
        ),
        scope="conventional", assumptions=("x_0 = 0; at a tie the first index gives the subgradient",),
        symbols={"F(x_k) - F*": "ConventionalView.excess", "mu, n, h": "of the instance", "s, s_1, c, c_1": "TwoClientPull's"},
    ),
    statement(
        "without-similarity",
        "neither strong convexity nor similar gradients",
        "poster, Motivation: 'without relying on strong convexity nor on gradient similarity assumptions'",
        form(
            "as quoted", r"\text{Theorem 1 assumes neither}", None, "open", wording="in words",
            note="true of the theorem as repaired: it asks for convex f_i with subgradients of at most G_i on the "
            "ball, and for nothing "
            "else; theorem-1 [repaired] is judged on losses without any strong convexity and on clients that pull apart. What unlike "
            "clients cost stands in G, the root mean square of the G_i, which is the longer the less their subgradients cancel",
        ),
        kind="claim", scope="claims", assumptions=ASSUMPTIONS, symbols=SYMBOLS,
        shown_by="fedtheory verify fedmls/theorem-1 --problem two-client-pull",
    ),
    statement(
        "communication-time",
        "a substantial reduction in communication time",
        "poster, Motivation: 'a substantial reduction in the communication time compared to existing algorithms'",
        form(
            "as quoted", r"\text{rounds of FedMLS}\ll\text{rounds of existing algorithms}", None, "open", wording="in words",
            note="an experiment, whose data, competitors and step sizes the poster does not say: it cannot be proved or refuted here. "
            "`fedtheory rates` measures rounds and local steps on five instances; there a tuned subgradient step, or "
            "a step that is held "
            "and then cut, needs fewer rounds than FedMLS on some (docs/fedmls_rates.md)",
        ),
        kind="claim", scope="claims", assumptions=ASSUMPTIONS, symbols=SYMBOLS, shown_by="fedtheory rates",
    ),
)  # fmt: skip
