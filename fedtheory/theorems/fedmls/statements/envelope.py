"""Moreau's envelope: what the minimum and the minimiser of Psi, the regularised problem, say of F."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from fedtheory.theorems.fedmls.notation import statement
from fedtheory.theorems.fedmls.views import EnvelopeView, entry
from fedtheory.verification.statement import Sides, form, le

__all__ = ["ENVELOPE"]

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
ASSUMPTIONS = (
    "every f_i is convex, and no subgradient on X' is longer than G_i; G^2 = (1/N) sum_i G_i^2",
    "X is closed, convex and in X'; Psi has a minimiser (x^, u^) over x in X, u_i in X'",
)
SYMBOLS = {
    "Psi(x, u)": "(1/N) sum_i [f_i(u_i) + ||x - u_i||^2/(2 lambda)]", "x^": "the x-part of a minimiser of Psi",
    "F*, F(x^)": "EnvelopeView.F_star, EnvelopeView.F_at", "Psi*": "EnvelopeView.psi_star",
}  # fmt: skip


def _from_below(v: EnvelopeView, share: Any = HALF) -> Sides:
    return le(entry(v.F_star), entry(v.psi_star), entry(share * v.lam * v.G_sq))


def _from_above(v: EnvelopeView, less: Any = Fraction(0)) -> Sides:
    return le(entry(v.psi_star), entry(v.F_star), entry(-less * v.lam * v.G_sq))


def _at_minimiser(v: EnvelopeView, share: Any = QUARTER) -> Sides:
    return le(entry(v.F_at), entry(v.F_star), entry(share * v.lam * v.G_sq))


ENVELOPE = (
    statement(
        "moreau-envelope",
        "the minimum of Psi against the minimum of F",
        "poster, eq. (2): 'a regularized Equation (1)'; ours: what it says of eq. (1)",
        form(
            "the same minimiser",
            r"(\hat x,\hat u)\in\arg\min\Psi\ \Rightarrow\ F(\hat x)=\min_XF",
            lambda v: le(entry(v.F_at), entry(v.F_star)),
            "violated",
            kind="envelope",
            note="the poster does not say so; it says why lambda must fall with epsilon: minimising Psi exactly does not minimise F",
        ),
        form(
            "Psi from below", r"\min_XF\le\min\Psi+\tfrac{\lambda G^2}2", _from_below, "holds",
            ("0.45 for 1/2", lambda v: _from_below(v, Fraction(9, 20))), kind="envelope",
            note="f(u) >= f(x) - G ||x - u||, and -G r + r^2/(2 lambda) >= -lambda G^2/2; attained by f = G u on X = [0, 1]",
            proof="note",
        ),
        form(
            "Psi from above", r"\min\Psi\le\min_XF", _from_above, "holds",
            ("a tenth of lambda G^2 less", lambda v: _from_above(v, Fraction(1, 10))), kind="envelope",
            note="u_i = x; attained where all f_i have the minimiser in common",
            proof="note",
        ),
        form(
            "F at Psi's minimiser", r"F(\hat x)-\min_XF\le\tfrac{\lambda G^2}4", _at_minimiser, "holds",
            ("0.225 for 1/4", lambda v: _at_minimiser(v, Fraction(9, 40))), kind="envelope",
            note="with v_i = (x^ - u_i)/lambda a subgradient of f_i at u_i: F* >= F(u) + lambda mean ||v||^2, and "
            "f_i(x^) <= f_i(u_i) + lambda G_i ||v_i||; G r - r^2 <= G^2/4. No smaller constant will do: two clients "
            "in the plane come as near as one likes",
            proof="note",
        ),
        scope="envelope", assumptions=ASSUMPTIONS, symbols=SYMBOLS,
    ),
)  # fmt: skip
