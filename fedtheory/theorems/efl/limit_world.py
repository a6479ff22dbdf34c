"""The world of EFL's limits under irregular participation, for all four schemes.

On quadratics the mean of w obeys an affine recursion, coordinate by coordinate: with
m_k(s) = E[p_tau^k; s^k = s], E w' = E w - sum_k sum_s m_k(s) (1 - (1 - eta h_k)^s)(E w - c_k). Its
fixed point for a constant step, and the limit for steps that tend to 0, are in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np

from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.participation.coefficients import SCHEMES, Scheme
from fedtheory.participation.moments import round_moments
from fedtheory.rational import fraction, integer, simplest_each, table, text, vector
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.cases.theorem_1 import law_of
from fedtheory.theorems.efl.draws import law as law_drawn
from fedtheory.theorems.efl.draws import rows, shares, signed
from fedtheory.theorems.efl.world import CONVEX, DIAGONAL, ONE_LAW, PLAIN, EFLWorld, clients_of
from fedtheory.theory import Fact
from fedtheory.theory.judge.case import Case
from fedtheory.theory.judge.statement import Form
from fedtheory.theory.judge.view import ClosedView
from fedtheory.theory.rounds.coefficients import RoundLaw

IN_FRACTIONS = 30  # rounds of a run in fractions, at most
NEVER_IDLE = Fact("P(s^k > 0) = 1 for all clients")
ALIKE = Fact("P(s^k > 0) is the same for all clients")
EQUAL_LAWS = Fact("the law of s^k is the same for all clients")
FRACTIONS = Fact("eta h_k <= 1 for all k, judged in fractions")
LEMMA = Fact(
    "eta_tau = a/(tau + b) with 1 < a M <= b in every coordinate, and a h_k <= b for all k"
)
COORDINATES = Fact("quadratics whose coordinates do not mix")


def facts_of(law: np.ndarray) -> set[str]:
    """Return the facts that hold of the clients' laws (N, E + 1)."""
    known = (
        (NEVER_IDLE, not any(law[:, 0])), (ALIKE, all(v == law[0, 0] for v in law[:, 0])),
        (EQUAL_LAWS, (law == law[0]).all()),
    )
    return {name for name, here in known if here}


