"""Limits of EFL's uncompressed iterates under irregular participation, for all four schemes.

On quadratics the mean of w obeys an affine recursion, coordinate by coordinate: with
m_k(s) = E[p_tau^k; s^k = s], E w' = E w - sum_k sum_s m_k(s) (1 - (1 - eta h_k)^s)(E w - c_k). Its
fixed point for a constant step, and the limit for steps that tend to 0, are in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput
from fedtheory.participation.coefficients import Scheme
from fedtheory.rational import fraction, integer, table, text, vector
from fedtheory.theorems.efl.notation import BUILDERS, statement
from fedtheory.theory.judge.setting import ClosedView
from fedtheory.theory.judge.statement import Sides, eq, form, le
from fedtheory.theory.rounds.coefficients import RoundLaw

__all__ = ["STATEMENTS", "LimitView", "facts_of", "limit_view"]

SCHEMES = ("A", "B", "C", "C-corrected")
NEVER_IDLE, ALIKE = "P(s^k > 0) = 1 for all clients", "P(s^k > 0) is the same for all clients"
EQUAL_LAWS = "the law of s^k is the same for all clients"
FRACTIONS = "eta h_k <= 1 for all k, judged in fractions"
LEMMA = "eta_tau = a/(tau + b) with 1 < a M <= b in every coordinate, and a h_k <= b for all k"
COORDINATES = "quadratics whose coordinates do not mix"


def facts_of(law: np.ndarray) -> set[str]:
    """Return the facts that hold of the clients' laws (N, E + 1)."""
    known = (
        (NEVER_IDLE, not any(law[:, 0])), (ALIKE, all(v == law[0, 0] for v in law[:, 0])),
        (EQUAL_LAWS, (law == law[0]).all()),
    )
    return {name for name, here in known if here}


@dataclass
class LimitView(ClosedView):
    """Quadratic clients h_k (w - c_k)^2/2 (rows of d coordinates), laws of s^k, a scheme.

    Attributes
    ----------
    weights : (N,) p^k
    h, c : (N, d)
    law : (N, E + 1)
    eta : a constant step, with eta h <= 1
    rounds, x0 : of the run with steps eta_tau = step/(tau + offset)
    step, offset : with step/offset * max h <= 1
    """

    scheme: Scheme
    weights: np.ndarray
    h: np.ndarray
    c: np.ndarray
    law: np.ndarray
    eta: Any
    rounds: int
    x0: np.ndarray
    step: Any
    offset: Any

    noise = 0  # of the two points

    def __post_init__(self) -> None:
        facts = {COORDINATES, *facts_of(self.law)}
        if not isinstance(self.eta, float):
            facts.add(FRACTIONS)
        if not self.drift.any():
            raise InvalidInput("nobody ever takes part: the limit is not defined")
        if 1 < self.step * self.curvature.min() and self.step * self.curvature.max() <= self.offset:
            facts.add(LEMMA)
        self.facts = frozenset(facts)

    @property
    def rule(self) -> str:  # type: ignore[override]
        return self.scheme

    @cached_property
    def m(self) -> np.ndarray:
        """E[p_tau^k 1{s^k = s}] (N, E + 1)."""
        return RoundLaw(EFL(scheme=self.scheme), self.law, self.weights).single[0]

    @cached_property
    def drift(self) -> np.ndarray:
        """E[p_tau^k s^k] (N,)."""
        return (self.m * np.arange(self.m.shape[1])).sum(axis=1)

    @cached_property
    def star(self) -> np.ndarray:
        """omega* = argmin sum_k p^k f_k."""
        return self._centre(self.weights)

    @cached_property
    def limit(self) -> np.ndarray:
        """argmin sum_k E[p_tau^k s^k] f_k."""
        return self._centre(self.drift)

    def _centre(self, weights: np.ndarray) -> np.ndarray:
        w = weights[:, None] * self.h
        return (w * self.c).sum(axis=0) / w.sum(axis=0)

    def _pull(self, eta: Any) -> np.ndarray:
        """sum_s m_k(s) (1 - (1 - eta h_k)^s): (N, d)."""
        return sum(self.m[:, s, None] * (1 - (1 - eta * self.h) ** s) for s in range(1, self.m.shape[1]))

    @cached_property
    def fixed(self) -> np.ndarray:
        """The mean's fixed point for the constant step eta."""
        a = self._pull(self.eta)
        return (a * self.c).sum(axis=0) / a.sum(axis=0)

    def map(self, w: np.ndarray, eta: Any) -> np.ndarray:
        """The mean after one round from the mean w."""
        return w - (self._pull(eta) * (w - self.c)).sum(axis=0)

    @cached_property
    def curvature(self) -> np.ndarray:
        """sum_k E[p_tau^k s^k] h_k (d,)."""
        return (self.drift[:, None] * self.h).sum(axis=0)

    def second(self, w: np.ndarray) -> np.ndarray:
        """sum_k E[p_tau^k s^k (s^k - 1)/2] h_k^2 |w - c_k|: what one step's curvature leaves, over eta^2."""
        s = np.arange(self.m.shape[1])
        moment = (self.m * (s * (s - 1))).sum(axis=1) / 2
        return (moment[:, None] * self.h**2 * abs(w - self.c)).sum(axis=0)

    @cached_property
    def run(self) -> np.ndarray:
        """E w_0..E w_T with the steps step/(tau + offset): (T + 1, d)."""
        out = [self.x0]
        for t in range(self.rounds):
            out.append(self.map(out[-1], self.step / (t + self.offset)))
        return np.stack(out)

    def printed_constants(self) -> dict[str, Any]:
        return {"omega*": [text(x) for x in self.star], "limit": [text(x) for x in self.limit]}


