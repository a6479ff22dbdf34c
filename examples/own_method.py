"""A method that is defined in this file: relaxed averaging of P sampled clients, and what one
round of it is expected to gain.

The server moves a share alpha of the way to the mean of what its P clients send, each after one
gradient step of size eta:
x+ = x - s g with s = alpha eta and g the mean of grad f_k(x) over P of N clients, drawn without
replacement. With equal weights E g = grad F(x) and E||g - grad F(x)||^2 = (N - P)/(P (N - 1)) D,
where D = (1/N) sum_k ||grad f_k(x) - grad F(x)||^2. So by the descent lemma, for every s,

    E F(x+) <= F(x) - s (1 - beta s/2) ||grad F(x)||^2 + beta s^2/2 * (N - P)/(P (N - 1)) * D.

Left out, the last term is missed as soon as some client stays away; 1/P in place of (N - P)/(P
(N - 1)) is true, and loose.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedtheory.algorithms.base import Algorithm
from fedtheory.local import LocalObjective
from fedtheory.theory import (
    GradientSteps,
    Paper,
    SmoothConvex,
    Uniform,
    among,
    form,
    le,
    method,
    printed,
    repaired,
    upto,
)


class RelaxedState(NamedTuple):
    x: np.ndarray  # the server's model (S, d)


@dataclass(frozen=True)
class RelaxedAveraging(Algorithm):
    """x+ = x + alpha (mean of the clients' models - x)."""

    alpha: float
    name = "relaxed-averaging"

    def init(self, x, num_clients):
        return RelaxedState(x)

    def round(self, state, clients):
        x = clients.broadcast(state.x)
        y = clients.minimise(LocalObjective(center=x), start=x).y
        update = clients.send(y - x)  # what arrives of it
        return RelaxedState(state.x + self.alpha * clients.mean(update))


paper = Paper("relaxed-averaging", title="Relaxed averaging", source="An example of fedtheory")


@paper.statement(
    "expected-descent",
    about=method(RelaxedAveraging, alpha=among("1/2", 1, "3/2")),
    local=GradientSteps(1, lr=upto(lambda c: 2 / c.beta)),
    sampling=Uniform,  # cohorts of every size
    problems=SmoothConvex(clients=(2, 4), dimension=(1, 3)),
    assumptions=("every f_k is beta-smooth", "P of N clients, uniformly, without replacement", "equal weights"),
)
def expected_descent(q):
    """One round in expectation over its cohort."""
    s = q.method.alpha * q.eta
    gain, noise = s * (1 - q.beta * s / 2) * q.gradient_sq, q.beta * s**2 / 2 * q.dissimilarity
    left_out = (q.N - q.P) / (q.P * (q.N - 1))
    yield printed(le(q.F_next, q.F, -gain), fails=True)
    yield repaired(
        le(q.F_next, q.F, -gain, q.constant("variance", 1) * left_out * noise), holds=True
    )
    yield form("with replacement", le(q.F_next, q.F, -gain, noise / q.P), holds=True)
