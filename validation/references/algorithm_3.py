"""FedElasticNet's Algorithm 3 in exact rational arithmetic, on losses that stay rational under the soft threshold: diagonal
quadratics, and convex piecewise quadratics a coordinate at a time.

Written from the pseudocode, apart from `fedtheory.algorithms`: the second implementation that the first is compared with. The code is
generic: with `fractions.Fraction` in object arrays every number is exact; with float64 arrays the same lines run fast.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn, FedElasticNetDynState
from fedtheory.errors import InvalidInput
from fedtheory.participation.cohorts import Sampling, Uniform
from fedtheory.problems.base import Problem
from fedtheory.rational import in_fractions
from fedtheory.theorems.fedelasticnet.notation import RULES
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.quantities import ElasticConstants
from fedtheory.theory.rounds.losses import PieceTable, SeparableLosses, fractions
from fedtheory.theory.rounds.measured import RoundQuantities
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.oracles import ProblemWorld, SeparableWorld
from fedtheory.theory.rounds.slopes import Piece

__all__ = ["DiagonalInstance", "DiagonalLosses", "PiecewiseLosses", "RationalState", "exact_array", "exact_round", "round_view"]


def exact_array(values: Any) -> np.ndarray:
    """Nested lists or an array of ints, floats, strings such as '3/7' or Fractions, as Fractions."""
    try:
        return fractions(values)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
        raise InvalidInput(f"not a rational number: {error} (write 3, 0.25 or '3/7')") from error


class RationalLosses:
    """Losses of all clients, a coordinate at a time."""

    shape: tuple[int, int]  # rows and coordinates
    is_exact: bool  # of fractions
    values_each: Callable[[Any], Any]
    gradients_each: Callable[[Any], Any]

    @property
    def m(self) -> int:
        """The number of clients."""
        return self.shape[0]

    def mean(self, values: Any) -> Any:
        """(1/m) sum over the clients: the axis before the last."""
        return values.sum(axis=-2) / (Fraction(self.m) if self.is_exact else float(self.m))

    def values(self, x: Any) -> Any:
        return self.values_each(self._of_each(x))

    def gradients(self, x: Any) -> Any:
        return self.gradients_each(self._of_each(x))

    def _of_each(self, x: Any) -> Any:
        """One point for every row: (..., d) -> (..., m, d)."""
        return np.broadcast_to(x[..., None, :], (*x.shape[:-1], *self.shape))


class PiecewiseLosses(RationalLosses):
    """The package's in a plain mean, with the gradients at the optimum that is nearest to a point, default 0."""

    is_exact = True

    def __init__(self, pieces: Sequence[Sequence[Piece]], near: Sequence[Fraction] | None = None) -> None:
        table, m = PieceTable(pieces), len(pieces)
        self.pieces, self.shape, self.of_all = pieces, table.shape, SeparableLosses(table, np.full(m, Fraction(1, m)))
        self.values_each, self.gradients_each, self.nearest_gradients = table.value, table.gradient, table.nearest
        self.near, self._minimise = near or [Fraction(0)] * table.shape[1], table.minimise

    @cached_property
    def theta_star(self) -> np.ndarray:
        """The minimiser of R that is meant: (d,)."""
        found: np.ndarray = self.of_all.minimiser(self.near)
        return found

    @property
    def beta(self) -> Any:
        """The largest curvature of a client; None where a slope jumps."""
        return self.of_all.constants["beta"]

    def excess(self, x: Any) -> Any:
        """R(x) - R*."""
        return self.of_all.excess(x, self.theta_star)

    def minimise(self, anchor: Any, stored: Any, l1: Any, l2: Any) -> Any:
        """As `DiagonalLosses.minimise`."""
        return self._minimise(stored, l2, anchor, l1)

    @cached_property
    def grad_star(self) -> np.ndarray:
        """A subgradient of each client at theta*, whose mean is 0: (m, d)."""
        out = np.empty(self.shape, dtype=object)
        for i, x in enumerate(self.theta_star):
            ends = [row[i].slopes(x) for row in self.pieces]
            low, width = sum(e[0] for e in ends), sum(e[1] - e[0] for e in ends)
            share = -low / width if width else Fraction(0)  # 0 lies between the sums of the ends
            for k, (left, right) in enumerate(ends):
                out[k, i] = left + share * (right - left)
        return out