@BUILDERS.add("limit")
def limit_view(data: dict[str, Any]) -> LimitView:
    """From scheme, weights, h, c, law (rows over s = 0..E), eta, and rounds, x0, step, offset of a
    run; with "arithmetic": "float" the numbers are turned into floats, for long runs (which prove
    nothing).

    Raises
    ------
    InvalidInput
        Laws or weights that are none; steps above 1/max h.
    """
    if data["scheme"] not in SCHEMES:
        raise InvalidInput(f"scheme = {data['scheme']!r}: use one of {', '.join(SCHEMES)}")
    weights, h, c, law = vector(data["weights"], "weights"), *(table(data[k], k) for k in ("h", "c", "law"))
    eta, step, offset = (fraction(data[k], k) for k in ("eta", "step", "offset"))
    x0, rounds = vector(data["x0"], "x0"), integer(data["rounds"], "rounds", 1)
    if h.shape != c.shape or len(weights) != len(h) or len(law) != len(h) or len(x0) != h.shape[1]:
        raise InvalidInput(f"weights {weights.shape}, h {h.shape}, c {c.shape}, law {law.shape}, x0 {x0.shape} do not fit together")
    if weights.min() <= 0 or weights.sum() != 1 or law.min() < 0 or any(row.sum() != 1 for row in law):
        raise InvalidInput("weights must be > 0 and sum to 1, and every row of law must be a probability")
    if h.min() <= 0 or not 0 < eta * h.max() <= 1 or not 0 < step * h.max() <= offset:
        raise InvalidInput("curvatures must be > 0, and the steps eta and step/offset at most 1/max h")
    parts: list[Any] = [weights, h, c, law, eta, x0, step, offset]
    if data.get("arithmetic") == "float":
        parts = [v.astype(float) if isinstance(v, np.ndarray) else float(v) for v in parts]
    weights, h, c, law, eta, x0, step, offset = parts
    return LimitView(data["scheme"], weights, h, c, law, eta, rounds, x0, step, offset)


def _constant_step(v: LimitView, factor: Any = 1) -> Sides:
    """|w_eta - limit| sum E[ps] h <= eta sum E[p s(s-1)/2] h^2 |w_eta - c|."""
    return le(v.curvature * abs(v.fixed - v.limit), factor * v.eta * v.second(v.fixed))


def _decaying(v: LimitView, factor: Any = 1) -> Sides:
    """|E w_tau - limit| <= max{offset |w_0 - limit|, step^2 Q/(step M - 1)}/(tau + offset), M = sum
    E[ps] h, Q = max_t of `second`."""
    q = v.run[0] * 0
    for w in v.run[:-1]:
        q = np.maximum(q, v.second(w))
    top = np.maximum(v.offset * abs(v.run[0] - v.limit), v.step**2 * q / (v.step * v.curvature - 1))
    ages = np.arange(len(v.run))[:, None] + v.offset
    return le(abs(v.run - v.limit)[1:], (factor * top / ages)[1:])


def _same(v: LimitView, shift: Any = 0) -> Sides:
    return eq(v.limit + shift, v.star, noise=v.noise)


def _moved(v: LimitView, share: Any = 0) -> Sides:
    """The fixed point for a constant step is where one round changes nothing."""
    return eq(v.map(v.fixed, v.eta) + share * v.eta, v.fixed)


HOLDS = dict.fromkeys(SCHEMES, "holds")
LIMIT = r"\lim\mathbb E\omega_\tau=\text{argmin}\,\textstyle\sum_k%sf_k"

