"""A statement of anyone's about runs with irregular clients: FedAvg with a constant step.

A gradient step of size eta <= 1/L on f_k leads to ||y^+ - x*||^2 <= ||y - x*||^2 + 2 eta D_k +
eta^2 sigma_k^2 in the mean, and FedAvg to a mean of such points, or nowhere if nobody takes part.
"""

from fedtheory.algorithms import FedAvg
from fedtheory.theory import IrregularRun, Paper, le, method, printed, repaired, wrong

paper = Paper("irregular-fedavg", title="FedAvg with irregular clients")


class ConstantStep(IrregularRun):
    """Runs of FedAvg, the mean of those who take part, with eta = 1/(2L)."""

    kind = "constant-step"

    @classmethod
    def method(cls, rule):
        return FedAvg(aggregation="cohort")

    @classmethod
    def steps(cls, constants):
        return [1 / (2 * constants.L)] * constants.T


def bound(q, gap=1, noise=1):
    """Sides of E||x_t - x*||^2 <= ||x_0 - x*||^2 + t E (2 eta max D_k + eta^2 max sigma_k^2)."""
    q, eta = q.later, 1 / (2 * q.L)
    pushed = q.horizons * q.E * (gap * 2 * eta * q.D.max() + noise * eta**2 * q.sigma_sq.max())
    return le(q.lhs, q.start_sq + pushed)


@paper.statement("drift", over=ConstantStep, about=method(FedAvg, aggregation="cohort"))
def drift(q):
    """How far a run of FedAvg may drift."""
    yield printed(
        lambda: bound(q, gap=0),
        r"\mathbb E\|x_t-x^*\|^2\le\|x_0-x^*\|^2+tE\eta^2\sigma^2",
        fails=True,
    )
    yield repaired(
        lambda: bound(q), r"\mathbb E\|x_t-x^*\|^2\le\|x_0-x^*\|^2+tE(2\eta D+\eta^2\sigma^2)",
        wrong("without the noise", lambda: bound(q, noise=0)), holds=True, proof="note",
        note="convexity and smoothness of every step, Jensen for the mean",
    )  # fmt: skip
