"""A rate of gradient descent with its proof: two statements about a round, a theorem about a run,
and how much of the slack of each the theorem keeps.

With one step of size 1/beta and all clients a round of FedAvg is a step of gradient descent on F.
Against the minimiser x* it gains

    F(x+) - F* <= beta/2 (||x - x*||^2 - ||x+ - x*||^2),                              (one round)

and F(x+) <= F(x) (monotone). Summed over T rounds the first gives sum_t (F(x_t) - F*) <= beta/2
(||x_0 - x*||^2 - ||x_T - x*||^2); the distance at the end is dropped; and by the second the last
term of the sum is the least: round t's decrease is counted t - 1 times. So

    F(x_T) - F* <= beta ||x_0 - x*||^2/(2 T),

and its slack is exactly the sum of what the three steps leave, with the weights below.
`fedtheory proof docs/walked_proof.py::rate` puts the numbers of a run into it.
"""

from fedtheory.algorithms import FedAvg
from fedtheory.theory import GradientSteps, Paper, SmoothConvex, le, printed, repaired, step

paper = Paper("walked-proof", title="Gradient descent, with its proof", source="An example of fedtheory")
setting = {
    "about": FedAvg(),
    "local": GradientSteps(1, lr=lambda c: 1 / c.beta),
    "problems": SmoothConvex(clients=(1, 3), dimension=(1, 2)),
}


@paper.statement("one-round", over="round", **setting)
def one_round(q):
    """One step, against the minimiser."""
    yield repaired(
        le(q.gap_next, q.beta / 2 * q.distance_sq, -q.beta / 2 * q.distance_sq_next),
        holds=True,
    )


@paper.statement("monotone", over="round", **setting)
def monotone(q):
    """F does not grow."""
    yield repaired(le(q.F_next, q.F), holds=True)


@paper.statement("rate", over="run", rounds=(1, 5), **setting)
def rate(q):
    """The last iterate's suboptimality after T rounds."""
    start = q.beta * q.distance_sq[0]
    yield printed(le(q.gap[-1], start / (4 * q.T + 4)), fails=True)
    yield repaired(le(q.gap[-1], start / (2 * q.T)), holds=True)


STEPS = [
    step(one_round, weight=lambda q: 1 / q.T, why="one step of gradient descent, against the minimiser"),
    step(monotone, weight=lambda q: [(t - 1) / q.T for t in range(1, int(q.T) + 1)], why="so that the last iterate is the best"),
    step(
        "last distance", lambda q: le(0 * q.gap[-1], q.distance_sq[-1]), weight=lambda q: q.beta / (2 * q.T),
        why="the distance after the last round is not negative, and is dropped", formula=r"0 \le \|x_T - x^*\|^2",
    ),
]  # fmt: skip
TWICE = step(
    "half of the bound", lambda q: le(q.distance_sq[0] / (2 * q.T), q.distance_sq[0] / (4 * q.T + 4)), weight=lambda q: q.beta,
    why="printed is less than half of what the steps give", formula=r"\frac{\|x_0 - x^*\|^2}{2T} \le \frac{\|x_0 - x^*\|^2}{4T + 4}",
)  # fmt: skip
paper.proof(rate, steps=STEPS)
paper.proof(rate, form="printed", steps=[*STEPS, TWICE])
