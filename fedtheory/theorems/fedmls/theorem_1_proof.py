"""FedMLS (gradient sliding over clients): the steps of the proof of Theorem 1."""

import numpy as np

from fedtheory.theorems.fedmls.constants import c_factor
from fedtheory.theorems.fedmls.notation import ASSUMPTIONS, BOTH_RULES, PROVED
from fedtheory.theorems.fedmls.paper import ACCEPTS, SLIDING, paper
from fedtheory.theorems.fedmls.runs import FedMLSRuns
from fedtheory.theory import Identities, Sides, form, le, repaired, wrong

LOCAL = (  # the gap of the local problem at a model is at most this, and an error
    r"\Phi_i(%s)-\Phi_i(u)\le\tfrac{\beta}{T(T+3)}\|u-u_0\|^2"
    r"-\tfrac{(T+1)(T+2)}{T(T+3)}\tfrac\beta2\|u-u_T\|^2+"
)
E = LOCAL % r"\tilde u_T" + r"E_i,\ E_i="


class Algebra(Identities):
    """Symbols alone, with what a user gives beside statements about runs."""

    problem, accepts, work = "lad", ACCEPTS, SLIDING


def identities(start: int = 2) -> bool:
    """Prove Gamma_k, W_T, w_t p_t and the final plug-in with SymPy.

    ``start`` is the 2 of Gamma_k = 2/(k(k+1)).
    """
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
    plan = {lam: eps / g**2, K: 6 * sp.sqrt(2) * g * sp.sqrt(d) / eps}
    zero.append(bound.subs(plan) - 3 * eps / 4)
    return all(sp.simplify(e) == 0 for e in zero)


def rows(sides):
    """All leading axes as one, scenarios last."""
    scenarios = sides.lhs.shape[-1]
    lhs, rhs, scale = (np.reshape(a, (-1, scenarios)) for a in (sides.lhs, sides.rhs, sides.scale))
    return Sides(lhs, rhs, scale, sides.relation, sides.noise)


def points(q):
    """The consensus points u that are looked at, with noise x* alone: (Q, 1, N, d, S)."""
    return q.targets[: None if q.exact else 1, None]


def point_by_point(q, *terms):
    """Sides of first term <= sum of the others, for every point u: (Q, K, ..., S).

    With noise they are about expectations, and averaged over the rounds and the clients.
    """
    made = terms if q.exact else [a.mean(axis=tuple(range(1, a.ndim - 1))) for a in terms]
    return rows(le(*made, noise=q.noise))


def sq(u):
    """||u||^2: (..., d, S) -> (..., S)."""
    return (u**2).sum(axis=-2)


def penalty_at(q, clients, u, start):
    """Phi_i(u) = f_i(u) + <g_i, u> + beta/2 ||u - u_0||^2 for all rounds: (..., K, N, S)."""
    linear = (q.gradient[1:] * u).sum(axis=-2)
    return clients + linear + q.beta[:, None] / 2 * sq(u - start)


def inner(q, kind="sharp", error=1):
    """Sides of the inner loop's bound, client by client and round by round."""
    return point_by_point(q, *inner_terms(q, points(q), kind, error))


def inner_terms(q, u, kind="sharp", error=1):
    """What stands in it, against the points u: (Q, K, N, S)."""
    start, last, average = q.z_client[:-1], q.z_client[1:], q.z_average[1:]
    t, beta = q.T[:, None], q.beta[:, None]
    at_average = penalty_at(q, q.values(average), average, start)
    near = beta / (t * (t + 3)) * sq(u - start)
    far = -c_factor(t) * beta / 2 * sq(u - last)
    at_u = penalty_at(q, q.values(q.targets)[: len(u), None], u, start)
    return at_average - at_u, near, far, error * q.inner_error(kind) + 0 * near


def error_terms(q):
    """The clients' mean of E_i: (K, 1)."""
    return q.inner_error().mean(axis=1)


def recursion_of(q, clients=1):
    """Sides of one round of the outer loop, against every consensus point u."""
    return point_by_point(q, *recursion_terms(q, points(q), clients))


def recursion_terms(q, u, clients=1):
    """What stands in it, against the points u: (Q, K, S)."""
    g = q.gamma
    gap = q.Psi - q.Psi_targets[: len(u), None]
    server, client = sq(u[:, :, 0] - q.z), q.mean_sq(u - q.z_client)  # (Q, K + 1, S)
    return (
        gap[:, 1:], (1 - g) * gap[:, :-1], g * q.beta / 2 * (server[:, :-1] - server[:, 1:]),
        clients * g * c_factor(q.T) * q.beta / 2 * (client[:, :-1] - client[:, 1:]),
        g * error_terms(q) + 0 * gap[:, 1:],
    )


