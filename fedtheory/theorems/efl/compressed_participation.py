"""EFL's convergence with compression where clients are inactive or incomplete: the same theorem,
with the probability of sending."""

from fractions import Fraction

from fedtheory.theorems.efl.compressed_convergence import MODEL, VIRTUAL
from fedtheory.theorems.efl.compressed_world import PartialView
from fedtheory.theorems.efl.paper import paper
from fedtheory.theory import form, le, repaired, wrong

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
        lambda: q.of_model(*q.falling(q.B), q.bias),
        r"\mathbb E\|\omega_t-\omega^*\|^2\le2\big(" + _V + r"\big)+2\rho^2\eta_t^2,\ " + _SIZES +
        r",\ " + _B, wrong("49 hundredths of the first term", share=(Fraction(49, 100), 1, 1, 1)),
        wrong("without B and the residuals", share=(1, 0, 1, 0)), holds=True,
        proof="docs/efl_claims.md#inactive-and-incomplete-clients",
        note="an inactive client's residual waits, and the step falls less while it waits than a "
        "message takes off: hence pi in gamma, and only there. J, H_t and theta are Theorem 1's",
    )
    yield form(
        "virtual iterate", lambda: q.of_virtual(*q.falling(q.B), q.bias),
        r"\mathbb E\|v_t-\omega^*\|^2\le" + _V,
        wrong("nine tenths of the first term", share=(Fraction(9, 10), 1, 1)),
        wrong("without B and J", share=(1, 0, 0)), holds=True,
        proof="docs/efl_claims.md#inactive-and-incomplete-clients",
    )
    yield form(
        "sharpened", lambda: q.of_model(*q.falling(q.B_sharp), q.residuals, q.bias),
        MODEL % _S + _SIZES + r",\ " + _B_SHARP,
        wrong("49 hundredths of the first term", share=(Fraction(49, 100), 1, 1, 1, 1)),
        wrong("without B and the residuals", share=(1, 0, 0, 1, 0)),
        wrong("a twenty-thousandth of rho^2", share=(1, 1, Fraction(1, 20000), 1, Fraction(1, 20000))),
        holds=True, proof="docs/efl_claims.md#irregular-clients-sharpened",
        note="rho^2 at eta_t^2, so that the compressors cost no rate. The D_k count (9 + 5 "
        "theta)/(8 + 4 theta) times as much as in the repaired bound, all else no more",
    )
    yield form(
        "sharpened, virtual iterate",
        lambda: q.of_virtual(*q.falling(q.B_sharp), q.residuals, q.bias), VIRTUAL % _S,
        wrong("nine tenths of the first term", share=(Fraction(9, 10), 1, 1, 1)),
        wrong("without B, J and the residuals", share=(1, 0, 0, 0)),
        wrong("an eight-thousandth of rho^2", share=(1, 1, Fraction(1, 8000), 1)), holds=True,
        proof="docs/efl_claims.md#irregular-clients-sharpened",
    )
    yield form(
        "one round, sharpened",
        lambda: q.one_round(q.eta[:-1] ** 2 * q.B_sharp, q.eta[:-1] ** 3 * q.off),
        r"\mathbb E\|v_{t+1}-\omega^*\|^2\le(1-\tfrac{\eta\mu S}2)\mathbb "
        r"E\|v_t-\omega^*\|^2+\eta^2B^++\tfrac{11}2LS\rho^2\eta^3+2r_t\eta\textstyle\sum\mathbb "
        "E[ps]D_k", wrong("without all but the first term", share=(1, 0, 0, 0)),
        wrong("nine tenths of the first term", share=(Fraction(9, 10), 1, 1, 1)),
        wrong("a two-thousandth of rho^2", share=(1, 1, Fraction(1, 2000), 1)), holds=True,
        proof="docs/efl_claims.md#irregular-clients-sharpened",
    )
    yield form(
        "one round", lambda: q.one_round(q.eta[:-1] ** 2 * q.B),
        r"\mathbb E\|v_{t+1}-\omega^*\|^2\le(1-\tfrac{\eta\mu S}2)\mathbb "
        r"E\|v_t-\omega^*\|^2+\eta^2B+2r_t\eta\textstyle\sum\mathbb E[ps]D_k",
        wrong("without B and the D_k", share=(1, 0, 0)),
        wrong("nine tenths of the first term", share=(Fraction(9, 10), 1, 1)), holds=True,
        proof="docs/efl_claims.md#inactive-and-incomplete-clients",
    )
    yield form(
        "one client",
        lambda: le(
            q.mean(q.R)[1:], (1 - q.pi * (q.delta or 1) / 2) * q.mean(q.R)[:-1],
            2 * q.pi / (q.delta or 1) * q.reach_sq * q.eta[:-1, None] ** 2, noise=q.noise,
        ),
        r"\mathbb E\|R^k_{t+1}\|^2\le(1-\tfrac{\pi_k\delta}2)\mathbb "
        r"E\|R^k_t\|^2+\tfrac{2\pi_k}\delta(\theta EG\eta_t)^2",
        wrong("a hundredth of the second term", share=(1, Fraction(1, 100))),
        wrong("without the first term", share=(0, Fraction(1, 100))), holds=True,
        proof="docs/efl_claims.md#inactive-and-incomplete-clients",
    )
    yield form(
        "residuals of the clients",
        lambda: le(
            q.mean(q.R)[1:], q.client_factor**2 * q.reach_sq * q.eta[1:, None] ** 2 + 0 * q.pi,
            noise=q.noise,
        ),
        r"\mathbb E\|R^k_t\|^2\le(\tfrac{16}{5\delta}\theta EG\eta_t)^2",
        wrong("a ten-thousandth of it", share=Fraction(1, 10**4)), holds=True,
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
        lambda: le(q.apart_sq[1:], q.rho_sq * q.eta[1:]**2, noise=q.noise),
        r"\mathbb E\|\omega_t-v_t\|^2\le\rho^2\eta_t^2",
        wrong("a millionth of it", share=Fraction(1, 10**6)), holds=True,
        proof="docs/efl_claims.md#inactive-and-incomplete-clients",
    )
