"""Orders of rounds, local steps, projections and linear minimisations.

The O(...) of the papers with their constants.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

from fedtheory.algorithms.fedmls import FedMLS, fewest_rounds, local_steps, printed_rounds
from fedtheory.errors import InvalidInput
from fedtheory.rational import simplest
from fedtheory.theorems.fedmls.letters import ORDERS
from fedtheory.theorems.fedmls.notation import PRINTED_COUNTS
from fedtheory.theorems.fedmls.of_files import InFractions, entry
from fedtheory.theorems.fedmls.paper import paper
from fedtheory.theorems.fedmls.requests import Asked
from fedtheory.theory import Fact, derived, form, le, method, number, word, wrong

# what a form needs of an instance
FEWEST_COUNTS = Fact(
    "K >= 2 is the least with K(K+1) >= 36 G^2 D-tilde/epsilon^2", lambda q: q.rounds == "fewest"
)

MOST_REACH = Fraction(1000, 3)  # so that the rounds can be counted one by one
PLAN = r",\quad\lambda=\epsilon/G^2,\ \tilde D=\|x_0-x^*\|^2,\ P=G^2\tilde D/\epsilon^2"
PRINTED = PLAN + r",\ K=\lceil\sqrt{72P}\rceil\ge2"
FEWEST = PLAN + r",\ K(K+1)\ge36P\text{ least, }K\ge2"
HALF = Fraction(1, 2)
COUNTED = "docs/fedmls.md#the-orders-of-theorem-2"
SANDWICH = "with the form beside it: epsilon^2 sum T_k/((4G^2+sigma^2) D) tends to "
ASSUMPTIONS = ("lambda, D-tilde, K and T_k are Theorem 2's for the accuracy epsilon, and K >= 2",)
SYMBOLS = {
    "P": "OrdersView.product", "K": "FedMLS.rounds, of printed_rounds or fewest_rounds",
    "T_k": "FedMLS.steps(k)", "G, sigma, epsilon, D-tilde": "fedmls_parameters(...)",
}


@dataclass
class OrdersView(InFractions, Asked):
    """Theorem 2's rounds and local steps for one accuracy, in fractions.

    Attributes
    ----------
    product : G^2 D-tilde/epsilon^2
    noise : sigma^2/G^2
    rounds : 'printed' (K = ceil(sqrt(72 product))) or 'fewest' (the least K with
        K(K+1) >= 36 product)
    K : that number
    total : sum_k T_k over k = 1..K
    """

    product: Fraction
    noise: Fraction
    rounds: str
    K: int
    total: int

    kind, family, scope, letters = "orders", "Theorem 2's counts", "counts", ORDERS
    about = "about Theorem 2's K and T_k, whatever the data"
    count = 16
    reads: ClassVar = {
        "reach": number(what="G ||x_0 - x*||/epsilon", above=0, most=MOST_REACH),
        "sigma": number(what="sigma/G", least=0), "rounds": word("printed", "fewest"),
    }  # fmt: skip
    fixed = (
        ("the printed K", {"reach": "40", "sigma": "1", "rounds": "printed"}),
        ("K_min", {"reach": "40", "sigma": "1", "rounds": "fewest"}),
    )

    unit = derived(lambda q: (4 + q.noise) * q.product, "(4 G^2 + sigma^2) D-tilde/epsilon^2")

    def entry(self, value: Any) -> Any:
        """A number as a side, in fractions."""
        return entry(Fraction(value))

    # --- instances --------------------------------------------------------------------------------
    @classmethod
    def made(cls, reach: Fraction, sigma: Fraction, rounds: str) -> Self:
        """Count the rounds and the local steps, one by one."""
        K = (printed_rounds if rounds == "printed" else fewest_rounds)(1, 1, reach)
        if K < 2:
            raise InvalidInput(
                f"reach = {reach}: Theorem 2 has K = {K} rounds there; the orders are about "
                "K >= 2, ask for a larger reach"
            )
        total = sum(local_steps(k, 1, reach**2, K, 1, sigma) for k in range(1, K + 1))
        return cls(reach**2, sigma**2, rounds, K, total)

    @classmethod
    def draw(cls, rng: Any) -> tuple[str, dict[str, Any]]:
        """Draw a reach below 120, a noise up to 2 and either plan."""
        reach = Fraction(int(rng.integers(1, 120)), int(rng.choice([1, 2, 3])))
        sigma, rounds = Fraction(int(rng.integers(0, 9)), 4), str(rng.choice(["printed", "fewest"]))
        return f"reach={reach}", {"reach": reach, "sigma": sigma, "rounds": rounds}

    @classmethod
    def on_problem(cls, statement: str, case: Any) -> Self:
        """Count for the accuracy that a user's FedMLS is made for, lambda = epsilon/G^2."""
        a = case.algorithm
        reach = math.sqrt(float(a.D)) / (float(a.lam) * float(a.lipschitz))
        sigma = float(a.sigma) / float(a.lipschitz)
        rounds = "fewest" if statement.endswith("mopes-calls") else "printed"
        return cls.from_data({"reach": simplest(reach), "sigma": simplest(sigma), "rounds": rounds})