STATEMENTS = (
    statement(
        "scheme-limit",
        "the limit of schemes A, B and C with decaying steps",
        "sections 3.2 and 4 (EFL is called unbiased)",
        form(
            "unbiased", LIMIT % "p^k", _same, {**dict.fromkeys("ABC", "violated"), "C-corrected": "holds"},
            ("shifted by 1/100", lambda v: _same(v, v.weights[0] / 100)), kind="limit", wording="in words",
            note="EFL is called unbiased. It is biased as soon as E[p s]/p^k differs between clients: A where P(s^k "
            "= E) differs (clients that are independent, as here), B where E[s^k] does, C where P(s^k > 0) does. C is "
            "EFL's (section 4.2); A and B are the coefficients of Ruan, Zhang, Liang and Joe-Wong (2021)",
            proof="E[p_tau^k s^k] = E p^k under the corrected C, and the recursion of [repaired]",
        ),
        form(
            "repaired", r"|\mathbb E\omega_\tau-\omega_\infty|\le\frac{\max\{b|\omega_0-\omega_\infty|,\,a^2Q/(aM-1)\}}{\tau+b},\ "
            r"\omega_\infty=\text{argmin}\,\textstyle\sum_k\mathbb E[p_\tau^ks_\tau^k]f_k,\ \eta_\tau=\tfrac a{\tau+b},\ "
            r"M=\sum_k\mathbb E[ps]h_k,\ Q=\max_t\sum_k\mathbb E[p\tfrac{s(s-1)}2]h_k^2|\mathbb E\omega_t-c_k|", _decaying,
            HOLDS,
            ("nine tenths of the bound", lambda v: _decaying(v, 9 * v.weights.sum() / 10)), kind="limit",
            needs=(LEMMA,),
            note="quadratics, coordinate by coordinate",
            proof="0 <= s eta h - 1 + (1 - eta h)^s <= s(s - 1)/2 (eta h)^2, so that |x_{tau+1}| "
            "<= (1 - eta M)|x_tau| + eta^2 Q for x_tau = E omega_tau - omega_infinity. The bound "
            "follows by induction from (tau + b - 1)/(tau + b)^2 <= 1/(tau + b + 1)",
        ),
        form(
            "constant step", r"|\omega_\eta-\omega_\infty|\textstyle\sum_k\mathbb E[ps]h_k\le\eta\sum_k\mathbb E[p\tfrac{s(s-1)}2]h_k^2"
            r"|\omega_\eta-c_k|", _constant_step, HOLDS,
            ("nine tenths of eta", lambda v: _constant_step(v, 9 * v.weights.sum() / 10)), kind="limit",
            needs=(FRACTIONS,),
            note="the fixed point of a constant step is O(eta) away from the limit; exactly there for E = 1",
            proof="[fixed point], with 0 <= s eta h - 1 + (1 - eta h)^s <= s(s - 1)/2 (eta h)^2",
        ),
        form(
            "constant step, equal laws",
            r"\omega_\eta=\omega^*\text{ where the law of }s^k\text{ is the same for all }k",
            lambda v: eq(v.fixed, v.star), dict.fromkeys(SCHEMES, "violated"),
            kind="limit", needs=(EQUAL_LAWS, FRACTIONS),
            note="for E > 1 clients of different curvature make different progress with the same steps, corrected C "
            "or not: unbiased for all minimisers iff E[p(1 - (1 - eta h_k)^s)]/(p^k h_k) is the same for all k",
        ),
        form(
            "fixed point", r"\omega_\eta:\ \textstyle\sum_k\mathbb E[p(1-(1-\eta h_k)^s)](\omega_\eta-c_k)=0", _moved, HOLDS,
            ("moved by eta/100", lambda v: _moved(v, v.weights.sum() / 100)), kind="limit", needs=(COORDINATES,),
            proof="the mean after a round is E omega - sum_k E[p (1 - (1 - eta h_k)^s)] (E omega - "
            "c_k)",
        ),
        form(
            "C without idle clients", LIMIT % "p^k" + r"\text{ if every }s^k>0", _same, {"C": "holds", "C-corrected": "holds"},
            ("shifted by 1/100", lambda v: _same(v, v.weights[0] / 100)), kind="limit", needs=(NEVER_IDLE,),
            proof="E[p_tau^k s^k] = E p^k, and the recursion of [repaired]",
        ),
        form(
            "C with equal activity", LIMIT % "p^k" + r"\text{ if }P(s^k>0)\text{ is the same for all }k", _same,
            {"C": "holds", "C-corrected": "holds"}, ("shifted by 1/100", lambda v: _same(v, v.weights[0] / 100)),
            kind="limit",
            needs=(ALIKE,),
            proof="E[p_tau^k s^k] = E p^k P(s^k > 0), and the recursion of [repaired]",
        ),
        assumptions=(
            "the law of (p_tau, s_tau) does not depend on tau or on the past; quadratics; no compression; lambda = 0",
        ),
    ),
)  # fmt: skip
