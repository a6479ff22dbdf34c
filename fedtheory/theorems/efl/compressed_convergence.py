"""EFL's convergence with compression: the consistent form has a proof; both printed ones may fail."""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from fedtheory.theorems.efl.compressed_world import CLEAR, CompressedView, FrozenView
from fedtheory.theorems.efl.feedback_world import CONSISTENT, LITERAL, TEXT
from fedtheory.theorems.efl.notation import NINE_TENTHS
from fedtheory.theorems.efl.paper import paper
from fedtheory.theory import Sides, eq, form, le, repaired, wrong

_PERIOD = r"\text{the model held at }\omega^*:\ \textstyle\sum\Delta\omega=0\text{ over a period of the residuals}"
_STEPS = r"\eta_t=\tfrac{16}{\mu((t+1)E+\gamma)},\ \gamma=\max\{\tfrac{4E}\delta,\tfrac{64L}\mu\}"
_V = r"\tfrac{\gamma^2\|\omega_0-\omega^*\|^2+t(16/\mu)^2B}{(tE+\gamma)^2}"
_B = (
    r"B=E(\textstyle\sum(p^k)^2\sigma_k^2+6L\sum p^kD_k)+(2+\tfrac\mu{2L})(G^2\sum_{i<E}i^2+E\rho^2),\ "
    r"\rho=(A-1)EG,\ A=(\tfrac4\delta)^2"
)
_S = (
    r"(\tfrac{\eta_t}{\eta_0})^{16}\|\omega_0-\omega^*\|^2+\min\{\tfrac{5\eta_t}{4\mu},tE\eta_{t-1}"
    r"^2\}\textstyle\sum(p^k)^2\sigma_k^2+"
    r"\tfrac{5L}2\min\{\tfrac{3\eta_t^2}{2\mu},tE\eta_0\eta_{t-1}^2\}\big((E-1)^2G^2+\rho^2\big)"
)
ASSUMPTIONS = (
    "every F_k is L-smooth and mu-strongly convex; all clients complete, p_tau^k = p^k, lambda = 0",
    "gradients unbiased given the past of all clients, mini-batches of different clients "
    "uncorrelated within a step; E||g||^2 <= G^2 at all local steps of the run",
    "ST with exactly k entries, both ways, and error feedback on both sides: ||C(x) - x||^2 <= (1 "
    "- delta)||x||^2 with delta = min(1/k, k/n), and ||C(x)|| <= ||x||",
    "where the server sends uncompressed A = 4/delta",
)


def _cancel(v: FrozenView, share: Any = 0) -> Sides:
    """The moves of a period sum to 0."""
    return eq(v.moves.sum(axis=0) + share * v.gradients[0], 0 * v.moves[0], abs(v.moves).sum(axis=0))


def _virtual(v: CompressedView, first: Any = 1, rest: Any = 1) -> tuple[np.ndarray, np.ndarray]:
    """gamma^2 ||w_0 - w*||^2/y^2 and t (16/mu)^2 B/y^2, t = 1..T."""
    y = v.y[1:]
    return first * v.gamma**2 * v.virtual_sq[0] / y**2, rest * v.times[1:] * (16 / v.mu) ** 2 * v.B() / y**2


def _bound_virtual(v: CompressedView, first: Any = 1, rest: Any = 1) -> Sides:
    return le(v.virtual_sq[1:], *_virtual(v, first, rest), noise=v.noise)


def _bound(v: CompressedView, first: Any = 1, rest: Any = 1) -> Sides:
    start, noise = _virtual(v, first, rest)
    return le(v.distance_sq[1:], 2 * start, 2 * noise, rest * 2 * v.rho_sq * v.eta[1:] ** 2, noise=v.noise)