@dataclass(frozen=True)
class DiagonalLosses(RationalLosses):
    """L_k(x) = sum_i h_ki (x_i - c_ki)^2 / 2. h, c : (m, d)."""

    h: Any
    c: Any

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        """Rows and coordinates."""
        return self.h.shape[-2:]

    @property
    def is_exact(self) -> bool:  # type: ignore[override]
        """True if the numbers are fractions."""
        return self.h.dtype == object

    @cached_property
    def joint(self) -> Any:
        """Curvature of R: (d,)."""
        return self.mean(self.h)

    @cached_property
    def theta_star(self) -> Any:
        """The minimiser of R; 0 in coordinates R does not depend on: (d,)."""
        pull = self.mean(self.h * self.c)
        return pull / (self.joint + (self.joint == 0).astype(int))

    @cached_property
    def grad_star(self) -> Any:
        return self.h * (self.theta_star - self.c)

    @property
    def beta(self) -> Any:
        return self.h.max(axis=(-2, -1))

    @property
    def mu(self) -> Any:
        """The least curvature of R."""
        return self.joint.min(axis=-1)

    def values_each(self, y: Any) -> Any:
        return (self.h * (y - self.c) * (y - self.c)).sum(axis=-1) / 2

    def gradients_each(self, y: Any) -> Any:
        return self.h * (y - self.c)

    def minimise(self, anchor: Any, stored: Any, l1: Any, l2: Any) -> Any:
        """argmin L_k(y) - <g_k, y> + l2/2 ||y - anchor||^2 + l1 ||y - anchor||_1 for all clients: (S, m, d)."""
        v = stored - self.gradients_each(anchor)
        return anchor + np.sign(v) * np.maximum(abs(v) - l1, 0 * v) / (self.h + l2)

    def nearest_gradients(self, y: Any, g: Any) -> Any:
        """The gradients at y_k, whatever they should be near."""
        return self.gradients_each(y)

    def excess(self, x: Any) -> Any:
        away = x - self.theta_star
        return (self.joint * away * away).sum(axis=-1) / 2


class RationalState(NamedTuple):
    """A batch of S states: theta, h (S, d); stored, local (S, m, d)."""

    theta: Any
    h: Any
    stored: Any
    local: Any


