"""EFL, sections 1, 4.3 and 5.4: what one absence, an early or late departure, and a long wait do to
a run.

All of it is about gradient descent on quadratics with Theorem 1's steps, E = 1, in which one
client, a, is there or not. With P the product of the matrices I - eta_t H of the rounds that
follow, a change of the model by e in some round is P e at the end. Started at the optimum, one
round without a moves the model by eta_t p^a grad F_a(omega*), the same vector in every round but
for its length.
"""

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fedtheory.theorems.efl.inactive_world import LATE, SOME, InactiveView
from fedtheory.theorems.efl.notation import FLIPPED, NINE_TENTHS
from fedtheory.theorems.efl.paper import paper
from fedtheory.theorems.efl.section_4_world import APART, MIXED, AwayView
from fedtheory.theory import Sides, eq, form, le, wrong

AT_T = r"\|\omega_T^{(%s)}-\omega^*\|^2"
GAP = r"F_a(\omega_T^{(%s)})-F_a^*"
WAIT = r"\|\nabla F_a(\omega_%s)-\nabla F_a(\omega_0)\|^2"
ABSENT = r"\text{client }a\text{ inactive in round }t\text{ alone}"
LEAVES = r"a\text{ works in the first }\tau_0\text{ rounds only}"
FALLS = r"\tfrac{f_1(T+1)}J\le\tfrac{f_1(T)}J:\ "


def _grows(values: np.ndarray, noise: Any) -> Sides:
    """values[t] <= values[t + 1]."""
    return le(values[:-1], values[1:], noise=noise)


def _falls(values: np.ndarray, noise: Any) -> Sides:
    return le(values[1:], values[:-1], noise=noise)


def _square(values: np.ndarray) -> np.ndarray:
    return (values**2).sum(axis=-1)


def _wait_bound(v: AwayView) -> Sides:
    """|grad F_a(w_m) - grad F_a(w_0)|_i <= h_ai sum_{t < m} |w_{t+1} - w_t|_i, coordinate by coordinate."""
    moved = abs(np.diff(v.waiting(True), axis=0))
    return le(abs(v.waiting(True)[1:]), np.cumsum(moved, axis=0), noise=v.noise)


def _threshold(v: InactiveView, T: int) -> Any:
    """f_1(T)/J with C_T = T C."""
    return T * v.C / (v.J * (v.E * (T - v.tau_0) + v.gamma) ** 2)


def _slope(v: InactiveView, factor: Any = 1) -> Sides:
    """f_1(T) - f_1(T+1), over J, against C(T(T+1)E^2 - (gamma - E tau_0)^2)/(J y^2 (y + E)^2), y = E(T - tau_0) + gamma."""
    y = v.E * (v.T - v.tau_0) + v.gamma
    fall = v.C * (v.T * (v.T + 1) * v.E**2 - factor * (v.gamma - v.E * v.tau_0) ** 2) / (v.J * y**2 * (y + v.E) ** 2)
    return eq(_threshold(v, v.T) - _threshold(v, v.T + 1), fall, _threshold(v, v.T) + _threshold(v, v.T + 1))


def _discard(v: InactiveView) -> Sides:
    """f_0 - f_1 falls in tau_0 = 0..T-1: f_0 = C_T/y^2 + (T - 1 - tau_0) J/y, y = TE + gamma;
    f_1 = C_T/(E(T - tau_0) + gamma)^2."""
    tau_0, y = np.array(range(v.T), dtype=object), v.T * v.E + v.gamma
    keep = v.T * v.C / y**2 + (v.T - 1 - tau_0) * v.J / y
    leave = v.T * v.C / (v.E * (v.T - tau_0) + v.gamma) ** 2
    return _falls(keep - leave, 0)


