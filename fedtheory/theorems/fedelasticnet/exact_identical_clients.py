"""Many identical clients of which few take part, as long as none of them moves: exact, by two moments.

With the true-gradient rule and |v_k| <= lambda_1 for everyone, delta_k = 0 and a round is linear in
what is kept: the clients drawn store their gradient at theta, and theta <- theta - h/lambda_2, which
is stochastic average gradient with step 1/lambda_2. Expectations over all sequences of cohorts then
follow from first and second moments, coordinate by coordinate, however many clients there are. That
nobody moves is not assumed: intervals that hold every reachable state prove it, round by round.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedelasticnet.exact_losses import DiagonalLosses
from fedtheory.theorems.fedelasticnet.quantities import RunView
from fedtheory.theory.judge.record import Missing

__all__ = ["still_run_view"]


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

    q is the mean square of the stored gradients, s the sum of gamma - theta* so far.
    """

    def __init__(self, away: Any, curvature: Any, l2: Any, m: Any, P: Any) -> None:
        self.curvature, self.l2, self.m, self.P = curvature, l2, m, P
        self.a, self.aa = away.sum(axis=0) / len(away), (away * away).sum(axis=0) / len(away)
        zero = 0 * self.a
        self.h, self.ah, self.hh, self.q = zero, zero, zero, zero
        self.ss, self.sa, self.sh = zero, zero, zero

    def look(self) -> tuple[Any, Any, Any]:
        """Adds gamma to s. Returns E <gamma - theta*, mean_k lambda_1 s_k>, its split version, E s^2."""
        l2, curvature = self.l2, self.curvature
        gamma, ga, gh = self.a + self.h / l2, self.aa + self.ah / l2, self.ah + self.hh / l2
        whole, split = gh - curvature * ga, gamma * (self.h - curvature * self.a)
        sg = self.sa + self.sh / l2
        self.ss = self.ss + 2 * sg + ga + gh / l2
        self.sa, self.sh = self.sa + ga, self.sh + gh
        return whole.sum(axis=-1), split.sum(axis=-1), self.ss

    def step(self) -> None:
        """One round: with d_k = grad L_k(theta) - g_k the cohort adds sum_{k in P_t} d_k/m to h."""
        c, l2, m, P = self.curvature, self.l2, self.m, self.P
        share = P / m
        square = c * c * self.aa - 2 * c * self.ah + self.q  # E mean_k d_k^2
        joint = c * c * self.aa - 2 * c * self.ah + self.hh  # E (mean_k d_k)^2
        pairs = P * (P - 1) * (m * joint - square) / (m - 1) if P > 1 else 0 * joint
        hd, ad, sd = c * self.ah - self.hh, c * self.aa - self.ah, c * self.sa - self.sh  # times mean_k d_k
        hh = self.hh + 2 * share * hd + (P * square + pairs) / (m * m)
        ah, sh = self.ah + share * ad, self.sh + share * sd  # old theta and s, new h
        self.q = (1 - share) * self.q + share * c * c * self.aa
        self.h = self.h + share * (c * self.a - self.h)
        self.aa = self.aa - 2 * ah / l2 + hh / (l2 * l2)
        self.a, self.sa = self.a - self.h / l2, self.sa - sh / l2
        self.ah, self.hh, self.sh = ah - hh / l2, hh, sh


def still_run_view(instance: Any, losses: DiagonalLosses, rounds: int) -> RunView:
    """All horizons 1..rounds of m identical clients, P a round, while nobody moves (true-gradient rule).

    What is anchored at theta_k^{t-1} is not followed, and `Missing`.

    Parameters
    ----------
    instance : `fedtheory.theorems.fedelasticnet.exact.DiagonalInstance`

    Raises
    ------
    InvalidInput
        Clients of several kinds, the sign rule, or a client that can move.
    """
    if instance.rows > 1 or instance.rule != "true-gradient":
        raise InvalidInput(
            f"copies = {list(losses.copies or ())} with P = {instance.P} of m = {instance.m} under the "
            f"{instance.rule} rule: merged clients of which some stay away must all be identical (one row), under "
            "the true-gradient rule"
        )
    constants = instance.constants
    [curvature], away = losses.h, instance.x0 - losses.theta_star
    reach = _Reach(away, curvature, constants.lambda2, constants.P / constants.m)
    moments = _Moments(away, curvature, constants.lambda2, constants.m, constants.P)
    rows: dict[str, list[Any]] = {n: [] for n in ("excess", "exact", "split")}
    whole, split = 0, 0
    for t in range(1, rounds + 1):
        if not reach.still(constants.lambda1):
            raise InvalidInput(f"a client can move in round {t}: merged clients are followed only while nobody moves")
        more, apart, square = moments.look()
        whole, split = whole + more, split + apart
        rows["excess"].append([(curvature * square).sum() / (2 * t * t)])
        rows["exact"].append([whole])
        rows["split"].append([split])
        moments.step()
        reach.step()
    own = Missing("models anchored at theta_k are not followed: write the merged clients out")
    dtype = object if instance.is_exact else float
    column = {k: np.array(r, dtype=dtype) for k, r in rows.items()}
    return RunView(
        losses=losses,
        constants=constants,
        rule=instance.rule,
        d=instance.d,
        horizons=np.array(range(1, rounds + 1), dtype=object if instance.is_exact else int),
        exact=True,
        excess=column["excess"],
        noise=0 * column["excess"],
        inner_exact=column["exact"],
        inner_sign=0 * column["exact"],
        inner_own_sign=own,
        inner_split=column["split"],
        inner_split_sign=0 * column["split"],
        inner_split_own_sign=own,
        zeros=0 * column["exact"] + instance.d,
        **instance.start_constants(),
    )
