"""Small statements and instances that several test files use."""

from fractions import Fraction

from fedtheory.algorithms import FedAvg
from fedtheory.theory import GradientSteps, Paper, Quadratics, SmoothConvex, le, printed, repaired
from fedtheory.theory.rounds.instances import Draw


def instance(h, c, start, **more):
    """An instance of quadratic losses h (x - c)^2/2 from rows of numbers."""
    equal = [str(Fraction(1, len(h)))] * len(h)
    as_text = {k: [[str(v) for v in row] for row in rows] for k, rows in (("h", h), ("c", c))}
    return Draw.from_data({"weights": equal, "rounds": 0, **as_text, "start": [str(v) for v in start], **more})


def descent(paper="test-descent", problems=None):
    """F(x+) <= F(x) - c ||grad F||^2/beta, c = 1 printed and 1/2 repaired."""
    made = Paper(paper)

    @made.statement(
        "lemma",
        about=FedAvg(),
        local=GradientSteps(1, lr=lambda c: 1 / c.beta),
        problems=problems or SmoothConvex((1, 3), (1, 2)),
    )
    def lemma(q):
        """Descent."""
        gain = q.gradient_sq / q.beta
        yield printed(
            le(q.F_next, q.F, -q.constant("c", 1) * gain), r"F(x^+) \le F(x) - \|\nabla F\|^2/\beta", fails=True
        )
        yield repaired(
            le(q.F_next, q.F, -q.constant("half", Fraction(1, 2)) * gain), r"F(x^+) \le F(x) - \|\nabla F\|^2/(2\beta)"
        )

    return made


def sentence(function, over="round", about=None, local=None, **more):
    """A statement about FedAvg made of a function of the quantities."""
    local = local or GradientSteps(1, lr=lambda c: 1 / (2 * c.beta))
    return Paper("test-sentence").statement(
        "it",
        about=about or FedAvg(),
        local=local,
        over=over,
        problems=more.pop("problems", Quadratics((1, 3), (1, 2))),
        **more,
    )(function)
