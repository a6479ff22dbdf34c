"""EFL's error feedback: nothing is lost by it, whether a mean tends to the optimum, and the variants that lose something."""

from fractions import Fraction

from fedtheory.theorems.efl import feedback_world as on
from fedtheory.theorems.efl.notation import NINE_TENTHS
from fedtheory.theorems.efl.paper import paper
from fedtheory.theory import Sides, eq, form, le, repaired, wrong

INVARIANT = r"\textstyle\omega_\tau+R^G_\tau+\sum_kp^kR^k_\tau=\omega_0+\sum_{t,k}p_t^kx_t^k"
BIAS = (
    r"\textstyle\sum_kp^kh_k|\bar\omega_T-\omega^*|\le\frac1{\eta T}\big(|\omega_T-\omega_0|+|R^G_T|+\sum_kp^k|R^k_T|\big),\ "
    r"\bar\omega_T=\frac1T\sum_{t<T}\omega_t"
)


def _invariant(v: on.FeedbackView) -> Sides:
    path, R_G, R, moved = v.run
    return eq(path[-1] + R_G + (v.weights[:, None] * R).sum(axis=0), moved, noise=v.noise)


def _mean_bias(v: on.FeedbackView) -> Sides:
    """|grad F| = sum p h |mean of w_0..w_{T-1} - w*| against both terms, coordinate by coordinate."""
    path, R_G, R, _ = v.run
    left = abs(R_G) + (v.weights[:, None] * abs(R)).sum(axis=0)
    terms = (part / (v.eta * v.rounds) for part in (abs(path[-1] - path[0]), left))
    return le(abs(v.slope(path[:-1].sum(axis=0) / v.rounds)), *terms, noise=v.noise_of_slope)


def _mean_within(v: on.FeedbackView) -> Sides:
    """||mean of w_0..w_{T-1} - w*||^2 <= ||w_0 - w*||^2."""
    path = v.run[0]
    return le(((path[:-1].sum(axis=0) / v.rounds - v.star) ** 2).sum(), ((v.x0 - v.star) ** 2).sum())


@paper.statement(
    "residual-invariant", over=on.FeedbackView, title="nothing is lost by error feedback",
    source="Algorithm 1 and (6)",
    assumptions=("quadratics, scheme C, ST with exactly k entries both ways",),
)
def residual_invariant(q):
    """The model and the residuals against local work, in every variant."""
    yield form(
        "literal formulas", lambda: _invariant(q), INVARIANT + r",\ \text{the formulas as printed}",
        fails=True, needs=(on.LITERAL,), wording="algorithm",
        note="the server adds the uncompressed delta, and keeps its residual for the next round as "
        "well: residuals count twice",
    )
    yield repaired(
        lambda: _invariant(q), INVARIANT,
        wrong("off by a hundredth", share=Fraction(99, 100)), holds=True,
        needs=(on.CONSISTENT,),
        proof="docs/efl_claims.md#the-consistent-form-converges, step 1, with p_tau^k/p^k times x "
        "in the place of x",
        note="constant p^k; p_tau^k/p^k is applied before ST; an inactive client keeps its "
        "residual",
    )
    yield form(
        "text of 3.1", lambda: _invariant(q),
        INVARIANT + r",\ \text{clients send }ST(\Delta^k),\text{ the server adds }\Delta^G\text{ "
        "uncompressed}", fails=True, needs=(on.TEXT,),
    )
    yield form(
        "scaled after ST", lambda: _invariant(q),
        INVARIANT + r",\ p_\tau^k/p^k\text{ applied after }ST", fails=True, needs=(on.AFTER,),
        note="what ST left out of a message of s steps is then sent with another round's E/s",
    )


@paper.statement(
    "compression-bias", over=on.FeedbackView,
    title="whether the mean of the compressed run tends to the optimum",
    source="Algorithm 1, section 3.1 and (6)",
    assumptions=("quadratics, E = 1, all clients active, ST with exactly k entries both ways",),
)
def compression_bias(q):
    """The gradient at the mean of the models, against what the residuals leave."""
    yield form(
        "literal formulas", lambda: _mean_bias(q), BIAS + r",\ \text{the formulas as printed}",
        fails=True, needs=(on.LITERAL, on.PLAIN), wording="algorithm",
        note="the mean of a long run is off the optimum already for two clients. A fixed point off "
        "it is one for every step, its residuals scaled: decaying steps do not cure it",
    )
    yield repaired(
        lambda: _mean_bias(q), BIAS, wrong("without the residuals", share=(1, 0)), NINE_TENTHS,
        holds=True, needs=(on.CONSISTENT, on.PLAIN), proof="note",
        note="the invariant over eta T: where the residuals stay bounded, which takes a small "
        "step, the mean tends to the optimum",
    )
    yield form(
        "any step up to 1/L", lambda: _mean_within(q),
        r"\|\bar\omega_T-\omega^*\|^2\le\|\omega_0-\omega^*\|^2\text{ for }\eta\le1/L", fails=True,
        needs=(on.CONSISTENT, on.PLAIN, on.SHORT),
        note="true without compression; one client and ST both ways with one entry of four grow "
        "without bound at eta = 1/L",
    )
    yield form(
        "text of 3.1", lambda: _mean_bias(q), BIAS + r",\ \text{the server's delta uncompressed}",
        fails=True, needs=(on.TEXT, on.PLAIN), note="the server's residual is added twice",
    )
