"""FedAvg with compressed updates, with and without error feedback.

One round of all N clients, each with one gradient step of size eta, of which top-1 sends the
largest entry. Without feedback the round misses the plain step by the mean of what is left out.
Top-1 of d entries leaves at most (1 - 1/d) of a message's square, and the square is convex:

    ||x+ - (x - eta grad F(x))||^2 <= (1 - 1/d) eta^2 mean ||grad f_k(x)||^2.

With feedback R_k, what was left out of client k's messages so far, is added: D_k = R_k - eta grad
f_k(x) is compressed, C(D_k) is sent and R_k+ = D_k - C(D_k) is kept, so that nothing is lost:

    x+ + mean R_k+ = x + mean R_k - eta grad F(x).
"""

from fractions import Fraction

from fedtheory.algorithms import Compressed, FedAvg
from fedtheory.messages import TopK
from fedtheory.theory import (
    Full,
    GradientSteps,
    Paper,
    SmoothConvex,
    eq,
    form,
    le,
    repaired,
    upto,
    wrong,
)

paper = Paper("compressed-fedavg", title="Compressed FedAvg", source="An example of fedtheory")
ROUND = dict(
    local=GradientSteps(1, lr=upto(lambda c: 1 / c.beta)), sampling=Full(),
    problems=SmoothConvex(clients=(2, 4), dimension=(1, 3)),
    assumptions=("every f_k is beta-smooth", "all clients take part", "equal weights"),
)  # fmt: skip


@paper.statement(
    "what-is-missed", about=Compressed(FedAvg("cohort"), up=TopK(k=1), feedback=False), **ROUND
)
def what_is_missed(q):
    """Without feedback a round misses the plain step by what the compressor leaves out."""
    missed = q.sq(q.x_next - q.x + q.eta * q.gradient)
    left = q.eta**2 * q.over_clients(q.sq(q.client_gradients))
    yield repaired(
        le(missed, (1 - 1 / q.d) * left),
        r"\|x^+-(x-\eta\nabla F(x))\|^2\le\left(1-\frac1d\right)\frac{\eta^2}N"
        r"\sum_k\|\nabla f_k(x)\|^2",
        wrong("a tenth of it", share=Fraction(1, 10)),
        holds=True,
    )
    yield form("nothing", le(missed, 0 * left), r"x^+=x-\eta\nabla F(x)", fails=True)


@paper.statement("nothing-is-lost", about=Compressed(FedAvg("cohort"), up=TopK(k=1)), **ROUND)
def nothing_is_lost(q):
    """With error feedback a round of compressed messages loses nothing."""
    kept = q.state_next.residuals.mean(axis=-2) - q.state.residuals.mean(axis=-2)
    off = q.x_next - q.x + q.eta * q.gradient
    without = eq(q.sq(off + q.state_next.residuals.mean(axis=-2)), 0 * q.d)
    yield repaired(
        eq(q.sq(off + kept), 0 * q.d),
        r"x^++\frac1N\sum_kR_k^+=x+\frac1N\sum_kR_k-\eta\nabla F(x)",
        wrong("without the residuals before", without),
        holds=True,
    )
    yield form(
        "without the residuals", eq(q.sq(off), 0 * q.d), r"x^+=x-\eta\nabla F(x)", fails=True
    )
