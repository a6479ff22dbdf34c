"""EFL's convergence with compression: the consistent form has a proof; both printed ones may fail.

A run can only end at w* if the moves that it makes with the model held at w* cancel: while the
steps fall slowly the residuals, divided by the step, follow the recursion of a constant step at w*.
`FrozenView` is that recursion, over one period.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.messages import compressors
from fedtheory.rational import fraction, table, vector
from fedtheory.theorems.efl.notation import BUILDERS, statement
from fedtheory.theorems.efl.quantities.compressed_run import CompressedView
from fedtheory.theorems.efl.statements.error_feedback import CONSISTENT, LITERAL, LOOPS, TEXT
from fedtheory.theory.judge.setting import ClosedView
from fedtheory.theory.judge.statement import Form, Sides, eq, form, le

__all__ = ["STATEMENTS", "VARIANTS", "FrozenView", "frozen_view", "part", "sharpened"]

VARIANTS = ("consistent", "literal", "text")
CLEAR = "no choice of ST is a tie over the period"
LONGEST = 300  # rounds until a state comes back


@dataclass
class FrozenView(ClosedView):
    """The residuals while the model stays at w*: E = 1, step 1, all active, ST both ways.

    ST sends exactly k entries.

    Attributes
    ----------
    variant : 'consistent', 'literal' (the formulas as printed) or 'text' (section 3.1)
    gradients : (N, d) at w*, of mean 0
    moves : (P, d) of the server's model, over one period of the residuals
    gap : the least difference, over the period, between a magnitude that is sent and the largest that is not
    """

    variant: str
    gradients: np.ndarray
    moves: np.ndarray
    gap: Any

    def __post_init__(self) -> None:
        self.facts = frozenset({LOOPS[self.variant], *([CLEAR] if self.gap > 0 else [])})


def _gap(message: np.ndarray, k: int) -> Any:
    """A message's (d,) k-th largest magnitude less the next, which is 0 where there is none."""
    found = sorted((abs(x) for x in message), reverse=True)
    return found[k - 1] - (found[k] if k < len(found) else 0)


@BUILDERS.add("frozen")
def frozen_view(data: dict[str, Any]) -> FrozenView:
    """From variant, weights, h, c and q of ST: quadratics, coordinate by coordinate, from residuals
    0 to the first period."""
    if data["variant"] not in VARIANTS:
        raise InvalidInput(f"variant = {data['variant']!r}: use {', '.join(VARIANTS)}")
    weights, h, c = vector(data["weights"], "weights"), table(data["h"], "h"), table(data["c"], "c")
    if h.shape != c.shape or len(h) != len(weights) or weights.min() <= 0 or weights.sum() != 1 or h.min() <= 0:
        raise InvalidInput("weights must be > 0 and sum to 1, curvatures > 0, and h and c of one shape, a row for every weight")
    p, st = weights[:, None], compressors.ST(fraction(data["q"], "q"))
    k = st.sizes(h.shape[1])[0]
    g = h * ((p * h * c).sum(axis=0) / (p * h).sum(axis=0) - c)
    R, R_G = 0 * g, 0 * g[0]
    seen: dict[Any, int] = {}
    moves: list[np.ndarray] = []
    gaps: list[Any] = []
    while (state := tuple((x.numerator, x.denominator) for x in (*R.ravel(), *R_G))) not in seen:
        if len(moves) > LONGEST:
            raise InvalidInput(f"the residuals do not come back within {LONGEST} rounds: take ST with one entry")
        seen[state] = len(moves)
        D = R - g
        sent = st.compress(D)
        to_all = R_G + (p * (D if data["variant"] == "literal" else sent)).sum(axis=0)
        down = st.compress(to_all)
        R, R_G = D - sent, to_all - down
        moves.append(down if data["variant"] == "consistent" else to_all)
        gaps.append(min(_gap(m, k) for m in (*D, to_all)))
    first = seen[state]
    return FrozenView(data["variant"], g, np.stack(moves[first:]), min(gaps[first:]))


# --- both sides -----------------------------------------------------------------------------------
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


def _clients(v: CompressedView, share: Any = 1) -> Sides:
    """E||R_t^k||^2 <= ((4/delta - 1) E G eta_t)^2, t = 1..T."""
    bound = share * (v.client_factor - 1) ** 2 * v.E**2 * v.G_sq * v.eta[1:] ** 2
    return le(v.mean(v.R)[1:], np.stack([bound] * len(v.weights), axis=1), noise=v.noise)


