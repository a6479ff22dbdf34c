"""EFL, Table 1: its own row against the rounds that EFL needs, and against the rows of others.

The accuracy is only claimed.
"""

from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fedtheory.theorems.efl import table_1_world as on
from fedtheory.theorems.efl.notation import FLIPPED
from fedtheory.theorems.efl.paper import paper
from fedtheory.theorems.efl.quantities.run import UNCORRELATED, EFLRun
from fedtheory.theorems.efl.runs_world import Runs
from fedtheory.theorems.efl.theorem_1 import ASSUMPTIONS
from fedtheory.theory import Sides, eq, form, le, printed, repaired, wrong

OWN_ROW = "docs/efl_claims.md#efls-own-row-of-table-1"
_ROW = r"T\le K\big(\frac{G^2}{\mu S\epsilon}+\frac L{\mu\sqrt\epsilon}\big)"
_ANY = "for every K there is such a problem, so that no constant before the row saves it"
_EFL = r"\frac{G^2}{\mu S\epsilon}+\frac L{\mu\sqrt\epsilon}\le"


def _scaling(v: on.RowView, power: int = 2) -> Sides:
    """In units c = 1/3, s = 1/2: the number of rounds, and both terms of the row."""
    c, s = Fraction(1, 3), Fraction(1, 2)
    other, (first, second) = v.in_units(c, s), v.terms
    expected = (first, second / c) if v.loss else (c**2 * s**power * first, s * second)
    return eq(np.array([other.needed, *other.terms], dtype=object), np.array([v.needed, *expected], dtype=object))


def _least(v: on.RowView, less: int = 15, power: int = 32) -> Sides:
    """((gamma - 15)/(gamma - 15 + T))^32 w_0^2 <= ||w_T||^2 along the flattest coordinate, T = 1..needed."""
    at, flat = v.gamma - less, int(np.argmin(v.h))
    T = np.arange(1, v.needed + 1) + 0 * v.gamma
    return le((at / (at + T)) ** power * v.start[flat] ** 2, (v.path[1:] ** 2).sum(axis=1))


def _suffices(v: EFLRun, distance: Any = 1, rest: Any = 1) -> Sides:
    """E||w_T - w*||^2 <= max{512 max_t E[B+_t]/S_t^2/(mu^2 T), 2 gamma^2 ||w_0 - w*||^2/(T E)^2} + H_T J/(T E + gamma)."""
    v = replace(v, horizons=v.horizons[v.horizons > 0])
    c, T = v.constants, v.horizons + 0 * v.constants.mu
    b = (c.B_sharp / c.S**2).max()
    reached = np.maximum(rest * 512 * b / (c.mu**2 * T), distance * 2 * c.gamma**2 * c.start_sq / (T * c.E) ** 2)
    return le(v.lhs, v.column(reached), v.column(c.H()[v.horizons] * c.J / c.y[v.horizons]), noise=v.noise)


def _orders(v: on.UnitsView) -> Sides:
    """EFL's row is smaller where the loss is times low^2, VRL-SGD's where times high^2."""
    own, theirs = v.terms, v.row("VRL-SGD")
    low, high = min(Fraction(1), theirs / sum(own)), max(Fraction(1), theirs / own[0])
    pairs = [(v.row("EFL", low), v.row("VRL-SGD", low)), (v.row("VRL-SGD", high), v.row("EFL", high))]
    lhs, rhs = (np.array(side, dtype=object) for side in zip(*pairs, strict=True))
    return le(lhs, rhs)


def _powers(v: on.UnitsView, power: int = -2) -> Sides:
    """The loss times a = 4: what becomes of each row."""
    scale, a = 2, Fraction(4)
    (first, second), epsilon = v.terms, v.root**2
    fedamp = (v.G**2 / (v.L * v.S * epsilon), v.G / (epsilon * v.root), v.L**2 / v.root)
    expected = (first + second / scale, a**power * v.row("VRL-SGD"), fedamp[0] / a + fedamp[1] / a**2 + a * fedamp[2])
    return eq(np.array([v.row(n, scale) for n in ("EFL", "VRL-SGD", "FedAMP")], dtype=object), np.array(expected, dtype=object))


