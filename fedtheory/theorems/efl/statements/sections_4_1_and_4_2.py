"""EFL, sections 4.1 and 4.2: inactive and incomplete clients.

The rates of section 4 are Theorem 1's with the laws put in. They are judged on exact moments.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput
from fedtheory.rational import fraction, integer, table, text, vector
from fedtheory.theorems.efl.notation import BUILDERS, statement
from fedtheory.theory.judge.setting import ClosedView
from fedtheory.theory.judge.statement import Sides, eq, form, le
from fedtheory.theory.judge.symbolic import Letters
from fedtheory.theory.rounds.coefficients import RoundLaw

__all__ = ["LATE", "RULE_8", "SOME", "STATEMENTS", "InactiveView", "IncompleteView"]

LATE = "T(T+1)E^2 >= (gamma - E tau_0)^2"
SOME = "T >= 2"
LARGE, IDLE = "gamma >= E^2", "some client inactive with positive probability in some round"


# --- 4.1: the heterogeneity term, and Corollary 1's rule as inequalities --------------------------
@dataclass
class InactiveView(ClosedView):
    """Scheme C, clients inactive with probabilities y_t^k, otherwise complete; and the constants of the two bounds.

    Attributes
    ----------
    idle : (T, N) y_t^k
    E : int
    gamma, J, C : of Theorem 1
    y, tau_0 : the client's probability of being inactive, and the round it would be abandoned in (Corollary 1)
    """

    idle: np.ndarray
    E: int
    gamma: Any
    J: Any
    C: Any
    y: Any
    tau_0: int

    def __post_init__(self) -> None:
        facts = set()
        if any(all(v == row[0] for v in row) and row[0] > 0 for row in self.idle):
            facts.add("a round in which all are inactive alike")
        if self.tau_0 == 0:
            facts.add("tau_0 = 0")
        if 2 * self.tau_0 <= self.T:
            facts.add("T >= 2 tau_0")
        if self.T * (self.T + 1) * self.E**2 >= (self.gamma - self.E * self.tau_0) ** 2:
            facts.add(LATE)
        if self.T >= 2:
            facts.add(SOME)
        if self.gamma >= self.E**2:
            facts.add(LARGE)
        if any(self.some_idle):
            facts.add(IDLE)
        if self.y > self.order():
            facts.add("y above (C/J)/(TE)")
        if self.rule_8:
            facts.add("y^a J > f_1(T), which is (8)")
        self.facts = frozenset(facts)

    @property
    def T(self) -> int:
        return len(self.idle)

    @property
    def r(self) -> list[int]:
        """r_t = 1 where E[p s]/p = E (1 - y^k) is not the same for all clients."""
        return [int(any(v != row[0] for v in row)) for row in self.idle]

    @property
    def some_idle(self) -> list[int]:
        """y_t: whether there are inactive clients in round t."""
        return [int(any(v > 0 for v in row)) for row in self.idle]

    def term(self, total: Any, rounds: int | None = None) -> Any:
        """total J/(tau E + gamma) at tau = T."""
        return total * self.J / ((self.T if rounds is None else rounds) * self.E + self.gamma)

    @property
    def f_1(self) -> Any:
        """T C/(E (T - tau_0) + gamma)^2."""
        return self.T * self.C / (self.E * (self.T - self.tau_0) + self.gamma) ** 2

    @property
    def rule_8(self) -> bool:
        return bool(self.y * self.J > self.f_1)

    @property
    def threshold(self) -> Any:
        """f_1(T)/J: (8) says that y is above it."""
        return self.f_1 / self.J

    def order(self, power: int = 1) -> Any:
        """(C/J)/(TE^power); (9) has the power 1."""
        return self.C / (self.J * self.T * self.E**power)

    def printed_constants(self) -> dict[str, Any]:
        return {"E": self.E, "T": self.T, "gamma": text(self.gamma), "J": text(self.J), "C": text(self.C), "y": text(self.y)}


class _Inactive(Letters):
    """The constants of (8); its two sides are the view's."""

    f_1, threshold, order = InactiveView.f_1, InactiveView.threshold, InactiveView.order


RULE_8 = _Inactive({"T": "T", "E": "E", "C": "C", "J": "J", "gamma": r"\gamma", "y": "y^k", "tau_0": r"\tau_0"})