def _sharp(
    v: CompressedView, first: Any = 1, noise: Any = 1, residuals: Any = 1
) -> tuple[np.ndarray, ...]:
    """The three terms of the sharpened bound of E||v_t - w*||^2, t = 1..T."""
    eta, before = v.eta[1:], v.eta[:-1]
    for_ever, at_first = 5 * eta / (4 * v.mu), v.times[1:] * v.E * before**2
    drift = 5 * v.L * np.minimum(3 * eta**2 / (2 * v.mu), at_first * v.eta[0]) / 2
    start = (eta / v.eta[0]) ** 16 * v.virtual_sq[0]
    spread = np.minimum(for_ever, at_first) * v.variance
    return first * start, noise * spread, residuals * drift * v.off


def _sharp_virtual(v: CompressedView, first: Any = 1, noise: Any = 1, residuals: Any = 1) -> Sides:
    return le(v.virtual_sq[1:], *_sharp(v, first, noise, residuals), noise=v.noise)


def _sharp_model(v: CompressedView, first: Any = 1, noise: Any = 1, residuals: Any = 1) -> Sides:
    terms = [2 * term for term in _sharp(v, first, noise, residuals)]
    return le(v.distance_sq[1:], *terms, residuals * 2 * v.rho_sq * v.eta[1:] ** 2, noise=v.noise)


def _conserved(v: CompressedView, share: Any = 0) -> Sides:
    """v_{t+1} = v_t + sum_k p^k x_t^k on every path."""
    return eq(v.v[1:] + share * v.star, v.v[:-1] + v.average(v.local[:, -1] - v.local[:, 0]), noise=v.noise_of_points)


def _clients(v: CompressedView) -> Sides:
    """E||R_t^k||^2 <= ((4/delta - 1) E G eta_t)^2, t = 1..T."""
    bound = (v.client_factor - 1) ** 2 * v.E**2 * v.G_sq * v.eta[1:] ** 2
    return le(v.mean(v.R)[1:], np.stack([bound] * len(v.weights), axis=1), noise=v.noise)


def _one_client_round(v: CompressedView) -> Sides:
    """E||R_{t+1}^k||^2 <= (1 - delta) E||R_t^k + x_t^k||^2."""
    message = v.R[:-1] + v.local[:, -1] - v.local[:, 0]
    return le(v.mean(v.R)[1:], (0 if v.delta is None else 1 - v.delta) * v.mean(message), noise=v.noise)


def _shorter(v: CompressedView) -> Sides:
    """||C(D^k)||^2 <= ||D^k||^2 on every path."""
    message = v.R[:-1] + v.local[:, -1] - v.local[:, 0]
    return le((v.sent * v.sent).sum(axis=-1), (message * message).sum(axis=-1), noise=v.noise)


def _step(v: CompressedView, doubled: Any = 2, noise: Any = 1, gap: Any = 6) -> Sides:
    """One local step of vbar, in expectation (T, E)."""
    eta, p = v.eta[:-1, None], v.weights[:, None]
    before, here = v.mean(v.inner - v.star, axis=2), v.local[:, :-1]
    off = (p * v.mean(here - v.inner[:, :-1, :, None], axis=2)[..., None]).sum(axis=(-2, -1))
    away = (p * v.mean(here - v.star, axis=2)[..., None]).sum(axis=(-2, -1))
    terms = (doubled * off, gap * v.L * eta**2 * v.spread, noise * eta**2 * v.variance, -eta * v.mu * away)
    return le(before[:, 1:], before[:, :-1], *terms, noise=v.noise)


def _sharp_step(v: CompressedView, noise: Any = 1, drift: Any = 5, kept: Any = 1) -> Sides:
    """One local step of vbar, in expectation, split at w_i^k by smoothness (T, E)."""
    eta, p = v.eta[:-1, None], v.weights[:, None]
    before, here = v.mean(v.inner - v.star, axis=2), v.local[:, :-1]
    off = (p * v.mean(here - v.inner[:, :-1, :, None], axis=2)[..., None]).sum(axis=(-2, -1))
    terms = (drift * eta * v.L * off / 2, noise * eta**2 * v.variance)
    return le(before[:, 1:], kept * (1 - eta * v.mu) * before[:, :-1], *terms, noise=v.noise)