def _one_client_round(v: CompressedView, share: Any = 1) -> Sides:
    """E||R_{t+1}^k||^2 <= (1 - delta) E||R_t^k + x_t^k||^2."""
    message = v.R[:-1] + v.local[:, -1] - v.local[:, 0]
    return le(v.mean(v.R)[1:], share * (0 if v.delta is None else 1 - v.delta) * v.mean(message), noise=v.noise)


def _server(v: CompressedView, share: Any = 1) -> Sides:
    """E||R^G_t||^2 <= ((A - 4/delta) E G eta_t)^2, t = 1..T."""
    return le(v.mean(v.R_G)[1:], share * (v.whole_factor - v.client_factor) ** 2 * v.E**2 * v.G_sq * v.eta[1:] ** 2, noise=v.noise)


def _apart(v: CompressedView, share: Any = 1) -> Sides:
    return le(v.apart_sq[1:], share * v.rho_sq * v.eta[1:] ** 2, noise=v.noise)


def _shorter(v: CompressedView, share: Any = 1) -> Sides:
    """||C(D^k)||^2 <= ||D^k||^2 on every path."""
    message = v.R[:-1] + v.local[:, -1] - v.local[:, 0]
    return le((v.sent * v.sent).sum(axis=-1), share * (message * message).sum(axis=-1), noise=v.noise)


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
    return (0 * v.mu + millionths) / 10**6


def changed(sides: Callable[..., Sides], name: str, terms: Mapping[str, int]) -> tuple[str, Callable[[Any], Sides]]:
    """A mutant: the sides with so many millionths of some of their terms."""
    return name, lambda v: sides(v, **{term: part(v, millionths) for term, millionths in terms.items()})