def sum_of_rounds(q, error=1.0, start=1.0):
    """Sides of Psi_K - F(u) <= 2/(K(K+1)) {(2/lam)(1 + c(T_1)) ||u - x_0||^2 + sum_k k mean E}."""
    sums = float((q.k * error_terms(q)).sum()) * error
    first = 2 / q.lam * (1 + c_factor(q.constants.steps[0])) * start
    scale = 2 / (q.K * (q.K + 1))
    distance = sq(q.points[:, :, None] - q.x[:1])  # (Q, S)
    far, errors = scale * first * distance, scale * sums + 0 * distance
    return rows(le(q.Psi[-1] - q.Psi_targets, far, errors, noise=q.noise))


def gap_of_penalty(q, gap=1.0):
    """Sides of F(x_k) <= Psi(x_k, x'_k) + gap lambda G^2/2."""
    everyone = np.broadcast_to(q.x[:, None], q.x_client.shape)
    gap *= q.lam * q.constants.G_sq / 2
    return rows(le(q.values(everyone).mean(axis=-2), q.Psi, gap + 0 * q.Psi, noise=q.noise))


@paper.statement(
    "identities", over=Algebra, assumptions=ASSUMPTIONS,
    source="proof of Theorems 1 and 2 (symbolic)",
)
def weights(q):
    """weights of the outer and the inner loop, and Theorem 2's plug-in"""
    yield form(
        "repaired", None,
        r"\Gamma_k=(1-\gamma_k)\Gamma_{k-1},\ \gamma_k/\Gamma_k=k,"
        r"\ \gamma_k\beta_k/\Gamma_k=4/\lambda,"
        r"\ \theta_t=w_t/W_t,\ \tfrac{18}{72}+\tfrac12=\tfrac34", holds=True, symbolic=identities,
    )


@paper.statement(
    "inner-loop", over=FedMLSRuns, source="Lan 2016, Proposition 1, for lines 18-27",
    assumptions=ASSUMPTIONS, measures="gap of the local problem",
)
def inner_loop(q):
    """local training nearly solves the proximal problem"""
    yield repaired(
        lambda: inner(q), E + r"\tfrac{8G_i^2(T+H_T)+4\sigma_i^2(T+\frac32-H_{T+2})}{\beta T(T+3)}",
        wrong("E ten times smaller", lambda: inner(q, error=0.1)), holds=True, rules=BOTH_RULES,
        proof=PROVED,
        note="for every client, round and point u of the ball; Lan's E_i = "
        "8(4G_i^2+sigma_i^2)/(beta(T+3)) is larger",
    )
    yield form(
        "Lan", lambda: inner(q, "lan"), E + r"\tfrac{8(4G_i^2+\sigma_i^2)}{\beta(T+3)}",
        wrong("E a hundred times smaller", lambda: inner(q, "lan", error=0.01)), holds=True,
        rules=BOTH_RULES, proof="Lan 2016, Proposition 1; as [repaired], whose E_i is smaller",
    )


@paper.statement(
    "recursion", over=FedMLSRuns, source="proof of Theorem 1, the recursion",
    assumptions=ASSUMPTIONS, measures="gap of the penalised loss",
)
def recursion(q):
    """one round of the outer loop"""
    yield repaired(
        lambda: recursion_of(q),
        r"\Psi_k-\Psi(u)\le(1-\gamma_k)(\Psi_{k-1}-\Psi(u))"
        r"+\tfrac{\gamma_k\beta_k}2[\|u-z_{k-1}\|^2-\|u-z_k\|^2"
        r"+c(T_k)(\|u-z'_{k-1}\|^2-\|u-z'_k\|^2)]+\gamma_k\bar E",
        wrong("clients' distances dropped", lambda: recursion_of(q, clients=0.0)),
        holds=True, rules=BOTH_RULES, proof=PROVED,
    )


@paper.statement(
    "telescoped", over=FedMLSRuns, source="proof of Theorem 1, the telescoped sum",
    assumptions=ASSUMPTIONS, measures="gap of the penalised loss",
)
def telescoped(q):
    """the recursion summed over the rounds"""
    yield repaired(
        lambda: sum_of_rounds(q),
        r"\Psi_K-F(u)\le\tfrac2{K(K+1)}\big[\tfrac2\lambda(1+c(T_1))\|u-x_0\|^2"
        r"+\sum_kk\bar E_k\big]",
        wrong("distance a hundred times smaller", lambda: sum_of_rounds(q, error=0.0, start=0.01)),
        holds=True, rules=BOTH_RULES, proof=PROVED,
    )


@paper.statement(
    "penalty-gap", over=FedMLSRuns, title="what the penalty costs",
    source="proof of Theorem 1, from Psi to F", assumptions=ASSUMPTIONS,
    measures="loss of the server model",
)
def penalty_gap(q):
    """The loss of the server's model, and the penalised loss."""
    yield repaired(
        lambda: gap_of_penalty(q), r"F(x_k)\le\Psi(x_k,x'_k)+\tfrac{\lambda G^2}2",
        wrong("gap dropped", lambda: gap_of_penalty(q, 0.0)), holds=True, rules=BOTH_RULES,
        proof=PROVED, note="needs x_k where G_i bounds the subgradients: in the ball",
    )
