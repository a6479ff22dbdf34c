"""FedMLS (gradient sliding over clients): Theorems 1 and 2 as printed and as repaired, and the steps of their proof."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.theorems.core import Form, Mutant, Sides, Statement, le, register
from fedtheory.theorems.fedmls_rational import VARIANTS
from fedtheory.theorems.fedmls_views import MLSView, c_factor, kappa_last

__all__ = ["SYMBOLS", "k_min", "load"]

SYMBOLS = {
    "N, d": "problem.num_clients, problem.dim",
    "lambda, D-tilde, K": "algorithm.lam, algorithm.D, algorithm.rounds",
    "G_i, G": "problem.lipschitz(radius), problem.lipschitz_rms(radius)",
    "x_k, z_k": "state.x, state.z",
    "x'_{i,k}, z'_{i,k}": "state.x_local[:, i], state.z_local[:, i]",
    "tilde z'_{i,k}": "LocalResult.average",
    "T_k": "algorithm.steps(k)",
    "Psi(x, x')": "MLSView.psi",
    "||.||": "norm of the mean product (1/N) sum_i <u_i, v_i>",
}
ASSUMPTIONS = (
    "every f_i is convex, and G_i-Lipschitz on the ball of radius R; G^2 = (1/N) sum_i G_i^2",
    "x_0 and a minimiser x* over the ball lie in the ball; F* is its minimum over the same ball",
    "subgradients are exact, or unbiased with variance sigma_i^2",
    "the server projects z_k onto the ball (or every f_i is G_i-Lipschitz on all of R^d)",
)
WITNESS, LINE_14 = "a witness", "line 14 as printed"  # what a form may ask of a run
BOTH = {"deterministic": "holds", "stochastic": "holds"}
EXACT = {"deterministic": "holds"}


def k_min(product: Fraction, slack: int | Fraction = 8) -> int:
    """Least K with K (K + 1) >= 2 (10 + slack) G^2 D/epsilon^2, in exact arithmetic; ``product`` is G^2 D/epsilon^2."""
    need = 2 * (10 + Fraction(slack)) * product
    k = int((1 + 4 * float(need)) ** 0.5 / 2)  # a float guess, corrected below
    while k * (k + 1) >= need and k > 0:
        k -= 1
    while k * (k + 1) < need:
        k += 1
    return max(k, 1)


def _constant(view: MLSView, value: float) -> np.ndarray:
    return np.full((1, view.excess.shape[-1]), value)


def _penalty_at(v: MLSView, clients: np.ndarray, u: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Phi_i(u) = f_i(u) + <g_i, u> + beta/2 ||u - u_0||^2 for all rounds: (..., K, N, S)."""
    linear = (v.gradient[1:] * u).sum(axis=-2)
    return clients + linear + v.beta[:, None] / 2 * ((u - start) ** 2).sum(axis=-2)


def _inner(v: MLSView, kind: str = "sharp", with_last: bool = True, error: float = 1.0) -> Sides:
    """The inner loop's bound, client by client and round by round, against every u looked at.

    With noise it is a statement about expectations: then against x*, and averaged over the clients and the rounds.
    """
    start, last, average = v.z_client[:-1], v.z_client[1:], v.z_average[1:]
    at_average = _penalty_at(v, v.values(average), average, start)
    t, beta = v.T[:, None], v.beta[:, None]
    parts = []
    for u, f_u in zip(v.targets, v.values(v.targets), strict=True):
        u = np.broadcast_to(u, start.shape)
        lhs = at_average - _penalty_at(v, f_u, u, start)
        near = beta / (t * (t + 3)) * ((u - start) ** 2).sum(axis=-2)
        far = -c_factor(t) * beta / 2 * ((u - last) ** 2).sum(axis=-2)
        parts.append((lhs, near, far if with_last else 0 * far, error * v.inner_error(kind) + 0 * near))
        if not v.exact:
            break
    lhs, near, far, rest = (np.stack(p) for p in zip(*parts, strict=True))
    if not v.exact:
        lhs, near, far, rest = (np.broadcast_to(a, lhs.shape).mean(axis=(1, 2)) for a in (lhs, near, far, rest))
    return _rows(le(lhs, near, far, rest, noise=v.noise))


