"""EFL, sections 4.2 and 4.4: whether a coefficient acts as a learning rate, and what is concluded
from Theorem 2.

On quadratics s local steps of client k move the coordinate with curvature h from w towards its
minimiser c by phi_s(eta h)(c - w), phi_s(x) = 1 - (1 - x)^s. This phi_s is concave on [0, 1] with
phi_s(0) = 0, whence everything about coefficients.
"""

from functools import partial
from typing import Any

import numpy as np

from fedtheory.theorems.efl import section_4_world as on
from fedtheory.theorems.efl.notation import FLIPPED, NINE_TENTHS
from fedtheory.theorems.efl.paper import paper
from fedtheory.theory import Sides, eq, form, le, wrong

FEWER = r"n_a'<n_a\Rightarrow"
QUADRATICS = ("a quadratic client, full gradients, factor times eta at most 1/L", "factor >= 1")


def _equivalent(v: on.CoefficientView, tenths: int = 10) -> Sides:
    """factor times s steps of eta, against s steps of factor eta."""
    return eq(tenths * v.factor * v.moved(v.s) / 10, v.moved(v.s, v.factor), v.factor * abs(v.away))


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
        "one local step", partial(_equivalent, q), wrong("nine tenths of it", tenths=9),
        before=r"s=1:\ ", holds=True, needs=(on.ONE_STEP,), proof="one step is linear in its size",
    )
    yield form(
        "further", lambda: le(q.length(q.s, q.factor), q.factor * q.length(q.s), noise=q.noise),
        FLIPPED, after=r",\ c\ge1,\ c\eta h\le1", holds=True,
        proof="docs/efl_sentences.md#coefficients-as-learning-rates",
        note="on quadratics the larger coefficient moves the model at least as far as the larger "
        "step would. 1 - (1 - x)^s is concave",
    )
    yield form(
        "by how much", lambda: _excess(q), NINE_TENTHS, holds=True,
        proof="docs/efl_sentences.md#coefficients-as-learning-rates",
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
        proof="docs/efl_sentences.md#coefficients-as-learning-rates",
    )
    yield form(
        "at most", lambda: _over(q), NINE_TENTHS, holds=True,
        proof="docs/efl_sentences.md#coefficients-as-learning-rates",
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
        NINE_TENTHS, holds=True, needs=(on.QUADRATIC,),
        proof="docs/efl_sentences.md#fewer-samples-data-more-alike",
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
        NINE_TENTHS, holds=True, needs=(on.OUTWARD,),
        proof="docs/efl_sentences.md#fewer-samples-data-more-alike",
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