@dataclass
class LimitView(EFLWorld):
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

    kind, about = "limit", "about where runs end under each scheme"
    asks = (
        f"{DIAGONAL}; any {CONVEX} for the forms about the limit alone", ONE_LAW, PLAIN,
        "full gradients",
    )  # fmt: skip
    example = (
        "--problem diabetes --clients 3 --incomplete uniform --inactive 0.1,0.2,0.3"
    )
    count, rules = 60, SCHEMES

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

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """Make an instance of scheme, weights, h, c, law (rows over s = 0..E), eta, and of a run.

        Of the run they are rounds, x0, step and offset; with "arithmetic": "float" the numbers are
        turned into floats, for long runs (which prove nothing).

        Raises
        ------
        InvalidInput
            Laws or weights that are none; steps above 1/max h.
        """
        if data["scheme"] not in SCHEMES:
            raise InvalidInput(f"scheme = {data['scheme']!r}: use one of {', '.join(SCHEMES)}")
        (weights, h, c), law = clients_of(data), table(data["law"], "law")
        eta, step, offset = (fraction(data[k], k) for k in ("eta", "step", "offset"))
        x0, rounds = vector(data["x0"], "x0"), integer(data["rounds"], "rounds", 1)
        if len(law) != len(h) or len(x0) != h.shape[1]:
            raise InvalidInput(f"h {h.shape}, law {law.shape} and x0 {x0.shape} do not fit together")
        if law.min() < 0 or any(row.sum() != 1 for row in law):
            raise InvalidInput("every row of law must be a probability")
        if not 0 < eta * h.max() <= 1 or not 0 < step * h.max() <= offset:
            raise InvalidInput("the steps eta and step/offset must be > 0 and at most 1/max h")
        parts: list[Any] = [weights, h, c, law, eta, x0, step, offset]
        if data.get("arithmetic") == "float":
            parts = [v.astype(float) if isinstance(v, np.ndarray) else float(v) for v in parts]
        weights, h, c, law, eta, x0, step, offset = parts
        return cls(data["scheme"], weights, h, c, law, eta, rounds, x0, step, offset)

    @classmethod
    def draw(
        cls, rng: Any, number: int | None = None, long: bool = False
    ) -> tuple[str, dict[str, Any]]:
        """Draw clients, their laws and a scheme, which a campaign takes in turn; long runs in floats."""
        scheme = str(rng.choice(SCHEMES)) if number is None else SCHEMES[number % 4]
        long = long if number is None else number % 10 == 9
        n, most, d = int(rng.integers(1, 4)), int(rng.integers(1, 5)), int(rng.integers(1, 3))
        idle = rng.random() < 0.7
        law = [law_drawn(rng, most, idle) for _ in range(n)]
        if rng.random() < 0.2:
            law = [law[0]] * n
        if scheme == "A" and not any(row[-1] for row in law):  # somebody is complete now and then
            law[0] = [Fraction(0)] * most + [Fraction(1)]
        h, step = rows(rng, n, d, lambda g: Fraction(int(g.integers(2, 9)), 8)), Fraction(int(rng.integers(2, 30)))
        data = {
            "scheme": scheme, "weights": shares(rng, n), "h": h, "c": rows(rng, n, d, signed),
            "law": law, "eta": Fraction(1, int(rng.integers(1, 20))),
            "x0": [signed(rng) for _ in range(d)], "step": step, "offset": step * (n * most),
            "rounds": 4000 if long else int(rng.integers(1, 5)),
        }
        if long:
            data["arithmetic"] = "float"
        return f"{scheme} N={n} E={most} d={d}" + (" long run" if long else ""), data

    @classmethod
    def search_instance(cls, rng: Any) -> Any:
        """Draw one, a long run in floats now and then."""
        return cls.instance(*cls.draw(rng, long=rng.random() < 0.02))

    @classmethod
    def apart(cls, form: Any) -> bool:
        """True of a form about a run, which may be long."""
        return LEMMA in form.needs

    @classmethod
    def on_problem(cls, statement: str, case: Case) -> Any:
        """Find quadratics whose coordinates do not mix; of other strongly convex losses two points.

        Where no step is given eta = 1/(2L). The steps a/(tau + b) of the decaying run have
        a = 2/min_i M_i and b = a max{max_i M_i, L}, with M = sum_k E[p s] h_k, so that
        1 < a M <= b.
        """
        scheme = given.uncompressed(case.algorithm).scheme
        given.constant_step(case, 1)  # mini-batches, noise and schedules are refused for any losses
        law = given.law_in_fractions(case, scheme)
        try:
            h, c = given.coordinates_of(case.problem)
        except MissingCapability as error:
            return certified_limit(case, scheme, law, str(error))
        weights = given.weights_of(case.problem)
        drift = (RoundLaw(EFL(scheme=scheme), law, weights).single[0] * np.arange(law.shape[1])).sum(axis=1)
        M = (drift[:, None] * h).sum(axis=0)
        if not M.min() > 0:
            raise InvalidInput("nobody ever takes part: the limit is not defined")
        eta = given.constant_step(case, 1 / (2 * h.max()))
        if eta * h.max() > 1:
            raise InvalidInput(f"lr = {float(eta):.6g}: the limit is 1/L = {float(1 / h.max()):.6g}")
        step = 2 / M.min()
        rounds = case.rounds or 10
        data = {
            "scheme": scheme, "weights": weights, "h": h, "c": c, "law": law, "eta": eta,
            "x0": simplest_each(case.x0), "step": step, "offset": step * max(M.max(), h.max()),
            "rounds": min(rounds, 10_000),
        }
        if rounds > IN_FRACTIONS:
            if cls.apart(case.form):
                data["arithmetic"] = "float"
            else:
                data["rounds"] = 1  # of a run that the form does not look at
        return data


@dataclass
class CertifiedLimitView(ClosedView):
    """The limit and the optimum of any strongly convex problem, as certified points.

    The mean move of a round is -eta sum_k E[p s] grad f_k(w) + O(eta^2), so that steps which tend to 0 and sum to infinity
    lead to the one zero of the sum, argmin sum_k E[p s] f_k. A point with gradient g is within ||g||/mu of its minimiser,
    which is the noise of an equality between the two.

    Attributes
    ----------
    scheme, weights : (N,) p^k
    limit, star : (d,)
    noise : of their difference
    why : what a form in fractions lacks here
    """

    scheme: str
    weights: np.ndarray
    limit: np.ndarray
    star: np.ndarray
    noise: float
    why: str
    facts: frozenset[str]

    @property
    def rule(self) -> str:  # type: ignore[override]
        return self.scheme

    def applies(self, form: Form) -> str | None:
        return self.why if {FRACTIONS, COORDINATES, LEMMA} & set(form.needs) else super().applies(form)

    def printed_constants(self) -> dict[str, Any]:
        return {"omega*": [float(x) for x in self.star], "limit": [float(x) for x in self.limit]}


def certified_limit(case: Case, scheme: str, law: np.ndarray, why: str) -> CertifiedLimitView:
    """Find the limit and the optimum of strongly convex losses."""
    problem = case.problem
    if not problem.mu_k.min() > 0:
        k = int(np.argmin(problem.mu_k))
        raise InvalidInput(f"client {k} has mu_k = {float(problem.mu_k[k]):.6g}, the limit is > 0: add a ridge")
    m = round_moments(scheme, law_of(case), 1, problem.weights)  # type: ignore[arg-type]
    drift = np.asarray(m.ps, dtype=float)
    if not drift.sum() > 0:
        raise InvalidInput("nobody ever takes part: the limit is not defined")
    at, star = given.reweighted(problem, drift).optimum(), problem.optimum()
    noise = given.distance_off(problem, at) + given.distance_off(problem, star)
    facts = frozenset(facts_of(law))
    return CertifiedLimitView(scheme, problem.weights, at.x, star.x, noise, why, facts)