def _rows(sides: Sides) -> Sides:
    """All leading axes as one, scenarios last."""
    scenarios = sides.lhs.shape[-1]
    shaped = [np.reshape(a, (-1, scenarios)) for a in (sides.lhs, sides.rhs, sides.scale)]
    return Sides(*shaped, sides.relation, sides.noise)


def _error_terms(v: MLSView, kind: str = "sharp") -> np.ndarray:
    return v.inner_error(kind).mean(axis=1)  # (K, 1)


def _recursion(v: MLSView, clients: float = 1.0) -> Sides:
    """One round of the outer loop, against every consensus point u; with noise against x*, averaged over the rounds."""
    g = v.gamma
    parts = []
    for u, target, psi_u in zip(v.points, v.targets, v.Psi_targets, strict=True):
        left = v.Psi[1:] - psi_u
        server = ((u[:, None] - v.z) ** 2).sum(axis=-2)
        client = v.mean_sq(target - v.z_client)
        terms = (
            (1 - g) * (v.Psi[:-1] - psi_u),
            g * v.beta / 2 * (server[:-1] - server[1:]),
            clients * g * c_factor(v.T) * v.beta / 2 * (client[:-1] - client[1:]),
            g * _error_terms(v) + 0 * left,
        )
        parts.append((left, *terms))
        if not v.exact:
            break
    stacked = [np.stack(p) for p in zip(*parts, strict=True)]
    if not v.exact:
        stacked = [np.broadcast_to(p, stacked[0].shape).mean(axis=1) for p in stacked]
    return _rows(le(*stacked, noise=v.noise))


def _telescoped(v: MLSView, error: float = 1.0, start: float = 1.0) -> Sides:
    """Psi(x_K, x'_K) - F(u) <= 2/(K(K+1)) { (2/lam)(1 + c(T_1)) ||u - x_0||^2 + sum_k k mean E }."""
    sums = float((v.k * _error_terms(v)).sum()) * error
    first = 2 / v.lam * (1 + c_factor(v.constants.steps[0])) * start
    scale = 2 / (v.K * (v.K + 1))
    distance = ((v.points[:, :, None] - v.x[:1]) ** 2).sum(axis=-2)  # (Q, S)
    return _rows(le(v.Psi[-1] - v.Psi_targets, scale * first * distance, scale * sums + 0 * distance, noise=v.noise))


def _penalty_gap(v: MLSView, with_gap: bool = True) -> Sides:
    """F(x_k) <= Psi(x_k, x'_k) + lambda G^2/2."""
    everyone = np.broadcast_to(v.x[:, None], v.x_client.shape)
    gap = v.lam * v.constants.G_sq / 2 if with_gap else 0.0
    return _rows(le(v.values(everyone).mean(axis=-2), v.Psi, gap + 0 * v.Psi, noise=v.noise))


def _theorem_1(v: MLSView, **change: Any) -> Sides:
    return le(v.excess[-1:], _constant(v, v.constants.theorem_1(**change)), noise=v.noise)


def _epsilon(v: MLSView) -> float:
    """The accuracy lambda = epsilon/G^2 stands for."""
    return v.lam * v.constants.G_sq


def _within(v: MLSView, share: float) -> Sides:
    return le(v.excess[-1:], _constant(v, share * _epsilon(v)), noise=v.noise)


def _step_total(v: MLSView, ceilings: int = 1) -> Sides:
    """sum_k T_k <= a K(K+1)(2K+1)/6 + K with a = (4 G^2 + sigma^2) lambda^2 K/(2 D)."""
    c = v.constants
    a = (4 * c.G_sq + c.sigma_sq) * c.lam**2 * c.K / (2 * c.D)
    total = _constant(v, float(c.steps.sum()))
    return le(total, _constant(v, a * c.K * (c.K + 1) * (2 * c.K + 1) / 6), _constant(v, float(ceilings * c.K)))


