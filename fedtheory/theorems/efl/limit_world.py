"""The world of EFL's limits under irregular participation, for all four schemes.

On quadratics the mean of w obeys an affine recursion, coordinate by coordinate: with
m_k(s) = E[p_tau^k; s^k = s], E w' = E w - sum_k sum_s m_k(s) (1 - (1 - eta h_k)^s)(E w - c_k). Its
fixed point for a constant step, and the limit for steps that tend to 0, are in closed form.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.participation.coefficients import SCHEMES, Scheme
from fedtheory.participation.moments import round_moments
from fedtheory.rational import simplest_each
from fedtheory.theorems.efl.cases import given
from fedtheory.theorems.efl.cases.theorem_1 import law_of
from fedtheory.theorems.efl.world import CONVEX, DIAGONAL, ONE_LAW, PLAIN, Clients
from fedtheory.theory import Case, ClosedView, Fact, Form, derived, number, whole, word
from fedtheory.theory.draws import law as law_drawn
from fedtheory.theory.draws import rows, shares, signed
from fedtheory.theory.rounds.coefficients import RoundLaw

IN_FRACTIONS = 30  # rounds of a run in fractions, at most
NEVER_IDLE = Fact("P(s^k > 0) = 1 for all clients", lambda q: not any(q.law[:, 0]))
ALIKE = Fact(
    "P(s^k > 0) is the same for all clients", lambda q: (q.law[:, 0] == q.law[0, 0]).all()
)
EQUAL_LAWS = Fact(
    "the law of s^k is the same for all clients", lambda q: (q.law == q.law[0]).all()
)
FRACTIONS = Fact("eta h_k <= 1 for all k, judged in fractions")
LEMMA = Fact(
    "eta_tau = a/(tau + b) with 1 < a M <= b in every coordinate, and a h_k <= b for all k"
)
COORDINATES = Fact("quadratics whose coordinates do not mix")


@dataclass
class LimitView(Clients):
    """Quadratic clients, laws of s^k and a scheme.

    eta is a constant step; rounds, x0, step and offset are of a run with steps step/(tau + offset).
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

    shows: ClassVar = {"omega*": "star", "limit": "limit"}
    demands = (
        Fact("0 < eta h <= 1", lambda q: 0 < q.eta * q.h.max() <= 1),
        Fact("0 < step h <= offset", lambda q: 0 < q.step * q.h.max() <= q.offset),
    )
    noise = 0  # of the two points

    scheme: Scheme = word(*SCHEMES)
    law: np.ndarray = number("N s", "P(s^k = s), s = 0..E", least=0, total=1)
    eta: Any = number()
    rounds: int = whole(1)
    x0: np.ndarray = number("d")
    step: Any = number()
    offset: Any = number()

    def __post_init__(self) -> None:
        if not self.drift.any():
            raise InvalidInput("nobody ever takes part: the limit is not defined")
        M = self.curvature
        known = (
            (COORDINATES, True), (FRACTIONS, not isinstance(self.eta, float)),
            (LEMMA, 1 < self.step * M.min() and self.step * M.max() <= self.offset),
        )
        self.facts = frozenset(name for name, here in known if here)

    @property
    def rule(self) -> str:  # type: ignore[override]
        return self.scheme

    of_round = derived(lambda q: RoundLaw(EFL(scheme=q.scheme), q.law, q.weights))
    m = derived(lambda q: q.of_round.single[0], "E[p_tau^k 1{s^k = s}] (N, E + 1)")
    drift = derived(lambda q: q.of_round.drift, "E[p_tau^k s^k] (N,)")
    limit = derived(lambda q: q.centre(q.drift), "argmin sum_k E[p_tau^k s^k] f_k")

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

    curvature = derived(
        lambda q: (q.drift[:, None] * q.h).sum(axis=0), "sum_k E[p_tau^k s^k] h_k (d,)"
    )

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
        drift = RoundLaw(EFL(scheme=scheme), law, weights).drift
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
    which is the noise of an equality between the two."""

    shows = LimitView.shows
    scheme: str  # scheme, weights, law: of EFL, p^k (N,), and (N, E + 1)
    weights: np.ndarray
    law: np.ndarray
    limit: np.ndarray  # limit, star: (d,)
    star: np.ndarray
    noise: float  # of their difference
    why: str  # what a form in fractions lacks here

    @property
    def rule(self) -> str:  # type: ignore[override]
        return self.scheme

    def applies(self, form: Form) -> str | None:
        return self.why if {FRACTIONS, COORDINATES, LEMMA} & set(form.needs) else super().applies(form)


def certified_limit(case: Case, scheme: str, law: np.ndarray, why: str) -> CertifiedLimitView:
    """Find the limit and the optimum of strongly convex losses."""
    problem = case.problem
    given.curvatures(problem)
    m = round_moments(scheme, law_of(case), 1, problem.weights)  # type: ignore[arg-type]
    drift = np.asarray(m.ps, dtype=float)
    if not drift.sum() > 0:
        raise InvalidInput("nobody ever takes part: the limit is not defined")
    at, star = given.reweighted(problem, drift).optimum(), problem.optimum()
    noise = given.distance_off(problem, at) + given.distance_off(problem, star)
    return CertifiedLimitView(scheme, problem.weights, law, at.x, star.x, noise, why)
