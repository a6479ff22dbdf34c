"""EFL, sections 4.3 and 4.4: Theorem 1 across a departure or an arrival, with the start that
Theorem 2 leaves it.

At the shift E||w - hat omega*||^2 <= (1 + alpha) E||w - omega*||^2 + (1 + 1/alpha) ||omega* - hat
omega*||^2 for every alpha > 0: the first part is bounded by Theorem 1, the second one by Theorem 2.
From there Theorem 1 starts again, for the new objective.
"""

from fractions import Fraction

import numpy as np

from fedtheory.theorems.efl.after_shift_world import ShiftedRunView
from fedtheory.theorems.efl.paper import paper
from fedtheory.theorems.efl.theorem_1 import ASSUMPTIONS
from fedtheory.theory import Sides, form, le, wrong

ACROSS = "docs/efl_sentences.md#the-shift-theorem-1-across-a-departure-or-an-arrival"
ALPHAS = (Fraction(1, 100), Fraction(1, 3), Fraction(1), Fraction(3))
AT_SHIFT = r"\mathbb E\|\omega_{\tau_0}-\hat\omega^*\|^2\le"
A_IS = r"A=\tfrac{C_{\tau_0}}{(\tau_0E+\gamma)^2}+\tfrac{H_{\tau_0}J}{\tau_0E+\gamma}"
THETA = r"\Theta=\tfrac{2Ln_a^2\hat D_a}{\mu^2n^2}"
AFTER = (
    r"\mathbb "
    r"E\|\omega_{\tau_0+\tau}-\hat\omega^*\|^2\le\tfrac{y_0^2((1+\alpha)A+(1+\frac1\alpha)\Theta)+(16E/\mu)^2\sum_{t<\tau}\mathbb "
    r"E[\hat B_t]/\hat S_t^2}"
    r"{(\tau E+y_0)^2}+\tfrac{\hat H_\tau\hat J}{\tau E+y_0},\ "
)


def _start(v: ShiftedRunView, kept: bool = False) -> np.ndarray:
    """(1 + alpha) A and (1 + 1/alpha) Theta of every alpha, (2, 4)."""
    A, moves = v.reached(kept), v.moved()
    return np.array(
        [[A + A * a.numerator / a.denominator for a in ALPHAS], [moves + moves * a.denominator / a.numerator for a in ALPHAS]]
    )


def _at_the_shift(v: ShiftedRunView) -> Sides:
    """E||w_{tau_0} - hat omega*||^2 <= (1 + alpha) A + (1 + 1/alpha) Theta."""
    parts = _start(v)
    return le(v.fresh.distance_sq[0] + 0 * parts[0], *parts, noise=v.noise)


def _afterwards(v: ShiftedRunView, kept: bool) -> Sides:
    """Theorem 1 from the shift on, with the least of these for the squared distance there."""
    leg = v.kept if kept else v.fresh
    return le(leg.distance_sq, *leg.terms(_start(v, kept).sum(axis=0).min()), noise=v.noise)


@paper.statement(
    "shift-bound", over=ShiftedRunView, title="Theorem 1 across a departure or an arrival",
    source="sections 4.3 and 4.4, with Theorems 1 and 2",
    assumptions=(*ASSUMPTIONS, "L and mu are those of all clients, before and after"),
    measures="mean squared distance to the new optimum",
)
def shift_bound(q):
    """The sum of both bounds, and what holds of the run at the shift and after it."""
    yield form(
        "an additional term",
        lambda: le(q.fresh.distance_sq[0], q.reached(), q.moved(8, printed=True), noise=q.noise),
        AT_SHIFT + r"\tfrac{C_{\tau_0}}{(\tau_0E+\gamma)^2}+\tfrac{H_{\tau_0}J}{\tau_0E+\gamma}+"
        r"\tfrac{8Ln_a^2\hat D_a}{\mu^2n^2}\text{ (an arrival: }(n+n_a)^2\text{ for }n^2)",
        fails=True, wording="in words",
        note="squared distances do not add up: the cross term 2<w - omega*, omega* - hat omega*> "
        "is missing. Theorem 1's bound is the repaired one",
    )
    yield form(
        "at the shift", lambda: _at_the_shift(q),
        AT_SHIFT + r"(1+\alpha)A+(1+\tfrac1\alpha)\Theta,\ " + A_IS + r",\ " + THETA +
        r",\ \alpha\in\{\tfrac1{100},\tfrac13,1,3\}",
        wrong("nine tenths of A", share=(Fraction(9, 10), 1)),
        wrong("nine tenths of Theta", share=(1, Fraction(9, 10))), holds=True, proof=ACROSS,
        note="A is Theorem 1's bound for the old objective, Theta the bound of Theorem 2 with 2 "
        "for 8 and, of an arrival, n for n + n_a. It holds for every alpha > 0; the least is (sqrt "
        "A + sqrt Theta)^2",
    )
    yield form(
        "approximately",
        lambda: le(
            abs(q.fresh.distance_sq[0] - q.shift.distance_sq), 3 * q.reached(), q.moved() / 2, noise=q.noise
        ),
        r"\big|\mathbb "
        r"E\|\omega_{\tau_0}-\hat\omega^*\|^2-\|\omega^*-\hat\omega^*\|^2\big|\le3A+\tfrac12\Theta",
        wrong("without A", share=(0, 1)), holds=True,
        proof="the difference is at most A + 2 sqrt(A Theta) by Cauchy-Schwarz, and 2 sqrt(A "
        "Theta) <= 2A + Theta/2",
        note="section 4.4's approximation, with its error: A + 2 sqrt(A Theta) <= 3A + Theta/2. A "
        "tends to 0 where H is o(tau_0)",
    )
    yield form(
        "fresh start", lambda: _afterwards(q, False), AFTER + r"y_0=\hat\gamma",
        wrong("nine tenths of the start", share=(Fraction(9, 10), 1, 1)),
        wrong("without B_t", share=(1, 0, 1)),
        holds=True, proof=ACROSS,
        note="Theorem 1 for the new objective, tau counted from the shift, its start bounded by "
        "the form 'at the shift', with the same alpha; hats mark the new federation's quantities",
    )
    yield form(
        "kept step", lambda: _afterwards(q, True), AFTER + r"y_0=\tau_0E+\gamma",
        wrong("nine tenths of the start", share=(Fraction(9, 10), 1, 1)),
        wrong("without B_t", share=(1, 0, 1)),
        holds=True, proof=ACROSS,
        note="the same proof from y = tau_0 E + gamma on, gamma the larger of both federations': "
        "no fresh start is needed, but the additional term then falls like ((tau_0 E + "
        "gamma)/((tau_0 + tau)E + gamma))^2, the slower the later the shift",
    )
