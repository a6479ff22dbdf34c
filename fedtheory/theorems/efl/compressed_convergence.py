"""EFL's convergence with compression: the consistent form has a proof; both printed ones may fail.

Where clients are inactive or incomplete it is the same theorem, with the probability of sending.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from fedtheory.theorems.efl.compressed_world import CompressedView
from fedtheory.theorems.efl.feedback_world import CONSISTENT, LITERAL, TEXT
from fedtheory.theorems.efl.frozen_world import CLEAR, FrozenView
from fedtheory.theorems.efl.notation import NINE_TENTHS
from fedtheory.theorems.efl.paper import paper
from fedtheory.theorems.efl.partial_world import PartialView
from fedtheory.theorems.efl.quantities.step import sq
from fedtheory.theory import Sides, eq, form, le, repaired, wrong

CONVERGES = "docs/efl_claims.md#the-consistent-form-converges"
SHARPENED = "docs/efl_claims.md#the-consistent-form-sharpened"
IRREGULAR = "docs/efl_claims.md#inactive-and-incomplete-clients"
IRREGULAR_SHARPENED = "docs/efl_claims.md#irregular-clients-sharpened"
_PERIOD = r"\text{the model held at }\omega^*:\ \textstyle\sum\Delta\omega=0\text{ over a period of the residuals}"
_STEPS = (
    r",\ \eta_t=\tfrac{16}{\mu((t+1)E+\gamma)},\ \gamma=\max\{\tfrac{4E}\delta,\tfrac{64L}\mu\}"
)
_SIZES = r",\ \gamma=\max\{\tfrac{8E}{\pi\delta},\tfrac{32E(1+\theta)L}{\mu S}\}"
ASSUMPTIONS = (
    "every F_k is L-smooth and mu-strongly convex; all clients complete, p_tau^k = p^k, lambda = 0",
    "gradients unbiased given the past of all clients, mini-batches of different clients "
    "uncorrelated within a step; E||g||^2 <= G^2 at all local steps of the run",
    "ST with exactly k entries, both ways, and error feedback on both sides: ||C(x) - x||^2 <= (1 "
    "- delta)||x||^2 with delta = min(1/k, k/n), and ||C(x)|| <= ||x||",
    "where the server sends uncompressed, rho^2 has 4/delta for 16/delta^2",
)


def _cancel(v: FrozenView, share: Any = 0) -> Sides:
    """The moves of a period sum to 0."""
    return eq(v.moves.sum(axis=0) + share * v.gradients[0], 0 * v.moves[0], abs(v.moves).sum(axis=0))


def _spread(v: CompressedView) -> Sides:
    """sum p ||w_i^k - vbar_i||^2 = sum p ||w_i^k - w_t||^2 - ||wbar_i - w_t||^2 + ||w_t - v_t||^2 on every path."""
    here, inner = v.local[:, :-1], v.inner[:, :-1]
    away = (here - inner[..., None, :], here - v.w[:-1, None, :, None])
    own, moved = ((v.weights * sq(z)).sum(axis=-1) for z in away)
    rest = sq(v.w - v.v)[:-1, None] - sq(inner - v.v[:-1, None])
    return eq(own, moved + rest, moved, noise=v.noise)


@paper.statement(
    "compressed-convergence", over=FrozenView, title="convergence with compression",
    source="contributions (the convergence analysis of the compressed algorithm), Algorithm 1 and "
    "section 3.1", assumptions=ASSUMPTIONS, measures="mean squared distance to the optimum",
)
def compressed_convergence(q):
    """Both printed forms, and the bound of the consistent one."""
    yield form(
        "literal formulas", lambda: _cancel(q), _PERIOD + r",\ \text{the formulas as printed}",
        fails=True, needs=(LITERAL, CLEAR), wording="algorithm",
        note="so that no run of the printed formulas with steps like Theorem 1's tends to the "
        "optimum of the three clients of the witness, wherever it starts: what is held back is "
        "sent again and again, with a weight that differs between clients",
    )
    yield form(
        "text of 3.1", lambda: _cancel(q),
        _PERIOD + r",\ \text{clients send }ST(\Delta),\text{ the server its delta uncompressed}",
        fails=True, needs=(TEXT, CLEAR), wording="algorithm",
        note="the server's residual is added twice",
    )
    yield form(
        "consistent, at the optimum", lambda: _cancel(q), _PERIOD,
        wrong("off by a tenth", lambda: _cancel(q, Fraction(1, 10))), holds=True,
        needs=(CONSISTENT,), proof="note",
        note="over a period the residuals change by nothing, and the gradients' mean is 0",
    )
    yield repaired(
        lambda: q.of_model(*q.falling(q.B)),
        wrong("49 hundredths of the first term", share=(Fraction(49, 100), 1, 1)),
        wrong("without B and the residuals", share=(1, 0, 0)), after=_STEPS,
        where=("B", "rho_sq"), holds=True, over=CompressedView, proof=CONVERGES,
        note="proved by `efl/compressed-proof`: O(1/t) as without compression, with rho^2 = O(E^2 "
        "G^2/delta^4), or O(E^2 G^2/delta^2) where only the clients compress",
    )
    yield form(
        "virtual iterate", lambda: q.of_virtual(*q.falling(q.B)),
        wrong("nine tenths of the first term", share=(Fraction(9, 10), 1)),
        wrong("without B", share=(1, 0)), after=r",\ v_t=\omega_t+R^G_t+\textstyle\sum_kp^kR^k_t",
        holds=True, over=CompressedView, proof=CONVERGES,
    )
    yield form(
        "sharpened", lambda: q.of_model(*q.sharp),
        wrong("49 hundredths of the first term", share=(Fraction(49, 100), 1, 1, 1)),
        wrong("the first term only", share=(1, 0, 0, 0)),
        wrong("without the residuals", share=(1, 1, 0, 0)), after=_STEPS, where=("rho_sq",),
        holds=True, over=CompressedView, proof=SHARPENED,
        note="never above the repaired bound, and without D_k: O(1/t^2) where gradients have no "
        "noise, else only the noise is of order 1/t, and no compressor is in its term. Proof: "
        "docs/efl_claims.md, the consistent form sharpened",
    )
    yield form(
        "sharpened, virtual iterate", lambda: q.of_virtual(*q.sharp),
        wrong("99 hundredths of the first term", share=(Fraction(99, 100), 1, 1)),
        wrong("the first term only", share=(1, 0, 0)),
        wrong("without the residuals", share=(1, 1, 0)), holds=True, over=CompressedView,
        proof=SHARPENED,
    )


@paper.statement(
    "compressed-proof", over=CompressedView,
    title="convergence with compression, the steps of the proof",
    source="not in the paper; the proof of the repaired form of `efl/compressed-convergence`",
    assumptions=ASSUMPTIONS,
)
def compressed_proof(q):
    """What is conserved, how large the residuals are, and one step and one round."""
    yield repaired(
        lambda: q.of_virtual(
            (1 - q.eta[:-1] * q.mu * q.E / 2) * q.virtual_sq[:-1], q.eta[:-1] ** 2 * q.B
        ),
        wrong("without B", share=(1, 0)), before=r"\text{one round: }", holds=True, proof=CONVERGES,
    )
    yield form(
        "virtual iterate",
        lambda: eq(
            q.v[1:], q.v[:-1] + q.average(q.local[:, -1] - q.local[:, 0]), noise=q.noise_of_points
        ),
        r"v_{t+1}=v_t+\textstyle\sum_kp^kx_t^k",
        wrong("off by a hundredth", share=Fraction(99, 100)), holds=True, proof=CONVERGES,
    )
    yield form(
        "one compression",
        lambda: le(
            q.mean(q.R[1:]), (0 if q.delta is None else 1 - q.delta) * q.mean(q.message),
            noise=q.noise,
        ),
        NINE_TENTHS, holds=True,
        proof="the definition of delta, for the message R^k + x^k",
    )
    yield form(
        "shorter messages", lambda: le(sq(q.sent), sq(q.message), noise=q.noise), r"\|C(D^k)\|^2\le\|D^k\|^2", NINE_TENTHS,
        holds=True,
        proof="ST sends k times the mean of k magnitudes, whose square is at most the mean of "
        "their squares",
    )
    yield form(
        "residuals of the clients",
        lambda: le(
            q.mean(q.R[1:]),
            ((q.client_factor - 1) * q.eta[1:, None]) ** 2 * q.reach_sq + 0 * q.weights,
            noise=q.noise,
        ),
        wrong("a thousandth of it", share=Fraction(1, 1000)), holds=True, proof=CONVERGES,
        note="with q = sqrt(1 - delta) <= 1 - delta/2 and eta_t/eta_{t+1} <= 1 + delta/4: a fixed "
        "point of K <- (1 - delta/4)(K + EG)",
    )
    yield form(
        "residual of the server",
        lambda: le(
            q.mean(q.R_G[1:]),
            ((q.whole_factor - q.client_factor) * q.eta[1:]) ** 2 * q.reach_sq, noise=q.noise,
        ),
        wrong("a millionth of it", share=Fraction(1, 10**6)), holds=True, proof=CONVERGES,
        note="what reaches the server is at most (4/delta) E G eta_t in the mean square",
    )
    yield from _rounds(q)


def _rounds(q: CompressedView) -> Iterator[Any]:
    """Yield what one local step and one round do."""
    yield form(
        "distance of the models",
        lambda: le(q.apart_sq[1:], q.rho_sq * q.eta[1:]**2, noise=q.noise),
        wrong("a millionth of it", share=Fraction(1, 10**6)), holds=True, proof=CONVERGES,
    )
    yield form(
        "one local step",
        lambda: le(
            q.inner_sq[:, 1:], q.inner_sq[:, :-1], 2 * q.off_inner,
            6 * q.L * q.eta_now**2 * q.spread, q.eta_now**2 * q.variance,
            -q.eta_now * q.mu * q.among(q.local[:, :-1] - q.star), noise=q.noise,
        ),
        wrong("nine tenths of the noise", share=(1, 1, 1, Fraction(9, 10), 1)),
        wrong("without the D_k, and minus the drift", share=(1, Fraction(-1, 2), 0, 1, 1)), holds=True,
        proof=CONVERGES,
        note="steps 1 to 3 and 5 of Theorem 1's proof, with vbar_i = v_t + sum_k p^k (w_i^k - w_t) "
        "for wbar_i",
    )
    yield form(
        "one local step, sharpened",
        lambda: le(
            q.inner_sq[:, 1:], (1 - q.eta_now * q.mu) * q.inner_sq[:, :-1],
            5 * q.eta_now * q.L * q.off_inner / 2, q.eta_now**2 * q.variance, noise=q.noise,
        ),
        wrong("nine tenths of the noise", share=(1, 0, Fraction(9, 10))),
        wrong("nine tenths of the first term", share=(Fraction(9, 10), 1, 1)),
        wrong("minus the drift", share=(1, -1, 1)), holds=True, proof=SHARPENED,
        note="the step's inner product is split at w_i^k by smoothness in place of Young's "
        "inequality, so that no D_k is left",
    )
    yield form(
        "one round, sharpened",
        lambda: q.of_virtual(
            q.kept * q.virtual_sq[:-1],
            (1 - q.kept) * q.eta[:-1] / q.mu * (q.variance + 5 * q.L * q.eta[:-1] * q.off / 2),
        ),
        wrong("without the second term", share=(1, 0)),
        wrong("nine tenths of the first term", share=(Fraction(9, 10), 1)), holds=True,
        proof=SHARPENED,
    )
    yield form(
        "drift, identity", lambda: _spread(q),
        r"\textstyle\sum p^k\|\omega^k_i-\bar v_i\|^2=\sum p^k\|\omega^k_i-\omega_t\|^2-\|\bar "
        r"v_i-v_t\|^2+\|\omega_t-v_t\|^2",
        wrong("nine tenths of it", share=Fraction(9, 10)), holds=True, proof=CONVERGES,
    )
    yield form(
        "drift",
        lambda: le(
            q.off_inner, q.eta_now**2 * q.G_sq * q.steps_sq,
            q.apart_now + 0 * q.off_inner, noise=q.noise,
        ),
        wrong("nine tenths of the residuals", share=(1, Fraction(9, 10))), holds=True,
        proof=CONVERGES,
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
    "uncompressed rho^2 is (16/(5 delta) theta E G)^2", "eta_t = 16E/(mu ((t + 1)E + gamma) S)"),
    measures="mean squared distance to the optimum",
)
def compressed_participation(q):
    """The bound, its sharpened form, and the steps of its proof."""
    yield repaired(
        lambda: q.of_model(*q.falling(q.B), q.bias),
        wrong("49 hundredths of the first term", share=(Fraction(49, 100), 1, 1, 1)),
        wrong("without B and the residuals", share=(1, 0, 1, 0)), after=_SIZES,
        where=("B", "rho_sq"), holds=True, proof=IRREGULAR,
        note="an inactive client's residual waits, and the step falls less while it waits than a "
        "message takes off: hence pi in gamma, and only there. J, H_t and theta are Theorem 1's",
    )
    yield form(
        "virtual iterate", lambda: q.of_virtual(*q.falling(q.B), q.bias),
        wrong("nine tenths of the first term", share=(Fraction(9, 10), 1, 1)),
        wrong("without B and J", share=(1, 0, 0)), holds=True, proof=IRREGULAR,
    )
    yield form(
        "sharpened", lambda: q.of_model(*q.falling(q.B_sharp), q.residuals, q.bias),
        wrong("49 hundredths of the first term", share=(Fraction(49, 100), 1, 1, 1, 1)),
        wrong("without B and the residuals", share=(1, 0, 0, 1, 0)),
        wrong("a twenty-thousandth of rho^2", share=(1, 1, Fraction(1, 20000), 1, Fraction(1, 20000))),
        after=_SIZES, where=("B_sharp", "rho_sq"), holds=True, proof=IRREGULAR_SHARPENED,
        note="rho^2 at eta_t^2, so that the compressors cost no rate. The D_k count (9 + 5 "
        "theta)/(8 + 4 theta) times as much as in the repaired bound, all else no more",
    )
    yield form(
        "sharpened, virtual iterate",
        lambda: q.of_virtual(*q.falling(q.B_sharp), q.residuals, q.bias),
        wrong("nine tenths of the first term", share=(Fraction(9, 10), 1, 1, 1)),
        wrong("without B, J and the residuals", share=(1, 0, 0, 0)),
        wrong("an eight-thousandth of rho^2", share=(1, 1, Fraction(1, 8000), 1)), holds=True,
        proof=IRREGULAR_SHARPENED,
    )
    yield from _irregular_rounds(q)


def _irregular_rounds(q: PartialView) -> Iterator[Any]:
    """Yield what one round does, and how large the residuals are."""
    yield form(
        "one round, sharpened",
        lambda: q.one_round(q.eta[:-1] ** 2 * q.B_sharp, q.eta[:-1] ** 3 * q.off),
        wrong("without all but the first term", share=(1, 0, 0, 0)),
        wrong("nine tenths of the first term", share=(Fraction(9, 10), 1, 1, 1)),
        wrong("a two-thousandth of rho^2", share=(1, 1, Fraction(1, 2000), 1)), holds=True,
        proof=IRREGULAR_SHARPENED,
    )
    yield form(
        "one round", lambda: q.one_round(q.eta[:-1] ** 2 * q.B),
        wrong("without B and the D_k", share=(1, 0, 0)),
        wrong("nine tenths of the first term", share=(Fraction(9, 10), 1, 1)), holds=True,
        proof=IRREGULAR,
    )
    yield form(
        "one client",
        lambda: le(
            q.mean(q.R[1:]), (1 - q.pi * (q.delta or 1) / 2) * q.mean(q.R[:-1]),
            2 * q.pi / (q.delta or 1) * q.reach_sq * q.eta[:-1, None] ** 2, noise=q.noise,
        ),
        wrong("a hundredth of the second term", share=(1, Fraction(1, 100))),
        wrong("without the first term", share=(0, Fraction(1, 100))), holds=True, proof=IRREGULAR,
    )
    yield form(
        "residuals of the clients",
        lambda: le(
            q.mean(q.R[1:]), q.client_factor**2 * q.reach_sq * q.eta[1:, None] ** 2 + 0 * q.pi,
            noise=q.noise,
        ),
        wrong("a ten-thousandth of it", share=Fraction(1, 10**4)), holds=True, proof=IRREGULAR,
    )
    yield form(
        "residual of the server",
        lambda: le(
            q.mean(q.R_G[1:]), q.server_factor**2 * q.reach_sq * q.eta[1:] ** 2, noise=q.noise
        ),
        wrong("a millionth of it", share=Fraction(1, 10**6)), holds=True, proof=IRREGULAR,
    )
    yield form(
        "distance of the models",
        lambda: le(q.apart_sq[1:], q.rho_sq * q.eta[1:]**2, noise=q.noise),
        wrong("a millionth of it", share=Fraction(1, 10**6)), holds=True, proof=IRREGULAR,
    )
