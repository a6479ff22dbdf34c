"""A round of EFL in which everybody does all E steps along full gradients: step 7 of Theorem 1's proof, without G.

The proof is in docs/worst_cases.md; the semidefinite programme showed how far the printed round is from the best one.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.theorems.efl.notation import HOLDS, statement
from fedtheory.theorems.efl.quantities.step import COMPLETE, StepState, StepsView, sq
from fedtheory.theory.judge.statement import Sides, form, le
from fedtheory.worst_cases.proofs import local_steps_are_proved

__all__ = ["STATEMENTS"]

SOURCE = "ours: section 3.3, the round of Theorem 1 with s_tau^k = E for all k"
ASSUMPTIONS = (
    "every F_k is mu-strongly convex and L-smooth, and does not change: lambda = 0, or frozen anchors",
    "all clients do all E steps along full gradients, with p_tau^k = p^k; nothing is compressed",
    "t = eta (L - mu) E/(1 - eta mu)^E < 4/3 and eta mu < 1",
)
ROUND = (
    r"\|\omega_{\tau+1}-\omega^*\|^2\le(1-\eta\mu)^{2E}\|\omega_\tau-\omega^*\|^2+\frac{\eta^3(L-\mu)(1-\eta\mu)E(E-1)(2E-1)}{12-9t}"
    r"\sum_kp^k\|\nabla F_k(\omega^*)\|^2,\quad t=\tfrac{\eta(L-\mu)E}{(1-\eta\mu)^E}<\tfrac43"
)


def _round(v: StepState, contraction: Any = 1, floor: Any = 1) -> Sides:
    E, eta, q = v.law.E, v.eta, 1 - v.eta * v.mu
    c = eta**3 * (v.L - v.mu) * q * (E * (E - 1) * (2 * E - 1)) / (12 - 9 * v.turn)
    after = v.over_all(sq(v.wbar[:, :, E] - v.oracles.star))
    return le(np.array([after]), np.array([contraction * q ** (2 * E) * v.start_sq]), np.array([floor * c * v.heterogeneity]))


def _judged(**change: Any) -> Any:
    def sides(v: StepsView) -> Sides:
        exact = v.states[0].w0.dtype == object
        return v.each(lambda state: _round(state, **{name: x if exact else float(x) for name, x in change.items()}))

    return sides


STATEMENTS = (
    statement(
        "complete-round", "a round in which everybody does all E steps", SOURCE,
        form(
            "repaired", ROUND, _judged(), HOLDS,
            ("nine tenths of the first term", _judged(contraction=Fraction(9, 10))),
            ("a tenth of the second term", _judged(floor=Fraction(1, 10))),
            ("without the second term", _judged(floor=0)), kind="step", needs=(COMPLETE,),
            note="step 7 has 1 - eta mu E/4 for the first factor and eta^2 B, with G, for the "
            "second term. The first factor is attained where all F_k have curvature mu only",
            proof="docs/worst_cases.md#potentials-of-one-round",
        ),
        form(
            "for every loss", ROUND, None, "holds", symbolic=local_steps_are_proved, proves=True,
            kind="step",
            note="one local step is an identity of squares in symbols, and the steps add up by "
            "sums of powers: any N, p^k, E and loss of the class, not quadratics alone",
        ),
        assumptions=ASSUMPTIONS, kind="sharpened", t="StepState.turn",
        measures="squared distance to the optimum after a round",
    ),
)