@BUILDERS.add("inactive")
def inactive_view(data: dict[str, Any]) -> InactiveView:
    """From idle (N probabilities below 1, or T rows of them), E, T, gamma, J, C, y, tau_0."""
    rounds, most = integer(data["T"], "T", 1, 2000), integer(data["E"], "E", 1)
    idle = data["idle"]
    rows = table(idle, "idle") if isinstance(idle[0], list) else np.stack([vector(idle, "idle")] * rounds)
    gamma, J, C, y = (fraction(data[k], k) for k in ("gamma", "J", "C", "y"))
    tau_0 = integer(data["tau_0"], "tau_0", 0, rounds - 1)
    if len(rows) != rounds or rows.min() < 0 or rows.max() >= 1:
        raise InvalidInput("idle: a row of probabilities in [0, 1) for every round; a client that is never active has no say")
    if J <= 0 or C <= 0 or not 0 < y < 1 or gamma < 4 * most:
        raise InvalidInput("J, C must be > 0, 0 < y < 1, and gamma >= 4E, as Theorem 1 has it (S <= theta E)")
    return InactiveView(rows, most, gamma, J, C, y, tau_0)


def _rate(v: InactiveView, share: Any = 1) -> Sides:
    """H J/(tau E + gamma) <= sum y_t J/(tau E + E^2)."""
    return le(v.term(sum(v.r)), share * sum(v.some_idle) * v.J / (v.T * v.E + v.E**2))


def _whole_rate(v: InactiveView, constant: Any, share: Any = 1) -> Sides:
    """C_tau/(tau E + gamma)^2 + H J/(tau E + gamma) <= constant sum y_t J/(tau E + E^2)."""
    first = v.T * v.C / (v.T * v.E + v.gamma) ** 2
    return le(first + v.term(sum(v.r)), share * constant * sum(v.some_idle) * v.J / (v.T * v.E + v.E**2))


def _own_constant(v: InactiveView) -> Any:
    """1 + C/(E J)."""
    return 1 + v.C / (v.E * v.J)


def _limit_term(v: InactiveView, share: Any) -> Sides:
    """lim_tau tau J/(tau E + gamma) = J/E, against share J; r_t = 1 in every round."""
    return eq(v.J / v.E, share * v.J)


# --- 4.2: incomplete clients ----------------------------------------------------------------------
@dataclass
class IncompleteView(ClosedView):
    """Scheme C with clients that are never inactive.

    Attributes
    ----------
    weights : (N,); law : (N, E + 1) with s = 0 impossible
    L, mu, G_sq, sigma_sq (N,), D (N,) : the constants of Theorem 1
    """

    weights: np.ndarray
    law: np.ndarray
    L: Any
    mu: Any
    G_sq: Any
    sigma_sq: np.ndarray
    D: np.ndarray

    @property
    def E(self) -> int:
        return self.law.shape[1] - 1

    @cached_property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        return RoundLaw(EFL(scheme="C"), self.law, self.weights).single

    @cached_property
    def drift(self) -> np.ndarray:
        """E[p s] (N,)."""
        return (self.moments[0] * np.arange(self.E + 1)).sum(axis=1)

    @cached_property
    def squares(self) -> np.ndarray:
        """E[p^2 s] (N,)."""
        return (self.moments[1] * np.arange(self.E + 1)).sum(axis=1)

    @cached_property
    def inverse(self) -> np.ndarray:
        """E[1/s^k] (N,)."""
        return (self.law[:, 1:] / np.arange(1, self.E + 1)).sum(axis=1)

    @cached_property
    def overlap(self) -> Any:
        """E[(sum p - 2)_+ sum p s]: sum p s = E in every case."""
        total = 0
        support = [[(s, q) for s, q in enumerate(row) if q] for row in self.law]

        def visit(k: int, p: Any, chance: Any) -> None:
            nonlocal total
            if k == len(support):
                total = total + chance * max(p - 2, 0) * self.E
                return
            for s, q in support[k]:
                visit(k + 1, p + self.E * self.weights[k] / s, chance * q)

        visit(0, 0 * self.L, 1)
        return total

    @cached_property
    def B(self) -> Any:
        """E[B_t] of Theorem 1 as repaired, theta = E."""
        E, theta = self.E, self.E
        drift = self.drift.sum()
        third = (2 + self.mu / (2 * (1 + theta) * self.L)) * E * (E - 1) * self.G_sq * (drift + theta * self.overlap)
        fourth = 2 * E * self.G_sq * (self.squares / self.weights).sum()
        noise = (self.squares * self.sigma_sq).sum()
        return noise + 2 * (2 + theta) * self.L * (self.drift * self.D).sum() + third + fourth

    def rate(self, power: int = 5) -> Any:
        """E^2 sum (p sigma)^2 E[1/s] + (6 L max D + 17/4 G^2) E^power sum p E[1/s]."""
        spread = (self.weights * self.inverse).sum()
        constant = 6 * self.L * self.D.max() + Fraction(17, 4) * self.G_sq
        return self.E**2 * (self.weights**2 * self.sigma_sq * self.inverse).sum() + constant * self.E**power * spread

    def printed_constants(self) -> dict[str, Any]:
        return {"E": self.E, "L": text(self.L), "mu": text(self.mu), "G_sq": text(self.G_sq), "E[B]": text(self.B)}