@paper.statement(
    "tolerance", over=InactiveView,
    title="whether the tolerance to inactive clients falls as the training goes on",
    source="section 1, second contribution, with (8) and (9)",
    assumptions=("(8) and (9) with C_tau = tau C, as Corollary 1 assumes",
    "runs: quadratics, full gradients, 16/(mu(1+gamma)) <= 1/L, the others keep p^k (schemes B and "
    "C)"),
)
def tolerance(q):
    """The threshold of (8) as T grows, and one absence sooner or later in a run."""
    yield form(
        "through (8)", lambda: le(_threshold(q, q.T + 1), _threshold(q, q.T)), before=FALLS,
        fails=True, wording="in words",
        note="a client is kept while y^a is at most f_1(T)/J. That rises with T until T(T+1)E^2 "
        "reaches (gamma - E tau_0)^2",
    )
    yield form(
        "through (8), late", lambda: le(_threshold(q, q.T + 1), _threshold(q, q.T)),
        wrong("99 hundredths of it", share=Fraction(99, 100)), before=FALLS,
        after=r"\text{ where }T(T+1)E^2\ge(\gamma-E\tau_0)^2", holds=True, needs=(LATE,),
        proof="the identity of `through (8), exactly`",
    )
    yield form(
        "through (8), exactly", partial(_slope, q),
        wrong("nine tenths of the square", factor=Fraction(9, 10)),
        before=r"\tfrac{f_1(T)-f_1(T+1)}J:\ ", holds=True,
        proof="T (y + E)^2 - (T + 1) y^2 = T (T + 1) E^2 - (gamma - E tau_0)^2, multiplied out",
        note="so that the condition of the form before is necessary as well",
    )
    yield form(
        "through (9)", lambda: le(q.C / (q.J * (q.T + 1) * q.E), q.C / (q.J * q.T * q.E)),
        wrong("like 1/T^2", lambda: le((q.T + 1) * q.C / (q.J * q.E), q.T * q.C / (q.J * q.E))),
        holds=True, proof="1/(T + 1) <= 1/T, and C, J, E > 0",
        note="the same sentence through the order that (9) gives the threshold",
    )
    yield form(
        "one absence", lambda: _grows(q.absences(q.star), q.noise),
        AT_T % "t" + r"\le" + AT_T % "t+1" + r",\ \omega_0=\omega^*,\ " + ABSENT + r",\ E=1",
        NINE_TENTHS, FLIPPED, holds=True, over=AwayView, proof="docs/efl_sentences.md#tolerance",
        note="an absence leaves eta_t p^a grad F_a(omega*), which later rounds shrink by 1 - eta "
        "h, h >= mu: more than the step itself shrinks, since 16 h >= mu. The later the absence, "
        "the further from the optimum the run ends",
    )
    yield form(
        "one absence, any start", lambda: _grows(q.absences(q.x0), q.noise),
        AT_T % "t" + r"\le" + AT_T % "t+1" + r",\ " + ABSENT + r",\ E=1", fails=True, over=AwayView,
        note="on the way to the optimum a round without a may be the better one",
    )