@dataclass(frozen=True)
class DiagonalInstance:
    """A problem, the method's numbers and a starting point.

    They are fractions (`DiagonalInstance.exact`).

    Attributes
    ----------
    losses : DiagonalLosses, or PiecewiseLosses
    x0 : (starts, d), equally likely points
    """

    losses: DiagonalLosses | PiecewiseLosses
    lambda1: Any
    lambda2: Any
    P: int
    rule: str
    x0: Any

    @classmethod
    def exact(
        cls, h: Any, c: Any, lambda1: Any, lambda2: Any, P: int, rule: str, x0: Any
    ) -> DiagonalInstance:
        """From anything `exact_array` reads; h, c (m, d) and x0 (d,), or (n, d) for n equally likely starts.

        Raises
        ------
        InvalidInput
            Shapes that disagree, a negative curvature or lambda_1, lambda_2 <= 0, P > m, an unknown
            rule.
        """
        h, c, x0 = (exact_array(a) for a in (h, c, x0))
        l1, l2 = (exact_array([a])[0] for a in (lambda1, lambda2))
        points = x0[None] if x0.ndim == 1 else x0
        if h.ndim != 2 or h.shape != c.shape or points.shape[1:] != h.shape[1:] or 0 in h.shape + points.shape:
            raise InvalidInput(f"h {h.shape}, c {c.shape} and x0 {x0.shape} disagree: expected (m, d), (m, d) and (d,) or (n, d)")
        if (h < 0).any():
            raise InvalidInput(f"curvature h = {h.min()} is negative: the losses must be convex (h >= 0)")
        if not (h > 0).any():
            raise InvalidInput("every curvature h is 0: beta must be positive")
        if l1 < 0 or l2 <= 0:
            raise InvalidInput(f"lambda_1 = {l1} must be >= 0 and lambda_2 = {l2} > 0")
        losses = DiagonalLosses(h, c)
        if not isinstance(P, int) or isinstance(P, bool) or not 1 <= P <= losses.m:
            raise InvalidInput(f"cohort size P = {P!r} with m = {losses.m} clients: P must be an integer between 1 and m")
        if rule not in RULES:
            raise InvalidInput(f"rule {rule!r}: use 'sign' or 'true-gradient'")
        return cls(losses, l1, l2, P, rule, points)

    @property
    def starts(self) -> int:
        """So many points are equally likely at the start."""
        return len(self.x0)

    @property
    def m(self) -> int:
        return self.losses.m

    @property
    def d(self) -> int:
        return self.losses.shape[1]

    @property
    def is_exact(self) -> bool:
        return self.losses.is_exact

    @cached_property
    def constants(self) -> ElasticConstants:
        number = Fraction if self.is_exact else float
        return ElasticConstants(number(self.m), number(self.P), self.losses.beta, self.lambda1, self.lambda2)

    @cached_property
    def members(self) -> np.ndarray:
        """All C(m, P) cohorts: (C, m) bool."""
        cohorts = list(itertools.combinations(range(self.m), self.P))
        out = np.zeros((len(cohorts), self.m), dtype=bool)
        for row, cohort in zip(out, cohorts, strict=True):
            row[list(cohort)] = True
        return out

    def start(self) -> RationalState:
        """theta^0 = x0, g_k^0 = 0, h^0 = 0."""
        stored = np.stack([0 * self.x0] * self.m, axis=1)
        return RationalState(self.x0, 0 * self.x0, stored, stored + self.x0[:, None, :])

    def minimise(self, anchor: Any, stored: Any) -> Any:
        """argmin L_k(y) - <g_k, y> + lambda_2/2 ||y - anchor||^2 + lambda_1 ||y - anchor||_1 for all clients: (S, m, d)."""
        return self.losses.minimise(anchor, stored, self.lambda1, self.lambda2)

    def virtual(self, state: RationalState) -> Any:
        """theta_tilde_k of (19): (S, m, d)."""
        return self.minimise(state.theta[:, None, :] + 0 * state.stored, state.stored)

    def step(self, state: RationalState, members: np.ndarray, tilde: Any = None) -> RationalState:
        """One round with each of C cohorts. members (C, m) bool; the arrays come back as (S, C, ...)."""
        tilde = self.virtual(state) if tilde is None else tilde
        delta = tilde - state.theta[:, None, :]
        if self.rule == "sign":
            new = state.stored - self.lambda2 * delta - self.lambda1 * np.sign(delta)  # line 5
        else:
            new = self.losses.nearest_gradients(tilde, state.stored - self.lambda2 * delta - self.lambda1 * np.sign(delta))
        here = members[None, :, :, None]
        stored = np.where(here, new[:, None], state.stored[:, None])  # lines 5 and 9
        local = np.where(here, tilde[:, None], state.local[:, None])
        h = state.h[:, None] + self.losses.mean(stored - state.stored[:, None])  # line 11
        mean = (tilde[:, None] * members.astype(int)[None, :, :, None]).sum(axis=2) / self.constants.P
        theta = mean - h / self.lambda2  # line 12
        return RationalState(theta, h, stored, local)

    def after(self, cohorts: Sequence[Sequence[int]]) -> RationalState:
        """The state after rounds with the given cohorts (client numbers from 0).

        Raises
        ------
        InvalidInput
            A cohort that is not P different clients, or more than one start.
        """
        if self.starts > 1:
            raise InvalidInput(f"{self.starts} starts: one state follows from one start only")
        state = self.start()
        for t, cohort in enumerate(cohorts, 1):
            chosen = sorted({int(k) for k in cohort})
            if len(chosen) != self.P or len(cohort) != self.P or chosen[0] < 0 or chosen[-1] >= self.m:
                raise InvalidInput(f"cohort {list(cohort)} of round {t} is not P = {self.P} of the clients 0..{self.m - 1}")
            mask = np.zeros((1, self.m), dtype=bool)
            mask[0, chosen] = True
            state = RationalState(*(a[:, 0] for a in self.step(state, mask)))
        return state


def exact_round(instance: DiagonalInstance, state: RationalState) -> RoundQuantities:
    """One round of diagonal quadratics from the S given states, over all cohorts."""
    diagonal: Any = instance.losses
    h, c, m = diagonal.h, diagonal.c, instance.m
    none, weights = np.full(h.shape, None), np.full(m, Fraction(1, m))
    losses = SeparableLosses.of(0 * h, c, h, 0 * h, none, weights, exact=instance.is_exact)
    numbers = {"l1": instance.lambda1, "l2": instance.lambda2}
    method: Any = FedElasticNetDyn(float(instance.lambda1), float(instance.lambda2), instance.rule)  # type: ignore[arg-type]
    method = in_fractions(method, numbers) if instance.is_exact else method
    begun = FedElasticNetDynState(state.theta, state.stored, state.h, state.local)
    return round_view(SeparableWorld(losses, instance.x0[0]), method, Uniform(instance.P), begun)


def round_view(on: Any, algorithm: Any, sampling: Sampling, state: FedElasticNetDynState) -> RoundQuantities:
    """One round of the package's Algorithm 3 from S given states, over all cohorts of the law.

    on : Problem, or a world of `fedtheory.theory.rounds.oracles`
    """
    setting = MethodSetting.of(FILE["lemma-b4"].variants[algorithm.rule])
    world = ProblemWorld(on) if isinstance(on, Problem) else on
    return replace(setting, method=algorithm).round_from(world, state._asdict(), sampling, {})