@BUILDERS.add("incomplete")
def incomplete_view(data: dict[str, Any]) -> IncompleteView:
    """From weights, law (rows over s = 0..E, never 0), L, mu, G_sq, sigma_sq and D."""
    weights, law = vector(data["weights"], "weights"), table(data["law"], "law")
    sigma_sq, D = vector(data["sigma_sq"], "sigma_sq"), vector(data["D"], "D")
    L, mu, G_sq = (fraction(data[k], k) for k in ("L", "mu", "G_sq"))
    if not len(weights) == len(law) == len(sigma_sq) == len(D) or weights.min() <= 0 or weights.sum() != 1:
        raise InvalidInput("weights (> 0, of sum 1), law, sigma_sq and D: one entry for each client")
    if law.min() < 0 or any(row.sum() != 1 for row in law) or any(law[:, 0]):
        raise InvalidInput("law: a probability over 0..E for each client, with s = 0 impossible")
    if not 0 < mu <= L or G_sq < 0 or sigma_sq.min() < 0 or D.min() < 0:
        raise InvalidInput("0 < mu <= L, and G_sq, sigma_sq, D >= 0")
    return IncompleteView(weights, law, L, mu, G_sq, sigma_sq, D)


Y_T = r"y_t=1\text{ iff some client is inactive with positive probability}"
UNBIASED = r"\mathbb E[p_\tau^ks_\tau^k]=Ep^k"
STATEMENTS = (
    statement(
        "inactive-rate",
        "what inactive clients do to the rate",
        "section 4.1",
        form(
            "printed", r"\textstyle\frac{C_\tau}{(\tau E+\gamma)^2}+\frac{H_\tau J}{\tau E+\gamma}\le"
            r"\big(1+\frac C{EJ}\big)\frac{\sum_{t<\tau}y_tJ}{\tau E+E^2},\ C_\tau=\tau C,\ " + Y_T,
            lambda v: _whole_rate(v, _own_constant(v)), "holds",
            ("half of it", lambda v: _whole_rate(v, _own_constant(v), Fraction(1, 2))),
            ("nine tenths of it", lambda v: _whole_rate(v, _own_constant(v), Fraction(9, 10))),
            ("without C", lambda v: _whole_rate(v, 1)), kind="inactive", needs=(LARGE, IDLE),
            note="the whole rate, as an O in tau whose constant depends on C/J (J > 0; where J = 0 the rate "
            "says 0, and is false with noise); gamma >= 4E^2 with scheme C's theta = E. As sum y_t >= 1, "
            "the first term is O(1/tau) too. C_tau = tau C as Corollary 1 assumes (efl/order-of-c)",
            proof="docs/efl.md#sections-41-and-42-corollary-1",
        ),
        form(
            "one constant", r"\textstyle\frac{C_\tau}{(\tau E+\gamma)^2}+\frac{H_\tau J}{\tau E+\gamma}\le"
            r"1000\frac{\sum_{t<\tau}y_tJ}{\tau E+E^2},\ C_\tau=\tau C,\ " + Y_T, lambda v: _whole_rate(v, 1000), "violated",
            kind="inactive", needs=(LARGE, IDLE),
            note="no constant does for all problems: the first term does not know J, which is as small as the clients are alike",
        ),
        form(
            "heterogeneity term", r"\textstyle\frac{H_\tau J}{\tau E+\gamma}\le\frac{\sum_{t<\tau}y_tJ}{\tau E+E^2},\ " + Y_T,
            _rate, "holds",
            ("half of it", lambda v: _rate(v, Fraction(1, 2))),
            ("nine tenths of it", lambda v: _rate(v, Fraction(9, 10))), kind="inactive", needs=(LARGE,),
            note="the second term of the bound alone. Where gamma is smaller, the constant is E^2/gamma",
            proof="H <= sum y_t (the form `repaired`) and gamma >= E^2",
        ),
        form(
            "equality", r"\textstyle H_\tau=\sum_{t<\tau}y_t", lambda v: eq(Fraction(sum(v.r)), Fraction(sum(v.some_idle))),
            "violated", kind="inactive",
            note="not a condition for heterogeneity: clients that are inactive alike leave E[p s]/p^k the same for all k",
        ),
        form(
            "repaired", r"\textstyle H_\tau\le\sum_{t<\tau}y_t", lambda v: le(Fraction(sum(v.r)), Fraction(sum(v.some_idle))), "holds",
            ("the other way round", lambda v: le(Fraction(sum(v.some_idle)), Fraction(sum(v.r)))),
            kind="inactive",
            note="scheme C, clients that are complete when active",
            proof="E[p s]/p^k = E (1 - y^k): where these differ some y^k is above 0",
        ),
        form(
            "converges if y_t is O(tau)", r"\textstyle\frac{4\tau J}{4\tau E+\gamma}\le\frac{\tau J}{\tau E+\gamma}:\ "
            r"\text{the term at }4\tau\text{ and at }\tau,\ y_t=1\text{ in every round}", lambda v: le(v.term(4 * v.T, 4 * v.T),
            v.term(v.T)), "violated",
            kind="inactive",
            note="y_t <= 1 is always O(tau); with y_t = 1 the term rises to J/E. What is meant is sum y_t in o(tau)",
        ),
        form(
            "converges if the sum is o(tau)", r"\textstyle\sum_{t<\tau}y_tJ/(\tau E+\gamma)\le\frac JE\cdot\frac1\tau\sum_{t<\tau}y_t",
            lambda v: le(v.term(sum(v.some_idle)), Fraction(sum(v.some_idle), v.T) * v.J / v.E), "holds",
            ("half of it", lambda v: le(v.term(sum(v.some_idle)), Fraction(sum(v.some_idle), 2 * v.T) * v.J / v.E)),
            ("nine tenths of it", lambda v: le(v.term(sum(v.some_idle)), Fraction(9 * sum(v.some_idle), 10 * v.T) * v.J / v.E)),
            kind="inactive",
            proof="tau E + gamma >= tau E",
        ),
        form(
            "f_0", r"\lim_\tau\tfrac{\tau J}{\tau E+\gamma}=\tfrac JE=y^aJ\ (r_t=1\text{ in every round})",
            lambda v: _limit_term(v, v.y), "violated",
            kind="inactive",
            note="r_t compares expectations, so it is 1 in every round and not with probability y^a; the factor 1/E "
            "is missing too",
        ),
        form(
            "f_0 repaired", r"\lim_\tau\tfrac{\tau J}{\tau E+\gamma}=\tfrac JE\ (r_t=1\text{ in every "
            r"round})", lambda v: _limit_term(v, Fraction(1, v.E)), "holds",
            ("y^a/E", lambda v: _limit_term(v, v.y / v.E)), kind="inactive",
            proof="tau/(tau E + gamma) tends to 1/E",
        ),
        assumptions=(
            "scheme C, clients that are complete when active and inactive with probabilities y_t^k < 1",
            "gamma >= 4E, and J, C > 0, the constants of Theorem 1 as repaired",
        ),
    ),
    statement(
        "incomplete-rate",
        "what incomplete clients do to the rate",
        "section 4.2",
        form(
            "printed", r"\mathbb E[B_t]\le(6L\max_kD_k+\tfrac{17}4G^2)E^5\textstyle\sum_kp^k\mathbb E[\tfrac1{s^k}]"
            r"+E^2\sum_k(p^k\sigma_k)^2\mathbb E[\tfrac1{s^k}]", lambda v: le(v.B, v.rate()), "holds",
            ("E^3 for E^5", lambda v: le(v.B, v.rate(3) / 4)),
            ("nine tenths of it", lambda v: le(v.B, v.rate() * 9 / 10)), kind="incomplete",
            note="scheme C, no client inactive: with S = E, C_tau is at most gamma^2 ||w_0 - w*||^2 + (16/mu)^2 sum_t E[B_t], which "
            "gives the printed rate, its constant made explicit",
            proof="docs/efl.md#sections-41-and-42-corollary-1",
        ),
        form(
            "unbiased", UNBIASED, lambda v: eq(v.drift, v.E * v.weights), "holds",
            ("with p^k E[s^k]", lambda v: eq((v.law * np.arange(v.E + 1)).sum(axis=1) * v.weights, v.E * v.weights)),
            kind="incomplete",
            note="so that r_t = 0: convergence whatever the laws of s^k > 0",
            proof="p_tau^k s^k = E p^k in every case, as s^k > 0",
        ),
        assumptions=(
            "scheme C, no client ever inactive, 0 < mu <= L",
            "B_t of Theorem 1 as repaired, with theta = E",
        ),
    ),
)  # fmt: skip