@paper.statement(
    "departure-early-or-late", over=InactiveView,
    title="whether a client that leaves early should rather be discarded than one that leaves late",
    source="section 4.3",
    assumptions=("C_tau = tau C and J the same whether the client is kept or not, as Corollary 1 "
    "assumes", "runs: quadratics, full gradients, 16/(mu(1+gamma)) <= 1/L, coefficients of sum 1 "
    "after the departure"),
)
def departure_early_or_late(q):
    """Keeping or discarding a client that leaves after tau_0, as tau_0 grows."""
    yield form(
        "through the bounds", lambda: _discard(q),
        r"f_0-f_1\text{ falls as }\tau_0\text{ grows},\ "
        r"f_0=\tfrac{C_T}{(TE+\gamma)^2}+\tfrac{(T-1-\tau_0)J}{TE+\gamma},\ "
        r"f_1=\tfrac{C_T}{(E(T-\tau_0)+\gamma)^2}", FLIPPED, holds=True, needs=(SOME,),
        wording="in words",
        proof="f_0 falls with tau_0 as J > 0, and f_1 rises with it as its denominator falls",
        note="discarding at tau_0 has the smaller bound for all tau_0 below some number, or for "
        "none. f_0 bounds the distance from the old optimum, f_1 that from the new one",
    )
    yield form(
        "from the optimum", lambda: _falls(q.departures(q.star), q.noise),
        GAP % r"\tau_0" + r"\ge " + GAP % r"\tau_0+1" + r",\ \omega_0=\omega^*,\ " + LEAVES +
        r",\ E=1", NINE_TENTHS, FLIPPED, holds=True, over=AwayView, needs=(APART,),
        proof="docs/efl_sentences.md#early-and-late-departures",
        note="the model goes from omega* towards hat omega*, away from a's minimiser in every "
        "coordinate: the earlier a leaves, the worse it is served",
    )
    yield form(
        "from the optimum, coordinates that mix", lambda: _falls(q.departures(q.star), q.noise),
        GAP % r"\tau_0" + r"\ge " + GAP % r"\tau_0+1" + r",\ \omega_0=\omega^*,\ " + LEAVES +
        r",\ E=1", fails=True, over=AwayView, needs=(MIXED,),
        note="the others' directions are not a's: on its curved way a model that forgets a may "
        "pass nearer to a's minimiser",
    )
    yield form(
        "any start", lambda: _falls(q.departures(q.x0), q.noise),
        GAP % r"\tau_0" + r"\ge " + GAP % r"\tau_0+1" + r",\ " + LEAVES + r",\ E=1", fails=True,
        over=AwayView, needs=(APART,),
        note="from beyond a's minimiser a model that forgets a comes nearer to it",
    )


@paper.statement(
    "staleness", over=AwayView, title="whether gradients get the staler, the longer a client waits",
    source="section 5.4",
    assumptions=("quadratics, E = 1, full gradients, coefficients of sum 1 in every round, client "
    "a away from round 0 on",),
)
def staleness(q):
    """The gradient of a client that waits, as the others go on."""
    yield form(
        "the others in turn", lambda: _grows(_square(q.waiting(True)), q.noise),
        WAIT % "m" + r"\le" + WAIT % "{m+1}" + r",\ \text{one client after another}", fails=True,
        wording="in words",
        note="the model may come back towards where it was when the client's residual was made",
    )
    yield form(
        "all others", lambda: _grows(_square(q.waiting(False)), q.noise),
        WAIT % "m" + r"\le" + WAIT % "{m+1}" + r",\ \text{all others in every round},\ "
        r"\eta_t\le1/L", NINE_TENTHS, holds=True, needs=(APART,),
        proof="in each coordinate w_m - w_0 = (1 - prod (1 - eta_t h))(hat w - w_0), where 0 <= 1 "
        "- eta_t h < 1: its size grows with m",
        note="gradient descent with steps up to 1/L moves every coordinate one way",
    )
    yield form(
        "all others, coordinates that mix", lambda: _grows(_square(q.waiting(False)), q.noise),
        WAIT % "m" + r"\le" + WAIT % "{m+1}" + r",\ \text{all others in every round}", fails=True,
        needs=(MIXED,),
        note="gradients of a along the others' directions may cancel what was there",
    )
    yield form(
        "bound", lambda: _wait_bound(q),
        r"|\nabla F_a(\omega_m)-\nabla F_a(\omega_0)|\le\textstyle\sum_{t<m}|\nabla "
        r"F_a(\omega_{t+1})-\nabla F_a(\omega_t)|", NINE_TENTHS, holds=True,
        proof="the triangle inequality, coordinate by coordinate",
        note="coordinate by coordinate, whoever takes part: what does grow with the wait is this "
        "bound, at most L sum ||w_{t+1} - w_t||. The residual itself is not lost "
        "(efl/residual-invariant)",
    )
