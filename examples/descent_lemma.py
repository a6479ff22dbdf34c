"""The descent lemma of FedAvg with one local step: what a round of everybody gains, with a wrong
constant and with the right one.

With one step of size 1/beta and all clients, a round is x+ = x - grad F(x)/beta. F is
beta-smooth, so

    F(x+) <= F(x) + <grad F(x), x+ - x> + beta/2 ||x+ - x||^2 = F(x) - ||grad F(x)||^2 / (2 beta),

with equality for F(x) = beta x^2/2: the constant 1/2 cannot be raised. Convexity is not used.
"""

from fractions import Fraction

from fedtheory.algorithms import FedAvg
from fedtheory.theory import Full, GradientSteps, Paper, SmoothConvex, le, printed, repaired, wrong

paper = Paper(
    "descent-lemma", title="The descent lemma of FedAvg", source="An example of fedtheory"
)


@paper.statement(
    "lemma-1",
    about=FedAvg(),
    local=GradientSteps(1, lr=lambda c: 1 / c.beta),
    sampling=Full(),
    problems=SmoothConvex(clients=(1, 4), dimension=(1, 5)),
    over="round",
    assumptions=("every f_k is convex and beta-smooth", "all clients take one step of size 1/beta"),
    measures="loss after the round",
)
def lemma_1(q):
    """One local gradient step of everybody decreases F."""
    gain = q.gradient_sq / q.beta
    yield printed(le(q.F_next, q.F, -q.constant("c", 1) * gain), fails=True)
    yield repaired(
        le(q.F_next, q.F, -q.constant("half", Fraction(1, 2)) * gain),
        wrong("the norm not squared against its constant", le(q.F_next, q.F, -gain)),
        holds=True,
    )
