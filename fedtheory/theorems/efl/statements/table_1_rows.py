"""EFL's own row of Table 1 against the number of rounds that EFL needs, and the rows of the
non-convex methods beside it.

The family: one client, F(w) = sum_i h_i w_i^2/2, E = 1, no noise, Theorem 1's steps, so that w* = 0
and every number is known. The loss in other units is c F(s w): its curvatures are c s^2 h, its
start is w_0/s, and the run is the same run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import fraction, text, vector
from fedtheory.theorems.efl.notation import BUILDERS, HOLDS, statement
from fedtheory.theorems.efl.quantities.run import UNCORRELATED, EFLRun
from fedtheory.theorems.efl.statements.table_1 import rounds
from fedtheory.theorems.efl.theorem_1 import ASSUMPTIONS
from fedtheory.theory.judge.setting import ClosedView
from fedtheory.theory.judge.statement import Sides, eq, form, le

__all__ = ["BY_DISTANCE", "BY_LOSS", "FAMILY", "STATEMENTS", "RowView", "UnitsView", "row_view", "units_view"]

FAMILY = "one client, a quadratic, E = 1, no noise, the steps of Theorem 1"
BY_DISTANCE, BY_LOSS = "epsilon bounds E||w - w*||^2", "epsilon bounds E F(w) - F*"
LONGEST = 3000


@dataclass
class RowView(ClosedView):
    """Rounds that a run needs, and the row.

    Attributes
    ----------
    h, start : (d,) curvatures and w_0, or empty where only `needed` and the constants are known
    root : sqrt(epsilon)
    K : the constant before the row
    loss : whether epsilon bounds F - F*, else the squared distance
    """

    h: np.ndarray
    start: np.ndarray
    root: Any
    K: Any
    loss: bool

    def __post_init__(self) -> None:
        self.facts = frozenset({FAMILY, BY_LOSS if self.loss else BY_DISTANCE})

    @property
    def L(self) -> Any:
        return self.h.max()

    @property
    def mu(self) -> Any:
        return self.h.min()

    S = 1  # one client takes part

    @property
    def gamma(self) -> Any:
        return 64 * self.L / self.mu

    @property
    def G_sq(self) -> Any:
        """The squared gradients fall along the run, as every step is below 2/L: the first one is the largest."""
        return (self.h**2 * self.start**2).sum()

    def error(self, w: np.ndarray) -> Any:
        return (self.h * w * w).sum() / 2 if self.loss else (w * w).sum()

    @cached_property
    def path(self) -> np.ndarray:
        """w_0, w_1, ... up to the first within epsilon. Raises `InvalidInput` for long runs."""
        out, w = [self.start], self.start
        while self.error(w) > self.root**2:
            if len(out) > LONGEST:
                raise InvalidInput(f"epsilon = {text(self.root**2)} is not reached within {LONGEST} rounds: give a larger one")
            w = w * (1 - 16 * self.h / (self.mu * (len(out) + self.gamma)))
            out.append(w)
        return np.stack(out)

    @property
    def needed(self) -> int:
        """The first round count whose model is within epsilon."""
        return len(self.path) - 1

    @property
    def terms(self) -> tuple[Any, Any]:
        """G^2/(mu S epsilon) and L/(mu sqrt(epsilon))."""
        return self.G_sq / (self.mu * self.S * self.root**2), self.L / (self.mu * self.root)

    def in_units(self, c: Any, s: Any) -> RowView:
        """The same run for c^2 F(s w); epsilon is c^2 times as large where it bounds the loss, else divided by s^2."""
        return replace(self, h=c**2 * s**2 * self.h, start=self.start / s, root=c * self.root if self.loss else self.root / s)

    def printed_constants(self) -> dict[str, Any]:
        names = ("L", "mu", "G_sq", "S", "needed")
        more = {"epsilon": text(self.root**2), "row": text(sum(self.terms)), "factor": text(self.K)}
        return {**{n: text(getattr(self, n)) for n in names}, **more}


@BUILDERS.add("row")
def row_view(data: dict[str, Any]) -> RowView:
    """From h, start, root (of epsilon), K, and loss (true where epsilon bounds F - F*)."""
    (h, start), (root, K) = (vector(data[k], k) for k in ("h", "start")), (fraction(data[k], k) for k in ("root", "K"))
    if h.shape != start.shape or h.min() <= 0 or root <= 0 or K <= 0 or not isinstance(data["loss"], bool):
        raise InvalidInput("h and start need one number a coordinate, h > 0, root > 0, K > 0, and loss true or false")
    view = RowView(h, start, root, K, data["loss"])
    if view.needed < 1:
        raise InvalidInput("the start is within epsilon already: give a smaller one")
    return view


@dataclass
class UnitsView(ClosedView):
    """One point of the parameters of Table 1; ``root`` is sqrt(epsilon), of the loss for EFL, of
    the squared gradient for others.

    Attributes
    ----------
    G, L, mu, S, sigma, clients : of the assumptions, S clients in a round, the noise, N
    """

    G: Any
    L: Any
    mu: Any
    S: Any
    sigma: Any
    clients: Any
    root: Any

    def __post_init__(self) -> None:
        own = self.row("EFL")
        self.facts = frozenset(f"EFL's row at most {name}'s for F" for name in ("VRL-SGD", "FedAMP") if own <= self.row(name))

    def row(self, name: str, scale: Any = 1) -> Any:
        """The row for the loss times a = scale^2: G, L, mu, sigma times a, the loss's epsilon times
        a, the squared gradient's a^2."""
        a = scale * scale
        root = (scale if name == "EFL" else a) * self.root
        return rounds(name, a * self.G, a * self.L, a * self.mu, self.S, root, sigma=a * self.sigma, clients=self.clients)

    @property
    def terms(self) -> tuple[Any, Any]:
        """Of EFL's row."""
        return self.G**2 / (self.mu * self.S * self.root**2), self.L / (self.mu * self.root)

    def printed_constants(self) -> dict[str, Any]:
        names = ("G", "L", "mu", "S", "sigma", "clients")
        return {**{n: text(getattr(self, n)) for n in names}, "epsilon": text(self.root**2)}


