"""EFL's convergence with compression where clients are inactive or incomplete: the same theorem,
with the probability of sending."""

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fedtheory.theorems.efl.compressed_convergence import part, sharpened
from fedtheory.theorems.efl.compressed_world import PartialView
from fedtheory.theorems.efl.paper import paper
from fedtheory.theory import Sides, form, le, repaired, wrong

_V = r"\tfrac{\gamma^2\|\omega_0-\omega^*\|^2+t(16E/\mu)^2B/S^2}{(tE+\gamma)^2}+\tfrac{H_tJ}{tE+\gamma}"
_SIZES = (
    r"\gamma=\max\{\tfrac{8E}{\pi\delta},\tfrac{32E(1+\theta)L}{\mu S}\},\ \rho=\big(\tfrac{16}{5\delta}+(\tfrac4\delta-1)"
    r"(\tfrac{16}{5\delta}+1)\big)\theta EG"
)
_B = (
    r"B=2(2+\theta)L\textstyle\sum\mathbb E[ps]D_k+E(E-1)G^2\mathbb E[\sum ps+\theta(\sum p-2)_+\sum ps]+"
    r"(1+\tfrac\mu{2(1+\theta)L})S(\tfrac{(E-1)(2E-1)}3G^2+2\rho^2)+2S\rho^2"
)
_S = (
    r"\tfrac{\gamma^2\|\omega_0-\omega^*\|^2+t(16E/\mu)^2B^+/S^2}{(tE+\gamma)^2}+"
    r"\min\{\tfrac{44L}{3\mu},\tfrac{11}2tLS\eta_0\}\rho^2\eta_{t-1}^2+\tfrac{H_tJ}{tE+\gamma}"
)
_B_SHARP = (
    r"B^+=\tfrac{9+5\theta}2L\textstyle\sum\mathbb E[ps]D_k+\tfrac{E(E-1)}2G^2\mathbb E[\sum ps+"
    r"\theta(\sum p-2)_+\sum ps]+"
    r"(1+\tfrac\mu{(1+\theta)L})S\tfrac{(E-1)(2E-1)}6G^2"
)


def _virtual(v: PartialView, first: Any, rest: Any, bias: Any) -> list[np.ndarray]:
    """gamma^2 ||w_0 - w*||^2/y^2, t (16E/mu)^2 B/(S y)^2 and H_t J/y, t = 1..T."""
    y, t = v.y[1:], v.times[1:]
    noise = t * (16 * v.E / v.mu) ** 2 * v.B / v.S**2
    return [first * v.gamma**2 * v.mean(v.v - v.star)[0] / y**2, rest * noise / y**2, bias * t * v.r * v.J / y]


def _bound_virtual(v: PartialView, first: Any = 1, rest: Any = 1, bias: Any = 1) -> Sides:
    return le(v.mean(v.v - v.star)[1:], *_virtual(v, first, rest, bias), noise=v.noise)


def _bound(v: PartialView, first: Any = 1, rest: Any = 1, bias: Any = 1) -> Sides:
    terms = [2 * term for term in _virtual(v, first, rest, bias)]
    return le(v.mean(v.w - v.star)[1:], *terms, rest * 2 * v.rho_sq * v.eta[1:] ** 2, noise=v.noise)


def _sharp(
    v: PartialView, first: Any = 1, rest: Any = 1, bias: Any = 1, residuals: Any = 1
) -> list[np.ndarray]:
    """The repaired bound's terms with B_sharp for B, and what the residuals add, t = 1..T."""
    y, t, before = v.y[1:], v.times[1:], v.eta[:-1]
    noise = t * (16 * v.E / v.mu) ** 2 * v.B_sharp / v.S**2
    off = np.minimum(44 * v.L / (3 * v.mu) * v.rho_sq + 0 * t, t * v.off * v.eta[0]) * before**2
    start = v.gamma**2 * v.mean(v.v - v.star)[0]
    return [first * start / y**2, rest * noise / y**2, residuals * off, bias * t * v.r * v.J / y]


def _sharp_virtual(v: PartialView, **change: Any) -> Sides:
    return le(v.mean(v.v - v.star)[1:], *_sharp(v, **change), noise=v.noise)


