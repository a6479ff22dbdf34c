"""A round of EFL in which everybody does all E steps along full gradients: step 7 of Theorem 1's proof, without G.

The proof is in docs/worst_cases.md; the semidefinite programme showed how far the printed round is from the best one.
"""

from fractions import Fraction

import numpy as np

from fedtheory.theorems.efl.local_steps import local_steps_are_proved
from fedtheory.theorems.efl.notation import SYMBOLS
from fedtheory.theorems.efl.paper import paper
from fedtheory.theorems.efl.quantities.step import COMPLETE, StepState, sq
from fedtheory.theorems.efl.runs_world import Steps
from fedtheory.theory import Sides, form, le, repaired, wrong

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


def _round(v: StepState) -> Sides:
    E, eta, q = v.law.E, v.eta, 1 - v.eta * v.mu
    c = eta**3 * (v.L - v.mu) * q * (E * (E - 1) * (2 * E - 1)) / (12 - 9 * v.turn)
    after = v.over_all(sq(v.wbar[:, :, E] - v.oracles.star))
    return le(np.array([after]), np.array([q ** (2 * E) * v.start_sq]), np.array([c * v.heterogeneity]))


@paper.statement(
    "complete-round", over=Steps, title="a round in which everybody does all E steps",
    source=SOURCE, assumptions=ASSUMPTIONS, ours=True,
    measures="squared distance to the optimum after a round",
    symbols=SYMBOLS | {"t": "StepState.turn"},
)
def complete_round(q):
    """The round's contraction, and what the clients' differences add."""
    yield repaired(
        lambda: q.each(_round), ROUND,
        wrong("nine tenths of the first term", share=(Fraction(9, 10), 1)),
        wrong("a tenth of the second term", share=(1, Fraction(1, 10))),
        wrong("without the second term", share=(1, 0)), holds=True, needs=(COMPLETE,),
        proof="docs/worst_cases.md#potentials-of-one-round",
        note="step 7 has 1 - eta mu E/4 for the first factor and eta^2 B, with G, for the second "
        "term. The first factor is attained where all F_k have curvature mu only",
    )
    yield form(
        "for every loss", None, ROUND, holds=True, symbolic=local_steps_are_proved, proves=True,
        rules=("any",),
        note="one local step is an identity of squares in symbols, and the steps add up by sums of "
        "powers: any N, p^k, E and loss of the class, not quadratics alone",
    )
