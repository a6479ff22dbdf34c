"""Many identical clients of which few take part, as long as none of them moves: exact, by two moments.

With the true-gradient rule and |v_k| <= lambda_1 for everyone, delta_k = 0 and a round is linear in
what is kept: the clients drawn store their gradient at theta, and theta <- theta - h/lambda_2, which
is stochastic average gradient with step 1/lambda_2. Expectations over all sequences of cohorts then
follow from first and second moments, coordinate by coordinate, however many clients there are. That
nobody moves is not assumed: intervals that hold every reachable state prove it, round by round.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedelasticnet.dynamics.silent_cohorts import after_a_round
from fedtheory.theorems.fedelasticnet.quantities import ElasticConstants
from fedtheory.theory import World, derived, number, whole
from fedtheory.theory.judge.statement import Undefined

__all__ = ["MAX_ROUNDS", "MergedClients"]

MAX_ROUNDS = 2000


class _Reach:
    """Intervals around theta - theta* and every stored gradient, for each start: what can be reached."""

    def __init__(self, away: Any, curvature: Any, l2: Any, share: Any) -> None:
        self.low = self.high = away  # (starts, d)
        self.stored_low = self.stored_high = 0 * away
        self.curvature, self.l2, self.share, self.rounds = curvature, l2, share, 0

    def still(self, l1: Any) -> bool:
        """True if |g_k - grad L_k(theta)| <= lambda_1 everywhere in the intervals."""
        top = np.maximum(self.stored_high - self.curvature * self.low, self.curvature * self.high - self.stored_low)
        return bool((top <= l1).all())

    def step(self) -> None:
        """One round: at most `share` of all clients more have stored anything."""
        self.rounds += 1
        self.stored_low = np.minimum(self.stored_low, self.curvature * self.low)
        self.stored_high = np.maximum(self.stored_high, self.curvature * self.high)
        share = min(self.rounds * self.share, 1)
        low, high = share * np.minimum(self.stored_low, 0), share * np.maximum(self.stored_high, 0)
        self.low, self.high = self.low - high / self.l2, self.high - low / self.l2


class _Moments:
    """Means of a = theta - theta*, h and of the products that the next round needs; (d,) each.

    In units in which lambda_2 is 1. q is the mean square of the stored gradients, s the sum of
    gamma - theta* so far.
    """

    def __init__(self, away: Any, curvature: Any, m: Any, P: Any) -> None:
        self.curvature, self.m, self.P = curvature, m, P
        self.a, self.aa = away.sum(axis=0) / len(away), (away * away).sum(axis=0) / len(away)
        self.h = self.ah = self.hh = self.q = self.ss = self.sa = self.sh = 0 * self.a

    def look(self) -> tuple[Any, Any, Any]:
        """Adds gamma to s. Returns E <gamma - theta*, mean_k lambda_1 s_k>, its split version, E s^2."""
        ga, gh = self.aa + self.ah, self.ah + self.hh
        whole = gh - self.curvature * ga
        split = (self.a + self.h) * (self.h - self.curvature * self.a)
        self.ss = self.ss + 2 * (self.sa + self.sh) + ga + gh
        self.sa, self.sh = self.sa + ga, self.sh + gh
        return whole.sum(axis=-1), split.sum(axis=-1), self.ss

    def step(self) -> None:
        """One round, in which the cohort stores its gradients at theta."""
        share, moments = self.P / self.m, (self.aa, self.ah, self.hh, self.q)
        self.aa, self.ah, self.hh, self.q = after_a_round(self.m, self.P, self.curvature, moments)
        self.h = self.h + share * (self.curvature * self.a - self.h)
        self.sh = self.sh + share * (self.curvature * self.sa - self.sh)
        self.a, self.sa = self.a - self.h, self.sa - self.sh


@dataclass(kw_only=True)
class MergedClients(World):
    """The letters of Theorem 3.1 on a run of m identical clients, P a round, while nobody moves.

    ``once`` gives them to the forms of that theorem, which stand on quantities of this rule.

    Raises
    ------
    InvalidInput
        A cohort of more than all clients, or a client that can move.
    """

    kind = "identical clients"
    rule, rational, sampled, exact = "true-gradient", True, False, True

    h: np.ndarray = number("d", "the curvatures of every client", above=0)
    c: np.ndarray = number("d", "its minimiser")
    clients: int = whole(1, 10**9, "m")
    cohort_size: int = whole(1, 10**9, "P")
    lambda1: Fraction = number(above=0)
    lambda2: Fraction = number(above=0)
    starts: np.ndarray = number("n d", "equally likely, with g_k = 0")
    rounds: int = whole(1, MAX_ROUNDS, "T")

    d = derived(lambda v: len(v.h))
    method = derived(lambda v: v)
    beta = derived(lambda v: v.h.max())
    l1, l2 = derived(lambda v: v.lambda1), derived(lambda v: v.lambda2)
    away = derived(lambda v: v.starts - v.c, "theta^0 - theta*, of each start")
    start = derived(lambda v: (v.away * v.away).sum() / Fraction(len(v.away)), "E |gamma^0 - theta*|^2")
    C_0 = derived(lambda v: 0 * v.start, "0, as no gradient is left at the optimum")
    C_0_unsquared = derived(lambda v: v.C_0)
    C_0_true = derived(lambda v: ((v.h * v.away) ** 2).sum() / Fraction(len(v.away)))
    m, P = derived(lambda v: Fraction(v.clients)), derived(lambda v: Fraction(v.cohort_size))
    constants = derived(lambda v: ElasticConstants(v.m, v.P, v.beta, v.lambda1, v.lambda2))
    T = derived(lambda v: v._columns[0])
    excess = derived(lambda v: v._columns[3], "R(mean gamma) - R*")
    zeros = derived(lambda v: v.d + 0 * v.T)

    @classmethod
    def summary(cls, witness: Any) -> str:
        """Describe the instance by its size."""
        w = cls.from_data(witness.data)
        starts = f", {len(w.starts)} starts" if len(w.starts) > 1 else ""
        return f"m = {w.clients}, P = {w.cohort_size}, d = {w.d}, T = {w.rounds}{starts}"

    @classmethod
    def told(cls, witness: Any, rows: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Give the clients, the numbers of the method, and the starts."""
        w = cls.from_data(witness.data)
        h, c, *starts = (", ".join(map(str, v)) for v in (w.h, w.c, *w.starts))
        return [
            (f"client 0 ({w.clients} identical)", f"h = {h}; c = {c}"),
            ("lambda_1, lambda_2", f"{w.lambda1}, {w.lambda2}"),
            ("equally likely starts", "; ".join(starts)),
        ]

    def __post_init__(self) -> None:
        if self.cohort_size > self.clients:
            raise InvalidInput(f"cohort_size = {self.cohort_size} of {self.clients} clients")

    @cached_property
    def _columns(self) -> Any:
        """T, the sums of the inner products and of their split versions, and R(mean gamma) - R*: (T, 1) each."""
        reach = _Reach(self.away, self.h, self.lambda2, self.P / self.m)
        moments = _Moments(self.away, self.h / self.lambda2, self.m, self.P)
        sums, rows = (Fraction(0), Fraction(0)), []
        for t in range(1, self.rounds + 1):
            if not reach.still(self.lambda1):
                raise InvalidInput(
                    f"a client can move in round {t}: merged clients are followed only while nobody moves"
                )
            product, split, square = moments.look()
            sums = sums[0] + product, sums[1] + split
            rows.append((Fraction(t), *sums, (self.h * square).sum() / (2 * t * t)))
            moments.step()
            reach.step()
        return np.array(rows, dtype=object).T[..., None]

    def last(self, name: str, split: bool = False, factor: int = -1) -> Any:
        """As `fedtheory.theorems.fedelasticnet.statements.theorem_3_1.Letters.last`."""
        if name == "own_sign":
            raise Undefined(
                "models anchored at theta_k are not followed: write the merged clients out"
            )
        found = {"s": self._columns[2 if split else 1], "sign": 0 * self.T}[name]
        return 2 * factor * found / self.T

    def once(self, of: Any) -> Any:
        """These letters."""
        return self

    def applies(self, form: Any) -> str | None:
        """Nothing else is asked."""
        return None

    def misshapen(self, shape: tuple[int, ...]) -> str | None:
        """One column, whose numbers are expectations."""
        return None

    def expectation(self, v: Any) -> Any:
        """The column."""
        return v[..., 0] if np.ndim(v) else v
