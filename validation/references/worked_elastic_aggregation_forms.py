"""Both sides of every form about Elastic Aggregation, each written from the formula beside it.

What is stated in words ("is a fixed point", "iff") is written as the equality or inequality that
the comment names.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from worked_elastic_aggregation import (
    Averages,
    Cohorts,
    Round,
    det,
    form,
    minus,
    times,
    weighted_matrices,
)

__all__ = ["quantities"]


def zeros(w: Any) -> list[Fraction]:
    return [Fraction(0)] * w.d


def sizes(x: list[Fraction]) -> list[Fraction]:
    return [abs(v) for v in x]


def scaled(a: Fraction, x: list[Fraction]) -> list[Fraction]:
    return [a * v for v in x]


def product(a: list[Fraction], b: list[Fraction]) -> list[Fraction]:
    return [x * y for x, y in zip(a, b, strict=True)]


# --- all clients take part: one round from theta -------------------------------------------------
@form("factors", "printed")
def _(w: Round) -> tuple[Any, Any]:
    # 1 <= max_i zeta^i
    return 1, max(w.z)


@form("factors", "repaired")
def _(w: Round) -> tuple[Any, Any]:
    # min_i zeta^i = tau
    return min(w.z), w.tau


@form("factors", "range")
def _(w: Round) -> tuple[Any, Any]:
    # zeta^i <= 1 + tau
    return w.z, scaled(1 + w.tau, [1] * w.d)


@form("factors", "which")
def _(w: Round) -> tuple[Any, Any]:
    # zeta^i < 1 iff Omega^i > tau Omega'
    return [int(z < 1) for z in w.z], [int(o > w.tau * max(w.O)) for o in w.O]


@form("full-participation", "the optimum")
def _(w: Round) -> tuple[Any, Any]:
    # a round from theta* ends in theta*
    return w.step(w.star()), w.star()


@form("full-participation", "repaired")
def _(w: Round) -> tuple[Any, Any]:
    # a round from bar theta ends in bar theta
    return w.step(w.bar), w.bar


@form("full-participation", "no other")
def _(w: Round) -> tuple[Any, Any]:
    # tau |Delta^i| <= |zeta^i Delta^i|
    return scaled(w.tau, sizes(w.D)), sizes(product(w.z, w.D))


@form("full-participation", "tau = 0")
def _(w: Round) -> tuple[Any, Any]:
    # max_i |Delta^i| <= 0 where zeta Delta = 0; 0 <= 0 elsewhere
    return (0 if any(product(w.z, w.D)) else max(sizes(w.D))), 0


@form("stability", "as FedAvg")
@form("sign", "repaired")
def _(w: Round) -> tuple[Any, Any]:
    # V(theta+) <= V(theta)
    return w.V(w.after), w.V(w.theta)


@form("stability", "repaired")
def _(w: Round) -> tuple[Any, Any]:
    # V(theta+) + eta (1 - eta (1 + tau) L/2) sum_i zeta^i (M (theta - bar))_i^2 <= V(theta)
    pull = times(w.mean, minus(w.theta, w.bar))
    return w.V(w.after) + w.eta * w.room * sum(z * p**2 for z, p in zip(w.z, pull, strict=True)), w.V(w.theta)


@form("stability", "rate")
@form("stability", "rate, always")
def _(w: Round) -> tuple[Any, Any]:
    # V(theta+) <= (1 - 2 eta tau mu_M (1 - eta (1 + tau) L/2)) V(theta)
    return w.V(w.after), (1 - 2 * w.eta * w.tau * w.mu_M * w.room) * w.V(w.theta)


@form("stability", "rate, dead layers too")
def _(w: Round) -> tuple[Any, Any]:
    # V(theta+) <= (1 - 2 eta min(1, tau) mu_M (1 - eta (1 + tau) L/2)) V(theta)
    return w.V(w.after), (1 - 2 * w.eta * min(1, w.tau) * w.mu_M * w.room) * w.V(w.theta)


@form("stability", "each coordinate")
def _(w: Round) -> tuple[Any, Any]:
    # |theta+_i - bar_i| <= max(|1 - eta tau m_i|, |1 - eta (1 + tau) m_i|) |theta_i - bar_i|
    most = [max(abs(1 - w.eta * w.tau * m), abs(1 - w.eta * (1 + w.tau) * m)) for m in w.m]
    return sizes(minus(w.after, w.bar)), product(most, sizes(minus(w.theta, w.bar)))


@form("sign", "printed")
def _(w: Round) -> tuple[Any, Any]:
    # theta - eta Delta: V(theta+) <= V(theta)
    return w.V(w.away), w.V(w.theta)


@form("sign", "growth")
def _(w: Round) -> tuple[Any, Any]:
    # theta - eta Delta: (1 + eta tau mu_M)^2 V(theta) <= V(theta+)
    return (1 + w.eta * w.tau * w.mu_M) ** 2 * w.V(w.theta), w.V(w.away)


@form("speed", "never slower")
@form("speed", "faster")
def _(w: Round) -> tuple[Any, Any]:
    # rho_elastic <= rho_naive
    return w.rho_elastic(), w.rho_naive()


@form("speed", "never faster")
def _(w: Round) -> tuple[Any, Any]:
    # rho_naive <= rho_elastic
    return w.rho_naive(), w.rho_elastic()


@form("speed", "repaired")
def _(w: Round) -> tuple[Any, Any]:
    # rho_elastic <= 1 - eta tau mu_M
    return w.rho_elastic(), 1 - w.eta * w.tau * w.mu_M


@form("speed", "at best")
def _(w: Round) -> tuple[Any, Any]:
    # 1 - eta (1 + tau) mu_M <= rho_elastic
    return 1 - w.eta * (1 + w.tau) * w.mu_M, w.rho_elastic()


@form("speed", "path")
def _(w: Round) -> tuple[Any, Any]:
    # theta+_i - bar_i = (1 - eta zeta^i m_i)(theta_i - bar_i)
    left = [1 - w.eta * z * m for z, m in zip(w.z, w.m, strict=True)]
    return minus(w.after, w.bar), product(left, minus(w.theta, w.bar))


@form("one-round", "never higher")
def _(w: Round) -> tuple[Any, Any]:
    # F(elastic) <= F(naive)
    return w.F(w.after), w.F(w.naive)


@form("one-round", "never lower")
def _(w: Round) -> tuple[Any, Any]:
    # F(naive) <= F(elastic)
    return w.F(w.naive), w.F(w.after)


@form("zero-sensitivity", "printed")
def _(w: Round) -> tuple[Any, Any]:
    # Omega' > 0 is 1 (it is true)
    return 1, int(max(w.O) > 0)


@form("zero-sensitivity", "repaired")
def _(w: Round) -> tuple[Any, Any]:
    # Omega' = 0 iff sum of squares of the outputs, theta' S_k theta, is 0 for all k
    outputs = [sum(product(w.theta, times(S, w.theta))) for S in w.S]
    return int(max(w.O) == 0), int(all(o == 0 for o in outputs))


@form("zero-sensitivity", "one scale")
def _(w: Round) -> tuple[Any, Any]:
    # zeta(2 theta) = zeta(theta)
    return w.zeta(w.all, scaled(2, w.theta)), w.z


@form("zero-sensitivity", "a limit")
def _(w: Round) -> tuple[Any, Any]:
    # zeta along theta and along theta', theta's entries in reverse
    return w.z, w.zeta(w.all, w.theta[::-1])


# --- P of N clients take part --------------------------------------------------------------------
@form("sampled-fixed-point", "as FedAvg")
@form("sampled-fixed-point", "one parameter")
@form("sampled-fixed-point", "one parameter, always")
@form("sampled-fixed-point", "all take part")
def _(w: Cohorts) -> tuple[Any, Any]:
    # E Delta = 0
    return w.mean(w.Deltas), zeros(w)


@form("sampled-fixed-point", "repaired")
def _(w: Cohorts) -> tuple[Any, ...]:
    # E[zeta Delta] = sum_k v_k Delta_k, v_k^i = E[w_k zeta^i]; both are 0, and E|Delta|
    parts = [product(w.v(k), w.local(k, w.theta, w.c[k])) for k in w.all]
    return w.motion(), [sum(p[i] for p in parts) for i in range(w.d)], w.mean([sizes(D) for D in w.Deltas])


@form("sampled-fixed-point", "between")
def _(w: Cohorts) -> tuple[Any, Any]:
    # |2 theta^i - (low + high)| <= high - low, of the c_k^i
    low, high = ([pick(c[i] for c in w.c) for i in range(w.d)] for pick in (min, max))
    return [abs(2 * x - a - b) for x, a, b in zip(w.theta, low, high, strict=True)], minus(high, low)


@form("sampled-fixed-point", "covariance")
def _(w: Cohorts) -> tuple[Any, Any]:
    # E Delta^i = -Cov(zeta^i, Delta^i)/E zeta^i
    zeta, Delta = w.mean(w.zetas), w.mean(w.Deltas)
    gaps = [product(minus(z, zeta), minus(v, Delta)) for z, v in zip(w.zetas, w.Deltas, strict=True)]
    return Delta, [-c / z for c, z in zip(w.mean(gaps), zeta, strict=True)]


@form("sampled-fixed-point", "distance")
@form("sampled-fixed-point", "distance, always")
def _(w: Cohorts) -> tuple[Any, Any]:
    # (1 + 2 tau) |E Delta^i| <= E|Delta^i|
    return scaled(1 + 2 * w.tau, sizes(w.mean(w.Deltas))), w.mean([sizes(D) for D in w.Deltas])


@form("sampled-fixed-point", "distance, insensitive cohorts too")
def _(w: Cohorts) -> tuple[Any, Any]:
    # (1 + tau + min(1, tau)) |E Delta^i| <= (1 + tau - min(1, tau)) E|Delta^i|
    low, high = min(Fraction(1), w.tau), 1 + w.tau
    return scaled(high + low, sizes(w.mean(w.Deltas))), scaled(high - low, w.mean([sizes(D) for D in w.Deltas]))


@form("sampled-fixed-point", "one local step")
def _(w: Cohorts) -> tuple[Any, Any]:
    # theta = theta*
    return w.theta, w.star()


@form("sampled-stability", "always")
def _(w: Cohorts) -> tuple[Any, Any]:
    # 0 <= det(-J)
    return 0, det(w.minus_J())


@form("sampled-stability", "all take part")
def _(w: Cohorts) -> tuple[Any, Any]:
    # J = -zeta M
    mean = weighted_matrices(w.weights(w.all), w.Ms)
    return [scaled(-1, row) for row in w.minus_J()], [scaled(-z, row) for z, row in zip(w.zetas[0], mean, strict=True)]


@form("sampled-stability", "one parameter")
def _(w: Cohorts) -> tuple[Any, Any]:
    # J = -tau sum_k u_k M_k
    return -w.minus_J()[0][0], -w.tau * sum(w.u(k) * w.Ms[k][0][0] for k in w.all)


@form("sampled-stability", "two parameters")
def _(w: Cohorts) -> tuple[Any, Any]:
    # det(-J) = A_1 A_2 (1 + q_1/A_1 + q_2/A_2), tr(-J) = A_1 + q_1 + A_2 + q_2
    J, (A, B), (q, r) = w.minus_J(), (w.A(0), w.A(1)), (w.q(0), w.q(1))
    return [det(J), J[0][0] + J[1][1]], [A * B * (1 + q / A + r / B), A + q + B + r]


@form("sampled-bias", "never farther")
@form("sampled-bias", "nearer")
def _(w: Cohorts) -> tuple[Any, Any]:
    # |theta - theta*|_i <= |bar theta - theta*|_i
    return sizes(minus(w.theta, w.star())), sizes(minus(w.bar(), w.star()))


@form("sampled-bias", "never nearer")
@form("sampled-bias", "repaired")
def _(w: Cohorts) -> tuple[Any, Any]:
    # |bar theta - theta*|_i <= |theta - theta*|_i
    return sizes(minus(w.bar(), w.star())), sizes(minus(w.theta, w.star()))


# --- the moving average --------------------------------------------------------------------------
@form("moving-average", "printed")
def _(w: Averages) -> tuple[Any, Any]:
    # Omega_k = |g_k|
    return w.printed, [b[0] for b in w.batches]


@form("moving-average", "repaired")
def _(w: Averages) -> tuple[Any, Any]:
    # Omega_k/(1 - mu^m_k) = |g_k|
    return w.corrected, [b[0] for b in w.batches]


@form("moving-average", "it cancels")
@form("moving-average", "equal numbers")
def _(w: Averages) -> tuple[Any, Any]:
    # zeta_printed = zeta_corrected
    return w.zeta(w.printed), w.zeta(w.corrected)


@form("moving-average", "distance")
def _(w: Averages) -> tuple[Any, Any]:
    # |zeta_printed^i - zeta_corrected^i| <= 1 - min_k (1 - mu^m_k)/max_k (1 - mu^m_k)
    away = sizes(minus(w.zeta(w.printed), w.zeta(w.corrected)))
    return away, [1 - min(w.left) / max(w.left)] * len(away)


# --- what the sides are made of ------------------------------------------------------------------
def quantities(w: Round | Cohorts | Averages) -> dict[str, Any]:
    """The parts of what is worked out, by the names of the library's views."""
    if isinstance(w, Round):
        named = {"mean": w.mean, "fedavg": w.bar, "star": w.star(), "zeta": w.z, "omega": w.O}
        return {**named, "delta": w.D, "step": w.after, "naive": w.naive, "L": w.L}
    if isinstance(w, Cohorts):
        M, u, v = w.Ms, [w.u(k) for k in w.all], [w.v(k) for k in w.all]
        named = {"M": M, "c": w.c, "u": u, "v": v, "mean_zeta": w.mean(w.zetas)}
        return {**named, "fedavg": w.bar(), "star": w.star()}
    return {"w": w.w, "factors": w.left, "printed": w.printed, "corrected": w.corrected}
