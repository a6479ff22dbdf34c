"""EFL, sections 4.3 and 4.4: Theorem 1 across a departure or an arrival, with the start that
Theorem 2 leaves it.

At the shift E||w - hat omega*||^2 <= (1 + alpha) E||w - omega*||^2 + (1 + 1/alpha) ||omega* - hat
omega*||^2 for every alpha > 0: the first part is bounded by Theorem 1, the second one by Theorem 2.
From there Theorem 1 starts again, for the new objective.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rational import integer, vector
from fedtheory.theorems.efl.notation import BUILDERS, statement
from fedtheory.theorems.efl.quantities.exact_run import round_laws
from fedtheory.theorems.efl.statements.shifted_run import ShiftedRunView, shifted_run, without
from fedtheory.theorems.efl.statements.theorem_2 import shift_view
from fedtheory.theorems.efl.theorem_1 import ASSUMPTIONS
from fedtheory.theory.judge.statement import Sides, form, le
from fedtheory.theory.rounds.irregular_run import exact_oracles, laws_of

__all__ = ["STATEMENTS"]

ALPHAS = (Fraction(1, 100), Fraction(1, 3), Fraction(1), Fraction(3))


@BUILDERS.add("restart")
def restart_view(data: dict[str, Any]) -> ShiftedRunView:
    """From event, scheme, weights (as samples), h, c and noise (client a last), law (N rows), w0,
    tau_0 and rounds after the shift."""
    oracles = exact_oracles({k: data[k] for k in ("h", "c", "weights", "noise") if k in data})
    clients, w0 = oracles.shape[0], vector(data["w0"], "w0")
    tau_0, rounds = integer(data["tau_0"], "tau_0", 1, 200), integer(data["rounds"], "rounds", 1, 200)
    if clients < 2 or len(w0) != oracles.shape[2]:
        raise InvalidInput("at least two clients, of which the last one leaves or joins, and w0 with one number a coordinate")
    (rows,) = laws_of([data["law"]], clients)
    rest = without(oracles, clients - 1)

    def side(all_there: bool, many: int) -> Any:
        who, law = (oracles, rows) if all_there else (rest, rows[:-1])
        return who, round_laws(data["scheme"], [law], many, who.weights)

    leaves = data["event"] == "departure"
    shift = shift_view({"event": data["event"], "samples": data["weights"], "h": data["h"], "c": data["c"]})
    return shifted_run(side(leaves, tau_0), side(not leaves, rounds), w0, shift)


def _start(v: ShiftedRunView, kept: bool = False, share: Any = 1, moved: Any = 1) -> np.ndarray:
    """(1 + alpha) A and (1 + 1/alpha) Theta of every alpha, (2, 4)."""
    A, moves = share * v.reached(kept), moved * v.moved()
    return np.array(
        [[A + A * a.numerator / a.denominator for a in ALPHAS], [moves + moves * a.denominator / a.numerator for a in ALPHAS]]
    )


def _at_the_shift(v: ShiftedRunView, share: Any = 1, moved: Any = 1) -> Sides:
    """E||w_{tau_0} - hat omega*||^2 <= (1 + alpha) A + (1 + 1/alpha) Theta."""
    parts = _start(v, False, share, moved)
    return le(v.fresh.distance_sq[0] + 0 * parts[0], *parts, noise=v.noise)


def _afterwards(v: ShiftedRunView, kept: bool, start: Any = 1, rest: Any = 1) -> Sides:
    """Theorem 1 from the shift on, with the least of these for the squared distance there."""
    leg = v.kept if kept else v.fresh
    return le(leg.distance_sq, leg.bound(_start(v, kept).sum(axis=0).min(), start, rest), noise=v.noise)


def _near(v: ShiftedRunView, share: Any = 1) -> Sides:
    """| E||w_{tau_0} - hat omega*||^2 - ||omega* - hat omega*||^2 | <= 3A + Theta/2."""
    return le(abs(v.fresh.distance_sq[0] - v.shift.distance_sq), share * 3 * v.reached(), v.moved() / 2, noise=v.noise)


def _tenths(v: ShiftedRunView, number: int) -> Any:
    return number * v.shift.mu / (10 * v.shift.mu)


AT_SHIFT = r"\mathbb E\|\omega_{\tau_0}-\hat\omega^*\|^2\le"
A_IS = r"A=\tfrac{C_{\tau_0}}{(\tau_0E+\gamma)^2}+\tfrac{H_{\tau_0}J}{\tau_0E+\gamma}"
THETA = r"\Theta=\tfrac{2Ln_a^2\hat D_a}{\mu^2n^2}"
AFTER = (
    r"\mathbb "
    r"E\|\omega_{\tau_0+\tau}-\hat\omega^*\|^2\le\tfrac{y_0^2((1+\alpha)A+(1+\frac1\alpha)\Theta)+(16E/\mu)^2\sum_{t<\tau}\mathbb "
    r"E[\hat B_t]/\hat S_t^2}"
    r"{(\tau E+y_0)^2}+\tfrac{\hat H_\tau\hat J}{\tau E+y_0},\ "
)

STATEMENTS = (
    statement(
        "shift-bound",
        "Theorem 1 across a departure or an arrival",
        "sections 4.3 and 4.4, with Theorems 1 and 2",
        form(
            "an additional term", AT_SHIFT + r"\tfrac{C_{\tau_0}}{(\tau_0E+\gamma)^2}+\tfrac{H_{\tau_0}J}{\tau_0E+\gamma}+"
            r"\tfrac{8Ln_a^2\hat D_a}{\mu^2n^2}\text{ (an arrival: }(n+n_a)^2\text{ for }n^2)",
            lambda v: le(v.fresh.distance_sq[0], v.reached(), v.moved(8, printed=True), noise=v.noise), "violated", kind="restart",
            wording="in words",
            note="squared distances do not add up: the cross term 2<w - omega*, omega* - hat omega*> is missing. Theorem 1's bound "
            "is the "
            "repaired one",
        ),
        form(
            "at the shift", AT_SHIFT + r"(1+\alpha)A+(1+\tfrac1\alpha)\Theta,\ " + A_IS + r",\ " + THETA + r",\ \alpha\in\{"
            r"\tfrac1{100},\tfrac13,1,3\}",
            _at_the_shift, "holds",
            ("nine tenths of A", lambda v: _at_the_shift(v, share=_tenths(v, 9))),
            ("nine tenths of Theta", lambda v: _at_the_shift(v, moved=_tenths(v, 9))), kind="restart",
            note="A is Theorem 1's bound for the old objective, Theta the bound of Theorem 2 with 2 for 8 and, of an arrival, n for "
            "n + n_a. "
            "It holds for every alpha > 0; the least is (sqrt A + sqrt Theta)^2",
            proof="docs/efl_sentences.md#the-shift-theorem-1-across-a-departure-or-an-arrival",
        ),
        form(
            "approximately", r"\big|\mathbb "
            r"E\|\omega_{\tau_0}-\hat\omega^*\|^2-\|\omega^*-\hat\omega^*\|^2\big|\le3A+\tfrac12\Theta", _near,
            "holds", ("without A", lambda v: _near(v, 0)), kind="restart",
            note="section 4.4's approximation, with its error: A + 2 sqrt(A Theta) <= 3A + Theta/2. A tends to 0 where H is o(tau_0)",
            proof=(
                "the difference is at most A + 2 sqrt(A Theta) by Cauchy-Schwarz, and 2 sqrt(A "
                "Theta) <= 2A + Theta/2"
            ),
        ),
        form(
            "fresh start", AFTER + r"y_0=\hat\gamma", lambda v: _afterwards(v, False), "holds",
            ("nine tenths of the start", lambda v: _afterwards(v, False, start=_tenths(v, 9))),
            ("without B_t", lambda v: _afterwards(v, False, rest=0)), kind="restart",
            note="Theorem 1 for the new objective, tau counted from the shift, its start bounded by the form 'at the shift', with "
            "the same alpha; "
            "hats mark the new federation's quantities",
            proof="docs/efl_sentences.md#the-shift-theorem-1-across-a-departure-or-an-arrival",
        ),
        form(
            "kept step", AFTER + r"y_0=\tau_0E+\gamma", lambda v: _afterwards(v, True), "holds",
            ("nine tenths of the start", lambda v: _afterwards(v, True, start=_tenths(v, 9))),
            ("without B_t", lambda v: _afterwards(v, True, rest=0)), kind="restart",
            note="the same proof from y = tau_0 E + gamma on, gamma the larger of both federations': no fresh start is needed, but the "
            "additional term then falls like ((tau_0 E + gamma)/((tau_0 + tau)E + gamma))^2, the slower the later the shift",
            proof="docs/efl_sentences.md#the-shift-theorem-1-across-a-departure-or-an-arrival",
        ),
        assumptions=(*ASSUMPTIONS, "L and mu are those of all clients, before and after"),
        measures="mean squared distance to the new optimum",
    ),
)  # fmt: skip