def _drift(v: CompressedView, share: Any = 1) -> Sides:
    """sum p E||w_i^k - vbar_i||^2 <= eta^2 G^2 i^2 + E||w_t - v_t||^2, (T, E)."""
    p, i = v.weights[:, None], np.arange(v.E)
    off = (p * v.mean(v.local[:, :-1] - v.inner[:, :-1, :, None], axis=2)[..., None]).sum(axis=(-2, -1))
    return le(off, v.eta[:-1, None] ** 2 * v.G_sq * i**2, share * v.apart_sq[:-1, None] + 0 * off, noise=v.noise)


def _spread(v: CompressedView, share: Any = 1) -> Sides:
    """sum p ||w_i^k - vbar_i||^2 = sum p ||w_i^k - w_t||^2 - ||wbar_i - w_t||^2 + ||w_t - v_t||^2 on every path."""
    p = v.weights
    here, inner = v.local[:, :-1], v.inner[:, :-1]
    squares = [(p * (z * z).sum(axis=-1)).sum(axis=-1) for z in (here - inner[..., None, :], here - v.w[:-1, None, :, None])]
    moved, off = inner - v.v[:-1, None], (v.w - v.v)[:-1, None]
    parts = ((moved * moved).sum(axis=-1), (off * off).sum(axis=-1))
    return eq(squares[0], squares[1] - share * parts[0] + parts[1] + 0 * squares[0], squares[1], noise=v.noise)


def _round(v: CompressedView, residuals: Any = 1, rest: Any = 1) -> Sides:
    """E||v_{t+1} - w*||^2 <= (1 - eta mu E/2) E||v_t - w*||^2 + eta^2 B."""
    kept = (1 - v.eta[:-1] * v.mu * v.E / 2) * v.virtual_sq[:-1]
    return le(v.virtual_sq[1:], kept, rest * v.eta[:-1] ** 2 * v.B(residuals), noise=v.noise)


def _sharp_round(v: CompressedView, first: Any = 1, rest: Any = 1) -> Sides:
    """a_{t+1} <= q a_t + (1 - q)(eta/mu)(variance + (5/2) L eta off), q = (1 - eta mu)^E."""
    eta = v.eta[:-1]
    new = (1 - v.kept) * eta / v.mu * (v.variance + 5 * v.L * eta * v.off / 2)
    return le(v.virtual_sq[1:], first * v.kept * v.virtual_sq[:-1], rest * new, noise=v.noise)


def part(v: Any, millionths: int) -> Any:
    """millionths/10^6 in the arithmetic of the view."""
    return (0 * getattr(v, "mu", 0) + millionths) / 10**6


