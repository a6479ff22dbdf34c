"""How many rounds, local steps, projections and linear minimisations it takes: the O(...) of the papers with their constants."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from fedtheory.theorems.fedmls.notation import statement
from fedtheory.theorems.fedmls.views import OrdersView, entry
from fedtheory.verification.statement import Sides, form, le

__all__ = ["ORDERS"]

PLAN = r"\lambda=\epsilon/G^2,\ \tilde D=\|x_0-x^*\|^2,\ P=G^2\tilde D/\epsilon^2"
PRINTED_K, FEWEST_K = r",\ K=\lceil\sqrt{72P}\rceil\ge2", r",\ K(K+1)\ge36P\text{ least, }K\ge2"
ASSUMPTIONS = ("lambda, D-tilde, K and T_k are Theorem 2's for the accuracy epsilon, and K >= 2",)
SYMBOLS = {
    "P": "OrdersView.product", "K": "FedMLS.rounds, of printed_rounds or fewest_rounds", "T_k": "FedMLS.steps(k)",
    "G, sigma, epsilon, D-tilde": "fedmls_parameters(...)",
}  # fmt: skip


def _rounds_above(v: OrdersView, constant: Any) -> Sides:
    """(K - 1)^2 <= constant P."""
    return le(entry(Fraction((v.K - 1) ** 2)), entry(constant * v.product))


def _rounds_below(v: OrdersView, constant: Any) -> Sides:
    return le(entry(constant * v.product), entry(Fraction(v.K**2)))


def _printed_above(v: OrdersView, constant: Any = 864) -> Sides:
    """sum T_k <= (4G^2 + sigma^2) D/epsilon^2 [constant (K^2(K+1)(K+1/2))/(K-1)^4 + 18K/(K-1)^2]."""
    K = Fraction(v.K)
    share = constant * K**2 * (K + 1) * (K + Fraction(1, 2)) / (K - 1) ** 4
    return le(entry(Fraction(v.total)), entry(v.unit * share), entry(v.unit * 18 * K / (K - 1) ** 2))


def _printed_below(v: OrdersView, constant: Any = 864) -> Sides:
    return le(entry(constant * v.unit), entry(Fraction(v.total)))


def _fewest_above(v: OrdersView, constant: Any = 216) -> Sides:
    """sum T_k <= (4G^2 + sigma^2) D/epsilon^2 [constant (K+1)(K+1/2)/(K-1)^2 + 9/(K-1)]."""
    K = Fraction(v.K)
    share = constant * (K + 1) * (K + Fraction(1, 2)) / (K - 1) ** 2
    return le(entry(Fraction(v.total)), entry(v.unit * share), entry(v.unit * 9 / (K - 1)))


def _fewest_below(v: OrdersView, constant: Any = 216) -> Sides:
    """constant (4G^2 + sigma^2) D/epsilon^2 - 3 (4 + sigma^2/G^2) K <= sum T_k."""
    return le(entry(constant * v.unit), entry(Fraction(v.total)), entry(3 * (4 + v.noise) * v.K))


def _tenth(sides: Any, constant: int, up: bool) -> tuple[str, Any]:
    changed = Fraction(constant * (11 if up else 9), 10)
    return f"{float(changed):g} for {constant}", lambda v: sides(v, changed)


UNIT = r"\tfrac{(4G^2+\sigma^2)\tilde D}{\epsilon^2}"
SANDWICH = "with the form beside it: epsilon^2 sum T_k/((4G^2+sigma^2) D) tends to "

ORDERS = (
    statement(
        "theorem-2-orders",
        "the orders of Theorem 2, with their constants",
        "Theorem 2: 'of order O(G sqrt(D)/epsilon) communication rounds', 'sum T_k is O((4G^2+sigma^2) D/epsilon^2)'",
        form(
            "local training rounds",
            r"\sum_{k\le K}T_k\le" + UNIT + r"\Big[864\tfrac{K^2(K+1)(K+\frac12)}{(K-1)^4}+\tfrac{18K}{(K-1)^2}\Big],"
            r"\quad" + PLAN + PRINTED_K,
            _printed_above, "holds", _tenth(_printed_above, 864, False), kind="orders", needs=("printed",), wording="in words",
            note=SANDWICH + "864 as epsilon tends to 0, and the order that is printed is the right one. Proof: T_k < a k^2 + 1 with "
            "a = (4+sigma^2/G^2) K/(2P), and P > (K-1)^2/72",
        ),
        form(
            "local training rounds, from below", r"864\," + UNIT + r"\le\sum_{k\le K}T_k,\quad" + PLAN + PRINTED_K,
            _printed_below, "holds", _tenth(_printed_below, 864, True), kind="orders", needs=("printed",),
            note="a K(K+1)(2K+1)/6 >= (4+sigma^2/G^2) K^4/(6P), and K^2 >= 72P",
        ),
        form(
            "communication rounds", r"(K-1)^2\le72\,\tfrac{G^2\tilde D}{\epsilon^2},\quad" + PLAN + PRINTED_K,
            lambda v: _rounds_above(v, 72), "holds", _tenth(_rounds_above, 72, False), kind="orders", needs=("printed",),
            wording="in words", note="K < 6 sqrt(2) G sqrt(D)/epsilon + 1",
        ),
        form(
            "communication rounds, from below", r"72\,\tfrac{G^2\tilde D}{\epsilon^2}\le K^2,\quad" + PLAN + PRINTED_K,
            lambda v: _rounds_below(v, 72), "holds", _tenth(_rounds_below, 72, True), kind="orders", needs=("printed",),
            note="with the form above epsilon K/(G sqrt(D)) tends to 6 sqrt(2)",
        ),
        scope="counts", assumptions=ASSUMPTIONS, symbols=SYMBOLS,
    ),
    statement(
        "mopes-calls",
        "projections and subgradients of MOPES to accuracy epsilon",
        "Thekumparampil et al. 2020, abstract: 'O(epsilon^-1) PO calls and optimal O(epsilon^-2) FO calls'; the constants are ours",
        form(
            "projections", r"(K-1)^2\le36\,\tfrac{G^2\tilde D}{\epsilon^2},\quad" + PLAN + FEWEST_K,
            lambda v: _rounds_above(v, 36), "holds", _tenth(_rounds_above, 36, False), kind="orders", needs=("fewest",),
            wording="in words", note="one projection a round, so that K < 6 G sqrt(D)/epsilon + 1 of them lead to "
            "epsilon (mopes-bound)",
        ),
        form(
            "subgradients", r"\sum_{k\le K}T_k\le" + UNIT + r""
            r"\Big[216\tfrac{(K+1)(K+\frac12)}{(K-1)^2}+\tfrac9{K-1}\Big],\quad" + PLAN + FEWEST_K,
            _fewest_above, "holds", _tenth(_fewest_above, 216, False), kind="orders", needs=("fewest",), wording="in words",
            note=SANDWICH + "216, a quarter of what the printed K of Theorem 2 costs: K_min is 1/sqrt(2) of it, and "
            "the sum grows like K^4. "
            "Proof: P > K(K-1)/36",
        ),
        form(
            "subgradients, from below", r"216\," + UNIT + r"-3\big(4+\tfrac{\sigma^2}{G^2}\big)K\le\sum_{k\le K}T_k,"
            r"\quad" + PLAN + FEWEST_K,
            _fewest_below, "holds", _tenth(_fewest_below, 216, True), kind="orders", needs=("fewest",),
            note="K(K+1) >= 36P twice in K^2 (K+1)(2K+1)",
        ),
        scope="counts", assumptions=ASSUMPTIONS, symbols=SYMBOLS,
    ),
)  # fmt: skip
