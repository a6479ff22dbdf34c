"""EFL, Table 1: the rows as functions, what is claimed of them, where each is the smallest; and what is claimed but not provable here.

The rows are orders: constants and logarithms are left out in print, so that only the printed expressions are compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.theorems.efl.notation import BUILDERS, statement
from fedtheory.verification.rational import fraction, text
from fedtheory.verification.setting import ClosedView
from fedtheory.verification.statement import Sides, form, le

__all__ = ["ROWS", "STATEMENTS", "STRONGLY_CONVEX", "RatesView", "rounds", "smallest"]

STRONGLY_CONVEX = ("SCAFFOLD", "MIME", "EFL")
ROWS = (*STRONGLY_CONVEX, "VRL-SGD", "FedAMP")


def rounds(
    row: str, G: Any, L: Any, mu: Any, S: Any, root: Any, delta: Any = None, sigma: Any = None, clients: Any = None
) -> Any:
    """Table 1's number of rounds; arrays broadcast.

    Parameters
    ----------
    G, L, mu, S : of the assumptions; S clients take part in a round
    root : sqrt(epsilon)
    delta : Hessian dissimilarity (MIME)
    sigma, clients : noise and N (VRL-SGD)

    Raises
    ------
    InvalidInput
        A row that is not in the table.
    """
    epsilon = root * root
    if row == "SCAFFOLD":
        return G**2 / (mu * S * epsilon) + G / (mu * root) + L / mu
    if row == "MIME":
        return G**2 / (mu * S * epsilon) + delta / mu
    if row == "EFL":
        return G**2 / (mu * S * epsilon) + L / (mu * root)
    if row == "VRL-SGD":
        return clients * sigma**2 / (S * epsilon**2) + clients / epsilon
    if row == "FedAMP":
        return G**2 / (L * S * epsilon) + G / (epsilon * root) + L**2 / root
    raise InvalidInput(f"row = {row!r}: use one of {', '.join(ROWS)}")


def smallest(G: Any, L: Any, mu: Any, S: Any, root: Any, delta: Any) -> np.ndarray:
    """Index into `STRONGLY_CONVEX` of the smallest row (the first of equal ones), elementwise over broadcast arrays."""
    values = [rounds(row, G, L, mu, S, root, delta) for row in STRONGLY_CONVEX]
    shape = np.broadcast_shapes(*(np.shape(v) for v in values))
    return np.stack([np.broadcast_to(np.asarray(v, dtype=float), shape) for v in values]).argmin(axis=0)


@dataclass
class RatesView(ClosedView):
    """One point of the parameters; ``root`` is sqrt(epsilon), so that everything stays rational."""

    G: Any
    L: Any
    mu: Any
    S: Any
    root: Any
    delta: Any

    def __post_init__(self) -> None:
        facts = set()
        if self.G >= self.L * (1 - self.root):
            facts.add("G >= L (1 - sqrt(epsilon))")
        else:
            facts.add("G < L (1 - sqrt(epsilon))")
        if self.root * self.delta >= self.L:
            facts.add("delta >= L/sqrt(epsilon)")
        if self.delta <= self.L and self.root < 1:
            facts.add("delta <= L and epsilon < 1")
        self.facts = frozenset(facts)

    def row(self, name: str, scale: Any = 1) -> Any:
        """The row for the loss times ``scale``: G, L, mu, delta and epsilon are multiplied (``scale`` a square)."""
        a = scale * scale
        return rounds(name, a * self.G, a * self.L, a * self.mu, self.S, scale * self.root, a * self.delta)

    def printed_constants(self) -> dict[str, Any]:
        about = {k: text(getattr(self, k)) for k in ("G", "L", "mu", "S", "delta")}
        return {**about, "epsilon": text(self.root**2)}


@BUILDERS.add("rates")
def rates_view(data: dict[str, Any]) -> RatesView:
    """From G, L, mu, S, root (of epsilon) and delta. Raises `InvalidInput` unless 0 < mu <= L and the others are > 0."""
    G, L, mu, S, root, delta = (fraction(data[k], k) for k in ("G", "L", "mu", "S", "root", "delta"))
    if not 0 < mu <= L or min(G, S, root, delta) <= 0:
        raise InvalidInput("0 < mu <= L is needed, and G, S, epsilon and delta must be > 0")
    return RatesView(G, L, mu, S, root, delta)


def _against(v: RatesView, other: str, scale: Any = 1) -> Sides:
    return le(v.row("EFL", scale), v.row(other, scale))


def _claim(id: str, title: str, source: str, latex: str, note: str) -> Any:
    """A claim that is on record as open: nothing is run."""
    return statement(id, title, source, form("printed", latex, None, "open", note=note), kind="claim")


EFL_ROW = r"\frac{G^2}{\mu S\epsilon}+\frac L{\mu\sqrt\epsilon}\le\frac{G^2}{\mu S\epsilon}+"
SCAFFOLD_ROW, MIME_ROW = r"\frac G{\mu\sqrt\epsilon}+\frac L\mu", r"\frac\delta\mu"
LARGE_G = "G >= L (1 - sqrt(epsilon))"

STATEMENTS = (
    statement(
        "table-1-scaffold",
        "EFL's row against SCAFFOLD's",
        "Table 1, section 3.2 (EFL improves the optimisation term)",
        form(
            "printed", EFL_ROW + SCAFFOLD_ROW, lambda v: _against(v, "SCAFFOLD"), "violated", kind="rates",
            note="only part of the parameters: false wherever G < L (1 - sqrt(epsilon))",
        ),
        form(
            "repaired", EFL_ROW + SCAFFOLD_ROW + r"\text{ where }G\ge L(1-\sqrt\epsilon)", lambda v: _against(v, "SCAFFOLD"),
            "holds",
            ("the other way round", lambda v: le(v.row("SCAFFOLD"), v.row("EFL"))), kind="rates", needs=(LARGE_G,),
        ),
        form(
            "repaired, converse", r"\frac{G^2}{\mu S\epsilon}+" + SCAFFOLD_ROW + r"\le\frac{G^2}{\mu S\epsilon}+\frac "
            r"L{\mu\sqrt\epsilon}"
            r"\text{ where }G<L(1-\sqrt\epsilon)",
            lambda v: le(v.row("SCAFFOLD"), v.row("EFL")), "holds",
            ("the other way round", lambda v: _against(v, "SCAFFOLD")),
            kind="rates", needs=("G < L (1 - sqrt(epsilon))",),
        ),
        form(
            "for the loss times a constant", r"\frac{G^2}{\mu S\epsilon}+\frac{2L}{\mu\sqrt\epsilon}\le\frac{G^2}{\mu S\epsilon}+"
            r"\frac{2G}{\mu\sqrt\epsilon}+\frac L\mu\text{ where }G\ge L(1-\sqrt\epsilon)",
            lambda v: _against(v, "SCAFFOLD", Fraction(1, 2)), "violated", kind="rates", needs=(LARGE_G,),
            note="the rows of F/4 where EFL's is the smaller one for F. G, L, mu, delta and epsilon all scale with the loss, the "
            "rows do not scale alike: the comparison depends on units "
            "(a factor of the distance to the optimum or of sqrt(L) was left out in print)",
        ),
    ),
    statement(
        "table-1-mime",
        "EFL's row against MIME's",
        "Table 1, section 3.2 (a tighter bound than the mu-strongly convex methods)",
        form(
            "printed", EFL_ROW + MIME_ROW, lambda v: _against(v, "MIME"), "violated", kind="rates",
            note="false for every epsilon < 1 with delta <= L, and a Hessian dissimilarity of convex losses is at most L",
        ),
        form(
            "repaired", EFL_ROW + MIME_ROW + r"\text{ where }\delta\ge L/\sqrt\epsilon", lambda v: _against(v, "MIME"), "holds",
            ("the other way round", lambda v: le(v.row("MIME"), v.row("EFL"))),
            kind="rates", needs=("delta >= L/sqrt(epsilon)",),
        ),
        form(
            "repaired, converse", r"\frac{G^2}{\mu S\epsilon}+" + MIME_ROW + r"\le\frac{G^2}{\mu S\epsilon}+\frac L{\mu\sqrt\epsilon}"
            r"\text{ where }\delta\le L,\ \epsilon<1",
            lambda v: le(v.row("MIME"), v.row("EFL")), "holds", ("the other way round", lambda v: _against(v, "MIME")),
            kind="rates",
            needs=("delta <= L and epsilon < 1",),
        ),
    ),
    _claim(
        "claim-compression", "convergence with compression", "abstract and contributions (guarantees for the whole of EFL)",
        r"\mathbb E\|\omega^G_{\tau E}-\omega^*\|^2\to0\text{ with }ST\text{ both ways}",
        "no theorem under compression is stated: Theorem 1 and its proof have none. What is judged instead: the ST lemma, the residual "
        "invariant and the bias of the variants",
    ),
    _claim(
        "claim-non-convex-rows", "the rows of VRL-SGD and FedAMP", "Table 1",
        r"\frac{N\sigma^2}{S\epsilon^2}+\frac N\epsilon,\quad\frac{G^2}{LS\epsilon}+\frac G{\epsilon^{3/2}}+\frac{L^2}{\sqrt\epsilon}",
        "rates to a stationary point of a non-convex loss, quoted from elsewhere: another quantity than the strongly convex rows', not "
        "comparable with them, and not judged here",
    ),
    _claim(
        "claim-row", "EFL's own row of Table 1", "Table 1", r"\frac{G^2}{\mu S\epsilon}+\frac L{\mu\sqrt\epsilon}",
        "not derived in the paper: (7) solved for the number of rounds has 1/mu^2, not 1/mu, in the first term",
    ),
    _claim(
        "claim-accuracy", "accuracy on MNIST, CIFAR100, Sentiment140 and Shakespeare", "Table 2 and Figures 1 to 3",
        r"\text{test accuracy of deep networks}", "an experiment on deep networks, not a statement about the algorithm",
    ),
    _claim(
        "claim-lambda", "the elastic term stabilises", "section 5.3", r"\lambda>0\text{ makes divergent runs converge}",
        "a claim about deep networks; on quadratics the term's limit and fixed point are judged",
    ),
)  # fmt: skip