def sharpened(
    q: Any, bound: str, where: str, model: Callable[..., Sides], virtual: Callable[..., Sides],
    of_model: Mapping[str, Mapping[str, int]], of_virtual: Mapping[str, Mapping[str, int]],
    note: str, **how: Any,
) -> Iterator[Any]:
    """Yield the sharpened bounds of the model and of the virtual iterate, one said in the other.

    Parameters
    ----------
    bound : the formula of the virtual iterate's
    where : what its letters are
    of_model, of_virtual : mutants by name, each with the millionths that it leaves of some terms
    """

    def changed(sides: Callable[..., Sides], name: str, terms: Mapping[str, int]) -> Any:
        return wrong(name, lambda: sides(q, **{term: part(q, n) for term, n in terms.items()}))

    whole = rf"\mathbb E\|\omega_t-\omega^*\|^2\le2\big({bound}\big)+2\rho^2\eta_t^2\ (t\ge1),\ "
    alone = rf"\mathbb E\|v_t-\omega^*\|^2\le{bound}\ (t\ge1)"
    first, second = (
        [changed(sides, *m) for m in of.items()]
        for sides, of in ((model, of_model), (virtual, of_virtual))
    )
    yield form("sharpened", lambda: model(q), whole + where, *first, holds=True, note=note, **how)
    yield form("sharpened, virtual iterate", lambda: virtual(q), alone, *second, holds=True, **how)


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
        partial(_bound, q),
        r"\mathbb E\|\omega_t-\omega^*\|^2\le2" + _V + r"+2\rho^2\eta_t^2,\ " + _STEPS +
        r",\ " + _B, wrong("49 hundredths of the first term", first=part(q, 490000)),
        wrong("without B and the residuals", rest=0), holds=True, over=CompressedView,
        proof="docs/efl_claims.md#the-consistent-form-converges",
        note="proved by `efl/compressed-proof`: O(1/t) as without compression, with rho^2 = O(E^2 "
        "G^2/delta^4), or O(E^2 G^2/delta^2) where only the clients compress",
    )
    yield form(
        "virtual iterate", partial(_bound_virtual, q),
        r"\mathbb E\|v_t-\omega^*\|^2\le" + _V + r",\ v_t=\omega_t+R^G_t+\textstyle\sum_kp^kR^k_t",
        wrong("nine tenths of the first term", first=part(q, 900000)), wrong("without B", rest=0),
        holds=True, over=CompressedView, proof="docs/efl_claims.md#the-consistent-form-converges",
    )
    yield from sharpened(
        q, _S, _STEPS + r",\ \rho=(A-1)EG,\ A=(\tfrac4\delta)^2", _sharp_model, _sharp_virtual,
        {"49 hundredths of the first term": {"first": 490000}, "the first term only": {"noise": 0,
        "residuals": 0}, "without the residuals": {"residuals": 0}},
        {"99 hundredths of the first term": {"first": 990000}, "the first term only": {"noise": 0,
        "residuals": 0}, "without the residuals": {"residuals": 0}},
        proof="docs/efl_claims.md#the-consistent-form-sharpened",
        note="never above the repaired bound, and without D_k: O(1/t^2) where gradients have no "
        "noise, else only the noise is of order 1/t, and no compressor is in its term. Proof: "
        "docs/efl_claims.md, the consistent form sharpened", over=CompressedView,
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
        partial(_round, q),
        r"\text{one round: }\mathbb E\|v_{t+1}-\omega^*\|^2\le(1-\tfrac{\eta\mu E}2)\mathbb "
        r"E\|v_t-\omega^*\|^2+\eta^2B", wrong("without B", rest=0), holds=True,
        proof="docs/efl_claims.md#the-consistent-form-converges",
    )
    yield form(
        "virtual iterate", lambda: _conserved(q), r"v_{t+1}=v_t+\textstyle\sum_kp^kx_t^k",
        wrong("off by a hundredth", lambda: _conserved(q, part(q, 10000))), holds=True,
        proof="docs/efl_claims.md#the-consistent-form-converges",
    )
    yield form(
        "one compression", lambda: _one_client_round(q),
        r"\mathbb E\|R^k_{t+1}\|^2\le(1-\delta)\mathbb E\|R^k_t+x^k_t\|^2", NINE_TENTHS, holds=True,
        proof="the definition of delta, for the message R^k + x^k",
    )
    yield form(
        "shorter messages", lambda: _shorter(q), r"\|C(D^k)\|^2\le\|D^k\|^2", NINE_TENTHS,
        holds=True,
        proof="ST sends k times the mean of k magnitudes, whose square is at most the mean of "
        "their squares",
    )
    yield form(
        "residuals of the clients", lambda: _clients(q),
        r"\mathbb E\|R^k_t\|^2\le((\tfrac4\delta-1)EG\eta_t)^2",
        wrong("a thousandth of it", share=Fraction(1, 1000)), holds=True,
        proof="docs/efl_claims.md#the-consistent-form-converges",
        note="with q = sqrt(1 - delta) <= 1 - delta/2 and eta_t/eta_{t+1} <= 1 + delta/4: a fixed "
        "point of K <- (1 - delta/4)(K + EG)",
    )
    yield form(
        "residual of the server",
        lambda: le(q.mean(q.R_G)[1:], (q.whole_factor - q.client_factor)**2 * q.E**2 * q.G_sq *
        q.eta[1:]**2, noise=q.noise), r"\mathbb E\|R^G_t\|^2\le((A-\tfrac4\delta)EG\eta_t)^2",
        wrong("a millionth of it", share=Fraction(1, 10**6)), holds=True,
        proof="docs/efl_claims.md#the-consistent-form-converges",
        note="what reaches the server is at most (4/delta) E G eta_t in the mean square",
    )
    yield from _rounds(q)


