"""EFL, sections 1, 4.2 to 4.4 and 5.4: what absences and departures do to a run, whether a
coefficient acts as a learning rate, and what is concluded from Theorem 2.

Runs are gradient descent on quadratics with Theorem 1's steps, E = 1, in which one client, a, is
there or not. With P the product of the matrices I - eta_t H of the rounds that follow, a change of
the model by e in some round is P e at the end. Started at the optimum, one round without a moves
the model by eta_t p^a grad F_a(omega*), the same vector in every round but for its length.

On quadratics s local steps of client k move the coordinate with curvature h from w towards its
minimiser c by phi_s(eta h)(c - w), phi_s(x) = 1 - (1 - x)^s. This phi_s is concave on [0, 1] with
phi_s(0) = 0, whence everything about coefficients.
"""

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fedtheory.theorems.efl import section_4_world as on
from fedtheory.theorems.efl.inactive_world import LATE, SOME, InactiveView
from fedtheory.theorems.efl.notation import FLIPPED, NINE_TENTHS
from fedtheory.theorems.efl.paper import paper
from fedtheory.theorems.efl.section_4_world import APART, MIXED, AwayView
from fedtheory.theory import Sides, eq, form, le, wrong

CONCAVE = "docs/efl_sentences.md#coefficients-as-learning-rates"
FEWER_SAMPLES = "docs/efl_sentences.md#fewer-samples-data-more-alike"
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


FEWER = r"n_a'<n_a\Rightarrow"
QUADRATICS = ("a quadratic client, full gradients, factor times eta at most 1/L", "factor >= 1")


def _equivalent(v: on.CoefficientView) -> Sides:
    """factor times s steps of eta, against s steps of factor eta."""
    return eq(v.factor * v.moved(v.s), v.moved(v.s, v.factor), v.factor * abs(v.away))


def _excess(v: on.CoefficientView) -> Sides:
    """(factor phi_s(x) - phi_s(factor x))|c - w| <= s(s-1)/2 factor (factor - 1) x^2 |c - w|."""
    over = v.factor * v.length(v.s) - v.length(v.s, v.factor)
    room = v.square(v.s * (v.s - 1) * v.factor * (v.factor - 1) / 2)
    return le(over, room, noise=v.noise)


def _scaled(v: on.CoefficientView, moved: Any) -> np.ndarray:
    """E/s times what s steps do."""
    return v.E * moved / v.s


def _over(v: on.CoefficientView) -> Sides:
    """(E/s phi_s(x) - phi_E(x))|c - w| <= E(E-s)/2 x^2 |c - w|."""
    room = v.square(v.E * (v.E - v.s) * v.factor / (2 * v.factor))
    return le(_scaled(v, v.length(v.s)) - v.length(v.E), room, noise=v.noise)


def _fewer(v: on.SamplesView, event: str, repaired: bool = False) -> Sides:
    return le(v.bound(event, v.fewer, 1, repaired), v.bound(event, None, 1, repaired), noise=v.noise)


def _bent(v: on.SamplesView) -> Sides:
    """(11) repaired where F_a has a bend."""
    return le(v.bent_bound(v.fewer), v.bent_bound(), noise=v.noise)


def _alike(v: on.SamplesView, power: int = 2) -> Sides:
    """Every bound with minimisers drawn together by a factor is its square times the bound."""
    cases = (("departure", False), ("arrival", False), ("arrival", True))
    closer = np.stack([v.bound(event, None, v.closer, repaired) for event, repaired in cases])
    return eq(closer, v.closer**power * np.stack([v.bound(event, None, 1, repaired) for event, repaired in cases]), noise=v.noise)


@paper.statement(
    "coefficient-as-step", over=on.CoefficientView,
    title="whether a larger coefficient acts as a larger learning rate, and makes up for missing "
    "steps", source="section 4.2", assumptions=QUADRATICS,
)
def coefficient_as_step(q):
    """A larger coefficient against a larger step, and against the missing steps."""
    yield form(
        "equivalent", lambda: _equivalent(q), fails=True, needs=(on.SEVERAL,), wording="in words",
        note="from the second local step on the gradients are taken at other points",
    )
    yield form(
        "one local step", lambda: _equivalent(q), NINE_TENTHS,
        before=r"s=1:\ ", holds=True, needs=(on.ONE_STEP,), proof="one step is linear in its size",
    )
    yield form(
        "further", lambda: le(q.length(q.s, q.factor), q.factor * q.length(q.s), noise=q.noise),
        FLIPPED, after=r",\ c\ge1,\ c\eta h\le1", holds=True, proof=CONCAVE,
        note="on quadratics the larger coefficient moves the model at least as far as the larger "
        "step would. 1 - (1 - x)^s is concave",
    )
    yield form(
        "by how much", lambda: _excess(q), NINE_TENTHS, holds=True, proof=CONCAVE,
        note="an equality for s <= 2: equivalent to first order in eta",
    )
    yield form(
        "compensates",
        lambda: eq(_scaled(q, q.moved(q.s)), q.moved(q.E), _scaled(q, q.length(q.s))), fails=True,
        note="scheme C's E/s, of a client that stops after s of E steps: it goes further than E "
        "steps",
    )
    yield form(
        "at least compensates", lambda: le(q.length(q.E), _scaled(q, q.length(q.s)), noise=q.noise),
        wrong("with s for E", lambda: le(q.length(q.E), q.length(q.s))), NINE_TENTHS, holds=True,
        proof=CONCAVE,
    )
    yield form(
        "at most", lambda: _over(q), NINE_TENTHS, holds=True, proof=CONCAVE,
        note="attained at s = 1, E = 2",
    )