@BUILDERS.add("units")
def units_view(data: dict[str, Any]) -> UnitsView:
    """From G, L, mu, S, sigma, clients and root (of epsilon). Raises `InvalidInput` unless 0 < mu <= L and all are > 0."""
    found = {k: fraction(data[k], k) for k in ("G", "L", "mu", "S", "sigma", "clients", "root")}
    if not 0 < found["mu"] <= found["L"] or min(found.values()) <= 0:
        raise InvalidInput("0 < mu <= L is needed, and G, S, sigma, clients and epsilon must be > 0")
    return UnitsView(**found)


# --- both sides -----------------------------------------------------------------------------------
def _row(v: RowView) -> Sides:
    return le(v.needed + 0 * v.K, *(v.K * term for term in v.terms))


def _scaling(v: RowView, power: int = 2) -> Sides:
    """In units c = 1/3, s = 1/2: the number of rounds, and both terms of the row."""
    c, s = Fraction(1, 3), Fraction(1, 2)
    other, (first, second) = v.in_units(c, s), v.terms
    expected = (first, second / c) if v.loss else (c**2 * s**power * first, s * second)
    return eq(np.array([other.needed, *other.terms], dtype=object), np.array([v.needed, *expected], dtype=object))


def _least(v: RowView, less: int = 15, power: int = 32) -> Sides:
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


def _other_units(v: UnitsView, other: str, scale: Any) -> Sides:
    return le(v.row("EFL", scale), v.row(other, scale))


def _orders(v: UnitsView, swapped: bool = False) -> Sides:
    """EFL's row is smaller where the loss is times low^2, VRL-SGD's where times high^2."""
    own, theirs = v.terms, v.row("VRL-SGD")
    low, high = min(Fraction(1), theirs / sum(own)), max(Fraction(1), theirs / own[0])
    pairs = [(v.row("EFL", low), v.row("VRL-SGD", low)), (v.row("VRL-SGD", high), v.row("EFL", high))]
    lhs, rhs = (np.array(side, dtype=object) for side in zip(*pairs, strict=True))
    return le(*((rhs, lhs) if swapped else (lhs, rhs)))


def _powers(v: UnitsView, power: int = -2) -> Sides:
    """The loss times a = 4: what becomes of each row."""
    scale, a = 2, Fraction(4)
    (first, second), epsilon = v.terms, v.root**2
    fedamp = (v.G**2 / (v.L * v.S * epsilon), v.G / (epsilon * v.root), v.L**2 / v.root)
    expected = (first + second / scale, a**power * v.row("VRL-SGD"), fedamp[0] / a + fedamp[1] / a**2 + a * fedamp[2])
    return eq(np.array([v.row(n, scale) for n in ("EFL", "VRL-SGD", "FedAMP")], dtype=object), np.array(expected, dtype=object))


