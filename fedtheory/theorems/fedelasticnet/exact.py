"""FedElasticNet's Algorithm 3 in exact rational arithmetic, on losses that stay rational under the soft threshold: diagonal
quadratics, and convex piecewise quadratics a coordinate at a time.

Written from the pseudocode, apart from `fedtheory.algorithms`: the second implementation that the first is compared with. The code is
generic: with `fractions.Fraction` in object arrays every number is exact; with float64 arrays the same lines run fast, which is what a
search needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedelasticnet.accumulator import Accumulator
from fedtheory.theorems.fedelasticnet.exact_identical_clients import still_run_view
from fedtheory.theorems.fedelasticnet.exact_losses import DiagonalLosses, exact_array, sqrt_upper
from fedtheory.theorems.fedelasticnet.exact_pieces import SeparableLosses
from fedtheory.theorems.fedelasticnet.notation import RULES
from fedtheory.theorems.fedelasticnet.quantities import ElasticConstants, RoundView, RunView, norm_sq, sgn

__all__ = ["DiagonalInstance", "DiagonalLosses", "RationalState", "exact_array", "sqrt_upper"]

MAX_PATHS = 20_000


class RationalState(NamedTuple):
    """A batch of S states: theta, h (S, d); stored, local (S, m, d)."""

    theta: Any
    h: Any
    stored: Any
    local: Any


def _checked_copies(copies: Any, rows: int) -> tuple[int, ...] | None:
    if copies is None:
        return None
    good = isinstance(copies, list | tuple) and all(type(n) is int and n >= 1 for n in copies)
    if not good or len(copies) != rows:
        raise InvalidInput(f"copies = {copies!r}: expected one integer >= 1 for each of the {rows} rows of h")
    return tuple(copies)


@dataclass(frozen=True)
class DiagonalInstance:
    """A problem, the method's numbers and a starting point.

    They are fractions (`DiagonalInstance.exact`), or rounded to float64 (`in_floats`).

    Attributes
    ----------
    losses : DiagonalLosses, or SeparableLosses in fractions
    x0 : (starts, d), equally likely points
    """

    losses: DiagonalLosses | SeparableLosses
    lambda1: Any
    lambda2: Any
    P: int
    rule: str
    x0: Any

    @classmethod
    def exact(
        cls, h: Any, c: Any, lambda1: Any, lambda2: Any, P: int, rule: str, x0: Any, copies: Sequence[int] | None = None
    ) -> DiagonalInstance:
        """From anything `exact_array` reads; h, c (m, d) and x0 (d,), or (n, d) for n equally likely starts.

        With ``copies`` row k stands for so many identical clients, and m is their number.

        Raises
        ------
        InvalidInput
            Shapes that disagree, a negative curvature or lambda_1, lambda_2 <= 0, P > m, an unknown
            rule, copies that are not one integer >= 1 a row.
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
        losses = DiagonalLosses(h, c, _checked_copies(copies, len(h)))
        if not isinstance(P, int) or isinstance(P, bool) or not 1 <= P <= losses.m:
            raise InvalidInput(f"cohort size P = {P!r} with m = {losses.m} clients: P must be an integer between 1 and m")
        if rule not in RULES:
            raise InvalidInput(f"rule {rule!r}: use 'sign' or 'true-gradient'")
        return cls(losses, l1, l2, P, rule, points)

    def in_floats(self) -> DiagonalInstance:
        """The same, of diagonal quadratics, in float64."""
        losses: Any = self.losses
        rounded = replace(losses, h=losses.h.astype(float), c=losses.c.astype(float))
        return replace(self, losses=rounded, lambda1=float(self.lambda1), lambda2=float(self.lambda2), x0=self.x0.astype(float))

    @property
    def starts(self) -> int:
        """So many points are equally likely at the start."""
        return len(self.x0)

    @property
    def m(self) -> int:
        return self.losses.m

    @property
    def rows(self) -> int:
        """Clients that are kept apart: m, or fewer where identical ones are merged."""
        return self.losses.shape[0]

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
        """All C(m, P) cohorts: (C, m) bool; with merged clients the full one, which is all they are stepped with."""
        if self.losses.copies is not None:
            return np.ones((1, self.rows), dtype=bool)
        cohorts = list(itertools.combinations(range(self.m), self.P))
        out = np.zeros((len(cohorts), self.m), dtype=bool)
        for row, cohort in zip(out, cohorts, strict=True):
            row[list(cohort)] = True
        return out

    def start(self) -> RationalState:
        """theta^0 = x0, g_k^0 = 0, h^0 = 0."""
        stored = np.stack([0 * self.x0] * self.rows, axis=1)
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
            new = state.stored - self.lambda2 * delta - self.lambda1 * sgn(delta)  # line 5
        else:
            new = self.losses.nearest_gradients(tilde, state.stored - self.lambda2 * delta - self.lambda1 * sgn(delta))
        here = members[None, :, :, None]
        stored = np.where(here, new[:, None], state.stored[:, None])  # lines 5 and 9
        local = np.where(here, tilde[:, None], state.local[:, None])
        h = state.h[:, None] + self.losses.mean(stored - state.stored[:, None])  # line 11
        if self.losses.copies is None:
            mean = (tilde[:, None] * members.astype(int)[None, :, :, None]).sum(axis=2) / self.constants.P
        else:
            mean = self.losses.mean(tilde[:, None])  # everyone takes part
        theta = mean - h / self.lambda2  # line 12
        return RationalState(theta, h, stored, local)

    def after(self, cohorts: Sequence[Sequence[int]]) -> RationalState:
        """The state after rounds with the given cohorts (client numbers from 0).

        Raises
        ------
        InvalidInput
            A cohort that is not P different clients, more than one start, or merged clients.
        """
        self._refuse_merged()
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

    def _refuse_merged(self) -> None:
        if self.losses.copies is not None:
            copies = list(self.losses.copies)
            raise InvalidInput(f"copies = {copies}: merged clients are for runs; write the {self.m} clients out")

    def round_view(self, state: RationalState) -> RoundView:
        """One round from the S given states, over all cohorts."""
        self._refuse_merged()
        tilde = self.virtual(state)
        after = self.step(state, self.members, tilde)
        count = len(self.members)
        one = Fraction(1, count) if self.is_exact else 1 / count
        return RoundView(
            losses=self.losses,
            constants=self.constants,
            rule=self.rule,
            theta=state.theta,
            h=state.h,
            stored=state.stored,
            local=state.local,
            tilde=tilde,
            tilde_own=self.minimise(state.local, state.stored),
            members=self.members,
            probability=np.array([one] * count, dtype=object if self.is_exact else float),
            theta_next=after.theta,
            h_next=after.h,
            stored_next=after.stored,
            local_next=after.local,
        )

    def run_view(self, rounds: int) -> RunView:
        """All horizons 1..rounds over the whole tree of cohorts.

        Raises
        ------
        InvalidInput
            When the last level would have more than 20,000 nodes; merged clients of which only some
            take part, unless they are as `still_run_view` asks.
        """
        if isinstance(self.losses, DiagonalLosses) and self.losses.copies is not None and self.P < self.m:
            return still_run_view(self, self.losses, rounds)
        cohorts = len(self.members)
        paths = self.starts
        if (leaves := paths * cohorts ** (rounds - 1)) > MAX_PATHS:
            raise InvalidInput(f"{rounds} rounds of {cohorts} cohorts make {leaves} paths; the limit is {MAX_PATHS}")
        state, rows, number = self.start(), list[dict[str, Any]](), Fraction if self.is_exact else float
        sums = Accumulator(self.losses, self.lambda1, state.theta, self.losses.mean)
        for t in range(1, rounds + 1):
            tilde, own = self.virtual(state), self.minimise(state.local, state.stored)
            gamma = state.theta + state.h / self.lambda2
            grad = self.losses.gradients_each(tilde)
            sums.add(gamma, state.theta, state.stored, tilde, grad, own)
            rows.append(sums.row(number(t)))
            if t < rounds:
                after = self.step(state, self.members, tilde)
                state = RationalState(*(a.reshape(-1, *a.shape[2:]) for a in after))
                sums.repeat(cohorts)
        dtype = object if self.is_exact else float
        columns: dict[str, Any] = {k: np.array([[r[k]] for r in rows], dtype=dtype) for k in rows[0]}
        return RunView(
            losses=self.losses,
            constants=self.constants,
            rule=self.rule,
            d=self.d,
            horizons=np.array(range(1, rounds + 1), dtype=object if self.is_exact else int),
            exact=True,
            noise=0 * columns["excess"],
            **columns,
            **self.start_constants(),
        )

    def start_constants(self) -> dict[str, Any]:
        """E ||gamma^0 - theta*||^2 and the three readings of C_0 with g_k^0 = 0: (1,) each."""
        losses, starts = self.losses, self.starts
        sq = norm_sq(losses.grad_star)[None]
        norms = np.sqrt(sq) if not self.is_exact else np.array([[sqrt_upper(q) for q in sq[0]]], dtype=object)

        def mean(values: Any) -> Any:  # over the clients, the last axis
            return losses.mean(values[..., None])[..., 0]

        true = mean(norm_sq(losses.gradients(self.x0) - losses.grad_star))
        return {
            "start_sq": norm_sq(self.x0 - losses.theta_star).sum(keepdims=True) / starts,
            "C0": mean(sq),
            "C0_printed": mean(norms),
            "C0_true": true.sum(keepdims=True) / starts,
        }