def _rounds(q: CompressedView) -> Iterator[Any]:
    """Yield what one local step and one round do."""
    yield form(
        "distance of the models",
        lambda: le(q.apart_sq[1:], q.rho_sq * q.eta[1:]**2, noise=q.noise),
        r"\mathbb E\|\omega_t-v_t\|^2\le\rho^2\eta_t^2",
        wrong("a millionth of it", share=Fraction(1, 10**6)), holds=True,
        proof="docs/efl_claims.md#the-consistent-form-converges",
    )
    yield form(
        "one local step", partial(_step, q),
        r"\mathbb E\|\bar v_{i+1}-\omega^*\|^2\le\mathbb E\|\bar v_i-\omega^*\|^2+2\textstyle\sum "
        r"p^k\mathbb E\|\omega^k_i-\bar v_i\|^2+6L\eta^2\sum "
        r"p^kD_k+\eta^2\sum(p^k)^2\sigma_k^2-\eta\mu\sum p^k\mathbb E\|\omega^k_i-\omega^*\|^2",
        wrong("nine tenths of the noise", noise=part(q, 900000)),
        wrong("without the D_k, and minus the drift", doubled=-1, gap=0), holds=True,
        proof="docs/efl_claims.md#the-consistent-form-converges",
        note="steps 1 to 3 and 5 of Theorem 1's proof, with vbar_i = v_t + sum_k p^k (w_i^k - w_t) "
        "for wbar_i",
    )
    yield form(
        "one local step, sharpened", partial(_sharp_step, q),
        r"\mathbb E\|\bar v_{i+1}-\omega^*\|^2\le(1-\eta\mu)\mathbb E\|\bar "
        r"v_i-\omega^*\|^2+\tfrac52\eta L\textstyle\sum p^k\mathbb E\|\omega^k_i-\bar "
        r"v_i\|^2+\eta^2\sum(p^k)^2\sigma_k^2",
        wrong("nine tenths of the noise", noise=part(q, 900000), drift=0),
        wrong("nine tenths of the first term", kept=part(q, 900000)),
        wrong("minus the drift", drift=-5), holds=True,
        proof="docs/efl_claims.md#the-consistent-form-sharpened",
        note="the step's inner product is split at w_i^k by smoothness in place of Young's "
        "inequality, so that no D_k is left",
    )
    yield form(
        "one round, sharpened", partial(_sharp_round, q),
        r"\mathbb E\|v_{t+1}-\omega^*\|^2\le q\,\mathbb "
        r"E\|v_t-\omega^*\|^2+(1-q)\tfrac\eta\mu\big(\textstyle\sum(p^k)^2\sigma_k^2+\tfrac52L"
        r"\eta((E-1)^2G^2+\rho^2)\big),\ q=(1-\eta\mu)^E", wrong("without the second term", rest=0),
        wrong("nine tenths of the first term", first=part(q, 900000)), holds=True,
        proof="docs/efl_claims.md#the-consistent-form-sharpened",
    )
    yield form(
        "drift, identity", lambda: _spread(q),
        r"\textstyle\sum p^k\|\omega^k_i-\bar v_i\|^2=\sum p^k\|\omega^k_i-\omega_t\|^2-\|\bar "
        r"v_i-v_t\|^2+\|\omega_t-v_t\|^2",
        wrong("nine tenths of a term", lambda: _spread(q, part(q, 900000))), holds=True,
        proof="docs/efl_claims.md#the-consistent-form-converges",
    )
    yield form(
        "drift", lambda: _drift(q),
        r"\textstyle\sum p^k\mathbb E\|\omega^k_i-\bar v_i\|^2\le\eta^2G^2i^2+\mathbb "
        r"E\|\omega_t-v_t\|^2",
        wrong("nine tenths of the residuals", lambda: _drift(q, part(q, 900000))), holds=True,
        proof="docs/efl_claims.md#the-consistent-form-converges",
    )