def _sharp_model(v: PartialView, residuals: Any = 1, **change: Any) -> Sides:
    terms = [2 * term for term in _sharp(v, residuals=residuals, **change)]
    apart = residuals * 2 * v.rho_sq * v.eta[1:] ** 2
    return le(v.mean(v.w - v.star)[1:], *terms, apart, noise=v.noise)


def _sharp_round(v: PartialView, rest: Any = 1, kept: Any = 1, residuals: Any = 1) -> Sides:
    """a_{t+1} <= (1 - eta mu S/2) a_t + eta^2 B_sharp + eta^3 off + r 2 eta sum E[p s] D_k."""
    a, eta = v.mean(v.v - v.star), v.eta[:-1]
    bias = v.r * 2 * eta * (v.moments.ps * v.D).sum()
    new = (rest * eta**2 * v.B_sharp, rest * residuals * eta**3 * v.off, rest * bias)
    return le(a[1:], kept * (1 - eta * v.mu * v.S / 2) * a[:-1], *new, noise=v.noise)


def _one_client(v: PartialView, kept: Any = 1, rest: Any = 1) -> Sides:
    """E||R_{t+1}^k||^2 <= (1 - pi_k delta/2) E||R_t^k||^2 + (2 pi_k/delta) (theta E G eta_t)^2."""
    R = v.mean(v.R)
    delta = 1 if v.delta is None else v.delta
    new = rest * (2 * v.pi / delta) * v.reach_sq * v.eta[:-1, None] ** 2
    return le(R[1:], kept * (1 - v.pi * delta / 2) * R[:-1], new, noise=v.noise)


def _clients(v: PartialView, share: Any = 1) -> Sides:
    """E||R_t^k||^2 <= (16/(5 delta) theta E G eta_t)^2."""
    bound = share * v.client_factor**2 * v.reach_sq * v.eta[1:, None] ** 2
    return le(v.mean(v.R)[1:], bound + 0 * v.pi, noise=v.noise)


def _round(v: PartialView, rest: Any = 1, kept: Any = 1) -> Sides:
    """a_{t+1} <= (1 - eta mu S/2) a_t + eta^2 B + r 2 eta sum E[p s] D_k."""
    a, eta = v.mean(v.v - v.star), v.eta[:-1]
    bias = v.r * 2 * eta * (v.moments.ps * v.D).sum()
    return le(a[1:], kept * (1 - eta * v.mu * v.S / 2) * a[:-1], rest * eta**2 * v.B, rest * bias, noise=v.noise)