_ROW = r"T\le K\big(\frac{G^2}{\mu S\epsilon}+\frac L{\mu\sqrt\epsilon}\big)"
_ANY = "for every K there is such a problem, so that no constant before the row saves it"
_EFL = r"\frac{G^2}{\mu S\epsilon}+\frac L{\mu\sqrt\epsilon}\le"
STATEMENTS = (
    statement(
        "table-1-row",
        "EFL's own row of Table 1",
        "Table 1, section 3.2 (the required number of communication rounds)",
        form(
            "printed", _ROW + r"\text{ rounds until }\mathbb E\|\omega_T-\omega^*\|^2\le\epsilon", _row, "violated",
            kind="row", needs=(BY_DISTANCE,),
            note="in other units of w and of the loss the run is the same and the row as small as one likes: " + _ANY,
        ),
        form(
            "printed, loss", _ROW + r"\text{ rounds until }\mathbb EF(\omega_T)-F^*\le\epsilon", _row, "violated", kind="row",
            needs=(BY_LOSS,),
            note="for c F with a large c only G^2/(mu S epsilon) is left, which does not know L/mu; Theorem 1's steps are of order "
            "1/L at first, and need a number of rounds proportional to L/mu: " + _ANY,
        ),
        form(
            "units",
            r"c^2F(s\,\cdot):\ T\text{ is the same; the terms are }c^2s^2\tfrac{G^2}{\mu S\epsilon}\text{ and }"
            r"\tfrac{sL}{\mu\sqrt\epsilon}\text{ by the distance, }\tfrac{G^2}{\mu S\epsilon}\text{ and }"
            r"\tfrac L{c\mu\sqrt\epsilon}\text{ by the loss}",
            _scaling, "holds", ("c^2 s for c^2 s^2", lambda v: _scaling(v, 1)), kind="row", needs=(FAMILY,),
            note="a number of rounds has no unit, and the row has one",
            proof="put c^2 s^2 h for the curvatures, w_0/s for the start and the new epsilon",
        ),
        form(
            "lower bound",
            r"\|\omega_T-\omega^*\|^2\ge\big(\tfrac{\gamma-15}{\gamma-15+T}\big)^{32}\omega_{0,1}^2,\ \gamma=\tfrac{64L}\mu,\ "
            r"\omega_{0,1}\text{ along the curvature }\mu",
            _least, "holds", ("gamma - 14", lambda v: _least(v, 14, 30)), ("power 28", lambda v: _least(v, 15, 28)),
            kind="row", needs=(FAMILY,),
            note="so that T >= (64 L/mu - 15)((omega_{0,1}^2/epsilon)^{1/32} - 1) rounds are needed",
            proof="docs/efl_claims.md#efls-own-row-of-table-1",
        ),
        form(
            "repaired",
            r"T\ge\max\{\tfrac{512b}{\mu^2\epsilon},\tfrac\gamma E\sqrt{\tfrac{2\|\omega_0-\omega^*\|^2}\epsilon}\}\Rightarrow"
            r"\mathbb E\|\omega_T-\omega^*\|^2\le\epsilon+\tfrac{H_TJ}{TE+\gamma},\ b=\max_t\tfrac{\mathbb E[B^+_t]}{S_t^2}",
            _suffices, HOLDS, ("without b", lambda v: _suffices(v, rest=0)),
            ("without the distance", lambda v: _suffices(v, distance=0)), kind="run", needs=(UNCORRELATED,),
            note="what follows from Theorem 1, sharpened: 1/mu^2 for 1/mu, the distance from the start, and gamma/E of order "
            "theta (E + L/mu)/S. Judged at the least epsilon for which T is enough",
            proof="docs/efl_claims.md#efls-own-row-of-table-1",
        ),
        assumptions=ASSUMPTIONS,
    ),
    statement(
        "table-1-non-convex",
        "EFL's row beside those of VRL-SGD and FedAMP",
        "Table 1 (rows NC)",
        form(
            "VRL-SGD, for the loss times a constant",
            _EFL + r"\frac{N\sigma^2}{S\epsilon^2}+\frac N\epsilon\text{ holds for }4F\text{ where it holds for }F",
            lambda v: _other_units(v, "VRL-SGD", 2), "violated", kind="units", needs=("EFL's row at most VRL-SGD's for F",),
            wording="in words",
            note="these rows count rounds until a squared gradient is small, whose epsilon is multiplied by 16 where the loss is by 4: "
            "which row is the smaller is a matter of the unit",
        ),
        form(
            "FedAMP, for the loss times a constant",
            _EFL + r"\frac{G^2}{LS\epsilon}+\frac G{\epsilon^{3/2}}+\frac{L^2}{\sqrt\epsilon}"
            r"\text{ holds for }4F\text{ where it holds for }F",
            lambda v: _other_units(v, "FedAMP", 2), "violated", kind="units", needs=("EFL's row at most FedAMP's for F",),
            wording="in words",
        ),
        form(
            "repaired", r"\text{for }aF\text{ EFL's row is below VRL-SGD's for small }a,\text{ and above it for large }a",
            _orders, "holds", ("the other way round", lambda v: _orders(v, True)), kind="units",
            note="at every point of the parameters: sqrt(a) = min{1, V/(A + B)} and max{1, V/A}, A + B EFL's row and V VRL-SGD's",
            proof="docs/efl_claims.md#the-rows-of-the-non-convex-methods",
        ),
        form(
            "units",
            r"4F:\ \text{EFL }\tfrac{G^2}{\mu S\epsilon}+\tfrac L{2\mu\sqrt\epsilon},\ \text{VRL-SGD a sixteenth},\ \text{FedAMP }"
            r"\tfrac{G^2}{4LS\epsilon}+\tfrac G{16\epsilon^{3/2}}+\tfrac{4L^2}{\sqrt\epsilon}",
            _powers, "holds", ("a quarter of VRL-SGD's", lambda v: _powers(v, -1)), kind="units",
            proof=(
                "put 4 G, 4 L, 4 mu, 4 sigma, and 4 times epsilon of the loss, 16 times that of "
                "the squared gradient"
            ),
        ),
        assumptions=(
            "0 < mu <= L, and G, S, sigma, N, epsilon > 0; orders are compared as printed, with the constant 1",
        ),
    ),
)  # fmt: skip
