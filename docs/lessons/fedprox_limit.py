"""Where FedProx ends: within O(1/mu) of the minimiser."""

from fractions import Fraction

from fedtheory.algorithms import FedProx
from fedtheory.authoring import Minimise, Paper, Quadratics, among, le, method, repaired

paper = Paper("fedprox-limit", title="Where FedProx ends", source="Lesson 6")


@paper.statement(
    "bias",
    about=method(FedProx, mu=among("1/2", 1, 4)),
    local=Minimise(),
    problems=Quadratics(clients=(1, 13), dimension=(1, 10)),
    over="fixed-point",
)
def bias(q):
    """FedProx ends within O(1/mu) of the minimiser."""
    left = (q.method.mu * q.mu_F) ** 2 * q.distance_sq
    right = (q.constant("c", Fraction(1, 2)) * q.beta) ** 2 * q.heterogeneity
    yield repaired(
        le(left, right),
        r"\mu\,\mu_F\,\|x_\infty - x_*\| \le \tfrac\beta2\, \zeta_*",
        holds=True,
    )
