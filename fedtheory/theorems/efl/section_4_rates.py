"""EFL, sections 4.1 and 4.2, inactive and incomplete clients, and Corollary 1: when to abandon one.

The rates of section 4 are Theorem 1's with the laws put in. They are judged on exact moments.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.theorems.efl import corollary_1_world as on
from fedtheory.theorems.efl.inactive_world import ABOVE, AT_ONCE, EARLY, IDLE, LARGE, RULE, InactiveView, IncompleteView
from fedtheory.theorems.efl.notation import FLIPPED, HALF, NINE_TENTHS
from fedtheory.theorems.efl.paper import paper
from fedtheory.theory import Sides, eq, form, le, printed, repaired, wrong

RATES = "docs/efl.md#sections-41-and-42-corollary-1"
Y_T = r",\ y_t=1\text{ iff some client is inactive with positive probability}"
UNBIASED = r"\mathbb E[p_\tau^ks_\tau^k]=Ep^k"


def _whole_rate(v: InactiveView, constant: Any) -> Sides:
    """C_tau/(tau E + gamma)^2 + H J/(tau E + gamma) <= constant sum y_t J/(tau E + E^2)."""
    first = v.T * v.C / (v.T * v.E + v.gamma) ** 2
    return le(first + v.term(v.H), constant * v.idle_rounds * v.J / (v.T * v.E + v.E**2))


def _own_constant(v: InactiveView) -> Any:
    """1 + C/(E J)."""
    return 1 + v.C / (v.E * v.J)


def _limit_term(v: InactiveView, share: Any) -> Sides:
    """lim_tau tau J/(tau E + gamma) = J/E, against share J; r_t = 1 in every round."""
    return eq(v.J / v.E, share * v.J)


@paper.statement(
    "inactive-rate", over=InactiveView, title="what inactive clients do to the rate",
    source="section 4.1",
    assumptions=("scheme C, clients that are complete when active and inactive with probabilities "
    "y_t^k < 1", "gamma >= 4E, and J, C > 0, the constants of Theorem 1 as repaired"),
)
def inactive_rate(q):
    """The heterogeneity term of Theorem 1 against the rounds with inactive clients."""
    yield printed(
        lambda: _whole_rate(q, _own_constant(q)), HALF, NINE_TENTHS,
        wrong("without C", lambda: _whole_rate(q, 1)), after=r",\ C_T=TC" + Y_T, holds=True,
        needs=(LARGE, IDLE), proof=RATES,
        note="the whole rate, as an O in tau whose constant depends on C/J (J > 0; where J = 0 the "
        "rate says 0, and is false with noise); gamma >= 4E^2 with scheme C's theta = E. As sum "
        "y_t >= 1, the first term is O(1/tau) too. C_tau = tau C as Corollary 1 assumes "
        "(efl/order-of-c)",
    )
    yield form(
        "one constant", lambda: _whole_rate(q, 1000), after=r",\ C_T=TC" + Y_T, fails=True,
        needs=(LARGE, IDLE),
        note="no constant does for all problems: the first term does not know J, which is as small "
        "as the clients are alike",
    )
    yield form(
        "heterogeneity term",
        lambda: le(q.term(q.H), q.idle_rounds * q.J / (q.T * q.E + q.E**2)), HALF, NINE_TENTHS,
        after=Y_T, holds=True, needs=(LARGE,),
        proof="H <= sum y_t (the form `repaired`) and gamma >= E^2",
        note="the second term of the bound alone. Where gamma is smaller, the constant is "
        "E^2/gamma",
    )
    yield form(
        "equality", lambda: eq(q.H, q.idle_rounds), fails=True,
        note="not a condition for heterogeneity: clients that are inactive alike leave E[p s]/p^k "
        "the same for all k",
    )
    yield repaired(
        lambda: le(q.H, q.idle_rounds), FLIPPED, holds=True,
        proof="E[p s]/p^k = E (1 - y^k): where these differ some y^k is above 0",
        note="scheme C, clients that are complete when active",
    )
    yield form(
        "converges if y_t is O(tau)", lambda: le(q.term(4 * q.T, 4 * q.T), q.term(q.T)),
        r"\textstyle\frac{4\tau J}{4\tau E+\gamma}\le\frac{\tau J}{\tau E+\gamma}:\ \text{the term "
        r"at }4\tau\text{ and at }\tau,\ y_t=1\text{ in every round}", fails=True,
        note="y_t <= 1 is always O(tau); with y_t = 1 the term rises to J/E. What is meant is sum "
        "y_t in o(tau)",
    )
    yield form(
        "converges if the sum is o(tau)",
        lambda: le(q.term(q.idle_rounds), q.idle_rounds * q.J / (q.T * q.E)), HALF, NINE_TENTHS,
        holds=True, proof="tau E + gamma >= tau E",
    )
    yield form(
        "f_0", lambda: _limit_term(q, q.y),
        r"\lim_\tau\tfrac{\tau J}{\tau E+\gamma}=\tfrac JE=y^aJ\ (r_t=1\text{ in every round})",
        fails=True,
        note="r_t compares expectations, so it is 1 in every round and not with probability y^a; "
        "the factor 1/E is missing too",
    )
    yield form(
        "f_0 repaired", lambda: _limit_term(q, Fraction(1, q.E)),
        r"\lim_\tau\tfrac{\tau J}{\tau E+\gamma}=\tfrac JE\ (r_t=1\text{ in every round})",
        wrong("y^a/E", lambda: _limit_term(q, q.y / q.E)), holds=True,
        proof="tau/(tau E + gamma) tends to 1/E",
    )


@paper.statement(
    "incomplete-rate", over=IncompleteView, title="what incomplete clients do to the rate",
    source="section 4.2",
    assumptions=("scheme C, no client ever inactive, 0 < mu <= L",
    "B_t of Theorem 1 as repaired, with theta = E"),
)
def incomplete_rate(q):
    """E[B_t] against the printed rate, and E[p s] = E p."""
    yield printed(
        lambda: le(q.B, q.rate()),
        r"\mathbb E[B_t]\le(6L\max_kD_k+\tfrac{17}4G^2)E^5\textstyle\sum_kp^k\mathbb "
        r"E[\tfrac1{s^k}]+E^2\sum_k(p^k\sigma_k)^2\mathbb E[\tfrac1{s^k}]",
        wrong("E^3 for E^5", lambda: le(q.B, q.rate(3) / 4)), NINE_TENTHS, holds=True, proof=RATES,
        note="scheme C, no client inactive: with S = E, C_tau is at most gamma^2 ||w_0 - w*||^2 + "
        "(16/mu)^2 sum_t E[B_t], which gives the printed rate, its constant made explicit",
    )
    yield form(
        "unbiased", lambda: eq(q.drift, q.E * q.weights), UNBIASED,
        wrong("with p^k E[s^k]",
              lambda: eq((q.law * np.arange(q.E + 1)).sum(axis=1) * q.weights, q.E * q.weights)),
        holds=True, proof="p_tau^k s^k = E p^k in every case, as s^k > 0",
        note="so that r_t = 0: convergence whatever the laws of s^k > 0",
    )


F_1 = r"f_1(T)=\tfrac{TC}{(E(T-\tau_0)+\gamma)^2}"
NINE = r"\text{by (9), up to what does not depend on }E:\ "
EIGHT = r"\text{by (8), up to what does not depend on }E:\ "
LATE = r"\text{by (8), }T\to\infty,\text{ up to what does not depend on }E:\ "
LETTERS = r",\quad\nu=\textstyle\sum_kp_k^2\sigma_k^2+6L\sum_kp_kD_k,\ \kappa=L/\mu"


def _losses(v: on.AbandonView, first: Any, second: Any, without: bool = False) -> Sides:
    """The loss at the limit with one y is at most that with another."""
    return le(v.loss(v.limit(first), without), v.loss(v.limit(second), without), noise=v.noise)


def _threshold(v: InactiveView, factor: Any, power: int = 1) -> Sides:
    """The threshold of (8) is at most ``factor`` (C/J)/(TE^power)."""
    return le(v.threshold, factor * v.order(power))


def _falls(v: on.EpochsView, threshold: str = "threshold", by: int = 1) -> Sides:
    """The threshold of E + 1 is at most that of E; ``by`` = -1: at least."""
    first, second = (getattr(v, threshold)(E) for E in (v.E + 1, v.E)[::by])
    return le(first, second)


@paper.statement(
    "corollary-1", over=on.KeepView, title="when to abandon an inactive client",
    source="Corollary 1, (8)",
    assumptions=("scheme C with decaying steps; a is inactive with probability y^a in every round, "
    "the others are complete",),
)
def corollary_1(q):
    """The rule (8) at a deadline and in the limit, and how far the limit is from omega*."""
    yield printed(
        lambda: le(q.loss_abandoned, q.loss_kept),
        r"y^aJ>f_1(T)\Rightarrow\mathbb E\,F(\omega_T\text{ without }a)\le\mathbb "
        r"E\,F(\omega_T\text{ with }a)", fails=True, needs=(RULE,),
        note="(8) evaluated at the deadline T. The paper does not say whose training loss is "
        "smaller: here it is F, the loss of all clients, with a. Were each system measured on its "
        "own clients, the shipped witness would agree with (8), 0.284 < 0.504; but a constant such "
        "as 10 added to f_1, which (8) does not see, refutes that reading as well. (8) is asked "
        "for with the larger f_1 (both parts of C added, 2EG^2 in B, G of the run) and the smaller "
        "J (D_k in the numerator), so that it also holds as printed, with the maximum of both "
        "parts and D_k in the denominator. The two bounds compared are distances to two different "
        "optima",
    )
    yield form(
        "printed, T to infinity", lambda: _losses(q, 1, q.y),
        r"F(\lim\omega\text{ without }a)\le F(\lim\omega\text{ with }a)\text{ for every }0<y^a<1",
        fails=True, over=on.AbandonView,
        note="for large T the rule abandons every client with y^a > 0; the loss F of all clients "
        "is then larger",
    )
    yield repaired(
        lambda: _losses(q, q.y, 1),
        r"F(\lim\omega\text{ with }a)\le F(\lim\omega\text{ without }a)\text{ for every }y^a<1",
        FLIPPED, holds=True, over=on.AbandonView, proof=RATES,
        note="argmin F - y p^a F_a has an F that grows with y: in the limit keeping is never worse "
        "for the objective with a. The others are complete: where another one stays away, too, "
        "keeping can be worse",
    )
    yield form(
        "without a", lambda: _losses(q, 1, q.y, True),
        r"\hat F(\lim\omega\text{ without }a)\le\hat F(\lim\omega\text{ with }a)", FLIPPED,
        holds=True, over=on.AbandonView,
        proof="the limit without a is the minimiser of its objective",
        note="abandoning is right for the clients that stay, whatever y^a",
    )
    yield form(
        "bias", lambda: le(q.bias_sq, q.bound(False), noise=q.noise_sq),
        r"\|\lim\omega-\omega^*\|^2\le\frac{2L(y^ap^a)^2D_a}{\mu^2},\ D_a=F_a(\lim\omega)-F_a^*",
        wrong("a hundredth of it", share=Fraction(1, 100)), NINE_TENTHS, holds=True,
        over=on.AbandonView, proof=RATES,
        note="Theorem 2 for the fraction y^a of a's weight: of second order in y^a, where y^aJ is "
        "of first",
    )
    yield form(
        "sharp bias", lambda: le(q.bias_sq, q.bound(True), noise=q.noise_sq),
        r"\|\lim\omega-\omega^*\|^2\le\frac{2L\rho^2D_a}{\mu^2(1-\rho)^2+\mu L\rho(2-\rho)},\ "
        r"\rho=y^ap^a", wrong("a fiftieth of it", share=Fraction(1, 50)), NINE_TENTHS, holds=True,
        over=on.AbandonView,
        proof="docs/efl.md#theorem-2-the-optimum-moves, the gap at O, with the share rho = y^a p^a "
        "of the weight in the place of p",
    )


@paper.statement(
    "corollary-1-threshold", over=InactiveView, title="the threshold for y in orders of T and E",
    source="Corollary 1, (9)",
    assumptions=("C and gamma are the same with and without the client, as the paper assumes",),
)
def corollary_1_threshold(q):
    """The threshold that (8) sets for y, against (C/J)/(TE) and (C/J)/(TE^2)."""
    yield printed(
        lambda: _threshold(q, 4), NINE_TENTHS,
        before=r"y^k>O\Big(\frac{C/J}{TE}\Big):\ \frac{f_1(T)}J=", after=r"\text{ for }T\ge2\tau_0",
        holds=True, needs=(EARLY,),
        proof="E(T - tau_0) >= ET/2 where T >= 2 tau_0, so that f_1(T) <= 4C/(T E^2), and E >= 1",
        note="an O bounds the threshold of (8) from above, and no single number refutes it: 4 is a "
        "constant where the client goes in the first half. For all tau_0 < T there is none: with "
        "tau_0 = T - 1 the ratio is T^2 E/(E + gamma)^2. The order itself is (C/J)/(TE^2): a "
        "factor E is lost. It is a consequence of (8), which is itself refuted in corollary-1",
    )
    yield form(
        "without the O, necessary", lambda: le(q.order(), q.y), before=r"y^kJ>f_1(T)\Rightarrow ",
        after=r",\ " + F_1, fails=True, needs=(RULE,),
        note="f_1(T) = TC/(E(T - tau_0) + gamma)^2 is about C/(TE^2)",
    )
    yield form(
        "without the O, sufficient", lambda: le(q.f_1, q.y * q.J),
        before=r"y^k>\frac{C/J}{TE}\Rightarrow f_1(T)=", fails=True, needs=(ABOVE,),
        note="abandoned late, the run without the client has no rounds left",
    )
    yield form(
        "without the O, from the start", lambda: _threshold(q, 1), NINE_TENTHS,
        before=r"\frac{f_1(T)}J=", after=r",\ \tau_0=0", holds=True, needs=(AT_ONCE,),
        proof="T/(TE + gamma)^2 <= 1/(T E^2) <= 1/(TE)",
        note="so that y^k > (C/J)/(TE) is then enough for (8)",
    )
    yield repaired(
        lambda: _threshold(q, 1, 2), NINE_TENTHS, before=r"\frac{f_1(T)}J=", after=r",\ \tau_0=0",
        holds=True, needs=(AT_ONCE,), proof="note",
        note="so that y^k > (C/J)/(TE^2) is enough for (8): T/(TE + gamma)^2 <= 1/(TE^2); (8) "
        "itself is y > (C/J) T/(E(T - tau_0) + gamma)^2",
    )


@paper.statement(
    "corollary-1-epochs", over=on.EpochsView,
    title="whether more local epochs make the rule more sensitive", source="section 4.1, after (9)",
)
def corollary_1_epochs(q):
    """The threshold of (8) and of (9) as a function of E."""
    yield form(
        "through (9)", lambda: _falls(q), before=NINE, after=LETTERS, fails=True,
        wording="in words",
        note="read through (9), which the sentence follows. C grows like E^3 and J like E: the "
        "threshold falls only while noise dominates",
    )
    yield form(
        "through (8)", lambda: _falls(q, "by_rule"), before=EIGHT, after=LETTERS, fails=True,
        wording="in words",
        note="(8) itself, tau_0 = 0, at the same deadline T: without the factor E that (9) loses "
        "it fails at small T, where gamma is not small against TE",
    )
    yield form(
        "through (8), T to infinity", lambda: _falls(q, "late"), FLIPPED, before=LATE,
        after=r"\text{ where }\tfrac{E(E+1)}{2E+1}\le\tfrac{4\kappa\nu}{G^2}" + LETTERS, holds=True,
        needs=(on.FEW_8,),
        proof="the difference of both sides times E^2 (E + 1)^2 is (2E + 1) nu - E(E + 1) G^2/(4 "
        "kappa)",
        note="the limit is proportional to noise/E^2 + (2 + mu/(4L)) G^2 - mu/(4L) G^2/E: it falls "
        "to a number above 0, and for many epochs it rises to it",
    )
    yield form(
        "through (8), T to infinity, converse", lambda: _falls(q, "late", -1), FLIPPED, before=LATE,
        after=r"\text{ where }\tfrac{E(E+1)}{2E+1}>\tfrac{4\kappa\nu}{G^2}" + LETTERS, holds=True,
        needs=(on.MANY_8,),
        proof="the difference of both sides times E^2 (E + 1)^2 is (2E + 1) nu - E(E + 1) G^2/(4 "
        "kappa)",
    )
    yield repaired(
        lambda: _falls(q), FLIPPED, before=NINE,
        after=r"\text{ where }E(E+1)\le\tfrac{\nu}{(2+1/(4\kappa))G^2}" + LETTERS, holds=True,
        needs=(on.FEW,),
        proof="the difference of both sides is nu/(E(E + 1)) - (2 + 1/(4 kappa)) G^2",
        note="with the constants of Theorem 1 for full participation",
    )
    yield form(
        "repaired, converse", lambda: _falls(q, by=-1), FLIPPED, before=NINE,
        after=r"\text{ where }E(E+1)>\tfrac{\nu}{(2+1/(4\kappa))G^2}" + LETTERS, holds=True,
        needs=(on.MANY,),
        proof="the difference of both sides is nu/(E(E + 1)) - (2 + 1/(4 kappa)) G^2",
    )
    yield form(
        "for a given number of steps",
        lambda: le(q.E * q.threshold(q.E), (q.E + 1) * q.threshold(q.E + 1)), FLIPPED,
        before=r"E\,y_{th}(E)\le(E+1)\,y_{th}(E+1):\ ", after=LETTERS, holds=True,
        proof="E times the threshold is nu + 2 G^2 E + (2 + 1/(4 kappa)) G^2 E(E - 1), which rises "
        "with E", note="through (9): with TE fixed, more epochs a round are never more sensitive",
    )


@paper.statement(
    "corollary-1-own-optimum", over=on.KeepView, title="the rule, each run against its own optimum",
    source="Corollary 1, (8)",
    assumptions=("clients (w - 1)^2/2 and (w + 1)^2/2 of weight 1/2, E = 1, independent noise",),
)
def corollary_1_own_optimum(q):
    """Both distances that (8) compares bounds of."""
    yield form(
        "own optima", lambda: le(q.own_abandoned, q.own_kept),
        r"y^aJ>f_1(T)\Rightarrow\mathbb E\|\omega^{\text{abandon}}_T-\hat\omega^*\|^2\le\mathbb "
        r"E\|\omega^{\text{keep}}_T-\omega^*\|^2", fails=True, needs=(RULE,), wording="in words",
        note="(8) compares upper bounds of these two distances; the averaging of noise that is "
        "lost with the client is in neither. (8) holds here with f_1 and J as printed and as "
        "repaired, as in corollary-1 [printed]",
    )
    yield form(
        "bound", lambda: le(np.asarray(q.own_abandoned), q.f_1_sharp),
        r"\mathbb E\|\omega^{\text{abandon}}_T-\hat\omega^*\|^2\le f_1(T)",
        wrong("a fiftieth of it", share=Fraction(1, 50)), NINE_TENTHS, holds=True,
        proof="docs/efl.md#the-proof: Theorem 1 [sharpened] of one client, E = 1 and S = theta = "
        "1, whose D and J are 0",
        note="f_1 itself is a bound, with the sum of both parts of C and even without G^2 in B (E "
        "= 1)",
    )