def sharpened(
    bound: str, where: str, model: Callable[..., Sides], virtual: Callable[..., Sides],
    of_model: Mapping[str, Mapping[str, int]], of_virtual: Mapping[str, Mapping[str, int]], *,
    kind: str, proof: str, note: str,
) -> tuple[Form, Form]:
    """The sharpened bounds of the model and of the virtual iterate, one said in the other.

    Parameters
    ----------
    bound : the formula of the virtual iterate's
    where : what its letters are
    of_model, of_virtual : mutants by name, each with the millionths that it leaves of some terms
    """
    whole = r"\mathbb E\|\omega_t-\omega^*\|^2\le2\big(" + bound + r"\big)+2\rho^2\eta_t^2\ (t\ge1),\ " + where
    alone = r"\mathbb E\|v_t-\omega^*\|^2\le" + bound + r"\ (t\ge1)"
    wrong = [[changed(sides, *m) for m in of.items()] for sides, of in ((model, of_model), (virtual, of_virtual))]
    return (
        form("sharpened", whole, model, "holds", *wrong[0], kind=kind, note=note, proof=proof),
        form("sharpened, virtual iterate", alone, virtual, "holds", *wrong[1], kind=kind, proof=proof),
    )


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
STATEMENTS = (
    statement(
        "compressed-convergence",
        "convergence with compression",
        "contributions (the convergence analysis of the compressed algorithm), Algorithm 1 and section 3.1",
        form(
            "literal formulas", _PERIOD + r",\ \text{the formulas as printed}", _cancel, "violated", kind="frozen",
            needs=(LITERAL, CLEAR), wording="algorithm",
            note="so that no run of the printed formulas with steps like Theorem 1's tends to the optimum of the three clients of the "
            "witness, wherever it starts: what is held back is sent again and again, with a weight that differs between clients",
        ),
        form(
            "text of 3.1", _PERIOD + r",\ \text{clients send }ST(\Delta),\text{ the server its delta uncompressed}",
            _cancel, "violated", kind="frozen", needs=(TEXT, CLEAR), wording="algorithm",
            note="the server's residual is added twice",
        ),
        form(
            "consistent, at the optimum", _PERIOD, _cancel, "holds", ("off by a tenth", lambda v: _cancel(v, Fraction(1, 10))),
            kind="frozen", needs=(CONSISTENT,),
            note="over a period the residuals change by nothing, and the gradients' mean is 0",
            proof="note",
        ),
        form(
            "repaired",
            r"\mathbb E\|\omega_t-\omega^*\|^2\le2" + _V + r"+2\rho^2\eta_t^2,\ " + _STEPS + r",\ " + _B, _bound, "holds",
            ("49 hundredths of the first term", lambda v: _bound(v, first=part(v, 490_000))),
            ("without B and the residuals", lambda v: _bound(v, rest=0)), kind="compressed",
            note="proved by `efl/compressed-proof`: O(1/t) as without compression, with rho^2 = O(E^2 G^2/delta^4), or "
            "O(E^2 G^2/delta^2) where only the clients compress",
            proof="docs/efl_claims.md#the-consistent-form-converges",
        ),
        form(
            "virtual iterate",
            r"\mathbb E\|v_t-\omega^*\|^2\le" + _V + r",\ v_t=\omega_t+R^G_t+\textstyle\sum_kp^kR^k_t", _bound_virtual, "holds",
            ("nine tenths of the first term", lambda v: _bound_virtual(v, first=part(v, 900_000))),
            ("without B", lambda v: _bound_virtual(v, rest=0)), kind="compressed",
            proof="docs/efl_claims.md#the-consistent-form-converges",
        ),
        *sharpened(
            _S, _STEPS + r",\ \rho=(A-1)EG,\ A=(\tfrac4\delta)^2", _sharp_model, _sharp_virtual,
            {
                "49 hundredths of the first term": {"first": 490_000},
                "the first term only": {"noise": 0, "residuals": 0}, "without the residuals": {"residuals": 0},
            },
            {
                "99 hundredths of the first term": {"first": 990_000},
                "the first term only": {"noise": 0, "residuals": 0}, "without the residuals": {"residuals": 0},
            },
            kind="compressed", proof="docs/efl_claims.md#the-consistent-form-sharpened",
            note="never above the repaired bound, and without D_k: O(1/t^2) where gradients have no noise, "
            "else only the noise is of order 1/t, and no compressor is in its term. "
            "Proof: docs/efl_claims.md, the consistent form sharpened",
        ),
        assumptions=ASSUMPTIONS,
        measures="mean squared distance to the optimum",
    ),
    statement(
        "compressed-proof",
        "convergence with compression, the steps of the proof",
        "not in the paper; the proof of the repaired form of `efl/compressed-convergence`",
        form(
            "repaired",
            r"\text{one round: }\mathbb E\|v_{t+1}-\omega^*\|^2\le(1-\tfrac{\eta\mu E}2)\mathbb E\|v_t-\omega^*\|^2+\eta^2B",
            _round, "holds", ("without B", lambda v: _round(v, rest=0)), kind="compressed",
            proof="docs/efl_claims.md#the-consistent-form-converges",
        ),
        form(
            "virtual iterate", r"v_{t+1}=v_t+\textstyle\sum_kp^kx_t^k", _conserved, "holds",
            ("off by a hundredth", lambda v: _conserved(v, part(v, 10_000))), kind="compressed",
            proof="docs/efl_claims.md#the-consistent-form-converges",
        ),
        form(
            "one compression", r"\mathbb E\|R^k_{t+1}\|^2\le(1-\delta)\mathbb E\|R^k_t+x^k_t\|^2", _one_client_round, "holds",
            ("nine tenths of it", lambda v: _one_client_round(v, part(v, 900_000))), kind="compressed",
            proof="the definition of delta, for the message R^k + x^k",
        ),
        form(
            "shorter messages", r"\|C(D^k)\|^2\le\|D^k\|^2", _shorter, "holds",
            ("nine tenths of it", lambda v: _shorter(v, part(v, 900_000))), kind="compressed",
            proof="ST sends k times the mean of k magnitudes, whose square is at most the mean of "
            "their squares",
        ),
        form(
            "residuals of the clients", r"\mathbb E\|R^k_t\|^2\le((\tfrac4\delta-1)EG\eta_t)^2", _clients, "holds",
            ("a thousandth of it", lambda v: _clients(v, part(v, 1000))), kind="compressed",
            note="with q = sqrt(1 - delta) <= 1 - delta/2 and eta_t/eta_{t+1} <= 1 + delta/4: a fixed point of "
            "K <- (1 - delta/4)(K + EG)",
            proof="docs/efl_claims.md#the-consistent-form-converges",
        ),
        form(
            "residual of the server", r"\mathbb E\|R^G_t\|^2\le((A-\tfrac4\delta)EG\eta_t)^2", _server, "holds",
            ("a millionth of it", lambda v: _server(v, part(v, 1))), kind="compressed",
            note="what reaches the server is at most (4/delta) E G eta_t in the mean square",
            proof="docs/efl_claims.md#the-consistent-form-converges",
        ),
        form(
            "distance of the models", r"\mathbb E\|\omega_t-v_t\|^2\le\rho^2\eta_t^2", _apart, "holds",
            ("a millionth of it", lambda v: _apart(v, part(v, 1))), kind="compressed",
            proof="docs/efl_claims.md#the-consistent-form-converges",
        ),
        form(
            "one local step",
            r"\mathbb E\|\bar v_{i+1}-\omega^*\|^2\le\mathbb E\|\bar v_i-\omega^*\|^2+"
            r"2\textstyle\sum p^k\mathbb E\|\omega^k_i-\bar v_i\|^2+"
            r"6L\eta^2\sum p^kD_k+\eta^2\sum(p^k)^2\sigma_k^2-\eta\mu\sum p^k\mathbb E\|\omega^k_i-\omega^*\|^2",
            _step, "holds", ("nine tenths of the noise", lambda v: _step(v, noise=part(v, 900_000))),
            ("without the D_k, and minus the drift", lambda v: _step(v, doubled=-1, gap=0)), kind="compressed",
            note="steps 1 to 3 and 5 of Theorem 1's proof, with vbar_i = v_t + sum_k p^k (w_i^k - w_t) for wbar_i",
            proof="docs/efl_claims.md#the-consistent-form-converges",
        ),
        form(
            "one local step, sharpened",
            r"\mathbb E\|\bar v_{i+1}-\omega^*\|^2\le(1-\eta\mu)\mathbb E\|\bar v_i-\omega^*\|^2+"
            r"\tfrac52\eta L\textstyle\sum p^k\mathbb E\|\omega^k_i-\bar v_i\|^2+\eta^2\sum(p^k)^2"
            r"\sigma_k^2",
            _sharp_step, "holds",
            ("nine tenths of the noise", lambda v: _sharp_step(v, noise=part(v, 900_000), drift=0)),
            ("nine tenths of the first term", lambda v: _sharp_step(v, kept=part(v, 900_000))),
            ("minus the drift", lambda v: _sharp_step(v, drift=-5)), kind="compressed",
            note="the step's inner product is split at w_i^k by smoothness in place of Young's "
            "inequality, so that no D_k is left",
            proof="docs/efl_claims.md#the-consistent-form-sharpened",
        ),
        form(
            "one round, sharpened",
            r"\mathbb E\|v_{t+1}-\omega^*\|^2\le q\,\mathbb E\|v_t-\omega^*\|^2+(1-q)\tfrac\eta\mu"
            r"\big(\textstyle\sum(p^k)^2\sigma_k^2+"
            r"\tfrac52L\eta((E-1)^2G^2+\rho^2)\big),\ q=(1-\eta\mu)^E",
            _sharp_round, "holds", ("without the second term", lambda v: _sharp_round(v, rest=0)),
            ("nine tenths of the first term", lambda v: _sharp_round(v, first=part(v, 900_000))),
            kind="compressed",
            proof="docs/efl_claims.md#the-consistent-form-sharpened",
        ),
        form(
            "drift, identity",
            r"\textstyle\sum p^k\|\omega^k_i-\bar v_i\|^2=\sum p^k\|\omega^k_i-\omega_t\|^2-\|\bar v_i-v_t\|^2+\|\omega_t-v_t\|^2",
            _spread, "holds", ("nine tenths of a term", lambda v: _spread(v, part(v, 900_000))), kind="compressed",
            proof="docs/efl_claims.md#the-consistent-form-converges",
        ),
        form(
            "drift", r"\textstyle\sum p^k\mathbb E\|\omega^k_i-\bar v_i\|^2\le\eta^2G^2i^2+\mathbb E\|\omega_t-v_t\|^2",
            _drift, "holds", ("nine tenths of the residuals", lambda v: _drift(v, part(v, 900_000))), kind="compressed",
            proof="docs/efl_claims.md#the-consistent-form-converges",
        ),
        assumptions=ASSUMPTIONS,
    ),
)  # fmt: skip