@paper.statement(
    "table-1-row", over=on.RowView, title="EFL's own row of Table 1",
    source="Table 1, section 3.2 (the required number of communication rounds)",
    assumptions=ASSUMPTIONS,
)
def table_1_row(q):
    """The rounds that EFL needs against its row, in several units."""
    yield printed(
        lambda: le(q.needed + 0 * q.K, *(q.K * term for term in q.terms)),
        _ROW + r"\text{ rounds until }\mathbb E\|\omega_T-\omega^*\|^2\le\epsilon", fails=True,
        needs=(on.BY_DISTANCE,),
        note="in other units of w and of the loss the run is the same and the row as small as one "
        "likes: " + _ANY,
    )
    yield form(
        "printed, loss", lambda: le(q.needed + 0 * q.K, *(q.K * term for term in q.terms)),
        _ROW + r"\text{ rounds until }\mathbb EF(\omega_T)-F^*\le\epsilon", fails=True,
        needs=(on.BY_LOSS,),
        note="for c F with a large c only G^2/(mu S epsilon) is left, which does not know L/mu; "
        "Theorem 1's steps are of order 1/L at first, and need a number of rounds proportional to "
        "L/mu: " + _ANY,
    )
    yield form(
        "units", partial(_scaling, q),
        r"c^2F(s\,\cdot):\ T\text{ is the same; the terms are }c^2s^2\tfrac{G^2}{\mu "
        r"S\epsilon}\text{ and }\tfrac{sL}{\mu\sqrt\epsilon}\text{ by the distance, "
        r"}\tfrac{G^2}{\mu S\epsilon}\text{ and }\tfrac L{c\mu\sqrt\epsilon}\text{ by the loss}",
        wrong("c^2 s for c^2 s^2", power=1), holds=True, needs=(on.FAMILY,),
        proof="put c^2 s^2 h for the curvatures, w_0/s for the start and the new epsilon",
        note="a number of rounds has no unit, and the row has one",
    )
    yield form(
        "lower bound", partial(_least, q),
        r"\|\omega_T-\omega^*\|^2\ge\big(\tfrac{\gamma-15}{\gamma-15+T}\big)^{32}\omega_{0,1}^2,\ "
        r"\gamma=\tfrac{64L}\mu,\ \omega_{0,1}\text{ along the curvature }\mu",
        wrong("gamma - 14", less=14, power=30), wrong("power 28", less=15, power=28), holds=True,
        needs=(on.FAMILY,), proof=OWN_ROW,
        note="so that T >= (64 L/mu - 15)((omega_{0,1}^2/epsilon)^{1/32} - 1) rounds are needed",
    )
    yield repaired(
        partial(_suffices, q), r"T\ge\max\{\tfrac{512b}{\mu^2\epsilon},\tfrac\gamma "
        r"E\sqrt{\tfrac{2\|\omega_0-\omega^*\|^2}\epsilon}\}\Rightarrow\mathbb "
        r"E\|\omega_T-\omega^*\|^2\le\epsilon+\tfrac{H_TJ}{TE+\gamma},\ b=\max_t\tfrac{\mathbb "
        "E[B^+_t]}{S_t^2}", wrong("without b", rest=0), wrong("without the distance", distance=0),
        holds=True, over=Runs, needs=(UNCORRELATED,), proof=OWN_ROW,
        note="what follows from Theorem 1, sharpened: 1/mu^2 for 1/mu, the distance from the "
        "start, and gamma/E of order theta (E + L/mu)/S. Judged at the least epsilon for which T "
        "is enough",
    )


@paper.statement(
    "table-1-non-convex", over=on.UnitsView, title="EFL's row beside those of VRL-SGD and FedAMP",
    source="Table 1 (rows NC)",
    assumptions=("0 < mu <= L, and G, S, sigma, N, epsilon > 0; orders are compared as printed, "
    "with the constant 1",),
)
def table_1_non_convex(q):
    """EFL's row against those of VRL-SGD and FedAMP, in several units."""
    yield form(
        "VRL-SGD, for the loss times a constant", lambda: le(q.row("EFL", 2), q.row("VRL-SGD", 2)),
        _EFL + r"\frac{N\sigma^2}{S\epsilon^2}+\frac N\epsilon\text{ holds for }4F\text{ where it "
        "holds for }F", fails=True, needs=(on.BELOW_VRL_SGD,), wording="in words",
        note="these rows count rounds until a squared gradient is small, whose epsilon is "
        "multiplied by 16 where the loss is by 4: which row is the smaller is a matter of the unit",
    )
    yield form(
        "FedAMP, for the loss times a constant", lambda: le(q.row("EFL", 2), q.row("FedAMP", 2)),
        _EFL + r"\frac{G^2}{LS\epsilon}+\frac G{\epsilon^{3/2}}+\frac{L^2}{\sqrt\epsilon}\text{ "
        r"holds for }4F\text{ where it holds for }F", fails=True, needs=(on.BELOW_FEDAMP,),
        wording="in words",
    )
    yield repaired(
        lambda: _orders(q),
        r"\text{for }aF\text{ EFL's row is below VRL-SGD's for small }a,\text{ and above it for "
        "large }a", FLIPPED, holds=True,
        proof="docs/efl_claims.md#the-rows-of-the-non-convex-methods",
        note="at every point of the parameters: sqrt(a) = min{1, V/(A + B)} and max{1, V/A}, A + B "
        "EFL's row and V VRL-SGD's",
    )
    yield form(
        "units", partial(_powers, q),
        r"4F:\ \text{EFL }\tfrac{G^2}{\mu S\epsilon}+\tfrac L{2\mu\sqrt\epsilon},\ \text{VRL-SGD a "
        r"sixteenth},\ \text{FedAMP }\tfrac{G^2}{4LS\epsilon}+\tfrac "
        r"G{16\epsilon^{3/2}}+\tfrac{4L^2}{\sqrt\epsilon}",
        wrong("a quarter of VRL-SGD's", power=-1), holds=True,
        proof="put 4 G, 4 L, 4 mu, 4 sigma, and 4 times epsilon of the loss, 16 times that of the "
        "squared gradient",
    )


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