@paper.statement(
    "compressed-participation", over=PartialView,
    title="convergence with compression and irregular clients",
    source="contributions (even when the system is in the low participation rate, EFL still "
    "converges), section 3.1",
    assumptions=("every F_k is L-smooth and mu-strongly convex, lambda = 0, full gradients; "
    "E||grad F_k||^2 <= G^2 at all E virtual steps of all clients",
    "(p_tau, s_tau) independent of the past, of one law in all rounds, 0 <= p_tau^k <= theta p^k; "
    "pi the least probability that a client sends",
    "ST with exactly k entries on both sides, and error feedback; where the server sends "
    "uncompressed rho has its first term only", "eta_t = 16E/(mu ((t + 1)E + gamma) S)"),
    measures="mean squared distance to the optimum",
)
def compressed_participation(q):
    """The bound, its sharpened form, and the steps of its proof."""
    yield repaired(
        partial(_bound, q),
        r"\mathbb E\|\omega_t-\omega^*\|^2\le2\big(" + _V + r"\big)+2\rho^2\eta_t^2,\ " + _SIZES +
        r",\ " + _B, wrong("49 hundredths of the first term", first=part(q, 490000)),
        wrong("without B and the residuals", rest=0), holds=True,
        proof="docs/efl_claims.md#inactive-and-incomplete-clients",
        note="an inactive client's residual waits, and the step falls less while it waits than a "
        "message takes off: hence pi in gamma, and only there. J, H_t and theta are Theorem 1's",
    )
    yield form(
        "virtual iterate", partial(_bound_virtual, q), r"\mathbb E\|v_t-\omega^*\|^2\le" + _V,
        wrong("nine tenths of the first term", first=part(q, 900000)),
        wrong("without B and J", rest=0, bias=0), holds=True,
        proof="docs/efl_claims.md#inactive-and-incomplete-clients",
    )
    yield from sharpened(
        q, _S, _SIZES + r",\ " + _B_SHARP, _sharp_model, _sharp_virtual,
        {"49 hundredths of the first term": {"first": 490000}, "without B and the residuals":
        {"rest": 0, "residuals": 0}, "a twenty-thousandth of rho^2": {"residuals": 50}},
        {"nine tenths of the first term": {"first": 900000}, "without B, J and the residuals":
        {"rest": 0, "bias": 0, "residuals": 0}, "an eight-thousandth of rho^2": {"residuals": 125}},
        proof="docs/efl_claims.md#irregular-clients-sharpened",
        note="rho^2 at eta_t^2, so that the compressors cost no rate. The D_k count (9 + 5 "
        "theta)/(8 + 4 theta) times as much as in the repaired bound, all else no more",
    )
    yield form(
        "one round, sharpened", partial(_sharp_round, q),
        r"\mathbb E\|v_{t+1}-\omega^*\|^2\le(1-\tfrac{\eta\mu S}2)\mathbb "
        r"E\|v_t-\omega^*\|^2+\eta^2B^++\tfrac{11}2LS\rho^2\eta^3+2r_t\eta\textstyle\sum\mathbb "
        "E[ps]D_k", wrong("without all but the first term", rest=0),
        wrong("nine tenths of the first term", kept=part(q, 900000)),
        wrong("a two-thousandth of rho^2", residuals=part(q, 500)), holds=True,
        proof="docs/efl_claims.md#irregular-clients-sharpened",
    )
    yield form(
        "one round", partial(_round, q),
        r"\mathbb E\|v_{t+1}-\omega^*\|^2\le(1-\tfrac{\eta\mu S}2)\mathbb "
        r"E\|v_t-\omega^*\|^2+\eta^2B+2r_t\eta\textstyle\sum\mathbb E[ps]D_k",
        wrong("without B and the D_k", rest=0),
        wrong("nine tenths of the first term", kept=part(q, 900000)), holds=True,
        proof="docs/efl_claims.md#inactive-and-incomplete-clients",
    )
    yield form(
        "one client", partial(_one_client, q),
        r"\mathbb E\|R^k_{t+1}\|^2\le(1-\tfrac{\pi_k\delta}2)\mathbb "
        r"E\|R^k_t\|^2+\tfrac{2\pi_k}\delta(\theta EG\eta_t)^2",
        wrong("a hundredth of the second term", rest=part(q, 10000)),
        wrong("without the first term", kept=0, rest=part(q, 10000)), holds=True,
        proof="docs/efl_claims.md#inactive-and-incomplete-clients",
    )
    yield form(
        "residuals of the clients", lambda: _clients(q),
        r"\mathbb E\|R^k_t\|^2\le(\tfrac{16}{5\delta}\theta EG\eta_t)^2",
        wrong("a ten-thousandth of it", lambda: _clients(q, part(q, 100))), holds=True,
        proof="docs/efl_claims.md#inactive-and-incomplete-clients",
    )
    yield form(
        "residual of the server",
        lambda: le(q.mean(q.R_G)[1:], q.server_factor**2 * q.reach_sq * q.eta[1:]**2,
        noise=q.noise),
        r"\mathbb E\|R^G_t\|^2\le((\tfrac4\delta-1)(\tfrac{16}{5\delta}+1)\theta EG\eta_t)^2",
        wrong("a millionth of it", share=Fraction(1, 10**6)), holds=True,
        proof="docs/efl_claims.md#inactive-and-incomplete-clients",
    )
    yield form(
        "distance of the models",
        lambda: le(q.mean(q.w - q.v)[1:], q.rho_sq * q.eta[1:]**2, noise=q.noise),
        r"\mathbb E\|\omega_t-v_t\|^2\le\rho^2\eta_t^2",
        wrong("a millionth of it", share=Fraction(1, 10**6)), holds=True,
        proof="docs/efl_claims.md#inactive-and-incomplete-clients",
    )
