"""A textbook theorem with a wrong constant, refuted in seconds: gradient descent on smooth
convex functions.

FedAvg with one local step of size 1/beta and all clients is gradient descent on F. Drori and
Teboulle (2014, Theorem 1) proved F(x_T) - F* <= beta ||x_0 - x*||^2 / (4 T + 2), and that it is
attained by a Huber function. Printed here with 4 T + 4; the bound of many lecture notes, beta
||x_0 - x*||^2 / (2 T), is true and loose.
"""

from fedtheory.algorithms import FedAvg
from fedtheory.theory import GradientSteps, Paper, SmoothConvex, form, le, printed, repaired

paper = Paper(
    "gradient-descent", title="Gradient descent", source="Drori and Teboulle 2014, Theorem 1"
)


@paper.statement(
    "rate",
    about=FedAvg(),
    local=GradientSteps(1, lr=lambda c: 1 / c.beta),
    problems=SmoothConvex(clients=(1, 2), dimension=(1, 2)),
    over="run",
    rounds=(1, 5),
    assumptions=("every f_k is convex and beta-smooth", "all clients take one step of size 1/beta"),
    measures="suboptimality of the last iterate",
)
def rate(q):
    """The last iterate's suboptimality after T rounds."""
    start = q.beta * q.distance_sq[0]
    yield printed(le(q.gap[-1], start / (4 * q.T + 4)), fails=True)
    yield repaired(le(q.gap[-1], start / (4 * q.T + q.constant("offset", 2))), holds=True)
    yield form("lecture notes", le(q.gap[-1], start / (2 * q.T)), holds=True)