def _step_total_below(v: MLSView) -> Sides:
    upper = _step_total(v, ceilings=0)
    return le(upper.rhs, upper.lhs, noise=1e-9 * upper.scale)


def _doubled(sides: Sides) -> tuple[Any, Any]:
    return 2 * sides.lhs, sides.rhs


def identities(start: int = 2) -> bool:
    """Gamma_k, W_T, w_t p_t and the final plug-in, with SymPy; ``start`` is the 2 of Gamma_k = 2/(k(k+1))."""
    import sympy as sp

    k, t, lam, g, d, eps, K = sp.symbols("k t lambda G D epsilon K", positive=True)
    big_gamma = sp.Integer(start) / (k * (k + 1))
    gamma, beta = 2 / (k + 1), 4 / (lam * k)
    n = sp.symbols("n", positive=True, integer=True)
    zero = [
        big_gamma - (1 - gamma) * big_gamma.subs(k, k - 1),
        gamma / big_gamma - k,
        gamma * beta / big_gamma - 4 / lam,
        sp.summation(n + 1, (n, 1, t)) - t * (t + 3) / 2,
        (t + 1) * t / 2 - t * (1 + (t - 1) / 2),  # w_t p_t = w_{t-1} (1 + p_{t-1})
        (t + 1) / (t * (t + 3) / 2) - 2 * (t + 1) / (t * (t + 3)),  # theta_t = w_t/W_t
    ]
    # Theorem 2: lambda = epsilon/G^2 and K (K + 1) >= K^2 = 72 G^2 D/epsilon^2 leave 3/4 epsilon.
    bound = 18 * d / (lam * K**2) + g**2 * lam / 2
    zero.append(bound.subs({lam: eps / g**2, K: 6 * sp.sqrt(2) * g * sp.sqrt(d) / eps}) - 3 * eps / 4)
    return all(sp.simplify(e) == 0 for e in zero)


def _form(name: str, latex: str, sides: Any, established: Any, *mutants: tuple[str, Any], **more: Any) -> Form:
    return Form(name, latex, sides, established, mutants=tuple(Mutant(n, s) for n, s in mutants), **more)


def _statement(id: str, title: str, source: str, *forms: Form, scope: str = "fedmls", kind: str = "statement") -> Statement:
    return Statement(f"fedmls/{id}", title, source, scope, forms, ASSUMPTIONS, SYMBOLS, kind)  # type: ignore[arg-type]


THEOREM = r"\mathbb E F(x_K)-F(x^*)\le\frac{%s\|x_0-x^*\|^2+%s\tilde D}{\lambda K(K+1)}+\frac{G^2\lambda}2"