def rounds_above(q, constant):
    """Sides of (K - 1)^2 <= constant P."""
    return le(q.entry((q.K - 1) ** 2), q.entry(constant * q.product))


def rounds_below(q, constant):
    """Sides of constant P <= K^2."""
    return le(q.entry(constant * q.product), q.entry(q.K**2))


def printed_above(q, constant):
    """Sides of the bound on sum T_k with the printed K, whose leading term is constant unit."""
    share = q.K**2 * (q.K + 1) * (q.K + HALF) * constant / (q.K - 1) ** 4
    return le(
        q.entry(q.total), q.entry(share * q.unit), q.entry(18 * q.K * q.unit / (q.K - 1) ** 2)
    )


def printed_below(q, constant):
    """Sides of constant unit <= sum T_k."""
    return le(q.entry(constant * q.unit), q.entry(q.total))


def fewest_above(q, constant):
    """Sides of the bound on sum T_k with the fewest K, whose leading term is constant unit."""
    share = (q.K + 1) * (q.K + HALF) * constant / (q.K - 1) ** 2
    return le(q.entry(q.total), q.entry(share * q.unit), q.entry(9 * q.unit / (q.K - 1)))


def fewest_below(q, constant):
    """Sides of constant unit <= sum T_k + 3 (4 + sigma^2/G^2) K."""
    return le(q.entry(constant * q.unit), q.entry(q.total), q.entry((4 + q.noise) * q.K * 3))


def counted(name, q, sides, constant, tenths, of, **more):
    """A form that holds with a constant, and is wrong with ``tenths`` of it."""
    changed = Fraction(constant * tenths, 10)
    return form(
        name, lambda: sides(q, constant), "",
        wrong(f"{float(changed):g} for {constant}", lambda: sides(q, changed)),
        holds=True, proof=COUNTED, **of, **more,
    )


@paper.statement(
    "theorem-2-orders", about=method(FedMLS), over=OrdersView,
    source="Theorem 2: 'of order O(G sqrt(D)/epsilon) communication rounds', 'sum T_k is "
    "O((4G^2+sigma^2) D/epsilon^2)'", assumptions=ASSUMPTIONS, symbols=SYMBOLS,
)
def theorem_2_orders(q):
    """the orders of Theorem 2, with their constants"""
    of = {"after": PRINTED, "needs": (PRINTED_COUNTS,)}
    yield counted(
        "local training rounds", q, printed_above, 864, 9, of, wording="in words",
        note=SANDWICH + "864 as epsilon tends to 0, and the order that is printed is the right "
        "one. Proof: T_k < a k^2 + 1 with a = (4+sigma^2/G^2) K/(2P), and P > (K-1)^2/72",
    )
    yield counted(
        "local training rounds, from below", q, printed_below, 864, 11, of,
        note="a K(K+1)(2K+1)/6 >= (4+sigma^2/G^2) K^4/(6P), and K^2 >= 72P",
    )
    yield counted(
        "communication rounds", q, rounds_above, 72, 9, of, wording="in words",
        note="K < 6 sqrt(2) G sqrt(D)/epsilon + 1",
    )
    yield counted(
        "communication rounds, from below", q, rounds_below, 72, 11, of,
        note="with the form above epsilon K/(G sqrt(D)) tends to 6 sqrt(2)",
    )


@paper.statement(
    "mopes-calls", about=method(FedMLS), over=OrdersView,
    source="Thekumparampil et al. 2020, abstract: 'O(epsilon^-1) PO calls and optimal "
    "O(epsilon^-2) FO calls'; the constants are ours", assumptions=ASSUMPTIONS, symbols=SYMBOLS,
)
def mopes_calls(q):
    """projections and subgradients of MOPES to accuracy epsilon"""
    of = {"after": FEWEST, "needs": (FEWEST_COUNTS,)}
    yield counted(
        "projections", q, rounds_above, 36, 9, of, wording="in words",
        note="one projection a round, so that K < 6 G sqrt(D)/epsilon + 1 of them lead to "
        "epsilon (mopes-bound)",
    )
    yield counted(
        "subgradients", q, fewest_above, 216, 9, of, wording="in words",
        note=SANDWICH + "216, a quarter of what the printed K of Theorem 2 costs: K_min is "
        "1/sqrt(2) of it, and the sum grows like K^4. Proof: P > K(K-1)/36",
    )
    yield counted(
        "subgradients, from below", q, fewest_below, 216, 11, of,
        note="with q = K(K+1)/P >= 36 the sum is at least (4+sigma^2/G^2)(P q^2/6 - K q/12), "
        "which grows with q",
    )
