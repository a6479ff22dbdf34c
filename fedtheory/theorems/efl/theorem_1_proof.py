"""Steps 1 to 5 of the proof of EFL's Theorem 1, each for one round from given states.

Everything that may happen in it is enumerated. Fix a round, eta = eta_tau, w_0 its state,
alpha_i^k = 1{i < s_k}, wbar_i = w_0 + sum_k p_k (w_{min(i, s_k)}^k - w_0): then wbar_{i+1} =
wbar_i - eta sum_k p_k alpha_i^k g_i^k, and wbar_E is the next state. Steps 2 to 4 hold for every
outcome, step 1 given (p, s), steps 5 to 7 in expectation. Only step 1, and what is sharpened in
step 7, asks how the clients' mini-batches are correlated.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from fedtheory.theorems.efl.notation import SYMBOLS
from fedtheory.theorems.efl.paper import paper
from fedtheory.theorems.efl.quantities.run import UNCORRELATED
from fedtheory.theorems.efl.quantities.step import EQUAL, StepState, StepsView, sq
from fedtheory.theorems.efl.runs_world import Steps
from fedtheory.theorems.efl.theorem_1 import ASSUMPTIONS, PROOF
from fedtheory.theory import Sides, form, le, repaired, wrong


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


def noise(v: StepState, with_noise: Any = 1, correlated: bool = False) -> Sides:
    """Sides of step 1, given (p, s); ``correlated``: p_k^2/p^k for p_k^2, for any mini-batches."""
    star, E = v.oracles.star, v.law.E
    after = v.over_batches(sq(v.wbar[:, :, 1:] - star))
    before = v.over_batches(sq(v.wbar[:, :, :E] - star - v.eta * gbar(v)))
    squares = v.p**2 / v.oracles.weights if correlated else v.p**2
    noise = v.eta**2 * (squares[:, :, None] * v.alpha * v.sigma_sq[:, None]).sum(axis=1)
    return le(after, before, with_noise * noise)


@step(1, "noise")
def step_1(q):
    """The noise of one local step."""
    any_way = {"correlated": True}
    yield repaired(
        at_states(q, noise),
        r"\mathbb E\|\bar w_{i+1}-w^*\|^2\le\mathbb E\|\bar w_i-w^*-\eta\bar g_i\|^2"
        r"+\eta^2\sum_kp_k^2\alpha_i^k\sigma_k^2", wrong("without the noise term", with_noise=0),
        wrong("nine tenths of the noise term", with_noise=0.9), holds=True, needs=(UNCORRELATED,),
        proof=PROOF,
        note="mini-batches of different clients uncorrelated given the past of all of them",
    )
    yield form(
        "any correlation", at_states(q, noise, **any_way),
        r"\mathbb E\|\bar w_{i+1}-w^*\|^2\le\mathbb E\|\bar w_i-w^*-\eta\bar g_i\|^2"
        r"+\eta^2\sum_k\tfrac{p_k^2}{p^k}\alpha_i^k\sigma_k^2",
        wrong("without the noise term", with_noise=0),
        wrong("nine tenths of the noise term", with_noise=0.9),
        wrong("p_k^2 for p_k^2/p^k", at_states(q, noise)), holds=True, proof=PROOF,
        note="Cauchy-Schwarz with the weights p^k; what stays needed is that the noise has mean "
        "zero given the past of all clients",
    )


def gradient(v: StepState, theta: Any = None, smooth: bool = False, factor: Any = 2) -> Sides:
    """Sides of step 2: Jensen, or with ``smooth`` gradients against function gaps."""
    theta = v.theta if theta is None else theta
    if smooth:
        return le(v.active(sq(v.g_mean)), factor * v.L * v.active(v.gap))
    return le(sq(gbar(v)), theta * v.active(sq(v.g_mean)))


@step(2, "the aggregated gradient")
def step_2(q):
    """Jensen and smoothness."""
    yield repaired(
        at_states(q, gradient),
        r"\|\bar g_i\|^2\le\theta\sum_kp_k\alpha_i^k\|\nabla F_k(w_i^k)\|^2",
        wrong("theta = 1/2", theta=0.5), wrong("theta = 9/10", theta=0.9), holds=True,
        note="Jensen with the weights p^k", proof=PROOF,
    )
    yield form(
        "smoothness", at_states(q, gradient, smooth=True),
        r"\sum_kp_k\alpha_i^k\|\nabla F_k(w_i^k)\|^2\le2L\sum_kp_k\alpha_i^k(F_k(w_i^k)-F_k^*)",
        wrong("L for 2L", factor=1), wrong("nine tenths of 2L", factor=1.8), holds=True,
        proof=PROOF,
    )


def distance(v: StepState) -> np.ndarray:
    """||w_i^k - wbar_i||^2: (O, P, N, E)."""
    E = v.law.E
    return sq(v.w[None, :, :, :E] - v.wbar[:, :, None, :E])


def inner(v: StepState, convex: Any = 1, drift: Any = 1) -> Sides:
    """Step 3."""
    star, E = v.oracles.star, v.law.E
    lhs = -2 * v.eta * ((v.wbar[:, :, :E] - star) * gbar(v)).sum(axis=-1)
    above = v.gap - v.D[:, None]  # F_k(w_i^k) - F_k(w*)
    return le(
        lhs, drift * v.active(distance(v)), 2 * v.L * v.eta**2 * v.active(v.gap),
        -2 * v.eta * v.active(above), -convex * v.eta * v.mu * v.active(sq(v.w[:, :, :E] - star)),
    )


@step(3, "the inner product")
def step_3(q):
    """Convexity and smoothness of every client."""
    yield repaired(
        at_states(q, inner),
        r"-2\eta\langle\bar w_i-w^*,\bar g_i\rangle\le\sum p\alpha\|\bar w_i-w_i^k\|^2"
        r"+2L\eta^2\sum p\alpha(F_k(w_i^k)-F_k^*)-2\eta\sum p\alpha(F_k(w_i^k)-F_k(w^*))"
        r"-\eta\mu\sum p\alpha\|w_i^k-w^*\|^2", wrong("twice the strong convexity", convex=2),
        wrong("eleven tenths of the strong convexity", convex=1.1),
        wrong("nine tenths of the drift", drift=0.9), holds=True, proof=PROOF,
    )


def contraction(v: StepState, quarter: Any = None) -> Sides:
    """Step 4."""
    star, E, rate = v.oracles.star, v.law.E, v.eta * v.mu
    share = (v.p[:, :, None] * v.alpha).sum(axis=1)[:, None]  # sum_k p_k alpha_i^k (O, 1, E)
    quarter = rate / 4 if quarter is None else quarter * rate
    return le(
        -rate * v.active(sq(v.w[:, :, :E] - star)), -quarter * share * v.start_sq,
        rate / 2 * share * sq(v.wbar[:, :, :E] - v.w0), rate * v.active(distance(v)),
    )


@step(4, "the contraction")
def step_4(q):
    """The distance of local models against that of the state."""
    yield repaired(
        at_states(q, contraction),
        r"-\eta\mu\sum p\alpha\|w_i^k-w^*\|^2\le-\tfrac14\eta\mu\sum p\alpha\|w_0-w^*\|^2"
        r"+\tfrac12\eta\mu\sum p\alpha\|\bar w_i-w_0\|^2+\eta\mu\sum p\alpha\|w_i^k-\bar w_i\|^2",
        wrong("2 for 1/4", quarter=2), holds=True, proof=PROOF,
    )


def from_start(v: StepState, with_drift: int = 1) -> Sides:
    """Step 5, pointwise: the function gaps of all steps, expanded at w_0."""
    E, theta, eta, at_start = v.law.E, v.theta, v.eta, v.gap_at(v.w0)
    gained = 2 * eta * v.active(v.gap - v.D[:, None])
    lhs = 2 * v.L * (1 + theta) * eta**2 * v.active(v.gap) - gained
    work = v.p * v.s  # (O, N)
    return le(
        lhs.sum(axis=-1),
        (-v.gamma_prime * (1 - eta * v.L) * (work * (at_start - v.D)).sum(axis=1))[:, None],
        (2 * (2 + theta) * v.L * eta**2 * (work * v.D).sum(axis=1))[:, None],
        with_drift * v.active(sq(v.w[:, :, :E] - v.w0)).sum(axis=-1),
    )


def bias_at_start(v: StepState, with_gap: int = 1) -> Sides:
    """Step 5, in expectation: what is left at w_0."""
    m, at_start = v.law.moments, v.gap_at(v.w0)
    lhs = -v.gamma_prime * (1 - v.eta * v.L) * (m.ps * (at_start - v.D)).sum()
    allowed = 0 if m.ratio_equal else 2 * v.eta * (m.ps * v.D).sum()
    return le(np.array([lhs]), np.array([lhs * 0 + with_gap * allowed]))


def bias_sharpened(v: StepState, with_gap: int = 1) -> Sides:
    """The same with E[p s] - c p^k."""
    m, at_start, w = v.law.moments, v.gap_at(v.w0), v.oracles.weights
    lhs = -v.gamma_prime * (1 - v.eta * v.L) * (m.ps * (at_start - v.D)).sum()
    excess = m.ps - (m.ps / w).min() * w
    return le(np.array([lhs]), np.array([lhs * 0 + with_gap * 2 * v.eta * (excess * v.D).sum()]))


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
        r"+\sum_{i,k}p\alpha\|w_i^k-w_0\|^2", wrong("without the drift", with_drift=0), holds=True,
        note="eta <= 1/(2(1+theta)L) by the second entry of gamma", proof=PROOF,
    )
    yield form(
        "expectation", at_states(q, bias_at_start),
        r"-\gamma'(1-\eta L)\sum_k\mathbb E[p_ks_k](F_k(w_0)-F_k(w^*))"
        r"\le2\eta r\sum_k\mathbb E[p_ks_k]D_k", wrong("without J", with_gap=0), holds=True,
        note="r = 0 where E[p s]/p^k is the same for all k: the sum is then c (F(w_0) - F(w*))",
        proof="0 <= gamma' (1 - eta L) <= 2 eta and F_k(w_0) - F_k(w*) >= -D_k; where E[p s] = c "
        "p^k the sum is c (F(w_0) - F(w*)) >= 0",
    )
    yield form(
        "sharpened", at_states(q, bias_sharpened),
        r"-\gamma'(1-\eta L)\sum_k\mathbb E[p_ks_k](F_k(w_0)-F_k(w^*))"
        r"\le2\eta\sum_k(\mathbb E[p_ks_k]-cp^k)D_k,\ c=\min_k\mathbb E[p_ks_k]/p^k",
        wrong("without J", with_gap=0), holds=True,
        proof="as in `expectation`, after c (F(w_0) - F(w*)) >= 0 is taken off the sum",
    )
    yield form(
        "expanded at wbar_i", at_states(q, expanded_at_wbar),
        r"\mathbb E\sum_{i,k}p_k\alpha_i^k(F_k(\bar w_i)-F_k(w^*))\ge0"
        r"\text{ where }\mathbb E[p_ks_k]\propto p^k",
        fails=True, needs=(EQUAL,),
        note="wbar_i is correlated with (p, s), so that the expectation does not factor; w_0 is "
        "not",
    )