STATEMENTS = (
    _statement(
        "identities",
        "weights of the outer and the inner loop, and Theorem 2's plug-in",
        "proof of Theorems 1 and 2 (symbolic)",
        Form(
            "repaired",
            r"\Gamma_k=(1-\gamma_k)\Gamma_{k-1},\ \gamma_k/\Gamma_k=k,\ \gamma_k\beta_k/\Gamma_k=4/\lambda,"
            r"\ \theta_t=w_t/W_t,\ \tfrac{18}{72}+\tfrac12=\tfrac34",
            None,
            {"any": "holds"},
            symbolic=identities,
        ),
        scope="algebra",
    ),
    _statement(
        "inner-loop",
        "local training nearly solves the proximal problem",
        "Lan 2016, Proposition 1, for lines 18-27",
        _form(
            "repaired",
            r"\Phi_i(\tilde u_T)-\Phi_i(u)\le\tfrac{\beta}{T(T+3)}\|u-u_0\|^2-\tfrac{(T+1)(T+2)}{T(T+3)}\tfrac\beta2\|u-u_T\|^2+E_i,"
            r"\ E_i=\tfrac{8G_i^2(T+H_T)+4\sigma_i^2(T+\frac32-H_{T+2})}{\beta T(T+3)}",
            _inner,
            BOTH,
            ("E ten times smaller", lambda v: _inner(v, error=0.1)),
            note="for every client, round and point u of the ball; Lan's E_i = 8(4G_i^2+sigma_i^2)/(beta(T+3)) is larger",
        ),
        _form(
            "Lan",
            r"\text{the same with }E_i=\tfrac{8(4G_i^2+\sigma_i^2)}{\beta(T+3)}",
            lambda v: _inner(v, "lan"),
            BOTH,
            ("E a hundred times smaller", lambda v: _inner(v, "lan", error=0.01)),
        ),
    ),
    _statement(
        "recursion",
        "one round of the outer loop",
        "proof of Theorem 1, the recursion",
        _form(
            "repaired",
            r"\Psi_k-\Psi(u)\le(1-\gamma_k)(\Psi_{k-1}-\Psi(u))+\tfrac{\gamma_k\beta_k}2[\|u-z_{k-1}\|^2-\|u-z_k\|^2"
            r"+c(T_k)(\|u-z'_{k-1}\|^2-\|u-z'_k\|^2)]+\gamma_k\bar E",
            _recursion,
            BOTH,
            ("clients' distances dropped", lambda v: _recursion(v, clients=0.0)),
        ),
    ),
    _statement(
        "telescoped",
        "the recursion summed over the rounds",
        "proof of Theorem 1, the telescoped sum",
        _form(
            "repaired",
            r"\Psi_K-F(u)\le\tfrac2{K(K+1)}\big[\tfrac2\lambda(1+c(T_1))\|u-x_0\|^2+\sum_kk\bar E_k\big]",
            _telescoped,
            BOTH,
            ("distance a hundred times smaller", lambda v: _telescoped(v, error=0.0, start=0.01)),
        ),
    ),
    _statement(
        "penalty-gap",
        "what the penalty costs",
        "proof of Theorem 1, from Psi to F",
        _form(
            "repaired",
            r"F(x_k)\le\Psi(x_k,x'_k)+\tfrac{\lambda G^2}2",
            _penalty_gap,
            BOTH,
            ("gap dropped", lambda v: _penalty_gap(v, with_gap=False)),
            note="needs x_k where the f_i are G_i-Lipschitz: in the ball",
        ),
    ),
    _statement(
        "theorem-1",
        "convergence of FedMLS",
        "Theorem 1",
        _form(
            "printed",
            THEOREM % (10, 8) + r",\quad\|\nabla F\|\le G\text{ for the joint }F",
            lambda v: _theorem_1(v, G_sq=v.constants.joint_G_sq),
            {"deterministic": "violated"},
            requires=(WITNESS,),
            note="the joint F on R^{Nd} has gradients of norm RMS(G_i)/sqrt(N): with ||x_0 - x*|| in R^d that is too "
            "small; in the plain norm of R^{Nd} it is too small as well, as a start at x* shows (in floating point)",
        ),
        _form(
            "repaired",
            THEOREM % (10, 8),
            _theorem_1,
            BOTH,
            ("a thousand times smaller first term", lambda v: _theorem_1(v, start=0.01, slack=0.008)),
            note="G is the root mean square of the G_i, norms are those of the mean product, the server projects onto the ball, "
            "line 14 averages",
        ),
        _form(
            "sharpened",
            THEOREM % (10, 4),
            lambda v: _theorem_1(v, slack=4.0),
            BOTH,
            ("a thousand times smaller first term", lambda v: _theorem_1(v, start=0.01, slack=0.004)),
            note="4 for 8 with noise or without; without noise 2.0605 is enough",
        ),
        _form(
            "a posteriori",
            r"\dots\le\tfrac{(4+4c(T_1))\|x_0-x^*\|^2}{\lambda K(K+1)}+\tfrac{4\lambda}{K(K+1)}\sum_{k<K}\tfrac{k^2}{T_k}"
            r"[G^2\kappa(T_k)+\tfrac{\sigma^2}2\kappa'(T_k)]+\tfrac{\lambda G^2}2",
            lambda v: le(v.excess[-1:], _constant(v, v.constants.a_posteriori()), noise=v.noise),
            BOTH,
            ("a thousand times smaller", lambda v: le(v.excess[-1:], _constant(v, v.constants.a_posteriori() / 1000), noise=v.noise)),
            note="with the local steps that were taken; round K's do not count",
        ),
        _form(
            "line 14 as printed",
            THEOREM % (10, r"4\kappa_\ell(T_K)") + r",\quad z'\text{ for }\tilde z'\text{ in line 14}",
            lambda v: _theorem_1(v, slack=4 * kappa_last(int(v.constants.steps.max()))),
            BOTH,
            ("a thousand times smaller first term", lambda v: _theorem_1(v, start=0.01, slack=0.0)),
            requires=(LINE_14,),
            note="the last iterate of local training will do as well, with kappa_l(T) of about (log T)/2 + 0.64: the printed 8 is "
            "enough while all T_k <= 828 without noise, T_k <= 26 with it; beyond, no violation was found",
        ),
        *(
            _form(
                name,
                THEOREM % (10, 8) + r",\quad\text{" + name + "}",
                _theorem_1,
                {"deterministic": "violated"},
                requires=(WITNESS,),
                note=VARIANTS[name],
            )
            for name in ("consensus G", "no server projection", "mixed norms", "prox without the square")
        ),
    ),
    _statement(
        "theorem-2",
        "rounds and local steps to epsilon",
        "Theorem 2",
        _form(
            "printed",
            r"\lambda=\epsilon/G^2,\ \tilde D=\|x_0-x^*\|^2,\ K=\lceil6G\sqrt{2\tilde D}/\epsilon\rceil"
            r"\Rightarrow\mathbb E F(x_K)-F(x^*)\le\epsilon",
            lambda v: _within(v, 1.0),
            BOTH,
            ("a thousandth of epsilon", lambda v: _within(v, 1e-3)),
            note="with G the root mean square",
            requires=("printed",),
        ),
        _form(
            "sharpened",
            r"\dots\le\tfrac34\epsilon",
            lambda v: _within(v, 0.75),
            BOTH,
            ("a thousandth of epsilon", lambda v: _within(v, 0.75e-3)),
            note="the printed K guarantees three quarters of epsilon",
            requires=("printed",),
        ),
        _form(
            "fewest rounds",
            r"K(K+1)\ge36G^2\tilde D/\epsilon^2\Rightarrow\mathbb E F(x_K)-F(x^*)\le\epsilon",
            lambda v: _within(v, 1.0),
            BOTH,
            ("a thousandth of epsilon", lambda v: _within(v, 1e-3)),
            note="K_min = ceil((sqrt(1 + 144 G^2 D/epsilon^2) - 1)/2)",
            requires=("fewest",),
        ),
        _form(
            "local steps",
            r"\sum_kT_k\le\tfrac{(4G^2+\sigma^2)\lambda^2K}{2\tilde D}\cdot\tfrac{K(K+1)(2K+1)}6+K",
            _step_total,
            BOTH,
            ("as if nothing were rounded up", lambda v: le(*_half(_step_total(v)))),
        ),
        _form(
            "local steps, from below",
            r"\tfrac{(4G^2+\sigma^2)\lambda^2K}{2\tilde D}\cdot\tfrac{K(K+1)(2K+1)}6\le\sum_kT_k",
            _step_total_below,
            BOTH,
            ("doubled", lambda v: le(*_doubled(_step_total_below(v)))),
            note="with the form above: sum T_k ~ (4G^2+sigma^2) lambda^2 K^4/(6D), the asymptotic constant of Theorem 2",
        ),
    ),
)


def _half(sides: Sides) -> tuple[Any, Any]:
    return sides.lhs, sides.rhs / 2


def load() -> None:
    """Register all statements of the poster (once)."""
    register(*STATEMENTS)


