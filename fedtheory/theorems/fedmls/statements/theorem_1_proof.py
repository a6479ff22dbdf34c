"""FedMLS (gradient sliding over clients): the steps of the proof of Theorem 1."""

from __future__ import annotations

import numpy as np

from fedtheory.theorems.fedmls.notation import BOTH, PROVED, statement
from fedtheory.theorems.fedmls.quantities import MLSView, c_factor
from fedtheory.verification.statement import Sides, form, le

__all__ = ["PROOF", "identities"]


def _penalty_at(v: MLSView, clients: np.ndarray, u: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Phi_i(u) = f_i(u) + <g_i, u> + beta/2 ||u - u_0||^2 for all rounds: (..., K, N, S)."""
    linear = (v.gradient[1:] * u).sum(axis=-2)
    return clients + linear + v.beta[:, None] / 2 * ((u - start) ** 2).sum(axis=-2)


def _inner(v: MLSView, kind: str = "sharp", error: float = 1.0) -> Sides:
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
        parts.append((lhs, near, far, error * v.inner_error(kind) + 0 * near))
        if not v.exact:
            break
    lhs, near, far, rest = (np.stack(p) for p in zip(*parts, strict=True))
    if not v.exact:
        lhs, near, far, rest = (np.broadcast_to(a, lhs.shape).mean(axis=(1, 2)) for a in (lhs, near, far, rest))
    return _rows(le(lhs, near, far, rest, noise=v.noise))


def _rows(sides: Sides) -> Sides:
    """All leading axes as one, scenarios last."""
    scenarios = sides.lhs.shape[-1]
    lhs, rhs, scale = (np.reshape(a, (-1, scenarios)) for a in (sides.lhs, sides.rhs, sides.scale))
    return Sides(lhs, rhs, scale, sides.relation, sides.noise)


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


PROOF = (
    statement(
        "identities",
        "weights of the outer and the inner loop, and Theorem 2's plug-in",
        "proof of Theorems 1 and 2 (symbolic)",
        form(
            "repaired",
            r"\Gamma_k=(1-\gamma_k)\Gamma_{k-1},\ \gamma_k/\Gamma_k=k,\ \gamma_k\beta_k/\Gamma_k=4/\lambda,"
            r"\ \theta_t=w_t/W_t,\ \tfrac{18}{72}+\tfrac12=\tfrac34",
            None,
            "holds",
            symbolic=identities,
        ),
        scope="algebra",
    ),
    statement(
        "inner-loop",
        "local training nearly solves the proximal problem",
        "Lan 2016, Proposition 1, for lines 18-27",
        form(
            "repaired",
            r"\Phi_i(\tilde u_T)-\Phi_i(u)\le\tfrac{\beta}{T(T+3)}\|u-u_0\|^2-\tfrac{(T+1)(T+2)}{T(T+3)}\tfrac\beta2\|u-u_T\|^2+E_i,"
            r"\ E_i=\tfrac{8G_i^2(T+H_T)+4\sigma_i^2(T+\frac32-H_{T+2})}{\beta T(T+3)}",
            _inner,
            BOTH,
            ("E ten times smaller", lambda v: _inner(v, error=0.1)),
            note="for every client, round and point u of the ball; Lan's E_i = 8(4G_i^2+sigma_i^2)/(beta(T+3)) is larger",
            proof=PROVED,
        ),
        form(
            "Lan",
            r"\Phi_i(\tilde u_T)-\Phi_i(u)\le\tfrac{\beta}{T(T+3)}\|u-u_0\|^2-\tfrac{(T+1)(T+2)}{T(T+3)}\tfrac\beta2\|u-u_T\|^2+E_i,"
            r"\ E_i=\tfrac{8(4G_i^2+\sigma_i^2)}{\beta(T+3)}",
            lambda v: _inner(v, "lan"),
            BOTH,
            ("E a hundred times smaller", lambda v: _inner(v, "lan", error=0.01)),
            proof="Lan 2016, Proposition 1; as [repaired], whose E_i is smaller",
        ),
        measures="gap of the local problem",
    ),
    statement(
        "recursion",
        "one round of the outer loop",
        "proof of Theorem 1, the recursion",
        form(
            "repaired",
            r"\Psi_k-\Psi(u)\le(1-\gamma_k)(\Psi_{k-1}-\Psi(u))+\tfrac{\gamma_k\beta_k}2[\|u-z_{k-1}\|^2-\|u-z_k\|^2"
            r"+c(T_k)(\|u-z'_{k-1}\|^2-\|u-z'_k\|^2)]+\gamma_k\bar E",
            _recursion,
            BOTH,
            ("clients' distances dropped", lambda v: _recursion(v, clients=0.0)),
            proof=PROVED,
        ),
        measures="gap of the penalised loss",
    ),
    statement(
        "telescoped",
        "the recursion summed over the rounds",
        "proof of Theorem 1, the telescoped sum",
        form(
            "repaired",
            r"\Psi_K-F(u)\le\tfrac2{K(K+1)}\big[\tfrac2\lambda(1+c(T_1))\|u-x_0\|^2+\sum_kk\bar E_k\big]",
            _telescoped,
            BOTH,
            ("distance a hundred times smaller", lambda v: _telescoped(v, error=0.0, start=0.01)),
            proof=PROVED,
        ),
        measures="gap of the penalised loss",
    ),
    statement(
        "penalty-gap",
        "what the penalty costs",
        "proof of Theorem 1, from Psi to F",
        form(
            "repaired",
            r"F(x_k)\le\Psi(x_k,x'_k)+\tfrac{\lambda G^2}2",
            _penalty_gap,
            BOTH,
            ("gap dropped", lambda v: _penalty_gap(v, with_gap=False)),
            note="needs x_k where G_i bounds the subgradients: in the ball",
            proof=PROVED,
        ),
        measures="loss of the server model",
    ),
)
