from fedtheory.algorithms import FedAvg
from fedtheory.theory import GradientSteps, Paper, SmoothConvex, le, printed

paper = Paper("my-lemma", title="A lemma of mine")

@paper.statement("descent", about=FedAvg(), local=GradientSteps(1, lr=lambda c: 1 / c.beta),
                 problems=SmoothConvex(clients=(1, 4)), over="round")
def descent(q):
    """One local step of everybody gains ||grad F||^2 / beta."""
    gain = q.gradient_sq / q.beta
    yield printed(le(q.F_next, q.F, -gain))
