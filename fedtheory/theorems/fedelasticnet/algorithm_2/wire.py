"""The threshold epsilon: points at which nothing is sent any more, and runs of Algorithm 3 whose messages alone are thresholded."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn, FedElasticNetDynState
from fedtheory.algorithms.fedelasticnet_prox import FedElasticNetProx, FedElasticNetProxState
from fedtheory.algorithms.fedelasticnet_scaffold import FedElasticNetScaffoldState
from fedtheory.errors import InvalidInput
from fedtheory.messages import Threshold
from fedtheory.rational import fraction, integer, table, vector
from fedtheory.theorems.fedelasticnet.algorithm_2.rest import kept_share
from fedtheory.theorems.fedelasticnet.algorithm_2.rounds import (
    BUILDERS,
    SEPARABLE,
    Method,
    exactly,
    numbers_of,
    play,
    quadratics,
    scaffold,
    sums,
)
from fedtheory.theory.judge.setting import ClosedView

__all__ = [
    "FEEDBACK", "FROZEN", "NO_FEEDBACK", "NO_L1", "PLAIN_MEAN", "STOPPED_1_3", "STOPPED_2", "StoppedView", "WireView",
]  # fmt: skip

MOST_ROUNDS = 200
# what a form may need
STOPPED_1_3 = "Algorithm 1 or 3, at a state in which every update is at most epsilon, and h = 0 in Algorithm 3"
STOPPED_2 = "Algorithm 2, at a state in which every update is at most epsilon"
FEEDBACK, NO_FEEDBACK = "error feedback of all that is left out", "no error feedback"
FROZEN = "no error feedback, and h_i^1 and the Delta_ki^2 of a coordinate are as in the formula"
PLAIN_MEAN, NO_L1 = "R is the plain mean of the L_k", "lambda_1 = 0"


class StoppedView(ClosedView):
    """A state at which Algorithm 1, 2 or 3 with the threshold sends nothing that moves the server, and so rests.

    ``share`` (m, d) in [-1, 1] says how close to its limit every client and coordinate is. Algorithms 1 and 3: client k's update is
    at most epsilon where |g_k - grad L_k(theta)| <= lambda_1 + epsilon (a + lambda_2), with g_k = 0 of Algorithm 1. Algorithm 2 rests
    with an update -B eta_l c of everybody, which is not sent: |c| <= epsilon/(B eta_l), and r_k = sign(c) rho + B c/S_B.

    Attributes
    ----------
    theta, grad : (d,), grad R(theta); bound : (d,)
    after, without : (d,), theta after a round with the threshold, and after a round without it
    """

    def __init__(self, number: int, h: Any, theta: Any, share: Any, g: Any, epsilon: Any, method: Method) -> None:
        self.number, self.h, self.theta, self.epsilon, self.method, self.m = number, h, theta, epsilon, method, len(h)
        self.facts = frozenset({STOPPED_2 if number == 2 else STOPPED_1_3})
        if number == 2:
            slopes, state, self.bound = self._scaffold(share)
        else:
            within = method.lambda1 + epsilon * (h + method.lambda2)
            slopes, self.bound = g - share * within, within.sum(axis=0) / self.m
            state = self._elastic(g)
        if ((h == 0) & (slopes != 0)).any():
            raise InvalidInput("h = 0 where a slope is asked for: take curvatures > 0")
        self.grad = slopes.sum(axis=0) / self.m
        world = quadratics(h, theta - slopes / np.where(h == 0, 1, h))
        everyone, steps = [list(range(self.m))], (method.B if number == 2 else None)
        both = (play(world, a, steps, method.eta, state, everyone)[0][-1] for a in self._algorithms)
        (self.after_state, self.after), (_, self.without) = ((s, s.x[0]) for s in both)
        self.state = state

    def _scaffold(self, share: Any) -> tuple[Any, Any, Any]:
        method = self.method
        q = kept_share(self.h, method)
        S, rho = sums(q, method.B), method.lambda1 * sums(q, method.B - 1) / sums(q, method.B)
        c = share[0] * self.epsilon / (method.B * method.eta)
        r = np.sign(c) * rho + method.B * c / S
        # grad L_k(theta) is r_k + c_k - c: with c_k = c for everybody it is r_k
        state = FedElasticNetScaffoldState(self.theta[None], (c + 0 * r)[None], c[None])
        return r, state, (rho + self.epsilon / (method.eta * S)).sum(axis=0) / self.m

    def _elastic(self, g: Any) -> Any:
        theta = self.theta[None]
        if self.number == 1:
            return FedElasticNetProxState(theta)
        return FedElasticNetDynState(theta, g[None], g.sum(axis=0)[None] / self.m, theta[:, None] + 0 * g[None])

    @property
    def _algorithms(self) -> tuple[Any, Any]:
        """With the threshold, which the client applies, and without."""
        l1, l2, epsilon = self.method.lambda1, self.method.lambda2, self.epsilon
        if self.number == 2:
            made: Any = scaffold(self.method)
        elif self.number == 1:
            made = exactly(FedElasticNetProx(0.0, 0.0, "cohort"), {"l1": l1, "l2": l2})
        else:
            made = exactly(FedElasticNetDyn(0.0, 1.0), {"l1": l1, "l2": l2})
        return exactly(replace(made), {"l1": l1, "l2": l2, "epsilon": epsilon}), made

    @property
    def moved(self) -> Any:
        """The move of the whole state in a round with the threshold, without the clients' own models."""
        parts = [n for n in self.state._fields if n != "local"]
        return np.array([abs(getattr(self.after_state, n) - getattr(self.state, n)).max() for n in parts])


