"""How many rounds, local steps, projections and linear minimisations it takes: the O(...) of the papers with their constants."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from fedtheory.theorems.fedmls.letters import ORDERS as LETTERS
from fedtheory.theorems.fedmls.notation import statement
from fedtheory.theorems.fedmls.views import FEWEST_COUNTS, PRINTED_COUNTS, OrdersView
from fedtheory.verification.closed import closed
from fedtheory.verification.statement import Sides, le

__all__ = ["ORDERS"]

PLAN = r"\lambda=\epsilon/G^2,\ \tilde D=\|x_0-x^*\|^2,\ P=G^2\tilde D/\epsilon^2"
PRINTED, FEWEST = (r",\quad" + PLAN + K for K in (r",\ K=\lceil\sqrt{72P}\rceil\ge2", r",\ K(K+1)\ge36P\text{ least, }K\ge2"))
HALF = Fraction(1, 2)
COUNTED = "docs/fedmls.md#the-orders-of-theorem-2"
ASSUMPTIONS = ("lambda, D-tilde, K and T_k are Theorem 2's for the accuracy epsilon, and K >= 2",)
SYMBOLS = {
    "P": "OrdersView.product", "K": "FedMLS.rounds, of printed_rounds or fewest_rounds", "T_k": "FedMLS.steps(k)",
    "G, sigma, epsilon, D-tilde": "fedmls_parameters(...)",
}  # fmt: skip


def _rounds_above(v: OrdersView, constant: Any) -> Sides:
    return le(v.entry((v.K - 1) ** 2), v.entry(constant * v.product))


def _rounds_below(v: OrdersView, constant: Any) -> Sides:
    return le(v.entry(constant * v.product), v.entry(v.K**2))


def _printed_above(v: OrdersView, constant: Any = 864) -> Sides:
    share = v.K**2 * (v.K + 1) * (v.K + HALF) * constant / (v.K - 1) ** 4
    return le(v.entry(v.total), v.entry(share * v.unit), v.entry(18 * v.K * v.unit / (v.K - 1) ** 2))


def _printed_below(v: OrdersView, constant: Any = 864) -> Sides:
    return le(v.entry(constant * v.unit), v.entry(v.total))


def _fewest_above(v: OrdersView, constant: Any = 216) -> Sides:
    share = (v.K + 1) * (v.K + HALF) * constant / (v.K - 1) ** 2
    return le(v.entry(v.total), v.entry(share * v.unit), v.entry(9 * v.unit / (v.K - 1)))


def _fewest_below(v: OrdersView, constant: Any = 216) -> Sides:
    return le(v.entry(constant * v.unit), v.entry(v.total), v.entry((4 + v.noise) * v.K * 3))


def _tenth(sides: Any, constant: int, up: bool) -> tuple[str, Any]:
    changed = Fraction(constant * (11 if up else 9), 10)
    return f"{float(changed):g} for {constant}", lambda v: sides(v, changed)


SANDWICH = "with the form beside it: epsilon^2 sum T_k/((4G^2+sigma^2) D) tends to "

ORDERS = (
    statement(
        "theorem-2-orders",
        "the orders of Theorem 2, with their constants",
        "Theorem 2: 'of order O(G sqrt(D)/epsilon) communication rounds', 'sum T_k is O((4G^2+sigma^2) D/epsilon^2)'",
        closed(
            "local training rounds", LETTERS, _printed_above, "holds", _tenth(_printed_above, 864, False),
            after=PRINTED, kind="orders", needs=(PRINTED_COUNTS,), wording="in words",
            note=SANDWICH + "864 as epsilon tends to 0, and the order that is printed is the right one. Proof: T_k < a k^2 + 1 with "
            "a = (4+sigma^2/G^2) K/(2P), and P > (K-1)^2/72",
            proof=COUNTED,
        ),
        closed(
            "local training rounds, from below", LETTERS, _printed_below, "holds", _tenth(_printed_below, 864, True),
            after=PRINTED, kind="orders", needs=(PRINTED_COUNTS,),
            note="a K(K+1)(2K+1)/6 >= (4+sigma^2/G^2) K^4/(6P), and K^2 >= 72P",
            proof=COUNTED,
        ),
        closed(
            "communication rounds", LETTERS, lambda v: _rounds_above(v, 72), "holds", _tenth(_rounds_above, 72, False),
            after=PRINTED, kind="orders", needs=(PRINTED_COUNTS,),
            wording="in words", note="K < 6 sqrt(2) G sqrt(D)/epsilon + 1",
            proof=COUNTED,
        ),
        closed(
            "communication rounds, from below", LETTERS, lambda v: _rounds_below(v, 72), "holds", _tenth(_rounds_below, 72, True),
            after=PRINTED, kind="orders", needs=(PRINTED_COUNTS,),
            note="with the form above epsilon K/(G sqrt(D)) tends to 6 sqrt(2)",
            proof=COUNTED,
        ),
        scope="counts", assumptions=ASSUMPTIONS, symbols=SYMBOLS,
    ),
    statement(
        "mopes-calls",
        "projections and subgradients of MOPES to accuracy epsilon",
        "Thekumparampil et al. 2020, abstract: 'O(epsilon^-1) PO calls and optimal O(epsilon^-2) FO calls'; the constants are ours",
        closed(
            "projections", LETTERS, lambda v: _rounds_above(v, 36), "holds", _tenth(_rounds_above, 36, False),
            after=FEWEST, kind="orders", needs=(FEWEST_COUNTS,),
            wording="in words", note="one projection a round, so that K < 6 G sqrt(D)/epsilon + 1 of them lead to "
            "epsilon (mopes-bound)",
            proof=COUNTED,
        ),
        closed(
            "subgradients", LETTERS, _fewest_above, "holds", _tenth(_fewest_above, 216, False),
            after=FEWEST, kind="orders", needs=(FEWEST_COUNTS,), wording="in words",
            note=SANDWICH + "216, a quarter of what the printed K of Theorem 2 costs: K_min is 1/sqrt(2) of it, and "
            "the sum grows like K^4. "
            "Proof: P > K(K-1)/36",
            proof=COUNTED,
        ),
        closed(
            "subgradients, from below", LETTERS, _fewest_below, "holds", _tenth(_fewest_below, 216, True),
            after=FEWEST, kind="orders", needs=(FEWEST_COUNTS,),
            note="with q = K(K+1)/P >= 36 the sum is at least (4+sigma^2/G^2)(P q^2/6 - K q/12), which grows with q",
            proof=COUNTED,
        ),
        scope="counts", assumptions=ASSUMPTIONS, symbols=SYMBOLS,
    ),
)  # fmt: skip
