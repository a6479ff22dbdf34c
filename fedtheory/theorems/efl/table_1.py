"""EFL, Table 1: its row against SCAFFOLD's and MIME's; and the accuracy, which is only claimed."""

from fractions import Fraction
from typing import Any

from fedtheory.theorems.efl import table_1_world as on
from fedtheory.theorems.efl.notation import FLIPPED
from fedtheory.theorems.efl.paper import paper
from fedtheory.theory import Sides, form, le, printed, repaired


def _against(v: on.RatesView, other: str, scale: Any = 1) -> Sides:
    return le(v.row("EFL", scale), v.row(other, scale))


@paper.statement(
    "table-1-scaffold", over=on.RatesView, title="EFL's row against SCAFFOLD's",
    source="Table 1, section 3.2 (EFL improves the optimisation term)",
    assumptions=("0 < mu <= L, and G, S, epsilon > 0; orders are compared as printed, with the "
    "constant 1",),
)
def table_1_scaffold(q):
    """Both rows, where either is the smaller one, and in other units."""
    yield printed(
        lambda: _against(q, "SCAFFOLD"), fails=True,
        note="only part of the parameters: false wherever G < L (1 - sqrt(epsilon))",
    )
    yield repaired(
        lambda: _against(q, "SCAFFOLD"), FLIPPED, after=r"\text{ where }G\ge L(1-\sqrt\epsilon)",
        holds=True, needs=(on.LARGE_G,),
        proof="G^2/(mu S epsilon) cancels; times mu sqrt(epsilon) it is L <= G + L sqrt(epsilon)",
    )
    yield form(
        "repaired, converse", lambda: le(q.row("SCAFFOLD"), q.row("EFL")), FLIPPED,
        after=r"\text{ where }G<L(1-\sqrt\epsilon)", holds=True, needs=(on.SMALL_G,),
        proof="G^2/(mu S epsilon) cancels; times mu sqrt(epsilon) it is L <= G + L sqrt(epsilon)",
    )
    yield form(
        "for the loss times a constant", lambda: _against(q, "SCAFFOLD", Fraction(1, 2)),
        after=r"\text{ for }F/4\text{ where }G\ge L(1-\sqrt\epsilon)\text{ for }F", fails=True,
        needs=(on.LARGE_G,),
        note="G, L, mu, delta and epsilon all scale with the loss, the rows do not scale alike: "
        "the comparison depends on units (a factor of the distance to the optimum or of sqrt(L) "
        "was left out in print)",
    )


@paper.statement(
    "table-1-mime", over=on.RatesView, title="EFL's row against MIME's",
    source="Table 1, section 3.2 (a tighter bound than the mu-strongly convex methods)",
    assumptions=("0 < mu <= L, and G, S, epsilon, delta > 0; orders are compared as printed, with "
    "the constant 1",),
)
def table_1_mime(q):
    """Both rows, and where either is the smaller one."""
    yield printed(
        lambda: _against(q, "MIME"), fails=True,
        note="false for every epsilon < 1 with delta <= L, and a Hessian dissimilarity of convex "
        "losses is at most L",
    )
    yield repaired(
        lambda: _against(q, "MIME"), FLIPPED, after=r"\text{ where }\delta\ge L/\sqrt\epsilon",
        holds=True, needs=(on.LARGE_DELTA,),
        proof="G^2/(mu S epsilon) cancels, and L/sqrt(epsilon) <= delta is the condition",
    )
    yield form(
        "repaired, converse", lambda: le(q.row("MIME"), q.row("EFL")), FLIPPED,
        after=r"\text{ where }\delta\le L,\ \epsilon<1", holds=True, needs=(on.SMALL_DELTA,),
        proof="G^2/(mu S epsilon) cancels, and delta <= L < L/sqrt(epsilon)",
    )


paper.claim(
    "claim-accuracy", "accuracy on MNIST, CIFAR100, Sentiment140 and Shakespeare",
    r"\text{test accuracy of deep networks}", source="Table 2 and Figures 1 to 3",
    note="an experiment on deep networks, not a statement about the algorithm. The command trains "
    "small networks on scikit-learn's digits; without --quick, and with --data, it trains the "
    "paper's on the published files",
    shown_by="fedtheory bench efl-table2 --quick",
)