@paper.statement(
    "theorem-2-conclusion", over=on.SamplesView,
    title="whether the bounds shrink with fewer samples and with data more alike",
    source="section 4.4, after Theorem 2",
    assumptions=("quadratics with minimisers c_k; L and mu of all clients do not change",),
)
def theorem_2_conclusion(q):
    """The bounds of Theorem 2 with fewer samples, and with minimisers closer together."""
    yield form(
        "(11), fewer samples", lambda: _fewer(q, "arrival"),
        FEWER + r"\tfrac{8Ln_a'^2\hat D_a'}{\mu^2(n+n_a')^2}\le\tfrac{8Ln_a^2\hat "
        r"D_a}{\mu^2(n+n_a)^2}", fails=True, needs=(on.QUADRATIC,), wording="in words",
        note="hat D_a falls while a has more to say: for equal curvatures the printed bound falls "
        "again from n_a = n on",
    )
    yield form(
        "(11) repaired, fewer samples", lambda: _fewer(q, "arrival", True),
        FEWER + r"\tfrac{2Ln_a'^2\hat D_a'}{\mu^2n^2}\le\tfrac{2Ln_a^2\hat D_a}{\mu^2n^2}", FLIPPED,
        NINE_TENTHS, holds=True, needs=(on.QUADRATIC,), proof=FEWER_SAMPLES,
        note="quadratics: with g = grad F_a(hat omega*) and r = n_a/n the derivative of r^2 hat "
        "D_a is at least r (2 hat D_a - g' H_a^{-1} g) = 0",
    )
    yield form(
        "(11) repaired, fewer samples, any loss", lambda: _bent(q),
        FEWER + r"\tfrac{2Ln_a'^2\hat D_a'}{\mu^2n^2}\le\tfrac{2Ln_a^2\hat D_a}{\mu^2n^2}",
        fails=True, needs=(on.BENT,),
        note="where F_a is flat on the others' side and steep on its own, hat D_a falls faster "
        "than n_a^2 rises",
    )
    yield form(
        "(11) repaired, fewer samples, steeper outwards", lambda: _bent(q),
        FEWER + r"\tfrac{2Ln_a'^2\hat D_a'}{\mu^2n^2}\le\tfrac{2Ln_a^2\hat D_a}{\mu^2n^2}", FLIPPED,
        NINE_TENTHS, holds=True, needs=(on.OUTWARD,), proof=FEWER_SAMPLES,
        note="the proof asks of F_a of one coordinate no more than that its second derivative does "
        "not fall on the way from a's minimiser to the others. However little it falls, there are "
        "others for whom the bound rises",
    )
    yield form(
        "(10), fewer samples", lambda: _fewer(q, "departure"),
        FEWER + r"\tfrac{8Ln_a'^2\hat D_a}{\mu^2(n-n_a+n_a')^2}\le\tfrac{8Ln_a^2\hat "
        r"D_a}{\mu^2n^2}", FLIPPED, NINE_TENTHS, holds=True, needs=(on.QUADRATIC,),
        proof="hat D_a does not depend on n_a, and n_a/n rises with n_a, as the others keep n - "
        "n_a", note="the new optimum does not depend on a; the others keep their n - n_a samples",
    )
    yield form(
        "more alike", partial(_alike, q),
        r"c_k\to t\,c_k\text{ for all }k:\ \text{the bounds }(10),(11)\to t^2\text{ times "
        "themselves}", wrong("t for t^2", power=1), holds=True, needs=(on.QUADRATIC,),
        proof="the optima are linear in the c_k, and the gaps quadratic",
        note="quadratics; 'more IID' as minimisers drawn together, to which no bound is "
        "indifferent",
    )
