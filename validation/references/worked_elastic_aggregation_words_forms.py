"""Both sides of the forms about attraction, the poster's words and labels, each written from the
formula beside it."""

from __future__ import annotations

from fractions import Fraction
from itertools import chain
from typing import Any

import worked_elastic_aggregation as first
from worked_elastic_aggregation import Round, Vector, dot, form, minus, times
from worked_elastic_aggregation_words import Labelled, Near, squared_distance


def square(x: Vector) -> Fraction:
    return dot(x, x)


# --- all clients take part -----------------------------------------------------------------------
@form("exploration", "each parameter")
def _(w: Round) -> tuple[Any, Any]:
    # |naive move| where Omega^i <= tau Omega', else 0, is at most |move|
    naive = [abs(v) if o <= w.tau * max(w.O) else 0 for v, o in zip(minus(w.naive, w.theta), w.O, strict=True)]
    return naive, [abs(v) for v in minus(w.after, w.theta)]


@form("exploration", "the model")
def _(w: Round) -> tuple[Any, Any]:
    # |naive - theta|^2 <= |theta+ - theta|^2
    return square(minus(w.naive, w.theta)), square(minus(w.after, w.theta))


def losses(w: Round, x: Vector) -> Vector:
    return [dot(minus(x, c), times(H, minus(x, c))) / 2 for H, c in zip(w.H, w.c, strict=True)]


@form("every-client", "lower for every client")
def _(w: Round) -> tuple[Any, Any]:
    # f_k(theta+) <= f_k(theta)
    return losses(w, w.after), losses(w, w.theta)


@form("every-client", "naive")
def _(w: Round) -> tuple[Any, Any]:
    # f_k(naive) <= f_k(theta)
    return losses(w, w.naive), losses(w, w.theta)


@form("every-client", "less drift")
def _(w: Round) -> tuple[Any, Any]:
    # |theta+ - theta*|^2 <= |naive - theta*|^2
    return square(minus(w.after, w.star())), square(minus(w.naive, w.star()))


@form("every-client", "lower in the mean")
def _(w: Round) -> tuple[Any, Any]:
    # F(theta+) <= F(theta)
    return w.F(w.after), w.F(w.theta)


@form("every-client", "repaired")
def _(w: Round) -> tuple[Any, Any]:
    # F(theta+) + l eta (1 - eta (1 + tau) L/2) sum_i zeta^i (dF/dtheta_i)^2 <= F(theta)
    parts = [times(H, minus(w.theta, c)) for H, c in zip(w.H, w.c, strict=True)]
    gradient = [dot(w.weights(w.all), [p[i] for p in parts]) for i in range(w.d)]
    drop = w.lr * w.eta * w.room * sum(z * g * g for z, g in zip(w.z, gradient, strict=True))
    return w.F(w.after) + drop, w.F(w.theta)


# --- labels --------------------------------------------------------------------------------------
@form("unlabelled", "inputs are enough")
def _(w: Labelled) -> tuple[Any, Any]:
    # Omega_k = |2 S_k theta|
    return [*chain(*w.Omega(w.theta))], [*chain(*w.of_gram(w.theta))]


@form("unlabelled", "no trace of labels")
def _(w: Labelled) -> tuple[Any, Any]:
    # Omega_k after a round with labels, and with the others
    return [*chain(*w.Omega(w.after(w.labels)))], [*chain(*w.Omega(w.after(w.others)))]


@form("unlabelled", "as the loss")
def _(w: Labelled) -> tuple[Any, Any]:
    # where Omega^i > Omega^j: |loss gradient|_j, else 0, is at most |loss gradient|_i, rows i,
    # columns j
    O, g, d = first.weighted(w.w, w.Omega(w.theta)), w.loss(w.theta), range(w.d)
    return [g[j] if O[i] > O[j] else 0 for i in d for j in d], [g[i] for i in d for _ in d]


# --- attraction ----------------------------------------------------------------------------------
@form("sampled-attraction", "only where small steps do")
def _(w: Near) -> tuple[Any, Any]:
    # attracts in mean, 1 or 0 <= all Re lambda < 0
    return w.in_mean(w.eta), w.falls()


@form("sampled-attraction", "small steps")
def _(w: Near) -> tuple[Any, Any]:
    # at nine tenths of 1/tr E[J_C' X J_C]
    return 1, w.in_square(Fraction(9, 10) * w.limit())


@form("sampled-attraction", "as with all clients")
def _(w: Near) -> tuple[Any, Any]:
    # it attracts in mean
    return 1, w.in_mean(w.eta)


@form("sampled-attraction", "mean square as well")
def _(w: Near) -> tuple[Any, Any]:
    # in mean <= in mean square
    return w.in_mean(w.eta), w.in_square(w.eta)


@form("sampled-attraction", "mean square is more")
def _(w: Near) -> tuple[Any, Any]:
    # in mean square <= in mean
    return w.in_square(w.eta), w.in_mean(w.eta)


@form("sampled-attraction", "dominance")
def _(w: Near) -> tuple[Any, Any]:
    # A_i > 2 sum_j max(0, -q_ij) for all i <= all Re lambda < 0
    d = range(w.d)
    return int(all(w.A(i) > 2 * sum(max(0, -w.q_from(i, j)) for j in d) for i in d)), w.falls()


@form("sampled-attraction", "all take part")
def _(w: Near) -> tuple[Any, Any]:
    # at eta (1 + tau) L = 19/10
    return 1, w.in_square(Fraction(19, 10) / ((1 + w.tau) * w.L))


@form("sampled-attraction", "one parameter")
def _(w: Near) -> tuple[Any, Any]:
    # E(1 - eta tau m_C)^2 + eta tau (2 - eta tau L) E m_C <= 1
    step = w.eta * w.tau
    return w.mean([(1 - step * m) ** 2 for m in w.m()]) + step * (2 - step * w.L) * w.mean(w.m()), 1


@form("sampled-attraction", "one parameter, spread")
def _(w: Near) -> tuple[Any, ...]:
    # noise/(1 - r), by rounds from theta and from theta +- 2, is the formula; and the size of the
    # terms
    noise = w.mean([squared_distance(w, w.theta[0], C) for C in w.cohorts])
    away = w.mean([(squared_distance(w, w.theta[0] + 2, C) + squared_distance(w, w.theta[0] - 2, C)) / 2 for C in w.cohorts])
    step = w.eta * w.tau
    closed = step * w.mean([D[0] ** 2 for D in w.Deltas]) / (2 * w.mean(w.m()) - step * w.mean([m * m for m in w.m()]))
    return noise / (1 - (away - noise) / 4), closed, noise + closed
