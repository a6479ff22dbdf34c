"""The steps of the proof of EFL's Theorem 1: of one round from given states, and the recursion of a run.

Everything that may happen in the round is enumerated. Fix a round, eta = eta_tau, w_0 its state,
alpha_i^k = 1{i < s_k}, wbar_i = w_0 + sum_k p_k (w_{min(i, s_k)}^k - w_0): then wbar_{i+1} =
wbar_i - eta sum_k p_k alpha_i^k g_i^k, and wbar_E is the next state. Steps 2 to 4 hold for every
outcome, step 1 given (p, s), steps 5 to 7 in expectation. Only step 1, and what is sharpened in
step 7, asks how the clients' mini-batches are correlated. Step 7 is also about each round of a
whole run, in exact second moments, and the bound at tau is put through it by induction.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.theorems.efl.notation import HALF, NINE_TENTHS, SYMBOLS
from fedtheory.theorems.efl.paper import paper
from fedtheory.theorems.efl.quantities.run import UNCORRELATED, EFLConstants, EFLRun
from fedtheory.theorems.efl.quantities.step import EQUAL, StepState, StepsView, sq
from fedtheory.theorems.efl.runs_world import Runs, Steps
from fedtheory.theorems.efl.theorem_1 import ASSUMPTIONS, PROOF
from fedtheory.theory import Sides, eq, form, le, repaired, wrong


def step(number: int, title: str) -> Callable[[Any], Any]:
    """Declare one step of the proof."""
    return paper.statement(
        f"theorem-1-step-{number}", over=Steps, title=title, assumptions=ASSUMPTIONS,
        source=f"proof of Theorem 1, step {number}",
        symbols=SYMBOLS | {"wbar_i": "StepState.wbar", "alpha_i": "StepState.alpha"},
    )


def at_states(q: StepsView, sides: Callable[..., Sides], **how: Any) -> Callable[..., Sides]:
    """Sides at every state of a run, one after the other."""
    return lambda **more: q.each(lambda state: sides(state, **{**how, **more}))


def gbar(v: StepState) -> np.ndarray:
    """sum_k p_k alpha_i^k grad F_k(w_i^k): (O, P, E, d)."""
    weights = (v.p[:, None, :, None] * v.alpha[:, None])[..., None]
    return (weights * v.g_mean).sum(axis=2)


def noise(v: StepState, correlated: bool = False) -> Sides:
    """Sides of step 1, given (p, s); ``correlated``: p_k^2/p^k for p_k^2, for any mini-batches."""
    star, E = v.oracles.star, v.law.E
    after = v.over_batches(sq(v.wbar[:, :, 1:] - star))
    before = v.over_batches(sq(v.wbar[:, :, :E] - star - v.eta * gbar(v)))
    squares = v.p**2 / v.oracles.weights if correlated else v.p**2
    noise = v.eta**2 * (squares[:, :, None] * v.alpha * v.sigma_sq[:, None]).sum(axis=1)
    return le(after, before, noise)


@step(1, "noise")
def step_1(q):
    """The noise of one local step."""
    yield repaired(
        at_states(q, noise),
        r"\mathbb E\|\bar w_{i+1}-w^*\|^2\le\mathbb E\|\bar w_i-w^*-\eta\bar g_i\|^2"
        r"+\eta^2\sum_kp_k^2\alpha_i^k\sigma_k^2", wrong("without the noise term", share=(1, 0)),
        wrong("nine tenths of the noise term", share=(1, Fraction(9, 10))), holds=True, needs=(UNCORRELATED,),
        proof=PROOF,
        note="mini-batches of different clients uncorrelated given the past of all of them",
    )
    yield form(
        "any correlation", at_states(q, noise, correlated=True),
        r"\mathbb E\|\bar w_{i+1}-w^*\|^2\le\mathbb E\|\bar w_i-w^*-\eta\bar g_i\|^2"
        r"+\eta^2\sum_k\tfrac{p_k^2}{p^k}\alpha_i^k\sigma_k^2",
        wrong("without the noise term", share=(1, 0)),
        wrong("nine tenths of the noise term", share=(1, Fraction(9, 10))),
        wrong("p_k^2 for p_k^2/p^k", at_states(q, noise)), holds=True, proof=PROOF,
        note="Cauchy-Schwarz with the weights p^k; what stays needed is that the noise has mean "
        "zero given the past of all clients",
    )


def gradient(v: StepState, smooth: bool = False) -> Sides:
    """Sides of step 2: Jensen, or with ``smooth`` gradients against function gaps."""
    if smooth:
        return le(v.active(sq(v.g_mean)), 2 * v.L * v.active(v.gap))
    return le(sq(gbar(v)), v.theta * v.active(sq(v.g_mean)))


@step(2, "the aggregated gradient")
def step_2(q):
    """Jensen and smoothness."""
    yield repaired(
        at_states(q, gradient),
        r"\|\bar g_i\|^2\le\theta\sum_kp_k\alpha_i^k\|\nabla F_k(w_i^k)\|^2",
        HALF, NINE_TENTHS, holds=True,
        note="Jensen with the weights p^k", proof=PROOF,
    )
    yield form(
        "smoothness", at_states(q, gradient, smooth=True),
        r"\sum_kp_k\alpha_i^k\|\nabla F_k(w_i^k)\|^2\le2L\sum_kp_k\alpha_i^k(F_k(w_i^k)-F_k^*)",
        HALF, NINE_TENTHS, holds=True,
        proof=PROOF,
    )


def distance(v: StepState) -> np.ndarray:
    """||w_i^k - wbar_i||^2: (O, P, N, E)."""
    E = v.law.E
    return sq(v.w[None, :, :, :E] - v.wbar[:, :, None, :E])


def inner(v: StepState) -> Sides:
    """Step 3."""
    star, E = v.oracles.star, v.law.E
    lhs = -2 * v.eta * ((v.wbar[:, :, :E] - star) * gbar(v)).sum(axis=-1)
    above = v.gap - v.D[:, None]  # F_k(w_i^k) - F_k(w*)
    return le(
        lhs, v.active(distance(v)), 2 * v.L * v.eta**2 * v.active(v.gap),
        -2 * v.eta * v.active(above), -v.eta * v.mu * v.active(sq(v.w[:, :, :E] - star)),
    )


@step(3, "the inner product")
def step_3(q):
    """Convexity and smoothness of every client."""
    yield repaired(
        at_states(q, inner),
        r"-2\eta\langle\bar w_i-w^*,\bar g_i\rangle\le\sum p\alpha\|\bar w_i-w_i^k\|^2"
        r"+2L\eta^2\sum p\alpha(F_k(w_i^k)-F_k^*)-2\eta\sum p\alpha(F_k(w_i^k)-F_k(w^*))"
        r"-\eta\mu\sum p\alpha\|w_i^k-w^*\|^2", wrong("twice the strong convexity", share=(1, 1, 1, 2)),
        wrong("eleven tenths of the strong convexity", share=(1, 1, 1, Fraction(11, 10))),
        wrong("nine tenths of the drift", share=(Fraction(9, 10), 1, 1, 1)), holds=True, proof=PROOF,
    )


def contraction(v: StepState) -> Sides:
    """Step 4."""
    star, E, rate = v.oracles.star, v.law.E, v.eta * v.mu
    share = (v.p[:, :, None] * v.alpha).sum(axis=1)[:, None]  # sum_k p_k alpha_i^k (O, 1, E)
    return le(
        -rate * v.active(sq(v.w[:, :, :E] - star)), -rate / 4 * share * v.start_sq,
        rate / 2 * share * sq(v.wbar[:, :, :E] - v.w0), rate * v.active(distance(v)),
    )


@step(4, "the contraction")
def step_4(q):
    """The distance of local models against that of the state."""
    yield repaired(
        at_states(q, contraction),
        r"-\eta\mu\sum p\alpha\|w_i^k-w^*\|^2\le-\tfrac14\eta\mu\sum p\alpha\|w_0-w^*\|^2"
        r"+\tfrac12\eta\mu\sum p\alpha\|\bar w_i-w_0\|^2+\eta\mu\sum p\alpha\|w_i^k-\bar w_i\|^2",
        wrong("2 for 1/4", share=(8, 1, 1)), holds=True, proof=PROOF,
    )


def from_start(v: StepState) -> Sides:
    """Step 5, pointwise: the function gaps of all steps, expanded at w_0."""
    E, theta, eta, at_start = v.law.E, v.theta, v.eta, v.gap_at(v.w0)
    gained = 2 * eta * v.active(v.gap - v.D[:, None])
    lhs = 2 * v.L * (1 + theta) * eta**2 * v.active(v.gap) - gained
    work = v.p * v.s  # (O, N)
    return le(
        lhs.sum(axis=-1),
        (-v.gamma_prime * (1 - eta * v.L) * (work * (at_start - v.D)).sum(axis=1))[:, None],
        (2 * (2 + theta) * v.L * eta**2 * (work * v.D).sum(axis=1))[:, None],
        v.active(sq(v.w[:, :, :E] - v.w0)).sum(axis=-1),
    )


def bias_at_start(v: StepState) -> Sides:
    """Step 5, in expectation: what is left at w_0."""
    m, at_start = v.law.moments, v.gap_at(v.w0)
    lhs = -v.gamma_prime * (1 - v.eta * v.L) * (m.ps * (at_start - v.D)).sum()
    allowed = 0 if m.ratio_equal else 2 * v.eta * (m.ps * v.D).sum()
    return le(np.array([lhs]), np.array([lhs * 0 + allowed]))


def bias_sharpened(v: StepState) -> Sides:
    """The same with E[p s] - c p^k."""
    m, at_start, w = v.law.moments, v.gap_at(v.w0), v.oracles.weights
    lhs = -v.gamma_prime * (1 - v.eta * v.L) * (m.ps * (at_start - v.D)).sum()
    excess = m.ps - (m.ps / w).min() * w
    return le(np.array([lhs]), np.array([lhs * 0 + 2 * v.eta * (excess * v.D).sum()]))


def expanded_at_wbar(v: StepState) -> Sides:
    """Sides of E sum p alpha (F_k(wbar_i) - F_k(w*)) >= 0, where wbar_i depends on (p, s)."""
    gaps = np.moveaxis(v.gap_at(v.wbar[:, :, : v.law.E]) - v.D, -1, 2)  # (O, P, N, E)
    total = v.over_all(v.active(gaps)).sum()
    return le(np.array([-total]), np.array([total * 0]))


@step(5, "function values, expanded at w_0")
def step_5(q):
    """Function values of all local steps, expanded at the state, and what is left of them there."""
    yield repaired(
        at_states(q, from_start),
        r"\sum_{i,k}p\alpha[2L(1+\theta)\eta^2(F_k(w_i^k)-F_k^*)-2\eta(F_k(w_i^k)-F_k(w^*))]"
        r"\le-\gamma'(1-\eta L)\sum_kp_ks_k(F_k(w_0)-F_k(w^*))+2(2+\theta)L\eta^2\sum p_ks_kD_k"
        r"+\sum_{i,k}p\alpha\|w_i^k-w_0\|^2", wrong("without the drift", share=(1, 1, 0)), holds=True,
        note="eta <= 1/(2(1+theta)L) by the second entry of gamma", proof=PROOF,
    )
    yield form(
        "expectation", at_states(q, bias_at_start),
        r"-\gamma'(1-\eta L)\sum_k\mathbb E[p_ks_k](F_k(w_0)-F_k(w^*))"
        r"\le2\eta r\sum_k\mathbb E[p_ks_k]D_k", wrong("without J", share=0), holds=True,
        note="r = 0 where E[p s]/p^k is the same for all k: the sum is then c (F(w_0) - F(w*))",
        proof="0 <= gamma' (1 - eta L) <= 2 eta and F_k(w_0) - F_k(w*) >= -D_k; where E[p s] = c "
        "p^k the sum is c (F(w_0) - F(w*)) >= 0",
    )
    yield form(
        "sharpened", at_states(q, bias_sharpened),
        r"-\gamma'(1-\eta L)\sum_k\mathbb E[p_ks_k](F_k(w_0)-F_k(w^*))"
        r"\le2\eta\sum_k(\mathbb E[p_ks_k]-cp^k)D_k,\ c=\min_k\mathbb E[p_ks_k]/p^k",
        wrong("without J", share=0), holds=True,
        proof="as in `expectation`, after c (F(w_0) - F(w*)) >= 0 is taken off the sum",
    )
    yield form(
        "expanded at wbar_i", at_states(q, expanded_at_wbar),
        r"\mathbb E\sum_{i,k}p_k\alpha_i^k(F_k(\bar w_i)-F_k(w^*))\ge0"
        r"\text{ where }\mathbb E[p_ks_k]\propto p^k", fails=True, needs=(EQUAL,),
        note="wbar_i is correlated with (p, s), so that the expectation does not factor; w_0 is "
        "not",
    )


def one_client_drift(v: StepState, factor: int = 1) -> Sides:
    """Step 6a: E||w_i^k - w_0||^2 <= eta^2 G^2 i^2."""
    i = np.arange(v.law.E + 1)
    return le(v.drift_sq, v.eta**2 * v.G_sq * (i**2 if factor == 1 else i) + 0 * v.drift_sq)


def _stopped_sums(v: StepState) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """sum_k p_k ||wbar - w_k||^2, sum_k p_k ||w_k - w_0||^2, ||wbar - w_0||^2: (O, P, E + 1)."""
    p = v.p[:, None, :, None]
    return (
        (p * sq(v.stopped - v.wbar[:, :, None])).sum(axis=2),
        (p * sq(v.stopped - v.w0)).sum(axis=2),
        sq(v.wbar - v.w0),
    )


def identity(v: StepState, shift: int = 2) -> Sides:
    """Step 6b."""
    lhs, alone, moved = _stopped_sums(v)
    total = v.p.sum(axis=1)[:, None, None] - shift
    return eq(lhs, alone + total * moved, alone, total * moved)


def jensen(v: StepState, theta: Any = None) -> Sides:
    """Sides of step 6c, both inequalities; with ``theta`` the second one alone."""
    w = v.oracles.weights[None, :, None]
    each = sq(v.stopped - v.w0)
    middle = ((v.p**2)[:, None, :, None] / w * each).sum(axis=2)
    _, alone, moved = _stopped_sums(v)
    if theta is not None:
        return le(middle, theta * alone)
    return _stack(le(moved, middle), le(middle, v.theta * alone))


def _stack(*parts: Sides) -> Sides:
    lhs, rhs, scale = (
        np.concatenate([np.ravel(getattr(p, n)) for p in parts]) for n in ("lhs", "rhs", "scale")
    )
    return Sides(lhs, rhs, scale, parts[0].relation)


def sums_of_squares(v: StepState, less: int = 0) -> Sides:
    """Sides of step 6d, both sums, for every s = 0..E."""
    E = v.law.E
    s = np.arange(E + 1)
    capped = np.minimum(np.arange(E), s[:, None]) ** 2
    before = np.where(np.arange(E) < s[:, None], np.arange(E) ** 2, 0)
    zero = v.eta * 0
    first, second = capped.sum(axis=1) + zero, before.sum(axis=1) + zero
    bound = s * (E * (E - 1) - less)
    return _stack(le(first, bound / (2 + zero)), le(second, bound / (3 + zero)))


def total_drift(v: StepState, sharp: bool = False) -> Sides:
    """Step 6e: all drift terms of a round against the third and fourth term of B."""
    E, rate = v.law.E, v.eta * v.mu
    near = v.over_all(v.active(distance(v)).sum(axis=-1))
    own = v.over_all(v.active(sq(v.w[:, :, :E] - v.w0)).sum(axis=-1))
    share = (v.p[:, :, None] * v.alpha).sum(axis=1)[:, None]
    moved = v.over_all((share * sq(v.wbar[:, :, :E] - v.w0)).sum(axis=-1))
    lhs = (1 + rate) * near + own + rate / 2 * moved
    c = v.constants()
    common = c.noise_term[0] + c.gap_term[0]
    last = c.fourth[0] * v.G_sq * ((E - 1) if sharp else 2 * E)
    total = (c.B_sharp if sharp else c.B())[0]
    parts = v.eta**2 * (total - common - last), v.eta**2 * last
    return le(*(np.array([part]) for part in (lhs, *parts)))


DRIFT = (
    r"(1+\eta\mu)\mathbb E\sum p\alpha\|\bar w_i-w_i^k\|^2+\mathbb E\sum p\alpha\|w_i^k-w_0\|^2"
    r"+\tfrac12\eta\mu\,\mathbb E\sum p\alpha\|\bar w_i-w_0\|^2\le\eta^2\{"
)


@step(6, "the drift")
def step_6(q):
    """The drift of all local steps against the third and fourth term of B."""
    yield repaired(
        at_states(q, total_drift), DRIFT + r"(2+\tfrac\mu{2(1+\theta)L})E(E-1)G^2"
        r"\,\mathbb E[\sum ps+\theta(\sum p-2)_+\sum ps]+2EG^2\sum\tfrac{\mathbb E[p^2s]}{p^k}\}",
        wrong("without both terms", share=0), holds=True, proof=PROOF,
    )
    yield form(
        "sharpened", at_states(q, total_drift, sharp=True),
        DRIFT + r"E(E-1)G^2((\tfrac12+\tfrac\mu{4(1+\theta)L})"
        r"\,\mathbb E[\sum ps+\theta(\sum p-2)_+\sum ps]+\tfrac13\mathbb E\sum ps)"
        r"+(E-1)G^2\sum\tfrac{\mathbb E[p^2s]}{p^k}\}", wrong("without both terms", share=0),
        holds=True, proof=PROOF,
    )
    yield form(
        "one client", at_states(q, one_client_drift), r"\mathbb E\|w_i^k-w_0\|^2\le\eta^2G^2i^2",
        wrong("i for i^2", factor=0),
        NINE_TENTHS, holds=True,
        note="G counts all E virtual steps of all clients",
        proof="Cauchy-Schwarz: the square of a sum of i gradients is at most i times the sum of "
        "their squares, each at most G^2 in the mean",
    )
    yield form(
        "identity", at_states(q, identity),
        r"\sum_kp_k\|\bar w-w_k\|^2=\sum_kp_k\|w_k-w_0\|^2+(\sum_kp_k-2)\|\bar w-w_0\|^2",
        wrong("1 for 2", shift=1), holds=True,
        note="at the stopped points of all clients: where (sum p - 2)_+ comes from",
        proof="wbar - w_0 = sum p_k (w_k - w_0): expand both squares around w_0",
    )
    yield form(
        "Jensen", at_states(q, jensen),
        r"\|\bar w-w_0\|^2\le\sum_k\tfrac{p_k^2}{p^k}\|w_k-w_0\|^2\le\theta\sum_kp_k\|w_k-w_0\|^2",
        wrong("theta = 1/2", theta=0.5), wrong("theta = 9/10", theta=0.9), holds=True,
        proof="Jensen with the weights p^k, of sum 1, for the vectors (p_k/p^k)(w_k - w_0); then "
        "p_k <= theta p^k",
    )
    yield form(
        "sums", at_states(q, sums_of_squares),
        r"\sum_{i<E}\min(i,s)^2\le\tfrac{sE(E-1)}2,\quad\sum_{i<s}i^2\le\tfrac{sE(E-1)}3",
        wrong("E(E-1) - 2 for E(E-1)", less=2), holds=True,
        proof="min(i, s)^2 <= s i; and the squares below s sum to s (s - 1)(2s - 1)/6, at most s "
        "E (E - 1)/3",
    )


def one_round(v: StepState, sharp: str = "") -> Sides:
    """Step 7, given the state: E||w_{tau+1} - w*||^2."""
    c, m = v.constants(), v.law.moments
    lhs = v.over_all(sq(v.wbar[:, :, -1] - v.oracles.star))
    B = ({"uncorrelated": c.B_sharp, "any": c.B_any}[sharp] if sharp else c.B())[0]
    bias = c.J_sharp[0] if sharp else c.r[0] * c.J_t[0]
    bias = bias * v.mu * m.sum_ps * v.eta / (16 * v.law.E)  # J_t/(y + E) = 2 eta sum E[ps] D
    start = (1 - v.eta * v.mu * m.sum_ps / 4) * v.start_sq
    return le(*(np.array([part]) for part in (lhs, start, v.eta**2 * B, bias)))


def recursion(q: EFLRun) -> Sides:
    """Sides of a_{tau+1} <= (1 - 4E/(y+E)) a_tau + b_tau/(y+E)^2 + r_tau J/(y+E)."""
    c = q.constants
    taus = q.horizons[q.horizons < c.T]
    y, before = c.y[taus + 1], q.distance_sq[taus]
    shrink, b, bias = (
        a if q.exact else np.broadcast_to(a[:, None], before.shape)
        for a in (1 - 4 * c.E / y, c.b(c.B())[taus] / y**2, c.r[taus] * c.J / y)
    )
    return le(q.distance_sq[taus + 1], shrink * before, b, bias, noise=q.noise)


def carried(c: EFLConstants, taus: np.ndarray, total: Any = np.add) -> tuple[np.ndarray, ...]:
    """The bound at tau, put through the recursion, and both terms of the bound at tau + 1."""
    C = total(c.gamma**2 * c.start_sq + 0 * c.y, c.noise_sum(c.B()))
    HJ, y = c.H() * c.J, c.y[taus + 1]
    lhs = (1 - 4 * c.E / y) * (C / c.y**2 + HJ / c.y)[taus]
    lhs = lhs + c.b(c.B())[taus] / y**2 + c.r[taus] * c.J / y
    return lhs, C[taus + 1] / y**2, HJ[taus + 1] / y


def induction(q: EFLRun, total: Any = np.add) -> Sides:
    """Sides of the bound at tau, put through the recursion, against the bound at tau + 1."""
    taus = q.horizons[q.horizons < q.constants.T]
    both = carried(q.constants, taus, total)
    if q.exact:
        return le(*both)
    return le(*(np.broadcast_to(a[:, None], (len(taus), q.lhs.shape[1])) for a in both))


CONTRACTED = (
    r"\mathbb E[\|\omega_{\tau+1}-\omega^*\|^2\mid\omega_\tau]"
    r"\le(1-\tfrac14\eta\mu S_\tau)\|\omega_\tau-\omega^*\|^2+"
)
SHARP = CONTRACTED + r"\eta^2\mathbb E[B^+_\tau]+\tfrac{J^+_\tau}{(\tau+1)E+\gamma}"
ANY = (
    r",\ \text{the first term of }B^+_\tau\text{ being }"
    r"\textstyle\sum_k\tfrac{p_k^2}{p^k}s^k\min\{\sigma_k^2,G^2\}"
)
INDUCTION = (
    r"(1-\tfrac{4E}{y+E})\Big(\tfrac{C_\tau}{y^2}+\tfrac{H_\tau J}y\Big)"
    r"+\tfrac{b_\tau}{(y+E)^2}+\tfrac{r_\tau J}{y+E}"
    r"\le\tfrac{C_{\tau+1}}{(y+E)^2}+\tfrac{H_{\tau+1}J}{y+E},\ C_\tau=%s,"
    r"\ b_t=(\tfrac{16E}\mu)^2\tfrac{\mathbb E[B_t]}{S_t^2},\ y=\tau E+\gamma"
)


@step(7, "the recursion and the induction")
def step_7(q):
    """One round from a state, along a run, and the bound put through it."""
    nothing = "without B and J"
    yield repaired(
        at_states(q, one_round),
        CONTRACTED + r"\eta^2\mathbb E[B_\tau]+2\eta r_\tau\sum_k\mathbb E[p^ks^k]D_k",
        wrong(nothing, share=(1, 0, 0)), holds=True, note="given the state, with G and sigma_k of the round",
        proof=PROOF,
    )
    yield form(
        "sharpened", at_states(q, one_round, sharp="uncorrelated"), SHARP, wrong(nothing, share=(1, 0, 0)),
        holds=True, needs=(UNCORRELATED,), proof=PROOF,
    )
    yield form(
        "sharpened, any correlation", at_states(q, one_round, sharp="any"), SHARP + ANY,
        wrong(nothing, share=(1, 0, 0)),
        wrong("nine tenths of B and J", share=(1, Fraction(9, 10), Fraction(9, 10))),
        wrong("the noise term of uncorrelated mini-batches", sharp="uncorrelated"), holds=True,
        proof=PROOF,
    )
    yield form(
        "along a run", lambda: recursion(q), r"a_{\tau+1}\le(1-\tfrac{4E}{y+E})a_\tau"
        r"+\tfrac{(16E/\mu)^2\mathbb E[B_\tau]/S_\tau^2}{(y+E)^2}+\tfrac{r_\tau J}{y+E},"
        r"\ y=\tau E+\gamma", wrong(nothing, share=(1, 0, 0)), holds=True, over=Runs,
        proof="the expectation of `repaired`, with the step eta_tau put in",
    )
    yield form(
        "induction", lambda: induction(q),
        INDUCTION % r"\gamma^2\|\omega_0-\omega^*\|^2+\sum_{t<\tau}b_t",
        wrong("without the J term", share=(1, 0)),
        wrong("nine tenths of the J term at tau + 1", share=(1, Fraction(9, 10))), holds=True,
        over=Runs, proof=PROOF,
        note="(y-3E)(y+E) <= y^2 and y - 3E <= y, for the sum",
    )
    yield form(
        "induction with max", lambda: induction(q, total=np.maximum),
        INDUCTION % r"\max\{\gamma^2\|\omega_0-\omega^*\|^2,\sum_{t<\tau}b_t\}",
        fails=True, over=Runs,
        note="where one part of the maximum is the larger one, the other one's increase is lost",
    )
