"""Many identical clients of which few take part, as long as none of them moves: exact, by two moments.

With the true-gradient rule and |v_k| <= lambda_1 for everyone, delta_k = 0 and a round is linear in
what is kept: the clients drawn store their gradient at theta, and theta <- theta - h/lambda_2, which
is stochastic average gradient with step 1/lambda_2. Expectations over all sequences of cohorts then
follow from first and second moments, coordinate by coordinate, however many clients there are. That
nobody moves is not assumed: intervals that hold every reachable state prove it, round by round.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import fraction, integer, table
from fedtheory.theorems.fedelasticnet.dynamics.silent_cohorts import after_a_round
from fedtheory.theorems.fedelasticnet.exact_witness import MERGED, DiagonalWitness
from fedtheory.theorems.fedelasticnet.quantities import ElasticConstants
from fedtheory.theory import World
from fedtheory.theory.judge.statement import Undefined

__all__ = ["MAX_ROUNDS", "StillRun"]

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


class StillRun(World):
    """The letters of Theorem 3.1 on a run of m identical clients, P a round, while nobody moves.

    ``once`` gives them to the forms of that theorem, which stand on quantities of this rule.

    Raises
    ------
    InvalidInput
        Clients of several kinds, a horizon out of range, or a client that can move.
    """

    kind = MERGED
    rule, rational, sampled, exact = "true-gradient", True, False, True

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> StillRun:
        """Make one from the data of a witness file."""
        return cls(DiagonalWitness.from_data(data, MERGED))

    @classmethod
    def summary(cls, witness: Any) -> str:
        """Describe the instance by its size."""
        return DiagonalWitness.from_witness(witness).size

    @classmethod
    def told(cls, witness: Any, rows: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Give the clients, the numbers of the method, and the starts."""
        w = DiagonalWitness.from_witness(witness)
        return [
            (f"client 0 ({w.m} identical)", f"h = {', '.join(w.h[0])}; c = {', '.join(w.c[0])}"),
            ("lambda_1, lambda_2", f"{w.lambda1}, {w.lambda2}"),
            ("equally likely starts", "; ".join(", ".join(x) for x in w.starts)),
        ]

    def __init__(self, w: Any) -> None:
        h, c, x0 = (table(v) for v in (w.h, w.c, w.starts))
        m, self.l1, self.l2 = Fraction(w.m), fraction(w.lambda1), fraction(w.lambda2)
        if not isinstance(w.P, int) or not 1 <= w.P <= w.m:
            raise InvalidInput(f"P = {w.P!r} of {w.m}: it must be an integer between 1 and m")
        if len(h) > 1:
            raise InvalidInput(
                f"copies = {w.copies} with P = {w.P} of m = {w.m}: merged clients of which some "
                "stay away must all be identical (one row)"
            )
        if not self.l1 > 0:
            raise InvalidInput(f"lambda_1 = {self.l1} is not above 0, as Algorithm 3 asks")
        [curvature], away, self.d = h, x0 - c, h.shape[1]
        self.method, self.beta = self, curvature.max()
        self.constants: Any = ElasticConstants(m, Fraction(w.P), self.beta, self.l1, self.l2)
        reach = _Reach(away, curvature, self.l2, w.P / m)
        moments = _Moments(away, curvature / self.l2, m, w.P)
        sums, rows = (Fraction(0), Fraction(0)), []
        for t in range(1, integer(w.T, "T", 1, MAX_ROUNDS) + 1):
            if not reach.still(self.l1):
                raise InvalidInput(f"a client can move in round {t}: merged clients are followed only while nobody moves")
            whole, split, square = moments.look()
            sums = sums[0] + whole, sums[1] + split
            rows.append((Fraction(t), *sums, (curvature * square).sum() / (2 * t * t)))
            moments.step()
            reach.step()
        columns = np.array(rows, dtype=object).T[..., None]
        self.T, self._whole, self._split, self.excess = columns
        self.zeros = self.d + 0 * self.T
        self.start = (away * away).sum() / Fraction(len(away))
        self.C_0 = self.C_0_unsquared = 0 * self.start  # at the optimum no gradient is left
        self.C_0_true = ((curvature * away) ** 2).sum() / Fraction(len(away))

    def last(self, name: str, split: bool = False, factor: int = -1) -> Any:
        """As `fedtheory.theorems.fedelasticnet.statements.theorem_3_1.Letters.last`."""
        if name == "own_sign":
            raise Undefined(
                "models anchored at theta_k are not followed: write the merged clients out"
            )
        found = {"s": self._split if split else self._whole, "sign": 0 * self.T}[name]
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