@BUILDERS.add("threshold at rest")
def stopped_view(data: dict[str, Any]) -> StoppedView:
    """From the number of the algorithm, h, theta, share, epsilon, lambda1, lambda2; of Algorithm 2 also eta, B, eta_g; of 3 also g."""
    h, share, theta = table(data["h"], "h"), table(data["share"], "share"), vector(data["theta"], "theta")
    number, epsilon = integer(data["algorithm"], "algorithm", 1, 3), fraction(data["epsilon"], "epsilon")
    g = table(data["g"], "g") if number == 3 else 0 * h
    if h.shape != share.shape or g.shape != h.shape or len(theta) != h.shape[1] or (abs(share) > 1).any() or epsilon <= 0:
        raise InvalidInput("share in [-1, 1] and g must go with h, theta with its width; epsilon must be > 0")
    if (g.sum(axis=0) != 0).any():
        raise InvalidInput(f"g = {data['g']}: its mean is h, which must be 0 at rest")
    method = numbers_of({"eta": 1, "B": 1, **data})
    if number != 2 and method.lambda2 <= 0:
        raise InvalidInput(f"lambda_2 = {method.lambda2}: it must be > 0")
    return StoppedView(number, h, theta, share, g, epsilon, method)


class WireView(ClosedView):
    """T rounds of Algorithm 3 (sign rule, everybody, from its own start) whose messages are thresholded on their way.

    Attributes
    ----------
    theta, h : (T + 1, d); stored, delta : (T + 1, m, d) and (T, m, d)
    arrived : (T, m, d), what the server gets
    star : (d,), the optimum of R, the plain mean of the losses; None where a user's R is another mean
    """

    def __init__(
        self, world: Any, theta: Any, lambda1: Any, lambda2: Any, epsilon: Any, T: int, feedback: bool, star: Any, curvature: Any = None
    ) -> None:
        self.lambda1, self.lambda2, self.epsilon, self.m, self.star = lambda1, lambda2, epsilon, world.num_clients, star
        made = FedElasticNetDyn(float(lambda1), float(lambda2), compressor=Threshold(epsilon), client_feedback=feedback)
        algorithm = exactly(made, {"l1": lambda1, "l2": lambda2}) if world.exact else made
        begun, everyone = algorithm.init(theta[None], self.m), [range(self.m)] * T
        states, seen = play(world, algorithm, None, None, begun, everyone, lambda k: (k.results[0].y[0], k.sent[0][0]))
        self.theta, self.h, self.stored = (np.stack([getattr(s, n)[0] for s in states]) for n in ("x", "h", "stored"))
        self.delta = np.stack([y - x for (y, _), x in zip(seen, self.theta, strict=False)])
        self.arrived = np.stack([arrived for _, arrived in seen])
        self.curvature = curvature
        small = {NO_L1: lambda1 == 0, FEEDBACK: feedback, NO_FEEDBACK: not feedback}
        small |= {SEPARABLE: curvature is not None, PLAIN_MEAN: star is not None}
        facts = {**small, FROZEN: bool(self.frozen.any()) and not feedback}
        self.facts = frozenset(name for name, true in facts.items() if true)

    @cached_property
    def frozen(self) -> Any:
        """(d,) of 0 and 1: after the first round h is not 0, and |Delta_k| <= a_k |h|/lambda_2^2 <= epsilon for all clients."""
        if self.curvature is None or len(self.delta) < 2:
            return 0 * self.theta[0]
        most = self.curvature * abs(self.h[1]) / self.lambda2**2
        return ((abs(self.delta[1]) <= most) & (most <= self.epsilon)).all(axis=0).astype(int) * (self.h[1] != 0).astype(int)

    def slope(self, moved: Any) -> Any:
        """lambda_2 Delta + lambda_1 sign(Delta), what lines 5 and 11 take off."""
        return self.lambda2 * moved + self.lambda1 * np.sign(moved)

    @property
    def parted(self) -> Any:
        """h less the mean of what clients store, after every round (T, d)."""
        return (self.h - self.stored.sum(axis=1) / self.m)[1:]

    @property
    def left_out(self) -> Any:
        """The mean over the clients of all slopes so far of which the server got another one (T, d)."""
        return np.cumsum((self.slope(self.delta) - self.slope(self.arrived)).sum(axis=1) / self.m, axis=0)


@BUILDERS.add("threshold on the wire")
def wire_view(data: dict[str, Any]) -> WireView:
    """From h, c, theta, lambda1, lambda2, epsilon, T and feedback (0 or 1)."""
    h, c, theta = table(data["h"], "h"), table(data["c"], "c"), vector(data["theta"], "theta")
    lambda1, lambda2, epsilon = (fraction(data[name], name) for name in ("lambda1", "lambda2", "epsilon"))
    if len(theta) != h.shape[1] or lambda1 < 0 or lambda2 <= 0 or epsilon <= 0:
        raise InvalidInput(f"lambda_1 = {lambda1} must be >= 0, lambda_2 = {lambda2} and epsilon = {epsilon} > 0, and theta go with h")
    star = (h * c).sum(axis=0) / h.sum(axis=0)
    T, feedback = integer(data["T"], "T", 1, MOST_ROUNDS), bool(integer(data.get("feedback", 0), "feedback", 0, 1))
    return WireView(quadratics(h, c), theta, lambda1, lambda2, epsilon, T, feedback, star, h)

